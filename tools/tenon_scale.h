/* tenon_scale.h: the command `tenon scale`. */
#ifndef TN_TOOLS_TENON_SCALE_H
#define TN_TOOLS_TENON_SCALE_H

/* Runs `tenon scale` with the arguments after it. Returns the exit status, or -1
 * if the command line is wrong and nothing was printed. */
int tenon_scale(int count, char **argument);

#endif
