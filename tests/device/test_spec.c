/* Tests which device TENON_DEVICE and tn_device_open select. */
#include "plugins/folder.h"
#include "tap.h"

#include <tenon/device.h>

static const char *spec;

/* Prints the name of the device that spec opens, or the error. */
static void open_spec(void)
{
    tn_device *device = tn_device_open(spec);
    printf("%s", device ? tn_device_name(device) : tn_error());
}

static void is_opened(const char *text, const char *want)
{
    spec = text;
    is_str(in_child(open_spec), want, "%s is %s", text, want);
}

static void is_refused(const char *text, const char *reason)
{
    char want[1024];
    snprintf(want, sizeof want, "device_open: %s", reason);
    spec = text;
    is_str(in_child(open_spec), want, "\"%s\" is refused", text);
}

static void print_default(void)
{
    tn_device *device = tn_device_current();
    printf("%s", device ? tn_device_name(device) : tn_error());
}

static void is_default(const char *text, const char *want)
{
    if (text)
        setenv("TENON_DEVICE", text, 1);
    is_str(in_child(print_default), want, "TENON_DEVICE %s gives %s",
           text ? text : "unset", want);
    unsetenv("TENON_DEVICE");
}

static void test_names(void)
{
    is_opened("fake", "fake:0");
    is_opened("fake:1", "fake:1");
    is_opened(" fake:1 ", "fake:1");
    is_opened("nosuch;fake", "fake:0");
    is_opened("fake:9; longer ;fake", "longer:0");
    is_opened("auto", "longer:0");
    is_opened("fake:1,colour=red,size=3", "fake:1");
    is_refused("nosuch",
               "there is no plugin nosuch; there are: fake, longer, needy");
    is_refused("nosuch;fake:7",
               "there is no plugin nosuch; there are: fake, longer, needy; "
               "fake: there is no device 7: the plugin has 2, numbered "
               "from 0");
    is_refused("", "\"\": the name of a device is missing: write cpu or "
                   "cuda:0");
    is_refused(":1", "\":1\": the name of a device is missing: write cpu or "
                     "cuda:0");
    is_refused("fake:", "\"fake:\": after the colon comes the number of a "
                        "device, from 0 on, or a part of its name");
    is_refused("fake:1234567", "\"fake:1234567\": after the colon comes the "
                               "number of a device, from 0 on, or a part of "
                               "its name");
    is_opened("fake:computes", "fake:0");
    is_opened("fake:slot 7:1,colour=red", "fake:1");
    is_refused("fake:-1",
               "fake: no device is called \"-1\"; there are: fake:0 a device "
               "that computes nothing [Slot 7:0], fake:1 a device that "
               "computes nothing [Slot 7:1]");
    is_refused("auto:x", "\"auto:x\": auto takes no number and no options");
    is_refused("auto:1", "\"auto:1\": auto takes no number and no options");
    is_refused("./tn_fake.so", "\"./tn_fake.so\": a plugin's file is given by "
                               "its absolute path");
    is_refused("fake,colour", "fake: option \"colour\" is no key=value");
    is_refused("/nowhere/tn_x.so",
               "/nowhere/tn_x.so: No such file or directory");
    spec = NULL;
    is_str(in_child(open_spec),
           "device_open: specification is NULL; give a name such as \"cpu\", "
           "or \"auto\"",
           "NULL is refused");
}

static void test_paths(void)
{
    char path[PATH_MAX], text[PATH_MAX + 16];
    folder_add("odd, place:", "needy", "needy", NULL);
    snprintf(path, sizeof path, "%s/odd, place:/tn_needy.so", folder_root);
    is_opened(path, "needy:0");
    snprintf(text, sizeof text, "%s:0,a=b", path);
    is_opened(text, "needy:0");
}

static void test_default(void)
{
    is_default(NULL, "longer:0");
    is_default("fake", "fake:0");
    is_default("nosuch",
               "TENON_DEVICE=nosuch: there is no plugin nosuch; there are: "
               "fake, longer, needy");
    /* If a GPU cannot be opened, "auto" tries the next device, but opening it
     * by name is an error. */
    setenv("TENON_LONGER_BROKEN", "1", 1);
    is_default("auto", "fake:0");
    is_default("longer", "TENON_DEVICE=longer: longer: the fake is broken");
    unsetenv("TENON_LONGER_BROKEN");
    setenv("TENON_LONGER_DEVICES", "0", 1);
    is_default("auto", "fake:0");
    is_default("longer",
               "TENON_DEVICE=longer: longer: the fake is switched off");
    unsetenv("TENON_LONGER_DEVICES");
    /* A CPU device of a plugin for GPUs is only opened by name. */
    setenv("TENON_LONGER_KIND", "0", 1);
    is_default("auto", "fake:0");
    is_default("longer", "longer:0");
    setenv("TENON_FAKE_KIND", "3", 1);
    is_default("auto",
               "TENON_DEVICE=auto: longer: longer:0 is of kind cpu: opened "
               "only by name; fake: fake:1 is of kind simulated: opened only "
               "by name");
    setenv("TENON_LONGER_KIND", "1", 1);
    setenv("TENON_FAKE_KIND", "0", 1);
    setenv("TENON_FAKE_ALIGN", "48", 1);
    is_default("fake", "TENON_DEVICE=fake: fake: it asks for buffers aligned "
                       "to 48 bytes: not a power of two up to 65536");
    unsetenv("TENON_FAKE_ALIGN");
    setenv("TENON_MEM_LIMIT", "much", 1);
    is_default("fake", "TENON_DEVICE=fake: fake: TENON_MEM_LIMIT=much is not a "
                       "number of bytes, such as 512M or 4G");
    unsetenv("TENON_MEM_LIMIT");
}

static void other_thread_default(void)
{
    tn_device *fake = tn_device_open("fake:1");
    ok(tn_device_set(fake) == TN_OK && tn_device_current() == fake,
       "tn_device_set chooses for this thread");
    ok(tn_device_open("fake:1") == fake, "a device is opened once");
    tn_device_set(NULL);
    is_str(tn_device_name(tn_device_current()), "longer:0",
           "NULL selects the default again");
    tn_error_set(TN_ERR_IO, "pending");
    is_int(tn_device_set(NULL), TN_ERR_STATE,
           "but not while an error is pending");
    tn_error_clear();
    ok(!tn_device_open("fake:1,colour=red"),
       "an open device accepts no options");
    is_str(tn_error(),
           "device_open: fake: it is open already: its option colour cannot "
           "be set to red",
           "in words");
    tn_error_clear();
    ok(tn_device_is_available("fake") && !tn_device_is_available("nosuch") &&
           !tn_device_is_available(NULL) && !tn_error(),
       "tn_device_is_available records nothing");
    is_int(tn_device_count("fake"), 2, "fake has two devices");
    is_int(tn_device_count("longer"), 1, "longer has one");
    is_str(tn_device_description(fake), "a device that computes nothing",
           "a device describes itself");
    ok(!tn_device_name(NULL) && !tn_device_description(NULL) &&
           !tn_device_is_bit_exact(NULL),
       "NULL has no attributes");
    int64_t runs = tn_host_runs();
    is_int(runs, 0, "nothing ran on the host");
}

int main(void)
{
    unsetenv("TENON_DEVICE");
    plan_later();
    folder_start();
    folder_add("all", "fake", "fake", "name=fake\nkind=cpu\npriority=1\n");
    folder_add("all", "longer", "longer",
               "name=longer\nkind=gpu\npriority=100\n");
    folder_add("all", "needy", "needy", "name=needy\npriority=-5\n");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/all", folder_root);
    setenv("TENON_PLUGIN_PATH", path, 1);
    setenv("TENON_FAKE_DEVICES", "2", 1);
    setenv("TENON_FAKE_KIND", "0", 1);
    setenv("TENON_LONGER_KIND", "1", 1);
    test_names();
    test_paths();
    test_default();
    other_thread_default();
    folder_end();
    return done_testing();
}
