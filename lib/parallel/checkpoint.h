/* checkpoint.h: a checkpoint of many processes that is open for reading, and the
 * folder in which checkpoints are. */
#ifndef TN_LIB_PARALLEL_CHECKPOINT_H
#define TN_LIB_PARALLEL_CHECKPOINT_H

#include <parallel/manifest.h>
#include <parallel/region.h>
#include <parallel/xxh64.h>

#include <limits.h>
#include <tenon/io.h>
#include <tenon/sharded.h>

/* A tensor in a file, which is a piece of a whole. */
typedef struct tn__saved_piece {
    const char *name;  /* of the whole; lent by the file's records */
    const char *entry; /* lent by the file */
    int file;
    tn_dtype dtype;
    int ndim;          /* of the whole */
    int64_t shape[TN_MAX_NDIM];
    bool flat;
    tn__region region;
    int64_t at;        /* where its bytes begin in the file */
    bool has_hash;
    uint64_t hash;
} tn__saved_piece;

typedef struct tn__saved_whole {
    const tn__saved_piece *piece; /* lent: the first of its pieces */
    int count;
    int64_t bytes;
} tn__saved_whole;

struct tn_sharded {
    tn_object object;
    char *path;              /* owned */
    tn_safetensors **file;   /* owned references */
    tn__records *records;    /* owned, of each file */
    int files;
    tn__complete complete;   /* of a folder; count is 0 for a single file */
    tn__saved_piece *piece;  /* owned; ordered by the name of the whole */
    int64_t pieces;
    tn__saved_whole *whole;  /* owned; ordered by name */
    int wholes;
};

/* The hash of the size and the header of a file, which include the hashes of
 * its pieces. */
tn_status tn__sharded_header_hash(const tn_safetensors *file, const char *call,
                                  uint64_t *out);

const tn__saved_whole *tn__sharded_find(const tn_sharded *saved,
                                        const char *name);
/* Reads the elements of a region of a whole to out. */
tn_status tn__sharded_fill(const tn_sharded *saved,
                           const tn__saved_whole *whole,
                           const tn__region *target, void *out,
                           const char *call);
/* The region that is all of a whole. */
void tn__sharded_all_of(const tn__saved_whole *whole, tn__region *out);

/* Makes an object with all tensors, and the texts that ranks have in common, as
 * one safetensors file would have them. Leaves out what begins with `without`
 * (NULL: nothing). random is the state of the random generator. The open scope
 * owns it. */
tn_safetensors *tn__sharded_as_file(tn_sharded *saved, const char *without,
                                    const char *random);

/* The text of a rank's random generator: that of file `rank`, or of its own. */
const char *tn__sharded_random(const tn_sharded *saved, int rank, char *room,
                               size_t bytes);

/* ---- folders -------------------------------------------------------------- */

enum { TN__SHARDED_NAME = 64 };
/* Creates folder and a new folder for a checkpoint in it, and sets name to its
 * name and serial to its number. */
tn_status tn__sharded_make_folder(const char *folder, int64_t step,
                                  char name[TN__SHARDED_NAME], int64_t *serial);
/* Opens the files as a reader of COMPLETE will: rank 0 sees all of them, with the
 * headers that the ranks have written, and their pieces make up each whole. */
tn_status tn__sharded_check_files(const char *path,
                                  const tn__complete *complete);
/* Writes COMPLETE. */
tn_status tn__sharded_complete(const char *path, const tn__complete *complete);
/* Opens the files that complete names in the folder at path, which need not have
 * COMPLETE yet, or the file at path if complete is NULL. Takes *complete. The
 * open scope owns the result. */
tn_sharded *tn__sharded_open_files(const char *path, tn__complete *complete);
/* Removes a checkpoint: COMPLETE first, so that what is left of it after a crash
 * is not one. Removes nothing but files of checkpoints. */
void tn__sharded_remove(const char *path);
/* Removes all but `keep` complete checkpoints in folder, and those that were
 * never completed; never removes `name`. */
void tn__sharded_prune(const char *folder, const char *name, int64_t keep);
/* Finds the checkpoint that path means: itself, or the latest in it. Returns 1
 * for a folder, 2 for a file, 0 if there is none, or a negative status. */
int tn__sharded_resolve(const char *path, char out[PATH_MAX], const char *call);
/* Reads COMPLETE of the folder at path. */
tn_status tn__sharded_read_complete(const char *path, tn__complete *out,
                                    const char *call);

#endif
