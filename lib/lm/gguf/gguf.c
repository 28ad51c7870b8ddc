/* gguf.c: opens a GGUF file, and makes tensors of its contents.
 *
 * The file is mapped privately and writable: a program that writes to a tensor
 * of the file changes its own copy of the page. A read-only mapping would kill
 * it with SIGSEGV. */
#include <lm/gguf/gguf.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void release(void *object)
{
    tn_gguf *file = object;
    tn__gguf_release(&file->header);
    if (file->map)
        munmap(file->map, (size_t)file->bytes);
    free(file->path);
}

static const tn_object_class gguf_class = {.size = sizeof gguf_class,
                                           .name = "GGUF file",
                                           .bytes = sizeof(tn_gguf),
                                           .release = release};

bool tn__gguf_check(const tn_gguf *file, const char *call)
{
    return tn_object_check(file, &gguf_class, call, "file");
}

bool tn__gguf_is(const tn_gguf *file, const char *call)
{
    return file && tn__gguf_check(file, call);
}

/* ---- opening ------------------------------------------------------------- */

static tn_status fail_errno(const char *path)
{
    return tn_error_refuse_argument(
        errno == ENOMEM ? TN_ERR_MEMORY : TN_ERR_IO, "gguf_open", "path",
        "%s: %s", path, strerror(errno));
}

/* Opens a regular file and returns its descriptor. stat looks first, because
 * opening a device can change it and opening a FIFO can wait. */
static int open_regular(const char *path, struct stat *info)
{
    int fd = -1;
    if (stat(path, info) < 0)
        return (int)fail_errno(path);
    if (S_ISREG(info->st_mode)) {
        do
            fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        while (fd < 0 && errno == EINTR);
        if (fd < 0 || fstat(fd, info) < 0) {
            tn_status status = fail_errno(path);
            if (fd >= 0)
                close(fd);
            return (int)status;
        }
    }
    if (S_ISREG(info->st_mode))
        return fd;
    if (fd >= 0)
        close(fd);
    return (int)tn_error_refuse_argument(TN_ERR_IO, "gguf_open", "path",
                                         "%s is not a regular file", path);
}

static tn_status map(tn_gguf *file)
{
    struct stat info;
    int fd = open_regular(file->path, &info);
    if (fd < 0)
        return (tn_status)fd;
    file->bytes = (uint64_t)info.st_size;
    void *memory = MAP_FAILED;
    if (file->bytes > 0 && file->bytes <= SIZE_MAX)
        memory = mmap(NULL, (size_t)file->bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    else
        errno = file->bytes ? ENOMEM : EINVAL;
    tn_status status = TN_OK;
    if (memory != MAP_FAILED)
        file->map = memory;
    else
        status = file->bytes ? fail_errno(file->path)
                             : tn_error_refuse_argument(
                                   TN_ERR_FORMAT, "gguf_open", "path",
                                   "%s: the file is empty", file->path);
    close(fd);
    return status;
}

tn_gguf *tn_gguf_open(const char *path)
{
    if (!path) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "gguf_open", "path",
                                 "path is NULL");
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    tn_gguf *file = scope ? tn_object_new(&gguf_class, 0) : NULL;
    if (!file)
        return tn_scope_result(scope, NULL);
    file->path = strdup(path);
    if (!file->path)
        tn_error_set(TN_ERR_MEMORY, "gguf_open: out of memory");
    bool opened = file->path && map(file) == TN_OK &&
                  tn__gguf_parse(&file->header, file->map, file->bytes,
                                 file->path) == TN_OK;
    return tn_scope_result(scope, opened ? file : NULL);
}

const char *tn_gguf_path(const tn_gguf *file)
{
    return tn__gguf_is(file, "gguf_path") ? file->path : NULL;
}

/* ---- attributes of tensors ----------------------------------------------- */

int64_t tn_gguf_count(const tn_gguf *file)
{
    return tn__gguf_is(file, "gguf_count") ? file->header.entry_count : 0;
}

const char *tn_gguf_name(const tn_gguf *file, int64_t i)
{
    return tn__gguf_is(file, "gguf_name") && i >= 0 &&
                   i < file->header.entry_count
               ? file->header.entry[i].name
               : NULL;
}

static const tn__gguf_entry *find(const tn_gguf *file, const char *name,
                                  const char *call)
{
    return tn__gguf_is(file, call) && name
               ? tn__gguf_entry_find(&file->header, name)
               : NULL;
}

bool tn_gguf_has(const tn_gguf *file, const char *name)
{
    return find(file, name, "gguf_has") != NULL;
}

const char *tn_gguf_type(const tn_gguf *file, const char *name)
{
    const tn__gguf_entry *entry = find(file, name, "gguf_type");
    return entry ? entry->type->name : NULL;
}

tn_dtype tn_gguf_dtype(const tn_gguf *file, const char *name)
{
    const tn__gguf_entry *entry = find(file, name, "gguf_dtype");
    return entry ? entry->type->dtype : TN_DTYPE_NONE;
}

int tn_gguf_ndim(const tn_gguf *file, const char *name)
{
    const tn__gguf_entry *entry = find(file, name, "gguf_ndim");
    return entry ? entry->ndim : 0;
}

const int64_t *tn_gguf_shape(const tn_gguf *file, const char *name)
{
    const tn__gguf_entry *entry = find(file, name, "gguf_shape");
    return entry ? entry->shape : NULL;
}

const void *tn_gguf_data(const tn_gguf *file, const char *name)
{
    const tn__gguf_entry *entry = find(file, name, "gguf_data");
    return entry ? (const char *)file->map + entry->offset : NULL;
}

uint64_t tn_gguf_data_bytes(const tn_gguf *file, const char *name)
{
    const tn__gguf_entry *entry = find(file, name, "gguf_data_bytes");
    return entry ? entry->bytes : 0;
}

void tn__gguf_discard(const tn_gguf *file, const char *name)
{
    const tn__gguf_entry *entry = find(file, name, "gguf_discard");
    if (!entry)
        return;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t data = (uintptr_t)file->map + entry->offset;
    const uintptr_t first = (data + page - 1) / page * page;
    const uintptr_t end = (data + entry->bytes) / page * page;
    if (first < end)
        madvise((void *)first, end - first, MADV_DONTNEED);
}
