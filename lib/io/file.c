/* file.c: opens and reads regular files. */
#include <io/file.h>

#include <base/error.h>
#include <base/lock.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

tn_status tn__file_fail(const char *what, const char *path)
{
    return tn__fail(errno == ENOMEM ? TN_ERR_MEMORY : TN_ERR_IO,
                    "%s: {path:}%s: %s", what, path, strerror(errno));
}

static tn_status check_regular(const struct stat *info, const char *path,
                               const char *what)
{
    if (S_ISREG(info->st_mode))
        return TN_OK;
    const char *kind = S_ISDIR(info->st_mode)    ? "a folder"
                       : S_ISFIFO(info->st_mode) ? "a FIFO"
                       : S_ISSOCK(info->st_mode) ? "a socket"
                                                 : "a device";
    return tn__fail(TN_ERR_IO, "%s: {path:}%s: %s, not a regular file", what,
                    path, kind);
}

static int open_regular(const char *path, const char *what, struct stat *info)
{
    /* Opening a device can change it (a tape is rewound), so stat checks the
     * kind of file first. Another process may replace the file by a FIFO before
     * open is called. So open must not wait, and the opened file is checked
     * again. */
    if (stat(path, info) < 0)
        return tn__file_fail(what, path);
    tn_status status = check_regular(info, path, what);
    if (status < 0)
        return status;
    int fd;
    do
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return tn__file_fail(what, path);
    status = fstat(fd, info) < 0 ? tn__file_fail(what, path)
                                 : check_regular(info, path, what);
    if (status < 0) {
        close(fd);
        return status;
    }
    return fd;
}

int tn__file_open(const char *path, const char *what, struct stat *info)
{
    struct stat own;
    tn__cancel_hold();
    int fd = open_regular(path, what, info ? info : &own);
    tn__cancel_release();
    return fd;
}

static tn_status read_all(int fd, const char *path, const char *what, void *out,
                          size_t bytes, uint64_t offset)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(fd, (char *)out + done, bytes - done,
                            (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return tn__file_fail(what, path);
        if (got == 0)
            return tn__fail(TN_ERR_IO,
                            "%s: {path:}%s: ends at byte %llu: it became "
                            "shorter since it was opened",
                            what, path, (unsigned long long)(offset + done));
        done += (size_t)got;
    }
    return TN_OK;
}

tn_status tn__file_read_at(int fd, const char *path, const char *what,
                           void *out, size_t bytes, uint64_t offset)
{
    tn__cancel_hold();
    tn_status status = read_all(fd, path, what, out, bytes, offset);
    tn__cancel_release();
    return status;
}
