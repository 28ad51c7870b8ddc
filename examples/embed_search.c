/* embed_search.c: finds the lines of a file whose meaning is nearest to a text.
 *
 *     embed_search MODEL FILE TEXT
 *
 * MODEL is a Hugging Face folder or a GGUF file, such as all-MiniLM-L6-v2. A
 * sentence model computes a vector for each line. Lines with similar meanings
 * have vectors with similar directions. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <tenon/lm.h>
#include <tenon/tenon.h>
#include <tenon/tokenizer.h>

enum { MOST_LINES = 4096, SHOWN = 3 };

static tn_lm *lm;
static tn_tokenizer *tokenizer;

/* Returns the embedding of a text (1, hidden), scaled to length 1. */
static tn_tensor *embed(const char *text, int64_t bytes)
{
    tn_lm_sizes sizes = {.size = sizeof sizes};
    tn_lm_info(lm, &sizes);
    tn_encoding *e = tn_tokenizer_encode(tokenizer, text, .bytes = bytes,
                                         .max_count = sizes.positions);
    const int64_t *ids = tn_encoding_ids(e), length = tn_encoding_count(e);
    return tn_lm_embed(lm, &ids, &length, 1, .normalize = 1);
}

int main(int count, char **argument)
{
    static char *line[MOST_LINES];
    static tn_tensor *vector[MOST_LINES];
    int lines = 0;
    size_t room = 0;
    FILE *file = count == 4 ? fopen(argument[2], "r") : NULL;
    if (!file)
        return fprintf(stderr, "usage: embed_search MODEL FILE TEXT\n"), 2;
    lm = tn_lm_open(argument[1]);
    tokenizer = tn_tokenizer_open(argument[1]);
    for (ssize_t n; !tn_error() && lines < MOST_LINES; lines++, room = 0) {
        if ((n = getline(&line[lines], &room, file)) < 1)
            break;
        vector[lines] = embed(line[lines], n);
    }
    fclose(file);

    /* Computes the cosine of the angle between the text and each line, and
     * finds the largest cosines. */
    tn_tensor *query = embed(argument[3], TN_NONE_INT), *best;
    tn_tensor *all = tn_cat(vector, lines, 0);
    tn_tensor *cosine = tn_matmul(all, tn_reshape(query, tn_dims(-1)));
    int64_t shown = lines < SHOWN ? lines : SHOWN, place[SHOWN];
    float score[SHOWN];
    tn_tensor *top = tn_topk(cosine, shown, 0, true, true, &best);
    tn_tensor_to_array(top, score, sizeof *score * (size_t)shown);
    tn_tensor_to_array(best, place, sizeof *place * (size_t)shown);
    for (int i = 0; !tn_error() && i < shown; i++)
        printf("%.3f  %s", (double)score[i], line[place[i]]);
    if (tn_error())
        return fprintf(stderr, "%s\n", tn_error()), 1;
}
