/* world.c: joining and leaving the job. */
#include <dist/dist.h>

#include <stdlib.h>

static uint64_t generation;

TN_OPTIONS_TYPE(tn_dist_init, "dist_init", "", TN_DIST_INIT_OPTIONS_LIST)

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
    return status == TN_OK
               ? TN_OK
               : tn_error_refuse_argument(status, "dist_init", NULL, "rank %d of "
                                          "%d (%s): %s", (int)place->rank,
                                          (int)place->count, place->source,
                                          tn__dist_engine_reason());
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
                                          world, "world");
    if (!group) {
        tn__dist_job_open = NULL;
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
    while (job && job->first)
        tn__dist_group_shut(job->first);
    tn__dist_job_open = NULL;
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
