/* torch_module.c: loads a file of torch.save into a module.
 *
 * The tensors are written to a safetensors file in memory, which tn_module_load
 * reads. So names, differences, renaming and the report are the same for both
 * kinds of files. */
#include <media/array/torch_file.h>

#include <errno.h>
#include <json/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TN_OPTIONS_TYPE(tn_torch_file_load_module, "torch_file_load_module",
                "file, module", TN_TORCH_FILE_LOAD_MODULE_OPTIONS_LIST)

static const char call[] = "torch_file_load_module";

/* The tensors to load: their entries, and their names after the prefix. */
typedef struct chosen {
    const tn__torch_entry **entry; /* owned */
    int count;
    size_t prefix_bytes;
} chosen;

static tn_status choose(const tn_torch_file *file,
                        const tn_torch_file_load_module_options *o, chosen *c)
{
    c->prefix_bytes = strlen(o->prefix);
    c->entry = malloc((file->tensor_count + 1) * sizeof *c->entry);
    bool any = false;
    if (!c->entry)
        return tn__array_no_memory(call);
    for (size_t i = 0; i < file->tensor_count; i++) {
        const tn__torch_entry *entry = file->tensor[i];
        if (strncmp(entry->name, o->prefix, c->prefix_bytes) != 0 ||
            !entry->name[c->prefix_bytes])
            continue;
        any = true;
        if (entry->value->tensor->dtype->dtype)
            c->entry[c->count++] = entry;
        else if (o->strict)
            return tn_error_refuse_argument(
                TN_ERR_DTYPE, call, "file",
                "tensor \"%s\" of %s is %s, which Tenon does not have; "
                ".strict = false skips it", entry->name, file->source.path,
                entry->value->tensor->dtype->name);
    }
    if (any)
        return TN_OK;
    return tn_error_refuse_argument(
        TN_ERR_ARGUMENT, call, "prefix",
        "%s has no tensor whose path begins with \"%s\"; the first of %zu is "
        "\"%s\"", file->source.path, o->prefix, file->tensor_count,
        file->tensor_count ? file->tensor[0]->name : "");
}

/* ---- the file in memory --------------------------------------------------- */

static const char *format_name(tn_dtype dtype)
{
    static const char *const names[TN_DTYPE_END] = {
        [TN_F32] = "F32",        [TN_F64] = "F64",        [TN_F16] = "F16",
        [TN_BF16] = "BF16",      [TN_F8E4M3] = "F8_E4M3", [TN_I64] = "I64",
        [TN_F8E5M2] = "F8_E5M2", [TN_I32] = "I32",        [TN_I16] = "I16",
        [TN_I8] = "I8",          [TN_U8] = "U8",          [TN_BOOL] = "BOOL"};
    return names[dtype];
}

/* Returns the header, which the caller frees, or NULL with an error. */
static char *header_of(const chosen *c)
{
    tn__json_writer header = {.grow = realloc};
    int64_t at = 0;
    tn__json_add(&header, "{");
    for (int i = 0; i < c->count; i++) {
        const tn__torch_tensor *t = c->entry[i]->value->tensor;
        const size_t item = tn_dtype_bytes(t->dtype->dtype);
        tn__json_add(&header, i ? "," : "");
        tn__json_add_text(&header, c->entry[i]->name + c->prefix_bytes);
        tn__json_add(&header, ":{\"dtype\":");
        tn__json_add_text(&header, format_name(t->dtype->dtype));
        tn__json_add(&header, ",\"shape\":[");
        for (int d = 0; d < t->ndim; d++) {
            tn__json_add(&header, d ? "," : "");
            tn__json_add_integer(&header, t->shape[d]);
        }
        tn__json_add(&header, "],\"data_offsets\":[");
        tn__json_add_integer(&header, at);
        tn__json_add(&header, ",");
        if (t->numel > (INT64_MAX - at) / (int64_t)item)
            header.failed = true;
        else
            at += t->numel * (int64_t)item;
        tn__json_add_integer(&header, at);
        tn__json_add(&header, "]}");
    }
    tn__json_add(&header, "}");
    if (!header.failed)
        return header.text;
    free(header.text);
    return tn__array_no_memory(call), NULL;
}

static tn_status write_all(int fd, const void *data, size_t bytes)
{
    const char *p = data;
    while (bytes) {
        ssize_t wrote = write(fd, p, bytes < 1u << 30 ? bytes : 1u << 30);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL,
                                            "a file in memory: %s",
                                            strerror(errno));
        p += wrote;
        bytes -= (size_t)wrote;
    }
    return TN_OK;
}

static tn_status write_tensor(int fd, tn_torch_file *file, const char *name)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = scope ? tn_torch_file_tensor(file, name) : NULL;
    tn_status status =
        x ? write_all(fd, tn_tensor_data(x),
                      (size_t)tn_tensor_numel(x) *
                          tn_dtype_bytes(tn_tensor_dtype(x)))
          : tn_error_code();
    tn_scope_close(scope);
    return status;
}

static tn_status write_file(int fd, tn_torch_file *file, const chosen *c)
{
    char *header = header_of(c);
    if (!header)
        return tn_error_code();
    const uint64_t length = strlen(header);
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(length >> 8 * i);
    tn_status status = write_all(fd, bytes, sizeof bytes);
    if (status == TN_OK)
        status = write_all(fd, header, (size_t)length);
    free(header);
    tn_device *was = NULL;
    if (status == TN_OK && !tn__array_use_cpu(&was))
        status = tn_error_code();
    for (int i = 0; status == TN_OK && i < c->count; i++)
        status = write_tensor(fd, file, c->entry[i]->name);
    if (was && tn_device_set(was) < 0 && status == TN_OK)
        status = tn_error_code();
    return status;
}

/* ---- loading -------------------------------------------------------------- */

/* For a file in memory, error messages begin with the path of that memory.
 * Replaces it by the path of the file. */
static void rename_error(const tn_torch_file *file, const char *path)
{
    tn_error_rename("module_load", call, "file");
    const char *message = tn_error();
    const char *found = message ? strstr(message, path) : NULL;
    const tn_status code = tn_error_code();
    char *rest = found ? strdup(found + strlen(path)) : NULL;
    if (!rest)
        return;
    tn_error_clear();
    tn_error_refuse_argument(code, call, "file", "%s%s", file->source.path,
                             rest);
    free(rest);
}

static tn_status load(tn_torch_file *file, tn_module *module,
                      const tn_torch_file_load_module_options *o,
                      const chosen *c)
{
    const int fd = memfd_create("tenon", MFD_CLOEXEC);
    if (fd < 0)
        return tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL,
                                        "a file in memory: %s",
                                        strerror(errno));
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    tn_status status = write_file(fd, file, c);
    if (status == TN_OK) {
        const tn_module_load_options options = {.given = "*",
                                                .size = sizeof options,
                                                .strict = o->strict,
                                                .rename = o->rename,
                                                .report = o->report};
        status = tn_module_load_with(module, path, &options);
        if (status < 0)
            rename_error(file, path);
    }
    close(fd);
    return status;
}

tn_status tn_torch_file_load_module_with(
    tn_torch_file *file, tn_module *module,
    const tn_torch_file_load_module_options *options)
{
    tn_torch_file_load_module_options o;
    chosen c = {NULL, 0, 0};
    if (tn_error())
        return TN_ERR_STATE;
    if (tn_options_take(tn_torch_file_load_module_type(), &o, options) < 0)
        return tn_error_code();
    if (o.report)
        *o.report = NULL;
    if (!tn__torch_file_check(file, call) ||
        !tn_object_check_kind(module, "module", call, "module"))
        return tn_error_code();
    tn_status status = choose(file, &o, &c);
    if (status == TN_OK)
        status = load(file, module, &o, &c);
    free(c.entry);
    return status;
}
