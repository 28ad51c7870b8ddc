/* tuning.h: sizes of blocks, groups and tasks, with the measurements behind
 * them. All processor families use these values. Constants that depend on the
 * family are in simd/family.c. program/code.h defines the words. */
#ifndef TN_CPU_TUNING_H
#define TN_CPU_TUNING_H

/* Elements of a task: about 10 us of simple work. */
#define TN_CPU_TASK_WORK 32768
/* Elements of a task whose elements are weighted sums of a few loads
 * (taps_blocks.c). Each of them is little work. */
#define TN_CPU_TAPS_WORK 262144
/* Bytes of a group's slots: well within an L2. */
#define TN_CPU_KEPT_BYTES 131072
/* Rows of at least this many elements are long: routines are called once per
 * row. */
#define TN_CPU_LONG_ROW 64
/* Rows of at most this many elements are short: they are reduced as columns. At
 * 64 elements, reducing a row by its lanes is faster again. */
#define TN_CPU_SHORT_ROW 32
/* Least number of adjacent rows for which a group of columns is worth it. */
#define TN_CPU_LEAST_COLUMNS 16
#define TN_CPU_MOST_TASKS 512 /* most tasks of a launch with rows */
/* Most tasks with non-temporal stores: a task must wait for its stores at its
 * end. */
#define TN_CPU_STREAM_TASKS 64
/* Bytes of a block's slots: half an L1. */
#define TN_CPU_BLOCK_BYTES 24576
/* Elements of a block of an in-place update. With the operands, which stay in
 * memory, the block takes half an L1. */
#define TN_CPU_IN_PLACE_BLOCK 1024
/* Elements of a block for machine code, which keeps its values in registers. */
#define TN_CPU_NATIVE_BLOCK 4096
/* The same if machine code keeps all values of the program in registers. The
 * start of a block costs 60 ns. */
#define TN_CPU_NATIVE_ALONE 16384
/* Bytes of the slots of a block of whole rows. Larger blocks amortise the cost
 * of starting an operation: layer_norm of 2048 x 512 takes 0.37 ms with half an
 * L1 and 0.28 ms with this (Zen 5). */
#define TN_CPU_ROWS_BYTES 98304
/* Machine code gets this many times TN_CPU_ROWS_BYTES, since most of its slots
 * are operands in memory. layer_norm of 2048 x 512 takes 145 us instead of 164,
 * with gradients 505 us instead of 558 (Zen 5). */
#define TN_CPU_NATIVE_ROWS 4
/* Elements of a block of contiguous rows that are only reduced, in place. */
#define TN_CPU_FOLD_BLOCK 32768
/* Bytes of each operand to prefetch, and of deferred stores to issue, before an
 * operation of a program with several stages. Memory would idle while a stage
 * works on rows in L1.
 * - With 384 bytes, layer_norm of 4096 x 1024 takes 2.6 ms instead of 4.8,
 *   group_norm with its gradients 13.5 ms instead of 16 (Sapphire Rapids).
 * - With 512 bytes, softmax of 4096 x 4096 takes 6.6 ms instead of 8.4 ms with
 *   384, log_softmax of 4096 x 1024 1.73 ms instead of 2.1 (Zen 5).
 * - 768 and 1024 bytes gain no more and slow group_norm down.
 * In a program of one stage the hardware prefetcher is enough: prefetches take
 * batch_norm of 16 x 64 x 56 x 56 from 0.68 to 1.2 ms (Zen 5). */
#define TN_CPU_STAGED_BYTES 512
/* The same number of bytes for a program of one stage that uses non-temporal
 * stores. */
#define TN_CPU_STREAM_STEP_BYTES 128
/* Launches of at least this many elements are prefetched: the data exceeds what
 * an L2 holds beside other data. */
#define TN_CPU_PREFETCH_FROM 131072
/* Rows of fewer elements are still in L2 when the next stage reads them. */
#define TN_CPU_REREAD 65536
/* Most bytes of results whose stores are deferred at once. */
#define TN_CPU_STREAM_BLOCK_BYTES 32768

#endif
