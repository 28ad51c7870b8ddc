/* value.c: prints the right side of an instruction's definition: a constant, a
 * parameter, a cast, an operator, or a call of a function of the .cl files. */
#include <base/plain.h>
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <source/program/printer.h>
#include <kernel/kernel.h>

static bool is_float(unsigned dtype)
{
    return dtype == TN_F32 || dtype == TN_F64;
}

static bool is_narrow(unsigned dtype)
{
    return dtype == TN_F16 || dtype == TN_BF16 || dtype == TN_F8E4M3 ||
           dtype == TN_F8E5M2 || dtype == TN_I16 || dtype == TN_I8 ||
           dtype == TN_U8;
}

static void print_const(char *out, size_t room, const tn_kernel_ins *ins)
{
    tn_number none = {.i = 0};
    tn_number x = tn__kernel_eval(ins, none, none, none, TN_DTYPE_NONE);
    uint64_t bits = 0;
    float single = is_float(ins->dtype) ? (float)x.f : 0;
    if (ins->dtype == TN_BOOL)
        snprintf(out, room, "%d", x.i != 0);
    else if (ins->dtype == TN_F32 && (isnormal(single) || single == 0))
        /* hexadecimal notation is exact in C */
        tn__plain_print(out, room, "%af", (double)single);
    else if (ins->dtype == TN_F64 && (isnormal(x.f) || x.f == 0))
        tn__plain_print(out, room, "%a", x.f);
    else if (ins->dtype == TN_F32 && isnan(single))
        snprintf(out, room, "tk_of_bits_f32(0x7fc00000)");
    else if (ins->dtype == TN_F64 && isnan(x.f))
        snprintf(out, room, "tk_of_bits_f64(0x7ff8000000000000)");
    else if (ins->dtype == TN_F32) {
        memcpy(&bits, &single, sizeof single);
        snprintf(out, room, "tk_of_bits_f32(0x%08" PRIx32 ")",
                 (uint32_t)(bits & 0xffffffff));
    } else if (ins->dtype == TN_F64) {
        memcpy(&bits, &x.f, sizeof bits);
        snprintf(out, room, "tk_of_bits_f64(0x%016" PRIx64 ")", bits);
    } else if (ins->dtype == TN_I64 && x.i == INT64_MIN)
        snprintf(out, room, "(-(tk_i64)0x7fffffffffffffff - 1)");
    else if (ins->dtype == TN_I64)
        snprintf(out, room, "(tk_i64)%" PRId64, x.i);
    else if (x.i == INT32_MIN)
        snprintf(out, room, "(-2147483647 - 1)");
    else
        snprintf(out, room, "%" PRId64, x.i);
}

static void print_cast(char *out, size_t room, const tn_kernel_ins *ins,
                       unsigned from)
{
    if (ins->dtype == TN_BOOL)
        snprintf(out, room, "v%u != 0", ins->a);
    else if (is_float(from) && !is_float(ins->dtype))
        snprintf(out, room, "tk_%s_of_%s(v%u)", tn__source_dtype(ins->dtype),
                 tn__source_dtype(from), ins->a);
    else
        snprintf(out, room, "(tk_%s)v%u", tn__source_dtype(ins->dtype), ins->a);
}

static void print_param(tn__printer *p, char *out, size_t room,
                        const tn_kernel_ins *ins)
{
    const char *type = tn__source_dtype(ins->dtype);
    uint32_t word = p->words.param + (uint32_t)ins->imm.i;
    snprintf(out, room, is_float(ins->dtype) ? "tk_of_bits_%s(TK_WORD(%u))"
                        : ins->dtype == TN_BOOL ? "(tk_%s)(TK_WORD(%u) != 0)"
                                                : "(tk_%s)TK_WORD(%u)",
             type, word);
}

static void print_call(char *out, size_t room, const char *name,
                       const tn_kernel_ins *ins)
{
    int length = snprintf(out, room, "%s(v%u", name, ins->a);
    if (ins->b != TN_NONE)
        length += snprintf(out + length, room - (size_t)length, ", v%u",
                           ins->b);
    if (ins->c != TN_NONE)
        length += snprintf(out + length, room - (size_t)length, ", v%u",
                           ins->c);
    snprintf(out + length, room - (size_t)length, ")");
}

/* Writes the name of the instruction's function in the .cl files,
 * tk_<instruction>_<type>, to `out`. */
static void print_function(char *out, size_t room, const tn_kernel_ins *ins,
                           unsigned type)
{
    static const char *const names[] = {
#define NAME(name, operands, text) #name,
        TN_KERNEL_MAP(NAME)
#undef NAME
    };
    char name[48];
    snprintf(name, sizeof name, "tk_%s_%s", names[ins->op],
             tn__source_dtype(type));
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    print_call(out, room, name, ins);
}

static const char *infix_of(const tn_kernel_ins *ins)
{
    switch (ins->op) {
    case TN_K_EQ:
        return "==";
    case TN_K_NE:
        return "!=";
    case TN_K_LT:
        return "<";
    case TN_K_LE:
        return "<=";
    case TN_K_AND:
        return "&";
    case TN_K_OR:
        return "|";
    case TN_K_XOR:
        return "^";
    default:
        return NULL;
    }
}

void tn__print_value(tn__printer *p, char *out, size_t room, uint32_t i)
{
    const tn_kernel_ins *ins = &p->ins[i];
    char name[32];
    switch (ins->op) {
    case TN_K_CONST:
        print_const(out, room, ins);
        break;
    case TN_K_PARAM:
        print_param(p, out, room, ins);
        break;
    case TN_K_ARG:
        snprintf(out, room, "a%d", (int)ins->imm.i);
        break;
    case TN_K_ROWLEN:
        snprintf(out, room, "TK_WORD(%u)", p->words.length);
        break;
    case TN_K_OFFSET:
        snprintf(out, room, "at%d", (int)ins->imm.i);
        break;
    case TN_K_CALL:
        snprintf(name, sizeof name, "fn%d", (int)ins->imm.i);
        print_call(out, room, name, ins);
        break;
    case TN_K_CAST:
        print_cast(out, room, ins, p->ins[ins->a].dtype);
        break;
    case TN_K_NARROW:
        if (is_narrow(ins->sub))
            snprintf(out, room, "tk_narrow_%s(v%u)", tn__source_dtype(ins->sub),
                     ins->a);
        else
            snprintf(out, room, "v%u", ins->a);
        break;
    case TN_K_SELECT:
        snprintf(out, room, "v%u ? v%u : v%u", ins->a, ins->b, ins->c);
        break;
    case TN_K_NOT:
        snprintf(out, room, "%sv%u", ins->dtype == TN_BOOL ? "!" : "~",
                 ins->a);
        break;
    default:
        if (!infix_of(ins))
            print_function(out, room, ins, ins->dtype);
        else if (ins->a == ins->b) /* A function, because compilers warn about
                                    * "v1 == v1". */
            print_function(out, room, ins, p->ins[ins->a].dtype);
        else
            snprintf(out, room, "v%u %s v%u", ins->a, infix_of(ins), ins->b);
        break;
    }
}
