/* error.h: recording errors and their details, the log, and growing texts.
 * While an error of a thread is pending, later ones are ignored. */
#ifndef TN_LIB_BASE_ERROR_H
#define TN_LIB_BASE_ERROR_H

#include <base/location.h>

#include <stdarg.h>
#include <tenon/base.h>

#define TN__PRINTF(f, a) __attribute__((format(printf, f, a)))
/* Failures are rare. Compilers treat a branch to a cold call as unlikely and
 * move its code out of the hot path. */
#define TN__COLD __attribute__((cold))

/* Records code and text unless an error is pending; returns code.
 *
 * A message reads "function: problem". The function's name begins the format,
 * literally or as "%s: ". Braces in the format mark each argument of the
 * function that the text mentions; the braces are not shown:
 *
 *     {input} %s                  an argument by its name
 *     {%s} {tensors[%d]}          the same from a table; an element of a list
 *     {dims:dim} {input:}         shown as "dim"; not shown at all
 *     {!other}                    at fault, although another comes before it
 *
 * tn_error_info returns the argument marked with !, or else the first, as the
 * one at fault. Marks are recognised in the format only, never in printed
 * values. The arguments that they name are stored beside the text. Other
 * braces, as in "{.dim = 1}", stay. */
TN__COLD tn_status tn__fail(tn_status code, const char *format, ...)
    TN__PRINTF(2, 3);
/* "who: text", with marks in a text that was assembled at run time. The text
 * must come from the library itself, not from a user. */
TN__COLD tn_status tn__fail_marked(tn_status code, const char *who,
                                   const char *text);
/* For formats from outside the library: braces are not marks. */
TN__COLD tn_status tn__fail_va(tn_status code, const char *format,
                               va_list args);
/* tn__fail for functions that return a pointer: returns NULL. */
TN__COLD void *tn__fail_null(tn_status code, const char *format, ...)
    TN__PRINTF(2, 3);

/* An index outside [low, bound). */
typedef struct tn__error_index {
    enum {
        TN__INDEX_NONE,
        TN__INDEX_GIVEN,   /* as in the message */
        TN__INDEX_IN_SPACE /* at a position of a kernel's iteration space; the
                              tensor is not determined yet */
    } given;
    int64_t value, low, bound;
    int ndim; /* of the index tensor; 0: the index is an argument itself */
    int64_t position[TN_MAX_NDIM];
} tn__error_index;
/* For element `number`, in row-major order, of an index tensor of this
 * shape. */
tn__error_index tn__error_index_in(int64_t value, int64_t low, int64_t bound,
                                   int64_t number, int ndim,
                                   const int64_t *shape);
/* tn__fail with an index for tn_error_info. code: TN_ERR_INDEX for an index of
 * elements, TN_ERR_ARGUMENT for a dimension. */
TN__COLD tn_status tn__fail_outside(tn_status code, tn__error_index index,
                                    const char *format, ...) TN__PRINTF(3, 4);

/* Is an error of this thread pending? Calls that change state then do nothing
 * and return TN_ERR_STATE. Cannot fail. */
bool tn__error_pending(void);

/* ---- details of an error besides its text -------------------------------- */

/* An argument that the message mentions, of the function that failed. */
typedef struct tn__error_mark {
    char name[40];
    int index;        /* within an argument that is a list; else -1 */
    bool is_at_fault; /* marked {!name} */
    short at, length; /* its bytes in the text */
} tn__error_mark;
enum { TN__ERROR_MARKS = 8 }; /* more than any message has */

/* The function that fails sets who and the marks. The code around operator
 * calls (ops/engine/details.c) adds the rest while the error is returned
 * through it: the call's tensors, and which of its arguments is at fault. */
typedef struct tn__error_facts {
    int who; /* bytes of the function's name that begins the text; 0: none */
    int mark_count;
    tn__error_mark mark[TN__ERROR_MARKS];
    /* The operator that was running; once its call has added its details, the
     * one around it. */
    const tn__running_op *running;
    const tn_path *path;
    const char *called, *op, *cause, *argument; /* as in tn_error_details */
    bool is_row;   /* op is a row of the table that programs cannot call */
    bool reported; /* to the handler */
    bool foreign;  /* the text names arguments of the cause, not of op */
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
        const void *of, *storage; /* identify it; not to be dereferenced */
        bool requires_grad;
    } tensor[TN_ERROR_TENSORS];
} tn__error_facts;

/* The pending error's details, if it arose in `running` or within it and no
 * outer operator has added to them; else NULL. Cannot fail. */
tn__error_facts *tn__error_within(const tn__running_op *running);
/* Does the pending message begin with "name: "? */
bool tn__error_is_from(const char *name);
/* Replaces the function's name in the pending message. No effect if the message
 * has none. */
void tn__error_attribute(const char *name);
/* The argument at fault, as the failing function names it; NULL: none was
 * marked. */
const tn__error_mark *tn__error_argument(void);
/* Renames the argument of mark m, in the text and in the details. */
void tn__error_rename(int m, const char *argument, int index);
/* Inserts "text: " before the pending message, after the module path. */
void tn__error_prefix(const char *format, ...) TN__PRINTF(1, 2);
/* Replaces the text of the pending error, with marks as in tn__fail; the code
 * and the other details stay. Arguments may point into the text being
 * replaced. */
void tn__error_reword(const char *format, ...) TN__PRINTF(1, 2);
/* The pending message without the module path. */
const char *tn__error_words(void);

/* Saves and restores the pending error around work whose own errors are
 * inspected, not reported: take, work, inspect, put. take leaves no error
 * pending, put replaces the pending one. Neither can fail. */
#define TN__ERROR_BYTES 2048
typedef struct tn__error {
    tn_status code;             /* TN_OK: no error, and the rest is not set */
    char text[TN__ERROR_BYTES]; /* without the path; empty if none */
    tn__error_facts facts;
} tn__error;
void tn__error_take(tn__error *out);
void tn__error_put(const tn__error *error);

/* The same, and the error handler (tn_error_handler_set) is muted in between.
 * Each hide needs a restore. */
void tn__error_hide(tn__error *before);
void tn__error_restore(const tn__error *before);
/* Errors between these calls, which nest, are not reported to the handler: the
 * caller rewords them. */
void tn__handler_mute(void);
void tn__handler_unmute(void);
/* error_handler.c: is a handler set, and not muted? Calls it. */
bool tn__handler_is_active(void);
void tn__handler_call(tn_status code, const char *message);

/* Writes a line to the log (tn_log_set); no newline at its end. Check _enabled
 * first if the arguments are expensive. */
void tn__log(int level, const char *format, ...) TN__PRINTF(2, 3);
bool tn__log_enabled(int level);

/* A growing text. If memory runs out, _finish reports it. */
typedef struct tn__text {
    char *data; /* owned; NULL until something was added */
    size_t length, room;
    bool failed;
} tn__text;
void tn__text_add(tn__text *text, const char *format, ...) TN__PRINTF(2, 3);
void tn__text_add_bytes(tn__text *text, const char *data, size_t length);
/* "(2, 3)" , "(3,)", "()" as PyTorch prints shapes. */
void tn__text_add_shape(tn__text *text, int ndim, const int64_t *shape);
/* Returns the NUL-terminated text, which the caller frees with tn__free; NULL
 * with TN_ERR_MEMORY recorded. */
char *tn__text_finish(tn__text *text);
void tn__text_release(tn__text *text);

#endif
