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

/* Parses a definition such as "name(x, w: row; eps) = expression". `where`
 * names the source text in error messages. If `where` is "table/softmax",
 * messages start with "table/softmax:line:column: ". */
tn__def *tn__def_parse(const char *text, const char *where);
/* Frees a definition that no other code uses. If a kernel was made of the
 * definition, it is kept. def may be NULL. */
void tn__def_drop(const tn__def *def);

const char *tn__def_name(const tn__def *def);
int tn__def_input_count(const tn__def *def);
int tn__def_type_count(const tn__def *def);
int tn__def_param_count(const tn__def *def);
int tn__def_output_count(const tn__def *def);
const char *tn__def_input_name(const tn__def *def, int i);
bool tn__def_input_is_offset(const tn__def *def, int i);
const char *tn__def_param_name(const tn__def *def, int i);

/* ---- typed kernels ----------------------------------------------------- */

/* A flag in the field `sub` of a LOAD in a tn__kernel; in a tn_program such a
 * LOAD has no flag. The LOAD is a guard, which checks a value: its index is 0
 * if the value is valid, else a code of base/guard.h. A guard's operand has
 * index stride 0 and extent TN__GUARD_EXTENT, so an invalid value is reported
 * like an index out of range. */
#define TN__LOAD_GUARD 2

/* A kernel as typed SSA over inputs (tensors), params (scalars) and outputs.
 * The instructions are those of plugin.h, with these differences:
 * - There are no stages. Instructions are numbered in the order they run.
 * - LOAD and OFFSET name inputs by number.
 * - There are no STOREs: out[] names the values to store.
 * - A CAST to the type of its operand is stop(x), x without a gradient. */
typedef struct tn__kernel {
    const char *name;
    int input_count, param_count, output_count;
    struct {
        const char *name;
        tn_dtype dtype;    /* storage type; 0 for an offset operand */
        uint8_t level;     /* TN_LEVEL_ELEM or TN_LEVEL_ROW */
        uint8_t index_count;
        bool guarded;      /* true if a guard (TN__LOAD_GUARD) loads this
                            * input */
    } input[TN__KERNEL_MAX_INPUTS];
    struct {
        const char *name;
        tn_dtype dtype;    /* register type */
    } param[TN__KERNEL_MAX_PARAMS];
    struct {
        tn_dtype dtype;    /* storage type */
        uint8_t level;     /* TN_LEVEL_ELEM or TN_LEVEL_ROW. A uniform value has
                            * TN_LEVEL_ROW if the kernel has reductions, else
                            * TN_LEVEL_ELEM. */
        uint32_t value;
    } out[TN__KERNEL_MAX_OUTPUTS];
    uint32_t ins_count, fn_count;
    const tn_kernel_ins *ins;
    const tn_kernel_fn *fn;
    bool has_row;          /* true if there is a REDUCE, a ROWLEN or a row-level
                            * input */
    uint64_t key[2];
} tn__kernel;

/* Returns the kernel of def for these dtypes: one for each input, then one for
 * each type parameter, at most TN__KERNEL_MAX_INPUTS in all. Params without a
 * type get the float type of the computation (f32 for half types). A kernel is
 * made once for each combination of dtypes; later calls take no lock. */
const tn__kernel *tn__def_kernel(const tn__def *def, const tn_dtype *dtype);

/* Returns the staged program of a kernel, which is made once. The program's
 * operands are the inputs, then the outputs. */
const tn_program *tn__kernel_program(const tn__kernel *kernel);

/* ---- derivatives ------------------------------------------------------- */

/* Returns the gradient of `kernel` with respect to input `wrt`. The gradient is
 * a kernel whose parameters are those of `kernel`. Its inputs are those inputs,
 * outputs and output cotangents of `kernel` that it reads. Input i of the
 * gradient is number u = used[i] of this list:
 *   0 <= u < input_count            input u of `kernel`
 *   input_count <= u < + outputs    output u - input_count
 *   then                            cotangent of output u - ...
 *
 * The gradient's output has the dtype of input `wrt`. Its level is ELEM; it is
 * ROW if the input is ROW, and the program then sums the gradient over the row.
 * If the gradient is zero everywhere, *out_zero is set and NULL is returned
 * without an error. NULL with TN_ERR_UNSUPPORTED is returned if a function on
 * the way is marked as having no derivative. The gradient of (kernel, wrt) is
 * made once. */
const tn__kernel *tn__kernel_gradient(const tn__kernel *kernel, int wrt,
                                      int used[TN__KERNEL_MAX_INPUTS],
                                      bool *out_zero);

/* Parses a gradient written by hand. Its text may name the definition's inputs,
 * outputs (out, or out0 out1 ...), cotangents (g, or g0 g1 ...) and params. */
tn__def *tn__def_gradient_parse(const tn__def *def, int wrt, const char *text,
                                const char *where);

/* Lists the tensors that a gradient written by hand reads, with the numbers of
 * tn__kernel_gradient: used[i] is the number of the gradient's input i. Returns
 * the number of inputs. */
int tn__def_gradient_used(const tn__def *gradient,
                          int used[TN__KERNEL_MAX_INPUTS]);

/* ---- composition ------------------------------------------------------- */

/* Returns `consumer` with its input `at` replaced by output `from` of
 * `producer` (fusion). The replacing value is rounded to the dtype of the
 * replaced tensor; a half-type output that feeds a float32 input stays in
 * float32.
 *
 * The inputs of the result are the consumer's other inputs, then the
 * producer's. same[] lists pairs of equal inputs by their numbers in that list,
 * and ends with -1. The second input of a pair is dropped. same may be NULL.
 * The parameters are the consumer's, then the producer's. The outputs are the
 * consumer's.
 *
 * A kernel with rows (has_row) composes with a pointwise kernel as follows. A
 * pointwise consumer of a row's result runs once per row, so all its inputs and
 * outputs become ROW. A pointwise producer of a ROW input runs once per row,
 * too. Two kernels with rows compose if output and input have the same level;
 * the caller ensures that the rows are the same. If the kernels do not fit,
 * NULL is returned with TN_ERR_UNSUPPORTED. Each composition is made once. */
const tn__kernel *tn__kernel_compose(const tn__kernel *consumer, int at,
                                     const tn__kernel *producer, int from,
                                     const int *same);

/* Returns a copy of a kernel that has row-level inputs but does not reduce
 * rows. In the copy, all inputs and outputs are at element level, so it can be
 * composed with a kernel of other rows. Every call makes a new kernel, which
 * lives as long as the process. Returns NULL without an error if the kernel
 * reduces rows or has a row-level output. */
const tn__kernel *tn__kernel_without_rows(const tn__kernel *kernel);

/* Returns a copy of a kernel whose inputs are all scalars per row. In the copy,
 * all inputs and outputs are at row level, so it has one result per row. Every
 * call makes a new kernel. Returns NULL without an error for any other
 * kernel. */
const tn__kernel *tn__kernel_once_a_row(const tn__kernel *kernel);

/* ---- execution and printing -------------------------------------------- */

/* Runs a program over host memory, one scalar at a time, as the reference with
 * which every device is compared. *fault is filled up to its size.
 * tn__interpret_count returns the number of calls so far. */
tn_status tn__interpret(const tn_program *program, const tn_launch *launch,
                        void *const *memory, tn_fault *fault);
int64_t tn__interpret_count(void);
/* Copies to a plugin's fault the fields that fit into its size. The other
 * fields are not cleared as tn_struct_copy would, since a plugin may have left
 * the size unset. */
void tn__fault_fill(tn_fault *to, const tn_fault *from);

/* Evaluates one scalar instruction on register values, as the table in plugin.h
 * defines it. An F32 value is stored in .f, as a double. The interpreter and
 * constant folding call this function. */
tn_number tn__kernel_eval(const tn_kernel_ins *ins, tn_number a, tn_number b,
                          tn_number c, tn_dtype a_dtype);

/* Returns a readable listing of a program or kernel, for messages and tests.
 * The caller frees it with tn__free. */
char *tn__program_text(const tn_program *program);
char *tn__kernel_text(const tn__kernel *kernel);

/* Returns the function of lib/kernel/math with this name and register type
 * ("exp", TN_F32); NULL without an error if there is none. Functions are typed
 * and numbered on first use.
 *
 * The imm.i of a CALL is an index for tn__math_fn_at if the CALL is in the body
 * of a function. In a kernel or program, imm.i is an index into the kernel's
 * own list of functions (plugin.h). */
const tn_kernel_fn *tn__math_fn(const char *name, tn_dtype type);
/* Types all functions and returns their number; 0 with the error recorded if
 * one is invalid. */
int tn__math_fn_count(void);
const tn_kernel_fn *tn__math_fn_at(int i);
/* Whether function i is marked `rare`. Executors need no routine for a rare
 * function. */
bool tn__math_fn_is_rare(int i);

#endif
