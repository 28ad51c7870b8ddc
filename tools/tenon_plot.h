/* tenon_plot.h: the command `tenon plot`. */
#ifndef TN_TOOLS_TENON_PLOT_H
#define TN_TOOLS_TENON_PLOT_H

/* Runs `tenon plot` with the arguments after it. Returns the exit status; 2
 * means that the command line is wrong and that nothing was printed. */
int tenon_plot(int count, char **argument);

#endif
