/* recorder.c: see recorder.h. A piece is a deep copy of what the plugin was given.
 * Given again it goes through the same calls as the first time, so that order,
 * faults and figures are theirs; where the plugin records work itself
 * ("graph-replay"), all pieces between two that take random numbers are one
 * call of it. */
#include <device/recorder.h>

#include <base/memory.h>
#include <device/registry.h>

#include <inttypes.h>
#include <string.h>

TN__HOT_TLS tn__record *tn__recording;

struct tn__piece {
    tn__piece *next;
    const char *what;
    int kind;
    /* Number of the draw, from 1 on, whose seed and call are its parameters
     * draw_at and the next, or those of an attention; 0: none. */
    size_t draw;
    uint32_t draw_at;
    const tn_program *program; /* of a launch, as the rest of this line */
    tn_built *built;
    union {
        tn_launch launch; /* its arrays follow the piece */
        tn_matmul_args matmul;
        tn_scatter_args scatter;
        tn_scan_args scan;
        tn_sort_args sort;
        tn_conv_args conv;
        tn_pool_args pool;
        tn_attention_args attention;
        tn_product_args product;
        tn_lapack_args lapack;
        tn_copy_args copy;
    } args;
};

/* Neighbouring pieces that the device has recorded: those before `end`. */
struct tn__segment {
    tn__segment *next;
    const tn__piece *first, *end;
    tn_recorded *recorded; /* owned */
};

/* ---- recording ---------------------------------------------------------- */

tn__record *tn__record_begin(tn_device *device, void (*drop)(void *kept))
{
    if (tn__recording)
        return tn__fail_null(TN_ERR_STATE, "graph_record: this thread records "
                                           "a graph already");
    tn__record *record = tn__calloc(1, sizeof *record);
    if (!record)
        return NULL;
    record->device = device;
    record->last = &record->first;
    record->drop = drop;
    tn__recording = record;
    return record;
}

bool tn__record_keep(void *object)
{
    tn__record *record = tn__recording;
    for (size_t i = record->kept_count; i-- > 0;)
        if (record->kept[i] == object)
            return false;
    if (!tn__grow(&record->kept, &record->kept_room, record->kept_count,
                  sizeof *record->kept))
        return false;
    record->kept[record->kept_count++] = object;
    return true;
}

void tn__record_drew(uint64_t seed, uint64_t call)
{
    tn__record *record = tn__recording;
    if (tn__grow(&record->draws, &record->draw_room, record->draw_count,
                 sizeof *record->draws))
        record->draws[record->draw_count++] =
            (struct tn__draw){.seed = seed, .call = call};
}

tn_status tn__record_refuse_host(const tn_device *device, const char *what)
{
    if (!tn__recording || tn__recording->device != device)
        return TN_OK;
    return tn__fail(TN_ERR_STATE,
                    "%s: a graph is being recorded, and what the host does "
                    "with memory of %s would not be done again: do it before "
                    "or after tn_graph_record", what, device->name);
}

/* A piece with room for `more` bytes behind it; the caller puts it in. */
static tn__piece *piece_make(tn_device *device, int kind, const char *what,
                             size_t more)
{
    if (device != tn__recording->device)
        return tn__fail_null(TN_ERR_STATE, "%s: a graph is being recorded on "
                             "%s; work for %s cannot be part of it", what,
                             tn__recording->device->name, device->name);
    tn__piece *piece = tn__calloc(1, sizeof *piece + more);
    if (piece) {
        piece->kind = kind;
        piece->what = what;
    }
    return piece;
}

static void piece_put(tn__piece *piece)
{
    tn__record *record = tn__recording;
    *record->last = piece;
    record->last = &piece->next;
    record->count++;
}

/* Number of the latest draw of this seed and call, from 1 on; 0: none. */
static size_t draw_latest(int64_t seed, int64_t call)
{
    const tn__record *record = tn__recording;
    for (size_t d = record->draw_count; d > 0; d--)
        if ((uint64_t)seed == record->draws[d - 1].seed &&
            (uint64_t)call == record->draws[d - 1].call)
            return d;
    return 0;
}

tn_status tn__record_work(tn_device *device, int kind, const void *args,
                          size_t bytes, const char *what)
{
    tn__piece *piece = piece_make(device, kind, what, 0);
    if (!piece)
        return tn_error_code();
    memcpy(&piece->args, args, bytes);
    if (kind == TN__PIECE_ATTENTION && piece->args.attention.dropout > 0)
        piece->draw = draw_latest(piece->args.attention.seed,
                                  piece->args.attention.call);
    piece_put(piece);
    return TN_OK;
}

/* Copies count numbers behind *at, and moves it on. */
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

/* Which draw the launch takes, if any: its seed and call are neighbours among
 * the parameters. The latest one that fits. */
static void find_draw(const tn_program *program, const tn_launch *launch,
                      tn__piece *piece)
{
    const tn__record *record = tn__recording;
    if (!record->draw_count || !is_random(program))
        return;
    for (size_t d = record->draw_count; d > 0 && !piece->draw; d--)
        for (uint32_t p = 0; p + 1 < program->param_count; p++)
            if (program->param_dtype[p] == TN_I64 &&
                program->param_dtype[p + 1] == TN_I64 &&
                (uint64_t)launch->param[p].i == record->draws[d - 1].seed &&
                (uint64_t)launch->param[p + 1].i == record->draws[d - 1].call) {
                piece->draw = d;
                piece->draw_at = p;
            }
}

tn_status tn__record_launch(tn_device *device, const tn_program *program,
                            tn_built *built, const tn_launch *launch,
                            const char *what)
{
    const size_t ndim = launch->outer_ndim + launch->row_ndim;
    const size_t operands = program->operand_count;
    size_t numbers = ndim + program->param_count;
    for (size_t k = 0; k < operands; k++)
        numbers += ndim + 2 * (size_t)program->operand[k].index_count;
    tn__piece *piece = piece_make(
        device, TN__PIECE_LAUNCH, what,
        operands * sizeof(tn_launch_operand) + numbers * sizeof(int64_t));
    if (!piece)
        return tn_error_code();
    piece->program = program;
    piece->built = built;
    find_draw(program, launch, piece);
    tn_launch_operand *operand = (tn_launch_operand *)(void *)(piece + 1);
    char *at = (char *)(operand + operands);
    for (size_t k = 0; k < operands; k++) {
        const tn_launch_operand *from = &launch->operand[k];
        const size_t indices = program->operand[k].index_count;
        operand[k] = *from;
        operand[k].stride = put_numbers(&at, from->stride, ndim);
        operand[k].index_stride = put_numbers(&at, from->index_stride, indices);
        operand[k].index_extent = put_numbers(&at, from->index_extent, indices);
    }
    piece->args.launch = *launch;
    piece->args.launch.operand = operand;
    piece->args.launch.extent = put_numbers(&at, launch->extent, ndim);
    tn_number *param = (tn_number *)(void *)at;
    if (program->param_count)
        memcpy(param, launch->param, program->param_count * sizeof *param);
    piece->args.launch.param = param;
    piece_put(piece);
    return TN_OK;
}

/* ---- recorded by the device --------------------------------------------- */

/* Hands a piece to the plugin, within its queue's lock. */
static tn_status hand_over(tn_device *device, const tn__piece *piece)
{
    const tn_plugin *plugin = device->plugin;
    const tn_attention_extension *attention =
        atomic_load_explicit(&device->attention, memory_order_acquire);
    const tn_product_extension *product =
        atomic_load_explicit(&device->product, memory_order_acquire);
    const tn_conv_extension *conv =
        atomic_load_explicit(&device->conv, memory_order_acquire);
    tn__piece p = *piece;
    switch (piece->kind) {
    case TN__PIECE_LAUNCH:
        p.args.launch.tag = 0;
        return plugin->launch(device->queue, p.built, &p.args.launch);
    case TN__PIECE_MATMUL:
        p.args.matmul.tag = 0;
        return plugin->matmul(device->queue, &p.args.matmul);
    case TN__PIECE_SCATTER:
        p.args.scatter.tag = 0;
        return plugin->scatter(device->queue, &p.args.scatter);
    case TN__PIECE_SCAN:
        p.args.scan.tag = 0;
        return plugin->scan(device->queue, &p.args.scan);
    case TN__PIECE_SORT:
        p.args.sort.tag = 0;
        return plugin->sort(device->queue, &p.args.sort);
    case TN__PIECE_COPY:
        p.args.copy.tag = 0;
        return plugin->copy(device->queue, &p.args.copy);
    case TN__PIECE_ATTENTION:
        p.args.attention.tag = 0;
        return attention ? attention->run(device->queue, &p.args.attention)
                         : TN_ERR_UNSUPPORTED;
    case TN__PIECE_PRODUCT:
        p.args.product.tag = 0;
        return product ? product->run(device->queue, &p.args.product)
                       : TN_ERR_UNSUPPORTED;
    case TN__PIECE_CONV:
        p.args.conv.tag = 0;
        return conv ? conv->run(device->queue, &p.args.conv)
                    : TN_ERR_UNSUPPORTED;
    default: /* pool, lapack: they have no place in a recording */
        return TN_ERR_UNSUPPORTED;
    }
}

static bool can_be_handed(const tn__piece *piece)
{
    return !piece->draw && piece->kind != TN__PIECE_POOL &&
           piece->kind != TN__PIECE_LAPACK;
}

/* The device records the pieces up to end, in the place of the first segment of
 * another record, if that has any; false: it does not. */
static bool segment_make(tn__record *record, tn__record *instead,
                         const tn__piece *first, const tn__piece *end)
{
    const tn_graph_replay_extension *extension = record->extension;
    tn_device *device = record->device;
    tn__segment *segment = instead ? instead->segments : NULL;
    if (segment)
        instead->segments = segment->next;
    else
        segment = tn__calloc(1, sizeof *segment);
    if (!segment)
        return false;
    segment->next = NULL;
    pthread_mutex_lock(&device->queue_lock);
    tn_status status = extension->begin(device->queue);
    if (!status) {
        for (const tn__piece *p = first; p != end && !status; p = p->next)
            status = hand_over(device, p);
        tn_status ended =
            segment->recorded
                ? extension->end_into(device->queue, segment->recorded)
                : extension->end(device->queue, &segment->recorded);
        status = status ? status : ended;
    }
    pthread_mutex_unlock(&device->queue_lock);
    if (status && segment->recorded)
        extension->release(device->handle, segment->recorded);
    if (status) {
        tn__free(segment);
        return false;
    }
    segment->first = first;
    segment->end = end;
    tn__segment **last = &record->segments;
    while (*last)
        last = &(*last)->next;
    *last = segment;
    return true;
}

void tn__record_end(tn__record *record)
{
    (void)record;
    tn__recording = NULL;
}

/* Can the device put what it records in the place of what it has? */
static bool can_update(const tn__record *record, const tn__record *instead)
{
    const tn_graph_replay_extension *extension = record->extension;
    return instead && instead->segments &&
           instead->extension == extension &&
           instead->device == record->device &&
           TN_HAS(tn_graph_replay_extension, extension, end_into) &&
           extension->end_into;
}

/* Without words where it cannot: the pieces are given one by one then. */
void tn__record_settle(tn__record *record, tn__record *instead)
{
    record->extension = atomic_load(&record->device->graph_replay);
    bool goes = record->extension != NULL;
    tn__error before;
    tn__error_take(&before);
    if (goes && can_update(record, instead))
        tn__work_drain(record->device); /* no run of it is under way */
    else
        instead = NULL;
    for (const tn__piece *p = record->first; p && goes;) {
        const tn__piece *first = p;
        while (p && can_be_handed(p))
            p = p->next;
        if (first != p && first->next != p)
            goes = segment_make(record, instead, first, p);
        p = p == first ? p->next : p;
    }
    if (record->extension && !goes && tn__log_enabled(2))
        tn__log(2, "graph_record: %s records nothing itself: %s",
                record->device->name, tn_error() ? tn_error() : "no memory");
    tn_error_clear();
    tn__error_put(&before);
}

int64_t tn__record_calls(const tn__record *record)
{
    int64_t count = 0;
    const tn__segment *segment = record->segments;
    for (const tn__piece *p = record->first; p; count++) {
        bool whole = segment && segment->first == p;
        p = whole ? segment->end : p->next;
        segment = whole ? segment->next : segment;
    }
    return count;
}

void tn__record_free(tn__record *record)
{
    if (!record)
        return;
    if (record->segments)
        tn__work_drain(record->device);
    for (tn__segment *s = record->segments, *next; s; s = next) {
        next = s->next;
        record->extension->release(record->device->handle, s->recorded);
        tn__free(s);
    }
    for (tn__piece *p = record->first, *next; p; p = next) {
        next = p->next;
        tn__free(p);
    }
    for (size_t i = 0; i < record->kept_count; i++)
        record->drop(record->kept[i]);
    tn__free(record->kept);
    tn__free(record->draws);
    tn__free(record);
}

/* ---- again -------------------------------------------------------------- */

static tn_status tell_index(const char *what, const tn_fault *fault)
{
    return tn__fail_outside(
        TN_ERR_INDEX,
        (tn__error_index){
            true, fault->index, 0, fault->extent, 1, {fault->position}},
        "graph_replay: %s: index %" PRId64 " is outside of [0, %" PRId64 ")",
        what, fault->index, fault->extent);
}

/* One piece, as it was given the first time. */
static tn_status piece_run(const tn__record *record, tn__piece *piece)
{
    tn_device *device = record->device;
    tn_fault fault = {.size = sizeof fault};
    tn_status status = TN_OK;
    switch (piece->kind) {
    case TN__PIECE_LAUNCH:
        if (piece->draw) {
            const struct tn__draw *draw = &record->draws[piece->draw - 1];
            tn_number *at = (tn_number *)(uintptr_t)piece->args.launch.param +
                            piece->draw_at;
            at[0].i = (int64_t)draw->seed_now;
            at[1].i = (int64_t)draw->call_now;
        }
        status = tn__device_launch(device, piece->program, piece->built,
                                   &piece->args.launch, piece->what, NULL,
                                   &fault);
        break;
    case TN__PIECE_MATMUL:
        return tn__device_matmul(device, &piece->args.matmul, piece->what);
    case TN__PIECE_SCATTER:
        status = tn__device_scatter(device, &piece->args.scatter, piece->what,
                                    NULL, &fault);
        break;
    case TN__PIECE_SCAN:
        return tn__device_scan(device, &piece->args.scan, piece->what);
    case TN__PIECE_SORT:
        return tn__device_sort(device, &piece->args.sort, piece->what);
    case TN__PIECE_CONV:
        status = tn__device_conv(device, &piece->args.conv, piece->what);
        break;
    case TN__PIECE_POOL:
        status = tn__device_pool(device, &piece->args.pool, piece->what);
        break;
    case TN__PIECE_ATTENTION:
        if (piece->draw) {
            const struct tn__draw *draw = &record->draws[piece->draw - 1];
            piece->args.attention.seed = (int64_t)draw->seed_now;
            piece->args.attention.call = (int64_t)draw->call_now;
        }
        return tn__device_attention(device, &piece->args.attention,
                                    piece->what);
    case TN__PIECE_PRODUCT:
        status = tn__device_product(device, &piece->args.product, piece->what);
        break;
    case TN__PIECE_LAPACK:
        return tn__device_lapack(device, &piece->args.lapack, piece->what);
    default:
        return tn__device_copy_again(device, &piece->args.copy, piece->what);
    }
    if (status == TN_ERR_INDEX)
        return tell_index(piece->what, &fault);
    if (status == TN_ERR_UNSUPPORTED)
        return tn__fail(TN_ERR_STATE, "graph_replay: %s was done by an "
                        "extension of %s that is masked now", piece->what,
                        device->name);
    return status;
}

tn_status tn__record_run(tn__record *record,
                         void (*draw)(uint64_t *seed, uint64_t *call))
{
    const tn__segment *segment = record->segments;
    tn_status status = TN_OK;
    for (size_t d = 0; d < record->draw_count; d++)
        draw(&record->draws[d].seed_now, &record->draws[d].call_now);
    for (tn__piece *p = record->first; p && !status;) {
        if (segment && segment->first == p) {
            status = tn__device_replay(record->device, record->extension,
                                       segment->recorded);
            p = (tn__piece *)(uintptr_t)segment->end;
            segment = segment->next;
        } else {
            status = piece_run(record, p);
            p = p->next;
        }
    }
    return status;
}
