/* Tests frozen functions (.freeze of tn_compile, tn_freeze) on the device of
 * TENON_DEVICE: they have the bits of the function, compute once what depends
 * on constants only, and see each change of a constant. */
#include <tenon/tenon.h>

#include <pthread.h>

#include "../tap.h"

static bool same_bits(tn_tensor *x, tn_tensor *y)
{
    const size_t bytes =
        (size_t)tn_tensor_numel(x) * tn_dtype_bytes(tn_tensor_dtype(x));
    char *a = malloc(bytes + 1), *b = malloc(bytes + 1);
    const size_t other =
        (size_t)tn_tensor_numel(y) * tn_dtype_bytes(tn_tensor_dtype(y));
    const bool same = a && b && bytes == other &&
                      tn_tensor_to_array(x, a, bytes) >= 0 &&
                      tn_tensor_to_array(y, b, bytes) >= 0 &&
                      memcmp(a, b, bytes) == 0;
    free(a);
    free(b);
    return same;
}

static tn_compiled_counts counts_of(const tn_compiled *c)
{
    tn_compiled_counts counts = {.size = sizeof counts};
    tn_compiled_read_counts(c, &counts);
    return counts;
}

/* Runs the net itself and frozen with new inputs, and compares the bits. */
static bool check_net(tn_compiled *frozen, tn_module *net, tn_dims_list shape)
{
    bool same = true;
    for (int round = 0; round < 3 && same && !tn_error(); round++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *x = tn_randn(shape), *want = NULL, *got = NULL;
        TN_NO_GRAD want = tn_forward(net, x);
        tn_compiled_run(frozen, &x, 1, &got, 1);
        same = !tn_error() && same_bits(want, got);
        tn_scope_close(scope);
    }
    return same && !tn_error();
}

/* ---- networks ------------------------------------------------------------ */

static tn_module *block(int in, int out, int kernel, int stride, int groups,
                        bool relu)
{
    tn_module *conv =
        tn_nn_conv2d(in, out, kernel, .stride = stride, .padding = kernel / 2,
                     .groups = groups, .bias = false);
    tn_module *norm = tn_nn_batch_norm2d(out);
    /* statistics other than 0 and 1 */
    TN_NO_GRAD {
        tn_copy_(tn_module_buffer(norm, "running_mean"),
                 tn_randn(tn_dims(out)));
        tn_copy_(tn_module_buffer(norm, "running_var"),
                 tn_add_scalar(tn_rand(tn_dims(out)), 0.5));
    }
    return relu ? tn_nn_sequential(conv, norm, tn_nn_relu6())
                : tn_nn_sequential(conv, norm);
}

typedef struct residual {
    tn_module base;
    tn_module *body, *side;
} residual;

static tn_tensor *residual_forward(tn_module *module, tn_tensor *x)
{
    residual *r = (residual *)module;
    tn_tensor *y = tn_forward(r->body, x);
    return tn_relu(tn_add(y, r->side ? tn_forward(r->side, x) : x));
}

static const tn_module_class residual_class = {
    .size = sizeof residual_class, .name = "Residual",
    .bytes = sizeof(residual), .forward = residual_forward};

static tn_module *bottleneck(int in, int width, int out, int stride)
{
    residual *r = tn_module_new(&residual_class);
    r->body = tn_module_add(
        &r->base, "body",
        tn_nn_sequential(block(in, width, 1, 1, 1, true),
                         block(width, width, 3, stride, 1, true),
                         block(width, out, 1, 1, 1, false)));
    if (in != out || stride != 1)
        r->side = tn_module_add(&r->base, "side",
                                block(in, out, 1, stride, 1, false));
    return &r->base;
}

/* The kinds of layers of ResNet-50 (arXiv:1512.03385), each once or twice. */
static tn_module *resnet(void)
{
    return tn_nn_sequential(
        block(3, 16, 7, 2, 1, true),
        tn_nn_max_pool2d(3, .stride = 2, .padding = 1),
        bottleneck(16, 16, 64, 1), bottleneck(64, 16, 64, 1),
        bottleneck(64, 32, 128, 2), bottleneck(128, 32, 128, 1),
        bottleneck(128, 128, 256, 2), tn_nn_adaptive_avg_pool2d(1, 1),
        tn_nn_flatten(), tn_nn_linear(256, 10));
}

/* The kinds of layers of MobileNetV2 (arXiv:1801.04381). */
static tn_module *mobilenet(void)
{
    return tn_nn_sequential(
        block(3, 32, 3, 2, 1, true), block(32, 32, 3, 1, 32, true),
        block(32, 16, 1, 1, 1, false), block(16, 96, 1, 1, 1, true),
        block(96, 96, 3, 2, 96, true), block(96, 24, 1, 1, 1, false),
        block(24, 144, 1, 1, 1, true), block(144, 144, 5, 1, 144, true),
        block(144, 32, 1, 1, 1, false), tn_nn_adaptive_avg_pool2d(1, 1),
        tn_nn_flatten(), tn_nn_linear(32, 10));
}

static void test_net(const char *name, tn_module *net, tn_dims_list shape)
{
    tn_scope *scope = tn_scope_open();
    tn_module_eval(net);
    tn_compiled *frozen = tn_freeze(net, tn_randn(shape));
    ok(check_net(frozen, net, shape), "%s: frozen has the bits of eager", name);
    const tn_compiled_counts counts = counts_of(frozen);
    ok(counts.captures == 2 && counts.replays == 3,
       "%s: tn_freeze makes the program", name);
    if (tn_error())
        note("%s", tn_error());
    tn_error_clear();
    tn_scope_close(scope);
}

/* ---- constants ----------------------------------------------------------- */

typedef struct weights {
    tn_tensor *w, *scale, *state;
} weights;

/* w * scale is a constant. */
static tn_status scaled(tn_tensor *const *in, int in_count, tn_tensor **out,
                        int out_count, void *context)
{
    weights *p = context;
    (void)in_count, (void)out_count;
    out[0] = tn_matmul(in[0], tn_exp(tn_mul(p->w, p->scale)));
    return tn_error() ? tn_error_code() : TN_OK;
}

static bool equals_function(tn_compiled *c, tn_compile_fn fn, void *context,
                            tn_tensor *x)
{
    tn_tensor *want, *got;
    TN_NO_GRAD {
        fn(&x, 1, &want, 1, context);
        tn_compiled_run(c, &x, 1, &got, 1);
    }
    return !tn_error() && same_bits(want, got);
}

static void test_constants(void)
{
    weights p = {tn_randn(tn_dims(8, 4)), tn_rand(tn_dims(4)), NULL};
    tn_compiled *c = tn_compile(scaled, &p, .freeze = true);
    tn_tensor *x = tn_randn(tn_dims(5, 8));
    bool same = true;
    for (int i = 0; i < 4; i++)
        same &= equals_function(c, scaled, &p, x);
    tn_compiled_counts counts = counts_of(c);
    ok(same && counts.replays == 2, "a frozen function has the same bits");
    ok(counts.constants == 2 && counts.launches == 1 &&
           counts.constant_bytes >= 8 * 4 * 4,
       "two calls on constants are made once");
    ok(strstr(tn_compiled_text(c), "2 calls with constant results"),
       "the report counts them");

    TN_NO_GRAD tn_mul_scalar_(p.scale, 2);
    same = true;
    for (int i = 0; i < 3; i++)
        same &= equals_function(c, scaled, &p, x);
    counts = counts_of(c);
    ok(same && counts.captures == 3, "a changed constant is seen in the next "
                                     "call, which captures again");
    const float numbers[4] = {1, 2, 3, 4};
    tn_tensor_set_array(p.scale, numbers, sizeof numbers);
    ok(equals_function(c, scaled, &p, x), "also after tn_tensor_set_array");
    if (tn_error())
        note("%s", tn_error());
}

/* Adds a constant to a state, which the function writes. */
static tn_status accumulate(tn_tensor *const *in, int in_count, tn_tensor **out,
                            int out_count, void *context)
{
    weights *p = context;
    (void)in_count, (void)out_count;
    tn_add_(p->state, tn_exp(p->w));
    out[0] = tn_mul(in[0], tn_exp(p->state));
    return tn_error() ? tn_error_code() : TN_OK;
}

static void test_state(void)
{
    weights p = {tn_randn(tn_dims(6)), NULL, tn_zeros(tn_dims(6))};
    weights q = {p.w, NULL, tn_zeros(tn_dims(6))};
    tn_compiled *c = tn_compile(accumulate, &p, .freeze = true);
    tn_tensor *x = tn_randn(tn_dims(6)), *want, *got;
    bool same = true;
    TN_NO_GRAD
        for (int i = 0; i < 5; i++) {
            accumulate(&x, 1, &want, 1, &q);
            tn_compiled_run(c, &x, 1, &got, 1);
            same &= !tn_error() && same_bits(want, got);
        }
    ok(same && counts_of(c).constants == 1,
       "a tensor that the function writes is not a constant");
}

/* A constant that is changed in place after another step has read it. */
static tn_status read_then_write(tn_tensor *const *in, int in_count,
                                 tn_tensor **out, int out_count, void *context)
{
    weights *p = context;
    (void)in_count, (void)out_count;
    tn_tensor *e = tn_exp(p->w);
    tn_tensor *first = tn_cumsum(tn_mul(in[0], e), 0);
    tn_mul_(e, p->scale);
    out[0] = tn_add(first, tn_cumsum(tn_mul(in[0], e), 0));
    return tn_error() ? tn_error_code() : TN_OK;
}

static void test_order(void)
{
    weights p = {tn_randn(tn_dims(6)), tn_randn(tn_dims(6)), NULL};
    tn_compiled *c = tn_compile(read_then_write, &p, .freeze = true);
    bool same = true;
    for (int i = 0; i < 4; i++)
        same &= equals_function(c, read_then_write, &p, tn_randn(tn_dims(6)));
    ok(same, "a constant may be changed in place between its readers");
}

static tn_status noisy(tn_tensor *const *in, int in_count, tn_tensor **out,
                       int out_count, void *context)
{
    weights *p = context;
    (void)in_count, (void)out_count;
    out[0] = tn_mul(in[0], tn_dropout(p->w, 0.5, true));
    return tn_error() ? tn_error_code() : TN_OK;
}

static void test_random(void)
{
    weights p = {tn_rand(tn_dims(64)), NULL, NULL};
    tn_compiled *c = tn_compile(noisy, &p, .freeze = true);
    tn_tensor *x = tn_ones(tn_dims(64)), *a, *b;
    TN_NO_GRAD
        for (int i = 0; i < 4; i++) {
            tn_compiled_run(c, &x, 1, &a, 1);
            tn_compiled_run(c, &x, 1, &b, 1);
        }
    ok(!tn_error() && !same_bits(a, b) && counts_of(c).constants == 0,
       "random numbers are drawn in each call");
}

/* ---- what is refused ----------------------------------------------------- */

static void test_errors(void)
{
    tn_module *net = tn_nn_sequential(tn_nn_linear(4, 4), tn_nn_dropout(0.5));
    tn_tensor *x = tn_randn(tn_dims(2, 4));
    ok(!tn_freeze(net, x) && tn_error_code() == TN_ERR_STATE &&
           strstr(tn_error(), "training mode"),
       "a net in training mode is refused");
    note("%s", tn_error());
    tn_error_clear();
    ok(!tn_freeze(net, NULL) && tn_error_code() == TN_ERR_ARGUMENT,
       "an example is needed");
    tn_error_clear();
    tn_module_eval(net);
    tn_module_compile(net, .freeze = true);
    tn_tensor *y = NULL;
    for (int i = 0; i < 3; i++)
        TN_NO_GRAD y = tn_forward(net, x);
    ok(y && counts_of(tn_module_compiled(net)).replays == 1,
       "tn_module_compile(net, .freeze = true) replays");
    tn_module_train(net, true);
    TN_NO_GRAD y = tn_forward(net, x);
    ok(!y && tn_error_code() == TN_ERR_STATE &&
           strstr(tn_error(), "training mode"),
       "and refuses the training mode");
    tn_error_clear();
}

/* A frozen function needs no TN_NO_GRAD, and sees a step of an optimizer. */
static void test_step(void)
{
    tn_module *net = tn_nn_sequential(tn_nn_linear(4, 3), tn_nn_relu());
    tn_optim *opt = tn_optim_sgd(tn_parameters(net), .lr = 0.1);
    tn_tensor *x = tn_randn(tn_dims(2, 4));
    tn_module_eval(net);
    tn_compiled *c = tn_freeze(net, x);
    bool same = check_net(c, net, tn_dims(2, 4));
    tn_backward(tn_mean(tn_square(tn_forward(net, x))));
    tn_optim_step(opt);
    same &= check_net(c, net, tn_dims(2, 4));
    ok(same, "a step of an optimizer is seen");
}

/* ---- several threads ----------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 20, KINDS = 2 };

typedef struct caller {
    tn_compiled *frozen;
    tn_tensor *in[KINDS], *want[KINDS];
    int failed;
} caller;

static void *call_often(void *context)
{
    caller *t = context;
    for (int i = 0; i < ROUNDS; i++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *y = NULL;
        tn_compiled_run(t->frozen, &t->in[i % KINDS], 1, &y, 1);
        t->failed += !y || !same_bits(y, t->want[i % KINDS]);
        tn_scope_close(scope);
    }
    t->failed += tn_error() != NULL;
    return NULL;
}

/* Two shapes, of which one is captured while the threads run. */
static void test_threads(tn_module *net, int64_t size)
{
    tn_scope *scope = tn_scope_open();
    tn_module_eval(net);
    tn_compiled *frozen = tn_freeze(net, tn_randn(tn_dims(1, 3, size, size)));
    pthread_t thread[THREADS];
    caller t[THREADS];
    for (int i = 0; i < THREADS; i++) {
        t[i] = (caller){.frozen = frozen};
        for (int k = 0; k < KINDS; k++) {
            t[i].in[k] = tn_randn(tn_dims(1 + k, 3, size, size));
            TN_NO_GRAD t[i].want[k] = tn_forward(net, t[i].in[k]);
        }
    }
    const int64_t bytes = counts_of(frozen).prepared_bytes;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, call_often, &t[i]))
            return;
    int failed = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        failed += t[i].failed;
    }
    const tn_compiled_counts counts = counts_of(frozen);
    is_int(failed, 0, "threads get the bits of eager from one frozen function");
    is_int(counts.calls, 2 + THREADS * ROUNDS, "all calls are counted");
    ok(counts.plans == 2 && bytes >= 0, "two programs stand for all");
    tn_scope_close(scope);
}

int main(void)
{
    plan_later();
    tn_manual_seed(7);
    tn_scope *scope = tn_scope_open();
    test_constants();
    test_state();
    test_order();
    test_random();
    test_step();
    test_errors();
    test_net("ResNet", resnet(), tn_dims(1, 3, 64, 64));
    test_net("ResNet, 2 images", resnet(), tn_dims(2, 3, 32, 32));
    test_net("MobileNet", mobilenet(), tn_dims(1, 3, 64, 64));
    test_net("encoder",
             tn_nn_transformer_encoder(32, 4, 2, .dim_feedforward = 64,
                                       .activation = "gelu", .dropout = 0,
                                       .batch_first = true),
             tn_dims(1, 12, 32));
    test_threads(resnet(), 32);
    tn_scope_close(scope);
    return done_testing();
}
