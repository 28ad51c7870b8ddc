/* Tests internal allocation, its counters, simulated failures, and object
 * pools. */
#include "base/error.h"
#include "base/memory.h"
#include "base/object.h"
#include "base/platform.h"
#include "tap.h"

#include <pthread.h>

static void test_alloc(void)
{
    int64_t live = tn__memory_live(), count = tn__memory_count();
    void *none = tn__alloc(0);
    ok(none, "0 bytes give a pointer");
    char *zeros = tn__calloc(3, 5);
    bool all = true;
    for (int i = 0; i < 15; i++)
        all &= !zeros[i];
    ok(all, "calloc zeroes");
    char *copy = tn__strdup("text");
    is_str(copy, "text", "strdup copies");
    is_int(tn__memory_live() - live, 3, "three blocks live");
    copy = tn__realloc(copy, 1000);
    is_str(copy, "text", "realloc keeps the contents");
    is_int(tn__memory_live() - live, 3, "and counts as one block");
    is_int(tn__memory_count() - count, 4, "four allocations were made");
    tn__free(none);
    tn__free(zeros);
    tn__free(copy);
    tn__free(NULL);
    is_int(tn__memory_live(), live, "no block is live at the end");
    ok(!tn__alloc(SIZE_MAX / 2), "a size that is too large is refused");
    is_int(tn_error_code(), TN_ERR_MEMORY, "with ERR_MEMORY");
    tn_error_clear();
    ok(!tn__calloc(SIZE_MAX / 2, 3), "a product that overflows too");
    tn_error_clear();
}

static void test_grow(void)
{
    int *items = NULL;
    size_t room = 0;
    for (int i = 0; i < 1000; i++) {
        if (!tn__grow(&items, &room, (size_t)i, sizeof *items))
            bail_out("memory ran out");
        items[i] = i;
    }
    ok(room >= 1000 && items[0] == 0 && items[999] == 999,
       "an array grows and keeps its items");
    int *before = items;
    size_t room_before = room;
    tn__memory_fail_at(1);
    ok(!tn__grow(&items, &room, room, sizeof *items), "growing may fail");
    ok(items == before && room == room_before, "and then nothing changed");
    tn_error_clear();
    tn__free(items);
}

static tn__pool pool = {"thing", 40, 0};

static void test_fail_at(void)
{
    tn__memory_fail_at(2);
    void *a = tn__alloc(8), *b = tn__alloc(8), *c = tn__alloc(8);
    ok(a && !b && c, "the second allocation fails, no other");
    is_str(tn_error(), "out of memory: 8 bytes of host memory requested",
           "and tells what was asked for");
    tn_error_clear();
    tn__free(a);
    tn__free(c);
    /* First fills the thread's free list, which must not hide the failing
     * allocation. */
    tn__pool_give(&pool, tn__pool_take(&pool));
    tn__memory_fail_at(1);
    ok(!tn__pool_take(&pool), "a pool's objects fail too");
    is_int(tn_error_code(), TN_ERR_MEMORY, "with ERR_MEMORY");
    tn_error_clear();
    void *block = tn__pool_take(&pool);
    ok(block, "the next one succeeds");
    tn__pool_give(&pool, block);
    tn__memory_fail_at(1);
    tn__memory_fail_at(0);
    void *d = tn__alloc(1);
    ok(d, "0 calls a failure off");
    tn__free(d);
}

#define MANY 10000

static void *free_all(void *blocks)
{
    for (int i = 0; i < MANY; i++)
        tn__pool_give(&pool, ((void **)blocks)[i]);
    return NULL;
}

static void test_pool(void)
{
    static void *block[MANY];
    int64_t live = tn__memory_live();
    for (int i = 0; i < MANY; i++) {
        block[i] = tn__pool_take(&pool);
        memset(block[i], i, 40);
    }
    is_int(tn__memory_live() - live, MANY, "objects of a pool live");
    pthread_t thread;
    pthread_create(&thread, NULL, free_all, block);
    pthread_join(thread, NULL);
    is_int(tn__memory_live(), live, "another thread may free them");
    tn__pool_give(&pool, NULL);
    is_int(tn__memory_live(), live, "NULL is welcome");
    block[0] = tn__pool_take(&pool);
    tn__pool_give(&pool, block[0]);
    block[1] = tn__pool_take(&pool);
#ifndef TN_PLAIN_ALLOC
    ok(block[0] == block[1], "the block that was freed last is reused first");
#endif
    tn__pool_give(&pool, block[1]);
}

int main(void)
{
    plan_later();
    test_alloc();
    test_grow();
    test_fail_at();
    test_pool();
    tn__state_end();
    is_int(tn__memory_live(), 0, "a thread that ends leaves nothing");
    return done_testing();
}
