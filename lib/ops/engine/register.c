/* register.c: operators that programs write in C (tn_op_register), and the
 * contexts that their forward and backward functions get. The tensors that a
 * context saves move to the autograd node if the call is recorded (registered.c
 * in autograd). */
#include <base/error.h>
#include <base/memory.h>
#include <ops/engine/define.h>
#include <ops/engine/register.h>
#include <ops/engine/signature.h>
#include <string.h>

/* An operator together with everything that its tn_op points to. */
typedef struct registered {
    tn_op op;
    tn__op_rare rare;
    tn__signature signature;
    tn_op_rule rule;
    char role[TN__OP_MAX_ARGS + 1];
} registered;

/* ---- contexts ------------------------------------------------------------ */

static void context_destroy(tn__object *object)
{
    tn_op_context *context = (tn_op_context *)object;
    const tn_op_rule *rule = tn__op_rule(context->op);
    if (rule->release && rule->bytes)
        rule->release(context + 1);
    for (int i = 0; i < context->save_count; i++)
        tn__unref(context->save[i]);
    tn__free(context->save);
    tn__object_free(context, sizeof *context + rule->bytes);
}

static const tn__class context_class = {.name = "operator's context",
                                        .destroy = context_destroy};

static tn_op_context *context_new(const tn__call *call)
{
    const tn_op_rule *rule = tn__op_rule(call->op);
    tn_op_context *context = tn__calloc(1, sizeof *context + rule->bytes);
    if (!context)
        return NULL;
    tn__object_init(&context->object, &context_class);
    context->op = call->op;
    context->call = call;
    return context;
}

bool tn__op_context_is(const tn_op_context *context, const char *call)
{
    return tn__object_has(context, &context_class, call, "call");
}

void *tn_op_context_data(tn_op_context *context)
{
    return tn__op_context_is(context, "op_context_data") ? context + 1 : NULL;
}

tn_value tn_op_context_value(const tn_op_context *context, int i)
{
    if (!tn__op_context_is(context, "op_context_value") || i < 0 ||
        i >= context->op->arg_count)
        return tn__value_none();
    if (context->call)
        return context->call->value[i];
    return context->node ? context->node_value(context->node, i)
                         : tn__value_none();
}

tn_tensor *tn_op_context_tensor(const tn_op_context *context, int i)
{
    if (!tn__op_context_is(context, "op_context_tensor"))
        return NULL;
    tn_value value = tn_op_context_value(context, i);
    return value.kind == TN_VALUE_TENSOR ? value.of.tensor : NULL;
}

tn_status tn_op_context_save(tn_op_context *context, tn_tensor *x)
{
    if (!tn__object_check(context, &context_class, "op_context_save",
                          "call") ||
        (x && !tn__tensor_check(x, "op_context_save", "x")))
        return tn_error_code();
    if (!context->call)
        return tn__fail(TN_ERR_STATE, "%s: tn_op_context_save() was called "
                        "outside forward: save values in forward only",
                        context->op->name);
    if (!tn__grow(&context->save, &context->save_room,
                  (size_t)context->save_count, sizeof *context->save))
        return TN_ERR_MEMORY;
    context->save[context->save_count++] = tn__ref(x);
    return TN_OK;
}

/* ---- running an operator ------------------------------------------------- */

/* Adds x, the result of forward with index o, to the call's outputs. If x is an
 * argument or an earlier result, an alias of x is added, so that each output is
 * a tensor object of its own. */
static tn_status take_result(tn__call *call, int o, tn_tensor *x)
{
    if (!x)
        return tn__error_pending()
                   ? tn_error_code()
                   : tn__fail(TN_ERR_ARGUMENT, "%s: its forward did not set "
                              "result %d", call->op->name, o);
    if (!tn__tensor_check(x, call->op->name, "a result of its forward"))
        return tn_error_code();
    bool given = false, shares = false;
    for (int i = 0; i < call->op->arg_count; i++) {
        const tn_tensor *y = tn__call_tensor(call, i);
        given |= y == x;
        shares |= y && y->storage == x->storage;
    }
    for (int k = 0; k < o; k++)
        given |= call->out[k] == x;
    x = given ? tn__tensor_alias(x) : tn__ref(x);
    if (!x)
        return TN_ERR_MEMORY;
    x->apart |= shares;
    call->out[call->out_count++] = x;
    return TN_OK;
}

static tn_status run(tn__call *call)
{
    const registered *own = (const registered *)call->op;
    tn_tensor *out[TN__OP_MAX_OUTPUTS] = {NULL};
    tn_scope *scope = tn_scope_open();
    tn_op_context *context = scope ? context_new(call) : NULL;
    if (!context) {
        tn_scope_close(scope);
        return TN_ERR_MEMORY;
    }
    tn_status status = own->rule.forward(context, out);
    if (status >= 0 && tn__error_pending())
        status = tn_error_code();
    if (status < 0 && !tn__error_pending())
        tn__fail(status, "%s: its forward failed without an error",
                 call->op->name);
    for (int o = 0; o < own->signature.out_count && status >= 0; o++)
        status = take_result(call, o, out[o]);
    context->call = NULL;
    call->context = context;
    tn_scope_close(scope);
    return status;
}

/* ---- registering an operator --------------------------------------------- */

static char *copy_text(const char *text)
{
    return tn__strdup(text ? text : "An operator of the program's own.");
}

static void registered_free(registered *own)
{
    tn__free(own->signature.text);
    tn__free((char *)(uintptr_t)own->rare.signature);
    tn__free((char *)(uintptr_t)own->op.doc);
    tn__free(own);
}

static registered *make(const tn_op_rule *rule)
{
    registered *own = tn__calloc(1, sizeof *own);
    if (!own)
        return NULL;
    own->rule = *rule;
    if (tn__signature_parse(rule->signature, &own->signature) < 0) {
        tn__free(own);
        return NULL;
    }
    const tn__signature *s = &own->signature;
    memset(own->role, TN__ROLE_NONE, (size_t)s->arg_count);
    own->op = (tn_op){
        .sort = TN__OP_NATIVE, .differentiable = rule->backward != NULL,
        .name = s->name, .doc = copy_text(rule->doc),
        .arg_count = (uint8_t)s->arg_count,
        .tensor_count = (uint8_t)s->tensor_count, .arg = s->arg,
        .fallback = s->fallback, .run = run, .rare = &own->rare,
        .with_arg = -1, .rows = -1, .keepdim = -1, .role = own->role};
    own->rare = (tn__op_rare){.signature = copy_text(rule->signature),
                              .rule = &own->rule};
    if (own->rare.signature && own->op.doc)
        return own;
    registered_free(own);
    return NULL;
}

const tn_op *tn_op_register(const tn_op_rule *rule)
{
    tn_op_rule full = {.size = sizeof full};
    if (!rule)
        return tn__fail_null(TN_ERR_ARGUMENT, "op_register: rule is NULL");
    memcpy(&full, rule, rule->size < sizeof full ? rule->size : sizeof full);
    if (!full.signature || !full.forward)
        return tn__fail_null(TN_ERR_ARGUMENT, "op_register: the rule has no %s",
                             full.signature ? "forward" : "signature");
    registered *own = make(&full);
    if (!own)
        return NULL;
    if (tn__op_user_add(&own->op, "op_register") >= 0)
        return &own->op;
    registered_free(own);
    return NULL;
}
