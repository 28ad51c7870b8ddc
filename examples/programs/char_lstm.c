/* char_lstm.c: an LSTM learns a text character by character, then writes some.
 *
 *     char_lstm TEXT [EPOCHS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

enum { BATCH = 16, STEPS = 32, WIDTH = 128 };

/* Maps token ids (N, T) to scores of the next character (N, T, vocabulary). */
struct char_lstm {
    tn_module base;
    tn_module *embed, *lstm, *head;
};

static void char_lstm_forward(tn_module *self, tn_tensor *const *in,
                              int in_count, tn_tensor **out, int out_count)
{
    struct char_lstm *net = (struct char_lstm *)self;
    tn_tensor *x = tn_forward(net->embed, in[0]);
    x = tn_nn_lstm_forward(net->lstm, x, in[1], in[2], &out[1], &out[2]);
    out[0] = tn_forward(net->head, x);
    (void)in_count, (void)out_count;
}

static const tn_module_class char_lstm_class = TN_MODULE_CLASS(
    struct char_lstm, "CharLSTM", .forward_list = char_lstm_forward,
    .signature = "ids, h?, c? -> scores, h, c");

static tn_module *char_lstm_new(int vocabulary)
{
    struct char_lstm *net = tn_module_new(&char_lstm_class);
    TN_MODULE_ADD(net, embed, tn_nn_embedding(vocabulary, WIDTH));
    TN_MODULE_ADD(
        net, lstm,
        tn_nn_lstm(WIDTH, WIDTH, .num_layers = 2, .batch_first = true));
    TN_MODULE_ADD(net, head, tn_nn_linear(WIDTH, vocabulary));
    return (tn_module *)net;
}

/* Trains for one pass over the text, which is cut into BATCH parallel
 * sequences. The LSTM's final state of each step is the initial state of the
 * next. Returns the mean loss. */
static double train(tn_module *net, tn_optim *optim, tn_tensor *rows)
{
    double total = 0;
    int count = 0;
    tn_tensor *out[3] = {NULL}; /* the scores, and both states of the LSTM */
    for (int64_t i = 0; i + STEPS < tn_tensor_size(rows, 1); i += STEPS)
        TN_SCOPE(scope) {
            tn_tensor *x = tn_narrow(rows, 1, i, STEPS);
            tn_tensor *y = tn_narrow(rows, 1, i + 1, STEPS);
            tn_tensor *in[] = {x, out[1], out[2]};
            tn_forward_list(net, in, 3, out, 3);
            tn_tensor *scores =
                tn_flatten(out[0], .start_dim = 0, .end_dim = 1);
            tn_tensor *loss = tn_cross_entropy(scores, tn_flatten(y));
            tn_optim_zero_grad(optim);
            tn_backward(loss);
            tn_clip_grad_norm(tn_parameters(net), 1.0);
            tn_optim_step(optim);
            total += tn_item(loss);
            count++;
            tn_scope_carry(scope, &out[1], &out[2]);
        }
    return total / count;
}

/* Prints `count` characters, each sampled from the prediction after the
 * previous one. The first one follows the character with the index `id`. */
static void write_some(tn_module *net, tn_text *text, tn_tensor *id, int count)
{
    TN_NO_GRAD_HERE;
    tn_tensor *out[3] = {NULL};
    for (int i = 0; i < count && !tn_error(); i++)
        TN_SCOPE(scope) {
            tn_tensor *in[] = {tn_reshape(id, tn_dims(1, 1)), out[1], out[2]};
            tn_forward_list(net, in, 3, out, 3);
            id = tn_multinomial(tn_softmax(tn_flatten(out[0]), 0), 1);
            char *s = tn_text_decode(text, id);
            fputs(s ? s : "", stdout);
            free(s);
            tn_scope_carry(scope, &id, &out[1], &out[2]);
        }
    puts("");
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return fprintf(stderr, "usage: char_lstm TEXT [EPOCHS]\n"), 2;
    int epochs = argc > 2 ? atoi(argv[2]) : 20;
    tn_manual_seed(1);
    tn_text *text = tn_text_load(argv[1]);
    tn_tensor *ids = tn_text_ids(text);
    int64_t length = tn_text_count(text) / BATCH;
    if (length <= STEPS)
        tn_error_set(TN_ERR_ARGUMENT, "the text %s is too short", argv[1]);
    tn_tensor *rows = tn_reshape(tn_narrow(ids, 0, 0, BATCH * length),
                                 tn_dims(BATCH, length));

    tn_module *net = char_lstm_new(tn_text_vocabulary(text));
    tn_optim *optim = tn_optim_adam(tn_parameters(net), .lr = 4e-3);
    for (int epoch = 1; epoch <= epochs && !tn_error(); epoch++)
        TN_SCOPE(scope)
            printf("epoch %d: loss %.4f\n", epoch, train(net, optim, rows));
    write_some(net, text, tn_narrow(ids, 0, 0, 1), 200);
    if (tn_error())
        return fprintf(stderr, "char_lstm: %s\n", tn_error()), 1;
}
