/* ssa.h: builds a kernel as typed SSA. Typing, derivatives and composition
 * append instructions. Appending folds constants, applies identities that
 * change no bit, and merges equal values.
 *
 * Until tn__ssa_finish, instructions differ from those of plugin.h in two
 * points. The imm.i of a CALL is an index for tn__math_fn_at. A CAST to the
 * type of its operand is stop(x), the value without a gradient. Such CASTs stay
 * in tn__kernel, and tn__kernel_program drops them.
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
/* A gradient under construction may load all inputs, outputs and cotangents. */
#define TN__SSA_MAX_INPUTS (TN__KERNEL_MAX_INPUTS + 2 * TN__KERNEL_MAX_OUTPUTS)

typedef struct tn__ssa {
    tn_kernel_ins *ins;
    size_t count, room;
    uint32_t *chain; /* chain[i]: previous instruction in the bucket of i */
    size_t chain_room;
    uint32_t bucket[TN__SSA_BUCKETS];
    uint32_t loop[TN__MAX_LOOPS * 4]; /* numbers of the open LOOPs, outermost
                                       * first */
    int loop_depth;
    bool failed;
    bool of_gradient; /* true if the kernel is a gradient, derived or written by
                       * hand */

    /* These fields become those of the same name in tn__kernel. */
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

/* Appends ins and sets its level, or finds an equal value that exists. Returns
 * the value's number. */
uint32_t tn__ssa_add(tn__ssa *ssa, tn_kernel_ins ins);
/* Appends an instruction with this op, result dtype and operands. Operands that
 * the op does not have are TN_NONE. */
uint32_t tn__ssa_op(tn__ssa *ssa, int op, tn_dtype dtype, uint32_t a,
                    uint32_t b, uint32_t c);
uint32_t tn__ssa_const(tn__ssa *ssa, tn_dtype dtype, double number);
uint32_t tn__ssa_integer(tn__ssa *ssa, tn_dtype dtype, int64_t integer);
/* Converts v to dtype. Returns v itself if v has that dtype. */
uint32_t tn__ssa_cast(tn__ssa *ssa, uint32_t v, tn_dtype dtype);
/* Rounds v as if it was stored to a tensor of dtype and loaded again. */
uint32_t tn__ssa_narrow(tn__ssa *ssa, uint32_t v, tn_dtype dtype);
uint32_t tn__ssa_stop(tn__ssa *ssa, uint32_t v);
uint32_t tn__ssa_reduce(tn__ssa *ssa, int kind, uint32_t v);

/* Appends a loop. Call tn__ssa_loop, tn__ssa_carry once for each carried value,
 * then append the body, then call tn__ssa_end_loop. next[] lists the carried
 * values of the next round. CARRY values can be read inside and after the
 * loop. */
uint32_t tn__ssa_loop(tn__ssa *ssa, uint32_t bound);
uint32_t tn__ssa_carry(tn__ssa *ssa, uint32_t first);
void tn__ssa_while(tn__ssa *ssa, uint32_t condition);
void tn__ssa_end_loop(tn__ssa *ssa, const uint32_t *next);
/* Removes all instructions from number `count` on, open loops included. */
void tn__ssa_truncate(tn__ssa *ssa, size_t count);

/* Appends a copy of instruction i of a kernel and stores the copy's number in
 * map[i]. Operands are translated by map, numbers of inputs and parameters by
 * input[] and param[]. Call this for each instruction in order. */
void tn__ssa_copy(tn__ssa *ssa, const tn__kernel *from, uint32_t i,
                  uint32_t *map, const int *input, const int *param);

/* Folds constants and applies identities, which may rewrite ins. Returns true
 * if ins equals an existing value; *same is then the value's number. */
bool tn__ssa_simplify(tn__ssa *ssa, tn_kernel_ins *ins, uint32_t *same);

/* Returns the register type in which dtype is computed; TN_DTYPE_NONE if there
 * is none. */
tn_dtype tn__register_type(tn_dtype dtype);

/* ---- from SSA to kernels and functions --------------------------------- */

/* Drops dead code, moves loop invariants out of loops, and returns the kernel.
 * If `used` is NULL, all inputs stay. Otherwise only the inputs that are read
 * stay, and used[] gets their old numbers. name is copied. */
tn__kernel *tn__ssa_finish(tn__ssa *ssa, const char *name, int *used);
void tn__kernel_free(tn__kernel *kernel); /* Frees a kernel that no other code
                                           * has seen yet. */

/* Finishes the body of a function as tn__ssa_finish finishes a kernel, with ARG
 * instructions in place of inputs. fn already describes the arguments. The call
 * sets the fields result, dtype, ins and ins_count; the instructions are
 * allocated in the arena. */
bool tn__ssa_finish_body(tn__ssa *ssa, uint32_t result, tn__arena *arena,
                         tn_kernel_fn *fn);
/* Sets TN_BITCAST_ANY_NAN on the instructions of fn's body that allow it.
 * Returns false with the error recorded if memory runs out. */
bool tn__fn_mark_nans(const tn_kernel_fn *fn, tn_kernel_ins *ins);

typedef struct tn__kernel_gradient_entry tn__kernel_gradient_entry;

/* The allocation that contains a tn__kernel and what is derived from it. */
typedef struct tn__kernel_box {
    tn__kernel kernel;         /* must be first */
    const uint32_t *fn_number; /* fn_number[i]: index of function i for
                                * tn__math_fn_at */
    bool of_gradient;          /* true if the kernel is a gradient */
    _Atomic(const tn_program *) program;
    _Atomic(tn__kernel_gradient_entry *) gradient[TN__KERNEL_MAX_INPUTS];
    tn__arena arena; /* memory of this box and all it points to */
} tn__kernel_box;

static inline tn__kernel_box *tn__kernel_box_of(const tn__kernel *kernel)
{
    return (tn__kernel_box *)kernel;
}

/* ---- type.c ------------------------------------------------------------ */

/* Types a definition for inputs of these dtypes. Each call makes a new kernel;
 * tn__def_kernel caches kernels. */
const tn__kernel *tn__def_type(const tn__def *def, const tn_dtype *dtype);

/* Types the body of a `fn` for a register type. Returns false with the error
 * recorded if that fails. */
bool tn__math_type_fn(const tn__math_item *item, tn_dtype type,
                      tn_dtype arg_dtype[4], tn__ssa *ssa,
                      uint32_t *out_result);
/* Appends the derivative that a `d` item states for argument number `arg`. */
bool tn__math_type_d(tn__ssa *ssa, const tn__math_item *item, int arg,
                     const uint32_t *values, uint32_t *out);

/* ---- rules.c ----------------------------------------------------------- */

/* Appends the contribution of instruction ins to the cotangent of its operand
 * k. a[] are the operands, y is the result, and g is the result's cotangent.
 * *out is the contribution; TN_NONE if it is zero. Returns false with the error
 * recorded on failure. */
bool tn__derivative(tn__ssa *ssa, const tn_kernel_ins *ins, int k,
                    const uint32_t a[3], uint32_t y, uint32_t g, uint32_t *out);
/* These two functions differentiate a logistic function; exp is exp2 if
 * is_exp2. tn__logistic_complement appends 1 - s for s = 1 / (1 + exp(z)).
 * tn__logistic_gradient appends the contribution of y = x / (1 + exp(z)) to the
 * cotangent of z, where g is the cotangent of y. */
bool tn__logistic_complement(tn__ssa *ssa, bool is_exp2, uint32_t z,
                             uint32_t *out);
bool tn__logistic_gradient(tn__ssa *ssa, bool is_exp2, uint32_t z, uint32_t y,
                           uint32_t g, uint32_t *out);
/* Whether the derivative of ins with respect to operand k can be nonzero. */
bool tn__passes_gradient(const tn_kernel_ins *ins, int k,
                         tn_dtype operand_dtype);

#endif
