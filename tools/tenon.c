/* tenon: tells what this installation can do.
 *
 *   tenon devices      the devices that can be asked for by name
 *   tenon devices -v   and each plugin considered: file, outcome, remedy
 *   tenon info         version, the device that programs get, threads
 *   tenon trace [-o FILE] PROGRAM [ARGUMENT...]
 *                      runs it and writes a timeline (trace.json)
 *   tenon trace --summary FILE [--by op|module|shapes]
 *                      adds one up: where the time went
 *   tenon --version
 *
 * Exit status 1 and one line on stderr where something cannot be had, 2 for a
 * wrong command line. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/device.h>
#include <tenon/plugin.h>

#include "tenon_trace.h"

static const char usage[] = "usage: tenon devices [-v]\n"
                            "       tenon info\n"
                            "       tenon trace [-o FILE] PROGRAM "
                            "[ARGUMENT...]\n"
                            "       tenon trace --summary FILE "
                            "[--by op|module|shapes]\n"
                            "       tenon --version\n";

static int complain(void)
{
    fprintf(stderr, "tenon: %s\n", tn_error());
    return 1;
}

/* The report has a line for each plugin and, below it and indented, one for
 * each of its devices. */
static int devices(bool verbose)
{
    const char *report = tn_load_report();
    if (!report)
        return complain();
    if (verbose)
        return fputs(report, stdout) < 0;

    int found = 0;
    for (const char *line = report; *line;) {
        size_t length = strcspn(line, "\n");
        if (strncmp(line, "  ", 2) == 0) {
            printf("%.*s\n", (int)(length - 2), line + 2);
            found++;
        }
        line += length + (line[length] == '\n');
    }
    if (!found)
        fputs("tenon: no device; tenon devices -v tells why\n", stderr);
    return !found;
}

/* "2 (TENON_NUM_THREADS is not set)": a value, and whose choice it is. */
static void row(const char *name, const char *value, const char *variable)
{
    const char *set = getenv(variable);
    printf("%-12s%s (%s%s%s)\n", name, value, variable,
           set && *set ? "=" : " is not set", set ? set : "");
}

/* What programs of this environment get. Opens the one device that they do,
 * and no other plugin. */
static int info(void)
{
    char text[64];
    printf("tenon %s\n", tn_version());
    printf("%-12s%u.%u\n", "plugin ABI", TN_ABI_MAJOR, TN_ABI_MINOR);
    printf("%-12s%s\n", "plugins in", tn_plugin_folders());
    const char *threads = getenv("TENON_NUM_THREADS");
    bool heard = !threads || !*threads || atoi(threads) == tn_num_threads();
    snprintf(text, sizeof text, "%d%s", tn_num_threads(),
             heard ? "" : ", what was asked for cannot be had");
    row("threads", text, "TENON_NUM_THREADS");
    tn_device *device = tn_device_current();
    if (!device)
        return complain();
    row("device", tn_device_name(device), "TENON_DEVICE");
    printf("%-12s%s\n", "", tn_device_description(device));
    printf("%-12s%s\n", "bit-exact",
           tn_device_is_bit_exact(device) ? "yes" : "no");
    tn_memory_stats memory = {.size = sizeof memory};
    if (tn_memory(device, &memory) < 0)
        return complain();
    if (memory.limit_bytes)
        snprintf(text, sizeof text, "at most %lld bytes",
                 (long long)memory.limit_bytes);
    else
        snprintf(text, sizeof text, "no limit");
    row("memory", text, "TENON_MEM_LIMIT");
    return 0;
}

int main(int count, char **argument)
{
    const char *command = count > 1 ? argument[1] : "";
    bool verbose = count == 3 && strcmp(argument[2], "-v") == 0;

    if (strcmp(command, "devices") == 0 && count == 2 + verbose)
        return devices(verbose);
    if (strcmp(command, "info") == 0 && count == 2)
        return info();
    if (strcmp(command, "--version") == 0 && count == 2)
        return printf("tenon %s\n", tn_version()) < 0;
    int status = strcmp(command, "trace") == 0
                     ? tenon_trace(count - 2, argument + 2)
                     : 2;
    if (status == 2)
        fputs(usage, stderr);
    return status;
}
