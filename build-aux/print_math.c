/* print_math.c: writes backends/cpu/simd/math_routines.inc. That file has the
 * mathematical functions of the kernel language as C, except the rare ones, and
 * the table by which the CPU plugin finds them. This program runs on the build
 * machine. It uses the library's own parser and typer, so the C functions cannot
 * differ from the definitions. */
#include <inttypes.h>
#include <stdio.h>

#include <tenon/base.h>

#include "base/memory.h"
#include "kernel/print_c.h"

enum { NARROW, WHOLE, WIDE };

/* Returns the widest type of a value in the function: NARROW is any type of 4
 * bytes or less, WHOLE is int64, WIDE is float64. */
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

/* Prints the table rows of the functions of one width that are not rare. */
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
        /* A rare function is printed too, because others may call it. */
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
