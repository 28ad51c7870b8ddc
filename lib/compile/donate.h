/* donate.h: outputs in the memory of donated inputs. */
#ifndef TN_LIB_COMPILE_DONATE_H
#define TN_LIB_COMPILE_DONATE_H

#include <compile/list.h>
#include <compile/program.h>

/* The first and the last command that use a value. */
typedef struct tn__command_span {
    bool used;
    size_t first, last;  /* numbers of the commands */
    /* The command `last` of an input, or `first` of an output, and its entry. NULL
     * if the command is a part of a list of launches. */
    const tn__command *command;
    const tn__entry *entry;
} tn__command_span;

/* Notes that command `at` uses value v of the program. `command` is NULL if it is a
 * part of a list. */
void tn__span_note(tn__command_span *span, const tn__captured_value *v, size_t at,
                   const tn__entry *entry, const tn__command *command);

/* Chooses for each output of the program the donated input in whose memory it can
 * be: one that no command uses any more, or that the command reads which writes the
 * output, element by element. Bit i of `donated` says that input i is donated.
 * span[v] is of value v. */
void tn__donate(tn__replayed *program, const tn__command_span *span,
                uint64_t donated);

#endif
