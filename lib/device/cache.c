/* cache.c: stores compiled device code on disk.
 *
 * Compiling a program takes from 20 ms to seconds; reading the compiled code
 * takes 1 to 2 ms. The key of an entry contains everything on which the value
 * depends (device, driver version, options, source text), so entries are never
 * out of date. Another driver version means another key.
 *
 * All processes of a user share one folder. An entry is written to a temporary
 * file and renamed, so that a name always refers to a complete entry. An entry
 * contains its key and a checksum. So an entry damaged by a full or failing
 * disk is detected, removed and made again. The cached code is executed, so the
 * folder must belong to the user and be writable by nobody else. */
#include <device/cache.h>

#include <base/error.h>
#include <base/hash.h>
#include <base/lock.h>
#include <base/memory.h>
#include <base/platform.h>
#include <tenon/device.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Largest total size of all entries in bytes. When it is exceeded, the oldest
 * entries are removed. An entry has about 20 to 100 KiB. */
#define CACHE_BYTES ((int64_t)1 << 30)
/* The total size is checked after every CACHE_LOOK writes. */
#define CACHE_LOOK 64

typedef struct head {
    char magic[8];
    uint64_t key_bytes, value_bytes;
    uint64_t sum[2]; /* hash of key and value, which detects damaged entries */
} head;
static const char magic[8] = "TNCACHE1";

static tn__lock lock = TN__LOCK_INIT;
static bool chosen;      /* true if `folder` has been set */
static int folder = -1;  /* file descriptor of the folder; -1 if there is no
                          * cache */
static _Atomic int64_t compiled;
static _Atomic uint64_t writes;

int64_t tn_programs_compiled(void)
{
    return atomic_load_explicit(&compiled, memory_order_relaxed);
}

/* ---- the folder ---------------------------------------------------------- */

/* Makes the folder and missing parent folders. */
static bool folder_make(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        bool made = !mkdir(path, 0700) || errno == EEXIST;
        *slash = '/';
        if (!made)
            return false;
    }
    return !mkdir(path, 0700) || errno == EEXIST;
}

/* Returns whether the folder belongs to the user and nobody else can write to
 * it. */
static bool is_private(const struct stat *status)
{
    return status->st_uid == geteuid() && !(status->st_mode & 022);
}

/* Opens the folder. Returns its descriptor, or -1 with the reason in the
 * log. */
static int folder_open(const char *name)
{
    char path[PATH_MAX];
    if (*name != '/' ||
        snprintf(path, sizeof path, "%s", name) >= (int)sizeof path) {
        tn__log(1, "no cache of compiled programs: %s is not an absolute path",
                name);
        return -1;
    }
    int fd = folder_make(path)
                 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                 : -1;
    struct stat status;
    if (fd < 0 || fstat(fd, &status)) {
        tn__log(1, "no cache of compiled programs: %s: %s", path,
                strerror(errno));
    } else if (!is_private(&status)) {
        tn__log(1, "no cache of compiled programs: others may write to %s; "
                   "chmod go-w it, or choose another by TENON_CACHE_DIR",
                path);
    } else {
        tn__log(3, "compiled programs are cached in %s", path);
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Opens the cache folder: TENON_CACHE_DIR if it is set, else
 * $XDG_CACHE_HOME/tenon or ~/.cache/tenon. */
static void folder_choose(void)
{
    char path[PATH_MAX];
    const char *name = tn__env("TENON_CACHE_DIR");
    const char *caches = tn__env("XDG_CACHE_HOME"), *home = tn__env("HOME");
    if (!name && caches && *caches == '/')
        snprintf(path, sizeof path, "%s/tenon", caches);
    else if (!name && home)
        snprintf(path, sizeof path, "%s/.cache/tenon", home);
    else
        snprintf(path, sizeof path, "%s", name ? name : "off");
    if (strcmp(path, "off"))
        folder = folder_open(path);
    chosen = true;
}

/* Returns a duplicate of the folder's descriptor, because another thread may
 * change the folder while this one uses it. Returns -1 if there is no cache. */
static int folder_get(void)
{
    tn__lock_take(&lock);
    if (!chosen)
        folder_choose();
    int fd = folder < 0 ? -1 : fcntl(folder, F_DUPFD_CLOEXEC, 0);
    tn__lock_give(&lock);
    return fd;
}

tn_status tn_cache_folder_set(const char *path)
{
    tn__lock_take(&lock);
    int fd = path ? folder_open(path) : -1;
    tn_status status = TN_OK;
    if (path && fd < 0) {
        status = tn__fail(TN_ERR_IO,
                          "cache_folder_set: %s is not a folder that belongs "
                          "to you and that only you can write", path);
    } else {
        if (folder >= 0)
            close(folder);
        folder = fd;
        chosen = true;
    }
    tn__lock_give(&lock);
    return status;
}

/* ---- entries ------------------------------------------------------------- */

static void name_of(char out[33], const void *key, uint64_t key_bytes)
{
    uint64_t h[2] = {0, 0};
    tn__hash_bytes(h, key, (size_t)key_bytes);
    tn__hash_finish(h);
    snprintf(out, 33, "%016" PRIx64 "%016" PRIx64, h[0], h[1]);
}

static void sum_of(uint64_t sum[2], const void *key, uint64_t key_bytes,
                   const void *value, uint64_t value_bytes)
{
    sum[0] = sum[1] = 1;
    tn__hash_bytes(sum, key, (size_t)key_bytes);
    tn__hash_bytes(sum, value, (size_t)value_bytes);
    tn__hash_finish(sum);
}

static bool read_all(int fd, void *out, size_t bytes)
{
    for (char *at = out; bytes;) {
        ssize_t got = read(fd, at, bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const void *data, size_t bytes)
{
    for (const char *at = data; bytes;) {
        ssize_t done = write(fd, at, bytes);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        at += done;
        bytes -= (size_t)done;
    }
    return true;
}

/* Reads the entry with this key into allocated memory. Returns NULL if the file
 * is damaged or has another key. */
static unsigned char *entry_read(int fd, const void *key, uint64_t key_bytes,
                                 head *out)
{
    struct stat status;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode) ||
        !is_private(&status) || !read_all(fd, out, sizeof *out) ||
        memcmp(out->magic, magic, sizeof magic) ||
        out->key_bytes != key_bytes ||
        out->value_bytes != (uint64_t)status.st_size - sizeof *out - key_bytes)
        return NULL;
    size_t bytes = (size_t)(out->key_bytes + out->value_bytes);
    unsigned char *data = malloc(bytes ? bytes : 1);
    uint64_t sum[2];
    if (!data)
        return NULL;
    if (read_all(fd, data, bytes) && !memcmp(data, key, (size_t)key_bytes)) {
        sum_of(sum, key, key_bytes, data + key_bytes, out->value_bytes);
        if (!memcmp(sum, out->sum, sizeof sum))
            return data;
    }
    free(data);
    return NULL;
}

/* Sets the file time of an entry to now if it is more than a day old, so that
 * entries in use are not removed as old. */
static void entry_touch(int fd)
{
    struct stat status;
    if (!fstat(fd, &status) && status.st_mtime < time(NULL) - 24 * 60 * 60)
        futimens(fd, NULL);
}

uint32_t tn__cache_read(const void *key, uint64_t key_bytes,
                        uint32_t (*take)(void *context, const void *value,
                                         uint64_t value_bytes),
                        void *context)
{
    char name[33];
    bool taken = false;
    name_of(name, key, key_bytes);
    int in = folder_get();
    int fd = in < 0 ? -1
                    : openat(in, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        head h;
        unsigned char *data = entry_read(fd, key, key_bytes, &h);
        taken = data && take(context, data + key_bytes, h.value_bytes);
        free(data);
        if (taken) {
            entry_touch(fd);
        } else {
            unlinkat(in, name, 0);
            tn__log(2, "cache: entry %s is damaged or out of use: removed", name);
        }
        close(fd);
    }
    if (in >= 0)
        close(in);
    if (!taken)
        atomic_fetch_add_explicit(&compiled, 1, memory_order_relaxed);
    return taken;
}

/* ---- exclusive locks ---------------------------------------------------- */

/* Takes an exclusive lock for a key, so that several processes do not compile
 * the same program. All keys share one lock file. A key locks one byte range of
 * that file (fcntl), at an offset computed from its hash; the file's content is
 * never written. No cache entry can have the lock file's name. */
int32_t tn__cache_hold(const void *key, uint64_t key_bytes)
{
    uint64_t h[2] = {0, 0};
    int in = folder_get();
    if (in < 0)
        return -1;
    tn__hash_bytes(h, key, (size_t)key_bytes);
    tn__hash_finish(h);
    int fd = openat(in, ".lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                    0600);
    close(in);
    if (fd >= 0 && !tn__file_hold(fd, h[0])) {
        close(fd);
        fd = -1;
    }
    return fd;
}

void tn__cache_release(int32_t hold)
{
    if (hold < 0)
        return;
    tn__file_let_go(hold);
    close(hold);
}

/* ---- removing old entries ------------------------------------------------ */

typedef struct file {
    char name[33];
    int64_t time, bytes;
} file;

static int by_age(const void *left, const void *right)
{
    const file *a = left, *b = right;
    return (a->time > b->time) - (a->time < b->time);
}

/* Lists the cache entries in allocated memory. Also removes temporary files
 * older than a day, because the processes that wrote them have died. */
static file *folder_list(int in, size_t *count, int64_t *bytes)
{
    int again = openat(in, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = again < 0 ? NULL : fdopendir(again);
    file *files = NULL;
    size_t room = 0;
    struct dirent *entry;
    *count = 0;
    *bytes = 0;
    if (!list && again >= 0)
        close(again);
    while (list && (entry = readdir(list))) {
        struct stat status;
        size_t length = strlen(entry->d_name);
        if (fstatat(in, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(status.st_mode))
            continue;
        if (!strncmp(entry->d_name, "new.", 4) &&
            status.st_mtime < time(NULL) - 24 * 60 * 60)
            unlinkat(in, entry->d_name, 0);
        if (length != 32 || !tn__grow(&files, &room, *count, sizeof *files))
            continue;
        file *f = &files[(*count)++];
        memcpy(f->name, entry->d_name, length + 1);
        f->time = status.st_mtime;
        f->bytes = status.st_size;
        *bytes += f->bytes;
    }
    if (list)
        closedir(list);
    return files;
}

void tn__cache_trim(int64_t most)
{
    size_t count;
    int64_t bytes;
    int in = folder_get();
    if (in < 0)
        return;
    tn__error before;
    tn__error_hide(&before);
    file *files = folder_list(in, &count, &bytes);
    if (bytes > most) {
        qsort(files, count, sizeof *files, by_age);
        for (size_t i = 0; i < count && bytes > most / 4 * 3; i++) {
            unlinkat(in, files[i].name, 0);
            bytes -= files[i].bytes;
        }
    }
    tn__free(files);
    tn__error_restore(&before);
    close(in);
}

void tn__cache_write(const void *key, uint64_t key_bytes, const void *value,
                     uint64_t value_bytes)
{
    char name[33], fresh[64];
    int in = folder_get();
    if (in < 0)
        return;
    uint64_t number = atomic_fetch_add(&writes, 1);
    name_of(name, key, key_bytes);
    snprintf(fresh, sizeof fresh, "new.%ld.%" PRIu64, (long)getpid(), number);
    head h = {.key_bytes = key_bytes, .value_bytes = value_bytes};
    memcpy(h.magic, magic, sizeof magic);
    sum_of(h.sum, key, key_bytes, value, value_bytes);
    /* A process that died may have had the same process id and left this
     * temporary file. */
    unlinkat(in, fresh, 0);
    int fd = openat(in, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool whole = fd >= 0 && write_all(fd, &h, sizeof h) &&
                 write_all(fd, key, (size_t)key_bytes) &&
                 write_all(fd, value, (size_t)value_bytes);
    int error = errno;
    if (fd >= 0 && close(fd) && whole) {
        whole = false;
        error = errno;
    }
    if (whole && renameat(in, fresh, in, name)) {
        whole = false;
        error = errno;
    }
    if (!whole) {
        unlinkat(in, fresh, 0);
        tn__log(1, "cache: a compiled program cannot be stored: %s",
                strerror(error));
    }
    close(in);
    if (number % CACHE_LOOK == CACHE_LOOK - 1)
        tn__cache_trim(CACHE_BYTES);
}
