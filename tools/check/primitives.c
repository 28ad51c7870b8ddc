/* primitives.c: checks matmul, scatter, scan and sort against the definitions
 * in <tenon/plugin.h>, written as plain loops over value[]. */
#include "primitives.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operand.h"

/* Sets value[i] to x, rounded as by storing and loading it. */
static void settle(operand *o, int64_t i, tn_number x)
{
    o->value[i] = operand_rounded(o->view.dtype, x);
}

static void any_extents(int64_t *extent, uint32_t ndim)
{
    int64_t room = random_chance(&now.source, 20) ? OPERAND_POINTS : 200;
    for (uint32_t d = ndim; d-- > 0;) {
        extent[d] = random_between(&now.source, 1, d + 1 == ndim ? 60 : 6);
        if (extent[d] > room)
            extent[d] = 1;
        room /= extent[d];
    }
    if (random_chance(&now.source, 4))
        extent[random_below(&now.source, ndim)] = 0;
}

/* ---- the primitives ----------------------------------------------------- */

static operand a, b, c;

static void name(const char *of_a, const char *of_b, const char *of_c)
{
    a.name = of_a;
    b.name = of_b;
    c.name = of_c;
}

/* Replaces the n numbers x[] by their prefix sums, in the order that plugin.h
 * defines. First computes the prefix sums within each block of TN_LANES
 * numbers, as a tree. Then adds to each block the last sum of the preceding
 * block. */
static void sum_by_blocks(tn_dtype dtype, tn_number *x, int64_t n)
{
    for (int64_t h = 1; h < TN_LANES; h *= 2)
        for (int64_t k = 0; k < n; k++)
            if (k & h)
                x[k] = operand_fold(TN_REDUCE_SUM, dtype,
                                    x[(k & ~(2 * h - 1)) + h - 1], x[k]);
    for (int64_t k = TN_LANES; k < n; k++)
        x[k] = operand_fold(TN_REDUCE_SUM, dtype,
                            x[k / TN_LANES * TN_LANES - 1], x[k]);
}

/* Computes the prefix sums of a row of floats: first within each chunk of
 * TN_CHUNK elements, then adds the sum of all preceding chunks. */
static void sum_line(tn_dtype dtype, tn_number *x, int64_t n)
{
    tn_number final[OPERAND_POINTS / TN_CHUNK + 1];
    const int64_t chunks = (n + TN_CHUNK - 1) / TN_CHUNK;
    for (int64_t i = 0; i < chunks; i++) {
        const int64_t end = i + 1 < chunks ? (i + 1) * TN_CHUNK : n;
        sum_by_blocks(dtype, x + i * TN_CHUNK, end - i * TN_CHUNK);
        final[i] = x[end - 1];
    }
    sum_by_blocks(dtype, final, chunks);
    for (int64_t k = TN_CHUNK; k < n; k++)
        x[k] = operand_fold(TN_REDUCE_SUM, dtype, final[k / TN_CHUNK - 1],
                            x[k]);
}

/* Computes a prefix scan of a row. Sums of floats are added in a defined order;
 * other scans go from the first element to the last. index[] receives the
 * position of the running minimum or maximum. */
static void scan_line(unsigned kind, tn_number *x, tn_number *index, int64_t n)
{
    const bool is_float = operand_is_float(&a);
    const bool greatest = kind == TN_REDUCE_MAX;
    tn_number best = n > 0 ? x[0] : (tn_number){.i = 0};
    int64_t at = 0;
    if (kind == TN_REDUCE_SUM && is_float) {
        sum_line(a.view.dtype, x, n);
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        const tn_number y = x[k];
        const bool takes = !is_float     ? (greatest ? y.i >= best.i
                                                     : y.i <= best.i)
                           : isnan(y.f)    ? true
                           : isnan(best.f) ? false
                           : greatest      ? y.f >= best.f
                                           : y.f <= best.f;
        if (takes) {
            best = y;
            at = k;
        }
        index[k].i = at;
        if (k > 0)
            x[k] = operand_fold(kind, a.view.dtype, x[k - 1], y);
    }
}

static int64_t check_scan(void)
{
    uint32_t ndim = 1 + random_below(&now.source, 3);
    int64_t extent[TN_MAX_NDIM];
    any_extents(extent, ndim);
    if (ndim < 3 && random_chance(&now.source, 10)) { /* sometimes scans a row
                                                         of several TN_CHUNK */
        extent[0] = 1;
        extent[ndim - 1] = random_between(&now.source, 1000, OPERAND_POINTS);
    }
    tn_dtype dtype = operand_any_dtype();
    tn_scan_args args = {.size = sizeof args, .ndim = ndim};
    args.kind = random_below(&now.source, 4);
    bool extreme = args.kind >= TN_REDUCE_MAX;
    bool index = extreme && random_chance(&now.source, 60);
    operand_init(&a, dtype, ndim, extent, false);
    operand_init(&b, dtype, ndim, extent, true);
    operand_init(&c, TN_I64, ndim, extent, true);
    name("in", "out", "out_index");
    operand_words("scan", "kind", args.kind, &a);
    static tn_number x[OPERAND_POINTS], at[OPERAND_POINTS];
    const int64_t n = extent[ndim - 1];
    memcpy(x, a.value, (size_t)a.count * sizeof *x);
    for (int64_t first = 0; first < a.count; first += n)
        scan_line(args.kind, x + first, at + first, n);
    for (int64_t i = 0; i < a.count; i++) {
        settle(&b, i, x[i]);
        if (index)
            c.value[i] = at[i];
    }
    operand_send(&a), operand_send(&b), operand_send(&c);
    args.in = a.view;
    args.out = b.view;
    args.out_index = c.view;
    memcpy(args.extent, extent, sizeof extent);
    if (!index)
        args.out_index.buffer = NULL;
    operand_enter();
    tn_status status = now.device->plugin->scan(now.device->queue, &args);
    operand_leave();
    int64_t wrong = !operand_succeeded(status, "scan");
    return wrong + operand_receive(&a) + operand_receive(&b) +
           operand_receive(&c);
}

/* Returns whether x sorts before y by its value. The caller breaks ties by
 * position. */
static bool precedes(const operand *o, tn_number x, tn_number y, bool falling)
{
    if (falling) {
        tn_number kept = x;
        x = y;
        y = kept;
    }
    if (!operand_is_float(o))
        return x.i < y.i;
    return isnan(x.f) ? false : isnan(y.f) ? true : x.f < y.f;
}

static int64_t check_sort(void)
{
    uint32_t ndim = 1 + random_below(&now.source, 3);
    int64_t extent[TN_MAX_NDIM];
    any_extents(extent, ndim);
    int64_t row = extent[ndim - 1];
    tn_sort_args args = {.size = sizeof args, .ndim = ndim, .keep = row};
    bool falling = random_chance(&now.source, 50);
    args.flags = falling ? TN_SORT_DESCENDING : 0;
    memcpy(args.extent, extent, sizeof extent);
    operand_init(&a, operand_any_dtype(), ndim, extent, false);
    name("in", "out", "out_index");
    operand_words("sort", "flags", args.flags, &a);
    if (random_chance(&now.source, 40) && row > 0)
        args.keep = extent[ndim - 1] = random_between(&now.source, 1, row);
    operand_init(&b, a.view.dtype, ndim, extent, true);
    operand_init(&c, TN_I64, ndim, extent, true);
    for (int64_t i = 0; i < a.count; i++) {
        int64_t k = i % row, first = i - k, rank = 0;
        for (int64_t j = first; j < first + row; j++)
            rank += precedes(&a, a.value[j], a.value[i], falling) ||
                    (j < i && !precedes(&a, a.value[i], a.value[j], falling));
        if (rank < args.keep) {
            int64_t to = first / row * args.keep + rank;
            b.value[to] = a.value[i];
            c.value[to].i = k;
        }
    }
    operand_send(&a), operand_send(&b), operand_send(&c);
    args.in = a.view;
    args.out = b.view;
    args.out_index = c.view;
    operand_enter();
    tn_status status = now.device->plugin->sort(now.device->queue, &args);
    operand_leave();
    int64_t wrong = !operand_succeeded(status, "sort");
    return wrong + operand_receive(&a) + operand_receive(&b) +
           operand_receive(&c);
}

static int64_t check_scatter(void)
{
    uint32_t ndim = 1 + random_below(&now.source, 3);
    int64_t extent[TN_MAX_NDIM], dst_extent[TN_MAX_NDIM];
    any_extents(extent, ndim);
    tn_scatter_args args = {.size = sizeof args, .ndim = ndim, .tag = 5};
    args.dim = random_below(&now.source, ndim);
    args.reduce = random_below(&now.source, TN_SCATTER_END);
    args.dst_extent = random_between(&now.source, 1, 8);
    const bool is_long = random_chance(&now.source, 30);
    const bool is_dense = is_long && random_chance(&now.source, 40);
    if (is_long) { /* long rows test that a device does not rely on 8-bit or
                    * 16-bit indices, or on a row fitting into local memory */
        for (uint32_t d = 0; d < ndim; d++)
            extent[d] = extent[d] > 2 ? 2 : extent[d];
        args.dim = is_dense ? ndim - 1 : args.dim;
        extent[args.dim] = random_between(
            &now.source, 64, random_chance(&now.source, 50) ? 200 : 1000);
        args.dst_extent = random_between(
            &now.source, 1, random_chance(&now.source, 50) ? 20 : 600);
    }
    memcpy(args.extent, extent, sizeof extent);
    memcpy(dst_extent, extent, sizeof extent);
    dst_extent[args.dim] = args.dst_extent;
    tn_dtype dtype = operand_any_dtype();
    if (is_dense) {
        operand_init_dense(&a, dtype, ndim, extent);
        operand_init_dense(&b, TN_I64, ndim, extent);
        operand_init_dense(&c, dtype, ndim, dst_extent);
    } else {
        operand_init(&a, dtype, ndim, extent, false);
        operand_init(&b, TN_I64, ndim, extent, false);
        for (uint32_t d = 0; d < ndim; d++) /* sometimes all rows share their
                                               indices */
            if (is_long && d != args.dim && random_chance(&now.source, 50))
                b.view.stride[d] = 0;
        operand_init(&c, dtype, ndim, dst_extent, true);
    }
    name("src", "index", "dst");
    operand_words("scatter", "reduce", args.reduce, &a);
    bool faults = random_chance(&now.source, 10);
    int64_t fault_at = -1;
    for (int64_t i = 0; i < b.count; i++)
        if (!faults || random_chance(&now.source, 98))
            operand_store(
                &b, operand_offset(&b, i),
                (tn_number){
                    .i = random_below(&now.source, (uint32_t)args.dst_extent)});
    int64_t inner = 1; /* distance between neighbours along dim, in row-major
                          order */
    for (uint32_t d = args.dim + 1; d < ndim; d++)
        inner *= extent[d];
    for (int64_t i = 0; i < a.count; i++) {
        static const uint8_t kind[] = {0, TN_REDUCE_SUM, TN_REDUCE_PROD,
                                       TN_REDUCE_MIN, TN_REDUCE_MAX};
        /* The strides of b may give several elements the same memory, so a
         * later write may have replaced this element. Therefore its value is
         * read from memory. */
        int64_t index = operand_load(&b, operand_offset(&b, i)).i;
        b.value[i].i = index;
        if (index < 0 || index >= args.dst_extent) {
            fault_at = fault_at < 0 ? i : fault_at;
            continue;
        }
        int64_t outer = i / inner / extent[args.dim];
        int64_t to = (outer * args.dst_extent + index) * inner + i % inner;
        settle(&c, to,
               args.reduce == TN_SCATTER_SET
                   ? a.value[i]
                   : operand_fold(kind[args.reduce], dtype, c.value[to],
                                  a.value[i]));
    }
    operand_send(&a), operand_send(&b), operand_send(&c);
    args.src = a.view;
    args.index = b.view;
    args.dst = c.view;
    tn_fault fault = {.size = sizeof fault, .position = -1};
    operand_enter();
    now.device->plugin->scatter(now.device->queue, &args);
    operand_leave();
    tn_status status =
        now.device->plugin->queue_sync(now.device->queue, &fault);
    int64_t wrong = status != (fault_at < 0 ? TN_OK : TN_ERR_INDEX);
    if (wrong)
        snprintf(now.wrong, sizeof now.wrong, "queue_sync returns %d, not %d",
                 status, fault_at < 0 ? TN_OK : TN_ERR_INDEX);
    else if (fault_at >= 0 &&
             (fault.position != fault_at || fault.tag != 5 ||
              fault.index != b.value[fault_at].i ||
              fault.extent != args.dst_extent)) {
        snprintf(now.wrong, sizeof now.wrong,
                 "the fault is index %" PRId64 " of %" PRId64 " at %" PRId64
                 " of launch %" PRIu64 ", not %" PRId64 " of %" PRId64
                 " at %" PRId64 " of 5",
                 fault.index, fault.extent, fault.position, fault.tag,
                 b.value[fault_at].i, args.dst_extent, fault_at);
        wrong++;
    }
    return wrong + operand_receive(&a) + operand_receive(&b) +
           operand_receive(&c);
}

static int64_t check_matmul(void)
{
    static const tn_dtype dtypes[] = {TN_F32,  TN_F32, TN_F64, TN_F16,
                                      TN_BF16, TN_I64, TN_I32, TN_I16,
                                      TN_I8,   TN_U8,  TN_BOOL};
    tn_dtype dtype;
    do
        dtype = dtypes[random_below(&now.source, 11)];
    while (!(now.device->info.storage_types >> dtype & 1));
    uint32_t batch_ndim = random_below(&now.source, 3), ndim = batch_ndim + 2;
    int64_t extent[TN_MAX_NDIM] = {0}, m = random_between(&now.source, 1, 20);
    int64_t n = random_between(&now.source, 1, 20), batches = 1;
    int64_t k =
        random_chance(&now.source, 5) ? 0 : random_between(&now.source, 1, 20);
    tn_matmul_args args = {.size = sizeof args,
                           .batch_ndim = batch_ndim,
                           .m = m,
                           .n = n,
                           .k = k,
                           .alpha = 1};
    if (random_chance(&now.source, 40))
        args.alpha = (double)random_between(&now.source, -2, 3);
    if (random_chance(&now.source, 40))
        args.beta = (double)random_between(&now.source, -2, 3);
    for (uint32_t d = 0; d < batch_ndim; d++)
        batches *= args.batch[d] = extent[d] =
            random_chance(&now.source, 5) ? 0
                                          : random_between(&now.source, 1, 3);
    extent[batch_ndim] = m, extent[batch_ndim + 1] = k;
    operand_init(&a, dtype, ndim, extent, false);
    extent[batch_ndim] = k, extent[batch_ndim + 1] = n;
    operand_init(&b, dtype, ndim, extent, false);
    extent[batch_ndim] = m;
    operand_init(&c, dtype, ndim, extent, true);
    name("a", "b", "c");
    operand_words("matmul", "beta", (int64_t)args.beta, &c);
    operand *all[] = {&a, &b, &c};
    for (int o = 0; o < 3 && operand_is_float(&c); o++)
        operand_fill(all[o], true); /* small numbers, because sums are compared
                                     * with a tolerance for rounding */
    for (int64_t i = 0; i < c.count && args.beta == 0 && operand_is_float(&c);
         i++) {
        c.value[i].f = (double)NAN; /* with beta == 0, c must not be read */
        operand_store(&c, operand_offset(&c, i), c.value[i]);
    }
    /* |result| <= 3 * 20 * 16 + 12 < 2^10. The tolerance is one unit in the
     * last place of a number of this size: half for rounding the stored result
     * and half for rounding in the sum. */
    double tolerance = dtype == TN_F64    ? 0x1p-40
                       : dtype == TN_F32  ? 0x1p-10
                       : dtype == TN_F16  ? 0x1p-1
                       : dtype == TN_BF16 ? 0x1p2
                                          : 0;
    for (int64_t i = 0; i < batches * m * n; i++) {
        int64_t batch = i / (m * n), row = i / n % m, column = i % n;
        double sum = 0;
        uint64_t whole = 0;
        for (int64_t j = 0; j < k; j++) {
            tn_number x = a.value[(batch * m + row) * k + j];
            tn_number y = b.value[(batch * k + j) * n + column];
            if (operand_is_float(&c))
                sum += x.f * y.f;
            else if (dtype == TN_BOOL)
                whole |= (uint64_t)(x.i & y.i);
            else
                whole += (uint64_t)x.i * (uint64_t)y.i;
        }
        tn_number old = c.value[i], x = {.i = 0};
        if (operand_is_float(&c))
            x.f = args.alpha * sum +
                  (args.beta != 0 ? args.beta * old.f : 0);
        else if (dtype == TN_BOOL)
            x.i = (args.alpha != 0 && whole) || (args.beta != 0 && old.i);
        else
            x.i = (int64_t)((uint64_t)(int64_t)args.alpha * whole +
                            (uint64_t)(int64_t)args.beta * (uint64_t)old.i);
        settle(&c, i, x);
        c.tolerance[i] = tolerance;
    }
    operand_send(&a), operand_send(&b), operand_send(&c);
    args.a = a.view;
    args.b = b.view;
    args.c = c.view;
    operand_enter();
    tn_status status = now.device->plugin->matmul(now.device->queue, &args);
    operand_leave();
    int64_t wrong = !operand_succeeded(status, "matmul");
    return wrong + operand_receive(&a) + operand_receive(&b) +
           operand_receive(&c);
}

/* ---- a case ------------------------------------------------------------- */

const char *const primitive_names[PRIMITIVE_COUNT] = {"scan", "sort", "scatter",
                                                      "matmul"};

bool primitive_case(const by_hand *h, int primitive, uint64_t seed, char *why,
                    size_t room)
{
    static int64_t (*const checks[])(void) = {check_scan, check_sort,
                                              check_scatter, check_matmul};
    operand_case_begin(h, seed);
    int64_t different = checks[primitive]();
    if (different == 0 && !*now.trouble)
        return true;
    if (*now.trouble)
        snprintf(why, room, "%s", now.trouble);
    else
        snprintf(why, room,
                 "%s: %s; %" PRId64 " values in all differ from the definition "
                 "in plugin.h",
                 now.what, now.wrong, different);
    return false;
}
