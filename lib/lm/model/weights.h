/* weights.h: where layers get their weights from: the safetensors files of a
 * folder, a GGUF file, or the random generator. */
#ifndef TN_LIB_LM_MODEL_WEIGHTS_H
#define TN_LIB_LM_MODEL_WEIGHTS_H

#include <tenon/nn.h>

enum { TN__LM_PATH = 256 };  /* bytes of a tensor's name, with its NUL */
enum { TN__LM_FORMAT = 16 }; /* bytes of a block format's name: "Q4_K" */

/* The weights of a folder. */
typedef struct tn__lm_weights tn__lm_weights;

/* Opens model.safetensors, or the files that model.safetensors.index.json
 * lists, and reads their headers. The current device gets the tensors. dtype may
 * be TN_DTYPE_NONE for that of `first`, the name of a tensor, with or without
 * prefix. Sets *prefixed to whether the files have the prefix. The open scope
 * owns the result. */
tn__lm_weights *tn__lm_weights_open(const char *folder, tn_dtype dtype,
                                    const char *first, const char *prefix,
                                    bool *prefixed);
/* The same for a GGUF file, whose names become those of the family's folders. If
 * dtype is TN_DTYPE_NONE, weights in blocks stay in blocks, which the current
 * device must be able to multiply; otherwise they are dequantised. */
struct tn_gguf;
struct tn__lm_spec;
tn__lm_weights *tn__lm_weights_open_gguf(struct tn_gguf *file,
                                         const struct tn__lm_spec *spec,
                                         tn_dtype dtype, const char *prefix);
tn_dtype tn__lm_weights_dtype(const tn__lm_weights *weights);
/* The number of elements that stay in blocks, and the bytes of these blocks. */
int64_t tn__lm_weights_in_blocks(const tn__lm_weights *weights, int64_t *bytes);
bool tn__lm_weights_has(const tn__lm_weights *weights, const char *name);
/* Counts a tensor as taken, if it is there. */
void tn__lm_weights_skip(tn__lm_weights *weights, const char *name);
/* Ends the building of a model: fails if tensors were missing or had other
 * shapes, or, with strict, if the files have tensors that nobody took and whose
 * names end with none of `unused`. */
bool tn__lm_weights_check(tn__lm_weights *weights, const char *const *unused,
                          bool strict);

/* What a layer's constructor needs. weights is NULL for random weights. */
typedef struct tn__lm_maker {
    tn__lm_weights *weights;
} tn__lm_maker;

/* What a random parameter begins as. */
enum { TN__LM_ZEROS, TN__LM_ONES, TN__LM_RANDOM };

/* Returns the tensor path.name ("model.norm" and "weight"), of this shape. If
 * the files lack it, the complaint is kept for tn__lm_weights_check, and a
 * tensor of one element is returned. */
tn_tensor *tn__lm_take(tn__lm_maker *maker, const char *path, const char *name,
                       tn_dims_list shape, int begin);
/* Returns the matrix path.name of (rows, size) as uint8 blocks, (rows, bytes of a
 * row), and the name of their format; NULL without an error if it is not in
 * blocks, or not to stay so. */
tn_tensor *tn__lm_take_blocks(tn__lm_maker *maker, const char *path,
                              const char *name, int64_t rows, int64_t size,
                              char format[TN__LM_FORMAT]);

#endif
