/* Calls every exported function that has numbers, sizes or options with extreme
 * ones: constructors of tensors, layers, optimizers, schedules, data sets and
 * loaders, files and others. Each result is used once: a layer runs, an
 * optimizer steps, a loader returns a batch.
 *
 * calls.awk generates the calls from the public headers, so a new function is
 * included automatically. For a type without a value here, the compiler reports
 * the missing macro. Lengths of arrays are small, because the library cannot
 * detect a wrong one. */
#include <tenon/gguf.h>

#include "overflow.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <tap.h>

enum { USUAL = 10 };

/* ---- values ------------------------------------------------------------- */

static tn_tensor *x, *list[4];
static tn_module *linear, *modules[4];
static tn_optim *optim;
static tn_schedule *schedule, *schedules[4];
static tn_distribution *distribution;
static tn_grad_scaler *scaler;
static tn_average *average;
static tn_dataset *set, *sets[4];
static tn_metric *metric;
static tn_packed *packed;
static tn_loader *loader;
static tn_text *text;
static tn_safetensors *file;
static tn_gguf *gguf;
static tn_categories *categories;
static tn_module_call begun;
static tn_value values[4];
static const char *texts[4] = {"a", "b", "c", "d"};
static double reals[64];
static int64_t wholes[4] = {0, 1, 0, 1};

static const tn_object_class object_class = {sizeof object_class, "thing",
                                             sizeof(tn_object), NULL};

static tn_tensor *module_forward(tn_module *self, tn_tensor *input)
{
    (void)self;
    return input;
}
static const tn_module_class module_class = {.size = sizeof module_class,
                                             .name = "Thing",
                                             .bytes = sizeof(tn_module),
                                             .forward = module_forward};

static tn_tensor *check(tn_tensor *const *inputs, int count, void *context)
{
    (void)context;
    return count > 0 ? tn_sum(inputs[0]) : NULL;
}

static tn_tensor *keep_grad(tn_tensor *grad, void *context)
{
    (void)context;
    return grad;
}

static tn_status recomputed(tn_tensor *const *inputs, int count,
                            tn_tensor **out, int out_count, void *context)
{
    (void)context;
    for (int i = 0; i < out_count && count > 0; i++)
        out[i] = inputs[0];
    return TN_OK;
}

static tn_tensor *parametrized(tn_tensor *value, void *parameter)
{
    (void)parameter;
    return value;
}

static double schedule_function(int64_t step, int group, void *context)
{
    (void)group, (void)context;
    return 1 / (1 + (double)step);
}

static tn_tensor *results[64];

static tn_status read_nothing(void *context, int64_t offset, void *out,
                              size_t bytes)
{
    (void)context, (void)offset;
    memset(out, 0, bytes);
    return TN_OK;
}
static const tn_safetensors_class safetensors_class = {
    sizeof safetensors_class, read_nothing, NULL};
static tn_status write_nothing(void *context, const char *const *names,
                               tn_tensor *const *tensors, int count,
                               const char *const (*metadata)[2],
                               int metadata_count)
{
    (void)context, (void)names, (void)tensors, (void)count, (void)metadata;
    return metadata_count ? TN_OK : TN_ERR_ARGUMENT;
}

#define PLAUSIBLE_FILE_p stdout
#define PLAUSIBLE_char_p "overflow-nowhere.tmp"
#define PLAUSIBLE_char_p_p texts
#define PLAUSIBLE_int64_t_p wholes
#define PLAUSIBLE_double_p reals
#define PLAUSIBLE_nn_weight_norm_with_name "weight"
#define PLAUSIBLE_nn_spectral_norm_with_name "weight"
#define PLAUSIBLE_nn_orthogonal_with_name "weight"
#define PLAUSIBLE_prune_with_name "weight"
#define PLAUSIBLE_module_register_parametrization_with_name "weight"
#define PLAUSIBLE_prune_with_method "l1_unstructured"
#define PLAUSIBLE_prune_global_unstructured_with_method "l1_unstructured"
#define PLAUSIBLE_tn_file_p NULL /* exists only within a producer */
#define PLAUSIBLE_void_p linear
#define PLAUSIBLE_tn_module_p linear
#define PLAUSIBLE_tensor_from_array_data NULL
#define PLAUSIBLE_tensor_wrap_data NULL
#define PLAUSIBLE_tensor_to_array_out values
#define PLAUSIBLE_tensor_set_array_data values
#define PLAUSIBLE_op_call_out results
#define PLAUSIBLE_op_call_into_out list
#define PLAUSIBLE_dataset_batch_fields results
#define PLAUSIBLE_recompute_with_out results
#define PLAUSIBLE_grad_with_out results
#define PLAUSIBLE_tn_tensor_p x
#define PLAUSIBLE_tn_tensor_p_p list
#define PLAUSIBLE_tn_device_p tn_device_current()
#define PLAUSIBLE_tn_op_p tn_op_find("relu")
#define PLAUSIBLE_tn_op_p_p (&(const tn_op *){NULL})
#define PLAUSIBLE_tn_value_p values
/* A context exists only within an operator's function. */
#define PLAUSIBLE_tn_op_context_p NULL
#define PLAUSIBLE_tn_object_class_p &object_class
#define PLAUSIBLE_tn_module_class_p &module_class
#define PLAUSIBLE_tn_module_p_p modules
#define PLAUSIBLE_tn_module_call_p &begun
#define PLAUSIBLE_tn_parameter_list_p tn_parameters(linear)
#define PLAUSIBLE_tn_optim_p optim
#define PLAUSIBLE_tn_optim_range_p ((tn_optim_range[8]){{0, 1}})
#define PLAUSIBLE_tn_schedule_p schedule
#define PLAUSIBLE_tn_schedule_p_p schedules
#define PLAUSIBLE_tn_distribution_p distribution
#define PLAUSIBLE_tn_grad_scaler_p scaler
#define PLAUSIBLE_tn_average_p average
#define PLAUSIBLE_tn_metric_p metric
#define PLAUSIBLE_tn_tensor_p_p_p ((tn_tensor **const[]){&x})
#define PLAUSIBLE_tn_packed_p packed
#define PLAUSIBLE_tn_dataset_p set
#define PLAUSIBLE_tn_dataset_p_p sets
#define PLAUSIBLE_collate_pad_context NULL
/* count samples of field_count tensors, each at most 3 (value_int) */
#define PLAUSIBLE_collate_pad_samples                                         \
    ((tn_tensor *[]){x, x, x, x, x, x, x, x, x})
#define PLAUSIBLE_tn_loader_p loader
#define PLAUSIBLE_tn_text_p text
#define PLAUSIBLE_tn_progress_p NULL
#define PLAUSIBLE_tn_safetensors_p file
#define PLAUSIBLE_tn_safetensors_class_p &safetensors_class
#define PLAUSIBLE_safetensors_new_header "{}"
#define PLAUSIBLE_tn_checkpoint_p (&(tn_checkpoint){.size = sizeof(tn_checkpoint)})
#define PLAUSIBLE_tn_gguf_p gguf
#define PLAUSIBLE_tn_module_report_p NULL
#define PLAUSIBLE_tn_categories_p categories
#define PLAUSIBLE_tn_gradcheck_fn check
#define PLAUSIBLE_tn_grad_hook keep_grad
#define PLAUSIBLE_tn_recompute_fn recomputed
#define PLAUSIBLE_tn_compile_fn recomputed
#define PLAUSIBLE_tn_compiled_p tn_compile(recomputed, NULL)
#define PLAUSIBLE_function_release NULL
#define PLAUSIBLE_function_after NULL
#define PLAUSIBLE_function_metadata NULL

/* ---- drawing arguments --------------------------------------------------- */

static char drawn[1500]; /* the drawn arguments as text */

static void __attribute__((format(printf, 2, 3)))
told(const char *name, const char *format, ...)
{
    size_t at = strlen(drawn);
    va_list args;
    va_start(args, format);
    at += (size_t)snprintf(drawn + at, sizeof drawn - at, "%s%s ",
                           at ? ", " : "", name);
    if (at < sizeof drawn)
        vsnprintf(drawn + at, sizeof drawn - at, format, args);
    va_end(args);
}

static int64_t value_int(draws *d, const char *name, bool is_length)
{
    int64_t value = is_length    ? (int64_t)draw(d, 6) - 2
                    : draw(d, 2) ? draw_int(d)
                                 : (int64_t)draw(d, 5);
    if (is_length && value == -2)
        value = INT64_MIN;
    told(name, "%lld", (long long)value);
    return value;
}

static double value_float(draws *d, const char *name)
{
    double value = draw(d, 2) ? draw_float(d) : 0.25 * draw(d, 5);
    told(name, "%g", value);
    return value;
}

static tn_dims_list value_dims(draws *d, const char *name)
{
    tn_dims_list value = draw_dims(d);
    if (draw(d, 3) == 0)
        value.count = (int)draw(d, TN_MAX_NDIM + 1);
    for (int i = 0; i < value.count; i++)
        told(i ? "" : name, "%lld", (long long)value.dim[i]);
    return value;
}

static const char *value_text(draws *d, const char *name)
{
    static const char *const some[] = {
        "mean", "zeros", "reflect", "tanh",     "circular", "sum",
        "max",  "gelu",  "nearest", "bilinear", "",         "no such"};
    const char *value = some[draw(d, sizeof some / sizeof *some)];
    told(name, "\"%s\"", value);
    return value;
}

static uint64_t bits(draws *d)
{
    return (uint64_t)draw_int(d);
}

#define VALUE_tn_error_handler(d, name, n) ((void)(d), (tn_error_handler)NULL)
#define VALUE_tn_nn_distance(d, name, n) ((void)(d), (tn_nn_distance)NULL)
#define VALUE_tn_train_forward(d, name, n) ((void)(d), (tn_train_forward)NULL)
#define VALUE_tn_train_loss(d, name, n) ((void)(d), (tn_train_loss)NULL)
#define VALUE_tn_train_callback(d, name, n) ((void)(d), (tn_train_callback)NULL)
#define VALUE_int(d, name, n) ((int)value_int(d, name, n))
#define VALUE_int64_t(d, name, n) value_int(d, name, n)
#define VALUE_uint64_t(d, name, n) ((uint64_t)value_int(d, name, n))
#define VALUE_size_t(d, name, n) ((size_t)value_int(d, name, n))
#define VALUE_bool(d, name, n) (value_int(d, name, n) & 1)
#define VALUE_char(d, name, n) ((char)value_int(d, name, n))
#define VALUE_double(d, name, n) value_float(d, name)
#define VALUE_char_p(d, name, n) value_text(d, name)
#define VALUE_tn_dims_list(d, name, n) value_dims(d, name)
#define VALUE_tn_dtype(d, name, n) ((tn_dtype)(value_int(d, name, n) & 0xff))
#define VALUE_tn_status(d, name, n) ((tn_status)value_int(d, name, n))
#define VALUE_tn_on_error(d, name, n) ((tn_on_error)value_int(d, name, n))
#define VALUE_tn_cycle_mode(d, name, n) ((tn_cycle_mode)value_int(d, name, n))
#define VALUE_tn_rng_state(d, name, n) ((tn_rng_state){bits(d), bits(d)})
#define VALUE_tn_loader_state(d, name, n)                                      \
    ((tn_loader_state){bits(d), bits(d), draw_int(d), draw_int(d), draw_int(d)})
#define VALUE_tn_loader_position(d, name, n)                                   \
    ((tn_loader_position){bits(d), bits(d), draw_int(d), draw_int(d),          \
                          draw_int(d)})
#define VALUE_tn_checkpoint_writer(d, name, n) ((void)(d), write_nothing)
#define VALUE_tn_collate(d, name, n) ((void)(d), (tn_collate)NULL)
#define VALUE_tn_file_producer(d, name, n) ((void)(d), (tn_file_producer)NULL)
#define VALUE_tn_schedule_function(d, name, n) ((void)(d), schedule_function)
#define VALUE_tn_parametrize_function(d, name, n) ((void)(d), parametrized)
#define VALUE_tn_schedule_state(d, name, n)                                    \
    ((tn_schedule_state){draw_int(d), draw_int(d), draw_int(d), draw_float(d)})
#define VALUE_tn_grad_scaler_state(d, name, n)                                 \
    ((tn_grad_scaler_state){draw_float(d), draw_float(d), draw_float(d),       \
                            draw_int(d), draw_int(d)})

/* ---- a call -------------------------------------------------------------- */

/* Getters that return NULL without an error for an index that does not
 * exist. */
static const char meant[] =
    " average_at average_name op_at op_arg_at parameters_at parameters_name "
    "module_report_at module_child_at module_child_name module_parameter_at "
    "safetensors_name safetensors_metadata_key safetensors_shape gguf_key gguf_name "
    "categories_name op_context_tensor op_context_saved status_name "
    "dtype_name optim_state ";

static bool is_meant(const char *name)
{
    char word[80];
    snprintf(word, sizeof word, " %s ", name + 3);
    return strstr(meant, word) != NULL;
}

static void end(bool refused, const char *what)
{
    overflow_after(refused && tn_error(), what);
}

#define BEGIN(name)                                                            \
    overflow_tell("%s(%s)", #name, drawn);                                     \
    if (strncmp(drawn, "extra ", 6) == 0)                                      \
        overflow_asks();                                                       \
    overflow_before()
#define END_VOID() end(tn_error(), NULL)
#define END_NUMBER(result) ((void)(result), end(tn_error(), NULL))
#define END_STATUS(result)                                                     \
    end((result) < 0,                                                          \
        (result) < 0 && !tn_error()   ? "refused without a message"            \
        : (result) >= 0 && tn_error() ? "done, but an error is pending"        \
                                      : NULL)
#define END_POINTER(name, result)                                              \
    end(!(result), !(result) && !tn_error() && !is_meant(#name)                \
                       ? "gave nothing, without a message"                     \
                   : (result) && tn_error() ? "gave something and an error"    \
                                            : NULL)

static void watch(const char *what)
{
    overflow_tell("%s of what %s gave", what, drawn);
    overflow_before();
}

static void use_module(tn_module *module)
{
    static const int64_t sizes[] = {3, 1, 4, 4, 4, 4};
    if (!module)
        return;
    for (int ndim = 1; ndim <= 5; ndim++) {
        tn_dims_list size = {ndim, {0}};
        memcpy(size.dim, sizes, (size_t)ndim * sizeof *sizes);
        watch("forward");
        tn_tensor *y = tn_forward(module, tn_ones(size));
        end(!y, NULL);
    }
}

static void use_optim(tn_optim *made)
{
    if (!made)
        return;
    tn_tensor_set_grad(tn_module_parameter(linear, "weight"),
                       tn_ones(tn_dims(2, 3)));
    tn_error_clear();
    watch("step");
    tn_status status = tn_optim_step(made);
    END_STATUS(status);
}

static void use_schedule(tn_schedule *made)
{
    for (int i = 0; made && i < 3; i++) {
        watch("step");
        tn_status status = tn_schedule_step(made);
        END_STATUS(status);
    }
}

static void use_loader(tn_loader *made)
{
    if (!made)
        return;
    watch("batches");
    int batches = 0;
    TN_EACH_BATCH (batch, made) {
        if (++batches == 3)
            break;
    }
    end(tn_error(), NULL);
}

static void use_set(tn_dataset *made)
{
    if (made && tn_dataset_count(made) > 0)
        use_loader(tn_loader_new(made));
    tn_error_clear();
}

#define USE_char_p(result) (void)(result)
#define USE_void_p(result) (void)(result)
#define USE_int64_t_p(result) (void)(result)
#define USE_tn_average_p(result) (void)(result)
#define USE_tn_metric_p(result) (void)(result)
#define USE_tn_packed_p(result) (void)(result)
#define USE_tn_compiled_p(result) (void)(result)
#define USE_tn_grad_scaler_p(result) (void)(result)
#define USE_tn_hook_p(result) tn_hook_remove(result)
#define USE_tn_op_arg_p(result) (void)(result)
#define USE_tn_op_p(result) (void)(result)
#define USE_tn_load_difference_p(result) (void)(result)
#define USE_tn_parameter_list_p(result) (void)(result)
#define USE_tn_tensor_p(result) (void)(result)
#define USE_tn_text_p(result) (void)(result)
#define USE_tn_safetensors_p(result) (void)(result)
#define USE_tn_dataset_p(result) use_set(result)
#define USE_tn_loader_p(result) use_loader(result)
#define USE_tn_module_p(result) use_module(result)
#define USE_tn_optim_p(result) use_optim(result)
#define USE_tn_schedule_p(result) use_schedule(result)

typedef struct call {
    const char *name;
    void (*run)(draws *d);
} call;

/* Functions that are not called:
 * SKIPPED(tn_memory_set_limit), because this test uses the limit;
 * SKIPPED(tn_module_begin), which a call of tn_module_end must follow;
 * SKIPPED(tn_progress_begin), which prints;
 * SKIPPED(tn_host_ops_allow), which affects later calls;
 * SKIPPED(tn_options_check_needs) and
 * SKIPPED(tn_scope_carry_tensors), whose one number is the length of a list. */
#include "tests/overflow/calls.inc" /* generated by calls.awk */

/* ---- all calls ----------------------------------------------------------- */

static bool start(void)
{
    return tn_device_current() != NULL;
}

/* Creates new objects for each function, since some functions change their
 * arguments. */
static void make_values(void)
{
    x = tn_requires_grad(tn_ones(tn_dims(3)));
    for (int i = 0; i < 4; i++) {
        list[i] = tn_ones(tn_dims(3));
        modules[i] = tn_nn_relu();
        values[i] = (tn_value){.kind = TN_VALUE_TENSOR, .of.tensor = list[i]};
    }
    linear = tn_nn_linear(3, 2);
    optim = tn_optim_sgd(tn_parameters(linear));
    schedule = tn_schedule_exponential_lr(optim, 0.5);
    for (int i = 0; i < 4; i++)
        schedules[i] = tn_schedule_step_lr(optim, i + 1);
    distribution = tn_distribution_normal(x, x);
    scaler = tn_grad_scaler_new();
    average = tn_average_new(linear);
    metric = tn_metric_mean();
    packed = tn_pack_sequence(&x, 1);
    set = tn_dataset_from_tensors(tn_ones(tn_dims(4, 3)), NULL);
    for (int i = 0; i < 4; i++)
        sets[i] = set;
    loader = tn_loader_new(set, .batch_size = 2);
    text = tn_text_from_string("abcabc");
}

static void one_call(int i)
{
    draws d = {overflow_seed() * 7919u + (uint64_t)i};
    for (int round = 0, rounds = overflow_rounds(USUAL); round < rounds;
         round++) {
        tn_scope *scope = tn_scope_open();
        make_values();
        tn_error_clear();
        drawn[0] = '\0';
        calls[i].run(&d);
        tn_error_clear();
        tn_grad_mode_set(true);
        tn_autocast_set(TN_DTYPE_NONE);
        tn_anomaly_mode_set(false);
        tn_scope_close(scope);
    }
}

static const char *name_of(int i)
{
    return calls[i].name;
}

/* With a function's name as argument, only that function is called. */
int main(int argc, char **argv)
{
    enum { COUNT = sizeof calls / sizeof *calls };
    plan_later();
    note("seed %llu, %d rounds a function", (unsigned long long)overflow_seed(),
         overflow_rounds(USUAL));
    long wrong = overflow_run(COUNT, start, one_call, name_of,
                              argc > 1 ? argv[1] : NULL);
    if (wrong < 0)
        bail_out("no process, or no device");
    ok(wrong == 0,
       "%d functions with extreme numbers: %ld calls, %ld refused, "
       "%ld wrong",
       COUNT, overflow_counts->calls, overflow_counts->refused, wrong);
    return done_testing();
}
