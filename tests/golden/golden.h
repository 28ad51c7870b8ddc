/* golden.h: reading the reference samples, shared by the runner's parts.
 *
 * The runner (run.c) walks folders of safetensors files made by PyTorch. A
 * file is an operator's samples (op_file.c), a layer, an optimizer
 * (optim_file.c), a schedule (schedule_file.c), a distribution
 * (distribution_file.c) or a training run (training_file.c); each gives a verdict. Nothing depends on the names of
 * samples or seeds. */
#ifndef TN_TESTS_GOLDEN_GOLDEN_H
#define TN_TESTS_GOLDEN_GOLDEN_H

#include <jansson.h>
#include <tenon/tenon.h>

/* The result of one file. by_float64: how many of the passed samples were
 * compared with float64's results; detail describes the first failure. */
typedef struct verdict {
    int passed, failed, unsupported, by_float64;
    char detail[512];
} verdict;

/* Adds a failure with its reason, as printf does. The first reason is kept. */
void verdict_fail(verdict *v, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Each takes an open file of its kind. */
verdict op_file_run(tn_safetensors *file);
verdict module_file_run(tn_safetensors *file);
verdict optim_file_run(tn_safetensors *file);
verdict schedule_file_run(tn_safetensors *file);
verdict distribution_file_run(tn_safetensors *file);
verdict training_file_run(tn_safetensors *file, const char *name);

/* Computes the outputs of an operator's sample and the gradients of its inputs.
 * layout (may be NULL) changes the strides of each input. Returns how many;
 * below 0 with the reason in text. */
int op_sample_results(tn_safetensors *file, const json_t *json,
                      const char *name, tn_tensor *(*layout)(tn_tensor *x),
                      tn_tensor **result, int most, char *text, size_t room);

/* The row that accepts the sample's arguments, which are then in *value, valid
 * until the next call. NULL if there is none. */
const tn_op *op_sample_row(tn_safetensors *file, const json_t *json,
                           const char *name, const tn_value **value);

/* Calls visit for every `every`th sample of each file in folder/ops (NULL: the
 * project's) that has a row. False, after a line "Bail out!", if the folder or
 * a file cannot be read. */
typedef void golden_visit(tn_safetensors *file, const json_t *json,
                          const char *op, size_t number, void *context);
bool golden_each_sample(const char *folder, size_t every, golden_visit *visit,
                        void *context);

/* ---- values ----------------------------------------------------------- */

/* A tensor of the file, with the strides its sample had (NULL: contiguous). */
tn_tensor *golden_tensor(tn_safetensors *file, const char *key,
                         const json_t *stride);

/* Changes outputs that PyTorch leaves open (free.def) into those of the sample.
 */
void golden_align(tn_safetensors *file, const char *op, const json_t *json,
                  tn_tensor **out, int count);

/* ---- comparison --------------------------------------------------------- */

typedef struct tolerance {
    double relative, absolute;
} tolerance;

/* The tolerance for results of an operator in a dtype: tests/golden's README
 * has the rule, looser.def the exceptions with their reasons. */
tolerance tolerance_for(const char *op, tn_dtype dtype);

/* Are got and want, PyTorch's result, both near wide, the float64 result of the
 * same inputs, whose greatest element is `greatest`? compare.c has the rule.
 * nudged (NULLs are skipped) are float64 results of inputs that were moved by a
 * rounding. If not, writes why into text. */
bool golden_beside(const char *op, tn_tensor *got, tn_tensor *want,
                   tn_tensor *wide, tn_tensor *const *nudged, int nudges,
                   double greatest, char *text, size_t room);
/* Of a floating dtype with fewer digits than float64? */
bool golden_is_narrow(const tn_tensor *x);
/* x, converted to float64 if it is narrow. */
tn_tensor *golden_widened(tn_tensor *x);
/* The same, with each element moved up or down by the most that rounding could
 * have moved it, at random in each call. GOLDEN_NUDGES calls show how much that
 * matters. */
tn_tensor *golden_nudged(tn_tensor *x);
enum { GOLDEN_NUDGES = 3 };
/* The greatest magnitude of x's finite elements. */
double golden_greatest(tn_tensor *x);
/* Is got, of a narrower type, within two steps of the rounded float64 result?
 */
bool golden_rounds(tn_tensor *got, tn_tensor *wide, char *text, size_t room);

/* Is got as wanted: shape, dtype, and each value within the tolerance (NaN
 * equals NaN)? If not, writes why into text. */
bool golden_equal(tn_tensor *got, tn_tensor *want, tolerance within,
                  char *text, size_t room);

/* ---- what samples leave open: undefined.def ---- */

/* Why a sample, a gradient by an input, or an index among outputs is not fully
 * determined; NULL if it is. */
const char *undefined_sample(const char *op, const json_t *json);
const char *undefined_gradient(const char *op, int input);
const char *undefined_index(const char *op, const json_t *json, int output);

/* Has input equal values at index and at want, along dim? */
/* g summed over the positions of input's equal elements along dim, which a
 * gradient determines even if an index may be any of several. */
tn_tensor *over_equals(tn_tensor *input, int64_t dim, tn_tensor *g);
bool names_an_equal(tn_tensor *input, int64_t dim, tn_tensor *index,
                    tn_tensor *want, char *text, size_t room);

#endif
