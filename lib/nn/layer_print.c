/* layer_print.c: prints the layers that are rows of layers.def as PyTorch does:
 * the settings that the row's print line names. */
#include <nn/layer.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints a number as Python does: with the fewest digits that read back as x,
 * and integers with ".0". */
TN__NN_SMALL static void print_float(char text[32], double x)
{
    if (floor(x) == x && fabs(x) < 1e15) {
        tn_format(text, 32, "%.1f", x);
        return;
    }
    int digits = 1; /* printed and read in the program's locale, and then again
                     * in the C locale */
    do
        snprintf(text, 32, "%.*g", digits, x);
    while (strtod(text, NULL) != x && ++digits < 17);
    tn_format(text, 32, "%.*g", digits, x);
}

TN__NN_SMALL static size_t print_list(const tn__nn_setting *s, int axes,
                                      char *text, size_t room)
{
    size_t at = 0;
    int count = s->value.kind == TN_VALUE_DIMS && s->list.count > 1
                    ? s->list.count
                : s->is_list && s->list.count == 1 && axes < 2 ? 1
                                                               : axes;
    for (int i = 0; i < count && at < room; i++) {
        int64_t n = s->value.kind != TN_VALUE_DIMS ? s->value.of.i
                    : s->list.count == 1           ? s->list.dim[0]
                                                   : s->list.dim[i];
        char one[24] = "None";
        if (n != TN_NONE_INT)
            snprintf(one, sizeof one, "%" PRId64, n);
        at +=
            (size_t)snprintf(text + at, room - at, "%s%s", i ? ", " : "(", one);
    }
    if (at < room)
        at += (size_t)snprintf(text + at, room - at, count == 1 ? ",)" : ")");
    return at;
}

/* Prints the value of a setting. If `all` is not 0, prints a list of `all`
 * numbers. */
TN__NN_SMALL static size_t print_value(const tn__nn_setting *s, int all,
                                       char *text, size_t room)
{
    char number[32] = "None";
    const tn_value *v = &s->value;
    if (all || (s->is_list && s->list.count > 1))
        return print_list(s, all, text, room);
    if (v->kind == TN_VALUE_DIMS && s->list.dim[0] != TN_NONE_INT)
        snprintf(number, sizeof number, "%" PRId64, s->list.dim[0]);
    else if (v->kind == TN_VALUE_INT)
        snprintf(number, sizeof number, "%" PRId64, v->of.i);
    else if (v->kind == TN_VALUE_FLOAT)
        print_float(number, v->of.f);
    else if (v->kind == TN_VALUE_BOOL)
        strcpy(number, v->of.i ? "True" : "False");
    return (size_t)snprintf(text, room, "%s", number);
}

TN__NN_SMALL void tn__nn_layer_describe(const tn_module *self, char *text,
                                  size_t room)
{
    tn__nn_layer *layer = (tn__nn_layer *)(uintptr_t)self;
    const tn__nn_row *row = layer->row;
    size_t at = 0;
    text[0] = '\0';
    for (const char *word = tn__nn_texts + row->print; *word && at < room;) {
        size_t all = strcspn(word, " "), skip = *word == '!';
        bool list = word[all - 1] == '*';
        tn__nn_setting *s =
            tn__nn_setting_find(layer, word + skip, all - skip - list);
        if (!s && all == strlen("size") && strncmp(word, "size", all) == 0)
            s = tn__nn_setting_find(layer, "output_size",
                                    strlen("output_size"));
        /* of two exclusive options (check rule "a^b"), print the given one
         * only */
        bool left_out = s && s->value.kind == TN_VALUE_NONE &&
                        strchr(tn__nn_texts + row->check, '^');
        if (!left_out) {
            at += (size_t)snprintf(text + at, room - at, "%s%.*s%s",
                                   at ? ", " : "", skip ? 0 : (int)(all - list),
                                   word, skip || !s ? "" : "=");
            int axes = layer->row->axes == 0      ? 1
                       : tn__nn_texts[row->kinds] == 'p' ? 2 * layer->row->axes
                                                  : layer->row->axes;
            if (s && at < room)
                at += print_value(s, list ? axes : 0, text + at, room - at);
        }
        word += all + (word[all] == ' ');
    }
}
