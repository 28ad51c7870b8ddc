/* file.c: whole files: mapped to be read, replaced to be written. */
#include <io/file.h>

#include <base/error.h>
#include <base/memory.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static tn_status fail_errno(const char *what, const char *path)
{
    return tn__fail(TN_ERR_IO, "%s: {path:}%s: %s", what, path,
                    strerror(errno));
}

tn_status tn__file_map(const char *path, const char *what, void **data,
                       size_t *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(what, path);
    struct stat info;
    if (fstat(fd, &info) < 0) {
        fail_errno(what, path);
        close(fd);
        return TN_ERR_IO;
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return tn__fail(TN_ERR_IO, "%s: {path:}%s: not a regular file", what,
                        path);
    }
    *bytes = (size_t)info.st_size;
    *data = NULL;
    if (*bytes) {
        void *map = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE,
                         fd, 0);
        if (map == MAP_FAILED) {
            fail_errno(what, path);
            close(fd);
            return TN_ERR_IO;
        }
        *data = map;
    }
    close(fd);
    return TN_OK;
}

void tn__file_unmap(void *data, size_t bytes)
{
    if (data)
        munmap(data, bytes);
}

tn_status tn__file_writer_open(tn__file_writer *writer, const char *path,
                               const char *what)
{
    memset(writer, 0, sizeof *writer);
    writer->what = what;
    writer->path = tn__strdup(path);
    writer->temporary = tn__alloc(strlen(path) + 12);
    if (!writer->path || !writer->temporary) {
        tn__file_writer_abandon(writer);
        return TN_ERR_MEMORY;
    }
    sprintf(writer->temporary, "%s.tmpXXXXXX", path);
    int fd = mkostemp(writer->temporary, O_CLOEXEC);
    if (fd >= 0) {
        /* mkostemp makes files for their owner alone; give what open() with
         * 0666 would have given. */
        mode_t mask = umask(0);
        umask(mask);
        (void)fchmod(fd, 0666 & ~mask);
        writer->stream = fdopen(fd, "wb");
    }
    if (!writer->stream) {
        fail_errno(what, path);
        if (fd >= 0) {
            close(fd);
            unlink(writer->temporary);
        }
        tn__file_writer_abandon(writer);
        return TN_ERR_IO;
    }
    return TN_OK;
}

/* The rename itself is durable once its folder is synced. */
static void sync_folder(char *path)
{
    int fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

tn_status tn__file_writer_commit(tn__file_writer *writer)
{
    bool ok = fflush(writer->stream) == 0 && !ferror(writer->stream) &&
              fsync(fileno(writer->stream)) == 0;
    int error = errno;
    if (fclose(writer->stream) != 0 && ok) {
        ok = false;
        error = errno;
    }
    writer->stream = NULL;
    if (ok && rename(writer->temporary, writer->path) < 0) {
        ok = false;
        error = errno;
    }
    if (!ok) {
        errno = error ? error : EIO;
        fail_errno(writer->what, writer->path);
        unlink(writer->temporary);
        tn__file_writer_abandon(writer);
        return TN_ERR_IO;
    }
    sync_folder(writer->path);
    tn__file_writer_abandon(writer);
    return TN_OK;
}

void tn__file_writer_abandon(tn__file_writer *writer)
{
    if (writer->stream) {
        fclose(writer->stream);
        unlink(writer->temporary);
    }
    tn__free(writer->path);
    tn__free(writer->temporary);
    memset(writer, 0, sizeof *writer);
}
