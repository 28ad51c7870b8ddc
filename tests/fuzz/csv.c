/* csv.c: tables of numbers in text files, gzipped or not. The first byte of
 * the input chooses the options. */
#include <tenon/io.h>

#include "fuzz.h"

const char fuzz_target[] = "csv";

static void run(const uint8_t *data, size_t size)
{
    static const char delimiters[] = {0, ';', '\t', ' '};
    static const tn_dtype dtypes[] = {TN_DTYPE_NONE, TN_F64, TN_I64, TN_U8};
    if (!size)
        return;
    char path[32];
    int fd = fuzz_file(data + 1, size - 1, path);
    tn_scope *scope = tn_scope_open();
    int skip = data[0] >> 4 & 1;
    tn_tensor *x = tn_csv_load(path, .delimiter = delimiters[data[0] & 3],
                               .dtype = dtypes[data[0] >> 2 & 3],
                               .skip_rows = skip);
    if (x) {
        fuzz_accepted();
        fuzz_check(tn_tensor_ndim(x) == 2 && tn_tensor_numel(x) > 0,
                   "a table has rows and columns");
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
