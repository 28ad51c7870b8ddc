/* kernel.h: the kernel language, from text to programs.
 *
 *   text --parse--> tn__def      untyped definition, with its parameters
 *        --type---> tn__kernel   typed SSA for given dtypes
 *        --lower--> tn_program   staged, what a plugin builds
 *
 * Between the last two, kernels are derived (gradients), composed (fusion)
 * and simplified. docs/kernel-language.md is the grammar and the meaning.
 *
 * Kernels and definitions are immutable and live as long as the process: they
 * are few (one for each definition and combination of dtypes). Their makers
 * return NULL with the error recorded.
 */
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
 * messages ("table/softmax"): "where:line:column: what is wrong". */
tn__def *tn__def_parse(const char *text, const char *where);
/* Gives a definition back that nobody else holds and that made no kernel; others
 * live as long as the process. NULL is welcome. */
void tn__def_drop(const tn__def *def);

const char *tn__def_name(const tn__def *def);
int tn__def_input_count(const tn__def *def);
int tn__def_param_count(const tn__def *def);
int tn__def_output_count(const tn__def *def);
const char *tn__def_input_name(const tn__def *def, int i);
bool tn__def_input_is_offset(const tn__def *def, int i);
const char *tn__def_param_name(const tn__def *def, int i);

/* ---- typed kernels ----------------------------------------------------- */

/* A guard is a load that asks whether what it loads may be used: an index of 0
 * if so, one of base/guard.h if not. Its operand has index
 * stride 0 and TN__GUARD_EXTENT.
 * A flag of a LOAD's sub that programs do not have. */
#define TN__LOAD_GUARD 2

/* Typed SSA over inputs (tensors), params (numbers) and outputs. Values are
 * numbered; instructions are as in plugin.h, but stages are not laid out yet,
 * LOAD and OFFSET name inputs, STOREs are implied by out[]. A CAST to the type
 * that its operand has is stop(x); programs do not have it. */
typedef struct tn__kernel {
    const char *name;
    int input_count, param_count, output_count;
    struct {
        const char *name;
        tn_dtype dtype;    /* of storage; 0: an offset operand */
        uint8_t level;     /* TN_LEVEL_ELEM or ROW */
        uint8_t index_count;
        bool guarded;      /* the index is that of a guard: see below */
    } input[TN__KERNEL_MAX_INPUTS];
    struct {
        const char *name;
        tn_dtype dtype;    /* register type */
    } param[TN__KERNEL_MAX_PARAMS];
    struct {
        tn_dtype dtype;    /* of storage */
        uint8_t level;     /* ELEM or ROW: of the value (uniform counts as
                              ELEM without reductions) */
        uint32_t value;
    } out[TN__KERNEL_MAX_OUTPUTS];
    uint32_t ins_count, fn_count;
    const tn_kernel_ins *ins;
    const tn_kernel_fn *fn;
    bool has_row;          /* any REDUCE or row-level input */
    uint64_t key[2];
} tn__kernel;

/* The kernel of def for inputs of these dtypes. params without a written type
 * take the float type in which the kernel computes (f32 for half types). Made
 * once for each combination; lock-free when it exists. */
const tn__kernel *tn__def_kernel(const tn__def *def,
                                 const tn_dtype *input_dtype);

/* The staged program of a kernel; made once. Operand k is input k, then
 * outputs. */
const tn_program *tn__kernel_program(const tn__kernel *kernel);

/* ---- derivatives ------------------------------------------------------- */

/* The gradient of kernel with respect to its input `wrt`: a kernel whose
 * inputs are those of `kernel` it uses, its outputs it uses, and the
 * cotangents of its outputs; its parameters are all those of `kernel`. used[]
 * tells which, in order:
 *   0 <= u < input_count            input u
 *   input_count <= u < + outputs    output u - input_count
 *   then                            cotangent of output u - ...
 * Output dtype: that of the input. Output level: ELEM, unless the input is
 * ROW (then it is summed over the row within the program).
 * *out_zero is set, and NULL returned without an error, if no gradient flows.
 * NULL with TN_ERR_UNSUPPORTED if something on the way is marked as having
 * no derivative. Made once for each (kernel, wrt). */
const tn__kernel *tn__kernel_gradient(const tn__kernel *kernel, int wrt,
                                      int used[TN__KERNEL_MAX_INPUTS],
                                      bool *out_zero);

/* A gradient written by hand: text in terms of the definition's inputs,
 * outputs (out, or out0 out1 ...), cotangents (g, or g0 g1 ...) and params. */
tn__def *tn__def_gradient_parse(const tn__def *def, int wrt, const char *text,
                                const char *where);

/* Which tensors such a gradient takes as its inputs: numbers as in used[] of
 * tn__kernel_gradient. Returns how many. */
int tn__def_gradient_used(const tn__def *gradient,
                          int used[TN__KERNEL_MAX_INPUTS]);

/* ---- composition ------------------------------------------------------- */

/* consumer with its input `at` replaced by output `from` of producer, rounded
 * as its tensor would have been; as it was computed, in float32, where it is of
 * a half type and the input is float32. Inputs: the consumer's others, then the
 * producer's; equal tensors are merged by same[] (pairs of numbers in that
 * list, ended by -1; NULL: none), which keeps the place of the first.
 * Parameters: the consumer's, then the producer's. Outputs: the consumer's.
 *
 * Both pointwise, or one of them a row kernel: a pointwise consumer of a
 * result per row runs once a row (all its inputs and outputs become ROW), and
 * so does a pointwise producer for an input that is ROW. Two row kernels
 * compose where the levels are equal; their rows must be the same ones. NULL
 * with TN_ERR_UNSUPPORTED where they do not fit. Made once. */
const tn__kernel *tn__kernel_compose(const tn__kernel *consumer, int at,
                                     const tn__kernel *producer, int from,
                                     const int *same);

/* The same over elements alone, for a kernel of whose rows only numbers are
 * loaded: those come as elements, so that what composes with it may have other
 * rows. A new one each time, for as long as the process lives. NULL without an
 * error where it folds rows or has a result per row. */
const tn__kernel *tn__kernel_without_rows(const tn__kernel *kernel);

/* The same with one result a row, for a kernel that takes nothing but numbers of
 * rows, so that all elements of a row are equal. As new; NULL without an error
 * for any other. */
const tn__kernel *tn__kernel_once_a_row(const tn__kernel *kernel);

/* ---- execution and printing -------------------------------------------- */

/* Runs a program over host memory, one scalar at a time: what every device is
 * compared with. Counts its calls (tn__interpret_count). *fault is filled up to
 * its size. */
tn_status tn__interpret(const tn_program *program, const tn_launch *launch,
                        void *const *memory, tn_fault *fault);
int64_t tn__interpret_count(void);
/* Copies what fits into a plugin's fault. Its tail is not cleared, as
 * tn_struct_copy would: a plugin may have left the size unset. */
void tn__fault_fill(tn_fault *to, const tn_fault *from);

/* One scalar instruction on register values: the definition of the table in
 * plugin.h, in C. F32 values live in .f as float-valued doubles. Used by the
 * interpreter and by constant folding. */
tn_number tn__kernel_eval(const tn_kernel_ins *ins, tn_number a, tn_number b,
                          tn_number c, tn_dtype a_dtype);

/* A readable listing of a program or kernel, for messages and tests (free with
 * tn__free). */
char *tn__program_text(const tn_program *program);
char *tn__kernel_text(const tn__kernel *kernel);

/* In the bodies of the functions below, a CALL's imm.i is the number that
 * tn__math_fn_at takes; in those of a kernel or program it is one of its own
 * list, as plugin.h says.
 *
 * Functions of the language by name and register type ("exp", TN_F32), from
 * lib/kernel/math; NULL if there is none (no error recorded). They are typed
 * and numbered when first asked for. */
const tn_kernel_fn *tn__math_fn(const char *name, tn_dtype type);
/* All of them; 0 with the error recorded if one cannot be read. */
int tn__math_fn_count(void);
const tn_kernel_fn *tn__math_fn_at(int i);
/* Is it marked as one for which executors need no routine of its own? */
bool tn__math_fn_is_rare(int i);

#endif
