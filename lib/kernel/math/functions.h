/* functions.h: the mathematical functions of the kernel language. An item is a
 * `fn`, `def` or `d` that was parsed from a .def file of this folder. A typed
 * function is a `fn` for one register type, with a number. */
#ifndef TN_LIB_KERNEL_MATH_FUNCTIONS_H
#define TN_LIB_KERNEL_MATH_FUNCTIONS_H

#include <kernel/def.h>

#define TN__MATH_MAX_ARGS 8 /* for a `def`; a `fn` has at most 3 arguments */
enum tn__math_kind { TN__MATH_FN, TN__MATH_DEF, TN__MATH_D };
typedef struct tn__math_item {
    enum tn__math_kind kind;
    bool rare; /* of a `fn`: marked `rare`, so executors need no routine for
                * it */
    const char *name, *where;
    int line, column;
    tn_dtype type; /* of a `fn`: the type that the suffix names; TN_DTYPE_NONE
                    * if the function is typed for both float types */
    int arg_count; /* Arguments have slots 0 .. arg_count - 1. In a `d`, slot
                    * arg_count is the result. */
    /* type of each argument; TN_DTYPE_NONE stands for the arguments' common
     * type */
    tn_dtype arg_type[TN__MATH_MAX_ARGS];
    uint32_t slot_count;
    const tn__node *body; /* in a `d`, a LIST with one derivative per
                           * argument */
    uint32_t none;        /* in a `d`, bit i is set if argument i has no
                           * derivative */
    struct tn__math_item *next;
} tn__math_item;

/* Parses the items of one file and appends them at *end. Returns false with the
 * error recorded on failure. Function names in bodies are resolved when the
 * item is typed. */
bool tn__math_parse(const char *text, const char *where, tn__arena *arena,
                    tn__math_item ***end);

/* Returns whether there is a `fn` or `def` of that name, and sets its number of
 * arguments. */
bool tn__math_args(const char *name, int *arg_count);

/* Returns the number of a `fn` for a register type, and types the function if
 * need be. Returns TN_NONE if there is no `fn` of that name and type. */
uint32_t tn__math_fn_number(const char *name, tn_dtype type);
int tn__math_fn_typed(void); /* Returns how many functions are typed. */
const tn__math_item *tn__math_find(const char *name, enum tn__math_kind kind);
const tn__math_item *tn__math_d_of(uint32_t fn_number);

/* ---- the table of typed functions (function_table.c) ------------------- */

#define TN__MATH_MAX_FUNCTIONS 512

/* Returns the number of a function that is already typed, else TN_NONE. */
uint32_t tn__math_fn_find(const char *name, tn_dtype type);
/* Appends fn, which is `item` typed for a register type. The caller serializes
 * the calls and has checked that the table is not full. */
void tn__math_fn_add(const tn_kernel_fn *fn, const tn__math_item *item,
                     tn_dtype type);
const tn__math_item *tn__math_fn_item(uint32_t number);

#endif
