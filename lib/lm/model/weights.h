/* weights.h: the source from which layers take their weights: the safetensors
 * files of a folder, a GGUF file, or the random generator. */
#ifndef TN_LIB_LM_MODEL_WEIGHTS_H
#define TN_LIB_LM_MODEL_WEIGHTS_H

#include <tenon/nn.h>

enum { TN__LM_PATH = 256 };  /* bytes of a tensor's name, with its NUL */
enum { TN__LM_FORMAT = 16 }; /* bytes of a block format's name: "Q4_K" */

/* An open source of weights. */
typedef struct tn__lm_weights tn__lm_weights;

/* Opens model.safetensors, or the files listed in model.safetensors.index.json,
 * and reads their headers. Tensors will be made on the current device, with
 * this dtype. For TN_DTYPE_NONE, it is the dtype of the tensor `first`, with or
 * without prefix. Sets *prefixed to whether names in the files have the prefix.
 * The open scope owns the result. */
tn__lm_weights *tn__lm_weights_open(const char *folder, tn_dtype dtype,
                                    const char *first, const char *prefix,
                                    bool *prefixed);
/* Does the same for a GGUF file, whose tensors get the names that the family
 * uses in safetensors files. If dtype is TN_DTYPE_NONE, weights in blocks are
 * not dequantised; the current device must be able to multiply by them. */
struct tn_gguf;
struct tn__lm_spec;
tn__lm_weights *tn__lm_weights_open_gguf(struct tn_gguf *file,
                                         const struct tn__lm_spec *spec,
                                         tn_dtype dtype, const char *prefix);
tn_dtype tn__lm_weights_dtype(const tn__lm_weights *weights);
/* Returns the number of elements that stay in blocks, and the bytes of these
 * blocks. */
int64_t tn__lm_weights_in_blocks(const tn__lm_weights *weights, int64_t *bytes);
bool tn__lm_weights_has(const tn__lm_weights *weights, const char *name);
/* Returns whether too many tensors are missing to continue: a config may name
 * very many experts that the files lack. False for NULL. */
bool tn__lm_weights_give_up(const tn__lm_weights *weights);
/* Marks a tensor as used, if it exists. */
void tn__lm_weights_skip(tn__lm_weights *weights, const char *name);
/* Must be called after a model has been built. Fails if tensors were missing or
 * had other shapes. With `strict`, it also fails if the files contain tensors
 * that were not used and whose names end with none of `unused`. */
bool tn__lm_weights_check(tn__lm_weights *weights, const char *const *unused,
                          bool strict);

/* An argument of all functions that make layers. weights is NULL for random
 * weights. */
typedef struct tn__lm_maker {
    tn__lm_weights *weights;
    bool relaxed; /* products with bfloat16 weights are (tenon/relaxed.h) */
} tn__lm_maker;

/* The initial values of a parameter, if weights are random. */
enum { TN__LM_ZEROS, TN__LM_ONES, TN__LM_RANDOM };

/* Returns the tensor path.name ("model.norm" and "weight"), which must have
 * this shape. If it does not exist, tn__lm_weights_check will report it, and
 * the result is a tensor of one element. */
tn_tensor *tn__lm_take(tn__lm_maker *maker, const char *path, const char *name,
                       tn_dims_list shape, int begin);
/* Returns the blocks of the matrix path.name (rows, size), a uint8 tensor
 * (rows, bytes of a row), and sets format to their format. Returns NULL without
 * an error if the matrix is not in blocks or is to be dequantised. */
tn_tensor *tn__lm_take_blocks(tn__lm_maker *maker, const char *path,
                              const char *name, int64_t rows, int64_t size,
                              char format[TN__LM_FORMAT]);

#endif
