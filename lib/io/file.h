/* file.h: whole files: mapped or unpacked when read, replaced when written. */
#ifndef TN_LIB_IO_FILE_H
#define TN_LIB_IO_FILE_H

#include <stdio.h>
#include <tenon/types.h>

/* Maps path privately: readable and writable, changes stay in this process.
 * An empty file gives *data NULL. what ("safetensors_open"), the call, begins messages. */
tn_status tn__file_map(const char *path, const char *what, void **data,
                       size_t *bytes);
void tn__file_unmap(void *data, size_t bytes);

/* The whole file in memory of its own (tn__free it), unpacked if it is gzipped;
 * on failure *data is as it was. */
tn_status tn__file_read(const char *path, const char *what,
                        unsigned char **data, size_t *bytes);

/* A file that takes path's place only when it is whole: written beside it,
 * synced, renamed. A crash at any moment leaves the old one or the new one. */
typedef struct tn__file_writer {
    FILE *stream;
    char *path, *temporary; /* owned */
    const char *what;
} tn__file_writer;
tn_status tn__file_writer_open(tn__file_writer *writer, const char *path,
                               const char *what);
/* Puts the file in place; on failure nothing is left behind. */
tn_status tn__file_writer_commit(tn__file_writer *writer);
/* Drops it. */
void tn__file_writer_abandon(tn__file_writer *writer);

#endif
