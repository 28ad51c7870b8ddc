/* probe.c: queries the devices of a plugin in a child process.
 *
 * Some vendor libraries abort the process or print on machines that they do not
 * support. An example is two copies of LLVM in one process (pocl#474). If that
 * happens in the child process, the program that lists devices does not crash,
 * and shows the reason for that plugin. */
#include <device/registry.h>

#include <base/plain.h>
#include <base/platform.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int32_t tn__probe_timeout_ms = 20000; /* 20 seconds, because the first start of
                                       * CUDA takes several */

/* Queries the plugin in this process, which is the child. */
static void query(tn__plugin *plugin, tn__probe *out)
{
    memset(out, 0, sizeof *out);
    if (!tn__plugin_load(plugin)) {
        snprintf(out->reason, sizeof out->reason, "%s", plugin->reason);
        snprintf(out->remedy, sizeof out->remedy, "%s", plugin->remedy);
        return;
    }
    out->usable = tn__plugin_count(plugin, &out->count, out->reason,
                                   sizeof out->reason);
    uint32_t room = sizeof out->info / sizeof *out->info;
    for (uint32_t i = 0; out->usable && i < out->count && i < room; i++)
        out->usable = tn__plugin_info(plugin, i, &out->info[i], out->reason,
                                      sizeof out->reason);
}

static void child(tn__plugin *plugin, int result, int output)
{
    const int fatal[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        signal(fatal[i], SIG_DFL);
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDERR_FILENO);
    dup2(output, STDOUT_FILENO);
    /* Discards buffered output of the program in the child's copy of stdout;
     * the parent will write it. */
    __fpurge(stdout);
    tn__probe probe;
    query(plugin, &probe);
    fflush(stdout);
    for (size_t done = 0; done < sizeof probe;) {
        ssize_t n = write(result, (const char *)&probe + done,
                          sizeof probe - done);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    _exit(0);
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads the child's result and whether it printed, until both pipes are closed.
 * Returns false if the child takes too long. */
static bool read_pipes(int result, int output, tn__probe *out, size_t *got,
                      bool *printed)
{
    struct pollfd fds[2] = {{.fd = result, .events = POLLIN},
                            {.fd = output, .events = POLLIN}};
    int64_t end = now_ms() + tn__probe_timeout_ms;
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        int64_t left = end - now_ms();
        if (left <= 0)
            return false;
        if (poll(fds, 2, (int)left) < 0 && errno != EINTR)
            return false;
        for (int i = 0; i < 2; i++) {
            if (fds[i].fd < 0 || !fds[i].revents)
                continue;
            char discarded[256];
            bool first = i == 0 && *got < sizeof *out;
            ssize_t n = read(fds[i].fd, first ? (char *)out + *got : discarded,
                             first ? sizeof *out - *got : sizeof discarded);
            if (n == 0 || (n < 0 && errno != EINTR))
                fds[i].fd = -1;
            else if (n > 0 && i == 0)
                *got += (size_t)n;
            else if (n > 0)
                *printed = true;
        }
    }
    return true;
}

__attribute__((format(printf, 2, 3))) static void
unusable(tn__probe *out, const char *format, ...)
{
    memset(out, 0, sizeof *out);
    va_list args;
    va_start(args, format);
    tn__plain_vprint(out->reason, sizeof out->reason, format, args);
    va_end(args);
    snprintf(out->remedy, sizeof out->remedy,
             "remove it, or tell its author: a plugin reports errors, it never "
             "prints or ends the process");
}

/* Reports that the child process could not be started, which is not the
 * plugin's fault. */
static void not_probed(tn__probe *out, int error)
{
    memset(out, 0, sizeof *out);
    snprintf(out->reason, sizeof out->reason,
             "no process or pipe to probe it: %s", strerror(error));
    snprintf(out->remedy, sizeof out->remedy,
             "raise the limits of processes and open files, then try again");
}

static void probe_child(tn__plugin *plugin, tn__probe *out)
{
    int result[2], output[2];
    if (pipe2(result, O_CLOEXEC)) {
        not_probed(out, errno);
        return;
    }
    if (pipe2(output, O_CLOEXEC)) {
        not_probed(out, errno);
        close(result[0]);
        close(result[1]);
        return;
    }
    pid_t pid = fork();
    const int fork_error = errno;
    if (pid == 0)
        child(plugin, result[1], output[1]);
    close(result[1]);
    close(output[1]);
    size_t got = 0;
    bool printed = false, in_time = true;
    int status = 0;
    if (pid > 0) {
        in_time = read_pipes(result[0], output[0], out, &got, &printed);
        if (!in_time)
            kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    close(result[0]);
    close(output[0]);
    if (pid < 0)
        not_probed(out, fork_error);
    else if (!in_time)
        unusable(out, "gave no answer in %d s while probing",
                 tn__probe_timeout_ms / 1000);
    else if (WIFSIGNALED(status))
        unusable(out, "crashed while probing (signal %d)", WTERMSIG(status));
    else if (got != sizeof *out)
        unusable(out, "ended the process while probing (exit status %d)",
                 WEXITSTATUS(status));
    else if (printed)
        unusable(out, "writes to stdout while probing");
}

void tn__plugin_probe(tn__plugin *plugin, tn__probe *out)
{
    if (plugin->state == TN__PLUGIN_FOUND)
        probe_child(plugin, out);
    else
        query(plugin, out);
}
