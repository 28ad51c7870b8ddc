/* stream.h: data sets without indices, whose samples come one after another
 * (PyTorch's IterableDataset). */
#ifndef TN_LIB_DATA_STREAM_H
#define TN_LIB_DATA_STREAM_H

#include <data/dataset.h>

/* The part of a stream that one of several loaders gets: the samples i with i %
 * replicas == rank. */
typedef struct tn__stream_share {
    int replicas, rank;
    bool drop_uneven; /* omit the last samples if they are fewer than loaders */
} tn__stream_share;

/* Returns the stream of a data set, or NULL if it is of another kind. */
tn__stream *tn__dataset_stream(const tn_dataset *set);

/* Begins an epoch. Returns an id of this loop over the data, which later calls
 * pass. An error may be pending afterwards. */
uint64_t tn__stream_begin(tn__stream *stream, uint64_t epoch);
/* Waits until the samples of all earlier batches have been read, then adds up
 * to count samples to out, fewer at the end of the stream. */
tn_status tn__stream_take(tn__stream *stream, uint64_t loop, int64_t batch,
                          int64_t count, const tn__stream_share *share,
                          tn__samples *out);
/* Called instead of tn__stream_take for a batch that cannot be made. The stream
 * ends, and later batches do not wait for this one. */
void tn__stream_fail(tn__stream *stream, uint64_t loop, int64_t batch);
/* Returns the number of samples in a batch that has been taken. */
int64_t tn__stream_batch_count(tn__stream *stream, int64_t batch,
                               int64_t batch_size);

#endif
