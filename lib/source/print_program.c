/* print_program.c: a program as the source of one kernel, in the dialect of
 * lib/source.
 *
 * What an instruction means is said there, once, by a function of its name;
 * here stands only the order of things (and in value.c, rows.c and elements.c).
 * Values are variables v<number of the instruction>, in the scope of their
 * level: the kernel's for uniform ones, a row's, an element's. */
#include <stdio.h>

#include <base/error.h>
#include <base/fpu.h>
#include <base/memory.h>
#include <base/plain.h>
#include <source/class.h>
#include <source/print.h>

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

void tn__device_line(tn__device_printer *p, const char *format, ...)
{
    va_list args;
    char line[512];
    va_start(args, format);
    tn__plain_vprint(line, sizeof line, format, args);
    va_end(args);
    tn__text_add(&p->body, "%*s%s\n", 4 * p->depth, "", line);
}

/* ---- memory ---------------------------------------------------------------- */

static void print_indexed_load(tn__device_printer *p, uint32_t i)
{
    const tn_kernel_ins *ins = &p->ins[i];
    uint32_t k = (uint32_t)ins->imm.i;
    const uint32_t index[3] = {ins->a, ins->b, ins->c};
    const char *storage = dtype_name[p->program->operand[k].dtype];
    bool faults = tn__device_faults(ins);
    char at[256];
    int length = snprintf(at, sizeof at, "at%u", k);
    if (p->live[i])
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
                            p->position, p->order_index, 4 * k + d, index[d],
                            bound);
        before = faults ? "else " : "} else ";
        length += snprintf(at + length, sizeof at - (size_t)length,
                           " + (tk_idx)v%u * (tk_idx)TK_WORD(%u)", index[d],
                           p->words.index_stride[k] + d);
    }
    if (p->live[i])
        tn__device_line(p, faults ? "else" : "} else {");
    if (p->live[i])
        tn__device_line(p, "    v%u = tk_from_%s(p%u[%s]);", i, storage, k,
                        at);
    if (!faults)
        tn__device_line(p, "}");
}

/* Operand k's element at hand. */
static void element_text(const tn__device_printer *p, uint32_t k, char out[32])
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
    element_text(p, k, element);
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
    element_text(p, k, element);
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
    if (!p->live[loop])
        return end;
    for (; ins[number_at(order, body)].op == TN_K_CARRY; body++) {
        uint32_t i = number_at(order, body);
        if (p->live[i])
            tn__device_line(p, "tk_%s v%u = v%u;", dtype_name[ins[i].dtype], i,
                            ins[i].a);
    }
    tn__device_line(p, "for (tk_i64 v%u = 0; v%u < v%u; v%u++) {", loop, loop,
                    ins[loop].a, loop);
    p->depth++;
    tn__device_statements(p, order, body, end);
    for (uint32_t c = first + 1; c < body; c++) {
        uint32_t i = number_at(order, c);
        if (p->live[i])
            tn__device_line(p, "tk_%s n%u = v%u;", dtype_name[ins[i].dtype], i,
                            ins[i].b);
    }
    for (uint32_t c = first + 1; c < body; c++) {
        uint32_t i = number_at(order, c);
        if (p->live[i])
            tn__device_line(p, "v%u = n%u;", i, i);
    }
    p->depth--;
    tn__device_line(p, "}");
    return end;
}

void tn__device_statements(tn__device_printer *p, const uint32_t *order,
                           uint32_t first, uint32_t end)
{
    char value[256];
    for (uint32_t at = first; at < end; at++) {
        uint32_t i = number_at(order, at);
        const tn_kernel_ins *ins = &p->ins[i];
        p->order_index = at;
        if (ins->op == TN_K_LOOP) {
            at = print_loop(p, order, at);
        } else if (ins->op == TN_K_REDUCE) {
            if (p->live[i])
                tn__device_reduce(p, i);
        } else if (ins->op == TN_K_WHILE) {
            tn__device_line(p, "if (!v%u)", ins->a);
            tn__device_line(p, "    break;");
        } else if (ins->op == TN_K_STORE && !p->live[i]) {
            continue; /* another step's */
        } else if (ins->op == TN_K_STORE) {
            /* what a row's team has read may lie where one now stores */
            if (p->in_row_part && !p->chunked &&
                tn__device_team(&p->class) > 1 &&
                (at == first ||
                 p->ins[number_at(order, at - 1)].op != TN_K_STORE))
                tn__device_line(p, "TK_BARRIER();");
            print_store(p, ins);
        } else if (ins->op == TN_K_LOAD &&
                   (p->live[i] || tn__device_faults(ins))) {
            print_load(p, i);
        } else if (i == p->saved && p->live[i] &&
                   p->local_stage > p->saved_stage) {
            element_text(p, p->saved_operand, value);
            tn__device_line(p, "tk_%s v%u = %s;", dtype_name[ins->dtype], i,
                            value);
        } else if (p->live[i]) {
            tn__device_value(p, value, sizeof value, i);
            tn__device_line(p, "tk_%s v%u = %s;", dtype_name[ins->dtype], i,
                            value);
            if (i == p->saved && p->local_stage == p->saved_stage)
                tn__device_line(p, "local%u[here%u] = v%u;", p->saved_operand,
                                p->saved_operand, i);
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
    p->live = marks;
    tn__liveness_function(fn, marks);
    tn__text_add(&p->body, "TK_FN tk_%s fn%u(", dtype_name[fn->dtype], f);
    for (uint32_t i = 0; i < fn->arg_count; i++)
        tn__text_add(&p->body, "%stk_%s a%u", i ? ", " : "",
                     dtype_name[fn->arg_dtype[i]], i);
    tn__text_add(&p->body, ")\n{\n");
    p->depth = 1;
    bool used[4] = {false};
    for (uint32_t i = 0; i < fn->ins_count; i++)
        if (fn->ins[i].op == TN_K_ARG && p->live[i])
            used[fn->ins[i].imm.i] = true;
    for (uint32_t i = 0; i < fn->arg_count; i++)
        if (!used[i])
            tn__device_line(p, "(void)a%u;", i);
    tn__device_statements(p, NULL, 0, fn->ins_count);
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
    if (p->class.split && tn__split_reduce_index(program, TN_NONE) > 0)
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
            p->live[i])
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
    tn__text_add(text, "%s%s%s", tn__device_text_of("platform.cl"),
                 tn__device_text_of("instructions.cl"),
                 tn__device_text_of("storage.cl"));
    if (in_buffer)
        tn__text_add(text, "#define TK_WORD(i) words[i]\n");
    else
        tn__text_add(text,
                     "typedef struct {\n    tk_i64 w[%u];\n} tk_words;\n"
                     "#define TK_WORD(i) words.w[i]\n", words);
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
    if (!tn__liveness_program(p, marks)) {
        tn__free(marks);
        return false;
    }
    print_arguments(p, target);
    tn__text_add(&p->body, "{\n");
    p->depth = 1;
    print_unused_operands(p);
    if (p->faults)
        tn__device_line(p, "tk_fault fault = tk_fault_none();");
    tn__device_statements(p, program->order, 0, program->uniform_count);
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
                            .saved = TN_NONE,
                            .faults = tn__device_may_fault(program)};
    tn__device_words_init(&p.words, program, &p.class);
    if (p.class.split)
        p.stage = tn__split_stage(program, p.class.split - 1);
    tn__device_head(&p.body, target, p.class.is_wide, p.class.in_buffer,
                    p.words.total);
    if (p.faults)
        tn__text_add(&p.body, "%s", tn__device_text_of("fault.cl"));
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
