/* json_file.c: reads a JSON file as a whole. */
#include <lm/model/json_file.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/tensor.h>

static char *fail(tn_status code, const char *call, const char *path,
                  const char *why)
{
    tn_error_refuse_argument(code, call, "path", "%s: %s", path, why);
    return NULL;
}

tn_status tn__lm_file_code(int why)
{
    return why == ENOMEM ? TN_ERR_MEMORY : TN_ERR_IO;
}

char *tn__lm_file_read(const char *path, const char *call, size_t *bytes)
{
    struct stat info;
    if (stat(path, &info) < 0)
        return fail(tn__lm_file_code(errno), call, path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return fail(TN_ERR_IO, call, path, "not a regular file");
    if (info.st_size > TN__LM_JSON_BYTES)
        return fail(TN_ERR_FORMAT, call, path, "larger than 64 MiB");
    FILE *file = fopen(path, "rbe");
    if (!file)
        return fail(tn__lm_file_code(errno), call, path, strerror(errno));
    char *text = malloc((size_t)info.st_size + 1);
    size_t count = text ? fread(text, 1, (size_t)info.st_size, file) : 0;
    bool whole = count == (size_t)info.st_size;
    fclose(file);
    if (!text)
        return fail(TN_ERR_MEMORY, call, path, "out of memory");
    if (!whole) {
        free(text);
        return fail(TN_ERR_IO, call, path, "the file became shorter");
    }
    text[count] = '\0';
    *bytes = count;
    return text;
}

bool tn__lm_json_open(tn__lm_json *file, const char *path, const char *call)
{
    size_t bytes;
    *file = (tn__lm_json){.json = {.take = malloc, .give = free}};
    file->text = tn__lm_file_read(path, call, &bytes);
    if (!file->text)
        return false;
    file->root = tn__json_read(&file->json, file->text, bytes);
    if (file->root)
        return true;
    if (*file->json.error)
        tn_error_refuse_argument(TN_ERR_FORMAT, call, "path", "%s:%zu:%zu: %s",
                                 path, file->json.line, file->json.column,
                                 file->json.error);
    else
        tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
    return false;
}

void tn__lm_json_close(tn__lm_json *file)
{
    tn__json_free(&file->json);
    free(file->text);
}
