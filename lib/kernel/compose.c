/* compose.c: composes two kernels (fusion): where the consumer loads one of its
 * inputs, the producer's instructions compute the value instead.
 *
 * If the consumer's input is of a half type, the value is rounded to that type,
 * as if it had been stored to the tensor and loaded again. So results are
 * bit-identical with and without fusion. A consumer's input of type float32 or
 * float64 gets the value without rounding. */
#include <stdio.h>
#include <string.h>

#include <base/error.h>
#include <base/lock.h>
#include <base/memory.h>
#include <kernel/ssa.h>

typedef struct composition {
    const tn__kernel *consumer, *producer;
    int at, from;
    int same[2 * TN__KERNEL_MAX_INPUTS + 1];
    const tn__kernel *kernel;
    struct composition *next;
} composition;

static composition *all; /* list of all compositions made so far; `lock` guards
                          * it */
static tn__lock lock = TN__LOCK_INIT;

static bool fail_compose(const tn__kernel *consumer, const tn__kernel *producer,
                         const char *why)
{
    tn__fail(TN_ERR_UNSUPPORTED, "%s cannot be composed with %s: %s",
             consumer->name, producer->name, why);
    return false;
}

static bool check(const tn__kernel *consumer, int at,
                  const tn__kernel *producer, int from)
{
    tn_dtype given = producer->out[from].dtype;
    if (consumer->input[at].dtype != given &&
        consumer->input[at].dtype != tn__register_type(given))
        return fail_compose(consumer, producer, "the dtypes differ");
    if (consumer->has_row && producer->has_row &&
        consumer->input[at].level != producer->out[from].level)
        return fail_compose(consumer, producer,
                            "both have rows, at different levels");
    for (uint32_t i = 0; i < consumer->ins_count; i++)
        if (consumer->ins[i].op == TN_K_LOAD && consumer->ins[i].imm.i == at &&
            consumer->ins[i].a != TN_NONE)
            return fail_compose(consumer, producer,
                                "an input loaded by an index "
                                "has to be a tensor");
    if (consumer->param_count + producer->param_count > TN__KERNEL_MAX_PARAMS)
        return fail_compose(consumer, producer, "too many parameters");
    return true;
}

/* Returns the level of input i in the result: whether it has one value per
 * element or per row. If per_row is set, the whole kernel runs once per row, so
 * all its inputs have one value per row. */
static uint8_t level_in(const tn__kernel *kernel, int i, bool per_row)
{
    return per_row ? TN_LEVEL_ROW : kernel->input[i].level;
}

/* Assigns indices to the inputs of the result. They are the consumer's inputs
 * without input `at`, then the producer's inputs. Sets input_map[i] to the
 * result's index of input i of this list. Of two inputs that same[] declares
 * equal, the second gets the index of the first. */
static bool number_inputs(tn__ssa *ssa, const tn__kernel *consumer, int at,
                          const tn__kernel *producer, const int *same,
                          bool consumer_per_row, bool producer_per_row,
                          int *input_map)
{
    int total = consumer->input_count - 1 + producer->input_count;
    int merged[2 * TN__KERNEL_MAX_INPUTS];
    for (int i = 0; i < total; i++)
        merged[i] = i;
    for (; same && same[0] >= 0; same += 2) {
        int low = merged[same[0] < same[1] ? same[0] : same[1]];
        int high = merged[same[0] < same[1] ? same[1] : same[0]];
        for (int i = 0; i < total; i++)
            if (merged[i] == high)
                merged[i] = low;
    }
    for (int i = 0; i < total; i++) {
        bool mine = i < consumer->input_count - 1;
        const tn__kernel *kernel = mine ? consumer : producer;
        int k = mine ? i + (i >= at) : i - (consumer->input_count - 1);
        uint8_t level =
            level_in(kernel, k, mine ? consumer_per_row : producer_per_row);
        if (merged[i] < i) {
            input_map[i] = input_map[merged[i]];
            if (ssa->input[input_map[i]].dtype != kernel->input[k].dtype ||
                ssa->input[input_map[i]].level != level)
                return fail_compose(consumer, producer,
                                    "inputs called the same "
                                    "differ in dtype or level");
            continue;
        }
        if (ssa->input_count == TN__KERNEL_MAX_INPUTS)
            return fail_compose(consumer, producer, "too many inputs");
        input_map[i] = ssa->input_count++;
        ssa->input[input_map[i]].name = kernel->input[k].name;
        ssa->input[input_map[i]].dtype = kernel->input[k].dtype;
        ssa->input[input_map[i]].level = level;
    }
    return true;
}

static void add_params(tn__ssa *ssa, const tn__kernel *kernel, int *input_map)
{
    for (int i = 0; i < kernel->param_count; i++) {
        input_map[i] = ssa->param_count++;
        ssa->param[input_map[i]].name = kernel->param[i].name;
        ssa->param[input_map[i]].dtype = kernel->param[i].dtype;
    }
}

static const tn__kernel *compose(const tn__kernel *consumer, int at,
                                 const tn__kernel *producer, int from,
                                 const int *same)
{
    /* If the producer's output has one value per row, a pointwise consumer runs
     * once per row too. If the consumer's input has one value per row, a
     * pointwise producer runs once per row too. */
    bool consumer_per_row = !consumer->has_row && producer->has_row &&
                            producer->out[from].level == TN_LEVEL_ROW;
    bool producer_per_row =
        !producer->has_row && consumer->input[at].level == TN_LEVEL_ROW;
    if (!check(consumer, at, producer, from))
        return NULL;
    tn__ssa ssa;
    tn__ssa_init(&ssa);
    tn__kernel *kernel = NULL;
    int input_map[2 * TN__KERNEL_MAX_INPUTS], param[2][TN__KERNEL_MAX_PARAMS];
    size_t count = consumer->ins_count + producer->ins_count + 1;
    uint32_t *map = tn__alloc(count * sizeof *map);
    uint32_t *producer_map = map ? map + consumer->ins_count : NULL;
    if (!map || !number_inputs(&ssa, consumer, at, producer, same,
                               consumer_per_row, producer_per_row, input_map))
        goto done;
    add_params(&ssa, consumer, param[0]);
    add_params(&ssa, producer, param[1]);
    for (uint32_t i = 0; i < producer->ins_count; i++)
        tn__ssa_copy(&ssa, producer, i, producer_map,
                     input_map + consumer->input_count - 1, param[1]);
    uint32_t value = producer_map[producer->out[from].value];
    tn_dtype dtype = consumer->input[at].dtype;
    if (dtype != TN_I8 && dtype != TN_I16 && dtype != TN_U8)
        /* Values of these integer types are not rounded here: they were wrapped
         * when they were computed. */
        value = tn__ssa_narrow(&ssa, value, dtype);
    int input[TN__KERNEL_MAX_INPUTS];
    for (int i = 0; i < consumer->input_count; i++)
        input[i] = i == at ? -1 : input_map[i - (i > at)];
    for (uint32_t i = 0; i < consumer->ins_count; i++) {
        if (consumer->ins[i].op == TN_K_LOAD && consumer->ins[i].imm.i == at)
            map[i] = value;
        else
            tn__ssa_copy(&ssa, consumer, i, map, input, param[0]);
    }
    ssa.output_count = consumer->output_count;
    for (int i = 0; i < consumer->output_count; i++) {
        ssa.out[i].dtype = consumer->out[i].dtype;
        ssa.out[i].level =
            consumer_per_row ? TN_LEVEL_ROW : consumer->out[i].level;
        ssa.out[i].value = map[consumer->out[i].value];
    }
    char name[160];
    snprintf(name, sizeof name, "%.70s_of_%.70s", consumer->name,
             producer->name);
    kernel = tn__ssa_finish(&ssa, name, NULL);
done:
    tn__free(map);
    tn__ssa_release(&ssa);
    return kernel;
}

/* Returns a copy of the kernel in which all inputs and outputs have the given
 * level: one value per element, or one per row. */
static const tn__kernel *at_level(const tn__kernel *kernel, uint8_t level)
{
    tn__ssa ssa;
    int input_map[TN__KERNEL_MAX_INPUTS], param[TN__KERNEL_MAX_PARAMS];
    uint32_t *map = tn__alloc((kernel->ins_count + 1) * sizeof *map);
    if (!map)
        return NULL;
    tn__ssa_init(&ssa);
    for (int i = 0; i < kernel->input_count; i++) {
        input_map[i] = ssa.input_count++;
        ssa.input[i].name = kernel->input[i].name;
        ssa.input[i].dtype = kernel->input[i].dtype;
        ssa.input[i].level = level;
    }
    add_params(&ssa, kernel, param);
    for (uint32_t i = 0; i < kernel->ins_count; i++)
        tn__ssa_copy(&ssa, kernel, i, map, input_map, param);
    ssa.output_count = kernel->output_count;
    for (int i = 0; i < kernel->output_count; i++) {
        ssa.out[i].dtype = kernel->out[i].dtype;
        ssa.out[i].level = level;
        ssa.out[i].value = map[kernel->out[i].value];
    }
    const tn__kernel *same = tn__ssa_finish(&ssa, kernel->name, NULL);
    tn__free(map);
    tn__ssa_release(&ssa);
    return same;
}

const tn__kernel *tn__kernel_without_rows(const tn__kernel *kernel)
{
    for (uint32_t i = 0; i < kernel->ins_count; i++)
        if (kernel->ins[i].op == TN_K_REDUCE ||
            kernel->ins[i].op == TN_K_ROWLEN)
            return NULL;
    for (int i = 0; i < kernel->output_count; i++)
        if (kernel->out[i].level == TN_LEVEL_ROW)
            return NULL;
    return at_level(kernel, TN_LEVEL_ELEM);
}

const tn__kernel *tn__kernel_once_a_row(const tn__kernel *kernel)
{
    for (int i = 0; i < kernel->input_count; i++)
        if (kernel->input[i].level != TN_LEVEL_ROW || !kernel->input[i].dtype ||
            kernel->input[i].index_count)
            return NULL;
    for (uint32_t i = 0; i < kernel->ins_count; i++)
        if (kernel->ins[i].op == TN_K_REDUCE)
            return NULL;
    return kernel->has_row ? at_level(kernel, TN_LEVEL_ROW) : NULL;
}

static bool equal_lists(const int *x, const int *y)
{
    for (; *x >= 0 || *y >= 0; x++, y++)
        if (*x != *y)
            return false;
    return true;
}

const tn__kernel *tn__kernel_compose(const tn__kernel *consumer, int at,
                                     const tn__kernel *producer, int from,
                                     const int *same)
{
    static const int none[] = {-1};
    if (!same)
        same = none;
    const tn__kernel *kernel = NULL;
    tn__lock_take(&lock);
    composition *c = all;
    while (c && !(c->consumer == consumer && c->producer == producer &&
                  c->at == at && c->from == from && equal_lists(c->same, same)))
        c = c->next;
    if (c) {
        kernel = c->kernel;
    } else if ((c = tn__calloc(1, sizeof *c))) {
        *c = (composition){.consumer = consumer,
                           .producer = producer,
                           .at = at,
                           .from = from,
                           .next = all};
        int n = 0;
        while (same[n] >= 0 && n + 2 < (int)(sizeof c->same / sizeof(int))) {
            c->same[n] = same[n];
            n++;
        }
        c->same[n] = -1;
        c->kernel = kernel = compose(consumer, at, producer, from, c->same);
        if (kernel)
            all = c;
        else
            tn__free(c);
    }
    tn__lock_give(&lock);
    return kernel;
}
