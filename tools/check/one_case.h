/* one_case.h: makes small programs that each test one thing, such as one
 * instruction with given dtypes on operands with a given memory layout. */
#ifndef TN_CHECK_ONE_CASE_H
#define TN_CHECK_ONE_CASE_H

#include "random_program.h"

/* The memory layouts of operands. */
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

/* An instruction with the types of its operands and result. A form is one valid
 * combination of these types. */
typedef struct one_form {
    uint8_t op;
    uint8_t dtype;  /* register type of the result */
    uint8_t arg[3]; /* register types of the operands; 0 if it has fewer */
    uint8_t sub;
    uint8_t storage; /* for LOAD and STORE, the dtype in memory */
    int64_t number;  /* for CALL, the index of a function of the kernel
                      * language; for CONST and PARAM, the index of a special
                      * value */
} one_form;

/* Sets *form to the i-th form of an instruction. Returns false after the last
 * one. REDUCE and the instructions of loops have no forms; one_reduce_case and
 * one_loop_case make programs for them. */
bool one_form_at(unsigned op, int i, one_form *form);

/* Makes a program with this one instruction on operands of the given layout.
 * With contiguous operands their values run through all pairs of special values
 * (zeros, limits, NaN). Returns NULL if memory runs out. */
random_case *one_case_new(const one_form *form, int layout);

/* Makes a program for x + y on operands of `rank` dimensions, whose order in
 * memory is permuted and of which some have negative strides. */
random_case *one_rank_case(uint32_t rank, uint64_t seed);

/* Makes a program that reduces rows of `length` elements of dtype. The variant
 * is the layout of a row: 0 contiguous, 1 with negative stride, 2 a column of a
 * row-major matrix, 3 two dimensions. Returns NULL and sets *exists to false if
 * dtype does not support this kind of reduction. */
random_case *one_reduce_case(unsigned kind, tn_dtype dtype, int64_t length,
                             int variant, bool *exists);

/* Makes a program that loads elements at computed positions, with `indices`
 * indices each. The indices are at both ends of their range. If `outside` is
 * true, some are out of range, which is an error or, if `zero` is true, reads
 * 0. */
random_case *one_gather_case(uint32_t indices, bool outside, bool zero,
                             tn_dtype dtype);

/* Makes a program with a loop that carries values from one iteration to the
 * next and ends after a different number of iterations for each element. */
random_case *one_loop_case(void);

#endif
