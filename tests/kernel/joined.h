/* joined.h: joins many printed texts into one text of CUDA C. The compiler then
 * parses their common head once, and compiles once the functions of the
 * language that adjacent texts share.
 *
 * Each text is in its own namespace, its kernel has its own name, and its
 * macros are undefined after it. */
#ifndef TN_TESTS_JOINED_H
#define TN_TESTS_JOINED_H

#include "printed.h"

/* A printed text in its parts: head, something, list of functions, the rest. */
typedef struct joined {
    const printed *from;
    const char *list; /* in the text; NULL: there is none */
    size_t head_bytes, list_bytes;
} joined;

/* count texts, sorted so that adjacent ones share most. The caller frees it. */
joined *joined_sort(const printed *item, int count);

/* How many of the first texts, at most `most`, fit into one text. */
int joined_fit(const joined *part, int count, int most);

/* The joined text (free with tn__free), and the name of part i's kernel in it.
 */
char *joined_text(const joined *part, int count);
void joined_name(char *out, size_t room, const joined *part, int i);

#endif
