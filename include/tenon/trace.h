/* <tenon/trace.h>: where the time goes: a timeline of what ran, in a file that
 * chrome://tracing and ui.perfetto.dev show and `tenon trace --summary FILE`
 * adds up.
 *
 *     tn_trace_start("step.json");           // or TENON_TRACE=step.json, for
 *     for (int i = 0; i < 20; i++) {         // a program as it is
 *         tn_trace_push("forward");          // a range of your own
 *         tn_tensor *loss = tn_cross_entropy(tn_forward(net, x), y);
 *         tn_trace_pop();
 *         tn_backward(loss);
 *         tn_optim_step(opt);
 *     }
 *     tn_trace_stop();
 *
 * Written are operators with shapes, the module they ran in, bytes moved,
 * operations computed, the instructions on four bytes that this takes at the
 * least besides products, convolutions and attention, how many of them
 * multiply, and what part of the machine's limit it is; the gradient of each;
 * modules, optimizer steps, waits for a loader, programs that were built. An
 * event costs about a microsecond; without a trace an operator costs one test.
 *
 * A device that works by itself has a lane of its own where it tells the time
 * (CUDA: "cuda:0"): each piece of work from one timing event to the next, with
 * an arrow from where it was given, and held against the limit there; an
 * operator's event is the host's time then. The program runs as it does without
 * a trace, but for two events of the device a piece, and for a wait each tenth
 * of a second. A device that had nothing to do has begun a piece with the first
 * event: what the host took to give the work counts, too. The other devices of
 * that kind (OpenCL) are waited for after each operator, so that its time is
 * the device's: such a program is slower, its operators are not.
 *
 * The limit: the time that the device needs for as many bytes, at the speed at
 * which it copies 64 MiB, or for as many operations, at that of a matrix
 * product of 1024 x 1024 in float32, whichever is longer. Both are measured
 * when a thread starts its first trace of the device. What lies in a cache is
 * faster than that: of_limit is above 1 there. Source: torch.profiler, NVTX.
 *
 * Threads: A trace is the process's: any thread may start and stop it, and the
 * work of all threads is in it. Ranges belong to the thread that pushed them.
 */
#ifndef TENON_TRACE_H
#define TENON_TRACE_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts a trace of all threads into a file, which is made anew. The limits of
 * the current device are measured first, if this thread has not yet done so:
 * some 0.1 s and 128 MiB of its memory. The file is right JSON after
 * tn_trace_stop or the end of the program. After a crash the last tenth of a
 * second is missing, and the closing bracket, which the viewers forgive.
 * Programs that a traced one starts, as a shell does, have TENON_TRACE too: the
 * last of them to begin has the file. TN_ERR_ARGUMENT for NULL, TN_ERR_STATE
 * while a trace runs (that of TENON_TRACE too) or an error is pending,
 * TN_ERR_IO. */
TN_API tn_status tn_trace_start(const char *path);

/* Ends it. TN_ERR_STATE if none runs; TN_ERR_IO if not all could be written. */
TN_API tn_status tn_trace_stop(void);

/* A range of the program's own, until the tn_trace_pop of the same thread; they
 * nest, up to 64 deep (deeper ones are counted, not written). name: lent until
 * then; NULL is "". Nothing without a trace. Cannot fail. */
TN_API void tn_trace_push(const char *name);
/* Nothing where no range is open. */
TN_API void tn_trace_pop(void);

#ifdef __cplusplus
}
#endif

#endif
