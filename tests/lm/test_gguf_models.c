/* test_gguf_models.c: tests GGUF files as models: the models in data/ give the
 * results of transformers, and inconsistent files are rejected with the name of
 * the tensor or key. */
#include <lm/gguf_model.h>
#include <lm/gguf_writer.h>
#include <unistd.h>

static char scratch[] = "/tmp/tenon-gguf-model-XXXXXX", file_path[64];

/* ---- a small model ------------------------------------------------------- */

enum { HIDDEN = 32, INNER = 16, VOCABULARY = 8, FLOAT32 = 0 };

static const struct {
    const char *name;
    uint64_t size[2]; /* in the order of the file; 0: one dimension */
} tensors[] = {
    {"token_embd.weight", {HIDDEN, VOCABULARY}},
    {"output_norm.weight", {HIDDEN}},
    {"blk.0.attn_norm.weight", {HIDDEN}},
    {"blk.0.attn_q.weight", {HIDDEN, HIDDEN}},
    {"blk.0.attn_k.weight", {HIDDEN, HIDDEN}},
    {"blk.0.attn_v.weight", {HIDDEN, HIDDEN}},
    {"blk.0.attn_output.weight", {HIDDEN, HIDDEN}},
    {"blk.0.ffn_norm.weight", {HIDDEN}},
    {"blk.0.ffn_gate.weight", {HIDDEN, INNER}},
    {"blk.0.ffn_up.weight", {HIDDEN, INNER}},
    {"blk.0.ffn_down.weight", {INNER, HIDDEN}},
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

/* A defect of a file. */
typedef struct defect {
    const char *architecture; /* NULL: llama */
    const char *key;          /* an additional key, or NULL */
    uint32_t value;           /* the value of that key */
    const char *without;      /* name of a missing tensor */
    const char *renamed;      /* the new name of the last tensor */
    const char *odd;          /* name of a tensor with an additional row */
    size_t cut;               /* number of bytes missing at the end */
} defect;

static void put_key(gguf_writer *w, const char *name, uint32_t value)
{
    put_text(w, name);
    put_u32(w, 4);
    put_u32(w, value);
}

static bool is(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static uint64_t size_of(const defect *d, int i, uint64_t size[2])
{
    size[0] = tensors[i].size[0];
    size[1] = tensors[i].size[1];
    if (is(d->odd, tensors[i].name))
        size[size[1] > 0]++;
    return size[0] * (size[1] ? size[1] : 1) * sizeof(float);
}

static const char *write_model(defect d)
{
    gguf_writer w = {0};
    uint64_t offset = 0, size[2];
    put_head(&w, TENSORS - (d.without != NULL), 7 + (d.key != NULL));
    put_text(&w, "general.architecture");
    put_u32(&w, 8);
    put_text(&w, d.architecture ? d.architecture : "llama");
    put_key(&w, "llama.block_count", 1);
    put_key(&w, "llama.embedding_length", HIDDEN);
    put_key(&w, "llama.feed_forward_length", INNER);
    put_key(&w, "llama.attention.head_count", 2);
    put_key(&w, "llama.context_length", 64);
    put_text(&w, "llama.attention.layer_norm_rms_epsilon");
    put_u32(&w, 6);
    put_f32(&w, 1e-5f);
    if (d.key)
        put_key(&w, d.key, d.value);
    for (int i = 0; i < TENSORS; i++) {
        if (is(d.without, tensors[i].name))
            continue;
        const uint64_t bytes = size_of(&d, i, size);
        put_entry(&w, d.renamed && i == TENSORS - 1 ? d.renamed
                                                    : tensors[i].name,
                  size[1] ? 2 : 1, size, FLOAT32, offset);
        offset += (bytes + 31) / 32 * 32;
    }
    put_padding(&w);
    for (int i = 0; i < TENSORS; i++) {
        if (is(d.without, tensors[i].name))
            continue;
        const uint64_t bytes = size_of(&d, i, size);
        for (uint64_t k = 0; k < bytes / sizeof(float); k++)
            put_f32(&w, (float)((k * 7 + (uint64_t)i) % 13) / 13 - 0.4f);
        put_padding(&w);
    }
    snprintf(file_path, sizeof file_path, "%s/x.gguf", scratch);
    if (!write_file(file_path, &w, w.bytes - d.cut))
        bail_out("%s cannot be written", file_path);
    free(w.data);
    return file_path;
}

static void refused(defect d, tn_status code, const char *words,
                    const char *what)
{
    tn_scope *scope = tn_scope_open();
    tn_lm *lm = tn_lm_open(write_model(d));
    const char *error = tn_error();
    ok(!lm && tn_error_code() == code && error &&
           strncmp(error, "lm_open", 7) == 0 && strstr(error, words),
       "%s: %s", what, error ? error : "no error");
    tn_error_clear();
    tn_scope_close(scope);
}

static void test_refusals(void)
{
    int64_t ids[] = {1, 2, 3};
    tn_lm *lm = tn_lm_open(write_model((defect){0}));
    tn_lm_result *result = tn_lm_generate(lm, ids, 3, .max_tokens = 4);
    is_int(tn_lm_result_length(result, 0), 4, "a small file is a model");
    if (tn_error())
        note("%s", tn_error());
    tn_error_clear();
    refused((defect){.architecture = "zebra"}, TN_ERR_FORMAT, "zebra",
            "an architecture that is not known");
    refused((defect){.key = "llama.attention.sparkle"}, TN_ERR_FORMAT,
            "llama.attention.sparkle", "a key that is not known");
    refused((defect){.key = "llama.attention.causal", .value = 0},
            TN_ERR_FORMAT, "llama.attention.causal", "a decoder without a mask");
    refused((defect){.key = "llama.pooling_type", .value = 4}, TN_ERR_FORMAT,
            "llama.pooling_type", "a pooling that is not known");
    refused((defect){.key = "llama.tensor_data_layout", .value = 1},
            TN_ERR_DTYPE, "tensor_data_layout", "a layout that is no text");
    refused((defect){.key = "llama.expert_count", .value = 3000000000u},
            TN_ERR_FORMAT, "llama.expert_count", "a size beyond any model");
    refused((defect){.cut = 100}, TN_ERR_FORMAT, "x.gguf", "a file cut short");
    refused((defect){.cut = 12000}, TN_ERR_FORMAT, "x.gguf",
            "a file cut shorter");
    refused((defect){.without = "blk.0.attn_k.weight"}, TN_ERR_ARGUMENT,
            "self_attn.k_proj.weight is missing", "a tensor is missing");
    refused((defect){.renamed = "blk.0.ffn_sideways.weight"}, TN_ERR_ARGUMENT,
            "blk.0.ffn_sideways.weight is not part", "an unknown tensor");
    refused((defect){.renamed = "blk.1.ffn_down.weight"}, TN_ERR_ARGUMENT,
            "is not part", "a tensor of a layer that does not exist");
    refused((defect){.odd = "blk.0.attn_q.weight"}, TN_ERR_SHAPE, "(33, 32)",
            "a tensor has another shape");
    refused((defect){.odd = "output_norm.weight"}, TN_ERR_SHAPE, "(33)",
            "a norm has another shape");
    lm = tn_lm_open(write_model((defect){0}), .dtype = TN_I32);
    ok(!lm && tn_error_code() == TN_ERR_DTYPE, "a dtype of integers: %s",
       tn_error() ? tn_error() : "no error");
    tn_error_clear();
    ok(tn_lm_open(write_model((defect){0})) != NULL, "the next call works");
    unlink(file_path);
}

/* ---- blocks -------------------------------------------------------------- */

static void test_blocks(const char *path)
{
    tn_lm_sizes whole = {.size = sizeof whole}, blocks = {.size = sizeof blocks};
    tn_lm *exact = tn_lm_open(path, .dtype = TN_F32), *lm = tn_lm_open(path);
    if (!lm) {
        skip(3, tn_error());
        tn_error_clear();
        return;
    }
    tn_lm_info(exact, &whole);
    tn_lm_info(lm, &blocks);
    is_int(blocks.parameters, whole.parameters,
           "weights in blocks are counted as parameters");
    ok(blocks.weight_bytes * 4 < whole.weight_bytes,
       "and take less memory: %lld of %lld bytes",
       (long long)blocks.weight_bytes, (long long)whole.weight_bytes);
    ok(tn_lm_save(lm, scratch) == TN_ERR_UNSUPPORTED && tn_error() &&
           strstr(tn_error(), "blocks"),
       "they cannot be saved: %s", tn_error() ? tn_error() : "no error");
    tn_error_clear();
}

int main(void)
{
    char path[4400];
    const char *top = getenv("top_srcdir");
    static const char *const names[] = {"tiny-llama-f32.gguf",
                                        "llama_h256-q4_K_M.gguf"};
    plan_later();
    if (!mkdtemp(scratch))
        bail_out("no scratch folder");
    tn_scope *scope = tn_scope_open();
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/tests/lm/data/%s", top ? top : ".",
                 names[i]);
        check_gguf_model(path);
        char logits[64];
        ok(golden_beside(path, logits) != NULL, "%s has its logits beside it",
           names[i]);
    }
    test_blocks(path);
    test_refusals();
    tn_scope_close(scope);
    rmdir(scratch);
    return done_testing();
}
