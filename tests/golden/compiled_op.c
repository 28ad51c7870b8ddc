/* compiled_op.c: an operator's samples, each within a compiled function. Its
 * results are the operator's outputs and the gradients of its inputs. */
#include "compiled.h"
#include "sample.h"

#include <stdlib.h>
#include <string.h>

/* ---- one call ------------------------------------------------------------ */

/* A sample whose arguments are bound to the tensors that it was read with. A
 * call replaces them by its inputs. */
typedef struct bound_call {
    sample of;
    const tn_op *op; /* NULL: linalg.pinv of a product */
    bound arguments;
    tn_tensor *cotangent[MOST_OUTS]; /* for the i-th of diff_outs */
    bool gradients;
    int out_count; /* of the last call */
} bound_call;

/* Returns the tensor that takes x's place in a call. */
static tn_tensor *in_place_of(const bound_call *c, tn_tensor *const *now,
                              tn_tensor *x)
{
    for (int i = 0; i < c->of.count; i++)
        if (c->of.tensor[i] == x)
            return now[i];
    return x;
}

static int call_operator(const bound_call *c, tn_tensor *const *now,
                         tn_tensor **out)
{
    tn_value value[MOST_ARGS];
    tn_tensor *list[MOST_ARGS][MOST_TENSORS];
    if (!c->op) {
        out[0] = tn_linalg_pinv(tn_matmul(now[0], tn_transpose(now[1], -1, -2)));
        return out[0] ? 1 : -1;
    }
    memcpy(value, c->arguments.value, sizeof value);
    for (int a = 0; a < tn_op_arg_count(c->op); a++) {
        if (value[a].kind == TN_VALUE_TENSOR)
            value[a].of.tensor = in_place_of(c, now, value[a].of.tensor);
        if (value[a].kind != TN_VALUE_TENSORS)
            continue;
        for (int k = 0; k < value[a].count; k++)
            list[a][k] = in_place_of(c, now, value[a].of.tensors[k]);
        value[a].of.tensors = list[a];
    }
    return tn_op_call(c->op, value, tn_op_arg_count(c->op), out, MOST_OUTS);
}

static bool wants_gradient(const bound_call *c, int input)
{
    const json_t *grads = json_object_get(c->of.json, "grads"), *entry;
    size_t i;
    json_array_foreach(grads, i, entry)
        if (json_integer_value(json_object_get(entry, "input")) == input)
            return c->gradients;
    return false;
}

/* The sum of all outputs times the sample's gradients, as in op_file.c. */
static tn_tensor *weighted_sum(const bound_call *c, tn_tensor **out, int count)
{
    const json_t *which = json_object_get(c->of.json, "diff_outs"), *entry;
    tn_tensor *total = NULL;
    size_t i;
    json_array_foreach(which, i, entry) {
        const json_int_t k = json_integer_value(entry);
        if (k < 0 || k >= count)
            return NULL;
        tn_tensor *part = tn_sum(
            tn_to_dtype(tn_mul(out[k], c->cotangent[i]), TN_F64));
        total = total ? tn_add(total, part) : part;
    }
    return total;
}

/* The function that is compiled. */
static tn_status call(tn_tensor *const *in, int in_count, tn_tensor **out,
                      int out_count, void *context)
{
    bound_call *c = context;
    tn_tensor *now[MOST_TENSORS], *made[MOST_OUTS] = {NULL};
    int filled = 0;
    for (int i = 0; i < in_count; i++)
        now[i] = wants_gradient(c, i) ? tn_requires_grad(tn_detach(in[i]))
                                      : in[i];
    const int count = call_operator(c, now, made);
    if (count < 0)
        return tn_error_code();
    if (c->gradients) {
        tn_tensor *root = weighted_sum(c, made, count);
        if (root && tn_tensor_requires_grad(root))
            tn_backward(root);
    }
    for (int i = 0; i < count && filled < out_count; i++)
        out[filled++] = tn_detach(made[i]);
    for (int i = 0; i < in_count && filled < out_count; i++)
        if (wants_gradient(c, i) && tn_tensor_grad(now[i]))
            out[filled++] = tn_tensor_grad(now[i]);
    c->out_count = filled;
    return tn_error() ? tn_error_code() : TN_OK;
}

/* Makes the sample's tensors anew. From the second replay on, floating-point
 * inputs have other values: a replay that repeats old results would differ. */
static bool inputs(void *context, int number, tn_tensor **in)
{
    const bound_call *c = context;
    sample s = {.file = c->of.file, .json = c->of.json};
    sample_make_tensors(&s);
    TN_NO_GRAD {
        for (int i = 0; i < s.count; i++) {
            in[i] = s.tensor[i];
            if (number > COMPILED_CAPTURES &&
                tn_dtype_is_floating(tn_tensor_dtype(in[i])))
                tn_mul_scalar_(in[i], 0.75);
        }
    }
    return !tn_error();
}

/* ---- a sample ------------------------------------------------------------ */

/* Binds the sample. Returns false if no operator accepts it. */
static bool bind_sample(bound_call *c, const char *name)
{
    const json_t *cotangents = json_object_get(c->of.json, "cotangents"),
                 *entry;
    size_t i;
    sample_make_tensors(&c->of);
    json_array_foreach(cotangents, i, entry)
        if (i < MOST_OUTS)
            c->cotangent[i] =
                tn_safetensors_tensor(c->of.file, json_string_value(entry));
    if (tn_error())
        return false;
    if (sample_is_product(name, c->of.json))
        return true;
    c->op = tn_op_find(name);
    while (c->op && !sample_bind(&c->of, c->op, name, &c->arguments))
        c->op = tn_op_next(c->op, name);
    return c->op != NULL;
}

/* Calls the function once, to know the number of its results. */
static bool count_results(bound_call *c)
{
    tn_tensor *in[MOST_TENSORS], *out[TN_COMPILE_MAX_OUTPUTS];
    const tn_rng_state random = tn_rng_snapshot();
    tn_scope *scope = tn_scope_open();
    const bool made = inputs(c, 0, in), mode = tn_grad_mode_set(c->gradients);
    const bool done =
        made && call(in, c->of.count, out, TN_COMPILE_MAX_OUTPUTS, c) >= 0;
    tn_grad_mode_set(mode);
    tn_scope_close(scope);
    tn_rng_restore(random);
    return done;
}

static outcome compare_sample(bound_call *c, const char *name, bool gradients,
                              char *text, size_t room)
{
    c->gradients = gradients;
    if (!count_results(c)) {
        snprintf(text, room, "%s", tn_error() ? tn_error() : "");
        return COMPILED_UNFIT;
    }
    const subject s = {.name = name,
                       .fn = call,
                       .plain = c,
                       .compiled = c,
                       .in_count = c->of.count,
                       .out_count = c->out_count,
                       .calls = COMPILED_CAPTURES + 2,
                       .no_grad = !gradients,
                       .inputs = inputs};
    if (!s.in_count && !s.out_count)
        return COMPILED_UNFIT;
    return compiled_compare(&s, text, room);
}

verdict op_file_compiled(tn_safetensors *file, size_t every)
{
    verdict v = {0};
    const char *name = tn_safetensors_metadata(file, "op");
    const char *list = tn_safetensors_metadata(file, "samples");
    json_t *samples = list ? json_loads(list, 0, NULL) : NULL;
    for (size_t i = 0; i < json_array_size(samples); i += every) {
        char why[480] = "";
        tn_scope *scope = tn_scope_open();
        bound_call *c = calloc(1, sizeof *c);
        if (c) {
            c->of = (sample){.file = file, .json = json_array_get(samples, i)};
            const bool fits = bind_sample(c, name);
            const bool backward =
                json_array_size(json_object_get(c->of.json, "diff_outs")) > 0;
            v.unsupported += !fits;
            tn_error_clear();
            for (int g = 0; fits && g < 1 + backward; g++) {
                const outcome found =
                    compare_sample(c, name, g > 0, why, sizeof why);
                tn_error_clear();
                compiled_count(&v, name, i, found, why);
            }
        }
        free(c);
        tn_scope_close(scope);
    }
    if (!json_is_array(samples))
        verdict_fail(&v, "no samples in the metadata");
    json_decref(samples);
    return v;
}
