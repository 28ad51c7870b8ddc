/* recorder.c: records the work that a thread submits to a device, for a graph
 * (as torch.cuda.CUDAGraph). Each submission becomes a command, a deep copy of
 * the arguments of the plugin's call. */
#include <device/command.h>
#include <device/work.h>

#include <base/context.h>
#include <base/memory.h>
#include <base/object.h>
#include <device/registry.h>

#include <inttypes.h>
#include <string.h>

/* ---- recording ---------------------------------------------------------- */

tn__record *tn__record_begin(tn_device *device, const char *recorder,
                             const char *replayer, void (*drop)(void *kept))
{
    if (tn__me.recording)
        return tn__fail_null(TN_ERR_STATE, "%s: this thread is already recording "
                             "(%s): recordings cannot be nested", recorder,
                             tn__me.recording->recorder);
    tn__record *record = tn__calloc(1, sizeof *record);
    if (!record)
        return NULL;
    record->device = device;
    record->recorder = recorder;
    record->replayer = replayer;
    record->last = &record->first;
    record->drop = drop;
    tn__me.recording = record;
    return record;
}

bool tn__record_keeps(const void *object)
{
    const tn__record *record = tn__me.recording;
    for (size_t i = record->kept_count; i-- > 0;)
        if (record->kept[i].object == object)
            return true;
    return false;
}

bool tn__record_keep(void *object, bool made)
{
    tn__record *record = tn__me.recording;
    if (tn__record_keeps(object))
        return false;
    if (!tn__grow(&record->kept, &record->kept_room, record->kept_count,
                  sizeof *record->kept))
        return false;
    record->kept[record->kept_count++] = (struct tn__kept){object, made};
    return true;
}

void tn__record_reuse(size_t kept)
{
    tn__record *record = tn__me.recording;
    if (tn__grow(&record->reuses, &record->reuse_room, record->reuse_count,
                 sizeof *record->reuses))
        record->reuses[record->reuse_count++] =
            (struct tn__reuse){kept, record->count};
}

void tn__record_drew(uint64_t seed, uint64_t call)
{
    tn__record *record = tn__me.recording;
    if (tn__grow(&record->draws, &record->draw_room, record->draw_count,
                 sizeof *record->draws))
        record->draws[record->draw_count++] =
            (struct tn__draw){.seed = seed, .call = call};
}

int tn__record_host(void *object, const tn__host_calls *call)
{
    tn__record *record = tn__me.recording;
    for (size_t i = 0; i < record->host_count; i++)
        if (record->hosts[i].object == object)
            return 1;
    if (!tn__grow(&record->hosts, &record->host_room, record->host_count,
                  sizeof *record->hosts))
        return TN_ERR_MEMORY;
    record->hosts[record->host_count++] =
        (struct tn__host_part){tn__ref(object), *call,
                               call->version ? call->version(object) : 0};
    return 0;
}

tn_status tn__record_refuse_host(const tn_device *device, const char *what)
{
    if (!tn__me.recording || tn__me.recording->device != device)
        return TN_OK;
    return tn__fail(TN_ERR_STATE,
                    "%s: work is being recorded (%s), and a replay would not "
                    "repeat what the host does with memory of %s: do it before "
                    "or after the recorded function", what,
                    tn__me.recording->recorder, device->name);
}

void tn__record_late_begin(void)
{
    if (tn__me.recording)
        tn__me.recording->late_count = 0;
}

void tn__record_late(uint32_t param, const double *from)
{
    tn__record *record = tn__me.recording;
    if (record && record->late_count < TN__LATE_MAX)
        record->late[record->late_count++] =
            (struct tn__late_param){param, from};
}

/* Checks that the recording is of this device. */
static bool is_device(const tn_device *device, const char *what)
{
    if (device == tn__me.recording->device)
        return true;
    tn__fail(TN_ERR_STATE, "%s: work is being recorded on %s (%s); work for %s "
             "cannot be part of it", what, tn__me.recording->device->name,
             tn__me.recording->recorder, device->name);
    return false;
}

/* Allocates a command with `more` extra bytes after it, which hold copies of
 * arrays. */
static tn__command *command_make(int kind, const char *what, size_t more)
{
    tn__command *command = tn__calloc(1, sizeof *command + more);
    if (command) {
        command->kind = kind;
        command->what = what;
        command->path = tn__me.location.path;
    }
    return command;
}

static void command_append(tn__command *command)
{
    tn__record *record = tn__me.recording;
    *record->last = command;
    record->last = &command->next;
    record->count++;
}

/* Finds the latest recorded random draw with this seed and call number (`call`
 * counts the random operators since the seed was set). Returns its index in the
 * record's list plus 1, or 0 if there is none. */
static size_t draw_latest(int64_t seed, int64_t call)
{
    const tn__record *record = tn__me.recording;
    for (size_t d = record->draw_count; d > 0; d--)
        if ((uint64_t)seed == record->draws[d - 1].seed &&
            (uint64_t)call == record->draws[d - 1].call)
            return d;
    return 0;
}

tn_status tn__record_work(tn_device *device, int kind, const void *args,
                          size_t bytes, const char *what)
{
    tn__command *command =
        is_device(device, what) ? command_make(kind, what, 0) : NULL;
    if (!command)
        return tn_error_code();
    memcpy(&command->args, args, bytes);
    if (kind == TN__WORK_ATTENTION && command->args.attention.dropout > 0)
        command->draw = draw_latest(command->args.attention.seed,
                                  command->args.attention.call);
    command_append(command);
    return TN_OK;
}

/* Copies `count` integers to *at, advances *at past them, and returns the
 * copy. */
static const int64_t *put_numbers(char **at, const int64_t *from, size_t count)
{
    int64_t *to = (int64_t *)(void *)*at;
    if (count)
        memcpy(to, from, count * sizeof *to);
    *at += count * sizeof *to;
    return to;
}

static bool is_random(const tn_program *program)
{
    for (uint32_t i = 0; i < program->ins_count; i++)
        if (program->ins[i].op == TN_K_PHILOX)
            return true;
    for (uint32_t f = 0; f < program->fn_count; f++)
        for (uint32_t i = 0; i < program->fn[f].ins_count; i++)
            if (program->fn[f].ins[i].op == TN_K_PHILOX)
                return true;
    return false;
}

/* Finds the random draw that a launch uses, if it uses one. The launch has the
 * draw's seed and call number as two adjacent parameters. If several draws
 * match, the latest is taken. */
static void find_draw(const tn_program *program, const tn_launch *launch,
                      tn__command *command)
{
    const tn__record *record = tn__me.recording;
    if (!record->draw_count || !is_random(program))
        return;
    for (size_t d = record->draw_count; d > 0 && !command->draw; d--)
        for (uint32_t p = 0; p + 1 < program->param_count; p++)
            if (program->param_dtype[p] == TN_I64 &&
                program->param_dtype[p + 1] == TN_I64 &&
                (uint64_t)launch->param[p].i == record->draws[d - 1].seed &&
                (uint64_t)launch->param[p + 1].i == record->draws[d - 1].call) {
                command->draw = d;
                command->draw_at = p;
            }
}

tn__command *tn__command_launch(const tn_program *program, tn_built *built,
                                const tn_launch *launch, const char *what)
{
    const size_t ndim = launch->outer_ndim + launch->row_ndim;
    const size_t operands = program->operand_count;
    size_t numbers = ndim + program->param_count;
    for (size_t k = 0; k < operands; k++)
        numbers += ndim + 2 * (size_t)program->operand[k].index_count;
    tn__command *command = command_make(
        TN__WORK_LAUNCH, what,
        operands * sizeof(tn_launch_operand) + numbers * sizeof(int64_t));
    if (!command)
        return NULL;
    command->program = program;
    command->built = built;
    tn_launch_operand *operand = (tn_launch_operand *)(void *)(command + 1);
    char *at = (char *)(operand + operands);
    for (size_t k = 0; k < operands; k++) {
        const tn_launch_operand *from = &launch->operand[k];
        const size_t indices = program->operand[k].index_count;
        operand[k] = *from;
        operand[k].stride = put_numbers(&at, from->stride, ndim);
        operand[k].index_stride = put_numbers(&at, from->index_stride, indices);
        operand[k].index_extent = put_numbers(&at, from->index_extent, indices);
    }
    command->args.launch = *launch;
    command->args.launch.operand = operand;
    command->args.launch.extent = put_numbers(&at, launch->extent, ndim);
    tn_number *param = (tn_number *)(void *)at;
    if (program->param_count)
        memcpy(param, launch->param, program->param_count * sizeof *param);
    command->args.launch.param = param;
    return command;
}

void tn__command_join(tn__command *command, tn__command *after, uint32_t kind,
                      uint32_t operand, const uint8_t of[TN_MAX_NDIM])
{
    command->after = after;
    command->epilogue = (tn_epilogue_args){.size = sizeof command->epilogue,
                                           .kind = kind,
                                           .work = &command->args,
                                           .program = after->program,
                                           .built = after->built,
                                           .launch = &after->args.launch,
                                           .operand = operand};
    memcpy(command->epilogue.of, of, sizeof command->epilogue.of);
}

static tn__command *copy_one(const tn__command *from)
{
    tn__command *to =
        from->kind == TN__WORK_LAUNCH
            ? tn__command_launch(from->program, from->built, &from->args.launch,
                                 from->what)
            : command_make(from->kind, from->what, 0);
    if (!to)
        return NULL;
    if (from->kind != TN__WORK_LAUNCH)
        to->args = from->args;
    to->path = from->path;
    to->draw = from->draw;
    to->draw_at = from->draw_at;
    to->late_count = from->late_count;
    memcpy(to->late, from->late, sizeof to->late);
    to->moves = from->moves;
    if (!from->after)
        return to;
    tn__command *after = copy_one(from->after);
    if (!after) {
        tn__free(to);
        return NULL;
    }
    tn__command_join(to, after, from->epilogue.kind, from->epilogue.operand,
                     from->epilogue.of);
    return to;
}

tn__command *tn__command_copy(const tn__command *command)
{
    tn__command *first = NULL, **last = &first;
    for (; command; command = command->with) {
        *last = copy_one(command);
        if (!*last) {
            tn__command_free(first);
            return NULL;
        }
        last = &(*last)->with;
    }
    return first;
}

void tn__command_free(tn__command *command)
{
    for (tn__command *next; command; command = next) {
        next = command->with;
        tn__free(command->after);
        tn__free(command);
    }
}

tn_status tn__record_launch(tn_device *device, const tn_program *program,
                            tn_built *built, const tn_launch *launch,
                            const char *what)
{
    tn__record *record = tn__me.recording;
    tn__command *command =
        is_device(device, what)
            ? tn__command_launch(program, built, launch, what) : NULL;
    if (!command)
        return tn_error_code();
    find_draw(program, launch, command);
    command->late_count = record->late_count;
    memcpy(command->late, record->late, sizeof command->late);
    record->late_count = 0;
    command_append(command);
    return TN_OK;
}

void tn__record_end(tn__record *record)
{
    (void)record;
    tn__me.recording = NULL;
}
