/* nodes.c: runs cases of onnx.backend.test.
 *
 *   nodes [-v] DIR...
 *
 * A case is a folder with model.onnx and test_data_set_*, which has input_*.pb
 * and output_*.pb. DIR is a case, or a folder of cases. The program prints one
 * line of TAP for each case. It skips a case that is not supported, and prints
 * the reason. At the end it prints the number of cases for each reason.
 *
 * Tolerances are those of onnx.backend.test (rtol 1e-3, atol 1e-7). Two
 * exceptions: atol is 1e-5 for float32, because sums may have another order,
 * and 1e-2 for types of 16 bits and less. Integers must be equal. For random
 * operators (Bernoulli, RandomUniform ...) only shape and dtype are
 * compared. */
#include <tap.h>

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/autograd.h>
#include <tenon/onnx.h>
#include <tenon/ops.h>

enum { MANY = 64 };

static int passed, failed, skipped;

typedef struct reason {
    char text[400];
    int count;
} reason;
static reason reasons[1024];
static int reason_count;

static void count_reason(const char *text)
{
    int i = 0;
    while (i < reason_count && strcmp(reasons[i].text, text) != 0)
        i++;
    if (i == 1024)
        return;
    if (i == reason_count)
        snprintf(reasons[reason_count++].text, sizeof reasons[0].text, "%s",
                 text);
    reasons[i].count++;
}

/* Returns the elements of x as doubles. The caller frees them. */
static double *elements(tn_tensor *x)
{
    const size_t n = (size_t)tn_tensor_numel(x);
    double *out = malloc((n + 1) * sizeof *out);
    tn_tensor_to_array(tn_to_dtype(x, TN_F64), out, n * sizeof *out);
    return out;
}

/* Returns whether two results agree. If not, writes the reason to why. */
static bool agree(tn_tensor *have, tn_tensor *want, bool random, char *why,
                  size_t room)
{
    const tn_dtype dtype = tn_tensor_dtype(want);
    bool same = tn_tensor_dtype(have) == dtype &&
                tn_tensor_ndim(have) == tn_tensor_ndim(want);
    for (int i = 0; i < tn_tensor_ndim(want) && same; i++)
        same = tn_tensor_size(have, i) == tn_tensor_size(want, i);
    if (!same) {
        int at =
            snprintf(why, room, "%s (", tn_dtype_name(tn_tensor_dtype(have)));
        for (int i = 0; i < tn_tensor_ndim(have); i++)
            at += snprintf(why + at, room - (size_t)at, "%lld,",
                           (long long)tn_tensor_size(have, i));
        at += snprintf(why + at, room - (size_t)at, ") instead of %s (",
                       tn_dtype_name(dtype));
        for (int i = 0; i < tn_tensor_ndim(want); i++)
            at += snprintf(why + at, room - (size_t)at, "%lld,",
                           (long long)tn_tensor_size(want, i));
        snprintf(why + at, room - (size_t)at, ")");
        return false;
    }
    if (random)
        return true;
    double *x = elements(have), *y = elements(want);
    const bool is_float = tn_dtype_is_floating(dtype);
    const double rtol = is_float ? 1e-3 : 0,
                 atol = !is_float ? 0
                        : tn_dtype_bytes(dtype) > 2 ? 1e-5
                                                    : 1e-2;
    const int64_t n = tn_tensor_numel(want);
    for (int64_t i = 0; i < n && same; i++) {
        if (isnan(y[i]) || isinf(y[i]))
            same = isnan(y[i]) ? isnan(x[i]) : x[i] == y[i];
        else
            same = fabs(x[i] - y[i]) <= atol + rtol * fabs(y[i]);
        if (!same)
            snprintf(why, room, "element %lld is %.9g instead of %.9g",
                     (long long)i, x[i], y[i]);
    }
    free(x);
    free(y);
    return same;
}

static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static bool is_random(const char *name)
{
    static const char *const random[] = {"bernoulli", "random", "multinomial",
                                         "training_dropout"};
    for (size_t i = 0; i < sizeof random / sizeof *random; i++)
        if (strstr(name, random[i]) && !strstr(name, "zero_ratio"))
            return true;
    return false;
}

/* Runs one data set. Returns whether the results agree. */
static bool run_set(tn_module *net, const char *folder, bool random, char *why,
                    size_t room)
{
    char path[4200];
    tn_tensor *in[MANY] = {NULL}, *out[MANY] = {NULL};
    const int in_count = tn_onnx_input_count(net),
              out_count = tn_onnx_output_count(net);
    if (in_count > MANY || out_count > MANY) {
        snprintf(why, room, "too many inputs or outputs");
        return false;
    }
    for (int i = 0; i < in_count; i++) {
        snprintf(path, sizeof path, "%s/input_%d.pb", folder, i);
        if (exists(path) && !(in[i] = tn_onnx_tensor_load(path)))
            return false;
    }
    if (tn_onnx_run(net, in, in_count, out, out_count) < 0)
        return false;
    for (int i = 0; i < out_count; i++) {
        snprintf(path, sizeof path, "%s/output_%d.pb", folder, i);
        if (!exists(path))
            continue;
        tn_tensor *want = tn_onnx_tensor_load(path);
        if (!want || !agree(out[i], want, random, why, room))
            return false;
    }
    return true;
}

/* Removes from a reason what differs from case to case: paths and names of
 * nodes. */
static void shorten(char *text)
{
    char *at = strstr(text, "model.onnx: ");
    if (at)
        memmove(text, at + 12, strlen(at + 12) + 1);
    at = strstr(text, "; tenon onnx check");
    if (at)
        *at = '\0';
    at = strncmp(text, "node \"", 6) == 0 ? strstr(text, "\" (") : NULL;
    if (at)
        memmove(text, at + 2, strlen(at + 2) + 1);
    at = strncmp(text, "value \"", 7) == 0 ? strstr(text, "\": ") : NULL;
    if (at)
        memmove(text, at + 3, strlen(at + 3) + 1);
}

static void run_case(const char *folder)
{
    const char *slash = strrchr(folder, '/');
    const char *name = slash ? slash + 1 : folder;
    char path[4096], why[400] = "";
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    TN_SCOPE(scope) {
        tn_module *net = tn_onnx_open(path);
        const tn_status status = tn_error_code();
        bool fine = net != NULL;
        int sets = 0;
        for (; fine; sets++) {
            snprintf(path, sizeof path, "%s/test_data_set_%d", folder, sets);
            if (!exists(path))
                break;
            fine = run_set(net, path, is_random(name), why, sizeof why);
        }
        if (tn_error())
            snprintf(why, sizeof why, "%s", tn_error());
        tn_error_clear();
        if (!net && status == TN_ERR_UNSUPPORTED) {
            shorten(why);
            char text[600];
            snprintf(text, sizeof text, "%s: %s", name, why);
            skip(1, text);
            skipped++;
            count_reason(why);
        } else {
            ok(fine && sets > 0, "%s", name);
            passed += fine && sets > 0;
            failed += !(fine && sets > 0);
            if (!fine)
                note("%s: %s", name, why);
        }
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Runs a case, or all cases in a folder in the order of their names. */
static void run_folder(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (exists(path)) {
        run_case(folder);
        return;
    }
    DIR *dir = opendir(folder);
    if (!dir)
        bail_out("%s cannot be opened", folder);
    char **names = NULL;
    size_t count = 0;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%s/model.onnx", folder, entry->d_name);
        if (!exists(path))
            continue;
        names = realloc(names, (count + 1) * sizeof *names);
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        names[count++] = strdup(path);
    }
    closedir(dir);
    if (count)
        qsort(names, count, sizeof *names, by_name);
    for (size_t i = 0; i < count; i++) {
        run_case(names[i]);
        free(names[i]);
    }
    free(names);
}

int main(int argc, char **argv)
{
    plan_later();
    for (int i = 1; i < argc; i++)
        run_folder(argv[i]);
    note("%d passed, %d failed, %d not supported", passed, failed, skipped);
    for (int i = 0; i < reason_count; i++)
        note("%4d %s", reasons[i].count, reasons[i].text);
    return done_testing();
}
