/* test_gguf.c: GGUF files: metadata and tensors of valid files, and files that
 * are truncated or damaged. */
#include <tap.h>
#include <tenon/gguf.h>
#include <tenon/ops.h>
#include <unistd.h>

#include "gguf_writer.h"

static char path[64];

/* Opens a file with these contents. */
static tn_gguf *open_bytes(const gguf_writer *w, size_t bytes)
{
    if (!write_file(path, w, bytes))
        bail_out("cannot write %s", path);
    return tn_gguf_open(path);
}

/* Checks that the file is rejected with a message that contains all of these
 * words. Frees the writer. */
static void refused(gguf_writer *w, const char *word, const char *other,
                    const char *fact)
{
    tn_gguf *file = open_bytes(w, w->bytes);
    const char *message = tn_error();
    ok(!file && message && strstr(message, word) && strstr(message, other) &&
           strstr(message, path) && !strchr(message, '\n'),
       "%s", fact);
    note("%s", message ? message : "(no error)");
    tn_error_clear();
    free(w->data);
    *w = (gguf_writer){0};
}

/* ---- a valid file -------------------------------------------------------- */

static void put_list(gguf_writer *w, const char *key, uint32_t item,
                     uint64_t count)
{
    put_text(w, key);
    put_u32(w, TN_GGUF_LIST);
    put_u32(w, item);
    put_u64(w, count);
}

static gguf_writer valid(void)
{
    gguf_writer w = {0};
    put_head(&w, 3, 18);
    put_text(&w, "general.architecture"), put_u32(&w, TN_GGUF_TEXT);
    put_text(&w, "llama");
    put_text(&w, "u8"), put_u32(&w, TN_GGUF_U8), put_u8(&w, 200);
    put_text(&w, "i8"), put_u32(&w, TN_GGUF_I8), put_u8(&w, 0xff);
    put_text(&w, "u16"), put_u32(&w, TN_GGUF_U16), put(&w, "\xff\xff", 2);
    put_text(&w, "i16"), put_u32(&w, TN_GGUF_I16), put(&w, "\xfe\xff", 2);
    put_text(&w, "u32"), put_u32(&w, TN_GGUF_U32), put_u32(&w, 0xffffffff);
    put_text(&w, "i32"), put_u32(&w, TN_GGUF_I32), put_u32(&w, 0xfffffffd);
    put_text(&w, "f32"), put_u32(&w, TN_GGUF_F32), put_f32(&w, 0.5f);
    put_text(&w, "bool"), put_u32(&w, TN_GGUF_BOOL), put_u8(&w, 1);
    put_text(&w, "u64"), put_u32(&w, TN_GGUF_U64), put_u64(&w, UINT64_MAX);
    put_text(&w, "i64"), put_u32(&w, TN_GGUF_I64),
        put_u64(&w, (uint64_t)-4);
    const double pi = 3.25;
    put_text(&w, "f64"), put_u32(&w, TN_GGUF_F64), put(&w, &pi, 8);
    put_list(&w, "texts", TN_GGUF_TEXT, 3);
    put_text(&w, "a"), put_text(&w, ""), put_u64(&w, 3), put(&w, "b\0c", 3);
    put_list(&w, "shorts", TN_GGUF_I16, 2), put(&w, "\x01\0\xff\xff", 4);
    put_list(&w, "reals", TN_GGUF_F32, 2), put_f32(&w, 1), put_f32(&w, -2);
    put_list(&w, "nested", TN_GGUF_LIST, 1);
    put_u32(&w, TN_GGUF_U8), put_u64(&w, 2), put_u8(&w, 1), put_u8(&w, 2);
    put_text(&w, "nul"), put_u32(&w, TN_GGUF_TEXT), put_u64(&w, 3);
    put(&w, "x\0y", 3);
    put_list(&w, "empty", TN_GGUF_TEXT, 0);
    put_entry(&w, "a.weight", 2, (uint64_t[]){3, 2}, 0, 0);
    put_entry(&w, "b.weight", 1, (uint64_t[]){4}, 1, 32);
    put_entry(&w, "iq", 1, (uint64_t[]){32}, 20, 64);
    put_padding(&w);
    for (int i = 0; i < 6; i++)
        put_f32(&w, (float)i);
    put_padding(&w);
    put(&w, "\0\x3c\0\x40\0\x42\0\xbc", 8);
    put_padding(&w);
    for (int i = 0; i < 18; i++)
        put_u8(&w, 0);
    return w;
}

static void check_numbers(tn_gguf *file)
{
    static const struct {
        const char *key;
        int64_t value;
    } ints[] = {{"u8", 200},       {"i8", -1},  {"u16", 65535},
                {"i16", -2},       {"i32", -3}, {"u32", 4294967295},
                {"i64", -4},       {"bool", 1}};
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        int64_t value = 0;
        double real = 0;
        ok(tn_gguf_ints(file, ints[i].key, &value, 1) == TN_OK &&
               value == ints[i].value &&
               tn_gguf_reals(file, ints[i].key, &real, 1) == TN_OK &&
               real == (double)value,
           "%s is read", ints[i].key);
    }
    double real[2] = {0, 0};
    int64_t whole[2] = {7, 7};
    ok(tn_gguf_reals(file, "f32", real, 1) == TN_OK && real[0] == 0.5,
       "f32 is read");
    ok(tn_gguf_reals(file, "f64", real, 1) == TN_OK && real[0] == 3.25,
       "f64 is read");
    ok(tn_gguf_reals(file, "u64", real, 1) == TN_OK && real[0] == 0x1p64,
       "u64 is read");
    ok(tn_gguf_ints(file, "shorts", whole, 2) == TN_OK && whole[0] == 1 &&
           whole[1] == -1,
       "a list of integers is read");
    ok(tn_gguf_reals(file, "reals", real, 2) == TN_OK && real[0] == 1 &&
           real[1] == -2,
       "a list of reals is read");
    ok(!tn_error(), "no error: %s", tn_error() ? tn_error() : "");
    is_int(tn_gguf_ints(file, "u64", whole, 1), TN_ERR_ARGUMENT,
           "a u64 that int64_t cannot hold is refused");
    is_int(whole[0], 1, "and out is unchanged");
    tn_error_clear();
    is_int(tn_gguf_ints(file, "f32", whole, 1), TN_ERR_DTYPE,
           "a fraction is no integer");
    tn_error_clear();
    is_int(tn_gguf_ints(file, "shorts", whole, 1), TN_ERR_ARGUMENT,
           "the count of a list is checked");
    tn_error_clear();
    is_int(tn_gguf_reals(file, "nested", real, 1), TN_ERR_DTYPE,
           "a list of lists is no number");
    tn_error_clear();
    is_int(tn_gguf_reals(file, "no.such", real, 1), TN_ERR_ARGUMENT,
           "a missing key is refused");
    tn_error_clear();
    is_int(tn_gguf_reals(file, "f32", NULL, 1), TN_ERR_ARGUMENT,
           "out NULL is refused");
    tn_error_clear();
    is_int(tn_gguf_reals(file, NULL, real, 1), TN_ERR_ARGUMENT,
           "key NULL is refused");
    tn_error_clear();
}

static void check_texts(tn_gguf *file)
{
    const char *text = tn_gguf_text(file, "general.architecture");
    ok(text && strcmp(text, "llama") == 0, "a text is read");
    const tn_gguf_bytes *texts = tn_gguf_texts(file, "texts");
    ok(texts && texts[0].bytes == 1 && texts[0].text[0] == 'a' &&
           texts[1].bytes == 0 && texts[2].bytes == 3 &&
           memcmp(texts[2].text, "b\0c", 3) == 0,
       "a list of texts is read");
    texts = tn_gguf_texts(file, "nul");
    ok(texts && texts->bytes == 3, "a text with a NUL is read by its bytes");
    ok(tn_gguf_texts(file, "empty") != NULL, "an empty list is no error");
    ok(!tn_error(), "no error");
    text = tn_gguf_text(file, "nul");
    ok(!text && strstr(tn_error(), "tn_gguf_texts"),
       "a text with a NUL is no string");
    tn_error_clear();
    text = tn_gguf_text(file, "u8");
    ok(!text && tn_error_code() == TN_ERR_DTYPE, "a number is no text");
    tn_error_clear();
    text = tn_gguf_text(file, "texts");
    ok(!text && strstr(tn_error(), "a list of text"), "a list is no text");
    tn_error_clear();
    texts = tn_gguf_texts(file, "shorts");
    ok(!texts && tn_error_code() == TN_ERR_DTYPE, "numbers are no texts");
    tn_error_clear();
    text = tn_gguf_text(file, "none");
    ok(!text && strstr(tn_error(), path), "a missing key names the file");
    tn_error_clear();
}

static void check_valid(void)
{
    tn_scope *scope = tn_scope_open();
    gguf_writer w = valid();
    tn_gguf *file = open_bytes(&w, w.bytes);
    ok(file && !tn_error(), "a valid file is opened: %s",
       tn_error() ? tn_error() : "");
    const char *opened = tn_gguf_path(file);
    ok(opened && strcmp(opened, path) == 0, "it has its path");
    is_int(tn_gguf_key_count(file), 18, "it has its keys");
    ok(strcmp(tn_gguf_key(file, 1), "u8") == 0 && !tn_gguf_key(file, 18) &&
           !tn_gguf_key(file, -1),
       "keys are in the order of the file");
    is_int(tn_gguf_kind_of(file, "texts"), TN_GGUF_LIST, "a list has its type");
    is_int(tn_gguf_item_kind(file, "texts"), TN_GGUF_TEXT, "so do its items");
    is_int(tn_gguf_length(file, "texts"), 3, "and its length");
    is_int(tn_gguf_kind_of(file, "nested"), TN_GGUF_LIST, "lists are nested");
    is_int(tn_gguf_item_kind(file, "nested"), TN_GGUF_LIST, "within a list");
    is_int(tn_gguf_kind_of(file, "no"), TN_GGUF_NONE, "no key: none");
    is_int(tn_gguf_length(file, "no"), 0, "no key: no items");
    check_numbers(file);
    check_texts(file);
    is_int(tn_gguf_count(file), 3, "it has its tensors");
    ok(strcmp(tn_gguf_name(file, 1), "b.weight") == 0 &&
           !tn_gguf_name(file, 3) && !tn_gguf_name(file, -1),
       "tensors are in the order of the file");
    const int64_t *shape = tn_gguf_shape(file, "a.weight");
    ok(tn_gguf_ndim(file, "a.weight") == 2 && shape[0] == 2 && shape[1] == 3,
       "a shape is in PyTorch's order");
    const float *data = tn_gguf_data(file, "a.weight");
    ok(data && data[5] == 5 && tn_gguf_data_bytes(file, "a.weight") == 24,
       "data is there");
    ok(strcmp(tn_gguf_type(file, "iq"), "IQ4_NL") == 0 &&
           tn_gguf_dtype(file, "iq") == TN_DTYPE_NONE,
       "a type that is not read has its name");
    is_int(tn_gguf_dtype(file, "b.weight"), TN_F16, "float16");
    ok(tn_gguf_has(file, "iq") && !tn_gguf_has(file, "no") &&
           !tn_gguf_type(file, "no") && !tn_gguf_data(file, "no") &&
           !tn_gguf_shape(file, "no") && !tn_gguf_has(file, NULL),
       "what is not there is not found");
    ok(!tn_error(), "no error");
    free(w.data);
    tn_scope_close(scope);
}

/* ---- tensors ------------------------------------------------------------- */

static void check_read(void)
{
    tn_scope *scope = tn_scope_open();
    gguf_writer w = valid();
    tn_gguf *file = open_bytes(&w, w.bytes);
    tn_tensor *a = tn_gguf_tensor(file, "a.weight");
    ok(a && tn_tensor_ndim(a) == 2 && tn_tensor_size(a, 0) == 2 &&
           tn_item(tn_sum(a)) == 15,
       "a float32 tensor is read: %s", tn_error() ? tn_error() : "");
    ok(a && tn_tensor_data(a) == tn_gguf_data(file, "a.weight"),
       "it shares the memory of the file");
    tn_tensor *b = tn_gguf_tensor(file, "b.weight");
    ok(b && tn_tensor_dtype(b) == TN_F16 && tn_item(tn_sum(b)) == 5,
       "a float16 tensor is read");
    b = tn_gguf_tensor(file, "b.weight", .dtype = TN_F32);
    ok(b && tn_tensor_dtype(b) == TN_F32 && tn_item(tn_sum(b)) == 5,
       "and converted");
    if (a)
        tn_mul_scalar_(a, 2);
    ok(!tn_error() && tn_item(tn_sum(a)) == 30, "it may be written");
    tn_gguf *again = tn_gguf_open(path);
    ok(tn_item(tn_sum(tn_gguf_tensor(again, "a.weight"))) == 15,
       "which does not change the file");
    tn_tensor *iq = tn_gguf_tensor(file, "iq");
    ok(!iq && strstr(tn_error(), "IQ4_NL") && strstr(tn_error(), "\"iq\""),
       "a type that is not read is refused by name");
    note("%s", tn_error() ? tn_error() : "(no error)");
    tn_error_clear();
    iq = tn_gguf_tensor(file, "none");
    ok(!iq && tn_error_code() == TN_ERR_ARGUMENT, "a missing name is refused");
    tn_error_clear();
    iq = tn_gguf_tensor(file, NULL);
    ok(!iq && tn_error_code() == TN_ERR_ARGUMENT, "name NULL is refused");
    tn_error_clear();
    iq = tn_gguf_tensor(NULL, "a.weight");
    ok(!iq && tn_error_code() == TN_ERR_ARGUMENT, "file NULL is refused");
    tn_error_clear();
    iq = tn_gguf_tensor(file, "a.weight", .dtype = TN_I32);
    ok(!iq && tn_error_code() == TN_ERR_DTYPE, "an integer dtype is refused");
    tn_error_clear();
    iq = tn_gguf_blocks(file, "a.weight");
    ok(!iq && tn_error_code() == TN_ERR_DTYPE, "float32 has no blocks");
    tn_error_clear();
    iq = tn_gguf_blocks(NULL, "a.weight");
    ok(!iq && tn_error_code() == TN_ERR_ARGUMENT, "blocks: file NULL");
    tn_error_clear();
    tn_keep(a);
    tn_scope_close(scope);
    const double sum = tn_item(tn_sum(a));
    ok(sum == 30, "a tensor keeps the file mapped: %g %s", sum,
       tn_error() ? tn_error() : "");
    tn_drop(a);
    free(w.data);
}

/* Tests a weight in Q8_0 blocks. Element i of row r is (r + 1) * (i % 32). */
static void check_blocks(void)
{
    tn_scope *scope = tn_scope_open();
    gguf_writer w = {0};
    put_head(&w, 1, 0);
    put_entry(&w, "w", 2, (uint64_t[]){64, 2}, 8, 0);
    put_padding(&w);
    for (int block = 0; block < 4; block++) {
        put(&w, block < 2 ? "\0\x3c" : "\0\x40", 2);
        for (int i = 0; i < 32; i++)
            put_u8(&w, (uint8_t)i);
    }
    tn_gguf *file = open_bytes(&w, w.bytes);
    tn_tensor *x = tn_gguf_tensor(file, "w");
    ok(x && tn_tensor_size(x, 0) == 2 && tn_tensor_size(x, 1) == 64 &&
           tn_item(tn_sum(x)) == 3 * 2 * 31 * 16,
       "blocks are dequantised: %s", tn_error() ? tn_error() : "");
    tn_tensor *half = tn_gguf_tensor(file, "w", .dtype = TN_BF16);
    ok(half && tn_tensor_dtype(half) == TN_BF16, "to bfloat16, too");
    tn_tensor *blocks = tn_gguf_blocks(file, "w");
    ok(blocks && tn_tensor_dtype(blocks) == TN_U8 &&
           tn_tensor_size(blocks, 1) == 68 &&
           tn_tensor_data(blocks) == tn_gguf_data(file, "w"),
       "blocks share the memory of the file");
    tn_tensor *y = tn_quantized_linear(tn_ones(tn_dims(1, 64)), blocks,
                                       tn_gguf_type(file, "w"), NULL);
    const float *got = y ? tn_tensor_data(y) : NULL;
    ok(got && fabsf(got[0] - 992) < 1e-3f && fabsf(got[1] - 1984) < 1e-3f,
       "and are multiplied");
    free(w.data);
    tn_scope_close(scope);
}

/* ---- what is refused ----------------------------------------------------- */

/* Every truncation of a valid file is rejected, or loses only padding after the
 * last tensor. */
static void check_truncated(void)
{
    gguf_writer w = valid();
    bool all = true, named = true;
    for (size_t bytes = 1; bytes < w.bytes; bytes++) {
        tn_gguf *file = open_bytes(&w, bytes);
        const char *message = tn_error();
        all = all && !file && message;
        named = named && message && strstr(message, path);
        tn_error_clear();
    }
    ok(all, "every truncation of a file is refused");
    ok(named, "and names the file");
    free(w.data);
}

static void check_head(void)
{
    gguf_writer w = {0};
    put(&w, "GGML", 4), put_u32(&w, 3), put_u64(&w, 0), put_u64(&w, 0);
    refused(&w, "\"GGUF\"", "no GGUF", "another magic is refused");
    put(&w, "GGUF", 4), put_u32(&w, 1), put_u64(&w, 0), put_u64(&w, 0);
    refused(&w, "version 1", "2 and 3", "version 1 is refused");
    put(&w, "GGUF", 4), put(&w, "\0\0\0\3", 4), put_u64(&w, 0);
    refused(&w, "big-endian", "convert", "a big-endian file is refused");
    put_head(&w, 1ull << 60, 0);
    refused(&w, "tensors", "do not fit", "a count of tensors is checked");
    put_head(&w, 0, 1ull << 60);
    refused(&w, "keys", "do not fit", "a count of keys is checked");
    put_head(&w, 0, 0);
    tn_gguf *file = open_bytes(&w, w.bytes);
    ok(file && !tn_error() && tn_gguf_count(file) == 0,
       "a file without keys and tensors is opened");
    tn_drop(file);
    file = open_bytes(&w, 0);
    ok(!file && strstr(tn_error(), "empty"), "an empty file is refused");
    tn_error_clear();
    free(w.data);
}

static void check_keys(void)
{
    gguf_writer w = {0};
    put_head(&w, 0, 1), put_u64(&w, 1ull << 62), put(&w, "0123456789", 10);
    refused(&w, "text", "do not fit", "a key's length is checked");
    put_head(&w, 0, 1), put_text(&w, ""), put_u32(&w, 0), put_u64(&w, 0);
    refused(&w, "a name of 0 bytes", "", "an empty key is refused");
    put_head(&w, 0, 1), put_u64(&w, 3), put(&w, "a\0b", 3);
    put_u32(&w, 0), put_u8(&w, 0);
    refused(&w, "NUL", "a?b", "a key with a NUL is refused");
    put_head(&w, 0, 1), put_text(&w, "k"), put_u32(&w, 13), put_u64(&w, 0);
    refused(&w, "key k", "type 13", "an unknown type is refused");
    put_head(&w, 0, 1), put_text(&w, "k"), put_u32(&w, TN_GGUF_BOOL);
    put_u8(&w, 2), put_u64(&w, 0);
    refused(&w, "key k", "bool is 2", "a bool of 2 is refused");
    put_head(&w, 0, 1), put_list(&w, "k", TN_GGUF_U64, 1ull << 61);
    refused(&w, "key k", "items do not fit", "a list's count is checked");
    put_head(&w, 0, 1), put_list(&w, "k", TN_GGUF_TEXT, 1ull << 61);
    refused(&w, "key k", "items do not fit", "so is that of texts");
    put_head(&w, 0, 1), put_text(&w, "k"), put_u32(&w, TN_GGUF_LIST);
    for (int i = 0; i < 20; i++)
        put_u32(&w, TN_GGUF_LIST), put_u64(&w, 1);
    put_u32(&w, TN_GGUF_U8), put_u64(&w, 0);
    refused(&w, "key k", "nested", "lists of lists of lists ... are refused");
    put_head(&w, 0, 2);
    for (int i = 0; i < 2; i++)
        put_text(&w, "k"), put_u32(&w, TN_GGUF_U8), put_u8(&w, 0);
    refused(&w, "key k", "twice", "a key that occurs twice is refused");
    static const uint32_t alignments[] = {0, 4, 7};
    for (int i = 0; i < 3; i++) {
        put_head(&w, 0, 1), put_text(&w, "general.alignment");
        put_u32(&w, TN_GGUF_U32), put_u32(&w, alignments[i]);
        refused(&w, "general.alignment", "multiple of 8",
                "an alignment that is no multiple of 8 is refused");
    }
    put_head(&w, 0, 1), put_text(&w, "general.alignment");
    put_u32(&w, TN_GGUF_U64), put_u64(&w, 32);
    refused(&w, "general.alignment", "u32", "the alignment is a u32");
}

/* Writes a file with one tensor. */
static void put_one(gguf_writer *w, int ndim, const uint64_t *size,
                    uint32_t type, uint64_t offset)
{
    put_head(w, 1, 0);
    put_entry(w, "t", ndim, size, type, offset);
    put_padding(w);
    put_u64(w, 0), put_u64(w, 0), put_u64(w, 0), put_u64(w, 0);
}

static void check_tensors(void)
{
    gguf_writer w = {0};
    const uint64_t eight[] = {8}, many[13] = {1};
    put_one(&w, 13, many, 0, 0);
    refused(&w, "tensor t", "13 dimensions", "13 dimensions are refused");
    put_one(&w, 1, eight, 4, 0);
    refused(&w, "tensor t", "type 4", "a removed type is refused");
    put_one(&w, 1, eight, 0xffffffff, 0);
    refused(&w, "tensor t", "type 4294967295", "an unknown type is refused");
    put_one(&w, 1, eight, 8, 0);
    refused(&w, "tensor t", "Q8_0", "a row of less than a block is refused");
    put_one(&w, 1, eight, 0, 16);
    refused(&w, "tensor t", "alignment", "an offset is aligned");
    put_one(&w, 1, eight, 0, 32);
    refused(&w, "tensor t", "truncated", "data after the end is refused");
    put_one(&w, 1, eight, 0, UINT64_MAX - 31);
    refused(&w, "tensor t", "truncated", "an offset that wraps is refused");
    put_one(&w, 1, (uint64_t[]){16}, 0, 0);
    refused(&w, "tensor t", "truncated", "a size beyond the end is refused");
    put_one(&w, 2, (uint64_t[]){1ull << 32, 1ull << 32}, 0, 0);
    refused(&w, "tensor t", "overflows", "a product that wraps is refused");
    put_one(&w, 1, (uint64_t[]){1ull << 62}, 28, 0);
    refused(&w, "tensor t", "overflows", "bytes that wrap are refused");
    put_one(&w, 2, (uint64_t[]){INT64_MAX - 31, 0}, 8, 0);
    refused(&w, "tensor t", "overflows", "bytes of an empty row are refused");
    put_one(&w, 1, (uint64_t[]){UINT64_MAX}, 0, 0);
    refused(&w, "tensor t", "has size", "a size of 2^64 - 1 is refused");
    put_head(&w, 2, 0);
    put_entry(&w, "t", 1, eight, 0, 0), put_entry(&w, "u", 1, eight, 0, 0);
    put_padding(&w), put_padding(&w);
    for (int i = 0; i < 16; i++)
        put_u32(&w, 0);
    refused(&w, "tensor u", "overlap", "tensors that overlap are refused");
    put_head(&w, 2, 0);
    put_entry(&w, "t", 1, eight, 0, 0), put_entry(&w, "t", 1, eight, 0, 32);
    put_padding(&w);
    for (int i = 0; i < 16; i++)
        put_u32(&w, 0);
    refused(&w, "tensor t", "twice", "a name that occurs twice is refused");
}

/* Every byte of the description is set to several values: the file is opened or
 * rejected with a message. */
static void check_damaged(void)
{
    gguf_writer w = valid();
    static const unsigned char values[] = {0, 1, 7, 0x7f, 0x80, 0xff};
    bool fine = true;
    for (size_t at = 0; at < w.bytes; at++) {
        const unsigned char was = w.data[at];
        for (size_t i = 0; i < sizeof values; i++) {
            w.data[at] = values[i];
            tn_gguf *file = open_bytes(&w, w.bytes);
            fine = fine && !file == !!tn_error();
            tn_error_clear();
            tn_drop(file);
        }
        w.data[at] = was;
    }
    ok(fine, "every damaged byte is refused, or read");
    free(w.data);
}

static void check_mistakes(void)
{
    tn_gguf *file = tn_gguf_open(NULL);
    ok(!file && tn_error_code() == TN_ERR_ARGUMENT, "path NULL is refused");
    tn_error_clear();
    file = tn_gguf_open("/dev/null");
    ok(!file && strstr(tn_error(), "regular"), "a device is refused");
    tn_error_clear();
    file = tn_gguf_open(".");
    ok(!file && strstr(tn_error(), "regular"), "a folder is refused");
    tn_error_clear();
    file = tn_gguf_open("no such file");
    ok(!file && tn_error_code() == TN_ERR_IO, "a missing file is refused");
    tn_error_clear();
    ok(!tn_gguf_path(NULL) && tn_gguf_count(NULL) == 0 &&
           !tn_gguf_name(NULL, 0) && tn_gguf_key_count(NULL) == 0 &&
           !tn_gguf_key(NULL, 0) && !tn_gguf_type(NULL, "x") &&
           tn_gguf_dtype(NULL, "x") == TN_DTYPE_NONE &&
           tn_gguf_ndim(NULL, "x") == 0 && !tn_gguf_shape(NULL, "x") &&
           !tn_gguf_data(NULL, "x") && tn_gguf_data_bytes(NULL, "x") == 0 &&
           tn_gguf_kind_of(NULL, "x") == TN_GGUF_NONE &&
           tn_gguf_item_kind(NULL, "x") == TN_GGUF_NONE &&
           tn_gguf_length(NULL, "x") == 0 && !tn_error(),
       "attributes of NULL are none");
    int64_t whole = 0;
    double real = 0;
    const char *text = tn_gguf_text(NULL, "x");
    ok(!text && tn_error(), "gguf_text refuses NULL");
    tn_error_clear();
    ok(!tn_gguf_texts(NULL, "x") && tn_error(), "gguf_texts refuses NULL");
    tn_error_clear();
    ok(tn_gguf_ints(NULL, "x", &whole, 1) < 0 && tn_error(),
       "gguf_ints refuses NULL");
    tn_error_clear();
    ok(tn_gguf_reals(NULL, "x", &real, 1) < 0 && tn_error(),
       "gguf_reals refuses NULL");
    tn_error_clear();
}

int main(void)
{
    plan_later();
    snprintf(path, sizeof path, "gguf-test-%ld.tmp", (long)getpid());
    tn_device_set(tn_device_open("cpu"));
    check_valid();
    check_read();
    check_blocks();
    check_truncated();
    check_head();
    check_keys();
    check_tensors();
    check_damaged();
    check_mistakes();
    unlink(path);
    return done_testing();
}
