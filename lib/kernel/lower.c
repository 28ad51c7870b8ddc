/* lower.c: lowers a kernel to a program, whose instructions are arranged in
 * stages (plugin_program.h). A stage loops over the elements of a row, then
 * computes the values per row.
 *
 * When an instruction per element needs the result of a reduction, a new stage
 * begins. If a later stage needs a value per element, it computes the value
 * again, because storing it would take as much memory as the row. All stores
 * per element are in the last stage that loops over elements. So an output may
 * share memory with an input that earlier stages read.
 *
 * A value per row that does not come from a reduction (such as the mean in the
 * gradient of layer_norm) is loaded after the elements of the first stage. A
 * sum that uses it is then in the second stage. A sum that does not use it is
 * put into the second stage too, so that the elements are read only once. An
 * example is the sums of g and of g * (x - mean). */
#include <string.h>

#include <base/lock.h>
#include <base/memory.h>
#include <kernel/program_hash.h>
#include <kernel/ssa.h>

typedef struct layout {
    const tn__kernel *kernel;
    tn__arena *arena;
    tn_kernel_ins *ins; /* the kernel's instructions, followed by the STOREs */
    uint32_t count;
    uint32_t *loop;  /* loop[i]: index of the outermost LOOP that contains
                      * instruction i; TN_NONE if there is none */
    uint32_t *stage; /* stage[i]: first stage that computes instruction i */
    bool *needed;
    uint32_t *order;
    uint32_t order_count, order_room;
    uint32_t stage_count, last_elem; /* last_elem: the last stage that loops
                                      * over elements */
    bool failed;
} layout;

static bool is_stop(const tn__kernel *kernel, const tn_kernel_ins *ins)
{
    return ins->op == TN_K_CAST && kernel->ins[ins->a].dtype == ins->dtype;
}

/* Returns whether a kernel has no reductions and no outputs with one value per
 * row. Then it has a single stage, and values per row are loaded again for each
 * element. */
static bool is_flat(const tn__kernel *kernel)
{
    for (int i = 0; i < kernel->output_count; i++)
        if (kernel->out[i].level == TN_LEVEL_ROW)
            return false;
    for (uint32_t i = 0; i < kernel->ins_count; i++)
        if (kernel->ins[i].op == TN_K_REDUCE)
            return false;
    return true;
}

static bool copy_instructions(layout *l)
{
    const tn__kernel *kernel = l->kernel;
    size_t room = kernel->ins_count + (size_t)kernel->output_count + 1;
    uint32_t *map = tn__arena_take(l->arena, room * sizeof *map);
    l->ins = tn__arena_take(l->arena, room * sizeof *l->ins);
    l->loop = tn__arena_take(l->arena, room * sizeof *l->loop);
    l->stage = tn__arena_take(l->arena, room * sizeof *l->stage);
    l->needed = tn__arena_take(l->arena, room * sizeof *l->needed);
    if (!map || !l->ins || !l->loop || !l->stage || !l->needed)
        return false;
    bool flat = is_flat(kernel);
    for (uint32_t i = 0; i < kernel->ins_count; i++) {
        const tn_kernel_ins *ins = &kernel->ins[i];
        map[i] = is_stop(kernel, ins) ? map[ins->a] : l->count;
        if (map[i] != l->count)
            continue;
        l->ins[l->count] = *ins;
        if (ins->op == TN_K_LOAD)
            l->ins[l->count].sub &= (uint8_t)~TN__LOAD_GUARD;
        l->count++;
    }
    for (uint32_t i = 0; i < l->count; i++) {
        tn_kernel_ins *ins = &l->ins[i];
        uint32_t *const operand[3] = {&ins->a, &ins->b, &ins->c};
        for (int k = 0; k < 3; k++)
            if (*operand[k] != TN_NONE)
                *operand[k] = map[*operand[k]];
        if (ins->op == TN_K_LOOP)
            ins->imm.i = map[ins->imm.i];
        if (flat && ins->level == TN_LEVEL_ROW)
            ins->level = TN_LEVEL_ELEM;
    }
    for (int i = 0; i < kernel->output_count; i++) {
        uint32_t value = map[kernel->out[i].value];
        l->ins[l->count++] = (tn_kernel_ins){.op = TN_K_STORE,
                                             .dtype = l->ins[value].dtype,
                                             .level = kernel->out[i].level,
                                             .a = value,
                                             .b = TN_NONE,
                                             .c = TN_NONE,
                                             .imm.i = kernel->input_count + i};
    }
    return true;
}

static void find_loops(layout *l)
{
    for (uint32_t i = 0, end = 0, loop = TN_NONE; i < l->count; i++) {
        if (loop == TN_NONE && l->ins[i].op == TN_K_LOOP) {
            loop = i;
            end = (uint32_t)l->ins[i].imm.i;
        }
        l->loop[i] = loop;
        if (loop != TN_NONE && i == end)
            loop = TN_NONE;
    }
}

/* Returns the first stage whose instructions can read value u: its instructions
 * per element if `elem` is set, else its instructions per row. */
static uint32_t stage_for(const layout *l, uint32_t u, bool elem)
{
    if (u == TN_NONE || l->ins[u].level == TN_LEVEL_UNIFORM)
        return 0;
    return l->stage[u] + (elem && l->ins[u].level == TN_LEVEL_ROW);
}

static bool in_elem_part(const tn_kernel_ins *ins)
{
    return ins->level == TN_LEVEL_ELEM || ins->op == TN_K_REDUCE;
}

static void find_stage(layout *l, uint32_t i, uint32_t first)
{
    /* A loop is in one stage as a whole. It must come after the stages that
     * compute what its iterations read. */
    uint32_t end = l->ins[i].op == TN_K_LOOP ? (uint32_t)l->ins[i].imm.i : i;
    bool elem = in_elem_part(&l->ins[i]);
    uint32_t stage = elem ? first : 0;
    for (uint32_t k = i; k <= end; k++) {
        const tn_kernel_ins *ins = &l->ins[k];
        const uint32_t operand[3] = {ins->a, ins->b, ins->c};
        for (int n = 0; n < 3; n++) {
            if (operand[n] != TN_NONE && operand[n] >= i)
                continue;
            uint32_t from = stage_for(l, operand[n], elem);
            stage = from > stage ? from : stage;
        }
    }
    for (uint32_t k = i; k <= end; k++)
        l->stage[k] = stage;
}

/* Assigns a stage to each instruction; the first stage that loops over elements
 * is `first`. Returns the number of stages that loop over elements. */
static uint32_t find_stages(layout *l, uint32_t first)
{
    uint32_t passes = 0;
    l->stage_count = 1;
    l->last_elem = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        if (l->loop[i] == TN_NONE || l->loop[i] == i)
            find_stage(l, i, first);
        const tn_kernel_ins *ins = &l->ins[i];
        if (ins->level == TN_LEVEL_UNIFORM)
            continue;
        if (l->stage[i] + 1 > l->stage_count)
            l->stage_count = l->stage[i] + 1;
        if ((ins->op == TN_K_REDUCE ||
             (ins->op == TN_K_STORE && in_elem_part(ins))) &&
            l->stage[i] > l->last_elem)
            l->last_elem = l->stage[i];
    }
    for (uint32_t i = 0; i < l->count; i++)
        if (l->ins[i].op == TN_K_STORE)
            l->stage[i] =
                in_elem_part(&l->ins[i]) ? l->last_elem : l->stage_count - 1;
    for (uint32_t s = 0; s < l->stage_count; s++)
        for (uint32_t i = 0, any = 0; i < l->count && !any; i++) {
            const tn_kernel_ins *ins = &l->ins[i];
            any = l->stage[i] == s && in_elem_part(ins) &&
                  (ins->op == TN_K_REDUCE || ins->op == TN_K_STORE);
            passes += any;
        }
    return passes;
}

/* ---- the order of instructions in a stage -------------------------------- */

static void append_order(layout *l, uint32_t i)
{
    if (l->order_count == l->order_room) {
        uint32_t room = l->order_room ? 2 * l->order_room : 64;
        uint32_t *order = tn__arena_take(l->arena, room * sizeof *order);
        if (!order) {
            l->failed = true;
            return;
        }
        if (l->order_count)
            memcpy(order, l->order, l->order_count * sizeof *order);
        l->order = order;
        l->order_room = room;
    }
    l->order[l->order_count++] = i;
}

static void mark_needed(layout *l, uint32_t user, uint32_t u)
{
    if (u == TN_NONE || l->ins[u].level != TN_LEVEL_ELEM)
        return;
    if (l->loop[u] == TN_NONE || l->loop[u] == l->loop[user]) {
        l->needed[u] = true;
        return;
    }
    for (uint32_t k = l->loop[u]; k <= l->ins[l->loop[u]].imm.i; k++)
        l->needed[k] = true;
}

/* Appends the instructions per element of a stage to the order: its reductions,
 * its stores, and everything per element that they depend on. */
static void list_elem_part(layout *l, uint32_t stage)
{
    memset(l->needed, 0, l->count * sizeof *l->needed);
    for (uint32_t i = l->count; i-- > 0;) {
        const tn_kernel_ins *ins = &l->ins[i];
        if (in_elem_part(ins) && l->stage[i] == stage &&
            (ins->op == TN_K_REDUCE || ins->op == TN_K_STORE))
            l->needed[i] = true;
        if (!l->needed[i])
            continue;
        mark_needed(l, i, ins->a);
        mark_needed(l, i, ins->b);
        mark_needed(l, i, ins->c);
    }
    for (uint32_t i = 0; i < l->count; i++)
        if (l->needed[i])
            append_order(l, i);
}

static void list_stage(layout *l, uint32_t s, tn_kernel_stage *stage)
{
    stage->elem_first = l->order_count;
    list_elem_part(l, s);
    stage->elem_count = l->order_count - stage->elem_first;
    stage->row_first = l->order_count;
    for (uint32_t i = 0; i < l->count; i++)
        if (l->ins[i].level == TN_LEVEL_ROW && l->stage[i] == s &&
            l->ins[i].op != TN_K_REDUCE)
            append_order(l, i);
    stage->row_count = l->order_count - stage->row_first;
}

/* ---- the program ------------------------------------------------------- */

static void hash_program(tn_program *p)
{
    uint64_t *h = p->key;
    tn__hash_word(h, (uint64_t)p->operand_count |
                         (uint64_t)p->param_count << 16 |
                         (uint64_t)p->stage_count << 32);
    for (uint32_t i = 0; i < p->operand_count; i++)
        tn__hash_word(h, (uint64_t)p->operand[i].dtype |
                             (uint64_t)p->operand[i].access << 8 |
                             (uint64_t)p->operand[i].level << 16 |
                             (uint64_t)p->operand[i].index_count << 24);
    for (uint32_t i = 0; i < p->param_count; i++)
        tn__hash_word(h, p->param_dtype[i]);
    for (uint32_t i = 0; i < p->ins_count; i++) {
        tn__hash_ins(h, &p->ins[i]);
        tn__hash_word(h, p->ins[i].level);
    }
    for (uint32_t i = 0; i < p->fn_count; i++)
        tn__hash_word(h, p->fn[i].hash);
    for (uint32_t i = 0; i < p->stage_count; i++) {
        tn__hash_word(h, (uint64_t)p->stage[i].elem_first |
                             (uint64_t)p->stage[i].elem_count << 32);
        tn__hash_word(h, (uint64_t)p->stage[i].row_first |
                             (uint64_t)p->stage[i].row_count << 32);
    }
    tn__hash_word(h, p->uniform_count);
    for (uint32_t i = 0; i < p->order_count; i++)
        tn__hash_word(h, p->order[i]);
    tn__hash_finish(h);
}

static bool fill_operands(layout *l, tn_program *p)
{
    const tn__kernel *k = l->kernel;
    size_t count = (size_t)(k->input_count + k->output_count) + 1;
    tn_kernel_operand *operand =
        tn__arena_take(l->arena, count * sizeof *operand);
    uint8_t *param_dtype = tn__arena_take(l->arena, (size_t)k->param_count + 1);
    if (!operand || !param_dtype)
        return false;
    for (int i = 0; i < k->input_count; i++) {
        operand[i].dtype = (uint8_t)k->input[i].dtype;
        operand[i].access =
            k->input[i].dtype ? TN_OPERAND_READ : TN_OPERAND_OFFSET;
        operand[i].level = k->input[i].level;
        operand[i].index_count = k->input[i].index_count;
    }
    for (int i = 0; i < k->output_count; i++) {
        tn_kernel_operand *out = &operand[k->input_count + i];
        out->dtype = (uint8_t)k->out[i].dtype;
        out->access = TN_OPERAND_WRITE;
        out->level = k->out[i].level;
    }
    for (int i = 0; i < k->param_count; i++)
        param_dtype[i] = (uint8_t)k->param[i].dtype;
    p->operand = operand;
    p->operand_count = (uint32_t)(k->input_count + k->output_count);
    p->param_dtype = param_dtype;
    p->param_count = (uint32_t)k->param_count;
    return true;
}

/* A program, with the kernel of which it was made. */
typedef struct lowered {
    tn_program program; /* the first member, since a pointer to it is converted
                         * to this struct */
    const tn__kernel *kernel;
} lowered;

const tn__kernel *tn__program_kernel(const tn_program *program)
{
    return ((const lowered *)program)->kernel;
}

static const tn_program *lower(const tn__kernel *kernel, tn__arena *arena)
{
    layout l = {.kernel = kernel, .arena = arena};
    lowered *made = tn__arena_take(arena, sizeof *made);
    tn_program *p = made ? &made->program : NULL;
    if (made)
        made->kernel = kernel;
    if (!p || !fill_operands(&l, p) || !copy_instructions(&l))
        return NULL;
    find_loops(&l);
    uint32_t passes = find_stages(&l, 0);
    if (passes > 1 && find_stages(&l, 1) >= passes)
        find_stages(&l, 0);
    tn_kernel_stage *stage =
        tn__arena_take(arena, l.stage_count * sizeof *stage);
    if (!stage)
        return NULL;
    for (uint32_t i = 0; i < l.count; i++)
        if (l.ins[i].level == TN_LEVEL_UNIFORM)
            append_order(&l, i);
    p->uniform_count = l.order_count;
    for (uint32_t s = 0; s < l.stage_count; s++)
        list_stage(&l, s, &stage[s]);
    if (l.failed)
        return NULL;
    p->size = sizeof *p;
    p->ins_count = l.count;
    p->ins = l.ins;
    p->fn_count = kernel->fn_count;
    p->fn = kernel->fn;
    p->stage_count = l.stage_count;
    p->stage = stage;
    p->order_count = l.order_count;
    p->order = l.order;
    hash_program(p);
    return p;
}

const tn_program *tn__kernel_program(const tn__kernel *kernel)
{
    static tn__lock lock = TN__LOCK_INIT;
    tn__kernel_box *box = tn__kernel_box_of(kernel);
    const tn_program *program =
        atomic_load_explicit(&box->program, memory_order_acquire);
    if (program)
        return program;
    tn__lock_take(&lock);
    program = atomic_load_explicit(&box->program, memory_order_relaxed);
    if (!program && (program = lower(kernel, &box->arena)))
        atomic_store_explicit(&box->program, program, memory_order_release);
    tn__lock_give(&lock);
    return program;
}
