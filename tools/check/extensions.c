/* extensions.c: runs random cases of a plugin's extensions and compares the
 * results with the results of plain loops. */
#include "extensions.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check_attention.h"
#include "check_epilogue.h"
#include "check_lapack.h"
#include "check_quantised.h"
#include "operand.h"
#include "windows.h"

static operand in, weight, out, bias, index_of;

/* Lays out an operand. Most operands are contiguous, because extensions are
 * made for these. */
static void lay_out(operand *o, tn_dtype dtype, uint32_t ndim,
                    const int64_t *extent, bool dense, bool writes)
{
    if (dense)
        operand_init_dense(o, dtype, ndim, extent);
    else
        operand_init(o, dtype, ndim, extent, writes);
}

static tn_dtype any_float(void)
{
    static const tn_dtype dtypes[] = {TN_F32, TN_F32, TN_F32,
                                      TN_F64, TN_F16, TN_BF16};
    tn_dtype dtype;
    do
        dtype = dtypes[random_below(&now.source, 6)];
    while (!(now.device->info.storage_types >> dtype & 1));
    return dtype;
}

/* Copies all operands back from the device. Returns how many elements are
 * wrong. */
static int64_t receive_all(operand *const *all, int count)
{
    int64_t wrong = 0;
    for (int i = 0; i < count; i++)
        wrong += operand_receive(all[i]);
    return wrong;
}

/* Returns whether the plugin declined the call with TN_ERR_UNSUPPORTED, which
 * is allowed. It must not have changed any operand then. */
static bool declined(tn_status status, const char *name)
{
    if (status != TN_ERR_UNSUPPORTED) {
        operand_succeeded(status, name);
        return false;
    }
    if (!*by_hand_failure() && !*now.trouble)
        snprintf(now.trouble, sizeof now.trouble, "declines without a reason");
    return true;
}

/* ---- convolution -------------------------------------------------------- */

static bool fits(const int64_t *extent)
{
    return extent[0] * extent[1] * extent[2] * extent[3] <= OPERAND_POINTS;
}

static void any_conv(tn_conv_args *args, int64_t extent[3][4])
{
    do {
        *args = (tn_conv_args){.size = sizeof *args,
                               .kind = random_below(&now.source, 3),
                               .count = random_between(&now.source, 1, 3),
                               .groups = random_between(&now.source, 1, 3)};
        args->in_channels = args->groups * random_between(&now.source, 1, 5);
        args->out_channels = args->groups * random_between(&now.source, 1, 9);
        for (int a = 0; a < 2; a++) {
            int64_t kernel = random_between(&now.source, 1, 5);
            int64_t dilation = random_between(&now.source, 1, 2);
            int64_t reach = dilation * (kernel - 1);
            args->kernel[a] = kernel;
            args->dilation[a] = dilation;
            args->stride[a] = random_between(&now.source, 1, 3);
            args->pad[a] = random_between(&now.source, 0, reach);
            /* `behind` is the padding at the end. It is at most as long as a
             * window. */
            int64_t behind = random_between(&now.source, 0, reach);
            int64_t room = random_between(&now.source, 0, 8);
            args->in_size[a] = reach + 1 + room - (args->pad[a] + behind) / 2;
            if (args->in_size[a] + args->pad[a] + behind <= reach)
                args->in_size[a] = reach + 1;
            args->out_size[a] =
                (args->in_size[a] + args->pad[a] + behind - reach - 1) /
                    args->stride[a] +
                1;
        }
        const int64_t all[3][4] = {{args->count, args->in_channels,
                                    args->in_size[0], args->in_size[1]},
                                   {args->out_channels,
                                    args->in_channels / args->groups,
                                    args->kernel[0], args->kernel[1]},
                                   {args->count, args->out_channels,
                                    args->out_size[0], args->out_size[1]}};
        memcpy(extent, all, sizeof all);
    } while (!fits(extent[0]) || !fits(extent[1]) || !fits(extent[2]));
}

static int case_conv(const void *table, int64_t *wrong)
{
    const tn_conv_extension *conv = table;
    operand *const all[] = {&in, &weight, &out, &bias};
    tn_conv_args args;
    int64_t extent[3][4];
    any_conv(&args, extent);
    const uint32_t written[] = {2, 0, 1}; /* for each kind, the index in `all`
                                             of the operand that it writes */
    tn_dtype dtype = any_float();
    bool dense = random_chance(&now.source, 70);
    for (uint32_t o = 0; o < 3; o++)
        lay_out(all[o], dtype, 4, extent[o], dense, o == written[args.kind]);
    lay_out(&bias, dtype, 1, &args.out_channels, dense, false);
    bool has_bias =
        args.kind == TN_CONV_FORWARD && random_chance(&now.source, 50);
    for (int o = 0; o < 4; o++) {
        operand_fill(all[o], true); /* tame numbers, because sums are compared
                                       with a tolerance for rounding */
        operand_send(all[o]);
    }
    args.in = in.view;
    args.weight = weight.view;
    args.out = out.view;
    if (has_bias)
        args.bias = bias.view;
    operand_enter();
    tn_status status = conv->run(now.device->queue, &args);
    operand_leave();
    bool leaves = declined(status, "conv");
    if (!leaves)
        windows_conv(&args, &in, &weight, &out, has_bias ? &bias : NULL);
    *wrong = receive_all(all, 4);
    return leaves;
}

/* ---- pooling ------------------------------------------------------------ */

static void any_pool(tn_pool_args *args, int64_t extent[2][4])
{
    do {
        *args = (tn_pool_args){.size = sizeof *args,
                               .kind = random_below(&now.source, 5),
                               .count = random_between(&now.source, 1, 3),
                               .channels = random_between(&now.source, 1, 6),
                               .count_pad = random_below(&now.source, 2)};
        bool mean =
            args->kind == TN_POOL_AVG || args->kind == TN_POOL_AVG_BACK;
        if (mean && random_chance(&now.source, 30))
            args->divisor = random_between(&now.source, 1, 7);
        for (int a = 0; a < 2; a++) {
            int64_t kernel = random_between(&now.source, 1, 6);
            int64_t dilation = mean ? 1 : random_between(&now.source, 1, 2);
            int64_t reach = dilation * (kernel - 1);
            args->kernel[a] = kernel;
            args->dilation[a] = dilation;
            args->stride[a] = random_between(&now.source, 1, 4);
            args->pad[a] = random_between(&now.source, 0, kernel / 2);
            args->in_size[a] = reach + 1 + random_between(&now.source, 0, 12);
            int64_t windows =
                (args->in_size[a] + 2 * args->pad[a] - reach - 1) /
                    args->stride[a] +
                1;
            /* Sometimes adds a window that ends beyond the padding, as
             * ceil_mode does. */
            if (random_chance(&now.source, 30) &&
                windows * args->stride[a] < args->in_size[a] + args->pad[a])
                windows++;
            args->out_size[a] = windows;
        }
        const int64_t all[2][4] = {
            {args->count, args->channels, args->in_size[0], args->in_size[1]},
            {args->count, args->channels, args->out_size[0],
             args->out_size[1]}};
        memcpy(extent, all, sizeof all);
    } while (!fits(extent[0]) || !fits(extent[1]));
}

static int case_pool(const void *table, int64_t *wrong)
{
    const tn_pool_extension *pool = table;
    operand *const all[] = {&in, &out, &index_of};
    tn_pool_args args;
    int64_t extent[2][4];
    any_pool(&args, extent);
    tn_dtype dtype = any_float();
    bool dense = random_chance(&now.source, 70);
    bool back = args.kind == TN_POOL_MAX_BACK || args.kind == TN_POOL_AVG_BACK;
    bool max = args.kind == TN_POOL_MAX || args.kind == TN_POOL_MAX_BACK;
    lay_out(&in, dtype, 4, extent[0], dense, back);
    lay_out(&out, dtype, 4, extent[1], dense, !back);
    lay_out(&index_of, TN_I64, 4, extent[1], dense, args.kind == TN_POOL_MAX);
    uint32_t area = (uint32_t)(args.in_size[0] * args.in_size[1]);
    for (int64_t i = 0; i < index_of.count; i++)
        operand_store(&index_of, operand_offset(&index_of, i),
                      (tn_number){.i = random_below(&now.source, area)});
    operand_read(&index_of);
    for (int o = 0; o < 3; o++)
        operand_send(all[o]);
    args.in = in.view;
    args.out = out.view;
    if (max)
        args.index = index_of.view;
    operand_enter();
    tn_status status = pool->run(now.device->queue, &args);
    operand_leave();
    bool leaves = declined(status, "pool");
    if (!leaves)
        windows_pool(&args, &in, &out, &index_of);
    *wrong = receive_all(all, 3);
    return leaves;
}

/* ---- product ------------------------------------------------------------ */

static operand left, right, around, scales[2];

/* Lays out an operand contiguously and aligned, like a new tensor. */
static void lay_out_new(operand *o, tn_dtype dtype, uint32_t ndim,
                        const int64_t *extent)
{
    const int64_t more = 16 - 3; /* elements in memory before the operand's
                                  * first element */
    operand_init_dense(o, dtype, ndim, extent);
    o->view.offset += more;
    o->bytes += (size_t)more * random_dtype_bytes(dtype);
    memset(o->memory, 0x11, o->bytes);
    operand_fill(o, true);
}

/* Returns the activation of s that the epilogue flags in `words` select, or its
 * derivative. */
static double bent(uint32_t words, double s, bool derivative)
{
    const double inner = 0.7978845608028654 * (s + 0.044715 * s * s * s);
    const double phi = words & TN_PRODUCT_GELU ? erf(s * 0.7071067811865476)
                                               : tanh(inner);
    const double slope =
        words & TN_PRODUCT_GELU
            ? 0.7978845608028654 * exp(-0.5 * s * s)
            : (1 - phi * phi) * 0.7978845608028654 * (1 + 0.134145 * s * s);
    if (!(words & (TN_PRODUCT_GELU | TN_PRODUCT_GELU_TANH)))
        return !(words & TN_PRODUCT_RELU) ? derivative ? 1 : s
               : derivative               ? s > 0
               : s > 0                    ? s
                                          : 0;
    return derivative ? 0.5 * (1 + phi + s * slope) : 0.5 * s * (1 + phi);
}

/* Computes the expected values of out. The tolerance allows for rounding in the
 * sums and for rounding when a sum is stored. */
static void product_plain(const tn_product_args *args, double scale)
{
    const tn_dtype dtype = out.view.dtype;
    const double each = dtype == TN_F64 ? 0x1p-50 : 0x1p-21;
    const double stored = dtype == TN_F16    ? 0x1p-8
                          : dtype == TN_BF16 ? 0x1p-5
                                             : 0;
    for (int64_t i = 0; i < out.count; i++) {
        const int64_t row = i / args->n, column = i % args->n;
        double s = 0, size = 1;
        for (int64_t q = 0; q < args->k; q++) {
            double x = left.value[row * args->k + q].f *
                       right.value[q * args->n + column].f * scale;
            s += x;
            size += fabs(x);
        }
        if (args->epilogue & TN_PRODUCT_BIAS)
            s += bias.value[column].f;
        double x = args->epilogue & TN_PRODUCT_BACK
                       ? s * bent(args->epilogue, s, true)
                       : bent(args->epilogue, s, false);
        out.value[i] = operand_rounded(dtype, (tn_number){.f = x});
        out.tolerance[i] =
            (double)(args->k + 8) * size * each + (1 + fabs(s)) * stored;
    }
    for (int64_t i = 0; i < bias.count && args->epilogue & TN_PRODUCT_SUMS;
         i++) {
        double s = 0;
        for (int64_t q = 0; q < args->k; q++)
            s += left.value[i * args->k + q].f;
        bias.value[i] = operand_rounded(dtype, (tn_number){.f = s});
        bias.tolerance[i] = 0x1p10 * each + (1 + fabs(s)) * stored;
    }
}

static bool stores(tn_dtype dtype)
{
    return now.device->info.storage_types >> dtype & 1;
}

/* Chooses the arguments of a random matrix product and lays out its operands.
 * Returns the product of the scale factors of both matrices. */
static double any_product(tn_product_args *args)
{
    static const uint32_t bends[] = {0, TN_PRODUCT_RELU, TN_PRODUCT_GELU,
                                     TN_PRODUCT_GELU_TANH};
    tn_dtype dtype = any_float(), of[2] = {dtype, dtype};
    const uint32_t bend = bends[random_below(&now.source, 4)];
    const bool f8 = stores(TN_F8E4M3) && stores(TN_F8E5M2) &&
                    dtype != TN_F64 && random_chance(&now.source, 30);
    int64_t at = 16;
    in.view.dtype = dtype; /* operand_words() names this dtype in messages */
    *args = (tn_product_args){.size = sizeof *args, .epilogue = bend,
                              .m = 8 * random_between(&now.source, 1, 5),
                              .n = 8 * random_between(&now.source, 1, 5),
                              .k = 8 * random_between(&now.source, 1, 4),
                              .alpha = 1};
    if (bend && random_chance(&now.source, 50))
        args->epilogue |= TN_PRODUCT_KEEP;
    else if (!bend && random_chance(&now.source, 40))
        args->epilogue = TN_PRODUCT_SUMS;
    else if (random_chance(&now.source, 60))
        args->epilogue |= TN_PRODUCT_BIAS;
    for (int i = 0; i < 2 && f8; i++)
        of[i] = random_chance(&now.source, 70) ? TN_F8E4M3 : TN_F8E5M2;
    lay_out_new(&left, of[0], 2, (int64_t[]){args->m, args->k});
    lay_out_new(&right, of[1], 2, (int64_t[]){args->k, args->n});
    lay_out_new(&out, dtype, 2, (int64_t[]){args->m, args->n});
    lay_out_new(&bias, dtype, 1,
                args->epilogue & TN_PRODUCT_SUMS ? &args->m : &args->n);
    const bool mask = bend == TN_PRODUCT_RELU;
    lay_out_new(&around, mask ? TN_U8 : dtype, 2,
                (int64_t[]){args->m,
                            mask ? TN_PRODUCT_MASK(args->n) : args->n});
    for (int i = 0; i < 2; i++)
        lay_out_new(&scales[i], TN_F32, 0, &at);
    args->a = left.view, args->b = right.view, args->c = out.view;
    return f8 ? scales[0].value[0].f * scales[1].value[0].f : 1;
}

/* Runs one case of the extension "product". If the call had the flag KEEP,
 * which stores values for the gradient, then calls the extension with BACK on
 * the same operands. */
static int case_product(const void *table, int64_t *wrong)
{
    const tn_product_extension *product = table;
    operand *const all[] = {&left, &right, &out, &bias, &scales[0], &scales[1]};
    tn_product_args args;
    const double scale = any_product(&args);
    for (int o = 0; o < 6; o++)
        operand_send(all[o]);
    operand_send(&around);
    args.a = left.view, args.b = right.view, args.c = out.view;
    args.bias = bias.view, args.aux = around.view;
    if (random_dtype_bytes(left.view.dtype) == 1)
        args.scale_a = scales[0].view, args.scale_b = scales[1].view;
    bool leaves = false;
    for (int back = 0; back < 2 && !leaves; back++) {
        operand_enter();
        tn_status status = product->run(now.device->queue, &args);
        operand_leave();
        leaves = declined(status, "product");
        if (back || !(args.epilogue & TN_PRODUCT_KEEP) || leaves)
            break;
        args.epilogue ^= TN_PRODUCT_KEEP | TN_PRODUCT_BACK;
    }
    if (!leaves)
        product_plain(&args, scale);
    *wrong = receive_all(all, 6);
    if (leaves)
        *wrong += operand_receive(&around);
    return leaves;
}

/* ---- graph-replay ------------------------------------------------------- */

/* Records a copy as a graph, changes the source, and runs the graph twice. */
static int case_graph_replay(const void *table, int64_t *wrong)
{
    const tn_graph_replay_extension *graph = table;
    tn_queue *queue = now.device->queue;
    const int64_t extent = random_between(&now.source, 1, 4096);
    const tn_dtype dtype = any_float();
    const uint64_t element = random_dtype_bytes(dtype);
    tn_recorded *recorded = NULL;
    lay_out(&in, dtype, 1, &extent, true, false);
    lay_out(&out, dtype, 1, &extent, true, false);
    operand_send(&in);
    operand_send(&out);
    tn_copy_args copy = {
        .size = sizeof copy,
        .direction = TN_COPY_ON_DEVICE,
        .dst = out.view.buffer,
        .src = in.view.buffer,
        .dst_offset = (uint64_t)out.view.offset * element,
        .src_offset = (uint64_t)in.view.offset * element,
        .bytes = (uint64_t)extent * element,
        .rows = 1,
    };
    operand_enter();
    tn_status status = graph->begin(queue);
    if (!status) {
        operand_succeeded(now.device->plugin->copy(queue, &copy), "copy");
        status = graph->end(queue, &recorded);
    }
    operand_leave();
    if (declined(status, "graph-replay")) {
        *wrong += operand_receive(&out) + operand_receive(&in);
        return true;
    }
    for (int i = 0; i < 2 && !status; i++) {
        operand_fill(&in, true);
        operand_succeeded(by_hand_copy(now.device, in.view.buffer, 0, in.memory,
                                       in.bytes, true),
                          "a copy to the device");
        operand_enter();
        operand_succeeded(graph->run(queue, recorded, 0), "run");
        operand_leave();
    }
    memcpy(out.value, in.value, sizeof out.value);
    *wrong += operand_receive(&out) + operand_receive(&in);
    if (!status)
        graph->release(now.device->device, recorded);
    return false;
}

/* ---- launch-list -------------------------------------------------------- */

enum { LISTED = 3 };

/* out = in * parameter, in f32 */
static const tn_kernel_ins scale_ins[] = {
    {TN_K_LOAD, TN_F32, TN_LEVEL_ELEM, 0, TN_NONE, TN_NONE, TN_NONE, {0}},
    {TN_K_PARAM, TN_F32, TN_LEVEL_UNIFORM, 0, TN_NONE, TN_NONE, TN_NONE, {0}},
    {TN_K_MUL, TN_F32, TN_LEVEL_ELEM, 0, 0, 1, TN_NONE, {0}},
    {TN_K_STORE, TN_F32, TN_LEVEL_ELEM, 0, 2, TN_NONE, TN_NONE, {1}}};
static const tn_program scale = {
    .size = sizeof scale,
    .ins_count = 4,
    .operand_count = 2,
    .param_count = 1,
    .stage_count = 1,
    .order_count = 4,
    .uniform_count = 1,
    .ins = scale_ins,
    .operand = (const tn_kernel_operand[]){
        {TN_F32, TN_OPERAND_READ, TN_LEVEL_ELEM, 0},
        {TN_F32, TN_OPERAND_WRITE, TN_LEVEL_ELEM, 0}},
    .param_dtype = (const uint8_t[]){TN_F32},
    .stage = (const tn_kernel_stage[]){{1, 3, 4, 0}},
    .order = (const uint32_t[]){1, 0, 2, 3},
    .key = {0x5ca1e, 1}};

/* Prepares three launches over parts of one input, and runs them twice: with
 * other parts, other buffers for the result and other parameters. */
static int case_launch_list(const void *table, int64_t *wrong)
{
    const tn_launch_list_extension *lists = table;
    operand *const result[2] = {&out, &weight};
    tn_launch_operand given[LISTED][2];
    int64_t extent[LISTED], first[LISTED], all = 0;
    const int64_t one = 1;
    tn_number parameter[LISTED];
    tn_launch launch[LISTED];
    tn_launch_item item[LISTED];
    tn_built *built = NULL;
    tn_launch_list *list = NULL;
    for (int i = 0; i < LISTED; i++, all += extent[i - 1]) {
        extent[i] = random_between(&now.source, 0, 1200);
        first[i] = all;
    }
    all += all == 0;
    lay_out(&in, TN_F32, 1, &all, true, false);
    lay_out(&out, TN_F32, 1, &all, true, true);
    lay_out(&weight, TN_F32, 1, &all, true, true);
    operand_send(&in);
    operand_send(&out);
    operand_send(&weight);
    if (!operand_succeeded(now.device->plugin->program_build(
                               now.device->device, &scale, &built),
                           "program_build"))
        return false;
    for (int i = 0; i < LISTED; i++) {
        given[i][0] = (tn_launch_operand){in.view.buffer, in.view.offset, &one,
                                          NULL, NULL};
        given[i][1] = (tn_launch_operand){out.view.buffer, out.view.offset,
                                          &one, NULL, NULL};
        given[i][0].offset += first[i];
        given[i][1].offset += first[i];
        parameter[i].f = i + 2;
        launch[i] = (tn_launch){.size = sizeof launch[i],
                                .outer_ndim = 1,
                                .extent = &extent[i],
                                .operand = given[i],
                                .param = &parameter[i]};
        item[i] = (tn_launch_item){built, &launch[i]};
    }
    operand_enter();
    tn_status status =
        lists->prepare(now.device->queue, item, LISTED, &list);
    operand_leave();
    const bool leaves = declined(status, "prepare");
    for (int r = 0; r < 2 && !leaves && !status; r++) {
        for (int i = 0; i < LISTED; i++) {
            /* The second run reads the input from its end on. */
            const int64_t at = r ? all - first[i] - extent[i] : first[i];
            given[i][0].offset = in.view.offset + at;
            given[i][1].buffer = result[r]->view.buffer;
            given[i][1].offset = result[r]->view.offset + first[i];
            parameter[i].f = (r ? 0.5 : 2) + i;
            for (int64_t e = 0; e < extent[i]; e++)
                result[r]->value[first[i] + e] = operand_eval(
                    TN_K_MUL, TN_F32, in.value[at + e], parameter[i]);
        }
        operand_enter();
        operand_succeeded(lists->run(now.device->queue, list, 0), "run");
        operand_leave();
    }
    *wrong = operand_receive(&in) + operand_receive(&out) +
             operand_receive(&weight);
    if (list)
        lists->release(now.device->device, list);
    now.device->plugin->program_free(now.device->device, built);
    return leaves;
}

/* ---- attention ---------------------------------------------------------- */

static void any_attention(tn_attention_args *args, int64_t extent[4][4])
{
    static const int64_t most[] = {8, 40, 130};
    do {
        *args = (tn_attention_args){
            .size = sizeof *args,
            .kind = random_below(&now.source, 2),
            .flags = random_below(&now.source, 2),
            .batch = random_between(&now.source, 1, 2),
            .kv_heads = random_between(&now.source, 1, 2),
            .queries = random_between(&now.source, 1, 70),
            .keys = random_between(&now.source, 1, 70),
            .features = random_between(&now.source, 1,
                                       most[random_below(&now.source, 3)]),
            .values = random_between(&now.source, 1,
                                     most[random_below(&now.source, 3)]),
            .scale = (double)random_between(&now.source, 1, 8) / 8,
            .dropout = random_below(&now.source, 3) / 8.0,
            .seed = random_between(&now.source, 0, 1000),
            .call = random_between(&now.source, 0, 1000)};
        args->heads = args->kv_heads * random_between(&now.source, 1, 2);
        const int64_t all[4][4] = {
            {args->batch, args->heads, args->queries, args->features},
            {args->batch, args->kv_heads, args->keys, args->features},
            {args->batch, args->kv_heads, args->keys, args->values},
            {args->batch, args->heads, args->queries, args->values}};
        memcpy(extent, all, sizeof all);
    } while (!fits(extent[0]) || !fits(extent[1]) || !fits(extent[2]) ||
             !fits(extent[3]) ||
             args->batch * args->heads * args->queries * args->keys >
                 OPERAND_POINTS);
}

/* Fills an operand with numbers in [-1, 1]. Then results depend on correct
 * rounding, and no score is so large that softmax ignores the others. */
static void fill_small(operand *o)
{
    for (int64_t i = 0; i < o->count; i++)
        operand_store(o, operand_offset(o, i),
                      (tn_number){
                          .f = (double)random_between(&now.source, -999, 999) /
                               1000});
    operand_read(o);
}

static int case_attention(const void *table, int64_t *wrong)
{
    static operand made[ATTENTION_OPERANDS];
    const tn_attention_extension *attention = table;
    operand *all[ATTENTION_OPERANDS];
    tn_attention_args args;
    int64_t extent[4][4];
    any_attention(&args, extent);
    const bool back = args.kind == TN_ATTENTION_BACKWARD;
    /* For each operand, the index of its shape in extent[]. -1 means the shape
     * of mask, -2 the shape of lse. */
    static const int shape[] = {0, 1, 2, -1, 3, -2, 3, 0, 1, 2};
    tn_strided *const view[] = {&args.q,   &args.k,   &args.v, &args.mask,
                                &args.out, &args.lse, &args.g, &args.dq,
                                &args.dk,  &args.dv};
    const int64_t scores[] = {args.batch, args.heads, args.queries, args.keys};
    tn_dtype dtype = any_float();
    tn_dtype mask_dtype = random_chance(&now.source, 50) ? TN_BOOL
                          : random_chance(&now.source, 50) ? TN_F32
                                                           : dtype;
    bool dense = random_chance(&now.source, 70);
    bool masked = random_chance(&now.source, 50);
    for (int o = 0; o < ATTENTION_OPERANDS; o++) {
        bool writes = back ? o >= ATTENTION_DQ
                           : o == ATTENTION_OUT || o == ATTENTION_LSE;
        all[o] = &made[o];
        lay_out(all[o],
                o == ATTENTION_MASK  ? mask_dtype
                : o == ATTENTION_LSE ? TN_F32
                                     : dtype,
                o == ATTENTION_LSE ? 3 : 4,
                shape[o] < 0 ? scores : extent[shape[o]],
                dense || o == ATTENTION_LSE, writes);
        if (o != ATTENTION_MASK || mask_dtype != TN_BOOL)
            fill_small(all[o]);
    }
    if (!masked)
        all[ATTENTION_MASK] = NULL;
    if (back) /* computes out and lse, which the backward call reads */
        attention_forward(&args, all);
    for (int o = ATTENTION_OUT; back && o <= ATTENTION_LSE; o++) {
        for (int64_t i = 0; i < all[o]->count; i++)
            operand_store(all[o], operand_offset(all[o], i),
                          all[o]->value[i]);
        operand_read(all[o]);
        memset(all[o]->tolerance, 0, sizeof all[o]->tolerance);
    }
    for (int o = 0; o < ATTENTION_OPERANDS; o++)
        if (all[o]) {
            operand_send(all[o]);
            *view[o] = all[o]->view;
        }
    operand_enter();
    tn_status status = attention->fits(now.device->device, &args);
    if (!status)
        status = attention->run(now.device->queue, &args);
    operand_leave();
    bool leaves = declined(status, "attention");
    if (!leaves && back)
        attention_backward(&args, all);
    else if (!leaves)
        attention_forward(&args, all);
    for (int o = 0; o < ATTENTION_OPERANDS; o++)
        *wrong += all[o] ? operand_receive(all[o]) : 0;
    in.view.dtype = dtype; /* operand_words() names this dtype in messages */
    return leaves;
}

/* ---- lapack ------------------------------------------------------------- */

static int case_lapack(const void *table, int64_t *wrong)
{
    in.view.dtype = TN_F32; /* operand_words() names this dtype in messages */
    return declined(lapack_case(table, wrong), "lapack");
}

/* ---- quantised-product -------------------------------------------------- */

static int case_quantised_product(const void *table, int64_t *wrong)
{
    in.view.dtype = TN_U8; /* operand_words() names this dtype in messages */
    return declined(quantised_case(table, wrong), "quantised-product");
}

/* ---- epilogue ----------------------------------------------------------- */

static int case_epilogue(const void *table, int64_t *wrong)
{
    in.view.dtype = TN_F32; /* operand_words() names this dtype in messages */
    return declined(epilogue_case(table, wrong), "epilogue");
}

/* ---- a case ------------------------------------------------------------- */

const char *const extension_names[EXTENSION_COUNT] = {
#define NAME(id, text) text,
    TN_EXTENSION_MAP(NAME)
#undef NAME
};

const void *extension_table(const by_hand *h, int extension)
{
    return h->plugin->extension
               ? h->plugin->extension(extension_names[extension], 1)
               : NULL;
}

int extension_case(const by_hand *h, int extension, const void *table,
                   uint64_t seed, char *why, size_t room)
{
    static int (*const cases[])(const void *table, int64_t *wrong) = {
#define CASE(id, text) case_##id,
        TN_EXTENSION_MAP(CASE)
#undef CASE
    };
    operand_case_begin(h, seed);
    in.name = "in";
    weight.name = "weight";
    out.name = "out";
    bias.name = "bias";
    index_of.name = "index";
    int64_t different = 0;
    bool leaves = cases[extension](table, &different);
    if (*now.trouble)
        snprintf(why, room, "%s", now.trouble);
    else if (different && leaves)
        snprintf(why, room, "declines (%s), but has written to an operand",
                 by_hand_failure());
    else if (different)
        snprintf(why, room,
                 "%s of %s: %s%s%" PRId64 " values in all differ from the "
                 "definition in plugin.h",
                 extension_names[extension],
                 random_dtype_name(in.view.dtype), now.wrong,
                 *now.wrong ? "; " : "", different);
    else if (leaves)
        snprintf(why, room, "%s", by_hand_failure());
    return *now.trouble || different ? EXTENSION_WRONG
           : leaves                  ? EXTENSION_DECLINED
                                     : EXTENSION_RIGHT;
}
