/* define.h: the cache of an operator's kernels. There is one kernel for each
 * combination of tensor dtypes and kinds of numbers with which the operator was
 * called. */
#ifndef TN_LIB_OPS_DEFINE_H
#define TN_LIB_OPS_DEFINE_H

#include <ops/engine/ops.h>
#include <stdatomic.h>

/* Values of tn__op_entry.input_arg for kernel inputs that are not arguments of
 * the operator: the row-major index of the element in the iteration space, and
 * its index within the row. */
enum { TN__INPUT_ELEMENT = -1, TN__INPUT_POSITION = -2 };

/* One kernel of an operator. An entry does not change once it is in the cache's
 * list, except that `built` is filled in later. */
typedef struct tn__op_entry {
    struct tn__op_entry *next;
    uint64_t key;      /* encodes the dtypes and the kinds of numbers of a call,
                          as TN__KEY_NUMBER below describes */
    uint64_t text_key; /* the part of the key that determines the kernel's
                          source. Entries with the same text_key share `def`. */
    const tn__def *def;        /* the parsed definition */
    const tn__kernel *kernel;  /* `def` with the dtypes that `key` encodes */
    const tn_program *program; /* the kernel as a program for devices */
    int out_count;    /* the number of outputs */
    bool draws;       /* true if the kernel draws random numbers. Its last two
                         parameters are then `seed` and `call` of the
                         generator. */
    bool pointwise;   /* true if the kernel has no rows, no indices and no
                         inputs that are not arguments. Such a kernel can take
                         the short path (run_flat). */
    int8_t input_arg[TN__KERNEL_MAX_INPUTS]; /* input_arg[k] is the index of the
                                                argument that input k reads, or
                                                one of TN__INPUT_... */
    uint8_t param_float[TN__KERNEL_MAX_PARAMS]; /* param_float[k] is 1 if
                                                   parameter k is a float, 0 if
                                                   it is an integer */
    _Atomic(tn_built *) built[TN__MAX_DEVICES]; /* built[id] is the program as
                                                   built for the device with
                                                   this id, NULL until the
                                                   device first runs it */
} tn__op_entry;

struct tn__op_cache {
    _Atomic(tn__op_entry *) first;
    const tn__def *def; /* the definition of an operator made by tn_op_define.
                           NULL for an operator of the table, whose definitions
                           are made from the table. */
};

/* The key of a call has four bits for each argument whose role is not NONE
 * (TN__ROLE_NONE), in the order of the arguments. For a tensor or a dtype these
 * four bits are the code of the dtype, for a number they are TN__KEY_NUMBER +
 * kind (TN_SCALAR_...), for an absent argument they are 0. The last four bits
 * are the dtype to which the results are converted, or 0 if they are not
 * converted. */
#define TN__KEY_NUMBER 13

static inline tn__op_entry *tn__op_entry_find(const struct tn__op_cache *cache,
                                              uint64_t key)
{
    tn__op_entry *e = atomic_load_explicit(&cache->first, memory_order_acquire);
    while (e && e->key != key)
        e = e->next;
    return e;
}

/* Makes the entry for this call and adds it to the cache, or returns the entry
 * that another thread has added meanwhile. Returns NULL on failure, with the
 * error recorded. */
tn__op_entry *tn__op_entry_make(const tn_op *op, const tn_value *value,
                                tn_dtype out_dtype, uint64_t key);

/* The maximum length of a kernel's source, in bytes. */
#define TN__KERNEL_TEXT 4096

/* Adds an operator of the program to the registry. It gets the next id after
 * the operators of the table, and is never freed. `who` is the public function
 * that error messages name. */
tn_status tn__op_user_add(tn_op *op, const char *who);

#endif
