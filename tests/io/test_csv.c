/* test_csv.c: tests reading and writing tables of numbers in text files. */
#include <tenon/tenon.h>

#include <unistd.h>
#include <zlib.h>

#include "../tap.h"

static char path[64];

static void write_text(const char *text)
{
    FILE *file = fopen(path, "w");
    if (!file)
        bail_out("cannot write %s", path);
    fputs(text, file);
    fclose(file);
}

static void refused(const char *text, const char *message)
{
    write_text(text);
    char want[300];
    snprintf(want, sizeof want, "csv_load: %s: %s", path, message);
    ok(!tn_csv_load(path), "refused: %s", message);
    is_str(tn_error(), want, "and the message says so");
    tn_error_clear();
}

/* Checks that the file's table in this dtype is the text `want`, as
 * tn_tensor_text writes it. */
static void holds(const char *text, tn_dtype dtype, const char *want)
{
    write_text(text);
    tn_tensor *x = tn_csv_load(path, .dtype = dtype);
    char *got = tn_tensor_text(x);
    char *device = got ? strstr(got, ", device='") : NULL;
    if (device) { /* the text is the same on every device */
        char *end = strchr(device + 10, '\'') + 1;
        memmove(device, end, strlen(end) + 1);
    }
    is_str(got ? got : tn_error(), want, "as %s: %s", tn_dtype_name(dtype),
           want);
    free(got);
    tn_error_clear();
}

static void refused_as(tn_dtype dtype, const char *text, const char *message)
{
    write_text(text);
    char want[300];
    snprintf(want, sizeof want, "csv_load: %s: %s", path, message);
    ok(!tn_csv_load(path, .dtype = dtype), "refused: %s", message);
    is_str(tn_error(), want, "with line and column");
    is_int(tn_error_code(), TN_ERR_FORMAT, "and its code");
    tn_error_clear();
}

static void test_exact(void)
{
    holds("9007199254740993,1\n", TN_I64,
          "tensor([[9007199254740993,                1]])");
    holds("9223372036854775807,-9223372036854775808", TN_I64,
          "tensor([[ 9223372036854775807, -9223372036854775808]])");
    holds("1e3,2.0,0x10", TN_I64, "tensor([[1000,    2,   16]])");
    holds("255,0", TN_U8, "tensor([[255,   0]], dtype=torch.uint8)");
    refused_as(TN_I64, "1\n9223372036854775808\n",
               "line 2, column 1: outside the range of int64: "
               "\"9223372036854775808\"");
    refused_as(TN_I64, "9007199254740993.0",
               "line 1, column 1: outside the range of int64: "
               "\"9007199254740993.0\"");
    refused_as(TN_U8, "1,300\n",
               "line 1, column 2: outside the range of uint8: \"300\"");
    refused_as(TN_U8, "-1", "line 1, column 1: outside the range of uint8: "
                            "\"-1\"");
    refused_as(TN_I32, "1.5", "line 1, column 1: not a value of int32: \"1.5\"");
    refused_as(TN_I32, "nan", "line 1, column 1: not a value of int32: \"nan\"");
    refused_as(TN_I32, "1e30",
               "line 1, column 1: outside the range of int32: \"1e30\"");
    refused_as(TN_BOOL, "0,2",
               "line 1, column 2: outside the range of bool: \"2\"");
    refused_as(TN_F64, "1e999",
               "line 1, column 1: beyond the range of float64: \"1e999\"");
    refused_as(TN_F32, "1e300",
               "line 1, column 1: beyond the range of float32: \"1e300\"");
    refused_as(TN_F16, "65504,65520",
               "line 1, column 2: beyond the range of float16: \"65520\"");
    refused_as(TN_BF16, "3.4e38",
               "line 1, column 1: beyond the range of bfloat16: \"3.4e38\"");
    write_text("65519.99,inf,-inf\n");
    float half[3] = {0};
    tn_tensor_to_array(
        tn_to_dtype(tn_csv_load(path, .dtype = TN_F16), TN_F32), half,
        sizeof half);
    ok(half[0] == 65504 && isinf(half[1]) && isinf(half[2]),
       "a number that rounds to the largest float16 becomes that one; a "
       "written infinity is an infinity");
    /* A number 2^-54 more than halfway between two float32 numbers. If it were
     * rounded to float64 first, it would be exactly halfway and then be rounded
     * down to even. */
    write_text("1.000000059604644831126868677\n");
    ok(tn_item(tn_csv_load(path)) == 1 + 0x1p-23,
       "float32 is rounded once, not twice");
}

static void test_lines(void)
{
    holds("1,2\r3,4", TN_I64, "tensor([[1, 2],\n        [3, 4]])");
    holds("1,2\r\n3,4\r\n\r\n", TN_I64,
          "tensor([[1, 2],\n        [3, 4]])");
    refused("\n\xef\xbb\xbf" "1\n",
            "line 2, column 1: not a number: \"\xef\xbb\xbf" "1\"");
    holds("\xef\xbb\xbf" "1,2\n", TN_I64, "tensor([[1, 2]])");
    write_text("\xef\xbb\xbfname\r1\r2");
    is_int(
        tn_item_int(tn_sum(tn_csv_load(path, .skip_rows = 1, .dtype = TN_I64))),
        3, "skipped lines may end in CR, too");
}

static void test_quotes(void)
{
    holds("\"1\",2\n 3 , \"4\" \n", TN_I64,
          "tensor([[1, 2],\n        [3, 4]])");
    refused("1,\"2\n\n\n", "line 1, column 2: a quote is not closed");
    refused("1,\"2\"3\n",
            "line 1, column 2: characters after a closing quote");
    refused("1,2\n3,\"\n4\"\nx\n",
            "line 4 has 1 columns; expected 2, as before");
    refused("1,2\n3,4\"5\n", "line 2, column 2: not a number: \"4\"5\"");
}

static void test_empty(void)
{
    refused("1,2,\n", "line 1, column 3: an empty cell: give .empty, such as "
                      ".empty = NAN, for its value");
    write_text("1,,3\n,\"\",\n");
    tn_tensor *x = tn_csv_load(path, .empty = NAN);
    float cell[6] = {0};
    is_int(tn_tensor_to_array(x, cell, sizeof cell), TN_OK,
           "empty cells may have a value");
    ok(cell[0] == 1 && isnan(cell[1]) && cell[2] == 3 && isnan(cell[3]) &&
           isnan(cell[4]) && isnan(cell[5]),
       "NaN, wherever they are");
    is_int(tn_item_int(tn_sum(tn_csv_load(path, .empty = -1,
                                          .dtype = TN_I64))),
           0, "or a number of the dtype");
    ok(!tn_csv_load(path, .empty = NAN, .dtype = TN_I64),
       "not one that it has not");
    ok(strstr(tn_error(), "line 1, column 2: an empty cell, and int64 "
                          "cannot represent nan") != NULL, "%s", tn_error());
    tn_error_clear();
}

static void test_categories(void)
{
    tn_categories *kinds = tn_categories_new();
    write_text("5.1, setosa\n6,\"virginica, \"\"wild\"\"\"\n4,setosa\n"
               "5,\"two\nlines\"\n");
    tn_tensor *x = tn_csv_load(path, .category = 1, .categories = kinds);
    float cell[8] = {0};
    tn_tensor_to_array(x, cell, sizeof cell);
    ok(cell[1] == 0 && cell[3] == 1 && cell[5] == 0 && cell[7] == 2,
       "texts are numbered as they first appear");
    is_int(tn_categories_count(kinds), 3, "three names");
    is_str(tn_categories_name(kinds, 0), "setosa", "without blanks around");
    is_str(tn_categories_name(kinds, 1), "virginica, \"wild\"",
           "quoted texts have their contents");
    is_str(tn_categories_name(kinds, 2), "two\nlines", "on several lines too");
    ok(!tn_categories_name(kinds, 3) && !tn_categories_name(kinds, -1),
       "no others");

    write_text("1,other\n2,setosa\n");
    tn_dataset *set = tn_dataset_from_csv(
        path, TN__OPTIONS(tn_csv_load_options, .category = -1,
                          .categories = kinds, ));
    tn_tensor *fields[TN_MAX_FIELDS];
    int64_t both[2] = {0, 1}, label[2] = {-1, -1};
    tn_dataset_batch(set, both, 2, fields);
    tn_tensor_to_array(fields[1], label, sizeof label);
    ok(label[0] == 3 && label[1] == 0,
       "a second file has the numbers of the first: labels of a data set");
    write_text("1,newer\n2\n");
    ok(!tn_csv_load(path, .category = 1, .categories = kinds),
       "where loading fails");
    tn_error_clear();
    is_int(tn_categories_count(kinds), 4, "no name has come");
    char *many = malloc(1 << 17), *at = many;
    for (int i = 0; i < 5000; i++)
        at += sprintf(at, "name %d\nname %d\n", i, i);
    write_text(many);
    tn_tensor *ids = tn_csv_load(path, .category = 0, .categories = kinds,
                                 .dtype = TN_I64);
    is_int(tn_item_int(tn_max(ids)), 5003, "5000 more names");
    is_str(tn_categories_name(kinds, 5003), "name 4999", "the last of them");
    ok(!tn_csv_load(path, .category = 0, .categories = kinds, .dtype = TN_U8),
       "more than uint8 counts are refused");
    ok(strstr(tn_error(), "line 505, column 1: category 256 is outside "
                          "the range of uint8") != NULL, "%s", tn_error());
    tn_error_clear();
    free(many);
    ok(!tn_csv_load(path, .category = 1, .categories = kinds),
       "a column that is not there is refused");
    ok(strstr(tn_error(), "category is 1, outside the 1 columns") != NULL,
       "%s", tn_error());
    tn_error_clear();
    ok(!tn_csv_load(path, .category = 0), "names need a place to be stored");
    tn_error_clear();
    ok(!tn_csv_load(path, .categories = kinds), "and come from somewhere");
    tn_error_clear();
}

static void test_labels(void)
{
    static const char *const bad[] = {"1.7", "nan", "1e30"};
    for (int i = 0; i < 3; i++) {
        char text[40];
        snprintf(text, sizeof text, "1,2,1\n3,4,%s\n", bad[i]);
        write_text(text);
        ok(!tn_dataset_from_csv(path, NULL), "label %s is refused", bad[i]);
        char place[140];
        snprintf(place, sizeof place, "dataset_from_csv: %s: line 2, column 3: ",
                 path);
        ok(strncmp(tn_error(), place, strlen(place)) == 0, "%s", tn_error());
        tn_error_clear();
    }
    write_text("1,9007199254740993\n");
    tn_tensor *fields[TN_MAX_FIELDS];
    int64_t first = 0;
    tn_dataset_batch(tn_dataset_from_csv(path, NULL), &first, 1, fields);
    is_int(tn_item_int(fields[1]), 9007199254740993, "labels are exact");
}

static void append(const char *text)
{
    FILE *file = fopen(path, "ab");
    fputs(text, file);
    fclose(file);
}

static void zip(const char *text, int times, const char *mode)
{
    gzFile zipped = gzopen(path, mode);
    for (int i = 0; i < times; i++)
        gzputs(zipped, text);
    gzclose(zipped);
}

static void test_gzip(void)
{
    zip("1,2\n", 1, "wb");
    zip("3,4\n", 1, "ab");
    ok(tn_item(tn_sum(tn_csv_load(path))) == 10,
       "two gzip members are one file");
    append("5,6\n");
    char want[300];
    snprintf(want, sizeof want,
             "csv_load: %s: other data follows the gzipped data",
             path);
    ok(!tn_csv_load(path), "a text behind them is not lost in silence");
    is_str(tn_error(), want, "but is reported");
    is_int(tn_error_code(), TN_ERR_IO, "with its code");
    tn_error_clear();

    setenv("TENON_UNPACK_LIMIT", "much", 1);
    ok(!tn_csv_load(path), "TENON_UNPACK_LIMIT has to be a number");
    is_str(tn_error(),
           "csv_load: TENON_UNPACK_LIMIT=much is not a number of bytes, such "
           "as 512M or 4G", "of bytes");
    tn_error_clear();
    is_int(tn_unpack_limit(), TN_ERR_ARGUMENT,
           "a caller who requests it gets the error, too");
    tn_error_clear();
    setenv("TENON_UNPACK_LIMIT", "4G", 1);
    is_int(tn_unpack_limit(), INT64_C(4) << 30, "it is read");
    unsetenv("TENON_UNPACK_LIMIT");
    is_int(tn_unpack_limit(), 1 << 30, "without it, 1 GiB");

    /* Writes 16 MiB of one digit, which compress to a few KiB. */
    zip("1111111111111111111111111111111111111111111111111111111111111111",
        1 << 18, "wb");
    is_int(tn_unpack_limit_set(1 << 20), TN_OK,
           "there is a limit for unpacked data");
    snprintf(want, sizeof want,
             "csv_load: %s: unpacks to more than 1048576 bytes; if that is "
             "meant, set a greater TENON_UNPACK_LIMIT (now 1048576; 0: none) or "
             "call tn_unpack_limit_set", path);
    ok(!tn_csv_load(path), "is met by a file that unpacks to more");
    is_str(tn_error(), want, "whose message says what to write");
    tn_error_clear();
    ok(!tn_idx_load(path) && strstr(tn_error(), "unpacks to more than"),
       "so it is for IDX");
    tn_error_clear();
    ok(!tn_text_load(path) && strstr(tn_error(), "unpacks to more than"),
       "and for texts");
    tn_error_clear();
    tn_unpack_limit_set(1 << 24);
    is_int(tn_text_count(tn_text_load(path)), 1 << 24,
           "as many as the limit are taken");
    tn_unpack_limit_set(0);
    is_int(tn_text_count(tn_text_load(path)), 1 << 24, "0 is no limit");
    is_int(tn_unpack_limit_set(-1), TN_ERR_ARGUMENT, "less is refused");
    is_str(tn_error(),
           "unpack_limit_set: bytes is -1; expected at least 0 (0: no limit)",
           "and is reported");
    tn_error_clear();
}

int main(void)
{
    plan_later();
    snprintf(path, sizeof path, "io-test-%ld.tmp", (long)getpid());
    write_text("1,2.5,-3\r\n\n 4 ,5e-1, inf\n");
    tn_tensor *x = tn_csv_load(path);
    is_int(tn_tensor_size(x, 0), 2, "empty lines are skipped");
    is_int(tn_tensor_size(x, 1), 3, "three columns");
    float row[6] = {0};
    tn_tensor_to_array(x, row, sizeof row);
    ok(row[1] == 2.5f && row[3] == 4 && row[4] == 0.5f && isinf(row[5]),
       "numbers as C writes them");

    write_text("a;b\n1;2\n");
    x = tn_csv_load(path, .delimiter = ';', .skip_rows = 1, .dtype = TN_I64);
    is_int(tn_item_int(tn_sum(x)), 3, "delimiter, header and dtype are options");
    is_int(tn_tensor_dtype(x), TN_I64, "of the requested dtype");

    gzFile zipped = gzopen(path, "wb");
    gzputs(zipped, "7,8\n");
    gzclose(zipped);
    ok(tn_item(tn_sum(tn_csv_load(path))) == 15, "a gzipped file is read");

    refused("1,2\n3\n", "line 2 has 1 columns; expected 2, as before");
    refused("1,2\n3,x\n",
            "line 2, column 2: not a number: \"x\": .skip_rows skips a header, "
            ".category reads a column of texts");
    char wide[90] = "";
    memset(wide, 'w', sizeof wide - 1);
    char hint[200];
    snprintf(hint, sizeof hint,
             "line 1, column 1: not a number: \"%.60s\": .skip_rows skips a "
             "header, .category reads a column of texts", wide);
    refused(wide, hint);
    refused("1,,2\n", "line 1, column 2: an empty cell: give .empty, such as "
                       ".empty = NAN, for its value");
    refused("1 2\n", "line 1, column 1: not a number: \"1 2\"");
    refused("\n\n", "the file has no rows of data");
    const char zero[] = "1,2\n3,4\0,5\n6,7\n";
    FILE *file = fopen(path, "w");
    fwrite(zero, 1, sizeof zero - 1, file);
    fclose(file);
    char want[300];
    snprintf(want, sizeof want, "csv_load: %s: line 2 contains a NUL byte",
             path);
    ok(!tn_csv_load(path), "what stands behind a byte of 0 is not lost");
    is_str(tn_error(), want, "but told");
    tn_error_clear();
    ok(!tn_csv_load("/nosuch/file"), "a file that is not there");
    is_str(tn_error(), "csv_load: /nosuch/file: No such file or directory",
           "is reported with the reason");
    tn_error_clear();
    ok(!tn_csv_load(NULL), "NULL is refused");
    is_str(tn_error(), "csv_load: path is NULL", "and named");
    tn_error_clear();

    write_text("0.5,1,3\n0.25,2,4\n");
    tn_dataset *set = tn_dataset_from_csv(path, NULL);
    is_int(tn_dataset_count(set), 2, "a CSV file is a data set");
    tn_tensor *fields[TN_MAX_FIELDS];
    int64_t second = 1;
    is_int(tn_dataset_batch(set, &second, 1, fields), 2, "of two fields");
    ok(tn_item(tn_sum(fields[0])) == 2.25 && tn_item_int(fields[1]) == 4,
       "features and the label in the last column");
    is_int(tn_tensor_dtype(fields[1]), TN_I64, "labels are int64");
    write_text("1\n2\n");
    ok(!tn_dataset_from_csv(path, NULL), "one column has no label");
    tn_error_clear();
    test_exact();
    test_lines();
    test_quotes();
    test_empty();
    test_categories();
    test_labels();
    test_gzip();
    unlink(path);
    return done_testing();
}
