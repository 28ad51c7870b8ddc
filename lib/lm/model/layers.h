/* layers.h: the layers of a model, and the data that a forward pass hands to
 * them. */
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

/* Keys are processed in blocks of TN__LM_BLOCK positions. A query at position p
 * reads the keys up to the end of its own block, [start, (p / TN__LM_BLOCK + 1)
 * * TN__LM_BLOCK); a mask hides those after p. So the order of summation, and
 * with it each bit of the result, depends on p only, not on how many tokens are
 * processed together. */
enum { TN__LM_BLOCK = 64 };

/* Consecutive rows of x that belong to one sequence and read the same range of
 * keys. */
typedef struct tn__lm_group {
    const tn__lm_kv *kv; /* array of cached keys and values, one element for
                            each layer; NULL: nothing is cached, the keys are
                            those of the rows themselves */
    int64_t row, count;  /* rows of x */
    int64_t position;    /* position of the first row in its sequence */
    int64_t key, keys;   /* range of keys that the rows read */
    tn_tensor *mask;     /* (count, keys), true where visible, or NULL; a
                                 bias for MPNet */
} tn__lm_group;

/* Inputs of the layers other than x. In a flat pass, x is (rows, hidden), the
 * tokens of all sequences one after another. In a plain pass, it is (..., time,
 * hidden). In arrays of two, element 0 is for layers with full attention,
 * element 1 for layers with sliding-window attention. */
typedef struct tn__lm_pass {
    bool flat;
    int64_t rows; /* flat: number of rows of x; the groups together contain all
                     rows */
    tn_tensor *cos[2], *sin[2]; /* (rows or time, dim), or, with `partner`, in
                                   the form that tn__lm_rotate_rows requires;
                                   NULL without rotary embedding */
    tn_tensor *partner[2];      /* NULL in plain passes, and if only a part of a
                                   head rotates */
    tn_tensor *mask[2];         /* plain: as attn_mask of
                                   tn_scaled_dot_product_attention, or NULL */
    const tn__lm_group *group[2];
    int group_count[2];
} tn__lm_pass;

/* Returns x itself if it has the dtype, without tn_to_dtype's copy. */
tn_tensor *tn__lm_in_dtype(tn_tensor *x, tn_dtype dtype);

/* ---- weights ------------------------------------------------------------- */

/* Registers a child under a path such as "self.query". Makes the modules on the
 * path that do not exist. Returns child, or NULL on failure. */
tn_module *tn__lm_add(tn_module *module, const char *path, tn_module *child);
/* Joins two paths in a buffer of TN__LM_PATH bytes, and returns it. */
const char *tn__lm_join(char *buffer, const char *path, const char *name);

/* y = x weight^T + bias; with transposed, weight is (in, out). */
tn_module *tn__lm_linear(tn__lm_maker *maker, const char *path, int64_t in,
                         int64_t out, bool bias, bool transposed);
tn_module *tn__lm_embedding(tn__lm_maker *maker, const char *path, int64_t rows,
                            int64_t size);
/* Makes an output layer that shares the weight of an embedding. */
tn_module *tn__lm_tied_linear(const tn__lm_maker *maker, tn_module *embedding);
tn_module *tn__lm_norm_make(tn__lm_maker *maker, const char *path, int64_t size,
                            tn__lm_norm kind, double eps);
tn_tensor *tn__lm_activate(tn_tensor *x, tn__lm_activation activation);

/* ---- rotary embedding ---------------------------------------------------- */

/* Computes cos and sin, (count, dim), for positions. lengths[i] is the length
 * of the text in which positions[i] is; some scalings depend on it. With
 * is_signed, the first half of each row of sin is negative. */
bool tn__lm_rope_tables(const tn__lm_rope *rope, const int64_t *positions,
                        const int64_t *lengths, int64_t count, tn_dtype dtype,
                        bool is_signed, tn_tensor **cos, tn_tensor **sin);
/* Returns whether the rotary embedding is the same for prompts of a and of b
 * tokens. */
bool tn__lm_rope_same(const tn__lm_rope *rope, int64_t a, int64_t b);
/* Applies rotary embedding to x (..., time, heads, head_dim). cos and sin are
 * (time, dim). */
tn_tensor *tn__lm_rotate(tn_tensor *x, tn_tensor *cos, tn_tensor *sin);
/* Does the same by one operator without a gradient. The results are
 * bit-identical. x is (rows, heads, dim), cos and the signed sin are (rows, 1,
 * dim). partner (dim) has for each element of a head the element that it is
 * combined with. */
tn_tensor *tn__lm_rotate_rows(tn_tensor *x, tn_tensor *cos, tn_tensor *sin,
                              tn_tensor *partner);
tn_tensor *tn__lm_rotary_partner(int64_t dim);

/* ---- layers -------------------------------------------------------------- */

tn_module *tn__lm_attention_make(tn__lm_maker *maker, const char *path,
                                 const tn__lm_spec *spec, int64_t layer);
tn_tensor *tn__lm_attention_run(tn_module *attention, tn_tensor *x,
                                const tn__lm_pass *pass);
/* An MLP. tn__lm_mlp_init adds its weights to `module`, which owns them. */
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
