/* error.h: recording a failure, what is known of it, the log, and texts that
 * grow. The first message of a thread wins. */
#ifndef TN_LIB_BASE_ERROR_H
#define TN_LIB_BASE_ERROR_H

#include <base/location.h>

#include <stdarg.h>
#include <tenon/base.h>

#define TN__PRINTF(f, a) __attribute__((format(printf, f, a)))
/* What fails is rare: compilers take the branch to such a call for unlikely,
 * and put it where it is not in the way of the others. */
#define TN__COLD __attribute__((cold))

/* Records code and text unless an error is pending; returns code.
 *
 * A refusal reads "who: what". Who is a name that opens the format, literally
 * or as "%s: ". Braces in the format mark each argument of who that the text
 * speaks of; they are not shown:
 *
 *     {input} %s                  an argument under its name
 *     {%s} {tensors[%d]}          the same from a table; one of a list
 *     {dims:dim} {input:}         shown as "dim"; not shown at all
 *     {!other}                    at fault, though another stands before it
 *
 * The one with !, or else the first, is what tn_error_info tells as argument.
 * Marks are read in the format alone, never in what it prints; what they name
 * is kept beside the words. Other braces, as in "{.dim = 1}", stay. */
TN__COLD tn_status tn__fail(tn_status code, const char *format, ...)
    TN__PRINTF(2, 3);
/* "who: text" with marks in a text that was made piece by piece, of words and
 * names that are the library's own. */
TN__COLD tn_status tn__fail_marked(tn_status code, const char *who,
                                   const char *text);
/* For formats of others: braces are braces. */
TN__COLD tn_status tn__fail_va(tn_status code, const char *format,
                               va_list args);
/* The same as tn__fail for makers: returns NULL. */
TN__COLD void *tn__fail_null(tn_status code, const char *format, ...)
    TN__PRINTF(2, 3);

/* An index that lies outside [low, bound). */
typedef struct tn__error_index {
    enum {
        TN__INDEX_NONE,
        TN__INDEX_GIVEN,   /* as the words tell it */
        TN__INDEX_IN_SPACE /* with a position in a kernel's space: in which
                              tensor that is remains to be found */
    } given;
    int64_t value, low, bound;
    int ndim; /* of where it stood; 0: it is an argument itself */
    int64_t position[TN_MAX_NDIM];
} tn__error_index;
/* Of element `number`, in row-major order, of what has this shape. */
tn__error_index tn__error_index_in(int64_t value, int64_t low, int64_t bound,
                                   int64_t number, int ndim,
                                   const int64_t *shape);
/* tn__fail with an index for tn_error_info. code: TN_ERR_INDEX for one of
 * elements, TN_ERR_ARGUMENT for a dimension. */
TN__COLD tn_status tn__fail_outside(tn_status code, tn__error_index index,
                                    const char *format, ...) TN__PRINTF(3, 4);

/* Is an error of this thread pending? Calls that change state refuse then and
 * return TN_ERR_STATE; the first message stays. Cannot fail. */
bool tn__error_pending(void);

/* ---- what is known of an error besides its words --------------------------- */

/* An argument of which the words speak, in the place that failed. */
typedef struct tn__error_mark {
    char name[40];
    int index;   /* in an argument that is a list; else -1 */
    bool is_at_fault; /* said so by {!name} */
    short at, length; /* where the words show it */
} tn__error_mark;
enum { TN__ERROR_MARKS = 8 }; /* more than any text names; the rest are words */

/* who and marks come from the place that failed; the path of operator calls
 * fills in the rest when the error passes it on its way out: the call's tensors,
 * and which of its arguments the one at fault is. */
typedef struct tn__error_facts {
    int who; /* bytes of the words' name in front; 0: none */
    int mark_count;
    tn__error_mark mark[TN__ERROR_MARKS];
    const tn__running_op *running; /* what was going on; once that is noted, what was
                               around it */
    const tn_path *path;
    const char *called, *op, *cause, *argument; /* as in tn_error_details */
    bool is_row;  /* op is a row of the table that programs do not see */
    bool reported; /* to the handler */
    bool foreign; /* the words name arguments of the cause, not of op */
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
        const void *of, *storage; /* which one it is, while it lives */
        bool requires_grad;
    } tensor[TN_ERROR_TENSORS];
} tn__error_facts;

/* The pending error's, if it arose in `running` or within it and has not been
 * seen further out; else NULL. Cannot fail. */
tn__error_facts *tn__error_within(const tn__running_op *running);
/* Is the pending message "name: what"? */
bool tn__error_is_from(const char *name);
/* Makes it one of name. Nothing where it is nobody's. */
void tn__error_attribute(const char *name);
/* The argument at fault, in the names of the place that failed; NULL: none was
 * marked. */
const tn__error_mark *tn__error_argument(void);
/* Shows mark m as this argument, and makes it that. */
void tn__error_rename(int m, const char *argument, int index);
/* Puts "words: " in front of the pending message, behind the path. */
void tn__error_prefix(const char *format, ...) TN__PRINTF(1, 2);
/* Other words for the pending error, with marks as in tn__fail; all else stays.
 * The arguments may lie in the words that are there. */
void tn__error_reword(const char *format, ...) TN__PRINTF(1, 2);
/* The pending message without the path. */
const char *tn__error_words(void);

/* Sets a pending error aside, for work whose failure is to be looked at and
 * not told: take, work, look, put back. Neither can fail; both replace what
 * is there. */
#define TN__ERROR_BYTES 2048
typedef struct tn__error {
    tn_status code;             /* TN_OK: none; the rest is not set then */
    char text[TN__ERROR_BYTES]; /* without the path; empty if none */
    tn__error_facts facts;
} tn__error;
void tn__error_take(tn__error *out);
void tn__error_put(const tn__error *error);

/* The same around a try: the handler of tn_error_handler_set is not told of what
 * fails between them. Each hide has its restore. */
void tn__error_hide(tn__error *before);
void tn__error_restore(const tn__error *before);
/* That handler is not told of errors between these, which nest: of words that
 * somebody else will word anew. */
void tn__handler_mute(void);
void tn__handler_unmute(void);
/* error_handler.c: is there a handler, and no try? Calls it. */
bool tn__handler_is_active(void);
void tn__handler_call(tn_status code, const char *message);

/* A line for the log (tn_log_set), without a newline at its end. Ask _enabled
 * first where the arguments cost something to make. */
void tn__log(int level, const char *format, ...) TN__PRINTF(2, 3);
bool tn__log_enabled(int level);

/* A growing text; failures of memory are remembered and told by _finish. */
typedef struct tn__text {
    char *data; /* owned; NULL until something was added */
    size_t length, room;
    bool failed;
} tn__text;
void tn__text_add(tn__text *text, const char *format, ...) TN__PRINTF(2, 3);
void tn__text_add_bytes(tn__text *text, const char *data, size_t length);
/* "(2, 3)" , "(3,)", "()" as PyTorch prints shapes. */
void tn__text_add_shape(tn__text *text, int ndim, const int64_t *shape);
/* Hands over the NUL-terminated text (free with tn__free), or NULL with
 * TN_ERR_MEMORY recorded. */
char *tn__text_finish(tn__text *text);
void tn__text_release(tn__text *text);

#endif
