/* plan_program.c: plans the launch of a program: its class (class.h), the
 * number of work-groups and the argument words. It runs at every launch and
 * allocates nothing. */
#include <stdlib.h>
#include <string.h>

#include <base/error.h>
#include <base/fpu.h>
#include <source/plan/class.h>
#include <source/plan/launch_space.h>
#include <kernel/program_hash.h>

static bool is_rows(const tn_program *program)
{
    if (program->stage_count != 1 || program->stage[0].row_count > 0)
        return true;
    for (uint32_t i = 0; i < program->ins_count; i++)
        if (program->ins[i].op == TN_K_REDUCE)
            return true;
    return false;
}

static bool computes_double(const tn_kernel_ins *ins, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (ins[i].dtype == TN_F64)
            return true;
    return false;
}

static bool uses_double(const tn_program *program)
{
    for (uint32_t k = 0; k < program->operand_count; k++)
        if (program->operand[k].dtype == TN_F64)
            return true;
    for (uint32_t i = 0; i < program->fn_count; i++)
        if (computes_double(program->fn[i].ins, program->fn[i].ins_count))
            return true;
    return computes_double(program->ins, program->ins_count);
}

static bool are_distinct(const tn_program *program, const tn_launch *launch)
{
    const uint32_t count = program->operand_count;
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t o = 0;
             o < count && program->operand[k].access == TN_OPERAND_WRITE; o++)
            if (o != k && program->operand[o].access != TN_OPERAND_OFFSET &&
                launch->operand[o].buffer == launch->operand[k].buffer)
                return false;
    return true;
}

/* ---- the iteration space ----------------------------------------------- */

/* Sets class->is_unit if all operands that are read or written per element have
 * innermost stride 0 or 1. Operands with one value per row do not matter. */
static void find_unit(tn__launch_class *class, const tn_program *program,
                      const tn__launch_space *inner)
{
    class->is_unit = true;
    for (uint32_t k = 0; k < program->operand_count; k++) {
        const tn_kernel_operand *operand = &program->operand[k];
        int64_t stride = inner->stride[k][inner->ndim - 1];
        if (operand->access == TN_OPERAND_OFFSET)
            continue;
        if (class->is_rows && operand->level == TN_LEVEL_ROW)
            stride = 0;
        if (stride == 0)
            class->zero |= 1u << k;
        else if (stride != 1)
            class->is_unit = false;
    }
    if (!class->is_unit)
        class->zero = 0;
}

/* Returns whether each vector of `vector` elements is aligned to its size,
 * provided that the buffer is. */
static bool vectors_align(const int64_t *stride, uint32_t ndim,
                          uint32_t vector)
{
    bool align = true;
    for (uint32_t d = 0; d < ndim; d++)
        align = align && stride[d] % vector == 0;
    return align;
}

/* Sets class->vector to the number of elements of the widest contiguous operand
 * that fit in 16 bytes, if all contiguous operands are aligned for that.
 * Neighbouring work-items then access neighbouring vectors, and a GPU coalesces
 * the accesses. (A CPU needs no vectors here, since its compiler vectorizes the
 * loop over work-items.) `inner` is the space of the elements of a row, and
 * `rows` is the space of the rows. For a pointwise program, `inner` is the
 * space of all elements and `rows` is NULL. */
static void find_vector(tn__launch_class *class, const tn_program *program,
                        const tn_launch *launch, const tn__launch_space *inner,
                        const tn__launch_space *rows)
{
    size_t widest = 0;
    for (uint32_t k = 0; k < program->operand_count; k++) {
        size_t bytes = tn_dtype_bytes((tn_dtype)program->operand[k].dtype);
        if (tn__operand_is_contiguous(program, class, k) && bytes > widest)
            widest = bytes;
    }
    if (widest == 0)
        return;
    uint32_t vector = (uint32_t)(16 / widest);
    bool fits = inner->extent[inner->ndim - 1] % vector == 0;
    for (uint32_t k = 0; k < program->operand_count; k++)
        if (tn__operand_is_contiguous(program, class, k))
            fits = fits && launch->operand[k].offset % vector == 0 &&
                   vectors_align(inner->stride[k], inner->ndim - 1, vector) &&
                   (!rows ||
                    vectors_align(rows->stride[k], rows->ndim, vector));
    if (fits)
        class->vector = vector;
}

/* Returns whether an index that the kernel computes may need more than 32
 * bits. */
static bool needs_wide(const tn_program *program, const tn_launch *launch,
                       int64_t count)
{
    if (count >= TN__NARROW_LIMIT)
        return true;
    uint32_t ndim = launch->outer_ndim + launch->row_ndim;
    for (uint32_t k = 0; k < program->operand_count; k++) {
        const tn_launch_operand *operand = &launch->operand[k];
        if (program->operand[k].access == TN_OPERAND_OFFSET)
            continue; /* offsets of this operand always have 64 bits */
        int64_t reach = llabs(operand->offset);
        reach += tn__strides_reach(launch->extent, operand->stride, ndim);
        reach += tn__strides_reach(operand->index_extent, operand->index_stride,
                                   program->operand[k].index_count);
        if (reach >= TN__NARROW_LIMIT)
            return true;
    }
    return false;
}

/* ---- how many work-items ----------------------------------------------- */

/* With TN_TARGET_CHUNKED, a work-item processes a contiguous range of elements.
 * There are SHARES_PER_UNIT ranges for each compute unit, but a range has at
 * least about SHARE_ELEMENTS elements, so that it is worth starting. On PoCL,
 * 16 M elements took 6.8 ms in 64 ranges and 3.4 ms in 1024; an empty launch
 * took 29 us. */
#define SHARES_PER_UNIT 16
#define SHARE_ELEMENTS 2048
#define BALANCED 16 /* factor by which the number of work-groups is raised so
                     * that the device can balance their load */

static void size_launch(tn_plan *plan, const tn_target *target,
                        const tn__launch_class *class,
                        const tn__launch_space *space, int64_t length)
{
    const int64_t count = space->count;
    int64_t units = target->units ? target->units : 1, groups;
    plan->group_size = class->group;
    if (count == 0) {
        groups = 0;
    } else if (target->flags & TN_TARGET_CHUNKED) {
        int64_t each = class->is_rows ? length + 16 : 1;
        const int64_t rows = tn__divide_up(SHARE_ELEMENTS, each);
        groups =
            tn__min_i64(units * SHARES_PER_UNIT, tn__divide_up(count, rows));
    } else {
        int64_t each = class->is_rows
                           ? class->group / tn__launch_class_team(class)
                           : class->group * class->vector;
        int64_t things = class->tile ? tn__tiles_count(class, space)
                                     : tn__divide_up(count, each);
        /* If some work-groups take longer than others, a device balances the
         * load better with more, smaller work-groups. */
        int64_t most = tn__target_max_groups(target);
        if (class->cached || class->tile)
            most *= BALANCED;
        groups = tn__min_i64(most, things);
    }
    if (plan->flags & TN_PLAN_FAULTS)
        groups = tn__min_i64(groups, target->fault_room);
    plan->group_count = (uint64_t)groups;
}

/* If several work-groups share a row: sets the number of work-groups of this
 * launch, the size of scratch memory, and the argument words for the part of a
 * row that one work-group gets (share) and the number of parts (shares). */
static void split_launch(tn_plan *plan, const tn_program *program,
                         const tn__launch_class *class,
                         const tn__launch_words *words, int64_t count,
                         int64_t length, int64_t share)
{
    const uint64_t shares = (uint64_t)tn__divide_up(length, share);
    const uint32_t parts = tn__split_reduce_index(program, TN_NONE);
    const int64_t blocks =
        tn__divide_up(count, class->group / tn__launch_class_team(class));
    const bool stores_rows =
        tn__split_stage(program, plan->step) == program->stage_count;
    plan->step_count = tn__split_steps(program);
    plan->group_count = (uint64_t)blocks * (stores_rows ? 1 : shares);
    if (parts > 0)
        plan->flags |= TN_PLAN_SCRATCH;
    plan->scratch_bytes = TN__SPLIT_BYTES * parts * (uint64_t)count * shares;
    plan->argument[words->share] = (uint64_t)share;
    plan->argument[words->shares] = shares;
}

/* ---- argument words ---------------------------------------------------- */

static uint64_t param_word(tn_dtype dtype, tn_number param)
{
    uint64_t word = 0;
    float single;
    switch (dtype) {
    case TN_F32:
        single = tn__fpu_single(param.f);
        memcpy(&word, &single, sizeof single);
        return word & 0xffffffff;
    case TN_F64:
        memcpy(&word, &param.f, sizeof word);
        return word;
    case TN_BOOL:
        return param.i != 0;
    case TN_I32:
        return (uint64_t)(int64_t)(int32_t)(uint32_t)param.i;
    default:
        return (uint64_t)param.i;
    }
}

static void fill_argument_words(uint64_t *word, const tn__launch_words *at,
                                const tn_program *program,
                                const tn_launch *launch,
                                const tn__launch_space *outer,
                                const tn__launch_space *row)
{
    word[at->count] = (uint64_t)outer->count;
    /* Even a program without a reduction may read the length of a row
     * (ROWLEN). */
    word[at->length] = 1;
    for (uint32_t d = 0; d < launch->row_ndim; d++)
        word[at->length] *= (uint64_t)launch->extent[launch->outer_ndim + d];
    for (uint32_t d = 0; d < outer->ndim; d++)
        word[at->extent + d] = (uint64_t)outer->extent[d];
    for (uint32_t d = 0; row && d < row->ndim; d++)
        word[at->extent + outer->ndim + d] = (uint64_t)row->extent[d];
    for (uint32_t k = 0; k < program->operand_count; k++) {
        const tn_launch_operand *operand = &launch->operand[k];
        word[at->offset[k]] = (uint64_t)operand->offset;
        for (uint32_t d = 0; d < outer->ndim; d++)
            word[at->stride[k] + d] = (uint64_t)outer->stride[k][d];
        for (uint32_t d = 0; row && d < row->ndim; d++)
            word[at->stride[k] + outer->ndim + d] =
                (uint64_t)row->stride[k][d];
        for (uint32_t d = 0; d < program->operand[k].index_count; d++) {
            word[at->index_stride[k] + d] = (uint64_t)operand->index_stride[d];
            word[at->index_extent[k] + d] = (uint64_t)operand->index_extent[d];
        }
    }
    for (uint32_t i = 0; i < program->param_count; i++)
        word[at->param + i] =
            param_word(program->param_dtype[i], launch->param[i]);
}

/* ---- the plan ---------------------------------------------------------- */

static tn_status check_program(const tn_target *target,
                               const tn_program *program)
{
    tn_status status = tn__target_check(target);
    if (status != TN_OK)
        return status;
    if (!(target->flags & TN_TARGET_F64) && uses_double(program))
        return tn__fail(TN_ERR_UNSUPPORTED,
                        "the device has no double precision (f64)");
    if (program->operand_count > TN_PLAN_BUFFERS)
        return tn__fail(TN_ERR_UNSUPPORTED,
                        "the program has %u operands; at most %d are supported",
                        program->operand_count, TN_PLAN_BUFFERS);
    return TN_OK;
}

tn_status tn__plan_program(const tn_target *target, const tn_program *program,
                           const tn_launch *launch, tn_plan *plan)
{
    tn_status status = check_program(target, program);
    if (status != TN_OK)
        return status;
    uint32_t outer_ndim = launch->outer_ndim,
             ndim = outer_ndim + launch->row_ndim;
    bool chunked = target->flags & TN_TARGET_CHUNKED;
    tn__launch_class class = {
        .is_rows = is_rows(program), .vector = 1, .lanes = 1};
    tn__launch_space outer, row;
    tn__launch_space_init(&outer, launch, program->operand_count, 0,
                          class.is_rows ? outer_ndim : ndim);
    if (class.is_rows)
        tn__launch_space_init(&row, launch, program->operand_count, outer_ndim,
                              ndim);
    int64_t length = class.is_rows ? row.count : 1;

    class.group = chunked ? 1 : tn__target_group(target);
    class.distinct = !chunked && are_distinct(program, launch);
    if (!chunked && !class.is_rows)
        tn__tiles_choose(&class, program, target, &outer);
    if (!class.tile)
        find_unit(&class, program, class.is_rows ? &row : &outer);
    class.outer = outer.ndim;
    class.row = class.is_rows ? row.ndim : 0;
    class.is_wide = needs_wide(program, launch, outer.count > length
                                                    ? outer.count : length);
    if (class.is_rows && !chunked)
        tn__launch_class_set_team(&class, program, target, &outer, &row);
    if (!chunked && class.is_rows && class.lanes == 1)
        find_vector(&class, program, launch, &row, &outer);
    else if (!chunked && !class.is_rows && !class.tile)
        find_vector(&class, program, launch, &outer, NULL);
    class.is_short = class.is_rows &&
                     length <= TN_CHUNK * (class.slots ? class.slots : 1);
    const int64_t share =
        class.slots
            ? tn__split_share(program, &class, tn__target_max_groups(target),
                              outer.count, length)
            : 0;
    if (share) {
        class.split = plan->step + 1;
        class.is_short = share == TN_CHUNK * class.slots;
    } else if (class.lanes > 1) {
        tn__launch_class_shrink_groups(&class, target, outer.count);
    }

    plan->flags = tn__program_may_fault(program) ? TN_PLAN_FAULTS : 0;
    plan->step_count = 1;
    plan->scratch_bytes = 0;
    plan->buffer_count = 0;
    for (uint32_t k = 0; k < program->operand_count; k++)
        if (program->operand[k].access != TN_OPERAND_OFFSET)
            plan->buffer[plan->buffer_count++] = launch->operand[k].buffer;
    tn__launch_words words;
    if (!tn__launch_words_init(&words, program, &class))
        return tn__fail(TN_ERR_UNSUPPORTED,
                        "a program of %u operands over %u dimensions needs "
                        "more than %d argument words",
                        program->operand_count, ndim, TN_PLAN_WORDS);
    plan->argument_bytes = 8 * words.total;
    uint32_t pointers = 8 * (plan->buffer_count + 1);
    class.in_buffer = plan->argument_bytes + pointers > target->argument_room;
    if (class.in_buffer)
        plan->flags |= TN_PLAN_WORDS_IN_BUFFER;
    size_launch(plan, target, &class, &outer, length);
    if (share)
        split_launch(plan, program, &class, &words, outer.count, length,
                     share);
    if (!class.is_rows && length == 0)
        plan->group_count = 0;
    fill_argument_words(plan->argument, &words, program, launch, &outer,
                        class.is_rows ? &row : NULL);
    if (plan->flags & TN_PLAN_FAULTS)
        tn__fault_words(plan->argument + words.tag, target, launch->tag);
    else
        memset(plan->argument + words.tag, 0, 3 * sizeof *plan->argument);
    plan->variant = tn__launch_class_pack(&class);
    plan->key[0] = program->key[0];
    plan->key[1] = program->key[1];
    tn__hash_word(plan->key, plan->variant);
    tn__hash_word(plan->key, target->flags);
    tn__hash_finish(plan->key);
    return TN_OK;
}
