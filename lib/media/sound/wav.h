/* wav.h: the header and the sample formats of WAV files. */
#ifndef TN_MEDIA_WAV_H
#define TN_MEDIA_WAV_H

#include <tenon/sound.h>

/* A file, or bytes in memory (fd is -1). */
typedef struct tn__wav_source {
    int fd;
    const unsigned char *data;
    uint64_t bytes;
    /* for messages: the public call, its argument, and the path or "data" */
    const char *call, *argument, *name;
} tn__wav_source;

/* A sample format. dtype is the dtype of a tensor that has such samples. */
typedef struct tn__wav_format {
    const char *name;
    int tag, bits;   /* of the fmt chunk */
    tn_dtype dtype;
} tn__wav_format;
/* Returns format i, or NULL after the last one. */
const tn__wav_format *tn__wav_format_at(int i);

typedef struct tn__wav {
    const tn__wav_format *format;
    uint32_t rate;
    int channels;
    uint64_t start;  /* byte at which the samples begin */
    int64_t frames;
} tn__wav;

/* Reads bytes at an offset, which lie in the file. */
tn_status tn__wav_read(const tn__wav_source *s, uint64_t offset, void *out,
                       size_t bytes);
/* Reads the header. */
tn_status tn__wav_parse(const tn__wav_source *s, tn__wav *out);

#endif
