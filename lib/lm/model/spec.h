/* spec.h: the description of a model, and how a family of models maps the keys
 * of config.json and the names of weights to it. A family is one file of tables
 * (family_NAME.c); README.md shows how to add one. */
#ifndef TN_LIB_LM_MODEL_SPEC_H
#define TN_LIB_LM_MODEL_SPEC_H

#include <json/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TN__LM_MAX_LAYERS = 1000, TN__LM_MAX_FACTORS = 128 };

typedef enum tn__lm_norm {
    TN__LM_RMS,       /* RMSNorm */
    TN__LM_RMS_PLUS1, /* RMSNorm whose weight is stored minus 1 (Gemma) */
    TN__LM_LAYER      /* LayerNorm with bias */
} tn__lm_norm;

/* Where a layer applies its norms; f is attention or the MLP. */
typedef enum tn__lm_order {
    TN__LM_BEFORE,  /* x + f(norm(x)) */
    TN__LM_AFTER,   /* norm(x + f(x)): BERT */
    TN__LM_AROUND,  /* x + norm(f(norm(x))): Gemma 3 */
    TN__LM_PARALLEL /* x + attention(norm1(x)) + mlp(norm2(x)): GPT-NeoX */
} tn__lm_order;

typedef enum tn__lm_activation {
    TN__LM_SILU,
    TN__LM_GELU,
    TN__LM_GELU_TANH,
    TN__LM_RELU,
    TN__LM_ACTIVATIONS
} tn__lm_activation;

/* How the projection of queries, keys and values is stored, if it is one
 * matrix. */
typedef enum tn__lm_packing {
    TN__LM_SEPARATE,   /* three matrices */
    TN__LM_JOINED,     /* rows of all queries, then keys, then values */
    TN__LM_INTERLEAVED /* for each head its query, key and value: GPT-NeoX */
} tn__lm_packing;

typedef enum tn__lm_scaling {
    TN__LM_ROPE_NONE, /* plain rotary embedding */
    TN__LM_ROPE_LINEAR,
    TN__LM_ROPE_DYNAMIC,
    TN__LM_ROPE_YARN,
    TN__LM_ROPE_LONG,
    TN__LM_ROPE_LLAMA3,
    TN__LM_ROPE_SCALINGS
} tn__lm_scaling;

/* Rotary embedding: the fields are those of tn_lm_rotary. */
typedef struct tn__lm_rope {
    int64_t dim; /* elements of each head that are rotated; 0: no rotation */
    double base;
    tn__lm_scaling scaling;
    double factor, low_freq_factor, high_freq_factor, beta_fast, beta_slow;
    double attention_factor; /* negative: computed from factor */
    double mscale, mscale_all_dim;
    bool truncate;
    int64_t original; /* context length of the original training, before it was
                         extended */
    int64_t longest;  /* max_position_embeddings */
    bool has_factors;
    double short_factor[TN__LM_MAX_FACTORS], long_factor[TN__LM_MAX_FACTORS];
} tn__lm_rope;

typedef struct tn__lm_spec tn__lm_spec;
struct tn__lm_spec {
    const struct tn__lm_family *family;
    int64_t vocab, hidden, inner, layers, heads, kv_heads, head_dim;
    int64_t positions; /* the longest sequence; 0: no limit */
    double eps;
    tn__lm_norm norm;
    tn__lm_order order;
    tn__lm_activation activation;
    tn__lm_packing packing;
    bool encoder;    /* bidirectional attention; the outputs are hidden
                        states */
    bool transposed; /* weights of linear layers are stored (in, out): GPT-2 */
    bool tied;       /* the output layer shares the weight of the embedding */
    bool qkv_bias, out_bias, mlp_bias;
    bool qk_norm;           /* RMSNorm is applied to each head's queries and
                               keys */
    double embed_scale;     /* factor of embeddings; 0: 1 */
    double attention_scale; /* factor of attention scores; 0: 1 /
                               sqrt(head_dim) */
    bool scale_by_layer;    /* attention scores are divided by the index of the
                               layer, counted from 1 */
    double softcap;         /* if not 0, logits become softcap * tanh(logits /
                               softcap) */
    double embed_dropout, hidden_dropout, attention_dropout;

    int64_t window; /* window of layers with sliding-window attention; 0: there
                       are none */
    bool slides[TN__LM_MAX_LAYERS];
    tn__lm_rope rope[2]; /* [0]: for full attention, [1]: for sliding layers */
    bool two_ropes;      /* rope[1] differs from rope[0] */

    int64_t position_rows;   /* rows of the learned position embedding; 0:
                                none */
    bool positions_skip_pad; /* position = pad + 1 + number of preceding tokens
                                that are not padding (RoBERTa) */
    int64_t pad, eos;        /* ids; -1: none */
    int64_t type_rows;       /* rows of the token type embedding; 0: none */
    int64_t bias_buckets;    /* buckets of the relative position bias (MPNet);
                                0: none */

    int64_t experts, experts_used, expert_inner;
    bool normalize_experts;
    bool dense[TN__LM_MAX_LAYERS]; /* the layer has a plain MLP although other
                                      layers have experts */
};

/* The weights and submodules of a model. tn__lm_family.names[] has a path for
 * each of them: Paths of the roles from EMBED are relative to the model, from
 * ATTENTION to a layer, from QUERY to the attention module, and from GATE to
 * the MLP. */
typedef enum tn__lm_role {
    TN__LM_EMBED,
    TN__LM_EMBED_POSITION,
    TN__LM_EMBED_TYPE,
    TN__LM_EMBED_NORM,
    TN__LM_DISTANCE_BIAS,
    TN__LM_LAYERS_AT, /* the list of layers */
    TN__LM_LAST_NORM,
    TN__LM_POOLER, /* optional: present if the files contain it */
    TN__LM_HEAD,

    TN__LM_ATTENTION,    /* the attention module */
    TN__LM_MLP,          /* the MLP; NULL: its weights are directly in the
                            layer */
    TN__LM_NORM_1,       /* before attention; for TN__LM_AFTER, after
                            attention */
    TN__LM_NORM_1_AFTER, /* AROUND only */
    TN__LM_NORM_2,
    TN__LM_NORM_2_AFTER,

    TN__LM_QUERY,
    TN__LM_KEY,
    TN__LM_VALUE,
    TN__LM_QKV, /* one matrix instead of the three */
    TN__LM_OUT,
    TN__LM_QUERY_NORM,
    TN__LM_KEY_NORM,

    TN__LM_GATE, /* NULL: the MLP has no gate, only up and down */
    TN__LM_UP,
    TN__LM_GATE_UP, /* one matrix instead of GATE and UP, first the rows of
                       GATE */
    TN__LM_DOWN,
    TN__LM_ROUTER,
    TN__LM_EXPERTS_AT, /* the list of experts */
    TN__LM_ROLES
} tn__lm_role;

/* ---- keys of config.json ------------------------------------------------- */

typedef enum tn__lm_kind {
    TN__LM_KEY_SIZE, /* an integer from 1 to 2^31; null means the fallback */
    TN__LM_KEY_REAL, /* a finite number */
    TN__LM_KEY_FLAG,
    TN__LM_KEY_ACT,  /* the name of an activation */
    TN__LM_KEY_ID,   /* a token id or null; of a list, the first element is
                        used */
    TN__LM_KEY_MUST, /* any value other than the fallback is an error */
    TN__LM_KEY_TEXT, /* any string other than `only` is an error */
    TN__LM_KEY_READ  /* not read by the table: the family's function finish
                        reads it */
} tn__lm_kind;

typedef struct tn__lm_key {
    const char *name; /* "hidden_size". An alternative name is another row, with
                         the fallback TN__LM_OPTIONAL. */
    tn__lm_kind kind;
    size_t at;       /* offset in tn__lm_spec */
    double fallback; /* value if the key is missing. TN__LM_REQUIRED: a missing
                        key is an error. TN__LM_OPTIONAL: the field is left
                        unchanged. */
    const char *only;
} tn__lm_key;
#define TN__LM_REQUIRED (-1e300)
#define TN__LM_OPTIONAL (-2e300)
#define TN__LM_FIELD(key, kind, field, fallback)                               \
    {                                                                          \
        key, TN__LM_KEY_##kind, offsetof(tn__lm_spec, field), fallback, NULL   \
    }
#define TN__LM_MUST(key, value)                                                \
    {                                                                          \
        key, TN__LM_KEY_MUST, 0, value, NULL                                   \
    }
#define TN__LM_ONLY(key, text)                                                 \
    {                                                                          \
        key, TN__LM_KEY_TEXT, 0, 0, text                                       \
    }
#define TN__LM_READ(key)                                                       \
    {                                                                          \
        key, TN__LM_KEY_READ, 0, 0, NULL                                       \
    }
/* Keys that most families have under the same names. */
#define TN__LM_SIZE_KEYS                                                       \
    TN__LM_FIELD("hidden_size", SIZE, hidden, TN__LM_REQUIRED),                \
        TN__LM_FIELD("intermediate_size", SIZE, inner, TN__LM_REQUIRED),       \
        TN__LM_FIELD("num_hidden_layers", SIZE, layers, TN__LM_REQUIRED),      \
        TN__LM_FIELD("num_attention_heads", SIZE, heads, TN__LM_REQUIRED)

/* A parsed config.json and its path. */
typedef struct tn__lm_config {
    const char *path;
    const tn__json_value *root;
} tn__lm_config;

typedef struct tn__lm_family {
    const char *type;       /* model_type in config.json */
    const tn__lm_key *keys; /* ends with a row without name */
    const tn__lm_key *more; /* a second list of keys, or NULL */
    const char *names[TN__LM_ROLES];
    const char *prefix;        /* prefix of all names except that of HEAD; files
                                  may omit it; or NULL */
    const char *const *unused; /* suffixes of tensors that old files contain and
                                  that are not needed; ends with NULL; may be
                                  NULL */
    void (*begin)(tn__lm_spec *spec); /* sets the fields that do not depend on
                                         config.json; the others are 0; may be
                                         NULL */
    /* Checks and completes the spec after the keys have been read; may be
     * NULL. */
    bool (*finish)(tn__lm_spec *spec, const tn__lm_config *config);
} tn__lm_family;

/* All families; ends with NULL (families.c). */
extern const tn__lm_family *const tn__lm_families[];

/* ---- reading (config.c) -------------------------------------------------- */

/* Fills spec from config. Uses the family in the NULL-terminated list whose
 * `type` is the config's model_type. On failure records an error and returns
 * false. */
bool tn__lm_config_read(const tn__lm_config *config,
                        const tn__lm_family *const *families,
                        tn__lm_spec *spec);

/* Functions for a family's `finish`. tn__lm_refuse records the error that the
 * value of a key is not supported, and returns false. */
bool tn__lm_refuse(const tn__lm_config *config, const char *key,
                   const char *why);
/* Reads the parameters of the rotary embedding from the member rope_parameters
 * of the object `at`, or from its members rope_scaling and rope_theta. */
bool tn__lm_read_rope(const tn__lm_config *config, const tn__json_value *at,
                      double base, tn__lm_spec *spec, tn__lm_rope *rope);
/* Sets spec->slides from layer_types. Does nothing if config has no
 * layer_types. */
bool tn__lm_read_layer_types(const tn__lm_config *config, tn__lm_spec *spec);

/* tn__lm_activation_name returns the name of an activation.
 * tn__lm_activation_of and tn__lm_scaling_of convert a name; for an unknown one
 * they return TN__LM_ACTIVATIONS and TN__LM_ROPE_SCALINGS. */
const char *tn__lm_activation_name(tn__lm_activation activation);
tn__lm_activation tn__lm_activation_of(const char *name);
tn__lm_scaling tn__lm_scaling_of(const char *name);

#endif
