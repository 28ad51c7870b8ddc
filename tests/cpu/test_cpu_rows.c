/* A product of two to eight rows is bit-identical to the same rows in a larger
 * product, although it is computed in another way: float matrices are read in
 * place, and large half matrices are converted in slices. */
#include <tap.h>
#include <tenon/tenon.h>

static bool same_rows(tn_tensor *few, tn_tensor *many, int64_t row)
{
    tn_tensor *part = tn_narrow(many, 0, row, tn_tensor_size(few, 0));
    return tn_item(tn_sum(tn_ne(few, part))) == 0;
}

/* Compares products of m rows, beginning at row 3, with the same rows of a
 * product of 40 rows. */
static void check(tn_dtype dtype, int64_t n, int64_t k)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_to_dtype(tn_randn(tn_dims(40, k)), dtype);
    tn_tensor *w = tn_to_dtype(tn_randn(tn_dims(n, k)), dtype);
    tn_tensor *many = tn_linear(x, w, NULL);
    int64_t different = 0;
    for (int64_t m = 2; m <= 9; m++)
        different += !same_rows(
            tn_linear(tn_contiguous(tn_narrow(x, 0, 3, m)), w, NULL), many, 3);
    is_int(different, 0, "%s, %lld columns, k %lld: the same bits",
           tn_dtype_name(dtype), (long long)n, (long long)k);
    tn_scope_close(scope);
}

int main(void)
{
    /* sizes near those of a vector, a panel (192) and a slice (1048576 / k
     * columns) */
    static const int64_t ks[] = {1, 15, 16, 191, 192, 193, 500, 1537};
    static const int64_t ns[] = {1, 7, 16, 17, 33, 200, 1500};
    static const tn_dtype dtypes[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
    plan_later();
    tn_manual_seed(5);
    for (int d = 0; d < 4; d++)
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 7; j++)
                check(dtypes[d], ns[j], ks[i]);
    ok(!tn_error(), "without an error");
    return done_testing();
}
