/* print_scan.c: plans and texts of scans. Four ways: groups take chunks of lines, in
 * three steps where a line has several (scan_team.cl); a group takes a line of a
 * few chunks (scan_line.cl); a work-item takes a line, floating sums in the order
 * of chunks (scan_sum.cl), all else as it comes (scan.cl). For integers a single
 * pass with look-back would do; with three they share a text with floats. */
#include <source/primitive/primitive.h>

/* Flags: above WITH_INDEX the team's step, TK_STEP, or 0; or that a group has a
 * line. */
enum { WITH_INDEX = 1, STEP = 1, STEP_ALL = 3, STEP_LINE = 4 };
#define TEAM 64 /* work-items: TK_TEAM */
#define SHORT 32 /* a team would idle */
#define MOST_CHUNKS 8 /* of a line that a group takes */

/* Floating products are in rising order. Where elements of a line are apart
 * neighbouring lines most often are not: many of them are read well by a
 * work-item each. */
static bool suits_team(const tn__primitive *j, const tn_scan_args *s)
{
    const uint32_t last = s->ndim - 1;
    const tn_dtype type = tn__primitive_type(s->in.dtype);
    const bool apart = s->in.stride[last] != 1 && s->out.stride[last] != 1;
    const uint32_t most = TEAM * 2 * 17 * 16 + 2048; /* bytes of local memory */
    return !tn__primitive_is_chunked(j) && type != TN_BOOL &&
           !(s->kind == TN_REDUCE_PROD && tn__is_float(type)) &&
           s->extent[last] > SHORT &&
           !(apart && j->outer.count >= 256 * (int64_t)j->target->units) &&
           j->target->group_limit >= TEAM && j->target->local_bytes >= most;
}

/* Work-items of a group that takes a whole line of so many chunks; 0: it has
 * too many, or too few that groups of single chunks would leave anything to
 * gain. */
static uint32_t line_group(const tn__primitive *j, const tn_scan_args *s,
                           int64_t chunks)
{
    const uint32_t value =
        (uint32_t)tn_dtype_bytes(tn__primitive_type(s->in.dtype));
    uint32_t teams = 2;
    while (teams < MOST_CHUNKS && (int64_t)teams < chunks)
        teams *= 2;
    const uint32_t bytes = value * (teams * (1088 + TEAM) + 16);
    if (chunks < 2 || chunks > teams || s->out_index.buffer ||
        j->outer.count < j->target->units ||
        teams * TEAM > j->target->group_limit || bytes > j->target->local_bytes)
        return 0;
    return teams * TEAM;
}

tn_status tn__plan_scan(const tn_target *target, const tn_scan_args *s,
                        tn_plan *plan)
{
    tn__primitive j;
    uint32_t last = s->ndim - 1;
    int64_t length = s->extent[last];
    tn__primitive_init(&j, target, plan, TN__SCAN, s->in.dtype);
    j.v.kind = s->kind;
    j.v.flags = s->out_index.buffer ? WITH_INDEX : 0;
    tn__primitive_extents(&j, s->extent, s->ndim, last);
    tn__primitive_operand(&j, &s->in, last, length);
    tn__primitive_operand(&j, &s->out, last, length);
    tn__primitive_operand(
        &j, s->out_index.buffer ? &s->out_index : &s->out, last, length);
    tn__primitive_buffer(&j, s->in.buffer);
    tn__primitive_buffer(&j, s->out.buffer);
    if (s->out_index.buffer)
        tn__primitive_buffer(&j, s->out_index.buffer);
    tn__primitive_space(&j, length);
    tn__primitive_argument(&j, length);
    tn__primitive_argument(&j, s->in.stride[last]);
    tn__primitive_argument(&j, s->out.stride[last]);
    tn__primitive_argument(&j, s->out_index.stride[last]);
    if (length == 0)
        j.outer.count = 0;
    if (!suits_team(&j, s))
        return tn__primitive_end_lines(&j);
    const int64_t chunks = tn__device_divide_up(length, TN_CHUNK);
    const uint32_t group = line_group(&j, s, chunks);
    if (group) {
        j.v.flags |= STEP_LINE << STEP;
        j.v.group = group;
        return tn__primitive_end(&j, j.outer.count, 64);
    }
    const unsigned step = chunks > 1 ? plan->step + 1 : STEP_ALL;
    plan->step_count = chunks > 1 ? 3 : 1;
    plan->flags |= TN_PLAN_SCRATCH;
    plan->scratch_bytes = (uint64_t)(j.outer.count * chunks) *
                          (s->out_index.buffer ? 16 : 8);
    j.v.flags |= step << STEP;
    j.v.group = TEAM;
    return tn__primitive_end(
        &j, step == 2 ? j.outer.count : j.outer.count * chunks, 64);
}

const char *tn__define_scan(tn__text *text, const tn__variant *v,
                            const char *type)
{
    static const char *const name[] = {"add", "mul", "max", "min"};
    const unsigned step = v->flags >> STEP;
    const bool index = v->flags & WITH_INDEX;
    const bool is_float = tn__is_float(tn__primitive_type(v->dtype));
    const bool sums = v->kind == TN_REDUCE_SUM && is_float;
    tn__text_add(text, "#define TK_FOLD(x, y) tk_%s_%s((x), (y))\n",
                 name[v->kind], type);
    if (index) {
        const char *sign = v->kind == TN_REDUCE_MAX ? ">=" : "<=";
        tn__text_add(text, "#define TK_INDEX 1\n");
        if (is_float)
            tn__text_add(text,
                         "#define TK_TAKES(x, best) (tk_isnan_%s(x) || (x) %s "
                         "(best))\n", type, sign);
        else
            tn__text_add(text, "#define TK_TAKES(x, best) ((x) %s (best))\n",
                         sign);
    }
    if (step == STEP_LINE)
        tn__text_add(text, "#define TK_CHUNKS %u\n", v->group / TEAM);
    else if (step)
        tn__text_add(text, "#define TK_STEP %u\n", step);
    if (step || sums)
        tn__text_add(text, "%s", tn__device_text_of("scan_block.cl"));
    return step == STEP_LINE ? "scan_line.cl"
           : step            ? "scan_team.cl"
           : sums            ? "scan_sum.cl"
                             : "scan.cl";
}
