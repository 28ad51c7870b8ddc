/* tenon_generate.c: `tenon generate`: a language model continues texts, or
 * token ids. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tenon_lm.h"

#include <tenon/chat.h>

/* The state of a sequence while the model continues it. */
typedef struct stream {
    tn_detokenizer *detokenizer; /* NULL if ids are printed, not text */
    FILE *copy;                  /* a second file to which the text is written,
                                  * or NULL */
    int64_t count;
    double first; /* time of the first token in seconds, as seconds() returns it */
} stream;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Returns the resident memory of the process in megabytes, or 0 if the system
 * does not report it. */
static double resident(void)
{
    long all = 0, here = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file)
        return 0;
    const bool read = fscanf(file, "%ld %ld", &all, &here) == 2;
    fclose(file);
    return read ? (double)here * (double)sysconf(_SC_PAGESIZE) * 1e-6 : 0;
}

static bool print_token(const tn_lm_token *token, void *context)
{
    stream *s = context;
    if (!s->count++)
        s->first = seconds();
    if (s->detokenizer) {
        const char *text = tn_detokenizer_add(s->detokenizer, token->id);
        if (!text)
            return false; /* ends the generation; continue_ids() reports the
                           * error */
        fputs(text, stdout);
        if (s->copy)
            fputs(text, s->copy);
    } else {
        printf("%s%" PRId64, token->index ? " " : "", token->id);
    }
    return fflush(stdout) == 0;
}

static void report(int64_t prompt, int64_t cached, const stream *s,
                   double begin)
{
    const double rest = seconds() - s->first, memory = resident();
    fprintf(stderr, "tenon: %" PRId64, prompt);
    if (cached)
        fprintf(stderr, " (%" PRId64 " reused)", cached);
    fprintf(stderr, " + %" PRId64 " tokens", s->count);
    if (s->count)
        fprintf(stderr, ", the first after %.1f ms", (s->first - begin) * 1e3);
    if (s->count > 1 && rest > 0)
        fprintf(stderr, ", then %.1f tokens/s", (double)(s->count - 1) / rest);
    if (memory > 0)
        fprintf(stderr, ", %.0f MB resident", memory);
    fputc('\n', stderr);
}

/* Continues token ids in a batch and prints the result: text if there is a
 * tokenizer, ids otherwise. The batch caches the key and value vectors of
 * earlier prompts and reuses those of a common beginning. If copy is not NULL,
 * also writes the text to it. Returns the exit status. */
static int continue_ids(tn_lm_batch *batch, tn_tokenizer *t, const int64_t *ids,
                        int64_t count, tn_lm_batch_add_options o, FILE *copy)
{
    const double begin = seconds();
    const int64_t eos = tn_tokenizer_special_id(t, "eos");
    const tn_lm_stop stop = {&eos, 1};
    stream s = {t ? tn_detokenizer_new(t, .special = false) : NULL, copy, 0, 0};
    if (t && !s.detokenizer)
        return lm_complain();
    o.on_token = print_token;
    o.context = &s;
    if (eos >= 0) { /* the tokenizer's end token also ends the text, in addition
                     * to the end tokens of the model */
        o.stop = &stop;
        o.stop_count = 1;
    }
    const int request = tn_lm_batch_add_with(batch, ids, count, &o);
    while (request >= 0 && tn_lm_batch_step(batch) > 0)
        ;
    const char *rest =
        s.detokenizer && !tn_error() ? tn_detokenizer_end(s.detokenizer) : "";
    if (tn_error()) {
        const int status = lm_complain();
        if (request >= 0)
            tn_lm_batch_remove(batch, request);
        return status;
    }
    puts(rest);
    if (copy)
        fputs(rest, copy);
    if (fflush(stdout)) {
        fprintf(stderr, "tenon: writing to the standard output failed: %s\n",
                strerror(errno));
        return 1;
    }
    report(count, tn_lm_batch_cached(batch, request), &s, begin);
    return 0;
}

static int continue_text(tn_lm_batch *batch, tn_tokenizer *t, const char *text,
                         int64_t bytes, const tn_lm_batch_add_options *o)
{
    tn_scope *scope = tn_scope_open();
    tn_encoding *e = tn_tokenizer_encode(t, text, .bytes = bytes);
    int status;
    if (!e)
        status = lm_complain();
    else if (!tn_encoding_count(e))
        status = fprintf(stderr,
                         "tenon: the prompt is empty: it has no tokens\n") > 0;
    else
        status = continue_ids(batch, t, tn_encoding_ids(e),
                              tn_encoding_count(e), *o, NULL);
    tn_scope_close(scope);
    return status;
}

/* ---- chats --------------------------------------------------------------- */

typedef struct chat {
    tn_chat_message *messages; /* owned, and so are the strings of the
                                  messages */
    int64_t count;
} chat;

/* Adds a message. Takes ownership of `text`, memory from malloc. If `text` is
 * NULL or memory runs out, prints an error and returns false. */
static bool add_message(chat *c, const char *role, char *text)
{
    tn_chat_message *more =
        realloc(c->messages, (size_t)(c->count + 1) * sizeof *more);
    if (more)
        c->messages = more;
    if (!more || !text) {
        fprintf(stderr, "tenon: out of memory\n");
        free(text);
        return false;
    }
    more[c->count++] = (tn_chat_message){role, text, NULL};
    return true;
}

/* Removes and frees the messages with an index of at least `count`. */
static void cut_chat(chat *c, int64_t count)
{
    while (c->count > count)
        free((char *)(uintptr_t)c->messages[--c->count].content);
}

/* Answers a user's message, prints the answer, and adds both to the chat. After
 * a failure the chat is unchanged. */
static int answer(tn_lm_batch *batch, tn_tokenizer *t, chat *c,
                  const char *text, int64_t bytes,
                  const tn_lm_batch_add_options *o)
{
    const int64_t before = c->count;
    char *said = NULL;
    size_t said_bytes = 0;
    if (!add_message(c, "user", strndup(text, (size_t)bytes)))
        return 1;
    tn_scope *scope = tn_scope_open();
    FILE *copy = open_memstream(&said, &said_bytes);
    const char *prompt = tn_chat_render(t, c->messages, c->count);
    tn_encoding *e =
        prompt ? tn_tokenizer_encode(t, prompt, .special = false) : NULL;
    int status = !copy || !e ? lm_complain()
                             : continue_ids(batch, t, tn_encoding_ids(e),
                                            tn_encoding_count(e), *o, copy);
    tn_scope_close(scope);
    if (copy && fclose(copy) != 0)
        status = 1;
    if (status)
        free(said);
    else
        status = !add_message(c, "assistant", said);
    if (status)
        cut_chat(c, before);
    return status;
}

/* Reads the standard input. Each line is a prompt or, in a chat, the user's
 * next message. An error in one line does not end the program; the exit status
 * is then 1 at the end. */
static int continue_lines(tn_lm_batch *batch, tn_tokenizer *t, chat *c,
                          const tn_lm_batch_add_options *o)
{
    const bool asks = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    char *line = NULL;
    size_t room = 0;
    int status = 0;
    for (;;) {
        if (asks)
            fputs("> ", stderr);
        ssize_t bytes = getline(&line, &room, stdin);
        if (bytes < 0)
            break;
        if (bytes && line[bytes - 1] == '\n')
            bytes--;
        status |= c ? answer(batch, t, c, line, bytes, o)
                    : continue_text(batch, t, line, bytes, o);
    }
    if (asks)
        fputc('\n', stderr);
    free(line);
    return status;
}

int tenon_generate(int count, char **argument)
{
    const char *text = NULL, *tokenizer = NULL, *dtype = NULL, *system = NULL;
    bool lines = false, chats = false, relaxed = false;
    chat talk = {NULL, 0};
    int64_t seed = 0, *ids = NULL, length = 0;
    tn_lm_batch_add_options o = TN_LM_BATCH_ADD_OPTIONS;
    const lm_option options[] = {{"-n", .whole = &o.max_tokens},
                                 {"-p", .text = &text},
                                 {"-i", .flag = &lines},
                                 {"--chat", .flag = &chats},
                                 {"--system", .text = &system},
                                 {"--tokenizer", .text = &tokenizer},
                                 {"--dtype", .text = &dtype},
                                 {"--relaxed", .flag = &relaxed},
                                 {"--temperature", .real = &o.temperature},
                                 {"--top-k", .whole = &o.top_k},
                                 {"--top-p", .real = &o.top_p},
                                 {"--min-p", .real = &o.min_p},
                                 {"--seed", .whole = &seed},
                                 {.name = NULL}};
    count = lm_read_options(count, argument, options);
    const bool wants_ids = !text && !lines;
    if (count != 1 + wants_ids || (text && lines) ||
        (wants_ids && (tokenizer || chats)) || (system && !chats))
        return 2;
    if (wants_ids && (length = lm_read_ids(argument[1], &ids)) < 0) {
        free(ids);
        return 1;
    }
    o.seed = (uint64_t)seed;
    int status = 1;
    tn_lm *lm = lm_open(argument[0], dtype, relaxed);
    tn_lm_batch *batch = lm ? tn_lm_batch_new(lm, 1) : NULL;
    tn_tokenizer *t = NULL;
    if (lm && !batch)
        status = lm_complain();
    else if (lm && !wants_ids &&
        !(t = tn_tokenizer_open(tokenizer ? tokenizer : argument[0])))
        status = lm_complain();
    else if (lm && system && !add_message(&talk, "system", strdup(system)))
        status = 1;
    else if (lm && lines)
        status = continue_lines(batch, t, chats ? &talk : NULL, &o);
    else if (lm && text && chats)
        status = answer(batch, t, &talk, text, (int64_t)strlen(text), &o);
    else if (lm && text)
        status = continue_text(batch, t, text, (int64_t)strlen(text), &o);
    else if (lm)
        status = continue_ids(batch, NULL, ids, length, o, NULL);
    cut_chat(&talk, 0);
    free(talk.messages);
    free(ids);
    return status;
}
