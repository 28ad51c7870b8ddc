/* ops.h: the operator table as C structs, and the path that every call takes:
 *
 *   validate -> autocast (if on) -> record gradient (if needed) -> device
 *
 * tn_op_call, the generated functions and tn_call all end in tn__op_run. This
 * room knows neither devices nor gradients: autograd registers tn__op_hooks. */
#ifndef TN_LIB_OPS_OPS_H
#define TN_LIB_OPS_OPS_H

#include <base/context.h>
#include <kernel/kernel.h>
#include <tenon/op.h>
#include <tensor/tensor.h>

#define TN__OP_MAX_ARGS 24
#define TN__OP_MAX_OUTPUTS 64 /* of split, unbind ...; more are an error */

typedef struct tn__call tn__call;

/* Runs a call whose values are validated. Fills call->out[] and out_count. Each
 * output has one reference, which no scope owns yet. */
typedef tn_status (*tn__op_run_fn)(tn__call *call);
/* A run function returns it in place of TN_OK if the outputs came from another
 * call, which has recorded them and given them to the open scope. */
#define TN__DONE 1

enum {
    TN__OP_KERNEL,    /* a definition in the kernel language */
    TN__OP_NATIVE,    /* a C function; its gradient is a function in autograd */
    TN__OP_COMPOSITE, /* a C function that calls other operators, which
                         record */
};

/* The role of an argument in the kernel of a KERNEL row. */
enum {
    TN__ROLE_NONE = '-',    /* none: rows, keepdim, size, device */
    TN__ROLE_OPERAND = 'O', /* an input; a number here is a parameter */
    TN__ROLE_PARAM = 'P',   /* a parameter */
    TN__ROLE_DTYPE = 'T'    /* a dtype; its name in the body is a conversion */
};

/* The dtype to which autocast converts the tensors of a call (precision.c). */
enum {
    TN__AUTOCAST_NONE,  /* none; the parts of a composite have their own */
    TN__AUTOCAST_LOWER, /* the half type of the autocast scope */
    TN__AUTOCAST_F32,   /* float32, unless the argument dtype is given */
    TN__AUTOCAST_F32_NOT_F16, /* float32; an error where the scope has f16 */
    TN__AUTOCAST_WIDEST /* the widest dtype of the tensors */
};

/* What a line of the table requires of a value. "needs": an option that has an
 * effect only with another argument. "bounds": a range for a number, or a list
 * of words. */
typedef struct tn__op_need {
    int option; /* an argument */
    int other;  /* an argument; of bounds: in place of bound, or -1 */
    enum {
        TN__NEED_GIVEN,  /* other is given */
        TN__NEED_ABSENT, /* other is not given */
        TN__NEED_VALUE,  /* other is `value`: words separated by | */
        TN__NEED_ABOVE,  /* option > bound */
        TN__NEED_AT_LEAST,
        TN__NEED_AT_MOST,
        TN__NEED_OTHER, /* option != bound */
        TN__NEED_WORD   /* option is one of `value` */
    } how;
    const char *value;
    double bound;
} tn__op_need;

struct tn_op {
    int id;             /* dense over the table; those of programs follow */
    uint8_t sort;       /* TN__OP_KERNEL ... */
    bool inplace;       /* writes its first argument (name ends in _) */
    bool view;          /* outputs share the input's storage */
    bool creates;       /* a new tensor: its rule is `create` */
    bool differentiable;
    bool nonempty;      /* rejects rows without elements */
    uint32_t floats;    /* arguments that must be floating, a bit each */
    bool widen;         /* COMPOSITE: half types are computed in f32 and rounded
                           once, at the end */
    bool inner;         /* internal: has no C function */
    uint8_t mask;       /* KERNEL: the number, from 1, of an argument that must
                           be bool; 0: none */
    uint8_t autocast;   /* TN__AUTOCAST_... */
    uint8_t need_count; /* number of elements in need */
    const char *name;      /* as in C: "max_dim" */
    const char *torch;     /* names in PyTorch: "max amax", by spaces */
    const char *signature;
    const char *doc;
    int arg_count, tensor_count; /* tensor_count: leading tensor arguments */
    const tn_op_arg *arg;
    const tn_value *fallback; /* defaults; TN_VALUE_NONE for none */
    tn__op_run_fn run;     /* NATIVE, COMPOSITE; KERNEL: tn__run_kernel, or a
                              rule that lays out the space */
    tn__op_run_fn host;    /* where run is tn__run_host_row: the row's function
                              on the host; else NULL */
    const struct tn_op_rule *rule; /* of an operator registered in C, else
                                      NULL */
    const char *kernel;    /* text of the body */
    const char *with;      /* the body if argument with_arg is given and differs
                              from its default; NULL: the same */
    int with_arg;          /* -1: none */
    const char *role;      /* one TN__ROLE_ for each argument */
    const char *extra;     /* inputs and parameters that the body may name
                              without an argument: letters 'e' element, 'p'
                              position, 'r' seed and call */
    int rows;              /* argument that names the row dimensions; -1: all
                              are rows */
    int keepdim;           /* argument that keeps them with size 1; -1: none */
    uint32_t row_inputs;   /* a bit for each argument that has one value for all
                              elements of a row */
    const char *const *grad; /* for each argument: a kernel text, "none", or
                                NULL for a derived gradient. KERNEL only */
    struct tn__op_cache *cache; /* kernels by dtypes, made on first use */
    const tn__op_need *need;    /* need_count of them */
};

struct tn__call {
    tn__running_op running;         /* the operator, for errors and origins */
    const tn_op *op;
    const tn_value *value;   /* arg_count of them, defaults filled in */
    int index_arg;           /* index errors are reported for this */
    int64_t index_low, index_bound; /* argument, with this range; -1: none */
    int out_count;
    tn_tensor **out;         /* of size TN__OP_MAX_OUTPUTS */
    tn_tensor *const *into;  /* given outputs (out=), or NULL; */
    int into_count;          /* their number */
    struct tn_op_context *context; /* of an operator that the program registered
                                      in C, counted; NULL for others */
    bool records;            /* in place: autograd will record it */
    tn_tensor *original;     /* and asked for this copy of what is written,
                                before the call; counted; NULL: not needed */
    const tn__kernel *kernel;   /* KERNEL: what ran, for the gradient; */
    const tn_number *param;     /*   with these parameters, */
    int param_count;
    struct tn__space *space;    /*   over this space */
    const tn__shape *shape;  /* KERNEL without a rule: the shape to which its */
    uint32_t row_dims;       /* inputs broadcast; bit d of row_dims marks
                                dimension d as a row dimension. NULL for a row
                                with a rule: its gradient is a function in
                                autograd, as for NATIVE */
    tn__shape shape_storage;    /* shape points here */
    tn_number param_storage[TN__KERNEL_MAX_PARAMS]; /* param points here */
};

/* Resets what a call fills in. The arrays at its end are not cleared: that
 * would take longer than a small operator. */
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

/* ---- the path ------------------------------------------------------------ */

/* Validates, runs, lets autograd record, and gives the outputs to the open
 * scope. Returns the number of outputs, or a negative status. */
int tn__op_run(const tn_op *op, const tn_value *value, int count,
               tn_tensor **out, int room);
/* The same for values that a caller filled in by hand. */
int tn__op_run_given(const tn_op *op, const tn_value *value, int count,
                     tn_tensor **out, int room);
/* For one output: the generated functions call it. */
tn_tensor *tn__op_run1(const tn_op *op, const tn_value *value, int count);

/* For values filled in by hand; the results are written into given tensors. */
tn_status tn__op_run_into(const tn_op *op, const tn_value *value, int count,
                          tn_tensor *const *into, int into_count);
/* Returns the first output and stores the others in *others[k], unless that is
 * NULL. */
tn_tensor *tn__op_run_outputs(const tn_op *op, const tn_value *value,
                              int count, tn_tensor **const *others,
                              int other_count);
/* Runs a `host` row: on the device if it has the extension `lapack`
 * (lapack_device.c), else op->host, which tn_host_runs() counts. */
tn_status tn__run_host_row(tn__call *call);
/* The operator that messages of this thread name: the outermost one that is
 * running, but none outside an operator that the program registered in C.
 * `name` if none is running. */
const char *tn__op_outer(const char *name);

/* ---- the dtypes in which calls compute (precision.c) --------------------- */

/* Runs a COMPOSITE row with the flag widen in its scope: half types are
 * computed in f32. */
tn_status tn__run_wide(tn__call *call);
/* Runs run(call) in the dtypes of the row's autocast line. lower is the half
 * type of the autocast scope. The open scope owns the results. */
tn_status tn__autocast_run(tn__call *call, tn_dtype lower,
                           tn_status (*run)(tn__call *call));
/* Sets the dtype of autocast, or none, and returns the former one. The thread's
 * cache of converted parameters stays as it is. */
static inline tn_dtype tn__autocast_swap(tn_dtype dtype)
{
    tn_dtype was = tn__me.modes.autocast;
    tn__me.modes.autocast = (uint8_t)dtype;
    return was;
}
/* Empties that cache. */
void tn__autocast_forget(void);

/* Autograd registers these functions. All are NULL until it does. */
typedef struct tn__op_hooks {
    /* Is this thread recording? */
    bool (*recording)(void);
    /* Is x a leaf? */
    bool (*is_leaf)(const tn_tensor *x);
    /* Called after a NATIVE or KERNEL call while recording, if an input
     * requires a gradient and the operator is differentiable. */
    tn_status (*record)(tn__call *call);
    /* Called before a kernel writes in place, if that will be recorded. Sets
     * call->original if the gradient needs it. */
    tn_status (*keep_original)(tn__call *call);
    /* Called before an operator writes into x. Rejects leaves that require a
     * gradient. */
    tn_status (*check_inplace)(const tn_op *op, tn_tensor *x,
                               bool requires_grad);
    /* Called after a call by the program (not by another operator) while
     * tn__me.modes.watched is set. out holds the results. */
    tn_status (*watch)(const tn__call *call, tn_tensor *const *out, int count);
} tn__op_hooks;
extern tn__op_hooks tn__hooks;

/* ---- kernels over a space ------------------------------------------------ */

/* The position of a kernel's operand in the iteration space. */
typedef struct tn__operand {
    tn_tensor *tensor;            /* NULL for an offset operand */
    int64_t offset;               /* added to the tensor's own; of an offset
                                     operand the value at coordinate 0 */
    int64_t stride[TN_MAX_NDIM];  /* outer dimensions, then row dimensions */
    int64_t index_stride[3], index_extent[3];
} tn__operand;

typedef struct tn__space {
    int outer_ndim, row_ndim;
    int64_t extent[TN_MAX_NDIM];
    uint32_t flags;               /* TN_LAUNCH_... */
    int operand_count;            /* inputs, then outputs */
    tn__operand operand[TN__KERNEL_MAX_INPUTS + TN__KERNEL_MAX_OUTPUTS];
} tn__space;

/* Launches kernel over space on device. Merges dimensions where all strides
 * allow it, and finds the built program. `what` names the operator. */
tn_status tn__kernel_launch(tn_device *device, const tn__kernel *kernel,
                            tn__space *space, const tn_number *param,
                            const char *what);

/* The run function of KERNEL rows without a rule: broadcast, promotion,
 * outputs, launch. */
tn_status tn__run_kernel(tn__call *call);

/* The definition from which op made this kernel. Autograd parses the row's
 * `grad` texts against it. NULL with the error recorded. */
const tn__def *tn__op_def(const tn_op *op, const tn__kernel *kernel);

/* A kernel text in the library's C code, parsed on first use. */
typedef struct tn__formula {
    const char *text;
    _Atomic(const tn__def *) def;
} tn__formula;
#define TN__FORMULA(text) {text, NULL}
const tn__kernel *tn__formula_kernel(tn__formula *formula,
                                     const tn_dtype *dtype);

/* Runs a kernel that is no row of the table (a gradient, a fused one) over
 * tensors that broadcast. Autograd can record the call again.
 *
 * Bit d of row_dims marks dimension d of the broadcast shape as a row
 * dimension. keepdim is implied for row outputs. shape is the broadcast shape,
 * NULL for that of the inputs. It is larger than that of the inputs if each of
 * them has one value for a row, as in the gradient of a sum. Element outputs
 * have the broadcast shape. The open scope owns *out. */
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
/* For composites that compute other indices from those of argument i, element
 * by element. An index error is then reported for argument i, whose indices are
 * in [low, bound). */
static inline void tn__call_set_indices(tn__call *call, int i, int64_t low,
                                        int64_t bound)
{
    call->index_arg = i;
    call->index_low = low;
    call->index_bound = bound;
}
/* The value as a double; integers are converted. */
double tn__call_float(const tn__call *call, int i);
/* Argument i as a dimension in [0, ndim), or -1 with TN_ERR_ARGUMENT recorded:
 * "softmax: dim 3 is outside [-2, 1]". */
int tn__call_dim(const tn__call *call, int i, int ndim);
static inline bool tn__call_has(const tn__call *call, int i)
{
    return call->value[i].kind != TN_VALUE_NONE;
}

/* Checks values that a caller filled in by hand, as bindings do: known kinds,
 * and no NULL pointers. */
tn_status tn__values_check(const tn_op *op, const tn_value *values, int count);
/* Converts what the caller gave to the kinds of the arguments and fills in
 * defaults. dims has a list for each argument. */
tn_status tn__values_normalise(const tn_op *op, const tn_value *given,
                               int count, tn_value *value, tn_dims_list *dims);

/* The generated functions make their values with these. */
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
/* A double as a number: integral values become integers. */
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
/* A list filled in by hand, for an option: see tn_dims_list. */
static inline tn_dims_list tn__marked(tn_dims_list list)
{
    list.dim[TN_MAX_NDIM] = TN_DIMS_MARK;
    return list;
}
/* Options that may be absent, and dimensions given as one number or as a
 * list. */
static inline tn_value tn__value_optional_int(int64_t i)
{
    return i == TN_NONE_INT ? tn__value_none() : tn__value_int(i);
}
static inline tn_value tn__value_optional_float(double x)
{
    return tn_is_none_float(x) ? tn__value_none() : tn__value_float(x);
}
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
