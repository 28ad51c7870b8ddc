/* listing.c: lists kernels and programs as strings, with one instruction on
 * each line:
 *
 *     v2 = sub v0 v1 : f32 elem */
#include <math.h>
#include <stdio.h>

#include <base/error.h>
#include <kernel/kernel.h>

static const char *short_name(tn_dtype dtype)
{
    static const char *const names[TN_DTYPE_END] = {
        [TN_DTYPE_NONE] = "offset", [TN_F32] = "f32",   [TN_F64] = "f64",
        [TN_F16] = "f16",           [TN_BF16] = "bf16", [TN_F8E4M3] = "f8e4m3",
        [TN_F8E5M2] = "f8e5m2",     [TN_I64] = "i64",   [TN_I32] = "i32",
        [TN_I16] = "i16",           [TN_I8] = "i8",     [TN_U8] = "u8",
        [TN_BOOL] = "bool"};
    return dtype < TN_DTYPE_END ? names[dtype] : "?";
}

static const char *const level_name[] = {"uniform", "row", "elem"};

static const char *op_name(const tn_kernel_ins *ins)
{
    static const char *const names[] = {
#define NAME(name, operands, text) #name,
        TN_KERNEL_MAP(NAME)
#undef NAME
    };
    static const char *const reduce[] = {"rsum", "rprod",   "rmax",
                                         "rmin", "rargmax", "rargmin"};
    if (ins->op == TN_K_REDUCE)
        return ins->sub < TN_REDUCE_END ? reduce[ins->sub] : "reduce?";
    return ins->op < TN_K_END ? names[ins->op] : "?";
}

static void add_lower(tn__text *text, const char *word)
{
    for (; *word; word++)
        tn__text_add(text, "%c",
                     *word >= 'A' && *word <= 'Z' ? *word + 32 : *word);
}

static void add_ins(tn__text *text, const tn_kernel_ins *ins, uint32_t i,
                    const tn_kernel_fn *fn)
{
    tn__text_add(text, "  v%u = ", (unsigned)i);
    add_lower(text, op_name(ins));
    switch (ins->op) {
    case TN_K_CONST:
        if (ins->dtype == TN_F32 || ins->dtype == TN_F64)
            tn__text_add(text, " %.17g",
                         isnan(ins->imm.f) ? (double)NAN : ins->imm.f);
        else
            tn__text_add(text, " %lld", (long long)ins->imm.i);
        break;
    case TN_K_CALL:
        tn__text_add(text, " %s", fn[ins->imm.i].name);
        break;
    case TN_K_PARAM:
    case TN_K_ARG:
    case TN_K_LOAD:
    case TN_K_OFFSET:
    case TN_K_STORE:
        tn__text_add(text, " %lld", (long long)ins->imm.i);
        break;
    case TN_K_NARROW:
        tn__text_add(text, " %s", short_name(ins->sub));
        break;
    case TN_K_LOOP:
        tn__text_add(text, " to %lld", (long long)ins->imm.i);
        break;
    default:
        break;
    }
    const uint32_t operand[3] = {ins->a, ins->b, ins->c};
    for (int k = 0; k < 3; k++)
        if (operand[k] != TN_NONE)
            tn__text_add(text, " v%u", (unsigned)operand[k]);
    if (ins->op == TN_K_LOAD && ins->sub & TN_LOAD_ZERO)
        tn__text_add(text, " else 0");
    if (ins->op == TN_K_LOAD && ins->sub & TN__LOAD_GUARD)
        tn__text_add(text, " guard");
    if (ins->op == TN_K_SELECT && ins->sub == TN_SELECT_WEIGHTED)
        tn__text_add(text, " weighted");
    tn__text_add(text, " : %s %s\n", short_name(ins->dtype),
                 level_name[ins->level % 3]);
}

char *tn__kernel_text(const tn__kernel *kernel)
{
    tn__text text = {0};
    tn__text_add(&text, "%s(", kernel->name);
    for (int i = 0; i < kernel->input_count; i++)
        tn__text_add(&text, "%s%s: %s %s", i ? ", " : "", kernel->input[i].name,
                     short_name(kernel->input[i].dtype),
                     level_name[kernel->input[i].level % 3]);
    for (int i = 0; i < kernel->param_count; i++)
        tn__text_add(&text, "%s%s: %s", i ? ", " : "; ", kernel->param[i].name,
                     short_name(kernel->param[i].dtype));
    tn__text_add(&text, ")\n");
    for (uint32_t i = 0; i < kernel->ins_count; i++)
        add_ins(&text, &kernel->ins[i], i, kernel->fn);
    for (int i = 0; i < kernel->output_count; i++)
        tn__text_add(&text, "  out v%u : %s %s\n",
                     (unsigned)kernel->out[i].value,
                     short_name(kernel->out[i].dtype),
                     level_name[kernel->out[i].level % 3]);
    return tn__text_finish(&text);
}

static void add_order(tn__text *text, const char *what,
                      const tn_program *program, uint32_t first, uint32_t count)
{
    tn__text_add(text, "  %s:", what);
    for (uint32_t i = 0; i < count; i++)
        tn__text_add(text, " %u", (unsigned)program->order[first + i]);
    tn__text_add(text, "\n");
}

char *tn__program_text(const tn_program *program)
{
    static const char *const access[] = {"read", "write", "offset"};
    tn__text text = {0};
    for (uint32_t i = 0; i < program->operand_count; i++) {
        const tn_kernel_operand *operand = &program->operand[i];
        tn__text_add(&text, "  operand %u: %s %s %s", (unsigned)i,
                     access[operand->access % 3], short_name(operand->dtype),
                     level_name[operand->level % 3]);
        if (operand->index_count)
            tn__text_add(&text, " [%d]", operand->index_count);
        tn__text_add(&text, "\n");
    }
    for (uint32_t i = 0; i < program->param_count; i++)
        tn__text_add(&text, "  param %u: %s\n", (unsigned)i,
                     short_name(program->param_dtype[i]));
    for (uint32_t i = 0; i < program->ins_count; i++)
        add_ins(&text, &program->ins[i], i, program->fn);
    add_order(&text, "uniform", program, 0, program->uniform_count);
    for (uint32_t i = 0; i < program->stage_count; i++) {
        const tn_kernel_stage *stage = &program->stage[i];
        char what[32];
        snprintf(what, sizeof what, "stage %u elem", (unsigned)i);
        add_order(&text, what, program, stage->elem_first, stage->elem_count);
        snprintf(what, sizeof what, "stage %u row", (unsigned)i);
        add_order(&text, what, program, stage->row_first, stage->row_count);
    }
    return tn__text_finish(&text);
}
