/* choose.c: chooses between Tenon's own kernel and CLBlast for a matrix
 * product.
 *
 * The faster one depends on the device, its driver and the product's shape, so
 * it is measured. Products form a class if they have the same dtype and
 * transpositions, extents of similar size (within a factor of four), and are
 * either all batched or all single matrices. The first product of a class runs
 * three times with each implementation. All later products of the class use the
 * faster one. The result is stored in the disk cache. A product that adds to c
 * cannot be repeated, so it is not measured: it uses CLBlast if its class has
 * no result yet. */
#include <stdio.h>
#include <string.h>

#include "opencl.h"

enum { UNKNOWN, OWN, CLBLAST };
enum { ROUNDS = 3 };
#define DECLINED TN_ERR_UNSUPPORTED /* the status with which CLBlast declines a
                                     * product */

/* This lock is held while a class is measured and the result is stored. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void tn__opencl_products_init(tn_plugin_device *device)
{
    const char *option = tn__option_is("deterministic", "1")
                             ? "own"
                             : tn__host->option("matmul");
    device->measures = option ? strcmp(option, "measured") == 0
                              : device->listed->info.kind != TN_KIND_CPU;
    device->clblast = device->measures ||
                      (option && strcmp(option, "clblast") == 0);
}

/* ---- classes ------------------------------------------------------------- */

/* Returns the size class of an extent: 0 for at most 16, 1 for at most 64, and
 * so on, 4 for more than 1024. */
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

/* ---- measuring ----------------------------------------------------------- */

static tn_status work(tn_queue *queue, void *context, uint8_t variant)
{
    const tn_matmul_args *mm = context;
    return variant == CLBLAST ? tn__opencl_clblast(queue, mm) ? TN_OK : DECLINED
                              : tn__opencl_matmul_own(queue, mm);
}

/* Measures both implementations and returns the faster one. Returns UNKNOWN if
 * CLBlast does not support the product, or if a call failed. */
static uint8_t measure(tn_queue *queue, const tn_matmul_args *mm,
                       tn_status *status)
{
    double least[3] = {0};
    void *context = (void *)(uintptr_t)mm; /* the cast is safe, because `work`
                                            * does not change the product */
    /* In round -1 the kernels are compiled, so its time is ignored. */
    for (int round = -1; round < ROUNDS; round++)
        for (uint8_t variant = CLBLAST; variant >= OWN; variant--) {
            double time =
                tn__opencl_time(queue, work, context, variant, status);
            if (*status) {
                *status = *status == DECLINED ? TN_OK : *status;
                return UNKNOWN;
            }
            if (round <= 0 || time < least[variant])
                least[variant] = time;
        }
    tn__host->log(3,
                  "opencl: measured products like %lld x %lld x "
                  "%lld: own kernel %.3f ms, CLBlast %.3f ms",
                  (long long)mm->m, (long long)mm->n, (long long)mm->k,
                  1e3 * least[OWN], 1e3 * least[CLBLAST]);
    return least[OWN] <= least[CLBLAST] ? OWN : CLBLAST;
}

/* Returns the choice for a class of products. Reads it from the disk cache, or
 * measures it if the cache does not have it. The caller holds the lock. */
static uint8_t choice_find(tn_queue *queue, const tn_matmul_args *mm,
                           unsigned class, tn_status *status)
{
    char what[64];
    snprintf(what, sizeof what, "products 1, class %u", class);
    uint8_t choice = tn__opencl_choice_load(queue->device, what, CLBLAST);
    if (choice == UNKNOWN && mm->beta == 0) {
        choice = measure(queue, mm, status);
        if (choice != UNKNOWN)
            tn__opencl_choice_store(queue->device, what, choice);
    }
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
            choice = choice_find(queue, mm, class, status);
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
               ? tn__opencl_queue_submitted(queue, mm->tag)
               : tn__opencl_matmul_own(queue, mm);
}
