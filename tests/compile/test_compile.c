/* Tests compiled functions on the device of TENON_DEVICE. A replay must give
 * the same bits as the function, for other inputs, shapes and modes. What a
 * replay would get wrong must be an error. */
#include <tenon/tenon.h>

#include "../tap.h"
#include "compiled.h"

/* ---- comparison ---------------------------------------------------------- */

/* Calls fn itself and its compiled form six times with new random inputs of these
 * shapes, and checks that the bits are the same. */
static tn_compiled *check_same(const char *name, tn_compile_fn fn, void *context,
                               tn_compiled *compiled, int in_count,
                               const tn_dims_list *shape, int out_count)
{
    if (!compiled)
        compiled = tn_compile(fn, context, .name = name);
    bool same = true;
    for (int round = 0; round < 6 && same && !tn_error(); round++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *in[8], *want[8] = {NULL}, *got[8] = {NULL};
        for (int i = 0; i < in_count; i++)
            in[i] = tn_randn(shape[i]);
        TN_NO_GRAD {
            const tn_rng_state random = tn_rng_snapshot();
            fn(in, in_count, want, out_count, context);
            tn_rng_restore(random);
            tn_compiled_run(compiled, in, in_count, got, out_count);
        }
        for (int o = 0; o < out_count && same && !tn_error(); o++)
            same = same_bits(want[o], got[o]);
        tn_scope_close(scope);
    }
    ok(same && !tn_error(), "%s: a replay has the same bits%s%s", name,
       tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    tn_error_clear();
    return compiled;
}

/* ---- functions ------------------------------------------------------------ */

static tn_status chain(tn_tensor *const *in, int in_count, tn_tensor **out,
                       int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *x = in[0], *y = in[1], *z = tn_add(x, y);
    for (int i = 0; i < 4; i++)
        z = tn_sub(tn_relu(tn_add_scalar(tn_mul(z, y), 0.5)), x);
    out[0] = tn_tanh(tn_mul(tn_sigmoid(z), x));
    return TN_OK;
}

static tn_status broadcast(tn_tensor *const *in, int in_count, tn_tensor **out,
                           int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *h = tn_mul_scalar(tn_add(in[0], in[1]), 2);
    out[0] = tn_softmax(tn_gelu(h), -1);
    out[1] = tn_add(h, in[1]);
    return TN_OK;
}

static tn_status in_place(tn_tensor *const *in, int in_count, tn_tensor **out,
                          int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *z = tn_mul_scalar(in[0], 3), *row = tn_select(z, 0, 1);
    tn_add_(z, in[1]);
    tn_relu_(row);
    tn_mul_(z, z);
    out[0] = tn_add(z, row);
    out[1] = tn_transpose(z, 0, 1);
    out[2] = in[0];
    out[3] = row;
    return TN_OK;
}

static tn_status network(tn_tensor *const *in, int in_count, tn_tensor **out,
                         int out_count, void *context)
{
    (void)in_count, (void)out_count;
    out[0] = tn_forward(context, in[0]);
    return TN_OK;
}

static tn_status random_numbers(tn_tensor *const *in, int in_count,
                                tn_tensor **out, int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    out[0] = tn_mul(tn_dropout(in[0], 0.4, true), tn_rand_like(in[0]));
    out[1] = tn_dropout(out[0], 0.1, true);
    return TN_OK;
}

static void check_functions(void)
{
    tn_scope *scope = tn_scope_open();
    const tn_dims_list flat[] = {tn_dims(1000), tn_dims(1000)};
    tn_compiled *c = check_same("chain", chain, NULL, NULL, 2, flat, 1);
    if (getenv("TENON_TEST_VERBOSE"))
        printf("%s\n", tn_compiled_text(c) ? tn_compiled_text(c) : tn_error());
    tn_compiled_counts counts = counts_of(c);
    ok(counts.captures == 2 && counts.replays == 4 && counts.plans == 1,
       "two captures make a program: %lld, %lld", (long long)counts.captures,
       (long long)counts.replays);
    ok(counts.recorded == 20 && counts.launches == 1 && counts.arena_bytes == 0,
       "20 launches become one: %lld become %lld",
       (long long)counts.recorded, (long long)counts.launches);
    const tn_dims_list wide[] = {tn_dims(7, 50), tn_dims(7, 50)};
    check_same("chain of another shape", chain, NULL, c, 2, wide, 1);
    const tn_dims_list rows[] = {tn_dims(5, 33), tn_dims(33)};
    check_same("broadcast", broadcast, NULL, NULL, 2, rows, 2);
    const tn_dims_list square[] = {tn_dims(9, 9), tn_dims(9, 9)};
    check_same("in place", in_place, NULL, NULL, 2, square, 4);
    check_same("random numbers", random_numbers, NULL, NULL, 1, wide, 2);
    tn_module *net = tn_nn_sequential(
        tn_nn_conv2d(1, 4, 3, .padding = 1), tn_nn_batch_norm2d(4),
        tn_nn_relu(), tn_nn_max_pool2d(2), tn_nn_flatten(),
        tn_nn_dropout(0.3), tn_nn_linear(64, 12), tn_nn_layer_norm(tn_dims(12)),
        tn_nn_gelu(), tn_nn_linear(12, 10), tn_nn_softmax(-1));
    const tn_dims_list image[] = {tn_dims(6, 1, 8, 8)};
    c = check_same("network", network, net, NULL, 1, image, 1);
    if (getenv("TENON_TEST_VERBOSE"))
        printf("%s\n", tn_compiled_text(c) ? tn_compiled_text(c) : tn_error());
    tn_scope_close(scope);
}

/* ---- steps with gradients -------------------------------------------------- */

typedef struct training {
    tn_module *net;
    tn_parameter_list *parameters;
} training;

/* Computes the loss and the gradients of a batch. */
static tn_status gradients(tn_tensor *const *in, int in_count, tn_tensor **out,
                           int out_count, void *context)
{
    training *t = context;
    (void)in_count, (void)out_count;
    for (int i = 0; i < tn_parameters_count(t->parameters); i++)
        tn_tensor_set_grad(tn_parameters_at(t->parameters, i), NULL);
    tn_tensor *loss = tn_mse_loss(tn_forward(t->net, in[0]), in[1]);
    out[0] = tn_detach(loss);
    return tn_backward(loss);
}

static training training_new(void)
{
    training t;
    tn_manual_seed(3);
    t.net = tn_nn_sequential(tn_nn_linear(8, 16), tn_nn_gelu(),
                             tn_nn_layer_norm(tn_dims(16)), tn_nn_dropout(0.2),
                             tn_nn_linear(16, 3), tn_nn_tanh());
    t.parameters = tn_parameters(t.net);
    return t;
}

static void check_gradients(void)
{
    tn_scope *scope = tn_scope_open();
    training eager = training_new(), fast = training_new();
    tn_compiled *c = tn_compile(gradients, &fast, .name = "gradients");
    bool same = true;
    for (int round = 0; round < 6 && same && !tn_error(); round++) {
        tn_scope *inner = tn_scope_open();
        tn_tensor *in[2] = {tn_randn(tn_dims(5, 8)), tn_randn(tn_dims(5, 3))};
        tn_tensor *want = NULL, *got = NULL;
        const tn_rng_state random = tn_rng_snapshot();
        gradients(in, 2, &want, 1, &eager);
        tn_rng_restore(random);
        tn_compiled_run(c, in, 2, &got, 1);
        same = !tn_error() && same_bits(want, got);
        for (int i = 0; same && i < tn_parameters_count(fast.parameters); i++)
            same = same_bits(
                tn_tensor_grad(tn_parameters_at(eager.parameters, i)),
                tn_tensor_grad(tn_parameters_at(fast.parameters, i)));
        tn_scope_close(inner);
    }
    ok(same && !tn_error() && counts_of(c).replays > 0,
       "a step with backward gives the same loss and gradients%s%s",
       tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    ok(counts_of(c).launches < counts_of(c).recorded,
       "%lld launches of a step become %lld", (long long)counts_of(c).recorded,
       (long long)counts_of(c).launches);
    tn_error_clear();
    /* After this a replay would write gradients that nobody reads. */
    tn_tensor *first = tn_parameters_at(fast.parameters, 0);
    tn_tensor_set_grad(first, NULL);
    tn_tensor *in[2] = {tn_randn(tn_dims(5, 8)), tn_randn(tn_dims(5, 3))}, *y;
    const int64_t captures = counts_of(c).captures;
    tn_compiled_run(c, in, 2, &y, 1);
    ok(tn_tensor_grad(first) && counts_of(c).captures == captures + 1,
       "a gradient that was removed is made again");
    tn_compiled_run(c, in, 2, &y, 1);
    ok(counts_of(c).captures == captures + 1 && !tn_error(),
       "then the step is replayed again");
    tn_scope_close(scope);
}

/* ---- numbers --------------------------------------------------------------- */

typedef struct scaled {
    double number;
    bool late;
    tn_tensor *state;
} scaled;

static tn_status scale(tn_tensor *const *in, int in_count, tn_tensor **out,
                       int out_count, void *context)
{
    scaled *s = context;
    (void)in_count, (void)out_count;
    if (s->late)
        out[0] = tn_mul_scalar(tn_abs(in[0]), tn_late_number(&s->number));
    else
        out[0] = tn_mul_scalar(tn_abs(in[0]), s->number);
    if (s->state)
        tn_add_(s->state, out[0]);
    return TN_OK;
}

static bool has(const char *text)
{
    const bool found = tn_error() && strstr(tn_error(), text);
    if (!found)
        printf("# %s\n", tn_error() ? tn_error() : "no error");
    tn_error_clear();
    return found;
}

static void check_numbers(void)
{
    tn_scope *scope = tn_scope_open();
    scaled s = {.number = 0.5};
    tn_tensor *x = tn_full(tn_dims(3), -2.0), *y = NULL;
    tn_compiled *c = tn_compile(scale, &s);
    tn_compiled_run(c, &x, 1, &y, 1);
    s.number = 0.75;
    tn_compiled_run(c, &x, 1, &y, 1);
    ok(!y, "a failed call returns no tensor");
    ok(has("mul: its argument other was 0.5, and is 0.75 in the next call"),
       "a number that differs between captures is an error");
    s.late = true;
    c = tn_compile(scale, &s);
    bool right = true;
    for (int i = 0; i < 6; i++) {
        s.number = i + 0.25;
        tn_compiled_run(c, &x, 1, &y, 1);
        right = right && y && tn_item(tn_select(y, 0, 1)) == 2 * s.number;
    }
    ok(right && !tn_error() && counts_of(c).replays == 4,
       "each replay reads a late number");
    tn_error_clear();
    ok(!tn_mul_scalar(x, tn_late_number(NULL)) && has("late_number: x is NULL"),
       "a late number at NULL is an error");
    ok(!tn_full(tn_dims(2), tn_late_number(&s.number)) &&
           has("cannot be a late number"),
       "an operator that is not one kernel rejects a late number");
    ok(!tn_pow_scalar(x, tn_late_number(&s.number)) &&
           has("cannot be a late number"),
       "so does one whose numbers select the kernel");
    tn_scope_close(scope);
}

/* ---- guards ---------------------------------------------------------------- */

static void check_guards(void)
{
    tn_scope *scope = tn_scope_open();
    scaled s = {.number = 2};
    tn_compiled *c = tn_compile(scale, &s, .plans = 2);
    tn_tensor *y = NULL;
    for (int round = 0; round < 3; round++)
        for (int size = 1; size <= 3; size++)
            for (int i = 0; i < 3; i++) {
                tn_tensor *x = tn_full(tn_dims(size), -1.0);
                tn_compiled_run(c, &x, 1, &y, 1);
            }
    ok(counts_of(c).plans <= 2 && counts_of(c).evictions >= 7 && !tn_error(),
       "at most two programs are kept: %lld evictions",
       (long long)counts_of(c).evictions);
    c = tn_compile(scale, &s);
    tn_tensor *x = tn_full(tn_dims(4, 4), -1.0), *first = NULL;
    for (int i = 0; i < 4; i++)
        tn_compiled_run(c, &x, 1, i == 2 ? &first : &y, 1);
    tn_compiled_run(c, (tn_tensor *[]){tn_full(tn_dims(4, 4), 3.0)}, 1, &y, 1);
    ok(tn_item(tn_sum(first)) == 32 && tn_item(tn_sum(y)) == 96,
       "a result that is held is not overwritten");
    const int64_t before = counts_of(c).captures;
    tn_compiled_run(c, (tn_tensor *[]){tn_transpose(x, 0, 1)}, 1, &y, 1);
    tn_compiled_run(c, (tn_tensor *[]){tn_to_dtype(x, TN_F64)}, 1, &y, 1);
    ok(counts_of(c).captures == before + 2 && !tn_error(),
       "other strides and another dtype are captured again");
    TN_RELAXED(true) tn_compiled_run(c, &x, 1, &y, 1);
    ok(counts_of(c).captures == before + 3 && !tn_error(),
       "and relaxed mode, too");
    /* The memory of the input is also reached through the context. */
    tn_tensor *state = tn_full(tn_dims(3), 1.0), *other = tn_full(tn_dims(3), 5.0);
    scaled aliased = {.number = 1, .state = state};
    c = tn_compile(scale, &aliased);
    for (int i = 0; i < 3; i++)
        tn_compiled_run(c, &state, 1, &y, 1);
    tn_compiled_run(c, &other, 1, &y, 1);
    ok(!tn_error() && tn_item(tn_select(state, 0, 0)) == 13 &&
           tn_item(tn_select(other, 0, 0)) == 5,
       "an input that is also in the context is told apart: %g",
       tn_item(tn_select(state, 0, 0)));
    for (int i = 0; i < 3; i++)
        tn_compiled_run(c, &other, 1, &y, 1);
    tn_compiled_run(c, (tn_tensor *[]){tn_full(tn_dims(3), 1.0)}, 1, &y, 1);
    ok(tn_compiled_run(c, &state, 1, &y, 1) < 0 &&
           has("also uses through its context and writes"),
       "later it is an error");
    /* A replay raises the version of what it writes. */
    tn_tensor *w = tn_requires_grad(tn_ones(tn_dims(3)));
    tn_tensor *product = tn_mul(w, state);
    tn_compiled_run(c, &other, 1, &y, 1);
    ok(tn_backward(tn_sum(product)) < 0 && has("changed"),
       "a backward pass notices that a replay has changed a saved value");
    tn_scope_close(scope);
}

/* ---- mistakes --------------------------------------------------------------- */

static tn_status reads(tn_tensor *const *in, int in_count, tn_tensor **out,
                       int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    out[0] = tn_mul_scalar(in[0], tn_item(tn_sum(in[0])));
    return TN_OK;
}

static tn_status forgets(tn_tensor *const *in, int in_count, tn_tensor **out,
                         int out_count, void *context)
{
    (void)in, (void)in_count, (void)out, (void)out_count, (void)context;
    return TN_OK;
}

static tn_status fails(tn_tensor *const *in, int in_count, tn_tensor **out,
                       int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    out[0] = tn_matmul(in[0], in[0]);
    return out[0] ? TN_OK : tn_error_code();
}

static int counter;

static tn_status alternates(tn_tensor *const *in, int in_count, tn_tensor **out,
                            int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    out[0] = counter++ % 2 ? tn_abs(in[0]) : tn_neg(in[0]);
    return TN_OK;
}

/* Two tensors over the same memory of the program. */
static void check_wrapped(void)
{
    static float memory[4] = {1, 2, 3, 4};
    tn_scope *scope = tn_scope_open();
    scaled s = {.number = 2};
    tn_tensor *in[2], *y = NULL;
    for (int i = 0; i < 2; i++)
        in[i] = tn_tensor_wrap(memory, TN_F32, tn_dims(4), NULL, NULL);
    if (!in[0]) {
        skip(1, "the device cannot use memory of the program");
        tn_error_clear();
        tn_scope_close(scope);
        return;
    }
    s.state = in[1];
    tn_compiled_run(tn_compile(scale, &s), in, 1, &y, 1);
    ok(!y && has("wrap the same memory"), "memory that is wrapped twice");
    tn_scope_close(scope);
}

static void check_mistakes(void)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_ones(tn_dims(2, 3)), *y = NULL;
    tn_compiled_run(tn_compile(reads, NULL), &x, 1, &y, 1);
    ok(has("is being recorded"), "a number that the host reads is an error");
    tn_compiled_run(tn_compile(forgets, NULL), &x, 1, &y, 1);
    ok(has("has not set out[0]"), "a missing output is an error");
    tn_compiled *c = tn_compile(fails, NULL);
    ok(tn_compiled_run(c, &x, 1, &y, 1) < 0 && !y && has("matmul"),
       "the function's error is passed on");
    tn_compiled_run(c, (tn_tensor *[]){tn_ones(tn_dims(2, 2))}, 1, &y, 1);
    ok(y && !tn_error(), "the next call works");
    c = tn_compile(alternates, NULL);
    for (int i = 0; i < 8 && !tn_error(); i++)
        tn_compiled_run(c, &x, 1, &y, 1);
    ok(has("did different work"), "a function that alternates is an error");
    tn_requires_grad(x);
    tn_compiled_run(tn_compile(scale, &(scaled){.number = 1}), &x, 1, &y, 1);
    ok(has("requires a gradient"), "an input that requires a gradient");
    ok(!tn_compile(NULL, NULL) && has("fn is NULL"), "fn is NULL");
    ok(!tn_compile(scale, NULL, .plans = 0) && has("plans is 0"), "no plan");
    c = tn_compile(scale, &(scaled){.number = 1});
    ok(!tn_compiled_text(c) && has("no program exists yet"), "no text yet");
    tn_compiled_run(c, &x, 65, &y, 1);
    ok(has("expected 0 to 64"), "too many inputs");
    tn_compiled_run(c, (tn_tensor *[]){NULL}, 1, &y, 1);
    ok(has("in[0]"), "an input is NULL");
    tn_scope_close(scope);
}

/* ---- checks ---------------------------------------------------------------- */

static void check_checks(void)
{
    tn_scope *scope = tn_scope_open();
    scaled s = {.number = 2, .state = tn_zeros(tn_dims(3))};
    tn_compiled *c = tn_compile(scale, &s, .check_every = 2);
    tn_tensor *x = tn_full(tn_dims(3), -1.0), *y = NULL;
    for (int i = 0; i < 8; i++)
        tn_compiled_run(c, &x, 1, &y, 1);
    ok(!tn_error() && counts_of(c).checks == 3 &&
           tn_item(tn_select(s.state, 0, 0)) == 16,
       "each second replay is compared with the function: %lld",
       (long long)counts_of(c).checks);
    s.number = 4; /* the program does not see it */
    tn_compiled_run(c, &x, 1, &y, 1);
    tn_compiled_run(c, &x, 1, &y, 1);
    ok(has("the function now does other work"), "a check finds a stale number");
    tn_compiled_reset(c);
    tn_compiled_run(c, &x, 1, &y, 1);
    ok(y && tn_item(tn_select(y, 0, 0)) == 4, "after a reset it is right");
    tn_scope_close(scope);
}

/* ---- donated inputs ------------------------------------------------------------ */

/* The new state is computed element by element. */
static tn_status moves_on(tn_tensor *const *in, int in_count, tn_tensor **out,
                          int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    out[0] = tn_tanh(tn_add(tn_mul_scalar(in[0], 0.5), in[1]));
    return TN_OK;
}

/* The new state is computed after the last use of the old one. */
static tn_status projects(tn_tensor *const *in, int in_count, tn_tensor **out,
                          int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *x = tn_matmul(in[0], in[1]);
    out[0] = tn_mul_scalar(tn_matmul(x, in[1]), 0.01);
    return TN_OK;
}

/* Each element of the new state depends on all of a row of the old one. */
static tn_status mixes(tn_tensor *const *in, int in_count, tn_tensor **out,
                       int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    out[0] = tn_matmul(in[0], in[1]);
    return TN_OK;
}

/* The launch that makes the new state also writes the old one. */
static tn_status uses_twice(tn_tensor *const *in, int in_count,
                            tn_tensor **out, int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    out[0] = tn_tanh(tn_mul(in[0], in[1]));
    tn_sub_(in[0], in[1]);
    return TN_OK;
}

static void check_donated(const char *name, tn_compile_fn fn, bool reuses,
                          int check_every)
{
    tn_scope *scope = tn_scope_open();
    tn_compiled *c = tn_compile(fn, NULL, .donate = 1,
                                .check_every = check_every);
    tn_tensor *x = tn_randn(tn_dims(16, 16));
    tn_tensor *want = tn_randn(tn_dims(16, 16)), *got = tn_clone(want);
    bool same = true, refused = true;
    TN_NO_GRAD
        for (int call = 0; call < 7 && same && refused; call++) {
            tn_tensor *old = got;
            fn((tn_tensor *[]){want, x}, 2, &want, 1, NULL);
            tn_compiled_run(c, (tn_tensor *[]){got, x}, 2, &got, 1);
            same = !tn_error() && same_bits(want, got);
            refused = same && !tn_add(old, x) && tn_error() &&
                      strstr(tn_error(), "add: input is a tensor that was "
                                         "donated to a compiled function");
            if (same && !refused)
                printf("# %s\n", tn_error() ? tn_error() : "not refused");
            tn_error_clear();
        }
    ok(same, "%s: a state that is donated seven times%s", name,
       check_every ? ", with check_every" : "");
    ok(refused, "%s: its old tensors are rejected", name);
    const char *text = tn_compiled_text(c);
    ok(text && !strstr(text, "out[0] in the memory of in[0]") == !reuses,
       "%s: the new state is %sin the memory of the old one", name,
       reuses ? "" : "not ");
    tn_error_clear();
    tn_scope_close(scope);
}

/* One launch stores two results of its input. */
static tn_status copies_and_clips(tn_tensor *const *in, int in_count,
                                  tn_tensor **out, int out_count,
                                  void *context)
{
    (void)in_count, (void)out_count, (void)context;
    out[0] = tn_cat((tn_tensor *[]){in[0], in[0]}, 2, 0);
    out[1] = tn_relu(in[0]);
    return TN_OK;
}

/* Makes a tensor with the elements of x, which nothing else uses. With `last` it is
 * the end of larger memory, so that no result can be stored in it. */
static tn_tensor *own_copy(tn_tensor *x, bool last)
{
    if (!last)
        return tn_clone(x);
    tn_scope *scope = tn_scope_open();
    const int64_t rows = tn_tensor_size(x, 0);
    tn_tensor *both = tn_cat((tn_tensor *[]){x, x}, 2, 0);
    return tn_scope_result(scope, tn_slice(both, 0, rows, 2 * rows, 1));
}

/* Whether a result is in donated memory can change from call to call. */
static void check_other_memory(uint64_t donate, const char *name)
{
    tn_scope *scope = tn_scope_open();
    tn_compiled *c = tn_compile(copies_and_clips, NULL, .donate = donate);
    bool same = true;
    TN_NO_GRAD
        for (int call = 0; call < 9 && same; call++) {
            tn_tensor *x = tn_randn(tn_dims(5, 7));
            tn_tensor *own = own_copy(x, call & 1);
            tn_tensor *want[2], *got[2];
            copies_and_clips(&x, 1, want, 2, NULL);
            tn_compiled_run(c, &own, 1, got, 2);
            same = !tn_error() && same_bits(want[0], got[0]) &&
                   same_bits(want[1], got[1]);
        }
    ok(same && counts_of(c).replays > 2,
       "%s whose memory is larger in some calls: %s", name,
       tn_error() ? tn_error() : same ? "" : "other bits");
    tn_error_clear();
    tn_scope_close(scope);
}

static void check_donation(void)
{
    check_other_memory(0, "an input");
    check_other_memory(1, "a donated input");
    check_donated("element by element", moves_on, true, 0);
    check_donated("element by element", moves_on, true, 2);
    check_donated("after the last use", projects, true, 0);
    check_donated("a product", mixes, false, 0);
    check_donated("a state that is written", uses_twice, false, 0);
    tn_scope *scope = tn_scope_open();
    tn_compiled *c = tn_compile(moves_on, NULL, .donate = 3);
    tn_tensor *x = tn_ones(tn_dims(4)), *y = tn_ones(tn_dims(4)), *out = NULL;
    tn_tensor *view = tn_reshape(x, tn_dims(2, 2));
    TN_NO_GRAD
    {
        ok(tn_compiled_run(c, (tn_tensor *[]){x, y}, 2, &out, 1) ==
                   TN_ERR_STATE &&
               strstr(tn_error(), "in[0] is donated, but other tensors use"),
           "a tensor with a view is not donated: %s",
           tn_error() ? tn_error() : "");
        tn_error_clear();
        ok(tn_compiled_run(c, (tn_tensor *[]){y, y}, 2, &out, 1) ==
               TN_ERR_STATE,
           "one tensor is not donated twice");
        tn_error_clear();
        ok(tn_item(tn_sum(x)) == 4 && tn_item(tn_sum(view)) == 4,
           "a tensor that is rejected stays as it is");
    }
    tn_scope_close(scope);
}

int main(void)
{
    plan_later();
    check_functions();
    check_gradients();
    check_numbers();
    check_guards();
    check_mistakes();
    check_wrapped();
    check_checks();
    check_donation();
    return done_testing();
}
