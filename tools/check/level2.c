/* level2.c: programs and primitives: the device's numbers. */
#include <fenv.h>
#include <inttypes.h>
#include <stdio.h>

#include "check.h"
#include "extensions.h"
#include "kernel/kernel.h"
#include "random_library.h"
#include "one_case.h"
#include "primitives.h"
#include "process.h"
#include "random_program.h"
#include "run_case.h"

static const char *type_name(tn_dtype dtype)
{
    static const char *const names[] = {"",
#define NAME(name, code, text, bytes, kind, reg) #name,
                                        TN_DTYPE_MAP(NAME)
#undef NAME
    };
    return dtype < TN_DTYPE_END ? names[dtype] : "?";
}

/* Runs and frees a case; false: it failed, or there is no memory for it. */
static bool holds(const by_hand *h, random_case *c)
{
    char why[512] = "";
    if (!expect(c != NULL, "the kit's own memory ran out"))
        return false;
    bool same = !run_case_fits(h, c) || run_case(h, c, why, sizeof why);
    if (!expect(same, "%s", why))
        tell_case(c);
    random_case_free(c);
    return same;
}

/* ---- programs made for one question ------------------------------------- */

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
                   type_name(form.dtype), type_name(form.arg[0]),
                   type_name(form.arg[1]), type_name(form.arg[2]),
                   form.sub ? " to " : "", type_name(form.sub),
                   form.storage ? " in memory " : "", type_name(form.storage),
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

/* Rows that end just before, at and behind lanes, chunks and their folds. */
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
                trying("%s, rows of %" PRId64 ", %s", type_name(types[t]),
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
                trying("%s through %u indices%s", type_name(dtype), indices,
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

/* The caller may round upward: results do not, and it still does after. */
static void rounding(int argument)
{
    (void)argument;
    static process_state before, now;
    by_hand h;
    char why[512];
    if (!open_device(&h))
        return;
    for (uint64_t i = 0; i < 40 && !has_failed(); i++) {
        random_case *c = random_case_new(options.seed + i);
        trying("--seed %" PRIu64 ", a program while the caller rounds upward",
               options.seed + i);
        fesetround(FE_UPWARD);
        process_read(&before);
        bool same =
            !c || !run_case_fits(&h, c) || run_case(&h, c, why, sizeof why);
        process_read(&now);
        fesetround(FE_TONEAREST);
        if (!expect(same, "%s", same ? "" : why))
            tell_case(c);
        expect(process_same_fpu(&before, &now),
               "changed the floating-point state of its caller");
        h.rounding = FE_UPWARD;
        for (int p = 0; p < PRIMITIVE_COUNT && !has_failed(); p++) {
            trying("--seed %" PRIu64 ", %s while the caller rounds upward",
                   options.seed + i, primitive_names[p]);
            same = primitive_case(&h, p, options.seed + i, why, sizeof why);
            expect(same, "%s", same ? "" : why);
        }
        for (int e = 0; e < EXTENSION_COUNT && !has_failed(); e++) {
            const void *table = extension_table(&h, e);
            trying("--seed %" PRIu64 ", %s while the caller rounds upward",
                   options.seed + i, extension_names[e]);
            bool wrong = table && extension_case(&h, e, table,
                                                 options.seed + i, why,
                                                 sizeof why) ==
                                      EXTENSION_WRONG;
            expect(!wrong, "%s", why);
        }
        random_case_free(c);
    }
    by_hand_close(&h);
}

/* ---- random ones -------------------------------------------------------- */

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
        leave_out("it has no extension %s", extension_names[which]);
    else if (!does_some)
        leave_out("it declined all, the last with: %s", why);
}

/* ---- the list ----------------------------------------------------------- */

int level2_checks(check *list, int count)
{
    static const char *const names[] = {
#define NAME(name, operands, text) #name,
        TN_KERNEL_MAP(NAME)
#undef NAME
    };
    static const char *const folds[] = {"sums",   "products", "maxima",
                                        "minima", "argmax",   "argmin"};
    one_form form;
    for (int op = 0; op < TN_K_END; op++)
        if (op != TN_K_CALL && one_form_at((unsigned)op, 0, &form))
            count = check_add(list, count, 2, names[op], instruction, op);
    count = check_add(list, count, 2, "functions", instruction, TN_K_CALL);
    for (int kind = 0; kind < TN_REDUCE_END; kind++)
        count = check_add(list, count, 2, folds[kind], reduction, kind);
    count = check_add(list, count, 2, "ranks", ranks, 0);
    count = check_add(list, count, 2, "gathers", gathers, 0);
    count = check_add(list, count, 2, "loops", loops, 0);
    count = check_add(list, count, 2, "rounding", rounding, 0);
    count = check_add(list, count, 2, "random programs", random_programs, 0);
    for (int p = 0; p < PRIMITIVE_COUNT; p++)
        count = check_add(list, count, 2, primitive_names[p], primitive, p);
    for (int e = 0; e < EXTENSION_COUNT; e++)
        count = check_add(list, count, 2, extension_names[e], extension, e);
    return count;
}
