/* bench.h: the definition of a workload, and the functions that run one.
 *
 * A workload is one operation to measure, such as a matrix product of a given
 * size. A group is a table of workloads; most groups are in a C file of this
 * folder. compare.c runs all groups, scaling.c some workloads. compare_*.py
 * define the same workloads under the same names for PyTorch, and compare.c
 * passes them the sizes. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <tenon/tenon.h>

/* The objects of a workload. They belong to the scope that compare.c opens for
 * the workload. */
typedef struct bench_state {
    const char *name; /* name of the workload */
    const int64_t *size;
    tn_tensor *a, *b, *c;
    tn_module *net;
    tn_module *part[2]; /* two parts of net, for a forward pass written in C */
    tn_optim *optim;
    tn_tensor *loss; /* the loss of a training step; valid within the scope of
                      * the step */
    tn_loader *loader;
} bench_state;

/* The minimum work of a call: the floats that it must read and write, each
 * counted once, its multiply-adds, and its instructions of any kind on floats.
 * limit.c measures how fast the machine can do each of the three; the slowest
 * is the machine's limit for the workload. A table of workloads states the
 * multiply-adds of matrix products, convolutions and attention, and count.c
 * adds those of kernel programs. If all fields are 0, the limit is not
 * known. */
typedef struct bench_least {
    double reads, writes, flops, instructions;
    bool in_place; /* the output is written over the input */
} bench_least;
/* The fraction of a direct convolution's multiply-adds that Winograd's
 * algorithm needs: for windows of 3 x 3 by F(2 x 2, 3 x 3), for windows of 1 x
 * 3 by F(2, 3) (arXiv:1509.09308), both with stride 1. */
#define BENCH_3X3 (4. / 9)
#define BENCH_1X3 (2. / 3)
#define BENCH_UNKNOWN {0, 0, 0, 0, false}
#define BENCH_READ(n) {1. * (n), 0, 0, 0, false}
#define BENCH_COPY(n) {1. * (n), 1. * (n), 0, 0, false}
#define BENCH_TRIAD(n) {2. * (n), 1. * (n), 0, 0, false}
#define BENCH_MOVE(reads, writes) {1. * (reads), 1. * (writes), 0, 0, false}
#define BENCH_UPDATE(reads, writes) {1. * (reads), 1. * (writes), 0, 0, true}
#define BENCH_FLOPS(n) {0, 0, 1. * (n), 0, false}

typedef struct bench_work {
    const char *name;
    int64_t size[3]; /* unused sizes are 0 */
    void (*open)(bench_state *state);
    /* Runs the workload once. Each call has a scope of its own, unless
     * scope_calls is set. */
    void (*call)(bench_state *state);
    bench_least least;
    int scope_calls; /* number of calls that share a scope; 0 means 1 */
} bench_work;

/* Defines `name`, a call that computes an expression of s without recording
 * gradients. BENCH_BOTH also defines name_back, which in addition computes the
 * gradients of the result's sum. */
#define BENCH_CALL(name, ...)                                                 \
    static void name(bench_state *s)                                          \
    {                                                                         \
        TN_NO_GRAD { __VA_ARGS__; }                                           \
    }
#define BENCH_BOTH(name, ...)                                                 \
    BENCH_CALL(name, __VA_ARGS__)                                             \
    static void name##_back(bench_state *s)                                   \
    {                                                                         \
        bench_gradients(s, __VA_ARGS__);                                      \
    }

/* Computes the gradients of the sum of `out` with respect to those of a, b and
 * c that require one. */
void bench_gradients(bench_state *s, tn_tensor *out);

typedef struct bench_group {
    const char *name;
    const bench_work *work; /* ends with an entry whose name is NULL */
} bench_group;

extern const bench_group bench_dispatch, bench_bandwidth, bench_rows,
    bench_indexing, bench_order, bench_special, bench_matmul, bench_linalg,
    bench_vision, bench_window, bench_norm, bench_loss, bench_sequence,
    bench_training, bench_large, bench_inference, bench_optim, bench_data;

/* Two groups whose workloads are read from the files layers.tsv and
 * optimizers.tsv in `folder`. The groups are empty before. The functions return
 * false, after a message on stderr, if the file cannot be read. */
extern const bench_group bench_layer, bench_optimizer;
bool bench_layers_read(const char *folder);
bool bench_optimizers_read(const char *folder);

/* The path of this program. The workload dispatch.start runs the program again
 * as a new process, which calls bench_first_result(). */
extern const char *bench_program;
/* Computes one result and returns the exit status of the process. */
int bench_first_result(void);

/* ---- bench.c: running a workload ----------------------------------------- */

double bench_now_ns(void);
/* Runs `calls` calls. Returns nanoseconds per call. */
double bench_sample(const bench_work *work, bench_state *state, int64_t calls);
/* A call that takes at least this long needs no warm-up. */
#define BENCH_LONG_NS 5e7
/* Returns the number of calls that take about round_ns nanoseconds, estimated
 * after two warm-up calls. */
int64_t bench_calls(const bench_work *work, bench_state *state,
                    double round_ns);
/* Waits some milliseconds, until worker threads of Tenon and of OpenMP go to
 * sleep. They spin for some time after their last work, and would take
 * processor time from the next measurement. The wait is a busy loop, so that
 * this core keeps its clock frequency. */
void bench_rest(void);

/* ---- count.c: instructions ----------------------------------------------- */

/* Traces one call and adds the instructions of its kernel programs to *least.
 * Changes nothing if the trace fails. */
void bench_count(const bench_work *work, bench_state *state,
                 bench_least *least);

/* ---- limit.c: the machine's limit ---------------------------------------- */

typedef struct bench_limit bench_limit;

/* Allocates the memory and threads with which a limit is measured. Returns NULL
 * if memory runs out or if all fields of least are 0. */
bench_limit *bench_limit_open(const bench_least *least, int threads);
/* The machine's time in nanoseconds for the reads and writes, for the
 * multiply-adds, and for all instructions including the multiply-adds. */
typedef struct bench_bound {
    double memory_ns, multiply_ns, any_ns;
} bench_bound;
/* Measures the limit over `calls` passes after a warm-up, with the fastest
 * loops. */
bench_bound bench_limit_sample(bench_limit *limit, int64_t calls);
/* bench_bound_ns() returns the longest of the three times, bench_bound_name()
 * its name: "memory", "fma" or "any". */
double bench_bound_ns(bench_bound bound);
const char *bench_bound_name(bench_bound bound);
void bench_limit_close(bench_limit *limit);

/* ---- losses.c: do both train the same network?
 * -------------------------------------- */

typedef struct bench_peer bench_peer;

/* Prints the losses of the first steps of a training workload in Tenon and in
 * each peer, from the same weights and batch. A peer is a process that runs
 * PyTorch. Returns false if a peer's losses differ or are missing. */
bool bench_losses(const char *group, const bench_work *work,
                  bench_peer *const *peer, const char *const *name, int count);

/* ---- peer.c: PyTorch in a process of its own ----------------------------- */

/* Runs `python script way threads device`. With `tuned`, the process gets
 * environment variables that make malloc keep freed blocks. Returns NULL if the
 * Python cannot be run, has no torch, or does not support this way. */
bench_peer *bench_peer_start(const char *python, const char *script,
                             const char *way, int threads, const char *device,
                             bool tuned);
/* Returns the version of torch, such as "2.5.1". The peer owns the string. */
const char *bench_peer_version(const bench_peer *peer);
/* The environment variables that `tuned` sets, in the syntax of a shell. */
extern const char bench_peer_tuning[];
/* Prepares a workload in the peer and calls it once. Returns false if the peer
 * does not have the workload. */
bool bench_peer_open(bench_peer *peer, const char *group,
                     const bench_work *work);
/* Runs `calls` calls and returns nanoseconds per call, or a negative number if
 * the process has ended. */
double bench_peer_sample(bench_peer *peer, int64_t calls);
/* Stores in out_losses the losses of the workload's first `count` steps, which
 * start from the weights and batch in the file. Returns false if the peer does
 * not have the workload. */
bool bench_peer_losses(bench_peer *peer, const char *group,
                       const bench_work *work, const char *file, int count,
                       double *out_losses);
void bench_peer_stop(bench_peer *peer);

#endif
