/* tenon_checkpoint.h: the command `tenon checkpoint`. */
#ifndef TN_TOOLS_TENON_CHECKPOINT_H
#define TN_TOOLS_TENON_CHECKPOINT_H

/* Runs `tenon checkpoint` with the arguments after it. Returns the exit status; 2
 * means that the command line is wrong and that nothing was printed. */
int tenon_checkpoint(int count, char **argument);

#endif
