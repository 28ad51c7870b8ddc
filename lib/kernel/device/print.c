/* print.c: a program as the source of one kernel, in the dialect of
 * lib/kernel/device.
 *
 * What an instruction means is said there, once, by a function of its name;
 * here stand only the loops over rows and elements and the order of things.
 * Values are variables v<number of the instruction>, in the scope of their
 * level: the kernel's for uniform ones, a row's, an element's. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <base/error.h>
#include <base/fpu.h>
#include <base/memory.h>
#include <kernel/device/class.h>
#include <kernel/device/print.h>
#include <kernel/kernel.h>

/* ---- names ---------------------------------------------------------------- */

static const char *const dtype_name[TN_DTYPE_END] = {
    [TN_F32] = "f32",       [TN_F64] = "f64",   [TN_F16] = "f16",
    [TN_BF16] = "bf16",     [TN_I64] = "i64",   [TN_I32] = "i32",
    [TN_F8E4M3] = "f8e4m3", [TN_I16] = "i16",   [TN_I8] = "i8",
    [TN_F8E5M2] = "f8e5m2", [TN_U8] = "u8",     [TN_BOOL] = "bool",
};

const char *tn__device_dtype(unsigned dtype)
{
    return dtype_name[dtype];
}

static bool is_float(unsigned dtype)
{
    return dtype == TN_F32 || dtype == TN_F64;
}

static bool is_narrow(unsigned dtype)
{
    return dtype == TN_F16 || dtype == TN_BF16 || dtype == TN_F8E4M3 ||
           dtype == TN_F8E5M2 || dtype == TN_I16 || dtype == TN_I8 ||
           dtype == TN_U8;
}

void tn__device_line(tn__device_printer *p, const char *format, ...)
{
    va_list args;
    char line[512];
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    tn__text_add(&p->body, "%*s%s\n", 4 * p->depth, "", line);
}

/* ---- what is needed ------------------------------------------------------- */

static bool may_fault(const tn_kernel_ins *ins)
{
    return ins->op == TN_K_LOAD && !(ins->sub & TN_LOAD_ZERO) &&
           (ins->a != TN_NONE || ins->b != TN_NONE || ins->c != TN_NONE);
}

static bool need(bool *needed, uint32_t i)
{
    if (i == TN_NONE || needed[i])
        return false;
    return needed[i] = true;
}

/* What i makes needed besides; true if there was anything new. A faulting
 * load needs its indices even where its value is of no use. */
static bool need_operands(const tn_kernel_ins *ins, uint32_t i,
                          const bool *stands, bool *needed)
{
    bool more = false;
    const tn_kernel_ins *x = &ins[i];
    if (!stands[i] || !(needed[i] || may_fault(x)))
        return false;
    more |= need(needed, x->a);
    more |= need(needed, x->b);
    more |= need(needed, x->c);
    return more;
}

/* A loop is needed with what decides its rounds if anything inside is. */
static bool need_loop(const tn_kernel_ins *ins, uint32_t loop,
                      const bool *stands, bool *needed)
{
    bool used = needed[loop], more = false;
    for (uint32_t i = loop + 1; i < ins[loop].imm.i; i++)
        used = used || ((needed[i] || (may_fault(&ins[i]) && stands[i])) &&
                        ins[i].level >= ins[loop].level);
    if (!used)
        return false;
    more |= need(needed, loop);
    more |= need(needed, (uint32_t)ins[loop].imm.i);
    for (uint32_t i = loop + 1; i < ins[loop].imm.i; i++) {
        if (ins[i].op == TN_K_LOOP) /* its own WHILEs are its own matter */
            i = (uint32_t)ins[i].imm.i;
        else if (ins[i].op == TN_K_WHILE)
            more |= need(needed, i);
    }
    return more;
}

/* A list of instructions, and marks for each by its number; NULL: all of them,
 * as a function has them. */
typedef struct part {
    const tn_kernel_ins *ins;
    uint32_t count;        /* of ins */
    const uint32_t *order;
    uint32_t order_count;
    uint32_t given; /* an instruction whose value is there; TN_NONE: none */
} part;

/* Marks what the stores and reductions that stand in a part hang on, and (of a
 * function) its result. What nobody reads is not printed: compilers would drop
 * it, but warn. stands: room for as many marks. of: reductions that anybody
 * reads; NULL: look only for those. */
static void find_needed(const part *list, uint32_t result, const bool *of,
                        bool *stands, bool *needed)
{
    const tn_kernel_ins *ins = list->ins;
    uint32_t count = list->count;
    memset(stands, 0, count * sizeof *stands);
    for (uint32_t i = 0; i < list->order_count; i++)
        stands[list->order ? list->order[i] : i] = true;
    for (uint32_t i = 0; i < count; i++)
        needed[i] = (stands[i] && (ins[i].op == TN_K_STORE ||
                                   (ins[i].op == TN_K_REDUCE && of && of[i]))) ||
                    i == result;
    for (bool more = true; more;) { /* again where a loop carries backwards */
        more = false;
        for (uint32_t i = count; i-- > 0;) {
            if (i != list->given)
                more |= need_operands(ins, i, stands, needed);
            if (ins[i].op == TN_K_LOOP)
                more |= need_loop(ins, i, stands, needed);
        }
    }
}

/* ---- values --------------------------------------------------------------- */

static void print_const(char *out, size_t room, const tn_kernel_ins *ins)
{
    tn_number none = {.i = 0};
    tn_number x = tn__kernel_eval(ins, none, none, none, TN_DTYPE_NONE);
    uint64_t bits = 0;
    float single = is_float(ins->dtype) ? (float)x.f : 0;
    if (ins->dtype == TN_BOOL)
        snprintf(out, room, "%d", x.i != 0);
    else if (ins->dtype == TN_F32 && (isnormal(single) || single == 0))
        snprintf(out, room, "%af", (double)single); /* exact, in any locale */
    else if (ins->dtype == TN_F64 && (isnormal(x.f) || x.f == 0))
        snprintf(out, room, "%a", x.f);
    else if (ins->dtype == TN_F32 && isnan(single))
        snprintf(out, room, "tk_of_bits_f32(0x7fc00000)");
    else if (ins->dtype == TN_F64 && isnan(x.f))
        snprintf(out, room, "tk_of_bits_f64(0x7ff8000000000000)");
    else if (ins->dtype == TN_F32) {
        memcpy(&bits, &single, sizeof single);
        snprintf(out, room, "tk_of_bits_f32(0x%08" PRIx32 ")",
                 (uint32_t)(bits & 0xffffffff));
    } else if (ins->dtype == TN_F64) {
        memcpy(&bits, &x.f, sizeof bits);
        snprintf(out, room, "tk_of_bits_f64(0x%016" PRIx64 ")", bits);
    } else if (ins->dtype == TN_I64 && x.i == INT64_MIN)
        snprintf(out, room, "(-(tk_i64)0x7fffffffffffffff - 1)");
    else if (ins->dtype == TN_I64)
        snprintf(out, room, "(tk_i64)%" PRId64, x.i);
    else if (x.i == INT32_MIN)
        snprintf(out, room, "(-2147483647 - 1)");
    else
        snprintf(out, room, "%" PRId64, x.i);
}

static void print_cast(char *out, size_t room, const tn_kernel_ins *ins,
                       unsigned from)
{
    if (ins->dtype == TN_BOOL)
        snprintf(out, room, "v%u != 0", ins->a);
    else if (is_float(from) && !is_float(ins->dtype))
        snprintf(out, room, "tk_%s_of_%s(v%u)", dtype_name[ins->dtype],
                 dtype_name[from], ins->a);
    else
        snprintf(out, room, "(tk_%s)v%u", dtype_name[ins->dtype], ins->a);
}

static void print_param(tn__device_printer *p, char *out, size_t room,
                        const tn_kernel_ins *ins)
{
    const char *type = dtype_name[ins->dtype];
    uint32_t word = p->words.param + (uint32_t)ins->imm.i;
    snprintf(out, room, is_float(ins->dtype) ? "tk_of_bits_%s(TK_WORD(%u))"
                        : ins->dtype == TN_BOOL ? "(tk_%s)(TK_WORD(%u) != 0)"
                                                : "(tk_%s)TK_WORD(%u)",
             type, word);
}

static void print_call(char *out, size_t room, const char *name,
                       const tn_kernel_ins *ins)
{
    int length = snprintf(out, room, "%s(v%u", name, ins->a);
    if (ins->b != TN_NONE)
        length += snprintf(out + length, room - (size_t)length, ", v%u",
                           ins->b);
    if (ins->c != TN_NONE)
        length += snprintf(out + length, room - (size_t)length, ", v%u",
                           ins->c);
    snprintf(out + length, room - (size_t)length, ")");
}

/* tk_<instruction>_<type> of the dialect */
static void print_function(char *out, size_t room, const tn_kernel_ins *ins,
                           unsigned type)
{
    static const char *const names[] = {
#define NAME(name, operands, text) #name,
        TN_KERNEL_MAP(NAME)
#undef NAME
    };
    char name[48];
    snprintf(name, sizeof name, "tk_%s_%s", names[ins->op], dtype_name[type]);
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    print_call(out, room, name, ins);
}

static const char *infix_of(const tn_kernel_ins *ins)
{
    switch (ins->op) {
    case TN_K_EQ:
        return "==";
    case TN_K_NE:
        return "!=";
    case TN_K_LT:
        return "<";
    case TN_K_LE:
        return "<=";
    case TN_K_AND:
        return "&";
    case TN_K_OR:
        return "|";
    case TN_K_XOR:
        return "^";
    default:
        return NULL;
    }
}

/* The right side of a definition. */
static void print_value(tn__device_printer *p, char *out, size_t room,
                        uint32_t i)
{
    const tn_kernel_ins *ins = &p->ins[i];
    char name[32];
    switch (ins->op) {
    case TN_K_CONST:
        print_const(out, room, ins);
        break;
    case TN_K_PARAM:
        print_param(p, out, room, ins);
        break;
    case TN_K_ARG:
        snprintf(out, room, "a%d", (int)ins->imm.i);
        break;
    case TN_K_ROWLEN:
        snprintf(out, room, "TK_WORD(%u)", p->words.length);
        break;
    case TN_K_OFFSET:
        snprintf(out, room, "at%d", (int)ins->imm.i);
        break;
    case TN_K_CALL:
        snprintf(name, sizeof name, "fn%d", (int)ins->imm.i);
        print_call(out, room, name, ins);
        break;
    case TN_K_CAST:
        print_cast(out, room, ins, p->ins[ins->a].dtype);
        break;
    case TN_K_NARROW:
        if (is_narrow(ins->sub))
            snprintf(out, room, "tk_narrow_%s(v%u)", dtype_name[ins->sub],
                     ins->a);
        else
            snprintf(out, room, "v%u", ins->a);
        break;
    case TN_K_SELECT:
        snprintf(out, room, "v%u ? v%u : v%u", ins->a, ins->b, ins->c);
        break;
    case TN_K_NOT:
        snprintf(out, room, "%sv%u", ins->dtype == TN_BOOL ? "!" : "~",
                 ins->a);
        break;
    default:
        if (!infix_of(ins))
            print_function(out, room, ins, ins->dtype);
        else if (ins->a == ins->b) /* compilers suspect "v1 == v1" */
            print_function(out, room, ins, p->ins[ins->a].dtype);
        else
            snprintf(out, room, "v%u %s v%u", ins->a, infix_of(ins), ins->b);
        break;
    }
}

/* ---- memory ---------------------------------------------------------------- */

static void print_indexed_load(tn__device_printer *p, uint32_t i)
{
    const tn_kernel_ins *ins = &p->ins[i];
    uint32_t k = (uint32_t)ins->imm.i;
    const uint32_t index[3] = {ins->a, ins->b, ins->c};
    const char *storage = dtype_name[p->program->operand[k].dtype];
    bool faults = may_fault(ins);
    char at[256];
    int length = snprintf(at, sizeof at, "at%u", k);
    if (p->needed[i])
        tn__device_line(p, "tk_%s v%u = 0;", dtype_name[ins->dtype], i);
    const char *before = "";
    for (uint32_t d = 0; d < 3; d++) {
        if (index[d] == TN_NONE)
            continue;
        uint32_t bound = p->words.index_extent[k] + d;
        tn__device_line(p, "%sif (v%u < 0 || v%u >= TK_WORD(%u))%s", before,
                        index[d], index[d], bound, faults ? "" : " {");
        if (faults)
            tn__device_line(p,
                            "    fault = tk_fault_at(fault, %s, %u, %u, v%u, "
                            "TK_WORD(%u));",
                            p->position, p->place, 4 * k + d, index[d], bound);
        before = faults ? "else " : "} else ";
        length += snprintf(at + length, sizeof at - (size_t)length,
                           " + (tk_idx)v%u * (tk_idx)TK_WORD(%u)", index[d],
                           p->words.index_stride[k] + d);
    }
    if (p->needed[i])
        tn__device_line(p, faults ? "else" : "} else {");
    if (p->needed[i])
        tn__device_line(p, "    v%u = tk_from_%s(p%u[%s]);", i, storage, k,
                        at);
    if (!faults)
        tn__device_line(p, "}");
}

/* Operand k's element at hand. */
static void name_element(const tn__device_printer *p, uint32_t k, char out[32])
{
    if (p->vectors >> k & 1)
        snprintf(out, 32, "x%u.e[l]", k);
    else if (p->local >> k & 1)
        snprintf(out, 32, "local%u[here%u]", k, k);
    else
        snprintf(out, 32, "p%u[at%u]", k, k);
}

static void print_load(tn__device_printer *p, uint32_t i)
{
    char element[32];
    const tn_kernel_ins *ins = &p->ins[i];
    uint32_t k = (uint32_t)ins->imm.i;
    name_element(p, k, element);
    if (ins->a != TN_NONE || ins->b != TN_NONE || ins->c != TN_NONE)
        print_indexed_load(p, i);
    else
        tn__device_line(p, "tk_%s v%u = tk_from_%s(%s);",
                        dtype_name[ins->dtype], i,
                        dtype_name[p->program->operand[k].dtype], element);
}

/* A team's row values are all its work-items' alike; one of them stores. */
static void print_store(tn__device_printer *p, const tn_kernel_ins *ins)
{
    uint32_t k = (uint32_t)ins->imm.i;
    const char *guard = p->in_row_part && !p->chunked ? "if (writes) " : "";
    char element[32];
    name_element(p, k, element);
    tn__device_line(p, "%s%s = tk_to_%s(v%u);", guard, element,
                    dtype_name[p->program->operand[k].dtype], ins->a);
}

/* ---- lists of instructions -------------------------------------------------- */

static uint32_t number_at(const uint32_t *order, uint32_t i)
{
    return order ? order[i] : i;
}

/* The region whose LOOP is order[first]; returns where its ENDLOOP is. New
 * values are all taken before the first is set: one may be another's old
 * value. */
static uint32_t print_loop(tn__device_printer *p, const uint32_t *order,
                           uint32_t first)
{
    uint32_t loop = number_at(order, first), end = first, body = first + 1;
    const tn_kernel_ins *ins = p->ins;
    while (number_at(order, end) != (uint32_t)ins[loop].imm.i)
        end++;
    if (!p->needed[loop])
        return end;
    for (; ins[number_at(order, body)].op == TN_K_CARRY; body++) {
        uint32_t i = number_at(order, body);
        if (p->needed[i])
            tn__device_line(p, "tk_%s v%u = v%u;", dtype_name[ins[i].dtype], i,
                            ins[i].a);
    }
    tn__device_line(p, "for (tk_i64 v%u = 0; v%u < v%u; v%u++) {", loop, loop,
                    ins[loop].a, loop);
    p->depth++;
    tn__device_list(p, order, body, end);
    for (uint32_t c = first + 1; c < body; c++) {
        uint32_t i = number_at(order, c);
        if (p->needed[i])
            tn__device_line(p, "tk_%s n%u = v%u;", dtype_name[ins[i].dtype], i,
                            ins[i].b);
    }
    for (uint32_t c = first + 1; c < body; c++) {
        uint32_t i = number_at(order, c);
        if (p->needed[i])
            tn__device_line(p, "v%u = n%u;", i, i);
    }
    p->depth--;
    tn__device_line(p, "}");
    return end;
}

void tn__device_list(tn__device_printer *p, const uint32_t *order,
                     uint32_t first, uint32_t end)
{
    char value[256];
    for (uint32_t at = first; at < end; at++) {
        uint32_t i = number_at(order, at);
        const tn_kernel_ins *ins = &p->ins[i];
        p->place = at;
        if (ins->op == TN_K_LOOP) {
            at = print_loop(p, order, at);
        } else if (ins->op == TN_K_REDUCE) {
            if (p->needed[i])
                tn__device_reduce(p, i);
        } else if (ins->op == TN_K_WHILE) {
            tn__device_line(p, "if (!v%u)", ins->a);
            tn__device_line(p, "    break;");
        } else if (ins->op == TN_K_STORE && !p->needed[i]) {
            continue; /* another step's */
        } else if (ins->op == TN_K_STORE) {
            /* what a row's team has read may lie where one now stores */
            if (p->in_row_part && !p->chunked &&
                tn__device_team(&p->class) > 1 &&
                (at == first ||
                 p->ins[number_at(order, at - 1)].op != TN_K_STORE))
                tn__device_line(p, "TK_BARRIER();");
            print_store(p, ins);
        } else if (ins->op == TN_K_LOAD && (p->needed[i] || may_fault(ins))) {
            print_load(p, i);
        } else if (i == p->kept && p->needed[i] && p->local_stage > p->kept_stage) {
            name_element(p, p->kept_operand, value);
            tn__device_line(p, "tk_%s v%u = %s;", dtype_name[ins->dtype], i,
                            value);
        } else if (p->needed[i]) {
            print_value(p, value, sizeof value, i);
            tn__device_line(p, "tk_%s v%u = %s;", dtype_name[ins->dtype], i,
                            value);
            if (i == p->kept && p->local_stage == p->kept_stage)
                tn__device_line(p, "local%u[here%u] = v%u;", p->kept_operand,
                                p->kept_operand, i);
        }
    }
}

/* ---- functions ---------------------------------------------------------------- */

static bool print_fn(tn__device_printer *p, uint32_t f)
{
    const tn_kernel_fn *fn = &p->program->fn[f];
    bool *marks = tn__calloc(2 * ((size_t)fn->ins_count + 1), sizeof *marks);
    if (!marks)
        return false;
    p->ins = fn->ins;
    p->needed = marks;
    find_needed(&(part){fn->ins, fn->ins_count, NULL, fn->ins_count, TN_NONE},
                fn->result, NULL, marks + fn->ins_count, marks);
    tn__text_add(&p->body, "TK_FN tk_%s fn%u(", dtype_name[fn->dtype], f);
    for (uint32_t i = 0; i < fn->arg_count; i++)
        tn__text_add(&p->body, "%stk_%s a%u", i ? ", " : "",
                     dtype_name[fn->arg_dtype[i]], i);
    tn__text_add(&p->body, ")\n{\n");
    p->depth = 1;
    bool used[4] = {false};
    for (uint32_t i = 0; i < fn->ins_count; i++)
        if (fn->ins[i].op == TN_K_ARG && p->needed[i])
            used[fn->ins[i].imm.i] = true;
    for (uint32_t i = 0; i < fn->arg_count; i++)
        if (!used[i])
            tn__device_line(p, "(void)a%u;", i);
    tn__device_list(p, NULL, 0, fn->ins_count);
    tn__device_line(p, "return v%u;", fn->result);
    tn__text_add(&p->body, "}\n\n");
    tn__free(marks);
    return true;
}

/* ---- the text ------------------------------------------------------------------ */

static void print_arguments(tn__device_printer *p, const tn_target *target)
{
    const tn_program *program = p->program;
    tn__text_add(&p->body, "TK_KERNEL tn_program(");
    for (uint32_t k = 0; k < program->operand_count; k++) {
        const tn_kernel_operand *operand = &program->operand[k];
        if (operand->access != TN_OPERAND_OFFSET)
            tn__text_add(&p->body, "TK_G %stk_s_%s *%sp%u, ",
                         operand->access == TN_OPERAND_READ ? "const " : "",
                         dtype_name[operand->dtype],
                         p->class.distinct ? "TK_RESTRICT " : "", k);
    }
    if (p->class.split && tn__split_part(program, TN_NONE) > 0)
        tn__text_add(&p->body, "TK_G tk_i64 *scratch, ");
    if (p->faults)
        tn__text_add(&p->body, "TK_G tk_u32 *faults, ");
    tn__text_add(&p->body, "%s)\n",
                 tn__device_parameters(target, p->class.in_buffer));
}

static void print_unused_operands(tn__device_printer *p)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < p->program->ins_count; i++)
        if ((p->ins[i].op == TN_K_LOAD || p->ins[i].op == TN_K_STORE) &&
            p->needed[i])
            used |= 1u << p->ins[i].imm.i;
    for (uint32_t k = 0; k < p->program->operand_count; k++)
        if (!(used >> k & 1) &&
            p->program->operand[k].access != TN_OPERAND_OFFSET)
            tn__device_line(p, "(void)p%u;", k);
}

const char *tn__device_parameters(const tn_target *target, bool in_buffer)
{
    if (target->flags & TN_TARGET_PLAIN)
        return in_buffer
                   ? "const tk_i64 *words, tk_i64 group, tk_i64 groups"
                   : "tk_words words, tk_i64 group, tk_i64 groups";
    return in_buffer ? "TK_G const tk_i64 *words" : "tk_words words";
}

const char *tn__device_entry(tn__text *text, const tn_target *target,
                             const tn_plan *plan, bool in_buffer,
                             const char *kernel)
{
    const uint32_t pointers = plan->buffer_count +
                              !!(plan->flags & TN_PLAN_SCRATCH) +
                              !!(plan->flags & TN_PLAN_FAULTS);
    if (!(target->flags & TN_TARGET_PLAIN))
        return kernel;
    tn__text_add(text,
                 "void tn_groups(void *const *pointer, const tk_u64 *word,\n"
                 "    tk_u64 first, tk_u64 end, tk_u64 count)\n"
                 "{\n"
                 "    for (tk_u64 i = first; i < end; i++)\n"
                 "        %s(", kernel);
    for (uint32_t k = 0; k < pointers; k++)
        tn__text_add(text, "pointer[%u], ", k);
    tn__text_add(text, "%s, (tk_i64)i, (tk_i64)count);\n}\n",
                 in_buffer ? "(const tk_i64 *)word" : "*(const tk_words *)word");
    return "tn_groups";
}

void tn__device_head(tn__text *text, const tn_target *target, bool is_wide,
                     bool in_buffer, uint32_t words)
{
    if (target->flags & TN_TARGET_PLAIN)
        tn__text_add(text, "#define TK_PLAIN 1\n");
    if (target->flags & TN_TARGET_F64)
        tn__text_add(text, "#define TK_F64 1\n");
    if (target->flags & TN_TARGET_EXACT_DIVIDE)
        tn__text_add(text, "#define TK_EXACT_DIVIDE 1\n");
    if (is_wide)
        tn__text_add(text, "#define TK_WIDE 1\n");
    tn__text_add(text, "%s%s%s", tn__device_part("platform.cl"),
                 tn__device_part("instructions.cl"),
                 tn__device_part("storage.cl"));
    if (in_buffer)
        tn__text_add(text, "#define TK_WORD(i) words[i]\n");
    else
        tn__text_add(text,
                     "typedef struct {\n    tk_i64 w[%u];\n} tk_words;\n"
                     "#define TK_WORD(i) words.w[i]\n", words);
}

/* Of the marks for the whole program, those of a step whose rows are split. */
static bool mark_step(tn__device_printer *p, bool *stands, bool *marks)
{
    const tn_program *program = p->program;
    uint32_t *order = tn__calloc((size_t)program->order_count + 1,
                                 sizeof *order);
    if (!order)
        return false;
    const uint32_t count = tn__split_order(program, p->stage, order);
    find_needed(&(part){program->ins, program->ins_count, order, count,
                        TN_NONE},
                TN_NONE, marks, stands, marks);
    tn__free(order);
    return true;
}

/* What the elem part of stage s needs, where instruction `given` is there. */
static void mark_elems(tn__device_printer *p, uint32_t s, uint32_t given,
                       bool *marks)
{
    const tn_program *program = p->program;
    const tn_kernel_stage *stage = &program->stage[s];
    const size_t count = program->ins_count;
    find_needed(&(part){program->ins, program->ins_count,
                        program->order + stage->elem_first, stage->elem_count,
                        given},
                TN_NONE, marks, marks + count * (program->stage_count + 1),
                marks + (s + 1) * count);
}

static bool loads(const tn__device_printer *p, uint32_t s, uint32_t operand)
{
    const tn_kernel_stage *stage = &p->program->stage[s];
    const bool *needed = p->elem_needed + (size_t)s * p->program->ins_count;
    return tn__device_operands_of(p, needed, stage->elem_first,
                                  stage->elem_first + stage->elem_count) >>
               operand & 1;
}

/* Does the cached operand have room for the value of instruction i: of its type,
 * and no stage after s loads it where that value is there? If so the later
 * stages are marked as having it. */
static bool takes_room(tn__device_printer *p, uint32_t i, uint32_t s,
                       uint32_t operand, bool *marks)
{
    const uint32_t stages = p->program->stage_count;
    bool is_free = p->program->operand[operand].dtype == p->ins[i].dtype;
    for (uint32_t later = s + 1; is_free && later < stages; later++) {
        mark_elems(p, later, i, marks);
        is_free = !loads(p, later, operand);
    }
    for (uint32_t later = s + 1; !is_free && later < stages; later++)
        mark_elems(p, later, TN_NONE, marks);
    return is_free;
}

/* The call that is computed for a reduction and again for a later stage, as the
 * exponential of a softmax: its value replaces in local memory what it was
 * computed from. */
static void find_kept(tn__device_printer *p, bool *marks)
{
    const tn_program *program = p->program;
    const uint32_t cached = tn__device_cached(program) & ~p->class.zero;
    for (uint32_t i = program->ins_count; i-- > 0;) {
        uint32_t in = 0, first = 0;
        for (uint32_t s = program->stage_count; s-- > 0;)
            if (p->elem_needed[s * program->ins_count + i]) {
                in++;
                first = s;
            }
        if (p->ins[i].op != TN_K_CALL || p->ins[i].level != TN_LEVEL_ELEM ||
            in < 2 || !tn__device_reduces(p, first))
            continue;
        for (uint32_t k = 0; k < program->operand_count; k++)
            if (cached >> k & 1 && takes_room(p, i, first, k, marks)) {
                p->kept = i;
                p->kept_stage = first;
                p->kept_operand = k;
                return;
            }
    }
}

/* What the program needs at all, and what of that each stage's elem part does:
 * a part may list more than its own stores and reductions read. */
static bool mark_program(tn__device_printer *p, bool *marks)
{
    const tn_program *program = p->program;
    size_t count = program->ins_count;
    bool *stands = marks + count * (program->stage_count + 1);
    p->ins = program->ins;
    p->needed = marks;
    p->elem_needed = marks + count;
    find_needed(&(part){program->ins, program->ins_count, program->order,
                        program->order_count, TN_NONE},
                TN_NONE, NULL, stands, marks);
    for (uint32_t s = 0; s < program->stage_count; s++)
        mark_elems(p, s, TN_NONE, marks);
    if (p->class.cached)
        find_kept(p, marks);
    return !p->class.split || mark_step(p, stands, marks);
}

static bool print_kernel(tn__device_printer *p, const tn_target *target)
{
    const tn_program *program = p->program;
    for (uint32_t f = 0; f < program->fn_count; f++)
        if (!print_fn(p, f))
            return false;
    bool *marks = tn__calloc((program->stage_count + 2) *
                             ((size_t)program->ins_count + 1), sizeof *marks);
    if (!marks)
        return false;
    if (!mark_program(p, marks)) {
        tn__free(marks);
        return false;
    }
    print_arguments(p, target);
    tn__text_add(&p->body, "{\n");
    p->depth = 1;
    print_unused_operands(p);
    if (p->faults)
        tn__device_line(p, "tk_fault fault = tk_fault_none();");
    tn__device_list(p, program->order, 0, program->uniform_count);
    if (p->class.is_rows)
        tn__device_rows(p);
    else
        tn__device_elements(p);
    if (p->faults)
        tn__device_line(p,
                        "TK_FAULT_TELL(faults, fault, TK_WORD(%u), "
                        "TK_WORD(%u), TK_WORD(%u))",
                        p->words.tag, p->words.launch, p->words.room);
    tn__text_add(&p->body, "}\n");
    tn__free(marks);
    return true;
}

static tn_status print_program(const tn_target *target,
                               const tn_program *program, const tn_plan *plan,
                               tn_source *source)
{
    tn__device_printer p = {.program = program,
                            .class = tn__device_class_unpack(plan->variant),
                            .chunked = target->flags & TN_TARGET_CHUNKED,
                            .kept = TN_NONE,
                            .faults = tn__device_may_fault(program)};
    tn__device_words_init(&p.words, program, &p.class);
    if (p.class.split)
        p.stage = tn__split_stage(program, p.class.split - 1);
    tn__device_head(&p.body, target, p.class.is_wide, p.class.in_buffer,
                    p.words.total);
    if (p.faults)
        tn__text_add(&p.body, "%s", tn__device_part("fault.cl"));
    if (p.class.is_rows)
        tn__device_rows_head(&p);
    if (!print_kernel(&p, target)) {
        tn__text_release(&p.body);
        return TN_ERR_MEMORY;
    }
    source->kernel = tn__device_entry(&p.body, target, plan,
                                      p.class.in_buffer, "tn_program");
    source->text_bytes = p.body.length;
    source->text = tn__text_finish(&p.body);
    return source->text ? TN_OK : TN_ERR_MEMORY;
}

tn_status tn__print(const tn_target *target, const tn_program *program,
                    const tn_plan *plan, tn_source *source)
{
    /* Constants are rounded here, and what is printed is kept for others. */
    tn__fpu_state before = tn__fpu_set();
    tn_status status = program ? print_program(target, program, plan, source)
                               : tn__print_primitive(target, plan, source);
    tn__fpu_restore(before);
    return status;
}

void tn__print_free(tn_source *source)
{
    tn__free((char *)source->text);
    source->text = NULL;
}
