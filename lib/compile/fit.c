/* fit.c: whether two groups over a common space can become one launch. */
#include <compile/window.h>

#include <string.h>

/* Elements of a large launch. Its time does not depend on the time of a call. */
enum { LARGE = 65536 };

static int64_t bytes_of(const tn__part_operand *o)
{
    return (int64_t)tn_dtype_bytes((tn_dtype)o->dtype);
}

/* Checks all pairs of operands of two parts over a common space. Returns why the
 * parts cannot be fused, or NULL. Adds to *shared the bytes per element of
 * operands that both parts use. */
static const char *check_operands(const tn__cut *cut, const tn__part *x,
                                  const tn__part *y, int64_t *shared)
{
    for (int i = 0; i < x->operand_count; i++)
        for (int k = 0; k < y->operand_count; k++) {
            const tn__part_operand *p = &x->operand[i], *q = &y->operand[k];
            if (!tn__operands_overlap(cut, p, q))
                continue;
            const bool same = tn__same_map(cut, p, q) && p->dtype == q->dtype;
            if ((p->writes || q->writes) && !same)
                return "it uses other elements than the other one writes";
            *shared += same ? bytes_of(p) : 0;
        }
    return NULL;
}

/* Returns a rough cost of a kernel, in instructions per element. */
static int64_t cost_of(const tn__kernel *kernel)
{
    int64_t cost = 0;
    for (uint32_t i = 0; i < kernel->ins_count; i++)
        switch (kernel->ins[i].op) {
        case TN_K_LOAD: case TN_K_CONST: case TN_K_PARAM: case TN_K_OFFSET:
            break;
        case TN_K_CALL: case TN_K_PHILOX:
            cost += 16;
            break;
        case TN_K_LOOP:
            cost += 1000;
            break;
        case TN_K_DIV: case TN_K_SQRT: case TN_K_REM:
            cost += 4;
            break;
        default:
            cost++;
        }
    return cost;
}

/* Returns in how many stages a program loads operand k for each element. */
static int stages_with(const tn_program *program, int k)
{
    int count = 0;
    for (uint32_t s = 0; s < program->stage_count; s++) {
        const tn_kernel_stage *stage = &program->stage[s];
        for (uint32_t i = 0; i < stage->elem_count; i++) {
            const tn_kernel_ins *ins =
                &program->ins[program->order[stage->elem_first + i]];
            if (ins->op == TN_K_LOAD && ins->imm.i == k) {
                count++;
                break;
            }
        }
    }
    return count;
}

/* A kernel that works on rows reads an operand in several stages. Returns how
 * many instructions per element more are executed if the operand is computed in
 * each of these stages. */
static int64_t computed_again(const tn__cut *cut, const tn__group *producer,
                              const tn__group *consumer)
{
    int64_t cost = 0;
    int most = 1;
    for (int p = 0; p < producer->count; p++)
        cost += cost_of(producer->part[p].kernel);
    for (int c = 0; c < consumer->count; c++) {
        const tn__part *reader = &consumer->part[c];
        if (!reader->kernel->has_row)
            continue;
        for (int k = 0; k < reader->kernel->input_count; k++)
            for (int p = 0; p < producer->count; p++)
                for (int o = producer->part[p].kernel->input_count;
                     o < producer->part[p].operand_count; o++) {
                    const int stages =
                        tn__operands_overlap(cut, &producer->part[p].operand[o],
                                         &reader->operand[k])
                            ? stages_with(reader->command->program, k) : 0;
                    most = stages > most ? stages : most;
                }
    }
    return cost * (most - 1);
}

/* Counts the numbers of two groups, equal ones once (fuse_command.c). */
static int count_params(const tn__group *x, const tn__group *y)
{
    const tn__command *from[2 * TN__MERGE_MAX_PARTS];
    int parts = 0, count = 0;
    for (int p = 0; p < x->count; p++)
        from[parts++] = x->part[p].command;
    for (int p = 0; p < y->count; p++)
        from[parts++] = y->part[p].command;
    for (int p = 0; p < parts; p++)
        for (uint32_t i = 0; i < from[p]->program->param_count; i++) {
            bool known = false;
            for (int q = 0; q <= p && !known; q++)
                for (uint32_t k = 0; k < (q < p ? from[q]->program->param_count
                                                : i) && !known; k++)
                    known = tn__command_same_param(from[q], k, from[p], i);
            count += !known;
        }
    return count;
}

static int count_draws(const tn__group *g)
{
    int count = 0;
    for (int p = 0; p < g->count; p++)
        count += g->part[p].command->draw != 0;
    return count;
}

/* Counts the different late numbers of two groups. */
static int count_late(const tn__group *x, const tn__group *y)
{
    const double *seen[2 * TN__MERGE_MAX_PARTS * TN__LATE_MAX];
    int count = 0;
    for (int p = 0; p < x->count + y->count; p++) {
        const tn__command *c = p < x->count
                                   ? x->part[p].command
                                   : y->part[p - x->count].command;
        for (uint32_t i = 0; i < c->late_count; i++) {
            int at = 0;
            while (at < count && seen[at] != c->late[i].from)
                at++;
            seen[at] = c->late[i].from;
            count += at == count;
        }
    }
    return count;
}

static bool in_groups(const tn__group *x, const tn__group *y, size_t step)
{
    for (int p = 0; p < x->count; p++)
        if (x->step[p] == step)
            return true;
    for (int p = 0; p < y->count; p++)
        if (y->step[p] == step)
            return true;
    return false;
}

/* Returns whether a step outside of the groups reads an output of theirs. */
static bool is_read_outside(const tn__window *f, const tn__group *x,
                            const tn__group *y, const tn__part_operand *o)
{
    if (f->capture->value[o->value].kind != TN__VALUE_TEMPORARY)
        return true;
    for (size_t u = f->use_of[o->value]; u < f->use_of[o->value + 1]; u++)
        if (f->capture->use[f->use[u].use].access.reads &&
            !in_groups(x, y, f->use[u].step))
            return true;
    return false;
}

/* Counts the different inputs, and the outputs, that a fusion of x and y would
 * have at most. */
static void count_operands(const tn__window *f, const tn__cut *cut,
                           const tn__group *x, const tn__group *y, int *inputs,
                           int *outputs)
{
    const tn__part_operand *seen[2 * TN__MERGE_MAX_PARTS *
                                 TN__KERNEL_MAX_INPUTS];
    const tn__part *part[2 * TN__MERGE_MAX_PARTS];
    int parts = 0, seen_count = 0;
    for (int p = 0; p < x->count; p++)
        part[parts++] = &x->part[p];
    for (int p = 0; p < y->count; p++)
        part[parts++] = &y->part[p];
    *outputs = 0;
    for (int p = 0; p < parts; p++)
        for (int k = 0; k < part[p]->operand_count; k++) {
            const tn__part_operand *o = &part[p]->operand[k];
            bool known = false;
            /* An operand that an earlier part writes is no input. */
            for (int q = 0; q < p && !known && !o->writes; q++)
                for (int i = part[q]->kernel->input_count;
                     i < part[q]->operand_count && !known; i++)
                    known = tn__operands_overlap(cut, &part[q]->operand[i], o);
            for (int i = 0; i < seen_count && !known; i++)
                known = seen[i]->writes == o->writes &&
                        seen[i]->level == o->level &&
                        tn__same_map(cut, seen[i], o);
            if (!known && (!o->writes || is_read_outside(f, x, y, o)))
                seen[seen_count++] = o;
        }
    *inputs = 0;
    for (int i = 0; i < seen_count; i++) {
        *inputs += !seen[i]->writes;
        *outputs += seen[i]->writes;
    }
}

/* Returns whether the rows of an operand consist of several pieces, as the rows of
 * a channel do, which are the planes of all images. */
static bool is_in_pieces(const tn__cut *cut, const tn__part_operand *o)
{
    int last = -1;
    for (int d = cut->outer_ndim; d < cut->ndim; d++) {
        if (cut->extent[d] == 1)
            continue;
        if (last >= 0 &&
            o->stride[last] != o->stride[d] * cut->extent[d])
            return true;
        last = d;
    }
    return false;
}

/* Returns whether a kernel reduces rows in its only pass over the elements. */
static bool has_one_pass(const tn__part *part)
{
    const tn_program *program = part->command->program;
    int passes = 0;
    for (uint32_t s = 0; s < program->stage_count; s++)
        passes += program->stage[s].elem_count > 0;
    return part->kernel->has_row && passes == 1;
}

/* Returns whether y reduces rows in pieces of a result of x that must be stored,
 * and is large. Results are stored in the last pass over the elements. A pass that
 * reduces pieces in place cannot store, so two launches are faster: the gradients
 * of relu and bias of (64, 32, 26, 26) take 0.9 ms in place of 2.4. */
static bool stores_pieces(const tn__window *f, const tn__cut *cut,
                          const tn__group *x, const tn__group *y)
{
    int64_t count = 1;
    for (int d = 0; d < cut->ndim; d++)
        count *= cut->extent[d];
    if (count < LARGE)
        return false;
    for (int p = 0; p < x->count; p++)
        for (int o = x->part[p].kernel->input_count;
             o < x->part[p].operand_count; o++) {
            const tn__part_operand *result = &x->part[p].operand[o];
            if (!is_in_pieces(cut, result) || !is_read_outside(f, x, y, result))
                continue;
            for (int q = 0; q < y->count; q++)
                for (int k = 0; k < y->part[q].kernel->input_count; k++)
                    if (has_one_pass(&y->part[q]) &&
                        tn__operands_overlap(cut, result,
                                             &y->part[q].operand[k]))
                        return true;
        }
    return false;
}

const char *tn__fusion_refused(const tn__window *f, const tn__group *x,
                               const tn__group *y, const tn__cut *cut,
                                bool apart, tn__cost *cost)
{
    int64_t shared = 0;
    int inputs, outputs;
    *cost = (tn__cost){0};
    bool rows_x = false, rows_y = false, wired = false;
    for (int p = 0; p < x->count; p++)
        for (int q = 0; q < y->count; q++) {
            const char *why = check_operands(cut, &x->part[p], &y->part[q],
                                             &shared);
            if (why)
                return why;
        }
    for (int p = 0; p < x->count; p++)
        rows_x |= x->part[p].kernel->has_row;
    for (int q = 0; q < y->count; q++)
        rows_y |= y->part[q].kernel->has_row;
    for (int p = 0; p < x->count; p++)
        for (int q = 0; q < y->count; q++)
            for (int i = x->part[p].kernel->input_count;
                 i < x->part[p].operand_count; i++)
                for (int k = 0; k < y->part[q].kernel->input_count; k++)
                    wired |= tn__operands_overlap(cut, &x->part[p].operand[i],
                                              &y->part[q].operand[k]);
    if (rows_x && rows_y && wired)
        return "both work on rows";
    if (!shared && !apart)
        return "they share no memory";
    if (x->count + y->count > TN__MERGE_MAX_PARTS)
        return "the fused kernel would have too many parts";
    if (count_params(x, y) > TN__KERNEL_MAX_PARAMS ||
        count_late(x, y) > TN__LATE_MAX)
        return "the fused kernel would have too many numbers";
    if (count_draws(x) + count_draws(y) > 1)
        return "both draw random numbers";
    count_operands(f, cut, x, y, &inputs, &outputs);
    if (inputs > TN__KERNEL_MAX_INPUTS || outputs > TN__KERNEL_MAX_OUTPUTS)
        return "the fused kernel would have too many operands";
    if (rows_y && wired && stores_pieces(f, cut, x, y))
        return "its result would be stored while rows in pieces are reduced";
    const int64_t again = rows_y && wired ? computed_again(cut, x, y) : 0;
    if (again <= 2 * shared)
        return NULL;
    *cost = (tn__cost){again, shared};
    return "its rows would be computed several times";
}
