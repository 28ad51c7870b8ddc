/* report.h: a program as text (tn_compiled_text). */
#ifndef TN_LIB_COMPILE_REPORT_H
#define TN_LIB_COMPILE_REPORT_H

#include <base/error.h>
#include <compile/fuse.h>
#include <compile/list.h>
#include <compile/program.h>

/* Adds a line for a group, whose first command has index `at` in the program.
 * `command` is the fused launch, or NULL if the group's steps stay as they
 * are. */
void tn__report_group(tn__text *text, const tn__capture *capture,
                      const tn__group *group, const tn__command *command,
                      size_t at);
/* Adds a line for a list of launches. */
void tn__report_list(tn__text *text, const tn__entry *list);
/* Returns the report of a program, with a heading before the lines of `lines`.
 * The caller frees it with tn__free. NULL with the error recorded if memory runs
 * out. */
char *tn__report_finish(tn__text *lines, const char *name,
                        const tn__replayed *program);

#endif
