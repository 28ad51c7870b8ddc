/* op_file.c: checks one operator's samples: calls the operator by name and
 * compares results and gradients.
 *
 * A name may have several overloads, which are separate operators of the table.
 * Each is tried in turn, as PyTorch selects an overload. */
#include "sample.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one sample ---------------------------------------------------------- */

static void mark_gradients(const sample *s)
{
    const json_t *grads = json_object_get(s->json, "grads");
    for (size_t i = 0; i < json_array_size(grads); i++) {
        json_int_t input = json_integer_value(
            json_object_get(json_array_get(grads, i), "input"));
        if (input >= 0 && input < s->count)
            tn_requires_grad(s->tensor[input]);
    }
}

static bool same_shape(const tn_tensor *x, const tn_tensor *y)
{
    int ndim = tn_tensor_ndim(x);
    bool same = ndim == tn_tensor_ndim(y);
    for (int d = 0; d < ndim && same; d++)
        same = tn_tensor_size(x, d) == tn_tensor_size(y, d);
    return same;
}

/* Returns the sum of all outputs times the gradients of the sample. The
 * gradient of this sum with respect to each output is the sample's gradient. */
static tn_tensor *weighted_sum(const sample *s, tn_tensor **out, int count)
{
    const json_t *which = json_object_get(s->json, "diff_outs");
    const json_t *cotangents = json_object_get(s->json, "cotangents");
    tn_tensor *total = NULL;
    for (size_t i = 0; i < json_array_size(which); i++) {
        json_int_t k = json_integer_value(json_array_get(which, i));
        if (k < 0 || k >= count)
            return NULL;
        tn_tensor *g = tn_safetensors_tensor(
            s->file, json_string_value(json_array_get(cotangents, i)));
        /* `layout` may change the sizes of inputs; all elements of an output
         * then get the gradient 1. */
        bool cut = s->layout && !same_shape(out[k], g);
        tn_tensor *part =
            tn_sum(tn_to_dtype(cut ? out[k] : tn_mul(out[k], g), TN_F64));
        total = total ? tn_add(total, part) : part;
    }
    return total;
}

/* Prints which result of a sample is not fully determined, and the reason. */
static void note_open(const char *op, const json_t *json, const char *what,
                      const char *reason)
{
    const char *dtype = json_string_value(json_object_get(json, "dtype"));
    printf("# %s (%s): %s: %s\n", op, dtype ? dtype : "", what, reason);
}

/* The gradient of a broadcast input is a sum, so the tolerance of sums applies
 * if it is wider. */
static tolerance gradient_tolerance(const char *op, tn_tensor *want,
                                    tn_tensor *out)
{
    bool sum = tn_tensor_numel(want) < tn_tensor_numel(out);
    tolerance own = tolerance_for(op, tn_tensor_dtype(want));
    tolerance of_sum = tolerance_for("sum", tn_tensor_dtype(want));
    return sum && of_sum.relative > own.relative ? of_sum : own;
}

/* Returns whether one of the outputs is an index that may select any of several
 * equal elements. */
static bool may_name_others(const char *op, const json_t *json)
{
    size_t count = json_array_size(json_object_get(json, "outs"));
    for (size_t i = 0; i < count; i++)
        if (undefined_index(op, json, (int)i))
            return true;
    return false;
}

static bool check_gradients(const sample *s, const char *op, tn_tensor **out,
                            int count, char *text, size_t room)
{
    const json_t *grads = json_object_get(s->json, "grads");
    if (json_array_size(json_object_get(s->json, "diff_outs")) == 0)
        return true;
    tn_tensor *root = weighted_sum(s, out, count);
    /* If no output depends on an input, there is no gradient, which counts as
     * zeros. */
    if (!root || (tn_tensor_requires_grad(root) && tn_backward(root) < 0)) {
        snprintf(text, room, "backward: %s",
                 tn_error() ? tn_error() : "no such output");
        return false;
    }
    for (size_t i = 0; i < json_array_size(grads); i++) {
        const json_t *entry = json_array_get(grads, i);
        json_int_t input =
            json_integer_value(json_object_get(entry, "input"));
        const char *key =
            json_string_value(json_object_get(entry, "tensor"));
        if (input < 0 || input >= s->count) {
            snprintf(text, room, "no input %lld", (long long)input);
            return false;
        }
        const char *reason = undefined_gradient(op, (int)input);
        if (reason) {
            note_open(op, s->json, "gradient not compared", reason);
            continue;
        }
        tn_tensor *got = tn_tensor_grad(s->tensor[input]);
        char why[256] = "";
        bool equal;
        if (key) {
            tn_tensor *want = tn_safetensors_tensor(s->file, key);
            tn_tensor *zero = got ? got : tn_zeros_like(s->tensor[input]);
            tolerance within = gradient_tolerance(op, want, out[0]);
            equal = golden_equal(zero, want, within, why, sizeof why);
            if (!equal && input == 0 && may_name_others(op, s->json))
                equal = golden_equal(
                    over_equals(s->tensor[0], s->dim, zero),
                    over_equals(s->tensor[0], s->dim, want), within, why,
                    sizeof why);
        } else {
            /* PyTorch has no gradient here, which equals zeros. */
            equal = !got || tn_item(tn_sum(tn_abs(got))) == 0;
            snprintf(why, sizeof why, "not zero");
        }
        if (!equal) {
            snprintf(text, room, "gradient of input %lld: %s",
                     (long long)input, why);
            return false;
        }
    }
    return true;
}

static bool check_output(const sample *s, const char *op, tn_tensor *got,
                         size_t i, char *text, size_t room)
{
    const json_t *outs = json_object_get(s->json, "outs");
    tn_tensor *want = tn_safetensors_tensor(
        s->file, json_string_value(json_array_get(outs, i)));
    char why[256] = "";
    bool equal =
        want && golden_equal(got, want,
                             tolerance_for(op, tn_tensor_dtype(want)), why,
                             sizeof why);
    const char *reason = undefined_index(op, s->json, (int)i);
    if (want && !equal && reason) {
        note_open(op, s->json, "another index of an equal", reason);
        equal = names_an_equal(s->tensor[0], s->dim, got, want, why,
                               sizeof why);
    }
    if (!equal)
        snprintf(text, room, "output %zu: %s", i, want ? why : tn_error());
    return equal;
}

static bool check_outputs(const sample *s, const char *op, tn_tensor **out,
                          int count, char *text, size_t room)
{
    size_t wanted = json_array_size(json_object_get(s->json, "outs"));
    if ((size_t)count < wanted) {
        snprintf(text, room, "%d outputs instead of %zu", count, wanted);
        return false;
    }
    for (size_t i = 0; i < wanted; i++)
        if (!check_output(s, op, out[i], i, text, room))
            return false;
    return true;
}

/* Returns the value of the argument dim; the last dimension by default. */
static int64_t dim_of(const tn_op *op, const bound *b)
{
    int i = sample_find_arg(op, "dim");
    return i < 0 || b->value[i].kind != TN_VALUE_INT ? -1 : b->value[i].of.i;
}

/* Returns whether the sample is a call of linalg.pinv with two matrices a and
 * b. Such a sample describes the pseudoinverse of a b^T, whose rank is
 * known. */
bool sample_is_product(const char *name, const json_t *json)
{
    const json_t *args = json_object_get(json, "args");
    return strcmp(name, "linalg.pinv") == 0 && json_array_size(args) == 2 &&
           sample_is_tensor(json_array_get(args, 1));
}

/* Returns the operator that accepts the sample's arguments, and stores them in
 * static memory, valid until the next call. NULL if there is none. */
static const tn_op *find_row(const sample *s, const char *name,
                             const bound **arguments)
{
    static bound b; /* static because it has 30 KiB */
    const tn_op *op = tn_op_find(name);
    while (op && !sample_bind(s, op, name, &b))
        op = tn_op_next(op, name);
    *arguments = &b;
    return op;
}

/* Calls the operator that accepts the sample's tensors. Returns the number of
 * outputs; below 0 with the reason in text. */
static int call_row(sample *s, const char *name, tn_tensor **out, char *text,
                    size_t room)
{
    if (sample_is_product(name, s->json)) {
        out[0] = tn_linalg_pinv(tn_matmul(
            s->tensor[0], tn_transpose(s->tensor[1], -1, -2)));
        snprintf(text, room, "%s", tn_error() ? tn_error() : "");
        return out[0] ? 1 : -1;
    }
    const bound *b;
    const tn_op *op = find_row(s, name, &b);
    if (!op) {
        snprintf(text, room, "no row takes these arguments");
        return -1;
    }
    s->dim = dim_of(op, b);
    int count = tn_op_call(op, b->value, tn_op_arg_count(op), out, MOST_OUTS);
    if (count < 0)
        snprintf(text, room, "%s",
                 tn_error() ? tn_error() : tn_status_name(count));
    return count;
}

/* Makes the sample's tensors and calls the operator. Returns like call_row. */
static int call_sample(sample *s, const char *name, tn_tensor **out,
                       char *text, size_t room)
{
    sample_make_tensors(s);
    mark_gradients(s);
    if (tn_error()) {
        snprintf(text, room, "inputs: %s", tn_error());
        return -1;
    }
    return call_row(s, name, out, text, room);
}

/* The results of a sample, and the gradients on its inputs. */
typedef struct answer {
    sample of;
    tn_tensor *out[MOST_OUTS];
    int count;
} answer;

/* Runs the sample once more, with inputs converted by layout. */
static bool answer_to(const sample *s, const char *name,
                      tn_tensor *(*layout)(tn_tensor *x), answer *a,
                      char *text, size_t room)
{
    *a = (answer){.of = {.file = s->file, .json = s->json, .layout = layout}};
    a->count = call_sample(&a->of, name, a->out, text, room);
    if (a->count < 0)
        return false;
    golden_align(s->file, name, s->json, a->out, a->count);
    if (!json_array_size(json_object_get(s->json, "diff_outs")))
        return true;
    tn_tensor *root = weighted_sum(&a->of, a->out, a->count);
    return root && (!tn_tensor_requires_grad(root) || tn_backward(root) >= 0);
}

/* Collects output i, or the gradient by input i, from all results but the first
 * two. */
static void others_of(const answer *a, bool gradient, size_t i,
                      tn_tensor *other[GOLDEN_NUDGES])
{
    for (int k = 0; k < GOLDEN_NUDGES; k++)
        other[k] = a[2 + k].count <= 0 ? NULL
                   : gradient          ? tn_tensor_grad(a[2 + k].of.tensor[i])
                                       : a[2 + k].out[i];
}

static bool check_beside(const sample *s, const char *name, const answer *a,
                         char *text, size_t room)
{
    const json_t *outs = json_object_get(s->json, "outs"), *entry;
    const json_t *grads = json_object_get(s->json, "grads");
    tn_tensor *other[GOLDEN_NUDGES];
    double greatest = 0;
    for (int i = 0; i < s->count; i++)
        if (tn_dtype_is_floating(tn_tensor_dtype(s->tensor[i])))
            greatest = fmax(greatest, golden_greatest(s->tensor[i]));
    size_t i;
    json_array_foreach(outs, i, entry) {
        tn_tensor *got = a[0].out[i];
        others_of(a, false, i, other);
        if (!check_output(&a[0].of, name, got, i, text, room) &&
            !(got && tn_dtype_is_floating(tn_tensor_dtype(got)) &&
              golden_beside(name, got,
                            tn_safetensors_tensor(s->file,
                                                  json_string_value(entry)),
                            a[1].out[i], other, GOLDEN_NUDGES, greatest, text, room)))
            return false;
    }
    json_array_foreach(grads, i, entry) {
        int at = (int)json_integer_value(json_object_get(entry, "input"));
        const char *key = json_string_value(json_object_get(entry, "tensor"));
        tn_tensor *got = tn_tensor_grad(a[0].of.tensor[at]);
        tn_tensor *want = key ? tn_safetensors_tensor(s->file, key) : NULL;
        others_of(a, true, (size_t)at, other);
        if (want && got && !undefined_gradient(name, at) &&
            !golden_equal(got, want, gradient_tolerance(name, want,
                                                        a[0].out[0]),
                          text, room) &&
            !golden_beside(name, got, want,
                           tn_tensor_grad(a[1].of.tensor[at]), other, GOLDEN_NUDGES,
                           greatest, text, room))
            return false;
    }
    return true;
}

/* Decides about a result or gradient of a narrow type that is not within the
 * tolerance. Runs the sample in float64, and in float64 with inputs that are
 * changed by a rounding error. Returns whether PyTorch's results and ours are
 * both near the float64 results (compare.c). */
static bool check_by_float64(const sample *s, const char *name, char *text,
                             size_t room)
{
    answer *a = calloc(2 + GOLDEN_NUDGES, sizeof *a);
    bool fine = a && answer_to(s, name, NULL, &a[0], text, room) &&
                answer_to(s, name, golden_widened, &a[1], text, room) &&
                a[1].count == a[0].count;
    for (int k = 0; fine && k < GOLDEN_NUDGES; k++)
        if (!answer_to(s, name, golden_nudged, &a[2 + k], text, room)) {
            a[2 + k].count = 0; /* the changed inputs are outside the operator's
                                 * domain */
            tn_error_clear();
        }
    fine = fine && check_beside(s, name, a, text, room);
    free(a);
    return fine;
}

/* The outcome of a sample. */
typedef enum ending { FAILED, PASSED, PASSED_BY_FLOAT64 } ending;

static ending run_sample(tn_safetensors *file, const json_t *json,
                         const char *name, char *text, size_t room)
{
    sample s = {.file = file, .json = json};
    tn_tensor *out[MOST_OUTS] = {NULL};
    int count = call_sample(&s, name, out, text, room);
    if (count < 0)
        return FAILED;
    golden_align(file, name, json, out, count);
    if (check_outputs(&s, name, out, count, text, room) &&
        check_gradients(&s, name, out, count, text, room))
        return PASSED;
    bool narrow = false;
    for (int i = 0; i < s.count; i++)
        narrow = narrow || golden_is_narrow(s.tensor[i]);
    if (!narrow ||
        count < (int)json_array_size(json_object_get(json, "outs")))
        return FAILED;
    char why[256] = "";
    if (check_by_float64(&s, name, why, sizeof why))
        return PASSED_BY_FLOAT64;
    size_t at = strlen(text);
    snprintf(text + at, room - at, "; beside float64: %s", why);
    return FAILED;
}

int op_sample_results(tn_safetensors *file, const json_t *json,
                      const char *name, tn_tensor *(*layout)(tn_tensor *x),
                      tn_tensor **result, int most, char *text, size_t room)
{
    sample s = {.file = file, .json = json, .layout = layout};
    tn_tensor *out[MOST_OUTS] = {NULL};
    int count = call_sample(&s, name, out, text, room), filled = 0;
    for (int i = 0; i < count && filled < most; i++)
        result[filled++] = out[i];
    if (count < 0 || !json_array_size(json_object_get(json, "diff_outs")))
        return count < 0 ? count : filled;
    tn_tensor *root = weighted_sum(&s, out, count);
    if (!root || (tn_tensor_requires_grad(root) && tn_backward(root) < 0)) {
        snprintf(text, room, "backward: %s", tn_error() ? tn_error() : "");
        return -1;
    }
    for (int i = 0; i < s.count && filled < most; i++)
        if (tn_tensor_grad(s.tensor[i]))
            result[filled++] = tn_tensor_grad(s.tensor[i]);
    return filled;
}

const tn_op *op_sample_row(tn_safetensors *file, const json_t *json,
                           const char *name, const tn_value **value)
{
    sample s = {.file = file, .json = json};
    const bound *b;
    sample_make_tensors(&s);
    const tn_op *op = tn_error() ? NULL : find_row(&s, name, &b);
    if (op)
        *value = b->value;
    return op;
}

/* ---- checking a file ----------------------------------------------------- */

void verdict_fail(verdict *v, const char *format, ...)
{
    v->failed++;
    if (v->failed > 1)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(v->detail, sizeof v->detail, format, args);
    va_end(args);
}

/* Returns whether the operator uses LAPACK, directly or through others. All
 * other operators must run on their device, not on the host. */
static bool runs_on_host(const char *name)
{
    static const char *const names[] = {
#define HOST(op) op,
#include "host.def"
#undef HOST
        NULL};
    int i = 0;
    while (names[i] && strcmp(names[i], name) != 0)
        i++;
    return names[i] != NULL;
}

/* Stores the first failure in the verdict, and prints each further one. */
static void fail_sample(verdict *v, const char *name, size_t i,
                        const json_t *json, const char *why)
{
    const char *dtype = json_string_value(json_object_get(json, "dtype"));
    if (v->failed)
        printf("# %s: sample %zu (%s): %s\n", name, i, dtype, why);
    verdict_fail(v, "sample %zu (%s): %s", i, dtype, why);
}

verdict op_file_run(tn_safetensors *file)
{
    verdict v = {0};
    const char *name = tn_safetensors_metadata(file, "op");
    const char *text = tn_safetensors_metadata(file, "samples");
    json_t *samples = text ? json_loads(text, 0, NULL) : NULL;
    if (!name || !json_is_array(samples)) {
        verdict_fail(&v, "no op or samples in the metadata");
        json_decref(samples);
        return v;
    }
    bool known = tn_op_find(name) != NULL;
    int64_t on_host = tn_host_runs();
    for (size_t i = 0; i < json_array_size(samples); i++) {
        const json_t *json = json_array_get(samples, i);
        const char *reason = undefined_sample(name, json);
        if (reason && known)
            note_open(name, json, "unsupported", reason);
        if (!known || reason) {
            v.unsupported++;
            continue;
        }
        char why[480] = "";
        tn_scope *scope = tn_scope_open();
        ending end = run_sample(file, json, name, why, sizeof why);
        v.passed += end != FAILED;
        v.by_float64 += end == PASSED_BY_FLOAT64;
        if (end == FAILED)
            fail_sample(&v, name, i, json, why);
        tn_error_clear();
        tn_scope_close(scope);
    }
    on_host = tn_host_runs() - on_host;
    if (on_host)
        printf("# %s: %lld runs on the host\n", name, (long long)on_host);
    if (on_host && !runs_on_host(name))
        verdict_fail(&v, "%lld runs on the host, which host.def does not know",
                     (long long)on_host);
    json_decref(samples);
    return v;
}
