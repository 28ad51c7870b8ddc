/* test_load.c: tests loading weights: strict and not strict, with names
 * replaced, and the report of differences as an error and as a struct. */
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>
#include "tap.h"

static char path[64];

/* Writes `count` tensors of these names and this shape, filled with 1, 2,
 * ... */
static void write_file(const char *const *names, int count, tn_dims_list shape,
                       tn_dtype dtype)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *x[64];
    for (int i = 0; i < count; i++)
        x[i] = tn_full(shape, i + 1.0, .dtype = dtype);
    if (tn_safetensors_save(path, names, x, count, NULL, 0) < 0)
        bail_out("%s", tn_error());
    tn_scope_close(scope);
}

/* Checks that the pending error is "module_load: PATH: " and this text, then
 * clears it. */
static void is_error(tn_status status, tn_status code, const char *text)
{
    char want[2200];
    snprintf(want, sizeof want, "module_load: %s: %s", path, text);
    is_int(status, code, "the status");
    is_int(tn_error_code(), code, "the error's code");
    is_str(tn_error(), want, "the message");
    tn_error_clear();
}

static tn_module *net(void)
{
    return tn_nn_sequential(tn_nn_linear(2, 2, .bias = false),
                            tn_nn_linear(2, 2, .bias = false));
}

static double weight(tn_module *module, const char *name)
{
    tn_tensor *p = tn_module_parameter(module, name);
    TN_NO_GRAD_HERE;
    return tn_item(tn_mean(p));
}

static void test_strict(void)
{
    static const char *const good[] = {"0.weight", "1.weight"};
    static const char *const bad[] = {"0.weight", "fc.weight", "quite_another"};
    tn_module *module = net();
    write_file(good, 2, tn_dims(2, 2), TN_F32);
    is_int(tn_module_load(module, path), TN_OK, "the file fits");
    ok(weight(module, "0.weight") == 1 && weight(module, "1.weight") == 2,
       "and is read");

    write_file(bad, 3, tn_dims(2, 2), TN_F32);
    tn_init_zeros(tn_module_parameter(module, "0.weight"));
    tn_module_report *report = NULL;
    is_error(tn_module_load(module, path, .report = &report), TN_ERR_ARGUMENT,
             "the file has no \"1.weight\" (nearest: \"fc.weight\"); the "
             "module has no \"fc.weight\" (nearest: \"1.weight\"); the module "
             "has no \"quite_another\"");
    ok(weight(module, "0.weight") == 0, "nothing was changed");
    is_int(tn_module_report_count(report), 3, "the report has all differences");
    const tn_load_difference *d = tn_module_report_at(report, 0);
    ok(d && d->size == sizeof *d && d->kind == TN_LOAD_MISSING && !d->in_file,
       "the first is missing in the file");
    is_str(d ? d->name : "", "1.weight", "its name");
    is_str(d ? d->nearest : "", "fc.weight", "the nearest name");
    is_str(d ? d->text : "",
           "the file has no \"1.weight\" (nearest: \"fc.weight\")",
           "the sentence");
    d = tn_module_report_at(report, 2);
    ok(d && d->kind == TN_LOAD_UNEXPECTED && !d->name && !d->nearest &&
           strcmp(d->in_file, "quite_another") == 0,
       "the last is unexpected, and like nothing");
    ok(!tn_module_report_at(report, 3) && !tn_module_report_at(report, -1) &&
           !tn_module_report_at(NULL, 0) && !tn_module_report_count(NULL) &&
           !tn_module_report_text(NULL),
       "there are no others");
    is_str(tn_module_report_text(report),
           "the file has no \"1.weight\" (nearest: \"fc.weight\")\n"
           "the module has no \"fc.weight\" (nearest: \"1.weight\")\n"
           "the module has no \"quite_another\"",
           "all sentences, a line each");
    ok(!tn_error(), "reading a report records no error");
}

static void test_shapes(void)
{
    static const char *const names[] = {"0.weight", "1.weight"};
    tn_module *module = net();
    tn_module_report *report;
    write_file(names, 2, tn_dims(2, 2), TN_F64);
    is_error(tn_module_load(module, path), TN_ERR_DTYPE,
             "\"0.weight\" is float64 in the file, float32 in the module; "
             "\"1.weight\" is float64 in the file, float32 in the module");
    is_int(tn_module_load(module, path, .strict = false, .report = &report),
           TN_OK, "not strict: dtypes are converted");
    ok(weight(module, "1.weight") == 2 &&
           tn_tensor_dtype(tn_module_parameter(module, "1.weight")) == TN_F32,
       "to those of the module");
    is_int(tn_module_report_count(report), 2, "and reported");
    ok(tn_module_report_at(report, 0)->kind == TN_LOAD_DTYPE, "as dtypes");

    write_file(names, 2, tn_dims(3), TN_F16);
    is_error(tn_module_load(module, path), TN_ERR_SHAPE,
             "\"0.weight\" has shape (3,) in the file, (2, 2) in the module; "
             "\"0.weight\" is float16 in the file, float32 in the module; "
             "\"1.weight\" has shape (3,) in the file, (2, 2) in the module; "
             "\"1.weight\" is float16 in the file, float32 in the module");
    is_error(tn_module_load(module, path, .strict = false, .report = &report),
             TN_ERR_SHAPE,
             "\"0.weight\" has shape (3,) in the file, (2, 2) in the module; "
             "\"1.weight\" has shape (3,) in the file, (2, 2) in the module");
    is_int(tn_module_report_count(report), 4, "the report has dtypes, too");
    ok(weight(module, "1.weight") == 2, "nothing was changed");
}

static void test_not_strict(void)
{
    static const char *const names[] = {"0.weight", "head.weight"};
    tn_module *module = net();
    write_file(names, 2, tn_dims(2, 2), TN_F32);
    tn_init_zeros(tn_module_parameter(module, "1.weight"));
    is_int(tn_module_load(module, path, .strict = false), TN_OK,
           "names of one side are skipped");
    ok(weight(module, "0.weight") == 1 && weight(module, "1.weight") == 0,
       "the others are read");
    tn_module_report *report;
    static const char *const both[] = {"0.weight", "1.weight"};
    write_file(both, 2, tn_dims(2, 2), TN_F32);
    is_int(tn_module_load(module, path, .report = &report), TN_OK, "all fit");
    ok(report && tn_module_report_count(report) == 0 &&
           strcmp(tn_module_report_text(report), "") == 0,
       "the report is empty");
}

static void test_rename(void)
{
    static const char *const names[] = {"module.body.0.weight",
                                        "module.last.weight", "head.weight",
                                        "head.bias"};
    tn_module *module = net();
    write_file(names, 4, tn_dims(2, 2), TN_F32);
    is_int(tn_module_load(module, path,
                          .rename = (tn_rename[]){{"module.body.", ""},
                                                  {"module.last", "1"},
                                                  {"module.", "never."},
                                                  {"head.", NULL},
                                                  {NULL, NULL}}),
           TN_OK, "beginnings are replaced or left out: %s",
           tn_error() ? tn_error() : "");
    ok(weight(module, "0.weight") == 1 && weight(module, "1.weight") == 2,
       "and the tensors read");
    tn_module_report *report;
    is_error(tn_module_load(module, path, .report = &report,
                            .rename = (tn_rename[]){{"module.", ""},
                                                    {"head.", NULL},
                                                    {NULL, NULL}}),
             TN_ERR_ARGUMENT,
             "the file has no \"0.weight\" (nearest: \"body.0.weight\"); the "
             "file has no \"1.weight\" (nearest: \"last.weight\"); the module "
             "has no \"module.body.0.weight\" (nearest: \"0.weight\"); the "
             "module has no \"module.last.weight\" (nearest: \"0.weight\")");
    is_str(tn_module_report_at(report, 2)->in_file, "module.body.0.weight",
           "names in the file are reported as they are there");
    int status = tn_module_load(module, path, .strict = false,
                                .rename = (tn_rename[]){{"module.body.0", "1"},
                                                        {"module.last", "1"},
                                                        {NULL, NULL}});
    is_int(status, TN_ERR_ARGUMENT, "two names that become one");
    is_str(tn_error(),
           "module_load: \"module.body.0.weight\" and \"module.last.weight\" "
           "of the file both become \"1.weight\"",
           "the message");
    tn_error_clear();
    is_int(tn_module_load(module, path, .strict = false,
                          .rename = (tn_rename[]){{NULL, NULL}}),
           TN_OK, "an empty list of pairs");
}

/* The message suggests the nearest of 40 names by edit distance. Also tests
 * more names than fit in a message. */
static void test_many(void)
{
    enum { N = 40 };
    static char text[N][64];
    const char *names[N];
    tn_module *module = tn_nn_relu();
    for (int i = 0; i < N; i++) {
        snprintf(text[i], sizeof text[i], "module.layers.%d.mlp.weight", i);
        names[i] = text[i];
        char name[64];
        snprintf(name, sizeof name, "layers_%d_mlp_weight", i);
        tn_module_add_parameter(module, name, tn_ones(tn_dims(1)));
    }
    write_file(names, N, tn_dims(1), TN_F32);
    tn_module_report *report;
    int status = tn_module_load(module, path, .report = &report);
    is_int(status, TN_ERR_ARGUMENT, "many names");
    const char *end = tn_error() ? strstr(tn_error(), "; and ") : NULL;
    ok(end && strstr(end, " more") && strlen(tn_error()) < 2000,
       "the message ends with the number of those left: %s", end ? end : "");
    tn_error_clear();
    is_int(tn_module_report_count(report), 2 * N, "the report has all");
    int right = 0;
    for (int i = 0; i < N; i++) {
        const tn_load_difference *d = tn_module_report_at(report, i);
        right += d->nearest && strcmp(d->nearest, names[i]) == 0;
    }
    is_int(right, N, "each with its nearest");
}

static void test_mistakes(void)
{
    tn_module_report *report = (tn_module_report *)(void *)path;
    ok(tn_module_load(net(), "/no/such/file", .report = &report) == TN_ERR_IO &&
           !report,
       "no file: no report");
    tn_error_clear();
    is_int(tn_module_load(NULL, path), TN_ERR_ARGUMENT, "no module");
    is_str(tn_error(), "module_load: module is NULL", "the message");
    tn_error_clear();
    is_int(tn_module_load(net(), NULL), TN_ERR_ARGUMENT, "no path");
    is_str(tn_error(), "module_load: path is NULL", "the message");
    tn_error_clear();
}

int main(void)
{
    tap_find_plugin();
    snprintf(path, sizeof path, "test_load_%d.safetensors", (int)getpid());
    test_strict();
    test_shapes();
    test_not_strict();
    test_rename();
    test_many();
    test_mistakes();
    unlink(path);
    ok(!tn_error(), "no error is pending: %s", tn_error() ? tn_error() : "");
    return done_testing();
}
