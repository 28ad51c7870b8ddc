/* test_mesh.c: meshes with named axes, and the collectives that differentiate:
 * their values, and first and second derivatives against finite differences over
 * all ranks. */
#include "ranks.h"

#include <tenon/parallel.h>
#include <tenon/tenon.h>

static int fail_with(const char *what)
{
    printf("%s: %s\n", what, tn_error() ? tn_error() : "wrong");
    return 1;
}

static int refused(bool failed, const char *text)
{
    const bool good = failed && tn_error() && strstr(tn_error(), text);
    if (!good)
        printf("expected \"%s\", got %s\n", text,
               tn_error() ? tn_error() : "no error");
    tn_error_clear();
    return !good;
}

/* ---- meshes --------------------------------------------------------------- */

/* Eight ranks as 2 x 2 x 2, as 2 x 4 with one size left out, and half of them. */
static int mesh(void)
{
    const int rank = tn_dist_rank();
    tn_mesh *cube = tn_mesh_new(tn_dims(2, 2, 2), "pp, dp,tp");
    if (!cube || tn_mesh_coordinate(cube, "pp") != rank / 4 ||
        tn_mesh_coordinate(cube, "dp") != rank / 2 % 2 ||
        tn_mesh_coordinate(cube, "tp") != rank % 2 ||
        tn_mesh_size(cube, "dp") != 2)
        return fail_with("coordinates");
    static const struct {
        const char *axis;
        int stride;
    } axes[] = {{"pp", 4}, {"dp", 2}, {"tp", 1}};
    for (int i = 0; i < 3; i++) {
        tn_group *group = tn_mesh_group(cube, axes[i].axis);
        const int first = rank & ~axes[i].stride;
        if (tn_group_size(group) != 2 ||
            tn_group_world_rank(group, 0) != first ||
            tn_group_world_rank(group, 1) != first + axes[i].stride ||
            tn_group_rank(group) != (rank != first))
            return fail_with(axes[i].axis);
        tn_tensor *x = tn_full(tn_dims(1), rank);
        tn_dist_all_reduce(x, group);
        if (tn_item(x) != 2 * first + axes[i].stride)
            return fail_with("a sum along an axis");
    }
    tn_mesh *grid = tn_mesh_new(tn_dims(-1, 4), "dp, tp");
    if (tn_mesh_size(grid, "dp") != 2 || tn_mesh_size(grid, "tp") != 4)
        return fail_with("a size that is computed");
    tn_group *half = tn_mesh_group(grid, "tp");
    tn_mesh *square = tn_mesh_new(tn_dims(2, 2), "a, b", .group = half);
    if (tn_mesh_coordinate(square, "a") != rank % 4 / 2 ||
        tn_group_world_rank(tn_mesh_group(square, "b"), 0) != (rank & ~1))
        return fail_with("a mesh of a group");

    int bad = refused(!tn_mesh_new(tn_dims(2, 3), "dp, tp"),
                      "sizes are 2 x 3, but world has 8 ranks");
    bad |= refused(!tn_mesh_new(tn_dims(-1, 3), "dp, tp"), "-1 x 3");
    bad |= refused(!tn_mesh_new(tn_dims(-1, -1), "dp, tp"), "-1 x -1");
    bad |= refused(!tn_mesh_new(tn_dims(0, 8), "dp, tp"), "0 x 8");
    bad |= refused(!tn_mesh_new(tn_dims(INT64_MAX, INT64_MAX), "dp, tp"),
                   "their product");
    bad |= refused(!tn_mesh_new(tn_dims(2, 4), "dp"), "fewer names");
    bad |= refused(!tn_mesh_new(tn_dims(8), "dp, tp"), "more names");
    bad |= refused(!tn_mesh_new(tn_dims(2, 4), "dp, dp"), "occurs twice");
    bad |= refused(!tn_mesh_new(tn_dims(2, 4), "dp, "), "expected names");
    bad |= refused(!tn_mesh_new(tn_dims(2, 4), "dp tp"), "expected a comma");
    bad |= refused(!tn_mesh_new(tn_dims(8), ""), "expected names");
    bad |= refused(!tn_mesh_new(tn_dims(8), NULL), "names is NULL");
    bad |= refused(!tn_mesh_group(cube, "ep"),
                   "axis is \"ep\": the mesh has pp, dp, tp");
    bad |= refused(tn_mesh_coordinate(cube, NULL) == -1, "axis is NULL");
    bad |= refused(tn_mesh_size(cube, "") == 0, "the mesh has");
    return bad || tn_error() ? fail_with("mesh") : 0;
}

/* ---- derivatives ---------------------------------------------------------- */

enum { KINDS = 7 };
static const char *const kind_name[KINDS] = {
    "all_reduce", "all_reduce mean", "reduce_scatter", "reduce_scatter mean",
    "all_gather", "broadcast", "all_to_all"};

static tn_tensor *collective(int kind, tn_tensor *x)
{
    tn_group *world = tn_dist_world();
    switch (kind) {
    case 0: return tn_dist_nn_all_reduce(x, world);
    case 1: return tn_dist_nn_all_reduce(x, world, .reduce = "mean");
    case 2: return tn_dist_nn_reduce_scatter(x, world);
    case 3: return tn_dist_nn_reduce_scatter(x, world, .reduce = "mean");
    case 4: return tn_dist_nn_all_gather(x, world);
    case 5: return tn_dist_nn_broadcast(x, tn_dist_size() - 1, world);
    default: return tn_dist_nn_all_to_all(x, world);
    }
}

/* A number of each rank that depends on the inputs of all. The input of the
 * collective is not contiguous. */
static tn_tensor *number(int kind, tn_tensor *x)
{
    tn_tensor *y = collective(kind, tn_transpose(tn_sin(x), 0, 1));
    tn_tensor *w = tn_arange(0, tn_tensor_numel(y), 1, .dtype = TN_F64);
    w = tn_reshape(tn_add_scalar(w, 1 + tn_dist_rank()),
                   tn_dims_from_array(tn_tensor_shape(y), tn_tensor_ndim(y)));
    return tn_sum(tn_mul(tn_mul(y, tn_square(y)), tn_sin(w)));
}

/* The first derivative along a fixed direction of each rank: a number again. */
static tn_tensor *slope(int kind, tn_tensor *x)
{
    tn_tensor *g = NULL;
    tn_grad(number(kind, x), &x, 1, &g, .create_graph = true);
    return tn_sum(tn_mul(tn_cos(x), g));
}

static double over_ranks(tn_tensor *loss)
{
    tn_tensor *sum = tn_reshape(tn_clone(tn_detach(loss)), tn_dims(1));
    TN_NO_GRAD tn_dist_all_reduce(sum, tn_dist_world());
    return tn_item(sum);
}

/* Compares the gradients of the sum of all ranks' numbers with differences: one
 * rank after the other moves one element of its input. */
static int check(tn_tensor *(*f)(int, tn_tensor *), int kind)
{
    const double step = 1e-5;
    const int n = tn_dist_size();
    tn_manual_seed(3 + (uint64_t)tn_dist_rank());
    tn_tensor *x = tn_requires_grad(tn_to_dtype(tn_randn(tn_dims(2, 2 * n)),
                                                TN_F64));
    tn_backward(f(kind, x));
    tn_tensor *grad = tn_tensor_grad(x);
    if (!grad)
        return fail_with(kind_name[kind]);
    double *value = tn_tensor_data(x);
    const double *got = tn_tensor_data(tn_contiguous(grad));
    for (int r = 0; r < n; r++)
        for (int64_t i = 0; i < tn_tensor_numel(x); i++)
            TN_SCOPE(scope) {
                const double was = value[i], move = r == tn_dist_rank() ? step : 0;
                value[i] = was + move;
                double high = over_ranks(f(kind, x));
                value[i] = was - move;
                double low = over_ranks(f(kind, x));
                value[i] = was;
                const double want = (high - low) / (2 * step);
                if (r == tn_dist_rank() &&
                    !(fabs(want - got[i]) <= 1e-6 * (1 + fabs(want)))) {
                    printf("%s: element %d: %.12g, differences %.12g\n",
                           kind_name[kind], (int)i, got[i], want);
                    return 1;
                }
            }
    return tn_error() ? fail_with(kind_name[kind]) : 0;
}

static int derive(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        if (check(number, kind))
            return 1;
    for (int kind = 0; kind < KINDS; kind++)
        if (check(slope, kind))
            return fail_with("the second derivative");
    return 0;
}

/* Values as those of the collectives, and what has no gradient. */
static int values(void)
{
    tn_group *world = tn_dist_world();
    const int n = tn_dist_size();
    tn_tensor *x = tn_arange(0, 4 * n, 1, .dtype = TN_F32);
    x = tn_reshape(tn_add_scalar(x, tn_dist_rank()), tn_dims(2 * n, 2));
    tn_tensor *sum = tn_clone(x), *first = tn_clone(x);
    tn_dist_all_reduce(sum, world);
    tn_dist_broadcast(first, 0, world);
    tn_tensor *pair[][2] = {
        {tn_dist_nn_all_reduce(x, world), sum},
        {tn_dist_nn_reduce_scatter(x, world), tn_dist_reduce_scatter(x, world)},
        {tn_dist_nn_all_gather(x, world), tn_dist_all_gather(x, world)},
        {tn_dist_nn_broadcast(x, 0, world), first},
        {tn_dist_nn_all_to_all(x, world), tn_dist_all_to_all(x, world)}};
    for (int i = 0; i < 5; i++)
        if (tn_error() || tn_item(tn_equal(pair[i][0], pair[i][1])) != 1)
            return fail_with("values");
    tn_tensor *most = tn_dist_nn_all_reduce(x, world, .reduce = "max");
    if (!most)
        return fail_with("a maximum without gradient");
    tn_tensor *w = tn_requires_grad(tn_ones(tn_dims(n)));
    int bad = refused(!tn_dist_nn_all_reduce(w, world, .reduce = "max"),
                      "dist_nn_all_reduce: .reduce = \"max\" has no gradient");
    bad |= refused(!tn_dist_nn_reduce_scatter(w, world, .reduce = "product"),
                   "has no gradient");
    bad |= refused(!tn_dist_nn_all_reduce(w, world, .reduce = "products"),
                   "expected sum, mean");
    bad |= refused(!tn_dist_nn_broadcast(w, n, world), "root is");
    bad |= refused(!tn_dist_nn_all_reduce(w, NULL), "dist_nn_all_reduce");
    bad |= refused(!tn_dist_nn_all_gather(NULL, world), "dist_nn_all_gather");
    return bad;
}

static int run(const char *name)
{
    if (tn_dist_init() < 0)
        return fail_with("init");
    int status = !strcmp(name, "mesh")     ? mesh()
                 : !strcmp(name, "derive") ? derive()
                                           : values();
    fflush(stdout);
    tn_dist_close();
    return status;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return run(argv[1]);
    plan_later();
    ranks_pass(8, "mesh", "groups by the names of axes, and what is refused");
    ranks_pass(1, "values", "collectives as operators");
    ranks_pass(4, "values", "collectives as operators");
    ranks_pass(1, "derive", "first and second derivatives");
    ranks_pass(2, "derive", "first and second derivatives");
    ranks_pass(3, "derive", "first and second derivatives");
    return done_testing();
}
