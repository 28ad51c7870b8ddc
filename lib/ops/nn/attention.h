/* attention.h: scaled dot-product attention by a kernel of the device, if it
 * has the extension `attention`. */
#ifndef TN_LIB_OPS_ATTENTION_H
#define TN_LIB_OPS_ATTENTION_H

#include <ops/engine/ops.h>

/* The options of a call. scale is not 0. */
typedef struct tn__attention {
    tn_tensor *mask; /* NULL: none */
    double dropout, scale;
    bool is_causal, shares_heads; /* a head of key serves several heads of
                                     query */
} tn__attention;

/* If the device of q has attention, and expanding x (key or value) to the batch
 * of q repeats it, returns a view of x with that batch (without the heads, if
 * they are shared). Else returns x. NULL with the error recorded. */
tn_tensor *tn__attention_widen(tn_tensor *x, const tn_tensor *q,
                               bool shares_heads);
/* Does the device of q support this, forward and backward? */
bool tn__attention_fits(const tn__attention *a, const tn_tensor *q,
                        const tn_tensor *k, const tn_tensor *v);
/* The result of the device; NULL with the error recorded. */
tn_tensor *tn__attention_run(const tn__attention *a, tn_tensor *q,
                             tn_tensor *k, tn_tensor *v);

#endif
