/* capture.h: one call of a compiled function, as the list of the plugin's calls
 * that it made, with the values that each of them reads and writes. */
#ifndef TN_LIB_COMPILE_CAPTURE_H
#define TN_LIB_COMPILE_CAPTURE_H

#include <device/access.h>
#include <kernel/kernel.h>
#include <tenon/compile.h>
#include <tensor/tensor.h>

/* A value is the content of one storage, from the first command that uses it to
 * the last. Memory that is used again after a tensor was freed has several
 * values, one after the other. */
enum {
    TN__VALUE_INPUT,    /* the storage of an input */
    TN__VALUE_OUTPUT,   /* a storage that the function made for an output */
    TN__VALUE_EXTERNAL, /* a storage that existed before the call */
    TN__VALUE_KEPT,     /* a storage that the function made and to which something
                         * refers after the call, such as a gradient. A replay
                         * writes the storage of the last capture */
    TN__VALUE_CONSTANT, /* a value that was computed once, when the program was
                         * made (constants.c) */
    TN__VALUE_TEMPORARY /* all others */
};
/* Whether a value has the same memory in each replay. */
static inline bool tn__value_is_fixed(int kind)
{
    return kind == TN__VALUE_EXTERNAL || kind == TN__VALUE_KEPT ||
           kind == TN__VALUE_CONSTANT;
}
typedef struct tn__captured_value {
    int kind;
    int index;            /* for an INPUT, the index of the first input with
                           * this storage */
    tn__storage *storage; /* for an EXTERNAL or KEPT value, kept by the
                           * record */
    uint64_t table;       /* of the storage: what numbers an operator's table
                           * has (tn__number_table), or 0 */
    int64_t bytes;
    int64_t origin;       /* where the value begins in its buffer, in bytes. For
                           * an INPUT it is the input's element 0 */
    bool written;
    bool frozen;          /* an EXTERNAL value that is a constant as long as the
                           * version of its storage is `version` */
    uint32_t version;
    bool again;           /* a value of the function that is computed once more
                           * (recompute.c) */
} tn__captured_value;

/* One operand of a command. */
typedef struct tn__use {
    tn__access access;
    uint32_t value; /* index in tn__capture.value */
} tn__use;

/* A call of the plugin. Its operands are use[first_use .. first_use +
 * use_count) of the capture. */
typedef struct tn__step {
    tn__command *command; /* owned by the record */
    const char *what;     /* the operator */
    uint32_t first_use, use_count;
    const tn__command *after; /* a command that must run before the step; NULL:
                               * none but those that its operands need */
    bool removed;         /* a pass has made the step unnecessary (passes.h) */
} tn__step;

/* How the function made one of its outputs: a view of a value. */
typedef struct tn__output {
    uint32_t value;
    tn_tensor *base; /* for a view of an EXTERNAL or KEPT value, one reference to
                      * a view of it, which its storage counts as saved; else
                      * NULL */
    uint8_t dtype, ndim;
    int64_t from; /* where element 0 is, in bytes from the value's origin */
    int64_t shape[TN_MAX_NDIM], stride[TN_MAX_NDIM];
} tn__output;

typedef struct tn__capture {
    tn__record *record; /* owned */
    tn__step *step;     /* owned array, as all below */
    tn__use *use;
    tn__captured_value *value;
    tn__output *output;
    size_t step_count, use_count, value_count, output_count;
    size_t step_room, use_room, value_room;
} tn__capture;

/* Sets outputs to NULL. `out` may be NULL if there are none. */
static inline void tn__clear_outputs(tn_tensor **out, int out_count)
{
    for (int o = 0; o < out_count; o++)
        out[o] = NULL;
}

/* Calls fn as an ordinary call on `device`, and records the device work that it
 * submits. On success stores the outputs in out[], owned by the open scope, and
 * returns the capture. Returns NULL with the error recorded if fn fails or does
 * what cannot be replayed; the message begins with `name`. */
tn__capture *tn__capture_call(const char *name, tn_device *device,
                              tn_compile_fn fn, void *context,
                              tn_tensor *const *in, int in_count,
                              tn_tensor **out, int out_count);
void tn__capture_free(tn__capture *capture);
/* Releases the references to all storages but those of EXTERNAL values and, if
 * `kept` is true, KEPT values. */
void tn__capture_release_memory(tn__capture *capture, bool kept);

/* Calls fn as an ordinary call, without a recording. Arguments and results are
 * those of tn__capture_call. */
tn_status tn__compiled_call(const char *name, tn_device *device,
                            tn_compile_fn fn, void *context,
                            tn_tensor *const *in, int in_count, tn_tensor **out,
                            int out_count);

/* Returns whether parameter i of launch a and parameter k of launch b have the same
 * number in each replay: equal constants, or one late number. */
bool tn__command_same_param(const tn__command *a, uint32_t i,
                            const tn__command *b, uint32_t k);

/* Returns whether two steps of a capture do the same work, with the same numbers,
 * on operands with the same strides. Their memory is not compared. */
bool tn__steps_are_equal(const tn__capture *capture, const tn__step *x,
                         const tn__step *y);

/* Compares two captures of one function with equal inputs. */
enum {
    TN__CAPTURES_EQUAL,
    TN__CAPTURES_DIFFER, /* in the operators, shapes or tensors */
    TN__NUMBERS_DIFFER   /* only in numbers that are arguments of operators */
};
/* Returns one of the constants above. If the captures differ, *text says where,
 * by operator, argument and both numbers; the caller frees it with tn__free. It
 * is NULL if memory runs out. */
int tn__captures_compare(const tn__capture *a, const tn__capture *b,
                         char **text);

#endif
