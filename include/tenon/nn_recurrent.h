/* <tenon/nn_recurrent.h>: recurrent layers. Part of <tenon/nn.h>.
 *
 *     tn_module *lstm = tn_nn_lstm(8, 32, .batch_first = true);
 *     tn_tensor *out = tn_forward(lstm, x);            (batch, time, 32)
 *     tn_tensor *h, *c;
 *     out = tn_nn_lstm_forward(lstm, x, NULL, NULL, &h, &c);
 *
 * Parameters have PyTorch's names: weight_ih_l0 (gates hidden, in), weight_hh_l0
 * (gates hidden, hidden), bias_ih_l0, bias_hh_l0, weight_hr_l0 (projection), for
 * layers l0, l1, ..., with the suffix _reverse for the way back; they start
 * uniform within 1 over the root of hidden_size. Source: torch.nn. */
#ifndef TENON_NN_RECURRENT_H
#define TENON_NN_RECURRENT_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_nn_rnn_options {
    size_t size;
    int num_layers;     /* 1 */
    bool bidirectional; /* also backwards, side by side in the output */
    bool batch_first;   /* (batch, time, features), else (time, batch, ...) */
    bool no_bias;
    bool relu;          /* RNN alone: relu for tanh */
    double dropout;     /* between layers while training: 0 */
    int64_t proj_size;  /* LSTM alone: hidden states are projected: 0, not */
} tn_nn_rnn_options;
TN_API tn_module *tn_nn_rnn_with(int64_t input_size, int64_t hidden_size,
                                 const tn_nn_rnn_options *options);
TN_API tn_module *tn_nn_gru_with(int64_t input_size, int64_t hidden_size,
                                 const tn_nn_rnn_options *options);
TN_API tn_module *tn_nn_lstm_with(int64_t input_size, int64_t hidden_size,
                                  const tn_nn_rnn_options *options);

/* tn_forward gives the output alone and starts from zeros. These take the
 * states to start from and give the last ones too:
 *
 *   input    (time, batch, in), (batch, time, in) if batch_first, or one
 *            sequence alone: (time, in)
 *   h0, c0   (layers directions, batch, hidden), without batch for one alone;
 *            NULL: zeros
 *   out_h, out_c  as h0 and c0; NULL where not wanted
 *   returns  as input, with directions * hidden features
 *
 * rnn is an RNN or a GRU. On failure NULL, with out_h and out_c unchanged. */
TN_API tn_tensor *tn_nn_rnn_forward(void *rnn, tn_tensor *input,
                                    tn_tensor *h0, tn_tensor **out_h);
TN_API tn_tensor *tn_nn_lstm_forward(void *lstm, tn_tensor *input,
                                     tn_tensor *h0, tn_tensor *c0,
                                     tn_tensor **out_h, tn_tensor **out_c);

/* One step: input (batch, in) or (in). Parameters: weight_ih, weight_hh, bias_ih,
 * bias_hh. tn_forward gives the new hidden state, from zeros. */
typedef struct tn_nn_rnn_cell_options {
    size_t size;
    bool no_bias;
    bool relu; /* RNNCell alone */
} tn_nn_rnn_cell_options;
TN_API tn_module *tn_nn_rnn_cell_with(int64_t input_size, int64_t hidden_size,
                                      const tn_nn_rnn_cell_options *options);
TN_API tn_module *tn_nn_gru_cell_with(int64_t input_size, int64_t hidden_size,
                                      const tn_nn_rnn_cell_options *options);
TN_API tn_module *tn_nn_lstm_cell_with(int64_t input_size, int64_t hidden_size,
                                       const tn_nn_rnn_cell_options *options);
/* h, c: (batch, hidden), NULL: zeros. Gives the new h, and c in *out_c. cell is
 * an RNNCell or a GRUCell in the first. */
TN_API tn_tensor *tn_nn_rnn_cell_forward(void *cell, tn_tensor *input,
                                         tn_tensor *h);
TN_API tn_tensor *tn_nn_lstm_cell_forward(void *cell, tn_tensor *input,
                                          tn_tensor *h, tn_tensor *c,
                                          tn_tensor **out_c);

#ifndef __cplusplus
#define TN__NN_RNN(function, options, input_size, hidden_size, ...)           \
    function(input_size, hidden_size, &(options){__VA_ARGS__})
#define tn_nn_rnn(...)                                                        \
    TN__NN_RNN(tn_nn_rnn_with, tn_nn_rnn_options, __VA_ARGS__,                \
               .size = sizeof(tn_nn_rnn_options))
#define tn_nn_gru(...)                                                        \
    TN__NN_RNN(tn_nn_gru_with, tn_nn_rnn_options, __VA_ARGS__,                \
               .size = sizeof(tn_nn_rnn_options))
#define tn_nn_lstm(...)                                                       \
    TN__NN_RNN(tn_nn_lstm_with, tn_nn_rnn_options, __VA_ARGS__,               \
               .size = sizeof(tn_nn_rnn_options))
#define tn_nn_rnn_cell(...)                                                   \
    TN__NN_RNN(tn_nn_rnn_cell_with, tn_nn_rnn_cell_options, __VA_ARGS__,      \
               .size = sizeof(tn_nn_rnn_cell_options))
#define tn_nn_gru_cell(...)                                                   \
    TN__NN_RNN(tn_nn_gru_cell_with, tn_nn_rnn_cell_options, __VA_ARGS__,      \
               .size = sizeof(tn_nn_rnn_cell_options))
#define tn_nn_lstm_cell(...)                                                  \
    TN__NN_RNN(tn_nn_lstm_cell_with, tn_nn_rnn_cell_options, __VA_ARGS__,     \
               .size = sizeof(tn_nn_rnn_cell_options))
#else
} /* extern "C" */
#define TN__NN_RNN(name, kind)                                                \
    inline tn_module *name(int64_t input_size, int64_t hidden_size,           \
                           kind options = {})                                 \
    {                                                                         \
        options.size = sizeof options;                                        \
        return name##_with(input_size, hidden_size, &options);                \
    }
TN__NN_RNN(tn_nn_rnn, tn_nn_rnn_options)
TN__NN_RNN(tn_nn_gru, tn_nn_rnn_options)
TN__NN_RNN(tn_nn_lstm, tn_nn_rnn_options)
TN__NN_RNN(tn_nn_rnn_cell, tn_nn_rnn_cell_options)
TN__NN_RNN(tn_nn_gru_cell, tn_nn_rnn_cell_options)
TN__NN_RNN(tn_nn_lstm_cell, tn_nn_rnn_cell_options)
#undef TN__NN_RNN
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
