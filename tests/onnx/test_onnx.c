/* test_onnx.c: tests ONNX models as modules: descriptions, runs, names of
 * parameters, gradients, control flow, shape arithmetic. */
#include <onnx/scratch.h>
#include <tenon/io.h>
#include <tenon/onnx.h>
#include <tenon/tenon.h>

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

/* Opens a model with a Loop node. Each of its n iterations computes s = s + x;
 * the model returns the s of every iteration. */
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

/* ---- functions ----------------------------------------------------------- */

/* leaky(x) = LeakyRelu(x, alpha = slope), slope 0.5 by default;
 * twice(a, b) = leaky(leaky(a)) + (b or 1 constant); and y = twice(x). */
static tn_module *open_functions(bool with_slope, bool with_b)
{
    static const float ones[] = {1, 2};
    message model = {0}, graph = {0}, def = {0};
    message leaky = make_function("leaky", "x", "y", 16);
    message node = make_node("LeakyRelu", "x", "y");
    attr_reference(&node, "alpha", "slope", 1);
    put_message(&leaky, FUNCTION_NODE, &node);
    put_text(&def, 1, "slope");
    put_float(&def, 2, 0.5f);
    put_number(&def, 20, 1);
    put_message(&leaky, 11, &def);
    put_message(&model, MODEL_FUNCTION, &leaky);

    message twice = make_function("twice", "a b", "y", 17);
    node = make_call("leaky", "a", "t");
    attr_reference(&node, "slope", "slope", 1);
    put_message(&twice, FUNCTION_NODE, &node);
    node = make_call("leaky", "t", "u");
    put_message(&twice, FUNCTION_NODE, &node);
    node = make_node("Constant", "", "one");
    message value = make_tensor("", 1, 1, (int64_t[]){2}, ones, sizeof ones);
    message a = {0};
    put_text(&a, 1, "value");
    put_message(&a, 5, &value);
    put_number(&a, 20, 4);
    put_message(&node, 5, &a);
    put_message(&twice, FUNCTION_NODE, &node);
    /* Clip without its optional input: the call may leave b out */
    node = make_node("Clip", "u b", "v");
    put_message(&twice, FUNCTION_NODE, &node);
    node = make_node("Add", "v one", "y");
    put_message(&twice, FUNCTION_NODE, &node);
    put_message(&model, MODEL_FUNCTION, &twice);

    add_value(&graph, GRAPH_INPUT, "x", 1, 1, (int64_t[]){2});
    add_value(&graph, GRAPH_INPUT, "low", 1, 0, NULL);
    /* two calls: the names within the function do not clash */
    node = make_call("twice", with_b ? "x low" : "x", "t");
    if (with_slope) {
        message slope = {0};
        put_text(&slope, 1, "slope");
        put_float(&slope, 2, 0.25f);
        put_number(&slope, 20, 1);
        put_message(&node, 5, &slope);
    }
    put_message(&graph, GRAPH_NODE, &node);
    node = make_call("twice", "t", "y");
    put_message(&graph, GRAPH_NODE, &node);
    add_value(&graph, GRAPH_OUTPUT, "y", 1, 1, (int64_t[]){2});
    message own = {0};
    put_text(&own, 1, "own");
    put_number(&own, 2, 1);
    put_message(&model, 8, &own);
    finish_model(&model, &graph, 17);
    save(&model, file("function.onnx"));
    return tn_onnx_open(path, .trainable = true);
}

static void check_functions(void)
{
    static const struct {
        bool slope, low;
        float want[2]; /* for x = -16, 4 */
    } cases[] = {
        /* -16 -> -8 -> -4, + 1 -> -3 -> -0.75, + 1; 4 + 2 + 2 */
        {false, false, {0.25f, 8}},
        /* -16 -> -4 -> -2, + 1 -> -1 -> -0.25, + 1 */
        {true, false, {0.75f, 8}},
        /* the bound -1: -4 -> -1, + 1 -> 0, + 1 */
        {false, true, {1, 8}},
    };
    for (int i = 0; i < 3; i++) {
        tn_module *net = open_functions(cases[i].slope, cases[i].low);
        tn_tensor *x = tn_tensor_from_array((float[]){-16, 4}, TN_F32,
                                            tn_dims(2));
        tn_tensor *in[] = {x, tn_full(TN_SCALAR, -1.0)}, *y = NULL;
        float got[2] = {0};
        ok(tn_onnx_run(net, in, 2, &y, 1) == TN_OK &&
               tn_tensor_to_array(y, got, sizeof got) == TN_OK &&
               got[0] == cases[i].want[0] && got[1] == cases[i].want[1],
           "functions %s a slope, %s a bound: %g %g",
           cases[i].slope ? "with" : "without",
           cases[i].low ? "with" : "without", (double)got[0], (double)got[1]);
        if (tn_error())
            note("%s", tn_error());
        is_int(tn_parameters_count(tn_parameters(net)), 0,
               "constants of functions are no parameters");
    }
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

/* A write to a mapped weight of 2 MB changes the memory, not the file. */
static void check_mapped(void)
{
    static float w[1 << 19];
    static const int64_t shape[] = {1 << 19};
    for (int skew = 0; skew < 4; skew++) { /* one of them is aligned */
        message model = {0}, graph = {0};
        char name[8] = "weight";
        name[3 + skew] = '\0';
        for (int i = 0; i < 1 << 19; i++)
            w[i] = (float)(i % 1000);
        add_tensor(&graph, name, 1, 1, shape, w, sizeof w);
        add_value(&graph, GRAPH_INPUT, "x", 1, 1, shape);
        message node = {0};
        put_text(&node, 1, "x");
        put_text(&node, 1, name);
        put_text(&node, 2, "y");
        put_text(&node, 4, "Mul");
        put_message(&graph, GRAPH_NODE, &node);
        add_value(&graph, GRAPH_OUTPUT, "y", 1, 1, shape);
        finish_model(&model, &graph, 17);
        save(&model, file("mapped.onnx"));
        tn_module *net = tn_onnx_open(path, .trainable = true);
        tn_tensor *x = tn_ones(tn_dims(1 << 19));
        ok(net && tn_item(tn_sum(tn_forward(net, x))) ==
                      tn_item(tn_sum(tn_module_parameter(net, name))),
           "a large weight, at %d", skew);
        tn_backward(tn_sum(tn_forward(net, x)));
        tn_optim *optim = tn_optim_sgd(tn_parameters(net), .lr = 1);
        tn_optim_step(optim);
        ok(tn_item(tn_select(tn_module_parameter(net, name), 0, 5)) == 4,
           "training changes it");
        tn_module *again = tn_onnx_open(path);
        unlink(path);
        ok(tn_item(tn_select(tn_module_parameter(again, name), 0, 5)) == 5,
           "but not the file, which may be removed");
        if (tn_error())
            note("%s", tn_error());
        tn_error_clear();
    }
}

/* A weight that DequantizeLinear makes of integers is computed once. */
static void check_folding(void)
{
    static const int8_t q[] = {1, 2, 3, 4};
    static const float scale[] = {0.5f, 2};
    message model = {0}, graph = {0};
    add_tensor(&graph, "q", 3, 2, weight_shape, q, sizeof q);
    add_tensor(&graph, "s", 1, 1, weight_shape, scale, sizeof scale);
    add_value(&graph, GRAPH_INPUT, "x", 1, 2, matrix);
    message node = make_node("DequantizeLinear", "q s", "w");
    attr_int(&node, "axis", 0);
    put_message(&graph, GRAPH_NODE, &node);
    add_node(&graph, "MatMul", "x w", "y");
    add_value(&graph, GRAPH_OUTPUT, "y", 1, 2, matrix);
    finish_model(&model, &graph, 17);
    save(&model, file("folded.onnx"));
    tn_module *net = tn_onnx_open(path);
    tn_onnx_sizes s = {.size = sizeof s};
    tn_onnx_info(net, &s);
    ok(s.folded_nodes == 1 && s.parameters == 0, "the node is folded");
    is_int(s.constant_bytes, 16, "its inputs are freed");
    ok(HOLDS(tn_forward(net, tn_ones(tn_dims(1, 2))), 6.5, 9), "its result");

    /* the same by Cast and Mul */
    enum { MANY = 2048 };
    static int8_t many[MANY];
    static const int64_t shape[] = {MANY};
    message cast = make_node("Cast", "q", "c");
    for (int i = 0; i < MANY; i++)
        many[i] = 3;
    attr_int(&cast, "to", 1);
    add_tensor(&graph, "q", 3, 1, shape, many, sizeof many);
    add_tensor(&graph, "s", 1, 1, one, scale, 4);
    add_tensor(&graph, "b", 1, 1, one, scale, 4);
    add_value(&graph, GRAPH_INPUT, "x", 1, 1, shape);
    put_message(&graph, GRAPH_NODE, &cast);
    add_node(&graph, "Mul", "c s", "w");
    add_node(&graph, "Add", "x w", "sum");
    add_node(&graph, "Mul", "sum b", "y");
    add_value(&graph, GRAPH_OUTPUT, "y", 1, 1, shape);
    finish_model(&model, &graph, 17);
    save(&model, file("folded.onnx"));
    net = tn_onnx_open(path);
    tn_onnx_info(net, &s);
    ok(s.folded_nodes == 2 && s.parameters == 1,
       "scales of integer weights are constants, others are parameters");
    ok(tn_item(tn_sum(tn_forward(net, tn_ones(tn_dims(MANY))))) ==
           MANY * 1.25,
       "the result");
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
    check_functions();
    check_real();
    check_training();
    check_mapped();
    check_folding();
    static const char *const files[] = {"linear.onnx", "if.onnx", "loop.onnx",
                                        "types.onnx", "t.pb", "shapes.onnx",
                                        "folded.onnx", "function.onnx"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(file(files[i]));
    rmdir(scratch);
    return done_testing();
}
