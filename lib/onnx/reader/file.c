/* file.c: maps the file of a model and its external data files. */
#include <onnx/reader/reader.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool tn__onnx_file_open(tn__onnx_file *file, int folder, const char *path,
                        bool follow, const char *call)
{
    struct stat info;
    *file = (tn__onnx_file){0};
    /* O_NONBLOCK: opening a FIFO must not block */
    const int fd = openat(folder, path,
                          O_RDONLY | O_CLOEXEC | O_NONBLOCK |
                              (follow ? 0 : O_NOFOLLOW));
    if (fd < 0 || fstat(fd, &info) != 0) {
        tn_error_refuse_argument(TN_ERR_IO, call, "path", "%s: %s", path,
                                 !follow && errno == ELOOP
                                     ? "is a symbolic link; external data must "
                                       "be a regular file in the folder of the "
                                       "model"
                                     : strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    bool fine = S_ISREG(info.st_mode);
    if (!fine)
        tn_error_refuse_argument(TN_ERR_IO, call, "path",
                                 "%s: not a regular file", path);
    if (fine && info.st_size > 0) {
        const size_t bytes = (size_t)info.st_size;
        tn__onnx_mapping *map = calloc(1, sizeof *map);
        void *memory = map ? mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE, fd, 0)
                           : MAP_FAILED;
        fine = memory != MAP_FAILED;
        if (fine) {
            *map = (tn__onnx_mapping){1, memory, bytes};
            *file = (tn__onnx_file){map, memory, bytes};
        } else if (!map) {
            tn_error_set(TN_ERR_MEMORY, "%s: out of memory", call);
        } else {
            tn_error_refuse_argument(TN_ERR_IO, call, "path", "%s: %s", path,
                                     strerror(errno));
            free(map);
        }
    }
    close(fd);
    return fine;
}

static void unmap(void *context)
{
    tn__onnx_mapping *map = context;
    if (!map || atomic_fetch_sub(&map->references, 1) > 1)
        return;
    munmap(map->memory, map->bytes);
    free(map);
}

void tn__onnx_file_close(tn__onnx_file *file)
{
    unmap(file->mapping);
    *file = (tn__onnx_file){0};
}

static bool has(const tn__onnx_file *file, tn__onnx_span span)
{
    return file->memory && span.p >= file->memory &&
           span.end <= file->memory + file->bytes;
}

static void drop_pages(const tn__onnx_file *file, tn__onnx_span span)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (!has(file, span))
        return;
    const uintptr_t first = ((uintptr_t)span.p + page - 1) / page * page;
    const uintptr_t end = (uintptr_t)span.end / page * page;
    if (end > first)
        madvise((void *)first, end - first, MADV_DONTNEED);
}

void tn__onnx_reader_copied(const tn__onnx_reader *r, tn__onnx_span span)
{
    drop_pages(&r->file, span);
    for (int i = 0; i < r->external_count; i++)
        drop_pages(&r->external[i].file, span);
}

tn_tensor *tn__onnx_reader_wrap(const tn__onnx_reader *r, tn__onnx_span span,
                                tn_dtype dtype, tn_dims_list shape)
{
    tn__onnx_mapping *map = r->file.mapping;
    for (int i = 0; i < r->external_count; i++)
        if (has(&r->external[i].file, span))
            map = r->external[i].file.mapping;
    atomic_fetch_add(&map->references, 1);
    tn_tensor *x = tn_tensor_wrap((void *)(uintptr_t)span.p, dtype, shape,
                                  unmap, map);
    if (!x)
        unmap(map);
    return x;
}

void tn__onnx_reader_close(tn__onnx_reader *r)
{
    for (int i = 0; i < r->external_count; i++)
        tn__onnx_file_close(&r->external[i].file);
    r->external_count = 0;
    tn__onnx_file_close(&r->file);
}

bool tn__onnx_malformed(const tn__onnx_reader *r, const char *what)
{
    tn_error_refuse_argument(TN_ERR_FORMAT, r->call, "path", "%s: %s", r->path,
                             what);
    return false;
}

const char *tn__onnx_text(const tn__onnx_reader *r, const tn__onnx_item *item)
{
    const size_t bytes = tn__onnx_span_bytes(item->bytes);
    if (item->wire != TN__WIRE_BYTES || memchr(item->bytes.p, 0, bytes)) {
        tn__onnx_malformed(r, "a name is not a string, or contains a NUL");
        return NULL;
    }
    char *text = tn__onnx_alloc(r->arena, bytes + 1, 1);
    if (text && bytes)
        memcpy(text, item->bytes.p, bytes);
    return text;
}
