/* Tests error messages, the strings of status codes, and the log. */
#include "base/error.h"
#include "base/memory.h"
#include "tap.h"

#include <pthread.h>

static void *other_thread(void *seen)
{
    *(bool *)seen = tn_error() != NULL;
    tn__fail(TN_ERR_IO, "other");
    return NULL;
}

static void test_first_wins(void)
{
    ok(!tn_error(), "no error is pending at first");
    is_int(tn_error_code(), TN_OK, "there is no code at first");
    is_int(tn__fail(TN_ERR_SHAPE, "add: (%d,) x (%d,)", 2, 3), TN_ERR_SHAPE,
           "recording returns the code");
    is_int(tn_error_set(TN_ERR_IO, "second"), TN_ERR_IO,
           "a second one returns its own");
    is_str(tn_error(), "add: (2,) x (3,)", "the first message is kept");
    is_int(tn_error_code(), TN_ERR_SHAPE, "the first code is kept");
    ok(tn__error_pending(), "the error is pending");
    bool seen = true;
    pthread_t thread;
    pthread_create(&thread, NULL, other_thread, &seen);
    pthread_join(thread, NULL);
    ok(!seen, "another thread does not see it");
    is_str(tn_error(), "add: (2,) x (3,)",
           "another thread's error does not change it");
    tn_error_clear();
    ok(!tn_error(), "clear forgets it");
    ok(!tn__fail_null(TN_ERR_INDEX, "a\nb"), "fail_null returns NULL");
    is_str(tn_error(), "a b", "a message is one line");
    tn_error_clear();
    is_int(tn_error_set(TN_ERR_IO, NULL), TN_ERR_IO, "no format is legal");
    is_str(tn_error(), "ERR_IO", "and the code's name is its text");
    tn_error_clear();
}

static void test_long(void)
{
    char text[3 * TN__ERROR_BYTES];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    tn__fail(TN_ERR_FORMAT, "%s", text);
    size_t length = strlen(tn_error());
    is_int((int64_t)length, TN__ERROR_BYTES - 1, "a long message is cut");
    is_str(tn_error() + length - 3, "...", "and says so");
    tn_error_clear();
}

static void test_set_aside(void)
{
    tn__fail(TN_ERR_SHAPE, "one");
    tn__error before;
    tn__error_take(&before);
    ok(!tn_error(), "an error set aside is not pending");
    tn__fail(TN_ERR_IO, "two");
    tn__error_put(&before);
    is_str(tn_error(), "one", "and comes back as it was");
    tn_error_clear();
}

static void test_names(void)
{
    is_str(tn_status_name(TN_OK), "OK", "the name of success");
    is_str(tn_status_name(TN_ERR_DEVICE_LOST), "ERR_DEVICE_LOST",
           "the name of a code");
    is_str(tn_status_name(-99), "unknown", "the name of none");
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", TN_VERSION_MAJOR,
             TN_VERSION_MINOR, TN_VERSION_PATCH);
    is_str(tn_version(), version, "the version is that of the headers");
    is_int(tn_version_number(), TN_VERSION_NUMBER, "and so is its number");
}

static void test_text(void)
{
    tn__text text = {0};
    int64_t shape[] = {2, 3};
    tn__text_add_shape(&text, 2, shape);
    tn__text_add(&text, " x ");
    tn__text_add_shape(&text, 1, shape);
    tn__text_add_bytes(&text, " x yes", 3);
    tn__text_add_shape(&text, 0, NULL);
    char *got = tn__text_finish(&text);
    is_str(got, "(2, 3) x (2,) x ()", "shapes print as PyTorch's do");
    tn__free(got);
    got = tn__text_finish(&text);
    is_str(got, "", "an empty text is a text");
    tn__free(got);
    for (int i = 0; i < 1000; i++)
        tn__text_add(&text, "%d,", i);
    is_int((int64_t)text.length, 10 * 2 + 90 * 3 + 900 * 4,
           "a text grows as it must");
    tn__text_release(&text);
    tn__memory_fail_at(1);
    tn__text_add(&text, "lost");
    tn_error_clear();
    tn__text_add(&text, "found");
    ok(!tn__text_finish(&text), "a text that memory failed is NULL");
    is_int(tn_error_code(), TN_ERR_MEMORY, "with ERR_MEMORY");
    tn_error_clear();
}

static char last[256];
static int lines;
static void keep_line(int level, const char *line, void *context)
{
    snprintf(last, sizeof last, "%d %s %s", level, line,
             (const char *)context);
    lines++;
}

static void test_log(void)
{
    ok(!tn__log_enabled(1), "without TENON_LOG the log is silent");
    tn_log_set(keep_line, "me");
    ok(tn__log_enabled(2) && !tn__log_enabled(3),
       "a log of one's own gets warnings and choices");
    tn__log(1, "x is %d", 7);
    is_str(last, "1 x is 7 me", "a line arrives with level and context");
    tn__log(3, "y");
    is_int(lines, 1, "details do not");
    tn_log_set(NULL, NULL);
    tn__log(1, "z");
    is_int(lines, 1, "NULL brings the silent default back");
}

/* Checks the pending error's message, operator and argument, then clears it. */
static void blames(const char *message, const char *op, const char *argument)
{
    const tn_error_details *e = tn_error_info();
    is_str(tn_error(), message, "%s", message);
    is_str(e->op ? e->op : "", op, "%s: of %s", message, op);
    is_str(e->argument ? e->argument : "", argument, "%s: %s", message,
           *argument ? argument : "no argument");
    tn_error_clear();
}

static void test_marks(void)
{
    tn__fail(TN_ERR_SHAPE, "mul: {input} (%d,) x {other} (%d,)", 2, 3);
    blames("mul: input (2,) x other (3,)", "mul", "input");
    tn__fail(TN_ERR_DEVICE, "%s: {input} is here, {!other} there", "mul");
    blames("mul: input is here, other there", "mul", "other");
    tn__fail(TN_ERR_ARGUMENT, "flip: {dims:dim} %d is given twice", 1);
    blames("flip: dim 1 is given twice", "flip", "dims");
    tn__fail(TN_ERR_SHAPE, "%s: {%s:}no element", "amax", "input");
    blames("amax: no element", "amax", "input");
    tn__fail(TN_ERR_ARGUMENT, "nothing: in particular");
    blames("nothing: in particular", "", "");
    tn__fail_marked(TN_ERR_SHAPE, "add", "{input} (100%s), {!other} (3,)");
    blames("add: input (100%s), other (3,)", "add", "other");

    tn__fail(TN_ERR_SHAPE, "cat: {tensors[%d]} differs from {tensors[0]}", 12);
    is_int(tn__error_argument()->index, 12, "one of a list");
    blames("cat: tensors[12] differs from tensors[0]", "cat", "tensors");

    tn__fail(TN_ERR_FORMAT, "einsum: {equation} \"%s\"", "{a},{!b}:");
    blames("einsum: equation \"{a},{!b}:\"", "einsum", "equation");
    tn__fail(TN_ERR_FORMAT, "einsum: {equation} \"%s\"", "\001forged\002");
    blames("einsum: equation \"forged\"", "", "");
    tn__fail(TN_ERR_ARGUMENT, "sum: {dim} as {.dim = %d}, {0} or {...}", 1);
    blames("sum: dim as {.dim = 1}, {0} or {...}", "sum", "dim");
    tn_error_set(TN_ERR_FORMAT, "mine: {input} of %d", 3);
    blames("mine: {input} of 3", "", "");

    tn__fail(TN_ERR_SHAPE, "row: {tensors[%d]} x {n} x {tensors[1]}", 0);
    tn__error_rename(0, "input", -1);
    tn__error_rename(2, "others", 10);
    tn__error_attribute("operator");
    is_str(tn__error_words(), "operator: input x n x others[10]",
           "arguments and operator are renamed");
    ok(tn__error_is_from("operator") && !tn__error_is_from("op"),
       "it is one of that operator");
    tn__error_prefix("%s", "outer");
    is_str(tn_error(), "outer: operator: input x n x others[10]",
           "a prefix is put before it");
    tn__error_rename(1, "number", -1);
    blames("outer: operator: input x number x others[10]", "outer", "input");

    char many[TN__ERROR_BYTES * 2];
    memset(many, 'x', sizeof many - 1);
    many[sizeof many - 1] = 0;
    tn__fail(TN_ERR_ARGUMENT, "pad: {mode} \"%s\" is none of {input}'s", many);
    is_int((int64_t)strlen(tn_error()), TN__ERROR_BYTES - 3, "a long value");
    is_str(tn_error_info()->argument, "mode", "leaves the mark before it");
    tn__error_rename(0, "another_mode", -1);
    is_int((int64_t)strlen(tn_error()), TN__ERROR_BYTES - 1, "still in room");
    tn_error_clear();
}

static void test_format(void)
{
    char text[8] = "before";
    is_int(tn_format(text, sizeof text, "%.3f", 2.0 / 3), 5,
           "tn_format returns the length");
    is_str(text, "0.667", "and writes the text");
    is_int(tn_format(text, 4, "%d", 123456), 6, "also of what is cut off");
    is_str(text, "123", "which ends with a NUL");
    is_int(tn_format(NULL, 0, "%s", "abc"), 3, "no text: only the length");
    ok(!tn_error(), "none of these is an error");
    is_int(tn_format(NULL, 1, "%s", "abc"), -1, "a text of NULL is refused");
    is_str(tn_error(), "format: text is NULL", "by name");
    tn_error_clear();
    is_int(tn_format(text, sizeof text, NULL), -1, "a format of NULL, too");
    is_str(tn_error(), "format: format is NULL", "by name");
    tn_error_clear();
}

static void test_prefix(void)
{
    tn_error_prefix("epoch %d", 1);
    ok(!tn_error(), "a prefix of no error is none");
    const tn_path *before = tn_path_enter(tn_path_join(NULL, "encoder"));
    tn_error_set(TN_ERR_SHAPE, "sizes differ");
    tn_path_enter(before);
    tn_error_prefix("step %d", 17);
    tn_error_prefix("epoch %g,\nafter lunch", 2.5);
    tn_error_prefix(NULL);
    is_str(tn_error(), "epoch 2.5, after lunch: step 17: encoder: sizes differ",
           "prefixes stand before the path, in one line");
    is_int(tn_error_code(), TN_ERR_SHAPE, "the code stays");
    is_str(tn_error_info()->path, "encoder", "and the details");
    is_str(tn_error_info()->message, tn_error(), "whose message is the same");
    for (int i = 0; i < 100; i++)
        tn_error_prefix("again");
    is_int((int)strlen(tn_error()), 95 + (int)strlen("encoder: sizes differ"),
           "prefixes are cut at 95 bytes");
    tn_error_clear();
    tn_error_set(TN_ERR_SHAPE, "the next");
    is_str(tn_error(), "the next", "the next error has none");
    tn_error_clear();
}

int main(void)
{
    unsetenv("TENON_LOG");
    plan_later();
    test_first_wins();
    test_long();
    test_marks();
    test_set_aside();
    test_names();
    test_text();
    test_log();
    test_format();
    test_prefix();
    return done_testing();
}
