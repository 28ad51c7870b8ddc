/* result.h: checks the structs into which public functions write their results.
 * The first member of such a struct is its size, so that later versions can
 * append members. */
#ifndef TN_MEDIA_RESULT_H
#define TN_MEDIA_RESULT_H

#include <tenon/tensor.h>

/* Checks a struct for results before the work begins. type is its name, and
 * bytes its size in this version; argument is the parameter of call. */
tn_status tn__result_check(const void *out, const char *type, size_t bytes,
                           const char *call, const char *argument);
/* Copies the members that the caller's struct has, except its size. */
void tn__result_store(void *out, const void *from);

#endif
