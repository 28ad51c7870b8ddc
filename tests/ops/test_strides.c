/* Tests operands with strided elements or rows, rows interleaved in memory, and
 * rows that a work-group caches in local memory. Kernels of devices that
 * compile source load each of these differently (team.c, plan_tiles.c and
 * plan_cache.c of lib/source). All results are bit-identical to the reference
 * plugin's on the current device. */
#include <stdlib.h>
#include <string.h>
#include <same_bits.h>
#include <tap.h>
#include <tenon/tenon.h>

/* Returns multiples of 1 / 48 from -4 / 3 to 4 / 3. */
static tn_tensor *numbers(tn_dims_list shape, tn_dtype dtype)
{
    int64_t count = 1;
    for (int d = 0; d < shape.count; d++)
        count *= shape.dim[d];
    float *data = malloc((size_t)count * sizeof *data);
    if (!data)
        bail_out("out of memory");
    uint32_t state = 4321;
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525 + 1013904223;
        data[i] = (float)((int)(state >> 16) % 129 - 64) / 48;
    }
    tn_tensor *x = tn_tensor_from_array(data, TN_F32, shape);
    free(data);
    return tn_to_dtype(x, dtype);
}

/* ---- tested operators ---------------------------------------------------- */

enum { MOST = 16 };
typedef struct results {
    tn_tensor *of[MOST];
    int count;
} results;

static void add(results *r, tn_tensor *x)
{
    r->of[r->count++] = x;
}

static results transposes(int64_t m, int64_t n, tn_dtype dtype)
{
    results r = {.count = 0};
    tn_tensor *x = numbers(tn_dims(m, n), dtype);
    tn_tensor *y = numbers(tn_dims(n, m), dtype), *t = tn_transpose(x, 0, 1);
    add(&r, tn_contiguous(t));
    add(&r, tn_add(t, y));
    add(&r, tn_add(t, tn_transpose(numbers(tn_dims(m, n), dtype), 0, 1)));
    add(&r, tn_add(tn_slice(t, 1, 1, m, 1), tn_slice(y, 1, 1, m, 1)));
    add(&r, tn_to_dtype(t, TN_F64));
    add(&r, tn_tril(t));
    tn_tensor *to = numbers(tn_dims(m, n), dtype);
    tn_copy_(tn_transpose(to, 0, 1), y);
    add(&r, to);
    tn_tensor *z = numbers(tn_dims(3, m, 2, n), dtype);
    add(&r, tn_contiguous(tn_permute(z, tn_dims(0, 3, 2, 1))));
    add(&r, tn_contiguous(tn_permute(z, tn_dims(3, 0, 1, 2))));
    add(&r, tn_contiguous(tn_permute(z, tn_dims(2, 3, 1, 0))));
    add(&r, tn_where(tn_gt_scalar(t, 0), y, t));
    return r;
}

static results columns(int64_t length, int64_t n, tn_dtype dtype)
{
    results r = {.count = 0};
    tn_tensor *x = numbers(tn_dims(length, n), dtype);
    add(&r, tn_sum(x, .dim = 0));
    add(&r, tn_mean(x, .dim = 0));
    add(&r, tn_amax(x, .dim = 0));
    add(&r, tn_argmin(x, .dim = 0));
    add(&r, tn_var(x, .dim = 0));
    add(&r, tn_softmax(x, 0));
    add(&r, tn_any(tn_gt_scalar(x, 1.32), .dim = 0));
    add(&r, tn_sum(tn_to_dtype(x, TN_I32), .dim = 0));
    tn_tensor *y = tn_reshape(x, tn_dims(length, 1, n));
    add(&r, tn_sum(tn_expand(y, tn_dims(length, 3, n)), .dims = tn_dims(0, 1)));
    add(&r, tn_sum(tn_slice(x, 1, 0, n, 2), .dim = 0));
    return r;
}

static results rows(int64_t n, int64_t length, tn_dtype dtype)
{
    results r = {.count = 0};
    tn_tensor *x = numbers(tn_dims(n, length), dtype);
    tn_tensor *wide = numbers(tn_dims(n, 2 * length + 1), dtype);
    tn_tensor *w = numbers(tn_dims(length), dtype);
    add(&r, tn_softmax(x, 1));
    add(&r, tn_log_softmax(x, 1));
    add(&r, tn_layer_norm(x, tn_dims(length), w, w));
    add(&r, tn_var(x, .dim = 1));
    add(&r, tn_softmax(tn_slice(wide, 1, 1, length + 1, 1), 1));
    add(&r, tn_softmax(tn_slice(wide, 1, 0, 2 * length, 2), 1));
    add(&r, tn_softmax(tn_expand(tn_narrow(x, 1, 0, 1), tn_dims(n, length)), 1));
    add(&r, tn_normalize(x));
    add(&r, tn_sum(x, .dim = 1));
    add(&r, tn_argmax(x, .dim = 1));
    add(&r, tn_cumsum(x, 1));
    add(&r, tn_cumsum(tn_to_dtype(tn_mul_scalar(x, 48), TN_I32), 1));
    tn_tensor *leaf = tn_requires_grad(tn_detach(x)), *slope = NULL;
    tn_tensor *y = tn_softmax(leaf, 1);
    if (y && tn_grad(tn_sum(tn_mul(y, y)), &leaf, 1, &slope) >= 0)
        add(&r, slope);
    tn_tensor *z = tn_layer_norm(leaf, tn_dims(length), w, w);
    if (z && tn_grad(tn_sum(tn_mul(z, z)), &leaf, 1, &slope) >= 0)
        add(&r, slope);
    return r;
}

/* ---- comparison with the reference plugin -------------------------------- */

static void test(results (*run)(int64_t, int64_t, tn_dtype), int64_t m,
                 int64_t n, tn_dtype dtype, const char *what)
{
    tn_device *device = tn_device_current();
    tn_scope *scope = tn_scope_open();
    const results got = run(m, n, dtype);
    tn_device_set(tn_device_open("reference"));
    const results want = run(m, n, dtype);
    tn_device_set(device);
    int same = 0;
    for (int i = 0; i < got.count && got.count == want.count; i++)
        if (same_bits(got.of[i], want.of[i]))
            same++;
        else
            note("%s: result %d differs", what, i);
    ok(want.count > 0 && same == want.count,
       "%s of %d x %d, %s: %d of %d have the reference's bits", what, (int)m,
       (int)n, tn_dtype_name(dtype), same, want.count);
    if (tn_error())
        note("%s", tn_error());
    tn_error_clear();
    tn_scope_close(scope);
}

int main(void)
{
    static const tn_dtype types[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
    static const int64_t sides[][2] = {{64, 64}, {65, 130}, {16, 33}, {15, 90},
                                       {3, 200}};
    /* size of the reduced dimension, then of the other one */
    static const int64_t lengths[][2] = {{5, 300}, {33, 70}, {1030, 33},
                                         {3000, 4}, {9000, 37}, {2, 1}};
    static const int64_t shapes[][2] = {
        {9, 1}, {70, 2}, {20, 7}, {5, 16}, {5, 64}, {3, 1000}, {3, 1024},
        {3, 1028}, {2, 4096}, {2, 5001}, {2, 8192}, {1, 13000}};
    plan_later();
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
            test(transposes, sides[i][0], sides[i][1], types[t], "transposes");
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            test(columns, lengths[i][0], lengths[i][1], types[t], "columns");
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            test(rows, shapes[i][0], shapes[i][1], types[t], "rows");
    }
    test(transposes, 65, 130, TN_I8, "transposes");
    test(transposes, 65, 130, TN_I64, "transposes");
    return done_testing();
}
