/* type.h: the state of typing a syntax tree, for common_type.c, type.c
 * (expressions) and type_builtin.c (operators and built-in functions). */
#ifndef TN_LIB_KERNEL_TYPE_H
#define TN_LIB_KERNEL_TYPE_H

#include <kernel/ssa.h>

/* A typed value. Weak values come from numbers in the text and from parameters
 * without a type. Their dtype is I64, or the kernel's float type, or F64 for a
 * float constant, which keeps all digits until it is combined with a strong
 * value. */
typedef struct tn__value {
    uint32_t id;
    tn_dtype dtype;
    bool weak;
} tn__value;

typedef struct tn__typer {
    tn__ssa *ssa;
    const char *where;
    tn__value *slot;
    tn_dtype real; /* float type of the computation */
    int inlined;   /* nesting depth of inlined `def`s */
    bool in_loop, in_fn;
    const tn__node *at; /* the node whose operands are combined, for messages */
} tn__typer;

/* The common type of several values: dtype, its register type, whether weak. */
typedef struct tn__common_type {
    tn_dtype dtype, type;
    bool weak;
} tn__common_type;

/* "where:line:column: ..." with TN_ERR_DTYPE; returns false. */
bool tn__type_fail(const tn__typer *typer, const tn__node *at,
                   const char *format, ...) TN__PRINTF(3, 4);

bool tn__is_float(tn_dtype dtype);
bool tn__is_integer(tn_dtype dtype); /* without bool */

/* Types a node, which has one value. */
bool tn__type_value(tn__typer *typer, const tn__node *node, tn__value *out);

/* The common type of values. If there is none, the error is recorded and the
 * SSA marked as failed; the result is then valid but meaningless. */
tn__common_type tn__type_common(const tn__typer *typer, const tn__value *value,
                                int count);
/* The common type of one strong value of this dtype. */
tn__common_type tn__common_type_of(tn_dtype dtype);
/* Converts the value to the register type of `common`. */
uint32_t tn__type_to_common(tn__typer *typer, const tn__value *value,
                            const tn__common_type *common);
/* A value of the common type; wraps narrow integers. */
tn__value tn__type_result(tn__typer *typer, const tn__common_type *common,
                          uint32_t id);
/* Makes a weak value strong: I64 or the kernel's float type. */
tn__value tn__type_strong(tn__typer *typer, tn__value value);
/* f16(x) and the other conversions: rounds or wraps to dtype. */
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
