/* access.h: the memory that a recorded command reads and writes. */
#ifndef TN_LIB_DEVICE_ACCESS_H
#define TN_LIB_DEVICE_ACCESS_H

#include <device/command.h>

/* One operand of a command. The command can be moved to other memory by
 * changing *buffer and *offset. */
typedef struct tn__access {
    tn_buffer **buffer;  /* points into the command */
    int64_t *offset;     /* points into the command; in units of `unit` bytes */
    uint32_t unit;
    bool reads, writes;
    /* The bytes of the buffer from the first byte of the operand up to but not
     * including the byte after its last. low == high for an operand without
     * elements. */
    int64_t low, high;
} tn__access;

/* The largest number of operands of a command. */
enum { TN__ACCESS_MAX = 32 };

/* Lists the operands of a command that have a buffer, and returns their
 * number. */
int tn__command_accesses(tn__command *command,
                         tn__access access[TN__ACCESS_MAX]);

#endif
