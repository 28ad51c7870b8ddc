/* json.h: parses and writes JSON (RFC 8259). An example of parsing:
 *
 *     tn__json json = {.take = malloc, .give = free};
 *     const tn__json_value *root = tn__json_read(&json, text, bytes);
 *     if (!root) ...                  // json.error says why
 *     TN__JSON_EACH(member, tn__json_get(root, "vocab"))
 *         use(member->key, member->integer);
 *     tn__json_free(&json);
 */
#ifndef TN_LIB_JSON_JSON_H
#define TN_LIB_JSON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TN__JSON_MOST_DEPTH = 512 }; /* maximum depth to which lists and objects
                                       may be nested */

typedef enum tn__json_kind {
    TN__JSON_NULL,
    TN__JSON_FALSE,
    TN__JSON_TRUE,
    TN__JSON_INTEGER, /* a number without point and exponent that fits in
                         int64_t; other numbers are REAL */
    TN__JSON_REAL,
    TN__JSON_TEXT,
    TN__JSON_LIST,
    TN__JSON_OBJECT
} tn__json_kind;

typedef struct tn__json_value {
    tn__json_kind kind;
    size_t key_bytes;
    const char *key; /* name of the member if the value is in an object, else
                        NULL; ends with a NUL */
    const struct tn__json_value *next; /* next value of the same list or
                                          object */
    union {
        int64_t integer;
        double real;
        struct {
            const char *text; /* UTF-8 text that ends with a NUL and may contain
                                 others */
            size_t bytes;
        };
        struct {
            const struct tn__json_value *first;
            size_t count;
        };
    };
} tn__json_value;

typedef struct tn__json {
    void *(*take)(size_t bytes); /* allocates memory; set by the caller */
    void (*give)(void *);        /* frees memory; set by the caller */
    char error[112]; /* message of the error; "" if memory ran out */
    size_t line, column; /* position of the error; both count from 1, the column
                            in bytes */
    struct tn__json_block *blocks;
} tn__json;

/* Parses a string and returns its outermost value. On failure sets json->error
 * and returns NULL. Parsing modifies the string, including one byte after its
 * end. Values point into the string, so it must exist until tn__json_free. The
 * caller must call tn__json_free also after a failure. */
const tn__json_value *tn__json_read(tn__json *json, char *text, size_t bytes);
void tn__json_free(tn__json *json);

/* The following functions accept any value and also NULL. tn__json_get returns
 * the member of an object with this name, and tn__json_at the i-th value of a
 * list. tn__json_text returns the text of a string that contains no NUL. They
 * return NULL if there is no such value. */
const tn__json_value *tn__json_get(const tn__json_value *object,
                                   const char *key);
const tn__json_value *tn__json_at(const tn__json_value *list, size_t i);
const char *tn__json_text(const tn__json_value *value);
bool tn__json_is(const tn__json_value *value, tn__json_kind kind);
/* Sets *out to the value of a number, which may be an integer. Returns false
 * for any other value. */
bool tn__json_real(const tn__json_value *value, double *out);

/* Iterates over the values of a list or an object. Does nothing for other
 * values. */
#define TN__JSON_EACH(v, in)                                                  \
    for (const tn__json_value *v = tn__json_first(in); v; v = v->next)
const tn__json_value *tn__json_first(const tn__json_value *in);

/* ---- writing ------------------------------------------------------------- */

typedef struct tn__json_writer {
    void *(*grow)(void *old, size_t bytes); /* works like realloc; set by the
                                               caller */
    char *text; /* the JSON so far, which the caller frees; NULL if it is
                   empty */
    size_t count, room;
    bool failed; /* memory ran out, so the JSON is incomplete */
} tn__json_writer;

/* Appends a piece of JSON without changing it. */
void tn__json_add(tn__json_writer *writer, const char *piece);
/* Appends a UTF-8 string in quotes. */
void tn__json_add_text(tn__json_writer *writer, const char *text);
void tn__json_add_integer(tn__json_writer *writer, int64_t value);
/* Appends a finite number, with as many digits as are needed to read it back
 * exactly. */
void tn__json_add_real(tn__json_writer *writer, double value);
/* Works as strtod, but in the C locale. */
double tn__json_parse_real(const char *text, char **end);

#endif
