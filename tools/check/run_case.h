/* run_case.h: runs a program on a plugin and in the interpreter, and compares
 * the results. */
#ifndef TN_CHECK_RUN_CASE_H
#define TN_CHECK_RUN_CASE_H

#include "by_hand.h"
#include "random_program.h"

/* Returns whether the device supports all dtypes that the case uses. */
bool run_case_fits(const by_hand *h, const random_case *c);

/* Builds and launches the case on the device, with guard bytes around its
 * memory. Returns whether status, fault and every byte of memory are the same
 * as in the interpreter (any NaN equals any other). If not, writes the
 * difference to why, which has `room` bytes. */
bool run_case(const by_hand *h, const random_case *c, char *why, size_t room);

#endif
