/* test_own_formats.c: tests tn_file_read and tn_file_replace, for formats that
 * the library does not have. */
#include <tenon/tenon.h>

#include <stdlib.h>
#include <unistd.h>

#include "../tap.h"

static tn_status put(void *context, tn_file *file)
{
    const char *text = context;
    tn_file_write(file, text, 3);
    return tn_file_write(file, text + 3, strlen(text) - 3);
}

static tn_status put_and_fail(void *context, tn_file *file)
{
    put(context, file);
    tn_error_set(TN_ERR_ARGUMENT, "test: no more");
    return TN_ERR_ARGUMENT;
}

/* A failed write that the producer does not notice. */
static tn_status put_carelessly(void *context, tn_file *file)
{
    (void)context;
    tn_file_write(file, NULL, 1);
    tn_error_clear();
    return TN_OK;
}

static bool holds(const char *path, const char *text)
{
    void *data = NULL;
    size_t bytes = 0;
    bool same = tn_file_read(path, "test", &data, &bytes) == TN_OK &&
                bytes == strlen(text) && memcmp(data, text, bytes) == 0;
    free(data);
    return same;
}

int main(void)
{
    char folder[] = "/tmp/test_own_formats.XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) < 0)
        bail_out("no folder in /tmp");
    char old[] = "the old one", new[] = "the new one";

    is_int(tn_file_replace("a.txt", "test", put, old), TN_OK, "a file is written");
    ok(holds("a.txt", old), "it has both pieces");
    is_int(tn_file_replace("a.txt", "test", put, new), TN_OK, "and replaced");
    ok(holds("a.txt", new), "by the new contents");

    is_int(tn_file_replace("a.txt", "test", put_and_fail, old), TN_ERR_ARGUMENT,
           "the producer's error is returned");
    is_str(tn_error(), "test: no more", "its message stays");
    is_int(tn_file_replace("a.txt", "test", put, old), TN_ERR_STATE,
           "nothing is written while an error is pending");
    tn_error_clear();
    ok(holds("a.txt", new), "the old file is unchanged");

    is_int(tn_file_replace("a.txt", "test", put_carelessly, NULL),
           TN_ERR_ARGUMENT, "a failed write is not forgotten");
    tn_error_clear();
    ok(holds("a.txt", new), "the old file is unchanged");

    is_int(tn_file_replace("nowhere/a.txt", "test", put, old), TN_ERR_IO,
           "a folder that is not there");
    ok(strncmp(tn_error(), "test: nowhere/a.txt: ", 21) == 0,
       "the message begins with the caller's name and the path");
    tn_error_clear();
    void *data = &old;
    size_t bytes = 7;
    is_int(tn_file_read("b.txt", "test", &data, &bytes), TN_ERR_IO,
           "reading a file that is not there");
    tn_error_clear();
    ok(data == &old && bytes == 7, "leaves the results unchanged");

    is_int(tn_file_read(NULL, "test", &data, &bytes), TN_ERR_ARGUMENT,
           "no path");
    tn_error_clear();
    is_int(tn_file_read("a.txt", NULL, &data, &bytes), TN_ERR_ARGUMENT,
           "no name of the caller");
    tn_error_clear();
    is_int(tn_file_read("a.txt", "test", NULL, &bytes), TN_ERR_ARGUMENT,
           "no place for the contents");
    tn_error_clear();
    is_int(tn_file_read("a.txt", "test", &data, NULL), TN_ERR_ARGUMENT,
           "no place for the size");
    tn_error_clear();
    is_int(tn_file_replace("a.txt", "test", NULL, NULL), TN_ERR_ARGUMENT,
           "no producer");
    tn_error_clear();
    is_int(tn_file_write(NULL, "x", 1), TN_ERR_ARGUMENT, "no file");
    tn_error_clear();
    ok(holds("a.txt", new), "the file is unchanged after all of this");

    (void)unlink("a.txt");
    (void)rmdir(folder);
    return done_testing();
}
