/* tenon_trace.h: the part of tenon that has to do with traces. */
#ifndef TN_TOOLS_TENON_TRACE_H
#define TN_TOOLS_TENON_TRACE_H

/* `tenon trace ...`, from the word after it. Returns the exit status; 2: the
 * command line is wrong, and nothing was said yet. */
int tenon_trace(int count, char **argument);

#endif
