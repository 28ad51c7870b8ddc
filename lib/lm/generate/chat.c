/* chat.c: converts the messages of a chat to text with the tokenizer's
 * template: see include/tenon/chat.h. */
#include <lm/template/template.h>

#include <stdlib.h>
#include <string.h>
#include <tenon/chat.h>
#include <tenon/ops.h>
#include <time.h>

typedef tn__jinja_value value;

static const char call[] = "chat_render";

static const tn_object_class text_class = {.size = sizeof text_class,
                                           .name = "rendered text",
                                           .bytes = sizeof(tn_object)};

static const value *text_of(tn__jinja *j, const char *text)
{
    return tn__jinja_text_of(j, text, strlen(text));
}

/* Adds the members of a JSON object. */
static void add_members(tn__jinja *j, value *to, const char *json,
                        const char *what)
{
    const value *more = tn__jinja_from_json(j, json, what);
    if (more->kind != TN__JINJA_DICT)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s is not a JSON object", what);
    for (size_t i = 0; i < more->count; i++)
        tn__jinja_set(j, to, more->key[i], more->item[i]);
}

static const value *messages_of(tn__jinja *j, const tn_chat_message *messages,
                                int64_t count)
{
    value *list = tn__jinja_list(j);
    for (int64_t i = 0; i < count; i++) {
        value *m = tn__jinja_dict(j);
        if (!messages[i].role)
            tn__jinja_fail(j, TN_ERR_ARGUMENT, "messages[%lld].role is NULL",
                           (long long)i);
        tn__jinja_set_name(j, m, "role", text_of(j, messages[i].role));
        if (messages[i].content)
            tn__jinja_set_name(j, m, "content",
                               text_of(j, messages[i].content));
        if (messages[i].more)
            add_members(j, m, messages[i].more, ".more of a message");
        tn__jinja_append(j, list, m);
    }
    return list;
}

static const value *variables_of(tn__jinja *j, const tn_tokenizer *tokenizer,
                                 const tn_chat_message *messages, int64_t count,
                                 const tn_chat_render_options *o)
{
    static const char *const roles[] = {"bos", "eos", "pad", "unk",
                                        "sep", "cls", "mask"};
    value *v = tn__jinja_dict(j);
    for (int i = 0; i < 7; i++) {
        const int64_t id = tn_tokenizer_special_id(tokenizer, roles[i]);
        const char *token = tn_tokenizer_token(tokenizer, id, NULL);
        char name[16];
        if (!token)
            continue;
        tn_format(name, sizeof name, "%s_token", roles[i]);
        tn__jinja_set_name(j, v, name, text_of(j, token));
    }
    tn__jinja_set_name(j, v, "messages", messages_of(j, messages, count));
    tn__jinja_set_name(j, v, "tools",
                       o->tools ? tn__jinja_from_json(j, o->tools, ".tools")
                                : &tn__jinja_none);
    tn__jinja_set_name(j, v, "documents", &tn__jinja_none);
    tn__jinja_set_name(j, v, "add_generation_prompt",
                       tn__jinja_bool(o->add_generation_prompt));
    if (o->variables)
        add_members(j, v, o->variables, ".variables");
    return v;
}

/* Stores the template without carriage returns, and without a newline at its
 * end. */
static void set_source(tn__jinja *j, const char *jinja)
{
    const size_t bytes = strlen(jinja);
    if (bytes > TN__JINJA_MOST_SOURCE)
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED, "it is longer than %d bytes",
                       TN__JINJA_MOST_SOURCE);
    char *copy = tn__jinja_allocate(j, bytes + 1, 1);
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (jinja[i] == '\r' && jinja[i + 1] == '\n')
            continue;
        copy[n++] = jinja[i] == '\r' ? '\n' : jinja[i];
    }
    if (n && copy[n - 1] == '\n')
        n--;
    copy[n] = '\0';
    j->source = copy;
    j->source_bytes = n;
}

static const value *render(tn__jinja *j, const tn_tokenizer *tokenizer,
                           const tn_chat_message *messages, int64_t count,
                           const char *jinja, const tn_chat_render_options *o)
{
    if (setjmp(j->failed))
        return NULL;
    const value *variables = variables_of(j, tokenizer, messages, count, o);
    set_source(j, jinja);
    const tn__jinja_node *body = tn__jinja_parse(j);
    return tn__jinja_run(j, body, variables);
}

/* Sets the error. If the template has not been read yet, an argument was
 * wrong. */
static void complain(const tn__jinja *j)
{
    size_t line = 1, column = 1;
    if (!j->source) {
        tn_error_set(j->code, "%s: %s", call, j->message);
        return;
    }
    for (size_t i = 0; i < j->at && i < j->source_bytes; i++) {
        column = j->source[i] == '\n' ? 1 : column + 1;
        line += j->source[i] == '\n';
    }
    tn_error_set(j->code, "%s: the chat template, line %zu, column %zu: %s",
                 call, line, column, j->message);
}

static const char *keep_text(const value *v, int64_t *out_bytes)
{
    tn_object *object = tn_object_new(&text_class, v->bytes + 1);
    if (!object)
        return NULL;
    if (out_bytes)
        *out_bytes = (int64_t)v->bytes;
    return memcpy((char *)(object + 1), v->text, v->bytes + 1);
}

TN_OPTIONS_TYPE(tn_chat_render, "chat_render", "tokenizer, messages, count",
                TN_CHAT_RENDER_OPTIONS_LIST)

const char *tn_chat_render_with(tn_tokenizer *tokenizer,
                                const tn_chat_message *messages, int64_t count,
                                const tn_chat_render_options *options)
{
    tn_chat_render_options o;
    if (tn_options_take(tn_chat_render_type(), &o, options) < 0)
        return NULL;
    if (!tn_tokenizer_vocab_size(tokenizer)) {
        tn_error_set(TN_ERR_ARGUMENT, "%s: tokenizer is NULL or not a "
                     "tokenizer",
                     call);
        return NULL;
    }
    if (count < 0 || count > 1000000 || (count && !messages)) {
        tn_error_set(TN_ERR_ARGUMENT,
                     messages ? "%s: count is %lld: it must be from 0 to "
                                "1000000"
                              : "%s: messages is NULL (count %lld)",
                     call, (long long)count);
        return NULL;
    }
    const char *jinja =
        o.jinja ? o.jinja : tn_tokenizer_chat_template(tokenizer);
    if (!jinja) {
        tn_error_set(TN_ERR_STATE,
                     "%s: the tokenizer has no chat template; .jinja gives one",
                     call);
        return NULL;
    }
    tn__jinja j = {.now = o.now == TN_NONE_INT ? (int64_t)time(NULL) : o.now};
    const value *text = render(&j, tokenizer, messages, count, jinja, &o);
    if (!text)
        complain(&j);
    const char *kept = text ? keep_text(text, o.out_bytes) : NULL;
    tn__jinja_free(&j);
    return kept;
}
