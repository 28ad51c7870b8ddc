/* random_library.c: adds functions of the kernel language's library, such as
 * erf, to random programs. A plugin may implement them by routines of its own,
 * whose results are then compared with the interpreter's. */
#include "random_library.h"

#include <string.h>

#include "kernel/kernel.h"

bool random_library_loops(int number)
{
    const tn_kernel_fn *fn = tn__math_fn_at(number);
    for (uint32_t i = 0; i < fn->ins_count; i++)
        if (fn->ins[i].op == TN_K_LOOP ||
            (fn->ins[i].op == TN_K_CALL &&
             random_library_loops((int)fn->ins[i].imm.i)))
            return true;
    return false;
}

uint32_t random_library_put(random_case *c, int number, uint32_t *count)
{
    const tn_kernel_fn *fn = tn__math_fn_at(number);
    for (uint32_t f = 0; f < *count; f++)
        if (c->fn[f].hash == fn->hash)
            return f;
    if (fn->ins_count > RANDOM_MAX_INS || random_library_loops(number))
        return TN_NONE;
    uint32_t callee[RANDOM_MAX_INS];
    for (uint32_t i = 0; i < fn->ins_count; i++) {
        if (fn->ins[i].op != TN_K_CALL)
            continue;
        callee[i] = random_library_put(c, (int)fn->ins[i].imm.i, count);
        if (callee[i] == TN_NONE)
            return TN_NONE;
    }
    if (*count == RANDOM_MAX_FNS)
        return TN_NONE;
    uint32_t f = (*count)++;
    memcpy(c->fn_ins[f], fn->ins, fn->ins_count * sizeof *fn->ins);
    for (uint32_t i = 0; i < fn->ins_count; i++)
        if (fn->ins[i].op == TN_K_CALL)
            c->fn_ins[f][i].imm.i = callee[i];
    c->fn[f] = *fn;
    c->fn[f].ins = c->fn_ins[f];
    return f;
}

uint32_t random_library_add(random_source *r, random_case *c, uint32_t wanted)
{
    int available = tn__math_fn_count();
    uint32_t count = 0;
    if (available > 0)
        while (wanted-- > 0)
            random_library_put(c, (int)random_below(r, (uint32_t)available),
                               &count);
    return count;
}
