/* test_wav.c: WAV files, valid, odd and hostile. */
#include "../vision/stored.h"

#include <sys/stat.h>
#include <tenon/sound.h>
#include <unistd.h>

static char scratch[] = "/tmp/tenon-wav-XXXXXX", path[4096];

static const char *file(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    return path;
}

/* A file in memory. */
typedef struct bytes {
    unsigned char at[4096];
    size_t count;
} bytes;

static void put(bytes *b, uint64_t x, int n)
{
    for (int i = 0; i < n; i++)
        b->at[b->count++] = (unsigned char)(x >> 8 * i);
}

static void put_text(bytes *b, const char *text)
{
    memcpy(b->at + b->count, text, strlen(text));
    b->count += strlen(text);
}

/* Begins a file: a header, and a fmt chunk of 16 bytes. */
static bytes begin(int tag, int channels, int bits)
{
    bytes b = {.count = 0};
    put_text(&b, "RIFF");
    put(&b, 0, 4);
    put_text(&b, "WAVEfmt ");
    put(&b, 16, 4);
    put(&b, (uint64_t)tag, 2);
    put(&b, (uint64_t)channels, 2);
    put(&b, 8000, 4);
    put(&b, (uint64_t)(8000 * channels * bits / 8), 4);
    put(&b, (uint64_t)(channels * bits / 8), 2);
    put(&b, (uint64_t)bits, 2);
    return b;
}

/* Adds a data chunk and sets the RIFF size. */
static void finish(bytes *b, const void *data, size_t n)
{
    put_text(b, "data");
    put(b, n, 4);
    memcpy(b->at + b->count, data, n);
    b->count += n;
    const uint64_t riff = b->count - 8;
    for (int i = 0; i < 4; i++)
        b->at[4 + i] = (unsigned char)(riff >> 8 * i);
}

static tn_tensor *decode(const bytes *b)
{
    /* memory that ends with the file, so that sanitizers detect reads past
     * it */
    unsigned char *copy = malloc(b->count + !b->count);
    memcpy(copy, b->at, b->count);
    tn_tensor *x = tn_wav_decode(copy, b->count, NULL);
    free(copy);
    return x;
}

static void refused_bytes(const bytes *b, tn_status code, const char *text,
                          const char *what)
{
    const bool failed = !decode(b);
    const tn_error_details *e = tn_error_info();
    is_str(e ? e->argument : NULL, "data", "the error names the argument");
    refused(failed, code, text, what);
}

/* Like refused, and the error names the argument. */
static void refused_path(bool failed, tn_status code, const char *text,
                         const char *what)
{
    const tn_error_details *e = tn_error_info();
    is_str(e ? e->argument : NULL, "path", "the error names the argument");
    refused(failed, code, text, what);
}

static void check_python(void)
{
    const int bits[] = {8, 16, 24, 32};
    const tn_dtype dtype[] = {TN_U8, TN_I16, TN_I32, TN_I32};
    for (int i = 0; i < 4; i++) {
        char name[32];
        unsigned char data[1024];
        snprintf(name, sizeof name, "wav%d", bits[i]);
        tn_tensor *t = stored(name);
        const size_t n = (size_t)tn_tensor_numel(t);
        int64_t rate = 0;
        if (tn_tensor_to_array(t, data, n) < 0)
            bail_out("%s", tn_error());
        tn_tensor *x = tn_wav_decode(data, n, &rate);
        strcat(name, "_samples");
        close_to(x, stored(name), 1e-7, name);
        is_int(rate, 11025, "the sample rate");
        tn_tensor *raw = tn_wav_decode(data, n, NULL, .normalize = false);
        ok(raw && tn_tensor_dtype(raw) == dtype[i], "the dtype of %d bits",
           bits[i]);
        /* saving raw samples gives the same file */
        static const char *const format[] = {"pcm8", "pcm16", "pcm24",
                                             "pcm32"};
        void *again = NULL;
        size_t size;
        ok(tn_wav_save(file("again.wav"), raw, 11025, .format = format[i]) ==
                   TN_OK &&
               tn_file_read(path, "test", &again, &size) == TN_OK && size == n &&
               memcmp(again, data, n) == 0,
           "saving %d bits gives the same bytes", bits[i]);
        free(again);
        again = NULL;
        ok(tn_wav_save(file("again.wav"), tn_wav_decode(data, n, NULL), 11025,
                       .format = format[i]) == TN_OK &&
               (i == 3 || (tn_file_read(path, "test", &again, &size) == TN_OK &&
                           size == n && memcmp(again, data, n) == 0)),
           "and saving the float32 samples");
        free(again);
    }
}

static void check_round_trip(void)
{
    tn_tensor *x = noise(tn_dims(3, 777), 7, -0.99, 0.99, TN_F64);
    static const char *const format[] = {"pcm8", "pcm16", "pcm24", "pcm32",
                                         "f32", "f64"};
    const double step[] = {0x1p-8, 0x1p-16, 0x1p-24, 0x1p-24, 0x1p-24,
                           0x1p-24};
    for (int i = 0; i < 6; i++) {
        tn_wav_info d = {.size = sizeof d};
        int64_t rate = 0;
        ok(tn_wav_save(file("x.wav"), x, 44100, .format = format[i]) == TN_OK,
           "%s is saved", format[i]);
        ok(tn_wav_info_load(path, &d) == TN_OK && d.channels == 3 &&
               d.frames == 777 && d.sample_rate == 44100 &&
               strcmp(d.format, format[i]) == 0,
           "and described");
        tn_tensor *y = tn_wav_load(path, &rate);
        double worst = 1;
        if (y)
            worst = tn_item(tn_max(tn_abs(tn_sub(tn_to_dtype(y, TN_F64), x))));
        ok(y && worst <= step[i] * 1.01 && rate == 44100, "and loaded");
        y = tn_wav_load(path, NULL, .first_frame = 700, .frames = 50);
        close_to(y, tn_narrow(tn_wav_load(path, NULL), 1, 700, 50), 0,
                 "and a part of it");
        y = tn_wav_load(path, NULL, .first_frame = 700, .frames = 5000);
        ok(y && tn_tensor_size(y, 1) == 77, "which ends with the file");
        y = tn_wav_load(path, NULL, .first_frame = 777);
        ok(y && tn_tensor_size(y, 1) == 0, "and may be empty");
    }
    tn_tensor *exact = tn_wav_load(file("x.wav"), NULL, .normalize = false);
    close_to(exact, x, 0, "f64 keeps every bit");
    const float loud[] = {2, -2, 0.5f / 32768, -0.5f / 32768, 1, -1, INFINITY,
                          1.5f / 32768};
    const int16_t want[] = {32767, -32768, 0, 0, 32767, -32768, 32767, 2};
    int16_t got[8];
    tn_tensor *l = tn_tensor_from_array(loud, TN_F32, tn_dims(8));
    ok(tn_wav_save(file("loud.wav"), l, 8000, .format = "pcm16") == TN_OK &&
           tn_tensor_to_array(tn_wav_load(path, NULL, .normalize = false), got,
                              sizeof got) == TN_OK &&
           memcmp(got, want, sizeof got) == 0,
       "numbers are rounded to even and clamped");
    tn_tensor *none = tn_zeros(tn_dims(1, 0));
    ok(tn_wav_save(file("none.wav"), none, 8000) == TN_OK &&
           tn_wav_load(path, NULL) != NULL,
       "a file without frames");
    for (tn_dtype t = TN_F32; t < TN_DTYPE_END; t++) {
        const bool fine = t == TN_F32 || t == TN_F64 || t == TN_F16 ||
                          t == TN_BF16 || t == TN_U8 || t == TN_I16 ||
                          t == TN_I32;
        const tn_status status = tn_wav_save(
            file("dtype.wav"), tn_zeros(tn_dims(5), .dtype = t), 8000);
        if (fine)
            ok(status == TN_OK, "%s is saved", tn_dtype_name(t));
        else
            refused(status < 0, TN_ERR_DTYPE, "waveform has dtype",
                    tn_dtype_name(t));
    }
}

static void check_odd(void)
{
    const int16_t data[] = {1, -2, 3, 4};
    bytes b = begin(1, 2, 16);
    put_text(&b, "LIST");
    put(&b, 3, 4);
    put_text(&b, "abc");
    put(&b, 0, 1); /* the padding of an odd size */
    put_text(&b, "junk");
    put(&b, 0, 4);
    finish(&b, data, 8);
    tn_tensor *x = decode(&b);
    ok(x && tn_tensor_size(x, 0) == 2 && tn_tensor_size(x, 1) == 2,
       "unknown chunks are skipped, with the padding of odd sizes");
    put_text(&b, "LIST");
    put(&b, 1000, 4);
    ok(decode(&b) != NULL, "what follows the data does not matter");

    b = begin(1, 2, 16);
    finish(&b, data, 7);
    x = decode(&b);
    ok(x && tn_tensor_size(x, 1) == 1, "an incomplete frame is ignored");
    for (int i = 0; i < 3; i++) {
        b = begin(1, 2, 16);
        finish(&b, data, 8);
        const uint32_t size = i == 1 ? 0 : UINT32_MAX,
                       riff = i == 2 ? 44 : i ? 0 : UINT32_MAX;
        memcpy(b.at + 40, &size, 4);
        memcpy(b.at + 4, &riff, 4);
        x = decode(&b);
        ok(x && tn_tensor_size(x, 1) == 2,
           "a streamed file extends to its end (%d)", i);
    }
    b = begin(1, 2, 16);
    finish(&b, data, 0);
    put(&b, 0, 4);
    x = decode(&b);
    ok(x && tn_tensor_size(x, 1) == 0, "an empty data chunk is empty");

    /* extensible */
    b = begin(0xFFFE, 2, 16);
    b.at[16] = 40;
    put(&b, 22, 2);
    put(&b, 16, 2);
    put(&b, 3, 4);
    put(&b, 1, 2);
    const unsigned char guid[14] = {0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xAA, 0,
                                    0x38, 0x9B, 0x71};
    memcpy(b.at + b.count, guid, 14);
    b.count += 14;
    bytes other = b;
    finish(&b, data, 8);
    close_to(decode(&b), tn_div_scalar(tn_to_dtype(
                             tn_transpose(tn_tensor_from_array(
                                              data, TN_I16, tn_dims(2, 2)),
                                          0, 1),
                             TN_F32), 32768),
             0, "WAVE_FORMAT_EXTENSIBLE");
    other.at[50] = 9;
    finish(&other, data, 8);
    refused_bytes(&other, TN_ERR_UNSUPPORTED, "is not supported",
                  "an unknown extensible format");

    /* RF64 */
    for (int i = 0; i < 2; i++) {
        bytes from = begin(1, 2, 16), r = {.count = 0};
        put_text(&r, i ? "BW64" : "RF64");
        put(&r, UINT32_MAX, 4);
        put_text(&r, "WAVEds64");
        put(&r, 28, 4);
        put(&r, 100, 8);
        put(&r, 8, 8);
        put(&r, 2, 8);
        put(&r, 0, 4);
        memcpy(r.at + r.count, from.at + 12, from.count - 12);
        r.count += from.count - 12;
        put_text(&r, "data");
        put(&r, UINT32_MAX, 4);
        memcpy(r.at + r.count, data, 8);
        r.count += 8;
        x = decode(&r);
        ok(x && tn_tensor_size(x, 1) == 2, "a file of 64-bit sizes");
        r.at[28] = 9;
        refused_bytes(&r, TN_ERR_FORMAT, "the data chunk has 9 bytes",
                      "whose data is longer than the file");
        memset(r.at + 28, 255, 8);
        refused_bytes(&r, TN_ERR_FORMAT, "the data chunk has",
                      "and one of 2^64 bytes");
    }
}

static void check_refused(void)
{
    const int16_t data[] = {1, -2, 3, 4};
    static const struct {
        int tag, bits;
        const char *text;
    } row[] = {{6, 8, "A-law"}, {7, 8, "mu-law"}, {2, 4, "Microsoft ADPCM"},
               {17, 4, "IMA ADPCM"}, {0x55, 16, "MP3"},
               {1, 12, "0x0001 with 12 bits"}, {3, 16, "0x0003 with 16 bits"},
               {1, 64, "with 64 bits"}, {999, 16, "0x03e7"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        bytes b = begin(row[i].tag, 2, row[i].bits);
        finish(&b, data, 8);
        refused_bytes(&b, TN_ERR_UNSUPPORTED, row[i].text, row[i].text);
    }
    bytes b = begin(1, 0, 16);
    finish(&b, data, 8);
    refused_bytes(&b, TN_ERR_FORMAT, "0 channels", "no channels");
    b = begin(1, 2, 16);
    finish(&b, data, 8);
    bytes bad = b;
    bad.at[24] = bad.at[25] = 0;
    refused_bytes(&bad, TN_ERR_FORMAT, "0 samples per second", "a rate of 0");
    bad = b;
    bad.at[32] = 3;
    refused_bytes(&bad, TN_ERR_FORMAT, "a frame has 3 bytes",
                  "frames of another size");
    bad = b;
    memcpy(bad.at, "RIFX", 4);
    refused_bytes(&bad, TN_ERR_UNSUPPORTED, "RIFX", "big-endian files");
    bad = b;
    memcpy(bad.at + 8, "AVI ", 4);
    refused_bytes(&bad, TN_ERR_FORMAT, "not a WAV file", "another RIFF file");
    bad = b;
    bad.at[40] = 9;
    refused_bytes(&bad, TN_ERR_FORMAT, "has 9 bytes, but", "too much data");
    bad = b;
    bad.at[16] = 15;
    refused_bytes(&bad, TN_ERR_FORMAT, "the fmt chunk has 15 bytes",
                  "a short fmt chunk");
    bad = b;
    memcpy(bad.at + 12, "data", 4);
    refused_bytes(&bad, TN_ERR_FORMAT, "before the fmt chunk",
                  "data before fmt");

    /* every beginning of a file, and every byte changed */
    int opened = 0;
    for (size_t n = 0; n < b.count; n++) {
        bytes cut = b;
        cut.count = n;
        opened += decode(&cut) != NULL;
        ok(tn_error() != NULL, "the first %zu bytes are no file", n);
        tn_error_clear();
    }
    is_int(opened, 0, "no beginning of a file is one");
    int fine = 0;
    for (size_t i = 0; i < b.count; i++)
        for (int bit = 0; bit < 8; bit++) {
            TN_SCOPE(scope) {
                bad = b;
                bad.at[i] ^= (unsigned char)(1 << bit);
                tn_tensor *x = decode(&bad);
                fine += x ? !tn_error() && tn_tensor_numel(x) <= 8
                          : tn_error() != NULL;
                tn_error_clear();
            }
        }
    is_int(fine, (int64_t)b.count * 8,
           "with any bit changed, a file is small or rejected");

    refused_path(!tn_wav_load(NULL, NULL), TN_ERR_ARGUMENT, "path", "no path");
    refused_path(!tn_wav_load(file("nothing.wav"), NULL), TN_ERR_IO,
                 "nothing.wav", "a file that does not exist");
    refused_path(!tn_wav_load(scratch, NULL), TN_ERR_IO, "regular",
                 "a folder");
    mkfifo(file("fifo"), 0600);
    refused_path(!tn_wav_load(path, NULL), TN_ERR_IO, "regular", "a FIFO");
    refused(!tn_wav_decode(NULL, 5, NULL), TN_ERR_ARGUMENT, "data is NULL",
            "no data");
    tn_wav_info d = {.size = sizeof d};
    refused(tn_wav_info_load(NULL, &d) < 0, TN_ERR_ARGUMENT, "path",
            "no path to describe");
    refused(tn_wav_info_load(path, NULL) < 0, TN_ERR_ARGUMENT,
            "out_info is NULL", "no description");
    refused(tn_wav_info_decode(NULL, 5, &d) < 0, TN_ERR_ARGUMENT,
            "data is NULL", "no data to describe");
    is_int(tn_wav_info_decode(b.at, b.count, &d), TN_OK,
           "a file in memory is described");
    ok(d.channels == 2 && d.frames == 2 && strcmp(d.format, "pcm16") == 0,
       "by what it contains");
    tn_wav_info older = {.size = offsetof(tn_wav_info, channels),
                         .channels = 77};
    ok(tn_wav_info_decode(b.at, b.count, &older) == TN_OK &&
           older.frames == 2 && older.channels == 77,
       "an older struct is filled as far as it goes");
    d.size = 0;
    refused(tn_wav_info_load(path, &d) < 0, TN_ERR_ARGUMENT,
            "set it to sizeof(tn_wav_info)", "a description without size");
    d.size = sizeof d + 8;
    refused(tn_wav_info_load(path, &d) < 0, TN_ERR_ARGUMENT,
            "out_info->size is", "a description of a later version");
    tn_tensor *x = tn_zeros(tn_dims(2, 9));
    refused(tn_wav_save(NULL, x, 8000) < 0, TN_ERR_ARGUMENT, "path",
            "no path to save");
    refused(tn_wav_save(file("y.wav"), NULL, 8000) < 0, TN_ERR_ARGUMENT,
            "waveform", "no waveform");
    refused(tn_wav_save(path, x, 0) < 0, TN_ERR_ARGUMENT, "sample_rate is 0",
            "a sample rate of 0");
    refused(tn_wav_save(path, x, 1ll << 32) < 0, TN_ERR_ARGUMENT,
            "sample_rate", "a sample rate of 2^32");
    refused(tn_wav_save(path, x, 8000, .format = "mp3") < 0, TN_ERR_ARGUMENT,
            "format is \"mp3\"", "an unknown format");
    refused(tn_wav_save(path, tn_zeros(tn_dims(1, 2, 3)), 8000) < 0,
            TN_ERR_SHAPE, "(channels, frames)", "three dimensions");
    refused(tn_wav_save(path, tn_zeros(tn_dims(70000, 1)), 8000) < 0,
            TN_ERR_SHAPE, "65535", "too many channels");
    refused(tn_wav_save(path, tn_zeros(tn_dims(20000, 1)), 8000) < 0,
            TN_ERR_SHAPE, "80000 bytes", "a frame that is too large");
    refused(tn_wav_save(path, tn_full(tn_dims(3), NAN), 8000,
                        .format = "pcm16") < 0,
            TN_ERR_ARGUMENT, "NaN", "NaN as an integer");
    ok(access(path, F_OK) != 0, "refused files are not written");
    ok(tn_wav_save(path, tn_full(tn_dims(3), NAN), 8000) == TN_OK,
       "NaN as float32");
    refused(!tn_wav_load(path, NULL, .first_frame = 4), TN_ERR_ARGUMENT,
            "first_frame is 4, but the file has 3", "beyond the end");
    refused(!tn_wav_load(path, NULL, .first_frame = -1), TN_ERR_ARGUMENT,
            "first_frame is -1", "before the start");
    refused(!tn_wav_load(path, NULL, .frames = -2), TN_ERR_ARGUMENT,
            "frames is -2", "a negative number of frames");
    ok(tn_wav_load(path, NULL) != NULL, "the next call works");
}

int main(void)
{
    plan_later();
    stored_open("sound/data/sound.gz");
    if (!mkdtemp(scratch))
        bail_out("no scratch folder");
    TN_SCOPE(scope) check_python();
    TN_SCOPE(scope) check_round_trip();
    TN_SCOPE(scope) check_odd();
    TN_SCOPE(scope) check_refused();
    static const char *const left[] = {"again.wav", "x.wav", "loud.wav",
                                       "none.wav", "dtype.wav", "fifo",
                                       "y.wav"};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        unlink(file(left[i]));
    is_int(rmdir(scratch), 0, "no other file is left");
    return done_testing();
}
