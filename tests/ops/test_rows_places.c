/* Tests operators that move elements: views and copies, products, windows,
 * indices, embedding bags. On each available device, small results print as in
 * PyTorch 2.x. */
#include "rows.h"

static void check_bags(void)
{
    const int64_t row[] = {0, 1, 3, 2, 3, 1}, start[] = {0, 3, 5, 6};
    const int64_t few[] = {0, 3, 3, 3};
    tn_tensor *w = tn_reshape(tn_arange(0, 12, 1, .dtype = TN_F32),
                              tn_dims(4, 3));
    tn_tensor *i = tn_tensor_from_array(row, TN_I64, tn_dims(6));
    tn_tensor *at = tn_tensor_from_array(start, TN_I64, tn_dims(4));
    tn_tensor *j = tn_tensor_from_array(few, TN_I64, tn_dims(2, 2));
    check("embedding_bag: sums without the padding",
          tn_embedding_bag(i, w, at, .mode = "sum", .padding_idx = 1,
                           .include_last_offset = true),
          "tensor([[ 9., 11., 13.],\n"
          "        [15., 17., 19.],\n"
          "        [ 0.,  0.,  0.]])");
    check("embedding_bag: means",
          tn_embedding_bag(i, w, at, .padding_idx = -3,
                           .include_last_offset = true),
          "tensor([[4.5000, 5.5000, 6.5000],\n"
          "        [7.5000, 8.5000, 9.5000],\n"
          "        [0.0000, 0.0000, 0.0000]])");
    check("embedding_bag: the greatest",
          tn_embedding_bag(i, w, at, .mode = "max", .padding_idx = 1,
                           .include_last_offset = true),
          "tensor([[ 9., 10., 11.],\n"
          "        [ 9., 10., 11.],\n"
          "        [ 0.,  0.,  0.]])");
    check("embedding_bag: bags of one length",
          tn_embedding_bag(j, w, NULL, .mode = "max"),
          "tensor([[ 9., 10., 11.],\n"
          "        [ 9., 10., 11.]])");
    tn_tensor *leaf = tn_requires_grad(tn_clone(w));
    check("embedding_bag: gradients by frequency",
          gradient(tn_embedding_bag(j, leaf, NULL, .scale_grad_by_freq = true),
                   leaf),
          "tensor([[0.5000, 0.5000, 0.5000],\n"
          "        [0.0000, 0.0000, 0.0000],\n"
          "        [0.0000, 0.0000, 0.0000],\n"
          "        [0.5000, 0.5000, 0.5000]])");
    leaf = tn_requires_grad(tn_clone(w));
    check("embedding: gradients by frequency",
          gradient(tn_embedding(j, leaf, .scale_grad_by_freq = true), leaf),
          "tensor([[1., 1., 1.],\n"
          "        [0., 0., 0.],\n"
          "        [0., 0., 0.],\n"
          "        [1., 1., 1.]])");
}

static void check_shapes(const rows_input *in)
{
    tn_tensor *x = in->x, *y = in->y, *i = in->i, *v = in->v, *img = in->img;

    check("reshape with -1",
          tn_reshape(x, tn_dims(3, -1)),
          "tensor([[ 1., -2.],\n"
          "        [ 3.,  4.],\n"
          "        [ 5., -6.]])");
    check("reshape of a transposed tensor",
          tn_reshape(tn_t(x), tn_dims(2, 3)),
          "tensor([[ 1.,  4., -2.],\n"
          "        [ 5.,  3., -6.]])");
    check("view",
          tn_view(x, tn_dims(6)),
          "tensor([ 1., -2.,  3.,  4.,  5., -6.])");
    check("flatten",
          tn_flatten(img, .start_dim = 2),
          "tensor([[[ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
          "          14., 15.],\n"
          "         [16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27., 28., 29.,\n"
          "          30., 31.]]])");
    check("transpose",
          tn_transpose(x, 0, 1),
          "tensor([[ 1.,  4.],\n"
          "        [-2.,  5.],\n"
          "        [ 3., -6.]])");
    check("t",
          tn_t(x),
          "tensor([[ 1.,  4.],\n"
          "        [-2.,  5.],\n"
          "        [ 3., -6.]])");
    check("permute",
          tn_permute(tn_unsqueeze(x, 0), tn_dims(2, 0, 1)),
          "tensor([[[ 1.,  4.]],\n"
          "\n"
          "        [[-2.,  5.]],\n"
          "\n"
          "        [[ 3., -6.]]])");
    check("unsqueeze",
          tn_unsqueeze(v, -1),
          "tensor([[1.],\n"
          "        [2.],\n"
          "        [3.]])");
    check("squeeze",
          tn_squeeze(tn_unsqueeze(v, 0)),
          "tensor([1., 2., 3.])");
    check("expand",
          tn_expand(v, tn_dims(2, -1)),
          "tensor([[1., 2., 3.],\n"
          "        [1., 2., 3.]])");
    check("select",
          tn_select(x, 1, -1),
          "tensor([ 3., -6.])");
    check("narrow",
          tn_narrow(x, 1, 1, 2),
          "tensor([[-2.,  3.],\n"
          "        [ 5., -6.]])");
    check("slice",
          tn_slice(x, 1, 0, 3, 2),
          "tensor([[ 1.,  3.],\n"
          "        [ 4., -6.]])");
    check("detach",
          tn_detach(x),
          "tensor([[ 1., -2.,  3.],\n"
          "        [ 4.,  5., -6.]])");
    check("as_strided",
          tn_as_strided(x, tn_dims(2, 2), tn_dims(1, 2)),
          "tensor([[ 1.,  3.],\n"
          "        [-2.,  4.]])");
    check("contiguous",
          tn_contiguous(tn_t(x)),
          "tensor([[ 1.,  4.],\n"
          "        [-2.,  5.],\n"
          "        [ 3., -6.]])");
    check("cat",
          tn_cat(((tn_tensor *[]){x, y}), 2, 1),
          "tensor([[ 1.0000, -2.0000,  3.0000,  2.0000,  2.0000,  2.0000],\n"
          "        [ 4.0000,  5.0000, -6.0000,  0.5000, -1.0000,  3.0000]])");
    check("cat of two dtypes",
          tn_cat(((tn_tensor *[]){x, i}), 2, 0),
          "tensor([[ 1., -2.,  3.],\n"
          "        [ 4.,  5., -6.],\n"
          "        [ 3., -4.,  5.],\n"
          "        [ 7.,  0., -2.]])");
    check("stack",
          tn_stack(((tn_tensor *[]){x, y}), 2, 1),
          "tensor([[[ 1.0000, -2.0000,  3.0000],\n"
          "         [ 2.0000,  2.0000,  2.0000]],\n"
          "\n"
          "        [[ 4.0000,  5.0000, -6.0000],\n"
          "         [ 0.5000, -1.0000,  3.0000]]])");
}

static void check_products(const rows_input *in)
{
    tn_tensor *x = in->x, *y = in->y, *v = in->v, *bias = in->bias;

    check("matmul",
          tn_matmul(x, tn_t(y)),
          "tensor([[  4.0000,  11.5000],\n"
          "        [  6.0000, -21.0000]])");
    check("matmul of a matrix and a vector",
          tn_matmul(x, v),
          "tensor([ 6., -4.])");
    check("matmul of a vector and a matrix",
          tn_matmul(v, tn_t(x)),
          "tensor([ 6., -4.])");
    check("matmul of vectors",
          tn_matmul(v, v),
          "tensor(14.)");
    check("matmul of batches that broadcast",
          tn_matmul(tn_unsqueeze(x, 0), tn_expand(tn_t(y), tn_dims(2, 3, 2))),
          "tensor([[[  4.0000,  11.5000],\n"
          "         [  6.0000, -21.0000]],\n"
          "\n"
          "        [[  4.0000,  11.5000],\n"
          "         [  6.0000, -21.0000]]])");
    check("matmul over nothing",
          tn_matmul(tn_zeros(tn_dims(2, 0)), tn_zeros(tn_dims(0, 2))),
          "tensor([[0., 0.],\n"
          "        [0., 0.]])");
    check("mm",
          tn_mm(x, tn_t(y)),
          "tensor([[  4.0000,  11.5000],\n"
          "        [  6.0000, -21.0000]])");
    check("bmm",
          tn_bmm(tn_unsqueeze(x, 0), tn_unsqueeze(tn_t(y), 0)),
          "tensor([[[  4.0000,  11.5000],\n"
          "         [  6.0000, -21.0000]]])");
    check("linear",
          tn_linear(x, y, bias),
          "tensor([[  4.5000,  11.0000],\n"
          "        [  6.5000, -21.5000]])");
    check("linear without bias",
          tn_linear(x, y, NULL),
          "tensor([[  4.0000,  11.5000],\n"
          "        [  6.0000, -21.0000]])");
}

static void check_windows(const rows_input *in)
{
    tn_tensor *i = in->i, *bias = in->bias, *img = in->img, *w = in->w;

    check("conv2d",
          tn_conv2d(img, w, bias),
          "tensor([[[[-147.6250, -166.7500],\n"
          "          [-224.1250, -243.2500]],\n"
          "\n"
          "         [[ 377.8750,  399.2500],\n"
          "          [ 463.3750,  484.7500]]]])");
    check("conv2d with stride and padding",
          tn_conv2d(img, w, bias, .stride = 2, .paddings = tn_dims(1, 0)),
          "tensor([[[[ -55.5000],\n"
          "          [-224.1250]],\n"
          "\n"
          "         [[ 240.5000],\n"
          "          [ 463.3750]]]])");
    check("conv2d with dilation",
          tn_conv2d(img, tn_narrow(tn_narrow(w, 2, 0, 2), 3, 0, 2), NULL, .dilation = 2),
          "tensor([[[[ -94.0000, -104.5000],\n"
          "          [-136.0000, -146.5000]],\n"
          "\n"
          "         [[ 140.0000,  147.5000],\n"
          "          [ 170.0000,  177.5000]]]])");
    check("conv2d with groups",
          tn_conv2d(img, tn_narrow(w, 1, 0, 1), NULL, .groups = 2),
          "tensor([[[[ -63.3750,  -78.0000],\n"
          "          [-121.8750, -136.5000]],\n"
          "\n"
          "         [[ 127.8750,  133.5000],\n"
          "          [ 150.3750,  156.0000]]]])");
    check("conv2d padded to the same size",
          tn_conv2d(img, tn_narrow(w, 3, 0, 2), NULL, .padding_rule = "same"),
          "tensor([[[[ -39.5000,  -47.0000,  -54.5000,  -32.5000],\n"
          "          [-102.3750, -115.8750, -129.3750,  -73.8750],\n"
          "          [-156.3750, -169.8750, -183.3750, -102.3750],\n"
          "          [-155.0000, -165.5000, -176.0000,  -96.0000]],\n"
          "\n"
          "         [[ 149.5000,  160.0000,  170.5000,   84.5000],\n"
          "          [ 235.1250,  248.6250,  262.1250,  128.6250],\n"
          "          [ 289.1250,  302.6250,  316.1250,  154.1250],\n"
          "          [ 178.0000,  185.5000,  193.0000,   93.0000]]]])");
    check("conv2d of one image",
          tn_conv2d(tn_select(img, 0, 0), w, NULL),
          "tensor([[[-148.1250, -167.2500],\n"
          "         [-224.6250, -243.7500]],\n"
          "\n"
          "        [[ 378.3750,  399.7500],\n"
          "         [ 463.8750,  485.2500]]])");
    check("max_pool2d",
          tn_max_pool2d(img, tn_dims(2)),
          "tensor([[[[ 5.,  7.],\n"
          "          [13., 15.]],\n"
          "\n"
          "         [[21., 23.],\n"
          "          [29., 31.]]]])");
    check("max_pool2d with padding",
          tn_max_pool2d(img, tn_dims(3), .stride = 2, .padding = 1),
          "tensor([[[[ 5.,  7.],\n"
          "          [13., 15.]],\n"
          "\n"
          "         [[21., 23.],\n"
          "          [29., 31.]]]])");
    check("max_pool2d with dilation",
          tn_max_pool2d(img, tn_dims(2), .stride = 1, .dilation = 2),
          "tensor([[[[10., 11.],\n"
          "          [14., 15.]],\n"
          "\n"
          "         [[26., 27.],\n"
          "          [30., 31.]]]])");
    check("max_pool2d rounded up",
          tn_max_pool2d(img, tn_dims(3), .stride = 2, .ceil_mode = true),
          "tensor([[[[10., 11.],\n"
          "          [14., 15.]],\n"
          "\n"
          "         [[26., 27.],\n"
          "          [30., 31.]]]])");
    check("max_pool2d of int16: padding is below all",
          tn_max_pool2d(tn_to_dtype(tn_reshape(tn_sub_scalar(
                            tn_neg(tn_square(i)), 1), tn_dims(1, 2, 3)),
                            TN_I16),
                        tn_dims(2), .stride = 1, .padding = 1),
          "tensor([[[-10, -10, -17, -26],\n"
          "         [-10,  -1,  -1,  -5],\n"
          "         [-50,  -1,  -1,  -5]]], dtype=torch.int16)");
    const uint8_t bytes[] = {0, 255, 7, 100, 31, 200};
    tn_tensor *image =
        tn_tensor_from_array(bytes, TN_U8, tn_dims(1, 1, 2, 3));
    const float sample[] = {0.3f, 0.8f, 0.55f, 0.1f};
    tn_tensor *samples = tn_tensor_from_array(sample, TN_F32, tn_dims(1, 2, 2));
    tn_tensor *planes = tn_remainder_scalar(
        tn_reshape(tn_arange(0, 50, 1, .dtype = TN_F32), tn_dims(1, 2, 5, 5)),
        7);
    check("fractional_max_pool2d",
          tn_fractional_max_pool2d(planes, tn_dims(2), tn_dims(3, 2),
                                   .random_samples = samples),
          "tensor([[[[6., 4.],\n"
          "          [6., 6.],\n"
          "          [6., 5.]],\n"
          "\n"
          "         [[5., 6.],\n"
          "          [3., 6.],\n"
          "          [6., 6.]]]])");
    const double ratio[] = {0.5, 0.7};
    check("fractional_max_pool2d by parts",
          tn_fractional_max_pool2d(planes, tn_dims(3, 1), TN_SCALAR,
                                   .output_ratio = ratio,
                                   .output_ratio_count = 2,
                                   .random_samples = samples),
          "tensor([[[[5., 5., 4.],\n"
          "          [6., 5., 5.]],\n"
          "\n"
          "         [[4., 6., 6.],\n"
          "          [5., 5., 4.]]]])");
    check("interpolate of uint8 rounds after each dimension",
          tn_to_dtype(tn_interpolate(image, tn_dims(3, 5), .mode = "bilinear"),
                      TN_I64),
          "tensor([[[[  0, 102, 255, 106,   7],\n"
          "          [ 50,  87, 143, 119, 104],\n"
          "          [100,  72,  31, 132, 200]]]])");
    check("interpolate of uint8, bicubic",
          tn_to_dtype(tn_interpolate(image, tn_dims(1, 5), .mode = "bicubic"),
                      TN_I64),
          "tensor([[[[ 54,  89, 143, 126, 108]]]])");
    check("interpolate of uint8, antialiased",
          tn_to_dtype(tn_interpolate(image, tn_dims(2, 2), .mode = "bilinear",
                         .antialias = true),
                      TN_I64),
          "tensor([[[[ 96, 100],\n"
          "          [ 74, 137]]]])");
    check("avg_pool2d",
          tn_avg_pool2d(img, tn_dims(2)),
          "tensor([[[[ 2.5000,  4.5000],\n"
          "          [10.5000, 12.5000]],\n"
          "\n"
          "         [[18.5000, 20.5000],\n"
          "          [26.5000, 28.5000]]]])");
    check("avg_pool2d with padding",
          tn_avg_pool2d(img, tn_dims(3), .stride = 2, .padding = 1),
          "tensor([[[[ 1.1111,  2.6667],\n"
          "          [ 5.6667, 10.0000]],\n"
          "\n"
          "         [[ 8.2222, 13.3333],\n"
          "          [16.3333, 26.0000]]]])");
    check("avg_pool2d without counting padding",
          tn_avg_pool2d(img, tn_dims(3), .stride = 2, .padding = 1, .count_include_pad = false),
          "tensor([[[[ 2.5000,  4.0000],\n"
          "          [ 8.5000, 10.0000]],\n"
          "\n"
          "         [[18.5000, 20.0000],\n"
          "          [24.5000, 26.0000]]]])");
    check("avg_pool2d over a given number",
          tn_avg_pool2d(img, tn_dims(2), .divisor_override = 2),
          "tensor([[[[ 5.,  9.],\n"
          "          [21., 25.]],\n"
          "\n"
          "         [[37., 41.],\n"
          "          [53., 57.]]]])");
}

static void check_indices(const rows_input *in)
{
    tn_tensor *x = in->x, *y = in->y, *k = in->k;

    check("index_select",
          tn_index_select(x, 1, k),
          "tensor([[ 3.,  1.],\n"
          "        [-6.,  4.]])");
    check("gather",
          tn_gather(x, 1, tn_unsqueeze(k, 1)),
          "tensor([[3.],\n"
          "        [4.]])");
    check("scatter",
          tn_scatter(x, 1, tn_unsqueeze(k, 1), tn_neg(x)),
          "tensor([[ 1., -2., -1.],\n"
          "        [-4.,  5., -6.]])");
    check("scatter of a number",
          tn_scatter_scalar(x, 1, tn_unsqueeze(k, 1), 9),
          "tensor([[ 1., -2.,  9.],\n"
          "        [ 9.,  5., -6.]])");
    check("scatter_add",
          tn_scatter_add(x, 1, tn_zeros(tn_dims(2, 3), .dtype = TN_I64), y),
          "tensor([[ 7.0000, -2.0000,  3.0000],\n"
          "        [ 6.5000,  5.0000, -6.0000]])");
    check("index_add",
          tn_index_add(x, 1, k, tn_narrow(y, 1, 0, 2), .alpha = 2),
          "tensor([[ 5., -2.,  7.],\n"
          "        [ 2.,  5., -5.]])");
    check("embedding",
          tn_embedding(k, tn_t(x)),
          "tensor([[ 3., -6.],\n"
          "        [ 1.,  4.]])");
    check("one_hot",
          tn_one_hot(k),
          "tensor([[0, 0, 1],\n"
          "        [1, 0, 0]])");
    check("tril",
          tn_tril(x),
          "tensor([[1., 0., 0.],\n"
          "        [4., 5., 0.]])");
    check("triu",
          tn_triu(x, .diagonal = 1),
          "tensor([[ 0., -2.,  3.],\n"
          "        [ 0.,  0., -6.]])");
}

static void check_all(const rows_input *in, tn_device *device)
{
    (void)device;
    check_shapes(in);
    check_products(in);
    check_windows(in);
    check_indices(in);
    check_bags();
}

int main(void)
{
    plan_later();
    rows_on_devices(check_all);
    return done_testing();
}
