/* misuse.h: what can be given wrongly to an operator, and what must hold after
 * any call whatever.
 *
 * A call that is given valid arguments is varied: each argument in turn becomes
 * each value that a caller might give by mistake (no tensor, one of another
 * rank, size, dtype or device, numbers out of range, lists of wrong lengths,
 * texts that mean nothing, nothing at all). Whatever comes of it, these hold:
 *
 * - a refusal is a negative status with a message that begins with the
 *   operator's name and names an argument or a value; its code is none of those
 *   that stand for faults of the library; where it names an argument of the
 *   operator, tn_error_info carries one that it names, and never another;
 * - a result is a tensor whose elements lie in its memory, and no error is
 *   pending;
 * - the device did no more work (work.h) than going over its memory eight
 *   times.
 *
 * That nothing crashes, and no sanitizer speaks, is seen by the program's going
 * on to its end. */
#ifndef TN_TESTS_OPS_MISUSE_H
#define TN_TESTS_OPS_MISUSE_H

#include <tenon/tenon.h>

/* Over all calls so far. wrong: what did not hold, each told by a line. */
extern struct misuse_counts {
    long calls, refused, done, wrong;
} misuse_counts;

/* Limits memory, so that what is absurdly large is refused, and counts work; a
 * call that is not over in a minute is told and ends the program. Returns
 * false, with the reason told, where there is no device. */
bool misuse_begin(void);
/* For the calls until the next of this: new values of all kinds, owned by the
 * open scope. NULL with the error recorded. */
bool misuse_values_make(void);

/* Calls op and looks at what comes; returns how many results, or a status. */
int misuse_call(const tn_op *op, const tn_value *value, int count);

/* What does not hold of a call that gave `made` results, or a status; NULL:
 * nothing. */
const char *misuse_judge(const tn_op *op, int made, tn_tensor *const *out);
/* The call as text: its operator and its values. */
void misuse_describe(char *text, size_t room, const tn_op *op,
                     const tn_value *value, int count);

/* Varies a call; value has one for each argument. Every `every`th variation
 * from `first` on. */
void misuse_vary(const tn_op *op, const tn_value *value, int first, int every);

/* A value that suits argument i, by a number that is drawn: the small and
 * ordinary one of each kind. */
tn_value misuse_ordinary(const tn_op *op, int i, uint32_t draw);

#endif
