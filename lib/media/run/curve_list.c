/* curve_list.c: a list of curves that grows. */
#include <media/run/curves.h>

#include <stdlib.h>
#include <string.h>

void tn__curve_list_free(tn__curve_list *list)
{
    for (int i = 0; i < list->count; i++) {
        free(list->curve[i].run);
        free(list->curve[i].tag);
        free(list->curve[i].step);
        free(list->curve[i].value);
        free(list->curve[i].time);
    }
    free(list->curve);
    *list = (tn__curve_list){0};
}

static bool is_named(const tn__curve *c, const char *run, const char *tag,
                     size_t tag_bytes)
{
    return strncmp(c->tag, tag, tag_bytes) == 0 && !c->tag[tag_bytes] &&
           strcmp(c->run, run) == 0;
}

/* Returns the curve of run and tag, which is made if there is none. NULL if
 * memory runs out. */
static tn__curve *find(tn__curve_list *list, const char *run, const char *tag,
                       size_t tag_bytes)
{
    /* An event file usually repeats its tags in the same order, so the search
     * begins after the curve of the latest point. */
    for (int i = 1; i <= list->count; i++) {
        const int at = (list->latest + i) % list->count;
        if (is_named(&list->curve[at], run, tag, tag_bytes)) {
            list->latest = at;
            return &list->curve[at];
        }
    }
    if (list->count == list->room) {
        const int room = list->room ? 2 * list->room : 8;
        tn__curve *grown =
            realloc(list->curve, (size_t)room * sizeof *list->curve);
        if (!grown)
            return NULL;
        list->curve = grown;
        list->room = room;
    }
    tn__curve *c = &list->curve[list->count];
    *c = (tn__curve){.run = strdup(run), .tag = strndup(tag, tag_bytes)};
    if (!c->run || !c->tag) {
        free(c->run);
        free(c->tag);
        return NULL;
    }
    list->latest = list->count++;
    return c;
}

static bool grow(double **column, int64_t room)
{
    double *grown = realloc(*column, (size_t)room * sizeof *grown);
    if (grown)
        *column = grown;
    return grown != NULL;
}

bool tn__curve_list_add(tn__curve_list *list, const char *run, const char *tag,
                        size_t tag_bytes, double step, double value,
                        double time)
{
    tn__curve *c = find(list, run, tag, tag_bytes);
    if (!c)
        return false;
    if (c->count == c->room) {
        const int64_t room = c->room ? 2 * c->room : 64;
        if (!grow(&c->step, room) || !grow(&c->value, room) ||
            !grow(&c->time, room))
            return false;
        c->room = room;
    }
    c->step[c->count] = step;
    c->value[c->count] = value;
    c->time[c->count++] = time;
    return true;
}
