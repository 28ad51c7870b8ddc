/* test_goldens.c: files of NumPy and PyTorch are read as they were written.
 * make_arrays.py made the files and expected.txt, which lists their
 * contents. */
#include "arrays.h"

#include <tenon/npy.h>
#include <tenon/torch_file.h>

enum { FIELDS = 6 };
enum { FILE_NAME, NAME, KIND, DTYPE, SHAPE, HEX }; /* of a line */

static const char *current; /* the file of the last line */
static tn_npz *npz;
static tn_torch_file *pt;
static int tensors, values; /* compared in the file */

static bool ends(const char *text, const char *end)
{
    const size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static void hex_of(const void *data, size_t bytes, char *out)
{
    for (size_t i = 0; i < bytes; i++)
        sprintf(out + 2 * i, "%02x", ((const unsigned char *)data)[i]);
    out[2 * bytes] = 0;
}

static bool has_shape(const tn_tensor *x, const char *shape)
{
    char text[256] = "";
    size_t at = 0;
    for (int d = 0; d < tn_tensor_ndim(x); d++)
        at += (size_t)snprintf(text + at, sizeof text - at, d ? ",%lld"
                                                              : "%lld",
                               (long long)tn_tensor_shape(x)[d]);
    return strcmp(text, shape) == 0;
}

static void compare(tn_tensor *x, char *const *field)
{
    static char data[1 << 16], hex[1 << 17];
    const char *name = *field[NAME] ? field[NAME] : field[FILE_NAME];
    if (!ok(x, "%s is read", name)) {
        note("%s", tn_error());
        tn_error_clear();
        return;
    }
    const size_t bytes = (size_t)tn_tensor_numel(x) *
                         tn_dtype_bytes(tn_tensor_dtype(x));
    tn_tensor_to_array(x, data, bytes);
    hex_of(data, bytes, hex);
    ok(strcmp(tn_dtype_name(tn_tensor_dtype(x)), field[DTYPE]) == 0 &&
           has_shape(x, field[SHAPE]) && tn_tensor_is_contiguous(x) &&
           strcmp(hex, field[HEX]) == 0,
       "%s has its dtype, shape and elements", name);
}

/* ---- values of PyTorch ---------------------------------------------------- */

static void compare_tensor(char *const *field)
{
    const char *name = field[NAME];
    const int64_t *shape = tn_torch_file_shape(pt, name);
    tn_tensor *x = tn_torch_file_tensor(pt, name);
    compare(x, field);
    ok(tn_torch_file_kind(pt, name) == TN_TORCH_TENSOR &&
           tn_torch_file_has(pt, name) &&
           tn_torch_file_dtype(pt, name) == tn_tensor_dtype(x) &&
           tn_torch_file_ndim(pt, name) == tn_tensor_ndim(x) &&
           memcmp(shape, tn_tensor_shape(x),
                  (size_t)tn_tensor_ndim(x) * sizeof *shape) == 0,
       "%s is described", name);
    is_str(tn_torch_file_name(pt, tensors++), name, "tensors are in order");
}

static void compare_value(char *const *field)
{
    static const struct {
        const char *name;
        int kind;
    } kinds[] = {{"bool", TN_TORCH_BOOL}, {"int", TN_TORCH_INT},
                 {"real", TN_TORCH_REAL}, {"none", TN_TORCH_NONE},
                 {"text", TN_TORCH_TEXT}, {"bytes", TN_TORCH_BYTES},
                 {"list", TN_TORCH_LIST}, {"dict", TN_TORCH_DICT}};
    const char *name = field[NAME], *want = field[DTYPE];
    int kind = -1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, field[KIND]) == 0)
            kind = kinds[i].kind;
    is_int(tn_torch_file_kind(pt, name), kind, "\"%s\" is %s", name,
           field[KIND]);
    int64_t integer = -99;
    double real = -99;
    static char hex[1 << 12];
    const int64_t length = tn_torch_file_length(pt, name);
    switch (kind) {
    case TN_TORCH_BOOL:
    case TN_TORCH_INT:
        ok(tn_torch_file_int(pt, name, &integer) == TN_OK &&
               integer == strtoll(want, NULL, 10),
           "\"%s\" is %s", name, want);
        ok(tn_torch_file_real(pt, name, &real) == TN_OK &&
               real == (double)integer,
           "\"%s\" is a number", name);
        break;
    case TN_TORCH_REAL:
        ok(tn_torch_file_real(pt, name, &real) == TN_OK &&
               real == strtod(want, NULL),
           "\"%s\" is %s", name, want);
        break;
    case TN_TORCH_TEXT:
    case TN_TORCH_BYTES:
        hex_of(tn_torch_file_text(pt, name), (size_t)length, hex);
        is_str(hex, field[HEX], "\"%s\" has its bytes", name);
        break;
    case TN_TORCH_LIST:
    case TN_TORCH_DICT:
        is_int(length, strtoll(want, NULL, 10), "\"%s\" has its length", name);
    }
    is_str(tn_torch_file_value_name(pt, values++), name,
           "values are in order");
}

/* ---- files ---------------------------------------------------------------- */

static void end_file(void)
{
    if (pt) {
        is_int(tn_torch_file_count(pt), tensors, "no other tensors");
        is_int(tn_torch_file_value_count(pt), values, "no other values");
    }
    npz = NULL;
    pt = NULL;
}

static void begin_file(const char *name)
{
    const char *path = golden(name);
    end_file();
    tensors = values = 0;
    if (ends(name, ".npz"))
        npz = tn_npz_open(path);
    if (ends(name, ".pt"))
        pt = tn_torch_file_open(path);
    is_str(tn_error(), NULL, "%s is opened", name);
}

/* Rejected files, also from memory. */
static void check_refused(char *const *field)
{
    const char *name = field[FILE_NAME], *path = golden(name);
    const bool is_npy = ends(name, ".npy"), is_npz = ends(name, ".npz");
    size_t bytes;
    char *data = read_all(path, &bytes);
    for (int i = 0; i < 2; i++) {
        void *made = is_npy && i   ? (void *)tn_npy_load_memory(data, bytes)
                     : is_npy      ? (void *)tn_npy_load(path)
                     : is_npz && i ? (void *)tn_npz_open_memory(data, bytes)
                     : is_npz      ? (void *)tn_npz_open(path)
                     : i ? (void *)tn_torch_file_open_memory(data, bytes)
                         : (void *)tn_torch_file_open(path);
        ok(!made, "%s is rejected", name);
        refused(tn_error_code(), field[NAME], "%s: the message says why",
                name);
    }
    free(data);
}

static void check_line(char *const *field)
{
    if (strcmp(field[KIND], "refused") == 0) {
        check_refused(field);
        return;
    }
    if (!current || strcmp(current, field[FILE_NAME]) != 0)
        begin_file(field[FILE_NAME]);
    current = field[FILE_NAME];
    if (npz)
        compare(tn_npz_tensor(npz, field[NAME]), field);
    else if (!pt)
        compare(tn_npy_load(golden(field[FILE_NAME])), field);
    else if (strcmp(field[KIND], "tensor") == 0)
        compare_tensor(field);
    else
        compare_value(field);
}

int main(void)
{
    plan_later();
    size_t bytes;
    char *text = read_all(golden("expected.txt"), &bytes);
    int lines = 0;
    for (char *line = text, *next; *line; line = next, lines++) {
        char *field[FIELDS], *at = line;
        next = strchr(line, '\n');
        *next++ = 0;
        for (int i = 0; i < FIELDS; i++) {
            field[i] = at;
            at = strchr(at, '\t');
            if (at)
                *at++ = 0;
        }
        check_line(field);
    }
    end_file();
    ok(lines > 600, "%d arrays and values", lines);
    ok(access("tenon-executed", F_OK) != 0, "no pickle was executed");
    free(text);
    return done_testing();
}
