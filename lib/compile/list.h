/* list.h: the commands of a program before they get memory, and lists of
 * launches that one call of the device runs. */
#ifndef TN_LIB_COMPILE_LIST_H
#define TN_LIB_COMPILE_LIST_H

#include <compile/capture.h>

/* A command with the values that it reads and writes. */
typedef struct tn__entry {
    tn__command *command; /* owned */
    tn__use *use;         /* owned: the command's accesses, in their order */
    uint32_t use_count;
    size_t number;        /* the command's number in the report */
    struct tn__entry *with; /* owned: the next launch of its list */
} tn__entry;

typedef struct tn__entries {
    tn__entry **entry; /* owned array of owned entries */
    size_t count, room;
} tn__entries;

/* Appends a command, which the entries take over, also on failure. value[i] is
 * the value of its i-th access. Returns false with the error recorded if memory
 * runs out. */
bool tn__entries_add(tn__entries *entries, tn__command *command,
                     const uint32_t *value);
/* Frees the entries, and their commands unless they are NULL. */
void tn__entries_release(tn__entries *entries);

/* Moves launches of a program to an earlier launch of the same program, and makes
 * a list of them. The launches of a list do not depend on each other. They
 * differ in their operands, sizes and numbers. */
void tn__entries_gather(tn__entries *entries, const tn__capture *capture);

#endif
