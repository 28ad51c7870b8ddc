/* prepare.c: lets the device prepare the constant weights of convolutions
 * (<tenon/plugin_extensions.h>: prepare of "conv"). A device keeps a prepared
 * weight in the layout in which it reads it, instead of changing the layout in
 * each call. */
#include <compile/freeze.h>

#include <base/error.h>
#include <base/memory.h>
#include <device/registry.h>
#include <device/work.h>

/* Returns whether a view is in a value that a frozen program may regard as a
 * constant. */
static bool is_constant(const tn__capture *c, const tn_strided *view)
{
    const int64_t at = view->offset * (int64_t)tn_dtype_bytes(view->dtype);
    for (size_t v = 0; v < c->value_count; v++) {
        const tn__captured_value *value = &c->value[v];
        if ((value->frozen || value->kind == TN__VALUE_CONSTANT) &&
            value->storage->block->buffer == view->buffer &&
            at >= value->origin && at < value->origin + value->bytes)
            return true;
    }
    return false;
}

static bool prepare(tn_device *device, tn__command *command,
                    tn__prepared_weights *all)
{
    const tn_conv_extension *extension =
        atomic_load_explicit(&device->conv, memory_order_acquire);
    if (!extension || !TN_HAS(tn_conv_extension, extension, prepared_free) ||
        !extension->prepare || !extension->prepared_free)
        return true;
    if (!tn__grow(&all->weight, &all->room, all->count, sizeof *all->weight))
        return false;
    tn__error before;
    tn__error_hide(&before);
    uint64_t bytes = 0;
    tn_prepared *handle = NULL;
    const tn_status status = extension->prepare(
        device->handle, &command->args.conv, &handle, &bytes);
    tn_error_clear();
    tn__error_restore(&before);
    /* A device that declines, or has no memory for it, does without. */
    if (status != TN_OK || !handle)
        return true;
    command->args.conv.prepared = handle;
    all->weight[all->count++] =
        (struct tn__prepared_weight){handle, extension->prepared_free};
    all->bytes += bytes;
    return true;
}

bool tn__prepare_weights(tn_device *device, tn__command *first,
                         const tn__capture *capture,
                         tn__prepared_weights *prepared)
{
    bool done = true;
    for (tn__command *p = first; p && done; p = p->next)
        if (p->kind == TN__WORK_CONV &&
            is_constant(capture, &p->args.conv.weight))
            done = prepare(device, p, prepared);
    return done;
}

void tn__prepared_release(tn_device *device, tn__prepared_weights *prepared)
{
    for (size_t i = 0; i < prepared->count; i++)
        prepared->weight[i].release(device->handle,
                                    prepared->weight[i].handle);
    tn__free(prepared->weight);
    *prepared = (tn__prepared_weights){0};
}
