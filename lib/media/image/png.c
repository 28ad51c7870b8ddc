/* png.c: reads and writes PNG files with libpng.
 *
 * libpng reports errors by longjmp. Each function that calls libpng is entered
 * with a struct of its caller, which holds all memory; so a jump loses nothing,
 * and the struct's members have defined values after it. */
#include <media/image/format.h>

#define PNG_MAGIC {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}
#define PNG_ROW                                                               \
    .name = "png", .title = "PNG", .package = "libpng-dev",                   \
    .extensions = {"png"}, .magic = PNG_MAGIC, .magic_bytes = 8

#ifdef HAVE_LIBPNG

#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

typedef struct png_job {
    png_structp png;
    png_infop info;
    tn__why *why;
    tn_status status;
    /* reading */
    const unsigned char *at, *end;
    bool truncated, no_memory;
    /* writing */
    tn__growing *out;
} png_job;

static void on_error(png_structp png, png_const_charp message)
{
    png_job *job = png_get_error_ptr(png);
    if (job->status == TN_OK && job->no_memory)
        job->status = tn__because(job->why, TN_ERR_MEMORY, "memory ran out");
    else if (job->status == TN_OK)
        job->status = job->truncated
                          ? tn__because(job->why, TN_ERR_FORMAT,
                                        "the PNG file is truncated")
                          : tn__because(job->why, TN_ERR_FORMAT,
                                        "the PNG file is damaged: %.120s",
                                        message);
    longjmp(png_jmpbuf(png), 1);
}

static png_voidp allocate(png_structp png, png_alloc_size_t bytes)
{
    png_job *job = png_get_mem_ptr(png);
    void *block = malloc(bytes);
    if (!block)
        job->no_memory = true;
    return block;
}

static void release(png_structp png, png_voidp block)
{
    (void)png;
    free(block);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

/* ---- reading ------------------------------------------------------------ */

static void read_bytes(png_structp png, png_bytep out, size_t count)
{
    png_job *job = png_get_io_ptr(png);
    if ((size_t)(job->end - job->at) < count) {
        job->truncated = true;
        png_error(png, "end of data");
    }
    memcpy(out, job->at, count);
    job->at += count;
}

/* Chunks that are not needed are not stored, so none of them is decompressed.
 * orientation_of reads eXIf; libpng 1.6.39 would allocate the length that this
 * chunk claims, up to 2 GiB. */
static void skip_chunks(png_structp png)
{
    static const png_byte names[] = "bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0"
                                    "pCAL\0pHYs\0sBIT\0sCAL\0sPLT\0sRGB\0tEXt\0"
                                    "tIME\0zTXt";
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, names,
                                (int)(sizeof names / 5));
}

static bool begin_reading(png_job *job, const void *data, size_t bytes,
                          tn__why *why)
{
    *job = (png_job){.why = why, .at = data};
    job->end = job->at + bytes;
    job->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, job, on_error,
                                        on_warning, job, allocate, release);
    job->info = job->png ? png_create_info_struct(job->png) : NULL;
    if (!job->info) {
        png_destroy_read_struct(&job->png, NULL, NULL);
        job->status = tn__because(why, TN_ERR_MEMORY, "memory ran out");
    }
    return job->info != NULL;
}

static void read_header(png_job *job)
{
    png_set_read_fn(job->png, job, read_bytes);
    png_set_user_limits(job->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_chunk_malloc_max(job->png, 1 << 23);
    skip_chunks(job->png);
    png_read_info(job->png, job->info);
}

static int channels_of(const png_job *job)
{
    const int type = png_get_color_type(job->png, job->info);
    return (type & PNG_COLOR_MASK_COLOR ? 3 : 1) +
           (type & PNG_COLOR_MASK_ALPHA ||
            png_get_valid(job->png, job->info, PNG_INFO_tRNS));
}

/* Finds the chunk eXIf, which may come before or after the pixels. A chunk
 * consists of its length, its name, the data and a checksum. */
static int orientation_of(const unsigned char *data, size_t bytes)
{
    for (size_t at = 8; bytes - at >= 12;) {
        const size_t length = png_get_uint_32(data + at);
        if (length > bytes - at - 12)
            return 1;
        if (memcmp(data + at + 4, "eXIf", 4) == 0)
            return tn__exif_orientation(data + at + 8, length);
        at += 12 + length;
    }
    return 1;
}

static void read_info(png_job *job, tn_image_info *out)
{
    if (setjmp(png_jmpbuf(job->png)))
        return;
    read_header(job);
    out->format = "png";
    out->width = png_get_image_width(job->png, job->info);
    out->height = png_get_image_height(job->png, job->info);
    out->channels = channels_of(job);
    out->bits = png_get_bit_depth(job->png, job->info);
    out->has_palette =
        png_get_color_type(job->png, job->info) == PNG_COLOR_TYPE_PALETTE;
}

static tn_status info_png(const void *data, size_t bytes, tn_image_info *out,
                          tn__why *why)
{
    png_job job;
    if (begin_reading(&job, data, bytes, why)) {
        read_info(&job, out);
        out->orientation = orientation_of(data, bytes);
        png_destroy_read_struct(&job.png, &job.info, NULL);
    }
    return job.status;
}

/* libpng has two rows of its own, of at most 4 samples of 16 bits per pixel. */
enum { LIBPNG_COLUMN = 2 * 4 * 2 };

/* Makes samples of 8 bits, or 16 in the host's byte order, and a palette or a
 * transparent colour into channels. */
static void set_transforms(png_job *job, bool keep16)
{
    png_set_expand(job->png);
    if (keep16) {
        const uint16_t one = 1;
        if (*(const unsigned char *)&one)
            png_set_swap(job->png);
    } else {
        png_set_strip_16(job->png);
    }
}

static void read_pixels(png_job *job, const tn__request *request,
                        tn__raster *out)
{
    if (setjmp(png_jmpbuf(job->png)))
        return;
    read_header(job);
    out->width = png_get_image_width(job->png, job->info);
    out->height = png_get_image_height(job->png, job->info);
    out->channels = channels_of(job);
    out->bits =
        request->keep16 && png_get_bit_depth(job->png, job->info) == 16 ? 16
                                                                        : 8;
    const size_t pixel = (size_t)out->channels * (size_t)out->bits / 8;
    job->status = tn__check_memory(
        out->width, out->height,
        pixel + tn__tensor_pixel(request, out->channels), LIBPNG_COLUMN,
        job->why);
    if (job->status < 0)
        return;
    set_transforms(job, request->keep16);
    const int passes = png_set_interlace_handling(job->png);
    png_read_update_info(job->png, job->info);
    const size_t row = png_get_rowbytes(job->png, job->info);
    if (row != pixel * (size_t)out->width)
        png_error(job->png, "rows have an unexpected size");
    out->data = malloc(row * (size_t)out->height);
    if (!out->data) {
        job->status = tn__because(job->why, TN_ERR_MEMORY, "memory ran out");
        return;
    }
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < out->height; y++)
            png_read_row(job->png, (png_bytep)out->data + row * (size_t)y,
                         NULL);
    png_read_end(job->png, NULL); /* to find a truncated end */
}

static tn_status decode_png(const void *data, size_t bytes,
                            const tn__request *request, tn__raster *out,
                            tn__why *why)
{
    png_job job;
    *out = (tn__raster){.orientation = 1};
    if (begin_reading(&job, data, bytes, why)) {
        read_pixels(&job, request, out);
        out->orientation = orientation_of(data, bytes);
        png_destroy_read_struct(&job.png, &job.info, NULL);
    }
    if (job.status < 0) {
        free(out->data);
        out->data = NULL;
    }
    return job.status;
}

/* ---- writing ------------------------------------------------------------ */

static void write_bytes(png_structp png, png_bytep data, size_t count)
{
    png_job *job = png_get_io_ptr(png);
    if (tn__growing_add(job->out, data, count))
        return;
    job->status = tn__because(job->why, TN_ERR_MEMORY, "memory ran out");
    png_error(png, "memory");
}

static void flush_bytes(png_structp png)
{
    (void)png;
}

static void write_pixels(png_job *job, const tn__raster *image, int level)
{
    static const int types[] = {0, PNG_COLOR_TYPE_GRAY,
                                PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                PNG_COLOR_TYPE_RGB_ALPHA};
    if (setjmp(png_jmpbuf(job->png)))
        return;
    png_set_user_limits(job->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_write_fn(job->png, job, write_bytes, flush_bytes);
    png_set_compression_level(job->png, level);
    png_set_IHDR(job->png, job->info, (png_uint_32)image->width,
                 (png_uint_32)image->height, image->bits,
                 types[image->channels], PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(job->png, job->info);
    const uint16_t one = 1;
    if (image->bits == 16 && *(const unsigned char *)&one)
        png_set_swap(job->png);
    const size_t row =
        (size_t)image->width * (size_t)image->channels * (size_t)image->bits / 8;
    for (int64_t y = 0; y < image->height; y++)
        png_write_row(job->png,
                      (png_const_bytep)image->data + row * (size_t)y);
    png_write_end(job->png, job->info);
}

static tn_status encode_png(const tn__raster *image, int level,
                            tn__growing *out, tn__why *why)
{
    png_job job = {.why = why, .out = out};
    job.png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &job, on_error,
                                        on_warning, &job, allocate, release);
    job.info = job.png ? png_create_info_struct(job.png) : NULL;
    if (job.info)
        write_pixels(&job, image, level);
    else
        job.status = tn__because(why, TN_ERR_MEMORY, "memory ran out");
    png_destroy_write_struct(&job.png, &job.info);
    return job.status;
}

const tn__image_format tn__image_png = {PNG_ROW, .info = info_png,
                                        .decode = decode_png,
                                        .encode = encode_png};

#else

const tn__image_format tn__image_png = {PNG_ROW};

#endif
