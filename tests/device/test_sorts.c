/* Compares a plugin's sort with an order computed by comparisons. The cases are
 * row lengths that devices handle differently, all dtypes with their special
 * values, strides of both signs, the first elements of the order (top-k), and
 * the last element only. TENON_TEST_PLUGIN names the plugin; if unset: cpu,
 * then reference. TENON_TEST_FLOAT32=1: float32 only, for devices on which
 * compiling takes long. */
#include <math.h>
#include <tenon/base.h>

#include "../../lib/kernel/narrow_float.h"
#include "../../tools/check/random_source.h"
#include "../tap.h"
#include "by_name.h"

typedef struct sort_case {
    tn_dtype dtype;
    int64_t lines, length, keep, in_stride, out_stride;
    uint32_t flags;
    bool few_values; /* so that most are equal */
    bool columns;    /* the sorted lines are columns, interleaved in memory */
} sort_case;

/* An operand. A line is one sorted sequence, whose elements have the given
 * stride. Lines follow each other in memory, or are interleaved (columns).
 * There are unused bytes around them. Lines from `half` on are shifted by one
 * element, to test a second dimension. */
typedef struct side {
    tn_strided view;
    int64_t half;
    size_t bytes;
    unsigned char *memory;
} side;

static by_hand h;
static bool float32_alone;
static random_source source;

static side side_new(const sort_case *c, tn_dtype dtype, int64_t length,
                     int64_t stride)
{
    if (c->columns)
        stride *= c->lines + 1;
    const int64_t span = length > 0 ? llabs(stride) * (length - 1) + 1 : 1;
    side s = {.view = {.dtype = dtype, .ndim = 2,
                       .offset = 3 + (stride < 0 ? span - 1 : 0),
                       .stride = {c->columns ? 1 : span, stride}},
              .half = c->columns && c->lines % 2 == 0 ? c->lines / 2
                                                      : c->lines,
              .bytes = (size_t)(c->columns ? c->lines + span
                                           : c->lines * span)};
    s.bytes = (s.bytes + 6) * tn_dtype_bytes(dtype);
    s.memory = malloc(s.bytes);
    if (!s.memory ||
        h.plugin->buffer_alloc(h.device, s.bytes, &s.view.buffer) != TN_OK)
        bail_out("no memory: %s", by_hand_failure());
    memset(s.memory, 0x11, s.bytes);
    return s;
}

static void side_free(side *s)
{
    h.plugin->buffer_free(h.device, s->view.buffer);
    free(s->memory);
}

static unsigned char *side_at(const side *s, int64_t line, int64_t i)
{
    return s->memory + (size_t)(s->view.offset + line * s->view.stride[0] +
                                (line >= s->half) + i * s->view.stride[1]) *
                           tn_dtype_bytes(s->view.dtype);
}

static bool is_float(tn_dtype dtype)
{
    return tn_dtype_is_floating(dtype);
}

static tn_number decode(tn_dtype dtype, const unsigned char *from)
{
    const unsigned bits = 8 * (unsigned)tn_dtype_bytes(dtype);
    tn_number x = {.i = 0};
    float single;
    memcpy(&x, from, bits / 8);
    if (dtype == TN_F32) {
        memcpy(&single, from, sizeof single);
        x.f = (double)single;
    } else if (is_float(dtype) && dtype != TN_F64) {
        x.f = (double)tn__narrow_decode(dtype, (uint32_t)x.i);
    } else if (dtype == TN_I8 || dtype == TN_I16 || dtype == TN_I32) {
        const int64_t sign = (int64_t)1 << (bits - 1);
        x.i = (x.i ^ sign) - sign;
    }
    return x;
}

/* Fills with arbitrary codes; floats are often zeros, infinities or NaN. */
static void fill(side *s, const sort_case *c)
{
    const unsigned bits = 8 * (unsigned)tn_dtype_bytes(c->dtype);
    const uint64_t sign = (uint64_t)1 << (bits - 1);
    const uint64_t infinity = c->dtype == TN_F64      ? 0x7ff0000000000000
                              : c->dtype == TN_F32    ? 0x7f800000
                              : c->dtype == TN_F16    ? 0x7c00
                              : c->dtype == TN_BF16   ? 0x7f80
                              : c->dtype == TN_F8E5M2 ? 0x7c
                                                      : 0x7f;
    const uint64_t limits[] = {0, infinity, infinity | 1, sign - 1, 1,
                               infinity - 1};
    for (int64_t l = 0; l < c->lines; l++)
        for (int64_t i = 0; i < c->length; i++) {
            uint64_t x = random_bits(&source);
            if (c->dtype == TN_BOOL)
                x &= 1;
            else if (c->few_values)
                x = x % 3 << (bits - 4);
            else if (random_below(&source, 4) == 0)
                x = limits[random_below(&source, 6)] | (x & sign);
            memcpy(side_at(s, l, i), &x, bits / 8);
        }
}

/* ---- expected order ------------------------------------------------------ */

static const side *ordered;
static const sort_case *asked;
static int64_t ordered_line;

static int compare(const void *a, const void *b)
{
    const int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    const tn_number x = decode(asked->dtype, side_at(ordered, ordered_line, i));
    const tn_number y = decode(asked->dtype, side_at(ordered, ordered_line, j));
    int way;
    if (!is_float(asked->dtype))
        way = (x.i > y.i) - (x.i < y.i);
    else if (isnan(x.f) || isnan(y.f))
        way = isnan(x.f) - isnan(y.f);
    else
        way = (x.f > y.f) - (x.f < y.f);
    if (asked->flags & TN_SORT_DESCENDING)
        way = -way;
    return way ? way : (i > j) - (i < j);
}

/* Writes the expected values and indices into copies of the outputs' original
 * memory. */
static void put_in_order(const sort_case *c, const side *in, side *out,
                         side *index)
{
    int64_t *order = calloc((size_t)c->length + 1, sizeof *order);
    if (!order)
        bail_out("no memory");
    ordered = in;
    asked = c;
    for (ordered_line = 0; ordered_line < c->lines; ordered_line++) {
        for (int64_t i = 0; i < c->length; i++)
            order[i] = i;
        qsort(order, (size_t)c->length, sizeof *order, compare);
        for (int64_t i = 0; i < c->keep && i < c->length; i++) {
            memcpy(side_at(out, ordered_line, i),
                   side_at(in, ordered_line, order[i]),
                   tn_dtype_bytes(c->dtype));
            memcpy(side_at(index, ordered_line, i), &order[i],
                   sizeof *order);
        }
    }
    free(order);
}

/* ---- running a case ------------------------------------------------------ */

/* Returns whether the device's bytes equal those of s; all NaNs are equal. The
 * positions of the order before `from` may hold anything. */
static bool is_there(const side *s, const sort_case *c, int64_t from)
{
    const size_t bytes = tn_dtype_bytes(s->view.dtype);
    side got = *s;
    got.memory = malloc(s->bytes);
    if (!got.memory || by_hand_copy(&h, s->view.buffer, 0, got.memory,
                                    s->bytes, false) != TN_OK)
        bail_out("no copy: %s", by_hand_failure());
    for (int64_t l = 0; l < c->lines; l++)
        for (int64_t i = 0; i < from; i++)
            memcpy(side_at(&got, l, i), side_at(s, l, i), bytes);
    for (size_t at = 0; is_float(s->view.dtype) && at < s->bytes; at += bytes)
        if (isnan(decode(s->view.dtype, got.memory + at).f) &&
            isnan(decode(s->view.dtype, s->memory + at).f))
            memcpy(got.memory + at, s->memory + at, bytes);
    const bool same = memcmp(got.memory, s->memory, s->bytes) == 0;
    free(got.memory);
    return same;
}

/* Describes an even number of lines as two dimensions of lines. */
static void split_lines(tn_sort_args *s)
{
    tn_strided *const view[] = {&s->in, &s->out, &s->out_index};
    s->ndim = 3;
    s->extent[2] = s->extent[1];
    s->extent[1] = s->extent[0] / 2;
    s->extent[0] = 2;
    for (int i = 0; i < 3; i++) {
        view[i]->ndim = 3;
        view[i]->stride[2] = view[i]->stride[1];
        view[i]->stride[1] = view[i]->stride[0];
        view[i]->stride[0] *= s->extent[1] + 1;
    }
}

static bool is_right(const sort_case *c)
{
    side in = side_new(c, c->dtype, c->length, c->in_stride);
    side out = side_new(c, c->dtype, c->keep, c->out_stride);
    side index = side_new(c, TN_I64, c->keep, -c->out_stride);
    side *const all[] = {&in, &out, &index};
    tn_sort_args s = {.size = sizeof s, .ndim = 2, .flags = c->flags,
                      .extent = {c->lines, c->length}, .keep = c->keep,
                      .in = in.view, .out = out.view,
                      .out_index = index.view};
    bool right = true;
    if (c->columns && c->lines % 2 == 0)
        split_lines(&s);
    fill(&in, c);
    for (int i = 0; i < 3; i++)
        right = right && by_hand_copy(&h, all[i]->view.buffer, 0,
                                      all[i]->memory, all[i]->bytes,
                                      true) == TN_OK;
    right = right && h.plugin->sort(h.queue, &s) == TN_OK;
    put_in_order(c, &in, &out, &index);
    const int64_t from =
        c->flags & TN_SORT_LAST && c->keep > 0 ? c->keep - 1 : 0;
    right = right && is_there(&in, c, 0) && is_there(&out, c, from) &&
            is_there(&index, c, from);
    for (int i = 0; i < 3; i++)
        side_free(all[i]);
    if (!right)
        note("%s, %d %s of %d, %d kept, strides %d and %d, flags %u%s: %s",
             tn_dtype_name(c->dtype), (int)c->lines,
             c->columns ? "columns" : "lines", (int)c->length,
             (int)c->keep, (int)c->in_stride, (int)c->out_stride,
             (unsigned)c->flags, c->few_values ? ", few values" : "",
             by_hand_failure());
    by_hand_forget();
    return right;
}

/* Tests one length with every dtype. The other properties of the cases
 * alternate. */
static void test_length(int64_t length, int64_t lines, int each, bool columns)
{
    static const int64_t strides[] = {1, -1, 2, -3};
    const int64_t keeps[] = {length, 1,          length / 3, length - 1,
                             0,      length / 2, length,     length / 7};
    enum { KEEPS = sizeof keeps / sizeof *keeps };
    int wrong = 0, count = 0;
    unsigned turn = (unsigned)length;
    for (tn_dtype dtype = 1; dtype < TN_DTYPE_END; dtype++)
        for (int i = 0; i < each; i++, turn += 5) {
            sort_case c = {.dtype = dtype, .lines = lines, .length = length,
                           .keep = keeps[turn / 2 % KEEPS],
                           .in_stride = strides[turn % 4],
                           .out_stride = strides[turn / 3 % 4],
                           .flags = turn & 1 ? TN_SORT_DESCENDING : 0,
                           .few_values = turn % 3 == 0,
                           .columns = columns};
            c.keep = c.keep < 0 ? 0 : c.keep;
            if (turn % 4 == 2)
                c.flags |= TN_SORT_LAST;
            if (!(h.info.storage_types >> dtype & 1) ||
                (float32_alone && dtype != TN_F32))
                continue;
            count++;
            wrong += !is_right(&c);
        }
    is_int(wrong, 0, "%d %s of %d are in order, %d times", (int)lines,
           columns ? "columns" : "lines", (int)length, count);
}

static void test_plugin(const char *name)
{
    static const int64_t short_ones[] = {0, 1, 2, 3, 64, 65, 255, 256, 257};
    static const int64_t long_ones[] = {1535, 1537, 2048, 3071, 3072, 3073,
                                        5000};
    static const struct {
        int64_t length, columns;
    } side_by_side[] = {{1, 5},   {2, 37},  {15, 16}, {17, 4},
                        {64, 66}, {257, 3}, {600, 21}, {3000, 42}};
    const sort_case all = {.dtype = TN_F32, .lines = 1, .length = 70000,
                           .keep = 70000, .in_stride = 1, .out_stride = 1};
    const sort_case some = {.dtype = TN_F32, .lines = 2, .length = 70000,
                            .keep = 5000, .in_stride = 1, .out_stride = 1,
                            .flags = TN_SORT_DESCENDING};
    int wrong = 0;
    if (!by_name_open(&h, name, NULL))
        bail_out("%s", by_hand_failure());
    for (size_t i = 0; i < sizeof short_ones / sizeof *short_ones; i++)
        test_length(short_ones[i], 5, 4, false);
    for (size_t i = 0; i < sizeof long_ones / sizeof *long_ones; i++)
        test_length(long_ones[i], 3, 1, false);
    for (size_t i = 0; i < sizeof side_by_side / sizeof *side_by_side; i++)
        test_length(side_by_side[i].length, side_by_side[i].columns,
                    side_by_side[i].length > 1000 ? 1 : 4, true);
    ok(is_right(&all), "a row of 70000 is in order");
    ok(is_right(&some), "and the first 5000 of two");
    for (int i = 0; i < 12 && !float32_alone; i++) {
        const sort_case bools = {.dtype = TN_BOOL, .lines = 2,
                                 .length = 100 + 97 * i,
                                 .keep = i % 3 ? 60 + 85 * i : 100 + 97 * i,
                                 .in_stride = 1,
                                 .out_stride = i & 1 ? 1 : -1,
                                 .flags = i & 2 ? TN_SORT_DESCENDING : 0};
        wrong += !is_right(&bools);
    }
    is_int(wrong, 0, "rows of bools are in order, 12 times");
    wrong = 0;
    for (int i = 0; i < 36; i++) {
        const sort_case last = {.dtype = i & 1 && !float32_alone ? TN_I32
                                                                 : TN_F32,
                                .lines = 1, .length = 1 + 211 * i,
                                .keep = 1 + (1 + 211 * i) * (i % 7) / 7,
                                .in_stride = 1, .out_stride = 1,
                                .flags = TN_SORT_LAST |
                                         (i & 2 ? TN_SORT_DESCENDING : 0u),
                                .few_values = i % 3 != 0};
        wrong += !is_right(&last);
    }
    is_int(wrong, 0, "the last of the first so many, 36 times");
    by_hand_close(&h);
}

int main(void)
{
    const char *name = getenv("TENON_TEST_PLUGIN");
    float32_alone = getenv("TENON_TEST_FLOAT32") != NULL;
    source.state = 7;
    plan_later();
    test_plugin(name ? name : "cpu");
    if (!name)
        test_plugin("reference");
    return done_testing();
}
