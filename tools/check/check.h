/* check.h: what the parts of tenon-plugin-check share.
 *
 * A check is a function that runs in a process of its own: a plugin that
 * crashes, hangs, prints or ends the program fails that check and no other.
 * In its process it says what it is trying before it tries it, and what did
 * not hold; the first such word is the check's result. */
#ifndef TN_CHECK_CHECK_H
#define TN_CHECK_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "by_hand.h"
#include "random_program.h"

typedef struct check {
    int level;
    char name[48];
    const char *rule; /* of <tenon/plugin.h>, that it holds the plugin to */
    void (*body)(int argument);
    int argument;
    bool is_vital; /* without it no other check has a meaning */
} check;

/* ---- check_options.c: the command line ---------------------------------------- */

typedef struct check_options {
    char path[4096]; /* of the plugin, absolute */
    int level;       /* the highest to be checked */
    bool json, verbose;
    const char *mask; /* names to be masked, or "all"; NULL: none */
    const char *only; /* the one check to run; NULL: all */
    uint64_t seed;    /* of random programs and primitives */
    int64_t programs; /* how many random programs */
    int timeout;      /* seconds for a check */
    uint32_t device;
} check_options;

extern check_options options;
/* -1, or the exit status with which the program ends at once. */
int options_read(int argc, char **argv);
/* TENON_<NAME>_<KEY> for tn_<name>.so, as the core would look it up. */
const char *options_of_plugin(const char *key);

/* ---- child.c: a check in its process ------------------------------------ */

/* What comes back from the process. */
typedef struct report {
    bool ended; /* the body ran to its end */
    bool failed, skipped;
    char why[1024];     /* what did not hold, or why it was skipped */
    char trying[512];   /* the last thing tried */
    char rule[256];     /* that was broken, where it is not the check's */
    char detail[16384]; /* the program, for --verbose */
    char noted[512];    /* what is said though it is no fault */
    char name[64], version[64], uid[64]; /* of the plugin, when known */
    int64_t interpreted; /* launches that ran the host's interpreter */
} report;

/* Runs the check with these slots masked; the report is good until the next
 * call. */
const report *child_run(const check *c, const char *mask);

/* Within a check: */
#define CHECK_PRINTF(f, a) __attribute__((format(printf, f, a)))
CHECK_PRINTF(1, 2) void trying(const char *format, ...);
/* Returns held; where that is false, the check has failed. */
CHECK_PRINTF(2, 3) bool expect(bool held, const char *format, ...);
/* What is expected from here on; NULL: the check's own rule. */
void rule(const char *text);
CHECK_PRINTF(1, 2) void leave_out(const char *format, ...);
void note_vendors(void); /* what their libraries did so far: origin.h */
bool has_failed(void);
void tell_case(const random_case *c);         /* kept for --verbose */
void tell_device(const tn_device_info *info); /* the one in the closing line */
/* Is that a device for which the other checks have a meaning? */
bool expect_device(const tn_device_info *info);
/* The plugin as the options say; false: the check has failed. */
bool open_table(by_hand *h);
bool open_device(by_hand *h); /* and the device, or the check is left out */

/* ---- the checks --------------------------------------------------------- */

/* Each adds its own to the list from `count` on; returns the new count. */
enum { MAX_CHECKS = 128 };
int level0_checks(check *list, int count);
int level1_checks(check *list, int count);
int event_checks(check *list, int count); /* of level 1 */
int launch_checks(check *list, int count); /* of level 2 */
int unknown_checks(check *list, int count); /* likewise */
int level2_checks(check *list, int count);
int check_add(check *list, int count, int level, const char *name,
              const char *rule, void (*body)(int argument), int argument);
int check_add_all(check *list, int count, const check *more,
                  size_t more_count);

#endif
