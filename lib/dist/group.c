/* group.c: groups of ranks. */
#include <dist/dist.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Removes the group's comm. The job is open. */
void tn__dist_group_shut(tn_group *group)
{
    tn__dist_job *job = tn__dist_job_open;
    for (tn_group **at = &job->first; *at; at = &(*at)->next)
        if (*at == group) {
            *at = group->next;
            break;
        }
    if (group->comm && job->control) {
        while (group->first)
            tn__dist_gate_remove(group->first);
        tn__control_leave(job->control, &group->control);
    }
    if (group->comm)
        job->engine->close(group->comm);
    group->comm = NULL;
    group->open = false;
}

static void release(void *object)
{
    tn_group *group = object;
    tn__dist_lock();
    if (group->open)
        tn__dist_group_shut(group);
    tn__dist_unlock();
    free(group->world);
}

static const tn_object_class group_class = {.size = sizeof group_class,
                                            .name = "group",
                                            .bytes = sizeof(tn_group),
                                            .release = release};

tn_group *tn__dist_group_make(tn_comm *comm, int32_t rank, int32_t count,
                              int32_t *world, const char *name, uint64_t id)
{
    tn_group *group = world ? tn_object_new(&group_class, 0) : NULL;
    if (!group) {
        if (!world)
            tn_error_set(TN_ERR_MEMORY, "out of memory for a group");
        if (comm)
            tn__dist_job_open->engine->close(comm);
        free(world);
        return NULL;
    }
    group->comm = comm;
    group->open = true;
    group->rank = rank;
    group->count = count;
    group->world = world;
    snprintf(group->name, sizeof group->name, "%s", name);
    group->next = tn__dist_job_open->first;
    tn__dist_job_open->first = group;
    group->end = &group->first;
    if (comm && tn__dist_job_open->control)
        tn__control_enter(tn__dist_job_open->control, &group->control, id, count);
    return group;
}

bool tn__dist_group_check(const tn_group *group, const char *call)
{
    if (!tn_object_check(group, &group_class, call, "group"))
        return false;
    tn__dist_lock();
    bool open = group->open;
    tn__dist_unlock();
    if (!open)
        tn_error_refuse_argument(TN_ERR_STATE, call, "group",
                                 "the job of this group was closed "
                                 "(tn_dist_close)");
    return open;
}

int tn_group_rank(const tn_group *group)
{
    return tn_object_is(group, &group_class) ? group->rank : -1;
}

int tn_group_size(const tn_group *group)
{
    return tn_object_is(group, &group_class) ? group->count : 0;
}

int tn_group_world_rank(const tn_group *group, int rank)
{
    return tn_object_is(group, &group_class) && rank >= 0 && rank < group->count
               ? group->world[rank]
               : -1;
}

/* ---- split ---------------------------------------------------------------- */

TN_OPTIONS_TYPE(tn_group_split, "group_split", "group, color",
                TN_GROUP_SPLIT_OPTIONS_LIST)

/* A rank that fails ends the job: the others would wait for it. */
static tn_status open_comm(tn_group *group, int color, int key, tn_comm **comm)
{
    const tn_comm_plugin *engine = tn__dist_job_open->engine;
    tn_status status = engine->split(group->comm, color, key, comm);
    if (status == TN_OK)
        return TN_OK;
    char text[TN_COMM_TEXT];
    snprintf(text, sizeof text, "group_split: %.*s", TN_COMM_TEXT - 20,
             tn__dist_engine_reason());
    tn__board_abort(group, status, text);
    return status;
}

/* The same on all ranks of the new group. */
static uint64_t id_of(const tn_group *parent, int color)
{
    const uint64_t part[3] = {parent->control.id, parent->sequence,
                              (uint64_t)color};
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < 3; i++)
        h = (h ^ part[i]) * 0x9e3779b97f4a7c15u, h ^= h >> 32;
    return h;
}

tn_group *tn_group_split_with(tn_group *group, int color,
                              const tn_group_split_options *options)
{
    static const char call[] = "group_split";
    tn_group_split_options o;
    if (tn_options_take(tn_group_split_type(), &o, options) < 0 ||
        !tn__dist_group_check(group, call))
        return NULL;
    if (tn_error()) {
        tn__dist_give_up(group, call);
        return NULL;
    }
    const int32_t count = group->count;
    int64_t mine[3] = {color, o.key, group->world[group->rank]};
    int64_t (*all)[3] = malloc((size_t)count * sizeof *all);
    if (!all) {
        tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
        return NULL;
    }
    /* The gather is the meeting, at which ranks in another call are found, and
     * says which ranks are in the new group. */
    tn_scope *scope = tn_scope_open();
    tn_tensor *own = NULL, *gathered = NULL;
    tn_device *before = tn_device_current();
    tn_device_set(tn_device_open("cpu"));
    own = tn_tensor_from_array(mine, TN_I64, tn_dims(3));
    gathered = own ? tn_tensor_from_array(memset(all, 0, (size_t)count * sizeof *all),
                                          TN_I64, tn_dims(count, 3)) : NULL;
    tn_device_set(before);
    tn_status status = TN_ERR_STATE;
    if (gathered) {
        tn_work *work = tn__dist_work_begin(
            group, &(tn__dist_call){.call = call, .kind = TN_COMM_ALL_GATHER,
                                    .root = -1, .count = 3, .in = own,
                                    .out = gathered, .split = true});
        status = work ? tn_work_wait(work) : TN_ERR_STATE;
    }
    if (status == TN_OK)
        status = tn_tensor_to_array(gathered, all, (size_t)count * sizeof *all);
    tn_scope_close(scope);
    tn_group *made = NULL;
    int32_t *world = malloc((size_t)count * sizeof *world);
    if (status == TN_OK && !world)
        status = tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL,
                                          "out of memory");
    if (status == TN_OK) {
        tn__dist_lock();
        tn_comm *comm = NULL;
        if (group->comm)
            status = open_comm(group, color, o.key, &comm);
        /* The order of the new ranks: by key, then by rank in the group. */
        int32_t n = 0, rank = 0;
        for (int32_t r = 0; r < count; r++) {
            int32_t at = 0;
            if (all[r][0] != color)
                continue;
            for (int32_t q = 0; q < count; q++)
                at += all[q][0] == color &&
                      (all[q][1] < all[r][1] || (all[q][1] == all[r][1] && q < r));
            world[at] = (int32_t)all[r][2];
            if (r == group->rank)
                rank = at;
            n++;
        }
        if (status == TN_OK && color >= 0) {
            char name[sizeof group->name + 16];
            snprintf(name, sizeof name, "%s/%d", group->name, color);
            made = tn__dist_group_make(comm, rank, n, world,
                                       o.name ? o.name : name,
                                       id_of(group, color));
            world = NULL;
        }
        tn__dist_unlock();
        if (status != TN_OK)
            tn__dist_report_end(group, call);
    }
    free(world);
    free(all);
    return made;
}
