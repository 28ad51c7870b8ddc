/* Compatibility between libtenon and plugins of other minor versions, whose
 * structs have more or fewer fields.
 *
 * A child process opens a device and replaces the plugin's functions by
 * wrappers, which copy the structs that the library passes. Each copy ends at
 * an inaccessible page: either after the fields of version 1.0 (as from an
 * older libtenon) or after additional fields of a later version (as from a
 * newer one). Results must equal those without wrappers. TENON_TEST_PLUGIN
 * names the plugin; if unset: cpu and reference. */
#include <dlfcn.h>
#include <sys/mman.h>
#include <tenon/tenon.h>

#include "device/registry.h"
#include "plugins/folder.h"
#include "tap.h"

enum { SAME, OLDER, NEWER, CORES };
static const char *const cores[] = {"this core", "an older core",
                                    "a newer core"};
static int core;

/* LATER: size in bytes of the fields that a later version adds. */
enum { LATER = 64, DIRT = 0xa5, ROOM = 16384 };

static unsigned char *edge; /* start of the inaccessible page, which follows
                             * ROOM bytes */

static unsigned char *edge_make(void)
{
    unsigned char *at = mmap(NULL, ROOM + 4096, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at + ROOM, 4096, PROT_NONE))
        bail_out("no memory");
    return at + ROOM;
}

/* Copies a struct to the end of the accessible memory, with the size that the
 * other version would have. */
static void *placed_at(unsigned char *end, const void *from, uint32_t least,
                       int tail)
{
    uint32_t size = least + (core == NEWER ? LATER : 0);
    unsigned char *at = end - size;
    memset(at, tail, size);
    memcpy(at, from, least);
    memcpy(at, &size, sizeof size);
    return at;
}

/* Copies the arguments of a call: an older core knows the fields of version 1.0,
 * `first` bytes, the others all of `whole` bytes. */
static void *placed(const void *from, uint32_t first, uint32_t whole)
{
    return placed_at(edge, from, core == OLDER ? first : whole, DIRT);
}

/* Returns whether all bytes have this value. */
static bool is_filled(const void *from, uint32_t bytes, int with)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (((const unsigned char *)from)[i] != with)
            return false;
    return true;
}

/* ---- wrappers between library and plugin --------------------------------- */

#define PRIMITIVES(X) X(matmul, MATMUL) X(scatter, SCATTER) X(scan, SCAN)      \
    X(sort, SORT) X(copy, COPY)
#define RUNS(X) X(conv, CONV) X(pool, POOL) X(attention, ATTENTION)            \
    X(product, PRODUCT) X(lapack, LAPACK)                                      \
    X(quantised_product, QUANTISED_PRODUCT)

static tn_plugin real;
static struct {
#define MEMBER(name, NAME) const tn_##name##_extension *name;
    RUNS(MEMBER)
} real_run;

static char seen[256]; /* names of the wrappers that were called, each once */

static void meet(const char *name)
{
    if (!strstr(seen, name))
        strcat(strcat(seen, " "), name);
}

#define PRIMITIVE(name, NAME)                                                  \
    static tn_status between_##name(tn_queue *queue,                           \
                                    const tn_##name##_args *args)              \
    {                                                                          \
        meet(#name);                                                           \
        return real.name(queue, placed(args, TN_##NAME##_ARGS_SIZE_1_0,        \
                                       sizeof *args));                         \
    }
PRIMITIVES(PRIMITIVE)

#define RUN(name, NAME)                                                        \
    static tn_status between_##name(tn_queue *queue,                           \
                                    const tn_##name##_args *args)              \
    {                                                                          \
        meet(#name);                                                           \
        return real_run.name->run(queue,                                       \
                                  placed(args, TN_##NAME##_ARGS_SIZE_1_0,      \
                                         sizeof *args));                       \
    }
RUNS(RUN)

static tn_status between_launch(tn_queue *queue, tn_built *built,
                                const tn_launch *launch)
{
    meet("launch");
    return real.launch(queue, built, placed(launch, TN_LAUNCH_SIZE_1_0,
                                             sizeof *launch));
}

static tn_status between_build(tn_plugin_device *device,
                               const tn_program *program, tn_built **built)
{
    meet("build"); /* the copy is never freed: a program outlives what is built
                    * from it */
    return real.program_build(device,
                              placed_at(edge_make(), program,
                                        TN_PROGRAM_SIZE_1_0, DIRT),
                              built);
}

/* A fault from an older libtenon ends before its last field, and the library
 * must see 0 there. A fault from a newer one has additional fields, which must
 * remain zero. */
static tn_status between_sync(tn_queue *queue, tn_fault *fault)
{
    uint32_t size = core == OLDER ? TN_END(tn_fault, extent)
                                  : TN_FAULT_SIZE_1_0, given;
    unsigned char *at = placed_at(edge, fault, size, 0);
    memcpy(&given, at, sizeof given);
    tn_status status = real.queue_sync(queue, (tn_fault *)(void *)at);
    if (memcmp(at, &given, sizeof given) ||
        !is_filled(at + size, given - size, 0))
        printf("a fault of %u bytes is not as it has to be\n", given);
    memcpy((char *)fault + sizeof size, at + sizeof size, size - sizeof size);
    if (status)
        meet("fault");
    return status;
}

static void stand_between(tn_device *device)
{
    tn_plugin *table = (tn_plugin *)(uintptr_t)device->plugin;
    real = *table;
#define SLOT(name, NAME) table->name = between_##name;
    PRIMITIVES(SLOT)
    table->launch = between_launch;
    table->program_build = between_build;
    table->queue_sync = between_sync;
#define TABLE(name, NAME)                                                      \
    real_run.name = atomic_load(&device->name);                                \
    if (real_run.name) {                                                       \
        static tn_##name##_extension between;                                  \
        between.size = sizeof between;                                         \
        tn_struct_copy(&between, real_run.name);                               \
        between.run = between_##name;                                          \
        atomic_store(&device->name, &between);                                 \
    }
    RUNS(TABLE)
}

/* ---- results ------------------------------------------------------------- */

static tn_tensor *numbers(int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t n = a * b * c * d;
    tn_tensor *x = tn_reshape(tn_arange(0.0, (double)n, 1.0),
                              tn_dims(a, b, c, d));
    return tn_sin(tn_mul_scalar(x, 0.37));
}

static void tell(const char *name, tn_tensor *x)
{
    float value[512];
    int64_t n = x ? tn_tensor_numel(x) : 0;
    printf("%s:", name);
    if (!x || n > 512 ||
        tn_tensor_to_array(tn_to_dtype(x, TN_F32), value,
                           (size_t)n * sizeof *value) < 0)
        printf(" %s", tn_error());
    else
        for (int64_t i = 0; i < n; i++)
            printf(" %a", (double)value[i]);
    printf("\n");
    tn_error_clear();
}

static void tell_fault(const char *name, tn_tensor *x)
{
    if (x)
        tn_device_synchronize(NULL);
    printf("%s: %s\n", name, tn_error() ? tn_error() : "no fault");
    tn_error_clear();
}

static void compute(tn_device *device)
{
    tn_tensor *x = numbers(1, 2, 5, 6), *w = numbers(3, 2, 3, 3);
    tn_tensor *m = tn_reshape(x, tn_dims(10, 6)), *indices;
    tn_tensor *beyond = tn_full(tn_dims(3), 77, .dtype = TN_I64);
    tn_tensor *q = numbers(1, 1, 4, 8), *flat = tn_reshape(x, tn_dims(60));
    tell("launch", tn_add(m, tn_reshape(numbers(1, 1, 1, 6), tn_dims(6))));
    tell("rows", tn_softmax(m, 1));
    tell("matmul", tn_matmul(m, tn_transpose(m, 0, 1)));
    tell("scatter", tn_scatter_add(flat, 0, tn_zeros(tn_dims(60),
                                                     .dtype = TN_I64), flat));
    tell("scan", tn_cumsum(m, 1));
    tell("sort", tn_sort(m, 1, true, &indices));
    tell("conv", tn_conv2d(x, w, NULL));
    tell("pool", tn_max_pool2d(x, tn_dims(2, 2)));
    tell("attention", tn_scaled_dot_product_attention(q, q, q, NULL));
    tn_tensor *many = tn_reshape(numbers(1, 20, 4, 4), tn_dims(20, 4, 4));
    many = tn_matmul(many, tn_transpose(many, 1, 2));
    tell("lapack", tn_linalg_cholesky(tn_add(many, tn_eye(4))));
    tell("product", tn_linear(m, tn_reshape(numbers(1, 1, 4, 6),
                                            tn_dims(4, 6)),
                              tn_reshape(numbers(1, 1, 1, 4), tn_dims(4))));
    tell_fault("load fault", tn_index_select(flat, 0, beyond));
    tell_fault("store fault",
               tn_scatter_add(flat, 0, beyond, tn_ones(tn_dims(3))));
    tn__block *a = tn__block_alloc(device, 64);
    tn__block *b = tn__block_alloc(device, 64);
    char in[64], out[64] = "";
    memset(in, 'x', sizeof in);
    if (tn__device_copy_in(device, a, 0, in, sizeof in) ||
        tn__device_copy(device, b, 0, device, a, 0, sizeof in) ||
        tn__device_copy_out(device, out, b, 0, sizeof out))
        printf("copy: %s\n", tn_error());
    else
        printf("copy: %.64s\n", out);
}

/* Calls a plugin's functions that fill structs, with every size from 0 to that
 * of a later version. */
static void test_infos(const tn_plugin *plugin)
{
    static const uint32_t sizes[] = {
        TN_END(tn_device_info, kind), TN_END(tn_device_info, storage_types),
        TN_END(tn_device_info, uid), TN_DEVICE_INFO_SIZE_1_0,
        TN_DEVICE_INFO_SIZE_1_0 + LATER};
    tn_device_info whole = {.size = sizeof whole};
    plugin->device_info(0, &whole);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t size = sizes[i];
        uint32_t known = size < sizeof whole ? size : sizeof whole;
        unsigned char *at = edge - size;
        memset(at, DIRT, size);
        memcpy(at, &size, sizeof size);
        tn_status status = plugin->device_info(0,
                                               (tn_device_info *)(void *)at);
        whole.size = size;
        /* memory_free changes with time */
        whole.memory_free = 0;
        if (known >= TN_END(tn_device_info, memory_free))
            memset(at + offsetof(tn_device_info, memory_free), 0, 8);
        if (status || memcmp(at, &whole, known) ||
            !is_filled(at + known, size - known, 0))
            printf("a tn_device_info of %u bytes is not filled as it has to "
                   "be\n", size);
    }
}

static const char *wanted;

static void child(void)
{
    tn_log_set(NULL, NULL);
    edge = edge_make();
    tn_device *device = tn_device_open(wanted);
    tn_device_set(device);
    if (!device) {
        printf("%s\n", tn_error());
        return;
    }
    test_infos(device->plugin);
    if (core != SAME)
        stand_between(device);
    compute(device);
    printf("seen%s\n", core == SAME ? "" : seen);
}

/* Removes the last line of the output, which begins with "seen", and returns
 * its rest. */
static char *last_line(char *text)
{
    char *at = strstr(text, "\nseen");
    if (!at)
        return "";
    *at = 0;
    at[strcspn(at + 1, "\n") + 1] = 0;
    return at + 5;
}

static const char *no_option(const char *key)
{
    (void)key; /* the plugin's options are not set here */
    return NULL;
}

/* Loads the plugin with the host table of an older or newer libtenon. The
 * plugin must offer its devices or report why it rejects this host. */
static void child_of_host(void)
{
    tn__plugin plugin = {.path = "none"};
    char path[PATH_MAX];
    const tn_plugin *(*entry)(const tn_host *host);
    const char *folder = getenv("TENON_PLUGIN_PATH");
    snprintf(path, sizeof path, "%s/tn_%s.so", folder ? folder : ".", wanted);
    tn_log_set(NULL, NULL);
    edge = edge_make();
    tn__host_fill(&plugin, 0);
    plugin.host.option = no_option;
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = file ? dlsym(file, "tenon_plugin_v1") : NULL;
    if (!symbol) {
        printf("%s", dlerror());
        return;
    }
    memcpy(&entry, &symbol, sizeof entry);
    const tn_plugin *table =
        entry(placed_at(edge_make(), &plugin.host, TN_HOST_SIZE_1_0, DIRT));
    tn_plugin_device *device;
    tn_queue *queue;
    uint32_t count = 0;
    if (!table) {
        printf("%s", tn_error() ? "refused" : "refused without a reason");
        return;
    }
    if (table->device_count(&count) || !count) {
        printf("no device: %s", tn_error());
        return;
    }
    test_infos(table);
    if (table->device_open(0, &device) || table->queue_open(device, &queue)) {
        printf("%s", tn_error());
        return;
    }
    table->queue_close(queue);
    table->device_close(device);
    printf("opened");
}

static void test_host(const char *name)
{
    wanted = name;
    for (core = OLDER; core < CORES; core++) {
        const char *got = in_child(child_of_host);
        if (!ok(strcmp(got, "opened") == 0 || strcmp(got, "refused") == 0,
                "%s: the host table of %s: %s", name, cores[core], got))
            note("%s", got);
    }
}

static void test_plugin(const char *name)
{
    test_host(name);
    static char want[65536], got[65536];
    wanted = name;
    for (core = SAME; core < CORES; core++) {
        snprintf(got, sizeof got, "%s", in_child(child));
        const char *met = last_line(got);
        if (core == SAME) {
            memcpy(want, got, sizeof want);
            ok(strstr(want, "copy: xxx") && !strstr(want, " bytes "),
               "%s: computes, and fills structs no further than their size",
               name);
            continue;
        }
        if (!ok(strcmp(got, want) == 0 && strstr(got, "copy: xxx"),
                "%s: as before for %s", name, cores[core]))
            note("got %.2000s", got);
        static const char *const must[] = {"launch", "build", "fault",
                                           "matmul", "scatter", "scan",
                                           "sort", "copy"};
        bool all = true;
        for (size_t i = 0; i < sizeof must / sizeof *must; i++)
            all = all && strstr(met, must[i]);
        ok(all, "%s: %s gave it:%s", name, cores[core], met);
    }
}

/* ---- host functions that a plugin calls ---------------------------------- */

/* A program that causes a fault: it reads index 9 of an input of 4 elements. */
static const tn_kernel_ins faulty_ins[] = {
    {.op = TN_K_CONST, .dtype = TN_I64, .level = TN_LEVEL_UNIFORM,
     .a = TN_NONE, .b = TN_NONE, .c = TN_NONE, .imm.i = 9},
    {.op = TN_K_LOAD, .dtype = TN_F32, .level = TN_LEVEL_ELEM, .a = 0,
     .b = TN_NONE, .c = TN_NONE, .imm.i = 0},
    {.op = TN_K_STORE, .dtype = TN_F32, .level = TN_LEVEL_ELEM, .a = 1,
     .b = TN_NONE, .c = TN_NONE, .imm.i = 1}};
static const tn_kernel_operand faulty_operands[] = {
    {TN_F32, TN_OPERAND_READ, TN_LEVEL_ELEM, 1},
    {TN_F32, TN_OPERAND_WRITE, TN_LEVEL_ELEM, 0}};
static const uint32_t faulty_order[] = {0, 1, 2};
static const tn_kernel_stage faulty_stage = {1, 2, 3, 0};
static const tn_program faulty = {
    .size = sizeof faulty, .ins_count = 3, .operand_count = 2,
    .stage_count = 1, .order_count = 3, .uniform_count = 1,
    .ins = faulty_ins, .operand = faulty_operands, .stage = &faulty_stage,
    .order = faulty_order, .key = {1, 2}};
static const int64_t two[] = {2}, one[] = {1}, zero[] = {0}, four[] = {4};
static const tn_launch_operand faulty_at[] = {{NULL, 0, zero, one, four},
                                              {NULL, 0, one, NULL, NULL}};
static const tn_launch faulty_launch = {
    .size = sizeof faulty_launch, .outer_ndim = 1, .extent = two,
    .operand = faulty_at, .tag = 5};

static const tn_fault fault_want = {
    .size = sizeof fault_want, .code = TN_ERR_INDEX, .tag = 5, .operand = 0,
    .dim = 0, .index = 9, .extent = 4, .position = 0};

static const tn_host *host;

static tn_status interpret(tn_fault *fault)
{
    float in[4] = {0}, out[2];
    void *const memory[] = {in, out};
    unsigned char *program = edge_make(), *launch = edge_make();
    return host->interpret(
        placed_at(program, &faulty, TN_PROGRAM_SIZE_1_0, DIRT),
        placed_at(launch, &faulty_launch, TN_LAUNCH_SIZE_1_0, DIRT), memory,
        fault);
}

/* Passes a fault record in the layout that lib/source/fault.cl writes. */
static tn_status fault_read(tn_fault *fault)
{
    struct {
        uint32_t head[2];
        int64_t record[5];
    } found = {{1, 1}, {5, 0, 9, 4, 0}};
    return host->fault_read(&found, 1, fault);
}

static void test_faults(const char *name, tn_status (*fill)(tn_fault *))
{
    static const uint32_t sizes[] = {
        0, TN_END(tn_fault, size), TN_END(tn_fault, code),
        TN_END(tn_fault, tag), TN_END(tn_fault, extent), TN_FAULT_SIZE_1_0,
        TN_FAULT_SIZE_1_0 + LATER};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t size = sizes[i];
        uint32_t known = size < sizeof fault_want ? size : sizeof fault_want;
        /* the field `size` exists even if its value is 0 */
        uint32_t there = size ? size : (uint32_t)sizeof size;
        unsigned char *at = edge - (there + 7) / 8 * 8;
        tn_fault want = fault_want;
        memset(at, 0, (size_t)(edge - at));
        memcpy(at, &size, sizeof size);
        want.size = size;
        tn_status status = fill((tn_fault *)(void *)at);
        ok(status == TN_ERR_INDEX && memcmp(at, &want, known) == 0 &&
               is_filled(at + known, size - known, 0) &&
               is_filled(at + there, (uint32_t)(edge - at) - there, 0),
           "%s fills a fault of %u bytes, and no more", name, size);
    }
    is_int(fill(NULL), TN_ERR_INDEX, "%s: expected none", name);
}

/* Places the printer's arguments and result before the inaccessible page. */
static void test_printer(void)
{
    static const tn_target target = {
        .size = sizeof target, .units = 4, .group_limit = 256,
        .argument_room = 1024, .fault_room = 4096, .local_bytes = 32768};
    static char want[65536];
    uint64_t key[2] = {0};
    unsigned char *places[5];
    for (int i = 0; i < 5; i++)
        places[i] = edge_make();
    for (core = OLDER; core < CORES; core++) {
        static const tn_plan empty;
        static const tn_source no_source;
        tn_target *t = placed_at(places[0], &target, TN_TARGET_SIZE_1_0, DIRT);
        tn_program *p = placed_at(places[1], &faulty, TN_PROGRAM_SIZE_1_0,
                                  DIRT);
        tn_launch *l = placed_at(places[2], &faulty_launch,
                                 TN_LAUNCH_SIZE_1_0, DIRT);
        tn_plan *plan = placed_at(places[3], &empty, TN_PLAN_SIZE_1_0, DIRT);
        tn_source *source = placed_at(places[4], &no_source,
                                      TN_SOURCE_SIZE_1_0, 0);
        uint32_t sizes[] = {plan->size, source->size};
        tn_status status = host->plan_program(t, p, l, plan);
        if (!status)
            status = host->print(t, p, plan, source);
        ok(!status && plan->size == sizes[0] && source->size == sizes[1] &&
               is_filled((char *)plan + TN_PLAN_SIZE_1_0,
                         sizes[0] - TN_PLAN_SIZE_1_0, DIRT) &&
               is_filled((char *)source + TN_SOURCE_SIZE_1_0,
                         sizes[1] - TN_SOURCE_SIZE_1_0, 0),
           "a program is printed for a plugin of %s minor version",
           core == OLDER ? "an older" : "a newer");
        if (core == OLDER) {
            snprintf(want, sizeof want, "%s", source->text);
            memcpy(key, plan->key, sizeof key);
        } else {
            ok(strcmp(want, source->text) == 0 &&
                   memcmp(key, plan->key, sizeof key) == 0,
               "with the same text and key");
        }
        host->print_free(source);
    }
}

static void is_refused(tn_status status, const char *want)
{
    is_int(status, TN_ERR_ARGUMENT, "refused: %s", want);
    is_str(tn_error(), want, "and the error says which size");
    tn_error_clear();
}

static void test_sizes(void)
{
    tn_target target = {0};
    tn_plan plan = {.size = 0};
    tn_sort_args sort = {.size = 8};
    tn_program none = {0};
    tn_source source = {0};
    is_refused(host->plan_program(&target, &faulty, &faulty_launch, &plan),
               "plan_program: tn_target.size is 0; expected at least 32; set "
               "it to sizeof(tn_target)");
    target.size = sizeof target;
    is_refused(host->plan_sort(&target, &sort, &plan),
               "plan_sort: tn_plan.size is 0; expected at least 8520; set it "
               "to sizeof(tn_plan)");
    plan.size = sizeof plan;
    is_refused(host->plan_sort(&target, &sort, &plan),
               "plan_sort: tn_sort_args.size is 8; expected at least 488; set "
               "it to sizeof(tn_sort_args)");
    is_refused(host->print(&target, NULL, &plan, &source),
               "print: tn_source.size is 0; expected at least 32; set it to "
               "sizeof(tn_source)");
    is_refused(host->interpret(&none, &faulty_launch, NULL, NULL),
               "interpret: tn_program.size is 0 and tn_launch.size 48; "
               "expected at least 96 and 48; set them to sizeof(tn_program) "
               "and sizeof(tn_launch)");
}

int main(void)
{
    static tn__plugin plugin = {.path = "none"};
    const char *name = getenv("TENON_TEST_PLUGIN");
    plan_later();
    if (name) {
        test_plugin(name);
        return done_testing();
    }
    test_plugin("reference");
    test_plugin("cpu");
    edge = edge_make();
    tn_manual_seed(1); /* initialises libtenon, whose interpreter and printer
                        * the plugin calls */
    tn__host_fill(&plugin, 0);
    host = &plugin.host;
    for (core = OLDER; core < CORES; core++)
        test_faults("interpret", interpret);
    test_faults("fault_read", fault_read);
    test_printer();
    test_sizes();
    return done_testing();
}
