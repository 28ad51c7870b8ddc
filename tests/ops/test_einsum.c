/* Tests einsum and related operators: errors, with their exact messages. */
#include <tap.h>
#include <tenon/ops.h>

static void refused(const void *got, tn_status code, const char *want)
{
    bool told = got == NULL && tn_error_code() == code;
    is_str(told ? tn_error() : got ? "(a result)" : tn_error(), want, "%s",
           want);
    tn_error_clear();
}

int main(void)
{
    plan_later();
    tn_tensor *a = tn_ones(tn_dims(2, 3)), *b = tn_ones(tn_dims(4, 5));
    tn_tensor *two[] = {a, b};
    refused(tn_einsum("ij,jk->ik", two, 2), TN_ERR_SHAPE,
            "einsum: index j of the equation has size 3 in one of the operands, 4 "
            "in another");
    refused(tn_einsum("ij->ik", two, 1), TN_ERR_ARGUMENT,
            "einsum: equation \"ij->ik\": an index of the result is in no "
            "operand");
    refused(tn_einsum("ij->ii", two, 1), TN_ERR_ARGUMENT,
            "einsum: equation \"ij->ii\": an index occurs twice in the result");
    refused(tn_einsum("ijk", two, 1), TN_ERR_SHAPE,
            "einsum: operands[0] has 2 dimensions, but its part of the "
            "equation \"ijk\" names 3");
    refused(tn_einsum("ij,kl", two, 1), TN_ERR_ARGUMENT,
            "einsum: equation \"ij,kl\": it does not have one part for each "
            "operand");
    refused(tn_einsum("i1", two, 1), TN_ERR_ARGUMENT,
            "einsum: equation \"i1\": expected letters, \"...\", ',' and "
            "\"->\", and no more dimensions than tensors have");
    refused(tn_einsum("ii", two, 1), TN_ERR_SHAPE,
            "einsum: index i of the equation has size 2 in one of the operands, 3 "
            "in another");
    refused(tn_tensordot(a, b, tn_dims(1)), TN_ERR_SHAPE,
            "tensordot: dims is (1,) for input (2, 3) and other (4, 5); "
            "expected a number of dimensions, or the dimensions of input and "
            "then as many of other, of equal sizes");
    refused(tn_linalg_multi_dot(two, 2), TN_ERR_SHAPE,
            "linalg_multi_dot: tensors[1] has shape (4, 5); expected a matrix "
            "with as many rows as the one before it has columns");
    refused(tn_linalg_vander(a, .N = 1), TN_ERR_ARGUMENT,
            "linalg_vander: N is 1; expected at least 2");
    tn_tensor *y = tn_einsum("ij,kl->", two, 2);
    ok(tn_item(y) == 120, "with an empty result all is summed");
    tn_tensor *whole[] = {tn_ones(tn_dims(2, 3), .dtype = TN_I32),
                          tn_ones(tn_dims(3), .dtype = TN_I32)};
    is_int(tn_tensor_dtype(tn_einsum("ik,j->ij", whole, 2)), TN_I64,
           "a sum of one operand's whole numbers is int64, as in PyTorch");
    is_int(tn_tensor_dtype(tn_einsum("ik,k->i", whole, 2)), TN_I32,
           "a matrix product of whole numbers is not");
    return done_testing();
}
