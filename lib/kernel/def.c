/* def.c: parses definitions of kernels, and caches the kernels made of a
 * definition by their input dtypes. */
#include <kernel/parse.h>

#include <stdio.h>
#include <string.h>

#include <base/lock.h>
#include <base/memory.h>
#include <kernel/math/functions.h>
#include <kernel/ssa.h>

static tn__lock lock = TN__LOCK_INIT;
static tn__def *all_definitions;

static bool parse_marks(tn__parser *parser, bool *row, bool *offset)
{
    if (parser->token.kind != ':')
        return true;
    if (!tn__parser_advance(parser))
        return false;
    do {
        bool *mark = tn__parser_is_name(parser, "row")      ? row
                     : tn__parser_is_name(parser, "offset") ? offset
                                                            : NULL;
        if (!mark)
            return tn__parser_expected(parser, "a mark, row or offset");
        *mark = true;
        if (!tn__parser_advance(parser))
            return false;
    } while (parser->token.kind == TN__TOKEN_NAME);
    return true;
}

static bool parse_input(tn__parser *parser, tn__def *def)
{
    if (def->input_count == TN__KERNEL_MAX_INPUTS)
        return tn__lexer_fail(&parser->lexer, parser->token.line,
                              parser->token.column,
                              "expected at most %d inputs",
                              TN__KERNEL_MAX_INPUTS);
    tn__binding *binding;
    bool row = false, offset = false;
    if (!tn__parser_bind(parser, "the name of an input", &binding) ||
        !parse_marks(parser, &row, &offset))
        return false;
    binding->input = true;
    binding->offset = offset;
    int i = def->input_count++;
    def->input[i].name = binding->name;
    def->input[i].row = row;
    def->input[i].offset = offset;
    return true;
}

static bool parse_param_type(tn__parser *parser, tn_dtype *dtype)
{
    static const struct {
        const char *name;
        tn_dtype dtype;
    } types[] = {{"f32", TN_F32},          {"f64", TN_F64},
                 {"i32", TN_I32},          {"i64", TN_I64},
                 {"bool", TN_BOOL},        {"float", TN_DTYPE_NONE},
                 {"int", TN__WEAK_INTEGER}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (tn__parser_is_name(parser, types[i].name)) {
            *dtype = types[i].dtype;
            return tn__parser_advance(parser);
        }
    return tn__parser_expected(
        parser, "a type: f32, f64, i32, i64, bool, float, int or type");
}

/* Turns the name that was bound last into the name of a type parameter. The
 * name needs no slot (index of a value), because it is not a value. */
static bool parse_type_param(tn__parser *parser, tn__def *def,
                             tn__binding *binding)
{
    if (def->input_count + def->type_count == TN__KERNEL_MAX_INPUTS)
        return tn__parser_fail(parser, &parser->token,
                               "expected at most %d inputs and type parameters",
                               TN__KERNEL_MAX_INPUTS);
    binding->type = true;
    binding->slot = (uint32_t)def->type_count++;
    parser->slot_count--;
    def->param_count--;
    return tn__parser_advance(parser);
}

static bool parse_param(tn__parser *parser, tn__def *def)
{
    if (def->param_count == TN__KERNEL_MAX_PARAMS)
        return tn__lexer_fail(&parser->lexer, parser->token.line,
                              parser->token.column,
                              "expected at most %d parameters",
                              TN__KERNEL_MAX_PARAMS);
    tn__binding *binding;
    if (!tn__parser_bind(parser, "the name of a parameter", &binding))
        return false;
    int i = def->param_count++;
    def->param[i].name = binding->name;
    if (parser->token.kind != ':')
        return true;
    if (!tn__parser_advance(parser))
        return false;
    return tn__parser_is_name(parser, "type")
               ? parse_type_param(parser, def, binding)
               : parse_param_type(parser, &def->param[i].dtype);
}

static bool parse_list(tn__parser *parser, tn__def *def,
                       bool (*item)(tn__parser *, tn__def *))
{
    if (!item(parser, def))
        return false;
    while (parser->token.kind == ',')
        if (!tn__parser_advance(parser) || !item(parser, def))
            return false;
    return true;
}

static bool parse_head(tn__parser *parser, tn__def *def)
{
    tn__token name = parser->token;
    if (!tn__parser_take(parser, TN__TOKEN_NAME, "the definition's name"))
        return false;
    def->name = tn__arena_text(&def->arena, name.text, name.length);
    if (!def->name || !tn__parser_take(parser, '(', "'('"))
        return false;
    if (parser->token.kind != ';' && parser->token.kind != ')' &&
        !parse_list(parser, def, parse_input))
        return false;
    if (parser->token.kind == ';') {
        if (!tn__parser_advance(parser) ||
            !parse_list(parser, def, parse_param))
            return false;
    }
    if (parser->token.kind != ')')
        return tn__parser_expected(parser, "',', ';' or ')'");
    return tn__parser_advance(parser) && tn__parser_take(parser, '=', "'='");
}

static bool parse_rest(tn__parser *parser, tn__def *def)
{
    def->body = tn__parse_body(parser);
    if (!def->body)
        return false;
    if (parser->token.kind != TN__TOKEN_END)
        return parser->token.kind != TN__TOKEN_BAD &&
               tn__parser_expected(parser, "an operator or the end");
    def->slot_count = parser->slot_count;
    def->output_count = tn__node_values(def->body);
    return true;
}

/* Ends the parsing of a definition. Moves the definition from the stack into
 * its own arena, which also has its syntax tree. */
static tn__def *finish(tn__def *draft, bool good)
{
    tn__def *def = good ? tn__arena_take(&draft->arena, sizeof *def) : NULL;
    if (!def) {
        tn__arena_release(&draft->arena);
        return NULL;
    }
    *def = *draft;
    tn__lock_take(&lock);
    def->next = all_definitions;
    all_definitions = def;
    tn__lock_give(&lock);
    return def;
}

void tn__def_drop(const tn__def *def)
{
    if (!def || atomic_load_explicit(&def->entries, memory_order_acquire))
        return;
    tn__lock_take(&lock);
    tn__def **at = &all_definitions;
    while (*at != def)
        at = &(*at)->next;
    *at = def->next;
    tn__lock_give(&lock);
    tn__arena arena = def->arena; /* copied first, because `def` is allocated in
                                   * this arena */
    tn__arena_release(&arena);
}

tn__def *tn__def_parse(const char *text, const char *where)
{
    tn__def draft = {0};
    tn__parser parser;
    tn__parser_init(&parser, text, where, &draft.arena);
    parser.find_function = tn__math_args;
    draft.where = tn__arena_text(&draft.arena, where, strlen(where));
    return finish(&draft, draft.where && tn__parser_advance(&parser) &&
                              parse_head(&parser, &draft) &&
                              parse_rest(&parser, &draft));
}

/* ---- gradients written by hand ----------------------------------------- */

/* Binds the name of output i ("out") or of its gradient ("g"). If the
 * definition has several outputs, the names are "out0", "out1" and so on. */
static bool bind_numbered(tn__parser *parser, const char *stem, int i,
                          int count)
{
    char name[16];
    if (count == 1)
        snprintf(name, sizeof name, "%s", stem);
    else
        snprintf(name, sizeof name, "%s%d", stem, i);
    uint32_t slot = parser->slot_count++;
    for (uint32_t k = 0; k < parser->binding_count; k++)
        if (!strcmp(parser->binding[k].name, name))
            return true; /* an input or parameter of the definition has this
                          * name already */
    parser->binding[parser->binding_count++] =
        (tn__binding){.name = tn__arena_text(parser->arena, name, strlen(name)),
                      .slot = slot,
                      .line = 1,
                      .column = 1,
                      .input = true};
    return parser->binding[parser->binding_count - 1].name;
}

static void bind_known(tn__parser *parser, const char *name, bool input,
                       bool offset)
{
    parser->binding[parser->binding_count++] =
        (tn__binding){.name = name,
                      .slot = parser->slot_count++,
                      .line = 1,
                      .column = 1,
                      .input = input,
                      .offset = offset};
}

/* Replaces the slot (index) of each named value in a tree by slot_of[]. The
 * tensors that the gradient reads become its inputs 0, 1 and so on, in their
 * old order. Other tensors do not occur in the tree. */
static void renumber(tn__node *node, const uint32_t *slot_of)
{
    if (node->kind == TN__NODE_NAME || node->kind == TN__NODE_LOAD ||
        node->kind == TN__NODE_LET || node->kind == TN__NODE_LOOP)
        node->slot = slot_of[node->slot];
    for (uint32_t i = 0; i < node->count; i++)
        renumber(node->kid[i], slot_of);
}

static bool choose_inputs(tn__parser *parser, const tn__def *def,
                          tn__def *draft)
{
    int candidates = def->input_count + 2 * def->output_count;
    uint8_t level[TN__KERNEL_MAX_OUTPUTS];
    uint32_t slot_of[TN__MAX_SLOTS] = {0};
    tn__def_levels(def, level);
    for (int u = 0; u < candidates; u++) {
        /* The indices of the values are in the order inputs, parameters,
         * outputs, gradients of outputs. */
        int slot = u < def->input_count ? u : u + def->param_count;
        if (!parser->used[slot])
            continue;
        if (draft->input_count == TN__KERNEL_MAX_INPUTS)
            return tn__lexer_fail(&parser->lexer, 1, 1,
                                  "the gradient uses more than %d tensors",
                                  TN__KERNEL_MAX_INPUTS);
        int i = draft->input_count++;
        draft->used[i] = u;
        slot_of[slot] = (uint32_t)i;
        for (uint32_t k = 0; k < parser->binding_count; k++)
            if (parser->binding[k].slot == (uint32_t)slot)
                draft->input[i].name = parser->binding[k].name;
        if (u < def->input_count) {
            draft->input[i].row = def->input[u].row;
            draft->input[i].offset = def->input[u].offset;
        } else {
            int output = (u - def->input_count) % def->output_count;
            draft->input[i].row = level[output] == TN_LEVEL_ROW;
        }
    }
    uint32_t next = (uint32_t)draft->input_count;
    for (int i = 0; i < def->param_count; i++) {
        draft->param[i].name = def->param[i].name;
        draft->param[i].dtype = def->param[i].dtype;
        slot_of[def->input_count + i] = next++;
    }
    draft->param_count = def->param_count;
    for (uint32_t s = (uint32_t)(candidates + def->param_count);
         s < parser->slot_count; s++)
        slot_of[s] = next++;
    draft->slot_count = next;
    renumber((tn__node *)draft->body, slot_of);
    return true;
}

tn__def *tn__def_gradient_parse(const tn__def *def, int wrt, const char *text,
                                const char *where)
{
    tn__def draft = {0};
    tn__parser parser;
    tn__parser_init(&parser, text, where, &draft.arena);
    parser.find_function = tn__math_args;
    for (int i = 0; i < def->input_count; i++)
        bind_known(&parser, def->input[i].name, true, def->input[i].offset);
    for (int i = 0; i < def->param_count; i++)
        bind_known(&parser, def->param[i].name, false, false);
    bool good = true;
    draft.of_gradient = true;
    for (int i = 0; good && i < def->output_count; i++)
        good = bind_numbered(&parser, "out", i, def->output_count);
    for (int i = 0; good && i < def->output_count; i++)
        good = bind_numbered(&parser, "g", i, def->output_count);
    char name[160];
    int length = snprintf(name, sizeof name, "%s_grad_%s", def->name,
                          def->input[wrt].name);
    draft.name = tn__arena_text(&draft.arena, name, (size_t)length);
    draft.where = tn__arena_text(&draft.arena, where, strlen(where));
    good = good && draft.name && draft.where && tn__parser_advance(&parser) &&
           parse_rest(&parser, &draft);
    if (good && draft.output_count != 1)
        good = tn__lexer_fail(&parser.lexer, 1, 1,
                              "a gradient must have one value, not %d",
                              draft.output_count);
    return finish(&draft, good && choose_inputs(&parser, def, &draft));
}

int tn__def_gradient_used(const tn__def *gradient,
                          int used[TN__KERNEL_MAX_INPUTS])
{
    for (int i = 0; i < gradient->input_count; i++)
        used[i] = gradient->used[i];
    return gradient->input_count;
}

/* ---- queries ----------------------------------------------------------- */

const char *tn__def_name(const tn__def *def)
{
    return def->name;
}

int tn__def_input_count(const tn__def *def)
{
    return def->input_count;
}

int tn__def_type_count(const tn__def *def)
{
    return def->type_count;
}

int tn__def_param_count(const tn__def *def)
{
    return def->param_count;
}

int tn__def_output_count(const tn__def *def)
{
    return def->output_count;
}

const char *tn__def_input_name(const tn__def *def, int i)
{
    return def->input[i].name;
}

bool tn__def_input_is_offset(const tn__def *def, int i)
{
    return def->input[i].offset;
}

const char *tn__def_param_name(const tn__def *def, int i)
{
    return def->param[i].name;
}

static const tn__kernel *find(const tn__def *def, uint64_t dtypes)
{
    const tn__def_entry *entry =
        atomic_load_explicit(&def->entries, memory_order_acquire);
    for (; entry; entry = entry->next)
        if (entry->dtypes == dtypes)
            return entry->kernel;
    return NULL;
}

const tn__kernel *tn__def_kernel(const tn__def *def, const tn_dtype *dtype)
{
    uint64_t dtypes = 0;
    for (int i = 0; i < def->input_count + def->type_count; i++)
        if (i >= def->input_count || !def->input[i].offset)
            dtypes |= (uint64_t)(dtype[i] & 15) << 4 * i;
    const tn__kernel *kernel = find(def, dtypes);
    if (kernel)
        return kernel;
    tn__lock_take(&lock);
    kernel = find(def, dtypes);
    if (!kernel && (kernel = tn__def_type(def, dtype))) {
        /* `def` is const, since filling its cache does not change its
         * meaning */
        tn__def *cache = (tn__def *)def;
        tn__def_entry *entry = tn__alloc(sizeof *entry);
        if (entry) {
            entry->dtypes = dtypes;
            entry->kernel = kernel;
            entry->next =
                atomic_load_explicit(&def->entries, memory_order_relaxed);
            atomic_store_explicit(&cache->entries, entry, memory_order_release);
        } else {
            tn__kernel_free((tn__kernel *)kernel);
            kernel = NULL;
        }
    }
    tn__lock_give(&lock);
    return kernel;
}
