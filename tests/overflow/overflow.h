/* overflow.h: calls with the numbers at which sizes overflow, each watched.
 *
 * A call has one second of the processor (ten under a sanitizer) and thirty of
 * a clock, the device 256 MiB, and the host as much: more is refused by the
 * system (or the sanitizer), and a request for more is a failure even where
 * nobody touches what it gave. It must not crash, and where it is refused it
 * leaves a message. Calls run in a process of their own; where that ends too
 * soon the call is told, and another goes on behind it. */
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

/* What is called, for whoever looks when it does not end, or ends too soon. */
void overflow_tell(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* The call asks for as much memory as it names: that is refused or given. */
void overflow_asks(void);
/* Before and after a call; `refused`: it told so by its result, `what` what
 * else is wrong with it (NULL: nothing). */
void overflow_before(void);
void overflow_after(bool refused, const char *what);

/* Runs one(i) for each i below count, or that of this name alone, in a child
 * that start() made ready; returns how many calls were wrong, or -1. */
long overflow_run(int count, bool (*start)(void), void (*one)(int i),
                  const char *(*name)(int i), const char *only);
/* Of all children so far. */
extern struct overflow_counts {
    long calls, refused, wrong;
} * overflow_counts;

#endif
