/* tenon_scale.c: the command `tenon scale`: tables of predicted steps on many
 * GPUs: see tenon_scale_model.h and docs/scale.md. */
#include "tenon_scale.h"
#include "tenon_scale_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

enum { LIST = 32 };

typedef struct list {
    int count;
    double value[LIST];
} list;

typedef struct request {
    scale_machine machine;
    scale_step step;
    list gpus, buckets, prefetches;
    int shard;
    const char *parameters, *report;
    double layers;
    double seconds, flops, peak;
    bool collectives;
} request;

/* ---- the command line ----------------------------------------------------- */

/* One GPU of a node of eight H100, whose sources docs/scale.md names. */
static request defaults(void)
{
    return (request){
        .machine = {.node = 8, .inside = 360e9, .between = 45e9,
                    .inside_hop = 3e-6, .between_hop = 12e-6, .launch = 20e-6,
                    .memory = 2.85e12},
        .step = {.weight = 2, .gradient = 2, .state = 12, .copies = 4},
        .gpus = {4, {8, 64, 512, 4096}},
        .buckets = {3, {5e6, 25e6, 100e6}},
        .prefetches = {2, {0, 1}},
        .shard = 64,
    };
}

/* Reads numbers that are separated by commas. Each must be at least `low`. */
static bool read_list(const char *text, double low, list *out)
{
    out->count = 0;
    for (;;) {
        char *end;
        const double x = strtod(text, &end);
        if (end == text || !(x >= low) || isinf(x) || out->count == LIST)
            return false;
        out->value[out->count++] = x;
        if (!*end)
            return true;
        if (*end != ',')
            return false;
        text = end + 1;
    }
}

static bool read_whole_list(const char *text, list *out)
{
    bool good = read_list(text, 0, out);
    for (int i = 0; good && i < out->count; i++)
        good = out->value[i] == floor(out->value[i]) && out->value[i] < 1e6;
    return good;
}

static bool read_option(request *r, const char *name, const char *value)
{
    scale_machine *m = &r->machine;
    const struct {
        const char *name;
        double *to;
        double unit, low;
    } number[] = {
        {"--step-ms", &r->seconds, 1e-3, 1e-6},
        {"--flops", &r->flops, 1, 1},
        {"--speed", &r->peak, 1, 1},
        {"--layers", &r->layers, 1, 1},
        {"--inside-gbs", &m->inside, 1e9, 1e-6},
        {"--between-gbs", &m->between, 1e9, 1e-6},
        {"--inside-us", &m->inside_hop, 1e-6, 0},
        {"--between-us", &m->between_hop, 1e-6, 0},
        {"--launch-us", &m->launch, 1e-6, 0},
        {"--memory-gbs", &m->memory, 1e9, 1e-6},
        {"--busy", &m->busy, 1, 0},
        {"--jitter", &m->jitter, 1, 0},
        {"--weight-bytes", &r->step.weight, 1, 1},
        {"--gradient-bytes", &r->step.gradient, 1, 1},
        {"--state-bytes", &r->step.state, 1, 0},
        {"--copies", &r->step.copies, 1, 0},
    };
    list one;
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (!strcmp(name, number[i].name)) {
            if (!read_list(value, number[i].low, &one) || one.count != 1)
                return false;
            *number[i].to = one.value[0] * number[i].unit;
            return true;
        }
    if (!strcmp(name, "--parameters"))
        return r->parameters = value, true;
    if (!strcmp(name, "--report"))
        return r->report = value, true;
    if (!strcmp(name, "--gpus"))
        return read_whole_list(value, &r->gpus) && r->gpus.value[0] >= 1;
    if (!strcmp(name, "--prefetch"))
        return read_whole_list(value, &r->prefetches);
    if (!strcmp(name, "--bucket-mb")) {
        bool good = read_list(value, 1e-3, &r->buckets);
        for (int i = 0; i < r->buckets.count; i++)
            r->buckets.value[i] *= 1e6;
        return good;
    }
    if (!strcmp(name, "--node") || !strcmp(name, "--shard")) {
        if (!read_whole_list(value, &one) || one.count != 1 || one.value[0] < 1)
            return false;
        *(!strcmp(name, "--node") ? &m->node : &r->shard) = (int)one.value[0];
        return true;
    }
    return false;
}

/* ---- the step ------------------------------------------------------------- */

static int complain(const char *text)
{
    fprintf(stderr, "tenon scale: %s\n", text);
    return 1;
}

static bool make_units(scale_step *s, int count)
{
    s->units = count;
    s->elements = calloc((size_t)count, sizeof *s->elements);
    return s->elements != NULL;
}

/* The tensors of a safetensors file, or a number of parameters in equal layers. */
static bool read_parameters(request *r)
{
    list one;
    scale_step *s = &r->step;
    if (read_list(r->parameters, 1, &one) && one.count == 1) {
        const int layers = r->layers > 0 ? (int)r->layers : 1;
        if (!make_units(s, layers))
            return false;
        for (int i = 0; i < layers; i++)
            s->elements[i] = one.value[0] / layers;
        return true;
    }
    tn_safetensors *file = tn_safetensors_open(r->parameters);
    if (!file || !tn_safetensors_count(file)) {
        complain(file ? "the file of --parameters has no tensors" : tn_error());
        return false;
    }
    if (!make_units(s, tn_safetensors_count(file)))
        return false;
    for (int i = 0; i < s->units; i++) {
        const char *name = tn_safetensors_name(file, i);
        const int64_t *shape = tn_safetensors_shape(file, name);
        s->elements[i] = 1;
        for (int d = 0; d < tn_safetensors_ndim(file, name); d++)
            s->elements[i] *= (double)shape[d];
    }
    return true;
}

/* The memory of temporary tensors, from the report of a compiled step. */
static bool read_report(request *r)
{
    FILE *file = fopen(r->report, "r");
    char line[512];
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *at = strstr(line, " in an arena of ");
        unsigned long long bytes;
        found = !strncmp(line, "temporary tensors:", 18) && at &&
                sscanf(at, " in an arena of %llu bytes", &bytes) == 1;
        if (found)
            r->step.activations = (double)bytes;
    }
    if (file)
        fclose(file);
    if (!found)
        fprintf(stderr, "tenon scale: %s: %s\n", r->report,
                file ? "no report of a compiled function: it has no line of "
                       "temporary tensors" : "cannot be read");
    return found;
}

/* Fills the times of compute: a third is the forward pass. */
static void set_times(request *r)
{
    const double seconds = r->seconds > 0 ? r->seconds : r->flops / r->peak;
    r->step.forward = seconds / 3;
    r->step.backward = seconds - r->step.forward;
}

/* ---- tables --------------------------------------------------------------- */

static void print_collectives(const request *r)
{
    printf("all_reduce, ms: one ring | within nodes, then between\n%8s", "GPUs");
    for (int b = 0; b < r->buckets.count; b++)
        printf(" %16g MB", r->buckets.value[b] / 1e6);
    printf("\n");
    for (int i = 0; i < r->gpus.count; i++) {
        const int n = (int)r->gpus.value[i];
        printf("%8d", n);
        for (int b = 0; b < r->buckets.count; b++) {
            const double bytes = r->buckets.value[b];
            printf(" %8.3f |%9.3f",
                   1e3 * scale_all_reduce(&r->machine, true, bytes, n),
                   1e3 * scale_all_reduce(&r->machine, false, bytes, n));
        }
        printf("\n");
    }
}

static void print_row(const request *r, const char *name, scale_choice choice)
{
    printf("%-24s", name);
    for (int i = 0; i < r->gpus.count; i++) {
        scale_result x = scale_predict(&r->machine, &r->step, &choice,
                                       (int)r->gpus.value[i]);
        printf(" %9.2f %5.3f %6.2f", x.step * 1e3, x.compute / x.step,
               x.memory / 1e9);
    }
    printf("\n");
}

static void print_steps(const request *r)
{
    char name[64];
    printf("\nstep, ms; share of it that is compute alone; GB of a GPU\n%-24s",
           "GPUs");
    for (int i = 0; i < r->gpus.count; i++)
        printf(" %9d %12s", (int)r->gpus.value[i], "");
    printf("\n");
    for (int b = 0; b < r->buckets.count; b++)
        for (int flat = 1; flat >= 0; flat--) {
            scale_choice c = {.way = SCALE_DDP, .flat = flat,
                              .bucket = r->buckets.value[b]};
            snprintf(name, sizeof name, "ddp %g MB%s", c.bucket / 1e6,
                     flat ? ", one ring" : "");
            print_row(r, name, c);
        }
    for (int b = 0; b < r->buckets.count; b++) {
        scale_choice c = {.way = SCALE_ZERO1, .bucket = r->buckets.value[b]};
        snprintf(name, sizeof name, "zero1 %g MB", c.bucket / 1e6);
        print_row(r, name, c);
    }
    for (int way = SCALE_FSDP; way <= SCALE_HSDP; way++)
        for (int p = 0; p < r->prefetches.count; p++) {
            scale_choice c = {.way = (scale_way)way, .shard = r->shard,
                              .prefetch = (int)r->prefetches.value[p]};
            char group[16] = "";
            if (way == SCALE_HSDP)
                snprintf(group, sizeof group, " %d", r->shard);
            snprintf(name, sizeof name, "%s%s, %d ahead",
                     way == SCALE_HSDP ? "hsdp" : "fsdp", group, c.prefetch);
            print_row(r, name, c);
        }
}

int tenon_scale(int count, char **argument)
{
    request r = defaults();
    int status = 1;
    for (int i = 0; i < count; i += 2)
        if (i + 1 == count || !read_option(&r, argument[i], argument[i + 1])) {
            fprintf(stderr, "tenon scale: %s%s%s\n", argument[i],
                    i + 1 < count ? " " : ": no value", i + 1 < count
                                                            ? argument[i + 1]
                                                            : "");
            return 2;
        }
    if (!r.parameters || (!(r.seconds > 0) && !(r.flops > 0 && r.peak > 0))) {
        complain("--parameters is needed, and --step-ms, or --flops and --speed");
        return 2;
    }
    if ((!r.report || read_report(&r)) && read_parameters(&r)) {
        set_times(&r);
        print_collectives(&r);
        print_steps(&r);
        status = fflush(stdout) != 0;
    }
    free(r.step.elements);
    return status;
}
