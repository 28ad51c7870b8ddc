/* test_text.c: tests text files as data sets: characters or bytes as indices,
 * and windows of them as samples. */
#include <tenon/tenon.h>

#include <unistd.h>
#include <zlib.h>

#include "../tap.h"

static char path[64];

static void write_bytes(const char *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, count, file) != count)
        bail_out("cannot write %s", path);
    fclose(file);
}

static void decodes(const tn_text *text, const char *string)
{
    char *again = tn_text_decode(text, tn_text_encode(text, string));
    is_str(again, string, "\"%s\" comes back", string);
    free(again);
}

static void test_characters(void)
{
    /* characters of one to four bytes; the vocabulary is a, b, e-acute, euro,
     * clef */
    const char *string = "ba\xc3\xa9\xe2\x82\xac\xf0\x9d\x84\x9e" "ab";
    write_bytes(string, strlen(string));
    tn_text *text = tn_text_load(path);
    is_int(tn_text_count(text), 7, "seven characters");
    is_int(tn_text_vocabulary(text), 5, "five different ones");
    int64_t id[7] = {0}, want[7] = {1, 0, 2, 3, 4, 0, 1};
    tn_tensor_to_array(tn_text_ids(text), id, sizeof id);
    ok(memcmp(id, want, sizeof id) == 0, "an id is the place in the alphabet");
    decodes(text, string);
    decodes(text, "");
    char *none = tn_text_decode(text, tn_zeros(tn_dims(0), .dtype = TN_I64));
    is_str(none, "", "no ids are an empty string");
    free(none);
    char *narrow = tn_text_decode(
        text, tn_tensor_from_array((uint8_t[]){0, 1}, TN_U8, tn_dims(2, 1)));
    is_str(narrow, "ab", "ids of any whole dtype and shape are taken");
    free(narrow);

    tn_text *bytes = tn_text_load(path, .bytes = true);
    is_int(tn_text_count(bytes), 13, "as bytes: thirteen");
    is_int(tn_text_vocabulary(bytes), 11, "eleven different ones");
    decodes(bytes, string);

    gzFile zipped = gzopen(path, "wb");
    gzputs(zipped, string);
    gzclose(zipped);
    is_int(tn_text_count(tn_text_load(path)), 7, "a gzipped file is read");
    tn_text *same = tn_text_from_string(string);
    tn_tensor_to_array(tn_text_ids(same), id, sizeof id);
    ok(memcmp(id, want, sizeof id) == 0,
       "a string gives the same samples as its file");
}

static void test_samples(void)
{
    tn_text *text = tn_text_from_string("abcdefgh");
    tn_dataset *set = tn_dataset_from_text(text, 3);
    is_int(tn_dataset_count(set), 5,
           "eight characters hold five stretches of three and one more");
    tn_tensor *field[TN_MAX_FIELDS];
    is_int(tn_dataset_batch(set, (int64_t[]){4, 0}, 2, field), 2,
           "a batch is x and y");
    int64_t x[6], y[6], want_x[] = {4, 5, 6, 0, 1, 2},
                        want_y[] = {5, 6, 7, 1, 2, 3};
    ok(tn_tensor_to_array(field[0], x, sizeof x) == TN_OK &&
           memcmp(x, want_x, sizeof x) == 0,
       "x: the requested windows");
    ok(tn_tensor_to_array(field[1], y, sizeof y) == TN_OK &&
           memcmp(y, want_y, sizeof y) == 0,
       "y: the character after each");
    ok(tn_tensor_ndim(field[0]) == 2 && tn_tensor_size(field[0], 0) == 2,
       "samples are rows");
    tn_drop(text);
    is_int(tn_dataset_batch(set, (int64_t[]){1}, 1, field), 2,
           "the set keeps the text alive");
}

static void mistake(const void *result, const char *message)
{
    ok(!result, "refused: %s", message);
    is_str(tn_error(), message, "and the message says so");
    tn_error_clear();
}

static void bad_text(const char *bytes, size_t count, const char *message)
{
    write_bytes(bytes, count);
    char want[200];
    snprintf(want, sizeof want, "text_load: %s: %s", path, message);
    mistake(tn_text_load(path), want);
}

static void test_mistakes(void)
{
    static const char *const broken[] = {
        "ok\x80",         /* a continuation byte at the start of a character */
        "ok\xc3",         /* ends within a character */
        "ok\xc3(",        /* no continuation byte follows */
        "ok\xc0\xaf",     /* overlong encoding */
        "ok\xed\xa0\x80", /* half of a surrogate pair */
        "ok\xf4\x90\x80\x80", /* beyond Unicode */
        "ok\xff",
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        bad_text(broken[i], strlen(broken[i]),
                 "byte 2 is not UTF-8; .bytes = true accepts any bytes");
    ok(tn_text_load(path, .bytes = true), "which it does");
    bad_text("", 0, "the text is empty");
    unlink(path);
    char want[200];
    snprintf(want, sizeof want, "text_load: %s: No such file or directory", path);
    mistake(tn_text_load(path), want);
    mistake(tn_text_load(NULL), "text_load: path is NULL");
    mistake(tn_text_from_string(""), "text_from_string: the text is empty");

    tn_text *text = tn_text_from_string("abc");
    mistake(tn_text_encode(text, "abd"),
            "text_encode: character 100 at byte 2 is not in the vocabulary "
            "of 3");
    mistake(tn_text_encode(text, "a\xff"),
            "text_encode: byte 1 is not UTF-8");
    mistake(tn_text_decode(text, tn_full(tn_dims(2), 3, .dtype = TN_I64)),
            "text_decode: id 3 at position 0 is outside the vocabulary's "
            "[0, 3)");
    mistake(tn_text_decode(text, tn_zeros(tn_dims(2))),
            "text_decode: ids are float32; expected integers");
    mistake(tn_dataset_from_text(text, 3),
            "dataset_from_text: length is 3; expected 1 to 2 for a text of 3 "
            "ids");
    mistake(tn_dataset_from_text(text, 0),
            "dataset_from_text: length is 0; expected 1 to 2 for a text of 3 "
            "ids");
    mistake(tn_dataset_from_text(NULL, 3), "dataset_from_text: text is NULL");
    mistake(tn_text_encode(text, NULL), "text_encode: string is NULL");
    mistake(tn_text_from_string(NULL), "text_from_string: string is NULL");
    ok(!tn_text_count(NULL) && !tn_error(), "nothing has no ids");
}

int main(void)
{
    plan_later();
    snprintf(path, sizeof path, "text-test-%ld.tmp", (long)getpid());
    test_characters();
    test_samples();
    test_mistakes();
    unlink(path);
    return done_testing();
}
