/* misuse.c: calls every operator with wrong arguments, starting from a valid
 * call of PyTorch's samples.
 *
 *     misuse [DIR [EVERY]]     every EVERYth sample of each file (the first)
 *
 * tests/ops/test_misuse.c draws the arguments of calls at random, so it finds
 * no valid call of operators that require several arguments to match (a
 * factorisation and its pivots, an input and a grid). This program changes a
 * sample's arguments one at a time. ../ops/misuse.h describes the changes, and
 * the properties that hold for any arguments. */
#include "golden.h"

#include "../ops/misuse.h"

#include <ops/engine/ops.h>
#include <stdlib.h>
#include <string.h>

static long files, rows_reached, refused;
static bool reached[2048]; /* reached[id]: whether the operator with this id was
                            * called */

static void one_sample(tn_safetensors *file, const json_t *json,
                       const char *name, size_t number, void *context)
{
    (void)context;
    const tn_value *given;
    const tn_op *op = op_sample_row(file, json, name, &given);
    if (!op) { /* some samples describe another call than the operator's
                * (op_file.c) */
        printf("# %s, sample %zu: no row takes its arguments\n", name, number);
        refused++;
        return;
    }
    tn_value value[TN__OP_MAX_ARGS + 1];
    memcpy(value, given, (size_t)op->arg_count * sizeof *value);
    long before = misuse_counts.wrong;
    if (!misuse_values_make()) {
        printf("Bail out! %s\n", tn_error());
        exit(99);
    }
    if (misuse_call(op, value, op->arg_count) < 0) {
        printf("# %s, sample %zu: the call itself is refused\n", name, number);
        refused++;
    }
    misuse_vary(op, value, 0, 1);
    if (misuse_counts.wrong > before)
        printf("# %s, sample %zu: wrong\n", name, number);
    files++;
    rows_reached += !reached[op->id];
    reached[op->id] = true;
}

int main(int argc, char **argv)
{
    size_t every = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : SIZE_MAX / 2;
    if (!misuse_begin())
        return 99;
    if (!golden_each_sample(argc > 1 ? argv[1] : NULL, every, one_sample,
                            NULL))
        return 1;
    bool good = misuse_counts.wrong == 0 && files > 0;
    printf("1..1\n%s 1 - %ld samples of %ld rows, misused: %ld calls, %ld "
           "refused, %ld done, %ld wrong; %ld samples say nothing\n",
           good ? "ok" : "not ok", files, rows_reached, misuse_counts.calls,
           misuse_counts.refused, misuse_counts.done, misuse_counts.wrong,
           refused);
    return !good;
}
