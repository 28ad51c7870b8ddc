/* device_text.h: the files of lib/source, made part of the library by
 * build-aux/embed.awk. */
#ifndef TN_LIB_KERNEL_DEVICE_TEXT_H
#define TN_LIB_KERNEL_DEVICE_TEXT_H

/* Name, text, name, text ..., NULL, NULL. */
extern const char *const tn__device_text[];

#endif
