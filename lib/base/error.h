/* error.h: records errors and their details, writes the log, and builds texts
 * of unknown length. While an error of a thread is pending, the thread's later
 * errors are ignored. */
#ifndef TN_LIB_BASE_ERROR_H
#define TN_LIB_BASE_ERROR_H

#include <base/location.h>

#include <stdarg.h>
#include <tenon/base.h>

#define TN__PRINTF(f, a) __attribute__((format(printf, f, a)))
/* Marks functions that only failing calls reach. Compilers treat a branch to a
 * cold function as unlikely and move its code out of the hot path. */
#define TN__COLD __attribute__((cold))

/* Records an error with a code and a text, unless an error is pending. Returns
 * code.
 *
 * A message reads "function: problem". The function's name begins the format,
 * literally or as "%s: ". Braces in the format mark each argument of the
 * function that the text mentions. The braces are not shown:
 *
 *     {input} %s           names the argument "input"
 *     {%s}                 the argument's name is printed from a value
 *     {tensors[%d]}        names an element of an argument that is a list
 *     {dims:dim}           names "dims", but shows "dim"
 *     {input:}             names "input", but shows nothing
 *     {!other}             names "other" and says that it is at fault
 *
 * tn_error_info returns the argument marked with ! as the argument at fault; if
 * none has !, the first marked argument. Marks are recognised in the format
 * only, never in printed values. The arguments that marks name are stored
 * beside the text. Other braces, as in "{.dim = 1}", stay. */
TN__COLD tn_status tn__fail(tn_status code, const char *format, ...)
    TN__PRINTF(2, 3);
/* Records the error "who: text". The text was assembled at run time and may
 * have marks. It must come from the library itself, not from a user. */
TN__COLD tn_status tn__fail_marked(tn_status code, const char *who,
                                   const char *text);
/* Records an error whose format comes from outside the library, so braces are
 * not marks. */
TN__COLD tn_status tn__fail_va(tn_status code, const char *format,
                               va_list args);
/* Records an error as tn__fail does, and returns NULL, for functions that
 * return a pointer. */
TN__COLD void *tn__fail_null(tn_status code, const char *format, ...)
    TN__PRINTF(2, 3);

/* An index that is outside [low, bound). */
typedef struct tn__error_index {
    enum {
        TN__INDEX_NONE,
        TN__INDEX_GIVEN,   /* index and position are those of the message */
        TN__INDEX_IN_SPACE /* the position is in a kernel's iteration space; the
                            * index tensor is not determined yet */
    } given;
    int64_t value, low, bound;
    int ndim; /* dimensions of the index tensor; 0 if the index is itself an
               * argument */
    int64_t position[TN_MAX_NDIM];
} tn__error_index;
/* Describes an index that is element `number`, in row-major order, of an index
 * tensor of this shape. */
tn__error_index tn__error_index_in(int64_t value, int64_t low, int64_t bound,
                                   int64_t number, int ndim,
                                   const int64_t *shape);
/* Records an error as tn__fail does, with an index for tn_error_info. The code
 * is TN_ERR_INDEX for an index of elements, TN_ERR_ARGUMENT for a dimension. */
TN__COLD tn_status tn__fail_outside(tn_status code, tn__error_index index,
                                    const char *format, ...) TN__PRINTF(3, 4);

/* Whether an error of this thread is pending. Calls that change state then do
 * nothing and return TN_ERR_STATE. Cannot fail. */
bool tn__error_pending(void);

/* ---- details of an error besides its text -------------------------------- */

/* An argument of the failed function that the message mentions. */
typedef struct tn__error_mark {
    char name[40];
    int index;        /* index in an argument that is a list; else -1 */
    bool is_at_fault; /* true if marked {!name} */
    short at, length; /* position and length in the text, in bytes */
} tn__error_mark;
enum { TN__ERROR_MARKS = 8 }; /* no message has as many marks */

/* Details of an error. The function that fails sets `who` and the marks. While
 * the error is returned through operator calls, ops/engine/details.c adds the
 * rest: the call's tensors, and which of its arguments is at fault. */
typedef struct tn__error_facts {
    int who; /* length of the function's name that begins the text; 0 if there
              * is none */
    int mark_count;
    tn__error_mark mark[TN__ERROR_MARKS];
    /* The operator that was running when the error arose. Once that operator's
     * call has added its details, the operator around it. */
    const tn__running_op *running;
    const tn_path *path;
    const char *called, *op, *cause, *argument; /* these have the meaning they
                                                 * have in tn_error_details */
    bool is_row;                                /* programs cannot call op */
    bool reported; /* true if the handler was called */
    bool foreign;  /* true if the text names arguments of `cause`, not of op */
    int tensor_count, odd;
    tn__error_index index;
    struct tn__error_tensor {
        const char *argument;
        int index;
        tn_dtype dtype;
        int ndim;
        int64_t shape[TN_MAX_NDIM];
        const char *device;
        const char *made_by;
        const tn_path *made_in;
        const void *of, *storage; /* addresses that identify the tensor; they
                                   * must not be dereferenced */
        bool requires_grad;
    } tensor[TN_ERROR_TENSORS];
} tn__error_facts;

/* Returns the pending error's details if the error arose in `running` or in an
 * operator that it called, and no outer operator has added details; else NULL.
 * Cannot fail. */
tn__error_facts *tn__error_within(const tn__running_op *running);
/* Whether the pending message begins with "name: ". */
bool tn__error_is_from(const char *name);
/* Replaces the function's name in the pending message. Does nothing if the
 * message has no such name. */
void tn__error_attribute(const char *name);
/* Returns the mark of the argument at fault; NULL if no argument was marked. */
const tn__error_mark *tn__error_argument(void);
/* Renames the argument of mark m, in the text and in the details. */
void tn__error_rename(int m, const char *argument, int index);
/* Inserts the formatted text and ": " before the pending message, after the
 * module path. */
void tn__error_prefix(const char *format, ...) TN__PRINTF(1, 2);
/* Replaces the text of the pending error. The code and the other details stay.
 * The format may have marks as that of tn__fail. Arguments may point into the
 * text being replaced. */
void tn__error_reword(const char *format, ...) TN__PRINTF(1, 2);
/* Returns the pending message without the module path. */
const char *tn__error_words(void);

/* Saves and restores the pending error around work whose own errors are
 * inspected, not reported: take, work, inspect, put. tn__error_take leaves no
 * error pending, and tn__error_put replaces the pending error. They cannot
 * fail. */
#define TN__ERROR_BYTES 2048
typedef struct tn__error {
    tn_status code;             /* TN_OK if there is no error; the other fields
                                 * are not set then */
    char text[TN__ERROR_BYTES]; /* text without the module path; "" if there is
                                 * none */
    tn__error_facts facts;
} tn__error;
void tn__error_take(tn__error *out);
void tn__error_put(const tn__error *error);

/* Saves and restores the pending error as above, and mutes the error handler
 * (tn_error_handler_set) in between. Each hide needs a restore. */
void tn__error_hide(tn__error *before);
void tn__error_restore(const tn__error *before);
/* Errors between these calls are not reported to the handler, since the caller
 * rewords them. The calls may nest. */
void tn__handler_mute(void);
void tn__handler_unmute(void);
/* tn__handler_is_active returns whether a handler is set and not muted.
 * tn__handler_call calls the handler (error_handler.c). */
bool tn__handler_is_active(void);
void tn__handler_call(tn_status code, const char *message);

/* Writes a line to the log (tn_log_set). The text has no newline at its end.
 * Call tn__log_enabled first if the arguments are expensive. */
void tn__log(int level, const char *format, ...) TN__PRINTF(2, 3);
bool tn__log_enabled(int level);

/* A text that grows as it is written. If memory runs out, tn__text_finish
 * reports it. */
typedef struct tn__text {
    char *data; /* owned; NULL until something was added */
    size_t length, room;
    bool failed;
} tn__text;
void tn__text_add(tn__text *text, const char *format, ...) TN__PRINTF(2, 3);
void tn__text_add_bytes(tn__text *text, const char *data, size_t length);
/* Adds a shape as PyTorch prints shapes: "(2, 3)", "(3,)" or "()". */
void tn__text_add_shape(tn__text *text, int ndim, const int64_t *shape);
/* Returns the NUL-terminated text, which the caller frees with tn__free; NULL
 * with TN_ERR_MEMORY recorded on failure. */
char *tn__text_finish(tn__text *text);
void tn__text_release(tn__text *text);

#endif
