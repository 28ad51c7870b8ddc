/* choose.c: which of the two does a matrix product, the core's own kernel or
 * CLBlast.
 *
 * Which is the faster one depends on the device, its driver, and the product's
 * shape, so it is measured: the first product of a class (type, how the
 * operands lie, each extent within a factor of four, one matrix or many) runs
 * both ways, three times each, and the faster has all of that class. What was
 * measured is kept in the disk cache. A product that adds to c cannot be
 * repeated: it goes by what is known, else to CLBlast. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "opencl.h"

enum { UNKNOWN, OWN, CLBLAST };
enum { ROUNDS = 3 };

/* Around what is measured and kept. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void tn__opencl_products_init(tn_plugin_device *device)
{
    const char *option = tn__opencl_host->option("matmul");
    device->measures = option ? strcmp(option, "measured") == 0
                              : device->listed->info.kind != TN_KIND_CPU;
    device->clblast = device->measures ||
                      (option && strcmp(option, "clblast") == 0);
}

/* ---- classes ------------------------------------------------------------ */

/* 0: up to 16, 1: up to 64, ..., 4: beyond 1,024 */
static unsigned size_class(int64_t extent)
{
    unsigned class = 0;
    while (class < 4 && extent > 16 << 2 * class)
        class++;
    return class;
}

static unsigned class_of(const tn_matmul_args *mm)
{
    const uint32_t column = mm->batch_ndim + 1;
    int64_t count = 1;
    for (uint32_t d = 0; d < mm->batch_ndim; d++)
        count *= mm->batch[d];
    unsigned class = mm->c.dtype == TN_F64;
    class = class * 2 + (mm->a.stride[column] != 1);
    class = class * 2 + (mm->b.stride[column] != 1);
    class = class * 2 + (count > 1);
    class = class * 5 + size_class(mm->m);
    class = class * 5 + size_class(mm->n);
    return class * 5 + size_class(mm->k);
}
_Static_assert(TN_OPENCL_PRODUCTS == 2 * 2 * 2 * 2 * 5 * 5 * 5,
               "a number for each class");

/* ---- what is kept ------------------------------------------------------- */

/* As of a text's binary, so that another driver measures again. */
static char *key_of(const tn_plugin_device *device, unsigned class,
                    size_t *bytes)
{
    char text[64];
    int length = snprintf(text, sizeof text, "products 1, class %u", class);
    const tn_source source = {.text = text, .text_bytes = (uint64_t)length};
    return tn__opencl_cache_key(device, &source, bytes);
}

static uint32_t take(void *context, const void *value, uint64_t bytes)
{
    uint8_t *choice = context;
    if (bytes != 1)
        return 0;
    memcpy(choice, value, 1);
    return *choice == OWN || *choice == CLBLAST;
}

/* ---- measuring ---------------------------------------------------------- */

/* The seconds of a product, waited for before and after; negative: it failed,
 * and *status says how, unless CLBlast has declined. */
static double time_of(tn_queue *queue, const tn_matmul_args *mm,
                      unsigned choice, tn_status *status)
{
    struct timespec begun, done;
    cl_int error = cl.Finish(queue->queue);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    if (choice == OWN)
        *status = tn__opencl_matmul_own(queue, mm);
    else if (!tn__opencl_clblast(queue, mm))
        return -1;
    if (!error && !*status)
        error = cl.Finish(queue->queue);
    clock_gettime(CLOCK_MONOTONIC, &done);
    if (error && !*status)
        *status = tn__opencl_fail(queue->device, "clFinish", error);
    return *status ? -1
                   : (double)(done.tv_sec - begun.tv_sec) +
                         1e-9 * (double)(done.tv_nsec - begun.tv_nsec);
}

/* UNKNOWN where CLBlast cannot have the product, or something failed. */
static unsigned measure(tn_queue *queue, const tn_matmul_args *mm,
                        tn_status *status)
{
    static const unsigned each[2] = {OWN, CLBLAST};
    double least[2] = {1e9, 1e9};
    for (int round = -1; round < ROUNDS; round++) /* the first compiles */
        for (int i = 1; i >= 0; i--) {
            double time = time_of(queue, mm, each[i], status);
            if (time < 0)
                return UNKNOWN;
            if (round >= 0 && time < least[i])
                least[i] = time;
        }
    tn__opencl_host->log(3, "opencl: measured products like %lld x %lld x "
                            "%lld: own kernel %.3f ms, CLBlast %.3f ms",
                         (long long)mm->m, (long long)mm->n, (long long)mm->k,
                         1e3 * least[0], 1e3 * least[1]);
    return least[0] <= least[1] ? OWN : CLBLAST;
}

/* Reads or measures what is not known yet. Under the lock. */
static uint8_t learn(tn_queue *queue, const tn_matmul_args *mm, unsigned class,
                     tn_status *status)
{
    size_t bytes = 0;
    uint8_t choice = UNKNOWN;
    char *key = TN_HAS(tn_host, tn__opencl_host, cache_write) &&
                        tn__opencl_host->cache_read
                    ? key_of(queue->device, class, &bytes)
                    : NULL;
    if (key && !tn__opencl_host->cache_read(key, bytes, take, &choice))
        choice = UNKNOWN;
    if (choice == UNKNOWN && mm->beta == 0) {
        choice = (uint8_t)measure(queue, mm, status);
        if (key && choice != UNKNOWN)
            tn__opencl_host->cache_write(key, bytes, &choice, 1);
    }
    free(key);
    return choice;
}

static bool prefers_own(tn_queue *queue, const tn_matmul_args *mm,
                        tn_status *status)
{
    const unsigned class = class_of(mm);
    _Atomic uint8_t *known = &queue->device->product[class];
    uint8_t choice = atomic_load_explicit(known, memory_order_relaxed);
    if (choice == UNKNOWN) {
        pthread_mutex_lock(&lock);
        choice = atomic_load_explicit(known, memory_order_relaxed);
        if (choice == UNKNOWN) {
            choice = learn(queue, mm, class, status);
            atomic_store_explicit(known, choice, memory_order_relaxed);
        }
        pthread_mutex_unlock(&lock);
    }
    return choice == OWN;
}

tn_status tn__opencl_matmul(tn_queue *queue, const tn_matmul_args *mm)
{
    tn_status status = TN_OK;
    bool own = !tn__opencl_clblast_fits(queue->device, mm) ||
               (queue->device->measures && prefers_own(queue, mm, &status));
    if (status)
        return status;
    return !own && tn__opencl_clblast(queue, mm)
               ? tn__opencl_queue_given(queue, mm->tag)
               : tn__opencl_matmul_own(queue, mm);
}
