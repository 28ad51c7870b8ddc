/* place.c: which process this is: from options, or from what the launcher put
 * into the environment. A launcher that starts another one leaves its variables
 * behind, so the sources have an order. Two sources that contradict each other
 * are an error: a job of two halves that wait for each other is hard to read. */
#include <dist/dist.h>

#include <base/plain.h>

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char call_name[] = "dist_init";

/* The variables of a launcher. Those after count may be NULL. */
typedef struct launcher {
    const char *rank, *count, *local_count;
    const char *job[2];    /* joined by '-' */
    const char *address, *port;
    const char *requires;  /* a variable without which the others mean nothing */
    const char *yields_to; /* a variable of a launcher that runs inside */
} launcher;
static const launcher launchers[] = {
    /* tenon run */
    {"TENON_RANK", "TENON_SIZE", "TENON_LOCAL_SIZE",
     {"TENON_JOB", NULL}, NULL, NULL, NULL, NULL},
    /* Open MPI */
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE", {"PMIX_NAMESPACE", NULL}, NULL, NULL, NULL,
     NULL},
    /* PMI, of MPICH */
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", {"PMI_JOBID", NULL}, NULL,
     NULL, NULL, NULL},
    /* SLURM. mpirun in an allocation of SLURM starts one task of SLURM on each machine,
     * whose variables its own processes inherit. */
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}, NULL, NULL, "SLURM_STEP_ID",
     "OMPI_COMM_WORLD_RANK"},
    /* torchrun */
    {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
     {"MASTER_ADDR", "MASTER_PORT"}, "MASTER_ADDR", "MASTER_PORT", NULL, NULL},
};
enum { LAUNCHERS = sizeof launchers / sizeof *launchers };

static const char *env(const char *name)
{
    const char *text = name ? secure_getenv(name) : NULL;
    return text && *text ? text : NULL;
}

/* Reads a number from a variable. loose: ignores what follows it, as in "4(x2)",
 * SLURM's form of "4 on each of 2 machines". */
static tn_status read_number(const char *name, bool loose, int32_t *out)
{
    const char *text = env(name);
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || (*end && !loose) || value < 0 || value > INT32_MAX)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call_name, NULL,
                                        "%s is \"%s\": expected a number", name,
                                        text);
    *out = (int32_t)value;
    return TN_OK;
}

/* Appends text to a job's name, with '_' for other letters. */
static void join(char *job, size_t room, const char *text)
{
    size_t used = strlen(job);
    if (used && used + 1 < room)
        job[used++] = '-';
    for (; *text && used + 1 < room; text++)
        job[used++] = isalnum((unsigned char)*text) || *text == '-' ? *text : '_';
    job[used] = 0;
}

/* Reads a launcher's variables. *found: whether they are there. */
static tn_status read_launcher(const launcher *l, tn__dist_place *out, bool *found)
{
    *found = false;
    if ((l->requires && !env(l->requires)) || env(l->yields_to) ||
        (!env(l->rank) && !env(l->count)))
        return TN_OK;
    const char *missing = !env(l->rank) ? l->rank : !env(l->count) ? l->count : NULL;
    if (missing)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call_name, NULL,
            "%s is set without %s: set both, or neither",
            missing == l->rank ? l->count : l->rank, missing);
    memset(out, 0, sizeof *out);
    if (read_number(l->rank, false, &out->rank) < 0 ||
        read_number(l->count, false, &out->count) < 0 ||
        (env(l->local_count) &&
         read_number(l->local_count, true, &out->local_count) < 0))
        return TN_ERR_ARGUMENT;
    if (out->count < 1 || out->rank >= out->count)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call_name, NULL,
            "%s is %d and %s is %d: expected a rank below the number of "
            "processes", l->rank, (int)out->rank, l->count, (int)out->count);
    for (int i = 0; i < 2; i++)
        if (env(l->job[i]))
            join(out->job, sizeof out->job, env(l->job[i]));
    if (env(l->address))
        snprintf(out->address, sizeof out->address, "%s", env(l->address));
    int32_t port = 0;
    if (env(l->port) && read_number(l->port, false, &port) < 0)
        return TN_ERR_ARGUMENT;
    out->port = (uint32_t)port;
    snprintf(out->source, sizeof out->source, "%s", l->rank);
    *found = true;
    return TN_OK;
}

static tn_status read_environment(tn__dist_place *out)
{
    bool any = false;
    for (int i = 0; i < LAUNCHERS; i++) {
        tn__dist_place place;
        bool found;
        if (read_launcher(&launchers[i], &place, &found) < 0)
            return TN_ERR_ARGUMENT;
        if (!found)
            continue;
        if (!any)
            *out = place;
        else if (out->count == 1 && place.count > 1 &&
                 strcmp(place.source, "SLURM_PROCID") == 0)
            return tn_error_refuse_argument(
                TN_ERR_ARGUMENT, call_name, NULL,
                "srun has started %d tasks, and %s says that each is alone: give "
                "srun the option --mpi=pmix", (int)place.count, out->source);
        else if (place.rank != out->rank || place.count != out->count)
            return tn_error_refuse_argument(
                TN_ERR_ARGUMENT, call_name, NULL,
                "%s says rank %d of %d, %s says rank %d of %d: unset the "
                "variables of the launcher that is not used", out->source,
                (int)out->rank, (int)out->count, place.source, (int)place.rank,
                (int)place.count);
        any = true;
    }
    return TN_OK;
}

static tn_status read_options(const tn_dist_init_options *o, tn__dist_place *out)
{
    const bool has_rank = o->rank != TN_NONE_INT, has_count = o->count != TN_NONE_INT;
    if (has_rank != has_count)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call_name, has_rank ? "rank" : "count",
            ".%s is given without .%s: give both, or neither",
            has_rank ? "rank" : "count", has_rank ? "count" : "rank");
    if (!has_rank)
        return TN_OK;
    if (o->count < 1 || o->count > INT32_MAX || o->rank < 0 || o->rank >= o->count)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call_name, "rank",
            ".rank is %" PRId64 " and .count is %" PRId64 ": expected a rank from "
            "0 to below the number of processes", o->rank, o->count);
    if (out->source[0] && (out->rank != o->rank || out->count != o->count))
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call_name, "rank",
            "the options say rank %" PRId64 " of %" PRId64 ", %s says rank %d of "
            "%d: leave one of them out", o->rank, o->count, out->source,
            (int)out->rank, (int)out->count);
    out->rank = (int32_t)o->rank;
    out->count = (int32_t)o->count;
    snprintf(out->source, sizeof out->source, "options");
    return TN_OK;
}

static tn_status read_timeout(const tn_dist_init_options *o, tn__dist_place *out)
{
    const char *text = env("TENON_TIMEOUT");
    out->timeout = 30;
    if (!tn_is_none_float(o->timeout)) {
        out->timeout = o->timeout;
    } else if (text) {
        char *end;
        out->timeout = (double)tn__read_float(text, &end);
        if (*end)
            out->timeout = -1;
    }
    if (out->timeout > 0 && out->timeout <= 1e6)
        return TN_OK;
    return tn_error_refuse_argument(
        TN_ERR_ARGUMENT, call_name, "timeout",
        "the timeout is %g s%s%s: expected a number above 0 and at most 1e6",
        out->timeout, text ? "; TENON_TIMEOUT is " : "", text ? text : "");
}

tn_status tn__dist_place_find(const tn_dist_init_options *options,
                              tn__dist_place *out)
{
    memset(out, 0, sizeof *out);
    out->count = 1;
    if (read_environment(out) < 0 || read_options(options, out) < 0 ||
        read_timeout(options, out) < 0)
        return TN_ERR_ARGUMENT;
    if (options->job || (!out->job[0] && env("TENON_JOB"))) {
        out->job[0] = 0;
        join(out->job, sizeof out->job,
             options->job ? options->job : env("TENON_JOB"));
    }
    if (!out->job[0]) /* the processes of a launcher have one parent */
        snprintf(out->job, sizeof out->job, "parent-%ld", (long)getppid());
    out->engine = options->engine ? options->engine : env("TENON_ENGINE");
    out->token = env("TENON_TOKEN");
    return TN_OK;
}
