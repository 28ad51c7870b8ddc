/* level2.c: the checks of level 2: the results of kernel programs and
 * primitives. */
#include <inttypes.h>
#include <stdio.h>

#include "check.h"
#include "extensions.h"
#include "kernel/kernel.h"
#include "random_library.h"
#include "one_case.h"
#include "primitives.h"
#include "random_program.h"
#include "random_source.h"
#include "run_case.h"

/* Runs a case on the plugin and frees it. Returns false if it failed or if
 * memory ran out. */
static bool holds(const by_hand *h, random_case *c)
{
    char why[512] = "";
    if (!expect(c != NULL, "tenon-plugin-check itself ran out of memory"))
        return false;
    bool same = !run_case_fits(h, c) || run_case(h, c, why, sizeof why);
    if (!expect(same, "%s", why))
        report_case(c);
    random_case_free(c);
    return same;
}

/* ---- programs that test one thing --------------------------------------- */

static void instruction(int op)
{
    by_hand h;
    one_form form;
    if (!open_device(&h))
        return;
    for (int i = 0; one_form_at((unsigned)op, i, &form); i++) {
        if (form.op == TN_K_CALL && random_library_loops((int)form.number))
            continue;
        for (int layout = 0; layout < ONE_LAYOUTS; layout++) {
            trying("%s %s(%s %s %s)%s%s%s%s, %s",
                   form.op == TN_K_CALL ? tn__math_fn_at((int)form.number)->name
                                        : "result",
                   random_dtype_name(form.dtype),
                   random_dtype_name(form.arg[0]),
                   random_dtype_name(form.arg[1]),
                   random_dtype_name(form.arg[2]),
                   form.sub ? " to " : "", random_dtype_name(form.sub),
                   form.storage ? " in memory " : "",
                   random_dtype_name(form.storage),
                   one_layout_names[layout]);
            if (!holds(&h, one_case_new(&form, layout)))
                return;
        }
    }
    by_hand_close(&h);
}

static void ranks(int argument)
{
    (void)argument;
    by_hand h;
    if (!open_device(&h))
        return;
    for (uint32_t rank = 0; rank <= TN_MAX_NDIM; rank++)
        for (uint64_t i = 0; i < 12; i++) {
            trying("--seed %" PRIu64 ", ADD on rank %u", options.seed + i,
                   rank);
            if (!holds(&h, one_rank_case(rank, options.seed + i)))
                return;
        }
    by_hand_close(&h);
}

/* Checks one kind of reduction for rows whose lengths are multiples of TN_LANES
 * or TN_CHUNK, or a little less or more. */
static void reduction(int kind)
{
    static const int64_t lengths[] = {0,    1,    2,    15,   16,   17,   31,
                                      33,   100,  1000, 1023, 1024, 1025, 1040,
                                      2048, 2049, 3075, 5000, 9000};
    static const tn_dtype types[] = {TN_F32, TN_F64, TN_I32, TN_I64, TN_BOOL};
    static const char *const variants[] = {"contiguous", "flipped", "columns",
                                           "two row dimensions"};
    by_hand h;
    if (!open_device(&h))
        return;
    for (int t = 0; t < 5; t++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            for (int variant = 0; variant < 4; variant++) {
                bool exists;
                random_case *c = one_reduce_case((unsigned)kind, types[t],
                                                 lengths[i], variant, &exists);
                trying("%s, rows of %" PRId64 ", %s",
                       random_dtype_name(types[t]),
                       lengths[i], variants[variant]);
                if (exists && !holds(&h, c))
                    return;
            }
    by_hand_close(&h);
}

static void gathers(int argument)
{
    (void)argument;
    by_hand h;
    if (!open_device(&h))
        return;
    for (tn_dtype dtype = 1; dtype < TN_DTYPE_END; dtype++)
        for (uint32_t indices = 1; indices <= 3; indices++)
            for (int how = 0; how < 4; how++) {
                bool outside = how & 1, zero = how & 2;
                trying("%s through %u indices%s", random_dtype_name(dtype),
                       indices,
                       !outside ? ", at both ends"
                       : zero   ? ", outside reads 0"
                                : ", outside is a fault");
                if (!holds(&h, one_gather_case(indices, outside, zero, dtype)))
                    return;
            }
    by_hand_close(&h);
}

static void loops(int argument)
{
    (void)argument;
    by_hand h;
    if (!open_device(&h))
        return;
    trying("a loop with two carried values and an early end");
    if (holds(&h, one_loop_case()))
        by_hand_close(&h);
}

/* ---- the floating-point state ------------------------------------------- */

/* Runs a random program, then a random case of each primitive and extension. */
static void compute(by_hand *h, uint64_t seed, const char *how)
{
    char why[512] = "";
    random_case *c = random_case_new(seed);
    trying("--seed %" PRIu64 ", a program %s", seed, how);
    by_hand_fpu(h->is_hostile);
    const uint64_t before = by_hand_fpu_bits();
    bool same = !c || !run_case_fits(h, c) || run_case(h, c, why, sizeof why);
    const uint64_t now = by_hand_fpu_bits();
    by_hand_fpu(false);
    if (!expect(same, "%s", why))
        report_case(c);
    expect(before == now, "changed the floating-point state of its caller");
    random_case_free(c);
    for (int p = 0; p < PRIMITIVE_COUNT && !has_failed(); p++) {
        trying("--seed %" PRIu64 ", %s %s", seed, primitive_names[p], how);
        same = primitive_case(h, p, seed, why, sizeof why);
        expect(same, "%s", why);
    }
    for (int e = 0; e < EXTENSION_COUNT && !has_failed(); e++) {
        const void *table = extension_table(h, e);
        trying("--seed %" PRIu64 ", %s %s", seed, extension_names[e], how);
        bool wrong = table && extension_case(h, e, table, seed, why,
                                             sizeof why) == EXTENSION_WRONG;
        expect(!wrong, "%s", why);
    }
}

/* Checks that results do not depend on the caller's floating-point state, and
 * that the plugin does not change it. The caller rounds upward and flushes
 * subnormals to zero, when it opens the device and when it makes calls. */
static void rounding(int argument)
{
    (void)argument;
    by_hand h;
    if (!open_device(&h))
        return;
    h.is_hostile = true;
    for (uint64_t i = 0; i < 25 && !has_failed(); i++)
        compute(&h, options.seed + i,
                "while the caller rounds upward and has FTZ set");
    by_hand_close(&h);
    if (has_failed())
        return;
    trying("device_open and queue_open while the caller rounds upward and has "
           "FTZ set");
    by_hand_fpu(true);
    const uint64_t before = by_hand_fpu_bits();
    bool opened = by_hand_open_device(&h, options.device);
    const uint64_t now = by_hand_fpu_bits();
    by_hand_fpu(false);
    if (!expect(opened, "the device cannot be opened: %s", by_hand_failure()))
        return;
    expect(before == now, "changed the floating-point state of its caller");
    for (uint64_t i = 0; i < 40 && !has_failed(); i++) {
        h.is_hostile = i % 2;
        compute(&h, options.seed + i,
                "on a queue opened while the caller rounded upward and had "
                "FTZ set");
    }
    by_hand_close(&h);
}

/* ---- random programs ---------------------------------------------------- */

static void random_programs(int argument)
{
    (void)argument;
    by_hand h;
    if (!open_device(&h))
        return;
    for (int64_t i = 0; i < options.programs; i++) {
        uint64_t seed = options.seed + (uint64_t)i;
        trying("--seed %" PRIu64 " --programs 1", seed);
        if (!holds(&h, random_case_new(seed)))
            return;
    }
    by_hand_close(&h);
}

static void primitive(int which)
{
    by_hand h;
    char why[512];
    if (!open_device(&h))
        return;
    for (uint64_t i = 0; i < 300; i++) {
        trying("--seed %" PRIu64, options.seed + i);
        if (!expect(
                primitive_case(&h, which, options.seed + i, why, sizeof why),
                "%s", why))
            return;
    }
    by_hand_close(&h);
}

static void extension(int which)
{
    by_hand h;
    char why[512] = "";
    if (!open_device(&h))
        return;
    const void *table = extension_table(&h, which);
    bool does_some = false;
    for (uint64_t i = 0; table && i < 300; i++) {
        trying("--seed %" PRIu64, options.seed + i);
        int result = extension_case(&h, which, table, options.seed + i, why,
                                    sizeof why);
        if (!expect(result != EXTENSION_WRONG, "%s", why))
            return;
        does_some = does_some || result == EXTENSION_RIGHT;
    }
    by_hand_close(&h);
    if (!table)
        leave_out("the plugin has no extension %s", extension_names[which]);
    else if (!does_some)
        leave_out("the plugin declined all calls, the last one with: %s", why);
}

/* ---- the list ----------------------------------------------------------- */

int level2_checks(check *list, int count)
{
    static const char *const names[] = {
#define NAME(name, operands, text) #name,
        TN_KERNEL_MAP(NAME)
#undef NAME
    };
    static const char *const texts[] = {
#define TEXT(name, operands, text) #name ": " text,
        TN_KERNEL_MAP(TEXT)
#undef TEXT
    };
    static const char *const folds[] = {"sums",   "products", "maxima",
                                        "minima", "argmax",   "argmin"};
    static const char *const of_primitive[PRIMITIVE_COUNT] = {
        "tn_scan_args: an inclusive scan along the last dimension, "
        "sums of floats by blocks of TN_LANES in chunks of TN_CHUNK",
        "tn_sort_args: a stable sort along the last dimension; NaN is "
        "greatest, -0 equals +0",
        "tn_scatter_args: dst[q] = reduce(dst[q], src[p]) in the order of p; "
        "an index outside its extent is a fault and skipped",
        "tn_matmul_args: c = alpha a b + beta c; beta = 0 never reads c"};
    static const char fold_rule[] =
        "sub of REDUCE: SUM and PROD have a fixed order, by lanes, then "
        "chunks; NaN wins in MAX and MIN";
    static const char program_rule[] =
        "every instruction is defined for every input; an index out of range "
        "reads 0, and the one at the lowest position is reported as a fault";
    one_form form;
    for (int op = 0; op < TN_K_END; op++)
        if (op != TN_K_CALL && one_form_at((unsigned)op, 0, &form))
            count = check_add(list, count, 2, names[op], texts[op],
                              instruction, op);
    count = check_add(list, count, 2, "functions",
                      "tn_kernel_fn: the body, or a routine with its bits",
                      instruction, TN_K_CALL);
    for (int kind = 0; kind < TN_REDUCE_END; kind++)
        count = check_add(list, count, 2, folds[kind], fold_rule, reduction,
                          kind);
    count = check_add(list, count, 2, "ranks",
                      "up to TN_MAX_NDIM dimensions; strides may be 0 or "
                      "negative, extents 0",
                      ranks, 0);
    count = check_add(list, count, 2, "gathers", program_rule, gathers, 0);
    count = check_add(list, count, 2, "loops", texts[TN_K_LOOP], loops, 0);
    count = check_add(list, count, 2, "rounding",
                      "numbers are rounded to nearest even and subnormals are "
                      "kept in any floating-point state of the calling thread, "
                      "and that state does not change",
                      rounding, 0);
    count = check_add(list, count, 2, "random programs", program_rule,
                      random_programs, 0);
    count = launch_checks(list, count);
    for (int p = 0; p < PRIMITIVE_COUNT; p++)
        count = check_add(list, count, 2, primitive_names[p], of_primitive[p],
                          primitive, p);
    for (int e = 0; e < EXTENSION_COUNT; e++)
        count = check_add(list, count, 2, extension_names[e],
                          "an extension computes what plugin_extensions.h "
                          "defines, or declines, reports a reason by "
                          "host->fail and writes nothing",
                          extension, e);
    return unknown_checks(list, count);
}
