/* unicode.c: looks up properties in sorted tables of ranges (unicode_data.h).
 * For properties that are needed often, a tn__set is made from the tables
 * (set.h). */
#include <lm/tokenizer/unicode.h>

#include <string.h>

typedef struct decomposition {
    int32_t character;
    uint16_t at;
    uint8_t count;
    bool compatibility;
    uint8_t age;
} decomposition;

#include <lm/tokenizer/unicode_data.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Returns the index of the range that contains c. */
static size_t find_range(const uint32_t *range, size_t count, int shift,
                         int32_t c)
{
    size_t low = 0, high = count;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (range[middle] >> shift <= (uint32_t)c)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Returns the last character of range i. */
static int32_t range_last(const uint32_t *range, size_t count, int shift,
                          size_t i)
{
    return (i + 1 < count ? (int32_t)(range[i + 1] >> shift)
                          : TN__UNICODE_END) -
           1;
}

void tn__unicode_categories(int version,
                            void (*use)(void *context, int32_t first,
                                        int32_t last, int category),
                            void *context)
{
    for (size_t i = 0; i < COUNT(category_range); i++) {
        const uint32_t r = category_range[i];
        use(context, (int32_t)(r >> 11),
            range_last(category_range, COUNT(category_range), 11, i),
            (int)(r & 31) > version ? 0 : (int)(r >> 5 & 63));
    }
}

uint32_t tn__unicode_category_mask(const char *name, size_t bytes)
{
    uint32_t mask = 0;
    if (bytes == 1 || bytes == 2)
        for (size_t i = 0; i < COUNT(category_name); i++)
            if (memcmp(category_name[i], name, bytes) == 0)
                mask |= 1u << i;
    return mask;
}

int tn__unicode_script_number(const char *name)
{
    for (size_t i = 0; i < COUNT(script_name); i++)
        if (strcmp(script_name[i], name) == 0)
            return (int)i;
    return -1;
}

bool tn__unicode_script(const char *name, size_t bytes,
                        void (*use)(void *context, int32_t first,
                                    int32_t last),
                        void *context)
{
    char copy[32];
    if (bytes >= sizeof copy)
        return false;
    memcpy(copy, name, bytes);
    copy[bytes] = '\0';
    const int script = tn__unicode_script_number(copy);
    for (size_t i = 0; i < COUNT(script_range); i++)
        if ((int)(script_range[i] & 255) == script)
            use(context, (int32_t)(script_range[i] >> 8),
                range_last(script_range, COUNT(script_range), 8, i));
    return script >= 0;
}

int tn__unicode_script_of(int32_t c, int version)
{
    const uint32_t category = category_range[find_range(
        category_range, COUNT(category_range), 11, c)];
    if ((int)(category & 31) > version)
        return tn__unicode_script_number("unknown");
    return (int)(script_range[find_range(script_range, COUNT(script_range), 8,
                                         c)] &
                 255);
}

void tn__unicode_other_alphabetic(void (*use)(void *context, int32_t first,
                                              int32_t last),
                                  void *context)
{
    for (size_t i = 0; i < COUNT(alphabetic_range); i++)
        if (alphabetic_range[i] & 1)
            use(context, (int32_t)(alphabetic_range[i] >> 1),
                range_last(alphabetic_range, COUNT(alphabetic_range), 1, i));
}

int32_t tn__unicode_lower(int32_t c)
{
    if (c < 0x80)
        return c >= 'A' && c <= 'Z' ? c + 32 : c;
    size_t low = 0, high = COUNT(lower_pair) / 2;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (lower_pair[middle * 2] < (uint32_t)c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < COUNT(lower_pair) / 2 && lower_pair[low * 2] == (uint32_t)c
               ? (int32_t)lower_pair[low * 2 + 1]
               : c;
}

void tn__unicode_folds(void (*use)(void *context, int32_t a, int32_t b),
                       void *context)
{
    for (size_t i = 0; i < COUNT(fold_pair); i += 2)
        use(context, (int32_t)fold_pair[i], (int32_t)fold_pair[i + 1]);
}

/* ---- normal forms -------------------------------------------------------- */

/* Hangul syllables are composed by arithmetic (The Unicode Standard, section
 * 3.12). */
enum {
    S_BASE = 0xac00,
    L_BASE = 0x1100,
    V_BASE = 0x1161,
    T_BASE = 0x11a7,
    L_COUNT = 19,
    V_COUNT = 21,
    T_COUNT = 28,
    S_COUNT = L_COUNT * V_COUNT * T_COUNT
};

static const decomposition *find_decomposition(int32_t c)
{
    size_t low = 0, high = COUNT(decompose);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (decompose[middle].character < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < COUNT(decompose) && decompose[low].character == c &&
                   decompose[low].age <= TN__UNICODE_NORMAL
               ? &decompose[low]
               : NULL;
}

int tn__unicode_decompose(int32_t c, bool compatibility,
                          int32_t out[TN__MOST_DECOMPOSED])
{
    if (c >= S_BASE && c < S_BASE + S_COUNT) {
        const int32_t s = c - S_BASE;
        out[0] = L_BASE + s / (V_COUNT * T_COUNT);
        out[1] = V_BASE + s % (V_COUNT * T_COUNT) / T_COUNT;
        out[2] = T_BASE + s % T_COUNT;
        return out[2] == T_BASE ? 2 : 3;
    }
    const decomposition *d = c < 0xa0 ? NULL : find_decomposition(c);
    if (!d || (d->compatibility && !compatibility)) {
        out[0] = c;
        return 1;
    }
    int count = 0;
    for (int i = 0; i < d->count; i++) {
        int32_t part[TN__MOST_DECOMPOSED];
        const int n = tn__unicode_decompose((int32_t)decomposed[d->at + i],
                                            compatibility, part);
        for (int j = 0; j < n && count < TN__MOST_DECOMPOSED; j++)
            out[count++] = part[j];
    }
    return count;
}

int tn__unicode_combining(int32_t c)
{
    if (c < 0x300)
        return 0;
    return (int)(combining_range[find_range(combining_range,
                                            COUNT(combining_range), 8, c)] &
                 255);
}

int32_t tn__unicode_compose(int32_t a, int32_t b)
{
    if (a >= L_BASE && a < L_BASE + L_COUNT && b >= V_BASE &&
        b < V_BASE + V_COUNT)
        return S_BASE +
               ((a - L_BASE) * V_COUNT + (b - V_BASE)) * T_COUNT;
    if (a >= S_BASE && a < S_BASE + S_COUNT && (a - S_BASE) % T_COUNT == 0 &&
        b > T_BASE && b < T_BASE + T_COUNT)
        return a + b - T_BASE;
    if (b < 0x300)
        return -1;
    size_t low = 0, high = COUNT(compose) / 3;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const uint32_t *row = compose + middle * 3;
        if (row[0] < (uint32_t)a ||
            (row[0] == (uint32_t)a && row[1] < (uint32_t)b))
            low = middle + 1;
        else
            high = middle;
    }
    const uint32_t *row = compose + low * 3;
    if (low == COUNT(compose) / 3 || row[0] != (uint32_t)a ||
        row[1] != (uint32_t)b)
        return -1;
    const decomposition *d = find_decomposition((int32_t)row[2]);
    return d ? (int32_t)row[2] : -1;
}

/* ---- grapheme clusters --------------------------------------------------- */

static int break_of(int32_t c)
{
    return (int)(break_range[find_range(break_range, COUNT(break_range), 4,
                                        c)] &
                 15);
}

/* Returns whether there is a grapheme boundary between two characters of these
 * classes (UAX #29, rules GB3 to GB13). emoji: the preceding characters are a
 * pictograph followed by extending characters. flags: the number of preceding
 * regional indicators. */
static bool is_boundary(int a, int b, bool emoji, int flags)
{
    if (a == BREAK_CR && b == BREAK_LF)
        return false;
    if (a == BREAK_CONTROL || a == BREAK_CR || a == BREAK_LF ||
        b == BREAK_CONTROL || b == BREAK_CR || b == BREAK_LF)
        return true;
    if (a == BREAK_L && (b == BREAK_L || b == BREAK_V || b == BREAK_LV ||
                         b == BREAK_LVT))
        return false;
    if ((a == BREAK_LV || a == BREAK_V) && (b == BREAK_V || b == BREAK_T))
        return false;
    if ((a == BREAK_LVT || a == BREAK_T) && b == BREAK_T)
        return false;
    if (b == BREAK_EXTEND || b == BREAK_ZWJ || b == BREAK_SPACINGMARK ||
        a == BREAK_PREPEND)
        return false;
    if (a == BREAK_ZWJ && b == BREAK_EXTENDED_PICTOGRAPHIC && emoji)
        return false;
    return !(a == BREAK_REGIONAL_INDICATOR && b == BREAK_REGIONAL_INDICATOR &&
             flags % 2 == 1);
}

size_t tn__unicode_grapheme(const unsigned char *text, size_t count,
                            size_t from)
{
    size_t at = from;
    int a = break_of(tn__utf8_take(text, &at)), flags = 0;
    bool emoji = false;
    while (at < count) {
        size_t next = at;
        const int b = break_of(tn__utf8_take(text, &next));
        if (a == BREAK_EXTENDED_PICTOGRAPHIC)
            emoji = true;
        else if (a != BREAK_EXTEND && a != BREAK_ZWJ)
            emoji = false;
        flags = a == BREAK_REGIONAL_INDICATOR ? flags + 1 : 0;
        if (is_boundary(a, b, emoji, flags))
            break;
        a = b;
        at = next;
    }
    return at;
}

/* ---- UTF-8 --------------------------------------------------------------- */

int32_t tn__utf8_read(const unsigned char *text, size_t count, size_t *at)
{
    const size_t begin = *at;
    const unsigned char first = text[(*at)++];
    if (first < 0x80)
        return first;
    if (first < 0xc2 || first > 0xf4)
        return -1;
    const size_t more = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    /* the range of the second byte excludes overlong encodings, surrogates and
     * characters above U+10FFFF */
    unsigned char low = 0x80, high = 0xbf;
    if (first == 0xe0)
        low = 0xa0;
    else if (first == 0xed)
        high = 0x9f;
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f;
    for (size_t i = 1; i <= more; i++) {
        if (*at >= count || text[*at] < low || text[*at] > high)
            return -1;
        ++*at;
        low = 0x80;
        high = 0xbf;
    }
    size_t again = begin;
    return tn__utf8_take(text, &again);
}
