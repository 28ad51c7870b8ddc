/* Each public call of <tenon/compile.h> with what a caller may get wrong: the
 * error names the argument, and the next correct call works. (test_compile has
 * functions that cannot be compiled.) */
#include <tenon/tenon.h>

#include <stdlib.h>

#include "../tap.h"

static tn_status doubled(tn_tensor *const *in, int in_count, tn_tensor **out,
                         int out_count, void *context)
{
    (void)in_count, (void)context;
    for (int o = 0; o < out_count; o++)
        out[o] = tn_mul_scalar(in[0], 2.0);
    return TN_OK;
}

static bool failed(tn_status code, const char *text)
{
    const bool found = tn_error() && tn_error_code() == code &&
                       strstr(tn_error(), text);
    if (!found)
        printf("# %s (%s)\n", tn_error() ? tn_error() : "no error",
               tn_status_name(tn_error_code()));
    tn_error_clear();
    return found;
}

/* ---- tn_compile ---------------------------------------------------------- */

static void check_options(void)
{
    ok(!tn_compile(NULL, NULL) && failed(TN_ERR_ARGUMENT, "fn is NULL"),
       "compile: no function");
    ok(!tn_compile(doubled, NULL, .plans = 0) &&
           failed(TN_ERR_ARGUMENT, "plans is 0"),
       "compile: no plans");
    ok(!tn_compile(doubled, NULL, .check_every = -1) &&
           failed(TN_ERR_ARGUMENT, "check_every is -1"),
       "compile: a negative check_every");
    setenv("TENON_COMPILE", "sometimes", 1);
    ok(!tn_compile(doubled, NULL) &&
           failed(TN_ERR_ARGUMENT, "expected on, off or check"),
       "compile: an unknown TENON_COMPILE");
    unsetenv("TENON_COMPILE");
    tn_tensor *bad = tn_matmul(tn_ones(tn_dims(2, 3)), tn_ones(tn_dims(2, 3)));
    ok(!bad && !tn_compile(doubled, NULL) && tn_error() &&
           strstr(tn_error(), "matmul"),
       "compile: an error is pending, which stays");
    tn_error_clear();
    char name[] = "doubled by name";
    tn_compiled *c = tn_compile(doubled, NULL, .name = name);
    name[0] = 'X';
    ok(!tn_compiled_text(c) && failed(TN_ERR_STATE, "compiled_text"),
       "compiled_text: no program yet");
}

/* ---- tn_compiled_run ----------------------------------------------------- */

static void check_arguments(void)
{
    tn_compiled *c = tn_compile(doubled, NULL);
    tn_tensor *x = tn_ones(tn_dims(3)), *y = x;
    ok(tn_compiled_run(NULL, &x, 1, &y, 1) < 0 &&
           failed(TN_ERR_ARGUMENT, "compiled_run: compiled is NULL"),
       "run: NULL");
    ok(tn_compiled_run((tn_compiled *)(void *)x, &x, 1, &y, 1) < 0 &&
           failed(TN_ERR_ARGUMENT, "compiled_run: compiled"),
       "run: a tensor in its place");
    ok(tn_compiled_run(c, &x, -1, &y, 1) < 0 &&
           failed(TN_ERR_ARGUMENT, "in_count is -1"), "run: in_count");
    ok(tn_compiled_run(c, &x, 1, &y, -1) < 0 &&
           failed(TN_ERR_ARGUMENT, "out_count is -1"), "run: out_count");
    ok(tn_compiled_run(c, &x, 1, &y, 65) < 0 &&
           failed(TN_ERR_ARGUMENT, "out_count is 65"), "run: many outputs");
    ok(tn_compiled_run(c, NULL, 1, &y, 1) < 0 &&
           failed(TN_ERR_ARGUMENT, "in is NULL"), "run: in");
    ok(tn_compiled_run(c, &x, 1, NULL, 1) < 0 &&
           failed(TN_ERR_ARGUMENT, "out is NULL"), "run: out");
    tn_tensor *some[2] = {x, NULL};
    ok(tn_compiled_run(c, some, 2, &y, 1) < 0 &&
           failed(TN_ERR_ARGUMENT, "in[1] is NULL"), "run: in[1] is NULL");
    tn_scope *scope = tn_scope_open();
    some[1] = tn_ones(tn_dims(3));
    tn_scope_close(scope);
    ok(tn_compiled_run(c, some, 2, &y, 1) < 0 &&
           failed(TN_ERR_STATE, "in[1] was freed"), "run: in[1] was freed");
    tn_matmul(tn_ones(tn_dims(2, 3)), tn_ones(tn_dims(2, 3)));
    ok(tn_compiled_run(c, &x, 1, &y, 1) < 0 && tn_error() &&
           strstr(tn_error(), "matmul"),
       "run: an error is pending, which stays");
    tn_error_clear();
    for (int i = 0; i < 4; i++)
        tn_compiled_run(c, &x, 1, &y, 1);
    tn_compiled_counts counts = {.size = sizeof counts};
    tn_compiled_read_counts(c, &counts);
    ok(!tn_error() && counts.calls == 4 && counts.replays == 2,
       "run: wrong calls neither count nor are captured");
}

static void check_devices(void)
{
    tn_device *other = tn_device_open("reference");
    tn_error_clear();
    if (!other || other == tn_device_current()) {
        skip(1, "one device");
        return;
    }
    tn_tensor *in[2] = {tn_ones(tn_dims(2)),
                        tn_ones(tn_dims(2), .device = other)};
    tn_tensor *y;
    ok(tn_compiled_run(tn_compile(doubled, NULL), in, 2, &y, 1) < 0 && !y &&
           failed(TN_ERR_DEVICE, "in[1] is on reference"),
       "run: inputs on two devices");
}

/* ---- calls within calls -------------------------------------------------- */

static tn_status nested(tn_tensor *const *in, int in_count, tn_tensor **out,
                        int out_count, void *context)
{
    return tn_compiled_run(*(tn_compiled **)context, in, in_count, out,
                           out_count);
}

static tn_status resets(tn_tensor *const *in, int in_count, tn_tensor **out,
                        int out_count, void *context)
{
    (void)in_count, (void)out_count;
    out[0] = tn_neg(in[0]);
    return tn_compiled_reset(*(tn_compiled **)context);
}

static tn_status frees(tn_tensor *const *in, int in_count, tn_tensor **out,
                       int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_scope *scope = tn_scope_open();
    out[0] = tn_neg(in[0]);
    tn_scope_close(scope);
    return TN_OK;
}

static tn_status with_gradient(tn_tensor *const *in, int in_count,
                               tn_tensor **out, int out_count, void *context)
{
    (void)in_count, (void)out_count;
    out[0] = tn_mul(in[0], context);
    return TN_OK;
}

static tn_status silent(tn_tensor *const *in, int in_count, tn_tensor **out,
                        int out_count, void *context)
{
    (void)in, (void)in_count, (void)out, (void)out_count, (void)context;
    return TN_ERR_IO;
}

static void check_functions(void)
{
    tn_tensor *x = tn_ones(tn_dims(3)), *y = x;
    tn_compiled *inner = tn_compile(doubled, NULL);
    ok(tn_compiled_run(tn_compile(nested, &inner), &x, 1, &y, 1) < 0 && !y &&
           failed(TN_ERR_STATE, "work is being recorded"),
       "a compiled function within another");
    tn_compiled *self = NULL;
    self = tn_compile(resets, &self);
    ok(tn_compiled_run(self, &x, 1, &y, 1) < 0 && !y &&
           failed(TN_ERR_STATE, "compiled_reset: compiled is running"),
       "a function that resets itself");
    ok(tn_compiled_run(tn_compile(frees, NULL), &x, 1, &y, 1) < 0 && !y &&
           failed(TN_ERR_ARGUMENT, "out[0] of the function is not a live"),
       "an output that the function freed");
    ok(tn_compiled_run(tn_compile(silent, NULL), &x, 1, &y, 1) == TN_ERR_IO &&
           !y && failed(TN_ERR_IO, "failed without a reason"),
       "a function that fails without an error");
    tn_tensor *w = tn_requires_grad(tn_ones(tn_dims(3)));
    ok(tn_compiled_run(tn_compile(with_gradient, w), &x, 1, &y, 1) < 0 && !y &&
           failed(TN_ERR_STATE, "out[0], made by mul, requires a gradient"),
       "an output that requires a gradient");
}

/* ---- the other calls ------------------------------------------------------ */

static tn_status late(tn_tensor *const *in, int in_count, tn_tensor **out,
                      int out_count, void *context)
{
    (void)in_count, (void)out_count;
    out[0] = tn_full_like(in[0], tn_late_number(context));
    return tn_error() ? tn_error_code() : TN_OK;
}

static void check_others(void)
{
    tn_tensor *x = tn_ones(tn_dims(3)), *y = NULL;
    tn_compiled *c = tn_compile(doubled, NULL);
    ok(tn_compiled_reset(NULL) < 0 && failed(TN_ERR_ARGUMENT, "compiled_reset"),
       "reset: NULL");
    ok(tn_compiled_reset(c) >= 0 && tn_compiled_reset(c) >= 0,
       "reset: nothing to free");
    tn_compiled_counts counts = {.size = sizeof counts};
    ok(tn_compiled_read_counts(NULL, &counts) < 0 &&
           failed(TN_ERR_ARGUMENT, "compiled_read_counts: compiled is NULL"),
       "read_counts: NULL");
    ok(tn_compiled_read_counts(c, NULL) < 0 &&
           failed(TN_ERR_ARGUMENT, "counts is NULL"), "read_counts: counts");
    counts.size = 0;
    ok(tn_compiled_read_counts(c, &counts) < 0 &&
           failed(TN_ERR_ARGUMENT, "sizeof(tn_compiled_counts)"),
       "read_counts: no size");
    struct {
        tn_compiled_counts counts;
        int64_t beyond;
    } larger = {.counts = {.size = 2 * sizeof(size_t)}, .beyond = 7};
    larger.counts.replays = 5;
    ok(tn_compiled_read_counts(c, &larger.counts) >= 0 &&
           larger.counts.replays == 5,
       "read_counts: a shorter struct of an older program");
    larger.counts.size = sizeof larger;
    ok(tn_compiled_read_counts(c, &larger.counts) >= 0 && !larger.beyond,
       "read_counts: a longer struct of a newer program");
    ok(!tn_compiled_text(NULL) && failed(TN_ERR_ARGUMENT, "compiled_text"),
       "text: NULL");
    tn_mul_scalar(x, tn_late_number(NULL));
    ok(failed(TN_ERR_ARGUMENT, "late_number: x is NULL"), "late_number: NULL");
    double rate = 0.5;
    tn_tensor *half = tn_mul_scalar(x, tn_late_number(&rate));
    ok(half && tn_item(tn_select(half, 0, 0)) == 0.5,
       "late_number: the number itself outside of a capture");
    tn_compiled_run(tn_compile(late, &rate), &x, 1, &y, 1);
    ok(failed(TN_ERR_UNSUPPORTED, "late number") && !y,
       "late_number: an operator that cannot read it again");
}

int main(void)
{
    plan_later();
    tn_scope *scope = tn_scope_open();
    check_options();
    check_arguments();
    check_devices();
    check_functions();
    check_others();
    tn_scope_close(scope);
    return done_testing();
}
