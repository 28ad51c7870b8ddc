/* mathtext.h: the .def files of lib/kernel/math, embedded in the library by
 * build-aux/embed.awk. */
#ifndef TN_LIB_KERNEL_MATHTEXT_H
#define TN_LIB_KERNEL_MATHTEXT_H

/* Pairs of a file's name and its contents: {name, text, name, text, ..., NULL,
 * NULL}. */
extern const char *const tn__math_text[];

#endif
