/* cpu_quantised.c: the extension "quantised-product": products with weights in
 * the block formats of GGUF files.
 *
 * First, all tokens (rows of the input) are rounded to integers. Then each task
 * multiplies them by some rows of the weight. One task computes each result, in
 * a fixed order, so the result does not depend on the other tokens or on the
 * number of threads. */
#include <stdatomic.h>

#include "../cpu_device.h"

enum {
    /* A task reads at least TASK_BYTES bytes of the weight. Its number of rows
     * is a multiple of the number of rows that the loops process at once. */
    TASK_BYTES = 1 << 17,
    TASK_ROWS = 16
};

static const tn_cpu_blocks formats[] = {
    {TN_BLOCK + 2, 32, 18, 32},    {TN_BLOCK + 3, 32, 20, 32},
    {TN_BLOCK + 6, 32, 22, 32},    {TN_BLOCK + 7, 32, 24, 32},
    {TN_BLOCK + 8, 32, 34, 32},    {TN_BLOCK + 12, 256, 144, 32},
    {TN_BLOCK + 13, 256, 176, 32}, {TN_BLOCK + 14, 256, 210, 16},
};

static const tn_cpu_blocks *find(uint32_t code)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].code == code)
            return &formats[i];
    return NULL;
}

static tn_status declined(const char *why)
{
    return tn__cpu_host->fail(TN_ERR_UNSUPPORTED, "quantised-product: %s", why);
}

static tn_status takes(tn_plugin_device *device, uint32_t format)
{
    (void)device;
    return find(format) ? TN_OK : declined("the format is not supported");
}

typedef struct job {
    tn_cpu_quantised p;
    const tn_cpu_quantised_routines *routines;
    const float *x;
    int64_t x_step;
    /* writable pointers to the arrays that p points to */
    int8_t *r;
    float *s;
    int16_t *sums;
    unsigned char *arranged;
    int64_t rows; /* of a task */
    atomic_int failed;
} job;

static void round_task(void *context, int64_t i)
{
    job *t = context;
    const tn_cpu_quantised *p = &t->p;
    const int64_t k = p->k;
    unsigned fpu = tn__cpu_fpu_set();
    t->routines->round(p->format, t->x + i * t->x_step, k, t->r + i * k,
                       t->s + i * (k / p->format->elements),
                       t->sums + i * (k / p->format->part));
    if (p->arranged_bytes)
        t->routines->arrange(p, i, t->arranged + i * p->arranged_bytes);
    tn__cpu_fpu_restore(fpu);
}

static void multiply_task(void *context, int64_t task)
{
    job *t = context;
    const tn_cpu_quantised *p = &t->p;
    void *scratch = tn__cpu_scratch(
        (size_t)t->routines->scratch_bytes(p->format, p->m, p->k));
    if (!scratch) {
        atomic_store(&t->failed, 1);
        return;
    }
    unsigned fpu = tn__cpu_fpu_set();
    t->routines->multiply(p, task * t->rows,
                          tn__cpu_min((task + 1) * t->rows, p->n), scratch);
    tn__cpu_fpu_restore(fpu);
}

static int64_t padded(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static tn_status run(tn_queue *queue, const tn_quantised_product_args *args)
{
    const tn_cpu_blocks *format = find(args->format);
    if (!format)
        return declined("the format is not supported");
    const int64_t m = args->m, n = args->n, k = args->k;
    if (!args->a.buffer)
        return declined("the core dequantises on the CPU");
    if (args->a.stride[1] != 1 || args->b.stride[1] != 1 ||
        args->c.stride[1] != 1)
        return declined("rows must be contiguous");
    job t = {.routines = queue->routines->quantised,
             .x = (const float *)tn__cpu_at(args->a.buffer, args->a.offset, 4),
             .x_step = args->a.stride[0]};
    atomic_init(&t.failed, 0);
    const int64_t each = t.routines->arranged_bytes(format, m, k);
    const int64_t r_bytes = padded(m * k);
    const int64_t s_bytes = padded(m * (k / format->elements) * 4);
    const int64_t sums_bytes = padded(m * (k / format->part) * 2);
    char *memory = tn__cpu_memory_acquire(
        (size_t)(r_bytes + s_bytes + sums_bytes + m * each + 64));
    if (!memory)
        return tn__cpu_host->fail(TN_ERR_MEMORY,
                                  "quantised-product: out of memory for the "
                                  "rounded input");
    t.arranged = (unsigned char *)memory + (-(uintptr_t)memory & 63);
    t.r = (int8_t *)t.arranged + m * each;
    t.s = (float *)(void *)(t.r + r_bytes);
    t.sums = (int16_t *)(void *)((char *)t.s + s_bytes);
    t.p = (tn_cpu_quantised){
        .format = format, .m = m, .n = n, .k = k,
        .w = (const uint8_t *)tn__cpu_at(args->b.buffer, args->b.offset, 1),
        .row_bytes = args->b.stride[0], .r = t.r, .s = t.s, .sums = t.sums,
        .arranged = each ? t.arranged : NULL, .arranged_bytes = each,
        .out = (float *)(void *)tn__cpu_at(args->c.buffer, args->c.offset, 4),
        .out_step = args->c.stride[0]};
    const int64_t row = k / format->elements * format->bytes;
    t.rows = TASK_BYTES / (row ? row : 1) / TASK_ROWS * TASK_ROWS;
    if (t.rows < TASK_ROWS)
        t.rows = TASK_ROWS;
    tn__cpu_host->parallel_for(m, round_task, &t);
    tn__cpu_host->parallel_for((n + t.rows - 1) / t.rows, multiply_task, &t);
    tn__cpu_memory_release(memory);
    return atomic_load(&t.failed)
               ? tn__cpu_host->fail(TN_ERR_MEMORY, "quantised-product: out of "
                                                   "memory for a row")
               : TN_OK;
}

const tn_quantised_product_extension tn__cpu_quantised_extension = {
    .size = sizeof(tn_quantised_product_extension),
    .takes = takes,
    .run = run};
