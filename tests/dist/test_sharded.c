/* test_sharded.c: a checkpoint of N ranks loads on M ranks, for all pairs of 1,
 * 2, 3, 4 and 8: the same bits of all state, and the run that follows is the one
 * that was not interrupted. Files of one process load into a job, and merged
 * checkpoints into one process. What is damaged or differs is refused. */
#include "sharded_run.h"

#include <sys/stat.h>

static const int size[] = {1, 2, 3, 4, 8};
enum { SIZES = sizeof size / sizeof *size };

/* ---- ranks ---------------------------------------------------------------- */

static void save_at(run *r, void *context)
{
    if (r->all.step != SAVE)
        return;
    const tn_sharded_state state = run_state(r);
    tn_sharded_save(context, &r->all, tn_dist_world(), .ddp = r->ddp,
                    .state = &state);
    printf("saved %016" PRIx64 "\n", run_hash(r));
}

/* Trains, and saves on the way. */
static int train(const char *folder, bool zero)
{
    run r;
    char path[256];
    snprintf(path, sizeof path, zero ? "%s/zero-%d" : "%s/%d", folder,
             tn_dist_size());
    run_make(&r, tn_dist_world(), zero);
    run_train(&r, END, save_at, path);
    printf("end %016" PRIx64 "\n", run_hash(&r));
    return tn_error() ? fail_with("train") : 0;
}

/* Loads the checkpoints of all numbers of ranks, one after the other, and goes
 * on from each. `from` is "zero-" for those with a divided optimizer. */
static int load(const char *folder, bool zero, const char *from)
{
    run r;
    run_make(&r, tn_dist_world(), zero);
    const tn_sharded_state state = run_state(&r);
    const bool spreads = !zero && !*from;
    for (int i = 0; i < SIZES && !tn_error(); i++)
        TN_SCOPE(scope) {
            char path[256];
            snprintf(path, sizeof path, "%s/%s%d", folder, from, size[i]);
            tn_manual_seed(99);
            r.value[1] = 0;
            r.all.step = 0;
            spread_fill(&r.other, 0);
            if (zero || spreads)
                tn_sharded_load(path, &r.all, tn_dist_world(), .ddp = r.ddp,
                                .state = &state);
            else
                tn_sharded_load(path, &r.all, tn_dist_world(), .ddp = r.ddp);
            if (spreads && !spread_is(&r.other, SAVE))
                return fail_with("the state that is spread");
            printf("saved %016" PRIx64 "\n", run_hash(&r));
            run_train(&r, END, NULL, NULL);
            printf("end %016" PRIx64 "\n", run_hash(&r));
        }
    return tn_error() ? fail_with("load") : 0;
}

/* A file of one process, folder/one.ckpt. */
static int load_file(const char *folder)
{
    char path[256];
    run r;
    snprintf(path, sizeof path, "%s/one.ckpt", folder);
    run_make(&r, tn_dist_world(), false);
    tn_sharded_load(path, &r.all, tn_dist_world());
    printf("saved %016" PRIx64 "\n", run_hash(&r));
    return tn_error() ? fail_with("a file of one process") : 0;
}

/* Each rank has its own generator; and ranks that differ are refused. */
static int each(const char *folder)
{
    char path[256];
    snprintf(path, sizeof path, "%s/each", folder);
    const int rank = tn_dist_rank();
    tn_group *world = tn_dist_world();
    tn_checkpoint all = {sizeof all, .module = tn_nn_linear(3, 2), .step = 5};
    tn_manual_seed(100 + (uint64_t)rank);
    tn_rand(tn_dims(3));
    const tn_rng_state before = tn_rng_snapshot();
    tn_sharded_save(path, &all, world);
    tn_manual_seed(1);
    tn_sharded_load(path, &all, world);
    const tn_rng_state after = tn_rng_snapshot();
    if (memcmp(&before, &after, sizeof after) || tn_error())
        return fail_with("the generator of each rank");
    all.step += rank;
    tn_sharded_save(path, &all, world);
    if (tn_error_code() != TN_ERR_ARGUMENT ||
        !strstr(tn_error(), "rank 1 saves other parts than rank 0"))
        return fail_with("another step");
    tn_error_clear();
    /* A whole state on each rank is not one that is divided. */
    tn_optim *optim = tn_optim_sgd(tn_parameters(all.module), .momentum = 0.9);
    tn_backward(tn_sum(tn_forward(all.module, tn_ones(tn_dims(1, 3)))));
    tn_optim_step(optim);
    tn_sharded_state state = tn_optim_sharded_state(optim);
    all.step = 6;
    tn_sharded_save(path, &all, world, .state = &state);
    if (!tn_error() || !strstr(tn_error(), "overlap at element 0"))
        return fail_with("a state that is not divided");
    tn_error_clear();
    if (rank == 1)
        all.size = 3;
    tn_sharded_save(path, &all, world);
    if (!tn_error() || !strstr(tn_error(), "sharded_save: rank 1: "))
        return fail_with("a wrong struct");
    tn_error_clear();
    all.size = sizeof all;
    if (tn_sharded_latest(path, NULL, 0) != 5)
        return fail_with("the checkpoint before");
    tn_ddp *ddp = tn_ddp_new(all.module, world);
    tn_ddp_next(ddp);
    tn_sharded_save(path, &all, world, .ddp = ddp);
    if (tn_error_code() != TN_ERR_STATE ||
        !strstr(tn_error(), "a step is under way"))
        return fail_with("within a step");
    tn_error_clear();
    tn_sharded_load("nothing/here", &all, world, .optional = true);
    if (tn_error() || all.step != 6)
        return fail_with("no checkpoint is no error");
    tn_sharded_load("nothing/here", &all, world);
    /* Rank 1 may be at its next call, which ends the job, before rank 0 has
     * seen the end of this one. */
    if (!tn_error() ||
        (!strstr(tn_error(), "no complete checkpoint is there") &&
         (rank == 1 || !strstr(tn_error(), "an error before the call"))))
        return fail_with("no checkpoint is an error");
    tn_error_clear();
    /* One rank has an error: all get it, and the job is over. */
    if (rank == 1)
        tn_error_set(TN_ERR_ARGUMENT, "test: an error before the call");
    tn_sharded_save(path, &all, world);
    if (!tn_error() || !strstr(tn_error(), "an error before the call"))
        return fail_with("a pending error");
    tn_error_clear();
    return 0;
}

/* What two ranks with generators of their own have saved, on three: the third
 * one gets another, the same each time. */
static int third(const char *folder)
{
    char path[256];
    snprintf(path, sizeof path, "%s/each", folder);
    tn_checkpoint all = {sizeof all, .module = tn_nn_linear(3, 2)};
    tn_rng_state state[2];
    for (int i = 0; i < 2; i++) {
        tn_sharded_load(path, &all, tn_dist_world());
        state[i] = tn_rng_snapshot();
    }
    if (tn_error() || memcmp(&state[0], &state[1], sizeof *state))
        return fail_with("the generator of a further rank");
    int64_t seed = (int64_t)state[0].seed;
    tn_tensor *mine = tn_tensor_from_array(&seed, TN_I64, tn_dims(1));
    tn_tensor *seeds = tn_dist_all_gather(mine, tn_dist_world());
    int64_t is[3] = {0};
    tn_tensor_to_array(seeds, is, sizeof is);
    return tn_error() || is[0] != 100 || is[1] != 101 || is[2] == 100 ||
                   is[2] == 101
               ? fail_with("three generators") : 0;
}

static int run_rank(const char *name)
{
    char what[16];
    int used = 0;
    if (sscanf(name, "%15[a-z]:%n", what, &used) != 1 || tn_dist_init() < 0)
        return fail_with(name);
    const char *path = name + used;
    int status = !strcmp(what, "train")     ? train(path, false)
                 : !strcmp(what, "ztrain")  ? train(path, true)
                 : !strcmp(what, "load")    ? load(path, false, "")
                 : !strcmp(what, "zload")   ? load(path, true, "zero-")
                 : !strcmp(what, "unzero")  ? load(path, false, "zero-")
                 : !strcmp(what, "tozero")  ? load(path, true, "")
                 : !strcmp(what, "file")    ? load_file(path)
                 : !strcmp(what, "third")   ? third(path)
                                            : each(path);
    fflush(stdout);
    tn_dist_close();
    return status;
}

/* ---- the judge ------------------------------------------------------------ */

static char folder[64];

/* Runs a case; all ranks must print `lines` lines, in turn "saved" and "end",
 * with these hashes ("" in hash is filled). */
static bool same_hashes(int count, const char *what, int lines, char saved[32],
                        char end[32])
{
    static ranks r;
    char name[128];
    snprintf(name, sizeof name, "%s:%s", what, folder);
    ranks_start(&r, count, name);
    ranks_wait(&r, 60, -1);
    bool good = !r.late;
    for (int i = 0; i < count; i++) {
        int found = 0;
        char *rest = NULL, copy[RANKS_OUTPUT];
        memcpy(copy, r.output[i], sizeof copy);
        for (char *line = strtok_r(copy, "\n", &rest); line;
             line = strtok_r(NULL, "\n", &rest), found++) {
            const bool is_end = strncmp(line, "end ", 4) == 0;
            char *want = is_end ? end : saved;
            if (!*want)
                snprintf(want, 32, "%s", line);
            good = good && !strcmp(want, line);
        }
        good = good && r.status[i] == 0 && found == lines;
    }
    if (!good)
        ranks_show(&r);
    return good;
}

static void test_pairs(void)
{
    char saved[32] = "", end[32] = "";
    bool good = true;
    for (int i = 0; i < SIZES; i++)
        good = same_hashes(size[i], "train", 2, saved, end) && good;
    ok(good, "1, 2, 3, 4 and 8 ranks train and save the same bits");
    for (int i = 0; i < SIZES; i++)
        ok(same_hashes(size[i], "load", 2 * SIZES, saved, end),
           "%d ranks load what 1, 2, 3, 4 and 8 have saved, and go on with the "
           "same bits", size[i]);
    /* The same with an optimizer whose state is divided, which may be loaded
     * into one that is not, and the other way round. */
    char zero[32] = "", zero_end[32] = "";
    good = true;
    for (int i = 0; i < SIZES; i++)
        good = same_hashes(size[i], "ztrain", 2, zero, zero_end) && good;
    ok(good, "1, 2, 3, 4 and 8 ranks with a divided optimizer");
    for (int i = 0; i < SIZES; i++)
        ok(same_hashes(size[i], "zload", 2 * SIZES, zero, zero_end),
           "%d ranks load what 1, 2, 3, 4 and 8 have saved, and go on with the "
           "same bits", size[i]);
    ok(same_hashes(3, "unzero", 2 * SIZES, saved, end),
       "a divided state loads into an optimizer that is not");
    ok(same_hashes(3, "tozero", 2 * SIZES, zero, zero_end),
       "and the other way round");
    /* Without the state that is spread and the counters of tn_ddp. */
    TN_SCOPE(scope) {
        run r;
        char path[256];
        run_make(&r, tn_dist_world(), false);
        run_train(&r, SAVE, NULL, NULL);
        snprintf(path, sizeof path, "%s/one.ckpt", folder);
        /* run_train has ended the loop; this is where the job was */
        tn_loader_seek(r.all.loader, (tn_loader_position){
            .seed = 4, .sample = SAVE * SHARDS, .sample_count = SAMPLES,
            .unit = SHARDS});
        tn_checkpoint_save(path, &r.all);
    }
    ok(same_hashes(3, "file", 1, saved, end),
       "a file of one process loads into 3 ranks");
    TN_SCOPE(scope) {
        run r, other;
        char path[256], name[256], hash[32];
        run_make(&r, tn_dist_world(), false);
        snprintf(name, sizeof name, "%s/4", folder);
        snprintf(path, sizeof path, "%s/merged.ckpt", folder);
        tn_sharded *whole = tn_sharded_open(name);
        tn_sharded_merge(whole, path);
        is_int(tn_checkpoint_load(path, &r.all), TN_OK,
               "a merged checkpoint loads into one process");
        snprintf(hash, sizeof hash, "saved %016" PRIx64, run_hash(&r));
        is_str(hash, saved, "with the same bits");
        run_make(&other, tn_dist_world(), false);
        tn_sharded_load(path, &other.all, tn_dist_world(), .ddp = other.ddp);
        run_train(&other, END, NULL, NULL);
        snprintf(hash, sizeof hash, "end %016" PRIx64, run_hash(&other));
        is_str(hash, end, "and the run goes on from it");
    }
}

/* ---- one rank ------------------------------------------------------------- */

static int64_t count_folders(const char *path)
{
    int64_t count = 0;
    char name[256];
    for (int i = 0; i < 100; i++)
        for (int k = 1; k < 4; k++) {
            struct stat info;
            snprintf(name, sizeof name, k > 1 ? "%s/step-%012d-%d"
                                              : "%s/step-%012d", path, i, k);
            count += stat(name, &info) == 0;
        }
    return count;
}

static void test_keep(void)
{
    char path[256], latest[256], want[512];
    snprintf(path, sizeof path, "%s/deep/er", folder);
    tn_checkpoint all = {sizeof all, .module = tn_nn_linear(3, 2)};
    is_int(tn_sharded_latest(path, NULL, 0), -1, "there is no checkpoint");
    for (all.step = 1; all.step <= 5; all.step++)
        tn_sharded_save(path, &all, tn_dist_world(), .keep = 3);
    is_int(count_folders(path), 3, "three are kept");
    is_int(tn_sharded_latest(path, latest, sizeof latest), 5, "the latest");
    snprintf(want, sizeof want, "%s/step-000000000005", path);
    is_str(latest, want, "and its path");
    char small[8];
    is_int(tn_sharded_latest(path, small, sizeof small), -1, "no room for it");
    tn_error_clear();
    /* A run that was resumed from step 3 saves step 4 again. */
    snprintf(want, sizeof want, "%s/step-000000000003", path);
    tn_sharded_load(want, &all, tn_dist_world());
    is_int(all.step, 3, "an earlier one is loaded by its path");
    all.step = 4;
    tn_sharded_save(path, &all, tn_dist_world(), .keep = 0);
    snprintf(want, sizeof want, "%s/step-000000000004-2", path);
    tn_sharded_latest(path, latest, sizeof latest);
    is_str(latest, want, "what was saved last is the latest");
    is_int(count_folders(path), 4, "and all are kept");
    ok(!tn_error(), "without an error");
}

static void flip(const char *path, long at)
{
    FILE *file = fopen(path, "r+b");
    if (!file || fseek(file, at, at < 0 ? SEEK_END : SEEK_SET))
        bail_out("%s", path);
    const int byte = fgetc(file);
    fseek(file, at, at < 0 ? SEEK_END : SEEK_SET);
    fputc(byte ^ 1, file);
    fclose(file);
}

static void refuses(tn_status status, const char *text, const char *what)
{
    ok(status < 0 && tn_error() && strstr(tn_error(), text), "%s: %s", what,
       tn_error() ? tn_error() : "no error");
    tn_error_clear();
}

static void test_damage(void)
{
    char path[256], file[512], complete[512];
    snprintf(path, sizeof path, "%s/damaged", folder);
    tn_checkpoint all = {sizeof all, .module = tn_nn_linear(40, 20),
                         .step = 1};
    tn_sharded_save(path, &all, tn_dist_world());
    snprintf(file, sizeof file,
             "%s/step-000000000001/rank-00000-of-00001.safetensors", path);
    snprintf(complete, sizeof complete, "%s/step-000000000001/COMPLETE", path);
    is_int(tn_sharded_verify(tn_sharded_open(path)), TN_OK, "it is sound");
    flip(file, -1);
    refuses(tn_sharded_verify(tn_sharded_open(path)), "damaged: \"module.",
            "a bit of a tensor");
    refuses(tn_sharded_load(path, &all, tn_dist_world()), "damaged",
            "which loading sees, too");
    flip(file, -1);
    flip(file, 40);
    tn_sharded_open(path);
    refuses(tn_error_code(), "rank-00000-of-00001.safetensors",
            "a bit of the header");
    flip(file, 40);
    flip(complete, 3);
    tn_sharded_open(path);
    refuses(tn_error_code(), "no complete checkpoint", "a bit of COMPLETE");
    snprintf(file, sizeof file, "%s/step-000000000001", path);
    tn_sharded_open(file);
    refuses(tn_error_code(), "COMPLETE: it is not of a checkpoint",
            "and what is wrong with it, if it is named");
    flip(complete, 3);
    snprintf(file, sizeof file,
             "%s/step-000000000001/rank-00000-of-00001.safetensors", path);
    is_int(tn_sharded_latest(path, NULL, 0), 1, "it is sound again");
    truncate(file, 1000);
    is_int(tn_sharded_latest(path, NULL, 0), -1, "a file is shorter");
    unlink(file);
    is_int(tn_sharded_latest(path, NULL, 0), -1, "a file is missing");
    tn_sharded *saved = tn_sharded_open(NULL);
    refuses(tn_error_code(), "path is NULL", "no path");
    ok(!saved && !tn_sharded_name(saved, 0) && tn_sharded_count(saved) == 0,
       "the attributes of nothing");
}

static void test_reading(void)
{
    char path[256], text[128];
    snprintf(path, sizeof path, "%s/4", folder);
    tn_sharded *saved = tn_sharded_open(path);
    is_int(tn_sharded_file_count(saved), 4, "four files");
    is_int(tn_sharded_piece_count(saved, "other.flat"), 4, "in four pieces");
    tn_sharded_piece_text(saved, "other.flat", 1, text, sizeof text);
    is_str(text, "elements 17 to 34 in rank-00001-of-00004.safetensors",
           "a flat one");
    tn_sharded_piece_text(saved, "other.block", 3, text, sizeof text);
    is_str(text, "[6, 2] at [0, 6] in rank-00003-of-00004.safetensors",
           "a block");
    is_str(tn_sharded_text(saved, "step"), "3", "a text");
    /* Every block of the matrix that was saved in columns and in a range. */
    int wrong = 0, runs = 0;
    TN_SCOPE(scope)
        for (int64_t a = 0; a < 6; a++)
            for (int64_t b = a + 1; b <= 6; b++)
                for (int64_t c = 0; c < 7; c++)
                    for (int64_t d = c + 1; d <= 7; d++, runs++) {
                        const int64_t at[] = {a, c};
                        tn_tensor *x = tn_zeros(tn_dims(b - a, d - c));
                        const bool flat = runs % 2;
                        tn_piece piece = {
                            flat ? "other.flat" : "other.block", 2,
                            flat ? flat_shape : block_shape, at, false, x};
                        tn_sharded_read(saved, &piece);
                        const float *data = tn_tensor_data(x);
                        for (int64_t i = 0; i < (b - a) * (d - c); i++)
                            wrong += data[i] !=
                                     (float)(SAVE +
                                             (a + i / (d - c)) * (flat ? 7 : 8) +
                                             c + i % (d - c));
                    }
    is_int(wrong, 0, "%d blocks of pieces", runs);
    tn_tensor *x = tn_zeros(tn_dims(3));
    const int64_t at[] = {69};
    tn_piece piece = {"other.flat", 2, flat_shape, at, true, x};
    refuses(tn_sharded_read(saved, &piece), "not within it", "outside");
    piece.name = "other.none";
    refuses(tn_sharded_read(saved, &piece), "has no \"other.none\"", "no such");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return run_rank(argv[1]);
    plan_later();
    snprintf(folder, sizeof folder, "%s/sharded-%ld.tmp",
             access("/dev/shm", W_OK) ? "." : "/dev/shm", (long)getpid());
    if (mkdir(folder, 0777) < 0 || tn_dist_init() < 0)
        bail_out("cannot begin in %s", folder);
    test_pairs();
    test_keep();
    test_damage();
    test_reading();
    char name[128];
    snprintf(name, sizeof name, "each:%s", folder);
    ranks_pass(2, name, "what is of each rank, and what is refused");
    snprintf(name, sizeof name, "third:%s", folder);
    ranks_pass(3, name, "a rank that was not there has a generator of its own");
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ok(system(command) == 0 && !tn_error(), "the folder is removed");
    return done_testing();
}
