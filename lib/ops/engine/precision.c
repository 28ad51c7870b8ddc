/* precision.c: runs calls that compute in another dtype than their tensors
 * have: composites with the flag `widen`, which compute half types in float32,
 * and calls under autocast (PyTorch's torch.autocast).
 *
 * The line `autocast` of an operator in the table says to which dtype autocast
 * converts its tensors. A call is converted once, before autograd records it.
 * The conversions are recorded as to_dtype, so gradients come back in the dtype
 * of the caller's tensors.
 *
 * An operator with a line `autocast` runs with autocast off. So does every
 * KERNEL or NATIVE operator, since the operators that it calls are its
 * implementation. A composite without the line runs with autocast on, and the
 * operators that it calls apply their own lines. */
#include <base/context.h>
#include <base/error.h>
#include <base/memory.h>
#include <ops/engine/ops.h>
#include <pthread.h>
#include <string.h>
#include <tenon/autocast.h>
#include <tenon/relaxed.h>
#include <tenon/ops.h>

/* ---- conversion of the tensors of a call --------------------------------- */

/* Returns the tensors of a value, which may be a tensor, a list of tensors or
 * neither. Sets *count to their number. */
static tn_tensor *const *tensors_of(const tn_value *value, int *count)
{
    bool list = value->kind == TN_VALUE_TENSORS;
    *count = list ? value->count : value->kind == TN_VALUE_TENSOR;
    return list ? value->of.tensors : &value->of.tensor;
}

/* A conversion of the tensors of a call that have dtype `from` to dtype `to`.
 * Other tensors stay as they are. */
typedef struct conversion {
    tn_dtype from; /* 0 means every floating-point dtype except float64 */
    tn_dtype to;
    tn_dtype lower; /* the half type of the autocast scope, or 0. Parameters
                       that are converted to this dtype are cached. */
} conversion;

static bool needs_conversion(const conversion *c, const tn_tensor *x)
{
    if (c->from)
        return x->dtype == c->from;
    return tn_dtype_is_floating(x->dtype) && x->dtype != TN_F64 &&
           x->dtype != c->to;
}

static tn_tensor *stored(tn_tensor *x, tn_dtype dtype);

static tn_tensor *converted(const conversion *c, tn_tensor *x)
{
    if (!needs_conversion(c, x))
        return x;
    bool parameter = c->to == c->lower && x->dtype == TN_F32 &&
                     x->requires_grad && tn__hooks.is_leaf &&
                     tn__hooks.is_leaf(x);
    return parameter ? stored(x, c->to) : tn_to_dtype(x, c->to);
}

/* Returns the number of tensors of a call. Sets *any to whether one of them
 * needs a conversion. */
static int count_tensors(const tn__call *call, const conversion *c, bool *any)
{
    int total = 0, count;
    *any = false;
    for (int i = 0; i < call->op->arg_count; i++) {
        tn_tensor *const *x = tensors_of(&call->value[i], &count);
        for (int k = 0; k < count; k++)
            *any |= needs_conversion(c, x[k]);
        total += count;
    }
    return total;
}

/* Stores the values of the call in room[], with the tensors converted. list[]
 * is memory for all tensors of the call. */
static tn_status convert_values(const tn__call *call, const conversion *c,
                                tn_value *room, tn_tensor **list)
{
    int arg_count = call->op->arg_count;
    memcpy(room, call->value, (size_t)arg_count * sizeof *room);
    for (int i = 0; i < arg_count; i++) {
        int count;
        tn_tensor *const *x = tensors_of(&call->value[i], &count);
        for (int k = 0; k < count; k++) {
            list[k] = converted(c, x[k]);
            if (!list[k])
                return tn_error_code();
        }
        if (room[i].kind == TN_VALUE_TENSORS)
            room[i].of.tensors = list;
        else if (count)
            room[i].of.tensor = list[0];
        list += count;
    }
    return TN_OK;
}

/* Calls f(call) with the `count` tensors of the call converted. The open scope
 * owns the converted tensors and the results. */
static tn_status run_converted(tn__call *call, const conversion *c, int count,
                               tn_status (*f)(tn__call *call))
{
    const tn_value *given = call->value;
    tn_value room[TN__OP_MAX_ARGS];
    tn_tensor **list = tn__alloc_many(count, sizeof *list);
    tn_status status =
        list ? convert_values(call, c, room, list) : TN_ERR_MEMORY;
    if (status >= 0) {
        call->value = room;
        status = f(call);
        call->value = given;
    }
    tn__free(list);
    return status;
}

/* ---- half types in float32 ----------------------------------------------- */

/* Returns the half type that all floating-point tensors of the call have.
 * Returns 0 if their dtypes differ, if the dtype is not a half type, or if no
 * tensor is floating-point. */
static tn_dtype half_dtype(const tn__call *call)
{
    tn_dtype half = 0;
    for (int i = 0; i < call->op->arg_count; i++) {
        int count;
        tn_tensor *const *x = tensors_of(&call->value[i], &count);
        for (int k = 0; k < count; k++) {
            tn_dtype dtype = x[k]->dtype;
            if (!tn_dtype_is_floating(dtype))
                continue;
            if (tn_dtype_bytes(dtype) != 2 || (half && half != dtype))
                return 0;
            half = dtype;
        }
    }
    return half;
}

/* A composite that ran in a half type would round after each operator it calls.
 * In float32 the result is rounded to the half type only once. */
tn_status tn__run_wide(tn__call *call)
{
    conversion c = {.from = half_dtype(call), .to = TN_F32};
    if (!c.from)
        return call->op->run(call);
    bool any;
    int count = count_tensors(call, &c, &any);
    tn_status status = run_converted(call, &c, count, call->op->run);
    for (int i = 0; i < call->out_count && status >= 0; i++)
        if (call->out[i]->dtype == TN_F32 &&
            !(call->out[i] = tn_to_dtype(call->out[i], c.from)))
            return tn_error_code();
    return status;
}

/* ---- autocast ------------------------------------------------------------ */

/* Returns the promoted dtype of `lower` and of all floating-point tensors of
 * the call, except the 8-bit ones. */
static tn_dtype widest(const tn__call *call, tn_dtype lower)
{
    tn_dtype wide = lower;
    for (int i = 0; i < call->op->arg_count; i++) {
        int count;
        tn_tensor *const *x = tensors_of(&call->value[i], &count);
        for (int k = 0; k < count; k++)
            if (tn_dtype_is_floating(x[k]->dtype) &&
                tn_dtype_bytes(x[k]->dtype) > 1)
                wide = tn_dtype_promote(wide, x[k]->dtype);
    }
    return wide;
}

/* Returns whether the caller gave an argument of kind dtype. */
static bool dtype_given(const tn__call *call)
{
    for (int i = 0; i < call->op->arg_count; i++)
        if (call->value[i].kind == TN_VALUE_DTYPE)
            return true;
    return false;
}

tn_status tn__autocast_run(tn__call *call, tn_dtype lower,
                           tn_status (*run)(tn__call *call))
{
    conversion c = {.to = lower, .lower = lower};
    switch (call->op->autocast) {
    case TN__AUTOCAST_WIDEST:
        c.to = widest(call, lower);
        break;
    case TN__AUTOCAST_F32_NOT_F16:
        if (lower == TN_F16)
            return tn__fail(TN_ERR_DTYPE,
                            "%s: with autocast in float16 its gradient "
                            "would overflow; use "
                            "tn_binary_cross_entropy_with_logits, or convert "
                            "under TN_AUTOCAST(TN_DTYPE_NONE)",
                            call->op->name);
        c.to = TN_F32;
        break;
    case TN__AUTOCAST_F32:
        c.to = TN_F32;
        break;
    default:
        break;
    }
    bool any;
    int count = count_tensors(call, &c, &any);
    if (!any || (c.to == TN_F32 && dtype_given(call)))
        return run(call);
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    tn_status status = run_converted(call, &c, count, run);
    if (status >= 0)
        tn__scope_results(scope, (void *const *)call->out, call->out_count);
    else
        tn_scope_close(scope);
    return status;
}

tn_dtype tn_autocast_dtype(void)
{
    return tn__me.modes.autocast;
}

tn_dtype tn_autocast_set(tn_dtype dtype)
{
    if (dtype && dtype != TN_F16 && dtype != TN_BF16) {
        tn__fail(TN_ERR_DTYPE,
                 "autocast: the dtype is %s; expected TN_F16 or TN_BF16, or "
                 "TN_DTYPE_NONE to turn it off", tn_dtype_name(dtype));
        return tn__me.modes.autocast;
    }
    tn_dtype was = tn__autocast_swap(dtype);
    if (!dtype)
        tn__autocast_forget();
    return was;
}

/* ---- converted parameters ---------------------------------------------------
 * A parameter that several calls use is converted to the half type once. The
 * converted tensor in the cache is valid while the parameter is the same view
 * of the same memory and its elements have not been written. The entry says
 * whether autograd recorded the conversion. Calls that autograd records use
 * only recorded conversions, all other calls only unrecorded ones. */

/* An entry of the cache. It holds a reference to each of its three tensors. */
typedef struct entry {
    tn_tensor *leaf;  /* the parameter, or NULL in an unused entry */
    tn_tensor *seen;  /* an alias of the parameter as it was when it was
                         converted, which keeps the storage alive */
    tn_tensor *made;  /* the parameter in the half type */
    uint32_t version; /* the storage's version (its count of writes) when the
                         parameter was converted */
    bool recorded;    /* autograd recorded the conversion */
} entry;

/* The cache of one thread: a hash table with linear probing that is at most
 * half full. */
typedef struct store {
    size_t count, room; /* the numbers of used entries and of all entries */
    entry *slot;
} store;

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;

static void entry_release(entry *e)
{
    tn__unref(e->leaf);
    tn__unref(e->seen);
    tn__unref(e->made);
}

static void store_free(void *pointer)
{
    store *s = pointer;
    for (size_t i = 0; i < s->room; i++)
        entry_release(&s->slot[i]);
    tn__free(s->slot);
    tn__free(s);
}

static void key_make(void)
{
    key_made = !pthread_key_create(&key, store_free);
}

static store *store_get(void)
{
    pthread_once(&key_once, key_make);
    store *s = key_made ? pthread_getspecific(key) : NULL;
    if (s || !key_made)
        return s;
    s = tn__calloc(1, sizeof *s);
    if (s && pthread_setspecific(key, s)) {
        tn__free(s);
        s = NULL;
    }
    return s;
}

bool tn_relaxed(void)
{
    return tn__me.modes.relaxed;
}

bool tn_relaxed_set(bool on)
{
    bool was = tn__me.modes.relaxed;
    tn__me.modes.relaxed = on;
    return was;
}

void tn__autocast_forget(void)
{
    pthread_once(&key_once, key_make);
    store *s = key_made ? pthread_getspecific(key) : NULL;
    if (!s)
        return;
    pthread_setspecific(key, NULL);
    store_free(s);
}

static entry *find(const store *s, const tn_tensor *leaf)
{
    size_t at = (size_t)((uint64_t)(uintptr_t)leaf * 0x9e3779b97f4a7c15u >> 32);
    for (at &= s->room - 1; s->slot[at].leaf && s->slot[at].leaf != leaf;)
        at = (at + 1) & (s->room - 1);
    return &s->slot[at];
}

static bool grow(store *s)
{
    store more = {s->count, s->room ? 2 * s->room : 64, NULL};
    more.slot = tn__calloc(more.room, sizeof *more.slot);
    if (!more.slot)
        return false;
    for (size_t i = 0; i < s->room; i++)
        if (s->slot[i].leaf)
            *find(&more, s->slot[i].leaf) = s->slot[i];
    tn__free(s->slot);
    *s = more;
    return true;
}

static bool is_current(const entry *e, const tn_tensor *x, tn_dtype dtype,
                       bool recorded)
{
    const tn_tensor *seen = e->seen;
    return e->leaf && e->made->dtype == dtype && e->recorded == recorded &&
           e->version == atomic_load(&x->storage->version) &&
           seen->storage == x->storage && seen->offset == x->offset &&
           tn__shape_equal(seen->ndim, seen->shape, x->ndim, x->shape) &&
           tn__shape_equal(seen->ndim, seen->stride, x->ndim, x->stride);
}

/* Returns the leaf x converted to dtype, from the cache if it is there. The
 * cache owns the result. */
static tn_tensor *stored(tn_tensor *x, tn_dtype dtype)
{
    store *s = store_get();
    if (!s || (2 * s->count >= s->room && !grow(s)))
        return tn__fail_null(TN_ERR_MEMORY, "autocast: out of memory");
    bool recorded = tn__hooks.recording && tn__hooks.recording();
    entry *e = find(s, x);
    if (is_current(e, x, dtype, recorded))
        return e->made;
    entry fresh = {.version = atomic_load(&x->storage->version),
                   .recorded = recorded};
    fresh.made = tn_to_dtype(x, dtype);
    fresh.seen = fresh.made ? tn__tensor_alias(x) : NULL;
    if (!fresh.seen)
        return NULL;
    tn__ref(fresh.made);
    fresh.leaf = tn__ref(x);
    s->count += !e->leaf;
    entry_release(e);
    *e = fresh;
    return e->made;
}
