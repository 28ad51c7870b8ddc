/* gguf_model.h: opens a GGUF file as a model and compares its logits with those
 * of transformers: see test_gguf_models.c and gguf.c. */
#ifndef TN_TESTS_LM_GGUF_MODEL_H
#define TN_TESTS_LM_GGUF_MODEL_H

#include <lm/golden.h>

/* Returns the logits of all tokens, computed token by token with a cache, as
 * tn_lm_generate does. */
static tn_tensor *decoded_logits(tn_lm *lm, tn_tensor *ids)
{
    int64_t id[4096];
    const int64_t count = tn_tensor_numel(ids);
    if (count > 4096)
        bail_out("more than 4096 ids");
    tn_tensor_to_array(ids, id, sizeof *id * (size_t)count);
    tn_lm_cache *cache = tn_lm_cache_new(lm, 1);
    tn_lm_cache_begin(cache, 0, count, count);
    return tn_lm_decode(cache, &(tn_lm_tokens){0, id, count, true}, 1);
}

/* Returns the smallest cosine between a row of a and the same row of b. */
static double smallest_cosine(tn_tensor *a, tn_tensor *b)
{
    if (!a || !b || tn_tensor_ndim(a) != 2 || tn_tensor_ndim(b) != 2)
        return -1;
    int64_t n, m;
    const int64_t rows = tn_tensor_size(a, 0), size = tn_tensor_size(a, 1);
    double *x = doubles_of(a, &n), *y = doubles_of(b, &m), least = 1;
    for (int64_t i = 0; n == m && i < rows; i++) {
        double xy = 0, xx = 0, yy = 0;
        for (int64_t j = i * size; j < (i + 1) * size; j++) {
            xy += x[j] * y[j];
            xx += x[j] * x[j];
            yy += y[j] * y[j];
        }
        const double cosine = xy / sqrt(xx * yy);
        least = cosine < least || isnan(cosine) ? cosine : least;
    }
    free(x);
    free(y);
    return n == m && !isnan(least) ? least : -1;
}

/* If path is NAME-TYPE.gguf, opens NAME.safetensors in the same folder and
 * writes logits_TYPE to `logits`. Returns NULL if there is none. */
static tn_safetensors *golden_beside(const char *path, char logits[64])
{
    char golden[4096];
    const char *name = strrchr(path, '/'), *dash = strrchr(path, '-');
    const size_t length = strlen(path);
    if (!dash || (name && dash < name) || length < 6 ||
        strcmp(path + length - 5, ".gguf") != 0)
        return NULL;
    snprintf(golden, sizeof golden, "%.*s.safetensors", (int)(dash - path),
             path);
    snprintf(logits, 64, "logits_%.*s", (int)(path + length - 5 - dash - 1),
             dash + 1);
    FILE *file = fopen(golden, "rb");
    if (!file)
        return NULL;
    fclose(file);
    tn_safetensors *opened = tn_safetensors_open(golden);
    return opened && tn_safetensors_has(opened, logits) &&
                   tn_safetensors_has(opened, "ids")
               ? opened
               : NULL;
}

static void check_logits(tn_lm *exact, tn_lm *as_is, tn_safetensors *golden,
                         const char *logits, const char *base)
{
    tn_tensor *want = golden_of(golden, logits), *ids = golden_of(golden, "ids");
    double whole = INFINITY, cached = INFINITY, cosine = -1;
    TN_NO_GRAD
    {
        tn_tensor *x = tn_forward(tn_lm_module(exact), ids);
        whole = difference(x, want);
        cached = difference(decoded_logits(exact, ids), want);
        cosine = as_is ? smallest_cosine(decoded_logits(as_is, ids), want) : -1;
    }
    if (tn_error())
        note("%s", tn_error());
    ok(whole <= 1e-4, "%s: %s in float32 (%.1e)", base, logits, whole);
    ok(cached <= 1e-4, "%s: %s by a cache (%.1e)", base, logits, cached);
    if (as_is)
        ok(cosine >= 0.999, "%s: %s with blocks as they are: cosine %.6f", base,
           logits, cosine);
    tn_error_clear();
}

/* Opens the file as a model twice: with dequantised weights, and with weights
 * in blocks. Encoders, and files for which there are no logits, are only
 * opened. */
static inline void check_gguf_model(const char *path)
{
    char logits[64];
    tn_scope *scope = tn_scope_open();
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    tn_lm *exact = tn_lm_open(path, .dtype = TN_F32);
    ok(exact != NULL, "%s opens as a model%s%s", base, tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    tn_error_clear();
    const char *device = tn_device_name(tn_device_current());
    const bool multiplies =
        strncmp(device, "cpu", 3) == 0 ||
        strncmp(device, "reference", 9) == 0 ||
        tn_device_has_extension(tn_device_current(), "quantised-product");
    tn_lm *as_is = tn_lm_open(path);
    /* only devices without the extension quantised-product reject blocks */
    const bool refused = !as_is && !multiplies &&
                         tn_error_code() == TN_ERR_UNSUPPORTED &&
                         strstr(tn_error(), "give .dtype");
    ok(as_is || refused, "%s: without .dtype on %s: %s", base, device,
       as_is ? "opens" : tn_error() ? tn_error() : "no error");
    tn_error_clear();
    tn_safetensors *golden = golden_beside(path, logits);
    if (golden && exact)
        check_logits(exact, as_is, golden, logits, base);
    else
        note("%s: no logits to compare with", base);
    tn_error_clear();
    tn_scope_close(scope);
}

#endif
