/* Tests tensors created from C data and read back: arrays, wrapped memory,
 * numbers, attributes, shapes. */
#include <tap.h>
#include <tenon/ops.h>
#include <tensor/tensor.h>

static void check_arrays(void)
{
    const float data[] = {1, 2, 3, 4, 5, 6};
    float back[6] = {0};
    tn_tensor *x = tn_tensor_from_array(data, TN_F32, tn_dims(2, 3));
    is_int(tn_tensor_to_array(x, back, sizeof back), TN_OK, "to_array");
    ok(memcmp(back, data, sizeof data) == 0,
       "numbers from an array are read back");
    is_int(tn_tensor_to_array(tn_t(x), back, sizeof back), TN_OK,
           "to_array of a transposed view");
    const float transposed[] = {1, 4, 2, 5, 3, 6};
    ok(memcmp(back, transposed, sizeof back) == 0, "row-major in its order");
    is_int(tn_tensor_to_array(x, back, 8), TN_ERR_ARGUMENT, "a short array");
    is_str(tn_error(),
           "tensor_to_array: the array has 8 bytes; expected 24, those of the "
           "tensor (6 of float32)",
           "is reported");
    tn_error_clear();

    const float changed[] = {10, 20, 30};
    is_int(tn_tensor_set_array(tn_select(tn_t(x), 1, 0), changed,
                               sizeof changed), TN_OK, "set_array of a row");
    const float column[] = {7, 8};
    is_int(tn_tensor_set_array(tn_select(x, 1, 2), column, sizeof column),
           TN_OK, "set_array of a strided view");
    tn_tensor_to_array(x, back, sizeof back);
    const float want[] = {10, 20, 7, 4, 5, 8};
    ok(memcmp(back, want, sizeof want) == 0, "changes its elements alone");
    ok(tn_tensor_from_array(NULL, TN_F32, tn_dims(0)) != NULL,
       "an empty tensor needs no data");
    ok(tn_error() == NULL, "without an error");
}

static void check_items(void)
{
    ok(tn_item(tn_full(TN_SCALAR, 2.5)) == 2.5, "item");
    is_int(tn_item_int(tn_full(tn_dims(1, 1), INT64_MAX)), INT64_MAX,
           "item_int of one element is exact");
    is_int(tn_item_int(tn_full(TN_SCALAR, 1e30, .dtype = TN_F64)), INT64_MAX,
           "item_int saturates");
    static const struct {
        tn_dtype dtype;
        double value;
    } narrow[] = {{TN_F16, 65504},  {TN_F16, 5.960464477539063e-08},
                  {TN_BF16, 1.5},   {TN_I8, -128},
                  {TN_U8, 255},     {TN_I16, -32768},
                  {TN_BOOL, 1},     {TN_F64, 0.1}};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        ok(tn_item(tn_full(TN_SCALAR, narrow[i].value,
                           .dtype = narrow[i].dtype)) == narrow[i].value,
           "item of %s %g", tn_dtype_name(narrow[i].dtype), narrow[i].value);
    const uint8_t eights[] = {0x7e, 0x08, 0x01, 0xff};
    tn_tensor *x = tn_tensor_from_array(eights, TN_F8E4M3, tn_dims(4));
    ok(tn_item(tn_select(x, 0, 0)) == 448, "the largest float8_e4m3fn");
    ok(tn_item(tn_select(x, 0, 1)) == 0.015625, "its smallest normal number");
    ok(tn_item(tn_select(x, 0, 2)) == 0.001953125, "its smallest number");
    ok(isnan(tn_item(tn_select(x, 0, 3))), "its NaN");
    ok(isnan(tn_item(tn_zeros(tn_dims(2)))), "item of two elements is NaN");
    is_str(tn_error(),
           "item: the tensor has 2 elements; expected one", "and says so");
    tn_error_clear();
    is_int(tn_item_int(NULL), INT64_MIN, "item_int of NULL");
    tn_error_clear();
}

static void check_attributes(void)
{
    tn_tensor *x = tn_zeros(tn_dims(2, 3, 4));
    is_int(tn_tensor_ndim(x), 3, "ndim");
    is_int(tn_tensor_size(x, -1), 4, "size from the end");
    is_int(tn_tensor_size(x, 3), -1, "size of no dimension");
    is_int(tn_tensor_numel(x), 24, "numel");
    is_int(tn_tensor_strides(x)[0], 12, "row-major strides");
    ok(tn_tensor_is_contiguous(x), "a new tensor is contiguous");
    tn_tensor *t = tn_transpose(x, 0, 2);
    ok(!tn_tensor_is_contiguous(t), "its transpose is not contiguous");
    ok(tn_tensor_is_alias(x, t), "but shares its memory");
    ok(!tn_tensor_is_alias(x, tn_clone(x)), "a clone does not");
    ok(tn_tensor_device(x) == tn_device_current(), "device");
    is_int(tn_tensor_ndim(NULL), 0, "attributes of NULL are 0");
    ok(tn_tensor_shape(NULL) == NULL && !tn_tensor_is_contiguous(NULL),
       "or NULL");
    ok(tn_error() == NULL, "attributes cannot fail");
}

static int released;
static void release(void *context)
{
    released += *(int *)context;
}

static void check_wrap(void)
{
    static float data[4] = {1, 2, 3, 4};
    int count = 5;
    tn_scope *scope = tn_scope_open();
    tn_tensor *x =
        tn_tensor_wrap(data, TN_F32, tn_dims(2, 2), release, &count);
    if (!x) {
        skip(1, tn_error());
        tn_error_clear();
        tn_scope_close(scope);
        return;
    }
    ok(tn_tensor_data(x) == data, "wrapped memory is not copied");
    tn_add_scalar_(x, 1);
    ok(data[3] == 5, "an operator in place writes into it");
    tn_tensor *view = tn_keep(tn_select(x, 0, 0));
    tn_scope_close(scope);
    is_int(released, 0, "a view holds the loan");
    tn_drop(view);
    is_int(released, 5, "the memory is released once, with the last tensor");
}

static void check_shapes(void)
{
    tn__shape s = {2, {3, 1}};
    ok(tn__shape_broadcast(&s, 3, (int64_t[]){4, 1, 5}) && s.ndim == 3 &&
           s.dim[0] == 4 && s.dim[1] == 3 && s.dim[2] == 5,
       "(3, 1) and (4, 1, 5) broadcast to (4, 3, 5)");
    ok(!tn__shape_broadcast(&s, 1, (int64_t[]){2}), "(4, 3, 5) and (2,) do not");
    s = (tn__shape){1, {1}};
    ok(tn__shape_broadcast(&s, 1, (int64_t[]){0}) && s.dim[0] == 0,
       "1 broadcasts to 0");
    int64_t low, high;
    tn__shape_span(2, (int64_t[]){3, 2}, (int64_t[]){-4, 1}, &low, &high);
    ok(low == -8 && high == 1, "the span of negative strides");
    tn__shape_span(1, (int64_t[]){0}, (int64_t[]){1}, &low, &high);
    ok(low == 0 && high == -1, "the span of nothing");
    is_int(tn__shape_dim(0, -1), 0, "a 0-d tensor counts as 1-d");
    is_int(tn__shape_dim(2, 2), -1, "dim 2 of 2");
    ok(tn__shape_is_contiguous(3, (int64_t[]){2, 1, 3}, (int64_t[]){3, 99, 1}),
       "the stride of size 1 does not matter");
}

/* The element sizes in tensor.h equal those in dtype.c. */
static void check_shifts(void)
{
    for (tn_dtype dtype = TN_F32; dtype < TN_DTYPE_END; dtype++) {
        const tn_tensor x = {.dtype = (uint8_t)dtype};
        ok((size_t)1 << tn__tensor_shift(&x) == tn_dtype_bytes(dtype),
           "an offset of %s counts its elements", tn_dtype_name(dtype));
    }
}

int main(void)
{
    plan_later();
    static const char *const devices[] = {"reference", "cpu",
                                          "opencl"};
    for (int d = 0; d < 3; d++) {
        tn_device *device = tn_device_open(devices[d]);
        if (!device) {
            skip(1, tn_error());
            tn_error_clear();
            continue;
        }
        tn_device_set(device);
        note("on %s", tn_device_name(device));
        released = 0;
        check_arrays();
        check_items();
        check_attributes();
        check_wrap();
    }
    check_shapes();
    check_shifts();
    return done_testing();
}
