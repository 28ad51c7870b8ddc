/* predict.c: expects the next collective of a group: see control.h.
 *
 * A step is a sequence of calls that was made twice in a row. A call that is not
 * the next one of the step ends it, and the search for another begins. That call
 * must then be part of the two repetitions: four equal calls and another one are
 * a step of five, not of one. */
#include <dist/control.h>

#include <stdlib.h>
#include <string.h>

/* The most calls of a step. */
enum { MOST = 4096 };

void tn__predictor_fini(tn__predictor *p)
{
    free(p->seen);
    memset(p, 0, sizeof *p);
}

/* Drops the older half of a long history. */
static void forget(tn__predictor *p)
{
    const size_t half = p->count / 2;
    memmove(p->seen, p->seen + half, (p->count - half) * sizeof *p->seen);
    p->count -= half;
    p->surprise = p->surprise >= half ? p->surprise - half : 0;
}

static bool append(tn__predictor *p, uint64_t check)
{
    if (p->count == 2 * MOST)
        forget(p);
    if (p->count == p->room) {
        size_t room = p->room ? p->room * 2 : 64;
        uint64_t *seen = realloc(p->seen, room * sizeof *seen);
        if (!seen)
            return false;
        p->seen = seen;
        p->room = room;
    }
    p->seen[p->count++] = check;
    return true;
}

/* Looks for the shortest step that was made twice just now. */
static size_t find_period(const tn__predictor *p)
{
    const uint64_t *end = p->seen + p->count;
    const bool none = p->surprise == 0;
    for (size_t n = 1; 2 * n <= p->count; n++) {
        if (end[-1] != end[-1 - (ptrdiff_t)n] ||
            (!none && p->count - 2 * n >= p->surprise))
            continue;
        if (!memcmp(end - n, end - 2 * n, n * sizeof *end))
            return n;
    }
    return 0;
}

/* The step has ended after `at` of its calls: they are the history, the last one
 * at the end. */
static void end_step(tn__predictor *p)
{
    const size_t n = p->period;
    uint64_t *step = p->seen + p->count - n;
    uint64_t *before = step - n; /* equal to the step */
    memmove(p->seen, before + p->at, n * sizeof *step);
    p->count = n;
    p->period = 0;
    p->surprise = n + 1; /* the index after it, so that 0 is none */
}

int tn__predictor_take(tn__predictor *p, uint64_t sequence, uint64_t check)
{
    int result = TN__UNKNOWN;
    if (p->period) {
        if (p->seen[p->count - p->period + p->at] == check) {
            p->at = (p->at + 1) % p->period;
            return TN__EXPECTED;
        }
        end_step(p);
        result = TN__SURPRISE;
    }
    if (!append(p, check)) {
        p->count = 0; /* without memory nothing is expected */
        return result;
    }
    p->period = find_period(p);
    p->at = 0;
    p->first = sequence + 1;
    return result;
}

uint64_t tn__predictor_check(const tn__predictor *p, uint64_t sequence)
{
    return p->period && sequence >= p->first
               ? p->seen[p->count - p->period +
                         (size_t)((sequence - p->first) % p->period)]
               : 0;
}
