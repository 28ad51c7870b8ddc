/* images.c: how fast a folder of images becomes batches: decoding, resizing
 * (the shorter side to 256, a crop of 224), normalisation, batches of 32, with
 * two workers. images.py runs this program and torchvision on the same folder.
 *
 *     bench/images FOLDER [WORKERS [train]]
 *
 * Prints images, seconds, and processor seconds of all threads. With train, the
 * transform is a random resized crop with a flip. */
#include <tenon/image.h>
#include <tenon/tenon.h>
#include <tenon/transform.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static const double mean[] = {0.485, 0.456, 0.406};
static const double deviation[] = {0.229, 0.224, 0.225};

static tn_tensor *evaluate(tn_tensor *image, void *context)
{
    (void)context;
    return tn_image_prepare(image);
}

static tn_tensor *augment(tn_tensor *image, void *context)
{
    (void)context;
    image = tn_image_random_resized_crop(image, 224, 224);
    image = tn_image_random_flip(image);
    return tn_image_normalize(image, mean, deviation, 3);
}

static double seconds(const struct timeval *t)
{
    return (double)t->tv_sec + (double)t->tv_usec * 1e-6;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: images FOLDER [WORKERS [train]]\n");
        return 1;
    }
    const bool train = argc > 3 && strcmp(argv[3], "train") == 0;
    tn_set_num_threads(1);
    tn_image_folder *folder = tn_image_folder_open(argv[1]);
    tn_dataset *set = tn_dataset_from_image_folder(
        folder, .transform = train ? augment : evaluate);
    tn_loader *loader = tn_loader_new(
        set, .batch_size = 32, .workers = argc > 2 ? atoi(argv[2]) : 2);
    struct timespec begin, end;
    int64_t count = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    TN_EACH_BATCH(batch, loader)
        count += batch.count;
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (tn_error()) {
        fprintf(stderr, "%s\n", tn_error());
        return 1;
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("%lld images, %.3f s, %.3f s of processors\n", (long long)count,
           (double)(end.tv_sec - begin.tv_sec) +
               (double)(end.tv_nsec - begin.tv_nsec) * 1e-9,
           seconds(&use.ru_utime) + seconds(&use.ru_stime));
    return 0;
}
