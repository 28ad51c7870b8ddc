/* lock.h: the library's locks (mutexes), which are safe with fork() and
 * pthread_cancel().
 *
 * fork() waits until no other thread holds one of these locks. So in the child
 * the data that the locks guard is consistent, and every lock can be taken. A
 * thread that holds a lock cannot be cancelled. */
#ifndef TN_LIB_BASE_LOCK_H
#define TN_LIB_BASE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct tn__lock {
    pthread_mutex_t mutex;
    _Atomic(const void *) owner; /* the address of tn__me of the thread that
                                  * holds the lock; NULL if none does */
    atomic_bool listed;
    struct tn__lock *next, *previous; /* list of all locks that were ever taken,
                                       * for fork() */
} tn__lock;

#define TN__LOCK_INIT {.mutex = PTHREAD_MUTEX_INITIALIZER}
void tn__lock_init(tn__lock *lock);
/* Destroys a lock, which no thread may hold. */
void tn__lock_destroy(tn__lock *lock);

void tn__lock_take(tn__lock *lock);
bool tn__lock_try(tn__lock *lock);
void tn__lock_give(tn__lock *lock);
/* Releases the lock, waits for the condition, and takes the lock again. */
void tn__lock_wait(tn__lock *lock, pthread_cond_t *condition);

/* tn__cancel_hold disables cancellation of this thread (pthread_cancel) until
 * the matching tn__cancel_release. The calls may nest. They protect code that
 * owns memory or open files and makes system calls, because a thread can be
 * cancelled at a system call. */
void tn__cancel_hold(void);
void tn__cancel_release(void);

#endif
