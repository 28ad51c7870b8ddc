/* each.c: defines golden_each_sample, which loops over the samples of every
 * operator. */
#include "golden.h"

#include <dirent.h>
#include <stdlib.h>

typedef struct walk {
    size_t every;
    golden_visit *visit;
    void *context;
} walk;

/* Visits the samples of a file. Returns false and prints the reason if the file
 * cannot be read. */
static bool one_file(const walk *w, const char *path)
{
    tn_scope *scope = tn_scope_open();
    tn_safetensors *file = tn_safetensors_open(path);
    const char *op = tn_safetensors_metadata(file, "op");
    const char *text = tn_safetensors_metadata(file, "samples");
    json_t *samples = text ? json_loads(text, 0, NULL) : NULL;
    bool readable = op && json_is_array(samples);
    if (!readable)
        printf("Bail out! %s: %s\n", path,
               tn_error() ? tn_error() : "no samples");
    if (readable && !tn_op_find(op))
        printf("# %s: left out: there is no such row\n", op);
    for (size_t i = 0; readable && tn_op_find(op) &&
                       i < json_array_size(samples); i += w->every) {
        tn_scope *one = tn_scope_open();
        w->visit(file, json_array_get(samples, i), op, i, w->context);
        tn_error_clear();
        tn_scope_close(one);
    }
    json_decref(samples);
    tn_error_clear();
    tn_scope_close(scope);
    return readable;
}

bool golden_each_sample(const char *folder, size_t every, golden_visit *visit,
                        void *context)
{
    char path[4096];
    struct dirent **entry;
    walk w = {every ? every : 1, visit, context};
    snprintf(path, sizeof path, "%s/ops",
             folder ? folder : "tests/golden/samples");
    int count = scandir(path, &entry, NULL, alphasort);
    if (count < 0) {
        printf("Bail out! cannot read %s\n", path);
        return false;
    }
    bool readable = true;
    for (int i = 0; i < count; i++) {
        char file[8192];
        snprintf(file, sizeof file, "%s/%s", path, entry[i]->d_name);
        if (entry[i]->d_name[0] != '.')
            readable = one_file(&w, file) && readable;
        free(entry[i]);
    }
    free(entry);
    return readable;
}
