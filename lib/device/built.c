/* built.c: the table of a device's compiled programs. Each program is compiled
 * once, when it is first needed; later calls look it up without a lock. */
#include <device/registry.h>

#include <base/lock.h>
#include <base/memory.h>
#include <base/platform.h>
#include <base/timeline.h>

/* A hash table with open addressing, whose key is the program's address.
 * Lookups take no lock: an entry's `built` is stored before its key, so a
 * reader that sees the key also sees the compiled program. A full table is
 * copied to a larger one. The old table is not freed, because another thread
 * may still be reading it. */
typedef struct built_entry {
    _Atomic(const tn_program *) key;
    _Atomic(tn_built *) built;
} built_entry;

typedef struct built_table {
    struct built_table *smaller; /* the full table that this table replaced */
    size_t mask, used;
    built_entry entry[];
} built_table;

struct tn__builds {
    _Atomic(built_table *) table;
    tn__lock lock;
};

struct tn__builds *tn__builds_make(void)
{
    struct tn__builds *builds = tn__calloc(1, sizeof *builds);
    if (builds)
        tn__lock_init(&builds->lock);
    return builds;
}

static size_t slot_of(const tn_program *program, size_t mask)
{
    uint64_t hash = (uint64_t)(uintptr_t)program * 0x9e3779b97f4a7c15u;
    return (size_t)(hash >> 32) & mask;
}

static tn_built *built_find(built_table *table, const tn_program *program)
{
    if (!table)
        return NULL;
    for (size_t i = slot_of(program, table->mask);; i = (i + 1) & table->mask) {
        built_entry *e = &table->entry[i];
        const tn_program *key =
            atomic_load_explicit(&e->key, memory_order_acquire);
        if (key == program)
            return atomic_load_explicit(&e->built, memory_order_relaxed);
        if (!key)
            return NULL;
    }
}

static void built_put(built_table *table, const tn_program *program,
                      tn_built *built)
{
    size_t i = slot_of(program, table->mask);
    while (atomic_load_explicit(&table->entry[i].key, memory_order_relaxed))
        i = (i + 1) & table->mask;
    atomic_store_explicit(&table->entry[i].built, built, memory_order_relaxed);
    atomic_store_explicit(&table->entry[i].key, program, memory_order_release);
    table->used++;
}

/* Returns a table with space for one more entry, which is a larger copy if the
 * current table is half full. Returns NULL if memory runs out. */
static built_table *built_room(struct tn__builds *builds)
{
    built_table *old = atomic_load_explicit(&builds->table, memory_order_relaxed);
    if (old && old->used * 2 <= old->mask)
        return old;
    size_t count = old ? (old->mask + 1) * 2 : 64;
    built_table *table =
        tn__calloc(1, sizeof *table + count * sizeof(built_entry));
    if (!table)
        return NULL;
    table->smaller = old;
    table->mask = count - 1;
    for (size_t i = 0; old && i <= old->mask; i++) {
        const tn_program *key =
            atomic_load_explicit(&old->entry[i].key, memory_order_relaxed);
        if (key)
            built_put(table, key,
                      atomic_load_explicit(&old->entry[i].built,
                                           memory_order_relaxed));
    }
    atomic_store_explicit(&builds->table, table, memory_order_release);
    return table;
}

tn_built *tn__device_built(tn_device *device, const tn_program *program)
{
    struct tn__builds *builds = device->builds;
    tn_built *built = built_find(
        atomic_load_explicit(&builds->table, memory_order_acquire), program);
    if (TN__LIKELY(built != NULL))
        return built;
    if (tn__device_check_program(device, program))
        return NULL;
    tn__lock_take(&builds->lock);
    built = built_find(atomic_load(&builds->table), program);
    built_table *table = built ? NULL : built_room(builds);
    if (table) {
        bool was_pending = tn__error_pending();
        tn__span span;
        tn__span_begin(&span);
        tn_status status =
            device->plugin->program_build(device->handle, program, &built);
        tn__span_end(&span, "build", "program_build", NULL);
        if (status || !built) {
            built = NULL;
            tn__device_fail(device, "program_build", status ? status : TN_ERR_INTERNAL,
                 was_pending);
        } else {
            built_put(table, program, built);
        }
    }
    tn__lock_give(&builds->lock);
    return built;
}
