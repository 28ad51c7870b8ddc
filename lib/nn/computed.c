/* computed.c: parameters that are computed in each forward (parametrized and
 * pruned ones).
 *
 * Functions of layers read parameters from members of their instance, the
 * struct that begins with tn_module. So that several threads can run a module
 * at once, a forward does not change these members. Instead, it runs on a copy
 * of the instance, whose members point to the computed values. A module caches
 * one copy for its next call. */
#include <nn/tree.h>

#include <string.h>
#include <tenon/ops.h>

/* ---- values -------------------------------------------------------------- */

tn_tensor *tn__nn_value_of(const tn__nn_entry *entry)
{
    return entry->kind == TN__NN_COMPUTED ? tn__nn_compute(entry->value)
                                          : entry->value;
}

tn__nn_entry *tn__nn_tensor_entry(const tn_module *module, const char *name,
                                  const char *what)
{
    tn__nn_entry *entry = tn__nn_find(module, name, strlen(name));
    if (entry && entry->kind != TN__NN_CHILD)
        return entry;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, what, "name",
                             "%s has no parameter or buffer \"%s\"",
                             module->type->name, name);
    return NULL;
}

bool tn__nn_same_kind(const tn_tensor *x, const tn_tensor *other,
                      const char *what, const char *name)
{
    char text[TN__NN_SHAPE_TEXT], wanted[TN__NN_SHAPE_TEXT];
    const tn_given given = {name, x};
    if (!tn__nn_tensor(x, what, name))
        return false;
    tn__nn_shape_text(text, x);
    tn__nn_shape_text(wanted, other);
    if (strcmp(text, wanted) != 0)
        tn_error_refuse(TN_ERR_SHAPE, what, &given, 1,
                        "%s has shape %s; expected %s", name, text, wanted);
    else if (tn_tensor_dtype(x) != tn_tensor_dtype(other))
        tn_error_refuse(TN_ERR_DTYPE, what, &given, 1,
                        "%s is %s; expected %s", name,
                        tn_dtype_name(tn_tensor_dtype(x)),
                        tn_dtype_name(tn_tensor_dtype(other)));
    else if (tn_tensor_device(x) != tn_tensor_device(other))
        tn_error_refuse(TN_ERR_DEVICE, what, &given, 1,
                        "%s is on %s; expected %s", name,
                        tn_device_name(tn_tensor_device(x)),
                        tn_device_name(tn_tensor_device(other)));
    else
        return true;
    return false;
}

/* ---- copies of an instance ----------------------------------------------- */

enum { WORD = sizeof(void *) };

/* Returns the index of the first member after tn_module, in words of the size
 * of a pointer. */
static size_t first_word(void)
{
    return (sizeof(tn_module) + WORD - 1) / WORD;
}

static size_t word_count(const tn_module *module)
{
    return module->tree->bytes / WORD;
}

/* Two things follow a copy's instance: the tree's `bindings` when the copy was
 * made, and the computed values, with an element for each computed entry. */
static uintptr_t *bindings_of(const tn_module *module, tn_module *copy)
{
    return (uintptr_t *)copy + (module->tree->bytes + WORD - 1) / WORD;
}

static tn_tensor **values_of(const tn_module *module, tn_module *copy)
{
    return (tn_tensor **)(bindings_of(module, copy) + 1);
}

/* Allocates a copy of the instance. No scope owns it. */
static tn_module *copy_new(const tn_module *module)
{
    size_t words = (module->tree->bytes + WORD - 1) / WORD + 1 +
                   module->tree->computed;
    tn_scope *scope = tn_scope_open();
    tn_module *copy =
        tn_object_new(&tn__nn_module_class, words * WORD - sizeof *copy);
    if (copy)
        *bindings_of(module, copy) = module->tree->bindings;
    tn_keep(copy);
    tn_scope_close(scope);
    return copy;
}

/* Returns the value that a member of the copy must have if the member of the
 * instance is `member`: the computed value if `member` is the source of a
 * computed entry, else `member`. */
static void *member_of_copy(const tn_module *module, tn_tensor *const *value,
                            void *member)
{
    int i = 0;
    for (const tn__nn_entry *e = module->tree->first; e; e = e->next)
        if (e->kind == TN__NN_COMPUTED) {
            if (e->value == member)
                return value[i];
            i++;
        }
    return member;
}

/* Returns zeros in the shape of the computed value, which take almost no
 * memory. They suffice for printing a layer, which shows the shapes of
 * parameters. */
static tn_tensor *stand_in(const tn__nn_source *source)
{
    return tn_expand(tn_zeros(TN_SCALAR), source->shape);
}

tn_module *tn__nn_materialize(tn_module *module, bool shown)
{
    struct tn_module_tree *tree = module->tree;
    if (!tree->computed)
        return module;
    tn_module *copy = atomic_exchange(&tree->spare, NULL);
    if (!copy)
        copy = copy_new(module);
    if (!copy)
        return NULL;
    tn_tensor **value = values_of(module, copy);
    int i = 0;
    for (const tn__nn_entry *e = tree->first; e; e = e->next) {
        if (e->kind != TN__NN_COMPUTED)
            continue;
        value[i] = shown ? stand_in(e->value) : tn__nn_compute(e->value);
        if (!value[i++]) {
            tn__nn_free_copy(copy);
            return NULL;
        }
    }
    memcpy((char *)copy + sizeof(tn_object), (char *)module + sizeof(tn_object),
           tree->bytes - sizeof(tn_object));
    void **to = (void **)copy;
    for (size_t w = first_word(); w < word_count(module); w++)
        to[w] = member_of_copy(module, value, to[w]);
    return copy;
}

/* Copies the members that forward has changed from the copy to the module. Then
 * makes the members of the copy equal to those of the module. If forward has
 * kept the pointer `self`, later uses will find no computed values, which is an
 * error, instead of values of an earlier call. */
void tn__nn_release(tn_module *module, tn_module *copy)
{
    if (!copy || copy == module)
        return;
    struct tn_module_tree *tree = module->tree;
    tn_tensor **value = values_of(module, copy);
    void **from = (void **)copy, **to = (void **)module;
    if (*bindings_of(module, copy) != tree->bindings) {
        /* A hook or forward has parametrized or pruned the module, or undone
         * it: the values no longer belong to its entries. */
        tn__nn_free_copy(copy);
        return;
    }
    for (size_t w = first_word(); w < word_count(module); w++) {
        if (from[w] != member_of_copy(module, value, to[w]))
            to[w] = from[w];
        from[w] = to[w];
    }
    size_t rest = tree->bytes % WORD;
    if (rest && memcmp(to + word_count(module), from + word_count(module), rest))
        memcpy(to + word_count(module), from + word_count(module), rest);
    tn__nn_free_copy(atomic_exchange(&tree->spare, copy));
}

/* ---- registering --------------------------------------------------------- */

/* Replaces all members of the instance that are equal to `from`. Returns their
 * number. */
static int replace_members(tn_module *module, const void *from, void *to)
{
    void **member = (void **)module;
    int count = 0;
    for (size_t w = first_word(); w < word_count(module); w++)
        if (member[w] == from) {
            member[w] = to;
            count++;
        }
    return count;
}

bool tn__nn_can_bind(const tn_module *module, const tn__nn_entry *entry,
                     const char *what)
{
    void *value = entry->value;
    const char *wrong = NULL;
    for (const tn__nn_entry *e = module->tree->first; e; e = e->next)
        if (e != entry && e->value == value)
            wrong = "it is registered under two names";
    bool found =
        replace_members((tn_module *)(uintptr_t)module, value, value) > 0;
    if (!found && (module->type->release || module->tree->computed))
        wrong = "no field of the layer's struct points to it";
    if (wrong)
        tn_error_refuse_argument(TN_ERR_UNSUPPORTED, what, "name",
                                 "\"%s\" of %s cannot be replaced by a "
                                 "computed value: %s",
                                 entry->name, module->type->name, wrong);
    return !wrong;
}

void tn__nn_bind(tn_module *module, tn__nn_entry *entry, tn__nn_source *source)
{
    replace_members(module, entry->value, source);
    tn_drop(entry->value);
    entry->value = tn_keep(source);
    entry->kind = TN__NN_COMPUTED;
    module->tree->computed++;
    module->tree->bindings++;
    tn__nn_drop_spare(module->tree);
}

void tn__nn_unbind(tn_module *module, tn__nn_entry *entry, enum tn__nn_kind kind,
                   tn_tensor *value)
{
    replace_members(module, entry->value, value);
    tn_keep(value);
    tn_drop(entry->value);
    entry->value = value;
    entry->kind = kind;
    module->tree->computed--;
    module->tree->bindings++;
    tn__nn_drop_spare(module->tree);
    tn__nn_unlink(module, entry, true);
}
