/* cifar.c: fuzzes the files of CIFAR-10, CIFAR-100 and MNIST. The first byte
 * of the input selects the set. For MNIST, the second one is the size of the
 * labels, at the end of the input. */
#include <sys/stat.h>
#include <tenon/image.h>
#include <tenon/io.h>

#include "fuzz.h"

const char fuzz_target[] = "cifar";

static const char *folder(void)
{
    static char path[64];
    if (!*path) {
        snprintf(path, sizeof path, "fuzz-cifar-%d", (int)getpid());
        mkdir(path, 0777);
    }
    return path;
}

static void file_path(char *path, size_t room, const char *name)
{
    snprintf(path, room, "%s/%s", folder(), name);
}

static void put(const char *name, const uint8_t *data, size_t size)
{
    char path[128];
    file_path(path, sizeof path, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size)
        abort();
    fclose(f);
}

static void take(const char *name)
{
    char path[128];
    file_path(path, sizeof path, name);
    unlink(path);
}

static void check_sample(tn_dataset *set)
{
    const int64_t count = tn_dataset_count(set);
    tn_tensor *fields[TN_MAX_FIELDS];
    fuzz_accepted();
    fuzz_check(count > 0, "an accepted set has images");
    const int64_t index[] = {0, count - 1};
    fuzz_check(tn_dataset_batch(set, index, 2, fields) == 2,
               "its samples can be read");
    fuzz_check(tn_tensor_ndim(fields[0]) == 4, "they are images");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const images = "t10k-images-idx3-ubyte";
    static const char *const labels = "t10k-labels-idx1-ubyte";
    if (!size)
        return 0;
    const int kind = data[0] % 4;
    const uint8_t *rest = data + 1;
    size--;
    tn_unpack_limit_set(1 << 22);
    tn_scope *scope = tn_scope_open();
    tn_dataset *set;
    if (kind == 0) {
        put("test_batch.bin", rest, size);
        set = tn_dataset_cifar10(folder(), false);
        take("test_batch.bin");
    } else if (kind < 3) {
        put("test.bin", rest, size);
        set = tn_dataset_cifar100(folder(), false, .coarse = kind == 2);
        take("test.bin");
    } else {
        const size_t bytes = size && rest[0] < size ? rest[0] : 0;
        put(images, rest + (size > 0), size - (size > 0) - bytes);
        put(labels, rest + size - bytes, bytes);
        set = tn_dataset_mnist(folder(), false);
        take(images);
        take(labels);
    }
    if (set)
        check_sample(set);
    else
        fuzz_refused();
    tn_scope_close(scope);
    return 0;
}

/* The folder is empty between inputs. */
__attribute__((destructor)) static void remove_folder(void)
{
    rmdir(folder());
}
