/* npz.c: fuzzes .npz files: all arrays of an accepted archive are read. */
#include <tenon/io.h>
#include <tenon/npy.h>

#include "fuzz.h"

const char fuzz_target[] = "npz";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_scope *scope = tn_scope_open();
    tn_unpack_limit_set(1 << 24);
    tn_npz *file = tn_npz_open_memory(data, size);
    if (file)
        fuzz_accepted();
    else
        fuzz_refused();
    for (int i = 0; i < tn_npz_count(file); i++) {
        const char *name = tn_npz_name(file, i);
        fuzz_check(name && tn_npz_has(file, name), "an array has its name");
        if (tn_npz_tensor(file, name))
            fuzz_accepted();
        else
            fuzz_refused();
    }
    tn_scope_close(scope);
    return 0;
}
