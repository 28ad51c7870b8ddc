/* source.h: the bytes of a file or of memory, read at any position.
 *
 * Files are not mapped, because a process gets SIGBUS if a mapped file is
 * truncated. `call` is the public function with which error messages begin. */
#ifndef TN_MEDIA_ARRAY_SOURCE_H
#define TN_MEDIA_ARRAY_SOURCE_H

#include <sys/stat.h>
#include <tenon/base.h>

typedef struct tn__array_source {
    char *path;      /* owned; "memory" for bytes in memory */
    uint64_t bytes;
    int fd;          /* owned; -1 for bytes in memory */
    char *memory;    /* owned; NULL for a file */
    struct stat info;/* fstat of the file when it was opened */
} tn__array_source;

/* Opens a regular file. Anything else (a FIFO, a device, a folder) is rejected
 * without waiting. Close the source also after a failure. */
tn_status tn__array_source_open(tn__array_source *source, const char *path,
                                const char *call);
/* Copies bytes in memory. */
tn_status tn__array_source_copy(tn__array_source *source, const void *data,
                                size_t bytes, const char *call);
/* Reads exactly `bytes` bytes at a position. Fails with TN_ERR_FORMAT if the
 * file ends before, and with TN_ERR_IO if the file was changed after it was
 * opened. */
tn_status tn__array_source_read(const tn__array_source *source, void *out,
                                uint64_t bytes, uint64_t at,
                                const char *call);
void tn__array_source_close(tn__array_source *source);

#endif
