/* kernel.h: the kernel language, from text to programs.
 *
 *   text --parse--> tn__def      untyped definition, with its parameters
 *        --type---> tn__kernel   typed SSA for given dtypes
 *        --lower--> tn_program   instructions in stages, for a plugin
 *
 * Gradients are derived, and kernels are composed (fused) and simplified, on
 * tn__kernel. docs/kernel-language.md has the grammar and the meaning.
 *
 * Kernels and definitions are immutable and live as long as the process. They
 * are few: one for each definition and combination of dtypes. Functions that
 * make one return NULL with the error recorded. */
#ifndef TN_LIB_KERNEL_KERNEL_H
#define TN_LIB_KERNEL_KERNEL_H

#include <stdbool.h>
#include <tenon/plugin.h>

/* ---- definitions ------------------------------------------------------- */

#define TN__KERNEL_MAX_INPUTS 16
#define TN__KERNEL_MAX_OUTPUTS 8
#define TN__KERNEL_MAX_PARAMS 16

typedef struct tn__def tn__def;

/* Parses "name(x, w: row; eps) = expression". where names the source in
 * messages: with "table/softmax", "table/softmax:line:column: what is
 * wrong". */
tn__def *tn__def_parse(const char *text, const char *where);
/* Frees a definition that nothing else uses, unless a kernel was made of it.
 * def may be NULL. */
void tn__def_drop(const tn__def *def);

const char *tn__def_name(const tn__def *def);
int tn__def_input_count(const tn__def *def);
int tn__def_param_count(const tn__def *def);
int tn__def_output_count(const tn__def *def);
const char *tn__def_input_name(const tn__def *def, int i);
bool tn__def_input_is_offset(const tn__def *def, int i);
const char *tn__def_param_name(const tn__def *def, int i);

/* ---- typed kernels ----------------------------------------------------- */

/* A flag in the sub of a LOAD; tn_program does not have it. The load is a
 * guard: it is indexed by 0 if its value is valid, else by a code of
 * base/guard.h. The guard's operand has index stride 0 and extent
 * TN__GUARD_EXTENT, so an invalid value is reported like an index out of
 * range. */
#define TN__LOAD_GUARD 2

/* Typed SSA over inputs (tensors), params (numbers) and outputs. Instructions
 * are those of plugin.h, numbered in order, with these differences: there are
 * no stages; LOAD and OFFSET name inputs; out[] implies the STOREs; a CAST to
 * the type of its operand is stop(x). */
typedef struct tn__kernel {
    const char *name;
    int input_count, param_count, output_count;
    struct {
        const char *name;
        tn_dtype dtype;    /* storage type; 0: an offset operand */
        uint8_t level;     /* TN_LEVEL_ELEM or ROW */
        uint8_t index_count;
        bool guarded;      /* its index is that of a guard (TN__LOAD_GUARD) */
    } input[TN__KERNEL_MAX_INPUTS];
    struct {
        const char *name;
        tn_dtype dtype;    /* register type */
    } param[TN__KERNEL_MAX_PARAMS];
    struct {
        tn_dtype dtype;    /* storage type */
        uint8_t level;     /* level of the value, ELEM or ROW; a uniform value
                            * has ELEM if there is no reduction, else ROW */
        uint32_t value;
    } out[TN__KERNEL_MAX_OUTPUTS];
    uint32_t ins_count, fn_count;
    const tn_kernel_ins *ins;
    const tn_kernel_fn *fn;
    bool has_row;          /* has a REDUCE, a ROWLEN or a row-level input */
    uint64_t key[2];
} tn__kernel;

/* The kernel of def for inputs of these dtypes. Params without a type have the
 * float type of the computation (f32 for half types). Made once for each
 * combination; takes no lock if it exists. */
const tn__kernel *tn__def_kernel(const tn__def *def,
                                 const tn_dtype *input_dtype);

/* The staged program of a kernel, made once. Its operands are the inputs, then
 * the outputs. */
const tn_program *tn__kernel_program(const tn__kernel *kernel);

/* ---- derivatives ------------------------------------------------------- */

/* The gradient of `kernel` with respect to input `wrt`. The gradient's inputs
 * are those inputs, outputs and output cotangents of `kernel` that it uses; its
 * parameters are those of `kernel`. used[] numbers its inputs, in this order:
 *   0 <= u < input_count            input u
 *   input_count <= u < + outputs    output u - input_count
 *   then                            cotangent of output u - ...
 * The output has the dtype of the input. Its level is ELEM, or ROW if the input
 * is ROW; then the program sums it over the row. If the gradient is identically
 * zero, sets *out_zero and returns NULL without an error. Returns NULL with
 * TN_ERR_UNSUPPORTED if a function on the way is marked as having no
 * derivative. Made once for each (kernel, wrt). */
const tn__kernel *tn__kernel_gradient(const tn__kernel *kernel, int wrt,
                                      int used[TN__KERNEL_MAX_INPUTS],
                                      bool *out_zero);

/* Parses a gradient written by hand, in terms of the definition's inputs,
 * outputs (out, or out0 out1 ...), cotangents (g, or g0 g1 ...) and params. */
tn__def *tn__def_gradient_parse(const tn__def *def, int wrt, const char *text,
                                const char *where);

/* The tensors that such a gradient has as inputs, numbered as in used[] of
 * tn__kernel_gradient. Returns how many. */
int tn__def_gradient_used(const tn__def *gradient,
                          int used[TN__KERNEL_MAX_INPUTS]);

/* ---- composition ------------------------------------------------------- */

/* `consumer` with its input `at` replaced by output `from` of `producer`. The
 * value is rounded to the dtype of the replaced tensor; a half-type output that
 * feeds a float32 input stays in float32. Inputs: the consumer's others, then
 * the producer's. same[] lists pairs of equal inputs by their numbers in that
 * list, ended by -1 (NULL: none); an equal input is kept at its first position.
 * Parameters: the consumer's, then the producer's. Outputs: the consumer's.
 *
 * Both kernels are pointwise, or one has rows, or both have. A pointwise
 * consumer of a result per row runs once per row: all its inputs and outputs
 * become ROW. So does a pointwise producer for a ROW input. Two row kernels
 * compose if the levels are equal; the caller ensures that their rows are the
 * same. Returns NULL with TN_ERR_UNSUPPORTED if the kernels do not fit. Made
 * once. */
const tn__kernel *tn__kernel_compose(const tn__kernel *consumer, int at,
                                     const tn__kernel *producer, int from,
                                     const int *same);

/* The same kernel with all its inputs and outputs at element level, for a
 * kernel that only loads row values. It can then be composed with a kernel of
 * other rows. Returns a new kernel each time, which lives as long as the
 * process. Returns NULL without an error if the kernel reduces rows or has a
 * result per row. */
const tn__kernel *tn__kernel_without_rows(const tn__kernel *kernel);

/* The same kernel with all its inputs and outputs at row level, so that it has
 * one result per row, for a kernel whose inputs are all row values. Returns a
 * new kernel each time; NULL without an error for any other kernel. */
const tn__kernel *tn__kernel_once_a_row(const tn__kernel *kernel);

/* ---- execution and printing -------------------------------------------- */

/* Runs a program over host memory, one scalar at a time. Every device is
 * compared with it. tn__interpret_count counts the calls. *fault is filled up
 * to its size. */
tn_status tn__interpret(const tn_program *program, const tn_launch *launch,
                        void *const *memory, tn_fault *fault);
int64_t tn__interpret_count(void);
/* Copies the fields that fit into a plugin's fault. It does not clear the rest,
 * as tn_struct_copy would, since a plugin may have left the size unset. */
void tn__fault_fill(tn_fault *to, const tn_fault *from);

/* Evaluates one scalar instruction on register values, as the table in plugin.h
 * defines it. F32 values are in .f, as doubles with float values. The
 * interpreter and constant folding use it. */
tn_number tn__kernel_eval(const tn_kernel_ins *ins, tn_number a, tn_number b,
                          tn_number c, tn_dtype a_dtype);

/* A readable listing of a program or kernel, for messages and tests. Free it
 * with tn__free. */
char *tn__program_text(const tn_program *program);
char *tn__kernel_text(const tn__kernel *kernel);

/* A function of the language by name and register type ("exp", TN_F32), from
 * lib/kernel/math; NULL without an error if there is none. Functions are typed
 * and numbered on first use.
 *
 * In the body of a function, the imm.i of a CALL is an index for
 * tn__math_fn_at. In a kernel or program it is an index into the kernel's own
 * list (plugin.h). */
const tn_kernel_fn *tn__math_fn(const char *name, tn_dtype type);
/* Types all functions and returns their number; 0 with the error recorded if
 * one is invalid. */
int tn__math_fn_count(void);
const tn_kernel_fn *tn__math_fn_at(int i);
/* Whether the function is marked `rare`, so that executors need no routine for
 * it. */
bool tn__math_fn_is_rare(int i);

#endif
