/* report.c: ends the job with one message for all ranks: who is where.
 *
 * Each rank that sees the failure writes a message from what the board of the
 * job shows, and gives it to the engine. The first one counts, and every rank,
 * also this one, then reports that one. */
#include <dist/dist.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SILENT_NS = 1000000000 }; /* without a heartbeat */

typedef struct text {
    char at[TN_COMM_TEXT];
    size_t used;
} text;

__attribute__((format(printf, 2, 3))) static void say(text *t,
                                                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(t->at + t->used, sizeof t->at - t->used, format, args);
    va_end(args);
    if (length > 0)
        t->used += (size_t)length;
    if (t->used >= sizeof t->at)
        t->used = sizeof t->at - 1;
}

/* "all_reduce 5 of float32[12], sum, bucket 5, in h.3.attn". */
static void say_record(text *t, const tn__dist_record *r)
{
    static const char *const kinds[TN_COMM_KIND_END] = {
        "?", "all_reduce", "reduce_scatter", "all_gather", "broadcast",
        "all_to_all", "send", "recv", "barrier"};
    static const char *const reductions[TN_COMM_REDUCTION_END] = {
        "", "sum", "product", "min", "max"};
    say(t, "%s", r->split                      ? "group_split"
                 : r->kind < TN_COMM_KIND_END ? kinds[r->kind]
                                              : "?");
    if (r->kind != TN_COMM_SEND && r->kind != TN_COMM_RECV)
        say(t, " %llu", (unsigned long long)r->sequence);
    if (!r->split && r->kind != TN_COMM_BARRIER)
        say(t, " of %s[%llu]", tn_dtype_name(r->dtype),
            (unsigned long long)r->count);
    if (r->reduce && r->reduce < TN_COMM_REDUCTION_END)
        say(t, ", %s", r->mean ? "mean" : reductions[r->reduce]);
    if (r->root >= 0)
        say(t, ", root %d", (int)r->root);
    if (r->label[0])
        say(t, ", %.*s", (int)sizeof r->label, r->label);
    if (r->path[0])
        say(t, ", in %.*s", (int)sizeof r->path, r->path);
}

/* Whether the job is on several machines, so that messages name them. */
static bool several(void)
{
    return tn__dist_job_open->control && tn__dist_job_open->control->several;
}

/* What a rank that is not there does. */
static void say_place(text *t, const tn_comm_peer *peer)
{
    tn__dist_position position;
    if (peer->life == TN_COMM_GONE)
        say(t, "has ended");
    else if (peer->life == TN_COMM_CLOSED)
        say(t, "has left the job");
    else if (peer->silent_ns > SILENT_NS)
        say(t, "is silent for %.1f s", (double)peer->silent_ns * 1e-9);
    else
        say(t, "is alive");
    if (peer->life != TN_COMM_CLOSED)
        say(t, " (process %lld%s%.64s)", (long long)peer->process,
            several() ? " on " : "", several() ? peer->host : "");
    if (peer->position_bytes != sizeof position) {
        if (!tn__dist_job_open->control)
            say(t, ", before its first collective");
        return;
    }
    memcpy(&position, peer->position, sizeof position);
    if (position.phase[0])
        say(t, ", last in %.*s", (int)sizeof position.phase, position.phase);
    if (!position.any)
        return;
    const bool waits = position.waits && peer->life == TN_COMM_ALIVE;
    say(t, waits ? ", waits in " : ", last seen at ");
    say_record(t, &position.record);
    say(t, " of %.*s", (int)sizeof position.record.group, position.record.group);
}

/* Returns how many. */
static int say_ranks(text *t, const tn_group *group, const bool *these)
{
    int count = 0;
    for (int32_t r = 0; r < group->count; r++)
        count += these[r];
    say(t, count == 1 ? "rank " : "ranks ");
    bool any = false;
    for (int32_t r = 0; r < group->count; r++)
        if (these[r]) {
            say(t, any ? ", %d" : "%d", (int)group->world[r]);
            any = true;
        }
    return count;
}

/* Each different call, with the ranks that are in it. */
static void say_mismatch(text *t, const tn_group *group,
                         const tn_comm_peer *peer, const bool *there)
{
    bool *said = calloc((size_t)group->count * 2, sizeof *said);
    if (!said)
        return;
    bool *these = said + group->count;
    say(t, "the ranks of %s are in different calls: ", group->name);
    bool any = false;
    for (int32_t r = 0; r < group->count; r++) {
        if (said[r] || !there[r])
            continue;
        for (int32_t q = 0; q < group->count; q++) {
            these[q] = !said[q] && there[q] && peer[q].check == peer[r].check;
            said[q] = said[q] || these[q];
        }
        tn__dist_record record;
        memcpy(&record, peer[r].record, sizeof record);
        say(t, any ? "; " : "");
        any = true;
        if (say_ranks(t, group, these) == 1 && several())
            say(t, " (%.64s)", peer[r].host);
        say(t, ": ");
        say_record(t, &record);
    }
    free(said);
}

static bool is_known(const tn_comm_peer *peer)
{
    return peer->silent_ns != UINT64_MAX || peer->life != TN_COMM_ALIVE;
}

/* How many ranks are there, and where each other one is, except one that the
 * message has named (or -1). If rank 0 does not answer, little is known. */
static void say_missing(text *t, const tn_group *group,
                        const tn_comm_peer *peer, const bool *there,
                        int32_t named)
{
    int32_t count = 0, listed = 0, unknown = 0;
    for (int32_t r = 0; r < group->count; r++) {
        count += there[r];
        unknown += !there[r] && !is_known(&peer[r]);
    }
    if (!unknown)
        say(t, "; %d of %d ranks are there", (int)count, (int)group->count);
    for (int32_t r = 0; r < group->count; r++) {
        /* A rank may have begun, and then be stopped or out of reach. */
        const bool silent = r != group->rank && is_known(&peer[r]) &&
                            peer[r].silent_ns > SILENT_NS;
        if ((there[r] && !silent) || r == named || !is_known(&peer[r]))
            continue;
        if (++listed > 8) {
            say(t, "; and more");
            break;
        }
        say(t, "; rank %d ", (int)group->world[r]);
        say_place(t, &peer[r]);
    }
    if (unknown)
        say(t, "; the others cannot be asked");
}

static void compose(text *t, const tn_work *work, const tn_comm_state *state,
                    bool late)
{
    tn_group *group = work->group;
    const bool pair = work->peer >= 0;
    tn_comm_peer *peer = calloc((size_t)group->count, sizeof *peer);
    bool *there = calloc((size_t)group->count, sizeof *there);
    say(t, "%s: ", work->call);
    if (!peer || !there) {
        say(t, "out of memory while the job ended");
        free(peer);
        free(there);
        return;
    }
    tn__board_look(group, peer);
    for (int32_t r = 0; r < group->count; r++)
        there[r] = peer[r].sequence >= peer[group->rank].sequence;
    if (state->reason == TN_COMM_MISMATCH && !pair) {
        say_mismatch(t, group, peer, there);
        bool all = true;
        for (int32_t r = 0; r < group->count; r++)
            all = all && there[r];
        if (!all)
            say_missing(t, group, peer, there, -1);
        free(peer);
        free(there);
        return;
    }
    /* What holds up this work may be an earlier collective of its group. */
    tn__dist_record record = work->record;
    if (!pair && peer[group->rank].record_bytes == sizeof record)
        memcpy(&record, peer[group->rank].record, sizeof record);
    say_record(t, &record);
    say(t, " of %s", group->name);
    if (pair)
        say(t, ", rank %d with rank %d", (int)group->world[group->rank],
            (int)group->world[work->peer]);
    if (state->reason == TN_COMM_MISMATCH)
        say(t, ": the other rank has another dtype, count or label");
    int32_t named = -1;
    if (state->reason == TN_COMM_FAILED)
        say(t, ": %s", tn__dist_engine_reason());
    if (state->reason == TN_COMM_LOST && state->peer < 0)
        say(t, ": the connection to the other ranks was lost");
    else if (state->reason == TN_COMM_LOST || state->reason == TN_COMM_LEFT) {
        named = state->peer;
        say(t, ": rank %d ", (int)group->world[state->peer]);
        say_place(t, &peer[state->peer]);
    }
    if (late)
        say(t, ": not done after %.1f s",
            (double)tn__dist_job_open->timeout_ns * 1e-9);
    if (late && pair) {
        say(t, "; rank %d ", (int)group->world[work->peer]);
        say_place(t, &peer[work->peer]);
    }
    if (!pair)
        say_missing(t, group, peer, there, named);
    free(peer);
    free(there);
}

tn_status tn__dist_report_end(const tn_group *group, const char *call)
{
    tn_comm_state state = {.size = sizeof state};
    tn__dist_lock();
    if (group->open && group->comm)
        tn__board_state(group, NULL, &state);
    tn__dist_unlock();
    if (state.reason != TN_COMM_ABORTED || !state.text[0])
        return tn_error_refuse_argument(TN_ERR_STATE, call, NULL, "%s",
                                        tn__dist_engine_reason());
    return tn_error_set(state.code ? state.code : TN_ERR_STATE, "%s", state.text);
}

/* An engine notices a rank that has ended, too, but cannot say which: the control
 * plane needs a moment. */
static void find_state(const tn_work *work, tn_comm_state *state)
{
    tn__control *control = tn__dist_job_open->control;
    tn__board_state(work->group, work, state);
    for (int i = 0; state->reason == TN_COMM_FAILED && control && i < 40; i++) {
        tn__control_wait(control, 10000000);
        tn__board_state(work->group, work, state);
    }
}

tn_status tn__dist_report(tn_work *work, bool late)
{
    tn__dist_lock();
    tn_group *group = work->group;
    tn_comm_state state;
    find_state(work, &state);
    if (state.reason != TN_COMM_ABORTED) {
        text t = {.used = 0};
        compose(&t, work, &state, late);
        tn__board_abort(group,
                        state.reason == TN_COMM_MISMATCH ? TN_ERR_ARGUMENT
                                                         : TN_ERR_STATE,
                        t.at);
    } else if (tn__dist_job_open->control) {
        tn__dist_job_open->engine->abort(group->comm, state.code, state.text);
    }
    tn__dist_unlock();
    return tn__dist_report_end(group, work->call);
}

tn_status tn__dist_give_up(tn_group *group, const char *call)
{
    text t = {.used = 0};
    tn__dist_lock();
    if (group->open && group->comm) {
        say(&t, "%s: rank %d of %s has failed before: %s", call,
            (int)group->world[group->rank], group->name, tn_error());
        tn__board_abort(group, TN_ERR_STATE, t.at);
    }
    tn__dist_unlock();
    return TN_ERR_STATE;
}
