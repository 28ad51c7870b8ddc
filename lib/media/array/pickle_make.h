/* pickle_make.h: functions that make a value from the arguments of a call. The
 * table in pickle_call.c refers to them. */
#ifndef TN_MEDIA_ARRAY_PICKLE_MAKE_H
#define TN_MEDIA_ARRAY_PICKLE_MAKE_H

#include <media/array/pickle.h>

typedef tn__pickle_value *tn__pickle_maker(tn__pickle *pickle,
                                           const tn__pickle_value *arguments);

/* Containers, texts and numbers (pickle_make.c). */
tn__pickle_maker tn__pickle_make_dict, tn__pickle_make_default_dict,
    tn__pickle_make_counter, tn__pickle_make_set, tn__pickle_make_size,
    tn__pickle_make_device, tn__pickle_make_layout, tn__pickle_make_encoded,
    tn__pickle_make_bytes, tn__pickle_make_complex;
/* NumPy's scalars (pickle_numpy.c). */
tn__pickle_maker tn__pickle_make_numpy_dtype, tn__pickle_make_numpy_scalar;

/* Records that the arguments of a call are wrong, and returns NULL. */
tn__pickle_value *tn__pickle_mistaken(tn__pickle *pickle, const char *called);
/* Returns argument i, or NULL if it is missing or of another kind. */
const tn__pickle_value *tn__pickle_argument(const tn__pickle_value *arguments,
                                            size_t i, tn__pickle_kind kind);

#endif
