/* error.h: records errors and their details, writes the log, and builds strings
 * of unknown length. Each thread has at most one pending error. While an error
 * is pending, later errors of the thread are ignored. */
#ifndef TN_LIB_BASE_ERROR_H
#define TN_LIB_BASE_ERROR_H

#include <base/location.h>

#include <stdarg.h>
#include <tenon/base.h>

#define TN__PRINTF(f, a) __attribute__((format(printf, f, a)))
/* Marks a function that is called only when something fails. Compilers treat a
 * branch to a cold function as unlikely and move its code out of the hot
 * path. */
#define TN__COLD __attribute__((cold))

/* Records an error with a code and a message, unless an error is already
 * pending. Returns the code.
 *
 * A message reads "function: problem". The function's name begins the format,
 * literally or as "%s: ". Braces in the format mark the name of each argument
 * of the function that the text mentions. The marked names are stored with the
 * error, and the braces are not shown:
 *
 *     {input} %s           names the argument "input"
 *     {%s}                 the argument's name is a printed value
 *     {tensors[%d]}        names an element of an argument that is a list
 *     {dims:dim}           names "dims", but shows "dim"
 *     {input:}             names "input", but shows nothing
 *     {!other}             names "other" and says that it is at fault
 *
 * tn_error_info returns the name marked with "!" as the argument at fault, or
 * the first marked name if none has "!". Only braces in the format are marks,
 * never those in printed values. Braces around anything else, as in "{.dim =
 * 1}", are printed as they are. */
TN__COLD tn_status tn__fail(tn_status code, const char *format, ...)
    TN__PRINTF(2, 3);
/* Records the error "who: text". `text` was assembled at run time and may have
 * marked names as the format of tn__fail. It must come from the library itself,
 * not from a user. */
TN__COLD tn_status tn__fail_marked(tn_status code, const char *who,
                                   const char *text);
/* Records an error whose format comes from outside the library. So braces in
 * the format do not mark names; they are printed. */
TN__COLD tn_status tn__fail_va(tn_status code, const char *format,
                               va_list args);
/* Records an error as tn__fail does, but returns NULL, for functions that
 * return a pointer. */
TN__COLD void *tn__fail_null(tn_status code, const char *format, ...)
    TN__PRINTF(2, 3);

/* An index that is not in [low, bound), for the details of an error. */
typedef struct tn__error_index {
    enum {
        TN__INDEX_NONE,
        TN__INDEX_GIVEN,   /* `value` and `position` are final */
        TN__INDEX_IN_SPACE /* `position` is a point of a kernel's iteration
                            * space; which tensor the index came from is not yet
                            * known */
    } given;
    int64_t value, low, bound;
    int ndim; /* number of dimensions of the index tensor; 0 if the index is
               * itself an argument of the call */
    int64_t position[TN_MAX_NDIM];
} tn__error_index;
/* Describes an invalid index that is an element of an index tensor. `number` is
 * the row-major index of that element; ndim and shape are those of the index
 * tensor. */
tn__error_index tn__error_index_in(int64_t value, int64_t low, int64_t bound,
                                   int64_t number, int ndim,
                                   const int64_t *shape);
/* Records an error as tn__fail does, and stores the index for tn_error_info.
 * The code is TN_ERR_INDEX if the index selects elements, or TN_ERR_ARGUMENT if
 * it selects a dimension. */
TN__COLD tn_status tn__fail_outside(tn_status code, tn__error_index index,
                                    const char *format, ...) TN__PRINTF(3, 4);

/* Returns whether an error of this thread is pending. If so, calls that would
 * change state do nothing and return TN_ERR_STATE. Cannot fail. */
bool tn__error_pending(void);

/* ---- details of an error besides its text -------------------------------- */

/* An argument of the failed function that the message names. */
typedef struct tn__error_mark {
    char name[40];
    int index; /* position of the element, if the argument is a list; else -1 */
    bool is_at_fault; /* true if the name was marked as {!name} */
    short at, length; /* position and length of the name in the text, in
                       * bytes */
} tn__error_mark;
enum { TN__ERROR_MARKS = 8 }; /* more than the number of marked names in any
                               * message */

/* The details of an error besides its text. The function that fails sets `who`
 * and the marked argument names. While the error is returned through operator
 * calls, ops/engine/details.c adds the call's tensors and which of its
 * arguments is at fault. */
typedef struct tn__error_facts {
    int who; /* length of the function's name with which the text begins; 0 if
              * it begins with no name */
    int mark_count;
    tn__error_mark mark[TN__ERROR_MARKS];
    /* The operator whose call adds its details next. At first it is the
     * operator that was running when the error arose. After its call has added
     * details, it is the operator around it. */
    const tn__running_op *running;
    const tn_path *path;
    char front[96]; /* what tn_error_prefix put before the path: "train: epoch
                     * 3, step 17: " */
    /* `called` to `argument` mean the same as in tn_error_details */
    const char *called, *op, *cause, *argument;
    bool is_row; /* true if the operator `op` is internal, so programs cannot
                  * call it */
    bool reported; /* true if the error handler was called for this error */
    bool foreign;  /* true if the text names arguments of `cause` instead of
                    * `op` */
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
        const void *of, *storage; /* addresses that identify the tensor and its
                                   * storage; they must not be dereferenced */
        bool requires_grad;
    } tensor[TN_ERROR_TENSORS];
} tn__error_facts;

/* Returns the pending error's details if the error arose in `running`, or in an
 * operator that `running` called, and no outer operator has added details yet.
 * Returns NULL otherwise. Cannot fail. */
tn__error_facts *tn__error_within(const tn__running_op *running);
/* Returns whether the pending message begins with "name: ". */
bool tn__error_is_from(const char *name);
/* Replaces the function's name at the beginning of the pending message. Does
 * nothing if the message does not begin with a name. */
void tn__error_attribute(const char *name);
/* Returns the argument at fault, from the marked names of the pending error;
 * NULL if no name was marked. */
const tn__error_mark *tn__error_argument(void);
/* Renames the argument in mark m of the pending error, in the text and in the
 * details. */
void tn__error_rename(int m, const char *argument, int index);
/* Inserts a formatted prefix and ": " at the beginning of the pending message,
 * but after the module path. */
void tn__error_prefix(const char *format, ...) TN__PRINTF(1, 2);
/* Replaces the text of the pending error and keeps its code and other details.
 * The format may mark argument names as in tn__fail. Its arguments may point
 * into the text that is replaced. */
void tn__error_reword(const char *format, ...) TN__PRINTF(1, 2);
/* Returns the pending message without the module path. */
const char *tn__error_words(void);

/* Save and restore the pending error around work whose errors are inspected,
 * not reported. tn__error_take moves the pending error to *out, so that none is
 * pending. tn__error_put makes a saved error the pending one again. They cannot
 * fail. */
#define TN__ERROR_BYTES 2048
typedef struct tn__error {
    tn_status code;             /* code of the saved error; TN_OK if none was
                                 * pending, and then the other fields are not
                                 * set */
    char text[TN__ERROR_BYTES]; /* text without the module path; "" if there is
                                 * none */
    tn__error_facts facts;
} tn__error;
void tn__error_take(tn__error *out);
void tn__error_put(const tn__error *error);

/* Save and restore the pending error, and keep the program's error handler
 * (tn_error_handler_set) from being called in between. Each tn__error_hide
 * needs a tn__error_restore. */
void tn__error_hide(tn__error *before);
void tn__error_restore(const tn__error *before);
/* Between these two calls, errors are not reported to the program's error
 * handler, because the caller will reword or drop them. The calls may nest. */
void tn__handler_mute(void);
void tn__handler_unmute(void);
/* tn__handler_is_active returns whether the program has set an error handler
 * that is not muted. tn__handler_call calls it (error_handler.c). */
bool tn__handler_is_active(void);
void tn__handler_call(tn_status code, const char *message);

/* Writes a line to the log (tn_log_set). The text has no newline at its end. If
 * computing the arguments takes long, call tn__log_enabled first. */
void tn__log(int level, const char *format, ...) TN__PRINTF(2, 3);
bool tn__log_enabled(int level);

/* A growing text buffer. If memory runs out, later calls do nothing and
 * tn__text_finish reports the error. */
typedef struct tn__text {
    char *data; /* the buffer, owned; NULL until something was added */
    size_t length, room;
    bool failed;
} tn__text;
void tn__text_add(tn__text *text, const char *format, ...) TN__PRINTF(2, 3);
void tn__text_add_bytes(tn__text *text, const char *data, size_t length);
/* Appends a shape as PyTorch prints shapes: "(2, 3)", "(3,)" or "()". */
void tn__text_add_shape(tn__text *text, int ndim, const int64_t *shape);
/* Returns the NUL-terminated text, which the caller frees with tn__free. If
 * memory ran out, returns NULL with TN_ERR_MEMORY recorded. */
char *tn__text_finish(tn__text *text);
void tn__text_release(tn__text *text);

#endif
