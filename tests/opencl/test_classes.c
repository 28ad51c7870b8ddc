/* One operator for each kind of kernel gives results bit-identical to the cpu's
 * on an OpenCL device: pointwise (vectors, odd sizes, strides), rows that one
 * team of work-items reduces, longer rows, gathers, loops, random numbers, and
 * the other four primitives. The cases are few and small, so that
 * test_oclgrind.sh can check each memory access. */
#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

static tn_tensor *input(int64_t rows, int64_t columns)
{
    tn_tensor *x = tn_arange(0.0, (double)(rows * columns), 1.0);
    return tn_reshape(tn_sin(x), tn_dims(rows, columns));
}

static tn_tensor *numbers(const int64_t *value, int64_t count)
{
    return tn_tensor_from_array(value, TN_I64, tn_dims(count));
}

static const int64_t few[] = {2, 0, 3, 2, 1, 3}, some[] = {12, 18, 7, 0, 9, 30};

static tn_tensor *vectors(void)
{
    return tn_exp(input(4, 8));
}

static tn_tensor *odd_elements(void)
{
    return tn_add(tn_narrow(input(3, 7), 1, 1, 5), input(3, 1));
}

static tn_tensor *half_elements(void)
{
    return tn_relu(tn_to_dtype(input(2, 24), TN_F16));
}

static tn_tensor *short_rows(void)
{
    return tn_softmax(input(5, 40), 1);
}

static tn_tensor *long_rows(void)
{
    return tn_sum(input(1, 5000));
}

static tn_tensor *gathers(void)
{
    return tn_embedding(numbers(few, 6), input(4, 3));
}

static tn_tensor *loops(void)
{
    return tn_gcd(numbers(few, 6), numbers(some, 6));
}

static tn_tensor *random_numbers(void)
{
    tn_manual_seed(5);
    return tn_dropout(input(4, 9), 0.5, true);
}

/* Products of integers, which are exact in any order. */
static tn_tensor *matrix_product(void)
{
    tn_tensor *x = tn_reshape(tn_arange(0.0, 70.0, 1.0), tn_dims(7, 10));
    return tn_matmul(x, tn_transpose(x, 0, 1));
}

/* Computes a product with more rows than matmul.cl copies at once, as in
 * layers. */
static tn_tensor *matrix_blocks(void)
{
    tn_tensor *x = tn_reshape(tn_arange(0.0, 6000.0, 1.0), tn_dims(20, 300));
    x = tn_remainder(x, tn_full_like(x, 7));
    return tn_matmul(x, tn_transpose(x, 0, 1));
}

/* Computes a convolution of integers, and the gradients of image and weight.
 * With more filters than a large tile has rows, tiles are large on a device
 * with one compute unit, such as oclgrind's. */
static tn_tensor *convolution(int64_t filters)
{
    tn_tensor *x = tn_reshape(tn_arange(0.0, 300.0, 1.0),
                              tn_dims(2, 3, 10, 5));
    tn_tensor *w = tn_reshape(tn_arange(0.0, (double)filters * 18.0, 1.0),
                              tn_dims(filters, 3, 3, 2));
    x = tn_requires_grad(tn_remainder(x, tn_full_like(x, 7)));
    w = tn_requires_grad(tn_remainder(w, tn_full_like(w, 5)));
    tn_tensor *y = tn_conv2d(x, w, tn_arange(0.0, (double)filters, 1.0),
                             .strides = tn_dims(2, 1), .padding = 1);
    tn_tensor *const of[] = {x, w};
    tn_tensor *g[2] = {NULL};
    tn_grad(tn_sum(tn_mul(y, y)), of, 2, g);
    tn_tensor *const parts[] = {tn_flatten(tn_detach(y)), tn_flatten(g[0]),
                                tn_flatten(g[1])};
    tn_tensor *all = tn_cat(parts, 3, 0);
    const int64_t count = tn_tensor_numel(all);
    /* the results have 4096 bytes */
    return tn_slice(all, 0, 0, count, 1 + count / 1000);
}

static tn_tensor *convolutions(void)
{
    return convolution(7);
}

static tn_tensor *large_convolutions(void)
{
    return convolution(70);
}

static tn_tensor *scatters(void)
{
    return tn_index_add(input(4, 3), 0, numbers(few, 6), input(6, 3));
}

static tn_tensor *scans(void)
{
    return tn_cumsum(input(3, 50), 1);
}

static tn_tensor *sorts(void)
{
    return tn_sort(input(3, 40), 1, false, NULL);
}

static const struct {
    const char *name;
    tn_tensor *(*make)(void);
} classes[] = {
    {"elements in vectors", vectors},
    {"elements of views", odd_elements},
    {"elements of half precision", half_elements},
    {"rows within a team", short_rows},
    {"rows of several chunks", long_rows},
    {"gathers", gathers},
    {"loops", loops},
    {"random numbers", random_numbers},
    {"matmul", matrix_product},
    {"matmul in blocks", matrix_blocks},
    {"conv, with its gradients", convolutions},
    {"conv in large tiles", large_convolutions},
    {"scatter", scatters},
    {"scan", scans},
    {"sort", sorts},
};

/* Copies a result's bytes and returns their number; 0, with a note, if the
 * operator failed. */
static size_t bytes_on(tn_device *device, tn_tensor *(*make)(void),
                       char out[4096])
{
    tn_device_set(device);
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_contiguous(make());
    size_t bytes = x ? (size_t)tn_tensor_numel(x) *
                           tn_dtype_bytes(tn_tensor_dtype(x))
                     : 0;
    if (bytes > 4096 || tn_tensor_to_array(x, out, bytes) < 0 ||
        tn_device_synchronize(device) < 0) {
        note("%s: %s", tn_device_name(device), tn_error());
        tn_error_clear();
        bytes = 0;
    }
    tn_scope_close(scope);
    return bytes;
}

int main(void)
{
    enum { COUNT = sizeof classes / sizeof *classes };
    tn_device *cpu = tn_device_open("cpu");
    tn_device *opencl = tn_device_open("opencl");
    plan_later();
    if (!opencl) {
        skip(COUNT, "no OpenCL device here");
        note("%s", tn_error());
        tn_error_clear();
        return done_testing();
    }
    note("%s", tn_device_description(opencl));
    for (int i = 0; i < COUNT; i++) {
        static char want[4096], got[4096];
        size_t bytes = bytes_on(cpu, classes[i].make, want);
        ok(bytes > 0 && bytes_on(opencl, classes[i].make, got) == bytes &&
               memcmp(got, want, bytes) == 0,
           "%s: the cpu's bits", classes[i].name);
    }
    return done_testing();
}
