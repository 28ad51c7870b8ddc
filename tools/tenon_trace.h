/* tenon_trace.h: the command `tenon trace`. */
#ifndef TN_TOOLS_TENON_TRACE_H
#define TN_TOOLS_TENON_TRACE_H

/* Runs `tenon trace` with its arguments. Returns the exit status. If it is 2,
 * the arguments are invalid and nothing was printed. */
int tenon_trace(int count, char **argument);

#endif
