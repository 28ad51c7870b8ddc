/* test_curves.c: curves of CSV files and damaged event files, and their
 * pictures. */
#include <tenon/curves.h>
#include <tenon/events.h>
#include <tenon/tenon.h>

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../tap.h"

static void write_bytes(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0)
        bail_out("cannot write %s", path);
}

static void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

static char *read_text(const char *path)
{
    void *data = NULL;
    size_t bytes = 0;
    tn_file_read(path, "test", &data, &bytes);
    char *text = realloc(data, bytes + 1);
    if (!text)
        bail_out("out of memory");
    text[bytes] = '\0';
    return text;
}

static void refused(tn_status got, tn_status code, const char *text)
{
    ok(got == code && tn_error() && strstr(tn_error(), text),
       "refused with \"%s\": %s", text, tn_error() ? tn_error() : "no error");
    tn_error_clear();
}

static void test_csv(void)
{
    tn_scope *scope = tn_scope_open();
    write_text("log.csv", "\xef\xbb\xbfstep, loss ,\"acc\"\n0,1.5,\n1,,0.5\r\n"
                          "2,0.25,0.75\n");
    tn_curves *curves = tn_curves_new();
    is_int(tn_curves_add(curves, "log.csv", NULL), TN_OK, "a CSV file is read");
    is_int(tn_curves_count(curves), 2, "each column but the first is a curve");
    is_str(tn_curves_tag(curves, 0), "loss", "named by the first line");
    is_str(tn_curves_tag(curves, 1), "acc", "without quotes");
    ok(tn_curves_length(curves, 0) == 2 && tn_curves_steps(curves, 0)[1] == 2 &&
           tn_curves_values(curves, 0)[1] == 0.25,
       "an empty cell is no point");
    is_int(tn_curves_add(curves, "log.csv", "again"), TN_OK, "another run");
    is_int(tn_curves_count(curves), 4, "adds its curves");

    write_text("bad.csv", "step,loss\n0,1\n1,x\n");
    refused(tn_curves_add(curves, "bad.csv", NULL), TN_ERR_FORMAT, "line 3");
    write_text("quoted.csv", "step,\"a, b\",\"say \"\"c\"\"\"\n0,1,2\n");
    tn_curves *quoted = tn_curves_new();
    is_int(tn_curves_add(quoted, "quoted.csv", NULL), TN_OK, "quoted names");
    is_str(tn_curves_tag(quoted, 0), "a, b", "a comma between quotes");
    is_str(tn_curves_tag(quoted, 1), "say \"c\"", "two quotes stand for one");
    write_text("open.csv", "step,\"a,b\n0,1,2\n");
    refused(tn_curves_add(curves, "open.csv", NULL), TN_ERR_FORMAT,
            "column 2 has a quote that is not closed");
    write_text("twice.csv", "step,a,a\n0,1,2\n");
    refused(tn_curves_add(curves, "twice.csv", NULL), TN_ERR_FORMAT,
            "column 3 has the name of another column");
    write_text("more.csv", "step,a,b\n0,1\n");
    refused(tn_curves_add(curves, "more.csv", NULL), TN_ERR_FORMAT,
            "more names than the 2 columns");
    write_text("noname.csv", "step,\n0,1\n");
    refused(tn_curves_add(curves, "noname.csv", NULL), TN_ERR_FORMAT,
            "column 2 has no name");
    write_text("text.txt", "hello\n");
    refused(tn_curves_add(curves, "text.txt", NULL), TN_ERR_FORMAT,
            "expected an event file");
    write_text("empty", "");
    refused(tn_curves_add(curves, "empty", NULL), TN_ERR_FORMAT, "expected an event file");
    mkdir("nothing", 0777);
    refused(tn_curves_add(curves, "nothing", NULL), TN_ERR_FORMAT,
            "no scalars");
    refused(tn_curves_add(curves, "nowhere", NULL), TN_ERR_IO, "nowhere");
    refused(tn_curves_add(curves, NULL, NULL), TN_ERR_ARGUMENT,
            "path is NULL");
    refused(tn_curves_add(NULL, "log.csv", NULL), TN_ERR_ARGUMENT,
            "curves is NULL");
    is_int(tn_curves_count(curves), 4, "failures add nothing");
    ok(!tn_curves_tag(curves, 4) && !tn_curves_run(curves, -1) &&
           !tn_curves_values(NULL, 0) && tn_curves_length(curves, 9) == 0,
       "there is nothing beyond the last curve");
    tn_scope_close(scope);
}

/* Each event file that is cut is read up to the cut; each that has a changed
 * byte is rejected, or the byte was in an incomplete record. */
static void test_damage(void)
{
    tn_scope *scope = tn_scope_open();
    tn_events *events = tn_events_open("run");
    for (int64_t step = 0; step < 5; step++)
        tn_events_scalar(events, "loss", (double)step, step);
    void *data;
    size_t bytes;
    if (tn_file_read(tn_events_path(events), "test", &data, &bytes) < 0)
        bail_out("%s", tn_error());
    int cut_wrong = 0, change_wrong = 0;
    int64_t points = 0;
    for (size_t keep = 12; keep <= bytes; keep++) {
        tn_curves *curves = tn_curves_new();
        write_bytes("cut", data, keep);
        tn_curves_add(curves, "cut", NULL);
        const int64_t got = tn_curves_length(curves, 0);
        cut_wrong += got < points || (tn_error() != NULL) != (got == 0);
        points = got;
        tn_error_clear();
    }
    is_int(cut_wrong, 0, "a cut file is read up to the cut");
    is_int(points, 5, "the whole file has all points");
    unsigned char *byte = data;
    for (size_t i = 12; i < bytes; i++) {
        tn_curves *curves = tn_curves_new();
        byte[i] ^= 0x10;
        write_bytes("changed", data, bytes);
        byte[i] ^= 0x10;
        change_wrong += tn_curves_add(curves, "changed", NULL) != TN_ERR_FORMAT;
        tn_error_clear();
    }
    is_int(change_wrong, 0, "a changed byte is noticed");
    free(data);
    tn_scope_close(scope);
}

/* A program that has just begun has an event file without a record. */
static void test_empty(void)
{
    tn_scope *scope = tn_scope_open();
    tn_events *events = tn_events_open("fresh");
    tn_events_scalar(events, "loss", 1, 0);
    write_bytes("fresh/events.out.tfevents.2", "", 0);
    write_bytes("fresh/events.out.tfevents.3", "\x18", 1);
    tn_curves *curves = tn_curves_new();
    is_int(tn_curves_add(curves, "fresh", NULL), TN_OK,
           "an event file may be empty");
    is_int(tn_curves_length(curves, 0), 1, "the others of its folder are read");
    refused(tn_curves_add(curves, "fresh/events.out.tfevents.2", NULL),
            TN_ERR_FORMAT, "no scalars");
    tn_scope_close(scope);
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        count++;
    return count;
}

static void test_pictures(void)
{
    tn_scope *scope = tn_scope_open();
    tn_events *first = tn_events_open("runs<1>");
    tn_events *second = tn_events_open("runs<1>/deeper");
    for (int64_t step = 0; step < 5000; step++) {
        tn_events_scalar(first, "loss/train", exp(-(double)step / 900), step);
        tn_events_scalar(second, "loss/train", step == 2500 ? 77 : 0.5, step);
    }
    tn_events_scalar(second, "one & only", 3, 10);
    tn_curves *curves = tn_curves_new();
    tn_curves_add(curves, "runs<1>", NULL);
    is_int(tn_curves_plot(curves, "a.svg", .title = "T & t", .smooth = 0.9),
           TN_OK, "an SVG picture is written");
    char *text = read_text("a.svg");
    ok(strstr(text, "T &amp; t") && strstr(text, "runs&lt;1&gt;/deeper") &&
           strstr(text, "one &amp; only"),
       "with escaped names");
    is_int(count_of(text, "<svg"), count_of(text, "</svg>"),
           "elements are closed");
    ok(!strstr(text, "http://") ||
           count_of(text, "http://") == count_of(text, "http://www.w3.org"),
       "it needs no other file");
    ok(strlen(text) < 400000, "long curves are thinned: %zu bytes",
       strlen(text));
    free(text);
    is_int(tn_curves_plot(curves, "a.html", .log_scale = true), TN_OK,
           "an HTML page is written");
    text = read_text("a.html");
    ok(strstr(text, "<script>") && strstr(text, "77"),
       "a single spike stays visible");
    free(text);

    refused(tn_curves_plot(curves, "a.png"), TN_ERR_ARGUMENT, ".html or .svg");
    refused(tn_curves_plot(curves, NULL), TN_ERR_ARGUMENT, "path is NULL");
    refused(tn_curves_plot(NULL, "a.svg"), TN_ERR_ARGUMENT, "curves is NULL");
    refused(tn_curves_plot(curves, "a.svg", .smooth = 1.0), TN_ERR_ARGUMENT,
            "smooth is 1");
    refused(tn_curves_plot(tn_curves_new(), "a.svg"), TN_ERR_ARGUMENT,
            "no curve");
    refused(tn_curves_plot(curves, "no/where.svg"), TN_ERR_IO, "no/where.svg");
    tn_scope_close(scope);
}

/* Writes a CSV file, and returns its SVG picture. */
static char *picture_of(const char *csv)
{
    tn_scope *scope = tn_scope_open();
    tn_curves *curves = tn_curves_new();
    write_text("a.csv", csv);
    tn_curves_add(curves, "a.csv", NULL);
    is_int(tn_curves_plot(curves, "a.svg"), TN_OK, "a picture of a CSV file");
    tn_scope_close(scope);
    return read_text("a.svg");
}

static void test_labels(void)
{
    char *text = picture_of("step,loss\n0,0.99990\n1,0.99995\n");
    ok(strstr(text, ">0.99991<") && strstr(text, ">0.99992<"),
       "labels of close values differ");
    free(text);
    text = picture_of("step,loss\n10000000,1\n10000010,2\n");
    ok(strstr(text, ">10000002<") && strstr(text, ">10000004<"),
       "labels of large steps differ");
    free(text);
    text = picture_of("epoch,loss\n0,1\n0.25,2\n0.5,3\n");
    ok(strstr(text, ">0.2<") && strstr(text, ">0.4<"),
       "steps need not be whole");
    free(text);
    text = picture_of("step,gr\xf6\xdf" "e\n0,1\n");
    ok(strstr(text, ">gr??e<"), "names that are not UTF-8 become valid XML");
    free(text);
}

int main(void)
{
    char folder[] = "/tmp/test_curves.XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) < 0)
        bail_out("no folder in /tmp");
    test_csv();
    test_damage();
    test_empty();
    test_labels();
    test_pictures();
    if (chdir("/tmp") == 0) {
        char line[100];
        snprintf(line, sizeof line, "rm -rf %s", folder);
        if (system(line) != 0)
            fprintf(stderr, "# %s stays\n", folder);
    }
    return done_testing();
}
