/* test_json.c: tests the JSON parser and writer: valid texts of RFC 8259,
 * invalid texts, and values that are written and read back. */
#include <json/json.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../tap.h"

static tn__json json;
static char *text;

static const tn__json_value *read_bytes(const char *from, size_t bytes)
{
    tn__json_free(&json);
    free(text);
    text = malloc(bytes + 1);
    memcpy(text, from, bytes);
    json.take = malloc;
    json.give = free;
    return tn__json_read(&json, text, bytes);
}

static const tn__json_value *read_text(const char *from)
{
    return read_bytes(from, strlen(from));
}

/* ---- values -------------------------------------------------------------- */

static void test_values(void)
{
    const tn__json_value *root = read_text(
        " {\"a\" : [1, -2.5, true, false, null, \"x\\u00e9\\n\"], \"b\":{},"
        "\"c\":[],\"\":9223372036854775807, \"d\":-9223372036854775808}\r\n");
    ok(root && root->kind == TN__JSON_OBJECT && root->count == 5, "an object");
    const tn__json_value *a = tn__json_get(root, "a");
    ok(tn__json_is(a, TN__JSON_LIST) && a->count == 6, "a list");
    is_int(tn__json_at(a, 0)->integer, 1, "an integer");
    double real = 0;
    ok(tn__json_real(tn__json_at(a, 1), &real) && real == -2.5, "a real");
    ok(tn__json_is(tn__json_at(a, 2), TN__JSON_TRUE) &&
           tn__json_is(tn__json_at(a, 3), TN__JSON_FALSE) &&
           tn__json_is(tn__json_at(a, 4), TN__JSON_NULL),
       "words");
    is_str(tn__json_text(tn__json_at(a, 5)), "x\xc3\xa9\n", "a text");
    ok(!tn__json_at(a, 6) && !tn__json_get(root, "e") &&
           !tn__json_at(root, 0) && !tn__json_get(a, "a") &&
           !tn__json_get(NULL, "a") && !tn__json_text(a) &&
           !tn__json_text(NULL) && !tn__json_real(a, &real),
       "a missing member is NULL");
    ok(tn__json_is(tn__json_get(root, "b"), TN__JSON_OBJECT) &&
           !tn__json_first(tn__json_get(root, "b")) &&
           !tn__json_first(tn__json_get(root, "c")),
       "empty ones");
    ok(tn__json_get(root, "")->integer == INT64_MAX &&
           tn__json_get(root, "d")->integer == INT64_MIN,
       "the ends of 64 bits");

    root = read_text("9223372036854775808");
    ok(tn__json_is(root, TN__JSON_REAL) && root->real == 9223372036854775808.0,
       "an integer beyond 64 bits is a real");
    root = read_text("[1e2,-0.0,1E-400,0,-0,2.2250738585072014e-308]");
    ok(tn__json_at(root, 0)->real == 100 && signbit(tn__json_at(root, 1)->real) &&
           tn__json_at(root, 2)->real == 0 &&
           tn__json_at(root, 3)->kind == TN__JSON_INTEGER &&
           tn__json_at(root, 4)->kind == TN__JSON_INTEGER &&
           tn__json_at(root, 5)->real == DBL_MIN,
       "reals are rounded to the nearest");
    is_str(tn__json_text(read_text("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u20AC\\ud83d"
                                   "\\uDE00 \xf0\x9f\x98\x80\"")),
           "\"\\/\b\f\n\r\t\xe2\x82\xac\xf0\x9f\x98\x80 \xf0\x9f\x98\x80",
           "every escape");
    root = read_text("\"a\\u0000b\"");
    ok(root && root->bytes == 3 && !tn__json_text(root),
       "a text's length includes a zero in it");
    root = read_text("{\"a\\u0000b\":1,\"a\":2}");
    ok(root && tn__json_get(root, "a")->integer == 2,
       "a zero in a name, too");
    is_int(read_bytes("7", 1)->integer, 7, "a number at the text's end");
}

static void test_many(void)
{
    enum { MANY = 5000 };
    tn__json_writer w = {.grow = realloc};
    for (int i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        tn__json_add(&w, i ? "," : "{");
        tn__json_add_text(&w, name);
        tn__json_add(&w, ":");
        tn__json_add_integer(&w, i);
    }
    tn__json_add(&w, "}");
    const tn__json_value *root = read_text(w.text);
    int64_t sum = 0;
    TN__JSON_EACH(member, root)
        sum += member->integer;
    is_int(sum, (int64_t)MANY * (MANY - 1) / 2, "5,000 members");
    is_int(tn__json_get(root, "n4711")->integer, 4711, "each by its name");
    w.text[w.count - 1] = ',';
    tn__json_add(&w, "\"n17\":0}");
    ok(!read_text(w.text), "one more is refused where it has a name of them");
    is_str(json.error,
           "the object that ends here has the name \"n17\" twice", "by name");
    free(w.text);
}

/* ---- invalid texts ------------------------------------------------------- */

static void test_refused(void)
{
    static const struct {
        const char *text;
        int line, column;
        const char *error;
    } bad[] = {
        {"", 1, 1, "expected a value, found the end"},
        {"  \n ", 2, 2, "expected a value, found the end"},
        {"[1,\n 2,]", 2, 4, "expected a value"},
        {"[1 2]", 1, 4, "expected \",\" or \"]\""},
        {"[1", 1, 3, "the list does not end"},
        {"[1,", 1, 4, "expected a value, found the end"},
        {"{\"a\":1", 1, 7, "the object does not end"},
        {"{\"a\" 1}", 1, 6, "expected \":\""},
        {"{\"a\":1 \"b\":2}", 1, 8, "expected \",\" or \"}\""},
        {"{a:1}", 1, 2, "expected a name in quotes"},
        {"{\"a\":1,}", 1, 8, "expected a name in quotes"},
        {"{\"a\":1,\"b\":2,\"a\":3}", 1, 19,
         "the object that ends here has the name \"a\" twice"},
        {"[1]x", 1, 4, "unexpected characters after the value"},
        {"nul", 1, 1, "expected a value"},
        {"tru", 1, 1, "expected a value"},
        {"NaN", 1, 1, "expected a value"},
        {"+1", 1, 1, "expected a value"},
        {"-", 1, 1, "invalid number"},
        {"1.", 1, 1, "invalid number"},
        {".5", 1, 1, "expected a value"},
        {"1e", 1, 1, "invalid number"},
        {"01", 1, 2, "unexpected characters after the value"},
        {"0x10", 1, 2, "unexpected characters after the value"},
        {"1e999", 1, 1, "number out of the range of a double"},
        {"'a'", 1, 1, "expected a value"},
        {"\"a", 1, 1, "unterminated string"},
        {"\"a\\", 1, 3, "unterminated string"},
        {"\"\\x\"", 1, 2, "invalid escape"},
        {"\"\\u12g4\"", 1, 2, "\\u needs four hexadecimal digits"},
        {"\"\\u12", 1, 2, "\\u needs four hexadecimal digits"},
        {"\"\\ud83d\"", 1, 2, "unpaired surrogate in \\u"},
        {"\"\\ude00\"", 1, 2, "unpaired surrogate in \\u"},
        {"\"\\ud83d\\u0041\"", 1, 2, "unpaired surrogate in \\u"},
        {"\"a\tb\"", 1, 3,
         "control character in a string: write it as \\u00.."},
        {"\"\xff\"", 1, 2, "bytes that are not UTF-8"},
        {"\"\xc0\x80\"", 1, 2, "bytes that are not UTF-8"},
        {"\xef\xbb\xbf{}", 1, 1, "expected a value"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const tn__json_value *root = read_text(bad[i].text);
        ok(!root && strcmp(json.error, bad[i].error) == 0 &&
               json.line == (size_t)bad[i].line &&
               json.column == (size_t)bad[i].column,
           "refused: %s (%zu:%zu %s)", bad[i].text, json.line, json.column,
           json.error);
    }
    ok(!read_bytes("[1,\0]", 5) && json.column == 4, "refused: a zero byte");
}

static void test_depth(void)
{
    char deep[2 * TN__JSON_MOST_DEPTH + 3];
    for (int extra = 0; extra < 2; extra++) {
        const size_t depth = TN__JSON_MOST_DEPTH + (size_t)extra;
        memset(deep, '[', depth);
        memset(deep + depth, ']', depth);
        const tn__json_value *root = read_bytes(deep, 2 * depth);
        if (extra)
            is_str(root ? "" : json.error,
                   "lists and objects nested deeper than 512",
                   "513 lists in each other are refused");
        else
            ok(root, "512 lists in each other are read");
    }
}

/* ---- failing allocations ------------------------------------------------- */

static int64_t left;

static void *take_some(size_t bytes)
{
    return left-- > 0 ? malloc(bytes) : NULL;
}

static void *grow_some(void *old, size_t bytes)
{
    return left-- > 0 ? realloc(old, bytes) : NULL;
}

static void test_memory(void)
{
    char from[8192] = "{\"a0\":0";
    for (int i = 1; i < 600; i++)
        snprintf(from + strlen(from), 16, ",\"a%d\":0", i);
    strcat(from, "}");
    char again[sizeof from];
    int refused = 0;
    const tn__json_value *root = NULL;
    for (int n = 0; !root && n < 100; n++) {
        memcpy(again, from, sizeof from);
        left = n;
        tn__json some = {.take = take_some, .give = free};
        root = tn__json_read(&some, again, strlen(from));
        refused += !root && !*some.error;
        ok(root || !*some.error, "%d allocations: %s", n, some.error);
        tn__json_free(&some);
    }
    /* 601 values are in blocks of 256 and 512; the third allocation is the
     * table of names */
    ok(root && refused == 3, "each failed allocation is reported as one");

    tn__json_writer w = {.grow = grow_some};
    left = 2;
    for (int i = 0; i < 1000; i++)
        tn__json_add_text(&w, "some text");
    ok(w.failed && w.text, "a writer, too");
    free(w.text);
}

/* ---- writing ------------------------------------------------------------- */

static void test_number(void)
{
    char *end;
    ok(tn__json_parse_real("1.5e2x", &end) == 150 && *end == 'x',
       "a number is read as far as it goes");
    ok(tn__json_parse_real("x", &end) == 0 && *end == 'x', "none is none");
}

static void test_written(void)
{
    static const double value[] = {0,       -0.0,    1,       0.1,     1e300,
                                   DBL_MAX, DBL_MIN, 5e-324,  M_PI,    -1e-7,
                                   1e16,    1e17,    123456789012345678.0};
    tn__json_writer w = {.grow = realloc};
    tn__json_add(&w, "[");
    for (size_t i = 0; i < sizeof value / sizeof *value; i++) {
        tn__json_add(&w, i ? "," : "");
        tn__json_add_real(&w, value[i]);
    }
    tn__json_add(&w, ",");
    tn__json_add_text(&w, "q\" b\\ n\n \x01 \x7f \xc3\xa9 end");
    tn__json_add(&w, "]");
    const tn__json_value *v = tn__json_first(read_text(w.text));
    for (size_t i = 0; i < sizeof value / sizeof *value; i++, v = v->next)
        ok(v->kind == TN__JSON_REAL &&
               memcmp(&v->real, &value[i], sizeof(double)) == 0,
           "%.17g comes back", value[i]);
    is_str(tn__json_text(v), "q\" b\\ n\n \x01 \x7f \xc3\xa9 end",
           "a text comes back");
    free(w.text);
}

int main(void)
{
    plan_later();
    test_values();
    test_many();
    test_refused();
    test_number();
    test_depth();
    test_memory();
    test_written();
    tn__json_free(&json);
    free(text);
    return done_testing();
}
