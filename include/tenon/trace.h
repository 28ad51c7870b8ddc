/* <tenon/trace.h>: a profiler. It writes a timeline of what ran to a file,
 * which chrome://tracing and ui.perfetto.dev show, and `tenon trace --summary
 * FILE` summarises.
 *
 *     tn_trace_start("step.json");           // or run the program with
 *     for (int i = 0; i < 20; i++) {         // TENON_TRACE=step.json
 *         tn_trace_push("forward");          // a range of your own
 *         tn_tensor *loss = tn_cross_entropy(tn_forward(net, x), y);
 *         tn_trace_pop();
 *         tn_backward(loss);
 *         tn_optim_step(opt);
 *     }
 *     tn_trace_stop();
 *
 * There is an event for each operator, for the gradient of each operator, for
 * each module, optimizer step, wait for a loader, and compiled program. An
 * operator's event has its shapes and its module, the bytes moved, the
 * operations computed (and how many of them multiply), and the fraction of the
 * machine's limit that the operator reached (of_limit). For operators other
 * than products, convolutions and attention, the event also has the minimum
 * number of 4-byte instructions that the operator needs. An event costs about 1
 * us. Without a trace an operator costs one test of a flag.
 *
 * An asynchronous device with timing events (CUDA) has a track of its own,
 * "cuda:0". It shows each operation on the device, between two timing events,
 * with an arrow from the call that started it and its fraction of the limit.
 * The operator's own event then shows the host's time. The traced program is
 * slowed by two timing events for each operation, and by one wait every 0.1 s.
 * If the device was idle, an operation starts with its first timing event, so
 * the host's time to launch it is included. Other asynchronous devices (OpenCL)
 * are waited for after each operator, so that its event shows the device's
 * time. The times of the operators stay the same, but the whole program is
 * slower.
 *
 * The limit of an operator is the longer of two times. One is the time for
 * copying the same number of bytes, at the speed of a copy of 64 MiB. The other
 * is the time for the same number of operations, at the speed of a float32
 * matrix product of 1024 x 1024. Both speeds are measured when a thread first
 * traces a device. If an operator reads data from a cache, it can be faster
 * than the limit: of_limit is then above 1.
 * Source: torch.profiler, NVTX.
 *
 * Threads: A trace belongs to the process: any thread may start and stop it,
 * and it includes the work of all threads. Ranges belong to the thread that
 * pushed them.
 */
#ifndef TENON_TRACE_H
#define TENON_TRACE_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts a trace of all threads into a file, which is created or overwritten.
 * First it measures the limits of the current device, if this thread has not
 * done so. That needs about 0.1 s and 128 MiB of the device's memory. The file
 * is valid JSON after tn_trace_stop, or when the program ends. After a crash
 * the last 0.1 s and the closing bracket are missing, which the viewers accept.
 * Programs that a traced program starts inherit TENON_TRACE, and the one that
 * starts last writes the file. Fails with TN_ERR_ARGUMENT for NULL,
 * TN_ERR_STATE while a trace is running (also one of TENON_TRACE) or an error
 * is pending, or TN_ERR_IO if the file cannot be written. */
TN_API tn_status tn_trace_start(const char *path);

/* Ends the trace. Fails with TN_ERR_STATE if none is running, and with
 * TN_ERR_IO if not all events could be written. */
TN_API tn_status tn_trace_stop(void);

/* Begins a range of your own, which ends with tn_trace_pop in the same thread.
 * Ranges nest; those deeper than 64 are not written. name must be valid until
 * the range ends. NULL is the name "". Does nothing without a trace. Cannot
 * fail. */
TN_API void tn_trace_push(const char *name);
/* Ends the innermost range. Does nothing if there is none. Cannot fail. */
TN_API void tn_trace_pop(void);

#ifdef __cplusplus
}
#endif

#endif
