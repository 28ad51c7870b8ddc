/* joined.h: many printed texts as one of CUDA C. A compiler reads what all of
 * them begin with once, and compiles once the functions of the language that
 * neighbours share.
 *
 * Each text stands in a namespace of its own, its kernel under a name of its
 * own, and its macros end behind it. */
#ifndef TN_TESTS_JOINED_H
#define TN_TESTS_JOINED_H

#include "printed.h"

/* A printed text in its parts: head, something, list of functions, the rest. */
typedef struct joined {
    const printed *from;
    const char *list; /* in the text; NULL: there is none */
    size_t head_bytes, list_bytes;
} joined;

/* count texts, so sorted that neighbours share most (free it). */
joined *joined_sort(const printed *item, int count);

/* How many of the first of these, at most `most`, one text can hold. */
int joined_fit(const joined *part, int count, int most);

/* Their text (tn__free it); and what the kernel of part i is called in it. */
char *joined_text(const joined *part, int count);
void joined_name(char *out, size_t room, const joined *part, int i);

#endif
