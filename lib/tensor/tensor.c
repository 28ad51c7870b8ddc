/* tensor.c: makes and frees storages and tensors, and reads attributes of
 * tensors.
 *
 * Every operator makes a tensor, so making one must be fast. Storages and
 * tensors are allocated from per-thread free lists. Each field is written only
 * once, and of the arrays shape and stride only the elements that are used. */
#include <base/context.h>
#include <base/error.h>
#include <base/lock.h>
#include <base/memory.h>
#include <base/platform.h>
#include <tensor/tensor.h>

static tn__pool storage_pool = {.name = "storage",
                                .bytes = sizeof(tn__storage)};
static tn__pool tensor_pool = {.name = "tensor", .bytes = sizeof(tn_tensor)};

tn__tensor_hooks tn__tensor_hook;

/* ---- storage ------------------------------------------------------------- */

/* Makes a storage. Takes ownership of block, also on failure. */
static tn__storage *storage_new(tn_device *device, tn__block *block,
                                uint64_t bytes)
{
    tn__storage *storage = tn__pool_take(&storage_pool);
    if (!storage)
        return NULL;
    atomic_init(&storage->references, 1);
    atomic_init(&storage->saved, 0);
    atomic_init(&storage->version, 0);
    storage->changed_by = NULL;
    atomic_init(&storage->history, NULL);
    storage->has_leaf = false;
    storage->device = device;
    storage->block = block;
    storage->wrapped = false;
    storage->bytes = bytes;
    storage->table = 0;
    storage->release = NULL;
    storage->context = NULL;
    return storage;
}

bool tn__storages_overlap(const tn__storage *a, const tn__storage *b)
{
    const char *x = a->block->host, *y = b->block->host;
    if (a == b || (!a->wrapped && !b->wrapped))
        return a == b;
    return x && y && x < y + b->bytes && y < x + a->bytes;
}

static bool give_reference(tn__storage *storage)
{
    /* If this is the only reference, no other thread can add or release one. So
     * no atomic decrement is needed. */
    return atomic_load_explicit(&storage->references, memory_order_acquire) ==
               1 ||
           atomic_fetch_sub_explicit(&storage->references, 1,
                                     memory_order_acq_rel) == 1;
}

/* Releases a reference to a storage with a history, autograd's record of
 * in-place changes. Returns whether it was the last reference. Frees the
 * history when all other references belong to values that autograd saved. A
 * lock is held, so that `references` and `saved` are read consistently. A saved
 * value decrements `saved` before it releases its reference. */
static __attribute__((noinline)) bool
give_with_history(tn__storage *storage)
{
    static tn__lock lock = TN__LOCK_INIT;
    tn__history *history = NULL;
    tn__lock_take(&lock);
    if (atomic_load(&storage->references) - 1 <=
        atomic_load(&storage->saved))
        history = atomic_exchange(&storage->history, NULL);
    bool last = give_reference(storage);
    tn__lock_give(&lock);
    if (history) /* without the lock, because this may free other tensors */
        tn__tensor_hook.release_history(history);
    return last;
}

static void storage_unref(tn__storage *storage)
{
    bool last = TN__LIKELY(!atomic_load_explicit(&storage->history,
                                                 memory_order_relaxed))
                    ? give_reference(storage)
                    : give_with_history(storage);
    if (!last)
        return;
    if (storage->wrapped) {
        tn_device *device = storage->device;
        tn__error pending;
        tn__error_hide(&pending);
        tn_device_synchronize(device); /* pending work may use this memory */
        tn__error_restore(&pending);
        device->plugin->buffer_free(device->handle, storage->block->buffer);
        tn__free(storage->block);
        if (storage->release)
            storage->release(storage->context);
    } else {
        tn__block_free(storage->block);
    }
    tn__pool_give(&storage_pool, storage);
}

/* ---- tensor -------------------------------------------------------------- */

static void tensor_destroy(tn__object *object)
{
    tn_tensor *x = (tn_tensor *)object;
    if (x->grad)
        tn__tensor_hook.release_grad(x->grad);
    if (x->storage)
        storage_unref(x->storage);
    tn__pool_give_object(&tensor_pool, x);
}

static void tensor_origin(const tn__object *object, const char **out_made_by,
                          const tn_path **out_made_in)
{
    const tn_tensor *x = (const tn_tensor *)object;
    *out_made_by = x->made_by;
    *out_made_in = x->made_in;
}

const tn__class tn__tensor_class = {.name = "tensor",
                                    .destroy = tensor_destroy,
                                    .origin = tensor_origin};

/* Tensors without memory (tn__tensor_use_up). */
static const tn__class used_up_class = {
    .name = "tensor that was donated to a compiled function",
    .destroy = tensor_destroy,
    .origin = tensor_origin};

void tn__tensor_use_up(tn_tensor *x)
{
    x->object.type = &used_up_class;
    storage_unref(x->storage);
    x->storage = NULL;
}

/* Makes a tensor over storage, whose reference it takes over. The caller sets
 * the fields shape, stride, numel and contiguous. */
static tn_tensor *tensor_over(tn__storage *storage, tn_dtype dtype, int ndim)
{
    tn_tensor *x = tn__pool_take_object(&tensor_pool);
    if (!x)
        return NULL;
    tn__object_init(&x->object, &tn__tensor_class);
    x->storage = storage;
    x->grad = NULL;
    x->made_by = NULL;
    x->made_in = tn__me.location.path;
    x->offset = 0;
    x->dtype = (uint8_t)dtype;
    x->ndim = (uint8_t)ndim;
    x->requires_grad = false;
    x->apart = false;
    return x;
}

/* ---- recorded work ------------------------------------------------------- */

/* The reference that a recorded graph (tn_graph) holds is also counted in
 * storage->saved. Like the references of values that autograd saved, it does
 * not need the storage's history. */
static void keep_recorded(tn__storage *storage, bool made)
{
    if (storage->device == tn__me.recording->device &&
        tn__record_keep(storage, made)) {
        atomic_fetch_add(&storage->references, 1);
        atomic_fetch_add(&storage->saved, 1);
    }
}

void tn__tensor_recorded(const tn_tensor *x)
{
    keep_recorded(x->storage, false);
}

void tn__tensor_recorded_drop(void *kept)
{
    tn__storage *storage = kept;
    atomic_fetch_sub(&storage->saved, 1);
    storage_unref(storage);
}

/* While a graph is recorded, returns the storage of a freed tensor that the
 * recorded work used, so that its memory is used again. Returns NULL if there
 * is none of this size. The tensor must be one that the recorded work made: a
 * replay reads the content of all others again. */
static tn__storage *storage_reuse(tn_device *device, uint64_t bytes)
{
    const tn__record *record = tn__me.recording;
    if (record->device != device)
        return NULL;
    for (size_t i = 0; i < record->kept_count; i++) {
        tn__storage *storage = record->kept[i].object;
        if (atomic_load(&storage->references) != 1 || storage->wrapped ||
            storage->bytes != bytes || atomic_load(&storage->history) ||
            !record->kept[i].made)
            continue;
        atomic_store(&storage->references, 2);
        atomic_store(&storage->version, 0);
        storage->changed_by = NULL;
        storage->has_leaf = false;
        tn__record_reuse(i);
        return storage;
    }
    return NULL;
}

/* Returns whether the device does not support the dtype. It tests one bit,
 * because it is called for every new tensor. */
static inline bool is_refused(const tn_device *device, tn_dtype dtype)
{
    return TN__UNLIKELY(!(device->storage_types & 1u << dtype));
}

static __attribute__((cold, noinline)) tn_tensor *
refuse(const tn_device *device, tn_dtype dtype, const char *what)
{
    tn__device_refuse_storage(device, dtype, what);
    return NULL;
}

/* Makes a tensor with new, uninitialised memory. The caller sets the shape. */
static tn_tensor *tensor_fresh(tn_device *device, tn_dtype dtype, int ndim,
                               uint64_t bytes)
{
    tn__storage *storage = NULL;
    if (TN__UNLIKELY(tn__me.recording != NULL))
        storage = storage_reuse(device, bytes);
    tn__block *block = storage ? NULL : tn__block_alloc(device, bytes);
    if (!storage && !block)
        return NULL;
    if (!storage)
        storage = storage_new(device, block, bytes);
    if (!storage) {
        tn__block_free(block);
        return NULL;
    }
    if (TN__UNLIKELY(tn__me.recording != NULL))
        keep_recorded(storage, true);
    tn_tensor *x = tensor_over(storage, dtype, ndim);
    if (!x)
        storage_unref(storage);
    return x;
}

static bool check_shape(tn_dtype dtype, int ndim, const int64_t *shape,
                        const char *what, uint64_t *bytes)
{
    uint64_t element = tn_dtype_bytes(dtype);
    if (element == 0) {
        tn__fail(TN_ERR_DTYPE, "%s: {dtype:}%d is not a dtype", what,
                 (int)dtype);
        return false;
    }
    if (ndim < 0 || ndim > TN_MAX_NDIM) {
        tn__fail(TN_ERR_SHAPE, "%s: {shape:}{size:}%d dimensions; expected at "
                               "most %d",
                 what, ndim, TN_MAX_NDIM);
        return false;
    }
    bool empty = false;
    for (int d = 0; d < ndim; d++) {
        if (shape[d] < 0) {
            tn__fail(TN_ERR_SHAPE, "%s: {shape:}{size} %lld of dimension %d is "
                     "negative", what, (long long)shape[d], d);
            return false;
        }
        empty = empty || shape[d] == 0;
    }
    /* Strides must not overflow, even if the tensor is empty. So a size of 0
     * counts as 1 in this product. */
    uint64_t total = empty ? 1 : element;
    for (int d = 0; d < ndim; d++) {
        uint64_t size = shape[d] ? (uint64_t)shape[d] : 1;
        if (__builtin_mul_overflow(total, size, &total) ||
            total > (uint64_t)1 << 62) {
            tn__text text = {0};
            tn__text_add_shape(&text, ndim, shape);
            tn__fail(TN_ERR_SHAPE, "%s: {shape}{size:} %s has %s", what,
                     text.data ? text.data : "",
                     empty ? "strides beyond 2^62" : "more than 2^62 bytes");
            tn__text_release(&text);
            return false;
        }
    }
    *bytes = empty ? 0 : total;
    return true;
}

tn_tensor *tn__tensor_new(tn_device *device, tn_dtype dtype, int ndim,
                          const int64_t *shape, const char *what)
{
    uint64_t bytes;
    if (!check_shape(dtype, ndim, shape, what, &bytes))
        return NULL;
    if (is_refused(device, dtype))
        return refuse(device, dtype, what);
    tn_tensor *x = tensor_fresh(device, dtype, ndim, bytes);
    if (!x)
        return NULL;
    x->made_by = what;
    x->contiguous = true;
    x->numel = tn__shape_numel(ndim, shape);
    for (int d = 0; d < ndim; d++)
        x->shape[d] = shape[d];
    tn__shape_contiguous_strides(ndim, shape, x->stride);
    return x;
}

tn_tensor *tn__tensor_new_like(const tn_tensor *like, tn_dtype dtype)
{
    if (is_refused(like->storage->device, dtype))
        return refuse(like->storage->device, dtype, "tensor");
    tn_tensor *x = tensor_fresh(like->storage->device, dtype, like->ndim,
                                (uint64_t)like->numel * tn_dtype_bytes(dtype));
    if (!x)
        return NULL;
    x->contiguous = true;
    x->numel = like->numel;
    for (int d = 0; d < like->ndim; d++) {
        x->shape[d] = like->shape[d];
        x->stride[d] = like->stride[d];
    }
    return x;
}

tn_tensor *tn__tensor_view(const tn_tensor *base, tn_dtype dtype, int ndim,
                           const int64_t *shape, const int64_t *stride,
                           int64_t offset)
{
    if (ndim > TN_MAX_NDIM)
        return tn__fail_null(TN_ERR_SHAPE, "%d dimensions; expected at most "
                                           "%d", ndim,
                             TN_MAX_NDIM);
    /* A view with strides of 0 may have more elements than int64_t can
     * count. */
    int64_t numel = 1;
    bool empty = false, many = false;
    for (int d = 0; d < ndim; d++) {
        empty |= shape[d] == 0;
        many |= __builtin_mul_overflow(numel, shape[d] ? shape[d] : 1, &numel);
    }
    if (TN__UNLIKELY(many)) {
        tn__text text = {0};
        tn__text_add_shape(&text, ndim, shape);
        tn__fail(TN_ERR_SHAPE, "a view of shape %s has more than 2^63 elements",
                 text.data ? text.data : "");
        tn__text_release(&text);
        return NULL;
    }
    tn_tensor *x = tensor_over(base->storage, dtype, ndim);
    if (!x)
        return NULL;
    atomic_fetch_add_explicit(&base->storage->references, 1,
                              memory_order_relaxed);
    x->made_by = base->made_by;
    x->apart = base->apart;
    x->offset = empty ? 0 : offset;
    x->numel = empty ? 0 : numel;
    for (int d = 0; d < ndim; d++) {
        x->shape[d] = shape[d];
        x->stride[d] = stride[d];
    }
    if (TN__UNLIKELY(empty))
        tn__shape_contiguous_strides(ndim, shape, x->stride);
    x->contiguous = empty || tn__shape_is_contiguous(ndim, shape, stride);
    return x;
}

tn_tensor *tn__tensor_alias(const tn_tensor *x)
{
    return tn__tensor_view(x, x->dtype, x->ndim, x->shape, x->stride,
                           x->offset);
}

tn_tensor *tn_tensor_wrap(void *data, tn_dtype dtype, tn_dims_list shape,
                          void (*release)(void *context), void *context)
{
    uint64_t bytes;
    tn_device *device = tn_device_current();
    if (!device ||
        !check_shape(dtype, shape.count, shape.dim, "tensor_wrap", &bytes))
        return NULL;
    if (!data && bytes)
        return tn__fail_null(TN_ERR_ARGUMENT, "tensor_wrap: {data} is NULL");
    if (is_refused(device, dtype))
        return refuse(device, dtype, "tensor_wrap");
    if (!device->plugin->buffer_wrap)
        return tn__fail_null(TN_ERR_DEVICE,
                             "tensor_wrap: %s cannot use memory of the "
                             "program; copy it with tn_tensor_from_array",
                             device->name);
    tn__block *block = tn__calloc(1, sizeof *block);
    if (!block)
        return NULL;
    tn__storage *storage = NULL;
    tn_tensor *x = NULL;
    if (device->plugin->buffer_wrap(device->handle, data, bytes,
                                    &block->buffer) < 0)
        goto fail;
    block->host = data;
    block->bytes = bytes;
    block->device = device;
    block->used = true;
    storage = storage_new(device, block, bytes);
    if (!storage)
        goto fail_buffer;
    x = tensor_over(storage, dtype, shape.count);
    if (!x)
        goto fail_storage;
    x->made_by = "tensor_wrap";
    /* From here on `release` is called when the storage is freed. */
    storage->wrapped = true;
    storage->release = release;
    storage->context = context;
    x->contiguous = true;
    x->numel = tn__shape_numel(shape.count, shape.dim);
    for (int d = 0; d < shape.count; d++)
        x->shape[d] = shape.dim[d];
    tn__shape_contiguous_strides(shape.count, shape.dim, x->stride);
    return tn__scope_own(x);

fail_storage:
    tn__pool_give(&storage_pool, storage);
fail_buffer:
    device->plugin->buffer_free(device->handle, block->buffer);
fail:
    tn__free(block);
    return NULL;
}

/* ---- attributes ---------------------------------------------------------- */

int tn_tensor_ndim(const tn_tensor *x)
{
    return tn__tensor_has(x, "tensor_ndim") ? x->ndim : 0;
}

const int64_t *tn_tensor_shape(const tn_tensor *x)
{
    return tn__tensor_has(x, "tensor_shape") ? x->shape : NULL;
}

const int64_t *tn_tensor_strides(const tn_tensor *x)
{
    return tn__tensor_has(x, "tensor_strides") ? x->stride : NULL;
}

int64_t tn_tensor_size(const tn_tensor *x, int dim)
{
    if (!tn__tensor_has(x, "tensor_size") || dim < -x->ndim ||
        dim >= x->ndim)
        return -1;
    return x->shape[dim < 0 ? dim + x->ndim : dim];
}

int64_t tn_tensor_numel(const tn_tensor *x)
{
    return tn__tensor_has(x, "tensor_numel") ? x->numel : 0;
}

tn_dtype tn_tensor_dtype(const tn_tensor *x)
{
    return tn__tensor_has(x, "tensor_dtype") ? x->dtype
                                             : (tn_dtype)TN_DTYPE_NONE;
}

tn_device *tn_tensor_device(const tn_tensor *x)
{
    return tn__tensor_has(x, "tensor_device") ? x->storage->device : NULL;
}

bool tn_tensor_is_contiguous(const tn_tensor *x)
{
    return tn__tensor_has(x, "tensor_is_contiguous") && x->contiguous;
}

bool tn_tensor_is_alias(const tn_tensor *a, const tn_tensor *b)
{
    return tn__object_has(a, &tn__tensor_class, "tensor_is_alias", "a") &&
           tn__object_has(b, &tn__tensor_class, "tensor_is_alias", "b") &&
           a->storage == b->storage;
}
