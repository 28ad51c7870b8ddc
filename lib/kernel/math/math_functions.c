/* math_functions.c: parses the .def files of lib/kernel/math when the first
 * function is used, and types each function when it is first used.
 *
 * A function gets its index when it is typed. The functions that it calls are
 * typed before it, so their indices are lower. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <base/context.h>
#include <base/lock.h>
#include <base/memory.h>
#include <kernel/math/functions.h>
#include <kernel/math/mathtext.h>
#include <kernel/program_hash.h>
#include <kernel/ssa.h>

static struct {
    tn__arena arena;
    tn__math_item *items;
    const tn__math_item *typing[32]; /* items that are being typed, each called
                                      * by the one before it */
    tn_dtype typing_type[32];
    int typing_count;
} table;

static tn__lock lock = TN__LOCK_INIT;
static _Atomic bool parsed;

static bool is_typed_for(const tn__math_item *item, tn_dtype type)
{
    return item->type ? item->type == type : type == TN_F32 || type == TN_F64;
}

static void hash_fn(tn_kernel_fn *fn)
{
    uint64_t h[2] = {0, 0};
    tn__hash_word(h, fn->arg_count | (uint64_t)fn->result << 32);
    for (uint32_t i = 0; i < fn->arg_count; i++)
        tn__hash_word(h, fn->arg_dtype[i]);
    for (uint32_t i = 0; i < fn->ins_count; i++) {
        tn_kernel_ins ins = fn->ins[i];
        if (ins.op == TN_K_CALL) /* use the hash of the called function, since
                                  * its index depends on the order of use */
            ins.imm.i = (int64_t)tn__math_fn_at((int)ins.imm.i)->hash;
        tn__hash_ins(h, &ins);
    }
    tn__hash_finish(h);
    fn->hash = h[0];
}

static const char *fn_name(const char *name, tn_dtype type)
{
    static const char *const suffix[TN_DTYPE_END] = {[TN_F32] = "f32",
                                                     [TN_F64] = "f64",
                                                     [TN_I32] = "i32",
                                                     [TN_I64] = "i64",
                                                     [TN_BOOL] = "bool"};
    char text[80];
    int length = snprintf(text, sizeof text, "%s_%s", name, suffix[type]);
    return tn__arena_text(&table.arena, text, (size_t)length);
}

static bool fail_item(const tn__math_item *item, const char *what)
{
    tn__fail(TN_ERR_INTERNAL, "%s:%d:%d: %s %s", item->where, item->line,
             item->column, item->name, what);
    return false;
}

static bool type_fn(const tn__math_item *item, tn_dtype type)
{
    if (tn__math_fn_find(item->name, type) != TN_NONE)
        return true;
    for (int i = 0; i < table.typing_count; i++)
        if (table.typing[i] == item && table.typing_type[i] == type)
            return fail_item(item, "calls itself");
    if (table.typing_count == 32 ||
        tn__math_fn_typed() == TN__MATH_MAX_FUNCTIONS)
        return fail_item(item, "does not fit into the table");
    table.typing[table.typing_count] = item;
    table.typing_type[table.typing_count++] = type;
    tn_kernel_fn *fn = tn__arena_take(&table.arena, sizeof *fn);
    tn_dtype arg_dtype[4] = {0};
    uint32_t result;
    tn__ssa ssa;
    tn__ssa_init(&ssa);
    bool good = fn && tn__math_type_fn(item, type, arg_dtype, &ssa, &result);
    if (good) {
        fn->arg_count = (uint32_t)item->arg_count;
        for (int i = 0; i < item->arg_count; i++)
            fn->arg_dtype[i] = (uint8_t)arg_dtype[i];
        good = tn__ssa_finish_body(&ssa, result, &table.arena, fn);
    }
    tn__ssa_release(&ssa);
    table.typing_count--;
    if (!good || !(fn->name = fn_name(item->name, type)))
        return false;
    hash_fn(fn);
    tn__math_fn_add(fn, item, type);
    return true;
}

static const tn__math_item *find_item(const char *name, enum tn__math_kind kind)
{
    for (const tn__math_item *item = table.items; item; item = item->next)
        if (item->kind == kind && !strcmp(item->name, name))
            return item;
    return NULL;
}

static bool check_item(const tn__math_item *item)
{
    const tn__math_item *fn = find_item(item->name, TN__MATH_FN);
    int ignored;
    if (item->kind == TN__MATH_D && !fn)
        return fail_item(item, "has a derivative but is not a fn");
    if (item->kind == TN__MATH_D && fn->arg_count != item->arg_count)
        return fail_item(item, "has more or fewer arguments than its fn");
    if (item->kind != TN__MATH_D &&
        tn__builtin_find(item->name, &ignored) != TN__BUILTIN_END)
        return fail_item(item, "is a built-in function");
    return true;
}

static bool parse_all(void)
{
    tn__math_item **end = &table.items;
    for (int i = 0; tn__math_text[2 * i]; i++)
        if (!tn__math_parse(tn__math_text[2 * i + 1], tn__math_text[2 * i],
                            &table.arena, &end))
            return false;
    for (const tn__math_item *item = table.items; item; item = item->next)
        if (!check_item(item))
            return false;
    return true;
}

/* Parses all .def files on the first call. If that failed for lack of memory,
 * the next call tries again. */
static bool load(void)
{
    if (atomic_load_explicit(&parsed, memory_order_acquire))
        return true;
    tn__lock_take(&lock);
    bool good = atomic_load_explicit(&parsed, memory_order_relaxed);
    if (!good && (good = parse_all())) {
        atomic_store_explicit(&parsed, true, memory_order_release);
    } else if (!good) {
        tn__arena_release(&table.arena);
        table.items = NULL;
    }
    tn__lock_give(&lock);
    return good;
}

/* ---- queries ----------------------------------------------------------- */

const tn__math_item *tn__math_find(const char *name, enum tn__math_kind kind)
{
    return load() ? find_item(name, kind) : NULL;
}

bool tn__math_args(const char *name, int *arg_count)
{
    const tn__math_item *item = tn__math_find(name, TN__MATH_DEF);
    if (!item)
        item = tn__math_find(name, TN__MATH_FN);
    if (item)
        *arg_count = item->arg_count;
    return item != NULL;
}

/* Types the function of that name for a register type and returns its index.
 * Returns TN_NONE if there is no such function, or if typing it fails. */
static uint32_t type_named(const char *name, tn_dtype type)
{
    for (const tn__math_item *item = table.items; item; item = item->next)
        if (item->kind == TN__MATH_FN && is_typed_for(item, type) &&
            !strcmp(item->name, name))
            return type_fn(item, type) ? tn__math_fn_find(name, type) : TN_NONE;
    return TN_NONE;
}

uint32_t tn__math_fn_number(const char *name, tn_dtype type)
{
    if (!load())
        return TN_NONE;
    uint32_t number = tn__math_fn_find(name, type);
    if (number != TN_NONE || tn__me.typing)
        return number != TN_NONE ? number : type_named(name, type);
    tn__lock_take(&lock);
    tn__me.typing = true;
    number = type_named(name, type);
    tn__me.typing = false;
    tn__lock_give(&lock);
    return number;
}

const tn__math_item *tn__math_d_of(uint32_t fn_number)
{
    return find_item(tn__math_fn_item(fn_number)->name, TN__MATH_D);
}

const tn_kernel_fn *tn__math_fn(const char *name, tn_dtype type)
{
    uint32_t number = tn__math_fn_number(name, type);
    return number == TN_NONE ? NULL : tn__math_fn_at((int)number);
}

int tn__math_fn_count(void)
{
    static const tn_dtype types[] = {TN_F32, TN_F64, TN_I32, TN_I64, TN_BOOL};
    if (!load())
        return 0;
    for (const tn__math_item *item = table.items; item; item = item->next)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            if (item->kind == TN__MATH_FN && is_typed_for(item, types[t]) &&
                tn__math_fn_number(item->name, types[t]) == TN_NONE)
                return 0;
    return tn__math_fn_typed();
}
