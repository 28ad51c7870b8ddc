/* golden.h: the unpacked folder of images.tar.xz, and comparisons. */
#ifndef TN_TESTS_MEDIA_IMAGE_GOLDEN_H
#define TN_TESTS_MEDIA_IMAGE_GOLDEN_H

#include <tenon/image.h>
#include <tenon/io.h>
#include <tenon/ops.h>

#include "tap.h"

/* Returns the path of a golden file, valid until the next call but three. */
static inline const char *golden_path(const char *name)
{
    static char path[4][512];
    static int next;
    const char *build = getenv("top_builddir");
    char *out = path[next++ % 4];
    snprintf(out, sizeof path[0], "%s/tests/media/image/golden/%s",
             build ? build : ".", name);
    return out;
}

/* Checks that x has the dtype, the shape and, within tolerance, the values of a
 * golden tensor. */
static inline void is_golden(const tn_tensor *x, tn_safetensors *golden,
                             const char *name, double tolerance)
{
    tn_tensor *want = tn_safetensors_tensor(golden, name);
    if (!x || !want) {
        ok(false, "%s: %s", name, tn_error() ? tn_error() : "no tensor");
        tn_error_clear();
        return;
    }
    const int ndim = tn_tensor_ndim(x);
    bool same = ndim == tn_tensor_ndim(want) &&
                tn_tensor_dtype(x) == tn_tensor_dtype(want);
    for (int i = 0; same && i < ndim; i++)
        same = tn_tensor_size(x, i) == tn_tensor_size(want, i);
    if (!same) {
        char *got = tn_tensor_text(x);
        ok(false, "%s: dtype and shape are %s", name,
           tn_dtype_name(tn_tensor_dtype(x)));
        free(got);
        return;
    }
    const size_t bytes =
        (size_t)tn_tensor_numel(x) * tn_dtype_bytes(tn_tensor_dtype(x));
    unsigned char *a = malloc(bytes), *b = malloc(bytes);
    tn_tensor_to_array(x, a, bytes);
    tn_tensor_to_array(want, b, bytes);
    double most = 0;
    int64_t at = 0, over = 0;
    for (int64_t i = 0; i < tn_tensor_numel(x); i++) {
        double p, q;
        if (tn_tensor_dtype(x) == TN_U8) {
            p = a[i];
            q = b[i];
        } else if (tn_tensor_dtype(x) == TN_I32) {
            p = ((int32_t *)a)[i];
            q = ((int32_t *)b)[i];
        } else {
            p = (double)((float *)a)[i];
            q = (double)((float *)b)[i];
        }
        if (!(fabs(p - q) <= most)) {
            most = fabs(p - q);
            at = i;
        }
        over += !(fabs(p - q) <= tolerance);
    }
    ok(most <= tolerance, "%s", name);
    if (!(most <= tolerance))
        printf("# differs by %g at element %lld; %lld of %lld differ by more "
               "than %g\n",
               most, (long long)at, (long long)over,
               (long long)tn_tensor_numel(x), tolerance);
    free(a);
    free(b);
}

/* Returns whether two tensors have the same shape, dtype and bits. */
static inline bool same_tensor(const tn_tensor *x, const tn_tensor *y)
{
    if (!x || !y || tn_tensor_ndim(x) != tn_tensor_ndim(y) ||
        tn_tensor_dtype(x) != tn_tensor_dtype(y))
        return false;
    for (int i = 0; i < tn_tensor_ndim(x); i++)
        if (tn_tensor_size(x, i) != tn_tensor_size(y, i))
            return false;
    const size_t bytes =
        (size_t)tn_tensor_numel(x) * tn_dtype_bytes(tn_tensor_dtype(x));
    char *a = malloc(bytes + 1), *b = malloc(bytes + 1);
    tn_tensor_to_array(x, a, bytes);
    tn_tensor_to_array(y, b, bytes);
    const bool same = memcmp(a, b, bytes) == 0;
    free(a);
    free(b);
    return same;
}

/* Checks that a call failed with this code and a message with this text, and
 * clears the error. */
static inline void is_refused(bool failed, tn_status code, const char *text,
                              const char *what)
{
    const char *message = tn_error();
    const bool right = failed && tn_error_code() == code && message &&
                       strstr(message, text);
    ok(right, "%s is refused", what);
    if (!right)
        printf("# got %s: %s\n# want %s: %s\n", tn_status_name(tn_error_code()),
               message ? message : "no error", tn_status_name(code), text);
    tn_error_clear();
}

/* Returns whether PNG and JPEG files can be read and written. If not, checks
 * that the error names the missing package, and reports that the rest is
 * skipped. */
static inline bool has_libraries(void)
{
    static const char *const names[][2] = {{"png", "Debian: libpng-dev"},
                                           {"jpeg", "Debian: libjpeg-dev"}};
    static const char png[] = "\x89PNG\r\n\x1a\n", jpeg[] = "\xff\xd8\xff";
    bool all = true;
    for (int i = 0; i < 2; i++)
        TN_SCOPE(scope) {
            tn_tensor *x = tn_zeros(tn_dims(1, 1, 1), .dtype = TN_U8);
            void *data = NULL;
            size_t bytes;
            if (tn_image_encode(x, names[i][0], &data, &bytes) < 0) {
                is_refused(!data, TN_ERR_UNSUPPORTED, names[i][1],
                           "writing without the library");
                is_refused(!tn_image_decode(i ? jpeg : png, i ? 3 : 8),
                           TN_ERR_UNSUPPORTED, names[i][1],
                           "reading without the library");
                all = false;
            }
            free(data);
        }
    if (!all)
        skip(1, "libpng or libjpeg was missing when Tenon was built");
    return all;
}

#endif
