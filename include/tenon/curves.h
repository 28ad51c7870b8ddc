/* <tenon/curves.h>: curves of event files and CSV files, and their picture.
 *
 *     tn_curves *curves = tn_curves_new();
 *     tn_curves_add(curves, "runs", NULL);
 *     tn_curves_plot(curves, "curves.html", .title = "ResNet on CIFAR-10");
 *
 * `tenon plot` does this from the command line.
 *
 * While an error is pending (error.h), functions that return a status do
 * nothing and return TN_ERR_STATE. Others work as usual, and the first error
 * stays.
 *
 * This header belongs to libtenon-media (pkg-config tenon-media).
 *
 * Threads: A tn_curves belongs to one thread at a time. */
#ifndef TENON_CURVES_H
#define TENON_CURVES_H

#include <tenon/options.h>
#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_curves tn_curves;

/* Makes an empty set of curves, which the open scope owns. NULL with
 * TN_ERR_MEMORY if memory runs out. */
TN_API tn_curves *tn_curves_new(void);

/* Adds the curves of a path to curves:
 *
 *   an event file   the scalars of each tag, in the file's order
 *   a CSV file      one curve for each column but the first, which has the
 *                   steps; the first line has the names. An empty cell is not a
 *                   point
 *   a folder        the event files in it and in the folders below it, at most
 *                   16 deep; symbolic links to folders are not followed. Each
 *                   folder is a run; event files of one folder are read in the
 *                   order of their names, and continue each other's curves
 *
 * run is the name of the run, NULL for the path; for a folder below path, its
 * path is appended. If the last record of an event file is incomplete, because
 * the run goes on or was killed, the curves end before it. Fails with TN_ERR_IO
 * if a file cannot be read, TN_ERR_FORMAT if a file is damaged (the message has
 * the position), is neither an event file nor CSV, or if there is no curve, and
 * TN_ERR_MEMORY if memory runs out. After a failure curves is unchanged. A file
 * may have at most tn_unpack_limit bytes. */
TN_API tn_status tn_curves_add(tn_curves *curves, const char *path,
                               const char *run);

/* Return the number of curves, and of curve i its run, its tag, its number of
 * points, and the points: steps, values (NAN allowed), and times in seconds
 * since 1970 (0 in a CSV file). 0 or NULL if i is out of range. Pointers are
 * valid until the next call of tn_curves_add. Cannot fail. */
TN_API int tn_curves_count(const tn_curves *curves);
TN_API const char *tn_curves_run(const tn_curves *curves, int i);
TN_API const char *tn_curves_tag(const tn_curves *curves, int i);
TN_API int64_t tn_curves_length(const tn_curves *curves, int i);
TN_API const double *tn_curves_steps(const tn_curves *curves, int i);
TN_API const double *tn_curves_values(const tn_curves *curves, int i);
TN_API const double *tn_curves_times(const tn_curves *curves, int i);

/* Options of tn_curves_plot:
 *
 *   title      heading of the page
 *   smooth     weight of the past, 0 to below 1, in a moving average that is
 *              drawn over the points; 0 draws the points alone
 *   log_scale  logarithmic values, for tags whose values are all above 0 */
#define TN_CURVES_PLOT_OPTIONS_LIST(X)                                        \
    X(const char *, title, NULL)                                              \
    X(double, smooth, 0)                                                      \
    X(bool, log_scale, false)
TN_OPTIONS_STRUCT(tn_curves_plot, TN_CURVES_PLOT_OPTIONS_LIST);
#define TN_CURVES_PLOT_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_curves_plot, TN_CURVES_PLOT_OPTIONS_LIST)

/* Writes one picture with a plot for each tag and a line for each run, to path:
 * an HTML page if it ends in ".html", with values under the mouse pointer, or an
 * SVG picture if it ends in ".svg". The file needs no other file and no network,
 * and is readable in light and dark. A curve of more than 2,000 points is drawn
 * as the minimum and maximum of each of 1,000 groups of points. Fails with
 * TN_ERR_ARGUMENT for another ending, if there is no curve, or if smooth is out
 * of range; with TN_ERR_IO if path cannot be written; or with TN_ERR_MEMORY. */
TN_API tn_status tn_curves_plot_with(const tn_curves *curves, const char *path,
                                     const tn_curves_plot_options *options);

#ifndef __cplusplus
#define tn_curves_plot(...) TN_CALL_2(tn_curves_plot, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_2(tn_status, tn_curves_plot, const tn_curves *, const char *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
