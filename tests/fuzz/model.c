/* model.c: fuzzes models and vocabularies in GGUF files; gguf.c fuzzes the
 * reader of these files. The library must reject a file with a message, or open
 * it as a model that generates (with blocks, and as float32) and a tokenizer
 * that encodes and decodes. */
#include <sys/stat.h>
#include <tenon/chat.h>
#include <tenon/lm.h>

#include "fuzz.h"

const char fuzz_target[] = "model";

static char folder[64], path[96];

static void remove_folder(void)
{
    unlink(path);
    rmdir(folder);
}

static void write_file(const uint8_t *data, size_t size)
{
    if (!*folder) {
        snprintf(folder, sizeof folder, "/tmp/fuzz-model-XXXXXX");
        if (!mkdtemp(folder))
            abort();
        snprintf(path, sizeof path, "%s/model.gguf", folder);
        atexit(remove_folder);
    }
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file))
        abort();
}

static void check_model(tn_lm *lm)
{
    const int64_t ids[] = {0, 1, 2};
    tn_lm_sizes sizes = {.size = sizeof sizes};
    if (!lm) {
        fuzz_refused();
        return;
    }
    fuzz_accepted();
    fuzz_check(tn_lm_info(lm, &sizes) == TN_OK, "a model says what it is");
    tn_lm_result *result =
        sizes.is_encoder ? NULL : tn_lm_generate(lm, ids, 3, .max_tokens = 2);
    if (!result && !sizes.is_encoder)
        fuzz_refused();
}

static void check_tokenizer(tn_tokenizer *t)
{
    static const char text[] = "ab a b\n\xc3\xb6\xff 12";
    const tn_chat_message chat[] = {{"user", "ab", NULL}};
    if (!t) {
        fuzz_refused();
        return;
    }
    fuzz_accepted();
    tn_encoding *e = tn_tokenizer_encode(t, text, .bytes = sizeof text - 1);
    if (!e) {
        fuzz_refused();
        return;
    }
    for (int64_t i = 0; i < tn_encoding_count(e); i++)
        fuzz_check(tn_encoding_ids(e)[i] >= 0 &&
                       tn_encoding_ids(e)[i] < tn_tokenizer_vocab_size(t),
                   "an id is in the vocabulary");
    fuzz_check(tn_tokenizer_decode(t, tn_encoding_ids(e),
                                   tn_encoding_count(e)) != NULL,
               "ids are decoded");
    if (!tn_chat_render(t, chat, 1))
        fuzz_refused();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    write_file(data, size);
    tn_scope *scope = tn_scope_open();
    check_model(tn_lm_open(path));
    check_model(tn_lm_open(path, .dtype = TN_F32));
    check_tokenizer(tn_tokenizer_open(path));
    tn_scope_close(scope);
    return 0;
}
