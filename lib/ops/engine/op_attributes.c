/* op_attributes.c: the public functions that return attributes of an operator
 * (tn_op_name ...). */
#include <base/error.h>
#include <base/memory.h>
#include <ops/table.h>
#include <stdatomic.h>

const char *tn_op_name(const tn_op *op)
{
    return op ? op->name : NULL;
}

const char *tn_op_doc(const tn_op *op)
{
    return op ? op->doc : NULL;
}

/* Adds "name(input, other=None, alpha=1)" to text. */
static void add_signature(tn__text *text, const tn_op *op)
{
    tn__text_add(text, "%s(", op->name);
    for (int i = 0; i < op->arg_count; i++) {
        const tn_op_arg *arg = &op->arg[i];
        tn__text_add(text, "%s%s%s%s", i ? ", " : "", arg->name,
                     arg->fallback   ? "="
                     : arg->optional ? "=None"
                                     : "",
                     arg->fallback ? arg->fallback : "");
    }
    tn__text_add(text, ")");
}

const char *tn_op_signature(const tn_op *op)
{
    /* The signatures of the table would be 30 KB, and few programs read them.
     * Each is made when it is first read, and stays until the process ends. */
    static _Atomic(char *) made[TN__OP_COUNT];
    if (!op || op->id < 0 || op->id >= TN__OP_COUNT)
        return op ? op->rare->signature : NULL;
    char *known = atomic_load_explicit(&made[op->id], memory_order_acquire);
    if (known)
        return known;
    tn__text text = {0};
    add_signature(&text, op);
    char *own = tn__text_finish(&text);
    if (own && !atomic_compare_exchange_strong(&made[op->id], &known, own)) {
        tn__free(own);
        return known;
    }
    return own;
}

const char *tn_op_kernel(const tn_op *op)
{
    return op ? op->kernel : NULL;
}

int tn_op_arg_count(const tn_op *op)
{
    return op ? op->arg_count : 0;
}

const tn_op_arg *tn_op_arg_at(const tn_op *op, int i)
{
    return op && i >= 0 && i < op->arg_count ? &op->arg[i] : NULL;
}

bool tn_op_is_differentiable(const tn_op *op)
{
    return op && op->differentiable;
}
