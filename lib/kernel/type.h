/* type.h: gives every node of a syntax tree a type. The typer is the state that
 * common_type.c, type.c (expressions) and type_builtin.c (operators and
 * built-in functions) share. */
#ifndef TN_LIB_KERNEL_TYPE_H
#define TN_LIB_KERNEL_TYPE_H

#include <kernel/ssa.h>

/* A typed value. Weak values come from literals in the text and from parameters
 * without a type. The dtype of a weak value is I64, the kernel's float type, or
 * F64. A float constant is weak F64, which keeps all digits until the constant
 * is combined with a strong value. */
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
    tn_dtype real; /* float type of the computation */
    int inlined;   /* nesting depth of inlined `def`s */
    bool in_loop, in_fn;
    const tn__node *at; /* the node whose operands are combined now, for error
                         * messages */
} tn__typer;

/* The type to which several values are converted before an operation. `type` is
 * the register type of dtype. */
typedef struct tn__common_type {
    tn_dtype dtype, type;
    bool weak;
} tn__common_type;

/* Records a TN_ERR_DTYPE with the message "where:line:column: ...". Returns
 * false. */
bool tn__type_fail(const tn__typer *typer, const tn__node *at,
                   const char *format, ...) TN__PRINTF(3, 4);

bool tn__is_float(tn_dtype dtype);
bool tn__is_integer(tn_dtype dtype); /* false for bool */

/* Types a node that has one value. */
bool tn__type_value(tn__typer *typer, const tn__node *node, tn__value *out);

/* Returns the common type of values. If there is none, the error is recorded
 * and the SSA is marked as failed; the returned type is then valid but
 * meaningless. */
tn__common_type tn__type_common(const tn__typer *typer, const tn__value *value,
                                int count);
/* Returns the common type of one strong value of this dtype. */
tn__common_type tn__common_type_of(tn_dtype dtype);
/* Converts a value to the register type of `common`. Returns the number of the
 * converted value. */
uint32_t tn__type_to_common(tn__typer *typer, const tn__value *value,
                            const tn__common_type *common);
/* Makes a typed value of register value `id`, which was computed in the common
 * type. A narrow integer is wrapped. */
tn__value tn__type_result(tn__typer *typer, const tn__common_type *common,
                          uint32_t id);
/* Makes a weak value strong. Its dtype becomes I64 or the kernel's float
 * type. */
tn__value tn__type_strong(tn__typer *typer, tn__value value);
/* Types f16(x) and the other conversions, which round or wrap x to dtype. */
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
