/* control_link.c: the connections of the control plane. A connection counts when
 * it has said hello with the token; anything else on the port is closed. */
#include <dist/control.h>
#include <dist/dist.h>

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* A connection whose other end does not read is given up. */
enum { STORED_MOST = 16 << 20 };

void tn__control_wake(tn__control *c)
{
    const uint64_t one = 1;
    if (c->runs && write(c->wake, &one, sizeof one) < 0)
        return; /* it is about to wake up already */
}

tn__link *tn__link_add(tn__control *c, int fd, int32_t rank)
{
    tn__link *link = calloc(1, sizeof *link);
    tn__link **links = link ? realloc(c->link, (size_t)(c->links + 1) *
                                                   sizeof *links)
                            : NULL;
    if (links)
        c->link = links;
    if (!links) {
        free(link);
        close(fd);
        return NULL;
    }
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    link->fd = fd;
    link->rank = rank;
    link->since_ns = link->heard_ns = tn__dist_now();
    c->link[c->links++] = link;
    return link;
}

void tn__link_remove(tn__control *c, int index)
{
    tn__link *link = c->link[index];
    close(link->fd);
    free(link->out);
    free(link);
    c->link[index] = c->link[--c->links];
}

bool tn__link_flush(tn__link *link)
{
    while (link->out_bytes) {
        ssize_t sent = send(link->fd, link->out, link->out_bytes,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK;
        link->out_bytes -= (size_t)sent;
        memmove(link->out, link->out + sent, link->out_bytes);
    }
    return true;
}

void tn__link_send(tn__control *c, tn__link *link, const tn__wire *message)
{
    unsigned char bytes[TN__WIRE_MOST];
    const size_t n = tn__wire_write(message, bytes);
    if (link->out_bytes && message->type == TN__BEAT)
        return; /* it reads slowly: what is stored is a sign of life, too */
    if (link->out_bytes + n > link->out_room) {
        size_t room = link->out_room * 2 + 2 * TN__WIRE_MOST;
        unsigned char *out = room <= STORED_MOST ? realloc(link->out, room) : NULL;
        if (!out) {
            shutdown(link->fd, SHUT_RDWR); /* poll then reports its end */
            link->out_bytes = 0;
            return;
        }
        link->out = out;
        link->out_room = room;
    }
    memcpy(link->out + link->out_bytes, bytes, n);
    link->out_bytes += n;
    if (!tn__link_flush(link))
        link->out_bytes = 0;
    else if (link->out_bytes)
        tn__control_wake(c);
}

/* ---- the token ------------------------------------------------------------ */

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

tn_status tn__control_token(int32_t rank, const char *text,
                            unsigned char out[TN__TOKEN])
{
    memset(out, 0, TN__TOKEN);
    if (!text) {
        if (rank == 0 && getrandom(out, TN__TOKEN, 0) != TN__TOKEN)
            return tn_error_set(TN_ERR_STATE, "dist_init: no random numbers: %s",
                                strerror(errno));
        return TN_OK;
    }
    for (int i = 0; i < 2 * TN__TOKEN; i++) {
        const int value = digit(text[i]);
        if (value < 0 || (i + 1 == 2 * TN__TOKEN && text[i + 1]))
            return tn_error_set(TN_ERR_ARGUMENT, "dist_init: TENON_TOKEN is not "
                                "%d digits from 0 to f", 2 * TN__TOKEN);
        out[i / 2] = (unsigned char)(out[i / 2] << 4 | value);
    }
    return TN_OK;
}

/* ---- where processes are -------------------------------------------------- */

/* Processes with the same number reach each other by the loopback: the kernel's
 * boot and the network namespace. */
uint64_t tn__control_machine(void)
{
    uint64_t h = 0xcbf29ce484222325u;
    char boot[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && !fgets(boot, sizeof boot, file))
        boot[0] = 0;
    if (file)
        fclose(file);
    if (!boot[0])
        gethostname(boot, sizeof boot - 1);
    for (const char *at = boot; *at; at++)
        h = (h ^ (unsigned char)*at) * 0x100000001b3u;
    struct stat net;
    if (!stat("/proc/self/ns/net", &net))
        h = (h ^ net.st_ino) * 0x100000001b3u;
    return h;
}

static void list_addresses(tn__address *out)
{
    struct ifaddrs *all = NULL;
    int n = 0;
    if (getifaddrs(&all))
        return;
    for (struct ifaddrs *at = all; at && n < 4; at = at->ifa_next) {
        if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET ||
            !(at->ifa_flags & IFF_UP) || (at->ifa_flags & IFF_LOOPBACK))
            continue;
        struct sockaddr_in ip;
        memcpy(&ip, at->ifa_addr, sizeof ip);
        out->ip[n++] = ip.sin_addr.s_addr;
    }
    freeifaddrs(all);
}

tn_status tn__link_listen(tn__control *c, bool wide, tn__address *out)
{
    struct sockaddr_in own = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(wide ? INADDR_ANY
                                                            : INADDR_LOOPBACK)};
    socklen_t bytes = sizeof own;
    c->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->listener < 0 || bind(c->listener, (struct sockaddr *)&own, bytes) ||
        listen(c->listener, 1024) ||
        getsockname(c->listener, (struct sockaddr *)&own, &bytes))
        return tn_error_set(TN_ERR_STATE, "dist_init: no port to listen at: %s",
                            strerror(errno));
    out->port = ntohs(own.sin_port);
    if (wide)
        list_addresses(out);
    return TN_OK;
}

/* ---- joining -------------------------------------------------------------- */

static int left_ms(uint64_t deadline)
{
    const uint64_t now = tn__dist_now();
    return deadline <= now ? 0 : (int)((deadline - now) / 1000000u) + 1;
}

/* Returns a connected socket, or -1. */
static int dial(uint32_t ip, uint32_t port, uint64_t deadline)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = ip,
                             .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int error = connect(fd, (struct sockaddr *)&to, sizeof to) ? errno : 0;
    if (error == EINPROGRESS) {
        struct pollfd wait = {fd, POLLOUT, 0};
        socklen_t bytes = sizeof error;
        if (poll(&wait, 1, left_ms(deadline)) != 1 ||
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes))
            error = ETIMEDOUT;
    }
    if (!error)
        return fd;
    close(fd);
    return -1;
}

/* Says hello, and waits for the welcome that only the job's own node knows. */
static bool greet(tn__control *c, tn__link *link, uint64_t deadline)
{
    const tn__address *root = &c->address[0];
    tn__wire m = {.type = TN__HELLO, .rank = c->rank, .to = -1,
                  .record_bytes = TN__TOKEN / 2};
    memcpy(m.record, root->token, TN__TOKEN / 2);
    tn__link_send(c, link, &m);
    for (;;) {
        struct pollfd wait = {link->fd, POLLIN, 0};
        if (poll(&wait, 1, left_ms(deadline)) != 1)
            return false;
        /* Not a byte more than the welcome: the thread reads the rest. */
        size_t want = 4; /* first its length */
        if (link->in_bytes >= 4)
            want = (size_t)link->in[0] | (size_t)link->in[1] << 8 |
                   (size_t)link->in[2] << 16 | (size_t)link->in[3] << 24;
        if (want > sizeof link->in || want <= link->in_bytes)
            return false;
        ssize_t got = recv(link->fd, link->in + link->in_bytes,
                           want - link->in_bytes, 0);
        if (got <= 0)
            return false;
        link->in_bytes += (size_t)got;
        int n = tn__wire_read(link->in, link->in_bytes, &m);
        if (n < 0)
            return false;
        if (n == 0)
            continue;
        link->in_bytes = 0;
        return m.type == TN__WELCOME && m.record_bytes == TN__TOKEN / 2 &&
               tn__token_is(m.record, root->token + TN__TOKEN / 2, TN__TOKEN / 2);
    }
}

tn_status tn__link_connect(tn__control *c, uint64_t deadline)
{
    const int32_t parent = tn__control_parent(c->rank, c->count);
    const tn__address *to = &c->address[parent];
    for (int i = 0; tn__dist_now() < deadline; i = (i + 1) % 5) {
        const bool near = i == 0;
        if (i == 4)
            poll(NULL, 0, 20);
        if (near ? to->machine != c->address[c->rank].machine : !to->ip[i - 1])
            continue;
        /* A few seconds for each address: some lead nowhere. */
        uint64_t end = tn__dist_now() + 3000000000u;
        end = end < deadline ? end : deadline;
        int fd = dial(near ? htonl(INADDR_LOOPBACK) : to->ip[i - 1], to->port, end);
        tn__link *link = fd < 0 ? NULL : tn__link_add(c, fd, parent);
        if (link && greet(c, link, end))
            return TN_OK;
        if (link)
            tn__link_remove(c, c->links - 1);
    }
    return tn_error_set(TN_ERR_STATE, "dist_init: rank %d cannot connect to rank "
                        "%d (%s, port %u): is a firewall between them?",
                        (int)c->rank, (int)parent, to->host, (unsigned)to->port);
}
