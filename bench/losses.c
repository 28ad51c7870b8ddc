/* losses.c: compares the losses of the first training steps in Tenon and in
 * PyTorch, to show that both train the same network. PyTorch reads the batch
 * and the initial weights from a file that Tenon writes: the elements of each
 * tensor in row-major order, with the parameters in the order that
 * compare_networks.py shares. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

/* The relative tolerances of the losses of three steps. bfloat16 has 8
 * significant bits. ResNet-20 learns so fast that a difference of 1e-7 in the
 * first loss becomes 1e-5 in the second and 5e-4 in the third. The tolerance
 * still detects mistakes: with half the learning rate, the second loss of the
 * slowest network, mlp, would change by 1.5e-3. */
enum { STEPS = 3 };
static const double tolerance[STEPS] = {3e-4, 1e-3, 3e-3};

static bool write_tensor(FILE *file, tn_tensor *x)
{
    size_t bytes =
        (size_t)tn_tensor_numel(x) * tn_dtype_bytes(tn_tensor_dtype(x));
    void *memory = malloc(bytes);
    bool good = memory && tn_tensor_to_array(x, memory, bytes) == TN_OK &&
                fwrite(memory, 1, bytes, file) == bytes;
    free(memory);
    return good;
}

static bool write_all(FILE *file, const bench_state *state)
{
    tn_parameter_list *list = tn_parameters(state->net);
    bool good = write_tensor(file, state->a) && write_tensor(file, state->b);
    for (int i = 0; good && i < tn_parameters_count(list); i++)
        good = write_tensor(file, tn_parameters_at(list, i));
    return good && fflush(file) == 0;
}

/* Writes the tensors of a workload to a file. After an error, prints the reason
 * and returns false. */
static bool write_state(const char *path, const bench_state *state)
{
    FILE *file = fopen(path, "wb");
    bool good = file && write_all(file, state);
    if (!good && !tn_error())
        fprintf(stderr, "compare: the file %s cannot be written: %s\n", path,
                strerror(errno));
    if (file)
        fclose(file);
    return good;
}

static void print_losses(const char *who, const double *loss)
{
    printf("  %s", who);
    for (int i = 0; i < STEPS; i++)
        printf(" %.5f", loss[i]);
}

/* Prints a peer's losses below ours. Returns whether they agree. */
static bool agrees(bench_peer *peer, const char *name, const char *group,
                   const bench_work *work, const char *path,
                   const double *ours)
{
    double loss[STEPS], most = 0;
    bool same = true;
    if (!bench_peer_losses(peer, group, work, path, STEPS, loss)) {
        printf("  %s none", name);
        return false;
    }
    print_losses(name, loss);
    for (int i = 0; i < STEPS; i++) {
        double apart = (loss[i] - ours[i]) / ours[i];
        apart = apart < 0 ? -apart : apart;
        same = same && apart <= tolerance[i]; /* false if `apart` is NaN */
        most = apart > most ? apart : most;
    }
    printf(" (%.0e%s)", most, same ? "" : ": too different");
    return same;
}

bool bench_losses(const char *group, const bench_work *work,
                  bench_peer *const *peer, const char *const *name, int count)
{
    char path[] = "/tmp/tenon-bench-XXXXXX";
    bench_state state = {.name = work->name, .size = work->size};
    double ours[STEPS];
    int descriptor = mkstemp(path);
    if (descriptor < 0)
        return fprintf(stderr, "compare: %s: %s\n", path, strerror(errno)),
               false;
    close(descriptor);

    tn_scope *scope = tn_scope_open();
    work->open(&state);
    bool good = !tn_error() && write_state(path, &state);
    for (int i = 0; good && i < STEPS; i++) {
        tn_scope *step = tn_scope_open();
        work->call(&state);
        ours[i] = tn_item(state.loss);
        good = !tn_error();
        tn_scope_close(step);
    }
    tn_scope_close(scope);
    if (good) {
        printf("%s %s", group, work->name);
        print_losses("tenon", ours);
        for (int i = 0; i < count; i++)
            if (peer[i])
                good = agrees(peer[i], name[i], group, work, path, ours) &&
                       good;
        printf("\n");
    }
    unlink(path);
    return good;
}
