/* saves.c: which values the gradient functions of this room need. A bit for
 * each input, a bit for each output, by the port whose gradient is wanted. */
#include <autograd/autograd.h>

#define NOTHING {0, 0}
enum { P0 = 1, P1 = 2, P2 = 4, P3 = 8, P4 = 16, LAYOUT = TN__SAVES_LAYOUT };

const tn__saves tn__saves_table[] = {
    /* row                      {inputs, outputs} if port 0, 1, 2 is wanted */
    {"matmul", {{P1, 0}, {P0, 0}, NOTHING}},
    {"matmul_add", {{P1, 0}, {P0, 0}, NOTHING}},
    {"conv2d", {{P1, 0}, {P0, 0}, NOTHING}},
    {"conv2d_out", {{P1, 0}, {P0, 0}, NOTHING}},
    {"conv2d_input", {{P1, 0}, {P0, 0}, NOTHING}},
    {"conv2d_weight", {{P1, 0}, {P0, 0}, NOTHING}},
    {"max_pool2d_with_indices", {{0, P1}, NOTHING, NOTHING}},
    {"max_pool2d_back", {{P1, 0}, NOTHING, NOTHING}},
    {"gather", {{P1, 0}, NOTHING, NOTHING}},
    {"scatter", {{P1, 0}, NOTHING, {P1, 0}}},
    {"scatter_add", {NOTHING, NOTHING, {P1, 0}}},
    {"scatter_fold", {{7, P0}, NOTHING, {7, P0}}},
    {"index_select", {{P1, 0}, NOTHING, NOTHING}},
    {"embedding", {NOTHING, {P0, 0}, NOTHING}},
    {"embedding_renorm", {NOTHING, {P0, 0}, NOTHING}},
    {"pick", {{P1, 0}, NOTHING, NOTHING}},
    {"sort_first", {{0, P1}, NOTHING, NOTHING}},
    {"cummax", {{0, P1}, NOTHING, NOTHING}},
    {"cummin", {{0, P1}, NOTHING, NOTHING}},
    {"window_max", {{0, P1}, NOTHING, NOTHING}},
    {"linalg_cholesky_ex", {{0, P0}, NOTHING, NOTHING}},
    {"cholesky_solve", {{P1, 0}, {P1, P0}, NOTHING}},
    {"cholesky_inverse", {{P0, P0}, NOTHING, NOTHING}},
    {"solve_square", {{P0, P0}, {P0, 0}, NOTHING}},
    {"solve_triangle", {{P0, P0}, {P0, 0}, NOTHING}},
    {"linalg_lu_factor_ex", {{0, P0 | P1}, NOTHING, NOTHING}},
    {"linalg_qr", {{0, P0 | P1}, NOTHING, NOTHING}},
    {"linalg_eigh", {{0, P0 | P1}, NOTHING, NOTHING}},
    {"linalg_eigvalsh", {{P0, 0}, NOTHING, NOTHING}},
    {"linalg_svd", {{0, P0 | P1 | P2}, NOTHING, NOTHING}},
    {"linalg_svdvals", {{P0, 0}, NOTHING, NOTHING}},
    {"linalg_polar", {{P0, 0}, NOTHING, NOTHING}},
    {"linalg_matrix_sqrth", {{P0, 0}, NOTHING, NOTHING}},
    {"linalg_pinv", {{P0, P0}, NOTHING, NOTHING}},
    {"linalg_det", {{P0, P0}, NOTHING, NOTHING}},
    {"linalg_slogdet", {{P0, 0}, NOTHING, NOTHING}},
    {"linalg_matrix_exp", {{P0, 0}, NOTHING, NOTHING}},
    {"resample", {{P1 | P2 | P3 | P4, 0}, NOTHING, NOTHING}},
    {"scan_prod", {{P0, 0}, NOTHING, NOTHING}},
    {"as_strided_scatter", {{LAYOUT, 0}, {LAYOUT, 0}, NOTHING}},
    {NULL, {NOTHING, NOTHING, NOTHING}},
};
