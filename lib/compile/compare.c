/* compare.c: compares two captures of one function. If they are equal, later
 * calls will submit the same work, too, as far as the function's C code allows. */
#include <compile/capture.h>

#include <base/error.h>
#include <base/memory.h>
#include <device/work.h>

#include <inttypes.h>
#include <string.h>

typedef struct comparison {
    const tn__capture *a, *b;
    int64_t *value;   /* value[v]: the value of b that is value v of a, or -1 */
    tn__text *text;   /* says what differs; may be NULL */
} comparison;

static const char *name_of(const tn__step *step)
{
    return step->what;
}

/* Returns whether the captures' values x and y have the same role. */
static bool same_value(const comparison *c, uint32_t x, uint32_t y)
{
    const tn__captured_value *a = &c->a->value[x], *b = &c->b->value[y];
    if (c->value[x] >= 0 && c->value[x] != y)
        return false;
    c->value[x] = y;
    /* An input may be a part of larger memory, whose size does not matter. */
    return a->kind == b->kind &&
           (a->kind == TN__VALUE_INPUT ? a->index == b->index
                                       : a->bytes == b->bytes) &&
           (a->kind != TN__VALUE_EXTERNAL || a->storage == b->storage ||
            (a->table && a->table == b->table));
}

static bool same_uses(const comparison *c, const tn__step *x, const tn__step *y)
{
    if (x->use_count != y->use_count)
        return false;
    for (uint32_t i = 0; i < x->use_count; i++) {
        const tn__use *u = &c->a->use[x->first_use + i];
        const tn__use *v = &c->b->use[y->first_use + i];
        const int64_t from = c->a->value[u->value].origin;
        const int64_t other = c->b->value[v->value].origin;
        if (!same_value(c, u->value, v->value) ||
            u->access.low - from != v->access.low - other ||
            u->access.high - from != v->access.high - other ||
            u->access.writes != v->access.writes)
            return false;
    }
    return true;
}

/* ---- launches ------------------------------------------------------------ */

static bool same_numbers(const int64_t *x, const int64_t *y, size_t count)
{
    return !count || memcmp(x, y, count * sizeof *x) == 0;
}

static bool same_launch(const tn__command *x, const tn__command *y)
{
    const tn_launch *a = &x->args.launch, *b = &y->args.launch;
    const size_t ndim = a->outer_ndim + a->row_ndim;
    if (x->program != y->program || a->outer_ndim != b->outer_ndim ||
        a->row_ndim != b->row_ndim || !x->draw != !y->draw ||
        !same_numbers(a->extent, b->extent, ndim))
        return false;
    for (uint32_t k = 0; k < x->program->operand_count; k++) {
        const tn_launch_operand *p = &a->operand[k], *q = &b->operand[k];
        const size_t indices = x->program->operand[k].index_count;
        if (!same_numbers(p->stride, q->stride, ndim) ||
            !same_numbers(p->index_stride, q->index_stride, indices) ||
            !same_numbers(p->index_extent, q->index_extent, indices) ||
            (!p->buffer && p->offset != q->offset))
            return false;
    }
    return true;
}

/* Returns whether a launch's parameter is a number that each replay repeats: not
 * of a random draw, and not a late number. */
static bool is_constant(const tn__command *command, uint32_t param)
{
    for (uint32_t i = 0; i < command->late_count; i++)
        if (command->late[i].param == param)
            return false;
    return !command->draw ||
           (param != command->draw_at && param != command->draw_at + 1);
}

/* Returns the program's number that a late parameter reads, or NULL. */
static const double *late_number(const tn__command *command, uint32_t param)
{
    for (uint32_t i = 0; i < command->late_count; i++)
        if (command->late[i].param == param)
            return command->late[i].from;
    return NULL;
}

bool tn__command_same_param(const tn__command *a, uint32_t i,
                            const tn__command *b, uint32_t k)
{
    if (a->program->param_dtype[i] != b->program->param_dtype[k])
        return false;
    if (is_constant(a, i))
        return is_constant(b, k) &&
               memcmp(&a->args.launch.param[i], &b->args.launch.param[k],
                      sizeof(tn_number)) == 0;
    const double *late = late_number(a, i);
    return late && late == late_number(b, k);
}

/* Compares the numbers of two launches that are equal otherwise. */
static int compare_params(const comparison *c, const tn__step *x,
                          const tn__step *y)
{
    const tn__command *p = x->command, *q = y->command;
    const tn_program *program = p->program;
    const tn__kernel *kernel = tn__program_kernel(program);
    for (uint32_t i = 0; i < program->param_count; i++) {
        const tn_number a = p->args.launch.param[i];
        const tn_number b = q->args.launch.param[i];
        if (memcmp(&a, &b, sizeof a) == 0 ||
            !is_constant(p, i))
            continue;
        if (!c->text)
            return TN__NUMBERS_DIFFER;
        const char *name =
            (int)i < kernel->param_count && kernel->param[i].name
                ? kernel->param[i].name : "a number";
        if (program->param_dtype[i] == TN_F32 ||
            program->param_dtype[i] == TN_F64)
            tn__text_add(c->text, "%s: its argument %s was %.17g, and is %.17g "
                         "in the next call", name_of(x), name, a.f, b.f);
        else
            tn__text_add(c->text, "%s: its argument %s was %" PRId64 ", and is %"
                         PRId64 " in the next call", name_of(x), name, a.i,
                         b.i);
        return TN__NUMBERS_DIFFER;
    }
    return TN__CAPTURES_EQUAL;
}

/* ---- other work ---------------------------------------------------------- */

/* Clears the sizes beyond ndim, which nothing has set. */
static void clear_rest(int64_t *extent, uint32_t ndim)
{
    for (uint32_t d = ndim; d < TN_MAX_NDIM; d++)
        extent[d] = 0;
}

static void clear_unused(tn__command *c)
{
    if (c->kind == TN__WORK_MATMUL)
        clear_rest(c->args.matmul.batch, c->args.matmul.batch_ndim);
    else if (c->kind == TN__WORK_PRODUCT)
        clear_rest(c->args.product.batch, c->args.product.batch_ndim);
    else if (c->kind == TN__WORK_SCATTER)
        clear_rest(c->args.scatter.extent, c->args.scatter.ndim);
    else if (c->kind == TN__WORK_SCAN)
        clear_rest(c->args.scan.extent, c->args.scan.ndim);
    else if (c->kind == TN__WORK_SORT)
        clear_rest(c->args.sort.extent, c->args.sort.ndim);
}

/* Copies the arguments of a step, without addresses and without the members that
 * may differ between two calls. */
static void plain_arguments(const tn__capture *c, const tn__step *step,
                            tn__command *to)
{
    *to = *step->command;
    for (uint32_t i = 0; i < step->use_count; i++) {
        /* Each operand of these kinds is a tn_strided, which begins with the
         * address of its buffer. */
        const size_t at = (size_t)((const char *)c->use[step->first_use + i]
                                       .access.buffer -
                                   (const char *)step->command);
        tn_strided *operand = (tn_strided *)(void *)((char *)to + at);
        operand->buffer = NULL;
        operand->offset = 0;
        for (uint32_t d = operand->ndim; d < TN_MAX_NDIM; d++)
            operand->stride[d] = 0;
    }
    memset((char *)&to->args + tn__work_kinds[to->kind].tag, 0,
           sizeof(uint64_t));
    clear_unused(to);
    if (to->kind == TN__WORK_ATTENTION && to->draw)
        to->args.attention.seed = to->args.attention.call = 0;
}

/* Compares a number of the arguments, and sets both to 0. */
static int compare_number(const comparison *c, const tn__step *x,
                          const char *name, double *a, double *b)
{
    const bool same = memcmp(a, b, sizeof *a) == 0;
    if (!same && c->text)
        tn__text_add(c->text, "%s: its number %s was %.17g, and is %.17g in the "
                     "next call", name_of(x), name, *a, *b);
    *a = *b = 0;
    return same ? TN__CAPTURES_EQUAL : TN__NUMBERS_DIFFER;
}

static int compare_work(const comparison *c, const tn__step *x,
                        const tn__step *y)
{
    tn__command p, q;
    plain_arguments(c->a, x, &p);
    plain_arguments(c->b, y, &q);
    int difference = TN__CAPTURES_EQUAL;
    if (p.kind == TN__WORK_MATMUL) {
        difference = compare_number(c, x, "alpha", &p.args.matmul.alpha,
                                    &q.args.matmul.alpha);
        if (difference == TN__CAPTURES_EQUAL)
            difference = compare_number(c, x, "beta", &p.args.matmul.beta,
                                        &q.args.matmul.beta);
    } else if (p.kind == TN__WORK_PRODUCT) {
        difference = compare_number(c, x, "alpha", &p.args.product.alpha,
                                    &q.args.product.alpha);
    } else if (p.kind == TN__WORK_ATTENTION) {
        difference = compare_number(c, x, "scale", &p.args.attention.scale,
                                    &q.args.attention.scale);
        if (difference == TN__CAPTURES_EQUAL)
            difference = compare_number(c, x, "dropout",
                                        &p.args.attention.dropout,
                                        &q.args.attention.dropout);
    }
    if (difference != TN__CAPTURES_EQUAL)
        return difference;
    return memcmp(&p.args, &q.args, tn__work_kinds[p.kind].bytes) == 0
               ? TN__CAPTURES_EQUAL
               : TN__CAPTURES_DIFFER;
}

static bool same_copy(const tn_copy_args *a, const tn_copy_args *b)
{
    return a->direction == b->direction && a->bytes == b->bytes &&
           a->rows == b->rows &&
           (a->rows <= 1 || (a->dst_pitch == b->dst_pitch &&
                             a->src_pitch == b->src_pitch));
}

/* ---- captures ------------------------------------------------------------ */

/* Compares the work of two steps of the same kind. */
static int compare_arguments(const comparison *c, const tn__step *x,
                             const tn__step *y)
{
    if (x->command->kind == TN__WORK_COPY)
        return same_copy(&x->command->args.copy, &y->command->args.copy)
                   ? TN__CAPTURES_EQUAL
                   : TN__CAPTURES_DIFFER;
    if (x->command->kind != TN__WORK_LAUNCH)
        return compare_work(c, x, y);
    return same_launch(x->command, y->command) ? compare_params(c, x, y)
                                               : TN__CAPTURES_DIFFER;
}

bool tn__steps_are_equal(const tn__capture *capture, const tn__step *x,
                         const tn__step *y)
{
    const comparison c = {.a = capture, .b = capture};
    return x->command->kind == y->command->kind &&
           compare_arguments(&c, x, y) == TN__CAPTURES_EQUAL;
}

static int compare_steps(const comparison *c, size_t i)
{
    const tn__step *x = &c->a->step[i], *y = &c->b->step[i];
    const int difference =
        x->command->kind == y->command->kind && same_uses(c, x, y)
            ? compare_arguments(c, x, y)
            : TN__CAPTURES_DIFFER;
    if (difference == TN__CAPTURES_DIFFER)
        tn__text_add(c->text, "call %zu of the device was %s, and is %s with "
                     "other tensors, shapes or options in the next call",
                     i + 1, name_of(x), name_of(y));
    return difference;
}

static int compare_all(const comparison *c)
{
    const size_t steps = c->a->step_count;
    int difference = TN__CAPTURES_EQUAL;
    for (size_t i = 0; i < steps && i < c->b->step_count &&
                       difference == TN__CAPTURES_EQUAL; i++)
        difference = compare_steps(c, i);
    if (difference == TN__CAPTURES_EQUAL && steps != c->b->step_count) {
        tn__text_add(c->text, "the function made %zu calls of the device, and "
                     "makes %zu in the next call", steps, c->b->step_count);
        return TN__CAPTURES_DIFFER;
    }
    for (size_t o = 0; difference == TN__CAPTURES_EQUAL &&
                       o < c->a->output_count; o++) {
        const tn__output *x = &c->a->output[o], *y = &c->b->output[o];
        if (same_value(c, x->value, y->value) && x->dtype == y->dtype &&
            x->ndim == y->ndim && x->from == y->from &&
            same_numbers(x->shape, y->shape, x->ndim) &&
            same_numbers(x->stride, y->stride, x->ndim))
            continue;
        tn__text_add(c->text, "out[%zu] is another tensor in the next call", o);
        difference = TN__CAPTURES_DIFFER;
    }
    return difference;
}

int tn__captures_compare(const tn__capture *a, const tn__capture *b,
                         char **text)
{
    tn__text difference = {0};
    comparison c = {a, b, tn__alloc((a->value_count + 1) * sizeof *c.value),
                    &difference};
    *text = NULL;
    if (!c.value)
        return TN__CAPTURES_DIFFER;
    for (size_t v = 0; v < a->value_count; v++)
        c.value[v] = -1;
    const int result = compare_all(&c);
    tn__free(c.value);
    if (result == TN__CAPTURES_EQUAL)
        tn__text_release(&difference);
    else
        *text = tn__text_finish(&difference);
    return result;
}
