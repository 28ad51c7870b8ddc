/* Tests the disk cache of compiled programs: an entry that was written is read
 * back, a damaged one is ignored, and many processes may do both at once. */
#include "device/cache.h"
#include "tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tenon/device.h>
#include <unistd.h>

static char folder[512];

/* The value that the cache passed to the reader. */
typedef struct got {
    char value[256];
    uint64_t bytes;
    int calls;
    uint32_t answer;
} got;

static uint32_t take(void *context, const void *value, uint64_t bytes)
{
    got *g = context;
    g->calls++;
    g->bytes = bytes;
    memcpy(g->value, value, bytes < sizeof g->value ? bytes : 0);
    return g->answer;
}

static got read_of(const char *key, uint32_t answer, uint32_t *result)
{
    got g = {.answer = answer};
    *result = tn__cache_read(key, strlen(key), take, &g);
    return g;
}

static void write_of(const char *key, const char *value)
{
    tn__cache_write(key, strlen(key), value, strlen(value));
}

static bool is_there(const char *key, const char *value)
{
    uint32_t result;
    got g = read_of(key, 1, &result);
    return result && g.calls == 1 && g.bytes == strlen(value) &&
           !memcmp(g.value, value, g.bytes);
}

static bool is_absent(const char *key)
{
    uint32_t result;
    got g = read_of(key, 1, &result);
    return !result && !g.calls;
}

/* Calls visit with the path of each file of the folder; returns their
 * number. */
static int each_file(void (*visit)(const char *path))
{
    DIR *list = opendir(folder);
    struct dirent *entry;
    int count = 0;
    while (list && (entry = readdir(list))) {
        char path[1024];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        count++;
        if (visit)
            visit(path);
    }
    if (list)
        closedir(list);
    return count;
}

static void remove_file(const char *path)
{
    unlink(path);
}

static void cut_last_byte(const char *path)
{
    struct stat status;
    if (!stat(path, &status) && truncate(path, status.st_size - 1))
        bail_out("truncate");
}

static off_t flip_at; /* offset of the byte to change; negative: from the file's
                       * end */

static void flip_byte(const char *path)
{
    int fd = open(path, O_RDWR);
    unsigned char byte = 0;
    off_t at = lseek(fd, flip_at, flip_at < 0 ? SEEK_END : SEEK_SET);
    if (fd < 0 || pread(fd, &byte, 1, at) != 1)
        bail_out("pread");
    byte ^= 1;
    if (pwrite(fd, &byte, 1, at) != 1)
        bail_out("pwrite");
    close(fd);
}

static void make_old(const char *path)
{
    struct timespec times[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    utimensat(AT_FDCWD, path, times, 0);
}

static int64_t age;
static void find_age(const char *path)
{
    struct stat status;
    age = stat(path, &status) ? -1 : (int64_t)(time(NULL) - status.st_mtime);
}

static char last_path[PATH_MAX];
static void keep_path(const char *path)
{
    snprintf(last_path, sizeof last_path, "%s", path);
}

static int open_files(void)
{
    int count = 0;
    DIR *list = opendir("/proc/self/fd");
    while (list && readdir(list))
        count++;
    if (list)
        closedir(list);
    return count;
}

static void open_to_all(const char *path)
{
    chmod(path, 0666);
}

static void test_entries(void)
{
    int64_t compiled = tn_programs_compiled();
    ok(is_absent("a key"), "an entry that was never written is absent");
    is_int(tn_programs_compiled() - compiled, 1, "and counts as compiled");
    write_of("a key", "its value");
    write_of("another key", "");
    ok(is_there("a key", "its value"),
       "an entry that was written is read back");
    ok(is_there("another key", ""), "an empty value too");
    is_int(tn_programs_compiled() - compiled, 1,
           "an entry that is read back does not count as compiled");
    ok(is_absent("a ke"), "part of a key is another key");
    write_of("a key", "a new value");
    ok(is_there("a key", "a new value"), "a second write replaces the first");
    is_int(each_file(NULL), 2, "no other file is left in the folder");
    uint32_t result;
    got g = read_of("a key", 0, &result);
    ok(g.calls == 1 && !result, "a value may be refused");
    ok(is_absent("a key"), "and is removed then");
    each_file(remove_file);
}

/* Reading an entry updates its time of use, so that trimming removes others
 * first. */
static void test_use(void)
{
    write_of("key", "value");
    each_file(make_old);
    each_file(find_age);
    ok(age > 86400, "an entry may be old");
    ok(is_there("key", "value"), "and be read all the same");
    each_file(find_age);
    ok(age >= 0 && age < 86400, "after which it is new");
    each_file(remove_file);
}

/* If a folder has the name of an entry, the entry is not written and no
 * temporary file remains. */
static void test_obstacle(void)
{
    write_of("key", "value");
    each_file(keep_path);
    each_file(remove_file);
    mkdir(last_path, 0700);
    char inner[PATH_MAX + 8];
    snprintf(inner, sizeof inner, "%s/in", last_path);
    mkdir(inner, 0700);
    write_of("key", "value");
    rmdir(inner);
    rmdir(last_path);
    is_int(each_file(NULL), 0,
           "an entry that cannot be written leaves no file");
}

/* An entry with this kind of damage must be detected and replaced. */
static void test_damage(const char *what, void (*damage)(const char *path))
{
    write_of("key", "value");
    each_file(damage);
    ok(is_absent("key"), "%s: nothing is read", what);
    is_int(each_file(NULL), 0, "%s: the entry is removed", what);
    write_of("key", "value");
    ok(is_there("key", "value"), "%s: and is written again", what);
    each_file(remove_file);
}

static void test_folders(void)
{
    char path[600];
    snprintf(path, sizeof path, "%s/deep/er", folder);
    is_int(tn_cache_folder_set(path), TN_OK, "a missing folder is made");
    write_of("key", "value");
    ok(is_there("key", "value"), "and used");
    chmod(path, 0777);
    is_int(tn_cache_folder_set(path), TN_ERR_IO,
           "a folder that others may write to is refused");
    tn_error_clear();
    is_int(tn_cache_folder_set("here"), TN_ERR_IO,
           "so is one without an absolute path");
    tn_error_clear();
    ok(is_there("key", "value"), "a refused folder leaves the old one in use");
    is_int(tn_cache_folder_set(NULL), TN_OK, "the cache can be put off");
    write_of("key", "value");
    ok(is_absent("key"), "then nothing is kept");
    tn_cache_folder_set(folder);
    char command[700];
    snprintf(command, sizeof command, "rm -rf '%s/deep'", folder);
    if (system(command))
        bail_out("rm");
}

static void test_trim(void)
{
    char key[32], value[200];
    memset(value, 'x', sizeof value - 1);
    value[sizeof value - 1] = 0;
    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "old %d", i);
        write_of(key, value);
    }
    each_file(make_old);
    write_of("young", value);
    int before = open_files();
    tn__cache_trim(1 << 20);
    is_int(each_file(NULL), 11, "a small cache keeps all entries");
    tn__cache_trim(1500);
    is_int(open_files(), before, "the folder is closed again");
    int left = each_file(NULL);
    ok(left > 0 && left < 6, "a large one loses entries: %d of 11 are left",
       left);
    ok(is_there("young", value), "the oldest entries are removed first");
    each_file(remove_file);
}

/* Starts eight processes that write and read the same few keys. A reader must
 * get a complete value or none. */
static void test_many(void)
{
    enum { PROCESSES = 8, ROUNDS = 200 };
    int bad = 0;
    fflush(stdout);
    for (int p = 0; p < PROCESSES; p++) {
        pid_t pid = fork();
        if (pid < 0)
            bail_out("fork");
        if (pid)
            continue;
        for (int i = 0; i < ROUNDS; i++) {
            char key[32], value[64];
            uint32_t result;
            snprintf(key, sizeof key, "key %d", i % 5);
            snprintf(value, sizeof value, "value of %s", key);
            got g = read_of(key, 1, &result);
            if (g.calls && (g.bytes != strlen(value) ||
                            memcmp(g.value, value, g.bytes)))
                _exit(1);
            write_of(key, value);
        }
        _exit(0);
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        if (wait(&status) < 0 || status)
            bad++;
    }
    is_int(bad, 0, "%d processes at once read whole values or none", PROCESSES);
    is_int(each_file(NULL), 5, "and leave one file for each key");
    each_file(remove_file);
}

/* ---- exclusive access ---------------------------------------------------- */

/* A child process that holds the lock of a key until its pipe is closed, and
 * then exits. */
typedef struct holder {
    pid_t pid;
    int end;          /* write end of the pipe */
    atomic_bool told; /* set when the child may exit */
} holder;

static void holder_start(holder *h, const char *key)
{
    int said[2], told[2];
    char byte;
    fflush(stdout);
    if (pipe(said) || pipe(told) || (h->pid = fork()) < 0)
        bail_out("pipe or fork");
    if (!h->pid) {
        close(told[1]);
        int32_t hold = tn__cache_hold(key, strlen(key));
        if (hold < 0 || write(said[1], "x", 1) != 1)
            _exit(1);
        /* The lock is released when the process ends, without cache_release. */
        _exit(read(told[0], &byte, 1) ? 1 : 0);
    }
    close(said[1]);
    close(told[0]);
    if (read(said[0], &byte, 1) != 1)
        bail_out("the other process does not hold the key");
    close(said[0]);
    h->end = told[1];
}

static void *holder_end_soon(void *context)
{
    holder *h = context;
    usleep(50 * 1000);
    atomic_store(&h->told, true);
    close(h->end);
    return NULL;
}

static void *hold_in_thread(void *key)
{
    int32_t hold = tn__cache_hold(key, strlen(key));
    tn__cache_release(hold);
    return NULL;
}

static void test_hold(void)
{
    holder other = {.told = false};
    pthread_t thread;
    int status;
    char key[] = "text";
    holder_start(&other, key);
    int32_t hold = tn__cache_hold("other text", 10);
    ok(hold >= 0, "a key may be held while another process has another");
    tn__cache_release(hold);
    if (pthread_create(&thread, NULL, holder_end_soon, &other))
        bail_out("pthread_create");
    hold = tn__cache_hold(key, strlen(key));
    ok(hold >= 0 && atomic_load(&other.told),
       "one that it has is waited for, and ends with it");
    pthread_join(thread, NULL);
    waitpid(other.pid, &status, 0);
    is_int(status, 0, "the other process is done");

    /* A thread waits for a key's lock. A forked child that outlives the holder
     * must not prolong the lock. */
    pid_t child = fork();
    if (!child) {
        pause();
        _exit(0);
    }
    if (child < 0 || pthread_create(&thread, NULL, hold_in_thread, key))
        bail_out("fork or pthread_create");
    usleep(50 * 1000);
    tn__cache_release(hold);
    pthread_join(thread, NULL);
    ok(true, "a thread gets the key when it is released, in spite of a fork");
    kill(child, SIGKILL);
    waitpid(child, &status, 0);

    is_int(tn_cache_folder_set(NULL), TN_OK, "without a cache");
    is_int(tn__cache_hold("text", 4), -1, "no key is held");
    tn__cache_release(-1);
    tn_cache_folder_set(folder);
    is_int(each_file(NULL), 0, "holding leaves no entry");
}

int main(void)
{
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/tenon-cache.XXXXXX",
             temporary ? temporary : "/tmp");
    if (!mkdtemp(folder))
        bail_out("mkdtemp");
    plan_later();
    setenv("TENON_CACHE_DIR", folder, 1);
    tn_log_set(NULL, NULL);
    test_entries();
    test_use();
    test_obstacle();
    test_damage("cut short", cut_last_byte);
    flip_at = -1;
    test_damage("a bit of the value", flip_byte);
    flip_at = 0;
    test_damage("a bit of the head", flip_byte);
    flip_at = 41;
    test_damage("a bit of the key", flip_byte);
    test_damage("open to all", open_to_all);
    test_folders();
    test_trim();
    test_many();
    test_hold();
    char lock[600];
    snprintf(lock, sizeof lock, "%s/.lock", folder);
    unlink(lock);
    rmdir(folder);
    return done_testing();
}
