/* ssa.h: builds a kernel as typed SSA. The code for typing, derivatives and
 * composition appends instructions. Appending folds constants, applies
 * identities that leave results bit-identical, and merges equal values.
 *
 * Until tn__ssa_finish, instructions differ from those of plugin_program.h in
 * two points. The imm.i of a CALL is a function's index for tn__math_fn_at. A
 * CAST to the type of its operand is stop(x), which is x without a gradient.
 * Those CASTs remain in tn__kernel, and tn__kernel_program removes them.
 *
 * If memory runs out, `failed` is set. Later calls then do nothing, and
 * tn__ssa_finish returns NULL. */
#ifndef TN_LIB_KERNEL_SSA_H
#define TN_LIB_KERNEL_SSA_H

#include <stdatomic.h>

#include <kernel/def.h>
#include <kernel/kernel.h>
#include <kernel/math/functions.h>

#define TN__SSA_BUCKETS 256
/* While a gradient is built, it may read all inputs and outputs of the kernel
 * and the gradients of all outputs. */
#define TN__SSA_MAX_INPUTS (TN__KERNEL_MAX_INPUTS + 2 * TN__KERNEL_MAX_OUTPUTS)

typedef struct tn__ssa {
    tn_kernel_ins *ins;
    size_t count, room;
    uint32_t *chain; /* chain[i] is the previous instruction in the hash bucket
                      * of instruction i */
    size_t chain_room;
    uint32_t bucket[TN__SSA_BUCKETS];
    uint32_t loop[TN__MAX_LOOPS * 4]; /* indices of the LOOPs that were not
                                       * ended yet, the outermost first */
    int loop_depth;
    bool failed;
    bool of_gradient; /* true if the kernel is a gradient, either derived or
                       * written by hand */

    /* The fields below are copied to the fields of tn__kernel with the same
     * names. */
    int input_count, param_count, output_count;
    struct {
        const char *name;
        tn_dtype dtype;
        uint8_t level;
    } input[TN__SSA_MAX_INPUTS];
    struct {
        const char *name;
        tn_dtype dtype;
    } param[TN__KERNEL_MAX_PARAMS];
    struct {
        tn_dtype dtype;
        uint8_t level;
        uint32_t value;
    } out[TN__KERNEL_MAX_OUTPUTS];
} tn__ssa;

void tn__ssa_init(tn__ssa *ssa);
void tn__ssa_release(tn__ssa *ssa);

static inline tn_dtype tn__ssa_dtype(const tn__ssa *ssa, uint32_t v)
{
    return ssa->failed ? TN_F32 : ssa->ins[v].dtype;
}
static inline uint8_t tn__ssa_level(const tn__ssa *ssa, uint32_t v)
{
    return ssa->failed ? TN_LEVEL_UNIFORM : ssa->ins[v].level;
}
static inline bool tn__ssa_is_const(const tn__ssa *ssa, uint32_t v)
{
    return !ssa->failed && ssa->ins[v].op == TN_K_CONST;
}

/* Appends an instruction and sets its level (per element, per row or once),
 * unless an equal value exists already. Returns the index of the value. */
uint32_t tn__ssa_add(tn__ssa *ssa, tn_kernel_ins ins);
/* Appends an instruction with this operation, result type and operands.
 * Operands that the operation does not have are TN_NONE. */
uint32_t tn__ssa_op(tn__ssa *ssa, int op, tn_dtype dtype, uint32_t a,
                    uint32_t b, uint32_t c);
uint32_t tn__ssa_const(tn__ssa *ssa, tn_dtype dtype, double number);
uint32_t tn__ssa_integer(tn__ssa *ssa, tn_dtype dtype, int64_t integer);
/* Converts value v to dtype. Returns v itself if it has that dtype. */
uint32_t tn__ssa_cast(tn__ssa *ssa, uint32_t v, tn_dtype dtype);
/* Rounds value v as if it were stored to a tensor of dtype and loaded again. */
uint32_t tn__ssa_narrow(tn__ssa *ssa, uint32_t v, tn_dtype dtype);
uint32_t tn__ssa_stop(tn__ssa *ssa, uint32_t v);
uint32_t tn__ssa_reduce(tn__ssa *ssa, int kind, uint32_t v);

/* Append a loop. Call tn__ssa_loop, then tn__ssa_carry with the first value of
 * each variable of the loop. Then append the body, and call tn__ssa_end_loop
 * with the variables' values for the next iteration in next[]. The values that
 * tn__ssa_carry returns can be read inside and after the loop. */
uint32_t tn__ssa_loop(tn__ssa *ssa, uint32_t bound);
uint32_t tn__ssa_carry(tn__ssa *ssa, uint32_t first);
void tn__ssa_while(tn__ssa *ssa, uint32_t condition);
void tn__ssa_end_loop(tn__ssa *ssa, const uint32_t *next);
/* Removes all instructions with an index of at least `count`, also loops that
 * were not ended. */
void tn__ssa_truncate(tn__ssa *ssa, size_t count);

/* Appends a copy of instruction i of a kernel and stores the copy's index in
 * map[i]. The copy's operands are translated by map[], its input by input[],
 * and its parameter by param[]. Must be called for each instruction in
 * order. */
void tn__ssa_copy(tn__ssa *ssa, const tn__kernel *from, uint32_t i,
                  uint32_t *map, const int *input, const int *param);

/* Folds constants and applies identities, which may change *ins. If ins equals
 * an existing value, sets *same to the index of that value and returns true. */
bool tn__ssa_simplify(tn__ssa *ssa, tn_kernel_ins *ins, uint32_t *same);

/* Returns the register type of a dtype, which is the type in which its values
 * are computed, such as F32 for F16. Returns TN_DTYPE_NONE if there is none. */
tn_dtype tn__register_type(tn_dtype dtype);

/* ---- from SSA to kernels and functions --------------------------------- */

/* Removes dead code, moves values that do not change in a loop to before the
 * loop, and returns the kernel. If `used` is NULL, all inputs stay. Otherwise
 * only inputs that are read stay, and used[i] is set to the old index of input
 * i. `name` is copied. */
tn__kernel *tn__ssa_finish(tn__ssa *ssa, const char *name, int *used);
/* Frees a kernel to which no other code has a pointer yet. */
void tn__kernel_free(tn__kernel *kernel);

/* Finishes the body of a function, as tn__ssa_finish finishes a kernel. The
 * body has ARG instructions for its arguments, which `fn` must describe
 * already. Sets the fields result, dtype, ins and ins_count of `fn`; the
 * instructions are allocated in the arena. */
bool tn__ssa_finish_body(tn__ssa *ssa, uint32_t result, tn__arena *arena,
                         tn_kernel_fn *fn);
/* Marks those casts to bits in the function's body that need not treat NaN
 * specially, with TN_BITCAST_ANY_NAN (nan.c). Records an error and returns
 * false if memory runs out. */
bool tn__fn_mark_nans(const tn_kernel_fn *fn, tn_kernel_ins *ins);

typedef struct tn__kernel_gradient_entry tn__kernel_gradient_entry;

/* A kernel, together with its program and its gradients, which are made when
 * they are first needed. */
typedef struct tn__kernel_box {
    tn__kernel kernel;         /* the first member, since a pointer to it is
                                * converted to the box */
    const uint32_t *fn_number; /* fn_number[i] is the process-wide index of the
                                * kernel's function i, for tn__math_fn_at */
    bool of_gradient;          /* true if the kernel is a gradient */
    _Atomic(const tn_program *) program;
    _Atomic(tn__kernel_gradient_entry *) gradient[TN__KERNEL_MAX_INPUTS];
    tn__arena arena; /* memory of this struct and of all it points to */
} tn__kernel_box;

static inline tn__kernel_box *tn__kernel_box_of(const tn__kernel *kernel)
{
    return (tn__kernel_box *)kernel;
}

/* ---- type.c ------------------------------------------------------------ */

/* Types a definition for these dtypes (as for tn__def_kernel) and returns the
 * kernel. Each call makes a new kernel; tn__def_kernel caches it for later
 * calls. */
const tn__kernel *tn__def_type(const tn__def *def, const tn_dtype *dtype);

/* Types the body of a `fn` (a mathematical function) for a register type.
 * Records an error and returns false if that fails. */
bool tn__math_type_fn(const tn__math_item *item, tn_dtype type,
                      tn_dtype arg_dtype[4], tn__ssa *ssa,
                      uint32_t *out_result);
/* Appends the derivative with respect to argument `arg` that a `d` item
 * states. */
bool tn__math_type_d(tn__ssa *ssa, const tn__math_item *item, int arg,
                     const uint32_t *values, uint32_t *out);

/* ---- rules.c ----------------------------------------------------------- */

/* Appends what instruction `ins` adds to the cotangent (gradient) of its
 * operand k. a[] are the operands, y is the result, and g the cotangent of the
 * result. Sets *out to the added value, or to TN_NONE if it is zero. Records an
 * error and returns false on failure. */
bool tn__derivative(tn__ssa *ssa, const tn_kernel_ins *ins, int k,
                    const uint32_t a[3], uint32_t y, uint32_t g, uint32_t *out);
/* Differentiate a logistic function. If is_exp2 is set, exp2 takes the place of
 * exp. tn__logistic_complement appends 1 - s for s = 1 / (1 + exp(z)).
 * tn__logistic_gradient appends what y = x / (1 + exp(z)) adds to the cotangent
 * (gradient) of z, where g is the cotangent of y. */
bool tn__logistic_complement(tn__ssa *ssa, bool is_exp2, uint32_t z,
                             uint32_t *out);
bool tn__logistic_gradient(tn__ssa *ssa, bool is_exp2, uint32_t z, uint32_t y,
                           uint32_t g, uint32_t *out);
/* Returns whether the derivative of an instruction with respect to operand k
 * can be other than 0. */
bool tn__passes_gradient(const tn_kernel_ins *ins, int k,
                         tn_dtype operand_dtype);

#endif
