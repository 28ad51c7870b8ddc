/* guest.c LIBRARY: a program that opens libtenon with dlopen, as a plugin of a
 * larger program does: several times, and on several threads, one of which ends
 * after the last dlclose. Prints what it computed. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

enum { THREADS = 8, TIMES = 20, SIDE = 100 };

static void *library;
static atomic_int computed, closed;

/* Stores the address of a function of the library in a pointer of its type. */
static void find(const char *name, void *out)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    memcpy(out, &found, sizeof found);
}

static void load(const char *path)
{
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
}

/* Computes the sum of a matrix product of ones, and causes an error. Both leave
 * data in thread-local storage. */
static double compute(void)
{
    tn_tensor *(*ones)(tn_dims_list, const void *);
    tn_tensor *(*matmul)(tn_tensor *, tn_tensor *);
    tn_tensor *(*sum)(tn_tensor *, const void *);
    double (*item)(tn_tensor *);
    void (*clear)(void);
    find("tn_ones_with", &ones);
    find("tn_matmul", &matmul);
    find("tn_sum_with", &sum);
    find("tn_item", &item);
    find("tn_error_clear", &clear);
    tn_tensor *x = ones(tn_dims(SIDE, SIDE), NULL);
    tn_tensor *y = ones(tn_dims(SIDE + 1, SIDE), NULL);
    const double result = item(sum(matmul(x, x), NULL));
    if (matmul(x, y))
        exit(2);
    clear();
    return result;
}

static void *work(void *argument)
{
    const double result = compute();
    atomic_fetch_add(&computed, 1);
    while (!atomic_load(&closed))
        ;
    *(double *)argument = result;
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    for (int i = 0; i < TIMES; i++) {
        load(argv[1]);
        if (compute() != (double)SIDE * SIDE * SIDE || dlclose(library))
            return 1;
    }
    load(argv[1]);
    pthread_t thread[THREADS];
    double result[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, work, &result[i]))
            return 1;
    while (atomic_load(&computed) < THREADS)
        ;
    if (dlclose(library))
        return 1;
    atomic_store(&closed, 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        printf("%g\n", result[i]);
    }
    return 0;
}
