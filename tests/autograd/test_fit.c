/* tn_backward checks that each gradient has the shape, dtype and device of its
 * tensor. Gradient rules that use a part of an input give zeros for the rest.
 * Threads that need a gradient rule for the first time at once share one. The
 * expected numbers are PyTorch 2.15's. */
#include <autograd/node.h>
#include <ops/table.h>
#include <pthread.h>
#include <tenon/autograd.h>
#include <tenon/op.h>
#include <tenon/ops.h>
#include "tap.h"

/* ---- gradients that do not fit ------------------------------------------- */

static struct {
    tn_dims_list shape;
    tn_dtype dtype;
} wrong;

static tn_status give_wrong(const tn__node *node, tn_tensor *const *g,
                            tn_tensor **out)
{
    (void)node;
    (void)g;
    out[0] = tn_zeros(wrong.shape, .dtype = wrong.dtype);
    return out[0] ? TN_OK : tn_error_code();
}

static void check_wrong(tn_dims_list shape, tn_dtype dtype, const char *message)
{
    wrong.shape = shape;
    wrong.dtype = dtype;
    tn_tensor *x = tn_requires_grad(tn_ones(tn_dims(3, 3)));
    tn_tensor *y = tn_sum(tn_tril(x));
    is_int(tn_backward(y), TN_ERR_INTERNAL, "refused: %s", message);
    ok(tn_error() && strstr(tn_error(), message), "the message says so");
    note("%s", tn_error() ? tn_error() : "no message");
    tn_error_clear();
    ok(tn_tensor_grad(x) == NULL, "nothing is made of it");
}

/* Gradient rules are built once and shared; this test replaces one with a wrong
 * rule. */
static void test_wrong_rules(void)
{
    tn_tensor *x = tn_requires_grad(tn_ones(tn_dims(3, 3)));
    tn_backward(tn_sum(tn_tril(x)));
    tn__plan *plan =
        (tn__plan *)tn__plan_find(&tn__op_table[TN__OP_ID_TRIL], NULL);
    if (!ok(plan && plan->gradient, "tril has a plan"))
        return;
    tn__gradient_fn right = plan->gradient;
    plan->gradient = give_wrong;
    check_wrong(tn_dims(2, 2), TN_F32,
                "backward of tril: its rule returned a gradient (2, 2) of "
                "float32 on ");
    check_wrong(tn_dims(1, 3), TN_F32, "for input 0 (input) (3, 3) of float32");
    check_wrong(tn_dims(3), TN_F32, "gradient (3,) of float32");
    check_wrong(tn_dims(3, 3), TN_I64, "gradient (3, 3) of int64");
    wrong.shape = tn_dims(2, 3, 3);
    wrong.dtype = TN_F64;
    is_int(tn_backward(tn_sum(tn_tril(x))), TN_OK,
           "the gradient of a broadcast input is summed and cast");
    plan->gradient = right;
}

/* ---- a rule that several threads need first ----------------------------- */

enum { ASKING = 4 };
static pthread_barrier_t all_ready;

static void *ask_for_port(void *plan)
{
    pthread_barrier_wait(&all_ready);
    return (void *)tn__plan_port_find(plan, 1);
}

/* Returns how many different gradient rules the threads got for the second
 * operand, after a call that needed only the rule for the first operand. */
static int ports_of(tn_tensor *result)
{
    const void *plan = result->grad->node->plan;
    pthread_t thread[ASKING];
    void *port[ASKING];
    int different = 1;
    for (int i = 0; i < ASKING; i++)
        if (pthread_create(&thread[i], NULL, ask_for_port, (void *)plan))
            bail_out("no thread");
    for (int i = 0; i < ASKING; i++)
        pthread_join(thread[i], &port[i]);
    for (int i = 1; i < ASKING; i++)
        different += port[i] != port[0];
    return port[0] ? different : 0;
}

/* Computes sin(y * sin(y * ... x)). Building its gradient rule takes so long
 * that in some rounds one thread needs the rule while another builds it. */
static void test_first_ask(void)
{
    enum { DEPTH = 60, ROUNDS = 16 };
    int alike = 0;
    pthread_barrier_init(&all_ready, NULL, ASKING);
    for (int k = 0; k < ROUNDS; k++) {
        char text[DEPTH * 10];
        snprintf(text, sizeof text, "asked_at_once%d(x, y) = ", k);
        for (int i = 0; i < DEPTH; i++)
            strcat(text, "sin(y*");
        strcat(text, "x");
        for (int i = 0; i < DEPTH; i++)
            strcat(text, ")");
        tn_tensor *y = tn_ones(tn_dims(3));
        tn_tensor *x = tn_requires_grad(tn_clone(y));
        tn_tensor *z = tn_op_apply(tn_op_define(text), (tn_tensor *[]){x, y},
                                   NULL);
        if (!z)
            bail_out("%s", tn_error());
        alike += ports_of(z) == 1;
    }
    pthread_barrier_destroy(&all_ready);
    is_int(alike, ROUNDS, "threads that ask at once get one rule");
}

/* ---- sources larger than their index ------------------------------------ */

static const int64_t at_rows[] = {0, 1, 0, 1};

static bool has_numbers(tn_tensor *x, const float *want, int count)
{
    float got[16];
    if (!x || tn_tensor_numel(x) != count ||
        tn_tensor_to_array(x, got, sizeof got[0] * (size_t)count) < 0)
        return false;
    for (int i = 0; i < count; i++)
        if (!(got[i] - want[i] < 1e-6f && want[i] - got[i] < 1e-6f)) {
            note("element %d: %g, not %g", i, got[i], want[i]);
            return false;
        }
    return true;
}

static const float source_numbers[9] = {3, 5, 7, 0, 2, 11, 13, 17, 19};

static void check_source(const char *name, const char *reduce,
                         const float *want)
{
    tn_tensor *x = tn_requires_grad(tn_full(tn_dims(3, 3), 2.0));
    tn_tensor *s = tn_requires_grad(
        tn_tensor_from_array(source_numbers, TN_F32, tn_dims(3, 3)));
    tn_tensor *index = tn_tensor_from_array(at_rows, TN_I64, tn_dims(2, 2));
    tn_tensor *y = strcmp(name, "scatter") == 0 ? tn_scatter(x, 0, index, s)
                   : reduce ? tn_scatter_reduce(x, 0, index, s, reduce)
                            : tn_scatter_add(x, 0, index, s);
    is_int(tn_backward(tn_sum(y)), TN_OK, "%s %s: backward", name,
           reduce ? reduce : "");
    ok(has_numbers(tn_tensor_grad(s), want, 9), "%s %s: gradient of src", name,
       reduce ? reduce : "");
    if (tn_error())
        note("%s", tn_error());
    tn_error_clear();
}

static void test_large_sources(void)
{
    static const float ones[9] = {1, 1, 0, 1, 1};
    static const float thirds[9] = {1 / 3.f, 1 / 3.f, 0, 1 / 3.f, 1 / 3.f};
    static const float product[9] = {0, 4, 0, 6, 10};
    static const float greatest[9] = {1, 1};
    static const float least[9] = {0, 0, 0, 1, .5f};
    check_source("scatter", NULL, ones);
    check_source("scatter_add", NULL, ones);
    check_source("scatter_reduce", "sum", ones);
    check_source("scatter_reduce", "mean", thirds);
    check_source("scatter_reduce", "prod", product);
    check_source("scatter_reduce", "amax", greatest);
    check_source("scatter_reduce", "amin", least);
}

static void test_empty_index(void)
{
    tn_tensor *x = tn_ones(tn_dims(3)), *none = tn_empty(tn_dims(0),
                                                         .dtype = TN_I64);
    tn_tensor *s = tn_requires_grad(tn_ones(tn_dims(4)));
    static const float zeros[4];
    is_int(tn_backward(tn_sum(tn_scatter(x, 0, none, s))), TN_OK,
           "scatter of no elements: backward");
    ok(has_numbers(tn_tensor_grad(s), zeros, 4), "its gradient is 0");
}

/* ---- sources without elements -------------------------------------------- */

static void test_no_parts(void)
{
    tn_tensor *x = tn_requires_grad(tn_ones(tn_dims(2, 0))), *part[8];
    const tn_value value[] = {tn__value_tensor(x), tn__value_int(1),
                              tn__value_int(3)};
    is_int(tn_op_call(&tn__op_table[TN__OP_ID_APART], value, 3, part, 8), 0,
           "a split of an empty tensor gives no parts");
}

static void test_last_of_order(void)
{
    static const float numbers[] = {4, 1, 3, 2, 9, 8, 7, 6};
    static const float want[] = {0, 0, 1, 0, 0, 1, 0, 0};
    tn_tensor *x = tn_requires_grad(
        tn_tensor_from_array(numbers, TN_F32, tn_dims(2, 4)));
    tn_tensor *out[2] = {NULL, NULL};
    const tn_value value[] = {tn__value_tensor(x), tn__value_int(1),
                              tn__value_bool(false), tn__value_int(3),
                              tn__value_bool(true)};
    is_int(tn_op_call(&tn__op_table[TN__OP_ID_SORT_FIRST], value, 5, out, 2), 2,
           "sort_first with last");
    ok(tn_tensor_size(out[0], 1) == 1 && tn_tensor_size(out[1], 1) == 1,
       "gives the last alone");
    static const float third[] = {3, 8};
    ok(has_numbers(out[0], third, 2), "the last one is the third");
    is_int(tn_backward(tn_sum(out[0])), TN_OK, "its gradient");
    ok(has_numbers(tn_tensor_grad(x), want, 8),
       "a gradient goes to the element's position");
}

int main(void)
{
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    test_first_ask();
    test_large_sources();
    test_empty_index();
    test_no_parts();
    test_last_of_order();
    test_wrong_rules();
    ok(tn_error() == NULL, "no error is left%s%s", tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    return done_testing();
}
