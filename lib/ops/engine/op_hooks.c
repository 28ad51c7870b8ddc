/* op_hooks.c: the functions of autograd that calls of operators use (ops.h). */
#include <ops/engine/ops.h>

tn__op_hooks tn__hooks;
