/* attention.h: scaled dot-product attention by the device's own kernel, where it
 * has one (the extension `attention`). */
#ifndef TN_LIB_OPS_ATTENTION_H
#define TN_LIB_OPS_ATTENTION_H

#include <ops/ops.h>

/* How a call goes; scale is no 0. */
typedef struct tn__attention {
    tn_tensor *mask; /* NULL: none */
    double dropout, scale;
    bool is_causal, shares_heads; /* a head of key serves several of query */
} tn__attention;

/* Does the device of q do this, forward and backward? */
bool tn__attention_fits(const tn__attention *a, const tn_tensor *q,
                        const tn_tensor *k, const tn_tensor *v);
/* The result then; NULL with the error recorded. */
tn_tensor *tn__attention_run(const tn__attention *a, tn_tensor *q,
                             tn_tensor *k, tn_tensor *v);

#endif
