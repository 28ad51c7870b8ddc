/* wav.c: WAV files as tensors. */
#include <base/nearest.h>
#include <media/result.h>
#include <media/sound/wav.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/autograd.h>
#include <tenon/io.h>
#include <tenon/ops.h>
#include <unistd.h>

TN_OPTIONS_TYPE(tn_wav_load, "wav_load", "path, out_sample_rate",
                TN_WAV_LOAD_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_wav_decode, "wav_decode", "data, bytes, out_sample_rate",
                TN_WAV_LOAD_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_wav_save, "wav_save", "path, waveform, sample_rate",
                TN_WAV_SAVE_OPTIONS_LIST)

/* ---- samples ---------------------------------------------------------------- */

/* Returns the sample at p as a float64: integers are divided by 2^(bits - 1).
 */
static double sample(const tn__wav_format *f, const unsigned char *p)
{
    float single;
    double full;
    switch (f->bits * (f->tag == 3 ? -1 : 1)) {
    case 8:
        return (p[0] - 128) / 128.0;
    case 16:
        return (int16_t)(p[0] | p[1] << 8) / 32768.0;
    case 24:
        return (int32_t)((uint32_t)p[0] << 8 | (uint32_t)p[1] << 16 |
                         (uint32_t)p[2] << 24) / 2147483648.0;
    case 32:
        return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 |
                         (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24) /
               2147483648.0;
    case -32:
        memcpy(&single, p, sizeof single);
        return (double)single;
    default:
        memcpy(&full, p, sizeof full);
        return full;
    }
}

/* Stores x as a sample at p: rounded to the nearest, and clamped. */
static void put_sample(const tn__wav_format *f, double x, unsigned char *p)
{
    const float single = (float)x;
    if (f->tag == 3) {
        memcpy(p, f->bits == 32 ? (const void *)&single : &x,
               (size_t)f->bits / 8);
        return;
    }
    const double scale = ldexp(1, f->bits - 1);
    const int64_t n = (int64_t)fmax(fmin(rint(x * scale), scale - 1), -scale);
    const uint64_t bits = (uint64_t)(f->bits == 8 ? n + 128 : n);
    for (int i = 0; i < f->bits / 8; i++)
        p[i] = (unsigned char)(bits >> 8 * i);
}

/* ---- reading ------------------------------------------------------------------ */

/* Stores interleaved samples in out, (channels, total), beginning at frame
 * `at`. */
static void spread(const tn__wav *w, const unsigned char *in, int64_t frames,
                   int64_t at, int64_t total, bool normalize, void *out)
{
    const int bytes = w->format->bits / 8;
    for (int c = 0; c < w->channels; c++) {
        const unsigned char *p = in + c * bytes;
        const int64_t to = c * total + at, step = (int64_t)w->channels * bytes;
        for (int64_t i = 0; i < frames; i++, p += step) {
            const double x = sample(w->format, p);
            if (normalize || w->format->dtype == TN_F32)
                ((float *)out)[to + i] = (float)x;
            else if (w->format->dtype == TN_F64)
                ((double *)out)[to + i] = x;
            else if (w->format->dtype == TN_U8)
                ((uint8_t *)out)[to + i] = p[0];
            else if (w->format->dtype == TN_I16)
                ((int16_t *)out)[to + i] = (int16_t)(x * 32768);
            else
                ((int32_t *)out)[to + i] = (int32_t)(x * 2147483648.0);
        }
    }
}

static tn_tensor *load(const tn__wav_source *s, int64_t *out_rate,
                       const tn_wav_load_options *o)
{
    TN__ROUND_NEAREST;
    tn__wav w;
    if (tn__wav_parse(s, &w) < 0)
        return NULL;
    if (o->first_frame < 0 || o->first_frame > w.frames) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, s->call, "first_frame",
                                 "first_frame is %lld, but the file has %lld "
                                 "frames",
                                 (long long)o->first_frame,
                                 (long long)w.frames);
        return NULL;
    }
    if (o->frames < -1) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, s->call, "frames",
                                 "frames is %lld; expected at least 0, or -1 "
                                 "for all",
                                 (long long)o->frames);
        return NULL;
    }
    int64_t total = w.frames - o->first_frame;
    if (o->frames >= 0 && o->frames < total)
        total = o->frames;
    const tn_dtype dtype = o->normalize ? TN_F32 : w.format->dtype;
    const size_t frame = (size_t)w.channels * (size_t)w.format->bits / 8;
    /* a block of frames is read at a time */
    const int64_t block = 1 + (1 << 18) / (int64_t)frame;
    unsigned char *in = malloc((size_t)block * frame);
    void *all = malloc((size_t)total * (size_t)w.channels *
                           (size_t)tn_dtype_bytes(dtype) +
                       1);
    tn_tensor *out = NULL;
    tn_status status = TN_OK;
    if (!in || !all)
        status = tn_error_set(TN_ERR_MEMORY, "%s: out of memory", s->call);
    for (int64_t at = 0, n; status >= 0 && at < total; at += n) {
        n = total - at < block ? total - at : block;
        status = tn__wav_read(
            s, w.start + (uint64_t)(o->first_frame + at) * frame, in,
            (size_t)n * frame);
        if (status >= 0)
            spread(&w, in, n, at, total, o->normalize, all);
    }
    if (status >= 0)
        out = tn_tensor_from_array(all, dtype, tn_dims(w.channels, total));
    free(in);
    free(all);
    if (out && out_rate)
        *out_rate = w.rate;
    return out;
}

/* Opens a regular file. Opening a FIFO does not wait. */
static tn_status open_source(const char *path, const char *call,
                             tn__wav_source *out)
{
    struct stat info;
    if (!path)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "path",
                                        "path is NULL");
    int fd = -1;
    bool found = stat(path, &info) == 0;
    if (found && S_ISREG(info.st_mode)) {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        found = fd >= 0 && fstat(fd, &info) == 0;
    }
    if (found && S_ISREG(info.st_mode)) {
        *out = (tn__wav_source){.fd = fd, .bytes = (uint64_t)info.st_size,
                                .call = call, .argument = "path",
                                .name = path};
        return TN_OK;
    }
    const int why = errno;
    if (fd >= 0)
        close(fd);
    return tn_error_refuse_argument(TN_ERR_IO, call, "path", "%s: %s", path,
                                    found ? "not a regular file"
                                          : strerror(why));
}

tn_tensor *tn_wav_load_with(const char *path, int64_t *out_sample_rate,
                            const tn_wav_load_options *options)
{
    tn_wav_load_options o;
    tn__wav_source s;
    if (tn_options_take(tn_wav_load_type(), &o, options) < 0 ||
        open_source(path, "wav_load", &s) < 0)
        return NULL;
    tn_tensor *out = load(&s, out_sample_rate, &o);
    close(s.fd);
    return out;
}

static tn__wav_source source_of(const void *data, size_t bytes,
                                const char *call)
{
    return (tn__wav_source){.fd = -1, .data = data, .bytes = bytes,
                            .call = call, .argument = "data", .name = "data"};
}

tn_tensor *tn_wav_decode_with(const void *data, size_t bytes,
                              int64_t *out_sample_rate,
                              const tn_wav_decode_options *options)
{
    tn_wav_decode_options o;
    if (tn_options_take(tn_wav_decode_type(), &o, options) < 0)
        return NULL;
    if (!data) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "wav_decode", "data",
                                 "data is NULL");
        return NULL;
    }
    const tn__wav_source s = source_of(data, bytes, "wav_decode");
    const tn_wav_load_options same = {
        .size = sizeof same, .given = "*", .normalize = o.normalize,
        .first_frame = o.first_frame, .frames = o.frames};
    return load(&s, out_sample_rate, &same);
}

static tn_status check_info(const tn_wav_info *out, const char *call)
{
    if (tn_error())
        return TN_ERR_STATE;
    return tn__result_check(out, "tn_wav_info", sizeof *out, call, "out_info");
}

static tn_status read_info(const tn__wav_source *s, tn_wav_info *out)
{
    tn__wav w;
    const tn_status status = tn__wav_parse(s, &w);
    if (status < 0)
        return status;
    const tn_wav_info info = {.format = w.format->name,
                              .sample_rate = w.rate,
                              .frames = w.frames,
                              .channels = w.channels};
    tn__result_store(out, &info);
    return TN_OK;
}

tn_status tn_wav_info_load(const char *path, tn_wav_info *out_info)
{
    static const char call[] = "wav_info_load";
    tn__wav_source s;
    tn_status status = check_info(out_info, call);
    if (status == TN_OK)
        status = open_source(path, call, &s);
    if (status < 0)
        return status;
    status = read_info(&s, out_info);
    close(s.fd);
    return status;
}

tn_status tn_wav_info_decode(const void *data, size_t bytes,
                             tn_wav_info *out_info)
{
    static const char call[] = "wav_info_decode";
    const tn_status status = check_info(out_info, call);
    if (status < 0)
        return status;
    if (!data)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "data",
                                        "data is NULL");
    const tn__wav_source s = source_of(data, bytes, call);
    return read_info(&s, out_info);
}

/* ---- writing -------------------------------------------------------------------- */

typedef struct job {
    const tn__wav_format *format;
    const double *sample; /* (channels, frames) */
    int64_t channels, frames;
    uint32_t rate;
} job;

static unsigned char *put(unsigned char *p, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *p++ = (unsigned char)(x >> 8 * i);
    return p;
}

static tn_status write_file(void *context, tn_file *file)
{
    TN__ROUND_NEAREST;
    const job *j = context;
    const int bytes = j->format->bits / 8;
    const uint64_t frame = (uint64_t)j->channels * (uint64_t)bytes,
                   data = (uint64_t)j->frames * frame;
    const bool is_float = j->format->tag == 3;
    /* a format that is not PCM has a longer fmt chunk, and a fact chunk */
    const unsigned head = is_float ? 50 : 36;
    unsigned char h[64], *p = h;
    memcpy(p, "RIFF", 4);
    p = put(p + 4, head + data + (data & 1), 4);
    memcpy(p, "WAVEfmt ", 8);
    p = put(p + 8, is_float ? 18 : 16, 4);
    p = put(p, (uint64_t)j->format->tag, 2);
    p = put(p, (uint64_t)j->channels, 2);
    p = put(p, j->rate, 4);
    p = put(p, j->rate * frame, 4);
    p = put(p, frame, 2);
    p = put(p, (uint64_t)j->format->bits, 2);
    if (is_float) {
        p = put(p, 0, 2);
        memcpy(p, "fact", 4);
        p = put(put(p + 4, 4, 4), (uint64_t)j->frames, 4);
    }
    memcpy(p, "data", 4);
    p = put(p + 4, data, 4);
    tn_status status = tn_file_write(file, h, (size_t)(p - h));
    const int64_t block = 1 + (1 << 18) / (int64_t)frame;
    unsigned char *buffer = malloc((size_t)block * frame + 1);
    if (!buffer)
        return tn_error_set(TN_ERR_MEMORY, "wav_save: out of memory");
    for (int64_t at = 0, n; status >= 0 && at < j->frames; at += n) {
        n = j->frames - at < block ? j->frames - at : block;
        for (int64_t i = 0; i < n; i++)
            for (int64_t c = 0; c < j->channels; c++)
                put_sample(j->format, j->sample[c * j->frames + at + i],
                           buffer + (i * j->channels + c) * bytes);
        status = tn_file_write(file, buffer, (size_t)n * frame);
    }
    free(buffer);
    if (status >= 0 && data & 1)
        status = tn_file_write(file, "", 1);
    return status;
}

/* Returns the format for x, or NULL with an error. */
static const tn__wav_format *choose(tn_tensor *x, const char *name)
{
    const tn_dtype dtype = tn_tensor_dtype(x);
    const char *usual = dtype == TN_F64   ? "f64"
                        : dtype == TN_U8  ? "pcm8"
                        : dtype == TN_I16 ? "pcm16"
                        : dtype == TN_I32 ? "pcm32"
                                          : "f32";
    if (dtype == TN_BOOL || dtype == TN_I64 || dtype == TN_I8 ||
        dtype == TN_F8E4M3 || dtype == TN_F8E5M2) {
        const tn_given given = {"waveform", x};
        tn_error_refuse(TN_ERR_DTYPE, "wav_save", &given, 1,
                        "waveform has dtype %s; expected float32, float64, "
                        "float16, bfloat16, uint8, int16 or int32",
                        tn_dtype_name(dtype));
        return NULL;
    }
    const tn__wav_format *f;
    for (int i = 0; (f = tn__wav_format_at(i)); i++)
        if (strcmp(f->name, name ? name : usual) == 0)
            return f;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, "wav_save", "format",
                             "format is \"%s\"; expected \"pcm8\", \"pcm16\", "
                             "\"pcm24\", \"pcm32\", \"f32\" or \"f64\"",
                             name);
    return NULL;
}

/* Copies x to the host as numbers from -1 to 1. */
static double *read_numbers(tn_tensor *x)
{
    const size_t count = (size_t)tn_tensor_numel(x);
    const tn_dtype dtype = tn_tensor_dtype(x);
    double *out = malloc((count + 1) * sizeof *out);
    if (!out)
        return tn_error_set(TN_ERR_MEMORY, "wav_save: out of memory"), NULL;
    tn_status status = TN_OK;
    TN_NO_GRAD
        TN_SCOPE(scope)
            status = tn_tensor_to_array(tn_to_dtype(x, TN_F64), out,
                                        count * sizeof *out);
    if (status < 0) {
        free(out);
        return NULL;
    }
    const double bias = dtype == TN_U8 ? 128 : 0;
    const double scale = dtype == TN_U8    ? 128
                         : dtype == TN_I16 ? 32768
                         : dtype == TN_I32 ? 2147483648.0
                                           : 1;
    for (size_t i = 0; i < count; i++)
        out[i] = (out[i] - bias) / scale;
    return out;
}

tn_status tn_wav_save_with(const char *path, tn_tensor *waveform,
                           int64_t sample_rate,
                           const tn_wav_save_options *options)
{
    const char *call = "wav_save";
    tn_wav_save_options o;
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn_object_check_kind(waveform, "tensor", call, "waveform") ||
        tn_options_take(tn_wav_save_type(), &o, options) < 0)
        return tn_error_code();
    if (!path)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "path",
                                        "path is NULL");
    if (sample_rate < 1 || sample_rate > UINT32_MAX)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "sample_rate",
                                        "sample_rate is %lld; expected 1 to "
                                        "2^32 - 1",
                                        (long long)sample_rate);
    const tn_given given = {"waveform", waveform};
    const int ndim = tn_tensor_ndim(waveform);
    job j = {.rate = (uint32_t)sample_rate,
             .channels = ndim == 2 ? tn_tensor_size(waveform, 0) : 1,
             .frames = tn_tensor_size(waveform, -1)};
    if (ndim < 1 || ndim > 2 || j.channels < 1 || j.channels > 65535)
        return tn_error_refuse(TN_ERR_SHAPE, call, &given, 1,
                               "waveform must have the shape (channels, "
                               "frames) with 1 to 65535 channels, or (frames)");
    j.format = choose(waveform, o.format);
    if (!j.format)
        return tn_error_code();
    const int64_t frame = j.channels * j.format->bits / 8;
    if (frame > 65535)
        return tn_error_refuse(TN_ERR_SHAPE, call, &given, 1,
                               "a frame has %lld bytes; a WAV file allows "
                               "65535",
                               (long long)frame);
    if (j.frames > (UINT32_MAX - 64ll) / frame)
        return tn_error_refuse(TN_ERR_ARGUMENT, call, &given, 1,
                               "%lld frames need more than 4 GiB",
                               (long long)j.frames);
    double *numbers = read_numbers(waveform);
    if (!numbers)
        return tn_error_code();
    tn_status status = TN_OK;
    for (int64_t i = 0; i < j.channels * j.frames && j.format->tag != 3; i++)
        if (isnan(numbers[i])) {
            status = tn_error_refuse(TN_ERR_ARGUMENT, call, &given, 1,
                                     "element %lld is NaN, which %s cannot "
                                     "store",
                                     (long long)i, j.format->name);
            break;
        }
    j.sample = numbers;
    if (status >= 0)
        status = tn_file_replace(path, call, write_file, &j);
    free(numbers);
    return status;
}
