/* elf_file.h: reads which symbols a shared object exports and which libraries
 * it needs, without loading it. */
#ifndef TN_CHECK_ELF_FILE_H
#define TN_CHECK_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* A callback that receives one name and the caller's pointer. It returns false
 * to end the enumeration. */
typedef bool elf_visit(const char *name, void *context);

/* Call visit for each symbol that the file exports, or for each library that it
 * needs. If the file is not a shared object for this machine, write the reason
 * to why and return false. */
bool elf_exports(const char *path, elf_visit *visit, void *context, char *why,
                 size_t room);
bool elf_needs(const char *path, elf_visit *visit, void *context, char *why,
               size_t room);

#endif
