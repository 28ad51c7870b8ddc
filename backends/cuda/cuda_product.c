/* cuda_product.c: computes matrix products by cuBLASLt, with bias, activation
 * and scales (the extension "product"). Tenon's own kernel computes what
 * cuBLASLt does not support (integers, matrices that are contiguous in neither
 * dimension, empty sums), and everything if cuBLASLt is not installed.
 *
 * cuBLASLt expects column-major matrices. It reads a row-major matrix x as the
 * transpose of x, which the comments call x'. Therefore it computes c' = b' a'
 * instead of c = a b, and no matrix is copied.
 *
 * The algorithm for a shape is chosen once and cached by the queue. The core
 * makes the calls on one queue one at a time, so the cache needs no lock. Two
 * kinds of algorithms are excluded: those that add partial sums in the dtype of
 * the output, and those whose order of summation changes from run to run. */
#include <stdlib.h>
#include <string.h>

#include "cublaslt.h"
#include "cuda.h"

/* Size of the workspace in bytes. It is the largest of NVIDIA's
 * recommendations, the one for compute capability 9.0. */
#define WORKSPACE (32u << 20)
#define CHOICES 512 /* number of cached choices; a power of two */
#define PROBES 4    /* number of cache entries that are searched for a shape */
#define ALIGN 16    /* required alignment of bias and aux in bytes */

enum { A, B, C };

/* All properties of a product on which the choice of an algorithm depends. The
 * struct has no padding, because its bytes are compared. */
typedef struct shape {
    int64_t m, n, k;              /* sizes of c' */
    /* ld: distance in elements from one column to the next; stride: from one
     * matrix of the batch to the next */
    int64_t ld[3], stride[3];
    /* leading dimension of aux in elements; in bits if aux is a mask */
    int64_t aux_ld;
    int32_t count;                /* number of matrices */
    uint8_t dtype[3], transposed[3];   /* of A, B and C; C is never
                                          transposed */
    /* alignments in bytes: of the matrices, and of bias and aux */
    uint16_t align[3], extra_align[2];
    /* a cublasLtEpilogue_t, or 0 if there is no epilogue */
    uint16_t epilogue;
    uint8_t scaled[2];
} shape;

/* The algorithm chosen for a shape. */
typedef struct choice {
    shape shape;
    bool usable; /* false if cuBLASLt has no algorithm for the shape */
    tn_lt_operation operation; /* owned, as are the layouts */
    tn_lt_layout layout[3];
    tn_lt_found found;
} choice;

struct tn_cuda_choices {
    choice *slot[CHOICES]; /* owned: a hash table of the latest choices */
};

/* ---- the library --------------------------------------------------------- */

static _Atomic(const char *) missing; /* the reason why cuBLASLt cannot be
                                         opened, or NULL */

const char *tn__cuda_cublaslt_error(void)
{
    return atomic_load(&missing);
}

/* Returns the device's handle of cuBLASLt, which is created at the first
 * product. Returns NULL if cuBLASLt is not installed. */
static tn_lt_handle handle_of(tn_plugin_device *device)
{
    tn_lt_handle handle =
        atomic_load_explicit(&device->lt, memory_order_acquire);
    if (handle || device->lt_failed)
        return handle;
    pthread_mutex_lock(&device->build_lock);
    handle = atomic_load(&device->lt);
    const char *why = handle ? NULL : tn__cuda_open(TN_CUDA_LT);
    if (!handle && !why && tn__lt.create(&handle))
        why = "cublasLtCreate failed; the driver may be older than the library";
    if (why && !device->lt_failed)
        tn__host->log(1, "cuda: matrix products are slow: %s", why);
    if (why) {
        atomic_store(&missing, why);
        handle = NULL;
        device->lt_failed = true;
    }
    atomic_store_explicit(&device->lt, handle, memory_order_release);
    pthread_mutex_unlock(&device->build_lock);
    return handle;
}

bool tn__cuda_has_cublaslt(tn_plugin_device *device)
{
    return !device->own_products && handle_of(device);
}

void tn__cuda_cublaslt_close(tn_plugin_device *device)
{
    tn_lt_handle handle = atomic_load(&device->lt);
    if (handle)
        tn__lt.destroy(handle);
}

/* ---- what is supported --------------------------------------------------- */

/* A product as cuBLASLt computes it, in one or several calls. */
typedef struct product {
    shape shape;
    const tn_strided *view[3]; /* the operands of c', in the order A, B, C */
    const tn_strided *bias, *aux, *scale[2]; /* NULL if not used */
    /* number of leading batch dimensions whose indices need separate calls of
     * cuBLASLt */
    uint32_t outer_ndim;
    /* whether cuBLASLt computes c itself, not its transpose c' */
    bool by_column;
} product;

static const struct {
    uint8_t bytes, type;
} kinds[TN_DTYPE_END] = {
    [TN_F64] = {8, TN_LT_R_64F},     [TN_F32] = {4, TN_LT_R_32F},
    [TN_F16] = {2, TN_LT_R_16F},     [TN_BF16] = {2, TN_LT_R_16BF},
    [TN_F8E4M3] = {1, TN_LT_R_E4M3}, [TN_F8E5M2] = {1, TN_LT_R_E5M2}};

/* Sets *ld to the leading dimension of x' and *transposed to whether x' is
 * stored transposed. rows and columns are the extents of x. If `turn` is true,
 * describes the transpose of x instead of x. Returns false if neither dimension
 * of x is contiguous. */
static bool layout_of(const tn_matmul_args *mm, const tn_strided *x, bool turn,
                      int64_t rows, int64_t columns, int64_t *ld,
                      uint8_t *transposed)
{
    int64_t down = x->stride[mm->batch_ndim + turn];
    int64_t across = x->stride[mm->batch_ndim + !turn];
    if ((across == 1 || columns == 1) && (down >= columns || rows == 1)) {
        *ld = rows == 1 ? columns : down;
        *transposed = 0;
        return true;
    }
    *ld = columns == 1 ? rows : across;
    *transposed = 1;
    return (down == 1 || rows == 1) && (across >= rows || columns == 1);
}

/* Merges as many of the inner batch dimensions as possible to one, which
 * cuBLASLt can process in one call. Dimensions can be merged if each of a, b
 * and c has a single stride for them. */
static void batch_collapse(const tn_matmul_args *mm, product *p)
{
    int64_t count = 1;
    p->outer_ndim = 0;
    for (uint32_t d = mm->batch_ndim; d-- > 0 && !p->outer_ndim;) {
        bool fits = true;
        if (mm->batch[d] == 1)
            continue;
        for (int i = A; i <= C; i++) {
            int64_t stride = p->view[i]->stride[d];
            fits = fits && (count == 1 ? stride >= 0
                                       : stride == count * p->shape.stride[i]);
        }
        fits = fits && mm->batch[d] <= INT32_MAX / count;
        if (!fits)
            p->outer_ndim = d + 1;
        for (int i = A; i <= C && fits && count == 1; i++)
            p->shape.stride[i] = p->view[i]->stride[d];
        if (fits)
            count *= mm->batch[d];
    }
    p->shape.count = (int32_t)count;
}

/* Returns the alignment of x in bytes, at most 256. If a product needs several
 * calls of cuBLASLt, this is the alignment that x has in all of them. */
static uint16_t align_of(const product *p, const tn_strided *x)
{
    uint64_t places = 256 | (uintptr_t)tn__cuda_address(x, 0);
    for (uint32_t d = 0; d < p->outer_ndim; d++)
        places |= (uint64_t)x->stride[d] * kinds[x->dtype].bytes;
    return (uint16_t)(places & (0 - places));
}

static bool is_f8(uint32_t dtype)
{
    return kinds[dtype].bytes == 1;
}

/* Returns whether cuBLASLt supports these dtypes. A product of float8 matrices
 * needs scales, and an output wider than float8. */
static bool dtypes_fit(const tn_matmul_args *mm, const tn_product_args *with)
{
    uint32_t a = mm->a.dtype, b = mm->b.dtype, c = mm->c.dtype;
    if (!kinds[c].bytes || is_f8(c))
        return false;
    /* cuBLASLt computes GELU of float64 only with float32 precision. */
    if (with && c == TN_F64 &&
        with->epilogue & (TN_PRODUCT_GELU | TN_PRODUCT_GELU_TANH))
        return false;
    return is_f8(a) ? with && is_f8(b) && c != TN_F64 : a == c && b == c;
}

static bool product_of(const tn_matmul_args *mm, product *p)
{
    shape *s = &p->shape;
    int64_t ld;
    uint8_t by_column;
    if (mm->m > INT32_MAX || mm->n > INT32_MAX || mm->k > INT32_MAX ||
        mm->m < 1 || mm->n < 1 || mm->k < 1 ||
        !layout_of(mm, &mm->c, false, mm->m, mm->n, &ld, &by_column))
        return false;
    memset(s, 0, sizeof *s);
    s->ld[C] = ld;
    s->k = mm->k;
    p->by_column = by_column;
    /* If the rows of c are contiguous, cuBLASLt computes c'. If the columns of
     * c are contiguous, it computes c itself. */
    p->view[A] = by_column ? &mm->a : &mm->b;
    p->view[B] = by_column ? &mm->b : &mm->a;
    p->view[C] = &mm->c;
    s->m = by_column ? mm->m : mm->n;
    s->n = by_column ? mm->n : mm->m;
    if (!layout_of(mm, p->view[A], by_column, s->k, s->m, &s->ld[A],
                   &s->transposed[A]) ||
        !layout_of(mm, p->view[B], by_column, s->n, s->k, &s->ld[B],
                   &s->transposed[B]))
        return false;
    batch_collapse(mm, p);
    for (int i = A; i <= C; i++) {
        s->align[i] = align_of(p, p->view[i]);
        s->dtype[i] = (uint8_t)p->view[i]->dtype;
    }
    return true;
}

/* Returns cuBLASLt's epilogue for a mask of TN_PRODUCT_ flags, or 0 if cuBLASLt
 * has no such epilogue. */
static uint16_t epilogue_of(uint32_t flags, bool by_column)
{
    const bool relu = flags & TN_PRODUCT_RELU;
    if (!flags)
        return TN_LT_EPILOGUE_NONE;
    if (flags & TN_PRODUCT_SUMS)
        return by_column ? TN_LT_SUMS_A : TN_LT_SUMS_B;
    /* If c itself is computed, cuBLASLt's bias would have one element for each
     * row of c, but the core's bias has one for each column. cuBLASLt's GELU is
     * the tanh approximation, so there is no epilogue for the exact GELU. */
    if (by_column || flags & TN_PRODUCT_GELU)
        return 0;
    if (flags & TN_PRODUCT_BACK)
        return relu ? TN_LT_RELU_BACK : TN_LT_GELU_BACK;
    return (uint16_t)((flags & TN_PRODUCT_BIAS ? TN_LT_BIAS : 0) |
                      (relu                           ? TN_LT_RELU
                       : flags & TN_PRODUCT_GELU_TANH ? TN_LT_GELU
                                                      : 0) |
                      (flags & TN_PRODUCT_KEEP ? TN_LT_KEEP : 0));
}

/* Adds the epilogue to the product. Returns NULL, or why cuBLASLt cannot
 * compute it. */
static const char *epilogue_fit(product *p, const tn_product_args *with)
{
    shape *s = &p->shape;
    const uint32_t flags = with->epilogue;
    const bool a_is_a = p->view[A] == &with->a;
    s->epilogue = epilogue_of(flags, p->by_column);
    if (!s->epilogue)
        return "cuBLASLt does not support this epilogue";
    if (flags && (s->count != 1 || p->outer_ndim))
        return "the product has an epilogue and is a batch";
    if (flags & (TN_PRODUCT_BIAS | TN_PRODUCT_SUMS)) {
        p->bias = &with->bias;
        s->extra_align[0] = align_of(p, p->bias);
        if (with->bias.stride[0] != 1 || s->extra_align[0] < ALIGN)
            return "the bias is not contiguous or not aligned to 16 bytes";
    }
    if (flags & (TN_PRODUCT_KEEP | TN_PRODUCT_BACK)) {
        const int64_t *stride = with->aux.stride + with->batch_ndim;
        const bool mask = flags & TN_PRODUCT_RELU;
        p->aux = &with->aux;
        s->extra_align[1] = align_of(p, p->aux);
        s->aux_ld = stride[0] * (mask ? 8 : 1);
        if (stride[1] != 1 || s->aux_ld < s->m ||
            s->aux_ld % (mask ? 128 : 8) || s->extra_align[1] < ALIGN)
            return "rows of aux are not aligned to 16 bytes";
    }
    p->scale[A] = a_is_a ? &with->scale_a : &with->scale_b;
    p->scale[B] = a_is_a ? &with->scale_b : &with->scale_a;
    for (int i = A; i <= B; i++) {
        s->scaled[i] = p->scale[i]->buffer != NULL;
        if (!s->scaled[i])
            p->scale[i] = NULL;
    }
    return NULL;
}

/* ---- algorithms ---------------------------------------------------------- */

static void choice_free(choice *c)
{
    for (int i = A; c && i <= C; i++)
        if (c->layout[i])
            tn__lt.layout_destroy(c->layout[i]);
    if (c && c->operation)
        tn__lt.operation_destroy(c->operation);
    free(c);
}

void tn__cuda_choices_free(tn_cuda_choices *choices)
{
    for (size_t i = 0; choices && i < CHOICES; i++)
        choice_free(choices->slot[i]);
    free(choices);
}

static tn_lt_status layout_make(const shape *s, int i, int type,
                                tn_lt_layout *out)
{
    /* rows and columns are the extents that cuBLASLt sees after transposing.
     * down and across are the extents of the stored matrix. */
    int64_t rows = i == B ? s->k : s->m, columns = i == A ? s->k : s->n;
    uint64_t down = (uint64_t)(s->transposed[i] ? columns : rows);
    uint64_t across = (uint64_t)(s->transposed[i] ? rows : columns);
    tn_lt_status e = tn__lt.layout_create(out, type, down, across, s->ld[i]);
    if (!e && s->count > 1)
        e = tn__lt.layout_set(*out, TN_LT_BATCH_COUNT, &s->count,
                              sizeof s->count);
    if (!e && s->count > 1)
        e = tn__lt.layout_set(*out, TN_LT_BATCH_STRIDE, &s->stride[i],
                              sizeof s->stride[i]);
    return e;
}

static tn_lt_status algorithm_find(tn_lt_handle handle, choice *c)
{
    const uint64_t workspace = WORKSPACE;
    const uint32_t wide = TN_LT_REDUCE_WIDE;
    static const int attribute[] = {TN_LT_ALIGN_A, TN_LT_ALIGN_B,
                                    TN_LT_ALIGN_C, TN_LT_ALIGN_D};
    tn_lt_preference preference = NULL;
    int count = 0;
    tn_lt_status e = tn__lt.preference_create(&preference);
    if (e)
        return e;
    e = tn__lt.preference_set(preference, TN_LT_MAX_WORKSPACE, &workspace,
                              sizeof workspace);
    if (!e)
        e = tn__lt.preference_set(preference, TN_LT_REDUCTIONS, &wide,
                                  sizeof wide);
    for (int i = 0; i < 4 && !e; i++) {
        uint32_t align = c->shape.align[i < C ? i : C];
        e = tn__lt.preference_set(preference, attribute[i], &align,
                                  sizeof align);
    }
    if (!e)
        e = tn__lt.choose(handle, c->operation, c->layout[A], c->layout[B],
                          c->layout[C], c->layout[C], preference, 1, &c->found,
                          &count);
    tn__lt.preference_destroy(preference);
    return e ? e : count ? c->found.state : TN_LT_NOT_SUPPORTED;
}

/* Sets the addresses of bias, aux and scales for this call. */
static tn_lt_status pointers_set(const choice *c, const product *p)
{
    static const int attribute[] = {TN_LT_BIAS_POINTER, TN_LT_AUX_POINTER,
                                    TN_LT_SCALE_A, TN_LT_SCALE_B};
    const tn_strided *const at[] = {p->bias, p->aux, p->scale[A], p->scale[B]};
    tn_lt_status e = 0;
    for (int i = 0; i < 4 && !e; i++) {
        if (!at[i])
            continue;
        const void *pointer = tn__cuda_address(at[i], 0);
        e = tn__lt.operation_set(c->operation, attribute[i], &pointer,
                                 sizeof pointer);
    }
    return e;
}

static tn_lt_status epilogue_set(const choice *c, const product *p)
{
    const uint32_t epilogue = c->shape.epilogue;
    tn_lt_status e = tn__lt.operation_set(c->operation, TN_LT_EPILOGUE,
                                          &epilogue, sizeof epilogue);
    if (!e && p->aux)
        e = tn__lt.operation_set(c->operation, TN_LT_AUX_LD, &c->shape.aux_ld,
                                 sizeof c->shape.aux_ld);
    return e ? e : pointers_set(c, p);
}

/* Makes a cache entry with the algorithm that cuBLASLt chooses for the
 * product's shape. Returns NULL if out of memory. */
static choice *choice_make(const tn_plugin_device *device,
                           tn_lt_handle handle, const product *p)
{
    const shape *s = &p->shape;
    const bool wide = s->dtype[C] == TN_F64;
    const int compute = wide ? TN_LT_COMPUTE_64F
                        : device->tf32 && s->dtype[A] == TN_F32
                            ? TN_LT_COMPUTE_TF32
                            : TN_LT_COMPUTE_32F;
    choice *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->shape = *s;
    tn_lt_status e = tn__lt.operation_create(
        &c->operation, compute, wide ? TN_LT_R_64F : TN_LT_R_32F);
    for (int i = A; i <= B && !e; i++) {
        int32_t turn = s->transposed[i] ? TN_LT_TRANSPOSED : TN_LT_PLAIN;
        e = tn__lt.operation_set(c->operation,
                                 i == A ? TN_LT_TRANSPOSE_A : TN_LT_TRANSPOSE_B,
                                 &turn, sizeof turn);
    }
    for (int i = A; i <= C && !e; i++)
        e = layout_make(s, i, kinds[s->dtype[i]].type, &c->layout[i]);
    if (!e && s->epilogue)
        e = epilogue_set(c, p);
    if (!e)
        e = algorithm_find(handle, c);
    c->usable = !e;
    tn__host->log(3,
                  "cuda: cuBLASLt %s %lld x %lld x %lld, batch %d, epilogue %d "
                  "(status %d)",
                  e ? "has no algorithm for" : "computes", (long long)s->m,
                  (long long)s->n, (long long)s->k, (int)s->count, s->epilogue,
                  e);
    return c;
}

_Static_assert(sizeof(shape) % sizeof(uint64_t) == 0, "hashed by words");

static const choice *choice_of(tn_queue *queue, tn_lt_handle handle,
                               const product *p)
{
    const shape *s = &p->shape;
    if (!queue->choices)
        queue->choices = calloc(1, sizeof *queue->choices);
    if (!queue->choices)
        return NULL;
    const size_t first = tn__cuda_hash(s, sizeof *s) & (CHOICES - 1);
    choice **slot = &queue->choices->slot[first];
    for (size_t i = 0; i < PROBES; i++) {
        choice **at = &queue->choices->slot[(first + i) & (CHOICES - 1)];
        if (*at && memcmp(&(*at)->shape, s, sizeof *s) == 0)
            return (*at)->usable ? *at : NULL;
        if (!*at) {
            slot = at;
            break;
        }
    }
    choice_free(*slot);
    *slot = choice_make(queue->device, handle, p);
    return *slot && (*slot)->usable ? *slot : NULL;
}

/* ---- a product ----------------------------------------------------------- */

/* Runs the product, with one call of cuBLASLt for each index in the outer batch
 * dimensions. */
static tn_lt_status call(tn_queue *queue, tn_lt_handle handle,
                         const tn_matmul_args *mm, const product *p,
                         const choice *c)
{
    const float alpha32 = tn__cuda_to_float(mm->alpha),
                beta32 = tn__cuda_to_float(mm->beta);
    const bool wide = p->shape.dtype[C] == TN_F64;
    const void *alpha = wide ? (const void *)&mm->alpha : &alpha32;
    const void *beta = wide ? (const void *)&mm->beta : &beta32;
    int64_t at[TN_MAX_NDIM] = {0}, element[3] = {0};
    uint32_t d;
    do {
        void *out = tn__cuda_address(p->view[C], element[C]);
        tn_lt_status e = tn__lt.matmul(
            handle, c->operation, alpha,
            tn__cuda_address(p->view[A], element[A]), c->layout[A],
            tn__cuda_address(p->view[B], element[B]), c->layout[B], beta, out,
            c->layout[C], out, c->layout[C], &c->found.algorithm,
            (void *)(uintptr_t)queue->scratch, c->found.workspace_bytes,
            queue->stream);
        if (e)
            return e;
        for (d = p->outer_ndim; d-- > 0;) {
            bool more = ++at[d] < mm->batch[d];
            for (int i = A; i <= C; i++)
                element[i] += p->view[i]->stride[d] *
                              (more ? 1 : 1 - mm->batch[d]);
            if (more)
                break;
            at[d] = 0;
        }
    } while (d != UINT32_MAX);
    return 0;
}

static bool has_points(const tn_matmul_args *mm)
{
    for (uint32_t d = 0; d < mm->batch_ndim; d++)
        if (mm->batch[d] < 1)
            return false;
    return true;
}

/* Computes a product by cuBLASLt. `with` describes its epilogue, or is NULL for
 * a plain product. If cuBLASLt does not support the product, sets *why to the
 * reason and returns TN_ERR_UNSUPPORTED. */
static tn_status multiply(tn_queue *queue, const tn_matmul_args *mm,
                          const tn_product_args *with, const char **why)
{
    tn_plugin_device *device = queue->device;
    product p = {.bias = NULL};
    *why = "cuBLASLt does not support these matrices";
    /* Only launches of own kernels can be changed, so the recorded product was
     * one (cuda_vary.c). */
    if (queue->changes || device->own_products || !has_points(mm) || !dtypes_fit(mm, with) ||
        !product_of(mm, &p) || (with && (*why = epilogue_fit(&p, with))))
        return TN_ERR_UNSUPPORTED;
    TN_CUDA_ENTER(device);
    if (entered.error)
        return tn__cuda_check(device, "cuCtxSetCurrent", entered.error);
    tn_lt_handle handle = handle_of(device);
    if (!handle) {
        *why = atomic_load(&missing);
        return device->lt_wanted
                   ? tn__host->fail(TN_ERR_NO_DEVICE,
                                    "TENON_CUDA_MATMUL=cublaslt: %s", *why)
                   : TN_ERR_UNSUPPORTED;
    }
    const choice *c = choice_of(queue, handle, &p);
    *why = c ? "out of memory for the workspace of cuBLASLt"
             : "cuBLASLt has no algorithm for this product";
    /* If there is no memory for the workspace, Tenon's own kernel computes the
     * product, because it needs none. */
    if (!c || tn__cuda_scratch_ready(queue, c->found.workspace_bytes))
        return TN_ERR_UNSUPPORTED;
    tn_lt_status e = pointers_set(c, &p);
    if (!e)
        e = call(queue, handle, mm, &p, c);
    if (e)
        return tn__host->fail(
            e == TN_LT_ALLOC_FAILED ? TN_ERR_MEMORY : TN_ERR_INTERNAL,
            "%s: cublasLtMatmul failed with status %d",
            device->listed->info.name, e);
    return tn__cuda_queue_submitted(queue, mm->tag);
}

tn_status tn__cuda_product(tn_queue *queue, const tn_matmul_args *mm)
{
    const char *why;
    return multiply(queue, mm, NULL, &why);
}

/* ---- the extension "product" --------------------------------------------- */

static tn_status run(tn_queue *queue, const tn_product_args *args)
{
    const char *why;
    tn_matmul_args mm = {.size = sizeof mm, .batch_ndim = args->batch_ndim,
                         .m = args->m, .n = args->n, .k = args->k,
                         .a = args->a, .b = args->b, .c = args->c,
                         .alpha = args->alpha, .tag = args->tag};
    if (!tn_product_is_known(args))
        return tn__refuse_unknown("product");
    memcpy(mm.batch, args->batch, sizeof mm.batch);
    tn_status status = multiply(queue, &mm, args, &why);
    return status == TN_ERR_UNSUPPORTED ? tn__host->fail(status, "%s", why)
                                        : status;
}

const tn_product_extension tn__cuda_product_extension = {
    .size = sizeof(tn_product_extension), .run = run};
