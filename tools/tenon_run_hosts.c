/* tenon_run_hosts.c: `tenon run --hosts`: the command line of mpirun (Open MPI or
 * MPICH), or in an allocation of SLURM that of srun.
 *
 * They pass variables on by name, so that the token of the job is in no command
 * line, which every user of a machine can read. */
#include "tenon_run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { OPEN_MPI, MPICH, SRUN, NOTHING };

bool tenon_run_hosts_read(tenon_run_hosts *h, const char *list, char **program)
{
    h->text = strdup(list);
    h->program = program;
    char *rest = NULL;
    if (!h->text || !*list)
        return false;
    for (char *name = strtok_r(h->text, ",", &rest); name;
         name = strtok_r(NULL, ",", &rest)) {
        char *colon = strchr(name, ':'), *end = "";
        long slots = colon ? strtol(colon + 1, &end, 10) : 1;
        if (colon)
            *colon = 0;
        /* A name that begins with '-' would be an option. */
        if (!*name || *name == '-' || *end || slots < 1 || slots > 65536 ||
            h->count == TENON_RUN_HOSTS)
            return false;
        h->host[h->count].name = name;
        h->host[h->count++].slots = (int)slots;
    }
    return h->count > 0;
}

int tenon_run_hosts_slots(const tenon_run_hosts *h)
{
    int slots = 0;
    for (int i = 0; i < h->count; i++)
        slots += h->host[i].gone ? 0 : h->host[i].slots;
    return slots;
}

static void clear(tenon_run_hosts *h)
{
    while (h->word_count)
        free(h->words[--h->word_count]);
    free(h->command);
    h->command = NULL;
}

void tenon_run_hosts_fini(tenon_run_hosts *h)
{
    clear(h);
    free(h->text);
    h->text = NULL;
}

/* ---- which launcher ------------------------------------------------------- */

/* Reads what `NAME --version` prints. Returns 1 if it has one of two words, 0 if
 * not, -1 if there is no such program. */
static int has_word(const char *command, const char *word, const char *other)
{
    char line[256];
    FILE *version = popen(command, "r");
    int found = -1;
    while (version && fgets(line, sizeof line, version)) {
        const bool has = strstr(line, word) || strstr(line, other);
        found = has || found == 1;
    }
    if (version)
        pclose(version);
    return found;
}

static int find_launcher(void)
{
    if (getenv("SLURM_JOB_ID") &&
        has_word("srun --version 2>/dev/null", "slurm", "srun") >= 0)
        return SRUN;
    const int open_mpi = has_word("mpirun --version 2>/dev/null", "Open MPI",
                                  "OpenRTE");
    return open_mpi < 0 ? NOTHING : open_mpi ? OPEN_MPI : MPICH;
}

/* ---- the command ---------------------------------------------------------- */

/* A word that clear() frees. Without memory NULL, which ends the command: mpirun
 * then prints its usage. */
static char *word(tenon_run_hosts *h, char *text)
{
    if (text)
        h->words[h->word_count++] = text;
    return text;
}

__attribute__((format(printf, 2, 3))) static char *
print(tenon_run_hosts *h, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    return length < 0 ? NULL : word(h, text);
}

/* "a:1,b:4", or only the names; only: this host. */
static char *list_hosts(tenon_run_hosts *h, bool slots, int only)
{
    size_t room = 1, used = 0;
    for (int i = 0; i < h->count; i++)
        room += strlen(h->host[i].name) + 16;
    char *text = calloc(1, room);
    for (int i = 0; text && i < h->count; i++) {
        if (h->host[i].gone || (only >= 0 && i != only))
            continue;
        used += (size_t)snprintf(text + used, room - used, "%s%s",
                                 used ? "," : "", h->host[i].name);
        if (slots)
            used += (size_t)snprintf(text + used, room - used, ":%d",
                                     only >= 0 ? 1 : h->host[i].slots);
    }
    return word(h, text);
}

static int variables(void)
{
    int n = 0;
    for (char **at = environ; *at; at++)
        n += !strncmp(*at, "TENON_", 6);
    return n;
}

/* The names of Tenon's variables, each after `option`, or joined by commas. */
static int add_names(tenon_run_hosts *h, char **command, char *option, bool join)
{
    static char token[] = "TENON_TOKEN", restart[] = "TENON_RESTART";
    int n = 0;
    size_t room = sizeof token + sizeof restart + 2;
    for (char **at = environ; *at; at++)
        room += strlen(*at) + 1;
    char *all = word(h, calloc(1, room)), *own = word(h, calloc(1, room));
    if (!all || !own)
        return 0;
    char *put = own;
    command[n++] = option;
    sprintf(all, "%s,%s", token, restart);
    if (!join) {
        command[n++] = token;
        command[n++] = option;
        command[n++] = restart;
    }
    for (char **at = environ; *at; at++) {
        const size_t length = strcspn(*at, "=");
        if (strncmp(*at, "TENON_", 6) || !strncmp(*at, "TENON_TOKEN=", 12) ||
            !strncmp(*at, "TENON_RESTART=", 14))
            continue;
        memcpy(put, *at, length);
        put[length] = 0;
        if (join) {
            strcat(strcat(all, ","), put);
        } else {
            command[n++] = option;
            command[n++] = put;
        }
        put += length + 1;
    }
    if (join)
        command[n++] = all;
    return n;
}

/* The launcher and its options, for `ranks`, or for one process on host `only`.
 * Returns the number of words; 0 after a message. */
static int add_launcher(tenon_run_hosts *h, char **command, int ranks, int only)
{
    const int kind = find_launcher();
    int n = 0;
    if (kind == NOTHING) {
        fprintf(stderr, "tenon run: --hosts needs mpirun (Open MPI or MPICH), or "
                "srun in an allocation of SLURM; neither is in PATH\n");
        return 0;
    }
    static char mpirun[] = "mpirun", srun[] = "srun", number[] = "-n",
                host[] = "--host", hosts[] = "-hosts", nodes[] = "-w",
                pmix[] = "--mpi=pmix", export[] = "-x", list[] = "-genvlist",
                spread[] = "--distribution=block";
    command[n++] = kind == SRUN ? srun : mpirun;
    command[n++] = number;
    command[n++] = print(h, "%d", ranks);
    command[n++] = kind == SRUN ? nodes : kind == MPICH ? hosts : host;
    command[n++] = list_hosts(h, kind != SRUN, only);
    if (kind == SRUN) {
        int most = 1;
        for (int i = 0; i < h->count; i++)
            most = h->host[i].slots > most ? h->host[i].slots : most;
        command[n++] = print(h, "--ntasks-per-node=%d", only < 0 ? most : 1);
        command[n++] = spread;
        command[n++] = pmix;
    } else if (only < 0) {
        n += add_names(h, command + n, kind == MPICH ? list : export,
                       kind == MPICH);
    }
    return n;
}

char **tenon_run_hosts_command(tenon_run_hosts *h, int ranks, bool prefix,
                               double grace)
{
    clear(h);
    int program = 0;
    while (h->program[program])
        program++;
    h->command = calloc((size_t)(program + 2 * variables() + 40),
                        sizeof *h->command);
    char self[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    int n = h->command && length > 0 ? add_launcher(h, h->command, ranks, -1) : 0;
    if (!n)
        return NULL;
    static char run[] = "run", one[] = "--one", plain[] = "--no-prefix",
                wait[] = "--grace", end[] = "--";
    self[length] = 0;
    h->command[n++] = print(h, "%s", self);
    h->command[n++] = run;
    h->command[n++] = one;
    if (!prefix)
        h->command[n++] = plain;
    h->command[n++] = wait;
    h->command[n++] = print(h, "%g", grace);
    h->command[n++] = end;
    for (int i = 0; i < program; i++)
        h->command[n++] = h->program[i];
    return h->command;
}

/* ---- who is left ---------------------------------------------------------- */

/* Runs `true` on the host. Returns whether that works within some seconds. */
static bool answers(tenon_run_hosts *h, int host)
{
    enum { SECONDS = 15 };
    char *command[32] = {NULL};
    static char nothing[] = "true";
    clear(h);
    const int n = add_launcher(h, command, 1, host);
    if (!n)
        return false;
    command[n] = nothing;
    const pid_t process = fork();
    if (process == 0) {
        int null = open("/dev/null", O_RDWR);
        for (int fd = 0; fd < 3; fd++)
            dup2(null, fd);
        setpgid(0, 0);
        execvp(command[0], command);
        _exit(127);
    }
    int status = -1;
    const time_t end = time(NULL) + SECONDS;
    while (process > 0 && waitpid(process, &status, WNOHANG) == 0) {
        if (time(NULL) >= end) {
            kill(-process, SIGKILL);
            waitpid(process, &status, 0);
            return false;
        }
        poll(NULL, 0, 50);
    }
    return process > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int tenon_run_hosts_left(tenon_run_hosts *h)
{
    for (int i = 0; i < h->count; i++)
        if (!h->host[i].gone && !answers(h, i)) {
            h->host[i].gone = true;
            fprintf(stderr, "tenon run: %s does not answer\n", h->host[i].name);
        }
    return tenon_run_hosts_slots(h);
}
