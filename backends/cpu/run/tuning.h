/* tuning.h: where launches are cut, and what was measured. One set for all
 * families: what only some want (routines->halves) stands where it is asked. */
#ifndef TN_CPU_TUNING_H
#define TN_CPU_TUNING_H

#define TN_CPU_TASK_WORK 32768   /* elements; about 10 us of simple work */
#define TN_CPU_TAPS_WORK 262144  /* of those that are little work each (taps_blocks.c) */
#define TN_CPU_KEPT_BYTES 131072 /* of a group's slots: well within an L2 */
#define TN_CPU_LONG_ROW 64    /* elements from which operations go row by row */
#define TN_CPU_SHORT_ROW 32   /* elements; at 64 rows by lanes are faster again */
#define TN_CPU_LEAST_COLUMNS 16 /* rows side by side that are worth it */
#define TN_CPU_MOST_TASKS 512
#define TN_CPU_STREAM_TASKS 64 /* at the end of a task what is stored must be there */
#define TN_CPU_BLOCK_BYTES 24576 /* of a block's slots: half an L1 */
#define TN_CPU_IN_PLACE_BLOCK 1024 /* elements: half an L1 with what lies in memory */
#define TN_CPU_NATIVE_BLOCK 4096 /* elements: machine code has values in registers */
#define TN_CPU_NATIVE_ALONE 16384 /* where it has all of them: a block costs 60 ns */
#define TN_CPU_ROWS_BYTES 98304 /* of whole rows' slots: an operation takes long enough
                            for what goes before it; layer_norm of 2048 x 512
                            took 0.37 ms with half an L1, 0.28 so (Zen 5) */
#define TN_CPU_NATIVE_ROWS 4 /* times as many for machine code, of whose slots most are
                         memory: less is around it. layer_norm of 2048 x 512 164
                         to 145 us, with its gradients 558 to 505 (Zen 5) */
#define TN_CPU_FOLD_BLOCK 32768  /* elements, where rows are folded as they lie */
/* What is asked for before an operation. A program of one stage reads on and
 * on, and the processor guesses what: a little asked for beside that took
 * batch_norm of 16 x 64 x 56 x 56 from 0.68 to 1.2 ms (Zen 5). While stages go
 * over rows in L1 memory would be idle: with 384, layer_norm of 4096 x 1024
 * took 2.6 ms in place of 4.8, group_norm with its gradients 13.5 in place of
 * 16 (Sapphire Rapids). With 512, softmax of 4096 x 4096 6.6 ms in place of 8.4
 * with 384, log_softmax of 4096 x 1024 1.73 and 2.1 (Zen 5; 768 and 1024 gain no
 * more, and group_norm loses). */
#define TN_CPU_STAGED_BYTES 512
#define TN_CPU_STREAM_STEP_BYTES                                              \
    128 /* likewise, and sent off on the way past the caches */
#define TN_CPU_PREFETCH_FROM                                                  \
    131072 /* elements: more than an L2 has beside others */
#define TN_CPU_REREAD                                                         \
    65536 /* elements of a row that an L2 still has after a stage */
#define TN_CPU_STREAM_BLOCK_BYTES                                             \
    32768 /* of results on their way past the caches */

#endif
