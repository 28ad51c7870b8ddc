/* file.h: files: opened and unpacked for reading, atomically replaced for
 * writing.
 *
 * Files are not mapped: if a mapped file is truncated, the process gets SIGBUS.
 * What these functions read is a copy, or they fail.
 *
 * what: the call that error messages begin with ("safetensors_open"). */
#ifndef TN_LIB_IO_FILE_H
#define TN_LIB_IO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <tenon/types.h>

/* Records errno as an error about path: TN_ERR_MEMORY for ENOMEM, else
 * TN_ERR_IO. */
tn_status tn__file_fail(const char *what, const char *path);

/* Opens a regular file for reading. Anything else (a FIFO, a device, a folder)
 * is rejected without waiting. Returns the descriptor and stores the result of
 * fstat in info unless it is NULL; a negative status on failure. */
int tn__file_open(const char *path, const char *what, struct stat *info);

/* Reads exactly `bytes` bytes at offset; fails if the file ends before. */
tn_status tn__file_read_at(int fd, const char *path, const char *what,
                           void *out, size_t bytes, uint64_t offset);

/* ---- sequential reading, unpacked if gzipped ---------------------------- */

typedef struct tn__unpacker tn__unpacker;
/* NULL with the error recorded. */
tn__unpacker *tn__unpacker_open(const char *path, const char *what);
/* Reads up to room of the next bytes; *got is 0 only at the end. Fails for a
 * gzipped file that is truncated, damaged, followed by other data, or longer
 * than tn_unpack_limit_set allows once unpacked. */
tn_status tn__unpacker_read(tn__unpacker *unpacker, void *out, size_t room,
                            size_t *got);
void tn__unpacker_close(tn__unpacker *unpacker); /* NULL is allowed */

/* The whole file, unpacked if it is gzipped, in new memory (free with
 * tn__free). On failure *data is unchanged. */
tn_status tn__file_read(const char *path, const char *what,
                        unsigned char **data, size_t *bytes);

/* ---- writing ------------------------------------------------------------ */

/* A file that replaces path only when it is complete: written next to it,
 * synced, renamed. After a crash at any moment the old or the new file is
 * there. Symbolic links are followed and stay; the old file's mode is kept. */
typedef struct tn__file_writer {
    int fd;
    char *path, *temporary; /* owned; path: after following links */
    const char *named;      /* the caller's path, for messages; lent */
    const char *what;
    bool open;              /* between open and commit or abandon; the thread
                               cannot be cancelled */
    bool replaces;          /* an old file exists */
    struct stat old;        /* and its fstat */
} tn__file_writer;
tn_status tn__file_writer_open(tn__file_writer *writer, const char *path,
                               const char *what);
tn_status tn__file_writer_write(tn__file_writer *writer, const void *data,
                                size_t bytes);
/* Replaces the old file. On failure the temporary file is removed. */
tn_status tn__file_writer_commit(tn__file_writer *writer);
/* Discards the temporary file. */
void tn__file_writer_abandon(tn__file_writer *writer);

#endif
