/* mel.c: mel filters, decibels, cepstral coefficients and mu-law. */
#include <base/nearest.h>
#include <media/sound/sound.h>

#include <math.h>
#include <stdlib.h>

TN_OPTIONS_TYPE(tn_melscale_fbanks, "melscale_fbanks",
                "n_freqs, n_mels, sample_rate", TN_MELSCALE_FBANKS_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_mel_spectrogram, "mel_spectrogram", "waveform, sample_rate",
                TN_MEL_SPECTROGRAM_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_amplitude_to_db, "amplitude_to_db", "x",
                TN_AMPLITUDE_TO_DB_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_mfcc, "mfcc", "waveform, sample_rate", TN_MFCC_OPTIONS_LIST)

/* ---- filters -------------------------------------------------------------------- */

enum { HTK, SLANEY };
static const char *const scales[] = {"htk", "slaney", NULL};
static const char *const filter_norms[] = {"slaney", NULL};

/* Slaney's scale is linear up to 1000 Hz, which is mel 15, then logarithmic. */
static double log_step(void) { return log(6.4) / 27; }

static double mel_from_hertz(double f, int scale)
{
    if (scale == HTK)
        return 2595 * log10(1 + f / 700);
    return f < 1000 ? f * 3 / 200 : 15 + log(f / 1000) / log_step();
}

static double hertz_from_mel(double m, int scale)
{
    if (scale == HTK)
        return 700 * (pow(10, m / 2595) - 1);
    return m < 15 ? m * 200 / 3 : 1000 * exp(log_step() * (m - 15));
}

/* Fills w (n_freqs, n_mels). edge has n_mels + 2 numbers. */
static void fill_filters(double *w, double *edge, int64_t freqs, int64_t mels,
                         int64_t rate, double low, double high, int scale,
                         bool by_width)
{
    const double from = mel_from_hertz(low, scale),
                 to = mel_from_hertz(high, scale);
    for (int64_t i = 0; i < mels + 2; i++)
        edge[i] = hertz_from_mel(from + (to - from) * (double)i /
                                            (double)(mels + 1),
                                 scale);
    for (int64_t j = 0; j < freqs; j++)
        for (int64_t i = 0; i < mels; i++) {
            const double f = freqs > 1 ? (double)(rate / 2) * (double)j /
                                             (double)(freqs - 1)
                                       : 0;
            const double up = (f - edge[i]) / (edge[i + 1] - edge[i]);
            const double down =
                (edge[i + 2] - f) / (edge[i + 2] - edge[i + 1]);
            const double x = fmax(0, fmin(up, down));
            w[j * mels + i] =
                by_width ? x * 2 / (edge[i + 2] - edge[i]) : x;
        }
}

static tn_tensor *filters(const char *call, int64_t n_freqs, int64_t n_mels,
                          int64_t sample_rate,
                          const tn_melscale_fbanks_options *o)
{
    TN__ROUND_NEAREST;
    const int scale = tn__sound_choice(call, "mel_scale", o->mel_scale, scales,
                                       false);
    const int norm = scale < 0 ? -1
                               : tn__sound_choice(call, "norm", o->norm,
                                                  filter_norms, true);
    if (norm < 0 ||
        !tn__sound_check_int(call, "n_freqs", n_freqs, 1, 1 << 24) ||
        !tn__sound_check_int(call, "n_mels", n_mels, 1, 1 << 16) ||
        !tn__sound_check_int(call, "sample_rate", sample_rate, 1, UINT32_MAX))
        return NULL;
    const double high = tn_is_none_float(o->f_max) ? (double)(sample_rate / 2)
                                                   : o->f_max;
    if (!(o->f_min >= 0) || !(high > o->f_min) || isinf(high)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "f_max",
                                 "f_min is %g and f_max %g; expected 0 <= "
                                 "f_min < f_max",
                                 o->f_min, high);
        return NULL;
    }
    if (n_freqs > (1 << 28) / n_mels) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "n_freqs",
                                 "n_freqs is %lld and n_mels %lld; expected "
                                 "a product of at most 2^28",
                                 (long long)n_freqs, (long long)n_mels);
        return NULL;
    }
    if (o->dtype != TN_F32 && o->dtype != TN_F64 && o->dtype != TN_F16 &&
        o->dtype != TN_BF16) {
        tn_error_refuse_argument(TN_ERR_DTYPE, call, "dtype",
                                 "dtype is %s; expected float32, float64, "
                                 "float16 or bfloat16",
                                 tn_dtype_name(o->dtype));
        return NULL;
    }
    tn_device *device = o->device ? o->device : tn_device_current();
    double *w = device ? malloc((size_t)(n_freqs * n_mels) * sizeof *w) : NULL,
           *edge = malloc(((size_t)n_mels + 2) * sizeof *edge);
    tn_tensor *out = NULL;
    if (w && edge) {
        fill_filters(w, edge, n_freqs, n_mels, sample_rate, o->f_min, high,
                     scale, norm == 0);
        out = tn__sound_tensor(w, tn_dims(n_freqs, n_mels), o->dtype, device);
    } else if (device) {
        tn_error_set(TN_ERR_MEMORY, "%s: out of memory", call);
    }
    free(w);
    free(edge);
    return out;
}

tn_tensor *
tn_melscale_fbanks_with(int64_t n_freqs, int64_t n_mels, int64_t sample_rate,
                        const tn_melscale_fbanks_options *options)
{
    tn_melscale_fbanks_options o;
    return tn_options_take(tn_melscale_fbanks_type(), &o, options) < 0
               ? NULL
               : filters("melscale_fbanks", n_freqs, n_mels, sample_rate, &o);
}

static tn_tensor *apply_filters(const char *call, tn_tensor *spectrogram,
                                tn_tensor *fbanks)
{
    if (!tn__sound_check(call, "spectrogram", spectrogram, 2) ||
        !tn__sound_check(call, "fbanks", fbanks, 2) ||
        !tn__sound_check_like(call, "fbanks", fbanks, spectrogram))
        return NULL;
    if (tn_tensor_ndim(fbanks) != 2 ||
        tn_tensor_size(fbanks, 0) != tn_tensor_size(spectrogram, -2)) {
        const tn_given given = {"fbanks", fbanks};
        tn_error_refuse(TN_ERR_SHAPE, call, &given, 1,
                        "fbanks must have the shape (%lld, n_mels)",
                        (long long)tn_tensor_size(spectrogram, -2));
        return NULL;
    }
    return tn_matmul(tn_transpose(fbanks, 0, 1), spectrogram);
}

tn_tensor *tn_mel_scale(tn_tensor *spectrogram, tn_tensor *fbanks)
{
    tn_scope *scope = tn_scope_open();
    return tn_scope_result(scope,
                           apply_filters("mel_scale", spectrogram, fbanks));
}

tn_tensor *
tn_mel_spectrogram_with(tn_tensor *waveform, int64_t sample_rate,
                        const tn_mel_spectrogram_options *options)
{
    const char *call = "mel_spectrogram";
    tn_mel_spectrogram_options o;
    if (tn_options_take(tn_mel_spectrogram_type(), &o, options) < 0 ||
        !tn__sound_check(call, "waveform", waveform, 1))
        return NULL;
    const char *why = "together with fbanks", *mend = "leave fbanks out";
    const tn_option_need need[] = {{"n_mels", !o.fbanks, why, mend},
                                   {"f_min", !o.fbanks, why, mend},
                                   {"f_max", !o.fbanks, why, mend},
                                   {"norm", !o.fbanks, why, mend},
                                   {"mel_scale", !o.fbanks, why, mend}};
    if (tn_options_check_needs(tn_mel_spectrogram_type(), &o, need, 5) < 0)
        return NULL;
    if (!(o.power > 0)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "power",
                                 "power is %g; expected more than 0", o.power);
        return NULL;
    }
    tn_spectrogram_options s = TN_SPECTROGRAM_OPTIONS;
    s.win_length = o.win_length;
    s.hop_length = o.hop_length;
    s.window = o.window;
    s.pad = o.pad;
    s.power = o.power;
    s.normalized = o.normalized;
    s.center = o.center;
    s.pad_mode = o.pad_mode;
    tn_melscale_fbanks_options f = TN_MELSCALE_FBANKS_OPTIONS;
    f.f_min = o.f_min;
    f.f_max = o.f_max;
    f.norm = o.norm;
    f.mel_scale = o.mel_scale;
    f.dtype = tn_tensor_dtype(waveform);
    f.device = tn_tensor_device(waveform);
    const bool pending = tn_error() != NULL;
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_spectrogram_with(waveform, o.n_fft, &s), *y = NULL;
    if (!pending)
        tn_error_rename("spectrogram", call, NULL);
    if (x && !o.fbanks)
        o.fbanks = filters(call, o.n_fft / 2 + 1, o.n_mels, sample_rate, &f);
    if (x && o.fbanks)
        y = apply_filters(call, x, o.fbanks);
    return tn_scope_result(scope, y);
}

/* ---- decibels -------------------------------------------------------------------- */

static bool check_number(const char *call, const char *name, double x,
                         bool fine, const char *expected)
{
    if (fine && isfinite(x))
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, name,
                             "%s is %g; expected a finite number%s", name, x,
                             expected);
    return false;
}

tn_tensor *
tn_amplitude_to_db_with(tn_tensor *x, const tn_amplitude_to_db_options *options)
{
    const char *call = "amplitude_to_db";
    tn_amplitude_to_db_options o;
    if (tn_options_take(tn_amplitude_to_db_type(), &o, options) < 0 ||
        !tn__sound_check(call, "x", x, 2) ||
        !check_number(call, "multiplier", o.multiplier, o.multiplier != 0,
                      " other than 0") ||
        !check_number(call, "amin", o.amin, o.amin > 0, " above 0") ||
        !check_number(call, "db_multiplier", o.db_multiplier, true, "") ||
        (!tn_is_none_float(o.top_db) &&
         !check_number(call, "top_db", o.top_db, o.top_db >= 0,
                       " of at least 0")))
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_tensor *y = tn_mul_scalar(tn_log10(tn_clamp_min_scalar(x, o.amin)),
                                 o.multiplier);
    if (o.db_multiplier != 0)
        y = tn_sub_scalar(y, o.multiplier * o.db_multiplier);
    if (!tn_is_none_float(o.top_db) && tn_tensor_numel(x) > 0) {
        const int ndim = tn_tensor_ndim(x);
        tn_tensor *most = tn_amax(
            y, .dims = ndim > 2 ? tn_dims(-3, -2, -1) : tn_dims(-2, -1),
            .keepdim = true);
        y = tn_maximum(y, tn_sub_scalar(most, o.top_db));
    }
    return tn_scope_result(scope, y);
}

tn_tensor *tn_db_to_amplitude(tn_tensor *x, double ref, double power)
{
    const char *call = "db_to_amplitude";
    if (!tn__sound_check(call, "x", x, 0) ||
        !check_number(call, "ref", ref, true, "") ||
        !check_number(call, "power", power, true, ""))
        return NULL;
    tn_scope *scope = tn_scope_open();
    /* 10^(x / 10) raised to power is exp(x * power * log(10) / 10) */
    tn_tensor *y = tn_exp(tn_mul_scalar(x, power * log(10) / 10));
    return tn_scope_result(scope, tn_mul_scalar(y, ref));
}

/* ---- cepstral coefficients ---------------------------------------------------------- */

/* Returns the matrix (n_mfcc, n_mels) of the cosine transform of type 2. */
static tn_tensor *cosines(int64_t rows, int64_t columns, bool ortho,
                          tn_dtype dtype, tn_device *device)
{
    TN__ROUND_NEAREST;
    double *w = malloc((size_t)(rows * columns) * sizeof *w);
    if (!w)
        return tn_error_set(TN_ERR_MEMORY, "mfcc: out of memory"), NULL;
    for (int64_t k = 0; k < rows; k++)
        for (int64_t i = 0; i < columns; i++) {
            const double scale = !ortho ? 2
                                 : k    ? sqrt(2.0 / (double)columns)
                                        : sqrt(1.0 / (double)columns);
            w[k * columns + i] =
                scale * cos(3.14159265358979323846 / (double)columns *
                            ((double)i + 0.5) * (double)k);
        }
    tn_tensor *out = tn__sound_tensor(w, tn_dims(rows, columns), dtype, device);
    free(w);
    return out;
}

tn_tensor *tn_mfcc_with(tn_tensor *waveform, int64_t sample_rate,
                        const tn_mfcc_options *options)
{
    const char *call = "mfcc";
    static const char *const dct_norms[] = {"ortho", "none", NULL};
    tn_mfcc_options o;
    if (tn_options_take(tn_mfcc_type(), &o, options) < 0)
        return NULL;
    const int norm = tn__sound_choice(call, "norm", o.norm, dct_norms, false);
    if (norm < 0)
        return NULL;
    const bool pending = tn_error() != NULL;
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_mel_spectrogram_with(waveform, sample_rate, o.mel);
    tn_tensor *y = NULL;
    if (!pending)
        tn_error_rename("mel_spectrogram", call, NULL);
    if (x && tn__sound_check_int(call, "n_mfcc", o.n_mfcc, 1,
                                 tn_tensor_size(x, -2))) {
        x = o.log_mels ? tn_log(tn_add_scalar(x, 1e-6))
                       : tn_amplitude_to_db(x, .top_db = 80);
        y = tn_matmul(cosines(o.n_mfcc, tn_tensor_size(x, -2), norm == 0,
                              tn_tensor_dtype(waveform),
                              tn_tensor_device(waveform)),
                      x);
    }
    return tn_scope_result(scope, y);
}

/* ---- mu-law ---------------------------------------------------------------------------- */

tn_tensor *tn_mu_law_encoding(tn_tensor *x, int64_t channels)
{
    const char *call = "mu_law_encoding";
    if (!tn__sound_check(call, "x", x, 0) ||
        !tn__sound_check_int(call, "channels", channels, 2, 1 << 24))
        return NULL;
    const double mu = (double)(channels - 1);
    tn_scope *scope = tn_scope_open();
    tn_tensor *y = NULL;
    TN_NO_GRAD {
        y = tn_log1p(tn_mul_scalar(tn_abs(x), mu));
        y = tn_div_scalar(tn_mul(tn_sign(x), y), log1p(mu));
        y = tn_mul_scalar(tn_div_scalar(tn_add_scalar(y, 1), 2), mu);
        y = tn_to_dtype(tn_add_scalar(y, 0.5), TN_I64);
    }
    return tn_scope_result(scope, y);
}

tn_tensor *tn_mu_law_decoding(tn_tensor *codes, int64_t channels)
{
    const char *call = "mu_law_decoding";
    if (!tn_object_check_kind(codes, "tensor", call, "codes") ||
        !tn__sound_check_int(call, "channels", channels, 2, 1 << 24))
        return NULL;
    const tn_dtype dtype = tn_tensor_dtype(codes);
    const bool is_floating = dtype == TN_F32 || dtype == TN_F64 ||
                             dtype == TN_F16 || dtype == TN_BF16;
    if (!is_floating && dtype != TN_I64 && dtype != TN_I32 && dtype != TN_I16 &&
        dtype != TN_I8 && dtype != TN_U8) {
        const tn_given given = {"codes", codes};
        tn_error_refuse(TN_ERR_DTYPE, call, &given, 1,
                        "codes has dtype %s; expected a floating-point or "
                        "integer dtype",
                        tn_dtype_name(dtype));
        return NULL;
    }
    const double mu = (double)(channels - 1);
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = is_floating ? codes : tn_to_dtype(codes, TN_F32);
    x = tn_sub_scalar(tn_mul_scalar(tn_div_scalar(x, mu), 2), 1);
    tn_tensor *y = tn_expm1(tn_mul_scalar(tn_abs(x), log1p(mu)));
    return tn_scope_result(scope,
                           tn_div_scalar(tn_mul(tn_sign(x), y), mu));
}
