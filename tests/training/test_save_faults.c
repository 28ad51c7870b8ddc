/* test_save_faults.c: each allocation of saving and loading fails in turn, the
 * library's and those of the whole process, the device's driver included.
 *
 * A save that fails leaves the old file, byte for byte, and no other file; a
 * save that returns TN_OK leaves the new file. A load that fails changes
 * nothing; a load that returns TN_OK loads everything. Each failure is
 * TN_ERR_MEMORY. */
#include <base/memory.h>
#include <tenon/tenon.h>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* The device's plugin and driver are among those that fail: copies to a device
 * may need memory, too. */
#define MALLOC_FAULTS_IN_LIBRARIES
#include "../malloc_faults.h"
#include "../tap.h"

static const struct {
    const char *name;
    void (*fail_at)(int64_t n);
    int64_t (*count)(void);
} source[] = {{"our", tn__memory_fail_at, tn__memory_count},
              {"the process's", malloc_fail_at, malloc_count}};
enum { SOURCES = 1 + MALLOC_FAULTS };

/* ---- files --------------------------------------------------------------- */

typedef struct bytes {
    size_t count;
    char at[1 << 15];
} bytes;

static void read_file(bytes *b, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        bail_out("cannot read %s", path);
    b->count = fread(b->at, 1, sizeof b->at, file);
    fclose(file);
}

static void write_file(const char *path, const bytes *b)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(b->at, 1, b->count, file) != b->count)
        bail_out("cannot write %s", path);
    fclose(file);
}

static bool same(const bytes *a, const bytes *b)
{
    return a->count == b->count && memcmp(a->at, b->at, a->count) == 0;
}

static int count_temporaries(void)
{
    DIR *list = opendir(".");
    int count = 0;
    for (struct dirent *entry; list && (entry = readdir(list));)
        count += strstr(entry->d_name, ".tmp-") != NULL;
    closedir(list);
    return count;
}

/* ---- a training run ------------------------------------------------------ */

static tn_checkpoint run;

static void make_run(void)
{
    tn_manual_seed(7);
    tn_module *net = tn_nn_sequential(tn_nn_linear(3, 4), tn_nn_gelu(),
                                      tn_nn_linear(4, 2));
    tn_dataset *set = tn_dataset_from_tensors(
        tn_randn(tn_dims(8, 3)), tn_randint(0, 2, tn_dims(8)));
    run = (tn_checkpoint){
        sizeof run, .module = net,
        .optim = tn_optim_adam(tn_parameters(net), .lr = 0.1),
        .loader = tn_loader_new(set, .batch_size = 4, .shuffle = true),
        .scaler = tn_grad_scaler_new(), .average = tn_average_new(net)};
    run.schedule = tn_schedule_exponential_lr(run.optim, 0.9);
}

static void step(void)
{
    TN_EACH_BATCH(batch, run.loader) {
        tn_optim_zero_grad(run.optim);
        tn_backward(tn_cross_entropy(tn_forward(run.module, batch.x),
                                     batch.y));
        tn_optim_step(run.optim);
        tn_schedule_step(run.schedule);
        tn_average_update(run.average);
        run.step++;
        break;
    }
}

static tn_status save_run(const char *path)
{
    return tn_checkpoint_save(path, &run);
}

static tn_status load_run(const char *path)
{
    return tn_checkpoint_load(path, &run);
}

static tn_status save_optim(const char *path)
{
    return tn_optim_save(run.optim, path);
}

static tn_status load_optim(const char *path)
{
    return tn_optim_load(run.optim, path);
}

/* ---- saving and loading -------------------------------------------------- */

static bytes old_file, new_file, now;

/* Each allocation fails in turn while a file with new_file's contents replaces
 * one with old_file's. */
static void walk_save(const char *name, tn_status (*save)(const char *path))
{
    for (int s = 0; s < SOURCES; s++) {
        int64_t before = source[s].count(), refused = 0, wrong = 0, left = 0;
        save("walk.st");
        int64_t count = source[s].count() - before;
        for (int64_t n = 1; n <= count; n++) {
            write_file("walk.st", &old_file);
            source[s].fail_at(n);
            tn_status status = save("walk.st");
            source[s].fail_at(0);
            read_file(&now, "walk.st");
            bool good = status == TN_OK ? same(&now, &new_file)
                                        : status == TN_ERR_MEMORY &&
                                              same(&now, &old_file);
            if (!good)
                note("allocation %lld: %s", (long long)n,
                     tn_error() ? tn_error() : "OK, and the file is wrong");
            wrong += !good;
            refused += status != TN_OK;
            left += count_temporaries();
            tn_error_clear();
        }
        ok(count > 5 && refused > count / 2,
           "%s: %lld of %lld of %s allocations are needed", name,
           (long long)refused, (long long)count, source[s].name);
        is_int(wrong, 0, "the file is the old one and the error MEMORY, or it "
                         "is the new one");
        is_int(left, 0, "nothing is left beside it");
    }
}

/* Each allocation fails in turn while the state of new_file is loaded into a
 * run with the state of old_file. The state is checked by saving it. */
static void walk_load(const char *name, tn_status (*load)(const char *path),
                      tn_status (*save)(const char *path))
{
    write_file("old.st", &old_file);
    write_file("new.st", &new_file);
    for (int s = 0; s < SOURCES; s++) {
        int64_t before = source[s].count(), refused = 0, wrong = 0;
        load("new.st");
        int64_t count = source[s].count() - before;
        for (int64_t n = 1; n <= count; n++) {
            load("old.st");
            source[s].fail_at(n);
            tn_status status = load("new.st");
            source[s].fail_at(0);
            char text[200];
            snprintf(text, sizeof text, "%s", tn_error() ? tn_error() : "OK");
            tn_error_clear();
            save("walk.st");
            read_file(&now, "walk.st");
            bool good = status == TN_OK ? same(&now, &new_file)
                                        : status == TN_ERR_MEMORY &&
                                              same(&now, &old_file);
            if (!good)
                note("allocation %lld: %s; the state is %s", (long long)n, text,
                     same(&now, &old_file)   ? "the old one"
                     : same(&now, &new_file) ? "the new one"
                                             : "neither");
            wrong += !good;
            refused += status != TN_OK;
        }
        ok(count > 5 && refused > count / 2,
           "%s: %lld of %lld of %s allocations are needed", name,
           (long long)refused, (long long)count, source[s].name);
        is_int(wrong, 0, "nothing has changed and the error is MEMORY, or all "
                         "of it is there");
    }
    ok(!tn_error(), "everything between the walks worked");
}

/* ---- tables of numbers --------------------------------------------------- */

static tn_categories *names;

static tn_status load_csv(void)
{
    tn_csv_load("walk.csv.gz", .category = 1, .categories = names);
    return tn_error_code();
}

static tn_status load_set(void)
{
    tn_dataset_from_csv("numbers.csv", NULL);
    return tn_error_code();
}

static tn_status load_idx(void)
{
    tn_idx_load("walk.idx.gz");
    return tn_error_code();
}

static tn_status load_text(void)
{
    tn_text_load("walk.csv.gz");
    return tn_error_code();
}

static void walk_read(const char *name, tn_status (*load)(void))
{
    int64_t known = tn_categories_count(names), wrong = 0, refused = 0, n = 0;
    int64_t live = tn__memory_live();
    for (int after = 0; after < 3; n++) { /* until three calls have succeeded */
        tn_scope *scope = tn_scope_open();
        tn__memory_fail_at(n + 1);
        tn_status status = load();
        tn__memory_fail_at(0);
        tn_scope_close(scope);
        wrong += status != TN_OK && status != TN_ERR_MEMORY;
        /* a load that succeeds registers category names, which a later failure
         * does not remove */
        if (status != TN_OK)
            wrong += tn_categories_count(names) != known;
        else
            known = tn_categories_count(names);
        after += status == TN_OK;
        refused += status != TN_OK;
        tn_error_clear();
    }
    is_int(wrong, 0, "%s: %lld failures are MEMORY and change nothing", name,
           (long long)refused);
    ok(refused > 2 && tn__memory_live() - live < 100,
       "and leave nothing (%lld blocks)",
       (long long)(tn__memory_live() - live));
}

static void test_reading(void)
{
    names = tn_categories_new();
    gzFile zipped = gzopen("walk.csv.gz", "wb");
    for (int i = 0; i < 60; i++)
        gzprintf(zipped, "%d,\"name %d\"\n", i, i / 2);
    gzclose(zipped);
    zipped = gzopen("walk.idx.gz", "wb");
    gzwrite(zipped, "\0\0\10\1\0\0\0\3abc", 11);
    gzclose(zipped);
    FILE *file = fopen("numbers.csv", "w");
    for (int i = 0; i < 30; i++)
        fprintf(file, "%d,0.5,%d\n", i, i % 3);
    fclose(file);
    walk_read("a gzipped CSV file with names", load_csv);
    is_int(tn_categories_count(names), 30, "the names are there in the end");
    walk_read("a CSV file as a data set", load_set);
    walk_read("an IDX file", load_idx);
    walk_read("a text", load_text);
}

int main(void)
{
    plan_later();
    char folder[64], command[100];
    snprintf(folder, sizeof folder, "faults-test-%ld.tmp", (long)getpid());
    /* Uses a folder in memory if there is one, because 3000 files are
     * synced. */
    if (access("/dev/shm", W_OK) == 0 && chdir("/dev/shm") < 0)
        bail_out("/dev/shm is no folder");
    if (mkdir(folder, 0777) < 0 || chdir(folder) < 0)
        bail_out("cannot make %s", folder);
    make_run();
    step();
    save_run("walk.st");
    read_file(&old_file, "walk.st");
    step();
    save_run("walk.st");
    read_file(&new_file, "walk.st");
    ok(!tn_error() && !same(&old_file, &new_file), "two states of a run");
    walk_save("checkpoint_save", save_run);
    walk_load("checkpoint_load", load_run, save_run);
    load_run("old.st");
    save_optim("walk.st");
    read_file(&old_file, "walk.st");
    load_run("new.st");
    save_optim("walk.st");
    read_file(&new_file, "walk.st");
    ok(!same(&old_file, &new_file), "two states of an optimizer");
    walk_save("optim_save", save_optim);
    walk_load("optim_load", load_optim, save_optim);
    test_reading();
    snprintf(command, sizeof command, "rm -r %s", folder);
    ok(chdir("..") == 0 && system(command) == 0, "the folder is removed");
    return done_testing();
}
