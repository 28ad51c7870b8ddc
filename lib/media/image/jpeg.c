/* jpeg.c: reads and writes JPEG files with libjpeg (libjpeg-turbo).
 *
 * libjpeg reports errors by a function that must not return, so it jumps. As in
 * png.c, all memory is in a struct of the caller. libjpeg only warns about
 * damaged data and continues with grey pixels; such files are rejected here. */
#include <media/image/format.h>

#define JPEG_ROW                                                              \
    .name = "jpeg", .title = "JPEG", .package = "libjpeg-dev",                \
    .extensions = {"jpg", "jpeg"}, .magic = {0xff, 0xd8, 0xff},               \
    .magic_bytes = 3

#ifdef HAVE_LIBJPEG

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

/* libjpeg-turbo's own fuzzers stop there, too: a progressive file of a few
 * kilobytes may have thousands of scans, each of which visits all pixels. */
#define SCAN_LIMIT 500

typedef struct jpeg_job {
    struct jpeg_error_mgr error;
    jmp_buf jump;
    tn__why *why;
    tn_status status;
    struct jpeg_progress_mgr progress;
    struct jpeg_destination_mgr target;
    tn__growing *out;
    JOCTET block[16384];
} jpeg_job;

static void fail(j_common_ptr info, tn_status status, const char *text)
{
    jpeg_job *job = (jpeg_job *)info->err;
    job->status = tn__because(job->why, status, "%s", text);
    longjmp(job->jump, 1);
}

static void on_error(j_common_ptr info)
{
    char text[JMSG_LENGTH_MAX], all[JMSG_LENGTH_MAX + 32];
    if (info->err->msg_code == JERR_OUT_OF_MEMORY)
        fail(info, TN_ERR_MEMORY, "memory ran out");
    info->err->format_message(info, text);
    snprintf(all, sizeof all, "the JPEG file is damaged: %s", text);
    fail(info, TN_ERR_FORMAT, all);
}

/* Level -1 is a warning. The warnings listed here do not concern the pixels. */
static void on_message(j_common_ptr info, int level)
{
    if (level >= 0)
        return;
    switch (info->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_TOO_MUCH_DATA:
        return;
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
        fail(info, TN_ERR_FORMAT, "the JPEG file is truncated");
    }
    on_error(info);
}

static void on_progress(j_common_ptr info)
{
    if (info->is_decompressor &&
        ((j_decompress_ptr)info)->input_scan_number > SCAN_LIMIT)
        fail(info, TN_ERR_FORMAT, "the JPEG file has more than 500 scans");
}

static void set_handlers(jpeg_job *job, struct jpeg_error_mgr **error,
                         tn__why *why)
{
    *error = jpeg_std_error(&job->error);
    job->error.error_exit = on_error;
    job->error.emit_message = on_message;
    job->progress.progress_monitor = on_progress;
    job->why = why;
    job->status = TN_OK;
}

/* ---- reading ------------------------------------------------------------ */

static const char *space_name(J_COLOR_SPACE space)
{
    return space == JCS_CMYK ? "CMYK" : space == JCS_YCCK ? "YCCK" : NULL;
}

static void read_header(jpeg_job *job, j_decompress_ptr info, const void *data,
                        size_t bytes)
{
    jpeg_create_decompress(info);
    info->progress = &job->progress;
    jpeg_mem_src(info, data, (unsigned long)bytes);
    jpeg_save_markers(info, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(info, TRUE);
    const char *name = space_name(info->jpeg_color_space);
    char text[96];
    if (name) {
        snprintf(text, sizeof text,
                 "the JPEG file is in %s, which is not supported: convert it "
                 "to RGB", name);
        fail((j_common_ptr)info, TN_ERR_FORMAT, text);
    }
    if (info->num_components != 1 && info->num_components != 3) {
        snprintf(text, sizeof text,
                 "the JPEG file has %d components; 1 or 3 are supported",
                 info->num_components);
        fail((j_common_ptr)info, TN_ERR_FORMAT, text);
    }
}

static int orientation_of(j_decompress_ptr info)
{
    for (jpeg_saved_marker_ptr m = info->marker_list; m; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && m->data_length > 6 &&
            memcmp(m->data, "Exif\0\0", 6) == 0)
            return tn__exif_orientation(m->data + 6, m->data_length - 6);
    return 1;
}

static void read_info(jpeg_job *job, j_decompress_ptr info, const void *data,
                      size_t bytes, tn_image_info *out)
{
    if (setjmp(job->jump))
        return;
    read_header(job, info, data, bytes);
    out->format = "jpeg";
    out->width = info->image_width;
    out->height = info->image_height;
    out->channels = info->num_components;
    out->bits = info->data_precision;
    out->has_palette = 0;
    out->orientation = orientation_of(info);
}

static tn_status info_jpeg(const void *data, size_t bytes, tn_image_info *out,
                           tn__why *why)
{
    jpeg_job job = {0};
    struct jpeg_decompress_struct info = {0};
    set_handlers(&job, &info.err, why);
    read_info(&job, &info, data, bytes, out);
    jpeg_destroy_decompress(&info);
    return job.status;
}

/* Chooses the largest denominator whose result still has a shorter side of
 * min_side. */
static void set_scale(j_decompress_ptr info, int64_t min_side)
{
    const int64_t side = info->image_width < info->image_height
                             ? info->image_width
                             : info->image_height;
    info->scale_num = 1;
    info->scale_denom = 8;
    while (info->scale_denom > 1 &&
           (min_side < 1 ||
            (side + info->scale_denom - 1) / info->scale_denom < min_side))
        info->scale_denom /= 2;
}

/* libjpeg has rows of its own for each component: at most 4 * 10 before and 4
 * after upsampling (jdmainct.c, jdsample.c). */
enum { LIBJPEG_COLUMN = 3 * (4 * 10 + 4) };

/* Bytes for each pixel of the file: those of the raster and the tensor, and
 * coefficients of two bytes if all of them are stored. Subsampling needs
 * fewer. */
static size_t bytes_per_pixel(j_decompress_ptr info, const tn__request *request)
{
    const size_t samples = (size_t)info->out_color_components;
    return samples + tn__tensor_pixel(request, info->out_color_components) +
           (jpeg_has_multiple_scans(info) ? 2 * (size_t)info->num_components
                                          : 0);
}

static void read_pixels(jpeg_job *job, j_decompress_ptr info, const void *data,
                        size_t bytes, const tn__request *request,
                        tn__raster *out)
{
    if (setjmp(job->jump))
        return;
    read_header(job, info, data, bytes);
    out->orientation = orientation_of(info);
    info->out_color_space =
        request->grey || info->num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    set_scale(info, request->min_side);
    jpeg_calc_output_dimensions(info);
    out->width = info->output_width;
    out->height = info->output_height;
    out->channels = info->out_color_components;
    out->bits = 8;
    const bool stored = jpeg_has_multiple_scans(info);
    job->status = tn__check_memory(
        stored ? info->image_width : out->width,
        stored ? info->image_height : out->height,
        bytes_per_pixel(info, request), LIBJPEG_COLUMN, job->why);
    if (job->status < 0)
        return;
    const size_t row = (size_t)out->width * (size_t)out->channels;
    out->data = malloc(row * (size_t)out->height);
    if (!out->data)
        fail((j_common_ptr)info, TN_ERR_MEMORY, "memory ran out");
    jpeg_start_decompress(info);
    while (info->output_scanline < info->output_height) {
        JSAMPROW rows[8];
        const unsigned left = info->output_height - info->output_scanline;
        for (unsigned i = 0; i < 8 && i < left; i++)
            rows[i] = (JSAMPROW)out->data + row * (info->output_scanline + i);
        jpeg_read_scanlines(info, rows, left < 8 ? left : 8);
    }
    jpeg_finish_decompress(info); /* reads up to the end marker */
}

static tn_status decode_jpeg(const void *data, size_t bytes,
                             const tn__request *request, tn__raster *out,
                             tn__why *why)
{
    jpeg_job job = {0};
    struct jpeg_decompress_struct info = {0};
    *out = (tn__raster){.orientation = 1};
    set_handlers(&job, &info.err, why);
    read_pixels(&job, &info, data, bytes, request, out);
    jpeg_destroy_decompress(&info);
    if (job.status < 0) {
        free(out->data);
        out->data = NULL;
    }
    return job.status;
}

/* ---- writing ------------------------------------------------------------ */

static void begin_block(j_compress_ptr info)
{
    jpeg_job *job = (jpeg_job *)info->err;
    job->target.next_output_byte = job->block;
    job->target.free_in_buffer = sizeof job->block;
}

static void append(j_compress_ptr info, size_t count)
{
    jpeg_job *job = (jpeg_job *)info->err;
    if (!tn__growing_add(job->out, job->block, count))
        fail((j_common_ptr)info, TN_ERR_MEMORY, "memory ran out");
}

static boolean write_block(j_compress_ptr info)
{
    append(info, sizeof ((jpeg_job *)info->err)->block);
    begin_block(info);
    return TRUE;
}

static void end_block(j_compress_ptr info)
{
    append(info, sizeof ((jpeg_job *)info->err)->block -
                     info->dest->free_in_buffer);
}

static void write_pixels(jpeg_job *job, j_compress_ptr info,
                         const tn__raster *image, int quality)
{
    if (setjmp(job->jump))
        return;
    jpeg_create_compress(info);
    job->target.init_destination = begin_block;
    job->target.empty_output_buffer = write_block;
    job->target.term_destination = end_block;
    info->dest = &job->target;
    info->image_width = (JDIMENSION)image->width;
    info->image_height = (JDIMENSION)image->height;
    info->input_components = image->channels;
    info->in_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(info);
    jpeg_set_quality(info, quality, TRUE);
    jpeg_start_compress(info, TRUE);
    const size_t row = (size_t)image->width * (size_t)image->channels;
    while (info->next_scanline < info->image_height) {
        JSAMPROW at = (JSAMPROW)image->data + row * info->next_scanline;
        jpeg_write_scanlines(info, &at, 1);
    }
    jpeg_finish_compress(info);
}

static tn_status encode_jpeg(const tn__raster *image, int level,
                             tn__growing *out, tn__why *why)
{
    if (image->channels != 1 && image->channels != 3)
        return tn__because(why, TN_ERR_SHAPE,
                           "the image has %d channels; JPEG has 1 or 3",
                           image->channels);
    if (image->width > JPEG_MAX_DIMENSION || image->height > JPEG_MAX_DIMENSION)
        return tn__because(why, TN_ERR_SHAPE,
                           "the image is %lld x %lld; JPEG has at most %d x %d",
                           (long long)image->height, (long long)image->width,
                           (int)JPEG_MAX_DIMENSION, (int)JPEG_MAX_DIMENSION);
    jpeg_job job = {.out = out};
    struct jpeg_compress_struct info = {0};
    set_handlers(&job, &info.err, why);
    write_pixels(&job, &info, image, level);
    jpeg_destroy_compress(&info);
    return job.status;
}

const tn__image_format tn__image_jpeg = {JPEG_ROW, .info = info_jpeg,
                                         .decode = decode_jpeg,
                                         .encode = encode_jpeg};

#else

const tn__image_format tn__image_jpeg = {JPEG_ROW};

#endif
