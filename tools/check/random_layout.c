/* random_layout.c: chooses the iteration space of a random program and the
 * strides and memory of its operands. */
#include "random_layout.h"

#include <stdlib.h>
#include <string.h>

#include "kernel/narrow_float.h"

void random_layout_extents(random_source *r, random_case *c, bool rows)
{
    static const uint8_t small[] = {1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 33};
    uint32_t outer = random_below(r, 4), row = 0;
    if (rows || random_chance(r, 20))
        row = random_below(r, 3);
    if (rows && row == 0 && random_chance(r, 80))
        row = 1;
    if (!rows && outer == 0 && random_chance(r, 80))
        outer = 1;
    int64_t limit = random_chance(r, 4)    ? 40000
                    : random_chance(r, 30) ? 5000
                                           : 500;
    /* One dimension is long. So a row may have several chunks of TN_CHUNK
     * elements, and any number of elements may remain after the last full
     * vector. */
    uint32_t ndim = outer + row, longest = ndim ? random_below(r, ndim) : 0;
    int64_t numel = 1;
    for (uint32_t d = 0; d < ndim; d++) {
        c->extent[d] = small[random_below(r, sizeof small)];
        if (numel * c->extent[d] > limit)
            c->extent[d] = 1;
        numel *= c->extent[d];
    }
    if (ndim > 0 && random_chance(r, 60)) {
        numel /= c->extent[longest];
        c->extent[longest] = random_between(r, 1, limit / numel);
    }
    if (ndim > 0 && random_chance(r, 3))
        c->extent[random_below(r, ndim)] = 0;
    c->aligned = ndim > 0 && random_chance(r, 15);
    if (c->aligned)
        c->extent[ndim - 1] = (c->extent[ndim - 1] + 15) / 16 * 16;
    c->launch.outer_ndim = outer;
    c->launch.row_ndim = row;
}

void random_layout_long_rows(random_source *r, random_case *c)
{
    c->launch.outer_ndim = c->launch.row_ndim = 1;
    c->extent[0] = random_between(r, 2, 9);
    c->extent[1] = random_between(r, 64, 300);
    c->aligned = random_chance(r, 50);
    if (c->aligned)
        c->extent[1] = (c->extent[1] + 15) / 16 * 16;
}

void random_layout_rows_of_chunks(random_source *r, random_case *c)
{
    const uint32_t outer = random_below(r, 2), row = 1 + random_below(r, 2);
    int64_t length = random_between(r, 2000, 9000);
    c->launch.outer_ndim = outer;
    c->launch.row_ndim = row;
    c->extent[0] = random_between(r, 1, 3);
    c->extent[outer] = row > 1 ? random_between(r, 2, 9) : 1;
    length /= c->extent[outer];
    c->aligned = random_chance(r, 30);
    c->extent[outer + row - 1] = c->aligned ? (length + 15) / 16 * 16 : length;
}

static void shuffle(random_source *r, uint32_t *item, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = i + random_below(r, count - i), kept = item[i];
        item[i] = item[j];
        item[j] = kept;
    }
}

/* Chooses the strides of operand k over the iteration space. Sets the number of
 * elements in memory that the operand spans, and the offset of its first
 * element. */
static void generate_strides(random_source *r, random_case *c, uint32_t k)
{
    uint32_t outer = c->launch.outer_ndim, ndim = outer + c->launch.row_ndim;
    const tn_kernel_operand *operand = &c->operand[k];
    bool writes = operand->access == TN_OPERAND_WRITE;
    uint32_t order[RANDOM_MAX_NDIM];
    for (uint32_t i = 0; i < ndim; i++)
        order[i] = ndim - 1 - i;
    if (!c->aligned && random_chance(r, 25))
        shuffle(r, order, ndim);
    /* whether to make the operand contiguous */
    bool plain = random_chance(r, c->aligned ? 80 : 40);
    int64_t step = plain || random_chance(r, 70) ? 1 : random_between(r, 2, 3);
    bool flips = !plain && random_chance(r, 30);
    bool drops = !plain && !writes && random_chance(r, 40);
    bool overlaps = !plain && !writes && random_chance(r, 15);
    for (uint32_t i = 0; i < ndim; i++) {
        uint32_t d = order[i];
        if (operand->level == TN_LEVEL_ROW && d >= outer)
            continue; /* one element for a row: this stride stays 0 */
        int64_t stride = overlaps ? random_between(r, -2, 2) : step;
        if (drops && random_chance(r, 50))
            stride = 0;
        else if (flips && random_chance(r, 50))
            stride = -stride;
        c->stride[k][d] = stride;
        if (!drops || stride != 0)
            step *= c->extent[d] ? c->extent[d] : 1;
        if (!plain && random_chance(r, 10))
            step += 1;
    }
}

static void generate_indices(random_source *r, random_case *c, uint32_t k)
{
    int64_t step = random_chance(r, 60) ? 1 : random_between(r, 1, 7);
    for (uint32_t d = 0; d < c->operand[k].index_count; d++) {
        c->index_extent[k][d] =
            random_chance(r, 4) ? 0 : random_between(r, 1, 12);
        c->index_stride[k][d] = random_chance(r, 15) ? -step : step;
        step *= random_chance(r, 70) ? c->index_extent[k][d] : 1;
    }
}

void random_layout_store(tn_dtype dtype, unsigned char *at, tn_number x)
{
    bool is_float = random_is_float(random_register_type(dtype));
    size_t size = random_dtype_bytes(dtype);
    float single = is_float ? (float)x.f : 0;
    uint64_t bits = (uint64_t)x.i;
    if (dtype == TN_F64)
        memcpy(at, &x.f, size);
    else if (dtype == TN_F32)
        memcpy(at, &single, size);
    else if (is_float)
        bits = tn__narrow_encode(dtype, single);
    if (dtype != TN_F64 && dtype != TN_F32)
        for (size_t byte = 0; byte < size; byte++)
            at[byte] = (unsigned char)(bits >> 8 * byte);
}

void random_layout_fill(random_source *r, tn_dtype dtype, unsigned char *data,
                        size_t bytes)
{
    bool tame = random_chance(r, 50);
    tn_dtype reg = random_register_type(dtype);
    size_t size = random_dtype_bytes(dtype);
    for (size_t at = 0; at + size <= bytes; at += size) {
        tn_number x;
        if (random_is_float(reg))
            x.f = random_float(r, tame);
        else
            x.i = reg == TN_BOOL ? random_below(r, 2) : random_int(r, tame);
        random_layout_store(dtype, data + at, x);
    }
}

bool random_layout_memory(random_source *r, random_case *c, uint32_t k)
{
    const tn_kernel_operand *operand = &c->operand[k];
    uint32_t ndim = c->launch.outer_ndim + c->launch.row_ndim;
    c->home[k] = k;
    if (operand->access == TN_OPERAND_OFFSET) {
        c->launch_operand[k].offset = random_between(r, -20, 20);
        return true;
    }
    int64_t low = 0, high = 0;
    for (uint32_t d = 0; d < ndim + operand->index_count; d++) {
        int64_t extent = d < ndim ? c->extent[d] : c->index_extent[k][d - ndim];
        int64_t stride =
            d < ndim ? c->stride[k][d] : c->index_stride[k][d - ndim];
        int64_t reach = extent > 0 ? (extent - 1) * stride : 0;
        *(reach < 0 ? &low : &high) += reach;
    }
    int64_t margin = c->aligned ? 16 : random_between(r, 0, 9);
    c->launch_operand[k].offset = margin - low;
    c->bytes[k] = (size_t)(high - low + 1 + margin + random_between(r, 0, 9)) *
                  random_dtype_bytes(operand->dtype);
    c->data[k] = malloc(c->bytes[k]);
    if (!c->data[k])
        return false;
    random_layout_fill(r, operand->dtype, c->data[k], c->bytes[k]);
    return true;
}

/* Lets output `out` share the memory of an input, as in an in-place operation:
 * both then have the same strides. */
static void share_memory(random_source *r, random_case *c, uint32_t out)
{
    uint32_t ndim = c->launch.outer_ndim + c->launch.row_ndim;
    for (uint32_t k = 0; k < out; k++) {
        const tn_kernel_operand *in = &c->operand[k];
        bool fits = in->access == TN_OPERAND_READ && in->index_count == 0 &&
                    in->level == c->operand[out].level &&
                    random_dtype_bytes(in->dtype) ==
                        random_dtype_bytes(c->operand[out].dtype) &&
                    c->home[k] == k;
        for (uint32_t i = k + 1; i < out; i++)
            fits = fits && c->home[i] != k; /* no other output shares this
                                             * input's memory */
        if (!fits || !random_chance(r, 40))
            continue;
        /* Both use the output's layout, because an output's elements do not
         * overlap. */
        free(c->data[k]);
        c->data[k] = c->data[out];
        c->bytes[k] = c->bytes[out];
        c->data[out] = NULL;
        c->bytes[out] = 0;
        c->home[out] = k;
        memcpy(c->stride[k], c->stride[out], ndim * sizeof(int64_t));
        c->launch_operand[k].offset = c->launch_operand[out].offset;
        random_layout_fill(r, in->dtype, c->data[k], c->bytes[k]);
        return;
    }
}

bool random_layout_operands(random_source *r, random_case *c, bool rows)
{
    uint32_t inputs = 1 + random_below(r, 5), outputs = 1 + random_below(r, 3);
    uint32_t count = inputs + outputs;
    c->program.operand_count = count;
    for (uint32_t k = 0; k < count; k++) {
        tn_kernel_operand *operand = &c->operand[k];
        operand->access = k >= inputs            ? TN_OPERAND_WRITE
                          : random_chance(r, 15) ? TN_OPERAND_OFFSET
                                                 : TN_OPERAND_READ;
        operand->level = random_chance(r, 30) && (rows || k < inputs)
                             ? TN_LEVEL_ROW
                             : TN_LEVEL_ELEM;
        if (operand->access != TN_OPERAND_OFFSET)
            operand->dtype =
                random_chance(r, 35)
                    ? TN_F32
                    : (uint8_t)(1 + random_below(r, TN_DTYPE_END - 1));
        if (operand->access == TN_OPERAND_READ && random_chance(r, 35))
            operand->index_count = (uint8_t)(1 + random_below(r, 3));
        generate_strides(r, c, k);
        generate_indices(r, c, k);
        if (!random_layout_memory(r, c, k))
            return false;
    }
    for (uint32_t k = inputs; k < count; k++)
        share_memory(r, c, k);
    return true;
}
