/* one_case.h: programs that test one thing: an instruction on given types and a
 * given layout. */
#ifndef TN_CHECK_ONE_CASE_H
#define TN_CHECK_ONE_CASE_H

#include "random_program.h"

/* The layouts of operands. */
#define ONE_LAYOUT_MAP(X)                                                      \
    X(CONTIGUOUS, "contiguous")                                                \
    X(PERMUTED, "permuted")                                                    \
    X(BROADCAST, "broadcast")                                                  \
    X(NEGATIVE, "negative strides")                                            \
    X(STEPPED, "every third element")                                          \
    X(EMPTY, "a zero extent")                                                  \
    X(RANK_0, "rank 0")                                                        \
    X(RANK_12, "rank 12")

enum {
#define ONE_LAYOUT_ENUM(name, text) ONE_##name,
    ONE_LAYOUT_MAP(ONE_LAYOUT_ENUM)
#undef ONE_LAYOUT_ENUM
        ONE_LAYOUTS
};
extern const char *const one_layout_names[ONE_LAYOUTS];

/* An instruction with its types. */
typedef struct one_form {
    uint8_t op;
    uint8_t dtype;  /* the result's register type */
    uint8_t arg[3]; /* operands' register types; 0: none */
    uint8_t sub;
    uint8_t storage; /* of LOAD and STORE: the dtype in memory */
    int64_t number;  /* of CALL: index of the language's function; of CONST and
                      * PARAM: index of the corner case */
} one_form;

/* The i-th form of an instruction; false after the last one. REDUCE and the
 * parts of loops have none: see below. */
bool one_form_at(unsigned op, int i, one_form *form);

/* The form on a layout. On contiguous memory its operands go through all pairs
 * of corner cases. NULL: memory ran out. */
random_case *one_case_new(const one_form *form, int layout);

/* x + y on `rank` dimensions, permuted and some of them flipped. */
random_case *one_rank_case(uint32_t rank, uint64_t seed);

/* A reduction of kind over rows of this length of dtype. Variants: 0
 * contiguous, 1 flipped, 2 columns, 3 over two row dimensions. Returns NULL
 * with *exists false if dtype has no such reduction. */
random_case *one_reduce_case(unsigned kind, tn_dtype dtype, int64_t length,
                             int variant, bool *exists);

/* A load through `indices` computed indices. They are at both ends of the
 * extent, or with `outside` beyond it too, which is a fault or with `zero`
 * reads 0. */
random_case *one_gather_case(uint32_t indices, bool outside, bool zero,
                             tn_dtype dtype);

/* A loop with carried values and an early end, different for each element. */
random_case *one_loop_case(void);

#endif
