/* print_math.c: writes backends/cpu/simd/math_routines.inc: the functions of the
 * kernel language as C, but for the rare ones, and the rows of the table by
 * which an executor finds them. Runs on the machine that builds, from the
 * library's own parser and typer, so that what is shipped cannot differ from
 * the definitions. */
#include <inttypes.h>
#include <stdio.h>

#include <tenon/base.h>

#include "base/memory.h"
#include "kernel/print_c.h"

enum { NARROW, WHOLE, WIDE };

/* The widest values inside: of 4 bytes, int64, or float64. */
static int width_of(const tn_kernel_fn *fn)
{
    int width = NARROW;
    for (uint32_t i = 0; i < fn->ins_count; i++)
        if (fn->ins[i].dtype == TN_F64)
            return WIDE;
        else if (fn->ins[i].dtype == TN_I64)
            width = WHOLE;
    return width;
}

/* Of the functions that are not rare, those of a width. */
static void print_rows(const char *name, int count, int width)
{
    printf("#define %s \\\n", name);
    for (int i = 0; i < count; i++) {
        const tn_kernel_fn *fn = tn__math_fn_at(i);
        if (tn__math_fn_is_rare(i) || width_of(fn) != width)
            continue;
        printf("    {UINT64_C(0x%016" PRIx64 "), \"%s\", run_%s}, \\\n",
               fn->hash, fn->name, fn->name);
    }
    puts("");
}

int main(void)
{
    puts("/* Made by build-aux/print_math.c from lib/kernel/math. */\n");
    int count = tn__math_fn_count();
    for (int i = 0; i < count; i++) {
        const tn_kernel_fn *fn = tn__math_fn_at(i);
        /* Those that are rare may be called by others. */
        char *text = fn ? tn__fn_print_c(fn, !tn__math_fn_is_rare(i)) : NULL;
        if (!text)
            break;
        fputs(text, stdout);
        tn__free(text);
    }
    if (tn_error()) {
        fprintf(stderr, "print_math: %s\n", tn_error());
        return 1;
    }
    print_rows("TN_CPU_MATH_F32_ROWS", count, NARROW);
    print_rows("TN_CPU_MATH_I64_ROWS", count, WHOLE);
    print_rows("TN_CPU_MATH_F64_ROWS", count, WIDE);
    return fflush(stdout) || ferror(stdout);
}
