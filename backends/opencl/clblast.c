/* clblast.c: computes matrix products by CLBlast, if choose.c chooses it.
 *
 * CLBlast has kernels tuned for some hundred GPUs. On CPUs Tenon's own kernel
 * is better: it is bit-identical to the interpreter and compiles in 0.5 s
 * instead of 5 to 40 s (docs/opencl.md has measurements). Therefore CPUs use
 * CLBlast only if option `matmul` requests it.
 *
 * Tenon's own kernel computes what CLBlast does not support: dtypes other than
 * float32 and float64 (CLBlast would sum float16 products in float16), matrices
 * that are contiguous in neither dimension, and batches without a single
 * stride.
 *
 * A lock is held during each call of CLBlast, because CLBlast is not
 * thread-safe: if two threads make their first calls at the same time, it may
 * crash (CNugteren/CLBlast#486). */
#include <dlfcn.h>
#include <string.h>

#include "opencl.h"

enum { ROW_MAJOR = 101, COLUMN_MAJOR = 102, PLAIN = 111, TRANSPOSED = 112 };

/* The functions CLBlast<X>gemmStridedBatched, as declared in clblast_c.h, 1.4
 * and later. */
#define GEMM(name, number)                                                    \
    int (*name)(int layout, int transpose_a, int transpose_b, size_t m,       \
                size_t n, size_t k, number alpha, cl_mem a, size_t a_offset,  \
                size_t a_ld, size_t a_stride, cl_mem b, size_t b_offset,      \
                size_t b_ld, size_t b_stride, number beta, cl_mem c,          \
                size_t c_offset, size_t c_ld, size_t c_stride, size_t count,  \
                cl_command_queue *queue, cl_event *event)

static GEMM(gemm_f32, float);
static GEMM(gemm_f64, double);
static int (*clear_cache)(void);
static bool is_open;

/* This lock is held during every call of CLBlast. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static void open_library(void)
{
    const char *name = tn__host->option("clblast");
    if (!name)
        name = "libclblast.so.1";
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    is_open = library &&
              find(library, "CLBlastSgemmStridedBatched", &gemm_f32) &&
              find(library, "CLBlastDgemmStridedBatched", &gemm_f64) &&
              find(library, "CLBlastClearCache", &clear_cache);
    if (!is_open)
        tn__host->log(1,
                      "opencl: %s cannot be opened: matrix products "
                      "are slow (Debian: apt-get install "
                      "libclblast1)",
                      name);
}

/* Frees CLBlast's cached programs, which hold references to the device's
 * context. This also frees the programs of other devices. CLBlast loads these
 * again from the caches of their drivers. */
void tn__opencl_clblast_close(tn_plugin_device *device)
{
    pthread_mutex_lock(&lock);
    if (device->clblast_compiled)
        clear_cache();
    pthread_mutex_unlock(&lock);
}

/* ---- what is supported --------------------------------------------------- */

/* The layout of the matrices of a batch, as CLBlast describes it. */
typedef struct matrix {
    /* leading dimension, and distance between matrices, in elements */
    size_t ld, stride;
    bool by_row;       /* the rows are contiguous, and not the columns */
} matrix;

/* Sets *out to the stride between consecutive matrices of a batch. Returns
 * false if there is no single stride. */
static bool batch_stride(const tn_matmul_args *mm, const tn_strided *x,
                         int64_t *out)
{
    int64_t next = 0; /* expected stride of the next outer dimension */
    bool first = true;
    *out = 0;
    for (uint32_t d = mm->batch_ndim; d-- > 0;) {
        if (mm->batch[d] == 1)
            continue;
        if (first)
            *out = x->stride[d];
        else if (x->stride[d] != next)
            return false;
        first = false;
        next = x->stride[d] * mm->batch[d];
    }
    return *out >= 0;
}

/* Describes the layout of a matrix for CLBlast, by rows or by columns. If both
 * are contiguous, prefer_row decides. Returns false if neither is
 * contiguous. */
static bool matrix_of(const tn_matmul_args *mm, const tn_strided *x,
                      int64_t rows, int64_t columns, bool prefer_row,
                      matrix *out)
{
    const int64_t down = x->stride[mm->batch_ndim];
    const int64_t across = x->stride[mm->batch_ndim + 1];
    const bool row = (across == 1 || columns == 1) &&
                     (down >= columns || rows == 1);
    const bool column = (down == 1 || rows == 1) &&
                        (across >= rows || columns == 1);
    int64_t stride;
    if ((!row && !column) || !batch_stride(mm, x, &stride))
        return false;
    out->by_row = row && (prefer_row || !column);
    const int64_t least = out->by_row ? columns : rows;
    const int64_t ld = out->by_row ? rows == 1 ? least : down
                                   : columns == 1 ? least : across;
    out->ld = (size_t)ld;
    out->stride = (size_t)stride;
    return true;
}

static bool fits(const tn_matmul_args *mm, matrix *a, matrix *b, matrix *c,
                 size_t *count)
{
    bool does = mm->c.dtype == TN_F32 || mm->c.dtype == TN_F64;
    *count = 1;
    for (uint32_t d = 0; d < mm->batch_ndim; d++)
        *count *= (size_t)mm->batch[d];
    does = does && *count && mm->m && mm->n && mm->k &&
           matrix_of(mm, &mm->c, mm->m, mm->n, true, c) &&
           matrix_of(mm, &mm->a, mm->m, mm->k, c->by_row, a) &&
           matrix_of(mm, &mm->b, mm->k, mm->n, c->by_row, b);
    if (does && *count == 1)
        c->stride = 1; /* CLBlast ignores the stride of a single matrix, but
                        * rejects 0 */
    return does;
}

/* ---- a product ----------------------------------------------------------- */

static int call(tn_queue *queue, const tn_matmul_args *mm, const matrix *a,
                const matrix *b, const matrix *c, size_t count)
{
    const int layout = c->by_row ? ROW_MAJOR : COLUMN_MAJOR;
    const int turn_a = a->by_row == c->by_row ? PLAIN : TRANSPOSED;
    const int turn_b = b->by_row == c->by_row ? PLAIN : TRANSPOSED;
#define CALL(function, number)                                                \
    function(layout, turn_a, turn_b, (size_t)mm->m, (size_t)mm->n,            \
             (size_t)mm->k, (number)mm->alpha, mm->a.buffer->memory,          \
             (size_t)mm->a.offset, a->ld, a->stride, mm->b.buffer->memory,    \
             (size_t)mm->b.offset, b->ld, b->stride, (number)mm->beta,        \
             mm->c.buffer->memory, (size_t)mm->c.offset, c->ld, c->stride,    \
             count, &queue->queue, NULL)
    return mm->c.dtype == TN_F32 ? CALL(gemm_f32, float)
                                 : CALL(gemm_f64, double);
#undef CALL
}

/* Computes the first product of a dtype, for which CLBlast compiles its
 * kernels. During the compilation a lock excludes other processes. The signal
 * handlers, which a compiler may change, are restored afterwards. */
static int call_first(tn_queue *queue, const tn_matmul_args *mm,
                      const matrix *a, const matrix *b, const matrix *c,
                      size_t count)
{
    static const tn_source name = {.text = "clblast", .text_bytes = 7};
    tn_opencl_signals signals;
    tn__opencl_signals_save(&signals);
    int32_t hold = tn__opencl_text_lock(&name);
    int status = call(queue, mm, a, b, c, count);
    tn__opencl_text_unlock(hold);
    tn__opencl_signals_restore(&signals);
    if (!status)
        tn__host->log(3, "opencl: CLBlast multiplies on %s",
                      queue->device->listed->info.name);
    return status;
}

bool tn__opencl_clblast_fits(const tn_plugin_device *device,
                             const tn_matmul_args *mm)
{
    matrix a, b, c;
    size_t count;
    return device->clblast && fits(mm, &a, &b, &c, &count);
}

bool tn__opencl_clblast(tn_queue *queue, const tn_matmul_args *mm)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    tn_plugin_device *device = queue->device;
    const uint32_t type = 1u << mm->c.dtype;
    matrix a, b, c;
    size_t count;
    if (!fits(mm, &a, &b, &c, &count))
        return false;
    pthread_once(&once, open_library);
    if (!is_open)
        return false;
    pthread_mutex_lock(&lock);
    int status = -1;
    if (device->clblast_compiled & type)
        status = call(queue, mm, &a, &b, &c, count);
    else if (!(device->clblast_failed & type))
        status = call_first(queue, mm, &a, &b, &c, count);
    if (!status) {
        device->clblast_compiled |= type;
    } else if (!((device->clblast_compiled | device->clblast_failed) & type)) {
        device->clblast_failed |= type;
        tn__host->log(1,
                      "opencl: CLBlast fails on %s (status %d): "
                      "matrix products are slow",
                      device->listed->info.name, status);
    }
    pthread_mutex_unlock(&lock);
    return !status;
}
