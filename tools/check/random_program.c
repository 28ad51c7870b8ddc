/* random_program.c: makes random valid kernel programs.
 *
 * A program has a uniform part, which runs once for a launch, and stages. Each
 * stage has a part that runs for each element, reductions over rows, and a part
 * that runs once for each row. Instructions are generated in this order. Their
 * operands are values of earlier instructions that are visible in the current
 * part. At the end, instructions that no store needs are left out of the
 * execution order. */
#include "random_program.h"

#include <stdlib.h>
#include <string.h>

#include "random_layout.h"
#include "random_library.h"
#include "random_source.h"

/* The state of the generator: the instructions of the program or of a function,
 * and the values that the next instruction may use. */
typedef struct builder {
    random_source *random;
    random_case *c;
    tn_kernel_ins *ins;
    uint32_t ins_count;
    uint32_t visible[RANDOM_MAX_INS], visible_count;
    bool used[RANDOM_MAX_INS]; /* an instruction uses this value */
    uint8_t stage_of[RANDOM_MAX_INS];
    uint32_t region_of[RANDOM_MAX_INS]; /* the outermost LOOP that contains the
                                           instruction, or TN_NONE */
    uint32_t region;                    /* the outermost open LOOP, or
                                           TN_NONE */
    int depth;                          /* number of nested open loops */
    int level;                          /* where the next instruction runs:
                                           once, for each element or for each
                                           row (TN_LEVEL_) */
    int stage;
    int fn_count; /* number of functions that may be called */
    bool is_fn;   /* a function is being generated, not the program */
    bool has_rows;
    bool may_fault; /* indices may be out of range */
    bool rereads;   /* stages use elements that earlier stages loaded, as
                       softmax does */
    int room;       /* number of instructions that may still be generated */
} builder;

static tn_dtype random_type(builder *b)
{
    static const uint8_t types[] = {TN_F32, TN_F32, TN_F32, TN_F64,
                                    TN_I32, TN_I64, TN_BOOL};
    return types[random_below(b->random, sizeof types)];
}

/* ---- instructions ------------------------------------------------------- */

static bool is_value(const tn_kernel_ins *ins)
{
    return ins->op != TN_K_STORE && ins->op != TN_K_WHILE &&
           ins->op != TN_K_ENDLOOP;
}

static uint32_t emit(builder *b, unsigned op, tn_dtype dtype, int level,
                     uint32_t x, uint32_t y, uint32_t z)
{
    if (b->ins_count == RANDOM_MAX_INS)
        abort(); /* cannot happen: `room` limits the number of instructions */
    uint32_t number = b->ins_count++;
    b->ins[number] = (tn_kernel_ins){.op = (uint8_t)op,
                                     .dtype = (uint8_t)dtype,
                                     .level = (uint8_t)level,
                                     .a = x,
                                     .b = y,
                                     .c = z};
    b->stage_of[number] = (uint8_t)b->stage;
    b->region_of[number] = b->region;
    const uint32_t operand[3] = {x, y, z};
    for (int i = 0; i < 3; i++)
        if (operand[i] != TN_NONE)
            b->used[operand[i]] = true;
    if (is_value(&b->ins[number]))
        b->visible[b->visible_count++] = number;
    b->room--;
    return number;
}

static uint32_t emit_const(builder *b, tn_dtype dtype)
{
    uint32_t number =
        emit(b, TN_K_CONST, dtype, TN_LEVEL_UNIFORM, TN_NONE, TN_NONE, TN_NONE);
    if (random_is_float(dtype))
        b->ins[number].imm.f = random_float(b->random, false);
    else
        b->ins[number].imm.i = dtype == TN_BOOL ? random_below(b->random, 2)
                                                : random_int(b->random, false);
    return number;
}

static uint32_t emit_const_i64(builder *b, int64_t value)
{
    uint32_t number = emit(b, TN_K_CONST, TN_I64, TN_LEVEL_UNIFORM, TN_NONE,
                           TN_NONE, TN_NONE);
    b->ins[number].imm.i = value;
    return number;
}

/* Returns whether the next instruction may use value n. b->level says whether it
 * runs once, for each row or for each element. */
static bool is_ready(const builder *b, uint32_t n)
{
    if (b->ins[n].level > b->level)
        return false;
    /* A stage first computes its values of elements, then those of rows. */
    return b->is_fn || b->level != TN_LEVEL_ELEM ||
           b->ins[n].level != TN_LEVEL_ROW || b->stage_of[n] != b->stage;
}

/* Chooses a visible value of dtype, or of any dtype for TN_DTYPE_NONE. Prefers
 * values that are recent or not yet used, so that long chains of instructions
 * result. Returns TN_NONE if there is no such value. */
static uint32_t pick_visible(builder *b, tn_dtype dtype, int least_level)
{
    uint32_t found[RANDOM_MAX_INS], unused[RANDOM_MAX_INS];
    uint32_t count = 0, unused_count = 0;
    for (uint32_t i = 0; i < b->visible_count; i++) {
        uint32_t n = b->visible[i];
        const tn_kernel_ins *ins = &b->ins[n];
        if ((dtype != TN_DTYPE_NONE && ins->dtype != dtype) ||
            ins->level < least_level || !is_ready(b, n))
            continue;
        found[count++] = n;
        if (!b->used[n])
            unused[unused_count++] = n;
    }
    if (unused_count > 0 && random_chance(b->random, 60))
        return unused[random_below(b->random, unused_count)];
    if (count == 0)
        return TN_NONE;
    uint32_t recent = random_chance(b->random, 60) && count > 4 ? 4 : count;
    return found[count - 1 - random_below(b->random, recent)];
}

/* Returns an operand of dtype: sometimes a new constant, mostly a value that
 * differs between elements. If no value has this dtype, converts one. */
static uint32_t pick(builder *b, tn_dtype dtype)
{
    if (random_chance(b->random, 6))
        return emit_const(b, dtype);
    uint32_t n = TN_NONE;
    if (!random_chance(b->random, 15) && b->level != TN_LEVEL_UNIFORM &&
        !b->is_fn) {
        n = pick_visible(b, dtype, TN_LEVEL_ROW);
        if (n == TN_NONE && b->room > 4) {
            uint32_t other = pick_visible(b, TN_DTYPE_NONE, TN_LEVEL_ROW);
            if (other != TN_NONE)
                n = emit(b, TN_K_CAST, dtype, b->level, other, TN_NONE,
                         TN_NONE);
        }
    }
    if (n == TN_NONE)
        n = pick_visible(b, dtype, TN_LEVEL_UNIFORM);
    return n == TN_NONE ? emit_const(b, dtype) : n;
}

static void emit_bitcast(builder *b)
{
    static const uint8_t pair[][2] = {
        {TN_F32, TN_I32}, {TN_I32, TN_F32}, {TN_F64, TN_I64}, {TN_I64, TN_F64}};
    uint32_t i = random_below(b->random, 4), x = pick(b, pair[i][0]);
    emit(b, TN_K_BITCAST, pair[i][1], b->level, x, TN_NONE, TN_NONE);
}

static void emit_simple(builder *b, tn_dtype dtype)
{
    static const uint8_t floats[] = {
        TN_K_ADD, TN_K_SUB,   TN_K_MUL,  TN_K_DIV,   TN_K_REM, TN_K_FMA,
        TN_K_NEG, TN_K_ABS,   TN_K_MIN,  TN_K_MAX,   TN_K_FMA, TN_K_SQRT,
        TN_K_ADD, TN_K_FLOOR, TN_K_CEIL, TN_K_TRUNC, TN_K_RINT};
    static const uint8_t ints[] = {TN_K_ADD, TN_K_SUB, TN_K_MUL, TN_K_DIV,
                                   TN_K_REM, TN_K_NEG, TN_K_ABS, TN_K_MIN,
                                   TN_K_MAX, TN_K_AND, TN_K_OR,  TN_K_XOR,
                                   TN_K_NOT, TN_K_SHL, TN_K_SHR, TN_K_SHRL};
    static const uint8_t bools[] = {TN_K_ADD, TN_K_MUL, TN_K_MIN, TN_K_MAX,
                                    TN_K_AND, TN_K_OR,  TN_K_XOR, TN_K_NOT};
    unsigned op = dtype == TN_BOOL
                      ? bools[random_below(b->random, sizeof bools)]
                  : random_is_float(dtype)
                      ? floats[random_below(b->random, sizeof floats)]
                      : ints[random_below(b->random, sizeof ints)];
    static const uint8_t operands[] = {
#define OPERANDS(name, count, text) count,
        TN_KERNEL_MAP(OPERANDS)
#undef OPERANDS
    };
    if (dtype == TN_I32 && random_chance(b->random, 6))
        op = TN_K_MULHI;
    uint32_t x = pick(b, dtype), y = TN_NONE, z = TN_NONE;
    if (operands[op] > 1)
        y = pick(b, dtype);
    if (operands[op] > 2)
        z = pick(b, dtype);
    emit(b, op, dtype, b->level, x, y, z);
}

static void emit_compare(builder *b)
{
    static const uint8_t ops[] = {TN_K_EQ, TN_K_NE, TN_K_LT, TN_K_LE};
    tn_dtype dtype = random_type(b);
    uint32_t x = pick(b, dtype), y = pick(b, dtype);
    emit(b, ops[random_below(b->random, 4)], TN_BOOL, b->level, x, y, TN_NONE);
}

static void emit_narrow(builder *b)
{
    static const uint8_t kinds[][2] = {{TN_F32, TN_F16},    {TN_F32, TN_BF16},
                                       {TN_F32, TN_F8E4M3}, {TN_F32, TN_F8E5M2},
                                       {TN_I32, TN_I8},     {TN_I32, TN_I16},
                                       {TN_I32, TN_U8}};
    uint32_t i = random_below(b->random, 7), x = pick(b, kinds[i][0]);
    x = emit(b, TN_K_NARROW, kinds[i][0], b->level, x, TN_NONE, TN_NONE);
    b->ins[x].sub = kinds[i][1];
}

static void emit_call(builder *b)
{
    /* Within a loop of a function no function is called, because nested loops
     * would take too long. */
    if (b->fn_count == 0 || (b->is_fn && b->depth > 0))
        return;
    uint32_t f = random_below(b->random, (uint32_t)b->fn_count);
    const tn_kernel_fn *fn = &b->c->fn[f];
    uint32_t arg[3] = {TN_NONE, TN_NONE, TN_NONE};
    for (uint32_t i = 0; i < fn->arg_count; i++)
        arg[i] = pick(b, fn->arg_dtype[i]);
    uint32_t call =
        emit(b, TN_K_CALL, fn->dtype, b->level, arg[0], arg[1], arg[2]);
    b->ins[call].imm.i = f;
}

static void emit_any(builder *b);

/* Generates a loop that carries one to three values from one iteration to the
 * next and may end early. */
static void emit_loop(builder *b)
{
    uint32_t rounds = TN_NONE;
    if (!b->is_fn && b->c->program.param_count > 0 &&
        random_chance(b->random, 30)) {
        /* Parameter 0 is reserved as the number of iterations: an I64 of at
         * most 6. */
        rounds = emit(b, TN_K_PARAM, TN_I64, TN_LEVEL_UNIFORM, TN_NONE, TN_NONE,
                      TN_NONE);
        b->ins[rounds].imm.i = 0;
    } else {
        rounds = emit_const_i64(b, random_between(b->random, -1, 6));
    }
    uint32_t start[3], carry[3], carries = 1 + random_below(b->random, 3);
    for (uint32_t i = 0; i < carries; i++)
        start[i] = pick(b, random_type(b));

    uint32_t around = b->region, first_visible = b->visible_count;
    if (b->depth++ == 0)
        b->region = b->ins_count;
    uint32_t loop =
        emit(b, TN_K_LOOP, TN_I64, b->level, rounds, TN_NONE, TN_NONE);
    for (uint32_t i = 0; i < carries; i++)
        carry[i] = emit(b, TN_K_CARRY, b->ins[start[i]].dtype, b->level,
                        start[i], TN_NONE, TN_NONE);
    uint32_t body = b->ins_count, length = 1 + random_below(b->random, 6);
    uint32_t end_at =
        random_chance(b->random, 60) ? random_below(b->random, length) : length;
    for (uint32_t i = 0; i < length; i++) {
        emit_any(b);
        if (i == end_at)
            emit(b, TN_K_WHILE, TN_BOOL, b->level, pick(b, TN_BOOL), TN_NONE,
                 TN_NONE);
    }
    for (uint32_t i = 0; i < carries; i++) {
        tn_dtype dtype = b->ins[carry[i]].dtype;
        uint32_t next = pick(b, dtype);
        /* The value for the next iteration must be computed within the loop. */
        if (next < body || b->ins[next].level != b->level) {
            emit_simple(b, dtype);
            next = b->ins_count - 1;
        }
        b->ins[carry[i]].b = next;
        b->used[next] = true;
    }
    b->ins[loop].imm.i =
        emit(b, TN_K_ENDLOOP, TN_I64, b->level, TN_NONE, TN_NONE, TN_NONE);
    b->depth--;
    b->region = around;
    b->visible_count = first_visible; /* after the loop only the carried values
                                         are visible */
    for (uint32_t i = 0; i < carries; i++)
        b->visible[b->visible_count++] = carry[i];
}

/* Returns an I64 index. If `checked` is true, it is always within [0, extent);
 * otherwise it may be outside. */
static uint32_t emit_index(builder *b, int64_t extent, bool checked)
{
    uint32_t i = pick(b, TN_I64);
    if (random_chance(b->random, 50))
        i = emit(b, TN_K_REM, TN_I64, b->level, i,
                 emit_const_i64(b, extent + 1), TN_NONE);
    if (checked) {
        i = emit(b, TN_K_MAX, TN_I64, b->level, i, emit_const_i64(b, 0),
                 TN_NONE);
        i = emit(b, TN_K_MIN, TN_I64, b->level, i,
                 emit_const_i64(b, extent - 1), TN_NONE);
    }
    return i;
}

/* Generates a load from a random operand of the current level, or an
 * instruction that returns the element offset in it. */
static void emit_access(builder *b)
{
    random_case *c = b->c;
    uint32_t k = random_below(b->random, c->program.operand_count);
    const tn_kernel_operand *operand = &c->operand[k];
    if (b->is_fn || operand->access == TN_OPERAND_WRITE)
        return;
    /* In a program without rows, the element part also reads operands of the
     * row level. */
    if (operand->level != b->level && b->has_rows)
        return;
    if (operand->access == TN_OPERAND_OFFSET) {
        uint32_t offset =
            emit(b, TN_K_OFFSET, TN_I64, b->level, TN_NONE, TN_NONE, TN_NONE);
        b->ins[offset].imm.i = k;
        return;
    }
    bool zero = random_chance(b->random, 50);
    uint32_t index[3] = {TN_NONE, TN_NONE, TN_NONE};
    for (uint32_t d = 0; d < operand->index_count; d++)
        if (c->index_extent[k][d] == 0 && !b->may_fault)
            zero = true; /* no index is valid, so the load must read zero */
    for (uint32_t d = 0; d < operand->index_count; d++)
        index[d] = emit_index(
            b, c->index_extent[k][d],
            !zero && !(b->may_fault && random_chance(b->random, 50)) &&
                c->index_extent[k][d] > 0);
    uint32_t load = emit(b, TN_K_LOAD, random_register_type(operand->dtype),
                         b->level, index[0], index[1], index[2]);
    b->ins[load].imm.i = k;
    b->ins[load].sub = zero && operand->index_count ? TN_LOAD_ZERO : 0;
}

static void emit_any(builder *b)
{
    if (b->room < 8)
        return;
    uint32_t kind = random_below(b->random, 100);
    if (kind < 16 && b->level != TN_LEVEL_UNIFORM) {
        emit_access(b);
    } else if (kind < 40) {
        emit_simple(b, random_chance(b->random, 70) ? TN_F32 : TN_F64);
    } else if (kind < 56) {
        emit_simple(b, random_chance(b->random, 50) ? TN_I32 : TN_I64);
    } else if (kind < 60) {
        emit_simple(b, TN_BOOL);
    } else if (kind < 67) {
        emit_compare(b);
    } else if (kind < 74) {
        tn_dtype dtype = random_type(b);
        uint32_t x = pick(b, TN_BOOL), y = pick(b, dtype), z = pick(b, dtype);
        emit(b, TN_K_SELECT, dtype, b->level, x, y, z);
    } else if (kind < 83) {
        uint32_t x = pick(b, random_type(b));
        emit(b, TN_K_CAST, random_type(b), b->level, x, TN_NONE, TN_NONE);
    } else if (kind < 86) {
        emit_bitcast(b);
    } else if (kind < 89) {
        emit_narrow(b);
    } else if (kind < 91) {
        uint32_t x = pick(b, TN_I64), y = pick(b, TN_I64), z = pick(b, TN_I64);
        emit(b, TN_K_PHILOX, TN_I32, b->level, x, y, z);
    } else if (kind < 95) {
        emit_call(b);
    } else if (b->room > 60 && b->depth < (b->is_fn ? 1 : 2)) {
        emit_loop(b);
    }
}

/* ---- functions ---------------------------------------------------------- */

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++) /* the hash function FNV-1a */
        hash = (hash ^ at[i]) * 0x100000001b3;
    return hash;
}

static void generate_fn(builder *outer, int f)
{
    random_case *c = outer->c;
    tn_kernel_fn *fn = &c->fn[f];
    builder b = {.random = outer->random,
                 .c = c,
                 .ins = c->fn_ins[f],
                 .region = TN_NONE,
                 .level = TN_LEVEL_ELEM,
                 .fn_count = f,
                 .is_fn = true,
                 .room = 120};
    fn->arg_count = 1 + random_below(b.random, 3);
    for (uint32_t i = 0; i < fn->arg_count; i++) {
        fn->arg_dtype[i] = (uint8_t)random_type(&b);
        emit(&b, TN_K_ARG, fn->arg_dtype[i], TN_LEVEL_ELEM, TN_NONE, TN_NONE,
             TN_NONE);
        b.ins[i].imm.i = i;
    }
    for (uint32_t length = 1 + random_below(b.random, 12); length > 0; length--)
        emit_any(&b);
    fn->dtype = random_type(&b);
    fn->result = pick(&b, fn->dtype);
    fn->ins = b.ins;
    fn->ins_count = b.ins_count;
    snprintf(c->fn_name[f], sizeof c->fn_name[f], "random%d", f);
    fn->name = c->fn_name[f];
    fn->hash =
        hash_bytes(0xcbf29ce484222325, b.ins, b.ins_count * sizeof *b.ins);
    fn->hash = hash_bytes(fn->hash, &fn->result, sizeof fn->result);
    for (int i = 0; i < f; i++) /* the function may call any earlier one */
        fn->hash = hash_bytes(fn->hash, &c->fn[i].hash, sizeof fn->hash);
}

/* ---- stages ------------------------------------------------------------- */

static void generate_params(builder *b)
{
    random_case *c = b->c;
    c->program.param_count = random_below(b->random, 5);
    for (uint32_t i = 0; i < c->program.param_count; i++) {
        tn_dtype dtype = i == 0 ? TN_I64 : random_type(b);
        c->param_dtype[i] = (uint8_t)dtype;
        if (random_is_float(dtype))
            c->param[i].f =
                random_float(b->random, random_chance(b->random, 50));
        else
            c->param[i].i = dtype == TN_BOOL ? random_below(b->random, 2)
                            : i == 0         ? random_between(b->random, -1, 6)
                                             : random_int(b->random, false);
    }
}

static void generate_uniform(builder *b)
{
    random_case *c = b->c;
    b->level = TN_LEVEL_UNIFORM;
    b->room = 60;
    for (uint32_t i = 0; i < c->program.param_count; i++) {
        uint32_t param = emit(b, TN_K_PARAM, c->param_dtype[i],
                              TN_LEVEL_UNIFORM, TN_NONE, TN_NONE, TN_NONE);
        b->ins[param].imm.i = i;
    }
    if (random_chance(b->random, 30))
        emit(b, TN_K_ROWLEN, TN_I64, TN_LEVEL_UNIFORM, TN_NONE, TN_NONE,
             TN_NONE);
    for (uint32_t count = random_below(b->random, 5); count > 0; count--)
        emit_any(b);
}

static void emit_reduce(builder *b)
{
    tn_dtype dtype = random_type(b);
    b->level = TN_LEVEL_ELEM;
    uint32_t x = pick(b, dtype);
    uint8_t kind = dtype == TN_BOOL
                       ? (uint8_t)(TN_REDUCE_MAX + random_below(b->random, 2))
                       : (uint8_t)random_below(b->random, TN_REDUCE_END);
    if (kind == TN_REDUCE_ARGMAX || kind == TN_REDUCE_ARGMIN)
        dtype = TN_I64;
    uint32_t reduce =
        emit(b, TN_K_REDUCE, dtype, TN_LEVEL_ROW, x, TN_NONE, TN_NONE);
    b->ins[reduce].sub = kind;
}

static void generate_stores(builder *b)
{
    random_case *c = b->c;
    for (uint32_t k = 0; k < c->program.operand_count; k++) {
        if (c->operand[k].access != TN_OPERAND_WRITE)
            continue;
        b->level = c->operand[k].level;
        uint32_t value = pick(b, random_register_type(c->operand[k].dtype));
        uint32_t store = emit(b, TN_K_STORE, b->ins[value].dtype, b->level,
                              value, TN_NONE, TN_NONE);
        b->ins[store].imm.i = k;
    }
}

/* Generates an instruction that combines an element loaded in an earlier stage
 * with another value. */
static void emit_again(builder *b)
{
    static const uint8_t ops[] = {TN_K_ADD, TN_K_SUB, TN_K_MUL, TN_K_MAX};
    uint32_t found[RANDOM_MAX_INS], count = 0;
    for (uint32_t i = 0; i < b->visible_count; i++) {
        const tn_kernel_ins *ins = &b->ins[b->visible[i]];
        if (ins->op == TN_K_LOAD && ins->level == TN_LEVEL_ELEM &&
            ins->dtype != TN_BOOL && b->stage_of[b->visible[i]] < b->stage)
            found[count++] = b->visible[i];
    }
    if (count == 0 || b->room < 8)
        return;
    uint32_t x = found[random_below(b->random, count)];
    tn_dtype dtype = b->ins[x].dtype;
    uint32_t y = pick(b, dtype);
    emit(b, ops[random_below(b->random, sizeof ops)], dtype, b->level, x, y,
         TN_NONE);
}

static void generate_stages(builder *b, bool rows)
{
    uint32_t stages = rows ? 1 + random_below(b->random, 3) : 1;
    if (b->rereads && stages < 2)
        stages = 2;
    bool starts_with_row = rows && random_chance(b->random, 40);
    if (starts_with_row)
        stages++;
    for (b->stage = 0; b->stage < (int)stages; b->stage++) {
        bool row_only = starts_with_row && b->stage == 0;
        if (!row_only) {
            b->level = TN_LEVEL_ELEM;
            b->room = 120;
            for (int tries = 0; tries < 3; tries++)
                emit_access(b);
            for (uint32_t count = 2 + random_below(b->random, 24); count > 0;
                 count--)
                emit_any(b);
            for (int tries = 0; b->rereads && tries < 3; tries++)
                emit_again(b);
        }
        if (!rows)
            break;
        if (!row_only &&
            (b->stage + 1 < (int)stages || random_chance(b->random, 40)))
            for (uint32_t count = 1 + random_below(b->random, 2); count > 0;
                 count--)
                emit_reduce(b);
        b->level = TN_LEVEL_ROW;
        b->room = 50;
        emit_access(b);
        for (uint32_t count = random_below(b->random, 5); count > 0; count--)
            emit_any(b);
    }
    b->stage = (int)stages - 1;
    b->c->program.stage_count = stages;
    generate_stores(b);
}

/* ---- order -------------------------------------------------------------- */

/* Marks instruction n and all instructions that it depends on. If level >= 0,
 * marks only instructions of that level. */
static void mark(const builder *b, bool *needed, uint32_t n, int level)
{
    if (n == TN_NONE || needed[n] || (level >= 0 && b->ins[n].level != level))
        return;
    needed[n] = true;
    const tn_kernel_ins *ins = &b->ins[n];
    mark(b, needed, ins->a, level);
    mark(b, needed, ins->b, level);
    mark(b, needed, ins->c, level);
    if (b->region_of[n] != TN_NONE) { /* n is in a loop, all of whose
                                         instructions are then needed */
        uint32_t first = b->region_of[n];
        for (uint32_t i = first; i <= (uint32_t)b->ins[first].imm.i; i++)
            mark(b, needed, i, level);
    }
}

static void add_order(builder *b, uint32_t n)
{
    if (b->c->program.order_count == RANDOM_MAX_ORDER)
        abort();
    b->c->order[b->c->program.order_count++] = n;
}

static void generate_order(builder *b)
{
    tn_program *program = &b->c->program;
    bool live[RANDOM_MAX_INS] = {false};
    for (uint32_t n = 0; n < b->ins_count; n++)
        if (b->ins[n].op == TN_K_STORE)
            mark(b, live, n, -1);
    for (uint32_t n = 0; n < b->ins_count; n++)
        if (live[n] && b->ins[n].level == TN_LEVEL_UNIFORM)
            add_order(b, n);
    program->uniform_count = program->order_count;

    for (uint32_t s = 0; s < program->stage_count; s++) {
        tn_kernel_stage *stage = &b->c->stage[s];
        bool part[RANDOM_MAX_INS] = {false};
        for (uint32_t n = 0; n < b->ins_count; n++) {
            const tn_kernel_ins *ins = &b->ins[n];
            if (!live[n] || b->stage_of[n] != s)
                continue;
            if (ins->op == TN_K_REDUCE) {
                mark(b, part, ins->a, TN_LEVEL_ELEM);
                part[n] = true;
            } else if (ins->op == TN_K_STORE) {
                mark(b, part, n, TN_LEVEL_ELEM);
            }
        }
        stage->elem_first = program->order_count;
        for (uint32_t n = 0; n < b->ins_count; n++)
            if (part[n])
                add_order(b, n);
        stage->elem_count = program->order_count - stage->elem_first;
        stage->row_first = program->order_count;
        for (uint32_t n = 0; n < b->ins_count; n++)
            if (live[n] && b->stage_of[n] == s && !part[n] &&
                b->ins[n].level == TN_LEVEL_ROW)
                add_order(b, n);
        stage->row_count = program->order_count - stage->row_first;
    }
}

static uint64_t hash_program(const random_case *c, uint64_t hash)
{
    const tn_program *p = &c->program;
    hash = hash_bytes(hash, c->ins, p->ins_count * sizeof *c->ins);
    hash = hash_bytes(hash, c->operand, p->operand_count * sizeof *c->operand);
    hash = hash_bytes(hash, c->param_dtype, p->param_count);
    for (uint32_t f = 0; f < p->fn_count; f++)
        hash = hash_bytes(hash, &c->fn[f].hash, sizeof c->fn[f].hash);
    hash = hash_bytes(hash, c->stage, p->stage_count * sizeof *c->stage);
    return hash_bytes(hash, c->order, p->order_count * sizeof *c->order);
}

void random_case_finish(random_case *c)
{
    tn_program *p = &c->program;
    p->size = sizeof *p;
    p->ins = c->ins;
    p->operand = c->operand;
    p->param_dtype = c->param_dtype;
    p->fn = c->fn;
    p->stage = c->stage;
    p->order = c->order;
    p->key[0] = hash_program(c, 0xcbf29ce484222325);
    p->key[1] = hash_program(c, 0x6c62272e07bb0142);
    c->launch.size = sizeof c->launch;
    c->launch.extent = c->extent;
    c->launch.operand = c->launch_operand;
    c->launch.param = c->param;
    c->launch.tag = c->seed;
    for (uint32_t k = 0; k < p->operand_count; k++) {
        c->launch_operand[k].stride = c->stride[k];
        c->launch_operand[k].index_stride = c->index_stride[k];
        c->launch_operand[k].index_extent = c->index_extent[k];
    }
}

static random_case *make(uint64_t seed, bool of_chunks)
{
    random_case *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    random_source source = {seed};
    builder b = {.random = &source, .c = c, .ins = c->ins, .region = TN_NONE};
    bool rows = random_chance(b.random, 60) || of_chunks;
    b.has_rows = rows;
    b.may_fault = random_chance(b.random, 25);
    c->seed = seed;
    random_layout_extents(&source, c, rows);
    /* This choice uses its own random source. It was added later, and the
     * programs of existing seeds must not change. */
    random_source apart = {~seed};
    b.rereads = rows && random_chance(&apart, 15);
    if (of_chunks)
        random_layout_rows_of_chunks(&apart, c);
    else if (b.rereads)
        random_layout_long_rows(&apart, c);
    if (!random_layout_operands(&source, c, rows)) {
        random_case_free(c);
        return NULL;
    }
    b.fn_count = (int)random_library_add(&source, c, random_below(&source, 3));
    uint32_t own = random_below(&source, 4);
    while (own-- > 0 && b.fn_count < RANDOM_MAX_FNS)
        generate_fn(&b, b.fn_count++);
    generate_params(&b);
    generate_uniform(&b);
    generate_stages(&b, rows);

    c->program.ins_count = b.ins_count;
    c->program.fn_count = (uint32_t)b.fn_count;
    generate_order(&b);
    random_case_finish(c);
    return c;
}

random_case *random_case_new(uint64_t seed)
{
    return make(seed, false);
}

random_case *random_case_of_chunks(uint64_t seed)
{
    return make(seed, true);
}

void random_case_free(random_case *c)
{
    if (!c)
        return;
    for (uint32_t k = 0; k < RANDOM_MAX_OPERANDS; k++)
        free(c->data[k]);
    free(c);
}
