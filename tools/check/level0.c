/* level0.c: the checks of level 0: the plugin's file and its function table,
 * before a device is opened. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "elf_file.h"
#include "memory_guard.h"
#include "process.h"

/* ---- the file ----------------------------------------------------------- */

typedef struct name_list {
    char text[512];
    bool entry; /* the symbol tenon_plugin_v1 was found */
} name_list;

static void append(name_list *list, const char *name)
{
    size_t length = strlen(list->text);
    snprintf(list->text + length, sizeof list->text - length, "%s%s",
             length ? " " : "", name);
}

/* Appends an exported symbol to the list. Symbols that the linker and the
 * compiler's runtime add are ignored. */
static bool note_export(const char *name, void *context)
{
    name_list *list = context;
    if (strcmp(name, "tenon_plugin_v1") == 0)
        list->entry = true;
    else if (strncmp(name, "__", 2) != 0 && strcmp(name, "_init") != 0 &&
             strcmp(name, "_fini") != 0 && strcmp(name, "_edata") != 0 &&
             strcmp(name, "_end") != 0)
        append(list, name);
    return true;
}

static void exports(int argument)
{
    (void)argument;
    char why[256];
    name_list list = {.entry = false};
    if (!expect(elf_exports(options.path, note_export, &list, why, sizeof why),
                "%s", why))
        return;
    expect(list.entry, "does not export tenon_plugin_v1");
    expect(!*list.text, "exports more than tenon_plugin_v1: %s", list.text);
}

static bool note_need(const char *name, void *context)
{
    name_list *list = context;
    if (strncmp(name, "libtenon", 8) == 0)
        append(list, name);
    return true;
}

static void needs(int argument)
{
    (void)argument;
    char why[256];
    name_list list = {.entry = false};
    if (expect(elf_needs(options.path, note_need, &list, why, sizeof why), "%s",
               why))
        expect(!*list.text,
               "is linked with %s; a plugin must not link a library of Tenon",
               list.text);
}

/* ---- the handshake ------------------------------------------------------ */

static void load(int argument)
{
    (void)argument;
    by_hand h;
    if (!open_table(&h))
        return;
    const tn_plugin *table = h.plugin;
    expect(table->size >= TN_PLUGIN_SIZE_1_0,
           "its table has %u bytes; the table of version 1.0 has %u",
           table->size,
           TN_PLUGIN_SIZE_1_0);
    expect(table->abi_major == TN_ABI_MAJOR,
           "implements version %u of the plugin ABI, not %u", table->abi_major,
           TN_ABI_MAJOR);
    expect(table->name && *table->name, "its table has no name");
    expect(table->version && *table->version, "its table has no version");
}

static void slots(int argument)
{
    (void)argument;
    by_hand h;
    if (!open_table(&h))
        return;
    const tn_plugin *table = h.plugin;
#define REQUIRED(slot)                                                         \
    expect(table->slot != NULL, "required slot " #slot " is NULL");
    REQUIRED(device_count)
    REQUIRED(device_info)
    REQUIRED(device_open)
    REQUIRED(device_close)
    REQUIRED(buffer_alloc)
    REQUIRED(buffer_free)
    REQUIRED(queue_open)
    REQUIRED(queue_close)
    REQUIRED(queue_sync)
    REQUIRED(copy)
    REQUIRED(program_build)
    REQUIRED(program_free)
    REQUIRED(launch)
    REQUIRED(matmul)
    REQUIRED(scatter)
    REQUIRED(scan)
    REQUIRED(sort)
#undef REQUIRED
}

/* Checks that the plugin rejects a host with another major version and reports
 * a reason. */
static void wrong_major(int argument)
{
    (void)argument;
    by_hand h;
    by_hand_how how = {.path = options.path,
                       .option = options_of_plugin,
                       .host_major = TN_ABI_MAJOR + 1};
    expect(!by_hand_load(&h, &how),
           "accepts a host of version %u of the plugin ABI", TN_ABI_MAJOR + 1);
    expect(*by_hand_failure() != 0,
           "refuses a host of another version without a reason");
}

/* Loads the plugin with a host table of the given size in bytes. The table of
 * version 1.0 is the shortest; tables of later versions are longer. The page
 * after the table is inaccessible. */
static void host_table(int size)
{
    by_hand h;
    by_hand_how how = {.path = options.path,
                       .option = options_of_plugin,
                       .wrap_host = guard_host,
                       .host_size = (uint32_t)size};
    trying("a host table of %d bytes", size);
    bool loaded = by_hand_load(&h, &how);
    if ((uint32_t)size >= sizeof(tn_host))
        expect(loaded, "refuses a longer host table: %s", by_hand_failure());
    else
        expect(loaded || *by_hand_failure(),
               "refuses the host table of 1.0 without a reason");
    uint32_t count = 0;
    if (loaded)
        h.plugin->device_count(&count);
}

/* ---- devices ------------------------------------------------------------ */

/* Calls device_info with structs of the sizes that older and newer hosts
 * use. */
static void devices(int argument)
{
    (void)argument;
    static const uint32_t sizes[] = {
        TN_END(tn_device_info, uid), sizeof(tn_device_info),
        sizeof(tn_device_info) + 8, sizeof(tn_device_info) + 4000};
    by_hand h;
    uint32_t count = 0, again = 0;
    if (!open_table(&h) || !expect(h.plugin->device_count(&count) == TN_OK,
                                   "device_count fails: %s", by_hand_failure()))
        return;
    if (count == 0)
        leave_out("the plugin finds no device on this machine: %s",
                  *by_hand_failure() ? by_hand_failure() : "no reason given");
    for (uint32_t i = 0; i < count; i++) {
        tn_device_info first = {.size = sizeof first};
        for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
            tn_device_info info = {.size = sizeof info};
            trying("device_info of device %u, a struct of %u bytes", i,
                   sizes[n]);
            guard_next_bytes(sizes[n]);
            tn_status status = h.plugin->device_info(i, &info);
            if (!expect(status == TN_OK, "device_info returns %d: %s", status,
                        by_hand_failure()))
                return;
            if (sizes[n] < sizeof info)
                continue;
            if (i == options.device)
                report_device(&info);
            if (!expect_device(&info))
                return;
            if (!first.kind && !*first.uid)
                first = info;
            rule("only the free memory in a tn_device_info may change");
            expect(info.caps == first.caps && info.kind == first.kind &&
                       info.align == first.align &&
                       info.storage_types == first.storage_types &&
                       info.register_types == first.register_types &&
                       strcmp(info.uid, first.uid) == 0,
                   "device_info: differs at the second call");
            rule(NULL);
        }
    }
    trying("device_count again");
    tn_status status = h.plugin->device_count(&again);
    expect(status == TN_OK && again == count,
           "device_count returns %u, then %u", count, again);
    if (count == 0 || has_failed() || options.device >= count)
        return;
    trying("device_open, then device_count again");
    if (expect(by_hand_open_device(&h, options.device),
               "device %u cannot be opened: %s", options.device,
               by_hand_failure())) {
        status = h.plugin->device_count(&again);
        expect(status == TN_OK && again == count,
               "device_count returns %u, and %u while a device is open",
               count, again);
        by_hand_close(&h);
    }
}

/* Checks that loading the plugin and calling device_info do not change the
 * state of the process. */
static void state(int argument)
{
    (void)argument;
    by_hand h;
    static process_state before, now;
    char why[256];
    uint32_t count = 0;
    process_read(&before);
    if (!open_table(&h))
        return;
    process_read(&now);
    trying("state after loading");
    expect(process_same(&before, &now, why, sizeof why), "%s", why);
    if (h.plugin->device_count(&count) != TN_OK)
        return; /* the check of device_count reports this failure */
    trying("the process after device_info");
    for (uint32_t i = 0; i < count; i++) {
        tn_device_info info = {.size = sizeof info};
        h.plugin->device_info(i, &info);
    }
    process_read(&now);
    note_vendors();
    expect(process_same(&before, &now, why, sizeof why), "%s", why);
}

static const char state_rule[] =
    "loading the plugin and describing devices start no thread and change no "
    "locale, environment variable, working folder, floating-point state or "
    "signal handler, except threads and variables of a library of the vendor";
static const char host_rule[] =
    "fields of the host table after `extension` are read only if TN_HAS allows "
    "it; a refusal reports its reason by host->fail";

static const check of_level0[] = {
    {0, "exports",
     "a plugin exports one symbol, tenon_plugin_v1",
     .body = exports},
    {0, "needs",
     "a plugin links no library of Tenon",
     .body = needs},
    {0, "load",
     "tenon_plugin_v1 returns the plugin's table, of at least "
     "TN_PLUGIN_SIZE_1_0 bytes",
     .body = load},
    {0, "slots",
     "the slots that tn_plugin lists as required are never NULL",
     .body = slots},
    {0, "wrong major",
     "a host of another major version is refused, with a reason in "
     "host->fail",
     .body = wrong_major},
    {0, "longer host table", host_rule, .body = host_table,
     .argument = (int)sizeof(tn_host) + 64},
    {0, "shorter host table", host_rule, .body = host_table,
     .argument = (int)TN_HOST_SIZE_1_0},
    {0, "devices",
     "device_count and device_info describe each device completely, and do so "
     "identically at every call",
     .body = devices, .is_vital = true},
    {0, "state", state_rule, .body = state},
};

int level0_checks(check *list, int count)
{
    return check_add_all(list, count, of_level0,
                         sizeof of_level0 / sizeof *of_level0);
}
