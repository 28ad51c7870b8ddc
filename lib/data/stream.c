/* stream.c: data sets without indices, whose samples come one after another.
 *
 * The workers of a loader take turns: under a lock, the worker that makes batch
 * k reads its samples after those of batch k - 1 have been read. So the batches
 * do not depend on the number of workers. */
#include <data/stream.h>

#include <base/error.h>
#include <base/lock.h>
#include <base/memory.h>
#include <string.h>
#include <tensor/tensor.h>

struct tn__stream {
    tn_stream_class type;
    void *context;

    tn__lock lock; /* guards the fields below, and the calls of type */
    pthread_cond_t turned;
    uint64_t loop; /* counts the loops over the data; workers of earlier loops
                    * get no samples */
    int64_t turn;  /* index of the batch whose samples are read next */
    int64_t drawn; /* samples read in this epoch, for all replicas */
    int64_t taken; /* samples read for this replica */
    bool ended;    /* the samples have ended, or a call failed */
};

static int no_batch(tn_dataset *set, const int64_t *index, int64_t count,
                    tn_tensor **fields)
{
    (void)set, (void)index, (void)count, (void)fields;
    return tn__fail(TN_ERR_UNSUPPORTED,
                    "dataset_batch: {set:}a stream has no sample indices: read "
                    "it through a loader");
}

static void stream_release(tn_dataset *set)
{
    tn__stream *s = set->of.stream;
    if (!s)
        return;
    if (s->type.release)
        s->type.release(s->context);
    tn__lock_destroy(&s->lock);
    pthread_cond_destroy(&s->turned);
    tn__free(s);
}

static const tn__dataset_kind stream_kind = {no_batch, stream_release, NULL};

tn__stream *tn__dataset_stream(const tn_dataset *set)
{
    return set->kind == &stream_kind ? set->of.stream : NULL;
}

tn_dataset *tn_dataset_from_stream(const tn_stream_class *type, void *context)
{
    if (!type)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "dataset_from_stream: {type} is NULL");
    tn_stream_class known = {0};
    memcpy(&known, type,
           type->size && type->size < sizeof known ? type->size : sizeof known);
    if (!known.begin || !known.next)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "dataset_from_stream: {type} has no %s",
                             known.begin ? "next" : "begin");
    tn_dataset *set = tn__dataset_new(&stream_kind, 0);
    if (!set)
        return NULL;
    tn__stream *s = set->of.stream = tn__calloc(1, sizeof *s);
    if (!s) {
        tn__unref(set);
        return NULL;
    }
    s->type = known;
    s->context = context;
    tn__lock_init(&s->lock);
    pthread_cond_init(&s->turned, NULL);
    return tn__scope_own(set);
}

/* Records an error for a failed call of the user's class, unless the call has
 * recorded one. */
static tn_status failed(const char *what, int status)
{
    if (tn__error_pending())
        return tn_error_code();
    return tn__fail(status < 0 ? (tn_status)status : TN_ERR_ARGUMENT,
                    "batch_next: {set:}%s of the stream failed with %s", what,
                    tn_status_name(status));
}

uint64_t tn__stream_begin(tn__stream *s, uint64_t epoch)
{
    tn__lock_take(&s->lock);
    const uint64_t loop = ++s->loop;
    s->turn = s->drawn = s->taken = 0;
    s->ended = false;
    const int status = s->type.begin(s->context, epoch);
    if (status < 0 || tn__error_pending()) {
        failed("begin", status);
        s->ended = true;
    }
    pthread_cond_broadcast(&s->turned);
    tn__lock_give(&s->lock);
    return loop;
}

/* Reads one sample by the user's next. Returns its number of fields, or 0 at
 * the end. */
static int draw(tn__stream *s, tn_tensor **fields)
{
    const int got = s->type.next(s->context, fields);
    const long long number = (long long)s->drawn;
    if (got < 0 || tn__error_pending()) {
        failed("next", got);
        tn__error_prefix("batch_next: sample %lld", number);
        return tn_error_code();
    }
    if (got > TN_MAX_FIELDS)
        return tn__fail(TN_ERR_ARGUMENT,
                        "batch_next: {set:}sample %lld has %d fields; expected "
                        "at most %d",
                        number, got, TN_MAX_FIELDS);
    for (int f = 0; f < got; f++) {
        char name[64];
        snprintf(name, sizeof name, "field %d of sample %lld", f, number);
        if (!tn__tensor_check(fields[f], "batch_next", name))
            return tn_error_code();
    }
    s->drawn += got > 0;
    return got;
}

/* Reads one sample for each replica and adds this replica's to out. Returns
 * false at the end or after a failure. */
static bool draw_round(tn__stream *s, const tn__stream_share *share,
                       tn__samples *out)
{
    tn_tensor *own[TN_MAX_FIELDS];
    int own_count = 0;
    int64_t own_index = 0;
    for (int r = 0; r < share->replicas; r++) {
        tn_tensor *fields[TN_MAX_FIELDS] = {NULL};
        const int got = draw(s, fields);
        if (got <= 0) {
            s->ended = true;
            if (got < 0 || share->drop_uneven)
                return false;
            break;
        }
        if (r == share->rank) {
            memcpy(own, fields, sizeof own);
            own_count = got;
            own_index = s->drawn - 1;
        }
    }
    if (!own_count)
        return false;
    if (tn__samples_add(out, own_index, own_count, own) < 0) {
        s->ended = true;
        return false;
    }
    s->taken++;
    return !s->ended;
}

tn_status tn__stream_take(tn__stream *s, uint64_t loop, int64_t batch,
                          int64_t count, const tn__stream_share *share,
                          tn__samples *out)
{
    tn__lock_take(&s->lock);
    while (s->loop == loop && s->turn != batch)
        tn__lock_wait(&s->lock, &s->turned);
    if (s->loop != loop) {
        tn__lock_give(&s->lock);
        return tn__fail(TN_ERR_STATE,
                        "batch_next: {batch:}another loop over the stream has "
                        "begun, which ended this one");
    }
    while (!s->ended && out->count < count && draw_round(s, share, out))
        continue;
    s->turn++;
    pthread_cond_broadcast(&s->turned);
    tn__lock_give(&s->lock);
    return tn__error_pending() ? tn_error_code() : TN_OK;
}

void tn__stream_fail(tn__stream *s, uint64_t loop, int64_t batch)
{
    tn__lock_take(&s->lock);
    while (s->loop == loop && s->turn != batch)
        tn__lock_wait(&s->lock, &s->turned);
    if (s->loop == loop) {
        s->ended = true;
        s->turn++;
        pthread_cond_broadcast(&s->turned);
    }
    tn__lock_give(&s->lock);
}

int64_t tn__stream_batch_count(tn__stream *s, int64_t batch, int64_t batch_size)
{
    tn__lock_take(&s->lock);
    const int64_t left = s->taken - batch * batch_size;
    tn__lock_give(&s->lock);
    return left < batch_size ? left : batch_size;
}
