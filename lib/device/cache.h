/* cache.h: the disk cache of compiled device code. It depends on lib/base only,
 * so that tenon-plugin-check can contain it. */
#ifndef TN_LIB_DEVICE_CACHE_H
#define TN_LIB_DEVICE_CACHE_H

#include <stdint.h>

/* These functions are host->cache_read and cache_write of <tenon/plugin.h>. */
uint32_t tn__cache_read(const void *key, uint64_t key_bytes,
                        uint32_t (*take)(void *context, const void *value,
                                         uint64_t value_bytes),
                        void *context);
void tn__cache_write(const void *key, uint64_t key_bytes, const void *value,
                     uint64_t value_bytes);

/* These functions are host->cache_hold and cache_release. */
int32_t tn__cache_hold(const void *key, uint64_t key_bytes);
void tn__cache_release(int32_t hold);

/* Removes the oldest entries until the total size is at most `most` bytes. */
void tn__cache_trim(int64_t most);

#endif
