/* check.h: what the parts of tenon-plugin-check share.
 *
 * A check is a function that runs in a process of its own: a plugin that
 * crashes, hangs, prints or ends the program fails that check and no other.
 * The function calls trying() before each step, and expect() for what must
 * hold. The first expectation that does not hold is the check's result. */
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
    const char *rule; /* of <tenon/plugin.h>, that is checked */
    void (*body)(int argument);
    int argument;
    bool is_vital; /* if it fails, no other check is meaningful */
} check;

/* ---- check_options.c: the command line ---------------------------------------- */

typedef struct check_options {
    char path[4096]; /* of the plugin, absolute */
    int level;       /* the highest to be checked */
    bool json, verbose;
    const char *mask; /* slots and extensions to mask, or "all"; NULL: none */
    const char *only; /* the one check to run; NULL: all */
    uint64_t seed;    /* of random programs and primitives */
    int64_t programs; /* how many random programs */
    int timeout;      /* time limit of a check in seconds */
    uint32_t device;
} check_options;

extern check_options options;
/* Returns -1, or the exit status with which the program should end. */
int options_read(int argc, char **argv);
/* The variable TENON_<NAME>_<KEY> for tn_<name>.so, looked up as the core does.
 */
const char *options_of_plugin(const char *key);

/* ---- child.c: a check in its process ------------------------------------ */

/* What the process of a check reports. */
typedef struct report {
    bool ended; /* the body ran to its end */
    bool failed, skipped;
    char why[1024];     /* what did not hold, or why it was skipped */
    char trying[512];   /* the last step */
    char rule[256];     /* the broken rule, if it is not the check's */
    char detail[16384]; /* the program, for --verbose */
    char noted[512];    /* what is reported but is no failure */
    char name[64], version[64], uid[64]; /* of the plugin, when known */
    int64_t interpreted; /* launches that ran the host's interpreter */
} report;

/* Runs the check with these slots masked. The report is valid until the next
 * call. */
const report *child_run(const check *c, const char *mask);

/* Within a check: */
#define CHECK_PRINTF(f, a) __attribute__((format(printf, f, a)))
CHECK_PRINTF(1, 2) void trying(const char *format, ...);
/* Returns held. If it is false, the check has failed. */
CHECK_PRINTF(2, 3) bool expect(bool held, const char *format, ...);
/* Sets the rule that later expectations are about; NULL: the check's own. */
void rule(const char *text);
CHECK_PRINTF(1, 2) void leave_out(const char *format, ...);
/* Reports what libraries of vendors did so far (origin.h). */
void note_vendors(void);
bool has_failed(void);
void report_case(const random_case *c); /* for --verbose */
/* Sets the device that the closing line names. */
void report_device(const tn_device_info *info);
/* Expects a valid description, without which the other checks are
 * meaningless. */
bool expect_device(const tn_device_info *info);
/* Opens the plugin as the options say. False: the check has failed. */
bool open_table(by_hand *h);
/* Opens the plugin and the device. False: the check has failed, or it is
 * skipped because there is no device. */
bool open_device(by_hand *h);

/* ---- the checks --------------------------------------------------------- */

/* Each appends its checks to a list of `count` and returns the new count. */
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
