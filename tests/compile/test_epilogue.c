/* Random networks of linear and convolution layers with batch norm (eval),
 * activations, residual sums and normalizations of rows: compiled, with
 * launches joined to the products and convolutions that they follow, they give
 * the bits of the function. */
#include <tenon/tenon.h>

#include "../tap.h"
#include "compiled.h"

enum { MAX_LAYERS = 12, MAX_VALUES = MAX_LAYERS + 1, CALLS = 4 };

static uint64_t random_state;

static unsigned draw(unsigned below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % below;
}

enum {
    LINEAR,
    PRODUCT, /* with the weight transposed */
    BATCHED, /* with a weight for each element of the batch */
    CONV,
    DEPTHWISE,
    ACTIVATION,
    IN_PLACE,
    SCALE,   /* by a vector, plus one */
    NORM,    /* batch norm, or layer norm */
    RESIDUAL,
    SOFTMAX,
    SPLIT    /* into heads, which are transposed */
};

typedef struct layer {
    unsigned kind, choice;
    int64_t stride, kernel;
    tn_tensor *a, *b, *c, *d; /* parameters; lent */
} layer;

typedef struct net {
    layer layer[MAX_LAYERS];
    int count, out_count;
    unsigned out;
    bool images;
    tn_dtype dtype;
    int64_t shape[4];
} net;

static tn_tensor *number(tn_dtype dtype, tn_dims_list shape)
{
    return tn_to_dtype(tn_mul_scalar(tn_randn(shape), 0.5), dtype);
}

static tn_tensor *activate(unsigned choice, tn_tensor *x)
{
    switch (choice % 6) {
    case 0: return tn_relu(x);
    case 1: return tn_gelu(x);
    case 2: return tn_silu(x);
    case 3: return tn_tanh(x);
    case 4: return tn_hardswish(x);
    default: return tn_add_scalar(x, 1.5);
    }
}

static bool same_shape(tn_tensor *x, tn_tensor *y)
{
    bool same = tn_tensor_ndim(x) == tn_tensor_ndim(y);
    for (int d = 0; same && d < tn_tensor_ndim(x); d++)
        same = tn_tensor_size(x, d) == tn_tensor_size(y, d);
    return same;
}

static tn_tensor *apply(const layer *l, tn_tensor *x, tn_tensor *const *value,
                        int count)
{
    const int64_t pad = l->kernel / 2;
    switch (l->kind) {
    case LINEAR: return tn_linear(x, l->a, l->b);
    case PRODUCT: return tn_add(tn_matmul(x, l->a), l->b);
    case BATCHED: return tn_matmul(x, l->a);
    case CONV:
    case DEPTHWISE:
        return tn_conv2d(x, l->a, l->b,
                         .stride = l->stride,
                         .padding = pad,
                         .groups = l->kind == CONV ? 1 : tn_tensor_size(x, 1));
    case ACTIVATION: return activate(l->choice, x);
    case IN_PLACE: return l->choice % 2 ? tn_relu_(x) : tn_mul_(x, x);
    case SCALE: return tn_add_scalar(tn_mul(x, l->a), 1);
    case NORM:
        return tn_tensor_ndim(x) == 4 && l->d
                   ? tn_batch_norm(x, l->c, l->d, l->a, l->b)
                   : tn_layer_norm(x, tn_dims(tn_tensor_size(x, -1)), l->a,
                                   l->b);
    case RESIDUAL:
        for (int v = count - 1; v-- > 0;)
            if (same_shape(value[v], x))
                return l->choice % 2 ? tn_add(x, value[v])
                                     : tn_relu(tn_add(value[v], x));
        return tn_neg(x);
    case SOFTMAX: return tn_softmax(x, -1);
    default: {
        const int64_t b = tn_tensor_size(x, 0), n = tn_tensor_size(x, -1);
        return tn_gelu(tn_transpose(
            tn_reshape(x, tn_dims(b, -1, 2, n / 2)), 1, 2));
    }
    }
}

static tn_status run(tn_tensor *const *in, int in_count, tn_tensor **out,
                     int out_count, void *context)
{
    const net *f = context;
    tn_tensor *value[MAX_VALUES];
    int count = 0;
    (void)in_count;
    value[count++] = in[0];
    for (int i = 0; i < f->count && !tn_error(); i++) {
        value[count] = apply(&f->layer[i], value[count - 1], value, count);
        count++;
    }
    out[0] = value[count - 1];
    if (out_count > 1)
        out[1] = value[f->out % (unsigned)count];
    return TN_OK;
}

/* Chooses the layers, and makes their parameters, which the scope owns. */
static void make_net(net *f, uint64_t seed)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 8, 16, 17, 32, 33, 64, 70, 130,
                                    200};
    static const tn_dtype dtypes[] = {TN_F32, TN_F32, TN_F16, TN_BF16, TN_F64};
    *f = (net){0};
    random_state = seed * 2654435761u + 17;
    for (int i = 0; i < 4; i++)
        draw(2);
    tn_manual_seed(seed);
    f->images = draw(2);
    f->dtype = dtypes[draw(5)];
    f->count = 2 + (int)draw(MAX_LAYERS - 2);
    f->out_count = 1 + (int)draw(2);
    f->out = draw(1000);
    if (f->images) {
        const int64_t shape[4] = {1 + draw(3), sizes[draw(8)], 3 + draw(20),
                                  3 + draw(30)};
        memcpy(f->shape, shape, sizeof shape);
    } else {
        const int64_t shape[4] = {1 + draw(3), 1, sizes[draw(13)],
                                  sizes[2 + draw(10)]};
        memcpy(f->shape, shape, sizeof shape);
    }
    int64_t width = f->images ? f->shape[1] : f->shape[3];
    bool split = false;
    for (int i = 0; i < f->count; i++) {
        layer *l = &f->layer[i];
        static const unsigned dense[] = {LINEAR, LINEAR, LINEAR, PRODUCT,
                                         BATCHED, ACTIVATION, ACTIVATION,
                                         IN_PLACE, SCALE, NORM, RESIDUAL,
                                         SOFTMAX, SPLIT};
        static const unsigned images[] = {CONV, CONV, CONV, DEPTHWISE,
                                          ACTIVATION, ACTIVATION, IN_PLACE,
                                          SCALE, NORM, NORM, NORM, RESIDUAL,
                                          RESIDUAL};
        l->kind = f->images ? images[draw(13)] : dense[draw(13)];
        /* A value that is the input or another output is not written. */
        if (l->kind == IN_PLACE && (i == 0 || f->out_count > 1))
            l->kind = ACTIVATION;
        if (split || (l->kind == SPLIT && width % 2))
            l->kind = ACTIVATION;
        l->choice = draw(1000);
        const int64_t next = sizes[draw(f->images ? 10 : 13)];
        l->kernel = 1;
        l->stride = 1;
        const tn_dtype dtype = f->dtype;
        switch (l->kind) {
        case LINEAR:
            l->a = number(dtype, tn_dims(next, width));
            l->b = l->choice % 4 ? number(dtype, tn_dims(next)) : NULL;
            width = next;
            break;
        case PRODUCT:
            l->a = number(dtype, tn_dims(width, next));
            l->b = number(dtype, tn_dims(next));
            width = next;
            break;
        case BATCHED:
            l->a = number(dtype, tn_dims(f->shape[0], width, next));
            width = next;
            break;
        case CONV:
        case DEPTHWISE:
            l->kernel = 1 + 2 * (int64_t)draw(3);
            l->stride = 1 + draw(4) / 3;
            l->a = number(dtype, tn_dims(l->kind == CONV ? next : width,
                                         l->kind == CONV ? width : 1,
                                         l->kernel, l->kernel));
            width = l->kind == CONV ? next : width;
            l->b = l->choice % 2 ? number(dtype, tn_dims(width)) : NULL;
            break;
        case SCALE:
            l->a = f->images ? number(dtype, tn_dims(width, 1, 1))
                             : number(dtype, tn_dims(width));
            break;
        case NORM:
            l->a = number(dtype, tn_dims(width));
            l->b = number(dtype, tn_dims(width));
            l->c = f->images ? number(dtype, tn_dims(width)) : NULL;
            l->d = f->images ? tn_add_scalar(tn_abs(l->a), 1) : NULL;
            break;
        case SPLIT:
            split = true;
            break;
        default:
            break;
        }
    }
}

/* Counts the calls of a report that are a product or a convolution with a
 * launch. */
static int count_joined(const char *text)
{
    static const char *const works[] = {"linear + ", "matmul + ", "conv2d + "};
    int count = 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const size_t head = strspn(line, " 0123456789");
        for (int i = 0; i < 3; i++)
            count += strncmp(line + head, works[i], strlen(works[i])) == 0;
    }
    return count;
}

/* Runs a random network CALLS times, itself and compiled. Returns whether all
 * bits were the same. */
static bool check_net(uint64_t seed, int *joined)
{
    net f;
    bool same = true;
    tn_scope *scope = tn_scope_open();
    make_net(&f, seed);
    /* Without the extension "launch-list", small launches are joined, too. */
    tn_device_mask(tn_device_current(),
                   seed % 2 ? "launch-list,lapack" : getenv("TENON_MASK"));
    tn_compiled *compiled = tn_compile(run, &f);
    for (int call = 0; call < CALLS && same && !tn_error(); call++) {
        tn_scope *inner = tn_scope_open();
        tn_tensor *in =
            f.images ? number(f.dtype, tn_dims(f.shape[0], f.shape[1],
                                               f.shape[2], f.shape[3]))
                     : number(f.dtype, tn_dims(f.shape[0], f.shape[2],
                                               f.shape[3]));
        tn_tensor *want[2] = {NULL}, *got[2] = {NULL};
        TN_NO_GRAD {
            run(&in, 1, want, f.out_count, &f);
            tn_compiled_run(compiled, &in, 1, got, f.out_count);
        }
        for (int o = 0; o < f.out_count && same && !tn_error(); o++)
            same = compiled_same(want[o], got[o], true);
        tn_scope_close(inner);
    }
    const char *text = tn_error() ? NULL : tn_compiled_text(compiled);
    *joined += count_joined(text);
    if (tn_error())
        printf("# seed %llu: %s\n", (unsigned long long)seed, tn_error());
    else if (!same)
        printf("# seed %llu differs\n%s\n", (unsigned long long)seed,
               text ? text : "");
    same = same && !tn_error();
    tn_error_clear();
    tn_device_mask(tn_device_current(), getenv("TENON_MASK"));
    tn_scope_close(scope);
    return same;
}

/* ---- large layers -------------------------------------------------------- */

/* Layers that a device computes in several parts, each with the launch over
 * it. */
typedef struct large {
    int64_t batch, m, k, n;
    bool transposed, norm;
    tn_dtype dtype;
    tn_tensor *w, *b;
} large;

static tn_status run_large(tn_tensor *const *in, int in_count, tn_tensor **out,
                           int out_count, void *context)
{
    const large *l = context;
    (void)in_count, (void)out_count;
    tn_tensor *h = l->transposed ? tn_linear(in[0], l->w, NULL)
                                 : tn_matmul(in[0], l->w);
    h = tn_add(h, l->b);
    out[0] = l->norm ? tn_layer_norm(h, tn_dims(l->n), NULL, NULL)
                     : tn_relu(h);
    return TN_OK;
}

static void check_large(void)
{
    static const large cases[] = {
        {1, 700, 80, 65, true, false, TN_F32, NULL, NULL},
        {3, 200, 64, 96, true, true, TN_F32, NULL, NULL},
        {1, 600, 70, 50, true, false, TN_F16, NULL, NULL},
        {1, 900, 33, 70, false, false, TN_F32, NULL, NULL},
        {1, 700, 64, 200, false, false, TN_F32, NULL, NULL},
        {1, 700, 64, 200, false, true, TN_F64, NULL, NULL},
        {1, 300, 64, 1100, false, false, TN_F32, NULL, NULL},
        {1, 2100, 40, 120, false, true, TN_F32, NULL, NULL},
        {40, 50, 20, 36, false, false, TN_F32, NULL, NULL},
        {9, 70, 30, 90, false, true, TN_BF16, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_scope *scope = tn_scope_open();
        large l = cases[i];
        tn_manual_seed(i);
        l.w = l.transposed ? number(l.dtype, tn_dims(l.n, l.k))
                           : number(l.dtype, tn_dims(l.batch, l.k, l.n));
        l.b = number(l.dtype, tn_dims(l.n));
        tn_tensor *x = number(l.dtype, tn_dims(l.batch, l.m, l.k));
        tn_tensor *want, *got;
        tn_compiled *c = tn_compile(run_large, &l);
        bool same = true;
        TN_NO_GRAD
            for (int call = 0; call < 4 && !tn_error(); call++) {
                run_large(&x, 1, &want, 1, &l);
                tn_compiled_run(c, &x, 1, &got, 1);
                same = same && got && compiled_same(want, got, true);
            }
        ok(same && !tn_error(), "%s (%lld, %lld, %lld) x %lld + b, %s: the "
           "bits of the function", tn_dtype_name(l.dtype), (long long)l.batch,
           (long long)l.m, (long long)l.k, (long long)l.n,
           l.norm ? "layer_norm" : "relu");
        if (tn_error())
            printf("# %s\n", tn_error());
        tn_error_clear();
        tn_scope_close(scope);
    }
}

/* Convolutions with batch norm, activation and residual sum. */
typedef struct images {
    int64_t count, in, size, out, kernel, stride, groups;
    tn_dtype dtype;
    tn_tensor *w, *a, *b, *c, *d;
} images;

static tn_status run_images(tn_tensor *const *in, int in_count,
                            tn_tensor **out, int out_count, void *context)
{
    const images *f = context;
    (void)in_count, (void)out_count;
    tn_tensor *y = tn_conv2d(in[0], f->w, NULL, .stride = f->stride,
                             .padding = f->kernel / 2, .groups = f->groups);
    y = tn_relu(tn_batch_norm(y, f->c, f->d, f->a, f->b));
    out[0] = same_shape(y, in[0]) ? tn_add(y, in[0]) : y;
    return TN_OK;
}

static void check_images(void)
{
    static const images cases[] = {
        {5, 16, 31, 16, 3, 1, 1, TN_F32, NULL, NULL, NULL, NULL, NULL},
        {6, 3, 33, 20, 3, 2, 1, TN_F32, NULL, NULL, NULL, NULL, NULL},
        {5, 24, 25, 24, 1, 1, 1, TN_F32, NULL, NULL, NULL, NULL, NULL},
        {1, 96, 57, 160, 1, 1, 1, TN_F32, NULL, NULL, NULL, NULL, NULL},
        {2, 64, 41, 64, 3, 1, 64, TN_F32, NULL, NULL, NULL, NULL, NULL},
        {7, 8, 23, 12, 5, 1, 4, TN_F32, NULL, NULL, NULL, NULL, NULL},
        {4, 4, 40, 4, 3, 1, 1, TN_F32, NULL, NULL, NULL, NULL, NULL},
        {5, 10, 29, 18, 3, 1, 1, TN_F64, NULL, NULL, NULL, NULL, NULL},
        {1, 32, 60, 32, 3, 1, 1, TN_F32, NULL, NULL, NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_scope *scope = tn_scope_open();
        images f = cases[i];
        tn_manual_seed(i);
        f.w = number(f.dtype, tn_dims(f.out, f.in / f.groups, f.kernel,
                                      f.kernel));
        f.a = number(f.dtype, tn_dims(f.out));
        f.b = number(f.dtype, tn_dims(f.out));
        f.c = number(f.dtype, tn_dims(f.out));
        f.d = tn_add_scalar(tn_abs(number(f.dtype, tn_dims(f.out))), 1);
        tn_tensor *x =
            number(f.dtype, tn_dims(f.count, f.in, f.size, f.size));
        tn_tensor *want, *got;
        tn_compiled *c = tn_compile(run_images, &f);
        bool same = true;
        TN_NO_GRAD
            for (int call = 0; call < 4 && !tn_error(); call++) {
                run_images(&x, 1, &want, 1, &f);
                tn_compiled_run(c, &x, 1, &got, 1);
                same = same && got && compiled_same(want, got, true);
            }
        ok(same && !tn_error(), "%lld images of %lld channels, window %lld, "
           "groups %lld, %s: the bits of the function", (long long)f.count,
           (long long)f.in, (long long)f.kernel, (long long)f.groups,
           tn_dtype_name(f.dtype));
        if (tn_error())
            printf("# %s\n", tn_error());
        tn_error_clear();
        tn_scope_close(scope);
    }
}

/* ---- known programs ------------------------------------------------------ */

typedef struct block {
    tn_tensor *w, *b, *scale, *kept;
} block;

static tn_status linear_gelu(tn_tensor *const *in, int in_count,
                             tn_tensor **out, int out_count, void *context)
{
    const block *m = context;
    (void)in_count;
    tn_tensor *h = tn_linear(in[0], m->w, m->b);
    out[0] = tn_add(tn_gelu(h), in[0]);
    if (out_count > 1)
        out[1] = h;
    return TN_OK;
}

/* The launch writes what the product reads: both stay two calls. */
static tn_status write_input(tn_tensor *const *in, int in_count,
                             tn_tensor **out, int out_count, void *context)
{
    const block *m = context;
    (void)in_count, (void)out_count;
    tn_tensor *x = tn_clone(in[0]);
    tn_add_(x, tn_matmul(x, m->w));
    out[0] = tn_mul(x, m->scale);
    return TN_OK;
}

/* The launch reads the product twice. */
static tn_status square(tn_tensor *const *in, int in_count, tn_tensor **out,
                        int out_count, void *context)
{
    const block *m = context;
    (void)in_count, (void)out_count;
    tn_tensor *h = tn_matmul(in[0], m->w);
    out[0] = tn_mul(h, h);
    return TN_OK;
}

static void check_known(const char *name, tn_compile_fn fn, int outputs,
                        bool joins, const char *line)
{
    tn_scope *scope = tn_scope_open();
    block m = {tn_randn(tn_dims(48, 48)), tn_randn(tn_dims(48)),
               tn_randn(tn_dims(48)), NULL};
    tn_tensor *x = tn_randn(tn_dims(400, 48)), *want[2], *got[2];
    tn_compiled *c = tn_compile(fn, &m);
    bool same = true;
    TN_NO_GRAD
        for (int call = 0; call < 4; call++) {
            tn_add_scalar_(x, 0.25);
            fn(&x, 1, want, outputs, &m);
            tn_compiled_run(c, &x, 1, got, outputs);
            for (int o = 0; o < outputs && !tn_error(); o++)
                same = same && compiled_same(want[o], got[o], true);
        }
    ok(same && !tn_error(), "%s: the bits of the function", name);
    const char *text = tn_compiled_text(c);
    const bool has =
        tn_device_has_extension(tn_device_current(), "epilogue");
    ok(text && (strstr(text, line) != NULL) == (joins && has),
       "%s: %s", name,
       !has    ? "the device has no epilogues"
       : joins ? "one call"
               : "two calls");
    if (text && (strstr(text, line) != NULL) != (joins && has))
        printf("# %s\n", text);
    tn_error_clear();
    tn_scope_close(scope);
}

int main(void)
{
    plan_later();
    const char *count_text = getenv("TENON_TEST_FUZZ");
    const char *first = getenv("TENON_TEST_SEED");
    const int count = count_text ? atoi(count_text) : 120;
    const uint64_t seed = first ? strtoull(first, NULL, 10) : 0;
    int failed = 0, joined = 0;
    for (int i = 0; i < count; i++)
        failed += !check_net(seed + (uint64_t)i, &joined);
    is_int(failed, 0, "%d random networks: a replay has the bits of the "
           "function", count);
    const bool has =
        tn_device_has_extension(tn_device_current(), "epilogue");
    ok(has ? joined > count / 8 : joined == 0,
       "%d launches were joined with what they follow", joined);
    check_large();
    check_images();
    check_known("linear, gelu and a residual", linear_gelu, 1, true,
                "linear + ");
    check_known("a product that is also an output", linear_gelu, 2, true,
                "linear + ");
    check_known("a product that is read twice", square, 1, true,
                "matmul + mul");
    check_known("a launch that writes the input of the product", write_input, 1,
                false, "matmul + add");
    return done_testing();
}
