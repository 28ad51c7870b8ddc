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

/* libtenon registers the fork handlers of its own locks earlier, when the first
 * tensor is made. Handlers that run before a fork run in reverse order of
 * registration, so fork takes this lock before those of libtenon. A thread that
 * holds this lock and needs a lock of libtenon can therefore finish first. */
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
