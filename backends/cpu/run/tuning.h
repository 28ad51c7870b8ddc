/* tuning.h: the constants by which launches are cut, with their measurements.
 * One set serves all processor families. What depends on the family is in
 * simd/family.c. */
#ifndef TN_CPU_TUNING_H
#define TN_CPU_TUNING_H

#define TN_CPU_TASK_WORK 32768   /* elements; about 10 us of simple work */
#define TN_CPU_TAPS_WORK 262144  /* elements of taps, which are little work each
                                    (taps_blocks.c) */
#define TN_CPU_KEPT_BYTES 131072 /* of a group's slots: well within an L2 */
#define TN_CPU_LONG_ROW 64    /* elements from which on operations run row by
                                 row */
#define TN_CPU_SHORT_ROW 32   /* elements; at 64, rows by lanes are faster
                                 again */
#define TN_CPU_LEAST_COLUMNS 16 /* adjacent rows that are worth a group of
                                   columns */
#define TN_CPU_MOST_TASKS 512
#define TN_CPU_STREAM_TASKS 64 /* a task must complete its non-temporal stores
                                  at its end */
#define TN_CPU_BLOCK_BYTES 24576 /* of a block's slots: half an L1 */
#define TN_CPU_IN_PLACE_BLOCK 1024 /* elements: half an L1 with the operands in
                                      memory */
#define TN_CPU_NATIVE_BLOCK 4096 /* elements: machine code has values in
                                    registers */
#define TN_CPU_NATIVE_ALONE 16384 /* when it has all of them there: a block
                                     costs 60 ns */
#define TN_CPU_ROWS_BYTES 98304 /* of the slots of whole rows. Larger blocks
                                   amortise the cost of starting an operation:
                                   layer_norm of 2048 x 512 takes 0.37 ms with
                                   half an L1 and 0.28 ms with this (Zen 5) */
#define TN_CPU_NATIVE_ROWS 4 /* times as many for machine code: most of its
                                slots are operands in memory. layer_norm of 2048
                                x 512 takes 145 us instead of 164, with
                                gradients 505 instead of 558 (Zen 5) */
#define TN_CPU_FOLD_BLOCK 32768  /* elements, when rows are reduced in place */
/* Bytes to prefetch before an operation. In a program of one stage the hardware
 * prefetcher is enough: prefetches take batch_norm of 16 x 64 x 56 x 56 from
 * 0.68 to 1.2 ms (Zen 5). With several stages memory would idle while a stage
 * works on rows in L1. With 384 bytes, layer_norm of 4096 x 1024 takes 2.6 ms
 * instead of 4.8, group_norm with its gradients 13.5 instead of 16 (Sapphire
 * Rapids). With 512 bytes, softmax of 4096 x 4096 takes 6.6 ms instead of 8.4
 * with 384, log_softmax of 4096 x 1024 1.73 instead of 2.1 (Zen 5). 768 and
 * 1024 gain no more and slow group_norm down. */
#define TN_CPU_STAGED_BYTES 512
#define TN_CPU_STREAM_STEP_BYTES 128 /* likewise with deferred stores */
/* Elements: more than an L2 holds beside other data. */
#define TN_CPU_PREFETCH_FROM 131072
/* Elements of a row that an L2 still holds after a stage. */
#define TN_CPU_REREAD 65536
/* Of results whose stores are deferred. */
#define TN_CPU_STREAM_BLOCK_BYTES 32768

#endif
