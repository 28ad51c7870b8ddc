/* library_lock.c: a lock that fork() leaves usable in the child. */
#include <base/library_lock.h>

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int cancel_state; /* of the thread that holds the lock, before */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void take(void)
{
    pthread_mutex_lock(&lock);
}

static void give(void)
{
    pthread_mutex_unlock(&lock);
}

/* The handlers run before those of libtenon's locks, which are registered when
 * the first tensor is made: so a thread that holds this lock and needs one of
 * libtenon's can finish. */
static void watch_forks(void)
{
    pthread_atfork(take, give, give);
}

void tn__library_lock(void)
{
    int before;
    pthread_once(&fork_once, watch_forks);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    take();
    cancel_state = before;
}

void tn__library_unlock(void)
{
    const int before = cancel_state;
    give();
    pthread_setcancelstate(before, &(int){0});
}
