/* Every differentiable row of the operator table: its gradient, and the
 * gradient of that, against differences in float64. A row without a sample of
 * its own gets one made from its signature; where that does not do (a domain,
 * a shape), the test fails until a sample stands here. */
#include <ops/ops.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>
#include <tenon/random.h>
#include "tap.h"

/* Arguments of a call, one word each:
 *   t2,3    a leaf of that shape, numbers in [-2, 2]      p2,3  in [0.5, 2]
 *   c2,3    the same without a gradient (k2,3: in [0.5, 2])
 *   u2,3    in [0.1, 0.9]
 *   o2,3    ones without a gradient
 *   g2,3    in [1.2, 3]
 *   x2,3<5  whole numbers 0, 1, 2 ... below 5             m2,3  true, false ...
 *   T2,3;4  a list of leaves                  X3<4;3<5  of whole numbers
 *   S3,3  a leaf X that the operator gets as X X^T + I   L3,3  as tril(X) + 2 I
 *   N2,3  a leaf that it gets as log_softmax of that along the last dimension
 *   I2,3    1, 2, 3 ... along each row, int32
 *   i3 n2 f0.5 q2.5   int, number (whole), float, number (fraction)
 *   F1,2    a list of floats
 *   d1,2 ssame b1 y0 D -   dims, string, bool, float64, the device, left out
 * "name 1" is the operator's second output. */
static const struct sample {
    const char *op, *arguments;
} samples[] = {
    {"gather", "t3,4 i1 x3,2<4"},
    {"gather", "t3,4 i0 x2,4<2"},
    {"scatter", "t4,3 i0 x2,3<4 t2,3"},
    {"scatter", "t4,3 i0 x2,3<4 n1"},
    {"scatter_add", "t4,3 i0 x2,3<2 t2,3"},
    {"index_select", "t4,3 i1 x5<3"},
    {"index_add", "t4,3 i0 x5<4 t5,3"},
    {"index_add", "t4,3 i0 x5<4 t5,3 n3"},
    {"embedding", "x2,3<4 t4,3"},
    {"embedding_bag", "x2,3<4 t4,3"},
    {"embedding_bag", "x5<4 t4,3 x3<3 f0 f2 b0 smean b0 - b0 i1"},
    {"embedding_bag", "x5<4 t4,3 x3<3 f0 f2 b0 ssum b0 t5 b1"},
    {"embedding_bag", "x5<4 t4,3 x3<3 f0 f2 b0 smax"},
    {"bag_max", "t5,3 x5<4 x2<3 x2<2 i2"},
    {"ctc_loss", "N3,3,4 x3,2<3 x3<4 x3<3 i3"},
    {"ctc_forward", "N3,3,4 x3,9<2 x3<4 x3<2 b0"},
    {"ctc_backward", "t3,3,4 x3,9<4 x3<4 x3<3 t3 t4,3,7 b0"},
    {"linear_cross_entropy", "t3,4 t5,4 x3<5"},
    {"linear_cross_entropy", "t4 t5,4 p5 t5"},
    {"linear_cross_entropy", "t3,2 t4,2,2 x3,2<4 t4,2 k4 smean i1 f0.2"},
    {"linear_nll", "t3,2 t2,4,2 t2,4 x2,3<4 i-1"},
    {"linear_nll 1", "t3,2 t2,4,2 - x2,3<4 i-1"},
    {"linear_nll_back", "t2,3,4 t2,3,1 x2,3,1<4 t2,3,1 t2,3,1 i-1"},
    {"tril", "t3,4"},
    {"triu", "t2,3,3 i1"},
    {"cat", "T2,3;2,1;2,2 i1"},
    {"cat", "T2,3;1,3"},
    {"stack", "T2,3;2,3 i1"},
    {"as_strided_scatter", "t3,4 t2,3 d2,3 d4,1 d1"},
    {"as_strided_scatter", "t6 t2 d2 d3"},
    {"slice_backward", "t2,2 d2,5 i1 i1 i2"},
    {"matmul", "t3 t3"},
    {"matmul", "t3 t3,2"},
    {"matmul", "t2,3 t3"},
    {"matmul", "t2,3 t3,4"},
    {"matmul", "t2,2,3 t3,4"},
    {"matmul", "t2,2,3 t3"},
    {"matmul", "t3 t2,3,2"},
    {"matmul", "t2,1,2,3 t3,3,2"},
    {"matmul_add", "t2,3 t3,4 t4"},
    {"matmul_add", "t2,2,3 t3,4 t2,1,4"},
    {"matmul_add", "t2,3 t3 t1"},
    {"matmul_scaled", "t2,3 t3,4 f0.3"},
    {"lstm_gates", "t2,12 t2,3"},
    {"lstm_gates", "t2,1,4 t2,1,1"},
    {"matmul_scaled", "t2,2,3 t3 f-2.5"},
    {"mm", "t2,3 t3,4"},
    {"bmm", "t2,2,3 t2,3,2"},
    {"linear", "t2,3 t4,3"},
    {"linear", "t2,2,3 t4,3 t4"},
    {"conv2d", "t2,2,4,4 t3,2,2,2 t3"},
    {"conv2d", "t1,2,5,4 t2,2,3,2 - d2,1 d1"},
    {"conv2d", "t1,4,4,4 t4,2,2,2 t4 d1 d1 d2 i2"},
    {"conv2d", "t1,1,4,4 t1,1,2,3 - d1 ssame"},
    {"conv2d", "t2,3,3 t2,2,2,2 t2"},
    {"conv1d", "t2,4,5 t2,2,3 t2 d2 d1 d1 i2"},
    {"conv1d", "t2,4 t1,2,2"},
    {"conv_transpose1d", "t2,2,3 t2,3,2 t3 d2 d1"},
    {"conv_transpose2d", "t1,4,2,3 t4,1,2,3 t2 d2 d1 d1 i2 d1"},
    {"conv_transpose2d", "t2,2,2 t2,2,2,2"},
    {"pixel_shuffle", "t2,4,2,3 i2"},
    {"bilinear", "t2,3 t2,4 t2,3,4 t2"},
    {"prelu", "g2,3,2 t3"},
    {"batch_norm", "t3,2,2 - - t2 t2 b1"},
    {"batch_norm", "t3,2,2 c2 p2 t2 - b0"},
    {"layer_norm", "t2,3,4 d3,4 t3,4 t3,4"},
    {"group_norm", "t2,4,3 i2 t4 t4"},
    {"instance_norm", "t2,2,4 - - t2 t2"},
    {"rms_norm", "t2,3,4 d4 t4 f0.1"},
    {"scaled_dot_product_attention", "t2,3,4 t2,2,4 t2,2,3"},
    {"scaled_dot_product_attention", "t4,3,2 t2,3,2 t2,3,2 - f0 b1 f0.5 b1"},
    {"attention_weights", "t3,4 t2,4 t3,2"},
    {"rnn_tanh_cell", "t2,3 t2,2 t2,3 t2,2 t2 t2"},
    {"rnn_relu_cell", "p2,3 p2,2 p2,3 p2,2"},
    {"gru_cell", "t2,3 t2,2 t6,3 t6,2 t6 t6"},
    {"lstm_cell", "t2,3 t2,2 t2,2 t8,3 t8,2 t8 t8"},
    {"rnn_tanh_layer", "t3,2,3 t2,2 t2,3 t2,2 t2 t2 b1"},
    {"rnn_relu_layer", "p3,2,3 p2,2 p2,3 p2,2"},
    {"gru_layer", "t3,2,3 t2,2 t6,3 t6,2"},
    {"lstm_layer", "t3,2,3 t2,1 t2,2 t8,3 t8,1 t8 t8 t1,2"},
    {"apart", "t2,5 i1 i2"},
    {"conv2d_out", "t2,2,5,4 t4,1,2,3 d3,2 d2,1 d1,0 d1,1 i2"},
    {"conv2d_input", "t2,4,3,2 t4,1,2,3 d5,4 d2,1 d1,0 d1,1 i2"},
    {"conv2d_weight", "t2,2,5,4 t2,4,3,2 d2,3 d2,1 d1,0 d1,1 i2"},
    {"im2col", "t1,2,4,4 d2,2 d1,1 d1,1 d2,2 d3,3"},
    {"col2im", "t1,8,9 d4,4 d2,2 d1,1 d1,1 d2,2 d3,3"},
    {"max_pool2d", "t1,2,4,4 d2"},
    {"max_pool2d", "t2,5,5 d3 d1 d1"},
    {"max_pool2d_with_indices", "t1,2,5,5 d3 d2 d1 d1 b1"},
    {"avg_pool2d", "t1,2,4,4 d2"},
    {"avg_pool2d", "t2,5,5 d3 d2 d1 b1 b0"},
    {"avg_pool2d", "t1,1,5,5 d3,2 d2 d1 b1 b1"},
    {"avg_pool2d", "t1,1,4,4 d2 d1 d0 b0 b1 i3"},
    {"pixel_unshuffle", "t2,1,4,6 i2"},
    {"channel_shuffle", "t1,4,2,2 i2"},
    {"conv3d", "t2,2,3,3,3 t2,2,2,2,2 t2 d1 d1,0,1"},
    {"conv3d", "t2,4,3,4 t4,1,3,1,2 - d1 ssame d1 i2"},
    {"conv_transpose3d", "t1,2,2,2,2 t2,1,2,1,2 t2 d2 d1,0,0 d1 i2"},
    {"resample", "t2,2 x4,2<2 o4,2 x2,4<4 o2,4 i1"},
    {"window_max", "t2,5 i1 x3,3<5"},
    {"constant_pad_nd", "t2,3,3 d1,-1,2,0 f0.5"},
    {"pad", "t1,3,4 d2,1 sreflect"},
    {"pad", "t1,3,4 d1,1,-1,2 scircular"},
    {"pad", "t1,3,4 d3,-1 sreplicate"},
    {"pad", "t2,3,2 d2,3,1,2 sreplicate"},
    {"pad_edges", "t2,3,4 d1,2,2,-1 sreflect"},
    {"pad_edges_backward", "t2,5,4 d2,-1,1,2 scircular"},
    {"unfold", "t3,7 i1 i3 i2"},
    {"unfold_copy", "t7 i0 i3 i1"},
    {"windows", "t3,7 i1 i2 i2 i3"},
    {"windows_backward", "t2,3,2 i1 i6 i2 i1"},
    {"unfold_images", "t1,2,4,4 d2,3 d1 d1 d2"},
    {"fold", "t1,8,9 d4,4 d2 d1 d1 d2"},
    {"avg_pool1d", "t2,2,7 d3 d2 d1"},
    {"avg_pool3d", "t1,1,3,4,4 d2 d1 d1 b0 b0"},
    {"avg_pool3d", "t1,1,3,3,3 d2 d1 d0 b0 b1 i3"},
    {"max_pool1d", "t2,2,7 d3 d2 d1"},
    {"max_pool1d_with_indices", "t2,2,7 d3 d1 d0 d2"},
    {"max_pool3d", "t1,1,3,4,4 d2 d1 d1"},
    {"max_pool3d_with_indices", "t1,1,3,4,4 d2"},
    {"adaptive_avg_pool1d", "t2,2,5 d3"},
    {"adaptive_avg_pool2d", "t1,2,5,4 d3,-1"},
    {"adaptive_avg_pool3d", "t1,1,3,4,2 d2,3,1"},
    {"adaptive_max_pool1d", "t2,2,5 d3"},
    {"adaptive_max_pool2d", "t1,2,5,4 d3,2"},
    {"adaptive_max_pool3d", "t1,1,3,4,2 d2,3,1"},
    {"fractional_max_pool2d", "t1,2,5,6 d2 d3,2 - - k1,2,2"},
    {"fractional_max_pool3d", "t1,1,4,5,4 d2,2,1 d2,3,2 - - k1,1,3"},
    {"max_unpool1d", "t1,2,3 x1,2,3<6 d2"},
    {"max_unpool2d", "t1,1,2,2 x1,1,2,2<16 d2"},
    {"max_unpool3d", "t1,1,1,2,2 x1,1,1,2,2<32 d2"},
    {"local_response_norm", "t2,4,3 i3 f0.1"},
    {"interpolate", "t1,2,5 d3 f0 slinear b1"},
    {"interpolate", "t1,1,3,4 d5,6 f0 sbilinear"},
    {"interpolate", "t1,1,3,4 - f1.7 sbicubic"},
    {"interpolate", "t1,1,2,3,2 d3,2,4 f0 strilinear"},
    {"interpolate", "t1,1,6,5 d3,2 f0 sbilinear b0 b0 b1"},
    {"interpolate", "t1,2,5 d3 f0 snearest"},
    {"interpolate", "t1,2,5 d3 f0 sarea"},
    {"upsample_nearest", "t1,2,3 d5"},
    {"upsample_bilinear", "t1,1,2,3 d3,4"},
    {"lp_pool1d", "p1,2,6 f2 d3"},
    {"lp_pool2d", "p1,2,4,5 f3 d2,3 d1"},
    {"lp_pool3d", "p1,1,4,4,4 f1.5 d2 d0 b1"},
    {"weight_norm", "t3,4 t3,1"},
    {"grid_sample", "t2,2,3,4 t2,2,3,2"},
    {"grid_sample", "t1,2,3,4 t1,2,2,2 sbicubic sborder b1"},
    {"grid_sample", "t1,2,3,4 t1,2,2,2 sbilinear sreflection b1"},
    {"grid_sample", "t1,2,3,4 t1,2,2,2 sbicubic sreflection"},
    {"grid_sample", "t1,2,3,4 t1,2,2,2 snearest"},
    {"grid_sample", "t1,2,2,3,2 t1,1,2,2,3 sbilinear sborder"},
    {"grid_sampler", "t1,2,3,4 t1,1,2,2 i0 i2 b0"},
    {"grid_sampler_2d", "t1,2,3,4 t1,1,2,2 i0 i1 b1"},
    {"grid_sampler_3d", "t1,1,2,3,2 t1,1,2,2,3 i0 i0 b0"},
    {"affine_grid", "t2,2,3 d2,1,2,3"},
    {"affine_grid", "t1,3,4 d1,1,2,1,3 b1"},
    {"tap_sum", "t2,2,5 x2,3,4<5 t2,3,4"},
    {"tap_dots", "t2,2,5 x2,3,4<5 t2,2,4"},
    {"tap_parts", "t2,3 t2,3 x2,3<3"},
    {"einsum", "sij,jk->ik T2,3;3,2"},
    {"einsum", "s...ij,kj->k...i T2,2,3;2,3"},
    {"einsum", "siij,jk T2,2,3;3,2"},
    {"tensordot", "t2,3,2 t3,2,2 d2"},
    {"tensordot", "t2,3 t2,3 d0,0"},
    {"linalg_multi_dot", "T2,3;3,2;2,2"},
    {"linalg_vander", "t3"},
    {"linalg_cholesky_ex", "S3,3"},
    {"linalg_cholesky_ex", "S2,2,2 b1"},
    {"linalg_cholesky", "S3,3"},
    {"linalg_lu_factor_ex", "t3,3"},
    {"linalg_lu_factor_ex", "t2,4,3"},
    {"linalg_lu_factor_ex", "t3,4"},
    {"linalg_lu_factor_ex", "t3,3 b0"},
    {"linalg_lu_factor", "t3,3"},
    {"lu", "t3,3"},
    {"lu_unpack 1", "t4,3 I3"},
    {"lu_unpack 2", "t3,4 I3"},
    {"linalg_lu 1", "t4,3"},
    {"linalg_lu 2", "t3,4"},
    {"linalg_qr", "t3,3"},
    {"linalg_qr", "t4,2"},
    {"linalg_qr 1", "t4,2"},
    {"linalg_qr", "t2,3"},
    {"linalg_qr 1", "t2,2,4"},
    {"linalg_householder_product", "t4,3 t2"},
    {"linalg_eigh", "S3,3"},
    {"linalg_eigh 1", "S3,3"},
    {"linalg_eigh 1", "S2,3,3 sU"},
    {"linalg_eigvalsh", "S3,3"},
    {"linalg_svd", "t3,3 b0"},
    {"linalg_svd", "t4,2 b0"},
    {"linalg_svd 1", "t2,4"},
    {"linalg_svd 2", "t2,2,4 b0"},
    {"linalg_svdvals", "t3,2"},
    {"svd 2", "t3,2"},
    {"linalg_polar", "t3,2"},
    {"linalg_polar 1", "t3,3"},
    {"solve_square", "t3,3 t3,2"},
    {"solve_triangle", "L3,3 t3,2"},
    {"solve_triangle", "L3,3 t2,3 b0 b0 b1"},
    {"linalg_solve_ex", "t3,3 t3"},
    {"linalg_solve", "t2,3,3 t3,2"},
    {"linalg_solve", "t3,3 t2,3 b0"},
    {"linalg_solve_triangular", "L3,3 t2,3,2"},
    {"triangular_solve", "t3,2 L3,3 b0 b1"},
    {"triangular_solve", "t3,2 L3,3 b0"},
    {"linalg_lu_solve", "t3,3 I3 t3,2"},
    {"linalg_lu_solve", "t3,3 I3 t2,3 b0 b1"},
    {"lu_solve", "t3,2 t3,3 I3"},
    {"cholesky_solve", "t3,2 L3,3"},
    {"cholesky_inverse", "L3,3"},
    {"linalg_inv_ex", "t3,3"},
    {"linalg_inv", "t2,3,3"},
    {"linalg_tensorinv", "t2,3,6"},
    {"linalg_tensorsolve", "t2,3,6 t2,3"},
    {"linalg_pinv", "t3,2"},
    {"linalg_pinv", "t2,3"},
    {"linalg_pinv", "S3,3 - - b1"},
    {"linalg_pinv_by", "t3,3 f0.01"},
    {"linalg_pinv_rcond", "t3,2 f0.01"},
    {"pinverse", "t2,3"},
    {"linalg_lstsq", "t4,2 t4,3"},
    {"linalg_lstsq 1", "t4,2 t4,3 f-1 sgels"},
    {"shared_value", "t2,3 c2,3"},
    {"linalg_det", "t3,3"},
    {"linalg_slogdet 1", "t2,3,3"},
    {"logdet", "S3,3"},
    {"linalg_matrix_exp", "t3,3"},
    {"linalg_matrix_power", "t3,3 i3"},
    {"linalg_matrix_power", "t3,3 i-2"},
    {"linalg_matrix_sqrth", "S3,3"},
    {"linalg_matrix_norm", "t3,2"},
    {"linalg_matrix_norm", "t3,2 f1"},
    {"linalg_matrix_norm_by", "t2,3,2 snuc d0,1"},
    {"linalg_norm", "t3,2"},
    {"linalg_norm", "t3,2 f-2"},
    {"linalg_norm_by", "t3,2 sfro"},
    {"norm", "t3,2 f3 d1"},
    {"norm_by", "t3,2 snuc"},
    {"linalg_cond", "t3,3"},
    {"linalg_cond_by", "t3,3 sfro"},
    {"max_pool2d_back", "t1,2,2,2 x1,2,2,2<9 d3,3"},
    {"avg_pool2d_back", "t1,2,3,3 d5,6 d3,2 d2,2 d1,0 b0 b1 i0"},
    {"avg_pool2d_back", "t2,2,2 d4,4 d2,2 d2,2 d0,0 b0 b1 i3"},
    {"dropout", "t4,5 f0.4"},
    {"dropout_draw", "t4,5 f0.4"},
    {"mse_loss", "t2,3 t2,3"},
    {"mse_loss", "t2,3 t2,3 ssum"},
    {"multi_margin_loss", "t4,3 x4<3"},
    {"margin_rows", "t4,3 x4<3 f0.5 i1"},
    {"margin_rows", "t4,3 x4<3 f0.5 i2"},
    {"margin_sum", "t4,3 t4,1 x4,1<3 i1 f0.5"},
    {"margin_squares", "t4,3 t4,1 x4,1<3 i1 f0.5"},
    {"margin_back", "t4,3 t4,1 x4,1<3 t4,1 i1 f0.5 i2"},
    {"multi_margin_loss", "t4,3 x4<3 i2 f0.5 c3 snone"},
    {"multilabel_margin_loss", "t2,4 x2,4<3"},
    {"nll_loss", "t4,3 x4<3"},
    {"nll_loss", "t4,3 x4<3 c3 i1 ssum"},
    {"cross_entropy", "t4,3 x4<3"},
    {"cross_entropy", "t4,3 x4<3 - i0 smean f0.2"},
    {"cross_entropy", "t2,3,2 x2,2<3 - i-100 snone"},
    {"pick", "t4,3 x4<3 i1"},
    {"add", "t2,3 t3"},
    {"add", "t2,1 t1,3 n2"},
    {"sub", "t2,3 t2,1 q0.5"},
    {"mul", "t2,3 t3"},
    {"mul", "t2,3 n3"},
    {"div", "t2,3 p3"},
    {"true_divide", "t2,3 p2,1"},
    {"div_trunc", "t2,3 p2,3"},
    {"floor_divide", "t2,3 p2,3"},
    {"remainder", "t2,3 p2,3"},
    {"fmod", "t2,3 p2,3"},
    {"neg", "t2,3"},
    {"abs", "t2,3"},
    {"sign", "t2,3"},
    {"exp", "t2,3"},
    {"log", "p2,3"},
    {"sqrt", "p2,3"},
    {"rsqrt", "p2,3"},
    {"reciprocal", "p2,3"},
    {"square", "t2,3"},
    {"sin", "t2,3"},
    {"cos", "t2,3"},
    {"tanh", "t2,3"},
    {"sigmoid", "t2,3"},
    {"erf", "t2,3"},
    {"floor", "t2,3"},
    {"ceil", "t2,3"},
    {"trunc", "t2,3"},
    {"relu", "t2,3"},
    {"gelu", "t2,3"},
    {"gelu", "t2,3 stanh"},
    {"gelu_tanh", "t2,3"},
    {"silu", "t2,3"},
    {"pow", "p2,3 t3"},
    {"pow", "t2,3 n3"},
    {"pow", "p2,3 q1.5"},
    {"pow", "q2.5 t2,3"},
    {"maximum", "t2,3 t2,3"},
    {"minimum", "t2,3 t3"},
    {"clamp", "t2,3 q-0.7 q0.9"},
    {"clamp", "t2,3 t3 -"},
    {"clamp_min", "t2,3 t2,3"},
    {"clamp_max", "t2,3 q0.4"},
    {"where", "m2,3 t2,3 t3"},
    {"where", "m2,3 t2,3 n1"},
    {"masked_fill", "t2,3 m2,3 n1"},
    {"masked_fill", "t2,3 m2,3 t"},
    {"sum", "t2,3"},
    {"sum", "t2,3,2 d0,2"},
    {"sum", "t2,3,2 d1 b1"},
    {"mean", "t2,3"},
    {"mean", "t2,3,2 d-1"},
    {"prod", "t2,3"},
    {"prod", "t2,3 i1"},
    {"amax", "t2,3 d1"},
    {"amin", "t2,3"},
    {"max", "t2,3"},
    {"max_dim", "t2,3 i1"},
    {"max_dim", "t2,3 i0 b1"},
    {"min", "t2,3"},
    {"min_dim", "t2,3 i1"},
    {"var", "t2,4 d1"},
    {"var", "t2,4 - f0"},
    {"std", "t2,4 d1 f1 b1"},
    {"logsumexp", "t2,3 d1"},
    {"softmax", "t2,3 i1"},
    {"softmax", "t2,3,2 i1"},
    {"log_softmax", "t2,3 i0"},
    {"to", "t2,3 D"},
    {"to_dtype", "t2,3 y0"},
    {"clone", "t2,3"},
    {"contiguous", "t2,3"},
    {"copy", "t2,3 t3"},
    {"reshape", "t2,3 d3,-1"},
    {"view", "t2,3 d6"},
    {"flatten", "t2,3,2 i1"},
    {"transpose", "t2,3,2 i0 i-1"},
    {"t", "t2,3"},
    {"permute", "t2,3,4 d2,0,-2"},
    {"unsqueeze", "t2,3 i-1"},
    {"squeeze", "t2,1,3,1"},
    {"squeeze", "t2,1,3,1 d1"},
    {"expand", "t3,1 d2,3,4"},
    {"select", "t3,4 i1 i-2"},
    {"narrow", "t3,5 i1 i1 i3"},
    {"slice", "t3,7 i1 i1 i6 i2"},
    {"slice", "t7 i0 i-4 i100 i1"},
    {"alias", "t2,3"},
    {"as_strided", "t2,3 d2,2 d1,2"},
    {"as_strided", "t3,4 d3,3 d2,1 i2"},
    {"acos", "u2,3"},
    {"asin", "u2,3"},
    {"atanh", "u2,3"},
    {"acosh", "g2,3"},
    {"logit", "u2,3"},
    {"prelu", "t2,3 t3"},
    {"glu", "t2,4"},
    {"layer_norm", "t2,3 d3 t3 t3"},
    {"rms_norm", "t2,3 d3 t3"},
    {"instance_norm", "t2,3,4"},
    {"batch_norm", "t4,3 - - t3 t3 b1"},
    {"embedding_renorm", "x2,3<4 p4,3 - f9.5"},
    {"narrow_at", "t3,4 i1 x1<1 i2"},
    {"expand_copy", "t3,1 d2,3,4"},
    {"permute_copy", "t2,3 d1,0"},
    {"view_copy", "t2,3 d6"},
    {"split_with_sizes_copy", "t5,2 d2,3"},
    {"binary_cross_entropy", "u2,3 u2,3"},
    {"bce_each", "u2,3 u2,3"},
    {"cosine_embedding_loss", "t4,3 t4,3 x4<2"},
    {"mv", "t2,3 t3"},
    {"dot", "t3 t3"},
    {"outer", "t2 t3"},
    {"addmm", "t2,4 t2,3 t3,4 q1.5 q2.5"},
    {"addmv", "t2 t2,3 t3"},
    {"addr", "t2,3 t2 t3 q1.5 q2.5"},
    {"addbmm", "t2,4 t3,2,3 t3,3,4"},
    {"baddbmm", "t3,2,4 t3,2,3 t3,3,4"},
    {"vector_norm", "t2,3 f3 d1"},
    {"split_with_sizes", "t5,2 d2,3"},
    {"tensor_split_by", "t5,3 x2<5"},
    {"dsplit", "t1,2,4 i2"},
    {"dsplit_at", "t1,2,4 d1"},
    {"meshgrid", "T2;3"},
    {"cartesian_prod", "T2;3"},
    {"unflatten", "t2,6 i1 d2,-1"},
    {"repeat", "t2,3 d2,1,2"},
    {"repeat_interleave_by", "t3,2 x3<3 i0"},
    {"diagonal_backward", "t2 d2,3 i0 i0 i1"},
    {"select_scatter", "t3,4 t3 i1 i2"},
    {"slice_scatter", "t3,5 t3,2 i1 i1 i5 i2"},
    {"diagonal_scatter", "t3,4 t3"},
    {"topk", "t3,5 i2 i1"},
    {"cumprod", "t3,4 i1"},
    {"index_copy", "t4,3 i0 x2<4 t2,3"},
    {"take", "t3,4 x2,3<9"},
    {"take_along_dim", "t3,4 x3,2<4 i1"},
    {"take_along_dim", "t3,4 x5<9"},
    {"kthvalue", "t3,4 i2"},
    {"median_dim", "t3,5 i1"},
    {"nanmedian_dim", "t3,5 i0 b1"},
    {"mode", "t3,4"},
    {"quantile", "t3,4 q0.3"},
    {"quantile", "t3,4 u2 i1 b1"},
    {"quantile", "t3,4 q0.3 i0 b0 smidpoint"},
    {"nanquantile", "t3,4 u2"},
    {"diff", "t2,5 i2 i1"},
    {"diff", "t2,5 i1 i1 t2,1 t2,2"},
    {"trapezoid", "t2,4"},
    {"trapezoid", "t2,4 t4"},
    {"cumulative_trapezoid", "t2,4 t2,4"},
    {"gradient", "t4,3"},
    {"gradient", "t4 f0.5 d0 i2"},
    {"gradient_by", "t4,3 F2,0.5 - i2"},
    {"gradient_at", "t4,3 T4;3"},
    {"gradient_at", "t4,3 T3 d1 i2"},
    {"cov", "t3,4"},
    {"cov", "t2,4 i0 x4<3 p4"},
    {"corrcoef", "t3,4"},
    {"logcumsumexp", "t3,5 i1"},
    {"renorm", "t3,4 f2 i0 f0.7"},
    {"masked_select", "t3,4 m3,4"},
    {"masked_scatter", "t3,4 m3,4 t3,4"},
    {"unique", "t5"},
    {"unique_consecutive", "t5"},
    {"combinations", "t4"},
    {"put", "t3,4 x3<9 t3 b1"},
    {"put", "t3,4 x3<9 t3 b0"},
    {"index_put", "t3,4 X2<3 t2,4"},
    {"index_put", "t3,4 X5<3;5<4 t5 b1"},
    {"index", "t3,4 X2<3"},
    {"index", "t3,4,2 X2,1<3;3<2 d0,2"},
    {"index", "t3,4,2 X2,2<4;2<2 d1,-1"},
    {"index_fill", "t3,4 i1 x2<4 q1.5"},
    {"index_fill", "t3,4 i1 x5<3 t"},
    {"scatter_reduce", "t4,3 i0 x3,3<2 t3,3 ssum b0"},
    {"scatter_reduce", "t4,3 i0 x3,3<2 t3,3 smean"},
    {"scatter_reduce", "t4,3 i0 x3,3<2 t3,3 sprod"},
    {"scatter_reduce", "t4,3 i0 x3,3<2 t3,3 samax b0"},
    {"scatter_fold", "t4,3 i0 x3,3<2 t3,3 samin"},
    {"index_reduce", "t4,3 i0 x5<4 t5,3 sprod b0"},
    {"index_reduce", "t4,3 i0 x5<4 t5,3 smean"},
    {"as_strided_scatter", "t3,4 t2,2 d2,2 d1,2 i1"},
    {"frexp", "p2,3"},
    {"lgamma", "t2,3"},
    {"digamma", "t2,3"},
    {"trigamma", "p2,3"},
    {"polygamma", "i0 p2,3"},
    {"polygamma", "i3 p2,3"},
    {"zeta", "n3 p2,3"},
    {"igamma", "k2,3 p2,3"},
    {"igammac", "k2,3 p2,3"},
    {"polygamma_by", "p2,3 f3 f0.5"},
    {"mvlgamma", "g2,3 i3"},
    {"log_ndtr", "t2,3"},
    {"ndtri", "u2,3"},
    {"erfinv", "u2,3"},
    {"erfcx", "t2,3"},
    {"i1", "t2,3"},
    {"i0e", "t2,3"},
    {"i1e", "t2,3"},
    {"nextafter", "t2,3 t2,3"},
};
enum { SAMPLES = sizeof samples / sizeof samples[0] };

/* ---- arguments from words ----------------------------------------------- */

#define ROOM 8
struct call {
    const tn_op *op;
    bool in_place;
    tn_value value[TN__OP_MAX_ARGS];
    int count;
    tn_dims_list dims[TN__OP_MAX_ARGS];
    char text[TN__OP_MAX_ARGS][16];
    double floats[ROOM];
    tn_tensor *whole[ROOM];
    tn_tensor *leaf[ROOM]; /* inputs of gradcheck, in order */
    int leaf_count;
    int leaf_of[TN__OP_MAX_ARGS]; /* number of the (first) leaf, or -1 */
    char kind[TN__OP_MAX_ARGS];   /* of the word: S and L make something of it */
    int output;
    uint64_t state;
};

/* In [low, high), without pattern: Knuth's MMIX generator. */
static double draw(struct call *call, double low, double high)
{
    call->state = call->state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(call->state >> 11) * 0x1p-53;
}

static const char *read_dims(const char *at, tn_dims_list *dims)
{
    dims->count = 0;
    while (*at == '-' || (*at >= '0' && *at <= '9')) {
        char *end;
        dims->dim[dims->count++] = strtoll(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    return at;
}

static tn_tensor *make_tensor(struct call *call, char kind,
                              const tn_dims_list *shape, int64_t bound)
{
    double number[256];
    int64_t whole[256];
    unsigned char mask[256];
    int64_t numel = 1;
    for (int d = 0; d < shape->count; d++)
        numel *= shape->dim[d];
    for (int64_t i = 0; i < numel; i++) {
        number[i] = kind == 'p' || kind == 'k' ? draw(call, 0.5, 2)
                    : kind == 'u' ? draw(call, 0.1, 0.9)
                    : kind == 'g' ? draw(call, 1.2, 3)
                    : kind == 'o' ? 1
                                  : draw(call, -2, 2);
        whole[i] = i % (bound ? bound : 1);
        mask[i] = i % 3 != 1;
    }
    if (kind == 'x')
        return tn_tensor_from_array(whole, TN_I64, *shape);
    if (kind == 'I') {
        int32_t along[256];
        int64_t last = shape->count ? shape->dim[shape->count - 1] : 1;
        for (int64_t i = 0; i < numel; i++)
            along[i] = (int32_t)(i % last + 1);
        return tn_tensor_from_array(along, TN_I32, *shape);
    }
    if (kind == 'm')
        return tn_tensor_from_array(mask, TN_BOOL, *shape);
    tn_tensor *x = tn_tensor_from_array(number, TN_F64, *shape);
    return strchr("cok", kind) ? x : tn_requires_grad(x);
}

static void read_tensor(struct call *call, const char *word, tn_value *value)
{
    tn_dims_list shape;
    const char *at = read_dims(word + 1, &shape);
    int64_t bound = *at == '<' ? strtoll(at + 1, NULL, 10) : 0;
    *value = tn__value_tensor(make_tensor(call, word[0], &shape, bound));
    if (strchr("tpugSLN", word[0])) {
        call->leaf_of[call->count] = call->leaf_count;
        call->leaf[call->leaf_count++] = value->of.tensor;
    }
}

static void read_list(struct call *call, const char *word, tn_value *value)
{
    int first = call->leaf_count;
    for (const char *at = word; *at == 'T' || *at == ';';) {
        tn_dims_list shape;
        at = read_dims(at + 1, &shape);
        call->leaf[call->leaf_count++] = make_tensor(call, 't', &shape, 0);
    }
    call->leaf_of[call->count] = first;
    *value = tn__value_tensors(&call->leaf[first], call->leaf_count - first);
}

static void read_whole_list(struct call *call, const char *word,
                            tn_value *value)
{
    int count = 0;
    for (const char *at = word; *at == 'X' || *at == ';';) {
        tn_dims_list shape;
        char *end;
        at = read_dims(at + 1, &shape);
        call->whole[count++] =
            make_tensor(call, 'x', &shape, strtoll(at + 1, &end, 10));
        at = end;
    }
    *value = tn__value_tensors(call->whole, count);
}

static void read_floats(struct call *call, const char *word, tn_value *value)
{
    int count = 0;
    for (const char *at = word; *at == 'F' || *at == ',';) {
        char *end;
        call->floats[count++] = strtod(at + 1, &end);
        at = end;
    }
    *value = tn__value_floats(call->floats, count);
}

static void read_word(struct call *call, const char *word)
{
    int i = call->count;
    tn_value *value = &call->value[i];
    call->leaf_of[i] = -1;
    call->kind[i] = word[0];
    switch (word[0]) {
    case 'S': case 'L': case 'N': case 'I': case 't': case 'p': case 'u': case 'g':
    case 'c': case 'k': case 'o': case 'x': case 'm':
        read_tensor(call, word, value);
        break;
    case 'T':
        read_list(call, word, value);
        break;
    case 'X':
        read_whole_list(call, word, value);
        break;
    case 'F':
        read_floats(call, word, value);
        break;
    case 'i':
        *value = tn__value_int(strtoll(word + 1, NULL, 10));
        break;
    case 'n':
        *value = tn__value_number(tn_num(strtoll(word + 1, NULL, 10)));
        break;
    case 'f':
        *value = tn__value_float(strtod(word + 1, NULL));
        break;
    case 'q':
        *value = tn__value_number(tn_num(strtod(word + 1, NULL)));
        break;
    case 'd':
        read_dims(word + 1, &call->dims[i]);
        *value = tn__value_dims(&call->dims[i]);
        break;
    case 's':
        snprintf(call->text[i], sizeof call->text[i], "%s", word + 1);
        *value = tn__value_string(call->text[i]);
        break;
    case 'b':
        *value = tn__value_bool(word[1] == '1');
        break;
    case 'y':
        *value = tn__value_dtype(TN_F64);
        break;
    case 'D':
        *value = tn__value_device(tn_device_current());
        break;
    default:
        *value = tn__value_none();
    }
    call->count++;
}

/* By its name in C: tn_op_find("max") may give another row of that name. */
static const tn_op *find_row(const char *name)
{
    for (int i = 0; i < tn_op_count(); i++)
        if (strcmp(tn_op_name(tn_op_at(i)), name) == 0)
            return tn_op_at(i);
    return NULL;
}

static void read_call(struct call *call, const struct sample *sample)
{
    memset(call, 0, sizeof *call);
    call->state = 99;
    char name[64];
    snprintf(name, sizeof name, "%s", sample->op);
    char *space = strchr(name, ' ');
    if (space) {
        *space = '\0';
        call->output = atoi(space + 1);
    }
    call->op = find_row(name);
    char words[128];
    snprintf(words, sizeof words, "%s", sample->arguments);
    char *save = NULL;
    for (char *word = strtok_r(words, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        read_word(call, word);
}

/* ---- the comparison ----------------------------------------------------- */

/* What an operator that takes not every matrix gets for a leaf. */
static tn_tensor *derived(tn_tensor *x, char kind)
{
    if (kind == 'N')
        return tn_log_softmax(x, -1);
    if (kind != 'S' && kind != 'L')
        return x;
    tn_tensor *one = tn_eye(tn_tensor_size(x, -1), .dtype = TN_F64);
    return kind == 'S'
               ? tn_add(tn_matmul(x, tn_transpose(x, -1, -2)), one)
               : tn_add(tn_tril(x), tn_mul_scalar(one, 2));
}

static tn_tensor *run(tn_tensor *const *inputs, int count, void *context)
{
    (void)count;
    const struct call *call = context;
    tn_value value[TN__OP_MAX_ARGS];
    tn_tensor *out[TN__OP_MAX_OUTPUTS];
    for (int i = 0; i < call->count; i++) {
        value[i] = call->value[i];
        if (call->leaf_of[i] < 0)
            continue;
        if (value[i].kind == TN_VALUE_TENSORS)
            value[i].of.tensors = inputs + call->leaf_of[i];
        else
            value[i].of.tensor =
                derived(inputs[call->leaf_of[i]], call->kind[i]);
    }
    if (call->in_place)
        value[0].of.tensor = tn_clone(value[0].of.tensor);
    tn_manual_seed(3); /* the same draw each time */
    return tn_op_call(call->op, value, call->count, out, TN__OP_MAX_OUTPUTS) <
                   0
               ? NULL
               : out[call->output];
}

/* Rows that have no gradient of the first or second order, as in PyTorch, and say
 * so. */
static const struct {
    const char *op;
    int order;
} refusing[] = {{"ctc_loss", 2}, {"ctc_forward", 2}, {"ctc_backward", 1}};

/* Rows that only some devices run, and where their gradients are tested. */
static const struct {
    const char *op, *where;
} elsewhere[] = {{"attention_forward", "tests/cuda/test_attention.c"}};

/* What was done, told at the end. */
static struct {
    int calls, checked[3], refused[3], in_place, left_out;
} counts;

static void check_order(const struct sample *sample, int order,
                        tn_status status)
{
    const char *which = order == 1 ? "gradient" : "second gradient";
    int refused = 0;
    for (size_t i = 0; i < sizeof refusing / sizeof *refusing; i++)
        if (strcmp(refusing[i].op, sample->op) == 0)
            refused = refusing[i].order;
    counts.checked[order]++;
    counts.refused[order] += refused && order >= refused;
    if (refused && order >= refused)
        ok(status == TN_ERR_UNSUPPORTED && tn_error() &&
               strstr(tn_error(), "has no gradient"),
           "%s of %s is refused", which, sample->op);
    else if (!ok(status == TN_OK, "%s of %s(%s)", which, sample->op,
                 sample->arguments))
        note("%s", tn_error() ? tn_error() : "no message");
    tn_error_clear();
}

static void check(const struct sample *sample)
{
    tn_scope *scope = tn_scope_open();
    struct call call;
    read_call(&call, sample);
    if (ok(call.op != NULL, "%s is in the table", sample->op)) {
        counts.calls++;
        check_order(sample, 1,
                    tn_gradcheck(run, call.leaf, call.leaf_count, &call));
        check_order(sample, 2,
                    tn_gradgradcheck(run, call.leaf, call.leaf_count, &call));
    }
    tn_scope_close(scope);
}

/* The twin that writes into its first argument: the same gradient, or, where
 * that needs what was overwritten, an error that says so. */
static void check_in_place(const struct sample *sample)
{
    char name[64];
    snprintf(name, sizeof name, "%s_", sample->op);
    if (!find_row(name))
        return;
    tn_scope *scope = tn_scope_open();
    struct call call;
    read_call(&call, sample);
    call.op = find_row(name);
    call.in_place = true;
    tn_tensor *out = run(call.leaf, call.leaf_count, &call);
    if (!out) /* the sample broadcasts its first argument */
        is_int(tn_error_code(), TN_ERR_SHAPE, "%s(%s) is refused", name,
               sample->arguments);
    tn_error_clear();
    if (out) {
        tn_status status = tn_gradcheck(run, call.leaf, call.leaf_count, &call);
        counts.in_place++;
        bool told = status == TN_ERR_STATE && tn_error() &&
                    strstr(tn_error(), "changed in place since by") != NULL;
        if (!ok(status == TN_OK || told, "gradient of %s(%s)%s", name,
                sample->arguments, told ? ", which is told to be lost" : ""))
            note("%s", tn_error() ? tn_error() : "no message");
        tn_error_clear();
    }
    tn_scope_close(scope);
}

static bool has_sample(const char *name)
{
    size_t length = strlen(name);
    if (name[length - 1] == '_')
        length--;
    for (int i = 0; i < SAMPLES; i++)
        if (strncmp(samples[i].op, name, length) == 0 &&
            (!samples[i].op[length] || samples[i].op[length] == ' '))
            return true;
    return false;
}

/* Words for the arguments that op requires: leaves of one shape, numbers that
 * most operators take. False if one of them can only be chosen by hand. */
static bool words_by_signature(const tn_op *op, char *text, size_t room)
{
    size_t length = 0;
    for (int i = 0; i < tn_op_arg_count(op); i++) {
        const tn_op_arg *arg = tn_op_arg_at(op, i);
        if (arg->optional || arg->fallback)
            break;
        static const struct {
            int kind;
            const char *word;
        } words[] = {{TN_VALUE_TENSOR, "p2,3"},   {TN_VALUE_TENSORS, "T2,3;2,3"},
                     {TN_VALUE_NUMBER, "q1.5"},   {TN_VALUE_FLOAT, "f0.5"},
                     {TN_VALUE_INT, "i1"},        {TN_VALUE_DIMS, "d1"},
                     {TN_VALUE_BOOL, "b1"}};
        const char *word = NULL;
        for (size_t k = 0; k < sizeof words / sizeof *words && !word; k++)
            if (arg->kinds & 1u << words[k].kind)
                word = words[k].word;
        if (!word || length + strlen(word) + 2 > room)
            return false;
        length += (size_t)snprintf(text + length, room - length, "%s%s",
                                   length ? " " : "", word);
    }
    return true;
}

/* Differences in float64 say nothing of a result in another dtype. */
static bool gives_float64(const struct sample *sample)
{
    tn_scope *scope = tn_scope_open();
    struct call call;
    read_call(&call, sample);
    tn_tensor *out = run(call.leaf, call.leaf_count, &call);
    bool wide = !out || tn_tensor_dtype(out) == TN_F64;
    tn_error_clear();
    tn_scope_close(scope);
    return wide;
}

static void check_by_signature(const tn_op *op)
{
    char text[120] = "";
    const struct sample sample = {tn_op_name(op), text};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strcmp(elsewhere[i].op, sample.op) == 0) {
            skip(1, elsewhere[i].where);
            return;
        }
    if (!ok(words_by_signature(op, text, sizeof text), "%s has a sample",
            sample.op))
        return;
    if (gives_float64(&sample))
        check(&sample);
    else {
        counts.left_out++;
        note("%s: float64 in, another dtype out", sample.op);
        skip(1, "differences in float64 say nothing of its result");
    }
}

int main(void)
{
    plan_later();
    for (int i = 0; i < tn_op_count(); i++) {
        const tn_op *op = tn_op_at(i);
        if (tn_op_is_differentiable(op) && !op->inplace &&
            !has_sample(tn_op_name(op)))
            check_by_signature(op);
    }
    for (int i = 0; i < SAMPLES; i++) {
        check(&samples[i]);
        check_in_place(&samples[i]);
    }
    note("%d calls: %d gradients held against differences (%d of them have to "
         "be refused), %d second gradients (%d), %d in place; of %d more rows "
         "the result is not float64", counts.calls, counts.checked[1],
         counts.refused[1], counts.checked[2], counts.refused[2],
         counts.in_place, counts.left_out);
    return done_testing();
}
