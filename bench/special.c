/* special.c: measures functions of one or two numbers that need many
 * instructions. The numbers are random, from 0 to a limit that selects the
 * branches of a function. The machine's limit is unknown, because each function
 * has its own number of instructions. */
#include "bench.h"

/* size[] is the number of elements, and the upper limit of their values. */
static void open_below(bench_state *s)
{
    s->a = tn_mul_scalar(tn_rand(tn_dims(s->size[0])), tn_num(s->size[1]));
    s->b = tn_mul_scalar(tn_rand(tn_dims(s->size[0])), tn_num(s->size[1]));
}

BENCH_CALL(tanh_, tn_tanh(s->a))
BENCH_CALL(sin_, tn_sin(s->a))
BENCH_CALL(log1p_, tn_log1p(s->a))
BENCH_CALL(expm1_, tn_expm1(s->a))
BENCH_CALL(gelu, tn_gelu(s->a))
BENCH_CALL(erf_, tn_erf(s->a))
BENCH_CALL(erfc_, tn_erfc(s->a))
BENCH_CALL(erfinv, tn_erfinv(s->a))
BENCH_CALL(erfcx, tn_erfcx(s->a))
BENCH_CALL(ndtri, tn_ndtri(s->a))
BENCH_CALL(log_ndtr, tn_log_ndtr(s->a))
BENCH_CALL(logit, tn_logit(s->a))
BENCH_CALL(sinc, tn_sinc(s->a))
BENCH_CALL(lgamma_, tn_lgamma(s->a))
BENCH_CALL(digamma, tn_digamma(s->a))
BENCH_CALL(trigamma, tn_polygamma(1, s->a))
BENCH_CALL(i0, tn_i0(s->a))
BENCH_CALL(i1e, tn_i1e(s->a))
BENCH_CALL(bessel_j0, tn_bessel_j0(s->a))
BENCH_CALL(bessel_j1, tn_bessel_j1(s->a))
BENCH_CALL(bessel_y0, tn_bessel_y0(s->a))
BENCH_CALL(bessel_k0, tn_modified_bessel_k0(s->a))
BENCH_CALL(pow_, tn_pow(s->a, s->b))
BENCH_CALL(atan2_, tn_atan2(s->a, s->b))
BENCH_CALL(hypot_, tn_hypot(s->a, s->b))
BENCH_CALL(xlogy, tn_xlogy(s->a, s->b))
BENCH_CALL(igamma, tn_igamma(s->a, s->b))
BENCH_CALL(zeta, tn_zeta(s->a, s->b))

#define BELOW(name, call, limit)                                              \
    {name, {1 << 20, limit}, open_below, call, BENCH_COPY(1 << 20), 0}
#define BOTH_BELOW(name, call, limit)                                         \
    {name, {1 << 20, limit}, open_below, call, BENCH_TRIAD(1 << 20), 0}

static const bench_work work[] = {
    BELOW("tanh", tanh_, 4),
    BELOW("sin", sin_, 8),
    BELOW("log1p", log1p_, 8),
    BELOW("expm1", expm1_, 8),
    BELOW("gelu", gelu, 4),
    BELOW("erf", erf_, 4),
    BELOW("erfc", erfc_, 4),
    BELOW("erfinv", erfinv, 1),
    BELOW("erfcx", erfcx, 8),
    BELOW("ndtri", ndtri, 1),
    BELOW("log_ndtr", log_ndtr, 8),
    BELOW("logit", logit, 1),
    BELOW("sinc", sinc, 8),
    BELOW("lgamma", lgamma_, 8),
    BELOW("digamma", digamma, 8),
    BELOW("trigamma", trigamma, 8),
    BELOW("i0", i0, 16),
    BELOW("i1e", i1e, 16),
    BELOW("bessel_j0", bessel_j0, 16),
    BELOW("bessel_j1", bessel_j1, 16),
    BELOW("bessel_y0", bessel_y0, 16),
    BELOW("bessel_k0", bessel_k0, 16),
    BOTH_BELOW("pow", pow_, 4),
    BOTH_BELOW("atan2", atan2_, 4),
    BOTH_BELOW("hypot", hypot_, 4),
    BOTH_BELOW("xlogy", xlogy, 4),
    BOTH_BELOW("igamma", igamma, 4),
    BOTH_BELOW("zeta", zeta, 4),
    {.name = NULL},
};
const bench_group bench_special = {"special", work};
