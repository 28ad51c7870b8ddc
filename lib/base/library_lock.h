/* library_lock.h: one lock for the short critical sections of a library that
 * is built on libtenon's public headers. The child of a fork() can take it,
 * even if another thread of the parent held it. Each of these libraries
 * compiles library_lock.c itself, and so has a lock of its own. */
#ifndef TN_LIB_BASE_LIBRARY_LOCK_H
#define TN_LIB_BASE_LIBRARY_LOCK_H

/* Between the two calls the calling thread cannot be cancelled. It must not
 * fork and must not call functions of the program. The calls do not nest. */
void tn__library_lock(void);
void tn__library_unlock(void);

#endif
