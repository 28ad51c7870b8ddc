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
 * A packed sequence has the elements of all sequences without padding: those of
 * time 0, then of time 1, and so on; within a time the longest sequence comes
 * first. A recurrent layer over it does no work for padding, and its final
 * states are those at the end of each sequence. All calls are differentiable.
 * Source: torch.nn.utils.rnn.
 *
 * Threads: A packed sequence does not change; threads share it as its tensor.
 */
#ifndef TENON_SEQUENCE_H
#define TENON_SEQUENCE_H

#include <tenon/options.h>
#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_packed tn_packed;

/*   batch_first    (count, time, ...) in place of (time, count, ...)
 *   padding_value  fills the end of shorter sequences
 *   padding_left   fills their beginning instead */
#define TN_PAD_SEQUENCE_OPTIONS_LIST(X)                                       \
    X(bool, batch_first, false)                                               \
    X(double, padding_value, 0)                                               \
    X(bool, padding_left, false)
TN_OPTIONS_STRUCT(tn_pad_sequence, TN_PAD_SEQUENCE_OPTIONS_LIST);
#define TN_PAD_SEQUENCE_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_pad_sequence, TN_PAD_SEQUENCE_OPTIONS_LIST)
/* Stacks count sequences (length, ...), which differ in length only, into one
 * tensor. Lengths may be 0. The open scope owns the result. NULL:
 * TN_ERR_SHAPE, TN_ERR_ARGUMENT, TN_ERR_DTYPE, TN_ERR_DEVICE. */
TN_API tn_tensor *tn_pad_sequence_with(tn_tensor *const *sequences, int count,
                                       const tn_pad_sequence_options *options);

/* enforce_sorted: requires lengths that do not rise; false accepts any order,
 * in which results are returned, too. */
#define TN_PACK_PADDED_SEQUENCE_OPTIONS_LIST(X)                               \
    X(bool, batch_first, false) /* input is (batch, time, ...) */             \
    X(bool, enforce_sorted, true)
TN_OPTIONS_STRUCT(tn_pack_padded_sequence,
                  TN_PACK_PADDED_SEQUENCE_OPTIONS_LIST);
#define TN_PACK_PADDED_SEQUENCE_OPTIONS                                       \
    TN_OPTIONS_DEFAULTS(tn_pack_padded_sequence,                              \
                        TN_PACK_PADDED_SEQUENCE_OPTIONS_LIST)
/* Packs a padded batch, (time, batch, ...), of count = batch sequences. Each
 * length is 1 to time: as in PyTorch, a sequence of length 0 is refused
 * (TN_ERR_ARGUMENT, which names it). The open scope owns the result, as of all
 * calls below. NULL: TN_ERR_SHAPE, TN_ERR_ARGUMENT. */
TN_API tn_packed *
tn_pack_padded_sequence_with(tn_tensor *input, const int64_t *lengths,
                             int64_t count,
                             const tn_pack_padded_sequence_options *options);

#define TN_PACK_SEQUENCE_OPTIONS_LIST(X) X(bool, enforce_sorted, true)
TN_OPTIONS_STRUCT(tn_pack_sequence, TN_PACK_SEQUENCE_OPTIONS_LIST);
#define TN_PACK_SEQUENCE_OPTIONS                                              \
    TN_OPTIONS_DEFAULTS(tn_pack_sequence, TN_PACK_SEQUENCE_OPTIONS_LIST)
/* Packs count sequences (length, ...). The errors of both calls above. */
TN_API tn_packed *
tn_pack_sequence_with(tn_tensor *const *sequences, int count,
                      const tn_pack_sequence_options *options);

/* total_length: the number of times in the result; none: the longest length. */
#define TN_PAD_PACKED_SEQUENCE_OPTIONS_LIST(X)                                \
    X(bool, batch_first, false)                                               \
    X(double, padding_value, 0)                                               \
    X(int64_t, total_length, TN_NONE_INT)
TN_OPTIONS_STRUCT(tn_pad_packed_sequence, TN_PAD_PACKED_SEQUENCE_OPTIONS_LIST);
#define TN_PAD_PACKED_SEQUENCE_OPTIONS                                        \
    TN_OPTIONS_DEFAULTS(tn_pad_packed_sequence,                               \
                        TN_PAD_PACKED_SEQUENCE_OPTIONS_LIST)
/* The padded batch of a packed sequence, in the order that the sequences were
 * given in. Their lengths are tn_packed_lengths. NULL: TN_ERR_ARGUMENT for a
 * total_length below the longest. */
TN_API tn_tensor *
tn_pad_packed_sequence_with(tn_packed *packed,
                            const tn_pad_packed_sequence_options *options);

/* The elements: (sum of lengths, ...). Lent. */
TN_API tn_tensor *tn_packed_data(const tn_packed *packed);
/* The same sequence with other elements, a tensor (sum of lengths, ...): after
 * an embedding or a linear layer of tn_packed_data, for example. NULL:
 * TN_ERR_SHAPE. */
TN_API tn_packed *tn_packed_replace(const tn_packed *packed, tn_tensor *data);
/* The number of sequences, and of times; 0 for NULL. Cannot fail. */
TN_API int64_t tn_packed_count(const tn_packed *packed);
TN_API int64_t tn_packed_times(const tn_packed *packed);
/* Lent arrays: the lengths as given; the number of sequences at each time; the
 * given position of each sequence in the order of falling lengths. NULL for
 * NULL. Cannot fail. */
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
