/* template_run.h: what the two parts that run a tree share: expressions
 * (template_eval.c) call macros, whose bodies are statements (template_run.c),
 * which contain expressions. */
#ifndef TN_LIB_LM_TEMPLATE_TEMPLATE_RUN_H
#define TN_LIB_LM_TEMPLATE_TEMPLATE_RUN_H

#include <lm/template/template.h>

/* A scope of variables. Each iteration of a loop and each call of a macro has
 * one. */
typedef struct tn__jinja_scope {
    struct tn__jinja_scope *outer;
    tn__jinja_value *names; /* a dictionary */
} tn__jinja_scope;

/* ---- expressions and variables: template_eval.c -------------------------- */

const tn__jinja_value *tn__jinja_eval(tn__jinja *j, const tn__jinja_node *n);
void tn__jinja_eval_arguments(tn__jinja *j, const tn__jinja_node *n,
                              tn__jinja_arguments *to);
/* Opens a scope within `outer`. To close it, set j->scope. */
void tn__jinja_open_scope(tn__jinja *j, tn__jinja_scope *outer);
/* Sets a variable of the innermost scope. */
void tn__jinja_set_variable(tn__jinja *j, const char *name,
                            const tn__jinja_value *v);
/* The variable that n names, of the innermost scope that has it. */
const tn__jinja_value *tn__jinja_variable(tn__jinja *j,
                                          const tn__jinja_node *n);
/* Runs a body and returns what it prints. */
const tn__jinja_value *tn__jinja_capture(tn__jinja *j,
                                         const tn__jinja_node *body);
const tn__jinja_value *tn__jinja_call_macro(tn__jinja *j,
                                            const tn__jinja_value *of,
                                            const tn__jinja_arguments *given);

/* ---- statements: template_run.c ------------------------------------------ */

/* How a list of statements ends: at its end, or at a break or continue. */
enum { TN__JINJA_GOES_ON, TN__JINJA_BREAKS, TN__JINJA_CONTINUES };
int tn__jinja_run_nodes(tn__jinja *j, const tn__jinja_node *n);
/* Runs loop(list), a call of a recursive loop. Returns its text for the other
 * list. */
const tn__jinja_value *tn__jinja_call_loop(tn__jinja *j,
                                           const tn__jinja_value *of,
                                           const tn__jinja_arguments *given);

#endif
