/* test_models.c: compares the models of data/ with the results of
 * transformers. */
#include <lm/golden.h>

#include <dirent.h>
#include <unistd.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* data/ also has folders that are not models. */
static bool is_model(const char *data, const char *name)
{
    char path[4400];
    snprintf(path, sizeof path, "%s/%s/config.json", data, name);
    return access(path, F_OK) == 0;
}

int main(void)
{
    char data[4096], path[4400], *names[64];
    const char *source = getenv("top_srcdir");
    int count = 0;
    plan_later();
    snprintf(data, sizeof data, "%s/tests/lm/data", source ? source : ".");
    DIR *folder = opendir(data);
    for (struct dirent *e; folder && (e = readdir(folder));)
        if (e->d_name[0] != '.' && is_model(data, e->d_name) && count < 64)
            names[count++] = strdup(e->d_name);
    if (folder)
        closedir(folder);
    qsort(names, (size_t)count, sizeof *names, by_name);
    ok(count >= 20, "%d models", count);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", data, names[i]);
        check_folder(path);
        free(names[i]);
    }
    return done_testing();
}
