/* tuning.h: sizes of blocks, groups and tasks, with the measurements behind
 * them, taken in 2026-11. All processor families use these values. Constants
 * that depend on the family are in simd/family.c. program/code.h defines
 * blocks, groups, columns and slots. */
#ifndef TN_CPU_TUNING_H
#define TN_CPU_TUNING_H

/* The number of elements of a task, which are about 10 us of simple work. */
#define TN_CPU_TASK_WORK 32768
/* The number of elements of a task in programs that compute weighted sums of a
 * few loads by an index (taps_blocks.c). It is large because each element is
 * little work. */
#define TN_CPU_TAPS_WORK 262144
/* Largest number of bytes that the values of a group of rows may take: well
 * within an L2. */
#define TN_CPU_KEPT_BYTES 131072
/* Rows of at least this many elements are long. Routines are then called once
 * per row. */
#define TN_CPU_LONG_ROW 64
/* Rows of at most this many elements are short. Many short rows are reduced at
 * once, as columns. Reducing a row of 64 elements alone, with its elements in
 * the lanes of a vector, is faster. */
#define TN_CPU_SHORT_ROW 32
/* Minimum number of adjacent rows that form a group of columns. */
#define TN_CPU_LEAST_COLUMNS 16
/* The largest number of tasks into which a launch
 * with row reductions is cut. */
#define TN_CPU_MOST_TASKS 512
/* The largest number of tasks into which a launch with non-temporal stores is
 * cut. It is small because each task waits at its end until its stores are
 * complete. */
#define TN_CPU_STREAM_TASKS 64
/* The largest number of bytes that the values of a
 * block may take: half an L1. */
#define TN_CPU_BLOCK_BYTES 24576
/* The largest number of elements of a block of an in-place update. The values
 * and operands of the block then need half an L1. */
#define TN_CPU_IN_PLACE_BLOCK 1024
/* The number of elements of a block for machine code, which holds values in
 * registers. */
#define TN_CPU_NATIVE_BLOCK 4096
/* The number of elements of a block if machine code holds all values of the
 * program in registers, so that no value needs L1. Large blocks are better,
 * because starting a block takes 60 ns. */
#define TN_CPU_NATIVE_ALONE 16384
/* The largest number of bytes that the values of a block of whole rows may
 * take. Larger blocks amortise the cost of starting an operation: layer_norm of
 * 2048 x 512 takes 0.28 ms, and 0.37 ms with blocks of half an L1 (Zen 5,
 * 2026-11). */
#define TN_CPU_ROWS_BYTES 98304
/* If the program has machine code, the limit is TN_CPU_NATIVE_ROWS times
 * TN_CPU_ROWS_BYTES. Most values are then in registers or in the tensors'
 * memory. layer_norm of 2048 x 512 takes 145 us instead of 164, with gradients
 * 505 us instead of 558 (Zen 5, 2026-11). */
#define TN_CPU_NATIVE_ROWS 4
/* The number of elements of a block of contiguous rows that the program only
 * reduces. The block is read in place. */
#define TN_CPU_FOLD_BLOCK 32768
/* In a program of several stages, this many bytes of each operand are
 * prefetched before each operation, and as many bytes of deferred stores are
 * issued. Otherwise memory would idle while a stage works on rows in L1.
 * - With 384 bytes, layer_norm of 4096 x 1024 takes 2.6 ms instead of 4.8,
 *   group_norm with its gradients 13.5 ms instead of 16 (Sapphire Rapids).
 * - With 512 bytes, softmax of 4096 x 4096 takes 6.6 ms instead of 8.4 ms with
 *   384, log_softmax of 4096 x 1024 1.73 ms instead of 2.1 (Zen 5).
 * - 768 and 1024 bytes gain no more and slow group_norm down.
 * In a program of one stage the hardware prefetcher is enough: batch_norm of 16
 * x 64 x 56 x 56 takes 0.68 ms, and 1.2 ms with prefetches (Zen 5). */
#define TN_CPU_STAGED_BYTES 512
/* Like TN_CPU_STAGED_BYTES, for programs of one stage that use non-temporal
 * stores. */
#define TN_CPU_STREAM_STEP_BYTES 128
/* Launches of at least this many elements prefetch their input, because their
 * data does not fit in an L2 that also holds other data. */
#define TN_CPU_PREFETCH_FROM 131072
/* Rows of fewer elements are still in L2 when the next stage (pass over the
 * rows) reads them, so it prefetches nothing. */
#define TN_CPU_REREAD 65536
/* The largest number of bytes of results whose stores are deferred at the same
 * time. */
#define TN_CPU_STREAM_BLOCK_BYTES 32768

#endif
