/* device_text.h: the .cl files of lib/source, embedded in the library by
 * build-aux/embed.awk. */
#ifndef TN_LIB_SOURCE_DEVICE_TEXT_H
#define TN_LIB_SOURCE_DEVICE_TEXT_H

/* Pairs of a file's name and its contents: {name, text, name, text, ..., NULL,
 * NULL}. */
extern const char *const tn__source_texts[];

#endif
