/* config.c: fuzzes config.json. A folder is rejected with a message that names
 * it, or becomes a model that describes itself and generates.
 *
 * The folder's weights are those of a llama whose sizes are all 8, so that most
 * configs of corpus/config/ open with them. */
#include <sys/stat.h>
#include <tenon/lm.h>

#include "fuzz.h"

const char fuzz_target[] = "config";

static char folder[64];

static const char *path_of(const char *name)
{
    static char path[96];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void remove_folder(void)
{
    unlink(path_of("config.json"));
    unlink(path_of("model.safetensors"));
    rmdir(folder);
}

static void write_file(const char *name, const void *data, size_t bytes)
{
    FILE *file = fopen(path_of(name), "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file))
        abort();
}

/* Adds a tensor (8) or (8, 8) to the header. Its numbers begin at `at`. */
static size_t add_weight(char *header, size_t room, const char *name, int ndim,
                         size_t at)
{
    const size_t bytes = ndim == 1 ? 32 : 256, used = strlen(header);
    snprintf(header + used, room - used,
             "%c\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":"
             "[%zu,%zu]}",
             used ? ',' : '{', name, ndim == 1 ? "8" : "8,8", at, at + bytes);
    return at + bytes;
}

static void write_weights(void)
{
    static const char *const matrices[] = {
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
        "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
        "mlp.down_proj"};
    static char file[8192], name[96];
    static char header[4096];
    size_t at = add_weight(header, sizeof header, "model.embed_tokens.weight",
                           2, 0);
    at = add_weight(header, sizeof header, "model.norm.weight", 1, at);
    at = add_weight(header, sizeof header,
                    "model.layers.0.input_layernorm.weight", 1, at);
    at = add_weight(header, sizeof header,
                    "model.layers.0.post_attention_layernorm.weight", 1, at);
    for (int i = 0; i < 7; i++) {
        snprintf(name, sizeof name, "model.layers.0.%s.weight", matrices[i]);
        at = add_weight(header, sizeof header, name, 2, at);
    }
    strcat(header, "}");
    while (strlen(header) % 8)
        strcat(header, " ");
    const uint64_t bytes = strlen(header);
    memcpy(file, &bytes, 8);
    memcpy(file + 8, header, bytes);
    for (size_t i = 0; i < at / 4; i++) {
        const float x = (float)(i * 7 % 23) / 16 - 0.5F;
        memcpy(file + 8 + bytes + 4 * i, &x, 4);
    }
    write_file("model.safetensors", file, 8 + bytes + at);
}

static void check_model(tn_lm *lm)
{
    tn_lm_sizes sizes = {.size = sizeof sizes};
    const int64_t ids[] = {1, 2, 3};
    fuzz_check(tn_lm_info(lm, &sizes) == TN_OK && sizes.layers == 1 &&
                   sizes.parameters > 0,
               "a model says what it is");
    tn_lm_result *result = tn_lm_generate(lm, ids, 3, .max_tokens = 3);
    if (result) {
        fuzz_check(tn_lm_result_length(result, 0) > 0, "it generates");
        fuzz_accepted();
    } else {
        fuzz_refused();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!*folder) {
        snprintf(folder, sizeof folder, "/tmp/fuzz-config-XXXXXX");
        if (!mkdtemp(folder))
            abort();
        atexit(remove_folder);
        write_weights();
    }
    write_file("config.json", data, size);
    tn_scope *scope = tn_scope_open();
    tn_lm *lm = tn_lm_open(folder);
    if (lm) {
        fuzz_accepted();
        check_model(lm);
    } else {
        fuzz_refused();
    }
    tn_scope_close(scope);
    return 0;
}
