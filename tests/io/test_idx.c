/* test_idx.c: tests reading and writing tensors in IDX files. */
#include <tenon/tenon.h>

#include <unistd.h>
#include <zlib.h>

#include "../tap.h"

static char path[64];

static void write_bytes(const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, count, file) != count)
        bail_out("cannot write %s", path);
    fclose(file);
}

static void refused(const void *bytes, size_t count, tn_status code,
                    const char *message)
{
    write_bytes(bytes, count);
    char want[300];
    snprintf(want, sizeof want, "idx_load: %s: %s", path, message);
    ok(!tn_idx_load(path), "refused: %s", message);
    is_str(tn_error(), want, "and the message says so");
    is_int(tn_error_code(), code, "with its code");
    tn_error_clear();
}

/* For each type, a file holds the numbers 1 and -2 (1 and 254 if unsigned). */
static void test_types(void)
{
    static const struct {
        tn_dtype dtype;
        size_t count;
        unsigned char bytes[24];
        double second;
    } file[] = {
        {TN_U8, 10, {0, 0, 8, 1, 0, 0, 0, 2, 1, 254}, 254},
        {TN_I8, 10, {0, 0, 9, 1, 0, 0, 0, 2, 1, 254}, -2},
        {TN_I16, 12, {0, 0, 11, 1, 0, 0, 0, 2, 0, 1, 255, 254}, -2},
        {TN_I32, 16,
         {0, 0, 12, 1, 0, 0, 0, 2, 0, 0, 0, 1, 255, 255, 255, 254}, -2},
        {TN_F32, 16, {0, 0, 13, 1, 0, 0, 0, 2, 63, 128, 0, 0, 192}, -2},
        {TN_F64, 24,
         {0, 0, 14, 1, 0, 0, 0, 2, 63, 240, 0, 0, 0, 0, 0, 0, 192}, -2},
    };
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        write_bytes(file[i].bytes, file[i].count);
        tn_tensor *x = tn_idx_load(path);
        const char *name = tn_dtype_name(file[i].dtype);
        is_int(tn_tensor_dtype(x), file[i].dtype, "%s is read as it is", name);
        is_int(tn_tensor_numel(x), 2, "%s: two elements", name);
        ok(tn_item(tn_select(x, 0, 0)) == 1 &&
               tn_item(tn_select(x, 0, 1)) == file[i].second,
           "%s: the highest byte comes first", name);
    }
}

static void test_shapes(void)
{
    static const unsigned char cube[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1,
                                         0, 0, 0, 3, 1, 2, 3, 4, 5, 6};
    write_bytes(cube, sizeof cube);
    tn_tensor *x = tn_idx_load(path);
    is_int(tn_tensor_ndim(x), 3, "three dimensions");
    ok(tn_tensor_size(x, 0) == 2 && tn_tensor_size(x, 1) == 1 &&
           tn_tensor_size(x, 2) == 3,
       "of the sizes in the header");
    is_int(tn_item_int(tn_select(tn_select(tn_select(x, 0, 1), 0, 0), 0, 0)),
           4, "row-major");

    gzFile zipped = gzopen(path, "wb");
    gzwrite(zipped, cube, sizeof cube);
    gzclose(zipped);
    is_int(tn_item_int(tn_sum(tn_idx_load(path))), 21,
           "a gzipped file is read");

    static const unsigned char empty[] = {0, 0, 13, 2, 0, 0, 0, 0,
                                          255, 255, 255, 255};
    write_bytes(empty, sizeof empty);
    is_int(tn_tensor_numel(tn_idx_load(path)), 0,
           "no rows, however wide, are an empty tensor");
    static const unsigned char scalar[] = {0, 0, 8, 0, 7};
    write_bytes(scalar, sizeof scalar);
    is_int(tn_item_int(tn_idx_load(path)), 7, "no dimensions are a scalar");
    ok(!tn_error(), "and none of them is an error");
}

/* Reads the first half of a gzipped file. */
static void test_cut_gzip(void)
{
    static unsigned char noise[4096] = {0, 0, 8, 1, 0, 0, 15, 248};
    for (size_t i = 8; i < sizeof noise; i++)
        noise[i] = (unsigned char)(i * i * 2654435761u >> 13);
    gzFile zipped = gzopen(path, "wb");
    gzwrite(zipped, noise, sizeof noise);
    gzclose(zipped);
    is_int(tn_tensor_numel(tn_idx_load(path)), 4088, "the whole is read");
    if (truncate(path, 900) != 0)
        bail_out("cannot cut %s", path);
    char want[200];
    snprintf(want, sizeof want,
             "idx_load: %s: the gzipped file is cut off: unexpected end of file",
             path);
    ok(!tn_idx_load(path), "a gzipped file that is cut off is refused");
    is_str(tn_error(), want, "and the message says so");
    tn_error_clear();
}

static void test_mistakes(void)
{
    refused("", 0, TN_ERR_FORMAT, "0 bytes are too few for an IDX file");
    refused("\0\0\10", 3, TN_ERR_FORMAT,
            "3 bytes are too few for an IDX file");
    refused("PNG.", 4, TN_ERR_FORMAT,
            "begins with 50 4e; an IDX file begins with 00 00");
    refused("\0\0\12\1\0\0\0\0", 8, TN_ERR_FORMAT,
            "element type 0a is none of 08 (uint8), 09 (int8), 0b (int16), 0c "
            "(int32), 0d (float32), 0e (float64)");
    refused("\0\0\10\377", 4, TN_ERR_FORMAT,
            "255 dimensions; expected at most 12");
    refused("\0\0\10\2\0\0\0\1\0", 9, TN_ERR_FORMAT,
            "the file is cut off: the header of 2 dimensions has 12 bytes, the file 9");
    refused("\0\0\10\1\0\0\0\3ab", 10, TN_ERR_FORMAT,
            "its sizes take 3 bytes of elements, the file has 2");
    refused("\0\0\14\1\0\0\0\1abcdef", 14, TN_ERR_FORMAT,
            "2 bytes follow the last element");
    refused("\0\0\16\3\377\377\377\377\377\377\377\377\377\377\377\377", 16,
            TN_ERR_FORMAT, "its sizes are more than memory can hold");
    refused("\0\0\10\2\377\377\377\377\0\0\377\377", 12, TN_ERR_FORMAT,
            "its sizes take 281470681677825 bytes of elements, the file has "
            "0");

    unlink(path);
    char want[300];
    snprintf(want, sizeof want, "idx_load: %s: No such file or directory", path);
    ok(!tn_idx_load(path), "a file that is not there is refused");
    is_str(tn_error(), want, "by its name");
    is_int(tn_error_code(), TN_ERR_IO, "as one that cannot be read");
    tn_error_clear();
    ok(!tn_idx_load(NULL), "no path is refused");
    is_str(tn_error(), "idx_load: path is NULL", "and the message says so");
    tn_error_clear();
}

int main(void)
{
    plan_later();
    snprintf(path, sizeof path, "idx-test-%ld.tmp", (long)getpid());
    test_types();
    test_shapes();
    test_cut_gzip();
    test_mistakes();
    unlink(path);
    return done_testing();
}
