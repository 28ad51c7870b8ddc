/* module.c: makes modules, registers children, parameters and buffers, finds
 * them by path, and walks and prints the tree. */
#include <nn/tree.h>

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/trace.h>

/* ---- making ------------------------------------------------------------- */

static void set_parent(struct tn_module_tree *tree, const tn_module *parent,
                       const char *name)
{
    tree->name = name;
    tree->parent = parent;
    atomic_store_explicit(&tree->path, NULL, memory_order_release);
}

static void entry_release(void *object)
{
    tn__nn_entry *entry = object;
    if (entry->kind == TN__NN_CHILD && entry->value) {
        struct tn_module_tree *tree = ((tn_module *)entry->value)->tree;
        if (tree->name == entry->name)
            set_parent(tree, NULL, NULL);
    }
    tn_drop(entry->value);
    tn_drop(entry->next);
}

static const tn_object_class entry_class = {
    sizeof entry_class, "module entry", sizeof(tn__nn_entry), entry_release};

void tn__nn_free_copy(tn_module *copy)
{
    if (copy) {
        copy->type = NULL; /* so that the class's release is not called: it
                            * would free what the module holds */
        copy->tree = NULL;
    }
    tn_drop(copy);
}

void tn__nn_drop_spare(struct tn_module_tree *tree)
{
    tn__nn_free_copy(atomic_exchange(&tree->spare, NULL));
}

static void tree_release(void *object)
{
    struct tn_module_tree *tree = object;
    tn__nn_drop_spare(tree);
    tn_drop(tree->first);
    tn_drop(tree->hook);
    tn_drop(tree->compiled);
}

static const tn_object_class tree_class = {
    sizeof tree_class, "module tree", sizeof(struct tn_module_tree),
    tree_release};

static void module_release(void *object)
{
    tn_module *module = object;
    if (module->type && module->type->release)
        module->type->release(module);
    tn_drop(module->tree);
}

const tn_object_class tn__nn_module_class = {
    sizeof tn__nn_module_class, "module", sizeof(tn_module), module_release};

tn_module *tn__nn_module(const tn_module *any, const char *what)
{
    if (!tn_object_check(any, &tn__nn_module_class, what, "module"))
        return NULL;
    if (any->tree)
        return any->tree->self;
    /* The instance is a copy for one call (computed.c), whose pointer the
     * program has stored. */
    tn_error_refuse_argument(TN_ERR_STATE, what, "module",
                             "this is the `self` of a forward that has ended: "
                             "use the module itself");
    return NULL;
}

bool tn__nn_is_kind(tn_module *any, const tn_module_class *a,
                    const tn_module_class *b, const char *what)
{
    const tn_module *module = tn__nn_module(any, what);
    if (!module || module->type == a || module->type == b)
        return module;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, what, "module",
                             "the module is a %s", module->type->name);
    return false;
}

bool tn__nn_not_null(const void *x, const char *what, const char *argument)
{
    if (!x)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, what, argument, "%s is NULL",
                                 argument);
    return x;
}

bool tn__nn_tensor(const tn_tensor *x, const char *what, const char *argument)
{
    return tn_object_check_kind(x, "tensor", what, argument);
}

bool tn__nn_tensor_or_null(const tn_tensor *x, const char *what,
                           const char *argument)
{
    return !x || tn__nn_tensor(x, what, argument);
}

bool tn__nn_check_masks(const tn_nn_attention_masks *masks, const char *what,
                        const char *argument)
{
    char name[64];
    snprintf(name, sizeof name, "%s->attn_mask", argument);
    if (masks && !tn__nn_tensor_or_null(masks->attn_mask, what, name))
        return false;
    snprintf(name, sizeof name, "%s->key_padding_mask", argument);
    return !masks || tn__nn_tensor_or_null(masks->key_padding_mask, what, name);
}

const char *tn__nn_shape_text(char text[TN__NN_SHAPE_TEXT], const tn_tensor *x)
{
    size_t at = 0;
    int ndim = tn_tensor_ndim(x);
    text[0] = 0;
    for (int d = 0; d < ndim && at < TN__NN_SHAPE_TEXT; d++)
        at += (size_t)snprintf(text + at, TN__NN_SHAPE_TEXT - at,
                               "%s%" PRId64, d ? ", " : "(",
                               tn_tensor_size(x, d));
    if (at < TN__NN_SHAPE_TEXT)
        snprintf(text + at, TN__NN_SHAPE_TEXT - at, "%s",
                 !x          ? "none"
                 : ndim == 0 ? "()"
                 : ndim == 1 ? ",)"
                             : ")");
    return text;
}

const char *tn__nn_signature(const tn_module_class *type)
{
    return TN__NN_HAS(type, signature) && type->signature ? type->signature
                                                          : "input -> output";
}

/* Counts the names in text up to its end or "->". A name that ends in '?' is
 * optional; *required is set to the number of names before the first one.
 * Returns the rest of the text after the names, or NULL if the text is
 * malformed. */
static const char *count_names(const char *text, uint8_t *count,
                               uint8_t *required)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    *count = 0;
    for (;;) {
        text += strspn(text, " ");
        size_t length = strspn(text, letters);
        if (length == 0 || *count == TN_MODULE_VALUES)
            return NULL;
        text += length;
        bool optional = required && *text == '?';
        if (required && !optional && *required != *count)
            return NULL; /* a required name follows an optional one */
        ++*count;
        if (required && !optional)
            ++*required;
        text += optional;
        text += strspn(text, " ");
        if (*text != ',')
            return text;
        text++;
    }
}

const char *tn__nn_name(const char *names, int i)
{
    char name[TN__NN_PATH_BYTES];
    for (; i > 0; i--)
        names = strchr(names, ',') + 1;
    names += strspn(names, " ");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(names, " ,?-"), names);
    return tn_path_text(tn_path_join(NULL, name));
}

/* Makes a tree without entries, and reads the numbers of inputs and outputs
 * from the class's signature. */
static struct tn_module_tree *tree_new(const tn_module_class *type)
{
    const char *text = tn__nn_signature(type);
    struct tn_module_tree read = {.inputs = 0}, *tree;
    const char *at = count_names(text, &read.inputs, &read.required);
    if (at && strncmp(at, "->", 2) == 0)
        at = count_names(at + 2, &read.outputs, NULL);
    if (!at || *at || !read.outputs || !read.required) {
        tn_error_refuse_argument(
            TN_ERR_FORMAT, "module_new", "type",
            "%s: the signature \"%s\" is not of the form \"x, memory, mask? "
            "-> y, weights\", with at most %d names on each side",
            type->name, text, TN_MODULE_VALUES);
        return NULL;
    }
    tree = tn_object_new(&tree_class, read.inputs * sizeof(char *));
    if (tree) {
        tree->inputs = read.inputs;
        tree->required = read.required;
        tree->outputs = read.outputs;
        for (int i = 0; i < tree->inputs; i++)
            tree->input_name[i] = tn__nn_name(text, i);
    }
    return tree;
}

/* Makes an instance of type with `extra` more bytes at its end. */
static void *instance_new(const tn_module_class *type, size_t extra)
{
    tn_scope *scope = tn_scope_open();
    tn_module *module =
        tn_object_new(&tn__nn_module_class,
                      type->bytes - sizeof(tn_module) + extra);
    struct tn_module_tree *tree = tree_new(type);
    if (!module || !tree) {
        tn_scope_close(scope);
        return NULL;
    }
    tree->bytes = type->bytes + extra;
    tree->self = module;
    module->type = type;
    module->tree = tn_keep(tree);
    module->training = true;
    tn_object_set_maker(module, type->name);
    return tn_scope_result(scope, module);
}

tn_module *tn__nn_module_like(const tn_module *module)
{
    return instance_new(module->type,
                        module->tree->bytes - module->type->bytes);
}

void *tn_module_new_with(const tn_module_class *type, size_t extra)
{
    bool list = type && TN__NN_HAS(type, forward_list) && type->forward_list;
    if (!type || !type->name || (type->forward != NULL) == list ||
        type->bytes < sizeof(tn_module)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "module_new", "type",
                                 "the class needs a name, either forward or "
                                 "forward_list, and a size of at least "
                                 "sizeof(tn_module)");
        return NULL;
    }
    return instance_new(type, extra);
}

void *tn_module_new(const tn_module_class *type)
{
    return tn_module_new_with(type, 0);
}

const char *tn_module_signature(const tn_module *module)
{
    return tn__nn_module(module, "module_signature")
               ? tn__nn_signature(module->type)
               : NULL;
}

/* ---- registering -------------------------------------------------------- */

tn__nn_entry *tn__nn_find(const tn_module *module, const char *name,
                          size_t length)
{
    for (tn__nn_entry *entry = module->tree->first; entry;
         entry = entry->next) {
        if (strncmp(entry->name, name, length) == 0 && !entry->name[length])
            return entry;
    }
    return NULL;
}

static bool name_allowed(const tn_module *module, const char *name,
                         const char *what)
{
    const char *wrong = NULL;
    if (!name || !*name)
        wrong = "expected a name";
    else if (strchr(name, '.'))
        wrong = "a name must not contain a dot";
    else if (strlen(name) >= TN__NN_PATH_BYTES / 4)
        wrong = "the name is too long";
    else if (tn__nn_find(module, name, strlen(name)))
        wrong = "the name is taken";
    if (wrong)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, module->type->name, "name",
                                 "%s: \"%s\": %s", what, name ? name : "",
                                 wrong);
    return !wrong;
}

/* Makes an entry that no scope owns, because its module will own it. */
static tn__nn_entry *entry_new(const char *name, enum tn__nn_kind kind,
                               void *value)
{
    tn_scope *scope = tn_scope_open();
    tn__nn_entry *entry = tn_object_new(&entry_class, strlen(name) + 1);
    if (entry) {
        strcpy(entry->name, name);
        entry->kind = kind;
        entry->value = tn_keep(value);
        tn_keep(entry);
    }
    tn_scope_close(scope);
    return entry;
}

bool tn__nn_add_entry(tn_module *module, const char *name,
                      enum tn__nn_kind kind, void *value)
{
    tn__nn_entry *entry = entry_new(name, kind, value);
    if (!entry)
        return false;
    struct tn_module_tree *tree = module->tree;
    if (tree->last)
        tree->last->next = entry;
    else
        tree->first = entry;
    tree->last = entry;
    if (kind == TN__NN_COMPUTED)
        tree->computed++;
    if (kind == TN__NN_CHILD)
        set_parent(((tn_module *)value)->tree, tree->self, entry->name);
    return true;
}

void tn__nn_unlink(tn_module *module, tn__nn_entry *entry, bool last)
{
    struct tn_module_tree *tree = module->tree;
    tn__nn_entry **link = &tree->first, *before = NULL;
    for (; *link != entry; link = &before->next)
        before = *link;
    *link = entry->next;
    if (tree->last == entry)
        tree->last = before;
    entry->next = NULL;
    if (!last) {
        tn_drop(entry);
        return;
    }
    *(tree->last ? &tree->last->next : &tree->first) = entry;
    tree->last = entry;
}

static bool add(tn_module *module, const char *name, enum tn__nn_kind kind,
                void *value, const char *what)
{
    return name_allowed(module, name, what) &&
           tn__nn_add_entry(module, name, kind, value);
}

/* Returns the nesting depth of child, searched to a depth of `room` levels, or
 * INT_MAX if it contains module, because adding it to module would make a
 * cycle. */
static int height(const tn_module *child, const tn_module *module, int room)
{
    int most = 0;
    if (module == child)
        return INT_MAX;
    if (room == 0)
        return 1;
    for (const tn__nn_entry *entry = child->tree->first;
         entry && most < INT_MAX; entry = entry->next) {
        int here = entry->kind == TN__NN_CHILD
                       ? height(entry->value, module, room - 1)
                       : 0;
        most = here > most ? here : most;
    }
    return most < INT_MAX ? most + 1 : INT_MAX;
}

void *tn_module_add(tn_module *module, const char *name, tn_module *child)
{
    if (!tn__nn_module(module, "module_add") ||
        !tn_object_check(child, &tn__nn_module_class, "module_add", "child"))
        return NULL;
    int deep = height(child, module, TN__NN_MAX_DEPTH);
    if (deep == INT_MAX) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "module_add", "child",
                                 "\"%s\" contains the module it is added to",
                                 name ? name : "");
        return NULL;
    }
    for (const tn_module *m = module; m && deep <= TN__NN_MAX_DEPTH;
         m = m->tree->parent)
        deep++;
    if (deep > TN__NN_MAX_DEPTH) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "module_add", "child",
                                 "modules would be nested more than %d deep",
                                 TN__NN_MAX_DEPTH);
        return NULL;
    }
    return add(module, name, TN__NN_CHILD, child, "module_add") ? child : NULL;
}

tn_tensor *tn_module_add_parameter(tn_module *module, const char *name,
                                   tn_tensor *value)
{
    const char *what = "module_add_parameter";
    if (!tn__nn_module(module, what) || !tn__nn_tensor(value, what, "value") ||
        !tn_requires_grad(value))
        return NULL;
    tn_tensor_set_maker(value, ((tn_module *)module)->type->name);
    return add(module, name, TN__NN_PARAMETER, value, "module_add_parameter")
               ? value
               : NULL;
}

tn_tensor *tn_module_add_buffer(tn_module *module, const char *name,
                                tn_tensor *value)
{
    if (!tn__nn_module(module, "module_add_buffer") ||
        !tn__nn_tensor(value, "module_add_buffer", "value"))
        return NULL;
    return add(module, name, TN__NN_BUFFER, value, "module_add_buffer")
               ? value
               : NULL;
}

/* ---- finding and walking ------------------------------------------------ */

static void *find_path(tn_module *module, const char *path,
                       enum tn__nn_kind kind, const char *what)
{
    const char *at = path;
    for (tn_module *here = module; here && at;) {
        size_t length = strcspn(at, ".");
        tn__nn_entry *entry = tn__nn_find(here, at, length);
        bool last = at[length] == '\0';
        if (last && entry && entry->kind == TN__NN_COMPUTED &&
            kind != TN__NN_CHILD)
            return tn__nn_compute(entry->value);
        if (!entry || entry->kind != (last ? kind : TN__NN_CHILD))
            break;
        if (last)
            return entry->value;
        here = entry->value;
        at += length + 1;
    }
    if (!module || !tn__nn_not_null(path, what, "path"))
        return NULL;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, what, "path", "%s has no \"%s\"",
                             module->type->name, path ? path : "");
    return NULL;
}

tn_module *tn_module_child(const tn_module *module, const char *path)
{
    tn_module *here = tn__nn_module(module, "module_child");
    return here ? find_path(here, path, TN__NN_CHILD, "module_child") : NULL;
}

tn_tensor *tn_module_parameter(const tn_module *module, const char *path)
{
    tn_module *here = tn__nn_module(module, "module_parameter");
    return here ? find_path(here, path, TN__NN_PARAMETER, "module_parameter")
                : NULL;
}

tn_tensor *tn_module_buffer(const tn_module *module, const char *path)
{
    tn_module *here = tn__nn_module(module, "module_buffer");
    return here ? find_path(here, path, TN__NN_BUFFER, "module_buffer") : NULL;
}

/* Appends ".name" to path at `length`. Returns the new length, or 0 on
 * error. */
static size_t path_push(char *path, size_t length, const char *name)
{
    size_t more = strlen(name) + (length > 0);
    if (length + more >= TN__NN_PATH_BYTES) {
        tn_error_set(TN_ERR_ARGUMENT,
                     "the path of module \"%s.%s\" is longer than %d bytes",
                     path, name, TN__NN_PATH_BYTES);
        return 0;
    }
    sprintf(path + length, "%s%s", length ? "." : "", name);
    return length + more;
}

typedef struct walk {
    void (*visit)(tn_module *module, const char *path, void *context);
    tn_status (*visit_tensor)(tn_tensor *x, const char *path, void *context);
    unsigned kinds;
    void *context;
    char path[TN__NN_PATH_BYTES];
} walk;

static tn_status walk_module(walk *w, tn_module *module, size_t length)
{
    if (w->visit)
        w->visit(module, w->path, w->context);
    for (tn__nn_entry *entry = module->tree->first; entry;
         entry = entry->next) {
        size_t deeper = path_push(w->path, length, entry->name);
        if (!deeper)
            return TN_ERR_ARGUMENT;
        tn_status status = TN_OK;
        if (entry->kind == TN__NN_CHILD)
            status = walk_module(w, entry->value, deeper);
        else if (w->visit_tensor && w->kinds & 1u << entry->kind)
            status = w->visit_tensor(entry->value, w->path, w->context);
        w->path[length] = '\0';
        if (status != TN_OK)
            return status;
    }
    return TN_OK;
}

void tn_module_walk(tn_module *module,
                    void (*visit)(tn_module *module, const char *path,
                                  void *context),
                    void *context)
{
    module = tn__nn_module(module, "module_walk");
    if (!module ||
        !tn__nn_not_null((const void *)(uintptr_t)visit, "module_walk",
                         "visit"))
        return;
    walk w = {.visit = visit, .context = context};
    walk_module(&w, module, 0);
}

tn_status tn__nn_walk_tensors(tn_module *module, unsigned kinds,
                              tn_status (*visit)(tn_tensor *x,
                                                 const char *path,
                                                 void *context),
                              void *context)
{
    walk w = {.visit_tensor = visit, .kinds = kinds, .context = context};
    return walk_module(&w, module, 0);
}

static void set_training(tn_module *module, const char *path, void *context)
{
    (void)path;
    module->training = *(bool *)context;
}

void *tn_module_train(tn_module *module, bool on)
{
    if (!tn__nn_module(module, "module_train"))
        return NULL;
    tn_module_walk(module, set_training, &on);
    return module;
}
