/* bad.h: objects that no function should accept: freed objects, objects of
 * another kind, and scopes, which are not objects.
 *
 * BAD_<type> is the wrong value of an argument of that type. It is NULL if no
 * wrong object is selected (bad_now is 0). A new kind of object needs a row in
 * BAD_KINDS and a BAD_<type>. */

enum { NO_OBJECT, GONE, OTHER, SCOPE, BADS };
static const char *const bad_words[BADS] = {"NULL", "gone", "of another kind",
                                            "a scope"};
static int bad_now;

/* Returns a report of the comparison of an empty module with an empty file. */
static tn_module_report *new_report(void)
{
    tn_module_report *made = NULL;
    char path[] = "bad.XXXXXX";
    int descriptor = mkstemp(path);
    tn_safetensors_save(path, NULL, NULL, 0, NULL, 0);
    tn_module_load(tn_nn_relu(), path, .report = &made);
    close(descriptor);
    unlink(path);
    return made;
}

/* Each row creates an object of one kind. */
#define BAD_KINDS(KIND)                                                       \
    KIND(tensor, tn_ones(tn_dims(2, 3)))                                      \
    KIND(module, tn_nn_linear(3, 4))                                          \
    KIND(parameter_list, tn_parameters(linear))                               \
    KIND(optim, tn_optim_sgd(tn_parameters(linear), .lr = 0.1))               \
    KIND(schedule, tn_schedule_step_lr(optim, 1))                             \
    KIND(grad_scaler, tn_grad_scaler_new())                                   \
    KIND(distribution, tn_distribution_normal(x, x))                          \
    KIND(average, tn_average_new(linear))                                     \
    KIND(metric, tn_metric_mean())                                            \
    KIND(packed, tn_pack_sequence(&x, 1))                                     \
    KIND(dataset, tn_dataset_from_tensors(x, NULL))                           \
    KIND(loader, tn_loader_new(set))                                          \
    KIND(text, tn_text_from_string("abc"))                                    \
    KIND(hook, tn_tensor_register_hook(                                       \
                   tn_requires_grad(tn_ones(tn_dims(1))), keep_grad, NULL))                   \
    KIND(safetensors, tn_safetensors_part(file, ""))                          \
    KIND(gguf, open_gguf())                                                   \
    KIND(module_report, new_report())                                         \
    KIND(categories, tn_categories_new())                                     \
    KIND(mark, tn_mark_set(NULL))                                             \
    KIND(graph, tn_graph_record(graph_step, NULL)) \
    KIND(compiled, tn_compile(compiled_step, NULL))

/* The context of an operator's call, which is freed after the call. */
static tn_op_context *last_context;
static tn_status keep_context(tn_op_context *call, tn_tensor **out)
{
    last_context = call;
    out[0] = tn_op_context_tensor(call, 0);
    return TN_OK;
}

static tn_op_context *gone_context(void)
{
    static const tn_op_rule keeper = {
        .size = sizeof keeper,
        .signature = "context_of_nulls(x)",
        .forward = keep_context};
    static const tn_op *op;
    tn_tensor *given = tn_ones(tn_dims(1));
    op = op ? op : tn_op_register(&keeper);
    tn_op_apply(op, &given, NULL);
    return last_context;
}

#define BAD_NUMBER(kind, make) bad_##kind,
enum bad_kind { BAD_KINDS(BAD_NUMBER) bad_kinds };

static void *gone[bad_kinds];
static tn_scope *gone_scope, *open_scope;

static void make_bad(void)
{
    open_scope = tn_scope_open();
    gone_scope = tn_scope_open();
#define BAD_MAKE(kind, make) gone[bad_##kind] = make;
    BAD_KINDS(BAD_MAKE)
    tn_scope_close(gone_scope);
}

static void *bad(enum bad_kind kind)
{
    return bad_now == GONE    ? gone[kind]
           : bad_now == OTHER ? kind == bad_tensor ? (void *)linear : (void *)x
           : bad_now == SCOPE ? (void *)open_scope
                              : NULL;
}

/* Returns a list, or a struct, that contains the wrong object. */
static void *bad_list(enum bad_kind kind)
{
    static void *items[3] = {NULL, NULL, TN_INPUTS_END};
    items[0] = items[1] = bad(kind);
    return bad_now ? items : NULL;
}

static tn_op_context *bad_context(void)
{
    return bad_now == GONE ? gone_context() : bad(bad_optim);
}

static tn_value *bad_value(void)
{
    static tn_value wrong[2];
    wrong[0] = wrong[1] =
        (tn_value){TN_VALUE_TENSOR, 0, {.tensor = bad(bad_tensor)}};
    return bad_now ? wrong : NULL;
}

static tn_nn_attention_masks *bad_masks(void)
{
    static tn_nn_attention_masks wrong = TN_NN_ATTENTION_MASKS;
    wrong.attn_mask = bad(bad_tensor);
    return bad_now ? &wrong : NULL;
}

/* For a parameter that accepts any object, the object of a wrong kind is a
 * device, which is not an object of a scope. */
static void *bad_any(void)
{
    return bad_now == OTHER ? (void *)tn_device_current() : bad(bad_tensor);
}

static tn_checkpoint *bad_checkpoint(void)
{
    static tn_checkpoint wrong = {.size = sizeof wrong};
    wrong.module = bad(bad_module);
    return bad_now ? &wrong : NULL;
}

static tn_scope *bad_scope(void)
{
    return bad_now == SCOPE ? gone_scope
           : bad_now        ? (tn_scope *)bad(bad_module)
                            : NULL;
}

#define BAD_tn_tensor_p bad(bad_tensor)
#define BAD_tn_tensor_p_p_list bad_list(bad_tensor)
#define BAD_tn_value_p bad_value()
#define BAD_tn_nn_attention_masks_p bad_masks()
#define BAD_tn_module_p bad(bad_module)
#define BAD_tn_module_p_p_list bad_list(bad_module)
#define BAD_tn_parameter_list_p bad(bad_parameter_list)
#define BAD_tn_optim_p bad(bad_optim)
#define BAD_tn_schedule_p bad(bad_schedule)
#define BAD_tn_schedule_p_p_list bad_list(bad_schedule)
#define BAD_tn_grad_scaler_p bad(bad_grad_scaler)
#define BAD_tn_distribution_p bad(bad_distribution)
#define BAD_tn_average_p bad(bad_average)
#define BAD_tn_metric_p bad(bad_metric)
#define BAD_tn_packed_p bad(bad_packed)
#define BAD_tn_dataset_p bad(bad_dataset)
#define BAD_tn_dataset_p_p_list bad_list(bad_dataset)
#define BAD_tn_loader_p bad(bad_loader)
#define BAD_tn_text_p bad(bad_text)
#define BAD_tn_hook_p bad(bad_hook)
#define BAD_tn_safetensors_p bad(bad_safetensors)
#define BAD_tn_gguf_p bad(bad_gguf)
#define BAD_tn_module_report_p bad(bad_module_report)
#define BAD_tn_categories_p bad(bad_categories)
#define BAD_tn_mark_p bad(bad_mark)
#define BAD_tn_graph_p bad(bad_graph)
#define BAD_tn_compiled_p bad(bad_compiled)
#define BAD_tn_op_context_p bad_context()
#define BAD_tn_checkpoint_p bad_checkpoint()
#define BAD_tn_scope_p bad_scope()
#define BAD_void_p_object bad_any()
#define BAD_void_p_result bad_any()

/* Types of pointers for which the test passes no wrong object: they point
 * neither to an object that a scope can own, nor to a pointer to such an object
 * that the function reads. */
#define NO_OBJECT_tn_options_type_p
#define NO_OBJECT_tn_compiled_counts_p
#define NO_OBJECT_tn_graph_host_p
#define NO_OBJECT_tn_options_list_p
#define NO_OBJECT_tn_option_need_p
#define NO_OBJECT_tn_device_p
#define NO_OBJECT_tn_op_p
#define NO_OBJECT_tn_op_p_p
#define NO_OBJECT_tn_path_p
#define NO_OBJECT_tn_file_p
#define NO_OBJECT_tn_tensor_p_p /* an output */
#define NO_OBJECT_tn_batch_p
#define NO_OBJECT_tn_module_call_p
#define NO_OBJECT_tn_progress_p
#define NO_OBJECT_tn_memory_stats_p
#define NO_OBJECT_tn_given_p /* error details: the function reports what is
                              * wrong with the argument */
#define NO_OBJECT_tn_object_class_p
#define NO_OBJECT_tn_module_class_p
#define NO_OBJECT_tn_dataset_class_p
#define NO_OBJECT_tn_dataset_p_p /* an output */
#define NO_OBJECT_tn_stream_class_p
#define NO_OBJECT_tn_safetensors_class_p
#define NO_OBJECT_tn_op_rule_p
#define NO_OBJECT_tn_optim_range_p

/* "function.argument": arguments for which a wrong object is allowed. */
static const char bad_is_meant[] =
    /* These functions check the kind of an object; their errors begin with the
     * name of the function that uses them. */
    "object_is.object object_check.object object_check_kind.object "
    /* The called operator reports the error, with its own name. */
    "op_call.values op_call_into.values op_call_into.out call.first "
    "op_apply.tensors";
