/* recurrent.h: what recurrent layers and their cells share. */
#ifndef TN_NN_RECURRENT_H
#define TN_NN_RECURRENT_H

#include <tenon/nn.h>

enum { W_IH, W_HH, B_IH, B_HH, W_HR, TENSORS };

/* The weights of one direction of one layer. Biases and the projection may be
 * NULL. */
typedef struct tn__nn_direction {
    tn_tensor *x[TENSORS];
} tn__nn_direction;

typedef struct tn__nn_recurrent {
    tn_module base;
    int64_t input_size, hidden_size, proj_size;
    int gates, num_layers, directions;
    bool batch_first, relu, bias;
    double dropout;
    tn__nn_direction part[]; /* part[layer * directions + (1 if reverse)] */
} tn__nn_recurrent;

/* The options of RNN, GRU and LSTM. */
TN_OPTIONS_STRUCT(tn__nn_recurrent, TN_NN_RNN_OPTIONS_LIST);

/* Prints the sizes, and the options that differ from their defaults. */
void tn__nn_recurrent_describe(const tn_module *self, char *text, size_t room);

/* Makes and registers the parameters of one direction. suffix is the end of
 * their names: "_l0_reverse", or "" for a cell. */
bool tn__nn_recurrent_parameters(tn__nn_recurrent *r, tn__nn_direction *d,
                                 int64_t in, const char *suffix);

/* Check sizes and dtypes. Return false with an error recorded if they are
 * invalid. names[] are the argument names of h and c, which may be NULL. */
bool tn__nn_recurrent_check_sizes(const char *name, int64_t input_size,
                                  int64_t hidden_size,
                                  const tn__nn_recurrent_options *o);
bool tn__nn_recurrent_check_dtypes(const tn__nn_recurrent *r, tn_tensor *x,
                                   tn_tensor *h, tn_tensor *c,
                                   const char *const names[2]);

#endif
