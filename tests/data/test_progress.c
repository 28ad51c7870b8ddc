/* test_progress.c: what a progress bar writes to a file and to a terminal. */
#include <tenon/tenon.h>

#include <fcntl.h>
#include <regex.h>
#include <stdlib.h>
#include <unistd.h>

#include "../tap.h"

static bool matches(const char *text, const char *pattern)
{
    regex_t compiled;
    if (regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        bail_out("%s is no regular expression", pattern);
    const bool found = regexec(&compiled, text, 0, NULL, 0) == 0;
    regfree(&compiled);
    return found;
}

/* Runs a stage of `steps` steps that writes to file, and pauses after each
 * step. */
static void stage(FILE *file, int64_t total, int steps, unsigned pause_us)
{
    tn_progress bar;
    tn_progress_begin(&bar, file, total, "epoch 1/2");
    for (int i = 0; i < steps; i++) {
        usleep(pause_us);
        tn_progress_step(&bar, "loss 0.5");
    }
    tn_progress_end(&bar, "loss 0.4");
    tn_progress_step(&bar, "too late");
}

static void test_file(void)
{
    char text[1000] = "";
    FILE *file = tmpfile();
    if (!file)
        bail_out("tmpfile");
    stage(file, 4, 4, 0);
    stage(file, 0, 0, 0);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    ok(matches(text, "^epoch 1/2  loss 0\\.4  \\([0-9.]+ s, [0-9.e+]+/s\\)\n"
                     "epoch 1/2  loss 0\\.4  \\([0-9.]+ s\\)\n$"),
       "in a file, a stage is one line: %s", text);
}

/* Runs a stage on a pseudo terminal and returns what it wrote. */
static const char *on_terminal(int64_t total, int steps, unsigned pause_us)
{
    static char text[20000];
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
        return NULL;
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    FILE *file = terminal < 0 ? NULL : fdopen(terminal, "w");
    if (!file)
        return NULL;
    stage(file, total, steps, pause_us);
    /* a read returns one piece of what was written; after the terminal is
     * closed and all is read, it fails with EIO */
    fclose(file);
    size_t all = 0;
    ssize_t got;
    while ((got = read(master, text + all, sizeof text - 1 - all)) > 0)
        all += (size_t)got;
    text[all] = '\0';
    close(master);
    return text;
}

static void test_terminal(void)
{
    const char *text = on_terminal(4, 4, 60000);
    if (!text) {
        skip(4, "no pseudo terminal");
        return;
    }
    ok(matches(text, "\repoch 1/2 \\[#{12}\\.{12}\\]  50% 2/4, [0-9.]+/s, 0:00 "
                     "left loss 0\\.5"),
       "on a terminal, the bar, the speed and the time left are drawn: %s",
       text);
    ok(matches(text, "\\[#{24}\\] 100% 4/4"), "the bar is full at the end");
    ok(matches(text, "\repoch 1/2  loss 0\\.4  \\([0-9.]+ s, [0-9.]+/s\\)"),
       "the last line replaces it");
    text = on_terminal(0, 2, 60000);
    ok(text && matches(text, "\repoch 1/2 2, [0-9.]+/s loss 0\\.5"),
       "without a total, the steps and the speed are shown: %s", text);
}

int main(void)
{
    test_file();
    test_terminal();
    return done_testing();
}
