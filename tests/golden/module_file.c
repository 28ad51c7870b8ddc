/* module_file.c: one layer: made from PyTorch's arguments, its state loaded by
 * name; then outputs, gradients and the buffers afterwards are compared. */
#include "layer.h"

#include <string.h>

/* ---- state --------------------------------------------------------------------- */

/* The parameter or buffer of that path; NULL, without an error. */
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

/* The rest of name after prefix, or NULL. */
static const char *after(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 ? name + length : NULL;
}

/* Every tensor of the file has its place, every parameter its tensor. */
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

/* ---- comparing ------------------------------------------------------------------ */

/* prefix + number as a key. */
typedef struct key {
    char text[64];
} key;

static key numbered(const char *prefix, int i)
{
    key k;
    snprintf(k.text, sizeof k.text, "%s%d", prefix, i);
    return k;
}

static bool compare(tn_safetensors *file, const char *name, tn_tensor *got,
                    char *text, size_t room)
{
    tn_tensor *want = tn_safetensors_tensor(file, name);
    char why[256] = "";
    if (want &&
        golden_equal(got, want,
                     tolerance_for("module", tn_tensor_dtype(want)), why,
                     sizeof why))
        return true;
    snprintf(text, room, "%s: %s", name, want ? why : tn_error());
    return false;
}

static int count_of(tn_safetensors *file, const char *prefix)
{
    int count = 0;
    while (count < LAYER_MOST &&
           tn_safetensors_has(file, numbered(prefix, count).text))
        count++;
    return count;
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

static bool compare_gradients(tn_safetensors *file, tn_module *module,
                              tn_tensor *const *in, char *text, size_t room)
{
    for (int i = 0; i < tn_safetensors_count(file); i++) {
        const char *name = tn_safetensors_name(file, i);
        const char *number = after(name, "grad.in.");
        const char *path = after(name, "grad.state.");
        if (!number && !path)
            continue;
        tn_tensor *x = number ? in[atoi(number) % LAYER_MOST]
                              : tn_module_parameter(module, path);
        if (!compare(file, name, tn_tensor_grad(x), text, room))
            return false;
    }
    return true;
}

static bool compare_buffers(tn_safetensors *file, tn_module *module,
                            char *text, size_t room)
{
    for (int i = 0; i < tn_safetensors_count(file); i++) {
        const char *name = tn_safetensors_name(file, i);
        const char *path = after(name, "after.");
        if (path &&
            !compare(file, name, state_of(module, path), text, room))
            return false;
    }
    return true;
}

/* ---- the file --------------------------------------------------------------------- */

static bool run_layer(tn_safetensors *file, const layer *kind,
                      tn_module *module, char *text, size_t room)
{
    if (!load_state(file, module, text, room))
        return false;
    const char *mode = tn_safetensors_metadata(file, "mode");
    tn_module_train(module, !mode || strcmp(mode, "eval") != 0);

    tn_tensor *in[LAYER_MOST] = {NULL}, *out[LAYER_MOST] = {NULL};
    int count = count_of(file, "in."), wanted = count_of(file, "out.");
    for (int i = 0; i < count; i++) {
        in[i] = golden_tensor(file, numbered("in.", i).text, NULL);
        if (tn_safetensors_has(file, numbered("grad.in.", i).text))
            tn_requires_grad(in[i]);
    }
    int made = kind->run ? kind->run(module, in, out) : 1;
    if (!kind->run)
        out[0] = tn_forward(module, in[0]);
    if (tn_error() || made < wanted) {
        snprintf(text, room, "forward: %s",
                 tn_error() ? tn_error() : "too few outputs");
        return false;
    }
    for (int i = 0; i < wanted; i++)
        if (!compare(file, numbered("out.", i).text, out[i], text, room))
            return false;
    return walk_back(file, out, wanted, text, room) &&
           compare_gradients(file, module, in, text, room) &&
           compare_buffers(file, module, text, room);
}

verdict module_file_run(tn_safetensors *file)
{
    verdict v = {0};
    const char *name = tn_safetensors_metadata(file, "module");
    const char *text = tn_safetensors_metadata(file, "args");
    json_t *args = text ? json_loads(text, 0, NULL) : NULL;
    const layer *kind = layer_find(name);
    tn_module *module = kind && args ? kind->make(args) : NULL;
    char why[400] = "";
    if (!json_is_object(args)) {
        verdict_fail(&v, "no args in the metadata");
    } else if (tn_error()) {
        verdict_fail(&v, "%s", tn_error());
    } else if (!kind) {
        v.unsupported = 1;
        snprintf(v.detail, sizeof v.detail, "no such layer: %s", name);
    } else if (!module) {
        verdict_fail(&v, "%s is not made with these arguments: %s", name,
                     text);
    } else if (run_layer(file, kind, module, why, sizeof why)) {
        v.passed = 1;
    } else {
        verdict_fail(&v, "%s", why);
    }
    json_decref(args);
    return v;
}
