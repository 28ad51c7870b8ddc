/* Reductions of rows with 50,000 elements or more, which devices with many
 * compute units divide among work-groups (row_split.c of lib/source), and
 * operators made with them, are bit-identical to the reference plugin's on the
 * current device. A device with two units and work-groups of 256 divides eight
 * rows or fewer, of at least 49,153 elements. Also tests many rows of some
 * thousand elements, several of which a work-group processes. */
#include <stdlib.h>
#include <string.h>
#include <same_bits.h>
#include <tap.h>
#include <tenon/tenon.h>

enum { MOST = 8 };
typedef struct results {
    tn_tensor *of[MOST];
    int count;
} results;

static void add(results *r, tn_tensor *x)
{
    r->of[r->count++] = x;
}

/* Returns multiples of 1/16 from -4 to 4, so that many are equal. If spread is
 * set they are divided by 3, so that no dtype represents them exactly. */
static tn_tensor *numbers(int64_t rows, int64_t length, tn_dtype dtype)
{
    const int64_t count = rows * length;
    float *data = malloc((size_t)count * sizeof *data);
    if (!data)
        bail_out("out of memory");
    uint32_t state = 12345;
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525 + 1013904223;
        data[i] = (float)((int)(state >> 16) % 129 - 64) / 16;
    }
    tn_tensor *x = tn_tensor_from_array(data, TN_F32, tn_dims(rows, length));
    free(data);
    return tn_to_dtype(x, dtype);
}

static tn_tensor *thirds(int64_t rows, int64_t length, tn_dtype dtype)
{
    return tn_mul_scalar(numbers(rows, length, dtype), 1.0 / 3);
}

/* ---- tested operators ---------------------------------------------------- */

static results sums(int64_t rows, int64_t length)
{
    results r = {.count = 0};
    tn_tensor *x = thirds(rows, length, TN_F32);
    add(&r, tn_sum(x, .dim = 1));
    add(&r, tn_mean(x, .dim = 1));
    add(&r, tn_sum(tn_to_dtype(x, TN_F64), .dim = 1));
    add(&r, tn_sum(tn_to_dtype(x, TN_F16), .dim = 1));
    add(&r, tn_sum(numbers(rows, length, TN_I64), .dim = 1));
    add(&r, tn_prod(tn_add_scalar(tn_mul_scalar(x, 0x1p-10), 1), .dim = 1));
    return r;
}

static results extremes(int64_t rows, int64_t length)
{
    results r = {.count = 0};
    tn_tensor *x = numbers(rows, length, TN_F32);
    add(&r, tn_amax(x, .dim = 1));
    add(&r, tn_argmax(x, .dim = 1));
    add(&r, tn_argmin(tn_to_dtype(x, TN_F64), .dim = 1));
    add(&r, tn_argmax(tn_to_dtype(x, TN_I64), .dim = 1));
    add(&r, tn_any(tn_gt_scalar(x, 3.99), .dim = 1));
    add(&r, tn_all(tn_gt_scalar(x, -9), .dim = 1));
    return r;
}

static results variances(int64_t rows, int64_t length)
{
    results r = {.count = 0};
    tn_tensor *x = thirds(rows, length, TN_F32);
    add(&r, tn_var(x, .dim = 1));
    add(&r, tn_std(tn_to_dtype(x, TN_F64), .dim = 1));
    add(&r, tn_logsumexp(x, tn_dims(1)));
    add(&r, tn_norm(x, .dim = 1));
    return r;
}

static results softmaxes(int64_t rows, int64_t length)
{
    results r = {.count = 0};
    tn_tensor *x = tn_requires_grad(thirds(rows, length, TN_F32));
    tn_tensor *y = tn_log_softmax(x, 1);
    add(&r, tn_detach(y));
    if (y && tn_backward(tn_sum(tn_mul(y, tn_detach(x)))) >= 0)
        add(&r, tn_tensor_grad(x));
    add(&r, tn_softmax(tn_detach(x), 1));
    add(&r, tn_softmax(tn_to_dtype(tn_detach(x), TN_F16), 1));
    return r;
}

static results layer_norms(int64_t rows, int64_t length)
{
    results r = {.count = 0};
    tn_tensor *x = tn_requires_grad(thirds(rows, length, TN_F32));
    tn_tensor *w = thirds(1, length, TN_F32);
    w = tn_requires_grad(tn_reshape(w, tn_dims(length)));
    tn_tensor *b = tn_requires_grad(tn_detach(w));
    tn_tensor *y = tn_layer_norm(x, tn_dims(length), w, b);
    add(&r, tn_detach(y));
    if (y && tn_backward(tn_sum(tn_mul(y, y))) >= 0) {
        add(&r, tn_tensor_grad(x));
        add(&r, tn_tensor_grad(w));
        add(&r, tn_tensor_grad(b));
    }
    return r;
}

/* The first row is zeros; the norm of the second is below eps. */
static results roots(int64_t rows, int64_t length)
{
    results r = {.count = 0};
    tn_tensor *x = thirds(rows, length, TN_F32);
    tn_mul_scalar_(tn_narrow(x, 0, 0, 1), 0);
    tn_mul_scalar_(tn_narrow(x, 0, 1, 1), 1e-9);
    x = tn_requires_grad(x);
    tn_tensor *w = tn_reshape(thirds(1, length, TN_F32), tn_dims(length));
    w = tn_requires_grad(w);
    tn_tensor *y = tn_rms_norm(x, tn_dims(length), w);
    tn_tensor *z = tn_normalize(x, .eps = 1e-3), *slope[2];
    add(&r, tn_detach(y));
    add(&r, tn_detach(z));
    tn_tensor *const leaf[] = {x, w};
    if (tn_grad(tn_sum(tn_mul(y, y)), leaf, 2, slope) >= 0) {
        add(&r, slope[0]);
        add(&r, slope[1]);
    }
    if (tn_grad(tn_sum(tn_mul(z, tn_detach(x))), leaf, 1, slope) >= 0)
        add(&r, slope[0]);
    return r;
}

/* A channel's elements have a stride. */
static results batch_norms(int64_t rows, int64_t length)
{
    results r = {.count = 0};
    tn_tensor *x = thirds(rows, length, TN_F32);
    x = tn_reshape(x, tn_dims(length / 17, rows, 17));
    x = tn_requires_grad(x);
    tn_tensor *mean = tn_zeros(tn_dims(rows)), *var = tn_ones(tn_dims(rows));
    tn_tensor *w = tn_requires_grad(tn_full(tn_dims(rows), 0.7));
    tn_tensor *b = tn_requires_grad(tn_full(tn_dims(rows), 0.1));
    tn_tensor *y = tn_batch_norm(x, mean, var, w, b, .training = true);
    add(&r, tn_detach(y));
    add(&r, mean);
    add(&r, var);
    if (y && tn_backward(tn_sum(tn_mul(y, y))) >= 0) {
        add(&r, tn_tensor_grad(x));
        add(&r, tn_tensor_grad(w));
        add(&r, tn_tensor_grad(b));
    }
    return r;
}

/* Each channel consists of separate segments in 13 images. Only reductions are
 * tested. */
static results channels(int64_t rows, int64_t length)
{
    results r = {.count = 0};
    tn_tensor *x = thirds(rows, length, TN_F32);
    x = tn_reshape(x, tn_dims(13, rows, length / 13));
    add(&r, tn_sum(x, .dims = tn_dims(0, 2)));
    add(&r, tn_mean(x, .dims = tn_dims(0, 2)));
    add(&r, tn_amax(x, .dims = tn_dims(0, 2)));
    add(&r, tn_amin(x, .dims = tn_dims(0, 2)));
    add(&r, tn_logsumexp(x, tn_dims(0, 2)));
    return r;
}

/* Tests columns, rows with a stride of 2, and one broadcast row. */
static results layouts(int64_t rows, int64_t length)
{
    results r = {.count = 0};
    tn_tensor *x = thirds(length, rows, TN_F32);
    tn_tensor *wide = thirds(rows, 2 * length, TN_F32);
    add(&r, tn_sum(x, .dim = 0));
    add(&r, tn_softmax(x, 0));
    add(&r, tn_argmax(tn_slice(wide, 1, 1, 2 * length, 2), .dim = 1));
    add(&r, tn_var(tn_slice(wide, 1, 0, 2 * length, 2), .dim = 1));
    tn_tensor *one = thirds(1, length, TN_F32);
    add(&r, tn_softmax(tn_expand(one, tn_dims(rows, length)), 1));
    return r;
}

/* A function call in a loop has a different value in each round. */
static results loops(int64_t rows, int64_t length)
{
    static const char text[] =
        "rounds(x) = let y = loop(i < 3; c = 0.0) (c + exp(x * float(i))); "
        "y / rsum(y)";
    static const tn_op *op;
    results r = {.count = 0};
    tn_tensor *x = thirds(rows, length, TN_F32);
    op = op ? op : tn_op_define(text);
    add(&r, tn_op_apply(op, &x, NULL));
    return r;
}

static results whole(int64_t rows, int64_t length)
{
    results r = {.count = 0};
    add(&r, tn_sum(thirds(rows, length, TN_F32)));
    add(&r, tn_argmax(numbers(rows, length, TN_F32)));
    return r;
}

/* Computes the losses of each element, and their mean in one kernel. */
static results losses(int64_t rows, int64_t length)
{
    results r = {.count = 0};
    tn_tensor *x = tn_requires_grad(thirds(rows, length, TN_F32));
    tn_tensor *y = tn_add_scalar(numbers(1, length, TN_F32), 0.25);
    tn_tensor *loss = tn_huber_loss(x, y);
    add(&r, tn_detach(loss));
    add(&r, tn_mse_loss(tn_detach(x), y));
    add(&r, tn_poisson_nll_loss(tn_detach(x), y));
    add(&r, tn_soft_margin_loss(tn_detach(x), y));
    add(&r, tn_hinge_embedding_loss(tn_detach(x), tn_sign(y)));
    if (loss && tn_backward(loss) >= 0)
        add(&r, tn_tensor_grad(x));
    return r;
}

/* Combines all pairs of rows. The number of rows is or is not a multiple of the
 * block of pairs that a work-group computes. */
static results meetings(int64_t rows, int64_t length)
{
    static const int64_t others[] = {3, 40, 97, 1000};
    results r = {.count = 0};
    tn_tensor *x = thirds(2 * rows, length, TN_F32);
    x = tn_reshape(x, tn_dims(2, rows, 1, length));
    for (int i = 0; i < 4; i++) {
        tn_tensor *y = numbers(2 * others[i], length, TN_F32);
        y = tn_reshape(y, tn_dims(2, 1, others[i], length));
        add(&r, tn_sum(tn_abs(tn_sub(x, y)), .dim = -1));
        add(&r, tn_cdist(tn_squeeze(x, .dim = 2),
                         tn_squeeze(y, .dim = 1), .p = 1));
    }
    return r;
}

typedef struct job {
    tn_tensor *x, *y, *sum;
} job;

static tn_status step(void *context)
{
    job *j = context;
    j->y = tn_keep(tn_softmax(j->x, 1));
    j->sum = tn_keep(tn_sum(j->x));
    return TN_OK;
}

/* Returns the results of a recorded graph that is replayed with other
 * numbers. */
static results replayed(int64_t rows, int64_t length)
{
    results r = {.count = 0};
    job j = {.x = numbers(rows, length, TN_F32)};
    tn_graph *graph = tn_graph_record(step, &j);
    tn_copy_(j.x, thirds(rows, length, TN_F32));
    if (graph && tn_graph_replay(graph) >= 0) {
        add(&r, tn_clone(j.y));
        add(&r, tn_clone(j.sum));
    }
    tn_drop(j.y);
    tn_drop(j.sum);
    tn_drop(graph);
    return r;
}

/* ---- comparison with the reference plugin -------------------------------- */

static void test(results (*run)(int64_t, int64_t), int64_t rows,
                 int64_t length, const char *what)
{
    tn_device *device = tn_device_current();
    tn_scope *scope = tn_scope_open();
    const results got = run(rows, length);
    tn_device_set(tn_device_open("reference"));
    const results want = run(rows, length);
    tn_device_set(device);
    int same = 0;
    for (int i = 0; i < got.count && got.count == want.count; i++)
        same += same_bits(got.of[i], want.of[i]);
    ok(want.count > 0 && same == want.count,
       "%s of %d rows of %d: %d of %d have the reference's bits", what,
       (int)rows, (int)length, same, want.count);
    if (tn_error())
        note("%s", tn_error());
    tn_error_clear();
    tn_scope_close(scope);
}

/* The mean of losses is computed in one kernel without storing the losses. It
 * is bit-identical to a separate mean. */
static void test_mean_of_losses(void)
{
    tn_scope *scope = tn_scope_open();
    tn_device *device = tn_device_current();
    tn_tensor *x = tn_requires_grad(thirds(5, 20000, TN_F32));
    tn_tensor *y = numbers(5, 20000, TN_F32), *slope, *slope_of_each;
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_memory_reset_peak(device);
    tn_memory(device, &before);
    tn_tensor *mean = tn_smooth_l1_loss(x, y, .beta = 0.3);
    tn_memory(device, &after);
    ok(after.peak_bytes - before.allocated_bytes < 20000,
       "the mean of 100,000 losses takes %lld bytes",
       (long long)(after.peak_bytes - before.allocated_bytes));
    tn_tensor *each = tn_mean(
        tn_smooth_l1_loss(x, y, .beta = 0.3, .reduction = "none"));
    tn_grad(mean, &x, 1, &slope);
    tn_grad(each, &x, 1, &slope_of_each);
    ok(same_bits(mean, each), "and has the bits of their mean");
    ok(same_bits(slope, slope_of_each), "so has its gradient");
    ok(!tn_l1_loss(numbers(2, 3, TN_I64), numbers(2, 3, TN_I64)) &&
           tn_error() && strstr(tn_error(), "mean: input is int64"),
       "a mean of whole losses is refused");
    tn_error_clear();
    tn_scope_close(scope);
}

/* cross_entropy does not store log_softmax, which has one number for each
 * class. */
static void test_classes(void)
{
    tn_scope *scope = tn_scope_open();
    tn_device *device = tn_device_current();
    tn_tensor *x = tn_requires_grad(thirds(50, 2000, TN_F32));
    tn_tensor *y = tn_remainder_scalar(
        tn_arange(0, 50, 1), 40); /* the last ten targets equal the first ten */
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_memory_reset_peak(device);
    tn_memory(device, &before);
    tn_tensor *loss = tn_cross_entropy(x, y, .ignore_index = 3);
    tn_memory(device, &after);
    ok(after.peak_bytes - before.allocated_bytes < 20000,
       "cross_entropy of 100,000 numbers takes %lld bytes",
       (long long)(after.peak_bytes - before.allocated_bytes));
    ok(same_bits(loss, tn_nll_loss(tn_log_softmax(x, 1), y,
                                   .ignore_index = 3)),
       "and has the bits of nll_loss of log_softmax");
    tn_scope_close(scope);
}

int main(void)
{
    static const int64_t edges[] = {49152, 49153, 65535, 65536, 65537, 98305};
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    note("on %s", tn_device_name(tn_device_current()));
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        test(sums, i % 2 ? 3 : 1, edges[i], "sums");
        test(extremes, i % 2 ? 1 : 2, edges[i], "extremes");
    }
    /* many rows of few chunks: a work-group reduces several rows */
    test(sums, 260, 1100, "sums");
    test(extremes, 130, 2100, "extremes");
    test(softmaxes, 65, 4200, "softmaxes");
    test(softmaxes, 301, 519, "softmaxes"); /* a row is longer than the cache of
                                             * a work-group */
    test(softmaxes, 130, 1030, "softmaxes");
    test(layer_norms, 451, 300, "layer_norm and its gradients");
    test(roots, 301, 519, "rms_norm and normalize and their gradients");
    test(layer_norms, 130, 2100, "layer_norm and its gradients");
    test(loops, 65, 300, "loops of calls");
    test(variances, 2, 49170, "variances");
    test(softmaxes, 3, 49170, "softmaxes");
    test(layer_norms, 2, 49170, "layer_norm and its gradients");
    test(batch_norms, 2, 17 * 3000, "batch_norm and its gradients");
    test(channels, 5, 13 * 576, "channels");
    test(channels, 3, 13 * 1025, "channels");
    test(channels, 2, 13 * 30011, "channels");
    test(layouts, 2, 49170, "rows that lie otherwise");
    test(replayed, 3, 49170, "a recorded step");
    test(meetings, 11, 64, "rows that meet");
    test(meetings, 5, 300, "rows that meet");
    test(losses, 3, 49170, "losses");
    test_mean_of_losses();
    test_classes();
    test(whole, 1, (1 << 20) + 3, "sum and argmax");
    return done_testing();
}
