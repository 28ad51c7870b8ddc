/* functions.h: the functions of the language: what the files of this folder
 * define, and the functions typed so far. */
#ifndef TN_LIB_KERNEL_MATH_FUNCTIONS_H
#define TN_LIB_KERNEL_MATH_FUNCTIONS_H

#include <kernel/def.h>

/* What lib/kernel/math holds: one `fn`, `def` or `d`. */
#define TN__MATH_MAX_ARGS 8 /* of a def; a fn has at most 3 */
enum tn__math_kind { TN__MATH_FN, TN__MATH_DEF, TN__MATH_D };
typedef struct tn__math_item {
    enum tn__math_kind kind;
    bool rare; /* of a fn: tn__math_fn_is_rare */
    const char *name, *where;
    int line, column;
    tn_dtype type; /* fn: of the suffix; NONE: both float types */
    int arg_count; /* slots 0 .. arg_count are the arguments; a `d` has the
                      result as one more */
    /* NONE: the type that the arguments share */
    tn_dtype arg_type[TN__MATH_MAX_ARGS];
    uint32_t slot_count;
    const tn__node *body; /* of a d: a LIST of one for each argument */
    uint32_t none;        /* d: bit i: argument i has no derivative */
    struct tn__math_item *next;
} tn__math_item;

/* Parses one file of items, appended at *end; false with the error recorded.
 * Names of functions are looked up when the item is used. */
bool tn__math_parse(const char *text, const char *where, tn__arena *arena,
                    tn__math_item ***end);

/* Whether there is a `fn` or `def` of that name, and its arguments. */
bool tn__math_args(const char *name, int *arg_count);

/* A fn as CALL numbers it; TN_NONE if there is none of that name and type. */
uint32_t tn__math_fn_number(const char *name, tn_dtype type);
int tn__math_fn_typed(void); /* how many have a number now */
const tn__math_item *tn__math_find(const char *name, enum tn__math_kind kind);
const tn__math_item *tn__math_d_of(uint32_t fn_number);

/* ---- the table of typed functions (function_table.c) ------------------- */

#define TN__MATH_MAX_FUNCTIONS 512

/* The number of a function that has been typed; TN_NONE if none was. */
uint32_t tn__math_fn_find(const char *name, tn_dtype type);
/* Appends fn, the item's function for a register type. The caller serializes
 * the calls and has checked that the table is not full. */
void tn__math_fn_add(const tn_kernel_fn *fn, const tn__math_item *item,
                     tn_dtype type);
const tn__math_item *tn__math_fn_item(uint32_t number);

#endif
