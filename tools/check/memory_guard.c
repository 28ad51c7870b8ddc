/* memory_guard.c: checks three rules for the argument structs of a call. A
 * plugin may only read them, may read them only during the call, and may read
 * only as many bytes as their size fields state.
 *
 * The wrapper of each plugin function copies the arguments to a "place": a few
 * pages of memory followed by an inaccessible page. There are 64 places, which
 * calls use in turn. After a call its place is inaccessible until it is used
 * again. */
#include "memory_guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "process.h"

enum {
    PAGE = 65536, /* size in bytes; no machine has larger pages */
    PLACES = 64,  /* number of places that calls use in turn */
    PLACE = 2 * PAGE,         /* size of a place: one page for arguments, then
                                 one that is inaccessible */
    PROGRAMS = 16,            /* further places, for programs that are built */
    HOST = PLACES + PROGRAMS, /* index of the place for the host table */
    LONGER = 40,              /* bytes by which a later version's struct is
                                 longer */
    MARGIN = 64,              /* bytes before a struct that must not change */
    FILL = 0xa5               /* value of the bytes in a margin */
};

/* ---- places ------------------------------------------------------------- */

typedef struct place {
    const char *call; /* name of the call that last used this place */
    atomic_flag runs; /* set while the place is in use */
    bool is_in_call;  /* the call has not returned; the signal handler reads
                         this field */
    uint32_t bytes;   /* size of the struct in this place */
} place;

static unsigned char *area;
static place places[HOST + 1];
static atomic_uint turn;

static unsigned char *start_of(const place *p)
{
    return area + (size_t)(p - places) * PLACE;
}

static void allow(const place *p, int protection)
{
    if (mprotect(start_of(p), PAGE, protection) != 0)
        abort(); /* cannot happen: the pages are this file's own */
}

static place *begin(place *p, const char *call)
{
    p->call = call;
    p->is_in_call = true;
    allow(p, PROT_READ | PROT_WRITE);
    return p;
}

/* Takes the next free place for a call. It is writable until protect(). */
static place *take(const char *call)
{
    place *p;
    do
        p = &places[turn++ % PLACES];
    while (atomic_flag_test_and_set(&p->runs));
    return begin(p, call);
}

/* Copies `bytes` bytes from `from` to the memory that ends at *end, and moves
 * *end down to the beginning of the copy. The next copy then ends there. */
static void *put(unsigned char **end, const void *from, size_t bytes)
{
    *end -= (bytes + 7) & ~(size_t)7;
    if (bytes && from)
        memcpy(*end, from, bytes);
    return *end;
}

/* Copies a struct that begins with a size field to the end of a place. In every
 * other place the struct is made longer, as a later version's would be. */
static void *put_struct(place *p, unsigned char **end, const void *from,
                        uint32_t bytes)
{
    p->bytes = bytes + ((p - places) % 2 ? LONGER : 0);
    *end = start_of(p) + PAGE;
    unsigned char *at = put(end, NULL, p->bytes);
    memset(at, FILL, p->bytes);
    memcpy(at, from, bytes);
    memcpy(at, &p->bytes, sizeof p->bytes);
    return at;
}

static void protect(const place *p)
{
    allow(p, PROT_READ);
}

static tn_status end(place *p, tn_status status)
{
    p->is_in_call = false;
    allow(p, PROT_NONE);
    atomic_flag_clear(&p->runs);
    return status;
}

/* ---- detecting accesses ------------------------------------------------- */

static void touched(int number, siginfo_t *info, void *context)
{
    (void)context;
    const unsigned char *at = info->si_addr;
    signal(number, SIG_DFL); /* after this function the access is repeated and
                                ends the process */
    if (!area || at < area || at >= area + (HOST + 1) * (size_t)PLACE)
        return;
    const place *p = &places[(size_t)(at - area) / PLACE];
    const char *name = p->call ? p->call : "?";
    long beyond = (long)(at - start_of(p)) - PAGE;
    if (beyond >= 0) {
        rule("read and fill a struct only up to its size (TN_HAS)");
        expect(false, "%s: accesses byte %ld of a struct of %u bytes", name,
               p->bytes + beyond, p->bytes);
    } else if (!p->is_in_call) {
        rule("arguments are valid during the call only");
        expect(false, "%s: accesses an argument of the call after it returned",
               name);
    } else {
        rule("arguments are const");
        expect(false, "%s: writes to an argument of the call", name);
    }
}

#if defined(__GLIBC__) && !defined(HAS_SANITIZER)
/* Interposes pthread_sigmask so that SIGSEGV and SIGBUS are never blocked. A
 * plugin's threads must block all signals, but the kit has to catch their
 * invalid accesses. */
static int mask_signals(int how, const sigset_t *set, sigset_t *before)
{
    sigset_t most;
    if (set) {
        most = *set;
        if (how != SIG_UNBLOCK) {
            sigdelset(&most, SIGSEGV);
            sigdelset(&most, SIGBUS);
        }
        set = &most;
    }
    return (int)syscall(SYS_rt_sigprocmask, how, set, before, 8);
}

#define IN_FRONT __attribute__((visibility("default")))
IN_FRONT int pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    int kept = errno, failed = mask_signals(how, set, before);
    if (failed)
        failed = errno;
    errno = kept;
    return failed;
}

IN_FRONT int sigprocmask(int how, const sigset_t *set, sigset_t *before)
{
    return mask_signals(how, set, before);
}
#endif

void guard_watch(void)
{
    struct sigaction watch = {.sa_sigaction = touched, .sa_flags = SA_SIGINFO};
    sigemptyset(&watch.sa_mask);
    sigaction(SIGSEGV, &watch, NULL);
    sigaction(SIGBUS, &watch, NULL);
}

static void make_area(void)
{
    if (area)
        return;
    area = mmap(NULL, (HOST + 1) * (size_t)PLACE, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED)
        abort();
}

const tn_host *guard_host(const tn_host *host, uint32_t bytes)
{
    make_area();
    place *p = begin(&places[HOST], "the host table");
    p->bytes = bytes;
    unsigned char *at = start_of(p) + PAGE - ((bytes + 7) & ~7u);
    memset(at, FILL, (bytes + 7) & ~7u);
    memcpy(at, host, bytes < sizeof *host ? bytes : sizeof *host);
    memcpy(at, &bytes, sizeof bytes);
    protect(p);
    return (const tn_host *)at;
}

/* ---- the calls ---------------------------------------------------------- */

static tn_plugin real;
static _Thread_local uint32_t next_bytes;

void guard_next_bytes(uint32_t bytes)
{
    next_bytes = bytes;
}

/* Defines the wrapper of a function whose arguments are one struct without
 * pointers to other structs. */
#define FLAT(slot, type)                                                       \
    static tn_status guard_##slot(tn_queue *queue, const type *args)           \
    {                                                                          \
        unsigned char *at;                                                     \
        place *p = take(#slot);                                                \
        const type *mine = put_struct(p, &at, args, sizeof *args);             \
        protect(p);                                                            \
        return end(p, real.slot(queue, mine));                                 \
    }
FLAT(copy, tn_copy_args)
FLAT(matmul, tn_matmul_args)
FLAT(scatter, tn_scatter_args)
FLAT(scan, tn_scan_args)
FLAT(sort, tn_sort_args)
#undef FLAT

/* A built program. The plugin may read the struct that it was built from until
 * program_free. */
typedef struct built {
    tn_built *real;            /* the built program that the plugin returned */
    const tn_program *program; /* the program that the plugin built */
    place *place; /* place of the copy of program that was passed to the plugin;
                     NULL if no place was free, so that no copy was made */
} built;

static const tn_program *keep_program(built *b)
{
    unsigned char *at;
    for (int i = PLACES; i < PLACES + PROGRAMS && !b->place; i++)
        if (!atomic_flag_test_and_set(&places[i].runs))
            b->place = begin(&places[i], "program_build to program_free");
    if (!b->place)
        return b->program;
    const tn_program *kept =
        put_struct(b->place, &at, b->program, sizeof *kept);
    protect(b->place);
    return kept;
}

static tn_status guard_build(tn_plugin_device *device,
                             const tn_program *program, tn_built **out)
{
    built *b = malloc(sizeof *b);
    if (!b)
        return TN_ERR_MEMORY;
    *b = (built){.program = program};
    tn_status status = real.program_build(device, keep_program(b), &b->real);
    if (status == TN_OK) {
        *out = (tn_built *)b;
        return TN_OK;
    }
    if (b->place)
        end(b->place, status);
    free(b);
    return status;
}

static void guard_program_free(tn_plugin_device *device, tn_built *what)
{
    built *b = (built *)what;
    real.program_free(device, b->real);
    if (b->place)
        end(b->place, TN_OK);
    free(b);
}

/* Copies a launch of a program, with all that it points to, to a place. */
static const tn_launch *put_launch(place *p, const tn_program *program,
                                   const tn_launch *launch)
{
    const size_t word = sizeof(int64_t);
    const size_t ndim = launch->outer_ndim + launch->row_ndim;
    unsigned char *at;
    tn_launch *mine = put_struct(p, &at, launch, sizeof *launch);
    tn_launch_operand *operand =
        put(&at, launch->operand, program->operand_count * sizeof *operand);
    mine->operand = operand;
    mine->extent = put(&at, launch->extent, ndim * word);
    mine->param = put(&at, launch->param, program->param_count * word);
    for (uint32_t k = 0; k < program->operand_count; k++) {
        const size_t bytes = program->operand[k].index_count * word;
        operand[k].stride = put(&at, operand[k].stride, ndim * word);
        operand[k].index_stride = put(&at, operand[k].index_stride, bytes);
        operand[k].index_extent = put(&at, operand[k].index_extent, bytes);
    }
    protect(p);
    return mine;
}

static tn_status guard_launch(tn_queue *queue, tn_built *what,
                              const tn_launch *launch)
{
    const built *b = (const built *)what;
    place *p = take("launch");
    const tn_launch *mine = put_launch(p, b->program, launch);
    return end(p, real.launch(queue, b->real, mine));
}

static tn_launch_list_extension real_list, seen_list;

/* The launches of a list stay where they are, so only the built programs are
 * replaced by those that the plugin returned. */
static tn_status guard_prepare(tn_queue *queue, const tn_launch_item *item,
                               uint32_t count, tn_launch_list **list)
{
    tn_launch_item *mine = malloc(count * sizeof *mine);
    if (!mine)
        return TN_ERR_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        mine[i] = (tn_launch_item){((const built *)item[i].built)->real,
                                   item[i].launch};
    tn_status status = real_list.prepare(queue, mine, count, list);
    memset(mine, FILL, count * sizeof *mine);
    free(mine);
    return status;
}

/* Prepares a struct that the plugin is to fill. Sets its size field, and all
 * other bytes to `before`. */
static unsigned char *put_filled(place *p, uint32_t known, int before)
{
    const uint32_t bytes =
        next_bytes ? next_bytes : known + ((p - places) % 2 ? LONGER : 0);
    unsigned char *at = start_of(p) + PAGE - ((bytes + 7) & ~7u);
    next_bytes = 0;
    p->bytes = bytes;
    memset(at - MARGIN, FILL, MARGIN);
    memset(at, FILL, (bytes + 7) & ~7u);
    memset(at, before, bytes);
    memcpy(at, &bytes, sizeof bytes);
    return at;
}

/* Checks that the plugin has filled the struct at `at` correctly, and copies its
 * first `known` bytes, the fields of this version, to `to`. */
static void take_filled(const place *p, const unsigned char *at, void *to,
                        uint32_t known)
{
    uint32_t size;
    memcpy(&size, at, sizeof size);
    rule("a struct is filled only up to its size, the size does not change, "
         "and unknown fields become 0");
    expect(size == p->bytes, "%s: changes the size of its struct from %u to %u",
           p->call, p->bytes, size);
    for (uint32_t i = 1; i <= MARGIN; i++)
        expect(at[-(int)i] == FILL, "%s: writes %u bytes before its struct",
               p->call, i);
    for (uint32_t i = p->bytes; i % 8; i++)
        expect(at[i] == FILL, "%s: writes byte %u of a struct of %u bytes",
               p->call, i, p->bytes);
    for (uint32_t i = known; i < p->bytes; i++)
        expect(at[i] == 0,
               "%s: byte %u, which follows the known %u bytes of a struct of "
               "%u bytes, is 0x%02x, not 0",
               p->call, i, p->bytes, known, at[i]);
    rule(NULL);
    memcpy((char *)to + sizeof size, at + sizeof size,
           (p->bytes < known ? p->bytes : known) - sizeof size);
}

static tn_status guard_info(uint32_t i, tn_device_info *info)
{
    place *p = take("device_info");
    unsigned char *at = put_filled(p, sizeof *info, FILL);
    tn_status status = real.device_info(i, (tn_device_info *)at);
    if (status == TN_OK)
        take_filled(p, at, info, sizeof *info);
    return end(p, status);
}

static tn_status guard_sync(tn_queue *queue, tn_fault *fault)
{
    if (!fault)
        return real.queue_sync(queue, fault);
    place *p = take("queue_sync");
    unsigned char *at = put_filled(p, sizeof *fault, 0);
    tn_status status = real.queue_sync(queue, (tn_fault *)at);
    take_filled(p, at, fault, sizeof *fault);
    if (status == TN_OK)
        for (uint32_t k = sizeof fault->size; k < p->bytes; k++)
            expect(at[k] == 0,
                   "queue_sync: without a failure, byte %u of tn_fault is "
                   "0x%02x, not 0",
                   k, at[k]);
    return end(p, status);
}

/* ---- extensions --------------------------------------------------------- */

/* The extensions whose function `run` takes one struct without pointers to
 * other structs. */
#define EXTENSIONS(X) X(conv) X(pool) X(attention) X(product) X(lapack) \
    X(quantised_product)

#define RUN(name)                                                              \
    static tn_##name##_extension real_##name, seen_##name;                     \
    static tn_status guard_##name(tn_queue *queue,                             \
                                  const tn_##name##_args *args)                \
    {                                                                          \
        unsigned char *at;                                                     \
        place *p = take(#name);                                                \
        const tn_##name##_args *mine = put_struct(p, &at, args, sizeof *args); \
        protect(p);                                                            \
        return end(p, real_##name.run(queue, mine));                           \
    }
EXTENSIONS(RUN)
#undef RUN

static tn_epilogue_extension real_epilogue, seen_epilogue;

/* The arguments, the work and the launch each have a place. */
static tn_status guard_epilogue(tn_queue *queue, const tn_epilogue_args *args)
{
    static const uint32_t bytes[TN_EPILOGUE_END] = {
        sizeof(tn_matmul_args), sizeof(tn_conv_args), sizeof(tn_product_args),
        sizeof(tn_attention_args), sizeof(tn_quantised_product_args)};
    const built *b = (const built *)args->built;
    unsigned char *at;
    place *p = take("epilogue"), *work = take("epilogue");
    place *launch = take("epilogue");
    tn_epilogue_args *mine = put_struct(p, &at, args, sizeof *args);
    mine->work = args->work;
    if (args->work && args->kind < TN_EPILOGUE_END)
        mine->work = put_struct(work, &at, args->work, bytes[args->kind]);
    if (b) {
        mine->built = b->real;
        mine->launch = put_launch(launch, b->program, args->launch);
    }
    protect(work);
    protect(p);
    const tn_status status = real_epilogue.run(queue, mine);
    end(launch, status);
    end(work, status);
    return end(p, status);
}

static const void *guard_extension(const char *name, uint32_t version)
{
    const void *table = real.extension(name, version);
    uint32_t size = 0;
    if (table)
        memcpy(&size, table, sizeof size);
#define DRESS(id)                                                              \
    if (table && strcmp(name, #id) == 0) {                                     \
        memset(&real_##id, 0, sizeof real_##id);                               \
        memcpy(&real_##id, table,                                              \
               size < sizeof real_##id ? size : sizeof real_##id);             \
        seen_##id = real_##id;                                                 \
        if (real_##id.run)                                                     \
            seen_##id.run = guard_##id;                                        \
        return &seen_##id;                                                     \
    }
    EXTENSIONS(DRESS)
    DRESS(epilogue)
#undef DRESS
    if (table && strcmp(name, "launch-list") == 0) {
        memcpy(&real_list, table,
               size < sizeof real_list ? size : sizeof real_list);
        seen_list = real_list;
        if (real_list.prepare)
            seen_list.prepare = guard_prepare;
        return &seen_list;
    }
    return table;
}

void guard_wrap(tn_plugin *table)
{
    make_area();
    real = *table;
#define DRESS(slot, by)                                                        \
    if (table->slot)                                                           \
        table->slot = guard_##by;
    DRESS(device_info, info)
    DRESS(queue_sync, sync)
    DRESS(copy, copy)
    DRESS(program_build, build)
    DRESS(program_free, program_free)
    DRESS(launch, launch)
    DRESS(matmul, matmul)
    DRESS(scatter, scatter)
    DRESS(scan, scan)
    DRESS(sort, sort)
    DRESS(extension, extension)
#undef DRESS
}
