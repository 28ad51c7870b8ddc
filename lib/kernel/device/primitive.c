/* primitive.c: plans and texts of matmul, scatter, scan and sort.
 *
 * Each is a fixed text under a few definitions: dtype, dimensions of the outer
 * space (batch; all but the one walked along) after merging, and its kind. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "kernel/device/print.h"
#include "kernel/device/space.h"
#include "kernel/hash.h"

enum { MATMUL, SCATTER, SCAN, SORT };

/* What tn_plan.variant says. */
typedef struct variant {
    unsigned primitive, dtype, ndim, kind; /* kind: reduction, or 0 */
    bool is_wide, in_buffer;
    unsigned flags; /* of the primitive: below */
    uint32_t group;
} variant;

enum { B_UNIT = 1, PACKED = 2 };                 /* MATMUL */
enum { WITH_INDEX = 1 };                         /* SCAN */
enum { DESCENDING = 1, OUT = 2, OUT_INDEX = 4 }; /* SORT */

static uint64_t pack(const variant *v)
{
    return (uint64_t)v->primitive | (uint64_t)v->dtype << 4 |
           (uint64_t)v->ndim << 8 | (uint64_t)v->is_wide << 12 |
           (uint64_t)v->in_buffer << 13 | (uint64_t)v->kind << 14 |
           (uint64_t)v->flags << 17 | (uint64_t)v->group << 20;
}

static variant unpack(uint64_t word)
{
    return (variant){.primitive = word & 15,
                     .dtype = word >> 4 & 15,
                     .ndim = word >> 8 & 15,
                     .is_wide = word >> 12 & 1,
                     .in_buffer = word >> 13 & 1,
                     .kind = word >> 14 & 7,
                     .flags = word >> 17 & 7,
                     .group = (uint32_t)(word >> 20 & 0xffff)};
}

/* ---- plans ---------------------------------------------------------------- */

/* A plan in the making: the outer space of its operands. */
typedef struct job {
    const tn_target *target;
    tn_plan *plan;
    variant v;
    uint32_t operands;
    int64_t extent[TN_MAX_NDIM], stride[3][TN_MAX_NDIM], offset[3];
    uint32_t ndim;
    int64_t reach; /* greatest, of what lies along the inner dimensions */
    tn__device_space outer;
    uint64_t own[16];
    uint32_t own_count;
} job;

static void job_init(job *j, const tn_target *target, tn_plan *plan,
                     unsigned primitive, uint32_t dtype)
{
    memset(j, 0, sizeof *j);
    j->target = target;
    j->plan = plan;
    j->v.primitive = primitive;
    j->v.dtype = dtype;
    plan->flags = 0;
    plan->buffer_count = 0;
    plan->scratch_bytes = 0;
    plan->step_count = 1;
}

/* An operand over the job's extents, without dimension `but`, along which
 * `length` of its elements lie. */
static void add_operand(job *j, const tn_strided *s, uint32_t but,
                        int64_t length)
{
    uint32_t o = j->operands++;
    for (uint32_t d = 0, to = 0; to < j->ndim; d++)
        if (d != but)
            j->stride[o][to++] = s->stride[d];
    j->offset[o] = s->offset;
    int64_t reach = llabs(s->offset);
    if (but != TN_NONE && length > 0)
        reach += (length - 1) * llabs(s->stride[but]);
    if (reach > j->reach)
        j->reach = reach;
}

static void add_buffer(job *j, tn_buffer *buffer)
{
    j->plan->buffer[j->plan->buffer_count++] = buffer;
}

static void own(job *j, int64_t word)
{
    j->own[j->own_count++] = (uint64_t)word;
}

/* The outer space, and with it the width of numbers. longest: what is counted
 * besides its points. */
static void job_space(job *j, int64_t longest)
{
    tn_launch_operand operand[3];
    tn_launch launch = {.extent = j->extent, .operand = operand};
    int64_t reach = 0;
    for (uint32_t o = 0; o < j->operands; o++) {
        operand[o] = (tn_launch_operand){.stride = j->stride[o]};
        int64_t far = tn__device_reach(j->extent, j->stride[o], j->ndim);
        reach = far > reach ? far : reach;
    }
    tn__device_space_init(&j->outer, &launch, j->operands, 0, j->ndim);
    j->v.ndim = j->outer.ndim;
    j->v.is_wide = reach + j->reach >= TN__DEVICE_NARROW ||
                   j->outer.count >= TN__DEVICE_NARROW ||
                   longest >= TN__DEVICE_NARROW;
}

/* groups: as many as the work would keep busy. */
static tn_status job_end(job *j, int64_t groups, int64_t per_unit)
{
    tn_plan *plan = j->plan;
    int64_t units = j->target->units ? j->target->units : 1;
    uint64_t *word = plan->argument;
    if (j->v.dtype == TN_F64 && !(j->target->flags & TN_TARGET_F64))
        return tn__fail(TN_ERR_UNSUPPORTED,
                        "the device has no double precision (f64)");
    *word++ = (uint64_t)j->outer.count;
    for (uint32_t d = 0; d < j->outer.ndim; d++)
        *word++ = (uint64_t)j->outer.extent[d];
    for (uint32_t o = 0; o < j->operands; o++) {
        *word++ = (uint64_t)j->offset[o];
        for (uint32_t d = 0; d < j->outer.ndim; d++)
            *word++ = (uint64_t)j->outer.stride[o][d];
    }
    memcpy(word, j->own, j->own_count * sizeof *word);
    word += j->own_count;
    plan->argument_bytes = (uint32_t)(8 * (word - plan->argument));
    j->v.in_buffer = plan->argument_bytes + 8 * (plan->buffer_count + 2) >
                     j->target->argument_room;
    if (j->v.in_buffer)
        plan->flags |= TN_PLAN_WORDS_IN_BUFFER;
    groups = tn__device_least(groups, units * per_unit);
    if (plan->flags & TN_PLAN_FAULTS)
        groups = tn__device_least(groups,
                                  j->target->fault_room / j->v.group);
    plan->group_count = (uint64_t)groups;
    plan->group_size = j->v.group;
    plan->variant = pack(&j->v);
    plan->key[0] = 0x7072696d; /* no program's */
    plan->key[1] = 0;
    tn__hash_word(plan->key, plan->variant);
    tn__hash_word(plan->key, j->target->flags);
    tn__hash_finish(plan->key);
    return TN_OK;
}

static bool is_chunked(const job *j)
{
    return j->target->flags & TN_TARGET_CHUNKED;
}

/* Work-items that are each a line's. */
static tn_status job_end_lines(job *j)
{
    j->v.group = is_chunked(j) ? 1 : tn__device_group(j->target);
    return job_end(j, tn__device_divide_up(j->outer.count, j->v.group), 64);
}

/* Extents without dimension `but`. */
static void set_extents(job *j, const int64_t *extent, uint32_t ndim,
                        uint32_t but)
{
    for (uint32_t d = 0; d < ndim; d++)
        if (d != but)
            j->extent[j->ndim++] = extent[d];
}

tn_status tn__plan_scan(const tn_target *target, const tn_scan_args *s,
                        tn_plan *plan)
{
    job j;
    uint32_t last = s->ndim - 1;
    int64_t length = s->extent[last];
    job_init(&j, target, plan, SCAN, s->in.dtype);
    j.v.kind = s->kind;
    j.v.flags = s->out_index.buffer ? WITH_INDEX : 0;
    set_extents(&j, s->extent, s->ndim, last);
    add_operand(&j, &s->in, last, length);
    add_operand(&j, &s->out, last, length);
    add_operand(&j, s->out_index.buffer ? &s->out_index : &s->out, last,
                length);
    add_buffer(&j, s->in.buffer);
    add_buffer(&j, s->out.buffer);
    if (s->out_index.buffer)
        add_buffer(&j, s->out_index.buffer);
    job_space(&j, length);
    own(&j, length);
    own(&j, s->in.stride[last]);
    own(&j, s->out.stride[last]);
    own(&j, s->out_index.stride[last]);
    if (length == 0)
        j.outer.count = 0;
    return job_end_lines(&j);
}

tn_status tn__plan_scatter(const tn_target *target, const tn_scatter_args *s,
                           tn_plan *plan)
{
    job j;
    int64_t length = s->extent[s->dim], behind = 1;
    job_init(&j, target, plan, SCATTER, s->dst.dtype);
    j.v.kind = s->reduce;
    plan->flags = TN_PLAN_FAULTS;
    set_extents(&j, s->extent, s->ndim, s->dim);
    add_operand(&j, &s->dst, s->dim, s->dst_extent);
    add_operand(&j, &s->index, s->dim, length);
    add_operand(&j, &s->src, s->dim, length);
    add_buffer(&j, s->dst.buffer);
    add_buffer(&j, s->index.buffer);
    add_buffer(&j, s->src.buffer);
    for (uint32_t d = s->dim + 1; d < s->ndim; d++)
        behind *= s->extent[d];
    job_space(&j, length);
    own(&j, length);
    own(&j, s->index.stride[s->dim]);
    own(&j, s->src.stride[s->dim]);
    own(&j, s->dst.stride[s->dim]);
    own(&j, s->dst_extent);
    own(&j, behind);
    if (length == 0)
        j.outer.count = 0;
    tn__device_fault_words(j.own + j.own_count, target, s->tag);
    j.own_count += 3;
    return job_end_lines(&j);
}

tn_status tn__plan_sort(const tn_target *target, const tn_sort_args *s,
                        tn_plan *plan)
{
    job j;
    uint32_t last = s->ndim - 1;
    int64_t length = s->extent[last];
    job_init(&j, target, plan, SORT, s->in.dtype);
    j.v.flags = (s->flags & TN_SORT_DESCENDING ? DESCENDING : 0) |
                (s->out.buffer ? OUT : 0) |
                (s->out_index.buffer ? OUT_INDEX : 0);
    set_extents(&j, s->extent, s->ndim, last);
    add_operand(&j, &s->in, last, length);
    add_operand(&j, s->out.buffer ? &s->out : &s->in, last, length);
    add_operand(&j, s->out_index.buffer ? &s->out_index : &s->in, last, length);
    add_buffer(&j, s->in.buffer);
    if (s->out.buffer)
        add_buffer(&j, s->out.buffer);
    if (s->out_index.buffer)
        add_buffer(&j, s->out_index.buffer);
    job_space(&j, length);
    own(&j, length);
    own(&j, tn__device_least(s->keep, length));
    own(&j, s->in.stride[last]);
    own(&j, s->out.stride[last]);
    own(&j, s->out_index.stride[last]);
    if (length == 0)
        j.outer.count = 0;
    j.v.group = is_chunked(&j) ? 1 : tn__device_group(target);
    tn_status status = job_end(&j, j.outer.count, 16);
    plan->flags |= TN_PLAN_SCRATCH;
    plan->scratch_bytes =
        plan->group_count * 2 * (uint64_t)length * (j.v.is_wide ? 8 : 4);
    return status;
}

/* alpha and beta as the type that is computed in holds them. */
static int64_t scalar_word(tn_dtype dtype, double x)
{
    float single = (float)x;
    int64_t word = 0;
    switch (dtype) {
    case TN_F64:
        memcpy(&word, &x, sizeof word);
        return word;
    case TN_BOOL:
        return x != 0;
    case TN_I64:
    case TN_I32:
    case TN_I16:
    case TN_I8:
    case TN_U8:
        return (int64_t)x;
    default:
        memcpy(&word, &single, sizeof single);
        return word & 0xffffffff;
    }
}

/* See matmul.cl. Without TN_TARGET_CHUNKED: */
#define SIDE 16 /* of a group's tile: 256 work-items */
/* With it: rows of a tile; with PACKED, rows of b that a work-item copies at
 * once, and a block's rows and columns, 192 KiB in float: for the second-level
 * cache. */
#define ROWS 4
#define DEPTH 256
#define HEIGHT 128
#define WIDTH 128
#define ITEMS_PER_UNIT 8 /* and so much memory */

static unsigned register_type(unsigned dtype)
{
    switch (dtype) {
    case TN_F64:
    case TN_I64:
    case TN_I32:
    case TN_BOOL:
        return dtype;
    case TN_I16:
    case TN_I8:
    case TN_U8:
        return TN_I32;
    default:
        return TN_F32;
    }
}

/* Columns of a tile with PACKED: 4 x 32 floats are half of AVX-512's
 * registers, 4 x 16 doubles the same. */
static int64_t packed_columns(unsigned dtype)
{
    return tn_dtype_bytes((tn_dtype)register_type(dtype)) == 8 ? 16 : 32;
}

/* Copying b costs as much as a few rows of c do. */
static bool is_packed(const tn_matmul_args *m, bool unit)
{
    const int64_t bytes = m->k * m->n * (int64_t)tn_dtype_bytes(m->c.dtype);
    return unit ? m->m > ROWS && m->n > SIDE && bytes > 256 << 10
                : m->m > 4 * ROWS;
}

/* A block is as large as it may be while each unit has some. */
static int64_t block_choose(const job *j, const tn_matmul_args *m,
                            int64_t columns, int64_t *height, int64_t *width)
{
    const int64_t least = j->target->units * ITEMS_PER_UNIT;
    int64_t count;
    *height = HEIGHT;
    *width = WIDTH;
    while ((count = j->outer.count * tn__device_divide_up(m->m, *height) *
                    tn__device_divide_up(m->n, *width)) < least &&
           (*height > 4 * ROWS || *width > columns))
        if (*width > columns && *width >= *height)
            *width /= 2;
        else
            *height /= 2;
    return count;
}

tn_status tn__plan_matmul(const tn_target *target, const tn_matmul_args *m,
                          tn_plan *plan)
{
    job j;
    uint32_t row = m->batch_ndim, column = row + 1;
    const tn_strided *const operand[3] = {&m->a, &m->b, &m->c};
    const int64_t size[3][2] = {{m->m, m->k}, {m->k, m->n}, {m->m, m->n}};
    job_init(&j, target, plan, MATMUL, m->c.dtype);
    set_extents(&j, m->batch, m->batch_ndim, TN_NONE);
    for (int o = 0; o < 3; o++) {
        add_operand(&j, operand[o], TN_NONE, 0);
        add_buffer(&j, operand[o]->buffer);
        int64_t reach = llabs(operand[o]->offset) +
                        tn__device_reach(size[o], operand[o]->stride + row, 2);
        j.reach = reach > j.reach ? reach : j.reach;
    }
    bool chunked = is_chunked(&j), unit = m->b.stride[column] == 1;
    const bool packed = chunked && is_packed(m, unit);
    int64_t tile_m = chunked ? ROWS : SIDE;
    int64_t tile_n = packed ? packed_columns(m->c.dtype) : SIDE;
    int64_t across = tn__device_divide_up(m->n, tile_n);
    int64_t down = tn__device_divide_up(m->m, tile_m);
    job_space(&j, across * down);
    if (j.outer.count * across * down >= TN__DEVICE_NARROW ||
        m->k >= TN__DEVICE_NARROW)
        j.v.is_wide = true;
    j.v.flags = (unit ? B_UNIT : 0) |
                (packed ? PACKED : 0);
    own(&j, m->m);
    own(&j, m->n);
    own(&j, m->k);
    for (int o = 0; o < 3; o++) {
        own(&j, operand[o]->stride[row]);
        own(&j, operand[o]->stride[column]);
    }
    own(&j, scalar_word(m->c.dtype, m->alpha));
    own(&j, scalar_word(m->c.dtype, m->beta));
    own(&j, m->beta != 0);
    j.v.group = chunked ? 1 : SIDE * SIDE;
    if (!packed)
        return job_end(&j, j.outer.count * across * down, 64);
    int64_t height, width;
    int64_t blocks = block_choose(&j, m, tile_n, &height, &width);
    own(&j, height);
    own(&j, width);
    plan->flags |= TN_PLAN_SCRATCH;
    tn_status status = job_end(&j, blocks, ITEMS_PER_UNIT);
    plan->scratch_bytes =
        plan->group_count * (uint64_t)((DEPTH + height) * width) *
        tn_dtype_bytes((tn_dtype)register_type(m->c.dtype));
    return status;
}

/* ---- texts ---------------------------------------------------------------- */

static bool is_float(unsigned type)
{
    return type == TN_F32 || type == TN_F64;
}

static void define_scatter(tn__text *text, unsigned kind, const char *type)
{
    static const char *const name[TN_SCATTER_END] = {"set", "add", "mul",
                                                     "min", "max"};
    if (kind == TN_SCATTER_SET)
        tn__text_add(text, "#define TK_FOLD(old, x) (x)\n");
    else
        tn__text_add(text, "#define TK_FOLD(old, x) tk_%s_%s((old), (x))\n",
                     name[kind], type);
}

static void define_scan(tn__text *text, const variant *v, const char *type)
{
    static const char *const name[] = {"add", "mul", "max", "min"};
    tn__text_add(text, "#define TK_FOLD(x, y) tk_%s_%s((x), (y))\n",
                 name[v->kind], type);
    if (!(v->flags & WITH_INDEX))
        return;
    const char *sign = v->kind == TN_REDUCE_MAX ? ">=" : "<=";
    tn__text_add(text, "#define TK_INDEX 1\n");
    if (is_float(register_type(v->dtype)))
        tn__text_add(text,
                     "#define TK_TAKES(x, best) (tk_isnan_%s(x) || (x) %s "
                     "(best))\n", type, sign);
    else
        tn__text_add(text, "#define TK_TAKES(x, best) ((x) %s (best))\n",
                     sign);
}

/* NaN is greatest. */
static void define_sort(tn__text *text, const variant *v, const char *type)
{
    bool falling = v->flags & DESCENDING;
    if (v->flags & OUT)
        tn__text_add(text, "#define TK_OUT 1\n");
    if (v->flags & OUT_INDEX)
        tn__text_add(text, "#define TK_OUT_INDEX 1\n");
    if (is_float(register_type(v->dtype)))
        tn__text_add(text,
                     "TK_FN tk_bool tk_is_less(tk_%s x, tk_%s y)\n{\n"
                     "    return !tk_isnan_%s(x) && (tk_isnan_%s(y) || "
                     "x < y);\n}\n", type, type, type, type);
    else
        tn__text_add(text,
                     "TK_FN tk_bool tk_is_less(tk_%s x, tk_%s y)\n{\n"
                     "    return x < y;\n}\n", type, type);
    tn__text_add(text, "#define TK_COMES_FIRST(x, y) tk_is_less(%s)\n",
                 falling ? "(y), (x)" : "(x), (y)");
}

static void define_matmul(tn__text *text, const variant *v, const char *type)
{
    if (v->flags & B_UNIT)
        tn__text_add(text, "#define TK_B_UNIT 1\n");
    if (v->flags & PACKED)
        tn__text_add(text,
                     "#define TK_PACKED 1\n#define TK_COLUMNS %d\n"
                     "#define TK_DEPTH %d\n",
                     (int)packed_columns(v->dtype), DEPTH);
    tn__text_add(text, "#define TK_SIDE %d\n#define TK_ROWS %d\n", SIDE, ROWS);
    if (is_float(register_type(v->dtype)))
        tn__text_add(text,
                     "#define TK_MULTIPLY_ADD(x, y, sum) "
                     "tk_fma_%s((x), (y), (sum))\n"
                     "#define TK_SCALAR(i) tk_of_bits_%s(TK_OWN(i))\n", type,
                     type);
    else
        tn__text_add(text,
                     "#define TK_MULTIPLY_ADD(x, y, sum) "
                     "tk_add_%s(tk_mul_%s((x), (y)), (sum))\n"
                     "#define TK_SCALAR(i) ((tk_%s)TK_OWN(i))\n", type, type,
                     type);
    tn__text_add(text,
                 "#define TK_SCALE(x, y) tk_mul_%s((x), (y))\n"
                 "#define TK_PLUS(x, y) tk_add_%s((x), (y))\n", type, type);
}

tn_status tn__print_primitive(const tn_target *target, const tn_plan *plan,
                              tn_source *source)
{
    static const char *const name[] = {"tn_matmul", "tn_scatter", "tn_scan",
                                       "tn_sort"};
    static const char *const part[] = {"matmul.cl", "scatter.cl", "scan.cl",
                                       "sort.cl"};
    variant v = unpack(plan->variant);
    if (v.primitive == TN__PLAN_ATTENTION)
        return tn__print_attention(target, plan, source);
    const char *stored = tn__device_dtype(v.dtype);
    const char *type = tn__device_dtype(register_type(v.dtype));
    tn__text text = {.data = NULL};
    tn__device_head(&text, target, v.is_wide, v.in_buffer,
                    plan->argument_bytes / 8);
    tn__text_add(&text,
                 "#define TK_WORDS %s words\n#define TK_NDIM %u\n"
                 "#define TK_OPERANDS 3\n"
                 "#define TK_STORED tk_s_%s\n#define TK_VALUE tk_%s\n"
                 "#define TK_FROM(s) tk_from_%s(s)\n"
                 "#define TK_TO(x) tk_to_%s(x)\n",
                 v.in_buffer ? "TK_G const tk_i64 *" : "tk_words", v.ndim,
                 stored, type, stored, stored);
    if (target->flags & TN_TARGET_CHUNKED)
        tn__text_add(&text, "#define TK_CHUNKED 1\n");
    if (v.primitive == MATMUL)
        define_matmul(&text, &v, type);
    else if (v.primitive == SCATTER)
        define_scatter(&text, v.kind, type);
    else if (v.primitive == SCAN)
        define_scan(&text, &v, type);
    else
        define_sort(&text, &v, type);
    tn__text_add(&text, "%s%s%s", tn__device_part("primitive.cl"),
                 v.primitive == SCATTER ? tn__device_part("fault.cl") : "",
                 tn__device_part(part[v.primitive]));
    source->text_bytes = text.length;
    source->text = tn__text_finish(&text);
    source->kernel = name[v.primitive];
    return source->text ? TN_OK : TN_ERR_MEMORY;
}
