/* hooks.c: runs hooks on gradients and retains gradients of non-leaf tensors
 * (retain_grad in PyTorch).
 *
 * Each node has a list of hooks on its outputs, in order of registration.
 * Removing a hook only marks it. The next registration takes marked hooks out
 * of the list, unless this thread is running hooks at that time. */
#include <string.h>
#include <base/context.h>
#include <tenon/hook.h>
#include <tenon/ops.h>

#include <autograd/hooks.h>

/* Number of post-accumulate hooks in the process. While it is 0, backward does
 * not search for leaves with such hooks. */
static _Atomic size_t post_accumulate_count;

bool tn__hooks_any_post_accumulate(void)
{
    return atomic_load(&post_accumulate_count) > 0;
}

static void hook_release(void *object)
{
    struct tn__grad_hook *hook = object;
    if (hook->kind == TN__HOOK_POST_ACCUMULATE)
        atomic_fetch_sub(&post_accumulate_count, 1);
    if (hook->release)
        hook->release(hook->context);
    tn__unref(hook->next);
    tn__unref(hook->grad);
}

static const tn_object_class hook_class = {
    sizeof hook_class, "hook", sizeof(struct tn__grad_hook), hook_release};

static bool is_removed(const struct tn__grad_hook *hook)
{
    return __atomic_load_n(&hook->base.removed, __ATOMIC_ACQUIRE);
}

void tn_hook_remove(tn_hook *hook)
{
    if (hook && tn_object_check_kind(hook, "hook", "hook_remove", "hook"))
        __atomic_store_n(&hook->removed, true, __ATOMIC_RELEASE);
}

/* ---- the list ----------------------------------------------------------- */

static struct tn__grad_hook *first_of(const tn__node *node)
{
    return (struct tn__grad_hook *)node->hook;
}

void tn__hook_append(tn__node *node, struct tn__grad_hook *hook)
{
    tn__leaf_lock();
    struct tn__grad_hook *list = first_of(node), *gone = NULL;
    struct tn__grad_hook **link = &list;
    while (*link) {
        struct tn__grad_hook *at = *link;
        if (tn__me.hooks_running || !is_removed(at)) {
            link = &at->next;
            continue;
        }
        *link = at->next;
        at->next = gone;
        gone = at;
    }
    *link = hook;
    node->hook = &list->base;
    tn__leaf_unlock();
    tn__unref(gone);
}

struct tn__grad_hook *tn__hook_new(int kind, uint32_t index, void *context)
{
    struct tn__grad_hook *hook = tn_object_new(&hook_class, 0);
    if (!hook)
        return NULL;
    hook->kind = kind;
    if (kind == TN__HOOK_POST_ACCUMULATE)
        atomic_fetch_add(&post_accumulate_count, 1);
    hook->index = index;
    hook->context = context;
    return hook;
}

void tn__hooks_forget(tn__node *node, const tn__grad_meta *meta)
{
    for (struct tn__grad_hook *hook = first_of(node); hook; hook = hook->next)
        if (hook->meta == meta)
            tn_hook_remove(&hook->base);
}

/* ---- retained gradients ------------------------------------------------- */

tn_tensor *tn__hook_retained(const tn_hook *hook)
{
    return ((const struct tn__grad_hook *)hook)->grad;
}

void tn__hook_set_retained(tn_hook *hook, tn_tensor *grad)
{
    tn_tensor *old = ((struct tn__grad_hook *)hook)->grad;
    ((struct tn__grad_hook *)hook)->grad = tn__ref(grad);
    tn__unref(old);
}

void tn__hook_forget_retained(tn_hook *hook)
{
    tn_hook_remove(hook);
    tn__hook_set_retained(hook, NULL);
}

tn_tensor *tn__hooks_retained_grad(const tn__node *node, int i)
{
    for (const struct tn__grad_hook *h = first_of(node); h; h = h->next)
        if (h->kind == TN__HOOK_RETAIN && h->grad && i-- == 0)
            return h->grad;
    return NULL;
}

void tn__hook_move(tn_hook *hook, tn__node *from, tn__node *to,
                   uint32_t index)
{
    struct tn__grad_hook *made = (struct tn__grad_hook *)hook;
    tn__leaf_lock();
    struct tn__grad_hook *list = first_of(from), **link = &list;
    while (*link && *link != made)
        link = &(*link)->next;
    bool found = *link != NULL;
    if (found) {
        *link = made->next;
        made->next = NULL;
        from->hook = list ? &list->base : NULL;
    }
    tn__leaf_unlock();
    made->index = index;
    tn__hook_append(to, found ? made : tn__ref(made));
}

/* ---- running ------------------------------------------------------------ */

static tn_status check_result(const tn__node *node, const tn_tensor *g,
                              const tn_tensor *result)
{
    if (tn__shape_equal(g->ndim, g->shape, result->ndim, result->shape) &&
        g->dtype == result->dtype &&
        g->storage->device == result->storage->device)
        return TN_OK;
    tn__text text = {0};
    tn__text_add(&text, "a hook on the output of %s received a gradient that "
                        "is %s ", tn__node_name(node), tn_dtype_name(g->dtype));
    tn__text_add_shape(&text, g->ndim, g->shape);
    tn__text_add(&text, " on %s and returned one that is %s ",
                 g->storage->device->name, tn_dtype_name(result->dtype));
    tn__text_add_shape(&text, result->ndim, result->shape);
    tn__text_add(&text, " on %s: they must be the same",
                 result->storage->device->name);
    char *message = tn__text_finish(&text);
    if (message)
        tn__fail(TN_ERR_SHAPE, "%s", message);
    tn__free(message);
    return tn_error_code();
}

static tn_status run_one(const tn__node *node, struct tn__grad_hook *hook,
                         tn_tensor **g)
{
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    tn_tensor *result = hook->run(*g, hook->context);
    tn_status status = tn__error_pending() ? tn_error_code() : TN_OK;
    if (status >= 0 && result &&
        !tn__tensor_check(result, "register_hook", "the hook's result"))
        status = tn_error_code();
    if (status >= 0 && result)
        status = check_result(node, *g, result);
    if (status >= 0 && result && result != *g) {
        tn__unref(*g);
        *g = tn__ref(result);
    }
    tn_scope_close(scope);
    return status;
}

static tn_status retain(struct tn__grad_hook *hook, tn_tensor *g)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *sum = !scope ? NULL
                     : hook->grad ? tn_add(hook->grad, g)
                                  : tn_clone(g);
    if (sum) {
        tn__unref(hook->grad);
        hook->grad = tn__ref(sum);
    }
    tn_scope_close(scope);
    return sum ? TN_OK : tn_error_code();
}

tn_status tn__hooks_run(const tn__node *node, uint32_t index, tn_tensor **g)
{
    tn_status status = TN_OK;
    tn__me.hooks_running++;
    for (struct tn__grad_hook *h = first_of(node); h && status >= 0;
         h = h->next)
        if (h->kind == TN__HOOK_GRAD && h->index == index && !is_removed(h))
            status = run_one(node, h, g);
    for (struct tn__grad_hook *h = first_of(node); h && status >= 0;
         h = h->next)
        if (h->kind == TN__HOOK_RETAIN && h->index == index && !is_removed(h))
            status = retain(h, *g);
    tn__me.hooks_running--;
    return status;
}

bool tn__hooks_has_post_accumulate(const tn__node *leaf)
{
    for (const struct tn__grad_hook *h = first_of(leaf); h; h = h->next)
        if (h->kind == TN__HOOK_POST_ACCUMULATE && !is_removed(h))
            return true;
    return false;
}

static tn_status run_post_accumulate(struct tn__grad_hook *hook)
{
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    tn_status status = hook->accumulated(hook->x, hook->context);
    if (status >= 0 && tn__error_pending())
        status = tn_error_code();
    else if (status < 0 && !tn__error_pending())
        status = tn__fail(status,
                          "a post-accumulate hook failed without an error");
    tn_scope_close(scope);
    return status;
}

tn_status tn__hooks_run_post_accumulate(const tn__node *leaf)
{
    tn_status status = TN_OK;
    tn__me.hooks_running++;
    for (struct tn__grad_hook *h = first_of(leaf); h && status >= 0;
         h = h->next)
        if (h->kind == TN__HOOK_POST_ACCUMULATE && !is_removed(h))
            status = run_post_accumulate(h);
    tn__me.hooks_running--;
    return status;
}
