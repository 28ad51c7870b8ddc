/* Compares prefix sums and the other scans of the CPU plugin, for each
 * instruction set, with plain loops that follow the definition in plugin.h. */
#include <math.h>

#include "cpu_plugin.h"

/* ---- reference loops ----------------------------------------------------- */

/* Adds two floats as doubles and rounds once, which equals a sum in float. */
static double plus(tn_dtype dtype, double x, double y)
{
    return dtype == TN_F64 ? x + y : (float)(x + y);
}

static void sum_by_blocks(tn_dtype dtype, double *x, int64_t n)
{
    for (int64_t h = 1; h < 16; h *= 2)
        for (int64_t k = 0; k < n; k++)
            if (k & h)
                x[k] = plus(dtype, x[(k & ~(2 * h - 1)) + h - 1], x[k]);
    for (int64_t k = 16; k < n; k++)
        x[k] = plus(dtype, x[k / 16 * 16 - 1], x[k]);
}

static void sum_line(tn_dtype dtype, double *x, int64_t n)
{
    static double final[4096];
    const int64_t chunks = (n + 1023) / 1024;
    if (chunks > 4096)
        bail_out("a line of %lld elements", (long long)n);
    for (int64_t c = 0; c < chunks; c++) {
        const int64_t end = c + 1 < chunks ? c * 1024 + 1024 : n;
        sum_by_blocks(dtype, x + c * 1024, end - c * 1024);
        final[c] = x[end - 1];
    }
    sum_by_blocks(dtype, final, chunks);
    for (int64_t k = 1024; k < n; k++)
        x[k] = plus(dtype, final[k / 1024 - 1], x[k]);
}

/* ---- elements ------------------------------------------------------------ */

static double load(const void *memory, tn_dtype dtype, int64_t at)
{
    if (dtype == TN_F64)
        return ((const double *)memory)[at];
    uint32_t bits = dtype == TN_F32
                        ? ((const uint32_t *)memory)[at]
                        : (uint32_t)((const uint16_t *)memory)[at] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns the value's bits in this dtype: BF16 is rounded to nearest even; all
 * NaNs get the same bits. */
static uint64_t stored(tn_dtype dtype, double value)
{
    float x = (float)value;
    uint64_t wide;
    uint32_t bits;
    if (isnan(value))
        return 1;
    memcpy(&wide, &value, sizeof wide);
    memcpy(&bits, &x, sizeof bits);
    return dtype == TN_F64   ? wide
           : dtype == TN_F32 ? bits
                             : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static uint64_t found(const void *memory, tn_dtype dtype, int64_t at)
{
    if (isnan(load(memory, dtype, at)))
        return 1;
    return dtype == TN_F64   ? ((const uint64_t *)memory)[at]
           : dtype == TN_F32 ? ((const uint32_t *)memory)[at]
                             : ((const uint16_t *)memory)[at];
}

static void put(void *memory, tn_dtype dtype, int64_t at, double value)
{
    float x = (float)value;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (dtype == TN_F64)
        ((double *)memory)[at] = value;
    else if (dtype == TN_F32)
        ((float *)memory)[at] = x;
    else
        ((uint16_t *)memory)[at] = (uint16_t)(bits >> 16);
}

/* Returns a number of random magnitude; one in `special` is infinite, NaN or
 * 0. */
static double number(int64_t special)
{
    static const double of[] = {-0.0, 0.0, 1e-310, NAN, INFINITY, -INFINITY};
    if (special && random_below(special) == 0)
        return of[random_below(6)];
    return ldexp((double)random_below(2000001) / 3 - 3e5,
                 (int)random_below(12) - 20);
}

/* ---- sums ---------------------------------------------------------------- */

enum { IN_A_ROW, SIDE_BY_SIDE = 1, BACKWARDS = 2, IN_PLACE = 4, WAYS = 8 };

static int64_t wrong_sums(tn_dtype dtype, int64_t lines, int64_t count, int way,
                          int64_t special)
{
    const size_t bytes = dtype == TN_F64 ? 8 : dtype == TN_F32 ? 4 : 2;
    const int64_t numel = lines * count, room = numel > 0 ? numel : 1;
    void *in, *out;
    double *x = malloc((size_t)room * sizeof *x);
    tn_scan_args s = {.size = sizeof s, .ndim = 2, .kind = TN_REDUCE_SUM,
                      .extent = {lines, count}};
    int64_t stride[2] = {way & SIDE_BY_SIDE ? 1 : count,
                         way & SIDE_BY_SIDE ? lines : 1};
    int64_t first = 0, wrong = 0;
    if (!x)
        bail_out("out of memory");
    if (way & BACKWARDS && numel > 0) {
        first = numel - 1;
        stride[0] = -stride[0];
        stride[1] = -stride[1];
    }
    s.in = (tn_strided){buffer_new((size_t)room * bytes, &in), first, dtype, 2,
                        {stride[0], stride[1]}};
    s.out = s.in;
    out = in;
    if (!(way & IN_PLACE))
        s.out.buffer = buffer_new((size_t)room * bytes, &out);
    for (int64_t i = 0; i < numel; i++)
        put(in, dtype, i, number(special));
    for (int64_t l = 0; l < lines; l++) {
        for (int64_t k = 0; k < count; k++)
            x[l * count + k] =
                load(in, dtype, first + l * stride[0] + k * stride[1]);
        sum_line(dtype, x + l * count, count);
    }
    if (cpu->scan(queue, &s) != TN_OK)
        bail_out("%s", failure);
    for (int64_t l = 0; l < lines; l++)
        for (int64_t k = 0; k < count; k++)
            wrong += found(out, dtype, first + l * stride[0] + k * stride[1]) !=
                     stored(dtype, x[l * count + k]);
    if (!(way & IN_PLACE))
        buffer_drop(s.out.buffer);
    buffer_drop(s.in.buffer);
    free(x);
    return wrong;
}

static void test_sums(const char *isa)
{
    static const tn_dtype dtypes[] = {TN_F32, TN_F64, TN_BF16};
    static const int64_t counts[] = {0,    1,    2,    15,   16,   17,   33,
                                     1023, 1024, 1025, 2049, 17000};
    static const int64_t lines[] = {1, 7, 8, 45, 0};
    for (int d = 0; d < 3; d++) {
        int64_t wrong = 0;
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (size_t l = 0; l < sizeof lines / sizeof *lines; l++)
                for (int way = 0; way < WAYS; way++)
                    for (int64_t special = 0; special <= 500; special += 500)
                        if (counts[c] < 17000 || (l == (size_t)way && !special))
                            wrong += wrong_sums(dtypes[d], lines[l], counts[c],
                                                way, special);
        is_int(wrong, 0, "%s: sums of type %d in the order of chunks", isa,
               (int)dtypes[d]);
    }
    is_int(wrong_sums(TN_F32, 1, (1 << 20) + 700, 0, 0) +
               wrong_sums(TN_F32, 17, 17 * 1024 + 30, SIDE_BY_SIDE, 0),
           0, "rows of more than 16 chunks");
    is_int(wrong_sums(TN_F32, 700, 40, IN_A_ROW, 900) +
               wrong_sums(TN_F32, 700, 40, SIDE_BY_SIDE | IN_PLACE, 900),
           0, "many rows");
}

/* ---- cumulative minimum, maximum and product ----------------------------- */

static void test_places(void)
{
    enum { LINES = 3, COUNT = 2500 };
    float *in, *out;
    int64_t *place;
    tn_scan_args s = {.size = sizeof s, .ndim = 2, .extent = {LINES, COUNT}};
    s.in = (tn_strided){buffer_new(LINES * COUNT * 4, &in), 0, TN_F32, 2,
                        {COUNT, 1}};
    s.out = (tn_strided){buffer_new(LINES * COUNT * 4, &out), 0, TN_F32, 2,
                         {1, LINES}};
    s.out_index = (tn_strided){buffer_new(LINES * COUNT * 8, &place), 0,
                               TN_I64, 2, {COUNT, 1}};
    for (int i = 0; i < LINES * COUNT; i++)
        in[i] = (float)random_below(1000) / 3 - 200;
    in[COUNT + 1900] = in[COUNT + 2000] = NAN;

    bool in_order = true, places = true;
    s.kind = TN_REDUCE_MAX;
    if (cpu->scan(queue, &s) != TN_OK)
        bail_out("%s", failure);
    for (int l = 0; l < LINES; l++) {
        float fold = in[l * COUNT];
        int64_t best = 0;
        for (int k = 0; k < COUNT; k++) {
            float x = in[l * COUNT + k], got = out[k * LINES + l];
            if (isnan(x) || x >= fold) {
                fold = x;
                best = k;
            }
            in_order = in_order && (got == fold || (isnan(got) && isnan(fold)));
            places = places && place[l * COUNT + k] == best;
        }
    }
    ok(in_order, "a running maximum keeps a NaN");
    ok(places, "and the place of the last of equals");
    buffer_drop(s.in.buffer);
    buffer_drop(s.out.buffer);
    buffer_drop(s.out_index.buffer);
}

/* Applies one step of a scan to *fold, the running value. Returns whether x
 * replaces the running value. */
static bool takes_over(unsigned kind, double *fold, double x)
{
    const bool takes = isnan(x) || (kind == TN_REDUCE_MAX ? x >= *fold
                                                          : x <= *fold);
    if (isnan(*fold) || isnan(x))
        *fold = NAN;
    else if (x == *fold && x == 0) /* MAX prefers +0, MIN -0 */
        *fold = (signbit(x) != 0) == (kind == TN_REDUCE_MIN) ? x : *fold;
    else if (takes)
        *fold = x;
    return takes;
}

/* Tests contiguous rows in which a new minimum or maximum is rare, or equal
 * numbers or NaN occur. */
static int64_t wrong_minmax(tn_dtype dtype, unsigned kind, int64_t count,
                              int64_t range, int64_t special)
{
    enum { LINES = 9 };
    const size_t bytes = dtype == TN_F64 ? 8 : 4;
    void *in, *out;
    int64_t *place, wrong = 0;
    tn_scan_args s = {.size = sizeof s, .ndim = 2, .kind = kind,
                      .extent = {LINES, count}};
    s.in = (tn_strided){buffer_new((size_t)(LINES * count) * bytes, &in), 0,
                        dtype, 2, {count, 1}};
    s.out = s.in;
    s.out.buffer = buffer_new((size_t)(LINES * count) * bytes, &out);
    s.out_index =
        (tn_strided){buffer_new((size_t)(LINES * count) * 8, &place), 0,
                     TN_I64, 2, {count, 1}};
    for (int64_t i = 0; i < LINES * count; i++)
        put(in, dtype, i,
            special && random_below(special) == 0
                ? number(1)
                : (double)(random_below(range) - range / 2));
    if (cpu->scan(queue, &s) != TN_OK)
        bail_out("%s", failure);
    for (int64_t l = 0; l < LINES; l++) {
        double fold = load(in, dtype, l * count);
        int64_t at = 0;
        for (int64_t k = 0; k < count; k++) {
            const int64_t i = l * count + k;
            if (k > 0 && takes_over(kind, &fold, load(in, dtype, i)))
                at = k;
            wrong += found(out, dtype, i) != stored(dtype, fold) ||
                     place[i] != at;
        }
    }
    buffer_drop(s.in.buffer);
    buffer_drop(s.out.buffer);
    buffer_drop(s.out_index.buffer);
    return wrong;
}

static void test_minmax(const char *isa)
{
    static const int64_t counts[] = {1, 7, 16, 17, 100, 1025, 2100};
    int64_t wrong = 0;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int i = 0; i < 4; i++)
            for (int64_t special = 0; special <= 700; special += 70)
                wrong += wrong_minmax(i & 1 ? TN_F64 : TN_F32,
                                        i & 2 ? TN_REDUCE_MAX : TN_REDUCE_MIN,
                                        counts[c], special % 4 ? 1000000 : 9,
                                        special);
    is_int(wrong, 0, "%s: running minima and maxima, and their positions", isa);
}

/* Scans many rows, contiguous or interleaved, also in place. */
static void test_scan_lines(bool columns, bool in_place)
{
    enum { LINES = 77, COUNT = 301 };
    float *in, *out, *x = malloc(LINES * COUNT * sizeof *x);
    tn_scan_args s = {.size = sizeof s, .ndim = 2, .extent = {LINES, COUNT}};
    s.in = (tn_strided){buffer_new(LINES * COUNT * 4, &in), 0, TN_F32, 2,
                        {columns ? 1 : COUNT, columns ? LINES : 1}};
    s.out = s.in;
    s.out.buffer = buffer_new(LINES * COUNT * 4, &out);
    if (!x)
        bail_out("out of memory");
    bool right = true;
    for (s.kind = TN_REDUCE_PROD; s.kind <= TN_REDUCE_MIN; s.kind++) {
        for (int i = 0; i < LINES * COUNT; i++)
            in[i] = x[i] = (float)random_below(1000) / 333 - 1.001f;
        in[5] = x[5] = -0.0f;
        tn_scan_args a = s;
        if (in_place)
            a.out.buffer = s.in.buffer;
        if (cpu->scan(queue, &a) != TN_OK)
            bail_out("%s", failure);
        for (int l = 0; l < LINES; l++) {
            float fold = 0;
            for (int k = 0; k < COUNT; k++) {
                int at = columns ? k * LINES + l : l * COUNT + k;
                fold = k == 0                     ? x[at]
                       : s.kind == TN_REDUCE_PROD ? fold * x[at]
                       : s.kind == TN_REDUCE_MAX  ? fmaxf(fold, x[at])
                                                  : fminf(fold, x[at]);
                float got = in_place ? in[at] : out[at];
                right = right && memcmp(&got, &fold, 4) == 0;
            }
        }
    }
    ok(right, "scans of lines %s%s", columns ? "side by side" : "in a row",
       in_place ? ", in place" : "");
    free(x);
    buffer_drop(s.in.buffer);
    buffer_drop(s.out.buffer);
}

int main(void)
{
    static const char *const isas[] = {"generic", "v3", "v4"};
    plan_later();
    random_state = 12;
    plugin_load();
    for (int i = 0; i < 3; i++) {
        if (!plugin_open(isas[i])) {
            skip(1, failure);
            continue;
        }
        tn_set_num_threads(i % 2 ? 1 : 3);
        test_sums(isas[i]);
        test_places();
        test_minmax(isas[i]);
        for (int way = 0; way < 4; way++)
            test_scan_lines(way & 1, way & 2);
        plugin_close();
        chosen_stream = "0"; /* makes all stores non-temporal */
        if (!plugin_open(isas[i]))
            bail_out("%s", failure);
        test_sums(isas[i]);
        plugin_close();
        chosen_stream = NULL;
    }
    return done_testing();
}
