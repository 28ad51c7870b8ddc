/* report.h: a program as text (tn_compiled_text). */
#ifndef TN_LIB_COMPILE_REPORT_H
#define TN_LIB_COMPILE_REPORT_H

#include <base/error.h>
#include <compile/arena.h>
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
/* Adds a line for each temporary value that the program uses: its place in the
 * arena, the calls between which it exists, and the operator that writes it
 * first. life[v] is the lifetime of value v. Records an error and returns false
 * if memory runs out. */
bool tn__report_memory(tn__text *text, const tn__capture *capture,
                       const tn__lifetime *life);
/* Returns the report of a program, with a heading before the lines of `lines`.
 * The caller frees it with tn__free. NULL with the error recorded if memory runs
 * out. */
char *tn__report_finish(tn__text *lines, const char *name,
                        const tn__replayed *program);
/* Writes a report to a new file NAME-N.txt of the folder in the environment
 * variable TENON_COMPILE_REPORT, if that is set. */
tn_status tn__report_write(const char *text, const char *name);

/* Adds a line for each output that is in the memory of a donated input. */
void tn__report_donors(tn__text *text, const tn__replayed *program);

#endif
