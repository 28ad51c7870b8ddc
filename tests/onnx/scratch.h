/* scratch.h: a folder for the files of a test, and checks that tests of ONNX
 * share. */
#ifndef TN_TESTS_ONNX_SCRATCH_H
#define TN_TESTS_ONNX_SCRATCH_H

#include <tap.h>

#include <onnx/writer.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>

static char scratch[] = "/tmp/tenon-onnx-XXXXXX";
static char path[4096];

/* Returns the path of a file in the folder. It is valid until the next call. */
static inline const char *file(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    return path;
}

/* Returns whether the pending error contains this text. Clears the error. */
static inline bool says(const char *text)
{
    const bool found = tn_error() && strstr(tn_error(), text);
    if (!found)
        note("the error is: %s", tn_error() ? tn_error() : "none");
    tn_error_clear();
    return found;
}

/* Returns whether y has the elements want[]. */
static inline bool holds(tn_tensor *y, const double *want, int count)
{
    double got[16] = {0};
    bool same = y && tn_tensor_numel(y) == count &&
                tn_tensor_to_array(tn_to_dtype(y, TN_F64), got,
                                   (size_t)count * sizeof *got) == TN_OK;
    for (int i = 0; i < count && same; i++)
        same = got[i] > want[i] - 1e-5 && got[i] < want[i] + 1e-5;
    if (!same)
        note("%s", tn_error() ? tn_error() : "other elements");
    tn_error_clear();
    return same;
}
#define HOLDS(y, ...)                                                          \
    holds(y, (double[]){__VA_ARGS__},                                          \
          (int)(sizeof(double[]){__VA_ARGS__} / sizeof(double)))

#endif
