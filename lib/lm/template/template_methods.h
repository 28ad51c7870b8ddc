/* template_methods.h: tables of methods. Each file of methods has one, which
 * ends with a row without a name; template_methods.c looks names up in all of
 * them. */
#ifndef TN_LIB_LM_TEMPLATE_TEMPLATE_METHODS_H
#define TN_LIB_LM_TEMPLATE_TEMPLATE_METHODS_H

#include <lm/template/template.h>

typedef struct tn__jinja_method_row {
    tn__jinja_kind of;
    const char *name, *parameters; /* see tn__jinja_bind */
    const tn__jinja_value *(*call)(tn__jinja *j, const tn__jinja_value *self,
                                   const tn__jinja_value **a);
} tn__jinja_method_row;

extern const tn__jinja_method_row tn__jinja_character_methods[];
extern const tn__jinja_method_row tn__jinja_part_methods[];

/* ---- characters: template_characters.c ----------------------------------- */

/* Returns the bytes of the character at the beginning of a string if it is
 * blank (by Python's str.isspace), else 0. */
size_t tn__jinja_blank(const char *text, size_t bytes);
/* Returns the bytes of the character at the beginning of a string. */
size_t tn__jinja_character_bytes(const char *text, size_t bytes);
/* Returns the text without the characters of `set`, or without blanks, at its
 * ends. */
const tn__jinja_value *tn__jinja_strip(tn__jinja *j,
                                       const tn__jinja_value *self,
                                       const tn__jinja_value *set, bool left,
                                       bool right);
/* Returns an argument, which must be a string. NULL if it is none or
 * missing. */
const tn__jinja_value *tn__jinja_text_argument(tn__jinja *j,
                                               const tn__jinja_value *v,
                                               const char *what);

#endif
