/* type.c: gives every expression of a definition a type, for given input
 * dtypes, and appends its instructions as SSA. */
#include <kernel/type.h>

#include <stdio.h>
#include <string.h>

#include <base/memory.h>

#define MAX_INLINED 16

/* ---- loads and calls --------------------------------------------------- */

static bool type_load(tn__typer *typer, const tn__node *node, tn__value *out)
{
    tn_kernel_ins ins = {.op = TN_K_LOAD,
                         .a = TN_NONE,
                         .b = TN_NONE,
                         .c = TN_NONE,
                         .imm.i = node->slot,
                         .sub = node->op ? TN_LOAD_ZERO : 0};
    uint32_t *const index_operand[3] = {&ins.a, &ins.b, &ins.c};
    for (uint32_t i = 0; i < node->count; i++) {
        tn__value index;
        if (!tn__type_value(typer, node->kid[i], &index))
            return false;
        index = tn__type_strong(typer, index);
        if (!tn__is_integer(index.dtype))
            return tn__type_fail(typer, node->kid[i],
                                 "an index is an integer, not %s",
                                 tn_dtype_name(index.dtype));
        *index_operand[i] = tn__ssa_cast(typer->ssa, index.id, TN_I64);
    }
    tn_dtype dtype = typer->ssa->input[node->slot].dtype;
    ins.dtype = (uint8_t)tn__register_type(dtype);
    *out = (tn__value){tn__ssa_add(typer->ssa, ins), dtype, false};
    return true;
}

/* Types a call of a `def` item (a definition) by typing its body in place of
 * the call, with the arguments as values. */
static bool type_inlined(tn__typer *typer, const tn__node *node,
                         const tn__math_item *item, const tn__value *arg,
                         tn__value *out)
{
    if (typer->inlined == MAX_INLINED)
        return tn__type_fail(typer, node,
                             "%s: definitions nested deeper than %d",
                             node->name, MAX_INLINED);
    tn__typer inner = *typer;
    inner.inlined++;
    inner.where = item->where;
    inner.slot = tn__calloc(item->slot_count + 1, sizeof *inner.slot);
    if (!inner.slot)
        return false;
    for (int i = 0; i < item->arg_count; i++)
        inner.slot[i] = item->arg_type[i]
                            ? tn__type_convert(typer, arg[i], item->arg_type[i])
                            : arg[i];
    bool good = tn__type_value(&inner, item->body, out);
    tn__free(inner.slot);
    return good;
}

static bool type_fn(tn__typer *typer, const tn__node *node,
                    const tn__math_item *item, const tn__value *arg,
                    tn__value *out)
{
    tn__value shared[3];
    int count = 0;
    for (int i = 0; i < item->arg_count; i++)
        if (!item->arg_type[i])
            shared[count++] = arg[i];
    tn__common_type m = tn__type_common(typer, shared, count);
    if (m.weak && tn__is_float(m.dtype))
        m.dtype = m.type = typer->real;
    uint32_t number = tn__math_fn_number(node->name, m.type);
    if (number == TN_NONE && !tn__is_float(m.dtype)) {
        m = m.weak ? (tn__common_type){typer->real, typer->real, true}
                   : tn__common_type_of(TN_F32);
        number = tn__math_fn_number(node->name, m.type);
    }
    if (number == TN_NONE)
        return tn__type_fail(typer, node, "there is no %s for %s", node->name,
                             tn_dtype_name(m.type));
    const tn_kernel_fn *fn = tn__math_fn_at((int)number);
    tn_kernel_ins ins = {.op = TN_K_CALL,
                         .dtype = (uint8_t)fn->dtype,
                         .a = TN_NONE,
                         .b = TN_NONE,
                         .c = TN_NONE,
                         .imm.i = number};
    uint32_t *const index_operand[3] = {&ins.a, &ins.b, &ins.c};
    for (int i = 0; i < item->arg_count; i++)
        *index_operand[i] =
            item->arg_type[i]
                ? tn__ssa_cast(typer->ssa, arg[i].id, fn->arg_dtype[i])
                : tn__type_to_common(typer, &arg[i], &m);
    uint32_t id = tn__ssa_add(typer->ssa, ins);
    *out = fn->dtype == m.type ? tn__type_result(typer, &m, id)
                               : (tn__value){id, fn->dtype, false};
    return true;
}

static bool type_call(tn__typer *typer, const tn__node *node, tn__value *out)
{
    tn__value arg[TN__MATH_MAX_ARGS] = {{0}};
    int want = 0;
    enum tn__builtin builtin = tn__builtin_find(node->name, &want);
    const tn__math_item *item = NULL;
    if (builtin == TN__BUILTIN_END) {
        item = tn__math_find(node->name, TN__MATH_DEF);
        if (!item)
            item = tn__math_find(node->name, TN__MATH_FN);
        if (!item)
            return tn__type_fail(typer, node, "there is no function '%s'",
                                 node->name);
        want = item->arg_count;
    }
    if ((int)node->count != want)
        return tn__type_fail(typer, node, "%s takes %d arguments, not %u",
                             node->name, want, (unsigned)node->count);
    for (uint32_t i = 0; i < node->count; i++)
        if (!tn__type_value(typer, node->kid[i], &arg[i]))
            return false;
    typer->at = node;
    if (!item)
        return tn__type_builtin(typer, node, builtin, arg, out);
    return item->kind == TN__MATH_DEF
               ? type_inlined(typer, node, item, arg, out)
               : type_fn(typer, node, item, arg, out);
}

/* ---- loops ------------------------------------------------------------- */

static bool type_values(tn__typer *typer, const tn__node *node,
                        tn__value *out);

static bool type_block(tn__typer *typer, const tn__node *node, tn__value *out)
{
    for (uint32_t i = 0; i + 1 < node->count; i++) {
        const tn__node *kid = node->kid[i];
        if (kid->kind == TN__NODE_WHILE) {
            tn__value condition;
            if (!tn__type_value(typer, kid->kid[0], &condition))
                return false;
            tn__ssa_while(typer->ssa, tn__type_bool(typer, &condition));
        } else if (!type_values(typer, kid->kid[0],
                                    &typer->slot[kid->slot])) {
            return false;
        }
    }
    return type_values(typer, node->kid[node->count - 1], out);
}

static bool type_bound(tn__typer *typer, const tn__node *node,
                       uint32_t *out_bound)
{
    tn__value bound;
    if (!tn__type_value(typer, node, &bound))
        return false;
    bound = tn__type_strong(typer, bound);
    if (!tn__is_integer(bound.dtype))
        return tn__type_fail(typer, node,
                             "a loop's bound is an integer, not "
                             "%s",
                             tn_dtype_name(bound.dtype));
    bool varies = tn__ssa_level(typer->ssa, bound.id) != TN_LEVEL_UNIFORM;
    /* Rejects a bound that is the index of an outer loop, or is computed from
     * it. */
    for (int i = 0; i < typer->ssa->loop_depth && !typer->ssa->failed; i++)
        varies |= bound.id >= typer->ssa->loop[i] &&
                  typer->ssa->ins[bound.id].op != TN_K_CONST;
    if (varies)
        return tn__type_fail(typer, node,
                             "a loop's bound is the same for all elements: use "
                             "only numbers, parameters and rlen()");
    *out_bound = tn__ssa_cast(typer->ssa, bound.id, TN_I64);
    return true;
}

/* Types a loop once, assuming that its variables have the types `carried`. If
 * their new values have the same types, sets *out_stable; else updates
 * `carried`. */
static bool type_rounds(tn__typer *typer, const tn__node *node, uint32_t bound,
                        const tn__value *first, tn__common_type *carried,
                        tn__value *out, bool *out_stable)
{
    tn__ssa *ssa = typer->ssa;
    int count = (int)node->integer;
    uint32_t start[TN__KERNEL_MAX_OUTPUTS], next[TN__KERNEL_MAX_OUTPUTS];
    for (int i = 0; i < count; i++)
        start[i] = tn__type_to_common(typer, &first[i], &carried[i]);
    uint32_t loop = tn__ssa_loop(ssa, bound);
    typer->slot[node->slot] = (tn__value){loop, TN_I64, false};
    for (int i = 0; i < count; i++) {
        out[i] = (tn__value){tn__ssa_carry(ssa, start[i]), carried[i].dtype,
                             carried[i].weak};
        typer->slot[node->kid[1 + i]->slot] = out[i];
    }
    tn__value values[TN__KERNEL_MAX_OUTPUTS];
    if (!type_values(typer, node->kid[1 + count], values))
        return false;
    *out_stable = true;
    for (int i = 0; i < count; i++) {
        const tn__value both[2] = {out[i], values[i]};
        typer->at = node->kid[1 + i];
        tn__common_type m = tn__type_common(typer, both, 2);
        if (m.dtype != carried[i].dtype || m.weak != carried[i].weak)
            *out_stable = false;
        next[i] = *out_stable ? tn__type_to_common(typer, &values[i], &m) : 0;
        carried[i] = m;
    }
    if (*out_stable)
        tn__ssa_end_loop(ssa, next);
    return true;
}

/* Types a loop. A variable of the loop has the common type of its first value
 * and its new value. That type in turn may change the types in the body. So the
 * loop is typed again until the types do not change. This ends, since promotion
 * never returns to a lower type. */
static bool type_loop(tn__typer *typer, const tn__node *node, tn__value *out)
{
    tn__ssa *ssa = typer->ssa;
    int count = (int)node->integer;
    uint32_t bound = TN_NONE;
    tn__value first[TN__KERNEL_MAX_OUTPUTS];
    tn__common_type carried[TN__KERNEL_MAX_OUTPUTS];
    if (ssa->loop_depth == (int)(sizeof ssa->loop / sizeof *ssa->loop))
        return tn__type_fail(typer, node, "loops are nested too deep");
    if (!type_bound(typer, node->kid[0], &bound))
        return false;
    for (int i = 0; i < count; i++) {
        if (!tn__type_value(typer, node->kid[1 + i]->kid[0], &first[i]))
            return false;
        carried[i] = tn__type_common(typer, &first[i], 1);
        if (first[i].weak && tn__is_float(first[i].dtype))
            carried[i].dtype = carried[i].type = typer->real;
    }
    bool was_in_loop = typer->in_loop, good = true, stable = false;
    typer->in_loop = true;
    size_t mark = ssa->count;
    while (good && !stable && !ssa->failed) {
        tn__ssa_truncate(ssa, mark);
        good = type_rounds(typer, node, bound, first, carried, out, &stable);
    }
    typer->in_loop = was_in_loop;
    return good && !ssa->failed;
}

/* ---- expressions ------------------------------------------------------- */

bool tn__type_value(tn__typer *typer, const tn__node *node, tn__value *out)
{
    tn__value arg[2];
    switch (node->kind) {
    case TN__NODE_INTEGER:
        *out = (tn__value){tn__ssa_integer(typer->ssa, TN_I64, node->integer),
                           TN_I64, true};
        return true;
    case TN__NODE_FLOAT:
        *out = (tn__value){tn__ssa_const(typer->ssa, TN_F64, node->number),
                           TN_F64, true};
        return true;
    case TN__NODE_NAME:
        *out = typer->slot[node->slot];
        return true;
    case TN__NODE_UNARY:
        return tn__type_value(typer, node->kid[0], &arg[0]) &&
               tn__type_unary(typer, node, node->op, arg[0], out);
    case TN__NODE_BINARY:
        if (!tn__type_value(typer, node->kid[0], &arg[0]) ||
            !tn__type_value(typer, node->kid[1], &arg[1]))
            return false;
        typer->at = node;
        return tn__type_binary(typer, node, node->op, arg, out);
    case TN__NODE_CALL:
        return type_call(typer, node, out);
    case TN__NODE_CONVERT:
        if (!tn__type_value(typer, node->kid[0], &arg[0]))
            return false;
        typer->at = node;
        *out = tn__type_convert(typer, arg[0], typer->type[node->slot]);
        return true;
    case TN__NODE_LOAD:
        return type_load(typer, node, out);
    default: /* a block or a loop; the parser has checked that it has one
              * value */
        return type_values(typer, node, out);
    }
}

static bool type_values(tn__typer *typer, const tn__node *node, tn__value *out)
{
    if (node->kind == TN__NODE_BLOCK)
        return type_block(typer, node, out);
    if (node->kind == TN__NODE_LOOP)
        return type_loop(typer, node, out);
    if (node->kind != TN__NODE_LIST)
        return tn__type_value(typer, node, out);
    for (uint32_t i = 0; i < node->count; i++)
        if (!tn__type_value(typer, node->kid[i], &out[i]))
            return false;
    return true;
}

/* ---- whole definitions ------------------------------------------------- */

static bool set_inputs(tn__typer *typer, const tn__def *def,
                       const tn_dtype *input_dtype)
{
    tn__ssa *ssa = typer->ssa;
    ssa->input_count = def->input_count;
    for (int i = 0; i < def->input_count; i++) {
        bool offset = def->input[i].offset;
        tn_dtype dtype = offset ? TN_DTYPE_NONE : input_dtype[i];
        if (!offset && !tn__register_type(dtype)) {
            tn__fail(TN_ERR_DTYPE, "%s: input %s: %u is not a dtype",
                     def->name, def->input[i].name, (unsigned)dtype);
            return false;
        }
        ssa->input[i].name = def->input[i].name;
        ssa->input[i].dtype = dtype;
        ssa->input[i].level = def->input[i].row ? TN_LEVEL_ROW : TN_LEVEL_ELEM;
        if (dtype == TN_F64)
            typer->real = TN_F64;
        tn_kernel_ins ins = {
            .op = offset ? TN_K_OFFSET : TN_K_LOAD,
            .a = TN_NONE,
            .b = TN_NONE,
            .c = TN_NONE,
            .imm.i = i,
            .dtype = (uint8_t)(offset ? TN_I64 : tn__register_type(dtype))};
        typer->slot[i] =
            (tn__value){tn__ssa_add(ssa, ins), offset ? TN_I64 : dtype, false};
    }
    return true;
}

/* Sets typer->type to the dtypes of the type parameters. */
static bool set_types(tn__typer *typer, const tn__def *def,
                      const tn_dtype *type)
{
    typer->type = type;
    for (int t = 0; t < def->type_count; t++)
        if (!tn__register_type(type[t])) {
            tn__fail(TN_ERR_DTYPE, "%s: kernels cannot convert to %s",
                     def->name, tn_dtype_name(type[t]));
            return false;
        }
    return true;
}

static void set_params(tn__typer *typer, const tn__def *def)
{
    tn__ssa *ssa = typer->ssa;
    ssa->param_count = def->param_count;
    for (int i = 0; i < def->param_count; i++) {
        tn_dtype dtype = def->param[i].dtype;
        bool whole = dtype == TN__WEAK_INTEGER, weak = !dtype || whole;
        ssa->param[i].name = def->param[i].name;
        ssa->param[i].dtype = whole ? TN_I64 : weak ? typer->real : dtype;
        tn_kernel_ins ins = {.op = TN_K_PARAM,
                             .a = TN_NONE,
                             .b = TN_NONE,
                             .c = TN_NONE,
                             .imm.i = i,
                             .dtype = (uint8_t)ssa->param[i].dtype};
        typer->slot[def->input_count + i] =
            (tn__value){tn__ssa_add(ssa, ins), ssa->param[i].dtype, weak};
    }
}

const tn__kernel *tn__def_type(const tn__def *def, const tn_dtype *dtype)
{
    tn__ssa ssa;
    tn__kernel *kernel = NULL;
    tn__value out[TN__KERNEL_MAX_OUTPUTS];
    tn__ssa_init(&ssa);
    ssa.of_gradient = def->of_gradient;
    tn__typer typer = {.ssa = &ssa,
                       .where = def->where,
                       .real = TN_F32,
                       .slot =
                           tn__calloc(def->slot_count + 1, sizeof *typer.slot)};
    if (typer.slot && set_inputs(&typer, def, dtype) &&
        set_types(&typer, def, dtype + def->input_count)) {
        set_params(&typer, def);
        if (type_values(&typer, def->body, out)) {
            ssa.output_count = def->output_count;
            for (int i = 0; i < def->output_count; i++) {
                out[i] = tn__type_strong(&typer, out[i]);
                ssa.out[i].value = out[i].id;
                ssa.out[i].dtype = out[i].dtype;
                ssa.out[i].level = tn__ssa_level(&ssa, out[i].id);
            }
            kernel = tn__ssa_finish(&ssa, def->name, NULL);
        }
    }
    tn__free(typer.slot);
    tn__ssa_release(&ssa);
    return kernel;
}

/* ---- functions --------------------------------------------------------- */

bool tn__math_type_fn(const tn__math_item *item, tn_dtype type,
                      tn_dtype arg_dtype[4], tn__ssa *ssa, uint32_t *out_result)
{
    bool real = type == TN_F32 || type == TN_F64;
    tn__typer typer = {
        .ssa = ssa,
        .where = item->where,
        .in_fn = true,
        .real = real ? type : TN_F32,
        .slot = tn__calloc(item->slot_count + 1, sizeof *typer.slot)};
    tn__value out;
    if (!typer.slot)
        return false;
    for (int i = 0; i < item->arg_count; i++) {
        arg_dtype[i] = item->arg_type[i] ? item->arg_type[i] : type;
        tn_kernel_ins ins = {.op = TN_K_ARG,
                             .a = TN_NONE,
                             .b = TN_NONE,
                             .c = TN_NONE,
                             .imm.i = i,
                             .dtype = (uint8_t)arg_dtype[i]};
        typer.slot[i] = (tn__value){tn__ssa_add(ssa, ins), arg_dtype[i], false};
    }
    bool good = tn__type_value(&typer, item->body, &out);
    if (good && out.weak)
        out = tn__type_convert(&typer, out, type);
    if (good)
        *out_result = out.id;
    tn__free(typer.slot);
    return good;
}

bool tn__math_type_d(tn__ssa *ssa, const tn__math_item *item, int arg,
                     const uint32_t *values, uint32_t *out)
{
    tn_dtype type = tn__ssa_dtype(ssa, values[arg]);
    tn__typer typer = {
        .ssa = ssa,
        .where = item->where,
        .in_fn = true,
        .real = type,
        .slot = tn__calloc(item->slot_count + 1, sizeof *typer.slot)};
    if (!typer.slot)
        return false;
    for (int i = 0; i <= item->arg_count; i++)
        typer.slot[i] =
            (tn__value){values[i], tn__ssa_dtype(ssa, values[i]), false};
    tn__value result;
    bool good = tn__type_value(&typer, item->body->kid[arg], &result);
    if (good)
        *out = tn__type_convert(&typer, result, type).id;
    tn__free(typer.slot);
    return good;
}
