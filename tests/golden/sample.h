/* sample.h: one call of PyTorch from the files, converted to a row's arguments.
 */
#ifndef TN_TESTS_GOLDEN_SAMPLE_H
#define TN_TESTS_GOLDEN_SAMPLE_H

#include "golden.h"

enum { MOST_ARGS = 24, MOST_OUTS = 64, MOST_TENSORS = 64 };

/* The values of one sample, and what they point to. */
typedef struct bound {
    tn_value value[MOST_ARGS];
    tn_dims_list dims[MOST_ARGS];
    tn_tensor *list[MOST_ARGS][MOST_TENSORS];
    double floats[MOST_ARGS][MOST_TENSORS];
} bound;

/* Every tensor of a sample is made once, in order, args first. Gradients refer
 * to that number. */
typedef struct sample {
    tn_safetensors *file;
    const json_t *json;
    tn_tensor *tensor[MOST_TENSORS];
    const json_t *from[MOST_TENSORS]; /* the JSON it was made of */
    int count;
    int64_t dim; /* argument dim of the row that was called, or -1 */
    /* Its strides: those in PyTorch, or these. */
    tn_tensor *(*layout)(tn_tensor *x);
} sample;

/* Does the JSON stand for a tensor? */
bool sample_is_tensor(const json_t *value);
/* Makes the tensors of the sample, in order. */
void sample_make_tensors(sample *s);
/* Converts PyTorch's arguments of `name` to op's. False if op does not accept
 * them. */
bool sample_bind(const sample *s, const tn_op *op, const char *name, bound *b);
/* The index of the argument of this name, or -1. */
int sample_find_arg(const tn_op *op, const char *name);

#endif
