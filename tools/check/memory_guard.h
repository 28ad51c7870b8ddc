/* memory_guard.h: checks how a plugin treats the argument structs of a call. A
 * plugin may only read them, only during the call, and only the number of bytes
 * that their size field states.
 *
 * Every struct that a check passes to the plugin is copied to pages of its own.
 * The page after it is inaccessible. During the call the struct's pages are
 * read-only, unless the plugin is to fill the struct. After the call they are
 * inaccessible. Every second struct is made longer than its type, as the struct
 * of a later version would be. */
#ifndef TN_CHECK_GUARD_H
#define TN_CHECK_GUARD_H

#include <tenon/plugin.h>

/* Replaces the functions in the plugin's table by wrappers that guard their
 * arguments. */
void guard_wrap(tn_plugin *table);

/* Installs a signal handler. From then on, an access to the inaccessible memory
 * of an argument fails the check, and the message names the call. Must be
 * called in the process of the check. */
void guard_watch(void);

/* Sets the size of the struct that the calling thread next passes to the plugin
 * to be filled: the tn_fault of queue_sync or the tn_device_info of
 * device_info. */
void guard_next_bytes(uint32_t bytes);

/* Returns a copy of the host table that is `bytes` long and followed by an
 * inaccessible page. */
const tn_host *guard_host(const tn_host *host, uint32_t bytes);

#endif
