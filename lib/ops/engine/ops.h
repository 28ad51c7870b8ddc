/* ops.h: the operator table inside, and the one path that every call takes:
 *
 *   validate -> autocast (if on) -> record gradient (if needed) -> device
 *
 * tn_op_call, the generated functions and tn_call all end in tn__op_run. The
 * room knows no device and no gradient: autograd listens through tn__op_hooks.
 */
#ifndef TN_LIB_OPS_OPS_H
#define TN_LIB_OPS_OPS_H

#include <base/context.h>
#include <kernel/kernel.h>
#include <tenon/op.h>
#include <tensor/tensor.h>

#define TN__OP_MAX_ARGS 24
#define TN__OP_MAX_OUTPUTS 64 /* of split, unbind ... more is an error */

typedef struct tn__call tn__call;

/* Runs a call whose values are validated: fills call->out[], out_count.
 * Outputs carry one reference each, owned by nobody yet. */
typedef tn_status (*tn__op_run_fn)(tn__call *call);
/* Returned instead of TN_OK: the outputs came from another call, which recorded
 * them and gave them to the open scope. */
#define TN__DONE 1

enum {
    TN__OP_KERNEL,    /* a definition in the kernel language */
    TN__OP_NATIVE,    /* a C function; its gradient is a function of autograd */
    TN__OP_COMPOSITE, /* a C function of other operators, which record */
};

/* What an argument is to the kernel of a KERNEL row. */
enum {
    TN__ROLE_NONE = '-',    /* nothing: rows, keepdim, size, device */
    TN__ROLE_OPERAND = 'O', /* an input; a number given here: a parameter */
    TN__ROLE_PARAM = 'P',   /* a parameter */
    TN__ROLE_DTYPE = 'T'    /* a dtype; its name in the body is a conversion */
};

/* The dtype to which autocast brings the tensors of a call (precision.c). */
enum {
    TN__AUTOCAST_NONE,  /* they stay: the row, or its parts, take what comes */
    TN__AUTOCAST_LOWER, /* the scope's half type */
    TN__AUTOCAST_F32,   /* float32, unless its dtype argument is given */
    TN__AUTOCAST_F32_NOT_F16, /* float32; refused where the scope's is f16 */
    TN__AUTOCAST_WIDEST /* the widest that one of them has */
};

/* What a line of the table asks of a value. "needs": an option that has an
 * effect only with another argument. "bounds": a number, where it is given, or
 * a word. */
typedef struct tn__op_need {
    int option; /* an argument */
    int other;  /* an argument; of bounds: in place of bound, or -1 */
    enum {
        TN__NEED_GIVEN,  /* other is given */
        TN__NEED_ABSENT, /* other is not given */
        TN__NEED_VALUE,  /* other is `value`, words with | between them */
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
    int id;             /* dense over the table; user's come after */
    uint8_t sort;       /* TN__OP_KERNEL ... */
    bool inplace;       /* its first argument is written (name ends in _) */
    bool view;          /* outputs share the input's storage */
    bool creates;       /* a tensor from nothing: its rule is `create` */
    bool differentiable;
    bool nonempty;      /* refuses rows without elements */
    bool floating;      /* integer and bool inputs are refused */
    bool widen;         /* COMPOSITE: half types are worked on in f32 and rounded
                           once, at the end */
    bool inner;         /* of the library's own: has no C function */
    uint8_t mask;       /* KERNEL: the number, from 1, of an argument that has to
                           be bool; 0: none */
    uint8_t autocast;   /* TN__AUTOCAST_... */
    uint8_t need_count; /* what it asks of values: need */
    const char *name;      /* as in C: "max_dim" */
    const char *torch;     /* names served: "max amax", by spaces */
    const char *signature;
    const char *doc;
    int arg_count, tensor_count; /* tensor_count: leading tensor arguments */
    const tn_op_arg *arg;
    const tn_value *fallback; /* defaults; NONE where there is none */
    tn__op_run_fn run;     /* NATIVE, COMPOSITE; KERNEL: tn__run_kernel or a
                              rule of its own that lays out the space */
    tn__op_run_fn host;    /* the row's function on the host, where run is
                              tn__run_host_row; else NULL */
    const struct tn_op_rule *rule; /* of an operator registered in C, else
                                      NULL */
    const char *kernel;    /* body text */
    const char *with;      /* the body if argument with_arg is given and not
                              its default; NULL: the same */
    int with_arg;          /* -1: none */
    const char *role;      /* one TN__ROLE_ for each argument */
    const char *extra;     /* inputs and parameters that come by themselves:
                              letters 'e' element, 'p' position, 'r' seed and
                              call */
    int rows;              /* argument that names the row dimensions; -1 all */
    int keepdim;           /* argument that says whether they stay; -1: no */
    uint32_t row_inputs;   /* a bit for each argument that is the same over a
                              row's elements */
    const char *const *grad; /* per argument: kernel text, "none", or
                                NULL: derived. KERNEL only */
    struct tn__op_cache *cache; /* kernels by dtypes; made on first use */
    const tn__op_need *need;    /* need_count of them */
};

struct tn__call {
    tn__doing doing;         /* for errors and origins */
    const tn_op *op;
    const tn_value *value;   /* arg_count of them, defaults filled in */
    int index_arg;           /* the argument that indices are made of, which */
    int64_t index_low, index_bound; /* are in this range; -1: not said */
    int out_count;
    tn_tensor **out;         /* room for TN__OP_MAX_OUTPUTS */
    tn_tensor *const *into;  /* given outputs (out=), or NULL; */
    int into_count;          /*   that many */
    struct tn_op_context *context; /* of an operator that the program wrote in
                                C: counted; NULL: of another */
    bool records;            /* in place: autograd will be told */
    tn_tensor *original;     /*   and asked for this copy of what is written,
                                  as it was; counted, NULL: not needed */
    const tn__kernel *kernel;   /* KERNEL: what ran, for the gradient; */
    const tn_number *param;     /*   with these parameters, */
    int param_count;
    struct tn__space *space;    /*   over this space */
    const tn__shape *shape;  /* KERNEL without a rule: the shape to which its */
    uint32_t row_dims;       /*   inputs broadcast; bit d of row_dims marks its
                                  dimension d as a row dimension. A row with a
                                  rule: NULL; its gradient is a function of
                                  autograd, as for NATIVE */
    tn__shape shape_storage;    /* what shape points to */
    tn_number param_storage[TN__KERNEL_MAX_PARAMS]; /* what param points to */
};

/* Of what a call fills in: nothing yet. The rooms at its end are left as they
 * are; to clear them costs more than a small operator. */
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

/* Validates, runs, lets autograd record, gives the outputs to the open scope.
 * Returns the number of outputs, or a negative status. */
int tn__op_run(const tn_op *op, const tn_value *value, int count,
               tn_tensor **out, int room);
/* The same for values that a caller filled by hand. */
int tn__op_run_given(const tn_op *op, const tn_value *value, int count,
                     tn_tensor **out, int room);
/* One output: what the generated functions call. */
tn_tensor *tn__op_run1(const tn_op *op, const tn_value *value, int count);

/* Values filled by hand, results written into given tensors. */
tn_status tn__op_run_into(const tn_op *op, const tn_value *value, int count,
                          tn_tensor *const *into, int into_count);
/* The first and, through others[k] (NULL: not wanted), the further outputs. */
tn_tensor *tn__op_run_outputs(const tn_op *op, const tn_value *value,
                              int count, tn_tensor **const *others,
                              int other_count);
/* A `host` row: by the device where it has the extension `lapack`
 * (lapack_device.c), else op->host, which is counted. */
tn_status tn__run_host_row(tn__call *call);
/* The name under which messages of this thread speak: that of the outermost
 * operator that is running, below those that the program wrote in C; else
 * `name`. */
const char *tn__op_outer(const char *name);

/* ---- the dtypes in which calls compute (precision.c) --------------------- */

/* A COMPOSITE row with the flag widen, in its scope: on half types in f32. */
tn_status tn__run_wide(tn__call *call);
/* run(call) in the dtypes that its row's word for autocast asks for; lower is
 * the scope's. Results belong to the open scope. */
tn_status tn__autocast_run(tn__call *call, tn_dtype lower,
                           tn_status (*run)(tn__call *call));
/* Sets the dtype of autocast, or none, without a look at the thread's store of
 * converted parameters; returns what it was. */
static inline tn_dtype tn__autocast_swap(tn_dtype dtype)
{
    tn_dtype was = tn__me.modes.autocast;
    tn__me.modes.autocast = (uint8_t)dtype;
    return was;
}
/* Empties that store. */
void tn__autocast_forget(void);

/* Autograd listens here; zeroed until it registers. */
typedef struct tn__op_hooks {
    /* Is recording on in this thread? */
    bool (*recording)(void);
    /* Is x a leaf? */
    bool (*is_leaf)(const tn_tensor *x);
    /* Called after a NATIVE or KERNEL call, recording being on, where an input
     * requires a gradient and the operator is differentiable. */
    tn_status (*record)(tn__call *call);
    /* Before a kernel writes in place where that will be recorded: sets
     * call->original if the gradient needs it. */
    tn_status (*keep_original)(tn__call *call);
    /* Before an operator writes into x: refuses leaves that require one. */
    tn_status (*check_inplace)(const tn_op *op, tn_tensor *x,
                               bool requires_grad);
    /* After a call of the program's own (not of another operator's) while
     * tn__me.modes.watched: its results are in out. */
    tn_status (*watch)(const tn__call *call, tn_tensor *const *out, int count);
} tn__op_hooks;
extern tn__op_hooks tn__hooks;

/* ---- kernels over a space -------------------------------------------------- */

/* Where each operand of a kernel lies in the iteration space. */
typedef struct tn__operand {
    tn_tensor *tensor;            /* NULL for an offset operand */
    int64_t offset;               /* added to the tensor's own; for offset
                                     operands the value at coordinate 0 */
    int64_t stride[TN_MAX_NDIM];  /* outer, then row dimensions */
    int64_t index_stride[3], index_extent[3];
} tn__operand;

typedef struct tn__space {
    int outer_ndim, row_ndim;
    int64_t extent[TN_MAX_NDIM];
    uint32_t flags;               /* TN_LAUNCH_... */
    int operand_count;            /* inputs, then outputs */
    tn__operand operand[TN__KERNEL_MAX_INPUTS + TN__KERNEL_MAX_OUTPUTS];
} tn__space;

/* Launches kernel over space on device: merges dimensions where all strides
 * allow, finds the built program, runs it. what names the operator. */
tn_status tn__kernel_launch(tn_device *device, const tn__kernel *kernel,
                            tn__space *space, const tn_number *param,
                            const char *what);

/* The run function of pointwise and row definitions: broadcast, promotion,
 * output allocation, launch. */
tn_status tn__run_kernel(tn__call *call);

/* The definition from which a KERNEL row made this kernel: autograd parses the
 * row's `grad` texts against it. NULL with the error recorded. */
const tn__def *tn__op_def(const tn_op *op, const tn__kernel *kernel);

/* A kernel text of the library's own C, parsed on first use. */
typedef struct tn__formula {
    const char *text;
    _Atomic(const tn__def *) def;
} tn__formula;
#define TN__FORMULA(text) {text, NULL}
const tn__kernel *tn__formula_kernel(tn__formula *formula,
                                     const tn_dtype *dtype);

/* Runs a kernel (a gradient, a fused one) that is no row of the table over
 * tensors that broadcast together, as an operator that can be recorded again:
 * row_dims bit d marks dimension d of the broadcast shape as a row dimension,
 * keepdim is implied for row outputs. shape is the broadcast shape (wider than
 * that of the inputs where all of them are one value a row, as in the gradient
 * of a sum); NULL: that of the inputs. Result in *out, owned by the open scope
 * (ELEM outputs have the broadcast shape). */
tn_status tn__apply_kernel(const tn__kernel *kernel, tn_tensor *const *input,
                           const tn_number *param, const tn__shape *shape,
                           uint32_t row_dims, const char *what,
                           tn_tensor **out);

/* ---- values of a call ------------------------------------------------------- */

static inline tn_tensor *tn__call_tensor(const tn__call *call, int i)
{
    return call->value[i].kind == TN_VALUE_TENSOR ? call->value[i].of.tensor
                                                  : NULL;
}
static inline int64_t tn__call_int(const tn__call *call, int i)
{
    return call->value[i].of.i;
}
/* For composites that make other indices of argument i, whose own are in
 * [low, bound), element for element: one that is found outside is told as it
 * was given. */
static inline void tn__call_set_indices(tn__call *call, int i, int64_t low,
                                        int64_t bound)
{
    call->index_arg = i;
    call->index_low = low;
    call->index_bound = bound;
}
/* The number as a double; ints convert. */
double tn__call_float(const tn__call *call, int i);
/* dim argument i against ndim: [0, ndim), or -1 with TN_ERR_ARGUMENT recorded:
 * "softmax: dim 3 is outside [-2, 1]". */
int tn__call_dim(const tn__call *call, int i, int ndim);
static inline bool tn__call_has(const tn__call *call, int i)
{
    return call->value[i].kind != TN_VALUE_NONE;
}

/* The values of callers who fill them by hand, as bindings do: kinds that there
 * are, and no NULL where there must be something. */
tn_status tn__values_check(const tn_op *op, const tn_value *values, int count);
/* What the caller gave, as values in their final kinds, with defaults filled
 * in; dims is room for a list for each argument. */
tn_status tn__values_normalise(const tn_op *op, const tn_value *given,
                               int count, tn_value *value, tn_dims_list *dims);

/* What the generated functions put into values. */
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
/* An option's double: whole numbers count as integers. */
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
/* A list that was made by hand, for an option: see tn_dims_list. */
static inline tn_dims_list tn__marked(tn_dims_list list)
{
    list.dim[TN_MAX_NDIM] = TN_DIMS_MARK;
    return list;
}
/* Options that may be none, and dimensions given as one number or as a list. */
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
