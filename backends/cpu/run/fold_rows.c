/* fold_rows.c: reductions (sum, prod, max, min, argmax, argmin) over blocks, in
 * the order of summation that plugin_program.h fixes.
 *
 * Contiguous rows are reduced several chunks at a time. Columns are rows that
 * are interleaved in memory, x[element][row]. They are reduced together, in
 * lanes[lane][row]. In both cases a binary tree combines the results of a row's
 * chunks. tree[level] holds the result of 2^level chunks. Two results of the
 * same level are combined to one of the next level. */
#include <math.h>
#include <string.h>

#include "fold_rows.h"

#define LEVELS 44 /* 2^44 chunks have 2^54 elements, more than any row */

/* Returns whether the reduction is an ARGMAX or ARGMIN. */
static bool is_arg(const cpu_reduce *reduce)
{
    return reduce->kind >= TN_REDUCE_ARGMAX;
}

static size_t round_up(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

size_t tn__cpu_fold_bytes(const cpu_code *code, int64_t rows, bool columns)
{
    size_t bytes = 0, r = (size_t)rows;
    for (uint32_t i = 0; i < code->reduce_count; i++) {
        size_t value = tn__cpu_type_bytes[code->reduce[i].type];
        bytes += round_up((columns ? TN_LANES : 1) * r * value);
        bytes += round_up(LEVELS * r * value) + round_up(8 * r);
    }
    return bytes;
}

void tn__cpu_fold_place(cpu_fold *fold, const cpu_code *code,
                        const tn_cpu_routines *routines, int64_t rows,
                        bool columns, int64_t ahead, char *memory)
{
    size_t r = (size_t)rows;
    for (uint32_t i = 0; i < code->reduce_count; i++) {
        size_t value = tn__cpu_type_bytes[code->reduce[i].type];
        fold[i].reduce = &code->reduce[i];
        fold[i].routines = routines;
        fold[i].ahead = ahead;
        fold[i].lanes = memory;
        memory += round_up((columns ? TN_LANES : 1) * r * value);
        fold[i].tree = memory;
        memory += round_up(LEVELS * r * value);
        fold[i].place = (int64_t *)memory;
        memory += round_up(8 * r);
    }
}

void tn__cpu_fold_begin(cpu_fold *fold)
{
    fold->chunks = fold->open = 0;
}

/* Returns the routine that combines two partial results, such as an
 * addition. */
static tn_cpu_run *combine(const cpu_fold *fold)
{
    static const uint8_t op[] = {
        [TN_REDUCE_SUM] = TN_K_ADD,
        [TN_REDUCE_PROD] = TN_K_MUL,
        [TN_REDUCE_MAX] = TN_K_MAX,
        [TN_REDUCE_MIN] = TN_K_MIN,
    };
    return fold->routines->op[op[fold->reduce->kind]][fold->reduce->type];
}

/* Adds value[row], the results of the next 2^height chunks of each row, to the
 * tree of partial results (fold_rows.c, top). The number of chunks already in
 * the tree must be a multiple of 2^height. Overwrites value. */
static void push(cpu_fold *fold, tn_cpu_run *run, size_t bytes, int64_t rows,
                 char *value, int height)
{
    char *level = fold->tree + (size_t)height * bytes * (size_t)rows;
    int64_t left = fold->chunks >> height;
    fold->chunks += (int64_t)1 << height;
    for (; left & 1; left >>= 1) {
        run(value, level, value, value, rows, 0);
        level += bytes * (size_t)rows;
    }
    memcpy(level, value, bytes * (size_t)rows);
}

/* For columns: combines the TN_LANES partial results of the current chunk and
 * adds the result to the tree. */
static void close_chunk(cpu_fold *fold, tn_cpu_run *run, size_t bytes,
                        int64_t rows)
{
    int64_t have = tn__cpu_min(fold->open, TN_LANES);
    for (int64_t half = TN_LANES / 2; half > 0; half /= 2) {
        int64_t count = tn__cpu_min(half, have - half);
        if (count > 0)
            run(fold->lanes, fold->lanes,
                fold->lanes + (size_t)(half * rows) * bytes, fold->lanes,
                count * rows, 0);
    }
    fold->open = 0;
    push(fold, run, bytes, rows, fold->lanes, 0);
}

/* Adds a block of columns to a reduction. Not for ARGMAX and ARGMIN. */
static void block_columns(cpu_fold *fold, const char *x, int64_t step,
                          int64_t count, int64_t rows)
{
    size_t bytes = tn__cpu_type_bytes[fold->reduce->type];
    tn_cpu_columns *take =
        fold->routines->columns[fold->reduce->kind][fold->reduce->type];
    while (count > 0) {
        int64_t n = tn__cpu_min(TN_CHUNK - fold->open, count);
        take(fold->lanes, x, step, fold->open, n, rows);
        fold->open += n;
        x += n * step * (ptrdiff_t)bytes; /* step may be negative, so the
                                           * product is signed */
        count -= n;
        if (fold->open == TN_CHUNK)
            close_chunk(fold, combine(fold), bytes, rows);
    }
}

/* Adds a block to an ARGMAX or ARGMIN. */
static void block_arg(cpu_fold *fold, const char *x, int64_t step, int64_t k,
                      int64_t count, int64_t rows, bool columns)
{
    size_t bytes = tn__cpu_type_bytes[fold->reduce->type];
    int64_t run = columns ? 1 : TN_CHUNK;
    for (int64_t i = 0; i < count; i += run) {
        const char *at = x + i * (columns ? step : 1) * (ptrdiff_t)bytes;
        int fresh = fold->chunks == 0;
        if (columns)
            fold->routines->arg_columns[fold->reduce->kind][fold->reduce->type](
                fold->tree, fold->place, at, rows, k + i, fresh);
        else
            fold->routines->arg[fold->reduce->kind][fold->reduce->type](
                fold->tree, fold->place, at, tn__cpu_min(run, count - i), k + i,
                fresh);
        fold->chunks++;
    }
}

enum { BATCH_HEIGHT = 6, BATCH = 1 << BATCH_HEIGHT };
_Static_assert(BATCH == TN_CPU_FOLD_BATCH, "one number");

/* Reduces value[0 .. 2^height), the results of chunks, as a binary tree: adds
 * value[1] to value[0] and value[3] to value[2], then value[2] to value[0].
 * Stores the final result in value[0]. The values are first put in bit-reversed
 * order. Each level of the tree then combines the first half of the array with
 * the second half, in one call of the routine. */
static void fold_batch(char *value, tn_cpu_run *run, size_t bytes, int height)
{
#define REVERSED_4(n) n, n + 32, n + 16, n + 48
#define REVERSED(n)                                                           \
    REVERSED_4(n), REVERSED_4(n + 8), REVERSED_4(n + 4), REVERSED_4(n + 12)
    static const uint8_t reversed[BATCH] = {REVERSED(0), REVERSED(2),
                                            REVERSED(1), REVERSED(3)};
    const size_t count = (size_t)1 << height;
    const int shift = BATCH_HEIGHT - height;
    char half[BATCH * sizeof(uint64_t)];
    for (size_t i = 0; i < count; i++) {
        const size_t from = reversed[i] >> shift;
        if (bytes == 4)
            memcpy(half + 4 * i, value + 4 * from, 4);
        else if (bytes == 8)
            memcpy(half + 8 * i, value + 8 * from, 8);
        else
            half[i] = value[from];
    }
    for (size_t n = count / 2; n > 0; n /= 2)
        run(half, half, half + n * bytes, half, (int64_t)n, 0);
    memcpy(value, half, bytes);
}

/* Adds value[chunk][row], the results of the rows' next chunks, to the tree of
 * partial results. If there is one row, as many chunks as form a whole subtree
 * are first combined. Overwrites value. */
static void push_chunks(cpu_fold *fold, tn_cpu_run *run, size_t bytes,
                        int64_t rows, char *value, int64_t chunks)
{
    enum { LEAST = 2 };
    while (chunks > 0) {
        int height = rows == 1 ? BATCH_HEIGHT : 0;
        while (chunks >> height == 0 ||
               fold->chunks & (((int64_t)1 << height) - 1))
            height--;
        if (height < LEAST)
            height = 0;
        else
            fold_batch(value, run, bytes, height);
        push(fold, run, bytes, rows, value, height);
        value += ((size_t)rows << height) * bytes;
        chunks -= (int64_t)1 << height;
    }
}

void tn__cpu_fold_push(cpu_fold *fold, int64_t rows, void *value,
                       int64_t chunks)
{
    push_chunks(fold, combine(fold), tn__cpu_type_bytes[fold->reduce->type],
                rows, value, chunks);
}

void tn__cpu_fold_block(cpu_fold *fold, const void *x, int64_t step, int64_t k,
                        int64_t count, int64_t rows, bool columns)
{
    if (is_arg(fold->reduce)) {
        block_arg(fold, x, step, k, count, rows, columns);
        return;
    }
    if (columns) {
        block_columns(fold, x, step, count, rows);
        return;
    }
    size_t bytes = tn__cpu_type_bytes[fold->reduce->type];
    tn_cpu_run *run = combine(fold);
    tn_cpu_fold *fold_chunks =
        fold->routines->fold[fold->reduce->kind][fold->reduce->type];
    enum { SOON = 2048 }; /* bytes */
    const char *at = x;
    while (count > 0) {
        uint64_t memory[BATCH];
        char *value = (char *)memory;
        int64_t length = tn__cpu_min(TN_CHUNK, count);
        int64_t chunks = tn__cpu_min(count / length, BATCH);
        fold_chunks(value, at, length, chunks, length, fold->ahead);
        at += (size_t)(chunks * length) * bytes;
        count -= chunks * length;
        /* Prefetches here, because memory would be idle while the tree is
         * updated. */
        if (chunks > 1)
            tn__cpu_prefetch(at, SOON);
        push_chunks(fold, run, bytes, 1, value, chunks);
    }
}

void tn__cpu_fold_column_products(cpu_fold *fold,
                                  tn_cpu_column_products products,
                                  int64_t count, int64_t rows)
{
    while (count > 0) {
        int64_t n = tn__cpu_min(TN_CHUNK - fold->open, count);
        fold->routines->columns_products(fold->lanes, &products, fold->open, n,
                                         rows);
        fold->open += n;
        products.x = (const float *)products.x + n * products.x_step;
        products.y = (const float *)products.y + n * products.y_step;
        products.center =
            (const float *)products.center + n * products.center_step;
        products.scale =
            (const float *)products.scale + n * products.scale_step;
        count -= n;
        if (fold->open == TN_CHUNK)
            close_chunk(fold, combine(fold), sizeof(float), rows);
    }
}

void tn__cpu_fold_products(cpu_fold *fold, const tn_cpu_factor *factor,
                           int64_t count)
{
    size_t bytes = tn__cpu_type_bytes[fold->reduce->type];
    tn_cpu_factor at[2] = {factor[0], factor[1]};
    at[0].center_step = at[1].center_step = 0;
    while (count > 0) {
        uint64_t memory[BATCH];
        int64_t length = tn__cpu_min(TN_CHUNK, count);
        int64_t chunks = tn__cpu_min(count / length, BATCH);
        at[0].step = at[1].step = length;
        fold->routines->fold_products[fold->reduce->type](memory, at, length,
                                                          chunks);
        push_chunks(fold, combine(fold), bytes, 1, (char *)memory, chunks);
        for (int i = 0; i < 2; i++)
            at[i].at = (const char *)at[i].at + (size_t)(chunks * length) *
                                                    bytes;
        count -= chunks * length;
    }
}

void tn__cpu_fold_product_rows(cpu_fold *fold, const tn_cpu_factor *factor,
                               int64_t rows, int64_t length, void *out)
{
    size_t bytes = tn__cpu_type_bytes[fold->reduce->type];
    if (length > 0 && length <= TN_CHUNK) {
        fold->routines->fold_products[fold->reduce->type](out, factor, length,
                                                          rows);
        return;
    }
    tn_cpu_factor at[2] = {factor[0], factor[1]};
    for (int64_t r = 0; r < rows; r++) {
        tn__cpu_fold_begin(fold);
        tn__cpu_fold_products(fold, at, length);
        tn__cpu_fold_end(fold, 1, (char *)out + (size_t)r * bytes);
        for (int i = 0; i < 2; i++) {
            at[i].at = (const char *)at[i].at + at[i].step * (int64_t)bytes;
            if (at[i].center)
                at[i].center = (const char *)at[i].center + bytes;
        }
    }
}

void tn__cpu_fold_join(cpu_fold *fold, const cpu_fold *part, char *part_value,
                       int64_t rows)
{
    size_t bytes = tn__cpu_type_bytes[fold->reduce->type];
    if (!is_arg(fold->reduce)) {
        push(fold, combine(fold), bytes, rows, part_value, 0);
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        int64_t better = -1;
        fold->routines->arg[fold->reduce->kind][fold->reduce->type](
            fold->tree + (size_t)r * bytes, &better,
            part->tree + (size_t)r * bytes, 1, 0, fold->chunks == 0);
        if (better == 0)
            fold->place[r] = part->place[r];
    }
    fold->chunks++;
}

/* Stores in value[] the result of a reduction of no elements, such as 0 for a
 * sum, in the result's register type. */
static void write_empty(const cpu_reduce *reduce, uint8_t *value)
{
    static const double floats[] = {0, 1, -INFINITY, INFINITY, 0, 0};
    static const int64_t wide[] = {0, 1, INT64_MIN, INT64_MAX, 0, 0};
    static const int64_t narrow[] = {0, 1, INT32_MIN, INT32_MAX, 0, 0};
    unsigned type = reduce->type, kind = reduce->kind;
    bool is_float = type == CPU_F32 || type == CPU_F64;
    if (is_float)
        tn__cpu_number_store(value, type, (tn_number){.f = floats[kind]});
    else if (type == CPU_BOOL)
        tn__cpu_number_store(value, type,
                             (tn_number){.i = kind == TN_REDUCE_PROD ||
                                              kind == TN_REDUCE_MIN});
    else
        tn__cpu_number_store(
            value, type,
            (tn_number){.i = type == CPU_I64 ? wide[kind] : narrow[kind]});
}

void tn__cpu_fold_end(cpu_fold *fold, int64_t rows, void *out)
{
    size_t bytes = tn__cpu_type_bytes[fold->reduce->type];
    uint8_t empty[8];
    if (is_arg(fold->reduce)) {
        if (fold->chunks > 0)
            memcpy(out, fold->place, 8 * (size_t)rows);
        else
            memset(out, 0, 8 * (size_t)rows);
        return;
    }
    tn_cpu_run *run = combine(fold);
    if (fold->open > 0)
        close_chunk(fold, run, bytes, rows);
    if (fold->chunks == 0) {
        write_empty(fold->reduce, empty);
        fold->routines->fill[fold->reduce->type](out, empty, NULL, NULL, rows,
                                                 0);
        return;
    }
    /* Higher levels hold the results of earlier chunks, so they are the left
     * operands of the combination. */
    bool any = false;
    const char *level = fold->tree;
    for (int64_t left = fold->chunks; left; left >>= 1) {
        if ((left & 1) && any)
            run(out, level, out, out, rows, 0);
        else if (left & 1)
            memcpy(out, level, bytes * (size_t)rows);
        any = any || (left & 1);
        level += bytes * (size_t)rows;
    }
}

void tn__cpu_fold_rows(cpu_fold *fold, const void *x, int64_t step,
                       int64_t rows, int64_t length, bool columns, void *out)
{
    size_t bytes = tn__cpu_type_bytes[fold->reduce->type];
    if (columns) {
        tn__cpu_fold_begin(fold);
        tn__cpu_fold_block(fold, x, step, 0, length, rows, true);
        tn__cpu_fold_end(fold, rows, out);
        return;
    }
    size_t out_bytes = is_arg(fold->reduce) ? 8 : bytes;
    if (length > 0 && length <= TN_CHUNK && !is_arg(fold->reduce)) {
        fold->routines->fold[fold->reduce->kind][fold->reduce->type](
            out, x, length, rows, length, fold->ahead);
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        const char *row = (const char *)x + (size_t)(r * length) * bytes;
        tn__cpu_fold_begin(fold);
        tn__cpu_fold_block(fold, row, 1, 0, length, 1, false);
        tn__cpu_fold_end(fold, 1, (char *)out + (size_t)r * out_bytes);
    }
}
