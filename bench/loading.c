/* loading.c: measures one epoch of a loader that shuffles a dataset of tensors
 * in memory. The batches are not used. */
#include "bench.h"

enum { BATCH = 64 };

/* size[] is the number of samples, of features and of worker threads. */
static void open_loader(bench_state *s)
{
    tn_tensor *x = tn_rand(tn_dims(s->size[0], s->size[1]));
    tn_tensor *y = tn_randint(0, 10, tn_dims(s->size[0]), .dtype = TN_I64);
    s->loader =
        tn_loader_new(tn_dataset_from_tensors(x, y), .batch_size = BATCH,
                      .shuffle = true, .seed = 1, .workers = (int)s->size[2]);
}

static void epoch(bench_state *s)
{
    TN_EACH_BATCH (batch, s->loader)
        s->a = batch.x;
    s->a = NULL;
}

#define EPOCH(samples, features, workers)                                     \
    {"epoch", {samples, features, workers}, open_loader, epoch,            \
     BENCH_COPY((samples) * (features)), 0}

static const bench_work work[] = {
    EPOCH(10000, 784, 0),
    EPOCH(10000, 784, 1),
    EPOCH(1797, 64, 0),
    {.name = NULL},
};
const bench_group bench_data = {"data", work};
