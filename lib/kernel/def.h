/* def.h: the syntax tree of a parsed definition. Names are resolved to slots;
 * nothing is typed yet.
 *
 * A slot is the number of a named value. Inputs are numbered first, then
 * parameters, then each `let` and loop variable in the order of the text. */
#ifndef TN_LIB_KERNEL_DEF_H
#define TN_LIB_KERNEL_DEF_H

#include <pthread.h>
#include <stdatomic.h>

#include <kernel/arena.h>
#include <kernel/kernel.h>
#include <kernel/lex.h>

enum tn__node_kind {
    TN__NODE_INTEGER, /* field integer */
    TN__NODE_FLOAT,   /* field number */
    TN__NODE_NAME,    /* field slot */
    TN__NODE_UNARY,   /* op is the token; kid[0] is the operand */
    TN__NODE_BINARY,  /* op is the token; kid[0] op kid[1] */
    TN__NODE_CALL,    /* name is the function's; kids are the arguments */
    TN__NODE_CONVERT, /* kid[0] converted to type parameter number slot */
    TN__NODE_LOAD,    /* slot is an input's; kids are the indices; op is 1 if
                       * elements outside are read as 0 */
    TN__NODE_BLOCK,   /* kids are LETs, at most one WHILE, and the value */
    TN__NODE_LET,     /* assigns kid[0] to `integer` slots from slot on */
    TN__NODE_WHILE,   /* kid[0] is the condition */
    /* slot is the loop index's; integer is the number of carried values. The
     * kids are the bound, a LET for each carried value, and the body (a BLOCK
     * that ends in a LIST). */
    TN__NODE_LOOP,
    TN__NODE_LIST     /* kids are the values */
};

typedef struct tn__node {
    uint8_t kind;
    uint16_t depth; /* depth of the tree below this node. It is bounded, so
                     * functions may recurse over the tree. */
    int op;
    int line, column;
    uint32_t slot;
    uint32_t count; /* number of kids */
    int64_t integer;
    double number;
    const char *name;
    struct tn__node **kid;
} tn__node;

#define TN__MAX_DEPTH 200
#define TN__MAX_SLOTS 1000
#define TN__MAX_LOOPS 3

typedef struct tn__def_entry { /* one kernel of a definition */
    uint64_t dtypes;           /* four bits for each dtype: of the inputs,
                                * then of the type parameters */
    const tn__kernel *kernel;
    struct tn__def_entry *next;
} tn__def_entry;

#define TN__WEAK_INTEGER TN_DTYPE_END

struct tn__def {
    const char *name, *where;
    int input_count, type_count, param_count, output_count;
    struct {
        const char *name;
        bool row, offset;
    } input[TN__KERNEL_MAX_INPUTS];
    struct {
        const char *name;
        tn_dtype dtype; /* TN_DTYPE_NONE: the parameter is weak and has the
                         * kernel's float type. TN__WEAK_INTEGER: the parameter
                         * is a weak i64, like integer literals. */
    } param[TN__KERNEL_MAX_PARAMS];
    uint32_t slot_count;
    const tn__node *body;
    bool of_gradient;
    int used[TN__KERNEL_MAX_INPUTS]; /* of a gradient: the tensor that each
                                      * input is, numbered as in
                                      * tn__def_gradient_used */
    _Atomic(tn__def_entry *) entries;
    tn__arena arena; /* memory of this definition and its tree */
    tn__def *next;   /* next in the list of all definitions, which keeps them
                      * reachable */
};

/* Returns how many values a node has: a list or a loop may have several. */
int tn__node_values(const tn__node *node);

/* Sets level[o] to the level of output o of def. The level follows from marks
 * (": row") and reductions alone, so typing is not needed. */
void tn__def_levels(const tn__def *def, uint8_t *level);

/* ---- built-in functions (builtin.c) ------------------------------------ */

enum tn__builtin {
#define TN__BUILTIN_MAP(X)                                                     \
    X(where, 3) X(weighted, 2)                                                 \
    X(min, 2) X(max, 2) X(abs, 1) X(neg, 1) X(floor, 1) X(ceil, 1) X(trunc, 1) \
        X(rint, 1) X(sqrt, 1) X(fma, 3) X(div, 2) X(rem, 2) X(shl, 2)          \
            X(shr, 2) X(shrl, 2) X(mulhi, 2) X(bits, 1) X(from_bits, 1)        \
                X(f32, 1) X(f64, 1) X(f16, 1) X(bf16, 1) X(f8e4m3, 1)          \
                    X(f8e5m2, 1) X(i64, 1) X(i32, 1) X(i16, 1) X(i8, 1)        \
                        X(u8, 1) X(bool, 1) X(float, 1) X(like, 2)             \
                            X(divisor, 2) X(fraction, 1) X(nonnegative, 1)     \
                            X(random, 3) X(rlen, 0) X(stop, 1) X(rsum, 1)      \
                                X(rprod, 1) X(rmax, 1) X(rmin, 1) X(rmean, 1)  \
                                    X(rargmax, 1) X(rargmin, 1) X(rany, 1)     \
                                        X(rall, 1)
#define TN__BUILTIN_ENUM(name, count) TN__BUILTIN_##name,
    TN__BUILTIN_MAP(TN__BUILTIN_ENUM)
#undef TN__BUILTIN_ENUM
        TN__BUILTIN_END
};
/* Finds a built-in function by name and sets its number of arguments. Returns
 * TN__BUILTIN_END if there is no such function. */
enum tn__builtin tn__builtin_find(const char *name, int *arg_count);

#endif
