/* <tenon/compile.h>: captures a function of tensors, and replays it as a fused
 * program, as torch.compile does.
 *
 * A compiled function does not run its C code again: what the C code does besides
 * calling Tenon (printing, counting, reading a file or a clock) happens in the
 * first calls only.
 *
 *     static tn_status block(tn_tensor *const *in, int in_count,
 *                            tn_tensor **out, int out_count, void *context)
 *     {
 *         model *m = context;
 *         tn_tensor *h = tn_gelu(tn_linear(in[0], m->w, m->b));
 *         out[0] = tn_mul(h, in[1]);
 *         return TN_OK;
 *     }
 *
 *     tn_compiled *fast = tn_compile(block, &m);
 *     TN_NO_GRAD {
 *         tn_tensor *y;
 *         tn_compiled_run(fast, (tn_tensor *[]){x, gate}, 2, &y, 1);
 *     }
 *
 * The first calls are ordinary calls, whose results count. Meanwhile the device
 * work that they submit is recorded. As soon as two calls in a row have submitted
 * the same work, the work becomes a program: element-wise operators are fused,
 * results that nothing reads are not computed, and temporary tensors share one
 * block of memory. Later calls replay the program. They give the same bits as the
 * function itself.
 *
 * A program is made for each combination of dtypes, shapes and strides of the
 * inputs, of the device, and of the modes (autocast, no_grad). A call with
 * another combination captures again, without compiling device code again.
 *
 * What a replay would get wrong is an error in the capture, which names the
 * operator and says what to do:
 *   - a tensor's elements that the function reads on the host (tn_item), or
 *     copies from the host;
 *   - a number that differs between the captures. A replay would use the old
 *     number. Give it as tn_late_number(&x), which each replay reads again;
 *   - an output that requires a gradient. Compile the whole step, with its
 *     tn_backward, or call within TN_NO_GRAD.
 *
 * What the function reads through its context is part of the program: the
 * tensors, by their memory, and all C values. A replay sees new values in the same
 * tensors (tn_copy_), but neither other tensors nor other C values. The variable
 * TENON_COMPILE=check, or .check_every, runs the function beside the program and
 * compares all results. TENON_COMPILE=off runs the function alone.
 *
 * Frozen functions (.freeze) are for inference. The tensors that the function
 * uses through its context and does not write, such as a model's parameters,
 * are constants of the program. What depends on constants only is computed
 * once, and the device may keep weights in a layout of its own (prepared
 * weights). The results have the same bits as without .freeze.
 *
 *     tn_module_eval(net);
 *     tn_compiled *frozen = tn_freeze(net, example);          // nn.h
 *     tn_compiled_run(frozen, &x, 1, &y, 1);
 *
 * A frozen function records no gradients, with or without TN_NO_GRAD. If a
 * constant was changed by a call of Tenon (an optimizer, tn_copy_, a loaded
 * file), the next call captures the function again, so no program uses old
 * values. So do not freeze a function that reads a tensor which changes at each
 * call: pass that tensor as an input. Memory of the program (tn_tensor_wrap) is
 * never a constant. Changes through tn_tensor_data are not seen: call
 * tn_compiled_reset.
 *
 * Several threads may run one frozen function at the same time. They share
 * constants and prepared weights; each has temporary tensors of its own.
 *
 * Threads: one thread at a time may run a compiled function that is not frozen;
 * a second one gets TN_ERR_STATE.
 */
#ifndef TENON_COMPILE_H
#define TENON_COMPILE_H

#include <tenon/base.h>
#include <tenon/op.h>
#include <tenon/options.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_compiled tn_compiled;

/* A function of tensors. It stores its results in out[0 .. out_count), tensors on
 * the device of the inputs, which the open scope or anything else may own. A
 * negative status, with the error set, means failure. */
typedef tn_status (*tn_compile_fn)(tn_tensor *const *in, int in_count,
                                   tn_tensor **out, int out_count,
                                   void *context);

/* The largest numbers of inputs and outputs of a compiled function. */
#define TN_COMPILE_MAX_INPUTS 64
#define TN_COMPILE_MAX_OUTPUTS 64

/* Options of tn_compile:
 *   plans        how many programs are kept, at least 1. If one more is needed,
 *                the one that was not used for the longest time is freed
 *   check_every  if N is above 0, every N-th call also runs the function itself
 *                and compares all tensors that were written. A difference is
 *                TN_ERR_STATE and names the operator. Memory for two copies of
 *                these tensors is needed
 *   fuse         false keeps every launch as it was recorded
 *   memory       how much memory temporary tensors should need: below 1, a part of
 *                what the function needs at one time, otherwise bytes. To need
 *                less, a program computes results of element-wise and row kernels
 *                again in the backward pass instead of keeping them. If the target
 *                cannot be reached, the program needs as little as was found. 0
 *                computes nothing again
 *   freeze       true makes a program for inference: see "Frozen functions"
 *   donate       a bit mask: if bit i is set, input i is donated, as with jax's
 *                donate_argnums: an output may be in its memory (tn_compiled_text
 *                says which). A call uses up the tensor in[i], also if it fails
 *                while it runs: other functions reject it then, by name. Nothing
 *                else may use its memory, which is TN_ERR_STATE
 *   name         a name for messages; NULL: "compiled function". It is copied
 *   keep         an object to which the compiled function holds a reference, such
 *                as the model that the function calls. Any object of Tenon */
#define TN_COMPILE_OPTIONS_LIST(X)                                            \
    X(int64_t, plans, 8)                                                      \
    X(int64_t, check_every, 0)                                                \
    X(bool, fuse, true)                                                       \
    X(double, memory, 0)                                                      \
    X(uint64_t, donate, 0)                                                    \
    X(bool, freeze, false)                                                    \
    X(const char *, name, NULL)                                               \
    X(void *, keep, NULL)
TN_OPTIONS_STRUCT(tn_compile, TN_COMPILE_OPTIONS_LIST);
#define TN_COMPILE_OPTIONS                                                    \
    TN_OPTIONS_DEFAULTS(tn_compile, TN_COMPILE_OPTIONS_LIST)

/* Makes a compiled function, which the open scope owns. `context` is passed to
 * each call of fn and must stay valid as long as fn can be called. Returns NULL
 * with TN_ERR_ARGUMENT if fn is NULL or an option is out of range, with
 * TN_ERR_STATE if an error is pending. */
TN_API tn_compiled *tn_compile_with(tn_compile_fn fn, void *context,
                                    const tn_compile_options *options);

/* Calls the function with in[0 .. in_count), by capture or replay, and stores its
 * results in out[0 .. out_count), which may be the same array. The open scope owns
 * the results. Results of earlier
 * calls keep their values. All inputs are on one device. At least one input or
 * one output is needed.
 *
 * With .donate, the new state can be in the memory of the old one:
 *
 *     tn_compiled *next = tn_compile(one_step, &model, .donate = 1);
 *     for (int i = 0; i < 1000; i++)
 *         tn_compiled_run(next, &state, 1, &state, 1);
 *
 * Fails as the function does; then out[] is all NULL. Also fails with TN_ERR_STATE
 * if the function does what cannot be replayed (above), if a graph is being
 * recorded, if another thread runs the function now and it is not frozen, or if an
 * error is pending;
 * with TN_ERR_ARGUMENT for bad arguments; with TN_ERR_DEVICE if the inputs are on
 * several devices. */
TN_API tn_status tn_compiled_run(tn_compiled *compiled, tn_tensor *const *in,
                                 int in_count, tn_tensor **out, int out_count);

/* Frees all programs. The next call captures again. Call it after the function's
 * context has got other tensors or numbers. */
TN_API tn_status tn_compiled_reset(tn_compiled *compiled);

/* A number that each replay reads again from *x, such as a learning rate. x must
 * stay valid as long as programs that contain the number. It can be an argument
 * of operators that are one kernel, such as tn_mul and tn_lerp; other operators
 * reject it. Outside of a capture it is the number *x. Fails with TN_ERR_ARGUMENT
 * if x is NULL; the operator then fails, too. */
TN_API tn_scalar tn_late_number(const double *x);

/* Counts of a compiled function. The struct may grow. */
typedef struct tn_compiled_counts {
    size_t size;          /* set by the caller: sizeof(tn_compiled_counts) */
    int64_t calls;        /* successful calls of tn_compiled_run */
    int64_t captures;     /* calls that ran the function and were recorded */
    int64_t replays;
    int64_t checks;       /* replays that were compared with the function */
    int64_t plans;        /* programs that exist now */
    int64_t evictions;    /* programs that were freed to make room */
    /* Of the program that ran last, or 0: */
    int64_t recorded;     /* recorded launches and other calls of the plugin */
    int64_t launches;     /* calls of the plugin per replay */
    int64_t arena_bytes;  /* memory for temporary tensors */
    int64_t bound_bytes;  /* the largest total size of temporary tensors that
                           * exist at the same time: no arena can be smaller */
    int64_t eager_bytes;  /* total size of all temporary tensors that the
                           * recorded work had */
    int64_t peak_bytes;   /* the largest total size of those that existed at the
                           * same time */
    int64_t constants;    /* calls that were made once, with .freeze */
    int64_t constant_bytes; /* memory of their results */
    int64_t prepared;     /* weights that the device prepared, with .freeze */
    int64_t prepared_bytes; /* memory of prepared weights */
} tn_compiled_counts;

/* Fills *counts. Fails with TN_ERR_ARGUMENT if an argument is NULL or counts->size
 * is 0. */
TN_API tn_status tn_compiled_read_counts(const tn_compiled *compiled,
                                         tn_compiled_counts *counts);

/* Returns the program that ran last as text: its calls of the plugin in order, the
 * operators that are fused in each of them, for each pair of neighbours that is
 * not fused the reason, and where the temporary tensors are in the arena. `tenon
 * program` draws it. The variable TENON_COMPILE_REPORT names a folder to which the
 * text of each program is written when it is made. The text belongs to compiled and is valid until the
 * next call with it. Returns NULL with TN_ERR_STATE if no program exists yet. */
TN_API const char *tn_compiled_text(tn_compiled *compiled);

#ifdef __cplusplus
} /* extern "C" */
#endif

#ifndef __cplusplus
#define tn_compile(...) TN_CALL_2(tn_compile, __VA_ARGS__, )
#else
TN_OVERLOAD_2(tn_compiled *, tn_compile, tn_compile_fn, void *)
#endif
#endif
