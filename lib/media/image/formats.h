/* formats.h: finds the format of an image file. */
#ifndef TN_MEDIA_IMAGE_FORMATS_H
#define TN_MEDIA_IMAGE_FORMATS_H

#include <media/image/format.h>

/* Returns the format of the data, which can be read, or NULL with *status and
 * the reason. */
const tn__image_format *tn__format_of(const void *data, size_t bytes,
                                      tn_status *status, tn__why *why);
/* Returns the format of a path's extension, in any case, or NULL. */
const tn__image_format *tn__format_of_path(const char *path);
/* Returns the format of this name, or NULL. */
const tn__image_format *tn__format_of_name(const char *name);

#endif
