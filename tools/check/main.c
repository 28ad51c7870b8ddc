/* main.c: tenon-plugin-check, the conformance kit for device plugins. Opens
 * one plugin, runs the checks of each level, and prints one closing line with
 * the highest level that the plugin passes.
 *
 * Tenon's interpreter for kernel programs is linked into this program, and
 * computes the expected results. So the verdict does not depend on an installed
 * libtenon. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { LEVELS = 3 };

static check checks[MAX_CHECKS];
static int check_count;

/* How many checks of each level have passed and have been run, and the index of
 * the current check. */
static int passed[LEVELS], run[LEVELS], number;
static int64_t interpreted;
static char plugin_name[64] = "(none)", plugin_version[64], device_uid[64];

int check_add_all(check *list, int count, const check *more, size_t more_count)
{
    if (count + more_count > MAX_CHECKS)
        abort(); /* MAX_CHECKS is too small for the list */
    memcpy(list + count, more, more_count * sizeof *more);
    return count + (int)more_count;
}

int check_add(check *list, int count, int level, const char *name,
              const char *rule, void (*body)(int argument), int argument)
{
    check one = {
        .level = level, .rule = rule, .body = body, .argument = argument};
    snprintf(one.name, sizeof one.name, "%s", name);
    return check_add_all(list, count, &one, 1);
}

/* ---- the report --------------------------------------------------------- */

static void print_json(const char *text)
{
    putchar('"');
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            printf("\\%c", *c);
        else if (*c < 0x20 || *c > 0x7e)
            printf("\\u%04x", *c);
        else
            putchar(*c);
    }
    putchar('"');
}

static void print_field(const char *name, const char *text)
{
    printf(", \"%s\": ", name);
    print_json(text);
}

/* Prints text with '+' in place of '#', because '#' begins a directive in
 * TAP. */
static void print_tap(const char *text)
{
    for (; *text; text++)
        putchar(*text == '#' ? '+' : *text == '\n' ? ' ' : *text);
}

static const char *rule_of(const check *c, const report *r)
{
    return *r->rule ? r->rule : c->rule;
}

static void report_json(const check *c, const char *mask, const report *r)
{
    printf("%s\n  {\"level\": %d", number > 1 ? "," : "", c->level);
    print_field("name", c->name);
    if (*mask)
        print_field("without", mask);
    print_field("result", r->failed    ? "failed"
                          : r->skipped ? "skipped"
                                       : "passed");
    if (r->failed || r->skipped)
        print_field("why", r->why);
    if (r->failed) {
        print_field("trying", r->trying);
        print_field("rule", rule_of(c, r));
    }
    if (*r->noted)
        print_field("noted", r->noted);
    putchar('}');
}

static void report_lines(const check *c, const char *mask, const report *r)
{
    printf("%sok %d - L%d %s%s%s", r->failed ? "not " : "", number, c->level,
           c->name, *mask ? " without " : "", mask);
    if (r->failed) {
        fputs(": ", stdout);
        print_tap(r->why);
    } else if (r->skipped) {
        fputs(" # SKIP ", stdout);
        print_tap(r->why);
    }
    putchar('\n');
    if (*r->noted) {
        fputs("# noted: ", stdout);
        print_tap(r->noted);
        putchar('\n');
    }
    if (!r->failed)
        return;
    if (*r->trying) {
        fputs("# with ", stdout);
        print_tap(r->trying);
        putchar('\n');
    }
    fputs("# plugin.h: ", stdout);
    print_tap(rule_of(c, r));
    putchar('\n');
    printf("# replay: tenon-plugin-check --only '%s'", c->name);
    const char *seed = strstr(r->trying, "--seed");
    if (seed) /* the failed step names the seed that it used */
        printf(" %.*s", (int)strcspn(seed, ","), seed);
    else
        printf(" --seed %" PRIu64, options.seed);
    if (options.device)
        printf(" --device %u", options.device);
    if (*mask)
        printf(" --mask %s", mask);
    printf(" --verbose %s\n", options.path);
    if (options.verbose)
        fputs(r->detail, stdout);
    fflush(stdout);
}

/* ---- running ------------------------------------------------------------ */

static void keep(char *to, size_t room, const char *from)
{
    if (*from)
        snprintf(to, room, "%s", from);
}

/* The vital check that failed, or NULL. No further checks are run after it. */
static const check *stopped_by;

static void run_check(const check *c, const char *mask)
{
    const report *r = child_run(c, mask);
    number++;
    if (!r->skipped || r->failed) {
        run[c->level]++;
        passed[c->level] += !r->failed;
    }
    interpreted += r->interpreted;
    keep(plugin_name, sizeof plugin_name, r->name);
    keep(plugin_version, sizeof plugin_version, r->version);
    keep(device_uid, sizeof device_uid, r->uid);
    (options.json ? report_json : report_lines)(c, mask, r);
    if (c->is_vital && r->failed)
        stopped_by = c;
}

static bool is_wanted(const check *c)
{
    return c->level <= options.level &&
           (!options.only || strcmp(options.only, c->name) == 0);
}

static void run_all(const char *mask)
{
    for (int i = 0; i < check_count && !stopped_by; i++)
        if (is_wanted(&checks[i]))
            run_check(&checks[i], mask);
}

/* Runs the checks once for each optional function or extension in the mask,
 * with this one hidden, and then once with all of them hidden. */
static void run_masked(void)
{
    char all[256] = "", slot[64];
    if (strcmp(options.mask, "all") == 0) {
        for (int i = 0; by_hand_optional(i); i++)
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s",
                     i ? "," : "", by_hand_optional(i));
    } else {
        snprintf(all, sizeof all, "%s", options.mask);
    }
    for (const char *at = all; *at;) {
        size_t length = strcspn(at, ",");
        snprintf(slot, sizeof slot, "%.*s", (int)length, at);
        run_all(slot);
        at += length + (at[length] == ',');
    }
    if (strchr(all, ','))
        run_all(all);
}

/* Returns the highest level that the plugin passes. It must also pass all lower
 * levels. A level of which no check was run does not pass. Returns -1 if the
 * plugin passes no level. */
static int level_held(void)
{
    int held = -1;
    while (held + 1 < LEVELS && run[held + 1] > 0 &&
           passed[held + 1] == run[held + 1])
        held++;
    return held;
}

static void closing_line(char *line, size_t room)
{
    int held = level_held();
    char level[16] = "no level", counts[128] = "";
    if (held >= 0 && !options.only)
        snprintf(level, sizeof level, "L%d", held);
    for (int l = 0; l < LEVELS; l++)
        if (run[l])
            snprintf(counts + strlen(counts), sizeof counts - strlen(counts),
                     "%sL%d %d/%d", *counts ? ", " : "", l, passed[l], run[l]);
    snprintf(line, room,
             "tenon-plugin-check " TENON_VERSION ": %s %s %s (%s%s) on %s",
             plugin_name, plugin_version, level, counts,
             interpreted ? ", programs by the host's interpreter" : "",
             *device_uid ? device_uid : "no device");
}

int main(int argc, char **argv)
{
    int status = options_read(argc, argv);
    if (status >= 0)
        return status;
    check_count = level0_checks(checks, 0);
    check_count = level1_checks(checks, check_count);
    check_count = level2_checks(checks, check_count);

    if (options.json)
        printf("{\"kit\": \"%s\", \"checks\": [", TENON_VERSION);
    if (!options.mask || !options.only)
        run_all("");
    if (options.mask)
        run_masked();
    if (!number) {
        fprintf(stderr, "tenon-plugin-check: no check is called '%s'\n",
                options.only);
        return 2;
    }
    char line[512];
    closing_line(line, sizeof line);
    if (options.json) {
        printf("],\n \"level\": %d", options.only ? -1 : level_held());
        print_field("plugin", plugin_name);
        print_field("version", plugin_version);
        print_field("device", device_uid);
        if (stopped_by)
            print_field("stopped_by", stopped_by->name);
        print_field("summary", line);
        puts("}");
    } else {
        if (stopped_by)
            printf("# stopped: without %s no other check is meaningful\n",
                   stopped_by->name);
        printf("1..%d\n%s\n", number, line);
    }
    for (int l = 0; l < LEVELS; l++)
        if (passed[l] < run[l])
            return 1;
    return 0;
}
