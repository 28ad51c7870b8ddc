/* ptx_parse.h: the state of parsing a module, shared by ptx_parse.c, which
 * reads tokens, names and operands, and ptx_make.c, which converts
 * instructions. */
#ifndef TN_SIM_PTX_PARSE_H
#define TN_SIM_PTX_PARSE_H

#include "ptx.h"

/* A name and its value: a register or constant (its slot), a label (the index
 * of its instruction), a parameter, or a shared or local variable (its address
 * in that space). */
typedef struct symbol {
    char name[128];
    int32_t value; /* slot, address, or index of an instruction; -1: label not
                    * seen yet */
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
    void *symbols; /* owned; a binary tree sorted by name (tsearch) */
} parser;

typedef struct operand {
    int32_t slot;    /* -1: `_` or a label */
    int64_t offset;  /* offset of an address */
    symbol *label;
    int32_t part[4]; /* slots of the part_count elements of a vector {a, b} */
    int part_count;
} operand;

/* Reports an error with the line and the token. */
void ptx_fail(parser *p, const char *what);
/* Appends an instruction to the kernel. */
void ptx_ins_new(parser *p, const ptx_ins *like);
/* Returns the size in bytes of a type such as ".u32": 4. */
size_t ptx_size_of_type(const char *type);
/* Appends the instruction named by p->token, with its operands. */
void ptx_make(parser *p, ptx_ins *i, const operand *o);

#endif
