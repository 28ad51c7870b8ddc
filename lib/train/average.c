/* average.c: averages the weights of a module over training steps, as
 * torch.optim.swa_utils.AveragedModel does. There is one averaged tensor for
 * each parameter and buffer of the module. */
#include <fenv.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/average.h>
#include <tenon/ops.h>

struct tn_average {
    tn_object object;
    tn_parameter_list *model; /* the module's parameters and buffers; owned */
    double decay;
    int64_t updates;
    bool swapped;
    struct entry {
        tn_tensor *tensor; /* the average; owned */
        bool averaged;     /* false if the latest value is copied instead */
    } entry[];
};

static void average_release(void *object)
{
    tn_average *average = object;
    for (int i = 0; i < tn_parameters_count(average->model); i++)
        tn_drop(average->entry[i].tensor);
    tn_drop(average->model);
}

static const tn_object_class average_class = {
    sizeof average_class, "average", sizeof(tn_average), average_release};

static bool is_listed(const tn_parameter_list *list, const tn_tensor *x)
{
    for (int i = 0; i < tn_parameters_count(list); i++)
        if (tn_parameters_at(list, i) == x)
            return true;
    return false;
}

static tn_average *make(tn_module *module, const tn_average_new_options *o)
{
    tn_parameter_list *state = tn_module_state(module);
    tn_parameter_list *parameters = tn_parameters(module);
    int count = tn_parameters_count(state);
    tn_average *average =
        state && parameters
            ? tn_object_new(&average_class,
                            (size_t)count * sizeof average->entry[0])
            : NULL;
    if (!average)
        return NULL;
    average->model = tn_keep(state);
    average->decay = tn_is_none_float(o->decay) ? -1 : o->decay;
    for (int i = 0; i < count; i++) {
        tn_tensor *x = tn_parameters_at(state, i);
        average->entry[i].tensor = tn_keep(tn_clone(x));
        if (!average->entry[i].tensor)
            return NULL;
        average->entry[i].averaged =
            tn_dtype_is_floating(tn_tensor_dtype(x)) &&
            (o->use_buffers || is_listed(parameters, x));
    }
    return average;
}

TN_OPTIONS_TYPE(tn_average_new, "average_new", "module",
                TN_AVERAGE_NEW_OPTIONS_LIST)

tn_average *tn_average_new_with(tn_module *module,
                                const tn_average_new_options *options)
{
    if (!tn_object_check_kind(module, "module", "average_new", "module"))
        return NULL;
    tn_average_new_options o;
    if (tn_options_take(tn_average_new_type(), &o, options) < 0)
        return NULL;
    if (!tn_is_none_float(o.decay) && !(o.decay >= 0 && o.decay < 1)) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "average_new", "decay",
            "decay is %g; expected at least 0 and below 1", o.decay);
        return NULL;
    }
    tn_average *average = NULL;
    tn_scope *scope = tn_scope_open();
    TN_NO_GRAD {
        average = make(module, &o);
    }
    return tn_scope_result(scope, average);
}

static tn_status check_call(const char *call, const tn_average *average)
{
    if (tn_error())
        return TN_ERR_STATE;
    return tn_object_check(average, &average_class, call, "average")
               ? TN_OK
               : tn_error_code();
}

/* ---- updating ----------------------------------------------------------- */

static tn_status check_devices(const tn_average *average)
{
    for (int i = 0; i < tn_parameters_count(average->model); i++) {
        tn_device *there =
            tn_tensor_device(tn_parameters_at(average->model, i));
        tn_device *here = tn_tensor_device(average->entry[i].tensor);
        if (here != there)
            return tn_error_refuse_argument(
                TN_ERR_DEVICE, "average_update", "module",
                "\"%s\" is on %s, its average on %s: make a new average after "
                "moving the model",
                tn_parameters_name(average->model, i), tn_device_name(there),
                tn_device_name(here));
    }
    return TN_OK;
}

tn_status tn_average_update(tn_average *average)
{
    tn_status status = check_call("average_update", average);
    if (status < 0)
        return status;
    if (average->swapped)
        return tn_error_refuse_argument(
            TN_ERR_STATE, "average_update", NULL,
            "the module holds the averages: call tn_average_swap first");
    status = check_devices(average);
    const int rounding = fegetround(); /* the program may have set another mode
                                          than rounding to nearest */
    fesetround(FE_TONEAREST);
    const volatile double share = average->decay >= 0
                       ? 1 - average->decay
                       : 1 / ((double)average->updates + 1);
    fesetround(rounding);
    tn_scope *scope = tn_scope_open();
    TN_NO_GRAD {
        for (int i = 0;
             i < tn_parameters_count(average->model) && status == TN_OK; i++) {
            tn_tensor *x = tn_parameters_at(average->model, i);
            tn_tensor *mean = average->entry[i].tensor;
            bool mix = average->entry[i].averaged && average->updates > 0;
            if (!(mix ? tn_lerp_scalar_(mean, x, share) : tn_copy_(mean, x)))
                status = tn_error_code();
        }
    }
    tn_scope_close(scope);
    if (status == TN_OK)
        average->updates++;
    return status;
}

tn_status tn_average_swap(tn_average *average)
{
    tn_status status = check_call("average_swap", average);
    if (status < 0)
        return status;
    tn_scope *scope = tn_scope_open();
    for (int i = 0; i < tn_parameters_count(average->model) && status == TN_OK;
         i++) {
        tn_tensor *x = tn_parameters_at(average->model, i);
        tn_tensor *mean = average->entry[i].tensor, *was = tn_detach(x);
        status = was ? tn_tensor_set_data(x, mean) : tn_error_code();
        if (status == TN_OK)
            status = tn_tensor_set_data(mean, was);
    }
    tn_scope_close(scope);
    if (status == TN_OK)
        average->swapped = !average->swapped;
    return status;
}

/* Checks the argument of a function that reads an attribute. For NULL it
 * returns false without recording an error. */
static bool is_average(const tn_average *average, const char *call)
{
    return average && tn_object_check(average, &average_class, call, "average");
}

bool tn_average_is_swapped(const tn_average *average)
{
    return is_average(average, "average_is_swapped") && average->swapped;
}

/* ---- attributes --------------------------------------------------------- */

int64_t tn_average_updates(const tn_average *average)
{
    return is_average(average, "average_updates") ? average->updates : 0;
}

tn_status tn_average_set_updates(tn_average *average, int64_t count)
{
    tn_status status = check_call("average_set_updates", average);
    if (status < 0)
        return status;
    if (count < 0)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, "average_set_updates",
                                        "count",
                                        "count is %lld; expected at least 0",
                                        (long long)count);
    average->updates = count;
    return TN_OK;
}

int tn_average_count(const tn_average *average)
{
    return is_average(average, "average_count")
               ? tn_parameters_count(average->model)
               : 0;
}

tn_tensor *tn_average_at(const tn_average *average, int i)
{
    return is_average(average, "average_at") && i >= 0 &&
                   i < tn_parameters_count(average->model)
               ? average->entry[i].tensor
               : NULL;
}

const char *tn_average_name(const tn_average *average, int i)
{
    return is_average(average, "average_name")
               ? tn_parameters_name(average->model, i)
               : NULL;
}
