/* template.h: chat templates, the part of Jinja 2 that the templates of
 * published models use, with the settings of transformers: trim_blocks,
 * lstrip_blocks, no escaping, undefined names print as nothing.
 *
 * A template is split into tokens (template_lex.c), and the tokens are parsed
 * to a tree (template_parse.c). template_run.c runs the tree on the values of
 * template_value.c. Filters, tests, methods and functions have a file each.
 *
 * All memory of a rendering is in one arena, which is freed at its end. An
 * error ends the rendering from any depth by longjmp (tn__jinja_fail does not
 * return). Templates come from untrusted files, so memory, steps, nesting and
 * output have limits. */
#ifndef TN_LIB_LM_TEMPLATE_TEMPLATE_H
#define TN_LIB_LM_TEMPLATE_TEMPLATE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>

enum {
    TN__JINJA_MOST_DEPTH = 200,        /* of expressions, blocks and calls */
    TN__JINJA_MOST_STEPS = 5000000,    /* nodes run, and elements visited */
    TN__JINJA_MOST_OUTPUT = 16 << 20,  /* bytes */
    TN__JINJA_MOST_MEMORY = 128 << 20, /* bytes */
    TN__JINJA_MOST_SOURCE = 1 << 20,   /* bytes */
    TN__JINJA_MOST_ARGUMENTS = 16      /* of a filter, test, method, function */
};

/* ---- values -------------------------------------------------------------- */

typedef enum tn__jinja_kind {
    TN__JINJA_UNDEFINED, /* the undefined value; text: the name or expression
                            that is not defined */
    TN__JINJA_NONE,
    TN__JINJA_BOOL,
    TN__JINJA_INT,
    TN__JINJA_REAL,
    TN__JINJA_TEXT,
    TN__JINJA_LIST,
    TN__JINJA_DICT,
    TN__JINJA_NAMESPACE, /* a dictionary whose members may be set */
    TN__JINJA_METHOD,    /* text: its name; of `self` */
    TN__JINJA_MACRO,
    TN__JINJA_FUNCTION,  /* text: its name */
    TN__JINJA_LOOP       /* the variable `loop` */
} tn__jinja_kind;

typedef struct tn__jinja_value {
    tn__jinja_kind kind;
    bool is_tuple; /* a list that is printed with parentheses */
    bool is_safe;  /* the text is the result of the filter safe: a string that
                      is joined to it is escaped */
    union {
        bool truth;
        int64_t integer;
        double real;
        struct { /* UTF-8, ends with a NUL */
            const char *text;
            size_t bytes;
            const struct tn__jinja_value *self;
        };
        struct { /* lists; dictionaries have a key for each item */
            const struct tn__jinja_value **item, **key;
            size_t count, room;
        };
        struct { /* of a macro: its definition, and the scope that contained
                    it */
            const struct tn__jinja_node *macro;
            struct tn__jinja_scope *closure;
        };
        struct tn__jinja_loop *loop;
    };
} tn__jinja_value;

/* ---- the tree ------------------------------------------------------------ */

typedef enum tn__jinja_node_kind {
    /* expressions */
    TN__JINJA_CONSTANT,  /* value */
    TN__JINJA_NAME,      /* name */
    TN__JINJA_LIST_OF,   /* a ...; name: "(" for a tuple */
    TN__JINJA_DICT_OF,   /* a (key), its b (value), next key ... */
    TN__JINJA_UNARY,     /* name a, where name is "-", "+" or "not" */
    TN__JINJA_BINARY,    /* name; a, b */
    TN__JINJA_COMPARE,   /* a; b: a chain of nodes with name and a */
    TN__JINJA_CONDITION, /* a if b else c */
    TN__JINJA_MEMBER,    /* a.name */
    TN__JINJA_INDEX,     /* a[b] */
    TN__JINJA_SLICE,     /* a[b:c:d] */
    TN__JINJA_CALL,      /* a(b ...) */
    TN__JINJA_FILTER,    /* a | name(b ...) */
    TN__JINJA_TEST,      /* a is name(b ...) */
    TN__JINJA_ARGUMENT,  /* name (or "") = a */
    /* statements */
    TN__JINJA_DATA,      /* value */
    TN__JINJA_PRINT,     /* a */
    TN__JINJA_IF,        /* if a: b ...; else c: another IF, or a BODY */
    TN__JINJA_BODY,      /* a ... */
    TN__JINJA_FOR,       /* for d ... in a if c: b ...; else e ...; name is
                            "recursive" or "" */
    TN__JINJA_SET,       /* set d ... = a; name: of a namespace, "" otherwise */
    TN__JINJA_SET_BLOCK, /* set d or d.name: b ... ; a: filters, which begin at
                            node c */
    TN__JINJA_FILTERED,  /* filter a: b ... ; the filters in a begin at node
                            c */
    TN__JINJA_WITH,      /* with d ... : b ... ; d is a list of variables,
                            and the child a of a variable is its value */
    TN__JINJA_CALLER,    /* call block: a is a CALL; c, a MACRO_AT, becomes the
                            macro's caller */
    TN__JINJA_MACRO_AT,  /* macro name(d ...): b ... ; field uses is set */
    TN__JINJA_BREAK,
    TN__JINJA_CONTINUE
} tn__jinja_node_kind;

typedef struct tn__jinja_node {
    tn__jinja_node_kind kind;
    size_t at; /* place in the template */
    const char *name;
    const tn__jinja_value *value;
    unsigned uses; /* in MACRO_AT: bits TN__JINJA_USES_... */
    struct tn__jinja_node *a, *b, *c, *d, *e, *next;
} tn__jinja_node;

/* Names that a macro defines for its body without a parameter, if the body uses
 * them. */
enum {
    TN__JINJA_USES_CALLER = 1,
    TN__JINJA_USES_VARARGS = 2,
    TN__JINJA_USES_KWARGS = 4
};

/* ---- tokens -------------------------------------------------------------- */

typedef enum tn__jinja_token_kind {
    TN__JINJA_T_DATA,
    TN__JINJA_T_PRINT, /* {{ */
    TN__JINJA_T_BLOCK, /* {% */
    TN__JINJA_T_CLOSE, /* }} or %} */
    TN__JINJA_T_NAME,
    TN__JINJA_T_CONSTANT, /* a number or a text */
    TN__JINJA_T_OPERATOR,
    TN__JINJA_T_END
} tn__jinja_token_kind;

typedef struct tn__jinja_token {
    tn__jinja_token_kind kind;
    size_t at;
    const char *text; /* of names, operators, and for messages */
    const tn__jinja_value *value;
} tn__jinja_token;

/* ---- a rendering --------------------------------------------------------- */

/* A text that grows. */
typedef struct tn__jinja_text {
    char *text;
    size_t bytes, room;
} tn__jinja_text;

typedef struct tn__jinja {
    jmp_buf failed;
    tn_status code;
    char message[400];
    const char *source;
    size_t source_bytes;
    size_t at; /* position of the code that is run, for messages */
    struct tn__jinja_block *blocks; /* the arena */
    size_t memory;
    int64_t steps;
    int depth;
    int64_t now; /* seconds since 1970 for strftime_now */
    tn__jinja_text *out;
    struct tn__jinja_scope *scope, *outermost;
} tn__jinja;

/* Ends the rendering with an error at j->at. */
__attribute__((noreturn, format(printf, 3, 4))) void
tn__jinja_fail(tn__jinja *j, tn_status code, const char *format, ...);
/* Memory of the rendering, filled with zeros. */
void *tn__jinja_allocate(tn__jinja *j, size_t count, size_t bytes);
void tn__jinja_free(tn__jinja *j);
void tn__jinja_step(tn__jinja *j, size_t count);
/* Count the depth of nesting. */
void tn__jinja_enter(tn__jinja *j);
void tn__jinja_leave(tn__jinja *j);

tn__jinja_token *tn__jinja_lex(tn__jinja *j);
/* Parses j->source and returns its syntax tree. */
tn__jinja_node *tn__jinja_parse(tn__jinja *j);
/* Runs a tree with these variables, a dictionary, and returns the text. */
const tn__jinja_value *tn__jinja_run(tn__jinja *j, const tn__jinja_node *body,
                                     const tn__jinja_value *variables);

/* ---- values: template_value.c -------------------------------------------- */

extern const tn__jinja_value tn__jinja_none, tn__jinja_true, tn__jinja_false;
const tn__jinja_value *tn__jinja_bool(bool truth);
const tn__jinja_value *tn__jinja_int(tn__jinja *j, int64_t integer);
const tn__jinja_value *tn__jinja_real(tn__jinja *j, double real);
/* Copies the text. */
const tn__jinja_value *tn__jinja_text_of(tn__jinja *j, const char *text,
                                         size_t bytes);
const tn__jinja_value *tn__jinja_undefined(tn__jinja *j, const char *what);
tn__jinja_value *tn__jinja_new(tn__jinja *j, tn__jinja_kind kind);
tn__jinja_value *tn__jinja_list(tn__jinja *j);
tn__jinja_value *tn__jinja_dict(tn__jinja *j);
void tn__jinja_append(tn__jinja *j, tn__jinja_value *list,
                      const tn__jinja_value *item);
/* Sets a member of a dictionary. A new member is appended. */
void tn__jinja_set(tn__jinja *j, tn__jinja_value *dict,
                   const tn__jinja_value *key, const tn__jinja_value *item);
void tn__jinja_set_name(tn__jinja *j, tn__jinja_value *dict, const char *key,
                        const tn__jinja_value *item);
/* Return the member with this key, or NULL if the dictionary has none. */
const tn__jinja_value *tn__jinja_get(tn__jinja *j, const tn__jinja_value *dict,
                                     const tn__jinja_value *key);
const tn__jinja_value *tn__jinja_get_name(const tn__jinja_value *dict,
                                          const char *key);

bool tn__jinja_truth(const tn__jinja_value *v);
bool tn__jinja_is_number(const tn__jinja_value *v); /* a bool is one */
bool tn__jinja_is_text(const tn__jinja_value *v, const char *text);
double tn__jinja_number(const tn__jinja_value *v);
bool tn__jinja_equal(tn__jinja *j, const tn__jinja_value *a,
                     const tn__jinja_value *b);
/* Compares two values as strcmp does: returns a number below 0, 0, or above 0.
 * Fails for values that have no order. */
int tn__jinja_order(tn__jinja *j, const tn__jinja_value *a,
                    const tn__jinja_value *b);
/* Returns whether `whole`, a list, a dictionary or a string, contains the item,
 * the key or the substring. */
bool tn__jinja_in(tn__jinja *j, const tn__jinja_value *item,
                  const tn__jinja_value *whole);
/* Returns the items of a list, the keys of a dictionary or the characters of a
 * string as a list. The list is empty for an undefined value. Fails for other
 * kinds. */
const tn__jinja_value *tn__jinja_items(tn__jinja *j, const tn__jinja_value *v);
/* Returns the number of elements, members or characters. Fails for values
 * without a length. */
int64_t tn__jinja_length(tn__jinja *j, const tn__jinja_value *v);
/* Decodes the character at text[*i] of a valid UTF-8 text, and moves *i behind
 * it. */
uint32_t tn__jinja_character(const char *text, size_t bytes, size_t *i);
/* "a list", for messages. */
const char *tn__jinja_kind_name(const tn__jinja_value *v);

/* ---- strings that grow, and values as text: template_text.c
 * ---------------- */

void tn__jinja_add(tn__jinja *j, tn__jinja_text *to, const char *text,
                   size_t bytes);
const tn__jinja_value *tn__jinja_text_end(tn__jinja *j, tn__jinja_text *text);
/* Appends the printed form of a value. With `quoted`, appends the form that the
 * value has within a printed list, in which strings have quotes. */
void tn__jinja_add_value(tn__jinja *j, tn__jinja_text *to,
                         const tn__jinja_value *v, bool quoted);
/* Returns a string unchanged, and for any other value its printed form. */
const tn__jinja_value *tn__jinja_string(tn__jinja *j,
                                        const tn__jinja_value *v);
/* Adds a value as Python's json.dumps writes it. indent < 0: in one line. */
void tn__jinja_add_json(tn__jinja *j, tn__jinja_text *to,
                        const tn__jinja_value *v, int indent, int level,
                        bool sorted, bool ascii);
/* Parses a JSON text and returns its value. `what` names the text in error
 * messages. */
const tn__jinja_value *tn__jinja_from_json(tn__jinja *j, const char *text,
                                           const char *what);

/* ---- arguments: template_arguments.c ------------------------------------- */

/* Arguments of a filter, test, method, function or macro. */
typedef struct tn__jinja_arguments {
    const tn__jinja_value *item[TN__JINJA_MOST_ARGUMENTS];
    size_t count;
    const char *name[TN__JINJA_MOST_ARGUMENTS];
    const tn__jinja_value *named[TN__JINJA_MOST_ARGUMENTS];
    size_t named_count;
} tn__jinja_arguments;

/* Puts the arguments in the order of `parameters` ("width first blank"). Those
 * not given are NULL. Fails for too many, unknown or repeated ones. */
void tn__jinja_bind(tn__jinja *j, const char *what, const char *parameters,
                    const tn__jinja_arguments *given,
                    const tn__jinja_value **out);
/* Returns the value of an integer or a bool. Fails for other kinds; `what`
 * names the value in the message. */
int64_t tn__jinja_integer_of(tn__jinja *j, const tn__jinja_value *v,
                             const char *what);

/* ---- operators: template_operators.c ------------------------------------- */

/* Returns a + b, a // b and so on. `as` is the operator as it is written in a
 * template, except "and" and "or". */
const tn__jinja_value *tn__jinja_operate(tn__jinja *j, const char *as,
                                         const tn__jinja_value *a,
                                         const tn__jinja_value *b);
/* Returns the result of an operator for two integers. `name` is the operator;
 * "f" stands for // and "p" for **. */
const tn__jinja_value *tn__jinja_integers(tn__jinja *j, char name, int64_t a,
                                          int64_t b);
/* Returns the integer value of an integer or a bool. */
int64_t tn__jinja_whole(const tn__jinja_value *v);

/* ---- members: template_member.c ------------------------------------------ */

/* of.name. As in Python, a method hides a member of the same name. */
const tn__jinja_value *tn__jinja_member(tn__jinja *j,
                                        const tn__jinja_value *of,
                                        const char *name);
/* of[i] */
const tn__jinja_value *tn__jinja_index(tn__jinja *j, const tn__jinja_value *of,
                                       const tn__jinja_value *i);
/* Returns the slice of[limit[0]:limit[1]:by]. Each of the bounds may be NULL,
 * as when it is left out in Python. */
const tn__jinja_value *
tn__jinja_slice(tn__jinja *j, const tn__jinja_value *of,
                const tn__jinja_value *const limit[2],
                const tn__jinja_value *by);

/* ---- loops: template_loop.c ---------------------------------------------- */

/* A loop that is running. `at` is the index of its current item in list. */
typedef struct tn__jinja_loop {
    const tn__jinja_node *of;
    struct tn__jinja_scope *outer; /* the scope around the loop */
    const tn__jinja_value *list;
    size_t at;
    int64_t depth;                  /* depth of recursion; 0 for the outermost
                                       loop */
    const tn__jinja_value *changed; /* the arguments of the last call of
                                       changed, as a list, or NULL */
} tn__jinja_loop;

/* tn__jinja_loop_member returns a member of a loop, or NULL.
 * tn__jinja_loop_call returns the result of cycle or changed. */
const tn__jinja_value *tn__jinja_loop_member(tn__jinja *j,
                                             const tn__jinja_value *loop,
                                             const char *name);
const tn__jinja_value *tn__jinja_loop_call(tn__jinja *j,
                                           const tn__jinja_value *loop,
                                           const char *name,
                                           const tn__jinja_arguments *given);

/* ---- filters, tests, methods, functions ---------------------------------- */

const tn__jinja_value *tn__jinja_filter(tn__jinja *j, const char *name,
                                        const tn__jinja_value *v,
                                        const tn__jinja_arguments *arguments);
bool tn__jinja_test(tn__jinja *j, const char *name, const tn__jinja_value *v,
                    const tn__jinja_arguments *arguments);
bool tn__jinja_has_filter(const char *name);
/* Returns the result of a filter whose parameters are fixed, or NULL if there
 * is none with this name. */
const tn__jinja_value *
tn__jinja_fixed_filter(tn__jinja *j, const char *name, const tn__jinja_value *v,
                       const tn__jinja_arguments *given);
/* Returns the member of v at a path such as "message.role", or 0. Filters that
 * take an attribute use it. */
const tn__jinja_value *tn__jinja_attribute(tn__jinja *j,
                                           const tn__jinja_value *v,
                                           const tn__jinja_value *path);
bool tn__jinja_has_test(const char *name);
/* Returns whether values of this kind have the method. */
bool tn__jinja_has_method(const tn__jinja_value *self, const char *name);
const tn__jinja_value *tn__jinja_method(tn__jinja *j,
                                        const tn__jinja_value *self,
                                        const char *name,
                                        const tn__jinja_arguments *arguments);
/* Calls a method of a string on any value, which is converted to a string
 * first, as by the filters of the same names. The first NULL ends the
 * arguments. */
const tn__jinja_value *tn__jinja_text_method(tn__jinja *j, const char *name,
                                             const tn__jinja_value *v,
                                             const tn__jinja_value *const *a,
                                             size_t count);
/* The operator % and the method format of a string: template_format.c. */
const tn__jinja_value *tn__jinja_percent(tn__jinja *j,
                                         const tn__jinja_value *format,
                                         const tn__jinja_value *values);
const tn__jinja_value *tn__jinja_braces(tn__jinja *j,
                                        const tn__jinja_value *format,
                                        const tn__jinja_arguments *given);
bool tn__jinja_has_function(const char *name);
const tn__jinja_value *tn__jinja_function(tn__jinja *j, const char *name,
                                          const tn__jinja_arguments *arguments);

#endif
