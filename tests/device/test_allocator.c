/* Tests the caching memory allocator, on a fake device that computes
 * nothing. */
#include "base/error.h"
#include "base/memory.h"
#include "base/platform.h"
#include "device/device.h"
#include "plugins/folder.h"
#include "tap.h"

#include <pthread.h>

#define MIB (1024 * 1024)

static tn_memory_stats memory(tn_device *device)
{
    tn_memory_stats stats = {.size = sizeof stats};
    tn_memory(device, &stats);
    return stats;
}

static void test_small(tn_device *device)
{
    tn__block *a = tn__block_alloc(device, 100);
    is_int((int64_t)a->bytes, 128, "100 bytes take two units");
    is_int((int64_t)(a->offset % 64), 0, "at a multiple of 64");
    ok(a->host && (uintptr_t)a->host % 64 == 0, "which the CPU sees");
    tn__block *none = tn__block_alloc(device, 0);
    ok(none && none->bytes == 64, "0 bytes are legal");
    is_int(memory(device).allocated_bytes, 192, "both are counted");
    memset(a->host, 1, 100);
    tn__block_free(a);
    tn__block *again = tn__block_alloc(device, 65);
    ok(again == a, "the block that was freed last is reused");
    tn__block_free(again);
    tn__block_free(none);
    tn__block_free(NULL);
    is_int(memory(device).allocated_bytes, 0, "nothing is in use");
    is_int(memory(device).slab_count, 1, "the plugin was asked once");
}

static void test_large(tn_device *device)
{
    int64_t slabs = memory(device).slab_count;
    tn__block *a = tn__block_alloc(device, 100 * 1000);
    tn__block *b = tn__block_alloc(device, 100 * 1000);
    tn__block *c = tn__block_alloc(device, 100 * 1000);
    ok(a->slab == b->slab && b->slab == c->slab, "medium blocks share a slab");
    ok(b->offset == a->offset + a->bytes, "adjacent blocks");
    tn__block_free(b);
    tn__block *d = tn__block_alloc(device, 50 * 1000);
    ok(d->offset == a->offset + a->bytes, "the best fit is the hole");
    tn__block_free(a);
    tn__block_free(d);
    tn__block *e = tn__block_alloc(device, 190 * 1000);
    is_int((int64_t)e->offset, 0, "neighbours that are free are one");
    tn__block_free(e);
    tn__block_free(c);
    tn__block *whole = tn__block_alloc(device, 1 * MIB);
    is_int((int64_t)whole->offset, 0, "all of a slab can be allocated again");
    tn__block_free(whole);
    is_int(memory(device).slab_count - slabs, 1, "all from one slab");

    a = tn__block_alloc(device, 30 * MIB + 1);
    is_int((int64_t)a->bytes, 30 * MIB + 512, "large ones are rounded little");
    is_int(memory(device).peak_bytes, 30 * MIB + 512, "the peak is kept");
    tn__block_free(a);
    b = tn__block_alloc(device, 31 * MIB);
    is_int(memory(device).slab_count - slabs, 2, "a freed slab is used again");
    tn__block_free(b);
    tn_memory_reset_peak(device);
    is_int(memory(device).peak_bytes, 0, "the peak can be reset");
    ok(memory(device).cached_bytes >= 32 * MIB, "free memory is cached");
    tn_cache_empty(device);
    is_int(memory(device).cached_bytes, 0, "until the cache is emptied");
}

/* Blocks of many sizes are allocated and freed at random; live blocks must not
 * overlap. */
static void test_random(tn_device *device)
{
    enum { SLOTS = 200, ROUNDS = 20000 };
    static tn__block *block[SLOTS];
    static uint64_t asked[SLOTS];
    uint32_t seed = 12345;
    bool good = true;
    note("seed %u", seed);
    for (int round = 0; round < ROUNDS; round++) {
        seed = seed * 1664525 + 1013904223;
        int i = (int)((seed >> 8) % SLOTS);
        unsigned char mark = (unsigned char)(i + 1);
        if (block[i]) {
            unsigned char *p = block[i]->host;
            if (asked[i])
                good &= p[0] == mark && p[asked[i] - 1] == mark &&
                        p[asked[i] / 2] == mark;
            tn__block_free(block[i]);
            block[i] = NULL;
            continue;
        }
        seed = seed * 1664525 + 1013904223;
        asked[i] = (seed >> 8) % ((seed >> 4) % 3 ? 2000 : 100000);
        block[i] = tn__block_alloc(device, asked[i]);
        if (!block[i])
            bail_out("%s", tn_error());
        good &= block[i]->bytes >= asked[i] && block[i]->offset % 64 == 0;
        if (asked[i])
            memset(block[i]->host, mark, asked[i]);
    }
    for (int i = 0; i < SLOTS; i++)
        tn__block_free(block[i]);
    ok(good, "%d blocks kept their contents", ROUNDS / 2);
    is_int(memory(device).allocated_bytes, 0, "and all came back");
    tn_cache_empty(device);
    is_int(memory(device).cached_bytes, 0, "and their slabs too");
}

static void is_error(const char *want, const char *name)
{
    is_int(tn_error_code(), TN_ERR_MEMORY, "%s: ERR_MEMORY", name);
    is_str(tn_error(), want, "%s is reported", name);
    tn_error_clear();
}

static void test_limit(tn_device *device)
{
    is_int(tn_memory_set_limit(device, 10 * MIB), TN_OK, "a limit is set");
    is_int(memory(device).limit_bytes, 10 * MIB, "and reported");
    tn__block *a = tn__block_alloc(device, 6 * MIB);
    ok(a, "what fits is had, in a slab of its own size");
    ok(!tn__block_alloc(device, 5 * MIB), "what does not is refused");
    is_error("out of memory on fake:0: 5.00 MiB requested, 6.00 MiB in live "
             "tensors, 0 bytes cached; the limit is 10.00 MiB "
             "(TENON_MEM_LIMIT or tn_memory_set_limit)",
             "reaching the limit");
    tn__block_free(a);
    a = tn__block_alloc(device, 9 * MIB);
    ok(a && !tn_error(), "cached memory is released for a new block");
    tn__block *b = tn__block_alloc(device, 10);
    ok(b, "a small block finds its place below the limit");
    tn__block_free(b);
    tn__block_free(a);
    is_int(tn_memory_set_limit(device, 1 * MIB), TN_OK, "a lower limit");
    ok(memory(device).cached_bytes <= 1 * MIB, "empties the cache");
    is_int(tn_memory_set_limit(device, -1), TN_ERR_ARGUMENT,
           "a negative one is refused");
    is_str(tn_error(),
           "memory_set_limit: bytes is -1; expected at least 0 (0: no limit)",
           "in words");
    tn_error_clear();
    tn_memory_set_limit(device, 0);
    ok(!tn__block_alloc(device, UINT64_MAX), "too much is refused");
    tn_error_clear();
    tn_memory_stats stats = {0};
    is_int(tn_memory(device, &stats), TN_ERR_ARGUMENT, "size must be set");
    is_str(tn_error(),
           "memory: stats.size is 0; set stats.size = sizeof stats first",
           "in words");
    tn_error_clear();
    is_int(tn_memory(device, NULL), TN_ERR_ARGUMENT, "stats must be there");
    tn_error_clear();
    /* a program compiled with a shorter struct */
    tn_memory_stats old = {.size = offsetof(tn_memory_stats, slab_count),
                           .slab_count = -7};
    is_int(tn_memory(device, &old), TN_OK, "an older struct is filled");
    ok(old.slab_count == -7, "as far as there is memory");
}

/* For a large block, the small blocks that this thread caches are freed. The
 * large block counts in the peak like any other. */
static void test_peak(tn_device *device)
{
    enum { SMALL = 4 * MIB / 1024 };
    static tn__block *small[SMALL];
    tn_cache_empty(device);
    tn_memory_set_limit(device, 10 * MIB);
    for (int i = 0; i < SMALL; i++)
        small[i] = tn__block_alloc(device, 1024);
    for (int i = 0; i < SMALL; i++)
        tn__block_free(small[i]);
    ok(memory(device).cached_bytes >= 4 * MIB, "small blocks are kept");
    tn_memory_reset_peak(device);
    tn__block *large = tn__block_alloc(device, 9 * MIB);
    ok(large != NULL, "until a large one needs their memory");
    tn__block_free(large);
    is_int(memory(device).peak_bytes, 9 * MIB, "which is the peak, then");
    tn_memory_set_limit(device, 0);
    tn_cache_empty(device);
}

/* Simulates a device with 32 MiB of memory that the host cannot access, and
 * with asynchronous work. */
static void test_device_full(tn_device *device)
{
    tn__block *a = tn__block_alloc(device, 24 * MIB);
    ok(a && !a->host, "memory that the CPU does not see has no address");
    ok(!tn__block_alloc(device, 16 * MIB), "a full device refuses");
    is_error("out of memory on longer:0: 16.00 MiB requested, 24.00 MiB in "
             "live tensors, 0 bytes cached; 8.00 MiB of 32.00 MiB are "
             "free",
             "a full device");
    tn__block_free(a);
    a = tn__block_alloc(device, 30 * MIB);
    ok(a && !tn_error(), "cached memory is released first");
    tn__block_free(a);
    tn_cache_empty(device);
}

static void test_no_memory(tn_device *device)
{
    static const uint64_t sizes[] = {10, 5000, 3 * MIB};
    for (size_t s = 0; s < 3; s++) {
        bool clean = true;
        int64_t slabs = 0;
        for (int n = 1; n < 6; n++) {
            tn_cache_empty(device);
            int64_t live = tn__memory_live();
            tn__memory_fail_at(n);
            tn__block *b = tn__block_alloc(device, sizes[s]);
            tn__memory_fail_at(0);
            clean &= b ? !tn_error() : tn_error_code() == TN_ERR_MEMORY;
            tn_error_clear();
            tn__block_free(b);
            tn_cache_empty(device);
            clean &= tn__memory_live() == live;
            slabs += memory(device).cached_bytes;
        }
        ok(clean && !slabs,
           "%d bytes: host memory that runs out leaves nothing behind",
           (int)sizes[s]);
    }
}

#define THREADS 4
static tn_device *shared;
static tn__block *passed[THREADS][1000];

static void *take_and_pass(void *number)
{
    int self = (int)(intptr_t)number;
    for (int i = 0; i < 1000; i++) {
        for (int k = 0; k < 20; k++)
            tn__block_free(tn__block_alloc(shared, (uint64_t)(k * 97)));
        passed[self][i] = tn__block_alloc(shared, (uint64_t)(i * 3));
    }
    return NULL;
}

static void *free_passed(void *number)
{
    int self = (int)(intptr_t)number;
    for (int i = 0; i < 1000; i++)
        tn__block_free(passed[(self + 1) % THREADS][i]);
    return NULL;
}

static void run(void *(*body)(void *number))
{
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, body, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

static void test_threads(tn_device *device)
{
    shared = device;
    int64_t count = memory(device).allocation_count;
    run(take_and_pass);
    is_int(memory(device).allocation_count - count, THREADS * 21000,
           "%d threads' allocations are counted", THREADS);
    ok(memory(device).allocated_bytes >= THREADS * 1000 * 1500,
       "blocks outlive the thread that took them");
    run(free_passed);
    is_int(memory(device).allocated_bytes, 0, "other threads free them");
    tn_cache_empty(device);
    is_int(memory(device).cached_bytes, 0, "nothing is kept by dead threads");
}

static void test_poison(tn_device *device)
{
#ifdef TN__ASAN
    tn__block *a = tn__block_alloc(device, 100);
    ok(!__asan_address_is_poisoned((char *)a->host + 99), "in use: not poison");
    ok(__asan_address_is_poisoned((char *)a->host + 104), "past it: poison");
    char *host = a->host;
    tn__block_free(a);
    ok(__asan_address_is_poisoned(host), "freed: poison");
#else
    (void)device;
    skip(3, "not built with the address sanitizer");
#endif
}

int main(void)
{
    plan_later();
    folder_start();
    folder_add("all", "fake", "fake", NULL);
    folder_add("all", "longer", "longer", NULL);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/all", folder_root);
    setenv("TENON_PLUGIN_PATH", path, 1);
    setenv("TENON_LONGER_MEMORY", "33554432", 1);
    setenv("TENON_LONGER_HIDDEN", "1", 1);
    setenv("TENON_LONGER_ASYNC", "1", 1);
    setenv("TENON_MEM_LIMIT", "1G", 1);
    tn_device *device = tn_device_open("fake");
    unsetenv("TENON_MEM_LIMIT");
    tn_device *full = tn_device_open("longer");
    if (!device || !full)
        bail_out("%s", tn_error());
    is_int(memory(device).limit_bytes, 1024 * MIB, "TENON_MEM_LIMIT is read");
    tn_memory_set_limit(device, 0);
    test_small(device);
    test_large(device);
    test_random(device);
    test_limit(device);
    test_peak(device);
    test_device_full(full);
    test_no_memory(device);
    test_threads(device);
    test_poison(device);
    folder_end();
    return done_testing();
}
