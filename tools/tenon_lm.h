/* tenon_lm.h: the commands for language models, and the functions that they
 * share. */
#ifndef TN_TOOLS_TENON_LM_H
#define TN_TOOLS_TENON_LM_H

#include <tenon/lm.h>
#include <tenon/tokenizer.h>

/* Each function runs one command with its arguments. It returns the exit
 * status: 0, 1 after an error (one line on stderr), or 2 if the arguments are
 * invalid. */
int tenon_lm(int count, char **argument);
int tenon_generate(int count, char **argument);
int tenon_embed(int count, char **argument);

/* Prints the pending error on stderr and clears it. Returns 1. */
int lm_complain(void);

/* An option of a command. Exactly one of the four pointers is not NULL: it is
 * where lm_read_options stores the option's value. An option with `flag` has no
 * value. */
typedef struct lm_option {
    const char *name;
    double *real;
    int64_t *whole;
    const char **text;
    bool *flag;
} lm_option;
/* Reads the options, which may be before, between and after the other
 * arguments. Arguments after "--" are not options. Moves the other arguments to
 * the beginning of `argument` and returns their number. Returns -1 if an option
 * is unknown or its value is invalid. The last entry of the table has the name
 * NULL. */
int lm_read_options(int count, char **argument, const lm_option *table);

/* Reads a list of token ids, such as "1,15043" or "1 15043". Returns their
 * number. If the list is invalid, prints an error and returns -1. The caller
 * frees *ids in both cases. */
int64_t lm_read_ids(const char *text, int64_t **ids);

/* Opens a model and converts its weights to the dtype of this name, such as
 * "float16". If dtype is NULL, the weights keep the dtypes of the file. relaxed
 * is that of tn_lm_open. After
 * an error, prints it and returns NULL. */
tn_lm *lm_open(const char *path, const char *dtype, bool relaxed);

#endif
