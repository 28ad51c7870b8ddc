/* values.c: moves a value into the memory of another one, for passes that let
 * two values be one. */
#include <compile/passes.h>

#include <base/memory.h>

#include <string.h>

uint64_t tn__capture_peak(const tn__capture *c)
{
    int64_t *change = tn__calloc(c->step_count + 1, sizeof *change);
    tn__step_range *range = tn__calloc(c->value_count + 1, sizeof *range);
    bool *used = tn__calloc(c->value_count + 1, sizeof *used);
    int64_t live = 0, peak = 0;
    const bool done = change && range && used;
    for (size_t s = 0; s < c->step_count && done; s++)
        for (uint32_t u = 0; u < c->step[s].use_count; u++) {
            const uint32_t v = c->use[c->step[s].first_use + u].value;
            range[v].first = used[v] ? range[v].first : s;
            range[v].last = s;
            used[v] = true;
        }
    for (size_t v = 0; v < c->value_count && done; v++) {
        if (!used[v] || c->value[v].kind != TN__VALUE_TEMPORARY)
            continue;
        change[range[v].first] += c->value[v].bytes;
        change[range[v].last + 1] -= c->value[v].bytes;
    }
    for (size_t s = 0; s < c->step_count && done; s++) {
        live += change[s];
        peak = live > peak ? live : peak;
    }
    tn__free(change);
    tn__free(range);
    tn__free(used);
    return (uint64_t)peak;
}

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

bool tn__step_insert(tn__capture *c, size_t at, tn__command *command,
                     const tn__command *after, const uint32_t *value)
{
    tn__access access[TN__ACCESS_MAX];
    const tn__step step = {.command = command,
                           .what = command->what,
                           .after = after,
                           .first_use = (uint32_t)c->use_count,
                           .use_count = (uint32_t)tn__command_accesses(
                               command, access)};
    bool done = tn__grow(&c->step, &c->step_room, c->step_count,
                         sizeof *c->step);
    for (uint32_t u = 0; u < step.use_count && done; u++) {
        done = tn__grow(&c->use, &c->use_room, c->use_count, sizeof *c->use);
        if (done)
            c->use[c->use_count++] = (tn__use){access[u], value[u]};
    }
    if (!done) {
        tn__free(command);
        return false;
    }
    memmove(&c->step[at + 1], &c->step[at],
            (c->step_count - at) * sizeof *c->step);
    c->step[at] = step;
    c->step_count++;
    return true;
}
