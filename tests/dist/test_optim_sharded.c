/* test_optim_sharded.c: optimizers whose state is divided among ranks: the bits of the
 * whole optimizer, its state in pieces, memory, and what is refused. */
#include "ranks.h"

#include <tenon/sharded.h>
#include <tenon/tenon.h>

enum { STEPS = 6 };

static int fail_with(const char *what)
{
    printf("%s: %s\n", what, tn_error() ? tn_error() : "wrong");
    return 1;
}

/* ---- training ------------------------------------------------------------- */

/* Matrices alone, since Muon takes nothing else; sizes that no cut divides. */
static tn_module *model_new(void)
{
    tn_manual_seed(5);
    return tn_nn_sequential(tn_nn_linear(7, 33, .bias = false), tn_nn_tanh(),
                            tn_nn_linear(33, 11, .bias = false), tn_nn_tanh(),
                            tn_nn_linear(11, 5, .bias = false));
}

static const char *const rules[] = {
    "sgd", "adam", "adamw", "rmsprop", "adagrad", "adadelta", "adamax", "nadam",
    "radam", "asgd", "rprop", "lion", "muon", "adafactor", "lars", "lamb"};
enum { RULES = sizeof rules / sizeof *rules };

static tn_optim *optim_new(const char *rule, tn_parameter_list *p)
{
    return !strcmp(rule, "sgd")
               ? tn_optim_sgd(p, .lr = 0.1, .momentum = 0.9, .nesterov = true)
           : !strcmp(rule, "adam")  ? tn_optim_adam(p, .lr = 0.01,
                                                    .weight_decay = 0.1)
           : !strcmp(rule, "adamw") ? tn_optim_adamw(p, .lr = 0.01,
                                                     .amsgrad = true)
           : !strcmp(rule, "rmsprop") ? tn_optim_rmsprop(p, .centered = true,
                                                         .momentum = 0.5)
           : !strcmp(rule, "adagrad")
               ? tn_optim_adagrad(p, .initial_accumulator_value = 0.1)
           : !strcmp(rule, "adadelta")  ? tn_optim_adadelta(p)
           : !strcmp(rule, "adamax")    ? tn_optim_adamax(p)
           : !strcmp(rule, "nadam")     ? tn_optim_nadam(p)
           : !strcmp(rule, "radam")     ? tn_optim_radam(p)
           : !strcmp(rule, "asgd")      ? tn_optim_asgd(p, .t0 = 2)
           : !strcmp(rule, "rprop")     ? tn_optim_rprop(p)
           : !strcmp(rule, "lion")      ? tn_optim_lion(p, .lr = 0.01)
           : !strcmp(rule, "muon")      ? tn_optim_muon(p, .lr = 0.01)
           : !strcmp(rule, "adafactor") ? tn_optim_adafactor(p)
           : !strcmp(rule, "lars")      ? tn_optim_lars(p)
                                        : tn_optim_lamb(p);
}

/* One step with the gradients of a batch that the number determines. */
static void step(tn_module *model, tn_optim *opt, int number)
{
    TN_SCOPE(scope) {
        tn_manual_seed(100 + (uint64_t)number);
        tn_optim_zero_grad(opt);
        tn_backward(tn_mean(tn_square(tn_forward(model,
                                                 tn_randn(tn_dims(4, 7))))));
        tn_clip_grad_norm(tn_parameters(model), 0.05);
        tn_optim_step(opt);
    }
}

static bool same_lists(tn_parameter_list *left, tn_parameter_list *right,
                       const char *what)
{
    for (int i = 0; i < tn_parameters_count(left); i++) {
        tn_tensor *x = tn_parameters_at(left, i), *y = tn_parameters_at(right, i);
        if (tn_error() ||
            memcmp(tn_tensor_data(x), tn_tensor_data(y),
                   (size_t)tn_tensor_numel(x) * tn_dtype_bytes(tn_tensor_dtype(x)))) {
            fail_with(what);
            printf("  in %s\n", tn_parameters_name(left, i));
            return false;
        }
    }
    return true;
}

static bool same_bits(tn_module *a, tn_module *b, const char *what)
{
    return same_lists(tn_parameters(a), tn_parameters(b), what);
}

/* ---- pieces --------------------------------------------------------------- */

/* The state of the whole optimizer, by name. */
typedef struct known {
    int count;
    tn_tensor *tensor[64];
    char name[64][64];
    int64_t elements; /* of the pieces that were compared */
    bool good;
} known;

static void note_state(const char *name, tn_tensor *x, void *context)
{
    known *k = context;
    k->tensor[k->count] = x;
    snprintf(k->name[k->count++], sizeof k->name[0], "%s", name);
}

/* The elements of a piece in the whole state. */
static tn_tensor *find_piece(const known *k, const tn_optim_piece *piece)
{
    for (int i = 0; i < k->count; i++)
        if (!strcmp(k->name[i], piece->name) &&
            piece->shape.count == tn_tensor_ndim(k->tensor[i])) {
            tn_tensor *flat = tn_narrow(tn_view(k->tensor[i], tn_dims(-1)), 0,
                                        piece->offset,
                                        tn_tensor_numel(piece->tensor));
            return tn_view(flat, tn_dims_from_array(
                                     tn_tensor_shape(piece->tensor),
                                     tn_tensor_ndim(piece->tensor)));
        }
    return NULL;
}

static tn_status compare_piece(const tn_optim_piece *piece, void *context)
{
    known *k = context;
    tn_tensor *want = find_piece(k, piece);
    k->elements += tn_tensor_numel(piece->tensor);
    k->good = k->good && want && tn_item(tn_equal(want, piece->tensor)) == 1;
    return TN_OK;
}

static tn_status read_piece(const tn_optim_piece *piece, void *context)
{
    tn_tensor *from = find_piece(context, piece);
    return from && tn_copy_(piece->tensor, from)
               ? TN_OK
               : tn_error_set(TN_ERR_ARGUMENT, "no piece %s", piece->name);
}

/* The sum of a number over the ranks. */
static double over_ranks(double number)
{
    tn_tensor *x = tn_full(tn_dims(1), number, .dtype = TN_F64);
    tn_dist_all_reduce(x, tn_dist_world());
    return tn_item(x);
}

/* Trains with the whole and with the divided optimizer, in the middle of which
 * the state goes over: as a file, and as pieces. */
static int train(const char *rule)
{
    tn_group *world = tn_dist_world();
    tn_module *a = model_new(), *b = model_new();
    tn_optim *whole = optim_new(rule, tn_parameters(a));
    tn_optim *divided = tn_optim_sharded(optim_new(rule, tn_parameters(b)), world,
                                         .bucket_bytes = 512);
    if (!divided)
        return fail_with(rule);
    for (int i = 0; i < STEPS; i++) {
        step(a, whole, i);
        step(b, divided, i);
        if (!same_bits(a, b, rule))
            return 1;
    }
    /* The pieces are those of the whole state, and each element is in one. */
    known k = {.good = true};
    char *json = tn_optim_state(whole, note_state, &k);
    char *pieces = tn_optim_state_pieces(divided, compare_piece, &k);
    int64_t total = 0;
    for (int i = 0; i < k.count; i++)
        total += tn_tensor_numel(k.tensor[i]);
    if (!k.good || !json || !pieces || strcmp(json, pieces) ||
        over_ranks((double)k.elements) != (double)total)
        return fail_with("pieces");
    /* A second divided optimizer continues from pieces, a third from a file. */
    tn_module *d = tn_module_clone(a), *e = tn_module_clone(a);
    tn_optim *from_pieces =
        tn_optim_sharded(optim_new(rule, tn_parameters(d)), world);
    tn_optim *from_file =
        tn_optim_sharded(optim_new(rule, tn_parameters(e)), world);
    if (tn_optim_load_pieces(from_pieces, json, "memory", read_piece, &k) < 0)
        return fail_with("loading pieces");
    char path[64];
    snprintf(path, sizeof path, "test-optim-sharded-%s-%d-%ld.safetensors", rule,
             tn_dist_rank(), (long)getpid());
    if (tn_optim_save(whole, path) < 0 || tn_optim_load(from_file, path) < 0)
        return fail_with("a file");
    unlink(path);
    free(json);
    free(pieces);
    for (int i = STEPS; i < 2 * STEPS; i++) {
        step(a, whole, i);
        step(d, from_pieces, i);
        step(e, from_file, i);
    }
    return !same_bits(a, d, "after loading pieces") ||
           !same_bits(a, e, "after loading a file");
}

static int train_all(void)
{
    int bad = 0;
    for (int i = 0; i < RULES && !bad; i++)
        TN_SCOPE(scope) bad = train(rules[i]);
    return bad || tn_error() ? fail_with("training") : 0;
}

/* Groups, a parameter of another dtype, one without elements, one that gets no
 * gradient; a schedule; a scaler that skips a step. */
static int train_mixed(void)
{
    tn_parameter_list *list[2], *more[2];
    tn_optim *opt[2];
    tn_grad_scaler *scaler[2];
    for (int m = 0; m < 2; m++) {
        tn_manual_seed(9);
        tn_module *net = tn_nn_sequential(tn_nn_linear(7, 70), tn_nn_tanh(),
                                          tn_nn_linear(70, 3));
        tn_module *half = tn_module_to(tn_nn_linear(3, 50), .dtype = TN_BF16);
        tn_tensor *other[] = {
            tn_requires_grad(tn_zeros(tn_dims(0, 4))),
            tn_requires_grad(tn_ones(tn_dims(9))),
            tn_module_parameter(half, "weight"), tn_module_parameter(half, "bias")};
        list[m] = tn_parameters(net);
        more[m] = tn_parameters_from(other, 4);
        opt[m] = tn_optim_adam(list[m], .lr = 0.02);
        tn_optim_add_group(opt[m], more[m], .lr = 0.5);
        scaler[m] = tn_grad_scaler_new(.init_scale = 1024);
        if (m == 1 && !tn_optim_sharded(opt[m], tn_dist_world()))
            return fail_with("mixed");
        tn_schedule *schedule = tn_schedule_exponential_lr(opt[m], 0.9);
        for (int i = 0; i < STEPS; i++)
            TN_SCOPE(scope) {
                tn_manual_seed(40 + (uint64_t)i);
                tn_optim_zero_grad(opt[m]);
                tn_tensor *y = tn_forward(net, tn_randn(tn_dims(4, 7)));
                y = tn_forward(half, tn_to_dtype(y, TN_BF16));
                tn_tensor *loss = tn_mean(tn_square(tn_to_dtype(y, TN_F32)));
                if (i == 2)
                    loss = tn_mul_scalar(loss, INFINITY);
                if (i > 3)
                    loss = tn_add(loss, tn_sum(tn_square(other[1])));
                tn_backward(tn_grad_scaler_scale(scaler[m], loss));
                if (tn_grad_scaler_step(scaler[m], opt[m]) != (i != 2))
                    return fail_with("the scaler's step");
                tn_grad_scaler_update(scaler[m]);
                tn_schedule_step(schedule);
            }
        if (tn_error())
            return fail_with("mixed");
    }
    return !same_lists(list[0], list[1], "mixed") ||
           !same_lists(more[0], more[1], "mixed");
}

/* ---- checkpoints ---------------------------------------------------------- */

/* Saves the state in the middle of training ("save"), divided; or loads it with
 * another number of ranks, divided or whole, and ends training ("load"). Both print
 * a hash of the end. */
static int keep(const char *folder, bool save, bool divided)
{
    tn_group *world = tn_dist_world();
    tn_module *model = model_new();
    tn_optim *opt = tn_optim_adam(tn_parameters(model), .lr = 0.01);
    if (divided && !tn_optim_sharded(opt, world))
        return fail_with("keep");
    tn_checkpoint all = {sizeof all, .module = model,
                         .optim = divided ? NULL : opt};
    tn_sharded_state parts = tn_optim_sharded_state(opt);
    const tn_sharded_state *state = divided ? &parts : NULL;
    if (save) {
        for (; all.step < STEPS; all.step++)
            step(model, opt, (int)all.step);
        tn_sharded_save(folder, &all, world, .state = state);
    } else {
        tn_sharded_load(folder, &all, world, .state = state);
    }
    for (int i = STEPS; i < 2 * STEPS; i++)
        step(model, opt, i);
    uint64_t h = 0xcbf29ce484222325u;
    tn_parameter_list *list = tn_parameters(model);
    for (int i = 0; i < tn_parameters_count(list) && !tn_error(); i++) {
        tn_tensor *x = tn_parameters_at(list, i);
        const unsigned char *at = tn_tensor_data(x);
        for (int64_t k = 0; k < 4 * tn_tensor_numel(x); k++)
            h = (h ^ at[k]) * 0x100000001b3u;
    }
    if (tn_error() || all.step != STEPS)
        return fail_with("keep");
    printf("hash %016llx\n", (unsigned long long)h);
    return 0;
}

/* ---- memory --------------------------------------------------------------- */

static int measure(void)
{
    enum { ROWS = 1024, COLUMNS = 2048 };
    tn_device *cpu = tn_device_open("cpu");
    const double elements = (double)ROWS * COLUMNS;
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_memory(cpu, &before);
    tn_memory_reset_peak(cpu);
    tn_tensor *w = tn_requires_grad(tn_ones(tn_dims(ROWS, COLUMNS)));
    tn_optim *opt = tn_optim_sharded(
        tn_optim_adam(tn_parameters_from(&w, 1)), tn_dist_world(),
        .bucket_bytes = 262144);
    tn_tensor_set_grad(w, tn_ones(tn_dims(ROWS, COLUMNS)));
    tn_optim_step(opt);
    tn_optim_step(opt);
    tn_memory(cpu, &after);
    const double used = (double)(after.peak_bytes - before.allocated_bytes);
    const double formula = elements * (8 + 8.0 / tn_dist_size());
    printf("%.0f bytes, formula %.0f: %.3f\n", used, formula, used / formula);
    return tn_error() || !(used / formula < 1.05 && used / formula > 0.95);
}

/* ---- what is refused ------------------------------------------------------ */

static int refused(bool failed, const char *text)
{
    const bool good = failed && tn_error() && strstr(tn_error(), text);
    if (!good)
        printf("expected \"%s\", got %s\n", text,
               tn_error() ? tn_error() : "no error");
    tn_error_clear();
    return !good;
}

static tn_status no_loss(tn_tensor *const *in, int in_count, tn_tensor **out,
                         int out_count, void *context)
{
    (void)in_count;
    (void)out_count;
    out[0] = tn_mean(tn_square(tn_forward(context, in[0])));
    return TN_OK;
}

static void ignore(const char *name, tn_tensor *x, void *context)
{
    (void)name;
    (void)x;
    (void)context;
}

static int refuse(void)
{
    tn_group *world = tn_dist_world();
    tn_module *model = model_new();
    tn_parameter_list *list = tn_parameters(model);
    int bad = refused(!tn_optim_sharded(tn_optim_lbfgs(list), world),
                      "optim_lbfgs searches along a direction");
    tn_optim *opt = tn_optim_adam(list);
    bad |= refused(!tn_optim_sharded(opt, world, .bucket_bytes = 0),
                   "expected at least 1");
    step(model, opt, 0);
    bad |= refused(!tn_optim_sharded(opt, world), "has made a step already");
    opt = tn_optim_sharded(tn_optim_adam(list), world);
    bad |= refused(!tn_optim_sharded(opt, world), "divided already");
    tn_tensor *one = tn_requires_grad(tn_ones(tn_dims(3)));
    bad |= refused(tn_optim_add_group(opt, tn_parameters_from(&one, 1)) < 0,
                   "add groups before");
    bad |= refused(tn_optim_save(opt, "never.safetensors") < 0,
                   "tn_optim_state_pieces");
    bad |= refused(!tn_optim_state(opt, ignore, NULL), "tn_optim_state_pieces");
    tn_compiled *compiled = tn_compile_step(no_loss, model, opt);
    tn_tensor *x = tn_ones(tn_dims(2, 7)), *loss = NULL;
    for (int i = 0; i < 3 && !tn_error(); i++)
        tn_compiled_run(compiled, &x, 1, &loss, 1);
    bad |= refused(true, "cannot be recorded");
    tn_tensor *strided = tn_transpose(tn_ones(tn_dims(3, 5)), 0, 1);
    tn_requires_grad(strided);
    bad |= refused(!tn_optim_sharded(tn_optim_adam(tn_parameters_from(&strided, 1)),
                                     world), "is not contiguous");
    return bad;
}

/* Rank 1 has another model. */
static int differ(void)
{
    tn_module *model = tn_nn_linear(4, tn_dist_rank() == 1 ? 5 : 6);
    tn_optim_sharded(tn_optim_adam(tn_parameters(model)), tn_dist_world());
    printf("%s\n", tn_error() ? tn_error() : "no error");
    return tn_error() && strstr(tn_error(), "weight (24)") ? 0 : 1;
}

/* Rank 1 has another rate. */
static int rates(void)
{
    tn_module *model = tn_nn_linear(4, 6);
    tn_optim_sharded(tn_optim_adamw(tn_parameters(model),
                                    .lr = tn_dist_rank() == 1 ? 0.1 : 0.2),
                     tn_dist_world());
    printf("%s\n", tn_error() ? tn_error() : "no error");
    return tn_error() && strstr(tn_error(), "optim_adamw with options") ? 0 : 1;
}

/* Rank 1 has an error before its step: the others get its text. */
static int tell(void)
{
    tn_module *model = model_new();
    tn_optim *opt = tn_optim_sharded(tn_optim_adam(tn_parameters(model)),
                                     tn_dist_world());
    step(model, opt, 0);
    if (tn_dist_rank() == 1)
        tn_error_set(TN_ERR_SHAPE, "bad data");
    step(model, opt, 1);
    printf("%s\n", tn_error() ? tn_error() : "no error");
    return tn_error() && strstr(tn_error(), "bad data") ? 0 : 1;
}

static int run(const char *name)
{
    if (tn_dist_init() < 0)
        return fail_with("init");
    int status = !strncmp(name, "save:", 5)  ? keep(name + 5, true, true)
                 : !strncmp(name, "load:", 5)  ? keep(name + 5, false, true)
                 : !strncmp(name, "whole:", 6) ? keep(name + 6, false, false)
                 : !strcmp(name, "train")  ? train_all()
                 : !strcmp(name, "mixed")  ? train_mixed()
                 : !strcmp(name, "memory") ? measure()
                 : !strcmp(name, "differ") ? differ()
                 : !strcmp(name, "rates")  ? rates()
                 : !strcmp(name, "tell")   ? tell()
                                           : refuse();
    fflush(stdout);
    tn_dist_close();
    return status;
}

static char hash[32];

/* Whether all ranks of a case end well and print one hash, the same as before. */
static bool same_hash(int count, const char *what, const char *folder)
{
    static ranks r;
    char name[64], found[32] = "";
    snprintf(name, sizeof name, "%s:%s", what, folder);
    ranks_start(&r, count, name);
    ranks_wait(&r, 60, -1);
    bool good = !r.late && sscanf(r.output[0], "hash %31s", found) == 1 &&
                (!*hash || !strcmp(hash, found));
    for (int i = 0; i < count; i++)
        good = good && r.status[i] == 0 && !strcmp(r.output[i], r.output[0]);
    if (!good)
        ranks_show(&r);
    memcpy(hash, found, sizeof hash);
    return good;
}

static void remove_folder(const char *folder)
{
    const pid_t child = fork();
    if (child == 0) {
        execlp("rm", "rm", "-rf", folder, (char *)NULL);
        _exit(127);
    }
    waitpid(child, NULL, 0);
}

static void check_checkpoints(void)
{
    char folder[] = "test-optim-sharded.XXXXXX";
    if (!mkdtemp(folder))
        bail_out("mkdtemp: %s", strerror(errno));
    bool good = same_hash(3, "save", folder);
    for (int n = 1; n <= 4; n++)
        good = good && same_hash(n, "load", folder);
    ok(good, "a checkpoint of 3 ranks continues on 1, 2, 3 and 4, same bits");
    ok(same_hash(1, "whole", folder) && same_hash(2, "whole", folder),
       "and in optimizers that are not divided");
    remove_folder(folder);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return run(argv[1]);
    plan_later();
    check_checkpoints();
    for (int n = 1; n <= 4; n++)
        ranks_pass(n, "train", "every optimizer: the bits of the whole one, "
                                   "its state in pieces and from a file");
    ranks_pass(3, "mixed", "groups, dtypes, a schedule, a skipped step");
    ranks_pass(2, "memory", "memory as by the formula");
    ranks_pass(4, "memory", "memory as by the formula");
    ranks_pass(2, "refuse", "what is refused");
    ranks_pass(3, "differ", "another model is named by its parameter");
    ranks_pass(2, "rates", "another rate is named by the optimizer");
    ranks_pass(3, "tell", "an error before a step reaches all ranks");
    return done_testing();
}
