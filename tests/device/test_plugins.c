/* Loads bad plugins. Each must be rejected with a specific reason, in the load
 * report and when it is opened by name. */
#include "device/device.h"
#include "device/registry.h"
#include "plugins/folder.h"
#include "tap.h"

#include <tenon/device.h>

#define PRINTS_OR_ENDS                                                        \
    "; remedy: remove it, or tell its author: a plugin reports errors, it "   \
    "never prints or ends the process"
#define REBUILD "build it again with this version's <tenon/plugin.h>"

/* The plugin's name; the message after its file's name in the report; the error
 * message when it is opened by name (NULL: not tried, because opening it would
 * end the process). */
static const struct {
    const char *name, *report, *opening;
} bad[] = {
    {"badmajor",
     "has version 2 of the plugin ABI; expected version 1; remedy: " REBUILD,
     "device_open: badmajor: has version 2 of the plugin ABI; expected version "
     "1 (" REBUILD ")"},
    {"badslot",
     "required function scatter is missing; remedy: ask its author "
     "for a complete one",
     "device_open: badslot: required function scatter is missing (ask its "
     "author for a complete one)"},
    {"halfset",
     "has the function event_query without queue_wait, which it requires; "
     "remedy: ask its author for a complete one",
     "device_open: halfset: has the function event_query without queue_wait, "
     "which it requires (ask its author for a complete one)"},
    {"short",
     "its table has 168 bytes; expected at least 232; remedy: " REBUILD,
     "device_open: short: its table has 168 bytes; expected at least 232 "
     "(" REBUILD ")"},
    {"nosymbol",
     "has no symbol tenon_plugin_v1: it is not a plugin, or its ABI has "
     "another major version; remedy: remove it from the folder of plugins",
     "device_open: nosymbol: has no symbol tenon_plugin_v1: it is not a "
     "plugin, or its ABI has another major version (remove it from the folder "
     "of plugins)"},
    {"needy",
     "requires libtenon-nosuch.so.9, which was not found; remedy: install the "
     "moon",
     "device_open: needy: requires libtenon-nosuch.so.9, which was not found "
     "(install the moon)"},
    {"declines", "not on a Monday",
     "device_open: declines: not on a Monday"},
    {"misnamed",
     "its table has the name somebody, its file or manifest misnamed; remedy: "
     "rename the file, or correct its manifest",
     "device_open: misnamed: its table has the name somebody, its file or "
     "manifest misnamed (rename the file, or correct its manifest)"},
    {"prints", "writes to stdout while probing" PRINTS_OR_ENDS, NULL},
    {"aborts", "crashed while probing (signal 6)" PRINTS_OR_ENDS, NULL},
    {"exits", "ended the process while probing (exit status 3)" PRINTS_OR_ENDS,
     NULL},
    {"hangs", "gave no answer in 3 s while probing" PRINTS_OR_ENDS, NULL},
};
#define BAD_COUNT (sizeof bad / sizeof *bad)

/* Returns whether the report has this line. */
static bool has_line(const char *report, const char *line)
{
    size_t length = strlen(line);
    for (const char *at = report; (at = strstr(at, line)); at++)
        if ((at == report || at[-1] == '\n') && at[length] == '\n')
            return true;
    return false;
}

static void is_line(const char *report, const char *name, const char *rest)
{
    char line[PATH_MAX + 1024];
    snprintf(line, sizeof line, "%s: %s/all/tn_%s.so: %s", name, folder_root,
             name, rest);
    if (!ok(has_line(report, line), "%s is refused: %s", name, rest))
        note("want %s", line);
}

static void test_report(void)
{
    /* A second report must equal the first: a probe in a child process leaves
     * no trace. */
    const char *report = tn_load_report();
    report = tn_load_report();
    for (size_t i = 0; i < BAD_COUNT; i++)
        is_line(report, bad[i].name, bad[i].report);
    is_line(report, "fake", "1 device, only by name");
    ok(has_line(report, "  fake:0: a device that computes nothing (simulated, "
                        "bit-exact: no; computes nothing)"),
       "a good one's devices are listed");
    is_line(report, "longer", "1 device, only by name");
    ok(strstr(report, ", 32 MiB, bit-exact: "), "and their memory");
    is_line(report, "exact", "1 device, only by name");
    ok(strstr(report, "tn_text.so: cannot be opened: ") &&
           strstr(report, "invalid ELF header"),
       "a text file is refused");
    ok(strstr(report, "tn_line.conf, line 2: colour is no key=value that can "
                      "be used; remedy: correct or remove that line\n"),
       "a manifest that is wrong is told with its line");
    char line[PATH_MAX * 2];
    snprintf(line, sizeof line,
             "fake: %s/second/tn_fake.so: not used: %s/all/tn_fake.so has the "
             "same name and was found first; remedy: remove one of them, or "
             "give its path as the device",
             folder_root, folder_root);
    ok(has_line(report, line),
       "the second of two plugins of one name is reported");
    is_int(tn_device_count(NULL), 3, "the good ones have three devices");
    is_int(tn_device_count("badmajor"), 0, "a bad one has none");
    is_int(tn_device_count("nosuch"), 0,
           "nor does a folder that does not exist");
    ok(!tn_error(), "and none of this records an error");
    note("%s", "the report:");
    for (const char *at = report; *at;) {
        size_t length = strcspn(at, "\n");
        note("%.*s", (int)length, at);
        at += length + (at[length] == '\n');
    }
}

static void test_opening(void)
{
    for (size_t i = 0; i < BAD_COUNT; i++) {
        if (!bad[i].opening)
            continue;
        ok(!tn_device_open(bad[i].name), "%s cannot be opened", bad[i].name);
        is_int(tn_error_code(), TN_ERR_NO_DEVICE, "%s: ERR_NO_DEVICE",
               bad[i].name);
        is_str(tn_error(), bad[i].opening, "%s: the reason", bad[i].name);
        tn_error_clear();
    }
    tn_device *device = tn_device_open("longer");
    is_str(tn_device_name(device), "longer:0",
           "a plugin of a later minor version is used");
    setenv("TENON_EXACT_CUT", "8", 1);
    ok(!tn_device_open("exact"), "a table of an extension may be too short");
    is_str(tn_error(),
           "device_open: exact: its extension conv has a table of "
           "8 bytes; expected at least 16",
           "which is reported");
    tn_error_clear();
    unsetenv("TENON_EXACT_CUT");
    tn_device *exact = tn_device_open("exact");
    is_str(tn_device_name(exact), "exact:0",
           "a table of exactly version 1.0 is used, and not read beyond");
    static const char *const extensions[] = {
#define NAME(id, text) text,
        TN_EXTENSION_MAP(NAME)
#undef NAME
    };
    for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++)
        ok(tn_device_has_extension(exact, extensions[i]),
           "so is that of its extension %s", extensions[i]);
    const tn_lapack_args args = {.size = sizeof args};
    bool by_rows;
    ok(tn__device_lapack_fits(exact, &args, "lu", &by_rows),
       "and fields that they do not have yet are not read");
    tn_device *fake = tn_device_open("fake");
    is_str(tn_device_name(fake), "fake:0", "a good one is used");
    ok(!tn_error(), "without an error");
}

int main(void)
{
    plan_later();
    tn__probe_timeout_ms = 3000;
    unsetenv("TENON_MASK"); /* so that no plugin is masked */
    folder_start();
    for (size_t i = 0; i < BAD_COUNT; i++)
        folder_add("all", bad[i].name, bad[i].name,
                   strcmp(bad[i].name, "needy")
                       ? NULL
                       : "name=needy\nneeds=libc.so.6, "
                         "libtenon-nosuch.so.9\nremedy=install the moon\n");
    folder_add("all", "fake", "fake", NULL);
    folder_add("all", "longer", "longer", NULL);
    folder_add("all", "exact", "exact", NULL);
    folder_add("all", "fake", "line", "name=line\ncolour\n");
    folder_write("all", "tn_text.so",
                 "This is a text and no shared object, long enough for the "
                 "header of one to be looked at.\n");
    folder_write("all", "libother.so", "not looked at");
    folder_add("second", "fake", "fake", NULL);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/all:%s/second:%s/missing", folder_root,
             folder_root, folder_root);
    setenv("TENON_PLUGIN_PATH", path, 1);
    setenv("TENON_LONGER_MEMORY", "33554432", 1);
    test_report();
    test_opening();
    folder_end();
    return done_testing();
}
