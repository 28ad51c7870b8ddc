/* <tenon/sharded.h>: checkpoints of training runs in many processes.
 *
 * All ranks save together, and any number of ranks loads what was saved:
 *
 *     tn_checkpoint all = {sizeof all, .module = net, .optim = opt,
 *                          .loader = loader};
 *     tn_sharded_load("run", &all, world, .ddp = ddp, .optional = true);
 *     while (all.step < steps) {
 *         ... a step ...
 *         if (++all.step % 100 == 0)
 *             tn_sharded_save("run", &all, world, .ddp = ddp, .keep = 3);
 *     }
 *
 * A folder like "run" holds one folder for each checkpoint, such as
 * "run/step-000000000100". Each rank writes one file there,
 * "rank-00002-of-00004.safetensors": a plain safetensors file with pieces of
 * tensors. Its metadata says of each piece what it is a part of, at which
 * offset, and the hash of its bytes (XXH64). What all ranks have in common
 * (parameters, buffers, the state of an optimizer) is written once: each rank
 * writes an equal part of the bytes. When all files are on disk, rank 0 writes
 * the file COMPLETE, with the hash of each file's header. A folder without it
 * is not a checkpoint. So a crash at any moment leaves the last complete
 * checkpoint as it is.
 *
 * All ranks must see the same folder. `tenon checkpoint info|merge|verify`
 * lists, joins and checks checkpoints; examples are in docs/distributed.md.
 *
 * Link with `pkg-config --libs tenon-parallel`.
 *
 * Threads: tn_sharded_save and tn_sharded_load are collectives: all ranks of
 * the group call them in the same order, with the same folder. A tn_sharded
 * belongs to one thread at a time.
 */
#ifndef TENON_SHARDED_H
#define TENON_SHARDED_H

#include <tenon/checkpoint.h>
#include <tenon/parallel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A checkpoint that is open for reading. */
typedef struct tn_sharded tn_sharded;

/* ---- pieces --------------------------------------------------------------- */

/* A piece of a tensor that is spread over ranks. It is either a block, whose
 * first element is at offset[0 .. ndim - 1] of the whole, and whose shape is
 * that of `tensor`; or, if flat is true, neighbouring elements of the whole in
 * row-major order, which begin at element offset[0]; tensor then has one
 * dimension. All pointers are lent. Closed. */
typedef struct tn_piece {
    const char *name;      /* of the whole, as a job of one rank would name it:
                              "optim.0.fc.weight.exp_avg" */
    int ndim;              /* of the whole */
    const int64_t *shape;  /* of the whole */
    const int64_t *offset; /* ndim elements, or 1 if flat */
    bool flat;
    tn_tensor *tensor;     /* the elements of the piece */
} tn_piece;
typedef void (*tn_piece_visit)(const tn_piece *piece, void *context);

/* A state that is spread over the ranks of a job, such as that of an optimizer
 * of which each rank has a part. It is saved beside the parts of a
 * tn_checkpoint.
 *
 *   prefix   begins the names of its tensors, and of its text: "optim."
 *   pieces   calls visit with each piece that this rank has. The pieces of all
 *            ranks together must make up each whole, without gap or overlap.
 *            Returns the text of the state, the same on all ranks, in memory
 *            from malloc; NULL with an error set on failure
 *   load     restores the state from the text and from the tensors whose names
 *            begin with prefix, by tn_sharded_has and tn_sharded_read. Each rank
 *            reads what it needs. Changes nothing if it fails
 *
 * The text is stored as the metadata prefix + "optimizer". If names and text are
 * those of tn_optim_state, one process can load the state into an optimizer that
 * is not spread, and the other way round. */
typedef struct tn_sharded_state {
    size_t size; /* sizeof(tn_sharded_state) */
    const char *prefix;
    char *(*pieces)(void *object, tn_piece_visit visit, void *context);
    tn_status (*load)(void *object, const char *text, tn_sharded *saved);
    void *object;
} tn_sharded_state;

/* Returns the state of an optimizer that tn_optim_sharded has divided, for
 * .state of tn_sharded_save and tn_sharded_load, whose checkpoint then has no
 * .optim:
 *
 *     tn_sharded_state parts = tn_optim_sharded_state(opt);
 *     tn_sharded_save("run", &all, world, .ddp = ddp, .state = &parts);
 *
 * It can be loaded with any number of ranks, also into an optimizer that is not
 * divided, as .optim; and a state that was saved as .optim, with this. Valid while
 * optim lives. Cannot fail: the calls that use it check optim. */
TN_API tn_sharded_state tn_optim_sharded_state(tn_optim *optim);

/* ---- saving and loading --------------------------------------------------- */

/* Options of tn_sharded_save:
 *   ddp    its seed and its count of steps are saved: they determine the random
 *          numbers of the shards
 *   state  a state that is spread over the ranks
 *   keep   number of complete checkpoints to keep in the folder, this one
 *          included; older ones are deleted. 0: all */
#define TN_SHARDED_SAVE_OPTIONS_LIST(X)                                       \
    X(tn_ddp *, ddp, NULL)                                                    \
    X(const tn_sharded_state *, state, NULL)                                  \
    X(int64_t, keep, 2)
TN_OPTIONS_STRUCT(tn_sharded_save, TN_SHARDED_SAVE_OPTIONS_LIST);
#define TN_SHARDED_SAVE_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_sharded_save, TN_SHARDED_SAVE_OPTIONS_LIST)

/* Saves a checkpoint in folder, which is made if it does not exist. Its number
 * is checkpoint->step. All ranks give the same parts; what they have in common
 * must be equal on all ranks, and is not compared, except for names, shapes and
 * numbers. Each rank's random generator is saved. Returns after the checkpoint
 * is complete, on all ranks the same status.
 *
 * If a rank fails, for example because its disk is full, the call fails on all
 * ranks with that rank's message, its files are removed, older checkpoints stay,
 * and the job goes on: the error can be cleared. TN_ERR_STATE within a step of
 * ddp; TN_ERR_ARGUMENT if ranks differ; otherwise as tn_checkpoint_save, or as a
 * collective. */
TN_API tn_status
tn_sharded_save_with(const char *folder, const tn_checkpoint *checkpoint,
                     tn_group *group, const tn_sharded_save_options *options);

/* Options of tn_sharded_load:
 *   ddp       restores its seed and its count of steps, if the checkpoint has
 *             them
 *   state     the state that is spread over the ranks of this job
 *   optional  if the folder has no complete checkpoint, or does not exist,
 *             nothing is changed, and that is no error */
#define TN_SHARDED_LOAD_OPTIONS_LIST(X)                                       \
    X(tn_ddp *, ddp, NULL)                                                    \
    X(const tn_sharded_state *, state, NULL)                                  \
    X(bool, optional, false)
TN_OPTIONS_STRUCT(tn_sharded_load, TN_SHARDED_LOAD_OPTIONS_LIST);
#define TN_SHARDED_LOAD_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_sharded_load, TN_SHARDED_LOAD_OPTIONS_LIST)

/* Restores all parts in place, and sets checkpoint->step. path is a folder of
 * checkpoints, of which the latest complete one is loaded; one of its
 * checkpoints; or a file of tn_checkpoint_save. It may be of another number of
 * ranks. A rank reads the bytes that it needs; the hash of each piece that is
 * read completely is checked.
 *
 * The loader's position is that of the job (tn_loader_seek). The random
 * generator of a rank is that of the same rank; if there were fewer ranks, and
 * they had different generators, a further rank gets one with a seed of its
 * own.
 *
 * Fails on all ranks if it fails on one, as tn_checkpoint_load does; a rank that
 * has failed has changed nothing, but others may have, so the state is not to be
 * used. TN_ERR_IO if there is no complete checkpoint, or a file is missing;
 * TN_ERR_FORMAT if a file is damaged: the message names it. */
TN_API tn_status
tn_sharded_load_with(const char *path, tn_checkpoint *checkpoint,
                     tn_group *group, const tn_sharded_load_options *options);

/* Returns the step of the latest complete checkpoint in folder, or -1 if there
 * is none. Complete means that COMPLETE and all files that it names are there,
 * with their sizes. Copies the path of the checkpoint to out, which has room for
 * `room` bytes; out may be NULL. A path that is longer is an error. May be called
 * before tn_dist_init. */
TN_API int64_t tn_sharded_latest(const char *folder, char *out, size_t room);

/* ---- reading -------------------------------------------------------------- */

/* Opens a checkpoint, as tn_sharded_load finds it, and checks its headers: their
 * hashes, and that the pieces of each tensor make it up without gap or overlap.
 * The open scope owns the result. NULL with TN_ERR_IO or TN_ERR_FORMAT. */
TN_API tn_sharded *tn_sharded_open(const char *path);
/* Returns the path of the checkpoint. Lent. NULL for NULL. */
TN_API const char *tn_sharded_path(const tn_sharded *saved);
/* Return the number of tensors, and the name of tensor i in alphabetical order,
 * or NULL if i is out of range. Lent. */
TN_API int tn_sharded_count(const tn_sharded *saved);
TN_API const char *tn_sharded_name(const tn_sharded *saved, int i);
/* Return whether there is a tensor of that name, its dtype, its number of
 * dimensions and its shape: TN_DTYPE_NONE, 0 and NULL if there is none. The
 * shape is lent. Cannot fail. */
TN_API bool tn_sharded_has(const tn_sharded *saved, const char *name);
TN_API tn_dtype tn_sharded_dtype(const tn_sharded *saved, const char *name);
TN_API int tn_sharded_ndim(const tn_sharded *saved, const char *name);
TN_API const int64_t *tn_sharded_shape(const tn_sharded *saved,
                                       const char *name);
/* Returns the number of pieces of a tensor; 0 if there is none. Cannot fail. */
TN_API int tn_sharded_piece_count(const tn_sharded *saved, const char *name);
/* Writes a description of piece i to out, "rows 0 to 63 in
 * rank-00000-of-00004.safetensors", cut off after room - 1 bytes. Returns its
 * length, or -1 if there is no such piece. */
TN_API int tn_sharded_piece_text(const tn_sharded *saved, const char *name,
                                 int i, char *out, size_t room);
/* Return the number of files, and the name of file i in the folder. Lent. */
TN_API int tn_sharded_file_count(const tn_sharded *saved);
TN_API const char *tn_sharded_file_name(const tn_sharded *saved, int i);
/* Returns the text that key has, such as "step" or "optim.optimizer", or NULL.
 * Lent. */
TN_API const char *tn_sharded_text(const tn_sharded *saved, const char *key);
/* Fills piece->tensor, on any device, with the elements of the saved tensor that
 * the piece describes. Fails with TN_ERR_ARGUMENT if there is no such tensor,
 * with TN_ERR_SHAPE or TN_ERR_DTYPE if it differs from the piece, or with
 * TN_ERR_IO or TN_ERR_FORMAT if the files are damaged. */
TN_API tn_status tn_sharded_read(tn_sharded *saved, const tn_piece *piece);
/* Reads all files and compares all hashes. Fails with TN_ERR_FORMAT at the first
 * that differs; the message names file and tensor. */
TN_API tn_status tn_sharded_verify(tn_sharded *saved);
/* Writes all tensors and texts into one safetensors file, atomically, as
 * tn_checkpoint_save of one process would have: tn_checkpoint_load loads it. */
TN_API tn_status tn_sharded_merge(tn_sharded *saved, const char *path);

#ifndef __cplusplus
#define tn_sharded_save(...) TN_CALL_3(tn_sharded_save, __VA_ARGS__, )
#define tn_sharded_load(...) TN_CALL_3(tn_sharded_load, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_3(tn_status, tn_sharded_save, const char *, const tn_checkpoint *,
              tn_group *)
TN_OVERLOAD_3(tn_status, tn_sharded_load, const char *, tn_checkpoint *,
              tn_group *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
