/* spectrum.c: spectrograms and their inverse, from tn_stft and tn_fft_irfft.
 * There is no complex dtype: a complex number is a pair in the last dimension.
 */
#include <base/nearest.h>
#include <media/sound/sound.h>

#include <math.h>
#include <stdlib.h>

TN_OPTIONS_TYPE(tn_spectrogram, "spectrogram", "waveform, n_fft",
                TN_SPECTROGRAM_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_inverse_spectrogram, "inverse_spectrogram",
                "spectrogram, n_fft", TN_INVERSE_SPECTROGRAM_OPTIONS_LIST)

static const char *const norms[] = {"window", "frame_length", NULL};
enum { BY_WINDOW, BY_LENGTH };
static const char *const pad_modes[] = {"constant", "reflect", "replicate",
                                        "circular", NULL};
enum { MOST = 1 << 24 };

/* Returns the periodic Hann window, in dtype on device. */
static tn_tensor *hann(int64_t n, tn_dtype dtype, tn_device *device)
{
    TN__ROUND_NEAREST;
    double *w = malloc((size_t)n * sizeof *w);
    if (!w)
        return tn_error_set(TN_ERR_MEMORY, "spectrogram: out of memory"), NULL;
    for (int64_t i = 0; i < n; i++)
        w[i] = 0.5 - 0.5 * cos(2 * 3.14159265358979323846 * (double)i /
                               (double)n);
    tn_tensor *out = tn__sound_tensor(w, tn_dims(n), dtype, device);
    free(w);
    return out;
}

/* The parameters that a spectrogram and its inverse share. */
typedef struct frames {
    int64_t n_fft, window, hop;
    tn_tensor *weights;
    int norm;
} frames;

/* Checks the parameters and fills in their defaults. */
static bool take(const char *call, tn_tensor *x, int64_t n_fft, int64_t window,
                 int64_t hop, tn_tensor *weights, const char *normalized,
                 frames *f)
{
    f->n_fft = n_fft;
    f->window = window == TN_NONE_INT ? n_fft : window;
    if (!tn__sound_check_int(call, "n_fft", n_fft, 1, MOST) ||
        !tn__sound_check_int(call, "win_length", f->window, 1, n_fft))
        return false;
    f->hop = hop == TN_NONE_INT ? f->window / 2 : hop;
    f->norm = tn__sound_choice(call, "normalized", normalized, norms, true);
    if (!tn__sound_check_int(call, "hop_length", f->hop, 1, MOST) ||
        f->norm < 0)
        return false;
    f->weights = weights;
    if (!weights) {
        f->weights = hann(f->window, tn_tensor_dtype(x), tn_tensor_device(x));
        return f->weights != NULL;
    }
    if (!tn__sound_check(call, "window", weights, 1) ||
        !tn__sound_check_like(call, "window", weights, x))
        return false;
    if (tn_tensor_ndim(weights) == 1 &&
        tn_tensor_size(weights, 0) == f->window)
        return true;
    const tn_given given = {"window", weights};
    tn_error_refuse(TN_ERR_SHAPE, call, &given, 1,
                    "window must have one dimension of win_length, %lld, "
                    "elements",
                    (long long)f->window);
    return false;
}

static tn_tensor *energy(const frames *f)
{
    return tn_sqrt(tn_sum(tn_mul(f->weights, f->weights)));
}

/* Returns the magnitudes of complex numbers (..., 2), raised to a power. The
 * gradient of a magnitude of 0 is 0, as in PyTorch. */
static tn_tensor *magnitudes(tn_tensor *x, double power)
{
    static const tn_op *square, *magnitude;
    tn_tensor *part[2];
    if (tn_unbind(x, -1, part, 2) != 2)
        return NULL;
    if (power == 2)
        return tn_op_define_once("media_square(re, im) = re * re + im * im",
                                 &square)
                   ? tn_op_apply(square, part, NULL)
                   : NULL;
    tn_tensor *y =
        tn_op_define_once("media_magnitude(re, im) = "
                          "let s = re * re + im * im; "
                          "where(s == 0, 0, sqrt(where(s == 0, 1, s)))",
                          &magnitude)
            ? tn_op_apply(magnitude, part, NULL)
            : NULL;
    return power == 1 ? y : tn_pow_scalar(y, power);
}

tn_tensor *tn_spectrogram_with(tn_tensor *waveform, int64_t n_fft,
                               const tn_spectrogram_options *options)
{
    const char *call = "spectrogram";
    tn_spectrogram_options o;
    frames f;
    if (tn_options_take(tn_spectrogram_type(), &o, options) < 0 ||
        !tn__sound_check(call, "waveform", waveform, 1) ||
        tn__sound_choice(call, "pad_mode", o.pad_mode, pad_modes, false) < 0 ||
        !tn__sound_check_int(call, "pad", o.pad, 0, MOST))
        return NULL;
    const tn_option_need need = {"pad_mode", o.center, "without center",
                                 "set .center = true"};
    if (tn_options_check_needs(tn_spectrogram_type(), &o, &need, 1) < 0)
        return NULL;
    if (!(o.power >= 0) || isinf(o.power)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "power",
                                 "power is %g; expected at least 0", o.power);
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    tn_tensor *y = NULL;
    if (take(call, waveform, n_fft, o.win_length, o.hop_length, o.window,
             o.normalized, &f)) {
        const int64_t time = tn_tensor_size(waveform, -1) + 2 * o.pad;
        const tn_given given = {"waveform", waveform};
        const int64_t half = n_fft / 2;
        const bool reflects = o.center && o.pad_mode[0] == 'r' &&
                              o.pad_mode[2] == 'f';
        if (time < 1 || (!o.center && time < n_fft) ||
            (reflects && time <= half)) {
            tn_error_refuse(TN_ERR_SHAPE, call, &given, 1,
                            "waveform has %lld samples, which is too short "
                            "for n_fft %lld",
                            (long long)time, (long long)n_fft);
            return tn_scope_result(scope, NULL);
        }
        tn_tensor *x = waveform;
        if (o.pad > 0)
            x = tn_pad(x, tn_dims(o.pad, o.pad));
        int64_t lines = 1;
        for (int d = 0; d < tn_tensor_ndim(waveform) - 1; d++)
            lines *= tn_tensor_size(waveform, d);
        x = tn_reshape(x, tn_dims(lines, time));
        tn_stft_options s = TN_STFT_OPTIONS;
        s.hop_length = f.hop;
        s.win_length = f.window;
        s.window = f.weights;
        s.center = o.center;
        if (o.center)
            s.pad_mode = o.pad_mode;
        s.normalized = f.norm == BY_LENGTH;
        s.onesided = o.onesided;
        const bool pending = tn_error() != NULL;
        y = tn_stft_with(x, n_fft, &s);
        if (!pending)
            tn_error_rename("stft", call, "waveform");
        if (f.norm == BY_WINDOW)
            y = tn_div(y, energy(&f));
        if (o.power > 0)
            y = y ? magnitudes(y, o.power) : NULL;
        y = tn__sound_unpack(y, 1, waveform, 1);
    }
    return tn_scope_result(scope, y);
}

/* ---- the inverse ----------------------------------------------------------------- */

/* Adds frames (lines, n_fft, count) at their positions in time; returns (lines,
 * time). */
static tn_tensor *overlap_add(const frames *f, tn_tensor *x, int64_t time)
{
    const int64_t lines = tn_tensor_size(x, 0);
    tn_tensor *y = tn_fold(x, tn_dims(1, time), tn_dims(1, f->n_fft),
                           .strides = tn_dims(1, f->hop));
    return tn_reshape(y, tn_dims(lines, time));
}

tn_tensor *
tn_inverse_spectrogram_with(tn_tensor *spectrogram, int64_t n_fft,
                            const tn_inverse_spectrogram_options *options)
{
    const char *call = "inverse_spectrogram";
    tn_inverse_spectrogram_options o;
    frames f;
    if (tn_options_take(tn_inverse_spectrogram_type(), &o, options) < 0 ||
        !tn__sound_check(call, "spectrogram", spectrogram, 3))
        return NULL;
    if (o.length != TN_NONE_INT &&
        !tn__sound_check_int(call, "length", o.length, 1, INT64_MAX))
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_tensor *y = NULL;
    const tn_given given = {"spectrogram", spectrogram};
    const int64_t count = tn_tensor_size(spectrogram, -2);
    if (!take(call, spectrogram, n_fft, o.win_length, o.hop_length, o.window,
              o.normalized, &f))
        return tn_scope_result(scope, NULL);
    const int64_t time = n_fft + (count - 1) * f.hop;
    const int64_t cut = o.center ? n_fft / 2 : 0;
    const int64_t length = o.length != TN_NONE_INT ? o.length : time - 2 * cut;
    if (tn_tensor_size(spectrogram, -1) != 2 || count < 1 ||
        tn_tensor_size(spectrogram, -3) != n_fft / 2 + 1) {
        tn_error_refuse(TN_ERR_SHAPE, call, &given, 1,
                        "expected the shape (..., %lld, frames, 2) for n_fft "
                        "%lld",
                        (long long)(n_fft / 2 + 1), (long long)n_fft);
        return tn_scope_result(scope, NULL);
    }
    if (length < 1 || length > time - cut) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "length",
                                 "the length is %lld; %lld frames cover 1 to "
                                 "%lld samples",
                                 (long long)length, (long long)count,
                                 (long long)(time - cut));
        return tn_scope_result(scope, NULL);
    }
    int64_t lines = 1;
    for (int d = 0; d < tn_tensor_ndim(spectrogram) - 3; d++)
        lines *= tn_tensor_size(spectrogram, d);
    const int64_t left = (n_fft - f.window) / 2;
    tn_tensor *weights = tn_pad(
        f.weights, tn_dims(left, n_fft - f.window - left));
    tn_tensor *x = tn_reshape(spectrogram,
                              tn_dims(lines, n_fft / 2 + 1, count, 2));
    if (f.norm == BY_WINDOW)
        x = tn_mul(x, energy(&f));
    x = tn_fft_irfft(x, .n = n_fft, .dim = 1,
                     .norm = f.norm == BY_LENGTH ? "ortho" : "backward");
    tn_tensor *column = tn_reshape(weights, tn_dims(1, n_fft, 1));
    y = overlap_add(&f, tn_mul(x, column), time);
    tn_tensor *squares = tn_contiguous(
        tn_expand(tn_mul(column, column), tn_dims(1, n_fft, count)));
    tn_tensor *sum = tn_narrow(overlap_add(&f, squares, time), 1, cut, length);
    y = tn_narrow(y, 1, cut, length);
    double least = 0;
    TN_NO_GRAD
        least = tn_item(tn_amin(sum));
    if (y && sum && !(least > 1e-11)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "window",
                                 "the windows do not overlap everywhere: a "
                                 "sample has the weight %g; choose a smaller "
                                 "hop_length",
                                 least);
        return tn_scope_result(scope, NULL);
    }
    return tn_scope_result(scope, tn__sound_unpack(tn_div(y, sum), 1,
                                                   spectrogram, 3));
}
