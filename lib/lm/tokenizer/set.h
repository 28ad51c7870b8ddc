/* set.h: sets of characters, as classes of regular expressions and of
 * pre-tokenizers use them.
 *
 * A set is built from ranges in a tn__ranges, then frozen into a tn__set, which
 * answers in constant time for the characters below U+10000. */
#ifndef TN_LIB_LM_TOKENIZER_SET_H
#define TN_LIB_LM_TOKENIZER_SET_H

#include <lm/tokenizer/memory.h>
#include <lm/tokenizer/unicode.h>

typedef struct tn__range {
    int32_t first, last;
} tn__range;

/* Ranges under construction. Zeroed at first; freed by tn__ranges_free. */
typedef struct tn__ranges {
    tn__range *range;
    size_t count, room;
    bool failed; /* memory ran out */
} tn__ranges;

void tn__ranges_add(tn__ranges *to, int32_t first, int32_t last);
void tn__ranges_add_all(tn__ranges *to, const tn__ranges *from);
/* Adds the characters of the categories in mask. */
void tn__ranges_add_categories(tn__ranges *to, uint32_t mask, int version);
/* White_Space, which is the same in all versions. */
void tn__ranges_add_space(tn__ranges *to);
/* \w: alphabetic, marks, decimal digits, connectors. Oniguruma and Rust each
 * have a few more. */
void tn__ranges_add_word(tn__ranges *to);
/* Adds the characters that are equal to one of the set if case is ignored. */
void tn__ranges_fold(tn__ranges *to);
/* Sorts and merges the ranges. The other calls need no order. */
void tn__ranges_sort(tn__ranges *to);
void tn__ranges_negate(tn__ranges *to);
void tn__ranges_intersect(tn__ranges *to, tn__ranges *other);
void tn__ranges_free(tn__ranges *to);

/* The characters below U+10000 are bits in pages of 256. Equal pages are stored
 * once, so that a small set takes little memory: a hostile file may have
 * thousands. */
typedef struct tn__set {
    uint8_t page[256];
    uint64_t (*bits)[4];
    const tn__range *high; /* ranges above U+ffff, sorted */
    size_t high_count;
} tn__set;

/* Makes a set of the ranges. Returns NULL if memory ran out. */
const tn__set *tn__set_new(tn__own *arena, tn__ranges *from);
/* A set of the categories in mask, or of white space. */
const tn__set *tn__set_of_categories(tn__own *arena, uint32_t mask,
                                     int version);

bool tn__set_has_high(const tn__set *set, int32_t c);

static inline bool tn__set_has(const tn__set *set, int32_t c)
{
    return c < 0x10000
               ? set->bits[set->page[c >> 8]][c >> 6 & 3] >> (c & 63) & 1
               : tn__set_has_high(set, c);
}

#endif
