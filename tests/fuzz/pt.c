/* pt.c: fuzzes files of torch.save, in both formats: all tensors and values of an
 * accepted file are read. The corpus has archives without CRCs, as
 * torch.serialization.set_crc32_options(False) makes them, so that changed
 * pickles are reached. */
#include <tenon/io.h>
#include <tenon/torch_file.h>

#include "fuzz.h"

const char fuzz_target[] = "pt";

static void read_value(tn_torch_file *file, const char *name)
{
    const int kind = tn_torch_file_kind(file, name);
    int64_t integer;
    double real;
    tn_status status = TN_OK;
    fuzz_check(kind > TN_TORCH_TENSOR && kind <= TN_TORCH_DICT,
               "a value has a kind");
    fuzz_check(tn_torch_file_length(file, name) >= 0, "and a length");
    if (kind == TN_TORCH_TEXT || kind == TN_TORCH_BYTES)
        fuzz_check(tn_torch_file_text(file, name)
                           [tn_torch_file_length(file, name)] == 0,
                   "a text ends with a NUL");
    else if (kind == TN_TORCH_INT || kind == TN_TORCH_BOOL)
        status = tn_torch_file_int(file, name, &integer);
    else
        status = tn_torch_file_real(file, name, &real);
    if (status < 0)
        fuzz_refused();
}

static void read_tensor(tn_torch_file *file, const char *name)
{
    fuzz_check(tn_torch_file_has(file, name), "a tensor has its name");
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_torch_file_tensor(file, name);
    if (x)
        fuzz_check(tn_tensor_dtype(x) == tn_torch_file_dtype(file, name) &&
                       tn_tensor_ndim(x) == tn_torch_file_ndim(file, name),
                   "a tensor is as it was described");
    else
        fuzz_refused();
    tn_scope_close(scope);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MANY = 64 }; /* values of a file that are read */
    tn_scope *scope = tn_scope_open();
    tn_unpack_limit_set(1 << 22);
    tn_torch_file *file = tn_torch_file_open_memory(data, size);
    if (file)
        fuzz_accepted();
    else
        fuzz_refused();
    const int tensors = tn_torch_file_count(file);
    const int values = tn_torch_file_value_count(file);
    for (int i = 0; i < tensors && i < MANY; i++)
        read_tensor(file, tn_torch_file_name(file, i));
    for (int i = 0; i < values && i < MANY; i++)
        read_value(file, tn_torch_file_value_name(file, i));
    tn_scope_close(scope);
    return 0;
}
