/* define.h: the kernels of a row, one for each combination of dtypes and kinds
 * of numbers that it was called with. */
#ifndef TN_LIB_OPS_DEFINE_H
#define TN_LIB_OPS_DEFINE_H

#include <ops/engine/ops.h>
#include <stdatomic.h>

/* The source of a kernel input that is no argument of the call. */
enum { TN__INPUT_ELEMENT = -1, TN__INPUT_POSITION = -2 };

/* Immutable once it is in the list, except `built`, which is filled in
 * later. */
typedef struct tn__op_entry {
    struct tn__op_entry *next;
    uint64_t key;
    uint64_t text_key; /* entries with the same one share def */
    const tn__def *def;
    const tn__kernel *kernel;
    const tn_program *program;
    int out_count;
    bool draws;       /* has two more parameters: seed and call of the
                         generator */
    bool pointwise;   /* all inputs are arguments, no rows, no indices: the
                         short path can run it */
    int8_t input_arg[TN__KERNEL_MAX_INPUTS]; /* argument number or
                                                TN__INPUT_... */
    uint8_t param_float[TN__KERNEL_MAX_PARAMS]; /* it is in a floating-point
                                                   register */
    _Atomic(tn_built *) built[TN__MAX_DEVICES]; /* by device id */
} tn__op_entry;

struct tn__op_cache {
    _Atomic(tn__op_entry *) first;
    const tn__def *def; /* of tn_op_define: parsed already, not made from the
                           row */
};

/* The key of a call has four bits for each argument with a role, in order. For
 * a tensor and for a dtype it is the code of the dtype, for a number 13 + kind
 * (TN_SCALAR_...), 0 if absent. The last four bits are the dtype to which the
 * results are converted, 0 for none. */
#define TN__KEY_NUMBER 13

static inline tn__op_entry *tn__op_entry_find(const struct tn__op_cache *cache,
                                              uint64_t key)
{
    tn__op_entry *e = atomic_load_explicit(&cache->first, memory_order_acquire);
    while (e && e->key != key)
        e = e->next;
    return e;
}

/* Makes the entry of this call, or returns the one that another thread made
 * meanwhile. NULL with the error recorded. */
tn__op_entry *tn__op_entry_make(const tn_op *op, const tn_value *value,
                                tn_dtype out_dtype, uint64_t key);

/* Maximum length of the text of a kernel, in bytes. */
#define TN__KERNEL_TEXT 4096

/* Operators that the program adds. They follow those of the table and are never
 * freed. An error message names `who`, the function called. */
tn_status tn__op_user_add(tn_op *op, const char *who);

#endif
