/* print_c.c: prints functions of the kernel language as C.
 *
 * A body without loops becomes a sequence of definitions, with "?:" for
 * selects. Compilers can vectorize that, but not a body with a loop.
 * Mathematical functions use loops only for rare arguments (such as the
 * reduction of huge angles). So a function with loops is printed twice.
 * NAME_main skips the loops, and sets a flag if a loop would have run. NAME has
 * the loops, and is called only for elements whose flag is set. */
#include <kernel/print_c.h>

#include <inttypes.h>
#include <math.h>

#include <base/error.h>
#include <base/memory.h>

typedef struct printer {
    const tn_kernel_fn *fn;
    tn__text text;
    int depth;     /* number of loops around the current instruction */
    bool straight; /* true while NAME_main is printed, which skips loops */
} printer;

static const char *c_type(unsigned dtype)
{
    switch (dtype) {
    case TN_F32:
        return "float";
    case TN_F64:
        return "double";
    case TN_I32:
        return "int32_t";
    case TN_I64:
        return "int64_t";
    default:
        return "_Bool";
    }
}

static const char *suffix(unsigned dtype)
{
    switch (dtype) {
    case TN_F32:
        return "f32";
    case TN_F64:
        return "f64";
    case TN_I32:
        return "i32";
    case TN_I64:
        return "i64";
    default:
        return "bool";
    }
}

static bool is_float(unsigned dtype)
{
    return dtype == TN_F32 || dtype == TN_F64;
}

static unsigned type_of(const printer *p, uint32_t value)
{
    return p->fn->ins[value].dtype;
}

static bool has_loop(const tn_kernel_fn *fn)
{
    for (uint32_t i = 0; i < fn->ins_count; i++)
        if (fn->ins[i].op == TN_K_LOOP)
            return true;
    return false;
}

/* ---- constants --------------------------------------------------------- */

static void print_const(printer *p, const tn_kernel_ins *ins)
{
    tn_number none = {0};
    tn_number x = tn__kernel_eval(ins, none, none, none, TN_DTYPE_NONE);
    const char *f = ins->dtype == TN_F32 ? "f" : "";
    if (is_float(ins->dtype) && isnan(x.f))
        tn__text_add(&p->text, "(%s)NAN", c_type(ins->dtype));
    else if (is_float(ins->dtype) && isinf(x.f))
        tn__text_add(&p->text, "%s(%s)INFINITY", x.f < 0 ? "-" : "",
                     c_type(ins->dtype));
    else if (is_float(ins->dtype)) /* hexadecimal notation is exact and does not
                                    * depend on the locale */
        tn__text_add(&p->text, "%a%s", x.f, f);
    else if (ins->dtype == TN_I64 && x.i == INT64_MIN)
        tn__text_add(&p->text, "INT64_MIN");
    else if (ins->dtype == TN_I64)
        tn__text_add(&p->text, "INT64_C(%" PRId64 ")", x.i);
    else if (ins->dtype == TN_I32 && x.i == INT32_MIN)
        tn__text_add(&p->text, "INT32_MIN");
    else
        tn__text_add(&p->text, "%" PRId64, x.i);
}

/* ---- expressions ------------------------------------------------------- */

static void print_infix(printer *p, const tn_kernel_ins *ins, const char *sign)
{
    tn__text_add(&p->text, "v%u %s v%u", ins->a, sign, ins->b);
}

/* Prints a call "name_f32(va, vb)" with `operands` operands. */
static void print_helper(printer *p, const tn_kernel_ins *ins,
                         const char *name, int operands)
{
    tn__text_add(&p->text, "%s_%s(v%u", name, suffix(ins->dtype), ins->a);
    if (operands > 1)
        tn__text_add(&p->text, ", v%u", ins->b);
    tn__text_add(&p->text, ")");
}

/* Prints a call of a <math.h> function. Its name ends in "f" for float32. */
static void print_library(printer *p, const tn_kernel_ins *ins,
                          const char *name, int operands)
{
    tn__text_add(&p->text, "%s%s(v%u", name, ins->dtype == TN_F32 ? "f" : "",
                 ins->a);
    if (operands > 1)
        tn__text_add(&p->text, ", v%u", ins->b);
    if (operands > 2)
        tn__text_add(&p->text, ", v%u", ins->c);
    tn__text_add(&p->text, ")");
}

/* Prints arithmetic. Integers are converted to unsigned types, because integers
 * of the kernel language wrap, and C defines that only for unsigned types. */
static void print_arithmetic(printer *p, const tn_kernel_ins *ins,
                             const char *sign)
{
    const char *type = c_type(ins->dtype);
    if (is_float(ins->dtype))
        print_infix(p, ins, sign);
    else
        tn__text_add(&p->text, "(%s)((u%s)v%u %s (u%s)v%u)", type, type,
                     ins->a, sign, type, ins->b);
}

/* Prints a shift. If the count is a constant less than the width, prints C's
 * operator; else prints a call of a function that is defined for every
 * count. */
static void print_shift(printer *p, const tn_kernel_ins *ins)
{
    const tn_kernel_ins *by = &p->fn->ins[ins->b];
    int64_t width = ins->dtype == TN_I32 ? 32 : 64;
    const char *type = c_type(ins->dtype);
    const char *name = ins->op == TN_K_SHL ? "shl"
                       : ins->op == TN_K_SHR ? "shr" : "shrl";
    if (by->op != TN_K_CONST || by->imm.i < 0 || by->imm.i >= width)
        print_helper(p, ins, name, 2);
    else if (ins->op == TN_K_SHR)
        tn__text_add(&p->text, "v%u >> %d", ins->a, (int)by->imm.i);
    else
        tn__text_add(&p->text, "(%s)((u%s)v%u %s %d)", type, type, ins->a,
                     ins->op == TN_K_SHL ? "<<" : ">>", (int)by->imm.i);
}

static void print_cast(printer *p, const tn_kernel_ins *ins)
{
    unsigned from = type_of(p, ins->a);
    if (ins->dtype == TN_BOOL)
        tn__text_add(&p->text, "v%u != 0", ins->a);
    else if (is_float(from) && !is_float(ins->dtype))
        tn__text_add(&p->text, "%s_of_%s(v%u)", suffix(ins->dtype),
                     suffix(from), ins->a);
    else
        tn__text_add(&p->text, "(%s)v%u", c_type(ins->dtype), ins->a);
}

static void print_call(printer *p, const tn_kernel_ins *ins)
{
    const tn_kernel_fn *callee = tn__math_fn_at((int)ins->imm.i);
    const uint32_t arg[] = {ins->a, ins->b, ins->c};
    tn__text_add(&p->text, "%s(", callee->name);
    for (uint32_t i = 0; i < callee->arg_count; i++)
        tn__text_add(&p->text, "%sv%u", i ? ", " : "", arg[i]);
    tn__text_add(&p->text, ")");
}

/* For BOOL operands, plugin_program.h defines + and max as "or", and * and min
 * as "and". Returns the equivalent operation. */
static unsigned bool_op(unsigned op)
{
    switch (op) {
    case TN_K_ADD:
    case TN_K_MAX:
        return TN_K_OR;
    case TN_K_MUL:
    case TN_K_MIN:
        return TN_K_AND;
    default:
        return op;
    }
}

/* Prints the right side of a definition. Records an error and returns false if
 * the instruction cannot be printed. */
static bool print_value(printer *p, const tn_kernel_ins *ins)
{
    bool real = is_float(ins->dtype);
    switch (ins->dtype == TN_BOOL ? bool_op(ins->op) : ins->op) {
    case TN_K_CONST:
        print_const(p, ins);
        break;
    case TN_K_ARG:
        tn__text_add(&p->text, "a%d", (int)ins->imm.i);
        break;
    case TN_K_CALL:
        print_call(p, ins);
        break;
    case TN_K_CAST:
        print_cast(p, ins);
        break;
    case TN_K_BITCAST:
        if (ins->sub == TN_BITCAST_ANY_NAN)
            tn__text_add(&p->text, "(%s)bits_%s(v%u)", c_type(ins->dtype),
                         suffix(type_of(p, ins->a)), ins->a);
        else
            print_helper(p, ins, "bitcast", 1);
        break;
    case TN_K_SELECT:
        tn__text_add(&p->text, "v%u ? v%u : v%u", ins->a, ins->b, ins->c);
        break;
    case TN_K_ADD:
        print_arithmetic(p, ins, "+");
        break;
    case TN_K_SUB:
        print_arithmetic(p, ins, "-");
        break;
    case TN_K_MUL:
        print_arithmetic(p, ins, "*");
        break;
    case TN_K_DIV:
        if (real)
            print_infix(p, ins, "/");
        else
            print_helper(p, ins, "div", 2);
        break;
    case TN_K_REM:
        if (real)
            print_library(p, ins, "fmod", 2);
        else
            print_helper(p, ins, "rem", 2);
        break;
    case TN_K_FMA:
        print_library(p, ins, "fma", 3);
        break;
    case TN_K_NEG:
        if (real)
            tn__text_add(&p->text, "-v%u", ins->a);
        else
            print_helper(p, ins, "neg", 1);
        break;
    case TN_K_ABS:
        if (real)
            print_library(p, ins, "fabs", 1);
        else
            print_helper(p, ins, "abs", 1);
        break;
    case TN_K_MIN:
        print_helper(p, ins, "min", 2);
        break;
    case TN_K_MAX:
        print_helper(p, ins, "max", 2);
        break;
    case TN_K_SQRT:
        print_library(p, ins, "sqrt", 1);
        break;
    case TN_K_FLOOR:
        print_library(p, ins, "floor", 1);
        break;
    case TN_K_CEIL:
        print_library(p, ins, "ceil", 1);
        break;
    case TN_K_TRUNC:
        print_library(p, ins, "trunc", 1);
        break;
    case TN_K_RINT:
        print_library(p, ins, "rint", 1);
        break;
    case TN_K_EQ:
        print_infix(p, ins, "==");
        break;
    case TN_K_NE:
        print_infix(p, ins, "!=");
        break;
    case TN_K_LT:
        print_infix(p, ins, "<");
        break;
    case TN_K_LE:
        print_infix(p, ins, "<=");
        break;
    case TN_K_AND:
        print_infix(p, ins, "&");
        break;
    case TN_K_OR:
        print_infix(p, ins, "|");
        break;
    case TN_K_XOR:
        print_infix(p, ins, "^");
        break;
    case TN_K_NOT:
        tn__text_add(&p->text, "%sv%u", ins->dtype == TN_BOOL ? "!" : "~",
                     ins->a);
        break;
    case TN_K_SHL:
    case TN_K_SHR:
    case TN_K_SHRL:
        print_shift(p, ins);
        break;
    case TN_K_MULHI:
        print_helper(p, ins, "mulhi", 2);
        break;
    default:
        tn__fail(TN_ERR_UNSUPPORTED, "%s: no C for instruction %d",
                 p->fn->name, (int)ins->op);
        return false;
    }
    return true;
}

/* ---- statements -------------------------------------------------------- */

static void indent(printer *p)
{
    tn__text_add(&p->text, "%*s", 4 * (p->depth + 1), "");
}

static bool print_definition(printer *p, uint32_t i)
{
    const tn_kernel_ins *ins = &p->fn->ins[i];
    indent(p);
    tn__text_add(&p->text, "%s v%u = ", c_type(ins->dtype), i);
    bool good = print_value(p, ins);
    tn__text_add(&p->text, ";\n");
    return good;
}

/* Prints the declarations of a loop's variables. They are printed before the
 * loop, since the variables are also read after it. Returns the index of the
 * first instruction of the loop's body. */
static uint32_t print_carries(printer *p, uint32_t loop)
{
    uint32_t i = loop + 1;
    for (; p->fn->ins[i].op == TN_K_CARRY; i++) {
        indent(p);
        tn__text_add(&p->text, "%s v%u = v%u;\n", c_type(type_of(p, i)), i,
                     p->fn->ins[i].a);
    }
    return i;
}

static bool print_range(printer *p, uint32_t first, uint32_t last);

/* Prints a loop. The code computes all new values of the loop's variables
 * before it sets any of them, because one variable's new value may be another's
 * old value. */
static bool print_loop(printer *p, uint32_t loop)
{
    const tn_kernel_ins *ins = p->fn->ins;
    uint32_t end = (uint32_t)ins[loop].imm.i;
    uint32_t inside = print_carries(p, loop);
    indent(p);
    tn__text_add(&p->text,
                 "for (int64_t v%u = 0; v%u < v%u; v%u++) {\n", loop, loop,
                 ins[loop].a, loop);
    p->depth++;
    if (!print_range(p, inside, end))
        return false;
    for (uint32_t i = loop + 1; i < inside; i++) {
        indent(p);
        tn__text_add(&p->text, "%s n%u = v%u;\n", c_type(type_of(p, i)), i,
                     ins[i].b);
    }
    for (uint32_t i = loop + 1; i < inside; i++) {
        indent(p);
        tn__text_add(&p->text, "v%u = n%u;\n", i, i);
    }
    p->depth--;
    indent(p);
    tn__text_add(&p->text, "}\n");
    return true;
}

/* Prints in place of a loop only the test whether its first iteration would
 * run. */
static bool print_skipped_loop(printer *p, uint32_t loop)
{
    const tn_kernel_ins *ins = p->fn->ins;
    uint32_t end = (uint32_t)ins[loop].imm.i, last = loop;
    for (uint32_t i = loop + 1; i < end; i++) {
        /* The test ends before an inner loop. If there is no WHILE before it,
         * the loop counts as running. */
        if (ins[i].op == TN_K_LOOP)
            break;
        if (ins[i].op == TN_K_WHILE)
            last = i;
    }
    uint32_t inside = print_carries(p, loop);
    indent(p);
    tn__text_add(&p->text, "int64_t v%u = 0;\n", loop);
    if (last > loop && !print_range(p, inside, last))
        return false;
    indent(p);
    if (last > loop)
        tn__text_add(&p->text, "*more |= ((v%u > v%u) & v%u) ? 1 : 0;\n",
                     ins[loop].a, loop, ins[last].a);
    else
        tn__text_add(&p->text, "*more |= v%u > v%u ? 1 : 0;\n", ins[loop].a,
                     loop);
    return true;
}

static bool print_range(printer *p, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i < last; i++) {
        const tn_kernel_ins *ins = &p->fn->ins[i];
        if (ins->op == TN_K_LOOP) {
            if (!(p->straight ? print_skipped_loop(p, i) : print_loop(p, i)))
                return false;
            i = (uint32_t)ins->imm.i; /* continue after the ENDLOOP */
        } else if (ins->op == TN_K_WHILE) {
            indent(p);
            tn__text_add(&p->text, "if (!v%u)\n", ins->a);
            indent(p);
            tn__text_add(&p->text, "    break;\n");
        } else if (!print_definition(p, i)) {
            return false;
        }
    }
    return true;
}

/* ---- functions --------------------------------------------------------- */

/* Returns the type of the flag that NAME_main sets. It has the width of the
 * result, because gcc does not vectorize a loop whose flag has another
 * width. */
static const char *mask_type(const tn_kernel_fn *fn)
{
    bool wide = fn->dtype == TN_F64 || fn->dtype == TN_I64;
    return c_type(wide ? TN_I64 : TN_I32);
}

static bool print_scalar(printer *p, bool straight)
{
    const tn_kernel_fn *fn = p->fn;
    p->straight = straight;
    p->depth = 0;
    tn__text_add(&p->text, "FN %s %s%s(", c_type(fn->dtype), fn->name,
                 straight ? "_main" : "");
    for (uint32_t i = 0; i < fn->arg_count; i++)
        tn__text_add(&p->text, "%s%s a%u", i ? ", " : "",
                     c_type(fn->arg_dtype[i]), i);
    if (straight)
        tn__text_add(&p->text, ", %s *more", mask_type(fn));
    tn__text_add(&p->text, ")\n{\n");
    if (!print_range(p, 0, fn->ins_count))
        return false;
    tn__text_add(&p->text, "    return v%u;\n}\n\n", fn->result);
    return true;
}

static void print_arguments(printer *p, const char *after)
{
    for (uint32_t i = 0; i < p->fn->arg_count; i++)
        tn__text_add(&p->text, "%s%c[i]", i ? ", " : "", "xyz"[i]);
    tn__text_add(&p->text, "%s);\n", after);
}

static void print_array_function(printer *p, bool looped)
{
    const tn_kernel_fn *fn = p->fn;
    tn__text_add(&p->text,
                 "RUN void run_%s(void *out, const void *a, const void *b,\n"
                 "    const void *c, int64_t n)\n{\n    %s *o = out;\n",
                 fn->name, c_type(fn->dtype));
    for (uint32_t i = 0; i < 3; i++) {
        if (i < fn->arg_count)
            tn__text_add(&p->text, "    const %s *%c = %c;\n",
                         c_type(fn->arg_dtype[i]), "xyz"[i], "abc"[i]);
        else
            tn__text_add(&p->text, "    (void)%c;\n", "abc"[i]);
    }
    tn__text_add(&p->text, "    n = WHOLE(run_%s, sizeof *o", fn->name);
    for (uint32_t i = 0; i < 3; i++)
        tn__text_add(&p->text, i < fn->arg_count ? ", sizeof *%c" : ", 0",
                     "xyz"[i]);
    tn__text_add(&p->text, ");\n");
    if (!looped) {
        tn__text_add(&p->text, "    EACH(i, n)\n        o[i] = %s(", fn->name);
        print_arguments(p, "");
    } else {
        tn__text_add(&p->text,
                     "    %s any = 0;\n    EACH(i, n)\n"
                     "        o[i] = %s_main(", mask_type(fn), fn->name);
        print_arguments(p, ", &any");
        tn__text_add(&p->text,
                     "    for (int64_t i = 0; any && i < n; i++) {\n"
                     "        %s more = 0;\n        %s_main(",
                     mask_type(fn), fn->name);
        print_arguments(p, ", &more");
        tn__text_add(&p->text, "        if (more)\n            o[i] = %s(",
                     fn->name);
        print_arguments(p, "");
        tn__text_add(&p->text, "    }\n");
    }
    tn__text_add(&p->text, "}\n\n");
}

char *tn__fn_print_c(const tn_kernel_fn *fn, bool with_run)
{
    printer p = {.fn = fn};
    bool looped = has_loop(fn);
    if (!print_scalar(&p, false) ||
        (looped && with_run && !print_scalar(&p, true))) {
        tn__text_release(&p.text);
        return NULL;
    }
    if (with_run)
        print_array_function(&p, looped);
    return tn__text_finish(&p.text);
}
