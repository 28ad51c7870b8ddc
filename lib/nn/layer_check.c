/* layer_check.c: checks the settings of layers that are rows of layers.def, by
 * the rules of the row's check line. */
#include <nn/layer.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tenon/error.h>

TN__NN_SMALL static bool refuse(const tn__nn_row *row, const tn__nn_setting *s,
                                const char *value, const char *wanted)
{
    tn_error_refuse_argument(TN_ERR_ARGUMENT, tn__nn_texts + row->name,
                             tn__nn_setting_name(s),
                             "%s is %s; expected %s", s->name, value, wanted);
    return false;
}

/* Checks that the arguments that are plain integers were given. Only sizes and
 * options may be left out by passing TN_NONE_INT. */
TN__NN_SMALL bool tn__nn_check_given(const tn__nn_row *row,
                                     const tn__nn_layer *layer)
{
    const char *kind = tn__nn_texts + row->kinds;
    for (int i = 0; kind[i]; i++)
        if (kind[i] == 'i' && layer->setting[i].value.kind == TN_VALUE_NONE)
            return refuse(row, &layer->setting[i], "none", "a number");
    return true;
}

/* Stores element i of the setting s in *to. Returns false if s has no element
 * i. */
TN__NN_SMALL static bool number_at(const tn__nn_setting *s, int i, double *to)
{
    bool one = i == 0;
    if (s->value.kind == TN_VALUE_DIMS && (one = i < s->list.count))
        *to = (double)s->list.dim[i];
    else if (s->value.kind == TN_VALUE_FLOATS &&
             (one = i < s->value.count))
        *to = s->numbers[i];
    else if (s->value.kind == TN_VALUE_INT)
        *to = (double)s->value.of.i;
    else if (s->value.kind == TN_VALUE_FLOAT)
        *to = s->value.of.f;
    else
        one = false;
    return one;
}

TN__NN_SMALL static bool check_numbers(const tn__nn_row *row,
                                       const tn__nn_setting *s,
                                       const char *rule)
{
    static const char *const wanted[] = {
        "at least 1", "at least 0", "a number greater than 0",
        "any other number", "a probability in [0, 1]"};
    int kind = rule[0] == '%'   ? 4
               : rule[0] == '!' ? 3
               : rule[1] != '=' ? 2
                                : rule[2] == '0';
    double x = 0;
    for (int i = 0; number_at(s, i, &x); i++) {
        const bool fine[] = {x >= 1, x >= 0, x > 0, x == x && x != 0,
                             x >= 0 && x <= 1};
        char value[40];
        tn_format(value, sizeof value, "%.15g", x);
        if (!fine[kind])
            return refuse(row, s, value, wanted[kind]);
    }
    return true;
}

/* Returns whether the string of s is one of `words`, which is written as
 * "a|b|c". */
TN__NN_SMALL static bool check_word(const tn__nn_row *row,
                                    const tn__nn_setting *s, const char *words)
{
    char wanted[64], value[TN__NN_NAME + 2];
    size_t length = strlen(s->word), all = strcspn(words, " ");
    for (const char *at = words; at < words + all;) {
        size_t here = strcspn(at, "| ");
        if (here == length && strncmp(at, s->word, length) == 0)
            return true;
        at += here + 1;
    }
    snprintf(wanted, sizeof wanted, "one of %.*s", (int)all, words);
    for (char *bar; (bar = strchr(wanted, '|'));)
        *bar = '/';
    snprintf(value, sizeof value, "\"%s\"", s->word);
    return refuse(row, s, value, wanted);
}

TN__NN_SMALL static bool check_half(const tn__nn_row *row,
                                    const tn__nn_setting *s,
                                    const tn__nn_setting *kernel)
{
    double x = 0, k = 0;
    for (int i = 0; number_at(s, i, &x); i++) {
        for (int j = i; !number_at(kernel, j, &k); j = 0)
            if (j == 0)
                return true;
        char value[100];
        tn_format(value, sizeof value, "%.15g with a %s of %.15g", x,
                  kernel->name, k);
        if (x > floor(k / 2))
            return refuse(row, s, value, "at most half of that");
    }
    return true;
}

/* Checks that exactly one of the settings a and b is given. */
TN__NN_SMALL static bool check_either(const tn__nn_row *row,
                                      const tn__nn_setting *a,
                                      const tn__nn_setting *b)
{
    bool has_a = a->value.kind != TN_VALUE_NONE;
    bool has_b = b->value.kind != TN_VALUE_NONE;
    if (has_a != has_b)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, tn__nn_texts + row->name,
                             tn__nn_setting_name(has_a ? b : a),
                             has_a ? "give %s or %s, not both"
                                   : "expected %s or %s",
                             a->name, b->name);
    return false;
}

/* Checks one rule of the row's check line, such as "stride>=1". */
TN__NN_SMALL bool tn__nn_check_rule(tn__nn_layer *layer, const tn__nn_row *row,
                                    const char *rule)
{
    size_t length = strcspn(rule, "<>!=%/^@ ");
    tn__nn_setting *s = tn__nn_setting_find(layer, rule, length);
    rule += length;
    tn__nn_setting *other =
        tn__nn_setting_find(layer, rule + 1, strcspn(rule + 1, " "));
    if (*rule == '=')
        return check_word(row, s, rule + 1);
    if (*rule == '/')
        return check_half(row, s, other);
    if (*rule == '^')
        return check_either(row, s, other);
    if (*rule != '@')
        return check_numbers(row, s, rule);
    if (s->value.kind == TN_VALUE_NONE) {
        char name[TN__NN_NAME];
        memcpy(name, s->name, sizeof name);
        *s = *other;
        memcpy(s->name, name, sizeof name);
    }
    return true;
}

/* Checks the lengths of lists: a list has one number for each axis; a list of
 * paddings may have two for each axis. */
TN__NN_SMALL bool tn__nn_check_lists(tn__nn_layer *layer, const tn__nn_row *row)
{
    for (int i = 0; i < layer->count; i++) {
        tn__nn_setting *s = &layer->setting[i];
        const char kind = i < (int)strlen(tn__nn_texts + row->kinds)
                              ? tn__nn_texts[row->kinds + i]
                              : 's';
        const int count = s->list.count;
        if (s->value.kind != TN_VALUE_DIMS)
            continue;
        const int want = kind == 'p' ? 2 * layer->row->axes : layer->row->axes;
        if (want ? count == want || (count == 1 && kind != 's')
                 : count > 0 && count <= TN_MAX_NDIM)
            continue;
        char value[40], wanted[64];
        snprintf(value, sizeof value, "a list of %d number%s", count,
                 count == 1 ? "" : "s");
        snprintf(wanted, sizeof wanted, "%s%d",
                 !want         ? "one of 1 to "
                 : kind == 's' ? "one of "
                               : "one number or a list of ",
                 want ? want : TN_MAX_NDIM);
        return refuse(row, s, value, wanted);
    }
    return true;
}

/* Joins arguments of kind axis (height, width) into one list, output_size. */
TN__NN_SMALL bool tn__nn_join_axes(tn__nn_layer *layer, const tn__nn_row *row)
{
    tn_dims_list size = TN_SCALAR;
    if (tn__nn_texts[row->kinds] != 'a')
        return true;
    for (int i = 0; i < layer->row->axes; i++) {
        const tn__nn_setting *s = &layer->setting[i];
        int64_t n = s->value.of.i;
        char value[24];
        snprintf(value, sizeof value, "%" PRId64, n);
        if (n < 0 && n != TN_NONE_INT)
            return refuse(row, s, value,
                          "at least 0 (TN_NONE_INT keeps the size)");
        size.dim[size.count++] = n;
    }
    layer->count = 0;
    memset(layer->setting, 0, sizeof layer->setting);
    tn__nn_setting *s =
        tn__nn_setting_add(layer, "output_size", strlen("output_size"));
    tn__nn_setting_set_list(s, &size);
    s->is_list = layer->row->axes > 1;
    return true;
}
