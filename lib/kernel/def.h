/* def.h: the syntax tree of a parsed definition. Each name has been replaced by
 * the index of the value that it means, called a slot. No types are assigned
 * yet.
 *
 * The inputs have the first slots, then come the parameters, then each `let`
 * and each loop variable in the order of the source. */
#ifndef TN_LIB_KERNEL_DEF_H
#define TN_LIB_KERNEL_DEF_H

#include <pthread.h>
#include <stdatomic.h>

#include <kernel/arena.h>
#include <kernel/kernel.h>
#include <kernel/lex.h>

enum tn__node_kind {
    TN__NODE_INTEGER, /* the value is in the field `integer` */
    TN__NODE_FLOAT,   /* the value is in the field `number` */
    TN__NODE_NAME,    /* reads the value in `slot` */
    TN__NODE_UNARY,   /* `op` is the operator's token, kid[0] the operand */
    TN__NODE_BINARY,  /* `op` is the operator's token, kid[0] and kid[1] are the
                       * operands */
    TN__NODE_CALL,    /* `name` is the function's name, the kids are its
                       * arguments */
    TN__NODE_CONVERT, /* converts kid[0] to the dtype of a type parameter, whose
                       * index is in `slot` */
    TN__NODE_LOAD,    /* loads an element of the input in `slot`. The kids are
                       * the indices. `op` is 1 if elements outside the tensor
                       * are read as 0, else 0. */
    TN__NODE_BLOCK,   /* the kids are LETs, at most one WHILE, and finally the
                       * value */
    TN__NODE_LET,     /* defines local names: assigns the values of kid[0] to
                       * `slot` and the slots after it; `integer` is the number
                       * of values */
    TN__NODE_WHILE,   /* kid[0] is the condition under which the loop
                       * continues */
    /* A loop. Its index is in `slot`, and the number of its variables in
     * `integer`. The kids are the bound, a LET with the first value of each
     * variable, and the body: a BLOCK whose value is a LIST of the new
     * values. */
    TN__NODE_LOOP,
    TN__NODE_LIST     /* the kids are the values */
};

typedef struct tn__node {
    uint8_t kind;
    uint16_t depth; /* Depth of the tree below this node. The parser limits it
                     * to TN__MAX_DEPTH, so functions may recurse over the
                     * tree. */
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

/* The kernel of a definition for one combination of dtypes. */
typedef struct tn__def_entry {
    uint64_t dtypes; /* the dtypes of the inputs, then those of the type
                      * parameters, four bits for each */
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
        tn_dtype dtype; /* TN_DTYPE_NONE if the source gives the parameter no
                         * type; then it has the float type in which the kernel
                         * computes. TN__WEAK_INTEGER for an int64 that promotes
                         * like an integer literal. */
    } param[TN__KERNEL_MAX_PARAMS];
    uint32_t slot_count;
    const tn__node *body;
    bool of_gradient;
    int used[TN__KERNEL_MAX_INPUTS]; /* For a gradient: the tensor that is its
                                      * input i, as an index into the list of
                                      * tn__kernel_gradient. */
    _Atomic(tn__def_entry *) entries;
    tn__arena arena; /* memory of this definition and of its tree */
    tn__def *next;   /* next in the list of all definitions, through which leak
                      * checkers find them */
};

/* Returns how many values a node has. A list or a loop may have several. */
int tn__node_values(const tn__node *node);

/* Sets level[o] to whether output o of a definition has one value per element
 * (TN_LEVEL_ELEM), one per row (TN_LEVEL_ROW), or one in all
 * (TN_LEVEL_UNIFORM). This follows from the source alone (marks ": row" and
 * reductions), so the definition need not be typed. */
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
/* Finds a built-in function by name and sets *arg_count to its number of
 * arguments. Returns TN__BUILTIN_END if there is no such function. */
enum tn__builtin tn__builtin_find(const char *name, int *arg_count);

#endif
