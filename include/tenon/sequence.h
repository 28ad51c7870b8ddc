/* <tenon/sequence.h>: batches of sequences of different lengths.
 *
 *     tn_tensor *x = tn_pad_sequence(sequences, 3);       (time, 3, features)
 *     const int64_t lengths[] = {5, 2, 3};
 *     tn_packed *packed = tn_pack_padded_sequence(x, lengths, 3,
 *                                                 .enforce_sorted = false);
 *     tn_tensor *h, *c;
 *     packed = tn_nn_lstm_forward_packed(lstm, packed, NULL, NULL, &h, &c);
 *     tn_tensor *out = tn_pad_packed_sequence(packed);    (5, 3, hidden)
 *
 * A packed sequence holds a batch of sequences without padding: first the
 * elements of all sequences at time 0, then those at time 1, and so on. Within
 * one time step, longer sequences come first. A recurrent layer does no work
 * for padding, and the final state of each sequence is the state after its last
 * element. All calls are differentiable. Source: torch.nn.utils.rnn.
 *
 * Threads: A packed sequence does not change. The rules for sharing tensors
 * between threads apply (<tenon/tensor.h>). */
#ifndef TENON_SEQUENCE_H
#define TENON_SEQUENCE_H

#include <tenon/options.h>
#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_packed tn_packed;

/* Options of tn_pad_sequence:
 *
 *   batch_first    the result is (count, time, ...), not (time, count, ...)
 *   padding_value  value of the elements added to shorter sequences
 *   padding_left   adds them at the beginning, not at the end */
#define TN_PAD_SEQUENCE_OPTIONS_LIST(X)                                       \
    X(bool, batch_first, false)                                               \
    X(double, padding_value, 0)                                               \
    X(bool, padding_left, false)
TN_OPTIONS_STRUCT(tn_pad_sequence, TN_PAD_SEQUENCE_OPTIONS_LIST);
#define TN_PAD_SEQUENCE_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_pad_sequence, TN_PAD_SEQUENCE_OPTIONS_LIST)
/* Pads count sequences (length, ...), which differ in length only, to the
 * longest length and stacks them. Lengths may be 0. The open scope owns the
 * result. Returns NULL with TN_ERR_SHAPE, TN_ERR_DTYPE or TN_ERR_DEVICE if the
 * sequences differ in anything but length, with TN_ERR_ARGUMENT if count is
 * below 1. */
TN_API tn_tensor *tn_pad_sequence_with(tn_tensor *const *sequences, int count,
                                       const tn_pad_sequence_options *options);

/* Options of tn_pack_padded_sequence. If enforce_sorted is true, lengths must
 * be in descending order. If it is false, any order is accepted;
 * tn_pad_packed_sequence restores it. */
#define TN_PACK_PADDED_SEQUENCE_OPTIONS_LIST(X)                               \
    X(bool, batch_first, false) /* input is (batch, time, ...) */             \
    X(bool, enforce_sorted, true)
TN_OPTIONS_STRUCT(tn_pack_padded_sequence,
                  TN_PACK_PADDED_SEQUENCE_OPTIONS_LIST);
#define TN_PACK_PADDED_SEQUENCE_OPTIONS                                       \
    TN_OPTIONS_DEFAULTS(tn_pack_padded_sequence,                              \
                        TN_PACK_PADDED_SEQUENCE_OPTIONS_LIST)
/* Packs a padded batch, (time, batch, ...), of count = batch sequences. lengths
 * are 1 to time; as in PyTorch, length 0 is rejected. The open scope owns the
 * results of this and all calls below. Returns NULL with TN_ERR_ARGUMENT if a
 * length is out of range (the message names the sequence) or lengths are not
 * sorted as required, with TN_ERR_SHAPE if input does not fit count. */
TN_API tn_packed *
tn_pack_padded_sequence_with(tn_tensor *input, const int64_t *lengths,
                             int64_t count,
                             const tn_pack_padded_sequence_options *options);

#define TN_PACK_SEQUENCE_OPTIONS_LIST(X) X(bool, enforce_sorted, true)
TN_OPTIONS_STRUCT(tn_pack_sequence, TN_PACK_SEQUENCE_OPTIONS_LIST);
#define TN_PACK_SEQUENCE_OPTIONS                                              \
    TN_OPTIONS_DEFAULTS(tn_pack_sequence, TN_PACK_SEQUENCE_OPTIONS_LIST)
/* Packs count sequences (length, ...). Fails for the reasons of tn_pad_sequence
 * and tn_pack_padded_sequence. */
TN_API tn_packed *
tn_pack_sequence_with(tn_tensor *const *sequences, int count,
                      const tn_pack_sequence_options *options);

/* Options of tn_pad_packed_sequence. total_length is the number of time steps
 * in the result, by default the longest length. */
#define TN_PAD_PACKED_SEQUENCE_OPTIONS_LIST(X)                                \
    X(bool, batch_first, false)                                               \
    X(double, padding_value, 0)                                               \
    X(int64_t, total_length, TN_NONE_INT)
TN_OPTIONS_STRUCT(tn_pad_packed_sequence, TN_PAD_PACKED_SEQUENCE_OPTIONS_LIST);
#define TN_PAD_PACKED_SEQUENCE_OPTIONS                                        \
    TN_OPTIONS_DEFAULTS(tn_pad_packed_sequence,                               \
                        TN_PAD_PACKED_SEQUENCE_OPTIONS_LIST)
/* Returns the padded batch of a packed sequence. Sequences are in the order in
 * which they were given; tn_packed_lengths returns their lengths. Returns NULL
 * with TN_ERR_ARGUMENT if total_length is below the longest length. */
TN_API tn_tensor *
tn_pad_packed_sequence_with(tn_packed *packed,
                            const tn_pad_packed_sequence_options *options);

/* Returns the elements of all sequences, (sum of lengths, ...), in the packed
 * order. Lent: valid while packed lives. */
TN_API tn_tensor *tn_packed_data(const tn_packed *packed);
/* Returns a packed sequence with the lengths of packed and with data, (sum of
 * lengths, ...), as its elements: for example the output of a linear layer on
 * tn_packed_data. Returns NULL with TN_ERR_SHAPE if the first size differs. */
TN_API tn_packed *tn_packed_replace(const tn_packed *packed, tn_tensor *data);
/* Return the number of sequences, and the number of time steps. 0 for NULL.
 * Cannot fail. */
TN_API int64_t tn_packed_count(const tn_packed *packed);
TN_API int64_t tn_packed_times(const tn_packed *packed);
/* Return arrays that are valid while packed lives. lengths: the length of each
 * sequence, as given. batch_sizes: for time step t, the number of sequences
 * with more than t elements. sorted_indices: the indices of the sequences, as
 * given, in the order of falling lengths. Return NULL if packed is NULL. Cannot
 * fail. */
TN_API const int64_t *tn_packed_lengths(const tn_packed *packed);
TN_API const int64_t *tn_packed_batch_sizes(const tn_packed *packed);
TN_API const int64_t *tn_packed_sorted_indices(const tn_packed *packed);

#ifndef __cplusplus
#define tn_pad_sequence(...) TN_CALL_2(tn_pad_sequence, __VA_ARGS__, )
#define tn_pack_padded_sequence(...)                                          \
    TN_CALL_3(tn_pack_padded_sequence, __VA_ARGS__, )
#define tn_pack_sequence(...) TN_CALL_2(tn_pack_sequence, __VA_ARGS__, )
#define tn_pad_packed_sequence(...)                                           \
    TN_CALL_1(tn_pad_packed_sequence, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_2(tn_tensor *, tn_pad_sequence, tn_tensor *const *, int)
TN_OVERLOAD_3(tn_packed *, tn_pack_padded_sequence, tn_tensor *,
              const int64_t *, int64_t)
TN_OVERLOAD_2(tn_packed *, tn_pack_sequence, tn_tensor *const *, int)
TN_OVERLOAD_1(tn_tensor *, tn_pad_packed_sequence, tn_packed *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
