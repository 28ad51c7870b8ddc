/* attention.h: scaled dot-product attention by the device's own kernel, where it
 * has one (the extension `attention`). */
#ifndef TN_LIB_OPS_ATTENTION_H
#define TN_LIB_OPS_ATTENTION_H

#include <ops/engine/ops.h>

/* How a call goes; scale is no 0. */
typedef struct tn__attention {
    tn_tensor *mask; /* NULL: none */
    double dropout, scale;
    bool is_causal, shares_heads; /* a head of key serves several of query */
} tn__attention;

/* x, which is key or value, as a view with the batch of q (without the heads,
 * where they are shared), if that is x many times over and the device of q has
 * attention; else x itself. NULL with the error recorded. */
tn_tensor *tn__attention_widen(tn_tensor *x, const tn_tensor *q,
                               bool shares_heads);
/* Does the device of q do this, forward and backward? */
bool tn__attention_fits(const tn__attention *a, const tn_tensor *q,
                        const tn_tensor *k, const tn_tensor *v);
/* The result then; NULL with the error recorded. */
tn_tensor *tn__attention_run(const tn__attention *a, tn_tensor *q,
                             tn_tensor *k, tn_tensor *v);

#endif
