/* guard.h: checks how a plugin treats the arguments of a call. It may only read
 * them, only during the call, and only as far as their size field says.
 *
 * Every struct that a check passes to the plugin is copied to pages of its own.
 * The page after it is inaccessible. During the call the struct's pages are
 * read-only, unless the plugin is to fill the struct. After the call they are
 * inaccessible. Every other struct is longer than in this header, as a later
 * host's would be. */
#ifndef TN_CHECK_GUARD_H
#define TN_CHECK_GUARD_H

#include <tenon/plugin.h>

/* Wraps the slots of a table. */
void guard_wrap(tn_plugin *table);

/* From now on an access to an argument's inaccessible memory fails the check,
 * with the names of the struct and the call. Call in the process of a check. */
void guard_watch(void);

/* Sets the size field of the tn_fault of this thread's next queue_sync, or of
 * the tn_device_info of its next device_info. */
void guard_next_bytes(uint32_t bytes);

/* A host table of that many bytes, followed by an inaccessible page. */
const tn_host *guard_host(const tn_host *host, uint32_t bytes);

#endif
