/* tenon_run.h: the command `tenon run`. */
#ifndef TN_TOOLS_TENON_RUN_H
#define TN_TOOLS_TENON_RUN_H

/* Runs `tenon run` with the arguments after it. Returns the exit status, or -1
 * if the command line is wrong and nothing was printed. */
int tenon_run(int count, char **argument);

#endif
