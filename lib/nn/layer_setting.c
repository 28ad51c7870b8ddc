/* layer_setting.c: the settings of layers that are rows of layers.def, and the
 * strings of the rows. */
#include <nn/layer.h>

#include <string.h>

#define TN__NN_STRINGS
#include <nn/layers.inc>

tn__nn_setting *tn__nn_setting_find(tn__nn_layer *layer, const char *name,
                                    size_t length)
{
    for (int i = 0; i < layer->count; i++)
        if (strncmp(layer->setting[i].name, name, length) == 0 &&
            !layer->setting[i].name[length])
            return &layer->setting[i];
    return NULL;
}

tn__nn_setting *tn__nn_setting_add(tn__nn_layer *layer, const char *name,
                                   size_t length)
{
    tn__nn_setting *s = &layer->setting[layer->count++];
    memcpy(s->name, name, length);
    return s;
}

void tn__nn_setting_set_list(tn__nn_setting *s, const tn_dims_list *list)
{
    s->list = *list;
    s->is_list = true;
    s->value.kind = TN_VALUE_DIMS;
}

/* Returns the name of a setting as a string constant, since an error keeps the
 * pointer to the name of its argument. */
TN__NN_SMALL const char *tn__nn_setting_name(const tn__nn_setting *s)
{
    const char *name = all_names;
    while (*name && strcmp(name, s->name) != 0)
        name += strlen(name) + 1;
    return *name ? name : NULL;
}
