/* test_options.c: tests how a function reads its options, with a struct of
 * options that this file defines. */
#include "tap.h"

#include <tenon/options.h>

/* This test does not check compiler warnings about a number where a list is
 * expected. */
#pragma GCC diagnostic ignored "-Wmissing-braces"

#define CALL_OPTIONS_LIST(X)                                                  \
    X(int64_t, dim, TN_NONE_INT)                                              \
    X(tn_dims_list, dims, TN_NONE_DIMS)                                       \
    X(double, alpha, 0.5)                                                     \
    X(bool, bias, true)                                                       \
    X(const char *, mode, "mean")                                             \
    X(const char *, name, NULL)                                               \
    X(void *, context, NULL)
TN_OPTIONS_STRUCT(call, CALL_OPTIONS_LIST);
#define CALL_OPTIONS TN_OPTIONS_DEFAULTS(call, CALL_OPTIONS_LIST)
TN_OPTIONS_TYPE(call, "test_call", "x", CALL_OPTIONS_LIST)

/* The options that the last call received. (call_with returns -1 if the call
 * was rejected.) */
static call_options took;

static int call_with(int x, const call_options *options)
{
    memset(&took, 0xee, sizeof took);
    return tn_options_take(call_type(), &took, options) < 0 ? -1 : x;
}
#define call(...) TN_CALL_1(call, __VA_ARGS__, )

static void refused(int result, const char *words, const char *name)
{
    const char *said = tn_error();
    ok(result < 0 && said && strstr(said, words), "refused: %s", name);
    if (!said || !strstr(said, words))
        note("got %s, want %s", said ? said : "no error", words);
    is_int(tn_error_code(), TN_ERR_ARGUMENT, "%s: a wrong argument", name);
    tn_error_clear();
}

/* Calls the function with the options that the macro would make of `text`. A
 * compiler would warn about these calls if they were written out. */
static int said(const char *text)
{
    call_options o = {.given = text, .size = sizeof o, .dim = 7, .alpha = 3,
                      .dims = tn_dims(7), .mode = "sum", .name = "n"};
    return call_with(1, &o);
}

static void test_values(void)
{
    is_int(call(4), 4, "a call without options");
    ok(took.dim == TN_NONE_INT && took.dims.count == -1 &&
           took.alpha == 0.5 && took.bias && !strcmp(took.mode, "mean") &&
           !took.name, "has all defaults");
    call(1, .dim = 0, .alpha = 0, .bias = false);
    ok(took.dim == 0 && took.alpha == 0 && !took.bias, "zero is a value");
    is_str(took.mode, "mean", "an option that is left out has its default");
    call(1, .dims = tn_dims(0, 2));
    ok(took.dims.count == 2 && took.dims.dim[1] == 2 &&
           took.dim == TN_NONE_INT, "a list of dimensions");
    call(1, .dims = TN_SCALAR);
    is_int(took.dims.count, 0, "an empty list is not none");
    call(1, .dims.count = 1, .dims.dim[0] = 5);
    ok(took.dims.count == 1 && took.dims.dim[0] == 5,
       "parts of an option by designators");
    call(1, .name = NULL, .context = NULL);
    ok(!took.name && !took.context, "NULL where NULL is the default");
    call_options o = CALL_OPTIONS;
    o.dim = 0;
    is_int(call_with(3, &o), 3, "a struct that starts from the defaults");
    ok(took.dim == 0 && took.alpha == 0.5, "counts as it is");
    is_int(call_with(3, NULL), 3, "NULL for the struct: defaults");
}

#define ALPHA .alpha = 2
#define BOTH .dim = 3, .bias = false
#define wrapped(...) call(__VA_ARGS__)
#define wrapped_more(x, ...) call(x, .dim = 1, __VA_ARGS__)
#define PAIR(a, b) (a), .alpha = (b)

static int pick(int a, const char *b)
{
    return a + (int)strlen(b);
}

static void test_texts(void)
{
    call(1, ALPHA);
    ok(took.alpha == 2, "an option by a macro");
    call(1, BOTH);
    ok(took.dim == 3 && !took.bias, "two options by a macro");
    wrapped(1, .dim = 6);
    is_int(took.dim, 6, "through a macro that passes all on");
    wrapped_more(1, .alpha = 9, .name = "a, .dim = 2");
    ok(took.dim == 1 && took.alpha == 9, "through one that adds an option");
    call(PAIR(1, 8));
    ok(took.alpha == 8, "an argument and an option by one macro");
    call(1, .name = "a, .dim = 4, \"quoted\\\", .bias = 0",
         .alpha = pick(1, ", .dim = 2"));
    ok(took.dim == TN_NONE_INT && took.alpha == 11 && took.bias,
       "names in strings and in nested calls do not count");
    call(1, .alpha = (double)(int[]){1, 2}[1], .dim = ',' - ',',
         .context = &(struct { int dim, alpha; }){.dim = 3, .alpha = 4});
    ok(took.alpha == 2 && took.dim == 0, "commas in brackets and characters");
    int depth = call(
        call(1, .dim = call(2, .dim = call(3, .dim = call(4, .dim = call(
            5, .name = "five, deep", .alpha = 5), .bias = false)))),
        .alpha = 6);
    ok(depth == 1 && took.alpha == 6 && took.bias, "nested five deep");
    int64_t dim = 2;
    bool keep = true;
    call(1, .dim = keep ? dim : -1, .bias = dim == 2 && !keep);
    ok(took.dim == 2 && !took.bias, "computed values");
    call(1, . dim = 1 , .alpha=4);
    ok(took.dim == 1 && took.alpha == 4, "blanks anywhere");
    int wrong = 0;
    for (int i = 0; i < 5000; i++) {
        char text[64];
        snprintf(text, sizeof text, ".dim = %d, .alpha = 1", i);
        wrong += said(text) != 1 || took.dim != 7 || took.alpha != 3 ||
                 took.dims.count != -1;
    }
    is_int(wrong, 0, "more texts than are remembered are read right");
    char same[16] = ".dim = 1";
    said(same);
    strcpy(same, ".alpha = 2");
    said(same);
    ok(took.alpha == 3 && took.dim == TN_NONE_INT,
       "another text at the same address is another text");
}

static void test_refusals(void)
{
    refused(said("1"), "tn_test_call(x, .dim = 1)", "a number without a name");
    refused(said(".1"), "is not an option",
            "a fraction that begins with a dot");
    refused(said(".alpha = 1, 2.5"), "\"2.5\" is not an option",
            "a number behind an option");
    refused(said("2, .alpha = 1"), "\"2\" is not an option",
            "a number before an option");
    refused(said("x"), "is not an option", "a variable");
    refused(said("f(.dim = 1)"), "is not an option", "a call");
    refused(said(".dim == 1"), "is not an option", "a comparison");
    refused(said(".dim"), "is not an option", "a name without a value");
    refused(said(".beta = 0"), "no option .beta; expected .dim, .dims",
            "a name that is none, though 0");
    refused(said(".dimension = 1"), "no option .dimension",
            "a name that begins as one");
    refused(said(".size = 8"), "no option .size", "the size");
    refused(said(".dim = 1, .dim = 2"), "given twice", "an option twice");
    refused(said(".dim = 1, .dims = tn_dims(1)"), "not both",
            "a number and a list");
    refused(said(NULL), "not initialised", "a struct of zeros");
    refused(call(1, .mode = NULL), ".mode is NULL",
            "NULL for a string that has a default");
    static const int64_t many[13] = {0};
    refused(call(1, .dims = tn_dims_from_array(many, 13)), "13 elements",
            "a list too long");
    int one = 1;
    refused(call(1, .dims = one), "write .dims = tn_dims(...), or .dim",
            "a number for a list");
    refused(call(1, .dims = 0), "write .dims = tn_dims(...)", "a 0 for a list");
    refused(call(1, .dims = -7), "-7 elements",
            "a negative number for a list");
    refused(call(1, .dims = {1, {0}}), "write .dims = tn_dims(...)",
            "a number in braces");
    refused(call(1, .dims = {0, {1}}), "write .dims = tn_dims(...)",
            "numbers in braces");
    refused(call(1, .dims.dim[0] = 1), "without its count", "parts of a list");
    refused(call(1, .alpha = TN_NONE_FLOAT), ".alpha cannot be none",
            "an option that cannot be none refuses it");
    call_options o = CALL_OPTIONS;
    o.dim = 1;
    o.dims = tn_dims(1);
    refused(call_with(1, &o), "not both", "both options in a struct");
    o = (call_options)CALL_OPTIONS;
    o.size = sizeof o + 8;
    refused(call_with(1, &o), "older than the header", "a newer struct");
    o.size = 4;
    refused(call_with(1, &o), "not initialised", "a struct without a size");
}

static void test_sizes(void)
{
    /* A program compiled for an older version: its options end after alpha. */
    call_options o = CALL_OPTIONS;
    o.size = offsetof(call_options, bias);
    o.dim = 3;
    o.bias = false;
    is_int(call_with(1, &o), 1, "a shorter struct");
    ok(took.dim == 3 && took.bias,
       "a shorter struct has defaults for the missing options");
    o.given = ".bias = false";
    refused(call_with(1, &o), "lies beyond", "an option beyond the struct");
    /* A program compiled for a newer version, which sets only known options. */
    struct {
        call_options o;
        int64_t more;
    } newer = {.o = {.given = ".dim = 4", .size = sizeof newer, .dim = 4}};
    is_int(call_with(1, &newer.o), 1, "a longer struct, of known options");
    is_int(took.dim, 4, "its options have the given values");

    call_options init;
    is_int(tn_options_init("test_call", &init, sizeof init), TN_OK,
           "options by the call's name");
    ok(init.size == sizeof init && init.alpha == 0.5 &&
           !strcmp(init.given, "*"), "are its defaults");
    memset(&init, 0x55, sizeof init);
    is_int(tn_options_init("test_call", &init, offsetof(call_options, bias)),
           TN_OK, "a part of them");
    ok(init.size == offsetof(call_options, bias) && init.alpha == 0.5 &&
           ((unsigned char *)&init)[offsetof(call_options, bias)] == 0x55,
       "only that part is written");
    refused(tn_options_init("test_call", &init, sizeof init + 1), "bytes",
            "room for more than there is");
    refused(tn_options_init("test_call", &init, 8), "bytes",
            "a buffer that is too small is refused");
    refused(tn_options_init("none", &init, sizeof init), "no call \"none\"",
            "a name that is none");
    refused(tn_options_init(NULL, &init, sizeof init), "NULL", "no name");
    refused(tn_options_init("test_call", NULL, 16), "NULL", "no struct");
}

static void test_none(void)
{
    ok(tn_is_none_float(TN_NONE_FLOAT), "TN_NONE_FLOAT is none");
    ok(!tn_is_none_float(NAN) && !tn_is_none_float(-NAN) &&
           !tn_is_none_float(0), "other NaNs are values");
}

int main(void)
{
    plan_later();
    test_values();
    test_texts();
    test_refusals();
    test_sizes();
    test_none();
    return done_testing();
}
