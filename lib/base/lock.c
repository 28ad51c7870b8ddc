/* lock.c: locks that are safe with fork() and pthread_cancel(). */
#include <base/lock.h>

#include <base/context.h>
#include <base/platform.h>

#include <time.h>

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static tn__lock *list;
static atomic_bool forking; /* True while a fork runs. A thread that holds no
                             * lock then waits before it takes one. */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void pause_shortly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

/* Takes all locks of the list that the calling thread does not hold. If another
 * thread holds one, takes none and returns false. Waiting for that lock while
 * holding others could deadlock, since locks are not always taken in the same
 * order. */
static bool take_all(void)
{
    for (tn__lock *l = list; l; l = l->next) {
        if (atomic_load(&l->owner) == &tn__me ||
            pthread_mutex_trylock(&l->mutex) == 0)
            continue;
        for (tn__lock *taken = list; taken != l; taken = taken->next)
            if (atomic_load(&taken->owner) != &tn__me)
                pthread_mutex_unlock(&taken->mutex);
        return false;
    }
    return true;
}

static void before_fork(void)
{
    atomic_store(&forking, true);
    for (;;) {
        pthread_mutex_lock(&list_lock);
        if (take_all())
            return;
        pthread_mutex_unlock(&list_lock);
        pause_shortly();
    }
}

static void after_fork(void)
{
    for (tn__lock *l = list; l; l = l->next)
        if (atomic_load(&l->owner) != &tn__me)
            pthread_mutex_unlock(&l->mutex);
    pthread_mutex_unlock(&list_lock);
    atomic_store(&forking, false);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

static void put_on_list(tn__lock *lock)
{
    pthread_once(&fork_once, watch_forks);
    pthread_mutex_lock(&list_lock);
    if (!atomic_load(&lock->listed)) {
        lock->previous = NULL;
        lock->next = list;
        if (list)
            list->previous = lock;
        list = lock;
        atomic_store(&lock->listed, true);
    }
    pthread_mutex_unlock(&list_lock);
}

void tn__lock_init(tn__lock *lock)
{
    *lock = (tn__lock)TN__LOCK_INIT;
}

void tn__lock_destroy(tn__lock *lock)
{
    if (atomic_load(&lock->listed)) {
        pthread_mutex_lock(&list_lock);
        if (lock->previous)
            lock->previous->next = lock->next;
        else
            list = lock->next;
        if (lock->next)
            lock->next->previous = lock->previous;
        pthread_mutex_unlock(&list_lock);
    }
    pthread_mutex_destroy(&lock->mutex);
}

void tn__cancel_hold(void)
{
    if (tn__me.cancel_holds++ == 0)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &tn__me.cancel_state);
}

void tn__cancel_release(void)
{
    if (--tn__me.cancel_holds == 0)
        pthread_setcancelstate(tn__me.cancel_state, &(int){0});
}

/* Called before a thread takes a lock. During a fork, the thread waits here
 * until the fork is done. Two kinds of thread must not wait, because the fork
 * waits for them. One is a thread that holds a lock. The other is a thread that
 * runs an iteration of a tn__parallel_for: a thread that holds a lock may be
 * waiting for that iteration. */
static void enter(tn__lock *lock)
{
    if (TN__UNLIKELY(!atomic_load_explicit(&lock->listed,
                                           memory_order_acquire)))
        put_on_list(lock);
    while (TN__UNLIKELY(atomic_load_explicit(&forking, memory_order_relaxed)) &&
           tn__me.lock_count == 0 && !tn__me.in_job)
        pause_shortly();
    tn__me.lock_count++;
    tn__cancel_hold();
}

static void leave(void)
{
    tn__me.lock_count--;
    tn__cancel_release();
}

void tn__lock_take(tn__lock *lock)
{
    enter(lock);
    pthread_mutex_lock(&lock->mutex);
    atomic_store_explicit(&lock->owner, &tn__me, memory_order_relaxed);
}

bool tn__lock_try(tn__lock *lock)
{
    enter(lock);
    if (pthread_mutex_trylock(&lock->mutex)) {
        leave();
        return false;
    }
    atomic_store_explicit(&lock->owner, &tn__me, memory_order_relaxed);
    return true;
}

void tn__lock_give(tn__lock *lock)
{
    atomic_store_explicit(&lock->owner, NULL, memory_order_relaxed);
    pthread_mutex_unlock(&lock->mutex);
    leave();
}

void tn__lock_wait(tn__lock *lock, pthread_cond_t *condition)
{
    atomic_store_explicit(&lock->owner, NULL, memory_order_relaxed);
    pthread_cond_wait(condition, &lock->mutex);
    atomic_store_explicit(&lock->owner, &tn__me, memory_order_relaxed);
}
