/* test_dlpack.c: tensors are exchanged by DLPack, with structs written from its
 * specification. dlpack_numpy.py and dlpack_torch.py exchange them with NumPy
 * and PyTorch. */
#include "arrays.h"

#include <stddef.h>
#include <tenon/dlpack.h>

/* The structs of DLPack 1.3, written from its specification
 * (https://dmlc.github.io/dlpack/latest/c_api.html). */
typedef struct {
    uint32_t major, minor;
} DLPackVersion;
typedef struct {
    int32_t device_type;
    int32_t device_id;
} DLDevice;
typedef struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} DLDataType;
typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;
typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;
typedef struct DLPackExchangeAPI {
    DLPackVersion version;
    void *prev_api;
    int (*managed_tensor_allocator)(
        DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
        void (*set_error)(void *error_ctx, const char *kind,
                          const char *message));
    int (*managed_tensor_from_py_object_no_sync)(
        void *py_object, DLManagedTensorVersioned **out);
    int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned *tensor,
                                               void **out_py_object);
    int (*dltensor_from_py_object_no_sync)(void *py_object, DLTensor *out);
    int (*current_work_stream)(int32_t device_type, int32_t device_id,
                               void **out_current_stream);
} DLPackExchangeAPI;
enum { kDLCPU = 1, kDLCUDA = 2 };

/* The library's own definition of the same structs. */
#define DLManagedTensor Own_DLManagedTensor
#define DLManagedTensorVersioned Own_DLManagedTensorVersioned
#define DLPackExchangeAPI Own_DLPackExchangeAPI
#include "../../../lib/media/array/dlpack_abi.h"
#undef DLManagedTensor
#undef DLManagedTensorVersioned
#undef DLPackExchangeAPI

#define SAME(own, own_member, theirs, member)                                  \
    _Static_assert(offsetof(own, own_member) == offsetof(theirs, member) &&    \
                       sizeof(((own *)0)->own_member) ==                       \
                           sizeof(((theirs *)0)->member),                      \
                   #own_member " lies where " #member " does")
SAME(tn__dl_tensor, data, DLTensor, data);
SAME(tn__dl_tensor, device, DLTensor, device);
SAME(tn__dl_tensor, ndim, DLTensor, ndim);
SAME(tn__dl_tensor, dtype, DLTensor, dtype);
SAME(tn__dl_tensor, shape, DLTensor, shape);
SAME(tn__dl_tensor, strides, DLTensor, strides);
SAME(tn__dl_tensor, byte_offset, DLTensor, byte_offset);
SAME(struct Own_DLManagedTensor, tensor, DLManagedTensor, dl_tensor);
SAME(struct Own_DLManagedTensor, context, DLManagedTensor, manager_ctx);
SAME(struct Own_DLManagedTensor, deleter, DLManagedTensor, deleter);
#define VERSIONED(own, member)                                                 \
    SAME(struct Own_DLManagedTensorVersioned, own, DLManagedTensorVersioned,   \
         member)
VERSIONED(version, version);
VERSIONED(context, manager_ctx);
VERSIONED(deleter, deleter);
VERSIONED(flags, flags);
VERSIONED(tensor, dl_tensor);
#define TABLE(own, member)                                                     \
    SAME(struct Own_DLPackExchangeAPI, own, DLPackExchangeAPI, member)
TABLE(version, version);
TABLE(previous, prev_api);
TABLE(managed_tensor_allocator, managed_tensor_allocator);
TABLE(managed_tensor_from_py_object_no_sync,
      managed_tensor_from_py_object_no_sync);
TABLE(managed_tensor_to_py_object_no_sync, managed_tensor_to_py_object_no_sync);
TABLE(dltensor_from_py_object_no_sync, dltensor_from_py_object_no_sync);
TABLE(current_work_stream, current_work_stream);
_Static_assert(sizeof(tn__dl_tensor) == sizeof(DLTensor), "sizes");
_Static_assert(sizeof(struct Own_DLManagedTensorVersioned) ==
                   sizeof(DLManagedTensorVersioned),
               "sizes");
_Static_assert(sizeof(struct Own_DLPackExchangeAPI) ==
                   sizeof(DLPackExchangeAPI),
               "sizes");
_Static_assert(sizeof(DLTensor) == 48 &&
                   offsetof(DLManagedTensorVersioned, dl_tensor) == 32,
               "as with 64-bit pointers");

/* ---- memory of others ----------------------------------------------------- */

static int deleted;

typedef struct lent {
    DLManagedTensorVersioned managed;
    int64_t shape[3], strides[3];
    float *data;
} lent;

static void delete_lent(DLManagedTensorVersioned *self)
{
    lent *l = self->manager_ctx;
    deleted++;
    free(l->data);
    free(l);
}

/* Memory of 2 x 3 floats in column-major order, 8 bytes after its begin. */
static DLManagedTensorVersioned *lend(void)
{
    lent *l = calloc(1, sizeof *l);
    l->data = malloc(8 * sizeof *l->data);
    for (int i = 0; i < 8; i++)
        l->data[i] = (float)i;
    l->shape[0] = l->strides[1] = 2;
    l->shape[1] = 3;
    l->strides[0] = 1;
    l->managed = (DLManagedTensorVersioned){
        .version = {1, 0},
        .manager_ctx = l,
        .deleter = delete_lent,
        .dl_tensor = {.data = l->data,
                      .device = {kDLCPU, 0},
                      .ndim = 2,
                      .dtype = {2, 32, 1},
                      .shape = l->shape,
                      .strides = l->strides,
                      .byte_offset = 8}};
    return &l->managed;
}

static void check_import(void)
{
    deleted = 0;
    TN_SCOPE(scope)
    {
        DLManagedTensorVersioned *m = lend();
        float *data = m->dl_tensor.data;
        tn_tensor *x = tn_dlpack_import(m);
        float out[6];
        tn_tensor_to_array(x, out, sizeof out);
        ok(tn_tensor_data(x) == data + 2 && out[0] == 2 && out[1] == 4 &&
               out[3] == 3 && tn_tensor_strides(x)[1] == 2,
           "memory is shared with its strides");
        tn_tensor *part = tn_select(x, 0, 1);
        tn_drop(x);
        is_int(deleted, 0, "a view keeps the memory");
        is_double_near(tn_item(tn_sum(part)), 15, 0, "which is still there");
    }
    is_int(deleted, 1, "the deleter is called once, with the last tensor");
    tn_scope *scope = tn_scope_open();
    DLManagedTensorVersioned *m = lend();
    m->flags = 1;
    ok(!tn_dlpack_import(m), "read-only memory");
    refused(TN_ERR_UNSUPPORTED, ".copy = true", "is rejected");
    is_int(deleted, 1, "and still belongs to the caller");
    tn_tensor *x = tn_dlpack_import(m, .copy = true);
    ok(x && tn_item(tn_sum(x)) == 27, "a copy is made");
    is_int(deleted, 2, "and its memory is given back at once");
    m = lend();
    m->deleter = NULL;
    x = tn_dlpack_import(m);
    ok(x && tn_item(tn_sum(x)) == 27, "a struct without deleter");
    tn_scope_close(scope);
    delete_lent(m);
    m = lend();
    m->dl_tensor.strides = NULL;
    x = tn_dlpack_import(m);
    ok(x && tn_tensor_strides(x)[0] == 3, "no strides: row-major");
    tn_drop(x);
    m = lend();
    m->dl_tensor.shape[0] = 0;
    m->dl_tensor.data = NULL;
    deleted = 0;
    x = tn_dlpack_import(m);
    ok(x && tn_tensor_numel(x) == 0 && deleted == 1,
       "an empty tensor gives the memory back");
    is_str(tn_error(), NULL, "no error is pending");
}

static void check_bad_imports(void)
{
    static const struct {
        const char *what;
        size_t at;
        size_t bytes;
        int64_t value;
        tn_status code;
        const char *part;
    } cases[] = {
#define FIELD(member) offsetof(DLManagedTensorVersioned, member),              \
        sizeof(((DLManagedTensorVersioned *)0)->member)
        {"version 2", FIELD(version.major), 2, TN_ERR_UNSUPPORTED,
         "DLPack version is 2.0"},
        {"CUDA", FIELD(dl_tensor.device.device_type), kDLCUDA, TN_ERR_DEVICE,
         "kDLCUDA"},
        {"an unknown device", FIELD(dl_tensor.device.device_type), 99,
         TN_ERR_DEVICE, "device type 99"},
        {"complex", FIELD(dl_tensor.dtype.code), 5, TN_ERR_DTYPE, "complex"},
        {"an unknown dtype", FIELD(dl_tensor.dtype.code), 99, TN_ERR_DTYPE,
         "code 99"},
        {"float128", FIELD(dl_tensor.dtype.bits), 128, TN_ERR_DTYPE,
         "128 bits"},
        {"4 lanes", FIELD(dl_tensor.dtype.lanes), 4, TN_ERR_DTYPE, "4 lanes"},
        {"no lanes", FIELD(dl_tensor.dtype.lanes), 0, TN_ERR_DTYPE, "0 lanes"},
        {"13 dimensions", FIELD(dl_tensor.ndim), 13, TN_ERR_SHAPE,
         "13 dimensions"},
        {"-1 dimensions", FIELD(dl_tensor.ndim), -1, TN_ERR_SHAPE,
         "-1 dimensions"},
        {"no shape", FIELD(dl_tensor.shape), 0, TN_ERR_SHAPE,
         "without a shape"},
        {"no data", FIELD(dl_tensor.data), 0, TN_ERR_ARGUMENT, "is NULL"},
        {"an odd offset", FIELD(dl_tensor.byte_offset), 1, TN_ERR_UNSUPPORTED,
         "not aligned"},
    };
    deleted = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DLManagedTensorVersioned *m = lend();
        memcpy((char *)m + cases[i].at, &cases[i].value, cases[i].bytes);
        ok(!tn_dlpack_import(m), "%s", cases[i].what);
        refused(cases[i].code, cases[i].part, "is rejected");
        is_int(deleted, (int)i, "and belongs to the caller");
        delete_lent(m);
    }
    static const struct {
        int64_t shape, stride;
        tn_status code;
        const char *part;
    } layouts[] = {
        {-2, 1, TN_ERR_SHAPE, "size is negative"},
        {INT64_MAX, 1, TN_ERR_SHAPE, "too many elements"},
        {2, -1, TN_ERR_UNSUPPORTED, "numpy.ascontiguousarray"},
        {2, INT64_MIN, TN_ERR_UNSUPPORTED, "is negative"},
        {2, INT64_MAX, TN_ERR_SHAPE, "beyond the address space"},
        {2, INT64_MAX / 4, TN_ERR_SHAPE, "beyond the address space"}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        DLManagedTensorVersioned *m = lend();
        m->dl_tensor.shape[0] = layouts[i].shape;
        m->dl_tensor.strides[0] = layouts[i].stride;
        ok(!tn_dlpack_import(m), "size %lld, stride %lld",
           (long long)layouts[i].shape, (long long)layouts[i].stride);
        refused(layouts[i].code, layouts[i].part, "is rejected");
        delete_lent(m);
    }
    ok(!tn_dlpack_import(NULL), "NULL");
    refused(TN_ERR_ARGUMENT, "managed is NULL", "is rejected");
    ok(!tn_dlpack_import_unversioned(NULL), "NULL");
    refused(TN_ERR_ARGUMENT, "managed is NULL", "is rejected");
}

/* ---- tensors of Tenon ----------------------------------------------------- */

static void check_export(void)
{
    DLManagedTensorVersioned *m;
    DLManagedTensor *plain;
    void *data;
    TN_SCOPE(scope)
    {
        tn_tensor *x = tn_reshape(tn_arange(0, 24, 1, .dtype = TN_I32),
                                  tn_dims(2, 3, 4));
        x = tn_transpose(tn_narrow(x, 1, 1, 2), 0, 2);
        data = tn_tensor_data(x);
        m = tn_dlpack_export(x);
        plain = tn_dlpack_export_unversioned(x);
    }
    for (int i = 0; i < 2; i++) {
        const DLTensor *t = i ? &plain->dl_tensor : &m->dl_tensor;
        ok((char *)t->data + t->byte_offset == data && t->ndim == 3 &&
               t->shape[0] == 4 && t->shape[1] == 2 && t->shape[2] == 2 &&
               t->strides[0] == 1 && t->strides[1] == 4 &&
               t->strides[2] == 12 && t->dtype.code == 0 &&
               t->dtype.bits == 32 && t->dtype.lanes == 1 &&
               t->device.device_type == kDLCPU && t->device.device_id == 0,
           "a tensor is described");
    }
    ok(m->version.major == 1 && m->version.minor == 3 && m->flags == 0,
       "version and flags");
    is_int(((int32_t *)data)[4], 8, "the memory outlives the scope");
    plain->deleter(plain);
    tn_tensor *y = tn_dlpack_import(m);
    /* 4..11 and 16..23 */
    is_int(tn_item_int(tn_sum(y)), 60 + 156, "an exported tensor is imported");
    tn_drop(y);
    m = tn_dlpack_export(tn_zeros(tn_dims(2)), .read_only = true);
    is_int((int64_t)m->flags, 1, "read-only");
    m->deleter(m);
    m = tn_dlpack_export(tn_zeros(tn_dims(2, 0)));
    ok(!m->dl_tensor.data && m->dl_tensor.shape[1] == 0, "an empty tensor");
    m->deleter(m);

    ok(!tn_dlpack_export(NULL), "NULL");
    refused(TN_ERR_ARGUMENT, "x is NULL", "is rejected");
    ok(!tn_dlpack_export_unversioned(NULL), "NULL");
    refused(TN_ERR_ARGUMENT, "x is NULL", "is rejected");
    tn_tensor *leaf = tn_requires_grad(tn_zeros(tn_dims(2)));
    ok(!tn_dlpack_export(leaf), "a tensor that requires a gradient");
    refused(TN_ERR_STATE, "tn_detach(x)", "is rejected");
    m = tn_dlpack_export(tn_detach(leaf));
    ok(m, "detached, it is exported");
    m->deleter(m);
}

/* ---- the exchange table --------------------------------------------------- */

static tn_tensor *tensor_of(void *object)
{
    return object == (void *)&deleted ? NULL : object;
}

static void *object_of(tn_tensor *x)
{
    return tn_keep(x);
}

static void *no_object(tn_tensor *x)
{
    (void)x;
    return NULL;
}

static char seen_kind[32];

static void set_error(void *context, const char *kind, const char *message)
{
    (void)context;
    snprintf(seen_kind, sizeof seen_kind, "%s", kind);
    ok(strstr(message, "does not have"), "the error has its message");
}

static void check_table(void)
{
    ok(!tn_dlpack_exchange_api(NULL, object_of), "no tensor_of");
    refused(TN_ERR_ARGUMENT, "tensor_of is NULL", "is rejected");
    ok(!tn_dlpack_exchange_api(tensor_of, NULL), "no object_of");
    refused(TN_ERR_ARGUMENT, "object_of is NULL", "is rejected");
    const DLPackExchangeAPI *api = tn_dlpack_exchange_api(tensor_of, object_of);
    ok(api && api == tn_dlpack_exchange_api(tensor_of, object_of),
       "there is one table");
    ok(!tn_dlpack_exchange_api(tensor_of, no_object), "other conversions");
    refused(TN_ERR_STATE, "were set before", "are rejected");

    tn_tensor *x = tn_ones(tn_dims(2, 3));
    DLTensor view;
    DLManagedTensorVersioned *m = NULL;
    void *object = NULL, *stream = &view;
    ok(api->dltensor_from_py_object_no_sync(x, &view) == 0 &&
           view.data == tn_tensor_data(x) && view.shape[1] == 3,
       "a view of an object");
    ok(api->managed_tensor_from_py_object_no_sync(x, &m) == 0, "an object");
    ok(api->managed_tensor_to_py_object_no_sync(m, &object) == 0 &&
           tn_tensor_data(object) == view.data,
       "becomes another object with the same memory");
    tn_drop(object);
    ok(api->current_work_stream(kDLCPU, 0, &stream) == 0 && !stream,
       "the CPU has no stream");
    is_int(api->current_work_stream(kDLCUDA, 0, &stream), -1,
           "other devices are not known");
    is_int(api->managed_tensor_from_py_object_no_sync(&deleted, &m), -1,
           "an object that is no tensor");
    is_int(api->dltensor_from_py_object_no_sync(&deleted, &view), -1,
           "has no view");
    tn_error_clear();
    DLTensor prototype = {.device = {kDLCPU, 0},
                          .ndim = 2,
                          .dtype = {4, 16, 1},
                          .shape = (int64_t[]){3, 5}};
    m = NULL;
    ok(api->managed_tensor_allocator(&prototype, &m, NULL, set_error) == 0 &&
           m->dl_tensor.dtype.code == 4 && m->dl_tensor.shape[1] == 5,
       "a tensor like a prototype is made");
    m->deleter(m);
    prototype.dtype.code = 5;
    is_int(api->managed_tensor_allocator(&prototype, &m, NULL, set_error), -1,
           "one of a dtype that Tenon does not have is not");
    is_str(seen_kind, "BufferError", "the kind of the error");
    tn_error_clear();

    tn_tensor *y = tn_dlpack_import_object(api, x);
    ok(y && tn_tensor_data(y) == tn_tensor_data(x), "an object is imported");
    ok(!tn_dlpack_import_object(NULL, x), "no table");
    refused(TN_ERR_ARGUMENT, "api is NULL", "is rejected");
    ok(!tn_dlpack_import_object(api, NULL), "no object");
    refused(TN_ERR_ARGUMENT, "object is NULL", "is rejected");
    ok(!tn_dlpack_import_object(api, &deleted), "another object");
    refused(TN_ERR_UNSUPPORTED, "see the error of Python", "is rejected");
    DLPackExchangeAPI newer = *api;
    newer.version.major = 2;
    ok(!tn_dlpack_import_object(&newer, x), "a table of version 2");
    refused(TN_ERR_UNSUPPORTED, "a table of major version 1", "is rejected");
    newer.prev_api = (void *)(uintptr_t)api;
    ok(tn_dlpack_import_object(&newer, x), "unless an older one follows");
    is_str(tn_error(), NULL, "no error is pending");
}

int main(void)
{
    plan_later();
    check_import();
    check_bad_imports();
    tn_device *device = tn_device_current();
    if (strncmp(tn_device_name(device), "cpu", 3) == 0) {
        check_export();
        check_table();
    } else {
        ok(!tn_dlpack_export(tn_zeros(tn_dims(2))), "a tensor on %s",
           tn_device_name(device));
        refused(TN_ERR_DEVICE, "addresses are not public", "is rejected");
        skip(1, "only tensors on the device cpu are exported");
    }
    return done_testing();
}
