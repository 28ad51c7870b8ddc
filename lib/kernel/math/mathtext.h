/* mathtext.h: the files of lib/kernel/math, made part of the library by
 * build-aux/embed.awk. */
#ifndef TN_LIB_KERNEL_MATHTEXT_H
#define TN_LIB_KERNEL_MATHTEXT_H

/* Name, text, name, text ..., NULL, NULL. */
extern const char *const tn__math_text[];

#endif
