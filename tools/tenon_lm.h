/* tenon_lm.h: the commands of language models, and what they share. */
#ifndef TN_TOOLS_TENON_LM_H
#define TN_TOOLS_TENON_LM_H

#include <tenon/lm.h>
#include <tenon/tokenizer.h>

/* Each runs a command with its arguments and returns the exit status: 0, 1 (one
 * line on stderr), or 2 for arguments that are wrong. */
int tenon_lm(int count, char **argument);
int tenon_generate(int count, char **argument);
int tenon_embed(int count, char **argument);

/* Prints the pending error on stderr and clears it. Returns 1. */
int lm_complain(void);

/* An option of a command. One of the four says where its value goes; `flag`
 * takes no value. */
typedef struct lm_option {
    const char *name;
    double *real;
    int64_t *whole;
    const char **text;
    bool *flag;
} lm_option;
/* Reads options, which may stand anywhere, up to "--". Moves the other
 * arguments to the beginning and returns their number, or -1 for an unknown
 * option or a wrong value. The table ends with a name of NULL. */
int lm_read_options(int count, char **argument, const lm_option *table);

/* Reads a list of token ids ("1,15043" or "1 15043"). Returns their number, or
 * -1 after a message. *ids is memory that the caller frees. */
int64_t lm_read_ids(const char *text, int64_t **ids);

/* Opens a model in the dtype of that name ("float16"), or as it is for NULL.
 * NULL after a message. */
tn_lm *lm_open(const char *path, const char *dtype);

#endif
