/* taps_find.c: recognises programs that compute short weighted sums, such as
 * interpolation. A tap is one term of such a sum: in[index] * weight. */
#include "taps.h"

/* Returns the operation of hoisted code (hoist.c) that loads `operand` by the
 * index in slot `index`, or without an index if `index` is NONE. Returns NULL
 * if there is no such operation. */
static const cpu_op *find_load(const cpu_code *code, uint32_t operand,
                               uint32_t index)
{
    for (uint32_t i = 0; i < code->op_count; i++) {
        const cpu_op *op = &code->op[i];
        if (op->code == CPU_LOAD && op->index == operand && op->a == index &&
            op->hoistable && code->slot[op->out].space == CPU_ELEM)
            return op;
    }
    return NULL;
}

/* Returns instruction n if it is a LOAD without an index, else NULL. */
static const tn_kernel_ins *plain_load(const tn_program *program, uint32_t n)
{
    const tn_kernel_ins *ins = n == TN_NONE ? NULL : &program->ins[n];
    return ins && ins->op == TN_K_LOAD && ins->a == TN_NONE ? ins : NULL;
}

/* The operand indices of a tap's input, index and weight, and the TN_LOAD_...
 * flags with which the input is loaded. */
typedef struct tap_operands {
    uint32_t in, index, weight, flags;
} tap_operands;

/* Returns whether instruction n computes one term of a weighted sum (a tap):
 * weighted(x[i], w) of float32 operands x and w. If so, sets *tap. */
static bool read_tap(const tn_program *program, uint32_t n, tap_operands *tap)
{
    const tn_kernel_ins *all = program->ins, *select = &all[n];
    if (select->op != TN_K_SELECT || select->sub != TN_SELECT_WEIGHTED)
        return false;
    const tn_kernel_ins *is_zero = &all[select->a], *product = &all[select->c];
    if (is_zero->op != TN_K_EQ || product->op != TN_K_MUL)
        return false;
    uint32_t w = is_zero->a, x = product->a == w ? product->b : product->a;
    const tn_kernel_ins *weight = plain_load(program, w), *value = &all[x];
    const tn_kernel_ins *index =
        value->op == TN_K_LOAD ? plain_load(program, value->a) : NULL;
    if (!weight || !index || value->b != TN_NONE || value->c != TN_NONE)
        return false;
    *tap = (tap_operands){(uint32_t)value->imm.i, (uint32_t)index->imm.i,
                          (uint32_t)weight->imm.i, value->sub};
    return program->operand[tap->in].dtype == TN_F32 &&
           program->operand[tap->weight].dtype == TN_F32;
}

/* Adds the term (tap) that instruction n computes to built->taps. Returns false
 * if the instruction computes no term, or if there are too many. */
static bool add_tap(tn_built *built, const tn_program *program, uint32_t n)
{
    cpu_taps *taps = &built->taps;
    tap_operands tap;
    if (taps->count == TN_CPU_TAPS || !read_tap(program, n, &tap) ||
        (taps->count > 0 && taps->in != tap.in))
        return false;
    const cpu_code *code = &built->hoisted;
    const cpu_op *from = find_load(code, tap.index, TN_CPU_NONE);
    const cpu_op *load = from ? find_load(code, tap.in, from->out) : NULL;
    const cpu_op *weight_load = find_load(code, tap.weight, TN_CPU_NONE);
    if (!load || !weight_load)
        return false;
    taps->in = tap.in;
    taps->index[taps->count] = tap.index;
    taps->weight[taps->count] = tap.weight;
    taps->load[taps->count] = (uint32_t)(load - code->op);
    taps->weight_load[taps->count++] = (uint32_t)(weight_load - code->op);
    return true;
}

/* Returns the depth of the tree of additions that computes value n. If the tree
 * is deeper than `most`, returns a number larger than `most`. */
static int depth_of(const tn_program *program, uint32_t n, int most)
{
    const tn_kernel_ins *ins = &program->ins[n];
    if (ins->op != TN_K_ADD || most < 0)
        return 0;
    const int a = depth_of(program, ins->a, most - 1);
    const int b = depth_of(program, ins->b, most - 1);
    return 1 + (a > b ? a : b);
}

/* Adds all terms (taps) of the sum that instruction n computes by a tree of
 * additions of the given depth. `leaf` is the index of the tree's first leaf.
 * Returns false if a leaf is not a tap. */
static bool add_taps(tn_built *built, const tn_program *program, uint32_t n,
                     int leaf, int depth)
{
    const tn_kernel_ins *ins = &program->ins[n];
    if (ins->dtype != TN_F32)
        return false;
    if (ins->op == TN_K_SELECT) {
        built->taps.leaves |= 1u << leaf;
        return add_tap(built, program, n);
    }
    return ins->op == TN_K_ADD &&
           add_taps(built, program, ins->a, leaf, depth - 1) &&
           add_taps(built, program, ins->b, leaf + (1 << (depth - 1)),
                    depth - 1);
}

/* Returns the STORE of the program. Returns NULL if there are several, if it
 * does not store float32, or if the instruction set has no routine for weighted
 * sums. */
static const tn_kernel_ins *only_store(const tn_built *built,
                                       const tn_program *program)
{
    const tn_kernel_ins *store = NULL;
    uint32_t stores = 0;
    for (uint32_t i = 0; i < program->ins_count; i++)
        if (program->ins[i].op == TN_K_STORE) {
            store = &program->ins[i];
            stores++;
        }
    bool able = stores == 1 && built->routines->tap_points > 0 &&
                store->b == TN_NONE &&
                program->operand[store->imm.i].dtype == TN_F32;
    return able ? store : NULL;
}

bool tn__cpu_find_row_taps(tn_built *built, const tn_program *program)
{
    tap_operands tap;
    const tn_kernel_ins *store = only_store(built, program);
    if (!store || !built->has_rows)
        return false;
    const tn_kernel_ins *sum = &program->ins[store->a];
    if (sum->op != TN_K_REDUCE || sum->sub != TN_REDUCE_SUM ||
        sum->dtype != TN_F32 || program->param_count > 0 ||
        !read_tap(program, sum->a, &tap))
        return false;
    built->row_taps = (cpu_row_taps){.in = tap.in, .index = tap.index,
                                     .out = (uint32_t)store->imm.i,
                                     .weight = tap.weight,
                                     .flags = tap.flags};
    return true;
}

bool tn__cpu_find_taps(tn_built *built, const tn_program *program)
{
    const tn_kernel_ins *store = only_store(built, program);
    if (!store || built->hoisted.op_count == 0)
        return false;
    built->taps.out = (uint32_t)store->imm.i;
    built->taps.depth = depth_of(program, store->a, TN_CPU_TAP_DEPTH);
    if (built->taps.depth > TN_CPU_TAP_DEPTH ||
        !add_taps(built, program, store->a, 0, built->taps.depth))
        built->taps.count = 0;
    return built->taps.count > 0;
}
