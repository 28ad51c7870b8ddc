/* generate.c: a language model continues several texts in one batch.
 *
 *     generate MODEL TEXT...
 *
 * MODEL is a Hugging Face folder (config.json, model.safetensors and
 * tokenizer.json) or a GGUF file. */
#include <stdio.h>
#include <tenon/lm.h>
#include <tenon/tokenizer.h>

/* Is called for each new token. Prints the first text while it grows; the
 * others are printed at the end. */
static bool print(const tn_lm_token *token, void *context)
{
    if (token->request == 0)
        fputs(tn_detokenizer_add(context, token->id), stdout);
    return fflush(stdout) == 0;
}

int main(int count, char **argument)
{
    if (count < 3)
        return fprintf(stderr, "usage: generate MODEL TEXT...\n"), 2;
    tn_lm *lm = tn_lm_open(argument[1]);
    tn_tokenizer *tokenizer = lm ? tn_tokenizer_open(argument[1]) : NULL;
    if (!tokenizer)
        return fprintf(stderr, "%s\n", tn_error()), 1;

    /* A request is one text to continue. Requests may join and leave a batch at
     * any time. A request gets the same tokens alone and in any batch. */
    tn_detokenizer *stream = tn_detokenizer_new(tokenizer, .special = false);
    tn_lm_batch *batch = tn_lm_batch_new(lm, count - 2);
    printf("%s", argument[2]);
    for (int i = 2; i < count; i++) {
        tn_encoding *prompt = tn_tokenizer_encode(tokenizer, argument[i]);
        tn_lm_batch_add(batch, tn_encoding_ids(prompt),
                        tn_encoding_count(prompt), .max_tokens = 16,
                        .on_token = print, .context = stream);
    }
    while (tn_lm_batch_step(batch) > 0)
        ;
    puts(tn_detokenizer_end(stream));

    for (int i = 1; i < count - 2 && !tn_error(); i++)
        printf("%s%s\n", argument[2 + i],
               tn_tokenizer_decode(tokenizer, tn_lm_batch_ids(batch, i),
                                   tn_lm_batch_length(batch, i),
                                   .special = false));
    if (tn_error())
        return fprintf(stderr, "%s\n", tn_error()), 1;
}
