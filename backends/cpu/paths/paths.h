/* paths.h: shortcuts for programs that need no blocks: one table of {recognise,
 * launch}. */
#ifndef TN_CPU_PATHS_H
#define TN_CPU_PATHS_H

#include "../cpu.h"

/* A program of one instruction over loaded values: o = x op y. */
typedef struct cpu_direct {
    tn_cpu_run *run;     /* NULL: the program is of another kind */
    tn_cpu_run *convert; /* converts the one value that run fills with; NULL:
                            none */
    bool fills;          /* run stores one value in all elements */
    unsigned allowed;    /* bits: operands that may be one value */
    uint32_t out;        /* operand number */
    uint32_t in_count;
    struct {
        uint32_t operand; /* NONE: the parameter or constant `number` */
        bool is_param;
        uint8_t type;
        uint32_t number;
        uint64_t constant; /* its first bytes */
    } in[3];
} cpu_direct;

/* A program that sums a few taps. A tap is a load by an index times a weight
 * (taps_find.c). */
typedef struct cpu_taps {
    uint32_t count;   /* 0: the program is of another kind */
    uint32_t in, out; /* operand numbers */
    uint32_t index[TN_CPU_TAPS], weight[TN_CPU_TAPS]; /* likewise */
    /* Numbers of operations of the hoisted code. */
    uint32_t load[TN_CPU_TAPS], weight_load[TN_CPU_TAPS];
    int depth;       /* of the tree of additions */
    uint32_t leaves; /* bits: leaves of the tree that are taps, left to right */
} cpu_taps;

/* A program whose rows are such sums, and the programs with a given number of
 * taps written out, built when first needed. */
typedef struct cpu_row_taps {
    uint32_t in, index, weight, out, flags; /* operands; flags of the load */
    _Atomic(tn_built *) written[TN_CPU_TAPS + 1];
} cpu_row_taps;

/* A program that stores what it loads by up to three indices
 * (indexed_copy.c). */
typedef struct cpu_indexed_copy {
    uint32_t count; /* indices; 0: the program is of another kind */
    uint32_t in, out;
    struct {
        uint32_t operand;
        bool affine; /* an OFFSET, affine in the coordinates; else a load */
    } index[3];
    bool zero; /* an index out of range is no fault */
} cpu_indexed_copy;

/* A program that stores what it loads, bit by bit (copy.c). */
typedef struct cpu_copy {
    uint32_t in, out; /* operand numbers */
} cpu_copy;

/* A program that stores what it loads by one index (take.c). */
typedef struct cpu_take {
    bool zero; /* an index out of range is no fault */
    uint32_t in, index, out;
} cpu_take;

/* A shortcut. recognise: is the program of its kind? If so, it stores in built
 * what launch needs. launch: false if it does not support this launch, which is
 * then untouched; otherwise *status, initially TN_OK, is the result. */
typedef struct cpu_path {
    const char *name;
    bool (*recognise)(tn_built *built, const tn_program *program);
    bool (*launch)(tn_built *built, const tn_launch *launch,
                   tn_status *status);
} cpu_path;

/* One instruction over contiguous operands (direct.c); copies of views
 * (copy.c); copies by indices that form contiguous runs (indexed_copy.c);
 * gathers by one index (take.c); sums of taps in each row (taps_rows.c) and
 * along one dimension (taps_along.c). */
extern const cpu_path tn__cpu_path_direct, tn__cpu_path_copy,
    tn__cpu_path_indexed_copy, tn__cpu_path_take, tn__cpu_path_row_taps,
    tn__cpu_path_taps_along;
enum { CPU_PATHS = 6 };
/* Stores in built the shortcuts that recognise the program, in the order in
 * which a launch tries them, then NULL. */
void tn__cpu_paths_find(tn_built *built, const tn_program *program);

/* A loop that stores one value in `count` elements or fewer (fill.c). */
tn_cpu_run *tn__cpu_fill_for(const tn_cpu_routines *routines, int64_t bytes,
                             int64_t count);

#endif
