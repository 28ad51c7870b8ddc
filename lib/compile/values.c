/* values.c: moves a value into the memory of another one, for passes that let
 * two values be one. */
#include <compile/passes.h>

bool tn__value_span(const tn__capture *c, uint32_t value, tn__step_range *span)
{
    bool found = false;
    for (size_t s = 0; s < c->step_count; s++)
        for (uint32_t u = 0; u < c->step[s].use_count; u++) {
            if (c->use[c->step[s].first_use + u].value != value ||
                c->step[s].removed)
                continue;
            span->first = found ? span->first : s;
            span->last = s;
            found = true;
        }
    return found;
}

bool tn__value_is_used(const tn__capture *c, uint32_t value, int64_t low,
                       int64_t high, size_t first, size_t last, size_t except,
                       bool reads)
{
    for (size_t s = first; s <= last && s < c->step_count; s++)
        for (uint32_t u = 0; u < c->step[s].use_count; u++) {
            const tn__use *use = &c->use[c->step[s].first_use + u];
            if (s != except && !c->step[s].removed && use->value == value &&
                (reads || use->access.writes) && use->access.low < high &&
                low < use->access.high)
                return true;
        }
    return false;
}

bool tn__value_fits(const tn__capture *c, uint32_t from, uint32_t to,
                    int64_t low, int64_t high, int64_t shift)
{
    /* An input begins at any element of a tensor, so only operands with the
     * size of its elements are aligned in each replay. */
    uint32_t unit = 0;
    for (size_t u = 0; u < c->use_count && !unit; u++)
        if (c->use[u].value == to && c->value[to].kind == TN__VALUE_INPUT)
            unit = c->use[u].access.unit;
    for (size_t u = 0; u < c->use_count; u++) {
        const tn__access *x = &c->use[u].access;
        if (c->use[u].value == from &&
            (x->low < low || x->high > high || shift % (int64_t)x->unit ||
             (unit && x->unit != unit)))
            return false;
    }
    return true;
}

void tn__value_move(tn__capture *c, uint32_t from, uint32_t to, int64_t shift,
                    tn_buffer *buffer)
{
    for (size_t u = 0; u < c->use_count; u++) {
        tn__use *use = &c->use[u];
        if (use->value != from)
            continue;
        use->value = to;
        use->access.low += shift;
        use->access.high += shift;
        *use->access.buffer = buffer;
        *use->access.offset += shift / (int64_t)use->access.unit;
        c->value[to].written |= use->access.writes;
    }
}
