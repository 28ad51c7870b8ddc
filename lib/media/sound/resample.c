/* resample.c: changes the sample rate with a windowed sinc filter. Every
 * new_freq samples of the result use the same filters, shifted by orig_freq
 * samples, so resampling is one strided convolution with new_freq channels. */
#include <base/nearest.h>
#include <media/sound/sound.h>

#include <math.h>
#include <stdlib.h>

TN_OPTIONS_TYPE(tn_resample, "resample", "waveform, orig_freq, new_freq",
                TN_RESAMPLE_OPTIONS_LIST)

static const char *const methods[] = {"sinc_interp_hann", "sinc_interp_kaiser",
                                      NULL};
static const double pi = 3.14159265358979323846;

/* Returns the modified Bessel function of order 0, computed by its power
 * series. */
static double bessel(double x)
{
    double sum = 1, term = 1;
    for (int k = 1; k < 500 && term > sum * 1e-17; k++) {
        term *= x / (2 * k) * (x / (2 * k));
        sum += term;
    }
    return sum;
}

/* Fills filters (new, 2 width + orig). */
static void fill(double *w, int64_t orig, int64_t new, int64_t width,
                 const tn_resample_options *o, bool kaiser, double beta)
{
    const double crossings = (double)o->lowpass_filter_width;
    const double base = (double)(orig < new ? orig : new) * o->rolloff;
    const double scale = base / (double)orig, norm = bessel(beta);
    const int64_t size = 2 * width + orig;
    for (int64_t j = 0; j < new; j++)
        for (int64_t i = 0; i < size; i++) {
            const double t = base * ((double)(i - width) / (double)orig -
                                     (double)j / (double)new);
            const double u = t / crossings;
            if (!(fabs(u) < 1)) { /* beyond the last zero crossing */
                w[j * size + i] = 0;
                continue;
            }
            const double window =
                kaiser ? bessel(beta * sqrt(1 - u * u)) / norm
                       : cos(u * pi / 2) * cos(u * pi / 2);
            w[j * size + i] =
                (t == 0 ? 1 : sin(pi * t) / (pi * t)) * window * scale;
        }
}

tn_tensor *tn_resample_with(tn_tensor *waveform, int64_t orig_freq,
                            int64_t new_freq,
                            const tn_resample_options *options)
{
    TN__ROUND_NEAREST;
    const char *call = "resample";
    tn_resample_options o;
    if (tn_options_take(tn_resample_type(), &o, options) < 0 ||
        !tn__sound_check(call, "waveform", waveform, 1) ||
        !tn__sound_check_int(call, "orig_freq", orig_freq, 1, UINT32_MAX) ||
        !tn__sound_check_int(call, "new_freq", new_freq, 1, UINT32_MAX) ||
        !tn__sound_check_int(call, "lowpass_filter_width",
                             o.lowpass_filter_width, 1, 1 << 16))
        return NULL;
    const int method = tn__sound_choice(call, "resampling_method",
                                        o.resampling_method, methods, false);
    if (method < 0)
        return NULL;
    if (!(o.rolloff > 0 && o.rolloff <= 1)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "rolloff",
                                 "rolloff is %g; expected more than 0 and at "
                                 "most 1",
                                 o.rolloff);
        return NULL;
    }
    const tn_option_need need = {"beta", method == 1,
                                 "without a Kaiser window",
                                 "set .resampling_method = "
                                 "\"sinc_interp_kaiser\""};
    if (tn_options_check_needs(tn_resample_type(), &o, &need, 1) < 0)
        return NULL;
    const double beta = tn_is_none_float(o.beta) ? 14.769656459379492 : o.beta;
    if (!(beta >= 0 && beta <= 500)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "beta",
                                 "beta is %g; expected 0 to 500", beta);
        return NULL;
    }
    int64_t gcd = orig_freq;
    for (int64_t b = new_freq, rest; b; b = rest) {
        rest = gcd % b;
        gcd = b;
    }
    const int64_t orig = orig_freq / gcd, new = new_freq / gcd,
                  time = tn_tensor_size(waveform, -1);
    if (orig == new)
        return tn_clone(waveform);
    const double base = (double)(orig < new ? orig : new) * o.rolloff;
    const double reach =
        ceil((double)o.lowpass_filter_width * (double)orig / base);
    if ((2 * reach + (double)orig) * (double)new > 1 << 26) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "new_freq",
                                 "%lld to %lld Hz, which is %lld / %lld, needs "
                                 "a filter of more than 2^26 weights; choose "
                                 "rates with a common divisor",
                                 (long long)orig_freq, (long long)new_freq,
                                 (long long)new, (long long)orig);
        return NULL;
    }
    const int64_t width = (int64_t)reach, size = 2 * width + orig;
    double *w = malloc((size_t)(size * new) * sizeof *w);
    if (!w)
        return tn_error_set(TN_ERR_MEMORY, "resample: out of memory"), NULL;
    fill(w, orig, new, width, &o, method == 1, beta);
    tn_scope *scope = tn_scope_open();
    tn_tensor *filters = tn__sound_tensor(w, tn_dims(new, 1, size),
                                          tn_tensor_dtype(waveform),
                                          tn_tensor_device(waveform));
    free(w);
    int64_t lines = 1;
    for (int d = 0; d < tn_tensor_ndim(waveform) - 1; d++)
        lines *= tn_tensor_size(waveform, d);
    /* ceil(new * time / orig), without overflow */
    const int64_t whole = time / orig, rest = time % orig,
                  target = whole * new + (rest * new + orig - 1) / orig;
    tn_tensor *x = tn_reshape(waveform, tn_dims(lines, 1, time));
    x = tn_pad(x, tn_dims(width, width + orig));
    tn_tensor *y = tn_conv1d(x, filters, NULL, .stride = orig);
    y = tn_reshape(tn_transpose(y, 1, 2), tn_dims(lines, -1));
    y = tn_narrow(y, 1, 0, target);
    return tn_scope_result(scope, tn__sound_unpack(tn_contiguous(y), 1,
                                                   waveform, 1));
}
