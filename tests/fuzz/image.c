/* image.c: fuzzes the reading of PNG and JPEG files. The first byte of the
 * input selects the options. The checksums of a PNG file's chunks are corrected
 * first, because otherwise every changed chunk would be rejected. */
#include <tenon/image.h>
#include <tenon/io.h>
#include <tenon/tensor.h>
#include <zlib.h>

#include "fuzz.h"

const char fuzz_target[] = "image";

static uint32_t number(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 |
           (uint32_t)at[2] << 8 | at[3];
}

static void fix_checksums(uint8_t *data, size_t size)
{
    for (size_t at = 8; size - at >= 12;) {
        const size_t length = number(data + at);
        if (length > size - at - 12)
            return;
        const uint32_t sum =
            (uint32_t)crc32(0, data + at + 4, (unsigned)length + 4);
        for (int i = 0; i < 4; i++)
            data[at + 8 + length + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
        at += 12 + length;
    }
}

static void check_image(const tn_tensor *x, const tn_image_info *info,
                        const tn_image_decode_options *o)
{
    fuzz_accepted();
    const int64_t c = tn_tensor_size(x, o->hwc ? 2 : 0);
    const int64_t h = tn_tensor_size(x, o->hwc ? 0 : 1);
    fuzz_check(c == (o->channels ? o->channels : info->channels),
               "the channels are those of the header");
    const bool turned = o->exif && info->orientation > 4;
    if (o->min_side == 0)
        fuzz_check(h == (turned ? info->width : info->height),
                   "the height is that of the header");
    if (o->dtype == TN_U8 && !o->hwc) {
        void *again = NULL;
        size_t bytes = 0;
        fuzz_check(tn_image_encode(x, "png", &again, &bytes,
                                   .compression = 1) == TN_OK,
                   "an image that was read can be written");
        /* The file may have more channels than the requested image, and then
         * needs more memory. */
        tn_unpack_limit_set(1 << 24);
        fuzz_check(tn_image_decode(again, bytes) != NULL, "and read again");
        free(again);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const tn_dtype dtypes[] = {TN_U8, TN_I32, TN_F32, TN_U8};
    if (!size)
        return 0;
    tn_unpack_limit_set(1 << 22);
    uint8_t *own = malloc(size);
    memcpy(own, data + 1, size - 1);
    if (size > 9 && own[0] == 0x89)
        fix_checksums(own, size - 1);
    tn_image_decode_options o = TN_IMAGE_DECODE_OPTIONS;
    o.channels = data[0] & 7 ? (data[0] & 7) % 5 : 0;
    o.dtype = dtypes[data[0] >> 3 & 3];
    o.hwc = data[0] >> 5 & 1;
    o.exif = data[0] >> 6 & 1;
    o.min_side = data[0] >> 7 ? 5 : 0;
    tn_scope *scope = tn_scope_open();
    tn_image_info info = {.size = sizeof info};
    if (tn_image_info_decode(own, size - 1, &info) < 0)
        fuzz_refused();
    tn_tensor *x = tn_image_decode_with(own, size - 1, &o);
    if (x)
        check_image(x, &info, &o);
    else
        fuzz_refused();
    tn_scope_close(scope);
    free(own);
    return 0;
}
