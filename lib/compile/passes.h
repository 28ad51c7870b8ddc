/* passes.h: changes of a capture before its launches are fused. The order of the
 * steps stays a valid order; steps that are not needed any more are marked. */
#ifndef TN_LIB_COMPILE_PASSES_H
#define TN_LIB_COMPILE_PASSES_H

#include <compile/capture.h>

/* repeats.c: removes a step that computes what an earlier step has computed of
 * the same numbers, and lets the later steps read the earlier result (common
 * subexpressions). Returns how many it removes. */
int64_t tn__pass_repeats(tn__capture *capture);

/* copies.c: removes copies whose source can be computed at the place of the copy,
 * or whose copy can be read at the place of the source. Returns how many it
 * removes. */
int64_t tn__pass_copies(tn__capture *capture);

/* fills.c: replaces a fill by fills of the parts that are read before they are
 * written, if steps that use such parts use all that was filled. Returns how many
 * fills it replaces. If memory runs out, the error is recorded. */
int64_t tn__pass_fills(tn__capture *capture);

/* recompute.c: lets temporary values be computed again instead of being kept, until
 * the largest total size of temporary values is at most `target` bytes, or nothing
 * is left to do. Sets *count to the number of launches that are added. Records an
 * error and returns false if memory runs out. */
bool tn__pass_recompute(tn__capture *capture, uint64_t target, int64_t *count);

/* Removes a step, which then has no uses. */
static inline void tn__step_remove(tn__step *step)
{
    step->removed = true;
    step->use_count = 0;
}

/* Inserts a step before step `at`, with a command that it takes over, also on
 * failure. value[i] is the value of the command's i-th access (access.h). Records an
 * error and returns false if memory runs out. */
bool tn__step_insert(tn__capture *capture, size_t at, tn__command *command,
                     const tn__command *after, const uint32_t *value);

/* ---- moving a value into the memory of another one ------------------------ */

/* The first and the last step that uses a value. */
typedef struct tn__step_range {
    size_t first, last;
} tn__step_range;

/* Returns the largest total size of temporary values that exist at one time, if
 * each exists from the first step that uses it to the last. Returns 0 with the
 * error recorded if memory runs out. */
uint64_t tn__capture_peak(const tn__capture *capture);

/* Returns false if no step uses the value. */
bool tn__value_span(const tn__capture *capture, uint32_t value,
                    tn__step_range *span);
/* Returns whether a step from `first` to `last`, except for step `except`, writes
 * the range low .. high of a value, or, if `reads` is true, uses it. */
bool tn__value_is_used(const tn__capture *capture, uint32_t value, int64_t low,
                       int64_t high, size_t first, size_t last, size_t except,
                       bool reads);
/* Returns whether all uses of value `from` can be moved by `shift` bytes into
 * the memory of value `to`: they are within low .. high, and stay aligned. */
bool tn__value_fits(const tn__capture *capture, uint32_t from, uint32_t to,
                    int64_t low, int64_t high, int64_t shift);
/* Moves all uses of value `from` by `shift` bytes into value `to`, which has this
 * buffer. */
void tn__value_move(tn__capture *capture, uint32_t from, uint32_t to,
                    int64_t shift, tn_buffer *buffer);

#endif
