/* test_agreement.c: tests cases in which results once differed from PyTorch's:
 * dtypes, edge cases and gradients, each with PyTorch 2.15's result. */
#include <tap.h>
#include <tenon/tenon.h>

static tn_tensor *whole(tn_dtype dtype, int count, const int64_t *number)
{
    return tn_to_dtype(tn_tensor_from_array(number, TN_I64, tn_dims(count)),
                       dtype);
}
#define WHOLE(dtype, ...)                                                      \
    whole(dtype, (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)),      \
          (const int64_t[]){__VA_ARGS__})

/* Checks the dtype and the elements of x. */
static void gives(tn_tensor *x, tn_dtype dtype, int count, const double *want,
                  const char *what)
{
    bool good = x && tn_tensor_dtype(x) == dtype &&
                tn_tensor_numel(x) == count;
    tn_tensor *list = good ? tn_reshape(tn_detach(x), tn_dims(-1)) : NULL;
    for (int i = 0; i < count && good; i++) {
        double got = tn_item(tn_select(list, 0, i));
        good = got == want[i] || (got != got && want[i] != want[i]);
        if (!good)
            note("element %d is %g, wanted %g", i, got, want[i]);
    }
    ok(good, "%s", what);
    if (tn_error())
        note("%s", tn_error());
    tn_error_clear();
}
#define GIVES(x, dtype, what, ...)                                             \
    gives(x, dtype, (int)(sizeof(double[]){__VA_ARGS__} / sizeof(double)),     \
          (const double[]){__VA_ARGS__}, what)

static void check_whole_numbers(void)
{
    tn_tensor *x = WHOLE(TN_I32, 3, -1, 4);
    GIVES(tn_arange(0.1, -7.9, -4.0, .dtype = TN_I64), TN_I64,
          "arange of whole numbers truncates start and step", 0, -4);
    GIVES(tn_sum(x, .dtype = TN_I32), TN_I32, "sum in a dtype asked for", 6);
    GIVES(tn_prod(x, .dtype = TN_I16), TN_I16, "prod likewise", -12);
    GIVES(tn_sum_to_size(WHOLE(TN_I32, 7), (tn_dims_list){0}), TN_I64,
          "sum_to_size of no dimensions is a sum", 7);
    tn_tensor *place[2] = {NULL};
    is_int(tn_unravel_index(WHOLE(TN_I32, 5), tn_dims(2, 3), place, 2), 2,
           "unravel_index of int32");
    GIVES(place[1], TN_I64, "its coordinates are int64", 2);
    tn_tensor *flag = tn_to_dtype(WHOLE(TN_I64, 1, 0, 1), TN_BOOL);
    GIVES(tn_isclose(flag, tn_logical_not(flag)), TN_BOOL, "isclose of bool", 0,
          0, 0);
    GIVES(tn_max_pool2d(tn_reshape(WHOLE(TN_I64, 1, 5, -3, 2, 9, 4),
                                   tn_dims(1, 1, 2, 3)), tn_dims(2),
                        .stride = 1),
          TN_I64, "max_pool2d of whole numbers", 9, 9);
    gives(tn_local_response_norm(tn_zeros(tn_dims(0, 1, 2), .dtype = TN_I64), 1),
          TN_I64, 0, NULL, "local_response_norm of nothing keeps its dtype");
}

static void check_halves(void)
{
    tn_tensor *x = tn_full(tn_dims(1), 1.5, .dtype = TN_F16);
    GIVES(tn_ldexp(x, WHOLE(TN_I32, 2)), TN_F16, "ldexp keeps input's dtype",
          6);
    GIVES(tn_ldexp(WHOLE(TN_I64, 3), WHOLE(TN_I64, 2)), TN_F32,
          "of whole numbers it is float32", 12);
    double nan = 0.0 / 0.0;
    GIVES(tn_std(tn_zeros(tn_dims(0, 5), .dtype = TN_F16)), TN_F16,
          "the deviation of nothing", nan);
}

static void check_linalg(void)
{
    tn_tensor *none = tn_zeros(tn_dims(0, 5));
    GIVES(tn_linalg_matrix_norm(none, .ord = 1), TN_F32, "norm 1 of no rows", 0);
    GIVES(tn_linalg_norm(tn_zeros(tn_dims(0, 0)), .ord = 2), TN_F32,
          "norm 2 of nothing", 0);
    tn_tensor *a = tn_randn(tn_dims(4, 2)), *b = tn_randn(tn_dims(4, 3));
    tn_tensor *far, *rank, *values;
    tn_linalg_lstsq(a, b, &far, &rank, &values, .driver = "gelsy");
    is_int(tn_tensor_numel(far), 0, "lstsq by gelsy gives no residuals");
    tn_linalg_lstsq(a, b, &far, &rank, &values, .driver = "gels");
    is_int(tn_tensor_numel(far), 3, "with the driver gels it does");
}

static void check_median(void)
{
    tn_tensor *x = tn_to_dtype(WHOLE(TN_I64, 1, 3, 2, 2, 5), TN_F32);
    tn_requires_grad(x);
    tn_backward(tn_median(x));
    GIVES(tn_tensor_grad(x), TN_F32, "equals share the median's gradient", 0, 0,
          0.5, 0.5, 0);
}

/* Tests a window so wide that visiting each of its elements would take far too
 * long. */
static void check_wide_window(void)
{
    tn_tensor *x = tn_reshape(tn_arange(0, 6, 1, .dtype = TN_F32),
                              tn_dims(1, 1, 2, 3));
    int64_t size = INT64_C(0x7fffffff);
    GIVES(tn_max_pool2d(x, tn_dims(size, size), .ceil_mode = true), TN_F32,
          "a window far beyond the image, of max_pool2d", 5);
    GIVES(tn_avg_pool2d(x, tn_dims(size, size), .ceil_mode = true), TN_F32,
          "and of avg_pool2d", 2.5);
}

int main(void)
{
    check_whole_numbers();
    check_halves();
    check_linalg();
    check_median();
    check_wide_window();
    return done_testing();
}
