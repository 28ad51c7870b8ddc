/* type.h: gives every node of a syntax tree a type, and appends its
 * instructions. tn__typer is the state that three files share: common_type.c
 * (promotion), type.c (expressions) and type_builtin.c (operators and built-in
 * functions). */
#ifndef TN_LIB_KERNEL_TYPE_H
#define TN_LIB_KERNEL_TYPE_H

#include <kernel/ssa.h>

/* A typed value. A value is weak if it comes from a literal, or from a
 * parameter without a type (as Python scalars in PyTorch). The dtype of a weak
 * value is I64, the float type of the kernel, or F64. A float literal is a weak
 * F64, so it has all its digits until it is combined with a value that is not
 * weak. */
typedef struct tn__value {
    uint32_t id;
    tn_dtype dtype;
    bool weak;
} tn__value;

typedef struct tn__typer {
    tn__ssa *ssa;
    const char *where;
    tn__value *slot;
    const tn_dtype *type; /* dtypes of the definition's type parameters */
    tn_dtype real; /* float type in which the kernel computes */
    int inlined;   /* number of `def` items around the node that are being
                    * inlined */
    bool in_loop, in_fn;
    const tn__node *at; /* the node whose operands are being combined, for error
                         * messages */
} tn__typer;

/* The type to which operands are converted before an operation. `type` is the
 * register type of dtype. */
typedef struct tn__common_type {
    tn_dtype dtype, type;
    bool weak;
} tn__common_type;

/* Records the error TN_ERR_DTYPE with the message "where:line:column: ...".
 * Returns false. */
bool tn__type_fail(const tn__typer *typer, const tn__node *at,
                   const char *format, ...) TN__PRINTF(3, 4);

bool tn__is_float(tn_dtype dtype);
bool tn__is_integer(tn_dtype dtype); /* returns false for bool */

/* Types a node, which must have exactly one value. */
bool tn__type_value(tn__typer *typer, const tn__node *node, tn__value *out);

/* Returns the common type of `count` values. If there is none, records an
 * error, marks the SSA as failed, and returns an arbitrary type. */
tn__common_type tn__type_common(const tn__typer *typer, const tn__value *value,
                                int count);
/* Returns the common type of a single value of this dtype that is not weak. */
tn__common_type tn__common_type_of(tn_dtype dtype);
/* Converts a value to the register type of `common`. Returns the index of the
 * converted value. */
uint32_t tn__type_to_common(tn__typer *typer, const tn__value *value,
                            const tn__common_type *common);
/* Returns the typed value of the result `id` of an operation that was computed
 * in the common type. Narrow integers are wrapped. */
tn__value tn__type_result(tn__typer *typer, const tn__common_type *common,
                          uint32_t id);
/* Makes a weak value an ordinary one, whose dtype is I64 or the float type of
 * the kernel. */
tn__value tn__type_strong(tn__typer *typer, tn__value value);
/* Types a conversion such as f16(x), which rounds or wraps x to dtype. */
tn__value tn__type_convert(tn__typer *typer, tn__value value, tn_dtype dtype);
uint32_t tn__type_bool(tn__typer *typer, const tn__value *value);

bool tn__type_binary(tn__typer *typer, const tn__node *node, int sign,
                     const tn__value arg[2], tn__value *out);
bool tn__type_unary(tn__typer *typer, const tn__node *node, int sign,
                    tn__value arg, tn__value *out);
bool tn__type_builtin(tn__typer *typer, const tn__node *node,
                      enum tn__builtin builtin, const tn__value *arg,
                      tn__value *out);

#endif
