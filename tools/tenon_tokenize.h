/* tenon_tokenize.h: the command `tenon tokenize`. */
#ifndef TN_TOOLS_TENON_TOKENIZE_H
#define TN_TOOLS_TENON_TOKENIZE_H

/* Runs the command with the arguments after its name. Returns the exit status;
 * 2 for a wrong command line. */
int tenon_tokenize(int count, char **argument);

#endif
