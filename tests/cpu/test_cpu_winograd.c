/* Compares convolutions with windows of 3 x 3 and of 1 x 3, by Winograd's
 * algorithm and by direct sums, with sums in float64. Tests odd sizes,
 * paddings, groups and channels. The bits are the same with 1 thread and with
 * 3. NaN and infinity occur exactly where the sums have them. */
#include <math.h>

#include "cpu_plugin.h"

typedef struct shape {
    int64_t count, groups, in, out; /* in, out: channels of each group */
    int64_t size[2], pad[2];
    bool biased, line; /* line: windows have one row, otherwise three */
} shape;

static const shape shapes[] = {
    {1, 1, 1, 1, {1, 1}, {1, 1}, false, false},
    {1, 1, 1, 1, {3, 3}, {0, 0}, true, false},
    {2, 1, 16, 16, {1, 7}, {1, 1}, true, false},
    {3, 1, 17, 9, {5, 3}, {2, 0}, false, false},
    {1, 1, 70, 35, {13, 14}, {1, 1}, true, false},
    {5, 1, 3, 40, {8, 8}, {1, 1}, true, false},
    {2, 3, 7, 11, {9, 6}, {0, 2}, true, false},
    {1, 1, 5, 6, {21, 67}, {1, 1}, true, false},
    {1, 1, 8, 8, {4, 131}, {2, 1}, false, false},
    {1, 1, 130, 65, {7, 7}, {1, 1}, true, false},
    {40, 1, 4, 4, {2, 3}, {1, 1}, false, false},
    {2, 1, 9, 8, {11, 12}, {3, 4}, true, false},
    {1, 1, 9, 10, {3, 301}, {1, 1}, true, false}, /* rows longer than a block */
    {1, 1, 1, 1, {1, 1}, {0, 1}, true, true},
    {1, 1, 1, 1, {1, 3}, {0, 0}, false, true},
    {2, 1, 16, 16, {1, 7}, {0, 1}, true, true},
    {3, 1, 17, 9, {5, 4}, {0, 2}, false, true},
    {2, 3, 7, 11, {9, 6}, {0, 0}, true, true},
    {1, 1, 70, 35, {2, 131}, {0, 1}, true, true},
    {33, 1, 4, 40, {1, 11}, {0, 1}, true, true},
    {2, 1, 12, 9, {1, 1300}, {0, 4}, true, true},
    {1, 1, 130, 65, {1, 77}, {0, 0}, false, true},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* A convolution of one shape: its arguments and its tensors. */
typedef struct convolution {
    tn_conv_args args;
    int64_t in, weight, out; /* numbers of elements */
    float *memory[4];        /* tensors: in, weight, out, bias */
    tn_buffer *buffer[4];
} convolution;

static tn_strided view_of(tn_buffer *buffer, int64_t b, int64_t c, int64_t d)
{
    tn_strided v = {.buffer = buffer, .dtype = TN_F32};
    v.stride[0] = b * c * d;
    v.stride[1] = c * d;
    v.stride[2] = d;
    v.stride[3] = 1;
    return v;
}

static void convolution_init(convolution *c, const shape *s, uint32_t kind)
{
    int64_t out[2], kernel[2] = {s->line ? 1 : 3, 3};
    for (int a = 0; a < 2; a++)
        out[a] = s->size[a] + 2 * s->pad[a] - kernel[a] + 1;
    int64_t channels = s->groups * s->out;
    c->in = s->count * s->groups * s->in * s->size[0] * s->size[1];
    c->weight = channels * s->in * kernel[0] * 3;
    c->out = s->count * channels * out[0] * out[1];
    const int64_t n[4] = {c->in, c->weight, c->out, channels};
    for (int i = 0; i < 4; i++) {
        c->buffer[i] = buffer_new((size_t)n[i] * 4, &c->memory[i]);
        for (int64_t j = 0; j < n[i]; j++)
            c->memory[i][j] =
                (float)(random_below(2001) - 1000) / 512.0f;
    }
    c->args = (tn_conv_args){
        .size = sizeof c->args, .kind = kind, .count = s->count,
        .in_channels = s->groups * s->in, .out_channels = channels,
        .groups = s->groups, .kernel = {kernel[0], 3}, .stride = {1, 1},
        .dilation = {1, 1}, .in_size = {s->size[0], s->size[1]},
        .out_size = {out[0], out[1]}, .pad = {s->pad[0], s->pad[1]},
        .in = view_of(c->buffer[0], s->groups * s->in, s->size[0],
                      s->size[1]),
        .weight = view_of(c->buffer[1], s->in, kernel[0], 3),
        .out = view_of(c->buffer[2], channels, out[0], out[1])};
    if (kind == TN_CONV_FORWARD && s->biased) {
        c->args.bias = (tn_strided){.buffer = c->buffer[3], .dtype = TN_F32};
        c->args.bias.stride[0] = 1;
    }
}

static void convolution_fini(convolution *c)
{
    for (int i = 0; i < 4; i++)
        buffer_drop(c->buffer[i]);
}

static bool convolve(const convolution *c)
{
    const tn_conv_extension *extension = cpu->extension("conv", 1);
    return extension && extension->run(queue, &c->args) == TN_OK;
}

/* Index in memory[] of the tensor that each kind of convolution writes. */
static const int memory_of[] = {2, 0, 1};

/* Computes the convolution in float64, and the sums of absolute values. */
static void convolve_slowly(const convolution *c, double *sum, double *size)
{
    const tn_conv_args *a = &c->args;
    const int64_t elements[] = {c->out, c->in, c->weight}, n = elements[a->kind];
    memset(sum, 0, (size_t)n * sizeof *sum);
    memset(size, 0, (size_t)n * sizeof *size);
    int64_t in_channels = a->in_channels / a->groups;
    int64_t out_channels = a->out_channels / a->groups;
    int64_t pixels = a->out_size[0] * a->out_size[1];
    for (int64_t q = 0; q < c->out; q++) {
        int64_t x = q % a->out_size[1], y = q / a->out_size[1] % a->out_size[0];
        int64_t o = q / pixels % a->out_channels;
        int64_t image = q / pixels / a->out_channels;
        if (a->kind == TN_CONV_FORWARD && a->bias.buffer)
            sum[q] = (double)c->memory[3][o];
        const int64_t taps = a->kernel[0] * 3;
        for (int64_t i = 0; i < in_channels * taps; i++) {
            int64_t row = y + i / 3 % a->kernel[0] - a->pad[0];
            int64_t column = x + i % 3 - a->pad[1];
            if (row < 0 || row >= a->in_size[0] || column < 0 ||
                column >= a->in_size[1])
                continue;
            int64_t channel = o / out_channels * in_channels + i / taps;
            int64_t at = ((image * a->in_channels + channel) * a->in_size[0] +
                          row) * a->in_size[1] + column;
            const int64_t place[] = {q, at, o * in_channels * taps + i};
            double product = 1;
            for (int k = 0; k < 3; k++) /* sets the two tensors that are not
                                         * written */
                if (k != (int)a->kind)
                    product *= (double)c->memory[memory_of[k]][place[k]];
            sum[place[a->kind]] += product;
            size[place[a->kind]] += fabs(product);
        }
    }
}

/* Allows 4 times the random-walk error of a sum of that size, in ulp. */
static bool is_near(const float *got, const double *want, const double *size,
                    int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <=
              4 * 0x1p-24 * (size[i] + fabs(want[i]) + 8))) {
            note("element %d is %.9g, not %.9g", (int)i, (double)got[i],
                 want[i]);
            return false;
        }
    return true;
}

static uint64_t sum_of_bits[SHAPES][3];

/* Hashes of the results with the first number of threads. The results with the
 * other number of threads must have the same hashes. */
static uint64_t bits_of(const float *x, int64_t n)
{
    uint64_t hash = 14695981039346656037u;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        hash = (hash ^ bits) * 1099511628211u;
    }
    return hash;
}

static void test_shapes(const char *isa, int threads)
{
    int wrong = 0, moved = 0;
    random_state = 1;
    for (int i = 0; i < SHAPES; i++)
        for (uint32_t kind = TN_CONV_FORWARD; kind <= TN_CONV_WEIGHT; kind++) {
            convolution c;
            convolution_init(&c, &shapes[i], kind);
            const int64_t elements[] = {c.out, c.in, c.weight};
            const int64_t n = elements[kind];
            float *got = c.memory[memory_of[kind]];
            double *want = malloc((size_t)n * 2 * sizeof *want);
            if (!want)
                bail_out("out of memory");
            for (int64_t j = 0; j < n; j++)
                got[j] = NAN;
            convolve_slowly(&c, want, want + n);
            if (!convolve(&c) || !is_near(got, want, want + n, n)) {
                note("shape %d, kind %d", i, (int)kind);
                wrong++;
            }
            uint64_t bits = bits_of(got, n);
            moved += threads == 1 && strcmp(isa, "v4") == 0 &&
                     bits != sum_of_bits[i][kind];
            sum_of_bits[i][kind] = bits;
            free(want);
            convolution_fini(&c);
        }
    ok(wrong == 0, "%s, %d threads, winograd %s: sums", isa, threads,
       chosen_winograd ? chosen_winograd : "where it pays");
    if (strcmp(isa, "v4") == 0 && threads == 1)
        ok(moved == 0, "the same bits by another number of threads");
}

/* One pixel is NaN or infinite. Windows that contain it give NaN or infinity,
 * and the bits of all other results do not change. */
static void test_special(const char *isa, int threads)
{
    (void)threads;
    static const float special[] = {NAN, INFINITY, -INFINITY};
    static const shape special_shapes[] = {{2, 1, 5, 9, {9, 12}, {1, 1}, true, false},
                                   {2, 1, 5, 9, {9, 12}, {0, 1}, true, true}};
    bool good = true;
    for (int k = 0; k < 6; k++)
        for (int64_t at = 0; at < 9 * 12; at++) {
            const shape s = special_shapes[k / 3];
            convolution c;
            random_state = 2;
            convolution_init(&c, &s, TN_CONV_FORWARD);
            float *before = malloc((size_t)c.out * 4);
            if (!before)
                bail_out("out of memory");
            good = good && convolve(&c);
            memcpy(before, c.memory[2], (size_t)c.out * 4);
            /* a pixel of image 0 */
            c.memory[0][2 * 9 * 12 + at] = special[k % 3];
            good = good && convolve(&c);
            for (int64_t q = 0; q < c.out; q++) {
                bool seen = q < 9 * 9 * 12 &&
                            llabs(q % 12 - at % 12) <= 1 &&
                            llabs(q / 12 % 9 - at / 12) <= !s.line;
                good = good && (seen ? !isfinite(c.memory[2][q])
                                     : c.memory[2][q] == before[q]);
            }
            free(before);
            convolution_fini(&c);
        }
    ok(good, "%s, winograd %s: NaN and infinity where they are seen", isa,
       chosen_winograd ? chosen_winograd : "where it pays");
}

int main(void)
{
    static const char *const choice[] = {"1", "0", NULL};
    plan_later();
    plugin_load();
    for (int i = 0; i < 3; i++) {
        chosen_winograd = choice[i];
        plugin_each(test_shapes);
        plugin_each(test_special);
    }
    chosen_winograd = "yes";
    ok(!plugin_open(NULL) && strstr(failure, "winograd=yes is invalid"),
       "neither 0 nor 1 is refused: %s", failure);
    return done_testing();
}
