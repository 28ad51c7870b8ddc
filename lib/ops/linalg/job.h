/* job.h: one call of a `host` row. */
#ifndef TN_LIB_OPS_JOB_H
#define TN_LIB_OPS_JOB_H

#include <ops/linalg/lapack.h>

/* Staged matrices, room to work in, and LAPACK's info for each matrix of a; none
 * where they are empty. All of it is owned. */
typedef struct tn__job {
    const tn__lapack *lapack;
    const char *name;
    tn__staged a, b;
    int64_t matrices; /* a's batch; 0 where they are empty */
    int *info, *pivots, *iwork;
    void *work, *extra;
} tn__job;

/* Stages argument `arg` as a. End it with tn__job_end, also after a failure. */
tn_status tn__job_begin(const tn__call *call, tn__job *j, int arg,
                        tn__staging how);
void tn__job_end(tn__job *j);

/* Refuses a that is not square, which x was. */
tn_status tn__job_square(const tn__job *j, const tn_tensor *x,
                         const char *argument);
/* The first matrix that LAPACK could not do, as an error. */
tn_status tn__job_refuse(const tn__job *j, const char *why);

/* Whole numbers, all 0; room for numbers of a's type. */
tn_status tn__job_ints(int **list, int64_t count);
tn_status tn__job_workspace(void **room, const tn__job *j, int64_t count);

/* Hands an output on; of each matrix no more than these rows; `width` whole
 * numbers for each matrix of a (tn__unstage_ints), 0 where it has no elements. */
tn_status tn__job_give(tn__call *call, const tn__staged *s);
tn_status tn__job_give_rows(tn__call *call, const tn__staged *s, int64_t rows);
tn_status tn__job_give_ints(tn__call *call, const tn__job *j, const int *number,
                            int64_t width);

#endif
