/* npy_load.c: makes tensors of .npy files. */
#include <media/array/npy.h>
#include <media/array/source.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tenon/npy.h>
#include <tenon/ops.h>

TN_OPTIONS_TYPE(tn_npy_load, "npy_load", "path", TN_NPY_LOAD_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_npy_load_memory, "npy_load_memory", "data, bytes",
                TN_NPY_LOAD_MEMORY_OPTIONS_LIST)

/* Makes a tensor of elements, which belong to the call. */
static tn_tensor *make(void *elements, const tn__npy_header *header,
                       const char *call)
{
    const tn_dims_list shape = tn_dims_from_array(header->shape, header->ndim);
    if (header->fortran && header->ndim > 1) {
        void *ordered = tn__array_alloc(header->bytes, call);
        if (ordered)
            tn__array_reorder(elements, ordered, header->shape, header->ndim,
                              header->elements.item, true);
        free(elements);
        if (!ordered)
            return NULL;
        elements = ordered;
    }
    return tn__array_tensor(elements, &header->elements, shape, call);
}

tn_tensor *tn__npy_tensor(void *file, uint64_t bytes, tn_dtype view,
                          const char *what, const char *call)
{
    tn__npy_header header;
    uint64_t start = tn__npy_header_bytes(
        file, bytes < TN__NPY_PREFIX ? (size_t)bytes : TN__NPY_PREFIX, bytes,
        what, call);
    if (!start || tn__npy_header_parse(&header, file, start, bytes, view, what,
                                       call) < 0) {
        free(file);
        return NULL;
    }
    memmove(file, (char *)file + header.at, (size_t)header.bytes);
    return make(file, &header, call);
}

/* ---- files ---------------------------------------------------------------- */

static tn_status read_header(const tn__array_source *source,
                             tn__npy_header *header, tn_dtype view,
                             const char *call)
{
    uint8_t prefix[TN__NPY_PREFIX];
    const size_t have =
        source->bytes < sizeof prefix ? (size_t)source->bytes : sizeof prefix;
    tn_status status = tn__array_source_read(source, prefix, have, 0, call);
    if (status < 0)
        return status;
    uint64_t bytes = tn__npy_header_bytes(prefix, have, source->bytes,
                                          source->path, call);
    void *data = bytes ? malloc((size_t)bytes) : NULL;
    if (!bytes)
        return tn_error_code();
    if (!data)
        return tn__array_no_memory(call);
    status = tn__array_source_read(source, data, bytes, 0, call);
    if (status == TN_OK)
        status = tn__npy_header_parse(header, data, bytes, source->bytes, view,
                                      source->path, call);
    free(data);
    return status;
}

/* ---- mapping -------------------------------------------------------------- */

typedef struct mapping {
    void *memory;
    size_t bytes;
} mapping;

static void unmap(void *context)
{
    mapping *map = context;
    munmap(map->memory, map->bytes);
    free(map);
}

/* Returns why the elements cannot be used where they are, or NULL. */
static const char *why_not_mapped(const tn__npy_header *header,
                                  const char *elements)
{
    if (header->elements.widen != TN__ARRAY_AS_IS)
        return "its dtype is converted";
    if (header->elements.swapped)
        return "it has the other byte order";
    if (header->at % header->elements.item)
        return "its elements are not aligned";
    for (int64_t i = 0;
         header->elements.dtype == TN_BOOL && i < header->numel; i++)
        if ((unsigned char)elements[i] > 1)
            return "it has bytes that are no bools";
    return NULL;
}

/* An array in Fortran order is, in memory, the array with reversed shape in C
 * order. */
static tn_dims_list shape_in_memory(const tn__npy_header *header)
{
    tn_dims_list shape = {header->ndim, {0}};
    for (int d = 0; d < header->ndim; d++)
        shape.dim[d] =
            header->shape[header->fortran ? header->ndim - 1 - d : d];
    return shape;
}

static tn_tensor *reverse_dims(tn_tensor *x)
{
    tn_dims_list order = {tn_tensor_ndim(x), {0}};
    for (int d = 0; d < order.count; d++)
        order.dim[d] = order.count - 1 - d;
    return tn_permute(x, order);
}

static tn_tensor *map_tensor(mapping *map, const tn__npy_header *header)
{
    static const char call[] = "npy_load";
    const char *why = why_not_mapped(header, (char *)map->memory + header->at);
    tn_device *device = tn_device_current();
    if (device && !why && strncmp(tn_device_name(device), "cpu", 3) != 0)
        why = "the current device is not cpu";
    if (why)
        tn_error_refuse_argument(TN_ERR_UNSUPPORTED, call, "mmap",
                                 "%s cannot be mapped: %s; leave .mmap out",
                                 header->elements.what, why);
    tn_scope *scope = device && !why ? tn_scope_open() : NULL;
    tn_tensor *x =
        scope ? tn_tensor_wrap((char *)map->memory + header->at,
                               header->elements.dtype,
                               shape_in_memory(header), unmap, map)
              : NULL;
    if (!x)
        unmap(map);
    if (x && header->fortran && header->ndim > 1)
        x = reverse_dims(x);
    return tn_scope_result(scope, x);
}

static tn_tensor *map_file(const tn__array_source *source,
                           const tn__npy_header *header)
{
    mapping *map = malloc(sizeof *map);
    if (!map || source->bytes > SIZE_MAX) {
        tn__array_no_memory("npy_load");
        free(map);
        return NULL;
    }
    map->bytes = (size_t)source->bytes;
    map->memory = mmap(NULL, map->bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_NORESERVE, source->fd, 0);
    if (map->memory != MAP_FAILED)
        return map_tensor(map, header);
    tn_error_refuse_argument(errno == ENOMEM ? TN_ERR_MEMORY : TN_ERR_IO,
                             "npy_load", "path", "%s: %s", source->path,
                             strerror(errno));
    free(map);
    return NULL;
}

/* ---- calls ---------------------------------------------------------------- */

static tn_tensor *read_tensor(const tn__array_source *source,
                              const tn__npy_header *header)
{
    static const char call[] = "npy_load";
    void *data = tn__array_alloc(header->bytes, call);
    if (data && tn__array_source_read(source, data, header->bytes, header->at,
                                      call) == TN_OK)
        return make(data, header, call);
    free(data);
    return NULL;
}

tn_tensor *tn_npy_load_with(const char *path,
                            const tn_npy_load_options *options)
{
    tn_npy_load_options o;
    tn__array_source source;
    tn__npy_header header;
    tn_tensor *x = NULL;
    if (tn_options_take(tn_npy_load_type(), &o, options) < 0)
        return NULL;
    if (tn__array_source_open(&source, path, "npy_load") == TN_OK &&
        read_header(&source, &header, o.view, "npy_load") == TN_OK)
        x = o.mmap && header.numel ? map_file(&source, &header)
                                   : read_tensor(&source, &header);
    tn__array_source_close(&source);
    return x;
}

tn_tensor *
tn_npy_load_memory_with(const void *data, size_t bytes,
                        const tn_npy_load_memory_options *options)
{
    static const char call[] = "npy_load_memory";
    tn_npy_load_memory_options o;
    if (tn_options_take(tn_npy_load_memory_type(), &o, options) < 0)
        return NULL;
    if (!data) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "data",
                                 "data is NULL");
        return NULL;
    }
    void *copy = tn__array_alloc(bytes, call);
    if (!copy)
        return NULL;
    memcpy(copy, data, bytes);
    return tn__npy_tensor(copy, bytes, o.view, "memory", call);
}
