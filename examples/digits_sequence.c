/* digits_sequence.c: handwritten digits read as sequences, eight rows of eight
 * pixels from top to bottom, by an LSTM or by a transformer.
 *
 *     digits_sequence lstm|transformer [DATA.csv.gz]
 */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

enum { SEED = 1, EPOCHS = 20, BATCH = 32, ROWS = 8, PIXELS = 8, WIDTH = 64 };

/* Maps the rows of images (N, 8, 8) to scores (N, 10). */
struct reader {
    tn_module base;
    tn_module *embed, *place, *body, *head;
};

static tn_tensor *lstm_forward(tn_module *self, tn_tensor *x)
{
    struct reader *net = (struct reader *)self;
    tn_tensor *out = tn_forward(net->body, x);          /* (N, 8, WIDTH) */
    return tn_forward(net->head, tn_select(out, 1, ROWS - 1));
}

static tn_tensor *transformer_forward(tn_module *self, tn_tensor *x)
{
    struct reader *net = (struct reader *)self;
    tn_tensor *row = tn_arange(0, ROWS, 1, .device = tn_tensor_device(x));
    x = tn_add(tn_forward(net->embed, x), tn_forward(net->place, row));
    x = tn_forward(net->body, x);                       /* (N, 8, WIDTH) */
    return tn_forward(net->head, tn_mean(x, .dim = 1));
}

static const tn_module_class lstm_class =
    TN_MODULE_CLASS(struct reader, "LSTMReader", .forward = lstm_forward);
static const tn_module_class transformer_class = TN_MODULE_CLASS(
    struct reader, "TransformerReader", .forward = transformer_forward);

static tn_module *lstm_reader(void)
{
    struct reader *net = tn_module_new(&lstm_class);
    TN_MODULE_ADD(net, body, tn_nn_lstm(PIXELS, WIDTH, .batch_first = true));
    TN_MODULE_ADD(net, head, tn_nn_linear(WIDTH, 10));
    return (tn_module *)net;
}

static tn_module *transformer_reader(void)
{
    struct reader *net = tn_module_new(&transformer_class);
    TN_MODULE_ADD(net, embed, tn_nn_linear(PIXELS, WIDTH));
    TN_MODULE_ADD(net, place, tn_nn_embedding(ROWS, WIDTH));
    TN_MODULE_ADD(net, body,
                  tn_nn_transformer_encoder(
                      WIDTH, 4, 2, .dim_feedforward = 2 * WIDTH,
                      .dropout = 0.05, .batch_first = true, .norm_first = true,
                      .final_norm = true));
    TN_MODULE_ADD(net, head, tn_nn_linear(WIDTH, 10));
    return (tn_module *)net;
}

/* Returns pixels 0..16 as images (N, 8, 8) in [0, 1], on the device. */
static tn_tensor *rows(const tn_batch *batch, tn_device *device)
{
    tn_tensor *x = tn_to(batch->x, device);
    return tn_reshape(tn_mul_scalar(x, 1.0 / 16), tn_dims(-1, ROWS, PIXELS));
}

static void train(tn_module *net, tn_optim *opt, tn_loader *loader,
                  tn_device *device, const char *label)
{
    tn_progress bar;
    tn_progress_begin(&bar, stdout, tn_loader_count(loader), label);
    double total = 0;
    char note[40] = "";
    tn_module_train(net, true);
    TN_EACH_BATCH(batch, loader) {
        tn_tensor *loss = tn_cross_entropy(
            tn_forward(net, rows(&batch, device)), tn_to(batch.y, device));
        tn_optim_zero_grad(opt);
        tn_backward(loss);
        tn_clip_grad_norm(tn_parameters(net), 1.0);
        tn_optim_step(opt);
        total += tn_item(loss);
        snprintf(note, sizeof note, "loss %.4f",
                 total / (double)(batch.index + 1));
        tn_progress_step(&bar, note);
    }
    tn_progress_end(&bar, note);
}

static double accuracy(tn_module *net, tn_loader *loader, tn_device *device)
{
    int64_t right = 0, count = 0;
    tn_module_eval(net);
    TN_NO_GRAD {
        TN_EACH_BATCH(batch, loader) {
            tn_tensor *guess = tn_argmax(
                tn_forward(net, rows(&batch, device)), .dim = 1);
            right += tn_item_int(
                tn_sum(tn_eq(guess, tn_to(batch.y, device))));
            count += batch.count;
        }
    }
    return (double)right / (double)count;
}

int main(int argc, char **argv)
{
    bool lstm = argc > 1 && strcmp(argv[1], "lstm") == 0;
    if (argc < 2 || (!lstm && strcmp(argv[1], "transformer") != 0))
        return fprintf(stderr, "usage: digits_sequence lstm|transformer "
                               "[DATA.csv.gz]\n"), 2;
    const char *path = argc > 2 ? argv[2] : "data/digits.csv.gz";
    tn_device *device = tn_device_current();
    tn_manual_seed(SEED);
    tn_dataset *all = tn_dataset_from_csv(path, NULL);
    int64_t held = tn_dataset_count(all) / 5;
    tn_dataset *mixed = tn_dataset_shuffle(all, SEED);
    tn_loader *test = tn_loader_new(tn_dataset_range(mixed, 0, held),
                                    .batch_size = 256);
    tn_loader *loader = tn_loader_new(
        tn_dataset_range(mixed, held, tn_dataset_count(all)),
        .batch_size = BATCH, .shuffle = true, .seed = SEED);

    tn_module *net = tn_module_to(
        lstm ? lstm_reader() : transformer_reader(), .device = device);
    tn_optim *opt = tn_optim_adamw(tn_parameters(net), .lr = 5e-3);
    tn_schedule *schedule = tn_schedule_cosine_annealing_lr(opt, EPOCHS);
    for (int epoch = 1; epoch <= EPOCHS && !tn_error(); epoch++) {
        char label[32];
        snprintf(label, sizeof label, "epoch %2d/%d", epoch, EPOCHS);
        train(net, opt, loader, device, label);
        tn_schedule_step(schedule);
    }
    double share = accuracy(net, test, device);
    if (tn_error())
        return fprintf(stderr, "digits_sequence: %s\n", tn_error()), 1;
    printf("test accuracy: %.4f\n", share);
    return 0;
}
