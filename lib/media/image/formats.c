/* formats.c: the table of formats, found by contents, by a path's extension and
 * by name. */
#include <media/image/formats.h>

#include <string.h>
#include <strings.h>

static const tn__image_format *const formats[] = {&tn__image_png,
                                                  &tn__image_jpeg};
enum { FORMAT_COUNT = sizeof formats / sizeof *formats };

/* Formats that are recognised in order to name them. */
static const struct {
    const char *title;
    size_t at;
    const char *magic;
    size_t bytes;
} others[] = {
    {"GIF", 0, "GIF8", 4},
    {"WebP", 8, "WEBP", 4},
    {"TIFF", 0, "II*\0", 4},
    {"TIFF", 0, "MM\0*", 4},
    {"AVIF", 4, "ftypavif", 8},
    {"HEIC", 4, "ftyphei", 7},
    {"HEIC", 4, "ftypmif1", 8},
    {"JPEG 2000", 0, "\0\0\0\x0cjP  ", 8},
    {"JPEG 2000", 0, "\xff\x4f\xff\x51", 4},
    {"JPEG XL", 0, "\xff\x0a", 2},
    {"JPEG XL", 0, "\0\0\0\x0cJXL ", 8},
    {"Photoshop", 0, "8BPS", 4},
    {"QOI", 0, "qoif", 4},
    {"ICO", 0, "\0\0\1\0", 4},
    {"SVG", 0, "<svg", 4},
    {"PDF", 0, "%PDF", 4},
    /* BMP files have four zero bytes behind their size. */
    {"BMP", 6, "\0\0\0\0", 4},
};

static tn_status name_other(const unsigned char *data, size_t bytes,
                            tn__why *why)
{
    if (bytes == 0)
        return tn__because(why, TN_ERR_FORMAT, "it is empty");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const bool bmp = strcmp(others[i].title, "BMP") == 0;
        if (bytes >= others[i].at + others[i].bytes &&
            memcmp(data + others[i].at, others[i].magic, others[i].bytes) ==
                0 &&
            (!bmp || memcmp(data, "BM", 2) == 0))
            return tn__because(why, TN_ERR_FORMAT,
                               "%s is not supported; PNG and JPEG are",
                               others[i].title);
    }
    size_t cut = 0;
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (bytes < formats[i]->magic_bytes &&
            memcmp(data, formats[i]->magic, bytes) == 0)
            cut = bytes;
    return cut ? tn__because(why, TN_ERR_FORMAT,
                             "it is truncated: %zu bytes are no image", cut)
               : tn__because(why, TN_ERR_FORMAT,
                             "it is neither PNG nor JPEG: it begins with %02x "
                             "%02x",
                             data[0], bytes > 1 ? data[1] : 0);
}

const tn__image_format *tn__format_of(const void *data, size_t bytes,
                                      tn_status *status, tn__why *why)
{
    for (int i = 0; i < FORMAT_COUNT; i++) {
        const tn__image_format *f = formats[i];
        if (bytes < f->magic_bytes || memcmp(data, f->magic, f->magic_bytes))
            continue;
        if (f->decode)
            return f;
        *status = tn__because(why, TN_ERR_UNSUPPORTED,
                              "%s needs a library that Tenon was built without "
                              "(Debian: %s)",
                              f->title, f->package);
        return NULL;
    }
    *status = name_other(data, bytes, why);
    return NULL;
}

const tn__image_format *tn__format_of_path(const char *path)
{
    const char *dot = strrchr(path, '.');
    for (int i = 0; dot && i < FORMAT_COUNT; i++)
        for (int k = 0; k < 3 && formats[i]->extensions[k]; k++)
            if (strcasecmp(dot + 1, formats[i]->extensions[k]) == 0)
                return formats[i];
    return NULL;
}

const tn__image_format *tn__format_of_name(const char *name)
{
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (strcmp(name, formats[i]->name) == 0)
            return formats[i];
    return NULL;
}
