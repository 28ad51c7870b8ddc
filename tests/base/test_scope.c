/* Tests objects, the scopes that own them, and errors in their use. */
#include "base/error.h"
#include "base/memory.h"
#include "base/object.h"
#include "tap.h"

#include <pthread.h>

typedef struct thing {
    tn__object object;
    struct thing *next; /* another object that this one holds a reference to */
} thing;

static tn__pool pool = {"thing", sizeof(thing), 0};
static _Atomic int64_t living;

static void thing_destroy(tn__object *object)
{
    thing *t = (thing *)object;
    tn__unref(t->next);
    tn__pool_give_object(&pool, t);
    living--;
}
static const tn__class thing_class = {.name = "thing",
                                      .destroy = thing_destroy};

/* Makes an object that is owned by the innermost scope and holds a reference to
 * next. */
static thing *make(thing *next)
{
    thing *t = tn__pool_take_object(&pool);
    if (!t)
        return NULL;
    tn__object_init(&t->object, &thing_class);
    t->next = tn__ref(next);
    living++;
    return tn__scope_own(t);
}

static void is_error(tn_status code, const char *text, const char *name)
{
    is_int(tn_error_code(), code, "%s: %s", name, tn_status_name(code));
    is_str(tn_error(), text, "%s is reported", name);
    tn_error_clear();
}

#define NOT_OPEN                                                              \
    ": this scope is not open in this thread: it was closed already (with a " \
    "scope around it, perhaps), or another thread opened it"

static void test_ownership(void)
{
    tn_scope *outer = tn_scope_open();
    make(NULL);
    tn_scope *inner = tn_scope_open();
    make(NULL);
    thing *kept = tn_keep(make(NULL));
    is_int(tn_scope_count(), 3, "the open scopes own three");
    tn_scope_close(inner);
    is_int(living, 2, "closing frees what was not kept");
    is_int(tn_scope_count(), 1, "and a kept object has left the scope");
    tn_drop(kept);
    is_int(living, 1, "tn_drop gives a kept one back");
    thing *early = make(NULL);
    tn_drop(early);
    is_int(living, 1, "tn_drop frees a scope's object early");
    tn_scope_open();
    make(NULL);
    tn_scope_close(outer);
    is_int(living, 0, "closing a scope closes those inside it");
    ok(!tn_error(), "closing the outer scope first is no error");
}

static void test_results(void)
{
    tn_scope *outer = tn_scope_open();
    tn_scope *inner = tn_scope_open();
    thing *first = make(NULL), *second = make(first);
    make(NULL);
    tn_drop(first); /* second still holds a reference to it */
    ok(tn_scope_result(inner, second) == second, "a result is returned");
    is_int(living, 2, "it lives on with the objects that it holds");
    is_int(tn_scope_count(), 1, "owned by the scope around");
    inner = tn_scope_open();
    ok(!tn_scope_result(inner, NULL), "NULL is handed on as NULL");
    ok(!tn_error(), "which is no error");
    tn_scope_close(inner);
    is_error(TN_ERR_STATE, "scope_close" NOT_OPEN,
             "the scope of a NULL result is closed");

    inner = tn_scope_open();
    make(NULL);
    ok(tn_scope_result(inner, second) == second,
       "an object of a scope around may be a result");
    is_int(living, 2, "and is owned by that scope");

    inner = tn_scope_open();
    tn_scope_open();
    void *several[] = {make(NULL), NULL, make(NULL), second};
    make(NULL);
    ok(tn__scope_results(inner, several, 4), "several results at once");
    is_int(living, 4, "live on");
    tn_scope_close(outer);
    is_int(living, 0, "until the scope around them closes");
    ok(!tn_scope_result(NULL, NULL) && !tn_error(), "no scope, no result");
}

static tn_scope *foreign;
static thing *foreign_thing;
static void *open_elsewhere(void *unused)
{
    (void)unused;
    tn_scope *scope = tn_scope_open();
    make(NULL);
    tn_scope_close(foreign);
    is_error(TN_ERR_STATE, "scope_close" NOT_OPEN,
             "closing another thread's scope");
    tn_drop(foreign_thing);
    is_error(TN_ERR_STATE,
             "drop: the object is not kept, and no open scope of this thread "
             "owns it; call tn_drop() once for each tn_keep()",
             "dropping another thread's object");
    tn_keep(foreign_thing);
    tn_drop(foreign_thing);
    ok(!tn_error(), "keeping and dropping it is legal");
    (void)scope; /* not closed here: it is closed when the thread ends */
    return NULL;
}

static void test_mistakes(void)
{
    tn_scope_close(NULL);
    tn_drop(NULL);
    ok(!tn_keep(NULL) && !tn_error(), "NULL is welcome");
    tn_scope *scope = tn_scope_open();
    tn_scope_close(scope);
    tn_scope *next = tn_scope_open();
    tn_scope_close(scope);
    is_error(TN_ERR_STATE, "scope_close" NOT_OPEN,
             "closing a scope twice, another being open");
    thing *t = make(NULL);
    ok(!tn_scope_result(scope, t), "a closed scope moves nothing out");
    is_error(TN_ERR_STATE, "scope_result" NOT_OPEN,
             "a result of a closed scope");
    tn_drop(next);
    is_error(TN_ERR_ARGUMENT,
             "drop: this is a scope; close it with tn_scope_close()",
             "dropping a scope");
    ok(!tn_keep(next), "a scope cannot be kept");
    is_error(TN_ERR_ARGUMENT, "keep: this is a scope; keep the objects in it",
             "keeping a scope");
#define NO_OBJECT                                                             \
    ": object is not an object that scopes own: it is a device, an operator " \
    "or memory of the program"
    static struct { void *part[8]; } other;
    ok(!tn_keep(&other), "a pointer to no object cannot be kept");
    is_error(TN_ERR_ARGUMENT, "keep" NO_OBJECT, "keeping what is no object");
    tn_drop(&other);
    is_error(TN_ERR_ARGUMENT, "drop" NO_OBJECT, "dropping what is no object");
    tn_drop((char *)&other + 2);
    is_error(TN_ERR_ARGUMENT, "drop" NO_OBJECT, "dropping half an address");
    ok(!tn_scope_adopt(&other), "a pointer to no object cannot be adopted");
    is_error(TN_ERR_ARGUMENT, "scope_adopt" NO_OBJECT, "adopting it");
    thing *holder = make(t);
    tn_drop(t);
    tn_drop(t); /* holder still holds a reference to it */
    is_error(TN_ERR_STATE,
             "drop: the object is not kept, and no open scope of this thread "
             "owns it; call tn_drop() once for each tn_keep()",
             "dropping an object twice");
    foreign = next;
    foreign_thing = holder;
    pthread_t thread;
    pthread_create(&thread, NULL, open_elsewhere, NULL);
    pthread_join(thread, NULL);
    is_int(living, 2, "the end of a thread closes its open scopes");
    tn_scope_close(next);
    is_int(living, 0, "all objects are freed");
}

static void test_chain(void)
{
    tn_scope *scope = tn_scope_open();
    thing *last = NULL;
    for (int i = 0; i < 1000000; i++) {
        thing *t = make(last);
        tn_drop(last);
        last = t;
    }
    is_int(living, 1000000, "a chain of a million");
    is_int(tn_scope_count(), 1, "of which the scope owns the end");
    tn_scope_close(scope);
    is_int(living, 0, "is freed without a stack as deep");
}

/* Passes a state from scope to scope, as a recurrent network does. The parent
 * scope's list of objects must not grow. */
static void test_handing_on(void)
{
    tn_scope *scope = tn_scope_open();
    thing *state = make(NULL);
    int64_t count = tn__memory_count();
    for (int i = 0; i < 100000; i++) {
        tn_scope *step = tn_scope_open();
        thing *next = make(NULL);
        tn_drop(state);
        state = tn_scope_result(step, next);
    }
    is_int(living, 1, "one state lives");
    is_int(tn_scope_count(), 1, "one is owned");
    is_int(tn__memory_count() - count, 100000, "one allocation for each step");
    tn_scope_close(scope);
}

/* If a call lists an object twice, the scope owns it once. */
static void test_handed_on_twice(void)
{
    const int64_t before = tn_scope_count();
    tn_scope *outer = tn_scope_open(), *inner = tn_scope_open();
    thing *a = make(NULL);
    make(NULL);
    void *twice[] = {a, a};
    ok(tn__scope_results(inner, twice, 2), "one result named twice");
    is_int(tn_scope_count() - before, 1, "lives on once, alone");
    tn_scope_close(outer);
    is_int(living, 0, "and not beyond");
}

static void test_order(void)
{
    tn_scope *scope = tn_scope_open();
    thing *t[200];
    for (int i = 0; i < 200; i++)
        t[i] = make(NULL);
    for (int i = 0; i < 200; i += 2)
        tn_drop(t[i]);
    is_int(tn_scope_count(), 100, "every second one dropped");
    for (int i = 1; i < 200; i += 2)
        tn_drop(t[i]);
    ok(!tn_error(), "the others are still found");
    is_int(living, 0, "and freed");
    is_int(tn_scope_count(), 0, "nothing is left in the scope");
    tn_scope_close(scope);
}

static int told;
static void count_line(int level, const char *line, void *context)
{
    (void)context;
    if (level == 1 && strstr(line, "tn_scope_open()"))
        told++;
}

static void *grow_root(void *unused)
{
    (void)unused;
    for (int i = 0; i < 250000; i++)
        make(NULL);
    return NULL;
}

static void test_root(void)
{
    tn_log_set(count_line, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, grow_root, NULL);
    pthread_join(thread, NULL);
    tn_log_set(NULL, NULL);
    is_int(told, 1, "a growing root scope is reported once");
    is_int(living, 0, "and freed at the thread's end");
}

static void test_no_memory(void)
{
    int failed = 0;
    for (int n = 1; n < 20; n++) {
        tn__state_end();
        tn__memory_fail_at(n);
        tn_scope *scope = tn_scope_open();
        thing *t = make(make(NULL));
        bool error = tn_error() != NULL;
        tn__memory_fail_at(0);
        if (error && tn_error_code() != TN_ERR_MEMORY)
            ok(false, "allocation %d failed with another error", n);
        if (!error && (!scope || !t))
            ok(false, "allocation %d failed in silence", n);
        failed += error;
        tn_error_clear();
        tn_scope_close(scope);
    }
    ok(failed >= 4, "each allocation was made to fail: %d", failed);
    tn__state_end();
    is_int(living, 0, "and nothing is left");
}

int main(void)
{
    plan_later();
    test_ownership();
    test_results();
    test_mistakes();
    test_chain();
    test_handing_on();
    test_handed_on_twice();
    test_order();
    test_root();
    test_no_memory();
    is_int(tn__memory_live(), 0, "no memory is left");
    return done_testing();
}
