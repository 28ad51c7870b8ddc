/* tensors.c: makes tensors, computes with them, and reads them back. */
#include <stdio.h>
#include <tenon/tenon.h>

int main(void)
{
    float data[] = {1, 2, 3, 4, 5, 6};
    tn_tensor *x = tn_tensor_from_array(data, TN_F32, tn_dims(2, 3));
    tn_tensor *w = tn_ones(tn_dims(3, 2));

    printf("x = ");
    tn_print(x);
    printf("x @ w = ");
    tn_print(tn_matmul(x, w));
    printf("softmax(x) = ");
    tn_print(tn_softmax(x, -1));

    /* A view shares the memory of x: a write to it changes x. */
    tn_tensor *column = tn_select(x, 1, 0);
    tn_mul_scalar_(column, 10);
    printf("x, its first column times ten = ");
    tn_print(x);

    /* tn_item returns a C number. The mean of integers is an error, which
     * changes no tensor. */
    printf("mean = %g\n", tn_item(tn_mean(x)));
    if (!tn_mean(tn_arange(0, 3, 1, .dtype = TN_I64))) {
        printf("refused: %s\n", tn_error());
        tn_error_clear();
    }
    return tn_error() ? fprintf(stderr, "%s\n", tn_error()), 1 : 0;
}
