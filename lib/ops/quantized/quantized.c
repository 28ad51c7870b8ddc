/* quantized.c: operators on block-quantised weights: dequantisation and linear
 * layers.
 *
 * Both run on the device if it has the extension "quantised-product". If it
 * lacks the extension and the CPU can access its memory, blocks.c computes
 * bit-identical results. */
#include <base/memory.h>
#include <base/thread.h>
#include <device/recorder.h>
#include <device/work.h>
#include <ops/engine/native.h>
#include <kernel/blocks.h>

/* Returns the argument `format` of a call, whose name the table has checked. */
static const tn__block_format *format_of(const tn__call *call, int i)
{
    return tn__block_format_find(call->value[i].of.string);
}

/* Checks that each row of w consists of whole blocks. `which` is the name of
 * w. */
static tn_status check_blocks(const char *name, const char *which,
                              const tn_tensor *w,
                              const tn__block_format *format)
{
    char text[TN__SHAPE_TEXT];
    if (w->dtype != TN_U8)
        return tn__fail(TN_ERR_DTYPE, "%s: {%s} is %s; expected uint8, the "
                        "bytes of blocks", name, which,
                        tn_dtype_name(w->dtype));
    if (w->ndim < 1 || w->shape[w->ndim - 1] % format->bytes)
        return tn__fail(TN_ERR_SHAPE, "%s: {%s} has shape %s; its rows must "
                        "consist of whole %s blocks of %d bytes",
                        name, which,
                        tn__shape_text(text, w->ndim, w->shape), format->name,
                        format->bytes);
    return TN_OK;
}

/* Waits for the device of x, whose memory the CPU will read. It is an error
 * while the device's work is being recorded, because work of the CPU cannot be
 * recorded. */
static tn_status sync(const char *name, const tn_tensor *x)
{
    tn_device *device = x->storage->device;
    tn_status status = tn__record_refuse_host(device, name);
    return status || device->synchronous ? status
                                         : tn_device_synchronize(device);
}

/* Describes rows of x, which are `step` elements apart, for a plugin's call. */
static tn_strided rows_of(const tn_tensor *x, int64_t step)
{
    return (tn_strided){.buffer = tn__tensor_buffer(x),
                        .offset = tn__tensor_buffer_offset(x),
                        .dtype = x->dtype, .ndim = 2, .stride = {step, 1}};
}

/* ---- dequantize_blocks --------------------------------------------------- */

enum { TASK_BYTES = 1 << 16 }; /* bytes of blocks that one task processes */

typedef struct unpacking {
    const tn__block_format *format;
    const uint8_t *blocks;
    float *out;
    int64_t count, each; /* number of all blocks, and number of blocks of each
                            task */
} unpacking;

static void unpack_task(void *context, int64_t i)
{
    const unpacking *u = context;
    const int64_t first = i * u->each;
    const int64_t rest = u->count - first;
    tn__blocks_dequantize(u->format, u->blocks + first * u->format->bytes,
                          rest < u->each ? rest : u->each,
                          u->out + first * u->format->elements);
}

/* Dequantises w into out. */
static tn_status dequantize(const char *name, const tn_tensor *w,
                            const tn__block_format *format, tn_tensor *out)
{
    tn_device *device = w->storage->device;
    const int64_t bytes = w->shape[w->ndim - 1];
    const int64_t k = out->shape[out->ndim - 1];
    tn_quantised_product_args args = {
        .size = sizeof args, .format = format->code, .n = w->numel / bytes,
        .k = k, .b = rows_of(w, bytes), .c = rows_of(out, k)};
    tn_status status;
    if (!device->host_visible) {
        status = tn__device_work(device, TN__WORK_QUANTISED_PRODUCT, &args,
                                 name, NULL, NULL);
        return status != TN_ERR_UNSUPPORTED
                   ? status
                   : tn__fail(TN_ERR_UNSUPPORTED, "%s: {input} is on %s, "
                              "which cannot unpack %s blocks; dequantise it on "
                              "cpu and move the result with tn_to", name,
                              device->name, format->name);
    }
    status = sync(name, w);
    if (status < 0)
        return status;
    unpacking u = {format, tn__tensor_host(w), tn__tensor_host(out),
                   out->numel / format->elements, TASK_BYTES / format->bytes};
    tn__parallel_for((u.count + u.each - 1) / u.each, unpack_task, &u);
    return TN_OK;
}

tn_status tn__run_dequantize_blocks(tn__call *call)
{
    const char *name = tn__op_outer("dequantize_blocks");
    tn_tensor *w = tn__call_tensor(call, TN__ARG_DEQUANTIZE_BLOCKS_INPUT);
    const tn__block_format *format =
        format_of(call, TN__ARG_DEQUANTIZE_BLOCKS_FORMAT);
    const tn_dtype dtype =
        tn__call_has(call, TN__ARG_DEQUANTIZE_BLOCKS_DTYPE)
            ? (tn_dtype)tn__call_int(call, TN__ARG_DEQUANTIZE_BLOCKS_DTYPE)
            : TN_F32;
    tn_status status = check_blocks(name, "input", w, format);
    if (status < 0)
        return status;
    if (dtype != TN_F32 && dtype != TN_F16 && dtype != TN_BF16)
        return tn__fail(TN_ERR_DTYPE, "%s: {dtype} is %s; expected float32, "
                        "float16 or bfloat16", name, tn_dtype_name(dtype));
    tn__shape shape = tn__shape_of(w);
    int64_t *last = &shape.dim[shape.ndim - 1];
    if (__builtin_mul_overflow(*last / format->bytes, format->elements, last))
        return tn__fail(TN_ERR_SHAPE, "%s: {input} is too large to unpack",
                        name);
    tn_scope *scope = tn_scope_open();
    w = scope ? tn_contiguous(w) : NULL;
    tn_tensor *out = w ? tn__scope_own(tn__tensor_new(
                             w->storage->device, TN_F32, shape.ndim, shape.dim,
                             name))
                       : NULL;
    if (out && out->numel && dequantize(name, w, format, out) < 0)
        out = NULL;
    if (out && dtype != TN_F32)
        out = tn_to_dtype(out, dtype);
    status = tn__give(call, out ? tn__ref(out) : NULL);
    tn_scope_close(scope);
    return status;
}

/* ---- the product on the CPU ---------------------------------------------- */

enum {
    TASK_ROWS = 16 /* rows of the weight that one task processes */
};

typedef struct product {
    const tn__block_format *format;
    const float *x;
    const uint8_t *w;
    float *out;
    int64_t m, n, k, row_bytes;
    int8_t *r; /* the rounded input */
    float *s;
} product;

static tn__rounded_row rounded_at(const product *p, int64_t i)
{
    return (tn__rounded_row){p->r + i * p->k,
                             p->s + i * (p->k / p->format->elements)};
}

static void round_task(void *context, int64_t i)
{
    const product *p = context;
    tn__rounded_row row = rounded_at(p, i);
    tn__row_round(p->format, p->x + i * p->k, p->k, &row);
}

static void product_task(void *context, int64_t task)
{
    const product *p = context;
    const int64_t first = task * TASK_ROWS;
    const int64_t end = first + TASK_ROWS < p->n ? first + TASK_ROWS : p->n;
    for (int64_t i = 0; i < p->m; i++) {
        tn__rounded_row row = rounded_at(p, i);
        for (int64_t j = first; j < end; j++)
            p->out[i * p->n + j] = tn__row_product(
                p->format, p->w + j * p->row_bytes, &row, p->k);
    }
}

static tn_status on_cpu(product *p)
{
    const size_t blocks = (size_t)(p->k / p->format->elements);
    p->s = tn__alloc((size_t)p->m * blocks * sizeof *p->s + 1);
    p->r = tn__alloc((size_t)p->m * (size_t)p->k + 1);
    tn_status status = p->s && p->r ? TN_OK : TN_ERR_MEMORY;
    if (status == TN_OK) {
        tn__parallel_for(p->m, round_task, p);
        tn__parallel_for((p->n + TASK_ROWS - 1) / TASK_ROWS, product_task, p);
    }
    tn__free(p->s);
    tn__free(p->r);
    return status;
}

/* ---- quantized_product --------------------------------------------------- */

static tn_status check_product(const char *name, const tn_tensor *x,
                               const tn_tensor *w,
                               const tn__block_format *format)
{
    char first[TN__SHAPE_TEXT], second[TN__SHAPE_TEXT];
    tn_status status = check_blocks(name, "weight", w, format);
    if (status < 0)
        return status;
    if (w->ndim != 2 || x->ndim < 1 ||
        x->shape[x->ndim - 1] % format->elements ||
        x->shape[x->ndim - 1] / format->elements !=
            w->shape[1] / format->bytes)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} %s and {weight} %s do not "
                        "fit; expected (..., I) and (O, I / %d * %d), the "
                        "bytes of %s", name,
                        tn__shape_text(first, x->ndim, x->shape),
                        tn__shape_text(second, w->ndim, w->shape),
                        format->elements, format->bytes, format->name);
    return TN_OK;
}

static tn_status run_product(const char *name, const tn_tensor *x,
                             const tn_tensor *w,
                             const tn__block_format *format, tn_tensor *out)
{
    tn_device *device = x->storage->device;
    const int64_t n = w->shape[0], k = x->shape[x->ndim - 1];
    tn_quantised_product_args args = {
        .size = sizeof args, .format = format->code, .m = out->numel / n,
        .n = n, .k = k, .a = rows_of(x, k), .b = rows_of(w, w->shape[1]),
        .c = rows_of(out, n)};
    tn_status status = tn__device_work(device, TN__WORK_QUANTISED_PRODUCT,
                                       &args, name, NULL, NULL);
    if (status != TN_ERR_UNSUPPORTED)
        return status;
    if (!device->host_visible)
        return tn__fail(TN_ERR_UNSUPPORTED, "%s: {weight} is on %s, which has "
                        "no product of %s blocks; dequantise it on cpu "
                        "(tn_dequantize_blocks), move the result with tn_to "
                        "and call tn_linear", name, device->name,
                        format->name);
    status = sync(name, x);
    product p = {.format = format, .x = tn__tensor_host(x),
                 .w = tn__tensor_host(w), .out = tn__tensor_host(out),
                 .m = args.m, .n = n, .k = k, .row_bytes = w->shape[1]};
    return status < 0 ? status : on_cpu(&p);
}

tn_status tn__run_quantized_product(tn__call *call)
{
    const char *name = tn__op_outer("quantized_product");
    tn_tensor *x = tn__call_tensor(call, TN__ARG_QUANTIZED_PRODUCT_INPUT);
    tn_tensor *w = tn__call_tensor(call, TN__ARG_QUANTIZED_PRODUCT_WEIGHT);
    const tn__block_format *format =
        format_of(call, TN__ARG_QUANTIZED_PRODUCT_FORMAT);
    if (!format)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {format} is unknown; call "
                        "quantized_linear", name);
    tn_status status = check_product(name, x, w, format);
    if (status < 0)
        return status;
    if (x->dtype != TN_F32)
        return tn__fail(TN_ERR_DTYPE, "%s: {input} is %s; expected float32",
                        name, tn_dtype_name(x->dtype));
    tn__shape shape = tn__shape_of(x);
    shape.dim[shape.ndim - 1] = w->shape[0];
    tn_scope *scope = tn_scope_open();
    x = scope ? tn_contiguous(x) : NULL;
    w = tn_contiguous(w);
    tn_tensor *out = w ? tn__tensor_new(x->storage->device, TN_F32, shape.ndim,
                                        shape.dim, name)
                       : NULL;
    status = out ? TN_OK : tn_error_code();
    if (out && out->numel && !x->numel)
        status = tn__fill(out, 0, name);
    else if (out && out->numel)
        status = run_product(name, x, w, format, out);
    tn_scope_close(scope);
    if (status < 0) {
        tn__unref(out);
        return status;
    }
    return tn__give(call, out);
}

/* ---- quantized_linear ---------------------------------------------------- */

/* Number of elements of a weight that are dequantised at a time: 32 MiB of
 * float32. */
enum { TILE_ELEMENTS = 1 << 23 };

static tn_tensor *tile(tn_tensor *x, tn_tensor *w, const char *format,
                       int64_t first, int64_t rows)
{
    tn_tensor *some = tn_narrow(w, 0, first, rows);
    return tn_linear(x, tn_dequantize_blocks(some, format), NULL);
}

/* Multiplies in floating point: dequantises some rows of the weight at a
 * time. */
static tn_tensor *exact(tn_tensor *x, tn_tensor *w, const char *format)
{
    const int64_t n = w->shape[0], k = x->shape[x->ndim - 1];
    const int64_t rows = k < TILE_ELEMENTS ? TILE_ELEMENTS / (k ? k : 1) : 1;
    const int64_t count = (n + rows - 1) / rows;
    if (count <= 1)
        return tile(x, w, format, 0, n);
    tn_tensor **part = tn__calloc((size_t)count, sizeof *part), *y = NULL;
    if (!part)
        return NULL;
    for (int64_t i = 0; i < count; i++)
        part[i] = tile(x, w, format, i * rows,
                       i + 1 < count ? rows : n - i * rows);
    if (!tn__error_pending())
        y = tn_cat(part, (int)count, -1);
    tn__free(part);
    return y;
}

/* Reports an error if x, the input, requires a gradient. The product rounds x
 * to integers, so it has no gradient with respect to x. */
static tn_status check_gradient(const char *name, const tn_tensor *x)
{
    if (!tn__hooks.recording || !tn__hooks.recording() ||
        !tn__tensor_tracks(x))
        return TN_OK;
    return tn__fail(TN_ERR_UNSUPPORTED, "%s: {input} requires a gradient, but "
                    "integer products have none; give .exact = true, or call "
                    "it under TN_NO_GRAD", name);
}

tn_status tn__run_quantized_linear(tn__call *call)
{
    static const char name[] = "quantized_linear";
    tn_tensor *x = tn__call_tensor(call, TN__ARG_QUANTIZED_LINEAR_INPUT);
    tn_tensor *w = tn__call_tensor(call, TN__ARG_QUANTIZED_LINEAR_WEIGHT);
    tn_tensor *b = tn__call_tensor(call, TN__ARG_QUANTIZED_LINEAR_BIAS);
    const tn_value *named = &call->value[TN__ARG_QUANTIZED_LINEAR_FORMAT];
    const tn_dtype dtype = x->dtype;
    char text[TN__SHAPE_TEXT];
    tn_status status = check_product(name, x, w,
                                     tn__block_format_find(named->of.string));
    if (status < 0)
        return status;
    if (dtype != TN_F32 && dtype != TN_F16 && dtype != TN_BF16)
        return tn__fail(TN_ERR_DTYPE, "%s: {input} is %s; convert it to "
                        "float32, float16 or bfloat16 with tn_to_dtype", name,
                        tn_dtype_name(dtype));
    if (b && (b->ndim != 1 || b->shape[0] != w->shape[0]))
        return tn__fail(TN_ERR_SHAPE, "%s: {bias} has shape %s; expected "
                        "(%lld,), one number for each row of {weight}", name,
                        tn__shape_text(text, b->ndim, b->shape),
                        (long long)w->shape[0]);
    if (b && b->dtype != dtype && b->dtype != TN_F32)
        return tn__fail(TN_ERR_DTYPE, "%s: {bias} is %s; expected float32, or "
                        "%s as {input}", name, tn_dtype_name(b->dtype),
                        tn_dtype_name(dtype));
    if (dtype != TN_F32)
        x = tn_to_dtype(x, TN_F32);
    if (!x)
        return tn_error_code();
    const bool is_exact = tn__call_int(call, TN__ARG_QUANTIZED_LINEAR_EXACT);
    if (!is_exact && check_gradient(name, x) < 0)
        return TN_ERR_UNSUPPORTED;
    const tn_value value[] = {tn__value_tensor(x), tn__value_tensor(w), *named};
    tn_tensor *y = is_exact
                       ? exact(x, w, named->of.string)
                       : tn__row(TN__OP_ID_QUANTIZED_PRODUCT, value, 3);
    if (b)
        y = tn_add(y, b->dtype == TN_F32 ? b : tn_to_dtype(b, TN_F32));
    return tn__give(call, dtype == TN_F32 ? y : tn_to_dtype(y, dtype));
}
