/* overflow.h: runs calls with numbers at which sizes overflow, with limits.
 *
 * A call has one second of processor time (ten under a sanitizer) and thirty
 * seconds of wall time. The device has 256 MiB, and the host as much. The
 * system (or the sanitizer) refuses more, and a request for more is a failure
 * even if the memory is not used. A call must not crash, and a refused call
 * must leave a message. Calls run in a separate process. If it ends early, the
 * call is reported, and another process continues after it. */
#ifndef TN_TESTS_OVERFLOW_H
#define TN_TESTS_OVERFLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <tenon/tenon.h>

/* Numbers drawn from a seed: TENON_OVERFLOW_SEED, or 1. */
typedef struct draws {
    uint64_t state;
} draws;
uint32_t draw(draws *d, uint32_t below);

int64_t draw_int(draws *d); /* extreme */
double draw_float(draws *d);
tn_dims_list draw_dims(draws *d); /* at least one of them extreme */

/* How often each call is varied: TENON_OVERFLOW times `usual`, or `usual`. */
int overflow_rounds(int usual);
uint64_t overflow_seed(void);

/* The current call, for reports if it does not end, or ends the process. */
void overflow_tell(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* The call explicitly requests that much memory, so the request is no failure.
 */
void overflow_asks(void);
/* Call before and after a call. `refused`: its result says that it failed;
 * `what`: what else is wrong with it (NULL: nothing). */
void overflow_before(void);
void overflow_after(bool refused, const char *what);

/* Runs one(i) for each i below count, or only for the given name, in a child
 * that start() prepared. Returns how many calls were wrong, or -1. */
long overflow_run(int count, bool (*start)(void), void (*one)(int i),
                  const char *(*name)(int i), const char *only);
/* Of all children so far. */
extern struct overflow_counts {
    long calls, refused, wrong;
} * overflow_counts;

#endif
