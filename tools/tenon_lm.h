/* tenon_lm.h: the commands `tenon lm`, `tenon generate` and `tenon embed`. */
#ifndef TN_TOOLS_TENON_LM_H
#define TN_TOOLS_TENON_LM_H

/* Each runs the command with the arguments after it. Returns the exit status; 2
 * means that the command line is wrong and that nothing was printed. */
int tenon_lm(int count, char **argument);
int tenon_generate(int count, char **argument);
int tenon_embed(int count, char **argument);

#endif
