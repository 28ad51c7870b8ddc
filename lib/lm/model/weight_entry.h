/* weight_entry.h: the tensors of a model's files, for weights.c and
 * weights_gguf.c. */
#ifndef TN_LIB_LM_MODEL_WEIGHT_ENTRY_H
#define TN_LIB_LM_MODEL_WEIGHT_ENTRY_H

#include <lm/model/weights.h>
#include <stdatomic.h>
#include <tenon/gguf.h>
#include <tenon/io.h>

/* A mapped safetensors file. Tensors hold references to it. */
typedef struct tn__lm_mapping {
    atomic_int references;
    char *memory;
    size_t bytes;
} tn__lm_mapping;

/* A tensor under its name in the module tree. It is in a safetensors file or in
 * a GGUF file. */
typedef struct tn__lm_entry {
    const char *name;     /* lent by the safetensors file, or `owned` */
    char *owned;          /* NULL for a safetensors file */
    tn_safetensors *file; /* NULL for a GGUF file */
    tn__lm_mapping *map;  /* NULL if the device cannot use it */
    uint64_t at;          /* place in the mapping */
    tn_gguf *gguf;        /* NULL for a safetensors file */
    const char *source;   /* the name in the GGUF file, which lends it */
    int64_t expert; /* index in the first dimension; -1: the whole tensor */
    int64_t heads;  /* not 0: rows are in the order of GGUF's Llama, for so
                             many heads (weights_gguf.c) */
    bool taken;
} tn__lm_entry;

struct tn__lm_weights {
    tn_object object;
    tn__lm_entry *entry; /* owned; sorted by name */
    size_t count;
    tn__lm_mapping **map; /* owned; each a reference */
    size_t map_count;
    tn_dtype dtype;
    bool maps;            /* the device can use the memory of files */
    bool multiplies;      /* the device can use weights in blocks */
    bool keep_blocks;     /* weights in blocks stay in blocks */
    int64_t block_numel, block_bytes; /* of those that were taken as blocks */
    char complaint[1600]; /* names of tensors that are missing or odd */
    size_t complained;
    size_t complaints;
    tn_status worst;
};

/* weights.c: makes an empty list for the current device; appends an entry, and
 * returns false with TN_ERR_MEMORY on failure; sorts the entries, and fails if a
 * name is repeated; sets the dtype, and fails if it is not supported. */
tn__lm_weights *tn__lm_weights_new(void);
bool tn__lm_weights_add(tn__lm_weights *w, tn__lm_entry entry);
bool tn__lm_weights_sort(tn__lm_weights *w, const char *path);
bool tn__lm_weights_set_dtype(tn__lm_weights *w, tn_dtype dtype);

/* weights_gguf.c: the dtype of an entry's elements, which is a block code for
 * blocks; its shape; the tensor itself, as uint8 with the bytes of a row in the
 * last dimension if `blocks`. */
tn_dtype tn__lm_gguf_dtype(const tn__lm_entry *e);
int tn__lm_gguf_shape(const tn__lm_entry *e, const int64_t **shape);
tn_tensor *tn__lm_gguf_load(const tn__lm_weights *w, const tn__lm_entry *e,
                            bool blocks);

#endif
