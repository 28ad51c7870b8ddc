/* pipeline.h: converts text to ids, and ids to text.
 *
 * While a text is processed, it is in a buffer, and a list of pieces divides
 * the buffer into parts. A piece is either an added token, which has its id, or
 * text. Each normalizer, pre-tokenizer and decoder is a step: it rewrites the
 * buffer, splits pieces, or both. A sequence of them is a list of steps. The
 * model then converts each piece to ids, and the template adds special
 * tokens. */
#ifndef TN_LIB_LM_TOKENIZER_PIPELINE_H
#define TN_LIB_LM_TOKENIZER_PIPELINE_H

#include <lm/tokenizer/regex.h>
#include <lm/tokenizer/vocab.h>

#include <json/json.h>
#include <tenon/tokenizer.h>

/* The range of bytes of the original text from which a byte of the buffer was
 * made. */
typedef struct tn__origin {
    uint32_t from, to;
} tn__origin;

/* Texts are shorter than this, so that an offset fits in 32 bits. */
#define TN__MOST_TEXT ((size_t)INT32_MAX)

typedef struct tn__buffer {
    unsigned char *bytes;
    tn__origin *origin;
    size_t count, room, origin_room;
} tn__buffer;

typedef struct tn__piece {
    uint32_t begin, end;
    int32_t id; /* of an added token; -1: text */
} tn__piece;

typedef struct tn__pieces {
    tn__piece *piece;
    size_t count, room;
} tn__pieces;

/* Scratch memory of one call, used by one thread at a time. */
typedef struct tn__work {
    bool offsets;        /* origin is filled in */
    bool raw;            /* decoding: bytes that are not UTF-8 stay */
    tn__buffer text, spare_text;
    tn__pieces pieces, spare_pieces;
    tn__regex_run regex;
    /* the ids so far; span[i] is the part of the buffer that id[i] covers */
    int32_t *id;
    tn__piece *span; /* its id is that of an added token, or -1 */
    size_t id_count, id_room, span_room;
    /* scratch memory of the models */
    void *scratch;
    size_t scratch_room;
    /* scratch memory of normal forms (normalize.c) */
    struct tn__form_char {
        int32_t c;
        int16_t class; /* of combining */
        int32_t change;
    } *chars;
    size_t chars_room;
} tn__work;

void tn__work_free(tn__work *work);
/* Empties *work for another text. Allocates memory for both buffers, so that a
 * pointer into an empty buffer is valid. */
bool tn__work_begin(tn__work *work);

/* Makes room for `more` bytes. */
bool tn__buffer_reserve(tn__work *work, tn__buffer *buffer, size_t more);
/* Append bytes that all have the same origin. */
bool tn__buffer_add(tn__work *work, tn__buffer *buffer, const void *bytes,
                    size_t count, tn__origin origin);
/* Appends bytes [begin, end) of the current text with their origins. */
bool tn__buffer_copy(tn__work *work, tn__buffer *buffer, size_t begin,
                     size_t end);
bool tn__buffer_add_char(tn__work *work, tn__buffer *buffer, int32_t c,
                         tn__origin origin);
/* Returns where byte `at` of the text comes from. */
tn__origin tn__origin_at(const tn__work *work, size_t at);
bool tn__is_ascii(const unsigned char *text, size_t count);
bool tn__pieces_add(tn__pieces *pieces, size_t begin, size_t end, int32_t id);
/* Appends an id that covers bytes [begin, end) of the text. */
bool tn__work_add_id(tn__work *work, int32_t id, size_t begin, size_t end);

typedef struct tn__step tn__step;

/* Rewrites every piece of text: calls rewrite for each, which appends its new
 * bytes to `out`. Pieces that become empty are removed. */
bool tn__rewrite(const tn__step *step, tn__work *work,
                 bool (*rewrite)(const tn__step *step, tn__work *work,
                                 const tn__piece *piece, tn__buffer *out));
/* Replaces the list of pieces: calls split for each piece of text, which
 * appends its parts to `out`. Empty parts are left out. */
bool tn__split(const tn__step *step, tn__work *work,
               bool (*split)(const tn__step *step, tn__work *work,
                             const tn__piece *piece, tn__pieces *out));

typedef enum tn__behavior {
    TN__REMOVED,
    TN__ISOLATED,
    TN__MERGED_WITH_PREVIOUS,
    TN__MERGED_WITH_NEXT,
    TN__CONTIGUOUS
} tn__behavior;

enum { TN__PREPEND_ALWAYS, TN__PREPEND_FIRST, TN__PREPEND_NEVER };

/* A step and its parameters; each kind uses some. */
struct tn__step {
    bool (*run)(const tn__step *step, tn__work *work);
    tn__step *next;
    /* string parameters: a pattern or a string to replace, and its
     * replacement */
    const char *text, *content;
    size_t text_bytes, content_bytes;
    const tn__regex *regex;
    const tn__set *set, *space;
    tn__behavior behavior;
    bool invert, flag[4];
    int prepend;
    int64_t number[4];
    const struct tn__charsmap *charsmap;
    const tn__step *inner; /* a list of steps that this one consists of */
};

typedef struct tn__steps {
    tn__step *first, *last;
} tn__steps;

/* ---- reading files ------------------------------------------------------- */

/* The state that all readers of tokenizer files share: the file's name for
 * messages, and memory. */
typedef struct tn__reader {
    tn__own *arena;
    const char *path;  /* of the file, for messages */
    const char *key;   /* the member being read, for messages: "normalizer" */
} tn__reader;

/* Records "tokenizer_open: path: key: why". Returns false. */
bool tn__refuse(const tn__reader *reader, tn_status code, const char *format,
                ...) __attribute__((format(printf, 3, 4)));

typedef struct tn__step_kind {
    const char *name; /* the type in the file */
    bool (*parse)(const tn__reader *reader, const tn__json_value *value,
                  tn__step *step);
} tn__step_kind;

/* Parses a value of the file and appends its steps. The value is an object with
 * a type, or a Sequence, whose list is called `member`, or null, which has no
 * steps. */
bool tn__steps_parse(const tn__reader *reader, const tn__json_value *value,
                     const tn__step_kind *kind, size_t kind_count,
                     const char *member, tn__steps *steps);
/* Appends a step to the list. Returns NULL if memory ran out. */
tn__step *tn__steps_add(tn__own *arena, tn__steps *steps);
bool tn__steps_run(const tn__steps *steps, tn__work *work);

bool tn__normalizer_parse(const tn__reader *reader,
                          const tn__json_value *value, tn__steps *steps);
bool tn__pretokenizer_parse(const tn__reader *reader,
                            const tn__json_value *value, tn__steps *steps);
bool tn__decoder_parse(const tn__reader *reader, const tn__json_value *value,
                       tn__steps *steps);

/* Read members of an object. A missing or null member has the default; a member
 * of another type is an error that names it. */
bool tn__member_bool(const tn__reader *reader, const tn__json_value *object,
                     const char *name, bool otherwise, bool *out);
bool tn__member_integer(const tn__reader *reader, const tn__json_value *object,
                        const char *name, int64_t otherwise, int64_t *out);
bool tn__member_text(const tn__reader *reader, const tn__json_value *object,
                     const char *name, const char *otherwise,
                     const char **text, size_t *bytes);
/* {"String": ..} or {"Regex": ..} of the member "pattern" */
bool tn__member_pattern(const tn__reader *reader, const tn__json_value *object,
                        tn__step *step);
bool tn__compile(const tn__reader *reader, const char *pattern, size_t bytes,
                 const tn__regex **out);

/* Steps that the readers of GGUF and tiktoken files need, too. */
bool tn__step_byte_level(const tn__step *step, tn__work *work);
bool tn__step_split_regex(const tn__step *step, tn__work *work);
bool tn__step_decode_byte_level(const tn__step *step, tn__work *work);
bool tn__step_decode_join(const tn__step *step, tn__work *work);
bool tn__step_decode_byte_fallback(const tn__step *step, tn__work *work);
bool tn__step_decode_replace(const tn__step *step, tn__work *work);
bool tn__step_decode_strip(const tn__step *step, tn__work *work);
bool tn__step_replace(const tn__step *step, tn__work *work);
bool tn__step_form(const tn__step *step, tn__work *work);
bool tn__step_prepend(const tn__step *step, tn__work *work);
/* BERT's normalizer, with lower case and without accents, and its
 * pre-tokenizer. */
bool tn__steps_bert(const tn__reader *reader, tn__steps *normalizer,
                    tn__steps *pretokenizer);
struct tn__pattern;
bool tn__patterns_add(const tn__reader *reader,
                      const struct tn__pattern *pattern, tn__steps *steps);

/* Returns the byte that a character stands for in byte-level vocabularies, or
 * -1 if it stands for none. */
int tn__char_byte(int32_t c);

/* Parses SentencePiece's normalization rules (charsmap.c). */
const struct tn__charsmap *tn__charsmap_new(const tn__reader *reader,
                                            const char *base64, size_t bytes);
bool tn__step_charsmap(const tn__step *step, tn__work *work);
/* Decodes base64 into out, which has room for bytes / 4 * 3. Returns the number
 * of bytes, or -1 if it is invalid. */
int64_t tn__base64(const char *text, size_t bytes, unsigned char *out);

/* ---- models -------------------------------------------------------------- */

typedef struct tn__merge {
    uint64_t pair; /* ids of left << 32 | right; UINT64_MAX: free slot */
    uint32_t rank;
    int32_t id;    /* of the merged token */
} tn__merge;

typedef enum tn__model_kind {
    TN__BPE,       /* merges are listed */
    TN__RANKS,     /* two tokens merge if their text is a token; the lowest id
                      first: tiktoken */
    TN__SCORES,    /* SentencePiece's BPE: likewise merges neighbouring tokens,
                      the pair whose merged token has the highest score first */
    TN__WORDPIECE,
    TN__WORDLEVEL,
    TN__UNIGRAM
} tn__model_kind;

typedef struct tn__model {
    tn__model_kind kind;
    tn__vocab vocab;
    int32_t unk; /* -1: none */
    const char *unk_missing; /* the unknown token that the file names, if it is
                                not in the vocabulary */
    bool fuse_unk, byte_fallback, whole_words; /* ignore_merges */
    int32_t byte_id[256]; /* byte_id[b]: id of the token of byte b: "<0x00>" and
                             so on or, for RANKS, the byte itself. -1 if there
                             is none */
    const char *prefix, *suffix; /* continuing_subword_prefix,
                                    end_of_word_suffix; or NULL */
    size_t prefix_bytes, suffix_bytes;
    tn__merge *merge;
    size_t merge_mask;
    int32_t char_id[128]; /* char_id[c]: id of the token that is the ASCII
                             character c, or -1 */
    tn__trie trie;        /* WORDPIECE, UNIGRAM */
    uint32_t trie_prefix; /* WORDPIECE: the node after the prefix */
    int64_t most_chars;   /* WORDPIECE: max_input_chars_per_word */
    double *score;        /* UNIGRAM, by id */
    double least_score;
    /* BPE and SCORES: the set of characters that precede U+2581 within a token.
     * If the character before a U+2581 in a text is not in the set, no token
     * covers both, so the text can be split there and its parts be found in the
     * cache. NULL: texts are never split. */
    const tn__set *before_space;
    struct tn__cache *cache;
} tn__model;

/* Appends the ids of a piece to the work. */
bool tn__model_run(const tn__model *model, tn__work *work,
                   const tn__piece *piece);
bool tn__bpe_run(const tn__model *model, tn__work *work, size_t begin,
                 size_t end);

/* Prepares look-ups once vocab is complete. */
bool tn__model_index(tn__model *model, tn__own *arena);
/* Makes room for `count` merges. */
bool tn__merges_init(tn__model *model, tn__own *arena, size_t count);
/* Prefetches the entry of a merge in the hash table. */
void tn__merges_prefetch(const tn__model *model, int32_t left, int32_t right);
void tn__merges_add(tn__model *model, int32_t left, int32_t right,
                    uint32_t rank, int32_t id);

/* Frees the cache of words. */
void tn__cache_free(struct tn__cache *cache);
enum { TN__CACHE_WORD = 64 }; /* longer words are not cached */

/* ---- the tokenizer ------------------------------------------------------- */

/* Maximum bytes of an added token's text. The limit bounds the time of a
 * search. */
enum { TN__MOST_ADDED = 16384 };

typedef struct tn__added {
    int32_t id;
    const char *content;     /* as in the file */
    size_t content_bytes;
    const char *normal;      /* the text to search for in normalized text */
    size_t normal_bytes;
    bool single_word, lstrip, rstrip, normalized, special;
} tn__added;

typedef struct tn__template_item {
    int32_t id;   /* a special token; -1: sequence A, -2: sequence B */
    int32_t type;
} tn__template_item;

typedef struct tn__template {
    tn__template_item *item;
    size_t count;
} tn__template;

enum { TN__BOS, TN__EOS, TN__PAD, TN__UNK, TN__SEP, TN__CLS, TN__MASK,
       TN__ROLE_COUNT };

struct tn_tokenizer {
    tn_object object;
    tn__own arena;
    void *file; /* contents of the file; tokens point into it */
    const char *path;
    tn__steps normalizer, pretokenizer, decoder;
    bool has_decoder;
    tn__model model;
    tn__added *added;
    size_t added_count;
    tn__vocab added_vocab;   /* content to id */
    int32_t *added_of;       /* by id: index into added, or -1 */
    int32_t id_end;
    bool decoder_has_regex;
    /* added tokens to search for in the original text (raw_trie) and in the
     * normalized text (normal_trie); the ids in the tries are indices into
     * added */
    tn__trie raw_trie, normal_trie;
    const tn__set *word_set, *space_set;
    tn__template single, pair;
    bool trim_offsets, trim_prefix_space;
    bool needs_origin; /* a step needs the origin of the beginning of a piece */
    int64_t most_ids; /* maximum number of ids that the file's truncation
                         allows, or INT64_MAX */
    int32_t pad_id, pad_type;
    bool pad_left;
    int32_t role[TN__ROLE_COUNT];
    const char *chat_template;
};
extern const tn_object_class tn__tokenizer_class;
extern const tn_object_class tn__tokenizer_class;

/* Splits the pieces of text at added tokens. */
bool tn__added_split(const struct tn_tokenizer *tokenizer, tn__work *work,
                     const tn__trie *trie, bool special);
/* Assigns ids to the added tokens, and builds the tables in which they are
 * searched. Must be called after all added tokens, the model and the normalizer
 * have been read. */
bool tn__added_index(struct tn_tokenizer *tokenizer);
/* Decodes ids. The result is in work->text. */
bool tn__decode(const struct tn_tokenizer *tokenizer, tn__work *work,
                const int64_t *ids, size_t count, bool special);

/* Set the templates of a single text and of a pair: without special tokens; or
 * with one special token before and one after each text (-1: none). */
bool tn__template_plain(struct tn_tokenizer *tokenizer);
bool tn__template_around(struct tn_tokenizer *tokenizer, int32_t bos,
                         int32_t eos);
/* Sets them as the member "post_processor" of tokenizer.json says. */
bool tn__template_parse(struct tn_tokenizer *tokenizer, tn__reader *reader,
                        const tn__json_value *value);
/* Reads the member "model" of tokenizer.json. */
bool tn__model_parse(struct tn_tokenizer *tokenizer, tn__reader *reader,
                     const tn__json_value *root);
/* Sets them as the member "post_processor" of tokenizer.json says. */
bool tn__template_parse(struct tn_tokenizer *tokenizer, tn__reader *reader,
                        const tn__json_value *value);
/* Reads the member "model" of tokenizer.json. */
bool tn__model_parse(struct tn_tokenizer *tokenizer, tn__reader *reader,
                     const tn__json_value *root);

/* Read a file into a tokenizer that is still empty. */
bool tn__open_json(struct tn_tokenizer *tokenizer, tn__reader *reader,
                   char *text, size_t bytes);
bool tn__open_gguf(struct tn_tokenizer *tokenizer, tn__reader *reader);
bool tn__open_tiktoken(struct tn_tokenizer *tokenizer, tn__reader *reader,
                       char *text, size_t bytes, const char *pattern);

#endif
