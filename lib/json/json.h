/* json.h: parsing and writing JSON (RFC 8259).
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

enum { TN__JSON_MOST_DEPTH = 512 }; /* of nested lists and objects */

typedef enum tn__json_kind {
    TN__JSON_NULL,
    TN__JSON_FALSE,
    TN__JSON_TRUE,
    TN__JSON_INTEGER, /* no point or exponent, and fits in int64_t */
    TN__JSON_REAL,
    TN__JSON_TEXT,
    TN__JSON_LIST,
    TN__JSON_OBJECT
} tn__json_kind;

typedef struct tn__json_value {
    tn__json_kind kind;
    size_t key_bytes;
    const char *key; /* of an object's member, NUL-terminated; else NULL */
    const struct tn__json_value *next; /* in the same list or object */
    union {
        int64_t integer;
        double real;
        struct {
            const char *text; /* UTF-8, NUL-terminated; may contain NULs */
            size_t bytes;
        };
        struct {
            const struct tn__json_value *first;
            size_t count;
        };
    };
} tn__json_value;

typedef struct tn__json {
    void *(*take)(size_t bytes); /* set by the caller */
    void (*give)(void *);
    char error[112]; /* "": out of memory */
    size_t line, column; /* of the error, from 1; columns count bytes */
    struct tn__json_block *blocks;
} tn__json;

/* Parses a text; NULL with json->error set on failure. The text is modified,
 * including one byte after its end, and values point into it. It must exist
 * until tn__json_free, which the caller must call in any case. */
const tn__json_value *tn__json_read(tn__json *json, char *text, size_t bytes);
void tn__json_free(tn__json *json);

/* These accept any value, NULL too. The member of that name, or the i-th value
 * of a list; NULL if there is none. The text of a string without NULs, else
 * NULL. */
const tn__json_value *tn__json_get(const tn__json_value *object,
                                   const char *key);
const tn__json_value *tn__json_at(const tn__json_value *list, size_t i);
const char *tn__json_text(const tn__json_value *value);
bool tn__json_is(const tn__json_value *value, tn__json_kind kind);
/* Accepts integers too. */
bool tn__json_real(const tn__json_value *value, double *out);

/* Iterates over the values of a list or an object; other values have none. */
#define TN__JSON_EACH(v, in)                                                  \
    for (const tn__json_value *v = tn__json_first(in); v; v = v->next)
const tn__json_value *tn__json_first(const tn__json_value *in);

/* ---- writing ------------------------------------------------------------- */

typedef struct tn__json_writer {
    void *(*grow)(void *old, size_t bytes); /* set by the caller: as realloc */
    char *text; /* owned by the caller; NUL-terminated; NULL if empty */
    size_t count, room;
    bool failed; /* memory ran out: the text is incomplete */
} tn__json_writer;

/* Appends text as it is. */
void tn__json_add(tn__json_writer *writer, const char *piece);
/* Appends a UTF-8 text as a quoted string. */
void tn__json_add_text(tn__json_writer *writer, const char *text);
void tn__json_add_integer(tn__json_writer *writer, int64_t value);
/* Appends a finite number, with as many digits as are needed to read it back
 * exactly. */
void tn__json_add_real(tn__json_writer *writer, double value);

#endif
