/* tokenizer.c: fuzzes tokenizer.json. A file is rejected with a message that
 * names it; a tokenizer encodes texts to ids of its vocabulary, with offsets
 * within the text, and decodes any ids to UTF-8. */
#include <sys/stat.h>
#include <tenon/tokenizer.h>

#include "fuzz.h"

const char fuzz_target[] = "tokenizer";

static char folder[64];

static void remove_folder(void)
{
    char path[96];
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    unlink(path);
    rmdir(folder);
}

static const char *make_file(const uint8_t *data, size_t size)
{
    static char path[96];
    if (!*folder) {
        snprintf(folder, sizeof folder, "/tmp/fuzz-tokenizer-XXXXXX");
        if (!mkdtemp(folder))
            abort();
        atexit(remove_folder);
    }
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file))
        abort();
    return folder;
}

static void check_text(tn_tokenizer *t, const char *text, size_t bytes)
{
    tn_encoding *e =
        tn_tokenizer_encode(t, text, .bytes = (int64_t)bytes, .pair = "b");
    if (!e) {
        fuzz_refused();
        return;
    }
    const int64_t count = tn_encoding_count(e);
    for (int64_t i = 0; i < count; i++) {
        const int64_t *offset = tn_encoding_offsets(e) + 2 * i;
        fuzz_check(tn_encoding_ids(e)[i] >= 0 &&
                       tn_encoding_ids(e)[i] < tn_tokenizer_vocab_size(t),
                   "an id is in the vocabulary");
        fuzz_check(offset[0] >= 0 && offset[0] <= offset[1] &&
                       offset[1] <= (int64_t)(bytes ? bytes : 1),
                   "offsets lie in the text");
    }
    fuzz_check(tn_tokenizer_decode(t, tn_encoding_ids(e), count) != NULL,
               "ids are decoded");
    tn_detokenizer *d = tn_detokenizer_new(t, .special = false);
    for (int64_t i = 0; i < count; i++)
        fuzz_check(tn_detokenizer_add(d, tn_encoding_ids(e)[i]) != NULL,
                   "ids are streamed");
    fuzz_check(tn_detokenizer_end(d) != NULL, "a stream ends");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "Hello w\xc3\xb6rld, it's 123\t\n  <s>\xe2\x96"
                               "\x81 \xf0\x9f\x9a\x80\xe0\xa4 \xff x\xcc\x81";
    tn_scope *scope = tn_scope_open();
    tn_tokenizer *t = tn_tokenizer_open(make_file(data, size));
    if (!t) {
        fuzz_check(strstr(tn_error() ? tn_error() : "", "tokenizer"),
                   "the message names the file");
        fuzz_refused();
    } else {
        fuzz_accepted();
        check_text(t, text, sizeof text - 1);
        check_text(t, "", 0);
    }
    tn_scope_close(scope);
    return 0;
}
