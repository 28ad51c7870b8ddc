/* convert.h: parts of transforms that several files use. */
#ifndef TN_MEDIA_IMAGE_CONVERT_H
#define TN_MEDIA_IMAGE_CONVERT_H

#include <media/image/image_tensor.h>

/* Returns the offset of a centred crop: (in - crop) / 2, rounded to even, as
 * Python rounds. */
int64_t tn__centre(int64_t in, int64_t crop);

/* Checks the arguments of tn_image_normalize. */
bool tn__check_normalize(const tn__pixels *image, const double *mean,
                         const double *deviation, int count, const char *call);
/* Normalises image, uint8 or float32, to out, float32 of the same size. */
void tn__normalize(const tn__pixels *image, const tn__pixels *out,
                   const double *mean, const double *deviation);

#endif
