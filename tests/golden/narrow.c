/* narrow.c: runs every operator on narrow integers.
 *
 *     narrow [DIR [EVERY]]   every EVERYth (1) sample of each file in DIR/ops
 *
 * The tensors of a sample of tests/golden become int64 numbers of few digits,
 * and the same numbers in a narrower dtype. Results of that dtype must equal
 * the int64 results, except where these exceed its range, because sums and
 * products wrap. Other results must be bit-identical, floating results must be
 * within the operator's tolerance. narrow.def lists the operators that differ,
 * as in PyTorch. (Other tests compare int64 results with PyTorch's.) A sample
 * runs twice: with all tensors narrow, and with int64 tensors (indices)
 * unchanged. Prints a TAP line for each dtype, with counts. */
#include "golden.h"

#include <ops/engine/ops.h>
#include <stdlib.h>
#include <string.h>

#include "../same_bits.h"

enum { MOST_RESULTS = 32, MOST_LISTED = 64, MOST_ELEMENTS = 1 << 16 };

static const struct narrow {
    tn_dtype dtype;
    double low, high;  /* range of inputs, so that the sum of two still fits */
    int64_t least, most;
} narrows[] = {{TN_U8, 0, 100, 0, UINT8_MAX},
               {TN_I8, -60, 60, INT8_MIN, INT8_MAX},
               {TN_I16, -1000, 1000, INT16_MIN, INT16_MAX},
               {TN_I32, -1000, 1000, INT32_MIN, INT32_MAX}};
enum { NARROWS = sizeof narrows / sizeof *narrows };

static struct tally {
    long same, excused, failed, refused, alone;
} tallies[NARROWS];

static const struct excuse {
    const char *op, *reason;
} excuses[] = {
#define NARROW(op, reason) {op, reason},
#include "narrow.def"
#undef NARROW
    {NULL, NULL},
};
static long used[sizeof excuses / sizeof *excuses];

/* Returns the index of the operator's entry in excuses; -1 if it has none. */
static int excuse_of(const char *op)
{
    for (int i = 0; excuses[i].op; i++)
        if (strcmp(excuses[i].op, op) == 0)
            return i;
    return -1;
}

/* ---- inputs -------------------------------------------------------------- */

/* Returns x as integers in t's range, in int64. Booleans stay as they are, and
 * so does int64 if keeps_indices is set. */
static tn_tensor *whole(const struct narrow *t, tn_tensor *x, bool keeps_indices)
{
    tn_dtype dtype = tn_tensor_dtype(x);
    if (dtype == TN_BOOL || (dtype == TN_I64 && keeps_indices))
        return x;
    if (tn_dtype_is_floating(dtype)) {
        /* Replaces NaN and infinities, which have no integer. */
        x = tn_nan_to_num(tn_to_dtype(tn_detach(x), TN_F64), .nan = 1,
                          .posinf = t->high, .neginf = t->low);
        x = tn_round(tn_mul_scalar(x, 3));
    }
    return tn_to_dtype(tn_clamp_scalars(x, t->low, t->high), TN_I64);
}

typedef struct inputs {
    tn_value value[TN__OP_MAX_ARGS];
    tn_tensor *list[TN__OP_MAX_ARGS][MOST_LISTED];
    int changed; /* number of tensors that were made narrow */
} inputs;

/* Makes the inputs in int64 (wide) and in t's dtype (narrow). */
static bool make_inputs(const struct narrow *t, const tn_op *op,
                        const tn_value *given, bool keeps_indices,
                        inputs *wide, inputs *narrow)
{
    *wide = *narrow = (inputs){.changed = 0};
    for (int i = 0; i < op->arg_count; i++) {
        tn_tensor *const *from = given[i].kind == TN_VALUE_TENSORS
                                     ? given[i].of.tensors
                                     : &given[i].of.tensor;
        int count = given[i].kind == TN_VALUE_TENSORS  ? given[i].count
                    : given[i].kind == TN_VALUE_TENSOR ? 1
                                                       : 0;
        wide->value[i] = narrow->value[i] = given[i];
        if (count > MOST_LISTED)
            return false;
        for (int k = 0; k < count; k++) {
            if (!from[k])
                continue;
            tn_tensor *x = whole(t, from[k], keeps_indices);
            bool is_kept = x == from[k];
            wide->list[i][k] = x;
            narrow->list[i][k] = is_kept ? x : tn_to_dtype(x, t->dtype);
            narrow->changed += !is_kept;
        }
        if (given[i].kind == TN_VALUE_TENSORS) {
            wide->value[i].of.tensors = wide->list[i];
            narrow->value[i].of.tensors = narrow->list[i];
        } else if (count) {
            wide->value[i].of.tensor = wide->list[i][0];
            narrow->value[i].of.tensor = narrow->list[i][0];
        }
    }
    bool good = !tn_error();
    tn_error_clear();
    return good && narrow->changed > 0;
}

/* ---- comparison ---------------------------------------------------------- */

static int64_t *numbers_of(tn_tensor *x)
{
    int64_t count = tn_tensor_numel(x);
    int64_t *number = malloc((size_t)count * sizeof *number + 1);
    if (number && tn_tensor_to_array(tn_contiguous(tn_to_dtype(x, TN_I64)),
                                     number,
                                     (size_t)count * sizeof *number) < 0) {
        free(number);
        return NULL;
    }
    return number;
}

/* Returns whether got, of t's dtype, equals want, in int64, where want is in
 * the dtype's range. */
static bool same_numbers(const struct narrow *t, tn_tensor *got,
                         tn_tensor *want, char *why, size_t room)
{
    if (tn_tensor_numel(got) != tn_tensor_numel(want) ||
        tn_tensor_ndim(got) != tn_tensor_ndim(want)) {
        snprintf(why, room, "another shape");
        return false;
    }
    int64_t *g = numbers_of(got), *w = numbers_of(want);
    bool same = g && w;
    for (int64_t i = 0; same && i < tn_tensor_numel(want); i++) {
        bool fits = w[i] >= t->least && w[i] <= t->most;
        same = !fits || g[i] == w[i];
        if (!same)
            snprintf(why, room, "element %lld is %lld, as int64 %lld",
                     (long long)i, (long long)g[i], (long long)w[i]);
    }
    free(g);
    free(w);
    return same;
}

static bool same_result(const struct narrow *t, const char *op, tn_tensor *got,
                        tn_tensor *want, char *why, size_t room)
{
    tn_dtype dtype = tn_tensor_dtype(got);
    if (dtype == t->dtype && tn_tensor_dtype(want) == TN_I64)
        return same_numbers(t, got, want, why, room);
    if (dtype != tn_tensor_dtype(want)) {
        snprintf(why, room, "%s, and %s of int64", tn_dtype_name(dtype),
                 tn_dtype_name(tn_tensor_dtype(want)));
        return false;
    }
    snprintf(why, room, "other bits");
    return same_bits(got, want) ||
           (tn_dtype_is_floating(dtype) &&
            golden_equal(got, want, tolerance_for(op, dtype), why, room));
}

/* ---- loop over samples --------------------------------------------------- */

static int call(const tn_op *op, const inputs *in, tn_tensor **out)
{
    tn_manual_seed(17);
    int count = tn_op_call(op, in->value, op->arg_count, out, MOST_RESULTS);
    if (count >= 0 && tn_device_synchronize(tn_device_current()) < 0)
        count = -1;
    return count;
}

static void one_dtype(int k, const tn_op *op, const tn_value *given,
                      const char *name, size_t number, bool keeps_indices)
{
    static inputs wide, narrow;
    tn_tensor *want[MOST_RESULTS], *got[MOST_RESULTS];
    struct tally *tally = &tallies[k];
    const struct narrow *t = &narrows[k];
    if (!make_inputs(t, op, given, keeps_indices, &wide, &narrow))
        return;
    int wanted = call(op, &wide, want);
    tn_error_clear();
    if (wanted < 0) {
        tally->refused++;
        return;
    }
    int count = call(op, &narrow, got);
    if (count < 0) {
        tally->alone++;
        tn_error_clear();
        return;
    }
    char why[256] = "another number of results";
    bool same = count == wanted;
    for (int i = 0; i < wanted && same; i++)
        same = same_result(t, name, got[i], want[i], why, sizeof why);
    /* narrow.def only applies to dtypes of one byte. */
    int excuse = same || t->most > UINT8_MAX ? -1 : excuse_of(name);
    if (excuse >= 0)
        used[excuse]++;
    tally->same += same;
    tally->excused += excuse >= 0;
    tally->failed += !same && excuse < 0;
    if (!same && excuse < 0)
        printf("# %s, sample %zu, %s%s: %s\n", name, number,
               tn_dtype_name(t->dtype), keeps_indices ? "" : ", all",
               tn_error() ? tn_error() : why);
    tn_error_clear();
}

static void one_sample(tn_safetensors *file, const json_t *json,
                       const char *name, size_t number, void *context)
{
    (void)context;
    const tn_value *given;
    const tn_op *op = op_sample_row(file, json, name, &given);
    tn_value value[TN__OP_MAX_ARGS];
    tn_error_clear();
    if (!op)
        return;
    memcpy(value, given, (size_t)op->arg_count * sizeof *value);
    for (int k = 0; k < NARROWS; k++)
        for (int keeps = 0; keeps < 2; keeps++) {
            tn_scope *scope = tn_scope_open();
            one_dtype(k, op, value, name, number, keeps);
            tn_scope_close(scope);
        }
}

int main(int argc, char **argv)
{
    size_t every = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 1;
    tn_device *device = tn_device_current();
    if (!device) {
        printf("Bail out! %s\n", tn_error());
        return 1;
    }
    if (!golden_each_sample(argc > 1 ? argv[1] : NULL, every, one_sample,
                            NULL))
        return 1;
    long failed = 0;
    printf("1..%d\n", NARROWS);
    for (int k = 0; k < NARROWS; k++) {
        const struct tally *t = &tallies[k];
        bool good = !t->failed && t->same;
        failed += !good;
        printf("%s %d - %s, %s: %ld calls with int64's numbers, %ld excused, "
               "%ld failed, %ld that take no int64, %ld that take int64 "
               "alone\n",
               good ? "ok" : "not ok", k + 1, tn_device_name(device),
               tn_dtype_name(narrows[k].dtype), t->same, t->excused, t->failed,
               t->refused, t->alone);
    }
    for (int i = 0; excuses[i].op; i++) {
        printf("# %s: %ld calls excused: %s\n", excuses[i].op, used[i],
               excuses[i].reason);
        if (!used[i] && every == 1) {
            printf("# that excuse is of no use: narrow.def\n");
            failed++;
        }
    }
    return failed > 0;
}
