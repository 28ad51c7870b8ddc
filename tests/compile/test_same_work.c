/* Compiled functions do the work of eager calls: what recording changed once, each
 * with a function that shows it. (tests/golden/run -c compares all samples.) */
#include <tenon/tenon.h>

#include "../same_bits.h"
#include "../tap.h"

/* Calls the function eagerly and compiled, several times, and returns whether all
 * results have equal bits. The inputs are random, of these shapes. */
static bool is_same(tn_compile_fn fn, int in_count, const tn_dims_list *shape)
{
    tn_compiled *c = tn_compile(fn, NULL);
    bool same = c != NULL;
    for (int round = 0; round < 5 && same && !tn_error(); round++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *in[4], *want = NULL, *got = NULL;
        for (int i = 0; i < in_count; i++)
            in[i] = tn_randn(shape[i]);
        fn(in, in_count, &want, 1, NULL);
        tn_compiled_run(c, in, in_count, &got, 1);
        same = !tn_error() && same_bits(want, got);
        tn_scope_close(scope);
    }
    if (tn_error())
        printf("# %s\n", tn_error());
    tn_compiled_counts counts = {.size = sizeof counts};
    tn_compiled_read_counts(c, &counts);
    if (!same || counts.replays != 3)
        printf("# %lld calls, %lld replays\n", (long long)counts.calls,
               (long long)counts.replays);
    same = same && !tn_error() && counts.replays == 3;
    tn_error_clear();
    return same;
}

/* The gradient of a scalar that is repeated 0 times is the sum of nothing. */
static tn_status empty_sum(tn_tensor *const *in, int in_count, tn_tensor **out,
                           int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *x = tn_requires_grad(tn_detach(in[0]));
    tn_backward(tn_sum(tn_repeat(x, tn_dims(0, 2))));
    out[0] = tn_add(tn_tensor_grad(x), in[0]);
    return tn_error() ? tn_error_code() : TN_OK;
}

/* Launches without elements, before and after others. */
static tn_status no_elements(tn_tensor *const *in, int in_count,
                             tn_tensor **out, int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *none = tn_exp(tn_neg(tn_narrow(in[0], 0, 0, 0)));
    tn_tensor *sums = tn_sum(tn_mul(none, none), .dim = 0);
    out[0] = tn_tanh(tn_add(sums, tn_abs(in[0])));
    return TN_OK;
}

/* The sum of gradients keeps -0 where one of them has no elements. */
static tn_status signed_zero(tn_tensor *const *in, int in_count,
                             tn_tensor **out, int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *x = tn_requires_grad(tn_detach(in[0]));
    tn_tensor *y = tn_mul_scalar(x, 2.0);
    tn_tensor *part = tn_sum(tn_narrow(y, 0, 0, 2));
    tn_tensor *more = tn_sum(tn_narrow(y, 0, 1, 2));
    tn_tensor *all = tn_sum(tn_mul(y, tn_full(tn_dims(4), -0.0)));
    tn_backward(tn_add(tn_add(part, more), all));
    out[0] = tn_tensor_grad(x);
    return tn_error() ? tn_error_code() : TN_OK;
}

/* Operators that compute tables of indices and weights on the host. */
static tn_status tables(tn_tensor *const *in, int in_count, tn_tensor **out,
                        int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *pooled = tn_adaptive_avg_pool2d(in[0], tn_dims(3, 2));
    tn_tensor *larger = tn_upsample_bilinear(pooled, tn_dims(5, 7));
    out[0] = tn_fft_rfft(tn_mean(larger, .dims = tn_dims(0, 1)));
    return TN_OK;
}

/* The kernel of the maxima computes their places for each element of a window. */
static tn_status places(tn_tensor *const *in, int in_count, tn_tensor **out,
                        int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    const tn_dims_list size = tn_dims(2);
    const tn_value value[] = {{.kind = TN_VALUE_TENSOR, .of.tensor = in[0]},
                              {.kind = TN_VALUE_DIMS, .of.dims = &size},
                              {.kind = TN_VALUE_BOOL, .of.i = true}};
    tn_tensor *found[2] = {NULL};
    tn_op_call(tn_op_find("adaptive_max_pool1d"), value, 3, found, 2);
    out[0] = tn_mul_scalar(found[1], 7);
    return tn_error() ? tn_error_code() : TN_OK;
}

static void check_tables(void)
{
    const tn_dims_list image = tn_dims(2, 3, 7, 5), line = tn_dims(2, 3, 7);
    ok(is_same(places, 1, &line), "places of maxima are multiplied");
    ok(is_same(tables, 1, &image),
       "tables of pooling, resampling and transforms are constants");
}

/* The scale determines the table, but neither a shape nor an argument of a
 * launch. */
static tn_status resample(tn_tensor *const *in, int in_count, tn_tensor **out,
                          int out_count, void *context)
{
    (void)in_count, (void)out_count;
    out[0] = tn_interpolate(in[0], TN_SCALAR,
                            .scale_factor = *(double *)context,
                            .mode = "bilinear");
    return TN_OK;
}

static void check_other_table(void)
{
    tn_scope *scope = tn_scope_open();
    double scale = 2.1;
    tn_tensor *x = tn_randn(tn_dims(1, 1, 4, 4)), *y = NULL, *want = NULL;
    tn_compiled *c = tn_compile(resample, &scale);
    tn_compiled_run(c, &x, 1, &y, 1);
    scale = 2.2; /* the same sizes, other weights */
    tn_compiled_run(c, &x, 1, &y, 1);
    tn_compiled_counts counts = {.size = sizeof counts};
    tn_compiled_read_counts(c, &counts);
    is_int(counts.plans, 0, "captures with other tables are not equal");
    for (int i = 0; i < 3; i++)
        tn_compiled_run(c, &x, 1, &y, 1);
    resample(&x, 1, &want, 1, &scale);
    if (tn_error())
        printf("# %s\n", tn_error());
    ok(!tn_error() && same_bits(want, y), "the program has the last table");
    tn_error_clear();
    tn_scope_close(scope);
}

int main(void)
{
    plan_later();
    tn_scope *scope = tn_scope_open();
    const tn_dims_list scalar = TN_SCALAR, rows = tn_dims(3, 4),
                       four = tn_dims(4);
    ok(is_same(empty_sum, 1, &scalar),
       "a reduction writes its result for an empty row, too");
    ok(is_same(no_elements, 1, &rows),
       "launches without elements are not fused");
    ok(is_same(signed_zero, 1, &four),
       "gradients are summed in place as in eager calls");
    check_tables();
    check_other_table();
    tn_scope_close(scope);
    return done_testing();
}
