/* autograd.c: computes first and second derivatives. */
#include <stdio.h>
#include <tenon/tenon.h>

int main(void)
{
    double start[] = {0.5, 1, 2};
    tn_tensor *x = tn_requires_grad(
        tn_tensor_from_array(start, TN_F64, tn_dims(3)));

    tn_tensor *y = tn_sum(tn_mul(x, tn_sin(x)));
    tn_backward(y);
    printf("d/dx sum(x sin x) = ");
    tn_print(tn_tensor_grad(x)); /* prints sin x + x cos x */

    /* With create_graph, the backward pass is recorded too, so that its result
     * can be differentiated again. */
    tn_tensor *first, *second;
    tn_grad(tn_sum(tn_exp(tn_mul_scalar(x, 2))), &x, 1, &first,
            .create_graph = true);
    tn_grad(tn_sum(first), &x, 1, &second);
    printf("d2/dx2 sum(exp 2x) = ");
    tn_print(second); /* prints 4 exp 2x */

    TN_NO_GRAD {
        printf("recorded without gradients: %s\n",
               tn_tensor_requires_grad(tn_exp(x)) ? "yes" : "no");
    }
    return tn_error() ? fprintf(stderr, "%s\n", tn_error()), 1 : 0;
}
