/* lock.h: the library's locks, which forks and cancelled threads leave whole.
 *
 * fork() waits until no thread but its own holds one, so a child finds all that
 * they guard whole and may take any of them. A thread cannot be cancelled while it
 * holds one. */
#ifndef TN_LIB_BASE_LOCK_H
#define TN_LIB_BASE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct tn__lock {
    pthread_mutex_t mutex;
    _Atomic(const void *) owner; /* the context of the thread that holds it */
    atomic_bool listed;
    struct tn__lock *next, *previous; /* all that were taken once */
} tn__lock;

#define TN__LOCK_INIT {.mutex = PTHREAD_MUTEX_INITIALIZER}
void tn__lock_init(tn__lock *lock);
/* Nobody holds it. */
void tn__lock_destroy(tn__lock *lock);

void tn__lock_take(tn__lock *lock);
bool tn__lock_try(tn__lock *lock);
void tn__lock_give(tn__lock *lock);
/* Gives it, waits for the condition, takes it again. */
void tn__lock_wait(tn__lock *lock, pthread_cond_t *condition);

/* Until as many releases this thread cannot be cancelled: for what owns memory or
 * files and makes system calls, which are points of cancellation. */
void tn__cancel_hold(void);
void tn__cancel_release(void);

#endif
