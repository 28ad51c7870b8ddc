/* gguf_weight.c: one weight of a GGUF file: its dtype, its shape, its tensor. */
#include <lm/gguf/gguf.h>
#include <lm/model/weight_entry.h>

#include <inttypes.h>
#include <tenon/ops.h>

static const char call[] = "lm_open";

tn_dtype tn__lm_gguf_dtype(const tn__lm_entry *e)
{
    return tn_gguf_dtype(e->gguf, e->source);
}

int tn__lm_gguf_shape(const tn__lm_entry *e, const int64_t **shape)
{
    const int skip = e->expert >= 0;
    *shape = tn_gguf_shape(e->gguf, e->source) + skip;
    return tn_gguf_ndim(e->gguf, e->source) - skip;
}

/* Restores the order of the rows of queries and keys. In GGUF files of Llama,
 * the two elements that are rotated together are neighbours: row 2 i + h of a
 * head is row i of half h in safetensors files. */
static tn_tensor *halves(tn_tensor *x, int64_t heads)
{
    if (!x)
        return NULL;
    const int64_t rows = tn_tensor_size(x, 0);
    if (rows % (2 * heads)) {
        tn_error_refuse_argument(TN_ERR_SHAPE, call, "path",
                                 "%" PRId64 " rows for %" PRId64 " heads", rows,
                                 heads);
        return NULL;
    }
    tn_dims_list shape =
        tn_dims_from_array(tn_tensor_shape(x), tn_tensor_ndim(x));
    tn_tensor *y = tn_reshape(x, tn_dims(heads, rows / heads / 2, 2, -1));
    return tn_reshape(tn_transpose(y, 1, 2), shape);
}

tn_tensor *tn__lm_gguf_load(const tn__lm_weights *w, const tn__lm_entry *e,
                            bool blocks)
{
    const bool in_blocks = tn__lm_gguf_dtype(e) >= TN_BLOCK;
    tn_tensor *x;
    if (in_blocks && !blocks && e->expert >= 0 && w->multiplies) {
        /* read only this expert's part */
        x = tn_select(tn_gguf_blocks(e->gguf, e->source), 0, e->expert);
        x = tn_dequantize_blocks(x, tn_gguf_type(e->gguf, e->source),
                                 .dtype = w->dtype);
    } else {
        x = blocks      ? tn_gguf_blocks(e->gguf, e->source)
            : in_blocks ? tn_gguf_tensor(e->gguf, e->source, .dtype = w->dtype)
                        : tn_gguf_tensor(e->gguf, e->source);
        if (e->expert >= 0)
            x = tn_select(x, 0, e->expert);
    }
    if (e->heads)
        x = halves(x, e->heads);
    if (!blocks && tn_tensor_dtype(x) != w->dtype)
        x = tn_to_dtype(x, w->dtype);
    /* releases the file's pages, so that the file and the copy do not take
     * memory at the same time */
    if (x && (e->heads || (!blocks && tn__lm_gguf_dtype(e) != w->dtype)))
        tn__gguf_discard(e->gguf, e->source);
    return x;
}
