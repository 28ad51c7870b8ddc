/* level1.c: the checks of level 1: memory, copies, queues and threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "process.h"
#include "random_source.h"
#include "run_case.h"

/* ---- buffers ------------------------------------------------------------ */

static unsigned char pattern(size_t buffer, size_t i)
{
    return (unsigned char)(buffer * 37 + i * 11 + (i >> 8) + 1);
}

static tn_buffer *alloc(const by_hand *h, uint64_t bytes)
{
    tn_buffer *buffer = NULL;
    tn_status status = h->plugin->buffer_alloc(h->device, bytes, &buffer);
    expect(status == TN_OK && buffer, "buffer_alloc of %llu bytes returns %d: "
                                      "%s",
           (unsigned long long)bytes, status, by_hand_failure());
    return status == TN_OK ? buffer : NULL;
}

/* Checks that buffers of odd sizes that exist at the same time do not
 * overlap. */
static void sizes(int argument)
{
    (void)argument;
    enum { COUNT = 12, MOST = 5000 };
    by_hand h;
    if (!open_device(&h))
        return;
    size_t align = h.info.align && h.info.align <= 4096 ? h.info.align : 64;
    const size_t size[COUNT] = {0, 1,         2,         3,    align - 1, align,
                                0, align + 1, 2 * align, 4096, 4097,      MOST};
    tn_buffer *buffer[COUNT] = {NULL};
    static unsigned char bytes[3 * 4096];
    for (size_t b = 0; b < COUNT; b++) {
        trying("buffer %zu of %zu bytes", b, size[b]);
        if (!(buffer[b] = alloc(&h, size[b])))
            return;
        for (size_t i = 0; i < size[b]; i++)
            bytes[i] = pattern(b, i);
        expect(by_hand_copy(&h, buffer[b], 0, bytes, size[b], true) == TN_OK,
               "copy to the device: %s", by_hand_failure());
    }
    for (size_t b = 0; b < COUNT; b++) {
        trying("buffer %zu of %zu bytes, read back", b, size[b]);
        memset(bytes, 0, sizeof bytes);
        expect(by_hand_copy(&h, buffer[b], 0, bytes, size[b], false) == TN_OK,
               "copy to the host: %s", by_hand_failure());
        for (size_t i = 0; i < size[b]; i++)
            if (!expect(bytes[i] == pattern(b, i),
                        "byte %zu has changed: buffers overlap", i))
                break;
        expect(bytes[size[b]] == 0, "a copy to the host writes past its end");
    }
    for (size_t b = 0; b < COUNT; b++)
        h.plugin->buffer_free(h.device, buffer[b]);
    by_hand_close(&h);
}

/* Checks that allocating more memory than any machine has gives TN_ERR_MEMORY,
 * and that the device can be used afterwards. */
static void too_large(int argument)
{
    (void)argument;
    static const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 63,
                                     (uint64_t)1 << 62, (uint64_t)1 << 52};
    by_hand h;
    if (!open_device(&h))
        return;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        trying("buffer_alloc of %llu bytes", (unsigned long long)sizes[i]);
        tn_buffer *buffer = NULL;
        by_hand_forget();
        tn_status status = h.plugin->buffer_alloc(h.device, sizes[i], &buffer);
        expect(status == TN_ERR_MEMORY, "returns %d, not "
                                        "TN_ERR_MEMORY", status);
        expect(*by_hand_failure(), "reports no reason");
        buffer = alloc(&h, 100);
        unsigned char bytes[100] = {7};
        expect(buffer && by_hand_copy(&h, buffer, 0, bytes, 100, true) == TN_OK,
               "the device is unusable after the failed allocation: %s",
               by_hand_failure());
        if (buffer)
            h.plugin->buffer_free(h.device, buffer);
    }
    by_hand_close(&h);
}

static void mapped(int argument)
{
    (void)argument;
    by_hand h;
    if (!open_device(&h))
        return;
    if (!h.plugin->buffer_map || !(h.info.caps & TN_CAP_HOST_VISIBLE)) {
        leave_out("the host cannot access the device's memory");
        by_hand_close(&h);
        return;
    }
    unsigned char bytes[256];
    for (size_t size = 1; size <= sizeof bytes; size += 51) {
        trying("a buffer of %zu bytes", size);
        void *pointer = NULL;
        tn_buffer *buffer = alloc(&h, size);
        if (!buffer)
            return;
        expect(h.plugin->buffer_map(h.device, buffer, &pointer) == TN_OK &&
                   pointer,
               "buffer_map: %s", by_hand_failure());
        expect(!h.info.align || (uintptr_t)pointer % h.info.align == 0,
               "memory is not aligned to %u bytes", h.info.align);
        if (has_failed())
            return;
        for (size_t i = 0; i < size; i++)
            ((unsigned char *)pointer)[i] = pattern(size, i);
        by_hand_copy(&h, buffer, 0, bytes, size, false);
        for (size_t i = 0; i < size; i++)
            expect(bytes[i] == pattern(size, i),
                   "byte %zu: a copy does not read what was written to the "
                   "mapped memory", i);
        h.plugin->buffer_free(h.device, buffer);
    }
    by_hand_close(&h);
}

static void wrapped(int argument)
{
    (void)argument;
    static unsigned char memory[4096], bytes[4096];
    by_hand h;
    if (!open_device(&h))
        return;
    if (!h.plugin->buffer_wrap) {
        leave_out("the plugin does not wrap host memory");
        by_hand_close(&h);
        return;
    }
    tn_buffer *buffer = NULL;
    for (size_t i = 0; i < sizeof memory; i++)
        memory[i] = pattern(1, i);
    expect(h.plugin->buffer_wrap(h.device, memory, sizeof memory, &buffer) ==
                   TN_OK &&
               buffer,
           "buffer_wrap: %s", by_hand_failure());
    if (has_failed())
        return;
    by_hand_copy(&h, buffer, 0, bytes, sizeof bytes, false);
    expect(memcmp(bytes, memory, sizeof bytes) == 0,
           "a copy does not read what was written to the host's memory");
    h.plugin->buffer_free(h.device, buffer);
    for (size_t i = 0; i < sizeof memory; i++)
        expect(memory[i] == pattern(1, i), "buffer_free changed byte %zu",
               i);
    by_hand_close(&h);
}

/* ---- copies ------------------------------------------------------------- */

enum { PLANE = 1500 }; /* size in bytes of the source and of the destination of
                          a copy, with margins */

/* Makes one random copy of rows with a pitch (distance between rows). Compares
 * every byte of source and destination with the expected contents. */
static void pitched_copy(const by_hand *h, random_source *r, int direction,
                         tn_buffer *dst, tn_buffer *src)
{
    static unsigned char to[PLANE], from[PLANE], want[PLANE], got[PLANE];
    uint64_t rows = random_below(r, 7), bytes = random_below(r, 80);
    tn_copy_args copy = {.size = sizeof copy,
                         .direction = (uint32_t)direction,
                         .bytes = bytes,
                         .rows = rows,
                         .dst_pitch = bytes + random_below(r, 70),
                         .src_pitch = bytes + random_below(r, 70)};
    uint64_t dst_from = random_below(r, 300), src_from = random_below(r, 300);
    for (size_t i = 0; i < PLANE; i++) {
        from[i] = (unsigned char)random_bits(r);
        to[i] = want[i] = (unsigned char)random_bits(r);
    }
    for (uint64_t row = 0; row < rows; row++)
        memcpy(want + dst_from + row * copy.dst_pitch,
               from + src_from + row * copy.src_pitch, bytes);
    if (direction != TN_COPY_TO_HOST) {
        copy.dst = dst;
        copy.dst_offset = dst_from;
        by_hand_copy(h, dst, 0, to, PLANE, true);
    } else {
        copy.host = to + dst_from;
    }
    if (direction != TN_COPY_TO_DEVICE) {
        copy.src = src;
        copy.src_offset = src_from;
        by_hand_copy(h, src, 0, from, PLANE, true);
    } else {
        copy.host = from + src_from;
    }
    tn_fault fault = {.size = sizeof fault};
    tn_status status = h->plugin->copy(h->queue, &copy);
    tn_status done = h->plugin->queue_sync(h->queue, &fault);
    expect(status == TN_OK && done == TN_OK, "copy returns %d, queue_sync %d: "
                                             "%s",
           status, done, by_hand_failure());
    if (direction != TN_COPY_TO_HOST)
        by_hand_copy(h, dst, 0, got, PLANE, false);
    else
        memcpy(got, to, PLANE);
    for (size_t i = 0; i < PLANE; i++)
        if (!expect(got[i] == want[i],
                    "%llu rows of %llu bytes: byte %lld of the destination is "
                    "wrong",
                    (unsigned long long)rows, (unsigned long long)bytes,
                    (long long)i - (long long)dst_from))
            return;
}

static void copies(int direction)
{
    by_hand h;
    if (!open_device(&h))
        return;
    tn_buffer *dst = alloc(&h, PLANE), *src = alloc(&h, PLANE);
    for (uint64_t i = 0; i < 100 && !has_failed(); i++) {
        random_source r = {options.seed + i};
        trying("--seed %llu, a pitched copy",
               (unsigned long long)(options.seed + i));
        pitched_copy(&h, &r, direction, dst, src);
    }
    if (has_failed())
        return;
    h.plugin->buffer_free(h.device, dst);
    h.plugin->buffer_free(h.device, src);
    by_hand_close(&h);
}

/* ---- threads and queues ------------------------------------------------- */

enum { THREADS = 8, ROUNDS = 30 };

typedef struct worker {
    by_hand h; /* the plugin, and the queue that this thread uses */
    uint64_t seed;
    tn_buffer *left; /* buffer that this thread makes and another thread reads
                        and frees */
    char why[512];   /* message of the failure; "" if there was none */
} worker;

#define LEFT UINT64_C(0x0123456789abcdef)
static void leave_buffer(worker *w)
{
    uint64_t left = LEFT;
    if (w->h.plugin->buffer_alloc(w->h.device, sizeof left, &w->left) !=
            TN_OK ||
        by_hand_copy(&w->h, w->left, 0, &left, sizeof left, true) != TN_OK)
        snprintf(w->why, sizeof w->why, "a buffer: %s", by_hand_failure());
}

/* Opens and closes a queue, while other threads do the same. */
static bool open_queue(worker *w)
{
    tn_queue *own;
    if (w->h.plugin->queue_open(w->h.device, &own) != TN_OK) {
        snprintf(w->why, sizeof w->why, "queue_open: %s", by_hand_failure());
        return false;
    }
    w->h.plugin->queue_close(own);
    return true;
}

/* Runs random programs in a new thread, on a queue that the main thread opened
 * and will close. */
static void *work(void *context)
{
    worker *w = context;
    by_hand h = w->h;
    for (uint64_t i = 0; i < ROUNDS && !*w->why && open_queue(w); i++) {
        random_case *c = random_case_new(w->seed + i);
        if (c && run_case_fits(&h, c) &&
            !run_case(&h, c, w->why, sizeof w->why)) {
            char text[512];
            snprintf(text, sizeof text, "seed %llu: %.400s",
                     (unsigned long long)(w->seed + i), w->why);
            memcpy(w->why, text, sizeof text);
        }
        random_case_free(c);
    }
    if (!*w->why)
        leave_buffer(w);
    return NULL;
}

/* Reads and frees, in the main thread, the buffer that a worker thread made. */
static void take_buffer(const worker *w)
{
    uint64_t read = 0;
    if (expect(by_hand_copy(&w->h, w->left, 0, &read, sizeof read, false) ==
                   TN_OK,
               "a buffer of another thread: %s", by_hand_failure()))
        expect(read == LEFT,
               "a buffer of another thread reads as 0x%016llx",
               (unsigned long long)read);
    w->h.plugin->buffer_free(w->h.device, w->left);
}

/* Starts threads that each use a queue of their own or, if one_queue is true,
 * share one. libtenon has a single queue for a synchronous device, which all
 * threads share. */
static void threads(int one_queue)
{
    by_hand h;
    pthread_t thread[THREADS];
    static worker workers[THREADS];
    if (!open_device(&h))
        return;
    if (one_queue && h.info.caps & TN_CAP_ASYNC) {
        leave_out("only one thread at a time may use a queue of an "
                  "asynchronous device");
        by_hand_close(&h);
        return;
    }
    trying("%d threads, %s and %d random programs each", THREADS,
           one_queue ? "one queue" : "a queue", ROUNDS);
    int started = 0;
    for (; started < THREADS; started++) {
        worker *w = &workers[started];
        *w = (worker){.h = h,
                      .seed = options.seed + (uint64_t)started * ROUNDS};
        if (!one_queue &&
            !expect(h.plugin->queue_open(h.device, &w->h.queue) == TN_OK,
                    "queue_open: %s", by_hand_failure()))
            break;
        if (pthread_create(&thread[started], NULL, work, w)) {
            if (!one_queue)
                h.plugin->queue_close(w->h.queue);
            break;
        }
    }
    for (int t = 0; t < started; t++) {
        pthread_join(thread[t], NULL);
        if (expect(!*workers[t].why, "thread %d, %s", t, workers[t].why))
            take_buffer(&workers[t]);
        if (!one_queue)
            h.plugin->queue_close(workers[t].h.queue);
    }
    if (started < 2 && !has_failed())
        leave_out("the system cannot start another thread");
    by_hand_close(&h);
}

/* ---- what is left ------------------------------------------------------- */

static void use_event(const by_hand *h,
                      tn_status (*open)(tn_plugin_device *, tn_event **))
{
    tn_event *event = NULL;
    tn_fault fault = {.size = sizeof fault};
    if (!open || !h->plugin->event_close || !h->plugin->event_record)
        return;
    if (expect(open(h->device, &event) == TN_OK &&
                   h->plugin->event_record(h->queue, event) == TN_OK &&
                   h->plugin->queue_sync(h->queue, &fault) == TN_OK,
               "an event: %s", by_hand_failure()))
        h->plugin->event_close(event);
}

/* Opens a device, runs work on it, and closes it. */
static bool whole_round(by_hand *h)
{
    char why[512];
    if (!expect(by_hand_open_device(h, options.device),
                "the device cannot be opened again: %s", by_hand_failure()))
        return false;
    random_case *c = random_case_new(options.seed);
    for (uint64_t i = 1; c && !run_case_fits(h, c) && i < 100; i++) {
        random_case_free(c);
        c = random_case_new(options.seed + i);
    }
    expect(c != NULL, "tenon-plugin-check itself ran out of memory");
    if (c && run_case_fits(h, c))
        expect(run_case(h, c, why, sizeof why), "%s", why);
    random_case_free(c);
    tn_buffer *buffer = alloc(h, 1000);
    if (buffer)
        h->plugin->buffer_free(h->device, buffer);
    use_event(h, h->plugin->event_open);
    use_event(h, h->plugin->event_open_timed);
    by_hand_close(h);
    return !has_failed();
}

/* Checks for leaks by opening, using and closing the device repeatedly. What
 * the first rounds allocate or start may remain. Later rounds must not leave
 * further memory blocks or threads. */
static void leaks(int argument)
{
    (void)argument;
    enum { WARM = 3, COUNTED = 8 };
    by_hand h;
    if (!open_device(&h))
        return;
    by_hand_close(&h);
    for (int i = 0; i < WARM; i++)
        if (!whole_round(&h))
            return;
    long blocks = process_blocks();
    int threads = process_threads();
    trying("%d rounds of opening, running a program, and closing", COUNTED);
    for (int i = 0; i < COUNTED; i++)
        if (!whole_round(&h))
            return;
    expect(process_threads() == threads,
           "leaks threads: %d more after %d rounds",
           process_threads() - threads, COUNTED);
    if (process_counts_memory())
        expect(process_blocks() <= blocks,
               "leaks memory: %ld blocks more after %d rounds",
               process_blocks() - blocks, COUNTED);
}

/* Checks that opening and using a device does not change signal handlers, the
 * locale and other state of the process. It may start threads. */
static void used_state(int argument)
{
    (void)argument;
    by_hand h;
    static process_state before, now;
    char why[256];
    process_read(&before);
    if (!open_device(&h))
        return;
    by_hand_close(&h);
    if (!whole_round(&h))
        return;
    process_read(&now);
    now.threads = before.threads;
    now.origin.threads = before.origin.threads;
    note_vendors();
    expect(process_same(&before, &now, why, sizeof why), "%s", why);
}

static const char copy_rule[] =
    "copy: `rows` rows of `bytes` bytes, dst_pitch and src_pitch bytes "
    "from one to the next, and no other byte";

static const check of_level1[] = {
    {1, "sizes",
     "buffer_alloc: a buffer of that many bytes, which overlaps no other",
     .body = sizes},
    {1, "larger than memory",
     "buffer_alloc of a size that does not fit returns TN_ERR_MEMORY, reports "
     "a reason by host->fail, and leaves the device usable",
     .body = too_large},
    {1, "mapped buffers",
     "buffer_map returns the buffer's memory, at a multiple of the device's "
     "align",
     .body = mapped},
    {1, "wrapped buffers",
     "buffer_wrap: a buffer over memory that the caller owns", .body = wrapped},
    {1, "copies to the device", copy_rule, .body = copies,
     .argument = TN_COPY_TO_DEVICE},
    {1, "copies to the host", copy_rule, .body = copies,
     .argument = TN_COPY_TO_HOST},
    {1, "copies on the device", copy_rule, .body = copies,
     .argument = TN_COPY_ON_DEVICE},
    {1, "threads",
     "several threads may make calls on different queues at the same time; "
     "objects do not belong to a thread",
     .body = threads},
    {1, "threads with one queue",
     "several threads may make calls on the queue of a synchronous device at "
     "the same time",
     .body = threads, .argument = 1},
    {1, "leaks", "close and free release all that belongs to an object",
     .body = leaks},
    {1, "state after use",
     "a plugin changes no locale, environment variable, working folder, "
     "floating-point state or signal handler, except variables that a library "
     "of its vendor sets",
     .body = used_state},
};

int level1_checks(check *list, int count)
{
    count = check_add_all(list, count, of_level1,
                          sizeof of_level1 / sizeof *of_level1);
    return event_checks(list, count);
}
