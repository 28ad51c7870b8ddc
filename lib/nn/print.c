/* print.c: prints the tree of a module. */
#include <nn/tree.h>

#include <tenon/nn.h>

/* Prints a module and the modules below it. Returns false if they are nested
 * too deep. */
static bool print(FILE *file, const tn_module *module, int indent)
{
    char text[512] = "";
    if (indent >= TN__NN_MAX_DEPTH)
        return false;
    tn_scope *scope = tn_scope_open();
    tn_module *shown = tn__nn_materialize((tn_module *)(uintptr_t)module, true);
    if (module->type->describe && shown)
        module->type->describe(shown, text, sizeof text);
    tn__nn_release((tn_module *)(uintptr_t)module, shown);
    tn_scope_close(scope);
    fprintf(file, "%s%s(%s",
            tn_module_is_parametrized(module, NULL) ? "Parametrized" : "",
            module->type->name, text);
    bool children = false;
    for (const tn__nn_entry *entry = module->tree->first; entry;
         entry = entry->next) {
        if (entry->kind != TN__NN_CHILD)
            continue;
        fprintf(file, "%s%*s(%s): ", children ? "" : "\n", 2 * indent + 2, "",
                entry->name);
        if (!print(file, entry->value, indent + 1))
            return false;
        children = true;
    }
    fprintf(file, "%*s)\n", children ? 2 * indent : 0, "");
    return true;
}

tn_status tn_module_print(FILE *file, const tn_module *module)
{
    if (!tn__nn_not_null(file, "module_print", "file") ||
        !tn__nn_module(module, "module_print"))
        return TN_ERR_ARGUMENT;
    if (!print(file, module, 0))
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, "module_print",
                                        "module",
                                        "modules are nested more than %d deep",
                                        TN__NN_MAX_DEPTH);
    if (ferror(file))
        return tn_error_refuse_argument(TN_ERR_IO, "module_print", NULL,
                                        "cannot write");
    return TN_OK;
}
