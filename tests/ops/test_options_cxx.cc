/* The calls of test_options.c as C++17 has them. */
#include <tenon/ops.h>
#include <tenon/random.h>

extern "C" double test_options_cxx(tn_tensor *x);

double test_options_cxx(tn_tensor *x)
{
    tn_sum_options options = {};
    options.dim = 0;
    options.keepdim = true;
    tn_tensor *rows = tn_sum(x, options);
    tn_add_options twice = {};
    twice.alpha = 2;
    tn_tensor *more = tn_add(x, x, twice);
    tn_tensor *indices = nullptr;
    tn_max_dim(x, 1, &indices);
    bool kinds = tn_tensor_dtype(tn_add_scalar(tn_arange(0, 2, 1), 1)) ==
                     TN_I64 &&
                 tn_tensor_dtype(tn_full(tn_dims(1), true)) == TN_BOOL;
    return tn_item(tn_sum(rows)) + tn_item(tn_sum(more)) +
           (kinds && tn_tensor_ndim(rows) == 2 ? 2.0 : 0.0);
}
