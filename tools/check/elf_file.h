/* elf_file.h: the symbols and dependencies of a shared object, read without
 * loading it. */
#ifndef TN_CHECK_ELF_FILE_H
#define TN_CHECK_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Called for each name with the caller's pointer. Returns false to stop. */
typedef bool elf_visit(const char *name, void *context);

/* The symbols that the file exports, and the libraries that it needs. False
 * with why filled: it is no shared object of this machine. */
bool elf_exports(const char *path, elf_visit *visit, void *context, char *why,
                 size_t room);
bool elf_needs(const char *path, elf_visit *visit, void *context, char *why,
               size_t room);

#endif
