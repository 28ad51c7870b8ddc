/* text_head.c: prints the beginning and the end of every kernel's source: the
 * definitions of the dialect (platform.cl), the argument words and, in plain C,
 * the function that the plugin calls. */
#include <stdatomic.h>
#include <string.h>
#include <zlib.h>

#include <base/lock.h>
#include <source/device_text.h>
#include <source/text_head.h>

static const char *const dtype_name[TN_DTYPE_END] = {
    [TN_F32] = "f32",       [TN_F64] = "f64",   [TN_F16] = "f16",
    [TN_BF16] = "bf16",     [TN_I64] = "i64",   [TN_I32] = "i32",
    [TN_F8E4M3] = "f8e4m3", [TN_I16] = "i16",   [TN_I8] = "i8",
    [TN_F8E5M2] = "f8e5m2", [TN_U8] = "u8",     [TN_BOOL] = "bool",
};

const char *tn__source_dtype(unsigned dtype)
{
    return dtype_name[dtype];
}

/* Memory for zlib's state, so that unpacking cannot run out of memory: zlib takes
 * 8 KB of it, zlib-ng 70 KB. */
static struct {
    _Alignas(max_align_t) char memory[256 << 10];
    size_t used;
} state;

static void *take_state(void *unused, unsigned count, unsigned bytes)
{
    (void)unused;
    const size_t need = ((size_t)count * bytes + 15) & ~(size_t)15;
    if (need > sizeof state.memory - state.used)
        return NULL;
    state.used += need;
    return state.memory + state.used - need;
}

static void give_state(void *unused, void *memory)
{
    (void)unused;
    (void)memory;
}

/* Unpacks the .cl files on the first call. Cannot fail: the files are constant,
 * and tests read all of them. */
static void unpack(void)
{
    static tn__lock lock = TN__LOCK_INIT;
    static atomic_bool unpacked;
    if (atomic_load_explicit(&unpacked, memory_order_acquire))
        return;
    tn__lock_take(&lock);
    if (!atomic_load_explicit(&unpacked, memory_order_relaxed)) {
        z_stream z = {
            .zalloc = take_state,
            .zfree = give_state,
            .next_in = (unsigned char *)tn__source_texts_packed,
            .avail_in = (unsigned)tn__source_texts_packed_bytes,
            .next_out = (unsigned char *)tn__source_texts_unpacked,
            .avail_out = (unsigned)tn__source_texts_unpacked_bytes,
        };
        inflateInit2(&z, 15 + 16); /* 16: a gzip header */
        inflate(&z, Z_FINISH);
        inflateEnd(&z);
        atomic_store_explicit(&unpacked, true, memory_order_release);
    }
    tn__lock_give(&lock);
}

const char *tn__source_text(const char *name)
{
    unpack();
    const char *at = tn__source_texts_unpacked;
    const char *end = at + tn__source_texts_unpacked_bytes;
    while (at < end) {
        const char *file = at + 1;
        const char *text = file + strlen(file) + 1;
        if (strcmp(file, name) == 0)
            return text;
        at = text + strlen(text);
    }
    return NULL;
}

void tn__source_head(tn__text *text, const tn_target *target, bool is_wide,
                     bool in_buffer, uint32_t words)
{
    if (target->flags & TN_TARGET_PLAIN)
        tn__text_add(text, "#define TK_PLAIN 1\n");
    if (target->flags & TN_TARGET_F64)
        tn__text_add(text, "#define TK_F64 1\n");
    if (target->flags & TN_TARGET_EXACT_DIVIDE)
        tn__text_add(text, "#define TK_EXACT_DIVIDE 1\n");
    if (is_wide)
        tn__text_add(text, "#define TK_WIDE 1\n");
    tn__text_add(text, "%s%s%s", tn__source_text("platform.cl"),
                 tn__source_text("instructions.cl"),
                 tn__source_text("storage.cl"));
    if (in_buffer)
        tn__text_add(text, "#define TK_WORD(i) words[i]\n");
    else
        tn__text_add(text,
                     "typedef struct {\n    tk_i64 w[%u];\n} tk_words;\n"
                     "#define TK_WORD(i) words.w[i]\n", words);
}

const char *tn__source_parameters(const tn_target *target, bool in_buffer)
{
    if (target->flags & TN_TARGET_PLAIN)
        return in_buffer
                   ? "const tk_i64 *words, tk_i64 group, tk_i64 groups"
                   : "tk_words words, tk_i64 group, tk_i64 groups";
    return in_buffer ? "TK_G const tk_i64 *words" : "tk_words words";
}

const char *tn__source_entry(tn__text *text, const tn_target *target,
                             const tn_plan *plan, bool in_buffer,
                             const char *kernel)
{
    const uint32_t pointers = plan->buffer_count +
                              !!(plan->flags & TN_PLAN_SCRATCH) +
                              !!(plan->flags & TN_PLAN_FAULTS);
    if (!(target->flags & TN_TARGET_PLAIN))
        return kernel;
    tn__text_add(text,
                 "void tn_groups(void *const *pointer, const tk_u64 *word,\n"
                 "    tk_u64 first, tk_u64 end, tk_u64 count)\n"
                 "{\n"
                 "    for (tk_u64 i = first; i < end; i++)\n"
                 "        %s(", kernel);
    for (uint32_t k = 0; k < pointers; k++)
        tn__text_add(text, "pointer[%u], ", k);
    tn__text_add(text, "%s, (tk_i64)i, (tk_i64)count);\n}\n",
                 in_buffer ? "(const tk_i64 *)word" : "*(const tk_words *)word");
    return "tn_groups";
}
