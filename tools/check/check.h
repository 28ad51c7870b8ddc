/* check.h: the functions and structs that the files of tenon-plugin-check
 * share.
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
    const char *rule; /* the rule of <tenon/plugin.h> that the check tests, as a
                       * string for the report */
    void (*body)(int argument);
    int argument;
    bool is_vital; /* if this check fails, no other check is meaningful */
} check;

/* ---- check_options.c: the command line ----------------------------------- */

typedef struct check_options {
    char path[4096]; /* absolute path of the plugin */
    int level;       /* highest level to be checked */
    bool json, verbose;
    const char *mask; /* optional functions and extensions to hide from the
                         checks, "all" for all of them, or NULL for none */
    const char *only; /* name of the only check to run, or NULL to run all */
    uint64_t seed;    /* seed of random programs and operands */
    int64_t programs; /* number of random programs to run */
    int timeout;      /* time limit of a check in seconds */
    uint32_t device;
} check_options;

extern check_options options;
/* Reads the command line into `options`. Returns -1 if the checks should run,
 * or the exit status with which the program should end now. */
int options_read(int argc, char **argv);
/* Returns the value of the environment variable TENON_<NAME>_<KEY>, where the
 * plugin's file is tn_<name>.so, or NULL if it is not set. */
const char *options_of_plugin(const char *key);

/* ---- child.c: a check in its process ------------------------------------ */

/* The result of a check. Its process writes it to shared memory. */
typedef struct report {
    bool ended; /* the check's function has returned */
    bool failed, skipped;
    char why[1024];     /* the expectation that did not hold, or why the check
                           was skipped */
    char trying[512];   /* the step that was begun last */
    char rule[256];     /* the broken rule, if it differs from the rule of the
                           check */
    char detail[16384]; /* the source of the failed program, for --verbose */
    char noted[512];    /* a note that is reported but is not a failure */
    char name[64], version[64], uid[64]; /* name and version of the plugin and
                                            identifier of the device, if
                                            known */
    int64_t interpreted; /* number of launches that ran in the host's
                            interpreter */
} report;

/* Runs the check in a new process. The optional functions and extensions named
 * in mask are hidden. The report is valid until the next call. */
const report *child_run(const check *c, const char *mask);

/* The following functions are called by the function of a check. */
#define CHECK_PRINTF(f, a) __attribute__((format(printf, f, a)))
CHECK_PRINTF(1, 2) void trying(const char *format, ...);
/* Fails the check with this message if held is false. Returns held. */
CHECK_PRINTF(2, 3) bool expect(bool held, const char *format, ...);
/* Sets the rule that the following expectations check. NULL means the rule of
 * the check itself. */
void rule(const char *text);
CHECK_PRINTF(1, 2) void leave_out(const char *format, ...);
/* Adds a note about the threads that libraries of the device's vendor started
 * and the environment variables that they set (origin.h). */
void note_vendors(void);
bool has_failed(void);
/* Stores the program of a failed case, which --verbose prints. */
void report_case(const random_case *c);
/* Sets the device that the last line of the output names. */
void report_device(const tn_device_info *info);
/* Checks that the plugin's description of a device is valid. Without a valid
 * description the other checks are meaningless. */
bool expect_device(const tn_device_info *info);
/* Opens the plugin as the options say. Fails the check and returns false if the
 * plugin cannot be opened. */
bool open_table(by_hand *h);
/* Opens the plugin and the device. If that fails, fails the check and returns
 * false. If there is no device, skips the check and returns false. */
bool open_device(by_hand *h);

/* ---- the checks --------------------------------------------------------- */

/* Each of the following functions appends checks to a list that has `count`
 * entries and returns the new number of entries. */
enum { MAX_CHECKS = 128 };
int level0_checks(check *list, int count);
int level1_checks(check *list, int count);
int event_checks(check *list, int count);   /* checks of level 1 */
int launch_checks(check *list, int count);  /* checks of level 2 */
int unknown_checks(check *list, int count); /* checks of level 2 */
int level2_checks(check *list, int count);
int check_add(check *list, int count, int level, const char *name,
              const char *rule, void (*body)(int argument), int argument);
int check_add_all(check *list, int count, const check *more,
                  size_t more_count);

#endif
