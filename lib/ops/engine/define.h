/* define.h: the kernels of a row, one for each combination of dtypes and kinds
 * of numbers that was called. */
#ifndef TN_LIB_OPS_DEFINE_H
#define TN_LIB_OPS_DEFINE_H

#include <ops/engine/ops.h>
#include <stdatomic.h>

/* What a kernel input is fed with, where it is no argument of the call. */
enum { TN__INPUT_ELEMENT = -1, TN__INPUT_POSITION = -2 };

/* Immutable once it is in the list, but for `built`, which fills up. */
typedef struct tn__op_entry {
    struct tn__op_entry *next;
    uint64_t key;
    uint64_t text_key; /* entries that are alike in it share def */
    const tn__def *def;
    const tn__kernel *kernel;
    const tn_program *program;
    int out_count;
    bool draws;       /* two parameters more: seed and call of the generator */
    bool pointwise;   /* all inputs are arguments, no rows, no indices: what
                         the short path can do */
    int8_t input_arg[TN__KERNEL_MAX_INPUTS]; /* argument or TN__INPUT_... */
    uint8_t param_float[TN__KERNEL_MAX_PARAMS]; /* it lives in a float reg. */
    _Atomic(tn_built *) built[TN__MAX_DEVICES]; /* by device id */
} tn__op_entry;

struct tn__op_cache {
    _Atomic(tn__op_entry *) first;
    const tn__def *def; /* of tn_op_define: given, not made from the row */
};

/* The key of a call: four bits for each argument with a role, in order: of a
 * tensor and of a dtype its code, of a number 13 + kind (TN_SCALAR_...), 0 for
 * what is left out; then four bits of the dtype that results are converted to,
 * 0 for none. */
#define TN__KEY_NUMBER 13

static inline tn__op_entry *tn__op_entry_find(const struct tn__op_cache *cache,
                                              uint64_t key)
{
    tn__op_entry *e = atomic_load_explicit(&cache->first, memory_order_acquire);
    while (e && e->key != key)
        e = e->next;
    return e;
}

/* Makes the entry of this call (or finds the one another thread made). NULL
 * with the error recorded. */
tn__op_entry *tn__op_entry_make(const tn_op *op, const tn_value *value,
                                tn_dtype out_dtype, uint64_t key);

/* Room for what one kernel may take. */
#define TN__KERNEL_TEXT 4096

/* Operators of the program's, which come after the table. They live for ever
 * once added; who: the call that a refusal names. */
tn_status tn__op_user_add(tn_op *op, const char *who);

#endif
