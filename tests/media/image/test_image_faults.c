/* test_image_faults.c: makes each allocation fail in turn, also those of
 * libpng and libjpeg, while images are read, written and transformed, and
 * folders are listed. The call must report TN_ERR_MEMORY and leak nothing, and
 * the next call must work. */
#define MALLOC_FAULTS_IN_LIBRARIES
#include "malloc_faults.h"

#include <tenon/transform.h>

#include "golden.h"

#include <sys/stat.h>
#include <unistd.h>

static tn_tensor *image;
static tn_image_folder *folder;
static char root[64];

static bool load_png(void)
{
    return tn_image_load(golden_path("files/png-palette-trns.png"));
}
static bool load_jpeg(void)
{
    return tn_image_load(golden_path("files/jpeg-420-progressive.jpg"),
                         .channels = 4);
}
static bool read_info(void)
{
    tn_image_info info = {.size = sizeof info};
    return tn_image_info_load(golden_path("files/jpeg-exif6.jpg"), &info) ==
           TN_OK;
}
static bool encode(const char *format)
{
    void *data = NULL;
    size_t bytes;
    const bool fine = tn_image_encode(image, format, &data, &bytes) == TN_OK;
    free(data);
    return fine;
}
static bool encode_png(void)
{
    return encode("png");
}
static bool encode_jpeg(void)
{
    return encode("jpeg");
}
static bool save(void)
{
    char path[96];
    snprintf(path, sizeof path, "%s/saved.png", root);
    return tn_image_save(path, image) == TN_OK;
}
static bool transform(void)
{
    tn_tensor *x = tn_image_random_resized_crop(image, 9, 9);
    x = tn_image_random_crop(x, 8, 8, .padding = 1);
    x = tn_image_color_jitter(x, .contrast = 0.5, .hue = 0.1);
    x = tn_image_rotate(x, 20, .expand = true);
    return x && tn_image_prepare(image, .resize = 9, .crop = 12);
}
static bool list_folder(void)
{
    return tn_image_folder_open(root);
}
static bool read_folder(void)
{
    tn_dataset *set = tn_dataset_from_image_folder(folder);
    tn_tensor *fields[TN_MAX_FIELDS];
    return set && tn_dataset_batch(set, (int64_t[]){0, 1}, 2, fields) == 2;
}
static bool read_cifar(void)
{
    return tn_dataset_cifar10(root, false);
}

typedef struct counts {
    int refused, wrong;
    bool done;
} counts;

static counts sweep(bool (*run)(void), const char *name)
{
    enum { MOST = 20000 };
    counts c = {0};
    for (int n = 0; n <= MOST && !c.done; n++) {
        tn_scope *scope = tn_scope_open();
        malloc_fail_at(n);
        const bool fine = run();
        malloc_fail_at(0);
        c.refused += !fine;
        const bool wrong =
            fine ? tn_error() != NULL : tn_error_code() != TN_ERR_MEMORY;
        if (wrong)
            note("%s, allocation %d: %s", name, n,
                 tn_error() ? tn_error() : "no error");
        c.wrong += wrong;
        c.done = fine && n > 0;
        tn_error_clear();
        tn_scope_close(scope);
    }
    return c;
}

/* Runs two sweeps. The first fills caches, so memory that is still allocated
 * after the second is a leak. */
static void check(bool (*run)(void), const char *name)
{
    enum { QUEUE = 64 }; /* lib/base keeps this many freed objects for reuse */
    for (int all = 0; all < 2; all++) {
        malloc_many = all ? INT64_MAX : 1;
        sweep(run, name);
        for (int i = 0; i < QUEUE; i++) {
            tn_scope *scope = tn_scope_open();
            run();
            tn_scope_close(scope);
        }
        const int64_t before = malloc_live();
        const counts c = sweep(run, name);
        const int64_t after = malloc_live();
        const char *how = all ? ", all from then on" : "";
        ok(c.done && c.refused > 1, "%s%s: %d allocations failed", name, how,
           c.refused);
        is_int(c.wrong, 0, "%s%s: each failure was an error of memory", name,
               how);
        is_int(after - before, 0, "%s%s: no memory was left over", name, how);
    }
}

static void put(const char *name, const void *data, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, bytes, f) != bytes)
        bail_out("%s", path);
    fclose(f);
}

static void make_folder(void)
{
    static unsigned char cifar[2 * 3073];
    char path[128];
    snprintf(root, sizeof root, "image-faults-%d", (int)getpid());
    snprintf(path, sizeof path, "%s/one", root);
    mkdir(root, 0777);
    mkdir(path, 0777);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/one/%d.png", root, i);
        tn_image_save(path, image);
    }
    put("test_batch.bin", cifar, sizeof cifar);
    folder = tn_image_folder_open(root);
}

int main(void)
{
    plan_later();
    if (!MALLOC_FAULTS || !has_libraries()) {
        if (!MALLOC_FAULTS)
            skip(1, "malloc cannot be made to fail here");
        return done_testing();
    }
    tn_set_num_threads(1);
    tn_device_set(tn_device_open("cpu"));
    image = tn_image_load(golden_path("files/jpeg-444.jpg"));
    make_folder();
    if (!image || !folder)
        bail_out("%s", tn_error());
    check(load_png, "load PNG");
    check(load_jpeg, "load JPEG");
    check(read_info, "info");
    check(encode_png, "encode PNG");
    check(encode_jpeg, "encode JPEG");
    check(save, "save");
    check(transform, "transforms");
    check(list_folder, "list a folder");
    check(read_folder, "read a folder");
    check(read_cifar, "CIFAR");
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", root);
    if (system(command) != 0)
        note("%s is left", root);
    return done_testing();
}
