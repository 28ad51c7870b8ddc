/* Tests the parser's error messages, and that no source makes it crash. */
#include <tenon/base.h>

#include "../tap.h"
#include "kernel/def.h"
#include "kernel/kernel.h"
#include "kernel/math/functions.h"

static const struct {
    const char *text, *message;
} bad[] = {
    {"", "t:1:1: expected the definition's name, found the end"},
    {"f", "t:1:2: expected '(', found the end"},
    {"f(", "t:1:3: expected the name of an input, found the end"},
    {"f()", "t:1:4: expected '=', found the end"},
    {"f(x", "t:1:4: expected ',', ';' or ')', found the end"},
    {"f(x) x", "t:1:6: expected '=', found 'x'"},
    {"f(x) =", "t:1:7: expected a value, found the end"},
    {"f(x) = x +", "t:1:11: expected a value, found the end"},
    {"f(x) = (x", "t:1:10: expected ')', found the end"},
    {"f(x) = x)", "t:1:9: expected an operator or the end, found ')'"},
    {"f(x) = y", "t:1:8: there is no 'y', only x"},
    {"f(x) = x y", "t:1:10: expected an operator or the end, found 'y'"},
    {"f(x) = foo(x)", "t:1:8: there is no function 'foo'"},
    {"f(x) = x(1)", "t:1:8: 'x' is a value, not a function"},
    {"f(x) = exp(x, x)", "t:1:8: exp takes 1 argument, not 2"},
    {"f(x) = where(x, 1)", "t:1:8: where takes 3 arguments, not 2"},
    {"f(x) = 12abc", "t:1:8: '12a' is not a number"},
    {"f(x) = 99999999999999999999",
     "t:1:8: 99999999999999999999 does not fit in 64 bits"},
    {"f(x) = x $ 1", "t:1:10: '$' has no meaning here"},
    {"f(x) = x @ 1", "t:1:10: '@' has no meaning here"},
    {"f(x) = x \303\251 1", "t:1:10: byte 0xc3 has no meaning here"},
    {"f(x, x) = x", "t:1:6: 'x' is already named at 1:3"},
    {"f(x; x) = x", "t:1:6: 'x' is already named at 1:3"},
    {"f(x: col) = x", "t:1:6: expected a mark, row or offset, found 'col'"},
    {"f(x; p: f16) = x", "t:1:9: expected a type: f32, f64, i32, i64, bool, "
                         "float, int or type, found 'f16'"},
    {"f(x; t: type) = x + t", "t:1:21: 't' is a type: write t(x)"},
    {"f(x; t: type) = t(x, x)", "t:1:20: expected ')', found ','"},
    {"f(x; t: type) = let t = x; t",
     "t:1:21: 't' is already named at 1:6"},
    {"f(a,b,c,d,e,g,h,i,j,k,l,m,n,o,p,q; t: type) = t(a)",
     "t:1:39: expected at most 16 inputs and type parameters"},
    {"f(let) = 1", "t:1:3: 'let' is a reserved name"},
    {"f(x) = let y = x y",
     "t:1:18: expected ';' after what let names, found 'y'"},
    {"f(x) = let y = y; y", "t:1:16: there is no 'y', only x"},
    {"f(x) = let x = 1; x", "t:1:12: 'x' is already named at 1:3"},
    {"f(x) = let (a, b) = x; a", "t:1:8: 2 names for 1 value"},
    {"f(x) = let (a) = loop(i < 3; c = 1, d = 2) (c, d); a",
     "t:1:8: 1 name for 2 values"},
    {"f(x) = 1 + loop(i < 3; c = 1, d = 2) (c, d)",
     "t:1:12: a loop of 2 values needs names: let (a, b) = loop(...)"},
    {"f(x) = loop(i < 3; c = 1, d = 2) (c)",
     "t:1:34: the loop carries 2 values, not 1"},
    {"f(x) = loop(i < 3; c) (c)",
     "t:1:21: expected '=' and a first value, found ')'"},
    {"f(x) = loop(i; c = 1) (c)",
     "t:1:14: expected '<' and the loop's bound, found ';'"},
    {"f(x) = loop(i < 3; c = i) (c)", "t:1:24: there is no 'i', only x"},
    {"f(x) = loop(i < 3; c = 1) while c (c)",
     "t:1:33: 'c' is a value, not a function"},
    {"f(x) = loop(i < 3; c = 1) c",
     "t:1:27: expected '(' before the new values of a loop, found 'c'"},
    {"f(x) = x[", "t:1:10: expected a value, found the end"},
    {"f(x) = x[1; 2]",
     "t:1:13: expected 0, the value of elements outside, found '2'"},
    {"f(x) = x[1, 2, 3, 4]", "t:1:19: expected at most 3 indices"},
    {"f(x; p) = p[1]",
     "t:1:11: only inputs can be indexed, and 'p' is not one"},
    {"f(i: offset) = i[1]",
     "t:1:16: only inputs can be indexed, and 'i' is not one"},
    {"f(x) = (x, x, x, x, x, x, x, x, x)", "t:1:8: expected at most 8 outputs"},
    {"f(x) = x \n  + \n   zz", "t:3:4: there is no 'zz', only x"},
    {"f(x) = # nothing", "t:1:17: expected a value, found the end"},
    {"f(x) = while", "t:1:8: expected a value, found 'while'"},
    {"f(x) = loop(i < 2; a = 1) (loop(j < 2; b = a) (loop(k < 2; c = b) "
     "(loop(l < 2; e = c) (e))))",
     "t:1:68: loops nest at most 3 deep"},
    {"f(x) = erfi(x)", "t:1:8: there is no function 'erfi'"},
    {"f(x) = 1.5.2", "t:1:11: expected an operator or the end, found '.'"},
    {"f(a,b,c,d,e,g,h,i,j,k,l,m,n,o,p,q,r) = a",
     "t:1:35: expected at most 16 inputs"},
    {"f(x) = 0x", "t:1:8: '0x' is not a number"},
    {"f(x) = .5", "t:1:8: expected a value, found '.'"},
};

static void test_messages(void)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tn__def *def = tn__def_parse(bad[i].text, "t");
        is_str(def ? "accepted" : tn_error(), bad[i].message, "'%s'",
               bad[i].text);
        is_int(tn_error_code(), def ? TN_OK : TN_ERR_FORMAT,
               "its code is TN_ERR_FORMAT");
        tn_error_clear();
    }
}

static void test_head(void)
{
    tn__def *def =
        tn__def_parse("layer_norm(x, w: row, b; eps, n: i64) # as torch\n"
                      " = let m = rmean(x);\n(x - m) * w + b + eps",
                      "table/norm");
    if (!ok(def != NULL, "a definition over three lines is read"))
        return;
    is_str(tn__def_name(def), "layer_norm", "its name");
    is_int(tn__def_input_count(def), 3, "its inputs");
    is_int(tn__def_param_count(def), 2, "its parameters");
    is_int(tn__def_output_count(def), 1, "its outputs");
    is_str(tn__def_input_name(def, 1), "w", "the second input's name");
    is_str(tn__def_param_name(def, 1), "n", "the second parameter's name");

    static const struct {
        const char *text;
        int outputs;
    } several[] = {{"f(x) = (x, x * 2)", 2},
                   {"f(x) = ((x) + 1) * 2", 1},
                   {"f(x) = let m = rmean(x); (x - m, m)", 2},
                   {"f(x) = loop(i < 3; a = x, b = 1) (b, a)", 2},
                   {"f(x) = (let y = x; y, x, 1)", 3},
                   {"f(x, i) = let v = x[i]; (v, rmax(v))", 2},
                   {"f(x, i) = let y = x[i]; let z = x[i; 0]; (y, z)", 2},
                   {"f(; p) = p", 1}};
    for (size_t i = 0; i < sizeof several / sizeof *several; i++) {
        def = tn__def_parse(several[i].text, "t");
        is_int(def ? tn__def_output_count(def) : -1, several[i].outputs,
               "'%s' has %d outputs", several[i].text, several[i].outputs);
    }
}

/* Parses "f(x) = " followed by `count` copies of `before`, then `middle`, then
 * `count` copies of `after`. */
static void deep(const char *before, const char *middle, const char *after,
                 int count)
{
    size_t room = 32 + (strlen(before) + strlen(after)) * (size_t)count;
    char *text = malloc(room);
    if (!text)
        bail_out("no memory");
    strcpy(text, "f(x) = ");
    char *end = text + strlen(text);
    for (int i = 0; i < count; i++, end += strlen(before))
        strcpy(end, before);
    strcpy(end, middle);
    end += strlen(middle);
    for (int i = 0; i < count; i++, end += strlen(after))
        strcpy(end, after);
    bool refused = !tn__def_parse(text, "t");
    ok(refused && tn_error_code() == TN_ERR_FORMAT,
       "%d times '%s' is refused: %s", count, *before ? before : after,
       tn_error() ? tn_error() : "it is not");
    tn_error_clear();
    free(text);
}

/* Returns whether a definition with this many nested parentheses is
 * accepted. */
static bool brackets(int count)
{
    char text[8 + 2 * 1000 + 2] = "f(x) = ";
    memset(text + 7, '(', (size_t)count);
    text[7 + count] = 'x';
    memset(text + 8 + count, ')', (size_t)count);
    text[8 + 2 * count] = 0;
    tn__def *def = tn__def_parse(text, "t");
    tn_error_clear();
    if (def)
        tn__def_drop(def);
    return def;
}

static void test_depth(void)
{
    /* One less than TN__MAX_DEPTH, because the body itself is a level. */
    enum { DEEPEST = TN__MAX_DEPTH - 1 };
    ok(brackets(DEEPEST) && !brackets(DEEPEST + 1),
       "%d brackets within each other are read, one more is not", DEEPEST);
    deep("(", "x", ")", 100000);
    deep("-", "x", "", 100000);
    deep("abs(", "x", ")", 100000);
    deep("", "x", "+x", 100000);
    deep("x*(", "x", ")", 100000);
    deep("let a = ", "x", "; a", 100000);
    deep("x[", "x", "]", 100000);
    deep("loop(i < 2; a = ", "x", ") (a)", 100000);
}

/* Parses tokens of the language in random order, and random bytes. Each is
 * accepted or rejected with a message; sanitizers find anything worse. */
static void test_noise(void)
{
    static const char *const pieces[] = {
        "f(x) = ", "x",      "(",
        ")",       "[",      "]",
        ",",       ";",      "let ",
        "loop(",   "i",      " < ",
        "=",       "while ", ":",
        "1",       "0.5",    "0x1p",
        "+",       "-",      "*",
        "/",       "rsum(",  "where(",
        "<<",      "&&",     "~",
        "!",       "inf",    "row",
        "offset",  "\n",     "#",
        "\xff",    "\x01",   "\t",
        "a",       "1e",     "9999999999999999999"};
    uint64_t state = 20261121;
    int read = 0, refused = 0;
    note("seed %llu", (unsigned long long)state);
    for (int round = 0; round < 3000; round++) {
        char text[512] = "f(x) = ";
        size_t length = round % 2 ? strlen(text) : 0;
        for (int i = 0; i < 40; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            size_t pick = (size_t)(state >> 33);
            const char *piece = pieces[pick % (sizeof pieces / sizeof *pieces)];
            if (pick / 64 % 12 == 0)
                break;
            strcpy(text + length, piece);
            length += strlen(piece);
        }
        text[length] = '\0';
        tn__def *def = tn__def_parse(text, "noise");
        if (def) {
            read++;
        } else if (tn_error_code() == TN_ERR_FORMAT) {
            refused++;
        } else {
            ok(false, "'%s' is refused without a reason", text);
        }
        tn_error_clear();
    }
    ok(read > 0 && refused > 0 && read + refused == 3000,
       "of 3000 random texts %d are read, %d refused", read, refused);
}

/* Functions of a file record their line, which messages contain. */
static void test_places(void)
{
    tn__arena arena = {0};
    tn__math_item *first = NULL, **end = &first;
    ok(tn__math_parse("def a(x) = x\n\n  def b(x) = x\n", "a file", &arena,
                      &end) && first && first->next,
       "two functions are read");
    is_str(first->next->where, "a file", "the second knows its file,");
    is_int(first->next->line, 3, "its line,");
    is_int(first->next->column, 7, "and its column");
    tn__arena_release(&arena);
}

int main(void)
{
    plan_later();
    test_places();
    test_messages();
    test_head();
    test_depth();
    test_noise();
    return done_testing();
}
