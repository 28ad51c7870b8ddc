/* function_table.c: the table of mathematical functions that have been typed,
 * by index. Entries never change, so the table is read without a lock. */
#include <stdatomic.h>
#include <string.h>

#include <kernel/math/functions.h>

static struct {
    const tn_kernel_fn *fn;
    const tn__math_item *item;
    tn_dtype type;
} table[TN__MATH_MAX_FUNCTIONS];

static _Atomic int table_count; /* incremented after the new entry has been
                                 * written */

uint32_t tn__math_fn_find(const char *name, tn_dtype type)
{
    int count = tn__math_fn_typed();
    for (int i = 0; i < count; i++)
        if (table[i].type == type && !strcmp(table[i].item->name, name))
            return (uint32_t)i;
    return TN_NONE;
}

void tn__math_fn_add(const tn_kernel_fn *fn, const tn__math_item *item,
                     tn_dtype type)
{
    int number = atomic_load_explicit(&table_count, memory_order_relaxed);
    table[number].fn = fn;
    table[number].item = item;
    table[number].type = type;
    atomic_store_explicit(&table_count, number + 1, memory_order_release);
}

int tn__math_fn_typed(void)
{
    return atomic_load_explicit(&table_count, memory_order_acquire);
}

const tn__math_item *tn__math_fn_item(uint32_t number)
{
    return table[number].item;
}

bool tn__math_fn_is_rare(int i)
{
    return table[i].item->rare;
}

const tn_kernel_fn *tn__math_fn_at(int i)
{
    return i >= 0 && i < tn__math_fn_typed() ? table[i].fn : NULL;
}
