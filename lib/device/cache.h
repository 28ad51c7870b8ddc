/* cache.h: the disk cache of compiled device code. It includes only headers of
 * lib/base, so that the tool tenon-plugin-check can link it without the rest of
 * Tenon. */
#ifndef TN_LIB_DEVICE_CACHE_H
#define TN_LIB_DEVICE_CACHE_H

#include <stdint.h>

/* cache_read and cache_write of the host table, the functions that the core
 * offers to plugins. <tenon/plugin.h> documents them. */
uint32_t tn__cache_read(const void *key, uint64_t key_bytes,
                        uint32_t (*take)(void *context, const void *value,
                                         uint64_t value_bytes),
                        void *context);
void tn__cache_write(const void *key, uint64_t key_bytes, const void *value,
                     uint64_t value_bytes);

/* cache_hold and cache_release of the host table, the functions that the core
 * offers to plugins. They take and release a lock for one key, which excludes
 * other threads and processes. */
int32_t tn__cache_hold(const void *key, uint64_t key_bytes);
void tn__cache_release(int32_t hold);

/* Removes the oldest entries until the total size is at most `most` bytes. */
void tn__cache_trim(int64_t most);

#endif
