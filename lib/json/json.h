/* json.h: texts of JSON (RFC 8259), read whole, and written.
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

enum { TN__JSON_MOST_DEPTH = 512 }; /* lists and objects in each other */

typedef enum tn__json_kind {
    TN__JSON_NULL,
    TN__JSON_FALSE,
    TN__JSON_TRUE,
    TN__JSON_INTEGER, /* without point and exponent, and of 64 bits */
    TN__JSON_REAL,
    TN__JSON_TEXT,
    TN__JSON_LIST,
    TN__JSON_OBJECT
} tn__json_kind;

typedef struct tn__json_value {
    tn__json_kind kind;
    size_t key_bytes;
    const char *key; /* of an object's member, else NULL; ends with a zero */
    const struct tn__json_value *next; /* in the same list or object */
    union {
        int64_t integer;
        double real;
        struct {
            const char *text; /* UTF-8; ends with a zero, and may hold some */
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
    char error[112]; /* "": no memory */
    size_t line, column; /* where it is, from 1; columns are bytes */
    struct tn__json_block *blocks;
} tn__json;

/* The value that text is, or NULL: json->error. The text is written over, one byte
 * beyond its end too, and values point into it: it must stay until tn__json_free,
 * which is due in any case. */
const tn__json_value *tn__json_read(tn__json *json, char *text, size_t bytes);
void tn__json_free(tn__json *json);

/* Questions to any value, NULL too. The member of that name, the i-th value of a
 * list; NULL: there is none. The text of a text without zeros, else NULL. */
const tn__json_value *tn__json_get(const tn__json_value *object,
                                   const char *key);
const tn__json_value *tn__json_at(const tn__json_value *list, size_t i);
const char *tn__json_text(const tn__json_value *value);
bool tn__json_is(const tn__json_value *value, tn__json_kind kind);
/* Of an integer too. */
bool tn__json_real(const tn__json_value *value, double *out);

/* Each value in a list or an object; none in anything else. */
#define TN__JSON_EACH(v, in)                                                  \
    for (const tn__json_value *v = tn__json_first(in); v; v = v->next)
const tn__json_value *tn__json_first(const tn__json_value *in);

/* ---- writing -------------------------------------------------------------- */

typedef struct tn__json_writer {
    void *(*grow)(void *old, size_t bytes); /* set by the caller: as realloc */
    char *text; /* owned by the caller; ends with a zero; NULL if it is empty */
    size_t count, room;
    bool failed; /* there was no memory: the text is not whole */
} tn__json_writer;

/* Such a piece, as it is. */
void tn__json_add(tn__json_writer *writer, const char *piece);
/* A text of UTF-8 in quotes. */
void tn__json_add_text(tn__json_writer *writer, const char *text);
void tn__json_add_integer(tn__json_writer *writer, int64_t value);
/* A finite number, with as many digits as bring it back. */
void tn__json_add_real(tn__json_writer *writer, double value);

#endif
