/* convolutions.h: checks that convolutions by the plugins' common kernel
 * (conv.cl) are bit-identical to those of the reference plugin, which uses
 * im2col and a matrix product. Compares the result and the gradients of input
 * and weight, for random shapes and all four floating-point dtypes. The device
 * must not decline any. */
#ifndef TN_TESTS_DEVICE_CONVOLUTIONS_H
#define TN_TESTS_DEVICE_CONVOLUTIONS_H

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "../same_bits.h"
#include "../tap.h"

static uint64_t conv_state = 88172645463325252u;

static int64_t conv_pick(int64_t low, int64_t high)
{
    conv_state ^= conv_state << 13; /* xorshift64: Marsaglia, 2003 */
    conv_state ^= conv_state >> 7;
    conv_state ^= conv_state << 17;
    return low + (int64_t)(conv_state % (uint64_t)(high - low + 1));
}

typedef struct convolution {
    int64_t count, groups, in, out, size[2], kernel[2], stride[2], pad[2],
        dilation[2];
    bool channels_last, biased;
} convolution;

/* Shapes that exceed a tile in each dimension, with large windows, many images,
 * or a large stride. */
static const convolution chosen_convolutions[] = {
    {3, 1, 36, 40, {7, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false, true},
    {2, 2, 4, 6, {9, 9}, {5, 5}, {2, 1}, {2, 2}, {1, 1}, false, false},
    {19, 1, 2, 3, {4, 5}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, true, true},
    {1, 3, 3, 3, {17, 20}, {2, 3}, {5, 4}, {1, 0}, {2, 1}, false, true},
    {2, 1, 5, 7, {1, 40}, {1, 9}, {1, 2}, {0, 4}, {1, 3}, false, false},
};
enum {
    CHOSEN_CONVOLUTIONS =
        sizeof chosen_convolutions / sizeof *chosen_convolutions
};

static convolution random_convolution(void)
{
    convolution c = {.count = conv_pick(1, 5), .groups = conv_pick(1, 3)};
    c.in = c.groups * conv_pick(1, 5);
    c.out = c.groups * conv_pick(1, 9);
    for (int a = 0; a < 2; a++) {
        c.kernel[a] = conv_pick(1, 4);
        c.stride[a] = conv_pick(1, 3);
        c.pad[a] = conv_pick(0, 2);
        c.dilation[a] = conv_pick(1, 2);
        c.size[a] = c.kernel[a] * c.dilation[a] + conv_pick(0, 4);
    }
    c.channels_last = conv_pick(0, 2) == 0;
    c.biased = conv_pick(0, 1) == 0;
    return c;
}

/* Runs a convolution on the current device; out[] gets the result, then the
 * gradients of input and weight. */
static void convolve(const convolution *c, tn_dtype dtype, uint64_t seed,
                     tn_tensor *out[3])
{
    tn_manual_seed(seed);
    const tn_dims_list shape =
        c->channels_last
            ? tn_dims(c->count, c->size[0], c->size[1], c->in)
            : tn_dims(c->count, c->in, c->size[0], c->size[1]);
    tn_tensor *x = tn_to_dtype(tn_randn(shape), dtype);
    if (c->channels_last)
        x = tn_permute(x, tn_dims(0, 3, 1, 2));
    tn_tensor *w = tn_to_dtype(
        tn_randn(tn_dims(c->out, c->in / c->groups, c->kernel[0],
                         c->kernel[1])), dtype);
    tn_tensor *b = tn_to_dtype(tn_randn(tn_dims(c->out)), dtype);
    x = tn_requires_grad(tn_detach(x));
    w = tn_requires_grad(tn_detach(w));
    out[0] = tn_conv2d(x, w, c->biased ? b : NULL, .groups = c->groups,
                       .strides = tn_dims(c->stride[0], c->stride[1]),
                       .paddings = tn_dims(c->pad[0], c->pad[1]),
                       .dilations = tn_dims(c->dilation[0], c->dilation[1]));
    tn_tensor *const inputs[] = {x, w};
    tn_tensor *mask = tn_to_dtype(
        tn_randn_like(tn_to_dtype(tn_detach(out[0]), TN_F32)), dtype);
    tn_grad(tn_sum(tn_mul(out[0], mask)), inputs, 2, out + 1);
}

static bool conv_agrees(const convolution *c, tn_dtype dtype, uint64_t seed,
                        tn_device *reference, tn_device *device)
{
    static const char *const name[] = {"out", "input", "weight"};
    tn_tensor *want[3], *got[3];
    tn_device_set(reference);
    convolve(c, dtype, seed, want);
    tn_device_set(device);
    convolve(c, dtype, seed, got);
    int wrong = -1;
    for (int i = 0; i < 3 && wrong < 0 && !tn_error(); i++)
        if (!same_bits(want[i], got[i]))
            wrong = i;
    if (wrong < 0 && !tn_error())
        return true;
    note("%s: %s: (%d, %d, %d, %d) %s, %d of %d x %d, groups %d, stride %d "
         "%d, pad %d %d, dilation %d %d", wrong < 0 ? "failed" : name[wrong],
         tn_error() ? tn_error() : "other bits", (int)c->count, (int)c->in,
         (int)c->size[0], (int)c->size[1], tn_dtype_name(dtype), (int)c->out,
         (int)c->kernel[0], (int)c->kernel[1], (int)c->groups,
         (int)c->stride[0], (int)c->stride[1], (int)c->pad[0], (int)c->pad[1],
         (int)c->dilation[0], (int)c->dilation[1]);
    tn_error_clear();
    return false;
}

static atomic_int convs_declined;

static void conv_listen(int level, const char *line, void *context)
{
    (void)level, (void)context;
    atomic_fetch_add(&convs_declined, strstr(line, "declines") != NULL);
}

/* Returns how many of the chosen and of `more` random convolutions differ from
 * the reference's. The log level must be 3. */
static int wrong_convolutions(tn_device *device, int more)
{
    static const tn_dtype dtypes[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
    tn_device *reference = tn_device_open("reference");
    int wrong = 0;
    for (int i = 0; i < CHOSEN_CONVOLUTIONS + more; i++) {
        convolution c = i < CHOSEN_CONVOLUTIONS ? chosen_convolutions[i]
                                                : random_convolution();
        tn_scope *scope = tn_scope_open();
        wrong += !conv_agrees(&c, dtypes[i % 4], (uint64_t)i + 1, reference,
                              device);
        tn_scope_close(scope);
    }
    return wrong;
}

#endif
