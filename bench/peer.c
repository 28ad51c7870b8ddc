/* peer.c: runs PyTorch in a Python process and sends it commands over two
 * pipes, so that its rounds alternate with ours. compare.py describes the
 * protocol. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

/* torch allocates memory with malloc. By default glibc returns blocks of
 * megabytes to the system at once, and the next allocation causes page faults
 * again. With these variables glibc keeps the blocks and uses huge pages, as
 * Tenon does. */
#define KEEP "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=68719476736"
#define HUGE_PAGES "glibc.malloc.hugetlb=1"
const char bench_peer_tuning[] = "GLIBC_TUNABLES=" KEEP ":" HUGE_PAGES;

struct bench_peer {
    pid_t process;
    FILE *to, *from;
    char version[64];
};

static void become(const char *python, const char *script, const char *way,
                   int threads, const char *device, bool tuned,
                   const int to[2], const int from[2])
{
    char count[16];
    snprintf(count, sizeof count, "%d", threads);
    if (tuned)
        setenv("GLIBC_TUNABLES", strchr(bench_peer_tuning, '=') + 1, 1);
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    execlp(python, python, script, way, count, device, (char *)NULL);
    _exit(127);
}

bench_peer *bench_peer_start(const char *python, const char *script,
                             const char *way, int threads, const char *device,
                             bool tuned)
{
    int to[2], from[2];
    bench_peer *peer = calloc(1, sizeof *peer);
    /* O_CLOEXEC: a child must not inherit the pipes of another child. It would
     * keep them open, and the other child would not end when we close them. */
    if (!peer || pipe2(to, O_CLOEXEC) != 0) {
        free(peer);
        return NULL;
    }
    if (pipe2(from, O_CLOEXEC) != 0) {
        close(to[0]);
        close(to[1]);
        free(peer);
        return NULL;
    }
    peer->process = fork();
    if (peer->process == 0)
        become(python, script, way, threads, device, tuned, to, from);
    close(to[0]);
    close(from[1]);
    peer->to = fdopen(to[1], "w");
    peer->from = fdopen(from[0], "r");
    if (peer->process > 0 && peer->to && peer->from &&
        fscanf(peer->from, "torch %63s", peer->version) == 1)
        return peer;
    bench_peer_stop(peer);
    return NULL;
}

const char *bench_peer_version(const bench_peer *peer)
{
    return peer->version;
}

bool bench_peer_open(bench_peer *peer, const char *group,
                     const bench_work *work)
{
    char answer[8];
    fprintf(peer->to, "open %s.%s", group, work->name);
    for (int i = 0; i < 3 && work->size[i] > 0; i++)
        fprintf(peer->to, " %lld", (long long)work->size[i]);
    fprintf(peer->to, "\n");
    return fflush(peer->to) == 0 && fscanf(peer->from, "%7s", answer) == 1 &&
           strcmp(answer, "ready") == 0;
}

bool bench_peer_losses(bench_peer *peer, const char *group,
                       const bench_work *work, const char *file, int count,
                       double *out_losses)
{
    fprintf(peer->to, "losses %d %s %s.%s", count, file, group, work->name);
    for (int i = 0; i < 3 && work->size[i] > 0; i++)
        fprintf(peer->to, " %lld", (long long)work->size[i]);
    fprintf(peer->to, "\n");
    char answer[512], *end = answer; /* the answer is one line, maybe "none" */
    bool good = fflush(peer->to) == 0 &&
                fscanf(peer->from, " %511[^\n]", answer) == 1;
    for (int i = 0; good && i < count; i++) {
        const char *begin = end;
        out_losses[i] = strtod(begin, &end);
        good = end > begin;
    }
    return good;
}

double bench_peer_sample(bench_peer *peer, int64_t calls)
{
    double ns;
    fprintf(peer->to, "run %lld\n", (long long)calls);
    return fflush(peer->to) == 0 && fscanf(peer->from, "%lf", &ns) == 1 ? ns
                                                                        : -1;
}

void bench_peer_stop(bench_peer *peer)
{
    if (!peer)
        return;
    if (peer->to)
        fclose(peer->to); /* the peer exits at the end of its input */
    if (peer->from)
        fclose(peer->from);
    if (peer->process > 0)
        waitpid(peer->process, NULL, 0);
    free(peer);
}
