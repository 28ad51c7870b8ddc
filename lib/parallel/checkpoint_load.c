/* checkpoint_load.c: tn_sharded_load.
 *
 * Rank 0 decides which checkpoint is loaded. Each rank then loads it as if it
 * were one file (checkpoint_file.c), so that tn_checkpoint_load_part checks and
 * restores what one process would. */
#include <parallel/agree.h>
#include <parallel/parallel.h>
#include <parallel/checkpoint.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/autograd.h>

static const char call[] = "sharded_load";

typedef struct loading {
    const char *path;
    tn_checkpoint *checkpoint;
    tn_group *group;
    tn_sharded_load_options options;
    int rank, ranks;
    tn__report own, *all; /* all: owned */
    char found[PATH_MAX]; /* what is loaded */
} loading;

TN_OPTIONS_TYPE(tn_sharded_load, "sharded_load", "path, checkpoint, group",
                TN_SHARDED_LOAD_OPTIONS_LIST)

static void check(loading *l, const tn_sharded_load_options *options)
{
    uint64_t seed, step;
    if (tn_options_take(tn_sharded_load_type(), &l->options, options) < 0)
        return;
    const tn_sharded_state *state = l->options.state;
    if (!l->path || !*l->path || !l->checkpoint)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call,
                                 l->checkpoint ? "path" : "checkpoint",
                                 "%s is %s", l->checkpoint ? "path"
                                                           : "checkpoint",
                                 l->path && !*l->path ? "empty" : "NULL");
    else if (state && (!state->prefix || !state->load))
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "state",
                                 ".state is incomplete");
    else if (l->options.ddp && tn__ddp_check(l->options.ddp, call) &&
             !tn__ddp_counters(l->options.ddp, &seed, &step))
        tn_error_refuse_argument(TN_ERR_STATE, call, "ddp", "a step is under "
                                 "way: load before tn_ddp_next");
}

/* Rank 0 resolves the path, and the others get the name of the checkpoint in
 * it. Returns 1 if there is one, 0 if there is none, or a negative status. */
static int find(loading *l)
{
    int kind = 0;
    if (l->rank == 0 && !tn_error()) {
        kind = tn__sharded_resolve(l->path, l->found, call);
        const size_t length = strlen(l->path);
        if (kind == 0 && !l->options.optional)
            tn_error_set(TN_ERR_IO, "%s: %s: no complete checkpoint is there",
                         call, l->path);
        else if (kind > 0 && strcmp(l->found, l->path) != 0)
            snprintf(l->own.name, sizeof l->own.name, "%s", l->found + length + 1);
        l->own.serial = kind;
    }
    tn_status status = tn__agree(l->group, call, &l->own, l->all);
    if (status < 0)
        return status;
    if (snprintf(l->found, sizeof l->found, "%s%s%s", l->path,
                 *l->all[0].name ? "/" : "", l->all[0].name) >= PATH_MAX)
        return tn_error_set(TN_ERR_IO, "%s: %s: the path is too long", call,
                            l->path);
    return l->all[0].serial > 0;
}

/* Reads the seed and the count of steps of a tn_ddp, "seed step". */
static tn_status read_ddp(const loading *l, const tn_sharded *saved,
                          uint64_t *seed, uint64_t *step, bool *found)
{
    const char *text = tn_sharded_text(saved, "ddp");
    int end = 0;
    *found = l->options.ddp && text;
    if (*found && (sscanf(text, "%" SCNu64 " %" SCNu64 "%n", seed, step, &end) !=
                       2 || text[end]))
        return tn_error_set(TN_ERR_FORMAT, "%s: %s: \"ddp\" in its metadata is "
                            "not a seed and a step", call, l->found);
    return TN_OK;
}

static void load(loading *l)
{
    const tn_sharded_state *state = l->options.state;
    tn_sharded *saved = tn_sharded_open(l->found);
    if (!saved)
        return;
    char room[64], key[64] = "";
    bool has_ddp = false;
    uint64_t seed = 0, step = 0;
    const char *text = NULL;
    if (state) {
        snprintf(key, sizeof key, "%soptimizer", state->prefix);
        text = tn_sharded_text(saved, key);
        if (!text) {
            tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "path",
                                     "%s: it has no \"%s\"", l->found, key);
            return;
        }
    }
    if (read_ddp(l, saved, &seed, &step, &has_ddp) < 0)
        return;
    tn_safetensors *file = tn__sharded_as_file(
        saved, state ? state->prefix : NULL,
        tn__sharded_random(saved, l->rank, room, sizeof room));
    if (!file || tn_checkpoint_load_part(file, l->checkpoint) < 0)
        return;
    if (state && state->load(state->object, text, saved) < 0 && !tn_error())
        tn_error_set(TN_ERR_STATE, "%s: the state was not loaded", call);
    if (has_ddp && !tn_error())
        tn__ddp_set_counters(l->options.ddp, seed, step);
}

tn_status tn_sharded_load_with(const char *path, tn_checkpoint *checkpoint,
                               tn_group *group,
                               const tn_sharded_load_options *options)
{
    loading l = {.path = path, .checkpoint = checkpoint, .group = group};
    if (!tn_group_size(group)) {
        if (!tn_error())
            tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "group",
                                     "group is %s", group ? "no group" : "NULL");
        return TN_ERR_STATE;
    }
    l.rank = tn_group_rank(group);
    l.ranks = tn_group_size(group);
    l.all = tn_error() ? NULL : calloc((size_t)l.ranks, sizeof *l.all);
    if (!l.all) { /* refused, and tells the other ranks why */
        if (!tn_error())
            tn_error_set(TN_ERR_MEMORY, "%s: out of memory", call);
        (void)tn_dist_barrier(group);
        return tn_error_code();
    }
    TN_SCOPE(scope) {
        check(&l, options);
        const int found = find(&l);
        if (found > 0) {
            load(&l);
            tn_error_rename("checkpoint_load_part", call, "path");
            tn_error_rename("sharded_open", call, "path");
            tn__agree(group, call, &l.own, l.all);
        }
    }
    free(l.all);
    return tn_error() ? tn_error_code() : TN_OK;
}
