/* lifetime.c: records where each object was made and why it was freed, if
 * TENON_DEBUG=scopes is set.
 *
 * An error about an object that was used after its scope was closed can then
 * name the object and the scope. For that, the memory of freed objects is not
 * reused, and a hash table has a record for each object. This mode is slow and
 * takes much memory, so it is off by default. */
#include <base/error.h>
#include <base/context.h>
#include <base/lock.h>
#include <base/platform.h>
#include <base/state.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Largest number of freed objects whose memory is not reused. With their
 * records, that many tensors take about 100 MB. */
#define DEAD_MAX 262144
#define BUCKETS 65536

typedef struct lifetime {
    struct lifetime *next; /* next record in the same bucket of the hash
                            * table */
    const tn__object *object;
    const char *made_by; /* operator that made the object; NULL if not known */
    const tn_path *made_in;
    tn__release_cause cause;
    uint64_t scope; /* handle of the scope that freed the object; 0 for the root
                     * scope */
    const void *opener;
    const tn_path *opened_in;
} lifetime;

_Atomic bool tn__lifetimes_traced;

static tn__lock lock = TN__LOCK_INIT;
static lifetime **bucket;
static tn__quarantine dead;
static bool limit_logged;

/* ---- turning the records on or off --------------------------------------*/

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool chosen; /* true if the program called tn_debug_set, so the
                     * environment is not read */

static tn_status choose(const char *names)
{
    bool scopes = names && strcmp(names, "scopes") == 0;
    if (names && *names && !scopes)
        return TN_ERR_ARGUMENT;
    if (scopes) {
        tn__lock_take(&lock);
        if (!bucket)
            bucket = calloc(BUCKETS, sizeof *bucket);
        tn__lock_give(&lock);
        if (!bucket)
            return TN_ERR_MEMORY;
    }
    atomic_store(&tn__lifetimes_traced, scopes);
    return TN_OK;
}

static void read_once(void)
{
    const char *names = tn__env("TENON_DEBUG");
    if (chosen || !names)
        return;
    if (choose(names) == TN_ERR_ARGUMENT)
        tn__log(1, "TENON_DEBUG=%s: not known, and has no effect; there is "
                "\"scopes\"", names);
}

void tn__debug_read(void)
{
    pthread_once(&once, read_once);
}

tn_status tn_debug_set(const char *names)
{
    chosen = true;
    tn__debug_read();
    tn_status status = choose(names);
    if (status == TN_ERR_ARGUMENT)
        tn__fail(status, "debug_set: \"%s\" is unknown; expected "
                 "\"scopes\", or NULL for none", names);
    else if (status < 0)
        tn__fail(status, "debug_set: out of memory for the table of objects");
    return status;
}

/* ---- records of objects -------------------------------------------------- */

static lifetime **slot_of(const tn__object *object)
{
    uint64_t h = (uint64_t)(uintptr_t)object * 0x9e3779b97f4a7c15u;
    lifetime **at = &bucket[h >> 48 & (BUCKETS - 1)];
    while (*at && (*at)->object != object)
        at = &(*at)->next;
    return at;
}

/* Returns the record of an object, which is made if there is none. Returns NULL
 * if memory runs out. */
static lifetime *record_of(const tn__object *object)
{
    lifetime **at = slot_of(object);
    if (!*at && (*at = calloc(1, sizeof **at)))
        (*at)->object = object;
    return *at;
}

void tn__lifetime_begin(const tn__object *object)
{
    tn__lock_take(&lock);
    lifetime *record = object->type->origin ? NULL : record_of(object);
    /* The record may belong to an earlier object at this address, so it is
     * overwritten. */
    if (record) {
        record->made_by = tn__outermost_op();
        record->made_in = tn__me.location.path;
    }
    tn__lock_give(&lock);
}

void tn__lifetime_made_by(const tn__object *object, const char *name)
{
    tn__lock_take(&lock);
    lifetime *record = record_of(object);
    if (record)
        record->made_by = name;
    tn__lock_give(&lock);
}

bool tn__release_begin(tn__release_cause cause, const tn__frame *frame)
{
    if (tn__me.release.cause != TN__RELEASED_BY_HOLDER)
        return false;
    tn__me.release.cause = cause;
    tn__me.release.scope = frame ? frame->handle : 0;
    tn__me.release.opener = frame ? frame->opener : NULL;
    tn__me.release.opened_in = frame ? frame->path : NULL;
    return true;
}

void tn__release_end(void)
{
    tn__me.release.cause = TN__RELEASED_BY_HOLDER;
}

void tn__lifetime_end(tn__object *object)
{
    tn__object *oldest = NULL;
    tn__lock_take(&lock);
    lifetime *record = record_of(object);
    if (record) {
        record->cause = tn__me.release.cause;
        record->scope = tn__me.release.scope;
        record->opener = tn__me.release.opener;
        record->opened_in = tn__me.release.opened_in;
        if (object->was->origin)
            object->was->origin(object, &record->made_by, &record->made_in);
    }
    if (tn__quarantine_push(&dead, object) > DEAD_MAX) {
        oldest = tn__quarantine_pop(&dead);
        lifetime **at = slot_of(oldest), *gone = *at;
        if (gone)
            *at = gone->next;
        free(gone);
    }
    bool first = oldest && !limit_logged;
    limit_logged |= first;
    tn__lock_give(&lock);
    if (first)
        tn__log(1, "TENON_DEBUG=scopes: %d freed objects are recorded; "
                "the oldest are forgotten from now on, and their use may go "
                "unnoticed", DEAD_MAX);
    if (oldest)
        tn__quarantine_free(oldest);
}

/* ---- messages ------------------------------------------------------------ */

static void describe_scope(const lifetime *record, tn__text *text)
{
    char place[256];
    const char *path = tn_path_text(record->opened_in);
    tn__code_place(record->opener, place, sizeof place);
    if (!record->scope) {
        tn__text_add(text, "its thread's root scope freed it when the thread "
                     "ended");
        return;
    }
    tn__text_add(text, "scope %llu", (unsigned long long)record->scope / 2);
    if (*place || *path)
        tn__text_add(text, " (opened%s%s%s%s)", *place ? " at " : "", place,
                     *path ? " in " : "", path);
    tn__text_add(text, " freed it when it was closed");
}

void tn__lifetime_describe(const tn__object *object, char *room, size_t bytes)
{
    tn__text text = {0};
    room[0] = '\0';
    tn__lock_take(&lock);
    const lifetime *record = bucket ? *slot_of(object) : NULL;
    if (record) {
        const char *path = tn_path_text(record->made_in);
        if (record->made_by || *path)
            tn__text_add(&text, "made%s%s%s%s, ",
                         record->made_by ? " by " : "",
                         record->made_by ? record->made_by : "",
                         *path ? " in " : "", path);
        if (record->cause == TN__RELEASED_BY_SCOPE)
            describe_scope(record, &text);
        else
            tn__text_add(&text, "%s", record->cause == TN__RELEASED_BY_DROP
                                          ? "it was dropped with tn_drop()"
                                          : "it was freed with the last object "
                                            "that held it");
    }
    tn__lock_give(&lock);
    snprintf(room, bytes, "%s", text.data ? text.data : "");
    tn__text_release(&text);
}
