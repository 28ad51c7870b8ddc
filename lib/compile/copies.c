/* copies.c: removes copies from one value to another.
 *
 * A copy that moves all bytes of a range by the same distance, such as the clone
 * that makes a gradient of a temporary tensor, or a part of tn_cat, is not needed
 * if the steps that use the temporary tensor can use the other memory instead:
 *   - the source is temporary, and is computed at the place of the copy. Nothing
 *     may use that place in the meantime;
 *   - the copy is temporary, and is read at the place of the source. Nothing may
 *     write that place as long as the copy is read. */
#include <compile/passes.h>

#include <device/work.h>

/* A copy. The bytes of `from` are dense, and those of `to` are `shift` bytes
 * behind them. */
typedef struct copy {
    size_t step;
    const tn__use *from, *to;
    int64_t shift;
} copy;

/* Returns whether a launch copies elements, without a change and in their
 * order. */
static bool launch_copies(const tn__command *command)
{
    const tn__kernel *kernel = tn__program_kernel(command->program);
    const tn_launch *launch = &command->args.launch;
    if (kernel->input_count != 1 || kernel->output_count != 1 ||
        kernel->has_row || kernel->input[0].index_count ||
        kernel->input[0].guarded ||
        kernel->input[0].dtype != kernel->out[0].dtype ||
        kernel->ins[kernel->out[0].value].op != TN_K_LOAD)
        return false;
    for (uint32_t d = 0; d < launch->outer_ndim + launch->row_ndim; d++)
        if (launch->extent[d] != 1 && launch->operand[0].stride[d] !=
                                          launch->operand[1].stride[d])
            return false;
    return true;
}

/* Returns the number of bytes that a copy writes, each once. */
static int64_t bytes_of(const tn__command *command)
{
    const tn_launch *launch = &command->args.launch;
    if (command->kind == TN__WORK_COPY)
        return (int64_t)(command->args.copy.rows * command->args.copy.bytes);
    int64_t bytes = (int64_t)tn_dtype_bytes(
        (tn_dtype)command->program->operand[1].dtype);
    for (uint32_t d = 0; d < launch->outer_ndim + launch->row_ndim; d++)
        bytes *= launch->extent[d];
    return bytes;
}

static bool is_copy(const tn__capture *c, size_t s, copy *out)
{
    const tn__step *step = &c->step[s];
    const tn__use *use = &c->use[step->first_use];
    if (step->removed || step->use_count != 2)
        return false;
    if (step->command->kind == TN__WORK_COPY) {
        const tn_copy_args *args = &step->command->args.copy;
        if (args->rows > 1 && args->dst_pitch != args->src_pitch)
            return false;
        *out = (copy){s, &use[1], &use[0], 0};
    } else {
        if (step->command->kind != TN__WORK_LAUNCH ||
            !launch_copies(step->command))
            return false;
        *out = (copy){s, &use[0], &use[1], 0};
    }
    out->shift = out->to->access.low - out->from->access.low;
    return out->from->value != out->to->value && bytes_of(step->command) > 0 &&
           out->to->access.high - out->to->access.low ==
               bytes_of(step->command);
}

/* Returns whether the source can be computed at the place of the copy. */
static bool can_compute_there(const tn__capture *c, const copy *x)
{
    const uint32_t from = x->from->value, to = x->to->value;
    const tn__access *place = &x->to->access;
    tn__step_range span;
    return c->value[from].kind == TN__VALUE_TEMPORARY &&
           tn__value_span(c, from, &span) && span.first < x->step &&
           tn__value_fits(c, from, to, x->from->access.low,
                          x->from->access.high, x->shift) &&
           !tn__value_is_used(c, from, x->from->access.low,
                              x->from->access.high, x->step + 1, span.last,
                              x->step, false) &&
           !tn__value_is_used(c, to, place->low, place->high, span.first,
                              x->step, x->step, true) &&
           !tn__value_is_used(c, to, place->low, place->high, x->step,
                              span.last, x->step, false);
}

/* Returns whether the copy can be read at the place of the source. */
static bool can_read_there(const tn__capture *c, const copy *x)
{
    const uint32_t from = x->from->value, to = x->to->value;
    const tn__access *place = &x->from->access, *gone = &x->to->access;
    tn__step_range span;
    return c->value[to].kind == TN__VALUE_TEMPORARY &&
           tn__value_span(c, to, &span) && span.first == x->step &&
           tn__value_fits(c, to, from, gone->low, gone->high, -x->shift) &&
           !tn__value_is_used(c, to, gone->low, gone->high, x->step, span.last,
                              x->step, false) &&
           !tn__value_is_used(c, from, place->low, place->high, x->step,
                              span.last, x->step, false);
}

void tn__pass_copies(tn__capture *c)
{
    for (size_t s = 0; s < c->step_count; s++) {
        copy x;
        if (!is_copy(c, s, &x))
            continue;
        const uint32_t from = x.from->value, to = x.to->value;
        if (can_compute_there(c, &x))
            tn__value_move(c, from, to, x.shift, *x.to->access.buffer);
        else if (can_read_there(c, &x))
            tn__value_move(c, to, from, -x.shift, *x.from->access.buffer);
        else
            continue;
        tn__step_remove(&c->step[s]);
    }
}
