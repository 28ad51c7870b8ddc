/* nn_recurrent.c: RNN, GRU and LSTM over sequences. */
#include <nn/init.h>
#include <nn/recurrent.h>
#include <nn/tree.h>

#include <inttypes.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

static int64_t out_size(const tn__nn_recurrent *r)
{
    return r->proj_size ? r->proj_size : r->hidden_size;
}

static const tn_module_class rnn_class, gru_class, lstm_class;

/* If shown is true, appends ", what" to text, followed by `number` if it is not
 * 0. */
static void append(char *text, size_t room, bool shown, const char *what,
                   int64_t number)
{
    size_t at = strlen(text);
    if (shown && number)
        snprintf(text + at, room - at, ", %s%" PRId64, what, number);
    else if (shown)
        snprintf(text + at, room - at, ", %s", what);
}

void tn__nn_recurrent_describe(const tn_module *self, char *text, size_t room)
{
    const tn__nn_recurrent *r = (const tn__nn_recurrent *)self;
    snprintf(text, room, "%" PRId64 ", %" PRId64, r->input_size,
             r->hidden_size);
    append(text, room, r->num_layers != 1, "num_layers=", r->num_layers);
    append(text, room, !r->bias, "bias=False", 0);
    append(text, room, r->batch_first, "batch_first=True", 0);
    append(text, room, r->directions == 2, "bidirectional=True", 0);
    append(text, room, r->proj_size != 0, "proj_size=", r->proj_size);
}

/* ---- parameters --------------------------------------------------------- */

bool tn__nn_recurrent_parameters(tn__nn_recurrent *r, tn__nn_direction *d,
                                 int64_t in, const char *suffix)
{
    static const char *const name[] = {"weight_ih", "weight_hh", "bias_ih",
                                       "bias_hh", "weight_hr"};
    int64_t wide = tn__nn_product(r->gates, r->hidden_size);
    const tn_dims_list shape[] = {tn_dims(wide, in), tn_dims(wide, out_size(r)),
                                  tn_dims(wide), tn_dims(wide),
                                  tn_dims(r->proj_size, r->hidden_size)};
    for (int i = 0; i < TENSORS; i++) {
        if ((!r->bias && (i == B_IH || i == B_HH)) ||
            (!r->proj_size && i == W_HR))
            continue;
        char full[48];
        snprintf(full, sizeof full, "%s%s", name[i], suffix);
        d->x[i] = tn_module_add_parameter(
            &r->base, full, tn__nn_init_fan_in(shape[i], r->hidden_size));
        if (!d->x[i])
            return false;
    }
    return true;
}

static bool add_layers(tn__nn_recurrent *r)
{
    for (int i = 0; i < r->num_layers * r->directions; i++) {
        int layer = i / r->directions;
        char suffix[32];
        snprintf(suffix, sizeof suffix, "_l%d%s", layer,
                 i % r->directions ? "_reverse" : "");
        int64_t in =
            layer ? tn__nn_product(out_size(r), r->directions) : r->input_size;
        if (!tn__nn_recurrent_parameters(r, &r->part[i], in, suffix))
            return false;
    }
    return true;
}

bool tn__nn_recurrent_check_sizes(const char *name, int64_t input_size,
                                  int64_t hidden_size,
                                  const tn__nn_recurrent_options *o)
{
    if (input_size < 1 || hidden_size < 1 || o->num_layers < 1 ||
        o->proj_size < 0 || o->proj_size >= hidden_size) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, name,
            input_size < 1      ? "input_size"
            : hidden_size < 1   ? "hidden_size"
            : o->num_layers < 1 ? "num_layers"
                                : "proj_size",
            "input_size %" PRId64 ", hidden_size %" PRId64
            ", num_layers %d, proj_size %" PRId64
            ": expected positive numbers, and a proj_size below hidden_size",
            input_size, hidden_size, o->num_layers, o->proj_size);
        return false;
    }
    return tn__nn_check_layers(name, o->num_layers) &&
           tn__nn_check_probability(o->dropout, name, "dropout");
}

/* Checks options that only some of the layers have. gates is 1 for an RNN, 3
 * for a GRU, 4 for an LSTM. */
static bool check_needs(const tn_options_type *type, int gates,
                        const tn__nn_recurrent_options *o)
{
    const tn_option_need need[] = {
        {"relu", gates == 1, "in another layer than nn_rnn", "make an nn_rnn"},
        {"proj_size", gates == 4, "in another layer than nn_lstm",
         "make an nn_lstm"},
        {"dropout", o->num_layers != 1,
         "in one layer, as it applies between layers", "give num_layers"}};
    return tn_options_check_needs(type, o, need, 3) >= 0;
}

static tn_module *make(const tn_module_class *type,
                       const tn_options_type *option_type, int gates,
                       int64_t input_size, int64_t hidden_size,
                       const void *options)
{
    const char *name = option_type->name;
    tn__nn_recurrent_options o;
    if (tn_options_take(option_type, &o, options) < 0 ||
        !check_needs(option_type, gates, &o) ||
        !tn__nn_recurrent_check_sizes(name, input_size, hidden_size, &o))
        return NULL;
    int layers = o.num_layers, directions = o.bidirectional ? 2 : 1;
    tn_scope *scope = tn_scope_open();
    tn__nn_recurrent *r = tn_module_new_with(
        type, (size_t)(layers * directions) * sizeof(tn__nn_direction));
    bool made = false;
    if (r) {
        r->input_size = input_size;
        r->hidden_size = hidden_size;
        r->proj_size = o.proj_size;
        r->gates = gates;
        r->num_layers = layers;
        r->directions = directions;
        r->batch_first = o.batch_first;
        r->relu = o.relu;
        r->bias = o.bias;
        r->dropout = o.dropout;
        made = add_layers(r);
    }
    return tn_scope_result(scope, made ? &r->base : NULL);
}

/* ---- sequences ---------------------------------------------------------- */

/* Returns the initial states of all layers, (layers * directions, batch, size):
 * zeros, or the given ones. If unbatched, the given ones lack the batch
 * dimension. */
static tn_tensor *initial_state(const tn__nn_recurrent *r, tn_tensor *given,
                                tn_tensor *x, int64_t batch, int64_t size,
                                bool unbatched)
{
    if (given)
        return unbatched ? tn_unsqueeze(given, 1) : given;
    if (tn_error()) /* a state that is NULL due to an error is not an omitted
                       one */
        return NULL;
    return tn_zeros(tn_dims(r->num_layers * r->directions, batch, size),
                    .dtype = tn_tensor_dtype(x), .device = tn_tensor_device(x));
}

/* Runs direction `at` (an index into part[]) over x (time, batch, in) from the
 * states h and c (batch, size). Sets out[] to the output, the final h and the
 * final c. */
static bool run_direction(const tn__nn_recurrent *r, int at, tn_tensor *x,
                          tn_tensor *h, tn_tensor *c, tn_tensor *out[3])
{
    tn_tensor *const *w = r->part[at].x;
    bool reverse = at % r->directions == 1;
    if (r->gates == 4)
        out[0] =
            tn_lstm_layer(x, h, c, w[W_IH], w[W_HH], w[B_IH], w[B_HH], &out[1],
                          &out[2], .w_hr = w[W_HR], .reverse = reverse);
    else if (r->gates == 3)
        out[0] = tn_gru_layer(x, h, w[W_IH], w[W_HH], w[B_IH], w[B_HH], &out[1],
                              .reverse = reverse);
    else if (r->relu)
        out[0] = tn_rnn_relu_layer(x, h, w[W_IH], w[W_HH], w[B_IH], w[B_HH],
                                   &out[1], .reverse = reverse);
    else
        out[0] = tn_rnn_tanh_layer(x, h, w[W_IH], w[W_HH], w[B_IH], w[B_HH],
                                   &out[1], .reverse = reverse);
    return out[0] != NULL;
}

/* ---- packed sequences: times with the same number of sequences run as one
 * batch ------------------------------------------------------------------ */

/* Adapts a state to a step with `batch` sequences. In the forward direction
 * sequences end: the rows of ended ones are moved to the front of *ended. In
 * the reverse direction sequences begin: their rows of the initial state are
 * appended. */
static tn_tensor *next_state(tn_tensor *state, tn_tensor *initial,
                             int64_t batch, tn_tensor **ended)
{
    int64_t have = state ? tn_tensor_size(state, 0) : 0;
    if (!state)
        return tn_narrow(initial, 0, 0, batch);
    if (batch > have)
        return tn_cat(
            (tn_tensor *[]){state, tn_narrow(initial, 0, have, batch - have)},
            2, 0);
    if (batch == have)
        return state;
    tn_tensor *over = tn_narrow(state, 0, batch, have - batch);
    *ended = *ended ? tn_cat((tn_tensor *[]){over, *ended}, 2, 0) : over;
    return tn_narrow(state, 0, 0, batch);
}

/* Runs direction `at` over x, the packed elements (sum of lengths, in). Sets
 * out[] to the output, the final h and the final c. */
static bool run_packed(const tn__nn_recurrent *r, int at, tn_tensor *x,
                       const tn_packed *packed, tn_tensor *h0, tn_tensor *c0,
                       tn_tensor *out[3])
{
    const int64_t *sizes = tn_packed_batch_sizes(packed);
    int64_t times = tn_packed_times(packed), row = 0;
    bool reverse = at % r->directions == 1;
    tn_tensor *h = NULL, *c = NULL, *ended[2] = {NULL}, *all = NULL;
    if (reverse)
        row = tn_tensor_size(x, 0);
    for (int64_t t = 0, count; t < times; t += count) {
        int64_t size = sizes[reverse ? times - 1 - t : t];
        for (count = 1;
             t + count < times &&
             sizes[reverse ? times - 1 - t - count : t + count] == size;)
            count++;
        row -= reverse ? count * size : 0;
        tn_tensor *made[3] = {NULL};
        h = next_state(h, h0, size, &ended[0]);
        c = c0 ? next_state(c, c0, size, &ended[1]) : NULL;
        tn_tensor *part = tn_reshape(tn_narrow(x, 0, row, count * size),
                                     tn_dims(count, size, -1));
        if (!run_direction(r, at, part, h, c, made))
            return false;
        row += reverse ? 0 : count * size;
        h = made[1];
        c = made[2];
        tn_tensor *rows = tn_flatten(made[0], .end_dim = 1);
        all = !all      ? rows
              : reverse ? tn_cat((tn_tensor *[]){rows, all}, 2, 0)
                        : tn_cat((tn_tensor *[]){all, rows}, 2, 0);
    }
    out[0] = all;
    out[1] = ended[0] ? tn_cat((tn_tensor *[]){h, ended[0]}, 2, 0) : h;
    out[2] = ended[1] ? tn_cat((tn_tensor *[]){c, ended[1]}, 2, 0) : c;
    return all && out[1];
}

/* Appends the final state of a direction to those of the directions before. */
static tn_tensor *stack_state(tn_tensor *before, tn_tensor *state)
{
    tn_tensor *one = tn_unsqueeze(state, 0);
    if (!before || !one)
        return one;
    return tn_cat((tn_tensor *[]){before, one}, 2, 0);
}

/* Runs all layers. x is (time, batch, in), or the elements of packed if that is
 * not NULL. Sets out[] to the output, the final h and the final c. */
static bool run_layers(const tn__nn_recurrent *r, tn_tensor *x,
                       const tn_packed *packed, tn_tensor *h0, tn_tensor *c0,
                       tn_tensor *out[3])
{
    tn_tensor *h = NULL, *c = NULL;
    for (int layer = 0; layer < r->num_layers; layer++) {
        tn_tensor *side[2] = {NULL};
        for (int d = 0; d < r->directions; d++) {
            tn_tensor *made[3] = {NULL};
            int at = layer * r->directions + d;
            tn_tensor *h1 = tn_select(h0, 0, at),
                      *c1 = r->gates == 4 ? tn_select(c0, 0, at) : NULL;
            if (!(packed ? run_packed(r, at, x, packed, h1, c1, made)
                         : run_direction(r, at, x, h1, c1, made)))
                return false;
            side[d] = made[0];
            h = stack_state(h, made[1]);
            if (r->gates == 4)
                c = stack_state(c, made[2]);
        }
        x = r->directions == 2 ? tn_cat(side, 2, -1) : side[0];
        if (r->dropout > 0 && r->base.training && layer + 1 < r->num_layers)
            x = tn_dropout(x, r->dropout, true);
    }
    out[0] = x;
    out[1] = h;
    out[2] = c;
    return x && h;
}

static bool check_input(const tn__nn_recurrent *r, tn_tensor *x)
{
    int ndim = tn_tensor_ndim(x);
    if ((ndim == 2 || ndim == 3) && tn_tensor_size(x, -1) == r->input_size)
        return true;
    char text[TN__NN_SHAPE_TEXT];
    const char *lead = r->batch_first ? "batch, time" : "time, batch";
    tn_error_refuse(
        TN_ERR_SHAPE, r->base.type->name, &(tn_given){"input", x}, 1,
        "input %s: expected (%s, %" PRId64 ") or (time, %" PRId64 ")",
        tn__nn_shape_text(text, x), lead, r->input_size, r->input_size);
    return false;
}

/* Checks the shape of state, which is h0 or c0 or NULL. */
static bool check_state_of(const tn__nn_recurrent *r, tn_tensor *x,
                           const char *name, tn_tensor *state, int64_t size,
                           bool unbatched, int64_t batch)
{
    char text[TN__NN_SHAPE_TEXT], want[96];
    const tn_given given[] = {{name, state}, {"input", x}};
    int64_t layers = r->num_layers * r->directions;
    if (!state || (tn_tensor_ndim(state) == (unbatched ? 2 : 3) &&
                   tn_tensor_size(state, 0) == layers &&
                   (unbatched || tn_tensor_size(state, 1) == batch) &&
                   tn_tensor_size(state, -1) == size))
        return true;
    if (unbatched)
        snprintf(want, sizeof want, "(%" PRId64 ", %" PRId64 ")", layers, size);
    else
        snprintf(want, sizeof want, "(%" PRId64 ", %" PRId64 ", %" PRId64 ")",
                 layers, batch, size);
    tn_error_refuse(TN_ERR_SHAPE, r->base.type->name, given, 2,
                    "%s %s: expected (layers%s, size), %s", name,
                    tn__nn_shape_text(text, state), unbatched ? "" : ", batch",
                    want);
    return false;
}

/* Returns whether input and states have the dtype of the weights. */
bool tn__nn_recurrent_check_dtypes(const tn__nn_recurrent *r, tn_tensor *x,
                                   tn_tensor *h, tn_tensor *c,
                                   const char *const names[2])
{
    const tn_tensor *weight = r->part[0].x[W_IH];
    const char *name = r->base.type->name;
    return tn__nn_check_dtype(x, "input", weight, name) &&
           tn__nn_check_dtype(h, names[0], weight, name) &&
           tn__nn_check_dtype(c, names[1], weight, name);
}

static bool check_state(const tn__nn_recurrent *r, tn_tensor *x,
                        const char *name, tn_tensor *state, int64_t size)
{
    return check_state_of(r, x, name, state, size, tn_tensor_ndim(x) == 2,
                          tn_tensor_size(x, r->batch_first ? 0 : 1));
}

static bool run_sequence(const tn__nn_recurrent *r, tn_tensor *x, tn_tensor *h0,
                         tn_tensor *c0, tn_tensor *out[3])
{
    if (!check_input(r, x) || !check_state(r, x, "h0", h0, out_size(r)) ||
        !check_state(r, x, "c0", c0, r->hidden_size) ||
        !tn__nn_recurrent_check_dtypes(r, x, h0, c0,
                                       (const char *const[]){"h0", "c0"}))
        return false;
    bool unbatched = tn_tensor_ndim(x) == 2,
         swap_axes = r->batch_first && !unbatched;
    x = unbatched ? tn_unsqueeze(x, 1) : swap_axes ? tn_transpose(x, 0, 1) : x;
    int64_t batch = tn_tensor_size(x, 1);
    h0 = initial_state(r, h0, x, batch, out_size(r), unbatched);
    if (r->gates == 4)
        c0 = initial_state(r, c0, x, batch, r->hidden_size, unbatched);
    if (!run_layers(r, x, NULL, h0, c0, out))
        return false;
    if (swap_axes)
        out[0] = tn_transpose(out[0], 0, 1);
    for (int i = 0; i < 3 && unbatched; i++)
        out[i] = out[i] ? tn_squeeze(out[i], .dim = 1) : NULL;
    return out[0] && out[1];
}

static void forward(tn_module *self, tn_tensor *const *in, int in_count,
                    tn_tensor **out, int out_count)
{
    tn_tensor *all[3] = {NULL};
    if (run_sequence((tn__nn_recurrent *)self, in[0], in[1],
                     in_count == 3 ? in[2] : NULL, all))
        memcpy(out, all, (size_t)out_count * sizeof *out);
}

static tn_tensor *call(tn_module *module, tn_tensor *x, tn_tensor *h0,
                       tn_tensor *c0, tn_tensor **out_h, tn_tensor **out_c)
{
    tn_tensor *in[] = {x, h0, c0}, *out[3] = {NULL};
    int count = ((tn__nn_recurrent *)module)->gates == 4 ? 3 : 2;
    if (tn_forward_list(module, in, count, out, count) < 0)
        return NULL;
    if (out_h)
        *out_h = out[1];
    if (out_c)
        *out_c = out[2];
    return out[0];
}

tn_tensor *tn_nn_rnn_forward(tn_module *rnn, tn_tensor *input, tn_tensor *h0,
                             tn_tensor **out_h)
{
    if (!tn__nn_is_kind(rnn, &rnn_class, &gru_class, "nn_rnn_forward") ||
        !tn__nn_tensor(input, "nn_rnn_forward", "input") ||
        !tn__nn_tensor_or_null(h0, "nn_rnn_forward", "h0"))
        return NULL;
    return call(rnn, input, h0, NULL, out_h, NULL);
}

tn_tensor *tn_nn_lstm_forward(tn_module *lstm, tn_tensor *input, tn_tensor *h0,
                              tn_tensor *c0, tn_tensor **out_h,
                              tn_tensor **out_c)
{
    if (!tn__nn_is_kind(lstm, &lstm_class, NULL, "nn_lstm_forward") ||
        !tn__nn_tensor(input, "nn_lstm_forward", "input") ||
        !tn__nn_tensor_or_null(h0, "nn_lstm_forward", "h0") ||
        !tn__nn_tensor_or_null(c0, "nn_lstm_forward", "c0"))
        return NULL;
    return call(lstm, input, h0, c0, out_h, out_c);
}

/* ---- calls over packed sequences ---------------------------------------- */

/* Reorders the sequences in state: from the order in which they were given to
 * the order of descending lengths, or back if `back` is true. */
static tn_tensor *reordered(tn_tensor *state, const tn_packed *packed,
                            bool back)
{
    int64_t count = tn_packed_count(packed);
    const int64_t *sorted = tn_packed_sorted_indices(packed);
    bool given = true; /* whether the sequences were given in descending order
                          of lengths */
    for (int64_t i = 0; i < count; i++)
        given = given && sorted[i] == i;
    if (!state || given)
        return state;
    tn_tensor *index =
        tn_to(tn_tensor_from_array(sorted, TN_I64, tn_dims(count)),
              tn_tensor_device(state));
    return tn_index_select(state, 1,
                           back ? tn_argsort(index, -1, false) : index);
}

static bool run_packed_sequence(const tn__nn_recurrent *r, tn_tensor *x,
                                const tn_packed *packed, tn_tensor *h0,
                                tn_tensor *c0, tn_tensor *out[3])
{
    int64_t batch = tn_packed_count(packed);
    if (tn_tensor_ndim(x) != 2 || tn_tensor_size(x, 1) != r->input_size) {
        char text[TN__NN_SHAPE_TEXT];
        tn_error_refuse(TN_ERR_SHAPE, r->base.type->name,
                        &(tn_given){"input", x}, 1,
                        "elements %s of the packed input: expected (elements, "
                        "%" PRId64 ")",
                        tn__nn_shape_text(text, x), r->input_size);
        return false;
    }
    if (!check_state_of(r, x, "h0", h0, out_size(r), false, batch) ||
        !check_state_of(r, x, "c0", c0, r->hidden_size, false, batch))
        return false;
    h0 = reordered(initial_state(r, h0, x, batch, out_size(r), false), packed,
                   false);
    if (r->gates == 4)
        c0 = reordered(initial_state(r, c0, x, batch, r->hidden_size, false),
                       packed, false);
    if (!h0 || !run_layers(r, x, packed, h0, c0, out))
        return false;
    out[1] = reordered(out[1], packed, true);
    out[2] = reordered(out[2], packed, true);
    return true;
}

static tn_packed *call_packed(tn_module *module, tn_packed *input,
                              tn_tensor *h0, tn_tensor *c0, tn_tensor **out_h,
                              tn_tensor **out_c)
{
    tn_tensor *out[3] = {NULL}, *x = tn_packed_data(input);
    tn_scope *scope = tn_scope_open();
    tn_module_call at = tn_module_begin(module, &x, 1);
    tn__nn_recurrent *r = (tn__nn_recurrent *)at.self;
    if (!x || !run_packed_sequence(r, x, input, h0, c0, out))
        out[0] = NULL;
    tn_packed *made = NULL;
    if (tn_module_end(module, &at, out, r->gates == 4 ? 3 : 2))
        made = tn_packed_replace(input, out[0]);
    /* made holds a reference to out[0]. The final states are moved to the
     * caller's scope. */
    if (made && out_h)
        tn_keep(out[1]);
    if (made && out_c)
        tn_keep(out[2]);
    made = tn_scope_result(scope, made);
    if (made && out_h)
        *out_h = tn_scope_adopt(out[1]);
    if (made && out_c)
        *out_c = tn_scope_adopt(out[2]);
    return made;
}

static bool check_packed(tn_packed *input, const char *what)
{
    return tn_object_check_kind(input, "packed sequence", what, "input");
}

tn_packed *tn_nn_rnn_forward_packed(tn_module *rnn, tn_packed *input,
                                    tn_tensor *h0, tn_tensor **out_h)
{
    static const char what[] = "nn_rnn_forward_packed";
    if (!check_packed(input, what) ||
        !tn__nn_is_kind(rnn, &rnn_class, &gru_class, what) ||
        !tn__nn_tensor_or_null(h0, what, "h0"))
        return NULL;
    return call_packed(rnn, input, h0, NULL, out_h, NULL);
}

tn_packed *tn_nn_lstm_forward_packed(tn_module *lstm, tn_packed *input,
                                     tn_tensor *h0, tn_tensor *c0,
                                     tn_tensor **out_h, tn_tensor **out_c)
{
    static const char what[] = "nn_lstm_forward_packed";
    if (!check_packed(input, what) ||
        !tn__nn_is_kind(lstm, &lstm_class, NULL, what) ||
        !tn__nn_tensor_or_null(h0, what, "h0") ||
        !tn__nn_tensor_or_null(c0, what, "c0"))
        return NULL;
    return call_packed(lstm, input, h0, c0, out_h, out_c);
}

#define RECURRENT(function, class_name, gates, in_and_out)                     \
    TN_OPTIONS_TYPE(tn_nn_##function, "nn_" #function,                         \
                    "input_size, hidden_size", TN_NN_RNN_OPTIONS_LIST)         \
    static const tn_module_class function##_class = {                          \
        .size = sizeof function##_class,                                       \
        .name = class_name,                                                    \
        .bytes = sizeof(tn__nn_recurrent),                                     \
        .forward_list = forward,                                               \
        .signature = in_and_out,                                               \
        .describe = tn__nn_recurrent_describe};                                \
    tn_module *tn_nn_##function##_with(                                        \
        int64_t input_size, int64_t hidden_size,                               \
        const tn_nn_##function##_options *options)                             \
    {                                                                          \
        return make(&function##_class, tn_nn_##function##_type(), gates,       \
                    input_size, hidden_size, options);                         \
    }
RECURRENT(rnn, "RNN", 1, "input, h0? -> output, h_n")
RECURRENT(gru, "GRU", 3, "input, h0? -> output, h_n")
RECURRENT(lstm, "LSTM", 4, "input, h0?, c0? -> output, h_n, c_n")
