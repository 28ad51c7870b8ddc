/* bag.c: embedding_bag, which looks up rows of a table and reduces them bag by
 * bag. An input of shape (bags, length) has bags of equal length, which are
 * reduced along dimension 1. If offsets split a one-dimensional input into
 * bags, each row is added to the sum of its bag, in the order of the input. */
#include <ops/engine/native.h>

enum mode { SUM, MEAN, MAX };

/* The bags of a call, with N indices in all. */
typedef struct bags {
    tn_tensor *index;   /* the rows of weight to look up, bag after bag, of
                           shape (N) */
    tn_tensor *ignored; /* bool of shape (N), true for indices that are
                           padding_idx. NULL if there is no padding_idx. */
    tn_tensor *starts;  /* the position in index where each bag starts, of shape
                           (count). NULL if all bags have `length` indices. */
    int64_t count, length, padding; /* number of bags, their length, and
                                       padding_idx */
} bags;

/* ---- the maximum of each bag --------------------------------------------- */

/* Computes the maximum of each bag, column by column. Bag b ends before
 * ends[b]. Of equal elements the first one is chosen, as in PyTorch. */
tn_status tn__run_bag_max(tn__call *call)
{
    static tn__formula formula = TN__FORMULA(
        "bag_max(x, row, start, end; n: i64, padding: i64) ="
        "let zero = x[-1; 0];"
        "let (best, at) = loop(k < n; best = zero, at = i64(-1))"
        "  while start + k < end:"
        "  let i = start + k; let v = x[i];"
        "  let up = row[i] != padding && (at < 0 || v > best);"
        "  (where(up, v, best), where(up, i, at));"
        "(best, at)");
    tn_tensor *x = tn__call_tensor(call, TN__ARG_BAG_MAX_INPUT);
    tn_tensor *row = tn__call_tensor(call, TN__ARG_BAG_MAX_ROWS);
    tn_tensor *start = tn__call_tensor(call, TN__ARG_BAG_MAX_STARTS);
    tn_tensor *end = tn__call_tensor(call, TN__ARG_BAG_MAX_ENDS);
    if (x->ndim != 2 || row->ndim != 1 || row->shape[0] != x->shape[0] ||
        start->ndim != 1 || end->ndim != 1 || start->shape[0] != end->shape[0])
        return tn__fail(TN_ERR_SHAPE, "bag_max: the tensors do not fit each "
                        "other; expected {input} (N, D), {rows} (N), {starts} "
                        "(B) and {ends} (B)");
    const tn_dtype dtype[] = {x->dtype, row->dtype, start->dtype, end->dtype};
    const tn__kernel *kernel = tn__formula_kernel(&formula, dtype);
    if (!kernel)
        return tn_error_code();
    tn__shape shape = {.ndim = 2, .dim = {start->shape[0], x->shape[1]}};
    for (int o = 0; o < 2; o++) {
        tn_tensor *out =
            tn__tensor_new(x->storage->device, o ? TN_I64 : x->dtype, 2,
                           shape.dim, "embedding_bag");
        if (!out)
            return tn_error_code();
        call->out[call->out_count++] = out;
    }
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    tn__operand *from = tn__space_add_bare(&space, x);
    from->stride[1] = x->stride[1];
    from->index_stride[0] = x->stride[0];
    from->index_extent[0] = x->shape[0];
    from = tn__space_add_bare(&space, row);
    from->index_stride[0] = row->stride[0];
    from->index_extent[0] = row->shape[0];
    tn__space_add_bare(&space, start)->stride[0] = start->stride[0];
    tn__space_add_bare(&space, end)->stride[0] = end->stride[0];
    for (int o = 0; o < 2; o++)
        tn__space_add_out(&space, &shape, 0, false, false, call->out[o]);
    const tn_number param[] = {
        {.i = x->shape[0]},
        {.i = tn__call_int(call, TN__ARG_BAG_MAX_PADDING)}};
    return tn__kernel_launch(x->storage->device, kernel, &space, param,
                             "embedding_bag");
}

static tn_tensor *max_by_bag(const bags *b, tn_tensor *x)
{
    int64_t most = b->index->numel;
    tn_tensor *start = b->starts, *end;
    if (start) {
        tn_tensor *last = tn_full(tn_dims(1), (double)most, .dtype = TN_I64,
                                  .device = x->storage->device);
        tn_tensor *part[] = {tn_narrow(start, 0, 1, b->count - 1), last};
        end = part[0] && last ? tn_cat(part, 2, 0) : NULL;
    } else {
        start = tn_mul_scalar(tn_arange(0, b->count, 1, .dtype = TN_I64,
                                        .device = x->storage->device),
                              b->length);
        end = tn_add_scalar(start, b->length);
    }
    const tn_value value[] = {
        tn__value_optional(x), tn__value_optional(b->index),
        tn__value_optional(start), tn__value_optional(end),
        tn__value_int(b->padding)};
    tn_tensor *out[2] = {NULL};
    return end && tn__op_run(&tn__op_table[TN__OP_ID_BAG_MAX], value, 5, out,
                             2) >= 0
               ? out[0]
               : NULL;
}

/* ---- the sum of each bag ------------------------------------------------- */

/* Returns, for each index in b->index, the index of the bag to which it
 * belongs: the number of bags that start at or before it, minus one. */
static tn_tensor *bag_of_each(const bags *b)
{
    tn_tensor *place = tn_arange(0, b->index->numel, 1, .dtype = TN_I64,
                                 .device = b->index->storage->device);
    return tn_sub_scalar(tn_searchsorted(b->starts, place, .right = true), 1);
}

/* Returns the sums of x (N, ...) over each bag, of shape (count, ...). bag[i]
 * is the bag of element i. */
static tn_tensor *sum_of_bags(const bags *b, tn_tensor *bag, tn_tensor *x)
{
    if (!x)
        return NULL;
    tn_dims_list shape = {x->ndim, {b->count}};
    if (x->ndim == 2)
        shape.dim[1] = x->shape[1];
    if (bag) {
        tn_tensor *zeros = tn_zeros(shape, .dtype = x->dtype,
                                    .device = x->storage->device);
        return tn_index_add(zeros, 0, bag, x);
    }
    tn_dims_list apart = {x->ndim + 1, {b->count, b->length, shape.dim[1]}};
    return tn_sum(tn_reshape(x, apart), .dim = 1);
}

static tn_tensor *reduced(const bags *b, tn_tensor *x, enum mode mode)
{
    if (!x)
        return NULL;
    if (mode == MAX)
        return max_by_bag(b, x);
    tn_tensor *bag = b->starts ? bag_of_each(b) : NULL;
    if (b->starts && !bag)
        return NULL;
    if (b->ignored)
        x = tn_masked_fill_scalar(x, tn_unsqueeze(b->ignored, 1), 0);
    tn_tensor *sum = sum_of_bags(b, bag, x);
    if (mode == SUM || !sum)
        return sum;
    if (!b->starts && !b->ignored)
        return b->length ? tn_div_scalar(sum, b->length) : sum;
    tn_tensor *one = b->ignored
                         ? tn_to_dtype(tn_logical_not(b->ignored), sum->dtype)
                         : tn_ones(tn_dims(b->index->numel),
                                   .dtype = sum->dtype,
                                   .device = sum->storage->device);
    tn_tensor *counted = tn_clamp_min_scalar(sum_of_bags(b, bag, one), 1);
    return tn_div(sum, tn_unsqueeze(counted, 1));
}

/* ---- embedding_bag ------------------------------------------------------- */

/* Returns the reduction that the argument mode names. The operator's line
 * `bounds` has checked that the name exists. */
static enum mode mode_of(const tn__call *call)
{
    const char *word = call->value[TN__ARG_EMBEDDING_BAG_MODE].of.string;
    return strcmp(word, "sum") == 0   ? SUM
           : strcmp(word, "max") == 0 ? MAX
                                      : MEAN;
}

/* Reports the first bag that has a negative length. */
static void report_negative_length(const tn__call *call, tn_tensor *lengths)
{
    tn__error before;
    if (tn_error_code() != TN_ERR_ARGUMENT || !tn__error_within(&call->running))
        return;
    tn__error_hide(&before);
    tn_scope *scope = tn_scope_open();
    int64_t first = tn_item_int(
        tn_argmax(tn_to_dtype(tn_lt_scalar(lengths, 0), TN_I32)));
    int64_t fall = tn_item_int(tn_select(lengths, 0, first));
    bool told = !tn__error_pending();
    tn_scope_close(scope);
    tn_error_clear();
    if (told)
        tn__fail(TN_ERR_ARGUMENT, "embedding_bag: offsets decrease by %lld "
                 "after index %lld; expected each to be at least the offset "
                 "before it", (long long)-fall, (long long)first);
    else
        tn__error_restore(&before);
}

/* Sets b->count and b->starts from the argument offsets. To check the starts, a
 * kernel reads a tensor at these indices. It reports an error if an index is
 * out of range. */
static bool find_starts(const tn__call *call, bags *b, tn_tensor *offsets)
{
    bool last = tn__call_int(call, TN__ARG_EMBEDDING_BAG_INCLUDE_LAST_OFFSET);
    char text[TN__SHAPE_TEXT];
    b->count = offsets->numel - last;
    if (offsets->ndim != 1 || b->count < 1)
        return tn__fail(TN_ERR_SHAPE, "embedding_bag: {offsets} %s is not a "
                        "list with the start of each bag%s",
                        tn__shape_text(text, offsets->ndim, offsets->shape),
                        last ? " and the end of the last" : ""), false;
    if (tn_dtype_is_floating(offsets->dtype) || offsets->dtype == TN_BOOL)
        return tn__fail(TN_ERR_DTYPE, "embedding_bag: {offsets} is %s; convert "
                        "it to int64 with tn_to_dtype",
                        tn_dtype_name(offsets->dtype)), false;
    tn_tensor *places = tn_arange(0, b->index->numel + 1, 1, .dtype = TN_I64,
                                  .device = offsets->storage->device);
    b->starts = tn_gather(places, 0, offsets);
    if (!b->starts)
        return tn__report_indices(call, "embedding_bag", "offsets", offsets, 0,
                                  b->index->numel + 1), false;
    const int64_t pairs = offsets->numel - 1;
    if (pairs > 0) { /* the starts must not descend, or bags would overlap */
        const tn_value value[] = {tn__value_optional(
            tn_sub(tn_narrow(b->starts, 0, 1, pairs),
                   tn_narrow(b->starts, 0, 0, pairs)))};
        if (!value[0].of.tensor)
            return false;
        if (!tn__row(TN__OP_ID_BAG_LENGTHS, value, 1))
            return report_negative_length(call, value[0].of.tensor), false;
    }
    if (last)
        b->starts = tn_narrow(b->starts, 0, 0, b->count);
    return b->starts != NULL;
}

static bool find_bags(const tn__call *call, bags *b, const tn_tensor *weight)
{
    tn_tensor *input = tn__call_tensor(call, TN__ARG_EMBEDDING_BAG_INPUT);
    tn_tensor *offsets = tn__call_tensor(call, TN__ARG_EMBEDDING_BAG_OFFSETS);
    char text[TN__SHAPE_TEXT];
    if (weight->ndim != 2)
        return tn__fail(TN_ERR_SHAPE, "embedding_bag: {weight} has shape %s; "
                        "expected (num_embeddings, embedding_dim)",
                        tn__shape_text(text, weight->ndim, weight->shape)),
               false;
    if (input->ndim != 1 + !offsets)
        return tn__fail(TN_ERR_SHAPE, "embedding_bag: {input} has shape %s; "
                        "expected %s",
                        tn__shape_text(text, input->ndim, input->shape),
                        offsets ? "a 1-d tensor, because offsets are given"
                                : "(bags, length), or a 1-d one with offsets"),
               false;
    b->index = tn_reshape(input, tn_dims(input->numel));
    b->count = input->shape[0];
    b->length = offsets ? 0 : input->shape[1];
    b->padding = -1;
    if (!b->index || (offsets && !find_starts(call, b, offsets)))
        return false;
    if (!tn__call_has(call, TN__ARG_EMBEDDING_BAG_PADDING_IDX))
        return true;
    int64_t rows = weight->shape[0];
    int64_t at = tn__call_int(call, TN__ARG_EMBEDDING_BAG_PADDING_IDX);
    if (at < -rows || at >= rows)
        return tn__fail_outside(
                   TN_ERR_INDEX,
                   (tn__error_index){true, at, -rows, rows, 0, {0}},
                   "embedding_bag: {padding_idx} %lld is outside [%lld, %lld)",
                   (long long)at, (long long)-rows, (long long)rows),
               false;
    b->padding = at < 0 ? at + rows : at;
    b->ignored = tn_eq_scalar(b->index, b->padding);
    return b->ignored != NULL;
}

static tn_tensor *renormed(const tn__call *call, const bags *b,
                           tn_tensor *weight)
{
    return tn_embedding_renorm(
        b->index, weight,
        .max_norm = tn__call_float(call, TN__ARG_EMBEDDING_BAG_MAX_NORM),
        .norm_type = tn__call_float(call, TN__ARG_EMBEDDING_BAG_NORM_TYPE),
        .scale_grad_by_freq =
            tn__call_int(call, TN__ARG_EMBEDDING_BAG_SCALE_GRAD_BY_FREQ));
}

/* Returns the rows of weight that b->index selects, scaled if max_norm is
 * given. Half types are returned in float32, and are rounded once, at the
 * end. */
static tn_tensor *rows_of(const tn__call *call, const bags *b,
                          tn_tensor *weight)
{
    bool half = tn_dtype_bytes(weight->dtype) == 2;
    tn_tensor *x, *exact = NULL;
    if (tn__call_has(call, TN__ARG_EMBEDDING_BAG_MAX_NORM)) {
        if (half) /* scaling in place rounds the rows of weight, so the rows are
                     scaled again in float32 */
            exact = renormed(call, b, tn_to_dtype(tn_detach(weight), TN_F32));
        x = renormed(call, b, weight);
    } else {
        x = tn_embedding(
            b->index, weight,
            .scale_grad_by_freq =
                tn__call_int(call, TN__ARG_EMBEDDING_BAG_SCALE_GRAD_BY_FREQ));
    }
    x = half ? tn_to_dtype(x, TN_F32) : x;
    return exact ? tn_add(x, tn_sub(exact, tn_detach(x))) : x;
}

static tn_status check_scale(const tn_tensor *input, const tn_tensor *scale,
                             const tn_tensor *weight)
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (!scale)
        return TN_OK;
    if (!tn__shape_equal(input->ndim, input->shape, scale->ndim,
                         scale->shape))
        return tn__fail(TN_ERR_SHAPE, "embedding_bag: {per_sample_weights} "
                        "has shape %s; expected the shape of {input}, %s",
                        tn__shape_text(a, scale->ndim, scale->shape),
                        tn__shape_text(b, input->ndim, input->shape));
    return tn__check_same_dtype("embedding_bag", scale, "per_sample_weights",
                                weight, "weight");
}

tn_status tn__run_embedding_bag(tn__call *call)
{
    tn_tensor *weight = tn__call_tensor(call, TN__ARG_EMBEDDING_BAG_WEIGHT);
    tn_tensor *input = tn__call_tensor(call, TN__ARG_EMBEDDING_BAG_INPUT);
    tn_tensor *scale =
        tn__call_tensor(call, TN__ARG_EMBEDDING_BAG_PER_SAMPLE_WEIGHTS);
    enum mode mode = mode_of(call);
    bags b = {0};
    if (check_scale(input, scale, weight) < 0 || !find_bags(call, &b, weight))
        return tn_error_code();
    tn_dtype dtype = weight->dtype;
    tn_tensor *x = rows_of(call, &b, weight);
    if (scale && tn_dtype_bytes(dtype) == 2)
        scale = tn_to_dtype(scale, TN_F32);
    if (x && tn__call_has(call, TN__ARG_EMBEDDING_BAG_PER_SAMPLE_WEIGHTS))
        x = tn_mul(x, tn_unsqueeze(tn_reshape(scale, tn_dims(-1)), 1));
    tn_tensor *out = reduced(&b, x, mode);
    /* reports an error about the first bag if it does not start at 0 */
    if (!out && x && b.starts)
        return tn__report_indices(
            call, "embedding_bag", "offsets",
            tn_narrow(tn__call_tensor(call, TN__ARG_EMBEDDING_BAG_OFFSETS), 0,
                      0, 1), 0, 1);
    return tn__give(call,
                    out && out->dtype != dtype ? tn_to_dtype(out, dtype) : out);
}
