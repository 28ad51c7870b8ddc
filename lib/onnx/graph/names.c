/* names.c: finds the slot of a value by its name, with a hash table that uses
 * open addressing. */
#include <onnx/graph/build.h>

#include <stdlib.h>
#include <string.h>

struct tn__onnx_name {
    const char *name;
    int slot;
};

static size_t hash(const char *name)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 1099511628211u;
    return (size_t)(h ^ h >> 29);
}

static struct tn__onnx_name *place(const tn__onnx_names *names,
                                   const char *name)
{
    size_t i = hash(name) & (names->room - 1);
    while (names->entry[i].name && strcmp(names->entry[i].name, name) != 0)
        i = (i + 1) & (names->room - 1);
    return &names->entry[i];
}

int tn__onnx_names_find(const tn__onnx_names *names, const char *name)
{
    if (!names->room)
        return -1;
    const struct tn__onnx_name *e = place(names, name);
    return e->name ? e->slot : -1;
}

bool tn__onnx_names_add(tn__onnx_names *names, const char *name, int slot)
{
    if (names->count * 2 >= names->room) {
        tn__onnx_names larger = *names;
        larger.room = names->room ? names->room * 2 : 64;
        larger.entry = calloc(larger.room, sizeof *larger.entry);
        if (!larger.entry) {
            tn_error_set(TN_ERR_MEMORY, "onnx_open: out of memory");
            return false;
        }
        for (size_t i = 0; i < names->room; i++)
            if (names->entry[i].name)
                *place(&larger, names->entry[i].name) = names->entry[i];
        free(names->entry);
        *names = larger;
    }
    *place(names, name) = (struct tn__onnx_name){name, slot};
    names->count++;
    return true;
}

void tn__onnx_names_free(tn__onnx_names *names)
{
    free(names->entry);
    names->entry = NULL;
    names->room = 0;
}
