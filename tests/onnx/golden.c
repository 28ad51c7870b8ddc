/* golden.c: compares a model with the outputs of ONNX Runtime.
 *
 *   golden [-t TOLERANCE] MODEL.onnx GOLDEN.safetensors
 *
 * The golden file has the tensors in.NAME and out.NAME. The program prints one
 * line of TAP for each output. Integers must be equal. Without -t, an element
 * may differ by 1e-4 times the largest element of its output: a sum in another
 * order differs by about 1e-6, and a model has many sums in a row. */
#include <tap.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/io.h>
#include <tenon/onnx.h>
#include <tenon/ops.h>

enum { MANY = 64 };

/* Returns the largest difference, relative to the largest element of want. Two
 * NaN are equal. Returns -1 if the shapes or dtypes differ. */
static double difference(tn_tensor *have, tn_tensor *want)
{
    if (tn_tensor_dtype(have) != tn_tensor_dtype(want) ||
        tn_tensor_ndim(have) != tn_tensor_ndim(want))
        return -1;
    for (int i = 0; i < tn_tensor_ndim(want); i++)
        if (tn_tensor_size(have, i) != tn_tensor_size(want, i))
            return -1;
    const int64_t n = tn_tensor_numel(want);
    double *x = malloc(((size_t)n + 1) * sizeof *x);
    double *y = malloc(((size_t)n + 1) * sizeof *y);
    double worst = 0, scale = 0;
    tn_tensor_to_array(tn_to_dtype(have, TN_F64), x, (size_t)n * sizeof *x);
    tn_tensor_to_array(tn_to_dtype(want, TN_F64), y, (size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(y[i]) && fabs(y[i]) > scale)
            scale = fabs(y[i]);
        if (isnan(x[i]) != isnan(y[i]) || isinf(x[i]) != isinf(y[i]))
            worst = INFINITY;
        else if (isfinite(y[i]) && fabs(x[i] - y[i]) > worst)
            worst = fabs(x[i] - y[i]);
    }
    free(x);
    free(y);
    return scale > 0 ? worst / scale : worst;
}

int main(int argc, char **argv)
{
    double tolerance = 1e-4;
    if (argc == 5 && strcmp(argv[1], "-t") == 0) {
        tolerance = atof(argv[2]);
        argv += 2;
    } else if (argc != 3) {
        bail_out("usage: golden [-t TOLERANCE] MODEL.onnx GOLDEN.safetensors");
    }
    plan_later();
    tn_device *device = tn_device_current();
    tn_module *net = tn_onnx_open(argv[1]);
    tn_safetensors *file = tn_safetensors_open(argv[2]);
    const int in_count = tn_onnx_input_count(net),
              out_count = tn_onnx_output_count(net);
    ok(net && file && device, "%s and %s are opened", argv[1], argv[2]);
    if (tn_error())
        note("%s", tn_error());
    if (in_count > MANY || out_count > MANY)
        bail_out("more than %d inputs or outputs", MANY);
    tn_tensor *in[MANY] = {NULL}, *out[MANY] = {NULL};
    char name[512];
    for (int i = 0; i < in_count; i++) {
        tn_onnx_value_info info = {.size = sizeof info};
        tn_onnx_input(net, i, &info);
        snprintf(name, sizeof name, "in.%s", info.name);
        if (tn_safetensors_has(file, name))
            in[i] = tn_safetensors_tensor(file, name);
    }
    const tn_status status =
        net ? tn_onnx_run(net, in, in_count, out, out_count) : TN_ERR_STATE;
    ok(status == TN_OK, "the model runs");
    if (status < 0 && tn_error())
        note("%s", tn_error());
    for (int i = 0; i < out_count && status == TN_OK; i++) {
        tn_onnx_value_info info = {.size = sizeof info};
        tn_onnx_output(net, i, &info);
        snprintf(name, sizeof name, "out.%s", info.name);
        if (!tn_safetensors_has(file, name)) {
            note("no %s in the golden file", name);
            continue;
        }
        tn_tensor *want = tn_safetensors_tensor(file, name);
        const bool is_float = tn_dtype_is_floating(tn_tensor_dtype(want));
        const double worst = difference(out[i], want);
        ok(worst >= 0 && worst <= (is_float ? tolerance : 0),
           "%s is that of ONNX Runtime", info.name);
        note("%s differs by %.2g", info.name, worst);
    }
    return done_testing();
}
