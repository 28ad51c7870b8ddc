/* gate.c: begins the works of a group for an engine that does not compare what
 * ranks call. Collectives begin in order, each when the control plane lets it
 * (control.h). A message begins with its check: the receiver compares it before
 * it takes the rest. All calls are made with the lock of the job. */
#include <dist/dist.h>

#include <sched.h>
#include <time.h>

/* A message to come: HEAD is the receiver that waits for the check. */
enum { WAITS, HEAD, RUNS };

static bool is_pair(const tn_work *work)
{
    return work->peer >= 0;
}

/* Whether b has to wait until a has begun. */
static bool is_behind(const tn_work *a, const tn_work *b)
{
    if (is_pair(a) != is_pair(b))
        return false;
    return !is_pair(a) || (a->peer == b->peer && a->args.kind == b->args.kind);
}

static tn_status begin(tn_work *work)
{
    work->phase = RUNS;
    return tn__dist_job_open->engine->start(work->group->comm, &work->args,
                                            &work->request);
}

/* The check of a message is a message of its own. */
static tn_status begin_message(tn_work *work)
{
    const bool sends = work->args.kind == TN_COMM_SEND;
    tn_comm_args args = work->args;
    work->head = work->args.check;
    args.dtype = TN_I64;
    args.count = 1;
    args.send = sends ? &work->head : NULL;
    args.recv = sends ? NULL : &work->head;
    work->phase = HEAD;
    tn_status status = tn__dist_job_open->engine->start(work->group->comm, &args,
                                                        &work->head_request);
    return status == TN_OK && sends ? begin(work) : status;
}

static tn_status go(tn_work *work)
{
    const tn_comm_plugin *engine = tn__dist_job_open->engine;
    tn_status status = TN_OK;
    if (work->phase == WAITS && is_pair(work))
        status = begin_message(work);
    else if (work->phase == WAITS &&
             tn__control_may(tn__dist_job_open->control, &work->group->control,
                             work->record.sequence))
        status = begin(work);
    if (work->phase != HEAD || status != TN_OK)
        return status;
    uint32_t done = 0;
    status = engine->test(work->head_request, &done);
    if (status != TN_OK || !done)
        return status;
    work->odd = work->head != work->args.check;
    return work->odd ? TN_ERR_ARGUMENT : begin(work);
}

/* Begins what may begin. A failure belongs to the work, and ends all that wait
 * behind it. */
static void pump(tn_group *group)
{
    for (tn_work *work = group->first; work; work = work->next) {
        bool behind = false;
        for (tn_work *a = group->first; a != work && !behind; a = a->next)
            behind = a->phase != RUNS && is_behind(a, work);
        if (!behind && work->phase != RUNS && work->failure == TN_OK)
            work->failure = go(work);
    }
}

/* Whether the job is over, so that nothing begins any more. */
static bool is_over(const tn_group *group)
{
    tn_comm_state state = {.size = sizeof state};
    if (tn__control_is_quiet(tn__dist_job_open->control))
        return false;
    tn__board_state(group, NULL, &state);
    return state.reason == TN_COMM_ABORTED;
}

/* What others see of this rank. */
static void show(tn_group *group)
{
    const tn_work *work = group->first;
    while (work && is_pair(work))
        work = work->next;
    if (work)
        tn__control_show(tn__dist_job_open->control, &group->control,
                         work->record.sequence, work->args.check, &work->record,
                         sizeof work->record);
}

void tn__dist_gate_add(tn_work *work)
{
    tn_group *group = work->group;
    work->listed = true;
    *group->end = work;
    group->end = &work->next;
    show(group); /* before it is announced: others may ask at once */
    if (is_over(group)) {
        work->failure = TN_ERR_STATE;
        return;
    }
    if (!is_pair(work))
        tn__control_begin(tn__dist_job_open->control, &group->control,
                          work->record.sequence, work->args.check);
    pump(group);
}

void tn__dist_gate_remove(tn_work *work)
{
    const tn_comm_plugin *engine = tn__dist_job_open->engine;
    tn_group *group = work->group;
    if (!work->listed)
        return;
    for (tn_work **at = &group->first; *at; at = &(*at)->next)
        if (*at == work) {
            *at = work->next;
            if (group->end == &work->next)
                group->end = at;
            break;
        }
    work->listed = false;
    if (work->head_request)
        engine->request_close(work->head_request);
    if (work->request)
        engine->request_close(work->request);
    work->head_request = work->request = NULL;
    show(group);
}

/* Tests what runs. */
static tn_status test(tn_work *work, uint64_t timeout_ns)
{
    const tn_comm_plugin *engine = tn__dist_job_open->engine;
    uint32_t done = 0, head = 1;
    if (work->phase != RUNS || work->done || work->failure != TN_OK)
        return work->failure;
    tn_status status = timeout_ns && engine->wait
                           ? engine->wait(work->request, timeout_ns, &done)
                           : engine->test(work->request, &done);
    if (status == TN_OK && work->head_request && work->args.kind == TN_COMM_SEND) {
        head = 0;
        status = engine->test(work->head_request, &head);
    }
    work->done = done && head;
    work->failure = status;
    return status;
}

/* A rank that waits for others to call something may hold up what they wait for:
 * works of other groups make progress only in calls of the engine. Returns
 * whether there are such. */
static bool help(const tn_work *waiting)
{
    bool any = false;
    for (tn_group *group = tn__dist_job_open->first; group; group = group->next)
        for (tn_work *work = group->first; work; work = work->next)
            if (work != waiting && work->phase != WAITS && !work->done &&
                work->failure == TN_OK) {
                test(work, 0);
                any = true;
                break;
            }
    return any;
}

tn_status tn__dist_gate_wait(tn_work *work, uint64_t timeout_ns, uint32_t *done)
{
    enum { YIELDS = 200 };
    tn__control *control = tn__dist_job_open->control;
    const uint64_t end = tn__dist_now() + timeout_ns;
    for (int tries = 0;; tries++) {
        const uint64_t now = tn__dist_now(), left = end > now ? end - now : 0;
        if (is_over(work->group))
            return TN_ERR_STATE;
        pump(work->group);
        if (work->failure == TN_OK && !work->done)
            test(work, left);
        *done = work->done;
        if (work->failure != TN_OK || *done)
            return work->failure;
        if (!tn__control_is_quiet(control)) {
            tn_comm_state state = {.size = sizeof state};
            tn__board_state(work->group, work, &state);
            if (state.reason != TN_COMM_WORKS)
                return TN_ERR_STATE;
        }
        if (tn__dist_now() >= end)
            return TN_OK;
        if (work->phase == WAITS)
            tn__control_wait(control, help(work) ? 50000 : left);
        else if (tries < YIELDS)
            sched_yield();
        else /* who computes needs the processor */
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}
