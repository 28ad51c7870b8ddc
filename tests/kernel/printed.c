/* printed.c: prints the kernel sources that tests compile; see printed.h. */
#include "printed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/check/random_program.h"
#include "../tap.h"
#include "base/error.h"
#include "base/memory.h"
#include "source/source.h"
#include "kernel/kernel.h"
#include "ops/engine/ops.h"

tn_target printed_target(uint32_t flags)
{
    return (tn_target){.size = sizeof(tn_target), .flags = flags, .units = 2,
                       .group_limit = 256, .argument_room = 1024,
                       .fault_room = 4096, .local_bytes = 32768};
}

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
                  .flags = target->flags,
                  .kernel = source.kernel,
                  .text = strdup(source.text),
                  .what = strdup(what)};
    if (!list->item[list->count - 1].text || !list->item[list->count - 1].what)
        bail_out("out of memory");
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

/* Returns a device that reads its kernels' argument words from a buffer. */
static tn_target without_argument_room(const tn_target *target)
{
    tn_target poor = *target;
    poor.argument_room = 0;
    return poor;
}

#define FAR ((int64_t)1 << 40) /* an offset for which indices need 64 bits */

/* Layouts of operands. Work-items reduce a row in chunks of its elements.
 *
 *   SIDE_BY_SIDE        contiguous rows
 *   FROM_AN_ODD_PLACE   contiguous rows that begin at an odd offset
 *   SLICED              rows with a stride, of several chunks
 *   FAR_AWAY            offsets of more than 32 bits; rows with more chunks than
 *                       a work-group has work-items; arguments in a buffer
 *   SHARED              so few and long rows that several work-groups reduce
 *                       each row */
enum { SIDE_BY_SIDE, FROM_AN_ODD_PLACE, SLICED, FAR_AWAY, SHARED, LAYOUTS };

static void add_program(printed_list *list, const tn_target *target,
                        const tn_program *program, int layout,
                        const char *what)
{
    static const struct {
        int64_t extent[2], stride[2], offset;
    } of[LAYOUTS] = {{{12, 48}, {48, 1}, 0},
                     {{12, 48}, {48, 1}, 1},
                     {{12, 5000}, {20000, 2}, 0},
                     {{12, 20000}, {20000, 1}, FAR},
                     {{2, 300000}, {300000, 1}, 0}};
    static const int64_t one[3] = {1, 1, 1}, row_stride[2] = {1, 0};
    static const tn_number param[TN__KERNEL_MAX_PARAMS];
    const tn_target poor = without_argument_room(target);
    tn_launch_operand operand[TN_PLAN_BUFFERS];
    for (uint32_t k = 0; k < program->operand_count; k++)
        operand[k] = (tn_launch_operand){
            .stride = program->operand[k].level == TN_LEVEL_ROW
                          ? row_stride : of[layout].stride,
            .offset = of[layout].offset,
            .index_stride = one,
            .index_extent = one};
    tn_launch launch = {.size = sizeof launch, .outer_ndim = 1, .row_ndim = 1,
                        .extent = of[layout].extent, .operand = operand,
                        .param = param};
    tn_plan plan = {.size = sizeof plan};
    if (layout == FAR_AWAY)
        target = &poor;
    do
        add(list, target, program, &plan,
            tn__plan_program(target, program, &launch, &plan), what);
    while (++plan.step < plan.step_count);
}

static void add_case(printed_list *list, const tn_target *target,
                     random_case *c)
{
    char what[64];
    if (!c)
        bail_out("out of memory");
    snprintf(what, sizeof what, "random program %" PRIu64, c->seed);
    tn_plan plan = {.size = sizeof plan};
    do {
        tn_status status =
            tn__plan_program(target, &c->program, &c->launch, &plan);
        if (status == TN_ERR_UNSUPPORTED && !(target->flags & TN_TARGET_F64))
            tn_error_clear(); /* the kernel was rejected, as it must be */
        else
            add(list, target, &c->program, &plan, status, what);
    } while (++plan.step < plan.step_count);
    random_case_free(c);
}

void printed_random(printed_list *list, const tn_target *target,
                    uint64_t first_seed, int count)
{
    for (int i = 0; i < count; i++)
        add_case(list, target, random_case_new(first_seed + (uint64_t)i));
}

void printed_shared(printed_list *list, const tn_target *target,
                    uint64_t first_seed, int count)
{
    tn_target small = *target;
    small.group_limit = 16;
    for (int i = 0; i < count; i++)
        add_case(list, &small, random_case_of_chunks(first_seed + (uint64_t)i));
}

/* ---- operators of the table ---------------------------------------------- */

static bool takes_part(const tn_op *op, int i)
{
    return op->role[i] == TN__ROLE_OPERAND || op->role[i] == TN__ROLE_PARAM;
}

/* Returns the operator's body as a definition over its tensor arguments. In a
 * body the names of dtype arguments are conversions; here they convert to
 * float32. */
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
    if (op->extra & TN__READS_ELEMENT) {
        tn__text_add(&text, "%selement: offset", before);
        before = ", ";
    }
    if (op->extra & TN__READS_POSITION) {
        tn__text_add(&text, "%sposition: offset", before);
        before = ", ";
    }
    before = "; ";
    for (int i = 0; i < op->arg_count; i++)
        if (takes_part(op, i) && op->role[i] == TN__ROLE_PARAM) {
            tn__text_add(&text, "%s%s", before, op->arg[i].name);
            before = ", ";
        }
    for (int i = 0; i < op->arg_count; i++)
        if (op->role[i] == TN__ROLE_DTYPE) {
            tn__text_add(&text, "%s%s: type", before, op->arg[i].name);
            before = ", ";
        }
    if (op->extra & TN__READS_SEED)
        tn__text_add(&text, "%sseed: i64, call: i64", before);
    tn__text_add(&text, ") = ");
    tn__text_add(&text, "%s", body);
    return tn__text_finish(&text);
}

/* Adds float32 in each of these layouts, and other dtypes in the simplest
 * layout. */
static void add_kernel(printed_list *list, const tn_target *target,
                       const tn__kernel *kernel, unsigned layouts,
                       const char *what)
{
    const tn_program *program = tn__kernel_program(kernel);
    if (!program) {
        note("%s: %s", what, tn_error());
        tn_error_clear();
        list->failed++;
        return;
    }
    if (!kernel->input_count || kernel->input[0].dtype != TN_F32)
        layouts = 1u << SIDE_BY_SIDE;
    for (int layout = 0; layout < LAYOUTS; layout++)
        if (layouts >> layout & 1)
            add_program(list, target, program, layout, what);
}

/* Returns the gradient for input k that the table defines explicitly; NULL if
 * there is none or if it is derived. */
static const tn__kernel *written_gradient(const tn_op *op, tn__def *def,
                                          const tn__kernel *kernel, int k,
                                          bool *none)
{
    const char *text = NULL;
    for (int i = 0; op->rare->grad && i < op->arg_count; i++)
        if (strcmp(op->arg[i].name, kernel->input[k].name) == 0)
            text = op->rare->grad[i];
    *none = text && strcmp(text, "none") == 0;
    if (!text || *none)
        return NULL;
    tn_dtype dtypes[TN__KERNEL_MAX_INPUTS];
    int used[TN__KERNEL_MAX_INPUTS];
    tn__def *gradient = tn__def_gradient_parse(def, k, text, op->name);
    if (!gradient)
        return NULL;
    for (int i = 0; i < tn__def_gradient_used(gradient, used); i++)
        dtypes[i] = used[i] < kernel->input_count
                        ? kernel->input[used[i]].dtype
                        : kernel->out[(used[i] - kernel->input_count) %
                                      kernel->output_count].dtype;
    return tn__def_kernel(gradient, dtypes);
}

static void add_gradients(printed_list *list, const tn_target *target,
                          const tn_op *op, tn__def *def,
                          const tn__kernel *kernel, const char *of)
{
    for (int k = 0; k < kernel->input_count; k++) {
        int used[TN__KERNEL_MAX_INPUTS];
        char what[160];
        bool zero = false;
        if (!kernel->input[k].dtype)
            continue; /* the input is an offset */
        const tn__kernel *gradient =
            written_gradient(op, def, kernel, k, &zero);
        if (!gradient && !zero && !tn_error())
            gradient = tn__kernel_gradient(kernel, k, used, &zero);
        tn_error_clear(); /* the operator has no derivative */
        snprintf(what, sizeof what, "%s, gradient of input %d", of, k);
        if (gradient)
            add_kernel(list, target, gradient,
                       1u << SIDE_BY_SIDE | 1u << FAR_AWAY, what);
    }
}

/* Adds an operator. Returns false if its body does not accept inputs of this
 * dtype. */
static bool add_row(printed_list *list, const tn_target *target,
                    const tn_op *op, const char *body, tn_dtype dtype)
{
    tn_dtype dtypes[TN__KERNEL_MAX_INPUTS];
    char what[128], *text = definition(op, body);
    tn__def *def = text ? tn__def_parse(text, op->name) : NULL;
    const tn__kernel *kernel = NULL;
    for (int k = 0; def && k < tn__def_input_count(def); k++)
        dtypes[k] = tn__def_input_is_offset(def, k) ? TN_DTYPE_NONE : dtype;
    for (int t = 0; def && t < tn__def_type_count(def); t++)
        dtypes[tn__def_input_count(def) + t] = TN_F32;
    if (def)
        kernel = tn__def_kernel(def, dtypes);
    tn_error_clear();
    tn__free(text);
    if (!kernel)
        return false;
    snprintf(what, sizeof what, "%s of %s", op->name, tn_dtype_name(dtype));
    add_kernel(list, target, kernel, (1u << LAYOUTS) - 1, what);
    if (op->differentiable && tn_dtype_is_floating(dtype))
        add_gradients(list, target, op, def, kernel, what);
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

/* ---- primitives ---------------------------------------------------------- */

/* The dimensions of a primitive in addition to its line or matrices: one with
 * small offsets; three that do not merge, with large offsets; two, with
 * argument words in a buffer. */
static const struct way {
    bool is_far, in_buffer;
    uint32_t outer;
} ways[] = {{false, false, 1}, {true, false, 3}, {false, true, 2}};

static void add_matmul(printed_list *list, const tn_target *target,
                       const struct way *way, const tn_strided *view,
                       const int64_t *extent, const char *what)
{
    tn_matmul_args mm = {.size = sizeof mm, .batch_ndim = way->outer,
                         .m = 50, .n = 50, .k = 50,
                         .a = *view, .b = *view, .c = *view, .alpha = 1};
    memcpy(mm.batch, extent, way->outer * sizeof *extent);
    for (int form = 0; form < 3; form++) {
        tn_plan plan = {.size = sizeof plan};
        mm.n = form ? 2000 : 50; /* b is large, so it is copied in strips */
        if (form == 2) {         /* b is transposed */
            mm.b.stride[way->outer] = 1;
            mm.b.stride[way->outer + 1] = 50;
        }
        add(list, target, NULL, &plan, tn__plan_matmul(target, &mm, &plan),
            what);
    }
}

/* Scatters with short lines; with small and large lines that a work-group holds
 * in shared memory; and the last step of a scatter with sorted indices. */
static void add_scatters(printed_list *list, const tn_target *target,
                         uint32_t ndim, const tn_strided *view,
                         const int64_t *extent, const char *dtype)
{
    static const int64_t extents[] = {50, 60, 5000, (int64_t)1 << 20};
    for (uint32_t form = 0; form < 4; form++)
        for (uint32_t kind = 0; kind < (form ? 2 : TN_SCATTER_END); kind++) {
            char what[64];
            tn_plan plan = {.size = sizeof plan};
            tn_scatter_args s = {.size = sizeof s, .ndim = ndim,
                                 .dim = form ? ndim - 1 : 0, .reduce = kind,
                                 .dst_extent = extents[form], .dst = *view,
                                 .index = *view, .src = *view};
            memcpy(s.extent, extent, ndim * sizeof *extent);
            if (form)
                s.extent[s.dim] = form == 2 ? 6000 : 64;
            if (form == 3)
                memset(s.index.stride, 0, s.dim * sizeof *s.index.stride);
            snprintf(what, sizeof what, "scatter %u of %s, form %u", kind,
                     dtype, form);
            tn_status status = tn__plan_scatter(target, &s, &plan);
            if (!status && plan.step_count > 1) {
                plan.step = plan.step_count - 1;
                status = tn__plan_scatter(target, &s, &plan);
            }
            add(list, target, NULL, &plan, status, what);
        }
}

/* Scans of lines that are too short for a team of work-items, of lines of one
 * chunk, and, with small offsets, of lines of several chunks. */
static void add_scans(printed_list *list, const tn_target *target,
                      uint32_t ndim, const tn_strided *view,
                      const int64_t *extent, const char *dtype)
{
    static const int64_t length[] = {20, 50, 5000};
    const int lengths = ndim == 2 && !view->offset ? 3 : 2;
    for (uint32_t kind = 0; kind <= TN_REDUCE_MIN; kind++)
        for (int n = 0; n < lengths * (kind >= TN_REDUCE_MAX ? 2 : 1); n++) {
            char what[64];
            tn_plan plan = {.size = sizeof plan};
            tn_scan_args s = {.size = sizeof s, .ndim = ndim, .kind = kind,
                              .in = *view, .out = *view};
            if (n >= lengths)
                s.out_index = *view;
            memcpy(s.extent, extent, ndim * sizeof *extent);
            s.extent[ndim - 1] = length[n % lengths];
            snprintf(what, sizeof what, "scan %u of %s", kind, dtype);
            do
                add(list, target, NULL, &plan,
                    tn__plan_scan(target, &s, &plan), what);
            while (++plan.step < plan.step_count);
        }
}

/* Adds sorts of several lengths: a work-group sorts several lines or one line,
 * or several work-groups sort one line. */
static void add_sorts(printed_list *list, const tn_target *target,
                      uint32_t ndim, const tn_strided *view,
                      const int64_t *extent, const char *dtype)
{
    static const int64_t lengths[] = {50, 200, 1000, 10000};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        char what[64];
        tn_plan plan = {.size = sizeof plan};
        tn_sort_args s = {.size = sizeof s, .ndim = ndim,
                          .keep = lengths[l], .in = *view, .out = *view,
                          .out_index = *view};
        memcpy(s.extent, extent, ndim * sizeof *extent);
        s.extent[ndim - 1] = lengths[l];
        snprintf(what, sizeof what, "sort of %d of %s", (int)lengths[l],
                 dtype);
        do
            add(list, target, NULL, &plan, tn__plan_sort(target, &s, &plan),
                what);
        while (++plan.step < plan.step_count);
    }
}

static void add_primitives(printed_list *list, const tn_target *target,
                           tn_dtype dtype, const struct way *way)
{
    static const int64_t extent[] = {50, 50, 50, 50};
    static const int64_t stride[] = {216000, 3600, 60, 1, 1};
    const tn_target poor = without_argument_room(target);
    const char *name = tn_dtype_name(dtype);
    const uint32_t line = way->outer + 1;
    char what[64];
    /* The address does not matter, because nothing runs. */
    tn_strided view = {.buffer = (tn_buffer *)list,
                       .dtype = dtype, .ndim = line,
                       .offset = way->is_far ? FAR : 0};
    if (way->in_buffer)
        target = &poor;
    snprintf(what, sizeof what, "matmul of %s", name);
    memcpy(view.stride, stride + 3 - way->outer, (line + 1) * sizeof *stride);
    add_matmul(list, target, way, &view, extent, what);
    add_scatters(list, target, line, &view, extent, name);
    add_scans(list, target, line, &view, extent, name);
    add_sorts(list, target, line, &view, extent, name);
}

/* Adds attention forward and both steps backward. Five properties have four
 * values each, of which two are pairs of flags. 16 combinations suffice for any
 * two properties to occur in each combination of their values (an orthogonal
 * array, OA(16, 5, 4, 2)): in the field of four elements the properties are x,
 * y, x + y, x + 2 y and x + 3 y. A 17th source has its argument words in a
 * buffer. */
static void add_attention(printed_list *list, const tn_target *target,
                          tn_dtype dtype)
{
    static const int64_t sizes[] = {16, 32, 64, 128};
    static const int twice[] = {0, 2, 3, 1};
    const tn_dtype masks[] = {TN_DTYPE_NONE, TN_BOOL, TN_F32, dtype};
    const tn_target poor = without_argument_room(target);
    tn_buffer *buffer = (tn_buffer *)list; /* the address does not matter */
    for (int i = 0; i <= 16; i++)
        for (int step = -1; step < 2; step++) {
            const int x = i >> 2 & 3, y = i & 3, masked = x ^ y;
            const int flags = x ^ twice[y], lies = x ^ twice[twice[y]];
            const tn_target *of = i < 16 ? target : &poor;
            const tn_strided view = {
                .buffer = buffer, .dtype = dtype, .ndim = 4,
                .offset = lies & 1 ? FAR : 0,
                .stride = {8, 8, 8, lies & 2 ? 1 : 2}};
            tn_attention_args a = {
                .size = sizeof a,
                .kind = step < 0 ? TN_ATTENTION_FORWARD
                                 : TN_ATTENTION_BACKWARD,
                .flags = flags & 1 ? TN_ATTENTION_CAUSAL : 0,
                .batch = 1, .heads = 1, .kv_heads = 1, .queries = 100,
                .keys = 100, .features = sizes[x], .values = sizes[y],
                .dropout = flags & 2 ? 0.5 : 0, .q = view, .k = view,
                .v = view, .out = view, .g = view, .dq = view, .dk = view,
                .dv = view};
            if (masks[masked])
                a.mask = (tn_strided){.buffer = buffer,
                                      .dtype = masks[masked]};
            tn_plan plan = {.size = sizeof plan,
                            .step = step < 0 ? 0 : (uint32_t)step};
            char what[64];
            snprintf(what, sizeof what, "attention %d of %s, %d and %d", step,
                     tn_dtype_name(dtype), (int)sizes[x], (int)sizes[y]);
            add(list, of, NULL, &plan, tn__plan_attention(of, &a, &plan),
                what);
        }
}

/* Adds the convolution and its two gradients: small and large tiles, with and
 * without a bias, with small and large offsets, with groups and strides, with
 * and without a sum over images in a separate step; the last one with argument
 * words in a buffer. */
static void add_conv(printed_list *list, const tn_target *target,
                     tn_dtype dtype)
{
    enum { LARGE = 1, BIAS = 2, IS_FAR = 4, GROUPS = 8, ONE_IMAGE = 16,
           IN_BUFFER = 32 };
    const tn_target poor = without_argument_room(target);
    for (uint32_t kind = TN_CONV_FORWARD; kind <= TN_CONV_WEIGHT; kind++)
        for (int way = 0; way <= IN_BUFFER; way++) {
            const tn_target *of = way & IN_BUFFER ? &poor : target;
            const int64_t channels = way & LARGE ? 200 : 2;
            const int64_t step = way & GROUPS ? 2 : 1;
            const int64_t out_size = way & GROUPS ? 9 : 17;
            const tn_strided view = {
                .buffer = (tn_buffer *)list, /* the address does not matter */
                .dtype = dtype, .ndim = 4, .offset = way & IS_FAR ? FAR : 0,
                .stride = {80000, 400, 20, 1}};
            tn_conv_args c = {
                .size = sizeof c, .kind = kind, .groups = step,
                .count = way & ONE_IMAGE ? 1 : 4,
                .in_channels = channels, .out_channels = channels,
                .in_size = {19, 19}, .kernel = {3, 3},
                .out_size = {out_size, out_size}, .stride = {step, step},
                .dilation = {1, 1}, .in = view, .weight = view, .out = view};
            if (way & BIAS && kind == TN_CONV_FORWARD)
                c.bias = view;
            tn_plan plan = {.size = sizeof plan};
            char what[64];
            snprintf(what, sizeof what, "convolution %u of %s", (unsigned)kind,
                     tn_dtype_name(dtype));
            do
                add(list, of, NULL, &plan, tn__plan_conv(of, &c, &plan), what);
            while (++plan.step < plan.step_count);
        }
}

void printed_primitives(printed_list *list, const tn_target *target)
{
    static const tn_dtype floats[] = {TN_F32, TN_F16, TN_BF16, TN_F64};
    const bool doubles = target->flags & TN_TARGET_F64;
    for (size_t f = 0; f < sizeof floats / sizeof *floats; f++) {
        if (target->flags & TN_TARGET_CHUNKED ||
            (floats[f] == TN_F64 && !doubles))
            continue;
        if (floats[f] != TN_F64)
            add_attention(list, target, floats[f]);
        add_conv(list, target, floats[f]);
    }
    for (tn_dtype dtype = TN_DTYPE_NONE + 1; dtype < TN_DTYPE_END; dtype++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
            if (dtype != TN_F64 || doubles)
                add_primitives(list, target, dtype, &ways[w]);
}
