/* <tenon/error.h>: errors, as a message and as data.
 *
 * A failed call returns NULL or a negative status. The first message of a
 * thread stays in tn_error() until tn_error_clear(). A call that gets NULL for
 * a required argument fails, too. If an error is pending, its message stays;
 * otherwise the message is "optim_step: optim is NULL". A call that only reads
 * an attribute of an object returns NULL or 0 for NULL, and records no error.
 * So a program may check once, after many calls. Variables for further results
 * (out[], out_indices) do not change on failure, unless a call's comment says
 * so. Initialise them with NULL if you check later.
 * The contents of the message are available as data:
 *
 *     const tn_error_details *e = tn_error_info();
 *     if (e && e->code == TN_ERR_SHAPE && e->odd >= 0)
 *         printf("%s of %s was made by %s in %s\n", e->argument, e->op,
 *                e->tensor[e->odd]->made_by, e->tensor[e->odd]->made_in);
 *
 * Threads: Each thread has its own pending error and its own current path.
 * What a call here lends belongs to the calling thread, except a tn_path, which
 * is valid in all threads until the process ends. An error in a thread that the
 * library started (a loader's worker) is reported to the thread that waits for
 * its result.
 */
#ifndef TENON_ERROR_H
#define TENON_ERROR_H

#include <stdbool.h>
#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the message --------------------------------------------------------- */

/* Returns the calling thread's first message since the last tn_error_clear(),
 * or NULL if there is none. It is one line, "encoder.3.fc: linear: ...": the
 * path of the module that was running, if any, then the operator. The string is
 * valid until this thread calls tn_error_clear(). Cannot fail. */
TN_API const char *tn_error(void);

/* Returns the code of the pending error, or TN_OK if there is none. Cannot
 * fail. */
TN_API tn_status tn_error_code(void);

/* Removes the calling thread's pending error. Cannot fail. */
TN_API void tn_error_clear(void);

/* Records an error with a printf-style message, unless an error is pending.
 * Returns code. For code built on Tenon: modules, data sets. A function that
 * returns a pointer ends with
 *
 *     return tn_error_set(TN_ERR_IO, "%s: %s", path, strerror(errno)), NULL;
 */
TN_API tn_status tn_error_set(tn_status code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* Puts a formatted prefix and ": " before the pending error's message. The
 * details that tn_error_info returns do not change. A loop can report its
 * position this way:
 *
 *     tn_error_prefix("epoch %d, step %d", epoch, step);
 *     // "epoch 3, step 17: encoder.3.fc: linear: ..."
 *
 * All prefixes of an error together are cut at 95 bytes. Does nothing if no
 * error is pending or format is NULL. Cannot fail. */
TN_API void tn_error_prefix(const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 1, 2)))
#endif
    ;

/* A function that is called with each error when it arises: in the thread where
 * it arises, before the failed call returns. It can log the error, stop in a
 * debugger, or abort, so that a program that forgets to check a result does not
 * continue unnoticed.
 *
 * The handler is called once for each error, and not again when the error is
 * passed on or reported to the thread that waits for a worker. The final text
 * in tn_error() may differ, because the operator that the program called puts
 * its own name at the beginning. The handler is not called for a failure that
 * the library recovers from, nor for a failure while an error is pending.
 * message is lent until the handler returns. Several threads may call the
 * handler at once. It may call the library; for errors in those calls it is not
 * called.
 *
 *     static void stop(tn_status code, const char *message, void *context)
 *     {
 *         fprintf(stderr, "%s\n", message);
 *         abort();
 *     }
 *     tn_error_handler_set(stop, NULL);
 *
 * The process has one handler; NULL removes it. Cannot fail. */
typedef void (*tn_error_handler)(tn_status code, const char *message,
                                 void *context);
TN_API void tn_error_handler_set(tn_error_handler handler, void *context);

/* Returns a code's name: "ERR_SHAPE" for TN_ERR_SHAPE, "unknown" for an invalid
 * code. Cannot fail. */
TN_API const char *tn_status_name(tn_status code);

/* ---- the error as data --------------------------------------------------- */

/* A tensor that was an argument of the failed operator. */
typedef struct tn_error_tensor {
    size_t size;            /* sizeof(tn_error_tensor) */
    const char *argument;   /* name of the argument: "weight" */
    int32_t index;          /* index in a list argument; -1 if the argument is
                               not a list */
    tn_dtype dtype;
    int32_t ndim;
    int64_t shape[TN_MAX_NDIM];
    const char *device;     /* name of its device: "cpu:0" */
    const char *made_by;    /* the operator that last made or changed the
                               tensor: "relu", "tensor_from_array"; for a
                               parameter its layer, "Linear"; "" if not known */
    const char *made_in;    /* path of the module that ran this operator,
                               "encoder.3"; "" if there was none */

} tn_error_tensor;

typedef struct tn_error_details {
    size_t size;            /* sizeof(tn_error_details) */
    tn_status code;
    const char *message;    /* the message that tn_error() returns */
    const char *path;       /* path of the module that was running,
                               "encoder.3.fc"; "" outside of modules */
    const char *called;     /* the operator that the program (or a module)
                               called; or the layer, optimizer or other call
                               that rejected its arguments: "loader_new"; NULL
                               if none was running */
    const char *op;         /* the operator that argument and tensor refer to.
                               The same as called, except in a backward pass:
                               there it is the operator that failed, which may
                               be one that ran again (tn_recompute). For a call
                               that is not an operator, its name: "set_grad" */
    const char *argument;   /* the argument of op that is wrong; the first one
                               in the message if several do not fit each other;
                               NULL if the error is not about an argument */
    int32_t tensor_count;   /* number of tensors of op that are described, at
                               most TN_ERROR_TENSORS */
    const tn_error_tensor *const *tensor; /* tensor[i] describes tensor i */
    int32_t odd;            /* index of `argument` in tensor[]; -1 if it is not
                               there */
    bool has_index;         /* true for TN_ERR_INDEX, and for TN_ERR_ARGUMENT of
                               a dimension out of range. The fields up to
                               position are then set */
    int64_t index;          /* the value that is out of range */
    int64_t index_low;      /* the smallest value allowed */
    int64_t index_bound;    /* the largest value allowed, plus 1 */
    int32_t position_ndim;  /* if the index is an element of a tensor or list,
                               the number of its coordinates in position; 0 if
                               it is the argument itself. For an error that an
                               asynchronous device reports later, argument is
                               NULL and position is in the space of the
                               computed result */
    int64_t position[TN_MAX_NDIM];
    const char *cause;      /* the operator inside op that failed; NULL if it
                               was op itself */
} tn_error_details;

#define TN_ERROR_TENSORS 8

/* Returns the calling thread's pending error, or NULL if there is none. The
 * struct is valid until this thread calls tn_error_info or tn_error_clear
 * again. Cannot fail. */
TN_API const tn_error_details *tn_error_info(void);

/* ---- module paths ----------------------------------------------------------
 * The path of the module that the thread is running. tn_forward maintains it;
 * a program without modules can name its own parts. Paths are interned: equal
 * paths are the same pointer, which stays valid. NULL is the empty path. */

typedef struct tn_path tn_path;

/* Joins outer "encoder" and name "3" to "encoder.3". Returns outer if name is
 * NULL or empty, or if memory runs out. Cannot fail. */
TN_API const tn_path *tn_path_join(const tn_path *outer, const char *name);
/* Makes path the calling thread's current one. Returns the previous path, which
 * the caller restores afterwards. Cannot fail. */
TN_API const tn_path *tn_path_enter(const tn_path *path);
/* Returns the calling thread's current path. Cannot fail. */
TN_API const tn_path *tn_path_current(void);
/* Returns the path without its last name. Returns NULL if path is NULL. Cannot
 * fail. */
TN_API const tn_path *tn_path_outer(const tn_path *path);
/* Returns a path as a string: "encoder.3", or "" if path is NULL. Cannot
 * fail. */
TN_API const char *tn_path_text(const tn_path *path);

#ifdef __cplusplus
}
#endif
#endif
