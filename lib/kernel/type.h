/* type.h: what typing knows while it walks a tree. Shared by expressions
 * (type.c) and the built-in words (type_builtin.c). */
#ifndef TN_LIB_KERNEL_TYPE_H
#define TN_LIB_KERNEL_TYPE_H

#include <kernel/ssa.h>

/* A typed value. Weak ones come from numbers in the text and from parameters
 * without a type: dtype is then I64, or F64 for a float constant (which keeps
 * all its digits until it meets a type), or the kernel's float. */
typedef struct tn__value {
    uint32_t id;
    tn_dtype dtype;
    bool weak;
} tn__value;

typedef struct tn__typer {
    tn__ssa *ssa;
    const char *where;
    tn__value *slot;
    tn_dtype real; /* the float type in which the kernel computes */
    int inlined;   /* depth of `def`s */
    bool in_loop, in_fn;
    const tn__node *at; /* whose operands meet: for messages */
} tn__typer;

/* In what values meet: dtype, its register type, and whether that is weak. */
typedef struct tn__common_type {
    tn_dtype dtype, type;
    bool weak;
} tn__common_type;

/* "where:line:column: ..." with TN_ERR_DTYPE; returns false. */
bool tn__type_fail(const tn__typer *typer, const tn__node *at,
                   const char *format, ...) TN__PRINTF(3, 4);

bool tn__is_float(tn_dtype dtype);
bool tn__is_integer(tn_dtype dtype); /* without bool */

/* Evaluates a node of one value, of any number. */
bool tn__type_value(tn__typer *typer, const tn__node *node, tn__value *out);

/* Where dtypes have none in common the error is recorded and the SSA failed:
 * what is returned then is of no use and does no harm. */
tn__common_type tn__type_common(const tn__typer *typer, const tn__value *value,
                                int count);
/* Where dtype alone decides: as tn__type_common of one strong value. */
tn__common_type tn__common_type_of(tn_dtype dtype);
/* The register of value in that meeting. */
uint32_t tn__type_to_common(tn__typer *typer, const tn__value *value,
                            const tn__common_type *common);
/* A value of that meeting; wraps narrow integers. */
tn__value tn__type_result(tn__typer *typer, const tn__common_type *common,
                          uint32_t id);
/* Weak ones become I64 or the kernel's float. */
tn__value tn__type_strong(tn__typer *typer, tn__value value);
/* f16(x) and its like: rounds and wraps to dtype. */
tn__value tn__type_convert(tn__typer *typer, tn__value value, tn_dtype dtype);
uint32_t tn__type_bool(tn__typer *typer, const tn__value *value);

bool tn__type_binary(tn__typer *typer, const tn__node *node, int sign,
                     const tn__value arg[2], tn__value *out);
bool tn__type_unary(tn__typer *typer, const tn__node *node, int sign,
                    tn__value arg, tn__value *out);
bool tn__type_builtin(tn__typer *typer, const tn__node *node,
                      enum tn__builtin word, const tn__value *arg,
                      tn__value *out);

#endif
