/* stream.h: data sets whose samples come one after another. */
#ifndef TN_LIB_DATA_STREAM_H
#define TN_LIB_DATA_STREAM_H

#include <data/dataset.h>

/* The share of one loader: sample i belongs to loader i % replicas. */
typedef struct tn__stream_share {
    int replicas, rank;
    bool drop_uneven; /* omit the samples of a last round that is not full */
} tn__stream_share;

/* The stream of a data set; NULL for another kind. */
tn__stream *tn__dataset_stream(const tn_dataset *set);

/* Begins an epoch. Returns the number of the loop; an error may be pending. */
uint64_t tn__stream_begin(tn__stream *stream, uint64_t epoch);
/* Waits until all batches before were taken, then adds up to count samples to
 * out: fewer at the end. */
tn_status tn__stream_take(tn__stream *stream, uint64_t loop, int64_t batch,
                          int64_t count, const tn__stream_share *share,
                          tn__samples *out);
/* In place of tn__stream_take if it cannot be called: the stream ends, and later
 * batches do not wait for this one. */
void tn__stream_fail(tn__stream *stream, uint64_t loop, int64_t batch);
/* The number of samples in a batch that was taken. */
int64_t tn__stream_batch_count(tn__stream *stream, int64_t batch,
                               int64_t batch_size);

#endif
