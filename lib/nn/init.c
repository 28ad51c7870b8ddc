/* init.c: checks of the sizes and options of layers. */
#include <nn/init.h>

#include <inttypes.h>
#include <stdio.h>
#include <tenon/autocast.h>

bool tn__nn_check_probability(double value, const char *layer,
                              const char *option)
{
    if (value >= 0 && value <= 1)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, layer, option,
                             "%s is %g; expected a probability in [0, 1]",
                             option, value);
    return false;
}

bool tn__nn_check_eps(double value, const char *layer, const char *option)
{
    if (value >= 0)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, layer, option,
                             "%s is %g; expected at least 0", option, value);
    return false;
}

bool tn__nn_check_channels(const char *layer, int64_t in_channels,
                           int64_t out_channels, int64_t groups)
{
    bool positive = in_channels >= 1 && out_channels >= 1 && groups >= 1;
    if (positive && in_channels % groups == 0 && out_channels % groups == 0)
        return true;
    if (!positive)
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, layer,
            in_channels < 1    ? "in_channels"
            : out_channels < 1 ? "out_channels"
                               : "groups",
            "in_channels %" PRId64 ", out_channels %" PRId64 ", groups %" PRId64
            ": expected positive numbers",
            in_channels, out_channels, groups);
    else
        tn_error_refuse_argument(TN_ERR_ARGUMENT, layer, "groups",
                                 "%" PRId64 " in_channels and %" PRId64
                                 " out_channels do not divide into %" PRId64
                                 " groups",
                                 in_channels, out_channels, groups);
    return false;
}

bool tn__nn_check_kernel(int64_t kernel_size, const tn_dims_list *kernel_sizes,
                         const char *layer)
{
    bool one = kernel_size != TN_NONE_INT, all = kernel_sizes->count >= 0;
    if (one && all)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, layer, "kernel_sizes",
                                 "give kernel_size or .kernel_sizes, not both: "
                                 "pass TN_NONE_INT for no kernel_size");
    if (!one && !all)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, layer, "kernel_size",
                                 "expected kernel_size or .kernel_sizes");
    return one != all;
}

bool tn__nn_take_axes(tn_dims_list *to, int axes,
                      const tn__nn_axes_option *option, const char *layer)
{
    const tn_dims_list *list = option->list;
    const bool listed = list->count >= 0;
    const char *name = listed ? option->list_name : option->name;
    if (listed && list->count != axes) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, layer, name,
            "%s has %d number%s; expected one for each of %d dimensions", name,
            (int)list->count, list->count == 1 ? "" : "s", axes);
        return false;
    }
    to->count = axes;
    to->dim[TN_MAX_NDIM] = TN_DIMS_MARK;
    for (int i = 0; i < axes; i++) {
        to->dim[i] = listed ? list->dim[i] : option->single;
        if (to->dim[i] < option->least) {
            char place[16] = "";
            if (listed)
                snprintf(place, sizeof place, "[%d]", i);
            tn_error_refuse_argument(TN_ERR_ARGUMENT, layer, name,
                                     "%s%s is %" PRId64
                                     "; expected at least %" PRId64,
                                     name, place, to->dim[i], option->least);
            return false;
        }
    }
    return true;
}

bool tn__nn_check_layers(const char *layer, int64_t count)
{
    if (count <= TN__NN_MAX_LAYERS)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, layer, "num_layers",
                             "num_layers is %" PRId64 "; at most %d are "
                             "allowed",
                             count, TN__NN_MAX_LAYERS);
    return false;
}

bool tn__nn_check_dtype(const tn_tensor *x, const char *name,
                        const tn_tensor *weight, const char *op)
{
    tn_dtype of_x = tn_tensor_dtype(x), of_weight = tn_tensor_dtype(weight);
    bool floating = tn_dtype_is_floating(of_x);
    if (!x || of_x == of_weight || (floating && tn_autocast_dtype()))
        return true;
    const tn_given given[] = {{name, x}, {"weight", weight}};
    tn_error_refuse(TN_ERR_DTYPE, op, given, 2,
                    "%s is %s, but the layer's weight is %s: convert %s with "
                    "tn_to_dtype%s",
                    name, tn_dtype_name(of_x), tn_dtype_name(of_weight), name,
                    floating ? ", or the layer with tn_module_to" : "");
    return false;
}
