/* ssa.c: appends typed instructions to a kernel under construction (SSA), and
 * merges equal ones. */
#include <kernel/ssa.h>

#include <string.h>

#include <base/memory.h>
#include <kernel/program_hash.h>

void tn__ssa_init(tn__ssa *ssa)
{
    memset(ssa, 0, sizeof *ssa);
    /* sets all entries to TN_NONE */
    memset(ssa->bucket, 0xff, sizeof ssa->bucket);
}

void tn__ssa_release(tn__ssa *ssa)
{
    tn__free(ssa->ins);
    tn__free(ssa->chain);
    ssa->ins = NULL;
    ssa->chain = NULL;
}

tn_dtype tn__register_type(tn_dtype dtype)
{
    static const uint8_t type[TN_DTYPE_END] = {
#define REGISTER_TYPE(name, code, text, bytes, kind, reg) [code] = TN_##reg,
        TN_DTYPE_MAP(REGISTER_TYPE)
#undef REGISTER_TYPE
    };
    return dtype < TN_DTYPE_END ? type[dtype] : TN_DTYPE_NONE;
}

/* ---- appending --------------------------------------------------------- */

static bool is_region(int op)
{
    return op == TN_K_LOOP || op == TN_K_CARRY || op == TN_K_WHILE ||
           op == TN_K_ENDLOOP;
}

static uint32_t bucket_of(const tn_kernel_ins *ins)
{
    uint64_t h[2] = {0, 0};
    tn__hash_ins(h, ins);
    return (uint32_t)(h[0] % TN__SSA_BUCKETS);
}

static bool same_ins(const tn_kernel_ins *x, const tn_kernel_ins *y)
{
    return x->op == y->op && x->dtype == y->dtype && x->sub == y->sub &&
           x->a == y->a && x->b == y->b && x->c == y->c && x->imm.i == y->imm.i;
}

static uint32_t append(tn__ssa *ssa, const tn_kernel_ins *ins)
{
    size_t at = ssa->count;
    if (ssa->failed)
        return 0;
    if (!tn__grow(&ssa->ins, &ssa->room, at, sizeof *ssa->ins) ||
        !tn__grow(&ssa->chain, &ssa->chain_room, at, sizeof *ssa->chain)) {
        ssa->failed = true;
        return 0;
    }
    ssa->ins[at] = *ins;
    ssa->chain[at] = TN_NONE;
    if (!is_region(ins->op)) {
        uint32_t bucket = bucket_of(ins);
        ssa->chain[at] = ssa->bucket[bucket];
        ssa->bucket[bucket] = (uint32_t)at;
    }
    ssa->count++;
    return (uint32_t)at;
}

static uint8_t level_of(const tn__ssa *ssa, const tn_kernel_ins *ins)
{
    uint8_t level = TN_LEVEL_UNIFORM;
    const uint32_t operand[3] = {ins->a, ins->b, ins->c};
    for (int i = 0; i < 3; i++)
        if (operand[i] != TN_NONE && ssa->ins[operand[i]].level > level)
            level = ssa->ins[operand[i]].level;
    if (ins->op == TN_K_REDUCE)
        return TN_LEVEL_ROW;
    if (ins->op == TN_K_ARG)
        return TN_LEVEL_ELEM;
    if (ins->op == TN_K_LOAD || ins->op == TN_K_OFFSET)
        return level > ssa->input[ins->imm.i].level
                   ? level
                   : ssa->input[ins->imm.i].level;
    return level;
}

uint32_t tn__ssa_add(tn__ssa *ssa, tn_kernel_ins ins)
{
    uint32_t same = 0;
    if (ssa->failed || tn__ssa_simplify(ssa, &ins, &same))
        return same;
    for (uint32_t i = ssa->bucket[bucket_of(&ins)]; i != TN_NONE;
         i = ssa->chain[i])
        if (same_ins(&ssa->ins[i], &ins))
            return i;
    ins.level = level_of(ssa, &ins);
    return append(ssa, &ins);
}

uint32_t tn__ssa_op(tn__ssa *ssa, int op, tn_dtype dtype, uint32_t a,
                    uint32_t b, uint32_t c)
{
    return tn__ssa_add(ssa, (tn_kernel_ins){.op = (uint8_t)op,
                                            .dtype = (uint8_t)dtype,
                                            .a = a,
                                            .b = b,
                                            .c = c});
}

uint32_t tn__ssa_const(tn__ssa *ssa, tn_dtype dtype, double number)
{
    tn_kernel_ins ins = {.op = TN_K_CONST,
                         .dtype = (uint8_t)dtype,
                         .a = TN_NONE,
                         .b = TN_NONE,
                         .c = TN_NONE};
    if (dtype == TN_F32 || dtype == TN_F64)
        ins.imm.f = dtype == TN_F32 ? (double)(float)number : number;
    else
        ins.imm.i = (int64_t)number;
    return tn__ssa_add(ssa, ins);
}

uint32_t tn__ssa_integer(tn__ssa *ssa, tn_dtype dtype, int64_t integer)
{
    return tn__ssa_add(ssa, (tn_kernel_ins){.op = TN_K_CONST,
                                            .dtype = (uint8_t)dtype,
                                            .a = TN_NONE,
                                            .b = TN_NONE,
                                            .c = TN_NONE,
                                            .imm.i = integer});
}

uint32_t tn__ssa_cast(tn__ssa *ssa, uint32_t v, tn_dtype dtype)
{
    if (ssa->failed || ssa->ins[v].dtype == dtype)
        return v;
    return tn__ssa_op(ssa, TN_K_CAST, dtype, v, TN_NONE, TN_NONE);
}

uint32_t tn__ssa_narrow(tn__ssa *ssa, uint32_t v, tn_dtype dtype)
{
    tn_dtype type = tn__register_type(dtype);
    if (type == dtype)
        return v;
    return tn__ssa_add(ssa, (tn_kernel_ins){.op = TN_K_NARROW,
                                            .dtype = (uint8_t)type,
                                            .sub = (uint8_t)dtype,
                                            .a = v,
                                            .b = TN_NONE,
                                            .c = TN_NONE});
}

uint32_t tn__ssa_stop(tn__ssa *ssa, uint32_t v)
{
    return tn__ssa_op(ssa, TN_K_CAST, tn__ssa_dtype(ssa, v), v, TN_NONE,
                      TN_NONE);
}

uint32_t tn__ssa_reduce(tn__ssa *ssa, int kind, uint32_t v)
{
    bool place = kind == TN_REDUCE_ARGMAX || kind == TN_REDUCE_ARGMIN;
    return tn__ssa_add(
        ssa, (tn_kernel_ins){
                 .op = TN_K_REDUCE,
                 .sub = (uint8_t)kind,
                 .a = v,
                 .b = TN_NONE,
                 .dtype = (uint8_t)(place ? TN_I64 : tn__ssa_dtype(ssa, v)),
                 .c = TN_NONE});
}

/* ---- loops ------------------------------------------------------------- */

uint32_t tn__ssa_loop(tn__ssa *ssa, uint32_t bound)
{
    tn_kernel_ins ins = {.op = TN_K_LOOP,
                         .dtype = TN_I64,
                         .a = bound,
                         .b = TN_NONE,
                         .c = TN_NONE};
    uint32_t at = append(ssa, &ins);
    if (!ssa->failed)
        ssa->loop[ssa->loop_depth++] = at;
    return at;
}

uint32_t tn__ssa_carry(tn__ssa *ssa, uint32_t first)
{
    tn_kernel_ins ins = {.op = TN_K_CARRY,
                         .dtype = (uint8_t)tn__ssa_dtype(ssa, first),
                         .level = tn__ssa_level(ssa, first),
                         .a = first,
                         .b = TN_NONE,
                         .c = TN_NONE};
    return append(ssa, &ins);
}

void tn__ssa_while(tn__ssa *ssa, uint32_t condition)
{
    tn_kernel_ins ins = {.op = TN_K_WHILE,
                         .dtype = TN_BOOL,
                         .level = tn__ssa_level(ssa, condition),
                         .a = condition,
                         .b = TN_NONE,
                         .c = TN_NONE};
    append(ssa, &ins);
}

/* Removes the instructions with an index of at least `first` from the hash
 * table, so that later instructions are not merged with them. */
static void unlink_from(tn__ssa *ssa, size_t first)
{
    for (size_t i = ssa->count; i-- > first;)
        if (!is_region(ssa->ins[i].op))
            ssa->bucket[bucket_of(&ssa->ins[i])] = ssa->chain[i];
}

void tn__ssa_end_loop(tn__ssa *ssa, const uint32_t *next)
{
    if (ssa->failed)
        return;
    uint32_t loop = ssa->loop[--ssa->loop_depth];
    /* After the loop, only its variables have values. */
    unlink_from(ssa, loop);
    tn_kernel_ins ins = {
        .op = TN_K_ENDLOOP, .a = TN_NONE, .b = TN_NONE, .c = TN_NONE};
    uint32_t end = append(ssa, &ins);
    if (ssa->failed)
        return;
    ssa->ins[loop].imm.i = end;
    uint8_t level = TN_LEVEL_UNIFORM;
    for (uint32_t i = loop + 1, n = 0; i < end; i++) {
        if (ssa->ins[i].op == TN_K_CARRY && ssa->ins[i].b == TN_NONE) {
            ssa->ins[i].b = next[n++];
            uint8_t of_next = ssa->ins[ssa->ins[i].b].level;
            level = of_next > level ? of_next : level;
        }
        level = ssa->ins[i].level > level ? ssa->ins[i].level : level;
    }
    /* A loop is computed as a whole: for each element, for each row, or once.
     * So all its instructions get the highest of their levels. */
    for (uint32_t i = loop; i <= end; i++)
        ssa->ins[i].level = level;
}

void tn__ssa_truncate(tn__ssa *ssa, size_t count)
{
    unlink_from(ssa, count);
    ssa->count = count;
    while (ssa->loop_depth && ssa->loop[ssa->loop_depth - 1] >= count)
        ssa->loop_depth--;
}

/* ---- copying ----------------------------------------------------------- */

void tn__ssa_copy(tn__ssa *ssa, const tn__kernel *from, uint32_t i,
                  uint32_t *map, const int *input, const int *param)
{
    tn_kernel_ins ins = from->ins[i];
    uint32_t *operand[3] = {&ins.a, &ins.b, &ins.c};
    if (ins.op == TN_K_LOOP) {
        map[i] = tn__ssa_loop(ssa, map[ins.a]);
        return;
    }
    if (ins.op == TN_K_CARRY) {
        map[i] = tn__ssa_carry(ssa, map[ins.a]);
        return;
    }
    if (ins.op == TN_K_WHILE) {
        tn__ssa_while(ssa, map[ins.a]);
        return;
    }
    if (ins.op == TN_K_ENDLOOP) {
        uint32_t loop = i, next[TN__KERNEL_MAX_OUTPUTS], count = 0;
        while (from->ins[loop].op != TN_K_LOOP || from->ins[loop].imm.i != i)
            loop--;
        for (uint32_t k = loop + 1; from->ins[k].op == TN_K_CARRY; k++)
            next[count++] = map[from->ins[k].b];
        tn__ssa_end_loop(ssa, next);
        return;
    }
    for (int k = 0; k < 3; k++)
        if (*operand[k] != TN_NONE)
            *operand[k] = map[*operand[k]];
    if (ins.op == TN_K_CALL)
        ins.imm.i = tn__kernel_box_of(from)->fn_number[ins.imm.i];
    else if (ins.op == TN_K_LOAD || ins.op == TN_K_OFFSET)
        ins.imm.i = input[ins.imm.i];
    else if (ins.op == TN_K_PARAM && param)
        ins.imm.i = param[ins.imm.i];
    map[i] = tn__ssa_add(ssa, ins);
}
