/* merge.c: merges several kernels over one iteration space into one kernel
 * (fusion of more than two kernels, with any number of outputs).
 *
 * A value that one part computes and another part reads is rounded to the dtype
 * of the tensor in which it would have been stored. So merging changes no
 * bit. */
#include <stdio.h>
#include <string.h>

#include <base/error.h>
#include <base/lock.h>
#include <base/memory.h>
#include <kernel/merge.h>
#include <kernel/program_hash.h>
#include <kernel/ssa.h>

/* The kernels merged so far. They are never freed, as all kernels, but an equal
 * merge returns the same kernel, so that their number is bounded by the number
 * of different merges. `lock` guards the list. */
typedef struct merged {
    uint64_t key[2];
    const tn__kernel *kernel; /* NULL if these parts cannot be merged */
    struct merged *next;
} merged;

static merged *all;
static tn__lock lock = TN__LOCK_INIT;

/* While a merged kernel is built: the values of the parts' instructions. */
typedef struct merging {
    const tn__merge *merge;
    tn__ssa ssa;
    uint32_t *map[TN__MERGE_MAX_PARTS]; /* map[p][i]: the value of instruction i
                                         * of part p; owned */
} merging;

/* Hashes all that determines the merged kernel. */
static void hash_merge(const tn__merge *merge, uint64_t key[2])
{
    key[0] = key[1] = 0;
    tn__hash_word(key, (uint64_t)merge->part_count |
                           (uint64_t)merge->input_count << 16 |
                           (uint64_t)merge->output_count << 32 |
                           (uint64_t)merge->param_count << 48);
    for (int p = 0; p < merge->part_count; p++) {
        const tn__merge_part *part = &merge->part[p];
        tn__hash_word(key, part->kernel->key[0]);
        tn__hash_word(key, part->kernel->key[1]);
        tn__hash_word(key, part->per_row);
        for (int i = 0; i < part->kernel->input_count; i++)
            tn__hash_word(key, (uint64_t)(int64_t)part->input[i]);
        for (int i = 0; i < part->kernel->param_count; i++)
            tn__hash_word(key, (uint64_t)part->param[i]);
    }
    for (int o = 0; o < merge->output_count; o++)
        tn__hash_word(key, (uint64_t)merge->output[o].part << 32 |
                               (uint64_t)merge->output[o].output);
    tn__hash_finish(key);
}

/* Declares the inputs of the merged kernel. Returns false if an input would
 * have two dtypes or levels. */
static bool declare_inputs(merging *m)
{
    tn__ssa *ssa = &m->ssa;
    ssa->input_count = m->merge->input_count;
    for (int p = 0; p < m->merge->part_count; p++) {
        const tn__merge_part *part = &m->merge->part[p];
        for (int i = 0; i < part->kernel->input_count; i++) {
            const int at = part->input[i];
            if (at < 0)
                continue;
            const uint8_t level = part->per_row ? TN_LEVEL_ROW
                                                : part->kernel->input[i].level;
            if (ssa->input[at].name &&
                (ssa->input[at].dtype != part->kernel->input[i].dtype ||
                 ssa->input[at].level != level))
                return false;
            ssa->input[at].name = part->kernel->input[i].name;
            ssa->input[at].dtype = part->kernel->input[i].dtype;
            ssa->input[at].level = level;
        }
    }
    return true;
}

/* Returns the value that part `reader` reads in place of its input i. */
static uint32_t value_read(merging *m, const tn__merge_part *reader, int i)
{
    const int from = ~reader->input[i];
    const int part = from / TN__KERNEL_MAX_OUTPUTS;
    const int output = from % TN__KERNEL_MAX_OUTPUTS;
    const tn__kernel *kernel = m->merge->part[part].kernel;
    const tn_dtype dtype = reader->kernel->input[i].dtype;
    uint32_t value = m->map[part][kernel->out[output].value];
    /* Values of these integer types are not rounded here: they were wrapped
     * when they were computed. */
    return dtype == TN_I8 || dtype == TN_I16 || dtype == TN_U8
               ? value
               : tn__ssa_narrow(&m->ssa, value, dtype);
}

/* Declares the parameters of the merged kernel. Returns false if one would have
 * two types. */
static bool declare_params(merging *m)
{
    tn__ssa *ssa = &m->ssa;
    ssa->param_count = m->merge->param_count;
    for (int p = 0; p < m->merge->part_count; p++) {
        const tn__merge_part *part = &m->merge->part[p];
        for (int i = 0; i < part->kernel->param_count; i++) {
            const int at = part->param[i];
            if (ssa->param[at].name &&
                ssa->param[at].dtype != part->kernel->param[i].dtype)
                return false;
            ssa->param[at].name = part->kernel->param[i].name;
            ssa->param[at].dtype = part->kernel->param[i].dtype;
        }
    }
    return true;
}

static bool add_part(merging *m, int p)
{
    const tn__merge_part *part = &m->merge->part[p];
    const tn__kernel *kernel = part->kernel;
    tn__ssa *ssa = &m->ssa;
    int input[TN__KERNEL_MAX_INPUTS];
    m->map[p] = tn__alloc((kernel->ins_count + 1) * sizeof *m->map[p]);
    if (!m->map[p])
        return false;
    for (int i = 0; i < kernel->input_count; i++)
        input[i] = part->input[i] < 0 ? -1 : part->input[i];
    for (uint32_t i = 0; i < kernel->ins_count; i++) {
        const tn_kernel_ins *ins = &kernel->ins[i];
        if (ins->op == TN_K_LOAD && part->input[ins->imm.i] < 0)
            m->map[p][i] = value_read(m, part, (int)ins->imm.i);
        else
            tn__ssa_copy(ssa, kernel, i, m->map[p], input, part->param);
    }
    return true;
}

static void name_merge(const tn__merge *merge, char *name, size_t room)
{
    size_t used = 0;
    name[0] = 0;
    for (int p = 0; p < merge->part_count && used < room; p++)
        used += (size_t)snprintf(name + used, room - used, "%s%s",
                                 p ? "+" : "", merge->part[p].kernel->name);
}

static const tn__kernel *merge_kernels(const tn__merge *merge)
{
    merging m = {.merge = merge};
    const tn__kernel *kernel = NULL;
    tn__ssa_init(&m.ssa);
    bool fits = declare_inputs(&m) && declare_params(&m);
    for (int p = 0; p < merge->part_count && fits; p++)
        fits = add_part(&m, p);
    if (fits) {
        m.ssa.output_count = merge->output_count;
        for (int o = 0; o < merge->output_count; o++) {
            const int part = merge->output[o].part;
            const int at = merge->output[o].output;
            const tn__kernel *of = merge->part[part].kernel;
            m.ssa.out[o].dtype = of->out[at].dtype;
            m.ssa.out[o].level = merge->part[part].per_row
                                     ? TN_LEVEL_ROW
                                     : of->out[at].level;
            m.ssa.out[o].value = m.map[part][of->out[at].value];
            /* A kernel may compute the result of a row for each element, as
             * window_max does with a table. Parts that run once for each row
             * cannot read it. */
            if (merge->part[part].per_row &&
                tn__ssa_level(&m.ssa, m.ssa.out[o].value) == TN_LEVEL_ELEM)
                fits = false;
        }
    }
    if (fits) {
        char name[160];
        name_merge(merge, name, sizeof name);
        kernel = tn__ssa_finish(&m.ssa, name, NULL);
    }
    for (int p = 0; p < merge->part_count; p++)
        tn__free(m.map[p]);
    tn__ssa_release(&m.ssa);
    return kernel;
}

const tn__kernel *tn__kernel_merge(const tn__merge *merge)
{
    uint64_t key[2];
    hash_merge(merge, key);
    tn__lock_take(&lock);
    merged *known = all;
    while (known && !(known->key[0] == key[0] && known->key[1] == key[1]))
        known = known->next;
    if (!known && (known = tn__calloc(1, sizeof *known))) {
        known->key[0] = key[0];
        known->key[1] = key[1];
        known->kernel = merge_kernels(merge);
        known->next = all;
        if (tn__error_pending())
            tn__free(known), known = NULL;
        else
            all = known;
    }
    const tn__kernel *kernel = known ? known->kernel : NULL;
    tn__lock_give(&lock);
    return kernel;
}
