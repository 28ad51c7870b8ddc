/* <tenon/nn_recurrent.h>: recurrent layers. Part of <tenon/nn.h>.
 *
 *     tn_module *lstm = tn_nn_lstm(8, 32, .batch_first = true);
 *     tn_tensor *out = tn_forward(lstm, x);            (batch, time, 32)
 *     tn_tensor *h, *c;
 *     out = tn_nn_lstm_forward(lstm, x, NULL, NULL, &h, &c);
 *
 * Parameters have PyTorch's names: weight_ih_l0 (gates hidden, in),
 * weight_hh_l0 (gates hidden, hidden), bias_ih_l0, bias_hh_l0, weight_hr_l0
 * (projection), for layers l0, l1, ... Here gates is 1 for RNN, 3 for GRU and 4
 * for LSTM. Names of the reverse direction have the suffix _reverse. Initial
 * values are uniform within +-1 / sqrt(hidden_size). Each call below that makes
 * a layer returns a module owned by the open scope. Source: torch.nn.
 *
 * Threads: As for all layers: <tenon/nn.h>. */
#ifndef TENON_NN_RECURRENT_H
#define TENON_NN_RECURRENT_H

#include <tenon/nn.h>
#include <tenon/sequence.h>

#ifdef __cplusplus
extern "C" {
#endif

/* RNN, GRU and LSTM.
 *
 *   relu       use relu in place of tanh; for RNN only
 *   proj_size  size to which the hidden state is projected, or 0 for no
 *              projection; for LSTM only
 *   dropout    probability between layers, in training mode; rejected with one
 *              layer */
#define TN_NN_RNN_OPTIONS_LIST(X)                                             \
    X(int, num_layers, 1)                                                     \
    X(bool, bidirectional, false) /* outputs are concatenated */              \
    X(bool, batch_first, false) /* input is (batch, time, features) */        \
    X(bool, bias, true)                                                       \
    X(bool, relu, false)                                                      \
    X(double, dropout, 0) /* probability, in training mode */                 \
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
 * output, h_n, c_n". tn_forward returns the output. tn_forward_list and these
 * calls also return the final states:
 *
 *   input    (time, batch, in), or (batch, time, in) with batch_first, or
 *            (time, in) for a sequence without batch
 *   h0, c0   (layers * directions, batch, hidden), or (layers * directions,
 *            hidden) for a sequence without batch; NULL means zeros
 *   out_h, out_c  final states, shaped as h0 and c0; may be NULL
 *   returns  shaped as input, with directions * hidden features
 *
 * rnn is an RNN or a GRU. All results are owned by the open scope. Returns NULL
 * on failure, with out_h and out_c unchanged. */
TN_API tn_tensor *tn_nn_rnn_forward(tn_module *rnn, tn_tensor *input,
                                    tn_tensor *h0, tn_tensor **out_h);
TN_API tn_tensor *tn_nn_lstm_forward(tn_module *lstm, tn_tensor *input,
                                     tn_tensor *h0, tn_tensor *c0,
                                     tn_tensor **out_h, tn_tensor **out_c);

/* Run the layer over a packed batch (sequence.h): sequences of different
 * lengths. batch_first has no effect. Initial and final states are in the order
 * in which the sequences were given. The final state of a sequence is the one
 * after its last element, in the reverse direction the one after its first
 * element. */
TN_API tn_packed *tn_nn_rnn_forward_packed(tn_module *rnn, tn_packed *input,
                                           tn_tensor *h0, tn_tensor **out_h);
TN_API tn_packed *tn_nn_lstm_forward_packed(tn_module *lstm, tn_packed *input,
                                            tn_tensor *h0, tn_tensor *c0,
                                            tn_tensor **out_h,
                                            tn_tensor **out_c);

/* Cells, which run one step of a sequence: input (batch, in) or (in).
 * Parameters: weight_ih, weight_hh, bias_ih, bias_hh. Signature: "input, h? ->
 * h", for an LSTMCell "input, h?, c? -> h, c". States that are left out are
 * zeros. relu is for RNNCell only. */
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
/* Run one step from hidden state h and cell state c, both (batch, hidden) or
 * (hidden); NULL means zeros. Return the new h, and set *out_c to the new c.
 * cell is an RNNCell or a GRUCell in the first call, an LSTMCell in the
 * second. */
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
