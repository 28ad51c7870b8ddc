/* <tenon/chat.h>: turns a chat into the text that a model expects.
 *
 * A published model has a chat template, a small program in the language Jinja,
 * in tokenizer_config.json, chat_template.jinja or its GGUF file. Tenon runs
 * the part of Jinja that these templates use, as transformers'
 * apply_chat_template does (docs/language-models.md lists it).
 *
 *     tn_tokenizer *tokenizer = tn_tokenizer_open("SmolLM2-135M-Instruct");
 *     const tn_chat_message chat[] = {{"system", "Answer in one word."},
 *                                     {"user", "The capital of France?"}};
 *     const char *prompt = tn_chat_render(tokenizer, chat, 2);
 *     tn_encoding *e = tn_tokenizer_encode(tokenizer, prompt, .special = false);
 *
 * The template writes the special tokens itself, so the text is encoded with
 * .special = false.
 *
 * Programs link libtenon-lm: pkg-config --libs tenon-lm.
 *
 * Threads: any number of threads may render with one tokenizer. */
#ifndef TENON_CHAT_H
#define TENON_CHAT_H

#include <tenon/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A message of a chat. Closed. */
typedef struct tn_chat_message {
    const char *role;    /* "system", "user", "assistant", "tool" */
    const char *content; /* UTF-8; NULL: none */
    const char *more;    /* a JSON object with the other members of the message,
                            {"tool_calls": [...]}; NULL: none */
} tn_chat_message;

/* add_generation_prompt: ends with the text that precedes an answer, so that
 *            the model answers
 * tools:     a JSON list of the functions that the model may call, as JSON
 *            schemas; NULL: none
 * variables: a JSON object with more variables of the template, such as
 *            {"enable_thinking": false}; NULL: none
 * jinja:     a template to use instead of the tokenizer's
 * now:       the time that strftime_now returns, in seconds since 1970;
 *            TN_NONE_INT: the clock's
 * out_bytes: the length of the text; may be NULL */
#define TN_CHAT_RENDER_OPTIONS_LIST(X)                                         \
    X(bool, add_generation_prompt, true)                                       \
    X(const char *, tools, NULL)                                               \
    X(const char *, variables, NULL)                                           \
    X(const char *, jinja, NULL)                                               \
    X(int64_t, now, TN_NONE_INT)                                               \
    X(int64_t *, out_bytes, NULL)
TN_OPTIONS_STRUCT(tn_chat_render, TN_CHAT_RENDER_OPTIONS_LIST);
#define TN_CHAT_RENDER_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_chat_render, TN_CHAT_RENDER_OPTIONS_LIST)

/* Returns the text of count messages. Besides `messages`, `tools` and the
 * options, the template sees bos_token, eos_token and the other special tokens
 * of the tokenizer. The open scope owns the text.
 *
 * Returns NULL with TN_ERR_STATE if the tokenizer has no template;
 * TN_ERR_ARGUMENT if an argument is NULL or not JSON, or if the template
 * rejects the messages or applies an operation to a value that does not support
 * it; TN_ERR_FORMAT if the template is damaged; TN_ERR_UNSUPPORTED for a part
 * of Jinja that Tenon does not have, or if a limit is reached (5 million steps,
 * 16 MiB of text, 200 levels of nesting); or TN_ERR_MEMORY. The message names
 * line and column. */
TN_API const char *tn_chat_render_with(tn_tokenizer *tokenizer,
                                       const tn_chat_message *messages,
                                       int64_t count,
                                       const tn_chat_render_options *options);

#ifndef __cplusplus
#define tn_chat_render(...) TN_CALL_3(tn_chat_render, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_3(const char *, tn_chat_render, tn_tokenizer *,
              const tn_chat_message *, int64_t)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
