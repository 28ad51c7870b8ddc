/* operand.c: makes random strided operands, copies them to the device and back,
 * and compares them with the expected values. */
#include "operand.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernel/narrow_float.h"

operand_case now;

void operand_case_begin(const by_hand *device, uint64_t seed)
{
    now.device = device;
    now.source.state = seed;
    now.trouble[0] = now.what[0] = now.wrong[0] = 0;
    by_hand_forget();
}

static const char *name_of(const operand *o)
{
    return o->name ? o->name : "an operand";
}

/* ---- elements ----------------------------------------------------------- */

int64_t operand_offset(const operand *o, int64_t i)
{
    int64_t at = o->view.offset;
    for (uint32_t d = o->view.ndim; d-- > 0;) {
        at += i % o->extent[d] * o->view.stride[d];
        i /= o->extent[d];
    }
    return at;
}

static bool is_float_type(tn_dtype dtype)
{
    return random_is_float(random_register_type(dtype));
}

bool operand_is_float(const operand *o)
{
    return is_float_type(o->view.dtype);
}

static tn_number decode(tn_dtype dtype, const unsigned char *from)
{
    size_t size = random_dtype_bytes(dtype);
    uint64_t bits = 0;
    for (size_t i = 0; i < size; i++)
        bits |= (uint64_t)from[i] << 8 * i;
    tn_number x = {.i = (int64_t)bits};
    float single;
    switch (dtype) {
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
        x.f = (double)tn__narrow_decode(dtype, (uint32_t)bits);
        break;
    }
    return x;
}

static void encode(tn_dtype dtype, tn_number x, unsigned char *to)
{
    size_t size = random_dtype_bytes(dtype);
    float single = is_float_type(dtype) ? (float)x.f : 0;
    uint64_t bits = (uint64_t)x.i;
    if (dtype == TN_F32) {
        memcpy(to, &single, size);
    } else if (dtype == TN_F64) {
        memcpy(to, &x.f, size);
    } else {
        if (is_float_type(dtype))
            bits = tn__narrow_encode(dtype, single);
        for (size_t i = 0; i < size; i++)
            to[i] = (unsigned char)(bits >> 8 * i);
    }
}

tn_number operand_load(const operand *o, int64_t at)
{
    return decode(o->view.dtype,
                  o->memory + (size_t)at * random_dtype_bytes(o->view.dtype));
}

void operand_store(operand *o, int64_t at, tn_number x)
{
    encode(o->view.dtype, x,
           o->memory + (size_t)at * random_dtype_bytes(o->view.dtype));
}

tn_number operand_rounded(tn_dtype dtype, tn_number x)
{
    unsigned char bytes[8];
    encode(dtype, x, bytes);
    return decode(dtype, bytes);
}

tn_number operand_eval(uint8_t op, tn_dtype dtype, tn_number x, tn_number y)
{
    tn_kernel_ins ins = {.op = op,
                         .dtype = (uint8_t)random_register_type(dtype)};
    return tn__kernel_eval(&ins, x, y, (tn_number){.i = 0}, ins.dtype);
}

tn_number operand_fold(unsigned kind, tn_dtype dtype, tn_number x, tn_number y)
{
    static const uint8_t op[] = {TN_K_ADD, TN_K_MUL, TN_K_MAX, TN_K_MIN};
    return operand_eval(op[kind], dtype, x, y);
}

/* ---- making ------------------------------------------------------------- */

tn_dtype operand_any_dtype(void)
{
    tn_dtype dtype;
    do
        dtype = 1 + random_below(&now.source, TN_DTYPE_END - 1);
    while (!(now.device->info.storage_types >> dtype & 1));
    return dtype;
}

void operand_read(operand *o)
{
    for (int64_t i = 0; i < o->count; i++)
        o->value[i] = operand_load(o, operand_offset(o, i));
}

void operand_fill(operand *o, bool tame)
{
    for (int64_t i = 0; i < o->count; i++) {
        tn_number x;
        if (operand_is_float(o))
            x.f = random_float(&now.source, tame);
        else
            x.i = o->view.dtype == TN_BOOL ? random_below(&now.source, 2)
                                           : random_int(&now.source, tame);
        operand_store(o, operand_offset(o, i), x);
    }
    operand_read(o);
}

static void init(operand *o, tn_dtype dtype, uint32_t ndim,
                 const int64_t *extent)
{
    o->view = (tn_strided){.dtype = dtype, .ndim = ndim};
    o->count = 1;
    for (uint32_t d = 0; d < ndim; d++)
        o->count *= o->extent[d] = extent[d];
    memset(o->tolerance, 0, (size_t)o->count * sizeof o->tolerance[0]);
}

/* Sets up the memory of an operand with margins on both sides, and fills it.
 * low and high are the smallest and the largest offset of an element, relative
 * to the first one. */
static void init_memory(operand *o, int64_t low, int64_t high, bool tame)
{
    o->view.offset = OPERAND_BEFORE - low;
    o->bytes = (size_t)(OPERAND_BEFORE + high - low + 1 + OPERAND_BEHIND) *
               random_dtype_bytes(o->view.dtype);
    memset(o->memory, 0x11, o->bytes);
    operand_fill(o, tame);
}

void operand_init(operand *o, tn_dtype dtype, uint32_t ndim,
                  const int64_t *extent, bool writes)
{
    init(o, dtype, ndim, extent);
    int64_t step = random_between(&now.source, 1, 2), low = 0, high = 0;
    uint32_t first = random_below(&now.source, ndim);
    for (uint32_t i = 0; i < ndim; i++) {
        uint32_t d = (first + i) % ndim;
        int64_t stride = random_chance(&now.source, 20) ? -step : step;
        if (!writes && random_chance(&now.source, 15))
            stride = 0;
        o->view.stride[d] = stride;
        int64_t reach = extent[d] ? (extent[d] - 1) * stride : 0;
        *(reach < 0 ? &low : &high) += reach;
        step *= extent[d] ? extent[d] : 1;
    }
    init_memory(o, low, high, random_chance(&now.source, 50));
}

void operand_init_dense(operand *o, tn_dtype dtype, uint32_t ndim,
                        const int64_t *extent)
{
    init(o, dtype, ndim, extent);
    int64_t step = 1;
    for (uint32_t d = ndim; d-- > 0;) {
        o->view.stride[d] = step;
        step *= extent[d];
    }
    init_memory(o, 0, o->count ? o->count - 1 : 0,
                random_chance(&now.source, 50));
}

/* ---- the plugin's ------------------------------------------------------- */

void operand_words(const char *call, const char *argument, int64_t value,
                   const operand *of)
{
    int length = snprintf(now.what, sizeof now.what,
                          "%s with %s %" PRId64 ", %s %s (", call, argument,
                          value, name_of(of),
                          random_dtype_name(of->view.dtype));
    for (uint32_t d = 0; d < of->view.ndim; d++)
        length += snprintf(now.what + length,
                           sizeof now.what - (size_t)length, "%s%" PRId64,
                           d ? ", " : "", of->extent[d]);
    snprintf(now.what + length, sizeof now.what - (size_t)length, ")");
}

bool operand_succeeded(tn_status status, const char *what)
{
    if (status != TN_OK && !*now.trouble)
        snprintf(now.trouble, sizeof now.trouble, "%s returns %d: %s", what,
                 status, by_hand_failure());
    return status == TN_OK;
}

void operand_enter(void)
{
    by_hand_fpu(now.device->is_hostile);
    now.fpu = by_hand_fpu_bits();
}

void operand_leave(void)
{
    if (by_hand_fpu_bits() != now.fpu && !*now.trouble)
        snprintf(now.trouble, sizeof now.trouble,
                 "changes its caller's floating-point state");
    by_hand_fpu(false);
}

void operand_send(operand *o)
{
    const tn_plugin *plugin = now.device->plugin;
    if (operand_succeeded(
            plugin->buffer_alloc(now.device->device, o->bytes, &o->view.buffer),
            "buffer_alloc"))
        operand_succeeded(by_hand_copy(now.device, o->view.buffer, 0, o->memory,
                                       o->bytes, true),
                          "a copy to the device");
}

static bool is_near(const operand *o, tn_number got, int64_t i)
{
    tn_number want = o->value[i];
    double tolerance = o->tolerance[i];
    if (!operand_is_float(o))
        return got.i == want.i;
    if (isnan(got.f) || isnan(want.f))
        return isnan(got.f) && isnan(want.f);
    if (isinf(got.f) || isinf(want.f) || tolerance == 0)
        return got.f == want.f && signbit(got.f) == signbit(want.f);
    return fabs(got.f - want.f) <= tolerance;
}

static void note_wrong(const operand *o, int64_t i, tn_number got)
{
    if (*now.wrong)
        return;
    if (operand_is_float(o))
        snprintf(now.wrong, sizeof now.wrong,
                 "element %" PRId64 " of %s is %.17g, not %.17g", i, name_of(o),
                 got.f, o->value[i].f);
    else
        snprintf(now.wrong, sizeof now.wrong,
                 "element %" PRId64 " of %s is %" PRId64 ", not %" PRId64, i,
                 name_of(o), got.i, o->value[i].i);
}

int64_t operand_receive(operand *o)
{
    static unsigned char before[OPERAND_ROOM];
    memcpy(before, o->memory, o->bytes);
    bool here = o->view.buffer &&
                operand_succeeded(by_hand_copy(now.device, o->view.buffer, 0,
                                               o->memory, o->bytes, false),
                                  "a copy to the host");
    if (o->view.buffer)
        now.device->plugin->buffer_free(now.device->device, o->view.buffer);
    o->view.buffer = NULL;
    if (!here)
        return 1;
    int64_t different = 0;
    size_t size = random_dtype_bytes(o->view.dtype);
    for (int64_t i = 0; i < o->count; i++) {
        tn_number got = operand_load(o, operand_offset(o, i));
        if (is_near(o, got, i))
            continue;
        different++;
        note_wrong(o, i, got);
    }
    for (int64_t i = 0; i < o->count; i++) {
        size_t at = (size_t)operand_offset(o, i) * size;
        memcpy(o->memory + at, before + at, size);
    }
    bool beside = memcmp(o->memory, before, o->bytes) != 0;
    if (beside && !*now.wrong)
        snprintf(now.wrong, sizeof now.wrong,
                 "memory of %s beside its elements has changed", name_of(o));
    return different + beside;
}
