/* finish.c: makes a kernel from an SSA that is complete. Removes dead code,
 * moves values that do not change in a loop to before the loop, lists the
 * functions that are called, and computes the hash.
 *
 * The result is built in a second tn__ssa, which merges values that became
 * equal. */
#include <string.h>

#include <base/memory.h>
#include <kernel/program_hash.h>
#include <kernel/ssa.h>

typedef struct cleaner {
    const tn__ssa *from;
    tn__ssa *to;
    bool *live;
    uint32_t *region; /* region[i]: index of the innermost LOOP that contains
                       * instruction i, or TN_NONE; for a LOOP, its own index */
    uint32_t *target; /* target[i]: index of the innermost LOOP in which
                       * instruction i must be computed, or TN_NONE */
    uint32_t *parent; /* parent[i]: for a LOOP, the index of the LOOP around it,
                       * or TN_NONE */
    uint32_t *map;    /* map[i]: index of instruction i in `to` */
    uint32_t *stack; /* live instructions whose operands were not visited yet */
    size_t stack_count;
} cleaner;

static bool cleaner_init(cleaner *c, const tn__ssa *from, tn__ssa *to)
{
    size_t count = from->count + 1;
    *c = (cleaner){.from = from, .to = to};
    c->live = tn__calloc(count, sizeof *c->live);
    c->region = tn__calloc(5 * count, sizeof *c->region);
    if (!c->live || !c->region)
        return false;
    c->target = c->region + count;
    c->parent = c->target + count;
    c->map = c->parent + count;
    c->stack = c->map + count;
    return true;
}

static void cleaner_release(cleaner *c)
{
    tn__free(c->live);
    tn__free(c->region);
}

/* Sets region[i] to the index of the innermost LOOP that contains instruction
 * i, or to TN_NONE outside loops. */
static void find_regions(cleaner *c)
{
    uint32_t open[TN__MAX_LOOPS * 4 + 1] = {TN_NONE};
    int depth = 0;
    for (uint32_t i = 0; i < c->from->count; i++) {
        if (c->from->ins[i].op == TN_K_LOOP) {
            c->parent[i] = open[depth];
            open[++depth] = i;
        }
        c->region[i] = open[depth];
        if (c->from->ins[i].op == TN_K_ENDLOOP)
            depth--;
    }
}

static void mark(cleaner *c, uint32_t v)
{
    if (v == TN_NONE || c->live[v])
        return;
    c->live[v] = true;
    c->stack[c->stack_count++] = v;
}

static void mark_loop(cleaner *c, uint32_t loop)
{
    uint32_t end = (uint32_t)c->from->ins[loop].imm.i;
    mark(c, loop);
    mark(c, end);
    for (uint32_t i = loop; i < end; i++)
        if (c->from->ins[i].op == TN_K_WHILE && c->region[i] == loop)
            mark(c, i);
}

static void mark_live(cleaner *c)
{
    for (int i = 0; i < c->from->output_count; i++)
        mark(c, c->from->out[i].value);
    while (c->stack_count) {
        uint32_t v = c->stack[--c->stack_count];
        const tn_kernel_ins *ins = &c->from->ins[v];
        if (ins->op == TN_K_CARRY || ins->op == TN_K_LOOP)
            mark_loop(c, c->region[v]);
        mark(c, ins->a);
        mark(c, ins->b);
        mark(c, ins->c);
    }
}

static bool is_inside(const cleaner *c, uint32_t v, uint32_t loop)
{
    return v > loop && v <= (uint32_t)c->from->ins[loop].imm.i;
}

static uint32_t deeper(uint32_t x, uint32_t y)
{
    /* One of the two loops contains the other. The later LOOP is the inner
     * one. */
    return x == TN_NONE ? y : y == TN_NONE ? x : x > y ? x : y;
}

static void find_targets(cleaner *c)
{
    for (uint32_t i = 0; i < c->from->count; i++) {
        const tn_kernel_ins *ins = &c->from->ins[i];
        const uint32_t operand[3] = {ins->a, ins->b, ins->c};
        c->target[i] = TN_NONE;
        if (ins->op == TN_K_LOOP || ins->op == TN_K_CARRY ||
            ins->op == TN_K_WHILE || ins->op == TN_K_ENDLOOP ||
            /* A load that may report an index out of range must stay in its
             * loop. If no iteration runs, it must not report anything. */
            (ins->op == TN_K_LOAD && ins->a != TN_NONE &&
             !(ins->sub & TN_LOAD_ZERO))) {
            c->target[i] = c->region[i];
            continue;
        }
        for (int k = 0; k < 3; k++) {
            uint32_t u = operand[k];
            if (u == TN_NONE)
                continue;
            int op = c->from->ins[u].op;
            uint32_t target = c->target[u];
            if ((op == TN_K_CARRY || op == TN_K_LOOP) &&
                !is_inside(c, i, target))
                target = c->parent[target];
            c->target[i] = deeper(c->target[i], target);
        }
    }
}

static void emit(cleaner *c, uint32_t i)
{
    tn_kernel_ins ins = c->from->ins[i];
    uint32_t *operand[3] = {&ins.a, &ins.b, &ins.c};
    for (int k = 0; k < 3; k++)
        if (*operand[k] != TN_NONE)
            *operand[k] = c->map[*operand[k]];
    if (ins.op == TN_K_WHILE)
        tn__ssa_while(c->to, ins.a);
    else
        c->map[i] = tn__ssa_add(c->to, ins);
}

/* Appends the live instructions between `first` and `end` that must be computed
 * in `loop` itself: not before it and not in an inner loop. */
static void emit_region(cleaner *c, uint32_t first, uint32_t end,
                        uint32_t loop);

static void emit_loop(cleaner *c, uint32_t loop, uint32_t parent)
{
    const tn_kernel_ins *ins = c->from->ins;
    uint32_t end = (uint32_t)ins[loop].imm.i, i = loop + 1;
    uint32_t next[TN__KERNEL_MAX_OUTPUTS], count = 0;
    for (uint32_t k = i; k < end; k++)
        if (c->live[k] && c->target[k] == parent)
            emit(c, k);
    c->map[loop] = tn__ssa_loop(c->to, c->map[ins[loop].a]);
    for (; ins[i].op == TN_K_CARRY; i++)
        if (c->live[i])
            c->map[i] = tn__ssa_carry(c->to, c->map[ins[i].a]);
    emit_region(c, i, end, loop);
    for (i = loop + 1; ins[i].op == TN_K_CARRY; i++)
        if (c->live[i])
            next[count++] = c->map[ins[i].b];
    tn__ssa_end_loop(c->to, next);
}

static void emit_region(cleaner *c, uint32_t first, uint32_t end, uint32_t loop)
{
    for (uint32_t i = first; i < end; i++) {
        if (c->from->ins[i].op == TN_K_LOOP) {
            if (c->live[i])
                emit_loop(c, i, loop);
            i = (uint32_t)c->from->ins[i].imm.i;
        } else if (c->live[i] && c->target[i] == loop) {
            emit(c, i);
        }
    }
}

static void copy_head(tn__ssa *to, const tn__ssa *from)
{
    to->input_count = from->input_count;
    to->param_count = from->param_count;
    to->output_count = from->output_count;
    memcpy(to->input, from->input, sizeof to->input);
    memcpy(to->param, from->param, sizeof to->param);
    memcpy(to->out, from->out, sizeof to->out);
}

static bool clean_once(const tn__ssa *from, tn__ssa *to)
{
    cleaner c;
    tn__ssa_init(to);
    copy_head(to, from);
    bool good = !from->failed && cleaner_init(&c, from, to);
    if (good) {
        find_regions(&c);
        mark_live(&c);
        find_targets(&c);
        emit_region(&c, 0, (uint32_t)from->count, TN_NONE);
        for (int i = 0; i < to->output_count; i++)
            to->out[i].value = c.map[from->out[i].value];
        good = !to->failed;
    }
    if (!from->failed)
        cleaner_release(&c);
    return good;
}

/* Removes dead code until nothing changes. One pass is not always enough, since
 * merging equal values may make further code dead. */
static bool clean(const tn__ssa *from, tn__ssa *to)
{
    if (!clean_once(from, to))
        return false;
    for (;;) {
        tn__ssa again;
        size_t count = to->count;
        if (!clean_once(to, &again)) {
            tn__ssa_release(&again);
            return false;
        }
        tn__ssa_release(to);
        *to = again;
        if (to->count >= count)
            return true;
    }
}

/* ---- functions --------------------------------------------------------- */

static uint32_t position(const uint32_t *number, uint32_t count, uint32_t n)
{
    for (uint32_t i = 0; i < count; i++)
        if (number[i] == n)
            return i;
    return TN_NONE;
}

static void renumber_calls(tn_kernel_ins *ins, uint32_t count,
                           const uint32_t *number, uint32_t fn_count)
{
    for (uint32_t i = 0; i < count; i++)
        if (ins[i].op == TN_K_CALL)
            ins[i].imm.i = position(number, fn_count, (uint32_t)ins[i].imm.i);
}

typedef struct calls {
    bool *seen;       /* seen[n] is true if function n is in the list */
    uint32_t *number; /* indices of the functions in the list; NULL to only
                       * count them */
    uint32_t count;   /* number of functions in the list */
} calls;

static void follow_calls(calls *c, const tn_kernel_ins *ins, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t n = (uint32_t)ins[i].imm.i;
        if (ins[i].op != TN_K_CALL || c->seen[n])
            continue;
        const tn_kernel_fn *fn = tn__math_fn_at((int)n);
        c->seen[n] = true;
        follow_calls(c, fn->ins, fn->ins_count);
        if (c->number)
            c->number[c->count] = n;
        c->count++;
    }
}

/* Lists the functions that a kernel calls, in the order of the calls, each
 * after the functions that it calls itself. A function's index in the process
 * depends on which function was used first. If the kernel's source depended on
 * this index, processes could not share compiled kernels in the disk cache. */
static bool gather_functions(const tn__ssa *ssa, tn__kernel_box *box)
{
    size_t all = (size_t)tn__math_fn_typed() + 1;
    calls c = {.seen = tn__arena_take(&box->arena, all)};
    if (!c.seen)
        return false;
    follow_calls(&c, ssa->ins, ssa->count);
    const uint32_t count = c.count;
    uint32_t *number =
        tn__arena_take(&box->arena, (count + 1) * sizeof *number);
    tn_kernel_fn *fn = tn__arena_take(&box->arena, (count + 1) * sizeof *fn);
    if (!fn || !number)
        return false;
    memset(c.seen, 0, all);
    c.number = number;
    c.count = 0;
    follow_calls(&c, ssa->ins, ssa->count);
    for (uint32_t i = 0; i < count; i++) {
        fn[i] = *tn__math_fn_at((int)number[i]);
        size_t bytes = fn[i].ins_count * sizeof *fn[i].ins;
        tn_kernel_ins *ins = tn__arena_take(&box->arena, bytes);
        if (!ins)
            return false;
        memcpy(ins, fn[i].ins, bytes);
        renumber_calls(ins, fn[i].ins_count, number, count);
        fn[i].ins = ins;
    }
    box->kernel.fn = fn;
    box->kernel.fn_count = count;
    box->fn_number = number;
    return true;
}

/* ---- the kernel -------------------------------------------------------- */

static void hash_kernel(tn__kernel *k)
{
    uint64_t *h = k->key;
    tn__hash_word(h, (uint64_t)k->input_count | (uint64_t)k->param_count << 8 |
                         (uint64_t)k->output_count << 16);
    for (int i = 0; i < k->input_count; i++)
        tn__hash_word(h, (uint64_t)k->input[i].dtype |
                             (uint64_t)k->input[i].level << 8 |
                             (uint64_t)k->input[i].index_count << 16);
    for (int i = 0; i < k->param_count; i++)
        tn__hash_word(h, k->param[i].dtype);
    for (int i = 0; i < k->output_count; i++)
        tn__hash_word(h, (uint64_t)k->out[i].dtype |
                             (uint64_t)k->out[i].level << 8 |
                             (uint64_t)k->out[i].value << 32);
    for (uint32_t i = 0; i < k->ins_count; i++)
        tn__hash_ins(h, &k->ins[i]);
    for (uint32_t i = 0; i < k->fn_count; i++)
        tn__hash_word(h, k->fn[i].hash);
    tn__hash_finish(h);
}

/* Removes the inputs that are not read. Sets used[i] to the old index of the
 * new input i. */
static bool drop_inputs(tn__ssa *ssa, const char *name, int *used)
{
    bool loaded[TN__SSA_MAX_INPUTS] = {false};
    int place[TN__SSA_MAX_INPUTS], count = 0;
    for (size_t i = 0; i < ssa->count; i++)
        if (ssa->ins[i].op == TN_K_LOAD || ssa->ins[i].op == TN_K_OFFSET)
            loaded[ssa->ins[i].imm.i] = true;
    for (int i = 0; i < ssa->input_count; i++)
        if (loaded[i]) {
            if (count == TN__KERNEL_MAX_INPUTS) {
                tn__fail(TN_ERR_UNSUPPORTED, "%s: it has more than %d inputs",
                         name, TN__KERNEL_MAX_INPUTS);
                return false;
            }
            ssa->input[count] = ssa->input[i];
            place[i] = count;
            used[count++] = i;
        }
    ssa->input_count = count;
    for (size_t i = 0; i < ssa->count; i++)
        if (ssa->ins[i].op == TN_K_LOAD || ssa->ins[i].op == TN_K_OFFSET)
            ssa->ins[i].imm.i = place[ssa->ins[i].imm.i];
    return true;
}

static const char *keep(tn__arena *arena, const char *text, bool *good)
{
    const char *copy = tn__arena_text(arena, text, strlen(text));
    *good = *good && copy;
    return copy;
}

static uint8_t index_count(const tn_kernel_ins *ins)
{
    return (uint8_t)((ins->a != TN_NONE) + (ins->b != TN_NONE) +
                     (ins->c != TN_NONE));
}

static bool fill(tn__kernel_box *box, const tn__ssa *ssa, const char *name)
{
    tn__kernel *k = &box->kernel;
    bool good = true;
    k->name = keep(&box->arena, name, &good);
    k->input_count = ssa->input_count;
    for (int i = 0; i < k->input_count; i++) {
        k->input[i].name = keep(&box->arena, ssa->input[i].name, &good);
        k->input[i].dtype = ssa->input[i].dtype;
        k->input[i].level = ssa->input[i].level;
        k->has_row |= k->input[i].level == TN_LEVEL_ROW;
    }
    k->param_count = ssa->param_count;
    for (int i = 0; i < k->param_count; i++) {
        k->param[i].name = keep(&box->arena, ssa->param[i].name, &good);
        k->param[i].dtype = ssa->param[i].dtype;
    }
    k->output_count = ssa->output_count;
    for (int i = 0; i < k->output_count; i++) {
        k->out[i].dtype = ssa->out[i].dtype;
        k->out[i].level = ssa->out[i].level;
        k->out[i].value = ssa->out[i].value;
    }
    k->ins_count = (uint32_t)ssa->count;
    tn_kernel_ins *ins =
        tn__arena_take(&box->arena, (ssa->count + 1) * sizeof *ins);
    if (!good || !ins || !gather_functions(ssa, box))
        return false;
    if (ssa->count)
        memcpy(ins, ssa->ins, ssa->count * sizeof *ins);
    renumber_calls(ins, k->ins_count, box->fn_number, k->fn_count);
    for (uint32_t i = 0; i < k->ins_count; i++) {
        k->has_row |= ins[i].op == TN_K_REDUCE || ins[i].op == TN_K_ROWLEN;
        uint8_t count = index_count(&ins[i]);
        if (ins[i].op == TN_K_LOAD &&
            count > k->input[ins[i].imm.i].index_count)
            k->input[ins[i].imm.i].index_count = count;
        if (ins[i].op == TN_K_LOAD && ins[i].sub & TN__LOAD_GUARD)
            k->input[ins[i].imm.i].guarded = true;
    }
    for (int i = 0; i < k->output_count; i++)
        if (k->out[i].level == TN_LEVEL_UNIFORM)
            k->out[i].level = k->has_row ? TN_LEVEL_ROW : TN_LEVEL_ELEM;
    k->ins = ins;
    hash_kernel(k);
    return true;
}

/* Removes the rounding to a storage type (NARROW) right before a store, because
 * the store rounds too. */
static void strip_outputs(tn__ssa *ssa)
{
    for (int i = 0; !ssa->failed && i < ssa->output_count; i++) {
        const tn_kernel_ins *ins = &ssa->ins[ssa->out[i].value];
        if (ins->op == TN_K_NARROW && ins->sub == ssa->out[i].dtype)
            ssa->out[i].value = ins->a;
    }
}

tn__kernel *tn__ssa_finish(tn__ssa *ssa, const char *name, int *used)
{
    tn__ssa done;
    tn__kernel_box *box = NULL;
    tn__arena arena = {0};
    strip_outputs(ssa);
    if (clean(ssa, &done) && (!used || drop_inputs(&done, name, used)) &&
        (box = tn__arena_take(&arena, sizeof *box))) {
        box->arena = arena;
        box->of_gradient = ssa->of_gradient;
        if (!fill(box, &done, name)) {
            arena = box->arena;
            tn__arena_release(&arena);
            box = NULL;
        }
    }
    tn__ssa_release(&done);
    return box ? &box->kernel : NULL;
}

void tn__kernel_free(tn__kernel *kernel)
{
    tn__arena arena = tn__kernel_box_of(kernel)->arena;
    tn__arena_release(&arena);
}

bool tn__ssa_finish_body(tn__ssa *ssa, uint32_t result, tn__arena *arena,
                         tn_kernel_fn *fn)
{
    tn__ssa done;
    ssa->output_count = 1;
    ssa->out[0].value = result;
    tn_kernel_ins *ins = NULL;
    if (clean(ssa, &done))
        ins = tn__arena_take(arena, done.count * sizeof *ins);
    if (ins) {
        memcpy(ins, done.ins, done.count * sizeof *ins);
        fn->ins = ins;
        fn->ins_count = (uint32_t)done.count;
        fn->result = done.out[0].value;
        fn->dtype = ins[fn->result].dtype;
        ins = tn__fn_mark_nans(fn, ins) ? ins : NULL;
    }
    tn__ssa_release(&done);
    return ins != NULL;
}
