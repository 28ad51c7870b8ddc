/* <tenon/sound.h>: sound as tensors: WAV files, resampling and spectrograms.
 *
 * The functions have the names and formulas of torchaudio.
 *
 *     int64_t rate;
 *     tn_tensor *x = tn_wav_load("speech.wav", &rate);    // (channels, frames)
 *     x = tn_resample(x, rate, 16000);
 *     tn_tensor *mel = tn_mel_spectrogram(x, 16000, .n_mels = 80);
 *     mel = tn_amplitude_to_db(mel, .top_db = 80);  // (channels, 80, frames)
 *
 * A waveform is a floating-point tensor (..., time), a spectrogram (...,
 * frequencies, frames). The functions work on every device and are
 * differentiable. Unless a function says otherwise: the open scope owns the
 * result, the tensors of a call are on one device and of one dtype, and the
 * functions return NULL with TN_ERR_SHAPE, TN_ERR_DTYPE or TN_ERR_DEVICE if a
 * tensor does not fit, TN_ERR_ARGUMENT if a number or a string is not allowed,
 * or TN_ERR_MEMORY.
 *
 * While an error is pending (error.h), functions that return a status do
 * nothing and return TN_ERR_STATE. Others work as usual, and the first error
 * stays.
 *
 * Link with `pkg-config --libs tenon-media`.
 *
 * Threads: Any thread may call these functions.
 */
#ifndef TENON_SOUND_H
#define TENON_SOUND_H

#include <tenon/options.h>
#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- WAV files -------------------------------------------------------------
 * Sample formats:
 *
 *   "pcm8"    unsigned, 128 is silence
 *   "pcm16" "pcm24" "pcm32"  signed
 *   "f32" "f64"              floating-point, -1 to 1
 *
 * RIFF files, RF64 and BW64 files (more than 4 GiB), and
 * WAVE_FORMAT_EXTENSIBLE are read. A-law, mu-law, ADPCM and other compressed
 * formats, and RIFX files, are rejected (TN_ERR_UNSUPPORTED); the message names
 * the format.
 *
 * Chunks other than "fmt ", "ds64" and "data" are skipped. A data chunk whose
 * size is 0xFFFFFFFF, or is 0 in a file whose RIFF size is 0 or 0xFFFFFFFF,
 * extends to the end of the file: programs that stream a file write it like
 * this. An incomplete frame at the end is ignored. A data chunk that is larger
 * than the file is rejected. Memory is allocated only for frames that are in
 * the file. */

/* What a file says about its sound. Set size = sizeof(tn_wav_info) first. */
typedef struct tn_wav_info {
    size_t size;         /* sizeof(tn_wav_info) */
    const char *format;  /* "pcm16": a string constant */
    int64_t sample_rate; /* in Hz */
    int64_t frames;      /* samples of each channel */
    int32_t channels;
} tn_wav_info;

/* Reads the header of a WAV file, or of the bytes of one in memory, without its
 * samples, and fills the first out_info->size bytes of *out_info. Fails with
 * TN_ERR_IO if the file cannot be read or is not a regular file, TN_ERR_FORMAT
 * if it is not a valid WAV file, TN_ERR_UNSUPPORTED for formats that are
 * rejected, or TN_ERR_ARGUMENT if out_info is NULL or out_info->size is
 * invalid. */
TN_API tn_status tn_wav_info_load(const char *path, tn_wav_info *out_info);
TN_API tn_status tn_wav_info_decode(const void *data, size_t bytes,
                                    tn_wav_info *out_info);

/* Options of tn_wav_load and tn_wav_decode:
 *   normalize    the result is float32, integers are divided by 2^(bits - 1).
 *                If not, it has the dtype of the samples: uint8 (pcm8), int16,
 *                int32 (pcm32, and pcm24 multiplied by 256), float32 or float64
 *   first_frame  the first frame that is read, 0 to the number of frames
 *   frames       the largest number of frames; -1: all */
#define TN_WAV_LOAD_OPTIONS_LIST(X)                                           \
    X(bool, normalize, true)                                                  \
    X(int64_t, first_frame, 0)                                                \
    X(int64_t, frames, -1)
TN_OPTIONS_STRUCT(tn_wav_load, TN_WAV_LOAD_OPTIONS_LIST);
#define TN_WAV_LOAD_OPTIONS                                                   \
    TN_OPTIONS_DEFAULTS(tn_wav_load, TN_WAV_LOAD_OPTIONS_LIST)
/* Loads a WAV file as (channels, frames) on the current device. Only the requested
 * frames are read. Stores the sample rate in *out_sample_rate, which may be
 * NULL. Returns NULL with the errors of tn_wav_info_load, or TN_ERR_ARGUMENT or
 * TN_ERR_MEMORY. Source: torchaudio.load. */
TN_API tn_tensor *tn_wav_load_with(const char *path, int64_t *out_sample_rate,
                                   const tn_wav_load_options *options);
/* The same for a file in memory: its bytes, which are lent. */
TN_OPTIONS_STRUCT(tn_wav_decode, TN_WAV_LOAD_OPTIONS_LIST);
#define TN_WAV_DECODE_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_wav_decode, TN_WAV_LOAD_OPTIONS_LIST)
TN_API tn_tensor *tn_wav_decode_with(const void *data, size_t bytes,
                                     int64_t *out_sample_rate,
                                     const tn_wav_decode_options *options);

/* Option of tn_wav_save:
 *   format   of the samples. NULL: "f64" for float64, "f32" for other
 *            floating-point dtypes; "pcm8" for uint8, "pcm16" for int16,
 *            "pcm32" for int32 */
#define TN_WAV_SAVE_OPTIONS_LIST(X) X(const char *, format, NULL)
TN_OPTIONS_STRUCT(tn_wav_save, TN_WAV_SAVE_OPTIONS_LIST);
#define TN_WAV_SAVE_OPTIONS                                                   \
    TN_OPTIONS_DEFAULTS(tn_wav_save, TN_WAV_SAVE_OPTIONS_LIST)
/* Replaces the file at path atomically (<tenon/io.h>).
 *
 *   waveform     (channels, frames), or (frames) for one channel; float32,
 *                float64, float16, bfloat16, uint8, int16 or int32
 *   sample_rate  1 to 2^32 - 1
 *
 * Numbers are converted as tn_wav_load normalizes them. For integer formats
 * they are clamped to -1 .. 1 and rounded to nearest. Fails with
 * TN_ERR_ARGUMENT if a number is NaN and the format is integer, or if the file
 * would have more than 4 GiB; TN_ERR_SHAPE for more than 65535 channels; and
 * with the errors of tn_file_replace.
 * Source: torchaudio.save. */
TN_API tn_status tn_wav_save_with(const char *path, tn_tensor *waveform,
                                  int64_t sample_rate,
                                  const tn_wav_save_options *options);

/* ---- resampling ------------------------------------------------------------ */

/* Options of tn_resample:
 *   lowpass_filter_width  zero crossings of the filter on each side: sharper
 *                         and slower
 *   rolloff               cutoff as a fraction of the lower Nyquist frequency,
 *                         greater than 0 and at most 1
 *   resampling_method     "sinc_interp_hann" or "sinc_interp_kaiser"
 *   beta                  of the Kaiser window; default 14.769656459379492 */
#define TN_RESAMPLE_OPTIONS_LIST(X)                                           \
    X(int64_t, lowpass_filter_width, 6)                                       \
    X(double, rolloff, 0.99)                                                  \
    X(const char *, resampling_method, "sinc_interp_hann")                    \
    X(double, beta, TN_NONE_FLOAT)
TN_OPTIONS_STRUCT(tn_resample, TN_RESAMPLE_OPTIONS_LIST);
#define TN_RESAMPLE_OPTIONS                                                   \
    TN_OPTIONS_DEFAULTS(tn_resample, TN_RESAMPLE_OPTIONS_LIST)
/* Resamples waveform (..., time) from one sample rate to another: the result
 * has ceil(time * new_freq / orig_freq) samples. The filter has at least
 * new_freq * orig_freq / gcd^2 coefficients, where gcd is the greatest common
 * divisor of the two rates. Rates for which it needs more than 2^26
 * coefficients are rejected.
 * Source: torchaudio.functional.resample. */
TN_API tn_tensor *tn_resample_with(tn_tensor *waveform, int64_t orig_freq,
                                   int64_t new_freq,
                                   const tn_resample_options *options);

/* ---- spectrograms ------------------------------------------------------------ */

/* Options of tn_spectrogram:
 *   win_length  size of the window; default n_fft
 *   hop_length  distance of frames; default win_length / 2
 *   window      (win_length); default the periodic Hann window
 *   pad         zeros added at both ends
 *   power       exponent of the magnitudes; 0: complex numbers
 *   normalized  NULL, "window" (divides by the norm of the window) or
 *               "frame_length" (divides by sqrt(n_fft))
 *   center, pad_mode, onesided   as in tn_stft */
#define TN_SPECTROGRAM_OPTIONS_LIST(X)                                        \
    X(int64_t, win_length, TN_NONE_INT)                                       \
    X(int64_t, hop_length, TN_NONE_INT)                                       \
    X(tn_tensor *, window, NULL)                                              \
    X(int64_t, pad, 0)                                                        \
    X(double, power, 2)                                                       \
    X(const char *, normalized, NULL)                                         \
    X(bool, center, true)                                                     \
    X(const char *, pad_mode, "reflect")                                      \
    X(bool, onesided, true)
TN_OPTIONS_STRUCT(tn_spectrogram, TN_SPECTROGRAM_OPTIONS_LIST);
#define TN_SPECTROGRAM_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_spectrogram, TN_SPECTROGRAM_OPTIONS_LIST)
/* Returns the spectrogram of waveform (..., time): (..., n_fft / 2 + 1,
 * frames), or (..., n_fft, frames) if not onesided. With power 0 a last
 * dimension has real and imaginary parts.
 * Source: torchaudio.transforms.Spectrogram. */
TN_API tn_tensor *tn_spectrogram_with(tn_tensor *waveform, int64_t n_fft,
                                      const tn_spectrogram_options *options);

/* Options of tn_inverse_spectrogram: as for tn_spectrogram, and
 *   length   of the result; default: what the frames cover */
#define TN_INVERSE_SPECTROGRAM_OPTIONS_LIST(X)                                \
    X(int64_t, length, TN_NONE_INT)                                           \
    X(int64_t, win_length, TN_NONE_INT)                                       \
    X(int64_t, hop_length, TN_NONE_INT)                                       \
    X(tn_tensor *, window, NULL)                                              \
    X(const char *, normalized, NULL)                                         \
    X(bool, center, true)
TN_OPTIONS_STRUCT(tn_inverse_spectrogram, TN_INVERSE_SPECTROGRAM_OPTIONS_LIST);
#define TN_INVERSE_SPECTROGRAM_OPTIONS                                        \
    TN_OPTIONS_DEFAULTS(tn_inverse_spectrogram,                               \
                        TN_INVERSE_SPECTROGRAM_OPTIONS_LIST)
/* Returns the waveform (..., time) whose spectrogram with power 0 is nearest to
 * spectrogram (..., n_fft / 2 + 1, frames, 2). The windows must overlap so that
 * no sample has the weight 0 (TN_ERR_ARGUMENT).
 * Source: torchaudio.functional.inverse_spectrogram. */
TN_API tn_tensor *
tn_inverse_spectrogram_with(tn_tensor *spectrogram, int64_t n_fft,
                            const tn_inverse_spectrogram_options *options);

/* Options of tn_melscale_fbanks:
 *   f_min, f_max  the lowest and highest frequency in Hz; f_max: by default
 *                 sample_rate / 2
 *   norm          NULL, or "slaney": divides by the widths of the filters
 *   mel_scale     "htk" or "slaney"
 *   dtype, device of the result; device NULL: the current device */
#define TN_MELSCALE_FBANKS_OPTIONS_LIST(X)                                    \
    X(double, f_min, 0)                                                       \
    X(double, f_max, TN_NONE_FLOAT)                                           \
    X(const char *, norm, NULL)                                               \
    X(const char *, mel_scale, "htk")                                         \
    X(tn_dtype, dtype, TN_F32)                                                \
    X(tn_device *, device, NULL)
TN_OPTIONS_STRUCT(tn_melscale_fbanks, TN_MELSCALE_FBANKS_OPTIONS_LIST);
#define TN_MELSCALE_FBANKS_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_melscale_fbanks, TN_MELSCALE_FBANKS_OPTIONS_LIST)
/* Returns triangular filters (n_freqs, n_mels), computed in float64.
 * Source: torchaudio.functional.melscale_fbanks. */
TN_API tn_tensor *
tn_melscale_fbanks_with(int64_t n_freqs, int64_t n_mels, int64_t sample_rate,
                        const tn_melscale_fbanks_options *options);

/* Returns the sums of the frequencies of a spectrogram (..., n_freqs, frames)
 * with the weights of filters (n_freqs, n_mels): (..., n_mels, frames).
 * Source: torchaudio.transforms.MelScale. */
TN_API tn_tensor *tn_mel_scale(tn_tensor *spectrogram, tn_tensor *fbanks);

/* Options of tn_mel_spectrogram: those of tn_spectrogram and
 * tn_melscale_fbanks, and
 *   fbanks   (n_fft / 2 + 1, n_mels): filters from tn_melscale_fbanks, so that
 *            they are not computed at each call; excludes n_mels, f_min, f_max,
 *            norm and mel_scale */
#define TN_MEL_SPECTROGRAM_OPTIONS_LIST(X)                                    \
    X(int64_t, n_fft, 400)                                                    \
    X(int64_t, win_length, TN_NONE_INT)                                       \
    X(int64_t, hop_length, TN_NONE_INT)                                       \
    X(tn_tensor *, window, NULL)                                              \
    X(int64_t, pad, 0)                                                        \
    X(double, power, 2)                                                       \
    X(const char *, normalized, NULL)                                         \
    X(bool, center, true)                                                     \
    X(const char *, pad_mode, "reflect")                                      \
    X(int64_t, n_mels, 128)                                                   \
    X(double, f_min, 0)                                                       \
    X(double, f_max, TN_NONE_FLOAT)                                           \
    X(const char *, norm, NULL)                                               \
    X(const char *, mel_scale, "htk")                                         \
    X(tn_tensor *, fbanks, NULL)
TN_OPTIONS_STRUCT(tn_mel_spectrogram, TN_MEL_SPECTROGRAM_OPTIONS_LIST);
#define TN_MEL_SPECTROGRAM_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_mel_spectrogram, TN_MEL_SPECTROGRAM_OPTIONS_LIST)
/* Returns the mel spectrogram of waveform (..., time): (..., n_mels, frames).
 * Source: torchaudio.transforms.MelSpectrogram. */
TN_API tn_tensor *
tn_mel_spectrogram_with(tn_tensor *waveform, int64_t sample_rate,
                        const tn_mel_spectrogram_options *options);

/* Options of tn_amplitude_to_db:
 *   multiplier     10 for power, 20 for magnitudes
 *   amin           smaller numbers are clamped to it; greater than 0
 *   db_multiplier  log10 of the reference, which becomes 0 dB
 *   top_db         results are at least the maximum less top_db; the maximum of
 *                  each (channels, frequencies, frames). None: no limit */
#define TN_AMPLITUDE_TO_DB_OPTIONS_LIST(X)                                    \
    X(double, multiplier, 10)                                                 \
    X(double, amin, 1e-10)                                                    \
    X(double, db_multiplier, 0)                                               \
    X(double, top_db, TN_NONE_FLOAT)
TN_OPTIONS_STRUCT(tn_amplitude_to_db, TN_AMPLITUDE_TO_DB_OPTIONS_LIST);
#define TN_AMPLITUDE_TO_DB_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_amplitude_to_db, TN_AMPLITUDE_TO_DB_OPTIONS_LIST)
/* Converts x (..., frequencies, frames) to decibels:
 * multiplier * (log10(max(x, amin)) - db_multiplier).
 * Source: torchaudio.functional.amplitude_to_DB. */
TN_API tn_tensor *
tn_amplitude_to_db_with(tn_tensor *x, const tn_amplitude_to_db_options *options);

/* The inverse: ref * (10^(x / 10))^power. power 1 gives power, 0.5 magnitudes.
 * Source: torchaudio.functional.DB_to_amplitude. */
TN_API tn_tensor *tn_db_to_amplitude(tn_tensor *x, double ref, double power);

/* Options of tn_mfcc:
 *   n_mfcc    number of coefficients, at most the number of mel filters
 *   norm      of the cosine transform (type 2): "ortho", or "none" (torchaudio's
 *             None)
 *   log_mels  log(mel + 1e-6) instead of decibels with top_db 80
 *   mel       options of tn_mel_spectrogram; NULL: the defaults */
#define TN_MFCC_OPTIONS_LIST(X)                                               \
    X(int64_t, n_mfcc, 40)                                                    \
    X(const char *, norm, "ortho")                                            \
    X(bool, log_mels, false)                                                  \
    X(const tn_mel_spectrogram_options *, mel, NULL)
TN_OPTIONS_STRUCT(tn_mfcc, TN_MFCC_OPTIONS_LIST);
#define TN_MFCC_OPTIONS TN_OPTIONS_DEFAULTS(tn_mfcc, TN_MFCC_OPTIONS_LIST)
/* Returns mel-frequency cepstral coefficients of waveform (..., time):
 * (..., n_mfcc, frames).
 *
 *     tn_mel_spectrogram_options mel = TN_MEL_SPECTROGRAM_OPTIONS;
 *     mel.n_mels = 80;
 *     tn_tensor *y = tn_mfcc(x, 16000, .n_mfcc = 13, .mel = &mel);
 *
 * Source: torchaudio.transforms.MFCC. */
TN_API tn_tensor *tn_mfcc_with(tn_tensor *waveform, int64_t sample_rate,
                               const tn_mfcc_options *options);

/* ---- mu-law -------------------------------------------------------------------- */

/* Codes numbers from -1 to 1 as int64 from 0 to channels - 1, with finer steps
 * near 0. channels: 2 to 2^24, usually 256. No gradient.
 * Source: torchaudio.functional.mu_law_encoding. */
TN_API tn_tensor *tn_mu_law_encoding(tn_tensor *x, int64_t channels);
/* The inverse. codes may have any number dtype; integers give float32.
 * Source: torchaudio.functional.mu_law_decoding. */
TN_API tn_tensor *tn_mu_law_decoding(tn_tensor *codes, int64_t channels);

#ifndef __cplusplus
#define tn_wav_load(...) TN_CALL_2(tn_wav_load, __VA_ARGS__, )
#define tn_wav_decode(...) TN_CALL_3(tn_wav_decode, __VA_ARGS__, )
#define tn_wav_save(...) TN_CALL_3(tn_wav_save, __VA_ARGS__, )
#define tn_resample(...) TN_CALL_3(tn_resample, __VA_ARGS__, )
#define tn_spectrogram(...) TN_CALL_2(tn_spectrogram, __VA_ARGS__, )
#define tn_inverse_spectrogram(...)                                           \
    TN_CALL_2(tn_inverse_spectrogram, __VA_ARGS__, )
#define tn_melscale_fbanks(...) TN_CALL_3(tn_melscale_fbanks, __VA_ARGS__, )
#define tn_mel_spectrogram(...) TN_CALL_2(tn_mel_spectrogram, __VA_ARGS__, )
#define tn_amplitude_to_db(...) TN_CALL_1(tn_amplitude_to_db, __VA_ARGS__, )
#define tn_mfcc(...) TN_CALL_2(tn_mfcc, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_2(tn_tensor *, tn_wav_load, const char *, int64_t *)
TN_OVERLOAD_3(tn_tensor *, tn_wav_decode, const void *, size_t, int64_t *)
TN_OVERLOAD_3(tn_status, tn_wav_save, const char *, tn_tensor *, int64_t)
TN_OVERLOAD_3(tn_tensor *, tn_resample, tn_tensor *, int64_t, int64_t)
TN_OVERLOAD_2(tn_tensor *, tn_spectrogram, tn_tensor *, int64_t)
TN_OVERLOAD_2(tn_tensor *, tn_inverse_spectrogram, tn_tensor *, int64_t)
TN_OVERLOAD_3(tn_tensor *, tn_melscale_fbanks, int64_t, int64_t, int64_t)
TN_OVERLOAD_2(tn_tensor *, tn_mel_spectrogram, tn_tensor *, int64_t)
TN_OVERLOAD_1(tn_tensor *, tn_amplitude_to_db, tn_tensor *)
TN_OVERLOAD_2(tn_tensor *, tn_mfcc, tn_tensor *, int64_t)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
