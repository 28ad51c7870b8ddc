/* overflow.c: draws extreme numbers, and runs calls with limits on time and
 * memory; see overflow.h. */
#include "overflow.h"

#include <base/error.h>
#include <base/memory.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* Not NULL under a sanitizer. */
extern void __sanitizer_set_death_callback(void (*callback)(void))
    __attribute__((weak));
/* Options of AddressSanitizer in addition to those of the environment: a limit
 * for a single allocation. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=1024";
}

enum {
    MEMORY = 256 << 20, /* limit in bytes for a device's memory, and for the
                         * host's */
    HOST_MOST = MEMORY + (16 << 20),    /* the host's limit, with space for
                                         * other allocations */
    RESIDENT_MOST = 3 * (MEMORY >> 20), /* limit of resident memory in MiB: a
                                         * device's, the host's, and memory that
                                         * a call frees when it ends */
    TEXT = 2000
};

/* ---- drawing numbers ----------------------------------------------------- */

uint64_t overflow_seed(void)
{
    const char *text = getenv("TENON_OVERFLOW_SEED");
    return text ? strtoull(text, NULL, 10) : 1;
}

int overflow_rounds(int usual)
{
    const char *text = getenv("TENON_OVERFLOW");
    long times = text ? strtol(text, NULL, 10) : 1;
    return times > 0 && times < 1000000 / usual ? (int)times * usual : usual;
}

uint32_t draw(draws *d, uint32_t below)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((d->state >> 32) * below >> 32);
}

int64_t draw_int(draws *d)
{
    static const int64_t some[] = {INT64_MIN,
                                   INT64_MIN + 1,
                                   -(INT64_C(1) << 62),
                                   -(INT64_C(1) << 32),
                                   INT32_MIN,
                                   -3,
                                   -2,
                                   -1,
                                   0,
                                   1,
                                   2,
                                   3,
                                   65,
                                   INT32_MAX,
                                   INT64_C(1) << 31,
                                   (INT64_C(1) << 32) + 1,
                                   INT64_C(1) << 61,
                                   (INT64_C(1) << 61) + 1,
                                   INT64_C(1) << 62,
                                   (INT64_C(1) << 62) + 1,
                                   INT64_MAX - 1,
                                   INT64_MAX};
    return some[draw(d, sizeof some / sizeof *some)];
}

double draw_float(draws *d)
{
    static const double some[] = {
        0.0,     -0.0,    1,    -1,    0.5,      1e-300,   5e-324,
        -5e-324, 1e-40,   1e38, 1e308, -1e308,   0x1p31,   0x1p53,
        0x1p63,  -0x1p63, 1e19, NAN,   INFINITY, -INFINITY};
    return some[draw(d, sizeof some / sizeof *some)];
}

tn_dims_list draw_dims(draws *d)
{
    tn_dims_list list = {.count = (int)draw(d, 4) + 1};
    if (draw(d, 32) == 0)
        list.count = draw(d, 2) ? 0 : TN_MAX_NDIM;
    for (int i = 0; i < list.count; i++)
        list.dim[i] = draw(d, 2) ? draw_int(d) : (int64_t)draw(d, 4);
    if (list.count)
        list.dim[draw(d, (uint32_t)list.count)] = draw_int(d);
    return list;
}

/* ---- a call -------------------------------------------------------------- */

/* Memory shared with the parent process, which reads it if the child ends. */
static struct shared {
    struct overflow_counts counts;
    int at; /* index of the running case */
    bool too_long;
    char doing[TEXT];
} * shared;
struct overflow_counts *overflow_counts;

void overflow_tell(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(shared->doing, sizeof shared->doing, format, list);
    va_end(list);
}

static void set_timer(int which, int seconds)
{
    const struct itimerval timer = {.it_value.tv_sec = seconds};
    setitimer(which, &timer, NULL);
}

static void too_long(int number)
{
    (void)number;
    shared->too_long = true;
    _exit(98);
}

static bool asks;

void overflow_asks(void)
{
    asks = true;
}

void overflow_before(void)
{
    shared->counts.calls++;
    tn__memory_largest(true);
    /* with a GPU the compiler runs in this process, and the driver
     * busy-waits */
    const bool slow = __sanitizer_set_death_callback || getenv("TENON_TEST_GPU");
    set_timer(ITIMER_PROF, slow ? 10 : 1);
    set_timer(ITIMER_REAL, 30);
}

static void wrong(const char *what)
{
    if (shared->counts.wrong++ < 100)
        printf("# %s\n#     %s: %s\n", shared->doing, what,
               tn_error() ? tn_error() : "no error");
    fflush(stdout);
}

/* Returns the resident memory in MiB. */
static long resident(void)
{
    long pages = 0, all;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld %ld", &all, &pages) != 2)
        pages = 0;
    if (file)
        fclose(file);
    return pages / (1048576 / sysconf(_SC_PAGESIZE));
}

void overflow_after(bool refused, const char *what)
{
    set_timer(ITIMER_PROF, 0);
    set_timer(ITIMER_REAL, 0);
    shared->counts.refused += refused;
    if (what)
        wrong(what);
    if (refused && !tn_error())
        wrong("refused without a message");
    if (!refused && tn_error())
        wrong("done, but an error is pending");
    if (tn__memory_largest(true) > HOST_MOST && !asks)
        wrong("asked for more host memory at once than a device may have");
    if (shared->counts.calls % 64 == 0 && !__sanitizer_set_death_callback &&
        resident() > RESIDENT_MOST)
        wrong("holds more memory than a device may have");
    asks = false;
    tn_error_clear();
}

/* ---- running cases in a child process ------------------------------------ */

typedef struct cases {
    int count;
    bool (*start)(void);
    void (*one)(int i);
    const char *(*name)(int i);
    const char *only;
} cases;

static void child(const cases *c, int from)
{
    if (!c->start())
        _exit(97);
    tn_device *device = tn_device_current();
    signal(SIGPROF, too_long);
    signal(SIGALRM, too_long);
    /* With a GPU there is no limit on address space, because NVIDIA's driver
     * reserves as much as a GPU may have. */
    if (!__sanitizer_set_death_callback && !getenv("TENON_TEST_GPU")) {
        const struct rlimit most = {UINT64_C(4) << 30, UINT64_C(4) << 30};
        setrlimit(RLIMIT_AS, &most);
    }
    if (!device || tn_memory_set_limit(device, MEMORY) < 0)
        _exit(97);
    for (int i = from; i < c->count; i++) {
        if (c->only && strcmp(c->only, c->name(i)) != 0)
            continue;
        shared->at = i;
        tn_scope *scope = tn_scope_open();
        c->one(i);
        tn_error_clear();
        tn_scope_close(scope);
    }
    fflush(stdout);
    _exit(0);
}

static void tell_end(const cases *c, int status)
{
    shared->counts.wrong++;
    printf("# %s: %s (%s %d)\n#     %s\n", c->name(shared->at),
           shared->too_long ? "takes too long" : "ends the program",
           WIFSIGNALED(status) ? "signal" : "exit",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
           shared->doing);
}

long overflow_run(int count, bool (*start)(void), void (*one)(int i),
                  const char *(*name)(int i), const char *only)
{
    const cases c = {count, start, one, name, only};
    if (!shared) {
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED)
            return -1;
        overflow_counts = &shared->counts;
    }
    for (int from = 0, status; from < count; from = shared->at + 1) {
        shared->at = from;
        shared->too_long = false;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0)
            child(&c, from);
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
            return -1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 97)
            return -1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            break;
        tell_end(&c, status);
    }
    return shared->counts.wrong;
}
