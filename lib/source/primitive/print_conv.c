/* print_conv.c: plans and prints the extension "conv" (convolutions and their
 * gradients). conv.cl explains the method, a tiled matrix product. This file
 * decides which tensor is a, b and c of the product, and computes the
 * arguments. */
#include <stdlib.h>

#include <source/primitive/primitive.h>

enum { BIAS = 1, LANE_TILES = 2 }; /* values of tn__variant.flags, besides
                                    * TN__LARGE */
/* A further value of tn__variant.kind, after TN_CONV_...: the launch that adds
 * up the 16 partial sums (lanes) of a gradient. */
enum { ADD_LANES = TN_CONV_WEIGHT + 1 };

/* The argument words of conv.cl, in their order there. An array of two has an
 * entry for h and one for w. The indices f, k and j each combine several
 * dimensions, such as j = (n, y, x). */
typedef struct arguments {
    int64_t m, n, k, f;
    /* extents of the inner dimensions that f, k and j combine */
    int64_t f_fast, k_fast[2], j_fast[2];
    int64_t a_row, a_k[3], a_f[2]; /* strides of a: from row to row, along the
                                    * dimensions of k, along the dimensions of
                                    * f */
    int64_t b_k, b_f, b_j, b_side[2];
    struct {
        int64_t k, f, p; /* the coordinate in b is the sum of k, f and the
                            coordinate p in c, each times its factor */
    } side[2];
    int64_t start[2], size[2]; /* start: added to each coordinate in b. size:
                                * extents of b */
    int64_t step[2];           /* coordinates in b are divided by the step: the
                                * stride in the gradient of a convolution's
                                * input, else 1 */
    int64_t limit[2];          /* extents of c in h and w */
    int64_t c_row, c_j[3];
    int64_t next[3];           /* the step TN__SIDE by which a work-item
                                * advances k, as coordinates of the dimensions
                                * that k combines */
    int64_t bias, bias_row;
} arguments;

/* A tensor with its sizes as (n, channels, h, w), or (o, c / groups, h, w) for
 * the weight. */
typedef struct side {
    const tn_strided *view;
    int64_t size[4];
    int64_t step; /* distance from one group to the next, in elements */
} side;

static void describe_forward(const tn_conv_args *v, arguments *w)
{
    const int64_t *ws = v->weight.stride, *in = v->in.stride;
    const int64_t *out = v->out.stride;
    *w = (arguments){.m = v->out_channels / v->groups,
                     .n = v->count,
                     .k = v->in_channels / v->groups,
                     .f = 1,
                     .f_fast = 1,
                     .a_row = ws[0],
                     .a_k = {ws[1], ws[2], ws[3]},
                     .b_k = in[1],
                     .b_j = in[0],
                     .c_row = out[1],
                     .c_j = {out[0], out[2], out[3]}};
    for (int a = 0; a < 2; a++) {
        w->n *= v->out_size[a];
        w->k *= v->kernel[a];
        w->k_fast[a] = v->kernel[a];
        w->j_fast[a] = w->limit[a] = v->out_size[a];
        w->b_side[a] = in[2 + a];
        w->side[a].k = v->dilation[a];
        w->side[a].p = v->stride[a];
        w->start[a] = -v->pad[a];
        w->size[a] = v->in_size[a];
        w->step[a] = 1;
    }
}

static void describe_input(const tn_conv_args *v, arguments *w)
{
    const int64_t *ws = v->weight.stride, *in = v->in.stride;
    const int64_t *out = v->out.stride;
    *w = (arguments){.m = v->in_channels / v->groups,
                     .n = v->count,
                     .k = v->out_channels / v->groups,
                     .f = v->kernel[0] * v->kernel[1],
                     .f_fast = v->kernel[1],
                     .k_fast = {1, 1},
                     .a_row = ws[1],
                     .a_k = {ws[0]},
                     .a_f = {ws[2], ws[3]},
                     .b_k = out[1],
                     .b_j = out[0],
                     .c_row = in[1],
                     .c_j = {in[0]}};
    for (int a = 0; a < 2; a++) {
        w->j_fast[a] = tn__divide_up(v->in_size[a], v->stride[a]);
        w->n *= w->j_fast[a];
        w->limit[a] = v->in_size[a];
        w->b_side[a] = out[2 + a];
        w->side[a].f = -v->dilation[a];
        w->side[a].p = 1;
        w->start[a] = v->pad[a];
        w->size[a] = v->out_size[a];
        w->step[a] = v->stride[a];
        w->c_j[1 + a] = in[2 + a] * v->stride[a];
    }
}

static void describe_weight(const tn_conv_args *v, arguments *w)
{
    const int64_t *ws = v->weight.stride, *in = v->in.stride;
    const int64_t *out = v->out.stride;
    *w = (arguments){.m = v->out_channels / v->groups,
                     .n = v->in_channels / v->groups,
                     .k = 1,
                     .f = v->count,
                     .f_fast = 1,
                     .a_row = out[1],
                     .a_k = {0, out[2], out[3]},
                     .a_f = {out[0]},
                     .b_f = in[0],
                     .b_j = in[1],
                     .c_row = ws[0],
                     .c_j = {ws[1], ws[2], ws[3]}};
    for (int a = 0; a < 2; a++) {
        w->n *= v->kernel[a];
        w->k *= v->out_size[a];
        w->k_fast[a] = v->out_size[a];
        w->j_fast[a] = w->limit[a] = v->kernel[a];
        w->b_side[a] = in[2 + a];
        w->side[a].k = v->stride[a];
        w->side[a].p = v->dilation[a];
        w->start[a] = -v->pad[a];
        w->size[a] = v->in_size[a];
        w->step[a] = 1;
    }
}

/* Adds the operands a, b and c, with groups and phases as outer dimensions. (A
 * phase is the position of a row or column of the result modulo the stride, see
 * conv.cl.) Sets p->reach to the largest distance of an accessed element from
 * the start of its tensor. */
static void add_operands(tn__primitive *p, const tn_conv_args *v,
                         const arguments *w)
{
    const int64_t g = v->groups;
    const side in = {&v->in, {v->count, v->in_channels, v->in_size[0],
                              v->in_size[1]},
                     v->in_channels / g * v->in.stride[1]};
    const side weight = {&v->weight, {v->out_channels, v->in_channels / g,
                                      v->kernel[0], v->kernel[1]},
                         v->out_channels / g * v->weight.stride[0]};
    const side out = {&v->out, {v->count, v->out_channels, v->out_size[0],
                                v->out_size[1]},
                      v->out_channels / g * v->out.stride[1]};
    const side *const of[][3] = {
        [TN_CONV_FORWARD] = {&weight, &in, &out},
        [TN_CONV_INPUT] = {&weight, &out, &in},
        [TN_CONV_WEIGHT] = {&out, &in, &weight}};
    p->ndim = 3;
    p->extent[0] = g;
    p->extent[1] = w->step[0];
    p->extent[2] = w->step[1];
    for (int o = 0; o < 3; o++) {
        const side *s = of[v->kind][o];
        tn_strided view = {.offset = s->view->offset, .stride = {s->step}};
        if (o == 2) /* operand 2 is c, whose rows and columns are split by
                     * phase: two more dimensions */
            for (int a = 0; a < 2; a++)
                view.stride[1 + a] = s->view->stride[2 + a];
        tn__primitive_operand(p, &view, TN_NONE, 0);
        tn__primitive_buffer(p, s->view->buffer);
        int64_t reach =
            llabs(view.offset) + tn__strides_reach(s->size, s->view->stride, 4);
        p->reach = reach > p->reach ? reach : p->reach;
    }
}

/* Returns the largest bound of an index in the kernel, apart from offsets. */
static int64_t longest(const tn_conv_args *v, const arguments *w)
{
    int64_t most = w->n > w->k ? w->n : w->k;
    most = w->f > most ? w->f : most;
    for (int a = 0; a < 2; a++) {
        int64_t reach = v->in_size[a] + v->pad[a] +
                        v->out_size[a] * v->stride[a] +
                        v->kernel[a] * v->dilation[a];
        most = reach > most ? reach : most;
    }
    return most;
}

tn_status tn__plan_conv(const tn_target *target, const tn_conv_args *v,
                        tn_plan *plan)
{
    static void (*const describe[])(const tn_conv_args *, arguments *) = {
        [TN_CONV_FORWARD] = describe_forward,
        [TN_CONV_INPUT] = describe_input,
        [TN_CONV_WEIGHT] = describe_weight};
    const uint32_t dtype = v->out.dtype;
    tn__primitive p;
    arguments w;
    if (target->flags & TN_TARGET_CHUNKED)
        return tn__fail(TN_ERR_UNSUPPORTED,
                        "conv: the device does not run work-items in groups "
                        "(TN_TARGET_CHUNKED)");
    if (dtype != TN_F32 && dtype != TN_F64 && dtype != TN_F16 &&
        dtype != TN_BF16)
        return tn__fail(TN_ERR_UNSUPPORTED,
                        "conv: dtype is %s; expected float32, float64, "
                        "float16 or bfloat16",
                        tn_dtype_name((tn_dtype)dtype));
    describe[v->kind](v, &w);
    tn__primitive_init(&p, target, plan, TN__CONV, dtype);
    add_operands(&p, v, &w);
    int64_t more = TN__SIDE;
    for (int d = 2; d > 0; d--) {
        w.next[d] = more % w.k_fast[d - 1];
        more /= w.k_fast[d - 1];
    }
    w.next[0] = more;
    if (v->bias.buffer) {
        tn__primitive_buffer(&p, v->bias.buffer);
        w.bias = v->bias.offset;
        w.bias_row = v->bias.stride[0];
        int64_t reach = llabs(w.bias) +
                        llabs(w.bias_row) * v->out_channels;
        p.reach = reach > p.reach ? reach : p.reach;
    }
    const int64_t matrices = v->groups * w.step[0] * w.step[1];
    const int64_t lanes =
        v->kind == TN_CONV_WEIGHT ? tn__min_i64(w.f, TN_LANES) : 1;
    const int64_t each = tn__tile_sums(target, matrices * lanes, w.m, w.n);
    int64_t tiles = matrices * tn__divide_up(w.m, TN__SIDE * each) *
                    tn__divide_up(w.n, TN__SIDE * each);
    /* A gradient has up to 16 partial sums, called lanes. If there would be too
     * few tiles for the device, each lane gets a tile of its own. */
    const bool lane_tiles = lanes > 1 && tiles < 2 * target->units;
    const int64_t sums = lane_tiles ? lanes * matrices * w.m * w.n : 0;
    const bool adds_lanes = lane_tiles && plan->step == 1;
    if (lane_tiles)
        tiles *= lanes;
    tn__primitive_space(&p, longest(v, &w));
    if (tiles >= TN__NARROW_LIMIT || sums >= TN__NARROW_LIMIT)
        p.v.is_wide = true;
    p.v.kind = adds_lanes ? ADD_LANES : v->kind;
    p.v.flags = (v->bias.buffer ? BIAS : 0) | (lane_tiles ? LANE_TILES : 0) |
                (each > 1 && !adds_lanes ? TN__LARGE : 0);
    p.v.group = TN__SIDE * TN__SIDE;
    if (lane_tiles) {
        plan->step_count = 2;
        plan->flags |= TN_PLAN_SCRATCH;
        plan->scratch_bytes =
            (uint64_t)sums * tn_dtype_bytes(tn__primitive_type(dtype));
    }
    const int64_t *word = &w.m;
    for (size_t i = 0; i < sizeof w / sizeof *word; i++)
        tn__primitive_argument(&p, word[i]);
    return tn__primitive_end(
        &p, adds_lanes ? tn__divide_up(sums / lanes, p.v.group) : tiles, 64);
}

const char *tn__define_conv(tn__text *text, const tn__variant *v)
{
    if (v->flags & LANE_TILES)
        tn__text_add(text, "#define TK_LANE_TILES 1\n");
    if (v->flags & BIAS)
        tn__text_add(text, "#define TK_BIAS 1\n");
    if (v->kind != TN_CONV_FORWARD)
        tn__text_add(text, "#define TK_REDUCED 1\n");
    if (v->kind == TN_CONV_INPUT)
        tn__text_add(text, "#define TK_PHASES 1\n");
    return v->kind == ADD_LANES ? "conv_fold.cl" : "tile.cl";
}
