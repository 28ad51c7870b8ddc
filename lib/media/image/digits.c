/* digits.c: data sets whose files contain many images each: MNIST and CIFAR. */
#include <tenon/image.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/io.h>
#include <tenon/ops.h>

#include <media/image/image_tensor.h>

/* ---- the data set: rows of two tensors, perhaps with a transform -------- */

typedef struct set {
    tn_tensor *x, *y; /* kept */
    tn_image_transform transform;
    void *context;
} set;

static int get(void *context, int64_t i, tn_tensor **fields)
{
    const set *self = context;
    tn_tensor *image = tn_select(self->x, 0, i);
    image = image ? self->transform(image, self->context) : NULL;
    if (!image)
        return tn_error() ? tn_error_code()
                          : tn_error_set(TN_ERR_ARGUMENT,
                                         "the transform returned NULL");
    fields[0] = image;
    fields[1] = tn_select(self->y, 0, i);
    return fields[1] ? 2 : tn_error_code();
}

static void release(void *context)
{
    set *self = context;
    tn_drop(self->x);
    tn_drop(self->y);
    free(self);
}

static tn_dataset *make_set(tn_tensor *x, tn_tensor *y,
                            tn_image_transform transform, void *context)
{
    if (!x || !y || !transform)
        return x && y ? tn_dataset_from_tensors(x, y) : NULL;
    set *self = malloc(sizeof *self);
    if (!self)
        return tn_error_set(TN_ERR_MEMORY, "dataset: out of memory"), NULL;
    *self = (set){tn_keep(x), tn_keep(y), transform, context};
    const tn_dataset_class type = {.size = sizeof type,
                                   .count = tn_tensor_size(x, 0),
                                   .get = get,
                                   .release = release};
    tn_dataset *made = tn_dataset_new(&type, self);
    if (!made)
        release(self);
    return made;
}

/* Makes a set in a scope of its own, so that only the set stays. y holds labels
 * as uint8. */
static tn_dataset *finish(tn_scope *scope, tn_tensor *x, tn_tensor *y,
                          tn_image_transform transform, void *context)
{
    tn_dataset *made = NULL;
    y = x && y ? tn_to_dtype(y, TN_I64) : NULL;
    if (y)
        made = make_set(x, y, transform, context);
    return tn_scope_result(scope, made);
}

static tn_status check_transform(const tn_options_type *type, const void *own,
                                 tn_image_transform transform)
{
    const tn_option_need need[] = {
        {"context", transform != NULL, "without transform", "give one"}};
    return tn_options_check_needs(type, own, need, 1);
}

/* ---- files -------------------------------------------------------------- */

/* Returns the path of folder/name, or of folder/name.gz if only that exists, in
 * memory from malloc. */
static char *find_file(const char *folder, const char *name)
{
    const size_t bytes = strlen(folder) + strlen(name) + 5;
    char *path = malloc(bytes);
    struct stat s;
    if (!path)
        return NULL;
    snprintf(path, bytes, "%s/%s.gz", folder, name);
    if (stat(path, &s) == 0) {
        path[bytes - 4] = 0; /* prefers the file that is not packed */
        if (stat(path, &s) < 0)
            path[bytes - 4] = '.';
    } else {
        path[bytes - 4] = 0;
    }
    return path;
}

static bool check_folder(const char *folder, const char *call)
{
    if (!folder)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "folder",
                                 "folder is NULL");
    return folder != NULL;
}

/* ---- MNIST -------------------------------------------------------------- */

static tn_tensor *load_idx(const char *folder, const char *name, int ndim,
                           int64_t side, const char *call)
{
    char *path = find_file(folder, name);
    if (!path)
        return tn_error_set(TN_ERR_MEMORY, "%s: out of memory", call), NULL;
    const bool pending = tn_error() != NULL;
    tn_tensor *x = tn_idx_load(path);
    if (!pending)
        tn_error_rename("idx_load", call, "folder");
    bool right = x && tn_tensor_dtype(x) == TN_U8 && tn_tensor_ndim(x) == ndim;
    for (int i = 1; right && i < ndim; i++)
        right = tn_tensor_size(x, i) == side;
    if (x && !right)
        tn_error_refuse_argument(TN_ERR_FORMAT, call, "folder",
                                 "%s: it has %s with %d dimensions; expected "
                                 "%s",
                                 path, tn_dtype_name(tn_tensor_dtype(x)),
                                 tn_tensor_ndim(x),
                                 ndim == 3 ? "uint8 images of 28 x 28"
                                           : "uint8 labels");
    free(path);
    return right ? x : NULL;
}

TN_OPTIONS_TYPE(tn_dataset_mnist, "dataset_mnist", "folder, train",
                TN_DATASET_MNIST_OPTIONS_LIST)
tn_dataset *tn_dataset_mnist_with(const char *folder, bool train,
                                  const tn_dataset_mnist_options *options)
{
    const char *call = "dataset_mnist";
    tn_dataset_mnist_options o;
    if (tn_options_take(tn_dataset_mnist_type(), &o, options) < 0 ||
        !check_folder(folder, call) ||
        check_transform(tn_dataset_mnist_type(), &o, o.transform) < 0)
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_device *device = tn__image_device(), *was = tn_device_current();
    if (!device || !was || tn_device_set(device) < 0)
        return tn_scope_result(scope, NULL);
    tn_tensor *x = load_idx(folder, train ? "train-images-idx3-ubyte"
                                          : "t10k-images-idx3-ubyte",
                            3, 28, call);
    tn_tensor *y = x ? load_idx(folder, train ? "train-labels-idx1-ubyte"
                                              : "t10k-labels-idx1-ubyte",
                                1, 0, call)
                     : NULL;
    if (y && tn_tensor_size(x, 0) != tn_tensor_size(y, 0)) {
        tn_error_refuse_argument(TN_ERR_FORMAT, call, "folder",
                                 "%s: there are %lld images, but %lld labels",
                                 folder, (long long)tn_tensor_size(x, 0),
                                 (long long)tn_tensor_size(y, 0));
        y = NULL;
    }
    if (y && !tn_tensor_numel(x)) {
        tn_error_refuse_argument(TN_ERR_FORMAT, call, "folder",
                                 "%s: there are no images", folder);
        y = NULL;
    }
    tn_dataset *made = finish(scope, y ? tn_unsqueeze(x, 1) : NULL, y,
                              o.transform, o.context);
    tn_device_set(was);
    return made;
}

/* ---- CIFAR -------------------------------------------------------------- */

/* A record is some labels of a byte each, then the image: three planes of 32 x
 * 32. Source: A. Krizhevsky's description of the binary files. */
typedef struct cifar {
    const char *call;
    int labels;  /* bytes of labels in a record */
    int label;   /* the one that is used */
    int classes; /* labels are below this */
} cifar;
enum { PIXELS = 3 * 32 * 32 };

typedef struct records {
    unsigned char *pixels, *label; /* owned */
    int64_t count;
} records;

static bool add_records(records *all, const unsigned char *data, size_t bytes,
                        const cifar *kind, const char *path)
{
    const size_t record = PIXELS + (size_t)kind->labels;
    const int64_t count = (int64_t)(bytes / record);
    if (bytes == 0 || bytes % record) {
        tn_error_refuse_argument(TN_ERR_FORMAT, kind->call, "folder",
                                 "%s: it has %zu bytes; expected a multiple of "
                                 "%zu",
                                 path, bytes, record);
        return false;
    }
    const size_t total = (size_t)(all->count + count);
    unsigned char *pixels = realloc(all->pixels, total * PIXELS);
    all->pixels = pixels ? pixels : all->pixels;
    unsigned char *label = realloc(all->label, total);
    all->label = label ? label : all->label;
    if (!pixels || !label) {
        tn_error_set(TN_ERR_MEMORY, "%s: out of memory", kind->call);
        return false;
    }
    for (int64_t i = 0; i < count; i++, all->count++) {
        const unsigned char *at = data + (size_t)i * record;
        if (at[kind->label] >= kind->classes) {
            tn_error_refuse_argument(TN_ERR_FORMAT, kind->call, "folder",
                                     "%s: image %lld has the label %d; there "
                                     "are %d classes",
                                     path, (long long)i, at[kind->label],
                                     kind->classes);
            return false;
        }
        label[all->count] = at[kind->label];
        memcpy(pixels + (size_t)all->count * PIXELS, at + kind->labels, PIXELS);
    }
    return true;
}

static bool read_file(records *all, const char *folder, const char *name,
                      const cifar *kind)
{
    char *path = find_file(folder, name);
    void *data = NULL;
    size_t bytes = 0;
    bool good = false;
    if (!path)
        tn_error_set(TN_ERR_MEMORY, "%s: out of memory", kind->call);
    else if (tn_file_read(path, kind->call, &data, &bytes) == TN_OK)
        good = add_records(all, data, bytes, kind, path);
    free(data);
    free(path);
    return good;
}

static tn_dataset *load_cifar(const char *folder, const char *const *files,
                              int count, const cifar *kind,
                              tn_image_transform transform, void *context)
{
    records all = {0};
    bool good = check_folder(folder, kind->call);
    for (int i = 0; good && i < count; i++)
        good = read_file(&all, folder, files[i], kind);
    tn_scope *scope = tn_scope_open();
    tn_device *device = tn__image_device(), *was = tn_device_current();
    tn_tensor *x = NULL, *y = NULL;
    if (good && device && was && tn_device_set(device) == TN_OK) {
        x = tn_tensor_from_array(all.pixels, TN_U8,
                                 tn_dims(all.count, 3, 32, 32));
        y = tn_tensor_from_array(all.label, TN_U8, tn_dims(all.count));
    }
    free(all.pixels);
    free(all.label);
    tn_dataset *made = finish(scope, x, y, transform, context);
    if (was)
        tn_device_set(was);
    return made;
}

TN_OPTIONS_TYPE(tn_dataset_cifar10, "dataset_cifar10", "folder, train",
                TN_DATASET_MNIST_OPTIONS_LIST)
tn_dataset *tn_dataset_cifar10_with(const char *folder, bool train,
                                    const tn_dataset_cifar10_options *options)
{
    static const char *const parts[] = {"data_batch_1.bin", "data_batch_2.bin",
                                        "data_batch_3.bin", "data_batch_4.bin",
                                        "data_batch_5.bin"};
    static const char *const test[] = {"test_batch.bin"};
    const cifar kind = {"dataset_cifar10", 1, 0, 10};
    tn_dataset_cifar10_options o;
    if (tn_options_take(tn_dataset_cifar10_type(), &o, options) < 0 ||
        check_transform(tn_dataset_cifar10_type(), &o, o.transform) < 0)
        return NULL;
    return load_cifar(folder, train ? parts : test, train ? 5 : 1, &kind,
                      o.transform, o.context);
}

TN_OPTIONS_TYPE(tn_dataset_cifar100, "dataset_cifar100", "folder, train",
                TN_DATASET_CIFAR100_OPTIONS_LIST)
tn_dataset *tn_dataset_cifar100_with(const char *folder, bool train,
                                     const tn_dataset_cifar100_options *options)
{
    tn_dataset_cifar100_options o;
    if (tn_options_take(tn_dataset_cifar100_type(), &o, options) < 0 ||
        check_transform(tn_dataset_cifar100_type(), &o, o.transform) < 0)
        return NULL;
    const char *file = train ? "train.bin" : "test.bin";
    const cifar kind = {"dataset_cifar100", 2, o.coarse ? 0 : 1,
                        o.coarse ? 20 : 100};
    return load_cifar(folder, &file, 1, &kind, o.transform, o.context);
}
