/* test_hostile.c: opens ONNX files that are truncated, damaged or malicious.
 * Each must give an error, and take little time and memory. */
#include <onnx/scratch.h>
#include <sys/resource.h>
#include <tenon/onnx.h>
#include <tenon/tenon.h>

static const int64_t one[] = {1};

/* Checks that the file is rejected with an error that contains this text. */
static void refused(const char *text, const char *what)
{
    TN_SCOPE(scope) {
        tn_module *net = tn_onnx_open(path);
        const bool fine = !net && tn_error() && strstr(tn_error(), text);
        ok(fine, "%s", what);
        if (!fine)
            note("%s", tn_error() ? tn_error() : "no error");
        tn_error_clear();
    }
}

/* Saves graph as a model and checks that it is rejected. */
static void refused_graph(message *graph, const char *text, const char *what)
{
    message model = {0};
    finish_model(&model, graph, 17);
    save(&model, file("bad.onnx"));
    refused(text, what);
}

/* Makes the model x -> Relu -> y, with an initialiser that is added. */
static void small(message *model)
{
    static const float w[] = {1, 2};
    message graph = {0};
    add_tensor(&graph, "w", 1, 1, (int64_t[]){2}, w, sizeof w);
    add_value(&graph, GRAPH_INPUT, "x", 1, 1, (int64_t[]){-1});
    message node = make_node("Softmax", "x", "s");
    attr_int(&node, "axis", 0);
    put_message(&graph, GRAPH_NODE, &node);
    add_node(&graph, "Add", "s w", "y");
    add_value(&graph, GRAPH_OUTPUT, "y", 1, 1, (int64_t[]){-1});
    finish_model(model, &graph, 17);
}

static void check_truncated(void)
{
    message m = {0};
    small(&m);
    int opened = 0;
    file("cut.onnx");
    for (size_t n = 0; n < m.bytes; n++) {
        save_bytes(m.p, n, path);
        TN_SCOPE(scope) {
            opened += tn_onnx_open(path) != NULL;
            if (!tn_error())
                note("%zu of %zu bytes are a model", n, m.bytes);
            tn_error_clear();
        }
    }
    is_int(opened, 0, "no beginning of a model is one");
    save_bytes(m.p, m.bytes, path);
    tn_module *net = tn_onnx_open(path);
    ok(net != NULL, "all of it is");
    tn_error_clear();
    /* replaces each byte in turn: an error or a model is fine, a crash is
     * not */
    for (size_t i = 0; i < m.bytes; i++)
        for (int bit = 0; bit < 8; bit++) {
            m.p[i] ^= (uint8_t)(1 << bit);
            save_bytes(m.p, m.bytes, path);
            TN_SCOPE(scope) {
                tn_module *odd = tn_onnx_open(path);
                tn_tensor *out = NULL, *x = tn_zeros(tn_dims(2));
                if (odd)
                    tn_onnx_run(odd, &x, 1, &out, 1);
                tn_error_clear();
            }
            m.p[i] ^= (uint8_t)(1 << bit);
        }
    ok(true, "a changed bit anywhere does no harm");
    free(m.p);
    unlink(path);
}

static void check_graphs(void)
{
    message g = {0};
    add_value(&g, GRAPH_INPUT, "x", 1, 1, one);
    add_node(&g, "Add", "x b", "a");
    add_node(&g, "Relu", "a", "b");
    add_value(&g, GRAPH_OUTPUT, "b", 1, 1, one);
    refused_graph(&g, "without cycles", "a cycle is rejected");

    add_value(&g, GRAPH_INPUT, "x", 1, 1, one);
    add_node(&g, "Relu", "x", "x");
    refused_graph(&g, "\"x\": two nodes", "a name that is made twice");

    add_value(&g, GRAPH_INPUT, "x", 1, 1, one);
    add_value(&g, GRAPH_OUTPUT, "y", 1, 1, one);
    refused_graph(&g, "\"y\": no node makes this output", "no output");

    add_value(&g, GRAPH_INPUT, "x", 1, 1, one);
    add_node(&g, "Frobnicate", "x", "y");
    add_value(&g, GRAPH_OUTPUT, "y", 1, 1, one);
    refused_graph(&g, "node \"Frobnicate\" (Frobnicate): the operator is not",
                  "an unknown operator is named");

    message node = make_node("Relu", "x", "y");
    attr_int(&node, "slope", 3);
    add_value(&g, GRAPH_INPUT, "x", 1, 1, one);
    put_message(&g, GRAPH_NODE, &node);
    refused_graph(&g, "attribute \"slope\" is not supported",
                  "an unknown attribute is named");

    node = make_node("Concat", "x x", "y");
    add_value(&g, GRAPH_INPUT, "x", 1, 1, one);
    put_message(&g, GRAPH_NODE, &node);
    refused_graph(&g, "attribute \"axis\" is missing", "a missing attribute");

    add_value(&g, GRAPH_INPUT, "x", 1, 1, one);
    add_node(&g, "Add", "x", "y");
    refused_graph(&g, "1 inputs", "too few inputs");

    add_value(&g, GRAPH_INPUT, "x", 8, 1, one);
    refused_graph(&g, "dtype string (8)", "strings are named");

    /* nested subgraphs */
    message inner = {0};
    for (int i = 0; i < 40; i++) {
        message outer = {0}, other = {0};
        node = make_node("If", "c", "r");
        attr_graph(&node, "then_branch", &inner);
        attr_graph(&node, "else_branch", &other);
        put_message(&outer, GRAPH_NODE, &node);
        inner = outer;
    }
    add_value(&inner, GRAPH_INPUT, "c", 9, 0, one);
    refused_graph(&inner, "nested too deeply", "40 nested subgraphs");
}

/* Adds an import of the domain "own", and calls function f from the graph. */
static void refused_function(message *function, const char *text,
                             const char *what)
{
    message model = {0}, g = {0}, own = {0};
    message node = make_call("f", "x", "y");
    put_message(&model, MODEL_FUNCTION, function);
    put_text(&own, 1, "own");
    put_number(&own, 2, 1);
    put_message(&model, 8, &own);
    add_value(&g, GRAPH_INPUT, "x", 1, 1, one);
    put_message(&g, GRAPH_NODE, &node);
    add_value(&g, GRAPH_OUTPUT, "y", 1, 1, one);
    finish_model(&model, &g, 17);
    save(&model, file("bad.onnx"));
    refused(text, what);
}

static void check_functions(void)
{
    message f = make_function("f", "a", "b", 17);
    message node = make_call("f", "a", "b");
    put_message(&f, FUNCTION_NODE, &node);
    refused_function(&f, "functions call each other too deeply",
                     "a function that calls itself");

    /* ten functions, each of which calls the next one eight times */
    message model = {0}, g = {0}, own = {0};
    for (int i = 0; i < 10; i++) {
        char name[16], next[16], out[16];
        snprintf(name, sizeof name, "f%d", i);
        snprintf(next, sizeof next, "f%d", i + 1);
        f = make_function(name, "a", "b0", 17);
        for (int j = 0; j < 8; j++) {
            snprintf(out, sizeof out, "b%d", j);
            node = i < 9 ? make_call(next, "a", out)
                         : make_node("Relu", "a", out);
            put_message(&f, FUNCTION_NODE, &node);
        }
        put_message(&model, MODEL_FUNCTION, &f);
    }
    put_text(&own, 1, "own");
    put_number(&own, 2, 1);
    put_message(&model, 8, &own);
    add_value(&g, GRAPH_INPUT, "x", 1, 1, one);
    node = make_call("f0", "x", "y");
    put_message(&g, GRAPH_NODE, &node);
    finish_model(&model, &g, 17);
    save(&model, file("bad.onnx"));
    refused("make more than 131072 nodes", "8^10 nodes of functions");

    f = make_function("f", "a", "b", 17);
    node = make_node("Relu", "x", "b");
    put_message(&f, FUNCTION_NODE, &node);
    refused_function(&f, "no earlier node makes input \"x\"",
                     "a function that uses a value of the graph");

    f = make_function("f", "", "b", 17);
    node = make_node("Constant", "", "b");
    put_message(&f, FUNCTION_NODE, &node);
    refused_function(&f, "it has 1 inputs, but its function has only 0",
                     "a call with too many inputs");

    f = make_function("f", "a", "b", 17);
    node = make_node("Relu", "a", "c");
    put_message(&f, FUNCTION_NODE, &node);
    refused_function(&f, "\"b\": no node makes this output of a function",
                     "a function without its output");

    f = make_function("f", "a", "b", 30);
    refused_function(&f, "opset 30 is not supported", "an opset of a function");

    node = make_node("LeakyRelu", "x", "y");
    attr_reference(&node, "alpha", "slope", 1);
    add_value(&g, GRAPH_INPUT, "x", 1, 1, one);
    put_message(&g, GRAPH_NODE, &node);
    refused_graph(&g, "outside of a function",
                  "a reference outside of a function");
}

static void check_tensors(void)
{
    static const struct {
        int ndim;
        int64_t shape[13];
        const char *text, *what;
    } bad[] = {
        {2, {INT64_MAX, 2}, "its size overflows", "a size that overflows"},
        {1, {(int64_t)1 << 40}, "as many elements", "2^40 elements, 8 bytes"},
        {1, {-1}, "its size overflows", "a negative size"},
        {13, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, "12 dimensions",
         "13 dimensions"},
        {1, {3}, "as many elements", "a size that does not fit the data"},
    };
    static const float w[] = {1, 2};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        message g = {0};
        add_tensor(&g, "w", 1, bad[i].ndim, bad[i].shape, w, sizeof w);
        refused_graph(&g, bad[i].text, bad[i].what);
    }
    message g = {0};
    add_tensor(&g, "w", 8, 1, one, NULL, 0);
    refused_graph(&g, "element type string", "strings are named");
    add_tensor(&g, "w", 99, 1, one, NULL, 0);
    refused_graph(&g, "element type unknown (99)", "an unknown type");
    add_tensor(&g, "w", 1, 1, (int64_t[]){(int64_t)1 << 40}, NULL, 0);
    refused_graph(&g, "as many elements", "2^40 elements and no data");
}

static void add_external(message *graph, const char *location,
                         const char *offset, const char *length)
{
    const char *const pairs[][2] = {
        {"location", location}, {"offset", offset}, {"length", length}};
    message t = make_tensor("w", 1, 1, (int64_t[]){2}, NULL, 0);
    for (int i = 0; i < 3; i++) {
        message entry = {0};
        if (!pairs[i][1])
            continue;
        put_text(&entry, 1, pairs[i][0]);
        put_text(&entry, 2, pairs[i][1]);
        put_message(&t, 13, &entry);
    }
    put_number(&t, 14, 1);
    put_message(graph, GRAPH_INITIALIZER, &t);
}

static void check_external(void)
{
    static const float data[] = {1, 2, 3};
    static const char *const outside[] = {"/etc/passwd", "../data", "..", ".",
                                          "a/b", "", "./../data", NULL};
    message g = {0};
    save_bytes((const uint8_t *)data, sizeof data, file("data"));
    for (int i = 0; outside[i]; i++) {
        add_external(&g, outside[i], "0", "8");
        refused_graph(&g, "a file in the folder of the model", outside[i]);
    }
    add_external(&g, NULL, "0", "8");
    refused_graph(&g, "a file in the folder of the model", "no location");
    char link[4096];
    snprintf(link, sizeof link, "%s/link", scratch);
    if (symlink("/etc/passwd", link) == 0) {
        add_external(&g, "link", "0", "8");
        refused_graph(&g, "is a symbolic link", "a link");
        unlink(link);
    }
    static const char *const bad[][2] = {
        {"8", "8"}, {"13", "0"}, {"-4", "8"}, {"x", "8"},
        {"18446744073709551615", "8"}, {"0", "9223372036854775807"},
        {"0", "4"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        add_external(&g, "data", bad[i][0], bad[i][1]);
        refused_graph(&g,
                      "tensor \"w\": ", "an offset or length beyond the end");
    }
    add_external(&g, "none", "0", "8");
    refused_graph(&g, "No such file", "a missing file");
    message model = {0};
    add_external(&g, "data", "4", "8");
    finish_model(&model, &g, 17);
    save(&model, file("good.onnx"));
    tn_module *net = tn_onnx_open(path);
    tn_tensor *w = tn_module_parameter(net, "w");
    ok(w && tn_item(tn_sum(w)) == 5, "data beside the model is read");
    unlink(file("good.onnx"));
    unlink(file("data"));
}

static void check_versions(void)
{
    for (int opset = 5; opset <= 24; opset += 19) {
        message model = {0}, g = {0};
        add_value(&g, GRAPH_INPUT, "x", 1, 1, one);
        finish_model(&model, &g, opset);
        save(&model, file("bad.onnx"));
        refused("7 to 23", "an opset that is not supported");
    }
    save_bytes((const uint8_t *)"hello", 5, file("bad.onnx"));
    refused("not an ONNX model", "another file");
    save_bytes(NULL, 0, file("bad.onnx"));
    refused("no graph", "an empty file");
}

/* Returns the largest number of bytes that the process has had in memory. */
static int64_t resident(void)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    return (int64_t)usage.ru_maxrss * 1024;
}

/* A small file can ask for huge constants. They must not be computed when the
 * file is opened, and must be an error in a run. */
static void check_bombs(void)
{
    static const int64_t huge[] = {(int64_t)1 << 20, (int64_t)1 << 20};
    message model = {0}, g = {0};
    add_tensor(&g, "n", 7, 1, (int64_t[]){2}, huge, sizeof huge);
    add_node(&g, "ConstantOfShape", "n", "y");
    add_value(&g, GRAPH_OUTPUT, "y", 1, -1, one);
    finish_model(&model, &g, 17);
    save(&model, file("bad.onnx"));
    tn_module *net = tn_onnx_open(path);
    tn_tensor *out = NULL;
    ok(net != NULL, "a model with a huge constant is opened at once");
    tn_memory_set_limit(NULL, (int64_t)1 << 30);
    ok(tn_onnx_run(net, NULL, 0, &out, 1) == TN_ERR_MEMORY && tn_error(),
       "its run exceeds the limit of memory");
    tn_error_clear();
    tn_memory_set_limit(NULL, 0);

    /* a border of 10^9 elements */
    static const int64_t pads[] = {0, 1000000000}, two[] = {2};
    message node = make_node("Pad", "x p", "y");
    attr_text(&node, "mode", "reflect");
    add_tensor(&g, "p", 7, 1, two, pads, sizeof pads);
    add_value(&g, GRAPH_INPUT, "x", 1, 1, two);
    put_message(&g, GRAPH_NODE, &node);
    add_value(&g, GRAPH_OUTPUT, "y", 1, -1, one);
    finish_model(&model, &g, 17);
    save(&model, file("bad.onnx"));
    net = tn_onnx_open(path);
    tn_tensor *x = tn_ones(tn_dims(2));
    tn_memory_set_limit(NULL, (int64_t)1 << 30);
    ok(tn_onnx_run(net, &x, 1, &out, 1) == TN_ERR_MEMORY && tn_error(),
       "a list on the host is counted, too");
    tn_error_clear();

    /* 2^25 elements of a cubic Resize, with four taps each */
    static const float scale[] = {16777216.0f};
    node = make_node("Resize", "x - s", "y");
    attr_text(&node, "mode", "cubic");
    add_tensor(&g, "s", 1, 1, one, scale, sizeof scale);
    add_value(&g, GRAPH_INPUT, "x", 1, 1, two);
    put_message(&g, GRAPH_NODE, &node);
    add_value(&g, GRAPH_OUTPUT, "y", 1, -1, one);
    finish_model(&model, &g, 17);
    save(&model, file("bad.onnx"));
    net = tn_onnx_open(path);
    const int64_t before = resident();
    ok(tn_onnx_run(net, &x, 1, &out, 1) == TN_ERR_MEMORY && tn_error(),
       "and so are the taps of a Resize");
    ok(resident() - before < 256 << 20, "which are not made before");
    tn_error_clear();
    tn_memory_set_limit(NULL, 0);
}

int main(void)
{
    plan_later();
    if (!mkdtemp(scratch))
        bail_out("no scratch folder");
    check_truncated();
    check_graphs();
    check_functions();
    check_tensors();
    check_external();
    check_versions();
    check_bombs();
    unlink(file("bad.onnx"));
    rmdir(scratch);
    return done_testing();
}
