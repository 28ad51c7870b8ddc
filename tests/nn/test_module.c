/* Tests modules: the tree of children, names and files, error messages, and
 * when memory is freed. Also compares some layers with PyTorch. */
#include <math.h>
#include <tenon/tenon.h>
#include "tap.h"
#include <unistd.h>

static void is_error(tn_status code, const char *text, const char *fact)
{
    is_int(tn_error_code(), code, "%s: %s", fact, tn_status_name(code));
    is_str(tn_error(), text, "%s: the message", fact);
    tn_error_clear();
}

/* Sets x to start, start + step, ... */
static void ramp(tn_tensor *x, double start, double step)
{
    float number[256];
    int64_t numel = tn_tensor_numel(x);
    for (int64_t i = 0; i < numel; i++)
        number[i] = (float)(start + step * (double)i);
    TN_NO_GRAD { tn_tensor_set_array(x, number, (size_t)numel * 4); }
}

static tn_tensor *ramped(tn_dims_list shape, double start, double step)
{
    tn_tensor *x = tn_zeros(shape);
    ramp(x, start, step);
    return x;
}

static void is_near(tn_tensor *x, const double *want, int count,
                    const char *fact)
{
    float got[64] = {0};
    if (!ok(x && tn_tensor_numel(x) == count, "%s: %d numbers", fact, count))
        return;
    tn_tensor_to_array(x, got, (size_t)count * sizeof *got);
    for (int i = 0; i < count; i++)
        is_double_near((double)got[i], want[i], 1e-5 + 1e-4 * fabs(want[i]),
                       "%s: element %d", fact, i);
}

/* ---- a custom module class ----------------------------------------------- */

struct net {
    tn_module base;
    tn_module *features, *fc;
    tn_tensor *scale;
};

static tn_tensor *net_forward(tn_module *self, tn_tensor *x)
{
    struct net *net = (struct net *)self;
    x = tn_forward(net->features, x);
    return tn_mul(tn_forward(net->fc, x), net->scale);
}

static int released;
static void net_release(tn_module *self)
{
    (void)self;
    released++;
}

static const tn_module_class net_class = {.size = sizeof net_class,
                                          .name = "Net",
                                          .bytes = sizeof(struct net),
                                          .forward = net_forward,
                                          .release = net_release};

static struct net *make_net(void)
{
    struct net *net = tn_module_new(&net_class);
    net->features = tn_module_add(
        &net->base, "features",
        tn_nn_sequential(tn_nn_linear(4, 3), tn_nn_relu()));
    net->fc =
        tn_module_add(&net->base, "fc", tn_nn_linear(3, 2, .bias = false));
    net->scale =
        tn_module_add_parameter(&net->base, "scale", tn_ones(tn_dims(2)));
    tn_module_add_buffer(&net->base, "steps", tn_zeros(TN_SCALAR));
    return net;
}

static void note_path(tn_module *module, const char *path, void *context)
{
    char *all = context;
    snprintf(all + strlen(all), 200 - strlen(all), "%s:%s ", path,
             module->type->name);
}

static void test_tree(void)
{
    struct net *net = make_net();
    tn_parameter_list *list = tn_parameters(&net->base);
    is_int(tn_parameters_count(list), 4, "four parameters");
    const char *name[] = {"features.0.weight", "features.0.bias", "fc.weight",
                          "scale"};
    for (int i = 0; i < 4; i++)
        is_str(tn_parameters_name(list, i), name[i], "parameter %d by name",
               i);
    ok(tn_parameters_at(list, 3) == net->scale, "a list lends the tensors");
    ok(!tn_parameters_at(list, 4) && !tn_parameters_name(list, -1),
       "NULL outside");
    is_int(tn_module_parameter_count(&net->base), 4 * 3 + 3 + 6 + 2,
           "their elements are counted");
    ok(tn_module_parameter(&net->base, "features.0.bias") ==
           tn_parameters_at(list, 1),
       "a parameter is found by its path");
    ok(tn_module_child(&net->base, "features.1") != NULL, "so is a module");
    ok(tn_module_buffer(&net->base, "steps") != NULL, "so is a buffer");
    char paths[200] = "";
    tn_module_walk(&net->base, note_path, paths);
    is_str(paths,
           ":Net features:Sequential features.0:Linear features.1:ReLU "
           "fc:Linear ",
           "a walk sees parents first");
    tn_module_eval(&net->base);
    ok(!tn_module_child(&net->base, "features.0")->training,
       "tn_module_eval reaches all modules");
    tn_module_train(&net->base, true);
    ok(tn_module_child(&net->base, "features.0")->training, "so does train");

    tn_tensor *y = tn_forward(&net->base, ramped(tn_dims(1, 4), 1, 1));
    tn_backward(tn_sum(y));
    ok(tn_tensor_grad(net->scale) != NULL, "parameters get gradients");
    tn_module_zero_grad(&net->base);
    ok(tn_tensor_grad(net->scale) == NULL, "zero_grad removes the gradients");
    ok(tn_module_to(&net->base, .device = tn_device_current()) == net,
       "a model moves");
    ok(net->scale == tn_module_parameter(&net->base, "scale"),
       "and its tensors stay the same objects");
}

static void test_print(void)
{
    tn_module *net = tn_nn_sequential(
        tn_nn_linear(64, 48), tn_nn_relu(),
        tn_nn_sequential(
            tn_nn_conv2d(3, 16, 3, .padding = 1, .bias = false),
            tn_nn_max_pool2d(2), tn_nn_flatten(), tn_nn_dropout(0.25),
            tn_nn_gelu(), tn_nn_tanh(), tn_nn_sigmoid()));
    char text[2000] = "";
    FILE *file = fmemopen(text, sizeof text, "w");
    is_int(tn_module_print(file, net), TN_OK, "a model prints");
    fclose(file);
    is_str(text,
           "Sequential(\n"
           "  (0): Linear(in_features=64, out_features=48, bias=True)\n"
           "  (1): ReLU()\n"
           "  (2): Sequential(\n"
           "    (0): Conv2d(3, 16, kernel_size=(3, 3), stride=(1, 1), "
           "padding=(1, 1), bias=False)\n"
           "    (1): MaxPool2d(kernel_size=2, stride=2, padding=0, "
           "dilation=1, ceil_mode=False)\n"
           "    (2): Flatten(start_dim=1, end_dim=-1)\n"
           "    (3): Dropout(p=0.25, inplace=False)\n"
           "    (4): GELU(approximate='none')\n"
           "    (5): Tanh()\n"
           "    (6): Sigmoid()\n"
           "  )\n"
           ")\n",
           "as PyTorch prints it");
}

/* ---- ownership ----------------------------------------------------------- */

static void test_ownership(void)
{
    released = 0;
    tn_scope *scope = tn_scope_open();
    struct net *net = tn_keep(make_net());
    tn_scope_close(scope);
    is_int(released, 0, "a kept module outlives its scope");
    ok(tn_forward(&net->base, ramped(tn_dims(2, 4), 0, 1)) != NULL,
       "with all that is in it");
    tn_drop(net);
    is_int(released, 1, "and is freed with the last holder");

    /* Fifty layers with results of a megabyte each: at most two results exist
     * at a time. */
    scope = tn_scope_open();
    tn_module *layer[50];
    for (int i = 0; i < 50; i++)
        layer[i] = tn_nn_tanh();
    tn_module *deep = tn_nn_sequential_with(layer, 50);
    tn_tensor *x = tn_zeros(tn_dims(1 << 18));
    tn_memory_stats stats = {.size = sizeof stats};
    tn_memory(tn_device_current(), &stats);
    int64_t before = stats.allocated_bytes;
    tn_memory_reset_peak(tn_device_current());
    TN_NO_GRAD { tn_forward(deep, x); }
    tn_memory(tn_device_current(), &stats);
    ok(stats.peak_bytes - before <= 3 << 20,
       "fifty layers hold at most three values (%lld bytes)",
       (long long)(stats.peak_bytes - before));
    tn_scope_close(scope);
}

static void test_files(void)
{
    char path[] = "/tmp/tenon-test-module-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0)
        bail_out("no room for a file in /tmp");
    close(fd);
    struct net *net = make_net(), *other = make_net();
    ramp(net->scale, 5, 1);
    is_int(tn_module_save(&net->base, path), TN_OK, "weights are saved");
    is_int(tn_module_load(&other->base, path), TN_OK, "and loaded");
    is_near(other->scale, (double[]){5, 6}, 2, "the same numbers");
    ok(tn_tensor_requires_grad(other->scale), "in the same parameters");
    tn_module *linear = tn_nn_linear(4, 3);
    ok(tn_module_load(linear, path) < 0, "a file for another model is refused");
    ok(strstr(tn_error(), "weight") != NULL, "by name: %s", tn_error());
    tn_error_clear();
    unlink(path);
}

/* ---- errors -------------------------------------------------------------- */

static tn_tensor *forget(tn_module *self, tn_tensor *input)
{
    (void)self, (void)input;
    return NULL;
}

static void test_mistakes(void)
{
    struct net *net = make_net();
    static const tn_module_class silent = {.size = sizeof silent,
                                           .name = "Silent",
                                           .bytes = sizeof(tn_module),
                                           .forward = forget};
    ok(!tn_forward(tn_module_new(&silent), tn_ones(tn_dims(1))),
       "a forward of one's own may fail");
    is_error(TN_ERR_ARGUMENT, "Silent: its forward returned NULL",
             "a forward that gives NULL without an error");
    tn_forward(&net->base, tn_zeros(tn_dims(2, 5)));
    ok(tn_error() && strncmp(tn_error(), "features.0: linear: ", 20) == 0,
       "an error begins with the path of its module: %s", tn_error());
    tn_error_clear();
    ok(!tn_module_add(&net->base, "fc", tn_nn_relu()), "a name is used once");
    is_error(TN_ERR_ARGUMENT, "Net: module_add: \"fc\": the name is taken",
             "a name used twice");
    ok(!tn_module_add(&net->base, "a.b", tn_nn_relu()), "a name has no dots");
    is_error(TN_ERR_ARGUMENT, "Net: module_add: \"a.b\": a name must not "
             "contain a dot",
             "a name with a dot");
    ok(!tn_module_add(net->features, "net", &net->base),
       "no module contains itself");
    is_error(TN_ERR_ARGUMENT,
             "module_add: \"net\" contains the module it is added to",
             "a module in itself");
    ok(!tn_module_parameter(&net->base, "fc.bias"),
       "a missing name is not found");
    is_error(TN_ERR_ARGUMENT, "module_parameter: Net has no \"fc.bias\"",
             "a parameter that is not there");
    ok(!tn_nn_dropout(1.5), "a probability is in [0, 1]");
    is_error(TN_ERR_ARGUMENT,
             "nn_dropout: p is 1.5; expected a probability in [0, 1]",
             "a probability above 1");
    ok(!tn_nn_conv2d(4, 6, 3, .groups = 4), "groups divide the channels");
    is_error(TN_ERR_ARGUMENT,
             "nn_conv2d: 4 in_channels and 6 out_channels do not divide into "
             "4 groups",
             "groups that do not divide");
}

/* ---- layers ------------------------------------------------------------- */

/* Results of torch 2.x for the same inputs and parameters. */
static void test_layers(void)
{
    tn_module *linear = tn_nn_linear(3, 2);
    ramp(tn_module_parameter(linear, "weight"), -0.3, 0.2);
    ramp(tn_module_parameter(linear, "bias"), 1, -2);
    is_near(tn_forward(linear, ramped(tn_dims(2, 3), -1, 0.5)),
            ((double[]){1.35, -1.55, 0.9, 0.7}), 4, "Linear");

    tn_module *conv = tn_nn_conv2d(1, 2, 2, .stride = 2, .padding = 1);
    ramp(tn_module_parameter(conv, "weight"), -0.3, 0.2);
    ramp(tn_module_parameter(conv, "bias"), 1, -2);
    is_near(tn_forward(conv, ramped(tn_dims(1, 1, 3, 3), -1, 0.5)),
            ((double[]){0.7, 0.95, 1.55, 1.7, -2.1, -1.45, 1.55, 6.1}), 8,
            "Conv2d");

    /* Weight and bias are uniform in [-1/sqrt(inputs), 1/sqrt(inputs)). */
    tn_manual_seed(1);
    tn_module *wide = tn_nn_linear(100, 400);
    tn_tensor *weight = tn_module_parameter(wide, "weight");
    double low = tn_item(tn_min(weight)), high = tn_item(tn_max(weight));
    ok(low >= -0.1 && low < -0.0999 && high <= 0.1 && high > 0.0999,
       "weights start within 1/sqrt(100): %g, %g", low, high);
    is_double_near(tn_item(tn_std(weight)), 0.1 / sqrt(3), 5e-4, "evenly");
    tn_manual_seed(1);
    tn_module *twin = tn_nn_linear(100, 400);
    is_double_near(tn_item(tn_max(tn_abs(tn_sub(
                       tn_module_parameter(twin, "weight"), weight)))),
                   0, 0, "a seed gives the same weights");

    tn_module *dropout = tn_nn_dropout(0.5);
    tn_tensor *ones = tn_ones(tn_dims(1000));
    double kept = tn_item(tn_sum(tn_forward(dropout, ones))) / 2;
    ok(kept > 400 && kept < 600, "dropout keeps about half: %g", kept);
    tn_module_eval(dropout);
    ok(tn_item(tn_sum(tn_forward(dropout, ones))) == 1000,
       "and does nothing in eval mode");
}

static void test_bags(void)
{
    const int64_t row[] = {0, 1, 3, 2, 3, 1}, start[] = {0, 3, 5, 6};
    const float scale[] = {2, 3, 1, 1, 1, 5};
    tn_tensor *input = tn_tensor_from_array(row, TN_I64, tn_dims(6));
    tn_tensor *offsets = tn_tensor_from_array(start, TN_I64, tn_dims(4));
    tn_tensor *weights = tn_tensor_from_array(scale, TN_F32, tn_dims(6));
    tn_module *bag = tn_nn_embedding_bag(4, 2, .mode = "sum",
                                         .padding_idx = -3,
                                         .include_last_offset = true);
    tn_tensor *weight = tn_module_parameter(bag, "weight");
    is_double_near(tn_item(tn_sum(tn_abs(tn_select(weight, 0, 1)))), 0, 0,
                   "EmbeddingBag: the row of padding starts as zeros");
    ramp(weight, 1, 1);
    is_near(tn_nn_embedding_bag_forward(bag, input, offsets, weights),
            ((double[]){9, 12, 12, 14, 0, 0}), 6,
            "EmbeddingBag of a list, weighted");
    is_near(tn_forward(bag, tn_reshape(input, tn_dims(3, 2))),
            ((double[]){1, 2, 12, 14, 7, 8}), 6, "EmbeddingBag of rows");
    is_error(tn_nn_embedding_bag(4, 2, .mode = "median") ? 0
                                                         : TN_ERR_ARGUMENT,
             "nn_embedding_bag: mode \"median\" is neither \"mean\" nor "
             "\"sum\" nor \"max\"", "EmbeddingBag of a mode that is none");
    is_error(tn_nn_embedding_bag(4, 2, .padding_idx = 4) ? 0
                                                         : TN_ERR_ARGUMENT,
             "nn_embedding_bag: padding_idx 4 is outside [-4, 4)",
             "EmbeddingBag with padding outside");
    is_error(tn_nn_embedding_bag(0, 2) ? 0 : TN_ERR_ARGUMENT,
             "nn_embedding_bag: num_embeddings 0, embedding_dim 2: expected "
             "positive numbers", "EmbeddingBag of nothing");
    is_error(tn_nn_embedding_bag_forward(tn_nn_linear(3, 2), input, NULL, NULL)
                 ? 0
                 : TN_ERR_ARGUMENT,
             "nn_embedding_bag_forward: the module is a Linear",
             "EmbeddingBag's call of another module");
}

/* ---- hooks and recomputation --------------------------------------------- */

static tn_tensor *doubled(tn_module *module, tn_tensor *input,
                          tn_tensor *output, void *count)
{
    (void)module;
    ++*(int *)count;
    return tn_mul_scalar(output ? output : input, 2);
}

static tn_tensor *refusing(tn_module *module, tn_tensor *input,
                           tn_tensor *output, void *context)
{
    (void)module, (void)input, (void)output, (void)context;
    tn_error_set(TN_ERR_ARGUMENT, "not today");
    return NULL;
}

static void test_hooks(void)
{
    int count = 0;
    tn_module *net = tn_nn_sequential(tn_nn_relu());
    tn_tensor *x = tn_ones(tn_dims(2));
    tn_hook *before =
        tn_module_register_forward_pre_hook(net, doubled, &count);
    tn_module_register_forward_hook(net, doubled, &count);
    is_double_near(tn_item(tn_sum(tn_forward(net, x))), 8, 0,
                   "hooks change inputs and outputs");
    tn_hook_remove(before);
    is_double_near(tn_item(tn_sum(tn_forward(net, x))), 4, 0,
                   "a removed hook does nothing");
    is_int(count, 3, "each ran when it should");
    ok(!tn_module_register_forward_hook(net, NULL, NULL), "a hook is wanted");
    is_str(tn_error(), "register_forward_hook: hook is NULL", "and says so");
    tn_error_clear();
    tn_module_register_forward_hook(tn_module_child(net, "0"), refusing, NULL);
    ok(!tn_forward(net, x), "an error in a hook ends the forward");
    is_str(tn_error(), "0: not today", "with the module's path");
    tn_error_clear();
}

static void test_recompute(void)
{
    tn_tensor *g[2][2], *x = tn_rand(tn_dims(8, 4));
    tn_module *net = tn_nn_sequential(
        tn_nn_linear(4, 16), tn_nn_sequential(tn_nn_linear(16, 16),
                                              tn_nn_tanh(), tn_nn_dropout(0.5)),
        tn_nn_linear(16, 2));
    for (int again = 0; again < 2; again++) {
        tn_module_set_recompute(tn_module_child(net, "1"), again);
        tn_manual_seed(3);
        tn_module_zero_grad(net);
        is_int(tn_backward(tn_sum(tn_square(tn_forward(net, x)))), TN_OK,
               "backward");
        g[again][0] =
            tn_clone(tn_tensor_grad(tn_module_parameter(net, "0.weight")));
        g[again][1] =
            tn_clone(tn_tensor_grad(tn_module_parameter(net, "1.0.weight")));
    }
    ok(tn_item(tn_max(tn_abs(tn_sub(g[0][0], g[1][0])))) == 0,
       "a module that is recomputed gives the same gradients below");
    ok(tn_item(tn_max(tn_abs(tn_sub(g[0][1], g[1][1])))) == 0,
       "and within, dropout included");
}

/* The option is_causal and a causal mask give the same attention, for any
 * lengths. */
static void test_causal(void)
{
    enum { WIDTH = 16 };
    const int64_t length[][2] = {{150, 150}, {5, 9}, {9, 5}, {1, 1}};
    tn_module *m = tn_nn_multihead_attention(WIDTH, 4, .batch_first = true);
    for (int i = 0; i < 4; i++) {
        const int64_t queries = length[i][0], keys = length[i][1];
        tn_tensor *y[2], *gx[2];
        tn_tensor *x = tn_randn(tn_dims(2, queries, WIDTH));
        tn_tensor *k = queries == keys ? x
                                       : tn_randn(tn_dims(2, keys, WIDTH));
        tn_tensor *later = tn_ne_scalar(
            tn_triu(tn_ones(tn_dims(queries, keys)), .diagonal = 1), 0);
        tn_requires_grad(x);
        for (int way = 0; way < 2; way++) {
            y[way] = way ? tn_nn_multihead_attention_forward(
                               m, x, k, k, NULL, .is_causal = true)
                         : tn_nn_multihead_attention_forward(
                               m, x, k, k, NULL, .attn_mask = later);
            tn_grad(tn_sum(tn_square(y[way])), &x, 1, &gx[way]);
        }
        ok(tn_item(tn_allclose(y[0], y[1], .rtol = 1e-5, .atol = 1e-6)) == 1 &&
               tn_item(tn_allclose(gx[0], gx[1], .rtol = 1e-4,
                                   .atol = 1e-6)) == 1,
           "%d queries look at none of %d keys behind them", (int)queries,
           (int)keys);
    }
}

/* The last hidden state is not a view of the output sequence, because a view
 * would keep that memory allocated. */
static void test_states(void)
{
    tn_module *lstm = tn_nn_lstm(2, 3);
    tn_tensor *h = NULL, *c = NULL;
    tn_tensor *out = tn_nn_lstm_forward(lstm, tn_randn(tn_dims(4, 1, 2)), NULL,
                                        NULL, &h, &c);
    double sum = tn_item(tn_sum(tn_abs(h)));
    TN_NO_GRAD {
        tn_mul_scalar_(tn_detach(out), 0);
    }
    ok(out && tn_item(tn_sum(tn_abs(h))) == sum && sum > 0,
       "an LSTM's state does not change when its output is changed in place");
}

static tn_tensor *run_itself(tn_module *module, tn_tensor *x)
{
    return tn_forward(module, x);
}

static const tn_module_class endless_class = {
    .size = sizeof endless_class, .name = "Endless",
    .bytes = sizeof(tn_module), .forward = run_itself};

/* Functions that traverse modules are recursive, so the depth is limited when
 * modules are nested and when they run. */
static void test_nesting(void)
{
    tn_module *inner = tn_nn_relu(), *net = inner;
    int depth = 1;
    for (tn_module *outer; depth < 1000; net = outer, depth++)
        if (!(outer = tn_nn_sequential(net)))
            break;
    is_int(depth, 128, "128 modules lie within each other");
    is_str(tn_error(), "module_add: modules would be nested more than 128 deep", "and no more");
    tn_error_clear();
    ok(tn_forward(net, tn_ones(tn_dims(2))), "nested modules run");
    tn_module *endless = tn_module_new(&endless_class);
    tn_tensor *y = tn_forward(endless, tn_ones(tn_dims(2)));
    is_str(y ? "(a result)" : tn_error(),
           "forward: modules are nested more than 128 deep",
           "a module that runs itself is told so");
    tn_error_clear();
    ok(tn_forward(net, tn_ones(tn_dims(2))), "the next call works");
}

int main(void)
{
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    test_tree();
    test_print();
    test_ownership();
    test_files();
    test_mistakes();
    test_layers();
    test_bags();
    test_causal();
    test_states();
    ok(tn_error() == NULL, "no error is left%s%s", tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    test_hooks();
    test_recompute();
    test_nesting();
    return done_testing();
}
