/* op_hooks.c: the table of autograd's functions that calls of operators use
 * (ops.h). Autograd fills it. */
#include <ops/engine/ops.h>

tn__op_hooks tn__hooks;
