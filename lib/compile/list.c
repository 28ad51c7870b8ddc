/* list.c: gathers launches of one program into lists, such as the launches of an
 * optimizer for all parameters. A device runs a list by one call. */
#include <compile/list.h>

#include <base/memory.h>
#include <device/work.h>

enum {
    /* How many commands before a launch are looked at. */
    WINDOW = 64,
    /* A launch that is moved forward writes its temporary values earlier, so
     * they need memory for longer. Launches with larger ones, in bytes, are not
     * moved. */
    SMALL = 4096
};

/* ---- entries ------------------------------------------------------------- */

static void entry_free(tn__entry *entry)
{
    for (tn__entry *next; entry; entry = next) {
        next = entry->with;
        tn__command_free(entry->command);
        tn__free(entry->use);
        tn__free(entry);
    }
}

bool tn__entries_add(tn__entries *entries, tn__command *command,
                     const uint32_t *value)
{
    tn__access access[TN__ACCESS_MAX];
    const int accesses = tn__command_accesses(command, access);
    tn__entry *entry = tn__calloc(1, sizeof *entry);
    if (!entry) {
        tn__command_free(command);
        return false;
    }
    command->next = NULL;
    entry->command = command;
    entry->number = entries->count;
    entry->use = tn__calloc((size_t)accesses + 1, sizeof *entry->use);
    if (!entry->use || !tn__grow(&entries->entry, &entries->room,
                                 entries->count, sizeof *entries->entry)) {
        entry_free(entry);
        return false;
    }
    entry->use_count = (uint32_t)accesses;
    for (int i = 0; i < accesses; i++)
        entry->use[i] = (tn__use){access[i], value[i]};
    entries->entry[entries->count++] = entry;
    return true;
}

void tn__entries_release(tn__entries *entries)
{
    for (size_t i = 0; i < entries->count; i++)
        entry_free(entries->entry[i]);
    tn__free(entries->entry);
}

/* ---- lists --------------------------------------------------------------- */

static bool uses_conflict(const tn__use *x, const tn__use *y)
{
    return x->value == y->value && (x->access.writes || y->access.writes) &&
           x->access.low < y->access.high && y->access.low < x->access.high;
}

/* Returns whether two commands must keep their order: one of them writes what
 * the other reads or writes. */
static bool entries_conflict(const tn__entry *x, const tn__entry *y)
{
    for (uint32_t i = 0; i < x->use_count; i++)
        for (uint32_t j = 0; j < y->use_count; j++)
            if (uses_conflict(&x->use[i], &y->use[j]))
                return true;
    return false;
}

/* Returns whether a launch may run earlier as far as memory is concerned. */
static bool may_move(const tn__capture *capture, const tn__entry *entry)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < entry->use_count; i++) {
        const tn__captured_value *v = &capture->value[entry->use[i].value];
        if (entry->use[i].access.writes && v->kind == TN__VALUE_TEMPORARY)
            bytes += v->bytes;
    }
    return entry->command->kind == TN__WORK_LAUNCH && bytes <= SMALL;
}

/* Finds the list that launch i can join: the nearest one of its program before
 * which nothing stands that the launch depends on. Returns i if there is none. */
static size_t find_list(tn__entry *const *entry, size_t i)
{
    const tn__command *command = entry[i]->command;
    for (size_t j = i; j-- > 0 && i - j <= WINDOW;) {
        for (const tn__entry *e = entry[j]; e; e = e->with)
            if (entries_conflict(e, entry[i]))
                return i;
        if (entry[j]->command->kind == TN__WORK_LAUNCH &&
            entry[j]->command->built == command->built)
            return j;
    }
    return i;
}

void tn__entries_gather(tn__entries *entries, const tn__capture *capture)
{
    size_t count = 0;
    for (size_t i = 0; i < entries->count; i++) {
        tn__entry *moved = entries->entry[i];
        entries->entry[count] = moved;
        const size_t at = may_move(capture, moved)
                              ? find_list(entries->entry, count)
                              : count;
        if (at == count) {
            count++;
            continue;
        }
        tn__entry *last = entries->entry[at];
        while (last->with)
            last = last->with;
        last->with = moved;
    }
    entries->count = count;
}
