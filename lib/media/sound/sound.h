/* sound.h: checks that the files of this folder share. */
#ifndef TN_MEDIA_SOUND_H
#define TN_MEDIA_SOUND_H

#include <tenon/autograd.h>
#include <tenon/op.h>
#include <tenon/ops.h>
#include <tenon/sound.h>

/* Checks that x is a floating-point tensor of at least ndim dimensions. Returns
 * false with an error. */
bool tn__sound_check(const char *call, const char *argument, tn_tensor *x,
                     int ndim);
/* Checks that other has the device and the dtype of x. */
bool tn__sound_check_like(const char *call, const char *argument,
                          tn_tensor *other, tn_tensor *x);
/* Sets an error unless low <= value <= high. */
bool tn__sound_check_int(const char *call, const char *argument, int64_t value,
                         int64_t low, int64_t high);
/* Returns the index of a string in a list that ends with NULL, or -1 with an
 * error. If the string is NULL and may be left out, returns the length of the
 * list. */
int tn__sound_choice(const char *call, const char *argument, const char *text,
                     const char *const *list, bool optional);
/* Makes a tensor of float64 numbers in dtype on device. */
tn_tensor *tn__sound_tensor(const double *x, tn_dims_list shape, tn_dtype dtype,
                            tn_device *device);
/* Reshapes x. The leading dimensions become those of `like`, except its last
 * `drop` dimensions. The dimensions of x from index `from` to the last follow
 * unchanged. */
tn_tensor *tn__sound_unpack(tn_tensor *x, int from, tn_tensor *like, int drop);

#endif
