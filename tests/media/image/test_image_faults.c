/* test_image_faults.c: makes each allocation fail in turn, also those of
 * libpng and libjpeg, while images are read, written and transformed, and
 * folders are listed. The call must report TN_ERR_MEMORY and leak nothing, and
 * the next call must work. */
#include "../../fault_sweep.h"

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

/* Checks that tn_unpack_limit counts as many bytes for an image as decoding
 * allocates, for images of any shape. */
static void check_memory(int64_t width, int64_t height, const char *name)
{
    enum { OTHER = 1 << 18 }; /* zlib's window, libpng's structs */
    void *data = NULL;
    size_t bytes = 0;
    TN_SCOPE(scope) {
        tn_tensor *x = tn_zeros(tn_dims(1, height, width), .dtype = TN_U8);
        if (tn_image_encode(x, "png", &data, &bytes) < 0)
            bail_out("%s", tn_error());
    }
    int64_t counted = 0;
    tn_unpack_limit_set(1);
    is_int(tn_image_decode(data, bytes) != NULL, 0, "%s is over the limit",
           name);
    const char *text = tn_error() ? strstr(tn_error(), "would take ") : NULL;
    if (text)
        counted = atoll(text + strlen("would take "));
    tn_error_clear();
    tn_unpack_limit_set(counted);
    malloc_watch();
    TN_SCOPE(scope)
        ok(tn_image_decode(data, bytes) != NULL, "%s is decoded in %lld bytes",
           name, (long long)counted);
    ok(malloc_growth() <= counted + OTHER, "%s: %lld bytes were allocated",
       name, (long long)malloc_growth());
    tn_unpack_limit_set(1 << 30);
    tn_error_clear();
    free(data);
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
    check_memory(1, 1 << 20, "a column");
    check_memory(1 << 22, 1, "a row");
    fails_in_turn(load_png, "load PNG");
    fails_in_turn(load_jpeg, "load JPEG");
    fails_in_turn(read_info, "info");
    fails_in_turn(encode_png, "encode PNG");
    fails_in_turn(encode_jpeg, "encode JPEG");
    fails_in_turn(save, "save");
    fails_in_turn(transform, "transforms");
    fails_in_turn(list_folder, "list a folder");
    fails_in_turn(read_folder, "read a folder");
    fails_in_turn(read_cifar, "CIFAR");
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", root);
    if (system(command) != 0)
        note("%s is left", root);
    return done_testing();
}
