/* elf_file.h: what a shared object says of itself, read without opening it. */
#ifndef TN_CHECK_ELF_FILE_H
#define TN_CHECK_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Called for each name with what the reader was given; false ends the walk. */
typedef bool elf_visit(const char *name, void *context);

/* The symbols that the file exports, and the libraries that it needs. False
 * with why filled: it is no shared object of this machine. */
bool elf_exports(const char *path, elf_visit *visit, void *context, char *why,
                 size_t room);
bool elf_needs(const char *path, elf_visit *visit, void *context, char *why,
               size_t room);

#endif
