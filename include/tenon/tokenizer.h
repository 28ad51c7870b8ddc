/* <tenon/tokenizer.h>: converts texts to the ids that a language model reads,
 * and ids to texts.
 *
 * A tokenizer is read from a file: tokenizer.json of Hugging Face, the
 * vocabulary in a GGUF file, or a tiktoken file. Its ids are those of the
 * library that the file was made for.
 *
 *     tn_tokenizer *tokenizer = tn_tokenizer_open("SmolLM2-135M");
 *     tn_encoding *prompt = tn_tokenizer_encode(tokenizer, "Hello world!");
 *     for (int64_t i = 0; i < tn_encoding_count(prompt); i++)
 *         printf("%" PRId64 " ", tn_encoding_ids(prompt)[i]);
 *     puts(tn_tokenizer_decode(tokenizer, tn_encoding_ids(prompt),
 *                              tn_encoding_count(prompt)));
 *
 * Texts are UTF-8. Bytes that are not UTF-8 are encoded as the character
 * U+FFFD, one for each maximal beginning of a character, as Python's
 * bytes.decode(errors="replace") does. Offsets count bytes of the text as it
 * was given.
 *
 * Programs link libtenon-lm: pkg-config --libs tenon-lm.
 *
 * Threads: a tokenizer does not change; any number of threads may use one. An
 * encoding does not change either. A tn_detokenizer belongs to one thread at a
 * time.
 */
#ifndef TENON_TOKENIZER_H
#define TENON_TOKENIZER_H

#include <tenon/options.h>
#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- files --------------------------------------------------------------- */

typedef struct tn_tokenizer tn_tokenizer;

/* pattern: only for tiktoken files, which have no pattern: the regular
 *     expression that splits a text into words, or the name of a known one
 *     ("cl100k_base", "o200k_base", "gpt2", "llama-bpe", "qwen2" ...). Without
 *     it the name is taken from the file's name (cl100k_base.tiktoken). */
#define TN_TOKENIZER_OPEN_OPTIONS_LIST(X) X(const char *, pattern, NULL)
TN_OPTIONS_STRUCT(tn_tokenizer_open, TN_TOKENIZER_OPEN_OPTIONS_LIST);
#define TN_TOKENIZER_OPEN_OPTIONS                                              \
    TN_OPTIONS_DEFAULTS(tn_tokenizer_open, TN_TOKENIZER_OPEN_OPTIONS_LIST)

/* Opens a tokenizer. path is
 *   a folder          with tokenizer.json, and optionally tokenizer_config.json,
 *                     special_tokens_map.json and chat_template.jinja
 *   *.json            a tokenizer.json; the files beside it are read, too
 *   *.gguf            the vocabulary in a GGUF file
 *   another file      tiktoken: lines of a token in base64 and its rank
 *
 * The open scope owns the result. Returns NULL with TN_ERR_IO if a file cannot
 * be read, TN_ERR_FORMAT if it is damaged or is of a kind that Tenon does not
 * support (the message names the file and the key), TN_ERR_ARGUMENT if the
 * pattern is missing or invalid, or TN_ERR_MEMORY if memory runs out. */
TN_API tn_tokenizer *
tn_tokenizer_open_with(const char *path,
                       const tn_tokenizer_open_options *options);

/* ---- encoding ------------------------------------------------------------ */

/* The ids of one text, or of a pair of texts. */
typedef struct tn_encoding tn_encoding;

/* bytes:         length of the text; TN_NONE_INT: up to its NUL
 * pair:          a second text, which follows the first as the template in the
 *                file defines (question and answer); NULL: none
 * special:       add the special tokens of the template, such as <s> or [CLS]
 * parse_special: special tokens that occur in the text ("<|im_end|>") become
 *                their ids; false: they are encoded as plain text. Set it to
 *                false for texts from users.
 * max_count:     at most that many ids, special ones included: the texts are
 *                cut at their ends, the longer text first; TN_NONE_INT: all */
#define TN_TOKENIZER_ENCODE_OPTIONS_LIST(X)                                    \
    X(int64_t, bytes, TN_NONE_INT)                                             \
    X(const char *, pair, NULL)                                                \
    X(bool, special, true)                                                     \
    X(bool, parse_special, true)                                               \
    X(int64_t, max_count, TN_NONE_INT)
TN_OPTIONS_STRUCT(tn_tokenizer_encode, TN_TOKENIZER_ENCODE_OPTIONS_LIST);
#define TN_TOKENIZER_ENCODE_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_tokenizer_encode, TN_TOKENIZER_ENCODE_OPTIONS_LIST)

/* Encodes a text. The open scope owns the result. Returns NULL with
 * TN_ERR_ARGUMENT if an option is invalid or the text is longer than 2 GiB,
 * TN_ERR_STATE if the model has no token for a character and no unknown token,
 * or TN_ERR_MEMORY if memory runs out. */
TN_API tn_encoding *
tn_tokenizer_encode_with(tn_tokenizer *tokenizer, const char *text,
                         const tn_tokenizer_encode_options *options);

/* Return arrays of tn_encoding_count elements (offsets: twice as many),
 * which are valid while the encoding lives. Return NULL, or 0, if encoding is
 * NULL. Cannot fail.
 *   ids      token ids
 *   offsets  first byte of the text and the byte after the last one that token
 *            i represents, at 2 i and 2 i + 1; 0, 0 for special tokens that
 *            the template added. For the tokens of a pair's second text, the
 *            offsets are those in that text
 *   types    0, or 1 for the second text, as the template says
 *   special  1 for tokens that the template added */
TN_API int64_t tn_encoding_count(const tn_encoding *encoding);
TN_API const int64_t *tn_encoding_ids(const tn_encoding *encoding);
TN_API const int64_t *tn_encoding_offsets(const tn_encoding *encoding);
TN_API const int64_t *tn_encoding_types(const tn_encoding *encoding);
TN_API const uint8_t *tn_encoding_special(const tn_encoding *encoding);

/* special, parse_special, max_count: as for tn_tokenizer_encode. */
#define TN_TOKENIZER_BATCH_OPTIONS_LIST(X)                                     \
    X(bool, special, true)                                                     \
    X(bool, parse_special, true)                                               \
    X(int64_t, max_count, TN_NONE_INT)                                         \
    X(tn_tensor **, out_mask, NULL)
TN_OPTIONS_STRUCT(tn_tokenizer_batch, TN_TOKENIZER_BATCH_OPTIONS_LIST);
#define TN_TOKENIZER_BATCH_OPTIONS                                             \
    TN_OPTIONS_DEFAULTS(tn_tokenizer_batch, TN_TOKENIZER_BATCH_OPTIONS_LIST)

/* Encodes count texts, padded to the length of the longest.
 *
 *   returns   (count, longest)   int64 ids, on the current device; padding has
 *                                the id of the padding token, or 0, and is on
 *                                the side that the file says (right)
 *   out_mask  (count, longest)   int64: 1 for ids, 0 for padding
 *
 * The open scope owns both. Errors as for tn_tokenizer_encode. */
TN_API tn_tensor *
tn_tokenizer_batch_with(tn_tokenizer *tokenizer, const char *const *texts,
                        int64_t count,
                        const tn_tokenizer_batch_options *options);

/* ---- decoding ------------------------------------------------------------ */

/* special: false: special tokens are left out of the text
 * out_bytes: length of the text, which may contain NULs; may be NULL */
#define TN_TOKENIZER_DECODE_OPTIONS_LIST(X)                                    \
    X(bool, special, true)                                                     \
    X(int64_t *, out_bytes, NULL)
TN_OPTIONS_STRUCT(tn_tokenizer_decode, TN_TOKENIZER_DECODE_OPTIONS_LIST);
#define TN_TOKENIZER_DECODE_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_tokenizer_decode, TN_TOKENIZER_DECODE_OPTIONS_LIST)

/* Returns the text of count ids, which ends with a NUL. Bytes that do not form
 * a character become U+FFFD. Ids without a token are skipped, as in Hugging
 * Face's tokenizers. The open scope owns the text. Returns NULL with
 * TN_ERR_ARGUMENT if count is negative, or TN_ERR_MEMORY if memory runs out. */
TN_API const char *
tn_tokenizer_decode_with(tn_tokenizer *tokenizer, const int64_t *ids,
                         int64_t count,
                         const tn_tokenizer_decode_options *options);

/* A detokenizer decodes ids as a model generates them. It returns text as soon
 * as its characters are complete:
 *
 *     tn_detokenizer *stream = tn_detokenizer_new(tokenizer);
 *     while ((id = next_token()) != eos)
 *         fputs(tn_detokenizer_add(stream, id), stdout);
 *     puts(tn_detokenizer_end(stream));
 */
typedef struct tn_detokenizer tn_detokenizer;
#define TN_DETOKENIZER_NEW_OPTIONS_LIST(X) X(bool, special, true)
TN_OPTIONS_STRUCT(tn_detokenizer_new, TN_DETOKENIZER_NEW_OPTIONS_LIST);
#define TN_DETOKENIZER_NEW_OPTIONS                                             \
    TN_OPTIONS_DEFAULTS(tn_detokenizer_new, TN_DETOKENIZER_NEW_OPTIONS_LIST)

/* Makes a detokenizer, which holds a reference to the tokenizer. The open scope
 * owns it. Returns NULL with TN_ERR_MEMORY if memory runs out. */
TN_API tn_detokenizer *
tn_detokenizer_new_with(tn_tokenizer *tokenizer,
                        const tn_detokenizer_new_options *options);
/* Adds an id and returns the text that is now complete, "" if there is none.
 * The text is valid until the next call with this detokenizer. Returns NULL
 * with TN_ERR_MEMORY if memory runs out. */
TN_API const char *tn_detokenizer_add(tn_detokenizer *detokenizer,
                                      int64_t id);
/* Returns the remaining text, in which an incomplete character becomes U+FFFD,
 * and resets the detokenizer. */
TN_API const char *tn_detokenizer_end(tn_detokenizer *detokenizer);

/* ---- the vocabulary ------------------------------------------------------ */

/* Returns the largest id plus 1, including added tokens. 0 for NULL. Cannot
 * fail. */
TN_API int64_t tn_tokenizer_vocab_size(const tn_tokenizer *tokenizer);
/* Returns the id of a token as it is written in the file ("Ġworld"), or -1.
 * Cannot fail. */
TN_API int64_t tn_tokenizer_id(const tn_tokenizer *tokenizer,
                               const char *token);
/* Returns a token as it is written in the file, or NULL if none has this id.
 * The tokenizer owns the text. *out_bytes, if out_bytes is not NULL, becomes
 * its length: tokens of tiktoken files are arbitrary bytes. Cannot fail. */
TN_API const char *tn_tokenizer_token(const tn_tokenizer *tokenizer,
                                      int64_t id, int64_t *out_bytes);
/* Returns whether the id is that of a special token. Cannot fail. */
TN_API bool tn_tokenizer_is_special(const tn_tokenizer *tokenizer,
                                    int64_t id);
/* Returns the id of the token with a role: "bos", "eos", "pad", "unk", "sep",
 * "cls" or "mask", as the files say; -1 if there is none, or for another name.
 * Cannot fail. */
TN_API int64_t tn_tokenizer_special_id(const tn_tokenizer *tokenizer,
                                       const char *role);
/* Returns the chat template in the files (Jinja), or NULL. The tokenizer owns
 * it. Cannot fail. */
TN_API const char *
tn_tokenizer_chat_template(const tn_tokenizer *tokenizer);

#ifndef __cplusplus
#define tn_tokenizer_open(...) TN_CALL_1(tn_tokenizer_open, __VA_ARGS__, )
#define tn_tokenizer_encode(...) TN_CALL_2(tn_tokenizer_encode, __VA_ARGS__, )
#define tn_tokenizer_batch(...) TN_CALL_3(tn_tokenizer_batch, __VA_ARGS__, )
#define tn_tokenizer_decode(...) TN_CALL_3(tn_tokenizer_decode, __VA_ARGS__, )
#define tn_detokenizer_new(...) TN_CALL_1(tn_detokenizer_new, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_1(tn_tokenizer *, tn_tokenizer_open, const char *)
TN_OVERLOAD_2(tn_encoding *, tn_tokenizer_encode, tn_tokenizer *, const char *)
TN_OVERLOAD_3(tn_tensor *, tn_tokenizer_batch, tn_tokenizer *,
              const char *const *, int64_t)
TN_OVERLOAD_3(const char *, tn_tokenizer_decode, tn_tokenizer *,
              const int64_t *, int64_t)
TN_OVERLOAD_1(tn_detokenizer *, tn_detokenizer_new, tn_tokenizer *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
