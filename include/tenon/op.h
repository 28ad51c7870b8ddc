/* <tenon/op.h>: operators by name, and operators of your own.
 *
 * Every operator of <tenon/ops.h> can also be found and called by name, which
 * is what bindings, tests and saved programs use. And a line of text makes a
 * new one, with gradients, for every device and dtype:
 *
 *     const tn_op *swish2 =
 *         tn_op_define("swish2(x; b) = x * sigmoid(b * x)");
 *     tn_tensor *y = tn_op_apply(swish2, (tn_tensor *[]){x},
 *                                (double[]){1.5});
 *
 * docs/kernel-language.md is the language.
 *
 * Threads: Any thread may find, define and call operators, several at once;
 * one that is defined is there for all threads, for good. Tensors are shared
 * as <tenon/tensor.h> says.
 */
#ifndef TENON_OP_H
#define TENON_OP_H

#include <tenon/options.h>
#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- numbers ------------------------------------------------------------
 * A number next to a tensor keeps its kind: an integer tensor plus 2 stays
 * integer, plus 2.5 becomes float32. Macros turn C numbers into this.
 * Closed. */

enum { TN_SCALAR_INT, TN_SCALAR_FLOAT, TN_SCALAR_BOOL, TN_SCALAR_NONE };
typedef struct tn_scalar {
    int32_t kind;
    union {
        int64_t i; /* INT and BOOL */
        double f;
    } value;
} tn_scalar;

static inline tn_scalar tn_scalar_int(int64_t i)
{
    tn_scalar s;
    s.kind = TN_SCALAR_INT;
    s.value.i = i;
    return s;
}
static inline tn_scalar tn_scalar_float(double f)
{
    tn_scalar s;
    s.kind = TN_SCALAR_FLOAT;
    s.value.f = f;
    return s;
}
static inline tn_scalar tn_scalar_bool(bool b)
{
    tn_scalar s;
    s.kind = TN_SCALAR_BOOL;
    s.value.i = b;
    return s;
}
/* For a number that may be left out: tn_clamp(x, 0, tn_none). */
static inline tn_scalar tn_scalar_none(void)
{
    tn_scalar s;
    s.kind = TN_SCALAR_NONE;
    s.value.i = 0;
    return s;
}
#define tn_none tn_scalar_none()
static inline tn_scalar tn_scalar_same(tn_scalar s)
{
    return s;
}
#ifndef __cplusplus
#define tn_num(x)                                                             \
    _Generic((x), tn_scalar: tn_scalar_same, float: tn_scalar_float,          \
             double: tn_scalar_float, bool: tn_scalar_bool,                   \
             default: tn_scalar_int)(x)
#else
} /* extern "C" */
inline tn_scalar tn_num(tn_scalar s) { return s; }
inline tn_scalar tn_num(double f) { return tn_scalar_float(f); }
inline tn_scalar tn_num(float f) { return tn_scalar_float(f); }
inline tn_scalar tn_num(bool b) { return tn_scalar_bool(b); }
template <typename Int> inline tn_scalar tn_num(Int i)
{
    return tn_scalar_int((int64_t)i);
}
extern "C" {
#endif

/* ---- the value of one argument --------------------------------------------
 * Closed. */

/* Kinds of arguments. A NONE stands for one that is left out. */
enum {
    TN_VALUE_NONE,
    TN_VALUE_TENSOR,  /* .tensor */
    TN_VALUE_TENSORS, /* .tensors, .count */
    TN_VALUE_NUMBER,  /* .scalar's parts: .count is its kind, .i or .f */
    TN_VALUE_INT,     /* .i */
    TN_VALUE_FLOAT,   /* .f */
    TN_VALUE_BOOL,    /* .i */
    TN_VALUE_DIMS,    /* .dims, lent for the call */
    TN_VALUE_FLOATS,  /* .floats, .count */
    TN_VALUE_STRING,  /* .string, lent for the call */
    TN_VALUE_DTYPE,   /* .i */
    TN_VALUE_DEVICE   /* .device */
};
typedef struct tn_value {
    int32_t kind;  /* TN_VALUE_... */
    int32_t count;
    union {
        tn_tensor *tensor;
        tn_tensor *const *tensors;
        int64_t i;
        double f;
        const tn_dims_list *dims;
        const double *floats;
        const char *string;
        tn_device *device;
    } of;
} tn_value;

/* ---- operators ----------------------------------------------------------- */

typedef struct tn_op tn_op;

/* An argument as the table declares it. */
typedef struct tn_op_arg {
    const char *name;
    uint32_t kinds;        /* bits 1 << TN_VALUE_...: what it may be */
    bool optional;         /* may be NONE */
    bool keyword;          /* an option (after ';') */
    uint16_t size;         /* of this struct */
    const char *fallback;  /* its default as text, NULL where it has none */
} tn_op_arg;

/* The operator of that name ("conv2d", or PyTorch's "nn.functional.conv2d");
 * NULL, without an error, if there is none. Names with overloads ("max") give
 * the first; tn_op_next walks them. Lent, alive as long as the process. */
TN_API const tn_op *tn_op_find(const char *name);
/* The next operator that serves the same PyTorch name; NULL after the last. */
TN_API const tn_op *tn_op_next(const tn_op *op, const char *name);
TN_API int tn_op_count(void);
TN_API const tn_op *tn_op_at(int i);

TN_API const char *tn_op_name(const tn_op *op);
TN_API const char *tn_op_doc(const tn_op *op);
/* "conv2d(input, weight, bias=None; stride=1, ...)": lent. */
TN_API const char *tn_op_signature(const tn_op *op);
/* Its kernel text, NULL for one that is not a kernel. */
TN_API const char *tn_op_kernel(const tn_op *op);
TN_API int tn_op_arg_count(const tn_op *op);
TN_API const tn_op_arg *tn_op_arg_at(const tn_op *op, int i);
/* Can a gradient flow through it at all? */
TN_API bool tn_op_is_differentiable(const tn_op *op);

/* Calls op with one value for each of its arguments, in order (missing ones at
 * the end are NONE: their default). Fills out[] and returns how many outputs
 * there are; TN_ERR_ARGUMENT if that is more than room. The open scope owns
 * them. */
TN_API int tn_op_call(const tn_op *op, const tn_value *values, int count,
                      tn_tensor **out, int room);

/* The same, but the results are written into existing tensors of the right
 * shape, dtype and device (PyTorch's out=). An out may be an input itself
 * (in place). Records no gradient: refused if an input requires one while
 * gradients are on. Kernel operators only. */
TN_API tn_status tn_op_call_into(const tn_op *op, const tn_value *values,
                                 int count, tn_tensor *const *out,
                                 int out_count);

/* By name, with tensors alone: tn_call("relu", x). Ends at the number of
 * tensors the operator takes; options have their defaults. First output. */
TN_API tn_tensor *tn_call(const char *name, tn_tensor *first, ...);

/* Defines an operator from a line of the kernel language: inputs become tensor
 * arguments, parameters number arguments without default. `offset` inputs are
 * not arguments: they are the element's number in the output. Rows: with a row
 * reduction the last dimension is the row. Of an input read by index, x[i, j],
 * the indices count the last dimensions, and no gradient flows to it. Its name
 * must be new. Alive as long as the process. NULL with TN_ERR_FORMAT: line,
 * column and what is wrong. */
TN_API const tn_op *tn_op_define(const char *text);

/* Calls op with tensors and numbers: tn_op_apply(swish2, (tn_tensor *[]){x},
 * (double[]){2.0}); counts come from the operator. First output. */
TN_API tn_tensor *tn_op_apply(const tn_op *op, tn_tensor *const *tensors,
                              const double *numbers);

#ifdef __cplusplus
}
#endif
#endif
