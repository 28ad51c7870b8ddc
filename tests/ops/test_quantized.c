/* test_quantized.c: tests weights in the block formats of GGUF files. Compares
 * the bits of dequantised weights with gguf-py's, and products with loops of
 * this file. */
#include <tap.h>
#include <tenon/tenon.h>

static const struct {
    const char *name;
    int elements, bytes;
} formats[] = {{"Q8_0", 32, 34},   {"Q4_0", 32, 18},   {"Q4_1", 32, 20},
               {"Q5_0", 32, 22},   {"Q5_1", 32, 24},   {"Q4_K", 256, 144},
               {"Q5_K", 256, 176}, {"Q6_K", 256, 210}};
enum { FORMATS = sizeof formats / sizeof *formats };

static tn_safetensors *blocks;

static uint64_t seed = 88172645463325252u;
static uint32_t draw(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (uint32_t)(seed >> 32);
}
static float number(void)
{
    return (float)((int32_t)draw() / 0x1p31);
}

/* ---- dequantisation ------------------------------------------------------ */

static void check_bits(int f)
{
    char raw[16], name[16];
    snprintf(raw, sizeof raw, "%s.raw", formats[f].name);
    snprintf(name, sizeof name, "%s.f32", formats[f].name);
    tn_tensor *x = tn_dequantize_blocks(tn_safetensors_tensor(blocks, raw),
                                        formats[f].name);
    tn_tensor *want = tn_safetensors_tensor(blocks, name);
    const int64_t count = tn_tensor_numel(want);
    ok(x && count == 8 * formats[f].elements && tn_tensor_numel(x) == count &&
           memcmp(tn_tensor_data(x), tn_tensor_data(want),
                  (size_t)count * sizeof(float)) == 0,
       "%s has gguf-py's bits: %s", formats[f].name,
       tn_error() ? tn_error() : "");
    for (int half = 0; half < 2; half++) {
        const tn_dtype dtype = half ? TN_F16 : TN_BF16;
        tn_tensor *y = tn_dequantize_blocks(tn_safetensors_tensor(blocks, raw),
                                            formats[f].name, .dtype = dtype);
        tn_tensor *z = tn_to_dtype(want, dtype);
        ok(y && memcmp(tn_tensor_data(y), tn_tensor_data(z),
                       (size_t)count * 2) == 0,
           "%s is rounded once to %s", formats[f].name, tn_dtype_name(dtype));
    }
}

/* ---- products ------------------------------------------------------------ */

/* Makes n rows of `count` blocks. Each block has random bytes, except for the
 * bytes of its scales, which are those of a real block. */
static tn_tensor *weight_of(int f, int64_t n, int64_t count)
{
    char raw[16];
    snprintf(raw, sizeof raw, "%s.raw", formats[f].name);
    tn_tensor *source = tn_safetensors_tensor(blocks, raw);
    const unsigned char *from = tn_tensor_data(source);
    const int bytes = formats[f].bytes;
    const bool small = formats[f].elements == 32;
    const bool min = strchr(formats[f].name, '1') || !small;
    unsigned char *data = malloc((size_t)(n * count * bytes));
    for (int64_t i = 0; i < n * count; i++) {
        unsigned char *at = data + i * bytes;
        const int first = strcmp(formats[f].name, "Q6_K") == 0 ? 0 : min ? 4 : 2;
        const int end = first ? bytes : bytes - 2;
        memcpy(at, from + (draw() & 7) * (unsigned)bytes, (size_t)bytes);
        for (int k = first; k < end; k++)
            at[k] = (unsigned char)draw();
    }
    tn_tensor *w =
        tn_tensor_from_array(data, TN_U8, tn_dims(n, count * bytes));
    free(data);
    return w;
}

static tn_tensor *input_of(int64_t m, int64_t k)
{
    float *data = malloc((size_t)(m * k) * sizeof *data);
    for (int64_t i = 0; i < m * k; i++)
        data[i] = number() * (i % 97 == 0 ? 5 : 1);
    tn_tensor *x = tn_tensor_from_array(data, TN_F32, tn_dims(m, k));
    free(data);
    return x;
}

/* Rounds a block of input to integers, and returns its scale: the definition in
 * plugin_extensions.h. */
static float round_block(const float *x, int count, int *r)
{
    float most = 0;
    for (int i = 0; i < count; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    const float by = most < 0x1p-100f ? 0x1p100f : 1;
    for (int i = 0; i < count; i++) {
        volatile float scaled = x[i] * by;
        volatile float inverse = 127 / (most * by);
        r[i] = most != 0 ? (int)lrintf(scaled * inverse) : 0;
    }
    return most / 127;
}

static double cosine(const float *a, const float *b, int64_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* Returns a float16 number that is not subnormal, infinite or NaN. */
static float half_at(const unsigned char *bytes)
{
    const int bits = bytes[0] | bytes[1] << 8, exponent = bits >> 10 & 31;
    if (!exponent)
        return 0;
    const double size = ldexp(1 + (bits & 1023) / 1024.0, exponent - 15);
    return (float)(bits >> 15 ? -size : size);
}

/* Checks every bit of a product against the definition in plugin_extensions.h,
 * for formats whose block has one part. */
static void check_definition(int f)
{
    if (formats[f].elements != 32)
        return;
    tn_scope *scope = tn_scope_open();
    const int64_t n = 7, count = 5, k = count * 32;
    tn_tensor *w = weight_of(f, n, count), *x = input_of(1, k);
    tn_tensor *y = tn_quantized_linear(x, w, formats[f].name, NULL);
    const float *in = tn_tensor_data(x);
    const unsigned char *at = tn_tensor_data(w);
    tn_tensor *plain = tn_dequantize_blocks(w, formats[f].name);
    const float *numbers = tn_tensor_data(plain);
    const bool min = strchr(formats[f].name, '1') != NULL;
    bool right = y != NULL;
    for (int64_t j = 0; j < n && right; j++) {
        volatile float sum = 0;
        for (int64_t b = 0; b < count; b++) {
            const unsigned char *block = at + (j * count + b) * formats[f].bytes;
            const float *of = numbers + (j * count + b) * 32;
            int r[32], dot = 0, all = 0;
            const float d = half_at(block);
            const float e = min ? half_at(block + 2) : 0;
            const float s = round_block(in + b * 32, 32, r);
            for (int i = 0; i < 32; i++) {
                dot += (int)lrint(((double)of[i] - (double)e) / (double)d) * r[i];
                all += r[i];
            }
            volatile float ds = d * s, es = e * s;
            volatile float value = ds * (float)dot, other = es * (float)all;
            if (min)
                value = value + other;
            sum = sum + value;
        }
        const float got = ((float *)tn_tensor_data(y))[j];
        right = memcmp(&got, (const void *)&sum, sizeof got) == 0;
    }
    ok(right, "%s: a product is as it is defined", formats[f].name);
    tn_scope_close(scope);
}

/* Every row is bit-identical alone, in a batch and with other numbers of
 * threads, with and without the device's extension. */
static void check_rows(int f, int64_t m, int64_t n, int64_t count)
{
    tn_scope *scope = tn_scope_open();
    const int64_t k = count * formats[f].elements;
    tn_tensor *w = weight_of(f, n, count), *x = input_of(m, k);
    tn_tensor *all = tn_quantized_linear(x, w, formats[f].name, NULL);
    const size_t bytes = (size_t)n * sizeof(float);
    bool same = all != NULL;
    for (int64_t i = 0; i < m && same; i++) {
        tn_tensor *one = tn_quantized_linear(tn_narrow(x, 0, i, 1), w,
                                             formats[f].name, NULL);
        same = one && memcmp(tn_tensor_data(one),
                             (char *)tn_tensor_data(all) + i * (int64_t)bytes,
                             bytes) == 0;
    }
    ok(same, "%s: a row of %d has the bits that it has alone (%d x %d)%s%s",
       formats[f].name, (int)m, (int)n, (int)k, tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    const int threads = tn_num_threads();
    static const int others[] = {1, 2, 7};
    for (int t = 0; t < 3; t++) {
        tn_set_num_threads(others[t]);
        tn_tensor *again = tn_quantized_linear(x, w, formats[f].name, NULL);
        same = same && again && all &&
               memcmp(tn_tensor_data(again), tn_tensor_data(all),
                      (size_t)m * bytes) == 0;
    }
    tn_set_num_threads(threads);
    ok(same, "%s: the same bits for 1, 2 and 7 threads", formats[f].name);
    tn_device_mask(NULL, "quantised-product");
    tn_tensor *plain = tn_quantized_linear(x, w, formats[f].name, NULL);
    tn_device_mask(NULL, NULL);
    ok(plain && all && memcmp(tn_tensor_data(plain), tn_tensor_data(all),
                              (size_t)m * bytes) == 0,
       "%s: the same bits without the device's extension", formats[f].name);
    tn_tensor *exact = tn_quantized_linear(x, w, formats[f].name, NULL,
                                           .exact = true);
    tn_tensor *want = tn_linear(x, tn_dequantize_blocks(w, formats[f].name),
                                NULL);
    ok(exact && tn_item(tn_max(tn_abs(tn_sub(exact, want)))) <=
                    1e-5 * tn_item(tn_max(tn_abs(want))),
       "%s: exact is the product of the dequantised weight",
       formats[f].name);
    const double near = exact && all ? cosine(tn_tensor_data(all),
                                              tn_tensor_data(exact), m * n)
                                     : 0;
    ok(near > 0.999, "%s: cosine %.6f between default and exact",
       formats[f].name, near);
    tn_scope_close(scope);
}

static void check_special(void)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *w = weight_of(0, 3, 2);
    float data[3 * 64] = {0};
    for (int i = 0; i < 64; i++)
        data[i] = 1, data[128 + i] = 0x1p-130f * (float)(1 + i % 5);
    data[5] = INFINITY, data[64 + 40] = NAN;
    tn_tensor *x = tn_tensor_from_array(data, TN_F32, tn_dims(3, 64));
    tn_tensor *y = tn_quantized_linear(x, w, "Q8_0", NULL);
    const float *got = y ? tn_tensor_data(y) : data;
    ok(isnan(got[0]) && isnan(got[1]) && isnan(got[5]),
       "infinity and NaN give NaN");
    tn_tensor *exact = tn_quantized_linear(tn_narrow(x, 0, 2, 1), w, "Q8_0",
                                           NULL, .exact = true);
    ok(y && exact && cosine(got + 6, tn_tensor_data(exact), 3) > 0.999,
       "subnormal numbers are not lost");
    tn_tensor *bias = tn_tensor_from_array((float[]){1, 2, 3}, TN_F32,
                                           tn_dims(3));
    tn_tensor *zero = tn_quantized_linear(tn_zeros(tn_dims(2, 2, 64)), w,
                                          "Q8_0", bias);
    ok(zero && tn_tensor_ndim(zero) == 3 && tn_item(tn_sum(zero)) == 24,
       "zeros give the bias, and leading dimensions stay");
    tn_tensor *empty = tn_quantized_linear(tn_zeros(tn_dims(0, 64)), w, "Q8_0",
                                           NULL);
    ok(empty && tn_tensor_size(empty, 0) == 0 && tn_tensor_size(empty, 1) == 3,
       "no rows give no rows");
    tn_tensor *none = tn_zeros(tn_dims(0, 68), .dtype = TN_U8);
    empty = tn_quantized_linear(x, none, "Q8_0", NULL);
    ok(empty && tn_tensor_size(empty, 1) == 0, "no outputs give no outputs");
    none = tn_zeros(tn_dims(3, 0), .dtype = TN_U8);
    empty = tn_quantized_linear(tn_zeros(tn_dims(2, 0)), none, "Q8_0", NULL);
    ok(empty && tn_item(tn_sum(empty)) == 0, "no features give zeros");
    for (int half = 0; half < 2; half++) {
        const tn_dtype dtype = half ? TN_F16 : TN_BF16;
        tn_tensor *a = tn_to_dtype(input_of(4, 64), dtype);
        tn_tensor *b = tn_quantized_linear(a, w, "Q8_0", bias);
        tn_tensor *c = tn_quantized_linear(tn_to_dtype(a, TN_F32), w, "Q8_0",
                                           bias);
        c = tn_to_dtype(c, dtype);
        ok(b && tn_tensor_dtype(b) == dtype &&
               memcmp(tn_tensor_data(b), tn_tensor_data(c), 24) == 0,
           "%s is computed in float32 and rounded once", tn_dtype_name(dtype));
    }
    tn_tensor *turned = tn_transpose(tn_contiguous(tn_transpose(w, 0, 1)), 0, 1);
    tn_tensor *a = input_of(2, 64);
    y = tn_quantized_linear(a, w, "Q8_0", NULL);
    tn_tensor *z = tn_quantized_linear(a, turned, "Q8_0", NULL);
    ok(y && z && tn_item(tn_max(tn_abs(tn_sub(y, z)))) == 0,
       "a weight may have strides");
    tn_requires_grad(a);
    tn_tensor *loss = tn_sum(tn_quantized_linear(a, w, "Q8_0", NULL,
                                                 .exact = true));
    ok(tn_backward(loss) == TN_OK && tn_tensor_grad(a),
       "exact has a gradient: %s", tn_error() ? tn_error() : "");
    tn_tensor *same = tn_requires_grad(tn_clone(tn_detach(a)));
    tn_backward(tn_sum(tn_linear(same, tn_dequantize_blocks(w, "Q8_0"), NULL)));
    ok(tn_item(tn_equal(tn_tensor_grad(a), tn_tensor_grad(same))) == 1,
       "that of a product with the dequantised weight");
    tn_scope_close(scope);
}

/* ---- other devices ------------------------------------------------------- */

/* Compares bits, except that all NaNs are equal. */
static bool equal_bits(tn_tensor *a, tn_tensor *b)
{
    tn_device *cpu = tn_device_open("cpu");
    a = tn_to(a, cpu), b = tn_to(b, cpu);
    const int64_t count = tn_tensor_numel(a);
    const float *x = a ? tn_tensor_data(a) : NULL;
    const float *y = b ? tn_tensor_data(b) : NULL;
    bool same = x && y && count == tn_tensor_numel(b);
    for (int64_t i = 0; i < count && same; i++)
        same = memcmp(&x[i], &y[i], sizeof *x) == 0 ||
               (isnan(x[i]) && isnan(y[i]));
    return same;
}

/* Returns m rows of k elements. Row 2 has subnormal scales, row 4 an infinite
 * element. */
static tn_tensor *hard_input(int64_t m, int64_t k)
{
    float *data = malloc((size_t)(m * k) * sizeof *data);
    for (int64_t i = 0; i < m * k; i++)
        data[i] = number() * (i % 97 == 0 ? 5 : 1) *
                  (i / k == 2 ? 0x1p-125f : 1);
    if (m > 4)
        data[4 * k + k / 2] = INFINITY;
    tn_tensor *x = tn_tensor_from_array(data, TN_F32, tn_dims(m, k));
    free(data);
    return x;
}

/* Compares a device with the cpu, for weights of random bytes at any byte
 * offset: a product, the dequantised weight, and some of its rows (an
 * embedding). */
static bool check_same(tn_device *device, int f, int64_t m, int64_t n,
                       int64_t count)
{
    tn_scope *scope = tn_scope_open();
    const char *format = formats[f].name;
    const int64_t k = count * formats[f].elements;
    const int64_t row = count * formats[f].bytes, first = (m + n) % 4;
    unsigned char *data = malloc((size_t)(n * row + first));
    for (int64_t i = 0; i < n * row + first; i++)
        data[i] = (unsigned char)draw();
    tn_tensor *bytes =
        tn_tensor_from_array(data, TN_U8, tn_dims(n * row + first));
    free(data);
    tn_tensor *w[2], *x = hard_input(m, k), *y[2], *z[2], *some[2];
    for (int i = 0; i < 2; i++) {
        tn_tensor *at = i ? tn_to(bytes, device) : bytes;
        w[i] = tn_reshape(tn_narrow(at, 0, first, n * row), tn_dims(n, row));
        tn_tensor *in = i ? tn_to(x, device) : x;
        y[i] = tn_quantized_linear(in, w[i], format, NULL);
        z[i] = tn_dequantize_blocks(w[i], format);
        tn_tensor *ids = tn_tensor_from_array((int64_t[]){n - 1, 0}, TN_I64,
                                              tn_dims(2));
        some[i] = tn_dequantize_blocks(
            tn_index_select(w[i], 0, i ? tn_to(ids, device) : ids), format);
    }
    const bool same = equal_bits(y[1], y[0]) && equal_bits(z[1], z[0]) &&
                      equal_bits(some[1], some[0]);
    if (!same)
        note("%s: %d x %d x %d differs%s%s", format, (int)m, (int)n, (int)k,
             tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    tn_scope_close(scope);
    return same;
}

typedef struct recorded {
    tn_tensor *x, *w, *y, *z;
    bool numbers; /* whether the step dequantises. Where the CPU can use the
                     device's memory, the host does this, so no graph records
                     it */
} recorded;

static tn_status record(void *context)
{
    recorded *r = context;
    r->y = tn_keep(tn_quantized_linear(r->x, r->w, "Q4_0", NULL));
    if (r->numbers)
        r->z = tn_keep(tn_dequantize_blocks(r->w, "Q4_0"));
    return tn_error_code();
}

/* Checks that a recorded product is bit-identical to one that is not
 * recorded. */
static void check_graph(tn_device *device, bool numbers)
{
    tn_scope *scope = tn_scope_open();
    tn_device *before = tn_device_current();
    tn_tensor *second = hard_input(2, 96);
    recorded r = {.x = tn_to(hard_input(2, 96), device),
                  .w = tn_to(weight_of(1, 40, 3), device),
                  .numbers = numbers};
    tn_device_set(device);
    tn_graph *graph = tn_graph_record(record, &r);
    tn_copy_(r.x, tn_to(second, device));
    ok(tn_graph_replay(graph) == TN_OK &&
           equal_bits(r.y, tn_quantized_linear(r.x, r.w, "Q4_0", NULL)) &&
           (!numbers || equal_bits(r.z, tn_dequantize_blocks(r.w, "Q4_0"))),
       "%s: a replayed product has the same bits%s%s", tn_device_name(device),
       tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    tn_drop(r.y), tn_drop(r.z);
    tn_device_set(before);
    tn_scope_close(scope);
}

static void check_device(tn_device *device)
{
    static const int64_t rows[] = {1, 3, 5, 9, 33}, outs[] = {1, 13, 70};
    const char *name = tn_device_name(device);
    for (int f = 0; f < FORMATS; f++) {
        bool same = true;
        for (int i = 0; i < 5; i++)
            for (int j = 0; j < 3 && same; j++)
                same = check_same(device, f, rows[i], outs[j],
                                  (i + j) % 3 == 0   ? 1
                                  : (i + j) % 3 == 1 ? 3
                                  : formats[f].elements == 32 ? 67
                                                              : 9);
        ok(same, "%s: %s has the bits of cpu", formats[f].name, name);
    }
    tn_tensor *w = tn_to(weight_of(0, 9, 2), device);
    tn_tensor *x = tn_to(input_of(3, 64), device);
    tn_tensor *exact = tn_quantized_linear(x, w, "Q8_0", NULL, .exact = true);
    tn_tensor *want = tn_linear(x, tn_dequantize_blocks(w, "Q8_0"), NULL);
    ok(exact && equal_bits(exact, want),
       "%s: exact is the product of the dequantised weight", name);
}

/* Checks that a device rejects the call if it lacks the extension and the CPU
 * cannot use its memory. */
static void check_refusal(tn_device *device)
{
    tn_tensor *w = tn_to(weight_of(0, 3, 2), device);
    tn_tensor *x = tn_to(input_of(2, 64), device);
    tn_device_mask(device, "quantised-product");
    tn_tensor *y = tn_quantized_linear(x, w, "Q8_0", NULL);
    ok(!y && tn_error_code() == TN_ERR_UNSUPPORTED &&
           strstr(tn_error(), "dequantise it on cpu"),
       "without the extension %s refuses a product", tn_device_name(device));
    note("%s", tn_error() ? tn_error() : "(no error)");
    tn_error_clear();
    y = tn_dequantize_blocks(w, "Q8_0");
    ok(!y && tn_error_code() == TN_ERR_UNSUPPORTED &&
           strstr(tn_error(), "dequantise it on cpu"),
       "and to dequantise");
    note("%s", tn_error() ? tn_error() : "(no error)");
    tn_error_clear();
    tn_device_mask(device, NULL);
    ok(tn_quantized_linear(x, w, "Q8_0", NULL) != NULL,
       "the next call with it works");
}

/* ---- mistakes ------------------------------------------------------------ */

static void refused(const tn_tensor *y, tn_status code, const char *word,
                    const char *fact)
{
    const char *message = tn_error();
    ok(!y && tn_error_code() == code && message && strstr(message, word), "%s",
       fact);
    note("%s", message ? message : "(no error)");
    tn_error_clear();
}

static void check_mistakes(void)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *w = weight_of(0, 3, 2), *x = input_of(2, 64);
    refused(tn_quantized_linear(x, w, "Q8_9", NULL), TN_ERR_ARGUMENT, "Q4_K",
            "an unknown format is refused");
    refused(tn_quantized_linear(x, w, NULL, NULL), TN_ERR_ARGUMENT, "format",
            "format NULL is refused");
    refused(tn_quantized_linear(x, w, "Q4_0", NULL), TN_ERR_SHAPE, "18 bytes",
            "a row that is no whole blocks is refused");
    refused(tn_quantized_linear(input_of(2, 32), w, "Q8_0", NULL), TN_ERR_SHAPE,
            "(2, 32)", "sizes that differ are refused");
    refused(tn_quantized_linear(x, x, "Q8_0", NULL), TN_ERR_DTYPE, "uint8",
            "a float weight is refused");
    refused(tn_quantized_linear(tn_to_dtype(x, TN_F64), w, "Q8_0", NULL),
            TN_ERR_DTYPE, "float64", "float64 is refused");
    refused(tn_quantized_linear(x, w, "Q8_0", tn_zeros(tn_dims(2))),
            TN_ERR_SHAPE, "(3,)", "a bias of another size is refused");
    refused(tn_quantized_linear(x, tn_reshape(w, tn_dims(3, 1, 68)), "Q8_0",
                                NULL),
            TN_ERR_SHAPE, "(3, 1, 68)", "a weight of 3 dimensions is refused");
    refused(tn_quantized_linear(NULL, w, "Q8_0", NULL), TN_ERR_ARGUMENT,
            "input", "input NULL is refused");
    refused(tn_dequantize_blocks(w, "Q4_0"), TN_ERR_SHAPE, "18 bytes",
            "dequantize_blocks: whole blocks");
    refused(tn_dequantize_blocks(x, "Q8_0"), TN_ERR_DTYPE, "uint8",
            "dequantize_blocks: uint8");
    refused(tn_dequantize_blocks(w, "Q8_0", .dtype = TN_I32), TN_ERR_DTYPE,
            "int32", "dequantize_blocks: a floating-point dtype");
    tn_requires_grad(x);
    refused(tn_quantized_linear(x, w, "Q8_0", NULL), TN_ERR_UNSUPPORTED,
            ".exact", "a gradient is not lost");
    TN_NO_GRAD
        ok(tn_quantized_linear(x, w, "Q8_0", NULL) != NULL,
           "without recording there is none to lose");
    tn_scope_close(scope);
}

int main(void)
{
    plan_later();
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/lm/data/gguf_blocks.safetensors",
             getenv("top_srcdir") ? getenv("top_srcdir") : ".");
    blocks = tn_safetensors_open(path);
    if (!blocks)
        bail_out("%s", tn_error());
    tn_device *device = tn_device_current();
    if (!device)
        bail_out("%s", tn_error());
    tn_device_set(tn_device_open("cpu"));
    for (int f = 0; f < FORMATS; f++) {
        check_bits(f);
        check_definition(f);
        check_rows(f, 5, 37, 3);
        check_rows(f, 40, 70, formats[f].elements == 32 ? 13 : 2);
    }
    check_special();
    check_mistakes();
    check_device(tn_device_open("reference"));
    const char *name = tn_device_name(device);
    const bool is_apart = strncmp(name, "cpu", 3) != 0 &&
                          strncmp(name, "reference", 9) != 0;
    if (tn_device_has_extension(device, "quantised-product"))
        check_graph(device, is_apart);
    if (is_apart) {
        check_device(device);
        check_refusal(device);
    }
    return done_testing();
}
