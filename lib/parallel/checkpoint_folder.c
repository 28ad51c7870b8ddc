/* checkpoint_folder.c: the folders of checkpoints: their names, which are complete,
 * and which are removed.
 *
 * The name of a checkpoint's folder has its step. Which one is the latest is
 * decided by a serial number in COMPLETE, because a run that was resumed from an
 * earlier checkpoint saves smaller steps again. */
#include <parallel/checkpoint.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char complete_name[] = "COMPLETE";
enum { MOST_COMPLETE = 64 << 20, MOST_TRIES = 1000 };

static tn_status fail(const char *call, const char *path)
{
    return tn_error_set(errno == ENOMEM ? TN_ERR_MEMORY : TN_ERR_IO,
                        "%s: %s: %s", call, path, strerror(errno));
}

static bool join(char out[PATH_MAX], const char *folder, const char *name)
{
    return snprintf(out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

/* ---- COMPLETE ------------------------------------------------------------- */

/* Returns NULL and fills *out, or what is wrong: "" if there is no COMPLETE.
 * Sets no error. */
static const char *read_complete(const char *path, tn__complete *out)
{
    char file[PATH_MAX];
    if (!join(file, path, complete_name))
        return "";
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? "" : strerror(errno);
    struct stat info;
    const char *wrong = NULL;
    char *text = NULL;
    size_t bytes = 0;
    if (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode))
        wrong = "it is not a regular file";
    else if (info.st_size > MOST_COMPLETE)
        wrong = "it is too large";
    else if (!(text = malloc((size_t)info.st_size + 1)))
        wrong = "out of memory";
    while (!wrong && bytes < (size_t)info.st_size) {
        ssize_t got = read(fd, text + bytes, (size_t)info.st_size - bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            wrong = got ? strerror(errno) : "it became shorter";
        bytes += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    if (!wrong)
        wrong = tn__complete_parse(out, text, bytes);
    free(text);
    return wrong;
}

tn_status tn__sharded_read_complete(const char *path, tn__complete *out,
                                    const char *call)
{
    const char *wrong = read_complete(path, out);
    if (!wrong)
        return TN_OK;
    return *wrong ? tn_error_set(TN_ERR_FORMAT, "%s: %s/%s: %s", call, path,
                                 complete_name, wrong)
                  : tn_error_set(TN_ERR_IO,
                                 "%s: %s: no complete checkpoint: there is no "
                                 "%s", call, path, complete_name);
}

static tn_status produce(void *context, tn_file *file)
{
    const tn__json_writer *json = context;
    return tn_file_write(file, json->text, json->count);
}

tn_status tn__sharded_complete(const char *path, const tn__complete *complete)
{
    char file[PATH_MAX];
    if (!join(file, path, complete_name)) {
        errno = ENAMETOOLONG;
        return fail("sharded_save", path);
    }
    tn__json_writer json = {.grow = realloc};
    tn__complete_write(&json, complete);
    tn_status status =
        json.failed ? tn_error_set(TN_ERR_MEMORY, "sharded_save: out of memory")
                    : TN_OK;
    if (status == TN_OK)
        status = tn_file_replace(file, "sharded_save", produce, &json);
    free(json.text);
    return status;
}


/* ---- the checkpoints of a folder ------------------------------------------ */

typedef struct found {
    char name[TN__SHARDED_NAME];
    bool begun;    /* there is no COMPLETE; not true if it cannot be read */
    bool complete; /* it is there, and so are all files that it names */
    int64_t serial, step; /* -1 and 0 without COMPLETE */
} found;

static void examine(found *f, const char *path)
{
    tn__complete c;
    const char *wrong = read_complete(path, &c);
    f->begun = wrong && !*wrong;
    if (wrong)
        return;
    f->complete = true;
    for (size_t i = 0; i < c.count && f->complete; i++) {
        char file[PATH_MAX];
        struct stat info;
        f->complete = join(file, path, c.file[i].name) &&
                      stat(file, &info) == 0 && S_ISREG(info.st_mode) &&
                      info.st_size == c.file[i].bytes;
    }
    f->serial = c.serial;
    f->step = c.step;
    tn__complete_release(&c);
}

static bool is_checkpoint_name(const char *name)
{
    int end = 0, more = 0;
    int64_t step;
    unsigned again;
    if (strlen(name) >= TN__SHARDED_NAME ||
        sscanf(name, "step-%" SCNd64 "%n", &step, &end) != 1 || step < 0)
        return false;
    return !name[end] ||
           (sscanf(name + end, "-%u%n", &again, &more) == 1 &&
            !name[end + more]);
}

/* Lists the checkpoints of a folder. Returns their number, or -1 if there is no
 * memory; none if the folder cannot be read. The caller frees *out. */
static int list_folder(const char *folder, found **out)
{
    DIR *list = opendir(folder);
    int count = 0, room = 0;
    *out = NULL;
    for (struct dirent *entry; list && (entry = readdir(list));) {
        if (!is_checkpoint_name(entry->d_name))
            continue;
        if (count == room) {
            room = room ? 2 * room : 16;
            found *more = realloc(*out, (size_t)room * sizeof *more);
            if (!more) {
                count = -1;
                break;
            }
            *out = more;
        }
        found *f = &(*out)[count++];
        char path[PATH_MAX];
        *f = (found){.serial = -1};
        snprintf(f->name, sizeof f->name, "%s", entry->d_name);
        if (join(path, folder, f->name))
            examine(f, path);
    }
    if (list)
        closedir(list);
    return count;
}

static const found *latest_of(const found *list, int count)
{
    const found *best = NULL;
    for (int i = 0; i < count; i++)
        if (list[i].complete && (!best || list[i].serial > best->serial))
            best = &list[i];
    return best;
}

int64_t tn_sharded_latest(const char *folder, char *out, size_t room)
{
    if (!folder) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "sharded_latest", "folder",
                                 "folder is NULL");
        return -1;
    }
    found *list;
    const int count = list_folder(folder, &list);
    const found *best = latest_of(list, count);
    int64_t step = best ? best->step : -1;
    if (count < 0)
        tn_error_set(TN_ERR_MEMORY, "sharded_latest: out of memory");
    if (best && out &&
        (size_t)snprintf(out, room, "%s/%s", folder, best->name) >= room) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "sharded_latest", "room",
                                 "room is %zu, too small for %s/%s", room,
                                 folder, best->name);
        step = -1;
    }
    free(list);
    return step;
}

int tn__sharded_resolve(const char *path, char out[PATH_MAX], const char *call)
{
    struct stat info;
    if (strlen(path) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return fail(call, path);
    }
    if (stat(path, &info) < 0)
        return errno == ENOENT ? 0 : fail(call, path);
    snprintf(out, PATH_MAX, "%s", path);
    if (!S_ISDIR(info.st_mode))
        return 2;
    char file[PATH_MAX];
    if (join(file, path, complete_name) && stat(file, &info) == 0)
        return 1;
    found *list;
    const int count = list_folder(path, &list);
    const found *best = latest_of(list, count);
    int result = best != NULL;
    if (count < 0)
        result = tn_error_set(TN_ERR_MEMORY, "%s: out of memory", call);
    else if (best && !join(out, path, best->name)) {
        errno = ENAMETOOLONG;
        result = fail(call, path);
    }
    free(list);
    return result;
}

/* ---- making and removing -------------------------------------------------- */

/* Syncs a folder, so that a new name in it survives a crash. */
static void sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

/* Makes a folder and those that it is in. */
static tn_status make_path(const char *folder)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s", folder) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return fail("sharded_save", folder);
    }
    struct stat info;
    for (char *at = path; *at; at++) {
        at += strspn(at, "/");
        at += strcspn(at, "/");
        const char next = *at;
        *at = '\0';
        if (*path && mkdir(path, 0777) < 0 && errno != EEXIST)
            return fail("sharded_save", path);
        *at = next;
        if (!next)
            break;
    }
    if (stat(folder, &info) == 0 && S_ISDIR(info.st_mode))
        return TN_OK;
    errno = ENOTDIR;
    return fail("sharded_save", folder);
}

tn_status tn__sharded_make_folder(const char *folder, int64_t step,
                                  char name[TN__SHARDED_NAME], int64_t *serial)
{
    if (make_path(folder) < 0)
        return tn_error_code();
    found *list;
    const int count = list_folder(folder, &list);
    *serial = 1;
    for (int i = 0; i < count; i++)
        if (list[i].serial >= *serial)
            *serial = list[i].serial + 1;
    free(list);
    if (count < 0)
        return tn_error_set(TN_ERR_MEMORY, "sharded_save: out of memory");
    char path[PATH_MAX];
    for (int i = 1; i <= MOST_TRIES; i++) {
        char again[16] = "";
        if (i > 1)
            snprintf(again, sizeof again, "-%d", i);
        snprintf(name, TN__SHARDED_NAME, "step-%012" PRId64 "%s", step, again);
        errno = ENAMETOOLONG;
        if (join(path, folder, name) && mkdir(path, 0777) == 0) {
            sync_folder(folder);
            return TN_OK;
        }
        if (errno != EEXIST)
            break;
    }
    return fail("sharded_save", path);
}

static bool is_our_file(const char *name)
{
    return strncmp(name, "rank-", 5) == 0 ||
           strncmp(name, complete_name, sizeof complete_name - 1) == 0;
}

void tn__sharded_remove(const char *path)
{
    char file[PATH_MAX];
    if (!join(file, path, complete_name))
        return;
    if (unlink(file) == 0)
        sync_folder(path);
    DIR *list = opendir(path);
    for (struct dirent *entry; list && (entry = readdir(list));)
        if (is_our_file(entry->d_name))
            (void)unlinkat(dirfd(list), entry->d_name, 0);
    if (list)
        closedir(list);
    (void)rmdir(path);
}

void tn__sharded_prune(const char *folder, const char *name, int64_t keep)
{
    found *list;
    const int count = list_folder(folder, &list);
    for (int i = 0; i < count; i++) {
        int64_t later = 0;
        for (int k = 0; k < count; k++)
            later += list[k].complete && list[k].serial > list[i].serial;
        char path[PATH_MAX];
        if (strcmp(list[i].name, name) != 0 && join(path, folder, list[i].name) &&
            (list[i].begun || (list[i].complete && keep && later >= keep)))
            tn__sharded_remove(path);
    }
    free(list);
}
