/* taps_rows.c: weighted sums over short rows: out[row] = sum over t of
 * in[index[row][t]] * weight[row][t]. A tap is one term of such a sum.
 *
 * For each row length that occurs, a second program is built, in which the sum
 * is unrolled to a tree of additions. The launch then runs this program, which
 * has no reduction. */
#include "taps.h"

/* Builds the unrolled program for rows of `count` terms. It adds them in the
 * order that plugin_program.h fixes for reductions. */
static tn_status build_written(const tn_built *built, int count,
                               tn_built **written)
{
    enum { EACH = 6, MOST = 2 + 7 * TN_CPU_TAPS };
    tn_kernel_ins ins[MOST] = {{.op = TN_K_CONST, .dtype = TN_F32,
                                .a = TN_NONE, .b = TN_NONE, .c = TN_NONE}};
    tn_kernel_operand operand[2 + 2 * TN_CPU_TAPS];
    uint32_t order[MOST], lane[TN_CPU_TAPS], n = 1;
    operand[0] = built->operand[built->row_taps.in];
    operand[2 * count + 1] = built->operand[built->row_taps.out];
    operand[2 * count + 1].level = TN_LEVEL_ELEM;
#define ADD(code, type, x, y, z, number)                                      \
    ins[n++] = (tn_kernel_ins){.op = (code), .dtype = (type),                 \
                               .level = TN_LEVEL_ELEM, .a = (x), .b = (y),    \
                               .c = (z), .imm.i = (number)}
    for (int t = 0; t < count; t++) {
        operand[2 * t + 1] = built->operand[built->row_taps.index];
        operand[2 * t + 2] = built->operand[built->row_taps.weight];
        const uint32_t i = n, w = n + 1, zero = n + 2, x = n + 3, y = n + 4;
        ADD(TN_K_LOAD, TN_I64, TN_NONE, TN_NONE, TN_NONE, 2 * t + 1);
        ADD(TN_K_LOAD, TN_F32, TN_NONE, TN_NONE, TN_NONE, 2 * t + 2);
        ADD(TN_K_EQ, TN_BOOL, w, 0, TN_NONE, 0);
        ADD(TN_K_LOAD, TN_F32, i, TN_NONE, TN_NONE, 0);
        ins[x].sub = (uint8_t)built->row_taps.flags;
        ADD(TN_K_MUL, TN_F32, w, x, TN_NONE, 0);
        lane[t] = n;
        ADD(TN_K_SELECT, TN_F32, zero, 0, y, 0);
    }
    for (int half = TN_LANES / 2; half > 0; half /= 2)
        for (int t = 0; t < half && t + half < count; t++) {
            ADD(TN_K_ADD, TN_F32, lane[t], lane[t + half], TN_NONE, 0);
            lane[t] = n - 1;
        }
    ADD(TN_K_STORE, TN_F32, lane[0], TN_NONE, TN_NONE, 2 * count + 1);
#undef ADD
    for (uint32_t k = 0; k < n; k++)
        order[k] = k;
    const tn_kernel_stage stage = {.elem_first = 1, .elem_count = n - 1,
                                   .row_first = n};
    const tn_program program = {.size = sizeof program, .ins_count = n,
                                .operand_count = 2 + 2 * (uint32_t)count,
                                .stage_count = 1, .order_count = n,
                                .uniform_count = 1, .ins = ins,
                                .operand = operand, .stage = &stage,
                                .order = order};
    tn_plugin_device device = {.routines = built->routines,
                               .stream_bytes = built->stream_bytes};
    tn_status status = tn__cpu_build(&device, &program, written);
    if (status == TN_OK &&
        tn__cpu_path_taps_along.recognise(*written, &program))
        (*written)->path[0] = &tn__cpu_path_taps_along;
    return status;
}

/* Sets *written to the unrolled program for rows of `count` terms. The first
 * call builds it. Several threads may call this at the same time. */
static tn_status find_written(tn_built *built, int count, tn_built **written)
{
    _Atomic(tn_built *) *at = &built->row_taps.written[count];
    *written = atomic_load(at);
    if (*written)
        return TN_OK;
    tn_built *made, *none = NULL;
    tn_status status = build_written(built, count, &made);
    if (status == TN_OK && !atomic_compare_exchange_strong(at, &none, made)) {
        tn__cpu_built_free(made); /* another thread stored its program first */
        made = none;
    }
    *written = status == TN_OK ? made : NULL;
    return status;
}

/* Returns true if all indices are in [0, extent) and vary along at most one
 * outer dimension. If it returns false, the original program runs, which
 * reports an index that is out of range. */
static bool all_inside(const tn_launch *launch, const tn_launch_operand *at,
                       uint32_t row, int64_t extent)
{
    uint32_t own = row;
    for (uint32_t d = 0; d < launch->outer_ndim; d++)
        if (launch->extent[d] > 1 && at->stride[d] != 0) {
            if (own != row)
                return false;
            own = d;
        }
    const int64_t lines = own == row ? 1 : launch->extent[own];
    const int64_t *index =
        (const int64_t *)tn__cpu_at(at->buffer, at->offset, 8);
    for (int64_t i = 0; i < lines; i++, index += at->stride[own])
        for (int64_t t = 0; t < launch->extent[row]; t++)
            if ((uint64_t)index[t * at->stride[row]] >= (uint64_t)extent)
                return false;
    return true;
}

static bool launch_rows(tn_built *built, const tn_launch *launch,
                        tn_status *status)
{
    const cpu_row_taps *taps = &built->row_taps;
    const uint32_t outer = launch->outer_ndim;
    const int64_t *extent = launch->extent;
    const tn_launch_operand *in = &launch->operand[taps->in];
    const tn_launch_operand *index = &launch->operand[taps->index];
    if (launch->row_ndim != 1 || extent[outer] < 1 ||
        extent[outer] > TN_CPU_TAPS || in->stride[outer] != 0 ||
        tn__cpu_numel(extent, outer) < TN_CPU_LEAST_POINTS ||
        !all_inside(launch, index, outer, in->index_extent[0]))
        return false;
    const int count = (int)extent[outer];
    tn_launch_operand operand[2 + 2 * TN_CPU_TAPS];
    operand[0] = *in;
    for (int t = 0; t < count; t++) {
        tn_launch_operand *at = &operand[2 * t + 1], *weight = at + 1;
        *at = *index;
        at->offset += t * at->stride[outer];
        *weight = launch->operand[taps->weight];
        weight->offset += t * weight->stride[outer];
    }
    operand[2 * count + 1] = launch->operand[taps->out];
    tn_launch written = {.size = sizeof written};
    tn_struct_copy(&written, launch);
    written.row_ndim = 0;
    written.operand = operand;
    tn_built *program;
    *status = find_written(built, count, &program);
    if (*status != TN_OK)
        return true;
    const cpu_path *along = program->path[0];
    if (!along || !along->launch(program, &written, status))
        *status = tn__cpu_run(program, &written);
    return true;
}

const cpu_path tn__cpu_path_row_taps = {.name = "row taps",
                                        .recognise = tn__cpu_find_row_taps,
                                        .launch = launch_rows};
