/* Matrix products by the plugin's kernel are bit-identical to the reference
 * plugin's, for blocks of any size; products by CLBlast equal those of the
 * plugin's kernel.
 *
 *   TENON_TEST_DTYPES   "float32 float64"; unset: float32, since CLBlast
 *                       compiles about 10 s for each on PoCL */
#include "device/products.h"
#include "plugins/folder.h"
#include "tap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <tenon/tenon.h>

/* Numbers of log lines about CLBlast's first product, about missing features,
 * and about the measurement of both implementations. */
static atomic_int calls, complaints, measured;

static void listen(int level, const char *line, void *context)
{
    (void)level, (void)context;
    atomic_fetch_add(&calls, strstr(line, "CLBlast multiplies") != NULL);
    atomic_fetch_add(&measured, strstr(line, "measured products") != NULL);
    atomic_fetch_add(&complaints, strstr(line, "CLBlast fails") ||
                                      strstr(line, "cannot be opened"));
}

/* ---- scenarios, each in a process of its own ----------------------------- */

static void print_products(void)
{
    tn_log_set(listen, NULL);
    tn_device *device = tn_device_open("opencl");
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        double apart = difference(&products[i], device);
        if (apart != 0)
            printf("%s: %g apart; ", products[i].name, apart);
    }
    printf("CLBlast %d, complaints %d", atomic_load(&calls),
           atomic_load(&complaints));
}

static void *multiply_in_thread(void *wrong)
{
    tn_device *device = tn_device_open("opencl");
    for (int i = 0; i < 3; i++)
        if (difference(&products[i % 2 ? 1 : 9], device) != 0)
            atomic_fetch_add((atomic_int *)wrong, 1);
    return NULL;
}

/* CLBlast itself does not support concurrent first calls. */
static void print_threads(void)
{
    pthread_t thread[4];
    atomic_int wrong = 0;
    tn_log_set(listen, NULL);
    for (int i = 0; i < 4; i++)
        if (pthread_create(&thread[i], NULL, multiply_in_thread, &wrong))
            bail_out("pthread_create");
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    printf("%d wrong, CLBlast %d", atomic_load(&wrong), atomic_load(&calls));
}

static void test_dtype(const char *name)
{
    const char *wanted = getenv("TENON_TEST_DTYPES");
    if (!strstr(wanted ? wanted : "float32", name)) {
        note("%s: not in TENON_TEST_DTYPES", name);
        skip(6, "CLBlast compiles some 10 s for it");
        return;
    }
    dtype = tn_dtype_from_name(name);
    setenv("TENON_OPENCL_MATMUL", "clblast", 1);
    is_str(in_child(print_products), "CLBlast 1, complaints 0",
           "%s: products by CLBlast are the core's", name);
    for (int i = 0; i < 3; i++)
        is_str(in_child(print_threads), "0 wrong, CLBlast 1",
               "%s: four threads begin at once", name);
    setenv("TENON_OPENCL_CLBLAST", "no such library", 1);
    is_str(in_child(print_products), "CLBlast 0, complaints 1",
           "%s: without CLBlast the core's own are taken, and the log says so",
           name);
    unsetenv("TENON_OPENCL_CLBLAST");
    unsetenv("TENON_OPENCL_MATMUL");
    setenv("POCL_DEVICES", "basic", 1);
    is_str(in_child(print_products), "CLBlast 0, complaints 0",
           "%s: a CPU's products are the core's own where nothing else is said",
           name);
    unsetenv("POCL_DEVICES");
}

/* ---- blocks of the product ----------------------------------------------- */

/* On a CPU, for large m, n and k, b is copied in strips of DEPTH = 256 rows,
 * and c is divided into blocks of up to 128 x 128 (primitive.c). The cases have
 * one block and many, full and partial blocks, and one or several strips. */
static const product blocks[] = {
    {"one short block", 1, 17, 5, 3, "", "t", false},
    {"a strip and a piece of one", 1, 19, 37, 256, "", "t", false},
    {"one row of b more than at once", 1, 18, 33, 257, "t", "t", false},
    {"blocks and pieces of them", 1, 277, 261, 300, "", "", false},
    {"many rows of b", 1, 33, 140, 1100, "t", "", false},
    {"elements apart", 1, 40, 70, 270, "s", "s", false},
    {"a batch", 3, 150, 150, 520, "", "", false},
    {"one b for a batch", 7, 21, 50, 60, "", "bt", false},
    {"added to c", 1, 131, 260, 513, "", "", true},
    {"a batch, added to c", 2, 30, 40, 300, "t", "t", true},
    {"no inner dimension", 1, 40, 40, 0, "", "t", false},
};

/* Returns the bytes of the product on that device; the caller frees them. */
static void *multiply_on(const product *p, const char *device)
{
    const size_t bytes =
        (size_t)(p->batch * p->m * p->n) * tn_dtype_bytes(dtype);
    void *out = calloc(1, bytes);
    tn_scope *scope = tn_scope_open();
    tn_device_set(tn_device_open(device));
    if (!out || tn_tensor_to_array(multiply(p), out, bytes) < 0)
        printf("%s on %s: %s; ", p->name, device, tn_error());
    tn_scope_close(scope);
    return out;
}

static void print_blocks(void)
{
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        const product *p = &blocks[i];
        void *want = multiply_on(p, "reference");
        void *got = multiply_on(p, "opencl");
        if (memcmp(want, got, (size_t)(p->batch * p->m * p->n) *
                                  tn_dtype_bytes(dtype)))
            printf("%s differs; ", p->name);
        free(want);
        free(got);
    }
    printf("%zu products", sizeof blocks / sizeof *blocks);
}

static void test_blocks(void)
{
    static const tn_dtype each[] = {TN_F32, TN_F64, TN_F16, TN_I32};
    fractions = true;
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        dtype = each[i];
        is_str(in_child(print_blocks), "11 products",
               "%s: blocks have the reference's bits", tn_dtype_name(dtype));
    }
    fractions = false;
}

/* ---- choice by measurement ----------------------------------------------- */

static void print_measured(void)
{
    print_products();
    printf(", measured: %s", atomic_load(&measured) ? "some" : "none");
}

/* Runs as on a device that is not a CPU, with an empty cache. */
static void test_measured(void)
{
    char folder[] = "/tmp/tenon-test.XXXXXX", remove[64];
    const char *cache = getenv("TENON_CACHE_DIR");
    if (!mkdtemp(folder))
        bail_out("mkdtemp");
    dtype = TN_F32;
    setenv("TENON_CACHE_DIR", folder, 1);
    setenv("TENON_OPENCL_MATMUL", "measured", 1);
    is_str(in_child(print_measured), "CLBlast 1, complaints 0, measured: some",
           "an unknown device is measured; the products are right");
    const char *again = in_child(print_measured);
    ok(strstr(again, "complaints 0, measured: none") != NULL,
       "another process knows (%s)", again);
    setenv("TENON_OPENCL_OPTIONS", "-DOTHER", 1);
    setenv("TENON_OPENCL_CLBLAST", "no such library", 1);
    is_str(in_child(print_measured), "CLBlast 0, complaints 1, measured: none",
           "without CLBlast there is nothing to measure");
    unsetenv("TENON_OPENCL_CLBLAST");
    unsetenv("TENON_OPENCL_OPTIONS");
    unsetenv("TENON_OPENCL_MATMUL");
    if (cache)
        setenv("TENON_CACHE_DIR", cache, 1);
    else
        unsetenv("TENON_CACHE_DIR");
    snprintf(remove, sizeof remove, "rm -rf %s", folder);
    if (system(remove))
        note("%s is left behind", folder);
}

static void print_available(void)
{
    tn_device *device = tn_device_open("opencl");
    printf("%s", device ? "yes" : tn_error());
}

static void print_clblast(void)
{
    dtype = TN_F32;
    tn_log_set(listen, NULL);
    setenv("TENON_OPENCL_MATMUL", "clblast", 1);
    difference(&products[0], tn_device_open("opencl"));
    printf("%s", atomic_load(&calls) ? "yes" : "no");
}

int main(void)
{
    plan_later();
    setenv("TENON_LOG", "3", 1);
    const char *available = in_child(print_available);
    if (strcmp(available, "yes")) {
        note("%s", available);
        skip(1, "no OpenCL device here");
        return done_testing();
    }
    test_blocks();
    if (strcmp(in_child(print_clblast), "yes")) {
        skip(1, "libclblast.so.1 cannot be opened here");
        return done_testing();
    }
    test_measured();
    test_dtype("float32");
    test_dtype("float64");
    return done_testing();
}
