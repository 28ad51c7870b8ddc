/* torch_tensor.c: reads the elements of tensors in files of torch.save. */
#include <media/array/torch_file.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- storages ------------------------------------------------------------- */

/* Reads a part of a stored member. Its CRC is checked once, before. */
static tn_status read_stored(tn_torch_file *file, tn__torch_storage *storage,
                             const tn__zip_member *member, void *out,
                             uint64_t bytes, uint64_t offset,
                             const char *call)
{
    if (!__atomic_load_n(&storage->checked, __ATOMIC_ACQUIRE)) {
        const bool all = offset == 0 && bytes == member->bytes;
        tn_status status =
            all ? tn__zip_read(&file->zip, member, out, true, call)
                : tn__zip_check(&file->zip, member, true, call);
        if (status < 0)
            return status;
        __atomic_store_n(&storage->checked, true, __ATOMIC_RELEASE);
        if (all)
            return TN_OK;
    }
    return tn__array_source_read(&file->source, out, bytes,
                                 member->at + offset, call);
}

static tn_status read_deflated(tn_torch_file *file,
                               const tn__zip_member *member, void *out,
                               uint64_t bytes, uint64_t offset,
                               const char *call)
{
    char *data = tn__array_alloc(member->bytes, call);
    if (!data)
        return TN_ERR_MEMORY;
    tn_status status = tn__zip_read(&file->zip, member, data, true, call);
    if (status == TN_OK)
        memcpy(out, data + offset, (size_t)bytes);
    free(data);
    return status;
}

/* Finds the member of a storage and checks that it has the expected number of
 * bytes. */
static const tn__zip_member *find_member(tn_torch_file *file,
                                         const tn__torch_storage *storage,
                                         uint64_t need, const char *call)
{
    const char *const piece[] = {file->folder, "/data/", storage->key, NULL};
    const tn__zip_member *member = tn__zip_find(&file->zip, piece);
    if (member && member->bytes >= need)
        return member;
    tn_error_refuse_argument(TN_ERR_FORMAT, call, NULL,
                             "%s: storage \"%s\" is %s", file->source.path,
                             storage->key, member ? "too small" : "missing");
    return NULL;
}

static tn_status read_storage(tn_torch_file *file, tn__torch_storage *storage,
                              void *out, uint64_t bytes, uint64_t offset,
                              const char *call)
{
    if (!file->is_zip)
        return storage->found
                   ? tn__array_source_read(&file->source, out, bytes,
                                           storage->at + offset, call)
                   : tn_error_refuse_argument(
                         TN_ERR_FORMAT, call, NULL,
                         "%s: storage \"%s\" is missing", file->source.path,
                         storage->key);
    const tn__zip_member *member =
        find_member(file, storage, offset + bytes, call);
    if (!member)
        return tn_error_code();
    return member->deflated
               ? read_deflated(file, member, out, bytes, offset, call)
               : read_stored(file, storage, member, out, bytes, offset, call);
}

/* ---- elements ------------------------------------------------------------- */

static bool is_contiguous(const tn__torch_tensor *t)
{
    int64_t want = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        if (t->shape[d] != 1 && t->stride[d] != want)
            return false;
        want *= t->shape[d];
    }
    return true;
}

/* Returns the number of elements from the first to the last, both included. */
static uint64_t span_of(const tn__torch_tensor *t)
{
    uint64_t last = 0;
    for (int d = 0; d < t->ndim; d++)
        last += (uint64_t)(t->shape[d] - 1) * (uint64_t)t->stride[d];
    return last + 1;
}

static void gather(const tn__torch_tensor *t, const char *from, char *to)
{
    const size_t item = t->dtype->item;
    int64_t index[TN_MAX_NDIM] = {0};
    uint64_t at = 0;
    for (int64_t i = 0; i < t->numel; i++, to += item) {
        memcpy(to, from + at * item, item);
        for (int d = t->ndim - 1; d >= 0; d--) {
            at += (uint64_t)t->stride[d];
            if (++index[d] < t->shape[d])
                break;
            at -= (uint64_t)t->stride[d] * (uint64_t)t->shape[d];
            index[d] = 0;
        }
    }
}

/* A tensor that was expanded (stride 0) may have far more elements than the file
 * has bytes, so its size is limited. */
static tn_status check_expanded(const tn_torch_file *file,
                                const tn__torch_tensor *t, const char *name,
                                uint64_t bytes, const char *call)
{
    const int64_t limit = tn_unpack_limit();
    if (limit < 0)
        return (tn_status)limit;
    if (!limit || bytes <= (uint64_t)limit ||
        bytes <= t->storage->numel * t->storage->dtype->item)
        return TN_OK;
    return tn_error_refuse_argument(
        TN_ERR_IO, call, "name",
        "tensor \"%s\" of %s was expanded to %llu bytes, more than %lld; allow "
        "more with tn_unpack_limit_set or TENON_UNPACK_LIMIT", name,
        file->source.path, (unsigned long long)bytes, (long long)limit);
}

void *tn__torch_elements(tn_torch_file *file, const tn__torch_tensor *t,
                         const char *name, const char *call)
{
    const uint64_t item = t->dtype->item;
    uint64_t bytes;
    if (__builtin_mul_overflow((uint64_t)t->numel, item, &bytes))
        return tn__array_no_memory(call), NULL;
    if (check_expanded(file, t, name, bytes, call) < 0)
        return NULL;
    char *out = tn__array_alloc(bytes, call);
    if (!out || !t->numel)
        return out;
    tn_status status;
    if (is_contiguous(t)) {
        status = read_storage(file, t->storage, out, bytes, t->offset, call);
    } else {
        const uint64_t span = span_of(t) * item;
        char *data = tn__array_alloc(span, call);
        status = data ? read_storage(file, t->storage, data, span, t->offset,
                                     call)
                      : TN_ERR_MEMORY;
        if (status == TN_OK)
            gather(t, data, out);
        free(data);
    }
    if (status == TN_OK)
        return out;
    free(out);
    return NULL;
}

tn_tensor *tn_torch_file_tensor(tn_torch_file *file, const char *name)
{
    static const char call[] = "torch_file_tensor";
    const tn__torch_entry *entry = tn__torch_need(file, name, call);
    if (!entry)
        return NULL;
    if (entry->value->kind != TN__PICKLE_TENSOR) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "name",
                                 "\"%s\" of %s is not a tensor", name,
                                 file->source.path);
        return NULL;
    }
    const tn__torch_tensor *t = entry->value->tensor;
    if (!t->dtype->dtype) {
        tn_error_refuse_argument(
            TN_ERR_DTYPE, call, "name",
            "tensor \"%s\" of %s is %s, which Tenon does not have", name,
            file->source.path, t->dtype->name);
        return NULL;
    }
    void *data = tn__torch_elements(file, t, name, call);
    if (!data)
        return NULL;
    const tn__array_elements elements = {
        .dtype = t->dtype->dtype,
        .widen = t->dtype->widen,
        .item = t->dtype->item,
        .swapped = file->swapped && t->dtype->item > 1,
        .what = name};
    return tn__array_tensor(data, &elements,
                            tn_dims_from_array(t->shape, t->ndim), call);
}
