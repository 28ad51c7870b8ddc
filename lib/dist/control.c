/* control.c: the node of this process in the control plane: its thread, and what
 * it answers. control.h has the idea. */
#include <dist/control.h>
#include <dist/dist.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    STRANGERS = 32,          /* connections that have not said hello */
    HELLO_MS = 3000,         /* by when they must have */
    NEWS_MS = 20,            /* a new position is sent at once if the last one is
                                older: of a rank that is killed it is the last
                                word */
    CLOSE_MS = 1000          /* how long a node waits for its children's end */
};

/* ---- what this node is asked ---------------------------------------------- */

static tn__control_group *group_of(tn__control *c, uint64_t id)
{
    tn__control_group *group = c->first;
    while (group && group->id != id)
        group = group->next;
    return group;
}

void tn__control_row(tn__control *c, const tn__control_group *g, tn__wire *m)
{
    *m = (tn__wire){.rank = c->rank, .to = -1};
    m->position_bytes = c->position_bytes;
    memcpy(m->position, c->position, c->position_bytes);
    if (!g)
        return;
    m->group = g->id;
    m->sequence = g->sequence;
    m->check = g->check;
    m->record_bytes = g->record_bytes;
    memcpy(m->record, g->record, g->record_bytes);
}

static void announce(tn__control *c, const tn__control_group *g, uint64_t sequence,
                     uint64_t check, bool surprise)
{
    tn__wire m;
    tn__control_row(c, g, &m); /* rank 0 sees the position early, too */
    m.type = TN__ANNOUNCE;
    m.state = surprise;
    m.sequence = sequence;
    m.check = check;
    m.value = (uint64_t)g->size;
    tn__control_up(c, &m);
}

/* A call was not the expected one elsewhere. If it has begun here, it was the
 * expected one. */
static void recall(tn__control *c, tn__control_group *g, uint64_t sequence)
{
    if (g->recalled <= sequence)
        g->recalled = sequence + 1;
    if (g->begun > sequence && g->predictor.period &&
        sequence >= g->predictor.first)
        announce(c, g, sequence, tn__predictor_check(&g->predictor, sequence),
                 false);
}

static void take_row(tn__control *c, const tn__wire *m)
{
    if (!c->row || m->rank < 0 || m->rank >= c->count)
        return;
    tn_comm_peer *row = &c->row[m->rank];
    row->life = m->state;
    row->silent_ns = m->silent_ns;
    row->sequence = m->sequence;
    row->check = m->check;
    row->record_bytes = m->record_bytes;
    memcpy(row->record, m->record, m->record_bytes);
    row->position_bytes = m->position_bytes;
    memcpy(row->position, m->position, m->position_bytes);
    c->row_group[m->rank] = m->group;
}

static void take_leave(tn__control *c, const tn__wire *m)
{
    if (c->leaves == c->leave_room) {
        const int room = c->leave_room * 2 + 16;
        tn__leave *leave = realloc(c->leave, (size_t)room * sizeof *leave);
        if (!leave)
            return; /* the timeout then finds it */
        c->leave = leave;
        c->leave_room = room;
    }
    c->leave[c->leaves++] = (tn__leave){m->rank, m->group, m->sequence};
    atomic_store(&c->alarm, 1);
}

static void set_life(tn__control *c, int32_t rank, unsigned char life)
{
    if (rank < 0 || rank >= c->count || c->life[rank] != TN_COMM_ALIVE)
        return;
    c->life[rank] = life;
    c->life_ns = tn__dist_now();
    atomic_store(&c->alarm, 1);
}

static void set_verdict(tn__control *c, tn_status code, const char *text)
{
    if (c->verdict)
        return;
    c->verdict = strdup(text);
    c->code = code;
    atomic_store(&c->alarm, 1);
}

void tn__control_take(tn__control *c, const tn__wire *m)
{
    tn__control_group *g = group_of(c, m->group);
    tn__wire row;
    switch (m->type) {
    case TN__RECALL:
        if (g)
            recall(c, g, m->sequence);
        return;
    case TN__QUERY:
        tn__control_row(c, g, &row);
        row.type = TN__ROW;
        tn__control_up(c, &row);
        return;
    case TN__GO:
        if (g && g->let <= m->sequence)
            g->let = m->sequence + 1;
        break;
    case TN__DIFFER:
        if (!g)
            return;
        g->differs = m->sequence + 1;
        atomic_store(&c->alarm, 1);
        break;
    case TN__ROW:
        take_row(c, m);
        return;
    case TN__LOOKED:
        c->looked = true;
        break;
    case TN__VERDICT:
        set_verdict(c, (tn_status)m->state, m->text);
        break;
    case TN__GONE:
        set_life(c, m->rank, TN_COMM_GONE);
        break;
    case TN__LEAVE:
        take_leave(c, m);
        return;
    case TN__BYE:
        set_life(c, m->rank, TN_COMM_CLOSED);
        break;
    default:
        return;
    }
    pthread_cond_broadcast(&c->changed);
}

/* ---- the thread ----------------------------------------------------------- */

/* The first message of a connection. */
static bool take_hello(tn__control *c, tn__link *link, const tn__wire *m)
{
    const unsigned char *token = c->address[0].token;
    if (m->type != TN__HELLO || m->record_bytes != TN__TOKEN / 2 ||
        !tn__token_is(m->record, token, TN__TOKEN / 2) || m->rank <= c->rank ||
        m->rank >= c->count || tn__control_parent(m->rank, c->count) != c->rank ||
        tn__link_to(c, m->rank) || c->life[m->rank] != TN_COMM_ALIVE)
        return false;
    link->rank = m->rank;
    tn__wire reply = {.type = TN__WELCOME, .rank = c->rank, .to = -1,
                      .record_bytes = TN__TOKEN / 2};
    memcpy(reply.record, token + TN__TOKEN / 2, TN__TOKEN / 2);
    tn__link_send(c, link, &reply);
    return true;
}

static bool take_message(tn__control *c, tn__link *link, tn__wire *m)
{
    if (link->rank < 0)
        return take_hello(c, link, m);
    if (m->rank < -1 || m->rank >= c->count || m->to >= c->count)
        return false;
    link->heard_ns = tn__dist_now();
    if (m->type == TN__BYE && m->rank == link->rank)
        link->bye = true;
    const bool up = link->rank > c->rank;
    if (up && m->rank < 0)
        return false;
    if (up)
        tn__control_up(c, m);
    else if (m->type != TN__BEAT)
        tn__control_down(c, m);
    return true;
}

/* Reads what there is. Returns false if the connection has ended. */
static bool read_link(tn__control *c, tn__link *link)
{
    for (;;) {
        ssize_t got = recv(link->fd, link->in + link->in_bytes,
                           sizeof link->in - link->in_bytes, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        if (got <= 0)
            return false;
        link->in_bytes += (size_t)got;
        size_t at = 0;
        tn__wire m;
        for (int n; (n = tn__wire_read(link->in + at, link->in_bytes - at, &m));
             at += (size_t)n)
            if (n < 0 || !take_message(c, link, &m))
                return false;
        link->in_bytes -= at;
        memmove(link->in, link->in + at, link->in_bytes);
    }
}

static void lose(tn__control *c, int index)
{
    const int32_t rank = c->link[index]->rank;
    const bool bye = c->link[index]->bye;
    tn__link_remove(c, index);
    if (rank < 0)
        return;
    tn__wire gone = {.type = TN__GONE, .rank = rank, .to = -1};
    if (rank < c->rank) {
        c->headless = true;
        set_life(c, rank, bye ? TN_COMM_CLOSED : TN_COMM_GONE);
        atomic_store(&c->alarm, 1);
        if (!bye)
            tn__control_down(c, &gone);
        pthread_cond_broadcast(&c->changed);
    } else if (!bye) {
        tn__control_up(c, &gone);
    }
}

static void accept_links(tn__control *c)
{
    int strangers = 0;
    for (int i = 0; i < c->links; i++)
        strangers += c->link[i]->rank < 0;
    for (int fd; (fd = accept4(c->listener, NULL, NULL,
                               SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
        if (strangers++ >= STRANGERS)
            close(fd);
        else
            tn__link_add(c, fd, -1);
    }
}

static void beat_up(tn__control *c)
{
    tn__wire m;
    tn__control_row(c, c->shown, &m);
    m.type = TN__BEAT;
    tn__control_up(c, &m);
    c->beat_ns = tn__dist_now();
}

static void beat(tn__control *c)
{
    beat_up(c);
    const tn__wire m = {.type = TN__BEAT, .rank = c->rank, .to = -1};
    for (int i = 0; i < c->links; i++)
        if (c->link[i]->rank > c->rank)
            tn__link_send(c, c->link[i], &m);
}

static void drop_strangers(tn__control *c, uint64_t now)
{
    for (int i = c->links; i-- > 0;)
        if (c->link[i]->rank < 0 &&
            now - c->link[i]->since_ns > HELLO_MS * (uint64_t)1000000)
            tn__link_remove(c, i);
}

static void handle(tn__control *c, const struct pollfd *event, int events)
{
    uint64_t count;
    if (event[0].revents && read(c->wake, &count, sizeof count) < 0)
        return;
    if (event[1].revents)
        accept_links(c);
    /* From the end: one that is lost is replaced by the last. A connection that
     * was accepted just now is not among the events. */
    for (int i = events; i-- > 2;) {
        int at = 0;
        while (at < c->links && c->link[at]->fd != event[i].fd)
            at++;
        if (at == c->links || !event[i].revents)
            continue;
        bool works = !(event[i].revents & POLLOUT) || tn__link_flush(c->link[at]);
        if (works && (event[i].revents & ~POLLOUT))
            works = read_link(c, c->link[at]);
        if (!works)
            lose(c, at);
    }
}

static void *run(void *context)
{
    tn__control *c = context;
    uint64_t beat_at = 0;
    struct pollfd *event = NULL;
    int room = 0;
    pthread_mutex_lock(&c->lock);
    while (!c->stops) {
        uint64_t now = tn__dist_now();
        if (now >= beat_at) {
            beat(c);
            drop_strangers(c, now);
            beat_at = now + TN__BEAT_MS * (uint64_t)1000000;
        }
        uint64_t due = c->root ? tn__root_tick(c) : UINT64_MAX;
        due = due < beat_at ? due : beat_at;
        if (c->links + 2 > room) {
            struct pollfd *more =
                realloc(event, (size_t)(c->links + 16) * sizeof *event);
            if (more) {
                event = more;
                room = c->links + 16;
            }
        }
        int events = 0;
        for (int i = -2; i < c->links && events < room; i++)
            event[events++] = (struct pollfd){
                i == -2   ? c->wake
                : i == -1 ? c->listener
                          : c->link[i]->fd,
                (short)(POLLIN | (i >= 0 && c->link[i]->out_bytes ? POLLOUT : 0)),
                0};
        pthread_mutex_unlock(&c->lock);
        now = tn__dist_now();
        poll(event, (nfds_t)events, due > now ? (int)((due - now) / 1000000u) + 1
                                              : 0);
        pthread_mutex_lock(&c->lock);
        if (events >= 2)
            handle(c, event, events);
    }
    pthread_mutex_unlock(&c->lock);
    free(event);
    return NULL;
}

/* ---- opening and closing -------------------------------------------------- */

static void release(tn__control *c)
{
    while (c->links)
        tn__link_remove(c, c->links - 1);
    if (c->wake >= 0)
        close(c->wake);
    if (c->listener >= 0)
        close(c->listener);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    tn__root_free(c->root);
    free(c->link);
    free(c->address);
    free(c->life);
    free(c->leave);
    free(c->verdict);
    free(c);
}

static bool has_children(int32_t rank, int32_t count)
{
    return rank == 0 || (count > TN__STAR && rank * TN__FAN + 1 < count);
}

tn__control *tn__control_make(int32_t rank, int32_t count, bool wide,
                              tn__address *out)
{
    tn__control *c = calloc(1, sizeof *c);
    pthread_condattr_t monotonic;
    if (!c) {
        tn_error_set(TN_ERR_MEMORY, "dist_init: out of memory");
        return NULL;
    }
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    c->take = tn__control_take;
    c->root_take = tn__root_take;
    c->rank = rank;
    c->count = count;
    c->listener = -1;
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->life = malloc((size_t)count);
    c->root = rank == 0 ? tn__root_new(count) : NULL;
    memset(out, 0, sizeof *out);
    out->machine = tn__control_machine();
    out->process = getpid();
    gethostname(out->host, sizeof out->host - 1);
    bool good = c->wake >= 0 && c->life && (rank || c->root);
    if (!good)
        tn_error_set(TN_ERR_MEMORY, "dist_init: no memory for the control plane");
    else
        memset(c->life, TN_COMM_ALIVE, (size_t)count);
    if (good && has_children(rank, count))
        good = tn__link_listen(c, wide, out) == TN_OK;
    if (good)
        return c;
    release(c);
    return NULL;
}

tn_status tn__control_join(tn__control *c, tn__address *address, uint64_t deadline)
{
    c->address = address;
    for (int32_t r = 1; r < c->count; r++)
        c->several = c->several || strcmp(address[r].host, address[0].host);
    if (c->rank && tn__link_connect(c, deadline) != TN_OK)
        return tn_error_code();
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&c->lock);
    int error = pthread_create(&c->thread, NULL, run, c);
    c->runs = !error;
    pthread_mutex_unlock(&c->lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? tn_error_set(TN_ERR_MEMORY, "dist_init: cannot start a thread: "
                                "%s", strerror(error))
                 : TN_OK;
}

static void wait_until(tn__control *c, uint64_t end_ns)
{
    const struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000u),
                                 .tv_nsec = (long)(end_ns % 1000000000u)};
    pthread_cond_timedwait(&c->changed, &c->lock, &end);
}

static bool has_child(const tn__control *c)
{
    for (int i = 0; i < c->links; i++)
        if (c->link[i]->rank > c->rank)
            return true;
    return false;
}

static bool has_more(const tn__control *c)
{
    for (int i = 0; i < c->links; i++)
        if (c->link[i]->out_bytes)
            return true;
    return false;
}

static void say_leave(tn__control *c, const tn__control_group *g)
{
    tn__wire leave = {.type = TN__LEAVE, .rank = c->rank, .to = -1,
                      .group = g->id, .sequence = g->begun};
    tn__control_up(c, &leave);
}

void tn__control_bye(tn__control *c)
{
    pthread_mutex_lock(&c->lock);
    tn__wire bye = {.type = TN__BYE, .rank = c->rank, .to = -1};
    for (const tn__control_group *g = c->first; g; g = g->next)
        say_leave(c, g);
    tn__control_up(c, &bye);
    pthread_mutex_unlock(&c->lock);
}

void tn__control_close(tn__control *c)
{
    if (!c)
        return;
    if (c->runs) {
        pthread_mutex_lock(&c->lock);
        /* The root, and a node with children, stay for a moment, so that the
         * others learn who has left, and not that the tree has gone. */
        const uint64_t end = tn__dist_now() + CLOSE_MS * (uint64_t)1000000;
        while (tn__dist_now() < end && (has_child(c) || has_more(c)))
            wait_until(c, tn__dist_now() + 2000000u);
        c->stops = true;
        tn__control_wake(c);
        pthread_mutex_unlock(&c->lock);
        pthread_join(c->thread, NULL);
    }
    release(c);
}

/* ---- groups and calls ----------------------------------------------------- */

void tn__control_enter(tn__control *c, tn__control_group *g, uint64_t id,
                       int32_t size)
{
    g->id = id;
    g->size = size;
    pthread_mutex_lock(&c->lock);
    g->next = c->first;
    c->first = g;
    pthread_mutex_unlock(&c->lock);
}

void tn__control_leave(tn__control *c, tn__control_group *g)
{
    pthread_mutex_lock(&c->lock);
    for (tn__control_group **at = &c->first; *at; at = &(*at)->next)
        if (*at == g) {
            *at = g->next;
            break;
        }
    if (c->shown == g)
        c->shown = NULL;
    say_leave(c, g);
    tn__predictor_fini(&g->predictor);
    pthread_mutex_unlock(&c->lock);
}

bool tn__control_begin(tn__control *c, tn__control_group *g, uint64_t sequence,
                       uint64_t check)
{
    pthread_mutex_lock(&c->lock);
    const int told = tn__predictor_take(&g->predictor, sequence, check);
    const bool may = told == TN__EXPECTED && g->recalled <= sequence;
    g->begun = sequence + 1;
    if (!may)
        announce(c, g, sequence, check, told == TN__SURPRISE);
    else if (g->let <= sequence)
        g->let = sequence + 1;
    const bool now = g->let > sequence;
    pthread_mutex_unlock(&c->lock);
    return now;
}

bool tn__control_may(tn__control *c, tn__control_group *g, uint64_t sequence)
{
    pthread_mutex_lock(&c->lock);
    const bool may = g->let > sequence;
    pthread_mutex_unlock(&c->lock);
    return may;
}

void tn__control_show(tn__control *c, tn__control_group *g, uint64_t sequence,
                      uint64_t check, const void *record, uint32_t bytes)
{
    pthread_mutex_lock(&c->lock);
    g->sequence = sequence + 1;
    g->check = check;
    g->record_bytes = bytes;
    memcpy(g->record, record, bytes);
    c->shown = g;
    pthread_mutex_unlock(&c->lock);
}

void tn__control_publish(tn__control *c, const void *position, uint32_t bytes)
{
    pthread_mutex_lock(&c->lock);
    memcpy(c->position, position, bytes);
    c->position_bytes = bytes;
    if (tn__dist_now() - c->beat_ns > NEWS_MS * (uint64_t)1000000)
        beat_up(c);
    pthread_mutex_unlock(&c->lock);
}

void tn__control_wait(tn__control *c, uint64_t timeout_ns)
{
    pthread_mutex_lock(&c->lock);
    wait_until(c, tn__dist_now() + timeout_ns);
    pthread_mutex_unlock(&c->lock);
}
