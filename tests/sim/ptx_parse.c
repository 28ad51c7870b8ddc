/* ptx_parse.c: the text that NVRTC makes, as instructions over slots. What is
 * not understood fails the module, with its line. */
#include <ctype.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx.h"

#define MOST_OPERANDS 8

/* A name: a register or constant (its slot), a label (its place), a parameter,
 * a shared or local variable (an address in that space). */
typedef struct symbol {
    char name[128];
    int32_t value; /* slot; place, -1: not seen yet */
    int64_t at;
    int kind, space;
} symbol;
enum { REGISTER, LABEL, VARIABLE };

typedef struct parser {
    const char *p;
    int32_t line;
    bool failed;
    char token[128];
    ptx_kernel *kernel;
    void *symbols; /* owned; a tree by their names */
} parser;

static void fail(parser *p, const char *what)
{
    if (!p->failed)
        sim_say("PTX, line %d: %s '%s'", p->line, what, p->token);
    p->failed = true;
}

/* An array with room for one more; NULL: no memory, said. */
static void *grown(parser *p, void *array, size_t count, size_t size)
{
    if (count & (count - 1))
        return array;
    void *more = realloc(array, (count ? 2 * count : 1) * size);
    if (!more)
        fail(p, "no memory at");
    return more;
}

/* ---- words -------------------------------------------------------------- */

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

/* The next word or single character; "" at the end. */
static const char *next(parser *p)
{
    size_t length = 0;
    skip_blanks(p);
    while (in_word(p->p[length]))
        length++;
    if (!length && *p->p)
        length = 1;
    if (length >= sizeof p->token) {
        fail(p, "too long a word");
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
        fail(p, "not expected:");
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

/* ---- names -------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const symbol *)a)->name, ((const symbol *)b)->name);
}

/* NULL if it is not there. */
static symbol *find(const parser *p, const char *name)
{
    symbol wanted;
    snprintf(wanted.name, sizeof wanted.name, "%s", name);
    symbol **found = tfind(&wanted, &p->symbols, by_name);
    return found ? *found : NULL;
}

/* The symbol of a name, made if need be; what of a name in a block of its own
 * differs from one outside is not told apart: NVRTC's registers are numbered
 * through, and a block's are only written before they are read. */
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
        fail(p, "no memory at");
        free(s);
        return &nothing;
    }
    s->kind = kind;
    s->value = kind == REGISTER ? p->kernel->slot_count++ : -1;
    return s;
}

/* A slot that begins with a value. */
static int32_t slot_first(parser *p, const char *name, int what,
                          uint64_t value)
{
    bool is_new = !find(p, name);
    int32_t slot = name_it(p, name, REGISTER)->value;
    if (!is_new)
        return slot;
    ptx_kernel *k = p->kernel;
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

static size_t size_of_type(const char *type)
{
    return strcmp(type, ".pred") == 0 ? 1 : (size_t)atoi(type + 2) / 8;
}

/* What stands behind .shared, .local or .param, up to ',', ')' or ';' :
 * [.align N] .type name[count]. Returns its place in a space of *top bytes. */
static symbol *variable(parser *p, int space, size_t *top, size_t *bytes)
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
            size = size_of_type(p->token);
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
        fail(p, "a variable without a type:");
        return s;
    }
    *top = (*top + align - 1) / align * align;
    s->space = space;
    s->at = (int64_t)*top;
    *bytes = size * count;
    *top += *bytes;
    return s;
}

static void parameters(parser *p)
{
    ptx_kernel *k = p->kernel;
    expect(p, "(");
    while (!p->failed && *next(p) && !is(p, ")")) {
        if (is(p, ","))
            continue;
        if (!is(p, ".param") || k->parameter_count == PTX_MOST_PARAMETERS) {
            fail(p, "no parameter:");
            return;
        }
        size_t i = k->parameter_count++;
        k->offset[i] = (size_t)variable(p, PTX_PARAM, &k->parameter_bytes,
                                        &k->bytes[i])->at;
    }
}

/* ---- operands ----------------------------------------------------------- */

typedef struct operand {
    int32_t slot;    /* -1: `_` or a label */
    int64_t offset;  /* of an address */
    bool is_address;
    symbol *label;
    int32_t part[4]; /* of {a, b}; part_count of them */
    int part_count;
} operand;

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

/* 0f3F800000, 0d..., 17, 0x1F, 1U; negative: a '-' stood before it. */
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

/* The slot of a word: register, special register, number, variable. */
static int32_t slot_of(parser *p, bool negative)
{
    int32_t slot = special(p);
    if (slot >= 0)
        return slot;
    if (isdigit((unsigned char)p->token[0]))
        return number(p, negative);
    const symbol *s = find(p, p->token);
    if (!s || s->kind == LABEL) {
        fail(p, "an unknown name:");
        return 0;
    }
    return s->kind == VARIABLE ? constant(p, (uint64_t)s->at) : s->value;
}

static operand address(parser *p)
{
    operand o = {.is_address = true};
    next(p);
    o.slot = slot_of(p, false);
    next(p);
    if (is(p, "+")) {
        next(p);
        bool minus = is(p, "-");
        if (minus)
            next(p);
        o.offset = strtoll(p->token, NULL, 0) * (minus ? -1 : 1);
        next(p);
    }
    if (!is(p, "]"))
        fail(p, "no address:");
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
            fail(p, "no vector:");
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

static ptx_ins *ins_new(parser *p, const ptx_ins *like)
{
    static ptx_ins nothing;
    ptx_kernel *k = p->kernel;
    ptx_ins *more = grown(p, k->ins, (size_t)k->ins_count, sizeof *k->ins);
    if (!more)
        return &nothing;
    k->ins = more;
    more[k->ins_count] = *like;
    return &more[k->ins_count++];
}

/* Is `.word` one of a dotted name's parts? */
static bool has(const char *name, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = name; (at = strchr(at, '.')); at++)
        if (strncmp(at + 1, word, length) == 0 &&
            (at[1 + length] == '.' || !at[1 + length]))
            return true;
    return false;
}

/* Without what says how, not what: "bra.uni", "mov.b32". */
static void canonical(const char *name, char *out, size_t room)
{
    static const char *const idle[] = {"uni", "relaxed", "gpu", "cta", "sys",
                                       "volatile", "weak", "nc", "aligned"};
    size_t length = 0;
    while (*name && length + 1 < room) {
        size_t part = 1 + strcspn(name + 1, ".");
        bool says = true;
        for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
            says &= strlen(idle[i]) + 1 != part || name[0] != '.' ||
                    strncmp(name + 1, idle[i], part - 1) != 0;
        if (says && length + part < room) {
            memcpy(out + length, name, part);
            length += part;
        }
        name += part;
    }
    out[length] = 0;
}

static void access_of(parser *p, ptx_ins *i, const char *name)
{
    static const char *const spaces[] = {"global", "shared", "local",
                                         "param"};
    const char *type = strrchr(name, '.');
    bool found = false;
    for (int s = 0; s < 4; s++)
        if (has(name, spaces[s])) {
            i->space = (uint8_t)s;
            found = true;
        }
    i->bytes = i->align = (uint8_t)size_of_type(type);
    i->is_signed = type[1] == 's';
    if (!found)
        fail(p, "the state space is missing:");
}

static void load_store(parser *p, ptx_ins *i, const char *name,
                       const operand *o)
{
    const operand *data = i->op == PTX_LD ? &o[0] : &o[1];
    const operand *place = i->op == PTX_LD ? &o[1] : &o[0];
    int32_t *const slot[] = {&i->d, &i->b, &i->c, &i->e};
    const int count = data->part_count ? data->part_count : 1;
    access_of(p, i, name);
    i->part = i->bytes;
    i->bytes = i->align = (uint8_t)(i->part * count);
    i->a = place->slot;
    i->imm = place->offset;
    for (int n = 0; n < count; n++)
        *slot[n] = data->part_count ? data->part[n] : data->slot;
    ins_new(p, i);
}

static void atom(parser *p, ptx_ins *i, const char *name, const operand *o)
{
    static const char *const kinds[] = {"add", "cas", "exch"};
    access_of(p, i, name);
    i->imm = o[1].offset;
    while (i->kind < 3 && !has(name, kinds[i->kind]))
        i->kind++;
    if (i->kind == 3)
        fail(p, "an atom of an unknown kind before");
    ins_new(p, i);
}

/* mov between a register and the two halves of one */
static void halves(parser *p, ptx_ins *i, const char *name, const operand *o)
{
    int half = atoi(strrchr(name, '.') + 2) / 2;
    i->imm = half;
    if (o[1].part_count == 2) {
        i->op = PTX_PACK;
        i->d = o[0].slot;
        i->a = o[1].part[0];
        i->b = o[1].part[1];
        ins_new(p, i);
        return;
    }
    i->op = PTX_UNPACK;
    i->a = o[1].slot;
    i->bytes = (uint8_t)(half / 8);
    for (int part = 0; part < 2; part++) {
        i->d = o[0].part[part];
        i->imm = part * half;
        if (i->d >= 0)
            ins_new(p, i);
    }
}

/* mma.sync: D, A, B, C as vectors of 4, 4, 2 and 4. */
static void mma(parser *p, ptx_ins *i, const char *name, const operand *o)
{
    static const int parts[] = {4, 4, 2, 4};
    i->kind = has(name, "bf16");
    if (strcmp(name, i->kind
                         ? "mma.sync.m16n8k16.row.col.f32.bf16.bf16.f32"
                         : "mma.sync.m16n8k16.row.col.f32.f16.f16.f32"))
        fail(p, "a shape of mma that the simulator does not know, before");
    for (int v = 0; v < 4; v++) {
        if (o[v].part_count != parts[v])
            fail(p, "not as many registers as mma has, before");
        i->op = v ? PTX_MORE : PTX_MMA;
        i->d = o[v].part[0];
        i->a = o[v].part[1];
        i->b = o[v].part[2];
        i->c = o[v].part[3];
        ins_new(p, i);
    }
}

static void ldmatrix(parser *p, ptx_ins *i, const char *name,
                     const operand *o)
{
    i->kind = has(name, "trans");
    i->space = PTX_SHARED;
    i->bytes = i->align = 16;
    if (!has(name, "x4") || o[0].part_count != 4)
        fail(p, "an ldmatrix that is not of four, before");
    i->d = o[0].part[0];
    i->b = o[0].part[1];
    i->c = o[0].part[2];
    i->e = o[0].part[3];
    i->a = o[1].slot;
    i->imm = o[1].offset;
    ins_new(p, i);
}

static void cp_async(parser *p, ptx_ins *i, const char *name, const operand *o)
{
    (void)name;
    p->kernel->copies = true;
    i->space = PTX_SHARED;
    i->bytes = i->align = 16;
    if (o[0].offset || o[1].offset)
        fail(p, "a copy with an offset, before");
    ins_new(p, i);
}

static void bra(parser *p, ptx_ins *i, const char *name, const operand *o)
{
    (void)name;
    i->imm = (intptr_t)o[0].label; /* resolved later */
    ins_new(p, i);
}

/* What an instruction is: the beginning of its name, up to a '*' or whole;
 * whose slot each operand is; what else there is to be seen to. Rows of ptx.def
 * are what is in no form. */
typedef struct form {
    const char *name;
    uint16_t op;
    const char *slots;
    void (*make)(parser *p, ptx_ins *i, const char *name, const operand *o);
} form;
static const form forms[] = {
    {"bra", PTX_BRA, "", bra},
    {"bar.sync", PTX_BAR, "", NULL},
    {"ret", PTX_RET, "", NULL},
    {"exit", PTX_RET, "", NULL},
    {"ld.*", PTX_LD, "", load_store},
    {"st.*", PTX_ST, "", load_store},
    {"atom.*", PTX_ATOM, "dabc", atom},
    {"mma.*", PTX_MMA, "", mma},
    {"ldmatrix.*", PTX_LDMATRIX, "", ldmatrix},
    {"shfl.sync.bfly.b32", PTX_SHUFFLE, "dbc", NULL}, /* 31, all threads */
    {"cp.async.cg.shared.global", PTX_COPY, "ab-c", cp_async},
    {"cp.async.commit_group", PTX_COMMIT, "", NULL},
    {"cp.async.wait_group", PTX_WAIT, "a", NULL},
};

static const form *form_of(const char *name)
{
    for (size_t n = 0; n < sizeof forms / sizeof *forms; n++) {
        const size_t length = strcspn(forms[n].name, "*");
        if (strncmp(name, forms[n].name, length) == 0 &&
            (forms[n].name[length] || !name[length]))
            return &forms[n];
    }
    return NULL;
}

static void make(parser *p, ptx_ins *i, const char *name, const operand *o)
{
    const form row = {name, 0, "dabce", NULL}, *found = form_of(name);
    const form *f = found ? found : &row;
    const int op = found ? found->op : ptx_row(name);
    if (op < 0)
        fail(p, "an instruction that the simulator does not know:");
    i->op = (uint16_t)op;
    for (int n = 0; f->slots[n]; n++)
        *(f->slots[n] == 'd'   ? &i->d
          : f->slots[n] == 'a' ? &i->a
          : f->slots[n] == 'b' ? &i->b
          : f->slots[n] == 'c' ? &i->c
                               : &i->e) = o[n].slot;
    if (f->make)
        f->make(p, i, name, o);
    else
        ins_new(p, i);
}

static void instruction(parser *p)
{
    ptx_ins i = {.guard = -1, .line = p->line};
    operand o[MOST_OPERANDS];
    char name[128], given[128];
    int count = 0;
    if (is(p, "@")) {
        next(p);
        i.unless = is(p, "!");
        if (i.unless)
            next(p);
        i.guard = slot_of(p, false);
        next(p);
    }
    snprintf(given, sizeof given, "%s", p->token);
    canonical(given, name, sizeof name);
    while (!p->failed && peek(p) != ';') {
        if (count == MOST_OPERANDS)
            fail(p, "too many operands before");
        else
            o[count++] = operand_of(p);
        if (peek(p) == ',')
            next(p);
        else if (peek(p) != ';')
            fail(p, "no end of the instruction after");
    }
    next(p);
    while (count < 5)
        o[count++] = (operand){.slot = 0};
    if (p->failed)
        return;
    snprintf(p->token, sizeof p->token, "%s", given);
    if (strncmp(name, "mov.", 4) == 0 && (o[0].part_count || o[1].part_count))
        halves(p, &i, name, o);
    else
        make(p, &i, name, o);
}

/* .reg .b32 %r<12>, tmp; */
static void registers(parser *p)
{
    next(p); /* the type */
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

static void resolve(parser *p)
{
    ptx_kernel *k = p->kernel;
    for (int32_t i = 0; i < k->ins_count && !p->failed; i++)
        if (k->ins[i].op == PTX_BRA) {
            const symbol *s = (const symbol *)(intptr_t)k->ins[i].imm;
            if (s->value < 0)
                fail(p, "a label that is nowhere, before");
            k->ins[i].target = s->value;
        }
}

static void body(parser *p)
{
    size_t unused;
    int depth = 1;
    expect(p, "{");
    while (depth && !p->failed) {
        next(p);
        if (!*p->token) {
            fail(p, "the text ends in a kernel");
        } else if (is(p, "{")) {
            depth++;
        } else if (is(p, "}")) {
            depth--;
        } else if (is(p, ".reg")) {
            registers(p);
        } else if (is(p, ".shared")) {
            variable(p, PTX_SHARED, &p->kernel->shared_bytes, &unused);
            expect(p, ";");
        } else if (is(p, ".local")) {
            variable(p, PTX_LOCAL, &p->kernel->local_bytes, &unused);
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
    ins_new(p, &(ptx_ins){.op = PTX_RET, .guard = -1, .line = p->line});
    resolve(p);
}

static unsigned shared_shift(const ptx_kernel *k)
{
    for (int32_t n = 0; n < k->ins_count; n++)
        if (k->ins[n].space == PTX_SHARED && k->ins[n].align % 4)
            return 0;
    return 2;
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
    while (!p->failed && peek(p) == '.') { /* .maxntid 256, 1, 1 */
        if (strcmp(next(p), ".maxntid") == 0)
            p->kernel->most_threads = (unsigned)whole_number(p);
        p->p += strcspn(p->p, "\n");
    }
    body(p);
    p->kernel->shared_shift = shared_shift(p->kernel);
    if (p->kernel->shared_bytes > 49152)
        fail(p, "more than 49152 bytes of shared memory before");
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
        else if (is(&p, ".global")) /* of the compiler's own headers: a kernel
                                     * that names one fails */
            skip_to(&p, ";");
        else if (is(&p, ".entry"))
            kernel(&p, module);
        else if (!is(&p, ".visible"))
            fail(&p, "not understood:");
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
