/* cuda.c: compares Tenon on a GPU with direct calls of the driver and of
 * cuBLASLt. Both are measured alternately, and the results are medians over the
 * rounds.
 *
 *     bench/cuda [--glance] [launch] [bandwidth] [matmul] [attention]
 *
 *   launch      host time to launch a kernel for one element, minus the host
 *               time of cuLaunchKernel alone. Bursts of launches are shorter
 *               than the driver's queue.
 *   bandwidth   kernel programs over tensors of 256 MiB, and their speed
 *               relative to a copy by the driver
 *   matmul      tn_matmul, and its speed relative to the first algorithm of
 *               cublasLtMatmul
 *   attention   forward, and with gradients; by cuDNN if the plugin uses it,
 *               with TENON_CUDA_ATTENTION=own by Tenon's kernels
 *
 * The program first prints the memory that an open device takes. --glance uses
 * small sizes, to test that everything runs. The program opens the libraries in
 * the same way as the plugin, so it builds without the CUDA toolkit. Constants
 * are those of cuda.h and cublasLt.h. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <time.h>

enum { ROUNDS = 15, BURST = 256, WORKSPACE = 32 << 20 };

static bool glance;

/* ---- the driver and cuBLASLt --------------------------------------------- */

typedef unsigned long long address; /* CUdeviceptr */

#define DRIVER_MAP(X)                                                         \
    X(Init, "cuInit", (unsigned flags))                                       \
    X(Retain, "cuDevicePrimaryCtxRetain", (void **context, int device))       \
    X(SetCurrent, "cuCtxSetCurrent", (void *context))                         \
    X(Alloc, "cuMemAlloc_v2", (address * to, size_t bytes))                   \
    X(Free, "cuMemFree_v2", (address at))                                     \
    X(ToDevice, "cuMemcpyHtoDAsync_v2",                                       \
      (address to, const void *from, size_t bytes, void *stream))             \
    X(MemInfo, "cuMemGetInfo_v2", (size_t *left, size_t *total))              \
    X(OnDevice, "cuMemcpyDtoDAsync_v2",                                       \
      (address to, address from, size_t bytes, void *stream))                 \
    X(Fill, "cuMemsetD8Async",                                                \
      (address to, unsigned char value, size_t bytes, void *stream))          \
    X(Stream, "cuStreamCreate", (void **stream, unsigned flags))              \
    X(Wait, "cuStreamSynchronize", (void *stream))                            \
    X(Module, "cuModuleLoadData", (void **module, const void *image))         \
    X(Function, "cuModuleGetFunction",                                        \
      (void **function, void *module, const char *name))                      \
    X(Launch, "cuLaunchKernel",                                               \
      (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,     \
       unsigned block_x, unsigned block_y, unsigned block_z,                  \
       unsigned shared_bytes, void *stream, void **parameters, void **extra))

/* cublasLtMatmulHeuristicResult_t */
typedef struct lt_found {
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
} lt_found;

#define LT_MAP(X)                                                             \
    X(Create, "cublasLtCreate", (void **handle))                              \
    X(Operation, "cublasLtMatmulDescCreate",                                  \
      (void **operation, int compute, int scale))                             \
    X(Layout, "cublasLtMatrixLayoutCreate",                                   \
      (void **layout, int type, uint64_t rows, uint64_t columns, int64_t ld)) \
    X(Preference, "cublasLtMatmulPreferenceCreate", (void **preference))      \
    X(Prefer, "cublasLtMatmulPreferenceSetAttribute",                         \
      (void *preference, int attribute, const void *value, size_t bytes))     \
    X(Choose, "cublasLtMatmulAlgoGetHeuristic",                               \
      (void *handle, void *operation, void *a, void *b, void *c, void *d,     \
       void *preference, int wanted, lt_found *found, int *count))            \
    X(Matmul, "cublasLtMatmul",                                               \
      (void *handle, void *operation, const void *alpha, const void *a,       \
       void *a_layout, const void *b, void *b_layout, const void *beta,       \
       const void *c, void *c_layout, void *d, void *d_layout,                \
       const uint64_t *algorithm, void *workspace, size_t workspace_bytes,    \
       void *stream))

#define FIELD(name, symbol, parameters) int(*name) parameters;
static struct {
    DRIVER_MAP(FIELD)
} cu;
static struct {
    LT_MAP(FIELD)
} lt;

static void *context, *stream, *add_function;

/* c[0] = a[0] + b[0] */
static const char add_text[] =
    ".version 6.3\n.target sm_75\n.address_size 64\n"
    ".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c)\n{\n"
    ".reg .b64 %rd<4>;\n.reg .f32 %f<4>;\n"
    "ld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [b];\n"
    "ld.param.u64 %rd3, [c];\n"
    "ld.global.f32 %f1, [%rd1];\nld.global.f32 %f2, [%rd2];\n"
    "add.rn.f32 %f3, %f1, %f2;\nst.global.f32 [%rd3], %f3;\nret;\n}\n";

/* Ends the program with an error if a direct call has failed. */
static void must(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "cuda: %s failed%s%s\n", what, tn_error() ? ": " : "",
            tn_error() ? tn_error() : "");
    exit(1);
}
#define MUST(call) must((call) == 0, #call)

static void find(void *library, const char *symbol, void *to)
{
    void *found = library ? dlsym(library, symbol) : NULL;
    must(found != NULL, symbol);
    memcpy(to, &found, sizeof found);
}
#define FIND_CU(name, symbol, parameters) find(library, symbol, &cu.name);
#define FIND_LT(name, symbol, parameters) find(library, symbol, &lt.name);

/* Opens the driver, with the device's primary context, which Tenon also uses.
 * Returns false if there is no driver or no device. Tenon then reports the
 * reason. */
static bool driver_open(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *module;
    if (!library)
        return false;
    DRIVER_MAP(FIND_CU)
    if (cu.Init(0) || cu.Retain(&context, 0))
        return false;
    MUST(cu.SetCurrent(context));
    MUST(cu.Stream(&stream, 1));
    MUST(cu.Module(&module, add_text));
    MUST(cu.Function(&add_function, module, "add"));
    return true;
}

/* Opens cuBLASLt. Must be called after Tenon's first product: Tenon has then
 * loaded the library, and dlopen by name finds the same file. */
static void *lt_open(void)
{
    void *library = NULL, *handle;
    for (int major = 13; major >= 11 && !library; major--) {
        char name[32];
        snprintf(name, sizeof name, "libcublasLt.so.%d", major);
        library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (!library)
        return NULL;
    LT_MAP(FIND_LT)
    MUST(lt.Create(&handle));
    return handle;
}

/* ---- times --------------------------------------------------------------- */

typedef void work(void);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void wait_for_all(void)
{
    MUST(cu.Wait(stream));
    tn_device_synchronize(NULL);
    must(!tn_error(), "Tenon");
    MUST(cu.SetCurrent(context));
}

/* Returns the seconds for each call. If `done` is true, this includes the wait
 * for the device; otherwise it is the host's time to submit the calls. */
static double sample(work *call, int calls, bool done)
{
    wait_for_all();
    double begun = now();
    for (int i = 0; i < calls; i++)
        call();
    double asked = now();
    wait_for_all();
    return ((done ? now() : asked) - begun) / calls;
}

static int by_size(const void *left, const void *right)
{
    const double *x = left, *y = right;
    return (*x > *y) - (*x < *y);
}

/* Stores in taken[] the median times of both calls, which are measured
 * alternately. The second call may be NULL. */
static void measure(work *call[2], bool done, double taken[2])
{
    double time[2][ROUNDS];
    int calls[2] = {BURST, BURST}, rounds = glance ? 1 : ROUNDS;
    for (int k = 0; k < 2 && call[k]; k++) {
        sample(call[k], 3, true);
        double each = sample(call[k], 3, true);
        if (done)
            calls[k] = glance ? 1 : (int)(20e-3 / each) + 1;
    }
    for (int r = 0; r < rounds; r++)
        for (int k = 0; k < 2 && call[k]; k++)
            time[k][r] = sample(call[k], calls[k], done);
    for (int k = 0; k < 2 && call[k]; k++) {
        qsort(time[k], (size_t)rounds, sizeof *time[k], by_size);
        taken[k] = time[k][rounds / 2];
    }
}

/* ---- what is timed ------------------------------------------------------- */

static tn_tensor *a, *b, *c, *row;
static address memory[3];
static size_t copied; /* bytes */

#define BY_TENON(name, ...)                                                   \
    static void name(void)                                                    \
    {                                                                         \
        tn_scope *scope = tn_scope_open();                                    \
        TN_NO_GRAD { __VA_ARGS__; }                                           \
        tn_scope_close(scope);                                                \
    }

static void launch_by_hand(void)
{
    void *parameters[] = {&memory[0], &memory[1], &memory[2]};
    cu.Launch(add_function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
}

static void copy_by_hand(void)
{
    cu.OnDevice(memory[1], memory[0], copied, stream);
}

BY_TENON(copy, tn_clone(a))
BY_TENON(add, tn_add(a, b))
BY_TENON(scale, tn_mul_scalar(a, 2))
BY_TENON(exponential, tn_exp(a))
BY_TENON(gelu, tn_gelu(a))
BY_TENON(add_row, tn_add(a, row))
BY_TENON(to_half, tn_to_dtype(a, TN_F16))
BY_TENON(sum_all, tn_sum(a))
BY_TENON(sum_rows, tn_sum(a, .dim = 1))
BY_TENON(sum_columns, tn_sum(a, .dim = 0))
BY_TENON(softmax, tn_softmax(a, 1))
BY_TENON(softmax_long,
         tn_softmax(tn_reshape(a, tn_dims(4, tn_tensor_numel(a) / 4)), 1))
BY_TENON(log_softmax, tn_log_softmax(a, 1))
BY_TENON(layer_norm,
         tn_layer_norm(a, tn_dims(tn_tensor_size(a, 1)), row, row))
BY_TENON(transpose, tn_contiguous(tn_transpose(a, 0, 1)))
BY_TENON(cumsum_rows, tn_cumsum(a, 1))
static tn_tensor *places; /* the indices that a sort returns: 8 bytes for each
                           * element */
BY_TENON(sort_all, tn_sort(tn_reshape(a, tn_dims(-1)), 0, false, &places))
BY_TENON(sort_rows,
         tn_sort(tn_reshape(a, tn_dims(-1, 1024)), 1, false, &places))
BY_TENON(first_of_all,
         tn_topk(tn_reshape(a, tn_dims(-1)), 100, 0, true, true, &places))
static tn_tensor *ids, *columns_of_rows; /* a permutation of row indices; random
                                          * column indices */
BY_TENON(index_select, tn_index_select(a, 0, ids))
BY_TENON(index_add, tn_index_add(a, 0, ids, b))
BY_TENON(scatter_add, tn_scatter_add(a, 1, columns_of_rows, b))
BY_TENON(matmul, tn_matmul(a, b))
BY_TENON(attend,
         tn_scaled_dot_product_attention(a, b, c, NULL, .is_causal = true))

/* Gathers rows ids[i] of a and computes the gradient with respect to a. */
static void embedding_back(void)
{
    tn_tensor *gradient;
    tn_scope *scope = tn_scope_open();
    tn_tensor *weight = tn_requires_grad(tn_detach(a));
    tn_grad(tn_embedding(ids, weight), &weight, 1, &gradient, .gradient = b);
    tn_scope_close(scope);
}

static void attend_back(void)
{
    tn_tensor *in[] = {a, b, c}, *gradient[3];
    tn_scope *scope = tn_scope_open();
    tn_tensor *out =
        tn_scaled_dot_product_attention(a, b, c, NULL, .is_causal = true);
    tn_grad(out, in, 3, gradient, .gradient = a);
    tn_scope_close(scope);
}

/* ---- parts --------------------------------------------------------------- */

static void measure_launch(void)
{
    double time[2];
    tn_scope *scope = tn_scope_open();
    a = b = tn_ones(tn_dims(1));
    for (int i = 0; i < 3; i++) {
        MUST(cu.Alloc(&memory[i], sizeof(float)));
        MUST(cu.Fill(memory[i], 0, sizeof(float), stream));
    }
    measure((work *[]){launch_by_hand, add}, false, time);
    printf(
        "launch: cuLaunchKernel %.2f us, tn_add %.2f us, difference %+.2f us\n",
        1e6 * time[0], 1e6 * time[1], 1e6 * (time[1] - time[0]));
    for (int i = 0; i < 3; i++)
        MUST(cu.Free(memory[i]));
    tn_scope_close(scope);
}

static const struct program {
    const char *name;
    work *call;
    double floats; /* elements read and written, in multiples of a tensor's
                    * element count */
} programs[] = {
    {"clone", copy, 2},           {"add", add, 3},
    {"mul_scalar", scale, 2},     {"exp", exponential, 2},
    {"gelu", gelu, 2},            {"add row", add_row, 2},
    {"to float16", to_half, 1.5}, {"sum", sum_all, 1},
    {"sum rows", sum_rows, 1},    {"sum columns", sum_columns, 1},
    {"softmax", softmax, 2},      {"log_softmax", log_softmax, 2},
    {"layer_norm", layer_norm, 2}, {"transpose", transpose, 2},
    {"cumsum rows", cumsum_rows, 2},
    {"softmax of 4 rows", softmax_long, 2},
    {"sort of all", sort_all, 4}, {"sort of rows of 1024", sort_rows, 4},
    {"topk 100 of all", first_of_all, 1},
    {"index_select", index_select, 2},
    /* copies a to the result; then reads b, and reads and writes the result */
    {"index_add", index_add, 5},
    {"embedding, back", embedding_back, 6}, /* fills the result with zeros
                                             * instead of copying */
    {"scatter_add", scatter_add, 7},        /* an int64 index counts as two
                                             * floats */
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static void measure_bandwidth(void)
{
    const int64_t rows = glance ? 16 : 16384, columns = glance ? 256 : 4096;
    tn_scope *scope = tn_scope_open();
    copied = sizeof(float) * (size_t)(rows * columns);
    a = tn_randn(tn_dims(rows, columns));
    b = tn_randn(tn_dims(rows, columns));
    row = tn_randn(tn_dims(columns));
    ids = tn_randperm(rows, .dtype = TN_I64);
    columns_of_rows = tn_randint(0, columns, tn_dims(rows, columns), .dtype = TN_I64);
    for (int i = 0; i < 2; i++) {
        MUST(cu.Alloc(&memory[i], copied));
        MUST(cu.Fill(memory[i], 0, copied, stream));
    }
    printf("%-22s %9s %9s %s\n", "bandwidth", "us", "GB/s", "of the copy's");
    for (int i = 0; i < PROGRAMS; i++) {
        double time[2];
        measure((work *[]){copy_by_hand, programs[i].call}, true, time);
        double copy_rate = 2 * (double)copied / time[0];
        double rate = programs[i].floats * (double)copied / time[1];
        if (i == 0)
            printf("%-22s %9.1f %9.1f\n", "cuMemcpyDtoDAsync", 1e6 * time[0],
                   1e-9 * copy_rate);
        printf("%-22s %9.1f %9.1f %5.1f %%\n", programs[i].name, 1e6 * time[1],
               1e-9 * rate, 100 * rate / copy_rate);
    }
    for (int i = 0; i < 2; i++)
        MUST(cu.Free(memory[i]));
    tn_scope_close(scope);
}

/* Computes a product of square matrices by cublasLtMatmul. cuBLASLt reads
 * row-major matrices as transposed column-major ones, so it is called for b a,
 * whose result is the transpose of a b. */
static struct {
    void *handle, *operation, *layout;
    lt_found found;
    address workspace;
} product;

static void matmul_by_hand(void)
{
    const float one = 1, zero = 0;
    void *at[3];
    for (int i = 0; i < 3; i++)
        at[i] = (void *)(uintptr_t)memory[i];
    lt.Matmul(product.handle, product.operation, &one, at[1], product.layout,
              at[0], product.layout, &zero, at[2], product.layout, at[2],
              product.layout, product.found.algorithm,
              (void *)(uintptr_t)product.workspace, WORKSPACE, stream);
}

static bool product_open(int type, int64_t n)
{
    enum { COMPUTE_32F = 68, R_32F = 0, MAX_WORKSPACE = 1 };
    const size_t room = WORKSPACE;
    void *preference, *layout;
    int count = 0;
    MUST(lt.Operation(&product.operation, COMPUTE_32F, R_32F));
    MUST(lt.Layout(&layout, type, (uint64_t)n, (uint64_t)n, n));
    product.layout = layout;
    MUST(lt.Preference(&preference));
    MUST(lt.Prefer(preference, MAX_WORKSPACE, &room, sizeof room));
    return lt.Choose(product.handle, product.operation, layout, layout, layout,
                     layout, preference, 1, &product.found, &count) == 0 &&
           count > 0;
}

static void measure_matmul(void)
{
    static const struct {
        const char *name;
        tn_dtype dtype;
        int type; /* cudaDataType */
    } types[] = {{"float32", TN_F32, 0},
                 {"float16", TN_F16, 2},
                 {"bfloat16", TN_BF16, 14}};
    printf("%-22s %9s %9s %9s %s\n", "matmul", "us", "TFLOP/s", "direct",
           "direct / Tenon");
    for (int t = 0; t < 3; t++)
        for (int64_t n = glance ? 64 : 512; n <= (glance ? 64 : 8192); n *= 2) {
            tn_scope *scope = tn_scope_open();
            double time[2] = {0}, flops = 2. * (double)(n * n * n);
            a = tn_to_dtype(tn_randn(tn_dims(n, n)), types[t].dtype);
            b = tn_to_dtype(tn_randn(tn_dims(n, n)), types[t].dtype);
            matmul();
            wait_for_all();
            if (!product.handle) {
                product.handle = lt_open();
                if (product.handle)
                    MUST(cu.Alloc(&product.workspace, WORKSPACE));
            }
            size_t bytes = tn_dtype_bytes(types[t].dtype) * (size_t)(n * n);
            void *host = malloc(bytes);
            must(host != NULL, "malloc");
            tn_tensor *const from[] = {a, b, a};
            for (int i = 0; i < 3; i++) {
                MUST(tn_tensor_to_array(from[i], host, bytes));
                MUST(cu.Alloc(&memory[i], bytes));
                MUST(cu.ToDevice(memory[i], host, bytes, stream));
                MUST(cu.Wait(stream));
            }
            free(host);
            work *hand = product.handle && product_open(types[t].type, n)
                             ? matmul_by_hand
                             : NULL;
            measure((work *[]){matmul, hand}, true, time);
            char name[32];
            snprintf(name, sizeof name, "%s %lld", types[t].name, (long long)n);
            printf("%-22s %9.1f %9.1f", name, 1e6 * time[0],
                   1e-12 * flops / time[0]);
            if (hand)
                printf(" %9.1f %5.1f %%\n", 1e-12 * flops / time[1],
                       100 * time[1] / time[0]);
            else
                printf(" %9s\n", "none");
            for (int i = 0; i < 3; i++)
                MUST(cu.Free(memory[i]));
            tn_scope_close(scope);
        }
}

static void measure_attention(void)
{
    static const int64_t shapes[][4] = {/* {batch, heads, length, features} */
                                        {16, 16, 1024, 64},
                                        {2, 16, 4096, 128},
                                        {1, 2, 128, 64}};
    static const tn_dtype types[] = {TN_BF16, TN_F16, TN_F32};
    printf("%-32s %9s %9s %9s %9s\n", "attention, causal", "us", "TFLOP/s",
           "back us", "TFLOP/s");
    for (int t = 0; t < 3; t++)
        for (int s = glance ? 2 : 0; s < (glance ? 3 : 2); s++) {
            tn_scope *scope = tn_scope_open();
            double time[2];
            const int64_t *n = shapes[s];
            tn_tensor **in[] = {&a, &b, &c};
            for (int i = 0; i < 3; i++)
                *in[i] = tn_requires_grad(tn_to_dtype(
                    tn_randn(tn_dims(n[0], n[1], n[2], n[3])), types[t]));
            /* The forward pass has two products. The causal mask removes half
             * of their work. The gradients need five products. */
            double flops =
                2. * (double)(n[0] * n[1]) * (double)(n[2] * n[2] * n[3]);
            measure((work *[]){attend, attend_back}, true, time);
            double back = time[1] - time[0];
            char name[64];
            snprintf(name, sizeof name, "%s %lldx%lldx%lldx%lld",
                     tn_dtype_name(types[t]), (long long)n[0], (long long)n[1],
                     (long long)n[2], (long long)n[3]);
            printf("%-32s %9.1f %9.1f %9.1f %9.1f\n", name, 1e6 * time[0],
                   1e-12 * flops / time[0], 1e6 * back,
                   1e-12 * 2.5 * flops / back);
            tn_scope_close(scope);
        }
}

static const struct part {
    const char *name;
    void (*run)(void);
} parts[] = {{"launch", measure_launch},
             {"bandwidth", measure_bandwidth},
             {"matmul", measure_matmul},
             {"attention", measure_attention}};
enum { PARTS = sizeof parts / sizeof *parts };

int main(int argc, char **argv)
{
    bool wanted[PARTS] = {0}, any = false;
    for (int i = 1; i < argc; i++) {
        int p = 0;
        if (strcmp(argv[i], "--glance") == 0) {
            glance = true;
            continue;
        }
        while (p < PARTS && strcmp(argv[i], parts[p].name) != 0)
            p++;
        if (p == PARTS) {
            fprintf(stderr, "usage: cuda [--glance] [launch] [bandwidth] "
                            "[matmul] [attention]\n");
            return 2;
        }
        wanted[p] = any = true;
    }
    size_t bare = 0, left, total;
    bool driver = driver_open();
    if (driver)
        MUST(cu.MemInfo(&bare, &total));
    tn_device *device = tn_device_open("cuda:0");
    if (!device || tn_device_set(device))
        return fprintf(stderr, "cuda: %s\n", tn_error()), 1;
    must(driver, "a direct call of the driver");
    wait_for_all();
    MUST(cu.MemInfo(&left, &total));
    printf("%s\nmemory of the open device without tensors: %.1f MiB more than "
           "a bare context\n",
           tn_device_description(device),
           ((double)bare - (double)left) / (1 << 20));
    for (int p = 0; p < PARTS; p++)
        if (!any || wanted[p]) {
            parts[p].run();
            fflush(stdout);
        }
    return 0;
}
