/* calls.c: fuzzes all operators: makes three calls of operators, selected by
 * index, with arbitrary arguments. A call may use earlier results. Then
 * computes the gradients of each. */
#include <float.h>
#include <math.h>
#include <tenon/tenon.h>

#include "fuzz.h"

const char fuzz_target[] = "calls";

/* Sizes are arbitrary, but a call with memory for more than this limit is
 * rejected, so no call takes long. */
#define MEMORY (64 << 20)

enum { ARGUMENTS = 40, RESULTS = 64, POOL = 8, CALLS = 3, LIST = 6 };

static const uint8_t *at, *end;
static tn_tensor *pool[POOL];
static int pool_count;

static int byte(void)
{
    return at < end ? *at++ : 0;
}

static int64_t integer(void)
{
    static const int64_t odd[] = {
        INT64_MAX, INT64_MIN, INT64_C(1) << 31, -(INT64_C(1) << 31),
        INT64_C(1) << 62, INT64_C(1) << 40, 65536, 100, 31, 64, 127, 256};
    const int b = byte();
    return b < 200 ? b % 9 - 2 : odd[(size_t)b % (sizeof odd / sizeof *odd)];
}

static double number(void)
{
    static const double some[] = {
        0, 1, 0.5, -1, 2, 1e-8, DBL_MAX, -DBL_MAX, 1e39, INFINITY, -INFINITY,
        NAN, 3.7, -0.0, 1e-320, 100, 0.1, 0.9, -0.5, 1e18, -1e19, 4.5, 7, 3};
    return some[(size_t)byte() % (sizeof some / sizeof *some)];
}

static const char *word(void)
{
    static const char *const some[] = {
        "", "mean", "sum", "none", "reflect", "constant", "replicate",
        "circular", "bilinear", "nearest", "bicubic", "linear", "area",
        "zeros", "border", "floor", "trunc", "relu", "tanh", "gelu",
        "ij,jk->ik", "amax", "amin", "prod", "fro", "nuc", "reduced",
        "complete", "r", "same", "valid", "xy", "left", "L", "U", "max",
        "euclidean", "%s%n", "\xff\xfe", "...i,...i->...", "inf", "lower",
        "higher", "midpoint", "nearest-exact", "trilinear", "batchmean"};
    return some[(size_t)byte() % (sizeof some / sizeof *some)];
}

static tn_tensor *keep(tn_tensor *x)
{
    if (x && pool_count < POOL)
        pool[pool_count++] = x;
    return x;
}

static tn_tensor *make(void)
{
    static const tn_dtype dtypes[] = {
        TN_F32, TN_F32, TN_F32, TN_F64, TN_I64,    TN_I64, TN_I32,    TN_F16,
        TN_BF16, TN_I8, TN_U8,  TN_BOOL, TN_F8E4M3, TN_I16, TN_F8E5M2, TN_F32};
    const tn_dtype dtype = dtypes[byte() & 15];
    tn_dims_list size = {.count = byte() % 6};
    for (int d = 0; d < size.count; d++)
        size.dim[d] = byte() % 5;
    const int how = byte();
    tn_tensor *x = tn_to_dtype(
        how & 1 ? tn_randn(size) : tn_randint(-2, 6, size), dtype);
    if (how & 2 && size.count > 1)
        x = tn_transpose(x, 0, size.count - 1);
    if (how & 4 && size.count > 0)
        x = tn_slice(x, 0, 0, tn_tensor_size(x, 0), 2);
    if ((how & 24) == 24 && tn_dtype_is_floating(dtype))
        tn_requires_grad(x);
    return x;
}

static tn_tensor *tensor(void)
{
    const int b = byte();
    return pool_count && b % 3 == 0 ? pool[byte() % pool_count] : keep(make());
}

/* Memory for the values of one call's arguments. */
static struct {
    tn_dims_list dims;
    double floats[LIST];
    tn_tensor *tensors[LIST];
} lists[ARGUMENTS];

static void fill(tn_value *value, int i, int kind)
{
    value->kind = kind;
    switch (kind) {
    case TN_VALUE_TENSOR:
        value->of.tensor = tensor();
        break;
    case TN_VALUE_TENSORS:
        value->count = byte() % LIST;
        for (int j = 0; j < value->count; j++)
            lists[i].tensors[j] = tensor();
        value->of.tensors = lists[i].tensors;
        break;
    case TN_VALUE_NUMBER:
        value->count = byte() % 3;
        if (value->count == TN_SCALAR_FLOAT)
            value->of.f = number();
        else
            value->of.i = value->count == TN_SCALAR_BOOL ? byte() & 1
                                                         : integer();
        break;
    case TN_VALUE_INT:
        value->of.i = integer();
        break;
    case TN_VALUE_FLOAT:
        value->of.f = number();
        break;
    case TN_VALUE_BOOL:
        value->of.i = byte() & 1;
        break;
    case TN_VALUE_DIMS:
        lists[i].dims.count = byte() % LIST;
        for (int j = 0; j < lists[i].dims.count; j++)
            lists[i].dims.dim[j] = integer();
        value->of.dims = &lists[i].dims;
        break;
    case TN_VALUE_FLOATS:
        value->count = byte() % LIST;
        for (int j = 0; j < value->count; j++)
            lists[i].floats[j] = number();
        value->of.floats = lists[i].floats;
        break;
    case TN_VALUE_STRING:
        value->of.string = word();
        break;
    case TN_VALUE_DTYPE:
        value->of.i = byte() % 16;
        break;
    case TN_VALUE_DEVICE:
        value->of.device = tn_device_current();
        break;
    default: /* functions and other kinds that cannot be generated */
        value->kind = TN_VALUE_NONE;
    }
}

static void refuse_or_accept(bool fine)
{
    if (fine && !tn_error())
        return;
    fuzz_refused();
}

static void call(void)
{
    const int which = byte() | byte() << 8;
    const tn_op *op = tn_op_at(which % tn_op_count());
    const int count = tn_op_arg_count(op);
    tn_value value[ARGUMENTS] = {{.kind = 0}};
    tn_tensor *out[RESULTS] = {NULL};
    fuzz_check(count <= ARGUMENTS, "operators have few arguments");
    for (int i = 0; i < count; i++) {
        const tn_op_arg *argument = tn_op_arg_at(op, i);
        const int choice = byte();
        int kinds[32], kind_count = 0;
        for (int k = 1; k < 32; k++)
            if (argument->kinds >> k & 1)
                kinds[kind_count++] = k;
        if (kind_count && !(argument->optional && choice < 100))
            fill(&value[i], i, kinds[choice % kind_count]);
    }
    if (tn_error()) { /* an operand could not be created */
        tn_error_clear();
        return;
    }
    const int made = tn_op_call(op, value, count, out, RESULTS);
    refuse_or_accept(made >= 0);
    for (int i = 0; i < made && i < 4; i++) {
        fuzz_check(out[i] != NULL, "a result is there");
        keep(out[i]);
    }
    if (made > 0 && tn_tensor_requires_grad(out[0]) &&
        tn_tensor_numel(out[0]) < 10000)
        refuse_or_accept(
            tn_backward(tn_sum(tn_to_dtype(out[0], TN_F32))) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    at = data;
    end = data + size;
    pool_count = 0;
    tn_scope *scope = tn_scope_open();
    tn_memory_set_limit(tn_device_current(), MEMORY);
    tn_manual_seed(1);
    for (int i = 0; i < CALLS && at < end; i++)
        call();
    refuse_or_accept(tn_device_synchronize(tn_device_current()) >= 0);
    tn_scope_close(scope);
    return 0;
}
