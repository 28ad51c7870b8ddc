/* <tenon/dist.h>: many processes that compute together.
 *
 * The processes of a job are started by `tenon run -n 4 PROGRAM`, mpirun, srun
 * or torchrun. Each has a rank. They exchange tensors by collectives, which all
 * ranks of a group call in the same order:
 *
 *     tn_dist_init();                                // alone: one rank
 *     tn_group *world = tn_dist_world();
 *     tn_tensor *x = tn_full(tn_dims(3), tn_dist_rank());
 *     tn_dist_all_reduce(x, world);                  // the sum of all ranks'
 *     if (tn_error())
 *         fprintf(stderr, "%s\n", tn_error());
 *     tn_dist_close();
 *
 * A program that is started alone is a job of one rank: it opens nothing, and
 * its collectives return at once. docs/distributed.md leads from there to many
 * processes.
 *
 * Engines move the data: plugins like the devices (<tenon/comm_plugin.h>).
 * "local" joins the processes of one machine by shared memory.
 *
 * Mistakes. Before data moves, the ranks compare what they call: group, number
 * of the call, kind, dtype, count, reduction, root, module path and label. If
 * ranks differ, if a process ends, or if a call takes longer than the timeout
 * of tn_dist_init, the job is over: the call, and every later one, fails on all
 * ranks with one message that says which rank is where:
 *
 *     dist_all_reduce: rank 0 of world is in all_reduce 5 of float32[12], sum;
 *     ranks 1, 2 are in all_gather 5 of float32[12], in h.3.attn
 *
 * While an error is pending, a collective is refused (TN_ERR_STATE), because its
 * tensors may be wrong, and the other ranks get that error's text.
 *
 * Sums have a fixed order: neighbouring ranks first, then pairs of pairs, in
 * float32 for float16 and bfloat16. The bits depend on the number of ranks, but
 * not on the size of a tensor or the time at which ranks arrive.
 *
 * Tensors are contiguous, with the same number of elements and the same dtype
 * on all ranks, in memory that the engine can use. For local that is memory
 * that the CPU can use. Another tensor is an error (TN_ERR_DEVICE), unless
 * .staging = true allows a copy to the host and back, which tn_dist_staged
 * counts. The collectives are not recorded by autograd: a tensor that requires
 * a gradient is an error while gradients are recorded. Those named tn_dist_nn_
 * are.
 *
 * Options of the collectives:
 *   reduce    "sum", "mean", "product", "min" or "max". "mean" divides the sum
 *             by the number of ranks; it requires a floating-point dtype
 *   staging   allows a copy through host memory
 *   label     a text for messages, such as "bucket 5"; part of the comparison
 *   work      address of a variable that is set to a handle. The call then only
 *             begins the collective. Its tensors must not be used until
 *             tn_work_wait. Without it the call waits
 *
 * Link with `pkg-config --libs tenon-parallel`.
 *
 * Threads: Any thread may call these functions; one call at a time runs. The
 * ranks must agree on the order of the collectives of a group, so a group is
 * used by one thread, or by several in a fixed order. After fork() the child
 * must not use them.
 */
#ifndef TENON_DIST_H
#define TENON_DIST_H

#include <tenon/options.h>
#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_group tn_group;
typedef struct tn_work tn_work;

/* ---- the job ------------------------------------------------------------- */

/* Options of tn_dist_init. What is left out comes from the environment, from
 * the first of these that is set: TENON_RANK, TENON_SIZE (`tenon run`); those
 * of Open MPI or PMIx (mpirun); of PMI (MPICH's mpirun); of SLURM (srun);
 * RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (torchrun).
 *   rank      this process, 0 <= rank < count
 *   count     number of processes of the job
 *   job       name of the job, the same in its processes: letters, digits, '-'
 *             and '_'. TENON_JOB
 *   engine    "local", or the path of a plugin. TENON_ENGINE
 *   timeout   seconds that a collective may take before the job is given up.
 *             TENON_TIMEOUT */
#define TN_DIST_INIT_OPTIONS_LIST(X)                                          \
    X(int64_t, rank, TN_NONE_INT)                                             \
    X(int64_t, count, TN_NONE_INT)                                             \
    X(const char *, job, NULL)                                                \
    X(const char *, engine, NULL)                                             \
    X(double, timeout, TN_NONE_FLOAT)
TN_OPTIONS_STRUCT(tn_dist_init, TN_DIST_INIT_OPTIONS_LIST);
#define TN_DIST_INIT_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_dist_init, TN_DIST_INIT_OPTIONS_LIST)

/* Joins the job, and waits until all its processes have. Fails with
 * TN_ERR_STATE if it is called twice or ranks do not appear, TN_ERR_ARGUMENT
 * for values that are malformed or contradict each other (TENON_RANK 1 and
 * RANK 2), and TN_ERR_PLUGIN or TN_ERR_UNSUPPORTED if no engine can serve the
 * job. The message names what was found where. */
TN_API tn_status tn_dist_init_with(const tn_dist_init_options *options);

/* Leaves the job. Groups that still exist cannot be used any more. A process
 * that ends without it, while others wait for it, ends their call with an
 * error. Does nothing before tn_dist_init. Cannot fail. */
TN_API void tn_dist_close(void);

/* Return the rank of this process and the number of processes: 0 and 1 before
 * tn_dist_init. Cannot fail. */
TN_API int tn_dist_rank(void);
TN_API int tn_dist_size(void);
/* Returns the name of the engine, or "" for a job of one rank. Lent. Cannot
 * fail. */
TN_API const char *tn_dist_engine(void);
/* Returns how many tensors were copied through host memory (.staging = true)
 * since tn_dist_init. Cannot fail. */
TN_API int64_t tn_dist_staged(void);

/* Says what this process does outside of collectives: "loader", "evaluation".
 * Messages about a job that has failed then have "last in loader" for it. At most
 * 23 bytes are shown; NULL or "" ends it. Costs less than a microsecond; does
 * nothing before tn_dist_init. Cannot fail.
 *
 *     tn_dist_set_phase("loader");
 *     batch = tn_loader_next(loader);
 *     tn_dist_set_phase(NULL);
 */
TN_API void tn_dist_set_phase(const char *phase);

/* ---- groups -------------------------------------------------------------- */

/* Returns the group of all processes. Lent: valid until tn_dist_close. NULL
 * with TN_ERR_STATE before tn_dist_init. */
TN_API tn_group *tn_dist_world(void);

/* Makes a group of the ranks that give the same color, 0 or more, ordered by
 * key, then by rank. All ranks of `group` call it; a rank with a negative color
 * gets NULL, which is no error. name is used in messages ("dp"). The open scope
 * owns the group. A grid of 2 x 4 ranks has the groups
 *
 *     tn_group_split(world, rank / 4, .name = "tp")
 *     tn_group_split(world, rank % 4, .name = "dp")
 *
 * Fails as a collective does. */
#define TN_GROUP_SPLIT_OPTIONS_LIST(X)                                        \
    X(int, key, 0)                                                            \
    X(const char *, name, NULL)
TN_OPTIONS_STRUCT(tn_group_split, TN_GROUP_SPLIT_OPTIONS_LIST);
#define TN_GROUP_SPLIT_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_group_split, TN_GROUP_SPLIT_OPTIONS_LIST)
TN_API tn_group *tn_group_split_with(tn_group *group, int color,
                                     const tn_group_split_options *options);

/* Return this process's rank in the group, and the number of its ranks; -1 and
 * 0 if group is NULL. Cannot fail. */
TN_API int tn_group_rank(const tn_group *group);
TN_API int tn_group_size(const tn_group *group);
/* Returns the rank in the job of a rank of the group, or -1 if there is none.
 * Cannot fail. */
TN_API int tn_group_world_rank(const tn_group *group, int rank);

/* ---- meshes -------------------------------------------------------------- */

/* The ranks of a group as a grid with named axes. */
typedef struct tn_mesh tn_mesh;

/* Makes a mesh, and a group for each axis: the ranks that differ along this axis
 * alone. The last axis varies fastest. For 2 x 4 ranks:
 *
 *     tn_mesh *mesh = tn_mesh_new(tn_dims(2, 4), "dp, tp");
 *     tn_ddp *ddp = tn_ddp_new(net, tn_mesh_group(mesh, "dp"));
 *     int column = tn_mesh_coordinate(mesh, "tp");
 *
 *   sizes   sizes of the axes; one may be -1, which is computed
 *   names   their names, in the same order: letters, digits and '_'
 *   group   the ranks to arrange; NULL: tn_dist_world()
 *
 * All ranks of the group call it. The open scope owns the mesh, which owns its
 * groups. NULL with TN_ERR_ARGUMENT if the product of the sizes is not the number
 * of ranks, or a name is missing or occurs twice; otherwise as tn_group_split.
 * Source: torch.distributed.device_mesh.init_device_mesh. */
#define TN_MESH_NEW_OPTIONS_LIST(X) X(tn_group *, group, NULL)
TN_OPTIONS_STRUCT(tn_mesh_new, TN_MESH_NEW_OPTIONS_LIST);
#define TN_MESH_NEW_OPTIONS                                                   \
    TN_OPTIONS_DEFAULTS(tn_mesh_new, TN_MESH_NEW_OPTIONS_LIST)
TN_API tn_mesh *tn_mesh_new_with(tn_dims_list sizes, const char *names,
                                 const tn_mesh_new_options *options);
/* Return the group of an axis (lent: valid while mesh lives), the position of
 * this process along it, and its size. NULL, -1 and 0 with TN_ERR_ARGUMENT if
 * there is no such axis. */
TN_API tn_group *tn_mesh_group(const tn_mesh *mesh, const char *axis);
TN_API int tn_mesh_coordinate(const tn_mesh *mesh, const char *axis);
TN_API int tn_mesh_size(const tn_mesh *mesh, const char *axis);

/* ---- collectives --------------------------------------------------------- */

#define TN__DIST_MOVE_LIST(X)                                                 \
    X(bool, staging, false)                                                   \
    X(const char *, label, NULL)                                              \
    X(tn_work **, work, NULL)
#define TN__DIST_REDUCE_LIST(X)                                               \
    X(const char *, reduce, "sum")                                            \
    TN__DIST_MOVE_LIST(X)
TN_OPTIONS_STRUCT(tn_dist_all_reduce, TN__DIST_REDUCE_LIST);
TN_OPTIONS_STRUCT(tn_dist_reduce_scatter, TN__DIST_REDUCE_LIST);
TN_OPTIONS_STRUCT(tn_dist_all_gather, TN__DIST_MOVE_LIST);
TN_OPTIONS_STRUCT(tn_dist_broadcast, TN__DIST_MOVE_LIST);
TN_OPTIONS_STRUCT(tn_dist_all_to_all, TN__DIST_MOVE_LIST);
TN_OPTIONS_STRUCT(tn_dist_send, TN__DIST_MOVE_LIST);
TN_OPTIONS_STRUCT(tn_dist_recv, TN__DIST_MOVE_LIST);
TN_OPTIONS_STRUCT(tn_dist_barrier, TN__DIST_MOVE_LIST);

/* Replaces x by the reduction of all ranks' x, in place. float8 dtypes are not
 * reduced (TN_ERR_DTYPE). Source: torch.distributed.all_reduce. */
TN_API tn_status
tn_dist_all_reduce_with(tn_tensor *x, tn_group *group,
                        const tn_dist_all_reduce_options *options);

/* Reduces, and gives each rank one slice.
 *   input    (size * n, ...)
 *   returns  (n, ...): slice `rank` of the reduction
 * The open scope owns the result. With .work it has its values after
 * tn_work_wait. TN_ERR_SHAPE if dimension 0 is not a multiple of the group's
 * size. Source: torch.distributed.reduce_scatter_tensor. */
TN_API tn_tensor *
tn_dist_reduce_scatter_with(tn_tensor *input, tn_group *group,
                            const tn_dist_reduce_scatter_options *options);

/* Concatenates all ranks' inputs along dimension 0, in order of rank.
 *   input    (n, ...)
 *   returns  (size * n, ...)
 * Ownership as above. Source: torch.distributed.all_gather_into_tensor. */
TN_API tn_tensor *
tn_dist_all_gather_with(tn_tensor *input, tn_group *group,
                        const tn_dist_all_gather_options *options);

/* Replaces x by the x of rank root of the group.
 * Source: torch.distributed.broadcast. */
TN_API tn_status
tn_dist_broadcast_with(tn_tensor *x, int root, tn_group *group,
                       const tn_dist_broadcast_options *options);

/* Gives slice r of dimension 0 to rank r, for each r.
 *   input    (size * n, ...)
 *   returns  (size * n, ...): slice r is slice `rank` of rank r's input
 * Ownership and errors as tn_dist_reduce_scatter.
 * Source: torch.distributed.all_to_all_single. */
TN_API tn_tensor *
tn_dist_all_to_all_with(tn_tensor *input, tn_group *group,
                        const tn_dist_all_to_all_options *options);

/* Send x to rank `to`, which receives it by tn_dist_recv from this rank, in the
 * order of the sends. A send may return before x is received. recv replaces x.
 * Messages of several pairs in both directions: begin all with .work, then wait.
 * Source: torch.distributed.send, recv. */
TN_API tn_status tn_dist_send_with(tn_tensor *x, int to, tn_group *group,
                                   const tn_dist_send_options *options);
TN_API tn_status tn_dist_recv_with(tn_tensor *x, int from, tn_group *group,
                                   const tn_dist_recv_options *options);

/* Waits until all ranks of the group have called it. */
TN_API tn_status tn_dist_barrier_with(tn_group *group,
                                      const tn_dist_barrier_options *options);

/* Makes a tensor in memory that the engine moves without copies. With "local" it
 * is memory that the ranks share: an all_reduce of it adds each rank's values
 * where they are, about three times as fast as one of other memory, which passes
 * through the engine's. Results are the same.
 *
 *   shape    the same on all ranks of the group
 *   dtype    by default TN_F32
 *   returns  a tensor on the CPU, whose elements are not set
 *
 * A collective. A call has the advantage if the tensor, or a contiguous part of
 * it, is what all its ranks pass, in place where it is a reduction. If the engine
 * has no such memory, or none is left, it is an ordinary tensor on all ranks.
 * The open scope owns the result, which stays valid after tn_dist_close. Fails as
 * a collective does, or with TN_ERR_SHAPE, TN_ERR_DTYPE or TN_ERR_MEMORY as
 * tn_empty. */
#define TN_DIST_EMPTY_OPTIONS_LIST(X) X(tn_dtype, dtype, TN_F32)
TN_OPTIONS_STRUCT(tn_dist_empty, TN_DIST_EMPTY_OPTIONS_LIST);
#define TN_DIST_EMPTY_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_dist_empty, TN_DIST_EMPTY_OPTIONS_LIST)
TN_API tn_tensor *tn_dist_empty_with(tn_dims_list shape, tn_group *group,
                                     const tn_dist_empty_options *options);

/* Waits until the collective is done, and returns its status. A second call
 * returns the same. A handle that is freed before waits first. */
TN_API tn_status tn_work_wait(tn_work *work);
/* Returns whether the collective is done or has failed. Never waits, and makes
 * progress for all collectives of its group, so a long computation may call it
 * now and then. True for NULL. Cannot fail. */
TN_API bool tn_work_is_done(tn_work *work);

/* ---- collectives that differentiate --------------------------------------
 * Like those above, but recorded by autograd, as operators whose result is new.
 * What is differentiated is the sum of all ranks' losses: a rank's gradient has
 * what its input does to the losses of the others. So the backward pass consists
 * of collectives, too, and all ranks run it: with the same calls, and a result that
 * each rank's loss depends on. The gradients can be differentiated again.
 * Inputs need not be contiguous; results are. Calls are not recorded in graphs
 * (tn_graph_record, tn_compile), which fail.
 * Source: torch.distributed.nn.functional. */

#define TN__DIST_NN_LIST(X)                                                   \
    X(bool, staging, false)                                                   \
    X(const char *, label, NULL)
#define TN__DIST_NN_REDUCE_LIST(X)                                            \
    X(const char *, reduce, "sum")                                            \
    TN__DIST_NN_LIST(X)
TN_OPTIONS_STRUCT(tn_dist_nn_all_reduce, TN__DIST_NN_REDUCE_LIST);
TN_OPTIONS_STRUCT(tn_dist_nn_reduce_scatter, TN__DIST_NN_REDUCE_LIST);
TN_OPTIONS_STRUCT(tn_dist_nn_all_gather, TN__DIST_NN_LIST);
TN_OPTIONS_STRUCT(tn_dist_nn_broadcast, TN__DIST_NN_LIST);
TN_OPTIONS_STRUCT(tn_dist_nn_all_to_all, TN__DIST_NN_LIST);

/* Returns the reduction of all ranks' inputs. Gradient: the same reduction of the
 * ranks' gradients. "product", "min" and "max" have none: they fail with
 * TN_ERR_UNSUPPORTED if input requires one. */
TN_API tn_tensor *
tn_dist_nn_all_reduce_with(tn_tensor *input, tn_group *group,
                           const tn_dist_nn_all_reduce_options *options);
/* As tn_dist_reduce_scatter. Gradient: the gathered gradients of all ranks, for
 * "mean" divided by their number; of "product", "min", "max" as above. */
TN_API tn_tensor *
tn_dist_nn_reduce_scatter_with(tn_tensor *input, tn_group *group,
                               const tn_dist_nn_reduce_scatter_options *options);
/* As tn_dist_all_gather. Gradient: slice `rank` of the sum of the gradients. */
TN_API tn_tensor *
tn_dist_nn_all_gather_with(tn_tensor *input, tn_group *group,
                           const tn_dist_nn_all_gather_options *options);
/* Returns the input of rank root. Gradient: the sum of all ranks' gradients on
 * root, zeros on the others. */
TN_API tn_tensor *
tn_dist_nn_broadcast_with(tn_tensor *input, int root, tn_group *group,
                          const tn_dist_nn_broadcast_options *options);
/* As tn_dist_all_to_all. Gradient: the same exchange of the gradients. */
TN_API tn_tensor *
tn_dist_nn_all_to_all_with(tn_tensor *input, tn_group *group,
                           const tn_dist_nn_all_to_all_options *options);

#ifndef __cplusplus
#define tn_mesh_new(...) TN_CALL_2(tn_mesh_new, __VA_ARGS__, )
#define tn_dist_nn_all_reduce(...)                                            \
    TN_CALL_2(tn_dist_nn_all_reduce, __VA_ARGS__, )
#define tn_dist_nn_reduce_scatter(...)                                        \
    TN_CALL_2(tn_dist_nn_reduce_scatter, __VA_ARGS__, )
#define tn_dist_nn_all_gather(...)                                            \
    TN_CALL_2(tn_dist_nn_all_gather, __VA_ARGS__, )
#define tn_dist_nn_broadcast(...)                                             \
    TN_CALL_3(tn_dist_nn_broadcast, __VA_ARGS__, )
#define tn_dist_nn_all_to_all(...)                                            \
    TN_CALL_2(tn_dist_nn_all_to_all, __VA_ARGS__, )
#define tn_dist_init(...) TN_CALL_0(tn_dist_init, __VA_ARGS__)
#define tn_group_split(...) TN_CALL_2(tn_group_split, __VA_ARGS__, )
#define tn_dist_all_reduce(...) TN_CALL_2(tn_dist_all_reduce, __VA_ARGS__, )
#define tn_dist_reduce_scatter(...)                                           \
    TN_CALL_2(tn_dist_reduce_scatter, __VA_ARGS__, )
#define tn_dist_all_gather(...) TN_CALL_2(tn_dist_all_gather, __VA_ARGS__, )
#define tn_dist_broadcast(...) TN_CALL_3(tn_dist_broadcast, __VA_ARGS__, )
#define tn_dist_all_to_all(...) TN_CALL_2(tn_dist_all_to_all, __VA_ARGS__, )
#define tn_dist_send(...) TN_CALL_3(tn_dist_send, __VA_ARGS__, )
#define tn_dist_recv(...) TN_CALL_3(tn_dist_recv, __VA_ARGS__, )
#define tn_dist_barrier(...) TN_CALL_1(tn_dist_barrier, __VA_ARGS__, )
#define tn_dist_empty(...) TN_CALL_2(tn_dist_empty, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_2(tn_mesh *, tn_mesh_new, tn_dims_list, const char *)
TN_OVERLOAD_2(tn_tensor *, tn_dist_nn_all_reduce, tn_tensor *, tn_group *)
TN_OVERLOAD_2(tn_tensor *, tn_dist_nn_reduce_scatter, tn_tensor *, tn_group *)
TN_OVERLOAD_2(tn_tensor *, tn_dist_nn_all_gather, tn_tensor *, tn_group *)
TN_OVERLOAD_3(tn_tensor *, tn_dist_nn_broadcast, tn_tensor *, int, tn_group *)
TN_OVERLOAD_2(tn_tensor *, tn_dist_nn_all_to_all, tn_tensor *, tn_group *)
TN_OVERLOAD_0(tn_status, tn_dist_init)
TN_OVERLOAD_2(tn_group *, tn_group_split, tn_group *, int)
TN_OVERLOAD_2(tn_status, tn_dist_all_reduce, tn_tensor *, tn_group *)
TN_OVERLOAD_2(tn_tensor *, tn_dist_reduce_scatter, tn_tensor *, tn_group *)
TN_OVERLOAD_2(tn_tensor *, tn_dist_all_gather, tn_tensor *, tn_group *)
TN_OVERLOAD_3(tn_status, tn_dist_broadcast, tn_tensor *, int, tn_group *)
TN_OVERLOAD_2(tn_tensor *, tn_dist_all_to_all, tn_tensor *, tn_group *)
TN_OVERLOAD_3(tn_status, tn_dist_send, tn_tensor *, int, tn_group *)
TN_OVERLOAD_3(tn_status, tn_dist_recv, tn_tensor *, int, tn_group *)
TN_OVERLOAD_1(tn_status, tn_dist_barrier, tn_group *)
TN_OVERLOAD_2(tn_tensor *, tn_dist_empty, tn_dims_list, tn_group *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
