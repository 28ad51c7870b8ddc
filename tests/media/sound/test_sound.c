/* test_sound.c: results and gradients equal to torchaudio's (make_sound.py), and
 * wrong arguments. */
#include "../vision/stored.h"

#include <tenon/sound.h>

static tn_tensor *wave(void)
{
    return noise(tn_dims(2, 1200), 1, -1, 1, TN_F32);
}

static tn_tensor *leaf(tn_tensor *x)
{
    return tn_requires_grad(tn_clone(x));
}

/* Checks y, and the first 150 elements along time of the gradient of x. */
static void check(const char *name, tn_tensor *y, tn_tensor *x)
{
    char text[64];
    close_to(y, stored(name), 1e-5, name);
    snprintf(text, sizeof text, "%s_grad", name);
    tn_tensor *g = gradient(y, x);
    close_to(g ? tn_narrow(g, 1, 0, 150) : NULL, stored(text), 5e-5, text);
}

static tn_tensor *start(tn_tensor *x, int64_t n)
{
    return x ? tn_narrow(x, tn_tensor_ndim(x) - 1, 0, n) : NULL;
}

static void check_resample(void)
{
    tn_tensor *x = leaf(wave());
    check("resample_441_160", tn_resample(x, 44100, 16000), x);
    close_to(start(tn_resample(x, 8000, 16000), 500), stored("resample_up"),
             1e-5, "resample to twice the rate");
    x = leaf(wave());
    check("resample_kaiser",
          start(tn_resample(x, 16000, 11025, .lowpass_filter_width = 16,
                            .rolloff = 0.9,
                            .resampling_method = "sinc_interp_kaiser"),
                500),
          x);
    close_to(start(tn_resample(x, 3, 2, .lowpass_filter_width = 4,
                               .rolloff = 1, .beta = 5,
                               .resampling_method = "sinc_interp_kaiser"),
                   400),
             stored("resample_beta"), 1e-5, "another beta");
    close_to(tn_resample(x, 8000, 8000), x, 0, "equal rates change nothing");
    tn_tensor *one = tn_resample(tn_ones(tn_dims(2, 3, 1)), 2, 5);
    ok(one && tn_tensor_ndim(one) == 3 && tn_tensor_size(one, 2) == 3,
       "one sample becomes ceil(5 / 2)");
    tn_tensor *none = tn_resample(tn_ones(tn_dims(2, 0)), 2, 5);
    ok(none && tn_tensor_size(none, 1) == 0, "no samples");
}

static void check_spectrum(void)
{
    tn_tensor *x = leaf(wave());
    check("spec", tn_spectrogram(x, 64, .hop_length = 48), x);
    x = leaf(wave());
    check("spec_magnitude",
          tn_spectrogram(x, 64, .hop_length = 48, .win_length = 50, .power = 1),
          x);
    tn_tensor *first = tn_narrow(x, 0, 0, 1);
    close_to(tn_spectrogram(start(first, 400), 32, .power = 0.5),
             stored("spec_power"), 1e-5, "another power");
    close_to(tn_spectrogram(x, 64, .hop_length = 48, .normalized = "window",
                            .pad = 7, .center = false),
             stored("spec_window"), 1e-5, "normalized by the window");
    close_to(tn_spectrogram(first, 64, .hop_length = 48,
                            .normalized = "frame_length",
                            .pad_mode = "constant", .onesided = false),
             stored("spec_length"), 1e-5, "normalized by the length");
    close_to(tn_spectrogram(tn_select(x, 0, 0), 64, .hop_length = 48,
                            .win_length = 40, .window = stored("hamming"),
                            .power = 0),
             stored("spec_complex"), 1e-5, "complex numbers, Hamming window");

    /* the signal can be restored from its frames */
    tn_tensor *some = start(first, 500);
    tn_tensor *c = tn_spectrogram(some, 64, .hop_length = 24, .power = 0);
    tn_tensor *back = tn_inverse_spectrogram(c, 64, .hop_length = 24,
                                             .length = 490);
    close_to(back, start(some, 490), 1e-5, "the inverse gives the signal back");
    c = tn_mul(c, noise(tn_dims(33, 21, 2), 5, 0.5, 1.5, TN_F32));
    close_to(tn_inverse_spectrogram(c, 64, .hop_length = 24),
             stored("inverse"), 1e-5, "the inverse of other frames");
    close_to(tn_inverse_spectrogram(c, 64, .hop_length = 24, .length = 470),
             stored("inverse_length"), 1e-5, "with a length");
    for (int i = 0; i < 2; i++) {
        const char *norm = i ? "window" : "frame_length";
        tn_tensor *n = tn_spectrogram(some, 64, .hop_length = 16, .power = 0,
                                      .normalized = norm);
        close_to(tn_inverse_spectrogram(n, 64, .hop_length = 16,
                                        .length = 490, .normalized = norm),
                 start(some, 490), 1e-5, "the inverse, normalized");
    }
    tn_tensor *zero = leaf(tn_zeros(tn_dims(100)));
    tn_tensor *g = gradient(tn_spectrogram(zero, 16, .power = 1), zero);
    close_to(g, tn_zeros(tn_dims(100)), 0, "the gradient of silence is 0");
}

static void check_mel(void)
{
    close_to(tn_melscale_fbanks(65, 20, 16000), stored("fbanks_htk"), 1e-6,
             "HTK's filters");
    close_to(tn_melscale_fbanks(65, 13, 16000, .f_min = 50, .f_max = 5000,
                                .norm = "slaney", .mel_scale = "slaney"),
             stored("fbanks_slaney"), 1e-6, "Slaney's filters");
    close_to(tn_melscale_fbanks(40, 10, 11025, .norm = "slaney"),
             stored("fbanks_odd"), 1e-6, "an odd sample rate");
    tn_tensor *x = leaf(wave());
    tn_tensor *mel = tn_mel_spectrogram(x, 16000, .n_fft = 128, .n_mels = 20);
    check("mel", mel, x);
    tn_tensor *filters = tn_melscale_fbanks(65, 20, 16000);
    close_to(tn_mel_spectrogram(x, 16000, .n_fft = 128, .fbanks = filters),
             stored("mel"), 1e-5, "given filters");
    close_to(tn_mel_scale(tn_spectrogram(x, 128), filters), stored("mel"),
             1e-5, "in two steps");
    x = leaf(wave());
    check("mel_slaney",
          tn_mel_spectrogram(x, 16000, .n_fft = 128, .n_mels = 20, .f_min = 60,
                             .f_max = 6000, .norm = "slaney",
                             .mel_scale = "slaney", .power = 1,
                             .hop_length = 100, .normalized = "window"),
          x);
    close_to(tn_amplitude_to_db(mel, .top_db = 20), stored("db"), 1e-5,
             "decibels");
    close_to(tn_amplitude_to_db(tn_unsqueeze(mel, 1), .multiplier = 20,
                                .amin = 1e-5, .db_multiplier = 0.3,
                                .top_db = 15),
             stored("db_batch"), 1e-5, "decibels of a batch");
    close_to(tn_db_to_amplitude(tn_amplitude_to_db(mel), 2, 0.5),
             stored("amplitude"), 2e-5, "and back");
    x = leaf(wave());
    tn_mel_spectrogram_options o = TN_MEL_SPECTROGRAM_OPTIONS;
    o.n_fft = 128;
    o.n_mels = 20;
    check("mfcc", tn_mfcc(x, 16000, .n_mfcc = 13, .mel = &o), x);
    close_to(tn_mfcc(x, 16000, .n_mfcc = 13, .log_mels = true, .norm = "none",
                     .mel = &o),
             stored("mfcc_log"), 1e-5, "MFCC of logarithms");
    tn_tensor *some = start(tn_select(wave(), 0, 0), 400);
    tn_tensor *code = tn_mu_law_encoding(some, 256);
    close_to(code, stored("mu"), 0, "mu-law codes");
    close_to(tn_mu_law_decoding(code, 256), stored("mu_decoded"), 1e-5,
             "and decoded");
    tn_tensor *half = tn_mel_spectrogram(tn_to_dtype(wave(), TN_F64), 16000);
    ok(half && tn_tensor_dtype(half) == TN_F64, "float64 stays float64");
}

/* ---- wrong arguments ------------------------------------------------------------- */

typedef tn_tensor *(*unary)(tn_tensor *x);
static tn_tensor *resample(tn_tensor *x) { return tn_resample(x, 2, 1); }
static tn_tensor *spec(tn_tensor *x) { return tn_spectrogram(x, 16); }
static tn_tensor *inverse(tn_tensor *x)
{
    return tn_inverse_spectrogram(x, 16);
}
static tn_tensor *scale(tn_tensor *x)
{
    return tn_mel_scale(x, tn_ones(tn_dims(9, 4)));
}
static tn_tensor *scale2(tn_tensor *x)
{
    return tn_mel_scale(tn_ones(tn_dims(9, 4)), x);
}
static tn_tensor *mel(tn_tensor *x) { return tn_mel_spectrogram(x, 16000); }
static tn_tensor *db(tn_tensor *x) { return tn_amplitude_to_db(x); }
static tn_tensor *back(tn_tensor *x) { return tn_db_to_amplitude(x, 1, 1); }
static tn_tensor *mfcc(tn_tensor *x) { return tn_mfcc(x, 16000); }
static tn_tensor *mu(tn_tensor *x) { return tn_mu_law_encoding(x, 256); }
static tn_tensor *mu2(tn_tensor *x) { return tn_mu_law_decoding(x, 256); }

static void check_wrong(void)
{
    static const struct {
        const char *call, *argument;
        unary f;
    } row[] = {{"resample", "waveform", resample},
               {"spectrogram", "waveform", spec},
               {"inverse_spectrogram", "spectrogram", inverse},
               {"mel_scale", "spectrogram", scale},
               {"mel_scale", "fbanks", scale2},
               {"mel_spectrogram", "waveform", mel},
               {"amplitude_to_db", "x", db},
               {"db_to_amplitude", "x", back},
               {"mfcc", "waveform", mfcc},
               {"mu_law_encoding", "x", mu},
               {"mu_law_decoding", "codes", mu2}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[100];
        snprintf(text, sizeof text, "%s: %s is NULL", row[i].call,
                 row[i].argument);
        refused(!row[i].f(NULL), TN_ERR_ARGUMENT, text, text);
        snprintf(text, sizeof text, "%s: %s has", row[i].call,
                 row[i].argument);
        refused(!row[i].f(tn_ones(tn_dims(2, 600), .dtype = TN_BOOL)),
                TN_ERR_DTYPE, text, "bool is rejected");
        if (row[i].f != back && row[i].f != mu && row[i].f != mu2)
            refused(!row[i].f(tn_ones(TN_SCALAR)), TN_ERR_SHAPE, text,
                    "a scalar is rejected");
    }
    tn_tensor *x = wave();
    refused(!tn_resample(x, 0, 1), TN_ERR_ARGUMENT, "orig_freq is 0",
            "a rate of 0");
    refused(!tn_resample(x, 1, -5), TN_ERR_ARGUMENT, "new_freq is -5",
            "a negative rate");
    refused(!tn_resample(x, 44101, 48000), TN_ERR_ARGUMENT, "common divisor",
            "rates without a common divisor");
    refused(!tn_resample(x, 2, 1, .rolloff = 0), TN_ERR_ARGUMENT, "rolloff",
            "a rolloff of 0");
    refused(!tn_resample(x, 2, 1, .lowpass_filter_width = 0), TN_ERR_ARGUMENT,
            "lowpass_filter_width is 0", "a filter of width 0");
    refused(!tn_resample(x, 2, 1, .resampling_method = "linear"),
            TN_ERR_ARGUMENT, "sinc_interp_kaiser", "an unknown method");
    refused(!tn_resample(x, 2, 1, .beta = 3), TN_ERR_ARGUMENT,
            ".beta has no effect", "beta without a Kaiser window");
    refused(!tn_spectrogram(x, 0), TN_ERR_ARGUMENT, "n_fft is 0",
            "n_fft of 0");
    refused(!tn_spectrogram(x, 64, .win_length = 65), TN_ERR_ARGUMENT,
            "win_length is 65", "a window that is too long");
    refused(!tn_spectrogram(x, 64, .hop_length = 0), TN_ERR_ARGUMENT,
            "hop_length is 0", "a hop of 0");
    refused(!tn_spectrogram(x, 64, .power = -1), TN_ERR_ARGUMENT, "power",
            "a negative power");
    refused(!tn_spectrogram(x, 64, .normalized = "yes"), TN_ERR_ARGUMENT,
            "normalized is \"yes\"", "an unknown norm");
    refused(!tn_spectrogram(x, 64, .pad_mode = "mirror"), TN_ERR_ARGUMENT,
            "pad_mode is \"mirror\"", "an unknown padding");
    refused(!tn_spectrogram(x, 64, .window = tn_ones(tn_dims(63))),
            TN_ERR_SHAPE, "win_length, 64", "a window of another length");
    refused(!tn_spectrogram(x, 64, .window = tn_ones(tn_dims(64),
                                                     .dtype = TN_F64)),
            TN_ERR_DTYPE, "window has dtype float64",
            "a window of another dtype");
    refused(!tn_spectrogram(tn_ones(tn_dims(32)), 64), TN_ERR_SHAPE,
            "too short", "a waveform that is too short to be reflected");
    refused(!tn_spectrogram(tn_ones(tn_dims(63)), 64, .center = false),
            TN_ERR_SHAPE, "too short", "and one without a frame");
    refused(!tn_spectrogram(x, 64, .center = false, .pad_mode = "constant"),
            TN_ERR_ARGUMENT, "no effect without center",
            "padding that nothing needs");
    refused(!tn_mel_spectrogram(x, 16000, .n_fft = 64, .n_mels = 8,
                                .center = false, .pad_mode = "constant"),
            TN_ERR_ARGUMENT, "mel_spectrogram: .pad_mode has no effect",
            "also for mel filters");
    refused(!tn_inverse_spectrogram(tn_ones(tn_dims(9, 4, 3)), 16),
            TN_ERR_SHAPE, "(..., 9, frames, 2)", "no complex numbers");
    refused(!tn_inverse_spectrogram(tn_ones(tn_dims(9, 4, 2)), 16,
                                    .hop_length = 16),
            TN_ERR_ARGUMENT, "do not overlap", "windows without overlap");
    refused(!tn_inverse_spectrogram(tn_ones(tn_dims(9, 4, 2)), 16,
                                    .length = 1000),
            TN_ERR_ARGUMENT, "length is 1000", "a length that is too long");
    refused(!tn_melscale_fbanks(0, 20, 16000), TN_ERR_ARGUMENT, "n_freqs is 0",
            "no frequencies");
    refused(!tn_melscale_fbanks(65, 20, 16000, .f_min = 9000), TN_ERR_ARGUMENT,
            "f_min is 9000", "f_min above f_max");
    refused(!tn_melscale_fbanks(65, 20, 16000, .mel_scale = "bark"),
            TN_ERR_ARGUMENT, "mel_scale is \"bark\"", "an unknown scale");
    refused(!tn_melscale_fbanks(65, 20, 16000, .dtype = TN_I32), TN_ERR_DTYPE,
            "int32", "integer filters");
    refused(!tn_mel_spectrogram(x, 16000, .n_mels = 20,
                                .fbanks = tn_ones(tn_dims(201, 20))),
            TN_ERR_ARGUMENT, ".n_mels has no effect", "n_mels with filters");
    refused(!tn_mel_spectrogram(x, 16000, .fbanks = tn_ones(tn_dims(3, 3))),
            TN_ERR_SHAPE, "(201, n_mels)", "filters of another size");
    refused(!tn_mel_spectrogram(x, 16000, .power = 0), TN_ERR_ARGUMENT,
            "power", "complex mel");
    refused(!tn_amplitude_to_db(x, .amin = 0), TN_ERR_ARGUMENT, "amin",
            "amin of 0");
    refused(!tn_amplitude_to_db(x, .top_db = -1), TN_ERR_ARGUMENT, "top_db",
            "a negative top_db");
    refused(!tn_mfcc(x, 16000, .n_mfcc = 129), TN_ERR_ARGUMENT,
            "n_mfcc is 129", "too many coefficients");
    refused(!tn_mfcc(x, 16000, .norm = "l2"), TN_ERR_ARGUMENT, "norm is \"l2\"",
            "an unknown norm of the cosine transform");
    refused(!tn_mu_law_encoding(x, 1), TN_ERR_ARGUMENT, "channels is 1",
            "one channel of mu-law");
    tn_device *other = tn_device_open("reference");
    if (other == tn_device_current())
        other = tn_device_open("cpu");
    if (!other)
        bail_out("%s", tn_error());
    refused(!tn_spectrogram(x, 64, .window = tn_to(tn_ones(tn_dims(64)),
                                                   other)),
            TN_ERR_DEVICE, "window is on", "a window on another device");
    refused(!tn_mel_scale(tn_ones(tn_dims(9, 4)),
                          tn_to(tn_ones(tn_dims(9, 4)), other)),
            TN_ERR_DEVICE, "fbanks is on", "filters on another device");
    ok(tn_mfcc(x, 16000) != NULL, "the next call works");
}

int main(void)
{
    plan_later();
    stored_open("sound/data/sound.gz");
    TN_SCOPE(scope) check_resample();
    TN_SCOPE(scope) check_spectrum();
    TN_SCOPE(scope) check_mel();
    TN_SCOPE(scope) check_wrong();
    return done_testing();
}
