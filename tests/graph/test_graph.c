/* Tests recorded graphs on the device of TENON_DEVICE. A replay must give
 * results that are bit-identical to running the step. Recording a step that
 * cannot be replayed must be an error. */
#include <tenon/tenon.h>

#include "../tap.h"

enum { STEPS = 5, BATCH = 6 };

typedef struct job {
    tn_module *net;
    tn_optim *opt;
    tn_tensor *x, *y;
    tn_tensor *loss; /* owned by the test (tn_keep) */
} job;

/* Fills with numbers that depend only on the step. */
static void fill(job *j, int step)
{
    double x[BATCH * 64];
    int64_t y[BATCH];
    for (int i = 0; i < BATCH * 64; i++)
        x[i] = sin(i * 0.37 + step);
    for (int i = 0; i < BATCH; i++)
        y[i] = (i * 3 + step) % 10;
    tn_scope *scope = tn_scope_open();
    tn_copy_(j->x, tn_to_dtype(tn_tensor_from_array(
                                   x, TN_F64, tn_dims(BATCH, 1, 8, 8)),
                               TN_F32));
    tn_copy_(j->y, tn_tensor_from_array(y, TN_I64, tn_dims(BATCH)));
    tn_scope_close(scope);
}

static void begin(job *j)
{
    tn_manual_seed(7);
    j->net = tn_nn_sequential(
        tn_nn_conv2d(1, 4, 3, .padding = 1), tn_nn_relu(),
        tn_nn_batch_norm2d(4), tn_nn_max_pool2d(2), tn_nn_flatten(),
        tn_nn_dropout(0.3), tn_nn_linear(64, 12), tn_nn_gelu(),
        tn_nn_dropout(0.2), tn_nn_linear(12, 10));
    j->opt = tn_optim_adamw(tn_parameters(j->net), .lr = 0.01);
    j->x = tn_zeros(tn_dims(BATCH, 1, 8, 8));
    j->y = tn_zeros(tn_dims(BATCH), .dtype = TN_I64);
    j->loss = NULL;
}

static tn_status step(void *context)
{
    job *j = context;
    tn_optim_zero_grad(j->opt);
    tn_drop(j->loss);
    j->loss = tn_keep(tn_cross_entropy(tn_forward(j->net, j->x), j->y));
    return tn_backward(j->loss);
}

/* Adds the bits of a result to a hash. */
static uint64_t bits_of(tn_tensor *x, uint64_t hash)
{
    size_t bytes = (size_t)tn_tensor_numel(x) *
                   tn_dtype_bytes(tn_tensor_dtype(x));
    unsigned char *data = malloc(bytes);
    if (!data || tn_tensor_to_array(x, data, bytes) < 0)
        bail_out("%s", tn_error() ? tn_error() : "no memory");
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ data[i]) * 0x100000001b3u;
    free(data);
    return hash;
}

typedef struct outcome {
    uint64_t bits;
    double losses[STEPS];
    int64_t count, calls, allocations;
} outcome;

static int64_t allocated(void)
{
    tn_memory_stats stats = {.size = sizeof stats};
    tn_memory(NULL, &stats);
    return stats.allocated_bytes;
}

static outcome train(bool recorded)
{
    outcome out = {.bits = 0xcbf29ce484222325u};
    job j;
    tn_scope *scope = tn_scope_open();
    tn_graph *graph = NULL;
    begin(&j);
    for (int s = 0; s < STEPS && !tn_error(); s++) {
        fill(&j, s);
        if (!recorded)
            step(&j);
        else if (s == 0)
            graph = tn_graph_record(step, &j);
        else
            tn_graph_replay(graph);
        tn_optim_step(j.opt);
        out.losses[s] = tn_item(j.loss);
        out.bits = bits_of(j.loss, out.bits);
    }
    for (int i = 0; i < tn_parameters_count(tn_parameters(j.net)); i++)
        out.bits = bits_of(tn_parameters_at(tn_parameters(j.net), i),
                           out.bits);
    out.count = tn_graph_count(graph);
    out.calls = tn_graph_calls(graph);
    tn_drop(j.loss);
    tn_scope_close(scope);
    if (tn_error())
        note("%s", tn_error());
    tn_error_clear();
    return out;
}

static void test_training(void)
{
    int64_t before = allocated();
    outcome run = train(false), replayed = train(true);
    note("losses %g ... %g, replayed %g ... %g", run.losses[0],
         run.losses[STEPS - 1], replayed.losses[0],
         replayed.losses[STEPS - 1]);
    ok(run.bits == replayed.bits,
       "replayed steps have the losses and parameters of those that are run");
    ok(run.losses[0] != run.losses[1], "which change from step to step");
    ok(replayed.count > 20, "the step has pieces of work");
    note("%lld pieces, %lld calls", (long long)replayed.count,
         (long long)replayed.calls);
    if (strncmp(tn_device_name(tn_device_current()), "cuda", 4) == 0)
        ok(replayed.calls < 12, "a few calls of the driver replay it");
    else
        ok(replayed.calls == replayed.count, "each is given again");
    is_int(allocated(), before, "all memory is freed with the graph");
}

/* ---- memory ------------------------------------------------------------- */

static tn_status chain(void *context)
{
    tn_tensor *x = *(tn_tensor **)context;
    for (int i = 0; i < 20; i++) {
        tn_scope *scope = tn_scope_open();
        tn_copy_(x, tn_mul_scalar(tn_add_scalar(x, 1), 0.5));
        tn_scope_close(scope);
    }
    return TN_OK;
}

static void test_memory(void)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_zeros(tn_dims(4096));
    int64_t before = allocated();
    tn_graph *graph = tn_graph_record(chain, &x);
    int64_t held = allocated() - before;
    note("%lld bytes for 40 values of 16384", (long long)held);
    ok(held > 0 && held <= 3 * 16384,
       "memory of freed values is reused by later values of the step");
    tn_copy_(x, tn_zeros(tn_dims(4096)));
    /* The graph's memory does not include what other code allocates
     * meanwhile. */
    tn_tensor *others[8];
    for (int i = 0; i < 8; i++)
        others[i] = tn_full(tn_dims(4096), i);
    tn_graph_replay(graph);
    double sum = 0;
    for (int i = 0; i < 8; i++)
        sum += tn_item(tn_sum(others[i])) / 4096;
    ok(sum == 28, "a replay writes only its own memory");
    ok(fabs(tn_item(tn_select(x, 0, 5)) - 1) < 1e-5, "and does its work");
    is_str(tn_error(), NULL, "without an error");
    tn_scope_close(scope);
}

/* ---- primitives, some of which use scratch memory ------------------------ */

typedef struct sorting {
    tn_tensor *x, *index, *out[4]; /* out: owned by the test (tn_keep) */
} sorting;

static tn_status sort_and_sum(void *context)
{
    sorting *s = context;
    tn_tensor *sorted = tn_sort(s->x, 0, false, NULL);
    tn_tensor *sums = tn_cumsum(sorted, 0);
    tn_tensor *added =
        tn_index_add(tn_zeros(tn_dims(50)), 0, s->index, sums);
    tn_tensor *square = tn_reshape(tn_narrow(sums, 0, 0, 2500),
                                   tn_dims(50, 50));
    tn_tensor *made[] = {sorted, sums, added, tn_matmul(square, square)};
    for (int i = 0; i < 4; i++) {
        tn_drop(s->out[i]);
        s->out[i] = tn_keep(made[i]);
    }
    return tn_error() ? tn_error_code() : TN_OK;
}

static uint64_t sort_bits(const sorting *s)
{
    uint64_t bits = 1;
    for (int i = 0; i < 4; i++)
        bits = bits_of(s->out[i], bits);
    return bits;
}

static void test_primitives(void)
{
    enum { MANY = 3000 };
    tn_scope *scope = tn_scope_open();
    int64_t index[MANY];
    for (int i = 0; i < MANY; i++)
        index[i] = (i * 7) % 50;
    sorting s = {.x = tn_zeros(tn_dims(MANY)),
                 .index = tn_tensor_from_array(index, TN_I64, tn_dims(MANY))};
    tn_manual_seed(3);
    tn_copy_(s.x, tn_randn(tn_dims(MANY)));
    tn_graph *graph = tn_graph_record(sort_and_sum, &s);
    uint64_t first = sort_bits(&s);
    tn_graph_replay(graph);
    ok(sort_bits(&s) == first, "primitives replayed on the same values");
    tn_copy_(s.x, tn_randn(tn_dims(MANY)));
    tn_graph_replay(graph);
    uint64_t replayed = sort_bits(&s);
    sort_and_sum(&s);
    ok(sort_bits(&s) == replayed && replayed != first,
       "and on others have the bits of those that are run");
    is_str(tn_error(), NULL, "without an error");
    for (int i = 0; i < 4; i++)
        tn_drop(s.out[i]);
    tn_scope_close(scope);
}

/* ---- all kinds of work --------------------------------------------------- */

enum { MOST = 6 };

typedef struct work {
    tn_tensor *x, *out[MOST]; /* out: owned by the test (tn_keep) */
} work;

static tn_status keep_all(work *w, tn_tensor *const *made, int count)
{
    for (int i = 0; i < count; i++) {
        tn_drop(w->out[i]);
        w->out[i] = made[i] ? tn_keep(made[i]) : NULL;
    }
    return tn_error() ? tn_error_code() : TN_OK;
}

static tn_status pad_three_ways(void *context)
{
    static const char *const mode[] = {"reflect", "replicate", "circular"};
    work *w = context;
    tn_tensor *made[3];
    for (int i = 0; i < 3; i++)
        made[i] = tn_pad(w->x, tn_dims(2, 1, 1, 3), .mode = mode[i]);
    return keep_all(w, made, 3);
}

/* An asynchronous plugin reads the extents, offsets and batch sizes much
 * later. */
static tn_status of_four_dims(void *context)
{
    work *w = context;
    tn_tensor *x = w->x, *part = tn_narrow(x, 0, 1, 1);
    tn_tensor *made[] = {
        tn_sort(x, 3, false, NULL),
        tn_cumsum(x, 3),
        tn_scatter_add(tn_zeros(tn_dims(2, 4, 6, 4)), 1,
                       tn_zeros(tn_dims(2, 4, 6, 4), .dtype = TN_I64), x),
        tn_clone(part),
        tn_conv2d(x, tn_narrow(x, 2, 0, 3), NULL, .padding = 1),
        tn_scaled_dot_product_attention(x, x, x, NULL)};
    return keep_all(w, made, 6);
}

static void test_kind(tn_status (*work_of)(void *context), tn_dims_list dims,
                      const char *name)
{
    tn_scope *scope = tn_scope_open();
    work w = {.x = tn_zeros(dims)};
    tn_graph *graph = tn_graph_record(work_of, &w);
    uint64_t replayed = 1, called = 1;
    tn_copy_(w.x, tn_randn(dims));
    if (graph)
        tn_graph_replay(graph);
    for (int i = 0; graph && i < MOST && w.out[i]; i++)
        replayed = bits_of(w.out[i], replayed);
    work_of(&w);
    for (int i = 0; i < MOST && w.out[i]; i++)
        called = bits_of(w.out[i], called);
    ok(graph && replayed == called, "%s: %s", name,
       tn_error() ? tn_error() : "replayed as it is called");
    tn_error_clear();
    for (int i = 0; i < MOST; i++)
        tn_drop(w.out[i]);
    tn_scope_close(scope);
}

/* ---- errors -------------------------------------------------------------- */

static tn_status reads(void *context)
{
    return tn_item(tn_sum(context)) > 0 ? TN_OK : TN_OK;
}

static tn_status copies_in(void *context)
{
    float one = 1;
    tn_add(context, tn_tensor_from_array(&one, TN_F32, tn_dims(1)));
    return TN_OK;
}

static tn_status nothing(void *context)
{
    (void)context;
    return TN_OK;
}

static tn_status nests(void *context)
{
    return tn_graph_record(nothing, context) ? TN_OK : tn_error_code();
}

static tn_status fails(void *context)
{
    tn_matmul(context, context);
    return tn_error() ? tn_error_code() : TN_OK;
}

static void refused(tn_graph_fn fn, void *context, const char *text,
                    const char *name)
{
    ok(!tn_graph_record(fn, context) && tn_error() && strstr(tn_error(), text),
       "%s is refused", name);
    note("%s", tn_error() ? tn_error() : "no error");
    tn_error_clear();
    ok(!tn_graph_is_recording(), "and nothing is recorded then");
}

static void test_refusals(void)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_ones(tn_dims(3));
    job j;
    begin(&j);
    refused(reads, x, "work is being recorded", "a number that is read");
    refused(copies_in, x, "work is being recorded", "memory of the host");
    tn_drop(j.loss);
    refused(nests, x, "already recording", "a graph within a graph");
    tn_tensor *wide = tn_ones(tn_dims(2, 3));
    refused(fails, wide, "inner sizes differ", "a step that fails");
    refused(NULL, x, "step is NULL", "no step");
    is_int(tn_graph_replay(NULL), TN_ERR_ARGUMENT, "no graph is an error");
    tn_error_clear();
    tn_graph *empty = tn_graph_record(nothing, NULL);
    is_int(tn_graph_count(empty), 0, "an empty step has no work");
    is_int(tn_graph_replay(empty), TN_OK, "and is replayed");
    tn_scope_close(scope);
}

static tn_status picks(void *context)
{
    tn_tensor **in = context;
    tn_copy_(in[2], tn_index_select(in[0], 0, in[1]));
    return TN_OK;
}

static void test_index(void)
{
    tn_scope *scope = tn_scope_open();
    const int64_t good[] = {1, 3}, bad[] = {1, 9};
    tn_tensor *in[] = {tn_cumsum(tn_ones(tn_dims(5)), 0),
                       tn_tensor_from_array(good, TN_I64, tn_dims(2)),
                       tn_zeros(tn_dims(2))};
    tn_graph *graph = tn_graph_record(picks, in);
    is_int(tn_graph_replay(graph), TN_OK, "indices that are within");
    tn_device_synchronize(NULL);
    tn_tensor_set_array(in[1], bad, sizeof bad);
    if (tn_graph_replay(graph) == TN_OK)
        tn_device_synchronize(NULL);
    is_int(tn_error_code(), TN_ERR_INDEX, "one that is not is an error");
    note("%s", tn_error() ? tn_error() : "no error");
    tn_error_clear();
    tn_tensor_set_array(in[1], good, sizeof good);
    tn_graph_replay(graph);
    ok(tn_item(tn_select(in[2], 0, 1)) == 4, "and the next replay works");
    tn_scope_close(scope);
}

typedef struct scaled {
    tn_tensor *in, *out;
    double by;
    int times;
} scaled;

static tn_status scale(void *context)
{
    scaled *s = context;
    for (int i = 0; i < s->times; i++)
        tn_copy_(s->out, tn_mul_scalar(i ? s->out : s->in, s->by));
    return TN_OK;
}

static void test_update(void)
{
    tn_scope *scope = tn_scope_open();
    scaled s = {tn_ones(tn_dims(3)), tn_zeros(tn_dims(3)), 2, 3};
    tn_graph *graph = tn_graph_record(scale, &s);
    tn_mul_scalar_(s.out, 0);
    tn_graph_replay(graph);
    tn_graph_replay(graph);
    /* Updates the graph while a replay runs, with other memory, another shape
     * and another number. */
    scaled other = {tn_ones(tn_dims(40, 70)), tn_zeros(tn_dims(40, 70)), 3, 3};
    is_int(tn_graph_update(graph, scale, &other), TN_OK, "a graph is updated");
    tn_mul_scalar_(other.out, 0);
    tn_mul_scalar_(s.out, 0);
    tn_graph_replay(graph);
    ok(tn_item(tn_select(tn_reshape(other.out, tn_dims(-1)), 0, 2799)) == 27,
       "a replay is that of the new step");
    ok(tn_item(tn_select(s.out, 0, 0)) == 0, "and not that of the old");
    int64_t count = tn_graph_count(graph);
    other.times = 5; /* a step with more operators */
    is_int(tn_graph_update(graph, scale, &other), TN_OK, "by a longer step");
    tn_graph_replay(graph);
    ok(tn_item(tn_select(tn_reshape(other.out, tn_dims(-1)), 0, 0)) == 243,
       "which is replayed, too");
    ok(tn_graph_count(graph) > count, "it has more pieces");
    tn_tensor *wide = tn_ones(tn_dims(2, 3));
    is_int(tn_graph_update(graph, fails, wide), TN_ERR_SHAPE,
           "a step that fails is no update");
    tn_error_clear();
    tn_mul_scalar_(other.out, 0);
    tn_graph_replay(graph);
    ok(tn_item(tn_select(tn_reshape(other.out, tn_dims(-1)), 0, 0)) == 243,
       "and the graph is as it was");
    is_int(tn_graph_update(graph, nothing, NULL), TN_OK, "nothing in its place");
    is_int(tn_graph_count(graph), 0, "is no work");
    is_int(tn_graph_update(graph, scale, &s), TN_OK, "and something again");
    is_int(tn_graph_update(NULL, scale, &s), TN_ERR_ARGUMENT, "no graph");
    tn_error_clear();
    is_int(tn_graph_update(graph, NULL, &s), TN_ERR_ARGUMENT, "no step");
    is_int(tn_graph_update(graph, scale, &s), TN_ERR_STATE,
           "nor with an error pending");
    tn_error_clear();
    tn_graph_replay(graph);
    ok(tn_item(tn_select(s.out, 0, 2)) == 8, "the graph is still that");
    tn_scope_close(scope);
}

int main(void)
{
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    note("device %s", tn_device_name(tn_device_current()));
    test_training();
    test_memory();
    test_primitives();
    test_kind(pad_three_ways, tn_dims(2, 4, 5),
              "padding by input's own elements");
    test_kind(of_four_dims, tn_dims(2, 4, 6, 4), "work of four dimensions");
    test_refusals();
    test_index();
    test_update();
    return done_testing();
}
