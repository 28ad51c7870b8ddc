/* cublaslt.c: a libcublasLt.so.13 for the simulated driver, with the functions
 * that backends/cuda calls. OpenBLAS computes the products when the stream
 * runs. The functions check what the real library requires: matching
 * dimensions, alignment and workspace as declared, valid memory. Half types are
 * multiplied in float32 and rounded once. */
#include <math.h>

#include "../../backends/cuda/cublaslt.h"
#include "../../lib/kernel/narrow_float.h"
#include "library.h"

#define DECLARE(field, symbol, parameters) EXPORT tn_lt_status symbol parameters;
TN_LT_MAP(DECLARE)
#undef DECLARE

/* The workspace in bytes that each algorithm needs and overwrites, like the
 * real ones. */
#define WORKSPACE 4096

struct cublasLtContext { int unused; };

/* An operation, a layout or a preference, with the attributes that were set.
 * turned: transposed. */
enum { BIAS, AUX, SCALE_A, SCALE_B, POINTERS };
struct tn_lt_opaque {
    int compute, turned[2];                   /* fields of an operation */
    uint32_t epilogue;
    int64_t aux_ld;
    tn_cu_pointer at[POINTERS];
    int type, count;                          /* fields of a layout */
    int64_t rows, columns, ld, stride;
    uint64_t workspace;                       /* fields of a preference */
    uint32_t reductions, align[4];
};
typedef struct tn_lt_opaque opaque;

typedef struct product {
    int type, types[3], turned[2], count; /* types[] and turned[] (transposed)
                                           * have the values of a, b and c; type
                                           * is the type of c */
    int64_t m, n, k, rows[3], columns[3], ld[3], stride[3], aux_ld;
    uint32_t epilogue;
    tn_cu_pointer matrix[3], workspace, at[POINTERS];
    double alpha, beta;
} product;

/* ---- numbers ------------------------------------------------------------ */

static bool is_f8(int type)
{
    return type == TN_LT_R_E4M3 || type == TN_LT_R_E5M2;
}

static tn_dtype dtype_of(int type)
{
    return type == TN_LT_R_16F    ? TN_F16
           : type == TN_LT_R_16BF ? TN_BF16
           : type == TN_LT_R_E4M3 ? TN_F8E4M3
                                  : TN_F8E5M2;
}

/* ---- computing a product, when its stream runs --------------------------- */

static size_t bytes_of(int type)
{
    return type == TN_LT_R_64F ? 8 : type == TN_LT_R_32F ? 4 : is_f8(type) ? 1
                                                                           : 2;
}

/* Returns element i of a matrix of any floating-point type as float. */
static float load(const char *at, int64_t i, int type)
{
    const size_t bytes = bytes_of(type);
    uint32_t code = 0;
    float f;
    memcpy(type == TN_LT_R_32F ? (void *)&f : &code, at + i * (int64_t)bytes,
           bytes);
    return type == TN_LT_R_32F ? f : tn__narrow_decode(dtype_of(type), code);
}

static void store(char *at, int64_t i, int type, float f)
{
    const size_t bytes = bytes_of(type);
    const uint32_t code =
        type == TN_LT_R_32F ? 0 : tn__narrow_encode(dtype_of(type), f);
    memcpy(at + i * (int64_t)bytes, type == TN_LT_R_32F ? (void *)&f : &code,
           bytes);
}

/* Returns a matrix's elements as float: the memory itself, or a converted copy
 * in *owned. */
static const float *floats(int type, const char *at, int64_t count,
                           float **owned)
{
    if (type == TN_LT_R_32F)
        return (const float *)(const void *)at;
    *owned = malloc((size_t)count * sizeof **owned);
    for (int64_t i = 0; *owned && i < count; i++)
        (*owned)[i] = load(at, i, type);
    return *owned;
}

/* ---- epilogues ----------------------------------------------------------- */

static float gelu(float x, bool derivative)
{
    const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
    const float t = tanhf(inner);
    if (!derivative)
        return 0.5f * x * (1 + t);
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f *
                                (1 + 3 * 0.044715f * x * x);
}

/* Applies the epilogue to the sum s; returns element (i, j) of d. aux is
 * written with KEEP and read with BACK. */
static float finished(const product *p, float s, int64_t i, int64_t j,
                      const char *bias, char *aux)
{
    const uint32_t e = p->epilogue;
    const int64_t at = j * p->aux_ld + i;
    const bool relu = e & TN_LT_RELU || e == TN_LT_RELU_BACK;
    const char bit = (char)(1 << at % 8);
    if (e == TN_LT_RELU_BACK)
        return aux[at / 8] & bit ? s : 0;
    if (e == TN_LT_GELU_BACK)
        return s * gelu(load(aux, at, p->type), true);
    if (e & TN_LT_BIAS)
        s += load(bias, i, p->type);
    if (e & TN_LT_KEEP && relu)
        aux[at / 8] = (char)(s > 0 ? aux[at / 8] | bit : aux[at / 8] & ~bit);
    else if (e & TN_LT_KEEP)
        store(aux, at, p->type, s);
    return relu ? s < 0 ? 0 : s : e & TN_LT_GELU ? gelu(s, false) : s;
}

/* Sums the rows of op(a) or the columns of op(b), which have k elements. */
static void sums(const product *p, const float *x, char *bias)
{
    const int b = p->epilogue == TN_LT_SUMS_B;
    const int64_t along = (b ? p->turned[1] : !p->turned[0]) ? p->ld[b] : 1;
    const int64_t across = along == 1 ? p->ld[b] : 1;
    for (int64_t i = 0; i < (b ? p->n : p->m); i++) {
        float sum = 0;
        for (int64_t q = 0; q < p->k; q++)
            sum += x[i * across + q * along];
        store(bias, i, p->type, sum);
    }
}

/* Calls OpenBLAS's gemm, alpha op(a) op(b) + beta c, for float or double. */
#define MULTIPLY(type, name, p, a, b, c)                                      \
    do {                                                                      \
        enum { BY_COLUMN = 102, PLAIN = 111, TURNED = 112 };                  \
        void (*gemm)(int, int, int, int, int, int, type, const type *, int,   \
                     const type *, int, type, type *, int);                   \
        if (!find(blas, name, &gemm))                                         \
            abort();                                                          \
        gemm(BY_COLUMN, p->turned[0] ? TURNED : PLAIN,                        \
             p->turned[1] ? TURNED : PLAIN, (int)p->m, (int)p->n, (int)p->k,  \
             (type)p->alpha, a, (int)p->ld[0], b, (int)p->ld[1],              \
             (type)p->beta, c, (int)p->ld[2]);                                \
    } while (0)

static void one_single(const product *p, const int64_t span[3], const char *a,
                       const char *b, char *d, char *const around[2])
{
    float *owned[3] = {NULL, NULL, NULL};
    const float *x = floats(p->types[0], a, span[0], &owned[0]);
    const float *y = floats(p->types[1], b, span[1], &owned[1]);
    const float *z = floats(p->type, d, span[2], &owned[2]);
    float *out = p->type == TN_LT_R_32F ? (float *)(void *)d : owned[2];
    if (!x || !y || !z)
        abort();
    MULTIPLY(float, "cblas_sgemm", p, x, y, out);
    if (p->epilogue >= TN_LT_SUMS_A)
        sums(p, p->epilogue == TN_LT_SUMS_A ? x : y, around[BIAS]);
    for (int64_t j = 0; j < p->n; j++)
        for (int64_t i = 0; i < p->m; i++) {
            float *at = &out[j * p->ld[2] + i];
            if (p->epilogue > TN_LT_EPILOGUE_NONE &&
                p->epilogue < TN_LT_SUMS_A)
                *at = finished(p, *at, i, j, around[BIAS], around[AUX]);
            if (owned[2])
                store(d, j * p->ld[2] + i, p->type, *at);
        }
    for (int i = 0; i < 3; i++)
        free(owned[i]);
}

/* Finds the memory of the bias or the sums and of aux, and multiplies alpha by
 * the scales. */
static tn_cu_result reach_around(product *p, const sim_actor *actor,
                                 char *around[2])
{
    tn_cu_result error = 0;
    const uint32_t e = p->epilogue;
    const bool mask = e & TN_LT_RELU || e == TN_LT_RELU_BACK;
    const int64_t bytes = (int64_t)bytes_of(p->type);
    const int64_t count = e == TN_LT_SUMS_B ? p->n : p->m;
    if (e & (TN_LT_BIAS | TN_LT_SUMS_A | TN_LT_SUMS_B))
        around[BIAS] = driver.reach(
            actor, e & TN_LT_BIAS ? SIM_READ : SIM_WRITE,
            "cublasLtMatmul's bias", p->at[BIAS], (size_t)(count * bytes),
            &error);
    if (!error && e & TN_LT_KEEP) /* BACK includes this bit, too */
        around[AUX] = driver.reach(
            actor, e & (8 | 64) ? SIM_CARRY : SIM_WRITE,
            "cublasLtMatmul's aux", p->at[AUX],
            (size_t)(mask ? p->n * p->aux_ld / 8
                          : ((p->n - 1) * p->aux_ld + p->m) * bytes),
            &error);
    for (int i = SCALE_A; i <= SCALE_B && !error; i++) {
        const char *scale =
            p->at[i] ? driver.reach(actor, SIM_READ, "cublasLtMatmul's scale",
                                    p->at[i], 4, &error)
                     : NULL;
        p->alpha *= scale ? (double)load(scale, 0, TN_LT_R_32F) : 1;
    }
    return error;
}

static tn_cu_result run(void *context, const sim_actor *actor)
{
    product *p = context;
    static const char *const what[3] = {"cublasLtMatmul's read of A",
                                        "cublasLtMatmul's read of B",
                                        "cublasLtMatmul's write"};
    char *reached[3], *around[2] = {NULL, NULL};
    int64_t span[3], step[3]; /* span: elements of one matrix; step: bytes to
                               * the next one */
    tn_cu_result error = reach_around(p, actor, around);
    if (error)
        return error;
    for (int i = 0; i < 3; i++) {
        const int64_t each = (int64_t)bytes_of(p->types[i]);
        span[i] = (p->columns[i] - 1) * p->ld[i] + p->rows[i];
        step[i] = p->stride[i] * each;
        int64_t all = (p->count - 1) * p->stride[i] + span[i];
        /* gaps between columns may be uninitialized */
        bool whole = all == p->rows[i] * p->columns[i] * p->count;
        const int how = i == 2 ? SIM_WRITE : whole ? SIM_READ : SIM_CARRY;
        reached[i] = driver.reach(actor, how, what[i], p->matrix[i],
                                  (size_t)(all * each), &error);
        if (!reached[i])
            return error;
    }
    void *workspace = driver.reach(actor, SIM_WRITE, "its workspace",
                                   p->workspace, WORKSPACE, &error);
    if (!workspace)
        return error;
    memset(workspace, 0x5a, WORKSPACE);
    for (int64_t i = 0; i < p->count; i++) {
        const char *a = reached[0] + i * step[0];
        const char *b = reached[1] + i * step[1];
        char *d = reached[2] + i * step[2];
        if (p->type != TN_LT_R_64F)
            one_single(p, span, a, b, d, around);
        else
            MULTIPLY(double, "cblas_dgemm", p,
                     (const double *)(const void *)a,
                     (const double *)(const void *)b, (double *)(void *)d);
    }
    return 0;
}

/* ---- supported products -------------------------------------------------- */

static bool refuse(const char *why)
{
    driver.say(why);
    return false;
}

/* Checks the requirements that cublasLt.h and its manual define. */
static bool fits_around(const opaque *operation, const opaque *a,
                        const opaque *b, const product *p)
{
    const uint32_t e = operation->epilogue;
    const bool mask = e & TN_LT_RELU || e == TN_LT_RELU_BACK;
    const bool known = e == TN_LT_EPILOGUE_NONE || e == TN_LT_RELU_BACK ||
                       e == TN_LT_GELU_BACK || e == TN_LT_SUMS_A ||
                       e == TN_LT_SUMS_B ||
                       !(e & ~(uint32_t)(TN_LT_RELU | TN_LT_BIAS | TN_LT_GELU |
                                         TN_LT_KEEP));
    const bool f8 = is_f8(a->type);
    if (!known || (e != TN_LT_EPILOGUE_NONE && p->type == TN_LT_R_64F))
        return refuse("cuBLASLt: no such epilogue");
    if (e & (TN_LT_BIAS | TN_LT_SUMS_A | TN_LT_SUMS_B) && !operation->at[BIAS])
        return refuse("cuBLASLt: no bias");
    if (e & TN_LT_KEEP &&
        (!operation->at[AUX] || operation->aux_ld < p->m ||
         operation->aux_ld % (mask ? 128 : 8)))
        return refuse("cuBLASLt: an aux that cannot be");
    if (f8 && (!p->turned[0] || p->turned[1] || p->m % 16 || p->n % 16 ||
               p->k % 16 || (a->type == TN_LT_R_E5M2 && a->type == b->type)))
        return refuse("cuBLASLt: f8 is multiplied by rows, sixteen wise");
    return f8 || (!operation->at[SCALE_A] && !operation->at[SCALE_B]) ||
           refuse("cuBLASLt: scales are for f8");
}

static bool fill(const opaque *operation, const opaque *a, const opaque *b,
                 const opaque *c, product *p)
{
    const opaque *each[3] = {a, b, c};
    *p = (product){.type = c->type, .count = c->count,
                   .epilogue = operation->epilogue,
                   .aux_ld = operation->aux_ld,
                   .turned = {operation->turned[0], operation->turned[1]},
                   .m = c->rows, .n = c->columns,
                   .k = operation->turned[0] ? a->rows : a->columns};
    int wide = c->type == TN_LT_R_64F;
    memcpy(p->at, operation->at, sizeof p->at);
    if ((is_f8(a->type) ? !is_f8(b->type) || is_f8(c->type)
                        : a->type != c->type || b->type != c->type) ||
        wide != (operation->compute == TN_LT_COMPUTE_64F))
        return refuse("cuBLASLt: types that do not go together");
    if ((p->turned[0] ? a->columns : a->rows) != p->m ||
        (p->turned[1] ? b->columns : b->rows) != p->k ||
        (p->turned[1] ? b->rows : b->columns) != p->n)
        return refuse("cuBLASLt: sizes that do not go together");
    for (int i = 0; i < 3; i++) {
        if (each[i]->ld < each[i]->rows || each[i]->count != c->count ||
            each[i]->rows < 1 || each[i]->columns < 1)
            return refuse("cuBLASLt: a layout that cannot be");
        p->types[i] = each[i]->type;
        p->rows[i] = each[i]->rows;
        p->columns[i] = each[i]->columns;
        p->ld[i] = each[i]->ld;
        p->stride[i] = each[i]->stride;
    }
    return fits_around(operation, a, b, p);
}

/* ---- functions of the library -------------------------------------------- */

HANDLES(tn_lt_status, tn_lt_handle, cublasLtCreate, cublasLtDestroy)

static tn_lt_status make(opaque **out, opaque like)
{
    *out = malloc(sizeof **out);
    if (!*out)
        return TN_LT_ALLOC_FAILED;
    **out = like;
    return 0;
}

/* An attribute that can be set: its number, and the offset and size of its
 * field. */
typedef struct attribute {
    int number;
    size_t at, bytes; /* bytes 0: end of the list */
} attribute;
#define AT(number, field)                                                     \
    {number, offsetof(opaque, field), sizeof(((opaque *)NULL)->field)}

static tn_lt_status set(opaque *object, const attribute *known, int number,
                        const void *value, size_t bytes)
{
    for (const attribute *a = known; a->bytes; a++)
        if (a->number == number && a->bytes == bytes)
            return memcpy((char *)object + a->at, value, bytes), 0;
    return TN_LT_INVALID_VALUE;
}

#define OBJECT(name, ...)                                                     \
    tn_lt_status name##SetAttribute(opaque *object, int number,               \
                                    const void *value, size_t bytes)          \
    {                                                                         \
        static const attribute known[] = {__VA_ARGS__, {0, 0, 0}};            \
        return set(object, known, number, value, bytes);                      \
    }                                                                         \
    tn_lt_status name##Destroy(opaque *object) { return free(object), 0; }
OBJECT(cublasLtMatmulDesc, AT(TN_LT_TRANSPOSE_A, turned[0]),
       AT(TN_LT_TRANSPOSE_B, turned[1]), AT(TN_LT_EPILOGUE, epilogue),
       AT(TN_LT_AUX_LD, aux_ld), AT(TN_LT_BIAS_POINTER, at[BIAS]),
       AT(TN_LT_AUX_POINTER, at[AUX]), AT(TN_LT_SCALE_A, at[SCALE_A]),
       AT(TN_LT_SCALE_B, at[SCALE_B]))
OBJECT(cublasLtMatrixLayout, AT(TN_LT_BATCH_COUNT, count),
       AT(TN_LT_BATCH_STRIDE, stride))
OBJECT(cublasLtMatmulPreference, AT(TN_LT_MAX_WORKSPACE, workspace),
       AT(TN_LT_REDUCTIONS, reductions), AT(TN_LT_ALIGN_A, align[0]),
       AT(TN_LT_ALIGN_B, align[1]), AT(TN_LT_ALIGN_C, align[2]),
       AT(TN_LT_ALIGN_D, align[3]))

tn_lt_status cublasLtMatmulDescCreate(tn_lt_operation *operation, int compute,
                                      int scale)
{
    if (scale != (compute == TN_LT_COMPUTE_64F ? TN_LT_R_64F : TN_LT_R_32F))
        return TN_LT_NOT_SUPPORTED;
    return make(operation, (opaque){.compute = compute,
                                     .epilogue = TN_LT_EPILOGUE_NONE});
}

tn_lt_status cublasLtMatrixLayoutCreate(tn_lt_layout *layout, int type,
                                        uint64_t rows, uint64_t columns,
                                        int64_t ld)
{
    return make(layout, (opaque){.type = type, .count = 1,
                                 .rows = (int64_t)rows,
                                 .columns = (int64_t)columns, .ld = ld});
}

tn_lt_status cublasLtMatmulPreferenceCreate(tn_lt_preference *preference)
{
    return make(preference, (opaque){.align = {256, 256, 256, 256}});
}

/* Returns the alignment of an address, up to 256. */
static uint64_t lowest(tn_cu_pointer at)
{
    return (256 | at) & (0 - (256 | at));
}

/* The algorithm stores the alignment that it was chosen for. */
tn_lt_status cublasLtMatmulAlgoGetHeuristic(
    tn_lt_handle handle, tn_lt_operation operation, tn_lt_layout a,
    tn_lt_layout b, tn_lt_layout c, tn_lt_layout d,
    tn_lt_preference preference, int wanted, tn_lt_found *found, int *count)
{
    product p;
    /* products with this m have no algorithm */
    const char *none = getenv("TENON_SIM_NO_ALGORITHM");
    *count = 0;
    if (!handle || wanted < 1 || c != d)
        return TN_LT_INVALID_VALUE;
    if (!fill(operation, a, b, c, &p) || preference->workspace < WORKSPACE ||
        (none && atoi(none) == p.m))
        return TN_LT_NOT_SUPPORTED;
    *found = (tn_lt_found){.workspace_bytes = WORKSPACE};
    for (int i = 0; i < 4; i++)
        found->algorithm.data[i] = preference->align[i];
    found->algorithm.data[4] = (uint64_t)p.m;
    found->algorithm.data[5] = (uint64_t)p.n;
    found->algorithm.data[6] = (uint64_t)p.k;
    found->algorithm.data[7] = lowest(p.at[BIAS]) | lowest(p.at[AUX]) << 16;
    *count = 1;
    return 0;
}

static bool keeps_promises(const product *p, const tn_lt_algorithm *algorithm,
                           size_t workspace_bytes)
{
    for (int i = 0; i < 4; i++) /* a, b, c, and d, which is c here */
        if (p->matrix[i < 3 ? i : 2] % algorithm->data[i])
            return refuse("cuBLASLt: a matrix is less aligned than promised");
    if (p->at[BIAS] % (algorithm->data[7] & 0xffff) ||
        p->at[AUX] % (algorithm->data[7] >> 16))
        return refuse("cuBLASLt: a bias or aux less aligned than promised");
    if (algorithm->data[4] != (uint64_t)p->m ||
        algorithm->data[5] != (uint64_t)p->n ||
        algorithm->data[6] != (uint64_t)p->k)
        return refuse("cuBLASLt: an algorithm for another shape");
    if (workspace_bytes < WORKSPACE)
        return refuse("cuBLASLt: less workspace than the algorithm wants");
    return true;
}

tn_lt_status cublasLtMatmul(tn_lt_handle handle, tn_lt_operation operation,
                            const void *alpha, const void *a,
                            tn_lt_layout a_layout, const void *b,
                            tn_lt_layout b_layout, const void *beta,
                            const void *c, tn_lt_layout c_layout, void *d,
                            tn_lt_layout d_layout,
                            const tn_lt_algorithm *algorithm, void *workspace,
                            size_t workspace_bytes, tn_cu_stream stream)
{
    product p;
    if (!handle || c != d || c_layout != d_layout ||
        !fill(operation, a_layout, b_layout, c_layout, &p))
        return TN_LT_INVALID_VALUE;
    bool wide = p.type == TN_LT_R_64F;
    p.alpha = wide ? *(const double *)alpha : *(const float *)alpha;
    p.beta = wide ? *(const double *)beta : *(const float *)beta;
    p.matrix[0] = (uintptr_t)a;
    p.matrix[1] = (uintptr_t)b;
    p.matrix[2] = (uintptr_t)d;
    p.workspace = (uintptr_t)workspace;
    if (!keeps_promises(&p, algorithm, workspace_bytes))
        return TN_LT_INVALID_VALUE;
    /* The status 13 is EXECUTION_FAILED. */
    return driver.call(stream, run, &p, sizeof p) ? 13 : 0;
}
