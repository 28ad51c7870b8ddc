/* print_scan.c: plans and prints scans (cumsum, cumprod, cummax, cummin). A
 * line is the elements that are scanned together. There are four kernels:
 *
 *   - scan_team.cl: a work-group has chunks of lines. If a line has several
 *     chunks, there are three launches.
 *   - scan_line.cl: a work-group has a line of a few chunks.
 *   - scan_sum.cl: a work-item has a line, for sums of floats in the order that
 *     plugin_primitives.h fixes.
 *   - scan.cl: a work-item has a line, in rising order.
 *
 * Integers could be scanned in a single pass (decoupled look-back). With three
 * launches, integers and floats share one source. */
#include <source/primitive/primitive.h>

/* Values of tn__variant.flags. Bit WITH_INDEX is set if the scan also returns
 * indices. The bits above it say which launch of scan_team.cl it is (TK_STEP),
 * or STEP_LINE for scan_line.cl; 0 for the other kernels. */
enum { WITH_INDEX = 1, STEP = 1, STEP_ALL = 3, STEP_LINE = 4 };
#define TEAM 64 /* number of work-items of a team, which share a chunk of a
                 * line */
#define SHORT 32 /* in a line of at most this length, most work-items of a team
                  * would be idle */
#define MOST_CHUNKS 8 /* largest number of chunks of a line in scan_line.cl */

/* Returns whether several work-items share a line. They cannot share it for
 * products of floats, which must be computed in rising order. They do not share
 * it if lines are strided and there are many. Neighbouring lines are then
 * usually adjacent in memory, so that a work-item for each line gives coalesced
 * accesses. */
static bool suits_team(const tn__primitive *p, const tn_scan_args *s)
{
    const uint32_t last = s->ndim - 1;
    const tn_dtype type = tn__primitive_type(s->in.dtype);
    const bool apart = s->in.stride[last] != 1 && s->out.stride[last] != 1;
    const uint32_t most = TEAM * 2 * 17 * 16 + 2048; /* bytes of local memory */
    return !tn__primitive_is_chunked(p) && type != TN_BOOL &&
           !(s->kind == TN_REDUCE_PROD && tn__is_float(type)) &&
           s->extent[last] > SHORT &&
           !(apart && p->outer.count >= 256 * (int64_t)p->target->units) &&
           p->target->group_limit >= TEAM && p->target->local_bytes >= most;
}

/* Returns the number of work-items of a work-group for scan_line.cl, which has
 * a whole line of `chunks` chunks. Returns 0 if that is too many chunks, or so
 * few that scan_team.cl is as fast. */
static uint32_t line_group(const tn__primitive *p, const tn_scan_args *s,
                           int64_t chunks)
{
    const uint32_t value =
        (uint32_t)tn_dtype_bytes(tn__primitive_type(s->in.dtype));
    uint32_t teams = 2;
    while (teams < MOST_CHUNKS && (int64_t)teams < chunks)
        teams *= 2;
    const uint32_t bytes = value * (teams * (1088 + TEAM) + 16);
    if (chunks < 2 || chunks > teams || s->out_index.buffer ||
        p->outer.count < p->target->units ||
        teams * TEAM > p->target->group_limit || bytes > p->target->local_bytes)
        return 0;
    return teams * TEAM;
}

tn_status tn__plan_scan(const tn_target *target, const tn_scan_args *s,
                        tn_plan *plan)
{
    tn__primitive p;
    uint32_t last = s->ndim - 1;
    int64_t length = s->extent[last];
    tn__primitive_init(&p, target, plan, TN__SCAN, s->in.dtype);
    p.v.kind = s->kind;
    p.v.flags = s->out_index.buffer ? WITH_INDEX : 0;
    tn__primitive_extents(&p, s->extent, s->ndim, last);
    tn__primitive_operand(&p, &s->in, last, length);
    tn__primitive_operand(&p, &s->out, last, length);
    tn__primitive_operand(&p, s->out_index.buffer ? &s->out_index : &s->out,
                          last, length);
    tn__primitive_buffer(&p, s->in.buffer);
    tn__primitive_buffer(&p, s->out.buffer);
    if (s->out_index.buffer)
        tn__primitive_buffer(&p, s->out_index.buffer);
    tn__primitive_space(&p, length);
    tn__primitive_argument(&p, length);
    tn__primitive_argument(&p, s->in.stride[last]);
    tn__primitive_argument(&p, s->out.stride[last]);
    tn__primitive_argument(&p, s->out_index.stride[last]);
    if (length == 0)
        p.outer.count = 0;
    if (!suits_team(&p, s))
        return tn__primitive_end_lines(&p);
    const int64_t chunks = tn__divide_up(length, TN_CHUNK);
    const uint32_t group = line_group(&p, s, chunks);
    if (group) {
        p.v.flags |= STEP_LINE << STEP;
        p.v.group = group;
        return tn__primitive_end(&p, p.outer.count, 64);
    }
    const unsigned step = chunks > 1 ? plan->step + 1 : STEP_ALL;
    plan->step_count = chunks > 1 ? 3 : 1;
    plan->flags |= TN_PLAN_SCRATCH;
    plan->scratch_bytes =
        (uint64_t)(p.outer.count * chunks) * (s->out_index.buffer ? 16 : 8);
    p.v.flags |= step << STEP;
    p.v.group = TEAM;
    return tn__primitive_end(
        &p, step == 2 ? p.outer.count : p.outer.count * chunks, 64);
}

const char *tn__define_scan(tn__text *text, const tn__variant *v,
                            const char *type)
{
    static const char *const name[] = {"add", "mul", "max", "min"};
    const unsigned step = v->flags >> STEP;
    const bool index = v->flags & WITH_INDEX;
    const bool is_float = tn__is_float(tn__primitive_type(v->dtype));
    const bool sums = v->kind == TN_REDUCE_SUM && is_float;
    tn__text_add(text, "#define TK_COMBINE(x, y) tk_%s_%s((x), (y))\n",
                 name[v->kind], type);
    if (index) {
        const char *sign = v->kind == TN_REDUCE_MAX ? ">=" : "<=";
        tn__text_add(text, "#define TK_INDEX 1\n");
        if (is_float)
            tn__text_add(text,
                         "#define TK_REPLACES(x, best) "
                         "(tk_isnan_%s(x) || (x) %s (best))\n",
                         type, sign);
        else
            tn__text_add(text, "#define TK_REPLACES(x, best) ((x) %s (best))\n",
                         sign);
    }
    if (step == STEP_LINE)
        tn__text_add(text, "#define TK_CHUNKS %u\n", v->group / TEAM);
    else if (step)
        tn__text_add(text, "#define TK_STEP %u\n", step);
    if (step || sums)
        tn__text_add(text, "%s", tn__source_text("scan_block.cl"));
    return step == STEP_LINE ? "scan_line.cl"
           : step            ? "scan_team.cl"
           : sums            ? "scan_sum.cl"
                             : "scan.cl";
}
