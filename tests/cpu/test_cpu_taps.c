/* test_cpu_taps.c: tests that weighted sums of a few elements (interpolation),
 * and contiguous segments padded with zeros, forward and backward, are
 * bit-identical to the reference plugin's for every instruction set of this
 * machine, with and without non-temporal stores, and with infinities, NaN and
 * zeros. In this file a tap is one element of such a sum. Sizes are such that
 * blocks share indices, that rows are longer and shorter than vectors, and that
 * a dimension's last block is shorter than the others.
 *
 * A process can open a device once, so each combination of settings runs in a
 * new process of this program, which prints hashes of the results. */
#include <tenon/tenon.h>

#include <math.h>
#include <unistd.h>

#include "../tap.h"

enum { MOST = 8192 /* bytes of all hashes */, KINDS = 29 };

/* Adds the bits of x to the hash. All NaNs count as the same bits. */
static uint64_t hash_more(uint64_t hash, tn_tensor *x)
{
    size_t bytes = (size_t)tn_tensor_numel(x) * sizeof(float);
    uint32_t *data = malloc(bytes + 1);
    if (!data || tn_tensor_to_array(x, data, bytes) < 0)
        exit(3);
    for (size_t i = 0; i < bytes / sizeof *data; i++) {
        uint32_t bits = (data[i] & 0x7fffffff) > 0x7f800000 ? 1 : data[i];
        hash = (hash ^ bits) * 1099511628211u;
    }
    free(data);
    return hash;
}

static tn_tensor *numbers(tn_dims_list shape, bool special)
{
    static const float some[] = {NAN, INFINITY, -INFINITY, -0.0f, 1e-40f, 0};
    int64_t count = 1;
    for (int d = 0; d < shape.count; d++)
        count *= shape.dim[d];
    float *x = malloc((size_t)count * sizeof *x);
    uint32_t r = 20261123;
    for (int64_t i = 0; x && i < count; i++) {
        r = r * 1664525 + 1013904223;
        x[i] = (float)(int32_t)r * 0x1p-31f;
        if (special && r % 41 == 0)
            x[i] = some[(r >> 16) % 6];
    }
    tn_tensor *made = x ? tn_tensor_from_array(x, TN_F32, shape) : NULL;
    free(x);
    return tn_to(made, tn_device_current());
}

static tn_tensor *made_of(int kind, tn_tensor *x)
{
    const tn_dims_list none = {0};
    switch (kind) {
    case 0:
        return tn_interpolate(x, none, .scale_factor = 2);
    case 1:
        return tn_interpolate(x, none, .scale_factor = 2, .mode = "bilinear");
    case 2:
        return tn_interpolate(x, tn_dims(11, 24), .mode = "bilinear",
                              .align_corners = true);
    case 3:
        return tn_interpolate(x, tn_dims(70, 19), .mode = "bicubic");
    case 4:
        return tn_interpolate(x, tn_dims(9, 14), .mode = "bicubic",
                              .antialias = true);
    case 5:
        return tn_adaptive_avg_pool2d(x, tn_dims(5, 6));
    case 6:
        return tn_interpolate(tn_transpose(x, 2, 3), tn_dims(40, 30),
                              .mode = "bilinear");
    case 7:
        return tn_local_response_norm(x, 5);
    case 8:
        return tn_pad(x, tn_dims(3, 2, 1, 4), .mode = "reflect");
    case 9: /* a tensor of three padded dimensions */
        return tn_pad(x, tn_dims(9, 0, 0, 1, 2, 3), .mode = "replicate");
    case 10:
        return tn_pad(x, tn_dims(5, 2, -3, 6), .mode = "circular");
    case 11:
        return tn_pad(x, tn_dims(1, 2, 0, 0, 3, -1));
    case 12: /* pads a dimension other than the last */
        return tn_pad(tn_transpose(x, 1, 2), tn_dims(0, 0, 2, 70));
    case 13:
        return tn_to_dtype(tn_pad(tn_to_dtype(x, TN_BF16), tn_dims(1, 1, -2, 9)),
                           TN_F32);
    case 14:
        return tn_unfold_images(x, tn_dims(3), .padding = 1);
    case 15: /* padding that is larger than the input */
        return tn_unfold_images(x, tn_dims(2, 5), .padding = 7, .dilation = 3);
    case 16:
        return tn_unfold_images(x, tn_dims(3), .paddings = tn_dims(4, 0),
                                .strides = tn_dims(2, 1));
    case 17: /* padded with one element on both sides, or on one side */
        return tn_pad(x, tn_dims(1, 1, 1, 1), .mode = "reflect");
    case 18:
        return tn_pad(x, tn_dims(0, 1, 2, 0), .mode = "replicate");
    case 19:
        return tn_pad(x, tn_dims(1, 1, 1, 0));
    case 20: /* the height only; case 21: the width only, with rows of
              * many vectors */
        return tn_interpolate(x, tn_dims(37, tn_tensor_shape(x)[3]),
                              .mode = "bilinear");
    case 21:
        return tn_interpolate(x, tn_dims(tn_tensor_shape(x)[2], 500),
                              .mode = "bilinear");
    case 22: /* downsamples an outer dimension with more taps than the kernel
              * writes out */
        return tn_interpolate(tn_narrow(x, 1, 1, 5), tn_dims(16, 17),
                              .mode = "bilinear", .antialias = true);
    case 23: /* three interpolated dimensions */
        return tn_squeeze(tn_interpolate(tn_unsqueeze(x, 0),
                                         tn_dims(21, 33, 40),
                                         .mode = "trilinear"));
    case 24: /* twelve taps, and more for the gradient */
        return tn_interpolate(x, none, .scale_factor = 3, .mode = "bicubic");
    case 25: /* few taps are adjacent */
        return tn_interpolate(x, tn_dims(4, 3), .mode = "bilinear");
    case 26: /* three taps for each element */
        return tn_interpolate(x, none, .scale_factor = 3);
    case 27: /* nine, ten or twelve taps, some of which are outside the input */
        return tn_adaptive_avg_pool2d(x, tn_dims(4, 5));
    case 28: /* rows with gaps between; the last row ends where the memory
              * ends */
        return tn_interpolate(tn_narrow(x, 3, tn_tensor_shape(x)[3] - 5, 5),
                              tn_dims(tn_tensor_shape(x)[2], 31),
                              .mode = "bilinear");
    default:
        return NULL;
    }
}

/* Sums nine taps for each position, one of which is out of range. */
static uint64_t hash_of_fault(void)
{
    enum { PLACES = 40, TAPS = 9 };
    int64_t index[PLACES * TAPS];
    for (int i = 0; i < PLACES * TAPS; i++)
        index[i] = i == 200 ? 70 : i * 7 % 33;
    tn_tensor *x = numbers(tn_dims(30, 33, 8), false);
    tn_tensor *weight = numbers(tn_dims(PLACES, TAPS), false), *y;
    tn_tensor *at = tn_to(
        tn_tensor_from_array(index, TN_I64, tn_dims(PLACES, TAPS)),
        tn_device_current());
    const tn_value value[] = {
        {TN_VALUE_TENSOR, 0, {.tensor = x}},
        {TN_VALUE_TENSOR, 0, {.tensor = at}},
        {TN_VALUE_TENSOR, 0, {.tensor = weight}},
        {TN_VALUE_TENSOR, 0, {.tensor = at}}, /* only the gradient uses these
                                               * operands */
        {TN_VALUE_TENSOR, 0, {.tensor = weight}},
        {TN_VALUE_INT, 0, {.i = 1}}};
    if (tn_op_call(tn_op_find("resample"), value, 6, &y, 1) == 1)
        tn_device_synchronize(tn_device_current());
    uint64_t hash = 14695981039346656037u;
    if (!tn_error())
        exit(3);
    for (const char *c = tn_error(); *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    tn_error_clear();
    return hash;
}

static int print_hashes(void)
{
    static const int size[][3] = {{12, 28, 28}, {7, 33, 57}, {40, 14, 9},
                                  {70, 13, 6}};
    for (int s = 0; s < 4; s++)
        for (int special = 0; special < 2; special++)
            for (int kind = 0; kind < KINDS; kind++) {
                tn_scope *scope = tn_scope_open();
                tn_tensor *x = tn_requires_grad(numbers(
                    tn_dims(2, size[s][0], size[s][1], size[s][2]), special));
                tn_tensor *y = made_of(kind, x), *g = NULL;
                tn_grad(y, &x, 1, &g,
                        .gradient = tn_mul_scalar(tn_detach(y), 0.37));
                if (tn_error())
                    return fprintf(stderr, "%s\n", tn_error()), 3;
                printf("%d.%d.%d=%016" PRIx64 " ", s, special, kind,
                       hash_more(hash_more(14695981039346656037u, y), g));
                tn_scope_close(scope);
            }
    printf("fault=%016" PRIx64 "\n", hash_of_fault());
    return 0;
}

/* Stores the hashes that a process with these settings prints. Returns false if
 * it could not run. */
static bool hashes_of(const char *self, const char *device, const char *isa,
                      int threads, const char *stream, char *hashes)
{
    char command[1200];
    snprintf(command, sizeof command,
             "TENON_DEVICE=%s TENON_CPU_ISA=%s TENON_NUM_THREADS=%d "
             "TENON_CPU_STREAM=%s '%s' --hash 2>/dev/null",
             device, isa, threads, stream, self);
    FILE *pipe = popen(command, "r");
    size_t read = pipe ? fread(hashes, 1, MOST - 1, pipe) : 0;
    hashes[read] = '\0';
    return pipe && pclose(pipe) == 0 && read > 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--hash") == 0)
        return print_hashes();
    static char want[MOST], got[MOST];
    static const char *const isas[] = {"generic", "v3", "v4"};
    plan_later();
    if (!hashes_of(argv[0], "reference", "", 1, "", want))
        bail_out("reference resamples nothing");
    for (int i = 0; i < 3; i++)
        for (int past = 0; past < 2; past++) {
            if (!hashes_of(argv[0], "cpu", isas[i], past ? 1 : 3,
                           past ? "0" : "", got)) {
                skip(1, "this machine does not run that set");
                continue;
            }
            ok(strcmp(got, want) == 0, "cpu, %s%s: the reference's bits",
               isas[i], past ? ", past the caches" : "");
            if (strcmp(got, want) != 0)
                note("%s\n# %s", got, want);
        }
    return done_testing();
}
