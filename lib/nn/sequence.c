/* sequence.c: padded and packed batches of sequences.
 *
 * Packing and padding are one differentiable index_select each, whose indices
 * are computed on the host from the lengths. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/ops.h>
#include <tenon/sequence.h>

struct tn_packed {
    tn_object object;
    tn_tensor *data; /* counted reference */
    int64_t count, times;
    int64_t number[]; /* lengths[count], sorted_indices[count],
                         batch_sizes[times] */
};

static void packed_release(void *object)
{
    tn_drop(((tn_packed *)object)->data);
}

static const tn_object_class packed_class = {
    sizeof packed_class, "packed sequence", sizeof(tn_packed), packed_release};

#define REFUSE(code, call, argument, ...)                                      \
    (tn_error_refuse_argument(code, call, argument, __VA_ARGS__), NULL)

/* Allocates an array of count integers, which the open scope owns. */
static int64_t *numbers(int64_t count)
{
    static const tn_object_class type = {sizeof type, "indices",
                                         sizeof(tn_object), NULL};
    char *room = tn_object_new(&type, (size_t)count * sizeof(int64_t));
    return room ? (int64_t *)(void *)(room + sizeof(tn_object)) : NULL;
}

static tn_packed *make(tn_tensor *data, int64_t count, int64_t times)
{
    tn_packed *packed =
        data ? tn_object_new(&packed_class,
                             (size_t)(2 * count + times) * sizeof(int64_t))
             : NULL;
    if (packed) {
        packed->data = tn_keep(data);
        packed->count = count;
        packed->times = times;
    }
    return packed;
}

/* Returns rows at[0] .. at[count - 1] of x. */
static tn_tensor *rows(tn_tensor *x, const int64_t *at, int64_t count)
{
    return tn_index_select(
        x, 0,
        tn_to(tn_tensor_from_array(at, TN_I64, tn_dims(count)),
              tn_tensor_device(x)));
}

/* Reshapes x: replaces its first `from` dimensions by those of lead. */
static tn_tensor *with_lead(tn_tensor *x, int from, tn_dims_list lead)
{
    for (int i = from; i < tn_tensor_ndim(x) && lead.count < TN_MAX_NDIM; i++)
        lead.dim[lead.count++] = tn_tensor_size(x, i);
    return tn_reshape(x, lead);
}

/* ---- padding ------------------------------------------------------------- */

TN_OPTIONS_TYPE(tn_pad_sequence, "pad_sequence", "sequences, count",
                TN_PAD_SEQUENCE_OPTIONS_LIST)

/* Pads x to `length` rows, before or after the rows of x. */
static tn_tensor *padded(tn_tensor *x, int64_t length,
                         const tn_pad_sequence_options *o)
{
    int64_t missing = length - tn_tensor_size(x, 0);
    if (missing == 0)
        return x;
    tn_dims_list shape =
        tn_dims_from_array(tn_tensor_shape(x), tn_tensor_ndim(x));
    shape.dim[0] = missing;
    tn_tensor *fill =
        tn_full(shape, o->padding_value, .dtype = tn_tensor_dtype(x),
                .device = tn_tensor_device(x));
    return tn_cat(o->padding_left ? (tn_tensor *[]){fill, x}
                                  : (tn_tensor *[]){x, fill},
                  2, 0);
}

static bool check_sequences(tn_tensor *const *sequences, int count,
                            const char *call)
{
    if (!sequences || count < 1)
        return REFUSE(TN_ERR_ARGUMENT, call, sequences ? "count" : "sequences",
                      sequences ? "no sequences" : "sequences is NULL");
    for (int i = 0; i < count; i++) {
        if (!tn_object_check_kind(sequences[i], "tensor", call, "sequences"))
            return false;
        bool same =
            tn_tensor_ndim(sequences[i]) > 0 &&
            tn_tensor_ndim(sequences[i]) == tn_tensor_ndim(sequences[0]);
        for (int d = 1; same && d < tn_tensor_ndim(sequences[0]); d++)
            same = tn_tensor_size(sequences[i], d) ==
                   tn_tensor_size(sequences[0], d);
        if (!same)
            return REFUSE(
                TN_ERR_SHAPE, call, "sequences",
                "sequence %d differs from sequence 0 in more than its length: "
                "expected (length, ...)",
                i);
    }
    return true;
}

tn_tensor *tn_pad_sequence_with(tn_tensor *const *sequences, int count,
                                const tn_pad_sequence_options *options)
{
    tn_pad_sequence_options o;
    if (tn_options_take(tn_pad_sequence_type(), &o, options) < 0 ||
        !check_sequences(sequences, count, "pad_sequence"))
        return NULL;
    tn_scope *scope = tn_scope_open();
    int64_t longest = 0;
    for (int i = 0; i < count; i++)
        if (tn_tensor_size(sequences[i], 0) > longest)
            longest = tn_tensor_size(sequences[i], 0);
    tn_tensor **all = (tn_tensor **)numbers(count);
    for (int i = 0; i < count && all; i++)
        all[i] = padded(sequences[i], longest, &o);
    tn_tensor *out = all ? tn_stack(all, count, o.batch_first ? 0 : 1) : NULL;
    return tn_scope_result(scope, out);
}

/* ---- packing ------------------------------------------------------------- */

static bool check_lengths(const int64_t *lengths, int64_t count, int64_t times,
                          bool sorted, const char *call)
{
    for (int64_t i = 0; i < count; i++) {
        if (lengths[i] < 1 || lengths[i] > times)
            return REFUSE(TN_ERR_ARGUMENT, call, "lengths",
                          "lengths[%" PRId64 "] is %" PRId64
                          ": expected 1 to %" PRId64 "%s",
                          i, lengths[i], times,
                          lengths[i] ? "" : ": leave empty sequences out");
        if (sorted && i && lengths[i] > lengths[i - 1])
            return REFUSE(TN_ERR_ARGUMENT, call, "lengths",
                          "lengths[%" PRId64 "] is %" PRId64
                          ", the one before %" PRId64
                          ": sort them, longest first, or give "
                          ".enforce_sorted = false",
                          i, lengths[i], lengths[i - 1]);
    }
    return true;
}

/* Fills lengths, sorted indices and batch sizes by a counting sort, which keeps
 * sequences of equal length in their order. The batch size at time t is the
 * number of sequences longer than t. */
static void fill(tn_packed *packed, const int64_t *lengths)
{
    int64_t *sorted = packed->number + packed->count,
            *sizes = sorted + packed->count;
    memcpy(packed->number, lengths, (size_t)packed->count * sizeof *lengths);
    for (int64_t i = 0; i < packed->count; i++)
        for (int64_t t = 0; t < lengths[i]; t++)
            sizes[t]++;
    int64_t at = 0;
    for (int64_t length = packed->times; length > 0; length--) {
        int64_t longer = length < packed->times ? sizes[length] : 0;
        for (int64_t i = 0; sizes[length - 1] > longer && i < packed->count;
             i++)
            if (lengths[i] == length)
                sorted[at++] = i;
    }
}

static tn_packed *pack(tn_tensor *input, const int64_t *lengths, int64_t count,
                       bool batch_first)
{
    int64_t times = 0, total = 0;
    for (int64_t i = 0; i < count; i++) {
        times = lengths[i] > times ? lengths[i] : times;
        total += lengths[i];
    }
    tn_packed *packed = make(input, count, times);
    int64_t *at = numbers(total), n = 0;
    if (!packed || !at)
        return NULL;
    fill(packed, lengths);
    int64_t room = tn_tensor_size(input, batch_first ? 1 : 0);
    for (int64_t t = 0; t < times; t++)
        for (int64_t k = 0; k < packed->number[2 * count + t]; k++) {
            int64_t i = packed->number[count + k];
            at[n++] = batch_first ? i * room + t : t * count + i;
        }
    return tn_packed_replace(packed,
                             rows(with_lead(input, 2, tn_dims(-1)), at, total));
}

TN_OPTIONS_TYPE(tn_pack_padded_sequence, "pack_padded_sequence",
                "input, lengths, count", TN_PACK_PADDED_SEQUENCE_OPTIONS_LIST)

tn_packed *tn_pack_padded_sequence_with(
    tn_tensor *input, const int64_t *lengths, int64_t count,
    const tn_pack_padded_sequence_options *options)
{
    static const char call[] = "pack_padded_sequence";
    tn_pack_padded_sequence_options o;
    if (!tn_object_check_kind(input, "tensor", call, "input") ||
        tn_options_take(tn_pack_padded_sequence_type(), &o, options) < 0)
        return NULL;
    if (!lengths)
        return REFUSE(TN_ERR_ARGUMENT, call, "lengths", "lengths is NULL");
    if (tn_tensor_ndim(input) < 2 || count < 1 ||
        tn_tensor_size(input, o.batch_first ? 0 : 1) != count)
        return REFUSE(TN_ERR_SHAPE, call, "input",
                      "input has %d dimensions, for %" PRId64
                      " lengths: expected (%s, ...) with as many sequences",
                      tn_tensor_ndim(input), count,
                      o.batch_first ? "batch, time" : "time, batch");
    if (!check_lengths(lengths, count,
                       tn_tensor_size(input, o.batch_first ? 1 : 0),
                       o.enforce_sorted, call))
        return NULL;
    tn_scope *scope = tn_scope_open();
    return tn_scope_result(scope, pack(input, lengths, count, o.batch_first));
}

TN_OPTIONS_TYPE(tn_pack_sequence, "pack_sequence", "sequences, count",
                TN_PACK_SEQUENCE_OPTIONS_LIST)

tn_packed *tn_pack_sequence_with(tn_tensor *const *sequences, int count,
                                 const tn_pack_sequence_options *options)
{
    static const char call[] = "pack_sequence";
    tn_pack_sequence_options o;
    if (tn_options_take(tn_pack_sequence_type(), &o, options) < 0 ||
        !check_sequences(sequences, count, call))
        return NULL;
    tn_scope *scope = tn_scope_open();
    int64_t *lengths = numbers(count);
    for (int i = 0; i < count && lengths; i++)
        lengths[i] = tn_tensor_size(sequences[i], 0);
    tn_packed *packed =
        lengths &&
                check_lengths(lengths, count, INT64_MAX, o.enforce_sorted, call)
            ? pack(tn_pad_sequence(sequences, count), lengths, count, false)
            : NULL;
    return tn_scope_result(scope, packed);
}

/* ---- unpacking ----------------------------------------------------------- */

TN_OPTIONS_TYPE(tn_pad_packed_sequence, "pad_packed_sequence", "packed",
                TN_PAD_PACKED_SEQUENCE_OPTIONS_LIST)

static tn_tensor *unpack(const tn_packed *packed, int64_t times,
                         const tn_pad_packed_sequence_options *o)
{
    const int64_t *sorted = packed->number + packed->count,
                  *sizes = sorted + packed->count;
    int64_t total = times * packed->count, n = 0;
    int64_t *at = numbers(total);
    if (!at)
        return NULL;
    /* Elements of the padding are read from one extra row after the last. */
    for (int64_t i = 0; i < total; i++)
        at[i] = tn_tensor_size(packed->data, 0);
    for (int64_t t = 0; t < packed->times; t++)
        for (int64_t k = 0; k < sizes[t]; k++)
            at[o->batch_first ? sorted[k] * times + t
                              : t * packed->count + sorted[k]] = n++;
    tn_dims_list shape = tn_dims_from_array(tn_tensor_shape(packed->data),
                                            tn_tensor_ndim(packed->data));
    shape.dim[0] = 1;
    tn_tensor *both[] = {packed->data,
                         tn_full(shape, o->padding_value,
                                 .dtype = tn_tensor_dtype(packed->data),
                                 .device = tn_tensor_device(packed->data))};
    tn_dims_list lead = o->batch_first ? tn_dims(packed->count, times)
                                       : tn_dims(times, packed->count);
    return with_lead(rows(tn_cat(both, 2, 0), at, total), 1, lead);
}

static bool is_packed(const tn_packed *packed, const char *call)
{
    return tn_object_check(packed, &packed_class, call, "packed");
}

tn_tensor *tn_pad_packed_sequence_with(
    tn_packed *packed, const tn_pad_packed_sequence_options *options)
{
    tn_pad_packed_sequence_options o;
    if (!is_packed(packed, "pad_packed_sequence") ||
        tn_options_take(tn_pad_packed_sequence_type(), &o, options) < 0)
        return NULL;
    int64_t times =
        o.total_length == TN_NONE_INT ? packed->times : o.total_length;
    if (times < packed->times || times > INT64_MAX / 8 / packed->count)
        return REFUSE(TN_ERR_ARGUMENT, "pad_packed_sequence", "total_length",
                      "total_length is %" PRId64 ", the longest sequence has "
                      "%" PRId64,
                      times, packed->times);
    tn_scope *scope = tn_scope_open();
    return tn_scope_result(scope, unpack(packed, times, &o));
}

/* ---- attributes ---------------------------------------------------------- */

tn_packed *tn_packed_replace(const tn_packed *packed, tn_tensor *data)
{
    if (!is_packed(packed, "packed_replace") ||
        !tn_object_check_kind(data, "tensor", "packed_replace", "data"))
        return NULL;
    int64_t total = 0;
    for (int64_t i = 0; i < packed->count; i++)
        total += packed->number[i];
    if (tn_tensor_ndim(data) < 1 || tn_tensor_size(data, 0) != total)
        return REFUSE(TN_ERR_SHAPE, "packed_replace", "data",
                      "data has %" PRId64 " rows; the sequences have %" PRId64
                      " elements",
                      tn_tensor_ndim(data) ? tn_tensor_size(data, 0) : 0,
                      total);
    tn_packed *made = make(data, packed->count, packed->times);
    if (made)
        memcpy(made->number, packed->number,
               (size_t)(2 * packed->count + packed->times) * sizeof(int64_t));
    return made;
}

tn_tensor *tn_packed_data(const tn_packed *packed)
{
    return packed && is_packed(packed, "packed_data") ? packed->data : NULL;
}

int64_t tn_packed_count(const tn_packed *packed)
{
    return packed && is_packed(packed, "packed_count") ? packed->count : 0;
}

int64_t tn_packed_times(const tn_packed *packed)
{
    return packed && is_packed(packed, "packed_times") ? packed->times : 0;
}

const int64_t *tn_packed_lengths(const tn_packed *packed)
{
    return packed && is_packed(packed, "packed_lengths") ? packed->number
                                                         : NULL;
}

const int64_t *tn_packed_sorted_indices(const tn_packed *packed)
{
    return packed && is_packed(packed, "packed_sorted_indices")
               ? packed->number + packed->count
               : NULL;
}

const int64_t *tn_packed_batch_sizes(const tn_packed *packed)
{
    return packed && is_packed(packed, "packed_batch_sizes")
               ? packed->number + 2 * packed->count
               : NULL;
}
