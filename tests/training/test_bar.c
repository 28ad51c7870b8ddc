/* test_bar.c: the progress bars of training, validation and evaluation on a
 * terminal. */
#include <tenon/tenon.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "../tap.h"

/* Slow enough that bars are drawn: at most 20 times a second. */
static tn_tensor *loss(tn_tensor *out, const tn_batch *batch, void *context)
{
    (void)context;
    usleep(30000);
    return tn_mse_loss(out, batch->y);
}

static int terminal = -1, standard = -1;

/* Makes stderr a pseudo terminal, and returns its other end. */
static int begin_terminal(void)
{
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
        return -1;
    terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    standard = dup(STDERR_FILENO);
    if (terminal < 0 || dup2(terminal, STDERR_FILENO) < 0)
        return -1;
    fcntl(master, F_SETFL, O_NONBLOCK);
    return master;
}

static const char *text_of(int master)
{
    static char text[20000];
    size_t bytes = 0;
    ssize_t got;
    fflush(stderr);
    while (bytes < sizeof text - 1 &&
           (got = read(master, text + bytes, sizeof text - 1 - bytes)) > 0)
        bytes += (size_t)got;
    text[bytes] = '\0';
    return text;
}

int main(void)
{
    const int master = begin_terminal();
    if (master < 0)
        bail_out("no pseudo terminal");
    tn_dataset *set = tn_dataset_from_tensors(tn_rand(tn_dims(10, 3)),
                                              tn_rand(tn_dims(10, 2)));
    tn_loader *loader = tn_loader_new(set, .batch_size = 1);
    tn_module *net = tn_nn_linear(3, 2);
    tn_optim *opt = tn_optim_sgd(tn_parameters(net), .lr = 0.01);

    const double value = tn_evaluate(net, loader, .loss = loss);
    const char *text = text_of(master);
    ok(value > 0 && strstr(text, "evaluation [") && strstr(text, "/10, ") &&
           strstr(text, " left loss "),
       "an evaluation shows its loss, speed and the time left");
    ok(strstr(text, "evaluation  loss ") && strstr(text, " s, "),
       "and ends with a line");
    tn_evaluate(net, loader, .loss = loss, .progress = false);
    is_str(text_of(master), "", ".progress = false writes nothing");

    is_int(tn_train(net, opt, loader, .epochs = 2, .loss = loss,
                    .validation = tn_loader_new(set)),
           TN_OK, "training");
    text = text_of(master);
    ok(strstr(text, "epoch 1/2 [") && strstr(text, "epoch 2/2 ["),
       "an epoch has a bar");
    ok(strstr(text, "epoch 1/2 validation ["), "and so has its validation");
    ok(strstr(text, "epoch 1/2  loss ") &&
           !strstr(text, "validation  loss"),
       "they end with one line");

    dup2(standard, STDERR_FILENO);
    close(terminal);
    close(master);
    ok(!tn_error(), "%s", tn_error() ? tn_error() : "no error");
    return done_testing();
}
