/* events.c: scalars, epochs and texts as events. */
#include <media/run/event_file.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/optim.h>

static tn_status add_scalar(tn_events *events, const char *call,
                            const char *tag, double value, int64_t step)
{
    tn__message m = {0};
    tn__message_text(&m, VALUE_TAG, tag);
    tn__message_float(&m, VALUE_SIMPLE_VALUE, (float)value);
    return tn__events_append(events, call, step, &m);
}

tn_status tn_events_scalar(tn_events *events, const char *tag, double value,
                           int64_t step)
{
    static const char call[] = "events_scalar";
    const tn_status status = tn__events_check(events, call, tag, step);
    return status < 0 ? status : add_scalar(events, call, tag, value, step);
}

tn_status tn_events_epoch(tn_events *events, const tn_train_state *state)
{
    static const char call[] = "events_epoch";
    tn_status status = tn__events_check(events, call, "loss/train", 0);
    if (status < 0)
        return status;
    if (!state)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "state",
                                        "state is NULL");
    const int64_t epoch = state->epoch + 1;
    const struct {
        const char *tag;
        double value;
    } scalar[] = {{"loss/train", state->loss},
                  {"loss/validation", state->validation_loss},
                  {"monitored", state->monitored},
                  {"lr", tn_optim_lr(state->optim)}};
    for (size_t i = 0; i < sizeof scalar / sizeof *scalar; i++)
        if (status == TN_OK && (i == 0 || !isnan(scalar[i].value)))
            status = add_scalar(events, call, scalar[i].tag, scalar[i].value,
                                epoch);
    return status;
}

tn_status tn_events_text(tn_events *events, const char *tag, const char *text,
                         int64_t step)
{
    static const char call[] = "events_text";
    tn_status status = tn__events_check(events, call, tag, step);
    if (status < 0)
        return status;
    if (!text || !tn__events_utf8(text))
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "text", "text is %s",
                                        text ? "not valid UTF-8" : "NULL");
    /* TensorBoard expects this ending of the tag, which SummaryWriter appends,
     * too. */
    char *full = malloc(strlen(tag) + sizeof "/text_summary");
    if (!full)
        return tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL,
                                        "out of memory");
    strcat(strcpy(full, tag), "/text_summary");
    tn__message m = {0}, metadata = {0}, plugin = {0};
    tn__message dim = {0}, shape = {0}, tensor = {0};
    tn__message_text(&m, VALUE_TAG, full);
    free(full);
    tn__message_text(&plugin, PLUGIN_DATA_NAME, "text");
    tn__message_put(&metadata, METADATA_PLUGIN_DATA, &plugin);
    tn__message_put(&m, VALUE_METADATA, &metadata);
    tn__message_whole(&tensor, TENSOR_DTYPE, DT_STRING);
    tn__message_whole(&dim, DIM_SIZE, 1);
    tn__message_put(&shape, SHAPE_DIM, &dim);
    tn__message_put(&tensor, TENSOR_SHAPE, &shape);
    tn__message_text(&tensor, TENSOR_STRING_VAL, text);
    tn__message_put(&m, VALUE_TENSOR, &tensor);
    return tn__events_append(events, call, step, &m);
}
