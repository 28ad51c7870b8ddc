/* ssa.h: typed SSA while it is being made. Typing, derivatives and composition
 * all append here; appending folds constants, applies identities that change
 * no bit, and merges equal values.
 *
 * Differences from the instructions of plugin.h, until tn__ssa_finish: CALL's
 * imm.i is the number of a function in tn__math_fn_at; a CAST to the type that
 * its operand has is `stop`: the value, through which no gradient flows. The
 * latter stays in tn__kernel; tn__kernel_program drops it.
 *
 * A failure of memory is kept in `failed`: later calls do nothing, the finish
 * gives NULL. */
#ifndef TN_LIB_KERNEL_SSA_H
#define TN_LIB_KERNEL_SSA_H

#include <stdatomic.h>

#include <kernel/def.h>
#include <kernel/kernel.h>
#include <kernel/math/functions.h>

#define TN__SSA_BUCKETS 256
/* A gradient may look at all of these while it is made. */
#define TN__SSA_MAX_INPUTS (TN__KERNEL_MAX_INPUTS + 2 * TN__KERNEL_MAX_OUTPUTS)

typedef struct tn__ssa {
    tn_kernel_ins *ins;
    size_t count, room;
    uint32_t *chain; /* the next older instruction of the same bucket */
    size_t chain_room;
    uint32_t bucket[TN__SSA_BUCKETS];
    uint32_t loop[TN__MAX_LOOPS * 4]; /* open LOOPs, outermost first */
    int loop_depth;
    bool failed;
    bool of_gradient; /* of what is derived, or was written as a gradient */

    /* As in tn__kernel. */
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

/* Appends (or finds) the value of ins; its level is set here. */
uint32_t tn__ssa_add(tn__ssa *ssa, tn_kernel_ins ins);
/* The same by parts; the result has dtype. b and c: TN_NONE where unused. */
uint32_t tn__ssa_op(tn__ssa *ssa, int op, tn_dtype dtype, uint32_t a,
                    uint32_t b, uint32_t c);
uint32_t tn__ssa_const(tn__ssa *ssa, tn_dtype dtype, double number);
uint32_t tn__ssa_integer(tn__ssa *ssa, tn_dtype dtype, int64_t integer);
/* v itself where it has that type. */
uint32_t tn__ssa_cast(tn__ssa *ssa, uint32_t v, tn_dtype dtype);
/* As it would read back from a tensor of dtype (any storage dtype). */
uint32_t tn__ssa_narrow(tn__ssa *ssa, uint32_t v, tn_dtype dtype);
uint32_t tn__ssa_stop(tn__ssa *ssa, uint32_t v);
uint32_t tn__ssa_reduce(tn__ssa *ssa, int kind, uint32_t v);

/* loop, then every carry, then the body, then end with each carry's value for
 * the next round. CARRY values are read inside and after. */
uint32_t tn__ssa_loop(tn__ssa *ssa, uint32_t bound);
uint32_t tn__ssa_carry(tn__ssa *ssa, uint32_t first);
void tn__ssa_while(tn__ssa *ssa, uint32_t condition);
void tn__ssa_end_loop(tn__ssa *ssa, const uint32_t *next);
/* Forgets everything from instruction count on, open loops included. */
void tn__ssa_truncate(tn__ssa *ssa, size_t count);

/* Appends a copy of instruction i of a kernel, its operands through map, and
 * notes it in map; input and param give the numbers that loads and parameters
 * have here. Called for each instruction in order. */
void tn__ssa_copy(tn__ssa *ssa, const tn__kernel *from, uint32_t i,
                  uint32_t *map, const int *input, const int *param);

/* Folding and identities: ins may be rewritten; true if it is just *same. */
bool tn__ssa_simplify(tn__ssa *ssa, tn_kernel_ins *ins, uint32_t *same);

/* The register type in which dtype is computed; NONE if none. */
tn_dtype tn__register_type(tn_dtype dtype);

/* ---- what is made of it ------------------------------------------------ */

/* Drops what nothing uses, moves out of loops what does not change in them,
 * and gives the kernel. Loads of unused inputs go, the inputs stay unless
 * `used` is given: then only inputs that are used stay, their old numbers in
 * used[]. name is copied. */
tn__kernel *tn__ssa_finish(tn__ssa *ssa, const char *name, int *used);
void tn__kernel_free(tn__kernel *kernel); /* one that nobody has seen yet */

/* The same for the body of a function, whose arguments fn has; ARG instead of
 * inputs. Fills result, dtype, ins and ins_count, from the arena. */
bool tn__ssa_finish_body(tn__ssa *ssa, uint32_t result, tn__arena *arena,
                         tn_kernel_fn *fn);
/* Marks what of fn's body ins is TN_BITCAST_ANY_NAN; false without memory, with
 * the error recorded. */
bool tn__fn_mark_nans(const tn_kernel_fn *fn, tn_kernel_ins *ins);

typedef struct tn__kernel_gradient_entry tn__kernel_gradient_entry;

/* What every tn__kernel is inside. */
typedef struct tn__kernel_box {
    tn__kernel kernel;         /* first */
    const uint32_t *fn_number; /* of each fn in tn__math_fn_at */
    bool of_gradient;          /* as in tn__ssa */
    _Atomic(const tn_program *) program;
    _Atomic(tn__kernel_gradient_entry *) gradient[TN__KERNEL_MAX_INPUTS];
    tn__arena arena; /* holds all of this */
} tn__kernel_box;

static inline tn__kernel_box *tn__kernel_box_of(const tn__kernel *kernel)
{
    return (tn__kernel_box *)kernel;
}

/* ---- type.c ------------------------------------------------------------ */

/* Not cached: see tn__def_kernel. */
const tn__kernel *tn__def_type(const tn__def *def, const tn_dtype *input_dtype);

/* The body of a fn for a register type; false with the error recorded. */
bool tn__math_type_fn(const tn__math_item *item, tn_dtype type,
                      tn_dtype arg_dtype[4], tn__ssa *ssa,
                      uint32_t *out_result);
/* Appends what a `d` item says for argument number arg. */
bool tn__math_type_d(tn__ssa *ssa, const tn__math_item *item, int arg,
                     const uint32_t *values, uint32_t *out);

/* ---- rules.c ----------------------------------------------------------- */

/* Appends what operand k of ins contributes to its cotangent, where a[] are
 * the operands, y the result and g the result's cotangent: *out, or TN_NONE
 * where nothing flows. False with the error recorded. */
bool tn__derivative(tn__ssa *ssa, const tn_kernel_ins *ins, int k,
                    const uint32_t a[3], uint32_t y, uint32_t g, uint32_t *out);
/* Of s = 1 / (1 + exp(z)), or two: exp2(z): 1 - s; and what flows to z from a
 * quotient y by 1 + exp(z). */
bool tn__logistic_complement(tn__ssa *ssa, bool is_exp2, uint32_t z,
                             uint32_t *out);
bool tn__logistic_gradient(tn__ssa *ssa, bool is_exp2, uint32_t z, uint32_t y,
                           uint32_t g, uint32_t *out);
/* Whether ins passes a gradient to operand k at all. */
bool tn__passes_gradient(const tn_kernel_ins *ins, int k,
                         tn_dtype operand_dtype);

#endif
