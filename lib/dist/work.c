/* work.c: one collective, from its checks to its end.
 *
 * The engine reads and writes the tensors' own memory if it can, else copies on
 * the host. Messages are recorded as errors without the lock: an error handler
 * of the program may call this library. */
#include <dist/dist.h>

#include <stdlib.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>

/* ---- memory --------------------------------------------------------------- */

/* Returns the address of x's elements if the CPU can use them. Otherwise NULL,
 * without an error. */
static void *host_data(tn_tensor *x)
{
    const bool pending = tn_error() != NULL;
    void *data = tn_tensor_data(x);
    if (!data && !pending && tn_error_code() == TN_ERR_DEVICE)
        tn_error_clear();
    return data;
}

/* Sets *out to the memory that the engine uses for x: its own, or a copy that
 * `copy` then owns, filled if `reads`. */
static tn_status memory_of(tn_work *work, tn_tensor *x, bool staging, bool reads,
                           void **copy, void **out)
{
    const size_t bytes = (size_t)tn_tensor_numel(x) *
                         tn_dtype_bytes(tn_tensor_dtype(x));
    *out = host_data(x);
    if (*out || bytes == 0)
        return TN_OK;
    if (!staging)
        return tn_error_refuse_argument(
            TN_ERR_DEVICE, work->call, "x", "the tensor is on %s, whose memory "
            "the engine %s cannot use: move it by tn_to, or give .staging = true",
            tn_device_name(tn_tensor_device(x)), tn__dist_job_open->engine->name);
    *out = *copy = malloc(bytes);
    if (!*copy)
        return tn_error_refuse_argument(TN_ERR_MEMORY, work->call, NULL,
                                        "out of memory");
    return reads ? tn_tensor_to_array(x, *copy, bytes) : TN_OK;
}

/* Tells autograd that x was written: an in-place copy of no elements. */
static tn_status mark_written(tn_tensor *x)
{
    tn_status status = TN_OK;
    TN_NO_GRAD TN_SCOPE(scope) {
        tn_tensor *none = tn_narrow(tn_view(x, tn_dims(-1)), 0, 0, 0);
        status = tn_copy_(none, none) ? TN_OK : tn_error_code();
    }
    return status;
}

/* ---- the end -------------------------------------------------------------- */

/* Gives back what the work holds. */
static void let_go(tn_work *work)
{
    free(work->host_in);
    if (work->host_out != work->host_in)
        free(work->host_out);
    work->host_in = work->host_out = NULL;
    tn_drop(work->in);
    tn_drop(work->out);
    work->in = work->out = NULL;
}

/* The engine is done with the memory. */
static tn_status finish(tn_work *work, tn_status status)
{
    tn_tensor *out = work->out;
    if (status == TN_OK && out && work->host_out)
        status = tn_tensor_set_array(out, work->host_out, work->out_bytes);
    else if (status == TN_OK && out && tn_tensor_numel(out))
        status = mark_written(out);
    if (status == TN_OK && out && work->scale != 1)
        TN_NO_GRAD {
            status = tn_mul_scalar_(out, work->scale) ? TN_OK : tn_error_code();
        }
    work->status = status;
    work->ended = true;
    let_go(work);
    return status;
}

/* Whether the job of the work is still open. With the lock. */
static bool is_current(const tn_work *work)
{
    return tn__dist_job_open &&
           tn__dist_job_open->generation == work->generation && work->group->open;
}

/* Closes the requests. With the lock. */
static void close_requests(tn_work *work)
{
    if (work->group->comm && tn__dist_job_open->control)
        tn__dist_gate_remove(work);
    else if (work->request)
        tn__dist_job_open->engine->request_close(work->request);
    work->request = NULL;
}

static tn_status poll_request(tn_work *work, uint64_t timeout_ns, uint32_t *done)
{
    const tn_comm_plugin *engine = tn__dist_job_open->engine;
    if (tn__dist_job_open->control)
        return tn__dist_gate_wait(work, timeout_ns, done);
    return timeout_ns && engine->wait
               ? engine->wait(work->request, timeout_ns, done)
               : engine->test(work->request, done);
}

/* Tests the request, or waits for a few milliseconds. Returns whether the work
 * has ended. */
static bool advance(tn_work *work, bool waits)
{
    enum { SLICE_NS = 5000000 };
    uint32_t done = 0;
    bool late = false;
    tn__dist_lock();
    if (!is_current(work)) {
        tn__dist_unlock();
        work->request = NULL; /* closed with its comm */
        finish(work, tn_error_refuse_argument(
                         TN_ERR_STATE, work->call, NULL,
                         "the job was closed (tn_dist_close) before it was done"));
        return true;
    }
    tn_status status = poll_request(work, waits ? SLICE_NS : 0, &done);
    if (status == TN_OK && !done)
        late = tn__dist_now() - work->since_ns > tn__dist_job_open->timeout_ns;
    if (status == TN_OK && !done && !late) {
        tn__dist_unlock();
        return false;
    }
    if (done) {
        tn__board_publish(work, false);
        close_requests(work);
    }
    tn__dist_unlock();
    if (!done) {
        status = tn__dist_report(work, late);
        tn__dist_lock();
        if (is_current(work))
            close_requests(work);
        work->request = NULL;
        tn__dist_unlock();
    }
    finish(work, status);
    return true;
}

static const tn_object_class work_class;

tn_status tn_work_wait(tn_work *work)
{
    if (!tn_object_check(work, &work_class, "work_wait", "work"))
        return tn_error_code();
    if (!work->ended) {
        tn__dist_lock();
        if (is_current(work))
            tn__board_publish(work, true);
        tn__dist_unlock();
    }
    while (!work->ended)
        advance(work, true);
    return work->status;
}

bool tn_work_is_done(tn_work *work)
{
    if (!tn_object_is(work, &work_class))
        return true;
    return work->ended || advance(work, false);
}

static void release(void *object)
{
    tn_work *work = object;
    while (!work->ended)
        advance(work, true);
    tn_drop(work->group);
}

static const tn_object_class work_class = {.size = sizeof work_class,
                                           .name = "collective",
                                           .bytes = sizeof(tn_work),
                                           .release = release};

/* ---- the beginning -------------------------------------------------------- */

/* The ranks compare this instead of the record. */
static uint64_t hash(const tn__dist_record *record)
{
    uint64_t word[sizeof *record / 8], h = 0xcbf29ce484222325u;
    _Static_assert(sizeof word == sizeof *record, "");
    memcpy(word, record, sizeof word);
    for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
        h = (h ^ word[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    return h;
}

static bool is_pair(uint32_t kind)
{
    return kind == TN_COMM_SEND || kind == TN_COMM_RECV;
}

static void put(char *out, size_t room, const char *text)
{
    size_t length = text ? strlen(text) : 0;
    if (length >= room) { /* the end of a path says more than its beginning */
        text += length - (room - 1);
        length = room - 1;
    }
    if (length)
        memcpy(out, text, length);
}

static tn_dtype dtype_of(const tn__dist_call *call)
{
    const tn_tensor *x = call->in ? call->in : call->out;
    return x ? tn_tensor_dtype(x) : TN_U8;
}

static void describe(tn_work *work, const tn__dist_call *call)
{
    tn__dist_record *record = &work->record;
    record->sequence = is_pair(call->kind) ? 0 : work->group->sequence++;
    record->count = call->count;
    record->root = call->kind == TN_COMM_BROADCAST ? call->root : -1;
    record->kind = call->kind;
    record->dtype = dtype_of(call);
    record->reduce = call->reduce;
    record->mean = call->mean;
    record->split = call->split;
    put(record->group, sizeof record->group, work->group->name);
    put(record->path, sizeof record->path, tn_path_text(tn_path_current()));
    put(record->label, sizeof record->label, call->label);
    work->peer = is_pair(call->kind) ? call->root : -1;
}

/* Both ends of a message have in common what is neither its direction nor the
 * place of the call. What repeats in each step is a collective without its
 * number. */
static uint64_t check_of(const tn__dist_record *record, bool numbered)
{
    tn__dist_record common = *record;
    if (!numbered)
        common.sequence = 0;
    if (is_pair(record->kind)) {
        common.kind = TN_COMM_SEND;
        memset(common.path, 0, sizeof common.path);
    }
    return hash(&common);
}

/* One rank: the result is the input. */
static tn_status run_alone(const tn__dist_call *call)
{
    tn_status status = TN_OK;
    if (call->in && call->out && call->in != call->out)
        TN_NO_GRAD {
            status = tn_copy_(tn_view(call->out, tn_dims(-1)),
                              tn_view(call->in, tn_dims(-1)))
                         ? TN_OK : tn_error_code();
        }
    return status;
}

/* With the lock, in an open job. */
static tn_status start_current(tn_work *work, const tn__dist_call *call,
                               const void *send, void *recv)
{
    const tn_comm_plugin *engine = tn__dist_job_open->engine;
    const bool gated = tn__dist_job_open->control != NULL;
    const bool scales = engine->caps & TN_COMM_CAP_SCALE;
    const double scale = call->mean ? 1.0 / work->group->count : 1;
    work->scale = scales ? 1 : scale;
    work->args = (tn_comm_args){
        .size = sizeof work->args,
        .kind = call->kind,
        .dtype = work->record.dtype,
        .reduce = call->reduce,
        .root = call->root,
        .count = call->count,
        .send = send,
        .recv = recv,
        .scale = scales ? scale : 1,
        .check = check_of(&work->record, !gated),
        .record = &work->record,
        .record_bytes = sizeof work->record,
    };
    tn_status status = TN_OK;
    tn__board_publish(work, false);
    if (gated)
        tn__dist_gate_add(work);
    else
        status = engine->start(work->group->comm, &work->args, &work->request);
    tn__dist_job_open->staged += !!work->host_in +
                                 (work->host_out != work->host_in);
    return status;
}

static tn_status start(tn_work *work, const tn__dist_call *call,
                       const void *send, void *recv)
{
    tn__dist_lock();
    const bool current = is_current(work);
    tn_status status = current ? start_current(work, call, send, recv)
                               : TN_ERR_STATE;
    tn__dist_unlock();
    if (status == TN_OK)
        return TN_OK;
    return current ? tn__dist_report_end(work->group, work->call)
                   : tn_error_refuse_argument(TN_ERR_STATE, work->call, "group",
                                              "the job of this group was closed "
                                              "(tn_dist_close)");
}

tn_work *tn__dist_work_begin(tn_group *group, const tn__dist_call *call)
{
    tn_work *work = tn_object_new(&work_class, 0);
    if (!work)
        return NULL;
    work->call = call->call;
    work->group = tn_keep(group);
    work->since_ns = tn__dist_now();
    work->scale = 1;
    tn__dist_lock();
    work->generation = tn__dist_job_open ? tn__dist_job_open->generation : 0;
    describe(work, call);
    tn__dist_unlock();
    work->in = tn_keep(call->in);
    work->out = tn_keep(call->out);
    void *send = NULL, *recv = NULL;
    tn_status status = TN_OK;
    if (!group->comm) {
        status = run_alone(call);
        finish(work, status);
        return status == TN_OK ? work : NULL;
    }
    if (call->in)
        status = memory_of(work, call->in, call->staging, true, &work->host_in,
                           &send);
    if (call->in == call->out) {
        recv = send;
        work->host_out = work->host_in;
    } else if (call->out && status == TN_OK) {
        status = memory_of(work, call->out, call->staging, false,
                           &work->host_out, &recv);
    }
    if (call->out)
        work->out_bytes = (size_t)tn_tensor_numel(call->out) *
                          tn_dtype_bytes(tn_tensor_dtype(call->out));
    if (status == TN_OK)
        status = start(work, call, send, recv);
    if (status == TN_OK)
        return work;
    work->status = status;
    work->ended = true;
    let_go(work);
    return NULL;
}
