/* run_case.h: runs a program on a plugin and compares with the interpreter. */
#ifndef TN_CHECK_RUN_CASE_H
#define TN_CHECK_RUN_CASE_H

#include "by_hand.h"
#include "random_program.h"

/* Does the device compute in and store all types that the case uses? */
bool run_case_fits(const by_hand *h, const random_case *c);

/* Builds and launches the case on the device, with guard bytes around its
 * memory. True if status, fault and every byte of memory equal the
 * interpreter's (all NaNs are equal). Otherwise why (of room bytes) says what
 * differs. */
bool run_case(const by_hand *h, const random_case *c, char *why, size_t room);

#endif
