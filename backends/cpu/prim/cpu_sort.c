/* cpu_sort.c: sort, argsort, topk, kthvalue and median: stable sorts along the
 * last dimension. A line is one sequence of elements along that dimension.
 *
 * Values become unsigned keys whose order is the requested one. NaN has the
 * largest key, -0 has the key of +0, and for a descending order all bits are
 * flipped. An item is a key with the index of its element. If both have at most
 * 32 bits, an item is narrow: one 64-bit integer with the key in the upper
 * half. Otherwise it is wide: a struct. Indices break ties, which makes the
 * sort stable. If all 64-bit keys of a line differ from their minimum by less
 * than 2^32, the difference replaces the key, so that items are narrow.
 *
 * Many items are sorted by radix sort, few by merge sort. If only the first few
 * elements of the order are requested, a heap suffices; for 32-bit keys only
 * the items in the heap are stored. A single element (TN_SORT_LAST) is selected
 * by comparing keys with a sample of them, or for 64-bit keys digit by digit.
 * Bools are sorted as two lists of indices. */
#include <stdlib.h>
#include <string.h>

#include "../cpu_device.h"
#include "../simd/scalar.h"

#define BLOCK 512
#define TASK_POINTS 16384
/* For at least this many items, radix sort is faster than merge sort. */
#define RADIX_FROM 512

typedef struct wide_item {
    uint64_t key;
    int64_t place;
} wide_item;

typedef struct work {
    const tn_sort_args *s;
    const tn_cpu_routines *routines;
    unsigned type, key_bits;
    /* True if all items (a key and an index) fit in 64 bits. If keys have 64
     * bits, it is false, and run_line decides for each line. */
    bool narrow;
    int64_t lines, lines_per_task;
    /* `side` is the number of adjacent lines: lines whose elements of equal
     * index are contiguous in memory. `transposed` is the number of them that
     * are transposed and sorted at a time, or 0 if each line is sorted without
     * transposing. */
    int64_t side, transposed;
    atomic_int failed; /* 1 if a task is out of memory */
} work;

/* ---- keys ---------------------------------------------------------------- */

/* Maps a float to an unsigned integer, so that the integers have the order of
 * the floats. */
static uint32_t key_f32(float x)
{
    uint32_t u = bits_f32(x == 0 ? 0.0f : x);
    u ^= (uint32_t)((int32_t)u >> 31) | 0x80000000u;
    return x != x ? UINT32_MAX : u;
}

static uint64_t key_f64(double x)
{
    uint64_t u = bits_f64(x == 0 ? 0.0 : x);
    u ^= (uint64_t)((int64_t)u >> 63) | (uint64_t)1 << 63;
    return x != x ? UINT64_MAX : u;
}

static uint64_t key_at(unsigned type, const void *block, int64_t i)
{
    switch (type) {
    case CPU_F32:
        return key_f32(((const float *)block)[i]);
    case CPU_F64:
        return key_f64(((const double *)block)[i]);
    case CPU_I32:
        return (uint32_t)((const int32_t *)block)[i] ^ 0x80000000u;
    case CPU_I64:
        return (uint64_t)((const int64_t *)block)[i] ^ (uint64_t)1 << 63;
    default:
        return ((const uint8_t *)block)[i];
    }
}

/* Reads the keys of a line, BLOCK values at a time. `stride` is in elements.
 * `bytes` is the size of an element. `flip` is XORed with each key. */
typedef struct reader {
    const work *w;
    const char *in;
    int64_t count, stride, bytes;
    uint64_t flip;
} reader;

static int64_t read_block(const reader *r, int64_t k, void *block)
{
    int64_t n = tn__cpu_min(BLOCK, r->count - k);
    r->w->routines->load[r->w->s->in.dtype](
        block, r->in + k * r->stride * r->bytes, r->stride, n);
    return n;
}

/* Returns whether all keys differ from their minimum by less than 2^32. If so,
 * sets *least to the minimum and *bits to the number of bits of the largest
 * difference. */
static bool find_range(const reader *r, uint64_t *least, unsigned *bits)
{
    uint64_t greatest = 0;
    int64_t block[BLOCK];
    *least = UINT64_MAX;
    for (int64_t k = 0, n; k < r->count; k += n) {
        n = read_block(r, k, block);
        for (int64_t i = 0; i < n; i++) {
            uint64_t key = key_at(r->w->type, block, i) ^ r->flip;
            *least = key < *least ? key : *least;
            greatest = key > greatest ? key : greatest;
        }
        if (greatest - *least > UINT32_MAX)
            return false;
    }
    for (*bits = 1; (greatest - *least) >> *bits; ++*bits)
        ;
    return true;
}

static void read_narrow(const reader *r, uint64_t least, uint64_t *items)
{
    int64_t block[BLOCK];
    for (int64_t k = 0, n; k < r->count; k += n) {
        n = read_block(r, k, block);
        if (r->w->type == CPU_F32)
            for (int64_t i = 0; i < n; i++)
                items[k + i] =
                    (key_f32(((const float *)block)[i]) ^ r->flip) << 32 |
                    (uint64_t)(k + i);
        else
            for (int64_t i = 0; i < n; i++)
                items[k + i] =
                    ((key_at(r->w->type, block, i) ^ r->flip) - least) << 32 |
                    (uint64_t)(k + i);
    }
}

static void read_wide(const reader *r, wide_item *items)
{
    int64_t block[BLOCK];
    for (int64_t k = 0, n; k < r->count; k += n) {
        n = read_block(r, k, block);
        for (int64_t i = 0; i < n; i++)
            items[k + i] = (wide_item){
                key_at(r->w->type, block, i) ^ r->flip, k + i};
    }
}

/* ---- orders -------------------------------------------------------------- */

/* Returns whether a heap is the fastest way to find the first `keep` of `count`
 * items. */
static bool is_few(int64_t keep, int64_t count)
{
    return keep < count / 8;
}

#define ITEM uint64_t
#define NAMED(name) name##_narrow
#define DIGIT(x, shift) ((x) >> 32 >> (shift))
#define BEFORE(a, b) ((a) < (b))
#include "sort_orders.inc"

#define ITEM wide_item
#define NAMED(name) name##_wide
#define DIGIT(x, shift) ((x).key >> (shift))
#define BEFORE(a, b)                                                          \
    ((a).key < (b).key || ((a).key == (b).key && (a).place < (b).place))
#include "sort_orders.inc"

/* Returns the item (key and index) with rank `rank`, counted from 0, in the
 * sorted order. Processes the digits of the keys, the highest first. After each
 * digit, retains only the items with the same digit as the item with this rank.
 * items[] must have space for twice `count` items. */
static wide_item at_rank(wide_item *items, int64_t count, int64_t rank,
                           unsigned bits)
{
    enum { WIDE = 11, NARROW = 8, FEW = 64 };
    int64_t counts[1 << WIDE];
    while (count > FEW && bits > 0) {
        unsigned most = count >= 16384 ? WIDE : NARROW;
        unsigned width = bits < most ? bits : most;
        uint64_t mask = ((uint64_t)1 << width) - 1, digit = 0;
        int64_t left = 0;
        bits -= width;
        memset(counts, 0, (mask + 1) * sizeof *counts);
        for (int64_t i = 0; i < count; i++)
            counts[(items[i].key >> bits) & mask]++;
        while (rank >= counts[digit])
            rank -= counts[digit++];
        for (int64_t i = 0; i < count; i++) {
            wide_item x = items[i];
            /* If the digit differs, the next item overwrites this one. */
            items[left] = x;
            left += ((x.key >> bits) & mask) == digit;
        }
        count = left;
    }
    /* All digits are processed: the remaining keys are equal, and their items
     * are in the original order. */
    if (bits == 0)
        return items[rank];
    return sort_merge_wide(items, items + count, count)[rank];
}

/* ---- the first few of many 32-bit keys ----------------------------------- */

enum {
    GROUP = 32, /* number of keys that are compared with the bound at a time */
    /* Largest number of elements of a line (sequence to sort) in which
     * read_short selects. */
    SHORT = 8192,
    /* Largest `keep` (number of sorted elements that are requested) for which
     * read_short selects. */
    MAX_SHORT_KEEP = TN_CPU_PARTS / 2,
};

/* Computes the signed 32-bit keys of n values. key and block must have space
 * for n rounded up to a multiple of TN_CPU_PARTS. */
static void read_signed(const reader *r, const void *block, int64_t n,
                        int32_t *key)
{
    n = (n + TN_CPU_PARTS - 1) / TN_CPU_PARTS * TN_CPU_PARTS;
    r->w->routines->keys(key, block, n, r->w->type == CPU_F32,
                         (int32_t)r->flip);
}

static uint64_t item_of(int32_t key, int64_t place)
{
    return (uint64_t)((uint32_t)key ^ 0x80000000u) << 32 | (uint64_t)place;
}

static int32_t key_of(uint64_t item)
{
    return (int32_t)((uint32_t)(item >> 32) ^ 0x80000000u);
}

/* Writes the first `keep` items of the order to heap[], sorted, without storing
 * the others. The heap holds the best items so far, and its root is the last of
 * them. GROUP keys at a time are compared with the root. Most groups have no
 * smaller key and are skipped. */
static void read_first(const reader *r, int64_t keep, uint64_t *heap)
{
    int64_t block[BLOCK] = {0}, have = 0;
    int32_t key[BLOCK];
    for (int64_t k = 0, n; k < r->count; k += n) {
        n = read_block(r, k, block);
        read_signed(r, block, n, key);
        int64_t i = 0;
        for (; i < n && have < keep; i++) {
            heap[have++] = item_of(key[i], k + i);
            if (have == keep)
                make_heap_narrow(heap, keep);
        }
        for (int64_t end; i < n; i = end) {
            int32_t bound = key_of(heap[0]), any = 0;
            end = tn__cpu_min(i + GROUP, n);
            if (end - i == GROUP) {
                for (int j = 0; j < GROUP; j++)
                    any |= key[i + j] < bound;
                if (!any)
                    continue;
            }
            for (; i < end; i++)
                if (key[i] < key_of(heap[0])) {
                    heap[0] = item_of(key[i], k + i);
                    sift_down_narrow(heap, keep, 0);
                }
        }
    }
    sort_heap_narrow(heap, keep);
}

/* Reads all keys of the line and pads them to a multiple of TN_CPU_PARTS, as
 * the routines that compare them require. Returns the number of keys, including
 * the padding. */
static int64_t read_keys(const reader *r, int32_t *key)
{
    int64_t block[BLOCK] = {0}, i = r->count;
    for (int64_t k = 0, n; k < r->count; k += n) {
        n = read_block(r, k, block);
        read_signed(r, block, n, key + k);
    }
    for (; i % TN_CPU_PARTS; i++)
        key[i] = INT32_MAX;
    return i;
}

/* Returns the `keep` smallest items of a short line, sorted. The line is cut
 * into TN_CPU_PARTS interleaved parts. The keep-th smallest of the parts'
 * minima is a bound: at least `keep` keys of the line are less than or equal to
 * it. Only the keys up to this bound are sorted, usually few more than `keep`.
 * items[] must have space for all items, followed by the keys. */
static const uint64_t *read_short(const reader *r, int64_t keep,
                                  uint64_t *items)
{
    int32_t *key = (int32_t *)(items + r->count);
    int64_t i = read_keys(r, key);
    i = r->w->routines->firsts(items, key, i, (int32_t)keep);
    return order_narrow(items, tn__cpu_min(i, r->count), keep, 32);
}

/* Returns the index of the element with rank `rank`, counted from 0, in the
 * order. Compares keys with a sample of them (routines_order.c), which takes a
 * fifth of at_rank's time. key[] must have space for twice the number of padded
 * keys. */
static int64_t place_at(const reader *r, int64_t rank, int32_t *key)
{
    int64_t n = read_keys(r, key);
    return r->w->routines->place_at(key, n, rank, key + n);
}

/* ---- lines --------------------------------------------------------------- */

static int64_t line_offset(const tn_sort_args *s, const tn_strided *view,
                           int64_t line)
{
    int64_t offset = view->offset;
    for (uint32_t d = s->ndim - 1; d-- > 0; line /= s->extent[d])
        offset += line % s->extent[d] * view->stride[d];
    return offset;
}

static void copy_value(char *to, const char *from, int64_t bytes)
{
    switch (bytes) {
    case 1:
        *to = *from;
        return;
    case 2:
        memcpy(to, from, 2);
        return;
    case 4:
        memcpy(to, from, 4);
        return;
    default:
        memcpy(to, from, 8);
    }
}

/* Where the values and indices of a sorted line are written. */
typedef struct writer {
    const char *in;
    char *out;       /* values, or NULL if they are not requested */
    int64_t *places; /* indices, or NULL if they are not requested */
    /* `bytes` is the size of an element. `from` and `to` are the strides of in
     * and out in bytes. `to_place` is the stride of places in elements. */
    int64_t bytes, from, to, to_place;
} writer;

static void write_item(const writer *o, int64_t i, int64_t place)
{
    if (o->places)
        o->places[i * o->to_place] = place;
    if (o->out)
        copy_value(o->out + i * o->to, o->in + place * o->from, o->bytes);
}

/* Sorts a line of bools: writes the indices of the elements that come first,
 * then those of the others. Returns false, and writes nothing, if indices are
 * not requested, or if elements or indices are not contiguous. */
static bool write_bools(const writer *o, const work *w, int64_t count,
                        int64_t keep)
{
    const bool down = w->s->flags & TN_SORT_DESCENDING;
    const uint8_t *in = (const uint8_t *)o->in;
    if (o->from != 1 || !o->places || o->to_place != 1)
        return false;
    int64_t n = w->routines->places(o->places, keep, in, count, !down);
    if (o->out && o->to == 1) {
        memset(o->out, down, (size_t)n);
        memset(o->out + n, !down, (size_t)(keep - n));
    }
    for (int64_t i = 0; o->out && o->to != 1 && i < keep; i++)
        o->out[i * o->to] = i < n ? down : !down;
    w->routines->places(o->places + n, keep - n, in, count, down);
    return true;
}

#define PLACE(i)                                                              \
    (narrow ? (int64_t)(narrow[i] & UINT32_MAX) : wide[i].place)

/* Sorts one line. `items` is scratch memory for the items. */
static void run_line(const work *w, const writer *o, void *items)
{
    const tn_sort_args *s = w->s;
    int64_t count = s->extent[s->ndim - 1];
    int64_t keep = tn__cpu_min(s->keep, count);
    const uint64_t *narrow = NULL;
    const wide_item *wide = NULL;
    uint64_t least = 0, all = UINT64_MAX >> (64 - w->key_bits);
    unsigned bits = w->key_bits;
    const reader r = {.w = w, .in = o->in, .count = count,
                      .stride = o->from / o->bytes, .bytes = o->bytes,
                      .flip = s->flags & TN_SORT_DESCENDING ? all : 0};
    bool one = s->flags & TN_SORT_LAST;
    if (w->type == CPU_BOOL && write_bools(o, w, count, keep))
        return;
    if (one && w->narrow && w->type != CPU_BOOL) {
        write_item(o, keep - 1, place_at(&r, keep - 1, items));
        return;
    }
    if (!one && w->narrow && w->type != CPU_BOOL && is_few(keep, count)) {
        narrow = items;
        if (keep <= MAX_SHORT_KEEP && count >= TN_CPU_PARTS && count <= SHORT)
            narrow = read_short(&r, keep, items);
        else
            read_first(&r, keep, items);
    } else if (w->narrow || (!one && count >= RADIX_FROM &&
                             count <= UINT32_MAX &&
                             find_range(&r, &least, &bits))) {
        read_narrow(&r, least, items);
        narrow = order_narrow(items, count, keep, bits);
    } else {
        read_wide(&r, items);
        if (one) {
            write_item(o, keep - 1,
                       at_rank(items, count, keep - 1, bits).place);
            return;
        }
        wide = order_wide(items, count, keep, bits);
    }
    for (int64_t i = 0; o->places && i < keep; i++)
        o->places[i * o->to_place] = PLACE(i);
    if (o->bytes == 4)
        for (int64_t i = 0; o->out && i < keep; i++)
            memcpy(o->out + i * o->to, o->in + PLACE(i) * o->from, 4);
    else
        for (int64_t i = 0; o->out && i < keep; i++)
            copy_value(o->out + i * o->to, o->in + PLACE(i) * o->from,
                       o->bytes);
}

static writer writer_of(const tn_sort_args *s, int64_t line)
{
    const uint32_t last = s->ndim - 1;
    const int64_t bytes = tn__cpu_dtype_bytes[s->in.dtype];
    return (writer){
        .in = s->in.buffer->memory + line_offset(s, &s->in, line) * bytes,
        .out = s->out.buffer ? s->out.buffer->memory +
                                   line_offset(s, &s->out, line) * bytes
                             : NULL,
        .places = s->out_index.buffer
                      ? (int64_t *)s->out_index.buffer->memory +
                            line_offset(s, &s->out_index, line)
                      : NULL,
        .bytes = bytes,
        .from = s->in.stride[last] * bytes,
        .to = s->out.stride[last] * bytes,
        .to_place = s->out_index.stride[last],
    };
}

/* ---- adjacent lines ------------------------------------------------------ */

enum {
    /* Largest number of lines (sequences to sort) that are transposed at a
     * time: these lines fill whole cache lines. */
    MAX_TRANSPOSED = 16,
    /* Largest number of bytes of the transposed lines and their results. */
    TRANSPOSED_BYTES = 16 << 20,
    /* Number of elements of padding between transposed lines. Without it, lines
     * whose distance is a multiple of 4096 bytes would map to the same set of
     * L1 and evict each other. */
    GAP = 16,
};

/* Returns how many adjacent lines are transposed and sorted at a time, or 0 to
 * sort each line without transposing. Transposing is faster because reading and
 * writing strided elements takes longer than sorting them. */
static int64_t lines_at_a_time(const tn_sort_args *s)
{
    const uint32_t last = s->ndim - 1;
    if (last == 0 || s->extent[last] == 1 || s->in.stride[last - 1] != 1 ||
        (s->out.buffer && s->out.stride[last - 1] != 1) ||
        (s->out_index.buffer && s->out_index.stride[last - 1] != 1))
        return 0;
    const int64_t bytes = 2 * tn__cpu_dtype_bytes[s->in.dtype] + 8;
    const int64_t most = TRANSPOSED_BYTES / bytes / (s->extent[last] + GAP);
    const int64_t n =
        tn__cpu_min(tn__cpu_min(most, MAX_TRANSPOSED), s->extent[last - 1]);
    return n < 4 ? 0 : n;
}

/* Returns the bytes of n transposed lines and their results. They are stored
 * after the items. */
static size_t transposed_bytes(const work *w, int64_t n)
{
    return (size_t)(n * (w->s->extent[w->s->ndim - 1] + GAP)) *
           (2 * (size_t)tn__cpu_dtype_bytes[w->s->in.dtype] +
            sizeof(int64_t));
}

/* Sorts n adjacent lines (element i of all of them is contiguous) beginning
 * with line `first`: transposes them, sorts each, and transposes the results
 * back. `items` is scratch memory for the items, `room` scratch memory for the
 * transposed lines and results. */
static void run_transposed(const work *w, int64_t first, int64_t n, void *items,
                           char *room)
{
    const tn_sort_args *s = w->s;
    const int64_t count = s->extent[s->ndim - 1], step = count + GAP;
    const int64_t keep = tn__cpu_min(s->keep, count);
    const int64_t low = s->flags & TN_SORT_LAST ? keep - 1 : 0;
    const writer there = writer_of(s, first);
    const int64_t bytes = there.bytes;
    int64_t *places = (int64_t *)(void *)room;
    char *in = room + n * step * (int64_t)sizeof *places;
    char *out = in + n * step * bytes;
    w->routines->transpose[bytes](in, step, there.in, there.from / bytes, count,
                                  n, 0);
    for (int64_t i = 0; i < n; i++)
        run_line(w,
                 &(writer){.in = in + i * step * bytes,
                           .out = there.out ? out + i * step * bytes : NULL,
                           .places = there.places ? places + i * step : NULL,
                           .bytes = bytes, .from = bytes, .to = bytes,
                           .to_place = 1},
                 items);
    if (there.out)
        w->routines->transpose[bytes](there.out + low * there.to,
                                      there.to / bytes, out + low * bytes, step,
                                      n, keep - low, 0);
    if (there.places)
        w->routines->transpose[sizeof *places](
            there.places + low * there.to_place, there.to_place, places + low,
            step, n, keep - low, 0);
}

static void run_lines(void *context, int64_t i)
{
    work *w = context;
    int64_t first = i * w->lines_per_task;
    int64_t end = tn__cpu_min(first + w->lines_per_task, w->lines);
    size_t count = (size_t)w->s->extent[w->s->ndim - 1];
    const size_t bytes =
        2 * (count + TN_CPU_PARTS) *
        (w->narrow ? sizeof(uint64_t) : sizeof(wide_item));
    char *items = tn__cpu_scratch(bytes + transposed_bytes(w, w->transposed));
    if (!items) {
        atomic_store(&w->failed, 1);
        return;
    }
    unsigned fpu = tn__cpu_fpu_set();
    for (int64_t line = first, n = 1; line < end; line += n) {
        if (w->transposed) {
            n = tn__cpu_min(w->side - line % w->side, end - line);
            n = tn__cpu_min(n, w->transposed);
            run_transposed(w, line, n, items, items + bytes);
        } else {
            const writer o = writer_of(w->s, line);
            run_line(w, &o, items);
        }
    }
    tn__cpu_fpu_restore(fpu);
}

tn_status tn__cpu_sort(tn_queue *queue, const tn_sort_args *sort)
{
    work w = {.s = sort, .routines = queue->routines};
    if (!tn_sort_is_known(sort))
        return tn__cpu_unknown("sort");
    w.type = tn__cpu_register_type[sort->in.dtype];
    w.key_bits = w.type == CPU_F64 || w.type == CPU_I64 ? 64
                 : w.type == CPU_BOOL                   ? 1
                                                        : 32;
    int64_t count = sort->extent[sort->ndim - 1];
    w.narrow = w.key_bits <= 32 && count <= UINT32_MAX;
    w.lines = tn__cpu_numel(sort->extent, sort->ndim - 1);
    if (w.lines == 0 || count == 0 || sort->keep <= 0)
        return TN_OK;
    w.transposed = lines_at_a_time(sort);
    w.side = w.transposed ? sort->extent[sort->ndim - 2] : 1;
    int64_t least = tn__cpu_min(w.transposed, (w.side + 3) / 4);
    least = least > 0 ? least : 1;
    w.lines_per_task = TASK_POINTS / count;
    if (w.lines_per_task < least)
        w.lines_per_task = least;
    int64_t tasks = (w.lines + w.lines_per_task - 1) / w.lines_per_task;
    if (tasks == 1)
        run_lines(&w, 0);
    else
        tn__cpu_host->parallel_for(tasks, run_lines, &w);
    if (atomic_load(&w.failed))
        return tn__cpu_host->fail(TN_ERR_MEMORY,
                                  "sort: out of memory for %lld elements",
                                  (long long)count);
    return TN_OK;
}
