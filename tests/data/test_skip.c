/* test_skip.c: a loader with .on_error = TN_ON_ERROR_SKIP leaves out samples
 * that fail, counts them, and gives the same batches with any number of
 * workers. */
#include <tenon/tenon.h>

#include <stdatomic.h>

#include "../tap.h"

enum { COUNT = 40, BATCH = 4, BATCHES = 10 };

static tn_status code_of_bad = TN_ERR_FORMAT;
static bool (*is_bad)(int64_t i);

/* 5 is alone in its batch, 12 to 15 are a whole batch, 39 is the last sample. */
static bool some(int64_t i)
{
    return i == 5 || (i >= 12 && i < 16) || i == 39;
}
static bool all(int64_t i)
{
    return i >= 0;
}
static bool none(int64_t i)
{
    return i < 0;
}

static int get(void *context, int64_t i, tn_tensor **fields)
{
    (void)context;
    fields[0] = tn_randn(tn_dims(3));
    if (is_bad(i)) {
        tn_error_set(code_of_bad, "picture %lld is damaged", (long long)i);
        return code_of_bad;
    }
    fields[1] = tn_full(TN_SCALAR, (double)i, .dtype = TN_I64);
    return fields[0] && fields[1] ? 2 : tn_error_code();
}

static tn_dataset *pictures(void)
{
    static const tn_dataset_class type = {sizeof type, COUNT, get, NULL};
    return tn_dataset_new(&type, NULL);
}

typedef struct seen {
    int batches;
    int64_t count[BATCHES], skipped[BATCHES];
    int64_t samples, label[COUNT];
    float x[COUNT * 3];
} seen;

static void look(tn_loader *loader, seen *s)
{
    TN_EACH_BATCH(batch, loader) {
        s->count[s->batches] = batch.count;
        s->skipped[s->batches++] = tn_loader_skipped(loader);
        tn_tensor_to_array(batch.x, s->x + s->samples * 3,
                           (size_t)batch.count * 12);
        tn_tensor_to_array(batch.y, s->label + s->samples,
                           (size_t)batch.count * 8);
        s->samples += batch.count;
    }
}

static _Atomic int lines;
static char first_line[300];
static void take_line(int level, const char *line, void *context)
{
    (void)level;
    (void)context;
    if (strstr(line, "is skipped") && atomic_fetch_add(&lines, 1) == 0)
        snprintf(first_line, sizeof first_line, "%s", line);
}

static _Atomic int reported;
static void report(tn_status code, const char *message, void *context)
{
    (void)code;
    (void)message;
    (void)context;
    atomic_fetch_add(&reported, 1);
}

static void test_counts(void)
{
    static seen s;
    tn_scope *scope = tn_scope_open();
    tn_log_set(take_line, NULL);
    tn_error_handler_set(report, NULL);
    tn_loader *loader = tn_loader_new(pictures(), .batch_size = BATCH,
                                      .on_error = TN_ON_ERROR_SKIP);
    look(loader, &s);
    tn_error_handler_set(NULL, NULL);
    tn_log_set(NULL, NULL);
    ok(!tn_error(), "the loop has no error");
    is_int(s.samples, COUNT - 6, "six samples are left out");
    is_int(s.batches, BATCHES - 1, "a batch without samples is passed over");
    is_int(s.count[1], 3, "the batch of sample 5 has three samples");
    is_int(s.label[5], 6, "sample 6 follows sample 4");
    is_int(s.count[8], 3, "the last batch has three");
    is_int(s.skipped[0], 0, "none was skipped in the first batch");
    is_int(s.skipped[1], 1, "one after the second");
    is_int(s.skipped[3], 5, "five after the batch that was passed over");
    is_int(tn_loader_skipped(loader), 6, "six after the loop");
    is_int(lines, 6, "each is logged");
    is_str(first_line,
           "batch_next: sample 5 is skipped: dataset_batch: sample 5: picture "
           "5 is damaged",
           "with its number and its error");
    is_int(reported, 0, "the error handler is not called");
    is_int(tn_loader_count(loader), BATCHES, "the count of batches is as before");
    tn_scope_close(scope);
}

static bool same(const seen *a, const seen *b)
{
    return a->samples == b->samples && a->batches == b->batches &&
           memcmp(a->count, b->count, sizeof a->count) == 0 &&
           memcmp(a->skipped, b->skipped, sizeof a->skipped) == 0 &&
           memcmp(a->label, b->label, (size_t)a->samples * 8) == 0 &&
           memcmp(a->x, b->x, (size_t)a->samples * 12) == 0;
}

static void test_workers(void)
{
    static seen alone, many;
    for (int workers = 0; workers <= 5; workers++) {
        tn_scope *scope = tn_scope_open();
        seen *s = workers ? &many : &alone;
        memset(s, 0, sizeof *s);
        look(tn_loader_new(pictures(), .batch_size = BATCH, .shuffle = true,
                           .seed = 3, .workers = workers,
                           .on_error = TN_ON_ERROR_SKIP),
             s);
        ok(s->samples == COUNT - 6 && (!workers || same(&alone, &many)),
           "%d workers give the same batches", workers);
        tn_scope_close(scope);
    }
}

static void test_resume(void)
{
    static seen whole, rest;
    tn_scope *scope = tn_scope_open();
    tn_dataset *set = pictures();
    look(tn_loader_new(set, .batch_size = BATCH, .shuffle = true, .workers = 2,
                       .on_error = TN_ON_ERROR_SKIP),
         &whole);
    tn_loader *loader = tn_loader_new(set, .batch_size = BATCH, .shuffle = true,
                                      .on_error = TN_ON_ERROR_SKIP);
    tn_loader_state state = {0};
    int64_t before = 0;
    TN_EACH_BATCH(batch, loader) {
        before += batch.count;
        state = tn_loader_snapshot(loader);
        if (before >= COUNT / 2)
            break;
    }
    tn_loader_restore(loader, state);
    look(loader, &rest);
    ok(rest.samples == whole.samples - before &&
           memcmp(rest.label, whole.label + before,
                  (size_t)rest.samples * 8) == 0 &&
           memcmp(rest.x, whole.x + before * 3,
                  (size_t)rest.samples * 12) == 0,
       "an epoch that is resumed gives the same samples");
    tn_scope_close(scope);
}

/* Runs a loop over the loader, and returns the error with which it ends. */
static tn_status end_of(tn_loader *loader)
{
    static seen s;
    memset(&s, 0, sizeof s);
    look(loader, &s);
    return tn_error_code();
}

static void test_failures(void)
{
    for (int workers = 0; workers <= 2; workers += 2) {
        tn_scope *scope = tn_scope_open();
        tn_dataset *set = pictures();
        is_bad = some;
        is_int(end_of(tn_loader_new(set, .batch_size = BATCH,
                                    .workers = workers)),
               TN_ERR_FORMAT, "%d workers: by default a failure ends the loop",
               workers);
        tn_error_clear();
        code_of_bad = TN_ERR_MEMORY;
        is_int(end_of(tn_loader_new(set, .batch_size = BATCH,
                                    .workers = workers,
                                    .on_error = TN_ON_ERROR_SKIP)),
               TN_ERR_MEMORY, "lack of memory ends it always");
        tn_error_clear();
        code_of_bad = TN_ERR_FORMAT;
        is_bad = all;
        is_int(end_of(tn_loader_new(set, .batch_size = BATCH,
                                    .workers = workers,
                                    .on_error = TN_ON_ERROR_SKIP)),
               TN_ERR_STATE, "an epoch without samples is an error");
        ok(tn_error() && strstr(tn_error(), "all 40 samples"),
           "that has their number");
        tn_error_clear();
        is_int(end_of(tn_loader_new(set, .batch_size = 7, .drop_last = true,
                                    .workers = workers,
                                    .on_error = TN_ON_ERROR_SKIP)),
               TN_ERR_STATE, "also if the last samples are dropped");
        ok(tn_error() && strstr(tn_error(), "all 35 samples"),
           "which do not count");
        tn_error_clear();
        is_bad = none;
        is_int(end_of(tn_loader_new(set, .batch_size = BATCH,
                                    .workers = workers,
                                    .on_error = TN_ON_ERROR_SKIP)),
               TN_OK, "nothing fails where no sample does");
        is_bad = some;
        tn_scope_close(scope);
    }
}

static int next(void *context, tn_tensor **fields)
{
    (void)context;
    (void)fields;
    return 0;
}
static tn_status begin(void *context, uint64_t epoch)
{
    (void)context;
    (void)epoch;
    return TN_OK;
}

static void test_refused(void)
{
    static const tn_stream_class stream = {sizeof stream, begin, next, NULL};
    tn_scope *scope = tn_scope_open();
    ok(!tn_loader_new(tn_dataset_from_stream(&stream, NULL),
                      .on_error = TN_ON_ERROR_SKIP),
       "a stream is refused");
    ok(tn_error() && strstr(tn_error(), "on_error"), "by the option's name");
    tn_error_clear();
    ok(!tn_loader_new(pictures(), .on_error = (tn_on_error)2),
       "a value that the option does not have");
    ok(tn_error() && strstr(tn_error(), "on_error is 2"), "is told");
    tn_error_clear();
    is_int(tn_loader_skipped(NULL), 0, "no loader skipped nothing");
    tn_error_clear();
    tn_scope_close(scope);
}

int main(void)
{
    is_bad = some;
    test_counts();
    test_workers();
    test_resume();
    test_failures();
    test_refused();
    return done_testing();
}
