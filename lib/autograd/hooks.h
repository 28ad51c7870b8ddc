/* hooks.h: the structure of hooks on gradients, for hooks.c and
 * hook_register.c. */
#ifndef TN_LIB_AUTOGRAD_HOOKS_H
#define TN_LIB_AUTOGRAD_HOOKS_H

#include <autograd/node.h>

enum { TN__HOOK_GRAD, TN__HOOK_RETAIN, TN__HOOK_POST_ACCUMULATE };

struct tn__grad_hook {
    tn_hook base;
    struct tn__grad_hook *next; /* counted */
    int kind;
    uint32_t index;                  /* which output of the node */
    tn_grad_hook run;                /* TN__HOOK_GRAD */
    tn_accumulated_hook accumulated; /* TN__HOOK_POST_ACCUMULATE, called */
    tn_tensor *x;              /* with this leaf: lent, until it is freed; */
    const tn__grad_meta *meta; /* identifies the leaf when it is freed */
    void *context;
    void (*release)(void *context); /* or NULL */
    tn_tensor *grad;                /* TN__HOOK_RETAIN: counted */
};

/* A hook that is in no list yet, owned by the open scope. */
struct tn__grad_hook *tn__hook_new(int kind, uint32_t index, void *context);
/* Appends hook and takes over one reference to it. Drops hooks that were
 * removed, unless this thread is running hooks. */
void tn__hook_append(tn__node *node, struct tn__grad_hook *hook);

#endif
