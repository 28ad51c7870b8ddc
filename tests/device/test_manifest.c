/* Tests the manifests of plugins (tn_<name>.conf): their fields, and errors in
 * them. */
#include <device/registry.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

static char path[64];
static char reason[TN__REASON_BYTES];

static bool read_bytes(const char *text, size_t size, tn__manifest *out)
{
    FILE *file = fopen(path, "w");
    if (!file || fwrite(text, 1, size, file) != size)
        bail_out("cannot write %s", path);
    fclose(file);
    *reason = 0;
    return tn__manifest_read(path, out, reason, sizeof reason);
}

static void is_wrong(const char *text, size_t size, const char *why)
{
    tn__manifest m;
    char want[TN__REASON_BYTES];
    snprintf(want, sizeof want, "its manifest %s%s", path, why);
    ok(!read_bytes(text, size, &m) && !m.present, "refused%s", why);
    is_str(reason, want, "and is reported");
}

#define IS_WRONG(text, why) is_wrong(text, sizeof text - 1, why)

int main(void)
{
    plan_later();
    snprintf(path, sizeof path, "manifest-test-%ld.tmp", (long)getpid());
    tn__manifest m;
    ok(tn__manifest_read(path, &m, reason, sizeof reason) && !m.present,
       "a missing file is an absent manifest");
    const char whole[] = "# a comment\r\n\n name = odd\t\r\nkind=gpu\n"
                         "priority=-5\nlater=what=ever\nneeds=a.so,b.so\n"
                         "remedy=install it";
    ok(read_bytes(whole, sizeof whole - 1, &m) && m.present,
       "blanks, comments and keys of a later version");
    is_str(m.name, "odd", "name");
    is_int(m.kind, TN_KIND_GPU, "kind");
    is_int(m.priority, -5, "priority");
    is_str(m.needs, "a.so,b.so", "needs");
    is_str(m.remedy, "install it", "remedy, in a last line without its end");

    IS_WRONG("kind\n", ", line 1: kind is no key=value that can be used");
    IS_WRONG("\nkind=toaster\n",
             ", line 2: kind=toaster is no key=value that can be used");
    IS_WRONG("kind=gpu\nkind=toaster\n",
             ", line 2: kind=toaster is no key=value that can be used");
    IS_WRONG("priority=12x",
             ", line 1: priority=12x is no key=value that can be used");
    IS_WRONG("priority=99999999999999999999",
             ", line 1: priority=99999999999999999999 is no key=value that "
             "can be used");
    IS_WRONG("name=a:b", ", line 1: name=a:b is no key=value that can be used");
    IS_WRONG("kind=a\rb",
             ", line 1: kind=a b is no key=value that can be used");
    IS_WRONG("name=x\0yz\n",
             ", line 1 is longer than 510 bytes or holds a byte of 0");
    char text[600];
    memset(text, 'x', sizeof text);
    text[0] = '#';
    memcpy(text + 511, "name=y\n", 7);
    is_wrong(text, 518, ", line 1 is longer than 510 bytes or holds a byte "
                        "of 0");
    unlink(path);
    mkdir(path, 0777);
    char want[TN__REASON_BYTES];
    snprintf(want, sizeof want,
             "its manifest %s cannot be read: Is a directory", path);
    ok(!tn__manifest_read(path, &m, reason, sizeof reason),
       "a folder is no manifest");
    is_str(reason, want, "and is reported");
    rmdir(path);
    return done_testing();
}
