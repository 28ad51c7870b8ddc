/* device_text.h: the .cl files of lib/source, embedded in the library by
 * build-aux/embed.awk and packed by gzip, which saves 66 KB. */
#ifndef TN_LIB_SOURCE_DEVICE_TEXT_H
#define TN_LIB_SOURCE_DEVICE_TEXT_H

#include <stddef.h>

/* The packed files, and a buffer for the unpacked ones: for each file a NUL,
 * its name, a NUL and its contents. The buffer has one more byte, for a NUL at
 * the end. */
extern const unsigned char tn__source_texts_packed[];
extern const size_t tn__source_texts_packed_bytes;
extern char tn__source_texts_unpacked[];
extern const size_t tn__source_texts_unpacked_bytes;

#endif
