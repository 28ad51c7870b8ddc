/* model.c: the memory of a model, and the types of elements. */
#include <onnx/graph/build.h>

#include <stdlib.h>

/* ---- types --------------------------------------------------------------- */

tn__onnx_type tn__onnx_type_of(int code)
{
    switch (code) {
#define TYPE_CASE(name, code, text, dtype, bits, narrow)                      \
    case code:                                                                \
        return (tn__onnx_type){text, dtype, bits, narrow};
        TN__ONNX_TYPE_MAP(TYPE_CASE)
#undef TYPE_CASE
    default:
        return (tn__onnx_type){"unknown", TN_DTYPE_NONE, 0, 0};
    }
}

int tn__onnx_type_from_dtype(tn_dtype dtype)
{
    static const unsigned char code[TN_DTYPE_END] = {
        [TN_F32] = TN__ONNX_FLOAT, [TN_F64] = TN__ONNX_DOUBLE,
        [TN_F16] = TN__ONNX_FLOAT16, [TN_BF16] = TN__ONNX_BFLOAT16,
        [TN_F8E4M3] = TN__ONNX_F8E4M3FN, [TN_F8E5M2] = TN__ONNX_F8E5M2,
        [TN_I64] = TN__ONNX_INT64, [TN_I32] = TN__ONNX_INT32,
        [TN_I16] = TN__ONNX_INT16, [TN_I8] = TN__ONNX_INT8,
        [TN_U8] = TN__ONNX_UINT8, [TN_BOOL] = TN__ONNX_BOOL};
    return dtype < TN_DTYPE_END ? code[dtype] : 0;
}

/* ---- an arena ------------------------------------------------------------ */

enum { BLOCK_BYTES = 1 << 16 };

struct tn__onnx_block {
    struct tn__onnx_block *next;
    size_t used, room;
    max_align_t memory[];
};

void *tn__onnx_alloc(tn__onnx_arena *arena, size_t count, size_t bytes)
{
    const size_t align = sizeof(max_align_t);
    struct tn__onnx_block *block = arena->block;
    if (bytes && count > (SIZE_MAX / 2) / bytes) {
        tn_error_set(TN_ERR_MEMORY, "onnx_open: out of memory");
        return NULL;
    }
    const size_t wanted = (count * bytes + align) / align * align;
    if (!block || block->room - block->used < wanted) {
        const size_t room = wanted > BLOCK_BYTES ? wanted : BLOCK_BYTES;
        block = calloc(1, sizeof *block + room);
        if (!block) {
            tn_error_set(TN_ERR_MEMORY, "onnx_open: out of memory");
            return NULL;
        }
        block->room = room;
        block->next = arena->block;
        arena->block = block;
    }
    void *memory = (char *)block->memory + block->used;
    block->used += wanted;
    return memory;
}

void tn__onnx_arena_free(tn__onnx_arena *arena)
{
    while (arena->block) {
        struct tn__onnx_block *next = arena->block->next;
        free(arena->block);
        arena->block = next;
    }
}

/* ---- a model ------------------------------------------------------------- */

tn__onnx_model *tn__onnx_model_new(void)
{
    tn__onnx_model *m = calloc(1, sizeof *m);
    if (!m) {
        tn_error_set(TN_ERR_MEMORY, "onnx_open: out of memory");
        return NULL;
    }
    m->references = 1;
    return m;
}

static void drop_value(tn__onnx_value *v)
{
    tn_drop(v->device);
    tn_drop(v->host);
}

static void drop_tensors(tn__onnx_graph *g)
{
    for (int i = 0; i < g->slot_count && g->value; i++)
        drop_value(&g->value[i]);
    for (int i = 0; i < g->node_count; i++) {
        for (int j = 0; j < g->node[i].attr_count; j++)
            drop_value(&g->node[i].attrs[j].tensor);
        for (int j = 0; j < 2; j++)
            tn_drop(g->node[i].prepared[j]);
    }
}

void tn__onnx_model_drop(tn__onnx_model *m)
{
    if (!m || __atomic_sub_fetch(&m->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (tn__onnx_graph *g = m->graphs; g; g = g->next)
        drop_tensors(g);
    for (int i = 0; i < m->weight_count; i++)
        tn_drop(m->weight[i].tensor);
    if (m->forget)
        m->forget(m);
    tn__onnx_arena_free(&m->arena);
    free(m);
}
