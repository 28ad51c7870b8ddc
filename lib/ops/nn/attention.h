/* attention.h: scaled dot-product attention (PyTorch's
 * scaled_dot_product_attention) computed by the device, if it has the extension
 * `attention`. */
#ifndef TN_LIB_OPS_ATTENTION_H
#define TN_LIB_OPS_ATTENTION_H

#include <ops/engine/ops.h>

/* The options of one call of scaled dot-product attention. */
typedef struct tn__attention {
    tn_tensor *mask;       /* NULL if there is no mask */
    double dropout, scale; /* the scale is not 0 */
    bool is_causal, shares_heads; /* shares_heads: a head of key serves several
                                     heads of query (PyTorch's enable_gqa) */
} tn__attention;

/* Returns x, a key or value, expanded to the batch dimensions of q. With
 * shares_heads, the dimension of the heads is not expanded. Returns x itself if
 * its batch dimensions equal those of q or do not broadcast to them, or if the
 * device of q lacks the extension `attention`. Returns NULL on failure, with
 * the error recorded. */
tn_tensor *tn__attention_widen(tn_tensor *x, const tn_tensor *q,
                               bool shares_heads);
/* Returns whether the device of q supports this attention, forward and
 * backward. */
bool tn__attention_fits(const tn__attention *a, const tn_tensor *q,
                        const tn_tensor *k, const tn_tensor *v);
/* Lets the device compute attention. Returns NULL on failure, with the error
 * recorded. */
tn_tensor *tn__attention_run(const tn__attention *a, tn_tensor *q,
                             tn_tensor *k, tn_tensor *v);

#endif
