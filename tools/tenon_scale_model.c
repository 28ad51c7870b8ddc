/* tenon_scale_model.c: the formulas of docs/scale.md. */
#include "tenon_scale_model.h"

#include <math.h>
#include <stddef.h>

/* ---- collectives ---------------------------------------------------------- */

static double most(double a, double b)
{
    return a > b ? a : b;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* One ring over all n GPUs, or as many as a node has, each through another of
 * its network cards. */
static double flat_half(const scale_machine *m, double bytes, int n)
{
    const double share = (double)(n - 1) / n;
    if (n <= m->node)
        return (n - 1) * m->inside_hop + share * bytes / m->inside;
    const double hop =
        ((m->node - 1) * m->inside_hop + m->between_hop) / m->node;
    return (n - 1) * hop +
           share * bytes / least(m->node * m->between, m->inside);
}

/* Within each node, then between GPUs of the same place in their nodes, by
 * recursive halving. */
static double nested_half(const scale_machine *m, double bytes, int n)
{
    const int g = n < m->node ? n : m->node;
    const double nodes = ceil((double)n / m->node);
    double time = (g - 1) * m->inside_hop +
                  (double)(g - 1) / g * bytes / m->inside;
    if (nodes > 1)
        time += m->launch + ceil(log2(nodes)) * m->between_hop +
                (nodes - 1) / nodes * (bytes / g) / m->between;
    return time;
}

double scale_reduce_scatter(const scale_machine *m, bool flat, double bytes,
                            int n)
{
    if (n <= 1)
        return 0;
    return m->launch + (flat ? flat_half(m, bytes, n) : nested_half(m, bytes, n));
}

double scale_all_reduce(const scale_machine *m, bool flat, double bytes, int n)
{
    if (n <= 1)
        return 0;
    return m->launch +
           2 * (flat ? flat_half(m, bytes, n) : nested_half(m, bytes, n));
}

/* ---- stragglers ----------------------------------------------------------- */

/* The expected largest of n independent standard normal numbers, by Blom's
 * formula (G. Blom, Statistical Estimates and Transformed Beta-Variables, 1958):
 * the quantile at (n - 3/8) / (n + 1/4). */
static double largest_of(int n)
{
    const double share = (n - 0.375) / (n + 0.25);
    double low = 0, high = 8;
    if (n <= 1)
        return 0;
    while (high - low > 1e-9) {
        const double x = (low + high) / 2;
        if (1 - erfc(x / sqrt(2)) / 2 < share)
            low = x;
        else
            high = x;
    }
    return low;
}

/* ---- DDP and ZeRO-1 ------------------------------------------------------- */

static double parameters(const scale_step *s)
{
    double sum = 0;
    for (int i = 0; i < s->units; i++)
        sum += s->elements[i];
    return sum;
}

/* Adds the time of the optimizer: it reads weights, gradients and states of
 * `count` parameters, and writes weights and states. */
static double optimizer(const scale_machine *m, const scale_step *s, double count)
{
    return count * (2 * s->weight + s->gradient + 2 * s->state) / m->memory;
}

/* The gradients are a stream, of which every `bucket` bytes are sent when the
 * backward pass has come so far and the bucket before it is done. Returns the end
 * of the last one; *compute is the end of the backward pass, later by what the
 * collectives take of it. */
static double send_buckets(const scale_machine *m, const scale_step *s,
                           const scale_choice *c, int n, double *compute)
{
    const double bytes = parameters(s) * s->gradient;
    const double count = ceil(bytes / c->bucket);
    const double t = c->way == SCALE_DDP
                         ? scale_all_reduce(m, c->flat, bytes / count, n)
                         : scale_reduce_scatter(m, c->flat, bytes / count, n);
    double at = s->forward, link = 0;
    for (double i = 0; i < count; i++) {
        at += s->backward / count;
        link = most(link, at) + t;
        if (i + 1 < count) /* the last one has nothing to delay */
            at += m->busy * t;
    }
    *compute = at;
    return link;
}

static void predict_buckets(const scale_machine *m, const scale_step *s,
                            const scale_choice *c, int n, scale_result *r)
{
    const double all = parameters(s);
    double compute;
    r->step = send_buckets(m, s, c, n, &compute) +
              all * s->gradient * s->copies / m->memory;
    const double own = c->way == SCALE_ZERO1 ? all / n : all;
    r->step += optimizer(m, s, own);
    if (c->way == SCALE_ZERO1) { /* weights return, in buckets, after it */
        const double count = ceil(all * s->weight / c->bucket);
        r->step += count * scale_reduce_scatter(m, c->flat,
                                                all * s->weight / count, n);
    }
    r->compute = s->forward + s->backward + optimizer(m, s, own);
    /* Buckets hold the gradients a second time while they are sent; Tenon's hold
     * all of them. */
    r->memory = all * (s->weight + 2 * s->gradient) + own * s->state +
                s->activations;
}

/* ---- FSDP ----------------------------------------------------------------- */

/* Units are computed in the order of forward, then of backward. A unit's weights
 * are gathered before each of the two, at most `prefetch` units ahead; those of
 * the last unit stay for its backward pass. Gradients are scattered after a
 * unit's backward pass, and share the links with the gathers. */
static void predict_sharded(const scale_machine *m, const scale_step *s,
                            const scale_choice *c, int n, scale_result *r)
{
    const double all = parameters(s);
    const int shard = c->way == SCALE_HSDP && c->shard < n ? c->shard : n;
    const int copies = n / shard, units = s->units, total = 2 * units;
    double link = 0, end = 0, largest = 0;
    /* When the last units ended, of which the memory is used again. */
    enum { MOST_AHEAD = 16 };
    double ended[MOST_AHEAD + 1] = {0};
    const int ahead = c->prefetch < MOST_AHEAD ? c->prefetch : MOST_AHEAD;
    for (int k = 0; k < total; k++) {
        const int u = k < units ? k : total - 1 - k;
        const double share = s->elements[u] / all;
        const double bytes = s->elements[u] * s->weight;
        largest = most(largest, bytes);
        /* The unit 1 + ahead before this one has ended. */
        const double room = k > ahead ? ended[(k - 1 - ahead) % (MOST_AHEAD + 1)]
                                      : 0;
        double gather = 0;
        if (k != units) {
            gather = scale_reduce_scatter(m, c->flat, bytes, shard);
            link = most(link, room) + gather;
        }
        end = most(end, k != units ? link : 0) +
              share * (k < units ? s->forward : s->backward) + m->busy * gather;
        ended[k % (MOST_AHEAD + 1)] = end;
        if (k < units)
            continue;
        double scatter = scale_reduce_scatter(
            m, c->flat, s->elements[u] * s->gradient, shard);
        if (copies > 1) /* the same slices of all copies, between nodes */
            scatter += m->launch + 2 * (ceil(log2(copies)) * m->between_hop +
                       (double)(copies - 1) / copies *
                           (s->elements[u] * s->gradient / shard) / m->between);
        link = most(link, end) + scatter;
        end += m->busy * scatter;
    }
    r->step = most(end, link) + optimizer(m, s, all / shard);
    r->compute = s->forward + s->backward + optimizer(m, s, all / shard);
    r->memory = all / shard * (s->weight + s->gradient + s->state) +
                (1 + ahead) * largest + largest / s->weight * s->gradient +
                s->activations;
}

scale_result scale_predict(const scale_machine *m, const scale_step *s,
                           const scale_choice *c, int n)
{
    scale_result r = {0};
    if (c->way == SCALE_DDP || c->way == SCALE_ZERO1)
        predict_buckets(m, s, c, n, &r);
    else
        predict_sharded(m, s, c, n, &r);
    r.exposed = r.step - r.compute;
    r.waiting = m->jitter * largest_of(n) * (s->forward + s->backward);
    r.step += r.waiting;
    return r;
}
