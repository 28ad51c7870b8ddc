/* ops.h: the operator table as C structs, and the path that every call of an
 * operator takes. It plays the role of PyTorch's dispatcher:
 *
 *   validate -> autocast (if on) -> record gradient (if needed) -> device
 *
 * tn_op_call, the generated functions and tn_call all end in tn__op_run. This
 * folder does not depend on autograd. Autograd registers its functions in
 * tn__op_hooks instead.
 *
 * Words that the comments of this folder use:
 *   row            an entry of the operator table (a .def file): an operator.
 *   rows, row dimensions
 *                  of a kernel: the dimensions over which it reduces or scans,
 *                  as `dim` of a softmax. A row of elements is the elements
 *                  with the same coordinates in all other dimensions.
 *   space          the iteration space of a kernel: the outer dimensions, then
 *                  the row dimensions.
 *   KERNEL, NATIVE, COMPOSITE
 *                  the three sorts of operators: TN__OP_KERNEL ... below. */
#ifndef TN_LIB_OPS_OPS_H
#define TN_LIB_OPS_OPS_H

#include <base/context.h>
#include <kernel/kernel.h>
#include <tenon/op.h>
#include <tensor/tensor.h>

#define TN__OP_MAX_ARGS 24
/* The largest number of outputs of one call. A call of split or unbind that
 * would return more is an error. */
#define TN__OP_MAX_OUTPUTS 64

typedef struct tn__call tn__call;

/* Runs a call whose values are validated. Stores the outputs in call->out and
 * their number in call->out_count. Each output has one reference, which no
 * scope owns yet. */
typedef tn_status (*tn__op_run_fn)(tn__call *call);
/* A run function returns TN__DONE in place of TN_OK if the outputs came from
 * another call, which has recorded them for autograd and given them to the open
 * scope. */
#define TN__DONE 1

enum {
    TN__OP_KERNEL,    /* a definition in the kernel language */
    TN__OP_NATIVE,    /* a C function whose gradient is a function in
                         autograd */
    TN__OP_COMPOSITE, /* a C function that calls other operators. Autograd
                         records those operators. */
};

/* The role of an argument in the kernel of a KERNEL row. */
enum {
    TN__ROLE_NONE = '-',    /* the kernel does not use the argument, for example
                               dim, keepdim, size or device */
    TN__ROLE_OPERAND = 'O', /* a tensor is an input of the kernel, a number is a
                               parameter */
    TN__ROLE_PARAM = 'P',   /* a number that is a parameter of the kernel */
    TN__ROLE_DTYPE = 'T'    /* a dtype. In the kernel's body the name of the
                               argument is the conversion to this dtype. */
};

/* The dtype to which autocast converts the tensors of a call (precision.c). */
enum {
    TN__AUTOCAST_NONE,  /* no conversion. The operators that a composite calls
                           apply their own rules. */
    TN__AUTOCAST_LOWER, /* the half type of the autocast scope */
    TN__AUTOCAST_F32,   /* float32, unless the argument dtype is given */
    TN__AUTOCAST_F32_NOT_F16, /* float32, and an error if the autocast scope has
                                 float16 */
    TN__AUTOCAST_WIDEST /* the widest dtype among the tensors and the scope's */
};

/* What a line `needs` or `bounds` of the table requires of the value of an
 * argument. A line `needs` says that an option has an effect only together with
 * another argument. A line `bounds` gives a range for a number, or a list of
 * words for a string. */
typedef struct tn__op_need {
    int option; /* the index of the argument that is checked */
    /* The index of another argument. For a line `needs`, it is the argument
     * that must be given, be absent or have a certain value. For a line
     * `bounds`, it is the argument whose value is the bound, or -1 if the bound
     * is the field `bound`. */
    int other;
    /* GIVEN, ABSENT and VALUE are conditions of `needs`, under which `option`
     * may differ from its default. All other values are conditions of
     * `bounds`. */
    enum {
        TN__NEED_GIVEN,    /* other is given */
        TN__NEED_ABSENT,   /* other is not given */
        TN__NEED_VALUE,    /* other is one of the words in `value` */
        TN__NEED_ABOVE,    /* option > bound */
        TN__NEED_AT_LEAST, /* option >= bound */
        TN__NEED_AT_MOST,  /* option <= bound */
        TN__NEED_OTHER,    /* option != bound */
        TN__NEED_WORD      /* option is one of the words in `value` */
    } how;
    /* The allowed words, separated by |. */
    const char *value;
    double bound;
} tn__op_need;

/* What few operators have. */
typedef struct tn__op_rare {
    /* The signature that the program wrote, or NULL for an operator of the
     * table, whose signature is made from its arguments. */
    const char *signature;
    const char *with;      /* the body that a KERNEL uses instead if argument
                              with_arg is given and differs from its default.
                              NULL if there is no other body. */
    tn__op_run_fn host;    /* if run is tn__run_host_row, the function that
                              computes the operator on the host. Else NULL. */
    const struct tn_op_rule *rule; /* the rule of an operator that the program
                                      registered in C. Else NULL. */
    const char *const *grad; /* the gradients of a KERNEL. grad[i] is the
                                gradient of argument i as a kernel source. It is
                                "none" if there is no gradient, and NULL if the
                                gradient is derived from the body. */
    /* the requirements in the row's lines `needs` and `bounds` */
    const tn__op_need *need;
    uint32_t row_inputs;   /* bit i is set if argument i has one value for all
                              elements of a row */
} tn__op_rare;

/* What the body of a KERNEL may name without an argument. */
enum {
    TN__READS_ELEMENT = 1,  /* the input `element` */
    TN__READS_POSITION = 2, /* the input `position` */
    TN__READS_SEED = 4      /* the parameters `seed` and `call` */
};

/* The table has 800 of these, so a field that most of them do not need is in
 * tn__op_rare. */
struct tn_op {
    int32_t id;         /* index in the table, also called id. Operators that a
                           program adds get the ids after the table's. */
    uint32_t floats;    /* bit i is set if argument i must be floating-point */
    uint8_t sort;       /* TN__OP_KERNEL, TN__OP_NATIVE or TN__OP_COMPOSITE */
    bool inplace : 1;   /* the operator writes into its first argument (its name
                           ends in _) */
    bool view : 1;      /* the outputs share the storage of the input */
    bool creates : 1;   /* the operator makes a tensor whose elements depend on
                           no tensor, for example zeros */
    bool differentiable : 1;
    bool nonempty : 1;  /* the operator rejects a call whose reduced dimensions
                         * have no elements */
    bool widen : 1;     /* a COMPOSITE computes half types in float32 and rounds
                           once, at the end */
    bool inner : 1;     /* the operator is internal and has no C function for
                           programs */
    uint8_t mask;       /* 1 + the index of the argument that must be bool, for
                           a KERNEL with the flag `mask`; else 0 */
    uint8_t autocast;   /* TN__AUTOCAST_... */
    uint8_t need_count; /* the number of elements of rare->need */
    uint8_t arg_count, tensor_count; /* tensor_count: how many of the first
                                        arguments are tensors */
    uint8_t extra;         /* TN__READS_... */
    int8_t with_arg;       /* the index of the argument that selects
                              rare->with, or -1 */
    int8_t rows;           /* the index of the argument that names the row
                              dimensions. If it is -1, all dimensions are row
                              dimensions. */
    int8_t keepdim;        /* the index of the argument keepdim, which keeps
                            * the row dimensions with size 1, or -1 */
    const char *name;   /* the name in C, as "max_dim" */
    const char *doc;
    const tn_op_arg *arg;
    const tn_value *fallback; /* fallback[i] is the default of argument i, of
                                 kind TN_VALUE_NONE if there is no default */
    tn__op_run_fn run;     /* the function that runs a call. For a KERNEL it is
                              tn__run_kernel, or a C function that builds the
                              iteration space itself. */
    const char *kernel;    /* the body of a KERNEL in the kernel language */
    const char *role;      /* role[i] is the TN__ROLE_ of argument i */
    const tn__op_rare *rare; /* never NULL */
    struct tn__op_cache *cache; /* the kernels for the dtypes seen so far */
};

struct tn__call {
    tn__running_op running;  /* the entry of this call in the thread's list of
                                running operators. Error messages and the
                                origins of tensors name the operators of this
                                list. Must be the first member. */
    const tn_op *op;
    const tn_value *value;   /* the op->arg_count values, with the defaults
                                filled in */
    /* The index of the argument for which index errors are reported, and the
     * range [index_low, index_bound) of its indices. A composite sets them if
     * it computes other indices from those of the argument. Else index_arg is
     * -1. */
    int index_arg;
    int64_t index_low, index_bound;
    int out_count;
    tn_tensor **out;         /* the outputs, an array of TN__OP_MAX_OUTPUTS
                                elements */
    tn_tensor *const *into;  /* the tensors into which the results are written
                                (out= in PyTorch), or NULL */
    int into_count;          /* the number of tensors in `into` */
    struct tn_op_context *context; /* the context of an operator that the
                                      program registered in C, to which the call
                                      holds a reference. NULL for other
                                      operators. */
    bool records;            /* autograd will record this in-place call */
    tn_tensor *original;     /* a copy of the tensor that an in-place call
                                overwrites, made before the call. The call holds
                                a reference to it. NULL if the gradient does not
                                need the copy. */
    /* The kernel that a KERNEL operator ran. Autograd needs it for the
     * gradient. */
    const tn__kernel *kernel;
    const tn_number *param;  /* the parameters of the kernel */
    int param_count;
    struct tn__space *space; /* the iteration space of the kernel */
    /* For a KERNEL whose iteration space is not built by a C function: the
     * shape to which the inputs broadcast. For all other operators it is NULL,
     * because their gradients are C functions in autograd. */
    const tn__shape *shape;
    uint32_t row_dims;       /* bit d is set if dimension d of `shape` is a row
                                dimension */
    tn__shape shape_storage; /* memory to which `shape` points */
    /* Memory to which `param` points. */
    tn_number param_storage[TN__KERNEL_MAX_PARAMS];
};

/* Resets the fields that a run function fills in. The arrays at the end of the
 * struct are not cleared, because that would take longer than a small
 * operator. */
static inline void tn__call_begin(tn__call *call, tn_tensor *const *into,
                                  int into_count)
{
    call->out_count = 0;
    call->into = into;
    call->into_count = into_count;
    call->context = NULL;
    call->records = false;
    call->original = NULL;
    call->kernel = NULL;
    call->param_count = 0;
    call->space = NULL;
    call->shape = NULL;
    call->row_dims = 0;
}

/* ---- the path of a call -------------------------------------------------- */

/* Runs one call of op from beginning to end: validates the values, runs, lets
 * autograd record, and gives the outputs to the open scope. Stores at most
 * `room` outputs in out. Returns the number of outputs, or a negative
 * status. */
int tn__op_run(const tn_op *op, const tn_value *value, int count,
               tn_tensor **out, int room);
/* Runs one call as tn__op_run does, but with values that the program passed to
 * tn_op_call. These values may be NULL or have invalid kinds. */
int tn__op_run_given(const tn_op *op, const tn_value *value, int count,
                     tn_tensor **out, int room);
/* Runs one call and returns its first output, or NULL on failure. The generated
 * functions of operators with one output call this. */
tn_tensor *tn__op_run1(const tn_op *op, const tn_value *value, int count);
/* The same for operators with one or two arguments, tensors or numbers. Half of
 * the generated functions only call one of these. */
tn_tensor *tn__op_run_unary(tn_tensor *x, const tn_op *op);
tn_tensor *tn__op_run_binary(tn_tensor *x, tn_tensor *y, const tn_op *op);
tn_tensor *tn__op_run_number(tn_tensor *x, tn_scalar y, const tn_op *op);
tn_tensor *tn__op_run_number_first(tn_scalar x, tn_tensor *y, const tn_op *op);

/* Runs one call with values that may be invalid, as tn__op_run_given does, and
 * writes the results into the tensors in `into`. */
tn_status tn__op_run_into(const tn_op *op, const tn_value *value, int count,
                          tn_tensor *const *into, int into_count);
/* Runs one call and returns its first output, or NULL on failure. Stores output
 * k + 1 in *others[k] unless others[k] is NULL. */
tn_tensor *tn__op_run_outputs(const tn_op *op, const tn_value *value,
                              int count, tn_tensor **const *others,
                              int other_count);
/* Runs an operator that has the flag `host` in the operator table. If the
 * device has the extension `lapack`, it computes the operator
 * (lapack_device.c). Else op->rare->host computes it on the host, and
 * tn_host_runs() counts the call. */
tn_status tn__run_host_row(tn__call *call);
/* Returns the name of the operator that messages of this thread name: the
 * outermost operator that is running. The search stops at an operator that the
 * program registered in C, so that messages name the operators that its code
 * calls. Returns `name` if no operator is running. */
const char *tn__op_outer(const char *name);

/* ---- the dtypes in which calls compute (precision.c) --------------------- */

/* Runs a COMPOSITE operator with the flag `widen`: converts half-type tensors
 * to float32 before, and the results back after. */
tn_status tn__run_wide(tn__call *call);
/* Calls run(call) with the tensors converted as the line `autocast` of the
 * operator table says. lower is the half type of the autocast scope. The open
 * scope owns the results. */
tn_status tn__autocast_run(tn__call *call, tn_dtype lower,
                           tn_status (*run)(tn__call *call));
/* Sets the dtype of autocast in this thread and returns the former dtype.
 * TN_DTYPE_NONE turns autocast off. The thread's cache of converted parameters
 * stays as it is. */
static inline tn_dtype tn__autocast_swap(tn_dtype dtype)
{
    tn_dtype was = tn__me.modes.autocast;
    tn__me.modes.autocast = (uint8_t)dtype;
    return was;
}
/* Empties the thread's cache of parameters that autocast has converted. */
void tn__autocast_forget(void);

/* The functions that this folder calls in autograd. All are NULL until autograd
 * registers them. */
typedef struct tn__op_hooks {
    /* Returns whether this thread records a graph (PyTorch's grad mode). */
    bool (*recording)(void);
    /* Returns whether x is a leaf of the graph. */
    bool (*is_leaf)(const tn_tensor *x);
    /* Records a finished NATIVE or KERNEL call in the graph. Called while
     * recording if the operator is differentiable and an input requires a
     * gradient. */
    tn_status (*record)(tn__call *call);
    /* Sets call->original to a copy of the tensor that an in-place kernel is
     * about to overwrite, if the gradient needs the copy. Called if the
     * in-place call will be recorded. */
    tn_status (*keep_original)(tn__call *call);
    /* Rejects writing into x if x is a leaf that requires a gradient. Called
     * before an operator writes into x. */
    tn_status (*check_inplace)(const tn_op *op, tn_tensor *x,
                               bool requires_grad);
    /* Receives the results of a call that the program made, as opposed to a
     * call that another operator made. Called while tn__me.modes.watched is
     * set. */
    tn_status (*watch)(const tn__call *call, tn_tensor *const *out, int count);
} tn__op_hooks;
extern tn__op_hooks tn__hooks;

/* ---- kernels over a space ------------------------------------------------ */

/* How an operand of a kernel is addressed in the iteration space. Most operands
 * are tensors. An offset operand has no memory: its value at a point is offset
 * + sum over d of coordinate[d] * stride[d]. */
typedef struct tn__operand {
    tn_tensor *tensor;            /* NULL for an offset operand */
    int64_t offset;               /* for a tensor, an offset in elements that is
                                     added to the tensor's own offset. For an
                                     offset operand, the operand's value at
                                     coordinates 0. */
    int64_t stride[TN_MAX_NDIM];  /* strides in elements, of the outer
                                     dimensions first, then of the row
                                     dimensions */
    /* Strides and sizes of the dimensions that the kernel addresses by index,
     * in the order of its indices. */
    int64_t index_stride[3], index_extent[3];
} tn__operand;

typedef struct tn__space {
    int outer_ndim, row_ndim;     /* numbers of outer and row dimensions */
    int64_t extent[TN_MAX_NDIM];  /* sizes of the outer dimensions, then of the
                                     row dimensions */
    uint32_t flags;               /* TN_LAUNCH_... */
    int operand_count;
    /* The kernel's inputs, then its outputs. */
    tn__operand operand[TN__KERNEL_MAX_INPUTS + TN__KERNEL_MAX_OUTPUTS];
} tn__space;

/* Launches kernel over space on device. First merges dimensions where
 * all strides allow it, and finds the program that was built for the device.
 * `what` names the operator in messages. */
tn_status tn__kernel_launch(tn_device *device, const tn__kernel *kernel,
                            tn__space *space, const tn_number *param,
                            const char *what);

/* Runs a call of a KERNEL operator that has no function of its own for the
 * iteration space: broadcasts the inputs, promotes their dtypes, makes the
 * outputs and launches the kernel. */
tn_status tn__run_kernel(tn__call *call);

/* Returns the parsed definition from which op made this kernel. Autograd needs
 * it to parse the sources in op->rare->grad. Returns NULL on failure, with the
 * error recorded. */
const tn__def *tn__op_def(const tn_op *op, const tn__kernel *kernel);

/* A kernel source in the library's own C code, which is parsed on first use. */
typedef struct tn__formula {
    const char *text;
    _Atomic(const tn__def *) def;
} tn__formula;
#define TN__FORMULA(text) {text, NULL}
/* Returns the kernel of the formula for these dtypes: first the dtypes of the
 * inputs, then those of the type parameters. Returns NULL on failure, with the
 * error recorded. */
const tn__kernel *tn__formula_kernel(tn__formula *formula,
                                     const tn_dtype *dtype);

/* Runs a kernel that is not in the operator table, such as a gradient or a
 * fused kernel, over tensors that broadcast. Autograd can record this call too,
 * for gradients of gradients.
 *
 * `shape` is the iteration space, or NULL for the shape to which the inputs
 * broadcast. It is larger than that shape if all inputs have one value per row,
 * as in the gradient of a sum. Bit d of row_dims marks dimension d of the
 * iteration space as a row dimension. An output with one value per row has size
 * 1 in the row dimensions. Any other output has the shape of the iteration
 * space. The open scope owns the results, which are stored in out[]. */
tn_status tn__apply_kernel(const tn__kernel *kernel, tn_tensor *const *input,
                           const tn_number *param, const tn__shape *shape,
                           uint32_t row_dims, const char *what,
                           tn_tensor **out);

/* ---- values of a call ---------------------------------------------------- */

static inline tn_tensor *tn__call_tensor(const tn__call *call, int i)
{
    return call->value[i].kind == TN_VALUE_TENSOR ? call->value[i].of.tensor
                                                  : NULL;
}
static inline int64_t tn__call_int(const tn__call *call, int i)
{
    return call->value[i].of.i;
}
/* Declares that a composite computes the indices that it uses from argument i,
 * element by element. An index error is then reported for argument i, whose
 * indices must be in [low, bound). */
static inline void tn__call_set_indices(tn__call *call, int i, int64_t low,
                                        int64_t bound)
{
    call->index_arg = i;
    call->index_low = low;
    call->index_bound = bound;
}
/* Returns the value of argument i, which is a number of any kind, as a
 * double. */
double tn__call_float(const tn__call *call, int i);
/* Stores the smallest and the largest number of an integer dtype. Returns false
 * for bool and for floating dtypes, which have no limits. */
static inline bool tn__int_limits(tn_dtype dtype, int64_t *low, int64_t *high)
{
    if (tn_dtype_is_floating(dtype) || dtype == TN_BOOL)
        return false;
    *high = dtype == TN_U8 ? UINT8_MAX
                           : INT64_MAX >> (64 - 8 * tn_dtype_bytes(dtype));
    *low = dtype == TN_U8 ? 0 : -*high - 1;
    return true;
}
/* Rejects a number that becomes an element of an integer dtype, and is beyond
 * the numbers of this dtype, because the conversion would wrap it. Numbers
 * between two integers are truncated, as in PyTorch. Accepts values of other
 * kinds, and all numbers for other dtypes. argument may be "end:the last
 * number": the argument, and what the message shows in its place. */
tn_status tn__check_limits(const char *name, const char *argument,
                           const tn_value *number, tn_dtype dtype);
static inline tn_status tn__check_fits(const char *name, const char *argument,
                                       const tn_value *number, tn_dtype dtype)
{
    /* the integers that every dtype has, and other kinds, need no call */
    if (TN__LIKELY(number->kind != TN_VALUE_NUMBER ||
                   (number->count == TN_SCALAR_INT &&
                    (uint64_t)number->of.i <= INT8_MAX)))
        return TN_OK;
    return tn__check_limits(name, argument, number, dtype);
}
/* Returns argument i as a dimension in [0, ndim). Negative dimensions count
 * from the end. Returns -1 if the dimension does not exist, with
 * TN_ERR_ARGUMENT recorded: "softmax: dim 3 is outside [-2, 1]". */
int tn__call_dim(const tn__call *call, int i, int ndim);
static inline bool tn__call_has(const tn__call *call, int i)
{
    return call->value[i].kind != TN_VALUE_NONE;
}

/* Checks values that the program passed to tn_op_call, as bindings of other
 * languages do: that their kinds exist and that no pointer is NULL. */
tn_status tn__values_check(const tn_op *op, const tn_value *values, int count);
/* Converts the values in `given` to the kinds that the arguments take, fills in
 * defaults, and stores the result in value[]. dims[i] is memory for a list that
 * argument i may need. */
tn_status tn__values_normalise(const tn_op *op, const tn_value *given,
                               int count, tn_value *value, tn_dims_list *dims);

/* The functions tn__value_... make a tn_value of one kind. The generated
 * functions use them to pass their arguments. */
static inline tn_value tn__value_tensor(tn_tensor *x)
{
    return (tn_value){TN_VALUE_TENSOR, 0, {.tensor = x}};
}
static inline tn_value tn__value_optional(tn_tensor *x)
{
    return (tn_value){x ? TN_VALUE_TENSOR : TN_VALUE_NONE, 0, {.tensor = x}};
}
static inline tn_value tn__value_tensors(tn_tensor *const *x, int count)
{
    return (tn_value){TN_VALUE_TENSORS, count, {.tensors = x}};
}
static inline tn_value tn__value_floats(const double *x, int count)
{
    return (tn_value){x ? TN_VALUE_FLOATS : TN_VALUE_NONE, count,
                      {.floats = x}};
}
static inline tn_value tn__value_number(tn_scalar x)
{
    if (x.kind == TN_SCALAR_NONE)
        return (tn_value){TN_VALUE_NONE, 0, {.i = 0}};
    tn_value v = {TN_VALUE_NUMBER, x.kind, {.i = x.value.i}};
    if (x.kind == TN_SCALAR_FLOAT)
        v.of.f = x.value.f;
    return v;
}
/* Makes a value of kind number. A double without a fractional part becomes an
 * integer. */
tn_value tn__value_number_of(double x);
static inline tn_value tn__value_int(int64_t i)
{
    return (tn_value){TN_VALUE_INT, 0, {.i = i}};
}
static inline tn_value tn__value_float(double f)
{
    return (tn_value){TN_VALUE_FLOAT, 0, {.f = f}};
}
static inline tn_value tn__value_bool(bool b)
{
    return (tn_value){TN_VALUE_BOOL, 0, {.i = b}};
}
static inline tn_value tn__value_dims(const tn_dims_list *dims)
{
    return (tn_value){TN_VALUE_DIMS, 0, {.dims = dims}};
}
static inline tn_value tn__value_string(const char *text)
{
    return (tn_value){text ? TN_VALUE_STRING : TN_VALUE_NONE, 0,
                      {.string = text}};
}
static inline tn_value tn__value_dtype(tn_dtype dtype)
{
    return (tn_value){dtype ? TN_VALUE_DTYPE : TN_VALUE_NONE, 0, {.i = dtype}};
}
static inline tn_value tn__value_device(tn_device *device)
{
    return (tn_value){device ? TN_VALUE_DEVICE : TN_VALUE_NONE, 0,
                      {.device = device}};
}
static inline tn_value tn__value_none(void)
{
    return (tn_value){TN_VALUE_NONE, 0, {.i = 0}};
}
/* Returns the list with TN_DIMS_MARK stored after its dimensions. The mark
 * shows that a list in an option struct was given, and not left out
 * (tn_dims_list). */
static inline tn_dims_list tn__marked(tn_dims_list list)
{
    list.dim[TN_MAX_NDIM] = TN_DIMS_MARK;
    return list;
}
/* Make the value of an option that may be absent: TN_NONE_INT or TN_NONE_FLOAT
 * yields a value of kind NONE. */
static inline tn_value tn__value_optional_int(int64_t i)
{
    return i == TN_NONE_INT ? tn__value_none() : tn__value_int(i);
}
static inline tn_value tn__value_optional_float(double x)
{
    return tn_is_none_float(x) ? tn__value_none() : tn__value_float(x);
}
/* Makes the value of an argument that takes dimensions as one number or as a
 * list. `all` is used if its count is 0 or more, else `one`. list_of_one is
 * memory for a list that holds `one`. */
static inline tn_value tn__value_axes(int64_t one, const tn_dims_list *all,
                                      tn_dims_list *list_of_one)
{
    if (all->count >= 0)
        return tn__value_dims(all);
    if (one == TN_NONE_INT)
        return tn__value_none();
    list_of_one->count = 1;
    list_of_one->dim[0] = one;
    return tn__value_dims(list_of_one);
}

#endif
