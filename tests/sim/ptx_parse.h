/* ptx_parse.h: the state of parsing a module, shared by ptx_parse.c, which
 * reads tokens, names and operands, and ptx_make.c, which reads instructions.
 */
#ifndef TN_SIM_PTX_PARSE_H
#define TN_SIM_PTX_PARSE_H

#include "ptx.h"

/* A name: a register or constant (its slot), a label (its place), a parameter,
 * a shared or local variable (an address in that space). */
typedef struct symbol {
    char name[128];
    int32_t value; /* slot; place, -1: not seen yet */
    size_t at;
    int kind;
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

typedef struct operand {
    int32_t slot;    /* -1: `_` or a label */
    int64_t offset;  /* of an address */
    symbol *label;
    int32_t part[4]; /* of {a, b}; part_count of them */
    int part_count;
} operand;

/* Reports an error with the line and the token. */
void ptx_fail(parser *p, const char *what);
/* Adds an instruction to the kernel. */
void ptx_ins_new(parser *p, const ptx_ins *like);
/* ".u32": 4 */
size_t ptx_size_of_type(const char *type);
/* Adds the instruction named by p->token, with its operands. */
void ptx_make(parser *p, ptx_ins *i, const operand *o);

#endif
