/* Tests which intermediate results a compiled program need not store: products
 * and differences whose sums can use the factors directly, and blocks that
 * later stages can recompute. test_cpu_launch.c checks the results' bits. */
#include <stdarg.h>
#include <string.h>

#include "../tap.h"
#include "cpu_program.h"
#include "isa_here.h"

#include "../../backends/cpu/cpu_programs.h"
#include "../../backends/cpu/program/program.h"
#include "../../backends/cpu/simd/isa.h"

static tn_status host_fail(tn_status code, const char *format, ...)
{
    (void)format;
    return code;
}

static const tn_host host = {.size = sizeof host, .fail = host_fail};

/* m = max(x); d = x - m; out = d / sum(d * d) */
static void variance(builder *b, tn_dtype dtype)
{
    operand(b, dtype, TN_OPERAND_READ, TN_LEVEL_ELEM, 0);
    operand(b, dtype, TN_OPERAND_WRITE, TN_LEVEL_ELEM, 0);
    add(b, TN_K_LOAD, dtype, NONE, NONE, 0, 0);
    add(b, TN_K_REDUCE, dtype, 0, NONE, 0, TN_REDUCE_MAX);
    add(b, TN_K_SUB, dtype, 0, 1, 0, 0);
    add(b, TN_K_MUL, dtype, 2, 2, 0, 0);
    add(b, TN_K_REDUCE, dtype, 3, NONE, 0, TN_REDUCE_SUM);
    add(b, TN_K_DIV, dtype, 2, 4, 0, 0);
    add(b, TN_K_STORE, dtype, 5, NONE, 1, 0);
    b->ins[1].level = b->ins[4].level = TN_LEVEL_ROW;
    stage(b, (const int[]){0, 1, NONE}, (const int[]){NONE});
    stage(b, (const int[]){0, 2, 3, 4, NONE}, (const int[]){NONE});
    stage(b, (const int[]){0, 2, 5, 6, NONE}, (const int[]){NONE});
}

static void test_variance(const tn_cpu_routines *routines, tn_dtype dtype)
{
    const char *name = dtype == TN_F32 ? "f32" : "f64";
    builder b = {.program.size = 0};
    variance(&b, dtype);
    cpu_code code;
    if (tn__cpu_compile(finish(&b), routines, true, false, &code) != TN_OK)
        bail_out("no memory");
    uint32_t x = code.op[code.stage[0].elem.first].out;
    const cpu_part *part = &code.stage[1].elem;
    bool takes = false, spared = true;
    for (uint32_t i = part->first; i < part->first + part->count; i++) {
        const cpu_op *op = &code.op[i];
        if (op->code == CPU_RUN)
            spared = spared && (op->flags & RUN_FACTORS);
        if (op->code == CPU_REDUCE)
            takes = op->b == x && op->c == x &&
                    op->narrow[1] == code.reduce[0].out &&
                    op->narrow[2] == op->narrow[1];
    }
    ok(takes, "%s: a variance is a sum of x less its row's number", name);
    ok(spared, "%s: no pass for the difference, none for its square", name);
    ok(code.group_slot_count == 1 && code.group_slot[0] == x,
       "%s: nothing but x is kept for the last stage", name);
    tn__cpu_code_release(&code);
}

/* out = sum((x - m) * g * r): the reduction over columns reads x, m, g and
 * r. */
static void triple(builder *b)
{
    for (int k = 0; k < 5; k++)
        operand(b, TN_F32, k < 4 ? TN_OPERAND_READ : TN_OPERAND_WRITE,
                k < 4 ? TN_LEVEL_ELEM : TN_LEVEL_ROW, 0);
    for (int k = 0; k < 4; k++)
        add(b, TN_K_LOAD, TN_F32, NONE, NONE, k, 0);
    add(b, TN_K_SUB, TN_F32, 0, 1, 0, 0);
    add(b, TN_K_MUL, TN_F32, 4, 2, 0, 0);
    add(b, TN_K_MUL, TN_F32, 5, 3, 0, 0);
    add(b, TN_K_REDUCE, TN_F32, 6, NONE, 0, TN_REDUCE_SUM);
    add(b, TN_K_STORE, TN_F32, 7, NONE, 4, 0);
    b->ins[7].level = b->ins[8].level = TN_LEVEL_ROW;
    stage(b, (const int[]){0, 1, 2, 3, 4, 5, 6, 7, NONE},
          (const int[]){8, NONE});
}

static void test_lines(const tn_cpu_routines *routines)
{
    builder b = {.program.size = 0};
    triple(&b);
    cpu_code code;
    if (tn__cpu_compile(finish(&b), routines, false, false, &code) != TN_OK)
        bail_out("no memory");
    bool spared = true, takes = false;
    for (uint32_t i = 0; i < code.op_count; i++) {
        const cpu_op *op = &code.op[i];
        if (op->code == CPU_RUN)
            spared = spared && (op->flags & RUN_COLUMNS) &&
                     op[op->jump].code == CPU_REDUCE;
        if (op->code == CPU_REDUCE)
            takes = op->column_form == CPU_CENTERED_SCALED;
    }
    ok(takes && spared, "a sum of columns takes three factors as they lie");
    ok(code.folds_columns && !code.folds_loads,
       "and nothing else is to be done");
    tn__cpu_code_release(&code);
}

/* The JIT compiler leaves sums over columns of triple() to precompiled routines
 * if rows are streamed; it compiles other sums. */
static void test_native(void)
{
    tn_plugin_device device = {.routines = tn__cpu_routines_for(NULL)};
    if (!device.routines->native) {
        skip(2, "no machine code is made for this machine");
        return;
    }
    for (int lines = 0; lines < 2; lines++) {
        builder b = {.program.size = 0};
        tn_built *built;
        if (lines)
            triple(&b);
        else
            variance(&b, TN_F32);
        if (tn__cpu_program_build(&device, finish(&b), &built) != TN_OK)
            bail_out("no memory");
        ok((built->streamed.segment_count == 0) == lines,
           lines ? "sums of columns' lines are left to routines"
                 : "others have machine code");
        is_int(built->streamed.folds_columns, lines, "which is known of them");
        tn__cpu_program_free(&device, built);
    }
}

int main(void)
{
    plan_later();
    tn__cpu_host = &host;
    /* The JIT compiler treats this program differently. */
    const tn_cpu_routines *routines =
        tn__cpu_routines_for(is_here("v3") ? "v3-nojit" : NULL);
    test_variance(routines, TN_F32);
    test_variance(routines, TN_F64);
    test_lines(routines);
    test_native();
    return done_testing();
}
