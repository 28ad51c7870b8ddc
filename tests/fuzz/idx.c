/* idx.c: fuzzes the reader of IDX files. A file may be accepted only if its
 * size is the one that its header implies. */
#include <io/idx.h>

#include "fuzz.h"

const char fuzz_target[] = "idx";

static void run(const uint8_t *data, size_t size)
{
    tn__idx idx;
    if (tn__idx_parse(&idx, data, size, "input") == TN_OK) {
        fuzz_accepted();
        uint64_t bytes = tn_dtype_bytes(idx.dtype);
        for (int i = 0; i < idx.shape.count; i++)
            bytes *= (uint64_t)idx.shape.dim[i];
        fuzz_check(bytes == idx.data_bytes &&
                       idx.header_bytes + idx.data_bytes == size,
                   "header and elements are the whole file");
    } else {
        fuzz_refused();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_flat(run, data, size);
    return 0;
}
