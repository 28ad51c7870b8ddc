/* sass_cases.c: the calls of which bench/sass.py counts what their kernels do,
 * on the driver of sass_driver.c.
 *
 *     bench/sass_cases [CASE...]
 *
 * Each case is called once before it is counted, so that what happens only the
 * first time is not its. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

/* What most cases work on: (ROWS, COLUMNS), as in bench/cuda.c. */
enum { ROWS = 16384, COLUMNS = 4096 };
static tn_tensor *a, *b, *row;

#define CASE(name, ...)                                                       \
    static void name(void)                                                    \
    {                                                                         \
        TN_NO_GRAD { __VA_ARGS__; }                                           \
    }
CASE(copy, tn_clone(a))
CASE(add, tn_add(a, b))
CASE(gelu, tn_gelu(a))
CASE(to_half, tn_to_dtype(a, TN_F16))
CASE(sum_all, tn_sum(a))
CASE(sum_rows, tn_sum(a, .dim = 1))
CASE(sum_columns, tn_sum(a, .dim = 0))
CASE(softmax, tn_softmax(a, 1))
CASE(layer_norm, tn_layer_norm(a, tn_dims(COLUMNS), row, row))
CASE(transpose, tn_contiguous(tn_transpose(a, 0, 1)))

/* least: bytes that it must read and write, of those of `a`. */
static const struct work {
    const char *name;
    void (*call)(void);
    double least;
} works[] = {
    {"clone", copy, 2},
    {"add", add, 3},
    {"gelu", gelu, 2},
    {"to float16", to_half, 1.5},
    {"sum", sum_all, 1},
    {"sum rows", sum_rows, 1},
    {"sum columns", sum_columns, 1},
    {"softmax", softmax, 2},
    {"layer_norm", layer_norm, 2},
    {"transpose", transpose, 2},
};
enum { WORKS = sizeof works / sizeof *works };

static void (*begin)(const char *name, double elements, double least);

static bool fails(void)
{
    if (!tn_device_synchronize(NULL) && !tn_error())
        return false;
    fprintf(stderr, "sass_cases: %s\n", tn_error());
    return true;
}

static bool run(const struct work *w)
{
    const double elements = (double)ROWS * COLUMNS;
    for (int counted = 0; counted < 2; counted++) {
        tn_scope *scope = tn_scope_open();
        begin(counted ? w->name : "before", elements, 4 * elements * w->least);
        w->call();
        const bool failed = fails();
        tn_scope_close(scope);
        if (failed)
            return false;
    }
    begin("after", 0, 0);
    return true;
}

int main(int argc, char **argv)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = driver ? dlsym(driver, "sass_case") : NULL;
    if (!found) {
        fprintf(stderr, "sass_cases: not on sass_driver.c's driver; "
                        "bench/sass.py starts this program\n");
        return 1;
    }
    memcpy(&begin, &found, sizeof begin);
    tn_device *device = tn_device_open("cuda:0");
    if (!device || tn_device_set(device))
        return fprintf(stderr, "sass_cases: %s\n", tn_error()), 1;
    begin("before", 0, 0);
    tn_scope *scope = tn_scope_open();
    a = tn_zeros(tn_dims(ROWS, COLUMNS));
    b = tn_zeros(tn_dims(ROWS, COLUMNS));
    row = tn_zeros(tn_dims(COLUMNS));
    for (int i = 0; i < WORKS; i++) {
        bool wanted = argc < 2;
        for (int k = 1; k < argc; k++)
            wanted = wanted || strcmp(argv[k], works[i].name) == 0;
        if (wanted && !run(&works[i]))
            return 1;
    }
    tn_scope_close(scope);
    return 0;
}
