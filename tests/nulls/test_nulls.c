/* Calls every exported function that has a pointer parameter with NULL for each
 * of them in turn, and with only NULL and zeros. Nothing may crash. If NULL is
 * not allowed, the call must fail, and the error must begin with the function's
 * name and name the argument. meant[] lists where NULL is allowed, with
 * reasons.
 *
 * It also calls them with a freed object, an object of another kind, and a
 * scope for each object parameter (bad.h), with and without TENON_DEBUG=scopes.
 * Those calls must always fail, even functions that only return an attribute.
 *
 * nulls.awk generates the calls from the public headers, so a new function is
 * included automatically. For a type without a value here, the compiler reports
 * the missing macro. Options may be NULL everywhere and are NULL here.
 *
 * Each function runs in a process of its own, because it may change state that
 * others need. */
#include <ctype.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <math.h>

#include "../tap.h"
#include <tenon/gguf.h>
#include <tenon/tenon.h>

/* ---- plausible values --------------------------------------------------- */

static tn_tensor *x, *list[2];
static tn_module *linear, *decoder, *transformer, *adaptive, *modules[2];
static tn_optim *optim;
static tn_schedule *schedule, *schedules[2];
static tn_grad_scaler *scaler;
static tn_average *average;
static tn_dataset *set, *sets[4];
static tn_metric *metric;
static tn_packed *packed;
static tn_loader *loader;
static tn_text *text;
static tn_hook *hook;
static FILE *nowhere;
static tn_safetensors *file;
static tn_gguf *gguf;

/* Opens the GGUF file of tests/lm. */
static tn_gguf *open_gguf(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/lm/data/tiny-llama-f32.gguf",
             getenv("top_srcdir") ? getenv("top_srcdir") : ".");
    return tn_gguf_open(path);
}

static tn_module_report *report;
static tn_categories *categories;
static char room[256];
static const char *texts[2] = {"a", "b"};
static int64_t wholes[4] = {0, 1, 0, 1};
static double reals[4] = {0.5, 1, 0.5, 1};
static tn_batch batch = {.size = sizeof batch};
static tn_progress progress;
static tn_memory_stats stats = {.size = sizeof stats};
static tn_value values[2];
static tn_module_call begun;
static tn_nn_attention_masks masks = TN_NN_ATTENTION_MASKS;
static tn_checkpoint checkpoint = {.size = sizeof checkpoint};

static const tn_object_class object_class = {sizeof object_class, "thing",
                                             sizeof(tn_object), NULL};

static int get_nothing(void *context, int64_t i, tn_tensor **fields)
{
    (void)context, (void)i;
    fields[0] = x;
    return 1;
}
static tn_status read_nothing(void *context, int64_t offset, void *out,
                              size_t bytes)
{
    (void)context, (void)offset;
    memset(out, 0, bytes);
    return TN_OK;
}
static const tn_safetensors_class safetensors_class = {
    sizeof safetensors_class, read_nothing, NULL};
static tn_status checkpoint_writer(void *context, const char *const *names,
                                   tn_tensor *const *tensors, int count,
                                   const char *const (*metadata)[2],
                                   int metadata_count)
{
    (void)context, (void)names, (void)tensors, (void)count, (void)metadata;
    return metadata_count ? TN_OK : TN_ERR_ARGUMENT;
}
static const tn_dataset_class set_class = {sizeof set_class, 1, get_nothing,
                                           NULL};

static tn_status begin_stream(void *context, uint64_t epoch)
{
    (void)context, (void)epoch;
    return TN_OK;
}

static int end_stream(void *context, tn_tensor **fields)
{
    (void)context, (void)fields;
    return 0;
}
static const tn_stream_class stream_class = {sizeof stream_class, begin_stream,
                                             end_stream, NULL};

static tn_tensor *module_forward(tn_module *self, tn_tensor *input)
{
    (void)self;
    return input;
}
static const tn_module_class module_class = {.size = sizeof module_class,
                                             .name = "Thing",
                                             .bytes = sizeof(tn_module),
                                             .forward = module_forward};

static tn_status rule_forward(tn_op_context *call, tn_tensor **out)
{
    out[0] = tn_op_context_tensor(call, 0);
    return TN_OK;
}
static const tn_op_rule rule = {.size = sizeof rule,
                                .signature = "thing_of_nulls(x)",
                                .forward = rule_forward};

#define THING_OPTIONS_LIST(X) X(double, number, 1)
TN_OPTIONS_STRUCT(thing, THING_OPTIONS_LIST);
TN_OPTIONS_TYPE(thing, "thing", "x", THING_OPTIONS_LIST)

static tn_tensor *check(tn_tensor *const *inputs, int count, void *context)
{
    (void)count, (void)context;
    return tn_sum(inputs[0]);
}

static tn_tensor *keep_grad(tn_tensor *grad, void *context)
{
    (void)context;
    return grad;
}

static tn_status accumulated(tn_tensor *leaf, void *context)
{
    (void)leaf, (void)context;
    return TN_OK;
}

static tn_tensor *module_hook(tn_module *module, tn_tensor *input,
                              tn_tensor *output, void *context)
{
    (void)module, (void)input, (void)context;
    return output;
}

static double schedule_function(int64_t step, int group, void *context)
{
    (void)step, (void)group, (void)context;
    return 1;
}

static tn_status list_hook(tn_module *module, tn_tensor **inputs,
                           int input_count, tn_tensor **outputs,
                           int output_count, void *context)
{
    (void)module, (void)inputs, (void)input_count, (void)context;
    (void)outputs, (void)output_count;
    return TN_OK;
}

static double closure(void *context)
{
    (void)context;
    return 1;
}

static void state_visit(const char *name, tn_tensor *value, void *context)
{
    (void)name, (void)value, (void)context;
}

static tn_status piece_visit(const tn_optim_piece *piece, void *context)
{
    (void)piece, (void)context;
    return TN_OK;
}

static tn_status after_step(void *context)
{
    (void)context;
    return TN_OK;
}

static tn_status recomputed(tn_tensor *const *inputs, int count,
                            tn_tensor **out, int out_count, void *context)
{
    (void)count, (void)out_count, (void)context;
    out[0] = inputs[0];
    return TN_OK;
}

static tn_status compiled_step(tn_tensor *const *in, int in_count,
                               tn_tensor **out, int out_count, void *context)
{
    (void)context;
    for (int o = 0; o < out_count; o++)
        out[o] = in_count ? tn_abs(in[0]) : tn_zeros(tn_dims(2));
    return TN_OK;
}

static tn_status advance(void *object)
{
    (void)object;
    return TN_OK;
}

static tn_status graph_step(void *context)
{
    (void)context;
    return TN_OK;
}

static tn_tensor *parametrized(tn_tensor *value, void *context)
{
    (void)context;
    return value;
}

static void visit(tn_module *module, const char *path, void *context)
{
    (void)module, (void)path, (void)context;
}

static void log_line(int level, const char *line, void *context)
{
    (void)level, (void)line, (void)context;
}

static tn_status produce(void *context, tn_file *contents)
{
    return context ? TN_OK : tn_file_write(contents, "x", 1);
}
static void release(void *context)
{
    (void)context;
}

#include "bad.h"

/* Values for arguments for which the value of their type is not suitable, by
 * function and argument. */
#define PLAUSIBLE_grad_with_root tn_sum(x)
#define PLAUSIBLE_call_name "relu"
#define PLAUSIBLE_nn_multihead_attention_forward_with_attention                \
    tn_nn_multihead_attention(4, 2)
#define PLAUSIBLE_nn_transformer_encoder_forward_with_encoder                 \
    tn_nn_transformer_encoder(4, 2, 1)
/* Created once, because the library recognises freed objects only until their
 * memory is reused. */
#define PLAUSIBLE_nn_transformer_decoder_forward_with_decoder decoder
#define PLAUSIBLE_nn_transformer_forward_with_transformer transformer
#define PLAUSIBLE_nn_adaptive_log_softmax_forward_module adaptive
#define PLAUSIBLE_nn_embedding_bag_forward_embedding_bag                      \
    tn_nn_embedding_bag(4, 3)
#define PLAUSIBLE_nn_bilinear_forward_bilinear tn_nn_bilinear(3, 3, 2, true)
#define PLAUSIBLE_nn_rnn_forward_rnn tn_nn_rnn(3, 4)
#define PLAUSIBLE_nn_lstm_forward_lstm tn_nn_lstm(3, 4)
#define PLAUSIBLE_nn_rnn_forward_packed_rnn tn_nn_rnn(3, 4)
#define PLAUSIBLE_nn_lstm_forward_packed_lstm tn_nn_lstm(3, 4)
#define PLAUSIBLE_nn_rnn_cell_forward_cell tn_nn_rnn_cell(3, 4)
#define PLAUSIBLE_nn_lstm_cell_forward_cell tn_nn_lstm_cell(3, 4)
#define PLAUSIBLE_module_add_child modules[0]
#define PLAUSIBLE_tensor_to_array_bytes 24
#define PLAUSIBLE_tensor_set_array_bytes 24
#define PLAUSIBLE_device_mask_names "all"
#define PLAUSIBLE_options_init_name "sum"
#define PLAUSIBLE_options_init_options room
#define PLAUSIBLE_options_init_bytes 24
#define PLAUSIBLE_tn_options_type_p thing_type()
#define PLAUSIBLE_tn_options_list_p NULL
#define PLAUSIBLE_options_take_own room
#define PLAUSIBLE_options_take_options NULL
#define PLAUSIBLE_tn_option_need_p &(tn_option_need){"number", true, "", ""}
#define PLAUSIBLE_tn_dtype TN_F32
#define PLAUSIBLE_bool true
#define PLAUSIBLE_int 1
#define PLAUSIBLE_int64_t 1
#define PLAUSIBLE_uint64_t 1
#define PLAUSIBLE_size_t sizeof room
#define PLAUSIBLE_double 0.5
#define PLAUSIBLE_tn_status TN_ERR_ARGUMENT
#define PLAUSIBLE_tn_scalar tn_scalar_float(0.5)
#define PLAUSIBLE_tn_dims_list tn_dims(3)
#define PLAUSIBLE_tn_rng_state tn_rng_snapshot()
#define PLAUSIBLE_tn_loader_state tn_loader_snapshot(loader)
#define PLAUSIBLE_tn_loader_position tn_loader_tell(loader)
#define PLAUSIBLE_tn_grad_scaler_state tn_grad_scaler_snapshot(scaler)
#define PLAUSIBLE_char_p room
#define PLAUSIBLE_char_p_p texts
#define PLAUSIBLE_int64_t_p wholes
#define PLAUSIBLE_double_p reals
#define PLAUSIBLE_FILE_p nowhere
#define PLAUSIBLE_nn_weight_norm_with_name "weight"
#define PLAUSIBLE_nn_spectral_norm_with_name "weight"
#define PLAUSIBLE_nn_orthogonal_with_name "weight"
#define PLAUSIBLE_prune_with_name "weight"
#define PLAUSIBLE_module_register_parametrization_with_name "weight"
#define PLAUSIBLE_module_remove_parametrizations_with_name "weight"
#define PLAUSIBLE_module_set_parametrized_name "weight"
#define PLAUSIBLE_prune_remove_name "weight"
#define PLAUSIBLE_prune_with_method "l1_unstructured"
#define PLAUSIBLE_prune_global_unstructured_with_method "l1_unstructured"
#define PLAUSIBLE_tn_parametrize_function parametrized
#define PLAUSIBLE_void_p linear
#define PLAUSIBLE_void_p_p (void *[1]){NULL}
#define PLAUSIBLE_size_t_p (size_t[1]){0}
#define PLAUSIBLE_tn_file_producer produce
#define PLAUSIBLE_tn_file_p NULL /* exists only within a producer */
#define PLAUSIBLE_tn_module_p linear
#define PLAUSIBLE_tn_tensor_p x
#define PLAUSIBLE_tn_given_p &(tn_given){"input", x}
#define PLAUSIBLE_tn_tensor_p_p list
#define PLAUSIBLE_tn_device_p tn_device_current()
#define PLAUSIBLE_tn_scope_p tn_scope_open()
#define PLAUSIBLE_tn_path_p tn_path_join(NULL, "a")
#define PLAUSIBLE_tn_op_p tn_op_find("relu")
#define PLAUSIBLE_tn_op_p_p (&(const tn_op *){NULL})
#define PLAUSIBLE_tn_value_p values
#define PLAUSIBLE_tn_op_rule_p &rule
#define PLAUSIBLE_tn_op_context_p gone_context()
#define PLAUSIBLE_tn_object_class_p &object_class
#define PLAUSIBLE_tn_dataset_class_p &set_class
#define PLAUSIBLE_tn_module_class_p &module_class
#define PLAUSIBLE_tn_module_p_p modules
#define PLAUSIBLE_tn_module_call_p &begun
#define PLAUSIBLE_tn_nn_attention_masks_p &masks
#define PLAUSIBLE_tn_parameter_list_p tn_parameters(linear)
#define PLAUSIBLE_tn_optim_p optim
#define PLAUSIBLE_tn_schedule_p schedule
#define PLAUSIBLE_tn_schedule_p_p schedules
#define PLAUSIBLE_tn_schedule_function schedule_function
#define PLAUSIBLE_tn_schedule_state tn_schedule_snapshot(schedule)
#define PLAUSIBLE_schedule_sequential_lr_count 2
#define PLAUSIBLE_schedule_step_metric_schedule                               \
    tn_schedule_reduce_lr_on_plateau(optim)
#define PLAUSIBLE_tn_distribution_p tn_distribution_normal(x, x)
#define PLAUSIBLE_distribution_bernoulli_logits NULL
#define PLAUSIBLE_distribution_categorical_logits NULL
#define PLAUSIBLE_tn_grad_scaler_p scaler
#define PLAUSIBLE_tn_average_p average
#define PLAUSIBLE_tn_metric_p metric
#define PLAUSIBLE_tn_tensor_p_p_p ((tn_tensor **const[]){&x})
#define PLAUSIBLE_tn_packed_p packed
#define PLAUSIBLE_tn_checkpoint_p &checkpoint
#define PLAUSIBLE_tn_dataset_p set
#define PLAUSIBLE_tn_dataset_p_p sets
#define PLAUSIBLE_tn_stream_class_p &stream_class
#define PLAUSIBLE_dataset_k_fold_with_folds 2
#define PLAUSIBLE_dataset_k_fold_with_set tn_dataset_concat(sets, 2)
#define PLAUSIBLE_tn_loader_p loader
#define PLAUSIBLE_tn_text_p text
#define PLAUSIBLE_tn_batch_p &batch
#define PLAUSIBLE_tn_progress_p &progress
#define PLAUSIBLE_tn_memory_stats_p &stats
#define PLAUSIBLE_tn_hook_p hook
#define PLAUSIBLE_tn_safetensors_p file
#define PLAUSIBLE_tn_safetensors_class_p &safetensors_class
#define PLAUSIBLE_safetensors_new_header "{}"
#define PLAUSIBLE_safetensors_new_data_bytes 0
#define PLAUSIBLE_tn_checkpoint_writer checkpoint_writer
#define PLAUSIBLE_tn_gguf_p gguf
#define PLAUSIBLE_gguf_ints_key "llama.block_count"
#define PLAUSIBLE_gguf_ints_count 1
#define PLAUSIBLE_gguf_reals_key "llama.block_count"
#define PLAUSIBLE_gguf_reals_count 1
#define PLAUSIBLE_tn_module_report_p report
#define PLAUSIBLE_tn_categories_p categories
#define PLAUSIBLE_tn_gradcheck_fn check
#define PLAUSIBLE_tn_grad_hook keep_grad
#define PLAUSIBLE_tn_error_handler NULL
#define PLAUSIBLE_tn_accumulated_hook accumulated
#define PLAUSIBLE_tn_module_hook module_hook
#define PLAUSIBLE_tn_module_list_hook list_hook
#define PLAUSIBLE_forward_inputs_inputs ((tn_tensor *[]){x, TN_INPUTS_END})
#define PLAUSIBLE_tn_optim_closure closure
#define PLAUSIBLE_tn_optim_state_visit state_visit
#define PLAUSIBLE_tn_optim_piece_fn piece_visit
#define PLAUSIBLE_tn_optim_range_p (&(tn_optim_range){0, 1})
#define PLAUSIBLE_function_after after_step
#define PLAUSIBLE_tn_recompute_fn recomputed
#define PLAUSIBLE_tn_graph_fn graph_step
#define PLAUSIBLE_tn_graph_host_p                                              \
    &(tn_graph_host){.size = sizeof(tn_graph_host), .advance = advance}
#define PLAUSIBLE_tn_compile_fn compiled_step
#define PLAUSIBLE_tn_compiled_p tn_compile(compiled_step, NULL)
#define PLAUSIBLE_tn_compiled_counts_p                                         \
    &(tn_compiled_counts){.size = sizeof(tn_compiled_counts)}
#define PLAUSIBLE_tn_mark_p tn_mark_set(NULL)
#define PLAUSIBLE_tn_graph_p tn_graph_record(graph_step, NULL)
#define PLAUSIBLE_function_visit visit
#define PLAUSIBLE_function_log log_line
#define PLAUSIBLE_function_release release
#define PLAUSIBLE_function_metadata NULL

/* ---- calls --------------------------------------------------------------- */

enum { MOST = 12, NAME = 64, MESSAGE = 240 };

typedef struct call {
    const char *name;
    bool (*run)(int at); /* calls the function with NULL for pointer `at` (-1:
                          * for all); returns whether the function returned
                          * anything */
    int pointers;
    const char *argument[MOST];
    unsigned objects; /* bit i: pointer i is an object or leads to objects */
} call;

#define NULL_AT(i) (at == (i) || at < 0)
#define CALL(name, gave)                                                      \
    static bool call_##name(int at)                                           \
    {                                                                         \
        return gave;                                                          \
    }
static bool is_number(double v)
{
    return v != 0 && !isnan(v);
}
#define CALL_POINTER(name, ...) CALL(name, name(__VA_ARGS__) != NULL)
#define CALL_NUMBER(name, ...) CALL(name, is_number(name(__VA_ARGS__)))
#define CALL_WHOLE(name, ...) CALL(name, name(__VA_ARGS__) > 0)
#define CALL_STATUS(name, ...) CALL(name, name(__VA_ARGS__) >= 0)
#define CALL_VOID(name, ...) CALL(name, (name(__VA_ARGS__), false))
#define CALL_STRUCT(name, ...) CALL(name, (name(__VA_ARGS__), false))

#include "tests/nulls/calls.inc" /* generated by nulls.awk */

/* ---- arguments that may be NULL ------------------------------------------ */

/* Each entry is "function.argument". The entry "*.argument" applies to every
 * function. */
static const struct meant {
    const char *why, *arguments;
} meant[] = {
    {"an attribute of nothing is NULL, 0 or false",
     "tensor_requires_grad.x tensor_is_leaf.x tensor_grad.x "
     "tensor_retains_grad.x tensor_ndim.x tensor_shape.x tensor_strides.x "
     "tensor_size.x tensor_numel.x tensor_dtype.x tensor_device.x "
     "tensor_is_contiguous.x tensor_is_alias.a tensor_is_alias.b "
     "average_is_swapped.average average_updates.average "
     "average_count.average average_at.average average_name.average "
     "metric_name.metric packed_data.packed packed_count.packed "
     "packed_times.packed packed_lengths.packed packed_batch_sizes.packed "
     "packed_sorted_indices.packed "
     "object_is.object object_is.type dtype_from_name.name "
     "dataset_count.set text_count.text text_vocabulary.text "
     "graph_count.graph graph_calls.graph "
     "loader_count.loader loader_skipped.loader loader_snapshot.loader "
     "loader_tell.loader safetensors_metadata_key.file "
     "device_count.plugin "
     "device_name.device device_description.device "
     "device_is_bit_exact.device path_outer.path path_text.path "
     "grad_scaler_factor.scaler grad_scaler_snapshot.scaler "
     "module_compiled.module module_child_count.module module_child_at.module "
     "module_child_name.module module_parameter_at.module "
     "module_report_count.report module_report_at.report "
     "module_report_text.report safetensors_path.file safetensors_count.file safetensors_name.file "
     "safetensors_descriptor.file "
     "safetensors_has.file safetensors_has.name safetensors_metadata.file "
     "gguf_path.file gguf_count.file gguf_name.file gguf_key_count.file "
     "gguf_key.file gguf_kind_of.file gguf_kind_of.key "
     "gguf_item_kind.file gguf_item_kind.key gguf_length.file "
     "gguf_length.key gguf_has.file gguf_has.name gguf_type.file "
     "gguf_type.name gguf_dtype.file gguf_dtype.name gguf_ndim.file "
     "gguf_ndim.name gguf_shape.file gguf_shape.name gguf_data.file "
     "gguf_data.name gguf_data_bytes.file gguf_data_bytes.name "
     "safetensors_metadata.key safetensors_dtype.file "
     "safetensors_dtype.name safetensors_ndim.file safetensors_ndim.name "
     "safetensors_shape.file safetensors_shape.name "
     "categories_count.categories categories_name.categories op_find.name op_name.op op_doc.op "
     "op_signature.op op_kernel.op op_arg_count.op op_arg_at.op "
     "op_is_differentiable.op op_next.op op_next.name optim_lr.optim "
     "optim_group_count.optim parameters_count.list parameters_at.list "
     "parameters_name.list schedule_steps.schedule "
     "schedule_snapshot.schedule schedule_metric_mode.schedule "
     "module_is_parametrized.module module_is_parametrized.name "
     "prune_is_pruned.module error_prefix.format "
     "device_is_available.specification"},
    {"an attribute of nothing, as all calls are outside of their operator",
     "op_context_tensor.call op_context_value.call op_context_needs_grad.call "
     "op_context_data.call op_context_saved.call op_context_save.x"},
    {"what is closed, given back or removed may be nothing, as with free()",
     "scope_close.scope scope_result.scope scope_result.result keep.object "
     "drop.object scope_adopt.object hook_remove.hook batch_end.batch"},
    {"a mean has no target", "metric_update.target"},
    {"there are no other processes", "optim_restrict.after"},
    {"the current device", "*.device device_set.device"},
    {"what has no bar to draw draws none",
     "progress_begin.progress progress_begin.file progress_begin.label "
     "progress_step.progress progress_step.note progress_end.progress "
     "progress_end.note"},
    {"given on to a function as it is", "*.context"},
    {"nothing is to be called at the end", "*.release"},
    {"forgets what was set",
     "tensor_set_grad.grad log_set.log cache_folder_set.path debug_set.names "
     "path_enter.path"},
    {"the outermost path", "path_join.outer"},
    {"a set without labels", "dataset_from_tensors.y"},
    {"the code's own words", "error_set.format error_refuse.name "
     "error_refuse.given error_refuse.format error_refuse_argument.name "
     "error_refuse_argument.argument error_refuse_argument.format "
     "error_rename.argument "
     "object_check.object "
     "object_check.type object_check.call object_check.argument "
     "object_check_kind.object object_check_kind.kind "
     "object_check_kind.call object_check_kind.argument"},
    {"none is needed",
     "*.masks *.src_masks *.tgt_masks *.memory_masks "
     "distribution_bernoulli.logits "
     "distribution_categorical.logits nn_embedding_bag_forward.offsets "
     "nn_embedding_bag_forward.per_sample_weights nn_rnn_forward.h0 "
     "nn_lstm_forward.h0 nn_lstm_forward.c0 nn_rnn_cell_forward.h "
     "nn_rnn_forward_packed.h0 nn_lstm_forward_packed.h0 "
     "nn_lstm_forward_packed.c0 "
     "nn_lstm_cell_forward.h nn_lstm_cell_forward.c"},
    {"a result that is not wanted",
     "nn_multihead_attention_forward_with.out_weights *.out_hn *.out_cn "
     "*.out_h *.out_c nn_adaptive_log_softmax_forward.out_loss "
     "safetensors_descriptor.out_data"},
    {"the operator that is called has the word",
     "op_call.values op_call.out op_call_into.values op_call_into.out "
     "op_apply.tensors call.first"},
    {"the defaults", "op_apply.numbers options_take.options"},
    {"one of two bounds", "clamp_scalar.min clamp_scalar_first.max"},
    {"adds nothing", "path_join.name device_mask.names tensor_set_maker.name "
     "object_set_maker.name options_add_list.list"},
    {"a range without a name", "trace_push.name"},
};

static bool has_item(const char *items, const char *function,
                     const char *argument)
{
    char item[2 * NAME];
    size_t length = (size_t)snprintf(item, sizeof item, "%s.%s", function,
                                     argument);
    for (const char *at = items; (at = strstr(at, item)); at += length)
        if ((at == items || at[-1] == ' ') &&
            (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

/* The table of operators says which inputs are optional. Results after the
 * first one are optional, too. */
static bool is_optional(const char *function, const char *argument)
{
    char name[NAME];
    snprintf(name, sizeof name, "%s", function + 3);
    const tn_op *op = tn_op_find(name);
    size_t length = strlen(name);
    if (!op && length > 5 && strcmp(name + length - 5, "_with") == 0) {
        name[length - 5] = '\0';
        op = tn_op_find(name);
    }
    if (op && strncmp(argument, "out_", 4) == 0)
        return true;
    for (int i = 0; i < tn_op_arg_count(op); i++)
        if (strcmp(tn_op_arg_at(op, i)->name, argument) == 0)
            return tn_op_arg_at(op, i)->optional;
    return false;
}

static bool is_meant(const char *function, const char *argument)
{
    for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
        if (has_item(meant[i].arguments, function + 3, argument) ||
            has_item(meant[i].arguments, "*", argument))
            return true;
    return is_optional(function, argument);
}

/* ---- outcomes ------------------------------------------------------------ */

typedef enum { UNTRIED, TRYING, REFUSED, SILENT, BOTH, UNNAMED } outcome;
static const char *const words[] = {
    "was not tried", "crashed", "refused", "said nothing",
    "gave something and an error", "was refused without its name"};

/* The outcomes for one function: with each pointer NULL, with all pointers
 * NULL, and with each wrong object. */
static struct {
    outcome outcome[MOST + 1];
    char message[MOST + 1][MESSAGE];
    outcome bad[BADS][MOST]; /* REFUSED: both with and without
                              * TENON_DEBUG=scopes */
    char bad_message[BADS][MOST][MESSAGE];
    bool under_debug; /* the second run, under TENON_DEBUG=scopes */
} *seen; /* shared memory with the process that makes the calls */

/* Returns whether the word before the colon is part of the function's name. For
 * tn_nn_conv2d_with, "Conv2d" and "nn_conv2d" are. */
static bool is_name_at(const char *function, const char *message)
{
    char plain[2 * NAME] = "", word[2 * NAME] = "";
    size_t n = 0, length = strcspn(message, ":");
    for (const char *c = function + 3; *c && n + 1 < sizeof plain; c++)
        if (*c != '_')
            plain[n++] = *c;
    n = 0;
    for (size_t i = 0; i < length && n + 1 < sizeof word; i++)
        if (message[i] != '_')
            word[n++] = (char)tolower((unsigned char)message[i]);
    return message[length] == ':' && n > 0 && strstr(plain, word);
}

/* The message may begin with a module's name: "Linear: module_add: ...". */
static bool is_name(const char *function, const char *message)
{
    const char *second = strstr(message, ": ");
    return is_name_at(function, message) ||
           (second && is_name_at(function, second + 2));
}

static bool has_word(const char *line, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = line; (at = strstr(at, word)); at += length)
        if (!isalnum((unsigned char)at[length]) && at[length] != '_' &&
            (at == line || (!isalnum((unsigned char)at[-1]) && at[-1] != '_')))
            return true;
    return false;
}

static void try_one(const call *c, int at)
{
    int i = at < 0 ? c->pointers : at;
    seen->outcome[i] = TRYING;
    bool gave = c->run(at);
    const char *error = tn_error();
    snprintf(seen->message[i], MESSAGE, "%s", error ? error : "");
    /* For a layer's function, any of the words for its module names the
     * argument. */
    bool named = error && is_name(c->name, error) &&
                 (at < 0 || has_word(error, c->argument[at]) ||
                  has_word(error, "module is NULL"));
    seen->outcome[i] = !error ? SILENT
                       : gave ? BOTH
                       : named ? REFUSED
                               : UNNAMED;
    tn_error_clear();
}

/* Calls the function with a wrong object. The error must begin with the
 * function's name and describe the object. */
static void try_bad(const call *c, int at)
{
    outcome *o = &seen->bad[bad_now][at];
    if (seen->under_debug && *o != REFUSED)
        return;
    *o = TRYING;
    bool gave = c->run(at);
    const char *error = tn_error();
    snprintf(seen->bad_message[bad_now][at], MESSAGE, "%s",
             error ? error : "");
    bool told = error && is_name(c->name, error) &&
                (strstr(error, " was freed") || strstr(error, ", not a") ||
                 strstr(error, "is no") || strstr(error, "this is a scope"));
    /* Under TENON_DEBUG=scopes the message must also say where the object was
     * freed, unless it is a scope itself. */
    if (told && seen->under_debug && strstr(error, " was freed: "))
        told = strstr(error, " freed it ") || strstr(error, "dropped with") ||
               strstr(error, "last object that held it");
    *o = !error ? SILENT : gave ? BOTH : told ? REFUSED : UNNAMED;
    tn_error_clear();
}

static void try_all_bad(const call *c)
{
    for (bad_now = 1; bad_now < BADS; bad_now++)
        for (int at = 0; at < c->pointers; at++)
            if (c->objects >> at & 1)
                try_bad(c, at);
    bad_now = 0;
}

static void try_function(const call *c)
{
    memset(seen, 0, sizeof *seen);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        for (int at = -1; at < c->pointers; at++) {
            if (at < 0 || c->pointers > 1)
                try_one(c, at);
        }
        make_bad();
        try_all_bad(c);
        tn_debug_set("scopes");
        make_bad();
        seen->under_debug = true;
        try_all_bad(c);
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        bail_out("cannot run a process");
    if (c->pointers == 1) { /* NULL for the only pointer is the same call as
                             * NULL for all */
        seen->outcome[0] = seen->outcome[1];
        memcpy(seen->message[0], seen->message[1], MESSAGE);
    }
}

/* Returns the first failure of a function, or NULL. */
static const char *judge(const call *c, int *at)
{
    bool any_meant = false;
    for (*at = 0; *at < c->pointers; ++*at) {
        bool may = is_meant(c->name, c->argument[*at]);
        outcome o = seen->outcome[*at];
        any_meant = any_meant || may;
        if (o == REFUSED || (may && (o == SILENT || o == UNNAMED)))
            continue;
        return words[o];
    }
    outcome all = seen->outcome[c->pointers];
    if (all == REFUSED || all == UNNAMED || (any_meant && all == SILENT))
        return NULL;
    return words[all];
}

/* Returns the first failure of a function with a wrong object, or NULL. */
static const char *judge_bad(const call *c, int *bad, int *at)
{
    for (*bad = 1; *bad < BADS; ++*bad)
        for (*at = 0; *at < c->pointers; ++*at) {
            outcome o = seen->bad[*bad][*at];
            bool may = o != TRYING && has_item(bad_is_meant, c->name + 3,
                                               c->argument[*at]);
            if ((c->objects >> *at & 1) && o != REFUSED && !may)
                return words[o];
        }
    return NULL;
}

static bool make_values(void)
{
    snprintf(room, sizeof room, "a");
    x = tn_requires_grad(tn_ones(tn_dims(2, 3)));
    list[0] = list[1] = x;
    linear = tn_nn_linear(3, 4);
    decoder = tn_nn_transformer_decoder(4, 2, 1);
    transformer = tn_nn_transformer(4, 2, 1, 1);
    adaptive = tn_nn_adaptive_log_softmax_with_loss(4, 5, tn_dims(2));
    modules[0] = modules[1] = tn_nn_relu();
    optim = tn_optim_sgd(tn_parameters(linear), .lr = 0.1);
    schedule = tn_schedule_step_lr(optim, 1);
    schedules[0] = tn_schedule_step_lr(optim, 1);
    schedules[1] = tn_schedule_step_lr(optim, 2);
    scaler = tn_grad_scaler_new();
    average = tn_average_new(linear);
    metric = tn_metric_mean();
    packed = tn_pack_sequence(&x, 1);
    set = tn_dataset_from_tensors(tn_ones(tn_dims(4, 2)), NULL);
    for (int i = 0; i < 4; i++)
        sets[i] = set;
    loader = tn_loader_new(set);
    text = tn_text_from_string("abcabc");
    hook = tn_tensor_register_hook(x, keep_grad, NULL);
    nowhere = tmpfile();
    char path[] = "nulls.XXXXXX";
    int descriptor = mkstemp(path);
    tn_safetensors_save(path, texts, list, 1, NULL, 0);
    file = tn_safetensors_open(path);
    gguf = open_gguf();
    close(descriptor);
    unlink(path);
    report = new_report();
    categories = tn_categories_new();
    values[0] = values[1] =
        (tn_value){TN_VALUE_TENSOR, 0, {.tensor = x}};
    checkpoint.module = linear;
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return !tn_error() && nowhere && seen != MAP_FAILED;
}

/* With a function's name as argument, prints the result of each of its
 * calls. */
int main(int argc, char **argv)
{
    plan_later();
    /* Arguments are checked before a device is used, so any device will do. The
     * children of fork must be able to use it, which drivers of GPUs do not
     * allow. */
    setenv("TENON_DEVICE", "cpu", 1);
    if (!make_values())
        bail_out("%s", tn_error() ? tn_error() : "no room");
    int refused = 0, allowed = 0, wrong_refused = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const call *c = &calls[i];
        if (argc > 1 && strcmp(argv[1], c->name) != 0)
            continue;
        try_function(c);
        int at;
        const char *wrong = judge(c, &at);
        for (int k = 0; k <= c->pointers; k++) {
            refused += k < c->pointers && seen->outcome[k] == REFUSED;
            allowed += k < c->pointers && seen->outcome[k] == SILENT;
            if (wrong || argc > 1)
                note("%s without %s %s: %s", c->name,
                     k < c->pointers ? c->argument[k] : "anything",
                     words[seen->outcome[k]], seen->message[k]);
        }
        if (wrong)
            ok(false, "%s without %s %s", c->name,
               at < c->pointers ? c->argument[at] : "anything", wrong);
        int bad;
        wrong = judge_bad(c, &bad, &at);
        for (int b = 1; b < BADS; b++)
            for (int k = 0; k < c->pointers; k++) {
                wrong_refused += seen->bad[b][k] == REFUSED;
                if ((wrong || argc > 1) && c->objects >> k & 1)
                    note("%s with a %s that is %s %s: %s", c->name,
                         c->argument[k], bad_words[b], words[seen->bad[b][k]],
                         seen->bad_message[b][k]);
            }
        if (wrong)
            ok(false, "%s with a %s that is %s %s", c->name, c->argument[at],
               bad_words[bad], wrong);
    }
    ok(wrong_refused > 1000,
       "%d objects that are dead, of another kind, or scopes are refused",
       wrong_refused);
    for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
        note("NULL is meant, %s: %s", meant[i].why, meant[i].arguments);
    ok(refused > 1000, "%d arguments refuse NULL, %d may be NULL, of %d "
       "functions", refused, allowed,
       (int)(sizeof calls / sizeof *calls));
    return done_testing();
}
