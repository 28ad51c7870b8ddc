/* class.c: packs the class of a launch into a number, and computes properties
 * of a class. The class is everything about a launch on which the kernel source
 * depends (class.h). */
#include <base/error.h>
#include <source/plan/class.h>

static uint32_t log2_of(uint32_t power)
{
    uint32_t log = 0;
    while (power >> (log + 1))
        log++;
    return log;
}

uint64_t tn__launch_class_pack(const tn__launch_class *class)
{
    /* The two fields share bits: `slots` is set only for programs with rows,
     * and `tile` only for programs without. */
    uint64_t slots = class->slots ? log2_of(class->slots) + 1
                     : class->tile ? log2_of(class->tile) : 0;
    return (uint64_t) class->is_rows | (uint64_t) class->outer << 1 |
           (uint64_t) class->row << 5 | (uint64_t) class->is_wide << 9 |
           (uint64_t) class->in_buffer << 10 | (uint64_t) class->is_unit << 11 |
           (uint64_t) class->is_short << 12 | slots << 13 |
           (uint64_t)(log2_of(class->lanes) / 2) << 16 |
           (uint64_t) class->cached << 22 | (uint64_t) class->distinct << 23 |
           (uint64_t)log2_of(class->group) << 18 |
           (uint64_t)log2_of(class->vector) << 24 |
           (uint64_t) class->split << 27 |
           (uint64_t)(class->tile ? class->transposed : class->zero) << 32;
}

tn__launch_class tn__launch_class_unpack(uint64_t variant)
{
    uint32_t slots = variant >> 13 & 7, mask = (uint32_t)(variant >> 32);
    bool is_rows = variant & 1, has_tiles = !is_rows && slots;
    return (tn__launch_class){
        .is_rows = is_rows,
        .outer = variant >> 1 & 15,
        .row = variant >> 5 & 15,
        .is_wide = variant >> 9 & 1,
        .in_buffer = variant >> 10 & 1,
        .is_unit = variant >> 11 & 1,
        .is_short = variant >> 12 & 1,
        .slots = is_rows && slots ? 1u << (slots - 1) : 0,
        .lanes = 1u << 2 * (variant >> 16 & 3),
        .cached = variant >> 22 & 1,
        .distinct = variant >> 23 & 1,
        .tile = has_tiles ? 1u << slots : 0,
        .transposed = has_tiles ? mask : 0,
        .group = 1u << (variant >> 18 & 15),
        .vector = 1u << (variant >> 24 & 7),
        .split = variant >> 27 & 31,
        .zero = has_tiles ? 0 : mask,
    };
}

bool tn__launch_words_init(tn__launch_words *words, const tn_program *program,
                           const tn__launch_class *class)
{
    uint32_t ndim = class->outer + class->row, at = 0;
    words->count = at++;
    words->length = at++;
    words->extent = at;
    at += ndim;
    for (uint32_t k = 0; k < program->operand_count; k++) {
        uint32_t indices = program->operand[k].index_count;
        words->offset[k] = at++;
        words->stride[k] = at;
        at += ndim;
        words->index_stride[k] = at;
        at += indices;
        words->index_extent[k] = at;
        at += indices;
    }
    words->param = at;
    at += program->param_count;
    words->tag = at++;
    words->launch = at++;
    words->room = at++;
    words->share = class->split ? at++ : 0;
    words->shares = class->split ? at++ : 0;
    words->total = at;
    return at <= TN_PLAN_WORDS;
}

bool tn__ins_faults(const tn_kernel_ins *ins)
{
    return ins->op == TN_K_LOAD && !(ins->sub & TN_LOAD_ZERO) &&
           (ins->a != TN_NONE || ins->b != TN_NONE || ins->c != TN_NONE);
}

bool tn__program_may_fault(const tn_program *program)
{
    for (uint32_t i = 0; i < program->ins_count; i++)
        if (tn__ins_faults(&program->ins[i]))
            return true;
    return false;
}

bool tn__operand_is_contiguous(const tn_program *program,
                               const tn__launch_class *class, uint32_t k)
{
    const tn_kernel_operand *operand = &program->operand[k];
    return class->is_unit && !(class->zero >> k & 1) &&
           operand->access != TN_OPERAND_OFFSET && operand->index_count == 0;
}

#define GROUPS_PER_UNIT 16

int64_t tn__target_max_groups(const tn_target *target)
{
    return (int64_t)(target->units ? target->units : 1) * GROUPS_PER_UNIT;
}

tn_status tn__target_check(const tn_target *target)
{
    if (!(target->flags & TN_TARGET_PLAIN) ||
        target->flags == TN_TARGET_C)
        return TN_OK;
    return tn__fail(TN_ERR_ARGUMENT,
                    "a plain C target has all flags of TN_TARGET_C (0x%x), "
                    "not 0x%x",
                    TN_TARGET_C, target->flags);
}
