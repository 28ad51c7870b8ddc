/* table.c: the operator table, which joins the rows of all families. */
#include <onnx/ops/ops.h>

#include <string.h>

static const tn__onnx_family *const family[] = {
    &tn__onnx_math, &tn__onnx_activation, &tn__onnx_reduce, &tn__onnx_shape_ops,
    &tn__onnx_slice, &tn__onnx_index, &tn__onnx_matrix, &tn__onnx_conv,
    &tn__onnx_deform, &tn__onnx_norm, &tn__onnx_create, &tn__onnx_recurrent,
    &tn__onnx_control, &tn__onnx_quantised, &tn__onnx_signal, &tn__onnx_loss,
    &tn__onnx_resize, &tn__onnx_attention, &tn__onnx_image, &tn__onnx_regions,
    &tn__onnx_grams};
enum { FAMILIES = sizeof family / sizeof *family };

const tn__onnx_op *tn__onnx_op_find(const char *domain, const char *name,
                                    int64_t opset, bool *known)
{
    *known = false;
    for (int f = 0; f < FAMILIES; f++)
        for (int i = 0; i < family[f]->count; i++) {
            const tn__onnx_op *row = &family[f]->row[i];
            if (row->name[0] != name[0] || strcmp(row->name, name) != 0 ||
                strcmp(row->domain ? row->domain : "", domain) != 0)
                continue;
            *known = true;
            if (opset >= row->since && (!row->until || opset <= row->until))
                return row;
        }
    return NULL;
}

const tn__onnx_op *tn__onnx_op_at(int i)
{
    for (int f = 0; f < FAMILIES && i >= 0; f++) {
        if (i < family[f]->count)
            return &family[f]->row[i];
        i -= family[f]->count;
    }
    return NULL;
}
