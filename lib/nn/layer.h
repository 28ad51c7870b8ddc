/* layer.h: layers that are rows of the table layers.def.
 *
 * A layer holds the values of its arguments and options. Its forward calls one
 * operator: it passes these values to the operator's arguments of the same
 * names, and the inputs to the operator's other tensor arguments. */
#ifndef TN_LIB_NN_LAYER_H
#define TN_LIB_NN_LAYER_H

#include <nn/tree.h>
#include <tenon/op.h>

struct tn__nn_layer;

/* Marks functions to be compiled for size, because their time does not
 * matter. */
#define TN__NN_SMALL __attribute__((cold))

/* A row of layers.def as a C struct, written by generate.awk. To keep the
 * library small, strings are offsets into one string, and the module class is
 * made at the first use. */
typedef struct tn__nn_row {
    const tn_options_type *options; /* NULL if the layer has no options */
    /* Computes the output if op is "". */
    tn_tensor *(*run)(struct tn__nn_layer *layer, tn_tensor *input);
    uint16_t name; /* name of the constructor without tn_ */
    uint16_t class_name;
    uint16_t arguments; /* names of arguments: "kernel_size" */
    uint16_t kinds; /* a string with one letter for each argument, its type in
                       layers.def: i int, d dim, s size, a axis, f float, l
                       dims, p pad */
    uint16_t check; /* rules of the check line. stride@kernel_size means: the
                       default of stride is kernel_size */
    uint16_t print; /* names of the settings to print */
    uint16_t op;    /* name of the operator, or "" */
    uint16_t axes;  /* number of dimensions to which lists apply, 0 for any */
} tn__nn_row;

enum {
    TN__NN_OP_ARGUMENTS = 12,   /* maximum number of arguments of an operator */
    TN__NN_PARAMETERS = 8,      /* maximum number of settings of a layer */
    TN__NN_OPTION_BYTES = 1024, /* size of the largest option struct */
    TN__NN_NAME = 20            /* size of the longest name or string value */
};

enum {
    TN__NN_FROM_INPUT = -1,   /* the argument is the layer's next input */
    TN__NN_FROM_DEFAULT = -2, /* the argument is left out */
    TN__NN_FROM_INDICES = -3  /* the argument is return_indices, true if the
                                 caller of the layer wants indices */
};

/* An argument or an option of a layer, with its value. */
typedef struct tn__nn_setting {
    char name[TN__NN_NAME];
    tn_value value;         /* kind TN_VALUE_NONE if it was not given */
    tn_dims_list list;      /* the list, if value is a TN_VALUE_DIMS */
    double numbers[3];      /* the list, if value is a TN_VALUE_FLOATS */
    bool is_list;           /* print as a list, as it was given */
    char word[TN__NN_NAME]; /* the string, if value is a TN_VALUE_STRING */
} tn__nn_setting;

typedef struct tn__nn_layer {
    tn_module base;
    const tn__nn_row *row;
    const tn_op *op; /* NULL if row->run computes the output */
    /* For each argument of op: an index into setting[], or TN__NN_FROM_... */
    int8_t from[TN__NN_OP_ARGUMENTS];
    int count;
    tn__nn_setting setting[TN__NN_PARAMETERS];
} tn__nn_layer;

/* ---- settings: layer_setting.c ------------------------------------------- */

/* The strings of all rows, one after another. */
extern const char *const tn__nn_texts;

/* Returns the layer's setting with this name, or NULL. */
tn__nn_setting *tn__nn_setting_find(tn__nn_layer *layer, const char *name,
                                    size_t length);
tn__nn_setting *tn__nn_setting_add(tn__nn_layer *layer, const char *name,
                                   size_t length);
void tn__nn_setting_set_list(tn__nn_setting *s, const tn_dims_list *list);
/* Returns the name of a setting as a string that is never freed, because an
 * error keeps a pointer to the name of its argument. */
const char *tn__nn_setting_name(const tn__nn_setting *s);

/* ---- checks: layer_check.c ----------------------------------------------- */

/* Checks that the arguments that are plain integers were given. */
bool tn__nn_check_given(const tn__nn_row *row, const tn__nn_layer *layer);
/* Checks the lengths of lists. */
bool tn__nn_check_lists(tn__nn_layer *layer, const tn__nn_row *row);
/* Checks one rule of the row's check line, such as "stride>=1". */
bool tn__nn_check_rule(tn__nn_layer *layer, const tn__nn_row *row,
                       const char *rule);
/* Joins arguments of kind axis (height, width) into one list, output_size. */
bool tn__nn_join_axes(tn__nn_layer *layer, const tn__nn_row *row);

/* ---- printing: layer_print.c --------------------------------------------- */

/* tn_module_class.describe of the rows' layers. */
void tn__nn_layer_describe(const tn_module *self, char *text, size_t room);

/* ---- running: layer_run.c ------------------------------------------------ */

/* Functions that compute the output for rows without an operator
 * (layer_run.c). */
tn_tensor *tn__nn_pad_constant(tn__nn_layer *layer, tn_tensor *input);
tn_tensor *tn__nn_pad_reflect(tn__nn_layer *layer, tn_tensor *input);
tn_tensor *tn__nn_pad_replicate(tn__nn_layer *layer, tn_tensor *input);
tn_tensor *tn__nn_pad_circular(tn__nn_layer *layer, tn_tensor *input);
tn_tensor *tn__nn_cross_map(tn__nn_layer *layer, tn_tensor *input);
tn_tensor *tn__nn_softmax2d(tn__nn_layer *layer, tn_tensor *input);
tn_tensor *tn__nn_rrelu(tn__nn_layer *layer, tn_tensor *input);
tn_tensor *tn__nn_dropout_channels(tn__nn_layer *layer, tn_tensor *input);
tn_tensor *tn__nn_alpha_dropout(tn__nn_layer *layer, tn_tensor *input);

#endif
