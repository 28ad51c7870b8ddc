/* load_state.c: loads an optimizer's state from a file of save_state.c, or from
 * pieces that the caller reads. Everything is read and checked before the
 * optimizer changes. */
#include <json/json.h>
#include <optim/state_list.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/io.h>
#include <tenon/ops.h>

/* Where the state comes from. */
typedef struct source {
    const char *path;       /* for messages */
    const char *text;       /* the metadata; NULL if there are none */
    tn_safetensors *file;   /* NULL: read */
    tn_optim_piece_fn read;
    void *context;
} source;

static tn_status bad_file(const char *path, const char *what)
{
    return tn_error_refuse_argument(TN_ERR_FORMAT, "optim_load", "path",
                                    "%s: %s", path, what);
}

/* What the metadata of a file contains: the rates of each group, steps and
 * memory of each parameter in the optimizer's order, and the state of LBFGS. */
typedef struct saved {
    double (*rates)[TN__OPTIM_RATE_FIELDS];
    int64_t *steps;
    double *memory;
    tn__lbfgs *history; /* owned by the scope; NULL if there is none */
} saved;

static bool saved_make(saved *s, const tn_optim *optim)
{
    size_t parameters = 0, groups = 0;
    for (const tn__optim_group *g = optim->first; g; g = g->next, groups++)
        parameters += (size_t)tn_parameters_count(g->parameters);
    s->rates = calloc(groups + 1, sizeof *s->rates);
    s->steps = calloc(parameters + 1, sizeof *s->steps);
    s->memory = calloc(parameters + 1, sizeof *s->memory);
    return s->rates && s->steps && s->memory;
}

static void saved_free(saved *s)
{
    free(s->rates);
    free(s->steps);
    free(s->memory);
}

/* Reads the group with index `number`, whose first parameter has index
 * `first`. */
static tn_status read_group(saved *s, const tn__optim_group *group, int number,
                            size_t first, const tn__json_value *json,
                            const char *path)
{
    for (int i = 0; i < TN__OPTIM_RATE_FIELDS; i++)
        if (!tn__json_real(tn__json_get(json, tn__optim_rate_fields[i].name),
                           &s->rates[number][i]))
            return bad_file(path, "a group lacks its rates");
    const tn__json_value *steps = tn__json_get(json, "steps");
    const tn__json_value *memory = tn__json_get(json, "memory");
    const size_t count = (size_t)tn_parameters_count(group->parameters);
    const size_t in_file = tn__json_is(steps, TN__JSON_LIST) ? steps->count : 0;
    if (in_file != count)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "optim_load", "path",
            "%s: group %d has %zu parameters, but %zu in the file", path,
            number, count, in_file);
    if (!tn__json_is(memory, TN__JSON_LIST) || memory->count != count)
        return bad_file(path, "a group lacks its memory");
    size_t i = first;
    TN__JSON_EACH(step, steps)
    {
        if (step->kind != TN__JSON_INTEGER || step->integer < 0 ||
            step->integer > INT64_MAX / 2) /* later steps must not overflow the
                                              counter */
            return bad_file(path,
                            "\"steps\" holds a value that is not a count");
        s->steps[i++] = step->integer;
    }
    i = first;
    TN__JSON_EACH(value, memory)
    if (!tn__json_real(value, &s->memory[i++]))
        return bad_file(path, "\"memory\" holds a value that is not a number");
    return TN_OK;
}

/* Reads the numbers of the state of LBFGS. */
static tn_status read_history(saved *s, const tn_optim *optim,
                              const tn__json_value *json, const char *path)
{
    if (!json)
        return TN_OK;
    const tn__json_value *iterations = tn__json_get(json, "iterations");
    const tn__json_value *rho = tn__json_get(json, "rho");
    if (!optim->rule->closure || !tn__json_is(rho, TN__JSON_LIST) ||
        !tn__json_is(iterations, TN__JSON_INTEGER) || iterations->integer < 1 ||
        iterations->integer > INT64_MAX / 2)
        return bad_file(path, "\"history\" is not that of an optimizer");
    const int capacity = optim->options.lbfgs.history_size;
    if (rho->count > (size_t)capacity)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "optim_load", "path",
            "%s: the file has a history of %zu steps, but history_size is %d",
            path, rho->count, capacity);
    tn__lbfgs *h = tn__lbfgs_new(capacity);
    if (!h)
        return tn_error_code();
    h->iterations = iterations->integer;
    if (!tn__json_real(tn__json_get(json, "loss"), &h->loss) ||
        !tn__json_real(tn__json_get(json, "scale"), &h->scale) ||
        !tn__json_real(tn__json_get(json, "t"), &h->t))
        return bad_file(path, "\"history\" lacks a number");
    TN__JSON_EACH(value, rho)
    if (!tn__json_real(value, &h->ring[h->count++].rho))
        return bad_file(path, "\"rho\" holds a value that is not a number");
    s->history = h;
    return TN_OK;
}

/* Reads the metadata. Fails if rule and groups differ from those of the
 * optimizer. */
static tn_status read_text(saved *s, const tn_optim *optim,
                           const tn__json_value *top, const char *path)
{
    const char *rule = tn__json_text(tn__json_get(top, "rule"));
    const tn__json_value *groups = tn__json_get(top, "groups");
    if (!rule || !tn__json_is(groups, TN__JSON_LIST))
        return bad_file(path, "no \"optimizer\" in its metadata: not written "
                              "by tn_optim_save");
    if (strncmp(rule, "optim_", 6) != 0)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "optim_load", "path",
            "%s: the state of %s is of an earlier version of Tenon: continue "
            "with that version, or save only the weights with it "
            "(tn_module_save) and start a new %s",
            path, rule, optim->rule->name);
    if (strcmp(rule, optim->rule->name) != 0)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, "optim_load", "path",
                                        "%s: the file has the state of %s; "
                                        "expected %s",
                                        path, rule, optim->rule->name);
    if (groups->count != (size_t)tn_optim_group_count(optim))
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, "optim_load", "path",
                                        "%s: the file has %zu groups, but the "
                                        "optimizer has %d",
                                        path, groups->count,
                                        tn_optim_group_count(optim));
    const tn__json_value *json = groups->first;
    int number = 0;
    size_t first = 0;
    tn_status status = TN_OK;
    for (const tn__optim_group *g = optim->first; g && status == TN_OK;
         g = g->next, json = json->next, number++) {
        status = read_group(s, g, number, first, json, path);
        first += (size_t)tn_parameters_count(g->parameters);
    }
    return status == TN_OK
               ? read_history(s, optim, tn__json_get(top, "history"), path)
               : status;
}

/* Reads the state from the metadata, which is JSON. Metadata that is not JSON
 * was not written by tn_optim_save. */
static tn_status read_metadata(saved *s, const tn_optim *optim,
                               const source *from)
{
    const char *path = from->path, *text = from->text;
    if (!text)
        return read_text(s, optim, NULL, path);
    const size_t bytes = strlen(text);
    char *copy = malloc(bytes + 1);
    if (!copy || !saved_make(s, optim)) {
        free(copy);
        return tn__optim_no_memory("optim_load");
    }
    memcpy(copy, text, bytes);
    tn__json json = {.take = malloc, .give = free};
    const tn__json_value *top = tn__json_read(&json, copy, bytes);
    tn_status status = !top && !*json.error ? tn__optim_no_memory("optim_load")
                                            : read_text(s, optim, top, path);
    tn__json_free(&json);
    free(copy);
    return status;
}

/* Reads the tensor `name` to the device of parameter p. Fails if its shape or
 * dtype differs from what the slot requires. */
static tn_tensor *read_whole(tn_safetensors *file, const char *path,
                             const char *name, const tn_dims_list *shape,
                             tn_tensor *p)
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
                tn_tensor_ndim(x) == shape->count;
    for (int i = 0; same && i < shape->count; i++)
        same = tn_tensor_shape(x)[i] == shape->dim[i];
    if (!same) {
        tn_error_refuse_argument(
            TN_ERR_SHAPE, "optim_load", "path",
            "%s: \"%s\" has another shape or dtype than its parameter", path,
            name);
        return NULL;
    }
    return x;
}

/* Reads entry `at` of the list: of `count` elements from the offset, or of all
 * if count is negative. */
static tn_tensor *read_entry(const source *from, const tn__optim_list *l, int at,
                             int64_t count, tn_tensor *p)
{
    const tn_dims_list *shape = &l->shape[at];
    tn_tensor *x = NULL;
    if (from->file) {
        x = read_whole(from->file, from->path, l->name[at], shape, p);
        if (x && count >= 0) /* a copy, so that the rest is freed */
            x = tn_clone(tn_narrow(tn_view(x, tn_dims(-1)), 0, l->offset[at],
                                   count));
        return tn_to(x, tn_tensor_device(p));
    }
    x = tn_empty(count < 0 ? *shape : tn_dims(count),
                 .dtype = tn_tensor_dtype(p), .device = tn_tensor_device(p));
    if (!x || from->read(&(tn_optim_piece){sizeof(tn_optim_piece), l->name[at],
                                           *shape, l->offset[at], x},
                         from->context) < 0)
        return NULL;
    return x;
}

/* Reads all tensors of the optimizer's state, in its order, into the list l. */
static tn_status read_all(const tn_optim *optim, const saved *s,
                          const source *from, tn__optim_list *l)
{
    int group = 0, whole = 0;
    size_t first = 0;
    for (const tn__optim_group *g = optim->first; g; g = g->next, group++) {
        const int count = tn_parameters_count(g->parameters);
        for (int i = 0; i < count; i++) {
            tn_tensor *p = tn_parameters_at(g->parameters, i);
            const bool cut = tn__optim_is_cut(optim, &g->state[i], p);
            const int64_t elements = cut ? g->state[i].range.count : -1;
            if (s->steps[first + (size_t)i] == 0)
                continue;
            for (int k = 0; k < optim->rule->slots; k++) {
                tn_dims_list shape;
                if (!tn__optim_slot_shape(optim->rule, p, k, &shape))
                    continue;
                whole++;
                if (elements == 0)
                    continue;
                const int at = l->count;
                tn__optim_list_slot(l, group, g, i, k);
                l->tensor[at] = read_entry(from, l, at, elements, p);
                if (!l->tensor[at])
                    return tn_error_code();
            }
        }
        first += (size_t)count;
    }
    if (s->history) {
        tn_tensor *p = tn_parameters_at(optim->first->parameters, 0);
        tn_dims_list shape = {1, {0}};
        for (int i = 0; i < tn_parameters_count(optim->first->parameters); i++)
            shape.dim[0] +=
                tn_tensor_numel(tn_parameters_at(optim->first->parameters, i));
        for (int i = 0; i < 2 + 2 * s->history->count; i++, whole++) {
            const int at = l->count;
            tn__optim_list_history_name(l, i);
            l->shape[at] = shape;
            tn_tensor *x = read_entry(from, l, at, -1, p);
            if (!x)
                return tn_error_code();
            *tn__optim_history_tensor(s->history, i) = tn_keep(x);
        }
    }
    if (from->file && tn_safetensors_count(from->file) != whole)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, "optim_load", "path",
                                        "%s: the file has %d tensors, but the "
                                        "optimizer has %d",
                                        from->path,
                                        tn_safetensors_count(from->file), whole);
    return TN_OK;
}

/* Stores the loaded state in the optimizer. This is done after everything has
 * been read and cannot fail, so a failed load changes nothing. */
static void apply_all(tn_optim *optim, const saved *s, const tn__optim_list *l)
{
    int group = 0, next = 0;
    size_t parameter = 0;
    optim->version++;
    if (optim->rule->closure) {
        tn_drop(optim->history);
        optim->history = tn_keep(s->history);
    }
    for (tn__optim_group *g = optim->first; g; g = g->next, group++) {
        for (int i = 0; i < TN__OPTIM_RATE_FIELDS; i++)
            memcpy((char *)&g->rates + tn__optim_rate_fields[i].at,
                   &s->rates[group][i], sizeof(double));
        for (int i = 0; i < tn_parameters_count(g->parameters);
             i++, parameter++) {
            tn__optim_state *state = &g->state[i];
            state->progress.steps = s->steps[parameter];
            state->progress.memory = s->memory[parameter];
            for (int k = 0; k < optim->rule->slots; k++) {
                tn_dims_list shape;
                tn_tensor *p = tn_parameters_at(g->parameters, i);
                bool here = state->progress.steps &&
                            tn__optim_slot_shape(optim->rule, p, k, &shape) &&
                            !(tn__optim_is_cut(optim, state, p) &&
                              state->range.count == 0);
                tn_drop(state->slot[k]);
                state->slot[k] = here ? tn_keep(l->tensor[next++]) : NULL;
            }
        }
    }
}

static tn_status load_from(tn_optim *optim, const source *from)
{
    tn__optim_list *l = tn__optim_list_new(optim);
    if (!l)
        return tn_error_code();
    saved s = {0};
    tn_status status = read_metadata(&s, optim, from);
    TN_NO_GRAD
    {
        if (status == TN_OK)
            status = read_all(optim, &s, from, l);
    }
    if (status == TN_OK)
        apply_all(optim, &s, l);
    tn_error_rename("safetensors_tensor", "optim_load", "path");
    saved_free(&s);
    return status;
}

static tn_status load_file(tn_optim *optim, tn_safetensors *file)
{
    if (!file)
        return tn_error_code();
    return load_from(optim,
                     &(source){.path = tn_safetensors_path(file),
                               .text = tn_safetensors_metadata(file, "optimizer"),
                               .file = file});
}

tn_status tn_optim_load(tn_optim *optim, const char *path)
{
    if (tn_error())
        return TN_ERR_STATE;
    tn_status status = tn__optim_check_file("optim_load", optim, path);
    if (status < 0)
        return status;
    tn_scope *scope = tn_scope_open();
    status = load_file(optim, tn_safetensors_open(path));
    tn_error_rename("safetensors_open", "optim_load", "path");
    tn_scope_close(scope);
    return status;
}

tn_status tn_optim_load_part(tn_optim *optim, struct tn_safetensors *part)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn_object_check_kind(part, "safetensors file", "optim_load_part",
                              "part"))
        return tn_error_code();
    tn_status status = tn__optim_check_file("optim_load_part", optim,
                                            tn_safetensors_path(part));
    if (status < 0)
        return status;
    tn_scope *scope = tn_scope_open();
    status = load_file(optim, part);
    tn_error_rename("optim_load", "optim_load_part", "part");
    tn_scope_close(scope);
    return status;
}

tn_status tn_optim_load_pieces(tn_optim *optim, const char *json,
                               const char *from, tn_optim_piece_fn read,
                               void *context)
{
    static const char call[] = "optim_load_pieces";
    if (tn_error())
        return TN_ERR_STATE;
    if (tn__optim_check_file(call, optim, "") < 0)
        return tn_error_code();
    if (!json || !from || !read)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, !json ? "json" : !from ? "source" : "read",
            "%s is NULL", !json ? "json" : !from ? "source" : "read");
    tn_scope *scope = tn_scope_open();
    tn_status status = load_from(optim, &(source){.path = from, .text = json,
                                                  .read = read,
                                                  .context = context});
    tn_error_rename("optim_load", call, "json");
    tn_scope_close(scope);
    return status;
}
