/* regex.h: regular expressions of tokenizer files, in the syntax of Oniguruma
 * (Ruby), which Hugging Face's tokenizers use.
 *
 *     .  [...]  [^...]  [a&&b]  [[:alpha:]]  \d \s \w \h \D \S \W \H  \p{L} \P{L}
 *     \p{^L} \p{Han}  \n \r \t \f \v \a \e \xHH \x{H..} \uHHHH  literals
 *     (..)  (?:..)  (?<name>..)  (?i:..) (?i) (?m) (?x) (?-i)  (?>..)
 *     (?=..) (?!..) (?<=..) (?<!..)  ^ $ \A \z \Z \b \B  |
 *     ? * + {n} {n,} {n,m} {,m}  lazy with ?, possessive with + (not {n}+)
 *
 * A match is that of a backtracking matcher: the leftmost one, by the first
 * alternatives that lead to one. ^ and $ match at every line, as in Ruby. What
 * is not in the list (back references, \X, \G, \K, recursion) is rejected.
 *
 * The time for all matches in a text is proportional to the text's length
 * times the size of the pattern: once a text takes many steps, the matcher
 * remembers which pairs of instruction and position fail. (The exception is an
 * atomic group around more than a class, whose match is repeated at each
 * position where it is tried.) */
#ifndef TN_LIB_LM_TOKENIZER_REGEX_H
#define TN_LIB_LM_TOKENIZER_REGEX_H

#include <lm/tokenizer/set.h>

typedef struct tn__regex tn__regex;

/* Compiles a pattern. On failure returns NULL and writes a message, which names
 * the position; "" if memory ran out, which is then recorded. */
const tn__regex *tn__regex_new(tn__own *arena, const char *pattern,
                               size_t bytes, char *error, size_t error_room);

/* The memory for matching in one text. Must be zeroed before the first use; a
 * thread needs its own. */
typedef struct tn__regex_run {
    struct tn__regex_entry *stack;
    size_t count, room;
    uint64_t *memo; /* two bits for each choice (a SPLIT or LOOP instruction)
                       and position: known to fail, known to match */
    size_t memo_room;
    bool memo_on;
    size_t steps, most_steps;
    /* the text, which is valid UTF-8 */
    const unsigned char *text;
    size_t bytes;
} tn__regex_run;

/* Sets the text to search. */
void tn__regex_begin(tn__regex_run *run, const unsigned char *text,
                     size_t bytes);
void tn__regex_run_free(tn__regex_run *run);

/* Finds the first match at or after `from`. An empty match at `not_empty_at` is
 * not counted (SIZE_MAX: all count). Returns 1 and sets *begin and *end, 0 if
 * there is none, or -1 if memory ran out, which is recorded. */
int tn__regex_find(const tn__regex *regex, tn__regex_run *run, size_t from,
                   size_t not_empty_at, size_t *begin, size_t *end);

/* ---- between the compiler and the matcher -------------------------------- */

typedef enum tn__regex_op {
    TN__REGEX_CHAR,   /* the character c */
    TN__REGEX_SET,    /* a character of set */
    TN__REGEX_LOOP,   /* min to max characters of set */
    TN__REGEX_SPLIT,  /* continues at pc + 1; if that fails, at to */
    TN__REGEX_JUMP,   /* continues at to */
    TN__REGEX_LOOK,   /* the code from pc + 1 to ACCEPT must match, or with
                         `negative` must not; then continues at to */
    TN__REGEX_ATOMIC, /* matches the code from pc + 1 to ACCEPT without
                         backtracking into it; then continues at to */
    TN__REGEX_LINE_BEGIN,
    TN__REGEX_LINE_END,
    TN__REGEX_BEGIN,
    TN__REGEX_END,
    TN__REGEX_LAST_LINE_END, /* the end of the text, or before a newline at its
                                end */
    TN__REGEX_WORD_BOUNDARY,
    TN__REGEX_ACCEPT
} tn__regex_op;

enum { TN__REGEX_GREEDY, TN__REGEX_LAZY, TN__REGEX_POSSESSIVE };
enum { TN__REGEX_NO_LIMIT = INT32_MAX };

typedef struct tn__regex_code {
    uint8_t op, mode;
    bool negative;       /* LOOK, WORD_BOUNDARY */
    int32_t c;           /* CHAR: the character. LOOK: by how many characters
                            the body begins before the position */
    int32_t min, max;    /* LOOP */
    uint32_t to;
    uint32_t point;      /* SPLIT, LOOP: index of the choice in the table of
                            failures (memo) */
    const tn__set *set;
} tn__regex_code;

struct tn__regex {
    tn__regex_code *code;
    uint32_t count, points;
    bool first_known;          /* every match begins with a byte whose bit in
                                  first is set */
    uint64_t first[4];
    const tn__set *word;       /* \w, for \b */
};

#endif
