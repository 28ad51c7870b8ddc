/* instance.h: the instances of a frozen program, one for each thread that runs
 * it at the same time as others. */
#ifndef TN_LIB_COMPILE_INSTANCE_H
#define TN_LIB_COMPILE_INSTANCE_H

#include <compile/program.h>

/* A lock of the caller guards it. All instances are owned. */
typedef struct tn__instances {
    tn__replayed *pattern;  /* never runs: instances are made of it, also while
                             * the program itself runs */
    tn__replayed *program;  /* the program, not owned; NULL while it runs */
    tn__replayed **free;    /* instances that do not run */
    size_t count, room;
    size_t made;            /* how many instances exist */
} tn__instances;

/* Records an error and returns false if memory runs out. */
bool tn__instances_open(tn__instances *all, tn__replayed *program);
/* Returns the program or an instance that no other thread runs, until
 * tn__instance_give. Returns NULL with the error recorded if memory runs
 * out. */
tn__replayed *tn__instance_take(tn__instances *all);
void tn__instance_give(tn__instances *all, tn__replayed *instance);
/* Frees the instances, none of which runs. */
void tn__instances_release(tn__instances *all);

#endif
