/* Tests the forms of calls that the macros allow: with options, without
 * options, and with numbers. test_options_cxx.cc has the same calls in C++. */
#include <string.h>
#include <tap.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>

double test_options_cxx(tn_tensor *x);

int main(void)
{
    plan_later();
    tn_device_set(tn_device_open("reference"));
    const float data[] = {1, 2, 3, 4, 5, 6};
    tn_tensor *x = tn_tensor_from_array(data, TN_F32, tn_dims(2, 3));
    if (!x)
        bail_out("%s", tn_error());

    ok(tn_item(tn_sum(x)) == 21, "no option");
    is_int(tn_tensor_ndim(tn_sum(x, .dim = 0, .keepdim = true)), 2,
           "two options");
    is_int(tn_tensor_ndim(tn_sum(x, .keepdim = true, .dims = tn_dims(0, 1))), 2,
           "in any order, a list among them");
    float f = 2.5f;
    is_int(tn_tensor_dtype(tn_add_scalar(tn_arange(0, 2, 1), f)), TN_F32,
           "a float is a fraction");
    is_int(tn_tensor_dtype(tn_add_scalar(tn_arange(0, 2, 1), 'a')), TN_I64,
           "a char is whole");
    is_int(tn_tensor_dtype(tn_full(tn_dims(1), (bool)true)), TN_BOOL,
           "a bool is a bool");
    ok(tn_item(tn_sum(tn_add(x, x, .alpha = 2))) == 63, "alpha");
    ok(tn_item(tn_sum(tn_add(x, x, .alpha = 0))) == 21, "alpha 0 is 0");

    /* For beta = 0, a gradient that contains a division by beta must not be
     * used. */
    tn_tensor *steps = tn_requires_grad(tn_arange(-2.0, 2.0, 2.0)), *slope = NULL;
    tn_tensor *loss = tn_smooth_l1_loss(steps, tn_zeros_like(steps),
                                        .reduction = "sum", .beta = 0);
    tn_grad(loss, &steps, 1, &slope);
    ok(tn_item(loss) == 2 && tn_item(tn_sum(slope)) == -1 &&
           tn_item(tn_sum(tn_abs(slope))) == 1,
       "beta 0: smooth_l1_loss is l1_loss, also at 0");

    ok(!tn_smooth_l1_loss(steps, steps, .beta = -1) && tn_error() &&
           strstr(tn_error(), "beta is -1"),
       "a beta below 0 is refused");
    tn_error_clear();
    ok(!tn_huber_loss(steps, steps, .delta = -1) && tn_error() &&
           strstr(tn_error(), "delta is -1"),
       "so is a delta");
    tn_error_clear();

    /* The options of a program compiled when sum had only its first option. */
    struct {
        const char *given;
        size_t size;
        int64_t dim;
    } old = {"*", sizeof old, 0};
    tn_tensor *sums = tn_sum_with(x, (const tn_sum_options *)(void *)&old);
    is_int(tn_tensor_ndim(sums), 1, "options of an older, shorter kind");
    ok(tn_item(tn_sum_with(x, NULL)) == 21, "no struct at all");

    tn_tensor *indices = NULL;
    tn_tensor *values = tn_max_dim(x, 1, &indices, .keepdim = true);
    ok(tn_tensor_ndim(values) == 2 && tn_item_int(tn_sum(indices)) == 4,
       "a second output");
    ok(tn_max_dim(x, 1, NULL) != NULL, "that is not wanted");

    ok(test_options_cxx(x) == 21 + 63 + 2, "the same from C++");
    ok(tn_error() == NULL, "and no error");
    return done_testing();
}
