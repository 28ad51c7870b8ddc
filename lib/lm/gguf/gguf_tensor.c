/* gguf_tensor.c: makes tensors from a GGUF file. */
#include <lm/gguf/gguf.h>

#include <tenon/ops.h>

TN_OPTIONS_TYPE(tn_gguf_tensor, "gguf_tensor", "file, name",
                TN_GGUF_TENSOR_OPTIONS_LIST)

/* Makes a tensor that shares the memory of the file, on the current device,
 * which is the cpu. */
static tn_tensor *tensor_of(tn_gguf *file, const tn__gguf_entry *entry,
                            tn_dtype dtype, int ndim, const int64_t *shape)
{
    tn_dims_list dims = {ndim, {0}};
    for (int d = 0; d < ndim; d++)
        dims.dim[d] = shape[d];
    char *data = (char *)file->map + entry->offset;
    if (!entry->bytes) /* empty data may begin at the end of the file */
        return tn_tensor_from_array("", dtype, dims);
    tn_keep(file);
    tn_tensor *x = tn_tensor_wrap(data, dtype, dims, tn_drop, file);
    if (!x)
        tn_drop(file);
    return x;
}

/* Makes a tensor of blocks: uint8, with the bytes of a row in its last
 * dimension. */
static tn_tensor *blocks_of(tn_gguf *file, const tn__gguf_entry *entry)
{
    int64_t shape[TN_MAX_NDIM] = {0};
    for (int d = 0; d < entry->ndim; d++)
        shape[d] = entry->shape[d];
    const int64_t row = shape[entry->ndim - 1] / entry->type->elements;
    shape[entry->ndim - 1] = row * entry->type->bytes;
    return tensor_of(file, entry, TN_U8, entry->ndim, shape);
}

static const tn__gguf_entry *need(tn_gguf *file, const char *name,
                                  const char *call)
{
    if (!tn__gguf_check(file, call))
        return NULL;
    if (!name) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "name",
                                 "name is NULL");
        return NULL;
    }
    const tn__gguf_entry *entry = tn__gguf_entry_find(&file->header, name);
    if (!entry)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "name",
                                 "%s has no tensor \"%s\"", file->path, name);
    else if (entry->type->dtype == TN_DTYPE_NONE)
        tn_error_refuse_argument(TN_ERR_DTYPE, call, "name",
                                 "tensor \"%s\" of %s is %s, which cannot be "
                                 "read; convert the file to another type, as "
                                 "with llama-quantize", name, file->path,
                                 entry->type->name);
    else
        return entry;
    return NULL;
}

/* Makes a tensor on the cpu by calling `make`, and moves it to the current
 * device. */
static tn_tensor *on_cpu(tn_tensor *(*make)(tn_gguf *file,
                                            const tn__gguf_entry *entry,
                                            tn_dtype dtype),
                         tn_gguf *file, const tn__gguf_entry *entry,
                         tn_dtype dtype)
{
    tn_device *device = tn_device_current();
    tn_scope *scope = device ? tn_scope_open() : NULL;
    tn_device *cpu = scope ? tn_device_open("cpu") : NULL;
    tn_tensor *x = NULL;
    if (cpu && tn_device_set(cpu) == TN_OK) {
        x = make(file, entry, dtype);
        tn_device_set(device);
        x = tn_to(x, device);
    }
    return tn_scope_result(scope, x);
}

static tn_tensor *read_tensor(tn_gguf *file, const tn__gguf_entry *entry,
                              tn_dtype dtype)
{
    const tn_dtype own = entry->type->dtype;
    if (own >= TN_BLOCK)
        return tn_dequantize_blocks(blocks_of(file, entry), entry->type->name,
                                    .dtype = dtype ? dtype : TN_F32);
    tn_tensor *x = tensor_of(file, entry, own, entry->ndim, entry->shape);
    return dtype && dtype != own ? tn_to_dtype(x, dtype) : x;
}

static tn_tensor *read_blocks(tn_gguf *file, const tn__gguf_entry *entry,
                              tn_dtype dtype)
{
    (void)dtype;
    return blocks_of(file, entry);
}

tn_tensor *tn_gguf_tensor_with(tn_gguf *file, const char *name,
                               const tn_gguf_tensor_options *options)
{
    tn_gguf_tensor_options o;
    const tn__gguf_entry *entry = need(file, name, "gguf_tensor");
    if (!entry || tn_options_take(tn_gguf_tensor_type(), &o, options) < 0)
        return NULL;
    if (o.dtype && o.dtype != TN_F32 && o.dtype != TN_F16 &&
        o.dtype != TN_BF16) {
        tn_error_refuse_argument(TN_ERR_DTYPE, "gguf_tensor", "dtype",
                                 "dtype is %s; expected float32, float16 or "
                                 "bfloat16", tn_dtype_name(o.dtype));
        return NULL;
    }
    return on_cpu(read_tensor, file, entry, o.dtype);
}

tn_tensor *tn_gguf_blocks(tn_gguf *file, const char *name)
{
    const tn__gguf_entry *entry = need(file, name, "gguf_blocks");
    if (entry && entry->type->dtype < TN_BLOCK) {
        tn_error_refuse_argument(TN_ERR_DTYPE, "gguf_blocks", "name",
                                 "tensor \"%s\" of %s is %s, which has no "
                                 "blocks; read it with tn_gguf_tensor", name,
                                 file->path, entry->type->name);
        entry = NULL;
    }
    return entry ? on_cpu(read_blocks, file, entry, TN_DTYPE_NONE) : NULL;
}
