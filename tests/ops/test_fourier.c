/* Tests Fourier transforms of real tensors: the errors of all lengths against
 * sums in long double, exact small results, and messages. */
#include <math.h>
#include <stdlib.h>
#include <tap.h>
#include <tenon/ops.h>

static void refused(const void *got, tn_status code, const char *want)
{
    bool told = got == NULL && tn_error_code() == code;
    is_str(told ? tn_error() : got ? "(a result)" : tn_error(), want, "%s",
           want);
    tn_error_clear();
}

/* approximate number of frequencies of each transform that are compared */
enum { COMPARED = 64 };

/* Compares the frequencies with sums in long double, and x with the inverse of
 * its transform. The unit of the errors is the rounding error of the root mean
 * square, times 1 + log2(n), because errors grow with the logarithm of n. The
 * largest errors on the cpu are 2.5 and 3.3, for n = 1021, which needs three
 * transforms (Bluestein). The bound of 6 allows for devices that sum in another
 * order. */
static void check_length(int n, tn_dtype dtype)
{
    const double unit = (dtype == TN_F64 ? 0x1p-53 : 0x1p-24) *
                        (1 + log2((double)n));
    const int bins = n / 2 + 1, step = bins / COMPARED + 1;
    double *x = malloc((size_t)n * sizeof *x);
    double *again = malloc((size_t)n * sizeof *again);
    double *got = malloc((size_t)bins * 2 * sizeof *got);
    TN_SCOPE(scope) {
        for (int j = 0; j < n; j++)
            x[j] = (float)(sin(0.7 * j * j + j) + cos(3.1 * j));
        tn_tensor *in = tn_to_dtype(
            tn_tensor_from_array(x, TN_F64, tn_dims(n)), dtype);
        tn_tensor *out = tn_fft_rfft(in);
        tn_tensor *back = tn_to_dtype(tn_fft_irfft(out, .n = n), TN_F64);
        out = tn_to_dtype(out, TN_F64);
        bool done = tn_tensor_to_array(out, got, (size_t)bins * 16) >= 0 &&
                    tn_tensor_to_array(back, again, (size_t)n * 8) >= 0;
        double worst = 0, square = 0, worst_back = 0, squares = 0;
        int count = 0;
        for (int k = 0; done && k < bins; k += step, count++) {
            long double re = 0, im = 0;
            for (int j = 0; j < n; j++) {
                long double angle = 2 * acosl(-1) *
                                    (long double)((long long)j * k % n) / n;
                re += x[j] * cosl(angle);
                im -= x[j] * sinl(angle);
            }
            worst = fmax(worst, hypot(got[2 * k] - (double)re,
                                      got[2 * k + 1] - (double)im));
            square += (double)(re * re + im * im);
        }
        for (int j = 0; done && j < n; j++) {
            worst_back = fmax(worst_back, fabs(again[j] - x[j]));
            squares += x[j] * x[j];
        }
        worst /= sqrt(square / count) * unit;
        worst_back /= sqrt(squares / n) * unit;
        ok(done && worst <= 6 && worst_back <= 6,
           "%s, n = %d: errors of %.1f, and of %.1f forth and back",
           tn_dtype_name(dtype), n, worst, worst_back);
    }
    free(x);
    free(again);
    free(got);
}

static const int lengths[] = {100, 127, 128, 131, 262, 360, 400, 480, 512,
                              1000, 1021, 1024, 4096, 65536};

static void check_exact(void)
{
    const float four[] = {1, 2, 3, 4}, want[] = {10, 0, -2, 2, -2, 0};
    tn_tensor *x = tn_tensor_from_array(four, TN_F32, tn_dims(4));
    tn_tensor *y = tn_fft_rfft(x);
    ok(tn_equal(y, tn_tensor_from_array(want, TN_F32, tn_dims(3, 2))),
       "small whole numbers have exact transforms");
    ok(tn_equal(tn_fft_irfft(y), x), "and come back");
    ok(tn_equal(tn_fft_rfft(tn_to_dtype(x, TN_I64)), y),
       "whole numbers become float32");
    ok(tn_equal(tn_fft_rfft(tn_to_dtype(x, TN_BF16)),
                tn_to_dtype(y, TN_BF16)),
       "half types are computed in float32 and rounded once");
    tn_tensor *none = tn_fft_rfft(tn_zeros(tn_dims(0, 3, 8)), .dim = 1);
    ok(none && tn_tensor_ndim(none) == 4 && tn_tensor_shape(none)[0] == 0 &&
           tn_tensor_shape(none)[1] == 2 && tn_tensor_shape(none)[2] == 8,
       "no rows give no rows, of 2 frequencies");
    tn_tensor *wide = tn_stft(tn_ones(tn_dims(2, 32)), 8, .hop_length = 4);
    ok(wide && tn_tensor_shape(wide)[0] == 2 && tn_tensor_shape(wide)[1] == 5 &&
           tn_tensor_shape(wide)[2] == 9 && tn_tensor_shape(wide)[3] == 2,
       "stft gives (B, frequencies, windows, 2)");
    ok(tn_equal(tn_stft(tn_ones(tn_dims(9)), 12, .win_length = 11,
                        .window = tn_ones(tn_dims(11))),
                tn_stft(tn_ones(tn_dims(9)), 12, .win_length = 11)),
       "a window that is left out is ones, though longer than the input");
}

static void check_refused(void)
{
    tn_tensor *x = tn_ones(tn_dims(2, 3)), *none = tn_ones(tn_dims(2, 0));
    refused(tn_fft_rfft(tn_scalar_tensor(1)), TN_ERR_SHAPE,
            "fft_rfft: input has shape (); expected at least one dimension");
    refused(tn_fft_rfft(none), TN_ERR_SHAPE,
            "fft_rfft: input has 0 elements along dim 1; pass n, the number of "
            "real elements");
    refused(tn_fft_irfft(x), TN_ERR_SHAPE,
            "fft_irfft: input has shape (2, 3); expected (..., size, 2), pairs "
            "of real and imaginary parts");
    refused(tn_fft_irfft(tn_ones(tn_dims(1, 2))), TN_ERR_SHAPE,
            "fft_irfft: input has 1 elements along dim 0; pass n, the number "
            "of real elements");
    refused(tn_stft(x, 3), TN_ERR_ARGUMENT,
            "stft: the default of hop_length, n_fft 3 // 4, is 0; "
            "pass hop_length");
    refused(tn_stft(x, 8), TN_ERR_SHAPE,
            "stft: input has shape (2, 3); expected (L) or (B, L) with L of at "
            "least 5");
    refused(tn_stft(tn_ones(tn_dims(9)), 8, .window = x), TN_ERR_SHAPE,
            "stft: window has shape (2, 3); expected (8)");
}

int main(void)
{
    plan_later();
    TN_SCOPE(scope) {
        check_exact();
        check_refused();
    }
    for (int n = 1; n <= 64; n++) {
        check_length(n, TN_F32);
        check_length(n, TN_F64);
    }
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        check_length(lengths[i], TN_F32);
        check_length(lengths[i], TN_F64);
    }
    return done_testing();
}
