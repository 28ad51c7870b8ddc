/* tenon_tokenize.h: the command `tenon tokenize`. */
#ifndef TN_TOOLS_TENON_TOKENIZE_H
#define TN_TOOLS_TENON_TOKENIZE_H

/* Runs `tenon tokenize` with its arguments. Returns the exit status; 2 if the
 * arguments are invalid. */
int tenon_tokenize(int count, char **argument);

#endif
