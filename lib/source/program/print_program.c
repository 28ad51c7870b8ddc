/* print_program.c: prints a program as the source of one kernel.
 *
 * The .cl files of lib/source define each instruction once, as a function with
 * its name. So the C files only print the sequence of instructions. The value
 * of instruction i is the variable v<i>. It is declared in the scope of its
 * level: in the kernel for a value that is the same everywhere, else in the
 * loop over rows or over elements. */
#include <base/error.h>
#include <base/memory.h>
#include <source/plan/class.h>
#include <source/program/printer.h>

/* ---- functions --------------------------------------------------------- */

static bool print_fn(tn__printer *p, uint32_t f)
{
    const tn_kernel_fn *fn = &p->program->fn[f];
    bool *marks = tn__calloc(2 * ((size_t)fn->ins_count + 1), sizeof *marks);
    if (!marks)
        return false;
    p->ins = fn->ins;
    p->live = marks;
    tn__liveness_function(fn, marks);
    tn__text_add(&p->body, "TK_FN tk_%s fn%u(", tn__source_dtype(fn->dtype), f);
    for (uint32_t i = 0; i < fn->arg_count; i++)
        tn__text_add(&p->body, "%stk_%s a%u", i ? ", " : "",
                     tn__source_dtype(fn->arg_dtype[i]), i);
    tn__text_add(&p->body, ")\n{\n");
    p->depth = 1;
    bool used[4] = {false};
    for (uint32_t i = 0; i < fn->ins_count; i++)
        if (fn->ins[i].op == TN_K_ARG && p->live[i])
            used[fn->ins[i].imm.i] = true;
    for (uint32_t i = 0; i < fn->arg_count; i++)
        if (!used[i])
            tn__print_line(p, "(void)a%u;", i);
    tn__print_statements(p, NULL, 0, fn->ins_count);
    tn__print_line(p, "return v%u;", fn->result);
    tn__text_add(&p->body, "}\n\n");
    tn__free(marks);
    return true;
}

/* ---- the kernel ---------------------------------------------------------- */

static void print_arguments(tn__printer *p, const tn_target *target)
{
    const tn_program *program = p->program;
    tn__text_add(&p->body, "TK_KERNEL tn_program(");
    for (uint32_t k = 0; k < program->operand_count; k++) {
        const tn_kernel_operand *operand = &program->operand[k];
        if (operand->access != TN_OPERAND_OFFSET)
            tn__text_add(&p->body, "TK_G %stk_s_%s *%sp%u, ",
                         operand->access == TN_OPERAND_READ ? "const " : "",
                         tn__source_dtype(operand->dtype),
                         p->class.distinct ? "TK_RESTRICT " : "", k);
    }
    if (p->class.split && tn__split_reduce_index(program, TN_NONE) > 0)
        tn__text_add(&p->body, "TK_G tk_i64 *scratch, ");
    if (p->faults)
        tn__text_add(&p->body, "TK_G tk_u32 *faults, ");
    tn__text_add(&p->body, "%s)\n",
                 tn__source_parameters(target, p->class.in_buffer));
}

static void print_unused_operands(tn__printer *p)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < p->program->ins_count; i++)
        if ((p->ins[i].op == TN_K_LOAD || p->ins[i].op == TN_K_STORE) &&
            p->live[i])
            used |= 1u << p->ins[i].imm.i;
    for (uint32_t k = 0; k < p->program->operand_count; k++)
        if (!(used >> k & 1) &&
            p->program->operand[k].access != TN_OPERAND_OFFSET)
            tn__print_line(p, "(void)p%u;", k);
}

static bool print_kernel(tn__printer *p, const tn_target *target)
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
    if (p->class.cached)
        tn__cache_find_saved(p, marks);
    print_arguments(p, target);
    tn__text_add(&p->body, "{\n");
    p->depth = 1;
    print_unused_operands(p);
    if (p->faults)
        tn__print_line(p, "tk_fault fault = tk_fault_none();");
    tn__print_statements(p, program->order, 0, program->uniform_count);
    if (p->class.is_rows)
        tn__print_rows(p);
    else
        tn__print_elements(p);
    if (p->faults)
        tn__print_line(p,
                       "TK_FAULT_REPORT(faults, fault, TK_WORD(%u), "
                       "TK_WORD(%u), TK_WORD(%u))",
                       p->words.tag, p->words.launch, p->words.room);
    tn__text_add(&p->body, "}\n");
    tn__free(marks);
    return true;
}

tn_status tn__print_program(const tn_target *target,
                               const tn_program *program, const tn_plan *plan,
                               tn_source *source)
{
    tn__printer p = {.program = program,
                     .class = tn__launch_class_unpack(plan->variant),
                     .chunked = target->flags & TN_TARGET_CHUNKED,
                     .saved = TN_NONE,
                     .faults = tn__program_may_fault(program)};
    tn__launch_words_init(&p.words, program, &p.class);
    if (p.class.split)
        p.stage = tn__split_stage(program, p.class.split - 1);
    tn__source_head(&p.body, target, p.class.is_wide, p.class.in_buffer,
                    p.words.total);
    if (p.faults)
        tn__text_add(&p.body, "%s", tn__source_text("fault.cl"));
    if (p.class.is_rows)
        tn__print_rows_head(&p);
    if (!print_kernel(&p, target)) {
        tn__text_release(&p.body);
        return TN_ERR_MEMORY;
    }
    source->kernel = tn__source_entry(&p.body, target, plan, p.class.in_buffer,
                                      "tn_program");
    source->text_bytes = p.body.length;
    source->text = tn__text_finish(&p.body);
    return source->text ? TN_OK : TN_ERR_MEMORY;
}
