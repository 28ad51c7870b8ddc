/* elf_file.c: reads the exported symbols and the needed libraries of a shared
 * object in ELF format. Every offset in the file is compared with the file's
 * length before it is used. */
#include "elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct image {
    const unsigned char *bytes; /* the file, mapped into memory */
    size_t size;
} image;

static const void *part(const image *file, uint64_t from, uint64_t bytes)
{
    return from <= file->size && bytes <= file->size - from ? file->bytes + from
                                                            : NULL;
}

/* Returns the name at offset `at` of a string table, or NULL if it does not end
 * within the table. */
static const char *name_at(const image *file, const ElfW(Shdr) * names,
                           uint64_t at)
{
    const char *text = part(file, names->sh_offset, names->sh_size);
    return text && at < names->sh_size &&
                   memchr(text + at, 0, names->sh_size - at)
               ? text + at
               : NULL;
}

static bool visit_symbols(const image *file, const ElfW(Shdr) * section,
                          const ElfW(Shdr) * names, elf_visit *visit,
                          void *context)
{
    const ElfW(Sym) *symbol = part(file, section->sh_offset, section->sh_size);
    size_t count = section->sh_size / sizeof *symbol;
    for (size_t i = 0; symbol && i < count; i++) {
        /* ELF encodes binding and visibility in the same way for 32 and 64
         * bits. */
        unsigned bind = ELF64_ST_BIND(symbol[i].st_info);
        const char *name = name_at(file, names, symbol[i].st_name);
        if (symbol[i].st_shndx != SHN_UNDEF && bind != STB_LOCAL && name &&
            !visit(name, context))
            break;
    }
    return symbol != NULL;
}

static bool visit_needed(const image *file, const ElfW(Shdr) * section,
                         const ElfW(Shdr) * names, elf_visit *visit,
                         void *context)
{
    const ElfW(Dyn) *entry = part(file, section->sh_offset, section->sh_size);
    size_t count = section->sh_size / sizeof *entry;
    for (size_t i = 0; entry && i < count; i++) {
        const char *name = name_at(file, names, entry[i].d_un.d_val);
        if (entry[i].d_tag == DT_NEEDED && name && !visit(name, context))
            break;
    }
    return entry != NULL;
}

static bool visit_section(const image *file, unsigned type, elf_visit *visit,
                          void *context)
{
    const ElfW(Ehdr) *head = part(file, 0, sizeof *head);
    unsigned char class = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_ident[EI_CLASS] != class || head->e_type != ET_DYN)
        return false;
    const ElfW(Shdr) *section =
        part(file, head->e_shoff, head->e_shnum * sizeof *section);
    for (unsigned i = 0; section && i < head->e_shnum; i++)
        if (section[i].sh_type == type && section[i].sh_link < head->e_shnum)
            return (type == SHT_DYNSYM ? visit_symbols : visit_needed)(
                file, &section[i], &section[section[i].sh_link], visit,
                context);
    return false;
}

static bool visit_file(const char *path, unsigned type, elf_visit *visit,
                       void *context, char *why, size_t room)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0) {
        snprintf(why, room, "cannot be read: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    image file = {.size = (size_t)about.st_size};
    void *bytes = mmap(NULL, file.size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    bool done = bytes != MAP_FAILED;
    if (done) {
        file.bytes = bytes;
        done = visit_section(&file, type, visit, context);
        munmap(bytes, file.size);
    }
    if (!done)
        snprintf(why, room, "is not a shared object for this machine");
    return done;
}

bool elf_exports(const char *path, elf_visit *visit, void *context, char *why,
                 size_t room)
{
    return visit_file(path, SHT_DYNSYM, visit, context, why, room);
}

bool elf_needs(const char *path, elf_visit *visit, void *context, char *why,
               size_t room)
{
    return visit_file(path, SHT_DYNAMIC, visit, context, why, room);
}
