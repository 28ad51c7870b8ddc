/* wav_header.c: reads the chunks of a WAV file up to its samples. Every size is
 * checked against the size of the file before it is used. */
#include <media/sound/wav.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PCM = 1, FLOATING = 3, EXTENSIBLE = 0xFFFE };

static const tn__wav_format formats[] = {
    {"pcm8", PCM, 8, TN_U8},   {"pcm16", PCM, 16, TN_I16},
    {"pcm24", PCM, 24, TN_I32}, {"pcm32", PCM, 32, TN_I32},
    {"f32", FLOATING, 32, TN_F32}, {"f64", FLOATING, 64, TN_F64},
};

const tn__wav_format *tn__wav_format_at(int i)
{
    return i >= 0 && i < (int)(sizeof formats / sizeof *formats) ? &formats[i]
                                                                 : NULL;
}

/* Formats that are known but not read. Source: the registry in mmreg.h. */
static const struct {
    int tag;
    const char *name;
} compressed[] = {
    {0x0002, "Microsoft ADPCM"}, {0x0006, "A-law"},   {0x0007, "mu-law"},
    {0x0011, "IMA ADPCM"},       {0x0016, "G.723 ADPCM"},
    {0x0031, "GSM 6.10"},        {0x0040, "G.721 ADPCM"},
    {0x0050, "MPEG"},            {0x0055, "MP3"},     {0x0161, "WMA"},
    {0x00FF, "AAC"},             {0xF1AC, "FLAC"},    {0x674F, "Ogg Vorbis"},
};

/* Records an error that names the call, its argument and the file. */
__attribute__((format(printf, 3, 4))) static tn_status
fail(const tn__wav_source *s, tn_status code, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return tn_error_refuse_argument(code, s->call, s->argument, "%s: %s",
                                    s->name, text);
}

tn_status tn__wav_read(const tn__wav_source *s, uint64_t offset, void *out,
                       size_t bytes)
{
    if (s->fd < 0) {
        memcpy(out, s->data + offset, bytes);
        return TN_OK;
    }
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = pread(s->fd, (char *)out + done, bytes - done,
                                  (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(s, TN_ERR_IO, "%s", strerror(errno));
        if (got == 0)
            return fail(s, TN_ERR_IO, "it became shorter while it was read");
        done += (size_t)got;
    }
    return TN_OK;
}

static uint32_t u16(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8;
}

static uint32_t u32(const unsigned char *p)
{
    return u16(p) | u16(p + 2) << 16;
}

static uint64_t u64(const unsigned char *p)
{
    return u32(p) | (uint64_t)u32(p + 4) << 32;
}

/* Reads a fmt chunk of `size` bytes. */
static tn_status parse_format(const tn__wav_source *s, uint64_t at,
                              uint64_t size, tn__wav *w)
{
    /* the last 14 bytes of the GUID of a format with a tag */
    static const unsigned char guid[14] = {0, 0, 0, 0, 0x10, 0, 0x80, 0, 0,
                                           0xAA, 0, 0x38, 0x9B, 0x71};
    unsigned char p[40];
    if (size < 16)
        return fail(s, TN_ERR_FORMAT,
                    "the fmt chunk has %llu bytes; expected at least 16",
                    (unsigned long long)size);
    const size_t have = size < sizeof p ? (size_t)size : sizeof p;
    const tn_status status = tn__wav_read(s, at, p, have);
    if (status < 0)
        return status;
    uint32_t tag = u16(p), bits = u16(p + 14), align = u16(p + 12);
    w->channels = (int)u16(p + 2);
    w->rate = u32(p + 4);
    if (tag == EXTENSIBLE) {
        if (have < 40)
            return fail(s, TN_ERR_FORMAT,
                        "the fmt chunk of an extensible format has %llu "
                        "bytes; expected 40",
                        (unsigned long long)size);
        if (memcmp(p + 26, guid, sizeof guid) != 0)
            return fail(s, TN_ERR_UNSUPPORTED, "the format is not supported");
        tag = u16(p + 24);
    }
    for (size_t i = 0; i < sizeof compressed / sizeof *compressed; i++)
        if ((int)tag == compressed[i].tag)
            return fail(s, TN_ERR_UNSUPPORTED,
                        "%s is not supported; a program such as sox or ffmpeg "
                        "converts it to PCM",
                        compressed[i].name);
    if (w->channels < 1 || w->rate < 1)
        return fail(s, TN_ERR_FORMAT, "it has %d channels and %u samples per "
                    "second", w->channels, (unsigned)w->rate);
    w->format = NULL;
    for (int i = 0; tn__wav_format_at(i); i++)
        if (formats[i].tag == (int)tag && formats[i].bits == (int)bits)
            w->format = &formats[i];
    if (!w->format)
        return fail(s, TN_ERR_UNSUPPORTED,
                    "format 0x%04x with %u bits is not supported",
                    (unsigned)tag, (unsigned)bits);
    if (align != (uint32_t)w->channels * bits / 8)
        return fail(s, TN_ERR_FORMAT,
                    "a frame has %u bytes, but %d channels of %u bits",
                    (unsigned)align, w->channels, (unsigned)bits);
    return TN_OK;
}

/* Sets the start and number of frames from the size of the data chunk. riff:
 * the size in the file's header. */
static tn_status measure(const tn__wav_source *s, uint64_t at, uint64_t size,
                         uint32_t riff, bool is_long, tn__wav *w)
{
    const uint64_t rest = s->bytes - at;
    if ((size == UINT32_MAX && !is_long) ||
        (size == 0 && (riff == 0 || riff == UINT32_MAX)))
        size = rest; /* streamed: the size was not known */
    if (size > rest)
        return fail(s, TN_ERR_FORMAT,
                    "the data chunk has %llu bytes, but the file has only "
                    "%llu more",
                    (unsigned long long)size, (unsigned long long)rest);
    w->start = at;
    w->frames = (int64_t)(size / ((uint64_t)w->channels *
                                  (uint64_t)w->format->bits / 8));
    return TN_OK;
}

tn_status tn__wav_parse(const tn__wav_source *s, tn__wav *out)
{
    unsigned char p[28];
    if (s->bytes < 12)
        return fail(s, TN_ERR_FORMAT, "it has %llu bytes and is not a WAV file",
                    (unsigned long long)s->bytes);
    tn_status status = tn__wav_read(s, 0, p, 12);
    if (status < 0)
        return status;
    const bool is_long = memcmp(p, "RF64", 4) == 0 || memcmp(p, "BW64", 4) == 0;
    if (memcmp(p, "RIFX", 4) == 0)
        return fail(s, TN_ERR_UNSUPPORTED,
                    "RIFX, the big-endian form of WAV, is not supported");
    if ((memcmp(p, "RIFF", 4) != 0 && !is_long) ||
        memcmp(p + 8, "WAVE", 4) != 0)
        return fail(s, TN_ERR_FORMAT, "it is not a WAV file");
    const uint32_t riff = u32(p + 4);
    uint64_t long_size = 0, at = 12;
    bool has_sizes = false;
    *out = (tn__wav){0};
    while (s->bytes - at >= 8) {
        status = tn__wav_read(s, at, p, 8);
        if (status < 0)
            return status;
        uint64_t size = u32(p + 4);
        at += 8;
        if (memcmp(p, "data", 4) == 0) {
            if (!out->format)
                return fail(s, TN_ERR_FORMAT,
                            "the data chunk comes before the fmt chunk");
            if (size == UINT32_MAX && has_sizes)
                return measure(s, at, long_size, riff, true, out);
            return measure(s, at, size, riff, false, out);
        }
        if (size > s->bytes - at)
            return fail(s, TN_ERR_FORMAT,
                        "a chunk has %llu bytes, but the file has only %llu "
                        "more",
                        (unsigned long long)size,
                        (unsigned long long)(s->bytes - at));
        if (memcmp(p, "fmt ", 4) == 0) {
            status = parse_format(s, at, size, out);
        } else if (memcmp(p, "ds64", 4) == 0 && is_long && size >= 24) {
            status = tn__wav_read(s, at, p, 24);
            long_size = u64(p + 8);
            has_sizes = true;
        }
        if (status < 0)
            return status;
        size += size & 1; /* chunks begin at even bytes */
        at += size < s->bytes - at ? size : s->bytes - at;
    }
    return fail(s, TN_ERR_FORMAT, "it ends before a data chunk");
}
