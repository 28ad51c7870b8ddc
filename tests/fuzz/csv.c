/* csv.c: fuzzes the reader of tables of numbers in text files, plain or
 * gzipped. The first byte of the input selects the options. */
#include <tenon/io.h>

#include "fuzz.h"

const char fuzz_target[] = "csv";

static void run(const uint8_t *data, size_t size)
{
    static const char delimiters[] = {',', ';', '\t', ' '};
    static const tn_dtype dtypes[] = {TN_F32, TN_F64, TN_I64, TN_U8};
    if (!size)
        return;
    char path[32];
    int fd = fuzz_file(data + 1, size - 1, path);
    tn_scope *scope = tn_scope_open();
    int skip = data[0] >> 4 & 1;
    tn_csv_load_options o = TN_CSV_LOAD_OPTIONS;
    o.delimiter = delimiters[data[0] & 3];
    o.dtype = dtypes[data[0] >> 2 & 3];
    o.skip_rows = skip;
    if (data[0] >> 5 & 1)
        o.empty = -1;
    if (data[0] >> 6 & 1) {
        o.category = 0;
        o.categories = tn_categories_new();
    }
    tn_tensor *x = tn_csv_load_with(path, &o);
    if (x) {
        fuzz_accepted();
        fuzz_check(tn_tensor_ndim(x) == 2 && tn_tensor_numel(x) > 0,
                   "a table has rows and columns");
        fuzz_check(tn_categories_count(o.categories) <= tn_tensor_size(x, 0),
                   "no more names than rows");
        bool gzipped = size > 2 && data[1] == 0x1f && data[2] == 0x8b;
        fuzz_check(gzipped || skip || !memchr(data + 1, 0, size - 1),
                   "a byte of 0 belongs to no table");
    } else {
        fuzz_refused();
    }
    tn_scope_close(scope);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_flat(run, data, size);
    return 0;
}
