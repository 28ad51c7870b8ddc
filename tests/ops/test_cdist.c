/* test_cdist.c: compares distances computed by a matrix product with those
 * computed by differences. */
#include <tenon/tenon.h>

#include "tap.h"

/* Computes distances of x and y and the gradients of their sum. Returns whether
 * it succeeded. */
static bool distances(tn_tensor *x, tn_tensor *y, const char *mode,
                      tn_tensor *out[3])
{
    tn_tensor *const in[] = {x, y};
    out[0] = tn_cdist(x, y, .compute_mode = mode);
    tn_grad(out[0], in, 2, out + 1, .gradient = tn_ones_like(out[0]));
    return !tn_error();
}

static double farthest(tn_tensor *a, tn_tensor *b)
{
    return tn_item(tn_amax(tn_abs(tn_sub(tn_detach(a), tn_detach(b)))));
}

int main(void)
{
    plan_later();
    tn_manual_seed(3);
    tn_tensor *x = tn_requires_grad(tn_randn(tn_dims(40, 8)));
    tn_tensor *y = tn_requires_grad(tn_randn(tn_dims(2, 30, 8)));
    tn_tensor *own[3], *product[3], *difference[3];
    if (!distances(x, y, "use_mm_for_euclid_dist_if_necessary", own) ||
        !distances(x, y, "use_mm_for_euclid_dist", product) ||
        !distances(x, y, "donot_use_mm_for_euclid_dist", difference))
        bail_out("%s", tn_error());
    /* Squares of about 16 have rounding errors of a few times 16 * 2^-24. */
    for (int i = 0; i < 3; i++)
        ok(farthest(product[i], difference[i]) < 2e-5,
           "%s by a product and by differences",
           i == 0   ? "distances"
           : i == 1 ? "gradients of x1"
                    : "gradients of x2");
    ok(farthest(own[0], product[0]) == 0, "40 rows: the product is taken");

    tn_tensor *few = tn_narrow(tn_detach(x), 0, 0, 25);
    ok(farthest(tn_cdist(few, few),
                tn_cdist(few, few,
                         .compute_mode = "donot_use_mm_for_euclid_dist")) == 0,
       "25 rows: the differences are taken");

    tn_tensor *same = tn_requires_grad(tn_full(tn_dims(30, 2), 0.5));
    tn_tensor *const in[] = {same};
    tn_tensor *zero = tn_cdist(same, same), *slope;
    tn_grad(zero, in, 1, &slope, .gradient = tn_ones_like(zero));
    ok(tn_item(tn_amax(zero)) == 0 && farthest(slope, tn_zeros_like(slope)) == 0,
       "equal rows: no distance, no gradient");
    tn_tensor *wild = tn_full(tn_dims(30, 2), (double)NAN);
    ok(tn_item(tn_all(tn_isnan(tn_cdist(wild, same)))) == 1,
       "NaN gives NaN");

    /* For p = 1 the differences of all pairs, 4 MiB, are not stored. */
    tn_tensor *apart = tn_vector_norm(
        tn_sub(tn_unsqueeze(tn_detach(x), -2), tn_unsqueeze(tn_detach(y), -3)),
        .ord = 1, .dim = -1);
    ok(farthest(tn_cdist(tn_detach(x), tn_detach(y), .p = 1), apart) == 0,
       "p of 1: the norm of differences");
    tn_tensor *many = tn_rand(tn_dims(256, 16));
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_memory_reset_peak(NULL);
    tn_memory(NULL, &before);
    tn_cdist(many, many, .p = 1);
    tn_memory(NULL, &after);
    ok(after.peak_bytes - before.peak_bytes < 1 << 20,
       "in %lld bytes", (long long)(after.peak_bytes - before.peak_bytes));
    ok(!tn_error(), "no error: %s", tn_error() ? tn_error() : "none");
    return done_testing();
}
