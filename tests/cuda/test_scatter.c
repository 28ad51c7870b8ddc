/* Scatters with so many indices that several thread blocks sort them, with one
 * to three digits of a radix sort, are bit-identical to the cpu's on the
 * simulated driver. So are scatters whose rows are accumulated in shared
 * memory. tests/device/test_primitives.c tests shorter scatters. */
#include "../tap.h"
#include "on_sim.h"

enum { MOST = 700000 };

static float values[MOST], into[MOST], out[2][MOST];
static int64_t indices[20000];

static uint64_t state = 1;
static uint64_t random_below(uint64_t limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % limit;
}

static void fill(float *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = (float)random_below(1 << 20) / (1 << 18) - 2;
}

/* Runs index_add of `count` slices into `extent` slices of `width` elements on
 * both devices. Returns whether the results have equal bits. */
static bool same_bits(int64_t extent, int64_t count, int64_t width, int dim)
{
    static const char *const names[] = {"cpu", "cuda"};
    const int64_t bytes = extent * width * (int64_t)sizeof(float);
    for (int64_t i = 0; i < count; i++)
        indices[i] = (int64_t)random_below((uint64_t)extent);
    fill(values, count * width);
    fill(into, extent * width);
    for (int d = 0; d < 2; d++) {
        tn_scope *scope = tn_scope_open();
        tn_device_set(tn_device_open(names[d]));
        tn_tensor *index = tn_tensor_from_array(indices, TN_I64, tn_dims(count));
        tn_tensor *x = tn_tensor_from_array(
            into, TN_F32, dim ? tn_dims(width, extent) : tn_dims(extent, width));
        tn_tensor *y = tn_tensor_from_array(
            values, TN_F32, dim ? tn_dims(width, count) : tn_dims(count, width));
        tn_tensor_to_array(tn_index_add(x, dim, index, y), out[d],
                           (size_t)bytes);
        if (tn_error())
            printf("%s: %s", names[d], tn_error());
        tn_scope_close(scope);
    }
    return memcmp(out[0], out[1], (size_t)bytes) == 0;
}

static void print_sorted(void)
{
    printf("%d%d%d%d%d", same_bits(200, 5000, 24, 0),
           same_bits(5000, 6000, 20, 0), same_bits(70000, 8000, 9, 0),
           same_bits(60000, 20000, 1, 0), same_bits(3000, 4000, 10, 1));
}

static void print_held(void)
{
    printf("%d%d", same_bits(3000, 6000, 1, 1), same_bits(10, 5000, 1, 1));
}

int main(int argc, char **argv)
{
    (void)argc;
    plan_later();
    on_sim(argv);
    if (!on_sim_ready(in_child(on_sim_print_reason)))
        return done_testing();
    is_str(in_child(print_sorted), "11111",
           "sorted indices: index_add has the cpu's bits");
    is_str(in_child(print_held), "11", "lines in shared memory: likewise");
    return done_testing();
}
