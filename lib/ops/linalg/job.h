/* job.h: the data of one call of an operator with the flag `host`, which runs a
 * LAPACK routine on the host for each matrix of a batch. */
#ifndef TN_LIB_OPS_JOB_H
#define TN_LIB_OPS_JOB_H

#include <ops/linalg/lapack.h>

/* The matrices, workspace and status of a call. A job owns all of them except
 * lapack and name. */
typedef struct tn__job {
    const tn__lapack *lapack;
    const char *name; /* the operator that messages name */
    tn__staged a, b;  /* the matrices to work on: a from an argument, b the
                         right-hand sides or a second result */
    int64_t matrices; /* the number of matrices in a, or 0 if the matrices have
                       * no elements */
    int *info, *pivots, *iwork; /* info[k] is LAPACK's status of matrix k. The
                                   other two are pivots and workspace. */
    void *work, *extra;
} tn__job;

/* Begins a job and stages argument `arg` as j->a (copies it to host memory as
 * LAPACK requires it). The caller ends the job with tn__job_end, also after a
 * failure. */
tn_status tn__job_begin(const tn__call *call, tn__job *j, int arg,
                        tn__staging how);
void tn__job_end(tn__job *j);

/* Checks that the matrices in j->a are square. x and `argument` are the tensor
 * and the name of the argument, for the message. */
tn_status tn__job_square(const tn__job *j, const tn_tensor *x,
                         const char *argument);
/* Checks that LAPACK succeeded for all matrices. If not, reports the first one
 * that failed. */
tn_status tn__job_refuse(const tn__job *j, const char *why);

/* Allocate memory that the job owns: tn__job_ints `count` integers that are 0,
 * tn__job_workspace `count` elements of the dtype of j->a. */
tn_status tn__job_ints(int **list, int64_t count);
tn_status tn__job_workspace(void **room, const tn__job *j, int64_t count);

/* Add one output to the call. tn__job_give adds the matrices s.
 * tn__job_give_rows adds the first `rows` rows of each matrix.
 * tn__job_give_ints adds `width` integers for each matrix of j->a, or zeros if
 * the matrices have no elements (tn__unstage_ints). */
tn_status tn__job_give(tn__call *call, const tn__staged *s);
tn_status tn__job_give_rows(tn__call *call, const tn__staged *s, int64_t rows);
tn_status tn__job_give_ints(tn__call *call, const tn__job *j, const int *number,
                            int64_t width);

#endif
