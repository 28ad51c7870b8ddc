/* layer.c: makes and runs the layers that are rows of layers.def.
 *
 * Strings of a row are offsets into tn__nn_texts, which generate.awk writes.
 * A setting is an argument or an option of a layer with its value. */
#include <nn/init.h>
#include <nn/layer.h>

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

static tn_tensor *forward(tn_module *self, tn_tensor *input);
/* Makes a layer of a row from its options (a struct of the row's type, or NULL)
 * and its arguments: int64_t, int, double or const tn_dims_list * each. Returns
 * NULL with an error that names layer, argument, value and the allowed
 * values. */
static tn_module *make(const tn__nn_row *row, const void *options, ...);

#include <nn/layers.inc>

static void set_whole(tn__nn_setting *s, int64_t i)
{
    s->value.kind = i == TN_NONE_INT ? TN_VALUE_NONE : TN_VALUE_INT;
    s->value.of.i = i;
}

static void set_number(tn__nn_setting *s, double f)
{
    s->value.kind = tn_is_none_float(f) ? TN_VALUE_NONE : TN_VALUE_FLOAT;
    s->value.of.f = f;
}

/* ---- reading the call --------------------------------------------------- */

TN__NN_SMALL static void read_arguments(tn__nn_layer *layer,
                                        const tn__nn_row *row,
                                        va_list arguments)
{
    const char *name = tn__nn_texts + row->arguments;
    for (const char *kind = tn__nn_texts + row->kinds; *kind; kind++) {
        size_t length = strcspn(name, ",");
        tn__nn_setting *s = tn__nn_setting_add(layer, name, length);
        name += length + (name[length] ? 2 : 0);
        if (*kind == 'f')
            set_number(s, va_arg(arguments, double));
        else if (*kind == 'l' || *kind == 'p')
            tn__nn_setting_set_list(s, va_arg(arguments, const tn_dims_list *));
        else if (*kind == 'd')
            set_whole(s, va_arg(arguments, int));
        else
            set_whole(s, va_arg(arguments, int64_t));
    }
}

/* Reads a list option such as "strides" into the setting of the same name
 * without the final s, "stride". */
TN__NN_SMALL static void read_list(tn__nn_layer *layer, const char *name,
                                   const tn_dims_list *list)
{
    tn__nn_setting *s = tn__nn_setting_find(layer, name, strlen(name) - 1);
    if (s && list->count >= 0)
        tn__nn_setting_set_list(s, list);
}

/* Reads a list option of floating-point numbers, "output_ratios", into the
 * setting of the same name without the final s. */
TN__NN_SMALL static bool read_numbers(const tn__nn_layer *layer,
                                      tn__nn_setting *s, const double *numbers)
{
    const int axes = layer->row->axes;
    if (!numbers)
        return true;
    if (s->value.kind != TN_VALUE_NONE) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT,
                                 tn__nn_texts + layer->row->name,
                                 tn__nn_setting_name(s),
                                 "give %s or %ss, not both", s->name, s->name);
        return false;
    }
    memcpy(s->numbers, numbers, (size_t)axes * sizeof *numbers);
    s->value = (tn_value){TN_VALUE_FLOATS, axes, {.floats = NULL}};
    return true;
}

TN__NN_SMALL static bool read_option(tn__nn_layer *layer,
                                     const tn_option *option, const char *own)
{
    const void *at = own + option->offset;
    tn_tensor *tensor = NULL;
    if (option->kind == TN_OPTION_LIST) {
        read_list(layer, option->name, at);
        return true;
    }
    tn__nn_setting *s =
        tn__nn_setting_find(layer, option->name, strlen(option->name) - 1);
    if (s)
        return read_numbers(layer, s, *(const double *const *)at);
    s = tn__nn_setting_add(layer, option->name, strlen(option->name));
    if (option->kind == TN_OPTION_WHOLE) {
        set_whole(s, *(const int64_t *)at);
    } else if (option->kind == TN_OPTION_NUMBER) {
        set_number(s, *(const double *)at);
    } else if (option->kind == TN_OPTION_STRING) {
        snprintf(s->word, sizeof s->word, "%s", *(const char *const *)at);
        s->value.kind = TN_VALUE_STRING;
    } else if (option->bytes == sizeof(bool)) {
        s->value.kind = TN_VALUE_BOOL;
        s->value.of.i = *(const bool *)at;
    } else if ((tensor = *(tn_tensor *const *)at) != NULL) {
        s->value.kind = TN_VALUE_TENSOR;
        return tn_module_add_buffer(&layer->base, option->name, tensor);
    } else {
        return !tn_error(); /* a tensor that is NULL due to an error is not an
                               omitted one */
    }
    return true;
}

/* Checks that exactly one of kernel_size and kernel_sizes is given, if the row
 * has them. */
TN__NN_SMALL static bool check_kernel(const tn__nn_row *row,
                                      const tn__nn_layer *layer,
                                      const char *own)
{
    const char *place = strchr(tn__nn_texts + row->kinds, 's');
    if (!place)
        return true;
    const tn_options_type *type = row->options;
    const tn_option *lists = &type->option[type->option_count - 1];
    const tn__nn_setting *s =
        &layer->setting[place - (tn__nn_texts + row->kinds)];
    return tn__nn_check_kernel(
        s->value.of.i,
        (const tn_dims_list *)(const void *)(own + lists->offset),
        tn__nn_texts + row->name);
}

/* ---- making ------------------------------------------------------------- */

/* Returns the setting for the operator's argument with this name, or NULL. */
TN__NN_SMALL static tn__nn_setting *for_argument(tn__nn_layer *layer,
                                                 const char *name)
{
    tn__nn_setting *s = tn__nn_setting_find(layer, name, strlen(name));
    if (!s && strcmp(name, "size") == 0)
        s = tn__nn_setting_find(layer, "output_size", strlen("output_size"));
    if (!s && strcmp(name, "sizes") == 0)
        s = tn__nn_setting_find(layer, "unflattened_size",
                                strlen("unflattened_size"));
    return s;
}

/* Returns whether the operator's argument is an input of the layer: a required,
 * positional tensor. */
static bool is_input(const tn_op_arg *argument)
{
    return argument->kinds & 1u << TN_VALUE_TENSOR && !argument->optional &&
           !argument->keyword;
}

/* Fills layer->from: the source of each argument of the operator. */
TN__NN_SMALL static void map_arguments(tn__nn_layer *layer)
{
    int count = layer->op ? tn_op_arg_count(layer->op) : 0;
    for (int i = 0; i < count && i < TN__NN_OP_ARGUMENTS; i++) {
        const tn_op_arg *argument = tn_op_arg_at(layer->op, i);
        tn__nn_setting *s = for_argument(layer, argument->name);
        layer->from[i] = s                    ? (int8_t)(s - layer->setting)
                         : is_input(argument) ? TN__NN_FROM_INPUT
                         : strcmp(argument->name, "return_indices") == 0
                             ? TN__NN_FROM_INDICES
                             : TN__NN_FROM_DEFAULT;
    }
}

TN__NN_SMALL static bool fill(tn__nn_layer *layer, const tn__nn_row *row,
                              const char *own, va_list arguments)
{
    layer->row = row;
    layer->op =
        tn__nn_texts[row->op] ? tn_op_find(tn__nn_texts + row->op) : NULL;
    read_arguments(layer, row, arguments);
    if (!tn__nn_check_given(row, layer) || !check_kernel(row, layer, own) ||
        !tn__nn_join_axes(layer, row))
        return false;
    for (int i = 0; row->options && i < row->options->option_count; i++)
        if (!read_option(layer, &row->options->option[i], own))
            return false;
    if (!tn__nn_check_lists(layer, row))
        return false;
    for (const char *rule = tn__nn_texts + row->check; *rule;) {
        if (!tn__nn_check_rule(layer, row, rule))
            return false;
        rule += strcspn(rule, " ");
        rule += *rule == ' ';
    }
    map_arguments(layer);
    return true;
}

static const tn_module_class *class_of(const tn__nn_row *row);

TN__NN_SMALL static tn_module *make(const tn__nn_row *row, const void *options,
                                    ...)
{
    _Alignas(max_align_t) char own[TN__NN_OPTION_BYTES];
    va_list arguments;
    if (row->options && tn_options_take(row->options, own, options) < 0)
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn__nn_layer *layer = tn_module_new(class_of(row));
    va_start(arguments, options);
    bool made = layer && fill(layer, row, own, arguments);
    va_end(arguments);
    return tn_scope_result(scope, made ? &layer->base : NULL);
}

/* ---- running ------------------------------------------------------------ */

/* Storage for the lists and numbers to which the values of one call point. */
typedef struct lent {
    tn_dims_list list[TN__NN_PARAMETERS];
    double factor[3];
} lent;

/* Converts the value of a setting to the type of the operator's argument. */
static tn_value as_argument(const tn__nn_layer *layer, tn__nn_setting *s,
                            const tn_op_arg *argument, lent *l)
{
    tn_value v = s->value;
    tn_dims_list *list = &l->list[s - layer->setting];
    if (v.kind == TN_VALUE_TENSOR) {
        v.of.tensor = tn_module_buffer(&layer->base, s->name);
    } else if (v.kind == TN_VALUE_STRING) {
        v.of.string = s->word;
    } else if (v.kind == TN_VALUE_DIMS) {
        v.of.dims = &s->list;
    } else if (v.kind == TN_VALUE_FLOATS) {
        v.of.floats = s->numbers;
    } else if (v.kind == TN_VALUE_INT &&
               !(argument->kinds & 1u << TN_VALUE_INT)) {
        *list = tn_dims(v.of.i);
        v = (tn_value){TN_VALUE_DIMS, 0, {.dims = list}};
    } else if (v.kind == TN_VALUE_FLOAT &&
               argument->kinds & 1u << TN_VALUE_NUMBER) {
        v.kind = TN_VALUE_NUMBER;
        v.count = TN_SCALAR_FLOAT;
    } else if (v.kind == TN_VALUE_FLOAT &&
               argument->kinds & 1u << TN_VALUE_FLOATS) {
        int axes = layer->row->axes;
        for (int i = 0; i < axes; i++)
            l->factor[i] = v.of.f;
        v = (tn_value){TN_VALUE_FLOATS, axes, {.floats = l->factor}};
    }
    return v;
}

/* Runs the layer on its inputs. If out_indices is not NULL, stores the indices
 * of the maxima (of max pooling) in *out_indices. */
static tn_tensor *run(tn__nn_layer *layer, tn_tensor *const *input,
                      tn_tensor **out_indices)
{
    tn_value value[TN__NN_OP_ARGUMENTS] = {{0}};
    tn_tensor *out[2] = {NULL};
    lent l;
    if (!layer->op)
        return layer->row->run(layer, input[0]);
    int used = 0, arguments = tn_op_arg_count(layer->op);
    for (int i = 0; i < arguments; i++) {
        int from = layer->from[i];
        if (from >= 0)
            value[i] = as_argument(layer, &layer->setting[from],
                                   tn_op_arg_at(layer->op, i), &l);
        else if (from == TN__NN_FROM_INPUT)
            value[i] =
                (tn_value){TN_VALUE_TENSOR, 0, {.tensor = input[used++]}};
        else if (from == TN__NN_FROM_INDICES && out_indices)
            value[i] = (tn_value){TN_VALUE_BOOL, 0, {.i = 1}};
    }
    if (tn_op_call(layer->op, value, arguments, out, 2) < 0)
        return NULL;
    if (out_indices)
        *out_indices = out[1];
    return out[0];
}

static tn_tensor *forward(tn_module *self, tn_tensor *input)
{
    return run((tn__nn_layer *)self, &input, NULL);
}

static void forward_list(tn_module *self, tn_tensor *const *in, int in_count,
                         tn_tensor **out, int out_count)
{
    (void)in_count;
    out[0] = run((tn__nn_layer *)self, in, out_count > 1 ? &out[1] : NULL);
}

tn_tensor *tn_nn_pool_forward(tn_module *any, tn_tensor *input,
                              tn_tensor **out_indices)
{
    const char *what = "nn_pool_forward";
    tn_tensor *out[2];
    tn_module *pool = tn__nn_module(any, what);
    if (!pool || !tn__nn_tensor(input, what, "input") ||
        !tn__nn_not_null(out_indices, what, "out_indices"))
        return NULL;
    if (pool->type->forward_list != forward_list ||
        !strstr(tn_module_signature(pool), "indices")) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, what, "module",
                                 "the module is a %s; expected a max-pooling "
                                 "layer, such as nn_max_pool2d",
                                 pool->type->name);
        return NULL;
    }
    if (tn_forward_list(pool, &input, 1, out, 2) < 0)
        return NULL;
    *out_indices = out[1];
    return out[0];
}

/* ---- classes ------------------------------------------------------------ */

enum { ROWS = sizeof rows / sizeof *rows };

/* Writes the signature of a row ("input, target -> output") to text and returns
 * it. Returns NULL if the row's layer has one input and one output. */
TN__NN_SMALL static const char *signature_of(const tn__nn_row *row, char *text,
                                             size_t room)
{
    const tn_op *op =
        tn__nn_texts[row->op] ? tn_op_find(tn__nn_texts + row->op) : NULL;
    int count = op ? tn_op_arg_count(op) : 0, inputs = 0;
    bool indices = false;
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        const tn_op_arg *argument = tn_op_arg_at(op, i);
        if (is_input(argument) && at < room)
            at += (size_t)snprintf(text + at, room - at, "%s%s",
                                   inputs++ ? ", " : "", argument->name);
        indices = indices || strcmp(argument->name, "return_indices") == 0;
    }
    if (inputs < 2 && !indices)
        return NULL;
    if (at < room)
        snprintf(text + at, room - at, " -> output%s",
                 indices ? ", indices" : "");
    return text;
}

/* Returns the module class of a row. The first call makes the classes of all
 * rows; other threads wait for it. */
TN__NN_SMALL static const tn_module_class *class_of(const tn__nn_row *row)
{
    enum { NONE, BEGUN, MADE };
    static _Atomic int state;
    static tn_module_class class[ROWS];
    static char signature[ROWS][64];
    int none = NONE;
    if (atomic_load(&state) == MADE)
        return &class[row - rows];
    if (atomic_compare_exchange_strong(&state, &none, BEGUN)) {
        for (int i = 0; i < ROWS; i++) {
            const char *several =
                signature_of(&rows[i], signature[i], sizeof signature[i]);
            class[i] = (tn_module_class){
                .size = sizeof(tn_module_class),
                .name = tn__nn_texts + rows[i].class_name,
                .bytes = sizeof(tn__nn_layer),
                .forward = several ? NULL : forward,
                .forward_list = several ? forward_list : NULL,
                .signature = several,
                .describe = tn__nn_layer_describe};
        }
        atomic_store(&state, MADE);
    }
    while (atomic_load(&state) != MADE)
        ;
    return &class[row - rows];
}
