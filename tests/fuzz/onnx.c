/* onnx.c: fuzzes ONNX files. The library must reject a file with a message that
 * names it, or open it as a module. The module must run on small inputs or fail
 * with a message. */
#include <tenon/onnx.h>
#include <tenon/ops.h>

#include "fuzz.h"

const char fuzz_target[] = "onnx";

enum { MANY = 8, MOST = 64 /* dynamic sizes above this become 2 */ };

static void run(tn_module *net)
{
    tn_tensor *in[MANY] = {NULL}, *out[MANY] = {NULL};
    int in_count = tn_onnx_input_count(net), out_count = tn_onnx_output_count(net);
    in_count = in_count < MANY ? in_count : MANY;
    out_count = out_count < MANY ? out_count : MANY;
    for (int i = 0; i < in_count; i++) {
        tn_onnx_value_info v = {.size = sizeof v};
        fuzz_check(tn_onnx_input(net, i, &v) == TN_OK, "inputs are described");
        int64_t size[TN_MAX_NDIM];
        const int ndim = v.ndim < 0 ? 1 : v.ndim > 5 ? 5 : v.ndim;
        for (int j = 0; j < ndim; j++)
            size[j] = v.ndim < 0 || v.shape[j] < 0 || v.shape[j] > MOST
                          ? 2
                          : v.shape[j];
        const tn_dims_list shape = tn_dims_from_array(size, ndim);
        if (tn_dtype_bytes(v.dtype))
            in[i] = tn_ones(shape, .dtype = v.dtype);
        tn_error_clear();
    }
    if (tn_onnx_run(net, in, in_count, out, out_count) < 0) {
        fuzz_refused();
        return;
    }
    fuzz_accepted();
    for (int i = 0; i < out_count; i++)
        fuzz_check(out[i] != NULL, "a run has all its results");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32];
    const int fd = fuzz_file(data, size, path);
    tn_scope *scope = tn_scope_open();
    tn_memory_set_limit(NULL, (int64_t)256 << 20);
    tn_module *net = tn_onnx_open(path, .max_iterations = 100);
    if (!net) {
        fuzz_check(strstr(tn_error() ? tn_error() : "", "onnx"),
                   "the message names the call");
        fuzz_refused();
        const int64_t problems = tn_onnx_check(path, NULL, NULL);
        if (problems < 0)
            fuzz_refused();
        else
            fuzz_accepted();
    } else {
        fuzz_accepted();
        run(net);
    }
    tn_scope_close(scope);
    close(fd);
    return 0;
}
