/* devices.c: fuzzes definitions of operators, which run on the current device
 * and on the reference. Results and gradients must be bit-identical, or both
 * devices must reject. The first byte selects the operands' dtype and shape;
 * the rest is the definition without its name. */
#include "fuzz.h"

#include "../same_bits.h"
#include <tenon/tenon.h>

const char fuzz_target[] = "devices";

enum { ARGUMENTS = 32, RESULTS = 16, KEPT = RESULTS + ARGUMENTS };

typedef struct results {
    int count;
    tn_status status;
    tn_tensor *of[KEPT]; /* NULL: no such result */
} results;

static tn_tensor *operand(tn_dtype dtype, int shape, int place)
{
    tn_tensor *x = tn_arange(0, 24, 1, .dtype = TN_F64);
    if (shape == 0)
        return tn_to_dtype(tn_reshape(tn_sub_scalar(x, 11), tn_dims(2, 3, 4)),
                           dtype);
    if (shape == 2)
        return tn_to_dtype(tn_full(TN_SCALAR, 2.), dtype);
    x = tn_to_dtype(tn_reshape(tn_mul_scalar(x, 0.37), tn_dims(4, 6)), dtype);
    return place == 1 ? tn_select(x, 0, 1) : x;
}

static void fill(const tn_op *op, tn_value *value, tn_dtype dtype, int shape)
{
    for (int i = 0; i < tn_op_arg_count(op); i++) {
        const uint32_t kinds = tn_op_arg_at(op, i)->kinds;
        if (kinds >> TN_VALUE_TENSOR & 1) {
            tn_tensor *x = operand(dtype, shape, i);
            if (tn_dtype_is_floating(dtype))
                tn_requires_grad(x);
            value[i] = (tn_value){TN_VALUE_TENSOR, 0, {.tensor = x}};
        } else if (kinds >> TN_VALUE_FLOAT & 1) {
            value[i] = (tn_value){TN_VALUE_FLOAT, 0, {.f = 1.25}};
        } else if (kinds >> TN_VALUE_INT & 1) {
            value[i] = (tn_value){TN_VALUE_INT, 0, {.i = 3}};
        } else if (kinds >> TN_VALUE_NUMBER & 1) {
            value[i] = (tn_value){TN_VALUE_NUMBER, TN_SCALAR_INT, {.i = 2}};
        } else if (kinds >> TN_VALUE_BOOL & 1) {
            value[i] = (tn_value){TN_VALUE_BOOL, 0, {.i = 1}};
        }
    }
}

static void run(const tn_op *op, tn_dtype dtype, int shape, results *r)
{
    tn_value value[ARGUMENTS] = {{.kind = 0}};
    const int arguments = tn_op_arg_count(op);
    fill(op, value, dtype, shape);
    fuzz_accepted();
    r->count = tn_op_call(op, value, arguments, r->of, RESULTS);
    for (int i = 0; i < r->count && !tn_error(); i++)
        tn_item(tn_sum(tn_to_dtype(tn_detach(r->of[i]), TN_F64)));
    tn_tensor *first = r->count > 0 ? r->of[0] : NULL;
    if (!tn_error() && first && tn_tensor_requires_grad(first) &&
        tn_dtype_is_floating(tn_tensor_dtype(first)) &&
        tn_backward(tn_sum(first)) >= 0)
        for (int i = 0; i < arguments; i++)
            if (value[i].kind == TN_VALUE_TENSOR)
                r->of[RESULTS + i] = tn_tensor_grad(value[i].of.tensor);
    if (tn_device_synchronize(tn_device_current()) < 0 || tn_error()) {
        r->status = tn_error_code();
        fuzz_refused();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const tn_dtype dtypes[] = {TN_F32, TN_F64,  TN_I64, TN_I32,
                                      TN_F16, TN_BF16, TN_U8,  TN_BOOL};
    static unsigned number;
    if (size < 2)
        return 0;
    char *text = malloc(size + 32);
    if (!text)
        abort();
    const int length = sprintf(text, "fuzz%u", number++);
    memcpy(text + length, data + 1, size - 1);
    text[(size_t)length + size - 1] = 0;
    tn_scope *scope = tn_scope_open();
    const tn_op *op = tn_op_define(text);
    if (!op)
        fuzz_refused();
    if (op && tn_op_arg_count(op) <= ARGUMENTS) {
        results here = {.count = 0}, there = {.count = 0};
        tn_device *device = tn_device_current();
        const int shape = (data[0] >> 3 & 3) % 3;
        run(op, dtypes[data[0] & 7], shape, &here);
        tn_device_set(tn_device_open("reference"));
        run(op, dtypes[data[0] & 7], shape, &there);
        tn_device_set(device);
        fuzz_check(here.count == there.count && here.status == there.status,
                   "both devices do it, or refuse it alike");
        for (int i = 0; i < KEPT && !here.status; i++)
            fuzz_check(!here.of[i] == !there.of[i] &&
                           (!here.of[i] || same_bits(here.of[i], there.of[i])),
                       "both devices give the same bits");
    }
    free(text);
    tn_scope_close(scope);
    return 0;
}
