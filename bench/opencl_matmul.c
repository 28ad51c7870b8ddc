/* opencl_matmul.c: compares tn_matmul on an OpenCL device with the two
 * implementations that it chooses from: the core's kernel, and direct calls of
 * CLBlast.
 *
 *     bench/opencl_matmul [float32|float64|float16]...
 *
 * The options that select an implementation can be set only once in a process,
 * so each of the three runs in processes of its own, alternately. The result is
 * the best time of all rounds. CLBlast accumulates half precision in half
 * precision, which tn_matmul never does. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <time.h>
#include <unistd.h>

typedef struct product {
    size_t count, m, n, k;
    bool turned; /* whether b is transposed, like the weights of a layer */
} product;

static const product products[] = {
    {1, 256, 256, 256, false},    {1, 512, 512, 512, false},
    {1, 1024, 1024, 1024, false}, {1, 256, 256, 256, true},
    {1, 512, 512, 512, true},     {1, 1024, 1024, 1024, true},
    {1, 1, 1024, 1024, false},    {1, 32, 1024, 1024, true},
    {16, 64, 64, 64, false},      {16, 128, 128, 128, true},
};
enum {
    PRODUCTS = sizeof products / sizeof *products,
    ROUNDS = 10,
    LEAST = 3 /* minimum number of runs of a product; the runs also take at
               * least LONG seconds */
};
static const double LONG = 0.08;

static tn_dtype dtype;
static double best[PRODUCTS]; /* in seconds; 0 if the implementation does not
                               * support the product */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the shortest time of work(p), including a wait for the device. The
 * first call is not counted, because it compiles. Returns 0 if work(p)
 * fails. */
static double least(bool (*work)(const product *p), const product *p)
{
    double shortest = 1e9, begun = 0;
    for (int i = -1; i < LEAST || now() - begun < LONG; i++) {
        double start = now();
        if (!work(p))
            return 0;
        double time = now() - start;
        if (i < 0)
            begun = now();
        else if (time < shortest)
            shortest = time;
    }
    return shortest;
}

/* ---- Tenon --------------------------------------------------------------- */

static tn_tensor *a, *b;

static bool multiply(const product *p)
{
    (void)p;
    tn_scope *scope = tn_scope_open();
    bool done = tn_matmul(a, b) && tn_device_synchronize(NULL) == 0;
    tn_scope_close(scope);
    return done;
}

static void time_tenon(void)
{
    tn_device_set(tn_device_open("opencl"));
    for (int i = 0; i < PRODUCTS; i++) {
        const product *p = &products[i];
        const int64_t count = (int64_t)p->count, m = (int64_t)p->m;
        const int64_t n = (int64_t)p->n, k = (int64_t)p->k;
        tn_scope *scope = tn_scope_open();
        a = tn_to_dtype(tn_randn(tn_dims(count, m, k)), dtype);
        b = p->turned ? tn_transpose(tn_randn(tn_dims(count, n, k)), 1, 2)
                      : tn_randn(tn_dims(count, k, n));
        b = tn_to_dtype(b, dtype);
        best[i] = least(multiply, p);
        tn_scope_close(scope);
    }
    if (tn_error())
        fprintf(stderr, "opencl_matmul: %s\n", tn_error());
}

static void time_own(void)
{
    setenv("TENON_OPENCL_MATMUL", "own", 1);
    time_tenon();
}

/* ---- direct calls of CLBlast --------------------------------------------- */

#define DRIVER_MAP(X)                                                         \
    X(GetPlatformIDs) X(GetDeviceIDs) X(CreateContext) X(CreateCommandQueue)  \
    X(CreateBuffer) X(EnqueueWriteBuffer) X(Finish) X(ReleaseMemObject)

static struct {
#define FIELD(name) __typeof__(&cl##name) name;
    DRIVER_MAP(FIELD)
} cl;
static cl_context context;
static cl_command_queue queue;
static cl_mem memory[3];

/* CLBlast<X>gemmStridedBatched of clblast_c.h. */
#define GEMM(name, number)                                                    \
    int (*name)(int layout, int turn_a, int turn_b, size_t m, size_t n,       \
                size_t k, number alpha, cl_mem a, size_t a_offset,            \
                size_t a_ld, size_t a_stride, cl_mem b, size_t b_offset,      \
                size_t b_ld, size_t b_stride, number beta, cl_mem c,          \
                size_t c_offset, size_t c_ld, size_t c_stride, size_t count,  \
                cl_command_queue *queue, cl_event *event)
static GEMM(gemm_f32, float);
static GEMM(gemm_f64, double);
static GEMM(gemm_f16, cl_half);

static bool find(void *library, const char *name, void *function)
{
    void *symbol = library ? dlsym(library, name) : NULL;
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool open_all(void)
{
    void *driver = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    void *clblast = dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
#define FIND(name)                                                            \
    if (!find(driver, "cl" #name, &cl.name))                                  \
        return false;
    DRIVER_MAP(FIND)
    cl_platform_id platform;
    cl_device_id device;
    cl_int error = cl.GetPlatformIDs(1, &platform, NULL);
    if (error || cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device,
                                 NULL))
        return false;
    context = cl.CreateContext(NULL, 1, &device, NULL, NULL, &error);
    if (!error)
        queue = cl.CreateCommandQueue(context, device, 0, &error);
    return !error && find(clblast, "CLBlastSgemmStridedBatched", &gemm_f32) &&
           find(clblast, "CLBlastDgemmStridedBatched", &gemm_f64) &&
           find(clblast, "CLBlastHgemmStridedBatched", &gemm_f16);
}

/* Multiplies row-major matrices by CLBlast, with alpha = 1 and beta = 0. */
static bool multiply_by_hand(const product *p)
{
    const size_t ld_b = p->turned ? p->k : p->n;
#define CALL(gemm, one)                                                       \
    gemm(101, 111, p->turned ? 112 : 111, p->m, p->n, p->k, one, memory[0],   \
         0, p->k, p->m * p->k, memory[1], 0, ld_b, p->k * p->n, 0, memory[2], \
         0, p->n, p->m * p->n, p->count, &queue, NULL)
    int status = dtype == TN_F32   ? CALL(gemm_f32, 1)
                 : dtype == TN_F64 ? CALL(gemm_f64, 1)
                                   : CALL(gemm_f16, 0x3c00);
    return status == 0 && cl.Finish(queue) == CL_SUCCESS;
}

static void time_clblast(void)
{
    if (!open_all())
        return;
    for (int i = 0; i < PRODUCTS; i++) {
        const product *p = &products[i];
        const size_t numbers[3] = {p->m * p->k, p->k * p->n, p->m * p->n};
        cl_int error = CL_SUCCESS;
        for (int o = 0; o < 3 && !error; o++) {
            size_t bytes = numbers[o] * p->count * tn_dtype_bytes(dtype);
            void *zeros = calloc(1, bytes);
            memory[o] = cl.CreateBuffer(context, CL_MEM_READ_WRITE, bytes,
                                        NULL, &error);
            if (!error && zeros)
                error = cl.EnqueueWriteBuffer(queue, memory[o], CL_TRUE, 0,
                                              bytes, zeros, 0, NULL, NULL);
            free(zeros);
        }
        best[i] = error ? 0 : least(multiply_by_hand, p);
        for (int o = 0; o < 3; o++)
            if (memory[o])
                cl.ReleaseMemObject(memory[o]);
    }
}

/* ---- the three, in turns ------------------------------------------------- */

static bool in_child(void (*work)(void), double out[PRODUCTS])
{
    int fd[2], status = 1;
    if (pipe(fd))
        return false;
    pid_t child = fork();
    if (!child) {
        work();
        _exit(write(fd[1], best, sizeof best) != sizeof best);
    }
    close(fd[1]);
    bool got = child > 0 && read(fd[0], best, sizeof best) == sizeof best;
    close(fd[0]);
    if (child > 0)
        waitpid(child, &status, 0);
    for (int i = 0; i < PRODUCTS && got; i++)
        if (best[i] > 0 && (out[i] == 0 || best[i] < out[i]))
            out[i] = best[i];
    return got && !status;
}

static bool print_dtype(const char *name)
{
    double time[3][PRODUCTS] = {{0}};
    dtype = tn_dtype_from_name(name);
    for (int round = 0; round < ROUNDS; round++)
        if (!in_child(time_own, time[0]) || !in_child(time_clblast, time[1]) ||
            !in_child(time_tenon, time[2]))
            return false;
    printf("%-8s ms%17s%12s%12s%12s\n", name, "own kernel", "CLBlast",
           "tn_matmul", "of better");
    for (int i = 0; i < PRODUCTS; i++) {
        const product *p = &products[i];
        const double own = time[0][i], blast = time[1][i];
        const double better = blast > 0 && blast < own ? blast : own;
        char text[32];
        snprintf(text, sizeof text, "%zu x %zu,%zu,%zu%s", p->count, p->m,
                 p->n, p->k, p->turned ? " t" : "");
        printf("%-20s%8.3f%12.3f%12.3f%12.2f\n", text, 1e3 * own, 1e3 * blast,
               1e3 * time[2][i], better / time[2][i]);
    }
    return fflush(stdout) == 0;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return !print_dtype("float32") || !print_dtype("float64");
    for (int i = 1; i < argc; i++)
        if (!print_dtype(argv[i]))
            return 1;
    return 0;
}
