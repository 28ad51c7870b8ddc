/* inference.c: measures one forward pass on one sample without gradients, as in
 * a program that serves requests. */
#include "bench.h"
#include "models.h"

static void open_net(bench_state *s, tn_module *net, tn_tensor *x)
{
    s->net = tn_module_train(net, false);
    s->a = x;
}

#define OPEN(name, ...)                                                       \
    static void open_##name(bench_state *s)                                   \
    {                                                                         \
        open_net(s, bench_##name(), tn_rand(tn_dims(__VA_ARGS__)));           \
    }
OPEN(mlp, s->size[0], 784)
OPEN(cnn28, s->size[0], 1, 28, 28)
OPEN(resnet20, s->size[0], 3, 32, 32)

static void open_lstm(bench_state *s)
{
    open_net(s, tn_nn_lstm(8, 64, .batch_first = true),
             tn_rand(tn_dims(s->size[0], 8, 8)));
}

static void open_gpt(bench_state *s)
{
    open_net(s, bench_gpt(65),
             tn_randint(0, 65, tn_dims(s->size[0], 128), .dtype = TN_I64));
}

BENCH_CALL(run, tn_forward(s->net, s->a))

/* `parameters` is the number of weights, which are read once. `products` is the
 * number of multiply-adds. */
#define NET(name, parameters, products)                                       \
    {#name, {1}, open_##name, run, {parameters, 0, 2. * (products), 0, false}, 0}

static const bench_work work[] = {
    NET(mlp, 101770, 784 * 128 + 1280),
    NET(cnn28, 1199882,
        BENCH_3X3 * (676 * 9 * 32 + 576 * 288 * 64) + 9216 * 128 + 1280),
    NET(lstm, 19594, 8 * (8 * 256 + 64 * 256) + 640),
    NET(resnet20, 272474, BENCH_3X3 * 40.56e6 + 0.26e6),
    NET(gpt, 826433, 128 * (4 * (12 * 128 * 128 + 2 * 128 * 64) + 65 * 128)),
    {.name = NULL},
};
const bench_group bench_inference = {"inference", work};
