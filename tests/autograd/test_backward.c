/* Tests tn_backward: accumulated gradients, its options, when memory is freed,
 * and errors. */
#include <base/memory.h>
#include <base/object.h>
#include <math.h>
#include <pthread.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>
#include <tenon/random.h>
#include "tap.h"

static tn_tensor *leaf(double a, double b)
{
    double data[] = {a, b};
    return tn_requires_grad(tn_tensor_from_array(data, TN_F64, tn_dims(2)));
}

static double at(tn_tensor *x, int i)
{
    double data[8] = {NAN, NAN};
    if (!x || tn_tensor_numel(x) > 8)
        return NAN;
    tn_tensor_to_array(x, data, (size_t)tn_tensor_numel(x) * sizeof *data);
    return data[i];
}

#define is_pair(x, a, b, ...)                                                 \
    do {                                                                      \
        tn_tensor *pair_ = (x);                                               \
        is_double_near(at(pair_, 0), a, 1e-12, __VA_ARGS__);                  \
        is_double_near(at(pair_, 1), b, 1e-12, __VA_ARGS__);                  \
    } while (0)

/* Checks that the pending error has this code and this message, then
 * clears it. */
static void is_error(tn_status code, const char *text, const char *fact)
{
    is_int(tn_error_code(), code, "%s: %s", fact, tn_status_name(code));
    is_str(tn_error(), text, "%s: the message", fact);
    tn_error_clear();
}

/* ---- computed gradients -------------------------------------------------- */

static void test_accumulation(void)
{
    tn_tensor *x = leaf(2, 3);
    is_int(tn_backward(tn_sum(tn_mul(x, x))), TN_OK, "backward succeeds");
    is_pair(tn_tensor_grad(x), 4, 6, "d sum(x x) / dx is 2 x");
    tn_backward(tn_sum(tn_mul_scalar(x, 5)));
    is_pair(tn_tensor_grad(x), 9, 11, "a second backward adds");
    tn_tensor_set_grad(x, NULL);
    ok(tn_tensor_grad(x) == NULL, "a gradient can be forgotten");

    /* A node that two paths reach runs once, with the sum of both incoming
     * gradients. */
    tn_tensor *y = tn_exp(x), *z = tn_add(tn_mul(y, y), tn_sin(y));
    tn_backward(tn_sum(z));
    double e2 = exp(2), e3 = exp(3);
    is_pair(tn_tensor_grad(x), (2 * e2 + cos(e2)) * e2,
            (2 * e3 + cos(e3)) * e3, "two ways to one node add up");

    tn_tensor *a = leaf(1, 1), *b = leaf(1, 1);
    tn_backward(tn_sum(tn_add(a, b)));
    ok(!tn_tensor_is_alias(tn_tensor_grad(a), tn_tensor_grad(b)),
       "inputs of one sum have gradients of their own");

    tn_tensor *w = leaf(3, 4);
    double weight[] = {10, 100};
    tn_tensor *v = tn_tensor_from_array(weight, TN_F64, tn_dims(2));
    is_int(tn_backward(tn_square(w), .gradient = v), TN_OK,
           "a root of several elements accepts a gradient");
    is_pair(tn_tensor_grad(w), 60, 800, "the gradient given weighs");
    ok(!tn_tensor_is_alias(tn_tensor_grad(w), v),
       "the stored gradient is a copy of it");

    tn_tensor *one = tn_requires_grad(tn_full(TN_SCALAR, 3.0, .dtype = TN_F64));
    tn_backward(one);
    is_double_near(tn_item(tn_tensor_grad(one)), 1, 0,
                   "a leaf is a root with gradient 1");
}

/* The gradient of a matrix that occurs in several products is a sum of matrix
 * products. The backward pass adds each product in place to the sum. */
static void test_sums(void)
{
    tn_tensor *w = tn_requires_grad(tn_ones(tn_dims(2, 2), .dtype = TN_F64));
    tn_tensor *y = tn_matmul(tn_matmul(w, w), w);
    tn_backward(tn_sum(y));
    is_double_near(at(tn_tensor_grad(w), 3), 12, 1e-12,
                   "d sum(w w w) / dw, w all ones");
    /* If two inputs share a gradient tensor, it is not modified in place. */
    tn_tensor *a = tn_requires_grad(tn_ones(tn_dims(2, 2), .dtype = TN_F64));
    tn_tensor *b = tn_mul_scalar(a, 1), *c = tn_mul_scalar(a, 1);
    tn_tensor *in[] = {b, c}, *out[2];
    tn_tensor *sum = tn_add(tn_add(b, c), tn_matmul(b, w));
    is_int(tn_grad(tn_sum(sum), in, 2, out), TN_OK, "two share a cotangent");
    is_pair(tn_reshape(out[0], tn_dims(4)), 3, 3, "to one a product adds");
    is_pair(tn_reshape(out[1], tn_dims(4)), 1, 1, "the other has it alone");
    /* The gradient that the program passes is not modified in place either. */
    tn_tensor *g = tn_ones(tn_dims(2, 2), .dtype = TN_F64);
    tn_backward(tn_add(a, tn_matmul(a, w)), .gradient = g);
    is_pair(tn_reshape(g, tn_dims(4)), 1, 1, "what backward is given stays");
    is_pair(tn_reshape(tn_tensor_grad(a), tn_dims(4)), 3, 3, "and is added");

    /* A product over an empty batch cannot be added in place to one over a
     * batch of one matrix. */
    tn_tensor *one = tn_requires_grad(tn_ones(tn_dims(1, 2, 2)));
    tn_tensor *none = tn_zeros(tn_dims(0, 2, 2));
    tn_tensor *mixed[] = {tn_matmul(none, one), tn_matmul(one, one)};
    is_int(tn_backward(tn_sum(tn_cat(mixed, 2, 0))), TN_OK,
           "none of the matrices use it, and one does");
    is_double_near(tn_item(tn_sum(tn_tensor_grad(one))), 16, 0,
                   "its gradient");

    enum { SIDE = 256 };
    tn_device *device = tn_device_current();
    tn_tensor *big = tn_requires_grad(tn_ones(tn_dims(SIDE, SIDE)));
    tn_tensor *x = tn_ones(tn_dims(1, SIDE)), *all = NULL;
    for (int i = 0; i < 4; i++) {
        tn_tensor *row = tn_matmul(x, big);
        all = all ? tn_add(all, row) : row;
    }
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_memory_reset_peak(device);
    tn_memory(device, &before);
    tn_backward(tn_sum(all));
    tn_memory(device, &after);
    int64_t more = after.peak_bytes - before.peak_bytes;
    ok(more < 3 * SIDE * SIDE * 4 / 2,
       "four gradients of one weight take the room of one: %lld bytes",
       (long long)more);
    is_double_near(tn_item(tn_sum(tn_tensor_grad(big))), 4 * SIDE * SIDE, 0,
                   "their sum");
}

/* Gradients of slices of one tensor are added in place, each to its slice. */
static void test_parts(void)
{
    tn_tensor *x = tn_requires_grad(tn_arange(0, 12, 1, .dtype = TN_F64));
    tn_tensor *m = tn_reshape(x, tn_dims(3, 4));
    tn_tensor *in[] = {tn_narrow(m, 1, 1, 2), tn_slice(m, 1, 0, 4, 3),
                       tn_reshape(tn_slice(m, -1, -2, 4, 1), tn_dims(3, 2)),
                       tn_narrow(m, 0, 3, 0)};
    tn_tensor *sum = tn_sum(tn_select(m, 0, -1));
    for (int i = 0; i < 4; i++)
        sum = tn_add(sum, tn_mul_scalar(tn_sum(in[i]), 10 * (i + 1)));
    is_int(tn_backward(sum), TN_OK, "parts that overlap, and an empty one");
    const double wanted[] = {20, 10, 40, 50, 20, 10, 40, 50, 21, 11, 41, 51};
    double got[12] = {0};
    tn_tensor_to_array(tn_tensor_grad(x), got, sizeof got);
    bool same = true;
    for (int i = 0; i < 12; i++)
        same = same && got[i] == wanted[i];
    ok(same, "their gradients together");

    tn_tensor *g = tn_requires_grad(tn_ones(tn_dims(4), .dtype = TN_F64));
    tn_tensor *both = tn_add(tn_square(tn_narrow(g, 0, 0, 2)),
                             tn_square(tn_narrow(g, 0, 2, 2)));
    tn_tensor *first[1], *second[1];
    tn_grad(tn_sum(both), &g, 1, first, .create_graph = true);
    tn_grad(tn_sum(tn_square(first[0])), &g, 1, second);
    is_double_near(at(second[0], 3), 8, 0, "and differentiated again");

    tn_tensor *weight = tn_requires_grad(tn_ones(tn_dims(4)));
    tn_backward(tn_sum(tn_group_norm(tn_zeros(tn_dims(2, 4, 0, 1)), 2,
                                     weight, NULL)));
    is_double_near(tn_item(tn_sum(tn_tensor_grad(weight))), 0, 0,
                   "a weight of planes without elements");

    enum { SIDE = 512, PARTS = 8 };
    tn_device *device = tn_device_current();
    tn_tensor *big = tn_requires_grad(tn_ones(tn_dims(SIDE, SIDE)));
    tn_tensor *all = NULL;
    for (int i = 0; i < PARTS; i++) {
        tn_tensor *s = tn_sum(tn_narrow(big, 0, i * SIDE / PARTS, SIDE / PARTS));
        all = all ? tn_add(all, s) : s;
    }
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_memory_reset_peak(device);
    tn_memory(device, &before);
    tn_backward(all);
    tn_memory(device, &after);
    int64_t more = after.peak_bytes - before.peak_bytes;
    ok(more < 3 * SIDE * SIDE * 4 / 2,
       "gradients of eight parts take the room of one: %lld bytes",
       (long long)more);
}

/* As in PyTorch, a product with a transposed matrix computes the gradient as a
 * transpose, too, so the gradient of the matrix itself is contiguous. */
static void test_transposed(void)
{
    tn_tensor *x = tn_ones(tn_dims(5, 4), .dtype = TN_F64);
    tn_tensor *w = tn_requires_grad(tn_ones(tn_dims(3, 4), .dtype = TN_F64));
    tn_tensor *g = NULL;
    tn_grad(tn_sum(tn_matmul(x, tn_transpose(w, 0, 1))), &w, 1, &g);
    ok(tn_tensor_is_contiguous(g), "a transposed weight's gradient is "
                                   "contiguous");
    is_double_near(tn_item(tn_select(tn_select(g, 0, 2), 0, 3)), 5, 0,
                   "and right");
    tn_tensor *v = tn_requires_grad(tn_ones(tn_dims(4, 3), .dtype = TN_F64));
    tn_grad(tn_sum(tn_matmul(x, v)), &v, 1, &g);
    ok(tn_tensor_is_contiguous(g), "so is a plain one's");
}

/* One kernel computes the gradient of a normalization, so peak memory grows
 * by the size of the input's gradient only, not by that of intermediate
 * results. */
static void check_norm(const char *name, tn_tensor *x, tn_tensor *w,
                       bool groups)
{
    tn_device *device = tn_device_current();
    tn_tensor *b = tn_requires_grad(tn_zeros_like(w));
    tn_requires_grad(x);
    tn_requires_grad(w);
    tn_tensor *y = groups ? tn_group_norm(x, 2, w, b)
                          : tn_layer_norm(x, tn_dims(tn_tensor_size(x, -1)),
                                          w, b);
    tn_tensor *g = tn_ones_like(y);
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_memory_reset_peak(device);
    tn_memory(device, &before);
    is_int(tn_backward(y, .gradient = g), TN_OK, "backward of %s", name);
    tn_memory(device, &after);
    int64_t more = after.peak_bytes - before.peak_bytes;
    ok(more < 3 * 4 * tn_tensor_numel(x), "%s: %lld bytes for %lld elements",
       name, (long long)more, (long long)tn_tensor_numel(x));
}

static void test_norms(void)
{
    check_norm("layer_norm", tn_rand(tn_dims(512, 256)), tn_ones(tn_dims(256)),
               false);
    check_norm("group_norm", tn_rand(tn_dims(16, 8, 32, 32)),
               tn_ones(tn_dims(8)), true);
}

static void test_modes(void)
{
    tn_tensor *x = leaf(2, 3), *y = NULL;
    TN_NO_GRAD { y = tn_mul(x, x); }
    ok(!tn_tensor_requires_grad(y) && tn_tensor_is_leaf(y),
       "nothing is recorded under TN_NO_GRAD");
    ok(tn_grad_mode(), "TN_NO_GRAD restores the mode");

    tn_tensor *z = tn_mul(tn_detach(tn_exp(x)), x);
    tn_backward(tn_sum(z));
    is_pair(tn_tensor_grad(x), exp(2), exp(3),
            "no gradient flows through tn_detach");

    tn_tensor *w = leaf(1, 1);
    tn_tensor_set_requires_grad(w, false);
    ok(!tn_tensor_requires_grad(tn_exp(w)), "a leaf can be switched off");

    tn_tensor *i = tn_argmax(x);
    ok(!tn_tensor_requires_grad(i), "whole numbers have no gradient");
    tn_tensor *values, *indices = NULL;
    values = tn_max_dim(x, 0, &indices);
    ok(tn_tensor_requires_grad(values) && !tn_tensor_requires_grad(indices),
       "of values and indices only the values have one");
}

/* Far from 0 gelu is linear, so its derivative must be exactly 0 or 1. */
static void test_far(tn_dtype dtype)
{
    static const double far[] = {INFINITY, -INFINITY, 1e30, -1e30, 1e200, 50};
    enum { COUNT = sizeof far / sizeof *far };
    tn_tensor *x = tn_tensor_from_array(far, TN_F64, tn_dims(COUNT));
    tn_tensor *slope = NULL, *bend = NULL;
    x = tn_requires_grad(tn_to_dtype(x, dtype));
    tn_grad(tn_sum(tn_gelu(x)), &x, 1, &slope, .create_graph = true);
    tn_grad(tn_sum(slope), &x, 1, &bend);
    slope = tn_to_dtype(tn_detach(slope), TN_F64);
    bend = tn_to_dtype(bend, TN_F64);
    int lines = 0;
    for (int i = 0; i < COUNT; i++)
        lines += at(slope, i) == (far[i] > 0) && at(bend, i) == 0;
    is_int(lines, COUNT, "gelu has no bend far from 0, in %s",
           tn_dtype_name(dtype));
}

static void test_grad(void)
{
    tn_tensor *x = leaf(2, 3), *y = tn_mul(x, x), *z = tn_mul(y, x);
    tn_tensor *in[] = {x, y}, *out[2];
    is_int(tn_grad(tn_sum(z), in, 2, out), TN_OK, "tn_grad succeeds");
    is_pair(out[0], 12, 27, "d x^3 / dx is 3 x^2");
    is_pair(out[1], 2, 3, "an input may be what an operator made");
    ok(tn_tensor_grad(x) == NULL, "leaves are not touched");

    tn_tensor *first, *second, *third;
    tn_tensor *cube = tn_sum(tn_mul(tn_mul(x, x), x));
    tn_grad(cube, &x, 1, &first, .create_graph = true);
    ok(tn_tensor_requires_grad(first), "create_graph records the walk");
    tn_grad(tn_sum(first), &x, 1, &second, .create_graph = true);
    is_pair(second, 12, 18, "the second derivative of x^3 is 6 x");
    tn_grad(tn_sum(second), &x, 1, &third);
    is_pair(third, 6, 6, "the third is 6");

    tn_tensor *w = leaf(1, 2);
    tn_tensor *loss = tn_sum(tn_exp(w));
    tn_backward(loss, .create_graph = true);
    tn_tensor *g = tn_tensor_grad(w);
    ok(tn_tensor_requires_grad(g), "create_graph records into the leaf too");
    tn_tensor *again;
    tn_grad(tn_sum(g), &w, 1, &again);
    is_pair(again, exp(1), exp(2), "a leaf's gradient has a gradient");
    tn_tensor_set_grad(w, NULL); /* otherwise w and its gradient, which refers
                                  * to w, would hold references to each other
                                  * forever */

    tn_tensor *unused = leaf(0, 0), *both[] = {x, unused};
    is_int(tn_grad(tn_sum(tn_exp(x)), both, 2, out, .allow_unused = true),
           TN_OK, "an input that is not used may be allowed");
    ok(out[0] && !out[1], "and has no gradient");
}

static void test_retain(void)
{
    tn_tensor *x = leaf(2, 3), *loss = tn_sum(tn_mul(x, x));
    tn_backward(loss, .retain_graph = true);
    is_int(tn_backward(loss), TN_OK, "a graph that is retained serves twice");
    is_pair(tn_tensor_grad(x), 8, 12, "both are added");
    ok(tn_backward(loss) < 0, "a third time is refused");
    is_error(TN_ERR_STATE,
             "backward: the graph of mul was freed by an earlier backward: "
             "pass .retain_graph = true to that one",
             "a graph that is gone");
    is_pair(tn_tensor_grad(x), 8, 12, "a failed backward adds nothing");
}

/* Gradients that are fixed by convention, which finite differences cannot
 * check. */
static void test_decrees(void)
{
    int64_t words[] = {1, 0, 1};
    tn_tensor *index = tn_tensor_from_array(words, TN_I64, tn_dims(3));
    tn_tensor *weight =
        tn_requires_grad(tn_ones(tn_dims(2, 1), .dtype = TN_F64));
    tn_backward(tn_sum(tn_embedding(index, weight)));
    is_pair(tn_tensor_grad(weight), 1, 2, "rows add up as often as they are "
                                          "named");
    tn_tensor_set_grad(weight, NULL);
    tn_backward(tn_sum(
        tn_embedding(index, weight, .padding_idx = 1)));
    is_pair(tn_tensor_grad(weight), 1, 0, "but for the row of padding");

    tn_tensor *zero = leaf(0, 0);
    tn_backward(tn_sum(tn_abs(zero)));
    is_pair(tn_tensor_grad(zero), 0, 0, "abs has gradient 0 at 0");
    tn_tensor_set_grad(zero, NULL);
    tn_backward(tn_max(zero));
    is_pair(tn_tensor_grad(zero), 0.5, 0.5, "equals share that of max");
    tn_tensor_set_grad(zero, NULL);
    tn_backward(tn_std(zero));
    is_pair(tn_tensor_grad(zero), 0, 0, "std has gradient 0 where it is 0");
}

/* ---- changes in place ---------------------------------------------------- */

static void test_in_place(void)
{
    tn_tensor *x = leaf(2, 3), *y = tn_mul_scalar(x, 2);
    tn_exp_(y);
    tn_backward(tn_sum(tn_mul_scalar(y, 3)));
    is_pair(tn_tensor_grad(x), 6 * exp(4), 6 * exp(6),
            "a change in place is recorded");

    double data[] = {5, 7};
    tn_tensor *plain = tn_tensor_from_array(data, TN_F64, tn_dims(2));
    tn_tensor *w = leaf(1, 1);
    tn_add_(plain, w);
    ok(tn_tensor_requires_grad(plain),
       "a tensor that receives a leaf's values requires a gradient");
    tn_backward(tn_sum(tn_mul_scalar(plain, 4)));
    is_pair(tn_tensor_grad(w), 4, 4, "and hands it on");

    tn_tensor *v = leaf(2, 3), *e = tn_exp(v);
    tn_mul_scalar_(e, 2);
    ok(tn_backward(tn_sum(e)) < 0, "a saved value that changed is noticed");
    is_error(TN_ERR_STATE,
             "backward: a value that exp saved for its gradient was changed in "
             "place since by mul_ (version 1, saved at 0): change a tn_clone() "
             "of it instead",
             "a saved value that changed");
    ok(tn_tensor_grad(v) == NULL, "and nothing is added");

    ok(tn_mul_scalar_(v, 2) == NULL, "a leaf is not changed in place");
    is_error(TN_ERR_STATE,
             "mul_: input is a leaf that requires a gradient: change it under "
             "TN_NO_GRAD, or change a tn_clone() of it",
             "a leaf changed in place");
    TN_NO_GRAD { tn_mul_scalar_(v, 2); }
    is_pair(v, 4, 6, "it may be under TN_NO_GRAD");
    ok(tn_tensor_is_leaf(v) && tn_tensor_requires_grad(v),
       "and is still a leaf");
}

/* ---- errors -------------------------------------------------------------- */

static void test_mistakes(void)
{
    double data[] = {1, 2};
    int64_t whole[] = {1, 2};
    tn_tensor *plain = tn_tensor_from_array(data, TN_F64, tn_dims(2));
    tn_tensor *x = leaf(1, 2);
    tn_tensor *wide = tn_zeros(tn_dims(3), .dtype = TN_F64);

    tn_backward(tn_sum(plain));
    is_error(TN_ERR_STATE,
             "backward: root does not require a gradient: none of the tensors "
             "it was made from does, or it was made while recording was off",
             "a root without a graph");
    tn_grad(tn_sum(x), NULL, 1, &wide);
    is_error(TN_ERR_ARGUMENT, "grad: inputs is NULL", "no inputs");
    tn_backward(tn_exp(x));
    is_error(TN_ERR_SHAPE,
             "backward: root has shape (2,) and no gradient is given: reduce "
             "it to one element (tn_sum, tn_mean), or pass .gradient",
             "a root of several elements");
    tn_backward(tn_exp(x), .gradient = wide);
    const char *device = tn_device_name(tn_tensor_device(x));
    char text[200];
    snprintf(text, sizeof text,
             "backward: gradient is float64 (3,) on %s, root float64 (2,) on "
             "%s: they must be the same",
             device, device);
    is_error(TN_ERR_SHAPE, text, "a gradient of another shape");
    tn_backward(NULL);
    is_error(TN_ERR_ARGUMENT, "backward: root is NULL", "no root");
    ok(tn_requires_grad(tn_tensor_from_array(whole, TN_I64, tn_dims(2))) ==
           NULL,
       "whole numbers are refused");
    is_error(TN_ERR_DTYPE,
             "requires_grad: x is int64: only floating-point tensors have "
             "gradients",
             "a gradient for whole numbers");
    tn_requires_grad(tn_exp(x));
    is_error(TN_ERR_STATE,
             "requires_grad: x was made by exp and is not a leaf: mark its "
             "inputs, or tn_detach(x)",
             "what an operator made as a leaf");
    tn_tensor_set_requires_grad(tn_exp(x), false);
    is_error(TN_ERR_STATE,
             "requires_grad: x was made by exp from inputs that require a "
             "gradient: use tn_detach(x) for a tensor without a gradient",
             "what an operator made switched off");
    tn_tensor_set_grad(x, wide);
    is_error(TN_ERR_SHAPE, "set_grad: grad has shape (3,), x (2,)",
             "a gradient that does not fit");
    tn_tensor_set_grad(x, tn_to_dtype(plain, TN_F32));
    is_error(TN_ERR_DTYPE, "set_grad: grad is float32, but x is float64: "
                           "convert it with tn_to_dtype",
             "a gradient of another dtype");

    tn_tensor *other = leaf(1, 1), *out = NULL;
    tn_grad(tn_sum(tn_exp(x)), &other, 1, &out);
    is_error(TN_ERR_STATE,
             "grad: input 0 was not used to make root: pass .allow_unused = "
             "true to get NULL for it",
             "an input that is not used");
    tn_grad(tn_sum(tn_exp(x)), &plain, 1, &out);
    is_error(TN_ERR_STATE,
             "grad: input 0 does not require a gradient: mark it with "
             "tn_requires_grad() before it is used",
             "an input without a gradient");

    tn_tensor *loss = tn_sum(tn_exp(x));
    tn_error_set(TN_ERR_IO, "the file is gone");
    is_int(tn_backward(loss), TN_ERR_STATE,
           "backward refuses while an error is pending");
    is_str(tn_error(), "the file is gone", "which stays");
    tn_error_clear();
    ok(tn_tensor_grad(x) == NULL, "and adds nothing");
}

static tn_tensor *wrong(tn_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    /* Computes x^2, with the gradient of 2 x: the rest is detached from the
     * graph. */
    tn_tensor *twice = tn_mul_scalar(inputs[0], 2);
    return tn_add(twice, tn_detach(tn_sub(tn_square(inputs[0]), twice)));
}

static void test_gradcheck(void)
{
    tn_tensor *x = leaf(2, 3);
    ok(tn_gradcheck(wrong, &x, 1, NULL) < 0, "a wrong gradient is found");
    is_error(TN_ERR_INTERNAL,
             "gradcheck: input 0, element 0: output element 0 has derivative "
             "2, but differences give 4",
             "a wrong gradient");
}

/* ---- depth and memory --------------------------------------------------- */

static void chain(int count)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_requires_grad(tn_ones(TN_SCALAR)), *y = tn_keep(x);
    for (int i = 0; i < count; i++) {
        tn_scope *step = tn_scope_open();
        tn_tensor *next = tn_keep(tn_add_scalar(y, 1));
        tn_scope_close(step);
        tn_drop(y);
        y = next;
    }
    tn_backward(y);
    is_double_near(tn_item(tn_tensor_grad(x)), 1, 0,
                   "%d operators in a chain", count);
    tn_drop(y);
    tn_scope_close(scope);
}

static void step(void)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = leaf(2, 3), *y = tn_exp(x);
    tn_mul_(y, tn_softmax(x, 0));
    tn_tensor *loss = tn_sum(tn_matmul(y, tn_reshape(x, tn_dims(2, 1))));
    tn_backward(loss, .retain_graph = true);
    tn_tensor *g = NULL;
    tn_grad(loss, &x, 1, &g, .create_graph = true);
    tn_backward(tn_sum(tn_square(g)));
    tn_error_clear(); /* exp's output was changed, so the call fails; the
                       * failure must free the graph too */
    tn_scope_close(scope);
}

static void test_memory(void)
{
    chain(10);
    chain(1000000); /* tests that a long graph needs neither a deep stack nor
                     * quadratic time */

    step(); /* the first step also compiles kernels, which stay cached */
    int64_t objects = tn_scope_count(), live = tn__memory_live();
    for (int i = 0; i < 100; i++)
        step();
    is_int(tn_scope_count(), objects, "a closed scope leaves no object");
    is_int(tn__memory_live(), live, "and no block of memory");
}

/* Each allocation of a step fails in turn. The step must report an error and
 * leak nothing, and the next step must work. */
static tn_status small_step(tn_tensor *w)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *y = tn_softmax(tn_mul(w, tn_exp(w)), 0), *g = NULL;
    tn_tensor *loss = tn_sum(tn_matmul(y, tn_reshape(w, tn_dims(2, 1))));
    tn_backward(loss, .retain_graph = true);
    tn_grad(loss, &w, 1, &g, .create_graph = true);
    tn_backward(tn_sum(g));
    tn_status status = tn_error_code();
    tn_scope_close(scope);
    return status;
}

static void test_failing_memory(void)
{
    tn_tensor *w = leaf(2, 3);
    small_step(w);
    tn_tensor_set_grad(w, NULL);
    int failures = 0, wrong = 0;
    for (int n = 1; n < 2000; n++) {
        int64_t before = tn__memory_count();
        tn__memory_fail_at(n);
        tn_status status = small_step(w);
        bool reached = tn__memory_count() - before >= n;
        tn__memory_fail_at(0);
        tn_error_clear();
        tn_tensor_set_grad(w, NULL);
        if (!reached)
            break;
        failures++;
        wrong += status != TN_ERR_MEMORY;
        int64_t live = tn__memory_live();
        wrong += small_step(w) != TN_OK;
        tn_tensor_set_grad(w, NULL);
        wrong += tn__memory_live() > live;
    }
    ok(failures > 0, "%d allocations were made to fail", failures);
    is_int(wrong, 0, "each gave an error, and the next step worked");
}

/* Uses a leaf that several threads share, each with its own graph. */
static void *use_leaf(void *w)
{
    for (int i = 0; i < 200; i++) {
        tn_scope *scope = tn_scope_open();
        tn_backward(tn_sum(tn_mul_scalar(w, 2)));
        tn_scope_close(scope);
    }
    return (void *)tn_error();
}

static void test_threads(void)
{
    tn_tensor *w = leaf(1, 1);
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&thread[i], NULL, use_leaf, w))
            bail_out("no thread");
    for (int i = 0; i < 4; i++) {
        void *error = NULL;
        pthread_join(thread[i], &error);
        ok(!error, "thread %d meets no error", i);
    }
    is_pair(tn_tensor_grad(w), 1600, 1600, "what four threads gave adds up");
}

/* Here 1 / sqrt(eps) is 1e15, and its cube exceeds float32's range. */
static void test_small_rows(void)
{
    tn_tensor *w = tn_requires_grad(tn_ones(tn_dims(4), .dtype = TN_F32));
    static const double size[] = {0, 1e-13};
    static const float weigh[] = {1, 2, 3, 4};
    tn_tensor *by = tn_tensor_from_array(weigh, TN_F32, tn_dims(4));
    for (int i = 0; i < 2; i++) {
        tn_tensor *x = tn_full(tn_dims(2, 4), size[i], .dtype = TN_F32);
        tn_tensor *in[] = {tn_requires_grad(x), w}, *g[2], *h[2];
        tn_tensor *y = tn_rms_norm(in[0], tn_dims(4), w, .eps = 1e-30);
        tn_tensor *sum = tn_sum(tn_mul(y, by));
        tn_grad(sum, in, 2, g, .retain_graph = true);
        tn_grad(sum, in, 2, h, .create_graph = true);
        ok(tn_item(tn_all(tn_isfinite(g[0]))) == 1 &&
               tn_item(tn_allclose(g[0], tn_detach(h[0]))) == 1,
           "rms_norm of rows of %g: one gradient, recorded or not", size[i]);
    }
}

int main(void)
{
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    test_accumulation();
    test_sums();
    test_parts();
    test_transposed();
    test_norms();
    test_modes();
    test_grad();
    test_far(TN_F32);
    test_far(TN_F64);
    test_retain();
    test_decrees();
    test_in_place();
    test_mistakes();
    test_gradcheck();
    test_memory();
    test_failing_memory();
    test_threads();
    ok(tn_error() == NULL, "no error is left%s%s", tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    test_small_rows();
    return done_testing();
}
