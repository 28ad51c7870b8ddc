/* Regions (TN_NO_GRAD and others) and loops with TN_EACH_BATCH restore the
 * previous mode however their body is left. test_regions.sh compiles this file
 * as C++ too, where destructors replace the cleanup attribute. */
#include "../tap.h"
#include <tenon/tenon.h>

/* The ways to leave a body. */
enum way { TO_ITS_END, BY_CONTINUE, BY_BREAK, BY_GOTO, BY_RETURN, WAYS };
static const char *const way_names[WAYS] = {"to its end", "by continue",
                                            "by break", "by goto",
                                            "by return"};

static int inside; /* number of bodies in which the region's mode was active */

/* Runs a body in which `mode` must be true. The body is left as `way` says; if
 * it reaches its end, `ends` is incremented. */
#define BODY(mode, way, ends)                                                 \
    inside += (mode);                                                         \
    if (way == BY_CONTINUE)                                                   \
        continue;                                                             \
    if (way == BY_BREAK)                                                      \
        break;                                                                \
    if (way == BY_GOTO)                                                       \
        goto out;                                                             \
    if (way == BY_RETURN)                                                     \
        return ends;                                                          \
    ends++;

/* Defines a test for each form of a region: `region`, which has a block, and
 * `here`, which lasts until the enclosing block ends. */
#define TRY_REGION(name, region, here, mode)                                  \
    static int name##_block(enum way way)                                     \
    {                                                                         \
        int ends = 0;                                                         \
        region {                                                              \
            BODY(mode, way, ends)                                             \
        }                                                                     \
    out:                                                                      \
        return ends;                                                          \
    }                                                                         \
    /* Counts the iterations whose body reached its end. */                   \
    static int name##_here(enum way way)                                      \
    {                                                                         \
        int ends = 0;                                                         \
        for (int i = 0; i < 3; i++) {                                         \
            here;                                                             \
            BODY(mode, way, ends)                                             \
        }                                                                     \
    out:                                                                      \
        return ends;                                                          \
    }

TRY_REGION(no_grad, TN_NO_GRAD, TN_NO_GRAD_HERE, !tn_grad_mode())
TRY_REGION(detect_anomaly, TN_DETECT_ANOMALY, TN_DETECT_ANOMALY_HERE,
           tn_anomaly_mode())
TRY_REGION(autocast, TN_AUTOCAST(TN_BF16), TN_AUTOCAST_HERE(TN_BF16),
           tn_autocast_dtype() == TN_BF16)
TRY_REGION(relaxed, TN_RELAXED(true), TN_RELAXED_HERE(true), tn_relaxed())

static bool outside(void)
{
    return tn_grad_mode() && !tn_anomaly_mode() &&
           tn_autocast_dtype() == TN_DTYPE_NONE && !tn_relaxed();
}

static void try_region(const char *name, int (*block)(enum way),
                       int (*here)(enum way))
{
    for (int w = 0; w < WAYS; w++) {
        enum way way = (enum way)w;
        inside = 0;
        int ends = block(way);
        ok(outside(), "%s left %s has its mode back", name, way_names[w]);
        is_int(inside, 1, "the body ran once, in the mode");
        is_int(ends, way == TO_ITS_END,
               "the body reaches its end unless it is left");
        inside = 0;
        ends = here(way);
        ok(outside(), "%s_HERE left %s has its mode back", name,
           way_names[w]);
        bool goes_on = way == TO_ITS_END || way == BY_CONTINUE;
        is_int(inside, goes_on ? 3 : 1, "break and continue are the loop's");
        is_int(ends, way == TO_ITS_END ? 3 : 0,
               "iterations reach their end unless they are left");
    }
}

static void test_nesting(void)
{
    TN_NO_GRAD {
        TN_AUTOCAST(TN_F16) {
            TN_NO_GRAD {
                TN_AUTOCAST(TN_BF16)
                    ok(tn_autocast_dtype() == TN_BF16, "regions nest");
            }
            ok(tn_autocast_dtype() == TN_F16 && !tn_grad_mode(),
               "and each restores the mode before it");
        }
        TN_DETECT_ANOMALY_HERE;
        ok(tn_anomaly_mode() && !tn_grad_mode(), "also with the other form");
    }
    ok(outside(), "the outermost mode is restored");
    if (tn_grad_mode())
        TN_NO_GRAD
            ok(!tn_grad_mode(), "a region is one statement");
    else
        ok(false, "a region does not capture an else");
}

static int scope_block(enum way way)
{
    int ends = 0;
    int64_t owned = tn_scope_count();
    TN_SCOPE(scope) {
        tn_ones(tn_dims(1));
        BODY(tn_scope_count() == owned + 1, way, ends)
    }
out:
    return ends;
}

static void test_scope(void)
{
    int64_t owned = tn_scope_count();
    for (int w = 0; w < WAYS; w++) {
        enum way way = (enum way)w;
        inside = 0;
        int ends = scope_block(way);
        is_int(tn_scope_count(), owned, "a TN_SCOPE left %s is closed",
               way_names[w]);
        is_int(inside, 1, "its body ran once");
        is_int(ends, way == TO_ITS_END,
               "the body reaches its end unless it is left");
    }
    tn_scope *around = tn_scope_open();
    tn_tensor *sum = tn_zeros(tn_dims(1));
    for (int i = 0; i < 3; i++)
        TN_SCOPE(step) {
            TN_SCOPE(inner) {
                sum = tn_add_scalar(sum, 1);
                tn_scope_carry(inner, &sum);
            }
            tn_scope_carry(step, &sum);
        }
    is_int(tn_item_int(sum), 3, "tn_scope_carry passes a tensor on");
    is_int(tn_scope_count(), owned + 2, "and the tensors before are freed");
    tn_scope_close(around);
    if (owned == tn_scope_count())
        TN_SCOPE(scope)
            is_int(tn_scope_count(), owned, "TN_SCOPE is one statement");
    else
        ok(false, "TN_SCOPE does not capture an else");
}

static int asked;
static tn_loader *ask(tn_loader *loader)
{
    asked++;
    return loader;
}

static int each_batch(tn_loader *loader, enum way way)
{
    int batches = 0;
    TN_EACH_BATCH(batch, ask(loader)) {
        batches += batch.count == 2;
        if (way == BY_CONTINUE)
            continue;
        if (way == BY_BREAK)
            break;
        if (way == BY_GOTO)
            goto out;
        if (way == BY_RETURN)
            return batches;
    }
out:
    return batches;
}

static void test_each_batch(void)
{
    tn_scope *scope = tn_scope_open();
    tn_loader_new_options options = TN_LOADER_NEW_OPTIONS;
    options.batch_size = 2;
    tn_loader *loader = tn_loader_new_with(
        tn_dataset_from_tensors(tn_ones(tn_dims(6, 2)), NULL), &options);
    int64_t owned = tn_scope_count();
    for (int w = 0; w < WAYS; w++) {
        enum way way = (enum way)w;
        asked = 0;
        int batches = each_batch(loader, way);
        bool goes_on = way == TO_ITS_END || way == BY_CONTINUE;
        is_int(batches, goes_on ? 3 : 1, "batches of a loop left %s",
               way_names[w]);
        is_int(asked, 1, "the loader expression is evaluated once");
        is_int(tn_scope_count(), owned, "and its scope is closed");
        is_int((int)tn_loader_snapshot(loader).epoch, w + 1,
               "and epoch ended");
    }
    each_batch(NULL, TO_ITS_END);
    is_str(tn_error(), "batch_begin: loader is NULL", "NULL is reported");
    tn_error_clear();
    tn_scope_close(scope);
    each_batch(loader, TO_ITS_END);
    ok(tn_error() && strstr(tn_error(), "batch_begin: loader was freed: "),
       "and a loader that was freed: %s", tn_error());
    tn_error_clear();
}

int main(void)
{
    plan_later();
    try_region("TN_NO_GRAD", no_grad_block, no_grad_here);
    try_region("TN_DETECT_ANOMALY", detect_anomaly_block,
               detect_anomaly_here);
    try_region("TN_AUTOCAST", autocast_block, autocast_here);
    try_region("TN_RELAXED", relaxed_block, relaxed_here);
    test_nesting();
    test_scope();
    test_each_batch();
    ok(!tn_error(), "no error is pending");
    return done_testing();
}
