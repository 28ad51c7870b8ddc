/* layers.h: the layers of a model and what they pass to each other. */
#ifndef TN_LIB_LM_MODEL_LAYERS_H
#define TN_LIB_LM_MODEL_LAYERS_H

#include <lm/model/spec.h>
#include <lm/model/weights.h>
#include <tenon/lm.h>
#include <tenon/nn.h>

/* Keys and values of one sequence in one layer. */
typedef struct tn__lm_kv {
    tn_tensor *key, *value; /* (kv_heads, room, head_dim); kept */
} tn__lm_kv;

/* Attention looks at keys in blocks of so many positions, and a query at
 * position p sees the keys [start, (p / BLOCK + 1) * BLOCK), those behind p
 * hidden by a mask. So the order of its sums depends on p alone, and not on how
 * many tokens are processed together. */
enum { TN__LM_BLOCK = 64 };

/* A run of rows of one sequence that see the same range of keys. */
typedef struct tn__lm_group {
    const tn__lm_kv *kv; /* of layer 0, one for each layer; NULL: keys are
                                 the rows themselves */
    int64_t row, count;  /* rows of x */
    int64_t position;    /* of the first row in its sequence */
    int64_t key, keys;   /* range of keys that they see */
    tn_tensor *mask;     /* (count, keys), true where visible, or NULL; a
                                 bias for MPNet */
} tn__lm_group;

/* What the layers need besides x. In a flat pass x is (rows, hidden): the tokens
 * of all sequences, one after another. Otherwise it is (..., time, hidden). */
typedef struct tn__lm_pass {
    bool flat;
    int64_t rows; /* flat: rows of x, of which the groups cover all */
    tn_tensor *cos[2], *sin[2]; /* (rows or time, dim), of full and sliding
                                   layers; NULL without rotary embedding */
    tn_tensor *mask[2];         /* not flat: as attn_mask, or NULL */
    const tn__lm_group *group[2];
    int group_count[2];
} tn__lm_pass;

/* ---- weights ------------------------------------------------------------- */

/* Registers child under a path, "self.query", and makes the containers on the
 * way. Returns child, or NULL on failure. */
tn_module *tn__lm_add(tn_module *module, const char *path, tn_module *child);
/* Joins two paths in a buffer of TN__LM_PATH bytes, and returns it. */
const char *tn__lm_join(char *buffer, const char *path, const char *name);

/* y = x weight^T + bias; with transposed, weight is (in, out). */
tn_module *tn__lm_linear(tn__lm_maker *maker, const char *path, int64_t in,
                         int64_t out, bool bias, bool transposed);
tn_module *tn__lm_embedding(tn__lm_maker *maker, const char *path, int64_t rows,
                            int64_t size);
/* Makes an output layer that shares the weight of an embedding. */
tn_module *tn__lm_tied_linear(tn_module *embedding);
tn_module *tn__lm_norm_make(tn__lm_maker *maker, const char *path, int64_t size,
                            tn__lm_norm kind, double eps);
tn_tensor *tn__lm_activate(tn_tensor *x, tn__lm_activation activation);

/* ---- rotary embedding ---------------------------------------------------- */

/* Stores cos and sin (count, dim) of positions in dtype. length[i] is the length
 * of the text that position i is in, for the scalings that depend on it. */
bool tn__lm_rope_tables(const tn__lm_rope *rope, const int64_t *positions,
                        const int64_t *lengths, int64_t count, tn_dtype dtype,
                        tn_tensor **cos, tn_tensor **sin);
/* Rotates x (..., time, heads, head_dim) by tables (time, dim). */
tn_tensor *tn__lm_rotate(tn_tensor *x, tn_tensor *cos, tn_tensor *sin);

/* ---- layers -------------------------------------------------------------- */

tn_module *tn__lm_attention_make(tn__lm_maker *maker, const char *path,
                                 const tn__lm_spec *spec, int64_t layer);
tn_tensor *tn__lm_attention_run(tn_module *attention, tn_tensor *x,
                                const tn__lm_pass *pass);
/* Adds the weights of an MLP to module, which becomes their owner. */
typedef struct tn__lm_mlp {
    tn_module *gate, *up, *gate_up, *down; /* some are NULL */
    tn__lm_activation activation;
    int64_t inner;
} tn__lm_mlp;
bool tn__lm_mlp_init(tn__lm_mlp *mlp, tn_module *module, tn__lm_maker *maker,
                     const char *path, const tn__lm_spec *spec, int64_t inner);
tn_tensor *tn__lm_mlp_run(const tn__lm_mlp *mlp, tn_tensor *x);
tn_module *tn__lm_mlp_make(tn__lm_maker *maker, const char *path,
                           const tn__lm_spec *spec, int64_t inner);
tn_module *tn__lm_experts_make(tn__lm_maker *maker, const char *path,
                               const tn__lm_spec *spec);
tn_module *tn__lm_layer_make(tn__lm_maker *maker, const char *path,
                             const tn__lm_spec *spec, int64_t layer);
tn_tensor *tn__lm_layer_run(tn_module *layer, tn_tensor *x,
                            const tn__lm_pass *pass);

#endif
