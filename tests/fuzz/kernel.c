/* kernel.c: fuzzes the compiler of the kernel language, from source to
 * programs.
 *
 * The input is the definition of an operator. After an '@', which the language
 * does not use, a hand-written gradient for its first input may follow.
 * Definitions and kernels are never freed, so leaks are checked only if
 * something was rejected. */
#include <kernel/kernel.h>

#include "fuzz.h"

const char fuzz_target[] = "kernel";

/* Returns a hash of a definition, which becomes its name. */
static uint64_t hash_text(const char *text)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * 1099511628211u;
    return hash ^ hash >> 29;
}

static void check_program(const tn__kernel *kernel)
{
    const tn_program *program = tn__kernel_program(kernel);
    if (!program) {
        fuzz_refused();
        return;
    }
    fuzz_accepted();
    fuzz_check(tn__kernel_program(kernel) == program,
               "a program is made once");
    char *text = tn__program_text(program);
    fuzz_check(text && *text, "a program has a listing");
    tn__free(text);
    text = tn__kernel_text(kernel);
    fuzz_check(text && *text, "a kernel has a listing");
    tn__free(text);
}

static void check_gradient(const tn__kernel *kernel, int wrt, int order)
{
    int used[TN__KERNEL_MAX_INPUTS];
    bool zero;
    const tn__kernel *gradient = tn__kernel_gradient(kernel, wrt, used, &zero);
    if (!gradient && zero) {
        fuzz_accepted();
        return;
    }
    if (!gradient) {
        fuzz_refused();
        int64_t live = tn__memory_live();
        fuzz_check(!tn__kernel_gradient(kernel, wrt, used, &zero) && !zero,
                   "a gradient refused once is refused again");
        fuzz_refused();
        fuzz_check(tn__memory_live() == live,
                   "a refused gradient leaks nothing");
        return;
    }
    fuzz_accepted();
    fuzz_check(gradient->output_count == 1, "a gradient is one tensor");
    fuzz_check(gradient->out[0].dtype == kernel->input[wrt].dtype,
               "a gradient has the dtype of its input");
    for (int i = 0; i < gradient->input_count; i++)
        fuzz_check(used[i] >= 0 &&
                       used[i] < kernel->input_count + 2 * kernel->output_count,
                   "a gradient uses inputs, outputs and cotangents");
    check_program(gradient);
    if (order > 1)
        for (int i = 0; i < gradient->input_count && i < 2; i++)
            check_gradient(gradient, i, order - 1);
}

static void check_kernel(const tn__def *def, const tn_dtype *dtype)
{
    const tn__kernel *kernel = tn__def_kernel(def, dtype);
    if (!kernel) {
        fuzz_refused();
        int64_t live = tn__memory_live();
        fuzz_check(!tn__def_kernel(def, dtype),
                   "dtypes refused once are refused again");
        fuzz_refused();
        fuzz_check(tn__memory_live() == live, "a refused kernel leaks nothing");
        return;
    }
    fuzz_accepted();
    fuzz_check(tn__def_kernel(def, dtype) == kernel, "a kernel is made once");
    check_program(kernel);
    for (int i = 0; i < kernel->input_count; i++)
        check_gradient(kernel, i, 2);
}

static void check_def(const tn__def *def, uint64_t hash)
{
    static const tn_dtype floats[] = {TN_F32, TN_F16, TN_F64, TN_BF16};
    static const tn_dtype all[] = {TN_F64, TN_F32, TN_F16,    TN_BF16,
                                   TN_I64, TN_I32, TN_I16,    TN_I8,
                                   TN_U8,  TN_BOOL, TN_F8E4M3, TN_F8E5M2};
    tn_dtype dtype[TN__KERNEL_MAX_INPUTS];
    for (int i = 0; i < TN__KERNEL_MAX_INPUTS; i++)
        dtype[i] = floats[hash & 3];
    check_kernel(def, dtype);
    for (int i = 0; i < TN__KERNEL_MAX_INPUTS; i++)
        dtype[i] = all[(hash >> 3 * i) % 12];
    check_kernel(def, dtype);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!tn__math_fn_count()) /* initialises the functions here, so that a
                               * rejected definition changes nothing */
        return fuzz_refused(), 0;
    char *text = fuzz_text(data, size);
    char *gradient = strchr(text, '@');
    if (gradient)
        *gradient++ = 0;
    int64_t live = tn__memory_live();
    tn__def *def = tn__def_parse(text, "fuzz");
    if (!def) {
        fuzz_check(tn_error() && !strncmp(tn_error(), "fuzz:", 5),
                   "a message begins with where it is");
        fuzz_refused();
        fuzz_check(tn__memory_live() == live, "a refused text leaks nothing");
        free(text);
        return 0;
    }
    fuzz_accepted();
    check_def(def, hash_text(text));
    if (gradient && tn__def_input_count(def)) {
        live = tn__memory_live();
        tn__def *by_hand = tn__def_gradient_parse(def, 0, gradient, "fuzz");
        if (by_hand) {
            fuzz_accepted();
            check_def(by_hand, hash_text(gradient));
        } else {
            fuzz_refused();
            fuzz_check(tn__memory_live() == live,
                       "a refused gradient leaks nothing");
        }
    }
    free(text);
    return 0;
}
