/* paths.h: programs that need no blocks: shortcuts past run/, by one table. */
#ifndef TN_CPU_PATHS_H
#define TN_CPU_PATHS_H

#include "../cpu.h"

/* A program of one instruction over loaded values: o = x op y. */
typedef struct cpu_direct {
    tn_cpu_run *run; /* NULL: the program is not of this kind */
    tn_cpu_run *convert; /* makes the one value that run fills with, or NULL */
    bool fills;       /* with one value */
    unsigned allowed; /* operands that may be one value: bits */
    uint32_t out;      /* operand number */
    uint32_t in_count;
    struct {
        uint32_t operand; /* NONE: the parameter or constant `number` */
        bool is_param;
        uint8_t type;
        uint32_t number;
        uint64_t constant; /* its bytes, the first ones */
    } in[3];
} cpu_direct;

/* A program that is a sum of loads by an index, each times a weight
 * (taps_find.c). */
typedef struct cpu_taps {
    uint32_t count;   /* 0: it is none */
    uint32_t in, out; /* operand numbers */
    uint32_t index[TN_CPU_TAPS], weight[TN_CPU_TAPS]; /* too */
    uint32_t load[TN_CPU_TAPS],
        weight_load[TN_CPU_TAPS]; /* ops of hoisted code */
    int depth;       /* of the tree of additions, */
    uint32_t leaves; /* whose leaves with a bit are the taps, left to right */
} cpu_taps;

/* A program whose rows are such sums, and the ones in which so many taps are
 * written out, made when they are first wanted. */
typedef struct cpu_row_taps {
    uint32_t in, index, weight, out, flags; /* operands; of the load */
    _Atomic(tn_built *) written[TN_CPU_TAPS + 1];
} cpu_row_taps;

/* A program that stores what it loads by indices (indexed_copy.c). */
typedef struct cpu_indexed_copy {
    uint32_t count; /* indices; 0: it is none */
    uint32_t in, out;
    struct {
        uint32_t operand;
        bool affine; /* an OFFSET; else a plain load */
    } index[3];
    bool zero; /* an index outside is no fault */
} cpu_indexed_copy;

/* Programs that store what they load, bits as they are (copy.c), */
typedef struct cpu_copy {
    uint32_t in, out; /* operand numbers */
} cpu_copy;

/* or load by one index (take.c). */
typedef struct cpu_take {
    bool zero; /* an index outside is no fault */
    uint32_t in, index, out;
} cpu_take;

/* A shortcut. recognise: is the program of its kind? Then it has noted in built
 * what launch needs. launch: false if this launch is not of its kind, and then
 * nothing was done; *status, which is TN_OK, of what was done. */
typedef struct cpu_path {
    const char *name;
    bool (*recognise)(tn_built *built, const tn_program *program);
    bool (*launch)(tn_built *built, const tn_launch *launch,
                   tn_status *status);
} cpu_path;

/* One instruction over operands without gaps (direct.c); copies of views (copy.c);
 * loads by indices that follow each other (indexed_copy.c); gathers by one index
 * (take.c); sums of a few loads times weights, of rows (taps_rows.c) and of
 * whole lines (taps_along.c). */
extern const cpu_path tn__cpu_path_direct, tn__cpu_path_copy,
    tn__cpu_path_indexed_copy, tn__cpu_path_take, tn__cpu_path_row_taps,
    tn__cpu_path_taps_along;
enum { CPU_PATHS = 6 };
/* In built: those that recognise the program, in the order in which a launch
 * tries them, NULL behind them. */
void tn__cpu_paths_find(tn_built *built, const tn_program *program);

/* A loop that stores one value in each of `count` elements, or in a part of
 * them (fill.c). */
tn_cpu_run *tn__cpu_fill_for(const tn_cpu_routines *routines, int64_t bytes,
                             int64_t count);

#endif
