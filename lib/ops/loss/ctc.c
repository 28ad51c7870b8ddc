/* ctc.c: connectionist temporal classification (PyTorch's ctc_loss): Graves and
 * others, ICML 2006, "Connectionist Temporal Classification: Labelling
 * Unsegmented Sequence Data with Recurrent Neural Networks", equations 6 to 16.
 *
 * A target of length L becomes 2 L + 1 states: its labels with a blank before,
 * between and after them. A path is a sequence of states, one for each time.
 * alpha[t][n][s] is the likelihood of all paths of sequence n that lead to
 * state s at time t. beta[t][n][s] is the likelihood of all paths that lead on
 * from there. Both are computed in logarithms, by recursions over time. Each
 * time step is one kernel launch over all sequences and states. */
#include <math.h>
#include <ops/loss/loss.h>
#include <ops/engine/native.h>

/* The number of padding columns before and after the states. Because of them,
 * the first and last states need no special cases. */
enum { PAD = 2 };

/* Kernel text that computes sum = log(e^a + e^b + e^c), also if all three are
 * minus infinity. */
#define LOG_SUM                                                               \
    "let m = max(max(a, b), c);"                                              \
    "let top = where(m == -inf, like(0, m), m);"                              \
    "let sum = top + log(exp(a - top) + exp(b - top) + exp(c - top));"

static tn__shape state_shape(const tn_tensor *log_probs, int64_t count)
{
    return (tn__shape){.ndim = 2, .dim = {log_probs->shape[1], count}};
}

/* Adds the operand x (..., N, columns). The kernel sees its last two dimensions
 * as (N, states), where state s is column s + `column`. `at` is the offset in
 * x, in elements, of the (N, columns) matrix that is read. */
static tn__operand *add_columns(tn__space *space, tn_tensor *x, int64_t at,
                                int64_t column)
{
    tn__operand *operand = tn__space_add_bare(space, x);
    operand->offset = at + column * x->stride[x->ndim - 1];
    operand->stride[0] = x->stride[x->ndim - 2];
    operand->stride[1] = x->stride[x->ndim - 1];
    return operand;
}

/* Adds the operand log_probs[t] (N, C). The kernel reads it by an index, the
 * number of the class. */
static void add_classes(tn__space *space, tn_tensor *log_probs, int64_t t)
{
    tn__operand *operand = tn__space_add_bare(space, log_probs);
    operand->offset = t * log_probs->stride[0];
    operand->stride[0] = log_probs->stride[1];
    operand->index_stride[0] = log_probs->stride[2];
    operand->index_extent[0] = log_probs->shape[2];
}

/* Adds the operand x (N), which has one number for each sequence. */
static void add_lengths(tn__space *space, tn_tensor *x)
{
    tn__space_add_bare(space, x)->stride[0] = x->stride[0];
}

/* Checks the arguments that the operators of this file share. x is (T, N, C).
 * The labels are (N, states), including blanks and padding. The lengths are (N)
 * of int64. */
static tn_status check_parts(const tn_tensor *x, const tn_tensor *label,
                             const tn_tensor *input_length,
                             const tn_tensor *target_length)
{
    bool fits = x->ndim == 3 && tn_dtype_bytes(x->dtype) >= 4 &&
                tn_dtype_is_floating(x->dtype) && label->ndim == 2 &&
                label->shape[0] == x->shape[1] &&
                label->shape[1] > 2 * PAD && label->shape[1] % 2 == 1 &&
                label->dtype == TN_I64;
    const tn_tensor *const lengths[] = {input_length, target_length};
    for (int i = 0; i < 2 && fits; i++)
        fits = lengths[i]->ndim == 1 && lengths[i]->dtype == TN_I64 &&
               lengths[i]->shape[0] == x->shape[1];
    return fits ? TN_OK
                : tn__fail(TN_ERR_SHAPE, "ctc_loss: the tensors do not fit "
                           "each other; expected {log_probs} (T, N, C), and "
                           "int64 labels (N, 2 S + 5) and lengths (N)");
}

/* Fills `size` elements of dst along dimension dim, from `start` on, through a
 * view. */
static tn_status fill_part(const tn_tensor *dst, int dim, int64_t start,
                           int64_t size, double number)
{
    tn_tensor part = {.storage = dst->storage, .dtype = dst->dtype,
                      .ndim = dst->ndim,
                      .offset = dst->offset + start * dst->stride[dim]};
    part.numel = 1;
    for (int d = 0; d < dst->ndim; d++) {
        part.shape[d] = d == dim ? size : dst->shape[d];
        part.stride[d] = dst->stride[d];
        part.numel *= part.shape[d];
    }
    return part.numel ? tn__fill(&part, number, "ctc_loss") : TN_OK;
}

/* ---- labels of states ---------------------------------------------------- */

tn_status tn__run_ctc_labels(tn__call *call)
{
    static tn__formula formula = TN__FORMULA(
        "labels(target, start, length, p: offset; blank: i64) ="
        "let s = p - 2; let at = s >> 1;"
        "let named = (s & 1) == 1 && s > 0 && at < length;"
        "let label = i64(target[where(named, start + at, -1); 0]);"
        "where(named, label, blank)");
    tn_tensor *target = tn__call_tensor(call, TN__ARG_CTC_LABELS_TARGETS);
    tn_tensor *start = tn__call_tensor(call, TN__ARG_CTC_LABELS_STARTS);
    tn_tensor *length = tn__call_tensor(call, TN__ARG_CTC_LABELS_LENGTHS);
    int64_t most = tn__call_int(call, TN__ARG_CTC_LABELS_MOST);
    if (target->ndim < 1 || target->ndim > 2 || start->ndim != 1 ||
        length->ndim != 1 || start->shape[0] != length->shape[0] ||
        (target->ndim == 2 && target->shape[0] != length->shape[0]) ||
        start->dtype != TN_I64 || length->dtype != TN_I64 || most < 0 ||
        most > INT32_MAX)
        return tn__fail(TN_ERR_SHAPE, "ctc_loss: the tensors do not fit each "
                        "other; expected {targets} (N, S) or 1-d, and int64 "
                        "{starts} and {lengths} (N)");
    const tn_dtype dtype[] = {target->dtype, TN_I64, TN_I64, 0};
    const tn__kernel *kernel = tn__formula_kernel(&formula, dtype);
    if (!kernel)
        return tn_error_code();
    tn__shape shape = {.ndim = 2,
                       .dim = {length->shape[0], 2 * most + 1 + 2 * PAD}};
    tn_tensor *out = tn__tensor_new(length->storage->device, TN_I64, 2,
                                    shape.dim, "ctc_loss");
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    tn__operand *from = tn__space_add_bare(&space, target);
    from->stride[0] = target->ndim == 2 ? target->stride[0] : 0;
    from->index_stride[0] = target->stride[target->ndim - 1];
    from->index_extent[0] = target->shape[target->ndim - 1];
    add_lengths(&space, start);
    add_lengths(&space, length);
    tn__space_add_bare(&space, NULL)->stride[1] = 1;
    tn__space_add_out(&space, &shape, 0, false, false, out);
    const tn_number param = {.i = tn__call_int(call, TN__ARG_CTC_LABELS_BLANK)};
    return tn__kernel_launch(out->storage->device, kernel, &space, &param,
                             "ctc_loss");
}

/* ---- the forward pass ---------------------------------------------------- */

/* Computes alpha[t + 1] from alpha[t]. A state is reached from itself, from the
 * state before it, and from the second state before it if that has another
 * label. The array's index is one more than the time: alpha[t + 1] holds the
 * values of time t. alpha[0] holds those before the first time, when only the
 * first state is possible. */
static tn_status forward_step(tn_tensor *log_probs, tn_tensor *label,
                              tn_tensor *alpha, int64_t t)
{
    static tn__formula formula = TN__FORMULA(
        "step(a, b, skip, x, label, other) ="
        "let c = where(label == other, like(-inf, a), skip);" LOG_SUM
        "sum + x[label]");
    const tn_dtype f = log_probs->dtype;
    const tn_dtype dtype[] = {f, f, f, f, TN_I64, TN_I64};
    const tn__kernel *kernel = tn__formula_kernel(&formula, dtype);
    if (!kernel)
        return tn_error_code();
    tn__shape shape = state_shape(log_probs, alpha->shape[2] - PAD);
    int64_t at = t * alpha->stride[0];
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    for (int column = PAD; column >= 0; column--)
        add_columns(&space, alpha, at, column);
    add_classes(&space, log_probs, t);
    add_columns(&space, label, 0, PAD);
    add_columns(&space, label, 0, 0);
    add_columns(&space, alpha, at + alpha->stride[0], PAD);
    return tn__kernel_launch(alpha->storage->device, kernel, &space, NULL,
                             "ctc_loss");
}

/* Computes the loss: minus the logarithm of the sum of alpha over the last two
 * states, at the last time of each sequence. An invalid length makes the kernel
 * read at an index out of range, which the device reports. */
static tn_status final_loss(tn_tensor *alpha, tn_tensor *input_length,
                            tn_tensor *target_length, tn_tensor *loss)
{
    static tn__formula formula = TN__FORMULA(
        "loss(last, before, t, length) ="
        "let a = last[t, length]; let b = before[t, length];"
        "let c = like(-inf, a);" LOG_SUM "-sum");
    const tn_dtype f = alpha->dtype;
    const tn_dtype dtype[] = {f, f, TN_I64, TN_I64};
    const tn__kernel *kernel = tn__formula_kernel(&formula, dtype);
    if (!kernel)
        return tn_error_code();
    tn__shape shape = {.ndim = 1, .dim = {loss->shape[0]}};
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    for (int column = PAD; column >= PAD - 1; column--) {
        tn__operand *from = tn__space_add_bare(&space, alpha);
        from->offset = column;
        from->stride[0] = alpha->stride[1];
        from->index_stride[0] = alpha->stride[0];
        from->index_extent[0] = alpha->shape[0];
        from->index_stride[1] = 2;
        from->index_extent[1] = (alpha->shape[2] - PAD + 1) / 2;
    }
    add_lengths(&space, input_length);
    add_lengths(&space, target_length);
    tn__space_add_out(&space, &shape, 0, false, false, loss);
    return tn__kernel_launch(loss->storage->device, kernel, &space, NULL,
                             "ctc_loss");
}

tn_status tn__run_ctc_forward(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_CTC_FORWARD_LOG_PROBS);
    tn_tensor *label = tn__call_tensor(call, TN__ARG_CTC_FORWARD_LABELS);
    tn_tensor *input_length =
        tn__call_tensor(call, TN__ARG_CTC_FORWARD_INPUT_LENGTHS);
    tn_tensor *target_length =
        tn__call_tensor(call, TN__ARG_CTC_FORWARD_TARGET_LENGTHS);
    tn_status status = check_parts(x, label, input_length, target_length);
    if (status < 0)
        return status;
    int64_t times = x->shape[0], batch = x->shape[1];
    const int64_t size[] = {times + 1, batch, label->shape[1] - PAD};
    tn_device *device = x->storage->device;
    tn_tensor *loss = tn__tensor_new(device, x->dtype, 1, &batch, "ctc_loss");
    tn_tensor *alpha = NULL;
    if (loss) {
        call->out[call->out_count++] = loss;
        alpha = tn__tensor_new(device, x->dtype, 3, size, "ctc_loss");
    }
    if (!alpha)
        return tn_error_code();
    call->out[call->out_count++] = alpha;
    if (batch == 0)
        return TN_OK;
    tn_tensor *first = tn__tensor_view(alpha, alpha->dtype, 2, size + 1,
                                       alpha->stride + 1, alpha->offset);
    if (!first)
        return TN_ERR_MEMORY;
    status = fill_part(alpha, 2, 0, PAD, -INFINITY);
    if (status >= 0)
        status = fill_part(first, 1, PAD, size[2] - PAD, -INFINITY);
    if (status >= 0)
        status = fill_part(first, 1, PAD, 1, 0);
    tn__unref(first);
    for (int64_t t = 0; t < times && status >= 0; t++)
        status = forward_step(x, label, alpha, t);
    return status < 0 ? status
                      : final_loss(alpha, input_length, target_length, loss);
}

/* ---- the backward pass --------------------------------------------------- */

/* The tensors of the backward pass: the arguments of ctc_backward, then those
 * that the pass makes. */
typedef struct backward {
    tn_tensor *x, *label, *input_length, *target_length, *loss, *alpha;
    tn_tensor *beta[2];   /* beta[t & 1][N][states + PAD] is beta of time t */
    tn_tensor *share;     /* share[t][n][s] is minus the probability that a path
                             which yields target n is in state s at time t */
    tn_tensor *out;       /* the gradient by log_probs, (T, N, C) */
    bool zero_infinity;
} backward;

/* Fills beta for the time after the last one, when all paths are in the last
 * state. */
static tn_status start_beta(const backward *b, tn_tensor *beta)
{
    static tn__formula formula[2] = {
        TN__FORMULA("end(l, s: offset) = where(s == l << 1, f32(0), -inf)"),
        TN__FORMULA("end(l, s: offset) = where(s == l << 1, f64(0), -inf)")};
    const tn_dtype dtype[] = {TN_I64, 0};
    const tn__kernel *kernel =
        tn__formula_kernel(&formula[beta->dtype == TN_F64], dtype);
    if (!kernel)
        return tn_error_code();
    tn__shape shape = state_shape(b->x, beta->shape[1]);
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    add_lengths(&space, b->target_length);
    tn__space_add_bare(&space, NULL)->stride[1] = 1;
    tn__space_add_out(&space, &shape, 0, false, false, beta);
    return tn__kernel_launch(beta->storage->device, kernel, &space, NULL,
                             "ctc_loss");
}

/* Computes beta of time t from beta of time t + 1. Also computes share[t] =
 * -alpha * beta / (total likelihood). */
static tn_status backward_step(const backward *b, int64_t t)
{
    static tn__formula formula = TN__FORMULA(
        "step(a, b, skip, alpha, x, label, other, inputs, length, loss,"
        "     s: offset; t: i64) ="
        "let c = where(label == other, like(-inf, a), skip);" LOG_SUM
        "let inside = t < inputs;"
        "let ways = where(inside && loss != inf, exp(alpha + sum + loss),"
        "                 like(0, a));"
        "let end = where(s == length << 1, like(0, a), like(-inf, a));"
        "(where(inside, sum + x[label], end), -ways)");
    const tn_dtype f = b->x->dtype, i = TN_I64;
    const tn_dtype dtype[] = {f, f, f, f, f, i, i, i, i, f, 0};
    const tn__kernel *kernel = tn__formula_kernel(&formula, dtype);
    if (!kernel)
        return tn_error_code();
    tn__shape shape = state_shape(b->x, b->share->shape[2]);
    tn_tensor *from = b->beta[(t + 1) & 1], *to = b->beta[t & 1];
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    for (int column = 0; column <= PAD; column++)
        add_columns(&space, from, 0, column);
    add_columns(&space, b->alpha, (t + 1) * b->alpha->stride[0], PAD);
    add_classes(&space, b->x, t);
    add_columns(&space, b->label, 0, PAD);
    add_columns(&space, b->label, 0, 2 * PAD);
    add_lengths(&space, b->input_length);
    add_lengths(&space, b->target_length);
    add_lengths(&space, b->loss);
    tn__space_add_bare(&space, NULL)->stride[1] = 1;
    add_columns(&space, to, 0, 0);
    add_columns(&space, b->share, t * b->share->stride[0], 0);
    const tn_number param = {.i = t};
    return tn__kernel_launch(b->out->storage->device, kernel, &space, &param,
                             "ctc_loss");
}

/* Fills out[t] with exp(log_probs[t]) at the times within each sequence, and
 * with 0 at later times. subtract_shares then subtracts the probabilities of
 * the states. If no path yields the target, fills out with NaN, or with 0 if
 * zero_infinity is set. */
static tn_status fill_probabilities(const backward *b)
{
    static tn__formula formula = TN__FORMULA(
        "probs(x, inputs, loss, t: offset; zero: i64) ="
        "let none = where(zero != 0, like(0, x), like(nan, x));"
        "where(t < inputs, where(loss == inf, none, exp(x)), like(0, x))");
    const tn_dtype f = b->x->dtype;
    const tn_dtype dtype[] = {f, TN_I64, f, 0};
    const tn__kernel *kernel = tn__formula_kernel(&formula, dtype);
    if (!kernel)
        return tn_error_code();
    tn__shape shape = {.ndim = 3, .dim = {b->x->shape[0], b->x->shape[1],
                                          b->x->shape[2]}};
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    tn__space_add(&space, &shape, 0, b->x);
    tn__space_add_bare(&space, b->input_length)->stride[1] =
        b->input_length->stride[0];
    tn__space_add_bare(&space, b->loss)->stride[1] = b->loss->stride[0];
    tn__space_add_bare(&space, NULL)->stride[0] = 1;
    tn__space_add_out(&space, &shape, 0, false, false, b->out);
    const tn_number param = {.i = b->zero_infinity};
    return tn__kernel_launch(b->out->storage->device, kernel, &space, &param,
                             "ctc_loss");
}

/* Adds share[t][n][s] to out[t][n][label of s]. share holds the negated
 * probabilities of the states s, so this subtracts the probabilities. */
static tn_status subtract_shares(const backward *b)
{
    const tn_tensor *l = b->label, *share = b->share;
    const int64_t stride[] = {0, l->stride[0], l->stride[1]};
    tn_tensor *index =
        tn__tensor_view(b->label, TN_I64, 3, share->shape, stride,
                        l->offset + PAD * l->stride[1]);
    if (!index)
        return TN_ERR_MEMORY;
    tn_status status = tn__scatter_into("ctc_loss", b->out, 2, index, b->share,
                                        TN_SCATTER_ADD);
    tn__unref(index);
    return status;
}

static tn_status run_backward(backward *b)
{
    int64_t times = b->x->shape[0], batch = b->x->shape[1];
    int64_t count = b->label->shape[1] - 2 * PAD;
    tn_device *device = b->x->storage->device;
    b->share = tn_empty(tn_dims(times, batch, count), .dtype = b->x->dtype,
                        .device = device);
    for (int i = 0; i < 2; i++)
        b->beta[i] = tn_empty(tn_dims(batch, count + PAD),
                              .dtype = b->x->dtype, .device = device);
    if (!b->share || !b->beta[0] || !b->beta[1])
        return tn_error_code();
    tn_status status = fill_probabilities(b);
    if (status >= 0)
        status = fill_part(b->beta[(times + 1) & 1], 1, count, PAD,
                           -INFINITY);
    if (status >= 0)
        status = start_beta(b, b->beta[times & 1]);
    for (int64_t t = times - 1; t >= 0 && status >= 0; t--)
        status = backward_step(b, t);
    return status < 0 ? status : subtract_shares(b);
}

tn_status tn__run_ctc_backward(tn__call *call)
{
    enum { x, labels, input_lengths, target_lengths, loss, log_alpha };
    backward b = {
        .x = tn__call_tensor(call, x), .label = tn__call_tensor(call, labels),
        .input_length = tn__call_tensor(call, input_lengths),
        .target_length = tn__call_tensor(call, target_lengths),
        .loss = tn__call_tensor(call, loss),
        .alpha = tn__call_tensor(call, log_alpha),
        .zero_infinity =
            tn__call_int(call, TN__ARG_CTC_BACKWARD_ZERO_INFINITY)};
    tn_status status =
        check_parts(b.x, b.label, b.input_length, b.target_length);
    const int64_t size[] = {b.x->shape[0] + 1, b.label->shape[0],
                            b.label->shape[1] - PAD};
    if (status >= 0 &&
        !(tn__shape_equal(b.loss->ndim, b.loss->shape, 1, size + 1) &&
          tn__shape_equal(b.alpha->ndim, b.alpha->shape, 3, size) &&
          b.loss->dtype == b.x->dtype && b.alpha->dtype == b.x->dtype))
        status = tn__fail(TN_ERR_SHAPE, "ctc_loss: expected loss (N) and "
                          "log_alpha (T + 1, N, 2 S + 3)");
    if (status < 0)
        return status;
    b.out = tn__tensor_new(b.x->storage->device, b.x->dtype, 3, b.x->shape,
                           "ctc_loss");
    if (!b.out)
        return tn_error_code();
    call->out[call->out_count++] = b.out;
    if (b.out->numel == 0)
        return TN_OK;
    tn_scope *scope = tn_scope_open();
    status = scope ? run_backward(&b) : TN_ERR_MEMORY;
    tn_scope_close(scope);
    return status;
}

/* ---- ctc_loss ------------------------------------------------------------ */

static bool is_whole(const tn_tensor *x)
{
    return !tn_dtype_is_floating(x->dtype) && x->dtype != TN_BOOL;
}

/* Returns argument number `arg`, which holds lengths, as a 1-d int64 tensor.
 * Returns NULL on failure, with the error recorded. */
static tn_tensor *take_lengths(const tn__call *call, int arg, int64_t batch)
{
    tn_tensor *x = tn__call_tensor(call, arg);
    char text[TN__SHAPE_TEXT];
    const char *name = call->op->arg[arg].name;
    if (!is_whole(x)) {
        tn__fail(TN_ERR_DTYPE, "ctc_loss: {%s} is %s; convert it to int64 with "
                 "tn_to_dtype", name, tn_dtype_name(x->dtype));
        return NULL;
    }
    if (x->ndim > 1 || x->numel != batch) {
        tn__fail(TN_ERR_SHAPE, "ctc_loss: {%s} has shape %s; expected one "
                 "number for each of the %lld sequences", name,
                 tn__shape_text(text, x->ndim, x->shape), (long long)batch);
        return NULL;
    }
    return tn_to_dtype(tn_reshape(x, tn_dims(batch)), TN_I64);
}

static tn_status check(const tn__call *call, const tn_tensor *x,
                       const tn_tensor *target)
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    int64_t blank = tn__call_int(call, TN__ARG_CTC_LOSS_BLANK);
    if (!tn_dtype_is_floating(x->dtype))
        return tn__fail(TN_ERR_DTYPE, "ctc_loss: {log_probs} is %s; it takes "
                        "floating tensors: convert it with tn_to_dtype",
                        tn_dtype_name(x->dtype));
    if (x->ndim != 2 && x->ndim != 3)
        return tn__fail(TN_ERR_SHAPE, "ctc_loss: {log_probs} has shape %s; "
                        "expected (T, N, C) or (T, C)",
                        tn__shape_text(a, x->ndim, x->shape));
    if (!is_whole(target))
        return tn__fail(TN_ERR_DTYPE, "ctc_loss: {targets} is %s; convert it "
                        "to int64 with tn_to_dtype",
                        tn_dtype_name(target->dtype));
    if (target->ndim != 1 &&
        !(target->ndim == 2 && x->ndim == 3 &&
          target->shape[0] == x->shape[1]))
        return tn__fail(TN_ERR_SHAPE, "ctc_loss: {targets} has shape %s; "
                        "expected a 1-d tensor, or (N, S) with the N of "
                        "{log_probs} (T, N, C), which has shape %s",
                        tn__shape_text(a, target->ndim, target->shape),
                        tn__shape_text(b, x->ndim, x->shape));
    int64_t classes = x->shape[x->ndim - 1];
    if (blank < 0 || blank >= classes)
        return tn__fail(TN_ERR_ARGUMENT, "ctc_loss: {blank} %lld is outside "
                        "[0, %lld)", (long long)blank, (long long)classes);
    return TN_OK;
}

/* Returns the labels of the states of each sequence, with padding columns. For
 * 1-d targets, the largest length and the sum of the lengths are copied from
 * the device to the host. */
static tn_tensor *labels_of(tn_tensor *target, tn_tensor *length,
                            int64_t blank)
{
    int64_t batch = length->shape[0], most;
    tn_tensor *start;
    if (target->ndim == 2 || batch == 0) {
        most = target->ndim == 2 ? target->shape[1] : 0;
        start = tn_zeros_like(length);
    } else {
        tn_tensor *end = tn_cumsum(length, 0);
        int64_t total = tn_item_int(tn_select(end, 0, -1));
        most = tn_item_int(tn_max(length));
        int64_t least = tn_item_int(tn_min(length));
        if (least == INT64_MIN)
            return NULL; /* tn_item_int has failed and recorded an error */
        if (least < 0 || total > target->numel) {
            tn__fail(TN_ERR_SHAPE, "ctc_loss: {target_lengths}, from %lld to "
                     "%lld, add up to %lld; {targets} has %lld elements",
                     (long long)least, (long long)most, (long long)total,
                     (long long)target->numel);
            return NULL;
        }
        start = tn_sub(end, length);
    }
    const tn_value value[] = {
        tn__value_tensor(target), tn__value_tensor(start),
        tn__value_tensor(length), tn__value_int(most), tn__value_int(blank)};
    return start ? tn__row(TN__OP_ID_CTC_LABELS, value, 5) : NULL;
}

static tn_tensor *reduced(tn_tensor *loss, tn_tensor *length,
                          tn__reduction reduction)
{
    if (!loss || reduction != TN__REDUCE_MEAN)
        return tn__reduce(loss, reduction);
    tn_tensor *each = tn_to_dtype(tn_clamp_min_scalar(length, 1), loss->dtype);
    return tn_mean(tn_div(loss, each));
}

static tn_status ctc_loss(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_CTC_LOSS_LOG_PROBS);
    tn_tensor *target = tn__call_tensor(call, TN__ARG_CTC_LOSS_TARGETS);
    bool zero = tn__call_int(call, TN__ARG_CTC_LOSS_ZERO_INFINITY);
    tn__reduction reduction;
    if (!tn__find_reduction(call, TN__ARG_CTC_LOSS_REDUCTION, &reduction))
        return TN_ERR_ARGUMENT;
    tn_status status = check(call, x, target);
    if (status < 0)
        return status;
    /* float32 is computed in float64. A log-likelihood of 100 has five decimal
     * digits after the point in float32, and each step of the recursion loses
     * some of them. After fifty steps the relative error of a gradient would be
     * 1e-4. */
    tn_dtype dtype = x->dtype;
    if (dtype == TN_F32)
        x = tn_to_dtype(x, TN_F64);
    if (!x)
        return tn_error_code();
    bool single = x->ndim == 2;
    if (single)
        x = tn_unsqueeze(x, 1);
    int64_t batch = single ? 1 : x->shape[1];
    tn_tensor *inputs =
        take_lengths(call, TN__ARG_CTC_LOSS_INPUT_LENGTHS, batch);
    tn_tensor *lengths =
        inputs ? take_lengths(call, TN__ARG_CTC_LOSS_TARGET_LENGTHS, batch)
               : NULL;
    tn_tensor *labels =
        lengths ? labels_of(target, lengths,
                            tn__call_int(call, TN__ARG_CTC_LOSS_BLANK))
                : NULL;
    if (!labels)
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(x), tn__value_tensor(labels),
                              tn__value_tensor(inputs),
                              tn__value_tensor(lengths), tn__value_bool(zero)};
    tn_tensor *out[2] = {NULL};
    if (tn__op_run(&tn__op_table[TN__OP_ID_CTC_FORWARD], value, 5, out, 2) < 0)
        return tn_error_code();
    tn_tensor *loss = out[0];
    if (zero)
        loss = tn_masked_fill_scalar(loss, tn_isinf(loss), 0);
    if (single && reduction == TN__REDUCE_NONE)
        loss = tn_reshape(loss, (tn_dims_list){0});
    return tn__give(call, tn_to_dtype(reduced(loss, lengths, reduction), dtype));
}

tn_status tn__run_ctc_loss(tn__call *call)
{
    tn_status status = ctc_loss(call);
    if (status != TN_ERR_INDEX)
        return status;
    /* An invalid length has become an index out of range. The error is replaced
     * by one that names the argument. */
    tn_tensor *x = tn__call_tensor(call, TN__ARG_CTC_LOSS_LOG_PROBS);
    tn_tensor *target = tn__call_tensor(call, TN__ARG_CTC_LOSS_TARGETS);
    if (target->ndim == 2)
        tn__report_indices(call, "ctc_loss", "target_lengths",
                           tn__call_tensor(call,
                                           TN__ARG_CTC_LOSS_TARGET_LENGTHS),
                           0, target->shape[1] + 1);
    return tn__report_indices(
        call, "ctc_loss", "input_lengths",
        tn__call_tensor(call, TN__ARG_CTC_LOSS_INPUT_LENGTHS), 0,
        x->shape[0] + 1);
}
