/* held.c: values that gradients need, kept until they are asked for. */
#include <autograd/node.h>

bool tn__held_set(tn__held *held, tn_tensor *x, uint32_t version)
{
    bool keep = true;
    if (!tn__rerun_saves(held, x, version, &keep))
        return false;
    if (!keep)
        return true;
    held->value = tn__tensor_alias(x);
    held->version = version;
    if (!held->value)
        return false;
    held->value->apart = true; /* of the memory as it was */
    atomic_fetch_add_explicit(&x->storage->saved, 1, memory_order_relaxed);
    return true;
}

void tn__held_release(tn__held *held)
{
    tn_tensor *value = held->value;
    tn__rerun *rerun = held->rerun;
    held->value = NULL;
    held->rerun = NULL;
    if (value) {
        atomic_fetch_sub_explicit(&value->storage->saved, 1,
                                  memory_order_relaxed);
        tn__unref(value);
    }
    if (rerun) {
        tn__rerun_forget(rerun, held->version);
        tn__unref(rerun);
    }
}

tn_tensor *tn__held_get(const tn__held *held, const char *who)
{
    if (held->rerun) {
        held = tn__rerun_value(held->rerun, held->version);
        if (!held)
            return NULL;
    }
    tn_tensor *value = held->value;
    if (!value)
        return tn__fail_null(
            TN_ERR_STATE,
            "backward: the graph of %s was freed by an earlier backward: give "
            "that one .retain_graph = true",
            who);
    uint32_t now = atomic_load_explicit(&value->storage->version,
                                        memory_order_relaxed);
    if (now == held->version)
        return value;
    const char *by = value->storage->changed_by;
    return tn__fail_null(
        TN_ERR_STATE,
        "backward: a value that %s saved for its gradient was changed in "
        "place since by %s (version %u, saved at %u): change a tn_clone() of "
        "it instead",
        who, by ? by : "a copy from an array", now, held->version);
}
