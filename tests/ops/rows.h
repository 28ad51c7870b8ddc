/* rows.h: shared by tests of single operators: small tensors, checks of a
 * result, and a loop over the devices. */
#ifndef TN_TESTS_OPS_ROWS_H
#define TN_TESTS_OPS_ROWS_H

#include <stdlib.h>
#include <string.h>
#include <tap.h>
#include <tenon/autograd.h>
#include <tenon/device.h>
#include <tenon/ops.h>
#include <tenon/random.h>

static const char *device_name;

/* The small tensors that most calls use, on the current device. */
typedef struct rows_input {
    tn_tensor *x, *y, *p; /* float32 (2, 3); p has no element below 0.25 */
    tn_tensor *i;         /* int64 (2, 3) */
    tn_tensor *b;         /* bool (2, 3) */
    tn_tensor *k;         /* int64 (2): indices of columns */
    tn_tensor *v, *bias;  /* float32 (3), (2) */
    tn_tensor *img, *w;   /* float32 (1, 2, 4, 4), (2, 2, 3, 3) */
} rows_input;

/* Removes the device from a tensor's printed form, so that it is the same on
 * all devices. */
static void drop_device(char *text)
{
    char *at = strstr(text, "device='");
    if (!at)
        return;
    char *end = strchr(at + strlen("device='"), '\'') + 1;
    while (at > text && strchr(", \n", at[-1]))
        at--;
    memmove(at, end, strlen(end) + 1);
}

/* Checks that got prints as this string, except for the device's name. */
static void check(const char *name, tn_tensor *got, const char *want)
{
    char *text = got ? tn_tensor_text(got) : NULL;
    if (text)
        drop_device(text);
    is_str(text ? text : tn_error(), want, "%s: %s", device_name, name);
    free(text);
    tn_error_clear();
}

/* Returns the gradient of y's sum with respect to x. */
static tn_tensor *gradient(tn_tensor *y, tn_tensor *x)
{
    return y && tn_backward(tn_sum(y)) >= 0 ? tn_tensor_grad(x) : NULL;
}

static rows_input make_input(void)
{
    const float x_data[] = {1, -2, 3, 4, 5, -6};
    const float y_data[] = {2, 2, 2, 0.5f, -1, 3};
    const float p_data[] = {0.5f, 1, 2, 3, 0.25f, 4};
    const int64_t i_data[] = {3, -4, 5, 7, 0, -2}, k_data[] = {2, 0};
    const bool b_data[] = {true, false, true, false, false, true};
    const float v_data[] = {1, 2, 3}, bias_data[] = {0.5f, -0.5f};
    tn_tensor *x = tn_tensor_from_array(x_data, TN_F32, tn_dims(2, 3));
    tn_tensor *y = tn_tensor_from_array(y_data, TN_F32, tn_dims(2, 3));
    tn_tensor *p = tn_tensor_from_array(p_data, TN_F32, tn_dims(2, 3));
    tn_tensor *i = tn_tensor_from_array(i_data, TN_I64, tn_dims(2, 3));
    tn_tensor *b = tn_tensor_from_array(b_data, TN_BOOL, tn_dims(2, 3));
    tn_tensor *k = tn_tensor_from_array(k_data, TN_I64, tn_dims(2));
    tn_tensor *v = tn_tensor_from_array(v_data, TN_F32, tn_dims(3));
    tn_tensor *bias = tn_tensor_from_array(bias_data, TN_F32, tn_dims(2));
    tn_tensor *img = tn_reshape(tn_arange(0, 32, 1, .dtype = TN_F32),
                                tn_dims(1, 2, 4, 4));
    tn_tensor *w = tn_div_scalar(
        tn_sub_scalar(tn_reshape(tn_arange(0, 36, 1), tn_dims(2, 2, 3, 3)),
                      17),
        8);
    return (rows_input){x, y, p, i, b, k, v, bias, img, w};
}

/* Runs a test on each available device, within a scope. */
static void rows_on_devices(void (*run)(const rows_input *in, tn_device *device))
{
    static const char *const devices[] = {"reference", "cpu", "opencl"};
    for (int d = 0; d < 3; d++) {
        device_name = devices[d];
        tn_device *device = tn_device_open(device_name);
        if (!device) {
            skip(1, tn_error());
            tn_error_clear();
            continue;
        }
        tn_device_set(device);
        tn_scope *scope = tn_scope_open();
        rows_input in = make_input();
        run(&in, device);
        tn_scope_close(scope);
    }
}

#endif
