/* report.c: a program as text: what was fused, and why the rest was not. */
#include <compile/report.h>

#include <base/memory.h>
#include <base/platform.h>
#include <device/work.h>

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Adds the sizes of a launch's iteration space. */
static void add_sizes(tn__text *text, const tn__command *command)
{
    if (command->after)
        command = command->after;
    const tn_launch *launch = &command->args.launch;
    if (command->kind != TN__WORK_LAUNCH)
        return;
    tn__text_add(text, " over ");
    tn__text_add_shape(text, (int)(launch->outer_ndim + launch->row_ndim),
                       launch->extent);
}

void tn__report_group(tn__text *text, const tn__capture *capture,
                      const tn__group *group, const tn__command *command,
                      size_t at)
{
    for (int p = 0; p < group->count; p++) {
        const tn__step *step = &capture->step[group->step[p]];
        if (p == 0 || !command)
            tn__text_add(text, "%4zu  %s", at + (size_t)(command ? 0 : p),
                         step->what);
        else
            tn__text_add(text, " + %s", step->what);
        if (step->after)
            tn__text_add(text, " again");
        const tn__group *after = command ? group->after : NULL;
        for (int q = 0; after && q < after->count; q++)
            tn__text_add(text, " + %s", capture->step[after->step[q]].what);
        if (!command || p == group->count - 1)
            add_sizes(text, command ? command : step->command);
        if (!command || p == group->count - 1)
            tn__text_add(text, "\n");
    }
    if (group->refused && group->refused_step != group->step[0])
        tn__text_add(text, "      not fused with %s: %s",
                     capture->step[group->refused_step].what, group->refused);
    else
        return;
    if (group->cost.instructions)
        tn__text_add(text, ", %" PRId64 " instructions per element to save %"
                     PRId64 " bytes", group->cost.instructions,
                     group->cost.bytes);
    tn__text_add(text, "\n");
}

void tn__report_list(tn__text *text, const tn__entry *list)
{
    tn__text_add(text, "list of the launches");
    for (const tn__entry *e = list; e; e = e->with)
        tn__text_add(text, " %zu", e->number);
    tn__text_add(text, ", by one call\n");
}

void tn__report_donors(tn__text *text, const tn__replayed *p)
{
    for (size_t i = 0; i < p->output_count; i++)
        for (size_t o = 0; o < p->capture->output_count && p->donor[i]; o++)
            if (p->capture->output[o].value == p->outputs[i])
                tn__text_add(text, "out[%zu] in the memory of in[%d], which is "
                             "donated\n", o, p->donor[i] - 1);
}

bool tn__report_memory(tn__text *text, const tn__capture *capture,
                       const tn__lifetime *life)
{
    /* writer[v]: the operator that writes value v first. */
    const char **writer = tn__calloc(capture->value_count + 1, sizeof *writer);
    bool first = true;
    if (!writer)
        return false;
    for (size_t s = 0; s < capture->step_count; s++) {
        const tn__step *step = &capture->step[s];
        for (uint32_t u = 0; u < step->use_count; u++) {
            const tn__use *use = &capture->use[step->first_use + u];
            if (use->access.writes && !writer[use->value])
                writer[use->value] = step->what;
        }
    }
    for (size_t v = 0; v < capture->value_count; v++) {
        if (!life[v].bytes)
            continue;
        tn__text_add(text, "%s      bytes %" PRIu64 " to %" PRIu64 " in calls "
                     "%zu to %zu: %s\n", first ? "arena:\n" : "",
                     life[v].place, life[v].place + life[v].bytes - 1,
                     life[v].first, life[v].last,
                     writer[v] ? writer[v] : "no operator");
        first = false;
    }
    tn__free(writer);
    return true;
}

tn_status tn__report_write(const char *text, const char *name)
{
    static _Atomic unsigned number;
    const char *folder = tn__env("TENON_COMPILE_REPORT");
    char path[4096], plain[64];
    size_t n = 0;
    if (!folder || !*folder)
        return TN_OK;
    for (; name[n] && n + 1 < sizeof plain; n++)
        plain[n] = isalnum((unsigned char)name[n]) ? name[n] : '_';
    plain[n] = 0;
    snprintf(path, sizeof path, "%s/%s-%u.txt", folder, plain,
             atomic_fetch_add(&number, 1) + 1);
    FILE *file = fopen(path, "we");
    bool done = file && fputs(text, file) >= 0;
    if (file && fclose(file) != 0)
        done = false;
    return done ? TN_OK
                : tn__fail(TN_ERR_IO, "compile: cannot write %s, the report that "
                           "TENON_COMPILE_REPORT asks for: %s", path,
                           strerror(errno));
}

char *tn__report_finish(tn__text *lines, const char *name,
                        const tn__replayed *p)
{
    tn__text text = {0};
    tn__text_add(&text, "%s on %s\n", name, p->capture->record->device->name);
    tn__text_add(&text, "%" PRId64 " recorded calls of the device, %" PRId64
                 " per replay\n", p->recorded, p->launches);
    tn__text_add(&text, "temporary tensors: %" PRIu64 " bytes, at most %" PRIu64
                 " at the same time, in an arena of %" PRIu64
                 " bytes; no arena can have less than %" PRIu64 " bytes\n",
                 p->eager_bytes, p->peak_bytes, p->arena_bytes, p->bound_bytes);
    if (p->repeats || p->copies || p->fills)
        tn__text_add(&text, "removed before fusion: %" PRId64 " repeated calls, "
                     "%" PRId64 " copies and %" PRId64 " fills\n", p->repeats,
                     p->copies, p->fills);
    if (p->constants.calls)
        tn__text_add(&text, "%" PRId64 " calls with constant results were made "
                     "once; the results have %" PRIu64 " bytes\n",
                     p->constants.calls, p->constants.bytes);
    if (p->prepared.count)
        tn__text_add(&text, "%zu weights are prepared for the device, in %"
                     PRIu64 " bytes\n", p->prepared.count, p->prepared.bytes);
    if (p->recomputed)
        tn__text_add(&text, "%" PRId64 " launches compute results again that "
                     "are not kept\n", p->recomputed);
    if (lines->data)
        tn__text_add_bytes(&text, lines->data, lines->length);
    return tn__text_finish(&text);
}
