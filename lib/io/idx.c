/* idx.c: reads IDX files, the format of the MNIST digits. A file consists of
 * two zero bytes, a byte for the dtype, a byte for the number of dimensions,
 * their sizes, and the elements. All numbers are big-endian.
 *
 * A tensor is allocated only after the whole file has been read and its length
 * compared with the sizes in the header. So a short file that claims large
 * sizes cannot cause a large allocation. */
#include <io/idx.h>

#include <base/error.h>
#include <base/memory.h>
#include <io/file.h>
#include <string.h>
#include <tenon/io.h>

static const struct {
    unsigned char code;
    tn_dtype dtype;
} types[] = {
    {0x08, TN_U8},  {0x09, TN_I8},  {0x0b, TN_I16},
    {0x0c, TN_I32}, {0x0d, TN_F32}, {0x0e, TN_F64},
};

static uint32_t read_u32(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 |
           (uint32_t)bytes[2] << 8 | bytes[3];
}

static tn_status parse_magic(tn__idx *idx, const unsigned char *bytes,
                             const char *where)
{
    if (bytes[0] || bytes[1])
        return tn__fail(
            TN_ERR_FORMAT,
            "idx_load: {path:}%s: begins with %02x %02x; an IDX file begins "
            "with 00 00",
            where, bytes[0], bytes[1]);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].code == bytes[2])
            idx->dtype = types[i].dtype;
    }
    if (!idx->dtype)
        return tn__fail(
            TN_ERR_FORMAT,
            "idx_load: {path:}%s: element type %02x is none of 08 (uint8), 09 "
            "(int8), 0b (int16), 0c (int32), 0d (float32), 0e (float64)",
            where, bytes[2]);
    if (bytes[3] > TN_MAX_NDIM)
        return tn__fail(
            TN_ERR_FORMAT,
            "idx_load: {path:}%s: %d dimensions; expected at most %d",
            where, bytes[3], TN_MAX_NDIM);
    idx->shape.count = bytes[3];
    idx->header_bytes = 4 + 4 * (size_t)bytes[3];
    return TN_OK;
}

tn_status tn__idx_parse(tn__idx *idx, const unsigned char *bytes, size_t count,
                        const char *where)
{
    memset(idx, 0, sizeof *idx);
    if (count < 4)
        return tn__fail(TN_ERR_FORMAT,
                        "idx_load: {path:}%s: %zu bytes are too few for an IDX "
                        "file",
                        where, count);
    tn_status status = parse_magic(idx, bytes, where);
    if (status < 0)
        return status;
    if (count < idx->header_bytes)
        return tn__fail(
            TN_ERR_FORMAT,
            "idx_load: {path:}%s: the file is cut off: the header of %d "
            "dimensions has %zu bytes, the file %zu",
            where, idx->shape.count, idx->header_bytes, count);
    uint64_t want = tn_dtype_bytes(idx->dtype);
    bool fits = true;
    for (int i = 0; i < idx->shape.count; i++) {
        uint32_t size = read_u32(bytes + 4 + 4 * i);
        idx->shape.dim[i] = size;
        fits = fits && !__builtin_mul_overflow(want, size, &want);
    }
    uint64_t got = count - idx->header_bytes;
    if (!fits)
        return tn__fail(
            TN_ERR_FORMAT,
            "idx_load: {path:}%s: its sizes are more than memory can hold",
            where);
    if (got < want)
        return tn__fail(
            TN_ERR_FORMAT,
            "idx_load: {path:}%s: its sizes take %llu bytes of elements, the "
            "file has %llu",
            where, (unsigned long long)want, (unsigned long long)got);
    if (got > want)
        return tn__fail(
            TN_ERR_FORMAT,
            "idx_load: {path:}%s: %llu bytes follow the last element",
            where, (unsigned long long)(got - want));
    idx->data_bytes = (size_t)want;
    return TN_OK;
}

/* Converts elements of `width` bytes from big-endian to this machine's byte
 * order. */
static void to_host_order(unsigned char *data, size_t bytes, size_t width)
{
    for (size_t at = 0; width > 1 && at < bytes; at += width) {
        uint64_t value = 0;
        for (size_t i = 0; i < width; i++)
            value = value << 8 | data[at + i];
        uint16_t two = (uint16_t)value;
        uint32_t four = (uint32_t)value;
        memcpy(data + at,
               width == 2 ? (void *)&two
                          : width == 4 ? (void *)&four : (void *)&value,
               width);
    }
}

tn_tensor *tn_idx_load(const char *path)
{
    if (!path)
        return tn__fail_null(TN_ERR_ARGUMENT, "idx_load: {path} is NULL");
    unsigned char *bytes = NULL;
    size_t count;
    tn__idx idx;
    tn_tensor *x = NULL;
    if (tn__file_read(path, "idx_load", &bytes, &count) == TN_OK &&
        tn__idx_parse(&idx, bytes, count, path) == TN_OK) {
        unsigned char *data = bytes + idx.header_bytes;
        to_host_order(data, idx.data_bytes, tn_dtype_bytes(idx.dtype));
        x = tn_tensor_from_array(data, idx.dtype, idx.shape);
    }
    tn__free(bytes);
    return x;
}
