/* Tests matrix factorisations by cuSOLVER (the plugin's extension "lapack") on
 * the simulated driver with a simulated libcusolver. Results and gradients
 * equal the cpu's, no operator runs on the host, and matrices that cannot be
 * factored are reported. */
#include "on_sim.h"

#include <math.h>
#include <stdatomic.h>

static tn_dtype dtype;
static atomic_int missing;

static void listen(int level, const char *line, void *context)
{
    (void)level, (void)context;
    atomic_fetch_add(&missing, strstr(line, "cuSOLVER is not found") != NULL);
}

/* ---- tested functions -----------------------------------------------------
 *
 * Matrices have 4 or more rows and at least as many columns as rows. */

static tn_tensor *turned(tn_tensor *x)
{
    return tn_transpose(x, -1, -2);
}

/* Returns a matrix that is far from singular. */
static tn_tensor *square(tn_tensor *x)
{
    int64_t n = tn_tensor_size(x, -2);
    return tn_add(tn_narrow(x, -1, 0, n),
                  tn_mul_scalar(tn_eye(n, .dtype = dtype), 4));
}

static tn_tensor *symmetric(tn_tensor *x)
{
    return tn_add(square(x), turned(square(x)));
}

static tn_tensor *positive(tn_tensor *x)
{
    return tn_matmul(square(x), turned(square(x)));
}

static tn_tensor *sides(tn_tensor *x)
{
    return tn_narrow(x, -1, 1, 3);
}

static tn_tensor *cholesky(tn_tensor *x)
{
    return tn_linalg_cholesky(positive(x));
}

static tn_tensor *cholesky_upper(tn_tensor *x)
{
    return tn_linalg_cholesky(turned(positive(x)), .upper = true);
}

static tn_tensor *lu(tn_tensor *x)
{
    tn_tensor *pivots;
    return tn_linalg_lu_factor(x, &pivots);
}

static tn_tensor *lu_tall(tn_tensor *x)
{
    return lu(turned(x));
}

static tn_tensor *pivots_of(tn_tensor *x)
{
    tn_tensor *pivots;
    tn_linalg_lu_factor(tn_detach(x), &pivots);
    return tn_to_dtype(pivots, dtype);
}

static tn_tensor *solve(tn_tensor *x)
{
    return tn_linalg_solve(square(x), sides(x));
}

static tn_tensor *solve_right(tn_tensor *x)
{
    return tn_linalg_solve(square(x), turned(sides(x)), .left = false);
}

static tn_tensor *inverse(tn_tensor *x)
{
    return tn_linalg_inv(square(x));
}

static tn_tensor *logarithm(tn_tensor *x)
{
    tn_tensor *logabsdet;
    tn_tensor *sign = tn_linalg_slogdet(square(x), &logabsdet);
    return tn_mul(sign, logabsdet);
}

static tn_tensor *lower(tn_tensor *x)
{
    return tn_linalg_solve_triangular(square(x), sides(x));
}

static tn_tensor *upper(tn_tensor *x)
{
    return tn_linalg_solve_triangular(square(x), sides(x), .upper = true);
}

static tn_tensor *upper_right(tn_tensor *x)
{
    return tn_linalg_solve_triangular(square(x), turned(sides(x)),
                                      .upper = true, .left = false);
}

static tn_tensor *lower_unit(tn_tensor *x)
{
    return tn_linalg_solve_triangular(square(x), sides(x),
                                      .unitriangular = true);
}

static tn_tensor *lower_right_unit(tn_tensor *x)
{
    return tn_linalg_solve_triangular(square(x), turned(sides(x)),
                                      .left = false, .unitriangular = true);
}

/* Returns Q and R, concatenated. */
static tn_tensor *qr_of(tn_tensor *x, const char *mode)
{
    tn_tensor *r, *q = tn_linalg_qr(x, &r, .mode = mode);
    return tn_cat((tn_tensor *[]){q, turned(r)}, 2, -2);
}

static tn_tensor *qr(tn_tensor *x)
{
    return qr_of(turned(x), "reduced");
}

static tn_tensor *qr_wide(tn_tensor *x)
{
    tn_tensor *r, *q = tn_linalg_qr(x, &r);
    return tn_cat((tn_tensor *[]){q, r}, 2, -1);
}

static tn_tensor *qr_complete(tn_tensor *x)
{
    tn_tensor *r, *q = tn_linalg_qr(turned(tn_detach(x)), &r,
                                    .mode = "complete");
    return tn_cat((tn_tensor *[]){q, r}, 2, -1);
}

static tn_tensor *qr_alone(tn_tensor *x)
{
    tn_tensor *r;
    tn_linalg_qr(turned(tn_detach(x)), &r, .mode = "r");
    return r;
}

static tn_tensor *eigenvalues(tn_tensor *x)
{
    return tn_linalg_eigvalsh(symmetric(x));
}

/* Returns a function of the eigenvectors that does not depend on their
 * signs. */
static tn_tensor *eigenvectors(tn_tensor *x)
{
    tn_tensor *v, *w = tn_linalg_eigh(tn_triu(symmetric(x)), &v, .UPLO = "U");
    return tn_matmul(tn_mul(tn_abs(v), tn_unsqueeze(tn_exp(tn_mul_scalar(
                                                        w, 0.1)), -2)),
                     tn_abs(turned(v)));
}

static tn_tensor *product_of(tn_tensor *u, tn_tensor *s, tn_tensor *vh)
{
    return tn_matmul(tn_mul(tn_abs(u), tn_unsqueeze(tn_sqrt(s), -2)),
                     tn_abs(vh));
}

static tn_tensor *svd(tn_tensor *x)
{
    tn_tensor *s, *vh;
    tn_tensor *u = tn_linalg_svd(x, &s, &vh, .full_matrices = false);
    return product_of(u, s, vh);
}

static tn_tensor *svd_tall(tn_tensor *x)
{
    return svd(turned(x));
}

/* Uses all of Vh. Its last rows are any orthonormal basis of a complement, so
 * they enter as their projection matrix, which is unique. */
static tn_tensor *svd_full(tn_tensor *x)
{
    int64_t n = tn_tensor_size(x, -2);
    tn_tensor *s, *vh, *u = tn_linalg_svd(tn_detach(x), &s, &vh);
    tn_tensor *rest = tn_narrow(vh, -2, n, tn_tensor_size(x, -1) - n);
    return tn_cat((tn_tensor *[]){product_of(u, s, tn_narrow(vh, -2, 0, n)),
                                  tn_matmul(turned(rest), rest)}, 2, -2);
}

static tn_tensor *singular_values(tn_tensor *x)
{
    return tn_linalg_svdvals(turned(x));
}

static tn_tensor *pseudo_inverse(tn_tensor *x)
{
    return tn_linalg_pinv(x);
}

static const struct {
    const char *name;
    tn_tensor *(*of)(tn_tensor *x);
} functions[] = {
#define NAMED(f) {#f, f}
    NAMED(cholesky), NAMED(cholesky_upper), NAMED(lu), NAMED(lu_tall),
    NAMED(pivots_of), NAMED(solve), NAMED(solve_right), NAMED(inverse),
    NAMED(logarithm), NAMED(lower), NAMED(upper), NAMED(upper_right),
    NAMED(lower_unit), NAMED(lower_right_unit), NAMED(qr), NAMED(qr_wide),
    NAMED(qr_complete), NAMED(qr_alone), NAMED(eigenvalues),
    NAMED(eigenvectors), NAMED(svd), NAMED(svd_tall), NAMED(svd_full),
    NAMED(singular_values), NAMED(pseudo_inverse),
#undef NAMED
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* ---- comparison with the cpu --------------------------------------------- */

static tn_tensor *matrices(bool wide)
{
    tn_manual_seed(3);
    tn_tensor *x = tn_rand(wide ? tn_dims(2, 3, 5, 7) : tn_dims(6, 6));
    return tn_requires_grad(
        tn_detach(tn_to_dtype(tn_sub_scalar(x, 0.5), dtype)));
}

/* Computes one function and the gradient of the sum of its squares; copies both
 * to the cpu. */
static void compute(int which, bool wide, tn_tensor *result[2])
{
    tn_tensor *x = matrices(wide), *y = functions[which].of(x), *g = NULL;
    if (y && tn_tensor_requires_grad(y))
        tn_grad(tn_sum(tn_mul(y, y)), &x, 1, &g);
    result[0] = tn_to(tn_detach(y), tn_device_open("cpu"));
    result[1] = g ? tn_to(g, tn_device_open("cpu")) : NULL;
}

static bool apart(tn_tensor *x, tn_tensor *y)
{
    const double tolerance = dtype == TN_F32 ? 2e-4 : 1e-11;
    if (!x || !y)
        return x || y;
    return !(tn_item(tn_max(tn_abs(tn_sub(x, y)))) <=
             tolerance * (1 + tn_item(tn_max(tn_abs(y)))));
}

/* Prints "0 wrong, 0 on the host, missing 0": the number of wrong results, of
 * operators that ran on the host, and of operators that are missing. */
static void print_beside(void)
{
    int wrong = 0;
    tn_log_set(listen, NULL);
    tn_device *cpu = tn_device_open("cpu"), *device = tn_device_open("cuda");
    int64_t on_host = 0;
    for (int i = 0; i < 2 * FUNCTIONS; i++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *want[2], *got[2];
        tn_device_set(cpu);
        compute(i / 2, i % 2, want);
        int64_t before = tn_host_runs();
        tn_device_set(device);
        compute(i / 2, i % 2, got);
        int64_t runs = tn_host_runs() - before;
        bool bad = apart(got[0], want[0]) || apart(got[1], want[1]);
        if (bad || tn_error())
            note("%s: %s", functions[i / 2].name,
                 tn_error() ? tn_error() : "other than the cpu's");
        /* the gradient of lu permutes rows, which runs on the host */
        bool ordered = strncmp(functions[i / 2].name, "lu", 2) == 0;
        on_host += ordered ? 0 : runs;
        wrong += bad || tn_error();
        tn_error_clear();
        tn_scope_close(scope);
    }
    printf("%d wrong, %s the host, missing %d", wrong,
           on_host ? "on" : "nothing on", atomic_load(&missing) > 0);
}

/* ---- errors -------------------------------------------------------------- */

static tn_tensor *two(double a, double b, double c, double d)
{
    const double number[] = {a, b, c, d};
    tn_tensor *x = tn_tensor_from_array(number, TN_F64, tn_dims(2, 2));
    return tn_to_dtype(x, dtype);
}

static void print_error(const void *result)
{
    printf("%s\n", result ? "(a result)" : tn_error());
    tn_error_clear();
}

static void print_refused(void)
{
    tn_tensor *s, *vh;
    tn_host_ops_allow(false);
    tn_device_set(tn_device_open("cuda"));
    tn_tensor *singular = two(1, 2, 2, 4), *mixed = two(1, 2, 2, 1);
    print_error(tn_linalg_inv(singular));
    print_error(tn_linalg_solve(singular, tn_ones(tn_dims(2), .dtype = dtype)));
    print_error(tn_linalg_cholesky(mixed));
    print_error(tn_linalg_cholesky(
        tn_stack((tn_tensor *[]){two(2, 1, 1, 2), mixed}, 2, 0)));
    print_error(tn_linalg_svd(two(1, NAN, 2, 3), &s, &vh));
    tn_host_ops_allow(true);
    print_error(tn_linalg_inv(tn_ones(tn_dims(2, 3), .dtype = dtype)));
}

/* Computes factorisations whose `info` nobody reads, and one of an empty
 * batch. */
static void print_infos(void)
{
    tn_device_set(tn_device_open("cuda"));
    tn_tensor *info, *batch[] = {two(4, 2, 2, 3), two(1, 2, 2, 1)};
    tn_linalg_cholesky_ex(tn_stack(batch, 2, 0), &info);
    printf("%d%d", (int)tn_item_int(tn_select(info, 0, 0)),
           (int)tn_item_int(tn_select(info, 0, 1)));
    tn_tensor *none = tn_linalg_inv(tn_ones(tn_dims(0, 3, 3), .dtype = dtype));
    printf(" %d%s", (int)tn_tensor_size(none, 0), tn_error() ? tn_error() : "");
}

/* ---- recorded graphs ----------------------------------------------------- */

static tn_tensor *recorded_in, *recorded_out;

static tn_status step(void *context)
{
    (void)context;
    tn_tensor *info;
    recorded_out = tn_keep(tn_matmul(
        tn_linalg_cholesky_ex(positive(recorded_in), &info),
        tn_linalg_inv_ex(square(recorded_in), &info)));
    return recorded_out ? TN_OK : tn_error_code();
}

static void print_replayed(void)
{
    tn_device_set(tn_device_open("cuda"));
    recorded_in = tn_detach(matrices(false));
    tn_graph *graph = tn_graph_record(step, NULL);
    tn_tensor *other = tn_mul_scalar(recorded_in, 0.5);
    tn_tensor *first = tn_clone(recorded_out);
    tn_copy_(recorded_in, other);
    tn_graph_replay(graph);
    tn_tensor *replayed = recorded_out;
    step(NULL);
    printf("%d%d %s", apart(replayed, recorded_out), apart(first, replayed),
           tn_error() ? tn_error() : "");
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"float32", "float64"};
    (void)argc;
    plan_later();
    on_any_driver(argv);
    if (!on_sim_ready(in_child(on_sim_print_reason)))
        return done_testing();
    setenv("TENON_LOG", "3", 1);
    for (int i = 0; i < 2; i++) {
        dtype = tn_dtype_from_name(names[i]);
        is_str(in_child(print_beside),
               "0 wrong, nothing on the host, missing 0",
               "%s: %d factorisations and their gradients are the cpu's",
               names[i], FUNCTIONS);
        is_str(
            in_child(print_refused),
            "linalg_inv: matrix 0 of the batch is singular (LAPACK's info is "
            "2)\nlinalg_solve: matrix 0 of the batch is singular (LAPACK's "
            "info is 2)\nlinalg_cholesky: matrix 0 of the batch is not "
            "positive-definite (LAPACK's info is 2)\nlinalg_cholesky: matrix 1 "
            "of the batch is not positive-definite (LAPACK's info is "
            "2)\nlinalg_svd: A (2, 2) has NaN or infinite "
            "elements\nlinalg_inv: A has shape (2, 3); expected square "
            "matrices\n",
            "%s: a matrix that cannot be factored is reported as on the host",
            names[i]);
        is_str(in_child(print_infos), "02 0",
               "%s: infos, and a batch of nothing", names[i]);
        is_str(in_child(print_replayed), "01 ", "%s: recorded, and replayed",
               names[i]);
    }
    if (!on_real_driver()) {
        setenv("TENON_SIM_SEED", "7", 1);
        is_str(in_child(print_beside),
               "0 wrong, nothing on the host, missing 0",
               "whatever runs first");
        unsetenv("TENON_SIM_SEED");
    }
    setenv("TENON_MASK", "lapack", 1);
    is_str(in_child(print_beside), "0 wrong, on the host, missing 0",
           "masked, the host does them");
    unsetenv("TENON_MASK");
    setenv("TENON_CUDA_CUSOLVER", "/nonexistent", 1);
    is_str(in_child(print_beside), "0 wrong, on the host, missing 1",
           "without cuSOLVER likewise, and the log says why");
    return done_testing();
}
