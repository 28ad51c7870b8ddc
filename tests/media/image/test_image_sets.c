/* test_image_sets.c: data sets of images: folders, MNIST, CIFAR, with a
 * loader's workers and from the middle of an epoch. */
#include <tenon/autograd.h>
#include <tenon/image.h>
#include <tenon/ops.h>
#include <tenon/random.h>
#include <tenon/transform.h>

#include "golden.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static char root[64];

/* Returns root/name, valid until the next call but seven. */
static const char *at(const char *name)
{
    static char path[8][256];
    static int next;
    char *out = path[next++ % 8];
    snprintf(out, sizeof path[0], "%s/%s", root, name);
    return out;
}

static void put(const char *name, const void *data, size_t bytes, bool packed)
{
    if (packed) {
        gzFile f = gzopen(at(name), "wb");
        if (!f || gzwrite(f, data, (unsigned)bytes) != (int)bytes)
            bail_out("%s", name);
        gzclose(f);
        return;
    }
    FILE *f = fopen(at(name), "wb");
    if (!f || fwrite(data, 1, bytes, f) != bytes)
        bail_out("%s", name);
    fclose(f);
}

/* Saves an image whose pixels depend on number. */
static void put_image(const char *name, int number, int64_t h, int64_t w)
{
    TN_SCOPE(scope) {
        tn_manual_seed((uint64_t)number);
        tn_tensor *x = tn_rand(tn_dims(3, h, w));
        if (tn_image_save(at(name), x) < 0)
            bail_out("%s", tn_error());
    }
}

/* ---- folders ------------------------------------------------------------ */

static void make_folder(void)
{
    static const char *const folders[] = {"set",       "set/dog", "set/cat",
                                          "set/cat/b", "set/.git"};
    for (int i = 0; i < 5; i++)
        mkdir(at(folders[i]), 0777);
    put_image("set/dog/2.png", 1, 20, 30);
    put_image("set/dog/10.JPG", 2, 24, 20);
    put_image("set/cat/z.jpeg", 3, 40, 20);
    put_image("set/cat/b/a.png", 4, 21, 21);
    put("set/cat/notes.txt", "no image", 8, false);
    put("set/cat/.hidden.png", "", 0, false);
    for (int i = 0; i < 30; i++) {
        char name[32];
        snprintf(name, sizeof name, "set/dog/more-%02d.png", i);
        put_image(name, 10 + i, 18 + i % 7, 25 - i % 5);
    }
}

static void test_listing(void)
{
    tn_image_folder *folder = tn_image_folder_open(at("set"));
    is_int(tn_image_folder_class_count(folder), 2, "there are two classes");
    is_str(tn_image_folder_class_name(folder, 0), "cat", "sorted by name");
    is_str(tn_image_folder_class_name(folder, 1), "dog", "the second");
    is_int(tn_image_folder_count(folder), 34, "files that end in .png, .jpg");
    ok(strstr(tn_image_folder_path(folder, 0), "cat/b/a.png") != NULL,
       "folders of a class are searched");
    ok(strstr(tn_image_folder_path(folder, 2), "dog/10.JPG") != NULL,
       "paths are sorted, the ending in any case");
    is_int(tn_image_folder_label(folder, 1), 0, "the class of image 1");
    is_int(tn_image_folder_label(folder, 2), 1, "the class of image 2");
    ok(!tn_image_folder_path(folder, 34) && !tn_image_folder_path(folder, -1) &&
           !tn_image_folder_class_name(folder, 2) &&
           tn_image_folder_label(folder, 34) == -1,
       "numbers out of range have no name");
    tn_image_folder *slash = tn_image_folder_open(at("set/"));
    is_int(tn_image_folder_count(slash), 34, "a path may end in a slash");
    ok(!strstr(tn_image_folder_path(slash, 0), "//"), "without doubling it");
}

static tn_tensor *augment(tn_tensor *image, void *context)
{
    ++*(_Atomic int *)context;
    image = tn_image_random_resized_crop(image, 12, 16);
    image = tn_image_random_flip(image);
    image = tn_image_color_jitter(image, .brightness = 0.3, .hue = 0.2);
    image = tn_image_random_affine(image, .degrees = 20);
    image = tn_image_random_erasing(image);
    return tn_image_to_float(image);
}

enum { BATCHES = 7, SAMPLE = 3 * 12 * 16 };

/* Reads two epochs. If `from` is not 0, reads only the second epoch, beginning
 * with batch `from`. */
static int read_epochs(tn_dataset *set, int workers, int from, float *out,
                       int64_t *labels)
{
    int count = 0;
    tn_scope *scope = tn_scope_open();
    tn_loader *loader = tn_loader_new(set, .batch_size = 5, .shuffle = true,
                                      .seed = 9, .workers = workers);
    if (from) {
        tn_loader_state state = tn_loader_snapshot(loader);
        state.epoch = 1;
        state.batch = from;
        if (tn_loader_restore(loader, state) < 0)
            bail_out("%s", tn_error());
        count = 34 + 5 * from;
    }
    for (int epoch = from ? 1 : 0; epoch < 2; epoch++)
        TN_EACH_BATCH(batch, loader) {
            tn_tensor_to_array(batch.x, out + count * SAMPLE,
                               (size_t)batch.count * SAMPLE * sizeof *out);
            tn_tensor_to_array(batch.y, labels + count,
                               (size_t)batch.count * sizeof *labels);
            count += (int)batch.count;
        }
    tn_scope_close(scope);
    return count;
}

static void test_workers(void)
{
    enum { ALL = 2 * 34 };
    const size_t bytes = ALL * SAMPLE * sizeof(float);
    _Atomic int calls = 0;
    float *first = malloc(bytes), *other = malloc(bytes);
    int64_t label[2][ALL];
    tn_dataset *set = tn_dataset_from_image_folder(
        tn_image_folder_open(at("set")), .transform = augment,
        .context = (void *)&calls);
    is_int(tn_dataset_count(set), 34, "the set has all images");
    is_int(read_epochs(set, 0, 0, first, label[0]), ALL, "two epochs are read");
    is_int(calls, ALL, "the transform is called for each sample");
    ok(memcmp(first, first + 34 * SAMPLE, bytes / 2) != 0,
       "epochs differ");
    for (int workers = 1; workers <= 3; workers++) {
        memset(other, 0, bytes);
        read_epochs(set, workers, 0, other, label[1]);
        ok(!memcmp(first, other, bytes) &&
               !memcmp(label[0], label[1], sizeof label[0]),
           "the bits are the same with %d workers", workers);
    }
    for (int from = 1; from < BATCHES; from += 2) {
        memcpy(other, first, bytes);
        memset(other + (34 + 5 * from) * SAMPLE, 0,
               (size_t)(34 - 5 * from) * SAMPLE * sizeof *other);
        is_int(read_epochs(set, 2, from, other, label[1]), ALL,
               "an epoch is resumed at batch %d", from);
        ok(!memcmp(first, other, bytes), "with the same bits");
    }
    free(first);
    free(other);
    ok(!tn_error(), "without an error: %s", tn_error() ? tn_error() : "");
    tn_error_clear();
}

static tn_tensor *nothing(tn_tensor *image, void *context)
{
    (void)image;
    (void)context;
    return NULL;
}

static void read_all(tn_dataset *set, int workers)
{
    tn_scope *scope = tn_scope_open();
    tn_loader *loader = tn_loader_new(set, .batch_size = 4, .workers = workers);
    TN_EACH_BATCH(batch, loader)
        (void)batch;
    tn_scope_close(scope);
}

static void test_failures(void)
{
    mkdir(at("bad"), 0777);
    is_refused(!tn_image_folder_open(at("bad")), TN_ERR_FORMAT,
               "the folder has no subfolders", "a folder without classes");
    mkdir(at("bad/one"), 0777);
    is_refused(!tn_image_folder_open(at("bad")), TN_ERR_FORMAT,
               "bad/one: the class has no image", "a class without images");
    put_image("bad/one/a.png", 1, 12, 16);
    put_image("bad/one/b.png", 1, 12, 16);
    put("bad/one/c.png", "GIF89a", 6, false);
    tn_image_folder *folder = tn_image_folder_open(at("bad"));
    tn_dataset *set = tn_dataset_from_image_folder(folder);
    for (int workers = 0; workers <= 2; workers += 2) {
        read_all(set, workers);
        is_refused(true, TN_ERR_FORMAT, "c.png: GIF is not supported",
                   "an image that cannot be decoded");
    }
    unlink(at("bad/one/c.png"));
    read_all(set, 2);
    is_refused(true, TN_ERR_IO, "c.png", "an image that was removed");
    put_image("bad/one/c.png", 1, 13, 16);
    read_all(set, 0);
    is_refused(true, TN_ERR_SHAPE, "12", "images of different sizes");
    set = tn_dataset_from_image_folder(folder, .transform = nothing);
    read_all(set, 0);
    is_refused(true, TN_ERR_ARGUMENT, "the transform returned NULL",
               "a transform without a result");
    is_refused(!tn_image_folder_open(at("none")), TN_ERR_IO, "none",
               "a folder that does not exist");
    is_refused(!tn_image_folder_open(at("set/cat/z.jpeg")), TN_ERR_IO,
               "z.jpeg", "a file instead of a folder");
    is_refused(!tn_image_folder_open(NULL), TN_ERR_ARGUMENT, "path is NULL",
               "no path");
    is_refused(!tn_dataset_from_image_folder(NULL), TN_ERR_ARGUMENT,
               "folder is NULL", "no folder");
    is_refused(!tn_dataset_from_image_folder(folder, .channels = 5),
               TN_ERR_ARGUMENT, "channels is 5", "5 channels");
    is_refused(!tn_dataset_from_image_folder(folder, .context = root),
               TN_ERR_ARGUMENT, ".context has no effect", "a lone context");
    if (symlink("..", at("bad/one/loop")) == 0)
        is_refused(!tn_image_folder_open(at("bad")), TN_ERR_FORMAT,
                   "nested deeper", "a link to a folder above");
}

/* ---- MNIST and CIFAR ---------------------------------------------------- */

static void big_endian(unsigned char *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(value >> (24 - 8 * i));
}

enum { DIGITS = 6 };

static void put_digits(const char *images, const char *labels, int count,
                       bool packed)
{
    unsigned char x[16 + DIGITS * 784] = {0, 0, 8, 3}, y[8 + DIGITS] = {0, 0, 8, 1};
    big_endian(x + 4, (uint32_t)count);
    big_endian(x + 8, 28);
    big_endian(x + 12, 28);
    big_endian(y + 4, (uint32_t)count);
    for (int i = 0; i < count * 784; i++)
        x[16 + i] = (unsigned char)(i * 7 % 251);
    for (int i = 0; i < count; i++)
        y[8 + i] = (unsigned char)(9 - i);
    if (images)
        put(images, x, 16 + (size_t)count * 784, packed);
    if (labels)
        put(labels, y, 8 + (size_t)count, packed);
}

static tn_tensor *halve(tn_tensor *image, void *context)
{
    (void)context;
    return tn_image_resize(image, 14, 14);
}

static void test_mnist(void)
{
    mkdir(at("mnist"), 0777);
    is_refused(!tn_dataset_mnist(at("mnist"), true), TN_ERR_IO,
               "train-images-idx3-ubyte", "a folder without the files");
    put_digits("mnist/train-images-idx3-ubyte.gz",
               "mnist/train-labels-idx1-ubyte.gz", DIGITS, true);
    put_digits("mnist/t10k-images-idx3-ubyte", "mnist/t10k-labels-idx1-ubyte",
               2, false);
    tn_scope *scope = tn_scope_open();
    tn_dataset *set = tn_dataset_mnist(at("mnist"), true);
    is_int(tn_dataset_count(set), DIGITS, "packed files are read");
    tn_tensor *field[TN_MAX_FIELDS];
    const int64_t index[] = {5, 1};
    is_int(tn_dataset_batch(set, index, 2, field), 2, "a batch of them");
    is_int(tn_tensor_size(field[0], 1), 1, "has one channel");
    is_int(tn_tensor_size(field[0], 3), 28, "of 28 columns");
    is_int(tn_item_int(tn_select(field[1], 0, 0)), 4, "and its labels");
    is_int(tn_item_int(tn_select(tn_reshape(field[0], tn_dims(-1)), 0, 784)),
           784 * 7 % 251, "and pixels");
    set = tn_dataset_mnist(at("mnist"), false, .transform = halve);
    is_int(tn_dataset_count(set), 2, "the test set");
    is_int(tn_dataset_batch(set, (int64_t[]){1}, 1, field), 2,
           "a batch with a transform");
    is_int(tn_tensor_size(field[0], 3), 14, "is transformed");
    put_digits(NULL, "mnist/t10k-labels-idx1-ubyte", 3, false);
    is_refused(!tn_dataset_mnist(at("mnist"), false), TN_ERR_FORMAT,
               "2 images, but 3 labels", "another number of labels");
    put_digits("mnist/t10k-labels-idx1-ubyte", NULL, 2, false);
    is_refused(!tn_dataset_mnist(at("mnist"), false), TN_ERR_FORMAT,
               "expected uint8 labels", "images instead of labels");
    put("mnist/t10k-images-idx3-ubyte", "text", 4, false);
    is_refused(!tn_dataset_mnist(at("mnist"), false), TN_ERR_FORMAT,
               "t10k-images-idx3-ubyte", "a file that is no IDX file");
    is_refused(!tn_dataset_mnist(NULL, true), TN_ERR_ARGUMENT,
               "folder is NULL", "no folder");
    is_refused(!tn_dataset_mnist(at("mnist"), true, .context = root),
               TN_ERR_ARGUMENT, ".context has no effect", "a lone context");
    tn_scope_close(scope);
}

static void put_cifar(const char *name, int labels, int first, int count,
                      size_t more)
{
    unsigned char data[4 * 3074];
    size_t n = 0;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < labels; k++)
            data[n++] = (unsigned char)(first + i + 10 * k);
        for (int k = 0; k < 3072; k++)
            data[n++] = (unsigned char)((first + i + k) % 253);
    }
    put(name, data, n + more, strstr(name, ".gz") != NULL);
}

static void test_cifar(void)
{
    mkdir(at("cifar"), 0777);
    char name[64];
    for (int i = 1; i <= 5; i++) {
        snprintf(name, sizeof name, "cifar/data_batch_%d.bin", i);
        put_cifar(name, 1, i, 2, 0);
    }
    put_cifar("cifar/test_batch.bin.gz", 1, 7, 3, 0);
    put_cifar("cifar/train.bin", 2, 5, 2, 0);
    tn_scope *scope = tn_scope_open();
    tn_dataset *set = tn_dataset_cifar10(at("cifar"), true);
    is_int(tn_dataset_count(set), 10, "five files of CIFAR-10");
    tn_tensor *field[TN_MAX_FIELDS];
    const int64_t index[] = {9, 2};
    is_int(tn_dataset_batch(set, index, 2, field), 2, "a batch of them");
    is_int(tn_item_int(tn_select(field[1], 0, 0)), 6, "has its labels");
    is_int(tn_item_int(tn_select(tn_reshape(field[0], tn_dims(-1)), 0,
                                 3072 + 100)),
           102, "and pixels");
    is_int(tn_tensor_size(field[0], 1), 3, "in planes");
    set = tn_dataset_cifar10(at("cifar"), false, .transform = halve);
    is_int(tn_dataset_count(set), 3, "the test set, packed");
    is_int(tn_dataset_batch(set, (int64_t[]){0}, 1, field), 2,
           "a batch with a transform");
    is_int(tn_tensor_size(field[0], 2), 14, "is transformed");
    set = tn_dataset_cifar100(at("cifar"), true);
    tn_dataset_batch(set, (int64_t[]){1}, 1, field);
    is_int(tn_item_int(field[1]), 16, "the fine label of CIFAR-100");
    set = tn_dataset_cifar100(at("cifar"), true, .coarse = true);
    tn_dataset_batch(set, (int64_t[]){1}, 1, field);
    is_int(tn_item_int(field[1]), 6, "and the coarse one");
    is_refused(!tn_dataset_cifar100(at("cifar"), false), TN_ERR_IO, "test.bin",
               "a file that is missing");
    put_cifar("cifar/test.bin", 2, 5, 2, 3);
    is_refused(!tn_dataset_cifar100(at("cifar"), false), TN_ERR_FORMAT,
               "expected a multiple of 3074", "a file of another size");
    put_cifar("cifar/data_batch_4.bin", 1, 9, 2, 0);
    is_refused(!tn_dataset_cifar10(at("cifar"), true), TN_ERR_FORMAT,
               "image 1 has the label 10", "a label out of range");
    put("cifar/data_batch_4.bin", "", 0, false);
    is_refused(!tn_dataset_cifar10(at("cifar"), true), TN_ERR_FORMAT,
               "it has 0 bytes", "an empty file");
    is_refused(!tn_dataset_cifar10(NULL, true), TN_ERR_ARGUMENT,
               "folder is NULL", "no folder");
    is_refused(!tn_dataset_cifar100(NULL, true), TN_ERR_ARGUMENT,
               "folder is NULL", "no folder of CIFAR-100");
    tn_scope_close(scope);
}

int main(void)
{
    plan_later();
    snprintf(root, sizeof root, "image-sets-%d", (int)getpid());
    mkdir(root, 0777);
    if (has_libraries()) {
        make_folder();
        test_listing();
        test_workers();
        test_failures();
    }
    test_mnist();
    test_cifar();
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", root);
    if (system(command) != 0)
        note("%s is left", root);
    return done_testing();
}
