/* Calls every operator of the table with extreme numbers in several arguments
 * at once, and with broadcast tensors that have more elements than fit in
 * memory. */
#include "../ops/misuse.h"
#include "overflow.h"

#include <base/size.h>
#include <ops/engine/ops.h>
#include <stdio.h>
#include <string.h>
#include <tap.h>

enum { USUAL = 24, TENSORS = 64 };

static tn_tensor *tensors[TENSORS];
static int tensor_count;

static void add(tn_tensor *x)
{
    if (x && tensor_count < TENSORS)
        tensors[tensor_count++] = x;
    tn_error_clear();
}

/* Adds a tensor whose one element is broadcast to this size. */
static void add_expanded(tn_dtype dtype, double value, tn_dims_list size)
{
    add(tn_expand(tn_full(TN_SCALAR, value, .dtype = dtype), size));
}

static void make_tensors(void)
{
    const int64_t b61 = INT64_C(1) << 61, b62 = INT64_C(1) << 62;
    tensor_count = 0;
    static const struct {
        tn_dtype dtype;
        double value;
    } of[] = {
        {TN_F32, 0.5}, {TN_I64, 1}, {TN_U8, 1}, {TN_BOOL, 1}, {TN_F64, 0.5}};
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        add_expanded(of[k].dtype, of[k].value, tn_dims(b62));
        add_expanded(of[k].dtype, of[k].value, tn_dims(2, b61));
        if (of[k].dtype == TN_U8 || of[k].dtype == TN_F64)
            continue;
        add_expanded(of[k].dtype, of[k].value, tn_dims(b61 + 1));
        add_expanded(of[k].dtype, of[k].value, tn_dims(b62, 1));
        add_expanded(of[k].dtype, of[k].value, tn_dims(b61, 3));
        add_expanded(of[k].dtype, of[k].value, tn_dims(1, 2, 1 << 30, 1 << 30));
        add_expanded(of[k].dtype, of[k].value, tn_dims(b61, 1, 1, 3));
        add(tn_zeros(tn_dims(0, b61), .dtype = of[k].dtype));
        add(tn_zeros(tn_dims(b62, 0), .dtype = of[k].dtype));
    }
    const int64_t whole[] = {INT64_MIN, -1, 0, 1, b62, INT64_MAX};
    const double real[] = {NAN, INFINITY, -INFINITY, 1e308, 5e-324, -1e308};
    add(tn_tensor_from_array(whole, TN_I64, tn_dims(6)));
    add(tn_tensor_from_array(whole, TN_I64, tn_dims(2, 3)));
    add(tn_tensor_from_array(real, TN_F64, tn_dims(2, 3)));
    add(tn_to_dtype(tn_tensor_from_array(real, TN_F64, tn_dims(2, 3)), TN_F32));
    add(tn_full(TN_SCALAR, tn_scalar_int(INT64_MAX)));
    add(tn_full(tn_dims(3), tn_scalar_int(INT64_MIN)));
}

/* ---- a call -------------------------------------------------------------- */

enum { LISTS = TN__OP_MAX_ARGS };
static tn_dims_list lists[LISTS];
static double reals[LISTS][4];
static tn_tensor *listed[LISTS][4];

static tn_value extreme(const tn_op *op, int i, draws *d, int slot)
{
    int kinds[16], count = 0;
    for (int k = TN_VALUE_TENSOR; k <= TN_VALUE_DEVICE; k++)
        if (op->arg[i].kinds >> k & 1)
            kinds[count++] = k;
    switch (count ? kinds[draw(d, (uint32_t)count)] : TN_VALUE_NONE) {
    case TN_VALUE_TENSOR:
        return tn__value_tensor(tensors[draw(d, (uint32_t)tensor_count)]);
    case TN_VALUE_TENSORS:
        for (int k = 0; k < 4; k++)
            listed[slot][k] = tensors[draw(d, (uint32_t)tensor_count)];
        if (draw(d, 2))
            for (int k = 1; k < 4; k++)
                listed[slot][k] = listed[slot][0];
        return tn__value_tensors(listed[slot], (int)draw(d, 5));
    case TN_VALUE_NUMBER:
        return draw(d, 2) ? tn__value_number(tn_scalar_int(draw_int(d)))
                          : tn__value_number(tn_scalar_float(draw_float(d)));
    case TN_VALUE_INT:
        return tn__value_int(draw_int(d));
    case TN_VALUE_FLOAT:
        return tn__value_float(draw_float(d));
    case TN_VALUE_BOOL:
        return tn__value_bool(draw(d, 2));
    case TN_VALUE_DIMS:
        lists[slot] = draw_dims(d);
        return tn__value_dims(&lists[slot]);
    case TN_VALUE_FLOATS:
        for (int k = 0; k < 4; k++)
            reals[slot][k] = draw_float(d);
        return tn__value_floats(reals[slot], (int)draw(d, 5));
    default:
        return misuse_ordinary(op, i, draw(d, UINT32_MAX));
    }
}

/* Makes the floating-point tensors among the arguments require a gradient. */
static void require_gradients(const tn_op *op, tn_value *value)
{
    for (int i = 0; i < op->arg_count; i++)
        if (value[i].kind == TN_VALUE_TENSOR && value[i].of.tensor &&
            tn_dtype_is_floating(tn_tensor_dtype(value[i].of.tensor)))
            value[i].of.tensor =
                tn_requires_grad(tn_detach(value[i].of.tensor));
}

/* Runs backward from the results, with the limits of a call. */
static void walk_back(tn_tensor *const *out, int made)
{
    for (int i = 0; i < made; i++) {
        /* Processing 2^33 elements is allowed, but not within a second. */
        int64_t numel = tn_tensor_numel(out[i]);
        if (!tn_tensor_requires_grad(out[i]) ||
            (numel > 1 << 24 && numel <= TN__SIZE_SPAN))
            continue;
        overflow_before();
        tn_status status = tn_backward(tn_sum(out[i]));
        overflow_after(status < 0, status >= 0 || tn_error()
                                       ? NULL
                                       : "a walk refused without a message");
        return; /* an earlier backward freed the saved values */
    }
}

static int call(const tn_op *op, tn_value *value, bool back)
{
    static tn_tensor *out[TN__OP_MAX_OUTPUTS];
    char text[2000];
    tn_scope *scope = tn_scope_open();
    if (back)
        require_gradients(op, value);
    misuse_describe(text, sizeof text, op, value, op->arg_count);
    overflow_tell("%s", text);
    overflow_before();
    int made = tn_op_call(op, value, op->arg_count, out, TN__OP_MAX_OUTPUTS);
    overflow_after(made < 0, misuse_judge(op, made, out));
    if (back)
        walk_back(out, made);
    tn_scope_close(scope);
    return made;
}

static void one_row(int row)
{
    const tn_op *op = tn_op_at(row);
    draws d = {overflow_seed() * 1000003u + (uint64_t)row};
    tn_value base[TN__OP_MAX_ARGS], value[TN__OP_MAX_ARGS];
    make_tensors();
    if (!misuse_values_make())
        return;
    for (int round = 0, rounds = overflow_rounds(USUAL); round < rounds;
         round++) {
        /* Makes an ordinary call; a successful one if one is found soon. */
        for (int t = 0; round % 8 == 0 && t < 40; t++) {
            for (int i = 0; i < op->arg_count; i++)
                base[i] = misuse_ordinary(op, i, draw(&d, UINT32_MAX));
            if (call(op, base, false) >= 0)
                break;
        }
        int changed = 0;
        memcpy(value, base, sizeof value);
        for (int i = 0; i < op->arg_count; i++)
            if (draw(&d, 3) == 0 || (i + 1 == op->arg_count && !changed)) {
                value[i] = extreme(op, i, &d, i);
                changed++;
            }
        call(op, value, round % 2 && tn_op_is_differentiable(op));
    }
}

static const char *name_of(int row)
{
    return tn_op_at(row)->name;
}

/* The argument is the index FIRST (0) of the first operator, or the name of the
 * only operator. */
int main(int argc, char **argv)
{
    plan_later();
    note("seed %llu, %d rounds a row", (unsigned long long)overflow_seed(),
         overflow_rounds(USUAL));
    long wrong = overflow_run(tn_op_count(), misuse_begin, one_row, name_of,
                              argc > 1 ? argv[1] : NULL);
    if (wrong < 0)
        bail_out("no process, or no device");
    ok(wrong == 0,
       "%d rows with extreme numbers: %ld calls, %ld refused, %ld "
       "wrong",
       tn_op_count(), overflow_counts->calls, overflow_counts->refused, wrong);
    return done_testing();
}
