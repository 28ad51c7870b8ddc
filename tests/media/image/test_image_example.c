/* test_image_example.c: examples/image_folder learns three classes of small
 * images that this program makes, some of them in the wrong folder, and writes
 * these as its mistakes. */
#include <tenon/curves.h>
#include <tenon/image.h>
#include <tenon/ops.h>

#include "golden.h"

#include <sys/stat.h>
#include <unistd.h>

enum { SIDE = 40, COUNT = 60 };

/* Stripes that are horizontal, vertical or diagonal, in a random colour. */
static void make_image(const char *path, int kind, unsigned *random)
{
    unsigned char pixels[3][SIDE][SIDE];
    unsigned colour[3];
    for (int c = 0; c < 3; c++)
        colour[c] = 100 + (*random = *random * 1103515245 + 12345) / 65536 % 150;
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                const int at = kind == 0 ? y : kind == 1 ? x : x + y;
                pixels[c][y][x] =
                    (unsigned char)(at / 4 % 2 ? colour[c] : 40);
            }
    TN_SCOPE(scope)
        if (tn_image_save(path, tn_tensor_from_array(
                                    pixels, TN_U8, tn_dims(3, SIDE, SIDE))) < 0)
            bail_out("%s", tn_error());
}

int main(void)
{
    static const char *const classes[] = {"across", "down", "slanted"};
    plan_later();
    if (!has_libraries())
        return done_testing();
    char root[64], path[160], command[512], text[4096];
    snprintf(root, sizeof root, "image-example-%d", (int)getpid());
    mkdir(root, 0777);
    unsigned random = 1;
    for (int kind = 0; kind < 3; kind++) {
        snprintf(path, sizeof path, "%s/%s", root, classes[kind]);
        mkdir(path, 0777);
        for (int i = 0; i < COUNT; i++) {
            snprintf(path, sizeof path, "%s/%s/%02d.%s", root, classes[kind], i,
                     i % 2 ? "png" : "jpg");
            make_image(path, i % 12 == 0 ? (kind + 1) % 3 : kind, &random);
        }
    }
    const char *build = getenv("top_builddir");
    snprintf(command, sizeof command,
             "%s/examples/image_folder %s 8 %s-run 2>&1",
             build ? build : ".", root, root);
    FILE *run = popen(command, "r");
    const size_t got = run ? fread(text, 1, sizeof text - 1, run) : 0;
    text[got] = 0;
    ok(run && pclose(run) == 0, "the example runs");
    ok(strstr(text, "180 images of 3 classes") != NULL, "it finds the images");
    const char *end = strstr(text, " of 36 held out are wrong: see ");
    ok(end != NULL, "it tells its mistakes");
    int wrong = 0;
    if (end) {
        while (end > text && end[-1] != '\n')
            end--;
        wrong = atoi(end);
    }
    ok(wrong > 0 && wrong <= 9, "few are wrong (%d of 36)", wrong);
    snprintf(path, sizeof path, "%s-run/mistakes.png", root);
    tn_tensor *grid = tn_image_load(path);
    ok(grid && tn_tensor_size(grid, 2) == 2 + 34 * (wrong < 8 ? wrong : 8),
       "a grid of them is written");
    tn_curves *curves = tn_curves_new();
    snprintf(path, sizeof path, "%s-run", root);
    ok(tn_curves_add(curves, path, NULL) == TN_OK &&
           tn_curves_count(curves) == 4 && tn_curves_length(curves, 0) == 8,
       "and the curves of eight epochs");
    if (tap_failed)
        printf("# %s\n# %s\n", text, tn_error() ? tn_error() : "");
    snprintf(command, sizeof command, "rm -rf %s %s-run", root, root);
    if (system(command) != 0)
        note("%s is left", root);
    return done_testing();
}
