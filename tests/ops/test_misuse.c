/* Calls every operator of the table with wrong arguments; misuse.h describes
 * how, and which properties must hold for any arguments. The calls that are
 * varied are generated here: arguments are drawn at random until some calls
 * succeed. */
#include "misuse.h"

#include <ops/engine/ops.h>
#include <tap.h>

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Draws the arguments of calls and varies the first ones that succeed, or the
 * last call if none succeeds. Returns whether a call succeeded. */
static bool misuse_row(const tn_op *op, int tries, int wanted)
{
    uint32_t state = 1;
    tn_value value[TN__OP_MAX_ARGS + 1];
    int found = 0;
    for (int t = 0; t < tries && found < wanted; t++) {
        uint32_t same = next(&state);
        for (int i = 0; i < op->arg_count; i++) {
            uint32_t draw = next(&state);
            value[i] = misuse_ordinary(op, i, draw);
            if (same % 2 && i && value[0].kind == TN_VALUE_TENSOR &&
                value[i].kind == TN_VALUE_TENSOR)
                value[i] = value[0];
        }
        if (misuse_call(op, value, op->arg_count) < 0 && t + 1 < tries)
            continue;
        misuse_vary(op, value, 0, 1);
        found += t + 1 < tries;
    }
    return found > 0;
}

/* The argument FIRST (0) is the index of the first operator. If it is passed,
 * the names of operators are printed as they run. */
int main(int argc, char **argv)
{
    int first = argc > 1 ? atoi(argv[1]) : 0, rows = 0, reached = 0;
    plan_later();
    if (!misuse_begin())
        return 99;
    for (int i = first; i < tn_op_count(); i++) {
        const tn_op *op = tn_op_at(i);
        if (!in_part(i))
            continue;
        if (argc > 1)
            note("row %d %s", i, op->name);
        tn_scope *scope = tn_scope_open();
        if (!misuse_values_make())
            bail_out("%s", tn_error());
        long before = misuse_counts.wrong;
        bool valid = misuse_row(op, 200, 2);
        if (argc > 1 && !valid)
            note("no valid call of %s", op->name);
        if (misuse_counts.wrong > before)
            ok(false, "%s", op->name);
        reached += valid;
        rows++;
        tn_scope_close(scope);
    }
    note("%d rows, of %d valid calls were found: %ld calls, %ld refused, %ld "
         "done", rows, reached, misuse_counts.calls, misuse_counts.refused,
         misuse_counts.done);
    ok(misuse_counts.wrong == 0, "nothing wrong in %ld calls",
       misuse_counts.calls);
    return done_testing();
}
