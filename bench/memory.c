/* memory.c: measures the memory of a training step. Prints, for some models,
 * the peak of the bytes in tensors during one step, minus the bytes before the
 * step (model, optimizer state, batch, and the gradients of the previous step).
 * If the Python in TENON_BENCH_PYTHON (default: python3) has torch, also prints
 * the same for PyTorch, counted by its allocator. The last line, "process", is
 * the peak resident memory of a process that runs all models.
 *
 *     bench/memory
 *
 * Both counts are exact, also on a busy machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

typedef struct model {
    tn_module *net, *head;
    tn_tensor *x, *y;
    tn_optim *optim;
    int64_t position; /* index of the time step or position whose output head
                       * reads, counted from the end */
} model;

/* Completes a model: makes the labels and the optimizer, whose parameter list
 * has the parameters of net and head. */
static void finish(model *m, bool adam, int64_t batch)
{
    m->y = tn_randint(0, 10, tn_dims(batch), .dtype = TN_I64);
    tn_module *all = m->head ? tn_nn_sequential(m->net, m->head) : m->net;
    tn_parameter_list *list = tn_parameters(all);
    m->optim = adam ? tn_optim_adam(list, .lr = 1e-3)
                    : tn_optim_sgd(list, .lr = 1e-3);
}

static void open_mlp(model *m)
{
    m->x = tn_rand(tn_dims(64, 784));
    m->net = tn_nn_sequential(tn_nn_linear(784, 128), tn_nn_relu(),
                              tn_nn_linear(128, 10));
    finish(m, false, 64);
}

static void open_cnn(model *m)
{
    m->x = tn_rand(tn_dims(64, 1, 8, 8));
    m->net = tn_nn_sequential(
        tn_nn_conv2d(1, 16, 3, .padding = 1), tn_nn_relu(),
        tn_nn_max_pool2d(2), tn_nn_conv2d(16, 32, 3, .padding = 1),
        tn_nn_relu(), tn_nn_max_pool2d(2), tn_nn_flatten(),
        tn_nn_linear(128, 64), tn_nn_relu(), tn_nn_linear(64, 10));
    finish(m, false, 64);
}

static void open_lstm(model *m)
{
    m->x = tn_rand(tn_dims(64, 8, 8));
    m->net = tn_nn_lstm(8, 64, .batch_first = true);
    m->head = tn_nn_linear(64, 10);
    m->position = -1;
    finish(m, true, 64);
}

static void open_encoder(model *m)
{
    m->x = tn_rand(tn_dims(16, 32, 64));
    m->net = tn_nn_transformer_encoder_layer(64, 4, .dim_feedforward = 256,
                                             .dropout = 0.1,
                                             .batch_first = true);
    m->head = tn_nn_linear(64, 10);
    finish(m, true, 16);
}

static void open_deep(model *m)
{
    tn_module *layer[61];
    for (int i = 0; i < 60; i += 3) {
        layer[i] = tn_nn_linear(256, 256);
        layer[i + 1] = tn_nn_gelu();
        layer[i + 2] = tn_nn_layer_norm(tn_dims(256));
    }
    layer[60] = tn_nn_linear(256, 10);
    m->x = tn_rand(tn_dims(128, 256));
    m->net = tn_nn_sequential_with(layer, 61);
    finish(m, false, 128);
}

static void step(const model *m)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *out = tn_forward(m->net, m->x);
    if (m->head)
        out = tn_forward(m->head, tn_select(out, 1, m->position));
    tn_tensor *loss = tn_cross_entropy(out, m->y);
    tn_optim_zero_grad(m->optim);
    tn_backward(loss);
    tn_optim_step(m->optim);
    tn_scope_close(scope);
}

static int64_t peak(void (*open)(model *))
{
    tn_scope *scope = tn_scope_open();
    tn_memory_stats stats = {.size = sizeof stats};
    model m = {0};
    open(&m);
    for (int i = 0; i < 3; i++)
        step(&m);
    tn_memory(NULL, &stats);
    int64_t before = stats.allocated_bytes;
    tn_memory_reset_peak(NULL);
    step(&m);
    tn_memory(NULL, &stats);
    tn_scope_close(scope);
    return stats.peak_bytes - before;
}

/* Returns PyTorch's bytes for the model `name` from the output of memory.py, or
 * -1 if they are missing. */
static int64_t find(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = text; line && *line;) {
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            return atoll(line + length);
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return -1;
}

/* Returns the peak resident memory of this process in bytes, or -1 if
 * unknown. */
static int64_t resident(void)
{
    char line[256];
    long long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %lld", &kib) == 1)
            break;
    if (status)
        fclose(status);
    return kib < 0 ? -1 : 1024 * (int64_t)kib;
}

static void print_line(const char *name, int64_t ours, int64_t theirs)
{
    printf("%-10s %12lld", name, (long long)ours);
    if (theirs >= 0)
        printf(" %12lld %8.2f\n", (long long)theirs,
               (double)theirs / (double)ours);
    else
        printf(" %12s %8s\n", "-", "-");
}

static char text[1 << 16];

static void ask_torch(void)
{
    const char *python = getenv("TENON_BENCH_PYTHON");
    char command[4096];
    snprintf(command, sizeof command, "'%s' '%s/memory.py' 2>/dev/null",
             python ? python : "python3", BENCH_FOLDER);
    FILE *pipe = popen(command, "r");
    if (!pipe)
        return;
    size_t count = fread(text, 1, sizeof text - 1, pipe);
    text[count] = '\0';
    pclose(pipe);
}

int main(void)
{
    static const struct {
        const char *name;
        void (*open)(model *);
    } models[] = {
        {"mlp", open_mlp},         {"cnn", open_cnn},   {"lstm", open_lstm},
        {"encoder", open_encoder}, {"deep", open_deep},
    };
    tn_manual_seed(0);
    ask_torch();
    printf("%-10s %12s %12s %8s\n", "model", "Tenon", "PyTorch", "ratio");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        int64_t ours = peak(models[i].open);
        int64_t theirs = find(text, models[i].name);
        if (tn_error())
            return fprintf(stderr, "memory: %s\n", tn_error()), 1;
        print_line(models[i].name, ours, theirs);
    }
    int64_t ours = resident();
    if (ours > 0)
        print_line("process", ours, find(text, "process"));
    return 0;
}
