/* lying.c: the reference plugin with one fault, for tests of
 * tenon-plugin-check: it must find each, and say the right thing.
 *
 * Which fault is the plugin's option "lie" (TENON_LYING_LIE); without it, the
 * plugin is as good as the reference. */
#define tenon_plugin_v1 reference_entry
#include "../../../plugins/reference/reference.c"
#undef tenon_plugin_v1

#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static const char *lie = "";
static tn_plugin lying;

static bool tells(const char *which)
{
    return strcmp(lie, which) == 0;
}

/* ---- programs ----------------------------------------------------------- */

enum { MOST_OPERANDS = 32 };

/* A launch whose strides may be spoiled. */
typedef struct spoiled {
    tn_launch launch;
    tn_launch_operand operand[MOST_OPERANDS];
    int64_t stride[MOST_OPERANDS][TN_MAX_NDIM];
} spoiled;

static void spoiled_init(spoiled *s, const tn_program *p, const tn_launch *l)
{
    s->launch = *l;
    s->launch.operand = s->operand;
    for (uint32_t k = 0; k < p->operand_count; k++) {
        s->operand[k] = l->operand[k];
        s->operand[k].stride = s->stride[k];
        memcpy(s->stride[k], l->operand[k].stride,
               (l->outer_ndim + l->row_ndim) * sizeof(int64_t));
    }
}

/* Is right at every stride but -1, for which it reads forward. */
static void forget_sign(spoiled *s, const tn_program *p)
{
    uint32_t ndim = s->launch.outer_ndim + s->launch.row_ndim;
    for (uint32_t k = 0; k < p->operand_count; k++)
        if (p->operand[k].access == TN_OPERAND_READ && ndim > 0 &&
            s->stride[k][ndim - 1] == -1) {
            s->operand[k].offset -= s->launch.extent[ndim - 1] - 1;
            s->stride[k][ndim - 1] = 1;
        }
}

static bool sums_floats(const tn_program *p)
{
    bool sums = false;
    for (uint32_t i = 0; i < p->ins_count; i++)
        if (p->ins[i].op == TN_K_REDUCE) {
            if (p->ins[i].sub != TN_REDUCE_SUM)
                return false;
            sums = true;
        }
    return sums;
}

/* Walks rows from their end: the same numbers, folded in another order. */
static void walk_backward(spoiled *s, const tn_program *p)
{
    for (uint32_t k = 0; k < p->operand_count; k++)
        for (uint32_t d = s->launch.outer_ndim;
             d < s->launch.outer_ndim + s->launch.row_ndim; d++) {
            s->operand[k].offset += (s->launch.extent[d] - 1) * s->stride[k][d];
            s->stride[k][d] = -s->stride[k][d];
        }
}

/* Writes the element behind the last one of what the launch stores. */
static void write_beyond(const tn_program *p, const tn_launch *l)
{
    for (uint32_t k = 0; k < p->operand_count; k++) {
        if (p->operand[k].access != TN_OPERAND_WRITE)
            continue;
        int64_t at = l->operand[k].offset + 1;
        for (uint32_t d = 0; d < l->outer_ndim + l->row_ndim; d++)
            if (l->operand[k].stride[d] > 0 && l->extent[d] > 0)
                at += (l->extent[d] - 1) * l->operand[k].stride[d];
        size_t size = reference_bytes(p->operand[k].dtype);
        memset(l->operand[k].buffer->data + (size_t)at * size, 0x5a, size);
    }
}

static tn_status lying_launch(tn_queue *queue, tn_built *built,
                              const tn_launch *l)
{
    spoiled s;
    spoiled_init(&s, built->program, l);
    if (tells("stride"))
        forget_sign(&s, built->program);
    if (tells("order") && sums_floats(built->program))
        walk_backward(&s, built->program);
    if (tells("print"))
        puts("computing");
    if (tells("rounding"))
        fesetround(FE_TOWARDZERO);
    tn_status status = launch(queue, built, &s.launch);
    if (tells("beyond"))
        write_beyond(built->program, l);
    if (tells("swallow")) {
        first_fault.code = TN_OK;
        status = TN_OK;
    }
    if (tells("position") && first_fault.code)
        first_fault.position++;
    if (tells("sleep"))
        sleep(600);
    return status;
}

/* ---- devices and memory ------------------------------------------------- */

static void *idle(void *nothing)
{
    pause();
    return nothing;
}

static tn_status lying_open(uint32_t i, tn_plugin_device **device)
{
    pthread_t thread;
    if (tells("thread"))
        pthread_create(&thread, NULL, idle, NULL);
    if (tells("handler"))
        signal(SIGUSR1, SIG_IGN);
    return device_open(i, device);
}

static tn_status lying_count(uint32_t *count)
{
    if (tells("locale"))
        setlocale(LC_ALL, "C.UTF-8");
    if (tells("early thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, idle, NULL);
    }
    return device_count(count);
}

static tn_status lying_alloc(tn_plugin_device *device, uint64_t bytes,
                             tn_buffer **out)
{
    if (tells("memory") && bytes > (uint64_t)1 << 50)
        bytes = 1;
    if (tells("silent") && bytes > (uint64_t)1 << 50)
        return TN_ERR_MEMORY;
    return buffer_alloc(device, bytes, out);
}

static void lying_free(tn_plugin_device *device, tn_buffer *buffer)
{
    (void)device;
    if (tells("double free"))
        free(buffer->data);
    if (!tells("leak"))
        free(buffer->data);
    free(buffer);
}

static tn_status lying_copy(tn_queue *queue, const tn_copy_args *c)
{
    tn_copy_args longer = *c;
    if (tells("copy") && c->rows > 1)
        longer.bytes++;
    return copy(queue, &longer);
}

/* ---- primitives --------------------------------------------------------- */

static tn_status lying_matmul(tn_queue *queue, const tn_matmul_args *mm)
{
    if (tells("abort"))
        abort();
    if (tells("exit"))
        exit(0);
    return matmul(queue, mm);
}

static tn_status lying_sort(tn_queue *queue, const tn_sort_args *s)
{
    tn_sort_args other = *s;
    if (tells("sort")) /* forgets which way */
        other.flags = 0;
    return sort(queue, &other);
}

__attribute__((visibility("default"))) const tn_plugin *tenon_plugin_v1(
    const tn_host *host)
{
    const tn_plugin *honest = reference_entry(host);
    if (host->option && host->option("lie"))
        lie = host->option("lie");
    if (!honest) {
        if (!tells("major"))
            return NULL;
        honest = &plugin;
    }
    lying = *honest;
    lying.name = "lying";
    lying.device_count = lying_count;
    lying.device_open = lying_open;
    lying.buffer_alloc = lying_alloc;
    lying.buffer_free = lying_free;
    lying.copy = lying_copy;
    lying.launch = lying_launch;
    lying.matmul = lying_matmul;
    lying.sort = lying_sort;
    if (tells("slot"))
        lying.scan = NULL;
    if (tells("size"))
        lying.size = 64;
    return &lying;
}
