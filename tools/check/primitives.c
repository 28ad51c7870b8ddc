/* primitives.c: see primitives.h. The definitions of plugin.h, written as
 * plainly as they can be and without regard to cost, over values by point. */
#include "primitives.h"

#include <fenv.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/halves.h"
#include "kernel/kernel.h"
#include "random_source.h"

enum {
    MOST = 4096,              /* points of an operand */
    ROOM = (2 * MOST + 8) * 8 /* bytes of its memory: every other element,
                               * and a margin */
};

static random_source source;
static const by_hand *device;
static char trouble[256]; /* a call that failed; "": none did */

/* ---- operands ----------------------------------------------------------- */

/* A strided operand, in host memory and in the plugin's; value[] are its
 * elements by point, in row-major order. */
typedef struct operand {
    tn_strided view;
    int64_t extent[TN_MAX_NDIM];
    int64_t count; /* of points */
    size_t bytes;
    unsigned char memory[ROOM];
    tn_number value[MOST];
} operand;

static int64_t offset_of(const operand *o, int64_t i)
{
    int64_t at = o->view.offset;
    for (uint32_t d = o->view.ndim; d-- > 0;) {
        at += i % o->extent[d] * o->view.stride[d];
        i /= o->extent[d];
    }
    return at;
}

static tn_number load(const operand *o, int64_t at)
{
    size_t size = random_dtype_bytes(o->view.dtype);
    const unsigned char *from = o->memory + (size_t)at * size;
    uint64_t bits = 0;
    for (size_t i = 0; i < size; i++)
        bits |= (uint64_t)from[i] << 8 * i;
    tn_number x = {.i = (int64_t)bits};
    float single;
    switch (o->view.dtype) {
    case TN_F32:
        memcpy(&single, from, size);
        x.f = (double)single;
        break;
    case TN_F64:
    case TN_I64:
        break;
    case TN_I32:
        x.i = (int32_t)bits;
        break;
    case TN_I16:
        x.i = (int16_t)bits;
        break;
    case TN_I8:
        x.i = (int8_t)bits;
        break;
    case TN_U8:
    case TN_BOOL:
        break;
    default:
        x.f = (double)tn__narrow_decode(o->view.dtype, (uint32_t)bits);
        break;
    }
    return x;
}

static bool is_float(const operand *o)
{
    return random_is_float(random_register_type(o->view.dtype));
}

static void store(operand *o, int64_t at, tn_number x)
{
    size_t size = random_dtype_bytes(o->view.dtype);
    unsigned char *to = o->memory + (size_t)at * size;
    float single = is_float(o) ? (float)x.f : 0;
    uint64_t bits = (uint64_t)x.i;
    if (o->view.dtype == TN_F32)
        memcpy(to, &single, size);
    else if (o->view.dtype == TN_F64)
        memcpy(to, &x.f, size);
    else {
        if (is_float(o))
            bits = tn__narrow_encode(o->view.dtype, single);
        for (size_t i = 0; i < size; i++)
            to[i] = (unsigned char)(bits >> 8 * i);
    }
}

/* Lays out and fills an operand: any order of dimensions, negative strides;
 * one that is read may repeat elements. */
static void operand_init(operand *o, tn_dtype dtype, uint32_t ndim,
                         const int64_t *extent, bool writes)
{
    o->view = (tn_strided){.dtype = dtype, .ndim = ndim};
    o->count = 1;
    int64_t step = random_between(&source, 1, 2), low = 0, high = 0;
    uint32_t first = random_below(&source, ndim);
    for (uint32_t i = 0; i < ndim; i++) {
        uint32_t d = (first + i) % ndim;
        int64_t stride = random_chance(&source, 20) ? -step : step;
        if (!writes && random_chance(&source, 15))
            stride = 0;
        o->extent[d] = extent[d];
        o->view.stride[d] = stride;
        o->count *= extent[d];
        int64_t reach = extent[d] ? (extent[d] - 1) * stride : 0;
        *(reach < 0 ? &low : &high) += reach;
        step *= extent[d] ? extent[d] : 1;
    }
    o->view.offset = 3 - low;
    o->bytes = (size_t)(high - low + 7) * random_dtype_bytes(dtype);
    memset(o->memory, 0x11, o->bytes);
    bool tame = random_chance(&source, 50);
    for (int64_t i = 0; i < o->count; i++) {
        tn_number x;
        if (is_float(o))
            x.f = random_float(&source, tame);
        else
            x.i = dtype == TN_BOOL ? random_below(&source, 2)
                                   : random_int(&source, tame);
        store(o, offset_of(o, i), x);
    }
    for (int64_t i = 0; i < o->count; i++)
        o->value[i] = load(o, offset_of(o, i));
}

/* Was the call well? The first that was not is kept. */
static bool went(tn_status status, const char *what)
{
    if (status != TN_OK && !*trouble)
        snprintf(trouble, sizeof trouble, "%s gives %d: %s", what, status,
                 by_hand_failure());
    return status == TN_OK;
}

/* The plugin's work is done with the rounding that its caller has chosen, the
 * plain definition's never is. */
static void enter(void)
{
    fesetround(device->rounding);
}

static void leave(void)
{
    if (fegetround() != device->rounding && !*trouble)
        snprintf(trouble, sizeof trouble, "changes its caller's rounding mode");
    fesetround(FE_TONEAREST);
}

/* Gives the plugin its copy. */
static void send(operand *o)
{
    if (went(device->plugin->buffer_alloc(device->device, o->bytes,
                                          &o->view.buffer),
             "buffer_alloc"))
        went(by_hand_copy(device, o->view.buffer, 0, o->memory, o->bytes, true),
             "a copy to the device");
}

static bool is_near(const operand *o, tn_number got, tn_number want,
                    double tolerance)
{
    if (!is_float(o))
        return got.i == want.i;
    if (isnan(got.f) || isnan(want.f))
        return isnan(got.f) && isnan(want.f);
    if (isinf(got.f) || isinf(want.f) || tolerance == 0)
        return got.f == want.f && signbit(got.f) == signbit(want.f);
    return fabs(got.f - want.f) <= tolerance;
}

/* Fetches what became of it; returns how many elements of the view differ
 * from value[] by more than `tolerance` (0: in bits, all NaNs equal), and one
 * more if anything else of its memory changed. */
static int64_t receive(operand *o, double tolerance)
{
    static unsigned char before[ROOM];
    memcpy(before, o->memory, o->bytes);
    bool here = o->view.buffer && went(by_hand_copy(device, o->view.buffer, 0,
                                                    o->memory, o->bytes, false),
                                       "a copy to the host");
    if (o->view.buffer)
        device->plugin->buffer_free(device->device, o->view.buffer);
    o->view.buffer = NULL;
    if (!here)
        return 1;
    int64_t different = 0;
    size_t size = random_dtype_bytes(o->view.dtype);
    for (int64_t i = 0; i < o->count; i++)
        different +=
            !is_near(o, load(o, offset_of(o, i)), o->value[i], tolerance);
    for (int64_t i = 0; i < o->count; i++) {
        size_t at = (size_t)offset_of(o, i) * size;
        memcpy(o->memory + at, before + at, size);
    }
    return different + (memcmp(o->memory, before, o->bytes) != 0);
}

/* value[i] as it would read back. */
static void settle(operand *o, int64_t i, tn_number x)
{
    static operand one;
    one.view.dtype = o->view.dtype;
    store(&one, 0, x);
    o->value[i] = load(&one, 0);
}

/* Of those that the device stores. */
static tn_dtype any_dtype(void)
{
    tn_dtype dtype;
    do
        dtype = 1 + random_below(&source, TN_DTYPE_END - 1);
    while (!(device->info.storage_types >> dtype & 1));
    return dtype;
}

static void any_extents(int64_t *extent, uint32_t ndim)
{
    int64_t room = random_chance(&source, 20) ? MOST : 200;
    for (uint32_t d = ndim; d-- > 0;) {
        extent[d] = random_between(&source, 1, d + 1 == ndim ? 60 : 6);
        if (extent[d] > room)
            extent[d] = 1;
        room /= extent[d];
    }
    if (random_chance(&source, 4))
        extent[random_below(&source, ndim)] = 0;
}

/* The fold of two elements, in the register type; kinds as REDUCE's. */
static tn_number fold(unsigned kind, tn_dtype dtype, tn_number x, tn_number y)
{
    static const uint8_t op[] = {TN_K_ADD, TN_K_MUL, TN_K_MAX, TN_K_MIN};
    tn_kernel_ins ins = {.op = op[kind],
                         .dtype = (uint8_t)random_register_type(dtype)};
    return tn__kernel_eval(&ins, x, y, (tn_number){.i = 0}, ins.dtype);
}

/* ---- the primitives ----------------------------------------------------- */

static operand a, b, c;

static int64_t check_scan(void)
{
    uint32_t ndim = 1 + random_below(&source, 3);
    int64_t extent[TN_MAX_NDIM];
    any_extents(extent, ndim);
    tn_dtype dtype = any_dtype();
    tn_scan_args args = {.size = sizeof args, .ndim = ndim};
    args.kind = random_below(&source, 4);
    bool extreme = args.kind >= TN_REDUCE_MAX;
    bool index = extreme && random_chance(&source, 60);
    operand_init(&a, dtype, ndim, extent, false);
    operand_init(&b, dtype, ndim, extent, true);
    operand_init(&c, TN_I64, ndim, extent, true);
    for (int64_t i = 0; i < a.count; i++) {
        int64_t k = i % extent[ndim - 1], best = i - k;
        tn_number sum = a.value[i - k];
        for (int64_t j = i - k + 1; j <= i; j++) {
            double x = a.value[j].f, y = a.value[best].f;
            sum = fold(args.kind, dtype, sum, a.value[j]);
            bool takes = !is_float(&a) ? (args.kind == TN_REDUCE_MAX
                                              ? a.value[j].i >= a.value[best].i
                                              : a.value[j].i <= a.value[best].i)
                         : isnan(x)    ? true
                         : isnan(y)
                             ? false
                             : (args.kind == TN_REDUCE_MAX ? x >= y : x <= y);
            best = takes ? j : best;
        }
        settle(&b, i, sum);
        if (index)
            c.value[i].i = best - (i - k);
    }
    send(&a), send(&b), send(&c);
    args.in = a.view;
    args.out = b.view;
    args.out_index = c.view;
    memcpy(args.extent, extent, sizeof extent);
    if (!index)
        args.out_index.buffer = NULL;
    enter();
    tn_status status = device->plugin->scan(device->queue, &args);
    leave();
    int64_t wrong = !went(status, "scan");
    return wrong + receive(&a, 0) + receive(&b, 0) + receive(&c, 0);
}

/* Must x stand before y where their positions do not decide? */
static bool precedes(const operand *o, tn_number x, tn_number y, bool falling)
{
    if (falling) {
        tn_number kept = x;
        x = y;
        y = kept;
    }
    if (!is_float(o))
        return x.i < y.i;
    return isnan(x.f) ? false : isnan(y.f) ? true : x.f < y.f;
}

static int64_t check_sort(void)
{
    uint32_t ndim = 1 + random_below(&source, 3);
    int64_t extent[TN_MAX_NDIM];
    any_extents(extent, ndim);
    int64_t row = extent[ndim - 1];
    tn_sort_args args = {.size = sizeof args, .ndim = ndim, .keep = row};
    bool falling = random_chance(&source, 50);
    args.flags = falling ? TN_SORT_DESCENDING : 0;
    memcpy(args.extent, extent, sizeof extent);
    operand_init(&a, any_dtype(), ndim, extent, false);
    if (random_chance(&source, 40) && row > 0)
        args.keep = extent[ndim - 1] = random_between(&source, 1, row);
    operand_init(&b, a.view.dtype, ndim, extent, true);
    operand_init(&c, TN_I64, ndim, extent, true);
    for (int64_t i = 0; i < a.count; i++) {
        int64_t k = i % row, first = i - k, rank = 0;
        for (int64_t j = first; j < first + row; j++)
            rank += precedes(&a, a.value[j], a.value[i], falling) ||
                    (j < i && !precedes(&a, a.value[i], a.value[j], falling));
        if (rank < args.keep) {
            int64_t to = first / row * args.keep + rank;
            b.value[to] = a.value[i];
            c.value[to].i = k;
        }
    }
    send(&a), send(&b), send(&c);
    args.in = a.view;
    args.out = b.view;
    args.out_index = c.view;
    enter();
    tn_status status = device->plugin->sort(device->queue, &args);
    leave();
    int64_t wrong = !went(status, "sort");
    return wrong + receive(&a, 0) + receive(&b, 0) + receive(&c, 0);
}

static int64_t check_scatter(void)
{
    uint32_t ndim = 1 + random_below(&source, 3);
    int64_t extent[TN_MAX_NDIM], dst_extent[TN_MAX_NDIM];
    any_extents(extent, ndim);
    tn_scatter_args args = {.size = sizeof args, .ndim = ndim, .tag = 5};
    args.dim = random_below(&source, ndim);
    args.reduce = random_below(&source, TN_SCATTER_END);
    args.dst_extent = random_between(&source, 1, 8);
    memcpy(args.extent, extent, sizeof extent);
    memcpy(dst_extent, extent, sizeof extent);
    dst_extent[args.dim] = args.dst_extent;
    tn_dtype dtype = any_dtype();
    operand_init(&a, dtype, ndim, extent, false);
    operand_init(&b, TN_I64, ndim, extent, false);
    operand_init(&c, dtype, ndim, dst_extent, true);
    bool faults = random_chance(&source, 10);
    int64_t fault_at = -1;
    for (int64_t i = 0; i < b.count; i++)
        if (!faults || random_chance(&source, 98))
            store(&b, offset_of(&b, i),
                  (tn_number){
                      .i = random_below(&source, (uint32_t)args.dst_extent)});
    int64_t inner = 1; /* points between two of dimension dim */
    for (uint32_t d = args.dim + 1; d < ndim; d++)
        inner *= extent[d];
    for (int64_t i = 0; i < a.count; i++) {
        static const uint8_t kind[] = {0, TN_REDUCE_SUM, TN_REDUCE_PROD,
                                       TN_REDUCE_MIN, TN_REDUCE_MAX};
        /* where b's strides repeat an element, the last one stored counts */
        int64_t index = load(&b, offset_of(&b, i)).i;
        b.value[i].i = index;
        if (index < 0 || index >= args.dst_extent) {
            fault_at = fault_at < 0 ? i : fault_at;
            continue;
        }
        int64_t outer = i / inner / extent[args.dim];
        int64_t to = (outer * args.dst_extent + index) * inner + i % inner;
        settle(&c, to,
               args.reduce == TN_SCATTER_SET
                   ? a.value[i]
                   : fold(kind[args.reduce], dtype, c.value[to], a.value[i]));
    }
    send(&a), send(&b), send(&c);
    args.src = a.view;
    args.index = b.view;
    args.dst = c.view;
    tn_fault fault = {.size = sizeof fault, .position = -1};
    enter();
    device->plugin->scatter(device->queue, &args);
    leave();
    tn_status status = device->plugin->queue_sync(device->queue, &fault);
    int64_t wrong = status != (fault_at < 0 ? TN_OK : TN_ERR_INDEX);
    if (fault_at >= 0)
        wrong += fault.position != fault_at || fault.tag != 5 ||
                 fault.index != b.value[fault_at].i ||
                 fault.extent != args.dst_extent;
    return wrong + receive(&a, 0) + receive(&b, 0) + receive(&c, 0);
}

static int64_t check_matmul(void)
{
    static const tn_dtype dtypes[] = {TN_F32,  TN_F32, TN_F64, TN_F16,
                                      TN_BF16, TN_I64, TN_I32, TN_I16,
                                      TN_I8,   TN_U8,  TN_BOOL};
    tn_dtype dtype;
    do
        dtype = dtypes[random_below(&source, 11)];
    while (!(device->info.storage_types >> dtype & 1));
    uint32_t batch_ndim = random_below(&source, 3), ndim = batch_ndim + 2;
    int64_t extent[TN_MAX_NDIM] = {0}, m = random_between(&source, 1, 20);
    int64_t n = random_between(&source, 1, 20), batches = 1;
    int64_t k = random_chance(&source, 5) ? 0 : random_between(&source, 1, 20);
    tn_matmul_args args = {.size = sizeof args,
                           .batch_ndim = batch_ndim,
                           .m = m,
                           .n = n,
                           .k = k,
                           .alpha = 1};
    if (random_chance(&source, 40))
        args.alpha = (double)random_between(&source, -2, 3);
    if (random_chance(&source, 40))
        args.beta = (double)random_between(&source, -2, 3);
    for (uint32_t d = 0; d < batch_ndim; d++)
        batches *= args.batch[d] = extent[d] =
            random_chance(&source, 5) ? 0 : random_between(&source, 1, 3);
    extent[batch_ndim] = m, extent[batch_ndim + 1] = k;
    operand_init(&a, dtype, ndim, extent, false);
    extent[batch_ndim] = k, extent[batch_ndim + 1] = n;
    operand_init(&b, dtype, ndim, extent, false);
    extent[batch_ndim] = m;
    operand_init(&c, dtype, ndim, extent, true);
    operand *all[] = {&a, &b, &c};
    for (int o = 0; o < 3 && is_float(&c); o++)
        for (int64_t i = 0; i < all[o]->count; i++) {
            /* sums are compared within rounding: nothing infinite */
            tn_number x = {.f = random_float(&source, true)};
            store(all[o], offset_of(all[o], i), x);
        }
    for (int o = 0; o < 3; o++)
        for (int64_t i = 0; i < all[o]->count; i++)
            all[o]->value[i] = load(all[o], offset_of(all[o], i));
    for (int64_t i = 0; i < batches * m * n; i++) {
        int64_t batch = i / (m * n), row = i / n % m, column = i % n;
        double sum = 0;
        uint64_t whole = 0;
        for (int64_t j = 0; j < k; j++) {
            tn_number x = a.value[(batch * m + row) * k + j];
            tn_number y = b.value[(batch * k + j) * n + column];
            if (is_float(&c))
                sum += x.f * y.f;
            else if (dtype == TN_BOOL)
                whole |= (uint64_t)(x.i & y.i);
            else
                whole += (uint64_t)x.i * (uint64_t)y.i;
        }
        tn_number old = c.value[i], x = {.i = 0};
        if (is_float(&c))
            x.f = args.alpha * sum + args.beta * old.f;
        else if (dtype == TN_BOOL)
            x.i = (args.alpha != 0 && whole) || (args.beta != 0 && old.i);
        else
            x.i = (int64_t)((uint64_t)(int64_t)args.alpha * whole +
                            (uint64_t)(int64_t)args.beta * (uint64_t)old.i);
        settle(&c, i, x);
    }
    send(&a), send(&b), send(&c);
    args.a = a.view;
    args.b = b.view;
    args.c = c.view;
    /* |result| <= 3 * 20 * 16 + 12 < 2^10: half a unit there for the store,
     * and as much for the sum in f32 (f64: in double) before it. */
    double tolerance = dtype == TN_F64    ? 0x1p-40
                       : dtype == TN_F32  ? 0x1p-10
                       : dtype == TN_F16  ? 0x1p-1
                       : dtype == TN_BF16 ? 0x1p2
                                          : 0;
    enter();
    tn_status status = device->plugin->matmul(device->queue, &args);
    leave();
    int64_t wrong = !went(status, "matmul");
    return wrong + receive(&a, 0) + receive(&b, 0) + receive(&c, tolerance);
}

/* ---- a case ------------------------------------------------------------- */

const char *const primitive_names[PRIMITIVE_COUNT] = {"scan", "sort", "scatter",
                                                      "matmul"};

bool primitive_case(const by_hand *h, int primitive, uint64_t seed, char *why,
                    size_t room)
{
    static int64_t (*const checks[])(void) = {check_scan, check_sort,
                                              check_scatter, check_matmul};
    device = h;
    source.state = seed;
    trouble[0] = 0;
    by_hand_forget();
    int64_t different = checks[primitive]();
    if (different == 0 && !*trouble)
        return true;
    if (*trouble)
        snprintf(why, room, "%s", trouble);
    else
        snprintf(why, room,
                 "%" PRId64 " elements, statuses or bytes are not as the plain "
                 "definition has them, dtype %u, %u dimensions",
                 different, c.view.dtype, c.view.ndim);
    return false;
}
