/* builtin.c: finds the built-in functions by name. */
#include <string.h>

#include <kernel/def.h>

enum tn__builtin tn__builtin_find(const char *name, int *arg_count)
{
    static const struct {
        const char *name;
        int arg_count;
    } table[] = {
#define ENTRY(name, count) {#name, count},
        TN__BUILTIN_MAP(ENTRY)
#undef ENTRY
    };
    for (int i = 0; i < TN__BUILTIN_END; i++)
        if (!strcmp(table[i].name, name)) {
            *arg_count = table[i].arg_count;
            return (enum tn__builtin)i;
        }
    return TN__BUILTIN_END;
}
