/* set.h: sets of Unicode characters, used for classes of regular expressions
 * and by the steps of a tokenizer.
 *
 * To make a set, collect ranges of characters in a tn__ranges and convert it to
 * a tn__set. A tn__set does not change; it looks up characters below U+10000 in
 * constant time, others by binary search. */
#ifndef TN_LIB_LM_TOKENIZER_SET_H
#define TN_LIB_LM_TOKENIZER_SET_H

#include <lm/tokenizer/memory.h>
#include <lm/tokenizer/unicode.h>

typedef struct tn__range {
    int32_t first, last;
} tn__range;

/* Ranges from which a set is made. Must be zeroed before the first use and
 * freed by tn__ranges_free. */
typedef struct tn__ranges {
    tn__range *range;
    size_t count, room;
    bool failed; /* memory ran out */
} tn__ranges;

void tn__ranges_add(tn__ranges *to, int32_t first, int32_t last);
void tn__ranges_add_all(tn__ranges *to, const tn__ranges *from);
/* Adds the characters whose Unicode general category is in mask
 * (tn__unicode_category_mask), in this version of Unicode (unicode.h). */
void tn__ranges_add_categories(tn__ranges *to, uint32_t mask, int version);
/* Adds the characters with the Unicode property White_Space, which is the same
 * in all versions. */
void tn__ranges_add_space(tn__ranges *to);
/* Adds the characters that \w matches: letters, marks, decimal digits and
 * connectors. The \w of Oniguruma and the \w of Rust match a few more. */
void tn__ranges_add_word(tn__ranges *to);
/* Adds the characters that differ from one in the set only in case. */
void tn__ranges_fold(tn__ranges *to);
/* Sorts the ranges and merges those that overlap. The other functions accept
 * ranges in any order. */
void tn__ranges_sort(tn__ranges *to);
void tn__ranges_negate(tn__ranges *to);
void tn__ranges_intersect(tn__ranges *to, tn__ranges *other);
void tn__ranges_free(tn__ranges *to);

/* The characters below U+10000 are bits in pages of 256. Equal pages are stored
 * once, so most sets take little memory. This matters because a malicious file
 * can make thousands of sets. */
typedef struct tn__set {
    uint8_t page[256];
    uint64_t (*bits)[4];
    const tn__range *high; /* ranges above U+ffff, sorted */
    size_t high_count;
} tn__set;

/* Makes a set from the ranges. Returns NULL if memory ran out. */
const tn__set *tn__set_new(tn__own *arena, tn__ranges *from);
/* Makes a set of the characters whose general category is in mask, in this
 * version of Unicode; of the white space characters if mask is 0. */
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
