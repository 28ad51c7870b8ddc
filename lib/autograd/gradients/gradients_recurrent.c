/* gradients_recurrent.c: gradients of recurrent layers: of the gates of one
 * step, of whole sequences, and of `apart`, which splits a tensor into equal
 * parts. */
#include <autograd/autograd.h>
#include <base/memory.h>
#include <ops/engine/native.h>
#include <ops/table.h>
#include <tenon/ops.h>

/* The gradient of `apart`: concatenates the gradients of all parts, with zeros
 * for parts that have none. */
TN__GRADIENT(tn__grad_apart)
{
    int dim = tn__node_dim(node, TN__ARG_APART_DIM, 0);
    int64_t size = tn__node_value(node, TN__ARG_APART_SIZE)->of.i;
    tn_dims_list shape = tn__node_shape(node, 0);
    dim += dim < 0 ? shape.count : 0;
    int64_t whole = shape.dim[dim];
    int count = 0;
    tn_tensor *part[TN__OP_MAX_OUTPUTS];
    for (int64_t at = 0; at < whole; at += size, count++) {
        shape.dim[dim] = whole - at < size ? whole - at : size;
        part[count] = g[count] ? g[count]
                               : tn_zeros(shape,
                                          .dtype = tn__node_dtype(node, 0),
                                          .device = tn__node_device(node, 0));
        if (!part[count])
            return tn_error_code();
    }
    const tn_value value[] = {tn__value_tensors(part, count),
                              tn__value_int(dim)};
    out[0] = tn__op_run1(&tn__op_table[TN__OP_ID_CAT], value, 2);
    return out[0] ? TN_OK : tn_error_code();
}

static tn_tensor *or_zeros(tn_tensor *g, tn_tensor *like)
{
    return g ? g : tn_zeros_like(like);
}

/* One kernel computes the gradients of all gates and of the cell, so that each
 * gate's function is computed only once. Without create_graph the kernel writes
 * the gradients of all gates into one tensor, so that they need not be
 * concatenated. */
TN__GRADIENT(tn__grad_lstm_gates)
{
    tn_tensor *gates = tn__node_input(node, TN__ARG_LSTM_GATES_GATES);
    tn_tensor *cell = tn__node_input(node, TN__ARG_LSTM_GATES_CELL);
    tn_tensor *c = tn__node_output(node, 1), *part[4], *to[5];
    if (!gates || !cell || !c)
        return tn_error_code();
    int last = cell->ndim - 1;
    tn_value value[8];
    if (tn__split_parts(gates, last, cell->shape[last], part) != 4)
        return tn_error_code();
    for (int i = 0; i < 4; i++)
        value[i] = tn__value_tensor(part[i]);
    tn_tensor *const rest[] = {cell, c, or_zeros(g[0], c), or_zeros(g[1], c)};
    for (int i = 0; i < 4; i++) {
        if (!rest[i])
            return tn_error_code();
        value[4 + i] = tn__value_tensor(rest[i]);
    }
    const tn_op *back = &tn__op_table[TN__OP_ID_LSTM_GATES_BACK];
    if (tn_grad_mode() || gates->dtype != cell->dtype) {
        if (tn__op_run(back, value, 8, to, 5) < 0)
            return tn_error_code();
        out[0] = tn_cat(to, 4, last);
        out[1] = to[4];
        return out[0] ? TN_OK : tn_error_code();
    }
    out[0] = tn_empty(tn__node_shape(node, 0), .dtype = gates->dtype,
                      .device = gates->storage->device);
    out[1] = to[4] = tn_empty(tn__node_shape(node, 1), .dtype = cell->dtype,
                              .device = cell->storage->device);
    if (!out[0] || !out[1] ||
        tn__split_parts(out[0], last, cell->shape[last], to) != 4)
        return tn_error_code();
    return tn__op_run_into(back, value, 8, to, 5);
}

/* ---- a whole sequence --------------------------------------------------- */

/* The state of backpropagation through the time steps of a sequence. */
typedef struct sequence {
    tn_tensor *const *g;            /* gradients of the outputs */
    tn_tensor *cell, *w_hh, *cells, *gates;
    tn_tensor *d_gates, *d_hidden, *d_cell; /* gradients of the gates of all
                                             * steps, and of the hidden and cell
                                             * state before the first step */
    int64_t count;                  /* number of steps */
    bool reverse, wants_hidden;
} sequence;

/* Returns the time index of the i-th step of backpropagation, which starts with
 * the last step that the forward call computed. */
static int64_t step_at(const sequence *s, int64_t i)
{
    return s->reverse ? i : s->count - 1 - i;
}

/* Adds step t of the gradient of output o to *sum, the gradient that the
 * following step has computed. A NULL gradient or *sum means zero. Returns
 * false on failure. */
static bool add_step_cotangent(const sequence *s, int o, int64_t t,
                               tn_tensor **sum)
{
    if (!s->g[o])
        return true;
    tn_tensor *own = tn_select(s->g[o], 0, t);
    *sum = own && *sum ? tn_add(own, *sum) : own;
    return *sum != NULL;
}

/* Computes the i-th step of backpropagation by operators. On entry *gh and *gc
 * are the gradients of the hidden and cell state after the time step, on return
 * those of the states before it. Returns the gradient of the gates. */
static tn_tensor *step_back(const sequence *s, int64_t i, tn_tensor **gh,
                            tn_tensor **gc)
{
    const int64_t t = step_at(s, i);
    tn_tensor *part[4], *to[5], *gate = tn_select(s->gates, 0, t), *whole;
    if (!add_step_cotangent(s, 0, t, gh) || !add_step_cotangent(s, 1, t, gc) ||
        tn__split_parts(gate, 1, s->cell->shape[1], part) != 4)
        return NULL;
    tn_tensor *const rest[] = {
        i + 1 < s->count ? tn_select(s->cells, 0, step_at(s, i + 1)) : s->cell,
        tn_select(s->cells, 0, t), or_zeros(*gh, s->cell),
        or_zeros(*gc, s->cell)};
    tn_value value[8];
    for (int k = 0; k < 4; k++) {
        if (!rest[k])
            return NULL;
        value[k] = tn__value_tensor(part[k]);
        value[4 + k] = tn__value_tensor(rest[k]);
    }
    if (tn__op_run(&tn__op_table[TN__OP_ID_LSTM_GATES_BACK], value, 8, to, 5) <
        0)
        return NULL;
    whole = tn_cat(to, 4, 1);
    if (!whole || !add_step_cotangent(s, 2, t, &whole))
        return NULL;
    *gh = tn_matmul(whole, s->w_hh);
    *gc = to[4];
    return *gh ? whole : NULL;
}

/* Backpropagates through all steps by operators that can be differentiated
 * again, for create_graph. */
static tn_status backward_by_operators(sequence *s)
{
    tn_tensor **d_gate = tn__calloc((size_t)s->count, sizeof *d_gate);
    if (!d_gate)
        return tn_error_code();
    bool fine = true;
    for (int64_t i = 0; fine && i < s->count; i++) {
        const int64_t t = step_at(s, i);
        d_gate[t] = step_back(s, i, &s->d_hidden, &s->d_cell);
        fine = d_gate[t] != NULL;
    }
    if (fine)
        s->d_gates = tn_stack(d_gate, (int)s->count, 0);
    tn__free(d_gate);
    return s->d_gates ? TN_OK : tn_error_code();
}

static tn_tensor *empty_as(const tn_tensor *x)
{
    return tn_empty(tn_dims(x->shape[0], x->shape[1], x->shape[2]),
                    .dtype = x->dtype, .device = x->storage->device);
}

/* Backpropagates through all steps and writes the results in place. The same
 * few view tensors are moved from each time step to the next, so that no tensor
 * is made for a step. */
static tn_status backward_in_place(sequence *s)
{
    const int64_t hidden = s->cell->shape[1];
    tn_tensor *dh = s->g[0] ? empty_as(s->cells)
                            : tn_zeros_like(s->cells);
    tn_tensor *dc[2] = {tn_zeros_like(s->cell), tn_zeros_like(s->cell)};
    tn_tensor *gate = tn_select(s->gates, 0, 0), *part[4], *to[5];
    tn_tensor *c[2] = {tn_select(s->cells, 0, 0), tn_select(s->cells, 0, 0)};
    s->d_gates = empty_as(s->gates);
    s->d_hidden = tn_zeros_like(s->cell);
    tn_tensor *d_gate = tn_select(s->d_gates, 0, 0);
    tn_tensor *gh[2] = {tn_select(dh, 0, 0), tn_select(dh, 0, 0)};
    if ((s->g[0] && !tn_copy_(dh, s->g[0])) || !s->d_hidden || !dc[0] ||
        !dc[1] || !c[0] || !c[1] || !gh[0] || !gh[1] ||
        tn__split_parts(gate, 1, hidden, part) != 4 ||
        tn__split_parts(d_gate, 1, hidden, to) != 4)
        return tn_error_code();
    for (int64_t i = 0; i < s->count; i++) {
        const int64_t t = step_at(s, i), before = step_at(s, i + 1);
        const bool last = i + 1 == s->count;
        const int64_t at = t * s->gates->stride[0];
        d_gate->offset = s->d_gates->offset + at;
        for (int k = 0; k < 4; k++) {
            part[k]->offset = s->gates->offset + at + k * hidden;
            to[k]->offset = d_gate->offset + k * hidden;
        }
        c[0]->offset = s->cells->offset + before * s->cells->stride[0];
        c[1]->offset = s->cells->offset + t * s->cells->stride[0];
        gh[0]->offset = dh->offset + before * dh->stride[0];
        gh[1]->offset = dh->offset + t * dh->stride[0];
        to[4] = dc[1 - i % 2];
        const tn_value value[] = {
            tn__value_tensor(part[0]), tn__value_tensor(part[1]),
            tn__value_tensor(part[2]), tn__value_tensor(part[3]),
            tn__value_tensor(last ? s->cell : c[0]), tn__value_tensor(c[1]),
            tn__value_tensor(gh[1]), tn__value_tensor(dc[i % 2])};
        const tn_value product[] = {
            tn__value_tensor(d_gate), tn__value_tensor(s->w_hh),
            tn__value_tensor(last ? s->d_hidden : gh[0]), tn__value_float(1)};
        if ((s->g[1] && !tn_add_(dc[i % 2], tn_select(s->g[1], 0, t))) ||
            tn__op_run_into(&tn__op_table[TN__OP_ID_LSTM_GATES_BACK], value, 8,
                            to, 5) < 0 ||
            (s->g[2] && !tn_add_(d_gate, tn_select(s->g[2], 0, t))) ||
            ((!last || s->wants_hidden) &&
             !tn__op_run1(&tn__op_table[TN__OP_ID_MATMUL_INTO], product, 4)))
            return tn_error_code();
    }
    s->d_cell = to[4];
    return TN_OK;
}

/* Returns the hidden state before each step, as a matrix of shape
 * (time * batch, hidden). */
static tn_tensor *states_before(const tn__node *node, const sequence *s)
{
    enum { HIDDEN = TN__ARG_LSTM_SEQUENCE_HIDDEN };
    tn_tensor *h = tn_unsqueeze(tn__node_input(node, HIDDEN), 0);
    tn_tensor *out = tn__node_output(node, 0);
    tn_tensor *rest = tn_narrow(out, 0, s->reverse, s->count - 1);
    tn_tensor *part[2] = {s->reverse ? rest : h, s->reverse ? h : rest};
    return tn_reshape(tn_cat(part, 2, 0), tn_dims(-1, s->cell->shape[1]));
}

/* Backpropagation computes the gradients of the gates of all steps. The
 * gradients of the input and of each weight are then one matrix product with
 * them. */
TN__GRADIENT(tn__grad_lstm_sequence)
{
    enum {
        INPUT = TN__ARG_LSTM_SEQUENCE_INPUT,
        HIDDEN = TN__ARG_LSTM_SEQUENCE_HIDDEN,
        CELL = TN__ARG_LSTM_SEQUENCE_CELL,
        W_IH = TN__ARG_LSTM_SEQUENCE_W_IH,
        W_HH = TN__ARG_LSTM_SEQUENCE_W_HH,
        BIAS = TN__ARG_LSTM_SEQUENCE_BIAS
    };
    const int64_t in = tn__node_size(node, INPUT, 2);
    const bool reverse =
        tn__node_value(node, TN__ARG_LSTM_SEQUENCE_REVERSE)->of.i;
    sequence s = {.g = g, .cell = tn__node_input(node, CELL),
                  .w_hh = tn__node_input(node, W_HH),
                  .cells = tn__node_output(node, 1),
                  .gates = tn__node_output(node, 2), .reverse = reverse,
                  .count = tn__node_size(node, INPUT, 0),
                  .wants_hidden = tn__node_wants(node, HIDDEN)};
    if (!s.cell || !s.w_hh || !s.cells || !s.gates)
        return tn_error_code();
    tn_status status =
        tn_grad_mode() ? backward_by_operators(&s) : backward_in_place(&s);
    if (status < 0)
        return status;
    out[HIDDEN] = s.d_hidden;
    out[CELL] = s.d_cell;
    tn_tensor *rows = tn_reshape(s.d_gates, tn_dims(-1, s.gates->shape[2]));
    tn_tensor *across = tn_t(rows);
    if (tn__node_wants(node, INPUT)) {
        out[INPUT] = tn_reshape(tn_matmul(rows, tn__node_input(node, W_IH)),
                                tn__node_shape(node, INPUT));
        if (!out[INPUT])
            return tn_error_code();
    }
    if (tn__node_wants(node, W_IH)) {
        tn_tensor *x = tn__node_input(node, INPUT);
        out[W_IH] = tn_matmul(across, tn_reshape(x, tn_dims(-1, in)));
        if (!out[W_IH])
            return tn_error_code();
    }
    if (tn__node_wants(node, W_HH)) {
        out[W_HH] = tn_matmul(across, states_before(node, &s));
        if (!out[W_HH])
            return tn_error_code();
    }
    if (tn__node_wants(node, BIAS)) {
        out[BIAS] = tn_sum(rows, .dim = 0);
        if (!out[BIAS])
            return tn_error_code();
    }
    return rows ? TN_OK : tn_error_code();
}
