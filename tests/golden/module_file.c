/* module_file.c: checks one layer. Creates it from PyTorch's arguments, loads
 * its state by name, and compares outputs, gradients and the final buffers. If
 * a result is not within the tolerance, the layer runs again in float64, and on
 * inputs that are changed by a rounding error (compare.c). */
#include "compiled.h"
#include "layer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the layer's state --------------------------------------------------- */

/* Returns the parameter or buffer of that path; NULL, without an error, if
 * there is none. */
static tn_tensor *state_of(tn_module *module, const char *path)
{
    tn_tensor *x = tn_module_parameter(module, path);
    if (!x) {
        tn_error_clear();
        x = tn_module_buffer(module, path);
    }
    if (!x)
        tn_error_clear();
    return x;
}

/* Returns the part of name after prefix; NULL if name does not begin with
 * it. */
static const char *after(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 ? name + length : NULL;
}

/* Loads the state. Each tensor of the file must have a parameter or buffer, and
 * each parameter a tensor. */
static bool load_state(tn_safetensors *file, tn_module *module, char *text,
                       size_t room)
{
    bool fine = true;
    TN_NO_GRAD {
        for (int i = 0; i < tn_safetensors_count(file) && fine; i++) {
            const char *name = tn_safetensors_name(file, i);
            const char *path = after(name, "state.");
            if (!path)
                continue;
            tn_tensor *x = state_of(module, path);
            fine = x && tn_copy_(x, tn_safetensors_tensor(file, name));
            if (!fine)
                snprintf(text, room, "state %s: %s", path,
                         x ? tn_error() : "the layer has none of this name");
        }
    }
    tn_parameter_list *list = tn_parameters(module);
    for (int i = 0; i < tn_parameters_count(list) && fine; i++) {
        char name[256];
        snprintf(name, sizeof name, "state.%s", tn_parameters_name(list, i));
        fine = tn_safetensors_has(file, name);
        if (!fine)
            snprintf(text, room, "parameter %s is not PyTorch's",
                     tn_parameters_name(list, i));
    }
    return fine;
}

/* ---- forward and backward pass ------------------------------------------- */

/* A key made of a prefix and a number. */
typedef struct key {
    char text[64];
} key;

static key numbered(const char *prefix, int i)
{
    key k;
    snprintf(k.text, sizeof k.text, "%s%d", prefix, i);
    return k;
}

static int count_of(tn_safetensors *file, const char *prefix)
{
    int count = 0;
    while (count < LAYER_MOST &&
           tn_safetensors_has(file, numbered(prefix, count).text))
        count++;
    return count;
}

typedef struct pass {
    tn_module *module;
    tn_tensor *in[LAYER_MOST], *out[LAYER_MOST];
} pass;

static tn_tensor *same(tn_tensor *x)
{
    return x;
}

/* Replaces each parameter and buffer of a narrow floating-point dtype by
 * turn(it). */
static void turn_state(tn_module *module, tn_tensor *(*turn)(tn_tensor *x))
{
    tn_parameter_list *list = tn_module_state(module);
    for (int i = 0; i < tn_parameters_count(list); i++) {
        tn_tensor *x = tn_parameters_at(list, i);
        if (golden_is_narrow(x))
            tn_tensor_set_data(x, turn(x));
    }
}

/* Backpropagates the sum of all outputs times their gradients; cotangent[i] is
 * that of output i, or NULL. */
static bool walk_back(tn_tensor **cotangent, tn_tensor **out, int count,
                      char *text, size_t room)
{
    tn_tensor *root = NULL;
    for (int i = 0; i < count; i++) {
        if (!cotangent[i])
            continue;
        tn_tensor *part =
            tn_sum(tn_to_dtype(tn_mul(out[i], cotangent[i]), TN_F64));
        root = root ? tn_add(root, part) : part;
    }
    if (root && tn_backward(root) == TN_OK)
        return true;
    snprintf(text, room, "backward: %s",
             tn_error() ? tn_error() : "no cotangent");
    return false;
}

static void read_cotangents(tn_safetensors *file, tn_tensor **cotangent)
{
    for (int i = 0; i < LAYER_MOST; i++) {
        const key name = numbered("cotangent.", i);
        cotangent[i] = tn_safetensors_has(file, name.text)
                           ? tn_safetensors_tensor(file, name.text)
                           : NULL;
    }
}

/* Loads the state and sets the mode that the file names. */
static bool prepare(tn_safetensors *file, tn_module *module, char *text,
                    size_t room)
{
    const char *mode = tn_safetensors_metadata(file, "mode");
    if (!load_state(file, module, text, room))
        return false;
    tn_module_train(module, !mode || strcmp(mode, "eval") != 0);
    return true;
}

static int forward(const layer *kind, tn_module *module, tn_tensor **in,
                   tn_tensor **out)
{
    if (kind->run)
        return kind->run(module, in, out);
    out[0] = tn_forward(module, in[0]);
    return 1;
}

static bool go(tn_safetensors *file, const layer *kind, tn_module *module,
               tn_tensor *(*turn)(tn_tensor *x), pass *p, char *text,
               size_t room)
{
    *p = (pass){.module = module};
    if (!prepare(file, module, text, room))
        return false;
    if (turn != same)
        turn_state(module, turn);
    if (kind->make == parametrized_make)
        parametrized_ready(module);
    int count = count_of(file, "in."), wanted = count_of(file, "out.");
    for (int i = 0; i < count; i++) {
        p->in[i] = turn(golden_tensor(file, numbered("in.", i).text, NULL));
        if (tn_safetensors_has(file, numbered("grad.in.", i).text))
            tn_requires_grad(p->in[i]);
    }
    int made = forward(kind, module, p->in, p->out);
    if (tn_error() || made < wanted) {
        snprintf(text, room, "forward: %s",
                 tn_error() ? tn_error() : "too few outputs");
        return false;
    }
    tn_tensor *cotangent[LAYER_MOST];
    read_cotangents(file, cotangent);
    return walk_back(cotangent, p->out, wanted, text, room);
}

/* Returns the result of a pass for a name of the file; NULL, with *compared
 * false, if it is not compared. */
static tn_tensor *made_for(const pass *p, const char *name, bool *compared)
{
    const char *number = after(name, "out."), *in = after(name, "grad.in.");
    const char *grad = after(name, "grad.state."), *path = after(name, "after.");
    *compared = number || in || grad || path;
    return number ? p->out[atoi(number) % LAYER_MOST]
           : in   ? tn_tensor_grad(p->in[atoi(in) % LAYER_MOST])
           : grad ? tn_tensor_grad(tn_module_parameter(p->module, grad))
           : path ? state_of(p->module, path)
                  : NULL;
}

/* ---- checking a file ----------------------------------------------------- */

/* A file, and the results of passes through its layer. own is the pass in the
 * file's dtype. beside[] has the passes in float64: the first uses the exact
 * inputs, the others slightly changed ones. */
typedef struct job {
    tn_safetensors *file;
    const layer *kind;
    const json_t *args;
    pass own, beside[1 + GOLDEN_NUDGES];
    bool has_beside;
    double greatest; /* largest magnitude of the inputs and the state */
} job;

static bool go_beside(job *j, char *text, size_t room)
{
    for (int k = 0; k < 1 + GOLDEN_NUDGES && !j->has_beside; k++)
        if (!go(j->file, j->kind, j->kind->make(j->args),
                k ? golden_nudged : golden_widened, &j->beside[k], text, room))
            return false;
    for (int i = 0; i < tn_safetensors_count(j->file) && !j->has_beside; i++) {
        tn_tensor *x =
            tn_safetensors_tensor(j->file, tn_safetensors_name(j->file, i));
        if (tn_dtype_is_floating(tn_tensor_dtype(x)))
            j->greatest = fmax(j->greatest, golden_greatest(x));
    }
    return j->has_beside = true;
}

static bool compare(job *j, const char *name, tn_tensor *got, char *text,
                    size_t room)
{
    tn_tensor *want = tn_safetensors_tensor(j->file, name), *other[GOLDEN_NUDGES];
    char why[256] = "";
    bool compared;
    if (want &&
        golden_equal(got, want,
                     tolerance_for("module", tn_tensor_dtype(want)), why,
                     sizeof why))
        return true;
    if (want && got && golden_is_narrow(got) &&
        go_beside(j, why, sizeof why)) {
        for (int k = 0; k < GOLDEN_NUDGES; k++)
            other[k] = made_for(&j->beside[1 + k], name, &compared);
        if (golden_beside("module", got, want,
                          made_for(&j->beside[0], name, &compared), other,
                          GOLDEN_NUDGES, j->greatest, why, sizeof why))
            return true;
    }
    snprintf(text, room, "%s: %s", name, want ? why : tn_error());
    return false;
}

static bool run_layer(job *j, tn_module *module, char *text, size_t room)
{
    if (!go(j->file, j->kind, module, same, &j->own, text, room))
        return false;
    for (int i = 0; i < tn_safetensors_count(j->file); i++) {
        const char *name = tn_safetensors_name(j->file, i);
        bool compared;
        tn_tensor *got = made_for(&j->own, name, &compared);
        if (compared && !compare(j, name, got, text, room))
            return false;
    }
    return true;
}

/* Makes the layer of a file. If that is not possible, the verdict says why. */
static tn_module *make_layer(job *j, const char *name, const char *text,
                             verdict *v)
{
    j->kind = layer_find(name);
    tn_module *module = j->kind && j->args ? j->kind->make(j->args) : NULL;
    if (!json_is_object(j->args)) {
        verdict_fail(v, "no args in the metadata");
    } else if (tn_error()) {
        verdict_fail(v, "%s", tn_error());
    } else if (!j->kind) {
        v->unsupported = 1;
        snprintf(v->detail, sizeof v->detail, "no such layer: %s", name);
    } else if (!module) {
        verdict_fail(v, "%s is not made with these arguments: %s", name, text);
    }
    return v->failed || v->unsupported ? NULL : module;
}

verdict module_file_run(tn_safetensors *file)
{
    verdict v = {0};
    const char *name = tn_safetensors_metadata(file, "module");
    const char *text = tn_safetensors_metadata(file, "args");
    json_t *args = text ? json_loads(text, 0, NULL) : NULL;
    job j = {.file = file, .args = args};
    tn_module *module = make_layer(&j, name, text, &v);
    char why[400] = "";
    if (module && run_layer(&j, module, why, sizeof why)) {
        v.passed = 1;
        v.by_float64 = j.has_beside;
    } else if (module) {
        verdict_fail(&v, "%s", why);
    }
    json_decref(args);
    return v;
}

/* ---- compiled ------------------------------------------------------------ */

/* A layer that is called within a compiled function, forward and backward. */
typedef struct compiled_layer {
    tn_safetensors *file;
    const layer *kind;
    tn_module *module;
    tn_tensor *cotangent[LAYER_MOST];
    bool tracked[LAYER_MOST]; /* input i has a gradient */
    int wanted;
} compiled_layer;

static tn_status call_layer(tn_tensor *const *in, int in_count, tn_tensor **out,
                            int out_count, void *context)
{
    compiled_layer *l = context;
    tn_tensor *x[LAYER_MOST] = {NULL}, *made[LAYER_MOST] = {NULL};
    char why[256];
    tn_module_zero_grad(l->module);
    for (int i = 0; i < in_count; i++)
        x[i] = l->tracked[i] ? tn_requires_grad(tn_detach(in[i])) : in[i];
    if (forward(l->kind, l->module, x, made) < l->wanted ||
        !walk_back(l->cotangent, made, l->wanted, why, sizeof why))
        return tn_error() ? tn_error_code() : TN_ERR_STATE;
    int filled = 0;
    for (int i = 0; i < l->wanted; i++)
        out[filled++] = tn_detach(made[i]);
    for (int i = 0; i < in_count && filled < out_count; i++)
        if (l->tracked[i])
            out[filled++] = tn_tensor_grad(x[i]);
    return tn_error() ? tn_error_code() : TN_OK;
}

/* A layer for inference. */
static tn_status call_frozen_layer(tn_tensor *const *in, int in_count,
                                   tn_tensor **out, int out_count,
                                   void *context)
{
    const compiled_layer *l = context;
    tn_tensor *x[LAYER_MOST] = {NULL}, *made[LAYER_MOST] = {NULL};
    for (int i = 0; i < in_count; i++)
        x[i] = in[i];
    if (forward(l->kind, l->module, x, made) < out_count)
        return tn_error() ? tn_error_code() : TN_ERR_STATE;
    for (int i = 0; i < out_count; i++)
        out[i] = made[i];
    return tn_error() ? tn_error_code() : TN_OK;
}

static bool layer_inputs(void *context, int call, tn_tensor **in)
{
    const compiled_layer *l = context;
    const int count = count_of(l->file, "in.");
    TN_NO_GRAD {
        for (int i = 0; i < count; i++) {
            in[i] = golden_tensor(l->file, numbered("in.", i).text, NULL);
            if (call > COMPILED_CAPTURES &&
                tn_dtype_is_floating(tn_tensor_dtype(in[i])))
                tn_mul_scalar_(in[i], 0.75);
        }
    }
    return !tn_error();
}

/* The parameters, the buffers, and the parameters' gradients. */
static int layer_state(void *context, tn_tensor **state)
{
    const compiled_layer *l = context;
    tn_parameter_list *list = tn_module_state(l->module);
    const int count = tn_parameters_count(list);
    int filled = 0;
    for (int i = 0; i < count && filled + 2 <= COMPILED_MOST_STATE; i++) {
        state[filled++] = tn_parameters_at(list, i);
        state[filled++] = tn_tensor_grad(tn_parameters_at(list, i));
    }
    return filled;
}

static bool prepare_layer(compiled_layer *l, const job *j, tn_module *module,
                          char *text, size_t room)
{
    *l = (compiled_layer){.file = j->file, .kind = j->kind, .module = module,
                          .wanted = count_of(j->file, "out.")};
    read_cotangents(j->file, l->cotangent);
    for (int i = 0; i < LAYER_MOST; i++)
        l->tracked[i] =
            tn_safetensors_has(j->file, numbered("grad.in.", i).text);
    if (!prepare(j->file, module, text, room))
        return false;
    if (j->kind->make == parametrized_make)
        parametrized_ready(module);
    return !tn_error();
}

verdict module_file_compiled(tn_safetensors *file)
{
    verdict v = {0};
    const char *name = tn_safetensors_metadata(file, "module");
    const char *text = tn_safetensors_metadata(file, "args");
    json_t *args = text ? json_loads(text, 0, NULL) : NULL;
    job j = {.file = file, .args = args};
    tn_module *module = make_layer(&j, name, text, &v);
    tn_module *other = module ? make_layer(&j, name, text, &v) : NULL;
    compiled_layer plain, compiled;
    char why[480] = "";
    if (other && prepare_layer(&plain, &j, module, why, sizeof why) &&
        prepare_layer(&compiled, &j, other, why, sizeof why)) {
        subject s = {.name = name,
                     .fn = call_layer,
                     .plain = &plain,
                     .compiled = &compiled,
                     .in_count = count_of(file, "in."),
                     .out_count = plain.wanted,
                     .calls = COMPILED_CAPTURES + 2,
                     .inputs = layer_inputs,
                     .state = layer_state};
        for (int i = 0; i < s.in_count; i++)
            s.out_count += plain.tracked[i];
        const outcome found = compiled_compare(&s, why, sizeof why);
        compiled_count(&v, name, 0, found, why);
        tn_module_eval(module);
        /* The same module both ways: a layer for inference changes nothing. */
        s.compiled = &plain;
        s.fn = call_frozen_layer;
        s.out_count = plain.wanted;
        s.state = NULL;
        s.no_grad = s.freeze = true;
        const outcome frozen = compiled_compare(&s, why, sizeof why);
        compiled_count(&v, name, 1, frozen, why);
    } else if (other) {
        verdict_fail(&v, "%s", why);
    }
    json_decref(args);
    return v;
}
