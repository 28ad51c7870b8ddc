/* link.c: what namespaces.sh starts as the ranks of two machines:
 *
 *     link steps    sums until an error, which it prints with the time
 *     link speed    the times of all_reduce of 4, 16 and 64 MB
 */
#include <tenon/dist.h>
#include <tenon/tenon.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    return (double)clock.tv_sec + (double)clock.tv_nsec * 1e-9;
}

static int steps(void)
{
    double last = 0;
    for (int i = 0; !tn_error(); i++)
        TN_SCOPE(scope) {
            tn_tensor *x = tn_ones(tn_dims(1 << 18));
            last = now();
            tn_dist_all_reduce(x, tn_dist_world(), .label = "step");
            if (i == 5)
                printf("rank %d: begun\n", tn_dist_rank());
            fflush(stdout);
            usleep(20000);
        }
    printf("rank %d: after %.1f s: %s\n", tn_dist_rank(), now() - last, tn_error());
    return 3;
}

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static int speed(void)
{
    enum { ROUNDS = 11 };
    for (int64_t bytes = 4 << 20; bytes <= 64 << 20; bytes *= 4)
        TN_SCOPE(scope) {
            tn_tensor *x = tn_zeros(tn_dims(bytes / 4));
            double took[ROUNDS];
            tn_dist_all_reduce(x, tn_dist_world());
            for (int i = 0; i < ROUNDS; i++) {
                tn_dist_barrier(tn_dist_world());
                const double begin = now();
                tn_dist_all_reduce(x, tn_dist_world());
                took[i] = now() - begin;
            }
            qsort(took, ROUNDS, sizeof *took, ascending);
            if (tn_dist_rank() == 0 && !tn_error())
                printf("%s %3d MB: %.1f ms\n", tn_dist_engine(),
                       (int)(bytes >> 20), took[ROUNDS / 2] * 1e3);
            fflush(stdout);
        }
    return tn_error() ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (tn_dist_init() < 0) {
        printf("%s\n", tn_error());
        return 1;
    }
    int status = argc > 1 && !strcmp(argv[1], "speed") ? speed() : steps();
    if (tn_error() && status != 3)
        printf("%s\n", tn_error());
    fflush(stdout);
    tn_dist_close();
    return status;
}
