/* progress.c: a progress bar. Writes to the caller's file. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <tenon/data.h>
#include <time.h>
#include <unistd.h>

enum { BAR_CELLS = 24 };

/* Shortest time between redraws of a terminal, in seconds. More frequent ones
 * cost time and flicker. */
static const double redraw_s = 0.05;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void tn_progress_begin(tn_progress *progress, FILE *file, int64_t total,
                       const char *label)
{
    if (!progress)
        return;
    memset(progress, 0, sizeof *progress);
    progress->file = file ? file : stderr;
    progress->total = total > 0 ? total : 0;
    progress->terminal = isatty(fileno(progress->file)) == 1;
    progress->start_s = now_s();
    snprintf(progress->label, sizeof progress->label, "%s",
             label ? label : "");
}

static void draw(const tn_progress *progress, const char *note)
{
    double part = progress->total
                      ? (double)progress->done / (double)progress->total
                      : 0;
    int full = (int)(part * BAR_CELLS);
    char bar[BAR_CELLS + 1];
    for (int i = 0; i < BAR_CELLS; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR_CELLS] = '\0';
    fprintf(progress->file, "\r%s [%s] %3d%% %s\033[K", progress->label, bar,
            (int)(100 * part), note ? note : "");
    fflush(progress->file);
}

void tn_progress_step(tn_progress *progress, const char *note)
{
    if (!progress || !progress->file)
        return;
    if (progress->done < progress->total)
        progress->done++;
    double now = now_s();
    if (progress->terminal && now - progress->drawn_s >= redraw_s) {
        progress->drawn_s = now;
        draw(progress, note);
    }
}

void tn_progress_end(tn_progress *progress, const char *note)
{
    if (!progress || !progress->file)
        return;
    char seconds[40];
    tn_format(seconds, sizeof seconds, "%.1f", now_s() - progress->start_s);
    fprintf(progress->file, "%s%s  %s  (%s s)%s\n",
            progress->terminal ? "\r" : "", progress->label, note ? note : "",
            seconds, progress->terminal ? "\033[K" : "");
    fflush(progress->file);
    progress->file = NULL;
}
