/* server.cc: four threads answer requests with one network.
 *
 *     server train DATA.csv.gz MODEL     trains the network and saves it
 *     server serve MODEL SOCKET          answers on a new Unix socket
 *     server ask SOCKET DATA.csv.gz [N]  asks for the first N digits
 *
 * A request is a line of 64 pixels, 0 to 16, separated by commas. The answer is
 * a line with the digit and its probability, or one that begins with "error: ".
 */
#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <tenon/tenon.h>
#include <thread>
#include <unistd.h>
#include <vector>

static const int THREADS = 4, PIXELS = 64;

static tn_module *network()
{
    tn_nn_conv2d_options same;
    same.padding = 1;
    return tn_nn_sequential(tn_nn_conv2d(1, 16, 3, same), tn_nn_relu(),
                            tn_nn_max_pool2d(2), tn_nn_conv2d(16, 32, 3, same),
                            tn_nn_relu(), tn_nn_max_pool2d(2), tn_nn_flatten(),
                            tn_nn_linear(128, 10));
}

/* Maps pixels (N, 64) to scores (N, 10). */
static tn_tensor *scores(tn_module *net, tn_tensor *pixels)
{
    tn_tensor *x = tn_mul_scalar(pixels, 1.0 / 16);
    return tn_forward(net, tn_reshape(x, tn_dims(-1, 1, 8, 8)));
}

static void train(const char *data, const char *model)
{
    tn_manual_seed(1);
    tn_module *net = network();
    tn_loader_new_options batches;
    batches.batch_size = 32;
    batches.shuffle = true;
    tn_loader *loader = tn_loader_new(tn_dataset_from_csv(data, NULL), batches);
    tn_optim_adam_options rate;
    rate.lr = 2e-3;
    tn_train_options options;
    options.epochs = 5;
    options.log = stdout;
    options.forward = [](tn_module *module, const tn_batch *batch, void *) {
        return scores(module, batch->x);
    };
    options.loss = [](tn_tensor *out, const tn_batch *batch, void *) {
        return tn_cross_entropy(out, batch->y);
    };
    tn_train(net, tn_optim_adam(tn_parameters(net), rate), loader, options);
    tn_module_save(net, model);
}

/* Returns the answer to a request: the digit in the image and its
 * probability. */
static std::string answer(tn_module *net, const char *request)
{
    std::istringstream in(request);
    std::vector<float> pixels;
    char comma = ',';
    for (float pixel; comma == ',' && in >> pixel;) {
        pixels.push_back(pixel);
        comma = 0;
        in >> comma;
    }
    if (pixels.size() != PIXELS || !in.eof())
        return "error: a request is a line of 64 numbers";
    tn_tensor *x = tn_tensor_from_array(pixels.data(), TN_F32, tn_dims(PIXELS));
    tn_tensor *shares = tn_softmax(scores(net, x), 1), *digit = nullptr;
    double share = tn_item(tn_max_dim(shares, 1, &digit));
    char text[64];
    snprintf(text, sizeof text, "%d %.6f", (int)tn_item_int(digit), share);
    return tn_error() ? std::string("error: ") + tn_error() : text;
}

/* Answers the requests of one client after another. */
static void serve(tn_module *net, int listener)
{
    tn_device_set(tn_tensor_device(tn_module_parameter(net, "0.weight")));
    TN_NO_GRAD_HERE;
    char *line = nullptr;
    size_t room = 0;
    for (int client; (client = accept(listener, nullptr, nullptr)) >= 0;) {
        FILE *in = fdopen(client, "r");
        while (in && getline(&line, &room, in) > 0) {
            tn_scope *scope = tn_scope_open();
            dprintf(client, "%s\n", answer(net, line).c_str());
            tn_error_clear();
            tn_scope_close(scope);
        }
        if (in)
            fclose(in);
    }
    perror("server: accept");
    free(line);
}

static sockaddr_un address(const char *path)
{
    sockaddr_un at = {};
    at.sun_family = AF_UNIX;
    if (strlen(path) < sizeof at.sun_path)
        strcpy(at.sun_path, path);
    else
        tn_error_set(TN_ERR_ARGUMENT, "%s is too long for a socket", path);
    return at;
}

static int serve_on(const char *model, const char *path)
{
    tn_module *net = network();
    tn_module_load(net, model);
    tn_module_eval(net);
    sockaddr_un at = address(path);
    if (tn_error())
        return fprintf(stderr, "server: %s\n", tn_error()), 1;
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (sockaddr *)&at, sizeof at) < 0 ||
        listen(listener, 16) < 0)
        return perror("server"), 1;
    signal(SIGPIPE, SIG_IGN); /* writing to a client that has closed its
                               * connection must not end the program */
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++)
        threads.emplace_back(serve, net, listener);
    for (std::thread &thread : threads)
        thread.join();
    return 1;
}

static int ask(const char *path, const char *data, int64_t most)
{
    tn_tensor *table = tn_csv_load(data);
    int64_t count = std::min(most, tn_tensor_size(table, 0));
    int64_t columns = tn_tensor_size(table, 1);
    std::vector<float> rows(tn_tensor_numel(table));
    tn_tensor_to_array(table, rows.data(), rows.size() * sizeof(float));
    sockaddr_un at = address(path);
    if (tn_error())
        return fprintf(stderr, "server: %s\n", tn_error()), 1;
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    FILE *in = fdopen(server, "r");
    if (!in || connect(server, (sockaddr *)&at, sizeof at) < 0)
        return perror("server"), 1;
    int right = 0;
    for (int64_t i = 0; i < count; i++) {
        const float *row = &rows[i * columns];
        std::ostringstream request;
        for (int64_t k = 0; k < columns - 1; k++)
            request << (k ? "," : "") << row[k];
        dprintf(server, "%s\n", request.str().c_str());
        char reply[4096];
        if (!fgets(reply, sizeof reply, in))
            return fprintf(stderr, "server: no answer\n"), 1;
        fputs(reply, stdout);
        right += isdigit(reply[0]) && atoi(reply) == row[columns - 1];
    }
    printf("%d of %d are right\n", right, (int)count);
    return 0;
}

int main(int argc, char **argv)
{
    std::string mode = argc > 3 ? argv[1] : "";
    if (mode == "train")
        train(argv[2], argv[3]);
    else if (mode == "serve")
        return serve_on(argv[2], argv[3]);
    else if (mode == "ask")
        return ask(argv[2], argv[3], argc > 4 ? atoi(argv[4]) : 100);
    else
        return fprintf(stderr, "usage: server train DATA MODEL\n"
                               "       server serve MODEL SOCKET\n"
                               "       server ask SOCKET DATA [N]\n"),
               2;
    if (tn_error())
        return fprintf(stderr, "server: %s\n", tn_error()), 1;
}
