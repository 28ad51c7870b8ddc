/* golden.h: reads and compares samples of PyTorch's results, which tests/golden
 * has as files; shared by the programs of this folder.
 *
 * A sample is one call with its inputs, arguments, outputs and gradients. The
 * runner (run.c) reads folders of safetensors files made by PyTorch. A file has
 * an operator's samples (op_file.c), a layer, an optimizer (optim_file.c), a
 * learning rate schedule (schedule_file.c), a distribution
 * (distribution_file.c) or a training run (training_file.c). Checking a file
 * gives a verdict. The result does not depend on names of samples or on random
 * seeds. */
#ifndef TN_TESTS_GOLDEN_GOLDEN_H
#define TN_TESTS_GOLDEN_GOLDEN_H

#include <jansson.h>
#include <tenon/tenon.h>

/* The result of one file: counts of samples. by_float64: number of passed
 * samples that were compared with float64 results. detail: describes the first
 * failure. */
typedef struct verdict {
    int passed, failed, unsupported, by_float64;
    char detail[512];
} verdict;

/* Counts a failure, with its reason formatted as by printf. Only the first
 * reason is kept. */
void verdict_fail(verdict *v, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Check an open file of the kind in the function's name. */
verdict op_file_run(tn_safetensors *file);
verdict module_file_run(tn_safetensors *file);
verdict optim_file_run(tn_safetensors *file);
verdict schedule_file_run(tn_safetensors *file);
verdict distribution_file_run(tn_safetensors *file);
verdict training_file_run(tn_safetensors *file, const char *name);

/* Computes the outputs of an operator's sample and the gradients of its inputs.
 * layout, which may be NULL, changes the strides of each input. Returns the
 * number of results; below 0 with the reason in text. */
int op_sample_results(tn_safetensors *file, const json_t *json,
                      const char *name, tn_tensor *(*layout)(tn_tensor *x),
                      tn_tensor **result, int most, char *text, size_t room);

/* Returns the operator of the table that accepts the sample's arguments, and
 * stores them in *value, where they are valid until the next call. NULL if
 * there is none. */
const tn_op *op_sample_row(tn_safetensors *file, const json_t *json,
                           const char *name, const tn_value **value);

/* Calls visit for every `every`th sample of each file in folder/ops (NULL:
 * tests/golden) whose operator Tenon has. Returns false after printing "Bail
 * out!" if the folder or a file cannot be read. */
typedef void golden_visit(tn_safetensors *file, const json_t *json,
                          const char *op, size_t number, void *context);
bool golden_each_sample(const char *folder, size_t every, golden_visit *visit,
                        void *context);

/* ---- values ----------------------------------------------------------- */

/* Returns a tensor of the file with the strides that it had in PyTorch;
 * contiguous if stride is NULL. */
tn_tensor *golden_tensor(tn_safetensors *file, const char *key,
                         const json_t *stride);

/* Some results are not unique (free.def), such as signs of singular vectors.
 * Converts those in out[] into the equivalent results of the sample. */
void golden_align(tn_safetensors *file, const char *op, const json_t *json,
                  tn_tensor **out, int count);

/* ---- comparison --------------------------------------------------------- */

typedef struct tolerance {
    double relative, absolute;
} tolerance;

/* Returns the tolerance for results of an operator in a dtype.
 * tests/golden/README.md has the rule, looser.def the exceptions with their
 * reasons. */
tolerance tolerance_for(const char *op, tn_dtype dtype);

/* Returns whether got and want, which is PyTorch's result, are both near wide,
 * the float64 result for the same inputs; golden_beside in compare.c has the
 * rule. nudged has float64 results for inputs that were changed by a rounding
 * error; NULLs in it are skipped. largest is the largest magnitude of the
 * inputs. Otherwise writes the reason into text. */
bool golden_beside(const char *op, tn_tensor *got, tn_tensor *want,
                   tn_tensor *wide, tn_tensor *const *nudged, int nudges,
                   double greatest, char *text, size_t room);
/* Returns whether x has a floating-point dtype with fewer digits than
 * float64. */
bool golden_is_narrow(const tn_tensor *x);
/* Returns x, converted to float64 if it is narrow. */
tn_tensor *golden_widened(tn_tensor *x);
/* Returns x in float64, with each element changed at random by at most its
 * rounding error. GOLDEN_NUDGES calls show how much rounding of the inputs
 * changes a result. */
tn_tensor *golden_nudged(tn_tensor *x);
enum { GOLDEN_NUDGES = 3 };
/* Returns the largest magnitude of x's finite elements. */
double golden_greatest(tn_tensor *x);
/* Returns whether got, of a narrower dtype, is within two steps of the rounded
 * float64 result. */
bool golden_rounds(tn_tensor *got, tn_tensor *wide, char *text, size_t room);

/* Returns whether got equals want: shape, dtype, and each value within the
 * tolerance (NaN equals NaN). Otherwise writes the reason into text. */
bool golden_equal(tn_tensor *got, tn_tensor *want, tolerance within,
                  char *text, size_t room);

/* ---- results that samples do not determine (undefined.def) --------------- */

/* Returns why a sample, a gradient of an input, or an output of indices is not
 * fully determined. Returns NULL if it is. */
const char *undefined_sample(const char *op, const json_t *json);
const char *undefined_gradient(const char *op, int input);
const char *undefined_index(const char *op, const json_t *json, int output);

/* over_equals returns g summed over the positions at which input has equal
 * elements along dim: a gradient determines this sum even if an index may
 * select any of the equal elements. names_an_equal returns whether input has
 * equal values at the indices index and want along dim. */
tn_tensor *over_equals(tn_tensor *input, int64_t dim, tn_tensor *g);
bool names_an_equal(tn_tensor *input, int64_t dim, tn_tensor *index,
                    tn_tensor *want, char *text, size_t room);

#endif
