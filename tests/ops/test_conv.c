/* test_conv.c: compares convolution by the device's extension with convolution
 * by im2col, which a device without the extension uses: results and all three
 * gradients, for random shapes, with identical bits for 1, 2 and 7 threads and
 * each instruction set. A process can open a device only once, so each
 * combination runs in a new process of this program, which prints a hash. */
#include <device/device.h>
#include <tenon/tenon.h>

#include <unistd.h>

#include "tap.h"

typedef struct shape {
    int64_t count, groups, in, out, size[2], kernel[2], stride[2], pad[2],
        dilation[2];
    tn_dtype dtype;
    bool channels_last, same;
} shape;

static uint64_t state = 88172645463325252u;

static int64_t pick(int64_t low, int64_t high)
{
    state ^= state << 13; /* xorshift64: Marsaglia, 2003 */
    state ^= state >> 7;
    state ^= state << 17;
    return low + (int64_t)(state % (uint64_t)(high - low + 1));
}

static shape random_shape(void)
{
    shape s = {.count = pick(1, 9), .groups = pick(1, 3)};
    s.in = s.groups * pick(1, 5);
    s.out = s.groups * pick(1, 40);
    for (int a = 0; a < 2; a++) {
        s.kernel[a] = pick(1, 4);
        s.stride[a] = pick(1, 3);
        s.pad[a] = pick(0, 2);
        s.dilation[a] = pick(1, 2);
        s.size[a] = s.kernel[a] * s.dilation[a] + pick(0, 12);
    }
    s.dtype = pick(0, 1) ? TN_F32 : TN_F64;
    s.channels_last = pick(0, 2) == 0;
    s.same = s.stride[0] == 1 && s.stride[1] == 1 && pick(0, 1);
    return s;
}

static tn_tensor *images(const shape *s)
{
    if (!s->channels_last)
        return tn_randn(tn_dims(s->count, s->in, s->size[0], s->size[1]),
                        .dtype = s->dtype);
    tn_tensor *x = tn_randn(tn_dims(s->count, s->size[0], s->size[1], s->in),
                            .dtype = s->dtype);
    return tn_permute(x, tn_dims(0, 3, 1, 2));
}

/* out[0] gets the result, out[1] to out[3] the gradients of input, weight and
 * bias of a sum with random weights. */
static void run(const shape *s, uint64_t seed, tn_tensor *out[4])
{
    tn_manual_seed(seed);
    tn_tensor *input = tn_requires_grad(images(s));
    tn_tensor *weight = tn_requires_grad(
        tn_randn(tn_dims(s->out, s->in / s->groups, s->kernel[0],
                         s->kernel[1]), .dtype = s->dtype));
    tn_tensor *bias =
        tn_requires_grad(tn_randn(tn_dims(s->out), .dtype = s->dtype));
    tn_conv2d_options options = TN_CONV2D_OPTIONS;
    options.groups = s->groups;
    options.strides = tn_dims(s->stride[0], s->stride[1]);
    options.dilations = tn_dims(s->dilation[0], s->dilation[1]);
    if (s->same)
        options.padding_rule = "same";
    else
        options.paddings = tn_dims(s->pad[0], s->pad[1]);
    out[0] = tn_conv2d_with(input, weight, bias, &options);
    tn_tensor *const inputs[] = {input, weight, bias};
    tn_tensor *mask = tn_randn_like(tn_detach(out[0]));
    tn_grad(tn_sum(tn_mul(out[0], mask)), inputs, 3, out + 1);
}

/* Returns the largest difference divided by the largest value. */
static double distance(tn_tensor *a, tn_tensor *b)
{
    a = tn_to_dtype(tn_detach(a), TN_F64);
    b = tn_to_dtype(tn_detach(b), TN_F64);
    double scale = tn_item(tn_amax(tn_abs(b)));
    double far = tn_item(tn_amax(tn_abs(tn_sub(a, b))));
    return scale > 0 ? far / scale : far;
}

static bool agrees(const shape *s, uint64_t seed)
{
    static const char *const name[] = {"out", "input", "weight", "bias"};
    tn_tensor *a[4], *b[4];
    /* The tolerance for sums of up to a few thousand products in two different
     * orders. */
    double room = s->dtype == TN_F64 ? 1e-12 : s->dtype == TN_F32 ? 2e-5 : 1e-2;
    tn_device_mask(NULL, NULL);
    run(s, seed, a);
    tn_device_mask(NULL, "conv");
    run(s, seed, b);
    tn_device_mask(NULL, NULL);
    if (tn_error()) {
        note("%s", tn_error());
        tn_error_clear();
        return false;
    }
    for (int i = 0; i < 4; i++) {
        double far = distance(a[i], b[i]);
        if (far <= room)
            continue;
        note("%s is %g away: (%d, %d, %d, %d) %s, %d of %d x %d, groups %d, "
             "stride %d %d, pad %d %d, dilation %d %d",
             name[i], far, (int)s->count, (int)s->in, (int)s->size[0],
             (int)s->size[1], tn_dtype_name(s->dtype), (int)s->out,
             (int)s->kernel[0], (int)s->kernel[1], (int)s->groups,
             (int)s->stride[0], (int)s->stride[1], (int)s->pad[0],
             (int)s->pad[1], (int)s->dilation[0], (int)s->dilation[1]);
        return false;
    }
    return true;
}

/* Shapes with several tasks of each kind; long rows; few pixels and many
 * channels; depthwise convolutions; half types and large strides, which the cpu
 * plugin declines. */
static const struct {
    const char *what;
    shape s;
} chosen[] = {
    {"many images",
     {37, 1, 3, 24, {17, 19}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, TN_F32, 0, 0}},
    {"one row of 3000",
     {2, 1, 5, 7, {1, 3000}, {1, 9}, {1, 2}, {0, 4}, {1, 3}, TN_F32, 0, 0}},
    {"200 channels of 4 x 4",
     {6, 1, 200, 150, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, TN_F32, 0, 0}},
    {"stride 2",
     {9, 1, 33, 40, {15, 14}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, TN_F64, 0, 0}},
    {"33 channels, rows of 601, stride 2",
     {2, 1, 33, 20, {5, 601}, {3, 4}, {2, 2}, {1, 1}, {1, 1}, TN_F32, 0, 0}},
    {"21 channels of float64, rows of 290, stride 3",
     {2, 1, 21, 9, {4, 290}, {2, 3}, {1, 3}, {0, 1}, {1, 1}, TN_F64, 0, 0}},
    {"32 channels, rows of 700 by 1 x 3",
     {2, 1, 32, 40, {2, 700}, {1, 3}, {1, 1}, {0, 1}, {1, 1}, TN_F32, 0, 0}},
    {"1 x 1",
     {5, 1, 40, 60, {9, 9}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, TN_F32, 1, 0}},
    {"16 channels, rows of 27",
     {5, 1, 7, 16, {13, 27}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, TN_F32, 0, 0}},
    {"7 channels of each of two groups, rows of 19 padded by 2",
     {3, 2, 10, 14, {9, 19}, {3, 3}, {2, 1}, {2, 2}, {1, 1}, TN_F32, 0, 0}},
    {"8 channels of float64, 5 x 3, rows of 31",
     {3, 1, 8, 8, {12, 31}, {5, 3}, {1, 1}, {0, 0}, {2, 1}, TN_F64, 0, 0}},
    {"rows without taps",
     {4, 1, 12, 24, {9, 12}, {1, 1}, {1, 1}, {2, 2}, {1, 1}, TN_F32, 0, 0}},
    {"1 x 1 of two groups, 23 x 29",
     {3, 2, 18, 34, {23, 29}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, TN_F32, 0, 0}},
    {"1 x 1 of one image in parts",
     {1, 1, 64, 64, {40, 41}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, TN_F64, 0, 0}},
    {"a group for each channel",
     {4, 20, 20, 20, {11, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, TN_F32, 0, 0}},
    {"a plane for each, rows of 3 below one another",
     {3, 9, 9, 9, {12, 7}, {3, 3}, {1, 1}, {2, 1}, {2, 1}, TN_F32, 0, 0}},
    {"a plane for each, in several blocks, five rows",
     {2, 8, 8, 8, {67, 65}, {5, 3}, {1, 1}, {2, 1}, {1, 1}, TN_F32, 0, 0}},
    {"a plane for each of one column",
     {2, 8, 8, 8, {3, 1}, {1, 3}, {1, 1}, {0, 1}, {1, 1}, TN_F32, 0, 0}},
    {"a group for each, strides 2 and 3, dilated",
     {5, 3, 3, 6, {61, 90}, {3, 2}, {2, 3}, {1, 2}, {2, 3}, TN_F32, 0, 0}},
    {"a group for each of float64, several strips",
     {3, 2, 2, 2, {1, 9001}, {1, 5}, {1, 2}, {0, 2}, {1, 1}, TN_F64, 1, 0}},
    {"60 channels to 3",
     {2, 1, 60, 3, {12, 17}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, TN_F32, 0, 0}},
    {"stride beyond the kernel",
     {3, 1, 4, 5, {16, 13}, {2, 2}, {5, 4}, {0, 1}, {1, 1}, TN_F32, 0, 0}},
    {"stride 9 x 9",
     {2, 1, 4, 5, {40, 40}, {3, 3}, {9, 9}, {1, 1}, {1, 1}, TN_F32, 0, 0}},
    {"16 channels, a row of 36291, whose last block has 3",
     {1, 1, 4, 16, {1, 36293}, {1, 3}, {1, 1}, {0, 0}, {1, 1}, TN_F32, 0, 0}},
    {"16 channels, a row of 65281, whose last block has 1",
     {1, 1, 4, 16, {1, 65281}, {1, 3}, {1, 1}, {0, 1}, {1, 1}, TN_F32, 0, 0}},
    {"32 channels of more pixels than are laid for all ranges",
     {9, 1, 32, 32, {64, 64}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, TN_F32, 0, 0}},
    {"1000 channels of 7 x 7, which are divided among tasks",
     {1, 1, 512, 1000, {7, 7}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, TN_F32, 0, 0}},
    {"300 channels of 8 x 8, in steps of 2",
     {1, 1, 300, 600, {8, 8}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, TN_F32, 0, 0}},
    {"float16",
     {2, 1, 4, 5, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, TN_F16, 0, 0}},
};
enum { CHOSEN = sizeof chosen / sizeof *chosen };

/* The gradient of a weight sums only over pixels that the weight is multiplied
 * with. The first image has infinity at pixel (1, 0) of channel 0. Two of that
 * channel's nine weights are multiplied with it, or six if the image is padded.
 * The gradients of all other weights are finite. The numbers of infinite
 * results are the same, because windows at the end of a row do not read the
 * start of the next row. */
static void infinity_stays_where_it_is(void)
{
    static float at[3 * 8 * 5 * 7];
    at[7] = INFINITY;
    for (int pad = 0; pad < 2; pad++) {
        int64_t c = pad ? 8 : 2;
        tn_tensor *x = tn_tensor_from_array(at, TN_F32, tn_dims(3, c, 5, 7));
        tn_tensor *w = tn_requires_grad(tn_ones(tn_dims(c, 1, 3, 3)));
        tn_tensor *g[1];
        tn_tensor *y = tn_conv2d(x, w, NULL, .groups = c, .padding = pad);
        tn_grad(tn_sum(y), &w, 1, g);
        is_int((int)tn_item(tn_sum(tn_isfinite(g[0]))), c * 9 - (pad ? 6 : 2),
               "padded by %d, infinity reaches the weights that meet it", pad);
        is_int((int)tn_item(tn_sum(tn_isfinite(tn_detach(y)))),
               tn_tensor_numel(y) - (pad ? 6 : 2),
               "and as many pixels of the result");
    }
}

/* The gradient of im2col for several images equals that of each image alone.
 * Large images have a separate loop for their interior. */
static void columns_of_many_are_those_of_each(void)
{
    static const struct {
        int64_t kernel[2], dilation[2], pad[2];
    } window[] = {{{3, 3}, {1, 1}, {1, 1}},
                  {{2, 5}, {2, 1}, {0, 3}},
                  {{1, 1}, {1, 1}, {1, 0}},
                  {{4, 3}, {5, 6}, {2, 0}}};
    for (int i = 0; i < 4; i++) {
        tn_tensor *x = tn_randn(tn_dims(20, 3, 19, 17));
        tn_tensor *g = NULL;
        bool same = true;
        for (int64_t n = -1; n < 20; n++) { /* -1: all images, then one at a
                                             * time */
            tn_tensor *part = n < 0 ? x : tn_narrow(x, 0, n, 1), *made[1];
            part = tn_requires_grad(tn_clone(part));
            tn_tensor *y = tn_unfold_images(
                part, tn_dims(window[i].kernel[0], window[i].kernel[1]),
                .dilations = tn_dims(window[i].dilation[0],
                                     window[i].dilation[1]),
                .paddings = tn_dims(window[i].pad[0], window[i].pad[1]));
            /* a gradient that differs for each image */
            tn_tensor *some = tn_mul(tn_detach(y), tn_detach(y));
            tn_grad(tn_sum(tn_mul(y, some)), &part, 1, made);
            if (n < 0)
                g = made[0];
            else
                same = same && tn_item_int(tn_equal(made[0],
                                                    tn_narrow(g, 0, n, 1)));
        }
        ok(same, "columns %d x %d: the gradient of 20 images is that of each",
           (int)window[i].kernel[0], (int)window[i].kernel[1]);
    }
}

/* The gradient of tn_unfold with windows of three elements is the sum over the
 * three positions in a window. Elements near the ends are in fewer windows. */
static void windows_of_three_are_summed(void)
{
    static const int64_t length[] = {3, 4, 5, 19};
    for (int i = 0; i < 4; i++) {
        int64_t n = length[i];
        tn_tensor *x = tn_requires_grad(tn_randn(tn_dims(5, n, 6)));
        tn_tensor *y = tn_unfold(x, 1, 3, 1), *made[1];
        /* g has the shape (5, n - 2, 6, 3) */
        tn_tensor *g = tn_randn_like(tn_detach(y));
        tn_grad(y, &x, 1, made, .gradient = g);
        tn_tensor *want = tn_zeros(tn_dims(5, n, 6));
        for (int64_t k = 0; k < 3; k++)
            want = tn_add(want, tn_constant_pad_nd(
                                    tn_select(g, 3, k),
                                    tn_dims(0, 0, k, 2 - k), 0));
        ok(made[0] && distance(made[0], want) < 1e-6,
           "windows of three over %d: their gradient", (int)n);
    }
}

/* With a step of more than one, elements are in up to two windows, in more if
 * windows are longer than two steps, or in none. The gradient of integers is
 * exact, so it equals the sum over the positions of windows. */
static void windows_with_steps_are_summed(void)
{
    enum { BATCH = 3, INNER = 5, MOST = 80 };
    static const struct {
        int64_t size, step, spare;
    } c[] = {{1, 2, 0}, {2, 2, 0}, {3, 2, 1},   {4, 2, 1},   {5, 2, 0},
             {7, 2, 1}, {2, 3, 2}, {5, 3, 0},   {6, 3, 1},   {4, 7, 6},
             {9, 5, 3}, {3, 16, 9}, {20, 16, 0}, {3, 17, 11}, {0, 2, 4}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        for (int64_t windows = 1; windows <= 4; windows += 3) {
            const int64_t size = c[i].size, step = c[i].step;
            const int64_t n = (windows - 1) * step + size + c[i].spare;
            static float got[BATCH * MOST * INNER], want[BATCH * MOST * INNER];
            static float g[BATCH * MOST * INNER * 20];
            tn_tensor *x = tn_requires_grad(tn_zeros(tn_dims(BATCH, n, INNER)));
            tn_tensor *y = tn_unfold(x, 1, size, step), *made[1];
            const int64_t w = tn_tensor_size(y, 1), all = BATCH * w * INNER * size;
            tn_tensor *gradient = tn_to_dtype(
                tn_randint(-9, 10, tn_dims(BATCH, w, INNER, size)), TN_F32);
            tn_grad(y, &x, 1, made, .gradient = gradient);
            tn_tensor_to_array(gradient, g, (size_t)all * sizeof *g);
            memset(want, 0, sizeof want);
            for (int64_t at = 0; at < all; at++) {
                int64_t k = at % size, inner = at / size % INNER;
                int64_t q = at / size / INNER % w, b = at / size / INNER / w;
                want[(b * n + q * step + k) * INNER + inner] += g[at];
            }
            tn_tensor_to_array(made[0], got, sizeof(float) * BATCH * n * INNER);
            ok(!tn_error() &&
                   memcmp(got, want, sizeof(float) * BATCH * n * INNER) == 0,
               "%d windows of %d every %d: their gradient", (int)w, (int)size,
               (int)step);
        }
}

/* im2col processes a few images at a time: the columns of all six images would
 * take 6 x 27 MiB. */
static void check_memory(void)
{
    const shape s = {6, 2, 48, 6, {128, 128}, {3, 3}, {1, 1}, {1, 1}, {1, 1},
                     TN_F32, 0, 0};
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_device *device = tn_device_current();
    tn_tensor *out[4];
    ok(agrees(&s, 5), "columns of more than 32 MiB: as by the device");
    tn_scope *scope = tn_scope_open();
    tn_device_mask(NULL, "conv");
    tn_memory_reset_peak(device);
    tn_memory(device, &before);
    run(&s, 5, out);
    tn_memory(device, &after);
    tn_device_mask(NULL, NULL);
    int64_t more = (after.peak_bytes - before.allocated_bytes) >> 20;
    ok(more < 100, "in %d MiB: images, gradients and columns of some",
       (int)more);
    tn_scope_close(scope);
}

static int print_hash(void)
{
    uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < CHOSEN; i++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *made[4];
        run(&chosen[i].s, 5, made);
        for (int k = 0; k < 4; k++) {
            tn_tensor *x = tn_contiguous(tn_detach(made[k]));
            size_t bytes = (size_t)tn_tensor_numel(x) *
                           tn_dtype_bytes(tn_tensor_dtype(x));
            unsigned char *data = malloc(bytes + 1);
            if (!data || tn_tensor_to_array(x, data, bytes) < 0)
                return fprintf(stderr, "%s\n", tn_error()), 3;
            for (size_t j = 0; j < bytes; j++) /* FNV-1a */
                hash = (hash ^ data[j]) * 1099511628211u;
            free(data);
        }
        tn_scope_close(scope);
    }
    printf("%016" PRIx64 "\n", hash);
    return 0;
}

static bool hash_of(const char *self, const char *isa, int threads,
                    char hash[32])
{
    char command[1200];
    snprintf(command, sizeof command,
             "TENON_DEVICE=cpu TENON_CPU_ISA=%s TENON_NUM_THREADS=%d '%s' "
             "--hash 2>/dev/null", isa, threads, self);
    FILE *pipe = popen(command, "r");
    bool read = pipe && fscanf(pipe, "%31s", hash) == 1;
    return pipe && pclose(pipe) == 0 && read;
}

static void same_for_any_threads(const char *self)
{
    static const char *const isa[] = {"generic", "v3", "v4"};
    for (int i = 0; i < 3; i++) {
        char one[32], many[32];
        if (!hash_of(self, isa[i], 1, one)) {
            skip(1, "an instruction set that this machine or build lacks");
            continue;
        }
        bool same = true;
        for (int threads = 2; threads <= 7; threads += 5)
            same = same && hash_of(self, isa[i], threads, many) &&
                   strcmp(one, many) == 0;
        ok(same, "%s: the same bits for 1, 2 and 7 threads", isa[i]);
    }
}

/* ---- a device without bias ----------------------------------------------- */

static const tn_conv_extension *conv_of_device;
static int without_bias;

static tn_status run_without_bias(tn_queue *queue, const tn_conv_args *args)
{
    if (args->bias.buffer)
        return TN_ERR_UNSUPPORTED;
    without_bias++;
    return conv_of_device->run(queue, args);
}

static const tn_conv_extension biasless = {.size = sizeof biasless,
                                           .run = run_without_bias};

static void bias_is_added(void)
{
    tn_device *device = tn_device_current();
    conv_of_device = atomic_load(&device->conv);
    if (!conv_of_device) {
        skip(2, "the device computes convolutions by columns");
        return;
    }
    tn_manual_seed(11);
    tn_tensor *x = tn_rand(tn_dims(2, 3, 9, 8));
    tn_tensor *w = tn_rand(tn_dims(5, 3, 3, 3)), *b = tn_rand(tn_dims(5));
    tn_tensor *want = tn_conv2d(x, w, b, .padding = 1);
    atomic_store(&device->conv, &biasless);
    tn_tensor *got = tn_conv2d(x, w, b, .padding = 1);
    tn_tensor *one = tn_conv2d(tn_select(x, 0, 0), w, b,
                               .padding = 1);
    atomic_store(&device->conv, conv_of_device);
    is_int(without_bias, 2, "a device without bias does the rest");
    ok(distance(got, want) < 1e-6 &&
           distance(one, tn_select(want, 0, 0)) < 1e-6,
       "and the bias is added then");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--hash") == 0)
        return print_hash();
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    for (int i = 0; i < CHOSEN; i++) {
        tn_scope *scope = tn_scope_open();
        ok(agrees(&chosen[i].s, 5), "%s: as by columns", chosen[i].what);
        tn_scope_close(scope);
    }
    bool good = true;
    for (uint64_t i = 0; i < 60 && good; i++) {
        tn_scope *scope = tn_scope_open();
        shape s = random_shape();
        good = agrees(&s, i);
        tn_scope_close(scope);
    }
    ok(good, "60 random shapes: as by columns");
    infinity_stays_where_it_is();
    columns_of_many_are_those_of_each();
    windows_of_three_are_summed();
    windows_with_steps_are_summed();
    check_memory();
    bias_is_added();
    ok(tn_device_mask(NULL, "conv,nothing") == TN_ERR_ARGUMENT,
       "a mask that names no extension is refused");
    ok(strstr(tn_error(), "\"nothing\"") != NULL, "by its name");
    tn_error_clear();
    same_for_any_threads(argv[0]);
    return done_testing();
}
