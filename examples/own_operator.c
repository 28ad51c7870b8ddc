/* own_operator.c: one line of the kernel language defines an operator and its
 * gradient, for every device and dtype. docs/kernel-language.md describes the
 * language. If the language cannot express an operator, two C functions of
 * tensors implement it and its gradient. */
#include <stdio.h>
#include <tenon/tenon.h>

/* gram() computes the matrix of dot products of the rows of x, x x^T.
 * gram_backward() computes its gradient, (g + g^T) x. */
static tn_status gram(tn_op_context *call, tn_tensor **out)
{
    tn_tensor *x = tn_op_context_tensor(call, 0);
    tn_op_context_save(call, x);
    out[0] = tn_matmul(x, tn_transpose(x, 0, 1));
    return TN_OK;
}

static tn_status gram_backward(tn_op_context *call, tn_tensor *const *grad,
                               tn_tensor **out)
{
    tn_tensor *x = tn_op_context_saved(call, 0);
    out[0] = tn_matmul(tn_add(grad[0], tn_transpose(grad[0], 0, 1)), x);
    return TN_OK;
}

int main(void)
{
    const tn_op *swish2 =
        tn_op_define("swish2(x; b) = x * sigmoid(b * x)");
    if (!swish2)
        return fprintf(stderr, "%s\n", tn_error()), 1;

    float data[] = {-2, -1, 0, 1, 2};
    tn_tensor *x = tn_requires_grad(
        tn_tensor_from_array(data, TN_F32, tn_dims(5)));
    tn_tensor *y =
        tn_op_apply(swish2, (tn_tensor *[]){x}, (double[]){1.5});
    printf("swish2(x) = ");
    tn_print(y);
    tn_backward(tn_sum(y));
    printf("its derivative = ");
    tn_print(tn_tensor_grad(x));

    /* rmean() reduces a row, which is the last dimension unless the caller
     * names others. */
    const tn_op *zscore = tn_op_define(
        "zscore(x) = let d = x - rmean(x); d / sqrt(rmean(d * d))");
    printf("zscore = ");
    tn_print(tn_op_apply(zscore, (tn_tensor *[]){x}, NULL));

    /* Registers an operator that two C functions implement. They choose what is
     * saved for the gradient. */
    tn_op_rule rule = {.size = sizeof rule, .signature = "gram(x)",
                       .forward = gram, .backward = gram_backward};
    if (!tn_op_register(&rule))
        return fprintf(stderr, "%s\n", tn_error()), 1;
    tn_tensor *m = tn_requires_grad(
        tn_reshape(tn_arange(0, 4, 1, .dtype = TN_F32), tn_dims(2, 2)));
    tn_tensor *products = tn_call("gram", m);
    printf("gram(m) = ");
    tn_print(products);
    tn_backward(tn_sum(products));
    printf("its derivative = ");
    tn_print(tn_tensor_grad(m));

    /* An error in the source of an operator is reported with its line and
     * column. */
    if (!tn_op_define("broken(x) = x + * 2"))
        printf("refused: %s\n", tn_error());
    tn_error_clear();
    return 0;
}
