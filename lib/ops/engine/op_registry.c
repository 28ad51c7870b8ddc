/* op_registry.c: finds operators by name and by id. The operators of the table
 * come first, then those that the program has added. */
#include <base/error.h>
#include <base/lock.h>
#include <base/memory.h>
#include <ops/engine/define.h>
#include <ops/table.h>
#include <string.h>

/* ---- operators that the program has added -------------------------------- */

static tn__lock lock = TN__LOCK_INIT;
static tn_op **user;
static size_t user_room;
static _Atomic int user_count;

static const tn_op *user_find_locked(const char *name)
{
    for (int i = 0; i < user_count; i++)
        if (strcmp(user[i]->name, name) == 0)
            return user[i];
    return NULL;
}

static const tn_op *user_find(const char *name)
{
    if (!user_count)
        return NULL;
    tn__lock_take(&lock);
    const tn_op *op = user_find_locked(name);
    tn__lock_give(&lock);
    return op;
}

static const tn_op *user_at(int i)
{
    tn__lock_take(&lock);
    const tn_op *op = i < user_count ? user[i] : NULL;
    tn__lock_give(&lock);
    return op;
}

/* ---- all operators ------------------------------------------------------- */

/* Returns the index of the first alias with this name, or -1. The aliases are
 * sorted by name. */
static int first_alias(const char *name)
{
    int low = 0, high = tn__op_alias_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (strcmp(tn__op_alias_name(middle), name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < tn__op_alias_count &&
                 strcmp(tn__op_alias_name(low), name) == 0;
    return found ? low : -1;
}

const tn_op *tn_op_find(const char *name)
{
    if (!name)
        return NULL;
    int at = first_alias(name);
    return at >= 0 ? &tn__op_table[tn__op_aliases[at].id] : user_find(name);
}

const tn_op *tn_op_next(const tn_op *op, const char *name)
{
    int at = op && name ? first_alias(name) : -1;
    if (at < 0)
        return NULL;
    while (at < tn__op_alias_count && tn__op_aliases[at].id != op->id &&
           strcmp(tn__op_alias_name(at), name) == 0)
        at++;
    at++;
    if (at >= tn__op_alias_count || strcmp(tn__op_alias_name(at), name) != 0)
        return NULL;
    return &tn__op_table[tn__op_aliases[at].id];
}

int tn_op_count(void)
{
    return TN__OP_COUNT + user_count;
}

const tn_op *tn_op_at(int i)
{
    if (i < 0)
        return NULL;
    return i < TN__OP_COUNT ? &tn__op_table[i] : user_at(i - TN__OP_COUNT);
}

tn_status tn__op_user_add(tn_op *op, const char *who)
{
    /* tn_op_find also takes the lock, so it is called before the lock is
     * taken. */
    bool taken = tn_op_find(op->name) != NULL;
    tn__lock_take(&lock);
    taken = taken || user_find_locked(op->name);
    bool room = !taken && tn__grow(&user, &user_room, (size_t)user_count,
                                   sizeof *user);
    if (room) {
        op->id = TN__OP_COUNT + user_count;
        user[user_count] = op;
        user_count++;
    }
    tn__lock_give(&lock);
    if (taken)
        return tn__fail(TN_ERR_ARGUMENT, "%s: an operator named %s exists "
                        "already; choose another name", who, op->name);
    return room ? TN_OK : TN_ERR_MEMORY;
}
