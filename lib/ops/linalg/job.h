/* job.h: the data of one call of a `host` row. */
#ifndef TN_LIB_OPS_JOB_H
#define TN_LIB_OPS_JOB_H

#include <ops/linalg/lapack.h>

/* Staged matrices, workspace, and LAPACK's info for each matrix of a (none if
 * they are empty). It owns all of it. */
typedef struct tn__job {
    const tn__lapack *lapack;
    const char *name;
    tn__staged a, b;
    int64_t matrices; /* size of a's batch; 0 if they are empty */
    int *info, *pivots, *iwork;
    void *work, *extra;
} tn__job;

/* Stages argument `arg` as a. End it with tn__job_end, also after a failure. */
tn_status tn__job_begin(const tn__call *call, tn__job *j, int arg,
                        tn__staging how);
void tn__job_end(tn__job *j);

/* Rejects a if it is not square. x is the argument. */
tn_status tn__job_square(const tn__job *j, const tn_tensor *x,
                         const char *argument);
/* Reports the first matrix for which LAPACK failed. */
tn_status tn__job_refuse(const tn__job *j, const char *why);

/* Allocates integers, all 0, and workspace for `count` elements of a's
 * dtype. */
tn_status tn__job_ints(int **list, int64_t count);
tn_status tn__job_workspace(void **room, const tn__job *j, int64_t count);

/* Adds an output to the call. _rows: only the first rows of each matrix. _ints:
 * `width` integers for each matrix of a (tn__unstage_ints), 0 if it is
 * empty. */
tn_status tn__job_give(tn__call *call, const tn__staged *s);
tn_status tn__job_give_rows(tn__call *call, const tn__staged *s, int64_t rows);
tn_status tn__job_give_ints(tn__call *call, const tn__job *j, const int *number,
                            int64_t width);

#endif
