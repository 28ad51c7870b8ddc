/* test_chat.c: compares chat templates with the results of transformers in
 * data/chat/cases.json (written by data/make_chats.py), and tests that wrong
 * templates and messages are rejected.
 *
 *     tests/lm/test_chat [FOLDER]     other cases of the same form */
#include <json/json.h>
#include <tap.h>
#include <tenon/chat.h>
#include <unistd.h>

static char scratch[] = "/tmp/tenon-chat-XXXXXX";

static char *read_whole(const char *folder, const char *name, size_t *bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t n = 0, got;
    if (!file)
        bail_out("%s cannot be read", path);
    do {
        text = realloc(text, n + 65537);
        if (!text)
            bail_out("out of memory");
        got = fread(text + n, 1, 65536, file);
        n += got;
    } while (got);
    fclose(file);
    text[n] = '\0';
    if (bytes)
        *bytes = n;
    return text;
}

static void write_text(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *file = fopen(path, "wb");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        bail_out("%s cannot be written", path);
}

static tn_tokenizer *open_tokenizer(const char *config)
{
    write_text("tokenizer.json",
               "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0},"
               "\"unk_token\":\"a\"},\"added_tokens\":["
               "{\"id\":1,\"content\":\"<s>\",\"special\":true},"
               "{\"id\":2,\"content\":\"</s>\",\"special\":true}]}");
    write_text("tokenizer_config.json", config);
    tn_tokenizer *t = tn_tokenizer_open(scratch);
    if (!t)
        bail_out("%s", tn_error());
    return t;
}

/* ---- cases --------------------------------------------------------------- */

static const char *member(const tn__json_value *v, const char *name)
{
    return tn__json_text(tn__json_get(v, name));
}

static void check_case(tn_tokenizer *t, const char *folder,
                       const tn__json_value *v, int number, int64_t now)
{
    tn_chat_message messages[16];
    int64_t count = 0, bytes = 0;
    tn_scope *scope = tn_scope_open();
    TN__JSON_EACH(m, tn__json_get(v, "messages"))
    {
        if (count == 16)
            bail_out("more than 16 messages");
        messages[count++] = (tn_chat_message){
            member(m, "role"), member(m, "content"), member(m, "more")};
    }
    const char *name = member(v, "template"), *source = member(v, "source");
    char *jinja = name ? read_whole(folder, name, NULL) : NULL;
    const tn__json_value *want = tn__json_get(v, "text");
    const char *text = tn_chat_render(
        t, messages, count, .jinja = jinja ? jinja : source,
        .tools = member(v, "tools"), .variables = member(v, "variables"),
        .add_generation_prompt = tn__json_is(
            tn__json_get(v, "add_generation_prompt"), TN__JSON_TRUE),
        .now = now, .out_bytes = &bytes);
    const char *error = tn_error() ? tn_error() : "no error";
    const bool same = want && text && (size_t)bytes == want->bytes &&
                      memcmp(text, want->text, want->bytes) == 0;
    const bool refused = !want && !text && strstr(error, "chat template");
    ok(same || refused, "case %d: %.60s%s%s", number, name ? name : source,
       refused ? ": " : "", refused ? error : "");
    if (!same && !refused) {
        note("got  %s", text ? text : error);
        note("want %s", want ? want->text : member(v, "refused"));
    }
    tn_error_clear();
    free(jinja);
    tn_scope_close(scope);
}

static void check_cases(tn_tokenizer *t, const char *folder)
{
    size_t bytes;
    char *text = read_whole(folder, "cases.json", &bytes);
    tn__json json = {.take = malloc, .give = free};
    const tn__json_value *root = tn__json_read(&json, text, bytes);
    const tn__json_value *now = tn__json_get(root, "now");
    int number = 0;
    if (!now)
        bail_out("cases.json is damaged: %s", json.error);
    TN__JSON_EACH(v, tn__json_get(root, "cases"))
    check_case(t, folder, v, number++, now->integer);
    ok(number > 0, "%d cases", number);
    tn__json_free(&json);
    free(text);
}

/* ---- calls --------------------------------------------------------------- */

static void refused(const char *text, tn_status code, const char *words,
                    const char *what)
{
    const char *error = tn_error() ? tn_error() : "no error";
    ok(!text && tn_error_code() == code && strstr(error, words) &&
           strncmp(error, "chat_render", 11) == 0,
       "%s: %s", what, error);
    tn_error_clear();
}
/* Renders the text first, because the error is only pending after that. */
#define REFUSED(call, code, words, what)                                       \
    do {                                                                       \
        const char *text_ = (call);                                            \
        refused(text_, code, words, what);                                     \
    } while (0)

static void test_calls(void)
{
    const tn_chat_message chat[] = {{"user", "Hi", NULL}};
    const tn_chat_message no_role[] = {{NULL, "Hi", NULL}};
    const tn_chat_message odd[] = {{"user", "Hi", "{\"a\": "}};
    const tn_chat_message list[] = {{"user", "Hi", "[1]"}};
    tn_tokenizer *t =
        open_tokenizer("{\"bos_token\":\"<s>\",\"chat_template\":"
                       "\"{{ bos_token }}{{ messages[0].content }}"
                       "{% if add_generation_prompt %}!{% endif %}\"}");
    is_str(tn_chat_render(t, chat, 1), "<s>Hi!", "the tokenizer's template");
    is_str(tn_chat_render(t, chat, 1, .add_generation_prompt = false), "<s>Hi",
           "without what precedes an answer");
    is_str(tn_chat_render(t, chat, 1, .jinja = ""), "", "an empty template");
    is_str(tn_chat_render(t, NULL, 0, .jinja = "{{ messages }}"), "[]",
           "no messages");
    REFUSED(tn_chat_render(NULL, chat, 1), TN_ERR_ARGUMENT, "tokenizer",
            "a tokenizer is needed");
    REFUSED(tn_chat_render(t, NULL, 1), TN_ERR_ARGUMENT, "messages is NULL",
            "messages are needed");
    REFUSED(tn_chat_render(t, chat, -1), TN_ERR_ARGUMENT, "count is -1",
            "a negative count");
    REFUSED(tn_chat_render(t, chat, INT64_MAX), TN_ERR_ARGUMENT, "count is",
            "a large count");
    REFUSED(tn_chat_render(t, no_role, 1), TN_ERR_ARGUMENT,
            "messages[0].role is NULL", "a role is needed");
    REFUSED(tn_chat_render(t, odd, 1), TN_ERR_ARGUMENT, ".more", "no JSON");
    REFUSED(tn_chat_render(t, list, 1), TN_ERR_ARGUMENT, "not a JSON object",
            "a list instead of an object");
    REFUSED(tn_chat_render(t, chat, 1, .tools = "x"), TN_ERR_ARGUMENT, ".tools",
            "tools that are no JSON");
    REFUSED(tn_chat_render(t, chat, 1, .variables = "3"), TN_ERR_ARGUMENT,
            ".variables", "variables that are no object");
    REFUSED(tn_chat_render(t, chat, 1, .jinja = "a\n {{ x.y }}"),
            TN_ERR_ARGUMENT, "line 2, column 7: x is not defined",
            "a message has line and column");
    REFUSED(tn_chat_render(t, chat, 1, .jinja = "{% include 'x' %}"),
            TN_ERR_UNSUPPORTED, "include", "a statement that is not there");
    REFUSED(tn_chat_render(t, chat, 1, .jinja = "{{ {} | xmlattr }}"),
            TN_ERR_UNSUPPORTED, "xmlattr", "a filter that is not there");
    REFUSED(tn_chat_render(t, chat, 1, .jinja = "{{ 'x'.encode() }}"),
            TN_ERR_UNSUPPORTED, "encode", "a method that is not there");
    REFUSED(tn_chat_render(t, chat, 1,
                           .jinja = "{{ 'a\\u2028b'.splitlines() }}"),
            TN_ERR_UNSUPPORTED, "line ends", "lines that end otherwise");
    is_str(tn_chat_render(t, chat, 1,
                          .jinja = "{{ 'a\\x00b\nc'.splitlines() | length }}"),
           "2", "a NUL does not end a line");
    REFUSED(tn_chat_render(t, chat, 1, .jinja = "{{ 'ä' | upper }}"),
            TN_ERR_UNSUPPORTED, "beyond ASCII", "the case of other letters");
    REFUSED(tn_chat_render(t, chat, 1, .jinja = "{{ raise_exception('no') }}"),
            TN_ERR_ARGUMENT, "rejects this chat: no", "the template refuses");
    t = open_tokenizer("{}");
    REFUSED(tn_chat_render(t, chat, 1), TN_ERR_STATE, "no chat template",
            "a tokenizer without a template");
}

/* Templates that exceed the limits of time and memory are rejected. */
static void test_limits(void)
{
    tn_tokenizer *t = open_tokenizer("{}");
    enum { MANY = 100000 };
    char *deep = malloc(3 * MANY + 10);
    REFUSED(tn_chat_render(t, NULL, 0,
                           .jinja = "{% for i in range(10 ** 12) %}{% endfor %}"),
            TN_ERR_MEMORY, "more than 128 MiB", "a long range");
    REFUSED(tn_chat_render(
                t, NULL, 0,
                .jinja = "{% for i in range(3000) %}{% for j in range(3000) %}"
                         "{% endfor %}{% endfor %}"),
            TN_ERR_MEMORY, "more than 128 MiB", "nested loops");
    REFUSED(tn_chat_render(t, NULL, 0,
                           .jinja = "{{ range(9000) | unique | list }}"),
            TN_ERR_UNSUPPORTED, "steps", "each of many items with each other");
    REFUSED(tn_chat_render(t, NULL, 0,
                           .jinja = "{% for i in [1] recursive %}"
                                    "{{ loop([1]) }}{% endfor %}"),
            TN_ERR_UNSUPPORTED, "nested", "a loop within itself without end");
    REFUSED(tn_chat_render(t, NULL, 0, .jinja = "{{ '%9999d' % 1 }}"),
            TN_ERR_UNSUPPORTED, "width", "a format with a large width");
    REFUSED(tn_chat_render(t, NULL, 0, .jinja = "{{ 'a'.ljust(10 ** 15) }}"),
            TN_ERR_UNSUPPORTED, "", "a fill without end");
    REFUSED(tn_chat_render(t, NULL, 0, .jinja = "{{ 'x' * 10 ** 8 }}"),
            TN_ERR_UNSUPPORTED, "", "a long text");
    REFUSED(tn_chat_render(t, NULL, 0,
                           .jinja = "{% set ns = namespace(x='x') %}{% for i in "
                                    "range(99) %}{% set ns.x = ns.x * 2 %}"
                                    "{% endfor %}"),
            TN_ERR_UNSUPPORTED, "", "a text that doubles");
    REFUSED(tn_chat_render(t, NULL, 0,
                           .jinja = "{% macro m() %}{{ m() }}{% endmacro %}"
                                    "{{ m() }}"),
            TN_ERR_UNSUPPORTED, "nested", "a macro that calls itself");
    REFUSED(tn_chat_render(t, NULL, 0,
                           .jinja = "{% set ns = namespace() %}{% set ns.a = ns "
                                    "%}{{ ns == ns.a }}{{ ns | tojson }}"),
            TN_ERR_ARGUMENT, "", "a namespace that contains itself");
    static const char *const parts[] = {"(", "[", "not ", "-", "{% if 1 %}"};
    for (int i = 0; i < 5; i++) {
        char *at = deep + sprintf(deep, "%s", i < 4 ? "{{ " : "");
        for (int k = 0; k < MANY / 4; k++)
            at += sprintf(at, "%s", parts[i]);
        for (int k = 0; k < MANY / 4 && i < 2; k++)
            at += sprintf(at, "%c", i ? ']' : ')');
        strcpy(at, i < 4 ? " }}" : "");
        REFUSED(tn_chat_render(t, NULL, 0, .jinja = deep), TN_ERR_UNSUPPORTED,
                "nested", "a deep template");
    }
    char *at = deep + sprintf(deep, "{{ 1");
    for (int k = 0; k < MANY; k++)
        at += sprintf(at, "+1");
    sprintf(at, " }}");
    REFUSED(tn_chat_render(t, NULL, 0, .jinja = deep), TN_ERR_UNSUPPORTED,
            "nested", "a long sum");
    free(deep);
    is_str(tn_chat_render(t, NULL, 0, .jinja = "{{ 1 }}"), "1",
           "the next call works");
}

int main(int argc, char **argv)
{
    char folder[4096];
    const char *top = getenv("top_srcdir");
    setenv("TZ", "UTC", 1);
    plan_later();
    if (!mkdtemp(scratch))
        bail_out("no scratch folder");
    tn_scope *scope = tn_scope_open();
    snprintf(folder, sizeof folder, "%s/tests/lm/data/chat", top ? top : ".");
    check_cases(
        open_tokenizer("{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}"),
        argc > 1 ? argv[1] : folder);
    test_calls();
    test_limits();
    ok(!tn_error(), "no error is pending");
    tn_scope_close(scope);
    for (int i = 0; i < 2; i++) {
        snprintf(folder, sizeof folder, "%s/%s", scratch,
                 i ? "tokenizer.json" : "tokenizer_config.json");
        unlink(folder);
    }
    rmdir(scratch);
    return done_testing();
}
