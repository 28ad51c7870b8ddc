/* unknown.c: checks that a plugin rejects kinds and flags that it does not
 * support. A later version of Tenon may add such values. It can try them on an
 * old plugin and use other calls if the plugin rejects them. */
#include <string.h>

#include "check.h"
#include "extensions.h"

enum { FLOATS = 64, LATER = 1 << 30 };

/* The device and two buffers: one for operands that are read, and one for the
 * result, which a rejected call must not write. */
typedef struct scene {
    by_hand h;
    tn_buffer *source, *target;
    float was[FLOATS];
} scene;

static tn_strided strided(tn_buffer *buffer, tn_dtype dtype, uint32_t ndim,
                          const int64_t *extent)
{
    tn_strided s = {.buffer = buffer, .dtype = dtype, .ndim = ndim};
    int64_t step = 1;
    for (uint32_t d = ndim; d-- > 0; step *= extent[d])
        s.stride[d] = step;
    return s;
}

static bool set_up(scene *s)
{
    if (!open_device(&s->h))
        return false;
    const tn_plugin *plugin = s->h.plugin;
    float zeros[FLOATS] = {0};
    for (int i = 0; i < FLOATS; i++)
        s->was[i] = (float)i + 0.5f;
    return expect(plugin->buffer_alloc(s->h.device, sizeof zeros,
                                       &s->source) == TN_OK &&
                      plugin->buffer_alloc(s->h.device, sizeof zeros,
                                           &s->target) == TN_OK &&
                      by_hand_copy(&s->h, s->source, 0, zeros, sizeof zeros,
                                   true) == TN_OK &&
                      by_hand_copy(&s->h, s->target, 0, s->was,
                                   sizeof s->was, true) == TN_OK,
                  "two buffers cannot be made: %s", by_hand_failure());
}

static void take_down(scene *s)
{
    s->h.plugin->buffer_free(s->h.device, s->source);
    s->h.plugin->buffer_free(s->h.device, s->target);
    by_hand_close(&s->h);
}

/* Checks that a call with this status was rejected: the status is
 * TN_ERR_UNSUPPORTED, the plugin reported a reason, and nothing was written. */
static bool refused(scene *s, tn_status status)
{
    float now[FLOATS];
    if (!expect(status == TN_ERR_UNSUPPORTED, "the call returns %d, not %d: %s",
                status, TN_ERR_UNSUPPORTED, by_hand_failure()) ||
        !expect(*by_hand_failure() != 0, "the call is refused without a "
                                         "reason"))
        return false;
    tn_fault fault = {.size = sizeof fault};
    status = s->h.plugin->queue_sync(s->h.queue, &fault);
    if (!expect(status == TN_OK, "queue_sync then returns %d: %s", status,
                by_hand_failure()) ||
        !expect(by_hand_copy(&s->h, s->target, 0, now, sizeof now, false) ==
                    TN_OK,
                "a copy to the host fails: %s", by_hand_failure()))
        return false;
    return expect(memcmp(now, s->was, sizeof now) == 0,
                  "the call is refused, but wrote to its output");
}

#define REFUSED(s, call, ...)                                                 \
    (trying(__VA_ARGS__), by_hand_forget(), refused(s, call))

/* ---- primitives --------------------------------------------------------- */

static void primitives(int argument)
{
    (void)argument;
    scene s;
    if (!set_up(&s))
        return;
    const tn_plugin *p = s.h.plugin;
    const int64_t extent[1] = {8};
    const tn_strided in = strided(s.source, TN_F32, 1, extent),
                     index = strided(s.source, TN_I64, 1, extent),
                     out = strided(s.target, TN_F32, 1, extent);
    tn_scatter_args scatter = {.size = sizeof scatter, .ndim = 1,
                               .reduce = TN_SCATTER_END, .extent = {8},
                               .dst_extent = 8, .dst = out, .index = index,
                               .src = in};
    tn_scan_args scan = {.size = sizeof scan, .ndim = 1,
                         .kind = TN_REDUCE_END, .extent = {8}, .in = in,
                         .out = out};
    tn_sort_args sort = {.size = sizeof sort, .ndim = 1, .flags = LATER,
                         .extent = {8}, .keep = 8, .in = in, .out = out};
    tn_copy_args copy = {.size = sizeof copy, .direction = TN_COPY_PEER + 1,
                         .dst = s.target, .src = s.source, .bytes = 32,
                         .rows = 1};
    bool held = REFUSED(&s, p->scatter(s.h.queue, &scatter),
                        "scatter with reduce %u", scatter.reduce) &&
                REFUSED(&s, p->scan(s.h.queue, &scan), "scan with kind %u",
                        scan.kind);
    scan.kind = TN_REDUCE_SUM;
    scan.flags = LATER;
    if (held &&
        REFUSED(&s, p->scan(s.h.queue, &scan), "scan with flags 2^30") &&
        REFUSED(&s, p->sort(s.h.queue, &sort), "sort with flags 2^30") &&
        REFUSED(&s, p->copy(s.h.queue, &copy), "copy with direction %u",
                copy.direction))
        take_down(&s);
}

/* ---- extensions --------------------------------------------------------- */

static bool unknown_conv(scene *s, const tn_conv_extension *conv)
{
    const int64_t extent[4] = {1, 1, 2, 2};
    const tn_conv_args args = {
        .size = sizeof args, .kind = TN_CONV_WEIGHT + 1, .count = 1,
        .in_channels = 1, .out_channels = 1, .groups = 1, .in_size = {2, 2},
        .kernel = {1, 1}, .out_size = {2, 2}, .stride = {1, 1},
        .dilation = {1, 1}, .in = strided(s->target, TN_F32, 4, extent),
        .weight = strided(s->target, TN_F32, 4, extent),
        .out = strided(s->target, TN_F32, 4, extent)};
    return REFUSED(s, conv->run(s->h.queue, &args), "conv with kind %u",
                   args.kind);
}

static bool unknown_pool(scene *s, const tn_pool_extension *pool)
{
    const int64_t extent[4] = {1, 1, 2, 2};
    const tn_pool_args args = {
        .size = sizeof args, .kind = TN_POOL_GREATEST + 1, .count = 1,
        .channels = 1, .in_size = {2, 2}, .kernel = {1, 1},
        .out_size = {2, 2}, .stride = {1, 1}, .dilation = {1, 1},
        .in = strided(s->target, TN_F32, 4, extent),
        .out = strided(s->target, TN_F32, 4, extent)};
    return REFUSED(s, pool->run(s->h.queue, &args), "pool with kind %u",
                   args.kind);
}

static bool unknown_attention(scene *s, const tn_attention_extension *a)
{
    const int64_t extent[4] = {1, 1, 2, 8};
    const tn_strided in = strided(s->source, TN_F32, 4, extent);
    tn_attention_args args = {
        .size = sizeof args, .kind = TN_ATTENTION_BACKWARD + 1, .batch = 1,
        .heads = 1, .kv_heads = 1, .queries = 2, .keys = 2, .features = 8,
        .values = 8, .scale = 1, .q = in, .k = in, .v = in,
        .out = strided(s->target, TN_F32, 4, extent),
        .lse = strided(s->target, TN_F32, 3, extent)};
    args.lse.offset = 32;
    bool held = REFUSED(s, a->fits(s->h.device, &args),
                        "attention fits with kind %u", args.kind) &&
                REFUSED(s, a->run(s->h.queue, &args),
                        "attention with kind %u", args.kind);
    args.kind = TN_ATTENTION_FORWARD;
    args.flags = LATER;
    return held &&
           REFUSED(s, a->fits(s->h.device, &args),
                   "attention fits with flags 2^30") &&
           REFUSED(s, a->run(s->h.queue, &args), "attention with flags 2^30");
}

static bool unknown_product(scene *s, const tn_product_extension *product)
{
    const int64_t extent[2] = {4, 4};
    const tn_product_args args = {
        .size = sizeof args, .epilogue = LATER, .m = 4, .n = 4, .k = 4,
        .a = strided(s->source, TN_F32, 2, extent),
        .b = strided(s->source, TN_F32, 2, extent),
        .c = strided(s->target, TN_F32, 2, extent), .alpha = 1};
    return REFUSED(s, product->run(s->h.queue, &args),
                   "product with epilogue 2^30");
}

static bool unknown_lapack(scene *s, const tn_lapack_extension *lapack)
{
    const int64_t extent[3] = {1, 4, 4};
    tn_lapack_args args = {.size = sizeof args, .kind = TN_LAPACK_SVD + 1,
                           .batch = 1, .m = 4, .n = 4,
                           .a = strided(s->target, TN_F32, 3, extent),
                           .info = strided(s->target, TN_I32, 1, extent)};
    args.info.offset = 32;
    bool held = REFUSED(s, lapack->run(s->h.queue, &args),
                        "lapack with kind %u", args.kind);
    args.kind = TN_LAPACK_CHOLESKY;
    args.flags = LATER;
    return held && REFUSED(s, lapack->run(s->h.queue, &args),
                           "lapack with flags 2^30");
}

static bool
unknown_quantised_product(scene *s,
                          const tn_quantised_product_extension *product)
{
    const int64_t extent[2] = {4, 32};
    const tn_quantised_product_args args = {
        .size = sizeof args, .format = TN_BLOCK + 4096, .m = 4, .n = 4, .k = 32,
        .a = strided(s->source, TN_F32, 2, extent),
        .b = strided(s->source, TN_U8, 2, extent),
        .c = strided(s->target, TN_F32, 2, extent)};
    return REFUSED(s, product->takes(s->h.device, args.format),
                   "quantised-product accepts format 4160") &&
           REFUSED(s, product->run(s->h.queue, &args),
                   "quantised-product with format 4160");
}

static bool unknown_epilogue(scene *s, const tn_epilogue_extension *epilogue)
{
    const tn_epilogue_args args = {.size = sizeof args,
                                   .kind = TN_EPILOGUE_END};
    return REFUSED(s, epilogue->takes(s->h.device, args.kind),
                   "epilogue takes kind %u", args.kind) &&
           REFUSED(s, epilogue->run(s->h.queue, &args), "epilogue of kind %u",
                   args.kind);
}

static void extensions(int argument)
{
    (void)argument;
    scene s;
    if (!set_up(&s))
        return;
    bool held = true;
#define UNKNOWN(name)                                                         \
    do {                                                                      \
        const void *table = extension_table(&s.h, EXTENSION_##name);          \
        if (table && held)                                                    \
            held = unknown_##name(&s, table);                                 \
    } while (0)
    UNKNOWN(conv);
    UNKNOWN(pool);
    UNKNOWN(attention);
    UNKNOWN(product);
    UNKNOWN(lapack);
    UNKNOWN(quantised_product);
    UNKNOWN(epilogue);
#undef UNKNOWN
    for (size_t i = 0; held && s.h.plugin->extension; i++) {
        static const char *const names[] = {
#define NAME(id, text) text,
            TN_EXTENSION_RESERVED_MAP(NAME)
#undef NAME
        };
        if (i == sizeof names / sizeof *names)
            break;
        trying("extension(\"%s\", 1)", names[i]);
        held = expect(!s.h.plugin->extension(names[i], 1),
                      "the plugin returns a table for a reserved name");
    }
    if (held)
        take_down(&s);
}

/* ---- the list ----------------------------------------------------------- */

int unknown_checks(check *list, int count)
{
    static const char rule[] =
        "a plugin refuses a kind or a flag that it does not know: it returns "
        "TN_ERR_UNSUPPORTED, reports a reason and writes nothing";
    count = check_add(list, count, 2, "unknown to primitives", rule,
                      primitives, 0);
    return check_add(list, count, 2, "unknown to extensions", rule,
                     extensions, 0);
}
