/* memory.c: device memory. One file without a name is mapped twice: where the
 * process sees nothing but a fault (those are the device's addresses), and
 * where the driver reads and writes. Blocks end at a page's end, behind which
 * a page is never given out. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

#define REGION (1ull << 38)
#define PAGE 4096ull

typedef struct block {
    uint64_t base, bytes; /* as asked for */
    uint64_t first, span; /* whole pages */
    bool live;
} block;

static int file = -1;
static unsigned char *seen, *reached; /* by the process; by the driver */
static uint64_t used;                 /* of the region */
static block *blocks; /* in rising order; owned for ever */
static size_t block_count, block_room, live_count;
static uint64_t live_bytes, limit;

static bool region_open(void)
{
    if (file >= 0)
        return seen != MAP_FAILED && reached != MAP_FAILED;
    const char *most = getenv("TENON_SIM_MEMORY");
    limit = most ? strtoull(most, NULL, 0) : 8ull << 30;
    file = memfd_create("simulated device", MFD_CLOEXEC);
    seen = reached = MAP_FAILED;
    if (file < 0 || ftruncate(file, (off_t)REGION))
        return false;
    seen = mmap(NULL, REGION, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
    reached = mmap(NULL, REGION, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_NORESERVE, file, 0);
    used = PAGE;
    return seen != MAP_FAILED && reached != MAP_FAILED;
}

tn_cu_result sim_memory_alloc(size_t bytes, tn_cu_pointer *out)
{
    uint64_t asked = ((uint64_t)bytes + 255) & ~255ull;
    uint64_t span = (asked + PAGE - 1) & ~(PAGE - 1);
    if (!bytes)
        return TN_CU_INVALID_VALUE;
    if (!region_open() || live_bytes + asked > limit ||
        span + 2 * PAGE > REGION - used)
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
                                    .live = true};
    /* Not zero: nobody may count on that. */
    memset(reached + used, 0xa5, span);
    used += span + PAGE;
    live_bytes += asked;
    live_count++;
    *out = first + span - asked;
    return 0;
}

/* The last block that begins at or before an address; NULL. */
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
    if (!b || b->base != pointer || !b->live) {
        sim_say("cuMemFree of %#llx, which is %s", pointer,
                b && b->base == pointer ? "free already"
                                        : "no allocation's beginning");
        return TN_CU_INVALID_VALUE;
    }
    b->live = false;
    live_bytes -= (b->bytes + 255) & ~255ull;
    live_count--;
    fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              (off_t)(b->first - (uint64_t)(uintptr_t)seen), (off_t)b->span);
    return 0;
}

void *sim_memory_at(tn_cu_pointer at, size_t bytes, const char *what)
{
    static block *last;
    block *b = last;
    if (!b || b >= blocks + block_count || b < blocks || at < b->base ||
        at - b->base >= b->bytes)
        b = block_of(at);
    if (b && b->live && at - b->base <= b->bytes &&
        bytes <= b->bytes - (at - b->base)) {
        last = b;
        return reached + (at - (uint64_t)(uintptr_t)seen);
    }
    if (!b || at >= b->first + b->span + PAGE)
        sim_say("%s of %zu bytes at %#llx, which is no device memory", what,
                bytes, at);
    else
        sim_say("%s of %zu bytes at %#llx, at %llu in a%s block of %llu", what,
                bytes, at, at - b->base, b->live ? "" : " freed",
                (unsigned long long)b->bytes);
    return NULL;
}

void sim_memory_info(size_t *left, size_t *total)
{
    region_open();
    *left = (size_t)(limit - live_bytes);
    *total = (size_t)limit;
}

size_t sim_memory_live(void)
{
    return live_count;
}
