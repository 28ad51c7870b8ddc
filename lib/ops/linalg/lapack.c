/* lapack.c: opens LAPACK and stages matrices for it (lapack.h). OpenBLAS, which
 * includes LAPACK, is tried first. If it is missing, any library with the
 * system's name for LAPACK is used. */
#include <base/memory.h>
#include <base/openblas.h>
#include <base/platform.h>
#include <dlfcn.h>
#include <limits.h>
#include <ops/linalg/lapack.h>
#include <pthread.h>

static tn__lapack lapack;
static bool lapack_there;
static pthread_once_t lapack_once = PTHREAD_ONCE_INIT;

static bool find_routine(void *library, const char *name,
                         void *function_pointer)
{
    void *symbol = dlsym(library, name);
    memcpy(function_pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool find_routines(void *library)
{
    bool found = true;
#define LAPACK(name, arguments)                                               \
    found = found && find_routine(library, "d" #name "_", &lapack.name[0]) && \
            find_routine(library, "s" #name "_", &lapack.name[1]);
#include <ops/linalg/lapack.def>
#undef LAPACK
    return found;
}

static void open_lapack(void)
{
    void *library = tn__openblas();
    lapack_there = library && find_routines(library);
    if (lapack_there)
        return;
    library = dlopen("liblapack.so.3", RTLD_NOW | RTLD_LOCAL);
    lapack_there = library && find_routines(library);
    if (library && !lapack_there)
        dlclose(library);
}

const tn__lapack *tn__lapack_open(const char *what)
{
    pthread_once(&lapack_once, open_lapack);
    if (lapack_there)
        return &lapack;
    tn__fail(TN_ERR_UNSUPPORTED, "%s: neither libopenblas.so.0 nor "
             "liblapack.so.3 can be opened (Debian: apt-get install "
             "libopenblas0)", what);
    return NULL;
}

int tn__workspace_size(const void *work, bool single)
{
    double room = single ? (double)*(const float *)work
                         : *(const double *)work;
    return room < 1 ? 1 : room >= INT_MAX ? INT_MAX : (int)room;
}

tn_status tn__lapack_refuse(const char *name, int64_t k, const char *why,
                            int info)
{
    return tn__fail(TN_ERR_ARGUMENT, "%s: matrix %lld of the batch %s "
                    "(LAPACK's info is %d)", name, (long long)k, why, info);
}

tn_status tn__lapack_refuse_nan(const char *name, const tn_tensor *x)
{
    char text[TN__SHAPE_TEXT];
    return tn__fail(TN_ERR_ARGUMENT, "%s: {A} %s has NaN or infinite elements",
                    name,
                    tn__shape_text(text, x->ndim, x->shape));
}

/* ---- staging matrices ---------------------------------------------------- */

/* Sets s->data to memory that the host can access. If load is true, it has the
 * elements of s->tensor, else zeros. */
static tn_status map_to_host(tn__staged *s, bool load)
{
    if (s->tensor->numel == 0)
        return TN_OK;
    tn_device *device = s->tensor->storage->device;
    size_t bytes = (size_t)s->tensor->numel * s->element;
    if (load || device->host_visible) {
        tn__host_view view;
        tn_status status = tn__host_view_open(&view, s->tensor);
        if (status < 0)
            return status;
        s->copy = view.copy;
        s->data = (char *)(uintptr_t)view.base;
    } else {
        s->data = s->copy = tn__alloc(bytes);
        if (!s->copy)
            return TN_ERR_MEMORY;
    }
    if (!load)
        memset(s->data, 0, bytes);
    return TN_OK;
}

tn_status tn__stage_new(tn__staged *s, const tn__staged *like, int64_t rows,
                        int64_t columns)
{
    const tn_tensor *x = like->tensor;
    int64_t shape[TN_MAX_NDIM];
    for (int d = 0; d < x->ndim - 2; d++)
        shape[d] = x->shape[d];
    shape[x->ndim - 2] = columns;
    shape[x->ndim - 1] = rows;
    *s = (tn__staged){.batch = like->batch, .rows = (int)rows,
                      .columns = (int)columns, .single = like->single,
                      .element = like->element};
    s->tensor = tn__tensor_new(x->storage->device, x->dtype, x->ndim, shape,
                               "linalg");
    return s->tensor ? map_to_host(s, false) : tn_error_code();
}

void tn__staged_free(tn__staged *s)
{
    tn__free(s->copy);
    tn__unref(s->tensor);
}

tn_status tn__stage(tn__staged *s, tn_tensor *x, tn__staging how,
                    const char *what, const char *argument)
{
    char text[TN__SHAPE_TEXT];
    *s = (tn__staged){.batch = 1};
    if (x->dtype != TN_F32 && x->dtype != TN_F64)
        return tn__fail(TN_ERR_DTYPE, "%s: {%s} is %s; LAPACK supports float32 "
                        "and float64: convert it with tn_to_dtype",
                        what, argument,
                        tn_dtype_name(x->dtype));
    if (x->ndim < 2 || x->shape[x->ndim - 1] > INT_MAX / 8 ||
        x->shape[x->ndim - 2] > INT_MAX / 8)
        return tn__fail(TN_ERR_SHAPE, "%s: {%s} has shape %s; expected at "
                        "least 2 dimensions, the last two with fewer than "
                        "2^28 elements each", what, argument,
                        tn__shape_text(text, x->ndim, x->shape));
    for (int d = 0; d < x->ndim - 2; d++)
        s->batch *= x->shape[d];
    s->single = x->dtype == TN_F32;
    s->element = tn_dtype_bytes(x->dtype);
    tn_scope *scope = tn_scope_open();
    tn_tensor *other = scope ? tn_transpose(x, -1, -2) : NULL;
    if (other) {
        s->transposed = how != TN__STAGE;
        tn_tensor *from = s->transposed ? x : other;
        s->tensor = tn__ref(how == TN__STAGE_READ ? tn_contiguous(from)
                                                  : tn_clone(from));
    }
    tn_scope_close(scope);
    if (!s->tensor)
        return tn_error_code();
    s->rows = (int)s->tensor->shape[x->ndim - 1];
    s->columns = (int)s->tensor->shape[x->ndim - 2];
    return map_to_host(s, true);
}

void tn__staged_eye(tn__staged *s)
{
    const float one_single = 1;
    const double one = 1;
    int least = s->rows < s->columns ? s->rows : s->columns;
    for (int64_t k = 0; k < s->batch && least; k++)
        for (int i = 0; i < least; i++)
            memcpy((char *)tn__staged_at(s, k) +
                       ((size_t)i * (size_t)s->rows + (size_t)i) * s->element,
                   s->single ? (const void *)&one_single : (const void *)&one,
                   s->element);
}

void tn__staged_clear(tn__staged *s, bool below)
{
    for (int64_t k = 0; k < s->batch && s->rows && s->columns; k++)
        for (int j = 0; j < s->columns; j++) {
            int first = below ? j + 1 : 0, end = below ? s->rows : j;
            if (end > s->rows)
                end = s->rows;
            if (first < end)
                memset((char *)tn__staged_at(s, k) +
                           ((size_t)j * (size_t)s->rows + (size_t)first) *
                               s->element,
                       0, (size_t)(end - first) * s->element);
        }
}

static tn_status to_device(tn_tensor *x, const void *data)
{
    return x->numel == 0
               ? TN_OK
               : tn__device_copy_in(x->storage->device, x->storage->block, 0,
                                    data, (uint64_t)x->numel *
                                              tn_dtype_bytes(x->dtype));
}

tn_tensor *tn__unstage(const tn__staged *s, bool as_vector)
{
    if (s->copy && to_device(s->tensor, s->copy) < 0)
        return NULL;
    if (s->transposed)
        return tn__tensor_alias(s->tensor);
    tn_scope *scope = tn_scope_open();
    tn_tensor *out = NULL;
    if (scope)
        out = as_vector
                  ? tn_squeeze(s->tensor, .dim = -2)
                  : tn_contiguous(tn_transpose(s->tensor, -1, -2));
    tn__ref(out);
    tn_scope_close(scope);
    return out;
}

tn_tensor *tn__unstage_ints(const int *number, const tn__staged *s,
                            int64_t width, const char *what)
{
    const tn_tensor *x = s->tensor;
    int64_t shape[TN_MAX_NDIM];
    int ndim = x->ndim - 2;
    for (int d = 0; d < ndim; d++)
        shape[d] = x->shape[d];
    if (width >= 0)
        shape[ndim++] = width;
    tn_tensor *out =
        tn__tensor_new(x->storage->device, TN_I32, ndim, shape, what);
    int *zeros = NULL;
    if (out && !x->numel)
        number = zeros = tn__calloc((size_t)out->numel + 1, sizeof *zeros);
    if (out && (!number || to_device(out, number) < 0)) {
        tn__unref(out);
        out = NULL;
    }
    tn__free(zeros);
    return out;
}
