/* test_onnx.c: tests ONNX models as modules: descriptions, runs, names of
 * parameters, gradients, control flow, shape arithmetic. */
#include <tap.h>

#include <onnx/writer.h>
#include <tenon/io.h>
#include <tenon/onnx.h>
#include <tenon/tenon.h>
#include <unistd.h>

static char scratch[] = "/tmp/tenon-onnx-XXXXXX";
static char path[4096];

static const char *file(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    return path;
}

static bool says(const char *text)
{
    const bool found = tn_error() && strstr(tn_error(), text);
    if (!found)
        note("the error is: %s", tn_error() ? tn_error() : "none");
    tn_error_clear();
    return found;
}

static const int64_t matrix[] = {-1, 2}, weight_shape[] = {2, 2};

/* Opens y = relu(x w + b). The names of its parameters have dots. */
static tn_module *open_linear(bool trainable)
{
    static const float w[] = {1, 2, 3, 4}, b[] = {-1, 1};
    message model = {0}, graph = {0};
    add_tensor(&graph, "layer.0.weight", 1, 2, weight_shape, w, sizeof w);
    add_tensor(&graph, "layer.0.bias", 1, 1, weight_shape, b, sizeof b);
    add_value(&graph, GRAPH_INPUT, "x", 1, 2, matrix);
    add_node(&graph, "MatMul", "x layer.0.weight", "product");
    add_node(&graph, "Add", "product layer.0.bias", "sum");
    add_node(&graph, "Relu", "sum", "y");
    add_value(&graph, GRAPH_OUTPUT, "y", 1, 2, matrix);
    finish_model(&model, &graph, 17);
    save(&model, file("linear.onnx"));
    return tn_onnx_open(path, .trainable = trainable);
}

static void check_module(void)
{
    tn_module *net = open_linear(false);
    tn_onnx_value_info v = {.size = sizeof v};
    tn_onnx_sizes s = {.size = sizeof s};
    is_int(tn_onnx_input_count(net), 1, "one input");
    is_int(tn_onnx_output_count(net), 1, "one output");
    is_int(tn_onnx_input(net, 0, &v), TN_OK, "the input is described");
    is_str(v.name, "x", "its name");
    is_str(v.type, "float32", "its type");
    is_int(v.dtype, TN_F32, "its dtype");
    ok(v.ndim == 2 && v.shape[0] == -1 && v.shape[1] == 2, "its shape");
    is_str(v.dim_name[0], "n", "the name of its dynamic dimension");
    ok(!v.is_optional, "it must be given");
    is_int(tn_onnx_info(net, &s), TN_OK, "the model is described");
    ok(s.opset == 17 && s.nodes == 3 && s.parameters == 6, "opset, nodes and "
       "parameters are counted");
    ok(tn_module_parameter(net, "layer.0.weight") &&
           tn_module_parameter(net, "layer.0.bias"),
       "initialisers are parameters under their names");
    tn_tensor *x = tn_tensor_from_array((float[]){1, 1}, TN_F32, tn_dims(1, 2));
    tn_tensor *y = tn_forward(net, x);
    float got[2] = {0};
    ok(y && tn_tensor_to_array(y, got, sizeof got) == TN_OK && got[0] == 3 &&
           got[1] == 7,
       "tn_forward runs it");
    tn_module *copy = tn_module_clone(net);
    tn_add_scalar_(tn_detach(tn_module_parameter(copy, "layer.0.bias")), 10);
    tn_tensor *z = tn_forward(copy, x);
    ok(tn_item(tn_sum(tn_sub(z, y))) == 20,
       "a clone has parameters of its own");
}

static void check_misuse(void)
{
    tn_module *net = open_linear(false);
    tn_tensor *x = tn_zeros(tn_dims(1, 2)), *out[2] = {NULL};
    tn_tensor *whole = tn_zeros(tn_dims(1, 2), .dtype = TN_I64);
    tn_tensor *wide = tn_zeros(tn_dims(1, 3)), *flat = tn_zeros(tn_dims(2));
    tn_onnx_value_info v = {.size = sizeof v};
    tn_onnx_sizes s = {.size = 4};
    tn_module *other = tn_nn_relu();

    ok(!tn_onnx_open(NULL) && says("onnx_open: path is NULL"), "no path");
    ok(!tn_onnx_open("/none.onnx") && says("No such file"), "no file");
    ok(!tn_onnx_open(scratch) && says("not a regular file"), "a folder");
    ok(!tn_onnx_open(path, .max_iterations = -1) && says("max_iterations"),
       "a negative limit");
    ok(tn_onnx_run(NULL, &x, 1, out, 1) < 0 && says("onnx_run: net is NULL"),
       "no net");
    ok(tn_onnx_run(other, &x, 1, out, 1) < 0 && says("not an ONNX model"),
       "a module of another class");
    ok(tn_onnx_run((tn_module *)x, &x, 1, out, 1) < 0 &&
           says("net is a tensor, not a module"),
       "a tensor in place of a net");
    ok(tn_onnx_run(net, (tn_tensor *[]){(tn_tensor *)other}, 1, out, 1) < 0 &&
           says("not a tensor"),
       "a module in place of an input");
    is_int(tn_onnx_input_count((tn_module *)x), 0, "no inputs of a tensor");
    ok(tn_onnx_run(net, NULL, 1, out, 1) < 0 && says("onnx_run"), "no inputs");
    ok(tn_onnx_run(net, &x, 1, NULL, 1) < 0 && says("onnx_run"), "no outputs");
    ok(tn_onnx_run(net, &x, -1, out, 1) < 0 && says("-1 inputs"),
       "a negative number of inputs");
    ok(tn_onnx_run(net, &x, 2, out, 1) < 0 && says("the model has 1"),
       "too many inputs");
    ok(tn_onnx_run(net, &x, 1, out, 2) < 0 && says("2 outputs"),
       "too many outputs");
    ok(tn_onnx_run(net, &x, 0, out, 1) < 0 && says("\"x\" is missing"),
       "a missing input is named");
    ok(tn_onnx_run(net, &whole, 1, out, 1) < 0 &&
           says("is int64, but the model needs float32"),
       "another dtype");
    ok(tn_onnx_run(net, &wide, 1, out, 1) < 0 &&
           says("has size 3 in dimension 1, but the model needs 2"),
       "another size");
    ok(tn_onnx_run(net, &flat, 1, out, 1) < 0 && says("has 1 dimensions"),
       "another number of dimensions");
    ok(!out[0], "failures leave NULL");
    ok(!tn_forward(net, x, x) && says("the model has 1 inputs"),
       "tn_forward with too many inputs");
    ok(tn_onnx_input(net, 1, &v) == TN_ERR_INDEX && says("onnx_input"),
       "no such input");
    ok(tn_onnx_output(net, -1, &v) == TN_ERR_INDEX && says("onnx_output"),
       "no such output");
    ok(tn_onnx_input(net, 0, NULL) < 0 && says("onnx_input"), "no info");
    ok(tn_onnx_info(net, &s) < 0 && says("size is invalid"), "a wrong size");
    ok(tn_onnx_info(other, &s) < 0 && says("onnx_info"), "not a model");
    ok(tn_onnx_observe(NULL, NULL, NULL) < 0 && says("onnx_observe"), "no net");
    ok(tn_onnx_check(NULL, NULL, NULL) < 0 && says("onnx_check"), "no path");
    ok(!tn_onnx_tensor_load(NULL) && says("onnx_tensor_load"), "no path");
    ok(!tn_onnx_tensor_load("/none.pb") && says("No such file"), "no file");
    tn_onnx_op_info op = {.size = 3};
    ok(!tn_onnx_op(0, NULL) && says("onnx_op"), "no info of an operator");
    ok(!tn_onnx_op(0, &op) && says("size is invalid"), "a wrong size");
    op.size = sizeof op;
    ok(!tn_onnx_op(-1, &op) && !tn_onnx_op(1 << 30, &op) && !tn_error(),
       "no such operator");
    ok(tn_onnx_op(0, &op) && op.name && op.since > 0, "operator 0");
    is_int(tn_onnx_input_count(NULL), 0, "no inputs of NULL");
    is_int(tn_onnx_output_count(other), 0, "no outputs of another module");
    ok(tn_onnx_run(net, &x, 1, out, 1) == TN_OK && out[0],
       "the next call works");
}

static void check_gradients(void)
{
    tn_module *net = open_linear(true);
    tn_tensor *x = tn_tensor_from_array((float[]){1, 1, -3, 0}, TN_F32,
                                        tn_dims(2, 2));
    tn_tensor *loss = tn_sum(tn_forward(net, x));
    float g[4] = {0};
    ok(tn_backward(loss) == TN_OK, "the backward pass runs");
    tn_tensor *weight = tn_module_parameter(net, "layer.0.weight");
    tn_tensor_to_array(tn_tensor_grad(weight), g, sizeof g);
    ok(g[0] == 1 && g[1] == 1 && g[2] == 1 && g[3] == 1,
       "the gradient of the weight is that of the formula");
    tn_module *frozen = open_linear(false);
    ok(!tn_tensor_requires_grad(tn_module_parameter(frozen, "layer.0.weight")),
       "without .trainable nothing requires gradients");
}

/* ---- control flow -------------------------------------------------------- */

static const int64_t one[] = {1};

/* Checks "if (c) y = x + x else y = x * x", where the subgraphs capture x. */
static void check_if(void)
{
    message model = {0}, graph = {0}, yes = {0}, no = {0};
    add_node(&yes, "Add", "x x", "a");
    add_value(&yes, GRAPH_OUTPUT, "a", 1, 1, one);
    add_node(&no, "Mul", "x x", "b");
    add_value(&no, GRAPH_OUTPUT, "b", 1, 1, one);
    message node = make_node("If", "c", "y");
    attr_graph(&node, "then_branch", &yes);
    attr_graph(&node, "else_branch", &no);
    add_value(&graph, GRAPH_INPUT, "c", 9, 0, one);
    add_value(&graph, GRAPH_INPUT, "x", 1, 1, one);
    put_message(&graph, GRAPH_NODE, &node);
    add_value(&graph, GRAPH_OUTPUT, "y", 1, 1, one);
    finish_model(&model, &graph, 17);
    save(&model, file("if.onnx"));
    tn_module *net = tn_onnx_open(path);
    tn_tensor *x = tn_full(tn_dims(1), 3.0), *y = NULL;
    tn_tensor *c = tn_full(TN_SCALAR, true, .dtype = TN_BOOL);
    tn_onnx_run(net, (tn_tensor *[]){c, x}, 2, &y, 1);
    is_double_near(tn_item(y), 6, 0, "If runs its first branch");
    c = tn_full(TN_SCALAR, false, .dtype = TN_BOOL);
    tn_onnx_run(net, (tn_tensor *[]){c, x}, 2, &y, 1);
    is_double_near(tn_item(y), 9, 0, "If runs its second branch");
}

/* Opens a loop that runs s = s + x n times, and returns all s. */
static tn_module *open_loop(int64_t max_iterations)
{
    message model = {0}, graph = {0}, body = {0};
    add_value(&body, GRAPH_INPUT, "i", 7, 0, one);
    add_value(&body, GRAPH_INPUT, "go", 9, 0, one);
    add_value(&body, GRAPH_INPUT, "s", 1, 1, one);
    add_node(&body, "Identity", "go", "go_on");
    add_node(&body, "Add", "s x", "next");
    add_node(&body, "Identity", "next", "copy");
    add_value(&body, GRAPH_OUTPUT, "go_on", 9, 0, one);
    add_value(&body, GRAPH_OUTPUT, "next", 1, 1, one);
    add_value(&body, GRAPH_OUTPUT, "copy", 1, 1, one);
    message node = make_node("Loop", "n - x", "last all");
    attr_graph(&node, "body", &body);
    add_value(&graph, GRAPH_INPUT, "n", 7, 0, one);
    add_value(&graph, GRAPH_INPUT, "x", 1, 1, one);
    put_message(&graph, GRAPH_NODE, &node);
    add_value(&graph, GRAPH_OUTPUT, "last", 1, 1, one);
    add_value(&graph, GRAPH_OUTPUT, "all", 1, -1, one);
    finish_model(&model, &graph, 17);
    save(&model, file("loop.onnx"));
    return tn_onnx_open(path, .max_iterations = max_iterations);
}

static void check_loop(void)
{
    tn_module *net = open_loop(1000);
    tn_tensor *x = tn_full(tn_dims(1), 2.0), *out[2] = {NULL};
    tn_tensor *n = tn_full(TN_SCALAR, 5, .dtype = TN_I64);
    is_int(tn_onnx_run(net, (tn_tensor *[]){n, x}, 2, out, 2), TN_OK,
           "a loop runs");
    is_double_near(tn_item(out[0]), 12, 0, "its state is carried on");
    ok(tn_tensor_ndim(out[1]) == 2 && tn_tensor_size(out[1], 0) == 5,
       "its results are listed");
    n = tn_full(TN_SCALAR, 0, .dtype = TN_I64);
    is_int(tn_onnx_run(net, (tn_tensor *[]){n, x}, 2, out, 2), TN_OK,
           "no iteration at all");
    ok(tn_item(out[0]) == 2 && tn_tensor_size(out[1], 0) == 0,
       "the first state, and an empty list");
    n = tn_full(TN_SCALAR, INT64_MAX, .dtype = TN_I64);
    ok(tn_onnx_run(net, (tn_tensor *[]){n, x}, 2, out, 2) < 0 &&
           says("max_iterations"),
       "a loop without end is stopped");
    ok(!out[0] && !out[1], "and has no results");
}

/* ---- types and shapes ---------------------------------------------------- */

static void check_types(void)
{
    static const int types[] = {4, 12}; /* uint16, uint32 */
    static const tn_dtype dtypes[] = {TN_I32, TN_I64};
    static const int64_t most[] = {65535, 4294967295};
    for (int i = 0; i < 2; i++) {
        message model = {0}, graph = {0};
        add_value(&graph, GRAPH_INPUT, "x", types[i], 1, one);
        add_node(&graph, "Add", "x x", "y");
        add_value(&graph, GRAPH_OUTPUT, "y", types[i], 1, one);
        finish_model(&model, &graph, 17);
        save(&model, file("types.onnx"));
        tn_module *net = tn_onnx_open(path);
        tn_tensor *y = tn_forward(
            net, tn_full(tn_dims(1), most[i], .dtype = dtypes[i]));
        is_int(tn_item_int(y), most[i] - 1, "type %d wraps around", types[i]);
    }
    message t = make_tensor("t", 13, 1, one, "\0\0\0\0\0\0\0\200", 8);
    save(&t, file("t.pb"));
    ok(!tn_onnx_tensor_load(path) && says("above 2^63 - 1"),
       "a uint64 number that int64 lacks is rejected");
    t = make_tensor("t", 21, 1, (int64_t[]){3}, "\x21\x03", 2);
    save(&t, file("t.pb"));
    uint8_t got[3] = {0};
    tn_tensor_to_array(tn_onnx_tensor_load(path), got, 3);
    ok(got[0] == 1 && got[1] == 2 && got[2] == 3, "4-bit numbers are unpacked");
}

static void count_nodes(const tn_onnx_node_info *node,
                        tn_tensor *const *outputs, void *context)
{
    (void)node, (void)outputs;
    ++*(int *)context;
}

/* y = reshape(x, concat(shape(x)[0:1], -1)) */
static void check_shapes(void)
{
    static const int64_t zero[] = {0}, two[] = {1}, rest[] = {-1};
    message model = {0}, graph = {0};
    add_tensor(&graph, "from", 7, 1, one, zero, 8);
    add_tensor(&graph, "to", 7, 1, one, two, 8);
    add_tensor(&graph, "rest", 7, 1, one, rest, 8);
    add_value(&graph, GRAPH_INPUT, "x", 1, 3, (int64_t[]){-1, -1, -1});
    add_node(&graph, "Shape", "x", "shape");
    add_node(&graph, "Slice", "shape from to", "first");
    message node = make_node("Concat", "first rest", "target");
    attr_int(&node, "axis", 0);
    put_message(&graph, GRAPH_NODE, &node);
    add_node(&graph, "Reshape", "x target", "y");
    add_value(&graph, GRAPH_OUTPUT, "y", 1, -1, one);
    finish_model(&model, &graph, 17);
    save(&model, file("shapes.onnx"));
    tn_module *net = tn_onnx_open(path);
    int nodes = 0;
    tn_onnx_observe(net, count_nodes, &nodes);
    for (int i = 0; i < 2; i++) {
        nodes = 0;
        tn_tensor *y = tn_forward(net, tn_zeros(tn_dims(4, 3, 2)));
        ok(tn_tensor_ndim(y) == 2 && tn_tensor_size(y, 1) == 6,
           "the shape is computed");
        is_int(nodes, i ? 1 : 4, "%s", i ? "the second run computes no shape"
                                         : "the first run runs all nodes");
    }
    for (int64_t n = 1; n < 20; n++) { /* more shapes than the library caches */
        tn_tensor *y = tn_forward(net, tn_zeros(tn_dims(n, n, 2)));
        if (tn_tensor_size(y, 1) != 2 * n)
            ok(false, "size %lld", (long long)n);
    }
    ok(!tn_error(), "other shapes have their own results");
}

/* ---- a model of real life ------------------------------------------------ */

static void check_real(void)
{
    static const char *const names[] = {"kaldi_fbank", "ocr_v4_cls",
                                        "silero_vad_seq"};
    const char *folder = getenv("top_srcdir") ? getenv("top_srcdir") : "..";
    for (int i = 0; i < 3; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/tests/onnx/data/%s.onnx", folder,
                 names[i]);
        tn_module *net = tn_onnx_open(name, .trainable = true);
        snprintf(name, sizeof name, "%s/tests/onnx/data/%s.safetensors", folder,
                 names[i]);
        tn_safetensors *golden = tn_safetensors_open(name);
        tn_tensor *in[4] = {NULL}, *out[4] = {NULL};
        const int in_count = tn_onnx_input_count(net);
        tn_onnx_value_info v = {.size = sizeof v};
        for (int j = 0; j < in_count; j++) {
            tn_onnx_input(net, j, &v);
            snprintf(name, sizeof name, "in.%s", v.name);
            in[j] = tn_safetensors_tensor(golden, name);
        }
        tn_onnx_run(net, in, in_count, out, 1);
        tn_onnx_output(net, 0, &v);
        snprintf(name, sizeof name, "out.%s", v.name);
        tn_tensor *want = tn_safetensors_tensor(golden, name);
        const double scale = tn_item(tn_amax(tn_abs(want)));
        const double worst = tn_item(tn_amax(tn_abs(tn_sub(out[0], want))));
        /* the sums have another order; see golden.c */
        ok(worst <= 1e-4 * scale, "%s has the results of ONNX Runtime",
           names[i]);
        if (tn_tensor_requires_grad(out[0]))
            ok(tn_backward(tn_sum(tn_mul(out[0], out[0]))) == TN_OK,
               "%s has gradients", names[i]);
        if (tn_error())
            note("%s", tn_error());
        tn_error_clear();
    }
}

/* Trains for ten steps, until the other class is likely. The model has batch
 * norm, whose running statistics change in training mode. */
static void check_training(void)
{
    const char *folder = getenv("top_srcdir") ? getenv("top_srcdir") : "..";
    char name[4096];
    snprintf(name, sizeof name, "%s/tests/onnx/data/ocr_v4_cls.onnx", folder);
    tn_module *net = tn_onnx_open(name, .trainable = true);
    snprintf(name, sizeof name, "%s/tests/onnx/data/ocr_v4_cls.safetensors",
             folder);
    tn_tensor *x = tn_safetensors_tensor(tn_safetensors_open(name), "in.x");
    x = tn_cat((tn_tensor *[]){x, tn_mul_scalar(x, 0.5)}, 2, 0);
    tn_parameter_list *parameters = tn_parameters(net);
    ok(tn_parameters_count(parameters) > 50, "its weights are parameters");
    tn_optim *optim = tn_optim_sgd(parameters, .lr = 0.01);
    double first = 0, last = 0;
    tn_module_train(net, true);
    for (int i = 0; i < 10; i++)
        TN_SCOPE(step) {
            tn_tensor *likely = tn_forward(net, x);
            tn_tensor *loss = tn_neg(
                tn_mean(tn_log(tn_add_scalar(tn_select(likely, 1, 1), 1e-6))));
            last = tn_item(loss);
            first = i ? first : last;
            tn_optim_zero_grad(optim);
            tn_backward(loss);
            tn_optim_step(optim);
        }
    ok(!tn_error() && last < 0.9 * first, "ten steps reduce the loss");
    note("loss %.4f, then %.4f%s%s", first, last, tn_error() ? ": " : "",
         tn_error() ? tn_error() : "");
    tn_error_clear();
    tn_module_eval(net);
    tn_tensor *a = tn_forward(net, x), *b = tn_forward(net, x);
    ok(tn_item(tn_amax(tn_abs(tn_sub(a, b)))) == 0,
       "in evaluation mode statistics do not change");
}

/* ---- single nodes --------------------------------------------------------- */

/* Runs a node with the inputs a, b, c ... and the output y. */
static tn_tensor *run_node(message *node, int opset, tn_tensor *const *in,
                           int count)
{
    static const char *const name[] = {"a", "b", "c", "d", "e"};
    message model = {0}, graph = {0};
    tn_tensor *y = NULL;
    for (int i = 0; i < count; i++) {
        const tn_dtype dtype = tn_tensor_dtype(in[i]);
        add_value(&graph, GRAPH_INPUT, name[i],
                  dtype == TN_F32 ? 1 : dtype == TN_I32 ? 6 : 7, -1, NULL);
    }
    put_message(&graph, GRAPH_NODE, node);
    add_value(&graph, GRAPH_OUTPUT, "y", 1, -1, NULL);
    finish_model(&model, &graph, opset);
    save(&model, file("node.onnx"));
    tn_module *net = tn_onnx_open(path);
    if (net)
        tn_onnx_run(net, in, count, &y, 1);
    return y;
}

static tn_tensor *ints(int64_t x)
{
    return tn_full(tn_dims(1), x, .dtype = TN_I64);
}

/* Returns whether y has the elements want[]. */
static bool holds(tn_tensor *y, const double *want, int count)
{
    double got[16] = {0};
    bool same = y && tn_tensor_numel(y) == count &&
                tn_tensor_to_array(tn_to_dtype(y, TN_F64), got,
                                   (size_t)count * sizeof *got) == TN_OK;
    for (int i = 0; i < count && same; i++)
        same = got[i] > want[i] - 1e-5 && got[i] < want[i] + 1e-5;
    if (!same)
        note("%s", tn_error() ? tn_error() : "other elements");
    tn_error_clear();
    return same;
}
#define HOLDS(y, ...)                                                          \
    holds(y, (double[]){__VA_ARGS__},                                          \
          (int)(sizeof(double[]){__VA_ARGS__} / sizeof(double)))

/* Tests operators that models rarely use. The expected results are those of
 * ONNX Runtime. */
static void check_nodes(void)
{
    tn_tensor *x = tn_arange(1, 5, 1, .dtype = TN_F32);
    message node = make_node("Slice", "a b c d e", "y");
    tn_tensor *y = run_node(&node, 17,
                            (tn_tensor *[]){x, ints(-9), ints(INT64_MIN), ints(0),
                                            ints(-1)}, 5);
    ok(HOLDS(y, 1), "Slice backwards from in front of the first element");

    node = make_node("Einsum", "a", "y");
    attr_text(&node, "equation", "i->");
    y = run_node(&node, 17, (tn_tensor *[]){tn_to_dtype(x, TN_I32)}, 1);
    ok(y && tn_tensor_dtype(y) == TN_I32, "Einsum of int32 is int32");
    ok(HOLDS(y, 10), "and the sum");

    node = make_node("ReduceSumSquare", "a", "y");
    attr_int(&node, "noop_with_empty_axes", 1);
    y = run_node(&node, 18, &x, 1);
    ok(HOLDS(y, 1, 4, 9, 16), "ReduceSumSquare over no axes squares");

    node = make_node("Resize", "a b", "y");
    y = run_node(&node, 10,
                 (tn_tensor *[]){x, tn_full(tn_dims(1), 0.7, .dtype = TN_F32)},
                 2);
    ok(HOLDS(y, 1, 3), "Resize of opset 10 takes the element above");

    node = make_node("InstanceNormalization", "a b c", "y");
    tn_tensor *two = tn_full(tn_dims(4), 2, .dtype = TN_F32);
    y = run_node(&node, 17,
                 (tn_tensor *[]){tn_reshape(x, tn_dims(1, 4, 1)), two, x}, 3);
    ok(HOLDS(y, 1, 2, 3, 4), "InstanceNormalization of one element is the bias");

    node = make_node("Hardmax", "a", "y");
    y = run_node(&node, 17, (tn_tensor *[]){tn_zeros(tn_dims(2, 0))}, 1);
    ok(y && tn_tensor_numel(y) == 0 && !tn_error(), "Hardmax of nothing");

    node = make_node("Add", "a b c", "y");
    ok(!run_node(&node, 17, (tn_tensor *[]){x, x, x}, 3) &&
           says("takes 2 inputs and at most 1 outputs"),
       "a wrong number of inputs");
    node = make_node("Add", "- a", "y");
    ok(!run_node(&node, 17, &x, 1) && says("input 0 is left out"),
       "an input that is left out");
    node = make_node("ScatterND", "a b c", "y");
    attr_text(&node, "reduction", "max");
    const int64_t place[] = {0, 0, 1, -1}, outside[] = {0, 2};
    tn_tensor *square = tn_reshape(x, tn_dims(2, 2));
    y = run_node(&node, 18,
                 (tn_tensor *[]){square,
                                 tn_tensor_from_array(place, TN_I64,
                                                      tn_dims(2, 2)),
                                 tn_full(tn_dims(2), 3.5, .dtype = TN_F32)},
                 3);
    ok(HOLDS(y, 3.5, 2, 3, 4), "ScatterND of maxima");
    node = make_node("ScatterND", "a b c", "y");
    attr_text(&node, "reduction", "max");
    y = run_node(&node, 18,
                 (tn_tensor *[]){square,
                                 tn_tensor_from_array(outside, TN_I64,
                                                      tn_dims(1, 2)),
                                 tn_full(tn_dims(1), 9, .dtype = TN_F32)},
                 3);
    tn_tensor *sum = tn_error() ? NULL : tn_sum(y);
    ok((!sum || (tn_item(sum), tn_error())) && says("2 at position"),
       "an index that is out of range in its dimension");

    node = make_node("GatherND", "a b", "y");
    ok(!run_node(&node, 17,
                 (tn_tensor *[]){x, tn_zeros(tn_dims(2, 0), .dtype = TN_I64)},
                 2) &&
           says("indices select along 0 dimensions"),
       "indices without elements");

    tn_tensor *cell = tn_ones(tn_dims(1, 1, 1));
    const int32_t lengths[] = {2, -1};
    for (int i = 0; i < 2; i++) {
        node = make_node("RNN", "a b c - d", "y");
        ok(!run_node(&node, 17,
                     (tn_tensor *[]){cell, cell, cell,
                                     tn_tensor_from_array(&lengths[i], TN_I32,
                                                          tn_dims(1))},
                     4) &&
               says("expected 1 from 0 to 1 (the length of X)"),
           "a sequence of %d of 1 steps", lengths[i]);
    }
}

int main(void)
{
    plan_later();
    if (!mkdtemp(scratch))
        bail_out("no scratch folder");
    check_module();
    check_misuse();
    check_gradients();
    check_if();
    check_loop();
    check_types();
    check_shapes();
    check_real();
    check_training();
    check_nodes();
    static const char *const files[] = {"linear.onnx", "if.onnx", "loop.onnx",
                                        "types.onnx", "t.pb", "shapes.onnx",
                                        "node.onnx"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(file(files[i]));
    rmdir(scratch);
    return done_testing();
}
