/* dlpack_exchange.c: the C exchange table of DLPack, for Python bindings. */
#include <base/library_lock.h>
#include <media/array/dlpack.h>

#include <media/array/host.h>
#include <tenon/ops.h>

/* ---- objects of others ---------------------------------------------------- */

tn_tensor *tn_dlpack_import_object(const struct DLPackExchangeAPI *api,
                                   void *object)
{
    static const char call[] = "dlpack_import_object";
    struct DLManagedTensorVersioned *managed = NULL;
    if (!api || !object) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call,
                                 api ? "object" : "api", "%s is NULL",
                                 api ? "object" : "api");
        return NULL;
    }
    while (api && api->version.major != TN__DL_MAJOR)
        api = api->previous;
    if (!api) {
        tn_error_refuse_argument(TN_ERR_UNSUPPORTED, call, "api",
                                 "expected a table of major version 1");
        return NULL;
    }
    if (api->managed_tensor_from_py_object_no_sync(object, &managed) != 0 ||
        !managed) {
        tn_error_refuse_argument(TN_ERR_UNSUPPORTED, call, "object",
                                 "the object cannot be exported: see the "
                                 "error of Python");
        return NULL;
    }
    tn_tensor *x = tn__dlpack_take(managed, false, call);
    if (!x && managed->deleter)
        managed->deleter(managed);
    return x;
}

/* ---- our table ------------------------------------------------------------ */

static tn_tensor *(*tensor_from)(void *object);
static void *(*object_from)(tn_tensor *x);
static const char name[] = "dlpack_exchange_api";

static int from_object(void *object, struct DLManagedTensorVersioned **out)
{
    tn_tensor *x = tensor_from(object);
    struct DLManagedTensorVersioned *managed =
        x ? tn__dlpack_lend(x, 0, name) : NULL;
    if (!managed)
        return -1;
    *out = managed;
    return 0;
}

static int describe_object(void *object, tn__dl_tensor *out)
{
    tn__dl_tensor tensor;
    tn_tensor *x = tensor_from(object);
    if (!x || tn__dlpack_describe(x, &tensor, name) < 0)
        return -1;
    *out = tensor;
    return 0;
}

static int to_object(struct DLManagedTensorVersioned *managed,
                     void **out_object)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = scope ? tn__dlpack_take(managed, false, name) : NULL;
    void *object = x ? object_from(x) : NULL;
    tn_scope_close(scope);
    if (!x && managed && managed->deleter) /* the call takes ownership of it,
                                              also if it fails */
        managed->deleter(managed);
    if (!object)
        return -1;
    *out_object = object;
    return 0;
}

static int allocate(tn__dl_tensor *prototype,
                    struct DLManagedTensorVersioned **out, void *error_context,
                    void (*set_error)(void *error_context, const char *kind,
                                      const char *message))
{
    tn_scope *scope = tn_scope_open();
    tn_device *was = NULL;
    tn_tensor *x = NULL;
    const tn_dtype dtype =
        scope && prototype ? tn__dlpack_dtype(prototype, name) : TN_DTYPE_NONE;
    if (dtype && prototype->device.type != TN__DL_CPU)
        tn_error_refuse_argument(TN_ERR_DEVICE, name, "prototype",
                                 "device type %d; expected kDLCPU",
                                 prototype->device.type);
    else if (dtype && (prototype->ndim < 0 || prototype->ndim > TN_MAX_NDIM))
        tn_error_refuse_argument(TN_ERR_SHAPE, name, "prototype",
                                 "%d dimensions; a tensor has at most %d",
                                 prototype->ndim, TN_MAX_NDIM);
    else if (dtype && tn__array_use_cpu(&was))
        x = tn_empty(tn_dims_from_array(prototype->shape, prototype->ndim),
                     .dtype = dtype);
    if (was)
        tn_device_set(was);
    struct DLManagedTensorVersioned *managed =
        x ? tn__dlpack_lend(x, 0, name) : NULL;
    tn_scope_close(scope);
    if (!managed && set_error)
        set_error(error_context,
                  tn_error_code() == TN_ERR_MEMORY ? "MemoryError"
                                                   : "BufferError",
                  tn_error() ? tn_error() : "the prototype is NULL");
    if (!managed)
        return -1;
    *out = managed;
    return 0;
}

/* The CPU has no stream. */
static int work_stream(int32_t device_type, int32_t device_id,
                       void **out_stream)
{
    (void)device_id;
    if (device_type != TN__DL_CPU || !out_stream)
        return -1;
    *out_stream = NULL;
    return 0;
}

const struct DLPackExchangeAPI *
tn_dlpack_exchange_api(tn_tensor *(*tensor_of)(void *object),
                       void *(*object_of)(tn_tensor *x))
{
    static const struct DLPackExchangeAPI table = {
        .version = {TN__DL_MAJOR, TN__DL_MINOR},
        .managed_tensor_allocator = allocate,
        .managed_tensor_from_py_object_no_sync = from_object,
        .managed_tensor_to_py_object_no_sync = to_object,
        .dltensor_from_py_object_no_sync = describe_object,
        .current_work_stream = work_stream};
    if (!tensor_of || !object_of) {
        const char *missing = tensor_of ? "object_of" : "tensor_of";
        tn_error_refuse_argument(TN_ERR_ARGUMENT, name, missing, "%s is NULL",
                                 missing);
        return NULL;
    }
    tn__library_lock();
    const bool same = !tensor_from || (tensor_from == tensor_of &&
                                       object_from == object_of);
    if (same) {
        tensor_from = tensor_of;
        object_from = object_of;
    }
    tn__library_unlock();
    if (!same) {
        tn_error_refuse_argument(TN_ERR_STATE, name, "tensor_of",
                                 "other conversion functions were set before");
        return NULL;
    }
    return &table;
}
