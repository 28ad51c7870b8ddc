/* ptx_parse.c: parses the PTX source that NVRTC prints. A line that it does not
 * support makes the module fail to load. */
#include <ctype.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_parse.h"

enum { MOST_OPERANDS = 8 };

void ptx_fail(parser *p, const char *what)
{
    if (!p->failed)
        sim_report("PTX, line %d: %s '%s'", p->line, what, p->token);
    p->failed = true;
}

/* Returns the array with space for one more element; NULL, with a report, if
 * memory runs out. */
static void *grown(parser *p, void *array, size_t count, size_t size)
{
    if (count & (count - 1))
        return array;
    void *more = realloc(array, (count ? 2 * count : 1) * size);
    if (!more)
        ptx_fail(p, "no memory at");
    return more;
}

/* ---- tokens -------------------------------------------------------------- */

static void skip_blanks(parser *p)
{
    for (;;) {
        if (*p->p == '\n')
            p->line++;
        if (isspace((unsigned char)*p->p)) {
            p->p++;
        } else if (p->p[0] == '/' && p->p[1] == '/') {
            p->p += strcspn(p->p, "\n");
        } else {
            return;
        }
    }
}

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("_$.%", c));
}

/* Reads the next token or single character; "" at the end. */
static const char *next(parser *p)
{
    size_t length = 0;
    skip_blanks(p);
    while (in_word(p->p[length]))
        length++;
    if (!length && *p->p)
        length = 1;
    if (length >= sizeof p->token) {
        ptx_fail(p, "too long a word");
        length = sizeof p->token - 1;
    }
    memcpy(p->token, p->p, length);
    p->token[length] = 0;
    p->p += length;
    return p->token;
}

static bool is(const parser *p, const char *word)
{
    return strcmp(p->token, word) == 0;
}

static char peek(parser *p)
{
    skip_blanks(p);
    return *p->p;
}

static void expect(parser *p, const char *word)
{
    next(p);
    if (!is(p, word))
        ptx_fail(p, "not expected:");
}

static void skip_to(parser *p, const char *word)
{
    while (*next(p) && !is(p, word)) {
    }
}

static int64_t whole_number(parser *p)
{
    return (int64_t)strtoull(next(p), NULL, 0);
}

/* ---- symbols ------------------------------------------------------------- */

/* Compares two symbols by name, which is their first field. */
static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Returns the symbol of this name; NULL if there is none. */
static symbol *find(const parser *p, const char *name)
{
    symbol **found = tfind(name, &p->symbols, by_name);
    return found ? *found : NULL;
}

/* Returns the symbol of this name; creates it if necessary. A name in an inner
 * block is the same symbol as outside. This is safe because NVRTC gives
 * registers unique numbers, and a block writes its registers before it reads
 * them. */
static symbol *name_it(parser *p, const char *name, int kind)
{
    static symbol nothing;
    symbol *s = find(p, name);
    if (s)
        return s;
    s = calloc(1, sizeof *s);
    if (s)
        snprintf(s->name, sizeof s->name, "%s", name);
    if (!s || !tsearch(s, &p->symbols, by_name)) {
        ptx_fail(p, "no memory at");
        free(s);
        return &nothing;
    }
    s->kind = kind;
    s->value = kind == REGISTER ? p->kernel->slot_count++ : -1;
    return s;
}

/* Returns a new slot with an initial value. */
static int32_t slot_first(parser *p, const char *name, int what,
                          uint64_t value)
{
    ptx_kernel *k = p->kernel;
    const int32_t known = k->slot_count;
    const int32_t slot = name_it(p, name, REGISTER)->value;
    if (slot < known)
        return slot;
    ptx_first *more =
        grown(p, k->first, (size_t)k->first_count, sizeof *k->first);
    if (!more)
        return 0;
    k->first = more;
    more[k->first_count++] =
        (ptx_first){.slot = slot, .what = what, .value = value};
    return slot;
}

static int32_t constant(parser *p, uint64_t value)
{
    char name[32];
    snprintf(name, sizeof name, "#%llx", (unsigned long long)value);
    return slot_first(p, name, PTX_CONSTANT, value);
}

/* ---- declarations ------------------------------------------------------- */

size_t ptx_size_of_type(const char *type)
{
    return strcmp(type, ".pred") == 0 ? 1 : (size_t)atoi(type + 2) / 8;
}

/* Parses the declaration after .shared, .local or .param, up to ',', ')' or
 * ';': [.align N] .type name[count]. Returns its offset in a space of *top
 * bytes, and increases *top. */
static size_t variable(parser *p, size_t *top)
{
    size_t align = 0, size = 0, count = 1;
    for (next(p); p->token[0] == '.'; next(p)) {
        if (is(p, ".align")) {
            align = (size_t)whole_number(p);
        } else if (is(p, ".ptr")) {
            if (peek(p) == '.' && strncmp(p->p, ".align", 6) == 0) {
                next(p);
                next(p);
            }
        } else {
            size = ptx_size_of_type(p->token);
        }
    }
    symbol *s = name_it(p, p->token, VARIABLE);
    if (peek(p) == '[') {
        next(p);
        count = (size_t)whole_number(p);
        expect(p, "]");
    }
    align = align ? align : size;
    if (!align) {
        ptx_fail(p, "a variable without a type:");
        return 0;
    }
    s->at = (*top + align - 1) / align * align;
    *top = s->at + size * count;
    return s->at;
}

static void parameters(parser *p)
{
    ptx_kernel *k = p->kernel;
    expect(p, "(");
    while (!p->failed && *next(p) && !is(p, ")")) {
        if (is(p, ","))
            continue;
        if (!is(p, ".param") || k->parameter_count == PTX_MOST_PARAMETERS) {
            ptx_fail(p, "no parameter:");
            return;
        }
        size_t i = k->parameter_count++;
        k->offset[i] = variable(p, &k->parameter_bytes);
        k->bytes[i] = k->parameter_bytes - k->offset[i];
    }
}

/* ---- operands ----------------------------------------------------------- */

static int32_t special(parser *p)
{
    static const struct {
        const char *name;
        int what;
        uint64_t value;
    } specials[] = {
        {"%tid.x", PTX_TID, 0},       {"%ntid.x", PTX_NTID, 0},
        {"%ctaid.x", PTX_CTAID, 0},   {"%nctaid.x", PTX_NCTAID, 0},
        {"%laneid", PTX_LANE, 0},     {"WARP_SZ", PTX_CONSTANT, 32},
        {"%tid.y", PTX_CONSTANT, 0},  {"%ntid.y", PTX_CONSTANT, 1},
        {"%ctaid.y", PTX_CONSTANT, 0}, {"%nctaid.y", PTX_CONSTANT, 1},
    };
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        if (is(p, specials[i].name))
            return slot_first(p, specials[i].name, specials[i].what,
                              specials[i].value);
    return -1;
}

/* Parses a number: 0f3F800000, 0d..., 17, 0x1F, 1U. negative: a '-' came before
 * it. */
static int32_t number(parser *p, bool negative)
{
    const char *t = p->token;
    bool f32 = t[0] == '0' && t[1] == 'f', f64 = t[0] == '0' && t[1] == 'd';
    uint64_t value = strtoull(f32 || f64 ? t + 2 : t, NULL,
                              f32 || f64 ? 16 : 0);
    if (negative)
        value = f32 ? value ^ 0x80000000u : f64 ? value ^ 1ull << 63 : -value;
    return constant(p, value);
}

/* Returns the slot of a token: a register, special register, number or
 * variable. */
static int32_t slot_of(parser *p, bool negative)
{
    int32_t slot = special(p);
    if (slot >= 0)
        return slot;
    if (isdigit((unsigned char)p->token[0]))
        return number(p, negative);
    const symbol *s = find(p, p->token);
    if (!s || s->kind == LABEL) {
        ptx_fail(p, "an unknown name:");
        return 0;
    }
    return s->kind == VARIABLE ? constant(p, s->at) : s->value;
}

static operand address(parser *p)
{
    next(p);
    operand o = {.slot = slot_of(p, false)};
    next(p);
    if (is(p, "+")) {
        const bool minus = peek(p) == '-';
        if (minus)
            next(p);
        o.offset = whole_number(p) * (minus ? -1 : 1);
        next(p);
    }
    if (!is(p, "]"))
        ptx_fail(p, "no address:");
    return o;
}

static operand operand_of(parser *p)
{
    operand o = {.slot = -1};
    next(p);
    if (is(p, "["))
        return address(p);
    if (is(p, "{")) {
        while (!p->failed && o.part_count < 4 && !is(p, "}")) {
            next(p);
            o.part[o.part_count++] = is(p, "_") ? -1 : slot_of(p, false);
            next(p);
        }
        if (!is(p, "}"))
            ptx_fail(p, "no vector:");
        return o;
    }
    bool negative = is(p, "-");
    if (negative)
        next(p);
    if (is(p, "_"))
        return o;
    if (p->token[0] == '$')
        o.label = name_it(p, p->token, LABEL);
    else
        o.slot = slot_of(p, negative);
    return o;
}

/* ---- instructions ------------------------------------------------------- */

void ptx_ins_new(parser *p, const ptx_ins *like)
{
    ptx_kernel *k = p->kernel;
    ptx_ins *more = grown(p, k->ins, (size_t)k->ins_count, sizeof *k->ins);
    if (!more)
        return;
    k->ins = more;
    more[k->ins_count++] = *like;
}

static void instruction(parser *p)
{
    ptx_ins i = {.guard = -1, .line = p->line};
    operand o[MOST_OPERANDS] = {{.slot = 0}};
    char name[128];
    int count = 0;
    if (is(p, "@")) {
        next(p);
        i.unless = is(p, "!");
        if (i.unless)
            next(p);
        i.guard = slot_of(p, false);
        next(p);
    }
    snprintf(name, sizeof name, "%s", p->token);
    while (!p->failed && peek(p) != ';') {
        if (count == MOST_OPERANDS)
            ptx_fail(p, "too many operands before");
        else
            o[count++] = operand_of(p);
        if (peek(p) == ',')
            next(p);
        else if (peek(p) != ';')
            ptx_fail(p, "no end of the instruction after");
    }
    next(p);
    if (p->failed)
        return;
    snprintf(p->token, sizeof p->token, "%s", name);
    ptx_make(p, &i, o);
}

/* Parses a declaration of registers, such as ".reg .b32 %r<12>, tmp;". */
static void registers(parser *p)
{
    next(p); /* skips the type */
    while (!p->failed && *next(p) && !is(p, ";")) {
        char name[128], numbered[160];
        if (is(p, ","))
            continue;
        snprintf(name, sizeof name, "%s", p->token);
        if (peek(p) != '<') {
            name_it(p, name, REGISTER);
            continue;
        }
        next(p);
        int64_t count = whole_number(p);
        expect(p, ">");
        for (int64_t i = 0; i < count && !p->failed; i++) {
            snprintf(numbered, sizeof numbered, "%s%lld", name, (long long)i);
            if (strlen(numbered) < sizeof p->token)
                name_it(p, numbered, REGISTER);
        }
    }
}

/* Resolves labels when all instructions are known. */
static void finish(parser *p)
{
    ptx_kernel *k = p->kernel;
    k->shared_shift = 2;
    for (ptx_ins *i = k->ins; i < k->ins + k->ins_count && !p->failed; i++) {
        k->copies |= i->op == PTX_COPY;
        if (i->space == PTX_SHARED && i->align % 4)
            k->shared_shift = 0;
        if (i->op != PTX_BRA)
            continue;
        i->target = ((const symbol *)(intptr_t)i->imm)->value;
        if (i->target < 0)
            ptx_fail(p, "a label that is nowhere, before");
    }
}

static void body(parser *p)
{
    int depth = 1;
    expect(p, "{");
    while (depth && !p->failed) {
        next(p);
        if (!*p->token) {
            ptx_fail(p, "the text ends in a kernel");
        } else if (is(p, "{")) {
            depth++;
        } else if (is(p, "}")) {
            depth--;
        } else if (is(p, ".reg")) {
            registers(p);
        } else if (is(p, ".shared") || is(p, ".local")) {
            variable(p, is(p, ".shared") ? &p->kernel->shared_bytes
                                         : &p->kernel->local_bytes);
            expect(p, ";");
        } else if (is(p, ".pragma")) {
            skip_to(p, ";");
        } else if (p->token[0] == '$' && peek(p) == ':') {
            name_it(p, p->token, LABEL)->value = p->kernel->ins_count;
            next(p);
        } else {
            instruction(p);
        }
    }
    ptx_ins_new(p, &(ptx_ins){.op = PTX_RET, .guard = -1, .line = p->line});
    finish(p);
}

/* ---- modules ------------------------------------------------------------ */

static void kernel(parser *p, ptx_module *module)
{
    ptx_kernel *more = grown(p, module->kernel, module->count, sizeof *more);
    if (!more)
        return;
    module->kernel = more;
    p->kernel = &more[module->count++];
    memset(p->kernel, 0, sizeof *p->kernel);
    snprintf(p->kernel->name, sizeof p->kernel->name, "%s", next(p));
    parameters(p);
    p->kernel->most_threads = 1024;
    while (!p->failed && peek(p) == '.') { /* parses a directive such as
                                            * ".maxntid 256, 1, 1" */
        if (strcmp(next(p), ".maxntid") == 0)
            p->kernel->most_threads = (unsigned)whole_number(p);
        p->p += strcspn(p->p, "\n");
    }
    body(p);
    if (p->kernel->shared_bytes > 49152)
        ptx_fail(p, "more than 49152 bytes of shared memory before");
    tdestroy(p->symbols, free);
    p->symbols = NULL;
}

ptx_module *ptx_load(const char *text)
{
    parser p = {.p = text, .line = 1};
    ptx_module *module = calloc(1, sizeof *module);
    while (module && !p.failed && *next(&p)) {
        if (is(&p, ".version") || is(&p, ".target") ||
            is(&p, ".address_size"))
            p.p += strcspn(p.p, "\n");
        else if (is(&p, ".global")) /* from the compiler's own headers; a kernel
                                     * that uses one fails to load */
            skip_to(&p, ";");
        else if (is(&p, ".entry"))
            kernel(&p, module);
        else if (!is(&p, ".visible"))
            ptx_fail(&p, "not understood:");
    }
    if (!p.failed)
        return module;
    ptx_free(module);
    return NULL;
}

void ptx_free(ptx_module *module)
{
    for (size_t i = 0; module && i < module->count; i++) {
        free(module->kernel[i].ins);
        free(module->kernel[i].first);
    }
    if (module)
        free(module->kernel);
    free(module);
}

const ptx_kernel *ptx_find(const ptx_module *module, const char *name)
{
    for (size_t i = 0; i < module->count; i++)
        if (strcmp(module->kernel[i].name, name) == 0)
            return &module->kernel[i];
    return NULL;
}

size_t ptx_parameters(const ptx_kernel *kernel, size_t *count,
                      const size_t **offset, const size_t **bytes)
{
    *count = kernel->parameter_count;
    *offset = kernel->offset;
    *bytes = kernel->bytes;
    return kernel->parameter_bytes;
}

unsigned ptx_most_threads(const ptx_kernel *kernel)
{
    return kernel->most_threads;
}
