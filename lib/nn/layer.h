/* layer.h: layers that are a row of layers.def.
 *
 * A layer holds the values of its arguments. Its forward passes them to the
 * operator's arguments of the same names, and the inputs to the operator's
 * other tensors. */
#ifndef TN_LIB_NN_LAYER_H
#define TN_LIB_NN_LAYER_H

#include <nn/tree.h>
#include <tenon/op.h>

struct tn__nn_layer;

/* Of functions whose own time does not matter: compiled for size. */
#define TN__NN_SMALL __attribute__((cold))

/* A row as C; generate.awk writes it. To keep the library small its texts are
 * offsets into one text, and its module class is made at the first use. */
typedef struct tn__nn_row {
    const tn_options_type *options; /* NULL: no options */
    tn_tensor *(*run)(struct tn__nn_layer *layer, tn_tensor *input);
    uint16_t name; /* of the constructor, without tn_ */
    uint16_t class_name;
    uint16_t arguments; /* "kernel_size", as in a tn_options_type */
    uint16_t kinds; /* of the arguments, a letter each: i int, d dim, s size,
                       a axis, f float, l dims, p pad */
    uint16_t check; /* the lines of layers.def, and stride@kernel_size: the
                       default of stride is kernel_size */
    uint16_t print;
    uint16_t op;   /* "": run computes */
    uint16_t axes; /* the number of dimensions to which lists apply; 0: any */
} tn__nn_row;

enum {
    TN__NN_OP_ARGUMENTS = 12,   /* most arguments of an operator */
    TN__NN_PARAMETERS = 8,      /* most arguments and options of a layer */
    TN__NN_OPTION_BYTES = 1024, /* largest struct of options */
    TN__NN_NAME = 20            /* longest name of an argument, and word */
};

enum {
    TN__NN_FROM_INPUT = -1,   /* the next input */
    TN__NN_FROM_DEFAULT = -2, /* left out */
    TN__NN_FROM_INDICES = -3  /* return_indices */
};

/* An argument or an option of a layer, with its value. */
typedef struct tn__nn_setting {
    char name[TN__NN_NAME];
    tn_value value;         /* TN_VALUE_NONE: left out */
    tn_dims_list list;      /* what value of TN_VALUE_DIMS refers to */
    bool is_list;           /* given as a list: printed as one */
    char word[TN__NN_NAME]; /* what value of TN_VALUE_STRING refers to */
} tn__nn_setting;

typedef struct tn__nn_layer {
    tn_module base;
    const tn__nn_row *row;
    const tn_op *op; /* or NULL */
    /* For each argument of op: the number of its setting, or a TN__NN_FROM_. */
    int8_t from[TN__NN_OP_ARGUMENTS];
    int count;
    tn__nn_setting setting[TN__NN_PARAMETERS];
} tn__nn_layer;

/* The functions that rows name by `run` (layer_run.c). */
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
