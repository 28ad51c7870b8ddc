/* derive.c: derives the gradient of a kernel by reverse-mode differentiation of
 * its SSA.
 *
 * The gradient begins as a copy of the forward kernel, except that outputs are
 * loaded from their tensors instead of computed again. Then gradients are
 * propagated from the last instruction to the first. The gradient of the result
 * with respect to an intermediate value is called its cotangent. At the end,
 * instructions and inputs that are not needed are removed.
 *
 * A first derivative is the derivative of each instruction, as in PyTorch. In
 * the derivative of a gradient, a value that overflows may be multiplied by 0.
 * So there are two more rules:
 *
 *   - where(), min(), max() and abs() pass the cotangent to one operand only.
 *     A mask marks the elements for which that operand was selected. At the
 *     end all other elements are set to 0, so that infinities and NaNs of an
 *     operand that was not selected have no effect.
 *   - A quotient by 1 + exp(z) is differentiated as a logistic function. */
#include <stdio.h>
#include <string.h>

#include <base/error.h>
#include <base/lock.h>
#include <base/memory.h>
#include <kernel/ssa.h>
#include <kernel/type.h>

struct tn__kernel_gradient_entry {
    const tn__kernel *kernel; /* the gradient; NULL if it is zero everywhere */
    int used[TN__KERNEL_MAX_INPUTS];
};

typedef struct derivation {
    const tn__kernel *kernel;
    int wrt;
    tn__ssa ssa;
    bool *active;     /* active[i] is true if value i depends on input `wrt`
                       * through instructions that have a derivative */
    uint32_t *value;  /* value[i] is the index of the forward kernel's value i
                       * in the gradient */
    uint32_t *cotangent;
    bool second_order; /* true if `kernel` is itself a gradient */
    /* If second_order is set, mask[i] is the index of a bool value: true for
     * the elements in which the cotangent of value i (the gradient of the
     * result with respect to it) is used. TN_NONE if it is used in all. */
    uint32_t *mask;
} derivation;

static bool begin(derivation *d, const tn__kernel *kernel, int wrt)
{
    size_t count = kernel->ins_count + (size_t)1;
    memset(d, 0, sizeof *d);
    d->kernel = kernel;
    d->wrt = wrt;
    tn__ssa_init(&d->ssa);
    d->active = tn__calloc(count, sizeof *d->active);
    d->value = tn__calloc(3 * count, sizeof *d->value);
    if (!d->active || !d->value)
        return false;
    d->cotangent = d->value + count;
    d->mask = d->cotangent + count;
    memset(d->cotangent, 0xff, 2 * count * sizeof *d->cotangent);
    d->second_order = tn__kernel_box_of(kernel)->of_gradient;
    d->ssa.of_gradient = true;
    return true;
}

static void end(derivation *d)
{
    tn__free(d->active);
    tn__free(d->value);
    tn__ssa_release(&d->ssa);
}

/* ---- which values depend on the input ------------------------------------ */

static uint32_t operand(const tn_kernel_ins *ins, int k)
{
    return k == 0 ? ins->a : k == 1 ? ins->b : ins->c;
}

static bool is_active(const derivation *d, const tn_kernel_ins *ins)
{
    if (ins->op == TN_K_LOAD)
        return ins->imm.i == d->wrt;
    for (int k = 0; k < 3; k++) {
        uint32_t u = operand(ins, k);
        if (u != TN_NONE && d->active[u] &&
            tn__passes_gradient(ins, k, d->kernel->ins[u].dtype))
            return true;
    }
    return false;
}

static void find_active(derivation *d)
{
    /* A variable of a loop depends on a later instruction, so the pass is
     * repeated until nothing changes. */
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < d->kernel->ins_count; i++)
            if (!d->active[i] && is_active(d, &d->kernel->ins[i]))
                d->active[i] = changed = true;
    }
}

/* ---- logistic functions ------------------------------------------------ */

/* Returns whether instruction i is a / (1 + exp(z)) or a / (1 + exp2(z)), and
 * sets *z and *is_exp2. */
static bool logistic(const derivation *d, uint32_t i, uint32_t *z,
                     bool *is_exp2)
{
    const tn__kernel *kernel = d->kernel;
    const tn_kernel_ins *ins = &kernel->ins[i];
    if (!d->second_order || ins->op != TN_K_DIV || !tn__is_float(ins->dtype))
        return false;
    const tn_kernel_ins *sum = &kernel->ins[ins->b];
    if (sum->op != TN_K_ADD || kernel->ins[sum->b].op != TN_K_CONST ||
        kernel->ins[sum->b].imm.f != 1 || kernel->ins[sum->a].op != TN_K_CALL)
        return false;
    const tn_kernel_ins *call = &kernel->ins[sum->a];
    uint32_t fn = tn__kernel_box_of(kernel)->fn_number[call->imm.i];
    const char *name = tn__math_fn_at((int)fn)->name;
    *z = call->a;
    *is_exp2 = strncmp(name, "exp2_", 5) == 0;
    return *is_exp2 || strncmp(name, "exp_", 4) == 0;
}

/* If instruction i is 1 - s, where s is a logistic function of z, computes it
 * as the logistic function of -z instead. Where s is near 1, the subtraction
 * would lose all digits. */
static bool use_complement(derivation *d, uint32_t i)
{
    const tn__kernel *kernel = d->kernel;
    const tn_kernel_ins *ins = &kernel->ins[i];
    if (ins->op != TN_K_SUB || kernel->ins[ins->a].op != TN_K_CONST ||
        kernel->ins[ins->a].imm.f != 1)
        return true;
    uint32_t z;
    bool is_exp2;
    if (!logistic(d, ins->b, &z, &is_exp2))
        return true;
    const tn_kernel_ins *apply_mask = &kernel->ins[kernel->ins[ins->b].a];
    return apply_mask->op != TN_K_CONST || apply_mask->imm.f != 1 ||
           tn__logistic_complement(&d->ssa, is_exp2, d->value[z], &d->value[i]);
}

/* ---- forward values ---------------------------------------------------- */

static void add_input(tn__ssa *ssa, const char *name, tn_dtype dtype,
                      uint8_t level)
{
    int i = ssa->input_count++;
    ssa->input[i].name = name;
    ssa->input[i].dtype = dtype;
    ssa->input[i].level = level;
}

static void add_inputs(tn__ssa *ssa, const tn__kernel *kernel)
{
    static const char *const outs[] = {"out0", "out1", "out2", "out3",
                                       "out4", "out5", "out6", "out7"};
    static const char *const gs[] = {"g0", "g1", "g2", "g3",
                                     "g4", "g5", "g6", "g7"};
    bool single = kernel->output_count == 1;
    for (int i = 0; i < kernel->input_count; i++)
        add_input(ssa, kernel->input[i].name, kernel->input[i].dtype,
                  kernel->input[i].level);
    for (int i = 0; i < kernel->output_count; i++)
        add_input(ssa, single ? "out" : outs[i], kernel->out[i].dtype,
                  kernel->out[i].level);
    for (int i = 0; i < kernel->output_count; i++)
        add_input(ssa, single ? "g" : gs[i], kernel->out[i].dtype,
                  kernel->out[i].level);
    ssa->param_count = kernel->param_count;
    for (int i = 0; i < kernel->param_count; i++) {
        ssa->param[i].name = kernel->param[i].name;
        ssa->param[i].dtype = kernel->param[i].dtype;
    }
}

static uint32_t load(tn__ssa *ssa, int input)
{
    return tn__ssa_add(ssa, (tn_kernel_ins){.op = TN_K_LOAD,
                                            .a = TN_NONE,
                                            .b = TN_NONE,
                                            .c = TN_NONE,
                                            .dtype = (uint8_t)tn__register_type(
                                                ssa->input[input].dtype),
                                            .imm.i = input});
}

/* Replaces output o, from here on, by a load from its tensor, so that it need
 * not be computed again. Does so only if the tensor has all bits of the value,
 * which a tensor of a half type does not. With the rounded value, the gradient
 * could be wrong by 50 units in the last place (a / b with respect to b, where
 * terms cancel), or infinite where only the rounded result overflows. */
static void read_output(derivation *d, int o)
{
    const tn__kernel *kernel = d->kernel;
    uint32_t v = kernel->out[o].value;
    const tn_kernel_ins *ins = &kernel->ins[v];
    if (ins->level != kernel->out[o].level || ins->op == TN_K_LOAD ||
        ins->op == TN_K_OFFSET)
        return;
    if (tn__is_float(kernel->out[o].dtype) &&
        kernel->out[o].dtype != ins->dtype)
        return;
    d->value[v] = load(&d->ssa, kernel->input_count + o);
}

static bool copy_forward(derivation *d)
{
    const tn__kernel *kernel = d->kernel;
    int same[TN__KERNEL_MAX_INPUTS];
    for (int i = 0; i < TN__KERNEL_MAX_INPUTS; i++)
        same[i] = i;
    int depth = 0;
    for (uint32_t i = 0; i < kernel->ins_count; i++) {
        const tn_kernel_ins *ins = &kernel->ins[i];
        tn__ssa_copy(&d->ssa, kernel, i, d->value, same, same);
        if (!use_complement(d, i))
            return false;
        depth += (ins->op == TN_K_LOOP) - (ins->op == TN_K_ENDLOOP);
        if (depth)
            /* Inside a loop, a variable has the value of the current iteration.
             * The output has the final one. */
            continue;
        for (int o = 0; o < kernel->output_count; o++) {
            uint32_t v = kernel->out[o].value;
            if (v == i || (ins->op == TN_K_ENDLOOP && v < i &&
                           kernel->ins[v].op == TN_K_CARRY))
                read_output(d, o);
        }
    }
    return true;
}

/* ---- propagating cotangents ---------------------------------------------- */

/* Returns `part` with 0 where the mask is false. `part` is a term that is going
 * to be added to a gradient. */
static uint32_t apply_mask(derivation *d, uint32_t part, uint32_t mask)
{
    if (mask == TN_NONE)
        return part;
    tn_dtype dtype = tn__ssa_dtype(&d->ssa, part);
    return tn__ssa_op(&d->ssa, TN_K_SELECT, dtype, mask, part,
                      tn__ssa_const(&d->ssa, dtype, 0));
}

/* Adds `part` to the cotangent of value v (the gradient of the result with
 * respect to it). If v has one value per row and `part` one per element, `part`
 * is summed over the row. */
static void accumulate(derivation *d, uint32_t v, uint32_t part, uint32_t mask,
                       bool from_elem)
{
    if (from_elem && d->kernel->ins[v].level == TN_LEVEL_ROW) {
        part =
            tn__ssa_reduce(&d->ssa, TN_REDUCE_SUM, apply_mask(d, part, mask));
        mask = TN_NONE;
    }
    uint32_t *sum = &d->cotangent[v];
    if (*sum != TN_NONE && d->mask[v] != mask) {
        *sum = apply_mask(d, *sum, d->mask[v]);
        part = apply_mask(d, part, mask);
        mask = TN_NONE;
    }
    d->mask[v] = mask;
    *sum = *sum == TN_NONE
               ? part
               : tn__ssa_op(&d->ssa, TN_K_ADD, d->kernel->ins[v].dtype, *sum,
                            part, TN_NONE);
}

static void seed_outputs(derivation *d)
{
    const tn__kernel *kernel = d->kernel;
    for (int o = 0; o < kernel->output_count; o++) {
        uint32_t v = kernel->out[o].value;
        if (d->active[v])
            accumulate(
                d, v,
                load(&d->ssa, kernel->input_count + kernel->output_count + o),
                TN_NONE, kernel->out[o].level == TN_LEVEL_ELEM);
    }
}

static bool fail_gradient(const derivation *d, const char *why)
{
    tn__fail(TN_ERR_UNSUPPORTED, "the gradient of %s with respect to %s %s",
             d->kernel->name, d->kernel->input[d->wrt].name, why);
    return false;
}

static uint32_t bool_op(derivation *d, int op, uint32_t a, uint32_t b)
{
    return tn__ssa_op(&d->ssa, op, TN_BOOL, a, b, TN_NONE);
}

/* For the gradient of a gradient: returns what a SELECT, ABS, MIN or MAX adds
 * to the gradient of its operand k, where g is the gradient of its result.
 * Restricts *mask to the elements for which operand k is selected. */
static uint32_t select_cotangent(derivation *d, const tn_kernel_ins *ins, int k,
                                 const uint32_t a[3], uint32_t g,
                                 uint32_t *mask)
{
    tn_dtype dtype = tn__ssa_dtype(&d->ssa, g);
    uint32_t where = a[0], mine = a[k], other = a[!k];
    if (ins->op == TN_K_SELECT) {
        if (k == 2)
            where = bool_op(d, TN_K_NOT, where, TN_NONE);
    } else if (ins->op == TN_K_ABS) {
        uint32_t zero = tn__ssa_const(&d->ssa, dtype, 0);
        uint32_t below = bool_op(d, TN_K_LT, mine, zero);
        uint32_t minus =
            tn__ssa_op(&d->ssa, TN_K_NEG, dtype, g, TN_NONE, TN_NONE);
        where = bool_op(d, TN_K_OR, below, bool_op(d, TN_K_LT, zero, mine));
        g = tn__ssa_op(&d->ssa, TN_K_SELECT, dtype, below, minus, g);
    } else { /* MIN or MAX: if the operands are equal, each gets half of g */
        uint32_t half = tn__ssa_op(&d->ssa, TN_K_MUL, dtype, g,
                                   tn__ssa_const(&d->ssa, dtype, 0.5), TN_NONE);
        where = ins->op == TN_K_MIN ? bool_op(d, TN_K_LT, other, mine)
                                    : bool_op(d, TN_K_LT, mine, other);
        where = bool_op(d, TN_K_NOT, where, TN_NONE);
        g = tn__ssa_op(&d->ssa, TN_K_SELECT, dtype,
                       bool_op(d, TN_K_EQ, mine, other), half, g);
    }
    *mask = *mask == TN_NONE ? where : bool_op(d, TN_K_AND, *mask, where);
    return g;
}

static bool is_selecting(const derivation *d, const tn_kernel_ins *ins)
{
    return d->second_order && (ins->op == TN_K_SELECT || ins->op == TN_K_ABS ||
                               ins->op == TN_K_MIN || ins->op == TN_K_MAX);
}

/* Propagates the gradient of a / (1 + exp(z)) directly to z. */
static bool propagate_to_exponent(derivation *d, uint32_t i, uint32_t z,
                                  bool is_exp2)
{
    uint32_t part;
    if (!d->active[z])
        return true;
    if (!tn__logistic_gradient(&d->ssa, is_exp2, d->value[z], d->value[i],
                               d->cotangent[i], &part))
        return false;
    accumulate(d, z, part, d->mask[i],
               d->kernel->ins[i].level == TN_LEVEL_ELEM);
    return true;
}

static bool propagate(derivation *d, uint32_t i)
{
    const tn_kernel_ins *ins = &d->kernel->ins[i];
    uint32_t a[3] = {TN_NONE, TN_NONE, TN_NONE}, z;
    tn_kernel_ins called = *ins;
    bool is_exp2, exponential = logistic(d, i, &z, &is_exp2);
    if (ins->op == TN_K_CALL)
        called.imm.i = tn__kernel_box_of(d->kernel)->fn_number[ins->imm.i];
    for (int k = 0; k < 3; k++)
        if (operand(ins, k) != TN_NONE)
            a[k] = d->value[operand(ins, k)];
    for (int k = 0; k < 3; k++) {
        uint32_t u = operand(ins, k), part, mask = d->mask[i];
        if (u == TN_NONE || !d->active[u] ||
            !tn__passes_gradient(ins, k, d->kernel->ins[u].dtype))
            continue;
        if (exponential && k == 1) {
            if (!propagate_to_exponent(d, i, z, is_exp2))
                return false;
            continue;
        }
        if (is_selecting(d, ins)) {
            part = select_cotangent(d, ins, k, a, d->cotangent[i], &mask);
        } else if (!tn__derivative(&d->ssa, &called, k, a, d->value[i],
                                   d->cotangent[i], &part)) {
            return false;
        }
        if (part != TN_NONE)
            accumulate(d, u, part, mask,
                       ins->level == TN_LEVEL_ELEM || ins->op == TN_K_REDUCE);
    }
    return true;
}

static bool propagate_all(derivation *d)
{
    for (uint32_t i = d->kernel->ins_count; i-- > 0;) {
        const tn_kernel_ins *ins = &d->kernel->ins[i];
        if (!d->active[i] || d->cotangent[i] == TN_NONE)
            continue;
        if (ins->op == TN_K_CARRY)
            return fail_gradient(
                d, "passes through a loop: write a gradient by hand");
        if (ins->op == TN_K_LOAD && ins->a != TN_NONE)
            return fail_gradient(
                d, "passes through an indexed load: it needs a scatter");
        if (ins->op != TN_K_LOAD && !propagate(d, i))
            return false;
    }
    return !d->ssa.failed;
}

/* Returns the gradient with respect to input `wrt`; TN_NONE if it is zero
 * everywhere. */
static uint32_t input_cotangent(derivation *d)
{
    for (uint32_t i = 0; i < d->kernel->ins_count; i++)
        if (d->kernel->ins[i].op == TN_K_LOAD &&
            d->kernel->ins[i].imm.i == d->wrt && d->active[i] &&
            d->cotangent[i] != TN_NONE)
            return apply_mask(d, d->cotangent[i], d->mask[i]);
    return TN_NONE;
}

/* Derives the gradient of a kernel with respect to input `wrt`. Sets
 * *out_kernel to NULL if it is zero everywhere. */
static bool derive(const tn__kernel *kernel, int wrt, int *used,
                   const tn__kernel **out_kernel)
{
    derivation d;
    *out_kernel = NULL;
    if (!tn__is_float(kernel->input[wrt].dtype))
        return true;
    bool good = begin(&d, kernel, wrt);
    if (good) {
        find_active(&d);
        add_inputs(&d.ssa, kernel);
        good = copy_forward(&d);
        if (good)
            seed_outputs(&d);
        good = good && propagate_all(&d);
    }
    uint32_t result = good ? input_cotangent(&d) : TN_NONE;
    if (result != TN_NONE) {
        char name[160];
        snprintf(name, sizeof name, "%.90s_grad_%.60s", kernel->name,
                 kernel->input[wrt].name);
        d.ssa.output_count = 1;
        d.ssa.out[0].value = result;
        d.ssa.out[0].dtype = kernel->input[wrt].dtype;
        d.ssa.out[0].level = kernel->input[wrt].level;
        *out_kernel = tn__ssa_finish(&d.ssa, name, used);
        good = *out_kernel;
    }
    end(&d);
    return good;
}

const tn__kernel *tn__kernel_gradient(const tn__kernel *kernel, int wrt,
                                      int used[TN__KERNEL_MAX_INPUTS],
                                      bool *out_zero)
{
    static tn__lock lock = TN__LOCK_INIT;
    tn__kernel_box *box = tn__kernel_box_of(kernel);
    tn__kernel_gradient_entry *entry =
        atomic_load_explicit(&box->gradient[wrt], memory_order_acquire);
    *out_zero = false;
    if (!entry) {
        tn__lock_take(&lock);
        entry = atomic_load_explicit(&box->gradient[wrt], memory_order_relaxed);
        if (!entry && (entry = tn__calloc(1, sizeof *entry))) {
            if (derive(kernel, wrt, entry->used, &entry->kernel)) {
                atomic_store_explicit(&box->gradient[wrt], entry,
                                      memory_order_release);
            } else {
                tn__free(entry);
                entry = NULL;
            }
        }
        tn__lock_give(&lock);
    }
    if (!entry)
        return NULL;
    *out_zero = !entry->kernel;
    memcpy(used, entry->used, sizeof entry->used);
    return entry->kernel;
}
