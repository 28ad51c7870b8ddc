/* tenon_trace.h: the command `tenon trace`. */
#ifndef TN_TOOLS_TENON_TRACE_H
#define TN_TOOLS_TENON_TRACE_H

/* Runs `tenon trace` with the arguments after it. Returns the exit status; 2
 * means that the command line is wrong and that nothing was printed. */
int tenon_trace(int count, char **argument);

#endif
