/* platform.c: functions whose implementation depends on the operating
 * system. */
#include <base/platform.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#endif

const char *tn__env(const char *name)
{
#if defined(__GLIBC__)
    const char *value = secure_getenv(name);
#else
    const char *value =
        getuid() == geteuid() && getgid() == getegid() ? getenv(name) : NULL;
#endif
    return value && *value ? value : NULL;
}

void tn__memory_discard(void *address, size_t bytes)
{
#if defined(__linux__) && !defined(TN__ASAN)
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)address + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)address + bytes) / page * page;
    if (end > first)
        madvise((void *)first, end - first, MADV_DONTNEED);
#else
    (void)address, (void)bytes;
#endif
}

void tn__code_place(const void *address, char *text, size_t room)
{
    Dl_info info;
    text[0] = '\0';
    if (!address || !dladdr(address, &info) || !info.dli_fname)
        return;
    const char *slash = strrchr(info.dli_fname, '/');
    /* A return address is after the call instruction, so 1 is subtracted to
     * get an address within it. */
    snprintf(text, room, "%s+0x%zx", slash ? slash + 1 : info.dli_fname,
             (size_t)((const char *)address - (const char *)info.dli_fbase) -
                 1);
}

tn__vectors tn__processor_vectors(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return TN__PLAIN_VECTORS;
    return __builtin_cpu_supports("avx512f") &&
                   __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512cd") &&
                   __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vl")
               ? TN__AVX512
               : TN__AVX2;
#else
    return TN__PLAIN_VECTORS;
#endif
}

/* Locks or unlocks bytes of a file by an open-file-description lock. Such a
 * lock belongs to an open file, not to a process. So it also excludes other
 * threads of the same process, and unlocking works even if a forked child has a
 * copy of the file descriptor. */
#ifdef F_OFD_SETLK
static bool file_lock(int fd, short kind, uint64_t place, off_t bytes)
{
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_len = bytes};
    lock.l_start = (off_t)(place & INT32_MAX); /* off_t may have only 32 bits */
    int result;
    /* Retries instead of waiting with F_OFD_SETLKW. Under valgrind, no other
     * thread runs while F_OFD_SETLKW waits. */
    while ((result = fcntl(fd, F_OFD_SETLK, &lock)) &&
           (errno == EINTR || errno == EAGAIN || errno == EACCES))
        usleep(2000);
    return !result;
}

bool tn__file_hold(int fd, uint64_t place)
{
    return file_lock(fd, F_WRLCK, place, 1);
}

void tn__file_let_go(int fd)
{
    file_lock(fd, F_UNLCK, 0, 0);
}
#else
bool tn__file_hold(int fd, uint64_t place)
{
    (void)place;
    int result;
    while ((result = flock(fd, LOCK_EX)) && errno == EINTR)
        ;
    return !result;
}

void tn__file_let_go(int fd)
{
    flock(fd, LOCK_UN);
}
#endif

bool tn__library_folder(char *out, size_t room)
{
    Dl_info info;
    /* An address within the library. A variable is used, since ISO C has no
     * cast from a function to void *. */
    static const char here = 0;
    if (!dladdr(&here, &info) || !info.dli_fname)
        return false;
    char path[PATH_MAX];
    if (!realpath(info.dli_fname, path))
        return false;
    char *slash = strrchr(path, '/');
    if (!slash || (size_t)(slash - path) >= room)
        return false;
    *slash = 0;
    memcpy(out, path, (size_t)(slash - path) + 1);
    return true;
}

#if defined(__linux__)

/* Reads the beginning of a file as a string. Returns false if it cannot be
 * read. */
static bool read_text(const char *path, char *out, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t length = 0;
    while (length + 1 < room) {
        ssize_t got = read(fd, out + length, room - 1 - length);
        if (got <= 0)
            break;
        length += (size_t)got;
    }
    close(fd);
    out[length] = 0;
    return length > 0;
}

/* Returns how many processors a cgroup's CPU quota corresponds to: quota /
 * period, rounded up; INT_MAX if there is no quota. */
static int quota_count(long long quota, long long period)
{
    if (quota <= 0 || period <= 0 || quota / period >= INT_MAX - 1)
        return INT_MAX;
    return (int)((quota + period - 1) / period);
}

/* Returns how many processors the quota of a cgroup (version 2) corresponds to.
 * The file cpu.max contains quota and period in microseconds, such as "200000
 * 100000", or "max 100000" for no quota. */
static int quota_v2(const char *folder)
{
    char path[PATH_MAX + 16], text[64];
    long long quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (!read_text(path, text, sizeof text) ||
        sscanf(text, "%lld %lld", &quota, &period) != 2)
        return INT_MAX;
    return quota_count(quota, period);
}

static int quota_v1(const char *folder)
{
    char path[PATH_MAX + 32], text[64];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_text(path, text, sizeof text))
        return INT_MAX;
    long long quota = atoll(text);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!read_text(path, text, sizeof text))
        return INT_MAX;
    return quota_count(quota, atoll(text));
}

/* Returns the smallest quota, in processors, of a cgroup and its ancestors. In
 * a container, the path of the group may not exist under the mount point. Then
 * the quota of the mount point itself is used. */
static int quota_walk(const char *mount, const char *group,
                      int (*quota)(const char *folder))
{
    char folder[PATH_MAX];
    int least = INT_MAX;
    size_t stem = strlen(mount);
    int length = snprintf(folder, sizeof folder, "%s%s", mount, group);
    if (length < 0 || (size_t)length >= sizeof folder)
        return quota(mount);
    for (;;) {
        int here = quota(folder);
        if (here < least)
            least = here;
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < stem || !folder[stem])
            return least;
        *slash = 0;
    }
}

static bool lists_cpu(const char *controllers)
{
    const char *at = controllers;
    while (at) {
        if (!strncmp(at, "cpu", 3) && (at[3] == ',' || !at[3]))
            return true;
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    return false;
}

static int cgroup_count(void)
{
    char text[4096];
    int least = INT_MAX;
    if (!read_text("/proc/self/cgroup", text, sizeof text))
        return least;
    char *rest;
    for (char *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        /* the line is "0::/user.slice" (version 2) or
         * "4:cpu,cpuacct:/docker/..." (version 1) */
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *controllers++ = 0;
        *group++ = 0;
        int here = INT_MAX;
        if (!*controllers)
            here = quota_walk("/sys/fs/cgroup", group, quota_v2);
        else if (lists_cpu(controllers))
            here = quota_walk("/sys/fs/cgroup/cpu", group, quota_v1);
        if (here < least)
            least = here;
    }
    return least;
}

static int affinity_count(void)
{
    /* A cpu_set_t has only 1024 processors, so a larger set is allocated if
     * necessary. */
    for (int room = 1024; room <= 1024 * 1024; room *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)room);
        if (!set)
            break;
        size_t bytes = CPU_ALLOC_SIZE((size_t)room);
        int count = sched_getaffinity(0, bytes, set)
                        ? 0
                        : CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    return 0;
}

#else

static int cgroup_count(void)
{
    return INT_MAX;
}

static int affinity_count(void)
{
    return 0;
}

#endif

int tn__processor_count(void)
{
    int count = affinity_count();
    if (count < 1)
        count = (int)sysconf(_SC_NPROCESSORS_ONLN);
    int quota = cgroup_count();
    if (quota < count)
        count = quota;
    return count < 1 ? 1 : count;
}
