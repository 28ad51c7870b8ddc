/* control_judge.c: whether a call can still be done, and what others are asked
 * when it cannot. */
#include <dist/control.h>
#include <dist/dist.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LOOK_MS = 700,  /* how long an answer of rank 0 may take */
    GRACE_MS = 100  /* the data of a rank that has ended may still arrive */
};

/* Waits for a change; returns false after `end_ns`. */
static bool waits(tn__control *c, uint64_t end_ns)
{
    const struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000u),
                                 .tv_nsec = (long)(end_ns % 1000000000u)};
    return pthread_cond_timedwait(&c->changed, &c->lock, &end) == 0 ||
           tn__dist_now() < end_ns;
}

/* Whether a rank has left the group without the call `sequence`. */
static bool has_left(const tn__control *c, int32_t rank, uint64_t group,
                     uint64_t sequence)
{
    bool left = false;
    for (int i = 0; i < c->leaves; i++)
        if (c->leave[i].rank == rank && c->leave[i].group == group) {
            if (c->leave[i].sequence > sequence)
                return false;
            left = true;
        }
    return left;
}

static void judge(tn__control *c, const tn__control_group *g,
                  const int32_t *world, uint64_t sequence, int32_t peer,
                  tn_comm_state *state)
{
    if (peer < 0 && g->differs && g->differs <= sequence + 1) {
        state->reason = TN_COMM_MISMATCH;
        return;
    }
    if (tn__dist_now() - c->life_ns < GRACE_MS * (uint64_t)1000000)
        return;
    for (int32_t r = 0; r < g->size; r++) {
        const int32_t rank = world[r];
        if (rank == c->rank || (peer >= 0 && r != peer))
            continue;
        const bool gone = c->life[rank] == TN_COMM_GONE;
        if (gone || (peer < 0 ? has_left(c, rank, g->id, sequence)
                              : c->life[rank] == TN_COMM_CLOSED)) {
            state->reason = gone ? TN_COMM_LOST : TN_COMM_LEFT;
            state->peer = r;
            return;
        }
    }
    if (c->headless && peer < 0 && g->let <= sequence) {
        state->reason = TN_COMM_LOST;
        state->peer = -1;
    }
}

void tn__control_state(tn__control *c, const tn__control_group *g,
                       const int32_t *world, uint64_t sequence, int32_t peer,
                       tn_comm_state *state)
{
    state->reason = TN_COMM_WORKS;
    state->peer = -1;
    pthread_mutex_lock(&c->lock);
    if (c->verdict) {
        state->reason = TN_COMM_ABORTED;
        state->code = c->code;
        memcpy(state->text, c->verdict, strlen(c->verdict) + 1);
    } else {
        judge(c, g, world, sequence, peer, state);
    }
    pthread_mutex_unlock(&c->lock);
}

/* What this process knows by itself. */
static void fill_own(tn__control *c, const tn__control_group *g, int32_t rank,
                     tn_comm_peer *out)
{
    const tn__address *address = &c->address[rank];
    *out = (tn_comm_peer){.size = sizeof *out, .life = c->life[rank],
                          .process = address->process, .silent_ns = UINT64_MAX};
    memcpy(out->host, address->host, sizeof out->host);
    out->host[sizeof out->host - 1] = 0;
    for (int i = 0; i < c->links; i++)
        if (c->link[i]->rank == rank)
            out->silent_ns = tn__dist_now() - c->link[i]->heard_ns;
    if (rank != c->rank)
        return;
    out->silent_ns = 0;
    out->sequence = g->sequence;
    out->check = g->check;
    out->record_bytes = g->record_bytes;
    memcpy(out->record, g->record, g->record_bytes);
    out->position_bytes = c->position_bytes;
    memcpy(out->position, c->position, c->position_bytes);
}

/* Asks rank 0 for the rows of all ranks. */
static bool ask(tn__control *c, tn__control_group *g, tn_comm_peer *row,
                uint64_t *row_group)
{
    const uint64_t end = tn__dist_now() + LOOK_MS * (uint64_t)1000000;
    tn__wire look = {.type = TN__LOOK, .rank = c->rank, .to = -1, .group = g->id};
    c->row = row;
    c->row_group = row_group;
    c->looked = false;
    tn__control_up(c, &look);
    tn__control_wake(c);
    while (!c->looked && !c->verdict && !c->headless && waits(c, end))
        ;
    c->row = NULL;
    c->row_group = NULL;
    return c->looked;
}

void tn__control_look(tn__control *c, tn__control_group *g, const int32_t *world,
                      tn_comm_peer *out)
{
    tn_comm_peer *row = calloc((size_t)c->count, sizeof *row);
    uint64_t *row_group = calloc((size_t)c->count, sizeof *row_group);
    pthread_mutex_lock(&c->lock);
    const bool asked = row && row_group && !c->headless &&
                       ask(c, g, row, row_group);
    for (int32_t r = 0; r < g->size; r++) {
        const int32_t rank = world[r];
        fill_own(c, g, rank, &out[r]);
        if (!asked || rank == c->rank)
            continue;
        out[r].life = row[rank].life;
        out[r].silent_ns = row[rank].silent_ns;
        out[r].position_bytes = row[rank].position_bytes;
        memcpy(out[r].position, row[rank].position, sizeof out[r].position);
        if (row_group[rank] != g->id)
            continue;
        out[r].sequence = row[rank].sequence;
        out[r].check = row[rank].check;
        out[r].record_bytes = row[rank].record_bytes;
        memcpy(out[r].record, row[rank].record, sizeof out[r].record);
    }
    pthread_mutex_unlock(&c->lock);
    free(row);
    free(row_group);
}

void tn__control_abort(tn__control *c, tn_status code, const char *text)
{
    const uint64_t end = tn__dist_now() + LOOK_MS * (uint64_t)1000000;
    tn__wire m = {.type = TN__ABORT, .rank = c->rank, .to = -1,
                  .state = (uint32_t)code};
    tn__wire_set_text(&m, text);
    pthread_mutex_lock(&c->lock);
    if (!c->headless && !c->verdict)
        tn__control_up(c, &m);
    while (!c->headless && !c->verdict && waits(c, end))
        ;
    if (!c->verdict) {
        m.type = TN__VERDICT;
        tn__control_take(c, &m);
    }
    pthread_mutex_unlock(&c->lock);
}
