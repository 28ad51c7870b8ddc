/* nn_recurrent_cell.c: one step of an RNN, GRU or LSTM. */
#include <nn/recurrent.h>
#include <nn/tree.h>

#include <inttypes.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

static const tn_module_class rnn_cell_class, gru_cell_class, lstm_cell_class;

/* Returns whether given is NULL or has the shape (batch, size), or (size) if x
 * has no batch. */
static bool check_cell(const tn__nn_recurrent *r, tn_tensor *x,
                       const char *name, tn_tensor *given, int64_t size)
{
    char text[TN__NN_SHAPE_TEXT];
    int ndim = tn_tensor_ndim(x);
    bool batched = ndim == 2 && given != x;
    if (!given ||
        ((ndim == 1 || ndim == 2) && tn_tensor_ndim(given) == ndim &&
         tn_tensor_size(given, -1) == size &&
         (!batched || tn_tensor_size(given, 0) == tn_tensor_size(x, 0))))
        return true;
    const tn_given both[] = {{name, given}, {"input", x}};
    tn_error_refuse(TN_ERR_SHAPE, r->base.type->name, both, given == x ? 1 : 2,
                    "%s %s: expected (batch, %" PRId64 ") or (%" PRId64 ",)%s",
                    name, tn__nn_shape_text(text, given), size, size,
                    given == x ? "" : ", as input is");
    return false;
}

static bool run_cell(const tn__nn_recurrent *r, tn_tensor *x, tn_tensor *h,
                     tn_tensor *c, tn_tensor *out[2])
{
    tn_tensor *const *w = r->part[0].x;
    bool unbatched = tn_tensor_ndim(x) == 1;
    if (!check_cell(r, x, "input", x, r->input_size) ||
        !check_cell(r, x, "h", h, r->hidden_size) ||
        !check_cell(r, x, "c", c, r->hidden_size) ||
        !tn__nn_recurrent_check_dtypes(r, x, h, c,
                                       (const char *const[]){"h", "c"}))
        return false;
    x = unbatched ? tn_unsqueeze(x, 0) : x;
    bool starts = !h || (!c && r->gates == 4);
    if (starts && tn_error())
        return false;
    tn_tensor *zeros =
        starts ? tn_zeros(tn_dims(tn_tensor_size(x, 0), r->hidden_size),
                          .dtype = tn_tensor_dtype(x),
                          .device = tn_tensor_device(x))
               : NULL;
    h = !h ? zeros : unbatched ? tn_unsqueeze(h, 0) : h;
    c = !c ? zeros : unbatched ? tn_unsqueeze(c, 0) : c;
    if (r->gates == 4)
        out[0] =
            tn_lstm_cell(x, h, c, w[W_IH], w[W_HH], w[B_IH], w[B_HH], &out[1]);
    else if (r->gates == 3)
        out[0] = tn_gru_cell(x, h, w[W_IH], w[W_HH], w[B_IH], w[B_HH]);
    else if (r->relu)
        out[0] = tn_rnn_relu_cell(x, h, w[W_IH], w[W_HH], w[B_IH], w[B_HH]);
    else
        out[0] = tn_rnn_tanh_cell(x, h, w[W_IH], w[W_HH], w[B_IH], w[B_HH]);
    for (int i = 0; i < 2 && unbatched; i++)
        out[i] = out[i] ? tn_squeeze(out[i], .dim = 0) : NULL;
    return out[0] != NULL;
}

static void cell_forward(tn_module *self, tn_tensor *const *in, int in_count,
                         tn_tensor **out, int out_count)
{
    tn_tensor *all[2] = {NULL};
    if (run_cell((tn__nn_recurrent *)self, in[0], in[1],
                 in_count == 3 ? in[2] : NULL, all))
        memcpy(out, all, (size_t)out_count * sizeof *out);
}

tn_tensor *tn_nn_rnn_cell_forward(tn_module *cell, tn_tensor *input,
                                  tn_tensor *h)
{
    if (!tn__nn_is_kind(cell, &rnn_cell_class, &gru_cell_class,
                        "nn_rnn_cell_forward") ||
        !tn__nn_tensor(input, "nn_rnn_cell_forward", "input") ||
        !tn__nn_tensor_or_null(h, "nn_rnn_cell_forward", "h"))
        return NULL;
    return tn_forward(cell, input, h);
}

tn_tensor *tn_nn_lstm_cell_forward(tn_module *cell, tn_tensor *input,
                                   tn_tensor *h, tn_tensor *c,
                                   tn_tensor **out_c)
{
    if (!tn__nn_is_kind(cell, &lstm_cell_class, NULL, "nn_lstm_cell_forward") ||
        !tn__nn_tensor(input, "nn_lstm_cell_forward", "input") ||
        !tn__nn_tensor_or_null(h, "nn_lstm_cell_forward", "h") ||
        !tn__nn_tensor_or_null(c, "nn_lstm_cell_forward", "c"))
        return NULL;
    tn_tensor *in[] = {input, h, c}, *out[2];
    if (tn_forward_list(cell, in, 3, out, 2) < 0)
        return NULL;
    if (out_c)
        *out_c = out[1];
    return out[0];
}

/* The options of all cells. */
TN_OPTIONS_STRUCT(cell, TN_NN_RNN_CELL_OPTIONS_LIST);

static tn_module *make_cell(const tn_module_class *type,
                            const tn_options_type *option_type, int gates,
                            int64_t input_size, int64_t hidden_size,
                            const void *options)
{
    const char *name = option_type->name;
    const tn__nn_recurrent_options one_layer = {.num_layers = 1};
    cell_options o;
    const tn_option_need need = {"relu", gates == 1,
                                 "in another layer than nn_rnn_cell",
                                 "make an nn_rnn_cell"};
    if (tn_options_take(option_type, &o, options) < 0 ||
        tn_options_check_needs(option_type, &o, &need, 1) < 0 ||
        !tn__nn_recurrent_check_sizes(name, input_size, hidden_size,
                                      &one_layer))
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn__nn_recurrent *r = tn_module_new_with(type, sizeof(tn__nn_direction));
    bool made = false;
    if (r) {
        r->input_size = input_size;
        r->hidden_size = hidden_size;
        r->gates = gates;
        r->num_layers = r->directions = 1;
        r->relu = o.relu;
        r->bias = o.bias;
        made = tn__nn_recurrent_parameters(r, &r->part[0], input_size, "");
    }
    return tn_scope_result(scope, made ? &r->base : NULL);
}

#define CELL(function, class_name, gates, in_and_out)                          \
    TN_OPTIONS_TYPE(tn_nn_##function, "nn_" #function,                         \
                    "input_size, hidden_size", TN_NN_RNN_CELL_OPTIONS_LIST)    \
    static const tn_module_class function##_class = {                          \
        .size = sizeof function##_class,                                       \
        .name = class_name,                                                    \
        .bytes = sizeof(tn__nn_recurrent),                                     \
        .forward_list = cell_forward,                                          \
        .signature = in_and_out,                                               \
        .describe = tn__nn_recurrent_describe};                                \
    tn_module *tn_nn_##function##_with(                                        \
        int64_t input_size, int64_t hidden_size,                               \
        const tn_nn_##function##_options *options)                             \
    {                                                                          \
        return make_cell(&function##_class, tn_nn_##function##_type(), gates,  \
                         input_size, hidden_size, options);                    \
    }
CELL(rnn_cell, "RNNCell", 1, "input, h? -> h")
CELL(gru_cell, "GRUCell", 3, "input, h? -> h")
CELL(lstm_cell, "LSTMCell", 4, "input, h?, c? -> h, c")
