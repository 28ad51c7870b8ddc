/* safetensors.c: reads safetensors files, which contain named tensors.
 *
 * Opening a file reads its header. A tensor is read when the program requests
 * it. The file is not mapped, because a process gets SIGBUS if a mapped file is
 * truncated. safetensors_header.c checks the header, and safetensors_save.c
 * writes files. */
#include <io/safetensors.h>

#include <base/error.h>
#include <base/memory.h>
#include <base/object.h>
#include <device/device.h>
#include <inttypes.h>
#include <io/file.h>
#include <string.h>
#include <tensor/tensor.h>
#include <unistd.h>

/* The maximum size of a header in bytes, which the format defines. */
enum { MAX_HEADER_BYTES = 100 * 1000 * 1000 };

struct tn_safetensors {
    tn__object object;
    char *path;  /* owned */
    int fd;      /* owned; -1 if this is a part (tn_safetensors_part) */
    struct stat info; /* fstat of the file when it was opened */
    struct tn_safetensors *whole; /* owned reference: the file that this is a
                                     part of, or NULL */
    uint64_t data; /* where the elements begin in the file, in bytes */
    tn_safetensors_class given; /* with read: where the data comes from instead
                                   of a file */
    void *context;
    tn__safetensors_header header;
};

static void destroy(tn__object *object)
{
    tn_safetensors *file = (tn_safetensors *)object;
    tn__safetensors_release(&file->header);
    if (file->given.release)
        file->given.release(file->context);
    if (file->fd >= 0)
        close(file->fd);
    tn__unref(file->whole);
    tn__free(file->path);
    tn__object_free(file, sizeof *file);
}

static const tn__class safetensors_class = {.name = "safetensors file",
                                            .destroy = destroy};

static tn_status read_header(tn_safetensors *file)
{
    static const char call[] = "safetensors_open";
    file->fd = tn__file_open(file->path, call, &file->info);
    if (file->fd < 0)
        return file->fd;
    uint64_t file_bytes = (uint64_t)file->info.st_size, length = 0;
    if (file_bytes < 8)
        return tn__fail(TN_ERR_FORMAT,
                        "safetensors_open: {path:}%s: %" PRIu64
                        " bytes are too few for a safetensors file",
                        file->path, file_bytes);
    unsigned char bytes[8];
    tn_status status =
        tn__file_read_at(file->fd, file->path, call, bytes, sizeof bytes, 0);
    if (status < 0)
        return status;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | bytes[i];
    if (length > MAX_HEADER_BYTES || length > file_bytes - 8)
        return tn__fail(TN_ERR_FORMAT,
                        "safetensors_open: {path:}%s: the header has %" PRIu64
                        " bytes; expected at most %" PRIu64, file->path, length,
                        file_bytes - 8 < MAX_HEADER_BYTES ? file_bytes - 8
                                                          : MAX_HEADER_BYTES);
    char *json = tn__alloc((size_t)length + 1);
    if (!json)
        return TN_ERR_MEMORY;
    status = tn__file_read_at(file->fd, file->path, call, json,
                              (size_t)length, 8);
    if (status == TN_OK)
        status = tn__safetensors_parse(&file->header, json, (size_t)length,
                                       file_bytes - 8 - length, file->path);
    tn__free(json);
    file->data = 8 + length;
    return status;
}

static tn_safetensors *file_new(const char *path)
{
    tn_safetensors *file = tn__calloc(1, sizeof *file);
    if (!file)
        return NULL;
    tn__object_init(&file->object, &safetensors_class);
    file->fd = -1;
    file->path = tn__strdup(path);
    if (!file->path) {
        tn__unref(file);
        return NULL;
    }
    return file;
}

tn_safetensors *tn_safetensors_open(const char *path)
{
    if (!path)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "safetensors_open: {path} is NULL");
    tn_safetensors *file = file_new(path);
    if (!file)
        return NULL;
    if (read_header(file) < 0) {
        tn__unref(file);
        return NULL;
    }
    return tn__scope_own(file);
}

tn_safetensors *tn_safetensors_new(const char *path, const char *header,
                                   int64_t data_bytes,
                                   const tn_safetensors_class *type,
                                   void *context)
{
    static const char call[] = "safetensors_new";
    if (!path || !header || !type || !type->read)
        return tn__fail_null(TN_ERR_ARGUMENT, "%s: {%s} is NULL", call,
                             !path ? "path" : !header ? "header" : "type");
    tn_safetensors *file = file_new(path);
    if (!file)
        return NULL;
    const size_t bytes = strlen(header);
    char *json = tn__alloc(bytes + 1);
    tn_status status = TN_ERR_MEMORY;
    if (json)
        status = tn__safetensors_parse(&file->header,
                                       memcpy(json, header, bytes), bytes,
                                       (uint64_t)data_bytes, path);
    tn__free(json);
    if (status < 0) {
        tn__unref(file);
        return NULL;
    }
    file->given = *type;
    file->context = context;
    return tn__scope_own(file);
}

tn_safetensors *tn_safetensors_part(tn_safetensors *file, const char *prefix)
{
    if (!tn__object_check(file, &safetensors_class, "safetensors_part",
                          "file"))
        return NULL;
    if (!prefix)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "safetensors_part: {prefix} is NULL");
    tn_safetensors *part = file_new(file->path);
    if (!part)
        return NULL;
    part->whole = tn__ref(file);
    part->data = file->data;
    if (tn__safetensors_select(&part->header, &file->header, prefix) < 0) {
        tn__unref(part);
        return NULL;
    }
    return tn__scope_own(part);
}

/* Checks the argument of a function that reads an attribute. For NULL it
 * returns false without recording an error. */
static bool is_file(const tn_safetensors *file, const char *call)
{
    return tn__object_has(file, &safetensors_class, call, "file");
}

const char *tn_safetensors_path(const tn_safetensors *file)
{
    return is_file(file, "safetensors_path") ? file->path : NULL;
}

int tn_safetensors_descriptor(const tn_safetensors *file, int64_t *out_data)
{
    if (!is_file(file, "safetensors_descriptor"))
        return -1;
    if (out_data)
        *out_data = (int64_t)file->data;
    return file->whole ? file->whole->fd : file->fd;
}

int tn_safetensors_count(const tn_safetensors *file)
{
    return is_file(file, "safetensors_count") ? (int)file->header.count : 0;
}

const char *tn_safetensors_name(const tn_safetensors *file, int i)
{
    if (!is_file(file, "safetensors_name") || i < 0 ||
        (size_t)i >= file->header.count)
        return NULL;
    return file->header.entry[i].name;
}

bool tn_safetensors_has(const tn_safetensors *file, const char *name)
{
    return is_file(file, "safetensors_has") && name &&
           tn__safetensors_find(&file->header, name);
}

const char *tn_safetensors_metadata(const tn_safetensors *file,
                                    const char *key)
{
    if (!is_file(file, "safetensors_metadata") || !key)
        return NULL;
    for (size_t i = 0; i < file->header.metadata_count; i++) {
        if (strcmp(file->header.metadata[2 * i], key) == 0)
            return file->header.metadata[2 * i + 1];
    }
    return NULL;
}

const char *tn_safetensors_metadata_key(const tn_safetensors *file, int i)
{
    if (!is_file(file, "safetensors_metadata_key") || i < 0 ||
        (size_t)i >= file->header.metadata_count)
        return NULL;
    return file->header.metadata[2 * i];
}

/* Returns the entry with this name, for a function that reads an attribute.
 * Returns NULL without an error if there is none. */
static const tn__safetensors_entry *entry_of(const tn_safetensors *file,
                                             const char *name,
                                             const char *call)
{
    return is_file(file, call) && name
               ? tn__safetensors_find(&file->header, name)
               : NULL;
}

tn_dtype tn_safetensors_dtype(const tn_safetensors *file, const char *name)
{
    const tn__safetensors_entry *entry =
        entry_of(file, name, "safetensors_dtype");
    return entry ? entry->dtype : TN_DTYPE_NONE;
}

int tn_safetensors_ndim(const tn_safetensors *file, const char *name)
{
    const tn__safetensors_entry *entry =
        entry_of(file, name, "safetensors_ndim");
    return entry ? entry->ndim : 0;
}

const int64_t *tn_safetensors_shape(const tn_safetensors *file,
                                    const char *name)
{
    const tn__safetensors_entry *entry =
        entry_of(file, name, "safetensors_shape");
    return entry ? entry->shape : NULL;
}

/* ---- data --------------------------------------------------------------- */

static const tn__safetensors_entry *
find_entry(tn_safetensors *file, const char *name, const char *call)
{
    if (!tn__object_check(file, &safetensors_class, call, "file"))
        return NULL;
    if (!name)
        return tn__fail_null(TN_ERR_ARGUMENT, "%s: {name} is NULL", call);
    const tn__safetensors_entry *entry =
        tn__safetensors_find(&file->header, name);
    if (!entry)
        return tn__fail_null(
            TN_ERR_ARGUMENT, "%s: {name:}%s: none of its %zu tensors is \"%s\"",
            call, file->path, file->header.count, name);
    return entry;
}

/* Reads the data of a tensor. Fails if the file was changed since it was
 * opened, because the data could then be partly old and partly new. If the file
 * was replaced by renaming another, as tn_safetensors_save does, the old file
 * can still be read. */
static tn_status read_data(const tn_safetensors *file,
                           const tn__safetensors_entry *entry,
                           const char *call, void *out)
{
    size_t bytes = (size_t)(entry->end - entry->begin);
    if (!bytes)
        return TN_OK;
    const tn_safetensors *whole = file->whole ? file->whole : file;
    while (whole->whole) /* a part may be a part of another part */
        whole = whole->whole;
    if (whole->given.read)
        return whole->given.read(whole->context, (int64_t)entry->begin, out,
                                 bytes);
    tn_status status = tn__file_read_at(whole->fd, file->path, call, out,
                                        bytes, file->data + entry->begin);
    if (status < 0)
        return status;
    struct stat now;
    if (fstat(whole->fd, &now) < 0)
        return tn__file_fail(call, file->path);
    if (now.st_size != whole->info.st_size ||
        now.st_mtim.tv_sec != whole->info.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != whole->info.st_mtim.tv_nsec)
        return tn__fail(TN_ERR_IO,
                        "%s: {file:}%s: was written to since it was opened; "
                        "open it again",
                        call, file->path);
    return TN_OK;
}

tn_status tn_safetensors_read(tn_safetensors *file, const char *name,
                              void *out, size_t bytes)
{
    static const char call[] = "safetensors_read";
    const tn__safetensors_entry *entry = find_entry(file, name, call);
    if (!entry)
        return tn_error_code();
    if (!out && entry->end > entry->begin)
        return tn__fail(TN_ERR_ARGUMENT, "safetensors_read: {out} is NULL");
    if (bytes != entry->end - entry->begin)
        return tn__fail(TN_ERR_ARGUMENT,
                        "safetensors_read: {bytes} is %zu, tensor \"%s\" of "
                        "%s has %" PRIu64,
                        bytes, name, file->path, entry->end - entry->begin);
    return read_data(file, entry, call, out);
}

tn_tensor *tn_safetensors_tensor(tn_safetensors *file, const char *name)
{
    static const char call[] = "safetensors_tensor";
    const tn__safetensors_entry *entry = find_entry(file, name, call);
    if (!entry)
        return NULL;
    if (!entry->dtype)
        return tn__fail_null(
            TN_ERR_DTYPE,
            "safetensors_tensor: {name:}%s: tensor \"%s\": dtype %s is not "
            "one of Tenon's",
            file->path, name, entry->type);
    tn_device *device = tn_device_current();
    if (!device)
        return NULL;
    tn_tensor *x =
        tn__tensor_new(device, entry->dtype, entry->ndim, entry->shape, call);
    if (!x)
        return NULL;
    size_t bytes = (size_t)(entry->end - entry->begin);
    /* If the CPU can access the device's memory, read directly into it. */
    void *own = device->host_visible ? NULL : tn__alloc(bytes);
    void *data = device->host_visible ? tn_tensor_data(x) : own;
    tn_status status = data || !bytes ? TN_OK : tn_error_code();
    if (status == TN_OK)
        status = read_data(file, entry, call, data);
    if (status == TN_OK && own)
        status = tn_tensor_set_array(x, own, bytes);
    tn__free(own);
    if (status < 0) {
        tn__unref(x);
        return NULL;
    }
    return tn__scope_own(x);
}
