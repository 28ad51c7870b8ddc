/* lying.c: the reference plugin with one deliberate fault, for tests of
 * tenon-plugin-check, which must find each fault and report it correctly.
 *
 * The plugin's option "lie" (TENON_LYING_LIE) selects the fault. Without it the
 * plugin is correct. */
#define tenon_plugin_v1 reference_entry
#include "../../../plugins/reference/reference.c"
#undef tenon_plugin_v1

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
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

/* A copy of a launch, whose strides a fault may change. */
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

/* Fault: a stride of -1 reads forward; other strides are right. */
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

/* Fault: reduces rows from their end, that is in another order. */
static void walk_backward(spoiled *s, const tn_program *p)
{
    for (uint32_t k = 0; k < p->operand_count; k++)
        for (uint32_t d = s->launch.outer_ndim;
             d < s->launch.outer_ndim + s->launch.row_ndim; d++) {
            s->operand[k].offset += (s->launch.extent[d] - 1) * s->stride[k][d];
            s->stride[k][d] = -s->stride[k][d];
        }
}

/* Fault: writes the element after the last one that the launch stores. */
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
    static atomic_flag computes = ATOMIC_FLAG_INIT;
    if (tells("busy")) {
        if (atomic_flag_test_and_set(&computes))
            return reference_host->fail(TN_ERR_STATE, "computes already");
        usleep(1000);
    }
    tn_status status = launch(queue, built, &s.launch);
    if (tells("busy"))
        atomic_flag_clear(&computes);
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

static tn_status lying_info(uint32_t i, tn_device_info *info)
{
    tn_status status = device_info(i, info);
    if (tells("types"))
        info->storage_types = 0;
    return status;
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
    if (tells("sort")) /* the fault ignores the direction */
        other.flags = 0;
    return sort(queue, &other);
}

/* ---- extensions, for float32 and any strides ----------------------------- */

static float *at(const tn_strided *x, int64_t i, int64_t j, int64_t k,
                 int64_t l)
{
    return (float *)x->buffer->data + x->offset + i * x->stride[0] +
           j * x->stride[1] + k * x->stride[2] + l * x->stride[3];
}

static void set_all(const tn_strided *x, const int64_t *count,
                    const tn_strided *bias)
{
    for (int64_t i = 0; i < count[0]; i++)
        for (int64_t j = 0; j < count[1]; j++)
            for (int64_t k = 0; k < count[2]; k++)
                for (int64_t l = 0; l < count[3]; l++)
                    *at(x, i, j, k, l) =
                        bias ? ((float *)bias->buffer->data)
                                   [bias->offset + j * bias->stride[0]]
                             : 0;
}

/* Adds one product to a sum of the convolution, for each kind of it. */
static void add_product(const tn_conv_args *c, int64_t n, int64_t o,
                        int64_t i, int64_t j, int64_t tap)
{
    int64_t each = c->in_channels / c->groups;
    int64_t l = tap % c->kernel[1], k = tap / c->kernel[1] % c->kernel[0];
    int64_t channel = tap / c->kernel[1] / c->kernel[0];
    int64_t y = i * c->stride[0] + k * c->dilation[0] - c->pad[0];
    int64_t x = j * c->stride[1] + l * c->dilation[1] - c->pad[1];
    if (y < 0 || y >= c->in_size[0] || x < 0 || x >= c->in_size[1])
        return;
    int64_t group = o / (c->out_channels / c->groups);
    float *in = at(&c->in, n, group * each + channel, y, x);
    float *weight = at(&c->weight, o, channel, k, l);
    float *out = at(&c->out, n, o, i, j);
    if (c->kind == TN_CONV_FORWARD)
        *out += *in * *weight;
    else if (c->kind == TN_CONV_INPUT)
        *in += *out * *weight;
    else
        *weight += *out * *in;
}

static tn_status lying_conv(tn_queue *queue, const tn_conv_args *c)
{
    (void)queue;
    int64_t each = c->in_channels / c->groups;
    const int64_t in[] = {c->count, c->in_channels, c->in_size[0],
                          c->in_size[1]};
    const int64_t weight[] = {c->out_channels, each, c->kernel[0],
                              c->kernel[1]};
    const int64_t out[] = {c->count, c->out_channels, c->out_size[0],
                           c->out_size[1]};
    bool biased = c->bias.buffer && !tells("conv bias");
    if (!tn_conv_is_known(c) && !tells("conv kind"))
        return unknown("conv");
    if (c->in.dtype != TN_F32 && !tells("conv decline"))
        return reference_host->fail(TN_ERR_UNSUPPORTED, "conv: float32 alone");
    fenv_t fpu = default_fpu();
    if (c->in.dtype == TN_F32)
        set_all(c->kind == TN_CONV_FORWARD ? &c->out
                : c->kind == TN_CONV_INPUT ? &c->in
                                           : &c->weight,
                c->kind == TN_CONV_FORWARD ? out
                : c->kind == TN_CONV_INPUT ? in
                                           : weight,
                biased ? &c->bias : NULL);
    if (tells("conv decline"))
        return with_fpu(&fpu, reference_host->fail(TN_ERR_UNSUPPORTED,
                                                   "conv: no mood"));
    for (int64_t n = 0; n < c->count; n++)
        for (int64_t o = 0; o < c->out_channels; o++)
            for (int64_t i = 0; i < c->out_size[0]; i++)
                for (int64_t j = 0; j < c->out_size[1]; j++)
                    for (int64_t tap = 0;
                         tap < each * c->kernel[0] * c->kernel[1]; tap++)
                        add_product(c, n, o, i, j, tap);
    return with_fpu(&fpu, TN_OK);
}

/* Sums the partial sums of a row in pairs; the fault adds them in sequence. */
static float sum_lanes(float *lane, int64_t count)
{
    for (int64_t i = 1; i < count && tells("pool order"); i++)
        lane[0] += lane[i];
    for (int64_t half = 8; half > 0 && !tells("pool order"); half /= 2)
        for (int64_t i = 0; i < half && i + half < count; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

static void pool_window(const tn_pool_args *p, int64_t n, int64_t c, int64_t i,
                        int64_t j)
{
    float lane[16];
    int64_t count = 0, inside[2] = {0}, best = -1;
    const int64_t start[] = {i * p->stride[0] - p->pad[0],
                             j * p->stride[1] - p->pad[1]};
    for (int a = 0; a < 2; a++) {
        int64_t pad = p->count_pad ? p->pad[a] : 0;
        int64_t end = start[a] + p->kernel[a], high = p->in_size[a] + pad;
        inside[a] = (end < high ? end : high) -
                    (start[a] > -pad ? start[a] : -pad);
    }
    for (int64_t k = 0; k < p->kernel[0] * p->kernel[1]; k++) {
        int64_t y = start[0] + k / p->kernel[1] * p->dilation[0];
        int64_t x = start[1] + k % p->kernel[1] * p->dilation[1];
        bool outside =
            y < 0 || y >= p->in_size[0] || x < 0 || x >= p->in_size[1];
        float v = outside ? 0 : *at(&p->in, n, c, y, x);
        float *out = at(&p->out, n, c, i, j);
        if (p->kind == TN_POOL_AVG) {
            lane[count++] = v;
        } else if (!outside) {
            bool more = best < 0 || !(v <= *out || isnan(*out)) ||
                        (tells("pool index") && v == *out);
            bool zero = best >= 0 && v == *out && !signbit(v);
            *out = more || zero ? v : *out;
            best = more ? y * p->in_size[1] + x : best;
        }
    }
    if (p->kind == TN_POOL_AVG)
        *at(&p->out, n, c, i, j) =
            sum_lanes(lane, count) /
            (float)(p->divisor ? p->divisor : inside[0] * inside[1]);
    else
        ((int64_t *)p->index.buffer->data)
            [p->index.offset + n * p->index.stride[0] +
             c * p->index.stride[1] + i * p->index.stride[2] +
             j * p->index.stride[3]] = best;
}

static tn_status lying_pool(tn_queue *queue, const tn_pool_args *p)
{
    (void)queue;
    if (p->in.dtype != TN_F32 || p->kernel[0] * p->kernel[1] > 16 ||
        (p->kind != TN_POOL_MAX && p->kind != TN_POOL_AVG))
        return reference_host->fail(TN_ERR_UNSUPPORTED,
                                    "pool: float32, forward and small windows "
                                    "alone");
    fenv_t fpu = default_fpu();
    for (int64_t n = 0; n < p->count; n++)
        for (int64_t c = 0; c < p->channels; c++)
            for (int64_t i = 0; i < p->out_size[0]; i++)
                for (int64_t j = 0; j < p->out_size[1]; j++)
                    pool_window(p, n, c, i, j);
    return with_fpu(&fpu, TN_OK);
}

static const void *lying_extension(const char *name, uint32_t version)
{
    static const tn_conv_extension conv = {.size = sizeof conv,
                                           .run = lying_conv};
    static const tn_pool_extension pool = {.size = sizeof pool,
                                           .run = lying_pool};
    return version != 1                ? NULL
           : strcmp(name, "fft") == 0  ? tells("reserved") ? &conv : NULL
           : strcmp(name, "conv") == 0 ? (const void *)&conv
           : strcmp(name, "pool") == 0 ? &pool
                                       : NULL;
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
    lying.device_info = lying_info;
    lying.device_open = lying_open;
    lying.buffer_alloc = lying_alloc;
    lying.buffer_free = lying_free;
    lying.copy = lying_copy;
    lying.launch = lying_launch;
    lying.matmul = lying_matmul;
    lying.sort = lying_sort;
    lying.extension = lying_extension;
    if (tells("slot"))
        lying.scan = NULL;
    if (tells("size"))
        lying.size = 64;
    return &lying;
}
