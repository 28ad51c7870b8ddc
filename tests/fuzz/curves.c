/* curves.c: fuzzes event files and CSV files of curves. The checksums of the
 * first records are corrected, since random input would seldom get past them,
 * unless the first byte of the input is odd. Accepted curves are drawn. */
#include <tenon/curves.h>

#include "fuzz.h"

const char fuzz_target[] = "curves";

enum { HEAD = 12, TAIL = 4, MANY = 50 };

static uint32_t checksum(const uint8_t *data, size_t count)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void put(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

/* Makes lengths and checksums of records agree with the size of the data. */
static void correct(uint8_t *data, size_t size)
{
    size_t at = 0;
    for (int i = 0; i < MANY && size - at > HEAD + TAIL; i++) {
        const size_t most = size - at - HEAD - TAIL;
        size_t length = data[at] | (size_t)data[at + 1] << 8;
        length = length < most ? length : most;
        data[at] = (uint8_t)length;
        data[at + 1] = (uint8_t)(length >> 8);
        memset(data + at + 2, 0, 6);
        put(data + at + 8, checksum(data + at, 8));
        put(data + at + HEAD + length, checksum(data + at + HEAD, length));
        at += HEAD + length + TAIL;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    uint8_t *copy = malloc(size);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    if (data[0] % 2 == 0)
        correct(copy + 1, size - 1);
    char path[32];
    const int fd = fuzz_file(copy + 1, size - 1, path);
    tn_scope *scope = tn_scope_open();
    tn_curves *curves = tn_curves_new();
    if (tn_curves_add(curves, path, "run") < 0) {
        fuzz_check(tn_curves_count(curves) == 0, "a failure adds nothing");
        fuzz_refused();
    } else {
        fuzz_accepted();
        for (int i = 0; i < tn_curves_count(curves); i++)
            fuzz_check(tn_curves_tag(curves, i) &&
                           tn_curves_length(curves, i) > 0,
                       "a curve has a tag and points");
        if (size % 16 == 0) {
            if (tn_curves_plot(curves, "fuzz-curves.html",
                               .log_scale = size % 32 == 0) < 0)
                fuzz_refused();
            unlink("fuzz-curves.html");
        }
    }
    tn_scope_close(scope);
    close(fd);
    free(copy);
    return 0;
}
