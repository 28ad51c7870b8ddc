/* Tests the OpenCL plugin except its results: the cache of compiled programs,
 * errors of asynchronous work, two devices, and messages if something is
 * missing. Each scenario runs in a process of its own, whose output is
 * compared. */
#include "ops/outside.h"
#include "plugins/folder.h"
#include "tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <tenon/tenon.h>

static char scratch[512];

/* ---- missing libraries and devices --------------------------------------- */

static void print_open(void)
{
    tn_device *device = tn_device_open("opencl");
    printf("%s", device ? tn_device_name(device) : tn_error());
}

static void print_by_name(void)
{
    tn_device *device = tn_device_open("opencl:no such");
    printf("%s", device ? tn_device_name(device) : tn_error());
}

static void print_auto(void)
{
    tn_device *device = tn_device_open("auto");
    printf("%s", device ? tn_device_name(device) : tn_error());
}

static void print_report(void)
{
    const char *report = tn_load_report();
    const char *line = report ? strstr(report, "\nopencl: ") : NULL;
    if (line && (line = strstr(line + 9, ": ")))
        printf("%.*s", (int)strcspn(line + 2, "\n"), line + 2);
}

static void test_missing(void)
{
    char path[600];
    snprintf(path, sizeof path, "%s/none/", scratch);
    mkdir(path, 0700);
    setenv("OCL_ICD_VENDORS", path, 1);
    is_str(in_child(print_open),
           "device_open: opencl: no OpenCL driver is installed "
           "(CL_PLATFORM_NOT_FOUND_KHR)",
           "a machine without drivers says so");
    const char *build = getenv("top_builddir");
    snprintf(path, sizeof path, "%s/.libs/crashing_icd.so", build);
    setenv("OCL_ICD_VENDORS", path, 1);
    is_str(in_child(print_report),
           "crashed while probing (signal 6); remedy: remove it, or tell its "
           "author: a plugin reports errors, it never prints or ends the "
           "process",
           "a driver that aborts is a line of the report");
    unsetenv("OCL_ICD_VENDORS");
    setenv("POCL_DEVICES", "nonsense", 1);
    ok(strstr(in_child(print_open), "opencl: "), "no device: %s",
       in_child(print_open));
    setenv("POCL_DEVICES", "basic basic", 1);
    ok(strstr(in_child(print_by_name),
              "opencl: no device is called \"no such\"; there are: opencl:0 "),
       "an unknown name lists the devices");
    is_str(in_child(print_auto), "cpu:0",
           "auto does not take an OpenCL device that is a CPU");
}

/* ---- cache of compiled programs ------------------------------------------ */

/* Runs two programs and prints how many were compiled. */
static void print_compiled(void)
{
    tn_device_set(tn_device_open("opencl"));
    tn_tensor *x = tn_arange(0.0, 5.0, 1.0);
    double a = tn_item(tn_sum(tn_exp(x))), b = tn_item(tn_mean(x));
    if (tn_error())
        printf("%s", tn_error());
    else
        printf("%.3f %.1f %s", a, b,
               tn_programs_compiled() ? "compiled" : "read");
}

static int each_entry(const char *folder, bool spoil)
{
    DIR *list = opendir(folder);
    struct dirent *entry;
    int count = 0;
    while (list && (entry = readdir(list))) {
        char path[1024];
        if (entry->d_name[0] == '.')
            continue;
        count++;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        int fd = spoil ? open(path, O_WRONLY) : -1;
        if (fd >= 0 && pwrite(fd, "spoilt", 6, 3000) != 6)
            bail_out("pwrite");
        if (fd >= 0)
            close(fd);
    }
    if (list)
        closedir(list);
    return count;
}

static void test_cache(void)
{
    char folder[600];
    snprintf(folder, sizeof folder, "%s/cache", scratch);
    setenv("TENON_CACHE_DIR", folder, 1);
    is_str(in_child(print_compiled), "85.791 2.0 compiled",
           "the first process compiles");
    int kept = each_entry(folder, false);
    ok(kept > 0, "and caches %d programs", kept);
    is_str(in_child(print_compiled), "85.791 2.0 read",
           "the second compiles none");
    each_entry(folder, true);
    is_str(in_child(print_compiled), "85.791 2.0 compiled",
           "damaged entries are compiled again");
    is_str(in_child(print_compiled), "85.791 2.0 read", "once");
    setenv("TENON_OPENCL_OPTIONS", "-DUNUSED=1", 1);
    is_str(in_child(print_compiled), "85.791 2.0 compiled",
           "other options are other programs");
    setenv("TENON_OPENCL_OPTIONS", "-Dint=)", 1);
    const char *text = in_child(print_compiled);
    ok(strstr(text, "CL_BUILD_PROGRAM_FAILURE") && strstr(text, "error:") &&
           strstr(text, "the compiler's output are in "),
       "a failed build: %.200s", text);
    const char *path = strstr(text, "are in ");
    FILE *file = path ? fopen(path + 7, "r") : NULL;
    char line[4096];
    bool has_text = false, has_log = false;
    while (file && fgets(line, sizeof line, file)) {
        has_text |= strstr(line, "kernel") != NULL;
        has_log |= strstr(line, "error:") != NULL;
    }
    ok(has_text && has_log, "leaves the program and the log in a file");
    if (file) {
        fclose(file);
        unlink(path + 7);
    }
    unsetenv("TENON_OPENCL_OPTIONS");
    setenv("TENON_CACHE_DIR", "off", 1);
    is_str(in_child(print_compiled), "85.791 2.0 compiled",
           "without a cache every process compiles");
}

/* Starts several processes at once with empty caches, including the driver's:
 * one of them compiles each program, and none reads a file that another has
 * written only in part. (PoCL before 6.0 fails here, or stores a binary that
 * crashes every process that reads it.) */
static int compile_some(int number)
{
    static tn_tensor *(*const each[])(tn_tensor *) = {
        tn_exp, tn_sin, tn_cos, tn_tanh, tn_log, tn_sqrt};
    tn_device_set(tn_device_open(number % 2 ? "opencl:1" : "opencl:0"));
    tn_tensor *x = tn_ones(tn_dims(5));
    double sum = 0;
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        sum += tn_item(tn_sum(each[i](x)));
    bool right = sum > 29.308 && sum < 29.309;
    if (tn_error() || !right)
        fprintf(stderr, "# process %d: %f: %s\n", number, sum,
                tn_error() ? tn_error() : "");
    return tn_error() || !right ? -1 : (int)tn_programs_compiled();
}

static void test_processes(void)
{
    enum { PROCESSES = 6 };
    char folder[600], driver[600];
    snprintf(folder, sizeof folder, "%s/shared", scratch);
    snprintf(driver, sizeof driver, "%s/driver", scratch);
    mkdir(driver, 0700);
    setenv("TENON_CACHE_DIR", folder, 1);
    setenv("POCL_CACHE_DIR", driver, 1);
    pid_t pid[PROCESSES];
    int fd[2], compiled = 0, good = 0;
    if (pipe(fd))
        bail_out("pipe");
    fflush(stdout);
    for (int p = 0; p < PROCESSES; p++) {
        if ((pid[p] = fork()) < 0)
            bail_out("fork");
        if (!pid[p]) {
            int count = compile_some(p);
            _exit(count < 0 ||
                  write(fd[1], &count, sizeof count) != sizeof count);
        }
    }
    close(fd[1]);
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        waitpid(pid[p], &status, 0);
        good += !status;
        if (WIFSIGNALED(status))
            note("process %d ended by signal %d", p, WTERMSIG(status));
    }
    for (int count; read(fd[0], &count, sizeof count) == sizeof count;)
        compiled += count;
    close(fd[0]);
    is_int(good, PROCESSES, "processes at once with empty caches succeed");
    is_int(compiled, each_entry(folder, false),
           "each program is compiled by one of them");
    unsetenv("POCL_CACHE_DIR");
}

/* ---- failures ------------------------------------------------------------ */

/* Causes an index out of range, followed by two operators. */
static void print_fault(void)
{
    tn_device_set(tn_device_open("opencl"));
    const int64_t index[] = {1, 4, 9};
    tn_tensor *table = tn_ones(tn_dims(4, 2));
    tn_tensor *at = tn_tensor_from_array(index, TN_I64, tn_dims(3));
    tn_tensor *rows = tn_embedding(at, table);
    bool late = !tn_error();
    tn_tensor *more = tn_exp(tn_add(rows, rows));
    tn_device_synchronize(NULL);
    printf("%s|%s", late ? "late" : "at once",
           tn_error() ? tn_error() : "no error");
    tn_error_clear();
    (void)more;
    printf("|%.0f", tn_item(tn_sum(table)));
}

static void print_late(void)
{
    late_print("opencl");
}

/* Requests more memory than one buffer may have. */
static void print_memory(void)
{
    tn_device *device = tn_device_open("opencl");
    tn_device_set(device);
    tn_empty(tn_dims((int64_t)1 << 46));
    printf("%.*s", 70, tn_error() ? tn_error() : "no error");
    tn_error_clear();
    printf("|%.0f", tn_item(tn_sum(tn_ones(tn_dims(3)))));
}

/* Runs two epochs; one field of each batch is kept. */
static double sum_of_batches(tn_device *device)
{
    double sum = 0;
    tn_tensor *x = tn_reshape(tn_arange(0.0, 4000.0, 1.0), tn_dims(40, 100));
    tn_tensor *y = tn_arange(0.0, 40.0, 1.0);
    tn_loader *loader =
        tn_loader_new(tn_dataset_from_tensors(x, y), .batch_size = 7,
                      .shuffle = true, .seed = 3, .workers = 2,
                      .device = device);
    tn_tensor *kept[12];
    int count = 0;
    for (int epoch = 0; epoch < 2; epoch++)
        TN_EACH_BATCH(batch, loader) {
            sum = 0.5 * sum + tn_item(tn_sum(tn_sin(batch.x)));
            kept[count] = tn_keep(batch.y);
            count++;
        }
    for (int i = 0; i < count; i++) {
        sum = 0.5 * sum + tn_item(tn_sum(kept[i]));
        tn_drop(kept[i]);
    }
    tn_drop(loader);
    return tn_error() ? -1 : sum;
}

static void print_batches(void)
{
    double want = sum_of_batches(tn_device_open("cpu"));
    double got = sum_of_batches(tn_device_open("opencl"));
    printf("%s: %.9g %.9g %s", want == got ? "the same" : "other", want, got,
           tn_error() ? tn_error() : "");
}

/* Runs the work of one of three independent threads. Returns NULL if the
 * results are right. */
static void *work_alone(void *device)
{
    tn_device_set(device);
    bool right = true;
    for (int i = 0; i < 200; i++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *x = tn_ones(tn_dims(1000 + 100 * i));
        right &= tn_item(tn_sum(tn_add(x, x))) == 2 * (1000 + 100 * i);
        tn_scope_close(scope);
    }
    return right && !tn_error() ? NULL : "wrong";
}

static void print_threads(void)
{
    tn_device *device = tn_device_open("opencl");
    pthread_t threads[3];
    int good = 0;
    for (int i = 0; i < 3; i++)
        if (pthread_create(&threads[i], NULL, work_alone, device))
            bail_out("pthread_create");
    for (int i = 0; i < 3; i++) {
        void *result;
        pthread_join(threads[i], &result);
        good += !result;
    }
    printf("%d", good);
}

static tn_tensor *parents;

static void print_forked_child(void)
{
    tn_exp(parents);
    printf("%s", tn_error());
    tn_error_clear();
    tn_item(parents);
    printf("; %s", tn_error());
    tn_error_clear();
    printf("; %s", tn_device_open("opencl:1") ? "open" : tn_error());
    tn_error_clear();
    tn_drop(parents);
    tn_device_set(tn_device_open("cpu"));
    printf("; %.0f", tn_item(tn_sum(tn_ones(tn_dims(7)))));
}

static void print_forked(void)
{
    tn_device_set(tn_device_open("opencl:0"));
    parents = tn_keep(tn_ones(tn_dims(1)));
    printf("%s", in_child(print_forked_child));
    printf("; %.0f", tn_item(tn_sum(parents)));
}

static void test_fork(void)
{
    const char *text = in_child(print_forked);
    static const char *const said[] = {
        "exp: opencl:0: ", "; copy to the host: opencl:0: ",
        "; device_open: opencl: the process was forked after OpenCL was "
        "initialised; open devices in the child only, or start it with exec; "
        "7; 1"};
    bool all = true;
    for (int i = 0; i < 3; i++)
        all = all && strstr(text, said[i]);
    ok(all,
       "a child of fork gets an error, and can use the cpu; the parent "
       "continues: %s",
       text);
}

static void test_failures(void)
{
    is_str(in_child(print_fault),
           "late|embedding: input 4 at position (1,) of (3,) is outside [0, 4) "
           "(reported by device_synchronize when it waited for opencl:0)|8",
           "an index fault is told when the queue is waited for, by the "
           "operator's name");
    is_str(in_child(print_late), "all",
           "with argument, value, position, shape and range as it was given");
    setenv("TENON_OPENCL_BLOCKING", "1", 1);
    ok(strstr(in_child(print_fault), "at once|embedding: "),
       "TENON_OPENCL_BLOCKING=1 reports it at once: %s", in_child(print_fault));
    unsetenv("TENON_OPENCL_BLOCKING");
    const char *batches = in_child(print_batches);
    ok(strncmp(batches, "the same: ", 10) == 0,
       "batches that come by memory which the driver maps: %s", batches);
    is_str(in_child(print_threads), "3", "three threads on one device");
    is_str(in_child(print_memory),
           "empty: out of memory on opencl:0: 256.00 TiB requested, 0 bytes in "
           "liv|3",
           "memory that there is not is told, and the device is of use "
           "after it");
}

/* ---- two devices --------------------------------------------------------- */

static void print_two(void)
{
    tn_device *one = tn_device_open("opencl:0");
    tn_device *two = tn_device_open("opencl:1");
    tn_device_set(one);
    tn_tensor *x = tn_arange(0.0, 6.0, 1.0);
    tn_tensor *y = tn_to(x, two);
    printf("%s %s %.0f", tn_device_name(tn_tensor_device(x)),
           tn_device_name(tn_tensor_device(y)),
           tn_item(tn_sum(tn_mul(y, y))));
    tn_add(x, y);
    printf("|%s", tn_error() ? tn_error() : "no error");
}

/* Copies views from the cpu to a device whose memory the cpu cannot access. */
static void print_view(void)
{
    tn_device *device = tn_device_open("opencl");
    tn_device_set(tn_device_open("cpu"));
    tn_tensor *x = tn_reshape(tn_arange(0.0, 6.0, 1.0), tn_dims(2, 3));
    tn_tensor *y = tn_to(tn_transpose(x, 0, 1), device);
    tn_tensor *z = tn_to(tn_transpose(y, 0, 1), tn_device_open("cpu"));
    float values[6] = {0};
    tn_tensor_to_array(y, values, sizeof values);
    for (int i = 0; i < 6; i++)
        printf("%.0f ", values[i]);
    printf("%.0f %s", tn_item(tn_sum(tn_sub(z, x))),
           tn_error() ? tn_error() : "");
}

static void test_two(void)
{
    const char *text = in_child(print_two);
    ok(!strncmp(text, "opencl:0 opencl:1 55|add: ", 26) &&
           strstr(text, "opencl:0") && strstr(text, "opencl:1") &&
           strstr(text, "tn_to"),
       "tensors of two devices: %s", text);
    is_str(in_child(print_view), "0 3 1 4 2 5 0 ",
           "views travel to the device and back");
}

/* ---- measured work-group sizes ------------------------------------------- */

static int measured; /* number of kinds of launches that were measured, from the
                      * log */

static void listen(int level, const char *line, void *context)
{
    (void)level, (void)context;
    measured += strstr(line, "measured launches") != NULL;
}

/* Computes elements and rows, enough to be measured. x + x in place is not
 * repeated, so it is not measured. */
static void print_tuned(void)
{
    tn_device_set(tn_device_open(getenv("TENON_TEST_DEVICE")));
    tn_tensor *x = tn_arange(0.0, 1 << 20, 1.0);
    tn_tensor *y = tn_sin(x);
    tn_add_(y, y);
    tn_tensor *z = tn_sum(tn_reshape(y, tn_dims(1024, 1024)), .dim = 1);
    printf("%.9g %.9g", tn_item(tn_max(y)), tn_item(tn_max(z)));
    if (tn_error())
        printf(" %s", tn_error());
    printf(", %d measured", measured);
}

static void test_tune(void)
{
    char folder[600], want[2][80];
    snprintf(folder, sizeof folder, "%s/tuned", scratch);
    setenv("TENON_CACHE_DIR", folder, 1);
    setenv("TENON_TEST_DEVICE", "cpu", 1);
    snprintf(want[0], sizeof want[0], "%s", in_child(print_tuned));
    snprintf(want[1], sizeof want[1], "%.*s2 measured",
             (int)strcspn(want[0], ",") + 2, want[0]);
    setenv("TENON_TEST_DEVICE", "opencl", 1);
    is_str(in_child(print_tuned), want[0], "nothing is measured on a CPU");
    setenv("TENON_OPENCL_ORDER", "grid", 1);
    setenv("TENON_OPENCL_TUNE", "0", 1);
    is_str(in_child(print_tuned), want[0], "nor with tune=0");
    unsetenv("TENON_OPENCL_TUNE");
    is_str(in_child(print_tuned), want[1],
           "another device measures elements and rows; the bits are the cpu's");
    is_str(in_child(print_tuned), want[0], "once");
    unsetenv("TENON_OPENCL_ORDER");
    unsetenv("TENON_TEST_DEVICE");
}

static void print_available(void)
{
    printf("%s", tn_device_is_available("opencl") ? "yes" : tn_load_report());
}

int main(void)
{
    const char *temporary = getenv("TMPDIR");
    plan_later();
    setenv("TENON_LOG", "3", 1);
    tn_log_set(listen, NULL); /* the same work as in print_tuned; nothing is
                               * logged */
    const char *available = in_child(print_available);
    if (strcmp(available, "yes")) {
        skip(1, "no OpenCL device here");
        note("%s", available);
        return done_testing();
    }
    snprintf(scratch, sizeof scratch, "%s/tenon-opencl.XXXXXX",
             temporary ? temporary : "/tmp");
    if (!mkdtemp(scratch))
        bail_out("mkdtemp");
    test_missing();
    test_fork();
    test_failures();
    test_two();
    test_cache();
    test_processes();
    test_tune();
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    if (system(command))
        bail_out("rm");
    return done_testing();
}
