/* Tests the printed form of tensors, which equals PyTorch 2.x's. It contains
 * the device's name on reference, but not on the cpu. */
#include <tap.h>
#include <tenon/ops.h>

static void check(const char *name, tn_tensor *x, const char *want)
{
    char *text = tn_tensor_text(x);
    is_str(text ? text : tn_error(), want, "%s", name);
    free(text);
    tn_error_clear();
}

static void check_texts(void)
{
    check("a matrix",
          tn_reshape(tn_arange(0, 6, 1, .dtype = TN_F32), tn_dims(2, 3)),
          "tensor([[0., 1., 2.],\n"
          "        [3., 4., 5.]])");
    check("three dimensions",
          tn_reshape(tn_arange(0, 24, 1), tn_dims(2, 3, 4)),
          "tensor([[[ 0,  1,  2,  3],\n"
          "         [ 4,  5,  6,  7],\n"
          "         [ 8,  9, 10, 11]],\n"
          "\n"
          "        [[12, 13, 14, 15],\n"
          "         [16, 17, 18, 19],\n"
          "         [20, 21, 22, 23]]])");
    check("a long vector is summarised",
          tn_arange(0, 2000, 1),
          "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])");
    check("a large matrix is summarised in both",
          tn_reshape(tn_arange(0, 2000, 1, .dtype = TN_F32), tn_dims(40, 50)),
          "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 4.7000e+01, 4.8000e+01,\n"
          "         4.9000e+01],\n"
          "        [5.0000e+01, 5.1000e+01, 5.2000e+01,  ..., 9.7000e+01, 9.8000e+01,\n"
          "         9.9000e+01],\n"
          "        [1.0000e+02, 1.0100e+02, 1.0200e+02,  ..., 1.4700e+02, 1.4800e+02,\n"
          "         1.4900e+02],\n"
          "        ...,\n"
          "        [1.8500e+03, 1.8510e+03, 1.8520e+03,  ..., 1.8970e+03, 1.8980e+03,\n"
          "         1.8990e+03],\n"
          "        [1.9000e+03, 1.9010e+03, 1.9020e+03,  ..., 1.9470e+03, 1.9480e+03,\n"
          "         1.9490e+03],\n"
          "        [1.9500e+03, 1.9510e+03, 1.9520e+03,  ..., 1.9970e+03, 1.9980e+03,\n"
          "         1.9990e+03]])");
    check("a large cube",
          tn_reshape(tn_arange(0, 3000, 1), tn_dims(3, 10, 100)),
          "tensor([[[   0,    1,    2,  ...,   97,   98,   99],\n"
          "         [ 100,  101,  102,  ...,  197,  198,  199],\n"
          "         [ 200,  201,  202,  ...,  297,  298,  299],\n"
          "         ...,\n"
          "         [ 700,  701,  702,  ...,  797,  798,  799],\n"
          "         [ 800,  801,  802,  ...,  897,  898,  899],\n"
          "         [ 900,  901,  902,  ...,  997,  998,  999]],\n"
          "\n"
          "        [[1000, 1001, 1002,  ..., 1097, 1098, 1099],\n"
          "         [1100, 1101, 1102,  ..., 1197, 1198, 1199],\n"
          "         [1200, 1201, 1202,  ..., 1297, 1298, 1299],\n"
          "         ...,\n"
          "         [1700, 1701, 1702,  ..., 1797, 1798, 1799],\n"
          "         [1800, 1801, 1802,  ..., 1897, 1898, 1899],\n"
          "         [1900, 1901, 1902,  ..., 1997, 1998, 1999]],\n"
          "\n"
          "        [[2000, 2001, 2002,  ..., 2097, 2098, 2099],\n"
          "         [2100, 2101, 2102,  ..., 2197, 2198, 2199],\n"
          "         [2200, 2201, 2202,  ..., 2297, 2298, 2299],\n"
          "         ...,\n"
          "         [2700, 2701, 2702,  ..., 2797, 2798, 2799],\n"
          "         [2800, 2801, 2802,  ..., 2897, 2898, 2899],\n"
          "         [2900, 2901, 2902,  ..., 2997, 2998, 2999]]])");
    check("1001 elements are summarised",
          tn_zeros(tn_dims(1001)),
          "tensor([0., 0., 0.,  ..., 0., 0., 0.])");
    check("20 columns wrap",
          tn_arange(90, 130, 1),
          "tensor([ 90,  91,  92,  93,  94,  95,  96,  97,  98,  99, 100, 101, 102, 103,\n"
          "        104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117,\n"
          "        118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129])");
    check("fractions have four digits",
          tn_div_scalar(tn_arange(1, 30, 1), 7),
          "tensor([0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000, 1.1429, 1.2857,\n"
          "        1.4286, 1.5714, 1.7143, 1.8571, 2.0000, 2.1429, 2.2857, 2.4286, 2.5714,\n"
          "        2.7143, 2.8571, 3.0000, 3.1429, 3.2857, 3.4286, 3.5714, 3.7143, 3.8571,\n"
          "        4.0000, 4.1429])");
    check("no dimension",
          tn_full(TN_SCALAR, 3.5),
          "tensor(3.5000)");
    check("a ratio above 1000 is scientific",
          tn_div_scalar(tn_arange(1, 3000, 1000), 2),
          "tensor([5.0000e-01, 5.0050e+02, 1.0005e+03])");
    check("small numbers are scientific",
          tn_full(tn_dims(3), 1e-5),
          "tensor([1.0000e-05, 1.0000e-05, 1.0000e-05])");
    check("large whole numbers are scientific",
          tn_full(tn_dims(2), 1e9),
          "tensor([1.0000e+09, 1.0000e+09])");
    check("infinities and NaN",
          tn_log(tn_arange(-1, 3, 1)),
          "tensor([   nan,   -inf, 0.0000, 0.6931])");
    check("nothing but infinity",
          tn_log(tn_zeros(tn_dims(2))),
          "tensor([-inf, -inf])");
    check("bool",
          tn_eq_scalar(tn_arange(0, 4, 1), 2),
          "tensor([False, False,  True, False])");
    check("negative whole numbers",
          tn_arange(-10, 10, 7),
          "tensor([-10,  -3,   4])");
    check("float16",
          tn_arange(0, 3, 1, .dtype = TN_F16),
          "tensor([0., 1., 2.], dtype=torch.float16)");
    check("float64",
          tn_zeros(tn_dims(2, 2), .dtype = TN_F64),
          "tensor([[0., 0.],\n"
          "        [0., 0.]], dtype=torch.float64)");
    check("uint8",
          tn_arange(250, 256, 1, .dtype = TN_U8),
          "tensor([250, 251, 252, 253, 254, 255], dtype=torch.uint8)");
    check("an empty list",
          tn_zeros(tn_dims(0)),
          "tensor([])");
    check("an empty matrix",
          tn_zeros(tn_dims(2, 0)),
          "tensor([], size=(2, 0))");
    check("an empty matrix of int32",
          tn_zeros(tn_dims(2, 0), .dtype = TN_I32),
          "tensor([], size=(2, 0), dtype=torch.int32)");
    check("a transposed view",
          tn_t(tn_reshape(tn_arange(0, 6, 1), tn_dims(2, 3))),
          "tensor([[0, 3],\n"
          "        [1, 4],\n"
          "        [2, 5]])");
    check("an expanded view",
          tn_expand(tn_arange(0, 3, 1), tn_dims(2, 3)),
          "tensor([[0, 1, 2],\n"
          "        [0, 1, 2]])");
    check("four dimensions",
          tn_zeros(tn_dims(2, 1, 1, 2)),
          "tensor([[[[0., 0.]]],\n"
          "\n"
          "\n"
          "        [[[0., 0.]]]])");
}

static void check_device(void)
{
    check("another device is named", tn_zeros(tn_dims(2)),
          "tensor([0., 0.], device='reference:0')");
    check("before the dtype", tn_zeros(tn_dims(2), .dtype = TN_F64),
          "tensor([0., 0.], device='reference:0', dtype=torch.float64)");
    FILE *file = tmpfile();
    char line[64] = "";
    is_int(tn_fprint(file, tn_ones(tn_dims(1))), TN_OK, "fprint to a file");
    rewind(file);
    if (!fgets(line, sizeof line, file))
        note("the file is empty");
    fclose(file);
    is_str(line, "tensor([1.], device='reference:0')\n",
           "fprint ends the line");
    is_int(tn_fprint(NULL, tn_ones(tn_dims(1))), TN_ERR_ARGUMENT,
           "fprint to no file");
    is_str(tn_error(), "fprint: file is NULL", "and says so");
    tn_error_clear();
}

int main(void)
{
    plan_later();
    tn_device *cpu = tn_device_open("cpu");
    if (cpu) {
        tn_device_set(cpu);
        check_texts();
    } else {
        skip(1, tn_error());
        tn_error_clear();
    }
    tn_device *reference = tn_device_open("reference");
    if (!reference)
        bail_out("%s", tn_error());
    tn_device_set(reference);
    check_device();
    return done_testing();
}
