/* ptx_make.c: converts the name and the operands of a PTX instruction to the
 * representation of ptx.h. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_parse.h"

/* Returns whether `.word` is one of the parts of a dotted name. */
static bool has_part(const char *name, const char *word, size_t length)
{
    for (const char *at = name; (at = strchr(at, '.')); at++)
        if (strncmp(at + 1, word, length) == 0 &&
            (at[1 + length] == '.' || !at[1 + length]))
            return true;
    return false;
}

static bool has(const char *name, const char *word)
{
    return has_part(name, word, strlen(word));
}

/* Removes modifiers that do not change the meaning: "bra.uni", "mov.b32". */
static void canonical(const char *name, char *out)
{
    static const char idle[] =
        ".uni.relaxed.gpu.cta.sys.volatile.weak.nc.aligned";
    for (size_t part; *name; name += part) {
        part = 1 + strcspn(name + 1, ".");
        if (*name == '.' && has_part(idle, name + 1, part - 1))
            continue;
        memcpy(out, name, part);
        out += part;
    }
    *out = 0;
}

/* Returns the index of the first of these words that the name contains; reports
 * an error if there is none. */
static uint8_t which(parser *p, const char *name, const char *const *words,
                     uint8_t count, const char *missing)
{
    for (uint8_t n = 0; n < count; n++)
        if (has(name, words[n]))
            return n;
    ptx_fail(p, missing);
    return 0;
}

static void access_of(parser *p, ptx_ins *i, const char *name,
                      const operand *o)
{
    static const char *const spaces[] = {"global", "shared", "local",
                                         "param"};
    const char *type = strrchr(name, '.');
    /* elements of a vector; an address has none */
    const int parts = o[0].part_count + o[1].part_count;
    i->space = which(p, name, spaces, 4, "the state space is missing:");
    i->part = (uint8_t)ptx_size_of_type(type);
    i->bytes = i->align = (uint8_t)(i->part * (parts ? parts : 1));
    i->is_signed = type[1] == 's';
}

static void atom(parser *p, ptx_ins *i, const char *name, const operand *o)
{
    static const char *const kinds[] = {"add", "cas", "exch", "min"};
    static const char *const unsigned_one[] = {"u32"};
    access_of(p, i, name, o);
    i->kind = which(p, name, kinds, 4, "an atom of an unknown kind before");
    if (i->kind == PTX_ATOM_MIN)
        which(p, name, unsigned_one, 1, "a minimum of another type before");
}

/* Converts a mov between a register and its two halves. */
static void halves(parser *p, ptx_ins *i, const char *name, const operand *o)
{
    int half = atoi(strrchr(name, '.') + 2) / 2;
    i->imm = half;
    if (o[1].part_count == 2) {
        i->op = PTX_PACK;
        i->d = o[0].slot;
        i->a = o[1].part[0];
        i->b = o[1].part[1];
        ptx_ins_new(p, i);
        return;
    }
    i->op = PTX_UNPACK;
    i->a = o[1].slot;
    i->bytes = (uint8_t)(half / 8);
    for (int part = 0; part < 2; part++) {
        i->d = o[0].part[part];
        i->imm = part * half;
        if (i->d >= 0)
            ptx_ins_new(p, i);
    }
}

/* Converts mma.sync, whose operands D, A, B and C are vectors of 4, 4, 2 and 4
 * registers. */
static void mma(parser *p, ptx_ins *i, const char *name, const operand *o)
{
    static const int parts[] = {4, 4, 2, 4};
    i->kind = has(name, "bf16");
    if (strcmp(name, i->kind
                         ? "mma.sync.m16n8k16.row.col.f32.bf16.bf16.f32"
                         : "mma.sync.m16n8k16.row.col.f32.f16.f16.f32"))
        ptx_fail(p, "a shape of mma that the simulator does not know, before");
    for (int v = 0; v < 4; v++) {
        if (o[v].part_count != parts[v])
            ptx_fail(p, "not as many registers as mma has, before");
        i->op = v ? PTX_MORE : PTX_MMA;
        memcpy(i->slot, o[v].part, sizeof o[v].part);
        if (v < 3) /* the caller adds the last one, as for any instruction */
            ptx_ins_new(p, i);
    }
}

/* Converts ldmatrix and cp.async, which access 16 bytes. */
static void of_16(parser *p, ptx_ins *i, const char *name, const operand *o)
{
    i->kind = has(name, "trans");
    i->space = PTX_SHARED;
    i->bytes = i->align = 16;
    if (i->op == PTX_LDMATRIX && (!has(name, "x4") || o[0].part_count != 4))
        ptx_fail(p, "an ldmatrix that is not of four, before");
    if (i->op == PTX_COPY && (o[0].offset || o[1].offset))
        ptx_fail(p, "a copy with an offset, before");
}

/* A pattern for instructions. It has the name of an instruction, or the
 * beginning of a name before a '*', and one letter for each operand, which
 * selects the field that receives it (D: a register or a vector; A: an address
 * with an offset; $: a label). A function handles special cases. */
typedef struct form {
    const char *name;
    uint16_t op;
    const char *slots;
    void (*make)(parser *p, ptx_ins *i, const char *name, const operand *o);
} form;
static const form forms[] = {
    {"bra", PTX_BRA, "$", NULL},
    {"bar.sync", PTX_BAR, "", NULL},
    {"ret", PTX_RET, "", NULL},
    {"exit", PTX_RET, "", NULL},
    {"ld.*", PTX_LD, "DA", access_of},
    {"st.*", PTX_ST, "AD", access_of},
    {"atom.*", PTX_ATOM, "dAbc", atom},
    {"mma.*", PTX_MMA, "", mma},
    {"ldmatrix.*", PTX_LDMATRIX, "DA", of_16},
    /* the other operands are 31 and a mask of all threads */
    {"shfl.sync.bfly.b32", PTX_SHUFFLE, "dbc", NULL},
    {"cp.async.cg.shared.global", PTX_COPY, "ab-c", of_16},
    {"cp.async.commit_group", PTX_COMMIT, "", NULL},
    {"cp.async.wait_group", PTX_WAIT, "a", NULL},
    {"*", PTX_TABLE, "dabce", NULL}, /* an instruction of ptx.def */
};

static bool is_form(const form *f, const char *name)
{
    const size_t length = strcspn(f->name, "*");
    return strncmp(name, f->name, length) == 0 &&
           (f->name[length] || !name[length]);
}

void ptx_make(parser *p, ptx_ins *i, const operand *o)
{
    static const char letters[] = "dbcea"; /* order of the slots in ptx_ins */
    char name[sizeof p->token];
    const form *f = forms;
    canonical(p->token, name);
    if (strncmp(name, "mov.", 4) == 0 && (o[0].part_count || o[1].part_count)) {
        halves(p, i, name, o);
        return;
    }
    while (!is_form(f, name))
        f++;
    const int op = f->op == PTX_TABLE ? ptx_row(name) : f->op;
    if (op < 0)
        ptx_fail(p, "an instruction that the simulator does not know:");
    i->op = (uint16_t)op;
    for (int n = 0; f->slots[n]; n++) {
        const char *letter = strchr(letters, tolower(f->slots[n]));
        if (letter)
            i->slot[letter - letters] = o[n].slot;
        if (f->slots[n] == 'D' && o[n].part_count)
            memcpy(i->slot, o[n].part, sizeof o[n].part);
        if (f->slots[n] == 'A')
            i->imm = o[n].offset;
        if (f->slots[n] == '$')
            i->imm = (intptr_t)o[n].label; /* replaced by the address when
                                            * labels are resolved */
    }
    if (f->make)
        f->make(p, i, name, o);
    ptx_ins_new(p, i);
}
