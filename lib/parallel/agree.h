/* agree.h: how the ranks of a group learn whether all of them have succeeded.
 * A collective is refused while an error is pending, and ends the job. Here an
 * error of one rank becomes an error of all, and the job goes on. */
#ifndef TN_LIB_PARALLEL_AGREE_H
#define TN_LIB_PARALLEL_AGREE_H

#include <tenon/dist.h>

typedef struct tn__report {
    int64_t status;  /* set by tn__agree */
    uint64_t hash;   /* for the caller, and the next three */
    int64_t bytes, serial;
    char name[64];
    char text[400];  /* set by tn__agree: the message of an error */
} tn__report;

/* Exchanges the reports of all ranks: all has one for each rank. An error that
 * is pending is reported to the others, and its status and message are set on
 * all ranks: those of the first rank that has one. Returns TN_OK if no rank has
 * an error. */
tn_status tn__agree(tn_group *group, const char *call, tn__report *own,
                    tn__report *all);

#endif
