/* printed.c: see printed.h. */
#include "printed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/check/random_program.h"
#include "../tap.h"
#include "base/error.h"
#include "base/memory.h"
#include "kernel/device.h"
#include "kernel/kernel.h"
#include "ops/ops.h"

static const printed *find(const printed_list *list, const uint64_t key[2])
{
    for (int i = 0; i < list->count; i++)
        if (memcmp(list->item[i].key, key, sizeof list->item[i].key) == 0)
            return &list->item[i];
    return NULL;
}

static void add(printed_list *list, const tn_target *target,
                const tn_program *program, const tn_plan *plan,
                tn_status planned, const char *what)
{
    tn_source source = {.size = sizeof source};
    list->asked++;
    if (planned == TN_OK && find(list, plan->key))
        return;
    if (planned != TN_OK ||
        tn__print(target, program, plan, &source) != TN_OK) {
        note("%s: %s", what, tn_error());
        tn_error_clear();
        list->failed++;
        return;
    }
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 256;
        list->item =
            realloc(list->item, (size_t)list->room * sizeof *list->item);
        if (!list->item)
            bail_out("out of memory");
    }
    list->item[list->count++] =
        (printed){.key = {plan->key[0], plan->key[1]},
                  .f64 = target->flags & TN_TARGET_F64,
                  .text = strdup(source.text),
                  .what = strdup(what)};
    tn__print_free(&source);
}

void printed_release(printed_list *list)
{
    for (int i = 0; i < list->count; i++) {
        free(list->item[i].text);
        free(list->item[i].what);
    }
    free(list->item);
}

/* ---- programs ------------------------------------------------------------ */

/* Over 12 rows of 48 elements: side by side in memory, so from an odd place
 * on, or with the strides of a slice. */
enum { SIDE_BY_SIDE, FROM_AN_ODD_PLACE, SLICED };

static void add_program(printed_list *list, const tn_target *target,
                        const tn_program *program, int layout,
                        const char *what)
{
    static const int64_t extent[2] = {12, 48}, one[3] = {1, 1, 1};
    static const int64_t stride[][2] = {{48, 1}, {48, 1}, {100, 2}};
    static const int64_t row_stride[2] = {1, 0};
    static const tn_number param[TN__KERNEL_MAX_PARAMS];
    tn_launch_operand operand[TN_PLAN_BUFFERS];
    for (uint32_t k = 0; k < program->operand_count; k++)
        operand[k] = (tn_launch_operand){
            .stride = program->operand[k].level == TN_LEVEL_ROW
                          ? row_stride : stride[layout],
            .offset = layout == FROM_AN_ODD_PLACE,
            .index_stride = one,
            .index_extent = one};
    tn_launch launch = {.size = sizeof launch, .outer_ndim = 1, .row_ndim = 1,
                        .extent = extent, .operand = operand, .param = param};
    tn_plan plan = {.size = sizeof plan};
    add(list, target, program, &plan,
        tn__plan_program(target, program, &launch, &plan), what);
}

void printed_random(printed_list *list, const tn_target *target,
                    uint64_t first_seed, int count)
{
    for (int i = 0; i < count; i++) {
        char what[64];
        random_case *c = random_case_new(first_seed + (uint64_t)i);
        if (!c)
            bail_out("out of memory");
        snprintf(what, sizeof what, "random program %" PRIu64, c->seed);
        tn_plan plan = {.size = sizeof plan};
        tn_status status =
            tn__plan_program(target, &c->program, &c->launch, &plan);
        if (status == TN_ERR_UNSUPPORTED && !(target->flags & TN_TARGET_F64))
            tn_error_clear(); /* refused, as it must be */
        else
            add(list, target, &c->program, &plan, status, what);
        random_case_free(c);
    }
}

/* ---- rows of the table ---------------------------------------------------- */

static bool takes_part(const tn_op *op, int i)
{
    return op->role[i] == TN__ROLE_OPERAND || op->role[i] == TN__ROLE_PARAM;
}

/* The row's body as a definition over its tensor arguments; dtype arguments,
 * whose names are conversions in it, convert to f32. */
static char *definition(const tn_op *op, const char *body)
{
    tn__text text = {.data = NULL};
    const char *before = "";
    tn__text_add(&text, "%s(", op->name);
    for (int i = 0; i < op->arg_count; i++)
        if (op->role[i] == TN__ROLE_OPERAND) {
            tn__text_add(&text, "%s%s", before, op->arg[i].name);
            before = ", ";
        }
    for (const char *e = op->extra; *e; e++)
        if (*e != 'r') {
            tn__text_add(&text, "%s%s: offset", before,
                         *e == 'e' ? "element" : "position");
            before = ", ";
        }
    before = "; ";
    for (int i = 0; i < op->arg_count; i++)
        if (takes_part(op, i) && op->role[i] == TN__ROLE_PARAM) {
            tn__text_add(&text, "%s%s", before, op->arg[i].name);
            before = ", ";
        }
    if (strchr(op->extra, 'r'))
        tn__text_add(&text, "%sseed: i64, call: i64", before);
    tn__text_add(&text, ") = ");
    while (*body) {
        size_t word = strspn(body, "abcdefghijklmnopqrstuvwxyz_"
                                   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
        bool converts = false;
        for (int i = 0; i < op->arg_count; i++)
            converts = converts || (op->role[i] == TN__ROLE_DTYPE &&
                                    strlen(op->arg[i].name) == word &&
                                    memcmp(op->arg[i].name, body, word) == 0);
        if (converts)
            tn__text_add(&text, "f32");
        else
            tn__text_add_bytes(&text, body, word ? word : 1);
        body += word ? word : 1;
    }
    return tn__text_finish(&text);
}

/* False: the body is not for inputs of this dtype. */
static bool add_row(printed_list *list, const tn_target *target,
                    const tn_op *op, const char *body, tn_dtype dtype)
{
    tn_dtype dtypes[TN__KERNEL_MAX_INPUTS];
    char what[128], *text = definition(op, body);
    tn__def *def = text ? tn__def_parse(text, op->name) : NULL;
    const tn__kernel *kernel = NULL;
    for (int k = 0; def && k < tn__def_input_count(def); k++)
        dtypes[k] = tn__def_input_is_offset(def, k) ? TN_DTYPE_NONE : dtype;
    if (def)
        kernel = tn__def_kernel(def, dtypes);
    const tn_program *program = kernel ? tn__kernel_program(kernel) : NULL;
    tn_error_clear();
    tn__free(text);
    if (!program)
        return false;
    snprintf(what, sizeof what, "%s of %s", op->name, tn_dtype_name(dtype));
    add_program(list, target, program, SIDE_BY_SIDE, what);
    if (dtype == TN_F32) {
        add_program(list, target, program, FROM_AN_ODD_PLACE, what);
        add_program(list, target, program, SLICED, what);
    }
    return true;
}

void printed_rows(printed_list *list, const tn_target *target, int *rows)
{
    static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_I64, TN_BOOL, TN_F64};
    for (int i = 0; i < tn_op_count(); i++) {
        const tn_op *op = tn_op_at(i);
        bool any = false;
        if (op->sort != TN__OP_KERNEL)
            continue;
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            if (dtypes[d] == TN_F64 && !(target->flags & TN_TARGET_F64))
                continue;
            any |= add_row(list, target, op, op->kernel, dtypes[d]);
            if (op->with)
                any |= add_row(list, target, op, op->with, dtypes[d]);
        }
        if (!any)
            note("%s: its body alone is no definition", op->name);
        *rows += any;
    }
}

/* ---- primitives ------------------------------------------------------------ */

static void add_primitives(printed_list *list, const tn_target *target,
                           tn_dtype dtype)
{
    tn_buffer *buffer = (tn_buffer *)list; /* any address; nothing runs */
    tn_strided view = {.buffer = buffer, .dtype = dtype, .ndim = 2,
                       .stride = {50, 1}};
    tn_plan plan = {.size = sizeof plan};
    char what[64];
    snprintf(what, sizeof what, "matmul of %s", tn_dtype_name(dtype));
    tn_matmul_args mm = {.size = sizeof mm, .m = 50, .n = 50, .k = 50,
                         .a = view, .b = view, .c = view, .alpha = 1};
    add(list, target, NULL, &plan, tn__plan_matmul(target, &mm, &plan), what);
    mm.n = 2000; /* b is far: copied in strips */
    add(list, target, NULL, &plan, tn__plan_matmul(target, &mm, &plan), what);
    mm.b.stride[0] = 1; /* and turned */
    mm.b.stride[1] = 50;
    add(list, target, NULL, &plan, tn__plan_matmul(target, &mm, &plan), what);
    for (uint32_t kind = 0; kind < TN_SCATTER_END; kind++) {
        tn_scatter_args s = {.size = sizeof s, .ndim = 2, .reduce = kind,
                             .extent = {50, 50}, .dst_extent = 50,
                             .dst = view, .index = view, .src = view};
        snprintf(what, sizeof what, "scatter %u of %s", kind,
                 tn_dtype_name(dtype));
        add(list, target, NULL, &plan, tn__plan_scatter(target, &s, &plan),
            what);
    }
    for (uint32_t kind = 0; kind <= TN_REDUCE_MIN; kind++)
        for (int index = 0; index <= (kind >= TN_REDUCE_MAX); index++) {
            tn_scan_args s = {.size = sizeof s, .ndim = 2, .kind = kind,
                              .extent = {50, 50}, .in = view, .out = view};
            if (index)
                s.out_index = view;
            snprintf(what, sizeof what, "scan %u of %s", kind,
                     tn_dtype_name(dtype));
            add(list, target, NULL, &plan, tn__plan_scan(target, &s, &plan),
                what);
        }
    for (uint32_t flags = 0; flags <= TN_SORT_DESCENDING; flags++)
        for (int outs = 1; outs < 4; outs++) {
            tn_sort_args s = {.size = sizeof s, .ndim = 2, .flags = flags,
                              .extent = {50, 50}, .keep = 50, .in = view};
            if (outs & 1)
                s.out = view;
            if (outs & 2)
                s.out_index = view;
            snprintf(what, sizeof what, "sort of %s", tn_dtype_name(dtype));
            add(list, target, NULL, &plan, tn__plan_sort(target, &s, &plan),
                what);
        }
}

/* Forward and both steps backward; each way to mask and each length of rows in
 * local memory once. */
static void add_attention(printed_list *list, const tn_target *target,
                          tn_dtype dtype)
{
    tn_buffer *buffer = (tn_buffer *)list; /* any address; nothing runs */
    static const tn_dtype masks[] = {TN_DTYPE_NONE, TN_BOOL, TN_F32, TN_BF16};
    static const int64_t sizes[] = {16, 32, 64, 128};
    for (int i = 0; i < 4; i++)
        for (int step = -1; step < 2; step++) {
            tn_attention_args a = {
                .size = sizeof a,
                .kind = step < 0 ? TN_ATTENTION_FORWARD
                                 : TN_ATTENTION_BACKWARD,
                .flags = i % 2 ? 0 : TN_ATTENTION_CAUSAL,
                .batch = 1, .heads = 1, .kv_heads = 1, .queries = 100,
                .keys = 100, .features = sizes[i], .values = sizes[3 - i],
                .dropout = i < 2 ? 0.5 : 0, .q = {.dtype = dtype}};
            if (masks[i])
                a.mask = (tn_strided){.buffer = buffer, .dtype = masks[i]};
            tn_plan plan = {.size = sizeof plan,
                            .step = step < 0 ? 0 : (uint32_t)step};
            char what[64];
            snprintf(what, sizeof what, "attention %d of %s", step,
                     tn_dtype_name(dtype));
            add(list, target, NULL, &plan,
                tn__plan_attention(target, &a, &plan), what);
        }
}

void printed_attention(printed_list *list, const tn_target *target)
{
    add_attention(list, target, TN_F16);
    add_attention(list, target, TN_BF16);
}

/* Each of the three in small tiles and in large ones, with a bias and without,
 * in numbers of 32 bits and of 64. */
static void add_conv(printed_list *list, const tn_target *target,
                     tn_dtype dtype)
{
    tn_buffer *buffer = (tn_buffer *)list; /* any address; nothing runs */
    for (uint32_t kind = TN_CONV_FORWARD; kind <= TN_CONV_WEIGHT; kind++)
        for (int way = 0; way < 4; way++) {
            const int64_t channels = way & 1 ? 200 : 2;
            const tn_strided view = {.buffer = buffer, .dtype = dtype};
            tn_conv_args c = {
                .size = sizeof c, .kind = kind, .groups = 1, .count = 4,
                .in_channels = channels, .out_channels = channels,
                .in_size = {19, 19}, .kernel = {3, 3}, .out_size = {9, 9},
                .stride = {2, 2}, .dilation = {1, 1}, .in = view,
                .weight = view, .out = view};
            if (way > 1 && kind == TN_CONV_FORWARD)
                c.bias = view;
            else if (way > 1)
                c.out.offset = c.in.offset = (int64_t)1 << 40;
            tn_plan plan = {.size = sizeof plan};
            char what[64];
            snprintf(what, sizeof what, "convolution %u of %s", (unsigned)kind,
                     tn_dtype_name(dtype));
            do
                add(list, target, NULL, &plan,
                    tn__plan_conv(target, &c, &plan), what);
            while (++plan.step < plan.step_count);
        }
}

void printed_primitives(printed_list *list, const tn_target *target)
{
    if (!(target->flags & TN_TARGET_CHUNKED)) {
        add_attention(list, target, TN_F32);
        printed_attention(list, target);
        add_conv(list, target, TN_F32);
        add_conv(list, target, TN_F16);
        if (target->flags & TN_TARGET_F64)
            add_conv(list, target, TN_F64);
    }
    for (tn_dtype dtype = TN_DTYPE_NONE + 1; dtype < TN_DTYPE_END; dtype++)
        if (dtype != TN_F64 || target->flags & TN_TARGET_F64)
            add_primitives(list, target, dtype);
}
