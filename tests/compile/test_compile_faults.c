/* Each allocation of a compiled function made to fail in turn: in the captures and
 * when the program is made. A replay allocates nothing. */
#include "../fault_sweep.h"

static tn_status block(tn_tensor *const *in, int in_count, tn_tensor **out,
                       int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *h = tn_gelu(tn_matmul(in[0], in[1]));
    out[0] = tn_softmax(tn_add(h, in[0]), -1);
    out[1] = tn_transpose(tn_mul(h, h), 0, 1);
    return TN_OK;
}

/* Two captures and two replays, from nothing. */
static bool run_all(void)
{
    tn_compiled *c = tn_compile(block, NULL);
    tn_tensor *in[2] = {tn_ones(tn_dims(5, 5)), tn_ones(tn_dims(5, 5))};
    tn_tensor *out[2];
    bool done = c && in[0] && in[1];
    for (int i = 0; i < 4 && done; i++)
        TN_NO_GRAD
            done = tn_compiled_run(c, in, 2, out, 2) >= 0;
    return done;
}

/* exp(w) is a constant, which the device may prepare. */
static tn_status filter(tn_tensor *const *in, int in_count, tn_tensor **out,
                        int out_count, void *context)
{
    tn_tensor *w = context;
    (void)in_count, (void)out_count;
    out[0] = tn_relu(tn_conv2d(in[0], tn_exp(w), NULL));
    return out[0] ? TN_OK : tn_error_code();
}

static bool run_frozen(void)
{
    tn_tensor *x = tn_ones(tn_dims(1, 16, 9, 9)), *out;
    tn_tensor *w = tn_ones(tn_dims(16, 16, 2, 2));
    tn_compiled *c = tn_compile(filter, w, .freeze = true);
    bool done = c && x && w;
    for (int i = 0; i < 4 && done; i++)
        done = tn_compiled_run(c, &x, 1, &out, 1) >= 0;
    return done;
}

static tn_compiled *ready;

static bool replay(void)
{
    tn_tensor *in[2] = {tn_ones(tn_dims(5, 5)), tn_ones(tn_dims(5, 5))};
    tn_tensor *out[2];
    bool done = in[0] && in[1];
    TN_NO_GRAD
        done = done && tn_compiled_run(ready, in, 2, out, 2) >= 0;
    return done;
}

int main(void)
{
    plan_later();
    if (!MALLOC_FAULTS) {
        skip(1, "malloc cannot be made to fail here");
        return done_testing();
    }
    tn_set_num_threads(1);
    fails_in_turn(run_all, "capture");
    fails_in_turn(run_frozen, "frozen");
    TN_SCOPE (scope) {
        ready = tn_compile(block, NULL);
        for (int i = 0; i < 3; i++)
            replay();
        /* the first replays fill the free lists of tensors */
        int64_t before = 0;
        bool done = true;
        for (int i = 0; i < 200; i++) {
            before = i == 100 ? malloc_count() : before;
            TN_SCOPE (inner)
                done = replay() && done;
        }
        is_int(malloc_count() - before, 0, "a warm replay does not call malloc");
        tn_compiled_counts counts = {.size = sizeof counts};
        tn_compiled_read_counts(ready, &counts);
        ok(done && counts.replays == 201, "each of these calls was a replay");
    }
    return done_testing();
}
