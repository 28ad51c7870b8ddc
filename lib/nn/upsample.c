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
    double factor;     /* scale factor; TN_NONE_FLOAT if another is used */
    double factors[3]; /* one for each axis; factor is set if they are equal */
    int factor_count;
    tn_dims_list size; /* output size, or empty if factor is used */
    bool align_corners;
    const char *mode;
} upsample;

/* Sets *size to the sizes of the output, if there are different factors. */
static bool find_size(const upsample *u, tn_tensor *input, tn_dims_list *size)
{
    char text[TN__NN_SHAPE_TEXT];
    const char *wrong = NULL;
    *size = u->size;
    if (u->factor_count && tn_tensor_ndim(input) != u->factor_count + 2)
        wrong = "expected (N, C) and a dimension for each of its scale_factors";
    for (int i = 0; i < u->factor_count && tn_is_none_float(u->factor); i++) {
        double wide = u->factors[i] * (double)tn_tensor_size(input, i + 2);
        if (wide != floor(wide) && !wrong)
            wrong = "its sizes times different scale_factors are not whole "
                    "numbers: give output_sizes";
        size->dim[size->count++] = (int64_t)wide;
    }
    if (wrong)
        tn_error_refuse(TN_ERR_SHAPE, "nn_upsample",
                        &(tn_given){"input", input}, 1, "input %s: %s",
                        tn__nn_shape_text(text, input), wrong);
    return !wrong;
}

static tn_tensor *upsample_forward(tn_module *self, tn_tensor *input)
{
    upsample *u = (upsample *)self;
    tn_dims_list size;
    if (!find_size(u, input, &size))
        return NULL;
    return tn_interpolate(input, size, .scale_factor = u->factor,
                          .mode = u->mode, .align_corners = u->align_corners);
}

static void upsample_describe(const tn_module *self, char *text, size_t room)
{
    const upsample *u = (const upsample *)self;
    size_t at = 0;
    if (u->size.count == 0 && !u->factor_count)
        at = (size_t)tn_format(text, room, "scale_factor=%g", u->factor);
    for (int i = 0; i < u->factor_count && at < room; i++)
        at += (size_t)tn_format(text + at, room - at, "%s%g%s",
                                i ? ", " : "scale_factor=(", u->factors[i],
                                i + 1 < u->factor_count ? ""
                                : i                     ? ")"
                                                        : ",)");
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
    if (!fine && scaled)
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "nn_upsample", "scale_factor",
            "scale_factor is %g; expected a finite number above 0",
            scale_factor);
    else if (!fine)
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "nn_upsample", "output_size",
            "output_size is empty or has a size below 1");
    return fine;
}

static bool check_factors(const tn_nn_upsample_options *o, double scale_factor,
                          const tn_dims_list *size)
{
    const char *wrong = NULL;
    if (!o->scale_factors && !o->scale_factor_count)
        return true;
    if (!tn_is_none_float(scale_factor) || size->count >= 0)
        wrong = "give scale_factors, scale_factor or output_size: pass "
                "TN_NONE_FLOAT for no scale_factor";
    else if (!o->scale_factors || o->scale_factor_count < 1 ||
             o->scale_factor_count > 3)
        wrong = "expected scale_factors and a scale_factor_count of 1 to 3";
    for (int i = 0; i < o->scale_factor_count && !wrong; i++)
        if (!(o->scale_factors[i] > 0 && o->scale_factors[i] < INFINITY))
            wrong = "scale_factors are positive numbers";
    if (wrong)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "nn_upsample",
                                 "scale_factors", "%s", wrong);
    return !wrong;
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
    if (!mode || !check_factors(&o, scale_factor, &size) ||
        (!o.scale_factors && !check_sizes(scale_factor, &size)))
        return NULL;
    bool equal = o.scale_factors;
    for (int i = 1; i < o.scale_factor_count; i++)
        equal = equal && o.scale_factors[i] == o.scale_factors[0];
    const tn_option_need need = {
        "align_corners", has_corners,
        "unless mode is linear, bilinear, trilinear or bicubic", "change mode"};
    if (tn_options_check_needs(tn_nn_upsample_type(), &o, &need, 1) < 0)
        return NULL;
    upsample *u = tn_module_new(&type);
    if (u) {
        u->factor = equal ? o.scale_factors[0] : scale_factor;
        u->factor_count = o.scale_factor_count;
        for (int i = 0; i < u->factor_count; i++)
            u->factors[i] = o.scale_factors[i];
        u->size = size.count < 0 ? TN_SCALAR : size;
        u->align_corners = o.align_corners;
        u->mode = mode;
    }
    return (tn_module *)u;
}
