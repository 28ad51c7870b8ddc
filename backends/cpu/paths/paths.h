/* paths.h: shortcuts for simple programs, such as one addition, a copy or a
 * gather. They run without blocks. Each shortcut has two functions: recognise
 * is called once for each program that is built, launch for each launch. */
#ifndef TN_CPU_PATHS_H
#define TN_CPU_PATHS_H

#include "../cpu.h"

/* How direct.c runs a program of one instruction over loaded values, such as
 * out = x + y. Operands are given by their index in the program. */
typedef struct cpu_direct {
    /* the routine that computes the output, or NULL if direct.c does not
     * support the program */
    tn_cpu_run *run;
    /* The routine that converts the scalar, if the program fills the output
     * with a scalar of another type. Otherwise NULL. */
    tn_cpu_run *convert;
    bool fills;       /* run stores one scalar in all elements (full, zeros) */
    unsigned allowed; /* bit i: input i may be a scalar */
    uint32_t out;     /* index of the output operand */
    uint32_t in_count;
    struct {
        /* Index of the operand that is loaded, or NONE if the input is a launch
         * parameter or a constant. */
        uint32_t operand;
        bool is_param;
        uint8_t type;      /* register type of the input */
        uint32_t number;   /* index of the launch parameter, if is_param */
        uint64_t constant; /* the constant, in its register type */
    } in[3];
} cpu_direct;

/* A launch that direct.c runs. */
typedef struct cpu_pass {
    tn_cpu_run *run;
    char *out;
    const char *in[3];
    /* Stride in bytes from one element to the next, or 0 for a scalar. */
    size_t out_bytes, bytes[3];
    /* count is the number of elements of the launch, tasks the number of tasks
     * that compute them, which is 0 for no elements. length is the number of
     * elements of a row, or 0 if every input is contiguous or a scalar. */
    int64_t count, tasks, length;
    size_t row_bytes[3];   /* bytes from one row of an input to the next */
    unsigned scalar;       /* bit i: input i is a scalar within a row */
    tn_cpu_stream *stream; /* routine for non-temporal stores, or NULL */
    void (*fence)(void);
    uint64_t number[3], value; /* the values of parameters, to which in[]
                                * points */
} cpu_pass;

/* plan() fills *pass, and returns false if direct.c cannot run the launch of a
 * program that it recognised. point() sets the addresses and numbers again, if
 * the launch has other buffers, offsets or parameters. task() computes the
 * elements of task i. */
bool tn__cpu_pass_plan(cpu_pass *pass, const tn_built *built,
                       const tn_launch *launch);
void tn__cpu_pass_point(cpu_pass *pass, const tn_built *built,
                        const tn_launch *launch);
void tn__cpu_pass_task(const cpu_pass *pass, int64_t i);

/* A program whose output is a short weighted sum, as in interpolation. A tap is
 * one term of the sum: in[index] * weight, or 0 if the weight is 0. taps_find.c
 * sets this struct for taps_along.c and taps_blocks.c. */
typedef struct cpu_taps {
    /* number of taps, or 0 if the program does not compute such sums */
    uint32_t count;
    uint32_t in, out; /* numbers of the input and the output operand */
    /* index[t] and weight[t]: indices of the operands that hold the index and
     * the weight of tap t. */
    uint32_t index[TN_CPU_TAPS], weight[TN_CPU_TAPS];
    /* load[t] and weight_load[t]: the indices of the operations of hoisted code
     * (hoist.c) that load the input element and the weight of term t. */
    uint32_t load[TN_CPU_TAPS], weight_load[TN_CPU_TAPS];
    /* The program adds the terms in a binary tree. This is its depth. */
    int depth;
    uint32_t leaves; /* bit i: leaf i of this tree, counted from the left, is a
                      * term and not 0 */
} cpu_taps;

/* A program that computes one weighted sum for each row. A tap is one term of
 * the sum. If rows have only a few taps, taps_rows.c runs another program
 * instead, in which the sum is unrolled. */
typedef struct cpu_row_taps {
    /* Operand indices, and the TN_LOAD_... flags with which `in` is loaded. */
    uint32_t in, index, weight, out, flags;
    /* written[n]: the unrolled program for rows of n taps, or NULL. It is
     * compiled when first needed. */
    _Atomic(tn_built *) written[TN_CPU_TAPS + 1];
} cpu_row_taps;

/* A program that copies elements: it loads them by up to three indices and
 * stores them unchanged (indexed_copy.c). */
typedef struct cpu_indexed_copy {
    /* number of indices, or 0 if the program is of another kind */
    uint32_t count;
    uint32_t in, out; /* numbers of the input and the output operand */
    struct {
        uint32_t operand;
        bool affine; /* true if the index is an affine function of the
                      * coordinates (instruction OFFSET), false if it is loaded
                      * from a tensor */
    } index[3];
    bool zero; /* an index out of range reads 0 and is no error */
} cpu_indexed_copy;

/* A program that copies elements: it loads them without an index and stores
 * them unchanged (copy.c). */
typedef struct cpu_copy {
    uint32_t in, out; /* numbers of the input and the output operand */
} cpu_copy;

/* A program that copies elements: it loads them by one index and stores them
 * unchanged (take.c). */
typedef struct cpu_take {
    bool zero;               /* an index out of range reads 0 and is no error */
    uint32_t in, index, out; /* numbers of the operands */
} cpu_take;

/* A shortcut for some simple programs: a function that recognises them and one
 * that runs them. */
typedef struct cpu_path {
    const char *name;
    /* Returns whether the shortcut can run the program. If so, stores in
     * `built` the data that its launches need. */
    bool (*recognise)(tn_built *built, const tn_program *program);
    /* Runs a launch and returns true. *status is TN_OK before the call and the
     * launch's status after it. Returns false, with nothing done, if the
     * shortcut does not support the shapes or strides of the operands. */
    bool (*launch)(tn_built *built, const tn_launch *launch,
                   tn_status *status);
} cpu_path;

/* The shortcuts:
 * - direct: one instruction over contiguous operands (direct.c)
 * - copy: copies between any strides (copy.c)
 * - indexed_copy: copies by indices that form contiguous runs, such as padding
 *   and unfold (indexed_copy.c)
 * - take: gathers by one index (take.c)
 * - row_taps: short weighted sums over each row (taps_rows.c)
 * - taps_along: interpolation along one dimension (taps_along.c) */
extern const cpu_path tn__cpu_path_direct, tn__cpu_path_copy,
    tn__cpu_path_indexed_copy, tn__cpu_path_take, tn__cpu_path_row_taps,
    tn__cpu_path_taps_along;
enum { CPU_PATHS = 6 };
/* Sets built->path to a list of the shortcuts that recognise the program, with
 * NULL at the end. A launch tries them in this order. */
void tn__cpu_paths_find(tn_built *built, const tn_program *program);

/* Returns the fastest routine that stores one scalar of `bytes` bytes in
 * `count` elements (fill.c). */
tn_cpu_run *tn__cpu_fill_for(const tn_cpu_routines *routines, int64_t bytes,
                             int64_t count);

#endif
