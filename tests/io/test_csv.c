/* test_csv.c: tables in text files. */
#include <tenon/tenon.h>

#include <locale.h>
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
    is_str(tn_error(), want, "and the message tells it");
    tn_error_clear();
}

int main(void)
{
    plan_later();
    snprintf(path, sizeof path, "io-test-%ld.tmp", (long)getpid());
    write_text("1,2.5,-3\r\n\n 4 ,5e-1, inf\n");
    tn_tensor *x = tn_csv_load(path);
    is_int(tn_tensor_size(x, 0), 2, "empty lines are passed over");
    is_int(tn_tensor_size(x, 1), 3, "three columns");
    float row[6] = {0};
    tn_tensor_to_array(x, row, sizeof row);
    ok(row[1] == 2.5f && row[3] == 4 && row[4] == 0.5f && isinf(row[5]),
       "numbers as C writes them");

    write_text("a;b\n1;2\n");
    x = tn_csv_load(path, .delimiter = ';', .skip_rows = 1, .dtype = TN_I64);
    is_int(tn_item_int(tn_sum(x)), 3, "delimiter, header and dtype are options");
    is_int(tn_tensor_dtype(x), TN_I64, "of the dtype asked for");

    write_text("1,2.5\n");
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8"))
        is_int(tn_tensor_numel(tn_csv_load(path)), 2,
               "the program's locale does not matter");
    else
        skip(1, "there is no locale de_DE.UTF-8");
    setlocale(LC_NUMERIC, "C");

    gzFile zipped = gzopen(path, "wb");
    gzputs(zipped, "7,8\n");
    gzclose(zipped);
    ok(tn_item(tn_sum(tn_csv_load(path))) == 15, "a gzipped file is read");

    refused("1,2\n3\n", "line 2 has 1 columns, those before it have 2");
    refused("1,2\n3,x\n", "line 2, column 2: not a number: \"x\"");
    refused("1,,2\n", "line 1, column 2: not a number: \"\"");
    refused("1 2\n", "line 1, column 1: not a number: \"1 2\"");
    refused("\n\n", "no rows");
    const char zero[] = "1,2\n3,4\0,5\n6,7\n";
    FILE *file = fopen(path, "w");
    fwrite(zero, 1, sizeof zero - 1, file);
    fclose(file);
    char want[300];
    snprintf(want, sizeof want, "csv_load: %s: line 2 holds a byte of 0", path);
    ok(!tn_csv_load(path), "what stands behind a byte of 0 is not lost");
    is_str(tn_error(), want, "but told");
    tn_error_clear();
    ok(!tn_csv_load("/nosuch/file"), "a file that is not there");
    is_str(tn_error(), "csv_load: /nosuch/file: No such file or directory",
           "is told with the reason");
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
    unlink(path);
    return done_testing();
}
