/* test_npy.c: .npy files in both directions, mapping, mistakes and damaged
 * files. */
#include "arrays.h"

#include <sys/mman.h>
#include <tenon/npy.h>

static const tn_dtype dtypes[] = {TN_F32,    TN_F64,    TN_F16, TN_BF16,
                                  TN_F8E4M3, TN_F8E5M2, TN_I64, TN_I32,
                                  TN_I16,    TN_I8,     TN_U8,  TN_BOOL};
enum { DTYPE_COUNT = sizeof dtypes / sizeof *dtypes };

static tn_tensor *sample(tn_dtype dtype, tn_dims_list shape)
{
    unsigned char data[24 * 8];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(dtype == TN_BOOL ? i % 3 == 0 : i * 37 + 11);
    return tn_tensor_from_array(data, dtype, shape);
}

static bool same(tn_tensor *a, tn_tensor *b)
{
    unsigned char x[24 * 8], y[24 * 8];
    const size_t bytes =
        (size_t)tn_tensor_numel(a) * tn_dtype_bytes(tn_tensor_dtype(a));
    return tn_tensor_dtype(a) == tn_tensor_dtype(b) &&
           tn_tensor_ndim(a) == tn_tensor_ndim(b) &&
           memcmp(tn_tensor_shape(a), tn_tensor_shape(b),
                  (size_t)tn_tensor_ndim(a) * sizeof(int64_t)) == 0 &&
           tn_tensor_to_array(a, x, bytes) == TN_OK &&
           tn_tensor_to_array(b, y, bytes) == TN_OK &&
           memcmp(x, y, bytes) == 0;
}

static void check_round_trips(void)
{
    const tn_dims_list shapes[] = {TN_SCALAR, tn_dims(0), tn_dims(3),
                                   tn_dims(2, 0, 4), tn_dims(2, 3, 4)};
    const char *path = in_folder("x.npy");
    for (int i = 0; i < DTYPE_COUNT; i++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int version = 1; version <= 3; version++)
                for (int fortran = 0; fortran < 2; fortran++) {
                    TN_SCOPE(scope) {
                    const bool raw = dtypes[i] == TN_BF16 ||
                                     dtypes[i] == TN_F8E4M3 ||
                                     dtypes[i] == TN_F8E5M2;
                    const tn_dtype view = raw ? dtypes[i] : TN_DTYPE_NONE;
                    tn_tensor *x = sample(dtypes[i], shapes[s]);
                    void *data = NULL;
                    size_t bytes = 0, file_bytes;
                    tn_npy_save(path, x, .fortran_order = fortran,
                                .version = version);
                    tn_npy_save_memory(x, &data, &bytes,
                                       .fortran_order = fortran,
                                       .version = version);
                    char *file = read_all(path, &file_bytes);
                    ok(!tn_error() && bytes == file_bytes &&
                           memcmp(data, file, bytes) == 0 &&
                           (bytes - (size_t)tn_tensor_numel(x) *
                                        tn_dtype_bytes(dtypes[i])) %
                                   64 == 0,
                       "%s is saved", tn_dtype_name(dtypes[i]));
                    tn_tensor *y = tn_npy_load(path, .view = view);
                    tn_tensor *z = tn_npy_load_memory(data, bytes,
                                                      .view = view);
                    ok(y && z && same(x, y) && same(x, z) &&
                           tn_tensor_is_contiguous(y),
                       "%s is loaded", tn_dtype_name(dtypes[i]));
                    free(data);
                    free(file);
                    }
                }
    tn_tensor *x = sample(TN_I32, tn_dims(2, 3, 4));
    x = tn_permute(x, tn_dims(2, 0, 1));
    tn_npy_save(path, x);
    ok(same(x, tn_npy_load(path)), "a strided tensor is saved");
    is_str(tn_error(), NULL, "no error is pending");
}

/* ---- mapping -------------------------------------------------------------- */

static void check_mapping(void)
{
    const char *path = in_folder("map.npy");
    const char *device = tn_device_name(tn_device_current());
    tn_tensor *x = sample(TN_F32, tn_dims(2, 3, 4));
    tn_npy_save(path, x);
    if (strncmp(device, "cpu", 3) != 0) {
        ok(!tn_npy_load(path, .mmap = true), "not mapped on %s", device);
        refused(TN_ERR_UNSUPPORTED, "the current device is not cpu",
                "the message names the mend");
        skip(1, "mapping needs the device cpu");
        return;
    }
    tn_tensor *m = tn_npy_load(path, .mmap = true);
    ok(m && same(x, m), "a mapped file has its elements");
    ((float *)tn_tensor_data(m))[0] = 5;
    ok(same(x, tn_npy_load(path)), "writing to the tensor changes no file");
    tn_tensor *part = tn_select(m, 0, 1);
    tn_drop(m);
    tn_npy_save(path, tn_zeros(tn_dims(2, 3, 4)));
    ok(same(tn_select(x, 0, 1), part),
       "a view keeps the mapping, and replacing the file changes nothing");
    tn_npy_save(path, x, .fortran_order = true);
    m = tn_npy_load(path, .mmap = true);
    ok(m && same(x, m) && tn_tensor_strides(m)[0] == 1 &&
           tn_tensor_strides(m)[2] == 6,
       "an array in Fortran order has its strides");
    tn_npy_save(path, tn_zeros(tn_dims(0, 3)));
    ok(tn_tensor_numel(tn_npy_load(path, .mmap = true)) == 0 && !tn_error(),
       "an empty array is mapped");
    tn_npy_save(path, sample(TN_BF16, tn_dims(3)));
    m = tn_npy_load(path, .mmap = true, .view = TN_BF16);
    ok(m && same(m, sample(TN_BF16, tn_dims(3))), "raw bytes are mapped");

    static const char *const bad[][2] = {
        {"npy/float32-big-C-1.npy", "the other byte order"},
        {"npy/uint16-little-C-1.npy", "its dtype is converted"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ok(!tn_npy_load(golden(bad[i][0]), .mmap = true), "%s", bad[i][0]);
        refused(TN_ERR_UNSUPPORTED, bad[i][1], "%s", bad[i][1]);
    }
    size_t bytes;
    char *data = read_all(golden("npy/bool-little-C-1.npy"), &bytes);
    data[bytes - 1] = 7;
    write_all(path, data, bytes);
    ok(!tn_npy_load(path, .mmap = true), "a byte that is no bool");
    refused(TN_ERR_UNSUPPORTED, "bytes that are no bools", "is not mapped");
    m = tn_npy_load(path);
    unsigned char element[6] = {0};
    tn_tensor_to_array(m, element, 6);
    is_int(element[5], 1, "it is read as true, as NumPy does");
    free(data);

    char text[128];
    memset(text, ' ', sizeof text);
    memcpy(text, "\x93NUMPY\1\0", 8);
    text[8] = 118 - 64 - 1;
    text[9] = 0;
    const char *dict = "{'descr':'<f4','fortran_order':False,'shape':(2,)}";
    memcpy(text + 10, dict, strlen(dict));
    memset(text + 10 + 53, 0, 8);
    write_all(path, text, 10 + 53 + 8);
    ok(tn_npy_load(path), "elements at an odd byte are read");
    ok(!tn_npy_load(path, .mmap = true), "but not mapped");
    refused(TN_ERR_UNSUPPORTED, "not aligned", "the message says why");
}

/* ---- mistakes ------------------------------------------------------------- */

static void check_mistakes(void)
{
    const char *path = in_folder("m.npy");
    tn_tensor *x = sample(TN_F32, tn_dims(2, 3));
    void *data = NULL;
    size_t bytes = 0;
    tn_npy_save(path, x);
    ok(!tn_npy_load(NULL), "a NULL path");
    refused(TN_ERR_ARGUMENT, "path is NULL", "is rejected");
    ok(!tn_npy_load(in_folder("none.npy")), "a missing file");
    refused(TN_ERR_IO, "No such file", "is rejected");
    ok(!tn_npy_load(folder), "a folder");
    refused(TN_ERR_IO, "not a regular file", "is rejected");
    ok(!tn_npy_load(path, .view = TN_BF16), "a view of float32");
    refused(TN_ERR_DTYPE, "leave .view out", "is rejected");
    ok(!tn_npy_load(path, .view = 77), "an unknown dtype");
    refused(TN_ERR_DTYPE, "not a dtype", "is rejected");
    ok(!tn_npy_load_memory(NULL, 5), "NULL data");
    refused(TN_ERR_ARGUMENT, "data is NULL", "is rejected");
    ok(!tn_npy_load_memory(path, 0), "no bytes");
    refused(TN_ERR_FORMAT, "not a valid .npy file", "are rejected");
    ok(tn_npy_save(NULL, x) < 0, "saving to NULL");
    refused(TN_ERR_ARGUMENT, "path is NULL", "is rejected");
    ok(tn_npy_save(path, NULL) < 0, "saving NULL");
    refused(TN_ERR_ARGUMENT, "x is NULL", "is rejected");
    ok(tn_npy_save(path, (tn_tensor *)path) < 0, "saving a string");
    refused(TN_ERR_ARGUMENT, "x", "is rejected");
    ok(tn_npy_save(in_folder("no/x.npy"), x) < 0, "a missing folder");
    refused(TN_ERR_IO, "No such file", "is rejected");
    for (int version = -1; version < 6; version += version ? 5 : 1) {
        ok(tn_npy_save(path, x, .version = version) < 0, "version %d",
           version);
        refused(TN_ERR_ARGUMENT, "expected 1, 2 or 3", "is rejected");
    }
    ok(tn_npy_save_memory(NULL, &data, &bytes) < 0 && !data, "NULL to memory");
    refused(TN_ERR_ARGUMENT, "x is NULL", "is rejected");
    ok(tn_npy_save_memory(x, NULL, &bytes) < 0, "no out_data");
    refused(TN_ERR_ARGUMENT, "out_data is NULL", "is rejected");
    ok(tn_npy_save_memory(x, &data, NULL) < 0 && !data, "no out_bytes");
    refused(TN_ERR_ARGUMENT, "out_bytes is NULL", "is rejected");
    tn_npy_save(path, sample(TN_BF16, tn_dims(2)));
    ok(!tn_npy_load(path), "raw bytes");
    refused(TN_ERR_DTYPE, ".view = TN_BF16", "the message names the mend");
    ok(!tn_npy_load(path, .view = TN_F32), "a view of another size");
    refused(TN_ERR_DTYPE, "elements of 2 bytes", "is rejected");
    tn_error_set(TN_ERR_STATE, "pending");
    ok(tn_npy_save(path, x) == TN_ERR_STATE &&
           tn_npy_save_memory(x, &data, &bytes) == TN_ERR_STATE,
       "nothing is saved while an error is pending");
    tn_error_clear();
    tn_npy_load_options o = TN_NPY_LOAD_OPTIONS;
    ok(tn_options_init("npy_load", &o, sizeof o) == TN_OK && !o.mmap,
       "options are known by name");
}

/* ---- damaged files -------------------------------------------------------- */

static void check_headers(void)
{
    static const struct {
        const char *dict;
        tn_status code;
        const char *part;
    } cases[] = {
        {"{'descr':'<f4','fortran_order':False,'shape':(9223372036854775807,)}",
         TN_ERR_FORMAT, "too many elements"},
        {"{'descr':'<f4','fortran_order':False,'shape':(9223372036854775808,)}",
         TN_ERR_FORMAT, "a size is above"},
        {"{'descr':'<f4','fortran_order':False,'shape':(1000000000000,)}",
         TN_ERR_FORMAT, "describes 4000000000000 bytes"},
        {"{'descr':'<f4','fortran_order':False,'shape':(0,4611686018427387904,4)}",
         TN_ERR_FORMAT, "too many elements"},
        {"{'descr':'<f4','fortran_order':False,'shape':(-1,)}", TN_ERR_FORMAT,
         "expected a size"},
        {"{'descr':'<f4','fortran_order':False,'shape':(1)}", TN_ERR_FORMAT,
         "not a tuple"},
        {"{'descr':'<f4','fortran_order':False,'shape':[1,]}", TN_ERR_FORMAT,
         "no tuple"},
        {"{'descr':'<f4','fortran_order':0,'shape':(1,)}", TN_ERR_FORMAT,
         "expected True or False"},
        {"{'descr':'<f4','fortran_order':False}", TN_ERR_FORMAT,
         "a key is missing"},
        {"{'descr':'<f4','descr':'<f4','fortran_order':False,'shape':()}",
         TN_ERR_FORMAT, "a key is given twice"},
        {"{'descr':'<f4','fortran_order':False,'shape':(),'x':1}",
         TN_ERR_FORMAT, "the key is unknown"},
        {"{'descr':'<f4','fortran_order':False,'shape':()} + f()",
         TN_ERR_FORMAT, "unexpected characters"},
        {"{'descr':__import__('os'),'fortran_order':False,'shape':()}",
         TN_ERR_FORMAT, "expected a string in quotes"},
        {"{'descr':'<f4' 'fortran_order':False,'shape':()}", TN_ERR_FORMAT,
         "expected a comma"},
        {"{'descr':'<f4\\n','fortran_order':False,'shape':()}", TN_ERR_FORMAT,
         "cannot be part of a dtype"},
        {"{'descr':'<f4", TN_ERR_FORMAT, "a string has no closing quote"},
        {"{'descr':'','fortran_order':False,'shape':()}", TN_ERR_DTYPE,
         "unknown dtype ''"},
        {"{'descr':'<','fortran_order':False,'shape':()}", TN_ERR_DTYPE,
         "unknown dtype"},
        {"{'descr':'<i3','fortran_order':False,'shape':()}", TN_ERR_DTYPE,
         "unknown dtype '<i3'"},
        {"{'descr':'<f16','fortran_order':False,'shape':()}", TN_ERR_DTYPE,
         "longdouble"},
        {"{'descr':'<f99999999999','fortran_order':False,'shape':()}",
         TN_ERR_DTYPE, "longdouble"},
        {"", TN_ERR_FORMAT, "no dict"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char file[200] = "\x93NUMPY\1";
        const size_t bytes = strlen(cases[i].dict);
        file[8] = (char)bytes;
        memcpy(file + 10, cases[i].dict, bytes);
        ok(!tn_npy_load_memory(file, 10 + bytes + 4), "%s", cases[i].dict);
        refused(cases[i].code, cases[i].part, "%s", cases[i].part);
    }
    char file[80] = "\x93NUMPY\2\0\xff\xff\xff\xff";
    ok(!tn_npy_load_memory(file, sizeof file), "a header of 4 GiB");
    refused(TN_ERR_FORMAT, "a header of 4294967295 bytes", "is rejected");
    file[6] = 4;
    ok(!tn_npy_load_memory(file, sizeof file), "version 4.0");
    refused(TN_ERR_UNSUPPORTED, "header version 4.0", "is rejected");
    file[6] = 1;
    file[7] = 1;
    ok(!tn_npy_load_memory(file, sizeof file), "version 1.1");
    refused(TN_ERR_UNSUPPORTED, "header version 1.1", "is rejected");
}

/* Each part of a file is rejected, and each changed byte gives an array or a
 * message. */
static void check_damage(const char *name)
{
    size_t bytes;
    char *data = read_all(golden(name), &bytes);
    int accepted = 0;
    for (size_t n = 0; n < bytes; n++) {
        char *part = malloc(n + 1); /* so that AddressSanitizer detects reads
                                       past its end */
        memcpy(part, data, n);
        accepted += tn_npy_load_memory(part, n) != NULL;
        free(part);
        tn_error_clear();
    }
    is_int(accepted, 0, "%s: all %zu truncations are rejected", name, bytes);
    int silent = 0;
    for (size_t n = 0; n < bytes; n++)
        for (int bit = 0; bit < 8; bit++) {
            data[n] ^= (char)(1 << bit);
            silent += !tn_npy_load_memory(data, bytes) && !tn_error();
            tn_error_clear();
            data[n] ^= (char)(1 << bit);
        }
    is_int(silent, 0, "%s: a changed bit is read or rejected", name);
    const char *path = in_folder("cut.npy");
    write_all(path, data, bytes - 1);
    ok(!tn_npy_load(path) && tn_error_code() == TN_ERR_FORMAT,
       "%s: a truncated file", name);
    tn_error_clear();
    ok(!tn_npy_load(path, .mmap = true) && tn_error_code() == TN_ERR_FORMAT,
       "%s: a truncated file is not mapped", name);
    tn_error_clear();
    free(data);
}

int main(void)
{
    plan_later();
    make_folder();
    check_round_trips();
    check_mapping();
    check_mistakes();
    check_headers();
    check_damage("npy/float32-little-C-1.npy");
    check_damage("npy/int64-big-F-3.npy");
    is_str(tn_error(), NULL, "no error is left");
    return done_testing();
}
