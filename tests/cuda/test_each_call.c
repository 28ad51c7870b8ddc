/* Makes each call of the driver fail in turn, from listing devices to closing
 * one. The plugin must report the failure or work without the call, release
 * what it holds, and work at the next attempt. */
#include "../../backends/cuda/cuda_driver.h"
#include "../device/by_name.h"
#include "on_sim.h"

static void (*sim_fail)(const char *name, long n, tn_status error);
static const char *(*sim_failed)(void);
static void (*sim_reports)(char *out, size_t room);

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, LAUNCH_FAILED = 719 };

/* ---- work on a device ---------------------------------------------------- */

static by_hand plugin;
static const uint32_t numbers[12] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};

/* Copies rows with gaps from the start of a buffer to a later offset. */
static tn_status copy_rows(const by_hand *h, tn_buffer *buffer, uint64_t to,
                           uint64_t bytes, uint64_t rows)
{
    const tn_copy_args copy = {.size = sizeof copy,
                               .direction = TN_COPY_ON_DEVICE,
                               .dst = buffer,
                               .src = buffer,
                               .dst_offset = to,
                               .bytes = bytes,
                               .rows = rows,
                               .dst_pitch = 12,
                               .src_pitch = 12};
    return h->plugin->copy(h->queue, &copy);
}

/* Copies to the device, on the device and back, with an event between. Returns
 * whether the data is right. */
static bool copies_work(const by_hand *h)
{
    const tn_plugin *p = h->plugin;
    tn_buffer *buffer = NULL;
    tn_event *event = NULL, *timed[2] = {NULL};
    uint32_t back[36] = {0}, done = 0;
    double ns = -1;
    bool works = p->buffer_alloc(h->device, sizeof back, &buffer) == 0 &&
                 p->event_open(h->device, &event) == 0 &&
                 p->event_open_timed(h->device, &timed[0]) == 0 &&
                 p->event_open_timed(h->device, &timed[1]) == 0 &&
                 p->event_record(h->queue, timed[0]) == 0 &&
                 by_hand_copy(h, buffer, 0, (void *)(uintptr_t)numbers,
                              sizeof numbers, true) == 0 &&
                 by_hand_copy(h, buffer, 48, back, 48, true) == 0 &&
                 copy_rows(h, buffer, 48, 8, 4) == 0 &&
                 copy_rows(h, buffer, 96, 48, 1) == 0 &&
                 p->event_record(h->queue, timed[1]) == 0 &&
                 p->event_record(h->queue, event) == 0 &&
                 p->queue_wait(h->queue, event) == 0;
    while (works && !done)
        works = p->event_query(event, &done) == 0;
    works = works && p->event_elapsed(timed[0], timed[1], &ns) == 0 &&
            ns >= 0;
    works = works && by_hand_copy(h, buffer, 0, back, sizeof back, false) == 0;
    for (int i = 0; i < 12 && works; i++)
        works = back[i] == numbers[i] && back[24 + i] == numbers[i] &&
                back[12 + i] == (i % 3 == 2 ? 0 : numbers[i]);
    for (int i = 0; i < 2; i++)
        if (timed[i])
            p->event_close(timed[i]);
    if (event)
        p->event_close(event);
    if (buffer)
        p->buffer_free(h->device, buffer);
    return works;
}

/* A prefix sum of a column of ones, and a product of matrices of ones: they use
 * kernels, scratch memory and, for products, cuBLASLt. */
enum { LONG = 3000 };

/* Computes relu(30 + 1) and the bit mask of results greater than 0, with
 * cuBLASLt. */
static bool layer_works(const by_hand *h, tn_buffer *from, tn_buffer *to,
                        float *out)
{
    const tn_plugin *p = h->plugin;
    const tn_product_extension *product = p->extension("product", 1);
    const tn_strided a = {from, 0, TN_F32, 2, {30, 1}};
    const tn_product_args args = {
        .size = sizeof args,
        .epilogue = TN_PRODUCT_BIAS | TN_PRODUCT_RELU | TN_PRODUCT_KEEP,
        .m = 50,
        .n = 50,
        .k = 30,
        .a = a,
        .b = a,
        .c = {to, 0, TN_F32, 2, {50, 1}},
        .bias = {from, 0, TN_F32, 1, {1}},
        .aux = {to, 10240, TN_U8, 2, {TN_PRODUCT_MASK(50), 1}},
        .alpha = 1};
    tn_status status = product ? product->run(h->queue, &args) : 1;
    tn_fault fault = {.size = sizeof fault};
    bool works = (status == 0 || status == TN_ERR_UNSUPPORTED) &&
                 p->queue_sync(h->queue, &fault) == 0 &&
                 by_hand_copy(h, to, 0, out, sizeof(float) * LONG, false) == 0;
    for (int i = 0; i < 50 * 50 && works && !status; i++)
        works = out[i] == 31;
    return works;
}

static bool kernels_work(const by_hand *h)
{
    const tn_plugin *p = h->plugin;
    static float ones[LONG], out[LONG];
    tn_buffer *from = NULL, *to = NULL;
    tn_fault fault = {.size = sizeof fault};
    for (int i = 0; i < LONG; i++)
        ones[i] = 1;
    bool works = p->buffer_alloc(h->device, sizeof ones, &from) == 0 &&
                 p->buffer_alloc(h->device, sizeof ones, &to) == 0 &&
                 by_hand_copy(h, from, 0, ones, sizeof ones, true) == 0;
    const tn_strided in = {from, 0, TN_F32, 1, {1}};
    const tn_strided sums = {to, 0, TN_F32, 1, {1}};
    const tn_strided a = {from, 0, TN_F32, 2, {30, 1}};
    const tn_strided c = {to, 0, TN_F32, 2, {50, 1}};
    const tn_scan_args scan = {.size = sizeof scan,
                               .ndim = 1,
                               .kind = TN_REDUCE_SUM,
                               .extent = {LONG},
                               .in = in,
                               .out = sums};
    const tn_matmul_args product = {.size = sizeof product,
                                    .m = 50,
                                    .n = 50,
                                    .k = 30,
                                    .a = a,
                                    .b = a,
                                    .c = c,
                                    .alpha = 1};
    works = works && p->scan(h->queue, &scan) == 0 &&
            by_hand_copy(h, to, 0, out, sizeof out, false) == 0;
    for (int i = 0; i < LONG && works; i++)
        works = out[i] == (float)(i + 1);
    works = works && p->matmul(h->queue, &product) == 0 &&
            p->queue_sync(h->queue, &fault) == 0 &&
            by_hand_copy(h, to, 0, out, sizeof out, false) == 0;
    for (int i = 0; i < 50 * 50 && works; i++)
        works = out[i] == 30;
    works = works && layer_works(h, from, to, out);
    if (from)
        p->buffer_free(h->device, from);
    if (to)
        p->buffer_free(h->device, to);
    return works;
}

/* Captures a scan as an update of the graph of the earlier work, and then again
 * with an additional node. The driver does not accept the second one as an
 * update. */
static bool updates_work(const by_hand *h, const tn_scan_args *scan,
                         tn_recorded *recorded)
{
    const tn_plugin *p = h->plugin;
    const tn_graph_replay_extension *graph = p->extension("graph-replay", 1);
    tn_fault fault = {.size = sizeof fault};
    bool works = true;
    for (int count = 1; count < 3 && works; count++) {
        works = graph->begin(h->queue) == 0;
        if (!works)
            break;
        tn_status status = 0;
        for (int i = 0; i < count && !status; i++)
            status = p->scan(h->queue, scan);
        works = graph->end_into(h->queue, recorded) == 0 && status == 0 &&
                graph->run(h->queue, recorded, 3) == 0;
        works = p->queue_sync(h->queue, &fault) == 0 && works;
    }
    return works;
}

/* Captures a scan whose operands change, and runs it on `scan` after it was
 * captured on `other`. */
static bool changes_work(const by_hand *h, const tn_scan_args *scan,
                         const tn_scan_args *other)
{
    const tn_plugin *p = h->plugin;
    const tn_graph_replay_extension *graph = p->extension("graph-replay", 1);
    tn_recorded *recorded = NULL;
    tn_fault fault = {.size = sizeof fault};
    if (graph->begin(h->queue))
        return false;
    tn_status status = graph->vary(h->queue, 1);
    status = status ? status : p->scan(h->queue, other);
    status = status ? status : graph->vary(h->queue, 0);
    bool works = graph->end(h->queue, &recorded) == 0 && status == 0 &&
                 graph->change(h->queue, recorded) == 0;
    if (works) {
        status = p->scan(h->queue, scan);
        works = graph->changed(h->queue, recorded) == 0 && status == 0 &&
                graph->run(h->queue, recorded, 4) == 0;
    }
    works = p->queue_sync(h->queue, &fault) == 0 && works;
    if (recorded)
        graph->release(h->device, recorded);
    return works;
}

/* Captures a scan as a graph and runs the graph twice. Its input is in
 * page-locked memory. */
static bool graphs_work(const by_hand *h)
{
    const tn_plugin *p = h->plugin;
    const tn_graph_replay_extension *graph = p->extension("graph-replay", 1);
    tn_buffer *from = NULL, *to = NULL;
    tn_recorded *recorded = NULL;
    tn_fault fault = {.size = sizeof fault};
    void *memory = NULL;
    float *number = NULL;
    bool works = graph && p->host_alloc(h->device, 400, &memory) == 0 &&
                 p->buffer_alloc(h->device, 400, &from) == 0 &&
                 p->buffer_alloc(h->device, 400, &to) == 0;
    if (works)
        number = memory;
    for (int i = 0; i < 100 && works; i++)
        number[i] = 1;
    const tn_strided in = {from, 0, TN_F32, 1, {1}};
    const tn_strided out = {to, 0, TN_F32, 1, {1}};
    const tn_scan_args scan = {.size = sizeof scan,
                               .ndim = 1,
                               .kind = TN_REDUCE_SUM,
                               .extent = {100},
                               .in = in,
                               .out = out};
    works = works && by_hand_copy(h, from, 0, number, 400, true) == 0 &&
            p->scan(h->queue, &scan) == 0 &&
            p->queue_sync(h->queue, &fault) == 0 &&
            graph->begin(h->queue) == 0;
    if (works) {
        tn_status status = p->scan(h->queue, &scan);
        works = graph->end(h->queue, &recorded) == 0 && status == 0;
    }
    works = works && graph->run(h->queue, recorded, 1) == 0 &&
            graph->run(h->queue, recorded, 2) == 0;
    p->queue_sync(h->queue, &fault);
    works = works && by_hand_copy(h, to, 0, number, 400, false) == 0;
    for (int i = 0; i < 100 && works; i++)
        works = number[i] == (float)(i + 1);
    tn_scan_args shorter = scan;
    shorter.extent[0] = 50;
    shorter.in = out;
    shorter.out = in;
    works = works && updates_work(h, &shorter, recorded) &&
            by_hand_copy(h, from, 0, number, 400, false) == 0;
    for (int i = 0; i < 100 && works; i++)
        works = number[i] == (i < 50 ? (float)((i + 1) * (i + 2) / 2) : 1);
    /* Sums of the 1 that `from` has at its end, in `to`. */
    tn_scan_args ones = scan;
    ones.in.offset = 50;
    ones.extent[0] = 50;
    works = works && changes_work(h, &ones, &shorter) &&
            by_hand_copy(h, to, 0, number, 400, false) == 0;
    for (int i = 0; i < 50 && works; i++)
        works = number[i] == (float)(i + 1);
    if (recorded)
        graph->release(h->device, recorded);
    if (from)
        p->buffer_free(h->device, from);
    if (to)
        p->buffer_free(h->device, to);
    if (memory)
        p->host_free(h->device, memory);
    return works;
}

/* Opens device i and creates a queue on it. */
static bool open_device(by_hand *h, uint32_t i)
{
    h->device = NULL;
    h->queue = NULL;
    return h->plugin->device_open(i, &h->device) == 0 &&
           h->plugin->queue_open(h->device, &h->queue) == 0;
}

static void close_device(by_hand *h)
{
    if (h->queue)
        h->plugin->queue_close(h->queue);
    if (h->device)
        h->plugin->device_close(h->device);
}

/* Copies from another device: first one block, then rows with a gap. */
static bool copy_from_peer(const by_hand *h, tn_buffer *to, tn_buffer *from)
{
    tn_copy_args copy = {.size = sizeof copy,
                         .direction = TN_COPY_PEER,
                         .dst = to,
                         .src = from,
                         .bytes = 48,
                         .rows = 1};
    tn_status status = h->plugin->copy(h->queue, &copy);
    if (status)
        return false;
    copy.dst_offset = 48;
    copy.bytes = 8;
    copy.rows = 4;
    copy.dst_pitch = copy.src_pitch = 12;
    return h->plugin->copy(h->queue, &copy) == 0;
}

static bool peers_work(const by_hand *h)
{
    const tn_plugin *p = h->plugin;
    by_hand peer = *h;
    tn_buffer *from = NULL, *to = NULL;
    tn_fault fault = {.size = sizeof fault};
    uint32_t back[24] = {0};
    bool works = open_device(&peer, 1) &&
                 p->buffer_alloc(peer.device, 48, &from) == 0 &&
                 p->buffer_alloc(h->device, sizeof back, &to) == 0 &&
                 by_hand_copy(&peer, from, 0, (void *)(uintptr_t)numbers,
                              sizeof numbers, true) == 0 &&
                 by_hand_copy(h, to, 0, back, sizeof back, true) == 0 &&
                 copy_from_peer(h, to, from) &&
                 by_hand_copy(h, to, 0, back, sizeof back, false) == 0;
    for (int i = 0; i < 12 && works; i++)
        works = back[i] == numbers[i] &&
                back[12 + i] == (i % 3 == 2 ? 0 : numbers[i]);
    p->queue_sync(h->queue, &fault); /* waits before the source is freed */
    if (to)
        p->buffer_free(h->device, to);
    if (from)
        p->buffer_free(peer.device, from);
    close_device(&peer);
    return works;
}

/* Does all work, from opening devices to closing them. */
static bool works(void)
{
    bool right = open_device(&plugin, 0) && copies_work(&plugin) &&
                 kernels_work(&plugin) && graphs_work(&plugin) &&
                 peers_work(&plugin);
    close_device(&plugin);
    return right;
}

/* ---- failing calls ------------------------------------------------------- */

static long call;
static int error_given;

static bool is_one_of(const char *name, const char *const *list)
{
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

/* Prints what a failure of the current call causes, such as "cuMemAlloc_v2:
 * reported, then works": an error was reported, and the next call worked. Prints
 * nothing if the program makes no such call. */
static void print_what_happens(void)
{
    static const char *const once[] = {"cuInit", "cuDeviceGetCount",
                                       "cuDeviceGet", "cuDeviceGetAttribute",
                                       NULL};
    static const char *const gives_back[] = {
        "cuMemFree_v2",   "cuStreamDestroy_v2", "cuEventDestroy_v2",
        "cuModuleUnload", "cuGraphDestroy",     "cuGraphExecDestroy",
        "cuMemFreeHost",  "cuStreamEndCapture", "cuCtxSetCurrent",
        "cuCtxGetCurrent",
        "cuDevicePrimaryCtxRelease_v2", NULL};
    char said[4096];
    sim_fail(NULL, call, error_given);
    bool first = works();
    const char *name = sim_failed();
    if (!name)
        return;
    printf("%s: %s", name,
           first                  ? "does without"
           : *by_hand_failure()   ? "reported"
                                  : "FAILS WITHOUT A WORD");
    sim_reports(said, sizeof said);
    if (*said && !is_one_of(name, gives_back))
        printf(", LEAVES: %s", said);
    sim_fail(NULL, -1, 0);
    by_hand_forget();
    bool second = works();
    if (error_given >= 700)
        printf(second ? ", works" : ", lost");
    /* devices are listed only once in a process */
    else if (is_one_of(name, once) && !second)
        printf(", not listed");
    else
        printf(second ? ", works" : ", WORKS NO MORE: %s", by_hand_failure());
}

/* The caller may use CUDA directly: the plugin must leave the current context
 * as it was. i is the device of that context; -1 for none. */
static void print_contexts(void)
{
    int (*retain)(void **context, int device);
    int (*set)(void *context), (*get)(void **context);
    on_sim_find("cuDevicePrimaryCtxRetain", &retain);
    on_sim_find("cuCtxSetCurrent", &set);
    on_sim_find("cuCtxGetCurrent", &get);
    if (!works()) /* does all work, which also opens the driver */
        return;
    for (int i = -1; i < 2; i++) {
        void *callers = NULL, *after = &callers;
        if ((i >= 0 && retain(&callers, i)) || set(callers) || !works() ||
            get(&after))
            return;
        printf("%s", after == callers ? "as it was, " : "another, ");
    }
}

/* Scratch memory stays allocated after a sync, unless memory has run out. */
static void print_scratch(void)
{
    const tn_plugin *p = plugin.plugin;
    tn_buffer *all = NULL;
    tn_fault fault = {.size = sizeof fault};
    size_t left[3], total;
    int (*retain)(void **context, int device);
    int (*set)(void *context), (*info)(size_t *left, size_t *total);
    void *context;
    on_sim_find("cuDevicePrimaryCtxRetain", &retain);
    on_sim_find("cuCtxSetCurrent", &set);
    on_sim_find("cuMemGetInfo_v2", &info);
    if (!open_device(&plugin, 0) || !kernels_work(&plugin) ||
        retain(&context, 0) || set(context) || info(&left[0], &total) ||
        p->queue_sync(plugin.queue, &fault) || info(&left[1], &total))
        return;
    tn_status status = p->buffer_alloc(plugin.device, total + 1, &all);
    if (status != TN_ERR_MEMORY || p->queue_sync(plugin.queue, &fault) ||
        info(&left[2], &total))
        return;
    bool again = kernels_work(&plugin);
    printf("%s, %s, %s", left[1] == left[0] ? "lasts" : "goes",
           left[2] > left[1] ? "given back" : "held", again ? "works" : "fails");
    close_device(&plugin);
}

static void print_reason(void)
{
    printf("%s", works() ? "" : by_hand_failure());
}

/* Names of all functions of the driver. */
static const char *const functions[] = {
#define NAME(field, symbol, parameters) #symbol,
    TN_CUDA_DRIVER_MAP(NAME)
#undef NAME
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };
static bool has_failed[FUNCTIONS];

static void note_failed(const char *line)
{
    for (int i = 0; i < FUNCTIONS; i++) {
        size_t length = strlen(functions[i]);
        if (!strncmp(line, functions[i], length) && line[length] == ':')
            has_failed[i] = true;
    }
}

static void test_all_failed(void)
{
    static const char *const others[] = {
        "cuInit",           "cuDriverGetVersion", "cuGetErrorName",
        "cuGetErrorString", "cuMemGetInfo_v2",    NULL};
    int missing = 0;
    for (int i = 0; i < FUNCTIONS; i++)
        if (!has_failed[i] && !is_one_of(functions[i], others)) {
            note("%s has not failed", functions[i]);
            missing++;
        }
    is_int(missing, 0, "each of the %d functions of driver.h has failed, but "
                       "for five that cannot or are asked after a failure",
           FUNCTIONS);
}

/* Collects the lines with the same error message. */
typedef struct tally {
    const char *text; /* text that such a line contains */
    int count;
} tally;

static void test_error(int error, const char *name)
{
    tally tallies[] = {{"reported", 0},       {"does without", 0},
                       {", works", 0},    {", lost", 0},
                       {"not listed", 0}, {"WITHOUT A WORD", 0},
                       {"LEAVES", 0},     {"WORKS NO MORE", 0},
                       {"the child", 0}};
    const size_t count = sizeof tallies / sizeof *tallies;
    error_given = error;
    for (call = 0;; call++) {
        const char *line = in_child(print_what_happens);
        bool wrong = false;
        if (!*line)
            break;
        note_failed(line);
        for (size_t i = 0; i < count; i++) {
            bool is_so = strstr(line, tallies[i].text) != NULL;
            tallies[i].count += is_so;
            wrong |= is_so && i >= 5;
        }
        if (wrong)
            note("call %ld: %s", call, line);
    }
    for (size_t i = 0; i < 5; i++)
        note("%d of %ld: %s", tallies[i].count, call, tallies[i].text);
    ok(call > 60, "%s: %ld calls fail in turn", name, call);
    is_int(tallies[5].count, 0, "%s: each failure is reported", name);
    is_int(tallies[6].count, 0, "%s: nothing is left behind", name);
    is_int(tallies[7].count, 0, "%s: it works at the next attempt", name);
    is_int(tallies[8].count, 0, "%s: the process lives", name);
    ok(error != LAUNCH_FAILED || tallies[3].count > 50,
       "%s: a lost context stays lost", name);
}

int main(int argc, char **argv)
{
    static char path[4096];
    const char *folder = getenv("TENON_PLUGIN_PATH");
    (void)argc;
    plan_later();
    on_sim(argv);
    setenv("TENON_SIM_DEVICES", "2", 1);
    on_sim_find("sim_fail", &sim_fail);
    on_sim_find("sim_failed", &sim_failed);
    on_sim_find("sim_reports", &sim_reports);
    snprintf(path, sizeof path, "%s/tn_cuda.so", folder ? folder : ".");
    snprintf(by_name_plugin, sizeof by_name_plugin, "cuda");
    if (!by_hand_load(&plugin, &(by_hand_how){.path = path,
                                              .option = by_name_option,
                                              .no_interpreter = true}))
        bail_out("%s", by_hand_failure());
    if (!on_sim_ready(in_child(print_reason)))
        return done_testing();
    is_str(in_child(print_contexts), "as it was, as it was, as it was, ",
           "each call leaves the caller's context current, or none");
    is_str(in_child(print_scratch), "lasts, given back, works",
           "scratch memory lasts until memory is short");
    test_error(OUT_OF_MEMORY, "out of memory");
    test_error(INVALID_VALUE, "invalid value");
    test_error(LAUNCH_FAILED, "launch failed");
    test_all_failed();
    return done_testing();
}
