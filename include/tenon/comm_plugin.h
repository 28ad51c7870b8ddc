/* <tenon/comm_plugin.h>: the communication plugin ABI, major version 1. A
 * communication plugin ("engine") moves data between the processes of one job:
 * shared memory, MPI, NCCL. It is a file comm_NAME.so beside the device plugins.
 * It includes no other header of Tenon than <tenon/plugin.h> and
 * <tenon/types.h>, links nothing of Tenon, and exports one symbol:
 *
 *     const tn_comm_plugin *tenon_comm_v1(const tn_comm_host *host);
 *
 * The function returns the engine's table, which is static and valid until the
 * process ends. To fail, it calls host->fail(code, "why") and returns NULL.
 * plugins/local is the smallest complete engine and is meant to be copied. The
 * caller is the library libtenon-parallel (<tenon/dist.h>), "the core" below:
 *
 *     tn_comm *comm;
 *     table->open(&place, &comm);
 *     tn_comm_args sum = {.size = sizeof sum, .kind = TN_COMM_ALL_REDUCE,
 *                         .dtype = TN_F32, .reduce = TN_COMM_SUM, .root = -1,
 *                         .count = n, .send = x, .recv = x, .scale = 1};
 *     tn_comm_request *request;
 *     uint32_t done = 0;
 *     table->start(comm, &sum, &request);
 *     while (!done && table->test(request, &done) == TN_OK)
 *         ;                                     // or something useful
 *     table->request_close(request);
 *     table->close(comm);
 *
 * Rules
 *
 * Structs
 *  - As in plugin.h: structs grow only at their end and begin with `size`. Read
 *    a field only if TN_COMM_HAS says that it is present; treat an absent slot of
 *    the table as NULL. TN_COMM_..._SIZE_1_0 is the minimum size.
 *  - Later versions add kinds, reductions and flags. An engine rejects values
 *    that its header does not have: TN_ERR_UNSUPPORTED, and nothing is sent.
 *
 * Words
 *  - A job is the set of processes that were started together. Each process has
 *    a rank, 0 <= rank < count. A comm is an ordered set of processes of the
 *    job; ranks of a comm count from 0, too. `open` makes the comm of the whole
 *    job, `split` makes smaller ones.
 *  - A collective is a call that all ranks of a comm make in the same order.
 *    Those of one comm are numbered from 0 (its sequence). send and recv are
 *    not numbered with them; they have an order for each pair of ranks.
 *
 * Behaviour
 *  - A call reports an error by its status, and its message by host->fail on
 *    the calling thread, before it returns. An engine never aborts the process,
 *    exits, prints, or changes signal handlers, environment or locale. Threads
 *    that it starts block all signals. It starts none before `open`.
 *  - probe opens nothing: no library, socket, file of the job or thread. It
 *    only answers whether this engine can serve the place.
 *  - open and split wait for other processes, at most timeout_ns of the place.
 *    No other call waits, except `wait`, which waits at most the time given.
 *  - start never waits: it stores what it cannot do yet. test never waits, and
 *    makes progress for all requests of the comm. A program that tests only its
 *    last request completes the earlier ones.
 *  - After a failure of a request (its test returned an error), the comm is
 *    broken: every later call returns the same failure. close still works.
 *
 * Ownership
 *  - What a call points to belongs to the caller, and may be overwritten when
 *    the call returns, except the memory send and recv of a request: it stays
 *    valid and is not touched by the caller until the request is done or
 *    closed after a failure.
 *  - A request is closed once, after it was done or has failed, or after abort.
 *    All requests of a comm are closed before the comm, and comms made by split
 *    before the one of the job. close does not wait for other processes.
 *
 * Order of sums
 *  - An engine with TN_COMM_CAP_FIXED_ORDER adds the ranks' values of an element
 *    in this order, whatever the count: with v[r] the value of rank r,
 *        for (d = 1; d < count; d *= 2)
 *            for (r = 0; r + d < count; r += 2 * d)
 *                v[r] = v[r] + v[r + d];
 *    in the dtype's arithmetic: float32 for float16, bfloat16 and the float8
 *    types (one rounding at the end), float64 for float64, integers modulo
 *    2^bits; bool is "or". Minimum, maximum and product use the same order.
 *    A NaN operand of minimum and maximum gives NaN. `scale` multiplies the
 *    result of a sum before that rounding.
 *
 * Threads
 *  - Calls come from any thread. The core makes one call at a time for each job.
 *    With TN_COMM_CAP_THREADS, calls for different comms may run concurrently.
 */
#ifndef TENON_COMM_PLUGIN_H
#define TENON_COMM_PLUGIN_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Major and minor version of this interface. */
#define TN_COMM_ABI_MAJOR 1u
#define TN_COMM_ABI_MINOR 0u

/* True if struct *p, of type T, has field f. */
#define TN_COMM_HAS(T, p, f)                                                  \
    ((p)->size >= offsetof(T, f) + sizeof(((T *)0)->f))

typedef struct tn_comm tn_comm;                 /* the engine's */
typedef struct tn_comm_request tn_comm_request; /* the engine's */
typedef struct tn_comm_memory tn_comm_memory;   /* the engine's */

/* What an engine may call. The struct is valid until the process ends. */
typedef struct tn_comm_host {
    uint32_t size; /* sizeof(tn_comm_host) */
    uint32_t abi_major, abi_minor;
    uint32_t reserved; /* 0 */
    /* Records the message of the calling thread's error; returns code. */
    tn_status (*fail)(tn_status code, const char *format, ...)
#if defined(__GNUC__)
        __attribute__((format(printf, 2, 3)))
#endif
        ;
} tn_comm_host;

/* ---- the job ------------------------------------------------------------ */

/* Which process this is, and how it finds the others. */
typedef struct tn_comm_place {
    uint32_t size;         /* sizeof(tn_comm_place) */
    int32_t rank, count;   /* this process, number of processes of the job */
    int32_t local_count;   /* of them on this machine; 0 if not known */
    uint64_t timeout_ns;   /* how long open and split may wait */
    const char *job;       /* names the job, the same in all its processes, and
                              different for jobs at the same time: letters,
                              digits, '-' and '_', at most 63 */
    const char *address;   /* host name or address of rank 0's machine; "" if
                              not known */
    uint32_t port;         /* at that address; 0 if not known */
    uint32_t reserved;     /* 0 */
    const char *device;    /* the device whose memory will be sent, by its uid
                              (tn_device_info); "" for host memory */
    /* Gives every process the `bytes` of all processes, in order of rank, in
     * all[]. For engines that need a key of rank 0 to start, such as NCCL's
     * unique id. NULL if the core has no other way between the processes.
     * Waits for the others. */
    tn_status (*gather)(void *context, const void *mine, uint64_t bytes,
                        void *all);
    void *context;         /* of gather */
} tn_comm_place;
#define TN_COMM_PLACE_SIZE_1_0 72u

/* ---- collectives -------------------------------------------------------- */

/* What a request does. count is a number of elements; n is the number of ranks
 * of the comm.
 *
 *   kind            send              recv              recv gets
 *   ALL_REDUCE      count             count             the reduction
 *   REDUCE_SCATTER  n * count         count             slice `rank` of it
 *   ALL_GATHER      count             n * count         all, in order of rank
 *   BROADCAST       count at root     count elsewhere   root's
 *   ALL_TO_ALL      n * count         n * count         slice `rank` of each
 *   SEND            count             -                 (root is the peer)
 *   RECV            -                 count             (root is the peer)
 *   BARRIER         -                 -                 (count is 0)
 *
 * send and recv are equal (in place) or do not overlap; only ALL_REDUCE and
 * BROADCAST may be in place. */
enum {
    TN_COMM_ALL_REDUCE = 1,
    TN_COMM_REDUCE_SCATTER = 2,
    TN_COMM_ALL_GATHER = 3,
    TN_COMM_BROADCAST = 4,
    TN_COMM_ALL_TO_ALL = 5,
    TN_COMM_SEND = 6,
    TN_COMM_RECV = 7,
    TN_COMM_BARRIER = 8,
    TN_COMM_KIND_END = 9
};

/* Reductions. */
enum {
    TN_COMM_NO_REDUCTION = 0,
    TN_COMM_SUM = 1,
    TN_COMM_PRODUCT = 2,
    TN_COMM_MIN = 3,
    TN_COMM_MAX = 4,
    TN_COMM_REDUCTION_END = 5
};

/* The largest record of a request, and of publish. */
#define TN_COMM_RECORD 256

typedef struct tn_comm_args {
    uint32_t size;      /* sizeof(tn_comm_args) */
    uint32_t kind;      /* TN_COMM_ALL_REDUCE ... */
    uint32_t dtype;     /* TN_F32 ... */
    uint32_t reduce;    /* TN_COMM_SUM ...; else 0 */
    int32_t root;       /* BROADCAST: the source; SEND, RECV: the peer, a rank
                           of the comm; else -1 */
    uint32_t flags;     /* 0 */
    uint64_t count;     /* elements, see above */
    const void *send;   /* host memory, or memory of the place's device */
    void *recv;
    double scale;       /* multiplies the result of a SUM of a floating-point
                           dtype; else 1 */
    uint64_t check;     /* ranks of a collective (or of a pair) that have
                           another value do not mean the same collective: with
                           TN_COMM_CAP_CHECKS the engine compares it before any
                           data moves, and fails with the state
                           TN_COMM_MISMATCH */
    const void *record; /* describes the request to other ranks: record_bytes,
                           at most TN_COMM_RECORD. The engine copies it, and
                           returns it from `peer` */
    uint32_t record_bytes;
    uint32_t reserved;  /* 0 */
    void *queue;        /* device memory: the native queue (CUstream) whose
                           earlier work writes `send`, and whose later work
                           reads `recv`; NULL for host memory */
} tn_comm_args;
#define TN_COMM_ARGS_SIZE_1_0 88u

/* ---- the state of a comm and of its ranks ------------------------------- */

enum {
    TN_COMM_WORKS = 0,
    TN_COMM_MISMATCH = 1, /* `check` differs between ranks; peer is one whose
                             value differs from this rank's */
    TN_COMM_LOST = 2,     /* the process of rank `peer` has ended */
    TN_COMM_LEFT = 3,     /* rank `peer` closed its comm and does not take part */
    TN_COMM_ABORTED = 4,  /* a rank called abort: code and text say why */
    TN_COMM_FAILED = 5    /* the engine's own failure */
};

/* The longest text of abort, with its final 0. */
#define TN_COMM_TEXT 2048

typedef struct tn_comm_state {
    uint32_t size;   /* sizeof(tn_comm_state), set by the core */
    uint32_t reason; /* TN_COMM_WORKS ... */
    int32_t peer;    /* a rank of the comm, or -1 */
    tn_status code;  /* of abort */
    char text[TN_COMM_TEXT]; /* of abort; "" without */
} tn_comm_state;

/* What is known about a rank of a comm (TN_COMM_CAP_BOARD). */
enum { TN_COMM_ALIVE = 1, TN_COMM_GONE = 2, TN_COMM_CLOSED = 3 };
typedef struct tn_comm_peer {
    uint32_t size;          /* sizeof(tn_comm_peer), set by the core */
    uint32_t life;          /* TN_COMM_ALIVE ... */
    int64_t process;        /* the process id on its machine, or 0 */
    uint64_t silent_ns;     /* since its last heartbeat: a process that is
                               stopped, or a machine that cannot be reached */
    uint64_t sequence;      /* collectives of this comm that it has begun; the
                               engine may count a request as begun when the
                               earlier ones of its comm are done */
    uint64_t check;         /* of the last collective begun */
    uint32_t record_bytes;  /* of the last collective begun; 0 if none */
    uint32_t position_bytes;/* of publish; 0 if none */
    unsigned char record[TN_COMM_RECORD];
    unsigned char position[TN_COMM_RECORD];
    char host[64];          /* name of its machine */
} tn_comm_peer;

/* ---- the table ----------------------------------------------------------- */

/* Capabilities. */
enum {
    TN_COMM_CAP_FIXED_ORDER = 1,  /* sums in the order above */
    TN_COMM_CAP_THREADS = 2,      /* comms may be used concurrently */
    TN_COMM_CAP_POINT_TO_POINT = 4, /* SEND and RECV */
    TN_COMM_CAP_CHECKS = 8,       /* compares `check`; without it the core
                                     compares by an ALL_GATHER of its own */
    TN_COMM_CAP_BOARD = 16,       /* has peer, publish, and an abort that
                                     reaches all processes of the job */
    TN_COMM_CAP_HOST_MEMORY = 32, /* send and recv may be host memory */
    TN_COMM_CAP_DEVICE_MEMORY = 64, /* or memory of the place's device */
    TN_COMM_CAP_SCALE = 128       /* applies `scale`; without it the core
                                     passes 1 and multiplies afterwards */
};

typedef struct tn_comm_plugin {
    uint32_t size; /* sizeof(tn_comm_plugin) */
    uint32_t abi_major, abi_minor;
    uint32_t reserved; /* 0 */
    const char *name;  /* "local"; the file is comm_local.so */
    uint64_t caps;     /* TN_COMM_CAP_... */

    /* Returns TN_OK if the engine can serve this place. Otherwise fails with
     * TN_ERR_UNSUPPORTED and a message that says what is missing. */
    tn_status (*probe)(const tn_comm_place *place);
    /* Joins the job, and makes the comm of all its processes. */
    tn_status (*open)(const tn_comm_place *place, tn_comm **out);
    /* Makes a comm for each color >= 0 of the ranks that gave it, ordered by
     * key, then by rank. A rank with color < 0 is in none: *out is NULL. A
     * collective of parent; no request of parent is pending. */
    tn_status (*split)(tn_comm *parent, int32_t color, int32_t key,
                       tn_comm **out);
    /* Begins a request. The owner of *out is the caller. */
    tn_status (*start)(tn_comm *comm, const tn_comm_args *args,
                       tn_comm_request **out);
    /* Sets *done to 1 if the request is complete. */
    tn_status (*test)(tn_comm_request *request, uint32_t *done);
    void (*request_close)(tn_comm_request *request);
    /* What broke the comm, or TN_COMM_WORKS. */
    tn_status (*state)(tn_comm *comm, tn_comm_state *out);
    /* Ends all requests of the comm with a failure, on all its ranks that can
     * be reached, with CAP_BOARD on all ranks of the job. The first text of a
     * job stays. Callable at any time, also after a failure. */
    void (*abort)(tn_comm *comm, tn_status code, const char *text);
    void (*close)(tn_comm *comm);

    /* The slots from here on may be NULL. */

    /* As test, but waits for up to timeout_ns. Without it the core calls test,
     * and yields. */
    tn_status (*wait)(tn_comm_request *request, uint64_t timeout_ns,
                      uint32_t *done);
    /* Requests started between the two calls may depend on each other on
     * different ranks (a send to each neighbour, a recv from each): none waits
     * for one that was started later. Calls nest. */
    tn_status (*group_begin)(tn_comm *comm);
    tn_status (*group_end)(tn_comm *comm);
    /* Memory that the engine moves without a copy: made by it (shared memory,
     * NCCL's window), or the caller's, registered for it (RDMA). Both are
     * collectives with equal bytes on all ranks of the comm, which wait for the
     * others, while no request of the comm is pending. They succeed on all ranks
     * or, with TN_ERR_MEMORY if nothing is wrong with the comm, on none. A request
     * has the advantage if its send lies in such memory, the same one on all
     * ranks, and equals recv where it is an ALL_REDUCE; the results are the same
     * as without. memory_alloc's memory is aligned to 64 bytes and holds zeros.
     * It is valid until memory_close, also after the comm was closed: comm is then
     * NULL. No request that uses it is pending. */
    tn_status (*memory_alloc)(tn_comm *comm, uint64_t bytes, void **out_data,
                              tn_comm_memory **out);
    tn_status (*memory_register)(tn_comm *comm, void *data, uint64_t bytes,
                                 tn_comm_memory **out);
    void (*memory_close)(tn_comm *comm, tn_comm_memory *memory);
    /* With CAP_BOARD: fills *out for a rank of the comm, and makes `bytes` of
     * record (at most TN_COMM_RECORD) this process's position for others. */
    tn_status (*peer)(tn_comm *comm, int32_t rank, tn_comm_peer *out);
    tn_status (*publish)(tn_comm *comm, const void *record, uint32_t bytes);
} tn_comm_plugin;
#define TN_COMM_PLUGIN_SIZE_1_0 104u

/* The engine's only exported symbol. */
TN_API const tn_comm_plugin *tenon_comm_v1(const tn_comm_host *host);

#ifdef __cplusplus
}
#endif
#endif
