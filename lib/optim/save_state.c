/* save_state.c: saves an optimizer's state as a safetensors file. Steps and
 * rates are JSON in the metadata; 17 digits restore every double exactly. */
#include <json/json.h>
#include <math.h>
#include <optim/state_list.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/io.h>

static tn__optim_list *state_of(const tn_optim *optim)
{
    tn__optim_list *l = tn__optim_list_new(optim);
    int group = 0;
    for (const tn__optim_group *g = optim->first; l && g;
         g = g->next, group++) {
        for (int i = 0; i < tn_parameters_count(g->parameters); i++) {
            const tn__optim_state *state = &g->state[i];
            if (state->progress.steps == 0)
                continue;
            for (int k = 0; k < optim->rule->slots; k++) {
                if (!state->slot[k])
                    continue;
                l->tensor[l->count] = state->slot[k];
                tn__optim_list_slot(l, group, g, i, k);
            }
        }
    }
    tn__lbfgs *h = tn__optim_history_of(optim);
    for (int i = 0; l && h && i < 2 + 2 * h->count; i++) {
        l->tensor[l->count] = *tn__optim_history_tensor(h, i);
        tn__optim_list_history_name(l, i);
    }
    return l;
}

static void add_real(tn__json_writer *t, double value, bool *finite)
{
    *finite &= isfinite(value);
    tn__json_add_real(t, value);
}

static double rate_of(const tn__optim_group *group, const char *name)
{
    double value = 0;
    for (int i = 0; i < TN__OPTIM_RATE_FIELDS; i++)
        if (strcmp(tn__optim_rate_fields[i].name, name) == 0)
            memcpy(&value,
                   (const char *)&group->rates + tn__optim_rate_fields[i].at,
                   sizeof value);
    return value;
}

static void add_rate(tn__json_writer *t, const tn__optim_group *group,
                     const char *name, bool *finite)
{
    tn__json_add_text(t, name);
    tn__json_add(t, ":");
    add_real(t, rate_of(group, name), finite);
}

/* Writes the JSON of one group. Keys are in alphabetical order. */
static void add_group(tn__json_writer *t, const tn__optim_group *group,
                      bool *finite)
{
    int count = tn_parameters_count(group->parameters);
    tn__json_add(t, "{");
    add_rate(t, group, "initial_lr", finite);
    tn__json_add(t, ",");
    add_rate(t, group, "lr", finite);
    tn__json_add(t, ",\"memory\":[");
    for (int i = 0; i < count; i++) {
        tn__json_add(t, i ? "," : "");
        add_real(t, group->state[i].progress.memory, finite);
    }
    tn__json_add(t, "],");
    add_rate(t, group, "momentum", finite);
    tn__json_add(t, ",\"steps\":[");
    for (int i = 0; i < count; i++) {
        tn__json_add(t, i ? "," : "");
        tn__json_add_integer(t, group->state[i].progress.steps);
    }
    tn__json_add(t, "],");
    add_rate(t, group, "weight_decay", finite);
    tn__json_add(t, "}");
}

static void add_number(tn__json_writer *t, const char *name, double value,
                       bool *finite)
{
    tn__json_add_text(t, name);
    tn__json_add(t, ":");
    add_real(t, value, finite);
    tn__json_add(t, ",");
}

static void add_history(tn__json_writer *t, tn__lbfgs *h, bool *finite)
{
    tn__json_add(t, ",\"history\":{\"iterations\":");
    tn__json_add_integer(t, h->iterations);
    tn__json_add(t, ",");
    add_number(t, "loss", h->loss, finite);
    add_number(t, "scale", h->scale, finite);
    add_number(t, "t", h->t, finite);
    tn__json_add(t, "\"rho\":[");
    for (int i = 0; i < h->count; i++) {
        tn__json_add(t, i ? "," : "");
        add_real(t, tn__lbfgs_pair_at(h, i)->rho, finite);
    }
    tn__json_add(t, "]}");
}

/* Returns the JSON text for the metadata, in memory from malloc, or NULL with
 * an error. */
static char *text_of(const tn_optim *optim, const char *call)
{
    tn__json_writer t = {.grow = realloc};
    bool finite = true;
    tn__json_add(&t, "{\"groups\":[");
    for (const tn__optim_group *g = optim->first; g; g = g->next) {
        tn__json_add(&t, g == optim->first ? "" : ",");
        add_group(&t, g, &finite);
    }
    tn__json_add(&t, "]");
    if (tn__optim_history_of(optim))
        add_history(&t, tn__optim_history_of(optim), &finite);
    tn__json_add(&t, ",\"rule\":");
    tn__json_add_text(&t, optim->rule->name);
    tn__json_add(&t, "}");
    if (!t.failed && finite)
        return t.text;
    if (t.failed)
        tn__optim_no_memory(call);
    else
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "optim",
                                 "a rate or a number of the state is not "
                                 "finite");
    free(t.text);
    return NULL;
}

static const char whole[] =
    "this process has a part of the state: use tn_sharded_save with "
    "tn_optim_sharded_state, or tn_optim_state_pieces";

tn_status tn_optim_save(const tn_optim *optim, const char *path)
{
    if (tn_error())
        return TN_ERR_STATE;
    tn_status status = tn__optim_check_file("optim_save", optim, path);
    if (status == TN_OK)
        status = tn__optim_refuse_restricted(optim, "optim_save", whole);
    if (status < 0)
        return status;
    tn_scope *scope = tn_scope_open();
    tn__optim_list *l = state_of(optim);
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

/* ---- as part of a file that holds more ---------------------------------- */

char *tn_optim_state(const tn_optim *optim, tn_optim_state_visit visit,
                     void *context)
{
    if (tn__optim_check_file("optim_state", optim, "") < 0 ||
        tn__optim_refuse_restricted(optim, "optim_state", whole) < 0)
        return NULL;
    if (!visit) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "optim_state", "visit",
                                 "visit is NULL");
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    tn__optim_list *l = state_of(optim);
    char *text = l ? text_of(optim, "optim_state") : NULL;
    for (int i = 0; text && i < l->count; i++)
        visit(l->name[i], l->tensor[i], context);
    tn_scope_close(scope);
    return text;
}

/* ---- in pieces ----------------------------------------------------------- */

char *tn_optim_state_pieces(const tn_optim *optim, tn_optim_piece_fn visit,
                            void *context)
{
    static const char call[] = "optim_state_pieces";
    if (tn__optim_check_file(call, optim, "") < 0)
        return NULL;
    if (!visit) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "visit",
                                 "visit is NULL");
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    tn__optim_list *l = state_of(optim);
    char *text = l ? text_of(optim, call) : NULL;
    tn_status status = text ? TN_OK : TN_ERR_STATE;
    for (int i = 0; status >= 0 && i < l->count; i++)
        status = visit(&(tn_optim_piece){sizeof(tn_optim_piece), l->name[i],
                                         l->shape[i], l->offset[i],
                                         l->tensor[i]}, context);
    tn_scope_close(scope);
    if (status < 0) {
        free(text);
        text = NULL;
    }
    return text;
}
