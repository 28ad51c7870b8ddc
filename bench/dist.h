/* dist.h: what the two halves of bench/dist share. dist.c starts the ranks of
 * several jobs and lets the jobs take turns; dist_rank.c is one rank of a Tenon
 * job, dist.py one of PyTorch with gloo. The ranks read commands from standard
 * input, one in a line, and answer each with one number in a line:
 *
 *     reduce BYTES CALLS          all_reduce of float32 in ordinary memory
 *     shared BYTES CALLS          the same in memory of the engine
 *     step MODEL SYNC CALLS       training steps; SYNC 1: with averaged gradients
 *     quit
 *
 * The answer is the time of one call in nanoseconds, on this rank, after a
 * barrier; or 0 if this side cannot do that. If BENCH_CPU is set in the
 * environment, it is the processor time of the process. Before the first command a rank
 * writes "ready", as soon as it has passed a barrier of the job. */
#ifndef BENCH_DIST_H
#define BENCH_DIST_H

/* Is one rank, until "quit". Returns the exit status. */
int dist_rank(void);

#endif
