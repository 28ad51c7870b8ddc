/* memory.c: device memory. One anonymous file is mapped twice: at the device's
 * addresses, where an access by the process is a fault, and at other addresses,
 * where the driver reads and writes. A block ends at the end of a page, and the
 * next page is never allocated.
 *
 * For each byte memory.c records whether it was written, and for each 16 bytes
 * which work of which stream wrote and read them last. (Tensors do not share 16
 * bytes, since the caching allocator aligns them to 256 bytes.) */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

#define FILLED (64u << 20)
#define PAGE 4096ull
#define GRAIN 16ull

typedef struct block {
    uint64_t base, bytes; /* start and size as requested */
    uint64_t first, span; /* start and size in whole pages */
    int device;
    bool live;
} block;

/* The work that last wrote and read 16 bytes. 0: none; otherwise the upper 5
 * bits are its stream's index + 1, the other bits its index within that
 * stream. */
typedef struct trace {
    uint32_t writer, reader;
} trace;
#define WORK_BITS 27

static int file = -1;
/* Size of the address region. It is large, since no address is reused; it is
 * smaller if the process may not map as much, as under valgrind. */
static uint64_t region = 1ull << 38;
static unsigned char *seen, *reached; /* the file at the device's addresses, and
                                       * where the driver accesses it */
static unsigned char *written;        /* for each byte: 1 if it was written */
static trace *traces;
static uint64_t used;                 /* bytes of the region that were allocated
                                       * so far */
static block *blocks; /* sorted by address; never freed */
static size_t block_count, block_room;
static uint64_t live_bytes[MOST_DEVICES], limit;

static void *map(uint64_t bytes, int protection, int from)
{
    return mmap(NULL, bytes, protection,
                MAP_NORESERVE |
                    (from < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED),
                from, 0);
}

static void unmap(void *at, uint64_t bytes)
{
    if (at != MAP_FAILED)
        munmap(at, bytes);
}

static bool region_map(void)
{
    const uint64_t of_traces = region / GRAIN * sizeof *traces;
    seen = map(region, PROT_NONE, file);
    reached = map(region, PROT_READ | PROT_WRITE, file);
    written = map(region, PROT_READ | PROT_WRITE, -1);
    traces = map(of_traces, PROT_READ | PROT_WRITE, -1);
    if (seen != MAP_FAILED && reached != MAP_FAILED && written != MAP_FAILED &&
        traces != MAP_FAILED)
        return ftruncate(file, (off_t)region) == 0;
    unmap(seen, region);
    unmap(reached, region);
    unmap(written, region);
    unmap(traces, of_traces);
    return false;
}

static bool region_open(void)
{
    static bool is_open;
    if (file < 0) {
        const char *most = getenv("TENON_SIM_MEMORY");
        limit = most ? strtoull(most, NULL, 0) : 8ull << 30;
        file = memfd_create("simulated device", MFD_CLOEXEC);
        is_open = file >= 0 && region_map();
        if (file >= 0 && !is_open) {
            region = 1ull << 32;
            is_open = region_map();
        }
        used = PAGE;
    }
    return is_open;
}

tn_cu_result sim_memory_alloc(int device, size_t bytes, tn_cu_pointer *out)
{
    if (!bytes)
        return TN_CU_INVALID_VALUE;
    if (!region_open() || bytes > limit - live_bytes[device])
        return TN_CU_OUT_OF_MEMORY;
    uint64_t asked = ((uint64_t)bytes + 255) & ~255ull;
    uint64_t span = (asked + PAGE - 1) & ~(PAGE - 1);
    if (span + 2 * PAGE > region - used)
        return TN_CU_OUT_OF_MEMORY;
    if (block_count == block_room) {
        size_t room = block_room ? 2 * block_room : 64;
        block *more = realloc(blocks, room * sizeof *blocks);
        if (!more)
            return TN_CU_OUT_OF_MEMORY;
        blocks = more;
        block_room = room;
    }
    uint64_t first = (uint64_t)(uintptr_t)seen + used;
    blocks[block_count++] = (block){.base = first + span - asked,
                                    .bytes = bytes,
                                    .first = first,
                                    .span = span,
                                    .device = device,
                                    .live = true};
    /* New memory is filled with bytes other than zero, so that no program
     * relies on zeros. Of a large block only the start is filled; the rest uses
     * no memory until it is accessed. */
    memset(reached + used, 0xa5, span < FILLED ? span : FILLED);
    used += span + PAGE;
    live_bytes[device] += bytes;
    *out = first + span - asked;
    return 0;
}

/* Returns the last block that begins at or before an address; NULL if there is
 * none. */
static block *block_of(tn_cu_pointer at)
{
    size_t low = 0, high = block_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (blocks[middle].base <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &blocks[low - 1] : NULL;
}

tn_cu_result sim_memory_free(tn_cu_pointer pointer)
{
    block *b = block_of(pointer);
    if (!b || b->base != pointer || !b->live)
        return sim_refuse(TN_CU_INVALID_VALUE,
                          "cuMemFree of %#llx, which is %s", pointer,
                          b && b->base == pointer
                              ? "free already"
                              : "no allocation's beginning");
    const uint64_t at = b->first - (uint64_t)(uintptr_t)seen;
    b->live = false;
    live_bytes[b->device] -= b->bytes;
    fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
              (off_t)b->span);
    madvise(written + at, b->span, MADV_DONTNEED);
    return 0;
}

/* ---- access ------------------------------------------------------------- */

static bool is_ordered(const sim_actor *actor, uint32_t work)
{
    const uint32_t number = work & ((1u << WORK_BITS) - 1);
    return !work || actor->clock.done[(work >> WORK_BITS) - 1] >= number;
}

/* Records the access. Returns false, with a report, if it is not ordered with
 * an access of another stream. */
static inline bool note_access(const sim_actor *actor, bool writes,
                               const char *what, uint64_t at, size_t bytes)
{
    const uint32_t work = (actor->stream + 1) << WORK_BITS | actor->work;
    const uint64_t last = (at + bytes - 1) / GRAIN;
    for (uint64_t grain = at / GRAIN; grain <= last; grain++) {
        trace *t = &traces[grain];
        const bool after_write = is_ordered(actor, t->writer);
        if (!after_write || (writes && !is_ordered(actor, t->reader))) {
            if (what)
                sim_report(
                    "%s of %zu bytes on stream %u has no order with a %s "
                    "on stream %u: no event or sync lies between",
                    what, bytes, actor->stream, after_write ? "read" : "write",
                    ((after_write ? t->reader : t->writer) >> WORK_BITS) - 1);
            return false;
        }
        if (writes)
            t->writer = work;
        else
            t->reader = work;
    }
    return true;
}

/* The function is compiled separately for each access size, since a launch
 * spends most of its time here. */
#define EACH_SIZE(bytes, does)                                                \
    switch (bytes) {                                                          \
    case 1: does(1); break;                                                   \
    case 2: does(2); break;                                                   \
    case 4: does(4); break;                                                   \
    case 8: does(8); break;                                                   \
    case 16: does(16); break;                                                 \
    default: does(bytes); break;                                              \
    }

static bool is_written(uint64_t at, size_t bytes)
{
    static const unsigned char all[16] = {1, 1, 1, 1, 1, 1, 1, 1,
                                          1, 1, 1, 1, 1, 1, 1, 1};
    if (bytes > sizeof all)
        return !memchr(written + at, 0, bytes);
#define SAME(size)                                                            \
    if (memcmp(written + at, all, size) != 0)                                 \
        return false
    EACH_SIZE(bytes, SAME)
    return true;
}

static void note_written(uint64_t at, size_t bytes)
{
#define MARK(size) memset(written + at, 1, size)
    EACH_SIZE(bytes, MARK)
}

static void *reach(const sim_actor *actor, int how, const char *what,
                   uint64_t at, size_t bytes, tn_cu_result *error)
{
    const bool writes = how == SIM_WRITE || how == SIM_PUT;
    *error = 0;
    if (how == SIM_READ && !is_written(at, bytes)) {
        if (what)
            sim_report("%s of %zu bytes that nothing has written", what, bytes);
        *error = SIM_FOUND;
    } else if (bytes && !note_access(actor, writes, what, at, bytes)) {
        *error = SIM_FOUND;
    } else if (writes) {
        note_written(at, bytes);
    }
    return *error ? NULL : reached + at;
}

/* Returns the live block that contains the whole range; NULL if there is
 * none. */
static const block *block_with(uint64_t at, size_t bytes)
{
    static size_t last;
    const block *b = last < block_count ? &blocks[last] : NULL;
    if (!b || at < b->base || at - b->base >= b->bytes)
        b = block_of(at);
    if (!b || at - b->base > b->bytes || bytes > b->bytes - (at - b->base) ||
        !b->live)
        return NULL;
    last = (size_t)(b - blocks);
    return b;
}

static inline void lanes(const sim_actor *actor, bool writes,
                         const uint64_t *at, unsigned count, size_t bytes,
                         unsigned char **to)
{
    for (unsigned n = 0; n < count; n++) {
        const uint64_t offset = at[n] - (uint64_t)(uintptr_t)seen;
        const block *b = block_with(at[n], bytes);
        if (!b || b->device != actor->context->device ||
            (!writes && !is_written(offset, bytes)) ||
            !note_access(actor, writes, NULL, offset, bytes))
            continue;
        if (writes)
            note_written(offset, bytes);
        to[n] = reached + offset;
    }
}

void sim_memory_lanes(const sim_actor *actor, bool writes, const uint64_t *at,
                      unsigned count, size_t bytes, unsigned char **to)
{
    const int how = writes ? SIM_WRITE : SIM_READ;
    tn_cu_result error;
    uint64_t apart = 0;
    for (unsigned n = 1; n < count; n++)
        apart |= at[n] - at[0] - n * bytes;
    if (apart) {
#define LANES(size) lanes(actor, writes, at, count, size, to)
        EACH_SIZE(bytes, LANES)
        return;
    }
    unsigned char *first =
        sim_memory_at(actor, how, NULL, at[0], count * bytes, &error);
    for (unsigned n = 0; n < count && first; n++)
        to[n] = first + n * bytes;
}

void *sim_memory_at(const sim_actor *actor, int how, const char *what,
                    tn_cu_pointer at, size_t bytes, tn_cu_result *error)
{
    const bool of_kernel = how == SIM_READ || how == SIM_WRITE;
    const block *b = block_with(at, bytes);
    if (b && (!of_kernel || b->device == actor->context->device))
        return reach(actor, how, what, at - (uint64_t)(uintptr_t)seen, bytes,
                     error);
    const bool fits = b;
    b = block_of(at);
    *error = TN_CU_ILLEGAL_ADDRESS;
    if (!what)
        return NULL;
    if (!b || at >= b->first + b->span + PAGE)
        sim_report("%s of %zu bytes at %#llx, which is no device memory", what,
                   bytes, at);
    else if (fits && b->live)
        sim_report("%s of %zu bytes of device %d by a kernel on device %d",
                   what, bytes, b->device, actor->context->device);
    else
        sim_report("%s of %zu bytes at %#llx, at %llu in a%s block of %llu",
                   what, bytes, at, at - b->base, b->live ? "" : " freed",
                   (unsigned long long)b->bytes);
    return NULL;
}

void sim_memory_carry(tn_cu_pointer dst, tn_cu_pointer src, size_t bytes)
{
    const uint64_t origin = (uint64_t)(uintptr_t)seen;
    memmove(written + (dst - origin), written + (src - origin), bytes);
}

/* ---- information about memory -------------------------------------------- */

void sim_memory_info(int device, size_t *left, size_t *total)
{
    region_open();
    *left = (size_t)(limit - live_bytes[device]);
    *total = (size_t)limit;
}

size_t sim_memory_live(int device)
{
    size_t count = 0;
    for (size_t i = 0; i < block_count; i++)
        count += blocks[i].live && blocks[i].device == device;
    return count;
}

int sim_memory_device(tn_cu_pointer at)
{
    const block *b = block_of(at);
    return b && at < b->first + b->span + PAGE ? b->device : -1;
}
