/* functions.h: the mathematical functions of the language: the parsed items of
 * this folder's .def files, and the functions typed so far. */
#ifndef TN_LIB_KERNEL_MATH_FUNCTIONS_H
#define TN_LIB_KERNEL_MATH_FUNCTIONS_H

#include <kernel/def.h>

/* An item of lib/kernel/math: a `fn`, `def` or `d`. */
#define TN__MATH_MAX_ARGS 8 /* of a def; a fn has at most 3 */
enum tn__math_kind { TN__MATH_FN, TN__MATH_DEF, TN__MATH_D };
typedef struct tn__math_item {
    enum tn__math_kind kind;
    bool rare; /* of a fn: see tn__math_fn_is_rare */
    const char *name, *where;
    int line, column;
    tn_dtype type; /* fn: type of the suffix; TN_DTYPE_NONE: both float types */
    int arg_count; /* arguments have slots 0 .. arg_count - 1; the result of a
                    * `d` has the next one */
    /* TN_DTYPE_NONE: the common type of the arguments */
    tn_dtype arg_type[TN__MATH_MAX_ARGS];
    uint32_t slot_count;
    const tn__node *body; /* of a d: a LIST with one derivative per argument */
    uint32_t none;        /* d: bit i is set if argument i has no derivative */
    struct tn__math_item *next;
} tn__math_item;

/* Parses the items of one file and appends them at *end; false with the error
 * recorded. Function names in bodies are resolved when the item is typed. */
bool tn__math_parse(const char *text, const char *where, tn__arena *arena,
                    tn__math_item ***end);

/* Whether there is a `fn` or `def` of that name; sets its number of
 * arguments. */
bool tn__math_args(const char *name, int *arg_count);

/* The number of a fn, typed if need be; TN_NONE if there is none of that name
 * and type. */
uint32_t tn__math_fn_number(const char *name, tn_dtype type);
int tn__math_fn_typed(void); /* how many functions have a number now */
const tn__math_item *tn__math_find(const char *name, enum tn__math_kind kind);
const tn__math_item *tn__math_d_of(uint32_t fn_number);

/* ---- the table of typed functions (function_table.c) ------------------- */

#define TN__MATH_MAX_FUNCTIONS 512

/* The number of a function that is typed already, else TN_NONE. */
uint32_t tn__math_fn_find(const char *name, tn_dtype type);
/* Appends fn, the item's function for a register type. The caller serializes
 * the calls and has checked that the table is not full. */
void tn__math_fn_add(const tn_kernel_fn *fn, const tn__math_item *item,
                     tn_dtype type);
const tn__math_item *tn__math_fn_item(uint32_t number);

#endif
