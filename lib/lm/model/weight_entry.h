/* weight_entry.h: the tensors of a model's files: a list (weight_list.c), and how
 * those of GGUF files are read (gguf_weight.c). */
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

/* A tensor of a safetensors file or of a GGUF file. */
typedef struct tn__lm_entry {
    const char *name;     /* the name in the module tree; memory of `file`, or
                             `owned` */
    char *owned;          /* NULL for a safetensors file */
    tn_safetensors *file; /* NULL for a GGUF file */
    tn__lm_mapping *map;  /* NULL if the device cannot use mapped memory */
    uint64_t at;          /* offset in the mapping */
    tn_gguf *gguf;        /* NULL for a safetensors file */
    const char *source;   /* the name in the GGUF file; memory of `gguf` */
    int64_t expert; /* index in the first dimension of `source`; -1: the whole
                       tensor */
    int64_t heads;  /* not 0: number of heads whose rows must be reordered (see
                       halves in gguf_weight.c) */
    bool taken;
} tn__lm_entry;

struct tn__lm_weights {
    tn_object object;
    tn__lm_entry *entry; /* owned; sorted by name */
    size_t count;
    tn__lm_mapping **map; /* owned array of references */
    size_t map_count;
    tn_dtype dtype;
    bool maps;            /* the device can use mapped memory */
    bool multiplies;      /* the device can multiply by weights in blocks */
    bool keep_blocks;     /* weights in blocks stay in blocks */
    int64_t block_numel, block_bytes; /* elements and bytes of the weights that
                                         stay in blocks */
    char complaint[1600]; /* message about tensors that are missing or have
                             another shape */
    size_t complained;
    size_t complaints;
    tn_status worst;
};

/* Makes an empty list for the current device, which the open scope owns. */
tn__lm_weights *tn__lm_weights_new(void);
/* Appends an entry. Returns false with TN_ERR_MEMORY on failure. */
bool tn__lm_weights_add(tn__lm_weights *w, tn__lm_entry entry);
/* Sorts the entries. Returns false if a name is repeated. */
bool tn__lm_weights_sort(tn__lm_weights *w, const char *path);
/* Returns the entry of a sorted list, or NULL. */
tn__lm_entry *tn__lm_weights_find(const tn__lm_weights *w, const char *name);
/* Sets the dtype of all weights. Returns false if it is not supported. */
bool tn__lm_weights_set_dtype(tn__lm_weights *w, tn_dtype dtype);
/* Drops a reference to a tn__lm_mapping. */
void tn__lm_unmap(void *mapping);
/* Records that memory ran out. Returns false. */
bool tn__lm_no_memory(void);

/* In gguf_weight.c. tn__lm_gguf_dtype returns the dtype of an entry, or a
 * block code if it is in blocks. tn__lm_gguf_load returns the tensor; with
 * `blocks`, it is uint8 and its last dimension has the bytes of a row. */
tn_dtype tn__lm_gguf_dtype(const tn__lm_entry *e);
int tn__lm_gguf_shape(const tn__lm_entry *e, const int64_t **shape);
tn_tensor *tn__lm_gguf_load(const tn__lm_weights *w, const tn__lm_entry *e,
                            bool blocks);

#endif
