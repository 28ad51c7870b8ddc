/* <tenon/nn_recurrent.h>: recurrent layers. Part of <tenon/nn.h>.
 *
 *     tn_module *lstm = tn_nn_lstm(8, 32, .batch_first = true);
 *     tn_tensor *out = tn_forward(lstm, x);            (batch, time, 32)
 *     tn_tensor *h, *c;
 *     out = tn_nn_lstm_forward(lstm, x, NULL, NULL, &h, &c);
 *
 * Parameters have PyTorch's names: weight_ih_l0 (gates hidden, in),
 * weight_hh_l0 (gates hidden, hidden), bias_ih_l0, bias_hh_l0, weight_hr_l0
 * (projection), for layers l0, l1, ...; with the suffix _reverse for the
 * reverse direction. They are initialised uniformly within +-1 /
 * sqrt(hidden_size). Each call below that makes a layer returns a module owned
 * by the open scope. Source: torch.nn.
 *
 * Threads: As for all layers: <tenon/nn.h>. */
#ifndef TENON_NN_RECURRENT_H
#define TENON_NN_RECURRENT_H

#include <tenon/nn.h>
#include <tenon/sequence.h>

#ifdef __cplusplus
extern "C" {
#endif

/*   relu       relu in place of tanh; for RNN only
 *   proj_size  the hidden state is projected to this size; for LSTM only; 0: no
 *              projection
 *   dropout    between layers, in training mode; rejected with one layer
 * A layer rejects the options of the others. */
#define TN_NN_RNN_OPTIONS_LIST(X)                                             \
    X(int, num_layers, 1)                                                     \
    X(bool, bidirectional, false) /* outputs are concatenated */              \
    X(bool, batch_first, false) /* (batch, time, features) */                 \
    X(bool, bias, true)                                                       \
    X(bool, relu, false)                                                      \
    X(double, dropout, 0) /* in training mode */                              \
    X(int64_t, proj_size, 0)
TN_OPTIONS_STRUCT(tn_nn_rnn, TN_NN_RNN_OPTIONS_LIST);
#define TN_NN_RNN_OPTIONS                                                     \
    TN_OPTIONS_DEFAULTS(tn_nn_rnn, TN_NN_RNN_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_nn_gru, TN_NN_RNN_OPTIONS_LIST);
#define TN_NN_GRU_OPTIONS                                                     \
    TN_OPTIONS_DEFAULTS(tn_nn_gru, TN_NN_RNN_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_nn_lstm, TN_NN_RNN_OPTIONS_LIST);
#define TN_NN_LSTM_OPTIONS                                                    \
    TN_OPTIONS_DEFAULTS(tn_nn_lstm, TN_NN_RNN_OPTIONS_LIST)
TN_API tn_module *tn_nn_rnn_with(int64_t input_size, int64_t hidden_size,
                                 const tn_nn_rnn_options *options);
TN_API tn_module *tn_nn_gru_with(int64_t input_size, int64_t hidden_size,
                                 const tn_nn_gru_options *options);
TN_API tn_module *tn_nn_lstm_with(int64_t input_size, int64_t hidden_size,
                                  const tn_nn_lstm_options *options);

/* Signature: "input, h0? -> output, h_n", for an LSTM "input, h0?, c0? ->
 * output, h_n, c_n": tn_forward returns the output, tn_forward_list also the
 * final states. These calls do the same:
 *
 *   input    (time, batch, in), or (batch, time, in) with batch_first, or
 *            (time, in) for a sequence without batch
 *   h0, c0   (layers * directions, batch, hidden), without batch for such a
 *            sequence; NULL: zeros
 *   out_h, out_c  shaped as h0 and c0; may be NULL
 *   returns  shaped as input, with directions * hidden features
 *
 * rnn is an RNN or a GRU. All results are owned by the open scope. On failure
 * NULL, with out_h and out_c unchanged. */
TN_API tn_tensor *tn_nn_rnn_forward(tn_module *rnn, tn_tensor *input,
                                    tn_tensor *h0, tn_tensor **out_h);
TN_API tn_tensor *tn_nn_lstm_forward(tn_module *lstm, tn_tensor *input,
                                     tn_tensor *h0, tn_tensor *c0,
                                     tn_tensor **out_h, tn_tensor **out_c);

/* The same over a packed batch (sequence.h). batch_first has no effect. Initial
 * and final states are in the order in which the sequences were given; a final
 * state is that at the end of its sequence, in the reverse direction at its
 * beginning. */
TN_API tn_packed *tn_nn_rnn_forward_packed(tn_module *rnn, tn_packed *input,
                                           tn_tensor *h0, tn_tensor **out_h);
TN_API tn_packed *tn_nn_lstm_forward_packed(tn_module *lstm, tn_packed *input,
                                            tn_tensor *h0, tn_tensor *c0,
                                            tn_tensor **out_h,
                                            tn_tensor **out_c);

/* One step of a sequence: input (batch, in) or (in). Parameters: weight_ih,
 * weight_hh, bias_ih, bias_hh. Signature: "input, h? -> h", for an LSTMCell
 * "input, h?, c? -> h, c"; states that are left out are zeros. relu is for RNNCell; the others reject it. */
#define TN_NN_RNN_CELL_OPTIONS_LIST(X)                                        \
    X(bool, bias, true)                                                       \
    X(bool, relu, false)
TN_OPTIONS_STRUCT(tn_nn_rnn_cell, TN_NN_RNN_CELL_OPTIONS_LIST);
#define TN_NN_RNN_CELL_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_nn_rnn_cell, TN_NN_RNN_CELL_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_nn_gru_cell, TN_NN_RNN_CELL_OPTIONS_LIST);
#define TN_NN_GRU_CELL_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_nn_gru_cell, TN_NN_RNN_CELL_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_nn_lstm_cell, TN_NN_RNN_CELL_OPTIONS_LIST);
#define TN_NN_LSTM_CELL_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_nn_lstm_cell, TN_NN_RNN_CELL_OPTIONS_LIST)
TN_API tn_module *tn_nn_rnn_cell_with(int64_t input_size, int64_t hidden_size,
                                      const tn_nn_rnn_cell_options *options);
TN_API tn_module *tn_nn_gru_cell_with(int64_t input_size, int64_t hidden_size,
                                      const tn_nn_gru_cell_options *options);
TN_API tn_module *tn_nn_lstm_cell_with(int64_t input_size, int64_t hidden_size,
                                       const tn_nn_lstm_cell_options *options);
/* One step from hidden state h and cell state c: (batch, hidden), or (hidden);
 * NULL: zeros. Returns the new h, and sets *out_c to the new c. cell is an
 * RNNCell or a GRUCell in the first call, an LSTMCell in the second. */
TN_API tn_tensor *tn_nn_rnn_cell_forward(tn_module *cell, tn_tensor *input,
                                         tn_tensor *h);
TN_API tn_tensor *tn_nn_lstm_cell_forward(tn_module *cell, tn_tensor *input,
                                          tn_tensor *h, tn_tensor *c,
                                          tn_tensor **out_c);

#ifndef __cplusplus
#define tn_nn_rnn(...) TN_CALL_2(tn_nn_rnn, __VA_ARGS__, )
#define tn_nn_gru(...) TN_CALL_2(tn_nn_gru, __VA_ARGS__, )
#define tn_nn_lstm(...) TN_CALL_2(tn_nn_lstm, __VA_ARGS__, )
#define tn_nn_rnn_cell(...) TN_CALL_2(tn_nn_rnn_cell, __VA_ARGS__, )
#define tn_nn_gru_cell(...) TN_CALL_2(tn_nn_gru_cell, __VA_ARGS__, )
#define tn_nn_lstm_cell(...) TN_CALL_2(tn_nn_lstm_cell, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_2(tn_module *, tn_nn_rnn, int64_t, int64_t)
TN_OVERLOAD_2(tn_module *, tn_nn_gru, int64_t, int64_t)
TN_OVERLOAD_2(tn_module *, tn_nn_lstm, int64_t, int64_t)
TN_OVERLOAD_2(tn_module *, tn_nn_rnn_cell, int64_t, int64_t)
TN_OVERLOAD_2(tn_module *, tn_nn_gru_cell, int64_t, int64_t)
TN_OVERLOAD_2(tn_module *, tn_nn_lstm_cell, int64_t, int64_t)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
