/* one_form.c: lists the forms of each instruction: the combinations of dtypes
 * for which it is defined. */
#include "kernel/kernel.h"
#include "one_case.h"
#include "random_source.h"

static const uint8_t registers[] = {TN_F32, TN_F64, TN_I32, TN_I64, TN_BOOL};
enum { F = 1, I = 2, B = 4, REGISTERS = 5 };

static int kind_of(tn_dtype dtype)
{
    return random_is_float(dtype) ? F : dtype == TN_BOOL ? B : I;
}

/* Returns the kinds of type (F, I, B) that an instruction accepts, as bits. Its
 * operands and its result all have the same type. */
static int kinds_of(unsigned op)
{
    switch (op) {
    case TN_K_ADD:
    case TN_K_MUL:
    case TN_K_MIN:
    case TN_K_MAX:
        return F | I | B;
    case TN_K_SUB:
    case TN_K_DIV:
    case TN_K_REM:
    case TN_K_NEG:
    case TN_K_ABS:
        return F | I;
    case TN_K_FMA:
    case TN_K_SQRT:
    case TN_K_FLOOR:
    case TN_K_CEIL:
    case TN_K_TRUNC:
    case TN_K_RINT:
        return F;
    case TN_K_AND:
    case TN_K_OR:
    case TN_K_XOR:
    case TN_K_NOT:
        return I | B;
    case TN_K_SHL:
    case TN_K_SHR:
    case TN_K_SHRL:
        return I;
    default:
        return 0;
    }
}

static int operand_count(unsigned op)
{
    static const uint8_t counts[] = {
#define COUNT(name, operands, text) operands,
        TN_KERNEL_MAP(COUNT)
#undef COUNT
    };
    return counts[op];
}

/* Returns the i-th register type whose kind is in the mask `kinds`, or 0 after
 * the last one. */
static uint8_t register_at(int kinds, int i)
{
    for (int r = 0; r < REGISTERS; r++)
        if ((kind_of(registers[r]) & kinds) && i-- == 0)
            return registers[r];
    return TN_DTYPE_NONE;
}

static bool convert_at(int i, one_form *form)
{
    for (int from = 0; from < REGISTERS; from++)
        for (int to = 0; to < REGISTERS; to++)
            if (from != to && i-- == 0) {
                form->arg[0] = registers[from];
                form->dtype = registers[to];
                return true;
            }
    return false;
}

static bool bitcast_at(int i, one_form *form)
{
    static const uint8_t pair[][2] = {
        {TN_F32, TN_I32}, {TN_I32, TN_F32}, {TN_F64, TN_I64}, {TN_I64, TN_F64}};
    if (i >= 4)
        return false;
    form->arg[0] = pair[i][0];
    form->dtype = pair[i][1];
    return true;
}

static bool narrow_at(int i, one_form *form)
{
    static const uint8_t to[] = {TN_F16, TN_BF16, TN_F8E4M3, TN_F8E5M2,
                                 TN_I8,  TN_I16,  TN_U8};
    if (i >= (int)sizeof to)
        return false;
    form->sub = to[i];
    form->dtype = form->arg[0] = (uint8_t)random_register_type(to[i]);
    return true;
}

static bool call_at(int i, one_form *form)
{
    if (i >= tn__math_fn_count())
        return false;
    const tn_kernel_fn *fn = tn__math_fn_at(i);
    form->number = i;
    form->dtype = (uint8_t)fn->dtype;
    for (uint32_t a = 0; a < fn->arg_count; a++)
        form->arg[a] = fn->arg_dtype[a];
    return true;
}

bool one_form_at(unsigned op, int i, one_form *form)
{
    *form = (one_form){.op = (uint8_t)op};
    switch (op) {
    case TN_K_CONST:
    case TN_K_PARAM:
        form->dtype = register_at(F | I | B, i % REGISTERS);
        form->number = i / REGISTERS;
        return form->number < RANDOM_CORNERS;
    case TN_K_LOAD:
    case TN_K_STORE:
        form->storage = (uint8_t)(i + 1);
        form->dtype = (uint8_t)random_register_type(form->storage);
        form->arg[0] = form->dtype;
        return form->storage < TN_DTYPE_END;
    case TN_K_OFFSET:
    case TN_K_ROWLEN:
        form->dtype = TN_I64;
        return i == 0;
    case TN_K_CALL:
        return call_at(i, form);
    case TN_K_CAST:
        return convert_at(i, form);
    case TN_K_BITCAST:
        return bitcast_at(i, form);
    case TN_K_NARROW:
        return narrow_at(i, form);
    case TN_K_SELECT:
        form->arg[0] = TN_BOOL;
        form->dtype = form->arg[1] = form->arg[2] = register_at(F | I | B, i);
        return form->dtype != TN_DTYPE_NONE;
    case TN_K_EQ:
    case TN_K_NE:
    case TN_K_LT:
    case TN_K_LE:
        form->dtype = TN_BOOL;
        form->arg[0] = form->arg[1] = register_at(F | I | B, i);
        return form->arg[0] != TN_DTYPE_NONE;
    case TN_K_MULHI:
        form->dtype = form->arg[0] = form->arg[1] = TN_I32;
        return i == 0;
    case TN_K_PHILOX:
        form->dtype = TN_I32;
        form->arg[0] = form->arg[1] = form->arg[2] = TN_I64;
        return i == 0;
    default:
        form->dtype = register_at(kinds_of(op), i);
        for (int a = 0; a < operand_count(op); a++)
            form->arg[a] = form->dtype;
        return form->dtype != TN_DTYPE_NONE;
    }
}
