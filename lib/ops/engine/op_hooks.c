/* op_hooks.c: the hooks by which autograd listens to calls (ops.h). */
#include <ops/engine/ops.h>

tn__op_hooks tn__hooks;
