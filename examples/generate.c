/* generate.c: a language model continues token ids. Two prompts run together, and
 * the second joins while the first is running.
 *
 *     generate FOLDER ID ...
 *
 * FOLDER is a Hugging Face folder: config.json and model.safetensors. */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/lm.h>

enum { MOST_TOKENS = 1024 };

/* Called for each new token. */
static bool print(const tn_lm_token *token, void *context)
{
    (void)context;
    printf("request %d: token %lld, probability e^%.2f\n", token->request,
           (long long)token->id, token->logprob);
    return true;
}

int main(int count, char **argument)
{
    int64_t ids[MOST_TOKENS];
    const int length = count - 2;
    if (length < 1 || length > MOST_TOKENS)
        return fprintf(stderr, "usage: generate FOLDER ID ...\n"), 2;
    for (int i = 0; i < length; i++)
        ids[i] = atoll(argument[i + 2]);

    tn_lm *lm = tn_lm_open(argument[1]);
    tn_lm_batch *batch = tn_lm_batch_new(lm, 2);
    tn_lm_batch_add(batch, ids, length, .max_tokens = 8, .on_token = print);
    for (int i = 0; i < 3; i++)
        tn_lm_batch_step(batch);
    tn_lm_batch_add(batch, ids, length, .max_tokens = 8, .on_token = print,
                    .temperature = 0.8, .top_p = 0.9, .seed = 1);
    while (tn_lm_batch_step(batch) > 0)
        ;
    if (tn_error())
        return fprintf(stderr, "%s\n", tn_error()), 1;
}
