/* upsample.c: upsampling by a factor or to a size. */
#include <nn/init.h>
#include <nn/tree.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

typedef struct upsample {
    tn_module base;
    double factor;     /* scale factor, or TN_NONE_FLOAT if size is used */
    tn_dims_list size; /* output size, or empty if factor is used */
    bool align_corners;
    const char *mode;
} upsample;

static tn_tensor *upsample_forward(tn_module *self, tn_tensor *input)
{
    upsample *u = (upsample *)self;
    return tn_interpolate(input, u->size, .scale_factor = u->factor,
                          .mode = u->mode, .align_corners = u->align_corners);
}

static void upsample_describe(const tn_module *self, char *text, size_t room)
{
    const upsample *u = (const upsample *)self;
    size_t at = 0;
    if (u->size.count == 0)
        at = (size_t)tn_format(text, room, "scale_factor=%g", u->factor);
    for (int i = 0; i < u->size.count && at < room; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%" PRId64,
                               i ? ", " : "size=(", u->size.dim[i]);
    if (at < room)
        snprintf(text + at, room - at, "%s, mode='%s'",
                 u->size.count == 0   ? ""
                 : u->size.count == 1 ? ",)"
                                      : ")",
                 u->mode);
}

/* Returns the string constant that equals name, because the caller's string may
 * be freed. Sets *has_corners to whether the mode has the option align_corners.
 * Returns NULL with an error for an unknown name. */
static const char *find_mode(const char *name, bool *has_corners)
{
    static const char *const modes[] = {"linear", "bilinear", "trilinear",
                                        "bicubic", "nearest", "nearest-exact",
                                        "area"};
    enum { ALIGNED = 4, MODES = sizeof modes / sizeof *modes };
    int i = 0;
    while (i < MODES && strcmp(modes[i], name) != 0)
        i++;
    if (i == MODES)
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "nn_upsample", "mode",
            "mode \"%s\" is none of nearest, nearest-exact, linear, bilinear, "
            "trilinear, bicubic, area",
            name);
    *has_corners = i < ALIGNED;
    return i < MODES ? modes[i] : NULL;
}

/* Returns the output sizes: one for all dimensions, or one for each;
 * TN_NONE_DIMS if none is given. */
static tn_dims_list sizes_of(const tn_nn_upsample_options *o)
{
    return o->output_size != TN_NONE_INT ? tn_dims(o->output_size)
                                         : o->output_sizes;
}

static bool check_sizes(double scale_factor, const tn_dims_list *size)
{
    bool scaled = !tn_is_none_float(scale_factor);
    if (scaled == (size->count >= 0)) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "nn_upsample",
            scaled ? "output_size" : "scale_factor",
            scaled ? "give scale_factor or output_size, not both: "
                     "pass TN_NONE_FLOAT for no scale_factor"
                   : "expected scale_factor or output_size");
        return false;
    }
    bool fine = scaled ? scale_factor > 0 && scale_factor < INFINITY
                       : size->count > 0;
    for (int i = 0; i < size->count; i++)
        fine = fine && size->dim[i] > 0;
    if (!fine)
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "nn_upsample",
            scaled ? "scale_factor" : "output_size",
            "scale_factor and output_size are positive numbers");
    return fine;
}

TN_OPTIONS_TYPE(tn_nn_upsample, "nn_upsample", "scale_factor",
                TN_NN_UPSAMPLE_OPTIONS_LIST)

tn_module *tn_nn_upsample_with(double scale_factor,
                               const tn_nn_upsample_options *options)
{
    static const tn_module_class type = {.size = sizeof type,
                                         .name = "Upsample",
                                         .bytes = sizeof(upsample),
                                         .forward = upsample_forward,
                                         .describe = upsample_describe};
    tn_nn_upsample_options o;
    if (tn_options_take(tn_nn_upsample_type(), &o, options) < 0)
        return NULL;
    tn_dims_list size = sizes_of(&o);
    bool has_corners;
    const char *mode = find_mode(o.mode, &has_corners);
    if (!mode || !check_sizes(scale_factor, &size))
        return NULL;
    const tn_option_need need = {
        "align_corners", has_corners,
        "unless mode is linear, bilinear, trilinear or bicubic", "change mode"};
    if (tn_options_check_needs(tn_nn_upsample_type(), &o, &need, 1) < 0)
        return NULL;
    upsample *u = tn_module_new(&type);
    if (u) {
        u->factor = scale_factor;
        u->size = size.count < 0 ? TN_SCALAR : size;
        u->align_corners = o.align_corners;
        u->mode = mode;
    }
    return (tn_module *)u;
}
