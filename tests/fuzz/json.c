/* json.c: fuzzes the JSON parser. A value that is parsed, written and parsed
 * again must be the same. */
#include <json/json.h>

#include "fuzz.h"

const char fuzz_target[] = "json";

static void write_value(tn__json_writer *to, const tn__json_value *value)
{
    static const char *const word[] = {"null", "false", "true"};
    bool first = true;
    switch (value->kind) {
    case TN__JSON_INTEGER:
        tn__json_add_integer(to, value->integer);
        return;
    case TN__JSON_REAL:
        tn__json_add_real(to, value->real);
        return;
    case TN__JSON_TEXT:
        fuzz_check(!value->text[value->bytes], "a text ends with a zero");
        tn__json_add_text(to, value->text);
        return;
    case TN__JSON_LIST:
    case TN__JSON_OBJECT:
        tn__json_add(to, value->kind == TN__JSON_LIST ? "[" : "{");
        TN__JSON_EACH(v, value)
        {
            tn__json_add(to, first ? "" : ",");
            first = false;
            if (value->kind == TN__JSON_OBJECT) {
                tn__json_add_text(to, v->key);
                tn__json_add(to, ":");
            }
            write_value(to, v);
        }
        tn__json_add(to, value->kind == TN__JSON_LIST ? "]" : "}");
        return;
    default:
        tn__json_add(to, word[value->kind]);
    }
}

/* Compares values; of strings only the part before a zero byte, since only that
 * is written. */
static bool is_same(const tn__json_value *a, const tn__json_value *b)
{
    if (a->kind != b->kind || !a->key != !b->key ||
        (a->key && strcmp(a->key, b->key)))
        return false;
    switch (a->kind) {
    case TN__JSON_INTEGER:
        return a->integer == b->integer;
    case TN__JSON_REAL:
        return a->real == b->real;
    case TN__JSON_TEXT:
        return !strcmp(a->text, b->text);
    case TN__JSON_LIST:
    case TN__JSON_OBJECT:
        if (a->count != b->count)
            return false;
        b = b->first;
        TN__JSON_EACH(v, a)
        {
            if (!b || !is_same(v, b))
                return false;
            b = b->next;
        }
        return !b;
    default:
        return true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn__json json = {.take = malloc, .give = free}, second = json;
    char *text = fuzz_text(data, size);
    const tn__json_value *root = tn__json_read(&json, text, size);
    if (!root) {
        fuzz_check_line(json.error);
        fuzz_check(json.line >= 1 && json.column >= 1, "and a place");
    } else {
        tn__json_writer to = {.grow = realloc};
        write_value(&to, root);
        fuzz_check(!to.failed && to.text, "what is read can be written");
        const tn__json_value *again =
            tn__json_read(&second, to.text, to.count);
        fuzz_check(again && is_same(root, again), "and read again");
        tn__json_free(&second);
        free(to.text);
    }
    tn__json_free(&json);
    free(text);
    return 0;
}
