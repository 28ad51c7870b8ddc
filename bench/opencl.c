/* opencl.c: compares Tenon on an OpenCL device with direct calls of the driver,
 * which are measured alternately. Measures three times: the first operator of a
 * process, from opening the device to its result (median of 12 processes with
 * warm caches); a launch (median of 10,000); and memory bandwidth (best of 12
 * rounds).
 *
 *     POCL_DEVICES=basic bench/opencl
 *
 * The direct call is minimal: one kernel of a fixed size, whose arguments are
 * set and which is enqueued. The driver is opened in the same way as the plugin
 * opens it. */
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

enum { LAUNCHES = 10000, ROUNDS = 12, ELEMENTS = 16 << 20, ITEMS = 1024 };

#define DRIVER_MAP(X)                                                         \
    X(GetPlatformIDs) X(GetDeviceIDs) X(CreateContext) X(CreateCommandQueue)  \
    X(CreateProgramWithSource) X(BuildProgram) X(CreateKernel)                \
    X(CreateBuffer) X(EnqueueFillBuffer) X(EnqueueWriteBuffer)                \
    X(EnqueueReadBuffer) X(SetKernelArg) X(EnqueueNDRangeKernel) X(Finish)    \
    X(ReleaseMemObject)

static struct {
#define FIELD(name) __typeof__(&cl##name) name;
    DRIVER_MAP(FIELD)
} cl;

static cl_command_queue queue;
static cl_context context;
static cl_kernel kernel;
static cl_mem memory[3]; /* c = a + b */
static cl_long count;    /* number of elements of each array */

/* Each work-item adds a range of adjacent elements, which is fast on CPUs and
 * acceptable on GPUs. */
static const char *const text =
    "kernel void add(global const float *a, global const float *b,\n"
    "                global float *c, long count)\n"
    "{\n"
    "    const long share = (count + get_global_size(0) - 1) /\n"
    "                       get_global_size(0);\n"
    "    const long first = get_global_id(0) * share;\n"
    "    for (long i = first; i < first + share && i < count; i++)\n"
    "        c[i] = a[i] + b[i];\n"
    "}\n";

static bool driver_open(void)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol;
#define FIND(name)                                                            \
    symbol = library ? dlsym(library, "cl" #name) : NULL;                     \
    memcpy(&cl.name, &symbol, sizeof symbol);                                 \
    if (!symbol)                                                              \
        return false;
    DRIVER_MAP(FIND)
    return true;
}

/* Opens the driver's first device. If there is only one platform, it is Tenon's
 * device opencl:0. */
static bool device_open(void)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_int error = cl.GetPlatformIDs(1, &platform, NULL);
    if (error || cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device,
                                 NULL))
        return false;
    context = cl.CreateContext(NULL, 1, &device, NULL, NULL, &error);
    if (!error)
        queue = cl.CreateCommandQueue(context, device, 0, &error);
    const char *source = text;
    cl_program program = error ? NULL
                               : cl.CreateProgramWithSource(
                                     context, 1, &source, NULL, &error);
    if (error || cl.BuildProgram(program, 1, &device, "-cl-std=CL1.2", NULL,
                                 NULL))
        return false;
    kernel = cl.CreateKernel(program, "add", &error);
    return !error;
}

static bool buffers_make(cl_long elements)
{
    const float one = 1;
    cl_int error = CL_SUCCESS;
    count = elements;
    for (int i = 0; i < 3 && !error; i++) {
        if (memory[i])
            cl.ReleaseMemObject(memory[i]);
        size_t bytes = sizeof one * (size_t)elements;
        memory[i] = cl.CreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL,
                                    &error);
        if (!error)
            error = cl.EnqueueFillBuffer(queue, memory[i], &one, sizeof one,
                                         0, bytes, 0, NULL, NULL);
    }
    return !error && !cl.Finish(queue);
}

/* ---- what is timed ------------------------------------------------------- */

static tn_tensor *a, *b;
static float *host;

static void launch_by_hand(void)
{
    const size_t local = count < ITEMS ? 1 : 8;
    const size_t global = count < ITEMS ? 1 : ITEMS;
    for (cl_uint i = 0; i < 3; i++)
        cl.SetKernelArg(kernel, i, sizeof memory[i], &memory[i]);
    cl.SetKernelArg(kernel, 3, sizeof count, &count);
    cl.EnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL,
                            NULL);
}

static void launch_by_tenon(void)
{
    tn_scope *scope = tn_scope_open();
    tn_add(a, b);
    tn_scope_close(scope);
}

static void add_by_hand(void)
{
    launch_by_hand();
    cl.Finish(queue);
}

static void add_by_tenon(void)
{
    launch_by_tenon();
    tn_device_synchronize(NULL);
}

static void write_by_hand(void)
{
    cl.EnqueueWriteBuffer(queue, memory[0], CL_TRUE, 0,
                          sizeof *host * (size_t)count, host, 0, NULL, NULL);
}

static void write_by_tenon(void)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor_from_array(host, TN_F32, tn_dims(count));
    tn_device_synchronize(NULL);
    tn_scope_close(scope);
}

static void read_by_hand(void)
{
    cl.EnqueueReadBuffer(queue, memory[0], CL_TRUE, 0,
                         sizeof *host * (size_t)count, host, 0, NULL, NULL);
}

static void read_by_tenon(void)
{
    tn_tensor_to_array(a, host, sizeof *host * (size_t)count);
}

/* ---- times --------------------------------------------------------------- */

static double seconds(void (*work)(void))
{
    struct timespec begun, done;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    work();
    clock_gettime(CLOCK_MONOTONIC, &done);
    return (double)(done.tv_sec - begun.tv_sec) +
           1e-9 * (double)(done.tv_nsec - begun.tv_nsec);
}

static int by_size(const void *left, const void *right)
{
    const double *x = left, *y = right;
    return (*x > *y) - (*x < *y);
}

/* ---- the first operator -------------------------------------------------- */

static void first_by_hand(void)
{
    if (driver_open() && device_open() && buffers_make(1))
        add_by_hand();
}

static void first_by_tenon(void)
{
    tn_device_set(tn_device_open("opencl"));
    a = b = tn_ones(tn_dims(1));
    add_by_tenon();
}

/* Returns the median time of `work` in some new processes. One process runs
 * before them and fills the caches, including those of the driver. Must be
 * called before this process opens a driver. */
static double first(void (*work)(void))
{
    double time[ROUNDS + 1];
    for (int i = 0; i <= ROUNDS; i++) {
        int fd[2];
        if (pipe(fd))
            return 0;
        pid_t child = fork();
        if (!child) {
            double taken = seconds(work);
            _exit(write(fd[1], &taken, sizeof taken) != sizeof taken);
        }
        close(fd[1]);
        if (child < 0 || read(fd[0], &time[i], sizeof *time) != sizeof *time)
            time[i] = 0;
        close(fd[0]);
        if (child > 0)
            waitpid(child, NULL, 0);
    }
    qsort(time + 1, ROUNDS, sizeof *time, by_size);
    return time[1 + ROUNDS / 2];
}

/* ---- launches and memory ------------------------------------------------- */

static double median(void (*work)(void))
{
    static double time[LAUNCHES];
    for (int i = 0; i < LAUNCHES / 10; i++)
        work();
    for (int i = 0; i < LAUNCHES; i++)
        time[i] = seconds(work);
    qsort(time, LAUNCHES, sizeof *time, by_size);
    return time[LAUNCHES / 2];
}

static void print_rates(const char *name, double bytes, void (*hand)(void),
                        void (*tenon)(void))
{
    double best[2] = {1e9, 1e9};
    for (int i = 0; i < ROUNDS; i++) {
        double each[2] = {seconds(hand), seconds(tenon)};
        for (int k = 0; k < 2; k++)
            best[k] = each[k] < best[k] ? each[k] : best[k];
    }
    printf("%-14s %8.2f GB/s %8.2f GB/s   %.2f x\n", name, 1e-9 * bytes / best[0],
           1e-9 * bytes / best[1], best[0] / best[1]);
}

int main(void)
{
    double hand = first(first_by_hand), tenon = first(first_by_tenon);
    if (!driver_open() || !device_open() || !buffers_make(1))
        return fprintf(stderr, "opencl: no OpenCL driver or no device\n"), 1;
    tn_device_set(tn_device_open("opencl"));
    a = tn_ones(tn_dims(1));
    b = tn_ones(tn_dims(1));
    printf("%-14s %13s %13s\n", "", "direct", "Tenon");
    printf("%-14s %8.1f ms   %8.1f ms\n", "first operator", 1e3 * hand,
           1e3 * tenon);
    hand = median(launch_by_hand);
    tenon = median(launch_by_tenon);
    printf("%-14s %8.2f us   %8.2f us     %+.2f us\n", "launch", 1e6 * hand,
           1e6 * tenon, 1e6 * (tenon - hand));
    a = tn_ones(tn_dims(ELEMENTS));
    b = tn_ones(tn_dims(ELEMENTS));
    host = calloc(ELEMENTS, sizeof *host);
    if (!host || !buffers_make(ELEMENTS))
        return fprintf(stderr, "opencl: out of memory\n"), 1;
    const double bytes = (double)ELEMENTS * sizeof *host;
    print_rates("add", 3 * bytes, add_by_hand, add_by_tenon);
    print_rates("to the device", bytes, write_by_hand, write_by_tenon);
    print_rates("to the host", bytes, read_by_hand, read_by_tenon);
    free(host);
    if (tn_error())
        return fprintf(stderr, "opencl: %s\n", tn_error()), 1;
    return 0;
}
