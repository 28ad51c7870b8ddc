/* set.c: builds sets of characters from sorted ranges. */
#include <lm/tokenizer/set.h>

#include <stdlib.h>
#include <string.h>

void tn__ranges_add(tn__ranges *to, int32_t first, int32_t last)
{
    if (first > last || to->failed)
        return;
    if (to->count && to->range[to->count - 1].last + 1 == first) {
        to->range[to->count - 1].last = last;
        return;
    }
    if (!tn__array_grow(&to->range, &to->room, to->count + 1,
                        sizeof *to->range)) {
        to->failed = true;
        return;
    }
    to->range[to->count++] = (tn__range){first, last};
}

void tn__ranges_add_all(tn__ranges *to, const tn__ranges *from)
{
    to->failed |= from->failed;
    for (size_t i = 0; i < from->count; i++)
        tn__ranges_add(to, from->range[i].first, from->range[i].last);
}

typedef struct category_filter {
    tn__ranges *to;
    uint32_t mask;
} category_filter;

static void add_category(void *context, int32_t first, int32_t last,
                         int category)
{
    const category_filter *f = context;
    if (f->mask >> category & 1)
        tn__ranges_add(f->to, first, last);
}

void tn__ranges_add_categories(tn__ranges *to, uint32_t mask, int version)
{
    category_filter f = {to, mask};
    tn__unicode_categories(version, add_category, &f);
}

void tn__ranges_add_space(tn__ranges *to)
{
    static const tn__range space[] = {
        {9, 13},          {32, 32},         {0x85, 0x85},     {0xa0, 0xa0},
        {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
        {0x205f, 0x205f}, {0x3000, 0x3000}};
    for (size_t i = 0; i < sizeof space / sizeof *space; i++)
        tn__ranges_add(to, space[i].first, space[i].last);
}

static void add_range(void *context, int32_t first, int32_t last)
{
    tn__ranges_add(context, first, last);
}

void tn__ranges_add_word(tn__ranges *to)
{
    const uint32_t mask = tn__unicode_category_mask("L", 1) |
                          tn__unicode_category_mask("M", 1) |
                          tn__unicode_category_mask("Nd", 2) |
                          tn__unicode_category_mask("Nl", 2) |
                          tn__unicode_category_mask("Pc", 2);
    tn__ranges_add_categories(to, mask, TN__UNICODE_REGEX);
    tn__unicode_other_alphabetic(add_range, to);
}

static int compare_ranges(const void *left, const void *right)
{
    const tn__range *a = left, *b = right;
    return (a->first > b->first) - (a->first < b->first);
}

void tn__ranges_sort(tn__ranges *to)
{
    bool sorted = true;
    for (size_t i = 1; i < to->count; i++)
        sorted &= to->range[i - 1].last < to->range[i].first;
    if (sorted)
        return;
    qsort(to->range, to->count, sizeof *to->range, compare_ranges);
    size_t n = 0;
    for (size_t i = 1; i < to->count; i++)
        if (to->range[i].first <= to->range[n].last + 1) {
            if (to->range[i].last > to->range[n].last)
                to->range[n].last = to->range[i].last;
        } else {
            to->range[++n] = to->range[i];
        }
    to->count = n + 1;
}

static bool has_sorted(const tn__range *range, size_t count, int32_t c)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (range[middle].last < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && range[low].first <= c;
}

typedef struct folding {
    const tn__ranges *of;
    size_t sorted;
    tn__ranges *to;
} folding;

static void add_fold(void *context, int32_t a, int32_t b)
{
    folding *f = context;
    if (has_sorted(f->of->range, f->sorted, a))
        tn__ranges_add(f->to, b, b);
    if (has_sorted(f->of->range, f->sorted, b))
        tn__ranges_add(f->to, a, a);
}

void tn__ranges_fold(tn__ranges *to)
{
    /* Two rounds are needed: "K" and the Kelvin sign differ only in case
     * because both fold to "k", so adding one to a set that has the other takes
     * two steps. */
    for (int round = 0; round < 2; round++) {
        tn__ranges_sort(to);
        tn__ranges more = {0};
        folding f = {to, to->count, &more};
        tn__unicode_folds(add_fold, &f);
        tn__ranges_add_all(to, &more);
        tn__ranges_free(&more);
    }
}

void tn__ranges_negate(tn__ranges *to)
{
    tn__ranges_sort(to);
    tn__ranges out = {.failed = to->failed};
    int32_t next = 0;
    for (size_t i = 0; i < to->count; i++) {
        tn__ranges_add(&out, next, to->range[i].first - 1);
        next = to->range[i].last + 1;
    }
    tn__ranges_add(&out, next, TN__UNICODE_END - 1);
    tn__ranges_free(to);
    *to = out;
}

void tn__ranges_intersect(tn__ranges *to, tn__ranges *other)
{
    /* a and b = not (not a or not b) */
    tn__ranges_negate(to);
    tn__ranges_negate(other);
    tn__ranges_add_all(to, other);
    tn__ranges_negate(to);
}

void tn__ranges_free(tn__ranges *to)
{
    free(to->range);
    *to = (tn__ranges){0};
}

/* Makes a set from bits, one for each character below U+10000. */
static tn__set *set_of_bits(tn__own *arena, uint64_t low[0x10000 / 64])
{
    tn__set *set = tn__own_take(arena, sizeof *set);
    uint8_t first[256]; /* first[k]: the first page of 256 characters that is
                           equal to page k of the set */
    size_t count = 0;
    if (!set)
        return NULL;
    for (size_t i = 0; i < 256; i++) {
        size_t k = 0;
        while (k < count && memcmp(low + 4 * first[k], low + 4 * i, 32))
            k++;
        if (k == count)
            first[count++] = (uint8_t)i;
        set->page[i] = (uint8_t)k;
    }
    set->bits = tn__own_array(arena, count, sizeof *set->bits);
    if (!set->bits)
        return NULL;
    for (size_t k = 0; k < count; k++)
        memcpy(set->bits[k], low + 4 * first[k], 32);
    return set;
}

const tn__set *tn__set_new(tn__own *arena, tn__ranges *from)
{
    tn__ranges_sort(from);
    if (from->failed)
        return NULL;
    uint64_t low[0x10000 / 64] = {0};
    size_t i = 0;
    for (; i < from->count && from->range[i].first < 0x10000; i++) {
        const int32_t last = from->range[i].last < 0xffff
                                 ? from->range[i].last
                                 : 0xffff;
        for (int32_t c = from->range[i].first; c <= last;)
            if (!(c & 63) && last - c >= 63) {
                low[c >> 6] = ~(uint64_t)0;
                c += 64;
            } else {
                low[c >> 6] |= (uint64_t)1 << (c & 63);
                c++;
            }
        if (from->range[i].last > 0xffff)
            break;
    }
    tn__set *set = set_of_bits(arena, low);
    if (!set)
        return NULL;
    set->high_count = from->count - i;
    tn__range *high =
        tn__own_array(arena, set->high_count + 1, sizeof *high);
    if (!high)
        return NULL;
    if (set->high_count)
        memcpy(high, from->range + i, set->high_count * sizeof *high);
    set->high = high;
    return set;
}

const tn__set *tn__set_of_categories(tn__own *arena, uint32_t mask,
                                     int version)
{
    tn__ranges ranges = {0};
    if (mask)
        tn__ranges_add_categories(&ranges, mask, version);
    else
        tn__ranges_add_space(&ranges);
    const tn__set *set = tn__set_new(arena, &ranges);
    tn__ranges_free(&ranges);
    return set;
}

bool tn__set_has_high(const tn__set *set, int32_t c)
{
    return has_sorted(set->high, set->high_count, c);
}
