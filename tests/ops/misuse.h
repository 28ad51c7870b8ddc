/* misuse.h: passes wrong arguments to an operator, and checks properties that
 * must hold after any call.
 *
 * A call with valid arguments is varied: each argument in turn becomes each
 * value that a caller might pass by mistake (no tensor, a tensor of another
 * rank, size, dtype or device, numbers out of range, lists of wrong lengths,
 * meaningless strings, NULL). These properties must hold:
 *
 * - a rejected call returns a negative status; its message begins with the
 *   operator's name and names an argument or a value; its code is none of those
 *   for internal errors; if the message names an argument of the operator,
 *   tn_error_info names that argument and no other;
 * - a result is a tensor whose elements are within its memory, and no error is
 *   pending;
 * - the device did no more work (work.h) than eight passes over its memory.
 *
 * A crash or a sanitizer's report ends the program. */
#ifndef TN_TESTS_OPS_MISUSE_H
#define TN_TESTS_OPS_MISUSE_H

#include <tenon/tenon.h>

/* Counts over all calls so far. wrong: number of violated properties, each of
 * which is printed in a line. */
extern struct misuse_counts {
    long calls, refused, done, wrong;
} misuse_counts;

/* Limits memory, so that absurdly large requests are rejected, and starts to
 * count work. A call that takes more than a minute is reported and ends the
 * program. Returns false, with the reason printed, if there is no device. */
bool misuse_begin(void);
/* Makes new values of all kinds for the calls until the next misuse_begin. The
 * open scope owns them. Returns false with a pending error if that fails. */
bool misuse_values_make(void);

/* Calls op and checks the outcome. Returns the number of results, or a negative
 * status. */
int misuse_call(const tn_op *op, const tn_value *value, int count);

/* Checks the properties after a call that returned `made`: a number of results,
 * or a negative status. Returns the violated property, or NULL. */
const char *misuse_judge(const tn_op *op, int made, tn_tensor *const *out);
/* Writes the call as a string: its operator and its values. */
void misuse_describe(char *text, size_t room, const tn_op *op,
                     const tn_value *value, int count);

/* Makes every `every`th variation of a call, starting at the variation with
 * index `first`. value has one value for each argument. */
void misuse_vary(const tn_op *op, const tn_value *value, int first, int every);

/* Returns a small, valid value for argument i, chosen by the random number
 * `draw`. */
tn_value misuse_ordinary(const tn_op *op, int i, uint32_t draw);

#endif
