/* state_list.c: the tensors of an optimizer's state, each named after its
 * parameter. A slot is one tensor of a parameter's state (optim.h). */
#include <limits.h>
#include <optim/state_list.h>
#include <stdio.h>

const struct tn__optim_rate_field tn__optim_rate_fields[] = {
    {"lr", offsetof(tn__optim_rates, lr)},
    {"initial_lr", offsetof(tn__optim_rates, initial_lr)},
    {"momentum", offsetof(tn__optim_rates, momentum)},
    {"weight_decay", offsetof(tn__optim_rates, weight_decay)},
};

static const tn_object_class list_class = {sizeof list_class, "optimizer state",
                                           sizeof(tn__optim_list), NULL};

static size_t slot_file_name(char *out, size_t room, int group,
                             const char *parameter, const char *slot)
{
    return (size_t)snprintf(out, room, "%d.%s.%s", group, parameter, slot) + 1;
}

tn__lbfgs *tn__optim_history_of(const tn_optim *optim)
{
    tn__lbfgs *h = optim->rule->closure ? optim->history : NULL;
    return h && h->iterations > 0 ? h : NULL;
}

tn_tensor **tn__optim_history_tensor(tn__lbfgs *h, int i)
{
    if (i < 2)
        return i ? &h->grad : &h->direction;
    tn__lbfgs_pair *one = tn__lbfgs_pair_at(h, (i - 2) / 2);
    return i % 2 ? &one->s : &one->y;
}

static size_t history_name(char *out, size_t room, int i)
{
    const char *name = i == 0   ? "d"
                       : i == 1 ? "prev_flat_grad"
                       : i % 2  ? "old_stps"
                                : "old_dirs";
    return (size_t)(i < 2 ? snprintf(out, room, "history.%s", name)
                          : snprintf(out, room, "history.%s.%d", name,
                                     (i - 2) / 2)) +
           1;
}

tn_status tn__optim_no_memory(const char *call)
{
    return tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
}

tn__optim_list *tn__optim_list_new(const tn_optim *optim)
{
    size_t count = 0, bytes = 0;
    int group = 0;
    for (const tn__optim_group *g = optim->first; g; g = g->next, group++) {
        for (int i = 0; i < tn_parameters_count(g->parameters); i++) {
            for (int k = 0; k < optim->rule->slots; k++, count++)
                bytes += slot_file_name(NULL, 0, group,
                                        tn_parameters_name(g->parameters, i),
                                        optim->rule->slot_name[k]);
        }
    }
    const int more =
        optim->rule->closure ? 2 + 2 * optim->options.lbfgs.history_size : 0;
    for (int i = 0; i < more; i++, count++)
        bytes += history_name(NULL, 0, i);
    tn__optim_list *l =
        tn_object_new(&list_class, count * (2 * sizeof(void *) +
                                            sizeof *l->shape +
                                            sizeof *l->offset) + bytes);
    if (!l)
        return NULL;
    l->tensor = (tn_tensor **)(l + 1);
    l->name = (const char **)(l->tensor + count);
    l->shape = (tn_dims_list *)(l->name + count);
    l->offset = (int64_t *)(l->shape + count);
    l->names = (char *)(l->offset + count);
    return l;
}

const char *tn__optim_list_slot(tn__optim_list *l, int number,
                                const tn__optim_group *group, int i, int k)
{
    const char *name = l->names;
    const tn__optim_rule *rule = group->optim->rule;
    const tn_tensor *p = tn_parameters_at(group->parameters, i);
    /* the space suffices, because tn__optim_list_new measured the same name */
    l->names += slot_file_name(l->names, INT_MAX, number,
                               tn_parameters_name(group->parameters, i),
                               rule->slot_name[k]);
    tn__optim_slot_shape(rule, p, k, &l->shape[l->count]);
    if (tn__optim_is_cut(group->optim, &group->state[i], p))
        l->offset[l->count] = group->state[i].range.offset;
    l->name[l->count++] = name;
    return name;
}

const char *tn__optim_list_history_name(tn__optim_list *l, int i)
{
    const char *name = l->names;
    l->names += history_name(l->names, INT_MAX, i);
    if (l->tensor[l->count])
        l->shape[l->count] = (tn_dims_list){
            1, {tn_tensor_numel(l->tensor[l->count])}};
    l->name[l->count++] = name;
    return name;
}

tn_status tn__optim_check_file(const char *call, const tn_optim *optim,
                               const char *path)
{
    if (!tn__optim_is(optim, call))
        return tn_error_code();
    if (!path)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "path",
                                        "path is NULL");
    return tn__optim_settle(optim);
}
