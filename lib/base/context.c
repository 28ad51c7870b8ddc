/* context.c: the per-thread state of the library (context.h). */
#include <base/context.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

TN__HOT_TLS tn__context tn__me;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;

/* Frees the thread's memory when the thread ends. Destructors of
 * thread-specific data that run later may record an error and so allocate
 * again. Then pthreads calls this function once more. */
static void all_free(void *context)
{
    (void)context;
    free(tn__me.error);
    free(tn__me.ranges);
    tn__me.error = NULL;
    tn__me.ranges = NULL;
    tn__me.pending = TN_OK;
}

static void key_make(void)
{
    key_made = !pthread_key_create(&key, all_free);
}

void *tn__context_alloc(void *slot, size_t bytes)
{
    pthread_once(&once, key_make);
    void *room = key_made ? calloc(1, bytes) : NULL;
    if (room && pthread_setspecific(key, &tn__me)) {
        free(room);
        room = NULL;
    }
    memcpy(slot, &room, sizeof room);
    return room;
}
