/* file.h: whole files: opened and unpacked when read, replaced when written.
 *
 * No file is mapped: one that becomes shorter while it is mapped ends the
 * process with SIGBUS. What is read has been copied, or is an error.
 *
 * what ("safetensors_open"), the call, begins messages. */
#ifndef TN_LIB_IO_FILE_H
#define TN_LIB_IO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <tenon/types.h>

/* Records errno as an error of path; TN_ERR_MEMORY for ENOMEM, else
 * TN_ERR_IO. */
tn_status tn__file_fail(const char *what, const char *path);

/* Opens a regular file to be read; what is none (a FIFO, a device, a folder)
 * is refused, and never waited for. Gives the descriptor and, unless info is
 * NULL, what fstat says; a negative status otherwise. */
int tn__file_open(const char *path, const char *what, struct stat *info);

/* Reads bytes of the file at offset, all of them: an error if it ends before. */
tn_status tn__file_read_at(int fd, const char *path, const char *what,
                           void *out, size_t bytes, uint64_t offset);

/* ---- a file in order, unpacked if it is gzipped -------------------------- */

typedef struct tn__unpacker tn__unpacker;
/* NULL with the error recorded. */
tn__unpacker *tn__unpacker_open(const char *path, const char *what);
/* Up to room of the next bytes; *got is 0 at the end alone. A gzipped file that
 * is cut off, damaged, followed by something else, or longer than
 * tn_unpack_limit_set allows when it is unpacked is an error. */
tn_status tn__unpacker_read(tn__unpacker *unpacker, void *out, size_t room,
                            size_t *got);
void tn__unpacker_close(tn__unpacker *unpacker); /* NULL is welcome */

/* The whole file in memory of its own (tn__free it), unpacked if it is gzipped;
 * on failure *data is as it was. */
tn_status tn__file_read(const char *path, const char *what,
                        unsigned char **data, size_t *bytes);

/* ---- writing -------------------------------------------------------------- */

/* A file that takes path's place only when it is whole: written beside it,
 * synced, renamed. A crash at any moment leaves the old one or the new one.
 * A symbolic link is followed and stays; the mode of the old file stays. */
typedef struct tn__file_writer {
    int fd;
    char *path, *temporary; /* owned; path: where the links lead */
    const char *named;      /* the caller's path, for messages; lent */
    const char *what;
    bool open;              /* this thread cannot be cancelled meanwhile */
    bool replaces;          /* is there an old file, */
    struct stat old;        /* and what is known of it */
} tn__file_writer;
tn_status tn__file_writer_open(tn__file_writer *writer, const char *path,
                               const char *what);
tn_status tn__file_writer_write(tn__file_writer *writer, const void *data,
                                size_t bytes);
/* Puts the file in place; on failure nothing is left behind. */
tn_status tn__file_writer_commit(tn__file_writer *writer);
/* Drops it. */
void tn__file_writer_abandon(tn__file_writer *writer);

#endif
