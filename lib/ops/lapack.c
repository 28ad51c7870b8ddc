/* lapack.c: see lapack.h. OpenBLAS brings LAPACK along; where it is missing, any
 * other library with the system's name for it will do. */
#include <base/memory.h>
#include <base/openblas.h>
#include <base/platform.h>
#include <dlfcn.h>
#include <limits.h>
#include <ops/lapack.h>
#include <pthread.h>

static tn__lapack lapack;
static bool lapack_there;
static pthread_once_t lapack_once = PTHREAD_ONCE_INIT;

static bool find(void *library, const char *name, void *function_pointer)
{
    void *symbol = dlsym(library, name);
    memcpy(function_pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool find_all(void *library)
{
    bool found = true;
#define LAPACK(name, arguments)                                               \
    found = found && find(library, "d" #name "_", &lapack.name[0]) &&         \
            find(library, "s" #name "_", &lapack.name[1]);
#include "lapack.def"
#undef LAPACK
    return found;
}

static void open_lapack(void)
{
    void *library = tn__openblas();
    lapack_there = library && find_all(library);
    if (lapack_there)
        return;
    library = dlopen("liblapack.so.3", RTLD_NOW | RTLD_LOCAL);
    lapack_there = library && find_all(library);
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

int tn__lapack_room(const void *work, bool single)
{
    double room = single ? (double)*(const float *)work
                         : *(const double *)work;
    return room < 1 ? 1 : room >= INT_MAX ? INT_MAX : (int)room;
}

/* ---- matrices ----------------------------------------------------------------- */

static tn_status allocate(tn__staged *s)
{
    size_t room = (size_t)s->rows * (size_t)s->columns * s->element;
    if (__builtin_mul_overflow(room, (size_t)s->batch, &room))
        return tn__fail(TN_ERR_MEMORY, "%lld matrices of %d x %d are more than "
                        "memory has", (long long)s->batch, s->rows,
                        s->columns);
    s->data = tn__calloc(room ? room : 1, 1);
    return s->data ? TN_OK : TN_ERR_MEMORY;
}

tn_status tn__stage_new(tn__staged *s, const tn__staged *like, int64_t rows,
                        int64_t columns)
{
    *s = *like;
    s->rows = (int)rows;
    s->columns = (int)columns;
    return allocate(s);
}

void tn__staged_free(tn__staged *s)
{
    tn__free(s->data);
}

tn_status tn__stage(tn__staged *s, tn_tensor *x, const char *what,
                    const char *argument)
{
    char text[TN__SHAPE_TEXT];
    *s = (tn__staged){.batch = 1};
    if (x->dtype != TN_F32 && x->dtype != TN_F64)
        return tn__fail(TN_ERR_DTYPE, "%s: %s is %s; LAPACK has float32 and "
                        "float64: convert it with tn_to_dtype", what, argument,
                        tn_dtype_name(x->dtype));
    if (x->ndim < 2 || x->shape[x->ndim - 1] > INT_MAX / 8 ||
        x->shape[x->ndim - 2] > INT_MAX / 8)
        return tn__fail(TN_ERR_SHAPE, "%s: %s %s has no matrices in its last "
                        "two dimensions, or larger ones than LAPACK takes",
                        what, argument,
                        tn__shape_text(text, x->ndim, x->shape));
    for (int d = 0; d < x->ndim - 2; d++)
        s->batch *= x->shape[d];
    s->rows = (int)x->shape[x->ndim - 2];
    s->columns = (int)x->shape[x->ndim - 1];
    s->single = x->dtype == TN_F32;
    s->element = tn_dtype_bytes(x->dtype);
    tn_status status = allocate(s);
    if (status < 0 || x->numel == 0)
        return status;
    tn_scope *scope = tn_scope_open();
    tn_tensor *turned = scope ? tn_transpose(x, -1, -2) : NULL;
    status = turned ? tn_tensor_to_array(turned, s->data,
                                         (size_t)x->numel * s->element)
                    : tn_error_code();
    tn_scope_close(scope);
    return status;
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
    for (int64_t k = 0; k < s->batch && s->rows; k++)
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

/* Host memory, row-major, as a new tensor on x's device. */
static tn_tensor *to_device(const void *data, tn_dtype dtype,
                            const tn_tensor *x, int ndim, const int64_t *shape,
                            const char *what)
{
    tn_device *device = x->storage->device;
    tn_tensor *out = tn__tensor_new(device, dtype, ndim, shape, what);
    if (!out || out->numel == 0)
        return out;
    if (tn__device_copy_in(device, out->storage->block, 0, data,
                           (uint64_t)out->numel * tn_dtype_bytes(dtype)) < 0) {
        tn__unref(out);
        return NULL;
    }
    return out;
}

static int batch_shape(const tn_tensor *x, int64_t *shape)
{
    for (int d = 0; d < x->ndim - 2; d++)
        shape[d] = x->shape[d];
    return x->ndim - 2;
}

tn_tensor *tn__unstage(const tn__staged *s, const tn_tensor *x, int64_t rows,
                       int64_t columns, bool as_vector, const char *what)
{
    int64_t shape[TN_MAX_NDIM];
    int ndim = batch_shape(x, shape);
    shape[ndim++] = rows;
    if (!as_vector)
        shape[ndim++] = columns;
    size_t count = (size_t)(s->batch * rows * columns);
    char *turned = tn__alloc(count ? count * s->element : 1);
    if (!turned)
        return NULL;
    const int64_t part[] = {s->batch, rows, columns};
    const int64_t stride[] = {(int64_t)s->rows * s->columns, 1, s->rows};
    tn__host_gather(s->data, turned, s->element, 3, part, stride);
    tn_tensor *out = to_device(turned, s->single ? TN_F32 : TN_F64, x, ndim,
                               shape, what);
    tn__free(turned);
    return out;
}

tn_tensor *tn__unstage_ints(const int *number, const tn_tensor *x,
                            int64_t width, const char *what)
{
    int64_t shape[TN_MAX_NDIM];
    int ndim = batch_shape(x, shape);
    if (width >= 0)
        shape[ndim++] = width;
    return to_device(number, TN_I32, x, ndim, shape, what);
}
