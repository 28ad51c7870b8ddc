/* chat.c: fuzzes chat templates. A template is rejected with a message that
 * names line and column, or it renders the same text twice. */
#include <tenon/chat.h>

#include "fuzz.h"

const char fuzz_target[] = "chat";

static char folder[64];

static void remove_folder(void)
{
    char path[96];
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    unlink(path);
    rmdir(folder);
}

static tn_tokenizer *open_tokenizer(void)
{
    static const char text[] =
        "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0},\"unk_token\":"
        "\"a\"}}";
    char path[96];
    snprintf(folder, sizeof folder, "/tmp/fuzz-chat-XXXXXX");
    if (!mkdtemp(folder))
        abort();
    atexit(remove_folder);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    FILE *file = fopen(path, "wb");
    if (!file || fputs(text, file) < 0 || fclose(file))
        abort();
    tn_tokenizer *t = tn_tokenizer_open(path);
    if (!t)
        abort();
    return t;
}

static const char *render(tn_tokenizer *t, const char *jinja)
{
    static const tn_chat_message chat[] = {
        {"system", "Be brief.", NULL},
        {"user", " Hello, w\xc3\xb6rld ", NULL},
        {"assistant", NULL,
         "{\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\","
         "\"arguments\":{\"x\":1.5}}}]}"}};
    return tn_chat_render(t, chat, 3, .jinja = jinja, .now = 0,
                          .tools = "[{\"type\":\"function\"}]");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tn_tokenizer *t;
    if (!t)
        t = open_tokenizer();
    tn_scope *scope = tn_scope_open();
    char *jinja = fuzz_text(data, size);
    const char *text = render(t, jinja);
    if (text) {
        fuzz_accepted();
        const char *again = render(t, jinja);
        fuzz_check(again && strcmp(text, again) == 0, "it is the same twice");
    } else {
        fuzz_check(strstr(tn_error() ? tn_error() : "", "the chat template, "),
                   "the message names the place");
        fuzz_refused();
    }
    free(jinja);
    tn_scope_close(scope);
    return 0;
}
