/* hooks.h: the structure of hooks on gradients, for hooks.c and
 * hook_register.c. */
#ifndef TN_LIB_AUTOGRAD_HOOKS_H
#define TN_LIB_AUTOGRAD_HOOKS_H

#include <autograd/node.h>

enum { TN__HOOK_GRAD, TN__HOOK_RETAIN, TN__HOOK_POST_ACCUMULATE };

struct tn__grad_hook {
    tn_hook base;
    struct tn__grad_hook *next; /* owned reference: next hook of the node */
    int kind;                   /* one of the TN__HOOK_ constants */
    uint32_t index;             /* the node's output that the hook observes */
    tn_grad_hook run;           /* the function of a TN__HOOK_GRAD */
    tn_accumulated_hook accumulated; /* the function of a
                                        TN__HOOK_POST_ACCUMULATE */
    tn_tensor *x;              /* the leaf passed to `accumulated`; not owned:
                                  the hook is removed when x is freed */
    const tn__grad_meta *meta; /* gradient data of x, by which the hook is found
                                  when x is freed */
    void *context;             /* passed to the function */
    void (*release)(void *context); /* frees context, or NULL */
    tn_tensor *grad;           /* owned reference: the gradient stored by a
                                  TN__HOOK_RETAIN */
};

/* Makes a hook that is in no list yet. The open scope owns it. */
struct tn__grad_hook *tn__hook_new(int kind, uint32_t index, void *context);
/* Appends hook to the node's list and takes over one reference to it. Frees
 * hooks of the list that were marked as removed, unless this thread is running
 * hooks. */
void tn__hook_append(tn__node *node, struct tn__grad_hook *hook);

#endif
