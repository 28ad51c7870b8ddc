/* Tests random functions with views, writes in place, aliases, several dtypes,
 * rows, products and random numbers. The compiled form must give the bits of
 * the function, for outputs and for memory that both write. */
#include <tenon/tenon.h>

#include "../tap.h"
#include "compiled.h"

enum { MAX_VALUES = 64, MAX_STEPS = 40, MAX_OUT = 4 };

/* One step of a random function: an operation and the values that it uses. */
typedef struct step {
    unsigned op, a, b;
} step;

typedef struct function {
    step step[MAX_STEPS];
    int step_count, out_count;
    unsigned out[MAX_OUT];
    int64_t rows, columns;
    tn_tensor *state; /* memory that the function reads and writes, (rows,
                       * columns) float32 */
} function;

static uint64_t random_state;

static unsigned draw(unsigned below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % below;
}

static bool can_broadcast(tn_tensor *x, tn_tensor *y)
{
    const int xn = tn_tensor_ndim(x), yn = tn_tensor_ndim(y);
    for (int d = 1; d <= xn && d <= yn; d++) {
        const int64_t a = tn_tensor_size(x, xn - d), b = tn_tensor_size(y, yn - d);
        if (a != b && a != 1 && b != 1)
            return false;
    }
    return true;
}

/* Whether y broadcasts to the shape of x. */
static bool fits_into(tn_tensor *x, tn_tensor *y)
{
    const int xn = tn_tensor_ndim(x), yn = tn_tensor_ndim(y);
    if (yn > xn || !can_broadcast(x, y))
        return false;
    for (int d = 1; d <= yn; d++)
        if (tn_tensor_size(x, xn - d) == 1 && tn_tensor_size(y, yn - d) != 1)
            return false;
    return true;
}

static bool is_float(tn_tensor *x)
{
    return tn_dtype_is_floating(tn_tensor_dtype(x));
}

/* The results of two operands. Returns x if the operation does not fit them. */
static tn_tensor *binary(unsigned op, tn_tensor *x, tn_tensor *y)
{
    if (!can_broadcast(x, y))
        return tn_neg(x);
    switch (op) {
    case 0: return tn_add(x, y);
    case 1: return tn_sub(x, y);
    case 2: return tn_mul(x, y);
    case 3: return tn_maximum(x, y);
    case 4: return tn_where(tn_lt(x, y), x, y);
    default: return tn_add(x, y, .alpha = 3);
    }
}

static tn_tensor *unary(unsigned op, tn_tensor *x)
{
    switch (op) {
    case 0: return tn_relu(x);
    case 1: return tn_abs(x);
    case 2: return tn_add_scalar(x, 2);
    case 3: return is_float(x) ? tn_tanh(x) : tn_neg(x);
    case 4: return is_float(x) ? tn_sigmoid(x) : tn_abs(x);
    case 5: return is_float(x) ? tn_dropout(x, 0.5, true) : tn_relu(x);
    case 6: return tn_mul_scalar(x, 3);
    default: return is_float(x) ? tn_gelu(x) : tn_neg(x);
    }
}

/* Operations along the last dimension. */
static tn_tensor *row(unsigned op, tn_tensor *x)
{
    if (tn_tensor_ndim(x) == 0 || !is_float(x))
        return tn_mul(x, x);
    switch (op) {
    case 0: return tn_softmax(x, -1);
    case 1: return tn_sum(x, .dim = -1, .keepdim = true);
    case 2: return tn_mean(x, .dim = 0, .keepdim = true);
    case 3: return tn_cumsum(x, -1);
    case 4: return tn_sub(x, tn_mean(x, .dim = -1, .keepdim = true));
    default: return tn_sum(x);
    }
}

static tn_tensor *view(unsigned op, tn_tensor *x)
{
    if (tn_tensor_ndim(x) < 2)
        return tn_clone(x);
    switch (op) {
    case 0: return tn_transpose(x, 0, 1);
    case 1: return tn_select(x, 0, 0);
    case 2: return tn_select(x, 1, tn_tensor_size(x, 1) - 1);
    case 3: return tn_slice(x, 0, 0, tn_tensor_size(x, 0), 2);
    case 4: return tn_flatten(x);
    default: return tn_clone(x);
    }
}

static tn_tensor *cast(unsigned op, tn_tensor *x)
{
    static const tn_dtype dtype[] = {TN_F16, TN_BF16, TN_F64, TN_I32, TN_F32,
                                     TN_I64, TN_U8};
    if (op == 6) /* numbers beyond u8 are undefined in PyTorch, saturated here */
        return tn_to_dtype(tn_sigmoid(tn_to_dtype(x, TN_F32)), TN_U8);
    return tn_to_dtype(x, dtype[op]);
}

static void write_once(unsigned op, tn_tensor *x, tn_tensor *y)
{
    switch (op) {
    case 0: tn_add_(x, y); break;
    case 1: tn_mul_(x, y); break;
    case 2: tn_relu_(x); break;
    case 3: tn_copy_(x, tn_clone(y)); break;
    case 4: tn_fill_scalar_(x, 1); break;
    default: tn_sub_(x, y); break;
    }
}

/* Writes into x. */
static void write(unsigned op, tn_tensor *x, tn_tensor *y)
{
    if (!fits_into(x, y) || tn_tensor_dtype(x) != tn_tensor_dtype(y))
        y = x;
    write_once(op, x, y);
    if (tn_error_code() != TN_ERR_STATE)
        return;
    tn_error_clear(); /* x and y overlap in part */
    write_once(op, x, tn_clone(y));
}

static tn_tensor *product(tn_tensor *x, tn_tensor *y)
{
    if (tn_tensor_ndim(x) != 2 || tn_tensor_ndim(y) != 2 ||
        tn_tensor_dtype(x) != tn_tensor_dtype(y) || !is_float(x))
        return tn_mul(x, x);
    return tn_tensor_size(x, 1) == tn_tensor_size(y, 0)
               ? tn_matmul(x, y)
               : tn_matmul(x, tn_transpose(x, 0, 1));
}

/* Copies of views, equal work done twice, and elements by index. */
static tn_tensor *joined(unsigned op, tn_tensor *x, tn_tensor *y)
{
    if (tn_tensor_ndim(x) == 0)
        return tn_neg(x);
    tn_tensor *both[2] = {tn_abs(x), tn_mul(x, x)};
    const int64_t rows = tn_tensor_size(x, 0), last = tn_tensor_size(x, -1);
    switch (op) {
    case 0: return tn_add(tn_mul(x, x), tn_neg(tn_mul(x, x)));
    case 1: return tn_add(product(x, y), product(x, y));
    case 2: return tn_cat(both, 2, 0);
    case 3: return tn_cat(both, 2, -1);
    case 4: return tn_clone(tn_clone(tn_add_scalar(x, 1)));
    case 5: return tn_index_select(x, 0,
                                   tn_zeros(tn_dims(2), .dtype = TN_I64));
    case 6: return tn_relu(tn_index_select(
                both[1], -1, tn_arange(0, last, 1, .dtype = TN_I64)));
    default: {
        tn_tensor *row = tn_index_select(
            both[0], 0, tn_randint(0, rows, tn_dims(3), .dtype = TN_I64));
        return is_float(row) ? tn_softmax(tn_add(row, row), -1)
                             : tn_neg(row);
    }
    }
}

static tn_status run(tn_tensor *const *in, int in_count, tn_tensor **out,
                     int out_count, void *context)
{
    const function *f = context;
    tn_tensor *value[MAX_VALUES];
    int count = 0;
    for (int i = 0; i < in_count; i++)
        value[count++] = in[i];
    value[count++] = f->state;
    for (int s = 0; s < f->step_count && !tn_error(); s++) {
        tn_tensor *x = value[f->step[s].a % (unsigned)count];
        tn_tensor *y = value[f->step[s].b % (unsigned)count], *made = NULL;
        const unsigned op = f->step[s].op;
        switch (op % 16) {
        case 0: case 1: case 2: case 3: made = binary(op / 16 % 6, x, y); break;
        case 4: case 5: case 6: made = unary(op / 16 % 8, x); break;
        case 7: case 8: made = row(op / 16 % 6, x); break;
        case 9: case 10: made = view(op / 16 % 6, x); break;
        case 11: made = cast(op / 16 % 7, x); break;
        case 12: made = product(x, y); break;
        case 13: made = joined(op / 16 % 8, x, y); break;
        default: write(op / 16 % 6, x, y); break;
        }
        if (made && tn_tensor_ndim(made) > 0)
            value[count++] = made;
    }
    for (int o = 0; o < out_count; o++)
        out[o] = value[f->out[o] % (unsigned)count];
    return TN_OK;
}

static void make_function(function *f, uint64_t seed)
{
    random_state = seed * 2654435761u + 17;
    for (int i = 0; i < 4; i++)
        draw(2);
    static const int64_t size[][2] = {{4, 6}, {4, 6}, {4, 6}, {3, 3},
                                      {33, 70}, {2, 3000}, {1, 40}};
    const unsigned which = draw(7);
    f->rows = size[which][0];
    f->columns = size[which][1];
    f->step_count = 3 + (int)draw(MAX_STEPS - 6);
    for (int s = 0; s < f->step_count; s++)
        f->step[s] = (step){draw(16 * 840), draw(1000), draw(1000)};
    f->out_count = 1 + (int)draw(MAX_OUT);
    for (int o = 0; o < f->out_count; o++)
        f->out[o] = draw(1000);
}

/* Runs a random function five times, itself and compiled, with options that
 * depend on the seed. Returns whether all bits were the same. */
static bool check_function(uint64_t seed, int64_t *recorded, int64_t *launches)
{
    function eager, fast;
    bool same = true;
    /* which inputs are donated */
    const unsigned donated = seed % 5 < 4 ? 0 : 1 + (unsigned)(seed / 5 % 3);
    tn_scope *scope = tn_scope_open();
    make_function(&eager, seed);
    fast = eager;
    tn_manual_seed(seed);
    eager.state = tn_randn(tn_dims(eager.rows, eager.columns));
    fast.state = tn_clone(eager.state);
    tn_compiled *compiled = tn_compile(run, &fast, .fuse = seed % 8 != 7,
                                       .memory = seed % 3 == 1 ? 0.3 : 0,
                                       .freeze = seed % 7 >= 4,
                                       .donate = donated);
    for (int call = 0; call < 5 && same && !tn_error(); call++) {
        tn_scope *inner = tn_scope_open();
        tn_tensor *in[2] = {tn_randn(tn_dims(eager.rows, eager.columns)),
                            tn_randn(tn_dims(eager.columns))};
        tn_tensor *twin[2] = {tn_clone(in[0]), tn_clone(in[1])};
        tn_tensor *want[MAX_OUT] = {NULL}, *got[MAX_OUT] = {NULL};
        TN_NO_GRAD {
            const tn_rng_state random = tn_rng_snapshot();
            run(in, 2, want, eager.out_count, &eager);
            tn_rng_restore(random);
            tn_compiled_run(compiled, twin, 2, got, eager.out_count);
        }
        for (int o = 0; o < eager.out_count && same && !tn_error(); o++)
            same = compiled_same(want[o], got[o], true);
        same = same && compiled_same(eager.state, fast.state, true) &&
               (donated & 1 || compiled_same(in[0], twin[0], true)) &&
               (donated & 2 || compiled_same(in[1], twin[1], true));
        tn_scope_close(inner);
    }
    tn_compiled_counts counts = {.size = sizeof counts};
    tn_compiled_read_counts(compiled, &counts);
    *recorded += counts.recorded;
    *launches += counts.launches;
    if (tn_error())
        printf("# seed %llu: %s\n", (unsigned long long)seed, tn_error());
    else if (!same)
        printf("# seed %llu differs\n%s\n", (unsigned long long)seed,
               tn_compiled_text(compiled) ? tn_compiled_text(compiled) : "");
    same = same && !tn_error();
    tn_error_clear();
    tn_scope_close(scope);
    return same;
}

int main(void)
{
    plan_later();
    const char *number = getenv("TENON_TEST_FUZZ");
    const char *first = getenv("TENON_TEST_SEED");
    const int count = number ? atoi(number) : 150;
    const uint64_t seed = first ? strtoull(first, NULL, 10) : 0;
    int64_t recorded = 0, launches = 0;
    int failed = 0;
    for (int i = 0; i < count; i++)
        failed += !check_function(seed + (uint64_t)i, &recorded, &launches);
    is_int(failed, 0, "%d random functions: a replay has the bits of the "
           "function", count);
    ok(launches < recorded, "%lld launches were fused to %lld",
       (long long)recorded, (long long)launches);
    return done_testing();
}
