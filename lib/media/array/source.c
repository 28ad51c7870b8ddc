/* source.c: reads a file or memory at any position. */
#include <media/array/source.h>

#include <errno.h>
#include <fcntl.h>
#include <media/array/host.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tensor.h>
#include <unistd.h>

static tn_status fail_errno(const char *path, const char *call)
{
    return tn_error_refuse_argument(errno == ENOMEM ? TN_ERR_MEMORY
                                                    : TN_ERR_IO,
                                    call, "path", "%s: %s", path,
                                    strerror(errno));
}

/* stat looks first, because opening a device can change it and opening a FIFO
 * can wait. */
static int open_regular(const char *path, struct stat *info, const char *call)
{
    int fd = -1;
    if (stat(path, info) < 0)
        return fail_errno(path, call);
    if (S_ISREG(info->st_mode)) {
        do
            fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        while (fd < 0 && errno == EINTR);
        if (fd < 0 || fstat(fd, info) < 0) {
            tn_status status = fail_errno(path, call);
            if (fd >= 0)
                close(fd);
            return status;
        }
    }
    if (S_ISREG(info->st_mode))
        return fd;
    if (fd >= 0)
        close(fd);
    return tn_error_refuse_argument(TN_ERR_IO, call, "path",
                                    "%s is not a regular file", path);
}

tn_status tn__array_source_open(tn__array_source *source, const char *path,
                                const char *call)
{
    *source = (tn__array_source){.fd = -1};
    if (!path)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "path",
                                        "path is NULL");
    source->path = strdup(path);
    if (!source->path)
        return tn__array_no_memory(call);
    source->fd = open_regular(path, &source->info, call);
    if (source->fd < 0)
        return source->fd;
    source->bytes = (uint64_t)source->info.st_size;
    return TN_OK;
}

tn_status tn__array_source_copy(tn__array_source *source, const void *data,
                                size_t bytes, const char *call)
{
    *source = (tn__array_source){.fd = -1};
    if (!data)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "data",
                                        "data is NULL");
    source->path = strdup("memory");
    source->memory = bytes < PTRDIFF_MAX ? malloc(bytes + 1) : NULL;
    if (!source->path || !source->memory)
        return tn__array_no_memory(call);
    memcpy(source->memory, data, bytes);
    source->bytes = bytes;
    return TN_OK;
}

static tn_status read_file(const tn__array_source *source, char *out,
                           uint64_t bytes, uint64_t at, const char *call)
{
    while (bytes) {
        const size_t most = bytes < 1u << 30 ? (size_t)bytes : 1u << 30;
        ssize_t got = pread(source->fd, out, most, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(source->path, call);
        if (got == 0)
            break;
        out += got;
        at += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    struct stat now;
    if (fstat(source->fd, &now) < 0)
        return fail_errno(source->path, call);
    if (bytes || now.st_size != source->info.st_size ||
        now.st_mtim.tv_sec != source->info.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != source->info.st_mtim.tv_nsec)
        return tn_error_refuse_argument(
            TN_ERR_IO, call, "path",
            "%s changed after it was opened; open it again",
            source->path);
    return TN_OK;
}

tn_status tn__array_source_read(const tn__array_source *source, void *out,
                                uint64_t bytes, uint64_t at, const char *call)
{
    if (at > source->bytes || bytes > source->bytes - at)
        return tn_error_refuse_argument(
            TN_ERR_FORMAT, call, source->memory ? "data" : "path",
            "%s is truncated: %llu bytes at %llu are needed, but it has %llu",
            source->path, (unsigned long long)bytes, (unsigned long long)at,
            (unsigned long long)source->bytes);
    if (source->fd >= 0)
        return read_file(source, out, bytes, at, call);
    memcpy(out, source->memory + at, (size_t)bytes);
    return TN_OK;
}

void tn__array_source_close(tn__array_source *source)
{
    if (source->fd >= 0)
        close(source->fd);
    free(source->memory);
    free(source->path);
    *source = (tn__array_source){.fd = -1};
}
