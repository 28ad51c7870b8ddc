/* hyperparameters.c: the hyperparameters of a run as events of TensorBoard's
 * plugin "hparams". */
#include <media/run/event_file.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Fields of the plugin's messages (plugin_data.proto, api.proto). */
enum {
    CONTENT_EXPERIMENT = 2,
    CONTENT_SESSION_START = 3,
    CONTENT_SESSION_END = 4,
    EXPERIMENT_HPARAMS = 4,
    EXPERIMENT_METRICS = 5,
    HPARAM_NAME = 1,
    HPARAM_TYPE = 4,
    TYPE_STRING = 1,
    TYPE_FLOAT64 = 3,
    METRIC_NAME = 1,
    METRIC_NAME_TAG = 2,
    SESSION_HPARAMS = 1,
    SESSION_START_TIME = 5,
    END_STATUS = 1,
    STATUS_SUCCESS = 1,
    END_TIME = 2,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    VALUE_NUMBER = 2,
    VALUE_STRING = 3
};

static const char call[] = "events_hyperparameters";

static tn_status refuse(const char *argument, int i, const char *why)
{
    return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, argument,
                                    "%s[%d] %s", argument, i, why);
}

static tn_status check(const tn_hyperparameter *parameters, int count,
                       const char *const *metrics, int metric_count)
{
    if (count < 0 || metric_count < 0)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, count < 0 ? "count" : "metric_count",
            "count is %d, metric_count %d; expected at least 0", count,
            metric_count);
    if (!parameters && count)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "parameters",
                                        "parameters is NULL");
    if (!metrics && metric_count)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "metrics",
                                        "metrics is NULL");
    for (int i = 0; i < count; i++) {
        const tn_hyperparameter *p = &parameters[i];
        if (!p->name || !*p->name)
            return refuse("parameters", i, "has no name");
        if (!tn__events_utf8(p->name) || (p->text && !tn__events_utf8(p->text)))
            return refuse("parameters", i, "is not valid UTF-8");
        for (int k = 0; k < i; k++)
            if (strcmp(p->name, parameters[k].name) == 0)
                return refuse("parameters", i,
                              "has the name of an earlier parameter");
    }
    for (int i = 0; i < metric_count; i++) {
        if (!metrics[i] || !*metrics[i])
            return refuse("metrics", i, "is NULL or empty");
        if (!tn__events_utf8(metrics[i]))
            return refuse("metrics", i, "is not valid UTF-8");
    }
    return TN_OK;
}

/* Writes one event of the plugin, whose content is freed. */
static tn_status add(tn_events *events, const char *tag, unsigned field,
                     tn__message *content)
{
    tn__message m = {0}, metadata = {0}, plugin = {0}, all = {0};
    tn__message_put(&all, field, content);
    tn__message_text(&plugin, PLUGIN_DATA_NAME, "hparams");
    tn__message_put(&plugin, PLUGIN_DATA_CONTENT, &all);
    tn__message_put(&metadata, METADATA_PLUGIN_DATA, &plugin);
    tn__message_text(&m, VALUE_TAG, tag);
    tn__message_put(&m, VALUE_METADATA, &metadata);
    return tn__events_append(events, call, 0, &m);
}

static tn__message experiment(const tn_hyperparameter *parameters, int count,
                              const char *const *metrics, int metric_count)
{
    tn__message all = {0};
    for (int i = 0; i < count; i++) {
        tn__message info = {0};
        tn__message_text(&info, HPARAM_NAME, parameters[i].name);
        tn__message_whole(&info, HPARAM_TYPE,
                          parameters[i].text ? TYPE_STRING : TYPE_FLOAT64);
        tn__message_put(&all, EXPERIMENT_HPARAMS, &info);
    }
    for (int i = 0; i < metric_count; i++) {
        tn__message name = {0}, info = {0};
        tn__message_text(&name, METRIC_NAME_TAG, metrics[i]);
        tn__message_put(&info, METRIC_NAME, &name);
        tn__message_put(&all, EXPERIMENT_METRICS, &info);
    }
    return all;
}

static tn__message session(const tn_hyperparameter *parameters, int count)
{
    tn__message all = {0};
    for (int i = 0; i < count; i++) {
        tn__message entry = {0}, value = {0};
        tn__message_text(&entry, ENTRY_KEY, parameters[i].name);
        if (parameters[i].text)
            tn__message_text(&value, VALUE_STRING, parameters[i].text);
        else
            tn__message_double(&value, VALUE_NUMBER, parameters[i].number);
        tn__message_put(&entry, ENTRY_VALUE, &value);
        tn__message_put(&all, SESSION_HPARAMS, &entry);
    }
    tn__message_double(&all, SESSION_START_TIME, (double)time(NULL));
    return all;
}

tn_status tn_events_hyperparameters(tn_events *events,
                                    const tn_hyperparameter *parameters,
                                    int count, const char *const *metrics,
                                    int metric_count)
{
    tn_status status = tn__events_check(events, call, "hparams", 0);
    if (status == TN_OK)
        status = check(parameters, count, metrics, metric_count);
    if (status < 0)
        return status;
    tn__message part = experiment(parameters, count, metrics, metric_count);
    status = add(events, "_hparams_/experiment", CONTENT_EXPERIMENT, &part);
    if (status < 0)
        return status;
    part = session(parameters, count);
    status = add(events, "_hparams_/session_start_info", CONTENT_SESSION_START,
                 &part);
    if (status < 0)
        return status;
    part = (tn__message){0};
    tn__message_whole(&part, END_STATUS, STATUS_SUCCESS);
    tn__message_double(&part, END_TIME, (double)time(NULL));
    return add(events, "_hparams_/session_end_info", CONTENT_SESSION_END,
               &part);
}
