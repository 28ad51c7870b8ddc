/* tenon_run.h: the command `tenon run`. */
#ifndef TN_TOOLS_TENON_RUN_H
#define TN_TOOLS_TENON_RUN_H

#include <stdbool.h>

/* Runs `tenon run` with the arguments after it. Returns the exit status, or -1
 * if the command line is wrong and nothing was printed. */
int tenon_run(int count, char **argument);

/* ---- tenon_run_hosts.c: through mpirun or srun ----------------------------- */

enum { TENON_RUN_HOSTS = 4096 };

typedef struct tenon_run_hosts {
    int count;
    char *text;            /* owned: the names */
    struct {
        const char *name;  /* in text */
        int slots;
        bool gone;
    } host[TENON_RUN_HOSTS];
    char **program;        /* lent */
    char **command;        /* owned */
    char *words[16];       /* owned: of command */
    int word_count;
} tenon_run_hosts;

/* Reads "a,b:4". Returns false if it is malformed. */
bool tenon_run_hosts_read(tenon_run_hosts *hosts, const char *list,
                          char **program);
/* Ranks for which there is room. */
int tenon_run_hosts_slots(const tenon_run_hosts *hosts);
/* Returns the command that starts the ranks; lent until the next call. Prints
 * why, and returns NULL, if there is neither mpirun nor srun. */
char **tenon_run_hosts_command(tenon_run_hosts *hosts, int ranks, bool prefix,
                               double grace);
/* Asks each host for a sign of life. Returns the ranks for which there is room on
 * those that answer; the others are left out from now on. */
int tenon_run_hosts_left(tenon_run_hosts *hosts);
void tenon_run_hosts_fini(tenon_run_hosts *hosts);

#endif
