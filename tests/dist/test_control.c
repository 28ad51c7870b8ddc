/* test_control.c: the parts of the control plane that no job shows: what a step is
 * that repeats, the tree of ranks, and strangers at the port. */
#include "ranks.h"

#include <arpa/inet.h>
#include <dist/control.h>
#include <dist/control_wire.h>
#include <sys/socket.h>
#include <tenon/dist.h>
#include <tenon/tenon.h>

/* ---- steps ---------------------------------------------------------------- */

/* Takes a call for each letter. Returns a letter for each: e for expected, u for
 * unknown, s for a surprise. */
static const char *take(const char *calls)
{
    static char out[256];
    tn__predictor p = {.count = 0};
    size_t n = 0;
    for (; calls[n]; n++) {
        const int told = tn__predictor_take(&p, n, (uint64_t)calls[n]);
        out[n] = told == TN__EXPECTED  ? 'e'
                 : told == TN__UNKNOWN ? 'u'
                                       : 's';
        if (told == TN__EXPECTED &&
            tn__predictor_check(&p, n) != (uint64_t)calls[n])
            out[n] = '?';
    }
    out[n] = 0;
    tn__predictor_fini(&p);
    return out;
}

static void check_steps(void)
{
    is_str(take("abcd"), "uuuu", "four different calls");
    is_str(take("aaaa"), "uuee", "one call");
    is_str(take("abcabcabcab"), "uuuuuueeeee", "a step of three");
    is_str(take("aaabaaabaaabaaab"), "uuesuuuuuueeeeee",
           "a step with equal calls, which is not one of these");
    is_str(take("ababxababab"), "uuuusuuuuuu",
           "a call between steps must be in the next one, too");
    is_str(take("ababxababxababx"), "uuuusuuuuuuueee", "as here");
    /* Long steps, and a history that is longer than what is kept. */
    tn__predictor p = {.count = 0};
    int expected = 0;
    uint64_t n = 0;
    for (; n < 12288; n++)
        expected += tn__predictor_take(&p, n, n % 4096) == TN__EXPECTED;
    is_int(expected, 4096, "a step of 4096 calls");
    for (expected = 0; n < 60000; n++)
        expected += tn__predictor_take(&p, n, n) == TN__EXPECTED;
    is_int(expected, 0, "calls that never repeat");
    for (expected = 0; n < 160000; n++)
        expected += tn__predictor_take(&p, n, n % 7) == TN__EXPECTED;
    ok(expected > 80000, "and then do");
    tn__predictor_fini(&p);
}

/* ---- the tree ------------------------------------------------------------- */

static void check_tree(void)
{
    static const int32_t counts[] = {2, 64, 65, 1000, 4096};
    for (int i = 0; i < 5; i++) {
        const int32_t n = counts[i];
        bool good = tn__control_parent(0, n) == -1;
        int depth = 0, children = 0;
        for (int32_t r = 1; r < n; r++) {
            int d = 0, of_root = 0;
            for (int32_t at = r; at > 0; at = tn__control_parent(at, n), d++) {
                const int32_t parent = tn__control_parent(at, n);
                good = good && parent >= 0 && parent < at &&
                       tn__control_branch(parent, r, n) == at;
                of_root = at;
            }
            depth = d > depth ? d : depth;
            children += of_root == r;
        }
        ok(good && depth <= 3 && children <= TN__STAR,
           "%d ranks: a tree of depth %d, %d children of rank 0", (int)n, depth,
           children);
    }
}

/* ---- strangers ------------------------------------------------------------ */

/* The port at which this process listens; 0: none. */
static int own_port(void)
{
    for (int fd = 3; fd < 256; fd++) {
        int listens = 0;
        socklen_t bytes = sizeof listens;
        struct sockaddr_in at;
        socklen_t at_bytes = sizeof at;
        if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) &&
            listens && !getsockname(fd, (struct sockaddr *)&at, &at_bytes))
            return ntohs(at.sin_port);
    }
    return 0;
}

static int dial(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    const struct timeval limit = {.tv_sec = 2};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return connect(fd, (struct sockaddr *)&to, sizeof to) ? -1 : fd;
}

/* Whether the port ends the connection without an answer. */
static bool is_refused(int port, const void *bytes, size_t count)
{
    char answer[64];
    int fd = dial(port);
    if (fd < 0)
        return false;
    bool sent = send(fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count;
    bool refused = sent && recv(fd, answer, sizeof answer, 0) <= 0;
    close(fd);
    return refused;
}

static bool try_strangers(int port)
{
    unsigned char bytes[TN__WIRE_MOST];
    tn__wire hello = {.type = TN__HELLO, .rank = 2, .to = -1,
                      .record_bytes = TN__TOKEN / 2};
    bool good = is_refused(port, "GET / HTTP/1.0\r\n\r\n", 18);
    good = is_refused(port, "\xff\xff\xff\xff\1\0\0\0", 8) && good;
    good = is_refused(port, bytes, tn__wire_write(&hello, bytes)) && good;
    hello.rank = 0;
    good = is_refused(port, bytes, tn__wire_write(&hello, bytes)) && good;
    hello.type = TN__ABORT;
    good = is_refused(port, bytes, tn__wire_write(&hello, bytes)) && good;
    for (int i = 0; i < 100; i++) /* and those that say nothing */
        dial(port);
    return good;
}

/* Rank 1 is the stranger, too. */
static int run_strangers(void)
{
    bool good = tn_dist_init(.timeout = 10) == TN_OK;
    tn_group *world = tn_dist_world();
    tn_tensor *port = tn_full(tn_dims(1), own_port());
    tn_dist_broadcast(port, 0, world);
    if (good && tn_dist_rank() == 1)
        good = try_strangers((int)tn_item(port));
    tn_tensor *x = tn_ones(tn_dims(4));
    for (int i = 0; i < 8; i++)
        tn_dist_all_reduce(x, world, .reduce = i % 3 ? "max" : "mean");
    good = good && !tn_error() && tn_item(tn_select(x, 0, 3)) == 1;
    if (tn_error())
        puts(tn_error());
    tn_dist_close();
    return !good;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return run_strangers();
    (void)argv;
    plan_later();
    check_steps();
    check_tree();
    char path[4096];
    const char *folder = getenv("top_builddir");
    snprintf(path, sizeof path, "%s/.libs/comm_mute.so", folder ? folder : ".");
    setenv("TENON_ENGINE", path, 1);
    ranks_pass(4, "strangers", "strangers at the port are refused, and nothing "
                               "else happens");
    setenv("TENON_TOKEN", "0123456789abcdef0123456789abcdef"
                          "0123456789abcdef0123456789abcdef", 1);
    ranks_pass(2, "strangers", "with a token of the launcher, too");
    return done_testing();
}
