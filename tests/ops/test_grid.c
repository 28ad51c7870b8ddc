/* Tests sampling at positions (grid_sample) and indexing by several indices,
 * compared with PyTorch's results, and errors. */
#include <math.h>
#include <tap.h>
#include <tenon/tenon.h>

static void refused(const void *got, tn_status code, const char *want)
{
    bool told = got == NULL && tn_error_code() == code;
    is_str(told ? tn_error() : got ? "(a result)" : tn_error(), want, "%s",
           want);
    tn_error_clear();
}

/* Checks the shape and the elements of x: within 1e-6, NaN equal to NaN. */
static void gives(tn_tensor *x, tn_dims_list shape, const double *want,
                  const char *what)
{
    bool good = x && tn_tensor_ndim(x) == shape.count;
    int64_t count = 1;
    for (int d = 0; d < shape.count && good; d++) {
        good = tn_tensor_shape(x)[d] == shape.dim[d];
        count *= shape.dim[d];
    }
    tn_tensor *list = good ? tn_reshape(x, tn_dims(-1)) : NULL;
    for (int64_t i = 0; i < count && good; i++) {
        double got = tn_item(tn_select(list, 0, i));
        good = isnan(want[i]) ? isnan(got)
                              : got == want[i] ||
                                    fabs(got - want[i]) <=
                                        1e-6 * fabs(want[i]) + 1e-6;
        if (!good)
            note("element %d is %g, wanted %g", (int)i, got, want[i]);
    }
    ok(good, "%s", what);
    if (!good && tn_error())
        note("%s", tn_error());
    tn_error_clear();
}
#define NUMBERS(...) (const double[]){__VA_ARGS__}

static tn_tensor *tensor(const double *number, tn_dims_list shape)
{
    return tn_to_dtype(tn_tensor_from_array(number, TN_F64, shape), TN_F32);
}

static void check_affine_grid(void)
{
    tn_tensor *theta = tensor(NUMBERS(1, 0.5, -0.25, 0.25, -1, 2),
                              tn_dims(1, 2, 3));
    gives(tn_affine_grid(theta, tn_dims(1, 1, 2, 3)), tn_dims(1, 2, 3, 2),
          NUMBERS(-1.16666675, 2.33333325, -0.5, 2.5, 0.16666669, 2.66666675,
                  -0.66666669, 1.33333325, 0, 1.5, 0.66666669, 1.66666675),
          "affine_grid of an image");
    gives(tn_affine_grid(theta, tn_dims(1, 1, 2, 3), .align_corners = true),
          tn_dims(1, 2, 3, 2),
          NUMBERS(-1.75, 2.75, -0.75, 3, 0.25, 3.25, -0.75, 0.75, 0.25, 1, 1.25,
                  1.25),
          "affine_grid with align_corners");
    tn_tensor *solid = tn_reshape(tn_arange(0, 12, 1, .dtype = TN_F32),
                                  tn_dims(1, 3, 4));
    gives(tn_affine_grid(solid, tn_dims(1, 1, 2, 1, 3)),
          tn_dims(1, 2, 1, 3, 3),
          NUMBERS(2, 1.333333, 0.666666, 2, 4, 6, 2, 6.6666669, 11.333333, 4,
                  7.333333, 10.666666, 4, 10, 16, 4, 12.666667, 21.333334),
          "affine_grid of a volume");
    refused(tn_affine_grid(theta, tn_dims(2, 1, 2, 3)), TN_ERR_SHAPE,
            "affine_grid: theta (1, 2, 3) of float32 for size (2, 1, 2, 3); "
            "expected a floating-point (N, 2, 3) for (N, C, H, W), or (N, 3, "
            "4) for (N, C, D, H, W)");
}

static void check_grid_sample(void)
{
    tn_tensor *x = tensor(NUMBERS(INFINITY, 1, 2, 3, 4, 5),
                          tn_dims(1, 1, 2, 3));
    tn_tensor *grid = tensor(NUMBERS(3, 0, 0, 0, 0.9, 0.9),
                             tn_dims(1, 1, 3, 2));
    gives(tn_grid_sample(x, grid), tn_dims(1, 1, 1, 3), NUMBERS(0, 2.5, 1.95),
          "zeros outside: what is not read does not count");
    gives(tn_grid_sample(x, grid, .padding_mode = "border"),
          tn_dims(1, 1, 1, 3), NUMBERS(3.5, 2.5, 5), "the border outside");
    gives(tn_grid_sample(x, tensor(NUMBERS(NAN, NAN), tn_dims(1, 1, 1, 2)),
                         .mode = "nearest", .padding_mode = "border"),
          tn_dims(1, 1, 1, 1), NUMBERS(INFINITY), "NaN is the first border");
    gives(tn_grid_sample(tn_ones(tn_dims(1, 2, 3, 3)),
                         tn_zeros(tn_dims(1, 0, 4, 2))),
          tn_dims(1, 2, 0, 4), NULL, "no places");
    refused(tn_grid_sample(x, grid, .mode = "linear"), TN_ERR_ARGUMENT,
            "grid_sample: mode \"linear\" is none of \"bilinear\", \"nearest\" "
            "and \"bicubic\"");
    refused(tn_grid_sample(x, grid, .padding_mode = "none"), TN_ERR_ARGUMENT,
            "grid_sample: padding_mode \"none\" is none of \"zeros\", "
            "\"border\" and \"reflection\"");
    refused(tn_grid_sample(x, tn_ones(tn_dims(1, 1, 3, 3))), TN_ERR_SHAPE,
            "grid_sample: input (1, 1, 2, 3) and grid (1, 1, 3, 3); expected "
            "(N, C, H, W) and (N, h, w, 2), or (N, C, D, H, W) and (N, d, h, "
            "w, 3), sizes of input above 0");
    refused(tn_grid_sampler_3d(x, grid, 0, 0, false), TN_ERR_SHAPE,
            "grid_sampler_3d: input (1, 1, 2, 3) and grid (1, 1, 3, 2); "
            "expected (N, C, D, H, W) and (N, d, h, w, 3), sizes of input "
            "above 0");
    refused(tn_grid_sampler(x, grid, 3, 0, false), TN_ERR_ARGUMENT,
            "grid_sampler: interpolation_mode is 3 and padding_mode 0; "
            "expected 0, 1 or 2 for each");
    refused(tn_grid_sample(x, tn_to_dtype(grid, TN_F64)), TN_ERR_DTYPE,
            "grid_sample: dtypes differ: input is float32, grid is float64; "
            "convert one with tn_to_dtype");
}

static void check_powers(void)
{
    tn_tensor *x = tensor(NUMBERS(1, -2, 3, 0.5, -1, 4, 2, -3),
                          tn_dims(1, 1, 8));
    gives(tn_lp_pool1d(x, 2, tn_dims(3), .stride = 2),
          tn_dims(1, 1, 3), NUMBERS(3.7416575, 3.2015622, 4.5825758),
          "lp_pool1d");
    gives(tn_lp_pool1d(x, 3, tn_dims(3), .ceil_mode = true), tn_dims(1, 1, 3),
          NUMBERS(2.7144177, 3.9816871, NAN), "lp_pool1d, a part of a window");
    gives(tn_lp_pool2d(tn_abs(tn_reshape(x, tn_dims(1, 1, 2, 4))), 3,
                       tn_dims(2, 3), .stride = 1),
          tn_dims(1, 1, 1, 2), NUMBERS(4.7768559, 5.1188207), "lp_pool2d");
    gives(tn_lp_pool3d(tn_reshape(x, tn_dims(1, 1, 2, 2, 2)), 1, tn_dims(2)),
          tn_dims(1, 1, 1, 1, 1), NUMBERS(4.5), "lp_pool3d");
    refused(tn_lp_pool1d(x, 0, tn_dims(3)), TN_ERR_ARGUMENT,
            "lp_pool1d: norm_type is 0; expected any other number");
    tn_tensor *v = tensor(NUMBERS(1, 2, 3, 4, 5, 6), tn_dims(2, 3));
    gives(tn_weight_norm(v, tensor(NUMBERS(2, 3), tn_dims(2, 1))),
          tn_dims(2, 3), NUMBERS(0.53452247, 1.0690449, 1.6035674, 1.3675269,
                                 1.7094086, 2.0512903), "weight_norm of rows");
    gives(tn_weight_norm(v, tensor(NUMBERS(2, 1, 1), tn_dims(1, 3)), .dim = 1),
          tn_dims(2, 3), NUMBERS(0.48507127, 0.37139067, 0.44721359, 1.9402851,
                                 0.92847669, 0.89442718),
          "weight_norm of columns");
}

static tn_tensor *whole(const int64_t *number, tn_dims_list shape)
{
    return tn_tensor_from_array(number, TN_I64, shape);
}
#define WHOLE(...) (const int64_t[]){__VA_ARGS__}

static void check_index(void)
{
    tn_tensor *x = tn_reshape(tn_arange(0, 24, 1, .dtype = TN_F32),
                              tn_dims(2, 3, 4));
    tn_tensor *i = whole(WHOLE(1, -2), tn_dims(2));
    tn_tensor *j = whole(WHOLE(0, 3, 2), tn_dims(3, 1));
    tn_tensor *mask = tn_gt_scalar(tn_select(x, 0, 0), 8.5);
    gives(tn_index(x, &i, 1), tn_dims(2, 3, 4),
          NUMBERS(12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4,
                  5, 6, 7, 8, 9, 10, 11), "x[i]");
    tn_tensor *both[] = {i, j};
    gives(tn_index(x, both, 2, .dims = tn_dims(0, 2)), tn_dims(3, 2, 3),
          NUMBERS(12, 16, 20, 0, 4, 8, 15, 19, 23, 3, 7, 11, 14, 18, 22, 2, 6,
                  10), "x[i, :, j]: what is indexed comes first");
    gives(tn_index(x, both, 2, .dims = tn_dims(1, 2)), tn_dims(2, 3, 2),
          NUMBERS(4, 4, 7, 7, 6, 6, 16, 16, 19, 19, 18, 18),
          "x[:, i, j]: neighbours stay where they were");
    gives(tn_index(x, &mask, 1, .dims = tn_dims(1)), tn_dims(2, 3),
          NUMBERS(9, 10, 11, 21, 22, 23), "x[:, mask]");
    refused(tn_index(x, both, 2, .dims = tn_dims(2, 0)), TN_ERR_ARGUMENT,
            "index: indices[1] (3, 1) of int64 cannot index dimension 0 of "
            "input, which has 3; expected ascending dimensions, where a bool "
            "tensor indexes as many as it has");
    refused(tn_index(x, both, 2, .dims = tn_dims(1)), TN_ERR_ARGUMENT,
            "index: dims has 1 numbers and indices 2 tensors; expected one "
            "number for each tensor");
    refused(tn_index(x, &j, 1), TN_ERR_INDEX,
            "index: indices[0] 3 at position (1, 0) is outside [-2, 2)");
}

int main(void)
{
    plan_later();
    check_affine_grid();
    check_grid_sample();
    check_powers();
    check_index();
    return done_testing();
}
