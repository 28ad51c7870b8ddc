/* gamma.c: polygamma and mvlgamma, functions derived from the gamma function
 * whose order is an integer argument. */
#include <math.h>
#include <ops/engine/native.h>

/* Computes polygamma(n, x) = (-1)^(n + 1) * n! * zeta(n + 1, x) (DLMF
 * 25.11.12). */
tn_status tn__run_polygamma(tn__call *call)
{
    int64_t n = tn__call_int(call, TN__ARG_POLYGAMMA_N);
    tn_tensor *x = tn__call_tensor(call, TN__ARG_POLYGAMMA_INPUT);
    if (n < 0)
        return tn__fail(TN_ERR_ARGUMENT, "polygamma: {n} is %lld; expected at "
                        "least 0", (long long)n);
    if (n == 0)
        return tn__give(call, tn_digamma(x));
    const tn_value own[] = {tn__value_tensor(x)};
    if (n == 1)
        return tn__give(call, tn__row(TN__OP_ID_TRIGAMMA, own, 1));
    double factor = tgamma((double)n + 1);
    const tn_value value[] = {tn__value_tensor(x),
                              tn__value_float((double)n + 1),
                              tn__value_float(n % 2 ? factor : -factor)};
    return tn__give(call, tn__row(TN__OP_ID_POLYGAMMA_BY, value, 3));
}

/* Computes the logarithm of the multivariate gamma function, up to a constant:
 * the sum of lgamma(x - k / 2) for k in [0, p). Half types are rounded once. */
tn_status tn__run_mvlgamma(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_MVLGAMMA_INPUT);
    int64_t p = tn__call_int(call, TN__ARG_MVLGAMMA_P);
    if (p < 1 || p > 1 << 16) /* p is the number of terms of the sum */
        return tn__fail(TN_ERR_ARGUMENT, "mvlgamma: {p} %lld is outside [1, "
                        "%d]", (long long)p, 1 << 16);
    tn_dtype dtype = tn_dtype_is_floating(x->dtype) ? x->dtype : TN_F32;
    if (tn_dtype_bytes(dtype) == 2)
        x = tn_to_dtype(x, TN_F32);
    tn_tensor *sum = tn_lgamma(x);
    for (int64_t k = 1; k < p && sum; k++)
        sum = tn_add(sum, tn_lgamma(tn_sub_scalar(x, 0.5 * (double)k)));
    double pairs = 0.25 * (double)p * (double)(p - 1);
    sum = tn_add_scalar(sum, pairs * log(3.141592653589793));
    return tn__give(call, tn_to_dtype(sum, dtype));
}
