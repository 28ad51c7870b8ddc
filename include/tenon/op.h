/* <tenon/op.h>: operators by name, and operators of your own.
 *
 * Every operator of <tenon/ops.h> can also be found and called by its name, as
 * bindings, tests and saved programs do. One line of the kernel language
 * defines a new operator, with gradients, for every device and dtype:
 *
 *     const tn_op *swish2 =
 *         tn_op_define("swish2(x; b) = x * sigmoid(b * x)");
 *     tn_tensor *y = tn_op_apply(swish2, (tn_tensor *[]){x},
 *                                (double[]){1.5});
 *
 * docs/kernel-language.md describes the language.
 *
 * Threads: Any thread may find, define and call operators, several at once. A
 * new operator is available to all threads until the process ends. Tensors are
 * shared as <tenon/tensor.h> says.
 */
#ifndef TENON_OP_H
#define TENON_OP_H

#include <tenon/options.h>
#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- numbers ------------------------------------------------------------
 * A number that is combined with a tensor keeps its kind: int64 tensor + 2 is
 * int64, int64 tensor + 2.5 is float32. Macros convert C numbers to this
 * struct. Closed: the struct never changes. */

enum {
    TN_SCALAR_INT,
    TN_SCALAR_FLOAT,
    TN_SCALAR_BOOL,
    TN_SCALAR_NONE,
    TN_SCALAR_LATE /* value.i is the address of a double, which is read when the
                    * operator runs (tn_late_number in compile.h) */
};
typedef struct tn_scalar {
    int32_t kind;
    union {
        int64_t i; /* for INT, BOOL and LATE */
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
/* An omitted optional number: tn_clamp(x, 0, tn_none). */
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
 * Closed: the struct never changes. */

/* Kinds of arguments, and the members of tn_value that hold them. TN_VALUE_NONE
 * means that the argument is left out. */
enum {
    TN_VALUE_NONE,
    TN_VALUE_TENSOR,  /* of.tensor */
    TN_VALUE_TENSORS, /* of.tensors, and their count in count */
    TN_VALUE_NUMBER,  /* a tn_scalar: its kind in count, and of.i or of.f */
    TN_VALUE_INT,     /* of.i */
    TN_VALUE_FLOAT,   /* of.f */
    TN_VALUE_BOOL,    /* of.i */
    TN_VALUE_DIMS,    /* of.dims, valid during the call */
    TN_VALUE_FLOATS,  /* of.floats, and their count in count */
    TN_VALUE_STRING,  /* of.string, valid during the call */
    TN_VALUE_DTYPE,   /* of.i */
    TN_VALUE_DEVICE   /* of.device */
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

/* An argument, as declared in the operator table. */
typedef struct tn_op_arg {
    const char *name;
    uint32_t kinds;        /* accepted kinds, as bits 1 << TN_VALUE_... */
    bool optional;         /* the argument may be TN_VALUE_NONE */
    bool keyword;          /* the argument is an option (after ';') */
    uint16_t size;         /* sizeof(tn_op_arg) */
    const char *fallback;  /* default value as a string; NULL if there is
                            * none */
} tn_op_arg;

/* Returns the operator of that name ("conv2d", or PyTorch's
 * "nn.functional.conv2d"). Returns NULL, without an error, if there is none. If
 * a name has overloads ("max"), returns the first. Operators are valid until
 * the process ends. */
TN_API const tn_op *tn_op_find(const char *name);
/* Returns the next operator with the same PyTorch name, or NULL after the
 * last. */
TN_API const tn_op *tn_op_next(const tn_op *op, const char *name);
/* Return the number of operators, yours included, and operator i, or NULL if i
 * is out of range. Cannot fail. */
TN_API int tn_op_count(void);
TN_API const tn_op *tn_op_at(int i);

/* Return the operator's name, and a sentence of documentation. The strings in
 * this and the next two calls belong to the operator. */
TN_API const char *tn_op_name(const tn_op *op);
TN_API const char *tn_op_doc(const tn_op *op);
/* Returns the signature: "conv2d(input, weight, bias=None, stride=1, ...)". The
 * first call for an operator makes it; returns NULL if memory runs out then. */
TN_API const char *tn_op_signature(const tn_op *op);
/* Returns the operator's source in the kernel language, or NULL if it is not a
 * kernel. */
TN_API const char *tn_op_kernel(const tn_op *op);
/* Return the number of the operator's arguments, and argument i, which belongs
 * to the operator, or NULL if i is out of range. */
TN_API int tn_op_arg_count(const tn_op *op);
TN_API const tn_op_arg *tn_op_arg_at(const tn_op *op, int i);
/* Returns whether any input of the operator can have a gradient. */
TN_API bool tn_op_is_differentiable(const tn_op *op);

/* Calls op with count values, one for each argument in order. Arguments beyond
 * count have their defaults. Writes the outputs to out[] and returns their
 * number, or a negative status on failure. room is the length of out[]: if it
 * is too short, the call fails with TN_ERR_ARGUMENT. The open scope owns the
 * outputs. */
TN_API int tn_op_call(const tn_op *op, const tn_value *values, int count,
                      tn_tensor **out, int room);

/* Like tn_op_call, but writes the results into existing tensors of the right
 * shape, dtype and device (PyTorch's out=). An out tensor may also be an input
 * (in place). Fails with TN_ERR_UNSUPPORTED for operators that are not kernels.
 * Records no gradient: fails with TN_ERR_STATE if an input requires a gradient
 * while gradients are recorded. */
TN_API tn_status tn_op_call_into(const tn_op *op, const tn_value *values,
                                 int count, tn_tensor *const *out,
                                 int out_count);

/* Calls an operator by name, with tensors only: tn_call("relu", x). Takes as
 * many tensors as the operator has tensor arguments. Options have their
 * defaults. Returns the first output, which the open scope owns, or NULL on
 * failure. */
TN_API tn_tensor *tn_call(const char *name, tn_tensor *first, ...);

/* Defines an operator from a line of the kernel language. Its inputs become
 * tensor arguments, and its parameters become number arguments without default.
 * An input marked `offset` is not an argument: its value is the index of the
 * element in the output. In a row reduction, the row is the last dimension. If
 * an input is read by index, as in x[i, j], the indices select along its last
 * dimensions, and it gets no gradient. The name must be new. The operator is
 * valid until the process ends. If text is invalid, returns NULL with
 * TN_ERR_FORMAT; the message has the line, the column and the error. */
TN_API const tn_op *tn_op_define(const char *text);

/* Defines an operator at the first call, and returns the same one at later
 * calls. It is stored in *op, a static variable that is NULL at first:
 *
 *     static const tn_op *swish2;
 *     if (!tn_op_define_once("swish2(x; b) = x * sigmoid(b * x)", &swish2))
 *         return NULL;
 *
 * Several threads may call it at once. Returns NULL like tn_op_define; the next
 * call tries again. */
TN_API const tn_op *tn_op_define_once(const char *text, const tn_op **op);

/* Calls op with an array of its tensor arguments and an array of its number
 * arguments: tn_op_apply(swish2, (tn_tensor *[]){x}, (double[]){2.0}). Returns
 * the first output, which the open scope owns, or NULL on failure. */
TN_API tn_tensor *tn_op_apply(const tn_op *op, tn_tensor *const *tensors,
                              const double *numbers);

#ifdef __cplusplus
}
#endif
#endif
