/* npy.c: fuzzes .npy files. An accepted file gives a tensor, which is written and
 * read again with the same elements. */
#include <tenon/npy.h>

#include "fuzz.h"

const char fuzz_target[] = "npy";

static void check_again(tn_tensor *x)
{
    void *data = NULL;
    size_t bytes = 0;
    const size_t size =
        (size_t)tn_tensor_numel(x) * tn_dtype_bytes(tn_tensor_dtype(x));
    fuzz_check(tn_npy_save_memory(x, &data, &bytes) == TN_OK,
               "what is read can be written");
    fuzz_check(bytes >= size && bytes - size <= 512, "a header and elements");
    const tn_dtype dtype = tn_tensor_dtype(x);
    const bool raw = dtype == TN_F8E5M2 || dtype == TN_BF16;
    tn_tensor *y = tn_npy_load_memory(
        data, bytes, .view = raw ? dtype : TN_DTYPE_NONE);
    fuzz_check(y && tn_tensor_ndim(y) == tn_tensor_ndim(x), "and read again");
    void *a = malloc(size + 1), *b = malloc(size + 1);
    fuzz_check(tn_tensor_to_array(x, a, size) == TN_OK &&
                   tn_tensor_to_array(y, b, size) == TN_OK &&
                   memcmp(a, b, size) == 0,
               "with the same elements");
    free(a);
    free(b);
    free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_scope *scope = tn_scope_open();
    for (int raw = 0; raw < 2; raw++) {
        tn_tensor *x = tn_npy_load_memory(
            data, size, .view = raw ? TN_BF16 : TN_DTYPE_NONE);
        if (x) {
            fuzz_accepted();
            check_again(x);
        } else {
            fuzz_refused();
        }
    }
    tn_scope_close(scope);
    return 0;
}
