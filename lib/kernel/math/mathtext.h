/* mathtext.h: the .def files of lib/kernel/math, embedded in the library by
 * build-aux/embed.awk. */
#ifndef TN_LIB_KERNEL_MATHTEXT_H
#define TN_LIB_KERNEL_MATHTEXT_H

/* The files as {name, text, name, text, ..., NULL, NULL}. */
extern const char *const tn__math_text[];

#endif
