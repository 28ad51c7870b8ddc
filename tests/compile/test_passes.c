/* The passes of a compiled function: what they remove, move and compute again, and
 * that the bits stay those of the function. */
#include <tenon/tenon.h>

#include "../tap.h"
#include "compiled.h"

static bool text_has(tn_compiled *c, const char *part)
{
    const char *text = tn_compiled_text(c);
    if (text && strstr(text, part))
        return true;
    printf("# no \"%s\" in:\n%s\n", part, text ? text : tn_error());
    return false;
}

/* Runs fn and its compiled form four times with equal new inputs. Returns whether
 * the first outputs have the same bits. */
static bool runs_alike(tn_compiled *c, tn_compile_fn fn, void *context,
                       int64_t rows, int64_t columns)
{
    bool same = true;
    for (int call = 0; call < 4 && same && !tn_error(); call++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *in[2] = {tn_randn(tn_dims(rows, columns)),
                            tn_randn(tn_dims(rows, columns))};
        tn_tensor *want = NULL, *got = NULL;
        TN_NO_GRAD {
            const tn_rng_state random = tn_rng_snapshot();
            fn(in, 2, &want, 1, context);
            tn_rng_restore(random);
            tn_compiled_run(c, in, 2, &got, 1);
        }
        same = !tn_error() && same_bits(want, got);
        tn_scope_close(scope);
    }
    if (tn_error())
        printf("# %s\n", tn_error());
    return same && !tn_error();
}

/* ---- repeated steps --------------------------------------------------------- */

static tn_status repeats(tn_tensor *const *in, int in_count, tn_tensor **out,
                         int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *x = tn_matmul(in[0], tn_t(in[1]));
    tn_tensor *y = tn_matmul(in[0], tn_t(in[1]));
    out[0] = tn_add(tn_softmax(x, -1), tn_exp(y));
    return TN_OK;
}

/* The operand changes between the two products. */
static tn_status changes(tn_tensor *const *in, int in_count, tn_tensor **out,
                         int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *a = tn_add_scalar(in[0], 1);
    tn_tensor *x = tn_matmul(a, tn_t(in[1]));
    tn_mul_(a, in[1]);
    out[0] = tn_sub(tn_matmul(a, tn_t(in[1])), x);
    return TN_OK;
}

static void check_repeats(void)
{
    tn_compiled *c = tn_compile(repeats, NULL);
    ok(runs_alike(c, repeats, NULL, 8, 16), "a product that is computed twice");
    ok(counts_of(c).launches <= 2, "it is one product, with at most one launch");
    ok(text_has(c, "1 repeated calls"), "the report counts it");
    c = tn_compile(changes, NULL);
    ok(runs_alike(c, changes, NULL, 8, 16),
       "products of an operand that changes in between are different");
    ok(counts_of(c).launches >= 4, "both are computed");
}

/* ---- copies ------------------------------------------------------------------ */

static tn_status joins(tn_tensor *const *in, int in_count, tn_tensor **out,
                       int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *part[2] = {tn_matmul(in[0], tn_t(in[1])),
                          tn_matmul(in[1], tn_t(in[0]))};
    out[0] = tn_cat(part, 2, 0);
    return TN_OK;
}

/* The source of the copy is written after the copy. */
static tn_status keeps(tn_tensor *const *in, int in_count, tn_tensor **out,
                       int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *x = tn_matmul(in[0], tn_t(in[1]));
    tn_tensor *copy = tn_clone(x);
    tn_add_(x, copy);
    out[0] = tn_matmul(x, copy);
    return TN_OK;
}

static void check_copies(void)
{
    tn_compiled *c = tn_compile(joins, NULL);
    ok(runs_alike(c, joins, NULL, 8, 16), "products that are concatenated");
    is_int(counts_of(c).launches, 2, "they are written to their places");
    ok(text_has(c, "2 copies"), "the report counts the copies");
    c = tn_compile(keeps, NULL);
    ok(runs_alike(c, keeps, NULL, 8, 16),
       "a copy of a tensor that is written later is a copy");
}

/* ---- fills -------------------------------------------------------------------- */

/* The gradient of a tensor of which *context slices are used: the first one is
 * copied, the others are added to zeros. The rows of the parts are interleaved. */
static tn_status slices(tn_tensor *const *in, int in_count, tn_tensor **out,
                        int out_count, void *context)
{
    (void)in_count, (void)out_count;
    const int64_t size = tn_tensor_size(in[0], 1) / 4;
    tn_tensor *whole = tn_zeros_like(in[0]);
    for (int64_t i = 0; i < *(int64_t *)context; i++) {
        tn_tensor *part = tn_slice(whole, 1, i * size, (i + 1) * size, 1);
        tn_tensor *x = tn_slice(i % 2 ? in[0] : in[1], 1, 0, size, 1);
        /* Where x is below zero this is -0, and its sum with 0 is 0. */
        x = tn_mul_scalar(x, 0);
        if (i == 0)
            tn_copy_(part, x);
        else
            tn_add_(part, x);
    }
    out[0] = whole;
    return TN_OK;
}

/* The whole is read before all parts are written. */
static tn_status reads_early(tn_tensor *const *in, int in_count, tn_tensor **out,
                             int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    const int64_t half = tn_tensor_size(in[0], 1) / 2;
    tn_tensor *whole = tn_zeros_like(in[0]);
    tn_copy_(tn_slice(whole, 1, 0, half, 1), tn_slice(in[0], 1, 0, half, 1));
    out[0] = tn_matmul(whole, tn_t(in[1]));
    tn_add_(tn_slice(whole, 1, half, 2 * half, 1),
            tn_slice(in[1], 1, 0, half, 1));
    out[0] = tn_add(out[0], tn_matmul(whole, tn_t(in[1])));
    return TN_OK;
}

static void check_fills(void)
{
    int64_t parts = 4;
    tn_compiled *c = tn_compile(slices, &parts);
    ok(runs_alike(c, slices, &parts, 8, 16), "slices that are all of a tensor");
    ok(text_has(c, "1 fills"), "the tensor is not filled before");
    is_int(counts_of(c).launches, 1, "one launch writes all of them");
    parts = 3;
    c = tn_compile(slices, &parts);
    ok(runs_alike(c, slices, &parts, 8, 16), "slices that are a part of a tensor");
    ok(!strstr(tn_compiled_text(c), "1 fills"), "the tensor is filled before");
    c = tn_compile(reads_early, NULL);
    ok(runs_alike(c, reads_early, NULL, 8, 16),
       "a tensor that is read before all slices are written");
    ok(!strstr(tn_compiled_text(c), "1 fills"), "it is filled before");
}

/* ---- rows in place -------------------------------------------------------------- */

/* Updates the tensor in place and works on its rows. */
static tn_status updates(tn_tensor *const *in, int in_count, tn_tensor **out,
                         int out_count, void *context)
{
    (void)in_count, (void)out_count;
    tn_tensor *const *state = context;
    tn_add_(state[0], in[0]);
    tn_tensor *mean = tn_mean(state[0], .dims = tn_dims(0, 2), .keepdim = true);
    tn_tensor *apart = tn_sub(state[0], mean);
    tn_add_(state[1], tn_sum(tn_mul(apart, state[1]), .dims = tn_dims(0, 2),
                             .keepdim = true));
    out[0] = apart;
    return TN_OK;
}

/* A row is a channel of all images, in pieces of `size` elements. */
static bool rows_in_place(int64_t images, int64_t channels, int64_t size)
{
    tn_tensor *a[2] = {tn_randn(tn_dims(images, channels, size)),
                       tn_randn(tn_dims(1, channels, 1))};
    tn_tensor *b[2] = {tn_clone(a[0]), tn_clone(a[1])};
    tn_compiled *c = tn_compile(updates, b);
    bool same = true;
    for (int call = 0; call < 4 && same; call++) {
        tn_tensor *x = tn_randn(tn_dims(images, channels, size));
        tn_tensor *want = NULL, *got = NULL;
        TN_NO_GRAD {
            updates(&x, 1, &want, 1, a);
            tn_compiled_run(c, &x, 1, &got, 1);
        }
        same = same_bits(want, got) && same_bits(a[0], b[0]) &&
               same_bits(a[1], b[1]);
    }
    return same && counts_of(c).launches < counts_of(c).recorded;
}

static void check_rows_in_place(void)
{
    ok(rows_in_place(8, 3, 1024) && rows_in_place(40, 2, 192) &&
       rows_in_place(64, 5, 33) && rows_in_place(512, 96, 1) &&
       rows_in_place(1, 4, 70000) && rows_in_place(3, 2, 5),
       "rows of a tensor, in pieces and not, that the same launch updates");
}

/* ---- small launches, rows and indices ---------------------------------------- */

static tn_status rows(tn_tensor *const *in, int in_count, tn_tensor **out,
                      int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *most = tn_amax(in[0], .dim = -1, .keepdim = true);
    out[0] = tn_add_scalar(tn_mul(tn_abs(most), most), 3);
    return TN_OK;
}

static tn_status apart(tn_tensor *const *in, int in_count, tn_tensor **out,
                       int out_count, void *context)
{
    (void)in_count, (void)out_count;
    tn_tensor **counter = context;
    for (int i = 0; i < 4; i++)
        tn_add_scalar_(counter[i], i + 1);
    out[0] = tn_matmul(in[0], tn_t(in[1]));
    return TN_OK;
}

static tn_status picks(tn_tensor *const *in, int in_count, tn_tensor **out,
                       int out_count, void *context)
{
    (void)in_count, (void)out_count;
    tn_tensor *row = tn_index_select(in[0], 0, context);
    out[0] = tn_softmax(tn_mul(row, row), -1);
    return TN_OK;
}

static void check_spaces(void)
{
    tn_compiled *c = tn_compile(rows, NULL);
    ok(runs_alike(c, rows, NULL, 8, 16), "element-wise work on results of rows");
    is_int(counts_of(c).launches, 1, "it runs once per row of one launch");

    tn_tensor *counter[4];
    for (int i = 0; i < 4; i++)
        counter[i] = tn_zeros(tn_dims(1));
    c = tn_compile(apart, counter);
    tn_tensor *y, *x = tn_ones(tn_dims(3, 3));
    TN_NO_GRAD
        for (int i = 0; i < 5; i++)
            tn_compiled_run(c, (tn_tensor *[]){x, x}, 2, &y, 1);
    ok(tn_item(counter[0]) == 5 && tn_item(counter[3]) == 20,
       "counters that share nothing");
    is_int(counts_of(c).launches, 2, "they are one launch");

    tn_tensor *index = tn_tensor_from_array((int64_t[]){3, 0, 3}, TN_I64,
                                            tn_dims(3));
    c = tn_compile(picks, index);
    ok(runs_alike(c, picks, index, 8, 16), "rows that are chosen by an index");
    is_int(counts_of(c).launches, 1, "they are read by the launch that uses "
           "them");
    tn_copy_(index, tn_tensor_from_array((int64_t[]){3, 8, 3}, TN_I64,
                                         tn_dims(3)));
    TN_NO_GRAD {
        tn_tensor *in[2] = {tn_ones(tn_dims(8, 16)), tn_ones(tn_dims(8, 16))};
        tn_compiled_run(c, in, 2, &y, 1);
        tn_device_synchronize(tn_device_current());
    }
    ok(tn_error_code() == TN_ERR_INDEX && strstr(tn_error(), "index 8"),
       "an index outside of the rows is an error: %s",
       tn_error() ? tn_error() : "none");
    tn_error_clear();
}

/* ---- memory -------------------------------------------------------------------- */

enum { DEPTH = 6 };

/* Each step keeps two values for the way back, as a forward pass does. */
static tn_status there_and_back(tn_tensor *const *in, int in_count,
                                tn_tensor **out, int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *before[DEPTH], *after[DEPTH], *x = in[0];
    for (int i = 0; i < DEPTH; i++) {
        before[i] = tn_matmul(x, in[1]);
        after[i] = tn_softmax(tn_dropout(tn_gelu(before[i]), 0.5, true), -1);
        x = tn_matmul(after[i], in[1]);
    }
    for (int i = DEPTH; i-- > 0;)
        x = tn_matmul(tn_add(tn_mul(x, after[i]), before[i]), in[1]);
    out[0] = x;
    return TN_OK;
}

static void check_memory(void)
{
    tn_compiled *plain = tn_compile(there_and_back, NULL);
    tn_compiled *small = tn_compile(there_and_back, NULL, .memory = 0.7);
    ok(runs_alike(plain, there_and_back, NULL, 64, 64), "values that are kept");
    ok(runs_alike(small, there_and_back, NULL, 64, 64),
       "values that are computed again have the same bits");
    const tn_compiled_counts a = counts_of(plain), b = counts_of(small);
    ok(a.arena_bytes <= a.peak_bytes && 4 * b.arena_bytes <= 3 * a.arena_bytes,
       "%lld bytes, %lld for .memory = 0.7, of %lld",
       (long long)a.arena_bytes, (long long)b.arena_bytes,
       (long long)a.peak_bytes);
    ok(text_has(small, "compute results again") && text_has(small, " again"),
       "the report names what is computed again");
    ok(!tn_compile(repeats, NULL, .memory = -1) &&
       strstr(tn_error(), "memory"),
       "a negative target is rejected: %s", tn_error() ? tn_error() : "");
    tn_error_clear();
}

int main(void)
{
    plan_later();
    tn_manual_seed(3);
    check_repeats();
    check_copies();
    check_fills();
    check_rows_in_place();
    check_spaces();
    check_memory();
    return done_testing();
}
