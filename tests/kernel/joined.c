/* joined.c: joins printed kernel sources; see joined.h. */
#include "joined.h"

#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "base/error.h"
#include "base/memory.h"

/* Finds the parts of a kernel source. The head ends before the declarations of
 * argument words, which differ. A program's functions, fn0 and so on, come
 * right before its kernel. */
static joined take_apart(const printed *p)
{
    const char *words = strstr(p->text, "typedef struct {\n    tk_i64 w[");
    const char *word = strstr(p->text, "#define TK_WORD(");
    const char *list = strstr(p->text, " fn0(tk_");
    const char *kernel = list ? strstr(list, "TK_KERNEL ") : NULL;
    if (!word || (list && !kernel))
        bail_out("%s: the text has not its parts", p->what);
    joined part = {.from = p};
    part.head_bytes =
        (size_t)((words && words < word ? words : word) - p->text);
    if (list) {
        while (list[-1] != '\n')
            list--;
        part.list = list;
        part.list_bytes = (size_t)(kernel - list);
    }
    return part;
}

static int compare(const char *a, size_t a_bytes, const char *b,
                   size_t b_bytes)
{
    if (a_bytes != b_bytes)
        return a_bytes < b_bytes ? -1 : 1;
    return a_bytes ? memcmp(a, b, a_bytes) : 0;
}

static int compare_heads(const joined *a, const joined *b)
{
    return compare(a->from->text, a->head_bytes, b->from->text,
                   b->head_bytes);
}

static int compare_lists(const joined *a, const joined *b)
{
    return compare(a->list, a->list_bytes, b->list, b->list_bytes);
}

static int compare_parts(const void *a, const void *b)
{
    const joined *x = a, *y = b;
    int order = compare_heads(x, y);
    if (order == 0)
        order = compare_lists(x, y);
    return order ? order : (x->from > y->from) - (x->from < y->from);
}

joined *joined_sort(const printed *item, int count)
{
    joined *part = calloc((size_t)count, sizeof *part);
    if (!part)
        bail_out("out of memory");
    for (int i = 0; i < count; i++)
        part[i] = take_apart(&item[i]);
    qsort(part, (size_t)count, sizeof *part, compare_parts);
    return part;
}

int joined_fit(const joined *part, int count, int most)
{
    int fit = 1;
    while (fit < count && fit < most &&
           compare_heads(&part[0], &part[fit]) == 0)
        fit++;
    return fit;
}

void joined_name(char *out, size_t room, const joined *part, int i)
{
    snprintf(out, room, "%s_%d", part->from->kernel, i);
}

/* Writes #undef for each macro that the lines in [from, end) define. */
static void add_ends_of_macros(tn__text *text, const char *from,
                               const char *end)
{
    static const char word[] = "#define ";
    while (from && from < end) {
        if (strncmp(from, word, sizeof word - 1) == 0) {
            from += sizeof word - 1;
            tn__text_add(text, "#undef %.*s\n",
                         (int)strcspn(from, " (\n"), from);
        }
        from = strchr(from, '\n');
        from = from ? from + 1 : NULL;
    }
}

static void add_part(tn__text *text, const joined *part, int i)
{
    const char *own = part->from->text + part->head_bytes;
    const char *end = own + strlen(own);
    const char *list = part->list ? part->list : own;
    const char *behind = list + part->list_bytes;
    char name[64];
    joined_name(name, sizeof name, part, i);
    tn__text_add(text, "#define %s %s\nnamespace text_%d {\n",
                 part->from->kernel, name, i);
    tn__text_add_bytes(text, own, (size_t)(list - own));
    tn__text_add_bytes(text, behind, (size_t)(end - behind));
    tn__text_add(text, "}\n#undef %s\n", part->from->kernel);
    add_ends_of_macros(text, own, end);
}

char *joined_text(const joined *part, int count)
{
    tn__text text = {.data = NULL};
    tn__text_add_bytes(&text, part->from->text, part->head_bytes);
    for (int i = 0; i < count; i++) {
        if (i == 0 || compare_lists(&part[i - 1], &part[i]) != 0) {
            tn__text_add(&text, "%snamespace functions_%d {\n",
                         i ? "}\n" : "", i);
            tn__text_add_bytes(&text, part[i].list, part[i].list_bytes);
        }
        add_part(&text, &part[i], i);
    }
    tn__text_add(&text, "}\n");
    char *data = tn__text_finish(&text);
    if (!data)
        bail_out("out of memory");
    return data;
}
