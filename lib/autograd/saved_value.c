/* saved_value.c: values that are stored until a gradient needs them. */
#include <autograd/node.h>

bool tn__saved_value_set(tn__saved_value *saved, tn_tensor *x, uint32_t version)
{
    bool keep = true;
    if (!tn__rerun_saves(saved, x, version, &keep))
        return false;
    if (!keep)
        return true;
    saved->value = tn__tensor_alias(x);
    saved->version = version;
    if (!saved->value)
        return false;
    saved->value->apart = true; /* in-place changes do not update it */
    atomic_fetch_add_explicit(&x->storage->saved, 1, memory_order_relaxed);
    return true;
}

void tn__saved_value_release(tn__saved_value *saved)
{
    tn_tensor *value = saved->value;
    tn__rerun *rerun = saved->rerun;
    saved->value = NULL;
    saved->rerun = NULL;
    if (value) {
        atomic_fetch_sub_explicit(&value->storage->saved, 1,
                                  memory_order_relaxed);
        tn__unref(value);
    }
    if (rerun) {
        tn__rerun_forget(rerun, saved->version);
        tn__unref(rerun);
    }
}

tn_tensor *tn__saved_value_get(const tn__saved_value *saved, const char *who)
{
    if (saved->rerun) {
        saved = tn__rerun_value(saved->rerun, saved->version);
        if (!saved)
            return NULL;
    }
    tn_tensor *value = saved->value;
    if (!value)
        return tn__fail_null(
            TN_ERR_STATE,
            "backward: the graph of %s was freed by an earlier backward: pass "
            ".retain_graph = true to that one",
            who);
    uint32_t now =
        atomic_load_explicit(&value->storage->version, memory_order_relaxed);
    if (now == saved->version)
        return value;
    const char *by = value->storage->changed_by;
    return tn__fail_null(
        TN_ERR_STATE,
        "backward: a value that %s saved for its gradient was changed in "
        "place since by %s (version %u, saved at %u): change a tn_clone() of "
        "it instead",
        who, by ? by : "a copy from an array", now, saved->version);
}
