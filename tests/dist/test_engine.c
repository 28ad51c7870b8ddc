/* test_engine.c: the conformance kit of communication plugins: the rules of
 * <tenon/comm_plugin.h>, by its table alone. TENON_TEST_ENGINE=NAME checks
 * another plugin than local: a name, or a file. */
#include "ranks.h"

#include <dirent.h>
#include <dlfcn.h>
#include <tenon/comm_plugin.h>

static const tn_comm_plugin *engine;
static int rank, count;
static char reason[512];
static int wrong;

__attribute__((format(printf, 2, 3))) static tn_status
fail(tn_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return code;
}

#define EXPECT(condition)                                                      \
    ((condition) ? (void)0                                                     \
                 : (void)(printf("line %d: %s (%s)\n", __LINE__,              \
                                 #condition, reason), wrong++))

static void load(void)
{
    static const tn_comm_host host = {.size = sizeof host,
                                      .abi_major = TN_COMM_ABI_MAJOR,
                                      .abi_minor = TN_COMM_ABI_MINOR,
                                      .fail = fail};
    char path[4096];
    const char *given = getenv("TENON_TEST_ENGINE");
    if (given && strchr(given, '/'))
        snprintf(path, sizeof path, "%s", given);
    else
        snprintf(path, sizeof path, "%s/comm_%s.so", getenv("TENON_PLUGIN_PATH"),
                 given ? given : "local");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "tenon_comm_v1") : NULL;
    if (!symbol)
        bail_out("%s", dlerror());
    const tn_comm_plugin *(*entry)(const tn_comm_host *);
    memcpy(&entry, &symbol, sizeof entry);
    engine = entry(&host);
    if (!engine)
        bail_out("%s", reason);
}

static tn_comm_place place(void)
{
    return (tn_comm_place){.size = sizeof(tn_comm_place), .rank = rank,
                           .count = count, .local_count = count,
                           .timeout_ns = 20000000000u,
                           .job = getenv("TENON_JOB"), .address = "",
                           .device = ""};
}

static tn_comm_args args_of(uint32_t kind, const void *send, void *recv,
                            uint64_t n)
{
    return (tn_comm_args){.size = sizeof(tn_comm_args), .kind = kind,
                          .dtype = TN_F32, .root = -1, .count = n, .send = send,
                          .recv = recv, .scale = 1,
                          .reduce = kind == TN_COMM_ALL_REDUCE ? TN_COMM_SUM : 0};
}

static tn_status finish(tn_comm_request *request)
{
    uint32_t done = 0;
    tn_status status = TN_OK;
    while (!done && status == TN_OK)
        status = engine->wait ? engine->wait(request, 1000000, &done)
                              : engine->test(request, &done);
    return status;
}

static tn_status run(tn_comm *comm, tn_comm_args args)
{
    tn_comm_request *request = NULL;
    tn_status status = engine->start(comm, &args, &request);
    if (status == TN_OK)
        status = finish(request);
    if (request)
        engine->request_close(request);
    return status;
}

static int entries(const char *folder)
{
    DIR *open = opendir(folder);
    int n = 0;
    while (open && readdir(open))
        n++;
    if (open)
        closedir(open);
    return n;
}

/* ---- cases ----------------------------------------------------------------- */

/* probe opens nothing, and says what is missing. */
static void probes(void)
{
    const int files = entries("/proc/self/fd"), threads = entries("/proc/self/task"),
              memory = entries("/dev/shm");
    tn_comm_place here = place();
    EXPECT(engine->probe(&here) == TN_OK);
    here.device = "a device that nobody has";
    reason[0] = 0;
    EXPECT(engine->probe(&here) != TN_OK && reason[0]);
    EXPECT(entries("/proc/self/fd") == files);
    EXPECT(entries("/proc/self/task") == threads);
    if (count == 1) /* others may have begun */
        EXPECT(entries("/dev/shm") == memory);
}

/* Values that the header does not have are rejected, and nothing is sent. */
static void unknown(tn_comm *comm)
{
    float x[4] = {1, 2, 3, 4};
    tn_comm_request *request = NULL;
    for (int i = 0; i < 6; i++) {
        tn_comm_args args = args_of(TN_COMM_ALL_REDUCE, x, x, 4);
        if (i == 0)
            args.kind = TN_COMM_KIND_END;
        if (i == 1)
            args.reduce = TN_COMM_REDUCTION_END;
        if (i == 2)
            args.dtype = TN_DTYPE_END;
        if (i == 3)
            args.flags = 1u << 31;
        if (i == 4)
            args.kind = TN_COMM_BROADCAST, args.root = count;
        if (i == 5)
            args.kind = TN_COMM_SEND, args.root = rank;
        reason[0] = 0;
        EXPECT(engine->start(comm, &args, &request) != TN_OK && reason[0]);
        EXPECT(!request);
    }
    EXPECT(x[0] == 1 && x[3] == 4);
}

/* start and test do not wait: the others begin when rank 0 has started and tested
 * all of its requests. The test of the last one completes the earlier ones. */
static void never_waits(tn_comm *comm)
{
    enum { WORKS = 4, N = 50000 };
    static float x[WORKS][N];
    tn_comm_request *request[WORKS];
    uint32_t done = 0;
    float token = 1;
    tn_comm_args go = args_of(TN_COMM_RECV, NULL, &token, 1);
    go.root = 0;
    if (rank && (engine->caps & TN_COMM_CAP_POINT_TO_POINT))
        EXPECT(run(comm, go) == TN_OK);
    for (int i = 0; i < WORKS; i++) {
        for (int k = 0; k < N; k++)
            x[i][k] = (float)(rank + 1);
        tn_comm_args args = args_of(TN_COMM_ALL_REDUCE, x[i], x[i], N);
        EXPECT(engine->start(comm, &args, &request[i]) == TN_OK);
    }
    EXPECT(engine->test(request[WORKS - 1], &done) == TN_OK);
    if (rank == 0 && (engine->caps & TN_COMM_CAP_POINT_TO_POINT)) {
        EXPECT(!done);
        go = args_of(TN_COMM_SEND, &token, NULL, 1);
        for (go.root = 1; go.root < count; go.root++)
            EXPECT(run(comm, go) == TN_OK);
    }
    EXPECT(finish(request[WORKS - 1]) == TN_OK);
    for (int i = 0; i < WORKS; i++) {
        done = 0;
        EXPECT(engine->test(request[i], &done) == TN_OK && done);
        EXPECT(x[i][N - 1] == (float)(count * (count + 1) / 2));
        engine->request_close(request[i]);
    }
}

/* The fixed order, in place and not, on both sides of every limit. */
static void order(tn_comm *comm)
{
    static const uint64_t sizes[] = {1, 2047, 2048, 2049, 65535, 65536, 65537,
                                     200000};
    static float x[200000], y[200000];
    for (int s = 0; s < 8; s++) {
        for (uint64_t i = 0; i < sizes[s]; i++)
            x[i] = (float)((double)((i * 7919 + (uint64_t)rank * 104729) % 10007) *
                           (rank % 2 ? 1e-3 : 1e4));
        EXPECT(run(comm, args_of(TN_COMM_ALL_REDUCE, x, y, sizes[s])) == TN_OK);
        int odd = 0;
        for (uint64_t i = 0; i < sizes[s]; i++) {
            float v[RANKS_MOST];
            for (int r = 0; r < count; r++)
                v[r] = (float)((double)((i * 7919 + (uint64_t)r * 104729) % 10007) *
                               (r % 2 ? 1e-3 : 1e4));
            for (int d = 1; d < count; d *= 2)
                for (int r = 0; r + d < count; r += 2 * d)
                    v[r] += v[r + d];
            odd += memcmp(&v[0], &y[i], 4) != 0;
        }
        EXPECT(!(engine->caps & TN_COMM_CAP_FIXED_ORDER) || odd == 0);
    }
}

/* An element has the same bits alone and among many, where the engine adds
 * vectors: with all kinds of numbers, and a scale. */
static void lanes(tn_comm *comm)
{
    enum { N = 67 };
    static const struct {
        uint32_t dtype;
        size_t width;
    } kind[] = {{TN_F32, 4}, {TN_F64, 8}, {TN_F16, 2}, {TN_BF16, 2}};
    for (int k = 0; k < 8; k++) {
        const size_t width = kind[k / 2].width;
        unsigned char x[N * 8], many[N * 8], one[N * 8];
        uint32_t h = (uint32_t)(k / 2 * 100 + rank + 1);
        for (size_t i = 0; i < sizeof x; i++) { /* any bits: NaN, subnormals */
            h = h * 1664525u + 1013904223u;
            x[i] = (unsigned char)(h >> 24);
            /* Of two NaN, compilers choose either. */
            if (rank && i % width == width - 1)
                x[i] &= 0x3f;
        }
        tn_comm_args args = args_of(TN_COMM_ALL_REDUCE, x, many, N);
        args.dtype = kind[k / 2].dtype;
        args.scale = k % 2 ? 0.3 : 1;
        EXPECT(run(comm, args) == TN_OK);
        args.count = 1;
        for (int i = 0; i < N; i++) {
            args.send = x + (size_t)i * width;
            args.recv = one + (size_t)i * width;
            EXPECT(run(comm, args) == TN_OK);
        }
        EXPECT(!memcmp(many, one, N * width));
    }
}

/* ---- memory of the engine -------------------------------------------------- */

enum { MOVED = 6000 }; /* elements of a slice: with 5 ranks, more than a rank sums
                          for itself */

/* The sum over all ranks of what element i of the `many` slices of each is. */
static float sum_at(int i)
{
    float sum = 0;
    for (int r = 0; r < count; r++)
        sum += (float)(i % 1000 + r);
    return sum;
}

/* All kinds of collectives of x, which has count * MOVED elements. */
static void move(tn_comm *comm, float *x, const char *what)
{
    const int n = count * MOVED;
    float *y = calloc((size_t)n * (size_t)count, sizeof *y);
    int odd = 0;
#define FILL                                                                   \
    for (int i = 0; i < n; i++)                                                \
    x[i] = (float)(i % 1000 + rank)
    FILL;
    tn_comm_args args = args_of(TN_COMM_REDUCE_SCATTER, x, y, MOVED);
    args.reduce = TN_COMM_SUM;
    EXPECT(run(comm, args) == TN_OK);
    for (int i = 0; i < MOVED; i++)
        odd += y[i] != sum_at(rank * MOVED + i);
    EXPECT(run(comm, args_of(TN_COMM_ALL_GATHER, x, y, (uint64_t)n)) == TN_OK);
    for (int i = 0; i < n * count; i++)
        odd += y[i] != (float)(i % n % 1000 + i / n);
    EXPECT(run(comm, args_of(TN_COMM_ALL_TO_ALL, x, y, MOVED)) == TN_OK);
    for (int i = 0; i < n; i++)
        odd += y[i] != (float)((rank * MOVED + i % MOVED) % 1000 + i / MOVED);
    EXPECT(run(comm, args_of(TN_COMM_ALL_REDUCE, x, y, (uint64_t)n)) == TN_OK);
    for (int i = 0; i < n; i++)
        odd += y[i] != sum_at(i) || x[i] != (float)(i % 1000 + rank);
    EXPECT(run(comm, args_of(TN_COMM_ALL_REDUCE, x, x, (uint64_t)n)) == TN_OK);
    for (int i = 0; i < n; i++)
        odd += x[i] != sum_at(i);
    /* At once again: nobody reads x any more. */
    FILL;
    args = args_of(TN_COMM_BROADCAST, x, x, (uint64_t)n);
    args.root = count - 1;
    EXPECT(run(comm, args) == TN_OK);
    for (int i = 0; i < n; i++)
        odd += x[i] != (float)(i % 1000 + count - 1);
    if (odd)
        printf("%s: %d elements are wrong\n", what, odd);
    wrong += odd != 0;
    free(y);
}

/* Results are the same, whichever ranks use it, and wherever their data are. */
static tn_comm_memory *memory(tn_comm *comm, float **out)
{
    const uint64_t bytes = (uint64_t)(count * MOVED + count * 16) * sizeof(float);
    tn_comm_memory *first = NULL, *second = NULL;
    void *data = NULL, *other = NULL;
    *out = NULL;
    if (!TN_COMM_HAS(tn_comm_plugin, engine, memory_close) ||
        !engine->memory_alloc)
        return NULL;
    reason[0] = 0;
    EXPECT(engine->memory_alloc(comm, UINT64_MAX / 2, &data, &first) ==
               TN_ERR_MEMORY && reason[0] && !first);
    EXPECT(engine->memory_alloc(comm, bytes, &data, &first) == TN_OK);
    EXPECT(engine->memory_alloc(comm, bytes, &other, &second) == TN_OK);
    if (!first || !second)
        return NULL;
    float *x = data, *plain = calloc(1, bytes);
    EXPECT((uintptr_t)data % 64 == 0 && !memcmp(data, plain, bytes));
    move(comm, x, "the same memory");
    move(comm, x + rank * 16, "other places in it");
    move(comm, rank == count - 1 ? plain : x, "the last rank uses another");
    move(comm, rank == 0 ? other : x, "rank 0 uses another of the engine");
    engine->memory_close(comm, first);
    move(comm, other, "the second, after the first was closed");
    free(plain);
    *out = other;
    return second;
}

/* What others can see of a rank. */
static void board(tn_comm *comm)
{
    tn_comm_args barrier = args_of(TN_COMM_BARRIER, NULL, NULL, 0);
    char record[32], position[32];
    if (!(engine->caps & TN_COMM_CAP_BOARD))
        return;
    snprintf(record, sizeof record, "record %d", rank);
    snprintf(position, sizeof position, "place %d", rank);
    barrier.record = record;
    barrier.record_bytes = sizeof record;
    EXPECT(engine->publish(comm, position, sizeof position) == TN_OK);
    EXPECT(run(comm, barrier) == TN_OK);
    tn_comm_peer peer = {.size = sizeof peer};
    int other = (rank + 1) % count;
    EXPECT(engine->peer(comm, other, &peer) == TN_OK);
    snprintf(record, sizeof record, "record %d", other);
    snprintf(position, sizeof position, "place %d", other);
    EXPECT(peer.life == TN_COMM_ALIVE && peer.process > 0 && peer.sequence > 0);
    EXPECT(peer.record_bytes == sizeof record &&
           !strcmp((char *)peer.record, record));
    EXPECT(peer.position_bytes == sizeof position &&
           !strcmp((char *)peer.position, position));
    EXPECT(engine->peer(comm, count, &peer) != TN_OK);
    /* A struct of an older header is not written beyond its end. */
    struct {
        tn_comm_state state;
        unsigned char guard;
    } old = {.state = {.size = offsetof(tn_comm_state, text)}};
    memset(old.state.text, 7, sizeof old.state.text);
    EXPECT(engine->state(comm, &old.state) == TN_OK);
    EXPECT(old.state.reason == TN_COMM_WORKS && old.state.text[0] == 7);
    /* Others may be here already: with the same record. */
    snprintf(record, sizeof record, "record %d", rank);
    EXPECT(run(comm, barrier) == TN_OK);
}

static void splits(tn_comm *comm)
{
    tn_comm *half = NULL;
    EXPECT(engine->split(comm, rank % 2, -rank, &half) == TN_OK && half);
    float x = (float)(rank + 1), sum = 0;
    for (int r = rank % 2; r < count; r += 2)
        sum += (float)(r + 1);
    EXPECT(run(half, args_of(TN_COMM_ALL_REDUCE, &x, &x, 1)) == TN_OK);
    EXPECT(x == sum);
    /* Ordered by key: the last rank is 0. */
    int last = count - 1 - (count - 1 - rank) % 2;
    float from = (float)rank;
    tn_comm_args args = args_of(TN_COMM_BROADCAST, &from, &from, 1);
    args.root = 0;
    EXPECT(run(half, args) == TN_OK && from == (float)last);
    engine->close(half);
    EXPECT(engine->split(comm, -1, 0, &half) == TN_OK && !half);
}

/* A mismatch is seen before data moves, and abort reaches all ranks. */
static void mismatch(tn_comm *comm)
{
    static float x[300];
    for (int i = 0; i < 300; i++)
        x[i] = (float)rank;
    tn_comm_args args = args_of(TN_COMM_ALL_REDUCE, x, x, rank == 1 ? 300 : 200);
    args.check = rank == 1;
    if (!(engine->caps & TN_COMM_CAP_CHECKS))
        return;
    EXPECT(run(comm, args) != TN_OK);
    for (int i = 0; i < 300; i++)
        EXPECT(x[i] == (float)rank);
    tn_comm_state state = {.size = sizeof state};
    EXPECT(engine->state(comm, &state) == TN_OK &&
           (state.reason == TN_COMM_MISMATCH || state.reason == TN_COMM_ABORTED));
    char text[32];
    snprintf(text, sizeof text, "by rank %d", rank);
    engine->abort(comm, TN_ERR_SHAPE, text);
    EXPECT(engine->state(comm, &state) == TN_OK);
    EXPECT(state.reason == TN_COMM_ABORTED && state.code == TN_ERR_SHAPE);
    printf("verdict %s\n", state.text);
    EXPECT(run(comm, args_of(TN_COMM_BARRIER, NULL, NULL, 0)) != TN_OK);
}

/* Closing does not wait for others, nor for what they send. */
static void leaves(tn_comm *comm)
{
    float x = 1;
    if (rank == 0)
        return;
    EXPECT(run(comm, args_of(TN_COMM_ALL_REDUCE, &x, &x, 1)) != TN_OK);
    tn_comm_state state = {.size = sizeof state};
    engine->state(comm, &state);
    EXPECT(state.reason == TN_COMM_LEFT && state.peer == 0);
}

static int be_rank(const char *name)
{
    rank = atoi(getenv("TENON_RANK"));
    count = atoi(getenv("TENON_SIZE"));
    load();
    probes();
    tn_comm_place here = place();
    tn_comm *comm = NULL;
    tn_comm_memory *last = NULL;
    float *data = NULL;
    if (engine->open(&here, &comm) != TN_OK) {
        printf("%s\n", reason);
        return 1;
    }
    if (!strcmp(name, "rules")) {
        unknown(comm);
        never_waits(comm);
        order(comm);
        lanes(comm);
        board(comm);
        splits(comm);
        last = memory(comm, &data);
    } else if (!strcmp(name, "mismatch")) {
        mismatch(comm);
    } else {
        leaves(comm);
    }
    engine->close(comm);
    if (last) { /* outlives its comm */
        EXPECT(data[0] == (float)(count - 1));
        data[0] = 1;
        engine->memory_close(NULL, last);
    }
    return wrong != 0;
}

int main(int argc, char **argv)
{
    const char *name = ranks_case(argc, argv);
    if (name)
        return be_rank(name);
    plan_later();
    load();
    ok(engine->size >= TN_COMM_PLUGIN_SIZE_1_0 &&
           engine->abi_major == TN_COMM_ABI_MAJOR && engine->name[0],
       "the table has a size, a version and a name");
    ok(engine->probe && engine->open && engine->split && engine->start &&
           engine->test && engine->request_close && engine->state &&
           engine->abort && engine->close, "and all functions that it must have");
    for (int n = 2; n <= 5; n++)
        ranks_pass(n, "rules", "the rules of comm_plugin.h");
    ranks_pass(3, "mismatch", "a mismatch moves no data, and abort reaches all");
    ranks_pass(3, "leaves", "close waits for nobody, and is seen");
    return done_testing();
}
