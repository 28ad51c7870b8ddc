/* test_trace.c: tests the events of operators, gradients, modules and ranges in
 * a trace file, and errors. */
#include <jansson.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "../tap.h"
#include "base/timeline.h"

static char path[64];

/* Returns the events of the file; NULL if it is not valid JSON. The caller
 * releases them. */
static json_t *events(void)
{
    json_error_t error;
    json_t *all = json_load_file(path, 0, &error);
    if (!all)
        note("line %d: %s", error.line, error.text);
    return all;
}

static const char *text(const json_t *event, const char *name)
{
    const json_t *in = json_object_get(event, "args");
    const json_t *value = json_object_get(event, name);
    const char *found = json_string_value(value ? value
                                                : json_object_get(in, name));
    return found ? found : "";
}

static double figure(const json_t *event, const char *name)
{
    const json_t *in = json_object_get(event, "args");
    const json_t *value = json_object_get(event, name);
    return json_number_value(value ? value : json_object_get(in, name));
}

/* Returns the n-th event of this name and category; NULL if there are fewer. */
static json_t *find(const json_t *all, const char *category, const char *name,
                    int n)
{
    size_t i;
    json_t *event;
    json_array_foreach(all, i, event)
        if (strcmp(text(event, "cat"), category) == 0 &&
            strcmp(text(event, "name"), name) == 0 && n-- == 0)
            return event;
    return NULL;
}

static int count_of(const json_t *all, const char *category, const char *name)
{
    int n = 0;
    while (find(all, category, name, n))
        n++;
    return n;
}

static bool within(const json_t *inner, const json_t *outer)
{
    return figure(inner, "ts") >= figure(outer, "ts") &&
           figure(inner, "ts") + figure(inner, "dur") <=
               figure(outer, "ts") + figure(outer, "dur") + 0.002;
}

static void refused(tn_status status, tn_status code, const char *words,
                    const char *name)
{
    ok(status == code && tn_error() && strstr(tn_error(), words), "%s", name);
    note("%s", tn_error() ? tn_error() : "no error");
    tn_error_clear();
}

static void test_mistakes(void)
{
    refused(tn_trace_start(NULL), TN_ERR_ARGUMENT, "path is NULL",
            "a trace needs a path");
    refused(tn_trace_start("/nowhere/at/all.json"), TN_ERR_IO,
            "/nowhere/at/all.json", "a file that cannot be made is named");
    char fifo[80];
    snprintf(fifo, sizeof fifo, "%s.fifo", path);
    alarm(60); /* ends the test if it waits for a reader */
    if (mkfifo(fifo, 0666) < 0)
        bail_out("cannot make %s", fifo);
    refused(tn_trace_start(fifo), TN_ERR_IO, fifo,
            "a FIFO that nobody reads is an error");
    alarm(0);
    unlink(fifo);
    refused(tn_trace_stop(), TN_ERR_STATE, "tn_trace_start",
            "a trace that does not run cannot be stopped");
    is_int(tn_trace_start(path), TN_OK, "a trace starts");
    refused(tn_trace_start(path), TN_ERR_STATE, "tn_trace_stop",
            "and not twice");
    is_int(tn_trace_stop(), TN_OK, "and stops");
    tn_error_set(TN_ERR_ARGUMENT, "something before");
    is_int(tn_trace_start(path), TN_ERR_STATE,
           "none starts while an error is pending");
    tn_error_clear();
    tn_trace_pop();
    ok(!tn_error(), "a pop without a push is nothing");
}

static bool tells_time(void)
{
    return strncmp(tn_device_name(tn_device_current()), "cuda", 4) == 0;
}

static void test_operators(void)
{
    tn_tensor *a = tn_ones(tn_dims(8, 16)), *b = tn_ones(tn_dims(16, 4));
    tn_add(a, a);
    tn_trace_start(path);
    tn_tensor *c = tn_matmul(a, b);
    tn_sum(tn_add(c, tn_ones(tn_dims(1, 4))));
    tn_transpose(a, 0, 1);
    tn_trace_stop();
    tn_add(a, a);

    json_t *all = events();
    const json_t *matmul = find(all, "op", "matmul", 0);
    is_str(text(matmul, "shapes"), "(8, 16) float32, (16, 4) float32",
           "an operator has the shapes of its tensors");
    is_int((int)figure(matmul, "operations"), 2 * 8 * 16 * 4,
           "a product computes 2 m n k operations");
    is_int((int)figure(matmul, "bytes"), 4 * (8 * 16 + 16 * 4 + 8 * 4),
           "and moves its operands");
    /* Compares times only if the device reports its own. */
    const json_t *timed =
        tells_time() ? find(all, "device", "matmul", 0) : matmul;
    ok(json_object_get(json_object_get(timed, "args"), "of_limit"),
       "its percentage of the limit is reported");
    const json_t *add = find(all, "op", "add", 0);
    is_int((int)figure(add, "bytes"), 4 * (32 + 4 + 32),
           "an operand that is broadcast is read once");
    is_int(count_of(all, "op", "add"), 1,
           "events before and after are not in it");
    const json_t *view = find(all, "op", "transpose", 0);
    ok(view && !json_object_get(json_object_get(view, "args"), "calls"),
       "a view has called no device");
    const json_t *head = json_array_get(all, 0);
    is_str(text(head, "device"), tn_device_name(tn_device_current()),
           "the head names the device of the limits");
    ok(figure(head, "bytes_per_second") > 1e6 &&
           figure(head, "operations_per_second") > 1e6,
       "and has them");
    json_decref(all);
}

static void test_training(void)
{
    tn_module *net = tn_nn_sequential(tn_nn_linear(16, 8), tn_nn_relu(),
                                      tn_nn_linear(8, 4));
    tn_optim *opt = tn_optim_sgd(tn_parameters(net), .lr = 0.1);
    tn_tensor *x = tn_ones(tn_dims(5, 16));
    tn_trace_start(path);
    tn_trace_push("step \"1\"\n");
    tn_backward(tn_sum(tn_forward(net, x)));
    tn_optim_step(opt);
    tn_trace_pop();
    tn_trace_stop();

    json_t *all = events();
    const json_t *step = find(all, "range", "step \"1\"\n", 0);
    const json_t *backward = find(all, "range", "backward", 0);
    ok(step, "a range has its name, whatever is in it");
    ok(backward && within(backward, step), "backward is within it");
    ok(find(all, "range", "Linear", 1), "modules are there");
    const json_t *layer = find(all, "op", "linear_activation", 0);
    ok(layer && figure(layer, "calls") <= 2,
       "a layer and its activation are a product and one program");
    is_int(count_of(all, "op", "clone"), 0,
           "gradients of weights have the weights' strides");
    const json_t *gradient = find(all, "backward", "add_relu", 0);
    gradient = gradient ? gradient : find(all, "backward", "linear_relu", 0);
    ok(gradient && within(gradient, backward),
       "and the gradient of each operator");
    is_str(text(gradient, "module"), "0",
           "in the module that the operator ran in");
    is_str(text(find(all, "op", "linear", 0), "module"), "2",
           "as the operators");
    ok(find(all, "range", "optim_step", 0), "and the optimizer's step");
    json_decref(all);
}

static int instructions(const json_t *all, const char *name, int n)
{
    return (int)figure(find(all, "op", name, n), "instructions");
}

static int multiplies(const json_t *all, const char *name, int n)
{
    return (int)figure(find(all, "op", name, n), "multiplies");
}

/* Counts the instructions of programs, each as often as it must run. */
static void test_instructions(void)
{
    tn_tensor *x = tn_ones(tn_dims(8, 16)), *row = tn_ones(tn_dims(16));
    tn_tensor *wide = tn_ones(tn_dims(8, 16), .dtype = TN_F64);
    tn_tensor *whole = tn_ones(tn_dims(8, 16), .dtype = TN_I64);
    tn_op_define("traced_row(x, y) = x * exp(y)");
    tn_op_define("traced_rounds(x) = let (s) = "
                 "loop(k < 9; s = x) (s * x + 1); s");
    tn_op_define("traced_kept(x) = let (s) = "
                 "loop(k < 9; s = x) (s * exp(x)); s");
    tn_op_define("traced_search(x) = let (s) = "
                 "loop(k < 9; s = x) while s < 5: (s * x + 1); s");
    tn_trace_start(path);
    tn_add(x, x);
    tn_mul(x, x);
    tn_add(wide, wide);
    tn_addcmul(x, x, x);
    tn_exp(row);
    tn_exp(x);
    tn_sum(x);
    tn_gcd(whole, whole);
    tn_matmul(x, tn_transpose(x, 0, 1));
    tn_call("traced_row", x, row);
    tn_call("traced_rounds", x);
    tn_call("traced_search", x);
    tn_call("traced_kept", x);
    tn_trace_stop();
    ok(!tn_error(), "all of them run");
    note("%s", tn_error() ? tn_error() : "");
    json_t *all = events();
    is_int(instructions(all, "add", 0), 128, "an addition is one an element");
    is_int(multiplies(all, "add", 0), 0, "and no product");
    is_int(multiplies(all, "mul", 0), 128, "a product is");
    is_int(instructions(all, "add", 1), 256, "of eight bytes it is two");
    int exp_row = instructions(all, "exp", 0);
    ok(exp_row > 16 * 8 && exp_row < 16 * 30,
       "those of functions count, each once (%d)", exp_row / 16);
    is_int(instructions(all, "exp", 1), 8 * exp_row, "for each element");
    ok(multiplies(all, "exp", 0) > 0 && multiplies(all, "exp", 0) < exp_row,
       "some of them multiply");
    is_int(instructions(all, "sum", 0), 128, "a sum adds each");
    is_int(instructions(all, "matmul", 0), 0, "a matrix product has none");
    is_int(instructions(all, "traced_row", 0), 128 + exp_row,
           "an operand that is the same for all rows counts once");
    is_int(instructions(all, "traced_rounds", 0), 9 * 2 * 128,
           "a loop has its rounds");
    is_int(instructions(all, "traced_kept", 0), 9 * 128 + 8 * exp_row,
           "an operand that is the same in each round counts once");
    is_int(instructions(all, "traced_search", 0), 128,
           "a loop that may end early counts its condition only");
    ok(instructions(all, "gcd", 0) < 2 * 128 * 20, "as has gcd's");
    json_decref(all);
}

/* Tests the operations of attention and factorisations on devices that run them
 * in one call. */
static void test_work(void)
{
    const double pairs = 2 * 8 * 8, each = 16 + 16;
    tn_tensor *q = tn_requires_grad(tn_ones(tn_dims(1, 2, 8, 16)));
    tn_trace_start(path);
    tn_tensor *out = tn_scaled_dot_product_attention(q, q, q, NULL);
    tn_backward(tn_sum(out));
    tn_linalg_cholesky(tn_eye(100));
    tn_trace_stop();
    ok(!tn_error(), "attention, its gradient and a factorisation run");
    json_t *all = events();
    const json_t *forward =
        find(all, "op", "scaled_dot_product_attention", 0);
    const json_t *back = find(all, "op", "attention_backward", 0);
    const json_t *factor = find(all, "op", "linalg_cholesky", 0);
    ok(forward && factor, "both are in the trace");
    if (figure(forward, "calls") > 1)
        skip(2, "the device composes attention");
    else {
        is_double_near(figure(forward, "operations"), 2 * pairs * each, 0,
                       "attention is two products of each pair");
        is_double_near(figure(back, "operations"), 5 * pairs * each, 0,
                       "and its gradient five");
    }
    /* On cuda, kernels around the library's factorisation are counted. */
    const bool has_kernels =
        strncmp(tn_device_name(tn_device_current()), "cuda", 4) == 0;
    ok(figure(factor, "operations") <= (has_kernels ? 100 * 100 * 100 / 3 : 0),
       "a factorisation's operations are not counted");
    json_decref(all);
}

/* The device's limits are measured once; the next trace contains the same. */
static void test_limits(void)
{
    double bytes[2];
    for (int i = 0; i < 2; i++) {
        tn_trace_start(path);
        tn_trace_stop();
        json_t *all = events();
        bytes[i] = figure(json_array_get(all, 0), "bytes_per_second");
        json_decref(all);
    }
    ok(bytes[0] > 0 && bytes[0] == bytes[1],
       "a second trace does not measure the limits again");
}

enum { LANE = 10000 }; /* the smallest thread number that a trace uses for a
                        * device */

/* The work of an asynchronous device appears with its times as a separate
 * thread, in the order of the queue; each piece starts after it was
 * submitted. */
static void test_lane(void)
{
    enum { MANY = 600 }; /* more events than the buffer holds */
    tn_tensor *x = tn_ones(tn_dims(8, 16));
    tn_exp(tn_add(x, x));
    tn_trace_start(path);
    tn_trace_push("mine");
    for (int i = 0; i < MANY; i++) {
        tn_scope *scope = tn_scope_open();
        tn_exp(x);
        tn_scope_close(scope);
    }
    tn_trace_pop();
    tn_item(tn_sum(x));
    tn_add(x, x); /* nothing waits for this before the end of the trace */
    tn_trace_stop();
    json_t *all = events(), *event;
    size_t i;
    int pieces = 0, disorder = 0, early = 0, lanes = 0, arrows = 0;
    double end = 0, device_us = 0;
    json_array_foreach(all, i, event) {
        arrows += strcmp(text(event, "cat"), "given") == 0;
        lanes += strcmp(text(event, "ph"), "M") == 0 &&
                 figure(event, "tid") >= LANE &&
                 json_string_value(json_object_get(
                     json_object_get(event, "args"), "name")) &&
                 strncmp(json_string_value(json_object_get(
                             json_object_get(event, "args"), "name")),
                         "cuda:", 5) == 0;
        if (strcmp(text(event, "cat"), "device") != 0)
            continue;
        pieces++;
        disorder += figure(event, "tid") < LANE || figure(event, "dur") < 0 ||
                    figure(event, "ts") < end - 1;
        end = figure(event, "ts") + figure(event, "dur");
        early += figure(event, "ts") < figure(event, "given") - 1;
        device_us += figure(event, "dur");
    }
    if (!tells_time()) {
        is_int(pieces + lanes + arrows, 0,
               "synchronous work has host time only");
        json_decref(all);
        return;
    }
    is_int(count_of(all, "device", "exp"), MANY,
           "each piece of work is in the device's lane");
    is_int(count_of(all, "device", "sum"), 1, "one that was waited for");
    is_int(count_of(all, "device", "add"), 1, "and one at the end");
    is_int(disorder, 0, "one behind the other");
    is_int(early, 0, "and none before it was given");
    is_int(arrows, 2 * pieces, "an arrow goes from the submission to the work");
    is_int(lanes, 1, "the lane has the device's name");
    note("%d pieces, %.0f us of the device", pieces, device_us);
    const json_t *op = find(all, "op", "exp", 0);
    ok(figure(op, "operations") > 0 &&
           !json_object_get(json_object_get(op, "args"), "of_limit"),
       "the operator's own time is the host's, held against no limit");
    json_decref(all);
}

/* A second trace contains nothing of the first. */
static void test_lane_again(void)
{
    tn_trace_start(path);
    tn_exp(tn_ones(tn_dims(3)));
    tn_trace_stop();
    tn_exp(tn_ones(tn_dims(3)));
    tn_trace_start(path);
    tn_neg(tn_ones(tn_dims(3)));
    tn_trace_stop();
    json_t *all = events();
    is_int(count_of(all, "device", "exp"), 0, "a new trace has no old work");
    is_int(count_of(all, "device", "neg"), tells_time(), "but its own events");
    json_decref(all);
}

static void test_asked(void)
{
    tn_tensor *a = tn_requires_grad(tn_ones(tn_dims(8, 16)));
    tn_tensor *b = tn_requires_grad(tn_ones(tn_dims(16, 4)));
    tn_tensor *loss = tn_sum(tn_matmul(tn_exp(a), b)), *g;
    tn_trace_start(path);
    is_int(tn_grad(loss, &b, 1, &g), TN_OK, "a gradient for one of two inputs");
    tn_trace_stop();
    json_t *all = events();
    is_int(count_of(all, "op", "matmul"), 1, "is one product");
    is_int(count_of(all, "backward", "exp"), 0,
           "and nothing is done for the other");
    json_decref(all);
}

static void *work(void *unused)
{
    (void)unused;
    for (int i = 0; i < 50; i++) {
        tn_scope *scope = tn_scope_open();
        tn_exp(tn_ones(tn_dims(3)));
        tn_scope_close(scope);
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t thread[4];
    tn_trace_start(path);
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    tn_trace_stop();
    json_t *all = events();
    int seen[5] = {0}, first = 0;
    size_t i;
    json_t *event;
    json_array_foreach(all, i, event)
        if (strcmp(text(event, "name"), "exp") == 0) {
            int id = (int)figure(event, "tid");
            first = first && first < id ? first : id;
        }
    json_array_foreach(all, i, event)
        if (strcmp(text(event, "name"), "exp") == 0) {
            int id = (int)figure(event, "tid") - first;
            seen[id < 0 || id > 4 ? 4 : id]++;
        }
    for (int k = 0; k < 4; k++)
        is_int(seen[k], 50, "thread %d has its own line of 50 events", k);
    json_decref(all);
}

static void test_ranges(void)
{
    tn_trace_push("before");
    tn_trace_start(path);
    for (int i = 0; i < 70; i++)
        tn_trace_push(i == 3 ? NULL : "deep");
    for (int i = 0; i < 70; i++)
        tn_trace_pop();
    tn_trace_pop();
    tn_trace_push("open");
    tn_trace_stop();
    tn_trace_pop();
    json_t *all = events();
    is_int(count_of(all, "range", "deep"), 62,
           "63 ranges fit below the first; one of them has no name");
    is_int(count_of(all, "range", ""), 1, "NULL is the empty name");
    is_int(count_of(all, "range", "before") + count_of(all, "range", "open"),
           0, "ranges that the trace does not hold wholly are left out");
    json_decref(all);
}

static void test_names(void)
{
    static const char *const names[] = {"\xe9t\xe9", "\xc3\xa9t\xc3\xa9",
                                        "\xed\xa0\x80", "\xf0\x9f\x98"};
    static const char *const shown[] = {"?t?", "\xc3\xa9t\xc3\xa9", "???",
                                        "???"};
    char longest[1000];
    for (int i = 0; i < 999; i++)
        longest[i] = i % 2 ? '\xa9' : '\xc3';
    longest[998] = longest[999] = 0;
    tn_trace_start(path);
    for (int i = 0; i < 4; i++) {
        tn_trace_push(names[i]);
        tn_trace_pop();
    }
    tn_trace_push(longest);
    tn_trace_pop();
    tn_trace_stop();
    json_t *all = events();
    is_int((int)json_array_size(all), 6, "whatever names are, it is JSON");
    for (int i = 0; i < 4; i++)
        is_str(text(json_array_get(all, (size_t)i + 1), "name"), shown[i],
               "invalid UTF-8 becomes a question mark (%d)", i);
    json_decref(all);
}

/* Forks a child that uses the cpu: it has none of a driver's threads, and PoCL
 * would wait forever for its threads. */
static pid_t fork_to_cpu(void)
{
    pid_t child = fork();
    if (child == 0)
        tn_device_set(tn_device_open("cpu"));
    return child;
}

static void test_crash(void)
{
    pid_t child = fork_to_cpu();
    if (child == 0) {
        tn_trace_start(path);
        tn_neg(tn_ones(tn_dims(2)));
        _exit(0); /* ends like a crash: nothing is flushed */
    }
    waitpid(child, NULL, 0);
    FILE *file = fopen(path, "r");
    char line[256] = "";
    int lines = 0;
    while (file && fgets(line, sizeof line, file))
        lines++;
    if (file)
        fclose(file);
    ok(lines >= 2, "the events before a crash are in the file");
}

static void test_fork(void)
{
    tn_trace_start(path);
    tn_neg(tn_ones(tn_dims(2)));
    pid_t child = fork_to_cpu();
    if (child == 0) {
        tn_abs(tn_ones(tn_dims(2)));
        _exit(tn_trace_stop() == TN_ERR_STATE ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    is_int(status, 0, "a child has no trace");
    tn_trace_stop();
    json_t *all = events();
    is_int(count_of(all, "op", "neg"), 1, "the parent's is whole");
    is_int(count_of(all, "op", "abs"), 0, "and without the child's events");
    json_decref(all);
}

static bool driver_is_gone;

static void driver_ends(void)
{
    driver_is_gone = true;
}

static void write_rest(void)
{
    _exit(driver_is_gone);
}

/* At exit, a driver that was loaded while a trace ran must still be available
 * when the trace ends. */
static void test_exit(void)
{
    fflush(stdout);
    pid_t child = fork_to_cpu();
    if (child == 0) {
        tn_trace_start(path);
        atexit(driver_ends);
        tn__timeline_before_stop(write_rest);
        exit(2);
    }
    int status = 1;
    waitpid(child, &status, 0);
    is_int(status, 0, "a trace ends before a driver that came after it");
}

int main(void)
{
    plan_later();
    snprintf(path, sizeof path, "test_trace.%ld.json", (long)getpid());
    test_mistakes();
    test_operators();
    test_training();
    test_instructions();
    test_work();
    test_limits();
    test_lane();
    test_lane_again();
    test_asked();
    test_threads();
    test_ranges();
    test_names();
    test_crash();
    test_fork();
    test_exit();
    remove(path);
    return done_testing();
}
