/* <tenon/error.h>: what went wrong, in words and as data.
 *
 * A failed call returns NULL or a negative status and leaves the thread's
 * first message in tn_error() until tn_error_clear(). So does one that is given
 * NULL where something is needed: after another failure that one's message
 * stays, else there is "optim_step: optim is NULL". Attributes of NULL are NULL
 * or 0, and nothing is recorded. What the message tells
 * can also be asked for:
 *
 *     const tn_error_details *e = tn_error_info();
 *     if (e && e->code == TN_ERR_SHAPE && e->odd >= 0)
 *         printf("%s of %s was made by %s in %s\n", e->argument, e->op,
 *                e->tensor[e->odd]->made_by, e->tensor[e->odd]->made_in);
 *
 * Threads: Every thread has its own pending error and path; what a call here
 * lends belongs to the calling thread. A path itself is shared by all and
 * lives for ever. An error in a thread that the library started (a loader's
 * worker) is reported to the thread that waits for its result.
 */
#ifndef TENON_ERROR_H
#define TENON_ERROR_H

#include <stdbool.h>
#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the message ---------------------------------------------------------- */

/* The calling thread's first message since the last clear; NULL when there is
 * none. One line: "encoder.3.fc: linear: ...", the path of the module that
 * was running, if one was, then the operator. Lent: good until
 * tn_error_clear() of this thread. Cannot fail. */
TN_API const char *tn_error(void);

/* Its code, TN_OK when there is none. Cannot fail. */
TN_API tn_status tn_error_code(void);

/* Forgets the calling thread's message. Cannot fail. */
TN_API void tn_error_clear(void);

/* Records an error of your own, printf-style, unless one is pending. Returns
 * code. For code that is built on Tenon: modules, data sets. */
TN_API tn_status tn_error_set(tn_status code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* Called with each error where it arises, before the call that failed returns, in
 * the thread in which it arises: to log it, to stop in a debugger, to abort. So a
 * program that forgot to check a result does not go on without a word. One error
 * is told of once: not again when it is passed on, or to the thread that waits for
 * a worker. Words may still change on the way out, when the operator that the
 * program called puts in its own name; tn_error() has them then. What the library
 * tries and does without is not told of, nor what fails while an error is pending.
 * message is lent until the handler returns. The handler may be called by several
 * threads at once and may use the library; of what fails in it nobody is told.
 *
 *     static void stop(tn_status code, const char *message, void *context)
 *     {
 *         fprintf(stderr, "%s\n", message);
 *         abort();
 *     }
 *     tn_error_handler_set(stop, NULL);
 *
 * One handler serves the whole process; NULL takes it away. Cannot fail. */
typedef void (*tn_error_handler)(tn_status code, const char *message,
                                 void *context);
TN_API void tn_error_handler_set(tn_error_handler handler, void *context);

/* "ERR_SHAPE" for TN_ERR_SHAPE; "unknown" for what is none. Cannot fail. */
TN_API const char *tn_status_name(tn_status code);

/* ---- what the message tells, as data -------------------------------------- */

/* A tensor that the failed operator was given. */
typedef struct tn_error_tensor {
    size_t size;            /* of this struct */
    const char *argument;   /* "weight" */
    int32_t index;          /* in an argument that is a list; else -1 */
    tn_dtype dtype;
    int32_t ndim;
    int64_t shape[TN_MAX_NDIM];
    const char *device;     /* "cpu:0" */
    const char *made_by;    /* "relu", "tensor_from_array": its last maker; of a
                               parameter the layer, "Linear"; "": not known */
    const char *made_in;    /* that one's module path: "encoder.3"; "": none */
} tn_error_tensor;

typedef struct tn_error_details {
    size_t size;            /* of this struct */
    tn_status code;
    const char *message;    /* as tn_error() */
    const char *path;       /* of the module that was running: "encoder.3.fc";
                               "" outside of any */
    const char *called;     /* the operator that the program (or a module)
                               called, or the layer, optimizer or other call
                               that refused what it was given: "loader_new";
                               NULL where none was running */
    const char *op;         /* that of which argument and tensor tell: called;
                               in a backward that which failed, which may be
                               one that was run again (tn_recompute). Of a call
                               that is no operator its name, "set_grad" */
    const char *argument;   /* op's argument that is at fault, as the code that
                               failed gave it (of several that clash, the first
                               that the message names); NULL: none by itself */
    int32_t tensor_count;   /* op's tensors: the first TN_ERROR_TENSORS, each */
    const tn_error_tensor *const *tensor; /* in its own struct */
    int32_t odd;            /* which of them is `argument`; -1: none */
    bool has_index;         /* of TN_ERR_INDEX, and of a dimension that a tensor
                               has not (TN_ERR_ARGUMENT): */
    int64_t index;          /* the value that */
    int64_t index_low;      /* is below this, the least that is allowed, */
    int64_t index_bound;    /* or not below this */
    int32_t position_ndim;  /* of a tensor or list of indices, where in it: this
                               many coordinates; 0: it is an argument itself.
                               Of what an asynchronous device tells later, where
                               argument is NULL, in the space of what it
                               computed */
    int64_t position[TN_MAX_NDIM];
    const char *cause;      /* the operator inside of op in which it arose; NULL:
                               op itself */
} tn_error_details;

#define TN_ERROR_TENSORS 8

/* The calling thread's pending error; NULL when there is none. Lent: good until
 * the next call of this, or of tn_error_clear, in this thread. Cannot fail. */
TN_API const tn_error_details *tn_error_info(void);

/* ---- where a thread stands -------------------------------------------------
 * Which module is running. tn_forward keeps it; who runs parts of a program
 * without modules can name them too. A path is interned: equal ones are the
 * same pointer, which is good for ever. NULL is the path outside of all. */

typedef struct tn_path tn_path;

/* outer's "encoder" and name "3" make "encoder.3". Where memory runs out, or
 * name is NULL or empty, outer itself. */
TN_API const tn_path *tn_path_join(const tn_path *outer, const char *name);
/* Makes path that of the calling thread; returns the one before, to which the
 * caller goes back. Cannot fail. */
TN_API const tn_path *tn_path_enter(const tn_path *path);
/* The calling thread's. Cannot fail. */
TN_API const tn_path *tn_path_current(void);
/* What path was joined to. Cannot fail. */
TN_API const tn_path *tn_path_outer(const tn_path *path);
/* "encoder.3"; "" for NULL. Cannot fail. */
TN_API const char *tn_path_text(const tn_path *path);

#ifdef __cplusplus
}
#endif
#endif
