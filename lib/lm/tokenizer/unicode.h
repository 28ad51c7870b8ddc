/* unicode.h: properties of characters. Characters are int32_t, 0 to 0x10ffff.
 *
 * Published tokenizers were made with different versions of Unicode. Functions
 * for which this matters take a version. They treat characters that are newer
 * than it as unassigned: with the category Cn and without mappings. */
#ifndef TN_LIB_LM_TOKENIZER_UNICODE_H
#define TN_LIB_LM_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TN__UNICODE_END = 0x110000 };

/* Versions of Unicode in the libraries that Hugging Face's tokenizers use. Each
 * comment says for which properties, and in which library: */
enum {
    TN__UNICODE_PUNCTUATION = 8, /* punctuation, controls: the crate
                                    unicode_categories */
    TN__UNICODE_MARKS = 9,       /* marks: unicode-normalization; scripts */
    TN__UNICODE_NORMAL = 11,     /* normal forms: unicode-normalization */
    TN__UNICODE_REGEX = 16,      /* regular expressions: Oniguruma */
    TN__UNICODE_NEW = 17         /* lower case, numbers: Rust's library */
};

/* Calls use(context, first, last, category) for consecutive ranges that
 * together contain all characters. category is an index into the list of names
 * that tn__unicode_category_mask searches. */
void tn__unicode_categories(int version,
                            void (*use)(void *context, int32_t first,
                                        int32_t last, int category),
                            void *context);
/* Returns a mask of the categories with this name, with bit i for category i.
 * The name is that of a category ("Lu") or of a group of categories ("L").
 * Returns 0 if there is no such name. */
uint32_t tn__unicode_category_mask(const char *name, size_t bytes);

/* Calls use(context, first, last) for the ranges of characters of a script. The
 * name is in lower case without underscores. Returns false if there is no such
 * script. */
bool tn__unicode_script(const char *name, size_t bytes,
                        void (*use)(void *context, int32_t first,
                                    int32_t last),
                        void *context);
/* Calls use(context, first, last) for the ranges of characters that are
 * alphabetic although their category is neither L nor Nl. */
void tn__unicode_other_alphabetic(void (*use)(void *context, int32_t first,
                                              int32_t last),
                                  void *context);
/* Returns the index of the character's script. Characters that are newer than
 * the version have the script "unknown". */
int tn__unicode_script_of(int32_t c, int version);
int tn__unicode_script_number(const char *name);

int32_t tn__unicode_lower(int32_t c);
/* Calls use(context, a, b) for pairs of characters that differ only in case. */
void tn__unicode_folds(void (*use)(void *context, int32_t a, int32_t b),
                       void *context);

/* Decomposes a character, for the normal forms NFD and, with `compatibility`,
 * NFKD. Writes at most TN__MOST_DECOMPOSED characters to out and returns their
 * number, which is 1 for a character without decomposition. */
enum { TN__MOST_DECOMPOSED = 18 };
int tn__unicode_decompose(int32_t c, bool compatibility,
                          int32_t out[TN__MOST_DECOMPOSED]);
int tn__unicode_combining(int32_t c);
/* Returns the composition of two characters, or -1 if there is none. */
int32_t tn__unicode_compose(int32_t a, int32_t b);

/* Returns the end of the grapheme cluster that begins at text[from]. The text
 * must be valid UTF-8. */
size_t tn__unicode_grapheme(const unsigned char *text, size_t count,
                            size_t from);

/* Decodes a character of valid UTF-8 and advances *at. */
static inline int32_t tn__utf8_take(const unsigned char *text, size_t *at)
{
    const unsigned char *p = text + *at;
    if (p[0] < 0x80) {
        ++*at;
        return p[0];
    }
    if (p[0] < 0xe0) {
        *at += 2;
        return (p[0] & 0x1f) << 6 | (p[1] & 0x3f);
    }
    if (p[0] < 0xf0) {
        *at += 3;
        return (p[0] & 0xf) << 12 | (p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    }
    *at += 4;
    return (p[0] & 7) << 18 | (p[1] & 0x3f) << 12 | (p[2] & 0x3f) << 6 |
           (p[3] & 0x3f);
}

/* Decodes a character of a text that may not be valid UTF-8, and advances *at.
 * For invalid bytes it returns -1 and skips the longest incomplete character,
 * at least one byte, as the decoders of Python and the WHATWG do. */
int32_t tn__utf8_read(const unsigned char *text, size_t count, size_t *at);

/* Encodes a character and returns the number of bytes, at most four. */
static inline size_t tn__utf8_write(unsigned char *out, int32_t c)
{
    if (c < 0x80) {
        out[0] = (unsigned char)c;
        return 1;
    }
    const size_t more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    out[0] = (unsigned char)(lead[more] | c >> 6 * more);
    for (size_t i = 1; i <= more; i++)
        out[i] = (unsigned char)(0x80 | (c >> 6 * (more - i) & 0x3f));
    return more + 1;
}

/* Returns the length in bytes of the character that begins with this byte. */
static inline size_t tn__utf8_length(unsigned char first)
{
    return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Returns the position of the character that ends at `at`, which is above 0. */
static inline size_t tn__utf8_before(const unsigned char *text, size_t at)
{
    do
        at--;
    while (at && (text[at] & 0xc0) == 0x80);
    return at;
}

#endif
