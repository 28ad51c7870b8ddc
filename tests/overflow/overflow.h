/* overflow.h: runs calls with numbers at which sizes overflow, with limits on
 * time and memory.
 *
 * A call has one second of processor time (ten under a sanitizer) and thirty
 * seconds of wall time. The device has 256 MiB of memory, and the host as much.
 * The system (or the sanitizer) rejects more, and a call that requests more has
 * failed the test even if it does not use the memory. A call must not crash,
 * and a rejected call must set an error message. Calls run in a separate
 * process. If it ends early, the call is reported, and another process
 * continues with the next call. */
#ifndef TN_TESTS_OVERFLOW_H
#define TN_TESTS_OVERFLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <tenon/tenon.h>

/* State of the pseudo-random numbers, from the seed TENON_OVERFLOW_SEED or
 * 1. */
typedef struct draws {
    uint64_t state;
} draws;
uint32_t draw(draws *d, uint32_t below);

int64_t draw_int(draws *d); /* returns an extreme number */
double draw_float(draws *d);
tn_dims_list draw_dims(draws *d); /* sizes, at least one of which is extreme */

/* Returns how often each call is varied: `usual` times TENON_OVERFLOW, or
 * `usual` if that is not set. */
int overflow_rounds(int usual);
uint64_t overflow_seed(void);

/* Stores a description of the current call, for the report if it does not end
 * or ends the process. */
void overflow_tell(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* Declares that the call explicitly requests this much memory, so a large
 * request is not a failure. */
void overflow_asks(void);
/* Call these before and after a call. rejected: whether the call returned an
 * error; what: another failure, or NULL. */
void overflow_before(void);
void overflow_after(bool refused, const char *what);

/* Calls one(i) for each i below count, or only for the given name, in a child
 * process after start(). Returns how many calls failed the test, or -1. */
long overflow_run(int count, bool (*start)(void), void (*one)(int i),
                  const char *(*name)(int i), const char *only);
/* Counts over all child processes so far. */
extern struct overflow_counts {
    long calls, refused, wrong;
} * overflow_counts;

#endif
