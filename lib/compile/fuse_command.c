/* fuse_command.c: the one launch that replaces the launches of a group. */
#include <compile/fuse.h>

#include <base/error.h>
#include <base/memory.h>
#include <device/work.h>

#include <string.h>

/* The launch while it is put together. */
typedef struct assembly {
    const tn__capture *capture;
    const tn__group *group;
    tn__merge merge;
    /* The operands of the merged kernel. */
    const tn__part_operand *input[TN__KERNEL_MAX_INPUTS];
    const tn__part_operand *output[TN__KERNEL_MAX_OUTPUTS];
    tn_number param[TN__KERNEL_MAX_PARAMS];
    const tn_launch_operand *given[TN__KERNEL_MAX_INPUTS +
                                   TN__KERNEL_MAX_OUTPUTS];
} assembly;

/* Returns the number that tn__merge_part.input has for an input that an earlier
 * part writes; 0 if no earlier part does. */
static int written_before(const assembly *a, int part,
                          const tn__part_operand *x)
{
    for (int p = part; p-- > 0;) {
        const tn__part *writer = &a->group->part[p];
        for (int o = writer->kernel->input_count; o < writer->operand_count;
             o++)
            if (tn__operands_overlap(&a->group->cut, &writer->operand[o], x))
                return TN__MERGE_FROM(p, o - writer->kernel->input_count);
    }
    return 0;
}

/* Returns whether an input of the merged kernel is the operand x. */
static bool same_input(const assembly *a, const tn__part_operand *input,
                       const tn__part_operand *x)
{
    return input->dtype == x->dtype && input->level == x->level &&
           input->value == x->value &&
           (x->value >= 0
                ? tn__same_map(&a->group->cut, input, x)
                : input->from == x->from &&
                      memcmp(input->stride, x->stride,
                             (size_t)a->group->cut.ndim * sizeof *x->stride) ==
                          0);
}

static bool add_inputs(assembly *a, int p)
{
    const tn__part *part = &a->group->part[p];
    tn__merge_part *to = &a->merge.part[p];
    to->kernel = part->kernel;
    to->per_row = part->per_row;
    for (int i = 0; i < part->kernel->input_count; i++) {
        const tn__part_operand *x = &part->operand[i];
        to->input[i] = x->value >= 0 ? written_before(a, p, x) : 0;
        if (to->input[i] < 0)
            continue;
        int at = 0;
        while (at < a->merge.input_count && !same_input(a, a->input[at], x))
            at++;
        if (at == TN__KERNEL_MAX_INPUTS)
            return false;
        if (at == a->merge.input_count) {
            a->given[at] = &part->command->args.launch.operand[i];
            a->input[a->merge.input_count++] = x;
        }
        to->input[i] = at;
    }
    return true;
}

static bool in_group(const tn__group *g, size_t step)
{
    for (int p = 0; p < g->count; p++)
        if (g->step[p] == step)
            return true;
    return false;
}

/* Returns whether something outside of the group reads an output of a part. */
static bool is_read_outside(const assembly *a, const tn__part_operand *x)
{
    const tn__capture *c = a->capture;
    if (c->value[x->value].kind != TN__VALUE_TEMPORARY)
        return true;
    for (size_t s = 0; s < c->step_count; s++)
        for (uint32_t u = 0; u < c->step[s].use_count; u++) {
            const tn__use *use = &c->use[c->step[s].first_use + u];
            if (use->value == (uint32_t)x->value && use->access.reads &&
                !in_group(a->group, s))
                return true;
        }
    return false;
}

static bool is_written_later(const assembly *a, int part,
                             const tn__part_operand *x)
{
    for (int p = part + 1; p < a->group->count; p++) {
        const tn__part *writer = &a->group->part[p];
        for (int o = writer->kernel->input_count; o < writer->operand_count;
             o++)
            if (tn__same_map(&a->group->cut, &writer->operand[o], x))
                return true;
    }
    return false;
}

static bool add_outputs(assembly *a)
{
    for (int p = 0; p < a->group->count; p++) {
        const tn__part *part = &a->group->part[p];
        const int inputs = part->kernel->input_count;
        for (int o = inputs; o < part->operand_count; o++) {
            const tn__part_operand *x = &part->operand[o];
            if (is_written_later(a, p, x) || !is_read_outside(a, x))
                continue;
            if (a->merge.output_count == TN__KERNEL_MAX_OUTPUTS)
                return false;
            const int at = a->merge.output_count++;
            a->merge.output[at].part = p;
            a->merge.output[at].output = o - inputs;
            a->output[at] = x;
            a->given[a->merge.input_count + at] =
                &part->command->args.launch.operand[o];
        }
    }
    return true;
}

/* Gives each number of the parts a parameter of the merged kernel. Equal numbers
 * of one type share a parameter. */
static bool add_params(assembly *a)
{
    const tn__command *of[TN__KERNEL_MAX_PARAMS]; /* of[k]: the launch that has */
    uint32_t number[TN__KERNEL_MAX_PARAMS];       /* it as parameter number[k] */
    for (int p = 0; p < a->group->count; p++) {
        const tn__command *from = a->group->part[p].command;
        for (uint32_t i = 0; i < from->program->param_count; i++) {
            int at = 0;
            while (at < a->merge.param_count &&
                   !tn__command_same_param(of[at], number[at], from, i))
                at++;
            if (at == TN__KERNEL_MAX_PARAMS)
                return false;
            if (at == a->merge.param_count) {
                of[at] = from;
                number[at] = i;
                a->param[a->merge.param_count++] = from->args.launch.param[i];
            }
            a->merge.part[p].param[i] = at;
        }
    }
    return true;
}

/* Lets the command draw random numbers and read late numbers as the parts
 * did. */
static void add_changes(const assembly *a, tn__command *command)
{
    for (int p = 0; p < a->group->count; p++) {
        const tn__command *from = a->group->part[p].command;
        const int *param = a->merge.part[p].param;
        if (from->draw) {
            command->draw = from->draw;
            command->draw_at = (uint32_t)param[from->draw_at];
        }
        for (uint32_t i = 0; i < from->late_count; i++) {
            const uint32_t at = (uint32_t)param[from->late[i].param];
            uint32_t known = 0;
            while (known < command->late_count &&
                   command->late[known].param != at)
                known++;
            command->late[known] =
                (struct tn__late_param){at, from->late[i].from};
            command->late_count += known == command->late_count;
        }
    }
}

static tn__command *make_command(const assembly *a, tn_device *device,
                                 const tn__kernel *kernel)
{
    const tn_program *program = tn__kernel_program(kernel);
    tn_built *built = program ? tn__device_built(device, program) : NULL;
    if (!built)
        return NULL;
    const tn__cut *cut = &a->group->cut;
    static const int64_t one[1] = {1}, none[1] = {0};
    tn_launch_operand
        operand[TN__KERNEL_MAX_INPUTS + TN__KERNEL_MAX_OUTPUTS];
    const int count = a->merge.input_count + a->merge.output_count;
    for (int k = 0; k < count; k++) {
        const tn__part_operand *x = k < a->merge.input_count
                                        ? a->input[k]
                                        : a->output[k - a->merge.input_count];
        operand[k] = *a->given[k];
        operand[k].stride = cut->ndim ? x->stride : none;
        if (!x->indexed)
            operand[k].index_stride = operand[k].index_extent = NULL;
    }
    const tn__command *last = a->group->part[a->group->count - 1].command;
    const tn_launch launch = {
        .size = sizeof launch,
        .outer_ndim = cut->ndim ? (uint32_t)cut->outer_ndim : 1,
        .row_ndim = (uint32_t)(cut->ndim - cut->outer_ndim),
        .flags = last->args.launch.flags,
        .extent = cut->ndim ? cut->extent : one,
        .operand = operand,
        .param = a->param};
    tn__command *command =
        tn__command_launch(program, built, &launch, kernel->name);
    if (command)
        add_changes(a, command);
    return command;
}

tn__command *tn__group_command(const tn__capture *capture,
                               const tn__group *group, tn_device *device,
                               uint32_t value[TN__ACCESS_MAX])
{
    assembly a = {.capture = capture, .group = group};
    a.merge.part_count = group->count;
    for (int p = 0; p < group->count; p++)
        if (!add_inputs(&a, p))
            return NULL;
    if (!add_params(&a) || !add_outputs(&a) || !a.merge.output_count)
        return NULL;
    const tn__kernel *kernel = tn__kernel_merge(&a.merge);
    tn__command *command = kernel ? make_command(&a, device, kernel) : NULL;
    uint32_t count = 0;
    for (int i = 0; i < a.merge.input_count; i++)
        if (a.input[i]->value >= 0)
            value[count++] = (uint32_t)a.input[i]->value;
    for (int o = 0; o < a.merge.output_count; o++)
        value[count++] = (uint32_t)a.output[o]->value;
    return command;
}
