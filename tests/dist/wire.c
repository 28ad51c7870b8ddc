/* wire.c: a wire between two network namespaces, with a delay and a rate, which
 * can be cut:
 *
 *     wire NAMESPACE NAMESPACE DELAY_US RATE_GBIT
 *
 * Makes an interface w0 in each, and carries frames (of up to 64 KB, so that it
 * does not need a packet for each 1,500 bytes) from one to the other. SIGUSR1
 * cuts the wire: frames are lost, and the interfaces remain up, as if a switch
 * had failed. SIGUSR2 mends it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { FRAMES = 1024, FRAME = 70000, HEAD = 10 /* of TAP, before each frame */ };

typedef struct frame {
    int64_t due_ns;
    ssize_t bytes;
    unsigned char data[FRAME];
} frame;

/* Frames under way in one direction. */
typedef struct queue {
    frame *ring;
    unsigned first, end;
    int64_t free_ns; /* when the frames before have left */
} queue;

static volatile sig_atomic_t cut;

static void on_signal(int number)
{
    cut = number == SIGUSR1;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void need(bool good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(1);
}

static int open_tap(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "/run/netns/%s", name);
    int space = open(path, O_RDONLY | O_CLOEXEC);
    need(space >= 0 && !setns(space, CLONE_NEWNET), path);
    close(space);
    int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    need(tap >= 0, "/dev/net/tun");
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    snprintf(request.ifr_name, sizeof request.ifr_name, "w0");
    need(!ioctl(tap, TUNSETIFF, &request), "TUNSETIFF");
    need(!ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO_ECN),
         "TUNSETOFFLOAD");
    return tap;
}

/* Delivers the frames that are due. Returns whether there were any. */
static bool deliver(queue *q, int to)
{
    bool any = false;
    for (; q->first != q->end; q->first++) {
        frame *f = &q->ring[q->first % FRAMES];
        if (f->due_ns > now_ns() ||
            (!cut && write(to, f->data, (size_t)f->bytes) < 0 && errno == EAGAIN))
            break;
        any = true;
    }
    return any;
}

static bool accept_frames(queue *q, int from, int64_t delay_ns, double gbit)
{
    bool any = false;
    for (; q->end - q->first < FRAMES; q->end++) {
        frame *f = &q->ring[q->end % FRAMES];
        f->bytes = read(from, f->data, FRAME);
        if (f->bytes <= 0)
            break;
        const int64_t now = now_ns(), start = q->free_ns > now ? q->free_ns : now;
        q->free_ns = start + (int64_t)((double)(f->bytes - HEAD) * 8 / gbit);
        f->due_ns = q->free_ns + delay_ns;
        any = true;
    }
    return any;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: wire NAMESPACE NAMESPACE DELAY_US RATE_GBIT\n");
        return 2;
    }
    const int tap[2] = {open_tap(argv[1]), open_tap(argv[2])};
    const int64_t delay_ns = (int64_t)(atof(argv[3]) * 1e3);
    const double gbit = atof(argv[4]);
    queue way[2] = {{.ring = malloc(FRAMES * sizeof(frame))},
                    {.ring = malloc(FRAMES * sizeof(frame))}};
    need(way[0].ring && way[1].ring && gbit > 0, "wire");
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    prctl(PR_SET_TIMERSLACK, 1L);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        bool any = false;
        int64_t next = now_ns() + 1000000000;
        struct pollfd poll_of[2];
        for (int i = 0; i < 2; i++) {
            queue *q = &way[i];
            any = deliver(q, tap[!i]) || any;
            any = accept_frames(q, tap[i], delay_ns, gbit) || any;
            if (q->first != q->end && q->ring[q->first % FRAMES].due_ns < next)
                next = q->ring[q->first % FRAMES].due_ns;
            poll_of[i] = (struct pollfd){
                tap[i], q->end - q->first < FRAMES ? POLLIN : 0, 0};
        }
        int64_t left = next - now_ns();
        if (any || left <= 0)
            continue;
        const struct timespec wait = {left / 1000000000, left % 1000000000};
        ppoll(poll_of, 2, &wait, NULL);
    }
}
