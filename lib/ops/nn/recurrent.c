/* recurrent.c: recurrent cells and layers (PyTorch's RNN, LSTM and GRU, and
 * their cells), composed of other operators.
 *
 * A layer multiplies the whole sequence by the input weights at once. Each time
 * step then adds the product of the hidden state and the hidden weights, and
 * runs one element-wise kernel.
 *
 * The operator `apart` returns all parts of a split. One call splits the
 * sequence into steps, and one call per step splits the gates. The gradient of
 * `apart` is a single cat. If the parts were separate views, the gradient of
 * each view would write the whole tensor.
 *
 * An LSTM whose tensors share one dtype is run by the operator lstm_sequence,
 * which splits nothing. */
#include <base/context.h>
#include <base/memory.h>
#include <ops/engine/native.h>

tn_status tn__run_apart(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_APART_INPUT);
    int64_t size = tn__call_int(call, TN__ARG_APART_SIZE);
    int64_t shape[TN_MAX_NDIM];
    int dim = tn__call_dim(call, TN__ARG_APART_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    if (!x->ndim || size < 1 || (x->shape[dim] - 1) / size >= TN__OP_MAX_OUTPUTS)
        return tn__fail(TN_ERR_ARGUMENT, "apart: {size} %lld does not cut a "
                        "dimension of %lld elements into 1 to %d parts",
                        (long long)size,
                        (long long)(x->ndim ? x->shape[dim] : 0),
                        TN__OP_MAX_OUTPUTS);
    for (int d = 0; d < x->ndim; d++)
        shape[d] = x->shape[d];
    for (int64_t at = 0; at < x->shape[dim]; at += size) {
        shape[dim] = x->shape[dim] - at < size ? x->shape[dim] - at : size;
        tn_tensor *part =
            tn__tensor_view(x, x->dtype, x->ndim, shape, x->stride,
                            x->offset + at * x->stride[dim]);
        if (!part)
            return TN_ERR_MEMORY;
        call->out[call->out_count++] = part;
    }
    return TN_OK;
}

int tn__split_parts(tn_tensor *x, int dim, int64_t size, tn_tensor **part)
{
    if (!x)
        return 0;
    const tn_value value[] = {tn__value_tensor(x), tn__value_int(dim),
                              tn__value_int(size)};
    int count = tn__op_run(&tn__op_table[TN__OP_ID_APART], value, 3, part,
                           TN__OP_MAX_OUTPUTS);
    return count > 0 ? count : 0;
}

tn_status tn__run_lstm_gates(tn__call *call)
{
    tn_tensor *gates = tn__call_tensor(call, TN__ARG_LSTM_GATES_GATES);
    tn_tensor *cell = tn__call_tensor(call, TN__ARG_LSTM_GATES_CELL);
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    int last = cell->ndim - 1;
    bool fits = last >= 0 && gates->ndim == cell->ndim &&
                cell->shape[last] > 0 &&
                gates->shape[last] == tn__size_mul(4, cell->shape[last]) &&
                tn__shape_equal(last, gates->shape, last, cell->shape);
    if (!fits)
        return tn__fail(TN_ERR_SHAPE, "lstm_gates: {gates} has shape %s; "
                        "expected the shape of {cell} %s with a last "
                        "dimension 4 times as large",
                        tn__shape_text(a, gates->ndim, gates->shape),
                        tn__shape_text(b, cell->ndim, cell->shape));
    tn_tensor *part[4], *out[2];
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    tn_status status = TN_ERR_MEMORY;
    if (tn__split_parts(gates, last, cell->shape[last], part) == 4) {
        const tn_value value[] = {
            tn__value_tensor(part[0]), tn__value_tensor(part[1]),
            tn__value_tensor(part[2]), tn__value_tensor(part[3]),
            tn__value_tensor(cell)};
        status = tn__op_run(&tn__op_table[TN__OP_ID_LSTM_GATES_APART], value,
                            5, out, 2);
    }
    for (int i = 0; i < 2 && status >= 0; i++)
        tn__give(call, tn__ref(out[i]));
    tn_scope_close(scope);
    return status < 0 ? tn_error_code() : TN_OK;
}

/* ---- one time step ------------------------------------------------------- */

enum cell { TANH, RELU, GRU, LSTM };

static int gates_of(enum cell kind)
{
    return kind == LSTM ? 4 : kind == GRU ? 3 : 1;
}

/* The hidden state h, and the cell state c of an LSTM. c is NULL for other
 * cells. */
typedef struct state {
    tn_tensor *h, *c;
} state;

/* The arguments of a call. An LSTM has one more argument than the other cells,
 * the cell state, so its later arguments have larger indices. */
typedef struct arguments {
    tn_tensor *x, *w_ih, *w_hh, *b_ih, *b_hh, *w_hr;
    tn_tensor *transposed; /* the transpose of w_hh, made once for all steps */
    state start;
    enum cell kind;
    int at; /* the index of the argument w_ih */
} arguments;

/* Returns h times the hidden weights, plus addend, which may be NULL. If no
 * dtype must be converted, one operator computes product and sum. */
static tn_tensor *plus_hidden(const arguments *a, tn_tensor *h,
                              tn_tensor *addend)
{
    if (!addend || tn__me.modes.autocast || h->dtype != addend->dtype) {
        h = tn_linear(h, a->w_hh, NULL);
        return addend ? tn_add(addend, h) : h;
    }
    const tn_value value[] = {tn__value_tensor(h),
                              tn__value_tensor(a->transposed),
                              tn__value_tensor(addend)};
    return tn__row(TN__OP_ID_MATMUL_ADD, value, 3);
}

/* Replaces the state *s by the next state. x is the input of this step times
 * the input weights, of shape (batch, gates * hidden). x includes both biases.
 * For GRU it includes only b_ih, because a gate uses b_hh separately. */
static bool step(const arguments *a, tn_tensor *x, state *s)
{
    const enum cell kind = a->kind;
    tn_tensor *part[7] = {NULL}, *more[3] = {NULL};
    tn_tensor *h = plus_hidden(a, s->h, kind == GRU ? a->b_hh : x);
    if (kind == TANH || kind == RELU) {
        s->h = kind == TANH ? tn_tanh(h) : tn_relu(h);
        return s->h != NULL;
    }
    int64_t hidden = a->w_hh->shape[0] / gates_of(kind);
    tn_value value[7];
    if (kind == GRU) {
        if (tn__split_parts(x, 1, hidden, part) != 3 ||
            tn__split_parts(h, 1, hidden, more) != 3)
            return false;
        for (int i = 0; i < 3; i++)
            part[3 + i] = more[i];
        part[6] = s->h;
        for (int i = 0; i < 7; i++)
            value[i] = tn__value_tensor(part[i]);
        s->h = tn__row(TN__OP_ID_GRU_GATES, value, 7);
        return s->h != NULL;
    }
    value[0] = tn__value_tensor(h);
    value[1] = tn__value_tensor(s->c);
    tn_tensor *out[2] = {NULL};
    if (!h || tn__op_run(&tn__op_table[TN__OP_ID_LSTM_GATES], value, 2, out,
                         2) < 0)
        return false;
    s->h = a->w_hr ? tn_linear(out[0], a->w_hr, NULL) : out[0];
    s->c = out[1];
    return s->h != NULL;
}

/* Returns x times the input weights plus b_ih and b_hh. For GRU only b_ih is
 * added, since step() adds b_hh. */
static tn_tensor *project_input(enum cell kind, tn_tensor *x, tn_tensor *w_ih,
                                tn_tensor *b_ih, tn_tensor *b_hh)
{
    if (kind != GRU && b_hh)
        b_ih = b_ih ? tn_add(b_ih, b_hh) : b_hh;
    return tn_linear(x, w_ih, b_ih);
}

/* ---- reading and checking the arguments ---------------------------------- */

static arguments read_arguments(const tn__call *call, enum cell kind)
{
    int at = kind == LSTM ? 3 : 2;
    return (arguments){
        .x = tn__call_tensor(call, 0), .w_ih = tn__call_tensor(call, at),
        .w_hh = tn__call_tensor(call, at + 1),
        .b_ih = tn__call_tensor(call, at + 2),
        .b_hh = tn__call_tensor(call, at + 3),
        .start = {tn__call_tensor(call, 1),
                  kind == LSTM ? tn__call_tensor(call, 2) : NULL},
        .kind = kind, .at = at};
}

static tn_status check_shape(const tn__call *call, int arg, const tn_tensor *x,
                             int ndim, int64_t a, int64_t b)
{
    const int64_t shape[] = {a, b};
    char have[TN__SHAPE_TEXT], need[TN__SHAPE_TEXT];
    if (!x || tn__shape_equal(x->ndim, x->shape, ndim, shape))
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: {%s} has shape %s; expected %s",
                    call->op->name, call->op->arg[arg].name,
                    tn__shape_text(have, x->ndim, x->shape),
                    tn__shape_text(need, ndim, shape));
}

/* Checks the shapes and dtypes of the arguments. a->x has `lead` dimensions
 * before the features: the batch, or the time and the batch. */
static tn_status check(const tn__call *call, const arguments *a, int lead)
{
    char text[TN__SHAPE_TEXT];
    int gates = gates_of(a->kind);
    if (a->x->ndim != lead + 1)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has shape %s; expected %s",
                        call->op->name,
                        tn__shape_text(text, a->x->ndim, a->x->shape),
                        lead == 1 ? "(batch, in)" : "(time, batch, in)");
    if (a->w_ih->ndim != 2 || a->w_ih->shape[0] % gates)
        return tn__fail(TN_ERR_SHAPE, "%s: {w_ih} has shape %s; expected (%d "
                        "hidden, in)", call->op->name,
                        tn__shape_text(text, a->w_ih->ndim, a->w_ih->shape),
                        gates);
    int64_t wide = a->w_ih->shape[0], hidden = wide / gates;
    int64_t batch = a->x->shape[lead - 1];
    int64_t out = a->w_hr ? a->w_hr->shape[0] : hidden;
    if (check_shape(call, a->at, a->w_ih, 2, wide, a->x->shape[lead]) < 0 ||
        check_shape(call, a->at + 1, a->w_hh, 2, wide, out) < 0 ||
        check_shape(call, a->at + 2, a->b_ih, 1, wide, 0) < 0 ||
        check_shape(call, a->at + 3, a->b_hh, 1, wide, 0) < 0 ||
        check_shape(call, 1, a->start.h, 2, batch, out) < 0 ||
        check_shape(call, 2, a->start.c, 2, batch, hidden) < 0)
        return tn_error_code();
    if (tn__me.modes.autocast) /* autocast converts in the products */
        return TN_OK;
    return tn__check_same_dtype(call->op->name, a->x, "input", a->w_ih,
                                call->op->arg[a->at].name);
}

/* ---- cells --------------------------------------------------------------- */

static tn_status run_cell(tn__call *call, enum cell kind)
{
    arguments a = read_arguments(call, kind);
    tn_status status = check(call, &a, 1);
    if (status < 0)
        return status;
    state s = a.start;
    tn_tensor *x = project_input(kind, a.x, a.w_ih, a.b_ih, a.b_hh);
    a.transposed = tn_t(a.w_hh);
    if (!x || !step(&a, x, &s))
        return tn_error_code();
    tn__give(call, s.h);
    return kind == LSTM ? tn__give(call, s.c) : TN_OK;
}

tn_status tn__run_rnn_tanh_cell(tn__call *call)
{
    return run_cell(call, TANH);
}

tn_status tn__run_rnn_relu_cell(tn__call *call)
{
    return run_cell(call, RELU);
}

tn_status tn__run_gru_cell(tn__call *call)
{
    return run_cell(call, GRU);
}

tn_status tn__run_lstm_cell(tn__call *call)
{
    return run_cell(call, LSTM);
}

/* ---- layers over whole sequences ----------------------------------------- */

/* Runs `count` steps of a layer, from state *s, which is updated. x[t] is the
 * projected input and out[t] the output of step t, both of shape (1, batch,
 * ...). Each step has a scope of its own for its intermediate tensors. */
static bool run_steps(const arguments *a, tn_tensor *const *x, int count,
                      bool reverse, state *s, tn_tensor **out)
{
    for (int i = 0; i < count; i++) {
        int t = reverse ? count - 1 - i : i;
        tn_scope *scope = tn_scope_open();
        state next = *s;
        bool fine =
            scope && step(a, tn_squeeze(x[t], .dim = 0), &next);
        out[t] = fine ? tn_unsqueeze(next.h, 0) : NULL;
        if (out[t]) {
            tn_keep(next.h);
            tn_keep(next.c);
            tn_keep(out[t]);
        }
        tn_scope_close(scope);
        if (!out[t])
            return false;
        tn_scope_adopt(next.h);
        tn_scope_adopt(next.c);
        tn_scope_adopt(out[t]);
        *s = next;
    }
    return true;
}

static tn_tensor *concatenate(tn_tensor *const *part, int count)
{
    const tn_value value[] = {tn__value_tensors(part, count),
                              tn__value_int(0)};
    return tn__row(TN__OP_ID_CAT, value, 2);
}

/* Runs all steps of a layer on x, the projected input (time, batch, ...). One
 * call of `apart` splits at most MOST steps, so a longer sequence is first
 * split into blocks. */
static tn_tensor *run_blocks(const arguments *a, tn_tensor *x, bool reverse,
                             state *s)
{
    enum { MOST = TN__OP_MAX_OUTPUTS };
    tn_tensor *block[MOST], *part[MOST], *out[MOST], *done[MOST];
    int64_t size = (x->shape[0] + MOST - 1) / MOST;
    int blocks = tn__split_parts(x, 0, size > MOST ? size : MOST, block);
    for (int i = 0; i < blocks; i++) {
        int b = reverse ? blocks - 1 - i : i;
        if (block[b]->shape[0] > MOST) {
            done[b] = run_blocks(a, block[b], reverse, s);
        } else {
            int count = tn__split_parts(block[b], 0, 1, part);
            done[b] = count && run_steps(a, part, count, reverse, s, out)
                          ? concatenate(out, count)
                          : NULL;
        }
        if (!done[b])
            return NULL;
    }
    return blocks == 1 ? done[0] : blocks ? concatenate(done, blocks) : NULL;
}

/* ---- LSTM, a whole sequence as one operator ------------------------------ */

/* Returns whether all tensors of the call have the same dtype, float32 or
 * float64, and none is empty, as lstm_sequence requires. */
static bool is_uniform(const arguments *a)
{
    const tn_tensor *x[] = {a->x, a->w_ih, a->w_hh, a->b_ih, a->b_hh,
                            a->start.h, a->start.c};
    bool fits = a->x->dtype == TN_F32 || a->x->dtype == TN_F64;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        fits = fits && (!x[i] || (x[i]->dtype == a->x->dtype && x[i]->numel));
    return fits;
}

/* Returns the transpose of w, with 16 unused elements after each row. Without
 * them, if the hidden size is a power of two, the rows would map to the same
 * few sets of a cache and evict each other in each of the many small
 * products. */
static tn_tensor *padded_transpose(tn_tensor *w)
{
    enum { APART = 16 };
    tn_tensor *wide = tn_empty(tn_dims(w->shape[1], w->shape[0] + APART),
                               .dtype = w->dtype,
                               .device = w->storage->device);
    tn_tensor *transposed = tn_narrow(wide, 1, 0, w->shape[0]);
    bool fine =
        transposed && tn__copy_into(transposed, tn_t(w), "lstm_layer") >= 0;
    return fine ? transposed : NULL;
}

/* Runs the steps of lstm_sequence. gates, of shape (time, batch, 4 * hidden),
 * holds the projected input of all steps. Each step adds the product of its
 * hidden state and the hidden weights to its gates, and writes its results into
 * out and cells. The views of a step are made once and moved from step to step,
 * so a step allocates nothing. */
static tn_status run_sequence(const arguments *a, tn_tensor *gates,
                              tn_tensor *out, tn_tensor *cells, bool reverse)
{
    const int64_t count = gates->shape[0], hidden = cells->shape[2];
    tn_tensor *transposed = padded_transpose(a->w_hh);
    tn_tensor *g = tn_select(gates, 0, 0), *part[4];
    tn_tensor *h[2] = {tn_select(out, 0, 0), tn_select(out, 0, 0)};
    tn_tensor *c[2] = {tn_select(cells, 0, 0), tn_select(cells, 0, 0)};
    if (!transposed || !c[1] || tn__split_parts(g, 1, hidden, part) != 4)
        return tn_error_code();
    for (int64_t i = 0; i < count; i++) {
        const int64_t t = reverse ? count - 1 - i : i;
        const int64_t before = reverse ? t + 1 : t - 1;
        g->offset = gates->offset + t * gates->stride[0];
        for (int k = 0; k < 4; k++)
            part[k]->offset = g->offset + k * hidden;
        h[0]->offset = out->offset + before * out->stride[0];
        c[0]->offset = cells->offset + before * cells->stride[0];
        h[1]->offset = out->offset + t * out->stride[0];
        c[1]->offset = cells->offset + t * cells->stride[0];
        const tn_value product[] = {tn__value_tensor(i ? h[0] : a->start.h),
                                    tn__value_tensor(transposed),
                                    tn__value_tensor(g), tn__value_float(1)};
        const tn_value value[] = {
            tn__value_tensor(part[0]), tn__value_tensor(part[1]),
            tn__value_tensor(part[2]), tn__value_tensor(part[3]),
            tn__value_tensor(i ? c[0] : a->start.c)};
        tn_tensor *const into[] = {h[1], c[1]};
        if (!tn__row(TN__OP_ID_MATMUL_INTO, product, 4) ||
            tn__op_run_into(&tn__op_table[TN__OP_ID_LSTM_GATES_APART], value,
                            5, into, 2) < 0)
            return tn_error_code();
    }
    return TN_OK;
}

/* Returns the projected input of all steps, of shape (time, batch, 4 * hidden).
 * A single product computes it, so x must be contiguous. */
static tn_tensor *project_inputs(const arguments *a)
{
    const tn_tensor *x = a->x;
    const tn_value value[] = {
        tn__value_tensor(tn_reshape(a->x, tn_dims(-1, x->shape[2]))),
        tn__value_tensor(tn_t(a->w_ih)), tn__value_optional(a->b_ih)};
    tn_tensor *y = a->b_ih ? tn__row(TN__OP_ID_MATMUL_ADD, value, 3)
                           : tn__row(TN__OP_ID_MATMUL, value, 2);
    return tn_reshape(y, tn_dims(x->shape[0], x->shape[1], a->w_ih->shape[0]));
}

tn_status tn__run_lstm_sequence(tn__call *call)
{
    arguments a = read_arguments(call, LSTM);
    tn_status status = check(call, &a, 2);
    if (status < 0)
        return status;
    if (!is_uniform(&a))
        return tn__fail(TN_ERR_DTYPE, "%s: the tensors are empty or differ in "
                        "dtype, which this operator does not support: call "
                        "lstm_layer", call->op->name);
    tn_device *device = a.x->storage->device;
    int64_t shape[] = {a.x->shape[0], a.x->shape[1], a.start.c->shape[1]};
    for (int i = 0; i < 2; i++)
        if (tn__give(call, tn__tensor_new(device, a.x->dtype, 3, shape,
                                          call->op->name)) < 0)
            return tn_error_code();
    tn_scope *scope = tn_scope_open();
    tn_tensor *gates = scope ? project_inputs(&a) : NULL;
    status = !gates ? tn_error_code()
                    : run_sequence(&a, gates, call->out[0], call->out[1],
                                   tn__call_int(call,
                                                TN__ARG_LSTM_SEQUENCE_REVERSE));
    if (status >= 0)
        tn__give(call, tn__ref(gates));
    tn_scope_close(scope);
    return status;
}

static tn_status run_whole(tn__call *call, const arguments *a, bool reverse)
{
    const int64_t last = reverse ? 0 : a->x->shape[0] - 1;
    tn_tensor *bias = a->b_ih && a->b_hh ? tn_add(a->b_ih, a->b_hh)
                      : a->b_ih          ? a->b_ih
                                         : a->b_hh;
    const tn_value value[] = {
        tn__value_tensor(a->x), tn__value_tensor(a->start.h),
        tn__value_tensor(a->start.c), tn__value_tensor(a->w_ih),
        tn__value_tensor(a->w_hh), tn__value_optional(bias),
        tn__value_bool(reverse)};
    tn_tensor *out[3] = {NULL};
    if (tn__op_run(&tn__op_table[TN__OP_ID_LSTM_SEQUENCE], value, 7, out, 3) <
        0)
        return tn_error_code();
    /* The last states are copies. So a program that holds them does not hold
     * the whole sequence in memory, and writing into them does not change the
     * sequence. */
    tn__give(call, out[0]);
    tn_status status = tn__give(call, tn_clone(tn_select(out[0], 0, last)));
    return status < 0
               ? status
               : tn__give(call, tn_clone(tn_select(out[1], 0, last)));
}

static tn_status run_layer(tn__call *call, enum cell kind, int reverse_arg)
{
    arguments a = read_arguments(call, kind);
    if (kind == LSTM)
        a.w_hr = tn__call_tensor(call, TN__ARG_LSTM_LAYER_W_HR);
    tn_status status = check(call, &a, 2);
    if (status < 0)
        return status;
    if (a.x->shape[0] == 0)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has no time steps; "
                        "expected at least one", call->op->name);
    if (kind == LSTM && !a.w_hr && !tn__me.modes.autocast && is_uniform(&a))
        return run_whole(call, &a, tn__call_int(call, reverse_arg));
    a.transposed = tn_t(a.w_hh);
    state s = a.start;
    tn_tensor *x = project_input(kind, a.x, a.w_ih, a.b_ih, a.b_hh);
    tn_tensor *out = x ? run_blocks(&a, x, tn__call_int(call, reverse_arg), &s)
                       : NULL;
    if (!out)
        return tn_error_code();
    tn__give(call, out);
    tn__give(call, s.h);
    return kind == LSTM ? tn__give(call, s.c) : TN_OK;
}

tn_status tn__run_rnn_tanh_layer(tn__call *call)
{
    return run_layer(call, TANH, TN__ARG_RNN_TANH_LAYER_REVERSE);
}

tn_status tn__run_rnn_relu_layer(tn__call *call)
{
    return run_layer(call, RELU, TN__ARG_RNN_RELU_LAYER_REVERSE);
}

tn_status tn__run_gru_layer(tn__call *call)
{
    return run_layer(call, GRU, TN__ARG_GRU_LAYER_REVERSE);
}

tn_status tn__run_lstm_layer(tn__call *call)
{
    return run_layer(call, LSTM, TN__ARG_LSTM_LAYER_REVERSE);
}
