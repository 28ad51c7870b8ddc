/* npz.c: .npz files: zip archives of .npy files. */
#include <media/array/npy.h>
#include <media/array/text.h>
#include <media/array/zip.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/npy.h>

TN_OPTIONS_TYPE(tn_npz_tensor, "npz_tensor", "file, name",
                TN_NPZ_TENSOR_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_npz_save, "npz_save", "path, names, tensors, count",
                TN_NPZ_SAVE_OPTIONS_LIST)

struct tn_npz {
    tn_object object;
    tn__array_source source;
    tn__zip zip;
    char **name;  /* owned: names without ".npy"; member[i] has name[i] */
    const tn__zip_member **member; /* owned */
    int count;
};

static void release(void *object)
{
    tn_npz *file = object;
    for (int i = 0; i < file->count; i++)
        free(file->name[i]);
    free(file->name);
    free(file->member);
    tn__zip_close(&file->zip);
    tn__array_source_close(&file->source);
}

static const tn_object_class npz_class = {.size = sizeof npz_class,
                                          .name = "npz file",
                                          .bytes = sizeof(tn_npz),
                                          .release = release};

/* Returns the length of a name without ".npy", or 0 if it does not end so. */
static size_t stem(const char *name)
{
    const size_t bytes = strlen(name);
    return bytes >= 4 && strcmp(name + bytes - 4, ".npy") == 0 ? bytes - 4 : 0;
}

static tn_status list_names(tn_npz *file, const char *call)
{
    file->name = calloc(file->zip.count + 1, sizeof *file->name);
    file->member = calloc(file->zip.count + 1, sizeof *file->member);
    if (!file->name || !file->member)
        return tn__array_no_memory(call);
    for (size_t i = 0; i < file->zip.count; i++) {
        const tn__zip_member *member = &file->zip.member[i];
        const size_t bytes = stem(member->name);
        if (!bytes)
            continue;
        char *name = strndup(member->name, bytes);
        if (!name)
            return tn__array_no_memory(call);
        file->name[file->count] = name;
        file->member[file->count++] = member;
    }
    return TN_OK;
}

static tn_npz *open_source(const char *path, const void *data, size_t bytes,
                           const char *call)
{
    tn_scope *scope = tn_scope_open();
    tn_npz *file = scope ? tn_object_new(&npz_class, 0) : NULL;
    if (!file)
        return tn_scope_result(scope, NULL);
    tn_status status =
        data || !path
            ? tn__array_source_copy(&file->source, data, bytes, call)
            : tn__array_source_open(&file->source, path, call);
    if (status == TN_OK)
        status = tn__zip_open(&file->zip, &file->source, call);
    if (status == TN_OK)
        status = list_names(file, call);
    return tn_scope_result(scope, status == TN_OK ? file : NULL);
}

tn_npz *tn_npz_open(const char *path)
{
    if (!path) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "npz_open", "path",
                                 "path is NULL");
        return NULL;
    }
    return open_source(path, NULL, 0, "npz_open");
}

tn_npz *tn_npz_open_memory(const void *data, size_t bytes)
{
    return open_source(NULL, data, bytes, "npz_open_memory");
}

static bool is_file(const tn_npz *file, const char *call)
{
    return file && tn_object_check(file, &npz_class, call, "file");
}

int tn_npz_count(const tn_npz *file)
{
    return is_file(file, "npz_count") ? file->count : 0;
}

const char *tn_npz_name(const tn_npz *file, int i)
{
    return is_file(file, "npz_name") && i >= 0 && i < file->count
               ? file->name[i]
               : NULL;
}

/* Finds the array. The name of its member in the archive is its name and
 * ".npy". */
static const tn__zip_member *find(const tn_npz *file, const char *name)
{
    const char *const piece[] = {name, ".npy", NULL};
    return *name ? tn__zip_find(&file->zip, piece) : NULL;
}

bool tn_npz_has(const tn_npz *file, const char *name)
{
    return is_file(file, "npz_has") && name && find(file, name);
}

tn_tensor *tn_npz_tensor_with(tn_npz *file, const char *name,
                              const tn_npz_tensor_options *options)
{
    static const char call[] = "npz_tensor";
    tn_npz_tensor_options o;
    if (!tn_object_check(file, &npz_class, call, "file") ||
        tn_options_take(tn_npz_tensor_type(), &o, options) < 0)
        return NULL;
    const tn__zip_member *member = name ? find(file, name) : NULL;
    if (!member) {
        if (name)
            tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "name",
                                     "%s has no array \"%s\" among %d",
                                     file->source.path, name, file->count);
        else
            tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "name",
                                     "name is NULL");
        return NULL;
    }
    void *data = tn__array_alloc(member->bytes, call);
    if (data && tn__zip_read(&file->zip, member, data, false, call) < 0) {
        free(data);
        data = NULL;
    }
    if (!data)
        return NULL;
    char what[512];
    snprintf(what, sizeof what, "%s: array \"%s\"", file->source.path, name);
    return tn__npy_tensor(data, member->bytes, o.view, what, call);
}

/* ---- saving --------------------------------------------------------------- */

typedef struct job {
    const char *const *names;
    tn_tensor *const *tensors;
    int count;
    bool compressed;
} job;

static tn_status add_tensor(tn__zip_writer *writer, const job *j, int i)
{
    tn__npy_image image;
    tn_status status =
        tn__npy_image_of(&image, j->tensors[i], false, 1, writer->call);
    if (status < 0)
        return status;
    const size_t bytes = strlen(j->names[i]);
    char *name = malloc(bytes + 5);
    if (name) {
        const tn__zip_part parts[] = {{image.header, image.header_bytes},
                                      {image.data, image.data_bytes}};
        memcpy(name, j->names[i], bytes);
        memcpy(name + bytes, ".npy", 5);
        status = tn__zip_add(writer, name, parts, j->compressed);
        free(name);
    } else {
        status = tn__array_no_memory(writer->call);
    }
    free(image.data);
    return status;
}

static tn_status produce(void *context, tn_file *file)
{
    const job *j = context;
    tn__zip_writer writer = {.file = file, .call = "npz_save"};
    tn_status status = TN_OK;
    for (int i = 0; status == TN_OK && i < j->count; i++)
        status = add_tensor(&writer, j, i);
    if (status == TN_OK)
        status = tn__zip_finish(&writer);
    free(writer.directory);
    return status;
}

static tn_status check(const job *j, const char *path)
{
    static const char call[] = "npz_save";
    const char *missing = !path                    ? "path"
                          : j->count && !j->names   ? "names"
                          : j->count && !j->tensors ? "tensors"
                                                    : NULL;
    if (j->count < 0)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "count",
                                        "count is %d; expected at least 0",
                                        j->count);
    if (missing)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, missing,
                                        "%s is NULL", missing);
    for (int i = 0; i < j->count; i++) {
        if (!tn_object_check_kind(j->tensors[i], "tensor", call, "tensors"))
            return tn_error_code();
        if (!j->names[i] || !*j->names[i] ||
            !tn__array_is_utf8(j->names[i], strlen(j->names[i])))
            return tn_error_refuse_argument(
                TN_ERR_ARGUMENT, call, "names", "names[%d] is %s", i,
                !j->names[i]    ? "NULL"
                : !*j->names[i] ? "empty"
                                : "not valid UTF-8");
    }
    return tn__array_check_unique(j->names, j->count, call);
}

tn_status tn_npz_save_with(const char *path, const char *const *names,
                           tn_tensor *const *tensors, int count,
                           const tn_npz_save_options *options)
{
    tn_npz_save_options o;
    if (tn_error())
        return TN_ERR_STATE;
    if (tn_options_take(tn_npz_save_type(), &o, options) < 0)
        return tn_error_code();
    job j = {names, tensors, count, o.compressed};
    tn_status status = check(&j, path);
    return status < 0 ? status
                      : tn_file_replace(path, "npz_save", produce, &j);
}
