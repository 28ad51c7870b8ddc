/* <tenon/lm.h>: language models.
 *
 * Opens a model in the format of Hugging Face (a folder with config.json and
 * safetensors files) as a module tree that has the names of its weights. The
 * model runs, trains and is saved as the same kind of folder, which
 * transformers opens. A GGUF file of llama.cpp becomes the same tree; its
 * weights may stay quantised.
 *
 *     tn_lm *lm = tn_lm_open("SmolLM2-135M");
 *     tn_tokenizer *tokenizer = tn_tokenizer_open("SmolLM2-135M");
 *     tn_encoding *prompt = tn_tokenizer_encode(tokenizer, "The capital of");
 *     tn_lm_result *result = tn_lm_generate(lm, tn_encoding_ids(prompt),
 *                                           tn_encoding_count(prompt));
 *     puts(tn_tokenizer_decode(tokenizer, tn_lm_result_ids(result, 0),
 *                              tn_lm_result_length(result, 0)));
 *
 *     tn_module *net = tn_lm_module(lm);            // train it like any other
 *     tn_tensor *logits = tn_forward(net, ids);     // ids (batch, time), int64
 *
 * Families: Llama 2, 3 and 3.1, SmolLM, Mistral, Qwen2, Qwen3, Qwen3-MoE,
 * Gemma 3 (text), Phi-3, GPT-2, GPT-NeoX; the encoders BERT, RoBERTa,
 * DistilBERT and MPNet.
 *
 * Reproducible results: tn_lm_decode, tn_lm_generate, tn_lm_batch, tn_lm_score
 * and tn_lm_embed compute bit-identical results for a sequence whatever other
 * sequences are in the batch, however the prompt is cut into blocks, and for
 * any number of threads. This holds on the devices cpu and reference; vendors'
 * libraries on GPUs do not guarantee it. tn_forward of the module uses faster
 * orders of summation, so its logits may differ in the last bits.
 *
 * Link with `pkg-config --libs tenon-lm`.
 *
 * Threads: Several threads may run one model at once while no thread changes
 * it, each with a cache or batch of its own. */
#ifndef TENON_LM_H
#define TENON_LM_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- models -------------------------------------------------------------- */

typedef struct tn_lm tn_lm;

/* Opens the model in the folder path, or in the GGUF file path, in evaluation
 * mode.
 *
 *   device  the device of the weights; default: the current device
 *   dtype   float32, float16 or bfloat16; default: that of the file
 *   strict  false: weights that the model does not use are skipped
 *   relaxed true: products with bfloat16 weights are relaxed (relaxed.h), that
 *           is, up to twice as fast on some processors, with bits that depend
 *           on the machine
 *
 * In GGUF files most weights are in blocks of quantised numbers (Q8_0, Q4_K and
 * others). If no dtype is given, they stay in blocks. A product with them
 * rounds the activations to 8 bits, block by block, and sums in float32. Such a
 * model needs the memory of the file, is not trained, and cannot be saved. A
 * device without the extension quantised-product fails with
 * TN_ERR_UNSUPPORTED. If a dtype is given, weights are dequantised, and the
 * model is like one from a folder, on any device.
 *
 * On a device whose memory is the host's, weights of the right dtype are mapped
 * from the file and not copied. The mapping is private: training changes
 * memory, not the file. While the model lives, the file must not be shortened:
 * reading a mapped page past the end of a file ends the process (SIGBUS).
 *
 * The open scope owns the result. Returns NULL with TN_ERR_IO if a file cannot
 * be read, TN_ERR_FORMAT if a file is invalid or the model is not supported
 * (the message names the key and its value), TN_ERR_SHAPE or
 * TN_ERR_ARGUMENT if weights are missing, unexpected or of another shape (the
 * message lists them), or TN_ERR_DTYPE for a dtype that is not supported. */
#define TN_LM_OPEN_OPTIONS_LIST(X)                                            \
    X(tn_device *, device, NULL)                                              \
    X(tn_dtype, dtype, TN_DTYPE_NONE)                                         \
    X(bool, strict, true)                                                     \
    X(bool, relaxed, false)
TN_OPTIONS_STRUCT(tn_lm_open, TN_LM_OPEN_OPTIONS_LIST);
#define TN_LM_OPEN_OPTIONS                                                    \
    TN_OPTIONS_DEFAULTS(tn_lm_open, TN_LM_OPEN_OPTIONS_LIST)
TN_API tn_lm *tn_lm_open_with(const char *path,
                              const tn_lm_open_options *options);

/* Returns lm as a module, the same object. Its signature is "input_ids,
 * attention_mask?, token_type_ids? -> output". input_ids are (batch, time) or
 * (time), int64. attention_mask has the shape of input_ids and is 0 at padding.
 * The output is logits (batch, time, vocabulary) for a decoder, and the last
 * hidden states (batch, time, hidden) for an encoder; without the batch
 * dimension if input_ids have none. Returns NULL if lm is NULL. */
TN_API tn_module *tn_lm_module(tn_lm *lm);

/* Runs the model on ids (batch, time) and stores hidden states (batch, time,
 * hidden) in out: the embeddings, then the output of each layer, where the last
 * one is normalised (transformers' hidden_states). count must be the number of
 * layers plus 1. The open scope owns the results. */
TN_API tn_status tn_lm_hidden_states(tn_lm *lm, tn_tensor *ids,
                                     tn_tensor **out, int count);

/* Writes config and weights to the folder path, and copies the other files of
 * the folder that lm was opened from, such as the tokenizer. Makes the folder
 * if it is missing. Weights that two modules share are written once. Fails with
 * TN_ERR_IO, TN_ERR_MEMORY, or TN_ERR_UNSUPPORTED if weights are in blocks
 * (tn_lm_open). */
TN_API tn_status tn_lm_save(tn_lm *lm, const char *path);

typedef struct tn_lm_sizes {
    size_t size;           /* sizeof(tn_lm_sizes) */
    const char *family;    /* "llama": model_type in config.json; lent by lm */
    int64_t layers, hidden, inner, heads, kv_heads, head_dim, experts;
    int64_t vocabulary;
    int64_t positions;     /* the longest sequence; 0 if there is no limit */
    int64_t parameters;    /* elements of all weights */
    int64_t weight_bytes;  /* bytes of all weights */
    int64_t cache_bytes;   /* bytes of a KV cache for one position, in the
                              model's dtype */
    bool is_encoder;
    tn_dtype dtype;
} tn_lm_sizes;
/* Fills the first sizes->size bytes of *sizes. Set sizes->size = sizeof *sizes
 * first. Fails with TN_ERR_ARGUMENT if sizes is NULL or its size invalid. */
TN_API tn_status tn_lm_info(const tn_lm *lm, tn_lm_sizes *sizes);

/* ---- key-value caches ---------------------------------------------------- */

/* The keys and values of several sequences. Memory for a sequence is reserved
 * when it begins, in blocks of 64 positions. */
typedef struct tn_lm_cache tn_lm_cache;

/* Makes a cache for at most `sequences` sequences, with indices from 0.
 *
 *   dtype   float32, float16 or bfloat16; default: that of the model. A
 *           narrower dtype saves memory; keys and values are rounded
 *
 * The open scope owns the result. It holds a reference to lm. Returns
 * NULL with TN_ERR_UNSUPPORTED if lm is an encoder. */
#define TN_LM_CACHE_NEW_OPTIONS_LIST(X) X(tn_dtype, dtype, TN_DTYPE_NONE)
TN_OPTIONS_STRUCT(tn_lm_cache_new, TN_LM_CACHE_NEW_OPTIONS_LIST);
#define TN_LM_CACHE_NEW_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_lm_cache_new, TN_LM_CACHE_NEW_OPTIONS_LIST)
TN_API tn_lm_cache *tn_lm_cache_new_with(tn_lm *lm, int sequences,
                                         const tn_lm_cache_new_options *options);

/* Begins sequence i with room for `positions` tokens, and discards its previous
 * tokens. prompt is the length of the prompt in tokens: rotary embeddings with
 * dynamic or longrope scaling depend on it. Fails with TN_ERR_ARGUMENT if
 * positions is more than the model allows, or with TN_ERR_MEMORY. */
TN_API tn_status tn_lm_cache_begin(tn_lm_cache *cache, int i,
                                   int64_t positions, int64_t prompt);
/* Frees the memory of sequence i. Cannot fail for a valid i. */
TN_API tn_status tn_lm_cache_end(tn_lm_cache *cache, int i);
/* Keeps the first `length` tokens of sequence i and removes the rest. On
 * failure the sequence is unchanged. */
TN_API tn_status tn_lm_cache_cut(tn_lm_cache *cache, int i, int64_t length);
/* Begins sequence i with the first `length` tokens of sequence `from`. Their
 * keys and values are copied instead of computed. So several texts can continue
 * one prompt, or a chat can continue from an earlier turn:
 *
 *     tn_lm_cache_begin(cache, 0, 100, 20);       // decode 20 tokens, then
 *     tn_lm_cache_fork(cache, 1, 0, 20, 100, 20); // continue them twice
 *
 *   i          its previous tokens are lost. i may equal `from`: this cuts the
 *              sequence to `length` tokens and changes its room
 *   positions  room of sequence i in tokens
 *   prompt     as in tn_lm_cache_begin; at least length, or the value with
 *              which `from` began
 *
 * On failure sequence i is unchanged. Fails with TN_ERR_ARGUMENT if `from` has
 * not begun or has fewer than length tokens; with TN_ERR_UNSUPPORTED if the
 * rotary embedding has another scale for a prompt of this length; or with
 * TN_ERR_MEMORY. */
TN_API tn_status tn_lm_cache_fork(tn_lm_cache *cache, int i, int from,
                                  int64_t length, int64_t positions,
                                  int64_t prompt);
/* Returns the number of tokens that sequence i holds. 0 for an invalid i. */
TN_API int64_t tn_lm_cache_length(const tn_lm_cache *cache, int i);

/* New tokens of a sequence of a cache. Closed. */
typedef struct tn_lm_tokens {
    int sequence;        /* its index in the cache */
    const int64_t *ids;
    int64_t count;       /* at least 1 */
    bool all_logits;     /* false: logits for the last token only */
} tn_lm_tokens;

/* Appends tokens to sequences and runs the model on them. Returns logits (rows,
 * vocabulary): a row for the last token of each element of list, or for all its
 * tokens with all_logits. Nothing is recorded for gradients. On failure the
 * sequences keep their lengths. Fails with TN_ERR_ARGUMENT if a sequence has
 * not begun, occurs twice, or has too little room. */
TN_API tn_tensor *tn_lm_decode(tn_lm_cache *cache, const tn_lm_tokens *list,
                               int count);

/* ---- generation ---------------------------------------------------------- */

/* A token that was generated. Closed. */
typedef struct tn_lm_token {
    int request;     /* what tn_lm_batch_add returned; in tn_lm_generate the
                        index of the sample */
    int64_t id;
    int64_t index;   /* 0 for the first generated token */
    double logprob;  /* its natural log-probability, by the model's logits
                        without penalties and temperature */
} tn_lm_token;
/* Called for each token. Returns false to end the sequence. */
typedef bool (*tn_lm_on_token)(const tn_lm_token *token, void *context);

/* A value that is added to the logit of a token before each choice. -INFINITY
 * forbids the token. Closed. */
typedef struct tn_lm_bias {
    int64_t id;
    double value;
} tn_lm_bias;
/* A sequence of tokens that ends generation. Closed. */
typedef struct tn_lm_stop {
    const int64_t *ids;
    int count;
} tn_lm_stop;

/* How tokens are chosen. The steps apply in this order: bias, penalties,
 * temperature, top_k, top_p, min_p.
 *
 *   temperature         0 chooses the most likely token (greedy)
 *   top_k               draws from the k most likely tokens; 0: no limit
 *   top_p               draws from the smallest set of most likely tokens whose
 *                       probabilities add up to at least top_p
 *   min_p               excludes tokens whose probability is less than min_p
 *                       times that of the most likely token
 *   repetition_penalty  divides the positive logits and multiplies the
 *                       negative logits of tokens that occur in the prompt or
 *                       in the generated text (arXiv:1909.05858)
 *   presence_penalty    is subtracted from the logits of tokens that occur in
 *                       the generated text
 *   frequency_penalty   is subtracted once for each of these occurrences
 *   seed                seed of the request's own random generator; sample i of
 *                       tn_lm_generate uses seed + i
 *   eos                 the token that ends the sequence; default: eos_token_id
 *                       of the folder's config
 *   ignore_eos          true: no token ends the sequence
 *   stop, stop_count    sequences of tokens that end generation; they stay in
 *                       the generated text
 *   on_token, context   the function to call for each token, and its context */
#define TN_LM_REQUEST_ROWS(X)                                                 \
    X(int64_t, max_tokens, 128)                                               \
    X(double, temperature, 0)                                                 \
    X(int64_t, top_k, 0)                                                      \
    X(double, top_p, 1)                                                       \
    X(double, min_p, 0)                                                       \
    X(double, repetition_penalty, 1)                                          \
    X(double, presence_penalty, 0)                                            \
    X(double, frequency_penalty, 0)                                           \
    X(uint64_t, seed, 0)                                                      \
    X(int64_t, eos, TN_NONE_INT)                                              \
    X(bool, ignore_eos, false)                                                \
    X(const tn_lm_bias *, bias, NULL)                                         \
    X(int, bias_count, 0)                                                     \
    X(const tn_lm_stop *, stop, NULL)                                         \
    X(int, stop_count, 0)                                                     \
    X(tn_lm_on_token, on_token, NULL)                                         \
    X(void *, context, NULL)
#define TN_LM_BATCH_ADD_OPTIONS_LIST(X) TN_LM_REQUEST_ROWS(X)
TN_OPTIONS_STRUCT(tn_lm_batch_add, TN_LM_BATCH_ADD_OPTIONS_LIST);
#define TN_LM_BATCH_ADD_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_lm_batch_add, TN_LM_BATCH_ADD_OPTIONS_LIST)

/* Why a sequence ended. */
enum {
    TN_LM_RUNNING,  /* it has not ended */
    TN_LM_EOS,      /* the end-of-sequence token */
    TN_LM_STOPPED,  /* a stop sequence */
    TN_LM_LENGTH,   /* max_tokens, or the model's longest sequence */
    TN_LM_CANCELLED /* on_token returned false, or tn_lm_batch_remove */
};

/* Requests whose texts are generated together. They may join and leave at any
 * time. */
typedef struct tn_lm_batch tn_lm_batch;

/* Makes a batch of at most `sequences` running sequences.
 *
 *   block        maximum number of tokens of a prompt that one step processes
 *   cache_dtype  dtype of the key-value cache
 *   reuse        whether requests share work. If a prompt begins with the same
 *                tokens as another request, running or ended, it reuses their
 *                keys and values. So a turn of a chat computes only its new
 *                tokens. Results are bit-identical to those without reuse. An
 *                ended request keeps its cache memory until another request
 *                needs it. If the model's weights change, make a new batch */
#define TN_LM_BATCH_NEW_OPTIONS_LIST(X)                                       \
    X(int64_t, block, 512)                                                    \
    X(tn_dtype, cache_dtype, TN_DTYPE_NONE)                                   \
    X(bool, reuse, true)
TN_OPTIONS_STRUCT(tn_lm_batch_new, TN_LM_BATCH_NEW_OPTIONS_LIST);
#define TN_LM_BATCH_NEW_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_lm_batch_new, TN_LM_BATCH_NEW_OPTIONS_LIST)
TN_API tn_lm_batch *tn_lm_batch_new_with(tn_lm *lm, int sequences,
                                         const tn_lm_batch_new_options *options);

/* Adds a request whose prompt is the `count` tokens ids. Copies the tokens, the
 * biases and the stop sequences. Returns the request's id. Ids begin at 0 and
 * are not reused. Returns a negative status on failure, such as TN_ERR_STATE if
 * the batch is full. */
TN_API int tn_lm_batch_add_with(tn_lm_batch *batch, const int64_t *ids,
                                int64_t count,
                                const tn_lm_batch_add_options *options);
/* Runs the model once for all running requests: each gets a block of its prompt
 * or one token. Returns the number of requests that still run, or a negative
 * status. */
TN_API int tn_lm_batch_step(tn_lm_batch *batch);
/* Ends request early (TN_LM_CANCELLED). Does nothing if it has ended. */
TN_API tn_status tn_lm_batch_remove(tn_lm_batch *batch, int request);
/* Returns how many tokens of a request's prompt were reused from another
 * request instead of computed (.reuse of tn_lm_batch_new). 0 for an unknown
 * request. Cannot fail. */
TN_API int64_t tn_lm_batch_cached(const tn_lm_batch *batch, int request);
/* Return the generated tokens of a request, their log-probabilities, their
 * number, and why it ended (TN_LM_...). The arrays are valid until the next
 * step; those of a request that has ended are valid while batch lives. For an
 * unknown request they return NULL, 0 and TN_LM_RUNNING. Cannot fail. */
TN_API const int64_t *tn_lm_batch_ids(const tn_lm_batch *batch, int request);
TN_API const double *tn_lm_batch_logprobs(const tn_lm_batch *batch,
                                          int request);
TN_API int64_t tn_lm_batch_length(const tn_lm_batch *batch, int request);
TN_API int tn_lm_batch_end(const tn_lm_batch *batch, int request);

/* What tn_lm_generate returns: the samples, in falling order of their mean
 * log-probability. */
typedef struct tn_lm_result tn_lm_result;

/* Options of tn_lm_generate, besides those of a request and of a batch:
 *
 *   samples  number of sequences to draw; each continues the same prompt, whose
 *            keys and values are computed once
 *   best     number of sequences to return; 0: all
 *
 * For the turns of a chat use tn_lm_batch, which reuses the keys and values of
 * earlier turns. */
#define TN_LM_GENERATE_OPTIONS_LIST(X)                                        \
    TN_LM_REQUEST_ROWS(X)                                                     \
    X(int, samples, 1)                                                        \
    X(int, best, 0)                                                           \
    X(int64_t, block, 512)                                                    \
    X(tn_dtype, cache_dtype, TN_DTYPE_NONE)
TN_OPTIONS_STRUCT(tn_lm_generate, TN_LM_GENERATE_OPTIONS_LIST);
#define TN_LM_GENERATE_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_lm_generate, TN_LM_GENERATE_OPTIONS_LIST)
/* Continues the count tokens ids. The open scope owns the result. Returns NULL
 * with TN_ERR_ARGUMENT for an option or a token that is out of range,
 * TN_ERR_UNSUPPORTED if lm is an encoder. */
TN_API tn_lm_result *tn_lm_generate_with(tn_lm *lm, const int64_t *ids,
                                         int64_t count,
                                         const tn_lm_generate_options *options);
/* Return the number of sequences; then the generated tokens of sequence i,
 * their log-probabilities, their number, and why the sequence ended
 * (TN_LM_...). The arrays are valid while result lives. They return NULL or 0
 * if i is out of range. Cannot fail. */
TN_API int tn_lm_result_count(const tn_lm_result *result);
TN_API const int64_t *tn_lm_result_ids(const tn_lm_result *result, int i);
TN_API const double *tn_lm_result_logprobs(const tn_lm_result *result, int i);
TN_API int64_t tn_lm_result_length(const tn_lm_result *result, int i);
TN_API int tn_lm_result_end(const tn_lm_result *result, int i);

/* Stores the natural log-probability of ids[i + 1] after ids[0] .. ids[i] in
 * out[i], for i < count - 1, and returns the perplexity, exp(-mean of out). out
 * may be NULL. Returns NAN on failure (TN_ERR_ARGUMENT if count is below 2). */
TN_API double tn_lm_score(tn_lm *lm, const int64_t *ids, int64_t count,
                          double *out);

/* ---- sentence embeddings ------------------------------------------------- */

/* Options of tn_lm_embed:
 *   pooling    "mean" of the tokens, "cls" (the first), "max", "last"; default:
 *              what the folder says (1_Pooling/config.json), else "mean"
 *   normalize  1 or 0: whether to divide by the Euclidean length; default: what
 *              the folder says (modules.json), else 0 */
#define TN_LM_EMBED_OPTIONS_LIST(X)                                           \
    X(const char *, pooling, NULL)                                            \
    X(int, normalize, -1)
TN_OPTIONS_STRUCT(tn_lm_embed, TN_LM_EMBED_OPTIONS_LIST);
#define TN_LM_EMBED_OPTIONS                                                   \
    TN_OPTIONS_DEFAULTS(tn_lm_embed, TN_LM_EMBED_OPTIONS_LIST)
/* Returns the embeddings (count, hidden) of count texts. ids[i] points to the
 * lengths[i] tokens of text i. lm may be an encoder or a decoder. The open
 * scope owns the result. */
TN_API tn_tensor *tn_lm_embed_with(tn_lm *lm, const int64_t *const *ids,
                                   const int64_t *lengths, int count,
                                   const tn_lm_embed_options *options);

/* ---- layers -----------------------------------------------------------------
 * The layers that language models are built from, with random weights. Each
 * function returns a module owned by the open scope. Shapes: x (..., time,
 * hidden). Returns NULL with TN_ERR_ARGUMENT for a size or option that is not
 * allowed. */

/* Computes x / sqrt(mean(x ** 2) + eps) * (offset + weight), where the mean is
 * taken over the last dimension, which has `size` elements. Gemma has an offset
 * of 1. With an offset of 0 it is the same as tn_nn_rms_norm.
 * Parameter: weight (size). Source: arXiv:1910.07467. */
#define TN_LM_RMS_NORM_OPTIONS_LIST(X)                                        \
    X(double, eps, 1e-6)                                                      \
    X(double, offset, 0)
TN_OPTIONS_STRUCT(tn_lm_rms_norm, TN_LM_RMS_NORM_OPTIONS_LIST);
#define TN_LM_RMS_NORM_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_lm_rms_norm, TN_LM_RMS_NORM_OPTIONS_LIST)
TN_API tn_module *tn_lm_rms_norm_with(int64_t size,
                                      const tn_lm_rms_norm_options *options);

/* Rotary position embedding (arXiv:2104.09864) of x (..., time, heads,
 * head_dim): rotates the pairs (i, i + dim / 2) of the first dim elements by
 * position / base ** (2 i / dim). Signature: "x, positions? -> y"; positions
 * (time), int64, default to 0, 1, ...
 *
 *   scaling  "none", "linear", "dynamic", "yarn" (arXiv:2309.00071), "longrope"
 *            (arXiv:2402.13753) or "llama3"
 *   factor, original_positions, low_freq_factor, high_freq_factor, beta_fast,
 *   beta_slow, attention_factor, mscale, mscale_all_dim, truncate
 *            as in transformers' rope_parameters
 *   short_factor, long_factor   dim / 2 factors each, for longrope */
#define TN_LM_ROTARY_OPTIONS_LIST(X)                                          \
    X(double, base, 10000)                                                    \
    X(const char *, scaling, "none")                                          \
    X(double, factor, 1)                                                      \
    X(int64_t, original_positions, 0)                                         \
    X(double, low_freq_factor, 1)                                             \
    X(double, high_freq_factor, 4)                                            \
    X(double, beta_fast, 32)                                                  \
    X(double, beta_slow, 1)                                                   \
    X(double, attention_factor, TN_NONE_FLOAT)                                \
    X(double, mscale, 0)                                                      \
    X(double, mscale_all_dim, 0)                                              \
    X(bool, truncate, true)                                                   \
    X(const double *, short_factor, NULL)                                     \
    X(const double *, long_factor, NULL)
TN_OPTIONS_STRUCT(tn_lm_rotary, TN_LM_ROTARY_OPTIONS_LIST);
#define TN_LM_ROTARY_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_lm_rotary, TN_LM_ROTARY_OPTIONS_LIST)
TN_API tn_module *tn_lm_rotary_with(int64_t dim,
                                    const tn_lm_rotary_options *options);

/* Causal self-attention with grouped heads. Parameters: q_proj.weight,
 * k_proj.weight, v_proj.weight, o_proj.weight, and bias with bias. Signature:
 * "x, cos?, sin?, mask? -> y", where cos and sin are (time, dim) and mask is
 * that of tn_scaled_dot_product_attention.
 *
 *   kv_heads  number of heads of keys and values; default: heads
 *   head_dim  default: hidden / heads
 *   window    each position attends to itself and to the window - 1 positions
 *             before it; 0: no limit
 *   rotary    a module of tn_lm_rotary that rotates queries and keys if cos is
 *             left out; becomes the child "rotary" */
#define TN_LM_ATTENTION_OPTIONS_LIST(X)                                       \
    X(int64_t, kv_heads, 0)                                                   \
    X(int64_t, head_dim, 0)                                                   \
    X(int64_t, window, 0)                                                     \
    X(bool, bias, false)                                                      \
    X(bool, causal, true)                                                     \
    X(tn_module *, rotary, NULL)
TN_OPTIONS_STRUCT(tn_lm_attention, TN_LM_ATTENTION_OPTIONS_LIST);
#define TN_LM_ATTENTION_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_lm_attention, TN_LM_ATTENTION_OPTIONS_LIST)
TN_API tn_module *tn_lm_attention_with(int64_t hidden, int64_t heads,
                                       const tn_lm_attention_options *options);

/* A gated MLP: down(act(gate(x)) * up(x)), where gate, up and down are linear
 * layers. Parameters: gate_proj.weight, up_proj.weight, down_proj.weight.
 * activation is "silu", "gelu", "gelu_tanh" or "relu". Source:
 * arXiv:2002.05202. */
#define TN_LM_MLP_OPTIONS_LIST(X)                                             \
    X(const char *, activation, "silu")                                       \
    X(bool, bias, false)
TN_OPTIONS_STRUCT(tn_lm_mlp, TN_LM_MLP_OPTIONS_LIST);
#define TN_LM_MLP_OPTIONS                                                     \
    TN_OPTIONS_DEFAULTS(tn_lm_mlp, TN_LM_MLP_OPTIONS_LIST)
TN_API tn_module *tn_lm_mlp_with(int64_t hidden, int64_t inner,
                                 const tn_lm_mlp_options *options);

/* A mixture of experts (arXiv:1701.06538), which are gated MLPs. The linear
 * layer `gate` scores the experts for each token. The output for a token is the
 * sum of the outputs of its per_token best experts, weighted by the softmax of
 * the scores. If normalize is true, these weights are divided by their sum.
 * Children: gate, experts.0, experts.1, ... */
#define TN_LM_EXPERTS_OPTIONS_LIST(X)                                         \
    X(const char *, activation, "silu")                                       \
    X(bool, normalize, true)
TN_OPTIONS_STRUCT(tn_lm_experts, TN_LM_EXPERTS_OPTIONS_LIST);
#define TN_LM_EXPERTS_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_lm_experts, TN_LM_EXPERTS_OPTIONS_LIST)
TN_API tn_module *tn_lm_experts_with(int64_t hidden, int64_t inner,
                                     int experts, int per_token,
                                     const tn_lm_experts_options *options);

#ifndef __cplusplus
#define tn_lm_open(...) TN_CALL_1(tn_lm_open, __VA_ARGS__, )
#define tn_lm_cache_new(...) TN_CALL_2(tn_lm_cache_new, __VA_ARGS__, )
#define tn_lm_batch_new(...) TN_CALL_2(tn_lm_batch_new, __VA_ARGS__, )
#define tn_lm_batch_add(...) TN_CALL_3(tn_lm_batch_add, __VA_ARGS__, )
#define tn_lm_generate(...) TN_CALL_3(tn_lm_generate, __VA_ARGS__, )
#define tn_lm_embed(...) TN_CALL_4(tn_lm_embed, __VA_ARGS__, )
#define tn_lm_rms_norm(...) TN_CALL_1(tn_lm_rms_norm, __VA_ARGS__, )
#define tn_lm_rotary(...) TN_CALL_1(tn_lm_rotary, __VA_ARGS__, )
#define tn_lm_attention(...) TN_CALL_2(tn_lm_attention, __VA_ARGS__, )
#define tn_lm_mlp(...) TN_CALL_2(tn_lm_mlp, __VA_ARGS__, )
#define tn_lm_experts(...) TN_CALL_4(tn_lm_experts, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_1(tn_lm *, tn_lm_open, const char *)
TN_OVERLOAD_2(tn_lm_cache *, tn_lm_cache_new, tn_lm *, int)
TN_OVERLOAD_2(tn_lm_batch *, tn_lm_batch_new, tn_lm *, int)
TN_OVERLOAD_3(int, tn_lm_batch_add, tn_lm_batch *, const int64_t *, int64_t)
TN_OVERLOAD_3(tn_lm_result *, tn_lm_generate, tn_lm *, const int64_t *, int64_t)
TN_OVERLOAD_4(tn_tensor *, tn_lm_embed, tn_lm *, const int64_t *const *,
              const int64_t *, int)
TN_OVERLOAD_1(tn_module *, tn_lm_rms_norm, int64_t)
TN_OVERLOAD_1(tn_module *, tn_lm_rotary, int64_t)
TN_OVERLOAD_2(tn_module *, tn_lm_attention, int64_t, int64_t)
TN_OVERLOAD_2(tn_module *, tn_lm_mlp, int64_t, int64_t)
TN_OVERLOAD_4(tn_module *, tn_lm_experts, int64_t, int64_t, int, int)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
