/* replay.c: replays recorded work (as torch.cuda.CUDAGraph.replay). Each
 * command makes the same call of the plugin as when it was recorded, so the
 * order of work, errors and trace entries are the same. If the plugin can
 * capture work (extension "graph-replay"), a run of consecutive commands becomes
 * one call. If it can prepare launches (extension "launch-list"), a launch, or a
 * list of launches, is planned once. */
#include <device/command.h>

#include <base/lock.h>
#include <base/memory.h>
#include <base/object.h>
#include <base/timeline.h>
#include <device/registry.h>
#include <device/work.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- segments captured by the device ------------------------------------- */

static tn_status submit_launches(tn_device *device, const tn__command *command)
{
    tn_status status = TN_OK;
    for (; command && !status; command = command->with) {
        tn_launch launch = command->args.launch;
        launch.tag = 0;
        status = device->plugin->launch(device->queue, command->built, &launch);
    }
    return status;
}

/* Submits a command to the plugin. The caller holds the queue's lock. */
static tn_status submit(tn_device *device, const tn__command *command)
{
    const tn_plugin *plugin = device->plugin;
    if (command->kind == TN__WORK_LAUNCH)
        return submit_launches(device, command);
    tn__command p = *command;
    if (command->kind == TN__WORK_COPY) {
        p.args.copy.tag = 0;
        return plugin->copy(device->queue, &p.args.copy);
    }
    const tn__work_kind *work = &tn__work_kinds[command->kind];
    const void *found = work->find(device);
    if (command->after) {
        p.epilogue.tag = 0;
        const tn__work_kind *both = &tn__work_kinds[TN__WORK_EPILOGUE];
        const void *extension = both->find(device);
        tn_status status = extension ? both->run(device, extension, &p.epilogue)
                                     : TN_ERR_UNSUPPORTED;
        if (status != TN_ERR_UNSUPPORTED)
            return status;
        p.after = NULL;
        status = submit(device, &p);
        return status ? status : submit(device, command->after);
    }
    memset((char *)&p.args + work->tag, 0, sizeof(uint64_t));
    return found ? work->run(device, found, &p.args) : TN_ERR_UNSUPPORTED;
}

/* Returns whether a command changes from replay to replay. */
static bool varies(const tn__command *command)
{
    bool does = false;
    for (; command && !does; command = command->with)
        does = command->draw || command->late_count || command->moves ||
               varies(command->after);
    return does;
}

static bool can_vary(const tn_graph_replay_extension *extension)
{
    return TN_HAS(tn_graph_replay_extension, extension, changed) &&
           extension->vary && extension->change && extension->changed;
}

static bool can_capture(const tn__record *record, const tn__command *command)
{
    return (command->kind >= TN__WORK_KINDS ||
            tn__work_kinds[command->kind].recorded) &&
           (!command->after || can_capture(record, command->after)) &&
           (!varies(command) ||
            (!command->alone && can_vary(record->extension)));
}

/* Submits the commands of a segment while the device captures. Sets *refused to
 * the first command that the device cannot change, and returns
 * TN_ERR_UNSUPPORTED. */
static tn_status submit_segment(const tn__record *record,
                                const tn__segment *segment,
                                tn__command **refused)
{
    tn_device *device = record->device;
    const tn_graph_replay_extension *extension = record->extension;
    tn_status status = TN_OK;
    for (tn__command *p = segment->first; p != segment->end && !status;
         p = p->next) {
        if (!varies(p)) {
            status = submit(device, p);
            continue;
        }
        status = extension->vary(device->queue, 1);
        status = status ? status : submit(device, p);
        if (status)
            break;
        status = extension->vary(device->queue, 0);
        if (status == TN_ERR_UNSUPPORTED)
            *refused = p;
    }
    return status;
}

/* Lets the device capture the commands from `first` up to but not including
 * `end` as one segment, and appends it to the record. If `instead` has a
 * segment left, that segment is updated and reused. Returns false if capturing
 * fails; then *refused is the command that the device cannot change, if that is
 * why. */
static bool segment_make(tn__record *record, tn__record *instead,
                         tn__command *first, tn__command *end,
                         tn__command **refused)
{
    const tn_graph_replay_extension *extension = record->extension;
    tn_device *device = record->device;
    tn__segment *segment = instead ? instead->segments : NULL;
    *refused = NULL;
    if (segment)
        instead->segments = segment->next;
    else
        segment = tn__calloc(1, sizeof *segment);
    if (!segment)
        return false;
    segment->next = NULL;
    segment->first = first;
    segment->end = end;
    segment->varies = segment->broken = false;
    for (const tn__command *p = first; p != end; p = p->next)
        segment->varies = segment->varies || varies(p);
    tn__lock_take(&device->queue_lock);
    tn_status status = extension->begin(device->queue);
    if (!status) {
        status = submit_segment(record, segment, refused);
        tn_recorded *unused = NULL;
        tn_status ended =
            status ? extension->end(device->queue, &unused)
            : segment->recorded
                ? extension->end_into(device->queue, segment->recorded)
                : extension->end(device->queue, &segment->recorded);
        if (unused)
            extension->release(device->handle, unused);
        status = status ? status : ended;
    }
    tn__lock_give(&device->queue_lock);
    if (status && segment->recorded)
        extension->release(device->handle, segment->recorded);
    if (status) {
        tn__free(segment);
        return false;
    }
    tn__segment **last = &record->segments;
    while (*last)
        last = &(*last)->next;
    *last = segment;
    return true;
}

/* Returns whether the device can update the captured segments of the older
 * record `instead`. */
static bool can_update(const tn__record *record, const tn__record *instead)
{
    const tn_graph_replay_extension *extension = record->extension;
    return instead && instead->segments &&
           instead->extension == extension &&
           instead->device == record->device &&
           TN_HAS(tn_graph_replay_extension, extension, end_into) &&
           extension->end_into;
}

/* ---- launches that the device prepares ----------------------------------- */

/* Lets the device prepare the launches of a command. If it fails, a replay
 * launches them one by one. */
static void prepare(tn__record *record, tn__command *command)
{
    tn_device *device = record->device;
    uint32_t count = 0;
    for (const tn__command *c = command; c; c = c->with)
        count++;
    tn_launch_item *item = tn__alloc(count * sizeof *item);
    if (!item)
        return;
    count = 0;
    for (const tn__command *c = command; c; c = c->with)
        item[count++] = (tn_launch_item){c->built, &c->args.launch};
    if (!device->synchronous)
        tn__lock_take(&device->queue_lock);
    tn_launch_list *list = NULL;
    if (record->lists->prepare(device->queue, item, count, &list) == TN_OK)
        command->prepared = list;
    if (!device->synchronous)
        tn__lock_give(&device->queue_lock);
    tn__free(item);
}

static void prepare_launches(tn__record *record)
{
    const tn__segment *segment = record->segments;
    record->lists = atomic_load(&record->device->launch_list);
    for (tn__command *p = record->first; p && record->lists;) {
        if (segment && segment->first == p) {
            p = segment->end;
            segment = segment->next;
            continue;
        }
        if (p->kind == TN__WORK_LAUNCH)
            prepare(record, p);
        p = p->next;
    }
}

static void instantiate(tn__record *record, tn__record *instead)
{
    record->extension = atomic_load(&record->device->graph_replay);
    bool captures = record->extension != NULL;
    if (captures && can_update(record, instead))
        /* No replay of `instead` may be running while it is updated. */
        tn__work_drain(record->device);
    else
        instead = NULL;
    for (tn__command *p = record->first; p && captures;) {
        tn__command *first = p, *refused = NULL;
        while (p && can_capture(record, p))
            p = p->next;
        if (first != p && first->next != p)
            captures = segment_make(record, instead, first, p, &refused);
        if (refused) {
            tn_error_clear();
            refused->alone = captures = true;
            p = first;
            continue;
        }
        p = p == first ? p->next : p;
    }
    if (record->extension && !captures && tn__log_enabled(2))
        tn__log(2, "graph_record: %s captures nothing: %s",
                record->device->name, tn_error() ? tn_error() : "no memory");
}

/* Frees what the device has captured and prepared. */
static void release(tn__record *record)
{
    if (record->segments)
        tn__work_drain(record->device);
    for (tn__segment *s = record->segments, *next; s; s = next) {
        next = s->next;
        record->extension->release(record->device->handle, s->recorded);
        tn__free(s);
    }
    record->segments = NULL;
    for (tn__command *p = record->first; p; p = p->next) {
        if (p->prepared)
            record->lists->release(record->device->handle, p->prepared);
        p->prepared = NULL;
    }
}

/* If capturing or preparing fails, records no error; a replay then submits the
 * commands one by one. */
void tn__record_instantiate(tn__record *record, tn__record *instead)
{
    tn__error before;
    tn__error_hide(&before);
    release(record);
    instantiate(record, instead);
    prepare_launches(record);
    tn_error_clear();
    tn__error_restore(&before);
}

int64_t tn__record_calls(const tn__record *record)
{
    int64_t count = 0;
    const tn__segment *segment = record->segments;
    for (const tn__command *p = record->first; p; count++) {
        bool whole = segment && segment->first == p;
        if (!whole && !p->prepared)
            for (const tn__command *c = p->with; c; c = c->with)
                count++;
        p = whole ? segment->end : p->next;
        segment = whole ? segment->next : segment;
    }
    return count;
}

static bool is_current(const struct tn__host_part *part)
{
    return !part->call.version ||
           part->call.version(part->object) == part->version;
}

bool tn__record_is_current(const tn__record *record)
{
    for (size_t i = 0; i < record->host_count; i++)
        if (!is_current(&record->hosts[i]))
            return false;
    return true;
}

bool tn__record_is_over(const tn__record *record)
{
    for (size_t i = 0; i < record->host_count; i++)
        if (!record->hosts[i].call.returns && !is_current(&record->hosts[i]))
            return true;
    return false;
}

/* Undoes the last `advance` of the first `count` host parts. */
static void take_back(const tn__record *record, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        const struct tn__host_part *part = &record->hosts[i];
        if (part->call.take_back)
            part->call.take_back(part->object);
    }
}

void tn__record_take_back(const tn__record *record)
{
    take_back(record, record->host_count);
}

/* If one part fails, those before it are taken back. */
static tn_status advance(const tn__record *record)
{
    tn_status status = TN_OK;
    for (size_t i = 0; i < record->host_count && status >= 0; i++) {
        status = record->hosts[i].call.advance(record->hosts[i].object);
        if (status < 0)
            take_back(record, i);
    }
    return status < 0 ? status : TN_OK;
}

void tn__record_free(tn__record *record)
{
    if (!record)
        return;
    release(record);
    for (tn__command *p = record->first, *next; p; p = next) {
        next = p->next;
        tn__command_free(p);
    }
    for (size_t i = 0; i < record->kept_count; i++)
        record->drop(record->kept[i].object);
    for (size_t i = 0; i < record->host_count; i++)
        tn__unref(record->hosts[i].object);
    tn__free(record->hosts);
    tn__free(record->kept);
    tn__free(record->reuses);
    tn__free(record->draws);
    tn__free(record);
}

/* ---- replay ------------------------------------------------------------- */

static tn_status fail_index(const tn__record *record,
                            const tn__command *command, const tn_fault *fault)
{
    const tn_path *path = tn_path_enter(command->path);
    const tn_status status = tn__fail_outside(
        TN_ERR_INDEX,
        (tn__error_index){
            true, fault->index, 0, fault->extent, 1, {fault->position}},
        "%s: %s: index %" PRId64 " is outside of [0, %" PRId64 ")",
        record->replayer, command->what, fault->index, fault->extent);
    tn_path_enter(path);
    return status;
}

/* Gives a launch or an attention the random generator's seed and counter for
 * this replay, so that each replay draws new numbers. */
static void draw_again(const tn__record *record, tn__command *command)
{
    const struct tn__draw *draw = &record->draws[command->draw - 1];
    if (command->kind == TN__WORK_LAUNCH) {
        tn_number *at = (tn_number *)(uintptr_t)command->args.launch.param +
                        command->draw_at;
        at[0].i = (int64_t)draw->seed_now;
        at[1].i = (int64_t)draw->call_now;
    } else {
        command->args.attention.seed = (int64_t)draw->seed_now;
        command->args.attention.call = (int64_t)draw->call_now;
    }
}

/* Sets a late parameter to the program's number, converted to the parameter's
 * type as when the operator is called. */
static void set_late(tn__command *command, const struct tn__late_param *late)
{
    tn_number *param =
        (tn_number *)(uintptr_t)command->args.launch.param + late->param;
    const uint8_t dtype = command->program->param_dtype[late->param];
    if (dtype == TN_F32 || dtype == TN_F64)
        param->f = *late->from;
    else
        param->i = (int64_t)*late->from;
}

/* Gives the launches of a command, or its other work, the numbers of this
 * replay. */
static void set_numbers(const tn__record *record, tn__command *command)
{
    for (; command; command = command->with) {
        if (command->draw)
            draw_again(record, command);
        for (uint32_t i = 0; i < command->late_count; i++)
            set_late(command, &command->late[i]);
        if (command->after)
            set_numbers(record, command->after);
    }
}

/* Runs the launches of a command, by one call if the device has prepared them
 * and the extension is not masked now. */
static tn_status launch(const tn__record *record, tn__command *command,
                        tn_fault *fault)
{
    tn_device *device = record->device;
    if (command->prepared &&
        atomic_load_explicit(&device->launch_list, memory_order_relaxed))
        return tn__device_launch_list(device, record->lists, command, fault);
    tn_status status = TN_OK;
    for (; command && !status; command = command->with)
        status = tn__device_launch(device, command->program, command->built,
                                   &command->args.launch, command->what, NULL,
                                   fault);
    return status;
}

/* Submits one command, by the same call as when it was recorded. */
static tn_status command_run(const tn__record *record, tn__command *command)
{
    tn_device *device = record->device;
    tn_fault fault = {.size = sizeof fault};
    set_numbers(record, command);
    if (command->kind == TN__WORK_COPY)
        return tn__device_copy_again(device, &command->args.copy,
                                     command->what);
    tn_status status =
        command->after ? tn__device_epilogue(device, command, &fault)
        : command->kind == TN__WORK_LAUNCH
            ? launch(record, command, &fault)
            : tn__device_work(device, command->kind, &command->args,
                              command->what, NULL, &fault);
    if (status == TN_ERR_INDEX)
        return fail_index(record, command, &fault);
    if (status == TN_ERR_UNSUPPORTED)
        return tn__fail(TN_ERR_STATE, "%s: %s was done by an extension of %s that is "
                        "masked now: enable it with tn_device_mask, or record "
                        "again", record->replayer, command->what,
                        device->name);
    return status;
}

/* Gives the varying commands of a segment their values of this replay. Returns
 * false if the device cannot change them, for example because operands with
 * another alignment need another number of kernels. */
static bool change_segment(const tn__record *record, tn__segment *segment)
{
    tn_device *device = record->device;
    const tn_graph_replay_extension *extension = record->extension;
    tn__error before;
    tn__error_hide(&before);
    tn__lock_take(&device->queue_lock);
    tn_status status = extension->change(device->queue, segment->recorded);
    if (!status) {
        for (tn__command *p = segment->first; p != segment->end && !status;
             p = p->next)
            if (varies(p)) {
                set_numbers(record, p);
                status = submit(device, p);
            }
        tn_status ended = extension->changed(device->queue, segment->recorded);
        status = status ? status : ended;
    }
    tn__lock_give(&device->queue_lock);
    if (status && tn__log_enabled(2))
        tn__log(2, "%s: a captured part is submitted in single calls: %s",
                record->replayer, tn_error() ? tn_error() : "no reason");
    tn_error_clear();
    tn__error_restore(&before);
    segment->broken = status != TN_OK;
    return !segment->broken;
}

/* Writes a command's span to the trace, with the names of its operators and the
 * path of its module. */
static void end_span(const tn__span *span, const tn__command *command)
{
    char name[200];
    int launches = 1;
    for (const tn__command *c = command->with; c; c = c->with)
        launches++;
    if (command->after)
        snprintf(name, sizeof name, "%s+%s", command->what,
                 command->after->what);
    else if (launches > 1)
        snprintf(name, sizeof name, "%s (%d launches)", command->what,
                 launches);
    else
        snprintf(name, sizeof name, "%s", command->what);
    const tn_path *path = tn_path_enter(command->path);
    tn__span_end(span, "op", name, NULL);
    tn_path_enter(path);
}

static tn_status command_run_traced(const tn__record *record,
                                    tn__command *command)
{
    tn__span span;
    tn__span_begin(&span);
    const tn_status status = command_run(record, command);
    if (span.trace)
        end_span(&span, command);
    return status;
}

static tn_status segment_run(const tn__record *record, tn__segment *segment)
{
    tn_status status = TN_OK;
    if (!segment->broken &&
        (!segment->varies || change_segment(record, segment)))
        return tn__device_replay(record->device, record->extension,
                                 segment->recorded, record->replayer);
    for (tn__command *p = segment->first; p != segment->end && !status;
         p = p->next)
        status = command_run_traced(record, p);
    return status;
}

tn_status tn__record_run(tn__record *record,
                         void (*draw)(uint64_t *seed, uint64_t *call))
{
    tn__segment *segment = record->segments;
    tn_status status = advance(record);
    if (status < 0)
        return status;
    for (size_t d = 0; d < record->draw_count; d++)
        draw(&record->draws[d].seed_now, &record->draws[d].call_now);
    for (tn__command *p = record->first; p && !status;) {
        if (segment && segment->first == p) {
            status = segment_run(record, segment);
            p = segment->end;
            segment = segment->next;
        } else {
            status = command_run_traced(record, p);
            p = p->next;
        }
    }
    if (status < 0)
        tn__record_take_back(record);
    return status;
}
