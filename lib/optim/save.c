/* save.c: an optimizer's state in a safetensors file. Tensors carry the names
 * of their parameters; steps and rates are JSON in the metadata, where 17
 * digits bring every double back as it was. */
#include <optim/optim.h>

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/io.h>
#include <tenon/ops.h>

static const struct {
    const char *name;
    size_t at;
} rate_fields[] = {
    {"lr", offsetof(tn__optim_rates, lr)},
    {"initial_lr", offsetof(tn__optim_rates, initial_lr)},
    {"momentum", offsetof(tn__optim_rates, momentum)},
    {"weight_decay", offsetof(tn__optim_rates, weight_decay)},
};
enum { RATE_FIELDS = sizeof rate_fields / sizeof *rate_fields };

/* The tensors of a state with their names, as the file's calls want them. Of
 * parameters that have made a step: the others have none. */
typedef struct list {
    tn_object object;
    int count;
    tn_tensor **tensor; /* lent by the optimizer, or made for it */
    const char **name;
    char *names; /* where the next name goes */
} list;

static const tn_object_class list_class = {sizeof list_class,
                                           "optimizer state", sizeof(list),
                                           NULL};

static size_t name_of(char *out, size_t room, int group,
                      const char *parameter, const char *slot)
{
    return (size_t)snprintf(out, room, "%d.%s.%s", group, parameter, slot) + 1;
}

static tn_status out_of_memory(const char *call)
{
    return tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
}

/* Room for the state of an optimizer with all its slots. */
static list *list_new(const tn_optim *optim)
{
    size_t count = 0, bytes = 0;
    int group = 0;
    for (const tn__optim_group *g = optim->first; g; g = g->next, group++) {
        for (int i = 0; i < tn_parameters_count(g->parameters); i++) {
            for (int k = 0; k < optim->rule->slots; k++, count++)
                bytes += name_of(NULL, 0, group,
                                 tn_parameters_name(g->parameters, i),
                                 optim->rule->slot_name[k]);
        }
    }
    list *l = tn_object_new(&list_class, count * 2 * sizeof(void *) + bytes);
    if (!l)
        return NULL;
    l->tensor = (tn_tensor **)(l + 1);
    l->name = (const char **)(l->tensor + count);
    l->names = (char *)(l->name + count);
    return l;
}

static const char *add_name(list *l, int group, const char *parameter,
                            const char *slot)
{
    const char *name = l->names;
    /* list_new measured this very text */
    l->names += name_of(l->names, INT_MAX, group, parameter, slot);
    l->name[l->count++] = name;
    return name;
}

/* ---- saving ------------------------------------------------------------- */

static list *state_of(const tn_optim *optim)
{
    list *l = list_new(optim);
    int group = 0;
    for (const tn__optim_group *g = optim->first; l && g;
         g = g->next, group++) {
        for (int i = 0; i < tn_parameters_count(g->parameters); i++) {
            const tn__optim_state *state = &g->state[i];
            if (state->progress.steps == 0)
                continue;
            for (int k = 0; k < optim->rule->slots; k++) {
                l->tensor[l->count] = state->slot[k];
                add_name(l, group, tn_parameters_name(g->parameters, i),
                         optim->rule->slot_name[k]);
            }
        }
    }
    return l;
}

/* JSON that grows. Written here: without memory jansson 2.14 leaves a key out or
 * gets the last digits of a number wrong, and says that all went well. */
typedef struct json_text {
    char *at; /* owned; malloc'ed */
    size_t count, room;
    bool failed, not_finite;
} json_text;

static void add(json_text *t, const char *piece)
{
    size_t length = strlen(piece) + 1;
    if (!t->failed && t->room - t->count < length) {
        size_t room = 2 * (t->room + length);
        char *at = realloc(t->at, room);
        t->failed = !at;
        t->at = at ? at : t->at;
        t->room = at ? room : t->room;
    }
    if (t->failed)
        return;
    memcpy(t->at + t->count, piece, length);
    t->count += length - 1;
}

/* 17 digits, rounded to nearest, bring a double back as it was. What the program's
 * locale writes between them is a point in JSON, and a real number has one or an
 * exponent. */
static void add_real(json_text *t, double value)
{
    char digits[48], out[48];
    size_t count = 0;
    bool real = false, in_point = false;
    const int rounding = tn__optim_nearest_begin();
    snprintf(digits, sizeof digits, "%.17g", value);
    tn__optim_nearest_end(rounding);
    for (const char *c = digits; *c; c++) {
        bool point = !strchr("0123456789+-e", *c);
        if (!point || !in_point)
            out[count++] = point ? '.' : *c;
        in_point = point;
        real |= point || *c == 'e';
    }
    out[count] = '\0';
    t->not_finite |= !isfinite(value);
    add(t, out);
    if (!real)
        add(t, ".0");
}

static double rate_of(const tn__optim_group *group, const char *name)
{
    double value = 0;
    for (int i = 0; i < RATE_FIELDS; i++)
        if (strcmp(rate_fields[i].name, name) == 0)
            memcpy(&value, (const char *)&group->rates + rate_fields[i].at,
                   sizeof value);
    return value;
}

static void add_rate(json_text *t, const tn__optim_group *group, const char *name)
{
    add(t, "\"");
    add(t, name);
    add(t, "\":");
    add_real(t, rate_of(group, name));
}

/* Keys in the order of the alphabet. */
static void add_group(json_text *t, const tn__optim_group *group)
{
    int count = tn_parameters_count(group->parameters);
    add(t, "{");
    add_rate(t, group, "initial_lr");
    add(t, ",");
    add_rate(t, group, "lr");
    add(t, ",\"memory\":[");
    for (int i = 0; i < count; i++) {
        add(t, i ? "," : "");
        add_real(t, group->state[i].progress.memory);
    }
    add(t, "],");
    add_rate(t, group, "momentum");
    add(t, ",\"steps\":[");
    for (int i = 0; i < count; i++) {
        char number[32];
        snprintf(number, sizeof number, "%s%lld", i ? "," : "",
                 (long long)group->state[i].progress.steps);
        add(t, number);
    }
    add(t, "],");
    add_rate(t, group, "weight_decay");
    add(t, "}");
}

/* The text for the metadata, malloc'ed; NULL with the error recorded. */
static char *text_of(const tn_optim *optim, const char *call)
{
    json_text t = {0};
    add(&t, "{\"groups\":[");
    for (const tn__optim_group *g = optim->first; g; g = g->next) {
        add(&t, g == optim->first ? "" : ",");
        add_group(&t, g);
    }
    add(&t, "],\"rule\":\"");
    add(&t, optim->rule->name);
    add(&t, "\"}");
    if (!t.failed && !t.not_finite)
        return t.at;
    if (t.failed)
        out_of_memory(call);
    else
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "optim",
                                 "a rate or a memory of its is not finite, "
                                 "which a file cannot hold");
    free(t.at);
    return NULL;
}

/* LBFGS has a past that is no state of parameters. */
static tn_status check_call(const char *call, const tn_optim *optim,
                            const char *path)
{
    if (!tn__optim_is(optim, call))
        return tn_error_code();
    if (!path)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "path",
                                        "path is NULL");
    if (optim->rule->closure)
        return tn_error_refuse_argument(TN_ERR_UNSUPPORTED, call, "optim",
                                        "the history of %s is not saved",
                                        optim->rule->name);
    return TN_OK;
}

tn_status tn_optim_save(const tn_optim *optim, const char *path)
{
    if (tn_error())
        return TN_ERR_STATE;
    tn_status status = check_call("optim_save", optim, path);
    if (status < 0)
        return status;
    tn_scope *scope = tn_scope_open();
    list *l = state_of(optim);
    char *text = l ? text_of(optim, "optim_save") : NULL;
    if (text) {
        const char *const metadata[][2] = {{"optimizer", text}};
        status = tn_safetensors_save(path, l->name, l->tensor, l->count,
                                     metadata, 1);
        tn_error_rename("safetensors_save", "optim_save",
                        status == TN_ERR_IO ? "path" : "optim");
    } else {
        status = tn_error_code();
    }
    free(text);
    tn_scope_close(scope);
    return status;
}

/* ---- loading ------------------------------------------------------------ */

static tn_status bad_file(const char *path, const char *what)
{
    return tn_error_refuse_argument(TN_ERR_FORMAT, "optim_load", "path",
                                    "%s: %s", path, what);
}

static tn_status check_group(const tn__optim_group *group, int number,
                             const json_t *json, const char *path)
{
    for (int i = 0; i < RATE_FIELDS; i++) {
        const json_t *value = json_object_get(json, rate_fields[i].name);
        if (!json_is_number(value) || !isfinite(json_number_value(value)))
            return bad_file(path, "a group lacks its rates");
    }
    const json_t *steps = json_object_get(json, "steps");
    const json_t *memory = json_object_get(json, "memory");
    int count = tn_parameters_count(group->parameters);
    if (json_array_size(steps) != (size_t)count)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "optim_load", "path",
            "%s: group %d has %d parameters, in the file %zu", path, number,
            count, json_array_size(steps));
    if (json_array_size(memory) != (size_t)count)
        return bad_file(path, "a group lacks its memory");
    for (size_t i = 0; i < (size_t)count; i++) {
        const json_t *step = json_array_get(steps, i);
        if (!json_is_integer(step) || json_integer_value(step) < 0 ||
            json_integer_value(step) > INT64_MAX / 2 || /* room to go on */
            !json_is_number(json_array_get(memory, i)))
            return bad_file(path, "steps or memory hold something else than "
                                  "numbers");
    }
    return TN_OK;
}

/* Are rule and groups those of the optimizer? */
static tn_status check_text(const tn_optim *optim, const json_t *top,
                            const char *path)
{
    const char *rule = json_string_value(json_object_get(top, "rule"));
    const json_t *groups = json_object_get(top, "groups");
    if (!rule || !json_is_array(groups))
        return bad_file(path, "no \"optimizer\" in its metadata: not written "
                              "by tn_optim_save");
    if (strncmp(rule, "optim_", 6) != 0)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "optim_load", "path",
            "%s: the state of %s, of an earlier version of Tenon: go on with "
            "that version, or save the weights alone with it (tn_module_save) "
            "and begin with a new %s",
            path, rule, optim->rule->name);
    if (strcmp(rule, optim->rule->name) != 0)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, "optim_load", "path",
                                        "%s: the state of %s, not of %s", path,
                                        rule, optim->rule->name);
    if (json_array_size(groups) != (size_t)tn_optim_group_count(optim))
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, "optim_load", "path",
                                        "%s: %zu groups; the optimizer has %d",
                                        path, json_array_size(groups),
                                        tn_optim_group_count(optim));
    int number = 0;
    tn_status status = TN_OK;
    for (const tn__optim_group *g = optim->first; g && status == TN_OK;
         g = g->next, number++)
        status = check_group(g, number, json_array_get(groups, (size_t)number),
                             path);
    return status;
}

/* The tensor of that name, where its parameter is; NULL if it does not fit. */
static tn_tensor *read_slot(tn_safetensors *file, const char *path,
                            const char *name, tn_tensor *p)
{
    if (!tn_safetensors_has(file, name)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "optim_load", "path",
                                 "%s: the file has no \"%s\"", path, name);
        return NULL;
    }
    tn_tensor *x = tn_safetensors_tensor(file, name);
    if (!x)
        return NULL;
    bool same = tn_tensor_dtype(x) == tn_tensor_dtype(p) &&
                tn_tensor_ndim(x) == tn_tensor_ndim(p);
    for (int i = 0; same && i < tn_tensor_ndim(p); i++)
        same = tn_tensor_shape(x)[i] == tn_tensor_shape(p)[i];
    if (!same) {
        tn_error_refuse_argument(
            TN_ERR_SHAPE, "optim_load", "path",
            "%s: \"%s\" has another shape or dtype than its parameter", path,
            name);
        return NULL;
    }
    return tn_to(x, tn_tensor_device(p));
}

static const json_t *in_group(const json_t *groups, int group,
                              const char *field, int i)
{
    return json_array_get(
        json_object_get(json_array_get(groups, (size_t)group), field),
        (size_t)i);
}

/* All tensors that the file should have, in the optimizer's order. */
static tn_status read_all(const tn_optim *optim, const json_t *groups,
                          tn_safetensors *file, const char *path, list *l)
{
    int group = 0;
    for (const tn__optim_group *g = optim->first; g; g = g->next, group++) {
        for (int i = 0; i < tn_parameters_count(g->parameters); i++) {
            if (json_integer_value(in_group(groups, group, "steps", i)) == 0)
                continue;
            for (int k = 0; k < optim->rule->slots; k++) {
                int at = l->count;
                const char *name =
                    add_name(l, group, tn_parameters_name(g->parameters, i),
                             optim->rule->slot_name[k]);
                l->tensor[at] = read_slot(file, path, name,
                                          tn_parameters_at(g->parameters, i));
                if (!l->tensor[at])
                    return tn_error_code();
            }
        }
    }
    if (tn_safetensors_count(file) != l->count)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, "optim_load", "path",
                                        "%s: %d tensors; the optimizer has %d",
                                        path, tn_safetensors_count(file),
                                        l->count);
    return TN_OK;
}

/* Cannot fail: nothing is changed before all is there. */
static void take_all(tn_optim *optim, const json_t *groups, const list *l)
{
    int group = 0, next = 0;
    for (tn__optim_group *g = optim->first; g; g = g->next, group++) {
        const json_t *json = json_array_get(groups, (size_t)group);
        for (int i = 0; i < RATE_FIELDS; i++) {
            double value = json_number_value(
                json_object_get(json, rate_fields[i].name));
            memcpy((char *)&g->rates + rate_fields[i].at, &value,
                   sizeof value);
        }
        for (int i = 0; i < tn_parameters_count(g->parameters); i++) {
            tn__optim_state *state = &g->state[i];
            state->progress.steps =
                json_integer_value(in_group(groups, group, "steps", i));
            state->progress.memory =
                json_number_value(in_group(groups, group, "memory", i));
            for (int k = 0; k < optim->rule->slots; k++) {
                tn_drop(state->slot[k]);
                state->slot[k] = state->progress.steps
                                     ? tn_keep(l->tensor[next++])
                                     : NULL;
            }
        }
    }
}

static tn_status load_file(tn_optim *optim, tn_safetensors *file)
{
    const char *path = tn_safetensors_path(file);
    list *l = file ? list_new(optim) : NULL;
    if (!l)
        return tn_error_code();
    const char *text = tn_safetensors_metadata(file, "optimizer");
    json_t *top = text ? json_loads(text, 0, NULL) : NULL;
    json_t *again = text ? json_loads(text, 0, NULL) : NULL;
    const json_t *groups = json_object_get(top, "groups");
    /* Read twice: without memory jansson 2.14 may report bad syntax, or no error
     * and other digits. */
    tn_status status = top == again || json_equal(top, again)
                           ? check_text(optim, top, path)
                           : out_of_memory("optim_load");
    json_decref(again);
    TN_NO_GRAD {
        if (status == TN_OK)
            status = read_all(optim, groups, file, path, l);
    }
    if (status == TN_OK)
        take_all(optim, groups, l);
    tn_error_rename("safetensors_tensor", "optim_load", "path");
    json_decref(top);
    return status;
}

tn_status tn_optim_load(tn_optim *optim, const char *path)
{
    if (tn_error())
        return TN_ERR_STATE;
    tn_status status = check_call("optim_load", optim, path);
    if (status < 0)
        return status;
    tn_scope *scope = tn_scope_open();
    status = load_file(optim, tn_safetensors_open(path));
    tn_error_rename("safetensors_open", "optim_load", "path");
    tn_scope_close(scope);
    return status;
}

/* ---- as part of a file that holds more ---------------------------------- */

char *tn_optim_state(const tn_optim *optim, tn_optim_state_visit visit,
                     void *context)
{
    if (check_call("optim_state", optim, "") < 0)
        return NULL;
    if (!visit) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "optim_state", "visit",
                                 "visit is NULL");
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    list *l = state_of(optim);
    char *text = l ? text_of(optim, "optim_state") : NULL;
    for (int i = 0; text && i < l->count; i++)
        visit(l->name[i], l->tensor[i], context);
    tn_scope_close(scope);
    return text;
}

tn_status tn_optim_load_part(tn_optim *optim, struct tn_safetensors *part)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn_object_check_kind(part, "safetensors file", "optim_load_part",
                              "part"))
        return tn_error_code();
    tn_status status =
        check_call("optim_load_part", optim, tn_safetensors_path(part));
    if (status < 0)
        return status;
    tn_scope *scope = tn_scope_open();
    status = load_file(optim, part);
    tn_error_rename("optim_load", "optim_load_part", "part");
    tn_scope_close(scope);
    return status;
}
