/* kernel.h: the kernel language, from source to programs.
 *
 *   text --parse--> tn__def      untyped definition, with its parameters
 *        --type---> tn__kernel   typed SSA for given dtypes
 *        --lower--> tn_program   instructions in stages, for a plugin
 *
 * Derivatives, fusion and simplification work on tn__kernel.
 * docs/kernel-language.md has the grammar and the meaning of the language.
 *
 * Kernels and definitions never change and are not freed before the process
 * ends. They are few: one for each definition and combination of dtypes. A
 * function that makes one records an error and returns NULL on failure. */
#ifndef TN_LIB_KERNEL_KERNEL_H
#define TN_LIB_KERNEL_KERNEL_H

#include <stdbool.h>
#include <tenon/plugin.h>

/* ---- definitions ------------------------------------------------------- */

#define TN__KERNEL_MAX_INPUTS 16
#define TN__KERNEL_MAX_OUTPUTS 8
#define TN__KERNEL_MAX_PARAMS 16

typedef struct tn__def tn__def;

/* Parses a definition such as "name(x, w: row; eps) = expression". `where` is
 * the name of the source in error messages, such as "table/softmax". The
 * messages then start with "table/softmax:line:column: ". */
tn__def *tn__def_parse(const char *text, const char *where);
/* Frees a definition that no other code uses, unless a kernel was made from it.
 * `def` may be NULL. */
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

/* Flag in the field `sub` of a LOAD in a tn__kernel (a tn_program does not have
 * it). It marks a guard, which is a LOAD that checks a value. Its index is 0 if
 * the value is valid, else a constant of base/guard.h that says what is wrong.
 * The operand of a guard has index stride 0 and index extent TN__GUARD_EXTENT,
 * so an invalid value is reported as an index out of range. */
#define TN__LOAD_GUARD 2

/* A kernel as typed SSA over inputs (tensors), parameters (scalars) and
 * outputs. plugin_program.h defines the instructions, with these differences:
 * - There are no stages. Instructions are in the order in which they run.
 * - LOAD and OFFSET refer to inputs by index.
 * - There are no STOREs: out[] names the values to store.
 * - A CAST to the type of its operand is stop(x), which is x without a
 *   gradient (as detach() in PyTorch). */
typedef struct tn__kernel {
    const char *name;
    int input_count, param_count, output_count;
    struct {
        const char *name;
        tn_dtype dtype;    /* dtype of the tensor; 0 if the kernel uses only the
                            * offsets of its elements */
        uint8_t level;     /* TN_LEVEL_ELEM for one value per element,
                            * TN_LEVEL_ROW for one per row */
        uint8_t index_count;
        bool guarded; /* true if a guard (TN__LOAD_GUARD) checks this input */
    } input[TN__KERNEL_MAX_INPUTS];
    struct {
        const char *name;
        tn_dtype dtype;    /* register type of the parameter */
    } param[TN__KERNEL_MAX_PARAMS];
    struct {
        tn_dtype dtype;    /* dtype of the tensor */
        uint8_t level;     /* TN_LEVEL_ELEM for one value per element,
                            * TN_LEVEL_ROW for one per row. An output that is
                            * the same everywhere has TN_LEVEL_ROW if the kernel
                            * has reductions, else TN_LEVEL_ELEM. */
        uint32_t value;
    } out[TN__KERNEL_MAX_OUTPUTS];
    uint32_t ins_count, fn_count;
    const tn_kernel_ins *ins;
    const tn_kernel_fn *fn;
    bool has_row;          /* true if the kernel has a reduction, reads the
                            * length of a row, or has an input with one value
                            * per row */
    uint64_t key[2];
} tn__kernel;

/* Returns the kernel of a definition for these dtypes: one for each input, then
 * one for each type parameter, at most TN__KERNEL_MAX_INPUTS in all. A
 * parameter without a type has the float type of the computation (f32 for half
 * types). The kernel for a combination of dtypes is made once; later calls take
 * no lock. */
const tn__kernel *tn__def_kernel(const tn__def *def, const tn_dtype *dtype);

/* Returns the program of a kernel, with its instructions in stages. It is made
 * once. Its operands are the kernel's inputs, then its outputs. */
const tn_program *tn__kernel_program(const tn__kernel *kernel);
/* Returns the kernel of a program that tn__kernel_program returned. */
const tn__kernel *tn__program_kernel(const tn_program *program);

/* ---- gradients --------------------------------------------------------- */

/* Returns the gradient of `kernel` with respect to input `wrt`, as a kernel
 * with the same parameters. It may read the inputs and outputs of `kernel` and
 * the gradients of its outputs; its inputs are the tensors that it does read.
 * Input i of the gradient is the tensor with index used[i] in this list:
 *   first   the inputs of `kernel`
 *   then    the outputs of `kernel`
 *   then    the gradients of these outputs
 *
 * The gradient has the dtype of input `wrt`. If that input has one value per
 * row, the gradient is summed over the row and has one value per row too. If
 * the gradient is zero everywhere, sets *out_zero and returns NULL without an
 * error. If a function that is differentiated has no derivative, records
 * TN_ERR_UNSUPPORTED and returns NULL. The gradient is made once for each
 * kernel and input. */
const tn__kernel *tn__kernel_gradient(const tn__kernel *kernel, int wrt,
                                      int used[TN__KERNEL_MAX_INPUTS],
                                      bool *out_zero);

/* Parses a gradient written by hand. Its source may use the names of the
 * definition's inputs and parameters, the outputs (out, or out0, out1 ...) and
 * their gradients (g, or g0, g1 ...). */
tn__def *tn__def_gradient_parse(const tn__def *def, int wrt, const char *text,
                                const char *where);

/* Lists which tensors a gradient written by hand reads. used[i] is the tensor
 * that is its input i, as an index into the list of tn__kernel_gradient.
 * Returns the number of its inputs. */
int tn__def_gradient_used(const tn__def *gradient,
                          int used[TN__KERNEL_MAX_INPUTS]);

/* ---- composition (fusion) ----------------------------------------------- */

/* Returns a kernel that computes what `consumer` computes if its input `at` is
 * output `from` of `producer` (fusion). The value is rounded to the dtype of
 * that input. So a half-type result that feeds a float32 input is not rounded
 * to the half type.
 *
 * The result has the other inputs of the consumer, then the inputs of the
 * producer. same[] has pairs of indices of inputs in this list that are the
 * same tensor, and ends with -1. The second input of each pair is left out.
 * `same` may be NULL. The result has the parameters of the consumer, then the
 * parameters of the producer. It has the outputs of the consumer.
 *
 * A kernel that works on rows (has_row) can be composed with a pointwise
 * kernel. A pointwise consumer of one value per row then runs once per row. A
 * pointwise producer of one value per row also runs once per row. Two kernels
 * that work on rows can be composed if the output and the input are both per
 * element or both per row; the caller makes sure that they have the same rows.
 * If the kernels cannot be composed, records TN_ERR_UNSUPPORTED and returns
 * NULL. Each composition is made once. */
const tn__kernel *tn__kernel_compose(const tn__kernel *consumer, int at,
                                     const tn__kernel *producer, int from,
                                     const int *same);

/* Returns a copy of a kernel that reads values per row but does not reduce over
 * rows. In the copy, all inputs and outputs have one value per element, so it
 * can be composed with a kernel of other rows. Each call makes a new kernel,
 * which is never freed. Returns NULL without an error if the kernel reduces
 * over rows, reads the length of a row, or has an output with one value per
 * row. */
const tn__kernel *tn__kernel_without_rows(const tn__kernel *kernel);

/* Returns a copy of a kernel whose inputs all have one value per row and which
 * does not reduce. In the copy, the outputs have one value per row too, so it
 * runs once per row. Each call makes a new kernel, which is never freed. For
 * any other kernel, returns NULL without an error. */
const tn__kernel *tn__kernel_once_a_row(const tn__kernel *kernel);

/* ---- execution and printing -------------------------------------------- */

/* Runs a program over host memory, one scalar at a time. It is the reference
 * with which every device is compared. Fills the fields of *fault that fit into
 * its size. tn__interpret_count returns the number of runs so far. */
tn_status tn__interpret(const tn_program *program, const tn_launch *launch,
                        void *const *memory, tn_fault *fault);
int64_t tn__interpret_count(void);
/* Copies a fault to a plugin's struct, up to the struct's size. Unlike
 * tn_struct_copy, it does not clear fields beyond that, since a plugin may not
 * have set the size. */
void tn__fault_fill(tn_fault *to, const tn_fault *from);

/* Computes one scalar instruction, as the table in plugin_program.h defines it.
 * An F32 value is stored in the field .f, as a double. The interpreter and
 * constant folding call this function. */
tn_number tn__kernel_eval(const tn_kernel_ins *ins, tn_number a, tn_number b,
                          tn_number c, tn_dtype a_dtype);

/* Returns a readable listing of a program or a kernel, for messages and tests.
 * The caller frees it with tn__free. */
char *tn__program_text(const tn_program *program);
char *tn__kernel_text(const tn__kernel *kernel);

/* Returns the mathematical function (lib/kernel/math) with this name and
 * register type, such as "exp" and TN_F32. Returns NULL without an error if
 * there is none. A function is typed and gets an index when it is first used.
 *
 * In the body of a function, the imm.i of a CALL is the process-wide index of
 * the called function, for tn__math_fn_at. In a kernel or a program, imm.i is
 * an index into the list of functions of that kernel or program
 * (plugin_program.h). */
const tn_kernel_fn *tn__math_fn(const char *name, tn_dtype type);
/* Types all mathematical functions and returns how many there are. Records an
 * error and returns 0 if one is invalid. */
int tn__math_fn_count(void);
const tn_kernel_fn *tn__math_fn_at(int i);
/* Returns whether function i is marked as rarely used. Plugins need no
 * optimised routine for it. */
bool tn__math_fn_is_rare(int i);

#endif
