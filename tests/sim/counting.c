/* counting.c: a libcuda.so.1 for bench/sass.py, which counts the work of
 * kernels without a GPU. Every call succeeds. The PTX interpreter runs a few
 * thread blocks of each launch and counts the warp instructions, and the
 * 32-byte sectors of global memory that each access of a warp covers. These
 * counts are scaled to the whole grid. Results of kernels are wrong, since most
 * blocks do not run and memory contains zeros at first. Therefore tensors of
 * indices must be copied from the host.
 *
 *   SASS_FOLDER  the output folder: NN.ptx, the PTX of each module, and
 *                log.tsv, with these lines:
 *     case NAME ELEMENTS BYTES   (the minimum that it must read and write)
 *     launch MODULE KERNEL GRID BLOCK SHARED INSTRUCTIONS LOADS LOAD_BYTES
 *         LOAD_SECTORS STORES STORE_BYTES STORE_SECTORS READ_BYTES WRITE_BYTES
 *     copy BYTES           (read and written)
 *     product              (a call of the simulated cuBLASLt in this file)
 *                LOADS and STORES count threads, 32 for an access of a warp.
 *                READ_BYTES and WRITE_BYTES count each sector once.
 *   SASS_ARCH    the compute capability (90: 9.0)
 *   SASS_UNITS   the number of multiprocessors (132) */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../backends/cuda/cublaslt.h"
#include "sim.h"

enum { SAMPLE = 2, SMALL_GRID = 32, SECTOR = 32, BLOCKS = 1 << 16,
       SMALL_COPY = 64 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *out;

bool sim_lock(void)
{
    return pthread_mutex_lock(&lock) == 0;
}

void sim_unlock(const bool *holds)
{
    if (*holds)
        pthread_mutex_unlock(&lock);
}

tn_cu_result sim_refuse(tn_cu_result error, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("sass: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    return error;
}

unsigned sim_random(unsigned limit)
{
    (void)limit;
    return 0;
}

static int number_of(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    return text ? atoi(text) : otherwise;
}

/* Opens a file of SASS_FOLDER. Ends the process if that fails, since no results
 * could be written. */
static FILE *file_of(const char *name)
{
    const char *folder = getenv("SASS_FOLDER");
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "", name);
    FILE *file = folder ? fopen(path, "w") : NULL;
    if (!file) {
        fprintf(stderr, "sass: SASS_FOLDER is no folder: %s\n", path);
        exit(1);
    }
    return file;
}

/* Starts a case; the following launches belong to it. */
EXPORT void sass_case(const char *name, double elements, double least);
void sass_case(const char *name, double elements, double least)
{
    HOLD();
    fprintf(out, "case\t%s\t%.0f\t%.0f\n", name, elements, least);
    fflush(out);
}

/* ---- memory: pages of this process, allocated when first accessed -------- */

typedef struct block {
    uint64_t at;
    size_t bytes;
    uint64_t seen[2]; /* number of sectors read and written */
} block;
static block blocks[BLOCKS]; /* sorted by address */
static size_t block_count;

/* Returns the index of the first block that ends after this address. */
static size_t block_after(uint64_t at)
{
    size_t low = 0, high = block_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (blocks[middle].at + blocks[middle].bytes > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static block *block_of(uint64_t at, size_t bytes)
{
    const size_t b = block_after(at);
    return b < block_count && blocks[b].at <= at &&
                   at + bytes <= blocks[b].at + blocks[b].bytes
               ? &blocks[b]
               : NULL;
}

tn_cu_result cuMemAlloc_v2(tn_cu_pointer *pointer, size_t bytes)
{
    HOLD();
    void *at = block_count < BLOCKS
                   ? mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                   : MAP_FAILED;
    if (at == MAP_FAILED)
        return TN_CU_OUT_OF_MEMORY;
    *pointer = (uint64_t)(uintptr_t)at;
    const size_t b = block_after(*pointer);
    memmove(&blocks[b + 1], &blocks[b], (block_count - b) * sizeof *blocks);
    blocks[b] = (block){.at = *pointer, .bytes = bytes};
    block_count++;
    return 0;
}

tn_cu_result cuMemFree_v2(tn_cu_pointer pointer)
{
    HOLD();
    const block *found = block_of(pointer, 0);
    if (!found)
        return TN_CU_INVALID_VALUE;
    const size_t b = (size_t)(found - blocks);
    munmap((void *)(uintptr_t)pointer, blocks[b].bytes);
    block_count--;
    memmove(&blocks[b], &blocks[b + 1], (block_count - b) * sizeof *blocks);
    return 0;
}

tn_cu_result cuMemGetInfo_v2(size_t *left, size_t *total)
{
    *left = *total = (size_t)140 << 30;
    return 0;
}

tn_cu_result cuMemHostAlloc(void **host, size_t bytes, unsigned flags)
{
    (void)flags;
    *host = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *host ? 0 : TN_CU_OUT_OF_MEMORY;
}

tn_cu_result cuMemFreeHost(void *pointer)
{
    free(pointer);
    return 0;
}

/* ---- counting the accesses of thread blocks ------------------------------ */

enum { READ, WRITE };
typedef struct tally {
    uint64_t instructions, accesses[2], bytes[2], sectors[2], once[2];
} tally;
static tally now;

/* Set of accessed sectors: a hash table with open addressing. */
static uint64_t *touched;
static size_t touched_room, touched_count;

static bool touch_first(uint64_t key)
{
    const size_t mask = touched_room - 1;
    size_t i = (size_t)(key * 0x9e3779b97f4a7c15u >> 20) & mask;
    while (touched[i] && touched[i] != key)
        i = (i + 1) & mask;
    if (touched[i])
        return false;
    touched[i] = key;
    touched_count++;
    return true;
}

static bool touched_grow(void)
{
    const size_t old_room = touched_room;
    uint64_t *old = touched;
    if (2 * touched_count < touched_room)
        return true;
    touched_room = old_room ? 2 * old_room : 1 << 16;
    touched = calloc(touched_room, sizeof *touched);
    if (!touched)
        return false;
    touched_count = 0;
    for (size_t i = 0; i < old_room; i++)
        if (old[i])
            touch_first(old[i]);
    free(old);
    return true;
}

/* Counts an access of a warp (lanes is 32, including inactive threads) or of
 * one thread (1). A sector that the access covers several times counts once. */
static void count_access(int how, const uint64_t *at, unsigned count,
                         size_t bytes, unsigned lanes)
{
    uint64_t sector[32 * 16];
    unsigned sectors = 0;
    now.accesses[how] += lanes;
    now.bytes[how] += count * bytes;
    for (unsigned n = 0; n < count; n++)
        for (uint64_t s = at[n] / SECTOR; s <= (at[n] + bytes - 1) / SECTOR;
             s++) {
            unsigned i = sectors;
            while (i > 0 && sector[i - 1] != s)
                i--;
            if (i == 0)
                sector[sectors++] = s;
        }
    now.sectors[how] += sectors;
    for (unsigned i = 0; i < sectors; i++) {
        block *b = block_of(sector[i] * SECTOR, 1);
        if (b && touched_grow() && touch_first(2 * sector[i] + (unsigned)how))
            b->seen[how]++;
    }
}

/* Memory for accesses outside of all blocks, which happen because missing
 * results lead to arbitrary addresses. */
static unsigned char nowhere[256];

void *sim_memory_at(const sim_actor *actor, int how, const char *what,
                    tn_cu_pointer at, size_t bytes, tn_cu_result *error)
{
    (void)actor, (void)what, (void)error;
    const uint64_t one = at;
    count_access(how == SIM_READ ? READ : WRITE, &one, 1, bytes, 1);
    /* Only atomic instructions write through this function. Kernels report
     * indices out of range by them. This driver computes wrong numbers, so such
     * reports are expected, and they are written to a dummy address. */
    return how == SIM_READ && block_of(at, bytes) ? (void *)(uintptr_t)at
                                                  : nowhere;
}

void sim_memory_lanes(const sim_actor *actor, bool writes, const uint64_t *at,
                      unsigned count, size_t bytes, unsigned char **to)
{
    (void)actor;
    count_access(writes ? WRITE : READ, at, count, bytes, 32);
    for (unsigned n = 0; n < count; n++)
        to[n] = block_of(at[n], bytes) ? (unsigned char *)(uintptr_t)at[n]
                                       : nowhere;
}

/* ---- modules and launches ------------------------------------------------ */

struct CUmod_st {
    int number;
    ptx_module *module;
};
struct CUfunc_st {
    struct CUmod_st *of;
    const ptx_kernel *kernel;
    char name[128];
    struct launched *launched; /* earlier launches, whose counts are known */
};

/* A launch, for comparison with later ones that have the same arguments except
 * for their buffers. */
typedef struct launched {
    struct launched *older;
    unsigned grid, block;
    tally counts;
    unsigned char words[];
} launched;

tn_cu_result cuModuleLoadData(tn_cu_module *module, const void *image)
{
    static int number;
    char name[32];
    HOLD();
    struct CUmod_st *m = calloc(1, sizeof *m);
    m->module = m ? ptx_load(image) : NULL;
    if (!m || !m->module)
        return TN_CU_INVALID_PTX;
    m->number = number++;
    snprintf(name, sizeof name, "%03d.ptx", m->number);
    FILE *text = file_of(name);
    fputs(image, text);
    fclose(text);
    *module = m;
    return 0;
}

tn_cu_result cuModuleUnload(tn_cu_module module)
{
    ptx_free(module->module);
    free(module);
    return 0;
}

tn_cu_result cuModuleGetFunction(tn_cu_function *function, tn_cu_module module,
                                 const char *name)
{
    struct CUfunc_st *f = calloc(1, sizeof *f);
    if (!f || !(f->kernel = ptx_find(module->module, name)))
        return TN_CU_NOT_FOUND;
    f->of = module;
    snprintf(f->name, sizeof f->name, "%s", name);
    *function = f;
    return 0;
}

static void scale(uint64_t *count, double by)
{
    *count = (uint64_t)((double)*count * by + 0.5);
}

static tn_cu_result count_launch(const ptx_launch *launch, tally *counts)
{
    static const sim_actor nobody;
    const unsigned run = launch->grid > SMALL_GRID ? SAMPLE : launch->grid;
    const double by = (double)launch->grid / run;
    now = (tally){0};
    if (touched)
        memset(touched, 0, touched_room * sizeof *touched);
    touched_count = 0;
    for (size_t b = 0; b < block_count; b++)
        blocks[b].seen[READ] = blocks[b].seen[WRITE] = 0;
    ptx_launch sampled = *launch;
    sampled.sample = run;
    sampled.steps = &now.instructions;
    const tn_cu_result error = ptx_run(&sampled, &nobody);
    scale(&now.instructions, by);
    for (int how = READ; how <= WRITE; how++) {
        scale(&now.accesses[how], by);
        scale(&now.bytes[how], by);
        scale(&now.sectors[how], by);
        for (size_t b = 0; b < block_count; b++) {
            const uint64_t most = (blocks[b].bytes + SECTOR - 1) / SECTOR;
            scale(&blocks[b].seen[how], by);
            now.once[how] += SECTOR * (blocks[b].seen[how] < most
                                           ? blocks[b].seen[how]
                                           : most);
        }
    }
    *counts = now;
    return error;
}

/* Returns the counts of a launch; those of an earlier launch if it had the same
 * arguments. */
static tn_cu_result counts_of(tn_cu_function f, ptx_launch *launch,
                              const unsigned char *words, size_t bytes,
                              tally *counts)
{
    for (const launched *l = f->launched; l && bytes; l = l->older)
        if (l->grid == launch->grid && l->block == launch->block &&
            memcmp(l->words, words, bytes) == 0) {
            *counts = l->counts;
            return 0;
        }
    const tn_cu_result error = count_launch(launch, counts);
    launched *l = malloc(sizeof *l + bytes);
    if (error || !l)
        return error ? error : TN_CU_OUT_OF_MEMORY;
    *l = (launched){f->launched, launch->grid, launch->block, *counts};
    memcpy(l->words, words, bytes);
    f->launched = l;
    return 0;
}

tn_cu_result cuLaunchKernel(tn_cu_function f, unsigned gx, unsigned gy,
                            unsigned gz, unsigned bx, unsigned by, unsigned bz,
                            unsigned shared, tn_cu_stream stream,
                            void **parameters, void **extra)
{
    size_t count;
    const size_t *offset, *bytes;
    HOLD();
    (void)gy, (void)gz, (void)by, (void)bz, (void)stream, (void)extra;
    const size_t total = ptx_parameters(f->kernel, &count, &offset, &bytes);
    unsigned char *values = malloc(total + 1);
    if (!values)
        return TN_CU_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        memcpy(values + offset[i], parameters[i], bytes[i]);
    /* The last parameter is the struct of argument words, unless they are in a
     * buffer. */
    const size_t words = count && bytes[count - 1] > 8 ? bytes[count - 1] : 0;
    ptx_launch launch = {f->kernel, gx, bx, values, 0, NULL};
    tally t = {0};
    const tn_cu_result error = counts_of(
        f, &launch, values + (words ? offset[count - 1] : 0), words, &t);
    free(values);
    fprintf(out,
            "launch\t%03d\t%s\t%u\t%u\t%u\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu"
            "\t%llu\t%llu\t%llu\n",
            f->of->number, f->name, gx, bx, shared,
            (unsigned long long)t.instructions,
            (unsigned long long)t.accesses[READ],
            (unsigned long long)t.bytes[READ],
            (unsigned long long)t.sectors[READ],
            (unsigned long long)t.accesses[WRITE],
            (unsigned long long)t.bytes[WRITE],
            (unsigned long long)t.sectors[WRITE],
            (unsigned long long)t.once[READ],
            (unsigned long long)t.once[WRITE]);
    fflush(out);
    return error;
}

/* ---- copies -------------------------------------------------------------- */

static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes <= SMALL_COPY)
        memcpy(to, from, bytes);
}

tn_cu_result cuMemcpyHtoDAsync_v2(tn_cu_pointer dst, const void *src,
                                  size_t bytes, tn_cu_stream stream)
{
    (void)stream;
    copy((void *)(uintptr_t)dst, src, bytes);
    return 0;
}

tn_cu_result cuMemcpyDtoHAsync_v2(void *dst, tn_cu_pointer src, size_t bytes,
                                  tn_cu_stream stream)
{
    (void)stream;
    copy(dst, (const void *)(uintptr_t)src, bytes);
    return 0;
}

static tn_cu_result copied(size_t bytes)
{
    HOLD();
    fprintf(out, "copy\t%zu\n", bytes);
    return 0;
}

tn_cu_result cuMemcpyDtoDAsync_v2(tn_cu_pointer dst, tn_cu_pointer src,
                                  size_t bytes, tn_cu_stream stream)
{
    (void)stream;
    copy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes);
    return copied(2 * bytes);
}

tn_cu_result cuMemcpy2DAsync_v2(const tn_cu_rectangle *rectangle,
                                tn_cu_stream stream)
{
    (void)stream;
    return copied(2 * rectangle->width * rectangle->height);
}

tn_cu_result cuMemsetD8Async(tn_cu_pointer pointer, unsigned char value,
                             size_t bytes, tn_cu_stream stream)
{
    (void)stream;
    if (bytes <= SMALL_COPY)
        memset((void *)(uintptr_t)pointer, value, bytes);
    return copied(bytes);
}

/* ---- the device ---------------------------------------------------------- */

tn_cu_result cuInit(unsigned flags)
{
    HOLD();
    (void)flags;
    if (!out)
        out = file_of("log.tsv");
    return 0;
}

tn_cu_result cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

tn_cu_result cuDeviceGetCount(int *count)
{
    *count = 1;
    return 0;
}

tn_cu_result cuDeviceGetName(char *name, int room, tn_cu_device device)
{
    (void)device;
    snprintf(name, (size_t)room, "no GPU");
    return 0;
}

tn_cu_result cuDeviceTotalMem_v2(size_t *bytes, tn_cu_device device)
{
    (void)device;
    return cuMemGetInfo_v2(bytes, bytes);
}

tn_cu_result cuDeviceGetAttribute(int *value, int attribute,
                                  tn_cu_device device)
{
    const int arch = number_of("SASS_ARCH", 90);
    (void)device;
    *value = attribute == TN_CU_MAJOR                   ? arch / 10
             : attribute == TN_CU_MINOR                 ? arch % 10
             : attribute == TN_CU_MAX_THREADS_PER_BLOCK ? 1024
             : attribute == TN_CU_SHARED_PER_BLOCK      ? 49152
             : attribute == TN_CU_MULTIPROCESSORS ? number_of("SASS_UNITS", 132)
                                                  : 0;
    return 0;
}

/* NVRTC opens any libcuda.so.1 and calls this function. */
EXPORT tn_cu_result cuGetExportTable(const void **table,
                                     const tn_cu_uuid *uuid);
tn_cu_result cuGetExportTable(const void **table, const tn_cu_uuid *uuid)
{
    (void)uuid;
    *table = NULL;
    return TN_CU_NOT_FOUND;
}

/* Functions that always succeed without checking arguments. A handle that they
 * return is the address of this byte. */
static char handle;
#define SUCCEEDS(name, parameters, ...)                                       \
    tn_cu_result name parameters                                              \
    {                                                                         \
        __VA_ARGS__;                                                          \
        return 0;                                                             \
    }
SUCCEEDS(cuGetErrorName, (tn_cu_result error, const char **name),
         (void)error, *name = "error")
SUCCEEDS(cuGetErrorString, (tn_cu_result error, const char **text),
         (void)error, *text = "an error")
SUCCEEDS(cuDeviceGet, (tn_cu_device *device, int ordinal), *device = ordinal)
SUCCEEDS(cuDeviceGetUuid, (tn_cu_uuid *uuid, tn_cu_device device),
         (void)device, memset(uuid, 1, sizeof *uuid))
SUCCEEDS(cuDeviceGetUuid_v2, (tn_cu_uuid *uuid, tn_cu_device device),
         (void)device, memset(uuid, 1, sizeof *uuid))
SUCCEEDS(cuDevicePrimaryCtxRetain, (tn_cu_context *context, tn_cu_device device),
         (void)device, *context = (tn_cu_context)&handle)
SUCCEEDS(cuDevicePrimaryCtxRelease_v2, (tn_cu_device device), (void)device)
SUCCEEDS(cuCtxGetCurrent, (tn_cu_context *context),
         *context = (tn_cu_context)&handle)
SUCCEEDS(cuCtxSetCurrent, (tn_cu_context context), (void)context)
SUCCEEDS(cuMemcpyPeerAsync,
         (tn_cu_pointer dst, tn_cu_context to, tn_cu_pointer src,
          tn_cu_context from, size_t bytes, tn_cu_stream stream),
         (void)dst, (void)to, (void)src, (void)from, (void)bytes, (void)stream)
SUCCEEDS(cuCtxEnablePeerAccess, (tn_cu_context peer, unsigned flags),
         (void)peer, (void)flags)
SUCCEEDS(cuStreamCreate, (tn_cu_stream *stream, unsigned flags),
         (void)flags, *stream = (tn_cu_stream)&handle)
SUCCEEDS(cuStreamDestroy_v2, (tn_cu_stream stream), (void)stream)
SUCCEEDS(cuStreamSynchronize, (tn_cu_stream stream), (void)stream)
SUCCEEDS(cuStreamWaitEvent,
         (tn_cu_stream stream, tn_cu_event event, unsigned flags),
         (void)stream, (void)event, (void)flags)
SUCCEEDS(cuEventCreate, (tn_cu_event *event, unsigned flags),
         (void)flags, *event = (tn_cu_event)&handle)
SUCCEEDS(cuEventDestroy_v2, (tn_cu_event event), (void)event)
SUCCEEDS(cuEventRecord, (tn_cu_event event, tn_cu_stream stream),
         (void)event, (void)stream)
SUCCEEDS(cuEventQuery, (tn_cu_event event), (void)event)
SUCCEEDS(cuEventElapsedTime,
         (float *milliseconds, tn_cu_event from, tn_cu_event to),
         (void)from, (void)to, *milliseconds = 1)
SUCCEEDS(cuStreamBeginCapture_v2, (tn_cu_stream stream, int mode),
         (void)stream, (void)mode)
SUCCEEDS(cuStreamEndCapture, (tn_cu_stream stream, tn_cu_graph *graph),
         (void)stream, *graph = (tn_cu_graph)&handle)
SUCCEEDS(cuGraphInstantiateWithFlags,
         (tn_cu_graph_exec *exec, tn_cu_graph graph, unsigned long long flags),
         (void)graph, (void)flags, *exec = (tn_cu_graph_exec)&handle)
SUCCEEDS(cuStreamGetCaptureInfo_v2,
         (tn_cu_stream stream, int *status, unsigned long long *id,
          tn_cu_graph *graph, const tn_cu_graph_node **nodes, size_t *count),
         (void)stream, (void)status, (void)id, (void)graph, (void)nodes,
         (void)count)
SUCCEEDS(cuGraphExecKernelNodeSetParams,
         (tn_cu_graph_exec exec, tn_cu_graph_node node,
          const tn_cu_kernel_node *launch),
         (void)exec, (void)node, (void)launch)
SUCCEEDS(cuGraphExecUpdate,
         (tn_cu_graph_exec exec, tn_cu_graph graph, void **node, int *result),
         (void)exec, (void)graph, (void)node, (void)result)
SUCCEEDS(cuGraphLaunch, (tn_cu_graph_exec exec, tn_cu_stream stream),
         (void)exec, (void)stream)
SUCCEEDS(cuGraphDestroy, (tn_cu_graph graph), (void)graph)
SUCCEEDS(cuGraphExecDestroy, (tn_cu_graph_exec exec), (void)exec)

/* ---- cuBLASLt ------------------------------------------------------------ */

#define LT_DECLARE(field, symbol, parameters)                                 \
    EXPORT tn_lt_status symbol parameters;
TN_LT_MAP(LT_DECLARE)

SUCCEEDS(cublasLtCreate, (tn_lt_handle *made), *made = (tn_lt_handle)&handle)
SUCCEEDS(cublasLtDestroy, (tn_lt_handle made), (void)made)
SUCCEEDS(cublasLtMatmulDescCreate,
         (tn_lt_operation *made, int compute, int scaled),
         (void)compute, (void)scaled, *made = (tn_lt_operation)&handle)
SUCCEEDS(cublasLtMatmulDescSetAttribute,
         (tn_lt_operation made, int attribute, const void *value, size_t bytes),
         (void)made, (void)attribute, (void)value, (void)bytes)
SUCCEEDS(cublasLtMatmulDescDestroy, (tn_lt_operation made), (void)made)
SUCCEEDS(cublasLtMatrixLayoutCreate,
         (tn_lt_layout *made, int type, uint64_t rows, uint64_t columns,
          int64_t ld),
         (void)type, (void)rows, (void)columns, (void)ld,
         *made = (tn_lt_layout)&handle)
SUCCEEDS(cublasLtMatrixLayoutSetAttribute,
         (tn_lt_layout made, int attribute, const void *value, size_t bytes),
         (void)made, (void)attribute, (void)value, (void)bytes)
SUCCEEDS(cublasLtMatrixLayoutDestroy, (tn_lt_layout made), (void)made)
SUCCEEDS(cublasLtMatmulPreferenceCreate, (tn_lt_preference *made),
         *made = (tn_lt_preference)&handle)
SUCCEEDS(cublasLtMatmulPreferenceSetAttribute,
         (tn_lt_preference made, int attribute, const void *value,
          size_t bytes),
         (void)made, (void)attribute, (void)value, (void)bytes)
SUCCEEDS(cublasLtMatmulPreferenceDestroy, (tn_lt_preference made), (void)made)
SUCCEEDS(cublasLtMatmulAlgoGetHeuristic,
         (tn_lt_handle made, tn_lt_operation operation, tn_lt_layout a,
          tn_lt_layout b, tn_lt_layout c, tn_lt_layout d,
          tn_lt_preference preference, int wanted, tn_lt_found *found,
          int *count),
         (void)made, (void)operation, (void)a, (void)b, (void)c, (void)d,
         (void)preference, (void)wanted, memset(found, 0, sizeof *found),
         *count = 1)

tn_lt_status cublasLtMatmul(tn_lt_handle made, tn_lt_operation operation,
                            const void *alpha, const void *a,
                            tn_lt_layout a_layout, const void *b,
                            tn_lt_layout b_layout, const void *beta,
                            const void *c, tn_lt_layout c_layout, void *d,
                            tn_lt_layout d_layout,
                            const tn_lt_algorithm *algorithm, void *workspace,
                            size_t workspace_bytes, tn_cu_stream stream)
{
    HOLD();
    (void)made, (void)operation, (void)alpha, (void)a, (void)a_layout, (void)b;
    (void)b_layout, (void)beta, (void)c, (void)c_layout, (void)d;
    (void)d_layout, (void)algorithm, (void)workspace, (void)workspace_bytes;
    (void)stream;
    fputs("product\n", out);
    return 0;
}
