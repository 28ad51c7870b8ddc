/* Error details (tn_error_info): the operator, its tensors, the running module
 * and the operator that made a tensor, for errors in modules, composite
 * operators and gradients. */
#include <tenon/tenon.h>
#include "tap.h"

static const tn_error_details *info(tn_status code, const char *fact)
{
    const tn_error_details *e = tn_error_info();
    if (ok(e && e->code == code, "%s: %s", fact, tn_status_name(code)) && e)
        is_str(e->message, tn_error(), "%s: the message, %s", fact,
               tn_error());
    else
        bail_out("no such error: %s", tn_error());
    return e;
}

static void test_call(void)
{
    ok(!tn_error_info(), "without an error there is no information");
    tn_tensor *x = tn_relu(tn_ones(tn_dims(2, 3)));
    float two[2] = {1, 2};
    tn_tensor *y = tn_tensor_from_array(two, TN_F32, tn_dims(2));
    ok(!tn_add(x, y), "shapes that do not broadcast");
    const tn_error_details *e = info(TN_ERR_SHAPE, "add");
    is_str(e->op, "add", "the operator");
    is_str(e->called, "add", "which is the name of the call");
    is_str(e->path, "", "no module was running");
    is_int(e->tensor_count, 2, "both tensors");
    const tn_error_tensor *a = e->tensor[0], *b = e->tensor[1];
    ok(a->size == sizeof *a && e->size == sizeof *e, "the structs' sizes");
    is_str(a->argument, "input", "the first is input");
    is_str(a->made_by, "relu", "made by relu");
    is_str(a->made_in, "", "in no module");
    is_str(b->argument, "other", "the second is other");
    is_str(b->made_by, "tensor_from_array", "made of an array");
    is_str(b->device, tn_device_name(tn_tensor_device(y)), "its device");
    ok(a->dtype == TN_F32 && a->ndim == 2 && a->shape[0] == 2 &&
           a->shape[1] == 3 && b->ndim == 1 && b->shape[0] == 2,
       "their dtypes and shapes");
    tn_error_clear();
    ok(!tn_error_info(), "after clearing there is no information");
}

static void test_argument(void)
{
    tn_tensor *x = tn_ones(tn_dims(2, 3)), *v = tn_ones(tn_dims(3));
    ok(!tn_softmax(x, 5), "no such dimension");
    const tn_error_details *e = info(TN_ERR_ARGUMENT, "softmax");
    is_str(e->argument, "dim", "the argument at fault");
    is_int(e->odd, -1, "which is no tensor");
    tn_error_clear();
    tn_tensor *list[] = {x, x, v};
    ok(!tn_cat(list, 3, 0), "one of a list");
    e = info(TN_ERR_SHAPE, "cat");
    is_int(e->tensor_count, 3, "the list's tensors");
    is_str(e->argument, "tensors", "the list is at fault");
    is_int(e->odd >= 0 ? e->tensor[e->odd]->index : -1, 2,
           "the first that the message names");
    tn_error_clear();
    tn_tensor *i = tn_full(tn_dims(1, 4), 7);
    ok(!tn_gather(x, 1, i), "an index outside");
    e = info(TN_ERR_INDEX, "gather");
    is_str(e->argument, "index", "the argument at fault");
    is_int(e->odd, 1, "the second tensor");
    is_str(e->tensor[e->odd]->made_by, "full", "its origin");
    tn_error_clear();
    ok(!tn_relu(NULL) && !tn_softmax(NULL, 0), "NULL in, NULL out");
    e = info(TN_ERR_ARGUMENT, "relu");
    is_str(e->op, "relu", "the first error is reported, not the second");
    is_str(e->argument, "input", "NULL was given for input");
    is_int(e->tensor_count, 0, "which is no tensor");
    tn_error_clear();
}

/* Checks that the pending error is about this index, then clears it. */
static void outside(int64_t index, int64_t low, int64_t bound, int ndim,
                    int64_t first, int64_t second, const char *fact)
{
    const tn_error_details *e = info(TN_ERR_INDEX, fact);
    ok(e->has_index, "%s: reported as data", fact);
    is_int(e->index, index, "%s: the value", fact);
    is_int(e->index_low, low, "%s: the least one", fact);
    is_int(e->index_bound, bound, "%s: the bound", fact);
    is_int(e->position_ndim, ndim, "%s: how many coordinates", fact);
    is_int(e->position[0], first, "%s: the position", fact);
    is_int(e->position[1], second, "%s: along the second", fact);
    tn_error_clear();
}

static void test_index(void)
{
    const int64_t numbers[] = {0, 1, 2, 1, 7, -9};
    tn_tensor *x = tn_ones(tn_dims(2, 3)), *out[2];
    tn_tensor *i = tn_tensor_from_array(numbers, TN_I64, tn_dims(2, 3));
    tn_tensor *pivots = tn_to_dtype(i, TN_I32);
    ok(!tn_gather(x, 1, i), "an index that a kernel finds");
    outside(7, 0, 3, 2, 1, 1, "gather");
    ok(!tn_scatter_add(x, 1, i, x), "one that a scatter finds");
    outside(7, 0, 3, 2, 1, 1, "scatter_add");
    ok(!tn_one_hot(i, .num_classes = 9), "one found by looking");
    outside(-9, 0, 9, 2, 1, 2, "one_hot");
    ok(tn_unravel_index(i, tn_dims(2, 2), out, 2) < 0, "one of a shape");
    outside(7, -4, 4, 2, 1, 1, "unravel_index");
    ok(!tn_index_put(x, (tn_tensor *[]){i}, 1, tn_ones(TN_SCALAR)),
       "one of a list of tensors");
    outside(7, -2, 2, 2, 1, 1, "index_put");
    ok(!tn_lu_solve(tn_ones(tn_dims(3, 1)), tn_ones(tn_dims(3, 3)),
                    tn_select(pivots, 0, 1)), "a pivot");
    outside(7, 1, 4, 1, 1, 0, "lu_solve");
    ok(!tn_select(x, 1, -4), "an argument");
    outside(-4, -3, 3, 0, 0, 0, "select");
    ok(!tn_narrow(x, 1, 4, 0), "a start");
    outside(4, -3, 4, 0, 0, 0, "narrow");
    ok(!tn_narrow(x, 1, 1, 3), "a length");
    outside(3, 0, 3, 0, 0, 0, "narrow");
    ok(!tn_as_strided(x, tn_dims(7), tn_dims(1)), "beyond memory");
    outside(6, 0, 6, 0, 0, 0, "as_strided");
    ok(!tn_embedding(i, x, .padding_idx = 2),
       "an option");
    outside(2, -2, 2, 0, 0, 0, "embedding");
    tn_dataset *set = tn_dataset_from_tensors(x, NULL);
    ok(!tn_dataset_subset(set, numbers + 1, 3), "a place in a data set");
    outside(2, 0, 2, 1, 1, 0, "dataset_subset");
    ok(!tn_softmax(x, 5), "a dimension");
    ok(tn_error_code() == TN_ERR_ARGUMENT && tn_error_info()->has_index &&
           tn_error_info()->index == 5 && tn_error_info()->index_low == -2 &&
           tn_error_info()->index_bound == 2,
       "has an index and its limits, too");
    tn_error_clear();
    ok(!tn_relu(NULL), "another error afterwards");
    ok(!tn_error_info()->has_index, "has no index");
    tn_error_clear();
}

static void test_devices(void)
{
    tn_device *other = tn_device_open("reference");
    tn_tensor *x = tn_ones(tn_dims(2)), *y = tn_ones(tn_dims(2),
                                                     .device = other);
    if (!other || other == tn_tensor_device(x)) {
        tn_error_clear();
        skip(7, "one device alone");
        return;
    }
    ok(!tn_add(x, y), "two devices");
    const tn_error_details *e = info(TN_ERR_DEVICE, "add");
    is_str(e->argument, "other", "the one that is elsewhere");
    is_str(e->tensor[e->odd]->device, tn_device_name(other), "its device");
    tn_error_clear();
    tn_module *fc = tn_nn_linear(2, 3);
    ok(!tn_forward(fc, y), "a batch that is not where the model is");
    e = info(TN_ERR_DEVICE, "linear");
    is_str(e->argument, "input",
           "the message blames the input, not a parameter");
    ok(strstr(e->message, "move one with tn_to(input, ") != NULL, "%s",
       e->message);
    tn_error_clear();
}

static void test_composite(void)
{
    tn_tensor *x = tn_ones(tn_dims(2, 3)), *y = tn_ones(tn_dims(4));
    ok(!tn_mse_loss(x, y), "an operator made of others");
    const tn_error_details *e = info(TN_ERR_SHAPE, "mse_loss");
    is_str(e->called, "mse_loss", "the name of the call");
    is_str(e->tensor[0]->argument, "input", "the arguments");
    ok(strncmp(e->message, "mse_loss: ", 10) == 0,
       "the message names it first");
    tn_error_clear();
    tn_tensor *wide = tn_ones(tn_dims(3, 3));
    ok(!tn_expand(wide, tn_dims(2, 2)), "a view");
    info(TN_ERR_SHAPE, "expand");
    tn_error_clear();
}

/* Checks that the pending error has these details, then clears it. */
static void at_fault(tn_status code, const char *op, const char *argument,
                     int odd, int count, const char *cause, const char *fact)
{
    const tn_error_details *e = info(code, fact);
    is_str(e->op, op, "%s: the operator", fact);
    is_str(e->called, op, "%s: which was called", fact);
    is_str(e->argument ? e->argument : "", argument, "%s: its argument", fact);
    is_int(e->odd, odd, "%s: which tensor", fact);
    is_int(e->tensor_count, count, "%s: of how many", fact);
    is_str(e->cause ? e->cause : "", cause, "%s: the cause", fact);
    tn_error_clear();
}

static tn_status product(tn_op_context *call, tn_tensor **out)
{
    out[0] = tn_matmul(tn_op_context_tensor(call, 0),
                       tn_t(tn_op_context_tensor(call, 1)));
    return out[0] ? TN_OK : TN_ERR_SHAPE;
}

static tn_status refusing(tn_op_context *call, tn_tensor **out)
{
    (void)out;
    tn_tensor *scale = tn_op_context_tensor(call, 1);
    return tn_error_refuse(TN_ERR_SHAPE, "scaled_by",
                           &(tn_given){"scale", scale}, 1, "scale is {empty}");
}

/* A custom operator names the argument that it rejects. */
static void test_own_refusal(void)
{
    const tn_op *op = tn_op_register(&(tn_op_rule){
        .size = sizeof(tn_op_rule), .signature = "scaled_by(data, scale)",
        .forward = refusing});
    tn_tensor *x = tn_ones(tn_dims(2)), *out;
    const tn_value value[] = {{TN_VALUE_TENSOR, 0, {.tensor = x}},
                              {TN_VALUE_TENSOR, 0, {.tensor = x}}};
    ok(op && tn_op_call(op, value, 2, &out, 1) < 0, "an own operator refuses");
    is_str(tn_error(), "scaled_by: scale is {empty}", "with its message");
    at_fault(TN_ERR_SHAPE, "scaled_by", "scale", 0, 1, "", "scaled_by");
}

/* Calls that are not operators. */
static void test_other_calls(void)
{
    tn_tensor *x = tn_ones(tn_dims(2));
    ok(!tn_tensor_from_array(NULL, TN_F32, tn_dims(2)), "no data");
    is_str(tn_error_info()->op, "tensor_from_array",
           "the module that made the call");
    is_str(tn_error_info()->argument, "data", "and its argument");
    tn_error_clear();
    ok(!tn_tensor_from_array(&x, TN_F32, tn_dims(-2)), "a negative size");
    is_str(tn_error_info()->argument, "shape", "is one of shape");
    tn_error_clear();
    ok(tn_backward(x) < 0, "no graph");
    is_str(tn_error_info()->op, "backward", "the module that made the call");
    is_str(tn_error_info()->argument, "root", "and its argument");
    tn_error_clear();
    ok(!tn_zeros(tn_dims(2, -1)), "an operator that makes");
    is_str(tn_error_info()->argument, "size", "calls it size");
    tn_error_clear();
}

static void test_argument_of_outer(void)
{
    const int64_t numbers[] = {0, 1, 9, 1};
    tn_tensor *x = tn_ones(tn_dims(2, 3)), *y = tn_ones(tn_dims(4));
    tn_tensor *at = tn_tensor_from_array(numbers, TN_I64, tn_dims(2, 2));
    ok(!tn_embedding(at, x), "embedding");
    outside(9, 0, 2, 2, 1, 0, "embedding");
    ok(!tn_embedding(at, x), "embedding");
    at_fault(TN_ERR_INDEX, "embedding", "input", 0, 2, "", "embedding");
    ok(!tn_take(x, at), "take");
    outside(9, -6, 6, 2, 1, 0, "take");
    ok(!tn_cross_entropy(tn_ones(tn_dims(2, 3, 2)), at), "cross_entropy");
    at_fault(TN_ERR_INDEX, "cross_entropy", "target", 1, 2, "", "a class");
    ok(!tn_cross_entropy(x, tn_ones(tn_dims(2))), "no classes");
    at_fault(TN_ERR_DTYPE, "cross_entropy", "target", 1, 2, "", "a dtype");
    ok(!tn_one_hot(at, .num_classes = 3), "one_hot");
    at_fault(TN_ERR_INDEX, "one_hot", "input", 0, 1, "", "one_hot");
    ok(!tn_mse_loss(x, y), "mse_loss");
    at_fault(TN_ERR_SHAPE, "mse_loss", "input", 0, 2, "", "mse_loss");
    ok(!tn_topk(x, 2, 5, true, true, NULL), "topk");
    at_fault(TN_ERR_ARGUMENT, "topk", "dim", -1, 1, "", "topk");
    ok(!tn_topk(x, 9, 0, true, true, NULL), "topk");
    at_fault(TN_ERR_ARGUMENT, "topk", "k", -1, 1, "", "topk");
    ok(!tn_flip(x, tn_dims(4)), "flip");
    at_fault(TN_ERR_ARGUMENT, "flip", "dims", -1, 1, "", "flip");
    tn_tensor *ten[10];
    for (int i = 0; i < 10; i++)
        ten[i] = i == 9 ? y : x;
    ok(!tn_cat(ten, 10, 0), "a long list");
    const tn_error_details *e = tn_error_info();
    is_int(e->odd >= 0 ? e->tensor[e->odd]->index : -1, 9,
           "its last one is reported");
    tn_error_clear();

    const tn_op *op = tn_op_register(&(tn_op_rule){
        .size = sizeof(tn_op_rule), .signature = "times_t(data, weight)",
        .forward = product});
    tn_tensor *out;
    const tn_value value[] = {{TN_VALUE_TENSOR, 0, {.tensor = x}},
                              {TN_VALUE_TENSOR, 0, {.tensor = y}}};
    ok(op && tn_op_call(op, value, 2, &out, 1) < 0, "an own operator");
    is_str(tn_error(),
           "times_t: matmul: inner sizes differ: input (2, 3) "
           "x other (4,)",
           "a composite reports the call in its body");
    at_fault(TN_ERR_SHAPE, "times_t", "data", 0, 2, "matmul", "its argument");
}

/* ---- modules ------------------------------------------------------------- */

static tn_tensor *product_forward(tn_module *self, tn_tensor *x)
{
    (void)self;
    tn_tensor *y = tn_exp(x);
    return tn_matmul(y, y);
}

static const tn_module_class product_class = {.size = sizeof product_class,
                                              .name = "Product",
                                              .bytes = sizeof(tn_module),
                                              .forward = product_forward};

static void test_module(void)
{
    tn_module *net = tn_nn_sequential(
        tn_nn_linear(3, 4), tn_nn_sequential(tn_nn_relu(),
                                             tn_module_new(&product_class)));
    ok(!tn_forward(net, tn_ones(tn_dims(2, 3))), "a module in a module fails");
    const tn_error_details *e = info(TN_ERR_SHAPE, "a module");
    is_str(e->path, "1.1", "its path");
    is_str(e->message,
           "1.1: matmul: inner sizes differ: input (2, 4) x other (2, 4)",
           "which the message begins with");
    is_str(e->op, "matmul", "the operator");
    is_str(e->tensor[0]->made_by, "exp", "the operator that made its input");
    is_str(e->tensor[0]->made_in, "1.1", "and in which module");
    tn_error_clear();

    tn_tensor *x = tn_forward(net, tn_ones(tn_dims(4, 3)));
    ok(x && !tn_add(x, tn_ones(tn_dims(7))),
       "tensors that modules made, outside of them");
    e = info(TN_ERR_SHAPE, "add");
    is_str(e->path, "", "no module was running");
    is_str(e->tensor[0]->made_by, "matmul", "its origin: the operator");
    is_str(e->tensor[0]->made_in, "1.1", "and the module");
    tn_error_clear();

    tn_module *encoder = tn_nn_transformer_encoder(8, 2, 2);
    ok(!tn_forward(encoder, tn_ones(tn_dims(2, 3, 7))),
       "a layer of a list of modules fails");
    e = info(TN_ERR_SHAPE, "encoder");
    is_str(e->path, "layers.0.self_attn", "the list is in the path");
    tn_error_clear();
    ok(!tn_forward(tn_module_child(encoder, "layers.1.linear1"),
                   tn_ones(tn_dims(7))),
       "a layer run alone");
    is_str(info(TN_ERR_SHAPE, "alone")->path, "layers.1.linear1",
           "has its whole path");
    tn_error_clear();
}

/* Layers report errors as completely as operators. */
static void test_refusals(void)
{
    tn_tensor *x = tn_ones(tn_dims(2, 3)), *seq = tn_ones(tn_dims(5, 2, 3));
    tn_module *lstm = tn_nn_lstm(4, 6), *gru = tn_nn_gru(3, 6);
    ok(!tn_forward(lstm, seq), "LSTM");
    is_str(tn_error(), "LSTM: input (5, 2, 3): expected (time, batch, 4) or "
           "(time, 4)", "LSTM: the message");
    at_fault(TN_ERR_SHAPE, "LSTM", "input", 0, 1, "", "LSTM");
    ok(!tn_nn_rnn_forward(gru, seq, x, NULL), "a state of GRU");
    is_str(tn_error(), "GRU: h0 (2, 3): expected (layers, batch, size), (1, "
           "2, 6)", "GRU: the message");
    at_fault(TN_ERR_SHAPE, "GRU", "h0", 0, 2, "", "GRU");
    ok(!tn_forward(tn_nn_gru_cell(4, 6), x), "GRUCell");
    at_fault(TN_ERR_SHAPE, "GRUCell", "input", 0, 1, "", "GRUCell");
    tn_module *net = tn_nn_sequential(tn_nn_batch_norm2d(4));
    ok(!tn_forward(net, x), "BatchNorm2d");
    is_str(tn_error(), "0: BatchNorm2d: input (2, 3): expected 4 dimensions, "
           "with 4 channels in the second",
           "BatchNorm2d: the message");
    is_str(tn_error_info()->path, "0", "its path");
    at_fault(TN_ERR_SHAPE, "BatchNorm2d", "input", 0, 1, "", "BatchNorm2d");
    ok(!tn_forward(net, tn_ones(tn_dims(1, 3, 2, 2))), "other channels");
    at_fault(TN_ERR_SHAPE, "BatchNorm2d", "input", 0, 1, "", "channels");
    tn_module *mha = tn_nn_multihead_attention(8, 2);
    tn_tensor *q = tn_ones(tn_dims(5, 2, 8)), *k = tn_ones(tn_dims(3, 2, 8));
    ok(!tn_nn_multihead_attention_forward(mha, q, k, q, NULL), "values");
    is_str(tn_error(), "MultiheadAttention: value (5, 2, 8) does not match "
           "key (3, 2, 8): expected the same batch, and a value for each key",
           "MultiheadAttention: the message");
    at_fault(TN_ERR_SHAPE, "MultiheadAttention", "value", 0, 2, "", "values");
    ok(!tn_nn_multihead_attention_forward(mha, q, k, k, NULL, .attn_mask = x),
       "a mask");
    is_str(tn_error(), "MultiheadAttention: attn_mask (2, 3): expected "
           "queries and keys, or those of each head, (5, 3) or (4, 5, 3)",
           "its message");
    at_fault(TN_ERR_SHAPE, "MultiheadAttention", "attn_mask", 0, 2, "",
             "a mask");
    ok(tn_nn_multihead_attention_forward(mha, q, k, k, NULL,
                                         .key_padding_mask = x) != NULL,
       "one of padding that fits");
}

static void test_makers(void)
{
    tn_module *fc = tn_nn_linear(3, 4);
    ok(!tn_matmul(tn_module_parameter(fc, "weight"), tn_ones(tn_dims(7))),
       "a parameter");
    is_str(tn_error_info()->tensor[0]->made_by, "Linear",
           "was made by its layer");
    tn_error_clear();
    tn_tensor *own = tn_ones(tn_dims(2));
    tn_tensor_set_maker(own, "mine");
    ok(!tn_add(own, tn_ones(tn_dims(3))), "a tensor");
    is_str(tn_error_info()->tensor[0]->made_by, "mine", "was made by");
    tn_error_clear();
    ok(tn_error_refuse(TN_ERR_ARGUMENT, "Mine",
                       (tn_given[]){{"size", NULL}, {"input", own}}, 2,
                       "size %d is odd", 3) == TN_ERR_ARGUMENT,
       "a layer of one's own refuses");
    is_str(tn_error(), "Mine: size 3 is odd", "in the layer's name");
    at_fault(TN_ERR_ARGUMENT, "Mine", "size", -1, 1, "", "with its tensors");
}

static void test_backward(void)
{
    tn_module *net = tn_nn_sequential(tn_nn_linear(3, 4), tn_nn_tanh());
    tn_tensor *y = tn_forward(net, tn_ones(tn_dims(2, 3)));
    TN_NO_GRAD { tn_mul_scalar_(y, 0); }
    ok(tn_backward(tn_sum(y)) < 0, "backward over a value that was changed");
    const tn_error_details *e = info(TN_ERR_STATE, "backward");
    is_str(e->path, "1", "the module whose gradient was computed");
    tn_error_clear();
}

/* ---- module paths -------------------------------------------------------- */

static void test_paths(void)
{
    const tn_path *a = tn_path_join(NULL, "encoder"),
                  *b = tn_path_join(a, "3");
    is_str(tn_path_text(b), "encoder.3", "paths are joined by dots");
    ok(tn_path_join(tn_path_join(NULL, "encoder"), "3") == b,
       "equal paths are one");
    ok(tn_path_join(NULL, "encoder.3") != b,
       "a path joined in one step is another path");
    ok(tn_path_outer(b) == a && !tn_path_outer(a), "and know their outer one");
    is_str(tn_path_text(NULL), "", "the path outside of all is empty");
    ok(tn_path_join(a, NULL) == a && tn_path_join(a, "") == a, "no name");
    const tn_path *before = tn_path_enter(b);
    ok(!before && tn_path_current() == b, "a thread enters a path");
    tn_error_set(TN_ERR_ARGUMENT, "wrong");
    ok(tn_path_enter(before) == b && !tn_path_current(), "and leaves it");
    is_str(tn_error(), "encoder.3: wrong",
           "user-defined errors are reported there");
    is_str(tn_error_info()->path, "encoder.3", "as data too");
    ok(!tn_error_info()->op, "without an operator");
    tn_error_clear();
}

int main(void)
{
    plan_later();
    tn_manual_seed(1);
    test_call();
    test_argument();
    test_index();
    test_devices();
    test_composite();
    test_argument_of_outer();
    test_own_refusal();
    test_other_calls();
    test_module();
    test_refusals();
    test_makers();
    test_backward();
    test_paths();
    return done_testing();
}
