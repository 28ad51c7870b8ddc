/* lent.h: the arguments of a call as a plugin must take them: read-only, good
 * for the call alone, and of the size that they say.
 *
 * Every struct that a check gives to the plugin is copied to pages of its own.
 * Right behind it lies a page that cannot be touched; while the call runs the
 * pages cannot be written, unless the plugin is to fill the struct; when it
 * has returned they cannot be read. Every other struct is longer than this
 * header has it, as a later host's would be. */
#ifndef TN_CHECK_LENT_H
#define TN_CHECK_LENT_H

#include <tenon/plugin.h>

/* Puts itself in front of the slots of a table. */
void lent_dress(tn_plugin *table);

/* From now on a touch of what is not lent is the check's failure, with the
 * name of the struct and of the call. For a process that runs a check. */
void lent_watch(void);

/* What the tn_fault of this thread's next queue_sync, or the tn_device_info of
 * its next device_info, says is its size. */
void lent_next_bytes(uint32_t bytes);

/* A host table of that many bytes, right before what cannot be touched. */
const tn_host *lent_host(const tn_host *host, uint32_t bytes);

#endif
