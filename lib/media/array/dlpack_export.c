/* dlpack_export.c: lends tensors by DLPack. */
#include <media/array/dlpack.h>

#include <media/array/host.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/autograd.h>

TN_OPTIONS_TYPE(tn_dlpack_export, "dlpack_export", "x",
                TN_DLPACK_EXPORT_OPTIONS_LIST)

static const struct dtype {
    tn_dtype dtype;
    uint8_t code, bits;
} dtypes[] = {
    {TN_F32, TN__DL_FLOAT, 32},      {TN_F64, TN__DL_FLOAT, 64},
    {TN_F16, TN__DL_FLOAT, 16},      {TN_BF16, TN__DL_BFLOAT, 16},
    {TN_F8E4M3, TN__DL_F8E4M3FN, 8}, {TN_F8E5M2, TN__DL_F8E5M2, 8},
    {TN_I64, TN__DL_INT, 64},        {TN_I32, TN__DL_INT, 32},
    {TN_I16, TN__DL_INT, 16},        {TN_I8, TN__DL_INT, 8},
    {TN_U8, TN__DL_UINT, 8},         {TN_BOOL, TN__DL_BOOL, 8},
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof *dtypes };

tn_dtype tn__dlpack_dtype(const tn__dl_tensor *tensor, const char *call)
{
    static const char *const codes[] = {
        "int", "uint", "float", "opaque handle", "bfloat", "complex", "bool",
        "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn",
        "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
        "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"};
    const unsigned code = tensor->dtype.code, bits = tensor->dtype.bits;
    const bool known = code < sizeof codes / sizeof *codes;
    if (tensor->dtype.lanes == 1)
        for (int i = 0; i < DTYPE_COUNT; i++)
            if (dtypes[i].code == code && dtypes[i].bits == bits)
                return dtypes[i].dtype;
    tn_error_refuse_argument(
        TN_ERR_DTYPE, call, "managed",
        "dtype %s (code %u) of %u bits and %u lanes, which Tenon does not "
        "have", known ? codes[code] : "unknown", code, bits,
        tensor->dtype.lanes);
    return TN_DTYPE_NONE;
}

tn_status tn__dlpack_describe(tn_tensor *x, tn__dl_tensor *out,
                              const char *call)
{
    if (!tn_object_check_kind(x, "tensor", call, "x"))
        return tn_error_code();
    const char *device = tn_device_name(tn_tensor_device(x));
    const tn_given given = {"x", x};
    if (strncmp(device, "cpu", 3) != 0)
        return tn_error_refuse(TN_ERR_DEVICE, call, &given, 1,
                               "x is on %s, whose addresses are not public; "
                               "move it with tn_to(x, tn_device_open(\"cpu\"))",
                               device);
    if (tn_tensor_requires_grad(x))
        return tn_error_refuse(TN_ERR_STATE, call, &given, 1,
                               "x requires a gradient, which other libraries "
                               "do not see: export tn_detach(x)");
    *out = (tn__dl_tensor){
        .device = {.type = TN__DL_CPU},
        .ndim = tn_tensor_ndim(x),
        .dtype = {.lanes = 1},
        /* DLPack has no const, but receivers do not change these arrays */
        .shape = (int64_t *)(uintptr_t)tn_tensor_shape(x),
        .strides = (int64_t *)(uintptr_t)tn_tensor_strides(x)};
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (dtypes[i].dtype == tn_tensor_dtype(x)) {
            out->dtype.code = dtypes[i].code;
            out->dtype.bits = dtypes[i].bits;
        }
    if (!tn_tensor_numel(x)) /* the address is NULL, as DLPack recommends */
        return TN_OK;
    out->data = tn_tensor_data(x);
    return out->data ? TN_OK : tn_error_code();
}

/* ---- lending -------------------------------------------------------------- */

/* A tensor that was lent. x keeps its memory, shape and strides alive. */
typedef struct loan {
    union {
        struct DLManagedTensor plain;
        struct DLManagedTensorVersioned versioned;
    };
    tn_tensor *x; /* kept */
} loan;

static void end_loan(loan *l)
{
    if (!l)
        return;
    tn_drop(l->x);
    free(l);
}

static void delete_plain(struct DLManagedTensor *self)
{
    end_loan(self ? self->context : NULL);
}

static void delete_versioned(struct DLManagedTensorVersioned *self)
{
    end_loan(self ? self->context : NULL);
}

static loan *loan_new(tn_tensor *x, tn__dl_tensor *tensor, const char *call)
{
    if (tn__dlpack_describe(x, tensor, call) < 0)
        return NULL;
    loan *l = calloc(1, sizeof *l);
    if (!l)
        return tn__array_no_memory(call), NULL;
    l->x = tn_keep(x);
    return l;
}

struct DLManagedTensorVersioned *
tn__dlpack_lend(tn_tensor *x, uint64_t flags, const char *call)
{
    tn__dl_tensor tensor;
    loan *l = loan_new(x, &tensor, call);
    if (!l)
        return NULL;
    l->versioned = (struct DLManagedTensorVersioned){
        .version = {TN__DL_MAJOR, TN__DL_MINOR},
        .context = l,
        .deleter = delete_versioned,
        .flags = flags,
        .tensor = tensor};
    return &l->versioned;
}

struct DLManagedTensorVersioned *
tn_dlpack_export_with(tn_tensor *x, const tn_dlpack_export_options *options)
{
    tn_dlpack_export_options o;
    if (tn_options_take(tn_dlpack_export_type(), &o, options) < 0)
        return NULL;
    return tn__dlpack_lend(x, o.read_only ? TN__DL_READ_ONLY : 0,
                           "dlpack_export");
}

struct DLManagedTensor *tn_dlpack_export_unversioned(tn_tensor *x)
{
    tn__dl_tensor tensor;
    loan *l = loan_new(x, &tensor, "dlpack_export_unversioned");
    if (!l)
        return NULL;
    l->plain = (struct DLManagedTensor){
        .tensor = tensor, .context = l, .deleter = delete_plain};
    return &l->plain;
}
