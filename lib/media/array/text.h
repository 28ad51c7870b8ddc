/* text.h: names in files. */
#ifndef TN_MEDIA_ARRAY_TEXT_H
#define TN_MEDIA_ARRAY_TEXT_H

#include <tenon/base.h>

/* Returns whether bytes are UTF-8 without NUL, overlong forms and surrogates. */
bool tn__array_is_utf8(const char *text, size_t bytes);
/* Records TN_ERR_ARGUMENT if two of the count names are equal. */
tn_status tn__array_check_unique(const char *const *names, int count,
                                 const char *call);

#endif
