/* test_tokenizer.c: tests the functions of tenon/tokenizer.h and wrong
 * arguments. tokens.c tests whether ids are right. */
#include <pthread.h>
#include <tenon/tenon.h>
#include <tenon/tokenizer.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

static char scratch[] = "/tmp/test_tokenizer-XXXXXX";

static const char *data(const char *name)
{
    static char path[4096];
    const char *top = getenv("top_builddir");
    snprintf(path, sizeof path, "%s/tests/lm/tokenizers/tok/%s",
             top ? top : ".", name);
    return path;
}

/* Writes a file to the scratch folder and returns its path. */
static const char *write_file(const char *name, const char *text)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *file = fopen(path, "wb");
    if (!file || fputs(text, file) < 0 || fclose(file))
        abort();
    return path;
}

/* Checks that the last call failed with this code and a message that contains
 * the words. */
static void refused(tn_status code, const char *words, const char *fact)
{
    const char *message = tn_error();
    const bool good = message && tn_error_code() == code &&
                      strstr(message, words);
    ok(good, "%s", fact);
    if (!good)
        printf("# code %d, message %s\n", (int)tn_error_code(),
               message ? message : "(none)");
    tn_error_clear();
}

static void refused_json(const char *text, const char *words, const char *fact)
{
    tn_tokenizer_open(write_file("tokenizer.json", text));
    refused(TN_ERR_FORMAT, words, fact);
}

#define LEVEL(more)                                                            \
    "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0},"                  \
    "\"unk_token\":\"a\"}" more "}"

static void test_files(void)
{
    tn_tokenizer_open(NULL);
    refused(TN_ERR_ARGUMENT, "path is NULL", "a path is needed");
    tn_tokenizer_open("/no/such/tokenizer.json");
    refused(TN_ERR_IO, "/no/such/tokenizer.json", "a missing file is named");
    tn_tokenizer_open(scratch);
    refused(TN_ERR_IO, "tokenizer.json", "a folder without it is named");
    char pipe[2100];
    snprintf(pipe, sizeof pipe, "%s/pipe.json", scratch);
    alarm(60); /* ends the test if it waits for the FIFO */
    if (mkfifo(pipe, 0666) < 0)
        bail_out("cannot make %s", pipe);
    tn_tokenizer_open(pipe);
    refused(TN_ERR_IO, "not a regular file", "a FIFO is refused at once");
    alarm(0);
    unlink(pipe);
    tn_tokenizer_open(data("trained-wordpiece.json"), .pattern = "gpt2");
    refused(TN_ERR_ARGUMENT, "pattern", "a pattern is for tiktoken files");
    refused_json("{\"model\":", "line 1", "a truncated file has its place");
    refused_json("{}", "model: is missing", "a file without a model");
    refused_json("{\"model\":{\"type\":\"Magic\"}}", "\"Magic\" is unknown",
                 "an unknown model is named");
    refused_json("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":9999999999},"
                 "\"merges\":[]}}",
                 "model.vocab", "a huge id takes no memory");
    refused_json("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},"
                 "\"merges\":[\"a b\"]}}",
                 "\"b\" is not in the vocabulary", "a merge of no token");
    refused_json("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},"
                 "\"merges\":[],\"dropout\":0.1}}",
                 "model.dropout", "random merges are refused");
    refused_json("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],"
                 "\"unk_id\":1}}",
                 "model.unk_id", "an unknown token beyond the vocabulary");
    refused_json(LEVEL(",\"normalizer\":{\"type\":\"Fancy\"}"),
                 "normalizer: the type \"Fancy\"", "an unknown normalizer");
    refused_json(LEVEL(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":"
                       "{\"Regex\":\"(a\"},\"behavior\":\"Isolated\"}"),
                 "pre_tokenizer: the pattern \"(a\"", "a wrong pattern");
    refused_json(LEVEL(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":"
                       "{\"Regex\":\"(a)\\\\1\"},\"behavior\":\"Isolated\"}"),
                 "not supported", "a back reference");
    refused_json(LEVEL(",\"decoder\":{\"type\":\"X\"}"), "decoder",
                 "an unknown decoder");
    refused_json(LEVEL(",\"post_processor\":{\"type\":\"BertProcessing\","
                       "\"sep\":[\"a\",7],\"cls\":[\"a\",0]}"),
                 "the id 7", "a template's id beyond the vocabulary");
    tn_tokenizer_open(write_file("x.tiktoken", "IQ== 0\n"));
    refused(TN_ERR_ARGUMENT, ".pattern", "a tiktoken file needs a pattern");
    tn_tokenizer_open(write_file("gpt2.tiktoken", "IQ== zero\n"));
    refused(TN_ERR_FORMAT, "line 1", "a wrong line has its number");
    tn_tokenizer_open(write_file("gpt2.tiktoken", "IQ== 0\n"));
    refused(TN_ERR_FORMAT, "byte 0x00", "every byte is a token");
    tn_tokenizer_open(write_file("x.gguf", "GGUF"));
    refused(TN_ERR_FORMAT, "x.gguf", "a truncated GGUF file");
}

/* Tests a vocabulary of all bytes and two merged tokens. */
static void test_tiktoken(void)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqr"
                                "stuvwxyz0123456789+/";
    char text[256 * 16] = "", *at = text;
    for (int b = 0; b < 256; b++)
        at += sprintf(at, "%c%c== %d\n", digit[b >> 2], digit[(b & 3) << 4],
                      b);
    sprintf(at, "YWI= 256\nYWJj 257\n"); /* ab, abc */
    tn_tokenizer *t = tn_tokenizer_open(write_file("gpt2.tiktoken", text));
    tn_encoding *e = tn_tokenizer_encode(t, "abcab \xff");
    ok(tn_encoding_count(e) == 6 && tn_encoding_ids(e)[0] == 257 - 0,
       "ranks merge");
    is_str(tn_tokenizer_decode(t, tn_encoding_ids(e), tn_encoding_count(e)),
           "abcab \xef\xbf\xbd", "a byte that is no UTF-8 is U+FFFD");
    t = tn_tokenizer_open(write_file("mine", text), .pattern = "\\w");
    e = tn_tokenizer_encode(t, "ab");
    is_int(tn_encoding_count(e), 2, "a pattern of the caller splits");
    tn_tokenizer_open(write_file("mine", text), .pattern = "(");
    refused(TN_ERR_FORMAT, "pattern", "a wrong pattern of the caller");
}

static void test_encode(void)
{
    tn_tokenizer *t = tn_tokenizer_open(data("trained-bpe-llama3.json"));
    if (!t)
        bail_out("%s", tn_error());
    tn_encoding *e = tn_tokenizer_encode(t, "Hello");
    ok(tn_encoding_count(e) > 0 && !tn_error(), "a text is encoded");
    ok(tn_encoding_offsets(e)[0] == 0 && tn_encoding_types(e)[0] == 0 &&
           tn_encoding_special(e)[0] == 0,
       "with offsets, types and marks");
    is_int(tn_encoding_count(tn_tokenizer_encode(t, "")), 0, "\"\" is empty");
    is_int(tn_encoding_count(tn_tokenizer_encode(t, NULL, .bytes = 0)), 0,
           "so are no bytes of NULL");
    tn_tokenizer_encode(t, NULL);
    refused(TN_ERR_ARGUMENT, "text is NULL", "a text is needed");
    tn_tokenizer_encode(t, "a", .bytes = -3);
    refused(TN_ERR_ARGUMENT, ".bytes is -3", "a negative length");
    tn_tokenizer_encode(t, "a", .max_count = -1);
    refused(TN_ERR_ARGUMENT, ".max_count is -1", "a negative count");
    tn_tokenizer_encode(NULL, "a");
    refused(TN_ERR_ARGUMENT, "tokenizer is NULL", "a tokenizer is needed");
    tn_tokenizer_encode((tn_tokenizer *)(void *)e, "a");
    refused(TN_ERR_ARGUMENT, "encoding", "an encoding is no tokenizer");
    e = tn_tokenizer_encode(t, "Hello Hello Hello", .max_count = 2);
    is_int(tn_encoding_count(e), 2, "max_count cuts");
    e = tn_tokenizer_encode(t, "<|begin_of_text|>");
    is_int(tn_encoding_count(e), 1, "a special token in the text is one id");
    e = tn_tokenizer_encode(t, "<|begin_of_text|>", .parse_special = false);
    ok(tn_encoding_count(e) > 1, "unless it is plain text");
    e = tn_tokenizer_encode(t, "a\0b", .bytes = 3);
    int64_t bytes = 0;
    const char *back = tn_tokenizer_decode(t, tn_encoding_ids(e),
                                           tn_encoding_count(e),
                                           .out_bytes = &bytes);
    ok(bytes == 3 && memcmp(back, "a\0b", 4) == 0, "a NUL is a character");
    is_int(tn_encoding_count(NULL), 0, "NULL has no ids");
    ok(!tn_encoding_ids(NULL) && !tn_encoding_offsets(NULL), "and no arrays");
    tn_tokenizer_decode(t, NULL, 1);
    refused(TN_ERR_ARGUMENT, "ids is NULL", "ids are needed");
    tn_tokenizer_decode(t, NULL, -1);
    refused(TN_ERR_ARGUMENT, "count is -1", "a negative count of ids");
    const int64_t odd[] = {-5, 1 << 30, INT64_MIN, INT64_MAX, 1LL << 32};
    is_str(tn_tokenizer_decode(t, odd, 5), "", "ids without tokens are skipped");
    tn_detokenizer_add(NULL, 1);
    refused(TN_ERR_ARGUMENT, "detokenizer is NULL", "a detokenizer is needed");
    is_int(tn_tokenizer_id(t, "<|begin_of_text|>"), 0, "a token has its id");
    is_str(tn_tokenizer_token(t, 0, NULL), "<|begin_of_text|>", "and back");
    ok(tn_tokenizer_is_special(t, 0) && !tn_tokenizer_is_special(t, 700),
       "special tokens are known");
    ok(!tn_tokenizer_token(t, 1LL << 32, NULL) &&
           !tn_tokenizer_is_special(t, 1LL << 32),
       "an id beyond 32 bits is not cut to one that exists");
    ok(!tn_tokenizer_token(t, -1, NULL) && tn_tokenizer_id(t, "no") < 0 &&
           tn_tokenizer_special_id(t, "king") < 0,
       "what is not there is not found");
}

static void test_template(void)
{
    tn_tokenizer *t = tn_tokenizer_open(write_file(
        "tokenizer.json",
        "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"u\":0,\"a\":1,\"[C]\":"
        "2,\"[S]\":3,\"[P]\":4},\"unk_token\":\"u\"},\"pre_tokenizer\":{"
        "\"type\":\"WhitespaceSplit\"},\"post_processor\":{\"type\":"
        "\"BertProcessing\",\"sep\":[\"[S]\",3],\"cls\":[\"[C]\",2]}}"));
    write_file("tokenizer_config.json",
               "{\"pad_token\":{\"content\":\"[P]\"},\"chat_template\":\"x\"}");
    t = tn_tokenizer_open(scratch);
    is_str(tn_tokenizer_chat_template(t), "x", "a folder has a chat template");
    is_int(tn_tokenizer_special_id(t, "pad"), 4, "and roles of tokens");
    tn_encoding *e = tn_tokenizer_encode(t, "a b", .pair = "a");
    const int64_t want[] = {2, 1, 0, 3, 1, 3}, types[] = {0, 0, 0, 0, 1, 1};
    ok(tn_encoding_count(e) == 6 &&
           memcmp(tn_encoding_ids(e), want, sizeof want) == 0 &&
           memcmp(tn_encoding_types(e), types, sizeof types) == 0,
       "a pair has the template's tokens and types");
    e = tn_tokenizer_encode(t, "a a a", .max_count = 3);
    ok(tn_encoding_count(e) == 3 && tn_encoding_ids(e)[2] == 3,
       "max_count keeps the special tokens");
    const char *const texts[] = {"a", "a a a"};
    tn_tensor *mask = NULL;
    tn_tensor *ids = tn_tokenizer_batch(t, texts, 2, .out_mask = &mask);
    int64_t got[10] = {0};
    ok(ids && mask && tn_tensor_shape(ids)[1] == 5 &&
           tn_tensor_to_array(ids, got, sizeof got) == TN_OK && got[2] == 3 &&
           got[3] == 4 && got[4] == 4,
       "a batch is padded");
    tn_tokenizer_batch(t, NULL, 2);
    refused(TN_ERR_ARGUMENT, "texts is NULL", "a batch needs texts");
    tn_tokenizer_batch(t, texts, 0);
    refused(TN_ERR_ARGUMENT, "count is 0", "at least one");
    const char *const hole[] = {"a", NULL};
    tn_tokenizer_batch(t, hole, 2);
    refused(TN_ERR_ARGUMENT, "texts[1] is NULL", "and none may be missing");
}

static void *encode_often(void *tokenizer)
{
    tn_scope *scope = tn_scope_open();
    uint64_t sum = 0;
    for (int i = 0; i < 300; i++) {
        char text[64];
        snprintf(text, sizeof text, "the number %d is not %d", i % 50, i);
        tn_scope *step = tn_scope_open();
        tn_encoding *e = tn_tokenizer_encode(tokenizer, text);
        for (int64_t k = 0; k < tn_encoding_count(e); k++)
            sum = sum * 31 + (uint64_t)tn_encoding_ids(e)[k];
        tn_scope_close(step);
    }
    tn_scope_close(scope);
    return (void *)(uintptr_t)sum;
}

static void test_threads(void)
{
    tn_tokenizer *t = tn_tokenizer_open(data("trained-bpe-gpt2.json"));
    pthread_t thread[4];
    void *sum[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, encode_often, t);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], &sum[i]);
    ok(sum[0] == sum[1] && sum[1] == sum[2] && sum[2] == sum[3] && sum[0],
       "threads share a tokenizer");
}

/* Tests a pattern that takes exponential time in a plain backtracking
 * matcher. */
static void test_bounded(void)
{
    tn_tokenizer *t = tn_tokenizer_open(write_file(
        "tokenizer.json",
        LEVEL(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":"
              "\"(a|a)*b|(a+)+c|(?=a*d)a\"},\"behavior\":\"Isolated\"}")));
    const size_t bytes = 20000;
    char *text = malloc(bytes);
    memset(text, 'a', bytes);
    ok(tn_encoding_count(
           tn_tokenizer_encode(t, text, .bytes = (int64_t)bytes)) == 1,
       "no text takes exponential time");
    free(text);
}

int main(void)
{
    plan_later();
    if (!mkdtemp(scratch))
        bail_out("no scratch folder");
    tn_scope *scope = tn_scope_open();
    test_files();
    test_tiktoken();
    test_encode();
    test_template();
    test_threads();
    test_bounded();
    ok(!tn_error(), "no error is pending");
    tn_scope_close(scope);
    static const char *const name[] = {"tokenizer.json", "x.tiktoken", "mine",
                                       "gpt2.tiktoken", "x.gguf",
                                       "tokenizer_config.json"};
    char path[256];
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        snprintf(path, sizeof path, "%s/%s", scratch, name[i]);
        unlink(path);
    }
    rmdir(scratch);
    return done_testing();
}
