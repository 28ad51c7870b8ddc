/* file.h: opens and reads files, unpacks gzipped files, and replaces files
 * atomically.
 *
 * Files are not mapped, because a process that accesses a mapped file gets
 * SIGBUS if the file was truncated. These functions copy what they read.
 *
 * The parameter `what` is the name of the public function with which error
 * messages begin, such as "safetensors_open". */
#ifndef TN_LIB_IO_FILE_H
#define TN_LIB_IO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <tenon/types.h>

/* Records the error in errno about path and returns its status: TN_ERR_MEMORY
 * for ENOMEM, otherwise TN_ERR_IO. */
tn_status tn__file_fail(const char *what, const char *path);

/* Opens a regular file for reading and returns its descriptor. Rejects anything
 * else (a FIFO, a device, a folder) without waiting. Stores the result of fstat
 * in *info, unless info is NULL. Returns a negative status on failure. */
int tn__file_open(const char *path, const char *what, struct stat *info);

/* Reads exactly `bytes` bytes at offset. Fails if the file is shorter. */
tn_status tn__file_read_at(int fd, const char *path, const char *what,
                           void *out, size_t bytes, uint64_t offset);

/* ---- sequential reading, unpacked if gzipped ---------------------------- */

typedef struct tn__unpacker tn__unpacker;
/* Opens a file for sequential reading. Records an error and returns NULL on
 * failure. */
tn__unpacker *tn__unpacker_open(const char *path, const char *what);
/* Reads at most `room` of the next bytes and sets *got to their count, which is
 * 0 only at the end of the file. Fails if a gzipped file is truncated, damaged
 * or followed by other data, or if its unpacked size exceeds the limit of
 * tn_unpack_limit_set. */
tn_status tn__unpacker_read(tn__unpacker *unpacker, void *out, size_t room,
                            size_t *got);
void tn__unpacker_close(tn__unpacker *unpacker); /* NULL is allowed */

/* Reads a whole file, unpacked if it is gzipped, into new memory, which the
 * caller frees with tn__free. On failure *data is unchanged. */
tn_status tn__file_read(const char *path, const char *what,
                        unsigned char **data, size_t *bytes);

/* ---- writing ------------------------------------------------------------ */

/* A file that is being written and replaces the file at path only when it is
 * complete. The data is written to a temporary file in the same folder, which
 * is then synced to disk and renamed. So after a crash either the old or the
 * new file exists. If path is a symbolic link, the file that it leads to is
 * replaced. The new file gets the mode of the old one. */
typedef struct tn__file_writer {
    int fd;
    char *path, *temporary; /* owned paths: of the file after following links,
                               and of the temporary file */
    const char *named;      /* the caller's path, for messages; not owned */
    const char *what;
    bool open;              /* the temporary file exists; until commit or
                               abandon the thread cannot be cancelled */
    bool replaces;          /* there is an old file */
    struct stat old;        /* fstat of the old file */
} tn__file_writer;
tn_status tn__file_writer_open(tn__file_writer *writer, const char *path,
                               const char *what);
tn_status tn__file_writer_write(tn__file_writer *writer, const void *data,
                                size_t bytes);
/* Replaces the old file by the temporary file. On failure removes the temporary
 * file. */
tn_status tn__file_writer_commit(tn__file_writer *writer);
/* Removes the temporary file and leaves the old file unchanged. */
void tn__file_writer_abandon(tn__file_writer *writer);

#endif
