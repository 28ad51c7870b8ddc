/* Tests calls other than the generated functions: by name, into existing
 * tensors, in place, custom operators; and operands with unusual strides. */
#include <tap.h>
#include <ops/engine/ops.h>
#include <tenon/ops.h>

static tn_tensor *x; /* [[1, 2, 3], [4, 5, 6]] */

static void same(const char *name, tn_tensor *got, tn_tensor *want)
{
    bool equal = got && want &&
                 tn_tensor_dtype(got) == tn_tensor_dtype(want) &&
                 tn_tensor_ndim(got) == tn_tensor_ndim(want);
    for (int d = 0; equal && d < tn_tensor_ndim(got); d++)
        equal = tn_tensor_size(got, d) == tn_tensor_size(want, d);
    equal = equal && tn_item(tn_all(tn_eq(got, want))) == 1;
    ok(equal && !tn_error(), "%s", name);
    if (!equal)
        note("%s", tn_error() ? tn_error() : tn_tensor_text(got));
    tn_error_clear();
}

/* The result has the promoted dtype of all tensors, whichever argument has the
 * widest dtype. */
static void check_dtypes(void)
{
    static const tn_dtype widest_at[3][3] = {{TN_F64, TN_I32, TN_F32},
                                             {TN_I32, TN_F64, TN_F32},
                                             {TN_I32, TN_F32, TN_F64}};
    for (int k = 0; k < 3; k++) {
        tn_tensor *part[3];
        for (int i = 0; i < 3; i++)
            part[i] = tn_full(tn_dims(1), i + 1, .dtype = widest_at[k][i]);
        same("cat takes the widest dtype", tn_cat(part, 3, 0),
             tn_tensor_from_array((const double[]){1, 2, 3}, TN_F64,
                                  tn_dims(3)));
    }
}

static void check_names(void)
{
    is_str(tn_op_name(tn_op_find("nn.functional.conv2d")), "conv2d",
           "PyTorch's names are found");
    is_str(tn_op_name(tn_op_find("add_")), "add_", "those in place too");
    ok(tn_op_find("no_such") == NULL && !tn_error(),
       "an unknown name is no error");
    const tn_op *op = tn_op_find("max");
    is_str(tn_op_name(op), "max", "a name with overloads gives the first");
    is_str(tn_op_name(op = tn_op_next(op, "max")), "maximum",
           "the next row of the name follows");
    is_str(tn_op_name(op = tn_op_next(op, "max")), "max_dim", "and the next");
    ok(tn_op_next(op, "max") == NULL, "after the last row there is none");
    int found = 0, count = tn_op_count();
    for (int i = 0; i < count; i++)
        found += tn_op_find(tn_op_name(tn_op_at(i))) == tn_op_at(i);
    is_int(found, count, "each row is found by its own name");
    ok(tn_op_at(count) == NULL && tn_op_at(-1) == NULL, "there is no other");
    op = tn_op_find("softmax");
    is_str(tn_op_signature(op), "softmax(input, dim, dtype=None)",
           "a signature");
    is_int(tn_op_arg_count(op), 3, "its arguments");
    is_str(tn_op_arg_at(op, 1)->name, "dim",
           "arguments are found by their index");
    ok(tn_op_arg_at(op, 2)->optional && tn_op_arg_at(op, 2)->keyword &&
           !tn_op_arg_at(op, 0)->optional,
       "and their kinds");
    ok(tn_op_is_differentiable(op) && !tn_op_is_differentiable(
                                          tn_op_find("argmax")),
       "softmax has a gradient, argmax has none");
}

static void check_by_name(void)
{
    same("call by name", tn_call("relu", x), x);
    same("with two tensors", tn_call("add", x, x), tn_mul_scalar(x, 2));
    same("options have their defaults", tn_call("sum", x),
         tn_full(TN_SCALAR, 21, .dtype = TN_F32));
    /* An int is passed where a list or a float is expected, and NONE for a
     * default. */
    tn_tensor *out[2];
    const tn_value value[] = {{TN_VALUE_TENSOR, 0, {.tensor = x}},
                              {TN_VALUE_INT, 0, {.i = 1}},
                              {TN_VALUE_NONE, 0, {.i = 0}}};
    is_int(tn_op_call(tn_op_find("sum"), value, 3, out, 2), 1,
           "an int is accepted as a list of one");
    same("and means that", out[0], tn_sum(x, .dim = 1));
    is_int(tn_op_call(tn_op_find("max_dim"), value, 2, out, 2), 2,
           "two outputs");
    same("the first", out[0], tn_amax(x, .dim = 1));
    same("the second", out[1], tn_full(tn_dims(2), 2));
    is_int(tn_op_call(tn_op_find("max_dim"), value, 2, out, 1), TN_ERR_ARGUMENT,
           "an output list with space for one");
    is_str(tn_error(), "max_dim: 2 results do not fit into an output array of "
                       "1", "is refused");
    tn_error_clear();
}

static uint32_t version(tn_tensor *t)
{
    return atomic_load(&t->storage->version);
}

static void check_writes(void)
{
    tn_tensor *y = tn_clone(x);
    uint32_t before = version(y);
    ok(tn_add_(y, x) == y, "in place returns its input");
    same("which has changed", y, tn_mul_scalar(x, 2));
    is_int(version(y), before + 1, "and is one version on");
    tn_tensor *row = tn_select(y, 0, 1);
    tn_mul_scalar_(row, 0);
    same("in place through a view",
         tn_select(y, 0, 1), tn_zeros(tn_dims(3)));
    is_int(version(y), before + 2, "counts for the whole storage");
    same("float64 added to float32 in place",
         tn_add_(tn_clone(x), tn_to_dtype(x, TN_F64)), tn_mul_scalar(x, 2));
    same("in place, the input as it stands", tn_sub_(y, y),
         tn_zeros(tn_dims(2, 3)));
    tn_tensor *whole = tn_arange(0, 3, 1);
    same("copy_ broadcasts and converts", tn_copy_(tn_clone(x), whole),
         tn_to_dtype(tn_expand(whole, tn_dims(2, 3)), TN_F32));
    same("div in place", tn_div_scalar_(tn_clone(x), 2,
                                        .rounding_mode = "floor"),
         tn_floor(tn_div_scalar(x, 2)));

    tn_tensor *out = tn_empty(tn_dims(3, 2));
    tn_tensor *turned = tn_t(out);
    const tn_value two[] = {{TN_VALUE_TENSOR, 0, {.tensor = x}},
                            {TN_VALUE_TENSOR, 0, {.tensor = x}}};
    is_int(tn_op_call_into(tn_op_find("mul"), two, 2, &turned, 1), TN_OK,
           "into a tensor of odd strides");
    same("lies the result", out, tn_t(tn_square(x)));
    tn_tensor *sums = tn_empty(tn_dims(2, 1), .dtype = TN_F64);
    const tn_value rows[] = {{TN_VALUE_TENSOR, 0, {.tensor = x}},
                             {TN_VALUE_INT, 0, {.i = 1}},
                             {TN_VALUE_BOOL, 0, {.i = true}}};
    is_int(tn_op_call_into(tn_op_find("sum"), rows, 3, &sums, 1), TN_OK,
           "a reduction into float64");
    same("is converted", sums,
         tn_to_dtype(tn_sum(x, .dim = 1, .keepdim = true), TN_F64));
}

/* Disjoint views of one tensor, interleaved in different ways, may be changed
 * in place. */
static void check_parts(void)
{
    tn_tensor *m = tn_reshape(tn_arange(0, 12, 1), tn_dims(3, 4));
    tn_tensor *column = tn_select(m, 1, 0);
    ok(tn_add_(column, tn_select(m, 1, 3)) == column, "a column to a column");
    same("of a matrix", column,
         tn_tensor_from_array((int64_t[]){3, 11, 19}, TN_I64, tn_dims(3)));
    ok(tn_copy_(tn_narrow(m, 1, 0, 2), tn_narrow(m, 1, 2, 2)) != NULL,
       "halves of a matrix");
    ok(tn_copy_(tn_narrow(tn_narrow(m, 1, 2, 2), 0, 0, 2),
                tn_narrow(tn_narrow(m, 1, 0, 2), 0, 1, 2)) != NULL,
       "blocks of a matrix");
    ok(tn_copy_(tn_slice(m, 1, 0, 4, 2), tn_slice(m, 1, 1, 4, 2)) != NULL,
       "every other column");
    ok(tn_error() == NULL, "strided");
    ok(!tn_copy_(tn_narrow(m, 1, 0, 2), tn_narrow(m, 1, 1, 2)),
       "columns in common do not");
    tn_error_clear();
    ok(!tn_copy_(tn_narrow(m, 0, 0, 2), tn_narrow(m, 0, 1, 2)),
       "nor do rows in common");
    tn_error_clear();
}

static void check_layouts(void)
{
    tn_tensor *t = tn_t(x), *wide = tn_expand(tn_select(x, 0, 0),
                                              tn_dims(4, 3));
    tn_tensor *back = tn_as_strided(x, tn_dims(2, 3), tn_dims(-3, -1),
                                    .storage_offset = 5);
    const float reversed[] = {6, 5, 4, 3, 2, 1};
    same("negative strides", back,
         tn_tensor_from_array(reversed, TN_F32, tn_dims(2, 3)));
    same("are summed along rows", tn_sum(back, .dim = 1),
         tn_sum(tn_contiguous(back), .dim = 1));
    same("a transposed operand", tn_add(t, tn_contiguous(t)),
         tn_mul_scalar(t, 2));
    same("softmax of what is transposed", tn_softmax(t, 1),
         tn_t(tn_softmax(x, 0)));
    same("softmax of what is expanded", tn_softmax(wide, 0),
         tn_full(tn_dims(4, 3), 0.25));
    same("products of transposed matrices", tn_matmul(t, tn_t(t)),
         tn_matmul(tn_contiguous(t), x));
    same("a product with an expanded batch",
         tn_matmul(tn_expand(t, tn_dims(2, 3, 2)), x),
         tn_expand(tn_matmul(t, x), tn_dims(2, 3, 3)));
    same("a slice of any step", tn_slice(x, 1, 1, 3, INT64_MAX),
         tn_narrow(x, 1, 1, 1));
    is_int(tn_tensor_numel(tn_arange(1LL << 60, (1LL << 60) + 5, 1)), 5,
           "arange of numbers that doubles cannot distinguish");
    tn_tensor *none = tn_zeros(tn_dims(0, 3));
    same("nothing plus a row", tn_add(none, tn_ones(tn_dims(3))), none);
    same("softmax of nothing", tn_softmax(none, 1), none);
    same("the sum over nothing", tn_sum(none, .dim = 0),
         tn_zeros(tn_dims(3)));
    same("a sum of no dimension", tn_sum(tn_ones(TN_SCALAR)),
         tn_ones(TN_SCALAR));
    same("softmax of no dimension", tn_softmax(tn_ones(TN_SCALAR), 0),
         tn_ones(TN_SCALAR));
    tn_dims_list most = {TN_MAX_NDIM, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3}};
    same("as many dimensions as there can be",
         tn_sum(tn_reshape(x, most), .dims = tn_dims(10, 11)),
         tn_full(((tn_dims_list){10, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}), 21,
                 .dtype = TN_F32));
}

static void check_own(void)
{
    const tn_op *op = tn_op_find("swish2");
    if (!op)
        op = tn_op_define("swish2(x; b) = x * sigmoid(b * x)");
    const tn_op *center = tn_op_find("centered");
    if (!center)
        center = tn_op_define("centered(x) = x - rmean(x)");
    if (!ok(op && center, "operators of one line"))
        bail_out("%s", tn_error());
    same("run", tn_op_apply(op, &x, (double[]){0}), tn_mul_scalar(x, 0.5));
    same("in every dtype",
         tn_op_apply(op, (tn_tensor *[]){tn_to_dtype(x, TN_F64)},
                     (double[]){0}),
         tn_mul_scalar(tn_to_dtype(x, TN_F64), 0.5));
    same("rows are the last dimension", tn_op_apply(center, &x, NULL),
         tn_sub(x, tn_mean(x, .dim = 1, .keepdim = true)));
    ok(tn_op_find("swish2") == op, "are found by name");
    const tn_op *less = tn_op_find("less_of_row");
    if (!less)
        less = tn_op_define("less_of_row(x, m: row) = (x - m) * rlen()");
    tn_tensor *mean = tn_mean(x, .dim = 1, .keepdim = true);
    same("an input of one number a row",
         tn_op_apply(less, (tn_tensor *[]){x, mean}, NULL),
         tn_mul_scalar(tn_sub(x, mean), (double)tn_tensor_size(x, 1)));
    ok(!tn_op_apply(less, (tn_tensor *[]){x, x}, NULL) &&
           strstr(tn_error(), "less_of_row: m (2, 3) must have size 1 along "
                              "dim 1"),
       "more than one is refused: %s", tn_error());
    tn_error_clear();
    const tn_op *taken = tn_op_find("taken");
    if (!taken)
        taken = tn_op_define("taken(xs, n: row offset, i) = xs[i] + f32(n)");
    if (!ok(taken && tn_op_arg_count(taken) == 2,
            "an operand marked offset is no argument"))
        bail_out("%s", tn_error());
    tn_tensor *at = tn_tensor_from_array((int64_t[]){2, 0}, TN_I64,
                                         tn_dims(2));
    same("an input read by index: its last dimension",
         tn_op_apply(taken, (tn_tensor *[]){x, at}, NULL),
         tn_tensor_from_array((float[]){3, 5}, TN_F32, tn_dims(2)));
    ok(!tn_op_apply(taken, (tn_tensor *[]){tn_ones(TN_SCALAR), at}, NULL),
       "which it must have");
    is_str(tn_error(), "taken: xs has shape (), but is read with 1 indices; "
                       "expected at least as many dimensions", "and says so");
    tn_error_clear();
    const tn_value own[] = {{TN_VALUE_TENSOR, 0, {.tensor = at}},
                            {TN_VALUE_TENSOR, 0, {.tensor = at}}};
    is_int(tn_op_call_into(taken, own, 2, &at, 1), TN_ERR_STATE,
           "an input that is read by index is not overwritten");
    tn_error_clear();
    ok(tn_op_define("wrong(x) = x +") == NULL, "a text that ends early");
    is_int(tn_error_code(), TN_ERR_FORMAT, "is malformed");
    tn_error_clear();
    static const tn_op *once;
    const char *text = "defined_once(x) = 2 * x";
    const tn_op *none = NULL;
    ok(!tn_op_define_once("defined_once(x) = 2 *", &none) && !none,
       "nothing is kept of a failure");
    tn_error_clear();
    const tn_op *first = tn_op_define_once(text, &once);
    ok(first && first == once && tn_op_define_once(text, &once) == first,
       "an operator is defined once");
    ok(!tn_op_define_once(text, NULL) &&
           !tn_op_define_once(NULL, &(const tn_op *){NULL}),
       "NULL is refused");
    tn_error_clear();
}

/* For zeros of different sign, or NaN and a number, where() must select the
 * right one, also in JIT-compiled code, for which the tensors are long
 * enough. */
static void check_choice(void)
{
    static const struct choice {
        const char *name, *text;
        bool less, first; /* less: compares x < y, otherwise y < x; first: x is
                           * chosen if true, otherwise y */
    } choice[] = {
        {"take_lesser", "take_lesser(x, y) = where(x < y, x, y)", true, true},
        {"take_other", "take_other(x, y) = where(x < y, y, x)", true, false},
        {"take_greater", "take_greater(x, y) = where(y < x, x, y)", false,
         true},
    };
    enum { MANY = 100 };
    const float values[] = {0, -0.0f, NAN, 1, -1, INFINITY, -INFINITY};
    float a[MANY], b[MANY], got[MANY];
    for (int i = 0; i < MANY; i++) {
        a[i] = values[i % 7];
        b[i] = values[i / 7 % 7];
    }
    tn_tensor *in[] = {tn_tensor_from_array(a, TN_F32, tn_dims(MANY)),
                       tn_tensor_from_array(b, TN_F32, tn_dims(MANY))};
    for (int c = 0; c < 3; c++) {
        const tn_op *op = tn_op_find(choice[c].name);
        if (!op)
            op = tn_op_define(choice[c].text);
        int wrong = 0;
        tn_tensor *out = op ? tn_op_apply(op, in, NULL) : NULL;
        if (out)
            tn_tensor_to_array(out, got, sizeof got);
        for (int i = 0; i < MANY; i++) {
            bool is = choice[c].less ? a[i] < b[i] : b[i] < a[i];
            float want = is == choice[c].first ? a[i] : b[i];
            wrong += isnan(want) ? !isnan(got[i])
                                 : memcmp(&got[i], &want, sizeof want) != 0;
        }
        ok(out && wrong == 0, "%s: %d wrong", choice[c].text, wrong);
    }
}

int main(void)
{
    plan_later();
    static const char *const devices[] = {"reference", "cpu",
                                          "opencl"};
    check_names();
    check_dtypes();
    for (int d = 0; d < 3; d++) {
        tn_device *device = tn_device_open(devices[d]);
        if (!device) {
            skip(1, tn_error());
            tn_error_clear();
            continue;
        }
        note("on %s", tn_device_name(device));
        tn_device_set(device);
        const float data[] = {1, 2, 3, 4, 5, 6};
        x = tn_tensor_from_array(data, TN_F32, tn_dims(2, 3));
        check_by_name();
        check_writes();
        check_parts();
        check_layouts();
        check_own();
        check_choice();
    }
    return done_testing();
}
