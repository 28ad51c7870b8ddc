/* test_collectives.c: each collective of <tenon/dist.h> on the engine local,
 * against the results that every rank can compute for itself. */
#include "ranks.h"

#include <sched.h>
#include <tenon/dist.h>
#include <tenon/tenon.h>

static int wrong;

__attribute__((format(printf, 2, 3))) static void expect(bool good,
                                                         const char *format, ...)
{
    if (good)
        return;
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf(" (error: %s)\n", tn_error() ? tn_error() : "none");
    wrong++;
}

/* The element i of rank r: numbers whose sum depends on the order. */
static float value(int r, int64_t i)
{
    uint32_t h = (uint32_t)i * 2654435761u + (uint32_t)r * 40503u * 65537u + 12345u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    return (float)((double)(int32_t)h * 0x1p-31 * (h & 1 ? 1000 : 0.001));
}

static float tree(const float *v, int n)
{
    float x[RANKS_MOST];
    memcpy(x, v, sizeof(float) * (size_t)n);
    for (int d = 1; d < n; d *= 2)
        for (int r = 0; r + d < n; r += 2 * d)
            x[r] += x[r + d];
    return x[0];
}

static float tree_at(int64_t i)
{
    float v[RANKS_MOST];
    for (int r = 0; r < tn_dist_size(); r++)
        v[r] = value(r, i);
    return tree(v, tn_dist_size());
}

static tn_tensor *filled(int64_t n)
{
    float *data = malloc((size_t)(n ? n : 1) * sizeof *data);
    for (int64_t i = 0; i < n; i++)
        data[i] = value(tn_dist_rank(), i);
    tn_tensor *x = tn_tensor_from_array(data, TN_F32, tn_dims(n));
    free(data);
    return x;
}

static void check_all_reduce(int64_t n)
{
    tn_tensor *x = filled(n);
    expect(tn_dist_all_reduce(x, tn_dist_world()) == TN_OK, "all_reduce %d",
           (int)n);
    const float *data = tn_tensor_data(x);
    int64_t odd = 0;
    for (int64_t i = 0; i < n; i++) {
        float want = tree_at(i);
        odd += memcmp(&want, &data[i], sizeof want) != 0;
    }
    expect(odd == 0, "all_reduce of %d: %d elements differ", (int)n, (int)odd);
}

/* The same in memory of the engine, and in a part of it. */
static void check_shared(int64_t n)
{
    tn_tensor *all = tn_dist_empty(tn_dims(2, n), tn_dist_world());
    expect(all && tn_tensor_is_contiguous(all), "dist_empty");
    for (int half = 0; half < 2; half++) {
        tn_tensor *x = tn_select(all, 0, half);
        tn_copy_(x, filled(n));
        expect(tn_dist_all_reduce(x, tn_dist_world()) == TN_OK, "shared");
        float *got = malloc((size_t)n * sizeof *got);
        int64_t odd = 0;
        tn_tensor_to_array(x, got, (size_t)n * sizeof *got);
        for (int64_t i = 0; i < n; i++) {
            float want = tree_at(i);
            odd += memcmp(&want, &got[i], sizeof want) != 0;
        }
        free(got);
        expect(odd == 0, "shared: %lld of %lld", (long long)odd, (long long)n);
    }
}

static void check_scatter_gather(int64_t n)
{
    const int size = tn_dist_size(), rank = tn_dist_rank();
    tn_tensor *y = tn_dist_reduce_scatter(filled(n * size), tn_dist_world());
    const float *data = tn_tensor_data(y);
    int64_t odd = tn_tensor_numel(y) != n;
    for (int64_t i = 0; data && i < n; i++) {
        float want = tree_at(rank * n + i);
        odd += memcmp(&want, &data[i], sizeof want) != 0;
    }
    expect(odd == 0 && (data || !n), "reduce_scatter of %d: %d differ", (int)n,
           (int)odd);

    tn_tensor *all = tn_dist_all_gather(filled(n), tn_dist_world());
    data = tn_tensor_data(all);
    odd = tn_tensor_numel(all) != n * size;
    for (int64_t i = 0; data && i < n * size; i++)
        odd += data[i] != value((int)(i / n), i % n);
    expect(odd == 0 && (data || !n), "all_gather of %d: %d differ", (int)n,
           (int)odd);

    tn_tensor *turned = tn_dist_all_to_all(filled(n * size), tn_dist_world());
    data = tn_tensor_data(turned);
    odd = tn_tensor_numel(turned) != n * size;
    for (int64_t i = 0; data && i < n * size; i++)
        odd += data[i] != value((int)(i / n), rank * n + i % n);
    expect(odd == 0 && (data || !n), "all_to_all of %d: %d differ", (int)n,
           (int)odd);

    tn_tensor *x = filled(n);
    expect(tn_dist_broadcast(x, size - 1, tn_dist_world()) == TN_OK, "broadcast");
    data = tn_tensor_data(x);
    odd = 0;
    for (int64_t i = 0; data && i < n; i++)
        odd += data[i] != value(size - 1, i);
    expect(odd == 0, "broadcast of %d: %d differ", (int)n, (int)odd);
}

/* Integers, halves, bool; every reduction. */
static void check_dtypes(void)
{
    const int size = tn_dist_size(), rank = tn_dist_rank();
    static const tn_dtype dtypes[] = {TN_F64, TN_F16, TN_BF16, TN_I64, TN_I32,
                                      TN_I16, TN_I8, TN_U8};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        tn_tensor *one = tn_full(tn_dims(5), rank + 1, .dtype = dtypes[d]);
        const char *name = tn_dtype_name(dtypes[d]);
        double product = 1;
        for (int r = 0; r < size; r++)
            product *= r + 1;
        tn_tensor *x = tn_clone(one);
        tn_dist_all_reduce(x, tn_dist_world());
        expect(tn_item(tn_select(x, 0, 4)) == size * (size + 1) / 2, "sum of %s",
               name);
        x = tn_clone(one);
        tn_dist_all_reduce(x, tn_dist_world(), .reduce = "max");
        expect(tn_item(tn_select(x, 0, 0)) == size, "max of %s", name);
        x = tn_clone(one);
        tn_dist_all_reduce(x, tn_dist_world(), .reduce = "min");
        expect(tn_item(tn_select(x, 0, 0)) == 1, "min of %s", name);
        x = tn_clone(one);
        tn_dist_all_reduce(x, tn_dist_world(), .reduce = "product");
        expect(size > 4 || tn_item(tn_select(x, 0, 0)) == product,
               "product of %s", name);
        if (tn_dtype_is_floating(dtypes[d])) {
            x = tn_clone(one);
            tn_dist_all_reduce(x, tn_dist_world(), .reduce = "mean");
            expect(tn_item(tn_select(x, 0, 0)) == (size + 1) / 2.0, "mean of %s",
                   name);
        }
    }
    tn_tensor *b = tn_full(tn_dims(2), rank == 0, .dtype = TN_BOOL);
    tn_dist_all_reduce(b, tn_dist_world());
    expect(tn_item(tn_select(b, 0, 0)) == 1, "bool: or");

    /* bfloat16 adds in float32: 256 + 1 + 1 (+ 1 + 1) is not 256. */
    tn_tensor *h = tn_full(tn_dims(1), rank ? 1 : 256, .dtype = TN_BF16);
    tn_dist_all_reduce(h, tn_dist_world());
    double want[] = {256, 256, 256, 258, 260, 260, 260, 262, 264};
    expect(tn_item(h) == want[size], "bfloat16 sums in float32: %g", tn_item(h));

    tn_tensor *nan = tn_full(tn_dims(1), rank == size - 1 ? NAN : 1);
    tn_dist_all_reduce(nan, tn_dist_world(), .reduce = "max");
    expect(isnan(tn_item(nan)), "the maximum with a NaN is NaN");

    tn_tensor *tiny = tn_full(tn_dims(1), 1e-40);
    tn_dist_all_reduce(tiny, tn_dist_world(), .reduce = "mean");
    expect(tn_item(tiny) > 0, "subnormals stay");
}

static void check_pairs(int64_t n)
{
    const int size = tn_dist_size(), rank = tn_dist_rank();
    tn_group *world = tn_dist_world();
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    tn_tensor *x = filled(n), *y = tn_zeros(tn_dims(n));
    tn_work *sent = NULL, *got = NULL;
    tn_dist_send(x, right, world, .work = &sent);
    tn_dist_recv(y, left, world, .work = &got);
    expect(tn_work_wait(got) == TN_OK && tn_work_wait(sent) == TN_OK, "ring");
    const float *data = tn_tensor_data(y);
    int64_t odd = 0;
    for (int64_t i = 0; i < n; i++)
        odd += data[i] != value(left, i);
    expect(odd == 0, "a ring of %d: %d differ", (int)n, (int)odd);
}

/* Several at once, waited for in the other order. */
static void check_async(void)
{
    enum { WORKS = 5 };
    tn_work *work[WORKS];
    tn_tensor *x[WORKS];
    for (int i = 0; i < WORKS; i++) {
        x[i] = filled(100 + 40000 * i);
        tn_dist_all_reduce(x[i], tn_dist_world(), .work = &work[i],
                           .label = "async");
    }
    for (int i = WORKS; i-- > 0;) {
        expect(tn_work_wait(work[i]) == TN_OK, "work %d", i);
        float want = tree_at(7);
        expect(((float *)tn_tensor_data(x[i]))[7] == want, "value of work %d", i);
    }
    tn_tensor *y = tn_ones(tn_dims(3));
    tn_work *polled = NULL;
    tn_dist_all_reduce(y, tn_dist_world(), .work = &polled);
    while (!tn_work_is_done(polled))
        sched_yield();
    expect(tn_item(tn_select(y, 0, 0)) == tn_dist_size(), "a polled work");
    /* Freed before its end: the scope waits. */
    tn_tensor *z = tn_keep(tn_ones(tn_dims(70000)));
    TN_SCOPE(scope) {
        tn_work *left = NULL;
        tn_dist_all_reduce(z, tn_dist_world(), .work = &left);
    }
    expect(tn_item(tn_select(z, 0, 69999)) == tn_dist_size(), "a freed work");
    tn_drop(z);
}

static void check_groups(void)
{
    const int size = tn_dist_size(), rank = tn_dist_rank();
    tn_group *odd = tn_group_split(tn_dist_world(), rank % 2, .name = "odd");
    expect(tn_group_size(odd) == (size + 1 - rank % 2) / 2, "size of a group");
    expect(tn_group_world_rank(odd, tn_group_rank(odd)) == rank, "own rank");
    tn_tensor *x = tn_full(tn_dims(1), rank);
    tn_dist_all_reduce(x, odd);
    double want = 0;
    for (int r = rank % 2; r < size; r += 2)
        want += r;
    expect(tn_item(x) == want, "sum of a group: %g, want %g", tn_item(x), want);
    /* The other order of ranks, and a rank that stays out. */
    tn_group *turned = tn_group_split(tn_dist_world(), rank == 0 ? -1 : 3,
                                      .key = -rank);
    if (rank == 0)
        expect(!turned && !tn_error(), "a negative color gives no group");
    else
        expect(tn_group_rank(turned) == size - 1 - rank &&
                   tn_group_world_rank(turned, 0) == size - 1, "order by key");
    if (turned) {
        tn_tensor *y = tn_full(tn_dims(1), rank);
        tn_dist_broadcast(y, 0, turned);
        expect(tn_item(y) == size - 1, "broadcast in a turned group");
    }
    expect(tn_dist_barrier(tn_dist_world()) == TN_OK, "barrier");
}

/* What is refused, before anything is sent. */
static void check_refused(void)
{
    tn_group *world = tn_dist_world();
    static const char *const why[] = {
        "is not contiguous", "requires a gradient", "expected sum, mean",
        "is not an integer", "is not reduced", "has the ranks 0 to",
        "expected a multiple", "already"};
    for (int i = 0; i < 8; i++) {
        tn_tensor *x = tn_ones(tn_dims(3, 2));
        if (i == 0)
            tn_dist_all_reduce(tn_transpose(x, 0, 1), world);
        if (i == 1)
            tn_dist_all_reduce(tn_requires_grad(x), world);
        if (i == 2)
            tn_dist_all_reduce(x, world, .reduce = "avg");
        if (i == 3)
            tn_dist_all_reduce(tn_ones(tn_dims(2), .dtype = TN_I32), world,
                               .reduce = "mean");
        if (i == 4)
            tn_dist_all_reduce(tn_to_dtype(x, TN_F8E4M3), world);
        if (i == 5)
            tn_dist_broadcast(x, 99, world);
        if (i == 6)
            tn_dist_reduce_scatter(tn_ones(tn_dims(97)), world);
        if (i == 7)
            tn_dist_init();
        expect((i == 6 && tn_dist_size() == 1) ||
                   (tn_error() && strstr(tn_error(), why[i])),
               "refused: %s", why[i]);
        tn_error_clear();
    }
    /* A value that a gradient needs was changed. */
    tn_tensor *w = tn_requires_grad(tn_ones(tn_dims(2)));
    tn_tensor *x = tn_ones(tn_dims(2));
    tn_tensor *loss = tn_sum(tn_mul(w, x));
    tn_dist_all_reduce(x, world);
    expect(tn_backward(loss) == TN_ERR_STATE, "autograd sees the change");
    tn_error_clear();
}

static int run(const char *name)
{
    if (tn_dist_init() < 0) {
        printf("%s\n", tn_error());
        return 1;
    }
    if (!strcmp(name, "all_reduce")) {
        static const int64_t counts[] = {0, 1, 3, 2048, 2049, 65536, 65537, 300001};
        for (int i = 0; i < 8; i++) {
            check_all_reduce(counts[i]);
            check_shared(counts[i]);
        }
    } else if (!strcmp(name, "others")) {
        static const int64_t counts[] = {0, 1, 5, 4099, 100003};
        for (int i = 0; i < 5; i++)
            check_scatter_gather(counts[i]);
        check_dtypes();
    } else if (!strcmp(name, "pairs")) {
        if (tn_dist_size() > 1) {
            check_pairs(1);
            check_pairs(100000);
        }
        check_async();
        check_groups();
        check_refused();
    } else {
        wrong++;
    }
    expect(!tn_error(), "no error is pending");
    tn_dist_close();
    return wrong ? 1 : 0;
}

int main(int argc, char **argv)
{
    const char *name = ranks_case(argc, argv);
    if (name)
        return run(name);
    plan_later();
    static const int sizes[] = {1, 2, 3, 4, 7};
    for (int i = 0; i < 5; i++) {
        ranks_pass(sizes[i], "all_reduce", "all_reduce adds in the fixed order");
        ranks_pass(sizes[i], "others", "the other collectives, and all dtypes");
        ranks_pass(sizes[i], "pairs", "messages, handles, groups, mistakes");
    }
    return done_testing();
}
