/* world.c: joining and leaving the job. */
#include <dist/dist.h>

#include <stdlib.h>
#include <string.h>

static uint64_t generation;

TN_OPTIONS_TYPE(tn_dist_init, "dist_init", "", TN_DIST_INIT_OPTIONS_LIST)

/* Makes the control plane. */
static tn_status connect_ranks(tn__dist_job *job, tn_comm *comm, bool several,
                               uint64_t deadline)
{
    const int32_t count = job->place.count;
    tn__address own, *all = calloc((size_t)count, sizeof *all);
    job->control = tn__control_make(job->place.rank, count, several, &own);
    if (!all || !job->control) {
        free(all);
        return tn_error_set(TN_ERR_MEMORY, "dist_init: no control plane");
    }
    unsigned char token[TN__TOKEN];
    const bool launched = job->place.token != NULL;
    tn_status status = tn__control_token(job->place.rank, job->place.token, token);
    if (!launched) /* rank 0's reaches the others by the engine */
        memcpy(own.token, token, sizeof token);
    if (status == TN_OK)
        status = tn__dist_gather(job, comm, &own, sizeof own, all, deadline);
    if (status != TN_OK) {
        free(all);
    } else {
        if (launched)
            memcpy(all[0].token, token, sizeof token);
        status = tn__control_join(job->control, all, deadline);
    }
    if (status != TN_OK) {
        tn__control_close(job->control);
        job->control = NULL;
    }
    return status;
}

/* Opens the engine, unless there is one rank. */
static tn_status join(tn__dist_job *job, tn_comm **comm)
{
    *comm = NULL;
    const tn__dist_place *place = &job->place;
    if (place->count == 1)
        return TN_OK;
    const tn_comm_place own = {
        .size = sizeof own,
        .rank = place->rank,
        .count = place->count,
        .local_count = place->local_count,
        .timeout_ns = job->timeout_ns,
        .job = place->job,
        .address = place->address,
        .port = place->port,
        .device = "",
    };
    job->engine = tn__dist_engine_find(place->engine, &own);
    if (!job->engine)
        return TN_ERR_PLUGIN;
    tn_status status = job->engine->open(&own, comm);
    if (status != TN_OK)
        return tn_error_refuse_argument(status, "dist_init", NULL, "rank %d of "
                                        "%d (%s): %s", (int)place->rank,
                                        (int)place->count, place->source,
                                        tn__dist_engine_reason());
    const uint64_t deadline = tn__dist_now() + job->timeout_ns;
    const uint64_t own_board = TN_COMM_CAP_CHECKS | TN_COMM_CAP_BOARD;
    bool several = false;
    status = tn__dist_compare(job, *comm, deadline, &several);
    /* Between machines no engine knows soon who has ended. */
    if (status == TN_OK &&
        (several || (job->engine->caps & own_board) != own_board))
        status = connect_ranks(job, *comm, several, deadline);
    if (status != TN_OK)
        job->engine->close(*comm);
    return status;
}

static tn_status init(const tn_dist_init_options *o)
{
    if (tn__dist_job_open)
        return tn_error_refuse_argument(
            TN_ERR_STATE, "dist_init", NULL,
            "the process has joined a job already: call tn_dist_close first");
    tn__dist_job *job = calloc(1, sizeof *job);
    if (!job)
        return tn_error_refuse_argument(TN_ERR_MEMORY, "dist_init", NULL,
                                        "out of memory");
    tn_comm *comm;
    tn_status status = tn__dist_place_find(o, &job->place);
    if (status == TN_OK) {
        job->timeout_ns = (uint64_t)(job->place.timeout * 1e9);
        job->generation = ++generation;
        status = join(job, &comm);
    }
    if (status != TN_OK) {
        free(job);
        return status;
    }
    int32_t *world = malloc((size_t)job->place.count * sizeof *world);
    for (int32_t r = 0; world && r < job->place.count; r++)
        world[r] = r;
    tn__dist_job_open = job;
    tn_group *group = tn__dist_group_make(comm, job->place.rank, job->place.count,
                                          world, "world", 0);
    if (!group) {
        tn__dist_job_open = NULL;
        tn__control_close(job->control);
        free(job);
        return TN_ERR_MEMORY;
    }
    job->world = tn_keep(group);
    return TN_OK;
}

tn_status tn_dist_init_with(const tn_dist_init_options *options)
{
    tn_dist_init_options o;
    if (tn_options_take(tn_dist_init_type(), &o, options) < 0)
        return TN_ERR_ARGUMENT;
    if (tn_error())
        return TN_ERR_STATE;
    tn__dist_lock();
    tn_status status = init(&o);
    tn__dist_unlock();
    return status;
}

void tn_dist_close(void)
{
    tn__dist_lock();
    tn__dist_job *job = tn__dist_job_open;
    tn_group *world = job ? job->world : NULL;
    if (job && job->control)
        tn__control_bye(job->control);
    while (job && job->first)
        tn__dist_group_shut(job->first);
    tn__dist_job_open = NULL;
    if (job)
        tn__control_close(job->control);
    free(job);
    tn__dist_unlock();
    tn_drop(world);
}

int tn_dist_rank(void)
{
    tn__dist_lock();
    int rank = tn__dist_job_open ? tn__dist_job_open->place.rank : 0;
    tn__dist_unlock();
    return rank;
}

int tn_dist_size(void)
{
    tn__dist_lock();
    int count = tn__dist_job_open ? tn__dist_job_open->place.count : 1;
    tn__dist_unlock();
    return count;
}

const char *tn_dist_engine(void)
{
    tn__dist_lock();
    const tn_comm_plugin *engine =
        tn__dist_job_open ? tn__dist_job_open->engine : NULL;
    tn__dist_unlock();
    return engine ? engine->name : "";
}

int64_t tn_dist_staged(void)
{
    tn__dist_lock();
    int64_t staged = tn__dist_job_open ? tn__dist_job_open->staged : 0;
    tn__dist_unlock();
    return staged;
}

tn_group *tn_dist_world(void)
{
    tn__dist_lock();
    tn_group *world = tn__dist_job_open ? tn__dist_job_open->world : NULL;
    tn__dist_unlock();
    if (!world)
        tn_error_refuse_argument(TN_ERR_STATE, "dist_world", NULL,
                                 "the process has joined no job: call "
                                 "tn_dist_init first");
    return world;
}

void tn_dist_set_phase(const char *phase)
{
    tn__dist_lock();
    tn__dist_job *job = tn__dist_job_open;
    if (job && job->world->comm)
        tn__board_publish_phase(job->world, phase ? phase : "");
    tn__dist_unlock();
}
