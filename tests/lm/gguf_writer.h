/* gguf_writer.h: writes GGUF files for tests: valid ones, and damaged ones. */
#ifndef TN_TESTS_LM_GGUF_WRITER_H
#define TN_TESTS_LM_GGUF_WRITER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct gguf_writer {
    unsigned char *data; /* from malloc */
    size_t bytes, room;
} gguf_writer;

static inline void put(gguf_writer *w, const void *from, size_t bytes)
{
    if (w->bytes + bytes > w->room) {
        w->room = 2 * (w->bytes + bytes);
        w->data = realloc(w->data, w->room);
    }
    if (bytes)
        memcpy(w->data + w->bytes, from, bytes);
    w->bytes += bytes;
}

static inline void put_u8(gguf_writer *w, uint8_t x) { put(w, &x, 1); }
static inline void put_u32(gguf_writer *w, uint32_t x) { put(w, &x, 4); }
static inline void put_u64(gguf_writer *w, uint64_t x) { put(w, &x, 8); }
static inline void put_f32(gguf_writer *w, float x) { put(w, &x, 4); }
static inline void put_text(gguf_writer *w, const char *text)
{
    put_u64(w, strlen(text));
    put(w, text, strlen(text));
}

static inline void put_head(gguf_writer *w, uint64_t tensors, uint64_t keys)
{
    put(w, "GGUF", 4);
    put_u32(w, 3);
    put_u64(w, tensors);
    put_u64(w, keys);
}

/* Appends the entry of a tensor. The sizes are in the order of the file. */
static inline void put_entry(gguf_writer *w, const char *name, int ndim,
                             const uint64_t *size, uint32_t type,
                             uint64_t offset)
{
    put_text(w, name);
    put_u32(w, (uint32_t)ndim);
    for (int d = 0; d < ndim; d++)
        put_u64(w, size[d]);
    put_u32(w, type);
    put_u64(w, offset);
}

/* Appends zeros up to a multiple of 32 bytes. */
static inline void put_padding(gguf_writer *w)
{
    while (w->bytes % 32)
        put_u8(w, 0);
}

/* Writes the first `bytes` bytes to a file. Returns 1 on success. */
static inline int write_file(const char *path, const gguf_writer *w,
                             size_t bytes)
{
    FILE *file = fopen(path, "wb");
    int ok = file && fwrite(w->data, 1, bytes, file) == bytes;
    return file ? fclose(file) == 0 && ok : 0;
}

#endif
