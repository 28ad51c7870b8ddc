/* bench.h: the definition of a workload, and the functions that run one.
 *
 * A group is a file of this folder with a table of workloads. compare.c runs
 * all of them, scaling.c some. compare_*.py define the same workloads under the
 * same names; compare.c passes them the sizes. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <tenon/tenon.h>

/* The tensors of a workload. They belong to the scope that compare.c opens
 * around it. */
typedef struct bench_state {
    const char *name; /* of the workload */
    const int64_t *size;
    tn_tensor *a, *b, *c;
    tn_module *net;
    tn_module *part[2]; /* of net, if forward is written by hand */
    tn_optim *optim;
    tn_tensor *loss; /* of a training step, in whose scope it is */
    tn_loader *loader;
} bench_state;

/* The minimum work of a call, which limit.c does as fast as the machine can:
 * floats that are read and written, each once; multiply-adds; and instructions
 * of any kind on floats. The slowest of them is the limit. A workload's flops
 * are those of products, convolutions and attention; count.c adds those of its
 * kernel programs. All zero: the limit is not known. */
typedef struct bench_least {
    double reads, writes, flops, instructions;
    bool in_place; /* the output is written over the input */
} bench_least;
/* The share of a direct convolution's multiply-adds that Winograd's algorithm
 * needs, for windows of 3 x 3 or 1 x 3 with a stride of one: F(2 x 2, 3 x 3)
 * and F(2, 3) of arXiv:1509.09308. */
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
    /* One call. It runs in a scope of its own. */
    void (*call)(bench_state *state);
    bench_least least;
    int scope_calls; /* calls that share a scope; 0 means 1 */
} bench_work;

/* Defines two calls of a workload `name`: an expression of s without gradients,
 * and the same with the gradients of its sum. */
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

/* Computes the gradients of out's sum in those of a, b and c that require one.
 */
void bench_gradients(bench_state *s, tn_tensor *out);

typedef struct bench_group {
    const char *name;
    const bench_work *work; /* ends with a NULL name */
} bench_group;

extern const bench_group bench_dispatch, bench_bandwidth, bench_rows,
    bench_indexing, bench_order, bench_special, bench_matmul, bench_linalg,
    bench_vision, bench_window, bench_norm, bench_loss, bench_sequence,
    bench_training, bench_large, bench_inference, bench_optim, bench_data;

/* Two groups whose rows are in files, layers.tsv and optimizers.tsv of that
 * folder. They are empty until a file is read. false, after a report on stderr,
 * if it cannot be. */
extern const bench_group bench_layer, bench_optimizer;
bool bench_layers_read(const char *folder);
bool bench_optimizers_read(const char *folder);

/* The path of this program; dispatch.c starts it again. */
extern const char *bench_program;
/* What the started process does. Returns the exit status. */
int bench_first_result(void);

/* ---- bench.c: running a workload ----------------------------------------- */

double bench_now_ns(void);
/* Runs `calls` calls. Returns nanoseconds per call. */
double bench_sample(const bench_work *work, bench_state *state, int64_t calls);
/* A call that takes at least this long needs no warm-up. */
#define BENCH_LONG_NS 5e7
/* How many calls take so many nanoseconds, measured after two warm-up calls. */
int64_t bench_calls(const bench_work *work, bench_state *state,
                    double round_ns);
/* Waits some milliseconds. Worker threads, ours and OpenMP's, spin that long
 * after their last work, and would take processor time from the next
 * measurement. The wait is a loop, which keeps this core at its clock. */
void bench_rest(void);

/* ---- count.c: instructions ----------------------------------------------- */

/* Adds the instructions of a call's kernel programs to least, from a trace of
 * the call; nothing if the trace fails. */
void bench_count(const bench_work *work, bench_state *state,
                 bench_least *least);

/* ---- limit.c: the machine's limit ---------------------------------------- */

typedef struct bench_limit bench_limit;

/* Allocates memory and threads to measure a limit; NULL if memory runs out or
 * least is zero. */
bench_limit *bench_limit_open(const bench_least *least, int threads);
/* Nanoseconds for the reads and writes, for the multiply-adds, and for the
 * instructions of any kind, including the multiply-adds. */
typedef struct bench_bound {
    double memory_ns, multiply_ns, any_ns;
} bench_bound;
/* Measured with the fastest kernels, over `calls` passes after warm-up. */
bench_bound bench_limit_sample(bench_limit *limit, int64_t calls);
/* The longest of the three, and its name: "memory", "fma" or "any". */
double bench_bound_ns(bench_bound bound);
const char *bench_bound_name(bench_bound bound);
void bench_limit_close(bench_limit *limit);

/* ---- losses.c: do both do the same? -------------------------------------- */

typedef struct bench_peer bench_peer;

/* Prints the losses of a training workload's first steps, ours and the peers',
 * from the same weights and batch. false if a peer's differ or are missing. */
bool bench_losses(const char *group, const bench_work *work,
                  bench_peer *const *peer, const char *const *name, int count);

/* ---- peer.c: PyTorch in a process of its own ----------------------------- */

/* Starts `python script way threads device`; tuned sets malloc to keep its
 * blocks. NULL if there is no such Python, or it has no torch, or it cannot run
 * that way. */
bench_peer *bench_peer_start(const char *python, const char *script,
                             const char *way, int threads, const char *device,
                             bool tuned);
/* The version of torch, "2.5.1". Borrowed. */
const char *bench_peer_version(const bench_peer *peer);
/* The environment variables that tuned sets, as a shell would. */
extern const char bench_peer_tuning[];
/* Prepares the workload and calls it once; false if the peer does not have it.
 */
bool bench_peer_open(bench_peer *peer, const char *group,
                     const bench_work *work);
/* Nanoseconds per call; negative if the process has ended. */
double bench_peer_sample(bench_peer *peer, int64_t calls);
/* The losses of its first steps from the values in a file; false if the peer
 * does not have the workload. */
bool bench_peer_losses(bench_peer *peer, const char *group,
                       const bench_work *work, const char *file, int count,
                       double *out_losses);
void bench_peer_stop(bench_peer *peer);

#endif
