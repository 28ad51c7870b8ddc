/* Passes freed objects and objects of another kind to the library, which must
 * recognise them and report an error. Tests the messages, and for how long
 * freed objects are recognised. */
#include "base/error.h"
#include "base/memory.h"
#include "base/object.h"
#include "tap.h"

#include <pthread.h>
#include <string.h>

typedef struct thing {
    tn__object object;
    char body[40];
} thing;

static tn__pool pool = {"thing", sizeof(thing), 0};
static void thing_destroy(tn__object *object)
{
    tn__pool_give_object(&pool, object);
}
static const tn__class thing_class = {.name = "thing",
                                      .destroy = thing_destroy};

static void apple_destroy(tn__object *object)
{
    tn__object_free(object, sizeof(thing));
}
static const tn__class apple_class = {.name = "apple",
                                      .destroy = apple_destroy};

static const tn_object_class egg_class = {sizeof egg_class, "egg",
                                          sizeof(tn_object) + 8, NULL};
static const tn_object_class pear_class = {sizeof pear_class, "pear",
                                           sizeof(tn_object) + 8, NULL};

static void *make_thing(void)
{
    thing *t = tn__pool_take_object(&pool);
    tn__object_init(&t->object, &thing_class);
    return tn__scope_own(t);
}

static void *make_apple(void)
{
    thing *t = tn__calloc(1, sizeof *t);
    tn__object_init(&t->object, &apple_class);
    return tn__scope_own(t);
}

static void *make_egg(void)
{
    return tn_object_new(&egg_class, 0);
}

static void is_error(tn_status code, const char *text, const char *name)
{
    is_int(tn_error_code(), code, "%s: %s", name, tn_status_name(code));
    is_str(tn_error(), text, "%s is reported", name);
    tn_error_clear();
}

#define GONE                                                                  \
    " was freed: its scope was closed or it was dropped; tn_keep() makes an " \
    "object outlive its scope (TENON_DEBUG=scopes reports which scope freed it)"

static void test_kinds(void)
{
    tn_scope *scope = tn_scope_open();
    void *t = make_thing(), *apple = make_apple(), *egg = make_egg();
    static void *other[8];
    ok(tn__object_check(t, &thing_class, "eat", "x") &&
           tn__object_has(t, &thing_class, "eat", "x") &&
           tn_object_check(egg, &egg_class, "eat", "egg") && !tn_error(),
       "an object is of its class");
    ok(!tn__object_check(NULL, &thing_class, "eat", "x"), "NULL is none");
    is_error(TN_ERR_ARGUMENT, "eat: x is NULL", "NULL");
    ok(!tn__object_has(NULL, &thing_class, "eat", "x") && !tn_error(),
       "an attribute's NULL is no error");
    ok(!tn__object_has(apple, &thing_class, "eat", "x"), "an apple is none");
    is_error(TN_ERR_ARGUMENT, "eat: x is an apple, not a thing",
             "an object of another class");
    ok(!tn__object_check(egg, &thing_class, "eat", "x"), "an egg is no thing");
    is_error(TN_ERR_ARGUMENT, "eat: x is an egg, not a thing",
             "an object of the user's");
    ok(!tn_object_check(egg, &pear_class, "eat", "x"), "an egg is no pear");
    is_error(TN_ERR_ARGUMENT, "eat: x is an egg, not a pear",
             "one of two classes of the user's");
    ok(!tn_object_check(t, &egg_class, "eat", "x"), "a thing is no egg");
    is_error(TN_ERR_ARGUMENT, "eat: x is a thing, not an egg",
             "an object of the library's");
    ok(!tn__object_check(scope, &thing_class, "eat", "x"), "nor is a scope");
    is_error(TN_ERR_ARGUMENT, "eat: x is a scope, not a thing", "a scope");
    ok(!tn__object_check(other, &thing_class, "eat", "x") && tn_error(),
       "other memory is no thing");
    is_error(TN_ERR_ARGUMENT,
             "eat: x is not a thing, nor another object that scopes own: it is "
             "a device, an operator or memory of the program", "other memory");
    tn_scope_close(scope);
    ok(!tn__object_check(t, &thing_class, "eat", "x"),
       "a dead object has no kind");
    is_error(TN_ERR_STATE, "eat: x" GONE, "what is gone");
    ok(!tn__object_has(apple, &apple_class, "eat", "x"), "nor for attributes");
    is_error(TN_ERR_STATE, "eat: x" GONE, "an attribute of what is gone");
    ok(!tn_object_is(egg, &egg_class) && !tn_error() &&
           !tn_object_check(egg, &egg_class, "eat", "egg"),
       "nor has a dead egg");
    is_error(TN_ERR_STATE, "eat: egg" GONE, "an egg that is gone");
    ok(!tn__object_check(egg, &thing_class, "eat", "x"), "of another class");
    is_error(TN_ERR_ARGUMENT, "eat: x is an egg that was freed, not a thing",
             "what is gone and of another class");
    ok(!tn_keep(t), "a dead object cannot be kept");
    is_error(TN_ERR_STATE, "keep: object" GONE, "keeping what is gone");
    tn_drop(apple);
    is_error(TN_ERR_STATE, "drop: object" GONE, "dropping what is gone");
    ok(!tn_scope_adopt(egg), "a dead object cannot be adopted");
    is_error(TN_ERR_STATE, "scope_adopt: object" GONE, "adopting it");
    scope = tn_scope_open();
    int64_t open = tn_scope_count();
    make_egg();
    ok(!tn_scope_result(scope, egg), "a dead object cannot be a result");
    is_error(TN_ERR_STATE, "scope_result: result" GONE, "such a result");
    is_int(tn_scope_count(), open, "but the scope is closed");
}

/* Counts how many objects of a kind must be freed until a freed one is no
 * longer recognised. */
static void test_order(void *(*make)(void), const char *name)
{
    void *first = make();
    tn_drop(first);
    bool known = true;
    void *made[TN__QUARANTINE_LEAST];
    for (int i = 0; i < TN__QUARANTINE_LEAST; i++) {
        made[i] = make();
        known = known && made[i] != first;
    }
    for (int i = 0; i < TN__QUARANTINE_LEAST; i++) {
        tn__object *object = first;
        known = known && object->mark == TN__OBJECT_DEAD &&
                object->type == &tn__class_dead;
        tn_drop(made[i]);
    }
    ok(known, "%s is recognised until %d others have died", name,
       TN__QUARANTINE_LEAST);
}

static void *died;
static void *die(void *make)
{
    died = (*(void *(**)(void))make)();
    return NULL;
}

static void test_thread(void)
{
    void *(*make[])(void) = {make_thing, make_apple, make_egg};
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, die, &make[i]);
        pthread_join(thread, NULL);
        ok(!tn__object_check(died, &thing_class, "eat", "x") &&
               strstr(tn_error(), "was freed"),
           "what went with its thread is recognised: %s", tn_error());
        tn_error_clear();
    }
}

static void test_large(void)
{
    void *egg = tn_object_new(&egg_class, 10 << 20);
    memset((char *)egg + sizeof(tn_object), 1, 10 << 20);
    tn_drop(egg);
    ok(!tn_object_check(egg, &egg_class, "eat", "x") && tn_error(),
       "a large object is recognised");
    tn_error_clear();
}

/* ---- TENON_DEBUG=scopes ------------------------------------------------- */

static int limit_lines;
static void count_line(int level, const char *line, void *context)
{
    (void)level, (void)context;
    limit_lines += strstr(line, "TENON_DEBUG=scopes") != NULL;
}

static void *end_scope(void *unused)
{
    (void)unused;
    died = make_egg();
    return NULL;
}

static void like(const char *part, const char *name)
{
    ok(tn_error() && strstr(tn_error(), part), "%s: %s", name,
       tn_error() ? tn_error() : "nothing");
    tn_error_clear();
}

static void test_stories(void)
{
    is_int(tn_debug_set("scoops"), TN_ERR_ARGUMENT, "an unknown word");
    is_error(TN_ERR_ARGUMENT, "debug_set: \"scoops\" is unknown; expected "
             "\"scopes\", or NULL for none", "an unknown word");
    is_int(tn_debug_set("scopes"), TN_OK, "TENON_DEBUG=scopes");
    const tn_path *outer = tn_path_enter(tn_path_join(NULL, "encoder"));
    tn_scope *scope = tn_scope_open();
    const tn_path *inner = tn_path_enter(tn_path_join(NULL, "encoder.fc"));
    void *egg = make_egg(), *t = make_thing(), *apple = make_apple();
    void *named = make_egg();
    tn_object_set_maker(named, "Hen");
    tn_path_enter(outer);
    tn_drop(apple);
    tn_scope_close(scope);
    (void)inner;
    tn_object_check(egg, &egg_class, "eat", "x");
    like("eat: x was freed: made in encoder.fc, scope ", "where it was made");
    tn_object_check(egg, &egg_class, "eat", "x");
    like(" in encoder) freed it when it was closed; tn_keep() makes",
         "which scope took it");
    tn_object_check(egg, &egg_class, "eat", "x");
    like("test_quarantine+0x", "who opened the scope");
    tn_object_check(named, &egg_class, "eat", "x");
    like("eat: x was freed: made by Hen in encoder.fc, ", "who made it");
    tn__object_check(apple, &apple_class, "eat", "x");
    like("made in encoder.fc, it was dropped with tn_drop()", "a drop");
    pthread_t thread;
    pthread_create(&thread, NULL, end_scope, NULL);
    pthread_join(thread, NULL);
    tn_object_check(died, &egg_class, "eat", "x");
    like("its thread's root scope freed it when the thread ended",
         "the end of a thread");
    bool again = false;
    for (int i = 0; i < 10000; i++) {
        void *made = i % 2 ? make_thing() : make_egg();
        again = again || made == t || made == egg;
        tn_drop(made);
    }
    ok(!again, "their memory is not used again");
    tn_log_set(count_line, NULL);
    for (int i = 0; i < 270000; i++)
        tn_drop(make_thing());
    tn_log_set(NULL, NULL);
    is_int(limit_lines, 1, "the limit is reported once");
    is_int(tn_debug_set(NULL), TN_OK, "and off again");
}

int main(void)
{
    plan_later();
    test_kinds();
    test_order(make_thing, "an object of a pool");
    test_order(make_apple, "one of malloc's");
    test_order(make_egg, "one of the user's");
    test_thread();
    test_large();
    test_stories();
    tn__state_end();
    is_int(tn__memory_live(), 0, "no memory is left");
    return done_testing();
}
