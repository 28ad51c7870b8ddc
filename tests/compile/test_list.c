/* Lists of launches: launches of one program over several sets of operands become
 * one call of the device, with the same bits. */
#include <tenon/tenon.h>

#include "../tap.h"
#include "compiled.h"

enum { PARTS = 24 };

typedef struct state {
    tn_tensor *p[PARTS], *g[PARTS], *m[PARTS];
    double rate;
    bool dependent; /* part i also reads part i - 1, which was just written */
} state;

/* Sizes from no element to several tasks of a thread. */
static void state_make(state *s)
{
    static const int64_t size[] = {5, 0, 1, 64, 1000, 4096, 70001, 200000};
    s->rate = 0.125;
    for (int i = 0; i < PARTS; i++) {
        const int64_t n = size[i % 8] * (i < 16 ? 1 : 3);
        s->p[i] = tn_randn(tn_dims(n));
        s->g[i] = tn_randn(tn_dims(n));
        s->m[i] = tn_zeros(tn_dims(n));
    }
}

static void state_copy(state *to, const state *from)
{
    to->rate = from->rate;
    for (int i = 0; i < PARTS; i++) {
        to->p[i] = tn_clone(from->p[i]);
        to->g[i] = tn_clone(from->g[i]);
        to->m[i] = tn_clone(from->m[i]);
    }
}

static tn_status update(tn_tensor *const *in, int in_count, tn_tensor **out,
                        int out_count, void *context)
{
    state *s = context;
    (void)in_count, (void)out_count;
    for (int i = 0; i < PARTS; i++) {
        tn_tensor *g = s->g[i];
        if (s->dependent && i > 0)
            g = tn_mul(g, tn_tanh(tn_sum(s->p[i - 1])));
        tn_mul_scalar_(s->m[i], 0.5);
        tn_add_(s->m[i], g);
        tn_sub_(s->p[i], tn_mul_scalar(tn_tanh(s->m[i]),
                                       tn_late_number(&s->rate)));
    }
    out[0] = tn_add_scalar(in[0], 1);
    return tn_error_code();
}

/* tn_equal is 1 for equal tensors. */
static bool same_values(tn_tensor *const *x, tn_tensor *const *y)
{
    for (int i = 0; i < PARTS; i++)
        if (tn_item(tn_equal(x[i], y[i])) == 0)
            return false;
    return true;
}

/* Runs the function and its compiled form on equal states, eight times; from the
 * sixth on without the extension. */
static void check_update(bool dependent)
{
    tn_scope *scope = tn_scope_open();
    state plain, replayed;
    state_make(&plain);
    state_copy(&replayed, &plain);
    plain.dependent = replayed.dependent = dependent;
    tn_tensor *x = tn_zeros(tn_dims(3)), *y;
    tn_compiled *c = tn_compile(update, &replayed);
    bool same = true;
    TN_NO_GRAD for (int round = 0; round < 8 && same; round++) {
        plain.rate = replayed.rate = 1.0 / (round + 1);
        if (round == 5)
            tn_device_mask(NULL, "launch-list");
        tn_compiled_run(c, &x, 1, &y, 1);
        update(&x, 1, &y, 1, &plain);
        same = same_values(plain.p, replayed.p) &&
               same_values(plain.m, replayed.m) && !tn_error();
    }
    tn_device_mask(NULL, NULL);
    const tn_compiled_counts n = counts_of(c);
    ok(same, "%d %s updates: the same bits%s%s", PARTS,
       dependent ? "dependent" : "independent", tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    if (!dependent) {
        const char *text = tn_compiled_text(c);
        ok(text && strstr(text, "list of the launches"),
           "the report names the list");
        if (tn_device_has_extension(tn_device_current(), "launch-list"))
            ok(n.launches <= 3, "%lld recorded calls are %lld per replay",
               (long long)n.recorded, (long long)n.launches);
    }
    tn_error_clear();
    tn_scope_close(scope);
}

/* ---- faults ---------------------------------------------------------------- */

typedef struct gather {
    tn_tensor *table[PARTS], *index[PARTS], *to[PARTS];
} gather;

static tn_status gathers(tn_tensor *const *in, int in_count, tn_tensor **out,
                         int out_count, void *context)
{
    gather *s = context;
    (void)in_count, (void)out_count;
    for (int i = 0; i < PARTS; i++)
        tn_copy_(s->to[i], tn_mul_scalar(tn_index_select(s->table[i], 0,
                                                         s->index[i]), 2));
    out[0] = tn_add_scalar(in[0], 1);
    return tn_error_code();
}

static void check_faults(void)
{
    tn_scope *scope = tn_scope_open();
    gather s;
    for (int i = 0; i < PARTS; i++) {
        s.table[i] = tn_randn(tn_dims(7));
        s.index[i] = tn_full(tn_dims(5), i % 7, .dtype = TN_I64);
        s.to[i] = tn_zeros(tn_dims(5));
    }
    tn_tensor *x = tn_zeros(tn_dims(3)), *y;
    tn_compiled *c = tn_compile(gathers, &s);
    TN_NO_GRAD for (int round = 0; round < 3; round++)
        tn_compiled_run(c, &x, 1, &y, 1);
    ok(!tn_error() && counts_of(c).replays == 1, "a replay without a fault");
    tn_fill_scalar_(s.index[11], 9);
    TN_NO_GRAD tn_compiled_run(c, &x, 1, &y, 1);
    tn_device_synchronize(NULL);
    ok(tn_error_code() == TN_ERR_INDEX && strstr(tn_error(), "index 9"),
       "a fault of one launch is an error: %s", tn_error());
    tn_error_clear();
    tn_fill_scalar_(s.index[11], 3);
    TN_NO_GRAD tn_compiled_run(c, &x, 1, &y, 1);
    ok(tn_device_synchronize(NULL) >= 0 && !tn_error() &&
           tn_item(tn_select(s.to[11], 0, 4)) ==
               2 * tn_item(tn_select(s.table[11], 0, 3)),
       "the next replay is right");
    tn_error_clear();
    tn_scope_close(scope);
}

int main(void)
{
    plan_later();
    tn_manual_seed(7);
    check_update(false);
    check_update(true);
    check_faults();
    return done_testing();
}
