/* run.c: compares Tenon with PyTorch's results: run DIR|FILE...
 *
 *     run -c EVERY DIR|FILE...   compares compiled functions with the functions
 *                                themselves (compiled.h), by bits: every
 *                                EVERYth sample of an operator, and as much of
 *                                each training run
 *
 * Reads folders of sample files, or single files. Prints one TAP line for each
 * file with its counts, then `N passed, N failed, N skipped` for the files. A
 * file whose operator or layer Tenon lacks is skipped, with a message. The exit
 * status is 1 if any failed. */
#include "compiled.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct totals {
    int count, passed, failed, skipped;
    int64_t samples_passed, samples_failed, samples_unsupported;
    int64_t samples_by_float64;
} totals;

static size_t compiled_every; /* 0: without -c */

/* Compares a file's samples within compiled functions. */
static verdict run_compiled(tn_safetensors *file, const char *name)
{
    if (tn_safetensors_metadata(file, "op"))
        return op_file_compiled(file, compiled_every);
    if (tn_safetensors_metadata(file, "module"))
        return module_file_compiled(file);
    if (tn_safetensors_metadata(file, "losses") &&
        tn_safetensors_metadata(file, "data"))
        return training_file_compiled(file, name, compiled_every);
    verdict v = {.unsupported = 1};
    snprintf(v.detail, sizeof v.detail, "no function of tensors");
    return v;
}

/* Determines the kind of a file from its metadata and checks it. */
static verdict run_file(tn_safetensors *file, const char *name)
{
    if (tn_safetensors_metadata(file, "op"))
        return op_file_run(file);
    if (tn_safetensors_metadata(file, "module"))
        return module_file_run(file);
    if (tn_safetensors_metadata(file, "losses") &&
        tn_safetensors_metadata(file, "data"))
        return training_file_run(file, name);
    if (tn_safetensors_metadata(file, "optimizer") &&
        tn_safetensors_metadata(file, "loss"))
        return optim_file_run(file);
    if (tn_safetensors_metadata(file, "scheduler"))
        return schedule_file_run(file);
    if (tn_safetensors_metadata(file, "distribution"))
        return distribution_file_run(file);
    verdict v = {.unsupported = 1};
    snprintf(v.detail, sizeof v.detail, "no runner for this kind of file");
    return v;
}

static void report(totals *t, const char *name, const verdict *v)
{
    t->count++;
    t->samples_passed += v->passed;
    t->samples_failed += v->failed;
    t->samples_unsupported += v->unsupported;
    t->samples_by_float64 += v->by_float64;
    bool skipped = !v->failed && !v->passed;
    t->skipped += skipped;
    t->failed += v->failed > 0;
    t->passed += !skipped && !v->failed;
    printf("%s %d - %s: %d passed, %d failed, %d unsupported%s%s\n",
           v->failed ? "not ok" : "ok", t->count, name, v->passed, v->failed,
           v->unsupported, skipped ? " # SKIP " : "",
           !skipped           ? ""
           : v->detail[0]     ? v->detail
                              : "no such row");
    if (v->by_float64)
        printf("# %s: %d of those passed are beside float64's\n", name,
               v->by_float64);
    if (v->failed)
        printf("# %s: %s\n", name, v->detail);
    fflush(stdout);
}

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static void one_file(totals *t, const char *path)
{
    const char *slash = strrchr(path, '/');
    char name[256];
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : path);
    if (ends_with(name, ".safetensors"))
        name[strlen(name) - strlen(".safetensors")] = '\0';
    tn_scope *scope = tn_scope_open();
    tn_safetensors *file = tn_safetensors_open(path);
    verdict v = {0};
    if (file)
        v = compiled_every ? run_compiled(file, name) : run_file(file, name);
    else
        verdict_fail(&v, "%s", tn_error());
    tn_error_clear();
    tn_scope_close(scope);
    report(t, name, &v);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Checks all files of a folder, or one file. Returns whether path could be
 * read. */
static bool walk(totals *t, const char *path)
{
    struct stat info;
    if (stat(path, &info) < 0)
        return false;
    if (!S_ISDIR(info.st_mode)) {
        one_file(t, path);
        return true;
    }
    struct dirent **entry;
    int count = scandir(path, &entry, NULL, by_name);
    if (count < 0)
        return false;
    bool readable = true;
    for (int i = 0; i < count; i++) {
        const char *name = entry[i]->d_name;
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, name);
        bool folder = stat(inner, &info) == 0 && S_ISDIR(info.st_mode);
        if (name[0] != '.' && (folder || ends_with(name, ".safetensors")))
            readable = walk(t, inner) && readable;
        free(entry[i]);
    }
    free(entry);
    return readable;
}

int main(int count, char **argument)
{
    totals t = {0};
    int first = 1;
    if (count > 2 && strcmp(argument[1], "-c") == 0) {
        compiled_every = (size_t)strtoul(argument[2], NULL, 10);
        first = 3;
    }
    if (count <= first || (first == 3 && !compiled_every)) {
        fprintf(stderr, "usage: run [-c EVERY] DIR|FILE...\n");
        return 2;
    }
    tn_device *device = tn_device_current();
    if (!device) {
        printf("Bail out! %s\n", tn_error());
        return 1;
    }
    printf("# device %s: %s\n", tn_device_name(device),
           tn_device_description(device));
    for (int i = first; i < count; i++) {
        if (!walk(&t, argument[i])) {
            printf("Bail out! cannot read %s\n", argument[i]);
            return 1;
        }
    }
    if (compiled_every && !compiled_print_refused(compiled_every == 1))
        t.failed++;
    printf("1..%d\n", t.count);
    printf("# samples: %lld passed (%lld of them beside float64's), %lld "
           "failed, %lld unsupported\n",
           (long long)t.samples_passed, (long long)t.samples_by_float64,
           (long long)t.samples_failed, (long long)t.samples_unsupported);
    printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed,
           t.skipped);
    return t.failed > 0;
}
