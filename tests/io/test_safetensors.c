/* test_safetensors.c: tests that a written file is read back, and that a
 * malformed file is rejected with the position and the reason. */
#include <tenon/tenon.h>

#include <unistd.h>

#include "../tap.h"

static char path[64];

/* Writes a file with this header and this many bytes of data. */
static void write_file(const char *header, size_t data_bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        bail_out("cannot write %s", path);
    size_t length = strlen(header);
    for (int i = 0; i < 8; i++)
        fputc((int)(length >> 8 * i & 255), file);
    fputs(header, file);
    for (size_t i = 0; i < data_bytes; i++)
        fputc((int)i, file);
    fclose(file);
}

/* Checks that a file with this header is rejected with this message after its
 * path. */
static void refused(const char *header, size_t data_bytes,
                    const char *message)
{
    write_file(header, data_bytes);
    char want[512];
    snprintf(want, sizeof want, "safetensors_open: %s: %s", path, message);
    ok(!tn_safetensors_open(path), "refused: %s", message);
    is_str(tn_error(), want, "and the message says so");
    tn_error_clear();
}

static void test_malformed(void)
{
    refused("{", 0, "header: line 1, column 2: the object does not end");
    refused("[]", 0, "the header is not an object");
    refused("{\"a\": 1}", 0, "tensor \"a\": not an object");
    refused("{\"a\": {}}", 0, "tensor \"a\": no \"dtype\" text");
    refused("{\"a\": {\"dtype\": \"F31\", \"shape\": [], \"data_offsets\": "
            "[0, 4]}}",
            4, "tensor \"a\": unknown dtype \"F31\"");
    refused("{\"a\": {\"dtype\": \"F32\", \"data_offsets\": [0, 4]}}", 4,
            "tensor \"a\": no \"shape\" list");
    refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [-1], \"data_offsets\": "
            "[0, 4]}}",
            4, "tensor \"a\": \"shape\" holds a value that is not a size");
    refused("{\"a\": {\"dtype\": \"F32\", \"shape\": "
            "[1,1,1,1,1,1,1,1,1,1,1,1,1], \"data_offsets\": [0, 4]}}",
            4, "tensor \"a\": 13 dimensions; expected at most 12");
    refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": "
            "[4, 0]}}",
            4, "tensor \"a\": \"data_offsets\" is not [begin, end]");
    refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": "
            "[0, 8]}}",
            4, "tensor \"a\": ends at byte 8 of 4 bytes of data");
    refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": "
            "[0, 4]}}",
            4, "tensor \"a\": shape and dtype do not match the 4 bytes of "
               "\"data_offsets\"");
    refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [4611686018427387904, "
            "16], \"data_offsets\": [0, 0]}}",
            0, "tensor \"a\": shape and dtype do not match the 0 bytes of "
               "\"data_offsets\"");
    refused("{\"a\": {\"dtype\": \"U8\", \"shape\": [2], \"data_offsets\": "
            "[0, 2]}, \"b\": {\"dtype\": \"U8\", \"shape\": [2], "
            "\"data_offsets\": [1, 3]}}",
            3, "tensor \"b\": overlaps the tensor before it");
    refused("{\"a\": {\"dtype\": \"U8\", \"shape\": [2], \"data_offsets\": "
            "[0, 2]}, \"b\": {\"dtype\": \"U8\", \"shape\": [1], "
            "\"data_offsets\": [3, 4]}}",
            4, "tensor \"b\": leaves a gap after the tensor before it");
    refused("{\"a\": {\"dtype\": \"U8\", \"shape\": [2], \"data_offsets\": "
            "[0, 2]}}",
            5, "3 bytes of data belong to no tensor");
    refused("{\"__metadata__\": {\"k\": 1}}", 0,
            "metadata \"k\" is not a string");
    refused("{\"a\": {}, \"a\": {}}", 0,
            "header: line 1, column 18: the object that ends here has the name "
            "\"a\" twice");

    write_file("{\"a\": {\"dtype\": \"F32\", \"shape\": [0, "
               "4611686018427387904, 4], \"data_offsets\": [0, 0]}}", 0);
    ok(!tn_safetensors_tensor(tn_safetensors_open(path), "a"),
       "sizes too great for strides, of nothing");
    is_str(tn_error(), "safetensors_tensor: shape (0, 4611686018427387904, 4) "
                       "has strides beyond 2^62", "are refused as such");
    tn_error_clear();

    FILE *file = fopen(path, "wb");
    fwrite("abc", 1, 3, file);
    fclose(file);
    ok(!tn_safetensors_open(path), "three bytes are no file");
    ok(strstr(tn_error(), "3 bytes are too few for a safetensors file") != NULL,
       "and it is said: %s", tn_error());
    tn_error_clear();
    ok(!tn_safetensors_open("/nosuch/file"), "a file that is not there");
    is_str(tn_error(),
           "safetensors_open: /nosuch/file: No such file or directory",
           "is reported with name and reason");
    tn_error_clear();
    ok(!tn_safetensors_open("."), "a folder is refused");
    is_str(tn_error(), "safetensors_open: .: a folder, not a regular file",
           "as one");
    tn_error_clear();
    ok(!tn_safetensors_open(NULL), "NULL is refused");
    is_str(tn_error(), "safetensors_open: path is NULL", "and named");
    tn_error_clear();
}

static void test_round_trip(void)
{
    float values[6] = {1, -2, 3.5f, 0, -0.0f, 1e30f};
    int64_t whole[2] = {INT64_MIN, 7};
    tn_tensor *a = tn_tensor_from_array(values, TN_F32, tn_dims(2, 3));
    tn_tensor *b = tn_tensor_from_array(whole, TN_I64, tn_dims(2));
    tn_tensor *none = tn_zeros(tn_dims(0, 4));
    const char *names[] = {"layer.weight", "count", "none", "turned"};
    tn_tensor *tensors[] = {a, b, none, tn_transpose(a, 0, 1)};
    const char *const metadata[][2] = {{"format", "tenon"}};
    is_int(tn_safetensors_save(path, names, tensors, 4, metadata, 1), TN_OK,
           "four tensors are saved");

    tn_safetensors *file = tn_safetensors_open(path);
    if (!ok(file != NULL, "and opened: %s", tn_error() ? tn_error() : "ok"))
        return;
    is_int(tn_safetensors_count(file), 4, "all four are there");
    is_str(tn_safetensors_metadata(file, "format"), "tenon", "metadata too");
    ok(!tn_safetensors_metadata(file, "other"), "a key that is not is NULL");
    is_str(tn_safetensors_name(file, 0), "layer.weight",
           "names are in the order of the data");
    ok(!tn_safetensors_name(file, 4), "no fifth name");
    ok(tn_safetensors_has(file, "count") && !tn_safetensors_has(file, "x"),
       "names can be queried");

    tn_tensor *x = tn_safetensors_tensor(file, "layer.weight");
    float read[6] = {0};
    tn_tensor_to_array(x, read, sizeof read);
    ok(memcmp(read, values, sizeof read) == 0, "the same bits come back");
    tn_tensor *turned = tn_safetensors_tensor(file, "turned");
    is_int(tn_tensor_size(turned, 0), 3, "a view is saved as it looks");
    tn_tensor_to_array(turned, read, sizeof read);
    ok(read[1] == values[3], "row-major in its own shape");
    int64_t read_whole[2] = {0};
    tn_tensor_to_array(tn_safetensors_tensor(file, "count"), read_whole,
                       sizeof read_whole);
    ok(read_whole[0] == INT64_MIN && read_whole[1] == 7, "integers too");
    is_int(tn_tensor_size(tn_safetensors_tensor(file, "none"), 1), 4,
           "an empty tensor keeps its shape");

    tn_mul_scalar_(x, 2);
    tn_safetensors *again = tn_safetensors_open(path);
    tn_tensor_to_array(tn_safetensors_tensor(again, "layer.weight"), read,
                       sizeof read);
    ok(read[0] == 1, "a change in place is this process's alone");

    tn_keep(x);
    tn_drop(file);
    ok(tn_item(tn_select(tn_select(x, 0, 0), 0, 1)) == -4,
       "a tensor outlives its file's object");
    tn_drop(x);

    ok(!tn_safetensors_tensor(again, "weight"), "a name that is not there");
    char want[200];
    snprintf(want, sizeof want,
             "safetensors_tensor: %s: none of its 4 tensors is \"weight\"",
             path);
    is_str(tn_error(), want, "is reported");
    tn_error_clear();
}

static void test_save_mistakes(void)
{
    tn_tensor *x = tn_ones(tn_dims(2));
    const char *twice[] = {"a", "a"};
    tn_tensor *both[] = {x, x};
    is_int(tn_safetensors_save(path, twice, both, 2, NULL, 0), TN_ERR_ARGUMENT,
           "one name twice is refused");
    is_str(tn_error(), "safetensors_save: the name \"a\" is given twice",
           "and named");
    tn_error_clear();
    const char *const pairs[][2] = {{"k", "1"}, {"l", "2"}, {"k", "3"}};
    is_int(tn_safetensors_save(path, twice, both, 1, pairs, 3),
           TN_ERR_ARGUMENT, "metadata of one name twice");
    is_str(tn_error(), "safetensors_save: the name \"k\" is given twice",
           "are refused");
    is_int(tn_safetensors_save(path, twice, both, 1, NULL, 0), TN_ERR_STATE,
           "nothing is saved while an error is pending");
    tn_error_clear();
    const char *own[] = {"__metadata__"};
    is_int(tn_safetensors_save(path, own, both, 1, NULL, 0), TN_ERR_ARGUMENT,
           "the format's own name is refused");
    tn_error_clear();
    is_int(tn_safetensors_save("/nosuch/file", twice, both, 1, NULL, 0),
           TN_ERR_IO, "a folder that is not there");
    is_str(tn_error(),
           "safetensors_save: /nosuch/file: No such file or directory",
           "is reported");
    tn_error_clear();
    tn_tensor *missing[] = {NULL};
    is_int(tn_safetensors_save(path, twice, missing, 1, NULL, 0),
           TN_ERR_ARGUMENT, "a tensor that is NULL is refused");
    is_str(tn_error(), "safetensors_save: tensors[0] is NULL", "by number");
    tn_error_clear();
}

int main(void)
{
    plan_later();
    snprintf(path, sizeof path, "io-test-%ld.tmp", (long)getpid());
    test_malformed();
    test_round_trip();
    test_save_mistakes();
    unlink(path);
    return done_testing();
}
