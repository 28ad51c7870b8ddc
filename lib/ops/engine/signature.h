/* signature.h: parses the signature of an operator that a program registers, as
 * "cube(x, scale: float = 1) -> y". */
#ifndef TN_LIB_OPS_SIGNATURE_H
#define TN_LIB_OPS_SIGNATURE_H

#include <ops/engine/ops.h>

typedef struct tn__signature {
    char *text;  /* a copy of the text, owned. Names and defaults point into
                    it. */
    const char *name;
    int arg_count, tensor_count, out_count;
    tn_op_arg arg[TN__OP_MAX_ARGS];
    tn_value fallback[TN__OP_MAX_ARGS];
    tn_dims_list dims[TN__OP_MAX_ARGS]; /* memory for defaults of kind dims */
} tn__signature;

/* Parses text, a signature in the syntax of lib/ops/README.md, into *out. Lists
 * of tensors and of floats are not accepted. Pointers in *out point into *out,
 * so it must not be moved. */
tn_status tn__signature_parse(const char *text, tn__signature *out);

#endif
