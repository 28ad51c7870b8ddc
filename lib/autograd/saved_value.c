/* saved_value.c: saves the tensors that a gradient needs. A tensor is either
 * stored or, inside tn_recompute, only given an index. Such a tensor is stored
 * when backward runs the function a second time. rerun.h describes both
 * runs. */
#include <base/context.h>
#include <ops/engine/mistakes.h>

#include <autograd/rerun.h>

/* ---- values of recomputed functions ------------------------------------- */

/* In the first run of a recomputed function, gives x the next index and records
 * its dtype, device and shape. */
static bool assign_number(tn__rerun *rerun, tn__saved_value *saved,
                          const tn_tensor *x)
{
    if (!tn__grow(&rerun->entry, &rerun->room, rerun->count,
                  sizeof *rerun->entry))
        return false;
    struct tn__rerun_entry *entry = &rerun->entry[rerun->count];
    *entry = (struct tn__rerun_entry){.wanted = true,
                                      .dtype = x->dtype,
                                      .device = x->storage->device,
                                      .shape.ndim = x->ndim};
    for (int d = 0; d < x->ndim; d++)
        entry->shape.dim[d] = x->shape[d];
    saved->rerun = tn__ref(rerun);
    saved->version = rerun->count++;
    return true;
}

/* Returns whether x has the dtype, device and shape that the value had in the
 * first run, because the gradient relies on them. */
static bool matches_first_run(const struct tn__rerun_entry *entry,
                              const tn_tensor *x)
{
    return x->dtype == entry->dtype && x->storage->device == entry->device &&
           tn__shape_equal(x->ndim, x->shape, entry->shape.ndim,
                           entry->shape.dim);
}

/* In the second run, stores x as the value with the next index. */
static bool fill_value(struct tn__run *run, tn_tensor *x, uint32_t version)
{
    uint32_t number = run->next++;
    if (number >= run->rerun->count)
        return true;
    struct tn__rerun_entry *entry = &run->rerun->entry[number];
    if (!matches_first_run(entry, x)) {
        char now[TN__SHAPE_TEXT], then[TN__SHAPE_TEXT];
        run->differs = true;
        tn__fail(TN_ERR_STATE,
                 "recompute: value %u that the function saves is %s %s on %s "
                 "when it runs again, %s %s on %s the first time: it must do "
                 "the same each time",
                 number, tn__shape_text(now, x->ndim, x->shape),
                 tn_dtype_name(x->dtype), x->storage->device->name,
                 tn__shape_text(then, entry->shape.ndim, entry->shape.dim),
                 tn_dtype_name(entry->dtype), entry->device->name);
        return false;
    }
    if (!entry->wanted)
        return true;
    struct tn__run *outer = tn__me.recompute;
    tn__me.recompute = NULL; /* store the tensor instead of giving it an
                                index */
    bool saved = tn__saved_value_set(&entry->saved, x, version);
    tn__me.recompute = outer;
    run->failed |= !saved;
    return saved;
}

static bool rerun_saves(tn__saved_value *saved, tn_tensor *x, uint32_t version,
                        bool *keep)
{
    struct tn__run *run = tn__me.recompute;
    /* In the first run the nodes do not store their values. In the second run
     * they do, because the function may call tn_grad itself, which needs the
     * values. */
    *keep = !run || run->again;
    if (!run)
        return true;
    return run->again ? fill_value(run, x, version)
                      : assign_number(run->rerun, saved, x);
}

static void rerun_forget(tn__rerun *rerun, uint32_t number)
{
    tn__saved_value saved = {NULL, NULL, 0};
    tn__lock_take(&rerun->lock);
    struct tn__rerun_entry *entry = &rerun->entry[number];
    entry->wanted = false;
    saved = entry->saved;
    entry->saved = (tn__saved_value){NULL, NULL, 0};
    tn__lock_give(&rerun->lock);
    tn__saved_value_release(&saved);
}

static const tn__saved_value *rerun_value(tn__rerun *rerun, uint32_t number)
{
    if (!rerun->complete)
        return tn__fail_null(TN_ERR_STATE,
                             "recompute: the function differentiates one of "
                             "its values before it has returned");
    tn__lock_take(&rerun->lock);
    tn_status status = TN_OK;
    if (!rerun->recomputed) {
        status = rerun->run_again(rerun);
        rerun->recomputed = status >= 0;
    }
    const tn__saved_value *saved = &rerun->entry[number].saved;
    tn__lock_give(&rerun->lock);
    return status < 0 ? NULL : saved;
}

/* ---- saved values ------------------------------------------------------- */

bool tn__saved_value_set(tn__saved_value *saved, tn_tensor *x, uint32_t version)
{
    bool keep = true;
    if (!rerun_saves(saved, x, version, &keep))
        return false;
    if (!keep)
        return true;
    saved->value = tn__tensor_alias(x);
    saved->version = version;
    if (!saved->value)
        return false;
    saved->value->apart = true; /* the saved alias gets no new node when its
                                 * memory is changed in place */
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
        rerun_forget(rerun, saved->version);
        tn__unref(rerun);
    }
}

tn_tensor *tn__saved_value_get(const tn__saved_value *saved, const char *who)
{
    if (saved->rerun) {
        saved = rerun_value(saved->rerun, saved->version);
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
