/* module_file.c: checks one layer. Creates it from PyTorch's arguments, loads
 * its state by name, and compares outputs, gradients and the final buffers. If
 * a result is not within the tolerance, the layer runs again in float64, and on
 * inputs that are changed by a rounding error (compare.c). */
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

static bool walk_back(tn_safetensors *file, tn_tensor **out, int count,
                      char *text, size_t room)
{
    tn_tensor *root = NULL;
    for (int i = 0; i < count; i++) {
        key name = numbered("cotangent.", i);
        if (!tn_safetensors_has(file, name.text))
            continue;
        tn_tensor *g = tn_safetensors_tensor(file, name.text);
        tn_tensor *part = tn_sum(tn_to_dtype(tn_mul(out[i], g), TN_F64));
        root = root ? tn_add(root, part) : part;
    }
    if (root && tn_backward(root) == TN_OK)
        return true;
    snprintf(text, room, "backward: %s",
             tn_error() ? tn_error() : "no cotangent");
    return false;
}

static bool go(tn_safetensors *file, const layer *kind, tn_module *module,
               tn_tensor *(*turn)(tn_tensor *x), pass *p, char *text,
               size_t room)
{
    *p = (pass){.module = module};
    if (!load_state(file, module, text, room))
        return false;
    if (turn != same)
        turn_state(module, turn);
    const char *mode = tn_safetensors_metadata(file, "mode");
    tn_module_train(module, !mode || strcmp(mode, "eval") != 0);
    int count = count_of(file, "in."), wanted = count_of(file, "out.");
    for (int i = 0; i < count; i++) {
        p->in[i] = turn(golden_tensor(file, numbered("in.", i).text, NULL));
        if (tn_safetensors_has(file, numbered("grad.in.", i).text))
            tn_requires_grad(p->in[i]);
    }
    int made = kind->run ? kind->run(module, p->in, p->out) : 1;
    if (!kind->run)
        p->out[0] = tn_forward(module, p->in[0]);
    if (tn_error() || made < wanted) {
        snprintf(text, room, "forward: %s",
                 tn_error() ? tn_error() : "too few outputs");
        return false;
    }
    return walk_back(file, p->out, wanted, text, room);
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

verdict module_file_run(tn_safetensors *file)
{
    verdict v = {0};
    const char *name = tn_safetensors_metadata(file, "module");
    const char *text = tn_safetensors_metadata(file, "args");
    json_t *args = text ? json_loads(text, 0, NULL) : NULL;
    job j = {.file = file, .kind = layer_find(name), .args = args};
    tn_module *module = j.kind && args ? j.kind->make(args) : NULL;
    char why[400] = "";
    if (!json_is_object(args)) {
        verdict_fail(&v, "no args in the metadata");
    } else if (tn_error()) {
        verdict_fail(&v, "%s", tn_error());
    } else if (!j.kind) {
        v.unsupported = 1;
        snprintf(v.detail, sizeof v.detail, "no such layer: %s", name);
    } else if (!module) {
        verdict_fail(&v, "%s is not made with these arguments: %s", name,
                     text);
    } else if (run_layer(&j, module, why, sizeof why)) {
        v.passed = 1;
        v.by_float64 = j.has_beside;
    } else {
        verdict_fail(&v, "%s", why);
    }
    json_decref(args);
    return v;
}
