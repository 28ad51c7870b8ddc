/* tenon_program.h: the command `tenon program`. */
#ifndef TN_TOOLS_TENON_PROGRAM_H
#define TN_TOOLS_TENON_PROGRAM_H

/* Runs `tenon program` with the arguments after it. Returns the exit status; 2
 * means that the command line is wrong and that nothing was printed. */
int tenon_program(int count, char **argument);

#endif
