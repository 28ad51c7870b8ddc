/* run_case.h: one program on a plugin, held against the interpreter. */
#ifndef TN_CHECK_RUN_CASE_H
#define TN_CHECK_RUN_CASE_H

#include "by_hand.h"
#include "random_program.h"

/* Does the device compute with all types that the case uses, and store them? */
bool run_case_fits(const by_hand *h, const random_case *c);

/* Builds and launches the case on the device, its memory between guard bytes.
 * True if status, fault and every byte of memory are as the interpreter
 * leaves them (all NaNs equal); else why (of room bytes) says what is not. */
bool run_case(const by_hand *h, const random_case *c, char *why, size_t room);

#endif
