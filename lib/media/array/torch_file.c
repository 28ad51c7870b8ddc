/* torch_file.c: opens a file of torch.save, and finds its values. */
#include <media/array/torch_file.h>

#include <stdlib.h>
#include <string.h>

static void release(void *object)
{
    tn_torch_file *file = object;
    tn__pickle_close(&file->pickle);
    tn__zip_close(&file->zip);
    tn__array_source_close(&file->source);
    free(file->entry);
    free(file->sorted);
    free(file->tensor);
    free(file->other);
}

static const tn_object_class torch_class = {.size = sizeof torch_class,
                                            .name = "torch file",
                                            .bytes = sizeof(tn_torch_file),
                                            .release = release};

bool tn__torch_file_check(const tn_torch_file *file, const char *call)
{
    return tn_object_check(file, &torch_class, call, "file");
}

bool tn__torch_file_is(const tn_torch_file *file, const char *call)
{
    return file && tn__torch_file_check(file, call);
}

/* ---- opening -------------------------------------------------------------- */

static bool read_values(tn_torch_file *file, const char *call)
{
    file->pickle.what = file->source.path;
    file->pickle.call = call;
    file->is_zip = tn__zip_is(&file->source, call);
    const tn__pickle_value *root = file->is_zip
                                       ? tn__torch_read_zip(file, call)
                                       : tn__torch_read_old(file, call);
    return root && tn__torch_list(file, root, call) == TN_OK;
}

static tn_torch_file *open_source(const char *path, const void *data,
                                  size_t bytes, const char *call)
{
    tn_scope *scope = tn_scope_open();
    tn_torch_file *file = scope ? tn_object_new(&torch_class, 0) : NULL;
    if (!file)
        return tn_scope_result(scope, NULL);
    tn_status status =
        path ? tn__array_source_open(&file->source, path, call)
             : tn__array_source_copy(&file->source, data, bytes, call);
    return tn_scope_result(
        scope, status == TN_OK && read_values(file, call) ? file : NULL);
}

tn_torch_file *tn_torch_file_open(const char *path)
{
    if (!path) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "torch_file_open", "path",
                                 "path is NULL");
        return NULL;
    }
    return open_source(path, NULL, 0, "torch_file_open");
}

tn_torch_file *tn_torch_file_open_memory(const void *data, size_t bytes)
{
    return open_source(NULL, data, bytes, "torch_file_open_memory");
}

const char *tn_torch_file_path(const tn_torch_file *file)
{
    return tn__torch_file_is(file, "torch_file_path") ? file->source.path
                                                      : NULL;
}

/* ---- entries -------------------------------------------------------------- */

const tn__torch_entry *tn__torch_find(const tn_torch_file *file,
                                      const char *name)
{
    size_t low = 0, high = file->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(file->sorted[middle]->name, name);
        if (order == 0)
            return file->sorted[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const tn__torch_entry *tn__torch_need(const tn_torch_file *file,
                                      const char *name, const char *call)
{
    if (!tn__torch_file_check(file, call))
        return NULL;
    const tn__torch_entry *entry = name ? tn__torch_find(file, name) : NULL;
    if (!name)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "name",
                                 "name is NULL");
    else if (!entry)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "name",
                                 "%s has no value \"%s\"", file->source.path,
                                 name);
    return entry;
}

static const tn__torch_tensor *tensor_at(const tn_torch_file *file,
                                         const char *name, const char *call)
{
    const tn__torch_entry *entry =
        tn__torch_file_is(file, call) && name ? tn__torch_find(file, name)
                                              : NULL;
    return entry && entry->value->kind == TN__PICKLE_TENSOR
               ? entry->value->tensor
               : NULL;
}

int tn_torch_file_count(const tn_torch_file *file)
{
    return tn__torch_file_is(file, "torch_file_count")
               ? (int)file->tensor_count
               : 0;
}

const char *tn_torch_file_name(const tn_torch_file *file, int i)
{
    return tn__torch_file_is(file, "torch_file_name") && i >= 0 &&
                   (size_t)i < file->tensor_count
               ? file->tensor[i]->name
               : NULL;
}

bool tn_torch_file_has(const tn_torch_file *file, const char *name)
{
    return tensor_at(file, name, "torch_file_has") != NULL;
}

tn_dtype tn_torch_file_dtype(const tn_torch_file *file, const char *name)
{
    const tn__torch_tensor *t = tensor_at(file, name, "torch_file_dtype");
    return t ? t->dtype->dtype : TN_DTYPE_NONE;
}

int tn_torch_file_ndim(const tn_torch_file *file, const char *name)
{
    const tn__torch_tensor *t = tensor_at(file, name, "torch_file_ndim");
    return t ? t->ndim : 0;
}

const int64_t *tn_torch_file_shape(const tn_torch_file *file,
                                   const char *name)
{
    const tn__torch_tensor *t = tensor_at(file, name, "torch_file_shape");
    return t ? t->shape : NULL;
}

bool tn_torch_file_is_alias(const tn_torch_file *file, const char *a,
                            const char *b)
{
    const tn__torch_tensor *x = tensor_at(file, a, "torch_file_is_alias");
    const tn__torch_tensor *y = tensor_at(file, b, "torch_file_is_alias");
    return x && y && x->storage == y->storage;
}

int tn_torch_file_value_count(const tn_torch_file *file)
{
    return tn__torch_file_is(file, "torch_file_value_count")
               ? (int)file->other_count
               : 0;
}

const char *tn_torch_file_value_name(const tn_torch_file *file, int i)
{
    return tn__torch_file_is(file, "torch_file_value_name") && i >= 0 &&
                   (size_t)i < file->other_count
               ? file->other[i]->name
               : NULL;
}

/* ---- values --------------------------------------------------------------- */

static int kind_of(const tn__pickle_value *value)
{
    static const uint8_t kinds[] = {
        [TN__PICKLE_NONE] = TN_TORCH_NONE,  [TN__PICKLE_BOOL] = TN_TORCH_BOOL,
        [TN__PICKLE_INT] = TN_TORCH_INT,    [TN__PICKLE_LONG] = TN_TORCH_INT,
        [TN__PICKLE_REAL] = TN_TORCH_REAL,  [TN__PICKLE_TEXT] = TN_TORCH_TEXT,
        [TN__PICKLE_BYTES] = TN_TORCH_BYTES,[TN__PICKLE_LIST] = TN_TORCH_LIST,
        [TN__PICKLE_TUPLE] = TN_TORCH_LIST, [TN__PICKLE_DICT] = TN_TORCH_DICT,
        [TN__PICKLE_NAME] = TN_TORCH_TEXT,
        [TN__PICKLE_NUMPY_DTYPE] = 0,       [TN__PICKLE_STORAGE] = 0,
        [TN__PICKLE_TENSOR] = TN_TORCH_TENSOR};
    return kinds[value->kind];
}

static const char *text_of(const tn__pickle_value *value)
{
    return value->kind == TN__PICKLE_NAME ? tn__pickle_name_text(value->name)
           : value->kind == TN__PICKLE_TEXT || value->kind == TN__PICKLE_BYTES
               ? value->text
               : NULL;
}

int tn_torch_file_kind(const tn_torch_file *file, const char *name)
{
    const tn__torch_entry *entry =
        tn__torch_file_is(file, "torch_file_kind") && name
            ? tn__torch_find(file, name)
            : NULL;
    return entry ? kind_of(entry->value) : TN_TORCH_ABSENT;
}

int64_t tn_torch_file_length(const tn_torch_file *file, const char *name)
{
    const tn__torch_entry *entry =
        tn__torch_file_is(file, "torch_file_length") && name
            ? tn__torch_find(file, name)
            : NULL;
    const tn__pickle_value *value = entry ? entry->value : NULL;
    switch (value ? value->kind : TN__PICKLE_NONE) {
    case TN__PICKLE_TEXT:
    case TN__PICKLE_BYTES: return (int64_t)value->bytes;
    case TN__PICKLE_NAME: return (int64_t)strlen(text_of(value));
    case TN__PICKLE_LIST:
    case TN__PICKLE_TUPLE: return (int64_t)value->count;
    case TN__PICKLE_DICT: return (int64_t)value->count / 2;
    default: return 0;
    }
}

static tn_status wrong_kind(const tn_torch_file *file, const char *name,
                            const tn__pickle_value *value, const char *want,
                            const char *call)
{
    static const char *const kinds[] = {
        "absent", "a tensor", "None",  "a bool", "an integer",
        "a floating-point number", "a string", "bytes", "a list", "a dict"};
    return tn_error_refuse_argument(
        TN_ERR_DTYPE, call, "name", "\"%s\" of %s is %s; expected %s", name,
        file->source.path,
        value->kind == TN__PICKLE_LONG ? "an integer beyond int64"
                                       : kinds[kind_of(value)],
        want);
}

tn_status tn_torch_file_int(const tn_torch_file *file, const char *name,
                            int64_t *out)
{
    static const char call[] = "torch_file_int";
    if (tn_error())
        return TN_ERR_STATE;
    const tn__torch_entry *entry = tn__torch_need(file, name, call);
    if (!entry)
        return tn_error_code();
    if (!out)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "out",
                                        "out is NULL");
    const tn__pickle_kind kind = entry->value->kind;
    if (kind != TN__PICKLE_INT && kind != TN__PICKLE_BOOL)
        return wrong_kind(file, name, entry->value, "an integer", call);
    *out = entry->value->integer;
    return TN_OK;
}

tn_status tn_torch_file_real(const tn_torch_file *file, const char *name,
                             double *out)
{
    static const char call[] = "torch_file_real";
    if (tn_error())
        return TN_ERR_STATE;
    const tn__torch_entry *entry = tn__torch_need(file, name, call);
    if (!entry)
        return tn_error_code();
    if (!out)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "out",
                                        "out is NULL");
    const tn__pickle_value *value = entry->value;
    if (value->kind == TN__PICKLE_REAL)
        *out = value->real;
    else if (value->kind == TN__PICKLE_INT || value->kind == TN__PICKLE_BOOL)
        *out = (double)value->integer;
    else
        return wrong_kind(file, name, value, "a number", call);
    return TN_OK;
}

const char *tn_torch_file_text(const tn_torch_file *file, const char *name)
{
    static const char call[] = "torch_file_text";
    const tn__torch_entry *entry = tn__torch_need(file, name, call);
    const char *text = entry ? text_of(entry->value) : NULL;
    if (entry && !text)
        wrong_kind(file, name, entry->value, "a string or bytes", call);
    return text;
}
