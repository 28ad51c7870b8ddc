/* char_gpt.c: a transformer learns to predict the next character of a text,
 * then generates text.
 *
 *     char_gpt TEXT [STEPS]                 char_gpt shakespeare.txt 1000
 *
 * It has four layers of 128 features with four heads. A batch is 16 contexts of
 * 128 characters. The last tenth of the text is held out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

enum { SEED = 1, LAYERS = 4, HEADS = 4, WIDTH = 128, CONTEXT = 128, BATCH = 16 };

/* Maps token ids (N, T) to scores of the next character (N, T, vocabulary). */
struct gpt {
    tn_module base;
    tn_module *token, *place, *blocks, *head;
};

static tn_tensor *gpt_forward(tn_module *self, tn_tensor *ids)
{
    struct gpt *gpt = (struct gpt *)self;
    tn_tensor *places =
        tn_arange(0, tn_tensor_size(ids, 1), 1, .device = tn_tensor_device(ids));
    tn_tensor *x = tn_add(tn_forward(gpt->token, ids),
                          tn_forward(gpt->place, places));
    x = tn_nn_transformer_encoder_forward(gpt->blocks, x, .is_causal = true);
    return tn_forward(gpt->head, x);
}

static const tn_module_class gpt_class =
    TN_MODULE_CLASS(struct gpt, "GPT", .forward = gpt_forward);

static tn_module *gpt_new(int vocabulary)
{
    struct gpt *gpt = tn_module_new(&gpt_class);
    tn_module *base = (tn_module *)gpt;
    TN_MODULE_ADD(gpt, token, tn_nn_embedding(vocabulary, WIDTH));
    TN_MODULE_ADD(gpt, place, tn_nn_embedding(CONTEXT, WIDTH));
    TN_MODULE_ADD(gpt, blocks,
                  tn_nn_transformer_encoder(
                      WIDTH, HEADS, LAYERS, .dim_feedforward = 4 * WIDTH,
                      .activation = "gelu", .dropout = false,
                      .batch_first = true, .norm_first = true,
                      .final_norm = true));
    TN_MODULE_ADD(gpt, head, tn_nn_linear(WIDTH, vocabulary));
    /* Makes the embeddings small. With a standard deviation of 1 they would
     * dominate the sum of the residual connections, and the blocks would
     * contribute little. */
    TN_NO_GRAD {
        tn_mul_scalar_(tn_module_parameter(base, "token.weight"), 0.02);
        tn_mul_scalar_(tn_module_parameter(base, "place.weight"), 0.02);
    }
    return base;
}

/* Returns the mean loss of one batch, in nats per character. */
static tn_tensor *batch_loss(tn_module *gpt, const tn_batch *batch,
                             tn_device *device)
{
    tn_tensor *scores = tn_forward(gpt, tn_to(batch->x, device));
    return tn_cross_entropy(tn_flatten(scores, .start_dim = 0, .end_dim = 1),
                            tn_flatten(tn_to(batch->y, device)));
}

static double train(tn_module *gpt, tn_loader *loader, int64_t steps,
                    tn_device *device)
{
    tn_optim *opt = tn_optim_adamw(tn_parameters(gpt), .lr = 2e-3,
                                   .weight_decay = 0.1, .beta2 = 0.99);
    tn_schedule *schedule = tn_schedule_one_cycle_lr(opt, 2e-3, steps,
                                                     .pct_start = 0.1);
    tn_progress bar;
    tn_progress_begin(&bar, stdout, steps, "training");
    char note[40] = "";
    double mean = 0;
    int64_t step = 0;
    tn_module_train(gpt, true);
    while (step < steps && !tn_error())
        TN_EACH_BATCH(batch, loader) {
            if (step == steps)
                break;
            tn_tensor *loss = batch_loss(gpt, &batch, device);
            tn_optim_zero_grad(opt);
            tn_backward(loss);
            tn_clip_grad_norm(tn_parameters(gpt), 1.0);
            tn_optim_step(opt);
            tn_schedule_step(schedule);
            double now = tn_item(loss);
            mean = step ? 0.95 * mean + 0.05 * now : now;
            snprintf(note, sizeof note, "loss %.4f", mean);
            tn_progress_step(&bar, note);
            step++;
        }
    tn_progress_end(&bar, note);
    return mean;
}

/* Returns the mean loss over a few batches of the held-out text. */
static double evaluate(tn_module *gpt, tn_loader *loader, tn_device *device)
{
    enum { BATCHES = 20 };
    double total = 0;
    int64_t count = 0;
    tn_module_eval(gpt);
    TN_NO_GRAD {
        TN_EACH_BATCH(batch, loader) {
            if (count == BATCHES)
                break;
            total += tn_item(batch_loss(gpt, &batch, device));
            count++;
        }
    }
    return total / (double)count;
}

/* Generates `count` characters, each sampled from the model's prediction. */
static void write_some(tn_module *gpt, tn_text *text, int count,
                       tn_device *device)
{
    tn_module_eval(gpt);
    tn_scope *whole = tn_scope_open();
    tn_tensor *ids = tn_to(tn_narrow(tn_text_ids(text), 0, 0, 1), device);
    TN_NO_GRAD {
        for (int i = 0; i < count && !tn_error(); i++) {
            tn_scope *scope = tn_scope_open();
            int64_t length = tn_tensor_size(ids, 0);
            int64_t seen = length < CONTEXT ? length : CONTEXT;
            tn_tensor *x = tn_narrow(ids, 0, length - seen, seen);
            tn_tensor *scores = tn_forward(gpt, tn_unsqueeze(x, 0));
            tn_tensor *last = tn_select(tn_select(scores, 0, 0), 0, seen - 1);
            tn_tensor *next = tn_multinomial(tn_softmax(last, 0), 1);
            tn_tensor *pair[] = {ids, next};
            ids = tn_scope_result(scope, tn_cat(pair, 2, 0));
        }
    }
    char *written = tn_text_decode(text, ids);
    if (written)
        printf("----\n%s\n----\n", written);
    free(written);
    tn_scope_close(whole);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return fprintf(stderr, "usage: char_gpt TEXT [STEPS]\n"), 2;
    int64_t steps = argc > 2 ? atoll(argv[2]) : 1000;
    tn_device *device = tn_device_current();
    tn_manual_seed(SEED);
    tn_text *text = tn_text_load(argv[1]);
    tn_dataset *all = tn_dataset_from_text(text, CONTEXT);
    int64_t count = tn_dataset_count(all), learned = count - count / 10;
    tn_dataset *first = tn_dataset_range(all, 0, learned);
    tn_dataset *rest = tn_dataset_range(all, learned, count);
    tn_loader *loader = tn_loader_new(first, .batch_size = BATCH,
                                      .shuffle = true, .seed = SEED,
                                      .drop_last = true, .workers = 1);
    tn_loader *held = tn_loader_new(rest, .batch_size = BATCH,
                                    .shuffle = true, .seed = SEED);
    tn_module *gpt = tn_module_to(gpt_new(tn_text_vocabulary(text)),
                                  .device = device);
    if (tn_error())
        return fprintf(stderr, "char_gpt: %s\n", tn_error()), 1;
    printf("%lld parameters, %d characters on %s\n",
           (long long)tn_module_parameter_count(gpt),
           tn_text_vocabulary(text), tn_device_name(device));

    double loss = train(gpt, loader, steps, device);
    double unseen = evaluate(gpt, held, device);
    write_some(gpt, text, 200, device);
    if (tn_error())
        return fprintf(stderr, "char_gpt: %s\n", tn_error()), 1;
    printf("training loss: %.4f nats a character\n", loss);
    printf("held-out loss: %.4f nats a character\n", unseen);
    return 0;
}
