/* sample.h: one call of PyTorch from a sample file, converted to the arguments
 * of an operator of the table. */
#ifndef TN_TESTS_GOLDEN_SAMPLE_H
#define TN_TESTS_GOLDEN_SAMPLE_H

#include "golden.h"

enum { MOST_ARGS = 24, MOST_OUTS = 64, MOST_TENSORS = 64 };

/* The argument values of one sample, and the memory that they point to. */
typedef struct bound {
    tn_value value[MOST_ARGS];
    tn_dims_list dims[MOST_ARGS];
    tn_tensor *list[MOST_ARGS][MOST_TENSORS];
    double floats[MOST_ARGS][MOST_TENSORS];
} bound;

/* A sample. Each of its tensors is created once, in order, `args` first.
 * Gradients refer to a tensor by its index in this order. */
typedef struct sample {
    tn_safetensors *file;
    const json_t *json;
    tn_tensor *tensor[MOST_TENSORS];
    const json_t *from[MOST_TENSORS]; /* the JSON value that each tensor was
                                       * made from */
    int count;
    int64_t dim; /* value of the argument dim of the called operator; -1 if it
                  * has none */
    /* Changes the strides of a tensor; NULL: strides as in PyTorch. */
    tn_tensor *(*layout)(tn_tensor *x);
} sample;

/* Returns whether the JSON value describes a tensor. */
bool sample_is_tensor(const json_t *value);
/* Creates the tensors of the sample, in order. */
void sample_make_tensors(sample *s);
/* Converts PyTorch's arguments of `name` to those of op. Returns false if op
 * does not accept them. */
bool sample_bind(const sample *s, const tn_op *op, const char *name, bound *b);
/* Returns whether the sample is a call of linalg.pinv with two matrices a and b:
 * it describes the pseudoinverse of a b^T, whose rank is known. */
bool sample_is_product(const char *name, const json_t *json);
/* Returns the index of the argument of this name; -1 if there is none. */
int sample_find_arg(const tn_op *op, const char *name);

#endif
