/* test_division.c: tests integer division by 0, and probabilities outside [0,
 * 1]. A wrong scalar is rejected by the call. A wrong element of a tensor is a
 * fault of the kernel, which an asynchronous device reports at the next
 * wait. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tap.h>
#include <tenon/tenon.h>

static void refused(const tn_tensor *got, tn_status code, const char *want)
{
    bool told = got == NULL && tn_error_code() == code;
    is_str(told ? tn_error() : got ? "(a result)" : tn_error(), want, "%s",
           want);
    tn_error_clear();
}

/* Checks for the error "NAME: division by zero: other" with this position, from
 * the call or from the wait. */
static void faulty_at(tn_tensor *got, const char *name, const char *where)
{
    char want[96];
    snprintf(want, sizeof want, "%s: division by zero: other is 0 %s", name,
             where);
    if (got)
        tn_device_synchronize(tn_tensor_device(got));
    ok(tn_error() && tn_error_code() == TN_ERR_ARGUMENT &&
           strncmp(tn_error(), want, strlen(want)) == 0,
       "%s: %s", name, tn_error() ? tn_error() : "no error");
    tn_error_clear();
}

static void faulty(tn_tensor *got, const char *name)
{
    faulty_at(got, name, "at position ");
}

static tn_tensor *whole(tn_dtype dtype, int count, const int64_t *number)
{
    return tn_to_dtype(tn_tensor_from_array(number, TN_I64, tn_dims(count)),
                       dtype);
}
#define WHOLE(dtype, ...)                                                      \
    whole(dtype, (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)),      \
          (const int64_t[]){__VA_ARGS__})

static void gives(tn_tensor *x, const int64_t want[4], const char *what)
{
    int64_t got[4] = {0};
    bool good = x && tn_tensor_numel(x) == 4 &&
                tn_tensor_to_array(tn_to_dtype(x, TN_I64), got, sizeof got) >= 0;
    ok(good && memcmp(got, want, sizeof got) == 0, "%s", what);
    tn_error_clear();
}

static void check_dtype(tn_dtype dtype)
{
    tn_tensor *x = WHOLE(dtype, 7, 9, 100, 5), *y = WHOLE(dtype, 2, 3, 7, 5);
    note("%s", tn_dtype_name(dtype));
    gives(tn_floor_divide(x, y), (int64_t[]){3, 3, 14, 1}, "floor_divide");
    gives(tn_remainder(x, y), (int64_t[]){1, 0, 2, 0}, "remainder");
    gives(tn_fmod(x, y), (int64_t[]){1, 0, 2, 0}, "fmod");
    gives(tn_div(x, y, .rounding_mode = "trunc"), (int64_t[]){3, 3, 14, 1},
          "div, trunc");
    tn_tensor *z = WHOLE(dtype, 2, 3, 0, 5);
    faulty(tn_floor_divide(x, z), "floor_divide");
    faulty(tn_remainder(x, z), "remainder");
    faulty(tn_fmod(x, z), "fmod");
    faulty(tn_div(x, z, .rounding_mode = "trunc"), "div");
    faulty(tn_div(x, z, .rounding_mode = "floor"), "div");
    refused(tn_remainder_scalar(x, 0), TN_ERR_ARGUMENT,
            "remainder: division by zero: other is 0");
    refused(tn_div_scalar(x, 0, .rounding_mode = "floor"), TN_ERR_ARGUMENT,
            "div: division by zero: other is 0");
    refused(tn_fmod_scalar_(x, 0), TN_ERR_ARGUMENT, "fmod_: division by zero: other is 0");
    gives(x, (int64_t[]){7, 9, 100, 5}, "what was refused wrote nothing");
    gives(tn_floor_divide_(x, y), (int64_t[]){3, 3, 14, 1}, "in place");
    gives(tn_remainder(y, tn_clone(tn_select(y, 0, 2))),
          (int64_t[]){2, 3, 0, 5}, "by a tensor of one element");
    faulty(tn_remainder(y, tn_select(z, 0, 2)), "remainder");
}

static void check_position(void)
{
    tn_tensor *x = tn_ones(tn_dims(3, 4), .dtype = TN_I64);
    tn_tensor *y = tn_reshape(tn_arange(3, -1, -1, .dtype = TN_I64),
                              tn_dims(4));
    faulty_at(tn_remainder(x, y), "remainder", "at position (0, 3)");
    tn_tensor *none = tn_ones(tn_dims(0), .dtype = TN_I64);
    is_int(tn_tensor_numel(tn_floor_divide_scalar(none, 0)), 0,
           "of no elements there is nothing to divide");
}

/* Checks that x is rejected, by the call or at the wait. (Divisions of floats
 * give infinities and NaN, also if one operand is an integer.) */
static void no_fraction(tn_tensor *x, const char *words)
{
    if (x)
        tn_device_synchronize(tn_tensor_device(x));
    ok(tn_error_code() == TN_ERR_ARGUMENT &&
           strncmp(tn_error(), words, strlen(words)) == 0,
       "%s", words);
    if (tn_error_code() != TN_ERR_ARGUMENT)
        note("%s", tn_error() ? tn_error() : "no error");
    tn_error_clear();
}

static void check_fractions(tn_dtype dtype)
{
    static const double bad[] = {1.25, -0.25, NAN};
    tn_tensor *p = tn_full(tn_dims(2), 0.5, .dtype = dtype);
    for (int i = 0; i < 3; i++) {
        double value[] = {0, bad[i]};
        tn_tensor *x = tn_to_dtype(
            tn_tensor_from_array(value, TN_F64, tn_dims(2)), dtype);
        no_fraction(tn_bernoulli(x),
                    "bernoulli: input is outside [0, 1] at position (1,)");
        no_fraction(tn_binary_cross_entropy(x, p, NULL),
                    "binary_cross_entropy: input is outside [0, 1] at "
                    "position (1,)");
        no_fraction(tn_binary_cross_entropy(p, x, NULL),
                    "binary_cross_entropy: target is outside [0, 1] at "
                    "position (1,)");
    }
    double whole[] = {0, 1};
    tn_tensor *x = tn_to_dtype(
        tn_tensor_from_array(whole, TN_F64, tn_dims(2)), dtype);
    ok(tn_item_int(tn_all(tn_eq(tn_bernoulli(x), x))) &&
           tn_item(tn_binary_cross_entropy(x, x, NULL)) == 0,
       "0 and 1 are probabilities");
    tn_error_clear();
}

static void check_floats(void)
{
    tn_tensor *x = tn_full(tn_dims(2), 3.0), *zero = tn_zeros(tn_dims(2));
    tn_tensor *whole_zero = tn_zeros(tn_dims(2), .dtype = TN_I64);
    ok(tn_item_int(tn_all(tn_isinf(tn_floor_divide(x, zero)))), "3.0 // 0.0");
    ok(tn_item_int(tn_all(tn_isnan(tn_remainder(x, whole_zero)))), "3.0 %% 0");
    ok(tn_item_int(tn_all(tn_isnan(tn_fmod(whole_zero, zero)))), "0 fmod 0.0");
    ok(tn_item_int(tn_all(tn_isinf(tn_div(tn_to_dtype(x, TN_I64),
                                          whole_zero)))), "3 / 0 is infinite");
    ok(!tn_error(), "none of them is an error");
}

int main(void)
{
    static const tn_dtype dtypes[] = {TN_I64, TN_I32, TN_I16, TN_I8, TN_U8};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        check_dtype(dtypes[i]);
    static const tn_dtype floats[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        check_fractions(floats[i]);
    check_position();
    check_floats();
    return done_testing();
}
