/* Matrix products by CLBlast equal the core's own. The numbers are small and
 * whole, so that every order of sums gives the same: what differs is wrong.
 *
 *   TENON_TEST_DTYPES   "float32 float64"; unset: float32, since CLBlast
 *                       compiles some 10 s for each on PoCL */
#include "plugins/folder.h"
#include "tap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <tenon/tenon.h>

static tn_dtype dtype;
static atomic_int calls, complaints; /* log lines that tell of them */

static void listen(int level, const char *line, void *context)
{
    (void)level, (void)context;
    atomic_fetch_add(&calls, strstr(line, "CLBlast multiplies") != NULL);
    atomic_fetch_add(&complaints, strstr(line, "CLBlast fails") ||
                                      strstr(line, "cannot be opened"));
}

/* ---- the products -------------------------------------------------------- */

/* -2, -1, 0, 1, 2 in an order that is no matrix's. */
static tn_tensor *numbers(int64_t matrices, int64_t rows, int64_t columns,
                          int64_t salt)
{
    const int64_t count = matrices * rows * columns;
    double *value = malloc(sizeof *value * (size_t)count);
    if (!value)
        bail_out("out of memory");
    for (int64_t i = 0; i < count; i++)
        value[i] = (double)((i * i + salt * i + i / 7) % 5 - 2);
    tn_tensor *x = tn_tensor_from_array(value, TN_F64,
                                        tn_dims(matrices, rows, columns));
    free(value);
    return tn_to_dtype(x, dtype);
}

typedef struct product {
    const char *name;
    int64_t batch, m, n, k;
    /* How an operand lies: t turned, b one for all of the batch, w wider rows
     * than it has columns, s every second column: nothing for CLBlast. */
    const char *a, *b;
    bool added; /* 3 a b - 2 c */
} product;

static const product products[] = {
    {"one", 1, 17, 13, 29, "", "", false},
    {"b turned, as a layer has it", 1, 33, 20, 64, "", "t", false},
    {"a turned, as its gradient has it", 1, 20, 64, 33, "t", "", false},
    {"both turned", 1, 9, 31, 5, "t", "t", false},
    {"tiles", 1, 128, 128, 128, "", "", false},
    {"a row", 1, 1, 50, 40, "", "", false},
    {"a column", 1, 50, 1, 40, "", "t", false},
    {"parts of wider ones", 1, 12, 14, 16, "w", "w", false},
    {"elements apart", 1, 12, 14, 16, "s", "", false},
    {"a batch", 6, 11, 12, 13, "", "t", false},
    {"one b for a batch", 5, 8, 9, 10, "", "b", false},
    {"one a for a batch", 5, 8, 9, 10, "bt", "", false},
    {"added to c", 1, 21, 22, 23, "", "", true},
    {"a batch, added to c", 3, 21, 22, 23, "", "t", true},
};

static tn_tensor *operand(const product *p, const char *how, int64_t rows,
                          int64_t columns, int64_t salt)
{
    const bool turned = strchr(how, 't') != NULL;
    int64_t shape[3] = {strchr(how, 'b') ? 1 : p->batch, rows, columns};
    if (turned) {
        shape[1] = columns;
        shape[2] = rows;
    }
    if (strchr(how, 's'))
        shape[2] *= 2;
    if (strchr(how, 'w'))
        shape[2] += 3;
    tn_tensor *x = numbers(shape[0], shape[1], shape[2], salt);
    if (strchr(how, 's'))
        x = tn_slice(x, 2, 0, shape[2], 2);
    if (strchr(how, 'w'))
        x = tn_narrow(x, 2, 1, shape[2] - 3);
    return turned ? tn_transpose(x, 1, 2) : x;
}

static tn_tensor *multiply(const product *p)
{
    tn_tensor *a = operand(p, p->a, p->m, p->k, 3);
    tn_tensor *b = operand(p, p->b, p->k, p->n, 1);
    if (p->added)
        return tn_baddbmm(numbers(p->batch, p->m, p->n, 2), a, b, .beta = -2,
                          .alpha = 3);
    if (p->batch == 1) {
        a = tn_select(a, 0, 0);
        b = tn_select(b, 0, 0);
    }
    return tn_matmul(a, b);
}

/* The greatest difference between the device's product and the cpu's; -1 if
 * one fails. Both run the same calls. */
static double difference(const product *p, tn_device *device)
{
    tn_scope *scope = tn_scope_open();
    tn_device_set(tn_device_open("cpu"));
    tn_tensor *want = multiply(p);
    tn_device_set(device);
    tn_tensor *got = tn_to(multiply(p), tn_device_open("cpu"));
    double apart = tn_item(tn_max(tn_abs(tn_sub(want, got))));
    if (tn_error()) {
        note("%s: %s", p->name, tn_error());
        apart = -1;
    }
    tn_scope_close(scope);
    return apart;
}

/* ---- scenes, each in a process of its own -------------------------------- */

static void print_products(void)
{
    tn_set_log(listen, NULL);
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

/* First calls at once are what CLBlast by itself does not bear. */
static void print_threads(void)
{
    pthread_t thread[4];
    atomic_int wrong = 0;
    tn_set_log(listen, NULL);
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

static void print_available(void)
{
    tn_device *device = tn_device_open("opencl");
    printf("%s", device ? "yes" : tn_error());
}

static void print_clblast(void)
{
    dtype = TN_F32;
    tn_set_log(listen, NULL);
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
    if (strcmp(in_child(print_clblast), "yes")) {
        skip(1, "libclblast.so.1 cannot be opened here");
        return done_testing();
    }
    test_dtype("float32");
    test_dtype("float64");
    return done_testing();
}
