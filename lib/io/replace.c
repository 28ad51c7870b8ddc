/* replace.c: replaces a file atomically. The new contents are written to a
 * temporary file in the same folder, which is then renamed.
 *
 * A process that is killed leaves its temporary file behind. A writer locks its
 * temporary file by flock, and the system releases the lock when the process
 * ends. The next writer to the same path removes temporary files that are not
 * locked. Not every network file system shares locks between machines. So the
 * name of a temporary file contains a hash of the machine's name, and a file of
 * another machine is removed only if it is also an hour old. */
#include <io/file.h>

#include <base/error.h>
#include <base/hash.h>
#include <base/lock.h>
#include <base/memory.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

/* A file name has at most 255 bytes. So the name of a temporary file contains
 * at most MAX_STEM bytes of the original name. */
enum { MAX_LINKS = 40, MAX_STEM = 180, MAX_TAIL = 64, MAX_TRIES = 1000 };
enum { OLD_SECONDS = 3600 };

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- the target --------------------------------------------------------- */

/* Replaces path, a buffer of PATH_MAX bytes, by the target of the symbolic link
 * that it names. If path is not a link, sets errno and returns false. */
static bool follow_once(char *path, char *room)
{
    ssize_t length = readlink(path, room, PATH_MAX - 1);
    if (length < 0)
        return false;
    room[length] = '\0';
    size_t folder = room[0] == '/' ? 0 : (size_t)(base_of(path) - path);
    if (folder + (size_t)length >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(path + folder, room, (size_t)length + 1);
    return true;
}

/* Follows a chain of symbolic links until w->path names a file or nothing. Sets
 * w->replaces and w->old if there is a file. */
static tn_status find_target(tn__file_writer *w)
{
    /* w->temporary serves as a buffer here. It gets the name of the temporary
     * file later. */
    int links = 0;
    while (links < MAX_LINKS && follow_once(w->path, w->temporary))
        links++;
    if (links == MAX_LINKS)
        errno = ELOOP;
    if (errno != EINVAL && errno != ENOENT) /* EINVAL: it is not a link; ENOENT:
                                               there is no file */
        return tn__file_fail(w->what, w->named);
    /* A link in /proc can lead to a deleted file, which has no name any more.
     * So stat is called with the caller's path too, and both results must be
     * the same file. Another writer may replace the file between the two calls,
     * so this is tried several times. */
    struct stat end;
    bool agree = false;
    for (int tries = 0; tries < MAX_TRIES && !agree; tries++) {
        if (stat(w->named, &w->old) < 0)
            return errno == ENOENT ? TN_OK : tn__file_fail(w->what, w->named);
        agree = links == 0 ||
                (stat(w->path, &end) == 0 && end.st_dev == w->old.st_dev &&
                 end.st_ino == w->old.st_ino);
    }
    if (!S_ISREG(w->old.st_mode))
        return tn__fail(TN_ERR_IO,
                        "%s: {path:}%s: %s, not a regular file: give the name "
                        "of a file",
                        w->what, w->named,
                        S_ISDIR(w->old.st_mode)    ? "a folder"
                        : S_ISFIFO(w->old.st_mode) ? "a FIFO"
                        : S_ISSOCK(w->old.st_mode) ? "a socket"
                                                   : "a device");
    if (!agree)
        return tn__fail(TN_ERR_IO,
                        "%s: {path:}%s: leads to a file that was deleted",
                        w->what, w->named);
    w->replaces = true;
    return TN_OK;
}

/* ---- temporary files ---------------------------------------------------- */

/* Writes the prefix that the names of all temporary files for path share, for
 * example "model.st.tmp-". */
static int stem_of(char *out, size_t room, const char *path)
{
    return snprintf(out, room, "%.*s.tmp-", MAX_STEM, base_of(path));
}

static uint32_t machine_hash(void)
{
    char name[256] = "";
    (void)gethostname(name, sizeof name - 1);
    uint64_t hash[2] = {0, 0};
    tn__hash_bytes(hash, name, strlen(name));
    tn__hash_finish(hash);
    return (uint32_t)hash[0];
}

/* Parses the rest of the name of a temporary file,
 * "<machine>-<process>-<number>", and sets *from to the hash of the machine. */
static bool read_tail(const char *tail, uint32_t *from)
{
    int end = 0;
    long process;
    unsigned number;
    return sscanf(tail, "%8" SCNx32 "-%ld-%u%n", from, &process, &number,
                  &end) == 3 &&
           end && !tail[end];
}

static void remove_if_stale(int folder, const char *name, uint32_t from)
{
    int fd = openat(folder, name,
                    O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return;
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
        (from == machine_hash() || time(NULL) - info.st_mtime > OLD_SECONDS) &&
        flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(folder, name, 0);
    close(fd);
}

/* Removes temporary files for path whose writer has ended. Ignores files that
 * cannot be examined or removed. */
static void remove_stale(char *path)
{
    char stem[MAX_STEM + MAX_TAIL];
    size_t length = (size_t)stem_of(stem, sizeof stem, path);
    size_t folder = (size_t)(base_of(path) - path);
    char first = path[folder];
    path[folder] = '\0';
    DIR *list = opendir(folder ? path : ".");
    path[folder] = first;
    struct dirent *entry;
    uint32_t from;
    while (list && (entry = readdir(list)))
        if (strncmp(entry->d_name, stem, length) == 0 &&
            read_tail(entry->d_name + length, &from))
            remove_if_stale(dirfd(list), entry->d_name, from);
    if (list)
        closedir(list);
}

/* Creates a new temporary file and locks it if the file system supports that.
 * Returns its descriptor, or -1. */
static int open_temporary(tn__file_writer *w)
{
    static _Atomic unsigned next;
    size_t folder = (size_t)(base_of(w->path) - w->path);
    memcpy(w->temporary, w->path, folder);
    char *name = w->temporary + folder;
    int stem = stem_of(name, MAX_STEM + MAX_TAIL, w->path);
    /* The replacement of an existing file is private until it gets the old
     * file's mode, because the old file may be private. The mode of a new file
     * depends on the umask. */
    mode_t mode = w->replaces ? 0600 : 0666;
    for (int i = 0; i < MAX_TRIES; i++) {
        snprintf(name + stem, MAX_TAIL, "%08" PRIx32 "-%ld-%u", machine_hash(),
                 (long)getpid(), atomic_fetch_add(&next, 1));
        int fd = open(w->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
                      mode);
        if (fd < 0 && (errno == EEXIST || errno == EINTR))
            continue;
        if (fd < 0)
            return -1;
        /* Between open and flock the file is not locked, so another writer may
         * take it for a file of an ended process. Then that writer holds the
         * lock or has removed the file, and another name is tried. */
        struct stat info;
        bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
        bool taken = !locked && errno == EWOULDBLOCK;
        if (!taken && fstat(fd, &info) == 0 && info.st_nlink)
            return fd;
        close(fd);
    }
    errno = EEXIST;
    return -1;
}

/* ---- writing a file ----------------------------------------------------- */

tn_status tn__file_writer_open(tn__file_writer *w, const char *path,
                               const char *what)
{
    memset(w, 0, sizeof *w);
    w->fd = -1;
    w->what = what;
    w->named = path;
    if (strlen(path) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return tn__file_fail(what, path);
    }
    w->open = true;
    tn__cancel_hold();
    w->path = tn__alloc(PATH_MAX);
    w->temporary = tn__alloc(PATH_MAX + MAX_TAIL);
    tn_status status = TN_ERR_MEMORY;
    if (w->path && w->temporary) {
        memcpy(w->path, path, strlen(path) + 1);
        status = find_target(w);
    }
    if (status == TN_OK) {
        remove_stale(w->path);
        w->fd = open_temporary(w);
        if (w->fd < 0)
            status = tn__file_fail(what, path);
    }
    if (status < 0)
        tn__file_writer_abandon(w);
    return status;
}

tn_status tn__file_writer_write(tn__file_writer *w, const void *data,
                                size_t bytes)
{
    const char *at = data;
    while (bytes) {
        ssize_t done = write(w->fd, at, bytes);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return tn__file_fail(w->what, w->named);
        at += done;
        bytes -= (size_t)done;
    }
    return TN_OK;
}

/* Gives the new file the owner, group and mode of the old one, as far as the
 * user is allowed to. If the group cannot be set, the new group gets only the
 * rights that all other users have. */
static bool copy_mode(const tn__file_writer *w)
{
    mode_t mode = w->old.st_mode & 0777;
    struct stat now;
    if (fstat(w->fd, &now) < 0)
        return false;
    if ((now.st_uid != w->old.st_uid || now.st_gid != w->old.st_gid) &&
        fchown(w->fd, w->old.st_uid, w->old.st_gid) < 0 &&
        now.st_gid != w->old.st_gid &&
        fchown(w->fd, (uid_t)-1, w->old.st_gid) < 0)
        mode = (mode & 0707) | (mode & 07) << 3;
    return fchmod(w->fd, mode) == 0;
}

static bool sync_file(int fd)
{
    int result;
    while ((result = fsync(fd)) < 0 && errno == EINTR)
        ;
    return result == 0;
}

/* Syncs the folder to disk, so that the rename survives a crash. */
static void sync_folder(char *path)
{
    size_t folder = (size_t)(base_of(path) - path);
    path[folder] = '\0';
    int fd = open(folder ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)sync_file(fd);
        close(fd);
    }
}

tn_status tn__file_writer_commit(tn__file_writer *w)
{
    /* Closing the descriptor would release the lock, so it stays open until the
     * file is renamed. */
    if ((w->replaces && !copy_mode(w)) || !sync_file(w->fd) ||
        rename(w->temporary, w->path) < 0) {
        tn_status status = tn__file_fail(w->what, w->named);
        tn__file_writer_abandon(w);
        return status;
    }
    close(w->fd);
    w->fd = -1;
    sync_folder(w->path);
    tn__file_writer_abandon(w);
    return TN_OK;
}

void tn__file_writer_abandon(tn__file_writer *w)
{
    if (w->fd >= 0) {
        unlink(w->temporary);
        close(w->fd);
    }
    tn__free(w->path);
    tn__free(w->temporary);
    if (w->open)
        tn__cancel_release();
    memset(w, 0, sizeof *w);
    w->fd = -1;
}
