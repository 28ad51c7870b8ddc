/* dlpack_import.c: makes tensors of memory that others lend by DLPack.
 *
 * tn_tensor_wrap takes contiguous memory, so the whole span from the first to
 * the last element is wrapped, and the tensor is a strided view of it. */
#include <media/array/dlpack.h>

#include <media/array/host.h>
#include <stdlib.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>

TN_OPTIONS_TYPE(tn_dlpack_import, "dlpack_import", "managed",
                TN_DLPACK_IMPORT_OPTIONS_LIST)

/* Memory of another library. Its deleter is called once, when the storage is
 * freed, but only if the tensor was made: after a failure it belongs to the
 * caller. */
typedef struct loan {
    struct DLManagedTensor *plain;             /* one of the two */
    struct DLManagedTensorVersioned *versioned;
    bool ours;
} loan;

static void give_back(const loan *l)
{
    if (l->plain && l->plain->deleter)
        l->plain->deleter(l->plain);
    if (l->versioned && l->versioned->deleter)
        l->versioned->deleter(l->versioned);
}

static void end_loan(void *context)
{
    loan *l = context;
    if (l->ours)
        give_back(l);
    free(l);
}

/* ---- checks --------------------------------------------------------------- */

/* The memory of a description: its span, and the strides of its view. */
typedef struct layout {
    tn_dtype dtype;
    char *data;
    int64_t numel, span; /* in elements */
    tn_dims_list shape, strides;
} layout;

static tn_status check_device(const tn__dl_tensor *t, const char *call)
{
    static const struct {
        int32_t type;
        const char *name;
    } names[] = {{2, "CUDA"},    {3, "CUDAHost"},     {4, "OpenCL"},
                 {7, "Vulkan"},  {8, "Metal"},        {9, "VPI"},
                 {10, "ROCM"},   {11, "ROCMHost"},    {12, "ExtDev"},
                 {13, "CUDAManaged"}, {14, "OneAPI"}, {15, "WebGPU"},
                 {16, "Hexagon"}, {17, "MAIA"},       {18, "Trn"}};
    const char *name = "unknown";
    if (t->device.type == TN__DL_CPU)
        return TN_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].type == t->device.type)
            name = names[i].name;
    return tn_error_refuse_argument(
        TN_ERR_DEVICE, call, "managed",
        "the memory is on device type %d (kDL%s); expected kDLCPU: copy it to "
        "the CPU first", t->device.type, name);
}

static tn_status read_shape(const tn__dl_tensor *t, layout *l,
                            const char *call)
{
    if (t->ndim < 0 || t->ndim > TN_MAX_NDIM || (t->ndim && !t->shape))
        return tn_error_refuse_argument(
            TN_ERR_SHAPE, call, "managed",
            "%d dimensions%s; a tensor has at most %d", t->ndim,
            t->ndim && !t->shape ? " without a shape" : "", TN_MAX_NDIM);
    l->shape = l->strides = (tn_dims_list){t->ndim, {0}};
    int64_t row_major = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        l->shape.dim[d] = t->shape[d];
        l->strides.dim[d] = t->strides && t->shape[d] > 1 ? t->strides[d]
                                                          : row_major;
        if (t->shape[d] > 0 &&
            __builtin_mul_overflow(row_major, t->shape[d], &row_major))
            row_major = 0; /* rejected below */
    }
    if (!tn__array_numel(t->shape, t->ndim, &l->numel))
        return tn_error_refuse_argument(TN_ERR_SHAPE, call, "managed",
                                        "a size is negative, or the tensor has "
                                        "too many elements");
    return TN_OK;
}

static tn_status read_layout(const tn__dl_tensor *t, layout *l,
                             const char *call)
{
    tn_status status = check_device(t, call);
    if (status < 0)
        return status;
    l->dtype = tn__dlpack_dtype(t, call);
    if (!l->dtype)
        return TN_ERR_DTYPE;
    status = read_shape(t, l, call);
    if (status < 0 || !l->numel)
        return status;
    const size_t item = tn_dtype_bytes(l->dtype);
    l->data = t->data ? (char *)t->data + t->byte_offset : NULL;
    l->span = 1;
    for (int d = 0; d < t->ndim; d++) {
        int64_t step;
        if (l->strides.dim[d] < 0)
            return tn_error_refuse_argument(
                TN_ERR_UNSUPPORTED, call, "managed",
                "stride %lld of dimension %d is negative: copy the array, as "
                "with numpy.ascontiguousarray",
                (long long)l->strides.dim[d], d);
        if (__builtin_mul_overflow(l->shape.dim[d] - 1, l->strides.dim[d],
                                   &step) ||
            __builtin_add_overflow(l->span, step, &l->span) ||
            l->span > INT64_MAX / (int64_t)item)
            return tn_error_refuse_argument(
                TN_ERR_SHAPE, call, "managed",
                "the shape and strides reach beyond the address space");
    }
    if (!t->data || (uintptr_t)l->data % item)
        return tn_error_refuse_argument(
            t->data ? TN_ERR_UNSUPPORTED : TN_ERR_ARGUMENT, call, "managed",
            "the address %p %s", (void *)l->data,
            t->data ? "is not aligned to the elements" : "is NULL");
    return TN_OK;
}

/* ---- tensors -------------------------------------------------------------- */

static tn_tensor *view_of(const layout *l, loan *lent)
{
    tn_tensor *span =
        tn_tensor_wrap(l->data, l->dtype, tn_dims(l->span), end_loan, lent);
    if (!span)
        free(lent);
    return span ? tn_as_strided(span, l->shape, l->strides) : NULL;
}

/* Makes the tensor. The current device is cpu. */
static tn_tensor *make(const layout *l, const loan *from, bool copy,
                       const char *call)
{
    if (!l->numel) {
        tn_tensor *empty = tn_tensor_from_array("", l->dtype, l->shape);
        if (empty)
            give_back(from);
        return empty;
    }
    loan *lent = malloc(sizeof *lent);
    if (!lent)
        return tn__array_no_memory(call), NULL;
    *lent = *from;
    tn_tensor *x = view_of(l, lent);
    if (x && copy)
        x = tn_clone(x);
    if (!x)
        return NULL;
    lent->ours = true; /* the storage of the view lives: its scope is open */
    return x;
}

static tn_tensor *import(const tn__dl_tensor *tensor, const loan *from,
                         bool copy, const char *call)
{
    layout l = {.dtype = TN_DTYPE_NONE};
    if (read_layout(tensor, &l, call) < 0)
        return NULL;
    tn_scope *scope = tn_scope_open();
    const bool grad = tn_grad_mode_set(false);
    tn_device *was = NULL;
    tn_tensor *x = scope && tn__array_use_cpu(&was)
                       ? make(&l, from, copy, call)
                       : NULL;
    if (was)
        tn_device_set(was);
    tn_grad_mode_set(grad);
    return tn_scope_result(scope, x);
}

tn_tensor *tn__dlpack_take(struct DLManagedTensorVersioned *managed, bool copy,
                           const char *call)
{
    if (!managed) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "managed",
                                 "managed is NULL");
        return NULL;
    }
    if (managed->version.major != TN__DL_MAJOR) {
        tn_error_refuse_argument(TN_ERR_UNSUPPORTED, call, "managed",
                                 "the DLPack version is %u.%u; expected 1.x",
                                 managed->version.major,
                                 managed->version.minor);
        return NULL;
    }
    if (managed->flags & TN__DL_READ_ONLY && !copy) {
        tn_error_refuse_argument(TN_ERR_UNSUPPORTED, call, "copy",
                                 "the memory is read-only, but a tensor may "
                                 "be written to: give .copy = true");
        return NULL;
    }
    const loan from = {.versioned = managed};
    return import(&managed->tensor, &from, copy, call);
}

tn_tensor *tn_dlpack_import_with(struct DLManagedTensorVersioned *managed,
                                 const tn_dlpack_import_options *options)
{
    tn_dlpack_import_options o;
    if (tn_options_take(tn_dlpack_import_type(), &o, options) < 0)
        return NULL;
    return tn__dlpack_take(managed, o.copy, "dlpack_import");
}

tn_tensor *tn_dlpack_import_unversioned(struct DLManagedTensor *managed)
{
    static const char call[] = "dlpack_import_unversioned";
    if (!managed) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "managed",
                                 "managed is NULL");
        return NULL;
    }
    const loan from = {.plain = managed};
    return import(&managed->tensor, &from, false, call);
}
