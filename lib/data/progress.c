/* progress.c: a progress bar. Writes to the caller's file. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <tenon/data.h>
#include <time.h>
#include <unistd.h>

enum { BAR_CELLS = 24 };

/* Shortest times between two lines, in seconds. More frequent redraws of a
 * terminal cost time and flicker; more frequent lines fill a log. */
static const double redraw_s = 0.05, line_s = 30;

/* Weight of the latest interval in the moving average of a step's time. The
 * first steps are often slow, because kernels are compiled. */
static const double latest = 0.3;

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
    progress->start_s = progress->shown_s = now_s();
    snprintf(progress->label, sizeof progress->label, "%s",
             label ? label : "");
}

/* Writes "41.2/s", "0.083/s". */
static void put_speed(char *out, size_t room, double step_s)
{
    double speed = step_s > 0 ? 1 / step_s : 0;
    tn_format(out, room, speed >= 100 ? "%.0f/s" : "%.3g/s", speed);
}

/* Writes "0:07", "1:02:03". */
static void put_clock(char *out, size_t room, double seconds)
{
    const int64_t s = seconds < 3.6e8 ? (int64_t)(seconds + 0.5) : 360000000;
    if (s >= 3600)
        snprintf(out, room, "%lld:%02d:%02d", (long long)(s / 3600),
                 (int)(s / 60 % 60), (int)(s % 60));
    else
        snprintf(out, room, "%d:%02d", (int)(s / 60), (int)(s % 60));
}

static void show(const tn_progress *p, const char *note)
{
    char speed[32], left[32];
    put_speed(speed, sizeof speed, p->step_s);
    fprintf(p->file, "%s%s ", p->terminal ? "\r" : "", p->label);
    if (p->total) {
        const double part = (double)p->done / (double)p->total;
        const int full = (int)(part * BAR_CELLS);
        put_clock(left, sizeof left,
                  p->step_s * (double)(p->total - p->done));
        if (p->terminal)
            fprintf(p->file, "[%.*s%.*s] ", full, "########################",
                    BAR_CELLS - full, "........................");
        fprintf(p->file, "%3d%% %lld/%lld, %s, %s left", (int)(100 * part),
                (long long)p->done, (long long)p->total, speed, left);
    } else {
        fprintf(p->file, "%lld, %s", (long long)p->done, speed);
    }
    fprintf(p->file, " %s%s", note ? note : "",
            p->terminal ? "\033[K" : "\n");
    fflush(p->file);
}

void tn_progress_step(tn_progress *p, const char *note)
{
    if (!p || !p->file)
        return;
    if (p->done < p->total || !p->total)
        p->done++;
    const double now = now_s(), gone = now - p->shown_s;
    if (gone < (p->terminal ? redraw_s : line_s) || p->done == p->shown)
        return;
    const double step = gone / (double)(p->done - p->shown);
    p->step_s = p->shown ? latest * step + (1 - latest) * p->step_s : step;
    p->shown = p->done;
    p->shown_s = now;
    show(p, note);
}

void tn_progress_end(tn_progress *p, const char *note)
{
    if (!p || !p->file)
        return;
    const double all = now_s() - p->start_s;
    char seconds[40], speed[32];
    tn_format(seconds, sizeof seconds, "%.1f", all);
    put_speed(speed, sizeof speed, p->done ? all / (double)p->done : 0);
    fprintf(p->file, "%s%s  %s  (%s s%s%s)%s\n", p->terminal ? "\r" : "",
            p->label, note ? note : "", seconds, p->done ? ", " : "",
            p->done ? speed : "", p->terminal ? "\033[K" : "");
    fflush(p->file);
    p->file = NULL;
}
