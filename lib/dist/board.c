/* board.c: who is where, from the engine's own board if it has one, else from the
 * control plane. All calls are made with the lock of the job. */
#include <dist/dist.h>

#include <string.h>

void tn__board_state(const tn_group *group, const tn_work *work,
                     tn_comm_state *out)
{
    const tn__dist_job *job = tn__dist_job_open;
    *out = (tn_comm_state){.size = sizeof *out, .peer = -1};
    if (!job->control) {
        job->engine->state(group->comm, out);
        return;
    }
    tn__control_state(job->control, &group->control,
                      group->world, work ? work->record.sequence : 0,
                      work ? work->peer : -1, out);
    if (out->reason != TN_COMM_WORKS || !work)
        return;
    if (work->odd) {
        out->reason = TN_COMM_MISMATCH;
        out->peer = work->peer;
    } else if (work->failure != TN_OK) {
        /* What the engine has seen by itself; most see nothing. */
        job->engine->state(group->comm, out);
        if (out->reason == TN_COMM_WORKS)
            out->reason = TN_COMM_FAILED;
    }
}

void tn__board_look(tn_group *group, tn_comm_peer *out)
{
    tn__dist_job *job = tn__dist_job_open;
    if (job->control) {
        tn__control_look(job->control, &group->control, group->world, out);
        return;
    }
    for (int32_t r = 0; r < group->count; r++) {
        out[r].size = sizeof *out;
        job->engine->peer(group->comm, r, &out[r]);
    }
}

void tn__board_abort(tn_group *group, tn_status code, const char *text)
{
    tn__dist_job *job = tn__dist_job_open;
    tn_comm_state state = {.reason = TN_COMM_WORKS};
    if (job->control) { /* another rank may have been first */
        tn__control_abort(job->control, code, text);
        tn__board_state(group, NULL, &state);
    }
    const bool other = state.reason == TN_COMM_ABORTED;
    job->engine->abort(group->comm, other ? state.code : code,
                       other ? state.text : text);
}

static void publish(const tn_group *group)
{
    tn__dist_job *job = tn__dist_job_open;
    tn__dist_position *position = &job->position;
    if (job->control)
        tn__control_publish(job->control, position, sizeof *position);
    else
        job->engine->publish(group->comm, position, sizeof *position);
}

void tn__board_publish(const tn_work *work, bool waits)
{
    tn__dist_position *position = &tn__dist_job_open->position;
    position->waits = waits;
    position->any = 1;
    position->record = work->record;
    publish(work->group);
}

void tn__board_publish_phase(const tn_group *group, const char *phase)
{
    char *out = tn__dist_job_open->position.phase;
    const size_t room = sizeof tn__dist_job_open->position.phase;
    memset(out, 0, room);
    memcpy(out, phase, strnlen(phase, room - 1));
    publish(group);
}
