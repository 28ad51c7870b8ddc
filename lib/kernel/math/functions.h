/* functions.h: the mathematical functions of the kernel language. The .def
 * files of this folder consist of items: `fn` is a function, `def` a definition
 * that is inlined, and `d` the derivative of a function. A typed function is a
 * `fn` for one register type. It has an index. */
#ifndef TN_LIB_KERNEL_MATH_FUNCTIONS_H
#define TN_LIB_KERNEL_MATH_FUNCTIONS_H

#include <kernel/def.h>

#define TN__MATH_MAX_ARGS 8 /* for a `def`; a `fn` has at most 3 arguments */
enum tn__math_kind { TN__MATH_FN, TN__MATH_DEF, TN__MATH_D };
typedef struct tn__math_item {
    enum tn__math_kind kind;
    bool rare; /* for a `fn`: true if it is marked as rarely used, so plugins
                * need no optimised routine for it */
    const char *name, *where;
    int line, column;
    tn_dtype type; /* for a `fn`: the type in its name, as in "exp.f32";
                    * TN_DTYPE_NONE if it is typed for both float types */
    int arg_count; /* Number of arguments. In the body, the values with indices
                    * 0 to arg_count - 1 are the arguments. In a `d`, value
                    * arg_count is the function's result. */
    /* type of each argument; TN_DTYPE_NONE if it has the common type of all
     * arguments whose type is not given */
    tn_dtype arg_type[TN__MATH_MAX_ARGS];
    uint32_t slot_count;
    const tn__node *body; /* syntax tree of the body; in a `d`, a LIST of one
                           * derivative for each argument */
    uint32_t none; /* in a `d`: bit i is set if argument i has no derivative */
    struct tn__math_item *next;
} tn__math_item;

/* Parses the items of one file and appends them at *end. Returns false with the
 * error recorded on failure. Functions that the items call are looked up later,
 * when an item is typed. */
bool tn__math_parse(const char *text, const char *where, tn__arena *arena,
                    tn__math_item ***end);

/* Returns whether there is a `fn` or `def` of that name, and sets *arg_count to
 * its number of arguments. */
bool tn__math_args(const char *name, int *arg_count);

/* Returns the index of the `fn` of that name for a register type, and types it
 * if that was not done yet. Returns TN_NONE if there is no such function. */
uint32_t tn__math_fn_number(const char *name, tn_dtype type);
int tn__math_fn_typed(void); /* Returns how many functions have been typed. */
const tn__math_item *tn__math_find(const char *name, enum tn__math_kind kind);
const tn__math_item *tn__math_d_of(uint32_t fn_number);

/* ---- the table of typed functions (function_table.c) ------------------- */

#define TN__MATH_MAX_FUNCTIONS 512

/* Returns the index of a function if it has been typed; else TN_NONE. */
uint32_t tn__math_fn_find(const char *name, tn_dtype type);
/* Appends `fn`, which is `item` typed for a register type. The caller holds the
 * lock of math_functions.c and has checked that the table is not full. */
void tn__math_fn_add(const tn_kernel_fn *fn, const tn__math_item *item,
                     tn_dtype type);
const tn__math_item *tn__math_fn_item(uint32_t number);

#endif
