/* Tests functions whose saved values are recomputed (activation checkpointing):
 * results and gradients are bit-identical to those without recomputation, less
 * memory is used, and errors in the second run are reported. */
#include <base/memory.h>
#include <tenon/hook.h>
#include <tenon/ops.h>
#include <tenon/random.h>
#include <tenon/recompute.h>
#include "same_bits.h"
#include "tap.h"

enum { N = 64 };

static tn_tensor *leaf(uint64_t seed)
{
    tn_manual_seed(seed);
    return tn_requires_grad(tn_randn(tn_dims(N, N)));
}

/* Checks that the pending error has this code and this message, then
 * clears it. */
static void is_error(tn_status code, const char *text, const char *fact)
{
    is_int(tn_error_code(), code, "%s: %s", fact, tn_status_name(code));
    is_str(tn_error(), text, "%s: the message", fact);
    tn_error_clear();
}

/* ---- recomputed functions ------------------------------------------------ */

struct block {
    tn_tensor *w; /* a parameter, which is not an input of the function */
    int runs, released;
    int nested;   /* number of recomputed blocks nested inside this one */
    bool plain;   /* the nested blocks are called directly, not recomputed */
    int more;     /* number of additional operators in every run but the
                   * first */
    bool fail;    /* whether the second run fails */
};

static void released(void *block)
{
    ((struct block *)block)->released++;
}

/* Computes out0 = tanh(dropout(in0) w) + in1 and out1 = sin(out0) in1. */
static tn_status run_block(tn_tensor *const *in, int count, tn_tensor **out,
                           int out_count, void *context)
{
    struct block *block = context;
    (void)count;
    block->runs++;
    tn_tensor *h = tn_dropout(in[0], 0.3, true);
    if (block->nested) {
        struct block *inner = block + 1;
        tn_tensor *both[2] = {NULL};
        if (block->plain)
            run_block((tn_tensor *[]){h, in[1]}, 2, both, 2, inner);
        else
            tn_recompute(run_block, inner, ((tn_tensor *[]){h, in[1]}), 2,
                         both, 2, .release = released);
        h = tn_mul(both[0], both[1]);
    }
    out[0] = tn_add(tn_tanh(tn_matmul(h, block->w)), in[1]);
    for (int i = 0; i < block->more && block->runs > 1; i++)
        out[0] = tn_exp(out[0]);
    if (block->fail && block->runs > 1)
        out[0] = tn_reshape(out[0], tn_dims(3));
    if (out_count > 1)
        out[1] = tn_mul(tn_sin(out[0]), in[1]);
    return out[0] ? TN_OK : tn_error_code();
}

/* Returns a loss of `layers` blocks in sequence. */
static tn_tensor *model(struct block *block, int layers, tn_tensor *x,
                        bool recompute)
{
    tn_manual_seed(7);
    tn_tensor *h[2] = {x, x};
    for (int i = 0; i < layers; i++) {
        tn_tensor *next[2] = {NULL};
        block->plain = !recompute;
        if (recompute)
            tn_recompute(run_block, block, h, 2, next, 2,
                         .release = released);
        else
            run_block(h, 2, next, 2, block);
        h[0] = next[0];
        h[1] = next[1];
    }
    return tn_sum(tn_add(h[0], h[1]));
}

/* ---- the same bits ------------------------------------------------------- */

/* Compares results and gradients with those without recomputation, for blocks
 * nested to this depth. */
static void test_bits(int nested)
{
    tn_tensor *x = leaf(1), *w = leaf(2), *gx[2], *gw[2];
    tn_rng_state after[2];
    struct block block[4] = {{.w = w}};
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < 4; i++)
            block[i] = (struct block){.w = w, .nested = nested - i,
                                      .plain = !again};
        tn_scope *scope = tn_scope_open();
        tn_tensor *loss = model(block, 3, x, again);
        after[again] = tn_rng_snapshot();
        is_int(block->runs, 3, "%d nested: each block ran once", nested);
        is_int(tn_backward(loss), TN_OK, "backward%s%s",
               tn_error() ? ": " : "", tn_error() ? tn_error() : "");
        after[again].call += tn_rng_snapshot().call - after[again].call;
        tn_scope_close(scope);
        gx[again] = tn_clone(tn_tensor_grad(x));
        gw[again] = tn_clone(tn_tensor_grad(w));
        tn_tensor_set_grad(x, NULL);
        tn_tensor_set_grad(w, NULL);
    }
    is_int(block->runs, 6, "and once more for the gradient");
    is_int(block->released, 3, "each context is released once");
    ok(same_bits(gx[0], gx[1]), "the input's gradient has the same bits");
    ok(same_bits(gw[0], gw[1]), "and that of a parameter");
    ok(after[0].call == after[1].call,
       "the generator has the same state as without");
    if (nested)
        ok(block[1].runs > 6, "the function ran more often (%d times)",
           block[1].runs);
}

static void test_modes(void)
{
    tn_tensor *x = leaf(1), *w = leaf(2), *y = NULL, *g[2] = {NULL};
    struct block block = {.w = w};
    TN_NO_GRAD
    {
        tn_recompute(run_block, &block, ((tn_tensor *[]){x, x}), 2, &y, 1,
                     .release = released);
    }
    ok(!tn_tensor_requires_grad(y), "nothing is recorded under TN_NO_GRAD");
    is_int(block.released, 1, "and the context is released at once");

    tn_tensor *plain = tn_randn(tn_dims(N, N));
    tn_recompute(run_block, &block, ((tn_tensor *[]){plain, plain}), 2, &y, 1);
    ok(tn_tensor_requires_grad(y), "a parameter alone asks for a gradient");
    is_int(tn_backward(tn_sum(y)), TN_OK, "and gets it");
    ok(tn_tensor_grad(w), "the parameter has a gradient");

    struct block twice = {.w = w};
    tn_tensor *loss[2] = {model(&(struct block){.w = w}, 2, x, false),
                          model(&twice, 2, x, true)};
    tn_tensor *second[2];
    for (int i = 0; i < 2; i++) {
        is_int(tn_grad(loss[i], &x, 1, &g[i], .create_graph = true), TN_OK,
               "tn_grad with create_graph");
        tn_grad(tn_sum(tn_square(g[i])), &w, 1, &second[i]);
    }
    ok(same_bits(g[0], g[1]), "tn_grad gives the same bits");
    ok(same_bits(second[0], second[1]), "and so does its own gradient");
    is_int(twice.runs, 4, "for which nothing runs a third time");

    struct block kept = {.w = w};
    tn_tensor *last = model(&kept, 1, x, true);
    tn_backward(last, .retain_graph = true);
    is_int(tn_backward(last), TN_OK, "a graph that is retained serves twice");
    is_int(kept.runs, 2, "with the values that it has by then");
    ok(tn_backward(last) < 0, "but not a third time");
    is_error(TN_ERR_STATE,
             "backward: the graph of mul was freed by an earlier backward: "
             "pass .retain_graph = true to that one",
             "a graph that was freed");
}

/* ---- less memory --------------------------------------------------------- */

static int64_t held(bool recompute, int64_t *walking)
{
    tn_tensor *x = leaf(1), *w = leaf(2);
    struct block block = {.w = w};
    tn_memory_stats stats = {.size = sizeof stats};
    tn_memory(NULL, &stats);
    int64_t before = stats.allocated_bytes;
    tn_scope *scope = tn_scope_open();
    tn_scope *inner = tn_scope_open();
    tn_tensor *loss =
        tn_scope_result(inner, model(&block, 10, x, recompute));
    tn_memory(NULL, &stats);
    int64_t bytes = stats.allocated_bytes - before;
    tn_memory_reset_peak(NULL);
    tn_backward(loss);
    tn_memory(NULL, &stats);
    *walking = stats.peak_bytes - before;
    tn_scope_close(scope);
    return bytes;
}

/* ---- errors -------------------------------------------------------------- */

static tn_status walk_inside(tn_tensor *const *in, int count, tn_tensor **out,
                             int out_count, void *context)
{
    (void)count, (void)out_count, (void)context;
    tn_tensor *g = NULL;
    out[0] = tn_exp(in[0]);
    tn_status status = tn_grad(tn_sum(out[0]), in, 1, &g);
    out[0] = tn_mul(out[0], g);
    return status;
}

static tn_status nothing(tn_tensor *const *in, int count, tn_tensor **out,
                         int out_count, void *context)
{
    (void)in, (void)count, (void)out, (void)out_count, (void)context;
    return TN_OK;
}

/* In the second run the result has another dtype (context 1) or another shape
 * (context 2). */
static tn_status turncoat(tn_tensor *const *in, int count, tn_tensor **out,
                          int out_count, void *context)
{
    int *kind = context;
    (void)count, (void)out_count;
    tn_tensor *x = in[0];
    if (*kind > 2)
        x = *kind == 3 ? tn_to_dtype(x, TN_F16) : tn_narrow(x, 0, 0, 3);
    *kind += 2;
    out[0] = tn_square(x);
    return out[0] ? TN_OK : tn_error_code();
}

static void test_turncoats(void)
{
    static const char *const words[] = {
        "(64, 64) float16 on ", "(3, 64) float32 on "};
    for (int i = 0; i < 2; i++) {
        int kind = i + 1;
        tn_tensor *x = leaf(1), *y = NULL;
        tn_recompute(turncoat, &kind, &x, 1, &y, 1);
        ok(tn_backward(tn_sum(y)) < 0, "other values are noticed");
        is_int(tn_error_code(), TN_ERR_STATE, "by their dtype or shape");
        ok(tn_error() && strstr(tn_error(), words[i]) &&
               strstr(tn_error(), "(64, 64) float32 on ") &&
               strstr(tn_error(), "the same each time"),
           "which are reported");
        note("%s", tn_error() ? tn_error() : "no error");
        tn_error_clear();
        ok(!tn_tensor_grad(x), "and there is no gradient");
    }
}

static void test_mistakes(void)
{
    tn_tensor *x = leaf(1), *w = leaf(2), *y = NULL;
    struct block longer = {.w = w, .more = 1};
    tn_tensor *loss = model(&longer, 1, x, true);
    ok(tn_backward(loss) < 0, "a function that does something else is noticed");
    is_error(TN_ERR_STATE,
             "backward of mul: recompute: the function saved 7 values when it ran again, 6 the "
             "first time: it must do the same each time",
             "another run");
    ok(!tn_tensor_grad(x) && !tn_tensor_grad(w), "and no leaf has a gradient");

    struct block failing = {.w = w, .fail = true};
    loss = model(&failing, 1, x, true);
    ok(tn_backward(loss) < 0, "a function that fails is reported");
    const tn_error_details *e = tn_error_info();
    is_str(e && e->op ? e->op : "", "reshape", "and the operator that did");
    is_str(e && e->argument ? e->argument : "", "shape", "its argument");
    is_int(e ? e->tensor_count : 0, 1, "its tensors");
    is_error(TN_ERR_SHAPE,
             "backward of mul: recompute: when the function ran again for the "
             "gradient: reshape: shape (64, 64) with 4096 elements does not "
             "fit shape (3,)",
             "a second run that fails");

    struct block changed = {.w = w};
    tn_tensor *in = tn_mul_scalar(x, 1);
    tn_recompute(run_block, &changed, ((tn_tensor *[]){in, x}), 2, &y, 1);
    TN_NO_GRAD { tn_mul_scalar_(in, 2); }
    ok(tn_backward(tn_sum(y)) < 0, "an input that was changed is noticed");
    is_error(TN_ERR_STATE,
             "backward: a value that recompute saved for its gradient was "
             "changed in place since by mul_ (version 1, saved at 0): change a "
             "tn_clone() of it instead",
             "an input that was changed");

    ok(tn_recompute(walk_inside, NULL, &x, 1, &y, 1) < 0,
       "no gradient is taken inside");
    is_error(TN_ERR_STATE,
             "backward of exp: recompute: the function differentiates one of "
             "its values before it has returned",
             "a gradient inside");
    ok(tn_recompute(nothing, NULL, &x, 1, &y, 1) < 0, "an output is wanted");
    is_error(TN_ERR_ARGUMENT, "recompute: the function left output 0 NULL",
             "no output");
    tn_tensor *null = NULL;
    ok(tn_recompute(nothing, NULL, &null, 1, &y, 1) < 0, "an input is NULL");
    is_error(TN_ERR_ARGUMENT, "recompute: inputs[0] is NULL", "no input");
    ok(tn_recompute(NULL, NULL, &x, 1, &y, 1) < 0, "no function");
    is_error(TN_ERR_ARGUMENT, "recompute: fn is NULL", "no function");
    ok(tn_recompute(nothing, NULL, &x, 1, &y, 0) < 0, "no output requested");
    is_error(TN_ERR_ARGUMENT,
             "recompute: 1 inputs and 0 outputs are given; expected at least 0 "
             "and 1",
             "no output asked for");
}

/* ---- failing allocations ------------------------------------------------- */

static void test_failing_memory(void)
{
    tn_tensor *x = leaf(1), *w = leaf(2);
    struct block whole[2] = {{.w = w, .nested = 1}, {.w = w}};
    tn_backward(model(whole, 2, x, true));
    tn_tensor *right = tn_clone(tn_tensor_grad(w));
    tn_tensor_set_grad(x, NULL);
    tn_tensor_set_grad(w, NULL);
    int failures = 0, wrong = 0;
    for (int n = 1; n < 3000; n++) {
        struct block block[2] = {{.w = w, .nested = 1}, {.w = w}};
        int64_t before = tn__memory_count();
        tn__memory_fail_at(n);
        tn_scope *scope = tn_scope_open();
        tn_backward(model(block, 2, x, true));
        tn_scope_close(scope);
        bool reached = tn__memory_count() - before >= n || tn_error();
        tn__memory_fail_at(0);
        /* The device's allocator may free cached memory and succeed. */
        wrong += tn_error() ? tn_error_code() != TN_ERR_MEMORY
                            : !same_bits(tn_tensor_grad(w), right);
        tn_error_clear();
        tn_tensor_set_grad(x, NULL);
        tn_tensor_set_grad(w, NULL);
        if (!reached)
            break;
        failures++;
    }
    ok(failures > 0, "%d allocations were made to fail", failures);
    is_int(wrong, 0, "each gave an error or the right gradient");
}

int main(void)
{
    plan_later();
    for (int nested = 0; nested < 3; nested++)
        test_bits(nested);
    test_modes();
    int64_t peak[2], bytes[2] = {held(false, &peak[0]), held(true, &peak[1])};
    ok(bytes[1] < bytes[0] / 2, "between the passes less is held: %" PRId64
       " bytes instead of %" PRId64, bytes[1], bytes[0]);
    ok(peak[1] < peak[0], "and while walking: %" PRId64 " instead of %" PRId64,
       peak[1], peak[0]);
    test_mistakes();
    test_turncoats();
    test_failing_memory();
    return done_testing();
}
