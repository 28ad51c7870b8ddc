/* primitive.c: the steps of planning that all primitives (matrix products,
 * scans, sorts, scatters, convolutions) share.
 *
 * The kernel source of a primitive is the same except for a few definitions:
 * the dtype, the kind of operation, and the number of outer dimensions after
 * merging. The outer dimensions are all except the one along which the
 * primitive scans, sorts or scatters. */
#include <stdlib.h>
#include <string.h>

#include <source/plan/class.h>
#include <source/primitive/primitive.h>
#include <kernel/program_hash.h>

static uint64_t pack(const tn__variant *v)
{
    return (uint64_t)v->primitive | (uint64_t)v->dtype << 4 |
           (uint64_t)v->ndim << 8 | (uint64_t)v->is_wide << 12 |
           (uint64_t)v->in_buffer << 13 | (uint64_t)v->kind << 14 |
           (uint64_t)v->flags << 17 | (uint64_t)v->group << 21;
}

tn__variant tn__variant_unpack(uint64_t word)
{
    return (tn__variant){.primitive = word & 15,
                     .dtype = word >> 4 & 15,
                     .ndim = word >> 8 & 15,
                     .is_wide = word >> 12 & 1,
                     .in_buffer = word >> 13 & 1,
                     .kind = word >> 14 & 7,
                     .flags = word >> 17 & 15,
                     .group = (uint32_t)(word >> 21 & 0xffff)};
}

void tn__primitive_init(tn__primitive *p, const tn_target *target,
                        tn_plan *plan, unsigned primitive, uint32_t dtype)
{
    memset(p, 0, sizeof *p);
    p->target = target;
    p->plan = plan;
    p->v.primitive = primitive;
    p->v.dtype = dtype;
    plan->flags = 0;
    plan->buffer_count = 0;
    plan->scratch_bytes = 0;
    plan->step_count = 1;
}

void tn__primitive_operand(tn__primitive *p, const tn_strided *s,
                           uint32_t without, int64_t length)
{
    uint32_t o = p->operands++;
    for (uint32_t d = 0, to = 0; to < p->ndim; d++)
        if (d != without)
            p->stride[o][to++] = s->stride[d];
    p->offset[o] = s->offset;
    int64_t reach = llabs(s->offset);
    if (without != TN_NONE && length > 0)
        reach += (length - 1) * llabs(s->stride[without]);
    if (reach > p->reach)
        p->reach = reach;
}

void tn__primitive_buffer(tn__primitive *p, tn_buffer *buffer)
{
    p->plan->buffer[p->plan->buffer_count++] = buffer;
}

void tn__primitive_argument(tn__primitive *p, int64_t word)
{
    p->argument[p->argument_count++] = (uint64_t)word;
}

void tn__primitive_space(tn__primitive *p, int64_t longest)
{
    tn_launch_operand operand[TN__OPERANDS];
    tn_launch launch = {.extent = p->extent, .operand = operand};
    int64_t reach = 0;
    for (uint32_t o = 0; o < p->operands; o++) {
        operand[o] = (tn_launch_operand){.stride = p->stride[o]};
        int64_t far = tn__strides_reach(p->extent, p->stride[o], p->ndim);
        reach = far > reach ? far : reach;
    }
    tn__launch_space_init(&p->outer, &launch, p->operands, 0, p->ndim);
    p->v.ndim = p->outer.ndim;
    p->v.is_wide = reach + p->reach >= TN__NARROW_LIMIT ||
                   p->outer.count >= TN__NARROW_LIMIT ||
                   longest >= TN__NARROW_LIMIT;
}

tn_status tn__primitive_end(tn__primitive *p, int64_t groups, int64_t per_unit)
{
    tn_plan *plan = p->plan;
    int64_t units = p->target->units ? p->target->units : 1;
    uint64_t *word = plan->argument;
    tn_status status = tn__target_check(p->target);
    if (status != TN_OK)
        return status;
    if (p->v.dtype == TN_F64 && !(p->target->flags & TN_TARGET_F64))
        return tn__fail(TN_ERR_UNSUPPORTED,
                        "the device has no double precision (f64)");
    *word++ = (uint64_t)p->outer.count;
    for (uint32_t d = 0; d < p->outer.ndim; d++)
        *word++ = (uint64_t)p->outer.extent[d];
    for (uint32_t o = 0; o < p->operands; o++) {
        *word++ = (uint64_t)p->offset[o];
        for (uint32_t d = 0; d < p->outer.ndim; d++)
            *word++ = (uint64_t)p->outer.stride[o][d];
    }
    memcpy(word, p->argument, p->argument_count * sizeof *word);
    word += p->argument_count;
    plan->argument_bytes = (uint32_t)(8 * (word - plan->argument));
    p->v.in_buffer = plan->argument_bytes + 8 * (plan->buffer_count + 2) >
                     p->target->argument_room;
    if (p->v.in_buffer)
        plan->flags |= TN_PLAN_WORDS_IN_BUFFER;
    groups = tn__min_i64(groups, units * per_unit);
    if (plan->flags & TN_PLAN_FAULTS)
        groups = tn__min_i64(groups, p->target->fault_room);
    plan->group_count = (uint64_t)groups;
    plan->group_size = p->v.group;
    plan->variant = pack(&p->v);
    plan->key[0] = 0x7072696d; /* ASCII "prim", so that the key differs from
                                * those of programs */
    plan->key[1] = 0;
    tn__hash_word(plan->key, plan->variant);
    tn__hash_word(plan->key, p->target->flags);
    tn__hash_finish(plan->key);
    return TN_OK;
}

bool tn__primitive_is_chunked(const tn__primitive *p)
{
    return p->target->flags & TN_TARGET_CHUNKED;
}

tn_status tn__primitive_end_lines(tn__primitive *p)
{
    p->v.group = tn__primitive_is_chunked(p) ? 1 : tn__target_group(p->target);
    return tn__primitive_end(p, tn__divide_up(p->outer.count, p->v.group), 64);
}

void tn__primitive_extents(tn__primitive *p, const int64_t *extent,
                           uint32_t ndim, uint32_t without)
{
    for (uint32_t d = 0; d < ndim; d++)
        if (d != without)
            p->extent[p->ndim++] = extent[d];
}
