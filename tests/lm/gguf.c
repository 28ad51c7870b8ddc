/* gguf.c: reads every tensor of GGUF files: tests/lm/gguf FILE...
 *
 * Prints a TAP line for each tensor: whether it has the size that its shape
 * says, and whether all of its numbers are finite. Then it opens the file as a
 * model. If the file is NAME-TYPE.gguf, and the same folder has
 * NAME.safetensors with ids (1, T) and logits_TYPE (T, V), the model's logits
 * are compared with them. With dequantised weights they must agree to 1e-4 of
 * the largest logit, with weights in blocks to a cosine of 0.999 for each
 * token. A file that has only a vocabulary is skipped, with a message. */
#include <lm/gguf_model.h>
#include <stdio.h>
#include <string.h>
#include <tap.h>
#include <tenon/gguf.h>
#include <tenon/ops.h>

static void read_tensor(tn_gguf *file, const char *name)
{
    tn_scope *scope = tn_scope_open();
    int64_t numel = 1;
    char shape[128] = "";
    for (int d = 0; d < tn_gguf_ndim(file, name); d++) {
        const int64_t size = tn_gguf_shape(file, name)[d];
        const size_t at = strlen(shape);
        numel *= size;
        snprintf(shape + at, sizeof shape - at, "%s%lld", d ? " x " : "",
                 (long long)size);
    }
    tn_tensor *x = tn_gguf_tensor(file, name, .dtype = TN_F32);
    const bool finite =
        x && tn_item_int(tn_all(tn_isfinite(x))) == 1;
    ok(x && tn_tensor_numel(x) == numel && finite, "%s: %s, %s, %llu bytes%s%s",
       name, tn_gguf_type(file, name), shape,
       (unsigned long long)tn_gguf_data_bytes(file, name),
       tn_error() ? ": " : x && !finite ? ": not finite" : "",
       tn_error() ? tn_error() : "");
    tn_error_clear();
    tn_scope_close(scope);
}

int main(int argc, char **argv)
{
    plan_later();
    char tiny[4096];
    snprintf(tiny, sizeof tiny, "%s/tests/lm/data/tiny-llama-f32.gguf",
             getenv("top_srcdir") ? getenv("top_srcdir") : ".");
    char *own[] = {argv[0], tiny};
    if (argc < 2)
        argc = 2, argv = own;
    for (int i = 1; i < argc; i++) {
        tn_scope *scope = tn_scope_open();
        tn_gguf *file = tn_gguf_open(argv[i]);
        ok(file != NULL, "%s: %lld keys, %lld tensors%s%s", argv[i],
           (long long)tn_gguf_key_count(file), (long long)tn_gguf_count(file),
           tn_error() ? ": " : "", tn_error() ? tn_error() : "");
        tn_error_clear();
        for (int64_t t = 0; t < tn_gguf_count(file); t++)
            read_tensor(file, tn_gguf_name(file, t));
        if (file && !tn_gguf_count(file))
            skip(1, "a file without tensors is no model");
        else if (file)
            check_gguf_model(argv[i]);
        tn_scope_close(scope);
    }
    return done_testing();
}
