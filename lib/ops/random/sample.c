/* sample.c: draws indices from rows of weights (PyTorch's multinomial).
 *
 * Each weight is divided by a random number of the exponential distribution.
 * The largest quotient of a row is at k with probability w[k] / sum(w), and the
 * second largest has the same property among the remaining weights (Efraimidis
 * and Spirakis, 2006). So one draw is an argmax. Draws without replacement are
 * a top-k, and draws with replacement are repeated draws with new random
 * numbers. */
#include <ops/engine/native.h>

/* Checks the rows of weights before the draw. Each condition is reduced to one
 * number on the device, which is read back. */
static tn_status check_weights(tn_tensor *w, int64_t wanted)
{
    tn_tensor *bad = tn_any(tn_logical_not(
        tn_logical_and(tn_ge_scalar(w, 0), tn_isfinite(w))));
    tn_tensor *positive = tn_min(tn_sum(tn_gt_scalar(w, 0), .dim = -1));
    int64_t wrong = tn_item_int(bad), fewest = tn_item_int(positive);
    if (tn__error_pending())
        return tn_error_code();
    if (wrong)
        return tn__fail(TN_ERR_ARGUMENT,
                        "multinomial: {input} has weights below 0, infinite or "
                        "NaN; expected finite numbers of at least 0");
    if (fewest < wanted)
        return tn__fail(TN_ERR_ARGUMENT,
                        "multinomial: a row of {input} has %lld weights above "
                        "0, too few to draw %lld samples%s",
                        (long long)fewest, (long long)wanted,
                        wanted > 1 ? " without replacement" : "");
    return TN_OK;
}

static tn_tensor *race(tn_tensor *w)
{
    tn_value value[] = {tn__value_tensor(w)};
    return tn__row(TN__OP_ID_EXPONENTIAL_RACE, value, 1);
}

tn_status tn__run_multinomial(tn__call *call)
{
    tn_tensor *w = tn__call_tensor(call, TN__ARG_MULTINOMIAL_INPUT);
    int64_t count = tn__call_int(call, TN__ARG_MULTINOMIAL_NUM_SAMPLES);
    bool replacement = tn__call_int(call, TN__ARG_MULTINOMIAL_REPLACEMENT);
    char shape[TN__SHAPE_TEXT];
    if (w->ndim < 1 || w->ndim > 2 || !w->shape[w->ndim - 1])
        return tn__fail(TN_ERR_SHAPE,
                        "multinomial: {input} has shape %s; expected (C) or "
                        "(N, C) with a C of at least 1",
                        tn__shape_text(shape, w->ndim, w->shape));
    if (count < 1)
        return tn__fail(TN_ERR_ARGUMENT,
                        "multinomial: {num_samples} is %lld; expected at least "
                        "1",
                        (long long)count);
    if (w->ndim == 1 || w->shape[0]) {
        tn_status status = check_weights(w, replacement ? 1 : count);
        if (status)
            return status;
    }
    if (!replacement) {
        tn_tensor *place = NULL;
        tn_topk(race(w), count, -1, true, true, &place);
        return tn__give(call, place);
    }
    int64_t n = w->ndim == 2 ? w->shape[0] : count, c = w->shape[w->ndim - 1];
    tn_tensor *rows = w->ndim == 2
        ? tn_expand(tn_unsqueeze(w, 1), tn_dims(n, count, c))
        : tn_expand(w, tn_dims(count, c));
    return tn__give(call, tn_argmax(race(rows), .dim = -1));
}
