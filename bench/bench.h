/* bench.h: what a workload is, and what runs it.
 *
 * A group is a file of this folder with a table of workloads; compare.c walks
 * the tables, scaling.c takes some of them. compare_*.py know the same workloads under the same names, with
 * the sizes told to them. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <tenon/tenon.h>

/* What a workload works on; of the scope that compare.c opens around it. */
typedef struct bench_state {
    const int64_t *size;
    tn_tensor *a, *b, *c;
    tn_module *net;
    tn_module *part[2]; /* of net, where forward is written out */
    tn_optim *optim;
    tn_tensor *loss; /* of a training step, in whose scope it lies */
    tn_loader *loader;
} bench_state;

/* What the machine must do at the least, which limit.c does as fast as it can:
 * floats that are read, and written, each once; or so many operations of
 * multiply-adds, or instructions of any kind on floats, where they take longer. Of
 * a workload flops are those of products, convolutions and attention; what its
 * programs have is added (count.c). Nothing: nobody says. */
typedef struct bench_least {
    double reads, writes, flops, instructions;
    bool in_place; /* what is written was read */
} bench_least;
/* Of the multiply-adds of a direct sum over windows of 3 x 3, or 1 x 3, a stride
 * of one, so many are needed: F(2 x 2, 3 x 3) and F(2, 3) of arXiv:1509.09308. */
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
    int64_t size[3]; /* 0 where there are fewer */
    void (*open)(bench_state *state);
    /* One call. Its tensors belong to a scope of its own. */
    void (*call)(bench_state *state);
    bench_least least;
    int scope_calls; /* calls that share a scope; 0 means 1 */
} bench_work;

/* The calls of a workload `name`: an expression of s without gradients, and
 * its result with the gradients of its sum. */
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

/* The gradients of out's sum, in those of a, b and c that require one. */
void bench_gradients(bench_state *s, tn_tensor *out);

typedef struct bench_group {
    const char *name;
    const bench_work *work; /* ends with a NULL name */
} bench_group;

extern const bench_group bench_dispatch, bench_bandwidth, bench_rows,
    bench_indexing, bench_order, bench_special, bench_matmul, bench_linalg,
    bench_vision, bench_window, bench_norm, bench_loss, bench_sequence,
    bench_training, bench_large, bench_inference, bench_optim, bench_data;

/* The path this program was called by: dispatch.c starts it again. */
extern const char *bench_program;
/* What that start does: the exit status. */
int bench_first_result(void);

/* ---- bench.c: running a workload ------------------------------------------- */

double bench_now_ns(void);
/* Nanoseconds a call of ours. */
double bench_sample(const bench_work *work, bench_state *state, int64_t calls);
/* A call that needs no other before it to be timed as one of many. */
#define BENCH_LONG_NS 5e7
/* So many calls as fill so many nanoseconds, after two that nobody counts. */
int64_t bench_calls(const bench_work *work, bench_state *state,
                    double round_ns);
/* Threads that have just worked look for more for some milliseconds, ours and
 * OpenMP's alike: they would take the cores from who is measured next. Waiting
 * keeps this core awake. */
void bench_rest(void);

/* ---- count.c: instructions ------------------------------------------------ */

/* Adds what the programs of a call have to least, as a trace of it tells; nothing
 * if none can be had. */
void bench_count(const bench_work *work, bench_state *state,
                 bench_least *least);

/* ---- limit.c: the machine's limit ---------------------------------------- */

typedef struct bench_limit bench_limit;

/* Memory and threads for that; NULL without memory, or for nothing. */
bench_limit *bench_limit_open(const bench_least *least, int threads);
/* Nanoseconds for what it reads and writes, for its multiply-adds, and for its
 * instructions of any kind, these included. */
typedef struct bench_bound {
    double memory_ns, multiply_ns, any_ns;
} bench_bound;
/* By the fastest kernels, over `calls` passes after a few. */
bench_bound bench_limit_sample(bench_limit *limit, int64_t calls);
/* The longest one, and what it is: "memory", "fma" or "any". */
double bench_bound_ns(bench_bound bound);
const char *bench_bound_name(bench_bound bound);
void bench_limit_close(bench_limit *limit);

/* ---- losses.c: do both do the same? ---------------------------------------- */

typedef struct bench_peer bench_peer;

/* Prints the losses of a training workload's first steps, ours and the peers',
 * from the same weights and batch. false if a peer's are others, or none. */
bool bench_losses(const char *group, const bench_work *work,
                  bench_peer *const *peer, const char *const *name, int count);

/* ---- peer.c: PyTorch in a process of its own ------------------------------- */

/* Starts `python script way threads device`, with malloc told to keep its
 * blocks where tuned. NULL if there is no such Python, or it has no torch, or
 * not that way to run it. */
bench_peer *bench_peer_start(const char *python, const char *script,
                             const char *way, int threads, const char *device,
                             bool tuned);
/* "2.5.1". Lent. */
const char *bench_peer_version(const bench_peer *peer);
/* The variables that tuned means, as they would be typed. */
extern const char bench_peer_tuning[];
/* Makes the workload ready and calls it once; false if it has none such. */
bool bench_peer_open(bench_peer *peer, const char *group,
                     const bench_work *work);
/* Nanoseconds a call; negative if the process is gone. */
double bench_peer_sample(bench_peer *peer, int64_t calls);
/* The losses of its first steps, which begin at the values in a file; false if
 * it has none such. */
bool bench_peer_losses(bench_peer *peer, const char *group,
                       const bench_work *work, const char *file, int count,
                       double *out_losses);
void bench_peer_stop(bench_peer *peer);

#endif
