/* save.c: writes a model to a folder in the format that transformers reads. */
#include <lm/model/json_file.h>
#include <lm/model/model.h>

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/io.h>
#include <tenon/parameters.h>
#include <unistd.h>

static const char call[] = "lm_save";

static bool fail(tn_status code, const char *path, const char *why)
{
    tn_error_refuse_argument(code, call, "path", "%s: %s", path, why);
    return false;
}

/* ---- config.json --------------------------------------------------------- */

/* Writes a value as JSON. In the outermost object, dtype and torch_dtype are
 * replaced by the dtype of the weights. */
static void emit(tn__json_writer *to, const tn__json_value *value,
                 const char *dtype)
{
    const bool object = value->kind == TN__JSON_OBJECT;
    const char *between = "";
    switch (value->kind) {
    case TN__JSON_NULL:
        tn__json_add(to, "null");
        return;
    case TN__JSON_FALSE:
        tn__json_add(to, "false");
        return;
    case TN__JSON_TRUE:
        tn__json_add(to, "true");
        return;
    case TN__JSON_INTEGER:
        tn__json_add_integer(to, value->integer);
        return;
    case TN__JSON_REAL:
        if (isfinite(value->real))
            tn__json_add_real(to, value->real);
        else
            tn__json_add(to, value->real > 0 ? "1e999" : "-1e999");
        return;
    case TN__JSON_TEXT:
        tn__json_add_text(to, value->text);
        return;
    case TN__JSON_LIST:
    case TN__JSON_OBJECT:
        break;
    }
    tn__json_add(to, object ? "{" : "[");
    TN__JSON_EACH(item, value)
    {
        tn__json_add(to, between);
        if (dtype)
            tn__json_add(to, "\n  ");
        if (object) {
            tn__json_add_text(to, item->key);
            tn__json_add(to, ": ");
        }
        if (dtype && item->kind == TN__JSON_TEXT &&
            (strcmp(item->key, "dtype") == 0 ||
             strcmp(item->key, "torch_dtype") == 0))
            tn__json_add_text(to, dtype);
        else
            emit(to, item, NULL);
        between = dtype ? "," : ", ";
    }
    tn__json_add(to, dtype ? "\n}\n" : object ? "}" : "]");
}

typedef struct contents {
    const char *bytes;
    size_t count;
} contents;

static tn_status write_contents(void *context, tn_file *file)
{
    const contents *c = context;
    return tn_file_write(file, c->bytes, c->count);
}

static bool write_file(const char *path, const char *bytes, size_t count)
{
    contents c = {bytes, count};
    return tn_file_replace(path, call, write_contents, &c) == TN_OK;
}

static bool save_config(const tn_lm *lm, const char *path)
{
    tn__json json = {.take = malloc, .give = free};
    tn__json_writer to = {.grow = realloc};
    char *text = malloc(lm->config_bytes + 1);
    bool fine = false;
    if (text) {
        memcpy(text, lm->config, lm->config_bytes + 1);
        const tn__json_value *root =
            tn__json_read(&json, text, lm->config_bytes);
        if (root)
            emit(&to, root, tn_dtype_name(tn__lm_dtype(lm)));
        fine = root && !to.failed;
    }
    if (fine)
        fine = write_file(path, to.text, to.count);
    else
        fail(TN_ERR_MEMORY, path, "out of memory");
    tn__json_free(&json);
    free(to.text);
    free(text);
    return fine;
}

/* ---- weights ------------------------------------------------------------- */

static bool save_weights(tn_lm *lm, const char *path)
{
    static const char *const metadata[][2] = {{"format", "pt"}};
    tn_parameter_list *list = tn_module_state(&lm->base);
    const int count = tn_parameters_count(list);
    const char **names = calloc((size_t)count + 1, sizeof *names);
    tn_tensor **tensors = calloc((size_t)count + 1, sizeof *tensors);
    bool fine = list && names && tensors;
    if (list && !fine)
        fail(TN_ERR_MEMORY, path, "out of memory");
    for (int i = 0; fine && i < count; i++) {
        names[i] = tn_parameters_name(list, i);
        tensors[i] = tn_parameters_at(list, i);
    }
    if (fine &&
        tn_safetensors_save(path, names, tensors, count, metadata, 1) < 0) {
        tn_error_rename("safetensors_save", call, "path");
        fine = false;
    }
    free(tensors);
    free(names);
    return fine;
}

/* ---- the other files ----------------------------------------------------- */

/* Returns whether a file of the model's old folder is copied to the new one:
 * all small files except the config and the weights. */
static bool is_companion(const char *name, bool outer)
{
    static const char *const ends[] = {".json",  ".txt", ".model",
                                       ".jinja", ".md",  "LICENSE"};
    size_t length = strlen(name);
    if (outer && (strcmp(name, "config.json") == 0 ||
                  strcmp(name, "model.safetensors.index.json") == 0))
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t end = strlen(ends[i]);
        if (end <= length && strcmp(name + length - end, ends[i]) == 0)
            return true;
    }
    return false;
}

static bool copy_file(const char *from, const char *to)
{
    size_t bytes;
    char *text = tn__lm_file_read(from, call, &bytes);
    bool fine = text && write_file(to, text, bytes);
    free(text);
    return fine;
}

static bool is_regular(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
           info.st_size <= TN__LM_JSON_BYTES;
}

/* Copies the files of the folder `inner` ("" or "1_Pooling/"), unless source
 * and destination are the same folder. */
static bool copy_companions(const tn_lm *lm, const char *path,
                            const char *inner)
{
    char from[4096], to[4096];
    tn_format(from, sizeof from, "%s/%s", lm->folder, inner);
    DIR *folder = opendir(from);
    bool fine = true;
    if (!folder)
        return true; /* the folder from which the model was opened no longer
                        exists */
    tn_format(to, sizeof to, "%s/%s", path, inner);
    if (*inner)
        mkdir(to, 0777);
    for (struct dirent *e; fine && (e = readdir(folder));) {
        if (!is_companion(e->d_name, !*inner))
            continue;
        int a = tn_format(from, sizeof from, "%s/%s%s", lm->folder, inner,
                          e->d_name);
        int b = tn_format(to, sizeof to, "%s/%s%s", path, inner, e->d_name);
        if (a < (int)sizeof from && b < (int)sizeof to && is_regular(from))
            fine = copy_file(from, to);
    }
    closedir(folder);
    return fine;
}

static bool same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

/* Removes the index of shards. After saving into the folder from which the
 * model was opened, readers would find the old weights through it. */
static bool remove_index(const char *path)
{
    char index[4200];
    tn_format(index, sizeof index, "%s/model.safetensors.index.json", path);
    return unlink(index) == 0 || errno == ENOENT ||
           fail(TN_ERR_IO, index, strerror(errno));
}

tn_status tn_lm_save(tn_lm *lm, const char *path)
{
    char file[4096];
    if (!tn__lm_is_model(lm, call))
        return tn_error_code();
    if (tn_error())
        return tn_error_code();
    if (!path || strlen(path) > sizeof file - 64)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "path",
                                        path ? "the name is too long"
                                             : "it is NULL");
    if (lm->block_numel)
        return tn_error_refuse_argument(
            TN_ERR_UNSUPPORTED, call, "lm",
            "its weights are quantised blocks, which a folder cannot hold: "
            "open the GGUF file with .dtype");
    if (mkdir(path, 0777) < 0 && errno != EEXIST) {
        fail(TN_ERR_IO, path, strerror(errno));
        return tn_error_code();
    }
    tn_scope *scope = tn_scope_open();
    tn_format(file, sizeof file, "%s/model.safetensors", path);
    bool fine = save_weights(lm, file);
    tn_format(file, sizeof file, "%s/config.json", path);
    fine = fine && save_config(lm, file);
    if (fine && lm->folder && !same_folder(path, lm->folder))
        fine = copy_companions(lm, path, "") &&
               copy_companions(lm, path, "1_Pooling/");
    fine = fine && remove_index(path);
    tn_scope_close(scope);
    return fine ? TN_OK : tn_error_code();
}
