/* joined.h: joins the sources of many printed kernels into one source file of
 * CUDA C. The compiler then parses their common head once, and compiles once
 * the functions of the kernel language that adjacent sources share.
 *
 * Each source is in its own namespace, its kernel has its own name, and its
 * macros are undefined after it. */
#ifndef TN_TESTS_JOINED_H
#define TN_TESTS_JOINED_H

#include "printed.h"

/* Where the parts of a printed source are: the common head, declarations, the
 * list of functions, and the rest. */
typedef struct joined {
    const printed *from;
    const char *list; /* start of the list of functions in the source; NULL:
                       * there is none */
    size_t head_bytes, list_bytes;
} joined;

/* Returns the parts of `count` sources, sorted so that adjacent sources share
 * as many functions as possible. The caller frees them. */
joined *joined_sort(const printed *item, int count);

/* Returns how many of the first sources, at most `most`, can be joined. */
int joined_fit(const joined *part, int count, int most);

/* joined_text returns the joined source (free with tn__free); joined_name
 * writes the name of part i's kernel in it. */
char *joined_text(const joined *part, int count);
void joined_name(char *out, size_t room, const joined *part, int i);

#endif
